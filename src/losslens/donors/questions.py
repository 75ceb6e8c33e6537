"""From a feature and a design to a question for an engine: the grid, the layout of the cells, the values to predict.

Values that a sampler draws need not be on the grid: they are assigned to bins of the feature's ranks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.donors.conditional import BoundSampler, Conditioning
from losslens.donors.designs import Design, DonorMatrix, Redrawn, Shifts
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.tables.columns import Column, Distinct, joint, narrow, places_of, stable_order
from losslens.tables.features import Feature
from losslens.tables.frames import Table
from losslens.tables.sample import CHUNK
from losslens.typing import Floats, Indices

FEW_VALUES = 64  # with more, a row's own value is a small share: predicting it too keeps batches regular


@dataclass(frozen=True, eq=False)
class DonorValues:
    """The values of each row's donors, computed when rows are indexed."""

    donors: DonorMatrix  # (n, m)
    codes: Indices  # (n,): the value of each row
    repeats: bool  # a row may get a value twice

    def __getitem__(self, rows: Indices) -> Indices:
        return np.asarray(self.codes[self.donors[rows]])


@dataclass(frozen=True, eq=False)
class Ask:
    """One feature's cells: each row of the table with the feature's columns at other values.

    Value v of the feature puts ``sources[c][index[c][v]]`` into column ``columns[c]``. Row i has value ``own[i]``
    itself (-1: none of these) and is predicted at all `size` values or, where `donor_values` is given, at
    ``donor_values[i]`` only.
    """

    name: str
    columns: tuple[int, ...]
    sources: tuple[Column, ...]
    index: tuple[Indices, ...]
    own: Indices  # (n,)
    size: int
    donor_values: DonorValues | None = None
    all_values: bool = False  # whether these are the distinct values of the table, in order

    @property
    def width(self) -> int:
        """Cells in a row."""
        return self.size if self.donor_values is None else self.donor_values.donors.shape[1]

    def most(self, rows: int) -> int:
        """The most predictions that `rows` rows can need: with few values a row's own is not predicted again."""
        skips = int(self.size <= FEW_VALUES and self.own.min() >= 0)
        return rows * min(self.size - skips, self.width)


SHARED = 0.9  # share of distinct values among the rows, under which values are checked for repetitions
EDGE = 0.4  # how far beyond a product grid its outermost rows lie, in steps


@dataclass(frozen=True, eq=False)
class Subject:
    """A feature and its distinct values."""

    feature: Feature
    columns: tuple[Column, ...]

    @cached_property
    def parts(self) -> tuple[Distinct, ...]:
        """The distinct values of each column."""
        return tuple(column.distinct for column in self.columns)

    @cached_property
    def distinct(self) -> Distinct:
        """The distinct values of the columns together."""
        return joint(self.parts)

    def generator(self, entropy: int) -> np.random.Generator:
        """Random numbers of this feature's own, from its `seed`."""
        return np.random.default_rng(self.seed(entropy))

    def seed(self, entropy: int) -> tuple[int, ...]:
        """The seed of this feature.

        It depends on the order of its values (of categories: on which rows share one) only: not on the other
        features, their order, or the kind of table.
        """
        codes = self.distinct.codes
        if not self.distinct.ordered:
            codes = np.argsort(np.argsort(self.distinct.first))[codes]
        digest = hashlib.blake2b(digest_size=16)
        for start in range(0, len(codes), CHUNK):
            digest.update(codes[start : start + CHUNK].astype("<i8").tobytes())
        return entropy, *np.frombuffer(digest.digest(), "<u4").tolist()


@dataclass(frozen=True, eq=False)
class Question:
    """The request to an engine for one feature, and how its cells are read."""

    subject: Subject
    design: Design
    ask: Ask
    layout: Layout
    values: tuple[NDArray[Any], ...]  # the grid
    ordered: bool
    observed: Floats | None = None  # (n, 2), of a pair: where the rows lie on the product grid
    conditioning: Conditioning | None = None  # of values drawn by a sampler
    redrawn: Redrawn | None = None  # the donors of `layout`, if they can be drawn again

    @property
    def stored_layout(self) -> Layout:
        """The layout as results hold it."""
        if self.redrawn is None or isinstance(self.layout, CommonGrid):
            return self.layout
        return replace(self.layout, donors=self.redrawn)

    @property
    def width(self) -> int:
        """Cells in a row."""
        return self.layout.width


class Subjects:
    """The features of a table; each column is read once."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._columns: dict[int, Column] = {}

    def column(self, position: int) -> Column:
        """A column of the table."""
        if position not in self._columns:
            self._columns[position] = self.table.column(position)
        return self._columns[position]

    def subject(self, feature: Feature) -> Subject:
        """A feature with its values."""
        return Subject(feature, tuple(self.column(j) for j in feature.columns))


def pose(subject: Subject, design: Design, n: int, entropy: int, *, same_for_all: bool = False) -> Question:
    """The question of one feature under one design, with donors of its own or the same for all features."""
    design.check(n)
    # All pairs draw nothing.
    seed = (0,) if design.all_pairs else (entropy,) if same_for_all else subject.seed(entropy)
    rng = np.random.default_rng(seed)
    if isinstance(design, BoundSampler):
        return _conditional(subject, design, n, rng)
    if subject.feature.kind == "pair":
        return _pair(subject, design, n, rng)
    if design.values is not None:
        return _own_values(subject, design)
    if design.ranked and not design.common and subject.feature.kind == "group":
        raise ValueError(f"a group such as {subject.feature.name!r} has no order for {design!r}; use Latin(m)")
    if design.common:
        return _common(subject, design, n, rng)
    if design.ranked and not design.spread:
        return _rank_bins(subject, design, n, seed)
    return _per_row(subject, design, n, seed)


def _ask(subject: Subject, own: Indices, first: Indices, **more: Any) -> Ask:
    feature = subject.feature
    index = (first,) * len(feature.columns)
    all_values = first is subject.distinct.first
    return Ask(feature.name, feature.columns, subject.columns, index, own, len(first), all_values=all_values, **more)


def _common(subject: Subject, design: Design, n: int, rng: np.random.Generator) -> Question:
    distinct, steps = subject.distinct, None
    if design.sampled_grid:
        donors = _grid_donors(distinct, design, n, rng)
        kept = np.unique(distinct.codes[donors])
        own, first, values = _places(distinct, kept), distinct.first[kept], distinct.values[kept]
        if design.ranked:
            steps = np.clip(_steps(distinct, kept), 0, len(kept) - 1)
    else:  # all rows are donors
        donors, own, first, values = all_rows(n), distinct.codes, distinct.first, distinct.values
    layout = CommonGrid(own, donors, len(first), design.leaves_out_own, steps)
    return Question(subject, design, _ask(subject, own, first), layout, (values,), distinct.ordered)


@lru_cache(maxsize=1)
def all_rows(n: int) -> Indices:
    """Positions of all rows: one array for all features."""
    return np.arange(n)


def _per_row(subject: Subject, design: Design, n: int, seed: tuple[int, ...]) -> Question:
    distinct, rng, repeats = subject.distinct, np.random.default_rng(seed), design.repeats
    donors, place, values = design.lend(n, rng), distinct.codes, distinct.values
    if isinstance(donors, Shifts) and design.spread:
        donors = replace(donors, donor=_sorted_rows(distinct, n, rng))
        bins, values = rank_bins(distinct)  # few donors a row: at single values curves would be ragged
        place = bins[distinct.codes]
    donor_values = DonorValues(donors, distinct.codes, repeats or has_ties(distinct))
    ask = _ask(subject, distinct.codes, distinct.first, donor_values=donor_values)
    layout = OwnDonors(donors, place, len(values), leaves_out_own=design.leaves_out_own, repeats=repeats,
                       spread=design.spread)  # fmt: skip
    redrawn = None if design.ranked else Redrawn(design, seed, donors.shape)
    return Question(subject, design, ask, layout, (values,), distinct.ordered, redrawn=redrawn)


def has_ties(distinct: Distinct) -> bool:
    """Whether so many rows share a value that it pays to predict repeated values once."""
    return len(distinct) < SHARED * len(distinct.codes)


def _rank_bins(subject: Subject, design: Design, n: int, seed: tuple[int, ...]) -> Question:
    """Each row has one donor in each rank bin; a curve has one value a bin, the middle one."""
    distinct, rng = subject.distinct, np.random.default_rng(seed)
    drawn = _sorted_rows(distinct, n, rng)
    order = subject.columns[0].held.setdefault((seed, distinct.ordered), drawn)  # the same for every number of donors
    del drawn
    ranks = design.lend(n, rng)
    if not isinstance(ranks, Shifts):
        raise TypeError(f"{design!r} draws ranks, so its donors must be Shifts")
    donors = replace(ranks, donor=order)
    m = donors.shape[1]
    middle = distinct.codes[order[np.floor((np.arange(m) + 0.5) * n / m).astype(np.intp)]]
    kept, column = np.unique(middle, return_inverse=True)
    donor_values = DonorValues(donors, distinct.codes, has_ties(distinct))
    ask = _ask(subject, distinct.codes, distinct.first, donor_values=donor_values)
    layout = OwnDonors(donors, column.reshape(-1), len(kept), binned=True)
    return Question(subject, design, ask, layout, (distinct.values[kept],), distinct.ordered)


def _conditional(subject: Subject, design: BoundSampler, n: int, rng: np.random.Generator) -> Question:
    """Values drawn given other columns: those of donors, or a sampler's own, appended to the columns."""
    feature, distinct = subject.feature, subject.distinct
    if feature.kind == "pair":
        raise ValueError(f"the pair {feature.name!r} needs a grid: donors='auto', 'all' or Grid(m); got {design!r}")
    drawn = design.draw_values(feature.columns, rng)
    everyone = narrow(np.arange(n))[:, None]
    if drawn.sources:
        m = drawn.donors.shape[1]
        narrowed = np.int32 if n * m <= np.iinfo(np.int32).max else np.intp
        every = np.arange(n * m, dtype=narrowed)  # the values drawn, one draw for all rows after the other
        cell = every.reshape(m, n).T
        sources = tuple(drawn.sources[j] for j in feature.columns)
        index = (every + n,) * len(sources)  # after the column's own values
        donor_values = DonorValues(cell, every, repeats=False)
        ask = Ask(feature.name, feature.columns, sources, index, np.full(n, -1), n * m, donor_values)
        place, values = drawn_places(sources, index[0].reshape(m, n).T, distinct, feature.name)
    else:
        donors = np.where(drawn.donors < 0, everyone, drawn.donors)  # a row's own value is not predicted
        donor_values = DonorValues(donors, distinct.codes, repeats=True)
        ask = _ask(subject, distinct.codes, distinct.first, donor_values=donor_values)
        bins, values = rank_bins(distinct)
        place = bins[distinct.codes]
    place = place.astype(np.int16) if len(values) <= np.iinfo(np.int16).max else narrow(place)  # one for each cell
    layout = OwnDonors(drawn.donors, place, len(values), leaves_out_own=True, even=True, alone=drawn.alone)
    conditioning = design.conditioning(feature.name, feature.columns, drawn)
    return Question(subject, design.remembered, ask, layout, (values,), distinct.ordered, conditioning=conditioning)


def _grid_donors(distinct: Distinct, design: Design, n: int, rng: np.random.Generator) -> Indices:
    """The donors that all rows share."""
    drawn = np.asarray(design.lend(n, rng)[0])
    return _sorted_rows(distinct, n, rng)[drawn] if design.ranked else drawn


def _sorted_rows(distinct: Distinct, n: int, rng: np.random.Generator) -> Indices:
    """Rows in the order of their value, ties at random; categories without an order by frequency."""
    key = distinct.codes
    if not distinct.ordered:
        count = np.bincount(key, minlength=len(distinct))
        key = np.argsort(np.lexsort((distinct.first, -count)))[key]
    shuffled = narrow(rng.permutation(n))
    return np.asarray(shuffled[stable_order(key[shuffled])])


def _own_values(subject: Subject, design: Design) -> Question:
    """The user's values, appended to the column so that they can be gathered like any other."""
    if len(subject.columns) > 1:
        raise ValueError(f"Grid(values=...) is for one column; {subject.feature.name!r} is a group")
    values = list(design.values or ())
    column = subject.columns[0].extended(values)
    n = len(subject.parts[0].codes)
    codes = column.distinct.codes  # of the table's rows, then of the values
    grid_codes = codes[n:]
    if len(np.unique(grid_codes)) < len(values):
        raise ValueError(f"Grid(values=...) names a value twice: {values!r}")
    order = np.argsort(grid_codes) if column.distinct.ordered else np.arange(len(values))
    place = np.full(len(column.distinct), -1, np.intp)
    place[grid_codes[order]] = np.arange(len(values))
    own, feature = place[codes[:n]], subject.feature
    ask = Ask(feature.name, feature.columns, (column,), (n + order,), own, len(values))
    layout = CommonGrid(own, np.empty(0, np.intp), len(values))
    return Question(subject, design, ask, layout, (column.distinct.values[grid_codes[order]],), column.distinct.ordered)


def _pair(subject: Subject, design: Design, n: int, rng: np.random.Generator) -> Question:
    """A product grid: every value of the one column with every value of the other."""
    if design.values is not None:
        raise ValueError(f"Grid(values=...) is for one column; {subject.feature.name!r} is a pair: use Grid(m)")
    if not design.common:
        raise ValueError(
            f"the pair {subject.feature.name!r} needs a grid: donors='auto', 'all' or Grid(m); got {design!r}"
        )
    axes = []
    for part in subject.parts:
        kept = np.arange(len(part))
        if design.m is not None and len(part) > design.m:
            kept = np.unique(part.codes[_grid_donors(part, design, n, rng)])
        axes.append((part, kept))
    (a, in_a), (b, in_b) = axes
    size = len(in_a) * len(in_b)
    places = [_places(part, kept) for part, kept in axes]
    own = np.where((places[0] < 0) | (places[1] < 0), -1, places[0].astype(np.intp) * len(in_b) + places[1])
    index = (np.repeat(a.first[in_a], len(in_b)), np.tile(b.first[in_b], len(in_a)))
    feature = subject.feature
    ask = Ask(feature.name, feature.columns, subject.columns, index, own, size)
    layout = CommonGrid(own, np.empty(0, np.intp), size)
    values, observed = (a.values[in_a], b.values[in_b]), np.column_stack([_steps(*axis) for axis in axes])
    return Question(subject, design, ask, layout, values, a.ordered and b.ordered, observed)


def _steps(part: Distinct, kept: Indices) -> Floats:
    """Where each row lies on a grid of these values, in steps from the first.

    Numbers and dates lie between two grid values by their distance, or `EDGE` steps beyond an end; a missing value
    or an unordered category lies on its own grid value, NaN if the grid lacks it.
    """
    on_grid = _places(part, kept).astype(float)
    on_grid[on_grid < 0] = np.nan
    if not part.ordered:
        return on_grid
    kind, present = part.values.dtype.kind, part.present
    inner = kept[kept < present]
    if len(inner) == 0:
        return on_grid
    places = np.arange(present, dtype=float)  # ordered words: each as far from the next
    if kind in "iufmM":
        numbers = part.values[:present].astype("i8" if kind in "mM" else float).astype(float)
        places = numbers if np.isfinite(numbers).all() else places
    steps = np.full(len(part), np.nan)
    steps[:present] = np.interp(places, places[inner], np.arange(len(inner)))
    steps[: inner[0]], steps[inner[-1] + 1 : present] = -EDGE, len(inner) - 1 + EDGE
    return np.where(np.isnan(on_grid), steps[part.codes], on_grid)


def _places(part: Distinct, kept: Indices) -> Indices:
    place = np.full(len(part), -1, part.codes.dtype)
    place[kept] = np.arange(len(kept))
    return np.asarray(place[part.codes])


MOST_BINS = 50  # of a curve
MOST_JOINT = 2000  # distinct values of several columns; with more there is no curve


def rank_bins(distinct: Distinct) -> tuple[Indices, NDArray[Any]]:
    """The rank bin of each distinct value, with about equally many rows in each bin, and the bins' middle values.

    Missing values are bins of their own, the last. Categories, groups and up to `MOST_BINS` values are not binned.
    """
    g = len(distinct)
    if not distinct.ordered or g <= MOST_BINS:
        return np.arange(g), distinct.values
    present = distinct.present
    reached = np.cumsum(np.bincount(distinct.codes, minlength=g)[:present])
    reached = reached / reached[-1]
    bins = np.unique(np.floor(reached * MOST_BINS * (1 - 1e-12)), return_inverse=True)[1]
    last = np.flatnonzero(np.diff(bins, append=-1))
    middle = np.searchsorted(reached, (np.append(0.0, reached[last[:-1]]) + reached[last]) / 2)
    missing = np.arange(g - present)
    return np.append(bins, bins[-1] + 1 + missing), distinct.values[np.append(middle, present + missing)]


def drawn_places(
    sources: Sequence[Column], cell: Indices, distinct: Distinct, name: str
) -> tuple[Indices, NDArray[Any]]:
    """The grid position of each cell's value, (n, m), and the grid."""
    if len(sources) > 1:
        return _joint_places(sources, cell)
    bins, values = rank_bins(distinct)
    array = sources[0].array
    if array.dtype.kind in "iufmM" and distinct.ordered:
        return _ordered_places(array, cell, distinct, bins, values)
    drawn = array[cell]
    codes = places_of(drawn.ravel(), distinct.values)
    if codes.min() < 0:
        strange = drawn.ravel()[np.argmin(codes)]
        raise ValueError(
            f"the sampler drew {strange!r} for {name!r}, which occurs in no row; it must draw values that occur in X"
        )
    return bins[codes].reshape(drawn.shape), values


def _ordered_places(
    array: NDArray[Any], cell: Indices, distinct: Distinct, bins: Indices, values: NDArray[Any]
) -> tuple[Indices, NDArray[Any]]:
    """Numbers and dates go to the nearest bin, missing values to the last; one draw of all rows at a time."""
    first_missing = len(values) - (len(distinct) - distinct.present)
    if len(values) == len(distinct):  # no bins: the nearest value
        numbers = values[:first_missing].astype(array.dtype, copy=False)
        edges = numbers[:-1] + (numbers[1:] - numbers[:-1]) / 2
    else:
        edges = distinct.values[np.flatnonzero(np.diff(bins[: distinct.present])) + 1].astype(array.dtype, copy=False)
    place, any_missing = np.empty(cell.shape, np.int32).astype(cell.dtype, copy=False), False
    for k in range(cell.shape[1]):
        drawn = array[cell[:, k]]
        missing = np.isnat(drawn) if drawn.dtype.kind in "mM" else np.isnan(drawn)
        place[:, k] = np.where(missing, first_missing, np.searchsorted(edges, drawn, side="right"))
        any_missing |= bool(missing.any())
    if any_missing and first_missing == len(values):
        nothing = np.full(1, np.nan) if values.dtype.kind not in "mM" else np.full(1, "NaT", values.dtype)
        values = np.append(values, nothing)
    return place, values


def _joint_places(sources: Sequence[Column], cell: Indices) -> tuple[Indices, NDArray[Any]]:
    """Joint values of several columns if there are few; otherwise a single position, as there is no curve."""
    together = joint([source.distinct for source in sources])
    if len(together) <= MOST_JOINT:
        return np.asarray(together.codes[cell]), together.values
    return np.zeros(cell.shape, np.intp), np.full((1, len(sources)), np.nan)
