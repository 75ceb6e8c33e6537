"""Views of what was found about rows, refits and tests."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from matplotlib.figure import Figure

from losslens.cluster_results import Clusters
from losslens.comparisons import Comparison
from losslens.extrapolation import Extrapolations
from losslens.impact_results import RowChanges
from losslens.null_results import PermutedTarget
from losslens.observation_results import Observations
from losslens.plots.compared import plot_comparison
from losslens.plots.observed import plot_clusters, plot_observations, plot_row_influence
from losslens.plots.ranking import plot_extrapolation
from losslens.plots.refitted import plot_impact, plot_permuted_target, plot_refit_curve, plot_refits
from losslens.plots.views import MOST_BARS, NONE, View, on_one, picture_of
from losslens.plots.wording import value_label
from losslens.refit_results import RefitCurve, Refits
from losslens.region_results import Regions
from losslens.results import in_digits
from losslens.row_influence import RowInfluence


def extrapolations(result: Extrapolations) -> View:
    """How far replaced rows are from real ones."""
    order = sorted(result.values(), key=lambda one: -np.nan_to_num(one.auc))
    lines = [[one.name, f"{one.auc:.2f}", f"{one.share:.1%}", ", ".join(one.ties) or NONE] for one in order]
    title = f"Extrapolations: {len(result.warned)} of {len(result)} features warn"
    head = ("feature", "AUC", "unlike any real row", "tied to")
    return View(title, head, lines, [], on_one(plot_extrapolation, result), picture_of(len(lines)))


def refits(result: Refits) -> View:
    """Importances over refits."""
    low, high = result.interval()
    order = np.argsort(-result.importance, kind="stable")
    lines = [
        [
            result.features[j],
            in_digits(float(result.importance[j])),
            in_digits(float(result.std_error[j])),
            f"{in_digits(float(low[j]))} to {in_digits(float(high[j]))}",
            in_digits(float(result.spread[j])),
        ]
        for j in order
    ]
    head = ("feature", "importance", "std. error", "95% interval", "spread of folds")
    notes = ["errors and intervals are about the learner, refitted on new data"]
    return View(f"Refits: {result.headline}", head, lines, notes, on_one(plot_refits, result), picture_of(len(lines)))


def refit_curve(result: RefitCurve) -> View:
    """A PI curve over refits."""
    mean = result.importance
    place = int(np.nanargmax(mean))
    lines = [
        ["smallest", in_digits(float(np.nanmin(mean)))],
        ["largest", in_digits(float(mean[place]))],
        ["largest at", value_label(result.grid[place])],
        ["folds", f"{len(result.folds):,}"],
    ]
    title = f"{result.name}: {result.what} along its values"
    return View(title, ("", ""), lines, ["mean over the folds"], on_one(plot_refit_curve, result), (5.2, 3.6))


def row_tests(result: PermutedTarget | RowChanges) -> View:
    """Importances that rows alone test."""
    test = isinstance(result, PermutedTarget)
    order = np.argsort(-result.importance, kind="stable")
    lines = [[result.features[j], in_digits(float(result.importance[j])), NONE] for j in order]
    with suppress(ValueError):  # two rows have no test
        p = result.p_values if isinstance(result, PermutedTarget) else result.estimates.p_values()
        lines = [[*line[:2], f"{p[j]:.3g}"] for j, line in zip(order, lines, strict=True)]
    draw = on_one(plot_permuted_target if test else plot_impact, result)
    notes = ["each p by itself; .test() adjusts for the number of features"]
    title = f"{type(result).__name__}: {result.headline}"
    return View(title, ("feature", "importance", "p"), lines, notes, draw, picture_of(len(lines) + 2))


def comparison(result: Comparison) -> View:
    """Models beside each other."""
    order = sorted(result.features, key=lambda f: -max(found[f].pfi for found in result.importances.values()))
    models = result.importances.values()
    lines = [["error", *(in_digits(found.error) for found in models)]]
    lines += [[name, *(in_digits(found[name].pfi) for found in models)] for name in order]
    head = ("", *result.names)
    notes = [".differences() says what surely differs"]
    draw, size = on_one(plot_comparison, result), picture_of(len(lines) * (1 + len(result.names) // 2))
    return View(f"Comparison: {result.headline}", head, lines, notes, draw, size)


def regions(result: Regions) -> View:
    """Rules, and the importance where they hold."""
    lines = [
        [
            region.feature if not region.rule else f"{NONE * region.depth} {region.rule}",
            in_digits(region.pfi),
            f"{in_digits(region.low)} to {in_digits(region.high)}" if np.isfinite(region.low) else NONE,
            f"{region.n:,}",
            f"{region.p:.2g}" if np.isfinite(region.p) else NONE,
        ]
        for region in result.regions
    ]

    def draw(figure: Figure) -> None:
        name = None if result.found else next(iter(result.features))  # without regions: the curve of all rows
        result.plot(name, ax=figure.add_subplot())

    head = ("region", "importance", "95% interval", "rows", "p")
    notes = ["numbers are of rows that took no part in finding the rules; p: against the other side"]
    return View(f"Regions: {' '.join(result.sentences) or 'none'}", head, lines, notes, draw, (5.2, 3.6))


def row_influence(result: RowInfluence) -> View:
    """The rows that move an importance most."""
    columns = (result.total, result.as_row, result.as_donor)
    lines = [
        [f"{i:,}", *(in_digits(float(some[i])) if np.isfinite(some[i]) else NONE for some in columns)]
        for i in result.order[:MOST_BARS].tolist()
    ]
    head = ("row", "influence", "as a row", "as a donor")
    notes = ["above 0: the feature would matter less without the row; to_frame() has all"]
    draw = on_one(plot_row_influence, result)
    return View(f"RowInfluence: {result.headline}", head, lines, notes, draw, (5.2, 3.8))


def observations(result: Observations) -> View:
    """The rows that the model helps least."""
    flagged = set(result.suspicious.tolist())
    order = np.argsort(result.importance, kind="stable")[:MOST_BARS].tolist()
    numbers = [[in_digits(float(some[i])) for some in (result.importance, result.loss)] for i in order]
    lines = [[f"{i:,}", *some, "yes" if i in flagged else ""] for i, some in zip(order, numbers, strict=True)]
    notes = ["the rows that the model's knowledge helps least; to_frame() has all"]
    head, draw = ("row", "importance", "loss", "suspicious"), on_one(plot_observations, result)
    return View(f"Observations: {result.headline}", head, lines, notes, draw, (5.2, 3.8))


def clusters(result: Clusters) -> View:
    """Rows that the model knows alike."""
    found = zip(result.sizes.tolist(), result.rules, result.cluster_stability.tolist(), strict=True)
    lines = [
        [f"{c}", f"{n:,}", rule or NONE, f"{stable:.2f}" if np.isfinite(stable) else NONE]
        for c, (n, rule, stable) in enumerate(found)
    ]
    notes = [f"stability {result.stability:.2f}; {result.described:.0%} of rows described"] if result.k > 1 else []
    draw, size = on_one(plot_clusters, result), (6.4, 2.4 + 0.9 * result.k)
    return View(f"Clusters: {result.headline}", ("cluster", "rows", "rule", "stability"), lines, notes, draw, size)
