"""Weak segments: what is found, what is not, and that rows that find a rule have no part in judging it."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import get_scorer

import losslens as ll
from losslens.rows import segments
from losslens.rows.segments import SegmentSearch
from losslens.rows.splits import candidates, sides_of
from losslens.rows.worst_rules import Rule, RuleSearch
from losslens.tables.frames import as_table
from losslens.tables.sample import Sample
from losslens.text import in_digits

N = 600
LOSS = {"loss": "squared_error", "progress": False}


def zero(X):
    return np.zeros(len(X))


def drawn(seed=0, n=N, times=4.0):
    """x0 > 1 has errors so many times as large."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["x0", "x1", "x2"]).assign(kind=rng.choice(list("abc"), n))
    return X, rng.normal(size=n) * np.where(X["x0"] > 1, times, 1.0)


@pytest.fixture(scope="module")
def found():
    X, y = drawn()
    return ll.weak_segments(zero, X, y, **LOSS)


# What is found.


def test_the_segment_is_found_with_its_rows(found):
    X, _ = drawn()
    [one] = found.segments
    assert one.columns == ("x0",)
    there = (X["x0"] > 1).to_numpy()
    assert (found.mask(0) & there).sum() > 0.8 * (found.mask(0) | there).sum()
    assert found.mask(0).sum() == one.n
    assert one.share == pytest.approx(one.n / N)
    assert one.p <= 0.05
    assert one.ratio_low > 1
    assert one.difference_low > 0


def test_a_segment_can_be_explained(found):
    X, y = drawn()
    imp = ll.feature_importance(lambda X: np.asarray(X["x0"]), X, y, features=["x0"], **LOSS)
    assert imp.given(found.mask(0))["x0"].pfi == pytest.approx(imp.given(found.segments[0].rows)["x0"].pfi)


def test_rows_are_known_by_their_labels(found):
    X, y = drawn()
    labelled = X.set_axis([f"row {k}" for k in range(N)])
    again = ll.weak_segments(zero, labelled, y, **LOSS)
    assert again.segments[0].rows[0].startswith("row ")
    np.testing.assert_array_equal(again.mask(0), found.mask(0))


def test_two_conditions_categories_and_intervals_are_found():
    """By the absolute error, of which a segment of a sixth of the rows has three times as much."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"a": rng.normal(size=N), "b": rng.choice(list("uvw"), N), "c": rng.normal(size=N)})
    for there, columns in (
        ((X["a"] > 0) & (X["b"] == "v"), {"a", "b"}),
        (X["c"].abs() < 0.3, {"c"}),
        (X["b"] == "w", {"b"}),
    ):
        y = rng.normal(size=N) * np.where(there, 3, 1)
        found = ll.weak_segments(zero, X, y, loss="absolute_error", progress=False)
        assert set(found.segments[0].columns) == columns
        assert (found.mask(0) & there).sum() > 0.6 * (found.mask(0) | there).sum()


def test_two_segments_apart_are_both_found():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1000, 3))
    y = rng.normal(size=1000) * np.where(X[:, 0] > 1, 5, np.where(X[:, 1] < -1, 5, 1))
    found = ll.weak_segments(zero, X, y, **LOSS)
    assert {one.columns for one in found.segments} == {("x0",), ("x1",)}


def test_noise_has_no_segments():
    """Twelve data sets at the level of 5%: more than two findings have a probability of 2%."""
    told = [bool(ll.weak_segments(zero, *drawn(seed, 120, 1.0), **LOSS).segments) for seed in range(12)]
    assert sum(told) <= 2


def test_groups_with_a_common_error_are_no_segments():
    """x0 is the same within a group, and so is most of the error: rows alone would find groups by chance."""
    told = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        block = np.repeat(np.arange(40), 6)
        X = np.column_stack([rng.normal(size=40)[block], rng.normal(size=240)])
        y = 3 * rng.normal(size=40)[block] + rng.normal(size=240)
        told.append(bool(ll.weak_segments(zero, X, y, groups=block, **LOSS).segments))
    assert sum(told) <= 2


def test_weights_count(found):
    """Rows of weight zero have no say, and equal weights none either."""
    X, y = drawn()
    wild = np.where(X["x1"] > 0.5, 50.0, 1.0)
    weight = np.where(X["x1"] > 0.5, 0.0, 1.0)
    some = ll.weak_segments(zero, X, y * wild, sample_weight=weight, **LOSS)
    assert [one.columns for one in some.segments] == [("x0",)]
    assert some.segments[0].share < some.segments[0].n / N + 0.1
    even = ll.weak_segments(zero, X, y, sample_weight=np.full(N, 3.0), **LOSS)
    assert even.to_frame().round(9).equals(found.to_frame().round(9))


# Why there are none.


def test_under_100_rows_it_says_why():
    found = ll.weak_segments(zero, *drawn(n=99), **LOSS)
    assert found.segments == ()
    assert "needs 100 rows with weight" in found.why
    assert "there are 99" in found.why
    assert found.why in repr(found)
    with pytest.raises(ValueError, match="there are no segments: a search needs 100 rows"):
        found.mask(0)


def test_few_groups_equal_errors_and_constant_columns_say_why():
    X, y = drawn(n=200)
    with pytest.warns(UserWarning, match="number of groups is 10"):
        found = ll.weak_segments(zero, X, y, groups=np.arange(200) % 10, **LOSS)
    assert "needs 20 groups of rows" in found.why
    assert ll.weak_segments(zero, X, np.ones(200), **LOSS).why == "every row has the same error"
    constant = ll.weak_segments(zero, np.ones((200, 2)), y, **LOSS)
    assert constant.why.startswith("no column divides the rows")
    noise = ll.weak_segments(zero, *drawn(1, 200, 1.0), **LOSS)
    assert "confirmed on the other half" in noise.why


# The search.


def test_the_search_finds_what_brute_force_finds():
    """Every pair of sides of candidate splits, with the statistic from means and the variance of all losses."""
    X, y = drawn(n=120)
    table, loss, weight, here = as_table(X), y**2, np.ones(120), np.ones(120, bool)
    columns = {name: table.column(j).distinct for j, name in enumerate(table.names)}
    one, two = RuleSearch.over(columns, loss, weight, None, here, 12, 5).worst(2)
    conditions = [(split, yes) for split in candidates(columns, here, 12) for yes in (True, False)]

    def statistic(rule):
        rows = rule.rows
        if not 12 <= rows.sum() <= 60:
            return -np.inf
        return (loss[rows].mean() - loss[~rows].mean()) / np.sqrt(loss.var() * (1 / rows.sum() + 1 / (~rows).sum()))

    best = max(statistic(Rule((a,), 0.0)) for a in conditions)
    assert statistic(one) == pytest.approx(best, rel=1e-5)
    deeper = max(statistic(Rule((a, b), 0.0)) for a in conditions for b in conditions)
    assert statistic(two) <= deeper * (1 + 1e-5)
    assert statistic(two) >= statistic(one)
    welch = stats.ttest_ind(loss[one.rows], loss[~one.rows], equal_var=False).statistic
    assert one.statistic == pytest.approx(welch, rel=0.05)  # variances divided by n, not by n - 1


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_of_one_row_and_weights_agree_with_plain_rows(weighted):
    X, y = drawn(n=200)
    weight = np.random.default_rng(1).gamma(2, size=200) if weighted else np.ones(200)
    table = as_table(X)
    columns = {name: table.column(j).distinct for j, name in enumerate(table.names)}
    half = RuleSearch.over(columns, y**2, weight, None, np.ones(200, bool), 20, 5)
    held = np.ones((1, 200), np.float32)
    sides = candidates(columns, np.ones(200, bool), 20)
    found = half._statistics(held, sides_of(sides, np.arange(200)))[0][0]
    for split, value in zip(sides, found, strict=True):
        rows, mass, loss = split.rows, weight / weight.sum(), y**2
        if not 20 <= rows.sum() <= 100:
            assert value == -np.inf
            continue
        a, b = (np.average(loss[some], weights=mass[some]) for some in (rows, ~rows))
        spread = np.average((loss - mass @ loss) ** 2, weights=mass)
        inverse = sum((mass[some] ** 2).sum() / mass[some].sum() ** 2 for some in (rows, ~rows))
        assert value == pytest.approx((a - b) / np.sqrt(spread * inverse), rel=1e-4)


# The test.


def test_p_is_that_of_all_permutations():
    """Nine rows, three of them inside: 84 memberships, of which p counts those with a t at least as large."""
    rng = np.random.default_rng(2)
    loss, inside = rng.exponential(size=9), np.array([1, 0, 0, 1, 0, 1, 0, 0, 0], bool)

    def welch(rows):
        a, b = loss[rows], loss[np.setdiff1d(np.arange(9), rows)]
        return (a.mean() - b.mean()) / np.sqrt(a.var() / len(a) + b.var() / len(b))

    every = np.array([welch(list(rows)) for rows in combinations(range(9), 3)])
    expected = np.mean(every >= welch(np.flatnonzero(inside)) - 1e-9)
    many = [segments._permuted(loss, np.ones(9), inside, None, 999, np.random.default_rng(seed)) for seed in range(200)]
    assert np.mean(many) == pytest.approx(expected, abs=0.1 * expected + 0.01)


def test_equal_losses_of_the_judging_rows_confirm_nothing():
    """One row in 300 errs, and is in one of the halves: the other has nothing to judge with."""
    X, _ = drawn(n=300)
    found = ll.weak_segments(zero, X, np.eye(300)[0], **LOSS)
    assert "confirmed on the other half" in found.why
    assert segments._permuted(np.zeros(9), np.ones(9), np.arange(9) < 3, None, 99, np.random.default_rng(0)) == 1


def test_p_has_its_level_for_few_rare_losses():
    """40 rows, 6 inside, one in ten with a loss of 30: exact, however skewed."""
    rng, p = np.random.default_rng(0), []
    inside = np.arange(40) < 6
    for _ in range(200):
        loss = np.where(rng.random(40) < 0.1, 30.0, 1.0) + 0.01 * rng.random(40)
        p.append(segments._permuted(loss, np.ones(40), inside, None, 199, rng))
    assert np.mean(np.array(p) <= 0.05) <= stats.binom.isf(0.001, 200, 0.05) / 200


def test_the_judging_rows_have_no_part_in_the_rule():
    """Losses of the judging half are replaced by others: the rules stay the same."""
    X, y = drawn()
    table = as_table(X)
    columns = {name: table.column(j).distinct for j, name in enumerate(table.names)}
    sample = Sample(np.full(N, 1 / N), np.zeros(N), y, y**2)
    search = SegmentSearch(columns, sample)
    half = np.arange(N) % 2 == 0
    rules = [rule.words for rule in search._worst(half, 2)]
    changed = np.where(half, y**2, 1000 * np.random.default_rng(9).random(N))
    other = SegmentSearch(columns, Sample(sample.weight, sample.prediction, y, changed))
    assert [rule.words for rule in other._worst(half, 2)] == rules


def test_halves_keep_groups_whole():
    _, y = drawn(n=200)
    block = np.arange(200) // 5
    search = SegmentSearch({}, Sample(np.full(200, 1 / 200), np.zeros(200), y, y**2, block=block))
    half = search._half(np.random.default_rng(0))
    assert {len(np.unique(half[block == g])) for g in range(40)} == {1}
    assert half.sum() == 100


def test_numbers_are_those_of_the_judging_rows(found):
    """A mean of the judged rows lies between the least and the largest of them, and they are fewer than all."""
    [one] = found.segments
    assert 0 < one.judged < one.n
    assert one.judged_low < one.judged_error < one.judged_high
    assert one.difference == pytest.approx(one.judged_error - one.judged_other)
    assert one.ratio == pytest.approx(one.judged_error / one.judged_other)


def test_a_sentence_says_the_error_of_the_rows_that_it_names(found):
    """Of all of them; what judged them carries its own number of rows and its interval."""
    _, y = drawn()
    [one] = found.segments
    there = found.mask(0)
    assert there.sum() == one.n
    assert one.error == pytest.approx(np.mean(y[there] ** 2))
    assert one.other == pytest.approx(np.mean(y[~there] ** 2))
    assert found.sentences[0].startswith(
        f"The squared error is {in_digits(one.error)} where {one.rule} ({one.n} rows, "
    )
    assert f"On the {one.judged} of these rows that were not used to find the rule it is" in found.sentences[0]


# The result.


def test_the_table_and_the_text(found):
    frame = found.to_frame()
    assert list(frame.columns) == [
        "rule", "n", "share", "error", "other", "judged", "judged_error", "judged_low", "judged_high", "judged_other",
        "difference", "difference_low", "difference_high", "ratio", "ratio_low", "ratio_high", "p",
    ]  # fmt: skip
    assert repr(found).startswith("Weak segments: 1 segment; squared error")
    assert found.segments[0].rule in found._repr_html_().replace("&gt;", ">")
    assert f"where {found.segments[0].rule}" in found.sentences[0]


def test_it_can_be_saved(found, tmp_path):
    found.save(tmp_path / "found.losslens")
    again = ll.load(tmp_path / "found.losslens")
    assert again.to_frame().equals(found.to_frame())
    np.testing.assert_array_equal(again.mask(0), found.mask(0))
    assert repr(again) == repr(found)


def test_the_picture_has_all_rows_and_the_segments(found):
    labels = [label.get_text() for label in found.plot().get_yticklabels()]
    assert labels == [f"all {N} rows", found.segments[0].rule]
    none = ll.weak_segments(zero, *drawn(n=99), **LOSS)
    assert [label.get_text() for label in none.plot().get_yticklabels()] == ["all 99 rows"]


def test_losses_below_zero_have_no_ratio():
    X, y = drawn()
    found = ll.weak_segments(zero, X, y, loss=lambda y, f: (y - f) ** 2 - 20, progress=False)
    assert np.isnan(found.segments[0].ratio)
    assert found.segments[0].difference_low > 0
    assert found.low < found.error < 0


def test_the_same_data_have_the_same_segments(found):
    assert ll.weak_segments(zero, *drawn(), **LOSS).to_frame().equals(found.to_frame())


# Bad input.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": get_scorer("r2")}, "a scorer gives one number for all rows together; weak_segments needs a loss"),
        ({"level": 1.5}, "level lies between 0 and 1"),
        ({"depth": 0}, "depth is a whole number from 1 on"),
        ({"depth": 4}, "depth is at most 3"),
        ({"groups": [1, 2]}, "groups has 2 values"),
        ({"sample_weight": [1, 2]}, "sample_weight has 2 values"),
        ({"random_state": -1}, "random_state"),
        ({"loss": None}, "loss must be named"),
    ],
    ids=str,
)
def test_mistakes_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        ll.weak_segments(zero, *drawn(n=120), **(LOSS | options))


@pytest.mark.parametrize("segment", [-1, 1, 0.5])
def test_a_segment_that_is_none(found, segment):
    with pytest.raises(ValueError, match="segments are numbered 0 to 0"):
        found.mask(segment)
