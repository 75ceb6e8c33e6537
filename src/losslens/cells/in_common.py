"""What two features have in common, cell by cell, and the part of it that is the model's interaction.

With d_j, d_l and d_jl the changes of a prediction f when one feature, the other, or both come from the same donor,
``m = d_jl - d_j - d_l`` is 0 in every cell if the model only adds the two. Half of it goes to each: ``e_j = d_j + m/2``
and ``e_l = d_l + m/2`` add up to d_jl. In each cell

- whole: ``D_j + D_l - D_jl``, the change of loss that both importances count;
- interaction: ``L(f + d_j) + L(f + d_l) - L(f + e_j) - L(f + e_l)``, 0 where m is 0;
- shared: the rest. For the squared error it is ``-2 e_j e_l``, of mean 0 if one of the features is independent of all
  others; for other losses it includes the curvature of the loss;
- strength: m squared.

Sums are formed on the scale on which the model adds: a logistic model adds logits, a forest probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import losses
from losslens.losses import Loss
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices

ROUNDING, SINGLE_ROUNDING = 1e-9, 1e-5  # relative error of sums of predictions in double and in single precision
LAST_BITS = 16  # rounding error of a prediction, in units of its last bit, at most
SPREAD_DONORS = 64  # of each row, from which the spread of predictions is taken


class AddingScale(Enum):
    """The scale on which a model adds; its value says what the numbers on it are."""

    PREDICTIONS = "predictions"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"
    LOGS = "logarithms of predictions"

    def of(self, prediction: NDArray[Any]) -> Floats:
        """Predictions on this scale; of two classes one number, of more one for each class."""
        if self is AddingScale.LOGS:
            return np.asarray(np.log(prediction, dtype=np.float64))
        if self is AddingScale.PREDICTIONS:
            return np.asarray(prediction, np.float64)
        values = np.asarray(prediction, np.float64)
        if self is AddingScale.LOGITS:
            values = np.log(np.maximum(values, _least(prediction)))
            return values[..., 1] - values[..., 0] if values.shape[-1] == 2 else values - values.mean(-1, keepdims=True)
        return values[..., 1] if values.shape[-1] == 2 else values

    def predictions(self, values: Floats, classes: int) -> Floats:
        """The inverse of `of`: predictions as a loss reads them."""
        if self is AddingScale.LOGS:
            return np.exp(values)
        if self is AddingScale.PREDICTIONS:
            return values
        if self is AddingScale.LOGITS:
            if classes == 2:
                return np.stack([_logistic(-values), _logistic(values)], axis=-1)
            weights = np.exp(values - values.max(axis=-1, keepdims=True))
            return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
        return np.stack([1 - values, values], axis=-1) if classes == 2 else values

    def rounding(self, prediction: NDArray[Any], values: Floats) -> Floats:
        """The largest rounding error of values on this scale, in each cell."""
        eps = np.finfo(prediction.dtype if prediction.dtype.kind == "f" else np.float64).eps
        size = np.abs(values) if values.ndim == 2 else np.abs(values).max(axis=-1)
        error = np.asarray(LAST_BITS * eps * size, np.float64)
        if self is AddingScale.LOGITS:  # a probability near 1 is exact to the last bit of 1, and so is its complement
            probability = np.maximum(prediction if eps < 1e-10 else prediction[..., :-1], _least(prediction))
            error += 2 * eps * (1 / probability.astype(np.float64)).sum(axis=-1)
        return error


def _logistic(values: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-values)))


def _least(prediction: NDArray[Any]) -> float:
    """The probability at which a log loss clips."""
    return float(np.finfo(prediction.dtype if prediction.dtype.kind == "f" else np.float64).eps)


@dataclass(frozen=True, eq=False)
class ReplacedPredictions:
    """Predictions of some rows with one feature replaced, the other, and both, by the values of the same donors."""

    own: NDArray[Any]  # (b,) or (b, K): nothing replaced
    first: NDArray[Any]  # (b, c) or (b, c, K)
    second: NDArray[Any]
    both: NDArray[Any]

    @property
    def classes(self) -> int:
        """Columns of the predictions; 0: they are numbers."""
        return 0 if self.own.ndim == 1 else int(self.own.shape[-1])


@dataclass(frozen=True, eq=False)
class InteractionCells:
    """The model's interaction in each cell."""

    interaction: Floats  # (b, c)
    strength: Floats  # (b, c)
    clipped: float = 0.0  # share of the probabilities that are at the clipping bound of the log loss


def split(
    cells: ReplacedPredictions, sample: Sample, rows: Indices, loss: Loss, scale: AddingScale
) -> InteractionCells:
    """The interaction of two features in the loss of these rows."""
    shown = (cells.own[:, None], cells.first, cells.second, cells.both)
    own, first, second, both = (scale.of(part) for part in shown)
    m = both - first - second + own
    m[_sum_classes(np.abs(m), cells) <= _rounding(shown, (own, first, second, both), scale)] = 0.0
    y = sample.target(loss)[rows]
    if _is_quadratic(loss, scale):
        residual = _target(y, cells, loss)[:, None] - own
        interaction = _sum_classes(m * (2 * residual - m / 2 - (first - own) - (second - own)), cells)
        return InteractionCells(interaction, _sum_classes(m * m, cells))
    b, c = cells.first.shape[:2]
    interaction, clipped = np.zeros(b * c), [_clipped(part, loss, scale) for part in shown[1:]]
    moved = np.flatnonzero(_sum_classes(np.abs(m), cells))
    half, true = _flat(m, cells)[moved] / 2, np.repeat(y, c)[moved]
    for alone in (first, second):
        before = _flat(alone, cells)[moved]
        for sign, values in ((1, before), (-1, before + half)):
            prediction = scale.predictions(values, cells.classes)
            interaction[moved] += sign * loss(true, prediction)
        clipped.append(_clipped(prediction, loss, scale) * len(moved) / (b * c))
    return InteractionCells(interaction.reshape(b, c), _sum_classes(m * m, cells), float(np.mean(clipped)))


def _is_quadratic(loss: Loss, scale: AddingScale) -> bool:
    return (loss, scale) in ((losses.squared_error, AddingScale.PREDICTIONS), (losses.brier, AddingScale.PROBABILITIES))


def _target(y: NDArray[Any], cells: ReplacedPredictions, loss: Loss) -> Floats:
    """y on the scale of the predictions."""
    if loss == losses.squared_error:
        return np.asarray(y, np.float64)
    return np.asarray(y == 1 if cells.classes == 2 else y[:, None] == np.arange(cells.classes), np.float64)


def _rounding(shown: tuple[NDArray[Any], ...], values: tuple[Floats, ...], scale: AddingScale) -> Floats:
    """What is a rounding error of m: relative to how predictions vary, never an absolute number."""
    relative = SINGLE_ROUNDING if shown[0].dtype == np.float32 else ROUNDING
    some = values[3][:, :: 1 + values[3].shape[1] // SPREAD_DONORS]
    low, high = np.quantile(some, (0.25, 0.75), axis=(0, 1))  # an outlier must not make real interactions look small
    spread = float(np.max(high - low)) or float(np.sqrt(np.var(some, axis=(0, 1)).max()))
    errors = [scale.rounding(part, value) for part, value in zip(shown, values, strict=True)]
    return np.asarray(relative * spread + sum(errors))


def _sum_classes(values: Floats, cells: ReplacedPredictions) -> Floats:
    return np.asarray(values.sum(axis=-1)) if values.ndim > cells.first.ndim - (cells.classes > 0) else values


def _flat(values: Floats, cells: ReplacedPredictions) -> Floats:
    """The values of all cells in one axis, (b c,) or (b c, K)."""
    b, c = cells.first.shape[:2]
    return values.reshape(b * c, *values.shape[2:])


def _clipped(prediction: NDArray[Any], loss: Loss, scale: AddingScale) -> float:
    """The share of the cells in which a class has no probability, if the loss or the scale takes its logarithm."""
    if loss != losses.log_loss and scale is not AddingScale.LOGITS:
        return 0.0
    return float(np.mean(prediction.min(axis=-1) <= _least(prediction))) if prediction.size else 0.0
