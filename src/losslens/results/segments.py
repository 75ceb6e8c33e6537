"""Weak segments: rows, described by rules, for which the model's error is larger than for the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Result, Stored
from losslens.results.selection import positions
from losslens.results.table import ResultTable
from losslens.tables.row_labels import Labels
from losslens.text import Sentence, in_digits, share_in_words
from losslens.typing import Axes, AxisScale, Colors, Mask
from losslens.uncertainty.inference import Estimated, Estimates


@dataclass(frozen=True, eq=False)
class Segment(Stored):
    """Rows that fulfil a rule: `error` and `other` are of all rows, what is tested of `judged` rows.

    These had no part in choosing the rule, so that their error is not large only because the rule was chosen for it.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> rng = np.random.default_rng(0)
    >>> X, noise = rng.normal(size=(1000, 4)), rng.normal(size=1000)
    >>> y = X[:, 0] + np.where(X[:, 1] > 1, 3.0, 1.0) * noise
    >>> worst = ll.weak_segments(lambda X: X[:, 0], X, y, loss="squared_error").segments[0]
    >>> worst.columns, bool(worst.judged_low > worst.judged_other), bool(worst.p < 0.05)
    (('x1',), True, True)
    """

    rule: str  #: the rule, in words
    columns: tuple[str, ...]  #: columns that the rule reads
    rows: NDArray[Any]  #: labels of all rows that fulfil it, or positions where there are none
    share: float  #: share of all rows, by weight
    error: float  #: error of all its rows
    other: float  #: error of all other rows
    judged: int  #: rows of the segment that had no part in choosing the rule; all that follows is of such rows
    judged_error: float  #: their error
    judged_low: float  #: low end of its 95% interval
    judged_high: float  #: high end
    judged_other: float  #: error of the other rows that had no part in it
    difference: float  #: of the two errors, with its 95% interval
    difference_low: float  #: low end of that interval
    difference_high: float  #: high end
    ratio: float  #: ratio of the two errors, with its 95% interval; NaN where losses may be negative
    ratio_low: float  #: low end of that interval
    ratio_high: float  #: high end
    p: float  #: one-sided, of no larger error there; allows for all rules that were tested
    std_error: float = np.nan  #: standard error of the difference
    units: float = np.nan  # the rows, or groups, of the side that has fewer, as so many of equal weight
    skewness: float = 0.0  # of the difference

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def judgement(self) -> str:
        """What the rows say that had no part in choosing the rule, as a sentence."""
        error, low, high, other = (
            in_digits(number, self.error)
            for number in (self.judged_error, self.judged_low, self.judged_high, self.judged_other)
        )
        return (
            f"On the {self.judged:,} of these rows that were not used to find the rule it is {error} (95% interval "
            f"{low} to {high}), against {other}."
        )


@dataclass(frozen=True, eq=False, repr=False)
class WeakSegments(Result, Estimated):
    """Where the model's error is larger: rules that a search on half of the rows gives, judged on the other half.

    `to_frame()` has one row a segment, the clearest first: rule, n, share, error and other (of all rows), judged (how
    many had no part in finding the rule) and, of those, judged_error with its interval, judged_other, difference and
    ratio with their intervals, p.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> rng = np.random.default_rng(0)
    >>> X, noise = rng.normal(size=(1000, 4)), rng.normal(size=1000)
    >>> y = X[:, 0] + np.where(X[:, 1] > 1, 3.0, 1.0) * noise
    >>> weak = ll.weak_segments(lambda X: X[:, 0], X, y, loss="squared_error")
    >>> len(weak.segments), bool(weak.segments[0].error > weak.error)
    (1, True)
    """

    segments: tuple[Segment, ...]  #: the segments, the clearest first
    why: str  #: why there are none; "" if there are
    error: float  #: error of all rows
    low: float  #: low end of its 95% interval
    high: float  #: high end
    n: int  #: number of rows
    level: float  #: the probability of any false finding
    title: str  #: name of the error
    backend: str
    row_labels: Labels | None = None  # (n,); None: positions identify rows

    _errors_elsewhere = "its p-values allow for the search: to_frame()"

    def mask(self, segment: int = 0) -> Mask:
        """The rows of `segment`, by position, as a mask, for `given` and `subset` of other results on the same rows.

        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = X[:, 0] + np.where(X[:, 1] > 1, 5, 1) * np.random.default_rng(1).normal(size=400)
        >>> weak = ll.weak_segments(lambda X: X[:, 0], X, y, loss="squared_error")
        >>> int(weak.mask(0).sum()) == weak.segments[0].n
        True
        """
        if not self.segments:
            raise ValueError(f"there are no segments: {self.why}")
        if not isinstance(segment, (int, np.integer)) or not 0 <= segment < len(self.segments):
            raise ValueError(f"segments are numbered 0 to {len(self.segments) - 1}; got {segment!r}")
        chosen = np.zeros(self.n, bool)
        chosen[positions(self.segments[segment].rows, self.n, self.row_labels, self.backend)] = True
        return chosen

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(one.rule for one in self.segments)

    def _part(self, name: str) -> Segment:
        return self.segments[self._names.index(name)]

    @property
    def _estimates(self) -> Estimates:
        """By rule, how much larger the error is than elsewhere; its p-value is of this rule alone, unlike `p`."""
        value, error, units, skewness = np.array(
            [(one.difference, one.std_error, one.units, one.skewness) for one in self.segments]
        ).reshape(-1, 4).T  # fmt: skip
        return Estimates(self._names, value, error, units, skewness, doubts=("",) * len(value), scale=self.error)

    @property
    def sentences(self) -> list[str]:
        """The segments as sentences."""
        return [self._sentence(one) for one in self.segments]

    def _sentence(self, one: Segment) -> str:
        rule = f"where {one.rule} ({one.n:,} rows, {share_in_words(one.share)})"
        error, other = in_digits(one.error), in_digits(one.other, one.error)
        return f"The {self.title} is {error} {rule}, and {other} elsewhere. {one.judgement}"

    @property
    def _message(self) -> Sentence:
        from losslens.results.plain_error import PlainError
        from losslens.results.sentences import error_is_larger, no_weak_segment

        if not self.segments:
            return no_weak_segment(self)
        return error_is_larger(self.segments[0], PlainError("loss", self.title, self.error))

    def _table(self) -> ResultTable:
        ends = ("", "_low", "_high")
        contrasts = [name + end for name in ("difference", "ratio") for end in ends]
        judged = [f"judged{end}" for end in ("", "_error", "_low", "_high", "_other")]
        names = ("rule", "n", "share", "error", "other", *judged, *contrasts, "p")
        overall = f"{self.title} {in_digits(self.error)} on {self.n:,} rows"
        number = f"{len(self.segments)} segment{'s' * (len(self.segments) != 1)}" if self.segments else "none"
        notes = [self.why] if self.why else []
        if self.segments:
            notes.append("intervals and p are of the rows that were not used to find the rule (judged)")
            notes.append(f"p allows for all rules that were tested: any false finding in {self.level:.0%} of the cases")
        return ResultTable(
            f"Weak segments: {number}; {overall}",
            {name: [getattr(one, name) for one in self.segments] for name in names},
            ("{rule}", "{error}, elsewhere {other}, n = {n} ({share}); {judged} judged: {judged_error} ({judged_low} "
             "to {judged_high}), p = {p}"),
            (("rule", "{rule}"), ("rows", "{n} ({share})"), ("error", "{error}"), ("elsewhere", "{other}"),
             ("rows judged", "{judged}"), ("their error", "{judged_error}"),
             ("95% interval", "{judged_low} to {judged_high}"), ("p", "{p}")),
            notes, like="error", alike=("other", "judged_error", "judged_low", "judged_high", "judged_other"),
        )  # fmt: skip

    @draws("rows")
    def plot(
        self, ax: Axes | None = None, *, top: int | None = None, scale: AxisScale = "linear",
        colors: Colors | None = None, title: str | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the error of all rows and of each segment, with 95% intervals.

        Parameters
        ----------
        top
            How many segments to draw, the first ones; all that fit by default.
        scale
            Axis of the errors: ``"linear"``, ``"log"`` or ``"symlog"``.
        colors
            One colour for all bars, or a list from top to bottom, all rows first.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = X[:, 0] + np.where(X[:, 1] > 1, 3, 0)
        >>> weak = ll.weak_segments(lambda X: X[:, 0], X, y, loss="squared_error")
        >>> weak.plot().get_yticklabels()[0].get_text()
        'all 400 rows'
        """
        return plots.rankings.plot_segments(self, ax, Look(top, scale=scale, colors=colors))
