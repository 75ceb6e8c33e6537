"""Effects of features on predictions: ICE curves and partial dependence."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.cells.matrix import Cells, curves
from losslens.donors.layout import OwnDonors
from losslens.plots.look import Look, draws
from losslens.results.base import ResultMapping, Tabular
from losslens.results.feature import FeatureResult
from losslens.results.selection import Numbers
from losslens.results.table import ResultTable, facts, grid_size, or_else, why_not
from losslens.tables.columns import count_missing, is_missing, missing_name, places_of
from losslens.tables.frozen import deferred
from losslens.text import Sentence, rounding_error
from losslens.typing import Axes, Colors, FeatureLabels, Floats
from losslens.uncertainty.bands import Band


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FeatureEffect(FeatureResult, Tabular):
    """How the prediction depends on one feature: an ICE curve for each row, and their mean, the PD curve.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0]])
    >>> x0 = ll.feature_effect(lambda X: X[:, 0] * X[:, 1], X)["x0"]
    >>> x0.grid, x0.ice, x0.pd
    (array([0., 1.]), array([[0., 1.],
           [0., 3.]]), array([0., 2.]))
    """

    target: str | None = None  #: the class whose probability is shown

    _errors_elsewhere = "a curve has a band: band()"

    @property
    def pd(self) -> Floats:
        """Partial dependence: the mean prediction with every row at that value, (g,) or (g1, g2)."""
        return self._shaped(np.asarray(self._required(self.means.pd, "the PD curve"), float))

    @property
    def ice(self) -> NDArray[Any]:
        """One curve a kept row, (n, g): the row's prediction with the value replaced; NaN without a cell."""
        return self._shaped(curves(self.cells.predictions, self.layout, self.sample, self.cells.rows))

    def band(self, level: float = 0.95) -> Band:
        """Confidence band of the PD curve, for this model on new data; `level`: coverage of all values together."""
        return self._band(self.cells.predictions, self.means.pd, "the PD curve", level)

    def centred(self, at: Any = None) -> NDArray[Any]:
        """ICE curves minus their value at one grid value (the first, or the one nearest to `at`)."""
        return np.asarray(self.ice - self.ice[:, [self.place_of(at)]])

    def place_of(self, at: Any = None) -> int:
        """The position of the grid value at which curves are centred: the first, or the one nearest to `at`."""
        if len(self.values) == 2:
            raise ValueError("centred curves need a single feature, and this is a pair")
        if isinstance(self.layout, OwnDonors) and not self.layout.binned:
            raise ValueError(f"no common grid: {self.design!r} gives each row its own donors; use Grid(m)")
        return 0 if at is None else _nearest(self.grid, at)

    def to_frame(self) -> Any:
        """The PD curve as a data frame: value, weight, effect."""
        return self._frame(curve_columns(self, {"effect": self.pd}))

    @property
    def _message(self) -> Sentence:
        from losslens.results.sentences import effect_ranges

        return effect_ranges(self)

    @draws("curve")
    def plot(
        self, ax: Axes | None = None, *, curves: bool = True, center: Any = False, partner: Any = None,
        colors: Colors | None = None, labels: FeatureLabels | None = None, title: str | None = None,
    ) -> Axes:  # fmt: skip
        """Draw how predictions change with a feature: the PD curve over the ICE curves of single rows.

        Parameters
        ----------
        curves
            Whether single rows are drawn: their ICE curves, points or ranges.
        center
            True: all curves are 0 at the first grid value; a value: at the grid value nearest to it.
        partner
            The values of another column, one for each row, to colour the ICE curves by; or the effects of all
            features, of which the one is taken that explains most of how the shapes of the curves differ.
        colors
            Colour of the PD curve and its band; of a pair, a colour map or its name.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> effects = ll.feature_effect(lambda X: X[:, 0], np.eye(5))
        >>> effects["x0"].plot().get_xlabel()
        'x0'
        >>> effects["x0"].plot(center=1).get_ylabel()
        'prediction, less that at x0 = 1'
        """
        look = Look(colors=colors, labels=labels, curves=curves, partner=partner)
        return plots.feature.plot_effect(self, ax, look, center)

    _curves = property(attrgetter("ice"))

    def _picture(self, look: Look) -> Any:
        return plots.feature_data.of_effect(self, look)

    _is_ranked = False
    _heading, _why_no_error = "range of the PD curve", "is a curve"

    @property
    def _numbers(self) -> Numbers:
        curve = or_else(lambda: self.pd, np.array([np.nan]))
        known = curve[np.isfinite(curve)] if np.isfinite(curve).any() else np.array([np.nan])
        ends = {"smallest": float(known.min()), "largest": float(known.max())}
        return {self.name: {**ends, "caution": why_not(lambda: self.pd)}}

    @property
    def _axis(self) -> str:
        return f"{self.name}: prediction"

    @property
    def target_kind(self) -> str:
        """What `target` names: a class, or one of several outputs."""
        return "output" if self.sample.classes is None else "class"

    def _table(self) -> ResultTable:
        numbers = {
            "smallest of the PD curve": or_else(lambda: float(np.nanmin(self.pd)), np.nan),
            "largest of the PD curve": or_else(lambda: float(np.nanmax(self.pd)), np.nan),
            "rows": len(self.at),
            "values": grid_size(self.values),
        }
        subject = "" if self.target is None else f" for {self.target_kind} {self.target}"
        return facts(f"{self.name}: prediction{subject}", numbers, [f"{self.design!r}; {self.engine}"])

    def __repr__(self) -> str:
        ending = f" of {self.target!r}" if self.target is not None else ""
        return f"<FeatureEffect {self.name!r}{ending}: {len(self.at)} rows, {self.layout.size} values, {self.design}>"


def of_class(effect: FeatureEffect, k: int) -> FeatureEffect:
    """The effect on the k-th class, where predictions have one column a class."""
    sample, cells, pd = effect.sample, effect.cells, effect.means.pd
    return replace(
        effect,
        sample=replace(sample, prediction=sample.prediction[..., k]),
        cells=Cells(cells.rows, deferred(_column, cells, k)),
        means=replace(effect.means, pd=None if pd is None else pd[..., k]),
    )


def _column(cells: Cells, k: int) -> NDArray[Any]:
    return np.asarray(cells.predictions[..., k])


def _nearest(grid: NDArray[Any], at: Any) -> int:
    if is_missing(at):
        place = int(places_of(np.array([at], object), grid)[0])
        if place >= 0:
            return place
    if grid.dtype.kind in "iuf" and not is_missing(at):
        try:
            return int(np.nanargmin(np.abs(grid.astype(float) - float(at))))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{at!r} is no number, and the grid holds numbers") from error
    positions = np.flatnonzero(grid == at)
    if len(positions) == 0:
        raise ValueError(f"{at!r} is not on the grid {list(grid)!r}")
    return int(positions[0])


def curve_columns(result: Any, curves: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The grid and the curves on it, as columns of a data frame."""
    columns: dict[str, Any] = {}
    if len(result.values) == 2:
        first, second = np.meshgrid(*(np.arange(len(v)) for v in result.values), indexing="ij")
        columns[result.columns[0]] = plain(result.values[0][first.ravel()])
        columns[result.columns[1]] = plain(result.values[1][second.ravel()])
    elif result.values[0].ndim == 2:
        for c, name in enumerate(result.columns):
            columns[name] = plain(result.values[0][:, c])
    else:
        columns["value"] = plain(result.values[0])
    with suppress(ValueError):  # a grid of given values has no weights
        columns["weight"] = result.weights
    return columns | {name: np.ravel(curve) for name, curve in curves.items()}


def plain(values: NDArray[Any]) -> Any:
    """Grid values as data frame libraries accept them: mixed types, and kinds of missing values, become text."""
    if values.dtype != object:
        return values
    items, kinds = values.tolist(), {type(value) for value in values if not is_missing(value)}
    if kinds == {float}:
        return items
    if count_missing(values) > 1:
        return [f"missing ({missing_name(value)})" if is_missing(value) else str(value) for value in items]
    return [None if is_missing(v) else v if len(kinds) == 1 else str(v) for v in items]


@dataclass(frozen=True, eq=False, repr=False)
class Effects(ResultMapping[FeatureEffect]):
    """Effects of several features: a mapping from name to `FeatureEffect`.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0]])
    >>> {name: effect.pd.tolist() for name, effect in ll.feature_effect(lambda X: X[:, 0] * X[:, 1], X).items()}
    {'x0': [0.0, 2.0], 'x1': [0.5, 1.5]}
    """

    _errors_elsewhere = "its curves have bands: effects[name].band()"
    _is_ranked, _why_no_error, _panels = False, "is a curve", 6
    _axis = "predictions, from the smallest to the largest of each PD curve"

    def _table(self) -> ResultTable:
        columns = {
            "feature": list(self.features),
            **{name: [numbers[name] for numbers in self._numbers.values()] for name in ("smallest", "largest")},
            "rows": [len(feature.at) for feature in self.features.values()],
            "values": [grid_size(feature.values) for feature in self.features.values()],
            "design": [repr(feature.design) for feature in self.features.values()],
        }
        numbers = np.array([columns["smallest"], columns["largest"]], float)
        order = np.argsort(-np.nan_to_num(numbers[1] - numbers[0], nan=-np.inf), kind="stable").tolist()
        # What is the same for all features is said once.
        same = [name for name in ("rows", "values", "design") if len(set(columns[name])) == 1]
        shown = [name for name in columns if name not in same]
        notes = [f"{name}: {columns[name][0]}" for name in same]
        return ResultTable(
            "Effects: the smallest and the largest mean prediction along the values of each feature", columns,
            view=[(name, f"{{{name}}}") for name in shown], notes=["; ".join(notes)] * bool(notes),
            in_text=order, in_view=order, like="size", alike=("smallest", "largest"),
            extra={"size": np.abs(numbers).max(axis=0)},
            rounding=rounding_error(columns["rows"][0], np.nanmax(np.abs(numbers), initial=0.0)),
        )  # fmt: skip

    def plot(
        self, figure: Any = None, *, top: int = 6, curves: bool = True, colors: Colors | None = None,
        labels: FeatureLabels | None = None,
    ) -> list[Axes]:  # fmt: skip
        """Draw the curves of the features that the predictions depend on most, in small panels with one axis each.

        Parameters
        ----------
        figure
            Where to draw; a new figure by default.
        top
            How many features to draw: those whose PD curves have the widest range.
        curves
            Whether single rows are drawn: their ICE curves, points or ranges.
        colors
            Colour of the PD curves and their bands.
        labels
            Names to show instead of those of the features: a mapping to a name, or to a name and a unit.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> effects = ll.feature_effect(lambda X: X[:, 0] + 2 * X[:, 1], np.eye(5))
        >>> [ax.get_xlabel() for ax in effects.plot(top=2)]
        ['x1', 'x0']
        """
        ranges = {name: numbers["largest"] - numbers["smallest"] for name, numbers in self._numbers.items()}
        leading = sorted(ranges, key=lambda name: -np.nan_to_num(ranges[name], nan=-1.0))
        look = Look(top, colors=colors, labels=labels, curves=curves)
        return plots.feature.plot_panels([self[name] for name in leading], figure, look)
