"""How many rows and cells fit into memory.

A result holds a few numbers for each row and feature (`cells.matrix`). Half of the memory that these leave is for
cells. A pass is *complete* if that holds all of them. Otherwise it is *streamed*: rows are processed in parts, their
cells are averaged and dropped, and only the cells of a random sample of rows are kept.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from losslens.cells.matrix import besides_cells
from losslens.donors.questions import Question
from losslens.text import size_in_words
from losslens.typing import Indices

PART_SHARE = 32  # the cells of the rows that a streamed pass processes at a time: at most this part of the memory
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class Budget:
    """How many rows and cells a call may keep and process at a time."""

    memory: int
    cell_bytes: int  # a cell's prediction and its change of loss
    other_widths: tuple[int, ...] = ()  # cells in a row of features that have been computed before and share the memory
    losses: int = 1  # of the same cells: each has importances of all rows

    def fits(self, questions: Sequence[Question], n: int) -> bool:
        """Whether all cells are kept."""
        return self.kept_rows([question.width for question in questions], n) == n

    def row_bytes(self, questions: Sequence[Question]) -> int:
        """Bytes of the cells of one row."""
        return self.cell_bytes * sum(question.width for question in questions)

    def rows_to_keep(self, widths: Sequence[int], n: int, entropy: int) -> Indices:
        """All rows, or a random sample, the same for all features with these numbers of cells a row."""
        kept = self.kept_rows(widths, n)
        if kept == n:
            return np.arange(n)
        return np.sort(np.random.default_rng([entropy, n]).permutation(n)[:kept])

    def check_machine(self, widths: Sequence[int], n: int) -> None:
        """Raise ValueError if features with these numbers of cells a row take more memory than the machine has."""
        every = (*widths, *self.other_widths)
        kept = self.kept_rows(widths, n) * self.cell_bytes * sum(every)
        needed, available = kept + besides_cells(n, len(every) * self.losses), machine_bytes()
        if needed > available:
            raise ValueError(
                f"this call would hold {size_in_words(needed)}, but the machine has {size_in_words(int(available))}; "
                "pass fewer rows or features, or a smaller memory="
            )

    def kept_rows(self, widths: Sequence[int], n: int) -> int:
        """Rows whose cells are kept."""
        widths = (*widths, *self.other_widths)
        return int(min(n, self.cells(len(widths), n) // sum(widths)))

    def cells(self, features: int, n: int) -> int:
        """Cells that are kept: they fit into half of the memory that is left, at least a sixteenth of all."""
        free = max((self.memory - besides_cells(n, features * self.losses)) // 2, self.memory // 16)
        return free // self.cell_bytes

    def rows_at_a_time(self, questions: Sequence[Question]) -> int:
        """Rows that a streamed pass processes at a time: a small part of the memory, as the loss makes copies."""
        return max(1, self.memory // PART_SHARE // self.row_bytes(questions))


def machine_bytes() -> float:
    """The memory of this machine, or of its container (cgroup v2); infinity where the system reports neither."""
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no such call
        return inf
    machine = float(pages * size) if min(pages, size) > 0 else inf  # -1: unknown
    try:
        return min(machine, float(CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or one with the limit "max"
        return machine
