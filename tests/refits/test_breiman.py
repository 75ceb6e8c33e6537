"""Breiman's importance: trees on their own out-of-bag rows, against loops that anybody can check."""

import json
import zipfile
from itertools import permutations, product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot as plt
from sklearn import config_context
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer, log_loss
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import losslens as ll
from losslens.refits import out_of_bag as oob_trees

RNG = np.random.default_rng(0)
N = 40
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 3, N), RNG.normal(size=N), np.ones(N)])
Y = X[:, 0] * X[:, 1] + 0.3 * X[:, 2] + 0.1 * RNG.normal(size=N)
WORDS = np.array(["low", "mid", "top"])[np.digitize(Y, [-0.3, 0.5])]
NAMES = ["a", "b", "c", "d"]
GAPPY = np.where(RNG.random(X.shape) < 0.25, np.nan, X)
GAPPY[:, 3] = 1.0
# Values that only single precision makes equal, and neighbours there with a threshold in between.
CLOSE = X.copy()
CLOSE[:, 0] = np.nextafter(np.float32(1), np.float32(2)) ** (X[:, 0] > 0) + 1e-9 * RNG.normal(size=N)
CLOSE[:, 2] = 1e8 + 7 * np.arange(N)[::-1]


def forest_of(kind=RandomForestRegressor, X=X, y=Y, trees=6, **settings):
    return kind(trees, **({"random_state": 1, "bootstrap": True} | settings)).fit(X, y)


FOREST = forest_of()


def out_of_bag(forest, n=N):
    return [np.setdiff1d(np.arange(n), bag) for bag in forest.estimators_samples_]


def tree_loss(forest, t, X, y, loss):
    """Losses of one tree, asked through its own public methods; y in the forest's labels."""
    tree = forest.estimators_[t]
    columns = getattr(forest, "estimators_features_", [slice(None)] * len(forest.estimators_))[t]
    X = np.asarray(X, dtype=float)[:, columns]
    if loss == "squared_error":
        return (tree.predict(X) - y) ** 2
    if loss == "zero_one":
        return (forest.classes_[tree.predict(X).astype(int)] != y).astype(float)
    probability = np.zeros((len(X), len(forest.classes_)))
    probability[:, tree.classes_.astype(int)] = tree.predict_proba(X)
    true = (forest.classes_ == np.asarray(y)[:, None]).astype(float)
    if loss == "brier":
        return ((probability - true) ** 2).sum(axis=1)
    eps = np.finfo(float).eps
    return -np.log(np.clip((probability * true).sum(axis=1), eps, 1 - eps))


def with_values(X, rows, donors, columns):
    changed = X[rows].copy()
    changed[:, columns] = X[donors][:, columns]
    return changed


def brute(forest, X, y, columns, loss="squared_error"):
    """Every pair of out-of-bag rows of every tree: d_t, local importances, the trees' mean error."""
    n = len(X)
    d, errors, local, times = [], [], np.zeros(n), np.zeros(n)
    for t, rows in enumerate(out_of_bag(forest, n)):
        if len(rows) < 2:
            d.append(np.nan)
            continue
        base = tree_loss(forest, t, X[rows], y[rows], loss)
        i, k = (pair.ravel() for pair in np.meshgrid(rows, rows, indexing="ij"))
        change = tree_loss(forest, t, with_values(X, i, k, columns), y[i], loss).reshape(len(rows), -1) - base[:, None]
        d.append(change.mean())
        errors.append(base.mean())
        local[rows] += change.mean(axis=1)
        times[rows] += 1
    with np.errstate(invalid="ignore"):
        return np.array(d), local / times, np.mean(errors)


def agrees(result, forest, X, y, loss="squared_error", columns=None):
    columns = columns or [[j] for j in range(X.shape[1])]
    assert result.exact
    for place, own in enumerate(columns):
        d, local, error = brute(forest, X, y, own, loss)
        np.testing.assert_allclose(result.trees[:, place], d, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(result.local[:, place], local, rtol=1e-9, atol=1e-12)
        assert result.importance[place] == pytest.approx(np.nanmean(d), rel=1e-9, abs=1e-12)
        assert result.error == pytest.approx(error)


# All pairs.


REGRESSORS = {
    "random forest": {},
    "shallow": {"max_depth": 2},
    "grown best first": {"max_leaf_nodes": 6},
    "pruned": {"ccp_alpha": 0.05},
    "medians": {"criterion": "absolute_error"},
    "some of the rows": {"max_samples": 0.4},
    "few columns a split": {"max_features": 1},
    "stumps and roots": {"min_samples_leaf": 18},
    "extra trees": {"kind": ExtraTreesRegressor},
    "bagged": {"kind": lambda trees, **more: BaggingRegressor(n_estimators=trees, **more)},
    "bagged, some columns": {
        "kind": lambda trees, **more: BaggingRegressor(DecisionTreeRegressor(max_depth=5), trees, **more),
        "max_features": 0.75,
        "max_samples": 0.5,
    },
    "bagged, columns drawn twice": {
        "kind": lambda trees, **more: BaggingRegressor(n_estimators=trees, **more),
        "bootstrap_features": True,
    },
    "pasted": {
        "kind": lambda trees, **more: BaggingRegressor(n_estimators=trees, **(more | {"bootstrap": False})),
        "max_samples": 0.6,
    },
}


@pytest.mark.parametrize(
    ("name", "table"),
    # scikit-learn's medians know no missing values.
    [case for case in product(REGRESSORS, ["plain", "gaps", "close"]) if case != ("medians", "gaps")],
)
def test_all_pairs_are_those_of_the_trees_own_predictions(name, table):
    data = {"plain": X, "gaps": GAPPY, "close": CLOSE}[table]
    forest = forest_of(X=data, **REGRESSORS[name])
    agrees(ll.breiman_importance(forest, data, Y), forest, data, Y)


@pytest.mark.parametrize("loss", [None, "zero_one", "log_loss", "brier"])
@pytest.mark.parametrize(
    "kind",
    [RandomForestClassifier, ExtraTreesClassifier,
     lambda trees, **more: BaggingClassifier(DecisionTreeClassifier(max_depth=4), trees, **more)],
    ids=["forest", "extra", "bagged"],
)  # fmt: skip
def test_all_pairs_of_a_classifier_with_words_for_labels(kind, loss):
    forest = forest_of(kind, GAPPY, WORDS)
    result = ll.breiman_importance(forest, GAPPY, WORDS, loss=loss)
    agrees(result, forest, GAPPY, WORDS, loss or "zero_one")


def test_a_tree_that_has_not_seen_a_class_gives_it_no_probability():
    rare = WORDS.copy()
    rare[rare == "mid"] = "low"
    rare[3] = "only one"
    with config_context(enable_metadata_routing=True):  # then trees are grown on copies of rows, not on weights
        forest = forest_of(lambda trees, **more: BaggingClassifier(n_estimators=trees, **more), y=rare)
    assert any(len(tree.classes_) == 2 for tree in forest.estimators_)
    for loss in ("zero_one", "brier"):
        agrees(ll.breiman_importance(forest, X, rare, loss=loss), forest, X, rare, loss)


@pytest.mark.parametrize("data", [X, GAPPY], ids=["plain", "gaps"])
def test_columns_permuted_together(data):
    forest = forest_of(X=data)
    asked = {"both": ["x0", "x1"], "x2": ["x2"], "again": ["x2"], "all": ["x0", "x1", "x2", "x3"]}
    result = ll.breiman_importance(forest, data, Y, features=asked)
    agrees(result, forest, data, Y, columns=[[0, 1], [2], [2], [0, 1, 2, 3]])
    np.testing.assert_array_equal(result.trees[:, 1], result.trees[:, 2])


def test_rows_that_walk_in_several_parts(monkeypatch):
    whole = ll.breiman_importance(FOREST, X, Y, features=["x0", {"g": ["x1", "x2"]}])
    monkeypatch.setattr(oob_trees, "ROWS", 4)
    parts = ll.breiman_importance(FOREST, X, Y, features=["x0", {"g": ["x1", "x2"]}])
    np.testing.assert_allclose(parts.trees, whole.trees, rtol=1e-12)
    np.testing.assert_allclose(parts.local, whole.local, rtol=1e-12)
    assert parts.n_predictions == whole.n_predictions


def test_all_pairs_are_the_mean_over_all_permutations():
    """A random permutation sends a row to each row with probability 1/|O_t|, itself included: so the mean of d_t over
    all |O_t|! permutations is the mean over all |O_t|^2 pairs. Here all permutations can be listed."""
    few = slice(0, 14)
    forest = forest_of(X=X[few], y=Y[few], trees=5)
    result = ll.breiman_importance(forest, X[few], Y[few], features=["x0"])
    listed = 0
    for t, rows in enumerate(out_of_bag(forest, 14)):
        if not 2 <= len(rows) <= 6:
            continue
        base = tree_loss(forest, t, X[rows], Y[rows], "squared_error").mean()
        found = [
            tree_loss(forest, t, with_values(X, rows, list(donors), [0]), Y[rows], "squared_error").mean() - base
            for donors in permutations(rows)
        ]
        assert result.trees[t, 0] == pytest.approx(np.mean(found))
        listed += 1
    assert listed >= 2


def test_a_feature_that_no_tree_asks_for_is_exactly_zero():
    for settings in ({}, {"permutations": 3, "random_state": 0}):
        result = ll.breiman_importance(FOREST, X, Y, **settings)
        assert (result.trees[:, 3] == 0).all()
        assert np.nanmax(np.abs(result.local[:, 3])) == 0
        assert result.importance[3] == result.std_error[3] == result.scaled[3] == 0


# Permutations.


def test_random_permutations_average_to_all_pairs():
    exact = ll.breiman_importance(FOREST, X, Y)
    runs = np.array([
        ll.breiman_importance(FOREST, X, Y, permutations=3, random_state=seed).importance for seed in range(50)
    ])  # fmt: skip
    z = (runs.mean(axis=0) - exact.importance)[:3] / (runs.std(axis=0, ddof=1)[:3] / np.sqrt(50))
    assert (np.abs(z) < 3.5).all()
    assert (runs.std(axis=0)[:3] > 0).all()


def test_one_permutation_a_tree_is_the_loop_that_everybody_writes(monkeypatch):
    orders = {}

    class Draw:
        def __init__(self, seed):
            self.place, self.rng = tuple(seed[1:]), np.random.Generator(np.random.PCG64(seed))

        def permutation(self, m):
            order = self.rng.permutation(m)
            orders.setdefault(self.place, []).append(order)
            return order

    monkeypatch.setattr(np.random, "default_rng", Draw)
    result = ll.breiman_importance(FOREST, X, Y, features=["x0"], permutations=2, random_state=5)
    d, local, times = [], np.zeros(N), np.zeros(N)
    assert len(orders) == 6
    for (t, _), drawn in sorted(orders.items()):
        rows = out_of_bag(FOREST)[t]
        base = tree_loss(FOREST, t, X[rows], Y[rows], "squared_error")
        change = [
            tree_loss(FOREST, t, with_values(X, rows, rows[order], [0]), Y[rows], "squared_error") - base
            for order in drawn
        ]
        d.append(np.mean(change))
        local[rows] += np.mean(change, axis=0)
        times[rows] += 1
    assert not result.exact
    np.testing.assert_allclose(result.trees[:, 0], d)
    np.testing.assert_allclose(result.importance, np.mean(d))
    np.testing.assert_allclose(result.std_error, np.std(d, ddof=1) / np.sqrt(6))
    np.testing.assert_allclose(result.scaled, result.importance / result.std_error)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(result.local[:, 0], local / times)
    assert result.n_predictions == sum(map(len, out_of_bag(FOREST))) * 3


def test_a_draw_depends_on_the_seed_and_the_feature_alone():
    whole = ll.breiman_importance(FOREST, X, Y, permutations=2, random_state=3)
    one = ll.breiman_importance(FOREST, X, Y, features=["x2"], permutations=2, random_state=3, n_jobs=2)
    np.testing.assert_allclose(one.trees[:, 0], whole.trees[:, 2], rtol=1e-12)
    other = ll.breiman_importance(FOREST, X, Y, features=["x2"], permutations=2, random_state=4)
    assert (other.trees != one.trees).any()
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    ll.breiman_importance(FOREST, X, Y, permutations=1)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_columns_are_permuted_together_by_one_permutation():
    """Two columns of one value: together they move as the one does, so the loss changes as if there were one."""
    double = np.column_stack([X[:, 0], X[:, 0]])
    forest = forest_of(X=double, max_features=1)
    single = ll.breiman_importance(forest, double, Y, features={"g": ["x0", "x1"]}, permutations=200, random_state=0)
    exact = ll.breiman_importance(forest, double, Y, features={"g": ["x0", "x1"]})
    d, _, _ = brute(forest, double, Y, [0, 1])
    assert exact.importance[0] == pytest.approx(d.mean())
    assert single.importance[0] == pytest.approx(d.mean(), rel=0.1)


# Out-of-bag rows and errors.


def test_out_of_bag_rows_are_those_of_the_trees_own_seeds():
    result = ll.breiman_importance(FOREST, X, Y)
    never = np.ones(N, dtype=bool)
    for tree in FOREST.estimators_:
        drawn = np.random.RandomState(tree.random_state).randint(0, N, N)
        never &= np.isin(np.arange(N), drawn)
    assert 0 < never.sum() < N
    np.testing.assert_array_equal(np.isnan(result.local[:, 0]), never)
    assert f"{never.sum()} of 40 rows are in the bag of every tree" in repr(result)


@pytest.mark.parametrize("more", [{}, {"max_samples": 0.5}, {"max_samples": 10}])
def test_the_forests_error_is_scikit_learns_oob_score(more):
    forest = forest_of(trees=40, oob_score=True, **more)
    result = ll.breiman_importance(forest, X, Y)
    assert result.forest_error == pytest.approx((1 - forest.oob_score_) * Y.var())
    assert result.forest_error < result.error
    forest = forest_of(RandomForestClassifier, y=WORDS, trees=40, oob_score=True, **more)
    assert ll.breiman_importance(forest, X, WORDS).forest_error == pytest.approx(1 - forest.oob_score_)
    logs = ll.breiman_importance(forest, X, WORDS, loss="log_loss").forest_error
    assert logs == pytest.approx(log_loss(WORDS, forest.oob_decision_function_, labels=forest.classes_))
    forest = BaggingRegressor(n_estimators=40, oob_score=True, random_state=0).fit(X, Y)
    assert ll.breiman_importance(forest, X, Y).forest_error == pytest.approx((1 - forest.oob_score_) * Y.var())


def test_trees_with_fewer_than_two_rows_out_of_bag_are_skipped_but_vote():
    few = slice(0, 5)
    forest = forest_of(X=X[few], y=Y[few], trees=120, oob_score=True)
    sizes = np.array([len(rows) for rows in out_of_bag(forest, 5)])
    assert {0, 1, 2} <= set(sizes)
    result = ll.breiman_importance(forest, X[few], Y[few])
    assert (result.n_trees, result.n_skipped) == ((sizes > 1).sum(), (sizes < 2).sum())
    np.testing.assert_array_equal(np.isnan(result.trees[:, 0]), sizes < 2)
    agrees(result, forest, X[few], Y[few])
    assert result.forest_error == pytest.approx((1 - forest.oob_score_) * Y[few].var())
    assert f"{result.n_skipped} trees skipped" in repr(result)


def test_one_tree_has_no_standard_error():
    forest = forest_of(trees=1)
    result = ll.breiman_importance(forest, X, Y)
    assert result.n_trees == 1
    assert np.isnan(result.std_error).all()
    assert "±" not in repr(result)


@pytest.mark.parametrize("more", [{"class_weight": "balanced"}, {"class_weight": "balanced_subsample"}])
def test_weighted_classes(more):
    forest = forest_of(RandomForestClassifier, y=WORDS, **more)
    agrees(ll.breiman_importance(forest, X, WORDS), forest, X, WORDS, "zero_one")


def test_weights_at_fitting():
    weight = np.arange(N) % 4.0
    forest = RandomForestRegressor(6, random_state=0).fit(X, Y, sample_weight=weight)
    agrees(ll.breiman_importance(forest, X, Y), forest, X, Y)


def test_trees_added_later():
    forest = forest_of(trees=3, warm_start=True)
    forest.set_params(n_estimators=6).fit(X, Y)
    assert ll.breiman_importance(forest, X, Y).n_trees == 6


# Losses.


def test_losses_of_regressors_by_name_and_of_ones_own():
    absolute = ll.breiman_importance(FOREST, X, Y, loss="absolute_error")
    own = ll.breiman_importance(FOREST, X, Y, loss=lambda y, f: np.abs(y - f))
    np.testing.assert_array_equal(absolute.trees, own.trees)
    assert absolute.loss == ll.losses.absolute_error
    half = ll.breiman_importance(FOREST, X, Y, loss=ll.losses.pinball(0.5))
    np.testing.assert_allclose(half.importance, absolute.importance / 2)


def test_a_loss_of_ones_own_reads_the_labels_and_the_probabilities():
    forest = forest_of(RandomForestClassifier, y=WORDS)
    seen = set()

    def cost(y, probability):
        assert probability.shape[1] == 3
        seen.update(y.tolist())
        return 1 - probability[np.arange(len(y)), np.searchsorted(forest.classes_, y)]

    result = ll.breiman_importance(forest, X, WORDS, loss=cost)
    assert seen == {"low", "mid", "top"}
    assert result.loss.title == "cost"
    assert result.error < 1


def test_a_deviance_needs_positive_predictions():
    counts = np.round(np.exp(Y))
    forest = forest_of(y=counts)
    with pytest.raises(ValueError, match=r"poisson_deviance needs every prediction to be a number > 0"):
        ll.breiman_importance(forest, X, counts, loss="poisson")
    fine = forest_of(y=counts + 1)
    assert ll.breiman_importance(fine, X, counts + 1, loss="poisson").importance[0] > 0


# Tables.


def test_every_kind_of_table_gives_the_same():
    columns = {"a": X[:, 0], "b": X[:, 1].astype(int), "c": X[:, 2], "d": X[:, 3] > 0}
    frames = [pd.DataFrame(columns), pl.DataFrame(columns)]
    for frame, library in zip(frames, (pd, pl), strict=True):
        forest = forest_of(X=frame)
        result = ll.breiman_importance(forest, frame, frame["a"] * 0 + Y)
        np.testing.assert_array_equal(result.trees, ll.breiman_importance(FOREST, X, Y).trees)
        assert result.features == ("a", "b", "c", "d")
        assert isinstance(result.to_frame(), library.DataFrame)


def test_missing_values_of_frames():
    frame = pd.DataFrame(GAPPY, columns=NAMES).astype({"a": "Float64", "b": "Int64"})
    forest = forest_of(X=frame)
    np.testing.assert_array_equal(
        ll.breiman_importance(forest, frame, Y).trees, ll.breiman_importance(forest_of(X=GAPPY), GAPPY, Y).trees
    )


def test_nothing_of_the_users_is_changed():
    table, target = X.copy(), Y.copy()
    for asked in product([None, 2], [1, 2]):
        ll.breiman_importance(FOREST, table, target, permutations=asked[0], n_jobs=asked[1])
    np.testing.assert_array_equal(table, X)
    np.testing.assert_array_equal(target, Y)


def test_workers_and_bars_change_nothing(capsys):
    one = ll.breiman_importance(FOREST, X, Y, progress=True)
    two = ll.breiman_importance(FOREST, X, Y, n_jobs=2)
    np.testing.assert_array_equal(one.trees, two.trees)
    np.testing.assert_array_equal(one.local, two.local)
    assert capsys.readouterr().out == ""


# The result.


def test_the_result_says_what_it_is():
    result = ll.breiman_importance(FOREST, X, Y)
    text = repr(result).splitlines()
    assert text[0].startswith("BreimanImportance: increase in a tree's out-of-bag squared error; ")
    assert [line.split()[0] for line in text[1:5]] == result.to_frame()["feature"].tolist()
    assert "exact over all pairs of out-of-bag rows; 6 trees; " in text[-2]
    sampled = ll.breiman_importance(FOREST, X, Y, permutations=1)
    assert "sampled with 1 permutation a tree; 6 trees" in repr(sampled)


def test_the_frame_is_sorted():
    result = ll.breiman_importance(FOREST, X, Y)
    frame = result.to_frame()
    assert frame.columns.tolist() == ["feature", "importance", "std_error", "scaled"]
    assert frame["importance"].is_monotonic_decreasing
    by_name = frame.set_index("feature").loc[list(result.features)]
    for name in ("importance", "std_error", "scaled"):
        np.testing.assert_array_equal(by_name[name], getattr(result, name))


def test_the_ranking_is_drawn():
    result = ll.breiman_importance(FOREST, X, Y)
    ax = result.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == result.to_frame()["feature"].tolist()
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], np.sort(result.importance)[::-1])
    assert ax.get_xlabel() == "increase in a tree's out-of-bag squared error"
    _, given = plt.subplots()
    assert result.plot(given) is given
    plt.close("all")


@pytest.mark.parametrize("asked", [{}, {"permutations": 2, "random_state": 0}])
def test_a_saved_result_comes_back(asked, tmp_path):
    result = ll.breiman_importance(FOREST, X, Y, **asked)
    result.save(tmp_path / "r")
    loaded = ll.load(tmp_path / "r")
    assert isinstance(loaded, ll.BreimanImportance)
    assert repr(loaded) == repr(result)
    for name in ("features", "error", "forest_error", "exact", "permutations", "n_predictions", "n_trees", "loss"):
        assert getattr(loaded, name) == getattr(result, name)
    for name in ("trees", "local", "importance", "std_error", "scaled"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(result, name))
    pd.testing.assert_frame_equal(loaded.to_frame(), result.to_frame())
    with zipfile.ZipFile(tmp_path / "r") as archive:  # nothing but arrays and plain JSON
        json.loads(archive.read("result.json"), parse_constant=pytest.fail)


# What is wrong, and what to do.


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (LinearRegression().fit(X, Y), TypeError, "got LinearRegression: feature_importance takes any model"),
        (lambda X: X[:, 0], TypeError, "needs a random forest, extra trees or bagged trees"),
        (GradientBoostingRegressor(n_estimators=2).fit(X, Y), TypeError, "got GradientBoostingRegressor"),
        (make_pipeline(StandardScaler(), FOREST), TypeError, "got Pipeline: pass its last step, and the table"),
        (RandomForestRegressor, TypeError, "is a class"),
        (RandomForestRegressor(), ValueError, "RandomForestRegressor is not fitted; call fit first"),
        (IsolationForest(n_estimators=3).fit(X), TypeError, "neither a regressor nor a classifier"),
        (forest_of(bootstrap=False), ValueError, "no out-of-bag rows: .* fit with bootstrap=True"),
        (ExtraTreesRegressor(3).fit(X, Y), ValueError, "no out-of-bag rows: .* fit with bootstrap=True"),
        (forest_of(y=np.column_stack([Y, Y])), ValueError, "multi-output"),
        (BaggingRegressor(KNeighborsRegressor(), 3).fit(X, Y), TypeError, "holds KNeighborsRegressor, not single"),
        (forest_of(X=X[:30], y=Y[:30]), ValueError, "X has 40 rows, but the RandomForestRegressor was fitted on 30"),
        (forest_of(X=X[:, :3]), ValueError, "expecting 3 features"),
        (forest_of(X=pd.DataFrame(X, columns=NAMES)), UserWarning, "does not have valid feature names"),
    ],
    ids=[str(k) for k in range(14)],  # a lambda's text differs between processes
)
def test_models_that_have_no_such_importance(model, error, words):
    with pytest.raises(error, match=words):
        ll.breiman_importance(model, X, Y)


def test_no_tree_has_two_out_of_bag_rows_to_exchange():
    two = slice(2)
    with pytest.raises(ValueError, match="no tree has two out-of-bag rows"):
        ll.breiman_importance(forest_of(X=X[two], y=Y[two]), X[two], Y[two])


def test_other_rows_than_it_was_fitted_on():
    with pytest.raises(ValueError, match=r"was not fitted on this X.* in the same order"):
        ll.breiman_importance(FOREST, X[::-1], Y[::-1])
    with pytest.raises(ValueError, match="was not fitted on this X"):
        ll.breiman_importance(FOREST, X + 1, Y)
    grown = forest_of(trees=3, warm_start=True)
    grown.set_params(n_estimators=6).fit(X[::-1], Y[::-1])
    for rows in (slice(None), slice(None, None, -1)):
        with pytest.raises(ValueError, match="was not fitted on this X"):
            ll.breiman_importance(grown, X[rows], Y[rows])


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"features": ["B"]}, ValueError, "unknown feature 'B'; did you mean 'b'"),
        ({"features": ("a", "b")}, ValueError, r"'a x b' is a pair on a product grid.* write {'name': \[columns\]}"),
        ({"features": []}, ValueError, "features is empty"),
        ({"permutations": 0}, ValueError, "permutations is a whole number from 1 on; got 0"),
        ({"permutations": 2.5}, ValueError, "got 2.5"),
        ({"permutations": True}, ValueError, "got True"),
        ({"loss": "log_loss"}, ValueError, "RandomForestRegressor gives values, not probabilities"),
        ({"loss": "mse"}, ValueError, "pass loss='squared_error'"),
        ({"loss": get_scorer("r2")}, ValueError, "a scorer gives one number for all rows"),
        ({"n_jobs": 0}, ValueError, "n_jobs is None"),
        ({"random_state": "x"}, ValueError, "random_state is None"),
        ({"y": Y[:-1]}, ValueError, "y has 39 values, but X has 40 rows"),
        ({"y": np.where(np.arange(N) == 7, np.nan, Y)}, ValueError, "y has 1 missing or infinite values"),
        ({"X": pd.DataFrame(X, columns=["a", "b", "c", "e"])}, ValueError, "feature names should match"),
    ],
    ids=str,
)
def test_other_mistakes(asked, error, words):
    frame = pd.DataFrame(X, columns=NAMES)
    forest = forest_of(X=frame, trees=2)
    with pytest.raises(error, match=words):
        ll.breiman_importance(forest, **({"X": frame, "y": Y} | asked))


def test_labels_that_the_forest_has_not_seen():
    forest = forest_of(RandomForestClassifier, y=WORDS, trees=2)
    with pytest.raises(ValueError, match=r"y has the class 'new', which is no class of RandomForestClassifier"):
        ll.breiman_importance(forest, X, np.where(np.arange(N) == 3, "new", WORDS))
    with pytest.raises(ValueError, match="gives labels and probabilities, not values"):
        ll.breiman_importance(forest, X, WORDS, loss="squared_error")


def test_trees_with_a_predict_of_their_own_are_refused():
    """Trees are read, not called: the answer would be that of other trees."""

    class Own(DecisionTreeRegressor):
        def predict(self, X, check_input=True):
            return -super().predict(X, check_input)

    forest = RandomForestRegressor(3, random_state=0).fit(X, Y)
    forest.estimators_[2].predict = forest.estimators_[1].predict
    for refused in (BaggingRegressor(Own(), 3, random_state=0).fit(X, Y), forest):
        with pytest.raises(TypeError, match=r"can't be read: .*; feature_importance takes any model"):
            ll.breiman_importance(refused, X, Y)
