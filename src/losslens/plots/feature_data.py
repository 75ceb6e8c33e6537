"""What the plot of a feature shows: its curves, rows and values, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import curves
from losslens.donors.layout import CommonGrid
from losslens.plots.canvas import BLUE, evenly
from losslens.plots.importance_axis import EVERYTHING, extent
from losslens.plots.look import Look
from losslens.plots.options import name_features, one_colour
from losslens.plots.wording import number, shorten, value_label
from losslens.results.effects import FeatureEffect
from losslens.results.extrapolation import Extrapolation
from losslens.results.feature import FeatureResult
from losslens.results.importance import FeatureImportance
from losslens.results.scores import FeatureScore
from losslens.results.table import or_else
from losslens.tables.row_labels import row_name
from losslens.typing import Floats, Indices
from losslens.uncertainty.bands import Band
from losslens.uncertainty.cautions import few_units, noted

MOST_CURVES = 200  # curves of single rows: more would only cover each other
MOST_VALUES = 1000  # grid values of such a curve: about as many as a figure has pixels


@dataclass(frozen=True, eq=False)
class Singles:
    """The single rows of a result: their cells, and the mean of each row's cells."""

    result: FeatureImportance | FeatureEffect
    cells: Floats  # (r, c)
    integral: Floats  # (r,): local importances; NaN for a row without a donor
    integral_name: str
    name: str  # ICI or ICE

    @property
    def rows(self) -> Indices:
        """Positions of the kept rows among the explained rows: their names."""
        return self.result.cells.rows

    @property
    def weight(self) -> Floats:
        """The weight of each kept row."""
        return self.result.sample.weight[self.rows]

    def curves(self, chosen: Indices) -> Floats:
        """The curves of some kept rows, (len(chosen), g); NaN at values that none of their donors has."""
        result = self.result
        return np.asarray(curves(self.cells[chosen], result.layout, result.sample, self.rows[chosen]), float)

    def points(self, chosen: Indices) -> tuple[Indices, Floats, Floats]:
        """The cells of some kept rows one by one: grid position, cell value, weight of the row."""
        result, rows = self.result, self.rows[chosen]
        used = np.broadcast_to(_cell_weights(result, rows) > 0, self.cells[chosen].shape)
        weight = np.broadcast_to(self.weight[chosen][:, None], used.shape)
        return result.layout.places(rows)[used], self.cells[chosen][used], weight[used]

    def by_value(self, values: Indices) -> list[tuple[Floats, Floats]]:
        """The cells of all kept rows at each of these grid positions, and the weights of their rows."""
        if isinstance(self.result.layout, CommonGrid):
            return [(self.cells[:, k], self.weight) for k in values]
        where, cells, weight = self.points(np.arange(len(self.rows)))
        return [(cells[where == k], weight[where == k]) for k in values]

    def thinned(self) -> Indices:
        """At most `MOST_CURVES` rows, evenly along the order of their integrals: both extremes are among them."""
        return evenly(np.argsort(self.integral)[: np.isfinite(self.integral).sum()], MOST_CURVES)

    def extremes(self) -> list[int]:
        """The rows with the largest and the smallest integral; none where all are equal."""
        finite = self.integral[np.isfinite(self.integral)]
        if len(finite) < 2 or finite.min() == finite.max():
            return []
        return [int(np.nanargmax(self.integral)), int(np.nanargmin(self.integral))]

    def label(self, position: int, place: str) -> str:
        """The name of a highlighted row: its mean is over the whole curve, at the end of which the name may stand."""
        kept = "" if self.result.complete else " kept"
        row = row_name(self.result.sample.row_labels, int(self.rows[position]))
        return f"row {row} (mean\xa0{number(self.integral[position])}, the\xa0{place}{kept})"


@dataclass(frozen=True, eq=False)
class FeaturePicture:
    """A curve over a grid, and all that is drawn with it."""

    name: str
    columns: tuple[str, ...]
    values: tuple[NDArray[Any], ...]
    ordered: bool
    curve: Floats  # (g,), or (g1, g2) for a pair
    curve_name: str  # PI or PD
    weights: Floats | None  # (g,)
    axis: str  # what the curve measures
    look: Look = Look()
    level: float | None = None  # its mean, the PFI
    from_zero: bool = True  # whether 0 has a meaning
    singles: Singles | None = None
    scattered: bool = False  # few rows at each value: separate estimates, not a curve
    design: str = ""
    extrapolation: Extrapolation | None = None
    caution: str = ""  # why the PFI and the band are to be taken with caution; empty if they are not
    centred: str = ""  # at which value curves are 0; empty if they are not centred

    @property
    def one_column(self) -> bool:
        """Whether the grid has an axis: pairs and groups of columns have none."""
        return len(self.values) == 1 and self.values[0].ndim == 1

    @property
    def colour(self) -> str:
        """The colour of the mean curve; a pair has a colour map."""
        return BLUE if len(self.values) == 2 else one_colour(self.look.colors, BLUE)

    @property
    def faded(self) -> NDArray[np.bool_]:
        """The mask of grid values at which most of the replaced rows are unlike any real one, (g,)."""
        if self.extrapolation is None or not self.one_column:
            return np.zeros(self.curve.shape, bool)
        return self.extrapolation.on(self.values[0]).faded

    @cached_property
    def band(self) -> Band | None:
        """The band around the mean curve, where the rows allow one."""
        if self.singles is None or self.scattered:
            return None
        result, cells = self.singles.result, self.singles.cells
        if not self.centred:
            return or_else(result.band, None)  # none with too few rows, or if no cells are kept
        return or_else(lambda: result._band(cells, self.curve, "the PD curve", 0.95), None)

    def warnings(self, look: str) -> list[str]:
        """What the caption warns of: rows unlike any real one (`look`: how their part looks), intervals in doubt."""
        doubted = self.caution if self.level is not None or (self.one_column and self.band is not None) else ""
        whose = "" if self.level is None else "PFI: "  # the only number of the picture
        return [*self._unlike(look), *(f"{whose}{said}" for said in noted([self.look.names.of(self.name)], [doubted]))]

    def _unlike(self, look: str) -> list[str]:
        if self.extrapolation is None or not self.extrapolation.warns:
            return []
        if self.faded.any():
            overall = f"{self.extrapolation.percent} of all"
            return [f"{look}: over half of the rows there are unlike any real one ({overall})"]
        if self.extrapolation.share < 0.01:
            return []
        return [f"{self.extrapolation.percent} of the replaced rows are unlike any real one"]

    @property
    def title(self) -> str:
        """The feature's name, and the unit of its values, as an axis label."""
        return shorten(self.look.names.title(self.name), 60)

    @property
    def distribution(self) -> str:
        """The legend's name of the strip that shows the feature's distribution."""
        name = self.look.names.of(self.name)
        named = len(name) <= 12 and not self.look.panel
        return f"distribution of {name}" if named else "distribution"

    @property
    def rows(self) -> Singles | None:
        """The single rows that are drawn."""
        return self.singles if self.look.curves and self.singles is not None and len(self.singles.rows) else None

    def limits(self, singles: Floats) -> tuple[float, float]:
        """Limits of the axis of the curve, infinite where nothing is cut: effects never are."""
        if not self.from_zero or self.look.limits == "all":
            return EVERYTHING
        band = None if self.band is None else np.array([self.band.low, self.band.high])
        return extent(np.append(self.curve, self.level or 0.0), singles, band)

    def centred_at(self, place: int) -> FeaturePicture:
        """The picture with all curves 0 at one grid value: the differences from the prediction there."""
        assert self.singles is not None
        singles = self.singles
        cells = singles.cells - singles.curves(np.arange(len(singles.rows)))[:, [place]]
        integral, name = _row_means(singles.result, cells), f"mean of the centred {singles.name}"
        own = replace(singles, cells=cells, integral=integral, integral_name=name)
        value = f"{value_label(self.values[0][place])} {self.look.names.unit(self.name)}".rstrip()
        return replace(
            self, curve=self.curve - self.curve[place], singles=own, centred=value,
            axis=f"{self.axis}, less that at {self.look.names.of(self.name)} = {value}",
        )  # fmt: skip


def show(result: FeatureImportance | FeatureScore | FeatureEffect, look: Look) -> FeaturePicture:
    """What there is to draw of a result."""
    name_features(look.labels, [result.name], result.columns)
    picture: FeaturePicture = result._picture(look)
    return picture


def of_score(result: FeatureScore, look: Look) -> FeaturePicture:
    """The curve of a score; single rows have none."""
    if result.undefined:
        raise ValueError(result.undefined)
    return FeaturePicture(
        result.name, result.columns, result.values, result.ordered, result.pi, "PI", result.scored.shares,
        result.change, look,
    )  # fmt: skip


def of_importance(result: FeatureImportance, look: Look) -> FeaturePicture:
    """The PI curve, and ICI curves of single rows."""
    assert result.cells.changes is not None  # a FeatureImportance has losses
    local = result.means.local
    if local is not None:
        integral, name = local[result.rows], "local importance"
    else:
        integral, name = _row_means(result, result.cells.changes), "mean over the grid"
    return FeaturePicture(
        result.name, result.columns, result.values, result.ordered, result.pi, "PI", result.means.weights,
        f"increase in {result.loss.title}", look,
        level=None if local is None else result.pfi,
        singles=Singles(result, result.cells.changes, integral, name, "ICI"),
        scattered=result._is_scattered,
        design=repr(result.design),
        extrapolation=result.computed_extrapolation,
        caution=result.caution or _few(result),
    )  # fmt: skip


def of_effect(result: FeatureEffect, look: Look) -> FeaturePicture:
    """The PD curve, and ICE curves of single rows."""
    cells = np.asarray(result.cells.predictions, float)
    return FeaturePicture(
        result.name, result.columns, result.values, result.ordered, result.pd, "PD", result.means.weights,
        "prediction" if result.target is None else f"prediction for {result.target_kind} {shorten(result.target, 30)}",
        look,
        from_zero=False,
        singles=Singles(result, cells, _row_means(result, cells), "mean prediction", "ICE"),
        scattered=result._is_scattered,
        design=repr(result.design),
        extrapolation=result.computed_extrapolation,
        caution=_few(result),
    )  # fmt: skip


def _few(result: FeatureResult) -> str:
    """The caution on a band where rows, or groups of rows, are few."""
    return few_units(result.sample.effective_units(result.at), grouped=result.sample.block is not None)


def _cell_weights(result: FeatureResult, rows: Indices) -> Floats:
    """Weights of the cells of these rows, (1, c) or (b, c); equal on a grid without donors."""
    if result.layout.has_mass:
        return result.layout.weights(result.sample, rows)
    return np.ones((1, result.layout.width))


def _row_means(result: FeatureResult, cells: Floats) -> Floats:
    weights = _cell_weights(result, result.cells.rows)
    with np.errstate(invalid="ignore"):  # 0 / 0: a row without a donor
        if len(weights) == 1 and isinstance(result.layout, CommonGrid):
            return np.asarray(cells @ weights[0] / weights.sum())
        return np.asarray((cells * weights).sum(axis=1) / weights.sum(axis=1))
