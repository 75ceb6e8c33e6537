"""Samplers as designs: a sampler bound to a table (`BoundSampler`), and a record of its draw (`Conditioning`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Never

import numpy as np

from losslens.donors.designs import Conditional, Design
from losslens.donors.exchangeability import LEVEL, MOST_ROWS, ExchangeTest, exchange_test
from losslens.donors.samplers import DonorSampler, DrawnValues, FunctionSampler, Sampler, given_columns
from losslens.tables.columns import Column
from losslens.tables.frames import Table
from losslens.tables.frozen import Frozen
from losslens.tables.numbers import Numbers
from losslens.tables.sample import ColumnCopy
from losslens.text import share_in_words
from losslens.typing import Floats, Indices

MOST_RULES = 12  # printed


@dataclass(frozen=True, eq=False, repr=False)
class Conditioning(Frozen):
    """How a feature's values were drawn given other columns."""

    feature: str
    given: tuple[str, ...]  # the columns that the draw was conditioned on
    rest: bool  # whether these are all other columns
    explained: float  # by these columns: share of the variance, or of the log loss of categories
    leaf: Indices | None = None  # (n,): the leaf of each row; donors come from the same one
    rules: tuple[str, ...] = ()  # one a leaf
    recognised: float = np.nan  # the share of rows in which the exchange test recognises the drawn value; 1/2 by chance
    recognised_p: float = np.nan  # p-value of no difference between drawn and real values given these columns

    def at(self, rows: Indices) -> Conditioning:
        """The record of the draw for some of the rows."""
        return self if self.leaf is None else replace(self, leaf=self.leaf[rows])

    @property
    def condition(self) -> str:
        """The condition in words."""
        if not self.given:
            return "given nothing"
        return "given the other columns" if self.rest else f"given {', '.join(self.given)}"

    @property
    def in_doubt(self) -> bool:
        """Whether drawn values differ from real ones given these columns: the sampler is not right."""
        return bool(self.recognised_p <= LEVEL)

    @property
    def headline(self) -> str:
        """One sentence on what was drawn, and how much of it the condition explains."""
        if self.given and len(self.rules) == 1:
            return f"{self.feature} drawn {self.condition}, but no split on them explains it: donors come from all rows"
        explained = self.given and np.isfinite(self.explained)
        share = f", which explain {share_in_words(self.explained)} of it" if explained else ""
        return f"{self.feature} drawn {self.condition}{share}"

    def __repr__(self) -> str:
        lines = [self.headline]
        if self.in_doubt:
            recognised, p = share_in_words(self.recognised), self.recognised_p
            lines.append(f"a test recognises the drawn value in {recognised} of the rows (50% by chance), p = {p:.2g}")
        if self.leaf is not None:
            count = np.bincount(self.leaf, minlength=len(self.rules))
            largest = np.argsort(-count, kind="stable")
            lines += [f"  n = {count[k]:<7,} {self.rules[k] or 'all rows'}" for k in largest[:MOST_RULES]]
            if len(largest) > MOST_RULES:
                lines.append(f"  ({len(largest) - MOST_RULES} smaller leaves not shown)")
        return "\n".join(lines)


def common_condition(each: Iterable[Conditioning | None]) -> str:
    """The condition of several features in words; empty where nothing was drawn given other columns."""
    drawn = [one for one in each if one is not None]
    conditions = list(dict.fromkeys(one.condition for one in drawn))
    if len(conditions) < 2:
        return "".join(conditions)
    columns = dict.fromkeys(column for one in drawn for column in one.given)
    return f"given {', '.join(columns)}, each feature without its own"


@dataclass(frozen=True, eq=False, repr=False)
class BoundSampler(Design):
    """A sampler and the table that it draws from, as a design."""

    sampler: DonorSampler
    numbers: Numbers
    conditional = repeats = True

    def __repr__(self) -> str:
        return repr(self.sampler)

    @property
    def remembered(self) -> Conditional:
        """The design as results hold it: its name, without estimators and table."""
        return Conditional(repr(self.sampler), self.draws)

    @property
    def leaves_out_own(self) -> bool:
        """No row is its own donor."""
        return True

    @property
    def draws(self) -> int:
        """Values drawn for a row, at most."""
        return self.sampler.draws(self.numbers.table.n)

    def draw_values(self, columns: Sequence[int], rng: np.random.Generator, m: int | None = None) -> DrawnValues:
        """Values of these columns for each row, given the columns that the sampler conditions on."""
        return self.sampler.lend(self.numbers, columns, self.given(columns), m or self.draws, rng)

    def conditioning(self, name: str, columns: Sequence[int], drawn: DrawnValues) -> Conditioning:
        """How these columns were drawn, and whether the drawn values look like real ones."""
        names, given = self.numbers.table.names, self.given(columns)
        share, p = self._exchange_test(columns, given, drawn)
        return Conditioning(
            name, tuple(names[j] for j in given), rest=len(given) == len(names) - len(columns),
            explained=drawn.explained, leaf=drawn.leaf, rules=drawn.rules, recognised=share, recognised_p=p,
        )  # fmt: skip

    def _exchange_test(self, columns: Sequence[int], given: Sequence[int], drawn: DrawnValues) -> ExchangeTest:
        """Compare the first draw of each row that counts with the row's own value."""
        numbers, donor = self.numbers, drawn.donors[:, 0]
        rows, block = numbers.counted, numbers.block
        if not drawn.alone:
            comparable = np.isin(donor[rows], numbers.counted)
            comparable &= True if block is None else block[donor[rows]] != block[rows]
            rows = rows[comparable]
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, MOST_ROWS).astype(np.intp))] if len(rows) else rows
        draws = [
            (numbers.table.column(j), donor[rows]) if j not in drawn.sources
            else (drawn.sources[j], numbers.table.n + rows)
            for j in columns
        ]  # fmt: skip
        return exchange_test(
            [_copy(column, np.concatenate([rows, donors])) for column, donors in draws],
            [_copy(numbers.table.column(j), rows) for j in given],
            None if block is None else block[rows],
        )

    def given(self, columns: Sequence[int]) -> list[int]:
        """The columns that a draw of these is conditioned on."""
        return given_columns(self.sampler, self.numbers.table, columns)

    def check(self, n: int) -> None:
        """Check that the columns to condition on exist; any number of rows is allowed."""
        self.given(())

    def lend(self, n: int, rng: np.random.Generator) -> Never:
        """Raise: a draw depends on the feature, and there is none here."""
        raise ValueError(
            f"{self!r} draws values given the other columns, which this verb does not support; use feature_importance, "
            "shapley_importance or conditional_predictive_impact"
        )


def _copy(column: Column, rows: Indices) -> ColumnCopy:
    return column.array[rows], column.categories, column.ordered


def bound(sampler: Sampler, table: Table, weight: Floats | None, block: Indices | None = None) -> BoundSampler:
    """A sampler that draws from these rows, which may be in groups."""
    lender = sampler if isinstance(sampler, DonorSampler) else FunctionSampler(sampler)
    return BoundSampler(lender, Numbers(table, weight, block))
