"""The page's part about a score, which is one number for all rows together: its own table, sentences and picture.

What needs a loss of single rows (curves, subgroups, the table of rows) is by the default loss; the page says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from losslens.page.groups import Groups, difference_dict, importance_dict
from losslens.page.quality import LEVEL
from losslens.results.comparison import Comparison
from losslens.results.plain_error import score_name
from losslens.results.ranking import Ranking
from losslens.results.scores import FeatureScore, Scores
from losslens.results.sentences import smallest_error, smallest_is_uncertain
from losslens.results.table import or_else
from losslens.text import claim

LEADING = 6  # features whose importances are shown for each group


def score_dict(scores: Mapping[str, Scores], loss: str, groups: Groups | None) -> dict[str, Any] | None:
    """All numbers of the score; None without one."""
    if not scores:
        return None
    first = next(iter(scores.values()))
    order = [one.name for one in first._ranked]
    comparison = Comparison(importances=dict(scores), shapley={}, paired=True)
    tested = [Ranking.of(one).p for one in scores.values()]
    names = list(scores)
    sentences = [smallest_error(comparison), smallest_is_uncertain(comparison)] if len(scores) > 1 else []
    return {
        "name": score_name(first.title),
        "told_as": first._measure,
        "sentence": sentence_by(first, loss),
        "sentences": list(filter(None, sentences)),
        "models": [{"name": name, **_base(one._first)} for name, one in scores.items()],
        "features": [
            {
                "name": name,
                "models": [
                    importance_dict(one.features[name]) | {"p": p.get(name, np.nan)}
                    for one, p in zip(scores.values(), tested, strict=True)
                ],
            }
            for name in order
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


@claim(level=0)
def sentence_by(first: Scores, loss: str) -> str:
    """Which parts of the page are about the score, and which about the loss."""
    name = score_name(first.title)
    return (
        f"{name[:1].upper()}{name[1:]} is one number for all rows together, which no single row has: curves, "
        f"subgroups, rows and shares below use the {loss} instead."
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
