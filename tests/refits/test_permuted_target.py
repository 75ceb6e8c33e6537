"""Tests against permuted targets: the null distribution by brute force, p-values and their adjustment by hand."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot as plt
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.tree import DecisionTreeRegressor

import brute
import losslens as ll
from losslens.plots.canvas import SINGLE
from losslens.results.permuted_target import PermutedTarget
from losslens.uncertainty.inference import adjusted
from pictures import caption, legend, looked_at, texts

RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + 0.3 * X[:, 1] + 0.5 * RNG.normal(size=N)


def check(estimator=None, X=X, y=Y, **options):
    options = {"permutations": 9, "random_state": 0, "cv": KFold(2)} | options
    return ll.permuted_target_test(LinearRegression() if estimator is None else estimator, X, y, **options)


def made(importance, null, features=None):
    names = tuple(f"x{j}" for j in range(len(importance))) if features is None else features
    return PermutedTarget(
        features=names,
        importance=np.asarray(importance, float),
        null=np.asarray(null, float),
        what="increase in squared error",
        backend="pandas",
    )


def importances(y, splits, estimator=None):
    """Mean over the folds of all pairs of test rows, asked of a clone, (p,)."""
    found = []
    for train, test in splits:
        predict = clone(LinearRegression() if estimator is None else estimator).fit(X[train], y[train]).predict
        found.append(
            [brute.cells(predict, X[test], y[test], [j], brute.LOSSES["squared_error"]).mean() for j in range(3)]
        )
    return np.mean(found, axis=0)


# The null distribution.


def test_the_null_is_what_refits_on_permuted_targets_give():
    """The b-th permutation is drawn from its own seed, so that more permutations begin with the same ones."""
    splits = list(KFold(2).split(X))
    found = check(donors="all")
    np.testing.assert_allclose(found.importance, importances(Y, splits), rtol=1e-9)
    for b, null in enumerate(found.null):
        y = np.random.default_rng([0, 9, b]).permutation(Y)
        np.testing.assert_allclose(null, importances(y, splits), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(check(permutations=12, donors="all").null[:9], found.null)


def test_p_counts_the_permutations_with_at_least_this_importance():
    found = check(permutations=19)
    for j in range(3):
        larger = sum(null >= found.importance[j] for null in found.null[:, j])
        assert found.p_values[j] == (1 + larger) / 20


def test_p_is_never_zero_and_ties_count():
    found = made([5.0, 1.0, 0.0], [[1.0, 1.0, 0.0], [2.0, 1.0, 0.0], [3.0, 0.5, -1.0]])
    np.testing.assert_array_equal(found.p_values, [1 / 4, 3 / 4, 3 / 4])


def test_a_feature_that_no_refit_uses_is_certainly_nothing():
    """A constant column is worth exactly 0 to every refit: all of them tie."""
    flat = np.column_stack([X[:, 0], np.ones(N)])
    found = check(DecisionTreeRegressor(max_depth=2, random_state=0), flat)
    assert found.importance[1] == 0
    assert found.p_values[1] == 1


def test_a_real_feature_has_the_smallest_p():
    found = check(permutations=49)
    assert found.p_values[0] == 1 / 50
    assert found.p_values.argmin() == 0
    assert found.test()["feature"][0] == "x0"


def test_where_nothing_can_be_learnt_small_p_are_as_rare_as_they_say():
    """Targets independent of the features are exchangeable: P(p <= 1/5) = 1/5 with 4 permutations.

    50 tests of one feature a data set; more than 20 small ones have probability 0.0003, fewer than 3 0.0013.
    """
    rng, small = np.random.default_rng(1), 0
    for _ in range(50):
        x, y = rng.normal(size=(24, 1)), rng.normal(size=24)
        found = ll.permuted_target_test(
            LinearRegression(), x, y, cv=2, random_state=int(rng.integers(1000)), permutations=4
        )
        small += found.p_values[0] <= 0.2
    assert 3 <= small <= 20


def test_noise_beside_a_real_feature_is_not_flagged_too_often():
    """Of 30 noise features at most 6 have p = 1/5 on average; more than 13 have probability 0.0009."""
    rng, small = np.random.default_rng(2), 0
    for _ in range(30):
        x = rng.normal(size=(24, 2))
        y = x[:, 0] + 0.5 * rng.normal(size=24)
        found = ll.permuted_target_test(
            LinearRegression(), x, y, cv=2, random_state=int(rng.integers(1000)), permutations=4
        )
        small += found.p_values[1] <= 0.2
        assert found.p_values[0] == 0.2
    assert small <= 13


@pytest.mark.parametrize("cv", [3, StratifiedKFold(3, shuffle=True, random_state=0)])
def test_permuted_classes_are_split_as_the_true_ones_are(cv):
    """Three rows of a rare class, three folds: every fold of every permutation has one of them to test.

    Folds of the true classes would leave a permuted fold without, and the null would be about other folds.
    """
    y = np.where(np.arange(N) < 3, "rare", "common")
    found = check(LogisticRegression(), y=y, cv=cv, permutations=15)
    assert found.null.shape == (15, 3)
    assert np.isfinite(found.null).all()


def test_groups_stay_with_their_rows():
    groups = np.arange(N) // 5
    found = check(cv=GroupKFold(4), groups=groups, donors="all")
    splits = list(GroupKFold(4).split(X, Y, groups))
    rng, y = np.random.default_rng([0, 9, 3]), Y.copy()
    for first in range(0, N, 5):
        rows = np.arange(first, first + 5)
        y[rows] = Y[rng.permutation(rows)]
    np.testing.assert_allclose(found.null[3], importances(y, splits), rtol=1e-9, atol=1e-12)


def test_pairs_of_rows_serve_every_permutation():
    """A generator is read once."""
    listed = check(cv=list(KFold(2).split(X)))
    np.testing.assert_array_equal(check(cv=KFold(2).split(X)).null, listed.null)


def test_workers_and_seeds():
    alone, together = (check(n_jobs=jobs, donors=ll.Latin(3)) for jobs in (None, 2))
    np.testing.assert_array_equal(alone.null, together.null)
    assert not np.array_equal(alone.null, check(random_state=1, donors=ll.Latin(3)).null)


def test_the_users_data_stay_as_they_are():
    frame, y = pd.DataFrame(X, columns=list("abc")), pd.Series(Y.copy())
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - it is what must not move
    found = check(X=frame, y=y)
    pd.testing.assert_frame_equal(frame, pd.DataFrame(X, columns=list("abc")))
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    np.testing.assert_allclose(found.null, check().null, rtol=1e-9)


def test_a_scorer_falls():
    found = check(loss=get_scorer("r2"), donors=ll.Latin(5))
    assert repr(found).startswith("PermutedTarget: decrease in r2_score against 9 refits with the target permuted")
    assert found.p_values[0] == 0.1
    assert found.plot().get_xlabel() == "decrease in r2_score"


# Several tests together.


def holm(p):
    """Holm (1979): the k-th smallest counts m - k + 1 times, and at least as much as the ones before it."""
    order, out = sorted(range(len(p)), key=lambda j: p[j]), [0.0] * len(p)
    for k in range(len(p)):
        out[order[k]] = min(1.0, max((len(p) - i) * p[order[i]] for i in range(k + 1)))
    return out


def benjamini_hochberg(p):
    """Benjamini and Hochberg (1995): the least over larger p of m p / rank."""
    order, out = sorted(range(len(p)), key=lambda j: p[j]), [0.0] * len(p)
    for k in range(len(p)):
        out[order[k]] = min(1.0, *(len(p) * p[order[i]] / (i + 1) for i in range(k, len(p))))
    return out


def test_an_example_worked_out_by_hand():
    """p = 0.01, 0.04, 0.03, 0.005 of four tests.

    Holm: 4 x 0.005 = 0.02; 3 x 0.01 = 0.03; 2 x 0.03 = 0.06; 1 x 0.04 = 0.04, raised to 0.06.
    Benjamini-Hochberg: 4/4 x 0.04 = 0.04; 4/3 x 0.03 = 0.04; 4/2 x 0.01 = 0.02; 4/1 x 0.005 = 0.02.
    """
    p = np.array([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(adjusted(p, "holm"), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(adjusted(p, "benjamini_hochberg"), [0.02, 0.04, 0.04, 0.02])
    np.testing.assert_allclose(adjusted(p, "benjamini_hochberg"), stats.false_discovery_control(p))


@pytest.mark.parametrize("seed", range(5))
def test_adjusted_p_values_are_those_of_the_definitions(seed):
    p = np.random.default_rng(seed).integers(1, 21, size=8) / 20  # with ties, as permutations have
    np.testing.assert_allclose(adjusted(p, "holm"), holm(p))
    np.testing.assert_allclose(adjusted(p, "benjamini_hochberg"), benjamini_hochberg(p))
    np.testing.assert_allclose(adjusted(p, "benjamini_hochberg"), stats.false_discovery_control(p))


@pytest.mark.parametrize(("adjust", "by_hand"), [("holm", holm), ("benjamini_hochberg", benjamini_hochberg)])
def test_the_table_of_tests(adjust, by_hand):
    found = made([0.5, 3.0, 2.0], np.column_stack([np.linspace(0, 1, 19), np.zeros(19), np.linspace(0, 2.1, 19)]))
    frame = found.test(adjust)
    assert list(frame.columns) == ["feature", "importance", "p", "p_adjusted"]
    assert list(frame["feature"]) == ["x1", "x2", "x0"]
    np.testing.assert_allclose(frame["p"], [1 / 20, 2 / 20, 11 / 20])
    np.testing.assert_allclose(frame["p_adjusted"], by_hand(list(frame["p"])))
    assert list(found.test(None).columns) == ["feature", "importance", "p"]


def test_of_the_same_p_the_larger_importance_comes_first():
    found = made([1.0, 3.0, 2.0], np.zeros((9, 3)))
    assert list(found.to_frame()["feature"]) == ["x1", "x2", "x0"]


def test_tables_are_of_the_users_library():
    assert isinstance(check(X=pl.DataFrame(X, schema=list("abc")), permutations=2).to_frame(), pl.DataFrame)


def test_a_saved_test_says_the_same(tmp_path):
    found = check()
    found.save(tmp_path / "test.zip")
    loaded = ll.load(tmp_path / "test.zip")
    assert repr(loaded) == repr(found)
    np.testing.assert_array_equal(loaded.null, found.null)
    pd.testing.assert_frame_equal(loaded.test("benjamini_hochberg"), found.test("benjamini_hochberg"))


def test_the_words_say_how_small_p_can_be():
    lines = repr(check()).splitlines()
    assert lines[0] == "PermutedTarget: increase in squared error against 9 refits with the target permuted"
    assert lines[1].startswith("  x0  ")
    assert lines[1].endswith("  p = 0.1")
    assert lines[0] in check()._repr_html_()
    assert lines[-1] == "  (p is at least 0.1; .test() adjusts for the number of features)"


# What is refused.


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"permutations": 0}, ValueError, "permutations is a whole number from 1 on; got 0"),
        ({"permutations": True}, ValueError, "permutations is a whole number"),
        ({"permutations": 9.0}, ValueError, "permutations is a whole number"),
        ({"y": None}, ValueError, "y, the true values, is missing"),
        ({"estimator": lambda X: X}, TypeError, "estimator must be a scikit-learn estimator"),
        ({"cv": 1}, ValueError, "cv=1 gives one fold or none"),
        ({"n_jobs": 0}, ValueError, "n_jobs is None"),
        ({"progress": "yes"}, ValueError, "progress is True, False, or None"),
        ({"features": ["x7"]}, ValueError, "fold 1 of 2 failed: unknown feature 'x7'"),
        ({"features": [("x0", "x1")]}, ValueError, "fold 1 of 2 failed: 'x0 x x1' has no importance, only curves"),
    ],
)
def test_things_that_make_no_sense(options, kind, words):
    with pytest.raises(kind, match=words):
        check(**options)


def test_an_adjustment_that_nobody_knows():
    with pytest.raises(ValueError, match="adjust is 'holm', 'benjamini_hochberg' or None; got 'bonferroni'"):
        made([1.0], [[0.0]]).test("bonferroni")


# Pictures.


def test_the_picture_has_a_stroke_a_permutation_and_a_diamond_a_feature():
    found = check()
    ax = looked_at(found.plot())
    order = np.argsort(-found.importance)
    p = found.p_values
    assert texts(ax.get_yticklabels()) == [f"{found.features[j]} (p = {p[j]:.2g})" for j in order]
    strokes = next(line for line in ax.lines if line.get_gid() == SINGLE)
    np.testing.assert_array_equal(strokes.get_xdata(), found.null[:, order].ravel())
    np.testing.assert_array_equal(strokes.get_ydata(), np.tile(np.arange(3), 9))
    diamonds = next(dots for dots in ax.collections if dots.get_label() == "importance")
    np.testing.assert_array_equal(diamonds.get_offsets().T, [found.importance[order], np.arange(3)])
    assert legend(ax) == ["target permuted, 9 times", "importance"]
    assert ax.get_xlabel() == "increase in squared error"
    low, high = ax.get_xlim()
    assert low < min(found.null.min(), 0)
    assert high > max(found.null.max(), found.importance.max())


@pytest.mark.parametrize(("p", "name"), [(1, ("x{} " + 15 * "long").format), (200, "größe {} Возраст $x_1$ %".format)])
@pytest.mark.parametrize("size", [None, (2.2, 2.0), (9, 1.6)])
def test_pictures_of_few_and_many_features_in_axes_of_any_size(p, name, size):
    rng = np.random.default_rng(3)
    found = made(0.9 ** np.arange(p), 0.1 * rng.normal(size=(30, p)), tuple(map(name, range(p))))
    ax = looked_at(found.plot(None if size is None else plt.subplots(figsize=size, layout="constrained")[1]))
    assert len(texts(ax.get_yticklabels())) <= p
    assert ("less important features not shown" in caption(ax)) == (p == 200)
    assert all("(p = " in text for text in texts(ax.get_yticklabels()))


# Groups.


def test_targets_change_hands_inside_their_groups():
    """With groups of one row nothing can be permuted: that is an error before anything is fitted."""
    with pytest.raises(ValueError, match="all targets in y are equal inside a group"):
        check(groups=np.arange(N), cv=GroupKFold(2))


def test_differences_between_groups_are_no_finding():
    """A feature that is constant in each group, a target that differs between groups and is noise inside them.

    Over all rows the feature looks useful; inside groups it tells nothing. 40 data sets at 5%: on average 2 findings;
    9 or more have a probability under .001.
    """
    flagged = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(8), 10)
        Z = np.column_stack([rng.normal(size=8)[groups] + 0.1 * rng.normal(size=80), rng.normal(size=80)])
        y = rng.normal(size=8)[groups] + rng.normal(size=80)
        found = check(X=Z, y=y, groups=groups, cv=GroupKFold(2), permutations=19, random_state=seed)
        flagged += found.p_values[0] <= 0.05
    assert flagged < 9
