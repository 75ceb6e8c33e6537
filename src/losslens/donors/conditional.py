"""What values were drawn given: which columns, how much they tell, and the rules of a tree's leaves.

A sampler bound to a table: a design whose donors, or values, are drawn given the other columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Never

import numpy as np

from losslens.donors.designs import Conditional, Design
from losslens.donors.designs import resolve as resolve_design
from losslens.donors.samplers import DrawnValues, FunctionSampler, Lender, Sampler, known_columns
from losslens.tables.frames import Table
from losslens.tables.numbers import Numbers
from losslens.typing import Floats, Indices

SHOWN = 12  # rules in the text


@dataclass(frozen=True, eq=False, repr=False)
class Conditioning:
    """How a feature's values were drawn, where not from everywhere."""

    feature: str
    given: tuple[str, ...]  # the columns that the draw knew
    rest: bool  # these are all other columns
    explained: float  # how much of it these tell: a share of the variance, of words of the log loss
    leaf: Indices | None = None  # (n,): the leaf of each row; donors come from the same one
    rules: tuple[str, ...] = ()  # one a leaf

    def at(self, rows: Indices) -> Conditioning:
        """The same for some rows alone."""
        return self if self.leaf is None else replace(self, leaf=self.leaf[rows])

    @property
    def whom(self) -> str:
        """Given what, in words."""
        if self.rest:
            return "given the other columns"
        return f"given {', '.join(self.given)}" if self.given else "given nothing"

    @property
    def headline(self) -> str:
        """One sentence."""
        if self.given and len(self.rules) == 1:
            return f"{self.feature} drawn {self.whom}, which no split of theirs tells of: donors come from everywhere"
        known = f", which tell {self.explained:.0%} of it" if self.given and np.isfinite(self.explained) else ""
        return f"{self.feature} drawn {self.whom}{known}"

    def __repr__(self) -> str:
        lines = [self.headline]
        if self.leaf is not None:
            count = np.bincount(self.leaf, minlength=len(self.rules))
            largest = np.argsort(-count, kind="stable")
            lines += [f"  n = {count[k]:<7,} {self.rules[k] or 'all rows'}" for k in largest[:SHOWN]]
            if len(largest) > SHOWN:
                lines.append(f"  ({len(largest) - SHOWN} smaller leaves not shown)")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class BoundSampler(Design):
    """What feature values are drawn by, and from which table."""

    sampler: Lender
    numbers: Numbers
    conditional = repeats = True

    def __repr__(self) -> str:
        return repr(self.sampler)

    @property
    def remembered(self) -> Conditional:
        """Without estimators and the table."""
        return Conditional(repr(self.sampler), self.draws)

    @property
    def leaves_out_own(self) -> bool:
        """Whether no row is its own donor."""
        return not self.sampler.lends_own

    @property
    def draws(self) -> int:
        """Values that a row meets, at most."""
        return self.sampler.draws(self.numbers.table.n)

    def lend_to(self, columns: Sequence[int], rng: np.random.Generator, m: int | None = None) -> DrawnValues:
        """Values of these columns for each row, given the columns that a sampler goes by."""
        return self.sampler.lend(self.numbers, columns, self.given(columns), m or self.draws, rng)

    def given(self, columns: Sequence[int]) -> list[int]:
        """The columns that a draw of these goes by."""
        return known_columns(self.sampler, self.numbers.table, columns)

    def check(self, n: int) -> None:
        """Any number of rows will do; columns that are named are looked for."""
        self.given(())

    def lend(self, n: int, rng: np.random.Generator) -> Never:
        """Values hang on the feature: there is nothing to draw without one."""
        raise ValueError(
            f"{self!r} draws values given the other columns, which this verb has no use for; feature_importance, "
            "shapley_importance and conditional_predictive_impact have"
        )


def bound(sampler: Sampler, table: Table, weight: Floats | None) -> BoundSampler:
    """A sampler that draws from these rows."""
    return BoundSampler(sampler if isinstance(sampler, Lender) else FunctionSampler(sampler), Numbers(table, weight))


def resolve(donors: Any, table: Table, weight: Floats | None) -> Design | None:
    """What users write as a design, a sampler bound to the table; None stands for ``"auto"``."""
    if callable(donors) and not isinstance(donors, (type, Design)):
        return bound(donors, table, weight)
    return resolve_design(donors)
