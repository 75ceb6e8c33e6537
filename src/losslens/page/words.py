"""Sentences in the folds of the page: what shares divide, what was computed, and what to be careful about.

A sentence is a claim like a number. Its function says when it is made and, as `claim(level)`, how often it may be
false; each is tried on simulated data whose truth is the simulation (`benchmarks.sentences`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from losslens.page.blocks import GoingTogether, goes_together
from losslens.page.opening import SAME, always, how_well, no_better
from losslens.page.quality import at_the_bound
from losslens.results.importances import Importances
from losslens.results.plain_error import LEVEL, plain_error
from losslens.results.ranking import Ranking, tested_features, what_matters
from losslens.results.scores import Scores
from losslens.results.sentences import hardly_occurring, largest_shares
from losslens.results.shapley import ShapleyImportance
from losslens.results.table import or_else
from losslens.text import Sentence, claim, cut
from losslens.uncertainty.cautions import sentences

NAMED = 3  # features of a headline
FEW_ROWS = 100  # with fewer, the page warns of wide intervals


def words(
    models: Mapping[str, Importances],
    shares: Mapping[str, ShapleyImportance],
    ranking: Ranking,
    ends: tuple[float, float],
    n_given: int,
    blocks: GoingTogether | None = None,
    target: str = "the target",
    scores: Mapping[str, Scores] | None = None,
) -> dict[str, Any]:
    """The first screen, a headline, what surely matters, what was computed, and cautions.

    `ranking` is by the score, if there is one, else by the loss.
    """
    (name, first), target = next(iter(models.items())), cut(target)
    share = shares.get(name)
    shared = (
        () if share is None else (from_other_rows(share, first, ends), largest_shares(share), negative_shares(share))
    )
    computed = [how_importances(first, n_given), *([] if share is None else [how_shares(share)]), about_intervals()]
    together = goes_together(blocks, first, by_score=bool(scores))
    careful = [
        no_better(ranking.baseline, target), at_the_bound(first._first), few_rows(first), together,
        hardly_occurring(first.extrapolation), about_training_rows(), only_a_sample(first, n_given),
    ]  # fmt: skip
    careful += [remark(note) for note in first.notes[1:]]
    careful += [remark(share.clipped_in_words)] if share is not None and share.clipped_in_words else []
    careful += dict.fromkeys([*_doubts(first), *([] if share is None else _doubts_of_shares(share))])
    careful = [*filter(None, careful)]
    useless = ranking.baseline is not None and not ranking.baseline.here
    matters = careful[:1] if useless else what_matters(replace(ranking, joint="" if scores else together))
    # Each sentence once, and none that is about every page.
    caution = [one for one in careful if one not in " ".join(matters) and one != about_training_rows()][:1]
    return {
        "opening": [how_well(scores or models, target, n_given), *matters, *caution],
        "headline": headline(name, first, ends),
        "takeaway": takeaway(ranking),
        "sentences": list(filter(None, [*shared, *tested_features(ranking)])),
        "computed": list(filter(None, computed)),
        "careful": careful,
    }


@claim(level=LEVEL)
def takeaway(ranking: Ranking) -> str:
    """The headline of a story: what surely matters most, or what may."""
    if not ranking.sure:
        return "No single feature surely matters to this model"
    first, may = ranking.names[0], [] if ranking.first_for_sure else ranking.may_be_first
    if len(may) > NAMED:
        return "Which feature matters most to this model is uncertain"
    here = "" if ranking.all_tested else "On these rows "
    names = " or ".join(map(cut, may if ranking.all_tested and may else [first]))
    return f"{here}{'this' if here else 'This'} model depends {'most ' if len(ranking.names) > 1 else ''}on {names}"


# The model against predictions that use no feature.


@claim(level=0)
def headline(name: str, first: Importances, ends: tuple[float, float]) -> str:
    """The error on these rows in the reader's unit, and that of the best constant on the same rows, if there is one."""
    error = plain_error(first)
    text = f"The {error.name} of {name} is {error.level(first.error, *ends)}"
    if np.isfinite(ends).all():
        text += f" (95% interval {error.between(*ends)})"
    skill = or_else(lambda: first.skill, None)
    if skill is None:
        return f"{text}."
    constant = first._first.best_constant
    text += f"; {always(constant.words)} has {error.level(constant.error, *ends)}"
    return f"{text}, about the same." if abs(skill) < SAME else f"{text}, which is better." if skill < 0 else f"{text}."


@claim(level=0)
def from_other_rows(share: ShapleyImportance, first: Importances, ends: tuple[float, float]) -> str:
    """The error with all features of a row from another: what Shapley shares divide, less the model's error."""
    p, error = len(share.features), plain_error(first)
    whose = f"all {p} features" if p > 1 else "the feature"
    text = (
        f"With the values of {whose} taken from another row, the {error.name} is {error.level(share.error_none, *ends)}"
    )
    return f"{text}." if share._total > 0 else f"{text}, no worse: there is no reduction to share."


@claim(level=0)
def negative_shares(share: ShapleyImportance) -> str:
    """The meaning of shares below 0, and of those above 100% that come with them."""
    return f"{_capital(share.negative_in_words)}." if share.negative_in_words else ""


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
    return "Are these rows that the model was fitted on? Then its importances show overfitting, too: use other rows."


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
    return [*map(doubtful, sentences([one.name for one in order], [one._caution for one in order], "Importance of"))]


def _doubts_of_shares(share: ShapleyImportance) -> list[Sentence]:
    order = share._order.tolist()
    names, cautions = [share.features[j] for j in order], [share.caution[j] for j in order]
    return [*map(doubtful, sentences(names, cautions, "Shapley share of"))]


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
