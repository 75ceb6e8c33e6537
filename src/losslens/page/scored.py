"""The page's part about a score, which is one number for all rows together: its own table, sentences and picture.

What needs a loss of single rows (curves, subgroups, the table of rows) is by the default loss; the page says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from losslens.page.compared import smallest_error, smallest_is_uncertain
from losslens.page.groups import Groups, difference_dict, importance_dict
from losslens.page.labels import cut
from losslens.page.plain_error import plain, score_name, shuffled
from losslens.page.quality import LEVEL
from losslens.page.words import all_tested, surely_most
from losslens.results.comparison import Comparison
from losslens.results.scores import FeatureScore, Scores
from losslens.results.table import or_else
from losslens.text import Sentence, claim, listed

OTHERS = 3  # models or features that a sentence names beside the first
LEADING = 6  # features whose importances are shown for each group


def score_dict(scores: Mapping[str, Scores], loss: str, groups: Groups | None) -> dict[str, Any] | None:
    """All numbers of the score; None without one."""
    if not scores:
        return None
    first = next(iter(scores.values()))
    order = [one.name for one in first._ranked]
    comparison = Comparison(importances=dict(scores), shapley={}, paired=True)
    names = list(scores)
    sentences = [smallest_error(comparison), smallest_is_uncertain(comparison)] if len(scores) > 1 else []
    return {
        "name": score_name(first.title),
        "told_as": first._measure,
        "sentence": sentence_by(first, loss),
        "sentences": list(filter(None, sentences)),
        "models": [{"name": name, **_base(one._first)} for name, one in scores.items()],
        "features": [
            {"name": name, "models": [importance_dict(one.features[name]) for one in scores.values()]} for name in order
        ],
        "differences": [difference_dict(partial(comparison.error_difference, name, names[0])) for name in names[1:]],
        "groups": None
        if groups is None or or_else(lambda: first._first.at, None) is None
        else _by_group(first, groups, order[:LEADING]),
    }


def _base(one: FeatureScore) -> dict[str, Any]:
    """The score with its interval; NaN where it has none."""
    low, high = or_else(lambda: one.score_interval(1 - LEVEL), (np.nan, np.nan))
    return {"base": one.base, "low": low, "high": high, "undefined": one.undefined}


def _by_group(first: Scores, groups: Groups, names: list[str]) -> dict[str, Any]:
    parts = [[first.features[name].at_positions(rows) for name in names] for rows in groups.rows]
    rows = [
        {"label": label, "n": len(where), **_base(part[0]), "importances": [importance_dict(one) for one in part]}
        for label, where, part in zip(groups.labels, groups.rows, parts, strict=True)
    ]
    return {"column": groups.column, "features": names, "groups": rows}


# Sentences.


def on_rows(n: int, n_given: int) -> str:
    """Which rows the first sentence of the page is about: all that were given, or a sample."""
    return f"On these {n:,} rows" if n == n_given else f"On a random sample of {n:,} of {n_given:,} rows"


def score_opening(scores: Mapping[str, Scores], n: int, n_given: int) -> tuple[tuple[Sentence, ...], ...]:
    """How well, and what matters most; the page shows the first of each that applies."""
    first = next(iter(scores.values()))
    most = (no_feature_by_score(first), leads_surely_by_score(first), leads_by_score(first))
    return (how_high(scores, n, n_given),), most


@claim(level=0)
def sentence_by(first: Scores, loss: str) -> str:
    """Which parts of the page are about the score, and which about the loss."""
    name = score_name(first.title)
    return (
        f"{name[:1].upper()}{name[1:]} is one number for all rows together, which no single row has: curves, "
        f"subgroups, rows and shares below are told by the {loss} instead."
    )


@claim(level=0)
def how_score(first: Scores) -> str:
    """Design and engine of the importances by the score, and what its intervals are made of."""
    kind = "exact over all pairs" if first.exact else f"sampled with {first.design}"
    count = {"rows": "each row", "groups": "each group of rows", "blocks": "each of up to 25 blocks of rows"}
    known = or_else(lambda: first._first.influence, None) is not None
    errors = f"; intervals leave out {count[first._first.units]}" if known else ""
    return (
        f"Importances by {score_name(first.title)}: {kind}, engine {first.engine}, {first.n_predictions:,} "
        f"predictions{errors}."
    )


@claim(level=0)
def how_high(scores: Mapping[str, Scores], n: int, n_given: int) -> str:
    """The score of each model on the explained rows, with its interval; of an AUC also that of an order by chance."""
    first = next(iter(scores.values()))
    one, score = first._first, plain(first)
    better, base = "larger" if one._measure == "score" else "smaller", _base(one)
    if np.isfinite([base["low"], base["high"]]).all():
        better += f" is better; 95% interval {score.text(base['low'])} to {score.text(base['high'])}"
    else:
        better += " is better"
    text = f"{on_rows(n, n_given)}, its {score_name(first.title)} is {score.text(score.now)} ({better})"
    others = [f"that of {cut(name)} {score.text(plain(each).now)}" for name, each in list(scores.items())[1:]]
    text += f", {listed(others, OTHERS)}" if others else ""
    return f"{text}; an order by chance has 0.5." if one.is_auc else f"{text}."


@claim(level=0)
def no_feature_by_score(first: Scores) -> str:
    """Where no importance on these rows is above 0."""
    if first._ranked[0].pfi > 0:
        return ""
    name = score_name(first.title)
    return f"On these rows no feature matters: the {name} is no worse with any of them shuffled between rows."


@claim(level=LEVEL)
def leads_surely_by_score(first: Scores) -> str:
    """Where the simultaneous 95% interval of a feature's rank among all of several features is 1 to 1."""
    return surely_most(first)


@claim(level=0)
def leads_by_score(first: Scores) -> str:
    """Otherwise: the first on these rows, whether it may make no difference, and which others may be first."""
    text = f"On these rows it depends most on {cut(first._ranked[0].name)}: {shuffled(first)}"
    estimates = or_else(first.estimates, None)
    if estimates is None or not all_tested(first):
        return f"{text}; how surely is not known."
    best = dict(zip(estimates.names, estimates.ranks()[1].tolist(), strict=True))
    one, *others = first._ranked
    low, high = one.interval()
    doubts = ["it may make no difference"] if low <= 0 <= high else []
    may = [cut(other.name) for other in others if best[other.name] == 1 and other.std_error > 0]
    doubts += [f"{listed(may, OTHERS)} may matter more"] if may else []
    return f"{text}; on new rows {' and '.join(doubts)}." if doubts else f"{text}."
