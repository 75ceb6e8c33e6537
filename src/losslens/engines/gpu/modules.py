"""Torch modules on the device that they live on: the table is sent there once, and batches are put together there.

What travels for a batch is which rows and which values it holds, and the predictions that come back. The next batch is
computed while this one's predictions are on their way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from losslens.donors.questions import Ask
from losslens.engines.batches import Cut, edits
from losslens.engines.blackbox import BlackBox, Mixer
from losslens.engines.gpu.memory import BatchSizes
from losslens.models import Responder, TorchModule
from losslens.progress import Tick
from losslens.tables.columns import Column
from losslens.tables.frames import Table
from losslens.typing import Indices, Mask

BATCH = 1 << 17  # rows at a time where there is a GPU to fill
AHEAD = 2  # batches that are under way while an earlier one is put away


class Lab:
    """A module with the table beside it, on one device."""

    def __init__(self, table: Table, respond: Responder, batch_rows: int) -> None:
        assert isinstance(respond.predict, TorchModule)  # callers have asked
        self.predict, self.check = respond.predict, respond.check
        self.rows = self.predict.as_rows(np.asarray(table.native))
        self.steps = BatchSizes(batch_rows, "rows")
        self.columns: dict[int, tuple[Column, Any]] = {}

    def index(self, index: Indices) -> Any:
        """Places of rows or values, sent to the device."""
        return torch.from_numpy(np.ascontiguousarray(index, np.int64)).to(self.rows.device, non_blocking=True)

    def values(self, column: Column) -> Any:
        """The values of a column, sent to the device once."""
        if id(column) not in self.columns:  # which is kept, so that nobody else gets its number
            self.columns[id(column)] = column, self.predict.as_rows(column.array)
        return self.columns[id(column)][1]

    def answers(self, total: int, build: Callable[[slice], Any]) -> Iterator[tuple[slice, _Coming]]:
        """Predictions of rows that are built part by part; a part that does not fit is halved."""
        return self.steps.over(total, lambda part: _Coming(self.predict.ask(build(part)), part))

    def finished(self, coming: _Coming) -> NDArray[Any]:
        """Predictions that have arrived, checked."""
        return self.check(coming.array(), coming.rows)


class _Coming:
    """Predictions on their way from the device; the copy does not wait for batches that are launched after it."""

    def __init__(self, said: Any, part: slice) -> None:
        self.rows, self.said, self.arrived = part.stop - part.start, said, None
        if isinstance(said, torch.Tensor) and said.is_cuda:
            said = said.detach()
            said = said.float() if said.dtype == torch.bfloat16 else said
            self.said = torch.empty(said.shape, dtype=said.dtype, pin_memory=True)
            self.said.copy_(said, non_blocking=True)
            self.arrived = torch.cuda.Event()
            self.arrived.record(torch.cuda.current_stream(said.device))

    def array(self) -> Any:
        if self.arrived is not None:
            self.arrived.synchronize()
        return self.said


@dataclass(frozen=True, eq=False)
class Modules(BlackBox):
    """Asks a torch module, on the device that it lives on."""

    travels: ClassVar[bool] = False

    @classmethod
    def of(cls, table: Table, respond: Responder, batch_rows: int) -> Modules:
        """On a GPU batches are larger."""
        assert isinstance(respond.predict, TorchModule)
        return cls(table, respond, BATCH if respond.predict.like.is_cuda else batch_rows)

    @property
    def is_remote(self) -> bool:
        """Whether a device works while this processor does something else."""
        return bool(self.lab.rows.is_cuda)

    @cached_property
    def lab(self) -> Lab:
        """The module and the table on its device."""
        assert isinstance(self.respond, Responder)
        return Lab(self.table, self.respond, self.batch_rows)

    def mixer(self, players: Sequence[tuple[int, ...]], columns: dict[int, Column]) -> Mixer:
        """Mixed rows are put together on the device, too."""
        return _ModuleMixer(self.table, players, columns, self.respond, self.batch_rows, lab=self.lab)

    def _predict(
        self, rows: Indices, asks: Sequence[Ask], batches: Iterable[list[Cut]], tick: Tick
    ) -> Iterator[tuple[list[Cut], NDArray[Any]]]:
        """Batch by batch, in order; threads would wait for each other at the device."""
        waiting: deque[tuple[list[Cut], _Coming]] = deque()
        base = _Base(self.lab, rows)
        for batch in batches:
            parts = _Parts(batch)
            for part, coming in self.lab.answers(len(parts), partial(base.part, parts, asks)):
                waiting.append((parts[part], coming))
                if len(waiting) > AHEAD:
                    yield self._arrived(*waiting.popleft(), tick)
        while waiting:
            yield self._arrived(*waiting.popleft(), tick)

    def _arrived(self, batch: list[Cut], coming: _Coming, tick: Tick) -> tuple[list[Cut], NDArray[Any]]:
        predictions = self.lab.finished(coming)
        tick(len(predictions))
        return batch, predictions


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
        found: list[Cut] = []
        for piece, end in zip(self.batch, self.ends, strict=True):
            start = int(end) - len(piece)
            if start < part.stop and part.start < end:
                found.append(piece.cut(max(part.start - start, 0), min(part.stop - start, len(piece))))
        return found


class _Base:
    """Rows of a block on the device; most batches repeat those of the last one, with other values in one column."""

    def __init__(self, lab: Lab, rows: Indices) -> None:
        self.lab, self.rows = lab, rows
        self.wanted: Indices | None = None
        self.held: Any = None

    def part(self, parts: _Parts, asks: Sequence[Ask], part: slice) -> Any:
        """Rows of a part of a batch, values replaced."""
        batch = parts[part]
        if len(batch) > 1 or self.wanted is not batch[0].rows:
            self.wanted = batch[0].rows if len(batch) == 1 else np.concatenate([piece.rows for piece in batch])
            self.held = self.lab.rows.index_select(0, self.lab.index(self.rows[self.wanted]))
        found = self.held.clone()  # a module may work in place
        for edit in edits(batch, asks):
            values = self.lab.values(edit.source).index_select(0, self.lab.index(edit.index))
            found[edit.start : edit.stop, edit.column].view(len(edit.index), -1)[:] = values[:, None]
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class _ModuleMixer(Mixer):
    """Asks a torch module for mixed rows."""

    lab: Lab

    def _batches(self, rows: Indices, donors: Indices, kept: Mask, tick: Tick) -> Iterator[tuple[int, NDArray[Any]]]:
        waiting: deque[tuple[int, _Coming]] = deque()

        def mixed(part: slice) -> Any:
            own, lent = (self.lab.rows.index_select(0, self.lab.index(some[part])) for some in (rows, donors))
            return torch.where(self._marks(kept[part]), own, lent)

        for part, coming in self.lab.answers(len(rows), mixed):
            waiting.append((part.start, coming))
            if len(waiting) > AHEAD:
                yield self._arrived(*waiting.popleft(), tick)
        while waiting:
            yield self._arrived(*waiting.popleft(), tick)

    def _arrived(self, start: int, coming: _Coming, tick: Tick) -> tuple[int, NDArray[Any]]:
        predictions = self.lab.finished(coming)
        tick(len(predictions))
        return start, predictions

    def _marks(self, kept: Mask) -> Any:
        """Which columns keep the row's own value; most often the same for all rows, which is then sent once."""
        alike = kept[:1] if kept.strides[0] == 0 else kept
        return torch.from_numpy(self._columns(alike)).to(self.lab.rows.device, non_blocking=True)
