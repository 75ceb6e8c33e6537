"""Donor designs: which rows donate their values to which.

A design draws an integer matrix ``donors[i, k]``: row i receives the feature values of row ``donors[i, k]``.
It sees neither data nor model. Three rows with two donors each:

>>> import numpy as np
>>> Latin(2).draw(3, np.random.default_rng(0)).shape
(3, 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal
from weakref import ref

import numpy as np

from losslens.tables.checks import is_one_of
from losslens.tables.columns import narrow
from losslens.typing import Indices


@dataclass(frozen=True, eq=False)
class Shifts:
    """Donors by cyclic shifts: row i is paired with ``donor[(place[i] + shift) % n]`` for each shift.

    ``shifts[rows]`` computes the donors of some rows: the (n, m) matrix of a million rows is never stored.
    """

    place: Indices | None  # (n,): position of each row in the cyclic order; None: that of the row among the donors
    donor: Indices  # (n,): the row at each position of the cyclic order of donors
    shifts: Indices  # (m,)
    ascending: bool = False  # donors of a row in the order of their place, not of the shifts

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", None if self.place is None else narrow(self.place))
        object.__setattr__(self, "donor", narrow(self.donor))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and donors a row."""
        return len(self.donor), len(self.shifts)

    @property
    def places(self) -> Indices:
        """The position of each row in the cyclic order, (n,)."""
        return _inverse(self) if self.place is None else self.place

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Indices:
        return self[:] if dtype is None else self[:].astype(dtype)

    def __getitem__(self, rows: Any) -> Indices:
        n = len(self.donor)
        shifts = narrow(self.shifts) if 2 * n <= np.iinfo(np.int32).max else self.shifts
        places = self.places[rows][..., None] + shifts
        np.subtract(places, n, out=places, where=places >= n)
        if self.ascending:
            places.sort(axis=-1)
        return np.asarray(self.donor[places])


@lru_cache(maxsize=1)
def _inverse(shifts: Shifts) -> Indices:
    """The position of each row among the donors: kept for the feature at hand only, as every feature has its own."""
    place = np.empty_like(shifts.donor)
    place[shifts.donor] = np.arange(len(place))
    return place


@dataclass(frozen=True, eq=False)
class Redrawn:
    """Donors as results hold them: the seed, from which they are drawn again when they are needed.

    Only the result whose donors were used last holds its draw.
    """

    design: Design
    seed: tuple[int, ...]
    shape: tuple[int, int]  # rows and donors a row
    latest: ClassVar[ref[Redrawn] | None] = None

    @property
    def drawn(self) -> Drawn:
        """The draw."""
        held: Drawn | None = vars(self).get("_held")
        if held is None:
            held = self.design.lend(self.shape[0], np.random.default_rng(self.seed))
            before = None if Redrawn.latest is None else Redrawn.latest()
            if before is not None:
                vars(before).pop("_held", None)
            vars(self)["_held"], Redrawn.latest = held, ref(self)
        return held

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Indices:
        return np.asarray(self[:], dtype)

    def __getitem__(self, rows: Any) -> Indices:
        return self.drawn[rows]

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _same, (self.drawn,)  # another release of NumPy may draw other numbers


def _same(drawn: Drawn) -> Drawn:
    return drawn


Drawn = Indices | Shifts
DonorMatrix = Drawn | Redrawn


class Design:
    """Which donors each row is paired with, and what that allows: a design overrides the defaults below."""

    typed: ClassVar[tuple[str, ...]] = ()  # how it is written on the command line; N stands for m
    conditional: ClassVar[bool] = False  # values are drawn given other columns, for each feature by itself
    unless_exact: ClassVar[bool] = False  # as with "auto", an exact engine computes all pairs of what it supports
    values: Sequence[Any] | None = None  # the user's values, instead of donors
    m: int | None  # donors a row; None: all rows, or none of them

    @property
    def common(self) -> bool:
        """All rows have the same donors, so that curves share one grid."""
        return False

    @property
    def all_pairs(self) -> bool:
        """Nothing is sampled: every row is paired with every row, or with every other row."""
        return False

    @property
    def declined(self) -> str:
        """Why exact engines don't take it; empty if they do."""
        return "" if self.all_pairs else f"exact engines compute all pairs of rows, not those of {self.remembered!r}"

    @property
    def ranked(self) -> bool:
        """The draw gives ranks along the feature instead of rows: the caller sorts the rows first."""
        return False

    @property
    def spread(self) -> bool:
        """The donors of each row are spread over the feature's range, and any number of them is nested."""
        return False

    @property
    def leaves_out_own(self) -> bool:
        """No row is its own donor: the mean over cells is the U-statistic, else the V-statistic."""
        return False

    @property
    def repeats(self) -> bool:
        """A row may be paired with a donor twice."""
        return False

    @property
    def has_columns(self) -> bool:
        """Each of its columns gives every row one donor, so that a score of all rows can be averaged over columns."""
        return self.all_pairs or not (self.common or self.conditional)

    @property
    def sampled_grid(self) -> bool:
        """All rows share a sample of donors, or the user's values."""
        return self.common and not self.all_pairs

    @property
    def remembered(self) -> Design:
        """The design as results hold it."""
        return self

    def check(self, n: int) -> None:
        """Raise if the design does not fit a table of n rows."""

    def lend(self, n: int, rng: np.random.Generator) -> Drawn:
        """Draw the donors of all rows; ``[rows]`` gives those of some rows."""
        raise NotImplementedError

    def draw(self, n: int, rng: np.random.Generator) -> Indices:
        """Draw the donors of n rows, an integer matrix (n, m)."""
        return np.asarray(self.lend(n, rng)[:])

    def is_exact(self, n: int) -> bool:
        """Whether the mean over the cells is the V- or U-statistic over all pairs."""
        return self.all_pairs


def _check_m(m: object, name: str) -> None:
    if isinstance(m, bool) or not isinstance(m, (int, np.integer)) or m < 1:
        raise ValueError(f"{name} needs a whole number of donors, at least 1; got {m!r}")


def _no_more_than(m: int, most: int, design: object, n: int) -> None:
    if m > most:
        raise ValueError(f"{design!r} asks for {m} donors, but {n} rows have only {most}; lower m to {most} or less")


@dataclass(frozen=True)
class All(Design):
    """Every row is paired with every row: the exact V-statistic, n x n cells.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> ll.feature_importance(lambda X: X[:, 0], X, X[:, 0], loss="squared_error", donors=ll.All())["x0"].exact
    True
    """

    common = all_pairs = True
    m = None

    def lend(self, n: int, rng: np.random.Generator) -> Drawn:
        """Donors of each row: every row in order (a view: nothing of size n x n is held)."""
        return np.broadcast_to(np.arange(n), (n, n))


def _plain_values(values: Any) -> tuple[Any, ...]:
    """The user's values as Python objects, so that designs can be compared and printed."""
    array = values if isinstance(values, np.ndarray) else None
    if array is None and hasattr(values, "to_numpy"):
        array = values.to_numpy()
    if array is not None and array.dtype.kind in "mM":
        array = array.astype(f"{array.dtype.kind}8[us]")  # NumPy makes numbers of nanoseconds
    plain = values if array is None else array.tolist()
    if isinstance(plain, str) or not hasattr(plain, "__iter__") or np.ndim(np.asarray(list(plain), dtype=object)) != 1:
        raise ValueError(f"Grid(values=...) needs a non-empty flat list of values; got {values!r}")
    items = tuple(value.item() if isinstance(value, np.generic) else value for value in plain)
    if not items:
        raise ValueError(f"Grid(values=...) needs a non-empty flat list of values; got {values!r}")
    return items


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

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> five = ll.Grid(5, at="quantiles")
    >>> len(ll.feature_importance(lambda X: X[:, 0], X, X[:, 0], loss="squared_error", donors=five)["x0"].grid)
    5
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
            _check_m(self.m, "Grid")
        else:
            object.__setattr__(self, "values", _plain_values(self.values))
        if not is_one_of(self.at, ("random", "quantiles")):
            raise ValueError(f"Grid(at=...) is 'random' or 'quantiles'; got {self.at!r}")

    def __repr__(self) -> str:
        return f"Grid({self.m}, at={self.at!r})" if self.m is not None else f"Grid(values={list(self.values or ())!r})"

    @property
    def ranked(self) -> bool:
        """The draw gives ranks where donors are quantiles of the feature."""
        return self.at == "quantiles"

    def check(self, n: int) -> None:
        """No more donors than rows."""
        if self.m is not None:
            _no_more_than(self.m, n, self, n)

    def lend(self, n: int, rng: np.random.Generator) -> Drawn:
        """Draw m rows (or ranks), the same for each row."""
        if self.m is None:
            raise ValueError("Grid(values=...) has no donors to draw")
        if self.at == "random":
            chosen = np.sort(rng.choice(n, self.m, replace=False))
        else:
            chosen = np.floor((np.arange(self.m) + 0.5) * n / self.m).astype(np.intp)
        return np.broadcast_to(chosen, (n, self.m))

    def is_exact(self, n: int) -> bool:
        """The mean is exact only when every row is a donor."""
        return self.m == n


@dataclass(frozen=True, repr=False)
class _Columns(Design):
    """A design of m columns, each of which gives every row one donor."""

    m: int

    def __post_init__(self) -> None:
        _check_m(self.m, type(self).__name__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.m})"

    def check(self, n: int) -> None:
        """No more columns than rows: there are no further distinct shifts."""
        _no_more_than(self.m, n, self, n)

    def is_exact(self, n: int) -> bool:
        """All n shifts together contain every pair once."""
        return self.m == n


@dataclass(frozen=True, repr=False)
class Permutations(_Columns):
    """Independent random permutations: the paper's approximation, and scikit-learn's ``n_repeats``.

    Parameters
    ----------
    m
        How many permutations: donors of each row.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 0] ** 2, X, X[:, 0], loss="squared_error", donors=ll.Permutations(5))
    >>> imp["x0"].exact
    False
    """

    repeats = True
    typed = ("permutations:N",)

    def check(self, n: int) -> None:
        """Any number of permutations is allowed."""

    def lend(self, n: int, rng: np.random.Generator) -> Drawn:
        """Draw a permutation of the rows for each column."""
        donors = np.empty((n, self.m), np.int32 if n <= np.iinfo(np.int32).max else np.intp)
        for k in range(self.m):
            donors[:, k] = rng.permutation(n)
        return donors

    def is_exact(self, n: int) -> bool:
        """The mean is never exact: permutations repeat pairs."""
        return False


@dataclass(frozen=True, repr=False)
class Latin(_Columns):
    """Distinct cyclic shifts after two random relabellings: no pair occurs twice.

    Its variance is ``(1 - (m-1)/(n-1))`` times that of m independent permutations. A longer draw from the same
    seed extends a shorter one.

    Parameters
    ----------
    m
        How many shifts: donors of each row.

    Examples
    --------
    >>> import numpy as np
    >>> donors = Latin(3).draw(6, np.random.default_rng(0))
    >>> all(len(set(row)) == 3 for row in donors.tolist())  # no donor twice
    True
    """

    typed = ("latin:N",)

    def lend(self, n: int, rng: np.random.Generator) -> Shifts:
        """Rows and donors relabelled at random, then m distinct shifts."""
        return Shifts(rng.permutation(n), rng.permutation(n), rng.permutation(n)[: self.m].copy())


@dataclass(frozen=True, repr=False)
class Systematic(_Columns):
    """Evenly spaced shifts along the feature's own order, with a random start: the most precise sample.

    Each row has one donor in each of the m rank bins of the feature, so curves are defined on these bins.
    A draw of 2m from the same seed contains the draw of m.

    Parameters
    ----------
    m
        How many shifts: donors of each row.

    Examples
    --------
    >>> import numpy as np
    >>> ranks = Systematic(2).draw(6, np.random.default_rng(0))
    >>> [sorted(row) for row in (ranks // 3).tolist()]  # one in each half of the range
    [[0, 1], [0, 1], [0, 1], [0, 1], [0, 1], [0, 1]]
    """

    ranked = True
    typed = ("systematic:N",)

    def shifts(self, n: int, rng: np.random.Generator) -> Indices:
        """The m shifts: each of the n possible ones is among them with probability m/n."""
        start = rng.random() * n
        return np.asarray(np.floor(start + np.arange(self.m) * (n / self.m)).astype(np.intp) % n)

    def lend(self, n: int, rng: np.random.Generator) -> Shifts:
        """Ranks of the donors of the row at each rank, ascending: one column a rank bin."""
        return Shifts(None, np.arange(n), self.shifts(n, rng), ascending=True)


GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, repr=False)
class Spread(_Columns):
    """m shifts along the feature's own order, of rows in random places: each row's donors are spread over the range.

    The k-th shift is k golden sections of the circle further: however many there are, they lie nearly evenly. A longer
    draw from the same seed extends a shorter one, by any number. Every column gives each donor to one row, and errors
    of rows average out: of few donors it is more precise than `Systematic`, where all rows share the shift, and of any
    number more than `Latin`.

    Examples
    --------
    >>> import numpy as np
    >>> ranks = Spread(3).draw(6, np.random.default_rng(0))
    >>> [sorted(column) for column in ranks.T.tolist()] == [list(range(6))] * 3
    True
    """

    ranked = spread = True

    def lend(self, n: int, rng: np.random.Generator) -> Shifts:
        """Ranks of the donors of each row, in the order of the shifts."""
        points = np.arange(4 * min(self.m + 16, n))  # shifts that fall on an earlier one are left out
        shifts, first = np.unique((points * GOLDEN % 1 * n).astype(np.intp), return_index=True)
        return Shifts(rng.permutation(n), np.arange(n), shifts[np.argsort(first)][: self.m])


@dataclass(frozen=True, repr=False)
class Derangements(Design):
    """Non-zero shifts, so that no row is its own donor: the U-statistic, exact with all n - 1 of them.

    Parameters
    ----------
    m
        How many random shifts; None: all.

    Examples
    --------
    >>> import numpy as np
    >>> donors = Derangements().draw(3, np.random.default_rng(0))
    >>> sorted(donors[0].tolist())  # of row 0
    [1, 2]
    """

    m: int | None = None
    leaves_out_own = True
    typed = ("derangements", "derangements:N")

    def __post_init__(self) -> None:
        if self.m is not None:
            _check_m(self.m, "Derangements")

    def __repr__(self) -> str:
        return f"Derangements({'' if self.m is None else self.m})"

    @property
    def all_pairs(self) -> bool:
        """All shifts together are the full table without its diagonal."""
        return self.m is None

    common = all_pairs

    def check(self, n: int) -> None:
        """There are n - 1 non-zero shifts."""
        if self.m is not None:
            _no_more_than(self.m, n - 1, self, n)

    def lend(self, n: int, rng: np.random.Generator) -> Shifts:
        """The donor of a row is ``shift`` positions further in a random cyclic order; no shift is zero."""
        circle = rng.permutation(n)
        return Shifts(None, circle, 1 + rng.permutation(n - 1)[: self.m])

    def is_exact(self, n: int) -> bool:
        """The mean is exact with every non-zero shift."""
        return self.all_pairs or self.m == n - 1


@dataclass(frozen=True, repr=False)
class Conditional(Design):
    """Values drawn given other columns by the named sampler: the design that a result keeps."""

    sampler: str
    m: int  # values drawn for a row, at most
    conditional = repeats = True

    def __repr__(self) -> str:
        return self.sampler


DESIGNS: tuple[type[Design], ...] = (All, Grid, Permutations, Latin, Systematic, Spread, Derangements, Conditional)


def resolve(donors: object) -> Design | None:
    """The design that the user named; None for ``"auto"``."""
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
