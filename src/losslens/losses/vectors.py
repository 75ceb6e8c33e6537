"""Losses of rows with several predictions: the outputs of a model, points in time, quantiles.

Such a loss gives one loss for each row and output, (N, K), and the loss of the row is their weighted mean. So every
mean over cells is the weighted mean of those of the outputs, which are computed from the same predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from losslens.losses.rows import Array, FloatArray, Loss, custom_losses, pinball
from losslens.tables.arrays import plain_array

OutputName = str | float  # numbers are points in time, or quantiles


@dataclass(frozen=True)
class OutputsLoss(Loss):
    """The weighted mean over outputs of the losses of a row.

    `function` is (y, predictions (N, K)) -> losses (N, K), or for a custom loss without outputs (N,); `each` has the
    loss of values of every output instead, where it is one. y is (N, K), (N,) where all outputs have the same target,
    or what `encode` makes of the target of all rows: an array whose first axis are the rows.

    >>> from losslens.losses import outputs
    >>> loss = outputs("squared_error", weights=[3, 1]).bound(["a", "b"])
    >>> loss([[0.0, 0.0]], [[1.0, 2.0]])
    array([1.75])
    """

    _: KW_ONLY
    outputs: tuple[OutputName, ...] = ()
    weights: tuple[float, ...] = ()  # as many, which sum to one; none, before the outputs have names: all alike
    each: tuple[Loss, ...] = ()  # as many, or one for all of them before they have names
    encodes: ClassVar[bool] = False  # whether y is kept in another form than it is given
    noun: ClassVar[str] = "output"  # what an output is called

    def __call__(self, y: ArrayLike, prediction: ArrayLike) -> FloatArray:
        """The losses of the rows, a new array of shape (N,)."""
        losses = self.by_output(y, prediction)
        return losses if losses.ndim == 1 else self.mean(losses)

    def mean(self, losses: FloatArray) -> FloatArray:
        """The weighted mean over outputs of (..., K): one after another, so that rows don't depend on their batch."""
        total = self.weights[0] * losses[..., 0]
        for k, weight in enumerate(self.weights[1:], 1):
            total += weight * losses[..., k]
        return np.asarray(total)

    def by_output(self, y: ArrayLike, prediction: ArrayLike) -> FloatArray:
        """The losses of rows and outputs, (N, K); (N,) for a custom function that gives no others."""
        y, prediction = plain_array(y, "y"), plain_array(prediction, "prediction")
        if self.custom:
            return custom_losses(self, self.formula, y, prediction, (len(self.outputs),) if self.outputs else ())
        if prediction.shape != (len(y), len(self.outputs)):
            raise ValueError(
                f"{self.title} has {len(self.outputs)} outputs, but the predictions of {len(y)} rows have shape "
                f"{prediction.shape}"
            )
        if not self.each:
            return np.asarray(self.formula(y, prediction, **dict(self.parameters)))
        return np.stack([one(self.target(y, k), prediction[:, k]) for k, one in enumerate(self.each)], axis=1)

    def target(self, y: Array, k: int) -> Array:
        """y of one output."""
        return y[:, k] if y.ndim == 2 else y

    def encode(self, y: Any, weight: FloatArray | None = None) -> Array | None:
        """y of all rows as this loss reads it, (n, ...); None where it reads y as it is, as numbers."""
        return None

    @property
    def of_each(self) -> str:
        """The title of the loss of one output."""
        return self.each[0].title if len(set(self.each)) == 1 else "the loss" if self.each else self.title

    def with_parts(self, y: Array, prediction: Array) -> list[FloatArray]:
        """The losses of the rows, and those of each output."""
        losses = self.by_output(y, prediction)
        return [losses] if losses.ndim == 1 else [self.mean(losses), *np.ascontiguousarray(losses.T)]

    @property
    def parts(self) -> tuple[Loss, ...]:
        """The loss of each output, of the same y and predictions."""
        return tuple(self.output(k) for k in range(len(self.outputs)))

    def output(self, k: int) -> OutputLoss:
        """The loss of one output."""
        title = self.each[k].title if self.each else self.title
        return OutputLoss(
            self.name, "outputs", f"{title} of {self.outputs[k]}", self.function, custom=self.custom, of=self, k=k
        )

    def bound(self, names: Sequence[OutputName]) -> OutputsLoss:
        """The loss of outputs of these names; weights by name are brought into their order."""
        names, weights, each = tuple(names), self.weights, self.each
        if self.outputs and set(self.outputs) != set(names):
            raise ValueError(
                f"the loss has the outputs {_listed(self.outputs)}, but y has {_listed(names)}: give a weight to each"
            )
        if self.outputs:
            order = [self.outputs.index(name) for name in names]
            weights = tuple(weights[k] for k in order) if weights else ()
            each = tuple(each[k] for k in order) if len(each) > 1 else each
        if weights and len(weights) != len(names):
            raise ValueError(f"weights has {len(weights)} numbers, but there are {len(names)} outputs")
        if len(each) > 1 and len(each) != len(names):
            raise ValueError(f"{len(each)} losses were given, but there are {len(names)} outputs")
        new = replace(self, outputs=names, weights=_shares(weights or (1.0,) * len(names)))
        if not each:
            return new
        title = each[0].title if len(set(each)) == 1 else "losses"
        mean = "mean" if len(set(new.weights)) == 1 else "weighted mean"
        return replace(
            new, each=each if len(each) > 1 else each * len(names), title=f"{title}, {mean} of {len(names)} outputs"
        )

    def check_target(self, y: Array, row_name: Callable[[int], str] = str) -> None:
        """Raise ValueError, with the name of a row and output, unless the loss of each output is defined for its y."""
        for k, one in enumerate(self.each):
            with _naming_output(self.outputs[k]):
                one.check_target(self.target(y, k), row_name)

    def check_prediction(self, prediction: Array) -> None:
        """Raise ValueError unless this loss is defined for every prediction."""
        count = len(self.outputs)
        if self.custom:
            return
        if prediction.ndim != 2 or prediction.shape[1] != count:
            came = "one column" if prediction.shape[1:] in ((), (1,)) else f"{prediction.shape[-1]} columns"
            of_y = ", or a y with the columns that it predicts" if self.noun == "output" else ""
            raise ValueError(
                f"the model returned {came} of predictions for {count} {self.noun}{'s' if count > 1 else ''} "
                f"({_listed(self.outputs)}); pass a function that returns one column for each, in this order{of_y}"
            )
        for k, one in enumerate(self.each):
            with _naming_output(self.outputs[k]):
                one.check_prediction(prediction[:, k])

    def check_cells(self, predictions: Array) -> None:
        """Raise ValueError unless the losses are defined for all cells, (..., K)."""
        if any(one.domains is not None for one in self.each):
            self.check_prediction(predictions.reshape(-1, predictions.shape[-1]))

    def metadata(self) -> dict[str, Any]:
        """Everything but functions, for JSON."""
        each = [one.metadata() for one in self.each]
        return super().metadata() | {"outputs": list(self.outputs), "weights": list(self.weights), "each": each}


@dataclass(frozen=True)
class OutputLoss(Loss):
    """The loss of one output of a loss of several, of the same y and predictions."""

    _: KW_ONLY
    of: OutputsLoss
    k: int

    def __call__(self, y: ArrayLike, prediction: ArrayLike) -> FloatArray:
        """The losses of the rows, a new array of shape (N,)."""
        if self.of.each:
            y, prediction = plain_array(y, "y"), plain_array(prediction, "prediction")
            return self.of.each[self.k](self.of.target(y, self.k), prediction[:, self.k])
        return np.array(self.of.by_output(y, prediction)[:, self.k])

    def check_target(self, y: Array, row_name: Callable[[int], str] = str) -> None:
        """Raise ValueError unless the loss of each output is defined for its y."""
        self.of.check_target(y, row_name)

    def check_prediction(self, prediction: Array) -> None:
        """Raise ValueError unless the loss of each output is defined for every prediction."""
        self.of.check_prediction(prediction)

    def check_cells(self, predictions: Array) -> None:
        """Raise ValueError unless the losses are defined for all cells."""
        self.of.check_cells(predictions)

    def metadata(self) -> dict[str, Any]:
        """Everything but functions, for JSON."""
        return super().metadata() | {"of": self.of.metadata(), "k": self.k}


@contextmanager
def _naming_output(name: OutputName) -> Iterator[None]:
    """A ValueError inside begins with the name of the output."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"output {name!r}: {error}") from error


def _shares(weights: Sequence[float]) -> tuple[float, ...]:
    total = float(sum(weights))
    return tuple(float(weight) / total for weight in weights)


def _listed(names: Sequence[OutputName]) -> str:
    shown = ", ".join(map(str, names[:5]))
    return f"{shown}, ..." if len(names) > 5 else shown


def for_outputs(loss: Loss, names: Sequence[OutputName]) -> Loss:
    """A loss as one of outputs of these names: a loss of values is averaged over them."""
    if isinstance(loss, OutputsLoss):
        return loss if loss.custom or loss.encodes else loss.bound(names)
    if loss.reads == "values" and not loss.custom:
        return averaged((loss,)).bound(names)
    return loss


def outputs_of(loss: Loss) -> tuple[OutputName, ...] | None:
    """The outputs whose predictions a loss reads; None for other responses."""
    return loss.of.outputs if isinstance(loss, OutputLoss) else loss.outputs if isinstance(loss, OutputsLoss) else None


def same_outputs(loss: Loss, like: Loss) -> Loss:
    """Another loss for the outputs of a loss, or for the one output that it is about."""
    means = [one.of if isinstance(one, OutputLoss) else one for one in (loss, like)]
    if loss != like and any(isinstance(one, OutputsLoss) and one.encodes for one in means):
        raise ValueError(
            f"y is kept as {like.title} reads it, which no other loss can read; compute the importances again"
        )
    if isinstance(like, OutputLoss):
        mean = for_outputs(loss, like.of.outputs)
        return mean.output(like.k) if isinstance(mean, OutputsLoss) and mean.outputs else mean
    return for_outputs(loss, like.outputs) if isinstance(like, OutputsLoss) else loss


def averaged(each: tuple[Loss, ...], outputs: Sequence[OutputName] = (), weights: Sequence[float] = ()) -> OutputsLoss:
    """The mean over outputs of one loss of values for all of them, or one for each."""
    title = f"{each[0].title}, mean of outputs"
    return OutputsLoss("outputs", "outputs", title, None, each=each, outputs=tuple(outputs), weights=tuple(weights))


def from_metadata(metadata: Mapping[str, Any], each: tuple[Loss, ...]) -> OutputsLoss:
    """The loss of `OutputsLoss.metadata`; `each` is read by the caller, who knows losses by name."""
    if metadata["name"] in FROM_METADATA and not metadata["custom"]:
        return FROM_METADATA[metadata["name"]](metadata)
    outputs, weights = tuple(metadata["outputs"]), tuple(metadata["weights"])
    mean = averaged(each) if each else OutputsLoss(metadata["name"], "outputs", "", None, custom=True)
    return replace(mean, title=metadata["title"], outputs=outputs, weights=weights)


# The pinball loss of several quantiles: predictions (N, Q) of one y.


@dataclass(frozen=True)
class QuantilesLoss(OutputsLoss):
    """A loss of several quantiles of the same y."""

    noun: ClassVar[str] = "quantile"
    of_each: ClassVar[str] = "pinball loss"

    def output(self, k: int) -> OutputLoss:
        """The loss of one quantile, whose title has it."""
        return replace(super().output(k), title=self.each[k].title)

    def bound(self, names: Sequence[OutputName]) -> OutputsLoss:
        """Raise ValueError unless they are these quantiles: y has one column for all of them."""
        if tuple(names) == self.outputs:
            return self
        raise ValueError(
            f"pinball reads predictions of the quantiles {', '.join(map(str, self.outputs))} and one column of y for "
            f"all of them; got the outputs {', '.join(map(str, names))}"
        )


def pinball_of(levels: Sequence[float]) -> QuantilesLoss:
    """The mean of the pinball losses of these quantiles, which are its outputs.

    >>> pinball_of([0.1, 0.9]).by_output([0.0], [[-1.0, 1.0]])
    array([[0.1, 0.1]])
    """
    each = tuple(pinball(level) for level in np.asarray(levels, dtype=object).ravel())
    names = tuple(value for loss in each for _, value in loss.parameters)
    if not names or np.ndim(levels) != 1 or len(set(names)) < len(names):
        raise ValueError(f"alpha of pinball must be one quantile level or a list of distinct ones; got {levels!r}")
    title = f"pinball loss, mean of {len(each)} quantiles"
    shares = (1 / len(each),) * len(each)
    return QuantilesLoss("pinball", "outputs", title, None, each=each, outputs=names, weights=shares)


# Losses of outputs that files refer to by name: from the metadata to the loss. Other modules of this room add theirs.
FROM_METADATA: dict[str, Callable[[Mapping[str, Any]], OutputsLoss]] = {
    "pinball": lambda metadata: pinball_of(metadata["outputs"])
}
