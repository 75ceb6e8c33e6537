"""Donor designs: which rows lend their values to which.

A design draws an integer matrix ``donors[i, k]``: row i receives the feature values of row ``donors[i, k]``.
It knows neither data nor model. The smallest example, three rows that meet two donors each:

>>> import numpy as np
>>> Latin(2).draw(3, np.random.default_rng(0)).shape
(3, 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from losslens.typing import Indices


@dataclass(frozen=True, eq=False)
class Shifts:
    """Donors by cyclic shifts: row i meets ``donor[(place[i] + shift) % n]`` for each shift.

    Rows are worked out when asked for, ``shifts[rows]``: an (n, m) matrix of a million rows need not be held.
    """

    place: Indices  # (n,): where each row stands on the circle
    donor: Indices  # (n,): the row at each place of the circle of donors
    shifts: Indices  # (m,)
    ascending: bool = False  # donors of a row in the order of their place, not of the shifts

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and donors a row."""
        return len(self.place), len(self.shifts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Indices:
        return self[:] if dtype is None else self[:].astype(dtype)

    def __getitem__(self, rows: Any) -> Indices:
        n = len(self.place)
        places = self.place[rows][..., None] + self.shifts
        places -= n * (places >= n)
        if self.ascending:
            places.sort(axis=-1)
        return np.asarray(self.donor[places])


Lending = Indices | Shifts


class Design:
    """Which rows lend to which, and what that allows; a new design says below what differs from these defaults."""

    typed: ClassVar[tuple[str, ...]] = ()  # how it is written on the command line; N stands for m
    by_parts: ClassVar[bool] = False  # there is an engine for data that are read part by part
    conditional: ClassVar[bool] = False  # values are drawn given other columns, for each feature by itself
    values: Sequence[Any] | None = None  # values of the user's own, in the place of donors
    m: int | None  # donors a row; None: all rows, or none of them

    @property
    def common(self) -> bool:
        """Every row meets the same donors, so that curves share one grid."""
        return False

    @property
    def all_pairs(self) -> bool:
        """Nothing is sampled: every row meets every row, or every other row."""
        return False

    @property
    def ranked(self) -> bool:
        """The draw speaks of ranks along the feature, not of rows: the caller sorts the rows first."""
        return False

    @property
    def leaves_out_own(self) -> bool:
        """No row is its own donor: the mean over cells is the U-statistic, else the V-statistic."""
        return False

    @property
    def repeats(self) -> bool:
        """A row may meet a donor twice."""
        return False

    @property
    def has_columns(self) -> bool:
        """Its columns give every row one donor, so that a score of all rows has a mean over columns."""
        return self.all_pairs or not (self.common or self.conditional)

    @property
    def sampled_grid(self) -> bool:
        """All rows share the same few donors, or values."""
        return self.common and not self.all_pairs

    @property
    def remembered(self) -> Design:
        """The design as results hold it."""
        return self

    def check(self, n: int) -> None:
        """Refuse, with the reason, a table of n rows that the design does not fit."""

    def lend(self, n: int, rng: np.random.Generator) -> Lending:
        """Draw who lends to whom: ``[rows]`` gives the donors of these rows."""
        raise NotImplementedError

    def draw(self, n: int, rng: np.random.Generator) -> Indices:
        """Draw the donors of n rows, an integer matrix (n, m)."""
        return np.asarray(self.lend(n, rng)[:])

    def is_exact(self, n: int) -> bool:
        """Whether the mean over the cells is the V- or U-statistic over all pairs."""
        return self.all_pairs


def _positive_whole(m: object, name: str) -> None:
    if isinstance(m, bool) or not isinstance(m, (int, np.integer)) or m < 1:
        raise ValueError(f"{name} needs a whole number of donors, at least 1; got {m!r}")


def _no_more_than(m: int, most: int, design: object, n: int) -> None:
    if m > most:
        raise ValueError(f"{design!r} asks for {m} donors, but {n} rows have only {most}; lower m to {most} or less")


@dataclass(frozen=True)
class All(Design):
    """Every row meets every row: the exact V-statistic, n x n cells."""

    common = all_pairs = by_parts = True
    m = None

    def lend(self, n: int, rng: np.random.Generator) -> Lending:
        """Every row in order, for each row (a view: nothing of size n x n is held)."""
        return np.broadcast_to(np.arange(n), (n, n))


def _plain_values(values: Any) -> tuple[Any, ...]:
    """Values of the user's own as plain Python ones, so that designs compare and show themselves simply."""
    array = values if isinstance(values, np.ndarray) else None
    if array is None and hasattr(values, "to_numpy"):
        array = values.to_numpy()
    if array is not None and array.dtype.kind in "mM":
        array = array.astype(f"{array.dtype.kind}8[us]")  # NumPy makes numbers of nanoseconds
    plain = values if array is None else array.tolist()
    if isinstance(plain, str) or not hasattr(plain, "__iter__") or np.ndim(np.asarray(list(plain), dtype=object)) != 1:
        raise ValueError(f"Grid(values=...) needs a non-empty flat list of values; got {values!r}")
    found = tuple(value.item() if isinstance(value, np.generic) else value for value in plain)
    if not found:
        raise ValueError(f"Grid(values=...) needs a non-empty flat list of values; got {values!r}")
    return found


@dataclass(frozen=True, repr=False)
class Grid(Design):
    """The same m donors for every row: curves on a common grid, but a noisy number.

    Parameters
    ----------
    m
        How many donors.
    at
        ``"random"`` draws rows; ``"quantiles"`` takes rows at evenly spaced ranks of the feature.
    values
        Values of your own instead of donors. They give curves and no importance, because nothing says
        how often each value occurs.
    """

    m: int | None = None
    at: Literal["random", "quantiles"] = "random"
    values: Sequence[Any] | None = None
    common = True
    typed = ("grid:N",)

    def __post_init__(self) -> None:
        if (self.m is None) == (self.values is None):
            raise ValueError("Grid takes either m, a number of donors, or values=[...], and not both")
        if self.m is not None:
            _positive_whole(self.m, "Grid")
        else:
            object.__setattr__(self, "values", _plain_values(self.values))
        if self.at not in ("random", "quantiles"):
            raise ValueError(f"Grid(at=...) is 'random' or 'quantiles'; got {self.at!r}")

    def __repr__(self) -> str:
        return f"Grid({self.m}, at={self.at!r})" if self.m is not None else f"Grid(values={list(self.values or ())!r})"

    @property
    def ranked(self) -> bool:
        """Quantiles are ranks along the feature."""
        return self.at == "quantiles"

    def check(self, n: int) -> None:
        """No more donors than rows."""
        if self.m is not None:
            _no_more_than(self.m, n, self, n)

    def lend(self, n: int, rng: np.random.Generator) -> Lending:
        """One draw of m rows (or ranks), the same for each row."""
        if self.m is None:
            raise ValueError("Grid(values=...) has no donors to draw")
        if self.at == "random":
            chosen = np.sort(rng.choice(n, self.m, replace=False))
        else:
            chosen = np.floor((np.arange(self.m) + 0.5) * n / self.m).astype(np.intp)
        return np.broadcast_to(chosen, (n, self.m))

    def is_exact(self, n: int) -> bool:
        """Only when every row is a donor."""
        return self.m == n


@dataclass(frozen=True, repr=False)
class _Columns(Design):
    """A design of m columns, each of which gives every row one donor."""

    m: int

    def __post_init__(self) -> None:
        _positive_whole(self.m, type(self).__name__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.m})"

    def check(self, n: int) -> None:
        """No more columns than rows: there are no further distinct shifts."""
        _no_more_than(self.m, n, self, n)

    def is_exact(self, n: int) -> bool:
        """All n shifts together meet every pair once."""
        return self.m == n


@dataclass(frozen=True, repr=False)
class Permutations(_Columns):
    """m independent random permutations: the paper's approximation, and scikit-learn's ``n_repeats``."""

    repeats = True
    typed = ("permutations:N",)

    def check(self, n: int) -> None:
        """Any number of permutations will do."""

    def lend(self, n: int, rng: np.random.Generator) -> Lending:
        """One permutation of the rows a column."""
        return np.stack([rng.permutation(n) for _ in range(self.m)], axis=1)

    def is_exact(self, n: int) -> bool:
        """Never: permutations repeat pairs."""
        return False


@dataclass(frozen=True, repr=False)
class Latin(_Columns):
    """m distinct cyclic shifts after two random relabellings: no pair is met twice.

    Its variance is ``(1 - (m-1)/(n-1))`` times that of m independent permutations. A longer draw from the same
    seed extends a shorter one.
    """

    by_parts = True
    typed = ("latin:N",)

    def lend(self, n: int, rng: np.random.Generator) -> Shifts:
        """Rows and donors relabelled at random, then m distinct shifts."""
        return Shifts(rng.permutation(n), rng.permutation(n), rng.permutation(n)[: self.m])


@dataclass(frozen=True, repr=False)
class Systematic(_Columns):
    """m evenly spaced shifts along the feature's own order, with a random start: the most precise sample.

    Each row meets one donor in each of the m rank bins of the feature, so curves live on these bins.
    A draw of 2m from the same seed contains the draw of m.
    """

    ranked = True
    typed = ("systematic:N",)

    def shifts(self, n: int, rng: np.random.Generator) -> Indices:
        """The m shifts: each of the n possible ones is among them with probability m/n."""
        start = rng.random() * n
        return np.asarray(np.floor(start + np.arange(self.m) * (n / self.m)).astype(np.intp) % n)

    def lend(self, n: int, rng: np.random.Generator) -> Shifts:
        """Ranks of the donors of the row at each rank, ascending: one column a rank bin."""
        return Shifts(np.arange(n), np.arange(n), self.shifts(n, rng), ascending=True)


@dataclass(frozen=True, repr=False)
class Derangements(Design):
    """Shifts that never give a row its own value back: the U-statistic, exact with all n - 1 of them (m=None)."""

    m: int | None = None
    leaves_out_own = True
    typed = ("derangements", "derangements:N")

    def __post_init__(self) -> None:
        if self.m is not None:
            _positive_whole(self.m, "Derangements")

    def __repr__(self) -> str:
        return f"Derangements({'' if self.m is None else self.m})"

    @property
    def all_pairs(self) -> bool:
        """All shifts together are the full table without its diagonal."""
        return self.m is None

    common = all_pairs

    def check(self, n: int) -> None:
        """At most n - 1 shifts differ from none at all."""
        if self.m is not None:
            _no_more_than(self.m, n - 1, self, n)

    def lend(self, n: int, rng: np.random.Generator) -> Shifts:
        """Row i meets the row ``shift`` places on in one random circle of all rows; no shift is zero."""
        circle = rng.permutation(n)
        return Shifts(np.argsort(circle), circle, 1 + rng.permutation(n - 1)[: self.m])

    def is_exact(self, n: int) -> bool:
        """With every non-zero shift."""
        return self.all_pairs or self.m == n - 1


@dataclass(frozen=True, repr=False)
class Conditional(Design):
    """Values drawn given other columns, by a sampler that is named here: what a result remembers of it."""

    sampler: str
    m: int  # values that a row meets, at most
    conditional = repeats = True

    def __repr__(self) -> str:
        return self.sampler


DESIGNS: tuple[type[Design], ...] = (All, Grid, Permutations, Latin, Systematic, Derangements, Conditional)


def resolve(donors: object) -> Design | None:
    """Turn what users write into a design; None stands for ``"auto"``."""
    if isinstance(donors, str):
        if donors == "auto":
            return None
        if donors == "all":
            return All()
        raise ValueError(f"donors is 'auto', 'all' or a design such as Latin(20); got {donors!r}")
    if isinstance(donors, Design):
        return donors
    raise TypeError(
        "donors is 'auto', 'all' or a design: All(), Grid(m), Permutations(m), Latin(m), Systematic(m), "
        f"Derangements(m), or a sampler: Within(), Residual(); got {donors!r}"
    )
