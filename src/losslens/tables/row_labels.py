"""Labels of rows, from a pandas index: results name rows by them, and rows are chosen by them.

An index labels its rows if no label occurs twice and the labels are not just 0, 1, ..., n - 1; otherwise rows are known
by their positions.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.columns import is_missing
from losslens.typing import Indices

Labels = NDArray[Any]  # (n,): distinct


def labels_of(index: Any) -> Labels | None:
    """The labels that a pandas index gives its rows, as a new array; None if rows are known by position."""
    if index is None or (type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1):
        return None
    return distinct_labels(np.array(index.to_numpy()))


def distinct_labels(labels: Labels | None) -> Labels | None:
    """The labels, if they tell the rows apart and differ from positions; otherwise None."""
    if labels is None or (labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(len(labels)))):
        return None
    if labels.dtype == object:
        n_known, missing = len(set(labels.tolist())), any(map(is_missing, labels.tolist()))
    else:
        n_known, missing = len(np.unique(labels)), bool((labels != labels).any())
    return labels if n_known == len(labels) and not missing else None


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


def find_rows(wanted: Any, labels: Labels) -> Indices:
    """The positions of the rows with these labels, in the given order."""
    if labels.dtype == object:
        place = {label: row for row, label in enumerate(labels.tolist())}
        items = [item.item() if isinstance(item, np.generic) else item for item in wanted]
        found = [place.get(item, -1) if _is_hashable(item) else -1 for item in items]
        rows = np.array(found, np.intp)
    else:
        items, rows = list(wanted), _find_numbers(np.asarray(wanted), labels)
    if len(rows) and rows.min() < 0:
        strange = items[int(np.argmin(rows))]
        shown = ", ".join(repr(row_name(labels, row)) for row in range(min(3, len(labels))))
        raise ValueError(
            f"no row of X has the label {strange!r}. X has row labels ({shown}, ...), so rows are chosen by label or "
            "mask; for positions pass X.index[positions]"
        )
    return rows


def _find_numbers(wanted: NDArray[Any], labels: Labels) -> Indices:
    """Positions of numbers or dates among the labels, -1 for those that are none."""
    if labels.dtype.kind in "mM":
        try:
            wanted = wanted.astype(labels.dtype)  # also of pandas' and Python's dates, and of text
        except (TypeError, ValueError):
            return np.full(len(wanted), -1)
    if wanted.dtype.kind not in "iufmM":
        return np.full(len(wanted), -1)
    order = np.argsort(labels, kind="stable")
    rows = order[np.minimum(np.searchsorted(labels, wanted, sorter=order), len(labels) - 1)]
    return np.where(labels[rows] == wanted, rows, -1)


def _is_hashable(item: Any) -> bool:
    try:
        hash(item)
    except TypeError:
        return False
    return True


def check_order(values: Any, labels: Any, name: str) -> None:
    """Raise ValueError if a pandas object has the row labels of X, an array or a pandas index, in another order.

    Other labels are not compared: rows correspond by position then, as in scikit-learn.
    """
    in_pandas = type(values).__module__.partition(".")[0] == "pandas" and hasattr(values, "loc")
    if in_pandas and has_other_order(values.index, labels):
        raise ValueError(
            f"{name} has the row labels of X in another order: pass {name}.loc[X.index], or {name}.to_numpy() if its "
            "rows correspond to those of X as they are"
        )


def has_other_order(index: Any, labels: Any) -> bool:
    """Whether a pandas index has the same labels in another order."""
    if index is None or labels is None or index is labels or len(index) != len(labels):
        return False
    first, second = index.to_numpy(), np.asarray(labels)
    if np.array_equal(first, second):
        return False
    if first.dtype == object or second.dtype == object or first.dtype.kind != second.dtype.kind:
        return Counter(first.tolist()) == Counter(second.tolist())
    return np.array_equal(np.sort(first), np.sort(second))
