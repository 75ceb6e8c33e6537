"""What the picture of a feature shows: its curves, rows and values, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import curves
from losslens.donors.layout import CommonGrid, OwnDonors
from losslens.plots import canvas
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
        return canvas.evenly(order, MOST_CURVES)

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
        extrapolation=result.known_extrapolation,
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
        extrapolation=result.known_extrapolation,
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
