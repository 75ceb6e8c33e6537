"""Importances within an allowance: rows drawn once at random, then donors, one column of cells after the other.

A column gives every row one donor (a shift of `Spread`), or one value of a feature with few values, of which all are
then predicted. After each round the variance due to donors and that due to rows are estimated, and the next columns go
where they reduce the sum of the variances most. Whatever ends the call, all complete columns count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from losslens.donors.designs import All, Design, Latin, Shifts, Spread
from losslens.donors.questions import Ask, Subject, pose
from losslens.engines.base import Answer
from losslens.engines.batches import UNCHANGED, Cut, Piece, pack
from losslens.engines.blackbox import BlackBox, Repeats
from losslens.passes import allowance
from losslens.passes.allowance import Limits, Meter
from losslens.passes.task import FeatureDesign, Task
from losslens.passes.ways import NOISE_SHARE, ByFeature, evaluate, evaluate_until_precise, first_designs, route
from losslens.progress import Tick, bar
from losslens.results.afforded import Afforded, Stopped
from losslens.results.importance import FeatureImportance
from losslens.results.one_number import together
from losslens.typing import Floats, Indices
from losslens.uncertainty.looks import LEADING, settled_ranks

FEWEST_DONORS = 3  # of a row: with fewer there is no standard error
FEWEST_ROWS = 10
FEWEST_SWEEPS = 8  # of walks, where there are fewer rows
REPEATED = 2  # rows of the first call, which are predicted again: does the model answer alike?
VISIBLE = 1.5  # times as long as the shortest call
PILOT, PILOT_ROWS = 0.1, 50  # share of the predictions from which variances are estimated, and its fewest rows
SAFE = 0.9  # share of a time that the first columns take: costs are estimates
LATE = 0.05  # of the time: what a column that was begun may take beyond it
PRECISE = NOISE_SHARE / 10  # of the variance due to rows: a budget is there to be spent
SURELY = 2.5  # standard errors
PAUSES = 0.1, 0.5, 1.0  # seconds before a failed call of the model is repeated
ROUNDING = 4  # last bits
WITHIN = "sampled within budget="


class Stop(Exception):  # noqa: N818 - not an error: what has been predicted counts
    """No further columns."""

    def __init__(self, why: Stopped, cause: BaseException | None = None) -> None:
        super().__init__(why)
        self.why, self.cause = why, cause


class Spent(NamedTuple):
    """What an allowance gave: importances of the rows that were used."""

    by_feature: ByFeature
    n_predictions: int
    afforded: Afforded | None  # None: everything was computed, by exact engines


@dataclass(frozen=True, eq=False)
class Predicted:
    """An engine of cells that were predicted before."""

    base: NDArray[Any]
    cells: Sequence[NDArray[Any]]  # of each feature, (n, m) or (n, m, K)
    repeats: Repeats
    name: ClassVar[str] = BlackBox.name

    def fill(self, rows: Indices, asks: Sequence[Ask], tick: Tick) -> Answer:
        """Those of some rows."""
        every = len(rows) == len(self.base)
        tick(len(rows))
        return Answer(self.base[rows], [one if every else one[rows] for one in self.cells], [0] * len(asks))


class CellColumn(NamedTuple):
    """A column of cells: the k-th donor of every row, or the k-th value of the feature."""

    feature: int
    k: int
    of_values: bool = False


@dataclass(eq=False)
class FeatureColumns:
    """A feature's donors and the columns that are predicted."""

    kind: type[Latin] | type[Spread]
    ask: Ask
    shifts: Shifts
    donors: list[NDArray[Any]] = field(default_factory=list)
    values: list[NDArray[Any]] = field(default_factory=list)
    n_predictions: int = 0

    @property
    def complete(self) -> bool:
        """Whether all values are predicted: all pairs."""
        return len(self.values) == self.ask.size

    @property
    def design(self) -> Design:
        """The donors of the complete columns."""
        return All() if self.complete else self.kind(len(self.donors))

    @property
    def cells(self) -> NDArray[Any]:
        """The complete columns."""
        return np.stack(self.values if self.complete else self.donors, axis=1)

    def of_column(self, column: CellColumn) -> Indices:
        """The value of each row."""
        if column.of_values:
            return np.full(len(self.ask.own), column.k)
        donors = replace(self.shifts, shifts=self.shifts.shifts[column.k : column.k + 1])[:]
        assert self.ask.donor_values is not None  # of a question with donors
        return np.asarray(self.ask.donor_values.codes[donors[:, 0]])


class Drawing:
    """The columns drawn so far for a task, call by call of the model."""

    def __init__(self, task: Task, meter: Meter, tick: Tick) -> None:
        self.task, self.meter, self.tick = task, meter, tick
        self.jobs = task.engine.jobs
        self.held = [_columns_of(task, subject) for subject in task.subjects]
        self.asks = [one.ask for one in self.held]
        self.base: NDArray[Any] = np.empty(0)
        self.looked = 0.0  # seconds of a look for each cell

    @property
    def largest(self) -> int:
        """The most rows at a time."""
        return self.task.engine.batch_rows * self.jobs

    @property
    def costs(self) -> list[int]:
        """Columns of each feature in the first round: some donors, or all values if these are few."""
        return [min(FEWEST_DONORS, one.ask.size - 1) for one in self.held]

    @property
    def m(self) -> Floats:
        """Donors of a row, by feature; infinite: all pairs."""
        return np.array([inf if one.design.is_exact(self.task.n) else len(one.donors) for one in self.held])

    @property
    def width(self) -> int:
        """Columns of all features."""
        return sum(len(one.donors) + len(one.values) for one in self.held)

    # -- predictions ----------------------------------------------------------------------------------------------

    def calibrate(self, order: Indices) -> NDArray[Any]:
        """Predictions of the first of these rows, in calls of more and more rows, from which costs are estimated."""
        meter, first = self.meter, self._ask([_unchanged(order[:REPEATED])])
        done = [self._ask([_unchanged(order[: 2 * REPEATED])])]
        again = done[0][: len(first)]
        self.task.engine.repeats.compare(first, again, lambda: done[0])
        while meter.limits.timed:
            known, took = sum(map(len, done)), [seconds for _, seconds in meter.timings[1:]]
            size = min(4 * len(done[-1]), len(order) - known)
            if took[-1] > VISIBLE * min(took):  # the time of a row is visible beside that of a call
                rows = (known + meter.rows_left(self.largest)) / (1 + sum(self.costs))
                size = min(size, meter.rows_a_call(self.largest), int(rows) - known)
            fixed, each = meter.costs
            if size < 1 or (len(done) > REPEATED and each * len(done[-1]) > fixed):
                break
            done.append(self._ask([_unchanged(order[known : known + min(size, self.largest)])]))
        return np.concatenate(done)

    def begin(self, base: NDArray[Any], order: Indices) -> None:
        """Predictions of the rows as they are, of which some are held: of the first of `order`."""
        left = [_unchanged(order[len(base) :])] if len(base) < len(order) else []
        every = np.concatenate([base, *(self._in_calls(left) if left else [])])[: len(order)]
        self.base = np.empty_like(every)
        self.base[order] = every

    def first_round(self) -> None:
        """A few columns of each feature, in turns."""
        for k in range(FEWEST_DONORS):
            queue = []
            for j, one in enumerate(self.held):
                few = one.ask.size - 1 <= FEWEST_DONORS
                queue += [CellColumn(j, v, of_values=True) for v in range(one.ask.size)] if few and k == 0 else []
                queue += [CellColumn(j, k)] * (not few)
            self.predict([one for one in queue if one.k >= self._count(one)])

    def _count(self, column: CellColumn) -> int:
        one = self.held[column.feature]
        return len(one.values if column.of_values else one.donors)

    def predict(self, queue: Sequence[CellColumn]) -> None:
        """Columns in their order, as long as the rest affords them; raises `Stop` where it doesn't."""
        pieces = [self._piece(one) for one in queue]
        start = 0
        while start < len(queue):
            room, stop, rows = self.meter.rows_left(self.largest), start, 0
            size = min(room, self.meter.rows_a_call(self.largest))
            while stop < len(queue) and (stop == start or rows + len(pieces[stop]) <= size):
                rows += len(pieces[stop])
                stop += 1
            if rows > room:
                raise Stop("budget")
            predicted = np.concatenate([self.base[:0], *self._in_calls(pieces[start:stop])])
            for column, piece in zip(queue[start:stop], pieces[start:stop], strict=True):
                self._keep(column, piece, predicted[: len(piece)])
                predicted = predicted[len(piece) :]
            start = stop

    def _piece(self, column: CellColumn) -> Piece:
        """The cells of a column to predict: a row at its own value is the row itself."""
        one = self.held[column.feature]
        values = one.of_column(column)
        rows = np.flatnonzero(values != one.ask.own)
        return Piece(column.feature, rows, np.zeros(len(rows), np.intp), values[rows])

    def _keep(self, column: CellColumn, piece: Piece, predicted: NDArray[Any]) -> None:
        one, cells = self.held[column.feature], self.base.copy()
        if cells.dtype.kind == "f":  # a feature that the model ignores changes nothing, also not by the order of sums
            size = ROUNDING * float(np.finfo(cells.dtype).eps) * np.abs(self.base).max()
            same = np.abs(predicted - cells[piece.rows]) <= size
            predicted = np.where(same, cells[piece.rows], predicted)
        cells[piece.rows] = predicted
        (one.values if column.of_values else one.donors).append(cells)
        one.n_predictions += len(piece)

    def _in_calls(self, pieces: Sequence[Piece]) -> Iterator[NDArray[Any]]:
        """Predictions of pieces, in calls of the usual size; raises `Stop` where they take far too long."""
        left = sum(map(len, pieces))
        for step in pack(pieces, self.meter.rows_a_call(self.largest)):
            spare = LATE * self.meter.limits.seconds if self.meter.limits.timed else 0.0
            if self.meter.time_of(left, self.largest) > max(self.meter.left, 0.0) + spare:
                raise Stop("budget")
            left -= sum(map(len, step))
            yield self._ask(step)

    def _ask(self, step: Sequence[Cut]) -> NDArray[Any]:
        """One call of the model, or one of each worker; repeated where it fails."""
        rows = sum(map(len, step))
        if not rows:
            return self.base[:0]
        batches = list(pack(step, -(-rows // self.jobs)))
        for wait in (*PAUSES, None):
            began = allowance.clock()
            try:
                answer = self.task.engine.predictions(self.asks, batches, self.tick)
            except Exception as error:
                if wait is None:
                    raise Stop("failed", error) from error
                allowance.pause(wait)
            else:
                self.meter.record(rows, allowance.clock() - began)
                return answer
        raise AssertionError  # the last attempt returns or raises

    # -- looks ----------------------------------------------------------------------------------------------------

    def look(self) -> ByFeature:
        """The importances by the complete columns."""
        began, task = allowance.clock(), self.task
        cells = [one.cells for one in self.held]
        engine: Any = Predicted(self.base, cells, task.engine.repeats)
        designs: list[FeatureDesign] = [
            (subject, one.design) for subject, one in zip(task.subjects, self.held, strict=True)
        ]
        evaluated, _ = evaluate(replace(task, engine=engine, progress=False), designs)
        seconds = (allowance.clock() - began) / max(1, self.width)
        self.looked = min(self.looked, seconds) if self.looked else seconds
        return {
            subject.feature.name: [replace(one.trimmed(), n_predictions=held.n_predictions) for one in by_loss]
            for subject, held, by_loss in zip(task.subjects, self.held, evaluated, strict=True)
        }


def _columns_of(task: Task, subject: Subject) -> FeatureColumns:
    """Of a feature, without any yet; several columns have no order, and rows in groups need donors of other groups."""
    kind: type[Latin] | type[Spread] = Latin if subject.feature.kind == "group" or task.blocked else Spread
    ask = pose(subject, kind(task.n), task.n, task.entropy).ask
    assert ask.donor_values is not None  # of a question with donors
    assert isinstance(ask.donor_values.donors, Shifts)  # as both draw them
    return FeatureColumns(kind, ask, ask.donor_values.donors)


def _unchanged(rows: Indices) -> Piece:
    return Piece(UNCHANGED, rows, np.zeros(len(rows), np.intp), np.zeros(len(rows), np.intp))


# The call.


def spend(task: Task, limits: Limits) -> Spent:
    """Importances of as many rows and donors as the limits allow, or as precision requires."""
    task, every = _of_the_model(task)
    if every:
        by_feature, predicted = evaluate_until_precise(task, first_designs(task))
        return Spent(by_feature, predicted, None)
    meter = Meter(limits)
    order = np.random.default_rng((task.entropy, 39)).permutation(task.n)
    with _bar(task, limits) as tick:
        drawing = Drawing(task, meter, tick)
        base = _or_raise(lambda: drawing.calibrate(order))
        _check_enough(drawing, len(base), 1 + sum(drawing.costs))
        count, base = (task.n, base) if limits.every_row else _rows(drawing, base, order)
        rows = np.sort(order[:count])
        some = task if count == task.n else task.of_rows(rows)
        drawing = drawing if some is task else Drawing(some, meter, tick)
        positions = np.searchsorted(rows, order[:count])
        _or_raise(lambda: drawing.begin(base[:count], positions))
        return _rounds(drawing, rows, task.n, np.zeros((0, len(task.subjects))))


def rows_within(task: Task, limits: Limits, columns: int) -> Indices:
    """Rows drawn at random, as many as the limits afford so many predictions of each of: all, or fewer."""
    if limits.every_row or all(route(task, subject).exact for subject in task.subjects):
        return task.every
    drawing = Drawing(replace(task, exact=None, outputs=()), Meter(limits), lambda rows: None)
    order = np.random.default_rng((task.entropy, 39)).permutation(task.n)
    known = len(_or_raise(lambda: drawing.calibrate(order)))
    count = _check_enough(drawing, known, columns)
    return np.sort(order[: int(min(task.n, SAFE * count // columns))])


def rows_for_all(tasks: Sequence[Task], limits: Limits, *, shapley: bool) -> Indices:
    """Rows of which the limits afford the importances by each model, and the Shapley shares."""
    rows = []
    for k, task in enumerate(tasks):
        p = len(task.subjects)
        columns = 1 + FEWEST_DONORS * p  # or as many again for shares, which get half of the limits
        columns = 2 * max(columns, 1 + FEWEST_SWEEPS * (p - 1)) if shapley else columns
        rows.append(rows_within(task, limits.share(len(tasks) - k), columns))
    return min(rows, key=len)


def go_on(task: Task, limits: Limits, before: Afforded, features: Mapping[str, FeatureImportance]) -> Spent:
    """The rounds after those of a result, with its rows, which are those of the task."""
    task = replace(task, design=None, exact=None, outputs=(), declined=next(iter(features.values())).declined)
    with _bar(task, limits) as tick:
        drawing = Drawing(task, Meter(limits), tick)
        for one, feature in zip(drawing.held, features.values(), strict=True):
            cells = list(np.moveaxis(feature.cells.predictions, 1, 0))
            one.n_predictions = feature.n_predictions
            if feature.design.all_pairs:
                one.values = cells
                continue
            same = replace(one.shifts, shifts=one.shifts.shifts[: len(cells)])[:]
            if not np.array_equal(same, np.asarray(feature.layout.donors)):
                raise ValueError("this release of NumPy draws other donors than that of the result: make a new call")
            one.donors = cells
        _or_raise(lambda: drawing.calibrate(np.arange(task.n)))
        drawing.base = next(iter(features.values())).sample.prediction
        return _rounds(drawing, before.rows, before.n, before.looks, before.settled)


def _of_the_model(task: Task) -> tuple[Task, bool]:
    """The task without an exact engine, and whether none is needed: it computes all features."""
    if any(subject.feature.kind == "pair" for subject in task.subjects):
        raise ValueError("budget is for importances, and a pair has curves only: leave out the pair, or budget=")
    if task.design is not None:
        raise ValueError(f"budget chooses the donors of each feature: leave out donors={task.design!r}, or budget=")
    if all(route(task, subject).exact for subject in task.subjects):
        return task, True
    reason = task.declined or next(r.declined for r in (route(task, s) for s in task.subjects) if not r.exact)
    return replace(task, exact=None, outputs=(), declined=reason or WITHIN), False


def _bar(task: Task, limits: Limits) -> Any:
    most = limits.predictions if limits.predictions < inf else task.n * (1 + FEWEST_DONORS * len(task.subjects))
    return bar(int(most), "explaining", task.progress)


def _or_raise(compute: Any) -> Any:
    """What is computed before there is any result: an error of the model is raised."""
    try:
        return compute()
    except Stop as stop:
        if stop.cause is not None:
            raise stop.cause from None
        raise ValueError(
            "the model became far slower than at first, and no result was possible: raise budget="
        ) from None


def _check_enough(drawing: Drawing, known: int, columns: int) -> float:
    """The predictions that are affordable, of which each row needs so many; raises where these are too few."""
    meter, rows = drawing.meter, min(drawing.task.n, FEWEST_ROWS)
    affordable = known + meter.rows_left(drawing.largest)
    if affordable < rows * columns:
        raise ValueError(
            f"budget={meter.limits.budget!r} affords {meter.words(affordable, drawing.largest)}, but {rows} rows, the "
            f"fewest, with {columns:,} predictions each take {meter.words(rows * columns, drawing.largest)}"
        )
    return affordable


def _rows(drawing: Drawing, base: NDArray[Any], order: Indices) -> tuple[int, NDArray[Any]]:
    """How many rows are used, and the predictions of the first of them.

    All of them, if there are predictions enough. Else as many as make the sum of the variances smallest, by those of a
    pilot: more rows with few donors, or fewer rows with more donors for the features whose noise is large.
    """
    meter, task, costs = drawing.meter, drawing.task, np.array(drawing.costs)
    affordable = len(base) + (SAFE if meter.limits.timed else 1.0) * meter.rows_left(drawing.largest)
    columns = 1 + costs.sum()
    most = int(min(len(order), affordable // columns, task.budget.cells(len(costs), task.n) // columns))
    few = int(PILOT * affordable / columns) if affordable < inf else 0
    if affordable >= 2 * len(order) * columns or few < PILOT_ROWS or most <= 2 * few:
        return max(most, 1), base
    pilot = Drawing(task.of_rows(np.sort(order[:few])), meter, drawing.tick)
    try:
        pilot.begin(base[:few], np.argsort(np.argsort(order[:few])))
        pilot.first_round()
    except Stop as stop:
        if stop.cause is not None:
            raise stop.cause from None
    by_order = pilot.base[np.argsort(np.argsort(order[:few]))]
    base = base if len(base) > few else by_order
    affordable = len(base) + (SAFE if meter.limits.timed else 1.0) * meter.rows_left(drawing.largest)
    most = max(1, min(most, int(affordable // columns)))
    if not np.all(pilot.m >= FEWEST_DONORS):
        return most, base
    sampling, noise = few * _variances(pilot.look(), pilot.m)
    counts = np.unique(np.geomspace(few, most, 40).astype(int))
    totals = [
        (sampling.sum() + np.sum(noise / _spread(noise, costs, affordable / count - columns))) / count
        for count in counts
    ]
    return int(counts[np.argmin(totals)]), base


def _spread(noise: Floats, least: Floats, columns: float) -> Floats:
    """Donors of each feature, at least so many, whose noise is smallest in all with so many columns more."""
    low, high = 0.0, 1e12
    root = np.sqrt(noise) / max(np.sqrt(noise).max(), 1e-300)
    for _ in range(60):
        middle = np.sqrt(max(low, 1e-6) * high)
        if np.maximum(least, middle * root).sum() - least.sum() > columns:
            high = middle
        else:
            low = middle
    return np.asarray(np.maximum(np.maximum(least, low * root), 1.0))


def _variances(by_feature: ByFeature, m: Floats) -> Floats:
    """The variance of each importance due to rows, and that due to one donor a row, (2, p); NaN where unknown."""
    pairs = []
    for (one, *_), donors in zip(by_feature.values(), m.tolist(), strict=True):
        try:
            influence = one.influence
        except ValueError:  # too few rows or donors
            pairs.append((np.nan, np.nan))
            continue
        noise = influence.noise if donors < inf else 0.0
        pairs.append((max(influence.variance - noise, 0.0), noise * donors if noise else 0.0))
    return np.array(pairs).T


def _rounds(
    drawing: Drawing, rows: Indices, n: int, looks: Floats, settled: tuple[str, ...] = ()
) -> Spent:  # fmt: skip
    """Round after round, until precision or the limits end it."""
    meter, error, stopped = drawing.meter, "", None
    by_feature: ByFeature = {}
    try:
        drawing.first_round()
    except (Stop, KeyboardInterrupt) as stop:
        if not all(one.donors or one.complete for one in drawing.held):
            raise (stop.cause or ValueError("the budget is too small")) if isinstance(stop, Stop) else stop from None
        stopped, error = _why(stop)
    while True:
        by_feature = drawing.look()
        if not len(looks) or not np.array_equal(looks[-1], drawing.m):
            looks = np.vstack([looks, drawing.m])
        if meter.limits.ranks:
            settled = _settled(by_feature, looks, settled)
        if stopped is not None:
            break
        queue, stopped = _next_columns(drawing, by_feature, settled)
        if stopped is None:
            before = drawing.width
            meter.own = 1.2 * drawing.looked * (before + len(queue))
            try:
                drawing.predict(queue)
            except (Stop, KeyboardInterrupt) as stop:
                stopped, error = _why(stop)
                if drawing.width == before:
                    break
        else:
            break
    seconds = meter.seconds if meter.limits.timed else None
    afforded = Afforded(
        budget=meter.limits.budget, stopped=stopped, seconds=seconds, rows=rows, n=n, looks=looks, settled=settled,
        error=error, seed=drawing.task.entropy,
    )  # fmt: skip
    by_feature = _unsteady(drawing.task, by_feature)
    return Spent(by_feature, meter.predictions, afforded)


def _unsteady(task: Task, by_feature: ByFeature) -> ByFeature:
    """Nothing is exact where the model answered the same rows differently."""
    if not (why := task.engine.repeats.declined):
        return by_feature
    return {name: [replace(one, exact=False, declined=why) for one in some] for name, some in by_feature.items()}


def _why(stop: BaseException) -> tuple[Stopped, str]:
    """The reason, and the error of the model if there was one."""
    if not isinstance(stop, Stop):
        return "interrupted", ""
    cause = stop.cause
    return stop.why, "" if cause is None else f"{type(cause).__name__}: {' '.join(str(cause).split())[:200]}"


def _settled(by_feature: ByFeature, looks: Floats, settled: tuple[str, ...]) -> tuple[str, ...]:
    estimates = together({name: one for name, (one, *_) in by_feature.items()})
    if len(estimates) < len(by_feature):  # some have no standard error yet
        return settled
    return settled_ranks(estimates, looks, settled)


def _next_columns(
    drawing: Drawing, by_feature: ByFeature, settled: Sequence[str]
) -> tuple[list[CellColumn], Stopped | None]:
    """The columns of the next round, those first that reduce the variances most; or why there is none."""
    meter, m, n = drawing.meter, drawing.m, drawing.task.n
    names = list(by_feature)
    if meter.limits.ranks and len(settled) >= min(LEADING, len(names) - 1):
        return [], "settled"
    value = np.array([one.pfi for one, *_ in by_feature.values()])
    sampling, noise = _variances(by_feature, m)
    noise = np.where(np.isfinite(m), noise, 0.0)
    unknown = ~np.isfinite(noise)
    noise[unknown] = np.nanmax(np.append(noise[~unknown], 0.0)) or 1.0
    sampling[unknown] = 0.0
    bound = PRECISE * np.maximum(sampling, _least(value, sampling + noise / m))
    with np.errstate(divide="ignore", invalid="ignore"):
        enough = np.where(noise > 0, np.where(bound > 0, noise / bound, inf), 0.0)
    if meter.limits.ranks:
        enough[[names.index(one) for one in settled]] = 0.0
    if np.all(m >= enough):
        return [], "precise"
    largest, width = drawing.task.budget.cells(len(names), n) // n, drawing.width
    if width >= largest:
        return [], "memory"
    affordable = min(meter.rows_left(drawing.largest) / n, largest - width)
    if affordable < 1 and all(one.ask.size > 2 for one in drawing.held):
        return [], "budget"
    count = max(width, len(names))  # rounds double the columns; no last round is small
    count = count if affordable >= 1.5 * count else max(1, int(affordable))
    return _queue(drawing, noise, m, enough, count), None


def _least(value: Floats, variance: Floats) -> Floats:
    """The variance to which those of surely unimportant features compare: that of the last leading one."""
    least = np.zeros(len(value))
    if len(value) > LEADING:
        last = np.argsort(-value)[LEADING - 1]
        error = np.sqrt(variance)
        outside = value + SURELY * error < value[last] - SURELY * error[last]
        least[outside] = variance[last]
    return least


def _queue(drawing: Drawing, noise: Floats, m: Floats, enough: Floats, count: int) -> list[CellColumn]:
    """So many columns, each where it reduces the noise most; all values where so many donors were due."""
    heap = [(-b / (k * (k + 1)), j, int(k)) for j, (b, k) in enumerate(zip(noise, m, strict=True)) if k < enough[j]]
    heapify(heap)
    queue: list[CellColumn] = []
    while heap and len(queue) < count and heap[0][0] < 0:
        _, j, k = heap[0]
        one = drawing.held[j]
        if one.ask.size <= drawing.task.n // 2 and k + 1 >= one.ask.size - 1:
            queue += [CellColumn(j, v, of_values=True) for v in range(len(one.values), one.ask.size)]
            heapreplace(heap, (0.0, j, k))
            continue
        queue.append(CellColumn(j, k))
        k += 1
        over = k >= min(enough[j], drawing.task.n)
        heapreplace(heap, (0.0 if over else -noise[j] / (k * (k + 1)), j, k))
    return queue
