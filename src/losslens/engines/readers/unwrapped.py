"""The last estimator of a model, and how the columns of its input come from those of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Ask
from losslens.engines.base import Declined
from losslens.tables.columns import Column
from losslens.tables.frames import Batch, Edit, Table
from losslens.typing import Floats, Indices

Image: TypeAlias = tuple[Indices, Floats]

CHUNK = 10_000  # rows transformed at a time, fewer if they are wide
CHUNK_VALUES = 2 * 10**7  # values in such a chunk
MAX_VALUES = 10**8  # values of all images of a call: a column of distinct names, one-hot encoded, would fill any memory


@dataclass(frozen=True, eq=False)
class UnwrappedModel:
    """A model's last estimator, and how the columns of its input come from those of the user's table.

    Column c of the estimator's matrix is computed from column ``source[c]`` of the table and from no other. `transform`
    computes the matrix from a table; it is None if the estimator gets the table itself. A step may overwrite its input
    (``copy=False``), so pass it a batch, never the user's table.
    """

    estimator: Any
    source: Indices  # (C,)
    transform: Callable[[Any], Any] | None

    def image(self, table: Table, j: int, first: Indices, column: Column | None = None) -> Image:
        """The estimator's columns that come from column j, and their values at ``column[first]``.

        `column` defaults to the table's column j; one with the user's grid values appended can be given instead.
        """
        return self.images(table, {j: (column or table.column(j), first)})[j]

    def image_of(self, table: Table, ask: Ask) -> Image:
        """The estimator's columns that come from those of an ask, and their values at the ask's values."""
        images = [
            self.image(table, j, index, source)
            for j, source, index in zip(ask.columns, ask.sources, ask.index, strict=True)
        ]
        return np.concatenate([at for at, _ in images]), np.concatenate([values for _, values in images], axis=1)

    def matrix(self, table: Table) -> Floats:
        """The estimator's input for all rows."""
        if self.transform is not None:
            parts = [part.toarray() if hasattr(part, "toarray") else part for part in self.chunks(table)]
            return np.concatenate(parts).astype(np.float64, copy=False)
        array = Batch(table).source
        if array is not None:
            return np.asarray(array, np.float64) if array.dtype.kind in "biuf" else as_numbers(array)
        return np.stack([as_numbers(table.column(j).array) for j in range(len(table.names))], axis=1)

    def gives_single(self, table: Table) -> bool:
        """Whether the estimator gets float32: with coefficients of that type it adds up in it."""
        rows = Batch(table).fill(np.zeros(1, np.intp), [])
        given = rows if self.transform is None else self.transform(rows)
        return is_single(given if hasattr(given, "tocsr") else np.asarray(given))

    def chunks(self, table: Table) -> Iterator[Any]:
        """The estimator's input, some rows at a time; sparse if the steps return it so."""
        assert self.transform is not None
        batch = Batch(table)
        for start in range(0, table.n, CHUNK):
            part = self.transform(batch.fill(np.arange(start, min(start + CHUNK, table.n)), []))
            yield part.tocsr() if hasattr(part, "tocsr") else as_numbers(np.asarray(part))

    def images(self, table: Table, columns: Mapping[int, tuple[Column, Indices]]) -> dict[int, Image]:
        """Images of several columns of the table, {j: (column, first)}, in one pass through the steps.

        Declined if the images hold more than `MAX_VALUES` values.
        """
        if self.transform is None:
            return {
                j: (np.array([j], np.intp), as_numbers(column.array[first])[:, None])
                for j, (column, first) in columns.items()
            }
        place = {j: np.flatnonzero(self.source == j) for j in columns}
        if sum(len(first) * len(place[j]) for j, (_, first) in columns.items()) > MAX_VALUES:
            raise Declined("its steps turn one column into too many columns")
        values = {j: np.empty((len(first), len(place[j]))) for j, (_, first) in columns.items()}
        used = {j: column_and_first for j, column_and_first in columns.items() if len(place[j])}
        size = max((len(first) for _, first in used.values()), default=0)
        chunk = max(1, min(CHUNK, CHUNK_VALUES // max(len(self.source), len(table.names))))
        batch = Batch(table)
        for start in range(0, size, chunk):
            # No column depends on another, so all of them can take their next values at once.
            edits = [
                Edit(0, len(first[start : start + chunk]), j, column, first[start : start + chunk])
                for j, (column, first) in used.items()
                if start < len(first)
            ]
            rows = np.zeros(min(chunk, size - start), np.intp)
            matrix = _by_column(self.transform(batch.fill(rows, edits)))
            for edit in edits:
                values[edit.column][start : start + edit.stop] = _columns(matrix, place[edit.column])[: edit.stop]
        return {j: (place[j], values[j]) for j in columns}


def is_single(array: Any) -> bool:
    """Whether its numbers are float32."""
    return bool(array.dtype == np.float32)


def _by_column(matrix: Any) -> Any:
    """Output of a step as an array, or as a sparse matrix with fast access to columns."""
    return matrix.tocsc() if hasattr(matrix, "tocsc") else np.asarray(matrix)


def _columns(matrix: Any, place: Indices) -> Floats:
    return as_numbers(dense(matrix[:, place]))


def dense(matrix: Any) -> NDArray[Any]:
    """Output of a step as an array."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def as_numbers(array: NDArray[Any]) -> Floats:
    """A float64 copy, with NaN for missing values; text is declined."""
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    # NumPy would turn the string '1' into a number.
    if array.dtype.kind == "O" and not any(isinstance(value, (str, bytes)) for value in array.flat):
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise Declined(f"its estimator gets values that are not numbers ({error})") from error
    raise Declined(f"its estimator gets a column of text or dates ({array.dtype})")
