"""What values were drawn given: which columns, how much they tell, and the rules of a tree's leaves.

A sampler bound to a table: a design whose donors, or values, are drawn given the other columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Never

import numpy as np

from losslens.donors.designs import Conditional, Design
from losslens.donors.samplers import DrawnValues, Lender, Residual, Sampler, by_function, known_columns
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


PREDICTIONS = 1_000_000  # for one feature, where nobody says how many donors a row meets
FEWEST, FUNCTION_DRAWS = 8, 8  # donors a row; draws of a function of the user's


@dataclass(frozen=True, eq=False, repr=False)
class BoundSampler:
    """What feature values are drawn by, and from which table."""

    sampler: Sampler
    numbers: Numbers
    common = ranked = False
    repeats = True

    def __repr__(self) -> str:
        return repr(self.told)

    @property
    def told(self) -> Conditional:
        """The design as results remember it: without estimators."""
        sampler = self.sampler
        name = repr(sampler) if isinstance(sampler, Lender) else getattr(sampler, "__name__", type(sampler).__name__)
        return Conditional(name, self.draws)

    @property
    def leaves_out_own(self) -> bool:
        """Whether no row is its own donor: residuals may be a row's own."""
        return not isinstance(self.sampler, Residual)

    @property
    def draws(self) -> int:
        """Values that a row meets, at most."""
        n = self.numbers.table.n
        asked = getattr(self.sampler, "m", None)
        if asked is not None:
            return int(min(asked, n))
        if not isinstance(self.sampler, Lender):
            return FUNCTION_DRAWS
        return int(np.clip(PREDICTIONS // n, min(FEWEST, n), n))

    def lend_to(self, columns: Sequence[int], rng: np.random.Generator, m: int | None = None) -> DrawnValues:
        """Values of these columns for each row, given the columns that a sampler goes by."""
        sampler, table, m = self.sampler, self.numbers.table, m or self.draws
        if not isinstance(sampler, Lender):
            return by_function(sampler, columns, table, m, rng)
        return sampler.lend(self.numbers, columns, self.given(columns), m, rng)

    def given(self, columns: Sequence[int]) -> list[int]:
        """The columns that a draw of these goes by."""
        if isinstance(self.sampler, Lender):
            return known_columns(self.sampler, self.numbers.table, columns)
        return [j for j in range(len(self.numbers.table.names)) if j not in columns]

    def check(self, n: int) -> None:
        """Any number of rows will do; columns that are named are looked for."""
        if isinstance(self.sampler, Lender):
            known_columns(self.sampler, self.numbers.table, ())

    def is_exact(self, n: int) -> bool:
        """Never: what is drawn hangs on an estimator."""
        return False

    def lend(self, n: int, rng: np.random.Generator) -> Never:
        """Values hang on the feature: there is nothing to draw without one."""
        raise ValueError(
            f"{self!r} draws values given the other columns, which this verb has no use for; feature_importance, "
            "shapley_importance and conditional_predictive_impact have"
        )

    draw = lend


def resolve(donors: Any, table: Table, weight: Floats | None) -> Any:
    """A sampler bound to the table; other donors as they are."""
    if isinstance(donors, (Design, str, type)) or not callable(donors):
        return donors
    return BoundSampler(donors, Numbers(table, weight))
