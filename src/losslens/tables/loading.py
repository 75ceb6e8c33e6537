"""Data in files and lazy frames: the roles of their columns, and whether they are loaded or read in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.arrays import plain_array
from losslens.tables.features import fitted_names, unknown_feature
from losslens.tables.frames import Table, as_columns, frame_table
from losslens.tables.leakage import target_among
from losslens.tables.sources import Part, Source, as_source, in_one_place
from losslens.text import size_in_words
from losslens.typing import Indices
from losslens.workers import active, warn_once

HEAD = 10_000  # first rows, from which types and sizes are read
FEWEST_ROWS = 100  # of a sample, however small the memory
SHARE = 8  # data are loaded if they take at most 1/8 of the memory: computing needs the rest


@dataclass(frozen=True, eq=False)
class Opened:
    """A source, and the roles of its columns."""

    source: Source
    columns: tuple[str, ...]  # the model's input
    target: str | None  # y as a column of the source
    y: NDArray[Any] | None  # or as an array, one value per row
    weight: str | None
    head: Table  # the first rows, all columns
    as_array: bool = False  # the model was fitted on arrays

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.source.n

    @property
    def size(self) -> int:
        """Approximate bytes of the columns in memory."""
        return self.n * self.head.row_bytes

    def fits(self, memory: int) -> bool:
        """Whether the data may be loaded."""
        return self.size * SHARE <= memory

    def load(self, rows: Indices | None = None) -> tuple[Any, Any, Any]:
        """X, y and the weights in memory, of all rows or of those at these positions."""
        more = [name for name in (self.target, self.weight) if name is not None and name not in self.columns]
        source = self.source if rows is None else self.source.cut(HEAD)
        table = frame_table(source.in_memory([*self.columns, *dict.fromkeys(more)], rows))
        y = self.y if self.y is None or rows is None else self.y[rows]

        def column(name: str | None) -> Any:
            return None if name is None else table.column(table.names.index(name)).array

        X = as_columns(table, self.columns, None, as_array=self.as_array)
        return X if self.as_array else X.native, y if self.target is None else column(self.target), column(self.weight)

    def sample(self, memory: int, entropy: int) -> Indices:
        """The positions of random rows, as many as may be loaded, or of all."""
        fit = max(FEWEST_ROWS, memory // (SHARE * self.head.row_bytes))
        if fit >= self.n:
            return np.arange(self.n)
        return np.sort(np.random.default_rng([entropy, self.n]).choice(self.n, fit, replace=False))


def opened(model: Any, source: Source, y: Any, sample_weight: Any) -> Opened:
    """A source, with columns, target and weights checked."""
    if source.n < 2:
        raise ValueError(f"X has {'no rows' if source.n == 0 else 'one row'}; replacing values needs at least two rows")
    target = y if isinstance(y, str) and y in source.names else None
    if isinstance(y, (list, tuple)) and y and all(isinstance(name, str) and name in source.names for name in y):
        raise ValueError(f"for data in files y is one column, but {', '.join(y)} were named; pass tables in memory")
    if sample_weight is not None and not (isinstance(sample_weight, str) and sample_weight in source.names):
        hint = unknown_feature(sample_weight, source.names) if isinstance(sample_weight, str) else "name the column"
        raise ValueError(f"for data in files sample_weight must be the name of a column: {hint}")
    columns = _columns(model, source, target, sample_weight)
    if target in columns:
        warn_once(target_among(str(target), "is also y"))
    vector = None if y is None or target is not None else _vector(y, source)
    first = source.cut(HEAD).parts[0]
    head = frame_table(source.load(Part(first.name, 0, first.rows, first.where, first.skip), source.names))
    as_array = _fitted_on_arrays(getattr(model, "native", model))
    return Opened(source, columns, target, vector, sample_weight, head, as_array)


def load(model: Any, source: Source, y: Any, sample_weight: Any, memory: int) -> tuple[Any, Any, Any]:
    """X, y and the weights, loaded; ValueError if they don't fit into memory."""
    data = opened(model, source, y, sample_weight)
    if not data.fits(memory):
        needs = size_in_words(SHARE * data.size)
        raise ValueError(
            f"this needs all rows in memory, but X has {data.n:,} rows of about {data.head.row_bytes} bytes: pass a "
            f"sample of the rows, or memory='{needs}'. feature_importance, feature_effect and shapley_importance "
            "can read data in parts"
        )
    return data.load()


def streams(data: Opened, memory: int) -> bool:
    """Whether data are read in parts: they don't fit into memory, or the workers of a cluster can each read some."""
    return not data.fits(memory) or (active() is not None and len(in_one_place(data.source.parts)) > 1)


def _columns(model: Any, source: Source, target: str | None, weight: str | None) -> tuple[str, ...]:
    """The columns that the model was fitted on, if it has their names; else all but y and the weights."""
    names = fitted_names(model) or ()
    missing = [name for name in names if name not in source.names]
    if missing and hasattr(getattr(model, "native", model), "feature_names_in_"):  # a booster may make names up
        raise ValueError(f"X has no column {missing[0]!r}, which the model was fitted on")
    if names and not missing:
        return names
    columns = tuple(name for name in source.names if name not in (target, weight))
    if not columns:
        raise ValueError("X has no columns")
    return columns


def _fitted_on_arrays(native: Any) -> bool:
    """Whether a scikit-learn estimator was fitted on an array: it has a number of columns and no names."""
    of_sklearn = any(cls.__module__.partition(".")[0] == "sklearn" for cls in type(native).__mro__)
    return hasattr(native, "n_features_in_") and not hasattr(native, "feature_names_in_") and of_sklearn


def _vector(y: Any, source: Source) -> NDArray[Any]:
    """One value per row: from memory, or read from a source of one column."""
    if isinstance(y, str) and not _looks_like_a_path(y):
        raise ValueError(f"y={y!r} is not a column of X. " + unknown_feature(y, source.names))
    other = as_source(y)
    if other is None:
        array = plain_array(y, "y")
        array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
        if array.ndim > 1:
            raise ValueError(f"for data in files y is one column, got shape {array.shape}; pass tables in memory")
    else:
        if len(other.names) != 1:
            raise ValueError(f"y needs one column; it has {len(other.names)}: {', '.join(other.names[:10])}")
        parts = [frame_table(other.load(part, other.names)).column(0).array for part in other.parts]
        array = np.concatenate(parts)
    if array.ndim != 1 or len(array) != source.n:
        raise ValueError(f"y has {len(array) if array.ndim else 0:,} values, but X has {source.n:,} rows")
    return array


def _looks_like_a_path(text: str) -> bool:
    return text.endswith(".parquet") or any(sign in text for sign in "/\\*")
