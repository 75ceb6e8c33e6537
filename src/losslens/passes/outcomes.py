"""The outcome of a pass over the rows: means and kept cells of each feature, from which results are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from numpy.typing import NDArray

from losslens.cells.matrix import Cells, Means
from losslens.donors.conditional import Conditioning
from losslens.donors.designs import Design
from losslens.donors.layout import Layout
from losslens.donors.questions import Question
from losslens.engines.repeats import UNSTEADY
from losslens.tables.features import Feature
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """Means and cells of one feature by one loss, as fields of its result; `values` and `layout` may be lazy."""

    values: tuple[NDArray[Any], ...]
    ordered: bool
    layout: Layout
    means: Means
    cells: Cells
    n_predictions: int = 0
    observed: Floats | None = None
    conditioning: Conditioning | None = None
    drawn: tuple[NDArray[Any], ...] | None = None  # values that a sampler drew for the rows of `Task.real_rows`

    @classmethod
    def of(cls, question: Question, means: Means, cells: Cells, n_predictions: int = 0) -> Self:
        """The outcome of a question about a feature; the question itself is not kept."""
        return cls(
            values=question.values, ordered=question.ordered, layout=question.stored_layout, means=means, cells=cells,
            n_predictions=n_predictions, observed=question.observed, conditioning=question.conditioning,
        )  # fmt: skip


class Passed(NamedTuple):
    """The outcomes of a pass: all losses of a call share predictions, and each has its own sample and means."""

    samples: Sequence[Sample]  # the rows with predictions, and with each loss
    outcomes: Sequence[Sequence[Outcome]]  # of each feature, by each loss
    n_predictions: int = 0  # by the model


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The outcome for one feature and loss, with its design and engine."""

    feature: Feature
    design: Design
    engine: str
    sample: Sample
    outcome: Outcome
    declined: str = ""  # why no exact engine was used

    def fields(self, names: Sequence[str], rows: Indices, backend: str) -> dict[str, Any]:
        """The fields that importances and effects share; `names` are those of the table's columns."""
        outcome, totals = self.outcome, self.sample.totals
        n = self.sample.n if totals is None else totals.n
        return {
            "name": self.feature.name,
            "columns": tuple(names[j] for j in self.feature.columns),
            "values": outcome.values,
            "ordered": outcome.ordered,
            "design": self.design.remembered,
            "engine": self.engine,
            "exact": self.design.is_exact(n) and self.feature.kind != "pair" and self.declined != UNSTEADY,
            "n_predictions": outcome.n_predictions,
            "layout": outcome.layout,
            "sample": self.sample,
            "at": rows,
            "means": outcome.means,
            "cells": outcome.cells,
            "backend": backend,
            "declined": self.declined,
            "observed": outcome.observed,
            "conditioning": outcome.conditioning,
        }
