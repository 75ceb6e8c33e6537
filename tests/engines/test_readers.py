"""A model that is read as a sum of trees says what the model itself says, at every value a table could hold."""

import pickle

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from losslens.engines.readers import layout, read, ubjson
from losslens.engines.readers.ensemble import Declined
from losslens.models import as_model
from losslens.tables.frames import as_table

N = 300
FLOAT64, FLOAT32 = 1e-12, 1e-5  # XGBoost adds up in float32, in an order of its own


# The oracle: rows walk down an Ensemble, tree by tree.


def numbers(ensemble, X):
    table = as_table(X)
    columns = (table.column(j).distinct for j in range(len(table.names)))
    return np.column_stack([ensemble.numbers(j, column.values)[column.codes] for j, column in enumerate(columns)])


def goes_left(ensemble, x, at):
    left = x < ensemble.threshold[at] if ensemble.strict else x <= ensemble.threshold[at]
    missing = np.isnan(x)
    if ensemble.in_set is not None:
        for s in np.unique(ensemble.in_set[at][ensemble.in_set[at] >= 0]):
            here = ensemble.in_set[at] == s
            left[here] = np.isin(x[here], ensemble.sets[s])
    return np.where(missing, ensemble.missing_left[at], left)


def walk(ensemble, X):
    Z = numbers(ensemble, X)
    raw = np.tile(ensemble.offset, (len(Z), 1))
    for root, output in zip(ensemble.roots, ensemble.output, strict=True):
        at = np.full(len(Z), root)
        while (inner := np.flatnonzero(ensemble.feature[at] >= 0)).size:
            here = at[inner]
            left = goes_left(ensemble, Z[inner, ensemble.feature[here]], here)
            at[inner] = np.where(left, here + 1, ensemble.right[here])
        value = ensemble.value[ensemble.right[at]]
        raw[:, slice(None) if value.shape[1] == ensemble.outputs else slice(output, output + 1)] += value
    return ensemble.link(raw / ensemble.divisor)


def well_formed(ensemble):
    """Preorder: behind every node stands its left part, behind that its right one; leaves are numbered in order."""
    leaf = ensemble.feature < 0
    assert ensemble.right[leaf].tolist() == list(range(len(ensemble.value)))
    size = np.ones(len(leaf), int)
    for s in np.flatnonzero(~leaf)[::-1]:
        assert ensemble.right[s] == s + 1 + size[s + 1]
        size[s] += size[s + 1] + size[ensemble.right[s]]
    assert np.array_equal(ensemble.roots, np.cumsum(size[ensemble.roots]) - size[ensemble.roots])
    assert size[ensemble.roots].sum() == len(leaf)
    dtypes = {"roots": "i4", "feature": "i4", "threshold": "f8", "right": "i4", "missing_left": "?", "output": "i4"}
    assert all(getattr(ensemble, name).dtype == dtype for name, dtype in dtypes.items())
    assert ensemble.value.flags.c_contiguous
    assert ensemble.value.shape[1] in (1, ensemble.outputs)


def adds_to_several_classes(model):
    """Boosting of several classes, each tree for one of them."""
    others = set(model.responses) - {"labels"}
    ensemble = read(model, others.pop()) if others else None
    return ensemble is not None and ensemble.outputs > 1 and ensemble.value.shape[1] == 1


def agree(model, X, responses=None, tolerance=FLOAT64):
    """Every response of the model, or these, read and predicted."""
    model = as_model(model)
    for response in responses or model.responses:
        if response == "labels" and adds_to_several_classes(model):
            with pytest.raises(Declined, match="ties between classes"):
                read(model, response)
            continue
        ensemble = read(model, response)
        assert ensemble is not None
        well_formed(ensemble)
        got, said = walk(ensemble, X), model.responder(response)(X)
        if response == "labels":
            assert got.dtype == np.intp
            assert np.array_equal(model.classes[got], said)
        else:
            assert (got.dtype, got.shape) == (said.dtype, said.shape)
            np.testing.assert_allclose(got, said, rtol=tolerance, atol=tolerance / 10 * np.abs(said).max())


# Tables.


def table(seed, missing=False):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=N), rng.integers(0, 5, N), rng.exponential(size=N), rng.integers(0, 2, N)])
    X[:, 0] = np.where(rng.random(N) < 0.2, 0.0, X[:, 0])
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    filled = np.nan_to_num(X, nan=1.5)
    y = filled[:, 0] * filled[:, 1] + np.sin(3 * filled[:, 2]) + filled[:, 3] + 0.3 * rng.normal(size=N)
    return X, y


def probes(model, X, missing):
    """Rows of the table with values at thresholds, next to them, far outside and missing."""
    model = as_model(model)
    ensemble, rng = read(model, "values" if "values" in model.responses else "probabilities"), np.random.default_rng(1)
    parts = [X, rng.permuted(X, axis=0)]
    for column in range(X.shape[1]):
        at = ensemble.threshold[(ensemble.feature == column) & np.isfinite(ensemble.threshold)]
        at = np.concatenate([at, [0.0, -0.0, 1e-36, -1e-36, 1e-35, -1e30, 1e30, *([np.nan] if missing else [])]])
        at = np.concatenate([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)])
        new = X[rng.integers(0, len(X), len(at))]
        new[:, column] = at
        parts.append(new)
    return np.concatenate(parts)


def classes(y, k):
    return np.array(["no", "maybe", "yes", "well"])[:k][np.digitize(y, np.quantile(y, np.arange(1, k) / k))]


def pick(seed, **options):
    rng = np.random.default_rng(seed)
    return {name: values[rng.integers(len(values))] for name, values in options.items()}


# scikit-learn.

SEEDS = range(4)
TREE_OPTIONS = {"max_depth": [None, 1, 3], "max_leaf_nodes": [None, 2, 9], "min_samples_leaf": [1, 20]}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    "make", [DecisionTreeRegressor, ExtraTreeRegressor, RandomForestRegressor, ExtraTreesRegressor]
)
def test_trees_and_forests_of_numbers(make, missing, seed):
    X, y = table(seed, missing)
    more = {} if "Tree" in make.__name__[-13:] and "Trees" not in make.__name__ else {"n_estimators": 7}
    model = make(random_state=seed, **pick(seed, **TREE_OPTIONS), **more).fit(X, y)
    assert read(as_model(model), "values").accepts_missing
    agree(model, probes(model, X, missing=True))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("make", [DecisionTreeClassifier, ExtraTreeClassifier])
def test_trees_of_classes(make, k):
    for seed in SEEDS:
        X, y = table(seed)
        weights = pick(seed, class_weight=[None, "balanced"])
        model = make(random_state=seed, **pick(seed, **TREE_OPTIONS), **weights).fit(X, classes(y, k))
        agree(model, probes(model, X, missing=True))


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("make", [RandomForestClassifier, ExtraTreesClassifier])
def test_forests_of_classes(make, k):
    X, y = table(k)
    model = make(8, random_state=k, min_samples_leaf=3).fit(X, classes(y, k))
    agree(model, probes(model, X, missing=True), ["probabilities"])
    with pytest.raises(Declined, match="ties"):
        read(as_model(model), "labels")


@pytest.mark.parametrize("k", [2, 3])
def test_labels_of_forests_whose_leaves_are_pure_are_votes_and_ties_fall_as_they_do(k):
    X, y = table(0)
    model = RandomForestClassifier(4, random_state=0).fit(X, classes(y, k))  # four trees: many ties
    agree(model, probes(model, X, missing=False))
    agree(RandomForestClassifier(1, min_samples_leaf=9, random_state=0).fit(X, classes(y, k)), X)


def test_a_forest_of_deep_trees_is_in_preorder_as_it_is_and_one_grown_best_first_is_brought_there(monkeypatch):
    X, y = table(0)
    deep = RandomForestRegressor(3, random_state=0).fit(X, y)
    best_first = RandomForestRegressor(3, max_leaf_nodes=30, random_state=0).fit(X, y)
    asked = []
    reordered = layout._reordered
    monkeypatch.setattr(layout, "_reordered", lambda nodes: asked.append(1) or reordered(nodes))
    monkeypatch.setattr(layout, "_BLOCK", 100)
    agree(deep, X)
    assert not asked
    agree(best_first, X)
    assert asked


def prune(tree, rng):
    """Makes leaves of some inner nodes, as people do by hand; what hung below stays in the arrays."""
    inner = np.flatnonzero(tree.children_left >= 0)
    for node in rng.choice(inner, max(1, len(inner) // 5), replace=False):
        tree.children_left[node] = tree.children_right[node] = -1


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("leaves", [None, 30])  # grown depth first, and best first
@pytest.mark.parametrize(
    "make", [DecisionTreeRegressor, RandomForestRegressor, RandomForestClassifier, GradientBoostingRegressor]
)
def test_trees_that_somebody_pruned(make, leaves, seed):
    X, y = table(seed, missing=make is DecisionTreeRegressor)
    options = {} if make is DecisionTreeRegressor else {"n_estimators": 5}
    model = make(**options, max_leaf_nodes=leaves, max_depth=6, random_state=seed)
    model.fit(X, classes(y, 2) if "Classifier" in make.__name__ else y)
    rng = np.random.default_rng(seed)
    estimators = [model] if make is DecisionTreeRegressor else np.ravel(model.estimators_)
    for estimator in estimators[::2]:
        prune(estimator.tree_, rng)
    agree(model, X, ["probabilities"] if "Classifier" in make.__name__ else None)


def test_a_right_part_that_was_pruned_leaves_nothing_behind():
    X = np.arange(8.0)[:, None]
    model = DecisionTreeRegressor().fit(X, X[:, 0] ** 2)
    right = model.tree_.children_right[0]
    model.tree_.children_left[right] = model.tree_.children_right[right] = -1
    agree(model, X)
    ensemble = read(as_model(model), "values")
    assert len(ensemble.feature) == right + 1
    model.tree_.children_left[0] = model.tree_.children_right[0] = -1
    agree(model, X)  # a root alone


def test_left_children_next_to_their_parents_are_not_yet_preorder():
    # Node 1 and node 0 have each other's right children.
    nodes = layout.Nodes(
        roots=np.array([0]),
        left=np.array([1, 2, -1, -1, -1]),
        right=np.array([3, 4, -1, -1, -1]),
        feature=np.array([0, 1, 0, 0, 0]),
        threshold=np.arange(5.0),
        missing_left=np.zeros(5, bool),
    )
    found = layout.in_preorder(nodes)
    assert found.nodes.right.tolist() == [4, 3, 0, 1, 2]
    assert found.leaves.tolist() == [2, 4, 3]


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "quantile"])
def test_boosting_of_numbers(loss):
    for seed, start in enumerate([None, "zero"]):
        X, y = table(seed)
        options = pick(seed, max_leaf_nodes=[None, 5], learning_rate=[0.1, 1.3], subsample=[1.0, 0.5])
        model = GradientBoostingRegressor(loss=loss, n_estimators=12, random_state=seed, init=start, **options)
        model.fit(X, y)
        assert not read(as_model(model), "values").accepts_missing
        agree(model, probes(model, X, missing=False))


@pytest.mark.parametrize(("loss", "k"), [("log_loss", 2), ("log_loss", 3), ("exponential", 2)])
@pytest.mark.parametrize("start", [None, "zero", DummyClassifier(strategy="most_frequent")])
def test_boosting_of_classes(loss, k, start):
    X, y = table(k)
    model = GradientBoostingClassifier(loss=loss, n_estimators=6, init=start, random_state=0).fit(X, classes(y, k))
    agree(model, probes(model, X, missing=False))


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "poisson", "gamma", "quantile"])
@pytest.mark.parametrize("missing", [False, True])
def test_histogram_boosting_of_numbers(loss, missing):
    X, y = table(3, missing)
    options = pick(len(loss), max_depth=[None, 2], max_leaf_nodes=[None, 8], max_bins=[255, 11])
    quantile = {"quantile": 0.8} if loss == "quantile" else {}
    monotonic = {"monotonic_cst": [1, 0, 0, -1]} if loss != "absolute_error" and loss != "quantile" else {}
    model = HistGradientBoostingRegressor(loss=loss, max_iter=10, **options, **quantile, **monotonic)
    model.fit(X, np.abs(y) + 0.1)
    agree(model, probes(model, X, missing=True))


@pytest.mark.parametrize("k", [2, 3])
def test_histogram_boosting_of_classes(k):
    X, y = table(k, missing=True)
    model = HistGradientBoostingClassifier(max_iter=10, early_stopping=True, random_state=0).fit(X, classes(y, k))
    agree(model, probes(model, X, missing=True))


def frame(library, seed=0, missing=True):
    """Two columns of categories among three of numbers; the words are not in the order of their letters."""
    X, y = table(seed, missing)
    rng = np.random.default_rng(seed)
    words = rng.choice(np.array(["c", "a", "d", "b", *([None] if missing else [])], dtype=object), N)
    few = rng.choice(np.array(["x", "y"], dtype=object), N)
    y = y + np.select([words == "a", words == "d"], [2.0, -3.0]) * (1 + X[:, 3].clip(0)) + (few == "x")
    data = {"n": X[:, 0], "words": words.tolist(), "m": X[:, 1], "few": few.tolist(), "o": X[:, 2]}
    y = np.nan_to_num(y)
    if library == "polars":
        return pl.DataFrame(data).with_columns(pl.col("words", "few").cast(pl.Categorical)), y
    result = pd.DataFrame(data)
    result["words"] = pd.Categorical(result["words"], categories=["d", "c", "b", "a"])
    result["few"] = pd.Categorical(result["few"])
    return result, y


def unseen(X):
    """The same rows in another order of categories, with one that no model has seen."""
    if isinstance(X, pl.DataFrame):
        return X.with_columns(words=pl.col("words").cast(pl.String).replace("b", "new").cast(pl.Categorical))
    words = X["words"].astype(object).replace("b", "new")
    return X.assign(words=pd.Categorical(words, categories=["new", "a", "c", "d"]))


def other_order(X):
    """Rows without one of the words, the rest in another order of categories."""
    if isinstance(X, pl.DataFrame):
        return X.filter(pl.col("words").cast(pl.String) != "c").reverse()
    words = X["words"].astype(object)
    return X.assign(words=pd.Categorical(words.replace("c", "a"), categories=["a", "b", "d"]))


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("missing", [False, True])
def test_histogram_boosting_with_categories_of_a_frame(library, missing):
    X, y = frame(library, missing=missing)
    by_name = {} if library == "polars" else {"categorical_features": ["words", "few", "m"]}
    for options in ({}, by_name):
        model = HistGradientBoostingRegressor(max_iter=15, min_samples_leaf=5, **options).fit(X, y)
        ensemble = read(as_model(model), "values")
        assert len(ensemble.sets) > 5
        assert {1, 3} <= set(ensemble.feature[ensemble.in_set >= 0])
        agree(model, X)
        agree(model, unseen(X))


def test_histogram_boosting_with_categories_of_an_array():
    X, y = table(0, missing=True)
    X[:, 1] = 10 * X[:, 1] + 3
    model = HistGradientBoostingClassifier(max_iter=10, categorical_features=[1, 3]).fit(X, classes(y, 3))
    others = X.copy()
    others[::2, 1] = np.random.default_rng(0).choice([3.0, 13.0, 14.0, -1.0, 1e9], N // 2)
    agree(model, X)
    agree(model, others)


# XGBoost.


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("missing", [False, True])
def test_xgboost_of_numbers(missing, seed):
    X, y = table(seed, missing)
    options = pick(
        seed,
        max_depth=[1, 3, 6],
        booster=["gbtree", "dart"],
        num_parallel_tree=[1, 3],
        tree_method=["hist", "exact"],
        grow_policy=["depthwise", "lossguide"],
        base_score=[None, 3.0],
    )
    dart = {"rate_drop": 0.4, "skip_drop": 0.1} if options["booster"] == "dart" else {}
    model = xgb.XGBRegressor(n_estimators=12, subsample=0.7, gamma=0.5, random_state=seed, **options, **dart)
    model.fit(X, 100 * y)
    agree(model, probes(model, X, missing=True), tolerance=FLOAT32)
    agree(model.get_booster(), probes(model, X, missing=True), tolerance=FLOAT32)


REGRESSIONS = [
    *("reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror", "reg:pseudohubererror", "reg:logistic"),
    *("reg:quantileerror", "count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "binary:logitraw"),
]


@pytest.mark.parametrize("objective", REGRESSIONS)
@pytest.mark.parametrize("base_score", [None, 0.3])
def test_xgboost_objectives_of_numbers(objective, base_score):
    X, y = table(0)
    y = 1 / (1 + np.exp(-y)) if objective != "binary:logitraw" else (y > 0.5).astype(float)
    alpha = {"quantile_alpha": 0.3} if "quantile" in objective else {}
    model = xgb.XGBRegressor(n_estimators=5, objective=objective, base_score=base_score, **alpha).fit(X, y)
    agree(model, X, tolerance=FLOAT32)


@pytest.mark.parametrize("objective", ["survival:aft", "rank:ndcg", "rank:pairwise"])
def test_xgboost_objectives_of_boosters(objective):
    X, y = table(0)
    data = xgb.DMatrix(X, np.digitize(y, [0, 1]))
    if objective == "survival:aft":
        data.set_float_info("label_lower_bound", np.abs(y) + 1)
        data.set_float_info("label_upper_bound", np.abs(y) + 2)
    else:
        data.set_group([N // 3] * 3)
    agree(xgb.train({"objective": objective}, data, 5), X, tolerance=FLOAT32)


def test_xgboost_of_classes():
    X, y = table(0, missing=True)
    for k, objectives in {2: ["logistic", "hinge", "logitraw"], 3: ["softprob", "softmax"]}.items():
        labels = np.digitize(y, np.quantile(y, np.arange(1, k) / k))
        for objective in objectives:
            name = f"{'binary' if k == 2 else 'multi'}:{objective}"
            model = xgb.XGBClassifier(n_estimators=6, max_depth=3, objective=name).fit(X, labels)
            agree(model, probes(model, X, missing=True), tolerance=FLOAT32)
            params = {"objective": name, "num_class": k if k > 2 else 1}
            agree(xgb.train(params, xgb.DMatrix(X, labels), 6), X, tolerance=FLOAT32)


def test_xgboost_forests():
    X, y = table(0)
    agree(xgb.XGBRFRegressor(n_estimators=9, max_depth=4).fit(X, y), X, tolerance=FLOAT32)
    agree(xgb.XGBRFClassifier(n_estimators=9).fit(X, np.digitize(y, [0, 1])), X, tolerance=FLOAT32)


def test_xgboost_stops_at_the_best_iteration_but_its_booster_does_not():
    X, y = table(0)
    for make, target in [(xgb.XGBRegressor, y), (xgb.XGBClassifier, np.digitize(y, [0, 1]))]:
        model = make(n_estimators=60, early_stopping_rounds=3, learning_rate=0.5, num_parallel_tree=2)
        model.fit(X[:200], target[:200], eval_set=[(X[200:], target[200:])], verbose=False)
        outputs = 1 if make is xgb.XGBRegressor else 3
        ensembles = [read(as_model(m), "scores" if outputs > 1 else "values") for m in (model, model.get_booster())]
        assert len(ensembles[0].roots) == 2 * outputs * (model.best_iteration + 1) < len(ensembles[1].roots)
        agree(model, X, tolerance=FLOAT32)
        agree(model.get_booster(), X, tolerance=FLOAT32)


def test_xgboost_with_an_objective_of_the_users_own():
    X, y = table(0)
    model = xgb.XGBRegressor(n_estimators=5, objective=lambda y, raw: (raw - y, np.ones_like(y))).fit(X, y)
    agree(model, X, tolerance=FLOAT32)


def test_xgboost_with_a_missing_value_of_the_users_own():
    X, y = table(0, missing=True)
    model = xgb.XGBRegressor(n_estimators=5, missing=-99.1).fit(np.nan_to_num(X, nan=-99.1), y)
    agree(model, np.concatenate([X, np.nan_to_num(X, nan=-99.1)]), tolerance=FLOAT32)


def test_extreme_raw_outputs_of_xgboost_stay_away_from_0():
    X, y = table(0)
    model = xgb.XGBClassifier(n_estimators=1, reg_lambda=0, min_child_weight=0, learning_rate=60).fit(X, y > 0)
    said = as_model(model).responder("probabilities")(X)
    assert 0 < said[:, 1].min() < 1e-30
    agree(model, X, ["probabilities"], tolerance=FLOAT32)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("one_hot", [1, 10])
def test_xgboost_with_categories(library, one_hot):
    X, y = frame(library)
    fitted = X.to_pandas() if library == "polars" else X
    model = xgb.XGBRegressor(n_estimators=8, enable_categorical=True, max_cat_to_onehot=one_hot).fit(fitted, y)
    assert read(as_model(model), "values").sets
    for native in (model, model.get_booster()):
        agree(native, X, tolerance=FLOAT32)
        agree(native, other_order(X), tolerance=FLOAT32)
        with pytest.raises(Declined, match="not there in training"):
            walk(read(as_model(native), "values"), unseen(X))


def test_xgboost_with_categories_beyond_ascii_is_declined():
    X, y = frame("pandas")
    X["few"] = X["few"].cat.rename_categories(["ä", "y"])
    model = as_model(xgb.XGBRegressor(n_estimators=2, enable_categorical=True).fit(X, y))
    with pytest.raises(Declined, match="codes"):
        walk(read(model, "values"), X)


def test_xgboost_with_categories_that_are_numbers():
    X, y = table(0)
    coded = pd.DataFrame({"n": X[:, 0], "k": pd.Categorical(10 * X[:, 1].astype(int) + 3), "b": X[:, 3] > 0})
    model = xgb.XGBRegressor(n_estimators=8, enable_categorical=True).fit(coded, y)
    agree(model, coded, tolerance=FLOAT32)
    model = xgb.XGBRegressor(n_estimators=8, enable_categorical=True, feature_types=["q", "c", "q", "c"]).fit(X, y)
    others = X.copy()
    others[:, 1] = np.random.default_rng(0).choice([0, 1, 2, 3, 4, 1.5, -0.5, -1, 7, 1e8, np.nan], N)
    agree(model, X, tolerance=FLOAT32)
    agree(model, others, tolerance=FLOAT32)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_whole_numbers_and_truth_values_with_gaps(library):
    X, y = table(0, missing=True)
    whole, truths = ([None if np.isnan(x) else kind(x) for x in X[:, j]] for j, kind in ((1, int), (3, bool)))
    gaps = pl.DataFrame({"a": X[:, 0].astype(np.float32), "b": whole, "c": X[:, 2], "d": truths})
    if library == "pandas":
        types = {"b": "Int64", "d": "boolean"}
        gaps = pd.DataFrame({name: pd.Series(gaps[name].to_list(), dtype=types.get(name)) for name in gaps.columns})
    agree(xgb.XGBRegressor(n_estimators=8).fit(gaps, y), gaps, tolerance=FLOAT32)
    agree(lightgbm().fit(gaps, y), gaps)
    agree(HistGradientBoostingRegressor(max_iter=8).fit(gaps, y), gaps)
    agree(RandomForestRegressor(8).fit(gaps, y), gaps)


# LightGBM.


def lightgbm(make=lgb.LGBMRegressor, **options):
    return make(**{"n_estimators": 10, "min_child_samples": 5, "verbose": -1, "n_jobs": 1, **options})


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("missing", [False, True])
def test_lightgbm_of_numbers(missing, seed):
    X, y = table(seed, missing)
    options = pick(
        seed,
        boosting_type=["gbdt", "dart", "goss", "rf"],
        max_depth=[-1, 2],
        num_leaves=[31, 4],
        use_missing=[True, False],
        extra_trees=[True, False],
    )
    model = lightgbm(bagging_freq=1, subsample=0.7 if options["boosting_type"] == "rf" else 1.0, **options).fit(X, y)
    agree(model, probes(model, X, missing=True))
    agree(model.booster_, probes(model, X, missing=True))


LIGHTGBM = [
    *("regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie"),
    *("cross_entropy", "cross_entropy_lambda"),
]


@pytest.mark.parametrize("objective", LIGHTGBM)
def test_lightgbm_objectives_of_numbers(objective):
    X, y = table(0, missing=True)
    agree(lightgbm(objective=objective).fit(X, 1 / (1 + np.exp(-y))), X)


def test_lightgbm_of_the_root_of_a_target():
    X, y = table(0)
    agree(lightgbm(reg_sqrt=True).fit(X, y), X)


@pytest.mark.parametrize("boosting", ["gbdt", "rf"])
@pytest.mark.parametrize(("objective", "k"), [("binary", 2), ("multiclass", 3), ("multiclassova", 3)])
def test_lightgbm_of_classes(objective, k, boosting):
    X, y = table(0, missing=True)
    sample = {"bagging_freq": 1, "subsample": 0.6, "boosting_type": boosting}
    model = lightgbm(lgb.LGBMClassifier, objective=objective, sigmoid=2 / 3, **sample).fit(X, classes(y, k))
    agree(model, probes(model, X, missing=True))
    agree(model.booster_, X)
    agree(lgb.Booster(model_str=model.booster_.model_to_string()), X)


def test_lightgbm_with_single_leaves():
    X, y = table(0)
    model = lightgbm(lgb.LGBMClassifier, min_child_samples=N).fit(X, classes(y, 3))
    assert len(read(as_model(model), "scores").value) == 3
    agree(model, X)
    # A class without rows has single leaves among the trees of the others.
    params = {"objective": "multiclass", "num_class": 4, "verbose": -1}
    booster = lgb.train(params, lgb.Dataset(X, np.digitize(y, [0, 1])), 5)
    ensemble = read(as_model(booster), "scores")
    sizes = np.diff([*ensemble.roots, len(ensemble.feature)])
    assert sizes.min() == 1 < sizes.max()
    agree(booster, X)


def test_lightgbm_keeps_all_digits_of_the_sigmoid_while_it_trains():
    X, y = table(0)
    data, params = lgb.Dataset(X, (y > 0).astype(int)), {"objective": "binary", "sigmoid": 2 / 3, "verbose": -1}
    for keep in (True, False):
        agree(lgb.train(params, data, 5, keep_training_booster=keep), X)


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")
def test_lightgbm_stops_at_the_best_iteration():
    X, y = table(0)
    model = lightgbm(n_estimators=60, learning_rate=0.5)
    model.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])], callbacks=[lgb.early_stopping(3, verbose=False)])
    assert len(read(as_model(model), "values").roots) == model.best_iteration_ < 60
    agree(model, X)
    agree(model.booster_, X)


def test_lightgbm_with_an_objective_of_the_users_own():
    X, y = table(0)
    model = lightgbm(objective=lambda y, raw: (raw - y, np.ones_like(y))).fit(X, y)
    agree(model, X)
    agree(model.booster_, X)


@pytest.mark.parametrize("missing", [False, True])
def test_lightgbm_with_categories(missing):
    X, y = frame("pandas", missing=missing)
    model = lightgbm(max_cat_to_onehot=1, cat_smooth=1, min_data_per_group=5).fit(X, y)
    assert read(as_model(model), "values").sets
    agree(model, X)
    agree(model, unseen(X))
    agree(model.booster_, pl.from_pandas(X))
    # One of two in order: it has a list of categories too, but thresholds.
    ordered = X.assign(few=X["few"].cat.as_ordered())
    agree(lightgbm().fit(ordered, y), ordered)


def test_lightgbm_with_categories_that_are_numbers():
    X, y = table(0, missing=True)
    model = lightgbm(cat_smooth=1, min_data_per_group=5).fit(X, y, categorical_feature=[1])
    others = X.copy()
    others[:, 1] = np.random.default_rng(0).choice([0, 1, 2, 3, 4, 1.5, -0.5, -1, 7, 1e8, np.nan], N)
    agree(model, X)
    agree(model, others)
    coded = pd.DataFrame({"n": X[:, 0], "k": pd.Categorical(np.nan_to_num(10 * X[:, 1]).astype(int))})
    agree(lightgbm().fit(coded, y), coded)
    turned = pd.DataFrame({"n": X[:, 0], "t": pd.Categorical(np.nan_to_num(X[:, 3]) > 0, categories=[True, False])})
    agree(lightgbm(cat_smooth=1, min_data_per_group=5).fit(turned, y), turned)


def test_lightgbm_rounds_whole_numbers_in_an_array_only():
    X, y = table(0)
    whole = 2**24 + np.argsort(np.argsort(X[:, 0]))[:, None]
    model = lightgbm(n_estimators=3, min_child_samples=1, num_leaves=200).fit(pd.DataFrame(whole), y)
    with pytest.raises(Declined, match="2\\^24"):
        numbers(read(as_model(model), "values"), whole)
    for far in (1000 * whole, pd.DataFrame(1000 * whole)):  # rounded or not, on the same side of every threshold
        agree(lightgbm(n_estimators=3, num_leaves=2).fit(far, y), far)


# All of them.


@pytest.mark.parametrize(
    "make",
    [
        *(DecisionTreeRegressor, ExtraTreeRegressor, RandomForestRegressor, ExtraTreesRegressor),
        *(GradientBoostingRegressor, HistGradientBoostingRegressor, lightgbm, xgb.XGBRegressor, xgb.XGBRFRegressor),
    ],
)
def test_one_leaf_trees_frames_integers_and_pickles(make):
    X, y = table(0)
    tolerance = FLOAT32 if "XGB" in make.__name__ else FLOAT64
    agree(make().fit(X, np.full(N, 2.5)), X, tolerance=tolerance)  # every tree is a leaf
    whole = (10 * X).astype(np.int64)
    for other in (X.astype(np.float32), whole, pd.DataFrame(X).add_prefix("x"), pd.DataFrame(whole).add_prefix("x")):
        agree(make().fit(other, y), other, tolerance=tolerance)
    model = as_model(make().fit(X, y))
    ensemble = read(model, "values")
    assert np.array_equal(walk(pickle.loads(pickle.dumps(ensemble)), X), walk(ensemble, X))


def test_other_models_are_not_read():
    X, y = table(0)

    class Own(xgb.XGBRegressor):
        def predict(self, X, **options):
            return np.expm1(super().predict(X, **options))

    others = [LinearRegression().fit(X, y), BaggingRegressor(n_estimators=2).fit(X, y), lambda X: X[:, 0]]
    others += [Own(n_estimators=2).fit(X, y), xgb.XGBRegressor(booster="gblinear", n_estimators=2).fit(X, y)]
    patched = DecisionTreeRegressor().fit(X, y)
    patched.predict = lambda X: X[:, 0]
    for other in [*others, patched]:
        assert read(as_model(other), "values") is None
    assert read(as_model(DecisionTreeRegressor().fit(X, y)), "scores") is None


def declined():
    X, y = table(0)
    two, k = np.column_stack([y, y]), np.digitize(y, [0, 1])
    yield "several outputs", DecisionTreeRegressor().fit(X, two)
    yield "several outputs", RandomForestRegressor(2).fit(X, two)
    yield "several outputs", xgb.XGBRegressor(n_estimators=2).fit(X, two)
    yield "several outputs", xgb.XGBRegressor(n_estimators=2, multi_strategy="multi_output_tree").fit(X, two)
    yield "several outputs", xgb.XGBClassifier(n_estimators=2, multi_strategy="multi_output_tree").fit(X, k)
    yield "several outputs", xgb.XGBRegressor(objective="reg:quantileerror", quantile_alpha=[0.1, 0.9]).fit(X, y)
    yield "another model", GradientBoostingRegressor(n_estimators=2, init=LinearRegression()).fit(X, y)
    random = DummyClassifier(strategy="stratified")
    yield "another model", GradientBoostingClassifier(n_estimators=2, init=random).fit(X, k)
    yield "linear", lightgbm(linear_tree=True).fit(X, y)
    yield "zeros", lightgbm(zero_as_missing=True).fit(X, y)
    yield "stop early", lightgbm(lgb.LGBMClassifier, pred_early_stop=True).fit(X, k)
    yield "the user's own", lightgbm(lgb.LGBMClassifier, objective=lambda y, p: (p - y, 1 + 0 * y)).fit(X, y > 0)
    yield "one class", RandomForestClassifier(2).fit(X, np.zeros(N))
    yield "stores its trees", DecisionTreeRegressor()


def test_declined_models():
    for reason, model in declined():
        model = as_model(model)
        with pytest.raises(Declined, match=reason):
            read(model, "values" if "values" in model.responses else "probabilities")


def test_declined_tables():
    X, y = table(0)
    words, dates = np.array(["a", "b"], dtype=object), np.array(["2020-01-01"], dtype="M8[D]")
    frames = frame("pandas")
    plain = [make().fit(X, y) for make in (RandomForestRegressor, lightgbm, xgb.XGBRegressor)]
    plain.append(HistGradientBoostingRegressor(max_iter=2).fit(X, y))
    for model in plain:
        ensemble = read(as_model(model), "values")
        for values in (words, dates):
            with pytest.raises(Declined, match=r"words|dates|categories"):
                ensemble.numbers(0, values)
    with pytest.raises(Declined, match="infinite"):  # in float32
        read(as_model(plain[0]), "values").numbers(0, np.array([1e39]))
    with pytest.raises(Declined, match="infinite"):
        read(as_model(plain[2].get_booster()), "values").numbers(0, np.array([np.inf]))
    with pytest.raises(Declined, match="2\\^53"):
        read(as_model(plain[0]), "values").numbers(0, np.array([2**54 + 2**30 + 1]))
    boosted = xgb.XGBRegressor(n_estimators=2, enable_categorical=True).fit(*frames)
    with pytest.raises(Declined, match="another type"):
        read(as_model(boosted), "values").numbers(1, np.array([1, 2], dtype=object))
    boosted = lightgbm(n_estimators=2).fit(*frames)
    with pytest.raises(Declined, match="list"):
        read(as_model(boosted), "values").numbers(1, np.array(["z"], dtype=object))


def test_infinity_is_a_number_to_those_who_take_it():
    X, y = table(0)
    X[::7, 0], X[::11, 0] = np.inf, -np.inf
    agree(HistGradientBoostingRegressor(max_iter=9).fit(X, y), X)
    agree(lightgbm().fit(X, y), X)
    agree(xgb.XGBRegressor(n_estimators=9).fit(X.clip(-9, 9), y), X, tolerance=FLOAT32)


def test_a_format_that_is_not_known_is_declined():
    assert ubjson.parse(b"{i\x01a[Ti\x02FZ]i\x01b[$U#i\x02\x05\x06}")["a"] == [True, 2, False, None]
    with pytest.raises(Declined, match="format"):
        ubjson.parse(b"?")
