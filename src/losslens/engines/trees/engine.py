"""The tree engine: exact curves of tree ensembles, any loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Ask
from losslens.engines.curves import Steps, Walker
from losslens.engines.trees.bound import Bound
from losslens.engines.trees.rules import MOST_LEAVES
from losslens.engines.trees.search import Search


@dataclass(frozen=True, eq=False)
class Trees:
    """Walks the trees with one feature free."""

    bound: Bound
    name: ClassVar[str] = "trees"

    @cached_property
    def tables(self) -> Any:
        """The masks of small trees; None where a tree is too large for them."""
        if int(np.diff(self.bound.leaf_at).max()) > MOST_LEAVES:
            return None
        from losslens.engines.trees.masks import tables  # each search is compiled when it is first needed

        return tables(self.bound)

    def predict(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Predictions of some rows."""
        some = replace(self.bound, codes=np.ascontiguousarray(self.bound.codes[:, rows]))
        search = self._search(np.zeros(len(self.bound.size), np.uint8), some)
        return self.bound.respond(np.concatenate([raw.own.copy() for raw in search.steps(0, len(rows))]))

    def classes(self, ask: Ask) -> NDArray[np.int32]:
        """The class of each value."""
        return self.bound.class_of[ask.columns[0]]

    def walker(self, asks: Sequence[Ask]) -> Walker:
        """Somebody to walk the trees, for one thread."""
        wanted = np.zeros(len(self.bound.size), np.uint8)
        wanted[[ask.columns[0] for ask in asks]] = 1
        return _Walker(self.bound, self._search(wanted, self.bound))

    def _search(self, wanted: NDArray[np.uint8], bound: Bound) -> Search:
        if self.tables is None:
            from losslens.engines.trees.large import LargeTrees

            return LargeTrees(bound, wanted)
        from losslens.engines.trees.small import SmallTrees

        return SmallTrees(bound, self.tables, wanted)


@dataclass(frozen=True, eq=False)
class _Walker:
    """Turns sums of leaves into predictions."""

    bound: Bound
    search: Search

    def steps(self, start: int, stop: int) -> Iterator[Steps]:
        """The curves of rows start .. stop, some rows at a time."""
        respond = self.bound.respond
        for raw in self.search.steps(start, stop):
            yield Steps(raw.rows, raw.start, raw.classes, respond(raw.raw), respond(raw.own))
