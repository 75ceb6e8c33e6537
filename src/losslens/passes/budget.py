"""How many rows and cells fit into memory, and the outcome of a pass: means and kept cells of each feature.

A result holds a few numbers for each row and feature (`cells.matrix`). Half of the memory that these leave is for
cells. A pass is *complete* if that holds all of them. Otherwise it is *streamed*: rows are processed in parts, their
cells are averaged and dropped, and only the cells of a random sample of rows are kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Cells, Means, besides_cells
from losslens.donors.conditional import Conditioning
from losslens.donors.designs import Design
from losslens.donors.layout import Layout
from losslens.donors.questions import Question
from losslens.engines.repeats import UNSTEADY
from losslens.tables.features import Feature
from losslens.tables.sample import Sample, weight_of_others
from losslens.text import size_in_words
from losslens.typing import Floats, Indices

PART_SHARE = 32  # the cells of the rows that a streamed pass processes at a time: at most this part of the memory
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class Budget:
    """The rows and cells that fit into memory."""

    memory: int
    cell_bytes: int  # a cell's prediction and its change of loss
    beside: tuple[int, ...] = ()  # cells in a row of features that have been computed before and share the memory
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
        every = (*widths, *self.beside)
        kept = self.kept_rows(widths, n) * self.cell_bytes * sum(every)
        needed, has = kept + besides_cells(n, len(every) * self.losses), machine_bytes()
        if needed > has:
            raise ValueError(
                f"this call would hold {size_in_words(needed)}, but the machine has {size_in_words(int(has))}; pass "
                "fewer rows or features, or a smaller memory="
            )

    def kept_rows(self, widths: Sequence[int], n: int) -> int:
        """Rows whose cells are kept: they fit into half of the memory that is left, at least a sixteenth of all."""
        widths = (*widths, *self.beside)
        left = max((self.memory - besides_cells(n, len(widths) * self.losses)) // 2, self.memory // 16)
        return int(min(n, left // (self.cell_bytes * sum(widths))))

    def rows_at_a_time(self, questions: Sequence[Question]) -> int:
        """Rows that a streamed pass processes at a time: a small part of the memory, as the loss makes copies."""
        return max(1, self.memory // PART_SHARE // self.row_bytes(questions))


@dataclass(frozen=True, eq=False, kw_only=True)
class Filled:
    """The outcome of a pass for one feature, as fields of its result; `values` and `meeting` may be lazy."""

    values: tuple[NDArray[Any], ...]
    ordered: bool
    meeting: Layout
    means: Means
    cells: Cells
    n_predictions: int = 0
    observed: Floats | None = None
    conditioning: Conditioning | None = None
    drawn: tuple[NDArray[Any], ...] | None = None  # values that a sampler drew for the rows of `Task.real_rows`
    beside: tuple[tuple[Means, Cells], ...] = ()  # of other losses of the same predictions

    @classmethod
    def of(
        cls, question: Question, means: Means, cells: Cells, n_predictions: int = 0,
        beside: tuple[tuple[Means, Cells], ...] = (),
    ) -> Self:  # fmt: skip
        """The outcome for a feature with a question, which is not kept."""
        return cls(
            values=question.values, ordered=question.ordered, meeting=question.lasting, means=means, cells=cells,
            n_predictions=n_predictions, observed=question.observed, conditioning=question.conditioning, beside=beside,
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

    def of_losses(self, samples: Sequence[Sample]) -> Iterator[Answered]:
        """The outcome for each loss of the same predictions; `samples` has the rows with the losses of each."""
        yield replace(self, sample=samples[0], filled=replace(self.filled, beside=()))
        for sample, (means, cells) in zip(samples[1:], self.filled.beside, strict=True):
            yield replace(self, sample=sample, filled=replace(self.filled, means=means, cells=cells, beside=()))

    def fields(self, names: Sequence[str], rows: Indices, backend: str) -> dict[str, Any]:
        """The fields that importances and effects share; `names` are those of the table's columns."""
        filled, totals = self.filled, self.sample.totals
        n = self.sample.n if totals is None else totals.n
        return {
            "name": self.feature.name,
            "columns": tuple(names[j] for j in self.feature.columns),
            "values": filled.values,
            "ordered": filled.ordered,
            "design": self.design.remembered,
            "engine": self.engine,
            "exact": self.design.is_exact(n) and self.feature.kind != "pair" and self.declined != UNSTEADY,
            "n_predictions": filled.n_predictions,
            "meeting": filled.meeting,
            "sample": self.sample,
            "at": rows,
            "means": filled.means,
            "cells": filled.cells,
            "backend": backend,
            "declined": self.declined,
            "observed": filled.observed,
            "conditioning": filled.conditioning,
        }


class RowMass:
    """Weights of the rows if pairs inside groups are left out, or their own cells alone; shared by all features."""

    def __init__(self, sample: Sample) -> None:
        self.weight, self.block = sample.weight, sample.block

    @cached_property
    def met(self) -> Floats:
        """The total weight of the donors of each row: those of other groups, or all but itself."""
        if self.block is None:
            return weight_of_others(self.weight)
        return weight_of_others(np.bincount(self.block, self.weight).astype(float))[self.block]

    @cached_property
    def mass(self) -> Floats:
        """The weight of each row as observation."""
        return self.weight * self.met

    @cached_property
    def lent(self) -> Floats:
        """The weight of each row as donor."""
        return np.asarray(self.mass / self.mass.sum())

    def at_values(self, codes: Indices, size: int, *, apart: bool) -> Floats:
        """The mass of the pairs whose donor has each of so many values; `apart`: without those that are left out."""
        return np.bincount(codes, self.mass if apart else self.weight, size).astype(float)


def machine_bytes() -> float:
    """The memory of this machine, or of its container (cgroup v2); infinity where neither is known."""
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no such call
        return inf
    machine = float(pages * size) if min(pages, size) > 0 else inf  # -1: unknown
    try:
        return min(machine, float(CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or one with the limit "max"
        return machine


def ratio(sums: Floats, mass: Floats) -> Floats:
    """Means; NaN where nothing is averaged: a value that a single row holds, a group that holds all weight."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(mass > 0, sums, np.nan) / mass)


ROUNDING = 1e-13  # of a difference of masses, which are 1 altogether


def share_left(mass: float, total: float) -> float:
    """The share of a mass that is a difference of others: 0 where that is a rounding error."""
    return float(mass / total) if mass > ROUNDING else 0.0
