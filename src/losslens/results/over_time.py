"""Importance over time: of the rows in each period, with a band, and the largest step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Result
from losslens.results.selection import row_order
from losslens.results.table import FEATURE, IMPORTANCE, ResultTable, or_else, why_not
from losslens.tables.checks import check_count
from losslens.tables.row_labels import check_order
from losslens.tables.times import Times, read_length, read_times, time_text
from losslens.text import in_digits
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Floats, Indices, Sort
from losslens.uncertainty.inference import Number, adjusted
from losslens.uncertainty.standard_errors import check_level
from losslens.uncertainty.steps_in_time import largest_step

MOST_BINS, ROWS_EACH, GROUPS_EACH = 12, 60, 5  # by default: at most so many bins, of so many rows or groups on average
FROM_ALL = "donors come from all times"
TESTED = "p of a constant importance, adjusted for the features by Holm's method"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OverTime(Result):
    """The importance of features in periods of time: `given` the rows of each, with donors from all rows.

    `low` and `high` are a simultaneous band: with the stated probability it contains a feature's importance to this
    model on new rows in *all* periods (Šidák's intervals, with the degrees of freedom of their own rows or groups).

    `to_frame()` has one line for each feature and period, `changes()` one for each feature: where the
    importance before differs most from that afterwards, and the p-value of a constant importance. That test assumes
    what all standard errors do, that rows, or groups of rows, are independent: pass `time_blocks` as ``groups=``.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = np.where(np.arange(400) < 200, X[:, 0], 0.2 * X[:, 0])
    >>> imp = ll.feature_importance(lambda X: X[:, 0], X, y, loss="squared_error")
    >>> over = imp.over(np.arange(400), bins=4)
    >>> over.importance.shape, int(over.step[0]), bool(over.p[0] < 0.001)
    ((4, 2), 2, True)
    """

    features: tuple[str, ...]  #: names of the features
    start: NDArray[Any]  #: where each period begins, (b,); those without rows are left out
    end: NDArray[Any]  #: where it ends, not included, (b,)
    middle: NDArray[Any]  #: the mean time of its rows, (b,)
    rows: Indices  #: how many rows it has, (b,)
    importance: Floats  #: importance of each feature in each period, (b, p)
    std_error: Floats  #: standard errors, (b, p); NaN where there is none
    low: Floats  #: low ends of the band, (b, p)
    high: Floats  #: high ends of the band, (b, p)
    overall: Floats  #: importance over all rows, (p,)
    step: Indices  #: the period that the largest step leads to, (p,); -1: too few rows, or groups, to tell
    before: Floats  #: the importance before the step, (p,)
    after: Floats  #: and from the step on, (p,)
    p: Floats  #: p-value of a constant importance, (p,)
    level: float  #: probability of the band
    title: str  #: name of the loss
    grouped: bool  # whether standard errors leave out groups of rows
    why: str  #: why there is no band; empty if there is one
    backend: str

    _internal = ("edges",)
    _errors_elsewhere = "its band is low and high, and its tests are changes()"

    def _part(self, name: str) -> OverTime:
        """The result of one feature."""
        chosen = [self.features.index(name)]
        by_period = {what: getattr(self, what)[:, chosen] for what in ("importance", "std_error", "low", "high")}
        of_feature = {what: getattr(self, what)[chosen] for what in ("overall", "step", "before", "after", "p")}
        return replace(self, features=(name,), **by_period, **of_feature)

    @property
    def p_adjusted(self) -> Floats:
        """`p` adjusted for the number of features, by Holm's method, (p,)."""
        tested, adjusted_p = np.flatnonzero(np.isfinite(self.p)), np.full(len(self.p), np.nan)
        adjusted_p[tested] = adjusted(self.p[tested], "holm")
        return adjusted_p

    def to_frame(self) -> Any:
        """One line for each feature and period, in the order of time; a data frame."""
        b, p = self.importance.shape
        columns: dict[str, Any] = {"feature": np.repeat(np.array(self.features, object), b).tolist()}
        columns |= {name: np.tile(getattr(self, name), p) for name in ("start", "end", "rows")}
        return self._frame(
            columns | {name: getattr(self, name).T.ravel() for name in ("importance", "std_error", "low", "high")}
        )

    def changes(self) -> Any:
        """The largest step of each feature's importance, the smallest p first; a data frame."""
        order = np.lexsort((-self.overall, np.nan_to_num(self.p, nan=2.0)))
        starts = [self.edges[0][k] if k >= 0 else "" for k in self.step]
        columns: dict[str, Any] = {
            "feature": self.features,
            "at": starts,
            "before": self.before,
            "after": self.after,
            "p": self.p,
        }
        columns["p_adjusted"] = self.p_adjusted
        return self._frame({name: [values[j] for j in order] for name, values in columns.items()})

    @property
    def edges(self) -> tuple[list[str], list[str]]:
        """Where periods begin and end, as text: days where all are two days or longer, numbers to 1% of a period."""
        by_day = self.start.dtype.kind == "M" and (self.end - self.start).min() >= np.timedelta64(2, "D")
        start, end = (times.astype("M8[D]") if by_day else times for times in (self.start, self.end))
        if self.start.dtype.kind == "f":
            digits = 2 - int(np.floor(np.log10((end - start).min())))
            start, end = (np.round(times, max(digits, 0)) for times in (start, end))
        return [time_text(time) for time in start], [time_text(time) for time in end]

    def _rows_drawn(self, lines: int) -> int:
        return 0

    @draws("curve")
    def plot(
        self, ax: Axes | None = None, *, top: int | None = None, sort: Sort = "importance",
        scale: AxisScale = "linear", colors: Colors | None = None, labels: FeatureLabels | None = None,
    ) -> Axes:  # fmt: skip
        """Draw importance over time with its simultaneous band: of one feature, or of the most important ones.

        Of one feature the importance over all rows is dashed, and its largest step is marked where it is significant.

        Parameters
        ----------
        top
            How many features to draw, the most important ones, at most 8; the first 5 that fit by default.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(90, 2))
        >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
        >>> imp.over(np.arange(90)).plot().get_ylabel()
        'importance: increase in squared error'
        """
        return plots.bands.plot_over_time(self, ax, Look(top, sort, scale, colors, labels))

    @property
    def ranking(self) -> Indices:
        """The positions of the features, the most important first."""
        return np.argsort(-self.overall, kind="stable")

    @property
    def notes(self) -> list[str]:
        """What the band is, and what standard errors rest on."""
        if self.why:
            return [FROM_ALL, f"no band: {self.why}"]
        units = "groups of rows" if self.grouped else "rows, taken as independent: see time_blocks"
        notes = [f"{FROM_ALL}; {self.level:.0%} band for all stretches of a feature together; errors over {units}"]
        missing = int(np.isnan(self.std_error).any(axis=1).sum())
        if missing:
            few = f"too few {'groups' if self.grouped else 'rows'}, or donors"
            periods = f"{missing} of {len(self.rows)} stretches"
            notes.append(f"no interval in {periods}: {few}; the band and the largest step leave these out")
        return notes

    def _table(self) -> ResultTable:
        return self._table_of_one() if len(self.features) == 1 else self._of_several()

    def _table_of_one(self) -> ResultTable:
        columns = {
            "start": self.edges[0], "end": self.edges[1],
            "rows": self.rows, "importance": self.importance[:, 0], "std_error": self.std_error[:, 0],
            "low": self.low[:, 0], "high": self.high[:, 0],
        }  # fmt: skip
        notes = [*self.notes, *([f"largest step: {self._step(0)}"] if self.step[0] >= 0 else [])]
        ends = (f"{self.level:.0%} band", "[{low} to {high}]")
        return ResultTable(
            f"OverTime: {self.features[0]}, increase in {self.title}", columns,
            ("{start} to {end}", "{importance}[ ± {std_error}]", "{rows} rows"),
            (("from", "{start}"), ("to", "{end}"), ("rows", "{rows}"), IMPORTANCE, ends), notes, like="importance",
        )  # fmt: skip

    def _of_several(self) -> ResultTable:
        order = self.ranking
        columns = {
            "feature": [self.features[j] for j in order], "importance": self.overall[order],
            "least": np.fmin.reduce(self.importance)[order], "most": np.fmax.reduce(self.importance)[order],
            "step": [self._step(j) if self.step[j] >= 0 else "" for j in order],
        }  # fmt: skip
        b = len(self.start)
        return ResultTable(
            f"OverTime: increase in {self.title} in {b} stretches of time", columns,
            ("{feature}", "{importance}", "{least} to {most}", "[{step}]"),
            (FEATURE, IMPORTANCE, ("least to most", "{least} to {most}"), ("largest step", "{step}")),
            [*self.notes, *([TESTED] if (self.step >= 0).any() else [])],
            like="importance", alike=("least", "most"),
        )  # fmt: skip

    def _step(self, j: int) -> str:
        start, p = self.edges[0][self.step[j]], self.p_adjusted[j]
        before, after = (in_digits(value, float(self.overall[j]) or None) for value in (self.before[j], self.after[j]))
        return f"{before} before {start}, {after} from then on, p = {p:.2g}"


def over_time(features: Mapping[str, Any], times: Any, bins: int | None, width: Any, level: float) -> OverTime:
    """Importances, each a `FeatureImportance` of the same rows, in periods of time."""
    first = next(iter(features.values()))
    if isinstance(times, str):
        holding = (one for one in features.values() if one._values_held(times) is not None)
        times = next(holding, first)._column(times, "times")
    row_times = read_times(times)
    first._need_rows("over")
    if len(row_times) != len(first.at):
        raise ValueError(f"times has {len(row_times):,} values, but the result has {len(first.at):,} rows")
    check_order(times, row_order(first.row_labels, len(first.at), first.backend), "times")
    check_level(level)
    number, edges = _periods(row_times, bins, width, first)
    counted = first.sample.weight[first.at] > 0
    occupied = np.unique(number[counted])
    if len(occupied) < 2:
        raise ValueError("all rows are in one stretch of time: ask for more bins, or a smaller width")
    chosen = [np.flatnonzero(counted & (number == k)) for k in occupied]
    columns = [_of_feature(feature, chosen, level ** (1 / len(occupied))) for feature in features.values()]
    kind = row_times.moments.dtype
    middle = np.array(
        [row_times.moments[rows].astype(np.int64 if kind.kind in "mM" else float).mean() for rows in chosen]
    )
    arrays = {
        name: np.stack([one[name] for one in columns], axis=-1)
        for name in ("importance", "std_error", "low", "high", "step", "before", "after", "p")
    }
    return OverTime(
        features=tuple(features), start=edges[occupied], end=edges[occupied + 1], middle=middle.astype(kind),
        rows=np.array([len(rows) for rows in chosen]), overall=np.array([one.pfi for one in features.values()]),
        level=level, title=first.loss.title, grouped=first.sample.block is not None, backend=first.backend,
        why=columns[0]["why"], **arrays,
    )  # fmt: skip


def _periods(times: Times, bins: Any, width: Any, first: Any) -> tuple[Indices, NDArray[Any]]:
    """Which period each row is in, and where all of them begin and end."""
    if bins is not None and width is not None:
        raise ValueError("pass either bins, the number of stretches of time, or width, their length, not both")
    if width is not None:
        length = read_length(width, times, "width")
        number = length.number(times)
        return number, length.edges(times, int(number.max()) + 1)
    if bins is None:
        each = ROWS_EACH if first.sample.block is None else GROUPS_EACH
        bins = int(np.clip(first.sample.units(first.at) // each, 2, MOST_BINS))
    check_count(bins, "bins", 2)
    start, end = times.moments.min(), times.moments.max()
    if start == end:
        raise ValueError("all times are the same: there is no importance over time")
    if times.moments.dtype.kind == "f":
        edges = np.linspace(start, end, bins + 1)
    else:
        edges = start + (np.linspace(0, 1, bins + 1) * (end - start).astype(np.int64)).round().astype("m8[us]")
    return np.clip(np.searchsorted(edges, times.moments, side="right") - 1, 0, bins - 1), edges


def _of_feature(feature: Any, chosen: list[Indices], level: float) -> dict[str, Any]:
    """The numbers of one feature in each period, and its largest step."""
    feature._need_donors("importance over time")
    parts = [feature.at_positions(rows) for rows in chosen]
    whys = [why_not(lambda: part.influence) for part in parts]  # noqa: B023
    numbers = [
        None if why else part.estimates().number(part.name, level) for part, why in zip(parts, whys, strict=True)
    ]
    with_error = [k for k, one in enumerate(numbers) if one is not None]
    some = [parts[k] for k in with_error]

    def units(side: Indices) -> float:
        return float(feature.sample.effective_units(np.concatenate([some[k].at for k in side])))

    mass = np.array([part.means.mass.sum() for part in some])
    step = largest_step(np.array([part.unbiased for part in some]), [part.influence for part in some], mass, units)
    importance = np.array([or_else(partial(getattr, part, "pfi"), np.nan) for part in parts])
    before = after = np.nan
    if step is not None:  # of the numbers that are shown, with rows' own values as all importances
        before, after = (
            float(np.average(importance[with_error][side], weights=mass[side]))
            for side in (slice(step.place), slice(step.place, None))
        )
    none = Number(feature.name, np.nan, np.nan, np.nan, np.nan, np.nan, level)
    columns = ("std_error", "low", "high")
    ends = {name: np.array([getattr(one or none, name) for one in numbers]) for name in columns}
    return ends | {
        "importance": importance,
        "step": -1 if step is None else with_error[step.place],
        "before": before,
        "after": after,
        "p": np.nan if step is None else step.p,
        "why": "" if with_error else whys[-1],
    }
