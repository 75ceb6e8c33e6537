"""Pairs of features: what two of them have in common, and the model's part of it, with standard errors and tests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

import numpy as np

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Result
from losslens.results.table import INTERVAL, ResultTable
from losslens.tables.checks import is_one_of
from losslens.tables.features import pair_name, position_of
from losslens.text import Sentence, how_computed, rounding_error
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Floats, Sort
from losslens.uncertainty.cautions import noted
from losslens.uncertainty.inference import Adjustment, Estimated, Estimates, adjusted

Part = Literal["whole", "shared", "interaction", "strength"]
PAIRS_IN_TEXT = 10
CLIPPED = "too many probabilities are at the clipping bound of the log loss"
NO_PARTS = "only what pair_interactions returns has parts"
# What numbers of each kind say, by the first words of the kind.
MEANINGS = {
    "Shapley": "above 0: worth more together; not 0 for correlated features, even if the model only adds them",
    "PFI_j": "above 0: counted by both importances; not 0 for correlated features, even if the model only adds them",
    "the model's": "above 0: the model does better for combining them; 0: it only adds them",
    "strength": "mean square of the interaction in the predictions; 0: the model only adds them",
    "shared": "from dependence; 0 on average for a feature that is independent of all others",
    "overlap": "from dependence, and from the curvature of the loss",
}


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Result, Estimated):
    """What every two features have in common in the performance of a model.

    All matrices are (p, p) and symmetric. Standard errors, intervals and tests are about this model on new data; they
    are NaN where they are unknown, and `absent` has the reason.

    What `pair_interactions` returns is the whole, and has the parts `shared`, `interaction` and `strength`. Each is a
    result like this one: ``found.interaction["a", "b"]``, ``found.interaction.p_adjusted``,
    ``found.interaction.plot()``. The whole is the sum of `shared` and `interaction`, unless their title is that of
    another loss. Only `interaction` and `strength` say whether the model combines two features.

    Text, tables and pictures begin with the model's interaction, the smallest p-value first. `to_frame()` has one row a
    pair: `interaction` with standard error, 95% interval and p-values, then the same of the whole (`counted_by_both`),
    of `shared` and of `strength`. The last column, `caution`, says where the interval of the interaction cannot be
    trusted. Where a loss has no parts, the whole leads.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> f = lambda X: X[:, 0] * X[:, 1] + X[:, 2]
    >>> found = ll.pair_interactions(f, X, f(X), loss="squared_error")
    >>> found.features, found.interaction["x0", "x2"], bool(found.interaction["x0", "x1"] > 1)
    (('x0', 'x1', 'x2'), 0.0, True)
    """

    features: tuple[str, ...]  #: names of the features
    index: Floats  #: the numbers, (p, p): 0 on the diagonal, NaN for pairs that were not requested
    kind: str  #: what the numbers are
    title: str  #: name of the loss
    backend: str
    unbiased: Floats | None = None  #: the U-statistics: what intervals and tests are of
    std_error: Floats | None = None  #: standard errors, (p, p)
    units: float = 0  # effective number of rows, or groups of rows
    absent: str = ""  #: why some or all pairs have no standard error
    n_predictions: int = 0  #: rows that the model predicted
    skewness: Floats | None = None  # of the estimates, by which intervals are bent; None: 0
    grouped: bool = False  # units are groups of rows
    parts: dict[str, Interactions] = field(default_factory=dict)  # of the whole, by name

    _internal = ("parts",)

    @property
    def shared(self) -> Interactions:
        """The part that is not the model's interaction.

        For squared error it is shared information, 0 on average if one of the two features is independent of all
        others. For other losses it is "overlap": dependence, and the curvature of the loss.
        """
        return self._part("shared")

    @property
    def interaction(self) -> Interactions:
        """The model's own part: 0 in every pair of rows if the model only adds the two features.

        Above 0 the model does better for combining them, below 0 it does worse.
        """
        return self._part("interaction")

    @property
    def strength(self) -> Interactions:
        """How strongly the model combines two features, for better or worse: the mean square of m.

        ``m = d_jl - d_j - d_l``, with d the changes of a prediction when features are replaced, on the scale on which
        the model adds (`title` names it).
        """
        return self._part("strength")

    def _part(self, name: str) -> Interactions:
        if name in self.parts:
            return self.parts[name]
        nothing = np.full(self.index.shape, np.nan)
        return replace(self, index=nothing, kind=name, unbiased=None, std_error=None, absent=NO_PARTS)

    @property
    def _names(self) -> tuple[tuple[str, str], ...]:
        return tuple((self.features[j], self.features[k]) for j, k in self._pairs)

    def __getitem__(self, pair: tuple[str, str]) -> float:
        return float(self.index[self._at(pair)])

    @property
    def low(self) -> Floats:
        """The low ends of the 95% intervals."""
        return self.interval()[0]

    @property
    def high(self) -> Floats:
        """The high ends of the 95% intervals."""
        return self.interval()[1]

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Low and high ends of the confidence interval of every pair, (p, p) each, for this model on new data.

        `level` is the coverage probability of each. One pair: ``estimates().number("a x b", level)``.
        """
        low, high = self._estimates.intervals(level)
        return self._matrix(low), self._matrix(high)

    @cached_property
    def p(self) -> Floats:
        """p-values of the two-sided tests of no interaction, not adjusted."""
        return self._matrix(self._estimates.p_values())

    @cached_property
    def p_adjusted(self) -> Floats:
        """p-values adjusted for the number of pairs by Holm's method, against any false rejection."""
        return self._matrix(adjusted(self._estimates.p_values(), "holm"))

    def test(self, adjust: Adjustment | None = "holm") -> Any:
        """Two-sided tests that the number of a pair is 0; a data frame, the smallest p first. `adjust` as elsewhere.

        Of what `pair_interactions` returns it is the whole; the model's part is tested by `found.interaction.test()`.
        """
        pairs = sorted(self._with_error, key=lambda pair: self.p[pair])
        p = np.array([self.p[pair] for pair in pairs])
        names = {what: [self.features[pair[k]] for pair in pairs] for k, what in enumerate(("first", "second"))}
        data = names | {self._column: [self.index[pair] for pair in pairs], "p": p}
        return self._frame(data if adjust is None else data | {"p_adjusted": adjusted(p, adjust)})

    @property
    def _message(self) -> Sentence:
        from losslens.results.sentences import pairs_in_order, works_together

        return works_together(pairs_in_order(self) if self._is_split else None)

    def _table(self) -> ResultTable:
        lead, pairs = self._leading, self._pairs
        first, second = np.array(pairs, np.intp).reshape(-1, 2).T
        parts = {lead._column: lead}
        if lead is not self:
            parts |= {self._column: self, "shared": self.shared, "strength": self.strength}
        numbers: dict[str, Floats] = {}
        for name, part in parts.items():
            prefix = "" if part is lead else f"{name}_"
            numbers |= {name: part.index} | {prefix + key: matrix for key, matrix in part._tested.items()}
        columns = {
            "first": [self.features[j] for j in first],
            "second": [self.features[k] for k in second],
            **{name: matrix[first, second] for name, matrix in numbers.items()},
            "caution": [lead._caution(pair) for pair in pairs],
        }
        # A number has the decimals of its interval: most are smaller than their standard error.
        largest = np.fmax.reduce([np.abs(matrix[first, second]) for matrix in (lead.index, *lead.interval())])
        name, count = lead._column, f"{{{self._column}}}"
        line = f"{{{name}}}[ ± {{std_error}} ({{low}} to {{high}}), p = {{p_adjusted}}]"
        view = [("pair", "{pair}"), (lead._name, f"{{{name}}}[ ± {{std_error}}]")]
        if lead._with_error:
            view += [INTERVAL, ("p", "{p_adjusted}")]
        if lead is not self:
            line += f"; {self._name}: {count}"
            view.append((self._name, count))
        return ResultTable(
            f"Interactions: {lead.headline}", columns, ("{pair}", line), tuple(view), self.notes,
            extra={"pair": [f"{self.features[j]}, {self.features[k]}" for j, k in pairs], "largest": largest},
            like="largest", alike=[name, "std_error", "low", "high"], most_in_text=PAIRS_IN_TEXT,
            rounding=rounding_error(max(self.units, 1), np.abs(self.index[first, second]).max(initial=0)),
            rounded=[self._column],
        )  # fmt: skip

    @property
    def _leading(self) -> Interactions:
        """What tables and pictures begin with: the model's interaction where it is known, else these numbers."""
        return self.interaction if self._is_split else self

    @property
    def _column(self) -> str:
        """The column of its numbers in a data frame."""
        return "counted_by_both" if self._is_total else "interaction"

    @property
    def _is_total(self) -> bool:
        """Whether it is what `pair_interactions` returns: what both importances count."""
        return self.kind.startswith("PFI_j")

    def _caution(self, pair: tuple[int, int]) -> str:
        """Why the interval of a pair is to be taken with caution; empty if it is not."""
        return self._cautions.get(pair, "")

    @cached_property
    def _cautions(self) -> dict[tuple[int, int], str]:
        known = zip(self._with_error, self._estimates.std_error, self._estimates.cautions, strict=True)
        return {pair: said for pair, error, said in known if error > 0}

    @property
    def _tested(self) -> dict[str, Floats]:
        """Standard errors, intervals and p-values, by column."""
        low, high = self.interval()
        error = np.full(self.index.shape, np.nan) if self.std_error is None else self.std_error
        return {"std_error": error, "low": low, "high": high, "p": self.p, "p_adjusted": self.p_adjusted}

    @property
    def _is_split(self) -> bool:
        """Whether the parts are known."""
        return bool(np.isfinite(self.interaction.index[np.triu_indices(len(self.features), 1)]).any())

    @property
    def _adds_up(self) -> bool:
        """Whether the parts add up to the whole; else they are those of another loss."""
        return self._is_split and self.interaction.title == self.title

    @property
    def _name(self) -> str:
        """A heading of its numbers."""
        return "counted by both" if self._is_total else self.kind.split(",")[0]

    @property
    def meaning(self) -> str:
        """What numbers above 0, or other than 0, say, and what they don't."""
        return next((words for start, words in MEANINGS.items() if self.kind.startswith(start)), "")

    def _rows_drawn(self, lines: int) -> int:
        return len(self.features) + 2

    @draws("map")
    def plot(
        self, part: Part | None = None, ax: Axes | None = None, *, top: int | None = None, sort: Sort = "importance",
        colors: Colors | None = None, labels: FeatureLabels | None = None, title: str | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the interaction of each pair of features as a heat map; the features that interact most come first.

        Parameters
        ----------
        part
            ``"interaction"``, ``"shared"``, ``"strength"`` or ``"whole"``; by default the model's interaction, or the
            whole where that is unknown.
        top
            How many features to draw, those that interact most; all that fit by default.
        sort
            Order of the features: ``"importance"``, the strongest first, ``"name"`` or ``"given"``.

        Examples
        --------
        >>> import numpy as np
        >>> from losslens.results.interactions import Interactions
        >>> index = np.array([[0.0, 0.1, 2.0], [0.1, 0.0, -1.0], [2.0, -1.0, 0.0]])
        >>> interactions = Interactions(("a", "b", "c"), index, "Shapley interaction index", "squared error", "numpy")
        >>> ax = interactions.plot()
        >>> [[label.get_text() for label in axis.get_ticklabels()] for axis in (ax.xaxis, ax.yaxis)]
        [['c', 'a'], ['a', 'b']]
        """
        return plots.interactions.plot_interactions(self, ax, Look(top, sort, colors=colors, labels=labels), part)

    @draws("rows")
    def plot_ranking(
        self, top: int | None = 10, part: Part | None = None, ax: Axes | None = None, *, sort: Sort = "importance",
        scale: AxisScale = "linear", colors: Colors | None = None, labels: FeatureLabels | None = None,
        title: str | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the leading pairs, each a dot with its 95% interval; filled where the interval excludes 0.

        Parameters
        ----------
        top
            How many pairs to draw, those with the smallest p-values; None for all that fit.
        part
            ``"interaction"``, ``"shared"``, ``"strength"`` or ``"whole"``; by default the model's interaction, or the
            whole where that is unknown.
        sort
            Order of the pairs: ``"importance"``, as in the table, ``"name"`` or ``"given"``.
        scale
            Axis of the interactions: ``"linear"`` or ``"symlog"``; ``"log"`` only if all are above 0.
        colors
            One colour for all dots, a list from top to bottom, or a mapping from pairs of features to colours.

        Examples
        --------
        >>> import numpy as np
        >>> from losslens.results.interactions import Interactions
        >>> index = np.array([[0.0, 0.1, 2.0], [0.1, 0.0, -1.0], [2.0, -1.0, 0.0]])
        >>> interactions = Interactions(("a", "b", "c"), index, "Shapley interaction index", "squared error", "numpy")
        >>> [label.get_text() for label in interactions.plot_ranking(top=2).get_yticklabels()]
        ['a × c', 'b × c']
        """
        return plots.interactions.plot_interaction_ranking(self, ax, Look(top, sort, scale, colors, labels), part)

    def of_part(self, part: Part | None) -> Interactions:
        """A part by name, or the whole; None: what tables begin with."""
        if part is None:
            return self._leading
        if not is_one_of(part, ("whole", "shared", "interaction", "strength")):
            raise ValueError(f"part is None, 'whole', 'shared', 'interaction' or 'strength'; got {part!r}")
        return self if part == "whole" else self._part(part)

    @property
    def headline(self) -> str:
        """What the numbers are."""
        return f"{f'counted by both importances, {self.kind}' if self._is_total else self.kind}, {self.title}"

    @property
    def notes(self) -> list[str]:
        """What the numbers mean, and how they were computed."""
        lead = self._leading
        notes = [lead.meaning] if lead.meaning else []
        if lead._with_error:
            notes.append("±: standard error of this model on new data; p: test of 0, adjusted for all pairs")
        if lead is not self:
            what = "the sum of the two importances less the importance of both together"
            notes.append(f"{self._name}: {what}; not 0 for correlated features, even if the model only adds them")
            notes.append(f"the model is additive on the scale {self.strength.title}")
            if not self._adds_up:
                notes.append(f"the interaction is computed for the {lead.title}, not for the {self.title}: {CLIPPED}")
        elif self.parts and self.interaction.absent:
            notes.append(f"whether the model combines features is unknown: {self.interaction.absent}")
        if self.n_predictions:
            notes.append(how_computed("", self.n_predictions))
        without = len(lead._pairs) - len(lead._with_error)
        if without and lead.absent:
            notes.append(f"no interval for {without if lead._with_error else 'any'} of the pairs: {lead.absent}")
        return notes + self.cautions

    @property
    def cautions(self) -> list[str]:
        """Which intervals are to be taken with caution, and why; empty if none is."""
        names = [f"{self.features[j]} and {self.features[k]}" for j, k in self._pairs]
        return noted(names, [self._leading._caution(pair) for pair in self._pairs])

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """The pairs that have a number: the smallest p of what leads first, and where p is equal the largest number."""
        lead = self._leading
        p = np.where(np.isfinite(lead.p), lead.p, 2.0)
        known = [pair for pair in combinations(range(len(self.features)), 2) if np.isfinite(self.index[pair])]
        size = np.where(np.isfinite(lead.index), np.abs(lead.index), -1.0)
        return sorted(known, key=lambda pair: (p[pair], -size[pair], -abs(self.index[pair])))

    @cached_property
    def _with_error(self) -> list[tuple[int, int]]:
        """The pairs that have a standard error."""
        if self.std_error is None or self.unbiased is None:
            return []
        pairs = combinations(range(len(self.features)), 2)
        return [pair for pair in pairs if np.isfinite(self.index[pair]) and np.isfinite(self.std_error[pair])]

    @cached_property
    def _estimates(self) -> Estimates:
        each = tuple(np.array(self._with_error, np.intp).reshape(-1, 2).T)
        centre, error = (np.zeros(0) if one is None else one[each] for one in (self.unbiased, self.std_error))
        skewness = np.zeros(len(self._with_error)) if self.skewness is None else np.nan_to_num(self.skewness[each])
        why = f"no interval: {self.absent or 'the standard error is unknown'}"
        every = set(combinations(range(len(self.features)), 2))
        absent = {self._called(pair): why for pair in every.difference(self._with_error)}
        return Estimates(
            tuple(map(self._called, self._with_error)), self.index[each], error, self.units, skewness,
            "groups" if self.grouped else "rows", centre=centre, absent=absent, two_sided=True,
        )  # fmt: skip

    def _called(self, pair: tuple[int, int]) -> str:
        return pair_name(*(self.features[j] for j in pair))

    def _matrix(self, numbers: Floats) -> Floats:
        """The numbers of `_estimates` as a symmetric matrix; NaN elsewhere."""
        found = np.full(self.index.shape, np.nan)
        for (j, k), number in zip(self._with_error, numbers, strict=True):
            found[j, k] = found[k, j] = number
        return found

    def _at(self, pair: tuple[str, str]) -> tuple[int, int]:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise KeyError(f"interactions are indexed by two names, such as interactions['a', 'b']; got {pair!r}")
        return position_of(pair[0], self.features), position_of(pair[1], self.features)
