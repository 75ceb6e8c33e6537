"""Changes of the loss of each row when values are drawn given the other features, or a feature is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Literal, Self

import numpy as np

from losslens.donors.conditional import Conditioning
from losslens.results.base import Ranked
from losslens.results.selection import Compared, Grouped, positions
from losslens.results.shapley import mean_of
from losslens.results.table import ERROR, FEATURE, IMPORTANCE, INTERVAL, RANKED, ResultTable, named
from losslens.tables.checks import is_one_of
from losslens.tables.row_labels import Labels, take_labels
from losslens.tables.sample import by_unit, effective_number
from losslens.text import in_digits, rounding_error
from losslens.typing import Floats, Indices, Mask
from losslens.uncertainty.cautions import doubted_draws, noted
from losslens.uncertainty.inference import Difference, Estimates, Inference, between, cross_products, cubed_differences
from losslens.uncertainty.standard_errors import (
    Influence,
    Target,
    check_target,
    influence_on_mean,
)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RowChanges(Ranked, Inference):
    """How much the loss of each row increases without the information in a feature: one number a row and feature.

    `to_frame()` has one row a feature, the most important first.
    """

    _picture = "rankings.plot_row_changes"
    _notes: ClassVar[Sequence[str]] = ("p is not adjusted; .test() adjusts for the number of features",)
    _without: ClassVar[str]  # what it is the increase without
    untouched: ClassVar[str]  # the condition under which `error` was computed

    features: tuple[str, ...]  #: names of the features
    local: Floats  #: (n, p): the change of each row's loss; NaN where it was not computed
    weight: Floats  #: weights of the rows, (n,): they sum to one
    error: float  #: the mean loss with all features
    title: str  #: name of the loss
    backend: str
    block: Indices | None = None  # groups of rows
    row_labels: Labels | None = None  # (n,), of a pandas index

    @property
    def importance(self) -> Floats:
        """The mean over rows, (p,)."""
        return mean_of(self.local, self.weight)

    @property
    def std_error(self) -> Floats:
        """Standard error of `importance` over new rows, (p,)."""
        return self._estimates.std_error

    def interval(self, level: float = 0.95, target: Target = "model") -> tuple[Floats, Floats]:
        """Low and high ends for each feature, over new rows: `level` is the coverage probability, `target` "model"."""
        if check_target(target) == "sample":
            raise ValueError("the Monte-Carlo error alone has no interval here; use target='model', that for new rows")
        return self._estimates.intervals(level)

    @cached_property
    def _estimates(self) -> Estimates:
        return self._of_weight(self._counted_weight)

    def _of_weight(self, weight: Floats) -> Estimates:
        """The importances over new rows of these weights; influences are added within groups of rows."""
        units = np.count_nonzero(by_unit(weight, self.block))
        if units < 3:
            what = "rows" if self.block is None else "groups"
            raise ValueError(f"a standard error needs at least 3 {what} with weight; there are {units}")
        return self._of_changes(self.local, weight)

    def _of_changes(self, local: Floats, weight: Floats) -> Estimates:
        """Means of changes of the rows, (n, p), of these weights."""
        moved = influence_on_mean(np.where(np.isnan(local), 0.0, local), weight, self.block)
        influences = tuple(Influence(column) for column in moved.T)
        return Estimates.of_covariance(
            self.features, mean_of(local, weight), cross_products(moved),
            effective_number(by_unit(weight, self.block)), skewness=np.array([one.skewness for one in influences]),
            cubes=cubed_differences(moved), unit="rows" if self.block is None else "groups", influences=influences,
            doubts=self._doubts,
        )  # fmt: skip

    @property
    def caution(self) -> tuple[str, ...]:
        """Why each number or its interval is to be taken with caution, (p,); empty text if it is not."""
        if not self._has_errors:
            return ("",) * len(self.features)
        return self._estimates.cautions

    @property
    def cautions(self) -> list[str]:
        """Which intervals are to be taken with caution, and why; empty if none is."""
        return noted(self.features, self.caution)

    def _cautions_of(self, names: Sequence[str]) -> list[str]:
        return [self.caution[self.features.index(name)] for name in names]

    @property
    def _doubts(self) -> tuple[str, ...]:
        """Why each number, not only its interval, is to be taken with caution."""
        return ("",) * len(self.features)

    @property
    def doubted(self) -> tuple[str, ...]:
        """The features whose numbers rest on a sampler that failed its test: none, where nothing is drawn."""
        return ()

    @property
    def what(self) -> str:
        """What the numbers are, for an axis."""
        return f"increase in {self.title} {self._without}"

    @property
    def headline(self) -> str:
        """What the numbers are, and the error they are compared with."""
        return f"{self.what}; {in_digits(self.error)} {self.untouched}"

    def _table(self) -> ResultTable:
        error = low = high = p = np.full(len(self.features), np.nan)
        if self._has_errors:
            error, (low, high), p = self.std_error, self.interval(), self._estimates.p_values()
        columns = {
            "feature": self.features,
            "importance": self.importance,
            "std_error": error,
            "low": low,
            "high": high,
            "target": ["model"] * len(self.features),
            "p": p,
            "caution": self.caution,
        }
        line, view = (*RANKED, "[p = {p}]"), (FEATURE, IMPORTANCE, ERROR, INTERVAL, ("p", "{p}"))
        notes = named([*self._notes, *self.cautions]) if self._has_errors else ()
        table = ResultTable(f"{type(self).__name__}: {self.headline}", columns, line, view, notes, like="importance",
                            rounding=rounding_error(len(self.local), 2 * self.error))  # fmt: skip
        return table.ordered(np.argsort(-self.importance, kind="stable"))

    @property
    def _counted(self) -> Indices:
        """Rows with weight and importances."""
        return np.flatnonzero((self.weight > 0) & ~np.isnan(self.local).any(axis=1))

    @property
    def _counted_weight(self) -> Floats:
        """The weight of these rows, 0 of the others, (n,)."""
        weight = np.zeros(len(self.weight))
        weight[self._counted] = self.weight[self._counted]
        return weight

    @property
    def _units(self) -> int:
        """The number of these rows, or of their groups."""
        return len(self._counted) if self.block is None else len(np.unique(self.block[self._counted]))

    @property
    def _has_errors(self) -> bool:
        """Whether there are enough rows for standard errors."""
        return self._units >= 3


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ConditionalImpact(RowChanges):
    """How much the loss increases when a feature's values are drawn given the other features.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> cpi = ll.conditional_predictive_impact(
    ...     lambda X: X[:, 0], X, X[:, 0], ll.Within(), loss="squared_error", random_state=0
    ... )
    >>> cpi.features, (cpi.importance > 0.5).tolist()
    (('x0', 'x1'), [True, False])
    """

    conditioning: tuple[Conditioning, ...] = ()  #: how each feature was drawn; empty in files of older versions

    _without, untouched = "beyond the other features", "with nothing drawn"

    @property
    def caution(self) -> tuple[str, ...]:
        """Why each number, its interval or its p-value is to be taken with caution, (p,); empty text if it is not."""
        return super().caution if self._has_errors else self._doubts

    @property
    def _doubts(self) -> tuple[str, ...]:
        doubts = {one.feature: doubted_draws(one) for one in self.conditioning}
        return tuple(doubts.get(name, "") for name in self.features)

    @property
    def doubted(self) -> tuple[str, ...]:
        """The features whose drawn values differ from real ones."""
        return tuple(one.feature for one in self.conditioning if one.in_doubt)

    def _table(self) -> ResultTable:
        table = super()._table()
        mark = ["sampler in doubt" if name in self.doubted else "" for name in table.column("feature")]
        return replace(
            table, extra={"mark": mark}, line=(*RANKED, "[p = {p}][ ({mark})]"),
            view=(FEATURE, IMPORTANCE, ERROR, INTERVAL, ("p", "{p}[ ({mark})]")),
        )  # fmt: skip


How = Literal["drop", "constant"]
NOISY_TEST = "fitting a feature adds noise, which p counts against it: features that add little are rarely significant"
NONE_TESTED = "none of the chosen rows has a weight and is in the test set of a fold; choose others"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LeftOut(RowChanges, Grouped):
    """How much the loss on test rows increases when a learner is fitted without a feature.

    Standard errors, intervals and tests are about *these fits on new rows*: the mean over the fitted models of all
    folds. The test rows of a fold are training rows of the other folds, so they are not quite new rows. What this adds
    to the variance is as much as the noise that training adds to the changes of the rows, `training_variance`: little
    for a feature that helps, and half of the variance for one that is worth nothing.
    ``interval(target="learner")`` is about fits on other training rows.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> loco = ll.leave_one_covariate_out(LinearRegression(), X, X[:, 0], random_state=0)
    >>> (loco.interval()[0] > 0).tolist(), loco.per_fold.shape
    ([True, False], (5, 2))
    """

    loss: Floats  #: loss of each row with all features, (n,); NaN for rows in no test set
    per_fold: Floats  #: the mean of each fold, (M, p); empty after `given`
    correction: float  #: Nadeau and Bengio's 1/M + n_test/n_train: folds share training rows
    how: How  #: how a feature is left out: "drop" or "constant"
    #: the variance of each row's change over training rows, (n, p): n_train/n_test times that between the fits; None:
    #: absent from older files
    training_variance: Floats | None = None
    #: what the noise of fitting one more feature takes from each row's change, (n, p): tests are of the change with it,
    #: that is of whether the feature adds information; None: tests are of the change
    fitting_noise: Floats | None = None
    #: the part of the variance over training rows that the changes with this noise have, (p,)
    tested_training: Floats | None = None

    def interval(self, level: float = 0.95, target: Target = "model") -> tuple[Floats, Floats]:
        """Low and high ends for each feature.

        Parameters
        ----------
        level
            The coverage probability.
        target
            ``"model"``: these fits on new rows, on average over the folds. ``"learner"``: the mean over refits on new
            data of this size, from the variation between the folds.
        """
        if is_one_of(target, ("learner",)):
            return self._learner.intervals(level)
        if check_target(target) == "sample":
            raise ValueError("nothing is sampled here; use target='model' or target='learner'")
        return self._estimates.intervals(level)

    @property
    def _notes(self) -> Sequence[str]:  # type: ignore[override]
        kind = "a small p: the feature adds information" if self.fitting_noise is not None else NOISY_TEST
        return *RowChanges._notes, "standard errors are for new test rows, with the models as fitted here", kind

    def _of_weight(self, weight: Floats) -> Estimates:
        """The importances over new rows of these weights, with the covariance of rows that are tested and trained on.

        A fold's deviation is a sum of products, of what its test rows and what its training rows add. A pair of rows in
        different folds appears twice, with the roles exchanged: the covariance of both is the variance of one of
        them. Rows of a group are taken as perfectly dependent, which is the most.
        """
        estimates, trained = super()._of_weight(weight), np.zeros(len(self.features))
        if self.training_variance is not None:
            spread = weight[:, None] * np.sqrt(np.nan_to_num(self.training_variance))
            trained = np.square(by_unit(spread, self.block)).sum(axis=0)
        if self.fitting_noise is not None:
            informative = self._of_changes(self.local + self.fitting_noise, weight)
            part = 0.0 if self.tested_training is None else self.tested_training * trained
            error = np.sqrt(np.square(informative.std_error) + part)
            tested = replace(informative, std_error=error, skewness=np.zeros(0))  # Student's test
            estimates = replace(estimates, tested=tested)
        if self.training_variance is None:
            return estimates
        variance = np.diag(estimates.covariance)
        share = np.divide(variance, variance + trained, out=np.ones_like(trained), where=variance + trained > 0)
        pairs = zip(estimates.influences, trained.tolist(), strict=True)
        influences = tuple(replace(one, excess=-more) for one, more in pairs)  # independent between sets of rows
        covariance, skewness = estimates.covariance + np.diag(trained), estimates.skewness * share**1.5
        std_error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        return replace(estimates, covariance=covariance, std_error=std_error, skewness=skewness, influences=influences)

    def estimates(self, rows: Any = None) -> Estimates:
        """The importances by name, with their covariance; of some `rows` (as in `given`), or of all."""
        if rows is None:
            return self._estimates
        weight = np.zeros(len(self.weight))
        chosen = positions(rows, len(weight), self.row_labels, self.backend)
        weight[chosen] = self._counted_weight[chosen]
        if not weight.any():
            raise ValueError(NONE_TESTED)
        return self._of_weight(weight / weight.sum())

    _without, untouched = "without the feature, refitted", "with all features"
    _measure, _base, _axis = "error", property(attrgetter("error")), property(attrgetter("what"))

    _why_no_base = "no standard error of the error itself: training rows of a fold are test rows of the others"

    def _between(self, parts: Sequence[Any], rows: Sequence[Mask], names: tuple[str, str]) -> Compared:
        """Rows of a group of `groups=` may be in both, so that influences are those of all rows."""

        def compare(feature: str | None, level: float) -> Difference:
            if feature is None:
                raise ValueError(self._why_no_base)
            first, second = map(self.estimates, rows)
            return between(first, second, feature, names, level, "others")

        return compare

    @property
    def _learner(self) -> Estimates:
        if len(self.per_fold) < 2:
            raise ValueError("no interval with target='learner' for chosen rows: use the result of all rows")
        return Estimates.of_folds(self.features, self.per_fold, self.correction)

    def given(self, rows: Any) -> Self:
        """The result for these `rows`; a boolean mask, or row labels (positions where there are none)."""
        chosen = positions(rows, len(self.weight), self.row_labels, self.backend)
        tested = (self.weight[chosen] > 0) & np.isfinite(self.loss[chosen])
        if not tested.any():
            raise ValueError(NONE_TESTED)
        weight = np.where(tested, self.weight[chosen], 0.0)
        weight = weight / weight.sum()
        error = float(weight[weight > 0] @ self.loss[chosen][weight > 0])
        block: Indices | None = None if self.block is None else self.block[chosen]
        return replace(
            self, local=self.local[chosen], loss=self.loss[chosen], weight=weight, error=error, block=block,
            per_fold=np.empty((0, len(self.features))), row_labels=take_labels(self.row_labels, chosen),
            training_variance=None if self.training_variance is None else self.training_variance[chosen],
            fitting_noise=None if self.fitting_noise is None else self.fitting_noise[chosen],
        )  # fmt: skip

    at = property(lambda self: np.arange(len(self.weight)))  # positions of the rows
