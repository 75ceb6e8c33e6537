"""Row positions from what users choose rows by: masks, row labels or positions, and labels of groups.

Where the rows have labels (`losslens.tables.row_labels`), rows are chosen by label, otherwise by position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from losslens.results.table import why_not
from losslens.tables.arrays import plain_array
from losslens.tables.checks import number_labels
from losslens.tables.columns import is_missing
from losslens.tables.frozen import Frozen
from losslens.tables.row_labels import Labels, check_order, find_rows, take_labels
from losslens.tracebacks import brief
from losslens.typing import Indices, Mask
from losslens.uncertainty.inference import Difference, between

if TYPE_CHECKING:
    from losslens.results.by_group import ByGroup


Numbers = dict[str, dict[str, Any]]  # of each feature, by name: its number first, then standard error, interval, ...
Compared = Callable[[str | None, float], Difference]  # from a feature (None: the error) and a level


class Grouped(Frozen):
    """A result that can be restricted to some rows by `given`, and so to each group of rows by `by`.

    The members below `by` are what tables of groups show, and how two groups are compared. A result with a `_measure`
    has its number for these rows, `_base` (NaN where they have no weight), and that with its influences,
    `_base_estimates`.
    """

    _measure: str = ""  # what rows have with nothing replaced, "error" or "score"; "": nothing, as of effects
    _has_curves: ClassVar[bool] = False
    _is_ranked: ClassVar[bool] = True  # whether features are shown by their numbers, and not in the requested order
    _heading: ClassVar[str] = "importance"
    _why_no_error: ClassVar[str] = "is of these rows alone"  # said of an effect
    _why_no_base: ClassVar[str] = ""  # why it has a `_measure` and no `_base_estimates`

    def _values_held(self, column: str) -> NDArray[Any] | None:
        """The value of each row in a column that is explained alone; None where the result doesn't hold it."""
        return None

    def _column(self, column: str, what: str) -> NDArray[Any]:
        """The same, or an error that says what to pass."""
        if (values := self._values_held(column)) is None:
            raise ValueError(
                f"a result holds no table, and not the values of {column!r} (it knows columns that are explained, "
                f"where donors are shared by all rows): pass {what}=X[{column!r}]"
            )
        return values

    @brief
    def by(self, groups: Any) -> ByGroup[Self]:
        """The result for each group of rows: a mapping, ``{label: given(groups == label)}``, with a table and a plot.

        `groups` has one label for each row, in the order of X; or it is the name of a column of which the result holds
        the values: one that it explains, where donors are shared by all rows.
        """
        from losslens.results.by_group import by_group

        return by_group(self, groups)

    @property
    def _numbers(self: Any) -> Numbers:
        """The number of each feature, with its standard error, interval and caution: columns of its table."""
        table = self._table().data()
        columns = [name for name in ("sfimp", "share", "importance", "std_error", "low", "high") if name in table]
        why = why_not(lambda: self.std_error)
        numbers = {
            feature: {name: table[name][k] for name in columns} | {"caution": table["caution"][k] or why}
            for k, feature in enumerate(table["feature"])
        }
        return {feature: numbers[feature] for feature in self.features}

    @property
    def _axis(self: Any) -> str:
        """What the numbers are, for an axis."""
        return str(self.headline.split(";")[0])

    def _between(self, parts: Sequence[Any], rows: Sequence[Mask], names: tuple[str, str]) -> Compared:
        """A function for the numbers of one group of rows less those of another; `parts` are the `given` results."""

        def compare(feature: str | None, level: float) -> Difference:
            first, second = (part._base_estimates if feature is None else part.estimates() for part in parts)
            return between(first, second, first.names[0] if feature is None else feature, names, level, "others")

        return compare

    @property
    def row_labels(self: Any) -> Labels | None:
        """The labels of these rows in a pandas index; None: positions identify them (`row_labels` module)."""
        return take_labels(self.sample.row_labels, self.at)

    def _split(self: Any, groups: Any) -> dict[Any, Mask]:
        """A mask of the rows of each group."""
        return split(groups, len(self.at), self.row_labels, self.backend)


def positions(rows: Any, n: int, labels: Labels | None = None, backend: str = "") -> Indices:
    """Row positions from a boolean mask, from labels or from positions, checked and sorted."""
    array = in_order(rows, n, labels, backend)
    if len(np.unique(array)) < len(array):
        raise ValueError("a row occurs twice; list each row once")
    return np.sort(array)


def all_but(rows: Any, n: int, labels: Labels | None = None, backend: str = "") -> Indices:
    """The positions of all rows except these; `rows` may be empty, but not all rows."""
    array = _listed(rows, labels)
    if array.shape == (0,) or (array.dtype == bool and array.shape == (n,) and not array.any()):
        return np.arange(n)
    others = np.setdiff1d(np.arange(n), positions(rows, n, labels, backend))
    if len(others) == 0:
        raise ValueError("every row is left out; keep at least one")
    return others


def in_order(rows: Any, n: int, labels: Labels | None = None, backend: str = "") -> Indices:
    """Row positions from a boolean mask, from labels or from positions, checked, in the given order."""
    array = _listed(rows, labels)
    if array.shape == (0,):
        raise ValueError("no row is chosen; choose at least one")
    if array.dtype == bool and array.ndim == 1:
        if len(array) != n:
            raise ValueError(f"the mask has {len(array)} entries for {n} rows")
        check_order(rows, row_order(labels, n, backend), "the mask")
        array = np.flatnonzero(array)
    elif labels is not None and array.ndim == 1:
        return find_rows(rows, labels)
    elif array.ndim != 1 or array.dtype.kind not in "iu":
        named = "row labels" if labels is not None else "row positions"
        raise TypeError(f"rows is a boolean mask or a list of {named}; got {type(rows).__name__}")
    elif array.min() < -n or array.max() >= n:
        raise ValueError(f"row positions run from 0 to {n - 1}; got {array.min()} to {array.max()}")
    array = array.astype(np.intp) % n
    if len(array) == 0:
        raise ValueError("no row is chosen; choose at least one")
    return array


def split(groups: Any, n: int, row_labels: Labels | None = None, backend: str = "") -> dict[Any, Mask]:
    """A mask for each label, in sorted order."""
    labels = plain_array(groups, "groups")
    if labels.ndim != 1 or len(labels) != n:
        raise ValueError(f"groups needs one label for each of {n} rows; got shape {labels.shape}")
    check_order(groups, row_order(row_labels, n, backend), "groups")
    missing = sum(map(is_missing, labels.tolist()))
    if missing:
        raise ValueError(f"groups has {missing} missing labels; name them or leave these rows out")
    try:
        distinct, codes = np.unique(labels, return_inverse=True)
    except TypeError:  # labels of several types: in order of occurrence
        place = number_labels(labels.tolist(), "groups")
        codes = np.array([place[own] for own in labels.tolist()])
        return {label: codes == code for label, code in place.items()}
    # `tolist` would convert dates in nanoseconds to integers.
    names = list(distinct) if distinct.dtype.kind in "mM" else distinct.tolist()
    return {name: codes.reshape(-1) == code for code, name in enumerate(names)}


def _listed(rows: Any, labels: Labels | None) -> NDArray[Any]:
    """The choice of rows as an array of truth values, labels or positions."""
    tuples = labels is not None and labels.dtype == object and isinstance(rows, (list, tuple))  # of a MultiIndex
    array = np.fromiter(rows, object, len(rows)) if tuples else plain_array(rows, "rows")
    is_mask = array.dtype == object and array.size > 0 and all(isinstance(r, (bool, np.bool_)) for r in array.flat)
    return array.astype(bool) if is_mask else array


def row_order(labels: Labels | None, n: int, backend: str) -> Labels | None:
    """The labels of X's rows, in its order; None if X has no index."""
    return np.arange(n) if labels is None and backend == "pandas" else labels
