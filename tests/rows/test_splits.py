"""Splits: which are candidates, and how the best of them is tested."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

import losslens as ll
from losslens.rows import rule_tree, splits
from losslens.rows.kmeans import settle
from losslens.rows.splits import PermutationTest, best, candidates
from losslens.tables.columns import array_column

RNG = np.random.default_rng(0)


def columns(**arrays):
    return {name: array_column(np.asarray(values)).distinct for name, values in arrays.items()}


def offered(values, least=1):
    return candidates(columns(a=values), np.ones(len(values), bool), least)


def test_of_many_categories_the_most_frequent_are_candidates():
    words = np.concatenate([np.repeat(f"w{k:02}", 3 + (k >= 8)) for k in range(40)])
    found = {str(split.yes) for split in offered(words)}
    assert found == {f"a = w{k:02}" for k in range(8, 40)}


def test_of_many_numbers_thresholds_are_evenly_spaced_ranks():
    found = offered(RNG.normal(size=3300))
    below = np.array([split.rows.sum() for split in found])
    np.testing.assert_array_equal(below, np.arange(1, 33) * 100)
    few = offered(np.repeat(np.arange(33.0), 2))
    assert len(few) == 32  # every threshold


@pytest.mark.parametrize("at", [13, 50, 87, 101, 240])
def test_a_step_between_two_candidates_is_found_where_it_is(at):
    x = RNG.permutation(300).astype(float)
    target = (x > at) + 0.001 * RNG.normal(size=300)
    found = best(offered(x, 5), target, np.ones(300, bool), PermutationTest(99, 0.05, np.random.default_rng(0)))
    np.testing.assert_array_equal(found.split.rows, x <= at)
    assert found.p == 0.01


@pytest.mark.parametrize(
    ("low", "high", "text"), [(1.51, 1.6, "1.55"), (1.0, 2.0, "1"), (0.1234, 0.1236, "0.1235"), (0.44, 0.5, "0.47")]
)
def test_a_threshold_has_the_fewest_digits_that_part_the_values(low, high, text):
    split = offered(np.repeat([low - 5.125, low, high, high + 5.125], 5))[1]
    assert split.yes.what in (text, "1.56")
    assert low <= float(split.yes.what) < high


def test_each_side_keeps_enough_rows():
    here = np.zeros(100, bool)
    here[30:80] = True
    found = candidates(columns(a=np.arange(100.0)), here, 20)
    assert found
    for split in found:
        assert 20 <= (split.rows & here).sum() <= 30


@pytest.mark.parametrize("grouped", [False, True])
def test_a_row_is_put_on_the_side_of_the_best_split_without_it(grouped):
    """By hand: T of every candidate among the other rows (or groups), Welch's or that of the groups' contributions."""
    n = 60
    rng = np.random.default_rng(3)
    table = columns(a=rng.integers(0, 6, n), b=rng.integers(0, 6, n), c=rng.choice(["u", "v", "w"], n))
    target, here = rng.exponential(size=n), np.arange(n) >= 4
    unit = np.arange(n) // 3 if grouped else np.arange(n)
    test = PermutationTest(19, 1.0, rng, unit if grouped else None)
    found = best(candidates(table, here, 10), target, here, test)
    higher = splits.left_out(found, target, here, test.block)
    assert not higher[~here].any()
    sides = np.array([split.rows for split in found.candidates])
    moved = 0
    for i in np.flatnonzero(here):
        others = here & (unit != unit[i])
        if grouped:
            values, inside = target - target[here].mean(), sides - sides[:, here].mean(axis=1, keepdims=True)
            mine = [np.sum((values * inside)[:, here & (unit == g)], axis=1) for g in np.unique(unit[others])]
            t = np.sum(mine, axis=0) / np.sqrt(np.sum(np.square(mine), axis=0))
        else:
            t = [ttest_ind(target[others & s], target[others & ~s], equal_var=False).statistic for s in sides]
        k = int(np.argmax(np.abs(t)))
        assert higher[i] == (sides[k][i] == (t[k] > 0))
        moved += k != int(np.argmax([np.array_equal(s, found.split.rows) for s in sides]))
    assert moved  # some rows decide which split is best


def test_features_share_the_level_and_permutations_can_reach_it(monkeypatch):
    """Two features: all splits at 2.5%, for which 79 permutations are twice as many as needed at least."""
    asked = []

    def record(found, target, here, test):
        asked.append((int(here.sum()), test.level, test.permutations))
        return best(found, target, here, test)

    monkeypatch.setattr(splits, "best", record)
    X = np.column_stack([RNG.normal(size=(400, 2)), RNG.integers(0, 2, 400), RNG.normal(size=400)])
    f = lambda X: (X[:, 0] + X[:, 1]) * (1 + 4 * X[:, 2] + 2 * (X[:, 3] > 0))  # noqa: E731
    imp = ll.feature_importance(f, X, f(X), loss="squared_error", features=["x0", "x1"], donors="all")
    imp.regions(X, random_state=0, permutations=19)
    assert [one for one in asked if one[0] == 400] == [(400, 0.025, 79)] * 2
    assert {one[1:] for one in asked if one[0] < 400} == {(0.025, 79)}


def test_one_point_elsewhere_is_no_reason_to_stop():
    """A centre goes to the mean of its points, though only one of 20,001 is not its own."""
    points = np.append(RNG.normal(size=20_000), 500.0)[:, None]
    found = settle(points, np.ones(20_001), np.array([[0.5], [500.0]]))
    assert found.centres[0, 0] == pytest.approx(points[:-1].mean())
    assert found.labels.tolist() == [0] * 20_000 + [1]


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_a_tree_of_rules_is_no_deeper_than_asked_for(depth):
    """Eight stairs: every depth up to three tells more of them apart."""

    def depth_of(node):
        return 0 if node.split is None else 1 + max(map(depth_of, node.below))

    x = np.arange(160.0)
    labels = (x // 20).astype(int)
    tree = rule_tree.grow(columns(a=x), labels, np.ones(160), np.ones(160, bool), depth)
    assert depth_of(tree) == depth
    assert tree.right == (rule_tree.predict(tree, 160) == labels).sum() >= 20 * (1 + depth)
