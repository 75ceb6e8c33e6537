"""Results as notebooks show them: a table and a small picture, in one piece of HTML."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from losslens.breiman_results import BreimanImportance
from losslens.cluster_results import Clusters
from losslens.comparisons import Comparison
from losslens.curves import Effects, FeatureEffect
from losslens.extrapolation import Extrapolations
from losslens.impact_results import RowChanges
from losslens.importance import FeatureImportance
from losslens.importances import Importances
from losslens.interactions import Interactions
from losslens.null_results import PermutedTarget
from losslens.observation_results import Observations
from losslens.plots.feature import plot_effect, plot_importance
from losslens.plots.found_views import (
    clusters,
    comparison,
    extrapolations,
    observations,
    refit_curve,
    refits,
    regions,
    row_influence,
    row_tests,
)
from losslens.plots.interactions import plot_interactions
from losslens.plots.ranking import plot_ranking
from losslens.plots.shapley import plot_shapley, plot_shapley_curve
from losslens.plots.shapley_effect import plot_shapley_effect
from losslens.plots.views import (
    ACROSS,
    DPI,
    MOST_BARS,
    MOST_EFFECTS,
    MOST_LINES,
    NONE,
    View,
    interval,
    number,
    on_one,
    picture_of,
    sizes,
)
from losslens.plots.wording import value_label
from losslens.refit_results import RefitCurve, Refits
from losslens.region_results import Regions
from losslens.results import in_digits
from losslens.row_influence import RowInfluence
from losslens.scores import FeatureScore
from losslens.shapley_curves import ShapleyCurve
from losslens.shapley_effects import ShapleyEffect
from losslens.shapley_results import ShapleyImportance


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
    return number(lambda: feature.pfi), number(lambda: feature.std_error), interval(feature)


def _feature(result: FeatureImportance) -> View:
    pfi, error, ends = _numbers(result)
    lines = [
        ["importance (PFI)", "curves only" if pfi == NONE else pfi],
        ["std. error", error],
        ["95% interval", ends],
        ["error, nothing replaced", number(lambda: result.error)],
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
        ["importance", number(lambda: result.pfi)],
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
        ["smallest of the PD curve", number(lambda: float(np.nanmin(result.pd)))],
        ["largest of the PD curve", number(lambda: float(np.nanmax(result.pd)))],
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
