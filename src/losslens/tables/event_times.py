"""y of a survival analysis: the time of each row's event, or the time up to which it was observed without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from losslens.tables.arrays import plain_array
from losslens.tables.columns import is_missing
from losslens.typing import Floats, Mask

_FORMS = (
    "a structured array of (event, time) as scikit-survival has it, a frame with the columns event and time, or an "
    "array of two columns, event and time"
)


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


_EVENTS = (
    "with several kinds of events pass event == kind, with R's 1 and 2 pass status == 2; of an array the first column "
    "is the event"
)


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
