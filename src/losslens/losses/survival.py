"""Losses of survival curves: the Brier score at each time of a grid, weighted for censoring, and its integral.

A row that is censored before t does not tell whether it survives t. It counts nothing there, and rows that do tell
count for it: each is weighted by one over the probability that such a row is still observed, from a Kaplan-Meier
estimate in which censoring is the event. y is the time of each row's event, or the time up to which it was observed
without one (`EventTimes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from losslens.losses.rows import FAMILIES, NAMED, PROBABILITY
from losslens.losses.vectors import FROM_METADATA, OutputLoss, OutputsLoss
from losslens.tables.arrays import plain_array
from losslens.tables.columns import is_missing
from losslens.typing import Floats, Mask

QUANTILES = np.arange(1, 10) / 10  # of the times of events: the grid where none is given
SURVIVAL = PROBABILITY._replace(words="a probability of survival, in [0, 1]", advice="return S(t | x) at each time")
_FORMS = (
    "a structured array of (event, time) as scikit-survival has it, a frame with the columns event and time, or an "
    "array of two columns, event and time"
)
_EVENTS = (
    "with several kinds of events pass event == kind, with R's codes 1 and 2 status == 2; in an array the first "
    "column is the event"
)


@dataclass(frozen=True, eq=False)
class Uncensored:
    """G(t), the probability to be observed beyond t: the Kaplan-Meier estimate of the times of censoring.

    Of events and censoring at the same time the events come first, as in scikit-survival.
    """

    time: Floats  # distinct, increasing
    probability: Floats  # from each of them on

    @classmethod
    def of(cls, rows: EventTimes, weight: Floats | None = None) -> Uncensored:
        """From these rows, each counted as often as its weight says.

        >>> Uncensored.of(event_times([(True, 1), (False, 2), (True, 2), (True, 3)])).probability
        array([1. , 0.5, 0.5])
        """
        time, number = np.unique(rows.time, return_inverse=True)
        weight = np.ones(len(rows.time)) if weight is None else weight
        censored = np.bincount(number, weight * ~rows.event, len(time))
        every = np.bincount(number, weight, len(time))
        later = np.r_[np.cumsum(every[:0:-1])[::-1], 0.0]
        share = np.divide(censored, later + censored, out=np.zeros(len(time)), where=censored > 0)
        return cls(time, np.cumprod(1 - share))

    def at(self, times: Floats) -> Floats:
        """G at these times."""
        return np.concatenate([[1.0], self.probability])[np.searchsorted(self.time, times, side="right")]

    @property
    def last_time(self) -> float:
        """The time after which G is zero or not estimated."""
        return float(self.time[-1])


def signed_weights(
    rows: EventTimes, times: Floats, censoring: Uncensored | Floats, counted: Mask | None = None
) -> Floats:
    """The weight of each row at each time, (n, K): positive where the row survives the time, negative where its event
    came before, zero where it is censored before. Of rows that are not `counted`, which have no sample weight, it is
    zero where it would be infinite.

    >>> rows = event_times([(True, 1), (False, 2), (True, 3), (True, 5)])
    >>> signed_weights(rows, np.array([1.0, 4.0]), Uncensored.of(rows))
    array([[-1. , -1. ],
           [ 1. ,  0. ],
           [ 1. , -1.5],
           [ 1. ,  1.5]])
    """
    survives = rows.time[:, None] > times
    observed = survives | rows.event[:, None]
    if isinstance(censoring, Uncensored):
        probability = np.where(survives, censoring.at(times), censoring.at(rows.time)[:, None])
        infinite = observed & (probability <= 0)
        observed &= ~infinite
        if counted is not None:
            infinite &= counted[:, None]
        if infinite.any():
            row, k = np.argwhere(infinite)[0]
            raise ValueError(
                f"the weight of row {row} at time {times[k]:g} is infinite: by then every row is censored; give times= "
                f"before {min(times[k], rows.time[row]):g}, or censoring= of rows that are observed longer"
            )
        weight = 1 / np.where(observed, probability, 1.0)
    else:
        weight = censoring
    return np.where(observed, np.where(survives, weight, -weight), 0.0)


def brier_at(weights: NDArray[Any], survival: NDArray[Any]) -> Floats:
    """The weighted squares of S(t) - [the row survives t], (N, K); `weights` are signed."""
    losses = np.subtract(survival, weights > 0, dtype=np.float64)
    losses *= losses
    losses *= np.abs(weights)
    return np.asarray(losses)


def trapezoid(times: Floats) -> Floats:
    """Weights whose sum of products is the mean over time, by the trapezoid rule.

    >>> trapezoid(np.array([0.0, 1.0, 4.0]))
    array([0.125, 0.5  , 0.375])
    """
    if len(times) == 1:
        return np.ones(1)
    half = np.diff(times) / 2 / (times[-1] - times[0])
    return np.asarray(np.append(half, 0.0) + np.append(0.0, half))


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Censoring weights of the user's own."""

    each: Floats | None  # (n, K); None: given in the call whose result was read from a file


@dataclass(frozen=True)
class SurvivalLoss(OutputsLoss):
    """The Brier score of survival curves; its outputs are times, and y is (event, time) until it is encoded."""

    encodes: ClassVar[bool] = True
    noun: ClassVar[str] = "time"
    of_each: ClassVar[str] = "Brier score"
    censoring: Uncensored | RowWeights | None = field(default=None, kw_only=True)  # None: from y

    def for_target(self, y: Any) -> SurvivalLoss:
        """The loss on a grid: the one given, or deciles of the times of y's events."""
        if self.outputs or y is None or (isinstance(y, (str, list, tuple)) and all(isinstance(one, str) for one in y)):
            return self  # names of columns in files say nothing yet
        return _on_grid(self, default_times(event_times(y)))

    def for_folds(self, y: Any) -> SurvivalLoss:
        """The loss for parts of these rows: all have one grid, and G from all rows unless it is given."""
        loss = self.for_target(y)
        return loss if loss.censoring is not None else replace(loss, censoring=Uncensored.of(event_times(y)))

    def encode(self, y: Any, weight: Floats | None = None) -> Floats:
        """The `signed_weights` of each row at each time."""
        rows, times = event_times(y), np.array(self.outputs)
        if weight is not None and len(weight) != len(rows.time):
            raise ValueError(f"y has {len(rows.time)} values, but X has {len(weight)} rows")
        censoring = self.censoring
        if isinstance(censoring, RowWeights):
            if censoring.each is None:
                raise ValueError(
                    "files don't hold what was passed as censoring=; make the loss again by brier_survival"
                )
            if censoring.each.shape != (len(rows.time), len(times)):
                raise ValueError(
                    f"censoring has weights of shape {censoring.each.shape}, but y has {len(rows.time)} rows and there "
                    f"are {len(times)} times; a y of other rows is a structured array or a frame"
                )
            return signed_weights(rows, times, censoring.each)
        counted = np.ones(len(rows.time), bool) if weight is None else weight > 0
        last, what = (rows.time[counted].max(), "y") if censoring is None else (censoring.last_time, "censoring")
        if times[-1] > last or (censoring is None and times[-1] == last):
            raise ValueError(
                f"times goes on to {times[-1]:g}, but no row of {what} is observed beyond {last:g}, so nothing is "
                "known of survival there; give a shorter grid"
            )
        observed = Uncensored.of(rows, weight) if censoring is None else censoring
        return signed_weights(rows, times, observed, counted)

    def metadata(self) -> dict[str, Any]:
        """Everything but functions and arrays, for JSON."""
        return super().metadata() | {"censoring": self.censoring is not None}

    def output(self, k: int) -> OutputLoss:
        """The loss at one time."""
        return replace(super().output(k), title=f"Brier score at {self.outputs[k]:g}")

    def check_prediction(self, prediction: NDArray[Any]) -> None:
        """Raise ValueError unless there is a probability for each time."""
        super().check_prediction(prediction)
        self._check("prediction", prediction, SURVIVAL)

    def check_cells(self, predictions: NDArray[Any]) -> None:
        """Raise ValueError unless all cells, (..., K), are probabilities."""
        self.check_prediction(predictions.reshape(-1, len(self.outputs)))


def brier_survival(times: Sequence[float] | Floats | None = None, *, censoring: Any = None) -> SurvivalLoss:
    """The Brier score of survival curves at these times, and its mean over time, the integrated Brier score.

    ``L(t) = [T > t] (1 - S(t))^2 / G(t) + [T <= t, event] S(t)^2 / G(T)``, G(t) the probability to be observed beyond t

    y is a structured array (event, time), a frame of these columns, or an array of them. Predictions are S(t) at each
    time, from a model with scikit-survival's `predict_survival_function` or from a function X -> (n, len(times)).
    The mean over time is by the trapezoid rule, as in scikit-survival's ``integrated_brier_score``.

    Parameters
    ----------
    times
        Increasing. None: deciles of the times of events in y, as far as rows are observed beyond them.
    censoring
        What G is estimated from, by Kaplan-Meier: y of other rows, such as those the model was fitted to, as a
        structured array or a frame; None: y itself. Or a plain array (n, len(times)) of weights, which replace 1 / G:
        of each row at each time, or at its event if that is earlier.

    Examples
    --------
    >>> loss = brier_survival([1.0, 4.0])
    >>> weights = loss.encode([(True, 1), (False, 2), (True, 3), (True, 5)])
    >>> loss.by_output(weights, np.full((4, 2), 0.5)).mean(axis=0)
    array([0.25, 0.25])
    """
    given: Uncensored | RowWeights | None = None
    if isinstance(censoring, (list, np.ndarray)) and np.asarray(censoring).dtype.names is None:
        given = RowWeights(_row_weights(censoring))
    elif censoring is not None:
        given = Uncensored.of(event_times(censoring, "censoring"))
    loss = SurvivalLoss("brier_survival", "outputs", "integrated Brier score", brier_at, censoring=given)
    return loss if times is None else _on_grid(loss, check_times(times))


def _on_grid(loss: SurvivalLoss, times: Floats) -> SurvivalLoss:
    grid = f"{len(times)} times from {times[0]:g} to {times[-1]:g}"
    title = f"Brier score at {times[0]:g}" if len(times) == 1 else f"integrated Brier score, {grid}"
    return replace(loss, title=title, outputs=tuple(times.tolist()), weights=tuple(trapezoid(times).tolist()))


def check_times(times: Any) -> Floats:
    """Times of a grid, increasing."""
    try:
        grid = np.atleast_1d(plain_array(times, "times").astype(np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"times are numbers in the unit of y's times; got {times!r}") from None
    if grid.ndim != 1 or not len(grid) or not np.isfinite(grid).all() or grid[0] < 0 or (np.diff(grid) <= 0).any():
        raise ValueError(f"times are finite, from 0 on and increasing; got {times!r}")
    return np.asarray(grid)


def default_times(rows: EventTimes) -> Floats:
    """Deciles of the times of events, as far as rows are observed beyond them."""
    times = np.unique(np.quantile(rows.time[rows.event], QUANTILES, method="inverted_cdf"))
    times = times[times < rows.time.max()]
    if not len(times):
        raise ValueError(f"all events of y are at its last time, {rows.time.max():g}; there is no time to evaluate")
    return np.asarray(times)


def _row_weights(weights: Any) -> Floats:
    try:
        each = plain_array(weights, "censoring").astype(np.float64)
    except (TypeError, ValueError):
        each = np.full(1, np.nan)
    if each.ndim != 2 or not np.isfinite(each).all() or each.min(initial=0) < 0:
        raise ValueError(
            "censoring is y of other rows, as a structured array or a frame, or an array of finite weights from 0 on, "
            f"one for each row and time; got {weights!r}"
        )
    return each


def _from_metadata(metadata: Mapping[str, Any]) -> SurvivalLoss:
    loss = brier_survival(metadata["outputs"])
    return replace(loss, censoring=RowWeights(None)) if metadata["censoring"] else loss


FROM_METADATA["brier_survival"] = _from_metadata
FAMILIES["brier_survival"] = brier_survival
NAMED["brier_survival"] = brier_survival()


@dataclass(frozen=True, eq=False)
class EventTimes:
    """Times, and whether there was an event then; the other rows are censored, observed no longer."""

    event: Mask  # (n,)
    time: Floats  # (n,)


def event_times(y: Any, name: str = "y") -> EventTimes:
    """Events and times of a structured array, of a frame or of an array of two columns, checked.

    >>> event_times([(True, 2.0), (False, 5.0)]).time
    array([2., 5.])
    """
    event, time = (
        _numbers(values, what, name) for values, what in zip(_columns(y, name), ("event", "time"), strict=True)
    )
    _refuse(~np.isin(event, (0, 1)), event, f"an event of {name}", "True or False, 1 or 0", _EVENTS)
    _refuse(~((time >= 0) & (time < np.inf)), time, f"a time of {name}", "finite and not negative", "repair such rows")
    if not event.any():
        raise ValueError(f"{name} has no event: all rows are censored, so nothing is known about when events occur")
    return EventTimes(event.astype(bool), time)


def _refuse(wrong: Mask, values: Floats, what: str, needed: str, advice: str) -> None:
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{what} must be {needed}, but that of row {row} is {values[row]:g}; {advice}")


def _columns(y: Any, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The two columns, event first."""
    frame = nw.from_native(y, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        labels = list(frame.columns)
        values = [frame[label].to_numpy() for label in labels]
    else:
        array = plain_array(y, name)
        labels = list(array.dtype.names or ("event", "time"))
        values = [array[label] for label in labels] if array.dtype.names else list(array.T)
        if array.ndim != (1 if array.dtype.names else 2):
            raise ValueError(f"{name} is an array of shape {array.shape}; a survival loss needs {_FORMS}")
    if len(values) != 2:
        raise ValueError(f"{name} has {len(values)} columns; a survival loss needs {_FORMS}")
    words = [str(label).lower() for label in labels]
    truths = [column.dtype.kind == "b" for column in values]
    if sorted(words) == ["event", "time"]:
        first = words.index("event")
    elif sum(truths) == 1:
        first = truths.index(True)
    else:
        raise ValueError(
            f"{name} has the columns {labels[0]!r} and {labels[1]!r}, and neither their names nor their types say "
            f"which is the event; a survival loss needs {_FORMS}"
        )
    return values[first], values[1 - first]


def _numbers(values: NDArray[Any], what: str, name: str) -> Floats:
    missing = [row for row, value in enumerate(values.tolist()) if is_missing(value)]
    if missing:
        raise ValueError(
            f"{name} has {len(missing)} missing values in {what}, the first in row {missing[0]}; drop them"
        )
    try:
        if values.dtype.kind not in "biufO" or any(isinstance(value, str) for value in values.flat):
            raise TypeError("dates and text")
        return values.astype(np.float64)
    except (TypeError, ValueError):
        came = f"{values.dtype} such as {values.flat[0]!r}"
        raise TypeError(f"{name} needs numbers as {what}; got {came}: convert dates to days since the start") from None
