"""Samplers as designs: a sampler bound to a table (`BoundSampler`), and a record of its draw (`Conditioning`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Never

import numpy as np

from losslens.donors.designs import Conditional, Design
from losslens.donors.samplers import DrawnValues, FunctionSampler, Lender, Sampler, given_columns
from losslens.tables.frames import Table
from losslens.tables.numbers import Numbers
from losslens.typing import Floats, Indices

MOST_RULES = 12  # printed


@dataclass(frozen=True, eq=False, repr=False)
class Conditioning:
    """How a feature's values were drawn given other columns."""

    feature: str
    given: tuple[str, ...]  # the columns that the draw was conditioned on
    rest: bool  # whether these are all other columns
    explained: float  # by these columns: share of the variance, or of the log loss of categories
    leaf: Indices | None = None  # (n,): the leaf of each row; donors come from the same one
    rules: tuple[str, ...] = ()  # one a leaf

    def at(self, rows: Indices) -> Conditioning:
        """The same for some of the rows."""
        return self if self.leaf is None else replace(self, leaf=self.leaf[rows])

    @property
    def condition(self) -> str:
        """The condition in words."""
        if self.rest:
            return "given the other columns"
        return f"given {', '.join(self.given)}" if self.given else "given nothing"

    @property
    def headline(self) -> str:
        """One sentence."""
        if self.given and len(self.rules) == 1:
            return f"{self.feature} drawn {self.condition}, but no split on them explains it: donors come from all rows"
        explained = self.given and np.isfinite(self.explained)
        share = f", which explain {self.explained:.0%} of it" if explained else ""
        return f"{self.feature} drawn {self.condition}{share}"

    def __repr__(self) -> str:
        lines = [self.headline]
        if self.leaf is not None:
            count = np.bincount(self.leaf, minlength=len(self.rules))
            largest = np.argsort(-count, kind="stable")
            lines += [f"  n = {count[k]:<7,} {self.rules[k] or 'all rows'}" for k in largest[:MOST_RULES]]
            if len(largest) > MOST_RULES:
                lines.append(f"  ({len(largest) - MOST_RULES} smaller leaves not shown)")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class BoundSampler(Design):
    """A sampler and the table that it draws from, as a design."""

    sampler: Lender
    numbers: Numbers
    conditional = repeats = True

    def __repr__(self) -> str:
        return repr(self.sampler)

    @property
    def remembered(self) -> Conditional:
        """Its name, without estimators and table."""
        return Conditional(repr(self.sampler), self.draws)

    @property
    def leaves_out_own(self) -> bool:
        """Whether no row is its own donor."""
        return not self.sampler.lends_own

    @property
    def draws(self) -> int:
        """Values drawn for a row, at most."""
        return self.sampler.draws(self.numbers.table.n)

    def lend_to(self, columns: Sequence[int], rng: np.random.Generator, m: int | None = None) -> DrawnValues:
        """Values of these columns for each row, given the columns that the sampler conditions on."""
        return self.sampler.lend(self.numbers, columns, self.given(columns), m or self.draws, rng)

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


def bound(sampler: Sampler, table: Table, weight: Floats | None) -> BoundSampler:
    """A sampler that draws from these rows."""
    return BoundSampler(sampler if isinstance(sampler, Lender) else FunctionSampler(sampler), Numbers(table, weight))
