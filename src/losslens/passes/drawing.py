"""Cells of importances that are drawn column by column, call by call of the model, within the limits of a call.

A column gives every row one donor (a shift of `Spread`), or one value of a feature with few values, of which all are
then predicted. Complete columns count, whatever ends the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
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
from losslens.passes.allowance import Meter
from losslens.passes.task import FeatureDesign, Task
from losslens.passes.ways import ByFeature, evaluate
from losslens.progress import Tick
from losslens.typing import Floats, Indices

FEWEST_DONORS = 3  # of a row: with fewer there is no standard error
REPEATED = 2  # rows of the first call, which are predicted again: does the model answer alike?
VISIBLE = 1.5  # times as long as the shortest call
LATE = 0.05  # of the time: what a column that was begun may take beyond it
ROUNDING = 4  # last bits


class OutOfBudget(Exception):  # noqa: N818 - not an error: what has been predicted counts
    """The rest affords no further column."""


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
        self.mark = allowance.clock()  # until when time has been recorded
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
        self.mark = allowance.clock()
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
        self.mark = allowance.clock()
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
        """Columns in their order, as long as the rest affords them; raises `OutOfBudget` where it doesn't."""
        self.mark = allowance.clock()
        todo = ((column, self._piece(column)) for column in queue)
        following = next(todo, None)
        while following is not None:
            room, rows, some = self.meter.rows_left(self.largest), 0, list[tuple[CellColumn, Piece]]()
            size = min(room, self.meter.rows_a_call(self.largest))
            while following is not None and (not some or rows + len(following[1]) <= size):
                rows += len(following[1])
                some.append(following)
                following = next(todo, None)
            if rows > room:
                raise OutOfBudget
            predicted = np.concatenate([self.base[:0], *self._in_calls([piece for _, piece in some])])
            for column, piece in some:
                self._keep(column, piece, predicted[: len(piece)])
                predicted = predicted[len(piece) :]

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
        """Predictions of pieces, in calls of the usual size; raises `OutOfBudget` where they take far too long."""
        left = sum(map(len, pieces))
        for step in pack(pieces, self.meter.rows_a_call(self.largest)):
            spare = LATE * self.meter.limits.seconds if self.meter.limits.timed else 0.0
            if self.meter.time_of(left, self.largest) > max(self.meter.left, 0.0) + spare:
                raise OutOfBudget
            left -= sum(map(len, step))
            yield self._ask(step)

    def _ask(self, step: Sequence[Cut]) -> NDArray[Any]:
        """One call of the model, or one of each worker; repeated where it fails."""
        rows = sum(map(len, step))
        if not rows:
            return self.base[:0]
        batches = list(pack(step, -(-rows // self.jobs)))
        answer = allowance.repeated(lambda: self.task.engine.predictions(self.asks, batches, self.tick))
        before, self.mark = self.mark, allowance.clock()
        self.meter.record(rows, self.mark - before)  # with what was to do between the calls
        return answer

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
        self.looked = seconds
        return {
            subject.feature.name: [replace(one.trimmed(), n_predictions=held.n_predictions) for one in by_loss]
            for subject, held, by_loss in zip(task.subjects, self.held, evaluated, strict=True)
        }


def _columns_of(task: Task, subject: Subject) -> FeatureColumns:
    """Of a feature, without any yet; several columns have no order, and rows in groups need donors of other groups."""
    if subject.feature.kind == "pair":
        raise ValueError("budget is for importances, and a pair has curves only: leave out the pair, or budget=")
    kind: type[Latin] | type[Spread] = Latin if subject.feature.kind == "group" or task.blocked else Spread
    ask = pose(subject, kind(task.n), task.n, task.entropy).ask
    assert ask.donor_values is not None  # of a question with donors
    assert isinstance(ask.donor_values.donors, Shifts)  # as both draw them
    return FeatureColumns(kind, ask, ask.donor_values.donors)


def _unchanged(rows: Indices) -> Piece:
    return Piece(UNCHANGED, rows, np.zeros(len(rows), np.intp), np.zeros(len(rows), np.intp))
