"""The rows of a result (predictions, y, weights), the losses of predictions for them, and rows spread over a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.losses import Loss
from losslens.tables.frames import Table, as_one_array
from losslens.tables.row_labels import Labels, take_labels
from losslens.typing import Floats, Indices

CHUNK = 1 << 16  # cells processed at a time: temporary arrays stay in the processor's cache
MOST_ROWS = 2000  # used of a table
MOST_CELLS = 1 << 20  # rows times columns: wide tables have fewer rows


@dataclass(frozen=True, eq=False)
class Totals:
    """Counts and means over all rows of data in files, where a sample holds only some rows."""

    n: int
    rows: Indices  # (r,): the sample's rows, as positions in the files
    units: int  # rows with a weight above zero
    squares: float  # sum of the squared weights, which sum to one
    error: float = float("nan")  # GE_P
    error_square: float = float("nan")  # sum of the squares of w (loss - GE_P)


def weight_of_others(weight: Floats) -> Floats:
    """The weight of all but each, of weights that sum to 1; from the rest where 1 - w leaves few digits.

    >>> weight_of_others(np.array([1.0, 1e-20])).tolist()
    [1e-20, 1.0]
    """
    others, heaviest = 1 - weight, int(np.argmax(weight))
    if weight[heaviest] > 0.5:
        others[heaviest] = weight[:heaviest].sum() + weight[heaviest + 1 :].sum()
    return np.asarray(others)


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows of a result: predictions, y and weights, common to all features."""

    weight: Floats  # (n,), sums to one
    prediction: NDArray[Any]  # (n,) or (n, K), of the unchanged rows
    # (n,): numbers, or class positions where there are classes; (n, ...) for losses of several outputs
    y: NDArray[Any] | None = None
    loss: Floats | None = None  # (n,), of the unchanged rows
    classes: NDArray[Any] | None = None
    block: Indices | None = None  # groups of rows; donors come from other groups
    totals: Totals | None = None  # of all rows, for data in files
    row_labels: Labels | None = None  # (n,), of a pandas index; None: rows are known by position

    @property
    def n(self) -> int:
        """How many rows."""
        return len(self.weight)

    @property
    def error(self) -> float:
        """GE_P, the mean loss of the unchanged rows."""
        return float(self.weight @ self.loss) if self.loss is not None else float("nan")

    def units(self, rows: Indices | None = None) -> int:
        """The number of rows, or groups of rows, with a weight above zero."""
        if self.totals is not None:
            return self.totals.units
        counted = np.flatnonzero(self.weight > 0) if rows is None else rows[self.weight[rows] > 0]
        return len(counted) if self.block is None else len(np.unique(self.block[counted]))

    def effective_units(self, rows: Indices) -> float:
        """The number of rows, or groups of rows, of equal weight that would tell as much."""
        if self.totals is not None:
            found, rows_with_weight = 1 / self.totals.squares, self.totals.units
            return rows_with_weight if abs(found - rows_with_weight) <= 1e-9 * rows_with_weight else found
        weight = np.zeros(self.n)
        weight[rows] = self.weight[rows]
        return effective_number(self.by_unit(weight))

    def by_unit(self, of_rows: Floats) -> Floats:
        """Numbers of all rows, added within groups of rows."""
        return by_unit(of_rows, self.block)

    def mean_loss(self, rows: Indices) -> float:
        """The mean loss of these unchanged rows."""
        if self.totals is not None:
            return self.totals.error
        assert self.loss is not None  # callers use `with_loss` first
        weight = self.weight[rows]
        if not weight.sum() > 0:
            raise ValueError(
                "these rows have weight zero, so they have no mean loss; choose rows with a weight above zero"
            )
        return float(weight @ self.loss[rows] / weight.sum())

    def others_share(self, rows: Indices, mass: Floats) -> float:
        """The share of the pairs of different rows, where rows are weighted by mass and donors by weight."""
        if self.totals is not None:
            return 1 - self.totals.squares
        own = float(mass @ self.weight[rows] / mass.sum())
        return 1 - own if own < 0.5 else float(mass @ weight_of_others(self.weight)[rows] / mass.sum())

    @cached_property
    def usual_target(self) -> tuple[float, float, float]:
        """The smallest or the median target, whichever is more frequent, its share, and the skewness of the mean.

        NaN, 0 and 0 for classes.
        """
        if self.y is None or self.classes is not None or self.y.ndim > 1 or self.y.dtype.kind not in "biuf":
            return np.nan, 0.0, 0.0
        y = self.y.astype(float)
        ends = y[self.weight > 0]
        share, value = max((float(self.weight[y == one].sum()), float(one)) for one in (ends.min(), np.median(ends)))
        pull = self.by_unit(self.weight * (y - self.weight @ y))
        size = float(np.sqrt(pull @ pull))
        skewness = float(np.sum((pull / size) ** 3)) if size > 0 else 0.0
        if self.totals is not None:
            skewness *= float(np.sqrt(self.n / self.totals.n))
        return value, share, skewness

    def at(self, rows: Indices) -> Sample:
        """These rows alone, as a sample of their own."""
        if not self.weight[rows].sum() > 0:
            raise ValueError("all selected rows have weight zero; select rows with a weight above zero")
        return replace(
            self,
            weight=self.weight[rows] / self.weight[rows].sum(),
            prediction=self.prediction[rows],
            y=None if self.y is None else self.y[rows],
            loss=None if self.loss is None else self.loss[rows],
            block=None if self.block is None else self.block[rows],
            row_labels=take_labels(self.row_labels, rows),
        )

    def with_loss(self, loss: Loss) -> Sample:
        """The same rows with their losses."""
        return replace(self, loss=loss(self.target(loss), self.shown(loss, self.prediction)))

    def target(self, loss: Loss) -> NDArray[Any]:
        """y as the loss needs it: labels for a custom function, class positions for a named loss."""
        if self.y is None:
            raise ValueError("these rows have no y; a loss needs it")
        if loss.custom and self.classes is not None:
            return np.asarray(self.classes[self.y])
        return self.y

    def shown(self, loss: Loss, prediction: NDArray[Any]) -> NDArray[Any]:
        """Predictions as the loss needs them: a custom function gets labels, not class positions."""
        if loss.custom and loss.reads == "labels" and self.classes is not None:
            labels = np.asarray(self.classes[prediction])
            if prediction.min() < 0:  # a label that is no class of y
                labels = labels.astype(object)
                labels[prediction < 0] = None
            return labels
        return prediction


def by_unit(of_rows: Floats, block: Indices | None) -> Floats:
    """Numbers of rows, added within groups of rows, (n, ...) -> (G, ...); unchanged without groups."""
    if block is None:
        return of_rows
    number = np.unique(block, return_inverse=True)[1]
    sums = np.zeros((int(number.max()) + 1, *of_rows.shape[1:]))
    np.add.at(sums, number, of_rows)
    return sums


def effective_number(weight: Floats) -> float:
    """As many numbers of equal weight have a mean of the same variance: ``W^2 / sum of w^2``."""
    counted = weight[weight > 0]
    if not len(counted) or np.ptp(counted) <= 1e-12 * counted.max():  # equal weights count, without rounding errors
        return float(len(counted))
    return float(counted.sum() ** 2 / (counted @ counted))


def chunks(rows: Indices, width: int, least: int = 0) -> Iterator[slice]:
    """Slices of `rows` that hold about CHUNK cells each, or `least`, where a slice is added to so many sums."""
    step = max(1, max(CHUNK, least) // max(width, 1))
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


def loss_changes(loss: Loss, sample: Sample, rows: Indices, predictions: NDArray[Any]) -> Floats:
    """Changes of loss of the cells of these rows: ``L(prediction, y_i) - l_i``, (b, c)."""
    if sample.loss is None:
        raise ValueError("the sample has no losses; call with_loss first")
    b, c = predictions.shape[:2]
    flat = predictions.reshape(b * c, *predictions.shape[2:])
    losses = loss(np.repeat(sample.target(loss)[rows], c, axis=0), sample.shown(loss, flat)).reshape(b, c)
    losses -= sample.loss[rows][:, None]
    return losses


def with_parts(losses: Sequence[Loss]) -> list[Loss]:
    """Losses, each followed by its parts."""
    return [one for loss in losses for one in (loss, *loss.parts)]


def losses_of(
    losses: Sequence[Loss], sample: Sample, rows: Indices, predictions: NDArray[Any], times: int = 1
) -> list[Floats]:
    """What predictions of these rows lose, so many of each, by each of `with_parts`."""
    y = [np.repeat(sample.target(loss)[rows], times, axis=0) for loss in losses]
    shown = [sample.shown(loss, predictions) for loss in losses]
    return [one for loss, *pair in zip(losses, y, shown, strict=True) for one in loss.with_parts(*pair)]


def changes_by_loss(
    losses: Sequence[Loss], samples: Sequence[Sample], rows: Indices, predictions: NDArray[Any]
) -> list[Floats]:
    """`cell_changes` of each of `with_parts`; there is a sample of the same rows for each of these."""
    changes = [np.empty(predictions.shape[:2]) for _ in samples]
    for part in chunks(rows, predictions.shape[1]):
        some = predictions[part]
        for loss in losses:
            loss.check_cells(some)
        flat = some.reshape(-1, *some.shape[2:])
        by_loss = losses_of(losses, samples[0], rows[part], flat, some.shape[1])
        for result, sample, of_loss in zip(changes, samples, by_loss, strict=True):
            assert sample.loss is not None  # callers record it first
            np.subtract(of_loss.reshape(some.shape[:2]), sample.loss[rows[part]][:, None], out=result[part])
    return changes


def cell_changes(loss: Loss, sample: Sample, rows: Indices, predictions: NDArray[Any]) -> Floats:
    """`loss_changes`, some rows at a time; raises where a prediction has no loss."""
    changes = np.empty(predictions.shape[:2])
    for part in chunks(rows, predictions.shape[1]):
        loss.check_cells(predictions[part])
        changes[part] = loss_changes(loss, sample, rows[part], predictions[part])
    return changes


def spread_rows(table: Table, weight: Floats | None = None, most: int | None = None) -> Indices:
    """At most so many rows, by default `MOST_ROWS` or fewer of a wide table, spread over the table (by weight)."""
    most = max(MOST_ROWS // 10, min(MOST_ROWS, MOST_CELLS // len(table.names))) if most is None else most
    flat = weight is None or bool((weight == weight[0]).all())
    if flat and table.n <= most:
        return np.arange(table.n)
    # One row from each of m equal intervals: no row twice, and no period that a sorted table could share.
    m = min(most, table.n)
    place = (np.arange(m) + np.random.default_rng(0).random(m)) / m
    if weight is None or flat:
        return (place * table.n).astype(np.intp)
    return np.unique(np.searchsorted(np.cumsum(weight), place * (1 - 1e-12)))


ColumnCopy = tuple[NDArray[Any], tuple[Any, ...] | None, bool]  # values, categories, whether they are ordered


def copy_columns(table: Table, rows: Indices) -> tuple[ColumnCopy, ...]:
    """The columns of some rows as arrays; nothing refers to the table afterwards."""
    some = table.at(rows)
    array = as_one_array(some)  # a copy already: rows were taken
    if array is not None and array.dtype.kind in "biufmM":
        return tuple((column, None, True) for column in array.T)
    columns = map(some.column, range(len(some.names)))
    return tuple((np.array(column.array), column.categories, column.ordered) for column in columns)
