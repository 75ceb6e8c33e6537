"""The rows that a result of data in parts keeps: a random sample, with predictions, losses and importances."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.sample import Sample, Totals
from losslens.typing import Floats, Indices

MOST_KEPT = 10_000  # rows whose importances are kept
MOST_CURVES = 500  # rows whose curves are kept


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Kept rows of some parts."""

    at: Indices  # (r,): in the full data
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
