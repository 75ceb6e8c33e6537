"""The first pass: the weight of the rows at each value of a column, or in each bin that the model distinguishes.

A column has a *grid*: its distinct values if they are few, else one value for each bin between thresholds, the smallest
that occurs. Grids of parts can be merged in any order. The same pass sums weights, collects types, and computes the
sums that an engine needs first. The code book, a small table of all values of the grids, is the table that an exact
engine is bound to and checked on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from losslens.cells.row_sums import Deletion
from losslens.passes.parts.reading import Data, Job, PartRows
from losslens.progress import Tick, bar
from losslens.tables import checks
from losslens.tables.columns import Column, Distinct, distinct_numbers, keys_of, sorted_places
from losslens.tables.frames import Batch, Edit, Table, as_columns, column_like, common_kinds, frame_table
from losslens.typing import Floats, Indices
from losslens.workers import Workers

MOST_VALUES = 2000  # distinct values of a grid; with more, values are binned
MOST_WORDS = 100_000  # the same for words and categories, which have no bins: more is an error
MISSING = np.iinfo(np.int64).min


class Bins(Protocol):
    """Bins of values that the model does not distinguish."""

    def of(self, table: Table, distinct: Mapping[int, Distinct]) -> Mapping[int, NDArray[np.int64] | None]:
        """The bin of each distinct value of some columns; None where each value is its own bin."""


@dataclass(frozen=True, eq=False)
class CountedGrid:
    """The values of a column that occur, and the weight of the rows at each."""

    values: NDArray[Any]  # (g,)
    bins: NDArray[np.int64] | None  # (g,): None where values are words or categories
    mass: Floats  # (g,): sums of the rows' weights
    ordered: bool
    categories: tuple[Any, ...] | None = None
    binned: bool = False  # a value stands for its bin

    def __len__(self) -> int:
        return len(self.values)

    def places(self, values: NDArray[Any], bins: NDArray[np.int64] | None) -> Indices:
        """The positions of values of a part on the grid."""
        if self.binned:
            assert bins is not None  # by which the grid is binned
            return self._positions(self._sorted_bins, bins)
        if values.dtype == object or self.values.dtype == object:
            return self._word_positions(values)
        return self._positions(self._sorted_values, values)

    @cached_property
    def _sorted_bins(self) -> tuple[NDArray[Any], Indices]:
        assert self.bins is not None
        order = np.argsort(self.bins)
        return self.bins[order], order

    @cached_property
    def _sorted_values(self) -> tuple[NDArray[Any], Indices]:
        own = distinct_numbers(self.values)
        return own.values, own.first

    @cached_property
    def _words(self) -> dict[Any, int]:
        return {own: k for k, own in enumerate(keys_of(self.values.tolist()))}

    def _positions(self, grid: tuple[NDArray[Any], Indices], searched: NDArray[Any]) -> Indices:
        values, order = grid
        position = np.minimum(np.searchsorted(values, searched), len(values) - 1)
        if values.dtype.kind == "f" and searched.dtype.kind == "f":  # 0.0 comes after -0.0, where both are on the grid
            behind = (searched == 0) & ~np.signbit(searched) & np.signbit(values[position])
            position += behind & (values[np.minimum(position + 1, len(values) - 1)] == 0)
        if not np.array_equal(values[position], searched.astype(values.dtype), equal_nan=values.dtype.kind == "f"):
            raise ValueError(_CHANGED)
        return np.asarray(order[position])

    def _word_positions(self, words: NDArray[Any]) -> Indices:
        try:
            return np.array([self._words[own] for own in keys_of(words.tolist())], np.intp)
        except KeyError:
            raise ValueError(_CHANGED) from None


_CHANGED = "a value occurs that did not occur in the first pass: the data were changed while they were being read"


def count(table: Table, weight: Floats, positions: Iterable[int], bins: Bins) -> dict[int, CountedGrid]:
    """The grids of some columns of a part."""
    columns = {j: table.column(j) for j in positions}
    distinct = {j: column.distinct for j, column in columns.items()}
    grids = {}
    for j, own_bins in bins.of(table, distinct).items():
        own = distinct[j]
        mass = np.bincount(own.codes, weight, len(own)).astype(float)
        grids[j] = _at_most(CountedGrid(_held(columns[j]), own_bins, mass, own.ordered, columns[j].categories))
    return grids


def places(table: Table, grids: Mapping[int, CountedGrid], columns: Iterable[int], bins: Bins) -> dict[int, Indices]:
    """The positions of the values of each row of a part on the grids of some columns."""
    chosen = {j: table.column(j) for j in columns}
    own_bins = bins.of(table, {j: column.distinct for j, column in chosen.items()})
    return {j: grids[j].places(_held(column), own_bins[j])[column.distinct.codes] for j, column in chosen.items()}


def _held(column: Column) -> NDArray[Any]:
    """The distinct values as the column holds them: another part may have another kind of missing value."""
    return column.array[column.distinct.first] if column.array.dtype == object else column.distinct.values


def merged_grids(grids: Iterable[Mapping[int, CountedGrid]]) -> dict[int, CountedGrid]:
    """The grids of all parts merged, for each column."""
    return reduce(lambda a, b: {j: _merged_pair(a[j], b[j]) for j in a}, (dict(each) for each in grids))


def _merged_pair(a: CountedGrid, b: CountedGrid) -> CountedGrid:
    categories, ordered = a.categories, a.ordered and b.ordered
    if a.categories is not None and b.categories is not None:
        categories = tuple(dict.fromkeys((*a.categories, *b.categories)))
    mass = np.concatenate([a.mass, b.mass])
    if a.values.dtype == object or b.values.dtype == object:
        values, mass = _merged_words(a, b, mass, categories)
        return _at_most(CountedGrid(values, None, mass, ordered, categories))
    values = np.concatenate([a.values, b.values])
    bins = None if a.bins is None or b.bins is None else np.concatenate([a.bins, b.bins])
    if a.binned or b.binned:
        return _by_bin(CountedGrid(values, bins, mass, ordered, categories))
    own = distinct_numbers(values)
    mass = np.bincount(own.codes, mass).astype(float)
    return _at_most(CountedGrid(own.values, None if bins is None else bins[own.first], mass, ordered, categories))


def _merged_words(
    a: CountedGrid, b: CountedGrid, mass: Floats, categories: tuple[Any, ...] | None
) -> tuple[NDArray[Any], Floats]:
    """The words of both grids, each once, sorted, and the mass of each."""
    both = (*a.values.tolist(), *b.values.tolist())
    place: dict[Any, int] = {}
    position = [place.setdefault(own, len(place)) for own in keys_of(both)]
    held = dict(zip(reversed(position), reversed(both), strict=True))  # of equal values the first
    order = sorted_places([held[k] for k in range(len(place))], categories)
    values = np.empty(len(order), dtype=object)
    values[:] = [held[k] for k in order]
    return values, np.bincount(position, mass, len(place))[order].astype(float)


def _at_most(grid: CountedGrid) -> CountedGrid:
    """The grid, binned where it has too many values."""
    if len(grid) <= MOST_VALUES:
        return grid
    if grid.bins is not None:
        return _by_bin(grid)
    if len(grid) > MOST_WORDS:
        raise ValueError(
            f"a column has more than {MOST_WORDS:,} words such as {grid.values[0]!r}, too many to be "
            "counted; leave the column out with features="
        )
    return grid


def _by_bin(grid: CountedGrid) -> CountedGrid:
    """The grid with one value per bin: the smallest."""
    assert grid.bins is not None
    order = np.argsort(grid.values, kind="stable")  # missing values come last
    bins, first, same = np.unique(grid.bins[order], return_index=True, return_inverse=True)
    mass = np.bincount(same.reshape(-1), grid.mass[order]).astype(float)
    by_value = np.argsort(first)
    values = grid.values[order][first]
    return replace(grid, values=values[by_value], bins=bins[by_value], mass=mass[by_value], binned=True)


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Bins between quantiles of some rows: for models whose curves are not step functions."""

    edges: Mapping[int, NDArray[Any]]

    def of(self, table: Table, distinct: Mapping[int, Distinct]) -> Mapping[int, NDArray[np.int64] | None]:
        """The bin of each distinct value; None for words."""
        return {j: self._one(j, own.values) for j, own in distinct.items()}

    def _one(self, j: int, values: NDArray[Any]) -> NDArray[np.int64] | None:
        if values.dtype.kind not in "biufmM" or j not in self.edges:
            return None
        bins = np.searchsorted(self.edges[j], values, "right").astype(np.int64)
        missing = np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values.astype(float))
        return np.where(missing, MISSING, bins)

    @classmethod
    def of_rows(cls, tables: Sequence[Table], columns: Iterable[int], most: int) -> Quantiles:
        """Quantiles such that all bins hold about the same number of these rows."""
        edges = {}
        for j in columns:
            arrays = [table.column(j).array for table in tables]
            if any(array.dtype.kind not in "biufmM" for array in arrays):
                continue
            array = np.concatenate(arrays)
            missing = np.isnat(array) if array.dtype.kind in "mM" else np.isnan(array.astype(float))
            present = np.sort(array[~missing])
            if len(present):
                edges[j] = np.unique(present[np.linspace(0, len(present) - 1, most + 1).astype(np.intp)[1:-1]])
        return cls(edges)


Sums = Callable[[PartRows], Floats]


@dataclass(frozen=True, eq=False)
class FirstPass:
    """The arguments of the first pass, small enough to send to workers."""

    data: Data
    columns: tuple[int, ...]  # to count
    bins: Bins
    labels: bool  # collect the labels of y, where the model has no classes
    sums: Sums | None = None  # computed for each part, and added up


@dataclass(frozen=True, eq=False)
class Counted:
    """The result of the first pass for a job, or for all of them."""

    grids: dict[int, CountedGrid]
    mass: Floats  # (3,): sums of the weights and of their squares, and how many are above zero
    checksums: tuple[int, ...]
    kinds: tuple[dict[str, Any], ...]  # types of pandas' columns
    labels: NDArray[Any] | None
    sums: Floats | None

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.mass[0])

    @property
    def units(self) -> int:
        """The number of rows with a weight above zero."""
        return int(self.mass[2])

    @property
    def deletion(self) -> Deletion:
        """What the deletion of a row does to means over all rows."""
        return Deletion(self.squares, self.units)

    @property
    def squares(self) -> float:
        """The sum of the squared weights, after scaling them to sum to one."""
        return float(self.mass[1] / self.mass[0] ** 2)


def first_pass(arguments: FirstPass, jobs: Sequence[Job], workers: Workers, progress: bool | None) -> Counted:
    """Count all jobs, and merge the results."""
    results = []
    with bar(sum(job.rows for job in jobs), "counting", progress, "rows") as tick:
        for counted in workers.map(_count, arguments, jobs, tick):
            results.append(counted)
            if len(results) > 16:  # not one by one: merging grids takes time
                results = [_merged(results)]
    counted = _merged(results)
    if counted.units < 2:
        raise ValueError("sample_weight must be above zero for at least two rows")
    return counted


def with_checksums(jobs: Sequence[Job], counted: Counted) -> list[Job]:
    """The jobs with their checksums, which the later passes compare."""
    checked, start = [], 0
    for job in jobs:
        k = len(job.parts)
        checked.append(replace(job, checksums=counted.checksums[start : start + k]))
        start += k
    return checked


def kinds_of_all(counted: Counted, columns: Sequence[str]) -> dict[str, Any] | None:
    """One type for each column of all parts, where they are pandas frames."""
    if not counted.kinds:
        return None
    categories = {columns[j]: grid.categories for j, grid in counted.grids.items()}
    return common_kinds(counted.kinds, categories)


def _count(arguments: FirstPass, job: Job, tick: Tick) -> Counted:
    return _merged([_count_part(arguments, rows) for rows in arguments.data.rows(job, tick)])


def _count_part(arguments: FirstPass, rows: PartRows) -> Counted:
    table, weight = rows.table, rows.weight
    kinds: tuple[dict[str, Any], ...] = ()
    if table.backend == "pandas":
        kinds = (dict(zip(table.names, table.native.dtypes, strict=True)),)
    labels = checks.observed_classes(rows.y) if arguments.labels and rows.y is not None else None
    return Counted(
        grids=count(table, weight, arguments.columns, arguments.bins),
        mass=np.array([weight.sum(), weight @ weight, np.sum(weight > 0)]),
        checksums=(rows.checksum,),
        kinds=kinds,
        labels=labels,
        sums=None if arguments.sums is None else arguments.sums(rows),
    )


def _merged(results: Sequence[Counted]) -> Counted:
    if len(results) == 1:
        return results[0]
    labels = [each.labels for each in results if each.labels is not None]
    sums = [each.sums for each in results if each.sums is not None]
    return Counted(
        grids=merged_grids(each.grids for each in results),
        mass=np.sum([each.mass for each in results], axis=0),
        checksums=tuple(checksum for each in results for checksum in each.checksums),
        kinds=_different(kinds for each in results for kinds in each.kinds),
        labels=checks.observed_classes(np.concatenate(labels)) if labels else None,
        sums=np.sum(sums, axis=0) if sums else None,
    )


def _different(kinds: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    different: list[dict[str, Any]] = []
    for each in kinds:
        if each not in different:
            different.append(each)
    return tuple(different)


def codebook(head: Table, grids: Mapping[int, CountedGrid], kinds: Mapping[str, Any] | None) -> Table:
    """Row v holds the v-th value of each grid (the last one where a grid has fewer); other columns are as in `head`."""
    if kinds is not None:
        head = as_columns(head, head.names, kinds, as_array=False)
    size = max(2, *(len(grid) for grid in grids.values()))
    edits = []
    for j, grid in grids.items():
        index = np.minimum(np.arange(size), len(grid) - 1)
        if grid.values.dtype.kind in "biufmM":
            source = column_like(head, j, grid.values)
        else:
            source, index = head.column(j).extended(grid.values.tolist()), head.n + index
        edits.append(Edit(0, size, j, source, index))
    native = Batch(head).fill(np.zeros(size, np.intp), edits)
    if head.backend == "numpy":
        return Table(np.array(native), head.labels, head.names, size, "numpy")
    return Table(native, head.labels, head.names, size, frame_table(native).backend)
