"""The interface between what is asked and who answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from losslens.columns import Column
from losslens.donors import Lending
from losslens.progress import Tick

Indices = NDArray[np.intp]
FEW_VALUES = 64  # with more, a row's own value is a small share: predicting it too keeps batches regular


@dataclass(frozen=True, eq=False)
class Met:
    """The values that each row meets: those of its donors, worked out when asked for."""

    donors: Lending  # (n, m)
    codes: NDArray[np.int32]  # (n,): the value that each row holds
    repeats: bool  # a row may meet a value twice

    def __getitem__(self, rows: Indices) -> NDArray[np.int32]:
        return np.asarray(self.codes[self.donors[rows]])


@dataclass(frozen=True, eq=False)
class Ask:
    """One feature's cells: each row of the table with the feature's columns at other values.

    Value v of the feature puts ``sources[c][index[c][v]]`` into column ``columns[c]``. Row i holds value
    ``own[i]`` itself (-1: none of these) and meets all `size` values, or, where `met` is given, ``met[i]`` alone.
    """

    name: str
    columns: tuple[int, ...]
    sources: tuple[Column, ...]
    index: tuple[Indices, ...]
    own: Indices  # (n,)
    size: int
    met: Met | None = None

    @property
    def width(self) -> int:
        """Cells in a row."""
        return self.size if self.met is None else self.met.donors.shape[1]

    def most(self, rows: int) -> int:
        """The most predictions that `rows` rows can need: with few values a row's own is not asked for."""
        skips = int(self.size <= FEW_VALUES and self.own.min() >= 0)
        return rows * min(self.size - skips, self.width)


@dataclass(frozen=True, eq=False)
class Answer:
    """Predictions of b rows: unchanged, (b,) or (b, K), and in each feature's cells, (b, width) or (b, width, K)."""

    base: NDArray[Any]
    cells: list[NDArray[Any]]
    n_predictions: list[int]  # rows that the model was asked for, one count a feature


class Engine(Protocol):
    """Fills cells. An engine that can't answer exactly what the model would say must not be chosen."""

    name: ClassVar[str]

    def fill(self, rows: Indices, asks: Sequence[Ask], tick: Tick) -> Answer:
        """Predictions of these rows, unchanged and in all cells of each ask."""

    def rows_a_call(self, n: int) -> int:
        """Rows of a full batch, for a table of n rows."""

    def timed_batch(self) -> tuple[int, float]:
        """Rows and seconds of one batch, to estimate the cost of a run."""
