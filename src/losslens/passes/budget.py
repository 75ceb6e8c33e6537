"""How many rows and cells fit into memory, and the outcome of a pass: means and kept cells of each feature.

A pass is *complete* if half of the memory holds all cells. Otherwise it is *streamed*: rows are processed in parts,
their cells are averaged and dropped, and only the cells of a random sample of rows are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Cells, Means
from losslens.donors.designs import Design
from losslens.donors.layout import Layout
from losslens.donors.questions import Question
from losslens.tables.features import Feature
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices

FEWEST_ROWS = 16  # rows that a streamed pass processes at a time, at least; if features are too many, in turns


class HasWidth(Protocol):
    """A question, or what a plan knows of it."""

    @property
    def width(self) -> int:
        """Cells in a row."""


Wide = TypeVar("Wide", bound=HasWidth)


@dataclass(frozen=True)
class Budget:
    """The rows and cells that fit into memory."""

    memory: int
    cell_bytes: int  # a cell's prediction and its change of loss

    def fits(self, questions: Sequence[HasWidth], n: int) -> bool:
        """Whether all cells fit into half of the memory."""
        return n * self.row_bytes(questions) <= self.memory // 2

    def row_bytes(self, questions: Sequence[HasWidth]) -> int:
        """Bytes of the cells of one row."""
        return self.cell_bytes * sum(question.width for question in questions)

    def kept_rows(self, questions: Sequence[HasWidth], n: int) -> int:
        """Rows whose cells are kept."""
        return int(min(n, self.memory // 2 // self.row_bytes(questions)))

    def rows_to_keep(self, widths: Sequence[int], n: int, entropy: int) -> Indices:
        """All rows, or a random sample, the same for all features with these numbers of cells a row."""
        row_bytes = self.cell_bytes * sum(widths)
        if n * row_bytes <= self.memory // 2:
            return np.arange(n)
        return np.sort(np.random.default_rng([entropy, n]).permutation(n)[: self.memory // 2 // row_bytes])

    def rows_at_a_time(self, questions: Sequence[HasWidth]) -> int:
        """Rows that a streamed pass processes at a time: a sixteenth of the memory, as the loss makes copies."""
        return max(1, self.memory // 16 // self.row_bytes(questions))

    def turns(self, questions: Sequence[Wide]) -> Iterator[list[Wide]]:
        """Features that are streamed together."""
        turn: list[Wide] = []
        for question in questions:
            if turn and self.rows_at_a_time([*turn, question]) < FEWEST_ROWS:
                yield turn
                turn = []
            turn.append(question)
        yield turn


@dataclass(frozen=True, eq=False, kw_only=True)
class Filled:
    """The outcome of a pass for one feature, as fields of its result; `values` and `meeting` may be lazy."""

    values: tuple[NDArray[Any], ...]
    ordered: bool
    meeting: Layout
    means: Means
    cells: Cells
    n_predictions: int = 0
    question: Question | None = None  # None where the engine needed none

    @classmethod
    def of(cls, question: Question, means: Means, cells: Cells, n_predictions: int = 0) -> Self:
        """The outcome for a feature with a question."""
        return cls(
            values=question.values, ordered=question.ordered, meeting=question.meeting, means=means, cells=cells,
            n_predictions=n_predictions, question=question,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Answered:
    """The outcome of a pass for one feature, with its design and engine."""

    feature: Feature
    design: Design
    engine: str
    sample: Sample
    filled: Filled
    declined: str = ""  # why no exact engine was used

    def fields(self, names: Sequence[str], rows: Indices, backend: str) -> dict[str, Any]:
        """The fields that importances and effects share; `names` are those of the table's columns."""
        filled, question, totals = self.filled, self.filled.question, self.sample.totals
        n = self.sample.n if totals is None else totals.n
        return {
            "name": self.feature.name,
            "columns": tuple(names[j] for j in self.feature.columns),
            "values": filled.values,
            "ordered": filled.ordered,
            "design": self.design.remembered,
            "engine": self.engine,
            "exact": self.design.is_exact(n) and self.feature.kind != "pair",
            "n_predictions": filled.n_predictions,
            "meeting": filled.meeting,
            "sample": self.sample,
            "at": rows,
            "means": filled.means,
            "cells": filled.cells,
            "backend": backend,
            "declined": self.declined,
            "observed": None if question is None else question.observed,
            "conditioning": None if question is None else question.conditioning,
        }


class RowMass:
    """Weights of the rows if their own cells, whose changes are 0, are left out; shared by all features."""

    def __init__(self, sample: Sample) -> None:
        self.weight = sample.weight

    @cached_property
    def met(self) -> Floats:
        """The total weight of the donors of each row, itself left out."""
        return np.asarray(1 - self.weight)

    @cached_property
    def mass(self) -> Floats:
        """The weight of each row as observation."""
        return self.weight * self.met

    @cached_property
    def lent(self) -> Floats:
        """The weight of each row as donor."""
        return np.asarray(self.mass / self.mass.sum())
