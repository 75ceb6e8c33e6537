"""Sentences of reports and results are made by registered functions, and none is false more often than it says."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from claims import CORRELATED, KINDS, TRUTHS, Case, drawn, false, of_results, sentences, told, unknown
from losslens.page.report import Report
from losslens.text import CLAIMS, Sentence

SEEDS = 4  # of each kind, and one of each whose columns go together: 29 data sets
ROWS = 60  # fewer than in the benchmark


@cache
def reports() -> list[tuple[Case, dict[str, Any]]]:
    cases = [drawn(kind, seed, min(kind.n, ROWS)) for kind in KINDS for seed in range(SEEDS)]
    cases += [drawn(kind, 0, ROWS) for kind in CORRELATED]
    return [(case, told(case)) for case in cases]


def test_every_sentence_is_of_a_known_claim() -> None:
    assert set(TRUTHS) == set(CLAIMS)
    assert [text for _, summary in reports() for text in unknown(summary)] == []


def test_no_page_contradicts_itself() -> None:
    """Of 29 data sets; `benchmarks.sentences` renders 200 of each kind."""
    assert [text for _, summary in reports() for text in Report(summary).check()] == []


def test_no_sentence_is_false_more_often_than_its_level() -> None:
    """Over 29 data sets: what is about these rows never, the others as often as by chance, at 1 in 1,000."""
    wrong = Counter(text.claim for case, summary in reports() for text in {*false(case, summary)})
    most = {name: int(binom.isf(0.001, len(reports()), level)) if level else 0 for name, level in CLAIMS.items()}
    assert {name: times for name, times in wrong.items() if times > most[name]} == {}


@cache
def results() -> list[tuple[Case, dict[str, Any]]]:
    return [(case, of_results(case)) for case, _ in reports()]


def test_no_result_says_what_is_false_more_often_than_its_level() -> None:
    """The texts of results outside of a report, on the same data sets; each claim is made on one at least."""
    assert [text for _, said in results() for text in unknown(said)] == []
    wrong = Counter(text.claim for case, said in results() for text in {*false(case, said)})
    most = {name: int(binom.isf(0.001, len(results()), level)) if level else 0 for name, level in CLAIMS.items()}
    assert {name: times for name, times in wrong.items() if times > most[name]} == {}
    made = {text.claim for _, said in results() for text in sentences(said) if isinstance(text, Sentence)}
    made_where_it_holds = {"negative_in_words", "clipped_in_words", "clipped_cells", "negative_rows", "warned_in_words"}
    assert made_where_it_holds <= made


def test_the_check_sees_what_is_false_of_results() -> None:
    """What is said of imbalanced data sets is false of one without effects, and is found to be."""
    null, others = results()[0][0], [said for case, said in results() if case.kind.name == "imbalanced"]
    wrong = {text.claim for said in others for text in false(null, said)}
    assert wrong >= {"clipped_in_words", "clipped_cells", "negative_rows"}


def test_an_additive_model_is_never_said_to_combine_features() -> None:
    """However correlated, skewed or few the data are: it is a fact about the model, not about the sample."""
    added = [summary for case, summary in reports() if not case.kind.together]
    assert len(added) == 21
    made = {text.claim for one in added for text in sentences(one) if isinstance(text, Sentence)}
    assert made.isdisjoint({"works_together", "region"})
    by_results = [text.claim for case, said in results() if not case.kind.together for text in false(case, said)]
    assert "matters_more" not in by_results


def test_true_sentences_are_told() -> None:
    """Each of these on one data set of the kind at least: a page that says nothing is never wrong."""
    expected = {
        "additive": ("goes_together", "hardly_occurring", "headline", "uncertain"),
        "skewed": ("leads_surely", "surely_matter", "largest_shares"),
        "interacting": ("surely_matter", "leads_here"),
        "null": ("unused", "uncertain", "no_better"),
        "imbalanced": ("how_well",),
        "tiny": ("few_rows",),
    }
    for kind, names in expected.items():
        of_kind = [summary for case, summary in reports() if case.kind.name == kind]
        made = [{text.claim for text in sentences(one) if isinstance(text, Sentence)} for one in of_kind]
        for name in names:
            assert sum(name in some for some in made) > 0, (kind, name)


def test_the_check_sees_what_is_false_or_unknown() -> None:
    """A sentence about another data set, and one that nobody registered."""
    (null, _), (_, other) = reports()[0], reports()[len(KINDS) * SEEDS - 1]
    assert any(text.claim == "headline" for text in false(null, other))
    assert unknown({"words": {"sentences": ["x0 is the best."]}}) == ["x0 is the best."]
    assert unknown({"features": [{"regions": {"sentences": ["x0 matters."]}}]}) == ["x0 matters."]
    assert unknown({"features": [{"name": "x0"}]}) == []


@pytest.mark.parametrize("kind", [*KINDS, *CORRELATED], ids=lambda kind: kind.name)
def test_the_truth_of_a_kind_is_as_stated(kind: Any) -> None:
    """PFI over 4,000 rows and one shift of the donors, within 5 standard errors."""
    case = drawn(kind, 0, 4000)
    base = case.losses(kind.model(case.X))
    for j, expected in enumerate(kind.pfi):
        X = case.X.copy()
        X[:, j] = np.roll(X[:, j], 1)
        grown = case.losses(kind.model(X)) - base
        error = grown.std() / np.sqrt(len(grown))
        if kind.name == "imbalanced" and expected > 0:
            assert grown.mean() > 3 * error
        else:
            assert abs(grown.mean() - expected) <= 6 * error + 1e-12
