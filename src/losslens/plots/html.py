"""Results as notebooks show them: a table and a small picture, in one piece of HTML."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from losslens.curves import Effects
from losslens.importances import FeatureImportance, Importances
from losslens.plots.feature import plot_effect, plot_importance
from losslens.plots.ranking import plot_ranking
from losslens.plots.shapley import plot_shapley
from losslens.plots.shapley_effect import plot_shapley_effect
from losslens.results import in_digits
from losslens.shapley_effects import ShapleyEffect
from losslens.shapley_results import ShapleyImportance

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


def show(result: Importances | FeatureImportance | ShapleyImportance | Effects | ShapleyEffect) -> str:
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
    if isinstance(result, Importances):
        return _importances(result)
    if isinstance(result, FeatureImportance):
        return _feature(result)
    if isinstance(result, ShapleyImportance):
        return _shapley(result)
    if isinstance(result, Effects):
        return _effects(result)
    if isinstance(result, ShapleyEffect):
        return _shapley_effect(result)
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
    return View(
        f"Importances: {result.headline}", head, lines, result.notes, _on_one(plot_ranking, result), _rows(len(lines))
    )


def _numbers(feature: FeatureImportance) -> tuple[str, str, str]:
    """Importance, standard error and interval."""
    return _number(lambda: feature.pfi), _number(lambda: feature.std_error), _interval(feature)


def _feature(result: FeatureImportance) -> View:
    number, error, ends = _numbers(result)
    lines = [
        ["importance (PFI)", "curves only" if number == NONE else number],
        ["std. error", error],
        ["95% interval", ends],
        ["error, nothing replaced", _number(lambda: result.error)],
        ["rows", f"{len(result.at):,}"],
        ["values", " × ".join(f"{len(values):,}" for values in result.values)],
    ]
    kind = "exact over all pairs" if result.exact else f"sampled with {result.design!r}"
    title = f"{result.name}: increase in {result.loss.title}"
    draw = _on_one(plot_importance, result)
    return View(title, ("", ""), lines, [f"{kind}; {result.engine}"], draw, (5.2, 3.6))


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
    return View(title, head, lines, result.notes, _on_one(plot_shapley, result), _rows(len(lines)))


def _effects(result: Effects) -> View:
    lines = [
        [f.name, f"{len(f.at):,}", " × ".join(f"{len(values):,}" for values in f.values), repr(f.design)]
        for f in result.values()
    ]
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
    return View(title, head, lines, result.notes, _on_one(plot_shapley_effect, result), _rows(int(1.5 * len(lines))))


def _on_one(plot: Callable[..., object], result: Any) -> Draw:
    return lambda figure: plot(result, ax=figure.add_subplot())


def _rows(rows: int) -> tuple[float, float]:
    """A picture with so many rows of text."""
    return 5.2, 1.7 + 0.27 * min(rows, MOST_BARS)


def _number(ask: Callable[[], float]) -> str:
    """A number, or a dash where there is none."""
    try:
        value = float(ask())
    except ValueError:
        return NONE
    return in_digits(value) if np.isfinite(value) else NONE


def _interval(feature: FeatureImportance) -> str:
    try:
        low, high = feature.interval()
    except ValueError:
        return NONE
    if not np.isfinite([low, high]).all():
        return NONE
    return f"{in_digits(low)} to {in_digits(high)}"
