"""The first screen in words: a question and at most three sentences, for readers to whom the method is new.

How well the model predicts beside the simplest alternative, what matters most and how surely, and one thing to be
careful about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from losslens.page.labels import LONGEST, cut, labels
from losslens.page.plain_error import LEADING, PlainError, percent, plain, plain_kind, short_digits, shuffled
from losslens.page.quality import LEVEL, against_constant
from losslens.page.scored import OTHERS, on_rows, score_opening
from losslens.page.words import (
    SAME,
    all_tested,
    at_the_bound,
    correlated_pairs,
    few_rows,
    not_significant,
    surely_most,
    unused_features,
)
from losslens.results.importances import Importances
from losslens.results.scores import Scores
from losslens.results.table import or_else
from losslens.text import Sentence, claim, listed
from losslens.typing import Floats

UNNAMED = "the target"
FEW_CLASSES = 3  # that the question names


def opening(
    models: Mapping[str, Importances],
    target: str,
    n_given: int,
    columns: Mapping[str, Floats],
    scores: Mapping[str, Scores] | None = None,
) -> list[Sentence]:
    """How well, what matters most, by the score if there is one, and the first of the cautions that applies."""
    target = cut(target)
    first = next(iter(models.values()))
    well: tuple[Sentence, ...]
    most: tuple[Sentence, ...]
    if scores:
        well, most = score_opening(scores, len(first._first.at), n_given)
    else:
        well = (
            how_far_off(models, target, n_given), how_often_right(models, target, n_given), how_large(models, n_given),
        )  # fmt: skip
        most = (
            nothing_matters(first), one_feature(first), leads_surely(first), perhaps_nothing_matters(first),
            leads_unsurely(first), leads_here(first),
        )  # fmt: skip
    careful = (
        no_better(first, target), may_be_no_better(first, target), at_the_bound(first), few_rows(first),
        related_features(first, columns), hardly_occurring_cases(first), not_seen_in_training(),
    )  # fmt: skip
    return [next(filter(None, texts)) for texts in (well, most, careful) if any(texts)]


@claim(level=0)
def question(target: str, classes: Sequence[str] | None = None) -> str:
    """The question of the page, in the reader's words; up to three classes are named, unless they are numbers.

    >>> question("diagnosis", ["benign", "malignant"])
    'What does this model need to predict diagnosis (benign or malignant)?'
    >>> question("default", ["0", "1"])
    'What does this model need to predict default?'
    """
    named = " or ".join(classes or ())
    few = classes is not None and len(classes) <= FEW_CLASSES and len(named) <= LONGEST
    which = f" ({named})" if few and any(letter.isalpha() for letter in named.replace(" or ", "")) else ""
    return f"What does this model need to predict {target}{which}?"


# How well: on these rows, beside the best constant where there is one.


@claim(level=0)
def how_far_off(models: Mapping[str, Importances], target: str, n_given: int) -> str:
    """Squared and absolute error: in units of the target."""
    first = next(iter(models.values()))
    if plain_kind(first.loss) not in ("root", "mean") or first.loss.reads != "values":
        return ""
    root = plain_kind(first.loss) == "root"
    constant = first._first.best_constant
    now, best = plain(first).now, PlainError(plain_kind(first.loss), first.title, constant.error).now
    others = [(name, plain(one).now) for name, one in list(models.items())[1:]]
    kind = " (root mean squared error)" if root else " on average"
    rows = on_rows(len(first._first.at), n_given)
    text = f"{rows}, its predictions of {target} are off by about {short_digits(now, best)}{kind}"
    if others:
        text += f", those of {listed([f'{cut(name)} by {short_digits(v, best)}' for name, v in others], OTHERS)}"
    always = f"always predicting {'the average' if root else 'the median'}"
    skill = or_else(lambda: first.skill, None)
    if skill is None:  # y does not vary
        return f"{text}; {always} would not be off at all."
    if abs(skill) < SAME:
        return f"{text}; {always} would be off by about as much."
    return f"{text}; {always} would be off by {'only ' if skill < 0 else ''}{short_digits(best, now)}."


@claim(level=0)
def how_often_right(models: Mapping[str, Importances], target: str, n_given: int) -> str:
    """Classes: how often the model's answer is right, and how often the most frequent class is.

    The answer is the label, or the class with the largest probability, the first of several.
    """
    first = next(iter(models.values()))
    one = first._first
    if first.loss.custom or first.loss.reads not in ("labels", "probabilities") or one.sample.classes is None:
        return ""
    right = _right(first)
    what = "class" if target == UNNAMED else target
    answer = "its answer is" if first.loss.reads == "labels" else f"the {what} that it finds most probable is"
    text = f"{on_rows(len(one.at), n_given)}, {answer} right for {percent(right)}"
    others = [f"that of {cut(name)} for {percent(_right(other))}" for name, other in list(models.items())[1:]]
    text += f", {listed(others, OTHERS)}" if others else ""
    assert one.sample.y is not None  # every named loss reads it
    shares = np.bincount(one.sample.y[one.at], one.sample.weight[one.at]) / one.sample.weight[one.at].sum()
    frequent, base = cut(labels(one.sample.classes)[int(shares.argmax())]), float(shares.max())
    often = f"{percent(base)}{' too' if percent(base) == percent(right) else ', more often' if base > right else ''}"
    return f"{text}; always answering “{frequent}” would be right for {often}."


@claim(level=0)
def how_large(models: Mapping[str, Importances], n_given: int) -> str:
    """Other losses: their means, and that of the best constant where there is one."""
    first = next(iter(models.values()))
    if plain_kind(first.loss) in ("root", "mean") and first.loss.reads == "values":
        return ""
    constant = or_else(lambda: first._first.best_constant, None)
    like = first.error if constant is None else constant.error
    others = [f"that of {cut(name)} {short_digits(one.error, like)}" for name, one in list(models.items())[1:]]
    rows = on_rows(len(first._first.at), n_given)
    text = f"{rows}, its {first.title} is {short_digits(first.error, like)} (smaller is better)"
    text += f", {listed(others, OTHERS)}" if others else ""
    if constant is None:
        return f"{text}; what the simplest prediction would have is not known for this loss."
    less = ", less than the model" if constant.error < first.error else ""
    return f"{text}; always predicting {constant.words} would have {short_digits(constant.error, first.error)}{less}."


def _right(importances: Importances) -> float:
    """The share of the rows whose label, or most probable class, is the true one."""
    one = importances._first
    answer = one.sample.prediction if one.sample.prediction.ndim == 1 else one.sample.prediction.argmax(axis=1)
    weight = one.sample.weight[one.at]
    return float(weight @ (answer == one.sample.y)[one.at] / weight.sum())


# What matters most, and how surely. The importances of other losses than these are means of the same kind.


@claim(level=0)
def nothing_matters(first: Importances) -> str:
    """Where no importance on these rows is above 0."""
    if first._ranked[0].pfi > 0:
        return ""
    return "On these rows no feature matters: the error does not grow with any of them shuffled between rows."


@claim(level=LEVEL)
def one_feature(first: Importances) -> str:
    """Whether the importance of a single feature is significantly above 0."""
    if len(first) > 1 or (estimates := or_else(first.estimates, None)) is None:
        return ""
    sure = "on new rows the error grows, too" if not not_significant(estimates) else "on new rows it may not"
    return f"W{shuffled(first)[1:]}; {sure} (test at 5%)."


@claim(level=LEVEL)
def leads_surely(first: Importances) -> str:
    """Where the simultaneous 95% interval of a feature's rank among all of several features is 1 to 1."""
    return surely_most(first)


@claim(level=0)
def perhaps_nothing_matters(first: Importances) -> str:
    """Where all of several features are tested, and none is significantly above 0."""
    estimates = or_else(first.estimates, None)
    if estimates is None or not all_tested(first) or len(not_significant(estimates)) < len(first):
        return ""
    return f"It is not sure that any feature matters: {shuffled(first, ', the first,')}, which may be chance."


@claim(level=0)
def leads_unsurely(first: Importances) -> str:
    """Otherwise, where all are tested: those used that may be first, by simultaneous 95% intervals of ranks.

    And whether the interval of the first includes 0.
    """
    estimates = or_else(first.estimates, None)
    if estimates is None or not all_tested(first):
        return ""
    best = dict(zip(estimates.names, estimates.ranks()[1].tolist(), strict=True))
    name, *others = [one.name for one in first._ranked]
    unused = unused_features(first)
    may = [other for other in others if best[other] == 1 and other not in unused]
    low, high = first[name].interval()
    doubts = ["it may make no difference"] if low <= 0 <= high else []
    doubts += [f"{listed([cut(other) for other in may], OTHERS)} may matter more"] if may else []
    also = " and ".join(doubts) or "that is uncertain"
    return f"On these rows it depends most on {cut(name)}: {shuffled(first)}; on new rows {also}."


@claim(level=0)
def leads_here(first: Importances) -> str:
    """The feature that matters most on these rows, where features have no standard error."""
    return f"On these rows it depends most on {cut(first._ranked[0].name)}: {shuffled(first)}; how surely is not known."


# What to be careful about.


@claim(level=0)
def no_better(first: Importances, target: str) -> str:
    """Where the error is not below that of the best constant on these rows, by more than half a percent."""
    skill = or_else(lambda: first.skill, None)
    if skill is None or skill >= SAME:
        return ""
    return (
        "On these rows the model predicts no better than one and the same answer for all: what it depends on may say "
        f"nothing about {target}."
    )


@claim(level=0)
def may_be_no_better(first: Importances, target: str) -> str:
    """Where the interval of the difference between the two errors includes 0."""
    difference = or_else(lambda: against_constant(first._first), None)
    if difference is None or not difference["low"] <= 0 <= difference["high"]:
        return ""
    return (
        "On new rows the model may predict no better than one and the same answer for all: what it depends on may say "
        f"little about {target}."
    )


@claim(level=LEVEL)
def related_features(first: Importances, columns: Mapping[str, Floats]) -> str:
    """Where a leading feature has a rank correlation of 0.7 or more with another, which chance does not explain."""
    rank = {one.name: place for place, one in enumerate(first._ranked[:LEADING]) if one.pfi > 0}
    pairs = [(a, b) for _, a, b in correlated_pairs(columns) if a in rank or b in rank]
    if not pairs:
        return ""
    a, b = min(pairs, key=lambda pair: min(rank.get(name, LEADING) for name in pair))  # the strongest of its leader
    more = len(pairs) - 1
    others = f", as do {more:,} other pairs" if more > 1 else ", as does 1 other pair" if more else ""
    return (
        f"The features {cut(a)} and {cut(b)} go together in the data{others}: the model can use one in place of the "
        "other, so each alone may look less important than the two are together."
    )


@claim(level=LEVEL)
def hardly_occurring_cases(first: Importances) -> str:
    """Where replaced rows of leading features differ from real ones (`Extrapolation.warns`)."""
    warned = first.extrapolation.warned
    names = [one.name for one in first._ranked[:LEADING] if one.name in warned and one.pfi > 0]
    if not names:
        return ""
    return (
        f"Shuffling {listed([cut(name) for name in names], OTHERS)} makes some rows unlike any real one: the numbers "
        "rest, in part, on predictions for cases that hardly occur."
    )


@claim(level=0)
def not_seen_in_training() -> str:
    """Advice, where nothing else is to be said: the page cannot know which rows the model was fitted on."""
    return "All this is about new cases only if the model was not fitted on these rows."
