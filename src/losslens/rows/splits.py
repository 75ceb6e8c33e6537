"""Splits of rows by single columns, and whether the best of them explains more than chance would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.columns import Distinct, is_missing
from losslens.typing import Floats, Indices, Mask

MOST_CUTS = 32  # of one column, at evenly spaced ranks
MOST_WORDS = 32  # of one column, the most frequent
AT_A_TIME = 64  # permutations
ROUNDING = 1e-6  # of single precision, in which permuted sums are taken: twice as fast
Sides = NDArray[np.float32]


@dataclass(frozen=True)
class SplitRule:
    """A column, how it compares, and with what."""

    column: str
    how: str
    what: str
    or_missing: bool = False  # rows without a value are on this side, too

    def __str__(self) -> str:
        return f"{self.column} {self.how} {self.what}" + (" or missing" if self.or_missing else "")

    @property
    def needs_value(self) -> bool:
        """Whether a row without a value breaks it."""
        return self.how in ("≤", "=") or (self.how, self.what) == ("is", "known")


def both(rules: tuple[SplitRule, ...], rule: SplitRule) -> tuple[SplitRule, ...]:
    """One more rule: a narrower bound takes the place of a wider one, and who needs a value leaves none missing."""
    kept = [old for old in rules if (old.column, old.how) != (rule.column, rule.how) or rule.how == "≠"]
    known = {one.column for one in (*rules, rule) if one.needs_value}
    return tuple(replace(one, or_missing=False) if one.column in known else one for one in (*kept, rule))


def in_words(rules: tuple[SplitRule, ...]) -> str:
    """Rules that hold together; two bounds of one column are said at once.

    >>> in_words((SplitRule("age", ">", "17"), SplitRule("day", "=", "1"), SplitRule("age", "≤", "21")))
    '17 < age ≤ 21 and day = 1'
    """
    low, high = ({rule.column: rule.what for rule in rules if rule.how == how} for how in (">", "≤"))
    said: dict[str, None] = {}  # by the words, as a pair of bounds would be said twice
    for rule in rules:
        pair = rule.how in (">", "≤") and rule.column in low and rule.column in high
        said[f"{low[rule.column]} < {rule.column} ≤ {high[rule.column]}" if pair else str(rule)] = None
    return " and ".join(said)


@dataclass(frozen=True, eq=False)
class Split:
    """A question about a column: whether its value comes up to a bound, or is one word."""

    name: str
    column: Distinct
    code: int  # of the bound, or of the word
    other: int | None = None  # the only other word
    is_word: bool = False

    @property
    def rows(self) -> Mask:
        """Of all rows, those on the yes side, (n,)."""
        return np.asarray(self.column.codes == self.code if self.is_word else self.column.codes <= self.code)

    @property
    def yes(self) -> SplitRule:
        """Of the rows on the yes side."""
        value = self.column.values[self.code]
        if not self.is_word:
            return SplitRule(self.name, "≤", self._bound)
        return SplitRule(self.name, "is", "missing") if _absent(value) else SplitRule(self.name, "=", _said(value))

    @property
    def no(self) -> SplitRule:
        """Of the other rows."""
        value = self.column.values[self.code]
        if not self.is_word:
            return SplitRule(self.name, ">", self._bound, or_missing=_absent(self.column.values[-1]))
        if _absent(value):
            return SplitRule(self.name, "is", "known")
        if self.other is None:
            return SplitRule(self.name, "≠", _said(value))
        last = self.column.values[self.other]
        return SplitRule(self.name, "is", "missing") if _absent(last) else SplitRule(self.name, "=", _said(last))

    @property
    def _bound(self) -> str:
        low, high = self.column.values[self.code : self.code + 2]  # of all rows: those that judge lie in between, too
        return _between(float(low), float(high)) if self.column.values.dtype.kind == "f" else _said(low)


def candidates(columns: Mapping[str, Distinct], here: Mask, least: int, there: Mask, fewest: int) -> list[Split]:
    """Questions with at least so many rows on both sides: of those that look, and of those that judge."""
    return [
        split
        for name, column in columns.items()
        for split in _of_column(name, column, (column.codes[here], least), (column.codes[there], fewest))
    ]


def _of_column(name: str, column: Distinct, *needs: tuple[Indices, int]) -> list[Split]:
    counts = np.bincount(needs[0][0], minlength=len(column))
    present = np.flatnonzero(counts)
    everywhere = np.unique(np.concatenate([codes for codes, _ in needs]))
    asked = [] if len(present) < 2 else _questions(name, column, present, counts, two=len(everywhere) == 2)
    for codes, least in needs:
        counts = np.bincount(codes, minlength=len(column))
        below = np.cumsum(counts)
        yes = [int(counts[split.code] if split.is_word else below[split.code]) for split in asked]
        asked = [split for split, k in zip(asked, yes, strict=True) if least <= k <= len(codes) - least]
    return asked


def _questions(name: str, column: Distinct, present: Indices, counts: Indices, *, two: bool) -> list[Split]:
    if two:  # values are all there are: one of them says all
        return [Split(name, column, int(present[0]), int(present[1]), is_word=True)]
    if not column.ordered:
        chosen = present[np.argsort(-counts[present], kind="stable")][:MOST_WORDS]
        return [Split(name, column, int(code), is_word=True) for code in np.sort(chosen)]
    return _cuts(name, column, present, counts)


def _cuts(name: str, column: Distinct, present: Indices, counts: Indices) -> list[Split]:
    """Between neighbouring values; that a value is missing is a question of its own."""
    missing = _absent(column.values[present[-1]])
    known = present[:-1] if missing else present
    ranks = np.cumsum(counts[known]) / counts[known].sum()
    wanted = np.arange(1, MOST_CUTS + 1) / (MOST_CUTS + 1)
    places = np.unique(np.searchsorted(ranks, wanted)) if len(known) > MOST_CUTS else np.arange(len(known) - 1)
    found = [Split(name, column, int(known[k])) for k in places if k + 1 < len(known)]
    return [*found, Split(name, column, int(present[-1]), is_word=True)] if missing else found


def _between(low: float, high: float) -> str:
    """A number with as few digits as keep two values on their sides."""
    if not np.isfinite(high) or (low.is_integer() and high.is_integer()):
        return np.format_float_positional(low, trim="-")
    middle = (low + high) / 2
    rounded = (float(f"{middle:.{digits}g}") for digits in range(2, 18))
    return np.format_float_positional(next((at for at in rounded if low <= at < high), low), trim="-")


def _absent(value: Any) -> bool:
    return is_missing(value) or (isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value)))


def _said(value: Any) -> str:
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[s]")).replace("T00:00:00", "")
    if isinstance(value, np.timedelta64):
        return f"{value / np.timedelta64(1, 'D'):.6g} days"
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


@dataclass(frozen=True, eq=False)
class Chance:
    """What the best of several questions is held against."""

    permutations: int
    level: float  # a p-value above it need not be known
    rng: np.random.Generator
    block: Indices | None = None  # rows that belong together


def best(asked: list[Split], target: Floats, here: Mask, chance: Chance) -> tuple[Split, float]:
    """The question whose sides differ most in the target, and its p-value: that of the largest of all differences.

    ``T = |mean_yes - mean_no| / its standard error``, the largest over all questions. Of rows on their own the error is
    Welch's, from the variance on either side, and T is held against T with the target permuted. That is exact where
    the target has nothing to do with the columns, and holds in large samples where its mean has not: a question
    is not asked because values spread more on one side of it. A p-value above the level is a lower bound: permuting
    stops as soon as it is sure to be above.

    Rows that belong together are not permuted. What a group brings to the difference, ``U_g = sum over its rows of
    (s_i - mean s)(yes_i - mean yes)``, is 0 on average where the mean has nothing to do with the columns, whatever
    the size of the group and whatever goes on inside it: ``T = |sum U_g| / sqrt(sum U_g^2)`` is held against T with
    the groups' signs drawn anew.
    """
    values = target[here] - target[here].mean()
    sides = sides_of(asked, np.flatnonzero(here))
    if chance.block is None:
        found, drawn = _permuted(values, sides, chance)
    else:
        found, drawn = _flipped(values, sides, np.unique(chance.block[here], return_inverse=True)[1], chance)
    chosen, as_large = int(np.argmax(found)), 0
    for largest in drawn:
        as_large += int(np.sum(largest >= found[chosen] * (1 - ROUNDING)))
        if 1 + as_large > chance.level * (1 + chance.permutations):
            break
    return _sharpened(asked[chosen], asked, values, here), (1 + as_large) / (1 + chance.permutations)


def _sharpened(chosen: Split, asked: list[Split], values: Floats, here: Mask) -> Split:
    """The best bound of all between the neighbours of the one that was chosen: few were asked about."""
    if chosen.is_word:
        return chosen
    bounds = [split.code for split in asked if split.column is chosen.column and not split.is_word]
    k, codes = bounds.index(chosen.code), chosen.column.codes[here]
    counts, total, squares = (np.bincount(codes, w, len(chosen.column)) for w in (None, values, values**2))
    present = np.flatnonzero(counts)
    near = np.flatnonzero((present >= bounds[max(k - 1, 0)]) & (present <= bounds[min(k + 1, len(bounds) - 1)]))
    v = float(np.mean(values**2))
    yes, sums, more = (np.cumsum(some)[present[near]] for some in (counts, total / np.sqrt(v), squares / v))
    at = near[int(np.argmax(_welch(sums, more, yes.astype(float), len(values))))]
    return Split(chosen.name, chosen.column, int(present[at]))


def sides_of(asked: list[Split], rows: Indices) -> Sides:
    """1 for rows on the yes side of each question, else 0, (rows, questions)."""
    found = []
    for _, some in groupby(asked, key=lambda split: (id(split.column), split.is_word)):
        same = list(some)
        codes, at = same[0].column.codes[rows][:, None], np.array([split.code for split in same])
        found.append(codes == at if same[0].is_word else codes <= at)
    return np.concatenate(found, axis=1).astype(np.float32)


def _permuted(values: Floats, sides: Sides, chance: Chance) -> tuple[Floats, Iterator[Floats]]:
    """T of each question, and the largest T of each permutation."""
    yes = sides.sum(axis=0, dtype=float)
    scaled = (values / np.sqrt(np.mean(values**2))).astype(np.float32)

    def student(some: Sides) -> Floats:
        both = np.asarray(np.concatenate([some, some**2]) @ sides, float)
        return _welch(both[: len(some)], both[len(some) :], yes, len(values))

    def drawn() -> Iterator[Floats]:
        for many in _batches(chance.permutations):
            yield student(chance.rng.permuted(np.tile(scaled, (many, 1)), axis=1)).max(axis=1)

    return student(scaled[None, :])[0], drawn()


def _welch(total: Floats, squares: Floats, yes: Floats, n: int) -> Floats:
    """T from sums over the yes side; all values have mean 0 and variance 1."""
    no = n - yes
    inside = squares / yes - np.square(total / yes), (n - squares) / no - np.square(total / no)
    least = ROUNDING * (1 / yes + 1 / no)  # without it, sides without spread divide by rounding
    error = np.sqrt(np.maximum(inside[0] / (yes - 1) + inside[1] / (no - 1), least))
    return np.asarray(np.abs(total) * (1 / yes + 1 / no) / error)


def _flipped(values: Floats, sides: Sides, group: Indices, chance: Chance) -> tuple[Floats, Iterator[Floats]]:
    """T of each question, and the largest T of each draw of signs."""
    groups = int(group.max()) + 1
    brought = np.zeros((groups, sides.shape[1]))
    np.add.at(brought, group, values[:, None] * (sides - sides.mean(axis=0, dtype=float)))
    scale = 1 / np.sqrt(np.maximum(np.square(brought).sum(axis=0), ROUNDING * float(values @ values)))

    def drawn() -> Iterator[Floats]:
        for many in _batches(chance.permutations):
            signs = chance.rng.choice([-1.0, 1.0], (many, groups))
            yield (np.abs(signs @ brought) * scale).max(axis=1)

    return np.abs(brought.sum(axis=0)) * scale, drawn()


def _batches(permutations: int) -> Iterator[int]:
    for start in range(0, permutations, AT_A_TIME):
        yield min(AT_A_TIME, permutations - start)
