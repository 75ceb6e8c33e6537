"""Sentences about results that pages and pictures both print, each made by one function.

A sentence is a claim like a number: it is "" where its precondition, which its function states, does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from losslens.plots.wording import MOST_SHARE, is_flag, value_labels
from losslens.results.plain_error import LEVEL, PlainError, score_name
from losslens.results.ranking import OTHERS
from losslens.results.regions import CONFIRMED
from losslens.results.table import or_else
from losslens.text import Sentence, claim, cut, in_digits, listed, rounded, share_in_words
from losslens.typing import Floats

if TYPE_CHECKING:
    from losslens.results.clusters import Clusters
    from losslens.results.comparison import Comparison
    from losslens.results.effects import FeatureEffect
    from losslens.results.extrapolation import Extrapolations
    from losslens.results.importance import FeatureImportance
    from losslens.results.interactions import Interactions
    from losslens.results.observations import Observations
    from losslens.results.segments import Segment, WeakSegments
    from losslens.results.shapley import ShapleyImportance
    from losslens.results.shapley_effect import ShapleyEffect

# How well the clusters of two halves of the rows agree: least stability, and words for it.
ALIKE = ((0.95, "nearly the same"), (0.8, "much the same"), (0.6, "similar"), (-np.inf, "not the same"))
MOST_PAIRS = 15  # pairs listed
FEW = 20  # values of which a sentence says how rare each end is
RARE = 0.1  # share of the rows up to which a value is rare


@claim(level=0)
def matters_most_at(
    name: str, labels: Sequence[str], height: Floats, plain: PlainError, seldom: Sequence[str] = ()
) -> str:
    """Where the error is largest with a feature replaced by one value, NaN left out; where it grows at any value.

    `seldom`: how rare each value is, by `rarity`.
    """
    worse = plain.now - height if plain.falls else height - plain.now
    k = _highest(worse)
    if k is None or worse[k] <= 0:
        return ""
    exact = replace(plain, largest=max(abs(plain.now), abs(float(height[k]))))
    there, now = exact.text(float(height[k])), exact.text(plain.now)
    text = f"{cut(name)} matters most at {labels[k]}: with that value in every row the {plain.unit} is {there}"
    rare = f" ({seldom[k]})" if any(seldom) and seldom[k] else ""
    return "" if there == now else f"{text} instead of {now}{rare}."


@claim(level=0)
def ranges(
    name: str, labels: Sequence[str], height: Floats, unit: str, seldom: Sequence[str] = (), *, percent: bool = False
) -> str:
    """Between what a mean prediction ranges along a feature, NaN left out; where it changes. `seldom`: as above."""
    low, high = _highest(-height), _highest(height)
    if low is None or high is None:
        return ""
    two = [float(height[k]) for k in (low, high)]
    numbers = [share_in_words(one, 1) if percent else in_digits(one, max(map(abs, two)), digits=3) for one in two]
    if len(set(numbers)) == 1:  # they differ by rounding
        return ""
    few = len(labels) <= FEW and any(seldom)  # the ends of many values are always rare
    rare = [f"; {seldom[k]}" if few and seldom[k] else "" for k in (low, high)]
    ends = [f"{number} (at {labels[k]}{said})" for number, k, said in zip(numbers, (low, high), rare, strict=True)]
    return f"Along {cut(name)}, the mean {unit} ranges from {' to '.join(ends)}."


def rarity(labels: Sequence[str], weights: Floats | None, *, ordered: bool) -> list[str]:
    """Of each value, how few rows have it, or one as far out on an ordered grid; "" where these are not few.

    >>> rarity(["1", "2", "3", "4"], np.array([0.5, 0.44, 0.04, 0.02]), ordered=True)
    ['', '', 'only 6% of the rows have 3 or more', 'only 2% of the rows have it']
    """
    if weights is None:
        return [""] * len(labels)
    missing = [label.startswith("missing") for label in labels]
    present, texts = np.where(missing, 0.0, weights / weights.sum()), []
    for k, label in enumerate(labels):
        own = float(weights[k] / weights.sum())
        tails = {" or less": float(present[: k + 1].sum()), " or more": float(present[k:].sum())}
        side = min(tails, key=lambda end: tails[end])
        share, what = (tails[side], label + side) if ordered and not missing[k] else (own, "it")
        what = "it" if share <= own * (1 + 1e-9) else what
        texts.append(f"only {share_in_words(share)} of the rows have {what}" if share <= RARE else "")
    return texts


def _highest(values: Floats) -> int | None:
    return int(np.nanargmax(values)) if np.isfinite(values).any() else None


def most_at(one: FeatureImportance) -> Sentence:
    """Where one feature matters most, in the unit of its picture; of values that few rows are paired with, nothing."""
    if _is_curve(one) and len(one.cells.rows):
        error = or_else(lambda: one.error, np.nan)
        plain = PlainError("loss", one.loss.title, error)
        height = _like_real_rows(one, np.array([plain.after(change) for change in one.pi.tolist()]))
        return matters_most_at(one.name, value_labels(one.values[0]), height, plain, _rare_values(one))
    return Sentence("")


def effect_ranges(one: FeatureEffect) -> Sentence:
    """How the mean prediction changes along one feature."""
    if not _is_curve(one):
        return Sentence("")
    unit = "prediction" if one.target is None else f"prediction for {one.target_kind} {one.target}"
    return ranges(one.name, value_labels(one.values[0]), _like_real_rows(one, one.pd), unit, _rare_values(one))


def _rare_values(one: FeatureImportance | FeatureEffect) -> list[str]:
    values = one.values[0]
    return rarity(value_labels(values), one.means.weights, ordered=one.ordered and not is_flag(values))


def _is_curve(one: FeatureImportance | FeatureEffect) -> bool:
    return len(one.values) == 1 and one.values[0].ndim == 1 and not one._is_scattered


def _like_real_rows(one: FeatureImportance | FeatureEffect, curve: Floats) -> Floats:
    """A curve with NaN where most replaced rows are unlike any real one."""
    far = one.computed_extrapolation
    return curve if far is None else np.where(far.on(one.values[0]).faded, np.nan, curve)


@claim(level=0)
def largest_shares(share: ShapleyImportance) -> str:
    """The features with the largest shares of that difference on these rows, where it is above 0 and not all but 0."""
    if not share._total > 0 or np.abs(share.share).max() > MOST_SHARE:
        return ""
    parts = sorted(zip(share.share.tolist(), share.features, strict=True), reverse=True)
    most = [(part, name) for part, name in parts if part >= 0.05][:4] or parts[:1]
    named = listed([f"{name} ({share_in_words(part, 1)})" for part, name in most])
    return (
        f"Of the difference to the model's error, the largest share{'s go' if len(most) > 1 else ' goes'} to {named}."
    )


@claim(level=0)
def moves_most(effects: ShapleyEffect) -> str:
    """The feature with the largest mean absolute effect over several rows, where its number is above the others'."""
    sizes = np.sort(effects.importance)[::-1]
    first, second = (in_digits(float(size), float(sizes[0]), digits=3) for size in (sizes[0], [*sizes, 0.0][1]))
    if len(effects.local) == 1 or first == second or not effects.exact:
        return ""
    name = cut(effects.features[int(np.argmax(effects.importance))])
    return (
        f"Of all features, {name} moves the {effects._what} most: up or down by {first} on average over "
        f"these {len(effects.local):,} rows."
    )


def pairs_in_order(found: Interactions, most: int = MOST_PAIRS) -> dict[str, Any]:
    """The strongest interactions of the model with their tests, and by which loss, if not by that of the whole."""
    pairs = found.interaction
    error = np.full_like(pairs.index, np.nan) if pairs.std_error is None else pairs.std_error
    low, high = pairs.interval()
    numbers = {"value": pairs.index, "std_error": error, "low": low, "high": high, "p": pairs.p_adjusted}
    listed = [
        {"first": pairs.features[j], "second": pairs.features[k], **{key: float(m[j, k]) for key, m in numbers.items()}}
        for j, k in sorted(pairs._pairs, key=lambda pair: -abs(pairs.index[pair]))[:most]
    ]
    return {"pairs": listed, "by": "" if found._adds_up else pairs.title, "title": pairs.title}


@claim(level=0.05)
def works_together(pairs: dict[str, Any] | None, total: float | None = None) -> str:
    """The model's strongest interaction, where that is sure to reduce the loss (5%, Holm over all pairs).

    The number is that of `Interactions.interaction`: of both features, the importance less what it would be if the
    model added the two. A model that only adds them has none, however correlated they are.
    """
    sure = [] if pairs is None else [one for one in pairs["pairs"] if one["p"] <= CONFIRMED and one["value"] > 0]
    if pairs is None or not sure:
        return ""
    best, numbers = sure[0], [sure[0][key] for key in ("value", "low", "high")]
    start = f"{best['first']} and {best['second']} work together in the model: "
    if total and total > 0 and not pairs["by"]:
        texts = [share_in_words(number / total, 1) for number in numbers]
        between = f"95% interval {texts[1]} to {texts[2]}"
        return f"{start}{texts[0]} of what all features achieve ({between}) comes from how it combines them."
    texts = [rounded(number, *numbers[1:]) for number in numbers]
    between = f"{pairs['title']}; 95% interval {texts[1]} to {texts[2]}"
    return f"{start}how it combines them adds {texts[0]} to their importances together ({between})."


@claim(level=0)
def clusters_in_words(clusters: Clusters) -> str:
    """How the rows were divided, and how well that can be repeated; not that such groups of rows exist."""
    if clusters.k == 1:
        return "By local Shapley shares, no division of the rows is stable and well separated."
    alike = next(words for least, words in ALIKE if not clusters.stability < least)
    rules = "no rules describe them better than by always choosing the largest one"
    if any(clusters.rules):
        rules = f"the rules assign {share_in_words(clusters.described, 1)} of held-out rows to their own cluster, "
        rules += f"against {share_in_words(clusters.chance, 1)} by always choosing the largest one"
    return (
        f"The rows were divided into {clusters.k} clusters by their local Shapley shares. Clusters found on "
        f"two halves of the rows are {alike} (stability {clusters.stability:.2f}; 1: the same, 0: chance); {rules}."
    )


@claim(level=0.05)
def error_is_larger(one: Segment, plain: PlainError) -> str:
    """A segment of `WeakSegments`: tested on rows that had no part in the search, for all segments together."""
    ends = one.judged_low, one.judged_high
    error, other, judged, elsewhere = (
        plain.level(loss, *ends) for loss in (one.error, one.other, one.judged_error, one.judged_other)
    )
    return (
        f"Where {one.rule} ({one.n:,} rows), the {plain.name} is {error}, against {other} elsewhere. On the "
        f"{one.judged:,} of these rows that were not used to find the rule it is {judged} (95% interval "
        f"{plain.between(*ends)}), against {elsewhere}."
    )


@claim(level=0)
def no_weak_segment(weak: WeakSegments) -> str:
    """Where none was confirmed: why. It does not say that the error is the same everywhere."""
    return f"In no group of rows is the error surely larger: {weak.why}." if weak.why else ""


def _best(comparison: Comparison) -> tuple[str, list[tuple[str, float, float]]]:
    """The best model, and for each other the interval of how far it is behind, for all together."""
    falls = comparison._measure == "score"  # the larger the better
    bases = {name: -model.base if falls else model.base for name, model in comparison.importances.items()}
    best = min(bases, key=lambda name: bases[name])
    others = sorted((name for name in bases if name != best), key=lambda name: bases[name])
    level = 1 - LEVEL / (len(bases) * (len(bases) - 1) / 2)  # which pairs are looked at depends on the errors
    ends = []
    for name in others:
        pair = (best, name) if falls else (name, best)
        one = or_else(partial(comparison.error_difference, *pair, level), None)
        ends.append((name, float("nan"), float("nan")) if one is None else (name, one.low, one.high))
    return best, ends


def _superlatives(comparison: Comparison) -> tuple[str, str, str]:
    """Words for the best value, for values beyond it, and for the number."""
    falls = comparison._measure == "score"
    name = score_name(comparison.title) if comparison._first._is_score else "error"
    return ("largest", "larger", name) if falls else ("smallest", "smaller", name)


@claim(level=LEVEL)
def smallest_error(comparison: Comparison) -> str:
    """The best model by error or score, where paired intervals for all pairs together separate it from all others."""
    best, others = _best(comparison)
    if not all(low > 0 for _, low, _ in others):
        return ""
    most, _, what = _superlatives(comparison)
    together = ", for all pairs of models together" if len(others) > 1 else ""
    return f"{best} surely has the {most} {what} (paired 95% interval{together})."


@claim(level=0)
def smallest_is_uncertain(comparison: Comparison) -> str:
    """Where no model is separated so."""
    best, others = _best(comparison)
    near = [name for name, low, _ in others if not low > 0]
    if not near:
        return ""
    most, more, what = _superlatives(comparison)
    return (
        f"On these rows {best} has the {most} {what}, but on new ones {' or '.join(near[:3])} may have a {more} one "
        "(paired 95% intervals)."
    )


@claim(level=0)
def helped_rows(rows: Observations) -> str:
    """How many rows have a smaller loss with their own values than with those of other rows, or a larger one."""
    counted = rows.importance[rows.weight > 0]
    helped, hurt = int(np.sum(counted > 0)), int(np.sum(counted < 0))
    text = f"The features reduce the loss of {helped:,} of {len(counted):,} rows, compared with values from other rows"
    return f"{text}, and increase that of {hurt:,}." if hurt else f"{text}."


@claim(level=LEVEL)
def hardly_occurring(extrapolations: Extrapolations) -> str:
    """The features that warn: a classifier tells their shuffled rows from real ones, and some of these are far."""
    warned = [extrapolations[name] for name in extrapolations.warned]
    warned.sort(key=lambda one: -one.share)
    if not warned:
        return ""
    shares = listed([f"{cut(one.name)} {one.percent}" for one in warned], OTHERS)
    return f"Shuffling creates unrealistic rows, on which the numbers partly rest. Their share by feature: {shares}."
