"""What a call on data larger than memory takes: passes and predictions, from metadata and the first rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from losslens.engines import rates
from losslens.engines.choice import CHECKED
from losslens.passes.parts.reading import Job
from losslens.passes.parts.results import MOST_KEPT, Summed
from losslens.passes.parts.stream import Stream
from losslens.passes.rehearsal import rehearse
from losslens.results.plan import Plan
from losslens.tables.frames import Table
from losslens.tables.loading import HEAD, Opened
from losslens.tables.sources import Part
from losslens.workers import Elsewhere, Serial

PARTS_IN_MEMORY = 6  # memory of a worker, as a multiple of the largest part
FIRST = 200  # rows of the run that shows which engine supports the data


@dataclass(frozen=True, eq=False)
class _Head:
    """Reads the first rows, which are in memory; repeats them where they are too few."""

    table: Table

    def each(self, parts: Sequence[Part], columns: Sequence[str]) -> Iterator[Any]:
        return (self.table.rows(np.arange(part.skip, part.skip + part.rows) % self.table.n) for part in parts)


def plan_stream(stream: Stream, data: Opened, run: Callable[[Stream], Any]) -> Plan:
    """The plan of a checked call that `run` computes; `Declined` if no engine reads the data in parts."""
    n, k, cluster = stream.n, len(stream.features), stream.workers if isinstance(stream.workers, Elsewhere) else None
    size = max(part.rows for job in stream.jobs for part in job.parts)
    on_head = partial(_on_head, stream, data, run, size)
    first = on_head(min(FIRST, n))()  # the engine may decline these data
    kept = min(n, MOST_KEPT) * (16 * k + 64)  # bytes of the rows that are kept
    of_shares = not isinstance(first, Summed)
    passes = 3 if of_shares and stream.read.donor_sums == "patterns" else 2  # 3: Shapley values of trees
    seconds = rehearse(on_head, n) + passes * _reading(stream, data)
    if cluster is not None:
        seconds = passes * rates.on_a_cluster(seconds / passes, len(stream.jobs), cluster.threads, 8 * CHECKED)
    return Plan(
        features=tuple(feature.name for feature in stream.features), designs=("All()",) * k, n=n,
        engines=(first.engine,) * k, predictions=(0,) * k, parts=sum(len(job.parts) for job in stream.jobs),
        passes=passes, n_predictions=CHECKED, most=CHECKED, seconds=seconds,
        memory=PARTS_IN_MEMORY * size * data.head.row_bytes + kept,
        workers=0 if cluster is None else cluster.threads,
        backend="pandas" if stream.head.backend == "numpy" else stream.head.backend,
    )  # fmt: skip


def _on_head(stream: Stream, data: Opened, run: Callable[[Stream], Any], size: int, rows: int) -> Callable[[], Any]:
    """The call on the first rows, in parts; their weights may all be zero, and don't matter here."""
    y = None if data.y is None else data.y[np.arange(rows) % data.head.n]
    cut = [Part("the first rows", start, min(size, rows - start), None) for start in range(0, rows, size)]
    reader = replace(stream.data, reader=_Head(data.head), weight=None)
    few = replace(stream, data=reader, jobs=[Job(tuple(cut), y)], n=rows, workers=Serial(), progress=False)
    return partial(run, few)


def _reading(stream: Stream, data: Opened) -> float:
    """Seconds to read all data once, from reading the first part, or the first rows of a large one."""
    first = min(stream.jobs[0].parts[0], data.source.cut(HEAD).parts[0], key=lambda part: part.rows)
    started = time.perf_counter()
    data.source.load(first, stream.data.names)
    return (time.perf_counter() - started) * stream.n / first.rows
