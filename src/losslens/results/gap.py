"""The difference in error between two groups of rows, distributed to the features.

Shapley shares of a row sum to what all features together take off its loss, ``u_i - l_i``: l_i is its loss, u_i its
mean loss with all values from other rows. With means over two groups of rows, A and B,

    mean_A l - mean_B l = (mean_A u - mean_B u) - sum over features j of (mean_A local_j - mean_B local_j),

to rounding: one line a feature, and one for what the groups differ in before any feature is used. Of a row, u_i depends
on the target alone, if every column belongs to a feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from losslens import plots
from losslens.donors.layout import Layout
from losslens.plots.look import Look, draws
from losslens.results.base import Result
from losslens.results.table import INTERVAL, ResultTable
from losslens.tables.checks import is_one_of
from losslens.tables.features import unknown_feature
from losslens.tables.sample import Sample
from losslens.text import in_digits, rounding_error
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Floats, Indices, Sort
from losslens.uncertainty import contrasts
from losslens.uncertainty.cautions import noted, small_group
from losslens.uncertainty.inference import Adjustment, Difference, Estimated, Estimates, adjusted, difference
from losslens.uncertainty.standard_errors import Influence, check_level, welch

NOTHING, NONE_OF_THESE = "(without any feature)", "(without these features)"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Gap(Result, Estimated):
    """How much larger the error is in one group of rows than in another, and which features the difference comes with.

    `to_frame()` has one row a line, which sum to `total`: what the groups differ in without any feature, and for each
    feature how much less it takes off the error in the first group than in the second.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = X[:, 1] * np.where(X[:, 0] > 0, 1, 2)
    >>> gap = ll.shapley_importance(lambda X: X[:, 1], X, y, loss="squared_error").gap(X[:, 0] <= 0)
    >>> gap.lines, bool(np.isclose(gap.parts.sum(), gap.total)), bool(gap.total > 0)
    (('(without any feature)', 'x0', 'x1'), True, True)
    """

    names: tuple[str, ...]  #: names of the two groups
    features: tuple[str, ...]  #: names of the features
    n: Indices  #: rows with weight in each group, (2,)
    error: Floats  #: error of each group, (2,)
    without: Floats  #: error of each group with all values from other rows, (2,)
    shares: Floats  #: how much each feature takes off the error of each group, (2, p)
    title: str  #: name of the loss
    backend: str
    # Of the lines and, last, of the total, (p + 2,): empty where there are too few rows, for the reason in `why`
    centre: Floats  # without pairs of a row with itself
    std_error: Floats  #: standard errors of the lines and, last, of the total, (p + 2,)
    skewness: Floats
    freedom: Floats
    effective: float  # the smaller group counts as so many rows, or groups of rows, of equal weight
    grouped: bool  # groups of rows were left out together
    covers_table: bool  # every column belongs to a feature
    why: str = ""  #: why there are no standard errors; empty if there are
    remarks: tuple[str, ...] = ()

    _internal = ("centre", "effective", "remarks")

    @property
    def total(self) -> float:
        """The error of the first group less that of the second: the sum of `parts`."""
        return float(self.error[0] - self.error[1])

    @property
    def lines(self) -> tuple[str, ...]:
        """The names of the parts: without any feature, and the features."""
        return (NOTHING if self.covers_table else NONE_OF_THESE, *self.features)

    @property
    def parts(self) -> Floats:
        """What each line adds to the difference, (p + 1,)."""
        difference = self.without[0] - self.without[1]
        beyond_rounding = abs(difference) > 1e-12 * np.abs(self.without).sum()
        return np.concatenate([[difference if beyond_rounding else 0.0], self.shares[1] - self.shares[0]])

    @property
    def _names(self) -> tuple[str, ...]:
        return self.lines

    def _part(self, name: str) -> Difference:
        return self.part(name)

    def part(self, line: str, level: float = 0.95) -> Difference:
        """One `line`, by name, with its interval at `level` and the two-sided p-value of no difference."""
        if not is_one_of(line, self.lines):
            raise KeyError(unknown_feature(line, self.lines, "lines").replace("feature", "line", 1))
        return self._difference(self.lines.index(line), level)

    def whole(self, level: float = 0.95) -> Difference:
        """The total difference with its interval at `level` and the two-sided p-value of no difference."""
        return self._difference(len(self.lines), level)

    @cached_property
    def _estimates(self) -> Estimates:
        if self.why:
            raise ValueError(self.why)
        return Estimates(
            self.lines, self.parts, self.std_error[:-1], self.freedom[:-1] + 1, self.skewness[:-1],
            "groups" if self.grouped else "rows", centre=self.centre[:-1], doubts=self.caution, scale=self.total,
            two_sided=True,
        )  # fmt: skip

    def _difference(self, k: int, level: float) -> Difference:
        check_level(level)
        if self.why:
            raise ValueError(self.why)
        first, second = self.names
        return difference(
            (first, second), float([*self.parts, self.total][k]), float(self.std_error[k]), float(self.freedom[k]),
            level, float(self.skewness[k]), centre=float(self.centre[k]), grouped=self.grouped,
        )  # fmt: skip

    @property
    def caution(self) -> tuple[str, ...]:
        """Why each line or its interval is to be taken with caution, (p + 1,); empty text if it is not."""
        if self.why:
            return ("",) * len(self.lines)
        few = "" if self.grouped else small_group(self.effective)
        cautions = [self._difference(k, 0.95).caution for k in range(len(self.lines))]
        return tuple(" ".join(filter(None, (few, one))) for one in cautions)

    @property
    def cautions(self) -> list[str]:
        """Which intervals are to be taken with caution, and why; empty if none is."""
        return noted(self.lines, self.caution)

    def test(self, adjust: Adjustment | None = "holm") -> Any:
        """Two-sided tests of no difference in a line; a data frame, the smallest p first. `adjust` as elsewhere."""
        p = self._estimates.p_values()
        order = np.argsort(p, kind="stable")
        data = {"line": [self.lines[k] for k in order], "part": self.parts[order], "p": p[order]}
        return self._frame(data if adjust is None else data | {"p_adjusted": adjusted(p, adjust)[order]})

    # -- shown ----------------------------------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """What the numbers are."""
        first, second = self.names
        text = in_digits(self.total)
        if not self.why:
            total = self.whole()
            text += f" ({in_digits(total.low, self.total)} to {in_digits(total.high, self.total)})"
        errors = [f"{in_digits(error)} in {n:,} rows" for error, n in zip(self.error, self.n, strict=True)]
        return f"{self.title} of {first} less that of {second}: {text}; {errors[0]} and {errors[1]}"

    @property
    def notes(self) -> list[str]:
        """What the lines are."""
        first, second = self.names
        reason = "their targets alone" if self.covers_table else "their targets and the other columns"
        notes = [
            f"the lines sum to the difference; a feature's line is how much more it reduces the error of {second} than "
            f"that of {first}, which describes the difference and does not explain its cause",
            f"the first line is the difference with all features replaced, which comes from {reason}; values come "
            "from all rows, whatever their group",
            f"in {first}, in {second}: the error with all features replaced, then how much each feature reduces it",
            self.why or "p-values are adjusted by Holm's method for all lines",
        ]
        return [*notes, *self.remarks, *self.cautions]

    def _table(self) -> ResultTable:
        none = np.full(len(self.lines), np.nan)
        low, high, p, error = none, none, none, none
        if not self.why:
            (low, high), error = self.interval(), self.std_error[:-1]
            p = self._estimates.p_values()
        columns = {
            "line": self.lines,
            "part": self.parts,
            "std_error": error,
            "low": low,
            "high": high,
            "p": p,
            "p_adjusted": none if self.why else adjusted(p, "holm"),
            "first": np.concatenate([self.without[:1], self.shares[0]]),
            "second": np.concatenate([self.without[1:], self.shares[1]]),
            "caution": list(self.caution),
        }
        view = [("", "{line}"), ("difference", "{part}"), INTERVAL, ("p (adjusted)", "{p_adjusted}")]
        view += [(f"in {name}", f"{{{key}}}") for name, key in zip(self.names, ("first", "second"), strict=True)]
        table = ResultTable(f"Gap: {self.headline}", columns, (), view, self.notes, like="part",
                            rounding=rounding_error(self.n.sum(), *self.without, *self.error),
                            rounded=("first", "second"))  # fmt: skip
        return table.ordered(np.concatenate([[0], 1 + np.argsort(-np.abs(self.parts[1:]), kind="stable")]))

    @draws("rows")
    def plot(
        self, ax: Axes | None = None, *, top: int | None = None, sort: Sort = "importance",
        scale: AxisScale = "linear", colors: Colors | None = None, labels: FeatureLabels | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the difference in error, and what each line adds to it, with 95% intervals.

        Parameters
        ----------
        top
            How many features to draw, those that add or take off most; all that fit by default.
        scale
            Axis of the differences: ``"linear"`` or ``"symlog"``; ``"log"`` only if all are above 0.
        colors
            One colour for all lines below the first, a list from top to bottom, or a mapping from features to colours.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(60, 2))
        >>> y = X[:, 1] * np.where(X[:, 0] > 0, 1, 2)
        >>> shares = ll.shapley_importance(lambda X: X[:, 1], X, y, loss="squared_error")
        >>> [label.get_text() for label in shares.gap(X[:, 0] > 0).plot().get_yticklabels()]
        ['whole difference', '(without any feature)', 'x1', 'x0']
        """
        return plots.rankings.plot_gap(self, ax, Look(top, sort, scale, colors, labels))


def gap_between(
    groups: tuple[Indices, Indices], local: Floats, sample: Sample, pairs: tuple[Floats, Layout, Indices] | None, *,
    with_own: bool, names: Any, **fields: Any,
) -> Gap:  # fmt: skip
    """The gap of two groups of rows from the shares of rows, (n, p), and of pairs: cells, their layout and their rows.

    with_own: the means include the pair of a row with itself, which intervals leave out, row by row: the lines then
    still sum to the difference. Without pairs, intervals leave out observations alone.
    """
    assert sample.loss is not None  # shares need a loss
    if np.array_equal(*groups):
        raise ValueError("rows_a and rows_b are the same rows; choose two groups that differ")
    for rows, name in zip(groups, ("rows_a", "rows_b"), strict=True):
        if not sample.weight[rows].sum() > 0:
            raise ValueError(f"{name}: all of them have weight 0; choose rows with weight")
        if np.isnan(local[rows][sample.weight[rows] > 0]).any():
            raise ValueError(f"{name}: some have no donor with weight, and so no share; use more donors")
    local = np.where(sample.weight[:, None] > 0, local, 0.0)
    shares, error, without = (
        np.stack([sample.weight[rows] @ values[rows] / sample.weight[rows].sum() for rows in groups])
        for values in (local, sample.loss, sample.loss + local.sum(axis=1))
    )
    first, second = (sample.effective_units(rows) for rows in groups)
    fields |= {
        "names": _names_of_two(names), "n": np.array([np.sum(sample.weight[rows] > 0) for rows in groups]),
        "error": error, "without": without, "shares": shares, "effective": min(first, second),
        "grouped": sample.block is not None,
    }  # fmt: skip
    least, none = min(sample.units(rows) for rows in groups), np.empty(0)
    if least < 3:
        unit = "rows" if sample.block is None else "groups"
        why = f"no intervals: each of the two needs at least 3 {unit} with weight, and one has {least}"
        return Gap(**fields, centre=none, std_error=none, skewness=none, freedom=none, why=why)
    if with_own:
        local /= np.where(sample.weight < 1, 1 - sample.weight, 1.0)[:, None]
    values = np.column_stack([sample.loss + local.sum(axis=1), -local, sample.loss])
    weight, roles = contrasts.contrast(sample, *groups), [contrasts.of_rows(values, sample, rows) for rows in groups]
    moved, excess = roles[0] - roles[1], np.zeros(values.shape[1])
    if pairs is not None:
        cells, layout, pair_rows = pairs
        of_donors, excess[:-1] = contrasts.of_donors(cells, local[pair_rows], layout, sample, pair_rows, weight)
        moved += np.column_stack([of_donors.sum(axis=1), -of_donors, np.zeros(len(of_donors))])
    each = [Influence(*column) for column in zip(moved.T, excess, excess, strict=True)]
    freedom = [
        welch((float(a @ a), float(b @ b)), (first, second)) for a, b in zip(roles[0].T, roles[1].T, strict=True)
    ]
    return Gap(
        **fields, centre=weight @ values, std_error=np.array([one.std_error for one in each]),
        skewness=np.array([one.skewness for one in each]), freedom=np.array(freedom, float),
    )  # fmt: skip


def _names_of_two(names: Any) -> tuple[str, str]:
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) != 2 or names[0] == names[1]:
        raise ValueError(f"names are two different names of the groups, such as ('men', 'women'); got {names!r}")
    return str(names[0]), str(names[1])
