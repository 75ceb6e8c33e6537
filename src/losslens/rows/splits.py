"""Splits of rows by single columns, and a test whether the best of them explains more than chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.columns import Distinct, is_missing
from losslens.tables.sample import by_unit
from losslens.typing import Floats, Indices, Mask

MAX_CUTS = 32  # thresholds of one column, at evenly spaced ranks
MAX_CATEGORIES = 32  # categories of one column, the most frequent
BATCH = 64  # permutations computed at a time
MORE = 10  # times as many permutations at most, where the p-value is close to the level
ROUNDING = 1e-6  # of single precision, in which permuted sums are computed: twice as fast
Sides = NDArray[np.float32]


@dataclass(frozen=True)
class SplitRule:
    """A condition on a column: relation and value."""

    column: str
    how: str
    what: str
    or_missing: bool = False  # missing values fulfil it, too

    def __str__(self) -> str:
        return f"{self.column} {self.how} {self.what}" + (" or missing" if self.or_missing else "")

    @property
    def needs_value(self) -> bool:
        """Whether missing values violate it."""
        return self.how in ("≤", "=") or (self.how == ">" and not self.or_missing) or self._is_present

    @property
    def _is_present(self) -> bool:
        return (self.how, self.what) == ("is", "known")

    def follows_from(self, other: SplitRule) -> bool:
        """Whether rows that fulfil the other, a rule further down the tree, fulfil it."""
        if self.column != other.column:
            return False
        single = other.how == "=" or (other.how, other.what) == ("is", "missing")  # one value is left
        return single or (self.how == other.how != "≠") or (self._is_present and other.needs_value)


def with_rule(rules: tuple[SplitRule, ...], rule: SplitRule) -> tuple[SplitRule, ...]:
    """Add a rule of a node below: those that follow from it go, and "or missing" goes where a value is needed.

    >>> in_words(with_rule((SplitRule("month", "≤", "Feb"),), SplitRule("month", "=", "Jan")))
    'month = Jan'
    """
    if any(one.needs_value for one in rules if one.column == rule.column):
        rule = replace(rule, or_missing=False)
    kept = [old for old in rules if not old.follows_from(rule)]
    if rule.needs_value:
        kept = [replace(old, or_missing=False) if old.column == rule.column else old for old in kept]
    return (*kept,) if any(rule.follows_from(old) for old in kept) else (*kept, rule)


def in_words(rules: tuple[SplitRule, ...]) -> str:
    """The conjunction of rules; two bounds of one column are written as an interval.

    >>> in_words((SplitRule("age", ">", "17"), SplitRule("day", "=", "1"), SplitRule("age", "≤", "21")))
    '17 < age ≤ 21 and day = 1'
    """
    low, high = ({rule.column: rule.what for rule in rules if rule.how == how} for how in (">", "≤"))
    texts: dict[str, None] = {}  # distinct ones: an interval would appear for each of its bounds
    for rule in rules:
        pair = rule.how in (">", "≤") and rule.column in low and rule.column in high
        texts[f"{low[rule.column]} < {rule.column} ≤ {high[rule.column]}" if pair else str(rule)] = None
    return " and ".join(texts)


@dataclass(frozen=True, eq=False)
class Split:
    """A yes-no question about a column: whether its value is at most a threshold, or equals a category."""

    name: str
    column: Distinct
    code: int  # of the threshold, or of the category
    other: int | None = None  # the only other category
    is_category: bool = False

    @property
    def rows(self) -> Mask:
        """Which rows are on the yes side, (n,)."""
        codes = _one_missing(self.column, self.column.codes)
        return np.asarray(codes == self.code if self.is_category else codes <= self.code)

    @property
    def yes(self) -> SplitRule:
        """The rule of the yes side."""
        single = self.is_category or (self.code == 0 and self._is_written(0))  # "= 0" where no value is below 0
        return self._equals(self.code) if single else SplitRule(self.name, "≤", self._threshold)

    @property
    def no(self) -> SplitRule:
        """The rule of the other side."""
        value = self.column.values[self.code]
        if not self.is_category:
            if self.code + 2 == len(self.column) and self._is_written(self.code + 1):
                return self._equals(self.code + 1)
            return SplitRule(self.name, ">", self._threshold, or_missing=self.column.present < len(self.column))
        if is_missing(value):
            return SplitRule(self.name, "is", "known")
        return SplitRule(self.name, "≠", _text(value)) if self.other is None else self._equals(self.other)

    def _equals(self, code: int) -> SplitRule:
        value = self.column.values[code]
        return SplitRule(self.name, "is", "missing") if is_missing(value) else SplitRule(self.name, "=", _text(value))

    def _is_written(self, code: int) -> bool:
        """Whether a value's text is the value."""
        value = self.column.values[code]
        return self.column.values.dtype.kind != "f" or float(_text(value)) == value

    @property
    def _threshold(self) -> str:
        # Neighbours among the values of all rows, not only of those that are split.
        low, high = self.column.values[self.code : self.code + 2]
        return _between(float(low), float(high)) if self.column.values.dtype.kind == "f" else _text(low)


def candidates(columns: Mapping[str, Distinct], here: Mask, least: int) -> list[Split]:
    """Splits of these rows with enough of them on both sides."""
    return [split for name, column in columns.items() for split in _of_column(name, column, column.codes[here], least)]


def _of_column(name: str, column: Distinct, codes: Indices, least: int) -> list[Split]:
    counts = np.bincount(_one_missing(column, codes), minlength=len(column))
    present, below = np.flatnonzero(counts), np.cumsum(counts)
    splits = [] if len(present) < 2 else _possible_splits(name, column, present, counts)
    yes = [int(counts[split.code] if split.is_category else below[split.code]) for split in splits]
    return [split for split, k in zip(splits, yes, strict=True) if least <= k <= len(codes) - least]


def _one_missing(column: Distinct, codes: Indices) -> Indices:
    """The codes with all kinds of missing values as one: a rule says that a value is missing, not how."""
    return np.minimum(codes, column.present) if len(column) - column.present > 1 else codes


def _possible_splits(name: str, column: Distinct, present: Indices, counts: Indices) -> list[Split]:
    if len(present) == 2:  # of two values one decides
        return [Split(name, column, int(present[0]), int(present[1]), is_category=True)]
    if not column.ordered:
        chosen = present[np.argsort(-counts[present], kind="stable")][:MAX_CATEGORIES]
        return [Split(name, column, int(code), is_category=True) for code in np.sort(chosen)]
    return _cuts(name, column, present, counts)


def _cuts(name: str, column: Distinct, present: Indices, counts: Indices) -> list[Split]:
    """Thresholds between neighbouring values; whether a value is missing is a split of its own."""
    codes, missing = present[present < column.present], present[present >= column.present]
    ranks = np.cumsum(counts[codes]) / counts[codes].sum()
    quantiles = np.arange(1, MAX_CUTS + 1) / (MAX_CUTS + 1)
    places = np.unique(np.searchsorted(ranks, quantiles)) if len(codes) > MAX_CUTS else np.arange(len(codes) - 1)
    splits = [Split(name, column, int(codes[k])) for k in places if k + 1 < len(codes)]
    return [*splits, *(Split(name, column, int(code), is_category=True) for code in missing)]


def _between(low: float, high: float) -> str:
    """The number with the fewest digits that separates two values."""
    if not np.isfinite(high) or (low.is_integer() and high.is_integer()):
        return np.format_float_positional(low, trim="-")
    middle = (low + high) / 2
    rounded = (float(f"{middle:.{digits}g}") for digits in range(2, 18))
    return np.format_float_positional(next((number for number in rounded if low <= number < high), low), trim="-")


def _text(value: Any) -> str:
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[s]")).replace("T00:00:00", "")
    if isinstance(value, np.timedelta64):
        return f"{value / np.timedelta64(1, 'D'):.6g} days"
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


@dataclass(frozen=True, eq=False)
class PermutationTest:
    """Options of the test of the best split."""

    permutations: int  # fewer if the p-value is clearly above the level, more if it is close to it
    level: float
    rng: np.random.Generator
    block: Indices | None = None  # group of each row


@dataclass(frozen=True, eq=False)
class Tested:
    """The best split of some rows."""

    split: Split
    p: float  # as the best of all splits
    largest: Floats  # T of each permutation that was computed
    candidates: list[Split]

    def p_of(self, statistic: float) -> float:
        """The p-value of another T of this split, as the largest of all."""
        return float((1 + np.sum(self.largest >= statistic * (1 - ROUNDING))) / (1 + len(self.largest)))


def best(splits: list[Split], target: Floats, here: Mask, test: PermutationTest) -> Tested:
    """The split whose sides differ most in the target, with the p-value of this maximum over all splits.

    ``T = |mean_yes - mean_no| / its standard error``, the largest over all splits. For independent rows the standard
    error is Welch's, from the variance on either side, and T is compared with T of the permuted target. This is exact
    if the target is independent of the columns, and valid in large samples if only its mean is: a split is not chosen
    because values spread more on one side of it. Permuting stops early if the p-value is clearly above the level, and
    goes on while it is so close that another seed might decide otherwise.

    Grouped rows are not permuted. The contribution of a group to the difference, ``U_g = sum over its rows of
    (s_i - mean s)(yes_i - mean yes)``, has expectation 0 if the mean is independent of the columns, whatever the size
    of the group and the dependence within it: ``T = |sum U_g| / sqrt(sum U_g^2)`` is compared with T under random signs
    of the groups.
    """
    values = target[here] - target[here].mean()
    sides = sides_of(splits, np.flatnonzero(here))
    if test.block is None:
        statistic, drawn = _permuted(values, sides, test)
    else:
        signed, draw = random_signs(_contributions(values, sides, test.block[here]), ROUNDING * float(values @ values))
        statistic = np.abs(signed)
        drawn = (np.abs(draw(test.rng, count)).max(axis=1) for count in _batches(test.permutations))
    chosen, as_large, seen = int(np.argmax(statistic)), 0, []
    for largest in drawn:
        seen.append(largest)
        as_large += int(np.sum(largest >= statistic[chosen] * (1 - ROUNDING)))
        count = 1 + sum(map(len, seen))
        above = (1 + as_large - test.level * count) / np.sqrt(test.level * count)  # in standard errors, at the level
        if above > 3 or (count > test.permutations and (as_large == 0 or abs(above) > 2)):
            break
    p = (1 + as_large) / count
    return Tested(_refined(splits[chosen], splits, values, here), p, np.concatenate(seen), splits)


def left_out(best: Tested, target: Floats, here: Mask, block: Indices | None = None) -> Mask:
    """Rows that the best split without them (or their group) puts on the side with the larger mean, (n,).

    The sides of the best split of all rows differ too much on average, because the rows took part in its choice.
    """
    values, sides = target[here] - target[here].mean(), sides_of(best.candidates, np.flatnonzero(here))
    if block is None:
        unit, statistics = np.arange(len(values)), _without_rows(values / np.sqrt(np.mean(values**2)), sides)
    else:
        unit = np.unique(block[here], return_inverse=True)[1]
        statistics = _without_groups(_contributions(values, sides, block[here]))
    first = int(np.argmax(np.abs(next(statistics))))
    parts = [(np.abs(some).argmax(axis=1), some) for some in statistics]
    place = np.concatenate([at for at, _ in parts])[unit]
    above = np.concatenate([np.take_along_axis(some, at[:, None], axis=1)[:, 0] > 0 for at, some in parts])[unit]
    sides[:, first] = best.split.rows[here]  # its threshold is finer than that of the candidate
    higher = np.zeros(len(here), bool)
    higher[here] = (sides[np.arange(len(values)), place] == 1) == above
    return higher


def _without_rows(values: Floats, sides: Sides) -> Iterator[Floats]:
    """T of each split with its sign, (1, splits), and then without each row, some rows at a time."""
    n, yes, total, squares = len(values), sides.sum(axis=0, dtype=float), values @ sides, values**2 @ sides
    yield _welch(total, squares, yes, (n, 0.0, n))[None, :]
    for start in range(0, n, BATCH):
        own, v = sides[start : start + BATCH], values[start : start + BATCH, None]
        yield _welch(total - own * v, squares - own * v**2, yes - own, (n - 1, -v, n - v**2))


def _without_groups(contribution: Floats) -> Iterator[Floats]:
    """T of each split with its sign, (1, splits), and then without each group, (groups, splits)."""
    total, squares = contribution.sum(axis=0, keepdims=True), np.square(contribution).sum(axis=0, keepdims=True)
    least = ROUNDING * squares + np.finfo(float).tiny
    yield total / np.sqrt(squares + least)
    yield (total - contribution) / np.sqrt(np.maximum(squares - contribution**2, least))


def _refined(chosen: Split, splits: list[Split], values: Floats, here: Mask) -> Split:
    """The best of all thresholds between the neighbours of the chosen one: only some were candidates."""
    if chosen.is_category:
        return chosen
    bounds = [split.code for split in splits if split.column is chosen.column and not split.is_category]
    k, codes = bounds.index(chosen.code), chosen.column.codes[here]
    counts, total, squares = (np.bincount(codes, w, len(chosen.column)) for w in (None, values, values**2))
    present = np.flatnonzero(counts)
    neighbours = np.flatnonzero((present >= bounds[max(k - 1, 0)]) & (present <= bounds[min(k + 1, len(bounds) - 1)]))
    n, v = len(values), float(np.mean(values**2))
    yes, sums, more = (np.cumsum(some)[present[neighbours]] for some in (counts, total / np.sqrt(v), squares / v))
    best = neighbours[int(np.argmax(np.abs(_welch(sums, more, yes.astype(float), (n, 0.0, n)))))]
    return Split(chosen.name, chosen.column, int(present[best]))


def sides_of(splits: list[Split], rows: Indices) -> Sides:
    """1 for rows on the yes side of each split, else 0, (rows, splits)."""
    parts = []
    for _, some in groupby(splits, key=lambda split: (id(split.column), split.is_category)):
        same = list(some)
        codes, codes_of_splits = same[0].column.codes[rows][:, None], np.array([split.code for split in same])
        parts.append(codes == codes_of_splits if same[0].is_category else codes <= codes_of_splits)
    return np.concatenate(parts, axis=1).astype(np.float32)


def _permuted(values: Floats, sides: Sides, test: PermutationTest) -> tuple[Floats, Iterator[Floats]]:
    """T of each split, and the largest T of each permutation."""
    yes = sides.sum(axis=0, dtype=float)
    scaled = (values / np.sqrt(np.mean(values**2))).astype(np.float32)

    def statistic(some: Sides) -> Floats:
        both = np.asarray(np.concatenate([some, some**2]) @ sides, float)
        return np.abs(_welch(both[: len(some)], both[len(some) :], yes, (len(values), 0.0, len(values))))

    def drawn() -> Iterator[Floats]:
        for count in _batches(test.permutations):
            yield statistic(test.rng.permuted(np.tile(scaled, (count, 1)), axis=1)).max(axis=1)

    return statistic(scaled[None, :])[0], drawn()


def _welch(total: Floats, squares: Floats, yes: Floats, of_all: tuple[float, Any, Any]) -> Floats:
    """T with its sign, from sums over the yes side and those of all rows: their number, sum and sum of squares.

    Values have about mean 0 and variance 1.
    """
    n, everything, every_square = of_all
    no, rest = n - yes, everything - total
    variance = squares / yes - np.square(total / yes), (every_square - squares) / no - np.square(rest / no)
    least = ROUNDING * (1 / yes + 1 / no)  # sides without spread would divide by a rounding error
    error = np.sqrt(np.maximum(variance[0] / (yes - 1) + variance[1] / (no - 1), least))
    return np.asarray((total / yes - rest / no) / error)


def random_signs(contribution: Floats, least: float) -> tuple[Floats, Callable[[np.random.Generator, int], Floats]]:
    """Sums of what groups contribute, (groups, s) -> (s,), in standard errors; and such with random signs of groups.

    A sum of squares counts as `least` at least: of rounding errors nothing is significant.
    """
    scale = 1 / np.sqrt(np.maximum(np.square(contribution).sum(axis=0), least))

    def draw(rng: np.random.Generator, count: int) -> Floats:
        return np.asarray(rng.choice([-1.0, 1.0], (count, len(contribution))) @ contribution * scale)

    return contribution.sum(axis=0) * scale, draw


def _contributions(values: Floats, sides: Sides, block: Indices) -> Floats:
    """U of each group and split, (groups, splits)."""
    return by_unit(values[:, None] * (sides - sides.mean(axis=0, dtype=float)), block)


def smaller_side(yes: Mask, block: Indices | None) -> int:
    """The number of rows, or of groups with rows there, on the side of a split that has fewer."""
    return min(int(side.sum()) if block is None else len(np.unique(block[side])) for side in (yes, ~yes))


def _batches(permutations: int) -> Iterator[int]:
    for _ in range(MORE):
        for start in range(0, permutations, BATCH):
            yield min(BATCH, permutations - start)
