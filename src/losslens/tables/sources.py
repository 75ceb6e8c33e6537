"""Data larger than memory, in parts: Parquet files, pyarrow datasets, polars lazy frames, dask data frames.

A `Source` has columns, rows and parts; a `Reader`, which is small enough to be sent to a worker, loads a part. A file
that was changed or removed after it was opened, or that has other columns than the first one, raises an error that
names it.
"""

from __future__ import annotations

import glob
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import groupby
from math import ceil
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from losslens.typing import Indices

PART_ROWS = 100_000  # small row groups of a file are joined up to this many rows: each part has a fixed cost
BATCH_ROWS = 65_536  # decoded at a time where a row group is read in pieces
WILDCARDS = "*?["
SUFFIXES = (".parquet", ".parq", ".pq")  # of names in a list; others are texts


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a source, and where to read them."""

    name: str  # in error messages
    start: int  # position of its first row in the source
    rows: int
    where: Any
    skip: int = 0  # rows at `where` that come before


class Reader(Protocol):
    """Loads parts; small, so that it can be sent to workers."""

    def each(self, parts: Sequence[Part], columns: Sequence[str]) -> Iterator[Any]:
        """These columns of each part, as a data frame in memory; pieces of one row group are read at once."""


@dataclass(frozen=True, eq=False)
class Source:
    """A table in parts."""

    names: tuple[str, ...]
    parts: tuple[Part, ...]
    reader: Reader

    @property
    def n(self) -> int:
        """Rows."""
        return sum(part.rows for part in self.parts)

    def load(self, part: Part, columns: Sequence[str]) -> Any:
        """These columns of a part, as a data frame in memory."""
        return next(self.reader.each([part], columns))

    def in_memory(self, columns: Sequence[str], rows: Indices | None = None) -> Any:
        """These columns of all parts, or of the rows at these ascending positions, as one data frame in memory."""
        import narwhals as nw

        def inside(part: Part) -> Any:
            if rows is None:
                return slice(None)
            low, high = np.searchsorted(rows, [part.start, part.start + part.rows])
            return (rows[low:high] - part.start).tolist()

        parts = [part for part in self.parts if inside(part)]
        loaded = zip(parts, self.reader.each(parts, columns), strict=True)
        frames = [nw.from_native(native, eager_only=True)[inside(part)] for part, native in loaded]
        if frames[0].implementation.is_pandas():
            return _joined_pandas([frame.to_native() for frame in frames])
        return nw.concat(frames, how="vertical").to_native()

    def cut(self, most: int) -> Source:
        """The same source in parts of at most `most` rows."""
        return replace(self, parts=tuple(piece for part in self.parts for piece in _pieces(part, most)))


def _by_place(parts: Sequence[Part]) -> Iterator[tuple[Any, list[Part]]]:
    """Consecutive parts that are pieces of the same row group or partition."""
    for _, some in groupby(parts, key=lambda part: id(part.where)):
        together = list(some)
        yield together[0].where, together


def in_one_place(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts that are read at once: pieces of one row group, or of one partition."""
    return [each for where, some in _by_place(parts) for each in ([some] if where is not None else [[p] for p in some])]


def _pieces(part: Part, most: int) -> Iterator[Part]:
    count = ceil(part.rows / most)
    if count <= 1:
        yield part
        return
    for k in range(count):
        low, high = part.rows * k // count, part.rows * (k + 1) // count
        name = f"{part.name}, rows {part.skip + low:,} to {part.skip + high - 1:,}"
        yield Part(name, part.start + low, high - low, part.where, part.skip + low)


def _joined_pandas(frames: list[Any]) -> Any:
    """Frames as one; categorical columns get the categories of all frames."""
    import pandas as pd

    from_each = {name: [frame[name].dtype for frame in frames] for name in frames[0].columns}
    for name, kinds in from_each.items():
        if all(isinstance(kind, pd.CategoricalDtype) for kind in kinds) and any(kind != kinds[0] for kind in kinds):
            union = list(dict.fromkeys(value for kind in kinds for value in kind.categories))
            kind = pd.CategoricalDtype(union, ordered=kinds[0].ordered)
            frames = [frame.assign(**{name: frame[name].astype(kind)}) for frame in frames]
    return pd.concat(frames, ignore_index=True)


def as_source(X: Any) -> Source | None:
    """A source from the argument X; None for data in memory."""
    if isinstance(X, Source):
        return X
    opened = _opener(X)
    return None if opened is None else opened(X)


def in_files(X: Any) -> bool:
    """Whether the argument X is a source; nothing is opened."""
    return isinstance(X, Source) or _opener(X) is not None


def _opener(X: Any) -> Callable[[Any], Source] | None:
    """The function that makes a source of the argument X; None for data in memory."""
    kind = f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}"
    if isinstance(X, (str, Path)) or (isinstance(X, (list, tuple)) and len(X) > 0 and all(map(_names_files, X))):
        return _from_files
    if kind.startswith("pyarrow.") and hasattr(X, "get_fragments"):
        return _from_dataset
    if kind == "polars.LazyFrame":
        return _from_lazy
    if kind.startswith("dask.") and hasattr(X, "to_delayed") and hasattr(X, "npartitions"):
        return _from_dask
    return None


def _names_files(item: Any) -> bool:
    """Whether an item of a list is a path or a pattern, and not a text to predict."""
    if isinstance(item, str):
        return item.lower().endswith(SUFFIXES) or (bool(set(WILDCARDS) & set(item)) and not re.search(r"\s", item))
    return isinstance(item, Path)


# Parquet files and pyarrow datasets.


def _from_files(paths: Any) -> Source:
    return _from_dataset(_open(paths))


def _open(paths: Any) -> Any:
    """A dataset of files, of a folder, or of the files that match a pattern, or one of several."""
    if find_spec("pyarrow") is None:
        raise ImportError("Parquet files need pyarrow; pip install 'losslens[parquet]'")
    import pyarrow.dataset as ds
    from pyarrow import ArrowInvalid

    if isinstance(paths, (str, Path)):
        if "://" in str(paths):
            return ds.dataset(str(paths), format="parquet", partitioning="hive")
        if Path(paths).is_dir():
            files = sorted(map(str, Path(paths).rglob("*.parquet")))
            if not files:
                raise FileNotFoundError(f"the folder {paths} holds no file that ends in .parquet")
            return ds.dataset(files, format="parquet", partitioning="hive", partition_base_dir=str(paths))
        paths = [paths]
    paths = [file for path in paths for file in _matching(path)]
    try:
        return ds.dataset(paths, format="parquet", partitioning="hive")
    except ArrowInvalid as error:
        raise ValueError(f"X names files that are not all Parquet files: {', '.join(paths[:3])}") from error


def _matching(path: str | Path) -> list[str]:
    """The files that match a pattern, sorted; a path as it is."""
    if Path(path).exists():
        return [str(path)]
    if not set(WILDCARDS) & set(str(path)):
        raise FileNotFoundError(f"there is no file {path}")
    files = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - the user's pattern, as written
    if not files:
        raise FileNotFoundError(f"no file matches {path}")
    return files


@dataclass(frozen=True, eq=False)
class _Fragment:
    """A piece of a file, and the file's size and time when it was opened."""

    piece: Any  # pyarrow's fragment
    path: str
    stamp: tuple[int, int | None]


@dataclass(frozen=True, eq=False)
class _DatasetReader:
    schema: Any
    as_pandas: bool

    def each(self, parts: Sequence[Part], columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        for fragment, together in _by_place(parts):
            _check_stamp(fragment)
            try:
                yield from self._tables(fragment.piece, together, list(columns))
            except pa.ArrowException as error:
                raise ValueError(f"{together[0].name} could not be read: {error}") from error

    def _tables(self, piece: Any, parts: Sequence[Part], columns: list[str]) -> Iterator[Any]:
        """The rows of parts of a piece; a piece larger than a part is read in batches and never wholly in memory."""
        if len(parts) == 1 and parts[0].skip == 0 and piece.count_rows() == parts[0].rows:
            table = piece.to_table(schema=self.schema, columns=columns, use_threads=False)
            yield table.to_pandas(self_destruct=True) if self.as_pandas else table
            return
        batches = piece.to_batches(
            schema=self.schema, columns=columns, use_threads=False, batch_size=BATCH_ROWS, batch_readahead=1
        )
        for table in _pieces_of(batches, parts):
            yield table.to_pandas() if self.as_pandas else table


def _pieces_of(batches: Iterator[Any], parts: Sequence[Part]) -> Iterator[Any]:
    """The tables of consecutive parts; only one is in memory at a time."""
    import pyarrow as pa

    kept: list[Any] = []
    start, left = 0, deque(parts)
    for batch in batches:
        begin = 0
        while left and begin < batch.num_rows:
            part = left[0]
            low, high = max(part.skip - start, begin), min(part.skip + part.rows - start, batch.num_rows)
            if low < high:
                kept.append(batch.slice(low, high - low))
            if part.skip + part.rows - start > batch.num_rows:
                break
            yield pa.Table.from_batches(kept)
            kept, begin = [], high
            left.popleft()
        start += batch.num_rows
        if not left:
            return
    if left:
        raise ValueError(f"{left[0].name} has fewer rows than it had; {_AGAIN}")


_AGAIN = "it was changed while it was being read; call again when no other process writes to it"


def _check_stamp(fragment: _Fragment) -> None:
    if (now := _stamp(fragment.piece)) is None:
        raise FileNotFoundError(f"{fragment.path} was removed after it was opened; restore it and call again")
    if now != fragment.stamp:
        raise ValueError(f"{fragment.path} is no longer the file that was opened; {_AGAIN}")


def _stamp(piece: Any) -> tuple[int, int | None] | None:
    path = getattr(piece, "path", None)
    if path is None:  # a table in memory
        return (0, None)
    info = piece.filesystem.get_file_info(path)
    return (info.size, info.mtime_ns) if info.is_file else None


def _from_dataset(dataset: Any) -> Source:
    pieces = list(dataset.get_fragments())
    if not pieces:
        raise ValueError("X is a dataset without files; check its path")
    schema = _common_schema(dataset, pieces)
    parts, start = [], 0
    for piece in pieces:
        stamp = _stamp(piece)
        if stamp is None:
            raise FileNotFoundError(f"there is no file {piece.path}")
        path = str(getattr(piece, "path", "a table of the dataset"))
        for some, rows, more in _row_groups(piece):
            if rows:
                parts.append(Part(path + more, start, rows, _Fragment(some, path, stamp)))
            start += rows
    names = tuple(name for name in schema.names if name not in _index_columns(schema))
    return Source(names, tuple(parts), _DatasetReader(schema, find_spec("pandas") is not None))


def _row_groups(piece: Any) -> Iterator[tuple[Any, int, str]]:
    """Pieces of one file: its row groups, small ones joined."""
    groups = getattr(piece, "row_groups", None)
    if not groups:  # not a Parquet file
        yield piece, piece.count_rows(), ""
        return
    chosen: list[int] = []
    rows = 0
    for k, group in enumerate(groups):
        if chosen and rows + group.num_rows > PART_ROWS:
            yield piece.subset(row_group_ids=chosen), rows, _row_group_text(chosen, len(groups))
            chosen, rows = [], 0
        chosen.append(k)
        rows += group.num_rows
    yield piece.subset(row_group_ids=chosen), rows, _row_group_text(chosen, len(groups))


def _row_group_text(chosen: list[int], groups: int) -> str:
    if len(chosen) == groups:
        return ""
    if len(chosen) == 1:
        return f", row group {chosen[0]}"
    return f", row groups {chosen[0]} to {chosen[-1]}"


def _index_columns(schema: Any) -> set[str]:
    """Columns that hold the index of a pandas frame."""
    columns = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name for name in columns if isinstance(name, str)}


def _common_schema(dataset: Any, pieces: list[Any]) -> Any:
    """The common types of all files, which must have the same columns."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    schema = dataset.schema
    names, first = set(schema.names), getattr(pieces[0], "path", "the first")
    for piece in pieces:
        mine = piece.physical_schema
        own = set(mine.names) | set(ds.get_partition_keys(piece.partition_expression))
        path = getattr(piece, "path", "a part")
        if lacks := names - own:
            raise ValueError(f"{path} has no column {min(lacks)!r}, which {first} has; all parts need the same columns")
        if more := own - names:
            raise ValueError(f"{path} has a column {min(more)!r} that {first} lacks; all parts need the same columns")
        try:
            schema = pa.unify_schemas([schema, mine], promote_options="permissive")
        except pa.ArrowException as error:
            raise ValueError(f"{path} has columns of other types than {first}: {error}") from error
    return schema.with_metadata(dataset.schema.metadata)


# polars.


@dataclass(frozen=True, eq=False)
class _LazyReader:
    frame: Any

    def each(self, parts: Sequence[Part], columns: Sequence[str]) -> Iterator[Any]:
        for part in parts:
            rows = self.frame.select(list(columns)).slice(part.skip, part.rows).collect()
            if len(rows) != part.rows:
                raise ValueError(f"{part.name} has {len(rows):,} rows, but had {part.rows:,}; {_AGAIN}")
            yield rows


def _from_lazy(frame: Any) -> Source:
    import polars as pl

    names = tuple(frame.collect_schema().names())
    n = int(frame.select(pl.len()).collect().item())
    return Source(names, (Part("the lazy frame", 0, n, None),), _LazyReader(frame))


# dask.


@dataclass(frozen=True, eq=False)
class _DaskReader:
    def each(self, parts: Sequence[Part], columns: Sequence[str]) -> Iterator[Any]:
        for partition, some in _by_place(parts):
            # In this thread: a task that waits for other tasks of its cluster would block a worker.
            frame = partition.compute(scheduler="synchronous")
            for part in some:
                yield self._of(frame, part, columns)

    def _of(self, frame: Any, part: Part, columns: Sequence[str]) -> Any:
        if list(frame.columns)[: len(part.where.columns)] != list(part.where.columns):
            raise ValueError(f"{part.name} has the columns {list(frame.columns)}, not {list(part.where.columns)}")
        names = list(map(str, frame.columns))  # labels may be numbers
        frame = frame.iloc[part.skip : part.skip + part.rows, [names.index(name) for name in columns]]
        if len(frame) != part.rows:
            raise ValueError(f"{part.name} has {len(frame):,} rows, but had {part.rows:,}; {_AGAIN}")
        return frame.set_axis(list(columns), axis=1).reset_index(drop=True)


def _from_dask(frame: Any) -> Source:
    if frame.ndim == 1:
        frame = frame.to_frame()
    sizes = [int(size) for size in frame.map_partitions(len, meta=(None, int)).compute()]
    parts, start = [], 0
    for k, rows in enumerate(sizes):
        if rows:
            parts.append(Part(f"partition {k}", start, rows, frame.partitions[k]))
        start += rows
    return Source(tuple(map(str, frame.columns)), tuple(parts), _DaskReader())
