"""A gate for releases: is a model like the one before, is it surely not, or can these rows not tell?

Each question has a number and a margin. "Surely" is said at a level that holds for all questions together (each
interval at ``1 - level/k``). Two numbers are *alike* where each interval, at ``1 - 2 level``, lies inside the margin:
an intersection of tests needs no adjustment.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from losslens.results.comparison import Comparison
from losslens.results.importances import Importances
from losslens.tables.features import position_of
from losslens.text import in_digits
from losslens.uncertainty.inference import Difference
from losslens.uncertainty.standard_errors import Influence, around, check_level, interval

Outcome = Literal["passes", "fails", "cannot tell"]
GRAMMAR = "error, error>.05, importance:FEATURE>.1, rank:FEATURE, share:FEATURE>.2"


class NotAlike(AssertionError):  # noqa: N818 - said of a result
    """A result is surely unlike the one it should be like."""


@dataclass(frozen=True)
class Verdict:
    """What the rows say about one question of a gate."""

    model: str  #: the name of the model that is judged
    question: str  #: such as "error" or "rank:age"
    outcome: Outcome
    sentence: str  #: the numbers behind it

    def __str__(self) -> str:
        return f"{self.question} {self.outcome}: {self.sentence}"


def same_rows(one: Importances, other: Importances) -> bool:
    """Whether two results are of the same rows: as many, with the same labels, true values, weights and groups."""
    a, b = (next(iter(imp.values())) for imp in (one, other))
    if len(a.at) != len(b.at) or a.sample.totals is not None or b.sample.totals is not None:
        return False  # rows of files are not kept: two results of them are compared as independent, which is cautious
    pairs = ((getattr(a.sample, name), getattr(b.sample, name)) for name in ("y", "weight", "block"))
    alike = all((x is None) == (z is None) and (x is None or np.array_equal(x, z)) for x, z in pairs)
    left, right = a.row_labels, b.row_labels
    labelled_alike = left is None or right is None or np.array_equal(left, right)
    return alike and np.array_equal(a.at, b.at) and labelled_alike and _same_values(one, other)


def _same_values(one: Importances, other: Importances) -> bool:
    """Whether the columns that both results hold have the same values in each row: equal y alone may be by design."""
    columns = {name for imp in (one, other) for feature in imp.values() for name in feature.columns}
    held = [(one._values_held(name), other._values_held(name)) for name in columns]
    pairs = [(a, b) for a, b in held if a is not None and b is not None]
    if pairs:
        return all(np.array_equal(a, b) for a, b in pairs)
    a, b = (next(iter(imp.values())).sample.prediction for imp in (one, other))
    return a.shape == b.shape and np.array_equal(a, b)  # of one model: its predictions tell the rows apart


def assert_alike(new: Importances, old: Importances, within: float, level: float, *, strict: bool) -> list[Verdict]:
    """The verdicts; an error where a number surely differs, and a warning where the rows can't tell."""
    verdicts = likeness(new, old, within, level)
    failed = [one for one in verdicts if one.outcome == "fails" or (strict and one.outcome == "cannot tell")]
    if failed:
        surely = "surely differ" if all(one.outcome == "fails" for one in failed) else "are not surely alike"
        raise NotAlike("\n".join([f"{len(failed)} of {len(verdicts)} numbers {surely}:", *map(str, failed)]))
    if unsure := [one for one in verdicts if one.outcome == "cannot tell"]:
        text = "\n".join([f"too few rows to judge {len(unsure)} of {len(verdicts)} numbers:", *map(str, unsure)])
        warnings.warn(text, stacklevel=4)
    return verdicts


def likeness(new: Importances, old: Importances, within: float, level: float) -> list[Verdict]:
    """The error and every importance of a result against those of another."""
    if not (isinstance(level, (int, float)) and 0 < level < 0.5):
        raise ValueError(f"level is the probability of a false verdict, such as .05; got {level!r}")
    if isinstance(within, bool) or not (isinstance(within, (int, float)) and 0 < within < math.inf):
        raise ValueError(f"within is a share above 0, such as .1; got {within!r}")
    if not isinstance(old, type(new)):
        raise TypeError(f"other is a result of feature_importance, as ll.load gives it; got {type(old).__name__}")
    if new.title != old.title:
        raise ValueError(f"the importances are of two losses, {new.title} and {old.title}: compare by one loss")
    if missing := set(old) ^ set(new):
        raise ValueError(f"only one of the results has {', '.join(sorted(missing))}: explain the same features")
    if other := [name for name in new if new[name].columns != old[name].columns]:
        raise ValueError(f"{other[0]!r} has other columns in one of the results: explain the same features")
    paired = same_rows(new, old)
    comparison = Comparison(importances={"baseline": old, "this model": new}, shapley={}, paired=paired)
    largest = max(abs(one.pfi) for one in old.values())
    questions: list[tuple[str, Callable[[float], Difference], float, str]] = [
        ("error", partial(comparison.error_difference, "this model", "baseline"), within * abs(old.base), "the error")
    ]
    for name in new:
        difference = partial(comparison.difference, name, "this model", "baseline")
        questions.append((f"importance:{name}", difference, within * largest, f"the importance of {name}"))
    rows = "the same rows" if paired else "different rows"
    return [_alike(*one, level, len(questions), rows) for one in questions]


def _alike(
    question: str,
    difference: Callable[[float], Difference],
    margin: float,
    what: str,
    level: float,
    count: int,
    rows: str,
) -> Verdict:
    inner, outer = difference(1 - 2 * level), difference(1 - level / count)
    lies = f"{in_digits(outer.low)} to {in_digits(outer.high)}"
    words = f"on {rows} {what} moved by {in_digits(outer.value)} (interval {lies}; margin {in_digits(margin)})"
    if -margin <= inner.low and inner.high <= margin:
        return Verdict("this model", question, "passes", words)
    if outer.low > margin or outer.high < -margin:
        return Verdict("this model", question, "fails", words)
    return Verdict("this model", question, "cannot tell", words)


def judge(comparison: Comparison, conditions: Sequence[str], level: float) -> list[Verdict]:
    """What the rows say about conditions under which a release fails, for every model but the first."""
    base, *others = comparison.names
    asked = [(name, _parsed(condition, comparison)) for name in others for condition in conditions]
    each = 1 - check_level(level) / max(len(asked), 1)
    return [_judged(comparison, base, name, *condition, level=each) for name, condition in asked]


def needs_shares(conditions: Sequence[str]) -> bool:
    """Whether a condition is about Shapley shares."""
    return any(condition.strip().startswith("share") for condition in conditions)


def _parsed(condition: str, comparison: Comparison) -> tuple[str, str, str, float]:
    """The condition as it was written, what it asks for, of which feature, and beyond which number."""
    found = re.fullmatch(r"\s*(error|importance|rank|share)\s*(?::(.+?))?\s*(?:>\s*(\d*\.?\d+%?))?\s*", condition)
    if found is None:
        raise ValueError(f"{condition!r} is no condition: {GRAMMAR}")
    what, feature, number = found.groups()
    if (what == "error") != (feature is None):
        raise ValueError(f"{condition!r}: error stands alone, the others name a feature: {GRAMMAR}")
    if (what == "share" and number is None) or (what == "rank" and number is not None):
        raise ValueError(f"{condition!r}: a share needs a bound, a rank has none: {GRAMMAR}")
    if feature is not None:
        position_of(feature, comparison.features)
    bound = 0.0 if number is None else float(number.rstrip("%")) / (100 if number.endswith("%") else 1)
    return condition.strip(), what, feature or "", bound


def _judged(
    comparison: Comparison, base: str, name: str, condition: str, what: str, feature: str, bound: float, *, level: float
) -> Verdict:  # fmt: skip
    if what == "rank":
        return _rank(comparison, base, name, condition, feature, level)
    if what == "share":
        if not comparison.shapley[name].sfimp.sum() > 0:
            words = f"the features of {name} don't reduce the error together, so there are no shares"
            return Verdict(name, condition, "cannot tell", words)
        value, low, high = _share_beyond(comparison, name, feature, bound, level)
        words = f"the share of {feature} less {bound:g} is {value:.3f} ({level:.1%} interval {low:.3f} to {high:.3f})"
        return Verdict(name, condition, _side(low, high, 0.0), words)
    old = comparison.importances[base]
    if what == "error":
        worse = comparison.error_difference(name, base, level)
        scored = comparison._measure == "score"
        worse = worse.turned if scored else worse
        margin, called = bound * abs(old.base), f"the {comparison._measure} {'falls' if scored else 'rises'} by"
        outcome = _side(worse.low, worse.high, margin)
    else:
        worse = comparison.difference(feature, name, base, level)
        margin = bound * max(abs(one.pfi) for one in old.values())
        called = f"the importance of {feature} moved by"
        outcome = "fails" if worse.high < -margin else _side(worse.low, worse.high, margin)
        if outcome == "passes" and worse.low < -margin:
            outcome = "cannot tell"
    lies = f"{level:.1%} interval {in_digits(worse.low)} to {in_digits(worse.high)}; margin {in_digits(margin)}"
    return Verdict(name, condition, outcome, f"{called} {in_digits(worse.value)} ({lies})")


def _side(low: float, high: float, margin: float) -> Outcome:
    """Whether a number is surely above the margin, surely not, or neither."""
    return "fails" if low > margin else "passes" if high <= margin else "cannot tell"


def _rank(comparison: Comparison, base: str, name: str, condition: str, feature: str, level: float) -> Verdict:
    ends = []
    for model in (base, name):
        estimates = comparison.importances[model].estimates()
        _, lowest, highest = estimates.ranks((1 + level) / 2)  # of two rankings
        j = estimates.position(feature)
        ends.append((int(lowest[j]), int(highest[j])))
    (best, worst), (new_best, new_worst) = ends
    outcome: Outcome = "fails" if new_best > worst or new_worst < best else "cannot tell"
    if best == worst == new_best == new_worst:
        outcome = "passes"
    old, new = (str(a) if a == b else f"{a} to {b}" for a, b in ends)
    return Verdict(name, condition, outcome, f"the rank of {feature} is {new}, and was {old} ({level:.1%} limits)")


def _share_beyond(
    comparison: Comparison, name: str, feature: str, bound: float, level: float
) -> tuple[float, float, float]:
    """A share less its bound, and the ends of its interval: s_j - x sum s is a contrast of the Shapley importances."""
    shares = comparison.shapley[name]
    estimates = shares.estimates()
    j = estimates.position(feature)
    contrast = np.eye(len(estimates.names))[j] - bound
    total = float(estimates.value.sum())
    moved = (
        np.stack([one.moved for one in estimates.influences]) if estimates.influences else np.zeros((len(contrast), 0))
    )
    skewness = Influence(contrast @ moved).skewness
    error = float(np.sqrt(max(contrast @ estimates.covariance @ contrast, 0.0)))
    value, centre = float(contrast @ estimates.value), float(contrast @ estimates._centres)
    low, high = around(value, centre, interval(centre, error, float(estimates.units), level, skewness))
    return value / total, low / total, high / total
