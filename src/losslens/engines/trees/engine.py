"""The tree engine: exact curves of tree ensembles, any loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Ask
from losslens.engines.curves import Steps
from losslens.engines.trees import masks
from losslens.engines.trees.bound import Bound
from losslens.engines.trees.search import raw_steps


@dataclass(frozen=True, eq=False)
class Trees:
    """Walks the trees with one feature free."""

    bound: Bound
    name: ClassVar[str] = "trees"

    @cached_property
    def tables(self) -> masks.Tables | None:
        """The masks of small trees; None where a tree is too large for them."""
        small = int(np.diff(self.bound.leaf_at).max()) <= masks.MOST_LEAVES
        return masks.tables(self.bound) if small else None

    def predict(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Predictions of some rows."""
        some = replace(self.bound, codes=np.ascontiguousarray(self.bound.codes[:, rows]))
        nothing = np.zeros(len(self.bound.size), np.uint8)
        found = [raw.own.copy() for raw in raw_steps(some, self.tables, nothing, 0, len(rows))]
        return self.bound.respond(np.concatenate(found))

    def classes(self, ask: Ask) -> NDArray[np.int32]:
        """The class of each value."""
        return self.bound.class_of[ask.columns[0]]

    def steps(self, asks: Sequence[Ask], start: int, stop: int) -> Iterator[Steps]:
        """The curves of rows start .. stop, some rows at a time."""
        columns = [ask.columns[0] for ask in asks]
        wanted = np.zeros(len(self.bound.size), np.uint8)
        wanted[columns] = 1
        for raw in raw_steps(self.bound, self.tables, wanted, start, stop):
            yield Steps(raw.rows, raw.start, raw.classes, self.bound.respond(raw.raw), self.bound.respond(raw.own))
