"""Rows of a part in memory: the table that the model sees, the targets, the weights."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.losses import Loss
from losslens.models import Model
from losslens.progress import Tick, silent
from losslens.tables import checks
from losslens.tables.frames import Table, as_columns, frame_table
from losslens.tables.sample import Sample
from losslens.tables.sources import Part, Reader, Source, in_one_place
from losslens.typing import Floats, Indices

MOST_JOBS = 1000  # each returns one result, so that a million parts don't return a million results


@dataclass(frozen=True, eq=False)
class Job:
    """Parts that a worker reads one after the other, with the targets of their rows if y is no column of the source."""

    parts: tuple[Part, ...]
    y: NDArray[Any] | None = None  # None if it is a column of the source
    checksums: tuple[int, ...] = ()  # of its parts in the first pass

    @property
    def name(self) -> str:
        """The name of a single part, for error messages; empty with several, which are named when they are read."""
        return self.parts[0].name if len(self.parts) == 1 else ""

    @property
    def start(self) -> int:
        """The position of its first row in the full data."""
        return self.parts[0].start

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(part.rows for part in self.parts)

    def each(self) -> Iterator[Job]:
        """One job per part."""
        start = 0
        for k, part in enumerate(self.parts):
            yield Job((part,), None if self.y is None else self.y[start : start + part.rows], self.checksums[k : k + 1])
            start += part.rows


def cut_into_jobs(source: Source, y: NDArray[Any] | None) -> list[Job]:
    """At most `MOST_JOBS` jobs that read all parts of a source: the same for any number of workers."""
    places = in_one_place(source.parts)
    size = ceil(len(places) / MOST_JOBS)
    cut = []
    for k in range(0, len(places), size):
        parts = tuple(part for some in places[k : k + size] for part in some)
        start, stop = parts[0].start, parts[-1].start + parts[-1].rows
        cut.append(Job(parts, None if y is None else y[start:stop]))
    return cut


@dataclass(frozen=True, eq=False)
class PartRows:
    """A part in memory."""

    part: Part
    table: Table
    y: NDArray[Any] | None
    weight: Floats  # as given, not normalised
    checksum: int


@dataclass(frozen=True, eq=False)
class Data:
    """The columns to read from a source, and their types; small enough to send to workers."""

    reader: Reader
    columns: tuple[str, ...]
    target: str | None
    weight: str | None
    as_array: bool = False  # the model was fitted on arrays
    kinds: Mapping[str, Any] | None = None  # types common to all parts; None before the first pass

    def rows(self, job: Job, tick: Tick = silent) -> Iterator[PartRows]:
        """The rows of a job, part by part; a part that changed since the first pass is an error."""
        loaded = self.reader.each(job.parts, self.names)
        for one in job.each():
            rows = self._rows(one.parts[0], next(loaded), one.y)
            if one.checksums and rows.checksum != one.checksums[0]:
                raise ValueError(
                    f"{one.name} holds other values than in the first pass: it was changed while it was being read, "
                    "or is generated anew at each access; call again on files that are not being written"
                )
            yield rows
            tick(one.rows)

    @property
    def names(self) -> list[str]:
        """The names of the columns to read: those of the table, the target and the weights."""
        more = [name for name in (self.target, self.weight) if name is not None and name not in self.columns]
        return [*self.columns, *dict.fromkeys(more)]

    def _rows(self, part: Part, native: Any, y: NDArray[Any] | None) -> PartRows:
        frame = frame_table(native)
        if self.target is not None:
            y = frame.column(frame.names.index(self.target)).array
        weight = np.ones(part.rows) if self.weight is None else self._weights(frame, part)
        table = as_columns(frame, self.columns, self.kinds, as_array=self.as_array)
        return PartRows(part, table, y, weight, _checksum(table, y, weight))

    def _weights(self, frame: Table, part: Part) -> Floats:
        assert self.weight is not None
        weight = np.asarray(frame.column(frame.names.index(self.weight)).array)
        if weight.dtype.kind not in "biuf" or not np.isfinite(weight.astype(float)).all() or weight.min() < 0:
            raise ValueError(f"{part.name}: sample_weight={self.weight!r} must hold finite numbers >= 0")
        weight = weight.astype(float)
        some, bound = weight[weight > 0], checks.WEIGHT_RANGE**0.5
        if len(some) and not 1 / bound <= some.min() <= some.max() <= bound:
            raise ValueError(
                f"{part.name}: sample_weight={self.weight!r} holds numbers from {some.min():g} to {some.max():g}; "
                f"scale them, so that they are between {1 / bound:g} and {bound:g}, or 0"
            )
        return weight


def _checksum(table: Table, y: NDArray[Any] | None, weight: Floats) -> int:
    """The checksum of all numeric columns."""
    checksum = 0
    for array in (*(table.column(j).array for j in range(len(table.names))), y, weight):
        if array is not None and array.dtype.kind in "biufmM":
            numbers = array.astype(np.float64) if array.dtype.kind in "biuf" else array.view(np.int64)
            checksum = zlib.crc32(np.ascontiguousarray(numbers).tobytes(), checksum)
    return checksum


def part_sample(rows: PartRows, model: Model, loss: Loss | None, classes: NDArray[Any] | None, mass: float) -> Sample:
    """The rows of a part as a sample: weights as shares of the total, y as the loss reads it."""
    y: NDArray[Any] | None = None
    if loss is not None and rows.y is not None:
        y = checks.numbers(rows.y, loss) if classes is None else checks.class_positions(rows.y, classes, model.name)
    return Sample(weight=rows.weight / mass, prediction=np.empty(0), y=y, classes=classes)


def kept_in(kept: Indices, part: Part) -> Indices:
    """Which of the kept rows are in a part, as positions in it."""
    low, high = np.searchsorted(kept, [part.start, part.start + part.rows])
    return np.asarray(kept[low:high] - part.start)
