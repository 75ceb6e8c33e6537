"""The cost of a call on data larger than memory, from metadata and the first rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from losslens.engines import rates
from losslens.engines.base import Declined
from losslens.engines.blackbox import BlackBox, CallTime
from losslens.engines.choice import CHECKED, batch_rows
from losslens.passes.cost import TRIED_SECONDS, allowed
from losslens.passes.parts import additive, blackbox, trees
from losslens.passes.parts.counting import MOST_VALUES, FirstPass, Quantiles, first_pass
from losslens.passes.parts.kept_rows import MOST_KEPT
from losslens.passes.parts.reading import Stretch
from losslens.passes.parts.stream import Stream
from losslens.progress import silent
from losslens.results.plan import Plan
from losslens.tables.frames import Table
from losslens.tables.loading import HEAD, Opened
from losslens.tables.sources import BATCH_ROWS, Part, Source
from losslens.workers import Cluster, Serial, packed_size

PROBED = 5000  # most rows of a timed part
TREE_ROWS = 10**6  # most rows times trees of a timed part
PARTS_IN_MEMORY = 6  # memory of a worker, as a multiple of the largest part
TRIED_COLUMNS = 5  # columns whose number of donors is tried
FEW_BYTES = 1 << 22  # memory of that trial: few rows are kept
BIN_BYTES = 64  # returned by a worker for a value of a grid

Run = Callable[[Stream], Any]


def plan_stream(stream: Stream, data: Opened, run: Run | None = None) -> Plan:
    """The cost of a checked call; `run` computes it, if not one of the engines for importances."""
    if stream.read is not None:
        try:
            trial = TRIALS[stream.read.kind] if run is None else _sums
            return _exact(stream, data, trial(stream, data, run), run)
        except Declined as declined:
            stream = replace(stream, read=None, declined=str(declined))
    return _box(stream, data)


# Exact engines: the run itself, on the first rows.


def _exact(stream: Stream, data: Opened, timed: tuple[float, float, int], run: Run | None) -> Plan:
    fixed, each, rows = timed
    games = run is not None and stream.read.donor_sums == "patterns"
    passes = 3 if games else 2
    seconds = each * stream.n / rows + _reading(stream, data, passes)
    tasks, k = passes * len(stream.stretches), len(stream.features)
    grids = sum(min(_values(data.head, data.columns[j], MOST_VALUES), additive.BINS) for j in stream.feature_columns)
    kept = min(stream.n, MOST_KEPT) * (16 * k + 64)
    shared = 0 if (cluster := _cluster(stream)) is None else packed_size((stream.read, stream.unwrapped), cluster)
    sent = 2 * shared + (0 if data.y is None else 16 * stream.n)
    return _plan(
        stream, data, stream.read.kind, designs=("All()",) * k, predictions=(0,) * k, passes=passes, least=CHECKED,
        most=CHECKED, travels=sent + tasks * grids * BIN_BYTES + kept, memory=kept, scratch=0,
        fixed=fixed, seconds=seconds, tasks=tasks,
    )  # fmt: skip


def _trees(stream: Stream, data: Opened, run: Run | None) -> tuple[float, float, int]:
    """Fixed seconds of a run, seconds of a part, and its rows: both passes over some of the first rows."""
    head = _of_head(stream, data, _probed(stream), 1)
    arguments, bins = trees.counting(head)
    counted = first_pass(arguments, head.stretches, Serial(), progress=False)
    started = time.thread_time()
    work = trees.bound(head, counted, bins)
    fixed = time.thread_time() - started
    # A run keeps few of its rows; of these first rows it would keep most.
    work = replace(work, kept=np.empty(0, np.intp), curves=np.empty(0, np.intp))
    trees.evaluate(work, _of_head(stream, data, max(2, head.n // 50), 1).stretches[0], silent)  # compiles
    count = _timed(lambda few: first_pass(arguments, few.stretches, Serial(), progress=False), head)
    return fixed, count + _timed(lambda few: trees.evaluate(work, few.stretches[0], silent), head), head.n


def _sums(stream: Stream, data: Opened, run: Run | None) -> tuple[float, float, int]:
    """The same for linear models and for games, from a run on one part and a run on two parts."""
    run, rows = run or additive.run, _probed(stream)
    run(_of_head(stream, data, max(2, rows // 50), 1))  # compiles
    one, two = (min(_timed(run, _of_head(stream, data, rows, parts)) for _ in range(2)) for parts in (1, 2))
    each = two - one if two > one else two / 2
    return max(one - each, 0.0), each, rows


TRIALS = {"trees": _trees, "additive": _sums}


def _probed(stream: Stream) -> int:
    """Rows of a timed part."""
    return max(2, min(int(np.clip(TREE_ROWS // max(1, stream.read.terms), 500, PROBED)), _largest(stream)))


def _largest(stream: Stream) -> int:
    """Rows of the largest part."""
    return max(part.rows for stretch in stream.stretches for part in stretch.parts)


def _timed(run: Run, stream: Stream) -> float:
    """Seconds of processor time of this thread."""
    started = time.thread_time()
    run(stream)
    return time.thread_time() - started


@dataclass(frozen=True, eq=False)
class _Head:
    """Reads the first rows, which are in memory; repeats them where they are too few."""

    table: Table

    def load(self, part: Part, columns: Sequence[str]) -> Any:
        return self.table.rows(np.arange(part.skip, part.skip + part.rows) % self.table.n)

    def each(self, parts: Sequence[Part], columns: Sequence[str]) -> Iterator[Any]:
        return (self.load(part, columns) for part in parts)


def _of_head(stream: Stream, data: Opened, rows: int, parts: int) -> Stream:
    """The same call on some of the first rows; their weights may all be zero, and don't matter here."""
    pieces = tuple(Part("the first rows", k * rows, rows, None, k * rows) for k in range(parts))
    y = None if data.y is None else data.y[np.arange(parts * rows) % data.head.n]
    return replace(
        stream, data=replace(stream.data, reader=_Head(data.head), weight=None), stretches=[Stretch(pieces, y)],
        n=parts * rows, workers=Serial(), progress=False,
    )  # fmt: skip


# Black boxes: one timed batch.


def _box(stream: Stream, data: Opened) -> Plan:
    values = {j: _values(data.head, data.columns[j], MOST_VALUES) for j in stream.feature_columns}
    wide = {j for j, many in values.items() if many > MOST_VALUES}
    donors = {j: _donors(stream, many, j in wide) for j, many in values.items()}
    each = [feature.columns[0] for feature in stream.features]
    n, k = stream.n, len(donors)
    grid = sum(blackbox.BINS if j in wide else many for j, many in values.items())
    kept = min(n, int(np.clip(stream.memory // 8 // (24 * grid), blackbox.FEWEST_CURVES, blackbox.CURVES)))
    least, most = (sum(d[end] for d in donors.values()) for end in (0, 1))
    turns, more_turns = (_turns(stream, [d[end] for d in donors.values()]) for end in (0, 1))
    model, rows_a_call = _timed_model(stream)
    needed = least if least == most else _needed(stream, data, donors, model)
    passes = _turns(stream, [ceil(d[0] * needed / least) for d in donors.values()])
    counted, predicted = _counted(stream, data), n * (passes + needed) + kept * grid
    parts = sum(len(s.parts) for s in stream.stretches)
    seconds = (
        model.seconds(ceil(predicted / rows_a_call), predicted)
        + n * needed * (rates.CELL + counted)
        + n * k * 3 * counted
        + _reading(stream, data, 1)
        + _reading(stream, data, 1 + passes, apart=True)
        + parts * (2 + passes) * _converted(stream, data)
    )
    store = 8 * n * (k + (data.weight is not None))
    cluster = _cluster(stream)
    shared = 0 if cluster is None else 3 * packed_size(stream.model.responder(stream.response), cluster)
    back = store + len(stream.stretches) * grid * BIN_BYTES + turns * parts * grid * BIN_BYTES
    return _plan(
        stream, data, "blackbox", designs=tuple(_design(*donors[j], values[j], j in wide) for j in each),
        predictions=tuple(n * donors[j][0] for j in each), passes=2 + turns, least=n * (turns + least) + kept * grid,
        most=n * (more_turns + most) + kept * grid, travels=shared + 8 * n * least + back,
        memory=min(store, stream.memory // 4) + kept * 24 * grid, scratch=max(0, store - stream.memory // 4),
        fixed=rates.DONOR_VALUE * n * needed, seconds=seconds, tasks=len(stream.stretches) + (1 + turns) * parts,
    )  # fmt: skip


def _donors(stream: Stream, values: int, wide: bool) -> tuple[int, int]:
    """The fewest and the most predictions that a row needs for one column."""
    if stream.design is not None and stream.design.m is not None:
        stream.design.check(stream.n)
        return stream.design.m, stream.design.m
    if stream.design is not None:
        if wide:
            raise ValueError(
                f"donors='all' would predict {stream.n:,} rows at every value of a column, and no exact engine "
                "supports the model; use donors='auto' or Latin(m)"
            )
        return values, values
    fewest, most = blackbox.FEWEST_DONORS, min(blackbox.MOST_DONORS, stream.n)
    if not wide and values <= fewest + 1:
        return values, values
    return fewest, most if wide else min(most, values)


def _needed(stream: Stream, data: Opened, donors: Mapping[int, tuple[int, int]], model: CallTime) -> int:
    """Donors of all columns together that ``"auto"`` will need, from some columns of the first rows.

    The fewest, where the model is too slow to try it.
    """
    fewest = sum(low for low, _ in donors.values())
    features = stream.features[:: ceil(len(stream.features) / TRIED_COLUMNS)]
    cells = len(features) * blackbox.BINS * blackbox.FEWEST_CURVES
    if model.seconds(len(features) * (1 + cells // PROBED), cells) > allowed(TRIED_SECONDS):
        return fewest
    head = _of_head(stream, data, min(PROBED, data.head.n), 1)
    found = blackbox.donors_needed(replace(head, features=features, memory=min(stream.memory, FEW_BYTES)))
    tried = sum(min(max(found[j], donors[j][0]), donors[j][1]) for j in found)
    return int(fewest * tried / sum(donors[j][0] for j in found))


def _turns(stream: Stream, donors: Sequence[int]) -> int:
    """How often a part is read and predicted: as many columns at a time as memory allows."""
    limit, turns, size = stream.memory // 32, 1, 0
    for many in donors:
        needs = 16 * _largest(stream) * many
        turns, size = (turns + 1, needs) if size and size + needs > limit else (turns, size + needs)
    return turns


def _design(fewest: int, most: int, values: int, wide: bool) -> str:
    if not wide and fewest == values:
        return "All()"
    return f"Latin({fewest})" if fewest == most else f"Latin({fewest} to {most})"


def _timed_model(stream: Stream) -> tuple[CallTime, int]:
    """The time of a call of the model, and its rows."""
    size = batch_rows(stream.model.native, stream.head, stream.memory)
    return BlackBox(stream.head, stream.model.responder(stream.response), size).timed(size), size


def _counted(stream: Stream, data: Opened) -> float:
    """Seconds to count a value."""
    bins = Quantiles.of_rows([stream.head], stream.feature_columns, blackbox.BINS)
    head = _of_head(stream, data, PROBED, 1)
    arguments = FirstPass(head.data, stream.feature_columns, bins, labels=False)
    seconds = _timed(lambda few: first_pass(arguments, few.stretches, Serial(), progress=False), head)
    return seconds / head.n / len(stream.feature_columns)


def _converted(stream: Stream, data: Opened) -> float:
    """Seconds to convert and check the columns of a part that has been read."""
    head = _of_head(stream, data, max(2, min(PROBED, _largest(stream))), 1)
    return min(_timed(lambda few: list(few.data.rows(few.stretches[0])), head) for _ in range(2))


# Shared by both.


def _plan(
    stream: Stream, data: Opened, engine: str, *, passes: int, least: int, most: int, memory: int, fixed: float,
    seconds: float, tasks: int, travels: int, **named: Any,
) -> Plan:  # fmt: skip
    cluster = _cluster(stream)
    threads = 0 if cluster is None else cluster.threads
    if threads:
        seconds = passes * rates.on_a_cluster(seconds / passes, max(1, tasks // passes), threads, travels // passes)
    part = _largest(stream) * data.head.row_bytes
    return Plan(
        features=tuple(feature.name for feature in stream.features), engines=(engine,) * len(stream.features),
        n=stream.n, parts=sum(len(s.parts) for s in stream.stretches), passes=passes,
        read=passes * stored(data.source, stream.data), n_predictions=least, most=most, workers=threads,
        travels=travels if threads else 0, memory=PARTS_IN_MEMORY * part + memory, seconds=fixed + seconds,
        backend="pandas" if stream.head.backend == "numpy" else stream.head.backend, **named,
    )  # fmt: skip


def _cluster(stream: Stream) -> Cluster | None:
    return stream.workers if isinstance(stream.workers, Cluster) else None


def _values(head: Table, name: str, most: int) -> int:
    """Distinct values of a column: of the first rows; where most of these differ, more than `most`."""
    many = len(head.column(head.names.index(name)).distinct)
    return most + 1 if many > min(most, head.n // 2) and many > 64 else many


def _reading(stream: Stream, data: Opened, passes: int, apart: bool = False) -> float:
    """Seconds to read all data, from reading the first rows twice (they may be in the system's cache by now)."""
    first = data.source.cut(HEAD).parts[0]
    rows = {id(part.where): part.rows for part in data.source.parts}
    times = []
    for _ in range(2):
        started = time.perf_counter()
        data.source.load(first, stream.data.wanted)
        times.append(time.perf_counter() - started)
    second = min(times) / decoded(first, rows[id(first.where)])
    if not apart:  # consecutive parts of one file are read at once
        return passes * second * stream.n
    every = (decoded(part, rows[id(part.where)]) for s in stream.stretches for part in s.parts)
    return passes * second * sum(every)


def decoded(part: Part, of: int) -> int:
    """Rows decoded to read a part of a place of `of` rows: of Parquet files whole batches, of dask's partitions all."""
    if part.where is None:  # lazy frames skip the rows before
        return part.rows
    if not hasattr(part.where, "stamp"):
        return of
    return min(of, ceil((part.skip + part.rows) / BATCH_ROWS) * BATCH_ROWS)


def stored(source: Source, data: Any) -> int:
    """About the stored bytes of the columns to read; their size in memory, where that is unknown."""
    sizes = {part.where.path: part.where.stamp[0] for part in source.parts if hasattr(part.where, "stamp")}
    if not sum(sizes.values()):
        return source.n * 8 * len(data.wanted)
    metadata = getattr(source.parts[0].where.piece, "metadata", None)
    if metadata is None:
        return sum(sizes.values())
    group = metadata.row_group(0)
    columns = [group.column(c) for c in range(group.num_columns)]
    share = sum(c.total_compressed_size for c in columns if c.path_in_schema.partition(".")[0] in data.wanted)
    return int(sum(sizes.values()) * share / max(1, sum(c.total_compressed_size for c in columns)))
