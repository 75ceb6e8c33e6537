"""Losses of single rows: the class `Loss`, the named losses, and the check of what custom functions return.

The named losses are scikit-learn's metrics of the same name before averaging over rows. Each states the model response
that it reads. Every row is computed by itself with the same operations, so that equal predictions give bitwise equal
losses in any batch: replacing a feature that the model ignores changes a loss by exactly 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from losslens.tables.arrays import masked_rows, plain_array
from losslens.tables.frozen import read_only
from losslens.tracebacks import users_code

Response = Literal["values", "probabilities", "labels", "scores", "outputs"]
Array: TypeAlias = NDArray[Any]
FloatArray: TypeAlias = NDArray[np.float64]


class Domain(NamedTuple):
    """The numbers a loss is defined for: from low to high, both included."""

    words: str
    kinds: str  # dtype.kind
    low: float
    high: float
    advice: str


LARGEST = 1e45  # of y and predictions: a squared error, cubed for the skewness of its mean, stays finite
TOO_LARGE = f"beyond {LARGEST:g} squares and their moments overflow: give y and predictions in a larger unit"
SMALLEST = 1e-75  # spread of y: the variance of its squared errors is above the smallest floats
TOO_SMALL = f"below {SMALLEST:g} squares and their moments underflow: give y and predictions in a smaller unit"
_MAX, _SLACK = float(np.finfo(np.float64).max), 1e-4
_ANY = "use a loss for any number such as 'squared_error', or a model whose predictions are positive"
_PROBA = "return the model's predict_proba, or apply softmax to its scores"
FINITE = Domain("a finite number", "biuf", -_MAX, _MAX, "drop or repair such rows")
NON_NEGATIVE = Domain("a number >= 0", "biuf", 0, _MAX, _ANY)
POSITIVE = Domain("a number > 0", "biuf", math.ulp(0.0), _MAX, _ANY)
POSITION = Domain("a class position 0..K-1", "iu", 0, _MAX, "drop rows of classes the model does not know")
_LOSSES = Domain(f"finite numbers of at most {LARGEST**2:g}", "biuf", -(LARGEST**2), LARGEST**2, "")
PROBABILITY = Domain("in [0, 1]", "iuf", -_SLACK, 1 + _SLACK, _PROBA)

# Response -> dimensions of the prediction, and domains of y and prediction unless a loss has its own.
_RESPONSES: dict[Response, tuple[tuple[int, ...], tuple[Domain, Domain]]] = {
    "values": ((1,), (FINITE, FINITE)),
    "probabilities": ((2,), (POSITION, PROBABILITY)),
    "labels": ((1,), (POSITION, FINITE)),
    "scores": ((1, 2), (POSITION, FINITE)),
    "outputs": ((2,), (FINITE, FINITE)),
}


@dataclass(frozen=True)
class Loss:
    """The loss of each row, L(y, prediction): smaller is better.

    `y` holds numbers for losses that read values, class positions 0..K-1 for the other named losses, and
    the user's y for custom ones. `prediction` is (N,) for values and labels, (N, K) for
    probabilities, (N,) or (N, K) for scores. `parameters` are passed to `function` as keywords. A custom
    function gets read-only arrays, and copies what it changes; loaded from a file, a custom loss has no function.

    Examples
    --------
    >>> squared_error([1.0, 2.0], [1.5, 4.0])
    array([0.25, 4.  ])
    """

    name: str
    reads: Response
    title: str
    function: Callable[..., Any] | None
    parameters: tuple[tuple[str, float], ...] = ()
    custom: bool = False
    domains: tuple[Domain, Domain] | None = None  # of y and prediction; None: those of the response

    def __call__(self, y: ArrayLike, prediction: ArrayLike) -> FloatArray:
        """The losses, a new array of shape (N,)."""
        function = self.formula
        y, prediction = plain_array(y, "y"), plain_array(prediction, "prediction")
        if self.custom:
            return custom_losses(self, function, y, prediction, ())
        # Without this (N,) against (N, 1) would broadcast to all N x N pairs.
        if prediction.shape[:1] != y.shape or prediction.ndim not in _RESPONSES[self.reads][0]:
            raise ValueError(f"{self.name} cannot pair y of shape {y.shape} with {prediction.shape} predictions")
        losses: FloatArray = function(y, prediction, **dict(self.parameters))
        return losses

    @property
    def formula(self) -> Callable[..., Any]:
        """The function; ValueError for a custom loss from a file, which has none."""
        if self.function is None:
            raise ValueError(
                f"the loss {self.name!r} is a custom function, which files don't hold; pass it again, or a named loss"
            )
        return self.function

    def check_target(self, y: Array, row_name: Callable[[int], str] = str) -> None:
        """Raise ValueError, with the name of a row, unless this loss is defined for every y."""
        if not self.custom:
            self._check("y", y, (self.domains or _RESPONSES[self.reads][1])[0], row_name)

    def check_prediction(self, prediction: Array) -> None:
        """Raise ValueError unless this loss is defined for every prediction."""
        if self.custom and self.reads != "probabilities":
            return
        dimensions, domains = _RESPONSES[self.reads]
        if prediction.ndim not in dimensions or prediction.shape[1:] == (1,):
            shape = f"{prediction.shape}; it must be {'(N, K), K >= 2' if 2 in dimensions else '(N,)'}"
            raise ValueError(f"{self.name} reads {self.reads}, but the model returned shape {shape}")
        self._check("prediction", prediction, (self.domains or domains)[1])
        if self.reads == "probabilities":
            # A matrix product: ten times as fast as a sum over a short axis.
            sums = prediction @ np.ones(prediction.shape[1], dtype=prediction.dtype)
            slack = max(_SLACK, 10 * _eps(prediction.dtype))
            self._check("sum of probabilities", sums, Domain("1", "iuf", 1 - slack, 1 + slack, _PROBA))

    def check_cells(self, predictions: Array) -> None:
        """Raise ValueError unless this loss is defined for the predictions of all cells: a deviance may not be."""
        if self.domains is not None:
            self.check_prediction(predictions.ravel())

    @property
    def parts(self) -> tuple[Loss, ...]:
        """The losses of which this one is a mean, of the same y and predictions: those of outputs."""
        return ()

    def with_parts(self, y: Array, prediction: Array) -> list[FloatArray]:
        """The losses of the rows, and of the same rows those of each part."""
        return [self(y, prediction)]

    def _check(self, what: str, values: Array, domain: Domain, row_name: Callable[[int], str] = str) -> None:
        if values.dtype.kind not in domain.kinds:
            came, advice = f"the dtype is {values.dtype}", "convert it, or use a loss for such data"
        elif (cell := _outside(values, domain)) is not None:
            value = values.flat[cell]
            came = f"that of row {row_name(cell * len(values) // values.size)} is {value}"
            advice = domain.advice if np.isfinite(value) else FINITE.advice
        else:
            return
        raise ValueError(f"{self.name} needs every {what} to be {domain.words}, but {came}; {advice}")

    def ceiling(self, dtype: DTypeLike) -> float | None:
        """The loss of a true class whose probability was clipped, -log(eps of dtype); else None.

        >>> round(log_loss.ceiling("float32"), 3)
        15.942
        """
        if self != log_loss:
            return None
        return float(_log_loss(np.zeros(1, dtype=np.intp), np.array([[0, 1]], dtype=dtype))[0])

    def metadata(self) -> dict[str, Any]:
        """Everything but the function, for JSON; `from_metadata` reverses it."""
        stored = {key: getattr(self, key) for key in ("name", "reads", "title", "custom")}
        return stored | {"parameters": dict(self.parameters)}


def _outside(values: Array, domain: Domain) -> int | None:
    """The position of a value outside the domain, or None. NaN is outside: the minimum is NaN then."""
    if not values.size or (float(values.min()) >= domain.low and float(values.max()) <= domain.high):
        return None
    lowest = int(values.argmin())
    return int(values.argmax()) if float(values.flat[lowest]) >= domain.low else lowest


# The formulas, in float64; each works in place on the one or two arrays it makes.


def _own(y: Array, matrix: Array) -> FloatArray:
    """The entry of each row for its true class."""
    return matrix[np.arange(len(y)), y].astype(np.float64, copy=False)


def _eps(dtype: DTypeLike) -> float:
    """The machine epsilon of the prediction's dtype, as in scikit-learn: lower precision clips earlier."""
    dtype = np.dtype(dtype)
    short = dtype.kind == "f" and dtype.itemsize <= 8
    return float(np.finfo(dtype if short else np.float64).eps)


def _squared_error(y: Array, prediction: Array) -> FloatArray:
    losses = np.subtract(y, prediction, dtype=np.float64)
    losses *= losses
    return losses


def _absolute_error(y: Array, prediction: Array) -> FloatArray:
    losses = np.subtract(y, prediction, dtype=np.float64)
    return np.abs(losses, out=losses)


def _huber(y: Array, prediction: Array, *, delta: float) -> FloatArray:
    losses = _absolute_error(y, prediction)
    inner = np.minimum(losses, delta)  # both branches are q (|r| - q/2) with q = min(|r|, delta)
    losses -= 0.5 * inner
    losses *= inner
    return losses


def _pinball(y: Array, prediction: Array, *, alpha: float) -> FloatArray:
    losses = np.subtract(y, prediction, dtype=np.float64)
    too_high = losses * (alpha - 1)
    losses *= alpha
    return np.maximum(losses, too_high, out=losses)


def _poisson(y: Array, prediction: Array) -> FloatArray:
    losses = np.divide(y, prediction, dtype=np.float64)
    np.log(losses, out=losses, where=losses > 0)  # 0 log 0 = 0
    losses *= y
    losses -= y
    losses += prediction
    losses *= 2
    return losses


def _gamma(y: Array, prediction: Array) -> FloatArray:
    ratio = np.divide(y, prediction, dtype=np.float64)
    losses = np.log(ratio)
    np.subtract(ratio, losses, out=losses)
    losses -= 1
    losses *= 2
    return losses


def _tweedie(y: Array, prediction: Array, *, power: float) -> FloatArray:
    for special, formula in ((0, _squared_error), (1, _poisson), (2, _gamma)):
        if power == special:
            return formula(y, prediction)
    p, y, f = power, y.astype(np.float64, copy=False), prediction.astype(np.float64, copy=False)
    losses = f / (2 - p)
    losses -= y / (1 - p)
    losses *= f ** (1 - p)
    losses += np.maximum(y, 0) ** (2 - p) / ((1 - p) * (2 - p))  # for p < 0, y < 0 has no such term
    losses *= 2
    return losses


def _log_loss(y: Array, prediction: Array) -> FloatArray:
    losses, eps = _own(y, prediction), _eps(prediction.dtype)
    np.clip(losses, eps, 1 - eps, out=losses)
    np.log(losses, out=losses)
    return np.negative(losses, out=losses)


def _brier(y: Array, prediction: Array) -> FloatArray:
    if prediction.shape[1] == 2:
        return _squared_error(y, prediction[:, 1])
    # Always C order: the last bit of a row's sum must not depend on the memory layout of the batch.
    gaps = np.array(prediction, dtype=np.float64, order="C")
    gaps[np.arange(len(y)), y] -= 1
    losses: FloatArray = np.einsum("ik,ik->i", gaps, gaps)
    return losses


def _zero_one(y: Array, prediction: Array) -> FloatArray:
    return np.not_equal(y, prediction).astype(np.float64)


def _hinge(y: Array, prediction: Array) -> FloatArray:
    if prediction.ndim == 1:
        losses = np.where(y == 1, -1.0, 1.0)
        losses *= prediction
    else:
        others = np.array(prediction, dtype=np.float64)
        others[np.arange(len(y)), y] = -np.inf
        losses = others.max(axis=1)
        losses -= _own(y, prediction)
    losses += 1
    return np.maximum(losses, 0, out=losses)


# The named losses.

squared_error = Loss("squared_error", "values", "squared error", _squared_error)
"""``(y - f)^2``."""
absolute_error = Loss("absolute_error", "values", "absolute error", _absolute_error)
"""``|y - f|``."""
poisson_deviance = Loss("poisson_deviance", "values", "Poisson deviance", _poisson, domains=(NON_NEGATIVE, POSITIVE))
"""``2 (y log(y/f) - y + f)``."""
gamma_deviance = Loss("gamma_deviance", "values", "gamma deviance", _gamma, domains=(POSITIVE, POSITIVE))
"""``2 (y/f - 1 - log(y/f))``."""
log_loss = Loss("log_loss", "probabilities", "log loss", _log_loss)
"""``-log`` of the probability of the true class, clipped to ``[eps, 1 - eps]`` with the eps of its dtype."""
brier = Loss("brier", "probabilities", "Brier score", _brier)
"""``(p1 - y)^2`` for two classes; the sum over classes of ``(p_k - [y = k])^2`` for more."""
zero_one = Loss("zero_one", "labels", "zero-one loss", _zero_one)
"""1 where the label is wrong, else 0."""
hinge = Loss("hinge", "scores", "hinge loss", _hinge)
"""``max(0, 1 - margin)``; the margin is s or -s for two classes, s_y less the largest other score for more."""


def _is_real(parameter: object) -> bool:
    return isinstance(parameter, Real)


def huber(delta: float = 1.0) -> Loss:
    """Half the squared error up to delta, linear beyond: ``r^2/2`` or ``delta (|r| - delta/2)``.

    Parameters
    ----------
    delta
        The residual from which on the loss is linear, in the units of y.

    Examples
    --------
    >>> huber(1.0)([0.0, 0.0], [0.5, 3.0])
    array([0.125, 2.5  ])
    """
    if not (_is_real(delta) and 0 < delta < math.inf):
        raise ValueError(f"huber needs a positive delta, got {delta!r}; it is in the units of y")
    return Loss("huber", "values", f"Huber loss ({delta:g})", _huber, (("delta", float(delta)),))


def pinball(alpha: float | Sequence[float] = 0.5) -> Loss:
    """The loss of a quantile: ``alpha (y - f)`` where ``y >= f``, ``(1 - alpha) (f - y)`` elsewhere.

    Parameters
    ----------
    alpha
        The quantile, between 0 and 1. Several are outputs: predictions are (N, Q), one column for each, and the loss is
        the mean over them.

    Examples
    --------
    >>> pinball(0.75)([0.0, 0.0], [-2.0, 2.0])
    array([1.5, 0.5])
    >>> pinball([0.1, 0.75])([0.0], [[-2.0, 2.0]])
    array([0.35])
    """
    if isinstance(alpha, (list, tuple, np.ndarray)):
        from losslens.losses.vectors import pinball_of  # made of losses of one quantile

        return pinball_of(alpha)
    if not isinstance(alpha, (int, float, Real)) or not 0 < float(alpha) < 1:
        raise ValueError(f"pinball needs 0 < alpha < 1, got {alpha!r}; 0.9 is the 90% quantile")
    return Loss("pinball", "values", f"pinball loss ({alpha:g})", _pinball, (("alpha", float(alpha)),))


def tweedie_deviance(power: float = 1.5) -> Loss:
    """The deviance with ``variance ~ mean^p``: 0 squared error, 1 Poisson, 2 gamma, 3 inverse Gaussian.

    Else ``2 (max(y, 0)^(2-p) / ((1-p)(2-p)) - y f^(1-p) / (1-p) + f^(2-p) / (2-p))``.

    Parameters
    ----------
    power
        The power p of the variance: at most 0, or at least 1.

    Examples
    --------
    >>> tweedie_deviance(2)([1.0], [1.0])
    array([0.])
    """
    if not (_is_real(power) and math.isfinite(power)) or 0 < power < 1:
        raise ValueError(f"no Tweedie distribution has power {power!r}; use a power <= 0 or >= 1, such as 1.5")
    target = FINITE if power <= 0 else NON_NEGATIVE if power < 2 else POSITIVE
    domains = target, (FINITE if power == 0 else POSITIVE)
    parameters, title = (("power", float(power)),), f"Tweedie deviance ({power:g})"
    return Loss("tweedie_deviance", "values", title, _tweedie, parameters, domains=domains)


FAMILIES: dict[str, Callable[..., Loss]] = {"huber": huber, "pinball": pinball, "tweedie_deviance": tweedie_deviance}
NAMED = {loss.name: loss for loss in list(globals().values()) if isinstance(loss, Loss)}
NAMED |= {name: family() for name, family in FAMILIES.items()}
NAMED |= {short: NAMED[f"{short}_deviance"] for short in ("poisson", "gamma", "tweedie")}


# scikit-learn's names of scorers and metrics, without prefixes and suffixes, and what to write instead.
_SYNONYMS = {
    "mse": "squared_error", "rmse": "squared_error", "mae": "absolute_error", "accuracy": "zero_one",
    "log": "log_loss", "logloss": "log_loss", "cross_entropy": "log_loss", "quantile": "pinball",
    "auc": "roc_auc", "max_error": "neg_max_error", "median_absolute_error": "neg_median_absolute_error",
}  # fmt: skip
_AVERAGES = (
    "roc_auc", "average_precision", "balanced_accuracy", "explained_variance", "f1", "jaccard",
    "matthews_corrcoef", "neg_max_error", "neg_median_absolute_error", "precision", "r2", "recall",
)  # fmt: skip


def advice(name: str) -> str | None:
    """The loss to pass instead of scikit-learn's name of a metric; None for other names."""
    bare = name.removeprefix("neg_").removeprefix("root_").removeprefix("mean_")
    bare = bare.removesuffix("_loss").removesuffix("_score")
    meant = _SYNONYMS.get(bare, bare)
    if meant.startswith(_AVERAGES):
        return (
            f"{name!r} is a score of all rows together: write loss={meant!r}, which feature_importance, "
            "shapley_importance, compare and report take; all others need a loss of each row"
        )
    if meant in NAMED:
        root = ", or did you mean its root, the score loss='neg_root_mean_squared_error'?" if name == "rmse" else ""
        return f"{name!r} names a mean or a score, not the loss of one row; pass loss={meant!r}{root}"
    return None


# Custom losses.


@users_code
def call_read_only(function: Callable[..., Any], name: str, *arrays: ArrayLike | None) -> Any:
    """What a user's loss or scorer returns for arrays that belong to the library: it may read them, not write to them.

    They are used again, so that a function that works in place would change later results. Compiled functions may not
    take read-only arrays at all: those get copies, and what they return counts if the copies are unchanged.

    >>> call_read_only(np.sort, "the loss 'sort'", np.array([2.0, 1.0]))
    array([1., 2.])
    """
    try:
        return function(*(None if part is None else read_only(np.asarray(part)) for part in arrays))
    except Exception as error:
        if not re.search("read-?only", str(error)):
            raise
        copies, returned = [None if part is None else np.array(part) for part in arrays], []
        with suppress(Exception):
            returned.append(function(*copies))
        if any(map(_differ, arrays, copies)):
            advice = "it should copy them first, such as prediction = prediction.copy()"
            raise ValueError(f"{name} changed its arguments, which are read-only; {advice}") from error
        if not returned:
            raise
        return returned[0]


def _differ(values: ArrayLike | None, copy: Array | None) -> bool:
    return copy is not None and np.array(values).tobytes() != copy.tobytes()


def custom_losses(
    loss: Loss, function: Callable[..., Any], y: Array, prediction: Array, outputs: tuple[int, ...]
) -> FloatArray:
    """The losses of a custom function, one number a row, or for each of so many outputs.

    The first time it has some rows to compare, they are also evaluated by themselves: a loss that depends on the other
    rows of a batch would make every importance depend on how cells are packed into batches.
    """

    def evaluate(y: Array, prediction: Array) -> FloatArray:
        returned = call_read_only(function, f"the loss {loss.name!r}", y, prediction)
        return checked_losses(loss, returned, (len(y), *outputs))

    losses = evaluate(y, prediction)
    if len(y) >= FEWEST_COMPARED and "seen_alone" not in vars(loss):
        _check_alone(loss.name, evaluate, y, prediction, losses)
        vars(loss)["seen_alone"] = True
    return losses


# Rows that are also evaluated alone: so many at least, and about so many at most.
FEWEST_COMPARED, MOST_COMPARED = 3, 100


def _check_alone(
    name: str, evaluate: Callable[[Array, Array], FloatArray], y: Array, prediction: Array, losses: FloatArray
) -> None:
    """Raise ValueError unless some rows lose the same alone as among all of them, to rounding.

    So do rows with the predictions of other rows, whose losses differ also where a model makes no errors.
    """
    rows = np.unique(np.linspace(0, len(y) - 1, MOST_COMPARED).astype(np.intp))
    start = max(2, len(rows) // 3)  # the first third, and the rest: two batches of different size
    few, rest = rows[:start], rows[start - 1 :]
    pairs = [(losses[few], evaluate(y[few], prediction[few]))]
    others = np.roll(prediction[rows], 1, axis=0)
    with suppress(Exception), np.errstate(all="ignore"):  # a loss need not be defined for them
        pairs.append((evaluate(y[rows], others)[start - 1 :], evaluate(y[rest], others[start - 1 :])))
    short = any(array.dtype.kind == "f" and array.dtype.itemsize < 8 for array in (y, prediction))
    slack = (1e-3 if short else 1e-6) * max(float(np.abs(part).max()) for pair in pairs for part in pair)
    for among, alone in pairs:
        gaps = np.abs(among - alone)
        if gaps.max() > slack:
            worst = int(gaps.argmax())
            raise ValueError(
                f"the loss {name!r} of a row depends on the other rows: it is {among.flat[worst]:.6g} among others and "
                f"{alone.flat[worst]:.6g} among fewer of them. A loss is a function of the y and the prediction of one "
                "row, without means or ranks over rows; a measure of all rows is passed as "
                "loss=losslens.losses.scorer(function) of (estimator, X, y)"
            )


def checked_losses(loss: Loss, returned: Any, shape: tuple[int, ...]) -> FloatArray:
    """The result of a custom function as a new array: it may return its argument, which callers would overwrite."""
    values = np.asarray(returned)
    if values.dtype.kind not in "biuf":
        problem = f"no numbers but {type(returned).__name__} of dtype {values.dtype}"
    elif values.ndim == 0:
        problem = "one number (an average?)"
    elif len(masked_rows(returned)):
        problem = "masked values"
    elif values.shape != shape:
        problem = f"an array of shape {values.shape}"
    elif (row := _outside(values, _LOSSES)) is not None:
        problem = f"{values.flat[row]} for row {row * len(values) // values.size}"
    else:
        return np.array(values, dtype=np.float64)
    hint = ""
    if values.ndim == 0:
        hint = "; a metric of all rows is passed as loss=sklearn.metrics.make_scorer(function, greater_is_better=False)"
    each = "row" if len(shape) == 1 else "row and output"
    needed = f"a loss must return one value for each {each}, here {' x '.join(map(str, shape))} {_LOSSES.words}"
    raise ValueError(f"the loss {loss.name!r} returned {problem}; {needed}{hint}")
