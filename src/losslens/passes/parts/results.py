"""From sums over all parts to results: numbers are those of all rows, single rows those that were kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Cells, Means
from losslens.cells.row_sums import Deletion
from losslens.donors.designs import Design
from losslens.donors.layout import CommonGrid
from losslens.passes.parts.counting import Counted, CountedGrid, with_checksums
from losslens.passes.parts.reading import Job
from losslens.passes.parts.stream import Stream
from losslens.passes.task import Outcome
from losslens.progress import Tick, bar
from losslens.results.effects import Effects, FeatureEffect, of_class
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.tables.columns import one_missing
from losslens.tables.sample import Sample, Totals
from losslens.typing import Floats, Indices

MOST_KEPT = 10_000  # rows whose importances are kept
MOST_CURVES = 500  # rows whose curves are kept

W = TypeVar("W")
S = TypeVar("S")


def sum_over_parts(
    stream: Stream, counted: Counted, evaluate: Callable[[W, Job, Tick], S], work: W, doing: str = "explaining"
) -> S:
    """The second pass: the sum over all jobs, in their order."""
    jobs = with_checksums(stream.jobs, counted)
    with bar(stream.n, doing, stream.progress, "rows") as tick:
        return reduce(add, stream.workers.map(evaluate, work, jobs, tick))


def loss_sums(sample: Sample, deletion: Deletion) -> Floats:
    """Sums of w l, b, b l, b^2, b^2 l, b^2 l^2, b what deletion makes of w: for the mean loss and its variance."""
    w, loss = sample.weight, np.zeros(sample.n) if sample.loss is None else sample.loss
    b = deletion.of_mean(w)
    return np.array([w @ loss, b.sum(), b @ loss, b @ b, b**2 @ loss, b**2 @ loss**2])


def totals(stream: Stream, counted: Counted, rows: Indices, losses: Floats) -> Totals:
    """Totals of all rows, from their `loss_sums`; `rows` are the kept ones."""
    error, b, bl, b2, b2l, b2l2 = losses.tolist()
    error_square = b2l2 - 2 * error * b2l + error**2 * b2 - (bl - error * b) ** 2 / counted.units
    return Totals(stream.n, rows, counted.units, counted.squares, error, max(error_square, 0.0))


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The rows of some parts that a result keeps: a random sample, with predictions, losses and importances."""

    positions: Indices  # (r,): in the full data
    weight: Floats  # (r,)
    prediction: NDArray[Any]  # (r,) or (r, K)
    y: NDArray[Any]  # (r,), empty without targets
    loss: Floats  # (r,), empty without a loss
    local: Floats  # (r, k)
    place: Indices  # (r, k): positions of its own values on their grids
    adds: Floats  # (r, k): for additive models what its own values add, less the mean; else empty

    @classmethod
    def of(
        cls, sample: Sample, rows: Indices, start: int, local: Floats, place: Indices, adds: Floats | None = None
    ) -> KeptRows:
        """The kept rows of a part that begins at row `start` of the full data."""
        return cls(
            rows + start,
            sample.weight[rows],
            sample.prediction[rows],
            np.empty(0) if sample.y is None else sample.y[rows],
            np.empty(0) if sample.loss is None else sample.loss[rows],
            local,
            np.asarray(place, np.intp),
            np.empty(0) if adds is None else adds,
        )

    def __add__(self, other: KeptRows) -> KeptRows:
        both = [np.concatenate([getattr(self, field.name), getattr(other, field.name)]) for field in fields(self)]
        return KeptRows(*both)

    def sample(self, classes: NDArray[Any] | None, totals: Totals) -> Sample:
        """These rows as a sample of all of them."""
        y, loss = (array if len(array) else None for array in (self.y, self.loss))
        return sample_of(Sample(self.weight, self.prediction, y, loss, classes), totals)


def sample_of(rows: Sample, totals: Totals) -> Sample:
    """Some rows as a sample of all of them: their weights sum to one."""
    total = rows.weight.sum()
    weight = rows.weight / total if total > 0 else np.full(rows.n, 1 / rows.n)
    return replace(rows, weight=weight, totals=totals)


def rows_to_keep(n: int, features: int, cells: int, memory: int, entropy: int) -> tuple[Indices, Indices]:
    """Rows whose importances are kept, and those of them whose curves (of `cells` bytes a row) are."""
    rng = np.random.default_rng([entropy, n])
    r = int(min(n, MOST_KEPT, max(64, memory // 32 // (16 * features + 64))))
    chosen = rng.choice(n, r, replace=False)
    with_curves = int(min(r, MOST_CURVES, memory // 8 // max(cells, 1)))
    return np.sort(chosen), np.sort(chosen[:with_curves])


def curves_only(sample: Sample, mass: Floats, pd: NDArray[Any]) -> Means:
    """The means of a column without a loss: `mass` is the donor weight at each value of the grid."""
    return Means(local=None, mass=sample.weight, weights=mass / mass.sum(), pd=pd)


def filled(grid: CountedGrid, place: Indices, means: Means, cells: Cells) -> Outcome:
    """The outcome of one column; `place` has the positions of the kept rows' own values on the grid."""
    return Outcome(
        values=(one_missing(grid.values),), ordered=grid.ordered,
        layout=CommonGrid(place, np.arange(len(place)), len(grid)), means=means, cells=cells,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Summed:
    """Sums over all parts, from which results are made."""

    stream: Stream
    engine: str
    sample: Sample  # the kept rows
    columns: Mapping[int, tuple[Design, Outcome]]
    n_predictions: int

    def importances(self) -> Importances:
        """The result of `feature_importance`."""
        loss = self.stream.loss
        assert loss is not None
        features = [FeatureImportance(**fields, loss=loss).trimmed() for fields in self._features()]
        return Importances({feature.name: feature for feature in features}, self.n_predictions)

    def effects(self, k: int | None, label: str | None) -> Effects:
        """The result of `feature_effect`, of the k-th class."""
        features = [FeatureEffect(**fields, target=label) for fields in self._features()]
        return Effects({one.name: one if k is None else of_class(one, k) for one in features}, self.n_predictions)

    def _features(self) -> Iterator[dict[str, Any]]:
        """The fields that importances and effects share, of each feature."""
        head, every = self.stream.head, np.arange(self.sample.n)
        backend = "pandas" if head.backend == "numpy" else head.backend
        for feature in self.stream.features:
            design, column = self.columns[feature.columns[0]]
            yield column.fields(feature, design, self.engine, self.sample, head.names, every, backend)
