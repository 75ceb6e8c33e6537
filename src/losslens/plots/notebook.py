"""What is shown of a result in a notebook, and how its numbers read.

Views of what was found about rows, refits and tests.

Results as notebooks show them: a table and a small picture, in one piece of HTML."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from html import escape
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from losslens.plots.bars import plot_extrapolation, plot_ranking
from losslens.plots.comparison import plot_comparison
from losslens.plots.feature import plot_effect, plot_importance
from losslens.plots.interactions import plot_interactions
from losslens.plots.refits import plot_impact, plot_permuted_target, plot_refit_curve, plot_refits
from losslens.plots.rows import plot_clusters, plot_observations, plot_row_influence
from losslens.plots.shapley import plot_shapley, plot_shapley_curve
from losslens.plots.shapley_effect import plot_shapley_effect
from losslens.plots.wording import value_label
from losslens.results.breiman import BreimanImportance
from losslens.results.clusters import Clusters
from losslens.results.comparison import Comparison
from losslens.results.effects import Effects, FeatureEffect
from losslens.results.extrapolation import Extrapolations
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.interactions import Interactions
from losslens.results.observations import Observations
from losslens.results.permuted_target import PermutedTarget
from losslens.results.refits import RefitCurve, Refits
from losslens.results.regions import Regions
from losslens.results.row_changes import RowChanges
from losslens.results.row_influence import RowInfluence
from losslens.results.scores import FeatureScore
from losslens.results.shapley import ShapleyImportance
from losslens.results.shapley_curve import ShapleyCurve
from losslens.results.shapley_effect import ShapleyEffect
from losslens.text import in_digits

Draw = Callable[[Figure], object]
MOST_LINES = 40  # of a table
MOST_BARS = 15  # rows of text in a picture
MOST_EFFECTS = 6  # small pictures beside each other
ACROSS = 3  # of them in one line
DPI = 100
NONE = "\N{EN DASH}"


class View(NamedTuple):
    """What is shown of a result: a title, a table, small print, and how to draw it."""

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str]
    draw: Draw
    size: tuple[float, float]  # of the picture, in inches


def on_one(plot: Callable[..., object], result: Any) -> Draw:
    """A picture of one plot."""
    return lambda figure: plot(result, ax=figure.add_subplot())


def picture_of(rows: int) -> tuple[float, float]:
    """A picture with so many rows of text."""
    return 5.2, 1.7 + 0.27 * min(rows, MOST_BARS)


def sizes(values: Sequence[NDArray[Any]]) -> str:
    """How many values a grid has."""
    return " × ".join(f"{len(some):,}" for some in values)


def shown_number(ask: Callable[[], float]) -> str:
    """A number, or a dash where there is none."""
    try:
        value = float(ask())
    except ValueError:
        return NONE
    return in_digits(value) if np.isfinite(value) else NONE


def interval(feature: FeatureImportance) -> str:
    """Both ends, or a dash where there are none."""
    try:
        low, high = feature.interval()
    except ValueError:
        return NONE
    if not np.isfinite([low, high]).all():
        return NONE
    return f"{in_digits(low)} to {in_digits(high)}"


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


def show(result: Any) -> str:
    """The table of a result beside a small picture of it, as HTML; leaves no figure behind.

    Parameters
    ----------
    result
        What one of the verbs gives, or one feature of it.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, X[:, 1], loss="squared_error")
    >>> show(imp).startswith("<div>") and "data:image/png;base64," in show(imp)
    True
    """
    view = _view(result)
    table = f"<table><thead>{_line(view.head, 'th')}</thead><tbody>{''.join(map(_line, view.lines[:MOST_LINES]))}"
    notes = list(view.notes)
    if len(view.lines) > MOST_LINES:
        notes.insert(0, f"{len(view.lines) - MOST_LINES:,} more not shown; to_frame() has all")
    small = "".join(f"<div><small>{escape(note)}</small></div>" for note in notes)
    parts = [f"<div>{table}</tbody></table></div>", _picture(view)]
    beside = "display: flex; flex-wrap: wrap; gap: 1.5em; align-items: flex-start"
    return f'<div><p><b>{escape(view.title)}</b></p><div style="{beside}">{"".join(parts)}</div>{small}</div>'


def _view(result: Any) -> View:
    for kind, view in VIEWS:
        if isinstance(result, kind):
            return view(result)
    raise TypeError(f"there is no table for {type(result).__name__}")


def _line(cells: Sequence[str], kind: str = "td") -> str:
    first, *others = (escape(cell) for cell in cells)
    left = f'<{kind} style="text-align: left">{first}</{kind}>'
    return f"<tr>{left}{''.join(f'<{kind}>{cell}</{kind}>' for cell in others)}</tr>"


def _picture(view: View) -> str:
    """An image in the page itself; nothing where there is nothing to draw."""
    figure = Figure(figsize=view.size, layout="constrained")  # not pyplot's: it would stay open
    FigureCanvasAgg(figure)
    page = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks is no reason for a page of warnings
        try:
            view.draw(figure)
        except ValueError:  # curves that are not known, or nothing to rank by: the table says so
            return ""
        figure.savefig(page, format="png", dpi=DPI)
    code = base64.b64encode(page.getvalue()).decode("ascii")
    return f'<img alt="{escape(view.title)}" src="data:image/png;base64,{code}">'


# -- one kind of result after the other -------------------------------------------------------------------------------


def _importances(result: Importances) -> View:
    lines = []
    for feature in result._ranked:
        number, error, ends = _numbers(feature)
        lines.append([feature.name, "curves only" if number == NONE else number, error, ends])
    head = ("feature", "importance", "std. error", "95% interval")
    shown = {one.name: one.extrapolation for one in result._ranked[:MOST_BARS]}
    warning = Extrapolations({name: one for name, one in shown.items() if one is not None}).note
    notes = [*result.notes, *([warning] if warning else [])]
    return View(
        f"Importances: {result.headline}", head, lines, notes, on_one(plot_ranking, result), picture_of(len(lines))
    )


def _numbers(feature: FeatureImportance) -> tuple[str, str, str]:
    """Importance, standard error and interval."""
    return shown_number(lambda: feature.pfi), shown_number(lambda: feature.std_error), interval(feature)


def _feature(result: FeatureImportance) -> View:
    pfi, error, ends = _numbers(result)
    lines = [
        ["importance (PFI)", "curves only" if pfi == NONE else pfi],
        ["std. error", error],
        ["95% interval", ends],
        ["error, nothing replaced", shown_number(lambda: result.error)],
        ["rows", f"{len(result.at):,}"],
        ["values", sizes(result.values)],
    ]
    kind = "exact over all pairs" if result.exact else f"sampled with {result.design!r}"
    title = f"{result.name}: increase in {result.loss.title}"
    draw = on_one(plot_importance, result)
    notes, told = [f"{kind}; {result.engine}"], result.extrapolation
    if told is not None and told.warns:
        notes.append(told.sentence)
    return View(title, ("", ""), lines, notes, draw, (5.2, 3.6))


def _shapley(result: ShapleyImportance) -> View:
    order = result._order
    errors = result._or_nan(lambda: result.std_error, np.full(len(order), np.nan))
    whole = max(result._whole, 0.0)  # parts of a loss would turn the signs
    lines = [
        [
            result.features[j],
            in_digits(float(result.sfimp[j])),
            in_digits(float(errors[j])) if np.isfinite(errors[j]) else NONE,
            f"{result.sfimp[j] / whole:.1%}" if whole else NONE,
        ]
        for j in order
    ]
    head = ("feature", "SFIMP", "std. error", "share")
    title = f"ShapleyImportance: {result.headline}"
    return View(title, head, lines, result.notes, on_one(plot_shapley, result), picture_of(len(lines)))


def _score(result: FeatureScore) -> View:
    lines = [
        ["importance", shown_number(lambda: result.pfi)],
        ["score, nothing replaced", in_digits(result.score)],
        ["values", sizes(result.values)],
    ]
    title = f"{result.name}: decrease in {result.title}"
    notes = [f"{result.design!r}; {result.engine}"]
    return View(title, ("", ""), lines, notes, on_one(plot_importance, result), (5.2, 3.6))


def _breiman(result: BreimanImportance) -> View:
    order = np.argsort(-result.importance, kind="stable")
    columns = (result.importance, result.std_error, result.scaled)
    lines = [
        [result.features[j], *(in_digits(float(some[j])) if np.isfinite(some[j]) else NONE for some in columns)]
        for j in order
    ]
    head = ("feature", "importance", "std. error over trees", "scaled")
    title = f"BreimanImportance: {result.headline}"

    def draw(figure: Figure) -> None:
        result.plot(figure.add_subplot())

    return View(title, head, lines, result.notes, draw, picture_of(len(lines)))


def _interactions(result: Interactions) -> View:
    low, high = result.intervals()
    lines = [
        [f"{result.features[j]}, {result.features[k]}"]
        + [in_digits(float(some[j, k])) if np.isfinite(some[j, k]) else NONE for some in (result.index, low, high)]
        for j, k in result._pairs
    ]
    title = f"Interactions: {result.headline}"
    size = (5.6, 2.2 + 0.27 * min(len(result.features), MOST_BARS))
    head = ("pair", "interaction", "95% from", "to") if result._known else ("pair", "interaction")
    lines = [line[: len(head)] for line in lines]
    return View(title, head, lines, result.notes, on_one(plot_interactions, result), size)


def _shapley_curve(result: ShapleyCurve) -> View:
    place = int(np.argmax(result.importance))
    holders = "rows that hold the value" if result.by == "own" else "donors that lend the value"
    lines = [
        ["SFIMP, the mean", in_digits(result.sfimp)],
        ["smallest", in_digits(float(result.importance.min()))],
        ["largest", in_digits(float(result.importance.max()))],
        ["largest at", ", ".join(map(value_label, np.atleast_1d(result.grid[place])))],
        ["values", f"{len(result.weights):,}"],
    ]
    title = f"{result.name}: decrease in {result.title} along its values"
    notes = [f"means over the {holders}"]
    return View(title, ("", ""), lines, notes, on_one(plot_shapley_curve, result), (5.2, 3.6))


def _effect(result: FeatureEffect) -> View:
    lines = [
        ["smallest of the PD curve", shown_number(lambda: float(np.nanmin(result.pd)))],
        ["largest of the PD curve", shown_number(lambda: float(np.nanmax(result.pd)))],
        ["rows", f"{len(result.at):,}"],
        ["values", sizes(result.values)],
    ]
    of = "" if result.target is None else f" for class {result.target}"
    notes = [f"{result.design!r}; {result.engine}"]
    draw = on_one(plot_effect, result)
    return View(f"{result.name}: prediction{of}", ("", ""), lines, notes, draw, (5.2, 3.6))


def _effects(result: Effects) -> View:
    lines = [[f.name, f"{len(f.at):,}", sizes(f.values), repr(f.design)] for f in result.values()]
    drawn = list(result.values())[:MOST_EFFECTS]
    across = min(ACROSS, len(drawn))
    down = -(-len(drawn) // across)

    def draw(figure: Figure) -> None:
        for place, feature in enumerate(drawn):
            plot_effect(feature, ax=figure.add_subplot(down, across, place + 1))

    notes = [f"{len(drawn)} of {len(result)} drawn"] if len(drawn) < len(result) else []
    return View("Effects", ("feature", "rows", "values", "design"), lines, notes, draw, (3.6 * across, 3.0 * down))


def _shapley_effect(result: ShapleyEffect) -> View:
    alone = len(result.local) == 1
    shown = result.local[0] if alone else result.importance
    order = np.argsort(-np.abs(shown), kind="stable")
    lines = [[result.features[j], in_digits(float(shown[j]))] for j in order]
    if alone:
        lines = [
            ["mean over donors", in_digits(float(result.base[0]))],
            *lines,
            ["prediction", in_digits(float(result.prediction[0]))],
        ]
    head = ("feature", "effect" if alone else "mean size of the effect")
    title = f"ShapleyEffect: {result.headline}"
    return View(
        title, head, lines, result.notes, on_one(plot_shapley_effect, result), picture_of(int(1.5 * len(lines)))
    )


# The first that fits: what one of the verbs gives, or one feature of it.
VIEWS: tuple[tuple[type, Callable[[Any], View]], ...] = (
    (Extrapolations, extrapolations),
    (Importances, _importances),
    (FeatureImportance, _feature),
    (FeatureScore, _score),
    (ShapleyImportance, _shapley),
    (ShapleyCurve, _shapley_curve),
    (Interactions, _interactions),
    (BreimanImportance, _breiman),
    (Effects, _effects),
    (FeatureEffect, _effect),
    (ShapleyEffect, _shapley_effect),
    (Refits, refits),
    (RefitCurve, refit_curve),
    (PermutedTarget, row_tests),
    (RowChanges, row_tests),
    (Comparison, comparison),
    (Regions, regions),
    (RowInfluence, row_influence),
    (Observations, observations),
    (Clusters, clusters),
)
