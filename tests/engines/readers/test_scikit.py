"""Trees, forests and boosting of scikit-learn: what is read says what the model says, at any value."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor, _tree

import losslens as ll
from losslens.engines.choice import read_trees
from losslens.engines.readers import layout
from losslens.models import as_model
from tree_walks import SEEDS, N, agree, classes, frame, pick, probes, table, unseen

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
    assert read_trees(as_model(model), "values").accepts_missing
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
    agree(model, probes(model, X, missing=True), ["probabilities", "labels"])


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
    monkeypatch.setattr(layout, "_BLOCK_NODES", 100)
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
    ensemble = read_trees(as_model(model), "values")
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
        assert not read_trees(as_model(model), "values").accepts_missing
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


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("missing", [False, True])
def test_histogram_boosting_with_categories_of_a_frame(library, missing):
    X, y = frame(library, missing=missing)
    by_name = {} if library == "polars" else {"categorical_features": ["words", "few", "m"]}
    for options in ({}, by_name):
        model = HistGradientBoostingRegressor(max_iter=15, min_samples_leaf=5, **options).fit(X, y)
        ensemble = read_trees(as_model(model), "values")
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


def test_a_tree_that_skips_a_node_is_not_in_preorder():
    """Both children of the root are node 2: brackets balance, but node 1 is never reached."""
    assert not layout._is_preorder_block(np.array([2, -1, -1]), np.array([2, -1, -1]))
    assert layout._is_preorder_block(np.array([1, -1, -1]), np.array([2, -1, -1]))


def with_further_state(tree, part):
    """A tree of scikit-learn whose state has a further field of nodes, or a further array."""
    made = {"__name__": "sklearn.tree._tree", "Base": _tree.Tree, "np": np, "part": part}
    source = """
class Tree(Base):
    def __getstate__(self):
        state = super().__getstate__()
        if part == "nodes":
            nodes = state["nodes"]
            fields = [(name, nodes.dtype[name]) for name in nodes.dtype.names]
            more = np.zeros(len(nodes), [*fields, ("is_categorical", "u1")])
            return state | {"nodes": more}
        return state | {part: np.zeros(3)}
"""
    exec(source, made)  # its methods then belong to a module of scikit-learn, as recognition wants it
    copy = made["Tree"](*tree.__reduce__()[1])
    copy.__setstate__(tree.__getstate__())
    return copy


@pytest.mark.parametrize(("part", "named"), [("nodes", "is_categorical"), ("category_sets", "category_sets")])
def test_trees_with_parts_that_are_not_known_are_asked(part, named):
    """As splits by sets of categories would need: by the arrays of the trees, whatever the release."""
    X, y = table(0)
    forest = RandomForestRegressor(3, random_state=0).fit(X, y)
    assert read_trees(as_model(forest), "values") is not None
    forest.estimators_[1].tree_ = with_further_state(forest.estimators_[1].tree_, part)
    found = ll.feature_importance(forest, X, y, loss="squared_error", donors="all")
    asked = ll.feature_importance(forest.predict, X, y, loss="squared_error", donors="all")
    assert found.engine == "blackbox"
    assert named in found["x0"].declined
    assert found["x0"].pfi == pytest.approx(asked["x0"].pfi, rel=1e-12)
