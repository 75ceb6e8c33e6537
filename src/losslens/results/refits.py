"""Importances of a learner: one fitted model a fold, each explained on its test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import TopologicalSorter
from operator import attrgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Ranked, Tabular
from losslens.results.importances import Importances
from losslens.results.shapley import ShapleyImportance
from losslens.results.table import ERROR, FEATURE, IMPORTANCE, INTERVAL, RANKED, ResultTable, facts
from losslens.tables.checks import is_one_of
from losslens.tables.columns import count_missing, key, places_of
from losslens.tables.features import position_of
from losslens.text import in_digits
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Floats, Indices
from losslens.uncertainty.cautions import doubted_folds, noted
from losslens.uncertainty.inference import Estimates, Inference, cross_products
from losslens.uncertainty.standard_errors import Target, check_level

Fold = Importances | ShapleyImportance
Variance = Literal["corrected", "jackknife"]
MAX_VALUES = 100  # of the common grid of all folds, at evenly spaced ranks


@dataclass(frozen=True, eq=False, repr=False)
class RefitCurve(Tabular):
    """Importance along the values of a feature, in each fold and on average.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> refits = ll.feature_importance_cv(LinearRegression(), X, 2 * X[:, 1], cv=4, random_state=0)
    >>> curve = refits.curve("x1")
    >>> curve.folds.shape[0], len(curve.grid) == len(curve.importance)
    (4, True)
    """

    name: str  #: name of the feature
    grid: NDArray[Any]  #: values of the feature, (g,)
    folds: Floats  #: the curve of each fold, (M, g), interpolated between its own values; NaN beyond them
    ordered: bool  #: whether its values have an order
    what: str  #: what the numbers are, such as "increase in squared error"
    level: float  #: level of the intervals
    reach: Floats  #: half the width of the learner's interval at each value, (g,); NaN where only one fold has a curve
    backend: str
    caution: str = ""  #: why the intervals are to be taken with caution; empty if they are not

    _of_one = True
    _errors_elsewhere = "its interval at each value is importance - reach to importance + reach"

    @property
    def importance(self) -> Floats:
        """The mean over the folds that have a curve at each value, (g,)."""
        return np.asarray(np.nanmean(self.folds, axis=0))

    def to_frame(self) -> Any:
        """One row a value: value, importance, low, high, folds."""
        data = {
            "value": self.grid,
            "importance": self.importance,
            "low": self.importance - self.reach,
            "high": self.importance + self.reach,
            "folds": np.isfinite(self.folds).sum(axis=0),
        }
        return self._frame(data)

    @draws("curve")
    def plot(
        self, ax: Axes | None = None, *, curves: bool = True, scale: AxisScale = "linear",
        colors: Colors | None = None, labels: FeatureLabels | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the PI curve of each fold thin and their mean strong, with the learner's interval at each value.

        Parameters
        ----------
        curves
            Whether single folds are drawn.
        colors
            Colour of the mean and its interval.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> from sklearn.linear_model import LinearRegression
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> refits = ll.feature_importance_cv(LinearRegression(), X, 2 * X[:, 1], random_state=0)
        >>> refits.curve("x1").plot().get_xlabel()
        'x1'
        """
        return plots.refits.plot_refit_curve(self, ax, Look(scale=scale, colors=colors, labels=labels, curves=curves))

    def _table(self) -> ResultTable:
        from losslens.plots.wording import value_label

        mean = self.importance
        place = int(np.nanargmax(mean))
        numbers = {
            "smallest": float(np.nanmin(mean)),
            "largest": float(mean[place]),
            "largest at": value_label(self.grid[place]),
            "folds": len(self.folds),
        }
        return facts(
            f"{self.name}: {self.what} along its values",
            numbers,
            ["mean over the folds", *noted([self.name], [self.caution])],
        )

    def __repr__(self) -> str:
        return f"<RefitCurve {self.name!r}: {len(self.folds)} folds, {len(self.grid)} values>"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Refits(Ranked, Inference):
    """Importances of a learner, from models fitted on different rows.

    `to_frame()` has one row a feature, the most important first. Standard errors, intervals, `difference` and `ranks`
    are based on `variance`; `test` and `curve` always on the corrected one.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> refits = ll.feature_importance_cv(LinearRegression(), X, 2 * X[:, 1], cv=4, random_state=0)
    >>> refits.per_fold.shape, len(refits.errors), bool(refits.importance[1] > refits.importance[0])
    ((4, 2), 4, True)
    """

    folds: tuple[Fold, ...]  #: the result of each fold
    tested: tuple[Indices, ...]  #: the test rows of each fold
    trained: tuple[int, ...]  #: the number of training rows of each fold
    n: int  #: number of all rows
    backend: str
    without: Floats | None = None  #: the importances without each fold, (M, p); None: not computed

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(self.folds[0])

    @cached_property
    def per_fold(self) -> Floats:
        """PFI, or SFIMP, of each fold and feature, (M, p)."""
        return np.stack([fold._importance for fold in self.folds])

    @property
    def importance(self) -> Floats:
        """The mean over the folds, (p,)."""
        return np.asarray(self.per_fold.mean(axis=0))

    @property
    def spread(self) -> Floats:
        """Standard deviation over the folds, (p,)."""
        return np.asarray(self.per_fold.std(axis=0, ddof=1))

    @property
    def errors(self) -> Floats:
        """Each fold's error with nothing replaced, (M,); scores for a scorer that does not negate an error."""
        return np.array([fold._base for fold in self.folds])

    @property
    def variance(self) -> Variance:
        """How the variance is estimated.

        ``"corrected"``: that of the folds, times `correction`. ``"jackknife"``: from the importances without each fold,
        in training and in test, ``(M - 1)/M sum_g (without_g - mean)^2``.
        """
        return "corrected" if self.without is None else "jackknife"

    @property
    def correction(self) -> float:
        """Nadeau and Bengio's ``1/M + n_test/n_train``: folds share training rows, so they are correlated."""
        return 1 / len(self.folds) + float(np.mean([len(rows) for rows in self.tested]) / np.mean(self.trained))

    @property
    def std_error(self) -> Floats:
        """Standard error of `importance` for the learner: refitted on, and explained with, new data, (p,)."""
        return self._estimates.std_error

    def interval(self, level: float = 0.95, target: Target = "learner") -> tuple[Floats, Floats]:
        """Low and high ends for each feature: of the mean importance over refits on new data of this size.

        `level` is the coverage probability; the only `target` of refits is ``"learner"``.
        """
        if not is_one_of(target, ("model", "sample", "learner")):
            raise ValueError(f"target of refits is 'learner'; got {target!r}")
        if target != "learner":
            raise ValueError(
                f"target={target!r} is about one fitted model, and each fold has its own; use folds[k].interval(...) "
                "of a Shapley result, or folds[k][name].interval(...)"
            )
        return self._estimates.intervals(level)

    @cached_property
    def _estimates(self) -> Estimates:
        """The learner's importances and their covariance, which is that of the folds' U-statistics."""
        if self.without is None:
            return self._corrected
        count, deviations = len(self.without), self.without - self.without.mean(axis=0)
        covariance = cross_products(deviations, (count - 1) / count)
        more = {name: getattr(self._corrected, name) for name in ("centre", "doubts")}
        return Estimates.of_covariance(self.features, self._corrected.value, covariance, count, **more)

    @cached_property
    def _corrected(self) -> Estimates:
        """The importances with the corrected covariance of the folds."""
        per_fold = np.stack([fold.unbiased for fold in self.folds])
        estimates = Estimates.of_folds(self.features, per_fold, self.correction)
        return replace(estimates, value=self.importance, centre=estimates.value, doubts=self.caution)

    _picture = "rankings.plot_refits"
    _tested = property(attrgetter("_corrected"))

    def _cautions_of(self, names: Sequence[str]) -> list[str]:
        cautions = dict(zip(self.features, self.caution, strict=True))
        return [cautions[name] for name in names]

    @property
    def caution(self) -> tuple[str, ...]:
        """Why each number or its p-value is to be taken with caution, (p,): draws that differ from real values."""
        doubted = [sum(name in fold.doubted for fold in self.folds) for name in self.features]
        return tuple(doubted_folds(k, len(self.folds)) for k in doubted)

    @property
    def cautions(self) -> list[str]:
        """Which intervals are to be taken with caution, and why; empty if none is."""
        return noted(self.features, self.caution)

    @property
    def local(self) -> Floats:
        """Importance of each feature for each row, (n, p): the mean over the folds with the row in the test set."""
        total, times = np.zeros((self.n, len(self.features))), np.zeros(self.n)
        for fold, rows in zip(self.folds, self.tested, strict=True):
            total[rows] += fold.local
            times[rows] += 1
        with np.errstate(invalid="ignore"):
            return np.asarray(total / times[:, None])

    def curve(self, feature: str, level: float = 0.95) -> RefitCurve:
        """Importance along the values of `feature`: PI, or Shapley importance by own value, of all folds.

        Folds have different test rows, and hence different values of a number: each curve is interpolated linearly at
        common values, and not extrapolated. Intervals at each value, of this `level`, have the corrected variance.
        """
        feature = self.features[position_of(feature, self.features)]
        from scipy.stats import t

        parts = [fold._by_own_value(feature) for fold in self.folds]
        if parts[0][0].ndim > 1:
            raise ValueError(f"{feature!r} is a group of columns: its values have no common axis")
        ordered = all(part[2] for part in parts)
        grid = _common_grid([values for values, _, _ in parts], ordered)
        folds = np.stack([_interpolate(values, curve, grid, ordered) for values, curve, _ in parts])
        count = np.isfinite(folds).sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            deviations = np.where(np.isfinite(folds), folds - np.nanmean(folds, axis=0), 0.0)
            spread = np.sqrt(np.square(deviations).sum(axis=0) / (count - 1))
        share = self.correction - 1 / len(self.folds) + 1 / count
        reach = t.ppf((1 + check_level(level)) / 2, np.maximum(count - 1, 1)) * np.sqrt(share) * spread
        reach = np.where(count > 1, reach, np.nan)
        what, caution = self.headline.split(";")[0], self._cautions_of([feature])[0]
        return RefitCurve(feature, grid, folds, ordered, what, level, reach, self.backend, caution)

    @property
    def title(self) -> str:
        """The name of the loss or scorer."""
        return self.folds[0].title

    @property
    def measure(self) -> str:
        """Whether `errors` holds errors, or the scores of a scorer."""
        return self.folds[0]._measure

    @property
    def headline(self) -> str:
        """What the numbers are."""
        what = self.folds[0].headline.split(";")[0]
        return f"{what}; mean of {len(self.folds)} refits, {in_digits(float(self.errors.mean()))} with nothing replaced"

    def _table(self) -> ResultTable:
        columns = {
            "feature": self.features,
            "importance": self.importance,
            "std_error": self.std_error,
            "low": lambda: self.interval()[0],
            "high": lambda: self.interval()[1],
            "target": ["learner"] * len(self.features),
            "variance": [self.variance] * len(self.features),
            "spread": self.spread,
            "caution": self.caution,
        }
        view = (FEATURE, IMPORTANCE, ERROR, INTERVAL, ("spread of folds", "{spread}"))
        notes = [f"±: standard errors, for the learner, refitted on new data; {self.variance} variance"]
        if self.variance == "jackknife":
            notes.append("test() uses the corrected variance")
        notes += self.cautions
        table = ResultTable(f"Refits: {self.headline}", columns, RANKED, view, notes, like="importance")
        return table.ordered(np.argsort(-self.importance, kind="stable"))


def _common_grid(grids: list[NDArray[Any]], ordered: bool) -> NDArray[Any]:
    """The values of all folds; of more than 100 numbers, those at evenly spaced ranks. A missing value is the last."""
    present = [grid[: len(grid) - count_missing(grid)] for grid in grids]
    absent = list({key(value): value for grid in grids for value in grid[len(grid) - count_missing(grid) :]}.values())
    if ordered and all(grid.dtype != object for grid in grids):
        values = np.unique(np.concatenate(present))
        if len(values) > MAX_VALUES:
            values = values[np.linspace(0, len(values) - 1, MAX_VALUES).round().astype(np.intp)]
        return np.append(values, np.array(absent, values.dtype)) if absent else values
    words = _in_order(present) if ordered else list(dict.fromkeys(v for grid in present for v in grid.tolist()))
    grid = np.empty(len(words) + len(absent), object)
    grid[:] = [*words, *absent]
    return grid


def _in_order(grids: list[NDArray[Any]]) -> list[Any]:
    """Ordered categories of all folds: a fold without some of them does not change their order."""
    order: TopologicalSorter[Any] = TopologicalSorter()
    for words in (grid.tolist() for grid in grids):
        for k, word in enumerate(words):
            order.add(word, *words[max(k - 1, 0) : k])
    return list(order.static_order())


def _interpolate(values: NDArray[Any], curve: Floats, grid: NDArray[Any], ordered: bool) -> Floats:
    """A curve at common values: linear between its own values, NaN beyond them."""
    if not ordered or grid.dtype == object:
        position = places_of(grid, values)
        return np.where(position >= 0, curve[position], np.nan)
    numbers, grid_numbers = (_as_numbers(some) for some in (values, grid))
    finite = np.isfinite(numbers)
    interpolated = grid_numbers * np.nan
    if finite.any():
        interpolated = np.interp(grid_numbers, numbers[finite], curve[finite], left=np.nan, right=np.nan)
    if not np.isfinite(grid_numbers[-1]):
        interpolated[-1] = curve[-1] if not finite[-1] else np.nan
    return interpolated


def _as_numbers(values: NDArray[Any]) -> Floats:
    if values.dtype.kind not in "mM":
        return values.astype(float)
    return np.where(np.isnat(values), np.nan, values.astype("i8").astype(float))
