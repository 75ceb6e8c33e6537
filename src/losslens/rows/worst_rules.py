"""The rules of a few conditions under which losses are largest: a beam search over all columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import groupby

import numpy as np

from losslens.rows.splits import Sides, Split, candidates, in_words, sides_of, with_rule
from losslens.tables.columns import Distinct
from losslens.tables.sample import by_unit
from losslens.typing import Floats, Indices, Mask

BEAM = 40  # rules that get a further condition
OF_COLUMN = 3  # of them, with one side of a column as the last condition: neighbours say nearly the same
MOST_SHARE = 0.5  # of the rows in a segment: the others are the rule, it is the exception
Condition = tuple[Split, bool]  # and the side of it
Held = tuple[tuple[Condition, ...], Sides]  # conditions, and 1 for the rows that fulfil them


@dataclass(frozen=True, eq=False)
class Rule:
    """Conditions that rows fulfil together, and how far losses stand out there."""

    conditions: tuple[Condition, ...]
    statistic: float  # difference of the mean losses in standard errors, on the rows that chose it

    @property
    def rows(self) -> Mask:
        """Which rows fulfil it, (n,)."""
        return reduce(np.logical_and, (split.rows if yes else ~split.rows for split, yes in self.conditions))

    @property
    def words(self) -> str:
        """The rule as text."""
        return in_words(reduce(with_rule, (split.yes if yes else split.no for split, yes in self.conditions), ()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(dict.fromkeys(split.name for split, _ in self.conditions))


@dataclass(frozen=True, eq=False)
class RuleSearch:
    """The rows that rules are searched on."""

    rows: Indices
    weight: Floats  # sums to one
    pull: Floats  # weight times the loss less its mean
    variance: float
    block: Indices | None
    least: int  # rows under a rule
    least_groups: int
    parts: list[list[Split]]  # candidates, those of one kind of question about a column together

    @cached_property
    def spread(self) -> float:
        """The largest pull, which sums in single precision are scaled by."""
        return float(np.abs(self.pull).max())

    @cached_property
    def even(self) -> bool:
        """Whether all rows weigh the same."""
        return bool(np.ptp(self.weight) <= 1e-12 * self.weight.max())

    @classmethod
    def over(
        cls, columns: Mapping[str, Distinct], loss: Floats, weight: Floats, block: Indices | None, here: Mask,
        least: int, least_groups: int,
    ) -> RuleSearch:  # fmt: skip
        """These rows; loss, weight and block are of all rows."""
        rows = np.flatnonzero(here)
        mass = weight[rows] / weight[rows].sum()
        deviation = loss[rows] - mass @ loss[rows]
        splits = candidates(columns, here, least)
        parts = [list(some) for _, some in groupby(splits, key=lambda split: (id(split.column), split.is_category))]
        unit = None if block is None else np.unique(block[rows], return_inverse=True)[1]
        return cls(rows, mass, mass * deviation, float(mass @ deviation**2), unit, least, least_groups, parts)

    def worst(self, depth: int) -> list[Rule]:
        """The best rule of one condition, of two, and so on; none if no loss differs or no column divides the rows."""
        best: list[Rule] = []
        beam: list[Held] = [((), np.ones(len(self.rows), np.float32))]
        if not self.variance > 0:
            return best
        for _ in range(depth):
            rules = sorted(self._extended(beam), key=lambda one: -one[0])
            if not rules:
                break
            best.append(Rule(rules[0][1], self._welch(rules[0][2])))
            beam = [(conditions, held) for _, conditions, held in rules[:BEAM]]
        return best

    def _extended(self, beam: list[Held]) -> Iterator[tuple[float, tuple[Condition, ...], Sides]]:
        """The best rules with one more condition: statistic, conditions, and rows."""
        for splits in self.parts:
            sides = sides_of(splits, self.rows)
            intervals = self._of_column(splits, sides) if len(beam) > 1 and not splits[0].is_category else []
            own = [*beam, *intervals]
            held = np.array([rows for _, rows in own])
            for yes, statistic in zip((True, False), self._statistics(held, sides), strict=True):
                count = int(np.isfinite(statistic).sum())
                order = np.argsort(-statistic, axis=None, kind="stable")[: min(OF_COLUMN, count)]
                for place in order:
                    i, j = np.unravel_index(place, statistic.shape)
                    answer = sides[:, j] if yes else 1 - sides[:, j]
                    yield float(statistic[i, j]), (*own[i][0], (splits[j], yes)), held[i] * answer

    def _welch(self, held: Sides) -> float:
        """The statistic with the variances inside and outside: where losses are large they mostly vary more."""
        parts = []
        for side in (held, 1 - held):
            mass, pull = by_unit(side * self.weight, self.block), by_unit(side * self.pull, self.block)
            mean = pull.sum() / mass.sum()
            parts.append((mean, np.square(pull - mean * mass).sum() / mass.sum() ** 2))
        (a, of_a), (b, of_b) = parts
        return float((a - b) / np.sqrt(max(of_a + of_b, 1e-30 * self.variance)))

    @staticmethod
    def _of_column(splits: list[Split], sides: Sides) -> list[Held]:
        """Rows above each threshold of a column: a further condition on the column then makes an interval."""
        return [(((split, False),), 1 - sides[:, j]) for j, split in enumerate(splits)]

    def _statistics(self, held: Sides, sides: Sides) -> tuple[Floats, Floats]:
        """``(mean loss there - elsewhere) / standard error``, of each rule with each condition, and with its reverse.

        -inf where there are too few rows or too many. The standard error is that of no difference, from the variance of
        all losses; of groups of rows, it is made of what each group contributes to the difference.
        """
        parts = [held, held * (self.pull / self.spread).astype(np.float32)]
        if not self.even:
            scaled = self.weight * len(self.rows)
            parts += [held * scaled.astype(np.float32), held * (scaled**2).astype(np.float32)]
        weighted = np.concatenate(parts)
        yes = np.asarray(weighted @ sides, float).reshape(len(parts), len(held), -1)
        total = weighted.sum(axis=1, dtype=float).reshape(len(parts), len(held), 1)
        statistics = [self._of_rows(side, total[0]) for side in (yes, total - yes)]
        if self.block is not None:
            statistics = [
                np.where(
                    np.isfinite(some),
                    self._of_groups(held, answer, np.flatnonzero(np.isfinite(some).any(axis=1))),
                    -np.inf,
                )
                for some, answer in zip(statistics, (sides, 1 - sides), strict=True)
            ]
        return statistics[0], statistics[1]

    def _of_rows(self, sums: Floats, before: Floats) -> Floats:
        """The statistics from sums of rows, losses, weights and squared weights, (sums, rules, conditions)."""
        n, count, pull = len(self.rows), sums[0], sums[1] * self.spread
        mass, square = (count, count) if self.even else (sums[2], sums[3])
        fits = (count >= self.least) & (count <= MOST_SHARE * n) & (count < before) & (mass > 0) & (mass < n)
        mass, square = np.where(fits, mass / n, 0.5), square / n**2
        every = float(self.weight @ self.weight)
        variance = self.variance * (square / mass**2 + (every - square) / (1 - mass) ** 2)
        statistic = pull * (1 / mass + 1 / (1 - mass)) / np.sqrt(np.where(fits, variance, 1.0))
        return np.where(fits, statistic, -np.inf)

    def _of_groups(self, held: Sides, sides: Sides, rules: Indices) -> Floats:
        statistic = np.full((len(held), sides.shape[1]), -np.inf)
        total = by_unit(self.pull, self.block)
        for i in rules:
            members = held[i][:, None] * sides
            pull, mass = by_unit(self.pull[:, None] * members, self.block), self.weight @ members
            groups = np.sum(by_unit(members, self.block) > 0, axis=0)
            size = np.sqrt(np.square(pull - total[:, None] * mass).sum(axis=0))
            enough = (groups >= self.least_groups) & (size > 0)
            statistic[i, enough] = pull.sum(axis=0)[enough] / size[enough]
        return statistic
