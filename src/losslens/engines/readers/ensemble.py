"""What is read from a fitted tree model, before any table is seen: a sum of trees, and the link to its predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined, Mean, ReadModel, Site, Wrapped
from losslens.engines.loss_scales import slope_on_sums
from losslens.losses import Loss, Response
from losslens.tables.columns import stable_order
from losslens.typing import Floats

if TYPE_CHECKING:
    from losslens.engines.readers.pipelines import UnwrappedModel
    from losslens.engines.trees.engine import Trees

TIES = "ties between classes are broken by rounding"
Array = NDArray[Any]
Transform = Callable[[Array], Array]  # raw outputs -> what predict returns, in the precision of the raw outputs
Encode = Callable[[int, Array], Floats]


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
    encode: Encode | None = None  # (column, values) -> the numbers that trees compare
    copies: int = 1  # of the table's columns that trees compare: models of a mean may encode them differently

    kind: ClassVar[str] = "trees"
    donor_sums: ClassVar[str] = "patterns"

    def engine(self, unwrapped: UnwrappedModel, site: Site) -> Trees:
        """Trees bound to the columns."""
        from losslens.engines.trees.engine import Trees  # compiled when it is first needed

        return Trees.of(self, unwrapped, site)

    def check_digits(self) -> None:
        """Raise `Declined` if leaf values are too many orders of magnitude apart to be added up as integers."""
        from losslens.engines.trees.bound import check_digits  # which reads ensembles

        check_digits(self)

    def slope(self, loss: Loss) -> float | None:
        """The slope of the loss's scale in the sums; None where the link does not lead to that scale."""
        return slope_on_sums(loss, self.link, self.outputs) if self.is_tried else None

    @property
    def is_tried(self) -> bool:
        """Whether a few trials can identify the link: not if it holds a function of the user's choice."""
        return func_and_args(self.link)[0] not in (_chained, mean_of_links)

    @property
    def sums_are(self) -> Literal["values", "second class", "classes"] | None:
        """The response that its sums are without a link, of most regressors, forests' probabilities, and scores.

        "second class": the one sum is the probability of the second of two classes. It is tried on a few sums.
        """
        if not self.is_tried:
            return None
        trial = np.linspace(0.1, 0.9, 5)[:, None] + 0.01 * np.arange(self.outputs)
        response = self.link(trial)
        if response.ndim == 1:
            return "values" if self.outputs == 1 and np.allclose(response, trial[:, 0], rtol=1e-6) else None
        if self.outputs == 1:
            two = response.shape[1] == 2 and np.allclose(response, np.hstack([1 - trial, trial]), rtol=1e-6)
            return "second class" if two else None
        return "classes" if response.shape == trial.shape and np.allclose(response, trial, rtol=1e-6) else None

    def check_parts(self, loss: Loss | None) -> None:
        """Trees support every loss of data in parts, but for labels that the model is asked for."""
        if isinstance(self.link, Leading):
            raise Declined(TIES)

    def then(self, wrapped: Wrapped) -> Ensemble:
        """The trees with a further link."""
        assert wrapped.after is not None
        return replace(self, link=partial(_chained, wrapped.after, self.link))

    def labels(self) -> Ensemble:
        """The class of the largest response; `Declined` where a curved link may make ties of its own."""
        if self._is_vote:
            return replace(self, link=partial(_chained, largest, self.link))
        if not is_affine(self.link, self.outputs):
            raise Declined(TIES)
        return replace(self, link=Leading(self.link))

    @property
    def _is_vote(self) -> bool:
        """Whether sums are integers, which have no rounding errors."""
        integers = np.isin(self.value, (0.0, 1.0)).all() and not self.offset.any()
        return bool(integers and is_affine(self.link, self.outputs))

    @property
    def rounding(self) -> float:
        """How far an order of its own moves the model's sum of leaves, in units of the sums' precision."""
        of_tree = np.maximum.reduceat(np.abs(self.value).max(axis=1), self.first_leaf)
        size = np.abs(self.offset).max() + np.bincount(self.output, of_tree).max()
        return float(np.bincount(self.output).max() * size / self.divisor)

    @classmethod
    def mean(cls, parts: Sequence[Ensemble], spec: Mean) -> Ensemble:
        """All trees together, see `tree_means`."""
        from losslens.engines.readers.tree_means import mean_of  # which makes ensembles

        return mean_of(parts, spec)

    @property
    def outputs(self) -> int:
        """Raw outputs of a row."""
        return len(self.offset)

    @cached_property
    def first_leaf(self) -> NDArray[np.intp]:
        """The number of the first leaf of each tree."""
        return np.searchsorted(np.flatnonzero(self.feature < 0), self.roots)

    @cached_property
    def nodes_of(self) -> dict[int, NDArray[np.intp]]:
        """The nodes that compare each column."""
        inner = np.flatnonzero(self.feature >= 0)
        feature = self.feature[inner]
        parts = np.split(inner[stable_order(feature)], np.cumsum(np.bincount(feature))[:-1])
        return {column: part for column, part in enumerate(parts) if len(part)}

    def used(self, unwrapped: UnwrappedModel) -> set[int]:
        """The columns of the table that its trees compare."""
        if max(self.nodes_of, default=-1) >= self.copies * len(unwrapped.source):
            raise Declined("its trees use a column that the table doesn't have")
        return {int(unwrapped.source[c % len(unwrapped.source)]) for c in self.nodes_of}

    def numbers(self, column: int, values: NDArray[Any]) -> Floats:
        """Values of a column as the trees compare them; NaN for missing ones."""
        if self.encode is not None:
            return self.encode(column, values)
        try:
            array = np.asarray(values).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise Declined("its trees compare numbers, but a column holds text") from error
        return array.astype(np.float32).astype(np.float64) if self.single else array


# Links.


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


def as_summed(response: Response) -> Callable[[Floats], Array]:
    """The link of sums that are the response."""
    return partial(respond, identity, response, np.float64)


@dataclass(frozen=True)
class Leading:
    """The class with the largest response, (m, K): where rounding may decide, the model has to be asked."""

    link: Callable[[Floats], Array]

    def __call__(self, raw: Floats) -> NDArray[np.intp]:
        """The first of those with the largest response."""
        return largest(self.link(raw))

    def tied(self, raw: Floats, rounding: float) -> NDArray[np.bool_]:
        """Whether the two largest responses differ by no more than the rounding of sums, and of their link."""
        response = self.link(raw)
        margin = (rounding + 16) * float(np.finfo(response.dtype).eps)
        return np.asarray((response >= response.max(axis=1, keepdims=True) - margin).sum(axis=1) > 1)


def of_classes(transform: Transform, response: Response, dtype: type[np.floating[Any]], outputs: int) -> Any:
    """The link of a booster, `respond`; labels of several classes are those that lead."""
    if response == "labels" and outputs > 1:
        return Leading(partial(respond, transform, "scores", dtype))
    return partial(respond, transform, response, dtype)


def label(raw: Floats) -> NDArray[np.intp]:
    """A single tree's label: the value of the leaf."""
    return raw[:, 0].astype(np.intp)


def largest(raw: Floats) -> NDArray[np.intp]:
    """The class of the largest output, the first of equal ones."""
    return np.asarray(raw.argmax(axis=1))


def sign_label(compare: np.ufunc, raw: Floats) -> NDArray[np.intp]:
    """The second class if its score compares so with 0."""
    second: NDArray[np.bool_] = compare(raw[:, 0], 0)
    return second.astype(np.intp)


# Links that are tried, and links made of others.

Section = tuple[slice, float, Callable[[Floats], Array]]  # a model's raw outputs among several, its divisor, its link


def func_and_args(function: Any) -> tuple[Any, ...]:
    """A partial function and its arguments, by which links are compared; other functions alone."""
    return (function.func, *function.args) if isinstance(function, partial) else (function,)


def _trial(outputs: int) -> Floats:
    return 3 * np.random.default_rng(0).normal(size=(16, outputs))


def is_affine(link: Callable[[Floats], Array], outputs: int) -> bool:
    """Whether a link is linear but for a constant; it is tried on a few sums."""
    first, second = np.split(_trial(outputs), 2)
    response, expected = link((first + 3 * second) / 4), (link(first) + 3.0 * link(second)) / 4
    if response.dtype.kind != "f":
        return False
    return bool(np.allclose(response, expected, rtol=0, atol=1e-5 if response.dtype == np.float32 else 1e-12))


def mean_of_links(sections: Sequence[Section], weights: Floats, raw: Floats) -> Array:
    """The mean of the responses of several models."""
    each = [link(raw[:, outputs] / divisor) for outputs, divisor, link in sections]
    return np.asarray(sum(weight * response for weight, response in zip(weights.tolist(), each, strict=True)))


def _chained(after: Transform, link: Callable[[Floats], Array], raw: Floats) -> Array:
    return after(link(raw))
