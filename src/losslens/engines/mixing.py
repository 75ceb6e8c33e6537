"""Rows that keep the values of some players and take a donor's values of the others: what a Shapley game asks for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.columns import Column
from losslens.progress import Tick
from losslens.tables import Batch, Edit, Table
from losslens.workers import active

Indices = NDArray[np.intp]
Marks = NDArray[np.bool_]
STEP = 64  # rows of a batch come in these: most libraries of linear algebra then treat every row alike


@dataclass(frozen=True, eq=False)
class Mixer:
    """Asks the model itself for mixed rows."""

    table: Table
    players: Sequence[tuple[int, ...]]  # the columns of each
    columns: dict[int, Column]
    respond: Callable[[Any], NDArray[Any]]
    batch_rows: int
    n_jobs: int | None = None

    def predict(self, rows: Indices, donors: Indices, kept: Marks, tick: Tick) -> NDArray[Any]:
        """Predictions of rows[b] with the values of donors[b] for the players that are not in kept[b], (m, ...)."""
        found: NDArray[Any] | None = None
        for start, predictions in self._batches(rows, donors, kept, tick):
            if found is None:
                found = np.empty((len(rows), *predictions.shape[1:]), predictions.dtype)
            if predictions.shape[1:] != found.shape[1:]:
                raise ValueError(f"the model's answers changed their shape: {predictions.shape} after {found.shape}")
            found[start : start + len(predictions)] = predictions
        assert found is not None  # callers ask for a row at least
        return found

    def _batches(self, rows: Indices, donors: Indices, kept: Marks, tick: Tick) -> Iterator[tuple[int, NDArray[Any]]]:
        size = max(STEP, self.batch_rows // STEP * STEP)
        parts = [slice(start, min(start + size, len(rows))) for start in range(0, len(rows), size)]
        cluster = active()
        if cluster is not None:
            answers: Any = cluster.map(_mix_far_away, (self,), ((rows[p], donors[p], kept[p]) for p in parts))
        elif len(parts) == 1 or (self.n_jobs is None and "joblib" not in sys.modules):
            answers = (self._mixed(rows[part], donors[part], kept[part]) for part in parts)
        else:
            from joblib import Parallel, delayed

            ask = delayed(_ask)
            workers = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
            answers = workers(ask(self, rows[part], donors[part], kept[part]) for part in parts)
        for part, predictions in zip(parts, answers, strict=True):
            tick(len(predictions))
            yield part.start, predictions

    def _mixed(self, rows: Indices, donors: Indices, kept: Marks) -> NDArray[Any]:
        batch, edits = Batch(self.table), []
        if batch.source is not None:
            return self.respond(batch.mix(rows, donors, self._columns(kept)))
        for j, player in enumerate(self.players):
            if kept[:, j].all():
                continue
            lender = np.where(kept[:, j], rows, donors)
            edits += [Edit(0, len(rows), column, self.columns[column], lender) for column in player]
        return self.respond(batch.fill(rows, edits))

    def _columns(self, kept: Marks) -> Marks:
        """Which columns keep the row's own value, (m, columns): those of no player always do."""
        player = np.full(len(self.table.names), len(self.players))
        for j, columns in enumerate(self.players):
            player[list(columns)] = j
        return np.concatenate([kept, np.ones((len(kept), 1), bool)], axis=1)[:, player]


def _mix_far_away(shared: tuple[Mixer], part: tuple[Indices, Indices, Marks]) -> NDArray[Any]:
    """A batch on a cluster."""
    return shared[0]._mixed(*part)


def _ask(mixer: Mixer, rows: Indices, donors: Indices, kept: Marks) -> NDArray[Any]:
    return mixer._mixed(rows, donors, kept)
