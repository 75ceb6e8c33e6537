"""What the comparison of frozen numbers reports: every kind of change is made by hand, on results of a few calls."""

import copy
import inspect
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.frozen import calls, compare, records, running
from tests.frozen.compare import FAR, SEP
from tests.frozen.settings import made

import losslens as ll

FOREST, WALKS, PLAN = "feature_importance/designs/forest/Latin", "shapley_importance/walks", "plan/report/forest"
NAMES = (FOREST, WALKS, PLAN, "importances/regions/forest", "shapley_importance/parquet/line")


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """Written and loaded again."""
    folder = tmp_path_factory.mktemp("frozen")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        records.save({name: running.run(name) for name in NAMES}, folder / "numbers")
    return records.load(folder / "numbers")[0]


@pytest.fixture
def changed(frozen):
    return copy.deepcopy(frozen)


def only_failure(verdict):
    ((call, (found,)),) = verdict.failures.items()
    return call, found


def test_the_same_calls_are_equal_to_the_bit(frozen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    verdict = compare.compare(frozen, {name: running.run(name) for name in NAMES})
    assert not verdict.failures
    assert not verdict.ways
    assert not verdict.gone + verdict.new
    assert set(verdict.count) == {"equal"}
    assert verdict.count["equal"] > 10_000


def test_a_number_that_moved_by_one_bit_fails_unless_rounding_is_allowed(frozen, changed):
    pi = changed[FOREST].numbers[f"x1{SEP}pi"]
    at = np.argmax(np.abs(pi))
    pi[at] = np.nextafter(pi[at], np.inf)
    call, said = only_failure(compare.compare(frozen, changed))
    assert call == FOREST
    assert said.startswith(f"x1{SEP}pi off by ")
    allowed = compare.compare(frozen, changed, rounding=1e-12)
    assert not allowed.failures
    assert allowed.count["off by rounding"] == pi.size
    pi[at] *= 1 + 1e-9
    assert compare.compare(frozen, changed, rounding=1e-12).failures


@pytest.mark.parametrize(("z", "fails"), [(0.9 * FAR, False), (FAR + 1, True), (-FAR - 1, True)])
def test_another_way_may_be_four_standard_errors_away(frozen, changed, z, fails):
    """The draw of the frozen side has an error, the exact side has none."""
    one, was = changed[FOREST], frozen[FOREST].numbers
    one.words[f"x0{SEP}design"] = "All()"
    low, high = was[f"x0{SEP}{records.DRAW}"]
    one.numbers[f"x0{SEP}pfi"] = was[f"x0{SEP}pfi"] + z * (high - low) / 2 / 1.959964
    one.numbers[f"x0{SEP}{records.DRAW}"] = np.repeat(one.numbers[f"x0{SEP}pfi"], 2)
    verdict = compare.compare(frozen, changed)
    assert bool(verdict.failures) is fails
    np.testing.assert_allclose(verdict.z["importances"], [z], rtol=1e-6)
    assert "Latin(4)" in verdict.ways[FOREST]
    assert "All()" in verdict.ways[FOREST]
    if fails:
        assert only_failure(verdict) == (FOREST, f"x0{SEP}pfi {FAR + 1:.1f} Monte-Carlo standard errors away")


def test_single_rows_are_compared_together(frozen, changed):
    """The error of one row is estimated from few walks and may be far too small; that of all rows is not."""
    one, was = changed[WALKS], frozen[WALKS].numbers
    one.words["method"] = "another"
    one.numbers["local"] = was["local"] + was["local_error"] * np.resize([1, -1], (len(was["local"]), 1))
    one.numbers["local_error"] = np.zeros_like(was["local_error"])
    assert not compare.compare(frozen, changed).failures
    one.numbers["local"] += 2 * was["local_error"]
    assert only_failure(compare.compare(frozen, changed))[1].startswith("local mean square 5")


def test_importances_drawn_again_are_one_standard_error_away_on_average():
    """Walks against all coalitions, Latin donors against all pairs; of 100 importances 1 +- .14 with correct errors.

    With this many rows few of all pairs are walked: the more there are, the more careful the stated errors.
    """
    setting, before, now = made("boosting", 150), {}, {}
    for verb, way in ((ll.feature_importance, {"donors": ll.Latin(6)}), (ll.shapley_importance, {"method": "walk"})):
        explain = partial(verb, setting.model, setting.X, setting.y)
        exact = records.record(explain())
        for seed in range(10):
            name = f"{verb.__name__} {seed}"
            before[name], now[name] = exact, records.record(explain(random_state=seed, **way))
    verdict = compare.compare(before, now)
    assert not verdict.failures
    assert len(verdict.ways) == len(before)
    assert (len(verdict.z["importances"]), len(verdict.z["results with single rows"])) == (100, 10)
    assert 0.5 < np.mean(np.square(verdict.z["importances"])) < 1.5
    assert 0.5 < np.mean(np.square(verdict.z["results with single rows"])) < 1.5


def test_two_exact_ways_agree_but_for_rounding(frozen, changed):
    one = changed["shapley_importance/parquet/line"]
    assert one.numbers["exact"] == 1
    one.words["engine"] = "another"
    for name in ("sfimp", records.DRAW):
        one.numbers[name] *= 1 + 1e-12
    assert not compare.compare(frozen, changed).failures
    for name in ("sfimp", records.DRAW):
        one.numbers[name] *= 1 + 1e-6
    found = compare.compare(frozen, changed).failures["shapley_importance/parquet/line"]
    assert [said.partition(" ")[0] for said in found] == ["interval", "sfimp"]


def test_attributes_that_came_and_went_are_listed(frozen, changed, monkeypatch):
    shares = [one.numbers for one in changed.values() if "paper_sfimp" in one.numbers]
    for numbers in shares:
        numbers["as_in_paper"] = numbers.pop("paper_sfimp")
    verdict = compare.compare(frozen, changed)
    assert (verdict.gone, verdict.new) == ({"paper_sfimp": len(shares)}, {"as_in_paper": len(shares)})
    assert not verdict.failures
    monkeypatch.setitem(compare.RENAMED, "paper_sfimp", "as_in_paper")
    changed[WALKS].numbers["as_in_paper"] += 1.0
    verdict = compare.compare(frozen, changed)
    assert not verdict.gone + verdict.new
    assert only_failure(verdict)[0] == WALKS


def test_words_and_costs_are_listed_and_names_fail(frozen, changed):
    one = changed[WALKS]
    one.numbers["n_predictions"] += 1
    one.words["headline"] = "other words"
    changed[PLAN].numbers["n_predictions"] *= 5
    verdict = compare.compare(frozen, changed)
    assert not verdict.failures
    assert {name: len(found) for name, found in verdict.listed.items()} == {WALKS: 2, PLAN: 1}
    one.labels["features"] = one.labels["features"][::-1]
    assert only_failure(compare.compare(frozen, changed))[0] == WALKS
    assert not compare.compare(frozen, changed, words=True).failures


def test_calls_that_raise_or_have_another_model_fail(frozen, changed):
    changed[WALKS].raised = "ValueError: no"
    changed[FOREST].numbers[records.MODEL][0] += 1.0
    del changed[PLAN]
    verdict = compare.compare(frozen, changed)
    assert verdict.failures == {
        FOREST: [f"{records.MODEL} differ: another model, or another version of its library"],
        WALKS: [" a result -> ValueError: no"],
    }
    assert verdict.listed == {PLAN: ["no such call any more"]}
    assert "FAILED " + WALKS in str(verdict)


def test_every_verb_is_called():
    text = Path(calls.__file__).read_text(encoding="utf-8")
    verbs = [name for name in ll.__all__ if inspect.isfunction(getattr(ll, name))]
    assert [name for name in verbs if name not in text] == ["feature_groups"]  # which gives names, and no numbers
