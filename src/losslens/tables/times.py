"""Times of rows: numbers, dates or durations from any library, and their division into equal lengths of time."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from losslens.tables.arrays import plain_array
from losslens.tables.columns import is_missing, is_number
from losslens.tables.row_labels import Labels, label_text
from losslens.text import in_digits
from losslens.typing import Indices

UNITS = {"w": 604_800e6, "d": 86_400e6, "h": 3_600e6, "min": 60e6, "s": 1e6, "ms": 1e3, "us": 1.0}  # in microseconds
UNITS |= {"week": UNITS["w"], "day": UNITS["d"], "hour": UNITS["h"], "minute": UNITS["min"], "second": UNITS["s"]}
MONTHS = {"M": 1, "MS": 1, "ME": 1, "Q": 3, "QS": 3, "QE": 3, "Y": 12, "YS": 12, "YE": 12}  # in capitals, as in pandas
MONTHS |= {"month": 1, "quarter": 3, "year": 12}
WORDS = (("day", "D", 86_400e6), ("hour", "h", 3_600e6), ("minute", "m", 60e6), ("second", "s", 1e6))
MONDAY = np.datetime64("1970-01-05", "us")  # the first one since times are counted
SLACK = 1e-9  # of a length: 0.3 / 0.1 is below 3 in floating point


@dataclass(frozen=True, eq=False)
class Times:
    """A time for each row."""

    moments: NDArray[Any]  # (n,): numbers, or dates or durations in microseconds; dates with a zone by its clock
    row_order: Labels | None = None  # (n,): labels of a pandas series

    @property
    def are_dates(self) -> bool:
        """Whether these are points in time, not numbers or durations."""
        return self.moments.dtype.kind == "M"

    def __len__(self) -> int:
        return len(self.moments)


def read_times(times: Any) -> Times:
    """Times of rows, checked: numbers, dates or durations, none missing."""
    order = np.asarray(times.index) if hasattr(times, "loc") and hasattr(times, "index") else None
    array = _from_library(times)
    if array.ndim != 1:
        raise ValueError(f"times needs one time for each row; got shape {array.shape}")
    if len(array) == 0:
        raise ValueError("times is empty; give each row a time")
    if array.dtype.kind == "O":
        array = _from_objects(array)
    if array.dtype.kind not in "iufmM":
        raise TypeError(
            f"times are numbers or dates; got {array.dtype} such as {array.tolist()[0]!r}. Convert text by "
            "pandas.to_datetime(times) or polars' str.to_datetime(), periods by times.to_timestamp()"
        )
    missing = np.isnat(array) if array.dtype.kind in "mM" else ~np.isfinite(array.astype(float))
    if missing.any():
        _refuse_missing(missing)
    return Times(array.astype(f"{array.dtype.kind}8[us]" if array.dtype.kind in "mM" else float), order)


def _from_library(times: Any) -> NDArray[Any]:
    """An array; of a series of dates with a zone, what its clock shows."""
    if isinstance(times, (str, bytes)):
        raise TypeError(f"times needs one time for each row; got the text {times!r}")
    if hasattr(times, "to_series") and hasattr(times, "nlevels"):  # an index of pandas
        times = times.to_series()
    series = nw.from_native(times, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series):
        return plain_array(times, "times")
    missing = series.is_null().to_numpy()
    if missing.any():
        _refuse_missing(np.asarray(missing, bool))
    if isinstance(series.dtype, nw.Datetime) and series.dtype.time_zone is not None:
        series = series.dt.replace_time_zone(None)
    return np.asarray(series.to_numpy())


def _from_objects(items: NDArray[Any]) -> NDArray[Any]:
    """Python's own dates, durations or numbers; other objects unchanged."""
    missing = np.array([is_missing(item) for item in items], bool)
    if missing.any():
        _refuse_missing(missing)
    if all(isinstance(item, dt.date) for item in items):
        zones = {str(getattr(item, "tzinfo", None)) for item in items}
        if len(zones) > 1:
            raise ValueError(f"times are in several zones, {' and '.join(sorted(zones)[:2])}; convert them to one")
        shown = [item.replace(tzinfo=None) if isinstance(item, dt.datetime) else item for item in items]
        return np.array(shown, "M8[us]")
    if all(isinstance(item, dt.timedelta) for item in items):
        return np.array(list(items), "m8[us]")
    if all(is_number(item) and not isinstance(item, (bool, np.bool_)) for item in items):
        return np.array([float(item) for item in items])
    return items


def _refuse_missing(missing: NDArray[Any]) -> None:
    first, many = int(np.flatnonzero(missing)[0]), int(missing.sum())
    raise ValueError(
        f"times has {many} missing or infinite {'value' if many == 1 else 'values'} (the first at position {first}); "
        "leave these rows out"
    )


@dataclass(frozen=True)
class Length:
    """A length of time: a number, or for dates and durations microseconds, or calendar months."""

    amount: float  # in the unit of the times
    of_dates: bool = False  # microseconds
    months: int = 0  # calendar months, if not 0
    by_week: bool = False  # from Mondays on

    def __str__(self) -> str:
        if self.months:
            years, rest = divmod(self.months, 12)
            return _many(years, "year") if not rest else _many(self.months, "month")
        if not self.of_dates:
            return in_digits(self.amount).rstrip("0").rstrip(".") if self.amount % 1 else f"{self.amount:.0f}"
        name, _, size = self._unit or next((one for one in WORDS if self.amount >= one[2]), WORDS[-1])
        return _many(self.amount / size, name)

    @property
    def _unit(self) -> tuple[str, str, float] | None:
        """The largest unit of which this is a whole multiple."""
        return next((one for one in WORDS if self.amount % one[2] == 0), None)

    @property
    def plain(self) -> Any:
        """As the user passes it: a number, a duration, or a text such as "2M"."""
        if self.months or not self.of_dates:
            return f"{self.months}M" if self.months else self.amount
        _, unit, size = self._unit or ("", "us", 1.0)
        return np.array(round(self.amount / size), f"m8[{unit}]")[()]

    def number(self, times: Times) -> Indices:
        """Which length of time each row lies in, numbered from 0 in the order of time; those without rows too."""
        if self.months:
            months = (
                times.moments.astype("M8[M]").astype(np.intp) // self.months
            )  # from January on, if 12 is a multiple
            return np.asarray(months - months.min(), np.intp)
        start = self.start(times)
        if self.of_dates:
            passed = (times.moments - start).astype(np.int64)
            return np.asarray(passed // round(self.amount), np.intp)
        return np.asarray(np.floor((times.moments - start) / self.amount + SLACK), np.intp)

    def start(self, times: Times) -> Any:
        """Where the first length begins: at midnight of the first day, on a Monday, or at the first time."""
        first = times.moments.min()
        if self.months:
            return (
                (first.astype("M8[M]").astype(np.int64) // self.months * self.months).astype("M8[M]").astype("M8[us]")
            )
        if not times.are_dates:
            return first
        midnight = first.astype("M8[D]").astype("M8[us]")
        return midnight - (midnight - MONDAY) % np.timedelta64(7, "D") if self.by_week else midnight

    def edges(self, times: Times, count: int) -> NDArray[Any]:
        """Where the first so many lengths begin, and where the last ends, (count + 1,)."""
        start, steps = self.start(times), np.arange(count + 1)
        if self.months:
            return np.asarray((start.astype("M8[M]") + self.months * steps).astype("M8[us]"))
        if self.of_dates:
            return np.asarray(start + (steps * round(self.amount)).astype("m8[us]"))
        return np.asarray(start + self.amount * steps)


def time_text(time: Any) -> str:
    """One time, in a sentence."""
    if isinstance(time, np.timedelta64):
        return str(Length(float(time.astype("m8[us]").astype(float)), of_dates=True))
    return (
        re.sub(r":00$", "", label_text(time).replace("T", " ")) if isinstance(time, np.datetime64) else f"{time:.12g}"
    )


def _many(count: float, unit: str) -> str:
    number = f"{count:.0f}" if count == round(count) else f"{count:.3g}"
    return f"{number} {unit}{'' if number == '1' else 's'}"


def read_length(length: Any, times: Times, name: str) -> Length:
    """A length of time in the unit of the times: a number, or a duration such as "7D" for dates."""
    if times.moments.dtype.kind == "f":
        plain = is_number(length) and not isinstance(length, (bool, np.bool_, np.timedelta64))
        if not plain or not 0 < float(length) < np.inf:
            raise ValueError(f"{name} is a number above 0, in the unit of times, which are numbers; got {length!r}")
        return Length(float(length))
    found = _duration(getattr(length, "freqstr", length))
    if found is None or not (found.amount > 0 or found.months > 0):
        raise ValueError(
            f"{name} is a duration above 0 where times are dates: '7D', '12h', '1M' or a timedelta; got {length!r}"
        )
    if found.months and not times.are_dates:
        raise ValueError(f"{name}={length!r}: months differ in length, and times are durations; pass days or hours")
    return found


def _duration(length: Any) -> Length | None:
    """A duration of any library, or as text; None if it is none."""
    if isinstance(length, np.timedelta64):
        unit, per = np.datetime_data(length.dtype)
        if unit in ("Y", "M"):
            return Length(0.0, of_dates=True, months=int(length.astype(int)) * per * MONTHS[unit])
        return None if np.isnat(length) else Length(float(length / np.timedelta64(1, "us")), of_dates=True)
    if isinstance(length, dt.timedelta):
        return None if is_missing(length) else Length(length / dt.timedelta(microseconds=1), of_dates=True)
    match = (
        re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)?\s*([A-Za-z]+)(-[A-Z]{3})?\s*", length) if isinstance(length, str) else None
    )
    if match is None:
        return None
    count, unit = float(match[1] or 1), match[2]
    months = MONTHS.get(unit, MONTHS.get(unit.lower().removesuffix("s"), 0) if len(unit) > 2 else 0)
    if months:
        return Length(0.0, of_dates=True, months=int(count * months)) if count * months % 1 == 0 else None
    size = UNITS.get(unit.lower(), UNITS.get(unit.lower().removesuffix("s")))
    if size is None or unit == "m":  # minutes, or months?
        return None
    return Length(float(round(count * size)), of_dates=True, by_week=size == UNITS["w"])
