"""CatBoost: what is read says what the model says, at every value a table could hold."""

import json

import numpy as np
import pandas as pd
import pytest

import losslens as ll
from losslens.engines.base import Declined
from losslens.engines.choice import read_trees
from losslens.models import as_model
from tree_walks import agree, classes, pick, probes, table

catboost = pytest.importorskip("catboost")


def fit(make, X, y, **options):
    quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}
    return make(**{"iterations": 8, "depth": 4, **quiet, **options}).fit(X, y)


def regressor(X, y, **options):
    return fit(catboost.CatBoostRegressor, X, y, **options)


def classifier(X, y, **options):
    return fit(catboost.CatBoostClassifier, X, y, **options)


@pytest.mark.parametrize("missing", [False, True])
def test_numbers(missing):
    X, y = table(0, missing)
    for seed, mode in enumerate(("Min", "Max")):
        options = pick(seed, depth=[2, 6], learning_rate=[None, 0.5], boost_from_average=[True, False])
        model = regressor(X, 100 * y, nan_mode=mode, **options)
        agree(model, probes(model, X, missing=True))


@pytest.mark.parametrize(
    "loss",
    [
        *("RMSE", "MAE", "MAPE", "Quantile:alpha=0.3", "LogLinQuantile", "Expectile:alpha=0.3", "Huber:delta=1"),
        *("Lq:q=3", "LogCosh", "Poisson", "Tweedie:variance_power=1.5"),
    ],
)
def test_objectives_of_numbers(loss):
    X, y = table(0)
    for model in (regressor(X, np.abs(y) + 0.1, loss_function=loss), base(X, np.abs(y) + 0.1, loss)):
        agree(model, X)


def base(X, y, loss):
    options = {"iterations": 5, "verbose": 0, "allow_writing_files": False, "loss_function": loss}
    return catboost.CatBoost(options).fit(X, y)


@pytest.mark.parametrize("loss", ["Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll"])
def test_classes(loss):
    X, y = table(0, missing=True)
    k = 3 if loss.startswith("Multi") else 2
    labels = (y > 1).astype(int) if loss == "CrossEntropy" else classes(y, k)
    model = classifier(X, labels, loss_function=loss)
    agree(model, probes(model, X, missing=True))
    agree(base(X, labels, loss), X)


def test_ranking_and_scaled_sums():
    X, y = table(0)
    ranker = fit(catboost.CatBoostRanker, catboost.Pool(X, np.digitize(y, [0, 1]), group_id=np.arange(300) // 30), None)
    agree(ranker, X)
    model = regressor(X, y)
    model.set_scale_and_bias(2.5, -7.0)
    agree(model, X)


def test_labels_of_scores_next_to_0():
    """CatBoost compares the score, not the probability: the second class from the least number above 0 on."""
    X, y = table(0)
    model = classifier(X, y > 0, iterations=1, depth=1)
    for score in (0.0, 1e-300, 1e-18, -1e-18):
        model._object._set_leaf_values(np.full(2, score))
        model.set_scale_and_bias(1.0, 0.0)
        agree(model, X[:3])


def words(n=300):
    rng = np.random.default_rng(3)
    X, y = table(0, missing=True)
    name = rng.choice(["plum", "fig", "pear"], n)
    return pd.DataFrame({"n": X[:, 0], "name": name.tolist(), "m": X[:, 1]}), np.nan_to_num(y + 2 * (name == "fig"))


def test_importances_are_those_of_all_pairs():
    X, y = words()
    X = X[["n", "m"]]
    model = regressor(X, y)
    X, y = X[:40], y[:40]
    i, k = np.divmod(np.arange(1600), 40)
    for name, one in ll.feature_importance(model, X, y, loss="squared_error", progress=False).items():
        rows = X.iloc[i].reset_index(drop=True).assign(**{name: X[name].to_numpy()[k]})
        losses = (model.predict(rows) - y[i]) ** 2
        assert (one.engine, one.exact) == ("trees", True)
        expected = losses.reshape(40, 40).mean(axis=1) - (model.predict(X) - y) ** 2
        np.testing.assert_allclose(one.local, expected, rtol=1e-9, atol=1e-9 * losses.mean())


def test_declined():
    X, y = words()
    of_words = regressor(X, y, cat_features=["name"], one_hot_max_size=10)
    one = ll.feature_importance(of_words, X[:10], y[:10], loss="squared_error", features="n", donors="all")["n"]
    assert one.engine == "blackbox"
    assert "its trees compare categorical features" in one.declined
    numbers, target = table(0)
    threshold = classifier(numbers, target > 0)
    threshold.set_probability_threshold(0.3)
    agree(threshold, numbers, ["probabilities", "scores"])
    declined = {
        "several outputs": regressor(numbers, target, loss_function="RMSEWithUncertainty"),
        "the objective Cox": regressor(numbers, np.abs(target) + 1, loss_function="Cox"),
        "several outputs|MultiRMSE": regressor(numbers, np.column_stack([target, target]), loss_function="MultiRMSE"),
        "no trained model": catboost.CatBoostRegressor(),
        "not symmetric": regressor(numbers, target, grow_policy="Depthwise"),
    }
    for reason, model in declined.items():
        with pytest.raises(Declined, match=reason):
            read_trees(as_model(model), "values")
    with pytest.raises(Declined, match="threshold of their own"):
        read_trees(as_model(threshold), "labels")
    changed = regressor(numbers, target)
    changed.predict = lambda X: X[:, 0]
    with pytest.raises(Declined, match="was replaced"):
        read_trees(as_model(changed), "values")


def test_leaves_are_saved_to_the_last_bit(tmp_path):
    X, y = table(0)
    model = regressor(X, y, iterations=20)
    model.save_model(str(tmp_path / "m.json"), format="json")
    saved = json.loads((tmp_path / "m.json").read_text())
    leaves = np.concatenate([tree["leaf_values"] for tree in saved["oblivious_trees"]])
    assert np.array_equal(leaves, model.get_leaf_values())


@pytest.mark.parametrize("loss", ["RMSE", "Poisson", "Logloss", "MultiClass"])
def test_sums_of_models(loss):
    """They keep the loss that all models share, but no other parameter."""
    X, y = table(0, missing=True)
    if loss in ("RMSE", "Poisson"):
        models = [regressor(X, np.abs(y), loss_function=loss, random_seed=seed) for seed in (0, 1)]
    else:
        models = [classifier(X, classes(y, 3 if loss == "MultiClass" else 2), random_seed=seed) for seed in (0, 1)]
    summed = catboost.sum_models(models, weights=[0.3, 0.7])
    agree(summed, probes(summed, X, missing=True))
    if loss == "Poisson":
        found = ll.feature_importance(summed, X, np.abs(y), loss="poisson_deviance", donors="all")
        asked = ll.feature_importance(
            lambda X: np.exp(summed.predict(X)), X, np.abs(y), loss="poisson_deviance", donors="all"
        )
        assert found.engine == "trees"
        np.testing.assert_allclose([one.pfi for one in found.values()], [one.pfi for one in asked.values()], rtol=1e-9)


def test_a_sum_of_models_of_several_losses_is_asked():
    X, y = table(0)
    summed = catboost.sum_models([regressor(X, np.abs(y), loss_function=loss) for loss in ("RMSE", "Poisson")])
    found = ll.feature_importance(summed, X, y, loss="squared_error", donors="all")
    asked = ll.feature_importance(summed.predict, X, y, loss="squared_error", donors="all")
    assert (found.engine, found["x0"].declined) == ("blackbox", "it is a sum of models with several objectives")
    assert found["x0"].pfi == pytest.approx(asked["x0"].pfi, rel=1e-12)
    with pytest.raises(ValueError, match="fit"):
        as_model(catboost.CatBoost())
