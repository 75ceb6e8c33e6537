"""Any model on data larger than memory: Latin donors over all rows.

Three passes: count the values of the columns; gather these columns and some complete rows, which are kept; then
predict. The kept rows get every value of the grid. They give the single curves and the standard errors, and determine
how many donors every row needs; the importances come from all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from math import ceil
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Cells
from losslens.cells.row_sums import Deletion, PartSums, RowSums
from losslens.donors.designs import All, Design, Latin
from losslens.donors.questions import Ask
from losslens.engines.base import Answer
from losslens.engines.blackbox import BlackBox
from losslens.engines.choice import batch_rows
from losslens.engines.repeats import Repeats
from losslens.losses import Loss
from losslens.passes.outcomes import Outcome
from losslens.passes.parts.counting import (
    MOST_VALUES,
    Counted,
    CountedGrid,
    FirstPass,
    Quantiles,
    codebook,
    first_pass,
    kinds_of_all,
    places,
    with_checksums,
)
from losslens.passes.parts.donor_values import Gather, Store, ValuesOfPart, donor_values, gather, latin
from losslens.passes.parts.kept_rows import sample_of
from losslens.passes.parts.reading import Data, Job, PartRows, part_sample
from losslens.passes.parts.results import Summed, curves_only, filled, loss_sums, totals
from losslens.passes.parts.stream import Stream, classes_of, wants_labels
from losslens.passes.task import label_positions
from losslens.progress import Tick, bar, silent
from losslens.tables.features import Feature
from losslens.tables.frames import Batch, Edit, Table, concatenate, prepend_rows
from losslens.tables.sample import Sample, loss_changes
from losslens.typing import Floats, Indices

BINS = 256  # of a column with many values
CURVES, FEWEST_CURVES = 500, 64  # most and fewest kept rows, which get every value of the grid
MOST_DONORS, FEWEST_DONORS = 64, 2  # per row, with donors="auto"
TOLERATED = 0.1  # share of the variance due to drawing donors, as with data in memory

Respond = Callable[[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class BoxWork:
    """The arguments of the last pass, which are sent to workers."""

    data: Data
    model: Any
    respond: Respond
    loss: Loss
    classes: NDArray[Any] | None
    mass: float
    deletion: Deletion
    size: int  # rows of a batch
    book: Table
    grids: Mapping[int, CountedGrid]
    bins: Quantiles

    def sample(self, rows: PartRows) -> Sample:
        """The rows of a part with predictions and losses."""
        sample = part_sample(rows, self.model, self.loss, self.classes, self.mass)
        batch, every = Batch(rows.table), np.arange(rows.table.n)
        batches = [self.respond(batch.fill(every[part], [])) for part in _slices(len(every), self.size)]
        prediction = np.concatenate(batches)
        self.loss.check_prediction(prediction)
        return replace(sample, prediction=prediction).with_loss(self.loss)


@dataclass(frozen=True, eq=False)
class Turn:
    """Some columns of one part, with the donors of its rows: None where they get every value of the grid."""

    job: Job
    donors: dict[int, ValuesOfPart | None]
    first: bool  # the rows themselves are counted in one turn only

    @property
    def name(self) -> str:
        """The name of the part."""
        return self.job.name


@dataclass(frozen=True, eq=False)
class ColumnSums(PartSums):
    """Sums over the cells of one column."""

    cells: Floats  # (g, 3 + outputs): mass, changes, mass at the ceiling, predictions, at each value
    rows: RowSums
    row_variance: (
        Floats  # (2,): squares of a row's changes around their mean, and the factor of the variance in its mean
    )


@dataclass(frozen=True, eq=False)
class BoxSums(PartSums):
    """Sums over the cells of a turn."""

    losses: Floats  # (6,)
    columns: dict[int, ColumnSums]
    n_predictions: int


def evaluate(work: BoxWork, turn: Turn, tick: Tick) -> BoxSums:
    """All cells of a turn."""
    (rows,) = work.data.rows(turn.job)
    sample = work.sample(rows)
    columns, n_predictions = {}, sample.n
    for j, donors in turn.donors.items():
        columns[j], count = _column(work, rows, sample, j, donors)
        n_predictions += count
        tick(sample.n)
    return BoxSums(loss_sums(sample, work.deletion) * turn.first, columns, n_predictions)


def _column(
    work: BoxWork, rows: PartRows, sample: Sample, j: int, donors: ValuesOfPart | None
) -> tuple[ColumnSums, int]:
    grid, b = work.grids[j], sample.n
    if donors is None:  # every row gets every value
        source, index = work.book.column(j), np.broadcast_to(np.arange(len(grid))[:, None], (len(grid), b))
        weights: Any = np.broadcast_to((grid.mass / grid.mass.sum())[:, None], index.shape)
        at = index
    else:
        source, index = donors.column(rows.table, j, work.book, grid)
        weights = np.ones(index.shape) if donors.weight is None else donors.weight.T
        at = _places(work, source, index, j) if grid.binned else index
    own, batch, all_rows = places(rows.table, work.grids, [j], work.bins)[j], Batch(rows.table), np.arange(b)
    sums = []
    for part in _slices(b, work.size):
        some, changes, cells = all_rows[part], [], []
        for k in range(len(index)):
            prediction = work.respond(batch.fill(some, [Edit(0, len(some), j, source, index[k, part])]))
            if work.loss.domains is not None:
                work.loss.check_prediction(prediction)
            changes.append(loss_changes(work.loss, sample, some, prediction[:, None])[:, 0])
            weight = sample.weight[some] * weights[k, part]
            cells.append(_cells(work, sample, some, prediction, changes[-1], weight, at[k, part], len(grid)))
        of_rows = sample, some, np.stack(changes), weights[:, part], own[part], len(grid)
        by_row = _rows(*of_rows, work.deletion, every=donors is None)
        sums.append(ColumnSums(np.sum(cells, axis=0), *by_row))
    return reduce(add, sums), index.size


def _rows(
    sample: Sample,
    rows: Indices,
    changes: Floats,
    weights: Floats,
    own: Indices,
    g: int,
    deletion: Deletion,
    *,
    every: bool,
) -> tuple[RowSums, Floats]:
    """Sums over rows: means over their donors, the noise of these means, and the variance between donors."""
    with np.errstate(invalid="ignore", divide="ignore"):  # donors without weight
        share = np.where(weights.sum(axis=0) > 0, weights / weights.sum(axis=0), 0.0)
    w, R = sample.weight[rows], np.sum(share * changes, axis=0)
    noise, row_variance = np.zeros(len(rows)), np.zeros(2)
    if not every:
        sum_squares = np.sum(share**2, axis=0)
        square = np.sum(share * (changes - R) ** 2, axis=0)  # its mean: (1 - sum_squares) times the variance
        several = (sum_squares < 1 - 1e-9) & (sum_squares > 0)
        noise[several] = (square * sum_squares)[several] / (1 - sum_squares[several])
        row_variance = np.array([w[several] @ square[several], w[several] @ (1 - sum_squares[several])])
    assert sample.loss is not None
    return RowSums.of(w, R, sample.loss[rows], own, g, deletion, noise), row_variance


def _places(work: BoxWork, source: Any, index: Indices, j: int) -> Indices:
    """The positions of donors' values on the grid."""
    distinct = source.distinct
    bins = work.bins.of(work.book, {j: distinct})[j]
    return np.asarray(work.grids[j].places(distinct.values, bins)[distinct.codes][index])


def _cells(
    work: BoxWork, sample: Sample, rows: Indices, prediction: NDArray[Any], changes: Floats, weight: Floats,
    at: Indices, g: int,
) -> Floats:  # fmt: skip
    """Sums of some cells at each value of the grid."""
    ceiling = work.loss.ceiling(prediction.dtype)
    clipped = np.zeros(len(rows))
    if ceiling is not None:
        assert sample.loss is not None
        clipped = weight * (changes + sample.loss[rows] >= ceiling * (1 - 1e-9))
    shown = prediction
    if prediction.dtype.kind == "i" and work.classes is not None:
        shown = (prediction[:, None] == np.arange(len(work.classes))).astype(float)
    columns = [weight, weight * changes, clipped, *(weight[:, None] * shown.reshape(len(rows), -1)).T]
    return np.stack([np.bincount(at, column, g) for column in columns], axis=1)


def _slices(n: int, size: int) -> list[slice]:
    count = ceil(n / size)
    return [slice(n * k // count, n * (k + 1) // count) for k in range(count)]


def run(stream: Stream) -> Summed:
    """Three passes over the data, and their sums."""
    counted, work = _count(stream)
    parts = [part for job in with_checksums(stream.jobs, counted) for part in job.each()]
    store = Store(stream.n, stream.memory)
    try:
        kept = _gather(stream, work, parts, store)
        columns = {j: _kept_column(stream, work, kept, j, answer) for j, answer in _curves(stream, work, kept).items()}
        with bar(stream.n * len(columns), "explaining", stream.progress, "rows of columns") as tick:
            turns = _turns(stream, parts, columns, store)
            sums: BoxSums = reduce(add, stream.workers.map(evaluate, work, turns, tick))
    finally:
        store.close()
    *_, last = columns.values()
    sample = sample_of(last.sample, totals(stream, counted, kept.at, sums.losses))
    n_predictions = sums.n_predictions + sum(column.n_predictions for column in columns.values())
    by_column = {j: (column.design, _summed(column, sums.columns[j], sample)) for j, column in columns.items()}
    return Summed(stream, "blackbox", sample, by_column, n_predictions)


def count(
    stream: Stream, head: Table, columns: Sequence[str]
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, int], int, int]:
    """Designs, fewest predictions of each feature, fewest and most of all, turns over the data, and bytes to keep.

    They are estimated from the distinct values of the first rows; where most of these differ, a column gets bins.
    """
    n, donors, grid = stream.n, dict[int, tuple[int, int, str]](), 0
    for j in stream.feature_columns:
        many = len(head.column(head.names.index(columns[j])).distinct)
        wide = many > max(64, min(MOST_VALUES, head.n // 2))
        grid += BINS if wide else many
        donors[j] = _donors(stream, j, many, wide)
    kept = min(n, int(np.clip(stream.memory // 8 // (24 * grid), FEWEST_CURVES, CURVES)))
    rows = max(part.rows for job in stream.jobs for part in job.parts)
    turns, totals = [], []
    for end in (0, 1):
        many_of = {j: (low, high)[end] for j, (low, high, _) in donors.items()}
        sizes = {j: 16 * rows * m for j, m in many_of.items()}
        turns.append(len(_groups(sizes, stream.memory // 32)))
        totals.append(n * (turns[-1] + sum(many_of.values())) + kept * grid)
    of_features = [donors[feature.columns[0]] for feature in stream.features]
    designs = tuple(words for *_, words in of_features)
    return designs, tuple(n * m for m, *_ in of_features), (totals[0], totals[1]), turns[0], kept * 24 * grid


def _donors(stream: Stream, j: int, values: int, wide: bool) -> tuple[int, int, str]:
    """The fewest and the most predictions that a row needs for one column, and its design in words."""
    fewest, most = FEWEST_DONORS, min(MOST_DONORS, stream.n) if wide else min(MOST_DONORS, stream.n, values)
    if (design := _requested_design(stream, j, wide)) is not None:
        fewest = most = design.m or values
    elif not wide and values <= fewest + 1:
        fewest = most = values
    if not wide and fewest == values:
        return fewest, most, "All()"
    return fewest, most, f"Latin({fewest})" if fewest == most else f"Latin({fewest} to {most})"


def _count(stream: Stream) -> tuple[Counted, BoxWork]:
    """The first pass, and the arguments of the later ones."""
    bins = Quantiles.of_rows(stream.spread_rows, stream.feature_columns, BINS)
    arguments = FirstPass(stream.data, stream.feature_columns, bins, wants_labels(stream))
    counted = first_pass(arguments, stream.jobs, stream.workers, stream.progress)
    kinds, classes = kinds_of_all(counted, stream.data.columns), classes_of(stream, counted.labels)
    respond: Respond = stream.model.responder(stream.response)
    if stream.response == "labels" and classes is not None:
        respond = partial(label_positions, respond, {label: k for k, label in enumerate(classes.tolist())})
    assert stream.loss is not None
    return counted, BoxWork(
        data=replace(stream.data, kinds=kinds), model=stream.model_info, respond=respond, loss=stream.loss,
        classes=classes, mass=counted.total, deletion=counted.deletion,
        size=batch_rows(stream.model.native, stream.head, stream.memory),
        book=codebook(stream.head, counted.grids, kinds), grids=counted.grids, bins=bins,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class KeptTable:
    """The kept rows, which get every value of every grid, as the model reads them."""

    at: Indices  # (r,): in the full data
    rows: PartRows
    places: Mapping[int, Indices]  # (r,) for each column: positions of their own values on its grid


def _gather(stream: Stream, work: BoxWork, parts: Sequence[Job], store: Store) -> KeptTable:
    """The second pass: the features' columns go into the store, and some rows are kept."""
    cells = sum(24 * len(grid) for grid in work.grids.values())
    most = int(np.clip(stream.memory // 8 // cells, FEWEST_CURVES, CURVES))
    rng = np.random.default_rng([stream.entropy, stream.n])
    kept_rows = np.sort(rng.choice(stream.n, min(most, stream.n), replace=False))
    arguments, kept = Gather(work.data, work.bins, work.grids, stream.data.weight is not None, kept_rows), []
    with bar(stream.n, "gathering", stream.progress, "rows") as tick:
        for part, gathered in zip(parts, stream.workers.map(gather, arguments, parts, tick), strict=True):
            store.put(part.start, gathered.columns)
            kept.append(gathered.kept)
    tables, ys, weights = zip(*kept, strict=True)
    table = concatenate(tables, work.book)
    y = None if ys[0] is None else np.concatenate(ys)
    rows = PartRows(parts[0].parts[0], table, y, np.concatenate(weights), 0)
    return KeptTable(kept_rows, rows, places(table, work.grids, stream.feature_columns, work.bins))


def _curves(stream: Stream, work: BoxWork, kept: KeptTable) -> dict[int, Answer]:
    """Predictions of the kept rows at every value of each column."""
    columns = [Feature(stream.head.names[j], (j,)) for j in stream.feature_columns]
    answers = list(stream.workers.map(curves_of, (work, kept), columns))
    for one, again in pairwise(answers):  # each column has its own calls, which begin with the same rows
        stream.repeats.compare(one.base, again.base, lambda: answers[0].base)
    return dict(zip(stream.feature_columns, answers, strict=True))


def curves_of(shared: tuple[BoxWork, KeptTable], column: Feature, _: Tick) -> Answer:
    """Predictions of the kept rows, unchanged and at every value of a column."""
    (work, kept), (j,) = shared, column.columns
    table, g = kept.rows.table, len(work.grids[j])
    both = prepend_rows(table.native, work.book)  # a batch keeps unchanged rows: these stand first
    ask = Ask(column.name, (j,), (both.column(j),), (table.n + np.arange(g),), kept.places[j], g)
    later = Repeats(watches=False)  # the answers for all columns are compared instead
    return BlackBox(table, work.respond, work.size, repeats=later).fill(np.arange(table.n), [ask], silent)


@dataclass(frozen=True, eq=False)
class KeptColumn:
    """The results of the kept rows for one column."""

    grid: CountedGrid
    place: Indices  # (r,): positions of their own values on it
    sample: Sample
    cells: Cells
    local: Floats  # (r,): mean over the values
    design: Design
    noise: float  # D2: the variance of a cell that rows and donors do not explain
    n_predictions: int


def _kept_column(stream: Stream, work: BoxWork, kept: KeptTable, j: int, answer: Answer) -> KeptColumn:
    """The kept rows at all values of a column: curves, errors, and how many donors all rows need."""
    work.loss.check_prediction(answer.base)
    sample = part_sample(kept.rows, work.model, work.loss, work.classes, work.mass)
    sample = replace(sample, prediction=answer.base).with_loss(work.loss)
    grid, place, rows = work.grids[j], kept.places[j], np.arange(sample.n)
    changes = loss_changes(work.loss, sample, rows, answer.cells[0])
    shares, weight = grid.mass / work.mass, sample.weight / sample.weight.sum()
    local, curve = changes @ shares, weight @ changes
    pfi = float(weight @ local)
    residual = changes - local[:, None] - curve + pfi
    noise = float(weight @ residual**2 @ shares) * sample.n / max(sample.n - 1, 1)
    spread = float(weight @ (local + curve[place] - 2 * pfi) ** 2)
    design = _design(stream, j, grid, noise, spread)
    cells = Cells(rows, answer.cells[0], changes)
    return KeptColumn(grid, place, sample, cells, local, design, noise, answer.n_predictions[0])


def _design(stream: Stream, j: int, grid: CountedGrid, noise: float, spread: float) -> Design:
    """All values where they are few; else as many donors as make their noise small compared with the rows' variance."""
    if (design := _requested_design(stream, j, grid.binned)) is not None:
        return design
    m = ceil(noise / (TOLERATED * spread)) if spread > 0 else FEWEST_DONORS
    m = int(np.clip(m, FEWEST_DONORS, min(MOST_DONORS, stream.n)))
    return All() if not grid.binned and len(grid) <= m + 1 else Latin(m)


def _requested_design(stream: Stream, j: int, binned: bool) -> Design | None:
    """The design of the call, if it fits the column; None for "auto"."""
    if stream.design is None:
        return None
    stream.design.check(stream.n)
    if stream.design.all_pairs and binned:
        raise ValueError(
            f"donors='all' would predict {stream.n:,} rows at every value of {stream.head.names[j]!r}, and no "
            "exact engine supports the model; use donors='auto' or Latin(m)"
        )
    return stream.design


def _turns(stream: Stream, parts: Sequence[Job], columns: Mapping[int, KeptColumn], store: Store) -> Iterator[Turn]:
    """Parts and columns, a few at a time, with the donors' values of their rows."""
    donors = {j: column.design.m for j, column in columns.items() if column.design.m is not None}
    shifts = {j: latin(stream.n, m, stream.entropy, stream.head.names[j]) for j, m in donors.items()}
    for part in parts:
        sizes = {j: 16 * part.rows * donors.get(j, 1) for j in columns}
        for k, some in enumerate(_groups(sizes, stream.memory // 32)):
            stop = part.start + part.rows
            values = {j: donor_values(store, shifts[j], j, part.start, stop) if j in shifts else None for j in some}
            yield Turn(part, values, k == 0)


def _groups(sizes: Mapping[int, int], most: int) -> list[list[int]]:
    """Columns in their order, grouped so that a group has at most `most` bytes."""
    groups: list[list[int]] = [[]]
    for j, size in sizes.items():
        if groups[-1] and sum(sizes[other] for other in groups[-1]) + size > most:
            groups.append([])
        groups[-1].append(j)
    return groups


def _summed(column: KeptColumn, sums: ColumnSums, sample: Sample) -> Outcome:
    assert sample.totals is not None
    design, n, noise = column.design, sample.totals.n, 0.0
    mass, changes, clipped, *predictions = sums.cells.T
    with np.errstate(invalid="ignore", divide="ignore"):  # values without donors
        pi, pd = changes / mass, np.stack(predictions, axis=1) / mass[:, None]
    pfi = float(changes.sum() / mass.sum())
    curve = np.where(mass > 0, pi, 0.0)
    if design.m is not None:
        # The variance of a cell that donors don't explain; with one donor a row it is estimated from the kept rows.
        square, times = sums.row_variance.tolist()
        spread = float(mass / mass.sum() @ (curve - pfi) ** 2)
        variance = max(square / times - spread, 0.0) if times > 0 else column.noise
        noise = variance * n * sample.totals.squares**2 / design.m * (1 - (design.m - 1) / (n - 1))
    one = sample.prediction.ndim == 1 and sample.prediction.dtype.kind != "i"
    deletion = Deletion(sample.totals.squares, sample.totals.units)
    means = replace(
        curves_only(sample, mass, pd[:, 0] if one else pd),
        local=column.local, pi=pi, caused=curve[column.place], donor_weight=sample.weight,
        clipped=float(clipped.sum() / mass.sum()), total=pfi,
        influences=sums.rows.influences(pfi, curve, sample.totals.error, deletion, noise),
    )  # fmt: skip
    n_predictions = column.n_predictions + n * (design.m or len(column.grid))
    return filled(column.grid, column.place, means, column.cells, n_predictions)
