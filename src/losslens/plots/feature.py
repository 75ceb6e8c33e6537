"""What a picture of one feature shows, whatever kind of result it comes from.

A group of columns has no axis to draw a curve over: a histogram of what there is for each row instead.

Pictures of one feature: which kind fits its grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from losslens.cells.matrix import curves
from losslens.donors.layout import CommonGrid, OwnDonors
from losslens.plots.canvas import BLUE, INK, SKY, caption, legend, make_room, new_axes, plain_frame, value_ticks
from losslens.plots.dots import draw_dots
from losslens.plots.heatmap import draw_heatmap
from losslens.plots.lines import EXTREMES, draw_lines
from losslens.plots.scale import is_flag
from losslens.plots.wording import count, number, shorten
from losslens.results.effects import FeatureEffect
from losslens.results.extrapolation import Extrapolation
from losslens.results.feature import FeatureResult
from losslens.results.importance import FeatureImportance
from losslens.results.scores import FeatureScore
from losslens.typing import Floats, Indices

MOST_CURVES = 200  # single curves in a picture: more of them only blacken the paper
MOST_VALUES = 1000  # grid values of a pale curve: as many as a picture has pixels


@dataclass(frozen=True, eq=False)
class Singles:
    """The rows behind the mean: their cells, who met whom, and the mean of each row's cells."""

    result: FeatureResult
    cells: Floats  # (r, c)
    integral: Floats  # (r,): local importances; NaN where a row met nobody
    integral_name: str
    name: str  # ICI or ICE

    @property
    def rows(self) -> Indices:
        """Positions of the kept rows among those that were explained: their names."""
        return self.result.cells.rows

    @property
    def weight(self) -> Floats:
        """How much each kept row counts."""
        return self.result.sample.weight[self.rows]

    def curves(self, chosen: Indices) -> Floats:
        """The curves of some kept rows, (len(chosen), g); NaN at values that they never met."""
        result = self.result
        return np.asarray(curves(self.cells[chosen], result.meeting, result.sample, self.rows[chosen]), float)

    def points(self, chosen: Indices) -> tuple[Indices, Floats, Floats]:
        """The cells of some kept rows one by one: grid position, value, weight of the row."""
        result, rows = self.result, self.rows[chosen]
        met = np.broadcast_to(_lent(result, rows) > 0, self.cells[chosen].shape)
        weight = np.broadcast_to(self.weight[chosen][:, None], met.shape)
        return result.meeting.places(rows)[met], self.cells[chosen][met], weight[met]

    def by_value(self, values: Indices) -> list[tuple[Floats, Floats]]:
        """The cells of all kept rows at each of these grid positions, and the weights of their rows."""
        if isinstance(self.result.meeting, CommonGrid):
            return [(self.cells[:, k], self.weight) for k in values]
        where, cells, weight = self.points(np.arange(len(self.rows)))
        return [(cells[where == k], weight[where == k]) for k in values]

    def thinned(self) -> Indices:
        """At most `MOST_CURVES` rows, evenly along the order of their integrals: both extremes are among them."""
        order = np.argsort(self.integral)[: np.isfinite(self.integral).sum()]
        if len(order) <= MOST_CURVES:
            return order
        return order[np.linspace(0, len(order) - 1, MOST_CURVES).round().astype(np.intp)]

    def extremes(self) -> list[int]:
        """The rows with the largest and the smallest integral; none where all are alike."""
        known = self.integral[np.isfinite(self.integral)]
        if len(known) < 2 or known.min() == known.max():
            return []
        return [int(np.nanargmax(self.integral)), int(np.nanargmin(self.integral))]

    def title(self, shown: int) -> str:
        """How many of the rows are drawn."""
        explained = len(self.result.at)
        return f"{self.name}, " + (f"{shown:,} of " if shown < explained else "") + count(explained, "row")

    def label(self, position: int, place: str) -> str:
        """A highlighted row by its name."""
        kept = "" if self.result.complete else "kept "
        return f"row {self.rows[position]}: {place} {kept}{self.integral_name}, {number(self.integral[position])}"


@dataclass(frozen=True, eq=False)
class FeaturePicture:
    """A curve over a grid and what belongs to it."""

    name: str
    columns: tuple[str, ...]
    values: tuple[NDArray[Any], ...]
    ordered: bool
    curve: Floats  # (g,), or (g1, g2) for a pair
    curve_name: str  # PI or PD
    weights: Floats | None  # (g,)
    axis: str  # what the curve measures
    level: float | None = None  # its mean, the PFI
    from_zero: bool = True  # whether zero means something
    singles: Singles | None = None
    scattered: bool = False  # each value was met by few rows: an estimate a value, not a curve
    design: str = ""
    extrapolation: Extrapolation | None = None

    @property
    def faded(self) -> NDArray[np.bool_]:
        """Where the curve stands mostly on rows that are unlike any real one, (g,)."""
        if self.extrapolation is None or len(self.values) == 2 or self.values[0].ndim > 1:
            return np.zeros(self.curve.shape, bool)
        return self.extrapolation.on(self.values[0]).faded

    def warning(self, look: str) -> list[str]:
        """What to say of that under the picture; `look`: what the faded part looks like."""
        if self.extrapolation is None or not self.extrapolation.warns:
            return []
        if self.faded.any():
            all_told = f"{self.extrapolation.percent} of all"
            return [f"{look}: over half of the rows there are unlike any real one ({all_told})"]
        if self.extrapolation.share < 0.01:
            return []
        return [f"{self.extrapolation.percent} of the replaced rows are unlike any real one"]

    @property
    def title(self) -> str:
        """The feature's name as an axis label."""
        return shorten(self.name, 60)


def show(result: FeatureImportance | FeatureScore | FeatureEffect) -> FeaturePicture:
    """What there is to draw of a result."""
    if isinstance(result, FeatureScore):
        return _score(result)
    return _importance(result) if isinstance(result, FeatureImportance) else _effect(result)


def _score(result: FeatureScore) -> FeaturePicture:
    return FeaturePicture(
        result.name, result.columns, result.values, result.ordered, result.pi, "PI", result.shares,
        f"decrease in {result.title}",
    )  # fmt: skip


def _importance(result: FeatureImportance) -> FeaturePicture:
    assert result.cells.changes is not None  # a FeatureImportance is judged
    local = result.means.local
    if local is not None:
        integral, name = local[result.rows], "local importance"
    else:
        integral, name = _row_means(result, result.cells.changes), "mean over the grid"
    return FeaturePicture(
        result.name, result.columns, result.values, result.ordered, result.pi, "PI", result.means.weights,
        f"increase in {result.loss.title}",
        level=None if local is None else result.pfi,
        singles=Singles(result, result.cells.changes, integral, name, "ICI"),
        scattered=_scattered(result),
        design=repr(result.design),
        extrapolation=result.extrapolation,
    )  # fmt: skip


def _effect(result: FeatureEffect) -> FeaturePicture:
    cells = np.asarray(result.cells.predictions, float)
    return FeaturePicture(
        result.name, result.columns, result.values, result.ordered, result.pd, "PD", result.means.weights,
        "prediction" if result.target is None else f"prediction for class {shorten(result.target, 30)}",
        from_zero=False,
        singles=Singles(result, cells, _row_means(result, cells), "mean prediction", "ICE"),
        scattered=_scattered(result),
        design=repr(result.design),
        extrapolation=result.extrapolation,
    )  # fmt: skip


def _scattered(result: FeatureResult) -> bool:
    return isinstance(result.meeting, OwnDonors) and not result.meeting.binned


def _lent(result: FeatureResult, rows: Indices) -> Floats:
    """How much the cells of these rows count, (1, c) or (b, c); alike where no donor says."""
    if result.meeting.has_mass:
        return result.meeting.weights(result.sample, rows)
    return np.ones((1, result.meeting.width))


def _row_means(result: FeatureResult, cells: Floats) -> Floats:
    lent = _lent(result, result.cells.rows)
    with np.errstate(invalid="ignore"):  # 0 / 0: a row that met nobody
        if len(lent) == 1 and isinstance(result.meeting, CommonGrid):
            return np.asarray(cells @ lent[0] / lent.sum())
        return np.asarray((cells * lent).sum(axis=1) / lent.sum(axis=1))


MOST_BINS = 40
HELD = (0.02, 0.98)  # the axis reaches from one quantile of the local importances to the other


def draw_group(shown: FeaturePicture, ax: Axes) -> None:
    """Importances: the local ones, a row each. Effects and scores: the curve's own values."""
    members = shorten(", ".join(shown.columns), 60)
    notes = [f"{shown.title} is {count(len(shown.columns), 'column')} ({members}) without a common axis"]
    lines = [ax.axvline(0, color=INK, linewidth=0.6)] if shown.from_zero else []
    if shown.level is not None and shown.singles is not None:
        name = f"PFI, {number(shown.level)}"
        lines.append(ax.axvline(shown.level, color=INK, linewidth=1.2, linestyle=(0, (6, 3)), label=name))
        notes += _local_importances(ax, shown.singles)
    else:
        notes += _curve_values(ax, shown)
    notes += shown.warning("faded")
    ax.set_xlabel(shown.axis, parse_math=False)
    plain_frame(ax)
    above = legend(ax)
    make_room(ax, below=0.0, above=above)
    ax.set_ylim(bottom=0)
    for line in lines:
        line.set_ydata((0, 1 - above))  # not through the legend
    value_ticks(ax.xaxis)
    caption(ax, notes)


def _local_importances(ax: Axes, singles: Singles) -> list[str]:
    local = np.asarray(singles.result.means.local)
    local = local[np.isfinite(local)]
    ends = np.quantile(local, HELD)
    _histogram(ax, np.clip(local, *ends), None)
    ax.set_ylabel("rows")
    for position, (place, colour, _, marker) in zip(singles.extremes(), EXTREMES, strict=False):
        at = np.clip(singles.integral[position], *ends)
        style: dict[str, Any] = {"color": colour, "clip_on": False, "markersize": 7, "zorder": 4}
        ax.plot(at, 0, marker, label=singles.label(position, place), **style)
    notes = [f"shown are the local importances of {count(len(local), 'row')}"]
    out = int(np.sum((local < ends[0]) | (local > ends[1])))
    return [*notes, f"the outermost bars hold {count(out, 'row')} from beyond the axis"] if out else notes


def _curve_values(ax: Axes, shown: FeaturePicture) -> list[str]:
    met = np.isfinite(shown.curve)
    _histogram(ax, shown.curve[met], None if shown.weights is None else shown.weights[met])
    ax.set_ylabel("joint values" if shown.weights is None else "share of the donors")
    return [f"shown are the values of its {shown.curve_name}"]


def _histogram(ax: Axes, values: Floats, weights: Floats | None) -> None:
    bins = int(np.clip(2 * np.sqrt(len(values)), 5, MOST_BINS))
    ax.hist(values, bins=bins, weights=weights, color=SKY, edgecolor=BLUE, linewidth=0.5)


def plot_importance(feature: FeatureImportance | FeatureScore, *, ax: Axes | None = None) -> Axes:
    """Draw where in a feature's range its importance comes from: the PI curve over the ICI curves of single rows.

    An ordered feature gives curves, or points where the design met each value with few rows only; words give dots
    and ranges; a pair gives a heat map with the observed rows as points, hatched where there are none; a group of
    columns gives its local importances. At most 200 curves are drawn, evenly along the order of the rows' local
    importances, and the rows at both ends are named.

    Parameters
    ----------
    feature
        One feature of what `losslens.feature_importance` gives.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, X[:, 1], loss="squared_error")
    >>> plot_importance(imp["x1"]).get_ylabel()
    'increase in squared error'
    """
    return _draw(show(feature), ax)


def plot_effect(effect: FeatureEffect, *, ax: Axes | None = None) -> Axes:
    """Draw how predictions move with a feature: the PD curve over the ICE curves of single rows.

    Parameters
    ----------
    effect
        One feature of what `losslens.feature_effect` gives, or ``.effect`` of an importance.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> effects = ll.feature_effect(lambda X: X[:, 0], np.eye(5))
    >>> plot_effect(effects["x0"]).get_xlabel()
    'x0'
    """
    return _draw(show(effect), ax)


def _draw(shown: FeaturePicture, ax: Axes | None) -> Axes:
    grid = shown.values[0]
    one_column = len(shown.values) == 1 and grid.ndim == 1
    if one_column and (not shown.ordered or is_flag(grid)):
        return draw_dots(shown, ax)
    ax = new_axes() if ax is None else ax
    if len(shown.values) == 2:
        draw_heatmap(shown, ax)
    elif one_column:
        draw_lines(shown, ax)
    else:
        draw_group(shown, ax)
    return ax
