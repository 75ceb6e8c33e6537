"""A result for each group of rows: a mapping with a table, a plot, and differences between groups."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Result
from losslens.results.selection import Compared, Numbers
from losslens.results.table import NONE, ResultTable, why_not
from losslens.tables.features import unknown_feature
from losslens.tables.row_labels import label_text
from losslens.text import in_digits
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Indices, Sort
from losslens.uncertainty.cautions import noted
from losslens.uncertainty.inference import Adjustment, Difference, columns_of_differences, or_why
from losslens.uncertainty.standard_errors import check_level

T = TypeVar("T", bound=Any)

ALL = "(all)"  # the line of all rows
MOST_LINES = 40  # of groups that are shown
WIDTH = 110  # letters of a line: further features are in the data frame
MOST_NOTES = 6  # on single groups
PLAIN = (bool, int, float, str, dt.date, dt.timedelta, np.datetime64, np.timedelta64)


@dataclass(frozen=True, eq=False, repr=False)
class ByGroup(Result, Mapping[Any, T], Generic[T]):
    """The result for each group of rows, with donors from all rows: a mapping from the label of a group to its result.

    `to_frame()` has one row for each group and feature; `difference` compares two groups, `differences` all with one.
    Labels that are neither numbers, text nor dates, such as intervals of pandas, are text in files.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> place = np.where(X[:, 1] > 0, "north", "south")
    >>> y = X[:, 0] * np.where(place == "north", 1, 3)
    >>> parts = ll.feature_importance(lambda X: 2 * X[:, 0], X, y, loss="squared_error")["x0"].by(place)
    >>> {label: round(part.pfi, 1) for label, part in parts.items()}
    {'north': 3.8, 'south': 10.8}
    >>> parts
    ByGroup: x0: increase in squared error, in 2 groups of rows
      group  rows   error     importance
      north    97   1.061  3.849 ± 0.400
      south   103  0.8819   10.78 ± 1.33
      (all)   200  0.9687  7.417 ± 0.877
    >>> parts.difference("south", "north").low > 0
    True
    """

    every: Any  #: the result for all rows
    labels: NDArray[Any]  #: (k,): of the groups, in their order
    codes: Indices  #: (n,): the group of each row, as a position in `labels`
    name: str = "group"  #: what the rows are grouped by

    _errors_elsewhere = "each group has its own: groups[label]; difference() and differences() compare them"
    backend = property(attrgetter("every.backend"))

    # -- a mapping ------------------------------------------------------------------------------------------------

    @cached_property
    def parts(self) -> dict[Any, T]:
        """The results, by the labels of their groups."""
        return {label: self.every.given(self.codes == k) for k, label in enumerate(self._labels)}

    @property
    def _labels(self) -> list[Any]:
        # `tolist` would convert dates in nanoseconds to integers.
        return list(self.labels) if self.labels.dtype.kind in "mM" else self.labels.tolist()

    def __getitem__(self, label: Any) -> T:
        try:
            return self.parts[label]
        except KeyError:
            texts = [label_text(one) for one in self.parts]
            raise KeyError(unknown_feature(label, texts, "groups").replace("feature", "group", 1)) from None
        except TypeError:  # not hashable, as a table
            kind = type(label).__name__
            raise TypeError(f"a group is chosen by its label, such as {self._labels[0]!r}; got a {kind}") from None

    _names = property(lambda self: tuple(self.parts))

    # -- numbers --------------------------------------------------------------------------------------------------

    @property
    def n(self) -> Indices:
        """The number of rows of each group, (k,)."""
        return np.bincount(self.codes, minlength=len(self.labels))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(self._numbers_of_all)

    def difference(self, first: Any, second: Any, feature: str | None = None, level: float = 0.95) -> Difference:
        """How much more important a feature is in one group than in another, for this model on new rows.

        The groups have other rows and the same donors: each row, or each group of `groups=`, is left out as an
        observation and as a donor of both.

        Parameters
        ----------
        first, second
            Labels of the two groups.
        feature
            May be omitted if there is one only.
        level
            The coverage probability of the interval.
        """
        return self._between(first, second)(self._feature(feature), level)

    def error_difference(self, first: Any, second: Any, level: float = 0.95) -> Difference:
        """How much larger the error, or score, of one group is than that of another, with nothing replaced.

        `first` and `second` are labels of groups, and `level` is the coverage probability of the interval.
        """
        return self._between(first, second)(None, level)

    def differences(self, against: Any = None, level: float = 0.95, adjust: Adjustment | None = "holm") -> Any:
        """Every feature in every group against one group; a data frame, the largest difference first.

        A difference without a standard error, as of a group with fewer than three rows, is NaN; `caution` says why.

        Parameters
        ----------
        against
            The label of that group; the first by default.
        level
            The coverage probability of each interval.
        adjust
            How p-values are adjusted for the number of differences: ``"holm"``, ``"benjamini_hochberg"`` or None.
        """
        base = self._labels[0] if against is None else against
        self[base]
        self._need_errors("difference of groups")
        check_level(level)
        others = [label for label in self if label != base]
        differences = [one for label in others for one in self._all_differences(label, base, level)]
        labels = _plain([label for label in others for _ in self.features]), _plain([base] * len(differences))
        columns = {"feature": list(self.features) * len(others), "group": labels[0], "against": labels[1]}
        return self._frame(columns_of_differences(columns, differences, adjust))

    def _all_differences(self, first: Any, second: Any, level: float) -> list[Difference]:
        """The differences of all features; NaN where one has no standard error, for the reason in `caution`."""
        return [
            or_why(lambda feature=feature: self.difference(first, second, feature, level), level)  # type: ignore[misc]
            for feature in self.features
        ]

    def errors(self, level: float = 0.95) -> Any:
        """The error of each group with nothing replaced, or its score, with an interval at `level`; a data frame.

        An error without a standard error, as of a group with fewer than three rows, has none; `caution` says why.
        """
        self._need_errors("error of groups")
        check_level(level)
        columns: dict[str, list[Any]] = {"group": _plain(self._labels), "n": self.n.tolist()}
        columns[self.every._measure] = [part._base for part in self.values()]
        for part in self.values():
            for name, value in _error_of(part, level).items():
                columns.setdefault(name, []).append(value)
        return self._frame(columns)

    def _need_errors(self, what: str) -> None:
        if not self.every._measure:
            why = self.every._why_no_error
            raise ValueError(f"no {what}: an effect {why}, and has no error on new rows; use plot() and to_frame()")

    # -- shown ----------------------------------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """One row for each group and feature: the group's number of rows and error, and the number with its interval.

        The most important features first.
        """
        groups = list(zip(self._labels, self.n.tolist(), self.values(), strict=True))
        data: dict[str, Any] = {"group": [label for label, *_ in groups for _ in self.features]}
        data["group"] = _plain(data["group"])
        data["n"] = [n for _, n, _ in groups for _ in self.features]
        if self.every._measure:
            data[self.every._measure] = [part._base for *_, part in groups for _ in self.features]
        data["feature"] = [feature for _ in groups for feature in self._ranked]
        lines = [numbers[feature] for numbers in self._numbers.values() for feature in self._ranked]
        return self._frame(data | {key: [line[key] for line in lines] for key in lines[0]})

    def _rows_drawn(self, lines: int) -> int:
        if self.every._of_one:
            return lines if self.every._is_ranked else 0
        return len(self.features) * (1 + len(self) // 2)

    @draws("rows")
    def plot(
        self, *, top: int | None = None, sort: Sort = "importance", scale: AxisScale = "linear",
        colors: Colors | None = None, labels: FeatureLabels | None = None, ax: Axes | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the number of each group, or of each feature and group, with 95% intervals; of one effect the curves.

        Parameters
        ----------
        colors
            One colour for all groups, a list in the order of those drawn, or a mapping from their labels to colours.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(60, 2))
        >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
        >>> ax = imp.by(np.where(X[:, 0] > 0, "north", "south")).plot(top=1, labels={"x1": "speed"})
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['speed']
        """
        if self.every._of_one and not self.every._is_ranked:
            return self.plot_curves(colors=colors, labels=labels, ax=ax)
        return plots.rankings.plot_by_group(self, ax, Look(top, sort, scale, colors, labels))

    @draws("curve")
    def plot_curves(
        self, feature: str | None = None, *, scale: AxisScale = "linear", colors: Colors | None = None,
        labels: FeatureLabels | None = None, ax: Axes | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the PI or PD curve of a feature in each group.

        Parameters
        ----------
        feature
            Whose curves; may be omitted if there is one feature only.
        colors
            One colour for all groups, a list in the order of those drawn, or a mapping from their labels to colours.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(60, 2))
        >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
        >>> imp.by(np.where(X[:, 0] > 0, "north", "south")).plot_curves("x1").get_xlabel()
        'x1'
        """
        if not self.every._has_curves:
            raise ValueError(f"{type(self.every).__name__} has no curves of single features by group")
        name = self._feature(feature)
        parts = {label: part if part._of_one else part[name] for label, part in self.items()}
        look = Look(scale=scale, colors=colors, labels=labels)
        return plots.subgroups.plot_groups(parts, ax, look, "" if self.name == "group" else self.name)

    @property
    def what(self) -> str:
        """What the numbers are, for an axis."""
        return str(self.every._axis)

    @property
    def headline(self) -> str:
        """What the numbers are, and of how many groups."""
        return f"{self.what}, in {len(self):,} group{'s' if len(self) > 1 else ''} of rows"

    @property
    def cautions(self) -> list[str]:
        """Which groups have no standard error, or an interval that is to be taken with caution, and why."""
        notes = noted(*self._cautions_by_name())
        more = f"{len(notes) - MOST_NOTES} more notes on single groups: to_frame() has all cautions"
        return notes if len(notes) <= MOST_NOTES else [*notes[: MOST_NOTES - 1], more]

    def _cautions_by_name(self) -> tuple[list[str], list[str]]:
        """Names and cautions: one caution for a group whose features share it, else one for each feature."""
        names: list[str] = []
        cautions: list[str] = []
        for label, numbers in zip(_texts(self), self._numbers.values(), strict=True):
            each = {feature: one.get("caution", "") for feature, one in numbers.items()}
            shared = len(set(each.values())) == 1
            names += [label] if shared else [f"{feature} in {label}" for feature in each]
            cautions += [*each.values()][: 1 if shared else None]
        return names, cautions

    def _table(self) -> ResultTable:
        shown, few = self._shown_features, len(self) <= MOST_LINES
        groups = [*_texts(self), ALL]
        numbers = [*self._numbers.values(), self._numbers_of_all]
        columns: dict[str, Any] = {"group": groups, "n": [*self.n.tolist(), len(self.codes)]}
        heading = f"{self.name} (group)" if self.name in shown else self.name  # a feature keeps its name
        view = [(heading, "{group}"), ("rows", "{n}")]
        if self.every._measure:
            columns["base"] = [part._base for part in [*self.values(), self.every]]
            view.append((self.every._measure, "{base}"))
        for k, feature in enumerate(shown):
            columns[f"feature{k}"] = [_cell(one[feature]) for one in numbers]
            view.append((self.every._heading if self.every._of_one else feature, f"{{feature{k}}}"))
        left = len(self.features) - len(shown)
        notes = (
            [f"{left} less important feature{'s' if left > 1 else ''} not shown; to_frame() has all"] if left else []
        )
        lines = None if few else [*range(MOST_LINES - 1), len(groups) - 1]
        notes += [] if few else [f"{len(self) - MOST_LINES + 1:,} groups not shown; to_frame() has all"]
        return ResultTable(
            f"ByGroup: {self.headline}",
            columns,
            view=view,
            notes=[*notes, *self.cautions],
            in_text=lines,
            most_in_text=None,
            in_view=lines,
        )

    @property
    def _shown_features(self) -> list[str]:
        """The most important features, as many as fit into a line; at least one."""
        used, shown = 30, list[str]()
        for feature in self._ranked:
            used += 2 + max(len(feature), *(len(_cell(one[feature])) for one in self._numbers.values()))
            if used > WIDTH and shown:
                break
            shown.append(feature)
        return shown

    # -- inside ---------------------------------------------------------------------------------------------------

    @cached_property
    def _numbers(self) -> dict[Any, Numbers]:
        return {label: part._numbers for label, part in self.items()}

    _numbers_of_all = cached_property(attrgetter("every._numbers"))

    @property
    def _ranked(self) -> list[str]:
        """Features that matter most in any group first; effects in the requested order."""
        if not self.every._is_ranked:
            return list(self.features)
        largest = {name: [_value(one[name]) for one in self._numbers.values()] for name in self.features}
        return sorted(self.features, key=lambda name: -np.nan_to_num(largest[name], nan=-np.inf).max())

    def _feature(self, feature: str | None) -> str:
        if feature is None and len(self.features) == 1:
            return self.features[0]
        if feature is None:
            raise ValueError(f"which feature? Name one of {', '.join(self.features[:20])}")
        if feature not in self.features:
            raise KeyError(unknown_feature(feature, self.features, "features"))
        return feature

    def _between(self, first: Any, second: Any) -> Compared:
        """The difference of two groups, as a function of what is compared (a feature, or None: the error)."""
        parts = self[first], self[second]
        if first == second:
            raise ValueError(f"{label_text(first)!r} is compared with itself; name two groups")
        self._need_errors("difference of groups")
        rows = [np.asarray(self.codes == list(self).index(label)) for label in (first, second)]
        compare: Compared = self.every._between(parts, rows, (label_text(first), label_text(second)))
        return compare


def by_group(result: Any, groups: Any) -> ByGroup[Any]:
    """The result for each group; `groups` has a label for each row, or is a column's name. A named series names it."""
    name = groups if isinstance(groups, str) else getattr(groups, "name", None)
    masks = result._split(result._column(groups, "groups") if isinstance(groups, str) else groups)
    codes = np.empty(len(next(iter(masks.values()))), np.intp)
    for k, mask in enumerate(masks.values()):
        codes[mask] = k
    labels = (
        np.array(list(masks)) if isinstance(next(iter(masks)), (np.datetime64, np.timedelta64)) else _objects(masks)
    )
    grouped: ByGroup[Any] = ByGroup(result, labels, codes, name if isinstance(name, str) and name.strip() else "group")
    grouped.parts  # noqa: B018 - what a result cannot give for some rows, it says here
    return grouped


def _objects(labels: Mapping[Any, Any]) -> NDArray[Any]:
    """An array of objects, whatever these are: text keeps its type, and a tuple remains one object."""
    array = np.empty(len(labels), object)
    array[:] = list(labels)
    return array


def _plain(labels: list[Any]) -> list[Any]:
    """Labels as data frame libraries accept them: mixed types and other objects become text."""
    kinds = {type(label) for label in labels}
    return labels if len(kinds) == 1 and all(isinstance(label, PLAIN) for label in labels) else _texts(labels)


def _texts(labels: Iterable[Any]) -> list[str]:
    """Labels as text, in which different labels differ: 1 and '1' become ``1`` and ``'1'``.

    >>> _texts(["a", 1]), _texts([1, "1", 1])
    (['a', '1'], ['1', "'1'", '1'])
    """
    different = list(dict.fromkeys(labels := list(labels)))
    if len({label_text(label) for label in different}) < len(different):
        return [*map(repr, labels)]
    return [*map(label_text, labels)]


def _value(numbers: Mapping[str, Any]) -> float:
    return float(next(iter(numbers.values())))


def _cell(numbers: Mapping[str, Any]) -> str:
    """The number of a group as text, with its standard error where there is one."""
    value, error = _value(numbers), numbers.get("std_error", np.nan)
    if not np.isfinite(value):
        return NONE
    if "largest" in numbers:
        return f"{in_digits(value)} to {in_digits(float(numbers['largest']))}"
    if not value and not error > 0:
        return "0"
    return f"{in_digits(value)} ± {in_digits(error, value or error)}" if np.isfinite(error) else in_digits(value)


def _error_of(part: Any, level: float) -> dict[str, Any]:
    """The error of a group with its interval; NaN where there is none, for the reason in `caution`."""
    why = part._why_no_base or why_not(lambda: part._base_estimates.number(part._measure, level))
    if why:
        return {"std_error": np.nan, "low": np.nan, "high": np.nan, "caution": why}
    one = part._base_estimates.number(part._measure, level)
    return {"std_error": one.std_error, "low": one.low, "high": one.high, "caution": one.caution}
