"""Labels of rows, from a pandas index: results name rows by them, and rows are chosen by them.

An index labels its rows if no label occurs twice and the labels are not just 0, 1, ..., n - 1; otherwise rows are known
by their positions.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.columns import is_missing
from losslens.typing import Indices

Labels = NDArray[Any]  # (n,): distinct
INSTANTS = {"M": (np.datetime64, dt.date, str), "m": (np.timedelta64, dt.timedelta)}  # what dates and durations may be


def labels_of(index: Any) -> Labels | None:
    """The labels that a pandas index gives its rows, as a new array; None if rows are known by position."""
    if index is None or (type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1):
        return None
    if not index.is_unique or (index.nlevels == 1 and index.hasnans):
        return None
    labels = np.array(index.to_numpy())
    return None if _are_positions(labels) else labels


def distinct_labels(labels: Labels | None) -> Labels | None:
    """The labels of some rows, if they tell these apart and differ from positions; otherwise None."""
    if labels is None or _are_positions(labels):
        return None
    n_known = len(set(labels.tolist()) if labels.dtype == object else np.unique(labels))
    return labels if n_known == len(labels) else None


def _are_positions(labels: Labels) -> bool:
    return labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(len(labels)))


def take_labels(labels: Labels | None, rows: Indices) -> Labels | None:
    """The labels of some rows."""
    return None if labels is None else labels[rows]


def row_names(labels: Labels | None, rows: Indices) -> Labels:
    """What rows at these positions are called: their labels, or else their positions."""
    return rows if labels is None else labels[rows]


def row_name(labels: Labels | None, row: int) -> str:
    """What one row is called, in a sentence."""
    return str(row) if labels is None else label_text(labels[row])


def label_text(label: Any) -> str:
    """A label, or a position, as text; dates without the parts that are zero."""
    return re.sub(r"([T ]00:00:00)?(\.0+)?$", "", str(label)) if isinstance(label, np.datetime64) else str(label)


def plain_label(label: Any) -> Any:
    """A label as files hold it: one of another type than Python's own, such as a month of pandas, as its text."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, (bool, int, float, str)):
        return label
    if is_missing(label):  # NaT, which claims to be a date, among them
        return None
    if isinstance(label, dt.date):
        return label
    return tuple(map(plain_label, label)) if isinstance(label, tuple) else str(label)


def _plain_labels(labels: Labels) -> list[Any]:
    items: list[Any] = labels.tolist()
    return items if set(map(type, items)) <= {str, int, float, bool} else list(map(plain_label, items))


def find_rows(wanted: Any, labels: Labels) -> Indices:
    """The positions of the rows with these labels, in the given order."""
    items = list(wanted)
    rows = _find_objects(items, labels) if labels.dtype == object else _find_numbers(np.asarray(wanted), labels)
    if len(rows) and rows.min() < 0:
        shown = ", ".join(_quoted(label) for label in labels[:3])
        raise ValueError(
            f"no row of X has the label {_quoted(items[int(np.argmin(rows))])}. X has row labels ({shown}, ...), so "
            "rows are chosen by label or mask; for positions pass X.index[positions]"
        )
    return rows


def _quoted(label: Any) -> str:
    return repr(str(label)) if isinstance(label, str) else label_text(label)


def _find_objects(items: list[Any], labels: Labels) -> Indices:
    """Positions of objects among the labels, -1 for those that are none."""
    place = {label: row for row, label in enumerate(labels.tolist())}
    items = [item.item() if isinstance(item, np.generic) else item for item in items]
    found = [place.get(item, -1) if _is_hashable(item) else -1 for item in items]
    if -1 in found:  # the labels, or those that are wanted, may come from a file
        place = {label: row for row, label in enumerate(_plain_labels(labels))}
        found = [place.get(plain_label(item), -1) if row < 0 else row for item, row in zip(items, found, strict=True)]
    return np.array(found, np.intp)


def _find_numbers(wanted: NDArray[Any], labels: Labels) -> Indices:
    """Positions of numbers or dates among the labels, -1 for those that are none."""
    if labels.dtype.kind in "mM" and wanted.dtype.kind != labels.dtype.kind:
        return np.array([_find_numbers(_instant(item, labels.dtype.kind), labels)[0] for item in wanted], np.intp)
    if wanted.dtype.kind not in "iufmM" or (wanted.dtype.kind in "mM") != (labels.dtype.kind in "mM"):
        return np.full(len(wanted), -1)
    with np.errstate(invalid="ignore"):  # what does not fit, and NaN, is compared with what was wanted, either way
        same = _converted(wanted, labels.dtype)
        exact = same.astype(wanted.dtype) == wanted
        if labels.dtype.kind not in "mM":
            exact &= same == wanted
    order = np.argsort(labels, kind="stable")
    rows = order[np.minimum(np.searchsorted(labels, same, sorter=order), len(labels) - 1)]
    return np.where((labels[rows] == same) & exact, rows, -1)


def _converted(wanted: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers or dates in another type; dates that its unit can't hold, which raise since NumPy 2.5, are NaT."""
    try:
        return wanted.astype(dtype)
    except OverflowError:
        if len(wanted) == 1:
            return np.array(["NaT"], dtype)
        return np.concatenate([_converted(one, dtype) for one in wanted[:, None]])


def _instant(item: Any, kind: str) -> NDArray[Any]:
    """One date or duration of pandas, Python or as text, (1,), in its own unit; NaT if it is none, or has a zone."""
    none = np.array(["NaT"], f"{kind}8[s]")
    if not isinstance(item, INSTANTS[kind]) or getattr(item, "tzinfo", None) is not None:
        return none
    if not re.search(r"\d", str(item)):  # NaT, or text that NumPy takes for it: without a unit
        return none
    try:
        return np.array([getattr(item, "asm8", item)], f"{kind}8")  # NumPy reads pandas' own to the microsecond only
    except ValueError:
        return none


def _is_hashable(item: Any) -> bool:
    try:
        hash(item)
    except TypeError:
        return False
    return True


def check_order(values: Any, labels: Any, name: str) -> None:
    """Raise ValueError if a pandas object has the row labels of X, an array or a pandas index, in another order.

    Other labels are not compared: rows correspond by position then, as in scikit-learn. Blocks of time know the labels
    of the times that they were made of.
    """
    if has_other_order(getattr(values, "row_order", None), labels):
        raise ValueError(f"{name} was made of times with the row labels of X in another order: pass times.loc[X.index]")
    in_pandas = type(values).__module__.partition(".")[0] == "pandas" and hasattr(values, "loc")
    if in_pandas and has_other_order(values.index, labels):
        once = values.index.is_unique
        came = "in another order" if once else "in another order, some of them twice"
        raise ValueError(
            f"{name} has the row labels of X {came}: pass {f'{name}.loc[X.index], or ' if once else ''}"
            f"{name}.to_numpy() if its rows correspond to those of X as they are"
        )


def has_other_order(index: Any, labels: Any) -> bool:
    """Whether a pandas index, or an array of labels, has the same labels in another order."""
    if index is None or labels is None or index is labels or len(index) != len(labels):
        return False
    first, second = np.asarray(index), np.asarray(labels)
    kinds = first.dtype.kind + second.dtype.kind
    if "O" not in kinds:
        comparable = kinds in ("mm", "MM") or not set(kinds) & set("mM")
        return comparable and not np.array_equal(first, second) and np.array_equal(np.sort(first), np.sort(second))
    if np.array_equal(first, second):
        return False
    own, others = _plain_labels(first), _plain_labels(second)
    return own != others and others[0] in own and Counter(own) == Counter(others)
