"""The sentences at the top of the page, each made by one function.

A sentence is a claim like a number. Its function says when it is made and, as `claim(level)`, how often it may be
false; each is tried on simulated data whose truth is the simulation (`benchmarks.sentences`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import factorial
from typing import Any

import numpy as np

from losslens.page.labels import cut
from losslens.page.plain_error import shuffled
from losslens.page.quality import LEVEL
from losslens.results.importances import Importances
from losslens.results.scores import Scores
from losslens.results.shapley import ShapleyImportance
from losslens.results.table import or_else
from losslens.text import Sentence, claim, in_digits, listed, share_in_words
from losslens.typing import Floats
from losslens.uncertainty.cautions import sentences
from losslens.uncertainty.inference import Estimates, adjusted

CORRELATED = 0.7  # absolute rank correlation from which on two features are named as correlated
FEW_ROWS = 100  # with fewer, the page warns of wide intervals
TESTED = "one-sided tests at 5%, Holm"
SAME = 0.005  # skills below it are shown as none


def words(
    models: Mapping[str, Importances],
    shares: Mapping[str, ShapleyImportance],
    ends: tuple[float, float],
    n_given: int,
    columns: Mapping[str, Floats],
) -> dict[str, Any]:
    """A headline, the most important features, what was computed, and cautions."""
    name, first = next(iter(models.items()))
    share = shares.get(name)
    of_shares = [] if share is None else [from_other_rows(share), largest_shares(share), negative_shares(share)]
    estimates = or_else(first.estimates, None)
    tested = [ranks_first, first_is_uncertain, every_grows, uncertain, shrinks] if estimates is not None else []
    sentences = [
        at_the_bound(first), *of_shares, grows_most(first), *(make(first) for make in tested), unused(first),
        errors_of_models(models),
    ]  # fmt: skip
    computed = [how_importances(first, n_given), *([] if share is None else [how_shares(share)]), about_intervals()]
    careful = [about_training_rows(), only_a_sample(first, n_given), few_rows(first), correlated(columns)]
    careful += [remark(note) for note in first.notes[1:]]
    careful += dict.fromkeys([*_doubts(first), *([] if share is None else _doubts_of_shares(share))])
    return {
        "headline": headline(name, first, ends),
        "sentences": list(filter(None, sentences)),
        "computed": list(filter(None, computed)),
        "careful": list(filter(None, careful)),
    }


# The model against predictions that use no feature.


@claim(level=0)
def headline(name: str, first: Importances, ends: tuple[float, float]) -> str:
    """The error on these rows, and that of the best constant on the same rows, where there is one."""
    text = f"The {first.title} of {name} is {in_digits(first.error)}"
    if np.isfinite(ends).all():
        text += f" (95% interval {in_digits(ends[0])} to {in_digits(ends[1])})"
    try:
        constant, skill = first._first.best_constant, first.skill
    except ValueError:
        return f"{text}."
    square = f" (R² {round(skill, 2) + 0.0:.2f})" if first.loss.name == "squared_error" else ""
    text += f"; always predicting {constant.words} has {in_digits(constant.error)}"
    if abs(skill) < SAME:
        return f"{text}, about the same{square}."
    if skill < 0:
        return f"{text}, less than the model{square}."
    return f"{text}: the model's error is {share_in_words(skill)} smaller{square}."


@claim(level=0)
def at_the_bound(first: Importances) -> str:
    """Where the log loss of some rows is at the clipping bound: the headline depends on it."""
    one = first._first
    bound, weight = one.loss.ceiling(one.sample.prediction.dtype), one.sample.weight[one.at]
    part = 0.0 if bound is None else float(weight[one._losses >= bound * (1 - 1e-9)].sum() / weight.sum())
    if bound is None or not part > 0:
        return ""
    return (
        f"For {share_in_words(part)} of the rows the model gives the true class probability 0: their log loss is set "
        f"to the clipping bound, {in_digits(bound)}, on which the {first.title} above depends."
    )


@claim(level=0)
def from_other_rows(share: ShapleyImportance) -> str:
    """The error with all features of a row from another: what Shapley shares divide, less the model's error."""
    p = len(share.features)
    whose = f"all {p} features" if p > 1 else "the feature"
    text = f"With the values of {whose} taken from another row, the error is {in_digits(share.error_none)}"
    text += "." if share._total > 0 else ", no larger: there is no reduction to share."
    return f"{text} {_capital(share.clipped_in_words)}." if share.clipped_in_words else text


@claim(level=0)
def largest_shares(share: ShapleyImportance) -> str:
    """The features with the largest shares of that difference on these rows, where it is above 0."""
    if not share._total > 0:
        return ""
    parts = sorted(zip(share.share.tolist(), share.features, strict=True), reverse=True)
    most = [(part, name) for part, name in parts if part >= 0.05][:4] or parts[:1]
    named = listed([f"{name} ({part:.0%})" for part, name in most])
    return (
        f"Of the difference to the model's error, the largest share{'s go' if len(most) > 1 else ' goes'} to {named}."
    )


@claim(level=0)
def negative_shares(share: ShapleyImportance) -> str:
    """The meaning of shares below 0, and of those above 100% that come with them."""
    return f"{_capital(share.negative_in_words)}." if share.negative_in_words else ""


# Single features, whose values come from other rows.


@claim(level=0)
def grows_most(first: Importances) -> str:
    """The largest importance on these rows, with the interval for new ones."""
    best = first._ranked[0]
    if not best.pfi > 0:
        return "With the values of any one feature taken from other rows, the error did not grow."
    text = f"With the values of {best.name} taken from other rows, the error grows by {in_digits(best.pfi)}"
    ends = or_else(best.interval, None)  # too few rows
    return f"{text} (95% interval {in_digits(ends[0])} to {in_digits(ends[1])})." if ends else f"{text}."


@claim(level=LEVEL)
def ranks_first(first: Importances) -> str:
    """Where the simultaneous 95% interval of a feature's rank among all of several features is 1 to 1."""
    if not first_for_sure(first):
        return ""
    return f"{first._ranked[0].name} ranks first: no other importance is as large (simultaneous intervals at 95%)."


@claim(level=0)
def first_is_uncertain(first: Importances) -> str:
    """Where that interval is wider, and some importance on these rows is above 0."""
    unsure = len(first) > 1 and first._ranked[0].pfi > 0 and not first_for_sure(first)
    return "Which feature ranks first is uncertain." if unsure else ""


@claim(level=LEVEL)
def every_grows(first: Importances) -> str:
    """Where all features are tested, and Holm's tests find every importance above 0."""
    if not all_tested(first) or len(not_significant(first.estimates())) > 0:
        return ""
    if len(first) == 1:
        return "With its values taken from other rows, the error grows on new rows, too (one-sided test at 5%)."
    return f"With the values of any one feature taken from other rows, the error grows ({TESTED})."


@claim(level=0)
def uncertain(first: Importances) -> str:
    """Features whose importances are not significantly above 0, nor below, and that changed some error."""
    without_doubt = {*unused_features(first), *_below_zero(first.estimates())}
    names = [name for name in not_significant(first.estimates()) if name not in without_doubt]
    if not names:
        return ""
    whose = f"{' or '.join(names)}" if len(names) < 3 else f"any of {listed(names)}"
    return f"It is uncertain whether the error grows with the values of {whose} taken from other rows ({TESTED})."


@claim(level=LEVEL)
def shrinks(first: Importances) -> str:
    """Features whose importances are below 0, by intervals that hold for all features together."""
    names = _below_zero(first.estimates())
    if not names:
        return ""
    return f"The error shrinks with the values of {listed(names)} taken from other rows (intervals at 95%, Bonferroni)."


@claim(level=0)
def unused(first: Importances) -> str:
    """Features that change the mean error of no row: over all pairs of rows, or over those that were sampled."""
    names = unused_features(first)
    sampled = [name for name in names if not first[name].exact]
    exact = [name for name in names if first[name].exact]
    same = "rows, the error of every row is the same"
    texts = [f"With the values of {listed(exact)} taken from other {same}."] if exact else []
    if sampled:
        texts.append(f"With the values of {listed(sampled)} taken from the sampled {same}; others were not tried.")
    return " ".join(texts)


def surely_most(first: Importances | Scores) -> str:
    """The feature that is first for sure, by a loss or by a score; empty where none is."""
    if or_else(first.estimates, None) is None or not first_for_sure(first):
        return ""
    name = cut(first._ranked[0].name)
    return f"It depends most on {name}: {shuffled(first)}, and no other feature matters as much (95% confidence)."


def first_for_sure(first: Importances | Scores) -> bool:
    """Whether the simultaneous interval of the rank of the largest of several importances is 1 to 1."""
    best, estimates = first._ranked[0], first.estimates()
    if len(first) == 1 or not all_tested(first) or not best.pfi > 0:
        return False
    return int(estimates.ranks()[2][estimates.names.index(best.name)]) == 1


def all_tested(first: Importances | Scores) -> bool:
    """Whether every feature has a standard error: a claim about all must not rest on some."""
    return len(first.estimates().names) == len(first)


def not_significant(estimates: Estimates) -> list[str]:
    """Features whose importances are not significantly above 0 (Holm)."""
    p = adjusted(estimates.p_values(), "holm")
    return [name for name, value in zip(estimates.names, p.tolist(), strict=True) if not value <= LEVEL]


def _below_zero(estimates: Estimates) -> list[str]:
    high = estimates.intervals(1 - LEVEL / len(estimates.names))[1]
    return [name for name, end in zip(estimates.names, high.tolist(), strict=True) if end < 0]


def unused_features(first: Importances) -> list[str]:
    """Features that change the loss of no pair of rows that was evaluated."""
    return [name for name, one in first.items() if not np.any(one.local) and not np.any(one.pi)]


@claim(level=0)
def errors_of_models(models: Mapping[str, Importances]) -> str:
    """The errors of several models on these rows, the smallest first."""
    errors = sorted((importances.error, name) for name, importances in models.items())
    named = listed([f"{name} {in_digits(error)}" for error, name in errors], len(errors))
    return f"Errors of the models: {named}." if len(models) > 1 else ""


# What was computed.


@claim(level=0)
def how_importances(first: Importances, n_given: int) -> str:
    """Rows, donors and engine of the importances."""
    n = len(first._first.at)
    rows = f"{n:,} rows" if n == n_given else f"a random sample of {n:,} of the {n_given:,} rows"
    kind = "exact over all pairs" if first.exact else f"sampled with {first.design}"
    return f"Permutation importances on {rows}: {kind}, engine {first.engine}, {first.n_predictions:,} predictions."


@claim(level=0)
def how_shares(share: ShapleyImportance) -> str:
    """How Shapley shares were computed."""
    return f"Shapley shares: {share.notes[0]}."


@claim(level=0)
def about_intervals() -> str:
    """All intervals of the page are about new rows."""
    return "Intervals are about this fitted model on new rows from the same source."


# What to be careful about.


@claim(level=0)
def about_training_rows() -> str:
    """Advice: the page cannot know which rows the model was fitted on."""
    return "On its training rows a model's importances also show overfitting: use rows that it was not fitted on."


@claim(level=0)
def only_a_sample(first: Importances, n_given: int) -> str:
    """Where the page holds some of the given rows."""
    n = len(first._first.at)
    return f"All numbers are about the sample of {n:,} rows." if n < n_given else ""


@claim(level=0)
def few_rows(first: Importances) -> str:
    """Where fewer than 100 rows count."""
    n = int(np.sum(first._first.sample.weight[first._first.at] > 0))
    return f"{n} rows are few: intervals are wide, and rare values may be missing." if n < FEW_ROWS else ""


@claim(level=0)
def remark(note: str) -> str:
    """A note of the importances: an engine was declined, cells were streamed, or losses clipped."""
    return f"{_capital(note)}."


@claim(level=0)
def doubtful(caution: str) -> str:
    """Numbers whose intervals are not to be trusted, and why: `uncertainty.cautions` states when."""
    return caution


def _doubts(first: Importances) -> list[Sentence]:
    order = first._ranked
    return [*map(doubtful, sentences([one.name for one in order], [one.caution for one in order], "Importance of"))]


def _doubts_of_shares(share: ShapleyImportance) -> list[Sentence]:
    order = share._order.tolist()
    names, cautions = [share.features[j] for j in order], [share.caution[j] for j in order]
    return [*map(doubtful, sentences(names, cautions, "Shapley share of"))]


@claim(level=LEVEL)
def correlated(columns: Mapping[str, Floats]) -> str:
    """Columns with a rank correlation of 0.7 or more on these rows that chance does not explain."""
    pairs = correlated_pairs(columns)
    if not pairs:
        return ""
    named = listed([f"{a} and {b} ({value:.2f})" for value, a, b in pairs[:3]])
    return (
        f"Some features are correlated ({named}, rank correlation): rows with one of them replaced may be unlike "
        "any real row, and the model may use one in place of the other."
    )


def correlated_pairs(columns: Mapping[str, Floats]) -> list[tuple[float, str, str]]:
    """Pairs of correlated numeric columns, the strongest first; significantly so, by Bonferroni's correction."""
    from scipy.stats import rankdata

    varying = [name for name in columns if np.unique(columns[name]).size > 2]
    pairs, every = [], list(combinations(varying, 2))
    for first, second in every:
        present = np.isfinite(columns[first]) & np.isfinite(columns[second])
        a, b = (rankdata(columns[name][present]) for name in (first, second))
        value = float(np.corrcoef(a, b)[0, 1]) if present.sum() > 2 and np.ptp(a) and np.ptp(b) else 0.0
        if abs(value) >= CORRELATED and _by_chance(value, int(present.sum())) <= LEVEL / len(every):
            pairs.append((value, first, second))
    return sorted(pairs, key=lambda pair: -abs(pair[0]))


def _by_chance(value: float, n: int) -> float:
    """p-value of a rank correlation: Student's approximation, and no less than that of a perfect order, 2 / n!."""
    from scipy.stats import t

    left = max(1 - value**2, 1e-300)
    return max(2 * float(t.sf(abs(value) * np.sqrt((n - 2) / left), n - 2)), 2 / factorial(min(n, 20)))


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
