"""Weak segments: rules found on one half of the rows and judged on the other, several times, both ways round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from losslens.progress import Tick, silent
from losslens.results.segments import Segment
from losslens.rows.splits import random_signs, smaller_side
from losslens.rows.worst_rules import Rule, RuleSearch
from losslens.tables.columns import Distinct
from losslens.tables.row_labels import row_names
from losslens.tables.sample import Sample, by_unit, effective_number
from losslens.typing import Floats, Indices, Mask
from losslens.uncertainty.inference import difference
from losslens.uncertainty.standard_errors import Influence, influence_on_mean, interval

HALVINGS = 3  # each is used both ways
LEAST_ROWS, LEAST_SHARE = 10, 0.05  # under a rule, on the half that finds it
JUDGED = 5  # rows under a rule, and others, on the half that judges it; of groups of rows likewise
FEWEST, FEWEST_GROUPS = 100, 20  # rows, and groups of rows, for a search
MOST_ROWS = 5_000  # of each half; more would only take longer
CHAIN = 3  # segments that a half may find one after the other
LEFT_OUT = 0.25  # share of the rows of a shorter rule that a longer one leaves out, for it to be reported in its place
OVERLAP = 0.5  # share of the smaller of two segments in the larger one, from which on only one is reported
DRAWS = 20  # draws at least as large as the statistic after which a test stops: p is far from the level
AT_ONCE = 1 << 20  # entries of random draws computed at a time
LEVEL = 0.95  # of intervals


@dataclass(frozen=True, eq=False)
class SegmentSearch:
    """Rows with their losses, the columns of rules, and the options of the search."""

    columns: Mapping[str, Distinct]
    sample: Sample  # with losses
    depth: int = 2
    level: float = 0.05
    seed: int = 0
    signed: bool = False  # losses may be negative
    most_rows: int = MOST_ROWS  # of each half
    counted: Indices = field(init=False)  # rows with weight

    def __post_init__(self) -> None:
        assert self.sample.loss is not None  # callers have computed it
        counted = np.isfinite(self.sample.loss) & (self.sample.weight > 0)
        object.__setattr__(self, "counted", np.flatnonzero(counted))

    @property
    def tests(self) -> int:
        """Chains of tests, which share the level: one for each half and number of conditions."""
        return 2 * HALVINGS * self.depth

    def too_few(self) -> str:
        """Why there can be no search; "" if there can."""
        rows, block, loss = self.counted, self.sample.block, self._loss
        halves = "half of them find a segment, the other half judge it"
        if len(rows) < FEWEST:
            return f"a search needs {FEWEST} rows with weight ({halves}), and there are {len(rows)}"
        if block is not None and (groups := len(np.unique(block[rows]))) < FEWEST_GROUPS:
            return f"a search needs {FEWEST_GROUPS} groups of rows ({halves}), and there are {groups}"
        if np.ptp(loss[rows]) <= 1e-12 * np.abs(loss[rows]).max():
            return "every row has the same error"
        return ""

    def find(self, tick: Tick = silent) -> tuple[tuple[Segment, ...], str]:
        """Segments that were confirmed, the clearest first; and why there are none."""
        if why := self.too_few():
            return (), why
        rng, confirmed, candidates = np.random.default_rng([self.seed, 14]), list[_Confirmed](), 0
        for _ in range(HALVINGS):
            first = self._half(rng)
            for here in (first, ~first):
                searched_on, judged_on = self._some(here, rng), self._some(~here, rng)
                for worst in self._worst(searched_on, self.depth):
                    for one in self._chain(worst, searched_on, judged_on, rng):
                        candidates += 1
                        confirmed += [one] if one.p <= self.level else []
                tick(1)
        if not candidates:
            return (), "no column divides the rows into parts that are large enough to be judged"
        segments = self._without_overlaps(confirmed)
        why = "" if segments else "no rule that was found on half of the rows was confirmed on the other half"
        return tuple(self._segment(one) for one in sorted(segments, key=lambda one: one.p)), why

    def _without_overlaps(self, confirmed: list[_Confirmed]) -> list[_Confirmed]:
        """Keep one of overlapping segments: the shorter rule, unless a longer one leaves out rows that are better.

        The halves that confirmed both vote on it, each with the rows that judged. All are confirmed, whichever is kept.
        """
        kept: list[_Confirmed] = []
        for one in sorted(confirmed, key=lambda one: (len(one.rule.conditions), -one.rule.statistic)):
            overlapping = [other for other in kept if _overlap(one.rows, other.rows) >= OVERLAP]
            covered = np.any([other.rows for other in kept], axis=0) if kept else ~one.rows
            if not overlapping and (one.rows & covered).sum() >= OVERLAP * one.rows.sum():  # of several together
                continue
            if all(self._narrows(_like(one, confirmed), _like(other, confirmed)) for other in overlapping):
                kept = [*(other for other in kept if other not in overlapping), one]
        return kept

    def _narrows(self, longer: list[_Confirmed], shorter: list[_Confirmed]) -> bool:
        """Whether most halves say that the longer rule leaves out better rows."""
        pairs = [(a, b) for a in longer for b in shorter if a.judged_on is b.judged_on]
        votes = [self._leaves_out_better(a, b) for a, b in pairs if len(a.rule.conditions) > len(b.rule.conditions)]
        return sum(votes) > len(votes) / 2

    def _leaves_out_better(self, one: _Confirmed, other: _Confirmed) -> bool:
        """Whether a longer rule leaves out many rows of a shorter one, with losses more like those of other rows."""
        left_out, shorter = other.rows & ~one.rows & one.judged_on, other.rows & one.judged_on
        neither = one.judged_on & ~(one.rows | other.rows)
        if left_out.sum() < max(JUDGED, LEFT_OUT * shorter.sum()) or not neither.any():
            return False
        parts = (one.rows & one.judged_on, left_out, neither)
        here, left, elsewhere = (np.average(self._loss[part], weights=self.sample.weight[part]) for part in parts)
        return bool(left < (here + elsewhere) / 2)

    @property
    def _loss(self) -> Floats:
        assert self.sample.loss is not None
        return self.sample.loss

    def _half(self, rng: np.random.Generator) -> Mask:
        """A random half of the rows; groups stay whole."""
        block, half = self.sample.block, np.zeros(self.sample.n, bool)
        unit = np.arange(self.sample.n) if block is None else block
        units = np.unique(unit[self.counted])
        half[np.isin(unit, rng.permutation(units)[: len(units) // 2])] = True
        return half

    def _some(self, here: Mask, rng: np.random.Generator) -> Mask:
        """The rows of this half that have weight; a random sample of them if they are very many."""
        rows = self.counted[here[self.counted]]
        rows = rows if len(rows) <= self.most_rows else rng.choice(rows, self.most_rows, replace=False)
        chosen = np.zeros(self.sample.n, bool)
        chosen[rows] = True
        return chosen

    def _worst(self, here: Mask, depth: int) -> list[Rule]:
        """The worst rule of one condition on these rows, of two, and so on."""
        sample, least = self.sample, max(LEAST_ROWS, int(np.ceil(LEAST_SHARE * here.sum())))
        if here.sum() < 2 * least:
            return []
        return RuleSearch.over(self.columns, self._loss, sample.weight, sample.block, here, least, JUDGED).worst(depth)

    def _chain(self, worst: Rule, searched_on: Mask, judged_on: Mask, rng: np.random.Generator) -> Iterator[_Confirmed]:
        """The worst segment, the worst of the rows outside of it, and so on until one is not confirmed.

        Each is tested at the chain's share of the level, and only after those before it were confirmed: this keeps the
        probability that any test of the chain rejects wrongly.
        """
        earlier, p = np.zeros(self.sample.n, bool), 0.0
        for _ in range(CHAIN):
            rows = worst.rows
            p = max(
                p, self._p(rows, judged_on, rng), self._p(rows, judged_on & ~earlier, rng) if earlier.any() else 0.0
            )
            yield _Confirmed(worst, rows, judged_on, min(1.0, p * self.tests))
            if p * self.tests > self.level:
                return
            earlier |= rows
            below = self._worst(searched_on & ~earlier, len(worst.conditions))
            if len(below) < len(worst.conditions):
                return
            worst = below[-1]

    def _p(self, rows: Mask, judged_on: Mask, rng: np.random.Generator) -> float:
        """One-sided p-value of no larger mean loss under the rule; 1 where too few rows can tell."""
        judged = np.flatnonzero(judged_on)
        own, block = rows[judged], None if self.sample.block is None else self.sample.block[judged]
        if smaller_side(own, block) < JUDGED:
            return 1.0
        most = int(np.ceil(10 * self.tests / self.level)) - 1  # p times `tests` can be a tenth of the level
        test = _permuted if block is None else _flipped
        return test(self._loss[judged], self.sample.weight[judged], own, block, most, rng)

    def _segment(self, one: _Confirmed) -> Segment:
        """The numbers of a confirmed rule: of all its rows, and of those that judged it."""
        sample, judged = self.sample, np.flatnonzero(one.judged_on)
        block = None if sample.block is None else sample.block[judged]
        inside, loss, weight = one.rows[judged], self._loss[judged], sample.weight[judged]
        parts = [_mean(loss, np.where(side, weight, 0.0), block) for side in (inside, ~inside)]
        (here, moved, units), (other, moved_other, other_units) = parts
        low, high = interval(here, moved.std_error, units, LEVEL, moved.skewness)
        moved_gap, fewer = moved - moved_other, min(units, other_units)
        gap = difference(("", ""), here - other, moved_gap.std_error, fewer - 1, LEVEL, moved_gap.skewness)
        times = (np.nan, np.nan, np.nan)
        if not self.signed and here > 0 and other > 0:
            of_log = Influence(moved.moved / here - moved_other.moved / other)
            ends = interval(float(np.log(here / other)), of_log.std_error, fewer, LEVEL, of_log.skewness)
            times = (here / other, float(np.exp(ends[0])), float(np.exp(ends[1])))
        named, rest = (self.counted[side] for side in (one.rows[self.counted], ~one.rows[self.counted]))
        return Segment(
            one.rule.words, one.rule.columns, row_names(sample.row_labels, np.flatnonzero(one.rows)),
            float(sample.weight[one.rows].sum()), self._error(named), self._error(rest), int(inside.sum()), here,
            low if self.signed else max(low, 0.0), high, other, gap.value, gap.low, gap.high, *times, one.p,
            gap.std_error, fewer, moved_gap.skewness,
        )  # fmt: skip

    def _error(self, rows: Indices) -> float:
        """The mean loss of these rows."""
        return float(np.average(self._loss[rows], weights=self.sample.weight[rows]))


@dataclass(frozen=True, eq=False)
class _Confirmed:
    """A rule, the rows under it, the rows that judged it, and its adjusted p-value."""

    rule: Rule
    rows: Mask
    judged_on: Mask
    p: float


def _like(one: _Confirmed, confirmed: list[_Confirmed]) -> list[_Confirmed]:
    """Rules of as many conditions that overlap with this one."""
    same = (other for other in confirmed if len(other.rule.conditions) == len(one.rule.conditions))
    return [other for other in same if _overlap(one.rows, other.rows) >= OVERLAP]


def _overlap(a: Mask, b: Mask) -> float:
    return float((a & b).sum()) / max(1, min(int(a.sum()), int(b.sum())))


def _mean(loss: Floats, weight: Floats, block: Indices | None) -> tuple[float, Influence, float]:
    """A weighted mean, the influence of each row or group on it, and their effective number."""
    moved = Influence(influence_on_mean(loss[:, None], weight, block)[:, 0])
    return float(weight @ loss / weight.sum()), moved, effective_number(by_unit(weight, block))


def mean_interval(sample: Sample, rows: Indices, *, signed: bool) -> tuple[float, float, float]:
    """The mean loss of these rows with its interval."""
    assert sample.loss is not None
    weight = np.zeros(sample.n)
    weight[rows] = sample.weight[rows]
    value, moved, units = _mean(sample.loss, weight, sample.block)
    low, high = interval(value, moved.std_error, units, LEVEL, moved.skewness)
    return value, low if signed else max(low, 0.0), high


Statistic = Callable[[int], Floats]


def _permuted(
    loss: Floats, weight: Floats, inside: Mask, block: Indices | None, most: int, rng: np.random.Generator
) -> float:
    """Welch's t against that of permuted memberships: exact if losses (and weights) have nothing to do with the rule.

    It is studentised, hence valid in large samples if only the mean of the losses has nothing to do with it.
    """
    deviation = loss - np.average(loss, weights=weight)
    largest = np.abs(deviation).max()
    if not largest > 0:  # the judging rows have one and the same loss, though not all rows do
        return 1.0
    deviation, mass = deviation / largest, weight / weight.max()
    sums = np.stack([mass, mass * deviation, mass**2, mass**2 * deviation, mass**2 * deviation**2], axis=1)
    total = sums.sum(axis=0)

    def welch(members: Floats) -> Floats:
        here = members @ sums
        (a, of_a), (b, of_b) = (_mean_and_variance(part.T) for part in (here, total - here))
        return np.asarray((a - b) / np.sqrt(np.maximum(of_a + of_b, 1e-30)))

    def drawn(count: int) -> Floats:
        return welch(rng.permuted(np.tile(inside, (count, 1)), axis=1).astype(float))

    return _share_as_large(welch(inside[None, :].astype(float))[0], drawn, len(loss), most)


def _mean_and_variance(sums: Floats) -> tuple[Floats, Floats]:
    mass, pull, square, square_pull, square_both = sums
    mean = pull / mass
    return mean, (square_both - 2 * mean * square_pull + mean**2 * square) / mass**2


def _flipped(
    loss: Floats, weight: Floats, inside: Mask, block: Indices | None, most: int, rng: np.random.Generator
) -> float:
    """Groups of rows: their contributions to the difference against those with random signs, as in `splits.best`."""
    deviation, share = loss - np.average(loss, weights=weight), np.average(inside, weights=weight)
    contribution = by_unit(weight * deviation * (inside - share), block)
    if not contribution.any():
        return 1.0
    statistic, draw = random_signs(contribution, 0.0)
    return _share_as_large(float(statistic), partial(draw, rng), len(contribution), most)


def _share_as_large(statistic: float, drawn: Statistic, width: int, most: int) -> float:
    """The share of draws that are at least as large, after Besag and Clifford: few draws where it is no small share."""
    seen = larger = 0
    while seen < most:
        count = min(most - seen, max(1, AT_ONCE // width), max(DRAWS, seen))
        as_large = drawn(count) >= statistic - 1e-9 * abs(statistic)
        if larger + int(as_large.sum()) >= DRAWS:
            last = int(np.flatnonzero(as_large)[DRAWS - larger - 1])
            return DRAWS / (seen + last + 1)
        seen, larger = seen + count, larger + int(as_large.sum())
    return (1 + larger) / (1 + seen)
