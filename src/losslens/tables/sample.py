"""The rows as the model saw them, and what a loss makes of predictions for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.losses import Loss
from losslens.typing import Floats, Indices

CHUNK = 1 << 18  # cells handled at a time: temporaries stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Totals:
    """Counts and means over all rows of some files, where a sample holds some of the rows only."""

    n: int
    rows: Indices  # (r,): the sample's rows, as positions in the files
    units: int  # rows with a weight above zero
    squares: float  # sum of the squared weights, which sum to one
    error: float = float("nan")  # GE_P
    error_square: float = float("nan")  # sum of the squares of w (loss - GE_P)


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows as the model saw them, shared by all features of a result."""

    weight: Floats  # (n,), sums to one
    prediction: NDArray[Any]  # (n,) or (n, K), of the unchanged rows
    y: NDArray[Any] | None = None  # (n,): numbers, or class positions where there are classes
    loss: Floats | None = None  # (n,), of the unchanged rows
    classes: NDArray[Any] | None = None
    block: Indices | None = None  # rows that belong together lend nothing to each other
    totals: Totals | None = None  # of data in files; numbers of all rows are then these

    @property
    def n(self) -> int:
        """How many rows."""
        return len(self.weight)

    @property
    def error(self) -> float:
        """GE_P, the mean loss of the unchanged rows."""
        return float(self.weight @ self.loss) if self.loss is not None else float("nan")

    def units(self, rows: Indices | None = None) -> int:
        """Rows, or groups of rows, that have a weight."""
        if self.totals is not None:
            return self.totals.units
        counted = np.flatnonzero(self.weight > 0) if rows is None else rows[self.weight[rows] > 0]
        return len(counted) if self.block is None else len(np.unique(self.block[counted]))

    def mean_loss(self, rows: Indices) -> float:
        """Of these unchanged rows."""
        if self.totals is not None:
            return self.totals.error
        assert self.loss is not None  # only judged samples are asked
        weight = self.weight[rows]
        if not weight.sum() > 0:
            raise ValueError("these rows have weight zero: they have no mean loss")
        return float(weight @ self.loss[rows] / weight.sum())

    def own_share(self, rows: Indices, mass: Floats) -> float:
        """The share of the pairs of a row with itself, where these rows count by their mass and donors by weight."""
        if self.totals is not None:
            return self.totals.squares
        return float(mass @ self.weight[rows] / mass.sum())

    def at(self, rows: Indices) -> Sample:
        """These rows alone, as a sample of their own."""
        if not self.weight[rows].sum() > 0:
            raise ValueError("all of the chosen rows have weight zero")
        return replace(
            self,
            weight=self.weight[rows] / self.weight[rows].sum(),
            prediction=self.prediction[rows],
            y=None if self.y is None else self.y[rows],
            loss=None if self.loss is None else self.loss[rows],
            block=None if self.block is None else self.block[rows],
        )

    def with_loss(self, loss: Loss) -> Sample:
        """The same rows judged by a loss."""
        return replace(self, loss=loss(self.target(loss), self.shown(loss, self.prediction)))

    def target(self, loss: Loss) -> NDArray[Any]:
        """y as the loss reads it: a user's own function gets labels, a named loss class positions."""
        if self.y is None:
            raise ValueError("these rows have no y")
        if loss.custom and self.classes is not None:
            return np.asarray(self.classes[self.y])
        return self.y

    def shown(self, loss: Loss, prediction: NDArray[Any]) -> NDArray[Any]:
        """Predictions as the loss reads them: a user's own function gets labels as labels."""
        if loss.custom and loss.reads == "labels" and self.classes is not None:
            labels = np.asarray(self.classes[prediction])
            if prediction.min() < 0:  # a label that is no class of y
                labels = labels.astype(object)
                labels[prediction < 0] = None
            return labels
        return prediction


def chunks(rows: Indices, width: int) -> Iterator[slice]:
    """Slices of `rows` that hold about CHUNK cells each."""
    step = max(1, CHUNK // max(width, 1))
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


def lose(loss: Loss, sample: Sample, rows: Indices, predictions: NDArray[Any]) -> Floats:
    """Changes of loss of the cells of these rows: ``L(prediction, y_i) - l_i``, (b, c)."""
    if sample.loss is None:
        raise ValueError("the sample has not been judged by a loss yet")
    b, c = predictions.shape[:2]
    flat = predictions.reshape(b * c, *predictions.shape[2:])
    losses = loss(np.repeat(sample.target(loss)[rows], c), sample.shown(loss, flat)).reshape(b, c)
    losses -= sample.loss[rows][:, None]
    return losses
