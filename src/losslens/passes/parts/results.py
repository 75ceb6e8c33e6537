"""From sums over all parts to results: numbers are those of all rows, single rows those that were kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Cells, Means
from losslens.donors.designs import All, Design
from losslens.donors.layout import CommonGrid
from losslens.passes.parts.counting import Counted, CountedGrid, looked_at
from losslens.passes.parts.reading import Stretch
from losslens.passes.parts.stream import Stream
from losslens.progress import Tick, bar
from losslens.results.effects import Effects, FeatureEffect, of_class
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.tables.sample import Sample, Totals
from losslens.typing import Floats, Indices

W = TypeVar("W")
S = TypeVar("S")


def sum_over_parts(
    stream: Stream, counted: Counted, evaluate: Callable[[W, Stretch, Tick], S], work: W, doing: str = "explaining"
) -> S:
    """The second pass: what the stretches add up to, in their order."""
    stretches = looked_at(stream.stretches, counted)
    with bar(stream.n, doing, stream.progress, "rows") as tick:
        return reduce(add, stream.workers.map(evaluate, work, stretches, tick))


def loss_sums(sample: Sample) -> Floats:
    """Sums of w l, w^2 l and w^2 l^2: they add up to the mean loss and to how far rows move it."""
    w, loss = sample.weight, np.zeros(sample.n) if sample.loss is None else sample.loss
    return np.array([w @ loss, w**2 @ loss, w**2 @ loss**2])


def totals(stream: Stream, counted: Counted, rows: Indices, losses: Floats) -> Totals:
    """Of all rows, from their `loss_sums`; `rows` are those that are kept."""
    (error, w2l, w2l2), squares = losses.tolist(), counted.squares
    error_square = max(w2l2 - 2 * error * w2l + error**2 * squares, 0.0)
    return Totals(stream.n, rows, counted.units, squares, error, error_square)


def curves_only(sample: Sample, mass: Floats, pd: NDArray[Any]) -> Means:
    """The means of a column without a loss: `mass` is that of the donors at each value of the grid."""
    return Means(local=None, mass=sample.weight, weights=mass / mass.sum(), pd=pd)


@dataclass(frozen=True, eq=False)
class SummedColumn:
    """What all parts add up to for one column."""

    grid: CountedGrid
    place: Indices  # (r,): where on the grid the own values of the kept rows are
    means: Means
    cells: Cells
    design: Design = field(default_factory=All)
    n_predictions: int = 0


@dataclass(frozen=True, eq=False)
class Summed:
    """What all parts add up to."""

    stream: Stream
    engine: str
    sample: Sample  # the kept rows
    columns: dict[int, SummedColumn]
    n_predictions: int

    def importances(self) -> Importances:
        """The result of `feature_importance`."""
        loss = self.stream.loss
        assert loss is not None
        found = [FeatureImportance(**shared, loss=loss).trimmed() for shared in self._features()]
        return Importances({feature.name: feature for feature in found}, self.n_predictions)

    def effects(self, k: int | None, label: str | None) -> Effects:
        """The result of `feature_effect`, of the k-th class."""
        found = [FeatureEffect(**shared, target=label) for shared in self._features()]
        return Effects({one.name: one if k is None else of_class(one, k) for one in found}, self.n_predictions)

    def _features(self) -> list[dict[str, Any]]:
        """The fields that importances and effects share, of each feature."""
        return [self._shared(feature.name, feature.columns[0]) for feature in self.stream.features]

    def _shared(self, name: str, j: int) -> dict[str, Any]:
        found, head, every = self.columns[j], self.stream.head, np.arange(self.sample.n)
        return {
            "name": name,
            "columns": (head.names[j],),
            "values": (found.grid.values,),
            "ordered": found.grid.ordered,
            "design": found.design,
            "engine": self.engine,
            "exact": found.design.all_pairs,
            "n_predictions": found.n_predictions,
            "meeting": CommonGrid(found.place, every, len(found.grid)),
            "sample": self.sample,
            "at": every,
            "means": found.means,
            "cells": found.cells,
            "backend": "pandas" if head.backend == "numpy" else head.backend,
            "declined": self.stream.declined if self.engine == "blackbox" else "",
        }
