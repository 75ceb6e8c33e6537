"""Splits of rows by single columns, and whether the best of them explains more than chance would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.columns import Distinct, is_missing
from losslens.results import Floats

MOST_CUTS = 32  # of one column, at evenly spaced ranks
MOST_WORDS = 32  # of one column, the most frequent
AT_A_TIME = 64  # permutations
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """A column, how it compares, and with what."""

    column: str
    how: str
    what: str

    def __str__(self) -> str:
        return f"{self.column} {self.how} {self.what}"


def both(rules: tuple[Rule, ...], rule: Rule) -> tuple[Rule, ...]:
    """One more rule: a narrower bound takes the place of a wider one."""
    return (*(old for old in rules if (old.column, old.how) != (rule.column, rule.how) or rule.how == "≠"), rule)


@dataclass(frozen=True, eq=False)
class Split:
    """Rows on one side of a question about a column, and the rules of both sides."""

    yes: Rule
    no: Rule
    rows: Mask  # (n,): of all rows, those on the yes side


def candidates(columns: Mapping[str, Distinct], here: Mask, least: int) -> list[Split]:
    """Questions with at least so many of these rows on both sides."""
    found = [split for name, column in columns.items() for split in _of_column(name, column, here)]
    inside = [int((split.rows & here).sum()) for split in found]
    return [s for s, k in zip(found, inside, strict=True) if least <= k <= here.sum() - least]


def _of_column(name: str, column: Distinct, here: Mask) -> list[Split]:
    counts = np.bincount(column.codes[here], minlength=len(column))
    present = np.flatnonzero(counts)
    if len(present) < 2:
        return []
    if not column.ordered or len(present) == 2:
        chosen = present[np.argsort(-counts[present], kind="stable")][:MOST_WORDS]
        if len(present) == 2:
            return [_word(name, column, int(present[0]), int(present[1]))]
        return [_word(name, column, int(code)) for code in np.sort(chosen)]
    return _cuts(name, column, present, counts)


def _word(name: str, column: Distinct, code: int, other: int | None = None) -> Split:
    """One value against the others, or against the only other one."""
    value = column.values[code]
    if _absent(value):
        return Split(Rule(name, "is", "missing"), Rule(name, "is", "known"), column.codes == code)
    no = Rule(name, "≠", _said(value))
    if other is not None:
        last = column.values[other]
        no = Rule(name, "is", "missing") if _absent(last) else Rule(name, "=", _said(last))
    return Split(Rule(name, "=", _said(value)), no, column.codes == code)


def _cuts(name: str, column: Distinct, present: Any, counts: Any) -> list[Split]:
    """Between neighbouring values; that a value is missing is a question of its own."""
    missing = _absent(column.values[present[-1]])
    known = present[:-1] if missing else present
    ranks = np.cumsum(counts[known]) / counts[known].sum()
    wanted = np.arange(1, MOST_CUTS + 1) / (MOST_CUTS + 1)
    places = np.unique(np.searchsorted(ranks, wanted)) if len(known) > MOST_CUTS else np.arange(len(known) - 1)
    found = [_cut(name, column, int(known[k]), int(known[k + 1])) for k in places if k + 1 < len(known)]
    return [*found, _word(name, column, int(present[-1]))] if missing else found


def _cut(name: str, column: Distinct, below: int, above: int) -> Split:
    low, high = column.values[below], column.values[above]
    at = _between(float(low), float(high)) if column.values.dtype.kind == "f" else _said(low)
    return Split(Rule(name, "≤", at), Rule(name, ">", at), column.codes <= below)


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
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


def best(
    splits: list[Split], target: Floats, here: Mask, permutations: int, rng: np.random.Generator
) -> tuple[Split, float]:
    """The split whose sides differ most in the target, and its p-value: over permutations, of the largest difference.

    ``T = |mean_yes - mean_no| / sqrt(v (1 / n_yes + 1 / n_no))``, the largest over all splits; v, the variance of all
    rows, is the same in every permutation.
    """
    values = target[here] - target[here].mean()
    sides = np.stack([split.rows[here] for split in splits], axis=1).astype(float)
    scale = _scale(sides)
    found = np.abs(values @ sides) * scale
    chosen = int(np.argmax(found))
    as_large = 0
    for start in range(0, permutations, AT_A_TIME):
        drawn = rng.permuted(np.tile(values, (min(AT_A_TIME, permutations - start), 1)), axis=1)
        as_large += int(np.sum((np.abs(drawn @ sides) * scale).max(axis=1) >= found[chosen] * (1 - 1e-12)))
    return splits[chosen], (1 + as_large) / (1 + permutations)


def _scale(sides: Floats) -> Floats:
    """Centred values: a sum over the yes side is ``n_yes n_no / n`` times the difference of the means."""
    n, yes = len(sides), sides.sum(axis=0)
    return np.asarray(np.sqrt(n / (yes * (n - yes))))
