"""A sampler bound to a table: a design whose donors, or values, are drawn given the other columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Never

import numpy as np

from losslens.donors import Conditional, Design
from losslens.numbers import Numbers
from losslens.samplers import Lender, Lent, Residual, Sampler, by_function, known_columns

PREDICTIONS = 1_000_000  # for one feature, where nobody says how many donors a row meets
FEWEST, FUNCTION_DRAWS = 8, 8  # donors a row; draws of a function of the user's


@dataclass(frozen=True, eq=False, repr=False)
class Bound:
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

    def lend_to(
        self, columns: Sequence[int], rng: np.random.Generator, kept: Sequence[int] | None = None, m: int | None = None
    ) -> Lent:
        """Values of these columns for each row, given the columns that a sampler goes by, or those of `kept` alone."""
        sampler, table, m = self.sampler, self.numbers.table, m or self.draws
        if not isinstance(sampler, Lender):
            return by_function(sampler, columns, table, m, rng)
        return sampler.lend(self.numbers, columns, self.given(columns) if kept is None else kept, m, rng)

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


def resolve(donors: Any, table: Any) -> Any:
    """A sampler bound to the table; other donors as they are."""
    if isinstance(donors, (Design, str, type)) or not callable(donors):
        return donors
    return Bound(donors, Numbers(table))
