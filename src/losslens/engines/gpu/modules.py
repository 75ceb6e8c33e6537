"""Torch modules on their own device: the table is copied there once, and batches are assembled there.

For a batch only positions of rows and values are sent, and predictions come back. The next batch is computed while the
predictions of this one are copied. Where rows have donors of their own, sums of cells come back instead (`own_donors`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from losslens.donors.questions import Ask, Question
from losslens.engines.base import Averaged, GameArrays
from losslens.engines.batches import Cut, edits
from losslens.engines.blackbox import BlackBox, Mixer, is_sparing
from losslens.engines.gpu.arrays import BatchSizes, Copied, DeviceArrays, host
from losslens.engines.gpu.losses import PredictionLoss
from losslens.engines.gpu.own_donors import OwnDonorCells
from losslens.engines.gpu.walk_pairs import WalkPairs
from losslens.losses import LARGEST, Loss
from losslens.models import Responder, TorchModule
from losslens.progress import Tick
from losslens.tables.columns import Column
from losslens.tables.frames import Table
from losslens.tables.sample import Sample
from losslens.typing import Indices, Mask

BATCH = 1 << 17  # rows of a batch on a GPU
# Steps of walks predicted at a time, and values of their players: fewer would be over before the next are launched.
TOGETHER, VALUES_TOGETHER = 1 << 20, 1 << 26
AHEAD = 2  # batches computed while the predictions of an earlier one are stored


class DeviceTable:
    """A module and the table, on one device."""

    def __init__(self, table: Table, respond: Responder, batch_rows: int) -> None:
        assert isinstance(respond.predict, TorchModule)  # callers have tested it
        self.predict, self.check, self.response = respond.predict, respond.check, respond.response
        self.rows = self.predict.as_rows(np.asarray(table.native))
        self.sizes = BatchSizes(batch_rows, "rows")
        self.columns: dict[int, tuple[Column, Any]] = {}

    def index(self, index: Indices) -> Any:
        """Positions of rows or values, sent to the device."""
        return torch.from_numpy(np.ascontiguousarray(index, np.int64)).to(self.rows.device, non_blocking=True)

    def numbers(self, numbers: NDArray[Any]) -> Any:
        """Numbers in double precision, sent to the device."""
        return torch.from_numpy(np.ascontiguousarray(numbers, np.float64)).to(self.rows.device, non_blocking=True)

    def values(self, column: Column) -> Any:
        """The values of a column, sent to the device once."""
        if id(column) not in self.columns:  # the column is kept too, so that its id isn't reused
            self.columns[id(column)] = column, self.predict.as_rows(column.array)
        return self.columns[id(column)][1]

    def predictions(self, total: int, build: Callable[[slice], Any]) -> Iterator[tuple[slice, _Pending]]:
        """Predictions of rows that are built part by part; a part that does not fit is halved."""
        return self.sizes.over(total, lambda part: _Pending(self.predict.output(build(part)), part))

    def as_predictions(self, output: Any, rows: int) -> Any | None:
        """The output for so many rows, on the device, in the form that `Responder.check` gives it; None if unusual."""
        if not isinstance(output, torch.Tensor) or output.device != self.rows.device or output.is_complex():
            return None
        numbers = output.detach()
        numbers = numbers[:, 0] if numbers.ndim == 2 and numbers.shape[1] == 1 else numbers
        if numbers.ndim not in ((1,) if self.response == "values" else (1, 2)) or len(numbers) != rows:
            return None
        if numbers.dtype != torch.float32:
            numbers = numbers.to(torch.float32 if numbers.dtype == torch.bfloat16 else torch.float64)
        if self.response == "probabilities" and numbers.ndim == 1:
            return torch.stack([1 - numbers, numbers], dim=1)
        return numbers

    def usual(self, predictions: Any) -> Any:
        """Whether all are finite and not too large, as a tensor."""
        return predictions.abs().max() <= LARGEST

    def finished(self, pending: _Pending) -> NDArray[Any]:
        """Predictions, copied from the device and checked."""
        return self.check(pending.wait(), pending.rows)


class _Pending(Copied):
    """Predictions of some rows being copied from the device."""

    def __init__(self, predictions: Any, part: slice) -> None:
        self.rows = part.stop - part.start
        if isinstance(predictions, torch.Tensor) and predictions.is_cuda:
            predictions = predictions.detach()
            predictions = predictions.float() if predictions.dtype == torch.bfloat16 else predictions
        super().__init__(predictions)


@dataclass(frozen=True, eq=False)
class Modules(BlackBox):
    """Calls a torch module on its own device."""

    @classmethod
    def of(cls, table: Table, respond: Responder, batch_rows: int) -> Modules:
        """The engine of a module; on a GPU batches are larger."""
        assert isinstance(respond.predict, TorchModule)
        return cls(table, respond, BATCH if respond.predict.like.is_cuda else batch_rows)

    @property
    def is_remote(self) -> bool:
        """Whether the device works in parallel to this processor."""
        return bool(self.on_device.rows.is_cuda)

    @cached_property
    def on_device(self) -> DeviceTable:
        """The module and the table on its device."""
        assert isinstance(self.respond, Responder)
        return DeviceTable(self.table, self.respond, self.batch_rows)

    def averages(self, ask: Ask) -> bool:
        """Whether `averaged` takes a feature: rows have donors of their own, and every cell is predicted."""
        return self.is_remote and ask.donor_values is not None and not is_sparing(ask)

    def averaged(
        self, rows: Indices, questions: Sequence[Question], sample: Sample, loss: Loss | None, tick: Tick, *, kept: bool
    ) -> tuple[NDArray[Any], Iterator[Averaged]] | None:
        """Predictions of these rows, unchanged, and then feature by feature the sums of their cells.

        kept: with the cells. None where the model returned something unusual, which the black box will explain.
        """
        cells = OwnDonorCells(self.on_device, rows, questions, sample, loss)
        predicted = cells.predict(self.batch_rows, tick)
        if predicted is None:
            return None
        # Sums are launched before anything is waited for.
        averaged = cells.averaged(questions, *predicted.predictions, kept=kept)
        if not bool(predicted.usual):
            return None
        return self.on_device.check(host(predicted.predictions[0]), len(rows)), (one() for one in averaged)

    def mixer(self, players: Sequence[tuple[int, ...]], columns: dict[int, Column]) -> Mixer:
        """Mixed rows are assembled on the device, too."""
        return _ModuleMixer(
            self.table, players, columns, self.respond, self.batch_rows, on_device=self.on_device, remote=self.is_remote
        )

    def _predict(
        self, rows: Indices, asks: Sequence[Ask], batches: Iterable[list[Cut]], tick: Tick
    ) -> Iterator[tuple[list[Cut], NDArray[Any]]]:
        """Batch by batch, in order; threads would wait for each other at the device."""
        builder = _BatchBuilder(self.on_device, rows)

        def launched() -> Iterator[tuple[list[Cut], _Pending]]:
            for batch in batches:
                parts = _Parts(batch)
                for part, pending in self.on_device.predictions(len(parts), partial(builder.part, parts, asks)):
                    yield parts[part], pending

        return _finished(self.on_device, launched(), tick)


Label = TypeVar("Label")


def _finished(
    on_device: DeviceTable, launched: Iterable[tuple[Label, _Pending]], tick: Tick
) -> Iterator[tuple[Label, NDArray[Any]]]:
    """Predictions in the order of launching, some batches behind."""
    waiting: deque[tuple[Label, _Pending]] = deque()
    for batch in launched:
        waiting.append(batch)
        if len(waiting) > AHEAD:
            yield _arrived(on_device, *waiting.popleft(), tick)
    while waiting:
        yield _arrived(on_device, *waiting.popleft(), tick)


def _arrived(on_device: DeviceTable, label: Label, pending: _Pending, tick: Tick) -> tuple[Label, NDArray[Any]]:
    predictions = on_device.finished(pending)
    tick(len(predictions))
    return label, predictions


class _Parts:
    """The cells of a batch, to be taken in parts."""

    def __init__(self, batch: list[Cut]) -> None:
        self.batch = batch
        self.ends = np.cumsum([len(piece) for piece in batch])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, part: slice) -> list[Cut]:
        if part.stop - part.start == len(self):
            return self.batch
        cuts: list[Cut] = []
        for piece, end in zip(self.batch, self.ends, strict=True):
            start = int(end) - len(piece)
            if start < part.stop and part.start < end:
                cuts.append(piece.cut(max(part.start - start, 0), min(part.stop - start, len(piece))))
        return cuts


class _BatchBuilder:
    """Assembles batches on the device; most repeat the rows of the last one, with other values in one column."""

    def __init__(self, on_device: DeviceTable, rows: Indices) -> None:
        self.on_device, self.rows = on_device, rows
        self.positions: Indices | None = None
        self.held: Any = None

    def part(self, parts: _Parts, asks: Sequence[Ask], part: slice) -> Any:
        """Rows of a part of a batch, with values replaced."""
        batch, on_device = parts[part], self.on_device
        if len(batch) > 1 or self.positions is not batch[0].rows:
            self.positions = batch[0].rows if len(batch) == 1 else np.concatenate([piece.rows for piece in batch])
            self.held = on_device.rows.index_select(0, on_device.index(self.rows[self.positions]))
        rows = self.held.clone()  # a module may work in place
        for edit in edits(batch, asks):
            values = on_device.values(edit.source).index_select(0, on_device.index(edit.index))
            rows[edit.start : edit.stop, edit.column].view(len(edit.index), -1)[:] = values[:, None]
        return rows


@dataclass(frozen=True, eq=False, kw_only=True)
class _ModuleMixer(Mixer):
    """Calls a torch module for mixed rows."""

    on_device: DeviceTable
    remote: bool  # whether the device works in parallel to this processor

    def arrays(self, codes: NDArray[np.int32], sample: Sample, loss: Loss, tick: Tick) -> GameArrays | None:
        """On the device, if it is not this processor, and rows are not in groups."""
        on_device = self.on_device
        xp = DeviceArrays(on_device.rows.device)
        base = xp.asarray(sample.prediction)
        judge = PredictionLoss.of(loss, base, 0 if sample.classes is None else len(sample.classes))
        if judge is None or loss.domains is not None or sample.block is not None or not self.remote:
            return None
        y, player = on_device.numbers(sample.target(loss)), xp.asarray(self._player_of_column())
        unchecked: deque[tuple[Any, ...]] = deque()

        def predict(rows: Any, donors: Any, kept: Any) -> Any:
            if not len(rows):  # rows and donors differ in one player at most
                return base[:0]
            every = torch.cat([kept, torch.ones_like(kept[:, :1])], dim=1)  # columns of no player are kept

            def mixed(part: slice) -> Any:
                own, of_donors = (on_device.rows.index_select(0, some[part]) for some in (rows, donors))
                output = on_device.predict.output(torch.where(every[part][:, player], own, of_donors))
                return on_device.as_predictions(output, part.stop - part.start)

            parts = [numbers for _, numbers in on_device.sizes.over(len(rows), mixed)]
            if not all(one is not None and one.shape[1:] == base.shape[1:] for one in parts):
                return xp.asarray(again(rows, donors, kept))
            answers = torch.cat(parts)
            check(1)
            unchecked.append((Copied(on_device.usual(answers)), rows, donors, kept))
            tick(len(rows))
            return answers.to(base.dtype)

        def check(most: int = 0) -> None:
            """Check all predictions but the last, for which the processor would have to wait."""
            while len(unchecked) > most:
                usual, *mixed_rows = unchecked.popleft()
                if not bool(usual.wait()):
                    again(*mixed_rows)

        def again(*mixed_rows: Any) -> NDArray[Any]:
            """Predict by the black box, which says what is wrong."""
            on_host: Any = [host(one) for one in mixed_rows]
            return self.predict(on_host[0], on_host[1], on_host[2], tick)

        return GameArrays(
            xp, xp.asarray(codes), base, predict, lambda rows, some: judge(y[rows], some),
            partial(WalkPairs, on_device), check=check,
            together=min(TOGETHER, max(1, VALUES_TOGETHER // codes.shape[1])),
        )  # fmt: skip

    def _batches(self, rows: Indices, donors: Indices, kept: Mask, tick: Tick) -> Iterator[tuple[int, NDArray[Any]]]:
        on_device = self.on_device

        def mixed(part: slice) -> Any:
            own, of_donors = (on_device.rows.index_select(0, on_device.index(some[part])) for some in (rows, donors))
            return torch.where(self._kept_columns(kept[part]), own, of_donors)

        launched = ((part.start, pending) for part, pending in on_device.predictions(len(rows), mixed))
        return _finished(on_device, launched, tick)

    def _kept_columns(self, kept: Mask) -> Any:
        """Which columns keep the row's value; usually the same for all rows, and then sent as a single row."""
        distinct = kept[:1] if kept.strides[0] == 0 else kept
        return torch.from_numpy(self._columns(distinct)).to(self.on_device.rows.device, non_blocking=True)
