"""What is read from a fitted tree model, before any table is seen: a sum of trees, and the link to its predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined, ReadModel, Site
from losslens.engines.loss_scales import slope_on_sums
from losslens.losses import Loss, Response
from losslens.typing import Floats

if TYPE_CHECKING:
    from losslens.engines.readers.unwrapped import UnwrappedModel
    from losslens.engines.trees.engine import Trees

TIES = "ties between classes are broken by rounding"


@dataclass(frozen=True, eq=False)
class Ensemble(ReadModel):
    """``link((offset + sum over trees of the leaf's value) / divisor)``.

    Nodes of all trees are in one array, each tree in preorder: the left child of node s is s + 1, the right one
    ``right[s]``. At a leaf `feature` is -1 and `right` is the leaf's number, a row of `value`. A number x goes left
    if x <= threshold (x < threshold if `strict`), a category if it is in ``sets[in_set[s]]``, a missing value if
    `missing_left`.
    """

    roots: NDArray[np.int32]  # (T,)
    feature: NDArray[np.int32]  # (N,): the column that a node compares
    threshold: Floats  # (N,)
    right: NDArray[np.int32]  # (N,)
    missing_left: NDArray[np.bool_]  # (N,)
    value: Floats  # (leaves, W): W = 1, each tree adding to one output, or W = outputs
    output: NDArray[np.int32]  # (T,): the output that a tree adds to; all 0 where W = outputs
    offset: Floats  # (outputs,)
    link: Callable[[Floats], NDArray[Any]]  # raw outputs (m, outputs) -> the response, (m,) or (m, K)
    divisor: float = 1.0
    strict: bool = False
    single: bool = False  # the estimator compares in float32
    accepts_missing: bool = True
    in_set: NDArray[np.int32] | None = None  # (N,): -1 at nodes with a threshold
    sets: tuple[NDArray[np.int64], ...] = ()  # categories that go left
    encode: Callable[[int, NDArray[Any]], Floats] | None = None  # (column, values) -> the numbers that trees compare

    kind: ClassVar[str] = "trees"
    donor_sums: ClassVar[str] = "patterns"

    def engine(self, unwrapped: UnwrappedModel, site: Site) -> Trees:
        """Trees bound to the columns."""
        from losslens.engines.trees.engine import Trees  # compiled when it is first needed

        return Trees.of(self, unwrapped, site)

    def slope(self, loss: Loss) -> float | None:
        """Where the link leads to the loss's scale."""
        return slope_on_sums(loss, self.link, self.outputs)

    def check_parts(self, loss: Loss | None) -> None:
        """Any loss."""

    @property
    def outputs(self) -> int:
        """Raw outputs of a row."""
        return len(self.offset)

    def numbers(self, column: int, values: NDArray[Any]) -> Floats:
        """Values of a column as the trees compare them; NaN for missing ones."""
        if self.encode is not None:
            return self.encode(column, values)
        try:
            array = np.asarray(values).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise Declined("its trees compare numbers, but a column holds text") from error
        return array.astype(np.float32).astype(np.float64) if self.single else array


Array = NDArray[Any]
Transform = Callable[[Array], Array]  # raw outputs -> what predict returns, in the precision of the raw outputs


def identity(raw: Array) -> Array:
    """Raw outputs unchanged."""
    return raw


def exp(raw: Array) -> Array:
    """Inverse of the log link."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(raw))


def logistic(raw: Array) -> Array:
    """Probability of the second of two classes."""
    # XGBoost bounds the exponent, so that the probability is never 0 in float32.
    bound = np.float32(88.7) if raw.dtype == np.float32 else np.inf
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(np.minimum(-raw, bound))))


def scaled_logistic(scale: float, raw: Array) -> Array:
    """The logistic function with a slope."""
    return logistic(scale * raw)


def softmax(raw: Array) -> Array:
    """Probabilities of several classes."""
    powers = np.exp(raw - raw.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def step(raw: Array) -> Array:
    """1 for the second of two classes, 0 for the first."""
    return (raw > 0).astype(raw.dtype)


def log1p_exp(raw: Array) -> Array:
    """Inverse link of a mean that is never negative."""
    return np.asarray(np.log1p(exp(raw)))


def signed_square(raw: Array) -> Array:
    """Inverse of the signed square root of the target."""
    return np.asarray(np.sign(raw) * raw * raw)


def respond(transform: Transform, response: Response, dtype: type[np.floating[Any]], raw: Floats) -> Array:
    """The model's response; a single column of raw outputs is a value, or belongs to the second of two classes."""
    out = transform(raw.astype(dtype, copy=False))
    single = out.shape[1] == 1
    if response in ("values", "scores"):
        return out[:, 0] if single else out
    if response == "probabilities":
        return np.column_stack([1 - out[:, 0], out[:, 0]]) if single else out
    return (out[:, 0] > 1 - out[:, 0]).astype(np.intp) if single else out.argmax(axis=1)
