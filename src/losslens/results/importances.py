"""Importances of several features, with differences, ranks and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.donors.conditional import common_condition
from losslens.losses import Loss, OutputsLoss, same_outputs
from losslens.losses import resolve as resolve_loss
from losslens.plots.look import Look, draws
from losslens.results.afforded import Afforded, settled_order
from losslens.results.base import WITH_MODEL, ResultMapping, WithLocal
from losslens.results.extrapolation import Extrapolations
from losslens.results.importance import CURVES_ONLY, FeatureImportance
from losslens.results.one_number import NUMBERS, numbers_of, together
from losslens.results.outputs import Outputs
from losslens.results.over_time import OverTime, over_time
from losslens.results.regions import Regions, RegionTarget
from losslens.results.sufficient import Sufficient
from losslens.results.table import ERROR, FEATURE, IMPORTANCE, INTERVAL, RANKED, ResultTable, named, or_else, why_not
from losslens.results.together import Together
from losslens.tables.sample import Sample
from losslens.text import Sentence, claim, how_computed, in_digits, listed, share_in_words, size_in_words
from losslens.tracebacks import brief
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Floats, Sort
from losslens.uncertainty.cautions import noted
from losslens.uncertainty.inference import Estimates, Inference
from losslens.uncertainty.standard_errors import Target, check_level, check_target

if TYPE_CHECKING:
    from losslens.results.gate import Verdict

ONE_BY_ONE = 3  # features, or blocks, that a note tells of one by one, at most


@dataclass(frozen=True, eq=False, repr=False)
class Importances(ResultMapping[FeatureImportance], WithLocal, Inference):
    """Importances of several features: a mapping from name to `FeatureImportance`.

    `to_frame()` has one row a feature, the most important first.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> imp = ll.feature_importance(lambda X: 2 * X[:, 0], X, 2 * X[:, 0], loss="squared_error")
    >>> list(imp), imp.error, imp["x1"].pfi
    (['x0', 'x1'], 0.0, 0.0)
    >>> bool(imp.difference("x0", "x1").low > 0)
    True
    """

    by_output: dict[str | float, Importances] = field(default_factory=dict)  # of a loss of several outputs
    remarks: tuple[str, ...] = ()  #: what is said of the rows, such as that they are a sample
    afforded: Afforded | None = None  #: rows, donors and seconds that a budget afforded; None without a budget

    _internal = ("by_output",)

    @property
    def outputs(self) -> Outputs:
        """The importances for each output, or point in time, from the same predictions; their mean are these."""
        if not self.by_output:
            several = "pass y with one column for each output, or a loss of several predictions a row"
            if self.loss.reads == "outputs":
                several = "it gives one loss for each row; return one for each row and output, (n, K)"
            raise ValueError(f"{self.loss.title} has no outputs: {several}")
        return Outputs(self.by_output)

    def _each(self, change: Callable[[FeatureImportance], FeatureImportance]) -> Self:
        changed = super()._each(change)
        return replace(changed, by_output={name: one._each(change) for name, one in self.by_output.items()})

    @property
    def error(self) -> float:
        """GE_P, the model's mean loss with nothing replaced."""
        return self._first.error

    @property
    def error_constant(self) -> float:
        """The error of the best constant, such as the mean of y for the squared error, on the same rows."""
        return self._first.error_constant

    @property
    def skill(self) -> float:
        """``1 - error / error_constant``: 1 without errors, 0 as the best constant; R² for the squared error."""
        return self._first.skill

    @property
    def loss(self) -> Loss:
        """The loss whose change is reported."""
        return self._first.loss

    @property
    def title(self) -> str:
        """The name of the loss."""
        return self.loss.title

    @property
    def _is_score(self) -> bool:
        return self._first._is_score

    @property
    def base(self) -> float:
        """The reference of the importances: the error with nothing replaced."""
        return self.error

    @property
    def local(self) -> Floats:
        """Importance of each feature for each row, (n, p)."""
        return np.stack([f.local for f in self.features.values()], axis=1)

    @property
    def _lines(self) -> list[tuple[str, float, Floats]]:
        """Name, importance and local importances of each feature that has them."""
        some = [one for one in self.features.values() if not why_not(lambda: (one.pfi, one.local))]  # noqa: B023
        return [(one.name, one.pfi, one.local) for one in some or [self._first]]  # which says why it has none

    @property
    def observations(self) -> Floats:
        """Importance of each row: the sum of its local importances over the features, (n,)."""
        return np.asarray(self.local.sum(axis=1))

    @property
    def _importance(self) -> Floats:
        return np.array([one.pfi for one in self.features.values()])

    @property
    def unbiased(self) -> Floats:
        """The importances without pairs of a row with itself: what intervals and tests are of, (p,)."""
        return np.array([one.unbiased for one in self.features.values()])

    def interval(self, level: float = 0.95, target: Target = "model") -> tuple[Floats, Floats]:
        """Low and high ends for each feature, (p,) each; NaN where there is no standard error.

        Parameters
        ----------
        level
            The coverage probability of each.
        target
            ``"model"``: this fitted model on new data. ``"sample"``: the mean over all pairs of these rows.
        """
        check_level(level)
        check_target(target)
        ends = [or_else(partial(one.interval, level, target), (np.nan, np.nan)) for one in self.features.values()]
        low, high = np.array(ends, float).T
        return low, high

    @property
    def doubted(self) -> tuple[str, ...]:
        """The features whose drawn values differ from real ones."""
        given = {name: one.conditioning for name, one in self.features.items()}
        return tuple(name for name, one in given.items() if one is not None and one.in_doubt)

    def _by_own_value(self, feature: str) -> tuple[NDArray[Any], Floats, bool]:
        """The values of a feature, the PI curve there, and whether they have an order."""
        one = self[feature]
        grid: Any = one.grid
        return grid, one.pi, one.ordered

    @property
    def extrapolation(self) -> Extrapolations:
        """How far the replaced rows of each feature are from real ones; computed on first access."""
        results = {name: feature.extrapolation for name, feature in self.features.items()}
        return Extrapolations({name: one for name, one in results.items() if one is not None}, self._first.backend)

    @cached_property
    def blocks(self) -> dict[str, tuple[str, ...]]:
        """Features that go together in X, by the name of the block: an average rank correlation of 0.7 or more.

        As `feature_groups` finds them, in the rows that the result keeps (2,000 at most). Features of several columns,
        which are replaced together already, are in no block; nor is there one in results without rows: of scores, of
        files that were read in parts.
        """
        rows = self._first._real_rows
        name_of = (
            {} if rows is None else {f.columns[0]: name for name, f in self.features.items() if len(f.columns) == 1}
        )
        blocks = [] if rows is None else [
            [name_of[column] for j in columns if (column := rows.names[j]) in name_of] for columns in rows.blocks
        ]  # fmt: skip
        return {self._block_name(some): tuple(some) for some in blocks if len(some) > 1}

    @property
    def _block_notes(self) -> list[str]:
        """One line on the features that go together."""
        some = [listed(members, ONE_BY_ONE) for members in self.blocks.values()]
        more = [f"{len(some) - ONE_BY_ONE} more blocks"] if len(some) > ONE_BY_ONE + 1 else some[ONE_BY_ONE:]
        together = "; ".join([*some[:ONE_BY_ONE], *more])
        return [f"go together: {together}; see imp.together(model, X, y)"] if some else []

    def _block_name(self, members: Sequence[str]) -> str:
        name = ", ".join(members)
        while name in self.features:  # as a feature is called
            name += " "
        return name

    @brief
    def together(
        self, model: Any, X: Any, y: Any, *, blocks: Mapping[str, Any] | None = None, random_state: Any = None,
        n_jobs: int | None = None, memory: str | int = "1 GiB", progress: bool | None = None,
    ) -> Together:  # fmt: skip
        """The importance of features that go together when they are replaced together, and how it compares with theirs.

        Replaced alone, correlated features mislead in both directions: each of several substitutes seems to matter
        little, and either of two that cancel seems to matter much. The joint importance does neither.

        Parameters
        ----------
        model, X, y
            Those of this result, which holds none of them; that they are the same is checked on some rows. Weights and
            groups of rows are the result's own.
        blocks
            ``{"name": [features]}``; by default the `blocks` of X.
        random_state
            A seed or a NumPy generator, for donors where they are sampled: all features of a block have the same.
        n_jobs, memory, progress
            As in `feature_importance`.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
        >>> f = lambda X: 10 * (X[:, 0] - X[:, 1]) + X[:, 0]
        >>> imp = ll.feature_importance(f, X, f(X), loss="squared_error")
        >>> {name: block.case for name, block in imp.together(f, X, f(X)).blocks.items()}
        {'x0, x1': 'opposed'}
        """
        running = {"random_state": random_state, "n_jobs": n_jobs, "memory": memory, "progress": progress}
        result: Together = WITH_MODEL["together"](self, model, X, y, blocks, running)
        return result

    @brief
    def given_others(
        self, model: Any, X: Any, y: Any, sampler: Any = None, *, features: Sequence[str] | None = None,
        random_state: Any = None, n_jobs: int | None = None, memory: str | int = "1 GiB", progress: bool | None = None,
    ) -> Importances:  # fmt: skip
        """The importance of features with values drawn given the other columns, which real rows might have.

        What a feature adds for the model beyond the others: rows with it shuffled may be unlike any real one, and the
        importance is then about rows that don't exist. The short way to ``feature_importance(..., donors=Within())``
        with the loss, the weights and the groups of rows of this result.

        Parameters
        ----------
        model, X, y
            Those of this result, which holds none of them; that they are the same is checked on some rows.
        sampler
            What draws the values, such as ``Residual()``; by default ``Within(m=32)``: 32 donors from the same leaf of
            a tree that predicts the feature from the others.
        features
            Features of this result; by default the eight most important ones.
        random_state
            A seed or a NumPy generator, for the donors.
        n_jobs, memory, progress
            As in `feature_importance`.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
        >>> f = lambda X: X[:, 0] + X[:, 1]
        >>> imp = ll.feature_importance(f, X, f(X), loss="squared_error")
        >>> bool(imp.given_others(f, X, f(X), random_state=0)["x0"].pfi < 0.2 * imp["x0"].pfi)
        True
        """
        running = {"random_state": random_state, "n_jobs": n_jobs, "memory": memory, "progress": progress}
        result: Importances = WITH_MODEL["given_others"](self, model, X, y, sampler, features, running)
        return result

    @brief
    def more(
        self, model: Any, X: Any, y: Any, budget: str | int | None = None, *,
        precision: Literal["ranks"] | None = None, n_jobs: int | None = None, memory: str | int = "1 GiB",
        progress: bool | None = None,
    ) -> Importances:  # fmt: skip
        """The result with more donors: a call with a budget goes on where it stopped, also after `save` and `load`.

        The rows stay those that were drawn at first; where they are few, a new call with a larger budget has more.

        Parameters
        ----------
        model, X, y
            Those of this result, which holds none of them; that they are the same is checked on some rows.
        budget
            A further time, such as ``"10 min"``, or number of predictions.
        precision
            ``"ranks"`` ends it once the leading five ranks are settled, as in `feature_importance`.
        n_jobs, memory, progress
            As in `feature_importance`.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(500, 3))
        >>> f = lambda X: X[:, 0] * X[:, 1]
        >>> first = ll.feature_importance(f, X, f(X), loss="squared_error", budget=6_000, random_state=0)
        >>> second = first.more(f, X, f(X), 4_000)
        >>> bool(second["x0"].std_error < first["x0"].std_error)
        True
        """
        running = {"n_jobs": n_jobs, "memory": memory, "progress": progress}
        result: Importances = WITH_MODEL["more"](self, model, X, y, budget, precision, running)
        return result

    @brief
    def sufficient(
        self, model: Any, X: Any, y: Any, keep: float = 0.98, *, blocks: bool = False, random_state: Any = None,
        n_jobs: int | None = None, memory: str | int = "1 GiB", progress: bool | None = None,
    ) -> Sufficient:  # fmt: skip
        """Which features are enough for this model: they leave one by one, the cheapest to miss first.

        The features that have left are replaced together by values of other rows (8 donors for each row, the same for
        all candidates of a step, p(p + 1)/2 sets in all). One half of the rows chooses the order and how many may
        leave; the other half, with 32 donors, says how much the rest keeps of what the model gains over the best
        constant. Scores, files and losses without a best constant are refused. A model that is fitted to these features
        alone may do better, and features that stand in for each other leave in an order that another half may change.

        Parameters
        ----------
        model, X, y
            The model and the rows of this result; it is checked on some.
        keep
            The share of the gain that is to be kept, between 0 and 1.
        blocks
            Whether features that go together (`blocks`) leave together.
        random_state
            A seed or a NumPy generator, for the halves and the donors.
        n_jobs, memory, progress
            As in `feature_importance`.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(400, 4))
        >>> f = lambda X: 2 * X[:, 1] + X[:, 3]
        >>> ll.feature_importance(f, X, f(X), loss="squared_error").sufficient(f, X, f(X)).enough
        ('x3', 'x1')
        """
        running = {"random_state": random_state, "n_jobs": n_jobs, "memory": memory, "progress": progress}
        result: Sufficient = WITH_MODEL["sufficient"](self, model, X, y, keep, blocks, running)
        return result

    @cached_property
    def _estimates(self) -> Estimates:
        """The importances of this model on new data and their covariance, for features with a standard error."""
        return together(self.features)

    @brief
    def subset(self, rows: Any) -> Self:
        """The result for these `rows` (a mask, row labels or positions) with donors among them."""
        self._need_all_cells("subset")
        return self._each(lambda feature: feature.subset(rows))

    @brief
    def drop(self, rows: Any) -> Self:
        """The result without these `rows`, as observations and as donors: the `subset` of the others."""
        self._need_all_cells("drop")
        return self._each(lambda feature: feature.drop(rows))

    @brief
    def with_loss(self, loss: str | Loss | Callable[..., Any]) -> Self:
        """The same predictions with another `loss`, a name or a function, of the same response."""
        self._need_all_cells("with_loss")
        new = same_outputs(resolve_loss(loss, self.loss.reads), self.loss)
        by_output: dict[str | float, Importances] = {}
        if isinstance(new, OutputsLoss):
            by_output = {name: self._judged_by(new.output(k)) for k, name in enumerate(new.outputs)}
        return replace(self._judged_by(new), by_output=by_output)

    def _judged_by(self, loss: Loss) -> Self:
        """The same predictions with another loss, without outputs."""
        samples: dict[int, Sample] = {}  # one new sample for all features that share one

        def change(feature: FeatureImportance) -> FeatureImportance:
            changed = feature._with_loss(loss, samples.get(id(feature.sample)))
            samples[id(feature.sample)] = changed.sample
            return changed

        return replace(self, features={name: change(feature) for name, feature in self.features.items()}, by_output={})

    @brief
    def over(self, times: Any, bins: int | None = None, width: Any = None, level: float = 0.95) -> OverTime:
        """The importances over time, with a band for each feature; arguments as in `FeatureImportance.over`."""
        self._first.over  # noqa: B018 - a score says why it has none
        features = {name: one for name, one in self.features.items() if one.means.has_weights}
        if not features:
            self._first._need_donors("importance over time")
        return over_time(features, times, bins, width, level)

    @brief
    def regions(
        self, X: Any, *, target: RegionTarget = "interaction", depth: int = 3, level: float = 0.05,
        permutations: int = 499, random_state: Any = 0,
    ) -> Regions:  # fmt: skip
        """Find regions of the data in which a feature's importance differs, as a small tree with readable rules.

        The split on another column is chosen that separates the rows best, and a permutation test compares it with the
        best split under chance; then the same within either side. No prediction is made.

        The level holds for all features together: if nothing differs, some feature is split in one run of twenty. `p`
        and the 95% intervals of `difference` and `ratio` are of the importance on one side of a split against the
        other, and allow for the choice of the rule: with ``target="interaction"`` a row counts for the side that the
        best split without that row puts it on; with ``target="importance"`` the difference is compared with the largest
        of all splits under chance. `p` is multiplied by the number of features. `sentences` tells what is sure. `pfi`,
        `low` and `high` are those of the region's rows, as if its rule had been given.

        Clustered rows (``groups=`` of `feature_importance`) are left out together, and standard errors and tests count
        groups, not rows. A split needs at least five groups with rows on either side. Instead of permutations, signs of
        groups are drawn: a large-sample test, which needs some thirty groups.

        Parameters
        ----------
        X
            The table that was explained; further columns may be used in rules.
        target
            ``"interaction"``: where the effect of the feature in the *model* is stronger, whatever the labels; none in
            a model without interactions. ``"importance"``: where its importance differs for any reason.
        depth
            The most splits from root to leaf.
        level
            The probability that any feature is split although nothing differs.
        permutations
            Of the test of each split (or draws of signs), in which all rows with positive weight are exchangeable; more
            if the number of features requires it.
        random_state
            A seed or a NumPy generator, for the permutations: the same data have the same regions by default, and
            another seed changes only what is about to be chance.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(300, 3))
        >>> X[:, 2] = X[:, 2] > 0
        >>> f = lambda X: X[:, 0] * (1 + X[:, 2]) + X[:, 1]
        >>> regions = ll.feature_importance(f, X, f(X), loss="squared_error").regions(X)
        >>> regions.sentences[0].partition(";")[0]
        'x0 matters more where x2 = 1 (150 rows) than elsewhere: 7.611 against 1.908'
        >>> [region.rule for region in regions.of("x0")]
        ['', 'x2 = 0', 'x2 = 1']
        """
        from losslens.rows.regions import find_regions

        return find_regions(self, X, target, depth, level, permutations, random_state)

    @brief
    def assert_like(
        self, other: Importances, within: float = 0.1, level: float = 0.05, *, strict: bool = False
    ) -> list[Verdict]:
        """For tests: the error and each importance are as in another result, such as that of the last release.

        A number *passes* where it surely lies within the margin of the other's, *fails* (AssertionError) where it
        surely lies outside, and otherwise the rows *cannot tell* (a warning). The two are compared pair by pair where
        both are of the same rows, otherwise as independent; each sentence says which.

        Parameters
        ----------
        other
            The result to compare with, often ``ll.load("baseline.losslens")``.
        within
            The margin: of the error as a share of the other error, of each importance as a share of the largest one.
        level
            The probability that anything fails although all numbers are within the margin, and likewise that a number
            passes although it is not.
        strict
            Whether "cannot tell" is an error, too.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> old, new = (ll.feature_importance(f, X, X[:, 0] + X[:, 1] / 2, loss="absolute_error")
        ...             for f in (lambda X: X[:, 0], lambda X: X[:, 0] + X[:, 1] / 9))
        >>> [str(one.outcome) for one in new.assert_like(new)]
        ['passes', 'passes', 'passes']
        >>> new.assert_like(old)  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        losslens.results.gate.NotAlike: 1 of 3 numbers surely differ:
        """
        from losslens.results.gate import assert_alike

        return assert_alike(self, other, within, level, strict=strict)

    def _need_all_cells(self, what: str) -> None:
        if self._first.totals is not None:
            self._first._need_rows(what)
        if not all(feature.complete for feature in self.features.values()):
            needs = size_in_words(sum(feature.full_size for feature in self.features.values()))
            raise ValueError(
                f"{what} needs every cell, but the result was streamed; all features need memory='{needs}'"
            )

    @property
    def headline(self) -> str:
        """What the numbers are."""
        condition = common_condition(one.conditioning for one in self.features.values())
        given = f", values drawn {condition}" if condition else ""
        error = self.error if abs(self.error) > self._first._rounding else 0.0
        return f"increase in {self.loss.title}{given}; {in_digits(error) if error else 0} with nothing replaced"

    @property
    def notes(self) -> list[str]:
        """How the numbers were computed."""
        first = self._first
        kind = "exact over all pairs of rows" if self.exact else f"sampled pairs of rows, {self.design}"
        notes = [f"{kind}; {how_computed(self.engine, self.n_predictions)}"]
        # Where numbers are sampled, although the caller did not choose a design that samples.
        sampled = [f for f in self.features.values() if not f.exact and len(f.values) == 1]
        notes += dict.fromkeys(
            f._why_sampled if f._why_sampled.startswith("sampled") else f"no exact engine: {f._why_sampled}"
            for f in sampled
            if f._why_sampled
        )
        if first.totals is not None:
            notes.append(f"{first.totals.n:,} rows, read in parts; {len(first.at):,} of them are kept for curves")
        elif first._is_streamed:
            notes.append(f"to save memory, curves of single rows are kept for {len(first.rows):,} of {len(first.at):,}")
        if len(self.by_output) > 1:
            notes.append(f"importances for each of the {len(self.by_output)} outputs: .outputs")
        if self.afforded is not None:
            notes += filter(None, [self.afforded.sentence, settled_order(self.afforded.settled)])
        return [*notes, *self.remarks, *filter(None, [self._no_error(), self._clipped_cells()])]

    @claim(level=0)
    def _no_error(self) -> str:
        """That no row has an error, as rows have that a model has memorised; "" if one has."""
        if not self._first.errorless:
            return ""
        return "the error is exactly 0 in every row: if the model was trained on these rows, new ones may differ"

    @claim(level=0)
    def _clipped_cells(self) -> str:
        """How many cells of the feature with most are at the clipping bound of the log loss; "" where none is."""
        worst = max(self.features.values(), key=lambda f: f.clipped)
        if not worst.clipped > 0:
            return ""
        share = share_in_words(worst.clipped, digits=1)
        share = share if share.startswith("under") else f"up to {share}"
        return (
            f"{share} of the cells ({worst.name}) give the true class probability 0: "
            "their log loss is set to the clipping bound"
        )

    @property
    def cautions(self) -> list[str]:
        """Which numbers are to be taken with caution, and why; empty if none is."""
        order = self._ranked
        screened = [f for f in order if f._unreal_rows and f.computed_extrapolation is None]
        names = [f.name for f in screened]
        if len(screened) > ONE_BY_ONE:
            screen = [f"{listed(names)} are correlated: shuffling may create unrealistic rows (imp.extrapolation)"]
        else:
            screen = noted(names, [f._unreal_rows for f in screened])
        return [*noted([f.name for f in order], [f._caution for f in order]), *screen]

    def _cautions_of(self, names: Sequence[str]) -> list[str]:
        return [self.features[name].caution for name in names]

    @property
    def _message(self) -> Sentence:
        from losslens.results.ranking import leading_words

        return leading_words(self)

    def _table(self) -> ResultTable:
        order = self._ranked
        block_of = {member: name for name, members in self.blocks.items() for member in members}
        numbers = {name: partial(numbers_of, order, name) for name in NUMBERS}
        columns = {
            "feature": [f.name for f in order],
            **{name: numbers[name] for name in ("importance", "std_error", "low", "high")},
            "target": ["model"] * len(order),  # the errors are about this model's importance on new data
            "ratio": numbers["ratio"],
            "exact": [f.exact for f in order],
            "design": [repr(f.design) for f in order],
            "n_predictions": [f.n_predictions for f in order],
            "block": lambda: [block_of.get(f.name, "") for f in order],
            "caution": lambda: [f.caution for f in order],
        }
        return ResultTable(
            f"Importances: {self.headline}", columns, RANKED, (FEATURE, IMPORTANCE, ERROR, INTERVAL),
            named(self.notes) + self._extrapolation_note + self.cautions + self._block_notes, like="importance",
            rounding=self._first._rounding,
            formats={"importance": lambda number: in_digits(number) if np.isfinite(number) else CURVES_ONLY},
        )  # fmt: skip

    @draws("rows")
    def plot(
        self, ax: Axes | None = None, *, ratio: bool = False, blocks: Together | None = None, top: int | None = None,
        sort: Sort = "importance", scale: AxisScale = "linear", colors: Colors | None = None,
        labels: FeatureLabels | None = None, title: str | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the importances, the largest on top.

        Parameters
        ----------
        ratio
            Draw the error with the feature replaced divided by the error with nothing replaced, not their difference.
        blocks
            What `together` returns: features that go together are one bar, with those of each alone inside.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
        >>> [label.get_text() for label in imp.plot().get_yticklabels()]
        ['x1', 'x0']
        >>> [label.get_text() for label in imp.plot(top=1, labels={"x1": "speed"}).get_yticklabels()]
        ['speed']
        """
        return plots.rankings.plot_importances(self, ax, Look(top, sort, scale, colors, labels), ratio, blocks)

    def plot_curves(
        self, figure: Any = None, *, top: int = 8, colors: Colors | None = None, labels: FeatureLabels | None = None
    ) -> list[Axes]:
        """Draw the PI curves of the most important features, in small panels with one axis each, their peaks named.

        Parameters
        ----------
        figure
            Where to draw; a new figure by default.
        top
            How many features to draw, the most important ones; groups of columns have no curve, and are left out.
        colors
            Colour of the PI curves and their bands.
        labels
            Names to show instead of those of the features: a mapping to a name, or to a name and a unit.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 3))
        >>> imp = ll.feature_importance(lambda X: X[:, 1] + 2 * X[:, 2], X, X[:, 2], loss="squared_error")
        >>> [ax.get_xlabel() for ax in imp.plot_curves(top=2)]
        ['x2', 'x1']
        """
        single = [one for one in self._ranked if len(one.values) == 1 and one.values[0].ndim == 1]
        if not single:
            raise ValueError("no feature has a curve over a single column; draw one: imp['name'].plot()")
        look = Look(top, colors=colors, labels=labels, curves=False)
        return plots.feature.plot_panels(single, figure, look, peaks=True)

    @property
    def _extrapolation_note(self) -> list[str]:
        """The note on extrapolation of features for which it has been computed: showing a result computes nothing."""
        computed = {name: f.computed_extrapolation for name, f in self.features.items()}
        note = Extrapolations({name: one for name, one in computed.items() if one is not None}).note
        return [note] if note else []

    @property
    def _ranked(self) -> list[FeatureImportance]:
        """The most important first; features without a number last."""
        return sorted(self.features.values(), key=lambda f: -float(or_else(lambda: f.pfi, -np.inf)))
