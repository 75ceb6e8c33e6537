"""Labels of tied sums: where rounding decides which of two classes leads, only the model knows its label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Site
from losslens.engines.trees.bound import BoundEnsemble, RawSteps
from losslens.tables.frames import Batch, Edit
from losslens.tables.sample import chunks
from losslens.typing import Indices


@dataclass(frozen=True, eq=False)
class Ties:
    """Asks the model for the labels of rows in which two classes lead together."""

    site: Site
    rows: Indices  # of the table: the engine's may be in another order
    rounding: float
    count: list[int]  # of rows that the model has predicted, call by call
    columns: Indices | None = None  # (asks,): those of the curves

    def among(self, bound: BoundEnsemble, sums: NDArray[np.int64]) -> Indices:
        """The places of sums of leaves at which two classes lead."""
        leading: Any = bound.ensemble.link
        return np.flatnonzero(leading.tied(bound.scores(sums), self.rounding))

    def break_in(self, bound: BoundEnsemble, steps: RawSteps, prediction: NDArray[Any], own: NDArray[Any]) -> None:
        """Fill in the model's labels of tied steps of curves, and of tied rows with their own values."""
        tied, rows = self.among(bound, steps.raw), self.among(bound, steps.own)
        of_steps = self._source(bound, steps, tied)
        of_rows = np.repeat((steps.rows.start + rows)[:, None], len(bound.codes), axis=1)
        if len(tied) + len(rows):
            prediction[tied], own[rows] = np.split(self.labels(np.concatenate([of_steps, of_rows])), [len(tied)])

    def labels(self, source: Indices) -> NDArray[Any]:
        """The model's labels of rows whose columns take their values from these rows, (m, p)."""
        respond: Callable[[Any], NDArray[Any]] | None = self.site.respond
        assert respond is not None  # `choose_exact` has it
        source, each = self.rows[source], []
        for part in chunks(source[:, 0], source.shape[1]):
            some, base = source[part], source[part, 0]
            moved = np.flatnonzero((some != base[:, None]).any(axis=0))
            edits = [Edit(0, len(some), j, self.site.column(j), some[:, j]) for j in moved.tolist()]
            each.append(respond(Batch(self.site.table).fill(base, edits)))
            self.count.append(len(some))
        return np.concatenate(each)

    def _source(self, bound: BoundEnsemble, steps: RawSteps, tied: Indices) -> Indices:
        """Where the values of rows at these steps come from, (m, p): all values of a class have one label."""
        assert self.columns is not None  # there are curves
        row = np.searchsorted(steps.start[:, -1], tied, side="right")
        column = self.columns[(steps.start[row, 1:] <= tied[:, None]).sum(axis=1)]
        source = np.repeat((steps.rows.start + row)[:, None], len(bound.codes), axis=1)
        for j in np.unique(column).tolist():
            mine, first = column == j, np.unique(bound.codes[j], return_index=True)[1]
            source[mine, j] = first[steps.classes[tied[mine]]]
        return source
