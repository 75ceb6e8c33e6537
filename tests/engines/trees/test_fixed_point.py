"""Leaves of very different sizes: predictions keep their digits, or the model is asked. Brute force asks it always."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import brute
import losslens as ll
from losslens.engines.choice import read_model, read_trees
from losslens.engines.trees.bound import FAR_APART, check_digits
from losslens.models import as_model
from tree_cases import CLASSES, FRAME_TARGET, FRAME_TRAIN, REGRESSORS, TARGET, TRAIN

RNG = np.random.default_rng(0)
N = 260
X = RNG.normal(size=(N, 3))
LOW = np.argsort(X[:, 0])[:4]  # rows between those at equal distances, on which engines are checked, too
FORESTS = {
    "tree": lambda: DecisionTreeRegressor(random_state=0),
    "small trees": lambda: RandomForestRegressor(9, max_leaf_nodes=12, random_state=0),
    "large trees": lambda: ExtraTreesRegressor(9, random_state=0),
}


def far_apart(orders):
    """A target that is so many orders of magnitude smaller in four rows; the mean deviance is that of these."""
    y = 10 * np.exp(0.1 * X[:, 1] * X[:, 2])
    y[LOW] *= 10.0**-orders
    return y


def by_brute_force(predict, y, loss):
    """Importances, and the scale of their errors: mean losses with nothing and with the most important replaced."""
    base = loss(y, predict(X)).mean()
    pfi = [brute.cells(predict, X, y, [j], loss).mean() for j in range(X.shape[1])]
    return np.array(pfi), base + np.abs(pfi).max()


def check(model, y, loss, predict, declined=""):
    expected, scale = by_brute_force(predict, y, brute.LOSSES[loss])
    found = ll.feature_importance(model, X, y, loss=loss, donors="all")
    assert (found.engine, found["x0"].declined) == ("blackbox" if declined else "trees", declined)
    np.testing.assert_allclose([one.pfi for one in found.values()], expected, rtol=0, atol=1e-9 * scale)
    return found


@pytest.mark.parametrize(("orders", "declined"), [(6, ""), (9, FAR_APART), (30, FAR_APART)])
@pytest.mark.parametrize("name", FORESTS)
def test_deviances_of_leaves_that_are_orders_of_magnitude_apart(name, orders, declined):
    y = far_apart(orders)
    model = FORESTS[name]().fit(X, y)
    check(model, 1.3 * y, "gamma_deviance", model.predict, declined)


@pytest.mark.parametrize(("orders", "declined"), [(5, ""), (10, FAR_APART)])
@pytest.mark.parametrize("name", FORESTS)
def test_leaves_all_over_many_orders_of_magnitude(name, orders, declined):
    model, rng = FORESTS[name]().fit(X, far_apart(0)), np.random.default_rng(0)  # whichever test ran before
    for tree in getattr(model, "estimators_", [model]):
        tree.tree_.value[:, 0, 0] = 10.0 ** -rng.uniform(0, orders, tree.tree_.node_count)
    check(model, 1.3 * model.predict(X), "gamma_deviance", model.predict, declined)


@pytest.mark.parametrize("loss", ["poisson_deviance", "tweedie_deviance", "squared_error", "absolute_error"])
def test_other_losses_and_another_loss_of_the_same_cells(loss):
    y = far_apart(6)
    model = FORESTS["small trees"]().fit(X, y)
    found = check(model, 1.3 * y, loss, model.predict).with_loss("gamma_deviance")
    expected, scale = by_brute_force(model.predict, 1.3 * y, brute.LOSSES["gamma_deviance"])
    np.testing.assert_allclose([one.pfi for one in found.values()], expected, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("weights", [(1e-9, 1e6), (1e2, 1e-2), (1e-2, 1e2), (1.0, 50.0)])
@pytest.mark.parametrize("make", [DecisionTreeClassifier, RandomForestClassifier])
@pytest.mark.parametrize("loss", ["log_loss", "brier"])
def test_probabilities_of_classes_with_very_different_weights(make, weights, loss):
    """Next to 1, 1 - p has no digits: both probabilities are read."""
    y = (X[:, 0] + 0.7 * np.random.default_rng(1).normal(size=N) > 0).astype(int)
    more = {"n_estimators": 9} if make is RandomForestClassifier else {}
    model = make(class_weight=dict(enumerate(weights)), max_depth=3, random_state=0, **more).fit(X, y)
    declined = FAR_APART if make is DecisionTreeClassifier and max(weights) > 1e5 else ""
    check(model, y, loss, model.predict_proba, declined)


def test_several_classes_with_very_different_weights():
    y = np.digitize(X[:, 0] + 0.5 * RNG.normal(size=N), [-0.4, 0.4])
    model = RandomForestClassifier(9, max_depth=3, class_weight={0: 1e-9, 1: 1.0, 2: 1e6}, random_state=0).fit(X, y)
    check(model, y, "log_loss", model.predict_proba)


@pytest.mark.parametrize("k", [2, 3])
def test_scores_that_are_far_from_0_in_one_leaf(k):
    """An error of a score is a relative one of the probability, in all rows that don't reach this leaf."""
    y = np.digitize(X[:, 0] + 0.5 * RNG.normal(size=N), np.linspace(-0.4, 0.4, k - 1))
    model = GradientBoostingClassifier(n_estimators=12, max_depth=2, random_state=0, init=DummyClassifier()).fit(X, y)
    model.estimators_[3, 0].tree_.value[-1] = 1e14
    check(model, y, "log_loss", model.predict_proba, FAR_APART)


def test_groups_and_shapley_shares_of_leaves_far_apart():
    y = far_apart(6)
    model = FORESTS["small trees"]().fit(X, y)
    y, some = 1.3 * y[:60], X[:60]
    for loss in ("gamma_deviance", "squared_error"):
        columns = [{"first": ["x0", "x1"]}, {"last": ["x1", "x2"]}]
        found, asked = (ll.feature_importance(f, some, y, loss=loss, features=columns) for f in (model, model.predict))
        assert found.engine == "trees"
        np.testing.assert_allclose([one.pfi for one in found.values()], [one.pfi for one in asked.values()], rtol=1e-9)
        found, asked = (ll.shapley_importance(f, some, y, loss=loss) for f in (model, model.predict))
        assert (found.engine, found.exact) == ("trees", True)
        expected = asked.to_frame().sort_values("feature")["sfimp"]
        np.testing.assert_allclose(found.to_frame().sort_values("feature")["sfimp"], expected, rtol=1e-9)


@pytest.mark.parametrize("name", REGRESSORS)
def test_ordinary_models_keep_their_digits(name):
    data = (FRAME_TRAIN, FRAME_TARGET) if name == "categories" else (TRAIN, TARGET)
    for target in (data[1], data[1] - data[1].min() + 1):
        check_digits(read_trees(as_model(REGRESSORS[name].fit(data[0], target)), "values"))
    for weights in (None, "balanced"):
        forest = RandomForestClassifier(20, random_state=0, class_weight=weights, max_depth=5).fit(TRAIN, CLASSES > 0)
        assert read_model(as_model(forest), "probabilities").outputs == 1
