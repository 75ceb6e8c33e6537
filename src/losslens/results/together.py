"""Blocks of features that go together: their importance when they are replaced together, beside that of each alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, Self

import numpy as np

from losslens import plots
from losslens.cells.matrix import Cells, means
from losslens.donors.layout import OwnDonors
from losslens.plots.look import Look, draws
from losslens.results.base import Result, Stored
from losslens.results.importance import FeatureImportance
from losslens.results.table import INTERVAL, ResultTable, named
from losslens.text import how_computed, in_digits
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Floats, Sort
from losslens.uncertainty.cautions import noted
from losslens.uncertainty.inference import Difference, Estimated, Estimates, adjusted, difference
from losslens.uncertainty.standard_errors import Influence, check_level, fit_several, influence, p_value

Case = Literal["more than the sum", "substitutes", "opposed", "one carries it", "overlapping", "can't tell"]
LEVEL = 0.05  # of any false claim about the blocks of a result
HALF, TENTH = 0.5, 0.1
# Multiples of a block's importance with which that of each member is compared.
SHARES = (1.0, HALF, TENTH, 1 - TENTH, 1 + TENTH)
NONE = "no features go together (average rank correlation of 0.7 or more); name others in blocks={'name': [features]}"
ROUNDING = 1e-12  # of the numbers compared: a contrast with a smaller error can't be tested
MEANINGS: dict[Case, str] = {
    "more than the sum": "together they matter more than their single importances add up to",
    "substitutes": "each can stand in for the others: together more than the sum, and none alone half as much",
    "opposed": "their effects cancel: together they matter less than one of them alone, which breaks the balance",
    "one carries it": "one matters about as much as all of them together, and the others hardly",
    "overlapping": "together they matter more than each alone, and less than the sum",
    "can't tell": "no pattern (substitutes, opposed, overlapping, ...) is significant",
}


def contrasts(members: int) -> Floats:
    """Factors of the importances of a block and its q members, (1 + 5q, 1 + q).

    They give the block's less the sum, and for each of `SHARES` so much of the block's less that of each member.
    """
    less = [np.column_stack([np.full(members, share), -np.eye(members)]) for share in SHARES]
    return np.vstack([np.append(1.0, -np.ones(members)), *less])


@dataclass(frozen=True, eq=False, repr=False)
class Block(Stored):
    """A block of features that go together: replaced together, with one donor, and each alone.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    >>> f = lambda X: 10 * (X[:, 0] - X[:, 1]) + X[:, 0]
    >>> block = ll.feature_importance(f, X, f(X), loss="squared_error").together(f, X, f(X))["x0, x1"]
    >>> block.case, block.importance < block.largest.value
    ('opposed', True)
    """

    name: str  #: its name
    features: tuple[str, ...]  #: its members
    numbers: Estimates  #: the importance of the block, under its name, and of each member alone
    compared: Estimates  # the `contrasts` of these
    case: Case = "can't tell"  #: what is sure about the block, see `Together`
    p: float = float("nan")  #: of "more than the sum" and "opposed" together, adjusted for members and blocks
    local: Floats = field(default_factory=partial(np.zeros, 0))  #: local importance of each row

    _internal = ("compared", "judged", "level")

    @classmethod
    def of(cls, name: str, joint: FeatureImportance, alone: Mapping[str, FeatureImportance]) -> Self:
        """A block, and its members alone, with the same donors: all of them, or those of one draw."""
        each = [joint, *alone.values()]
        value, centre = (np.array([getattr(one, number) for one in each]) for number in ("pfi", "unbiased"))
        shared: dict[str, Any] = {"units": joint._units, "unit": joint._unit, "sampled": False}
        own = [one.influence for one in each]
        numbers = Estimates.of_influences(
            (name, *alone), value, own, centre=centre, doubts=tuple(one._doubts for one in each), **shared
        )
        rows = contrasts(len(alone))
        if all(one.exact for one in each):  # influences add up as the numbers do
            moved = rows @ np.stack([one.moved for one in own])
            between = [Influence(one) for one in moved]
        else:
            between = _influences_of_cells(each, rows)
        names = tuple(str(k) for k in range(len(rows)))
        compared = Estimates.of_influences(names, rows @ value, between, centre=rows @ centre, two_sided=True, **shared)
        return cls(name, tuple(alone), without_influences(numbers), without_influences(compared), local=joint.local)

    @property
    def importance(self) -> float:
        """The importance of the members replaced together."""
        return float(self.numbers.value[0])

    @property
    def sum(self) -> float:
        """The sum of the importances of the members replaced alone."""
        return float(self.numbers.value[1:].sum())

    @property
    def largest(self) -> Any:
        """The most important member alone, a number with its name and interval."""
        return self.numbers[self.features[int(np.argmax(self.numbers.value[1:]))]]

    @property
    def balanced(self) -> str:
        """The member whose importance is most surely above that of the block: where they are opposed, that to name."""
        return self.features[int(np.argmin(self._p(1.0, -1)))]

    def less(self, member: str | None = None, level: float = 0.95) -> Difference:
        """The importance of the block less that of `member` alone, or less the sum, an interval at `level`; paired."""
        j = 0 if member is None else self.numbers.position(member)
        one = self.compared
        centre = float(one.centre[j]) if len(one.centre) else None
        other = "the sum" if member is None else member
        return difference(
            (self.name, other), float(one.value[j]), float(one.std_error[j]), one.freedom, check_level(level),
            float(one.skewness[j]), centre=centre, grouped=one.unit == "groups",
        )  # fmt: skip

    def _p(self, share: float | None, sign: int) -> Floats:
        """One-sided p-values: that so much of the block's importance is above that of each member (1), or below (-1).

        Without a share: that the block's importance is above the sum, (1,). Where there is no error but rounding, 1.
        """
        q = len(self.features)
        columns = [0] if share is None else [1 + q * SHARES.index(share) + j for j in range(q)]
        one, sizes = self.compared, np.abs(contrasts(q)) @ np.abs(self.numbers.value)
        return np.array([
            1.0 if not one.std_error[k] > ROUNDING * sizes[k]
            else p_value(sign * float(one.centre[k]), float(one.std_error[k]), one.units, sign * float(one.skewness[k]))
            for k in columns
        ])  # fmt: skip

    @property
    def level(self) -> float:
        """p of "more than the sum" or "opposed", adjusted for the members of this block alone."""
        smallest = min(float(self._p(None, 1)[0]), len(self.features) * float(self._p(1.0, -1).min()))
        return min(1.0, 2 * smallest)

    def judged(self, p: float, blocks: int) -> Case:
        """The case: p is `level` adjusted for the blocks, of which there are so many; LEVEL holds for all of them."""
        more, opposed = float(self._p(None, 1)[0]), float(self._p(1.0, -1).min()) * len(self.features)
        each = LEVEL / 2 / blocks  # the tests of p above may be false in half of the cases where one of these may be
        if p <= LEVEL:
            if opposed < more:
                return "opposed"
            return "substitutes" if self._p(HALF, 1).max() <= each else "more than the sum"
        if self.importance > 0 and self._carrier(each) is not None:
            return "one carries it"
        if max(self._p(None, -1)[0], self._p(1.0, 1).max()) <= each:
            return "overlapping"
        return "can't tell"

    def _carrier(self, level: float) -> int | None:
        """The member that is not surely apart from the block by more than a tenth, where all others surely are small.

        Nor by more than a tenth on these rows.
        """
        j = int(np.argmax(self.numbers.value[1:]))
        others = np.delete(self._p(TENTH, 1), j)
        differs = min(self._p(1 - TENTH, 1)[j], self._p(1 + TENTH, -1)[j]) <= level
        close = abs(self.importance - self.largest.value) <= TENTH * self.importance
        return j if close and not differs and others.max() <= level else None


def _influences_of_cells(each: Sequence[FeatureImportance], rows: Floats) -> list[Influence]:
    """What each row moves contrasts of importances with the same sampled donors: the contrasts of their cells."""
    one = each[0]
    layout, sample, explained = one.layout, one.sample, one.at
    cells = [sum(factor * part._changes for factor, part in zip(row, each, strict=True) if factor) for row in rows]
    every = [means(Cells(one.cells.rows, changes, changes), layout, sample) for changes in cells]
    if not isinstance(layout, OwnDonors):
        return [influence(part, layout, sample, explained) for part in every]
    fits = fit_several(every, layout, sample, explained)
    return [influence(part, layout, sample, explained, fit) for part, fit in zip(every, fits, strict=True)]


def without_influences(estimates: Estimates) -> Estimates:
    """Estimates with the errors of each, and nothing of single rows."""
    nothing = np.zeros(0)
    return replace(
        estimates, influences=(), covariance=nothing.reshape(0, 0), cubes=nothing.reshape(0, 0), noise=nothing
    )


@dataclass(frozen=True, eq=False, repr=False)
class Together(Result, Estimated):
    """Blocks of features that go together: the importance of each block, of its members alone, and how they compare.

    The case of a block is what is sure about it; any false one in 5% of the cases, for all blocks together:

    - ``"more than the sum"``: replaced together they matter more than their single importances add up to;
    - ``"substitutes"``: that, and each alone matters less than half as much: it hides behind the others;
    - ``"opposed"``: together they matter less than one of them alone: their effects cancel;
    - ``"one carries it"``: one alone matters about as much as all (not surely more than a tenth apart), and each other
      less than a tenth of it;
    - ``"overlapping"``: less than the sum, and more than each alone;
    - ``"can't tell"``: none of these is sure.

    `to_frame()` has one row a block, the most important first: block, features, importance, std_error, low, high, sum,
    less_sum with low and high, largest, largest_importance, less_largest with low and high, case, p, caution.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> X[:, 1] = X[:, 0] + 0.3 * X[:, 1]
    >>> f = lambda X: X[:, 0] + X[:, 1] + X[:, 2]
    >>> imp = ll.feature_importance(f, X, f(X), loss="squared_error")
    >>> imp.blocks
    {'x0, x1': ('x0', 'x1')}
    >>> imp.together(f, X, f(X))["x0, x1"].case
    'substitutes'
    """

    blocks: dict[str, Block]  #: by name
    title: str  #: name of the loss
    error: float  #: the model's mean loss with nothing replaced
    design: str  #: the donors
    exact: bool  #: whether the numbers are means over all pairs of rows
    engine: str
    n_predictions: int  #: rows that the model predicted
    backend: str

    _internal = ("engine",)

    @classmethod
    def of(cls, blocks: list[Block], **more: Any) -> Together:
        """The blocks with their cases, adjusted for the number of blocks by Holm's method."""
        p = adjusted(np.array([one.level for one in blocks]), "holm").tolist()
        judged = [replace(b, p=each, case=b.judged(each, len(blocks))) for b, each in zip(blocks, p, strict=True)]
        return cls({one.name: one for one in judged}, **more)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(self.blocks)

    def _part(self, name: str) -> Block:
        return self.blocks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.blocks)

    @cached_property
    def _estimates(self) -> Estimates:
        """The importances of the blocks; blocks of one result are not compared with each other."""
        each = [one.numbers for one in self.blocks.values()]
        if not each:
            return Estimates((), np.zeros(0), np.zeros(0), np.nan)
        value, error, skewness, centre = (
            np.array([getattr(one, name)[0] for one in each]) for name in ("value", "std_error", "skewness", "centre")
        )
        return Estimates(self._names, value, error, each[0].units, skewness, each[0].unit, centre=centre)

    def test(self) -> Any:
        """The tests of "more than the sum" and "opposed", a data frame: p is adjusted for members and blocks (Holm)."""
        ordered = sorted(self.blocks.values(), key=lambda one: one.p)
        names = {"block": [one.name for one in ordered], "case": [one.case for one in ordered]}
        return self._frame(names | {"p_adjusted": [one.p for one in ordered]})

    @property
    def _ranked(self) -> list[Block]:
        return sorted(self.blocks.values(), key=lambda one: -one.importance)

    def _table(self) -> ResultTable:
        order, estimates = self._ranked, self._estimates
        low, high = (dict(zip(self._names, ends.tolist(), strict=True)) for ends in estimates.intervals())
        sums, largest = [one.less() for one in order], [one.largest for one in order]
        gaps = [one.less(each.name) for one, each in zip(order, largest, strict=True)]
        cautions = dict(zip(self._names, estimates.cautions, strict=True))
        columns = {
            "block": [one.name for one in order],
            "features": [len(one.features) for one in order],
            "importance": [one.importance for one in order],
            "std_error": [float(one.numbers.std_error[0]) for one in order],
            "low": [low[one.name] for one in order],
            "high": [high[one.name] for one in order],
            "sum": [one.sum for one in order],
            **{f"less_sum{end}": [getattr(one, attribute) for one in sums] for end, attribute in ENDS.items()},
            "largest": [one.name for one in largest],
            "largest_importance": [one.value for one in largest],
            **{f"less_largest{end}": [getattr(one, attribute) for one in gaps] for end, attribute in ENDS.items()},
            "case": [one.case for one in order],
            "p": [one.p for one in order],
            "caution": [cautions[one.name] for one in order],
        }
        line = "{importance} ± {std_error} together; largest alone {largest_importance} ({largest}), sum {sum}: {case}"
        view = (
            ("block", "{block}"), ("together", "{importance} ± {std_error}"), INTERVAL, ("sum of each alone", "{sum}"),
            ("largest alone", "{largest}: {largest_importance}"), ("case", "{case}"), ("p", "{p}"),
        )  # fmt: skip
        return ResultTable(
            f"Together: {self.headline}", columns, ("{block}", line), view,
            named(self.notes) + self.cautions if self.blocks else self.notes,
            like="importance", alike=("std_error", "low", "high", "sum", "largest_importance"),
        )  # fmt: skip

    @property
    def headline(self) -> str:
        """What the numbers are."""
        return f"increase in {self.title}, features of a block together; {in_digits(self.error)} with nothing replaced"

    @property
    def notes(self) -> list[str]:
        """What the cases mean, and how the numbers were computed."""
        if not self.blocks:
            return [NONE]
        cases = dict.fromkeys(one.case for one in self._ranked)
        kind = (
            "exact over all pairs of rows" if self.exact else f"{self.design}, the same donors for a block's features"
        )
        meanings = [f"{case}: {MEANINGS[case]}" for case in cases]
        return [f"{kind}; {how_computed(self.engine, self.n_predictions)}".rstrip("; "), *meanings]

    @property
    def cautions(self) -> list[str]:
        """Which intervals are to be taken with caution, and why; empty if none is."""
        return noted(self._names, self._estimates.cautions)

    @draws("rows")
    def plot(
        self, ax: Axes | None = None, *, top: int | None = None, sort: Sort = "importance",
        scale: AxisScale = "linear", colors: Colors | None = None, labels: FeatureLabels | None = None,
    ) -> Axes:  # fmt: skip
        """Draw each block as a bar, the importance of its features together, with those of each alone inside.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
        >>> f = lambda X: X[:, 0] + X[:, 1]
        >>> together = ll.feature_importance(f, X, f(X), loss="squared_error").together(f, X, f(X))
        >>> [label.get_text() for label in together.plot().get_yticklabels()]
        ['x0 and x1']
        """
        return plots.rankings.plot_together(self, ax, Look(top, sort, scale, colors, labels))


ENDS = {"": "value", "_low": "low", "_high": "high"}
