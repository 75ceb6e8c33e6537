"""Observations: what the model's knowledge is worth to each row, and that rows with wrong targets are found."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer

import losslens as ll
from losslens.results.observations import Observations

SLOPES = np.array([3.0, 2.0, 0.0])


def regression(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ SLOPES + rng.normal(size=n)


def classification(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ SLOPES)), "yes", "no")


def predict(X):
    return X @ SLOPES


def look(X, y, model=predict, loss="squared_error", **options):
    return ll.shapley_importance(model, X, y, loss=loss, random_state=0, **options).rank_rows()


def made(importance, weight=None):
    """Observations with these importances."""
    importance = np.asarray(importance, float)
    weight = np.ones(len(importance)) if weight is None else np.asarray(weight, float)
    return Observations(
        importance=importance, loss=np.abs(importance), weight=weight / weight.sum(), target=None, prediction=None,
        influence=None, influence_on=None, title="squared error", backend="pandas",
    )  # fmt: skip


# The number.


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
@pytest.mark.parametrize("weight", [None, np.arange(1.0, 31.0)], ids=["plain", "weighted"])
def test_importance_is_everybodys_prediction_less_the_own(loss, weight):
    """O_i = mean_k L(f(x_k), y_i) - L(f(x_i), y_i), over all donors k with their weights; the sum of local SFIMP."""
    X, y = regression(30)
    shapley = ll.shapley_importance(predict, X, y, loss=loss, sample_weight=weight, random_state=0)
    found = shapley.rank_rows()
    apart = predict(X)[None, :] - y[:, None]
    losses = apart**2 if loss == "squared_error" else np.abs(apart)
    expected = np.average(losses, axis=1, weights=weight) - losses.diagonal()
    np.testing.assert_allclose(found.importance, expected)
    np.testing.assert_allclose(found.importance, shapley.local.sum(axis=1))
    np.testing.assert_allclose(found.loss, losses.diagonal())
    assert found.weight @ found.importance == pytest.approx(shapley.error_none - shapley.error_all)


def test_importance_of_a_classifiers_rows():
    X, y = classification(40)
    fitted = LogisticRegression().fit(X, y)
    found = look(X, y, fitted, "log_loss")
    own = fitted.predict_proba(X)[:, (y == "yes").astype(int)]  # (k, i): of row i's class, predicted for row k
    expected = -np.log(own).mean(axis=0) + np.log(own.diagonal())
    np.testing.assert_allclose(found.importance, expected)
    assert found.target.tolist() == y.tolist()
    assert found.prediction.tolist() == fitted.predict(X).tolist()


def test_some_rows_alone():
    X, y = regression(60)
    shapley = ll.shapley_importance(predict, X, y, loss="squared_error")
    chosen = [3, 5, 8, 13]
    found = shapley.given(chosen).rank_rows()
    np.testing.assert_allclose(found.importance, shapley.rank_rows().importance[chosen])
    assert found.target.tolist() == y[chosen].tolist()


# Suspicious rows.


def test_wrong_targets_of_a_regression_come_first():
    """Rows predicted more than a deviation from the mean get a target on its other side, three times as far."""
    X, y = regression(600)
    far = np.flatnonzero(np.abs(predict(X)) > predict(X).std())
    wrong = np.random.default_rng(1).choice(far, 12, replace=False)
    y[wrong] = -3 * predict(X)[wrong]
    fitted = LinearRegression().fit(X, y)
    found = look(X, y, fitted)
    assert set(found.suspicious[:12]) == set(wrong)
    assert np.all(np.diff(found.importance[found.suspicious]) >= 0)
    assert found.to_frame()["row"].tolist()[:12] == found.suspicious[:12].tolist()


def test_wrong_labels_come_first():
    X, y = classification(800)
    X *= 3
    y = np.where(X @ SLOPES > 0, "yes", "no")  # without noise, so that wrong labels alone are wrong
    sure = np.flatnonzero(np.abs(X @ SLOPES) > 8)
    wrong = np.random.default_rng(1).choice(sure, 15, replace=False)
    y[wrong] = np.where(y[wrong] == "yes", "no", "yes")
    fitted = LogisticRegression().fit(X, y)
    for loss in ("log_loss", "brier"):
        found = look(X, y, fitted, loss)
        assert set(found.suspicious[:15]) == set(wrong)
        assert len(found.suspicious) < 40


@pytest.mark.parametrize(("data", "model", "loss"), [
    (regression, LinearRegression, "squared_error"), (regression, LinearRegression, "absolute_error"),
    (classification, LogisticRegression, "log_loss"),
])  # fmt: skip
def test_few_rows_of_clean_data_are_suspicious(data, model, loss):
    """Measured with four test sets of 1,000 rows: 0.4% to 1.8% (squared and absolute error), 0% to 2.2% (log loss).

    Under the Brier score, which is bounded, up to 7%: there a sure mistake is as bad as a wrong label.
    """
    X, y = data(1000, seed=3)
    found = look(X, y, model().fit(*data(1000, seed=4)), loss, budget=30_000, method="walk")
    assert len(found.suspicious) <= 25


def test_the_fence_lies_seven_quartile_distances_under_the_median():
    """Of 0..8 the median is 4 and the lower quartile 2: the fence is 4 - 7 * 2 = -10; it is never above 0."""
    values = np.arange(9.0)
    assert made(values).fence == -10
    assert made(100 + values).fence == 0
    assert len(made(100 + values).suspicious) == 0
    assert made([*values, *values, -9.9, -80, -70]).suspicious.tolist() == [19, 20]


def test_a_weight_is_so_many_equal_rows():
    values, weight = np.array([5.0, 1.0, 3.0, 9.0, -60.0, 4.0]), np.array([2, 1, 4, 3, 1, 2])
    assert made(values, weight).fence == pytest.approx(made(np.repeat(values, weight)).fence)
    assert made(values, weight).suspicious.tolist() == [4]
    assert made(values, np.where(values < 0, 0, weight)).suspicious.tolist() == []  # it doesn't count at all


def test_where_the_quartile_is_the_median_the_mean_square_tells():
    """1% of the rows at -0.5, the others at 0.5: root mean square under the median 0.1, fence 0.5 - 4.72 * 0.1 = 0.03,
    but never above 0: they are suspicious. With 20% of them it is 0.45, the fence at -1.6, and nobody is."""
    assert len(made([0.5] * 99 + [-0.5]).suspicious) == 1
    assert made([0.5] * 80 + [-0.5] * 20).fence == pytest.approx(0.5 - 7 * 0.6745 * np.sqrt(0.2))
    assert len(made([0.5] * 80 + [-0.5] * 20).suspicious) == 0
    assert len(made([0.0] * 50).suspicious) == 0


# Influence.


def test_the_largest_influence_over_the_features():
    X, y = regression(60)
    shapley = ll.shapley_importance(predict, X, y, loss="squared_error")
    imp = ll.feature_importance(predict, X, y, loss="squared_error", donors="all")
    found = shapley.rank_rows(imp)
    totals = np.stack([one.row_influence.total for one in imp.values()], axis=1)
    place = np.abs(totals).argmax(axis=1)
    np.testing.assert_array_equal(found.influence, totals[np.arange(60), place])
    assert found.influence_on.tolist() == [f"x{j}" for j in place]
    assert {"influence", "influence_on"} <= set(found.to_frame().columns)


def test_features_without_influence_are_passed_over():
    X, y = regression(30)
    shapley = ll.shapley_importance(predict, X, y, loss="squared_error")
    both = ll.feature_importance(predict, X, y, loss="squared_error", features=["x0", ("x0", "x1")])
    assert set(shapley.rank_rows(both).influence_on) == {"x0"}
    pair = ll.feature_importance(predict, X, y, loss="squared_error", features=[("x0", "x1")])
    with pytest.raises(ValueError, match="the influence of single rows is not available"):
        shapley.rank_rows(pair)


# What is refused.


def test_bad_input_is_refused_with_a_reason():
    X, y = regression(40)
    imp = ll.feature_importance(predict, X, y, loss="squared_error")
    shapley = ll.shapley_importance(predict, X, y, loss="squared_error")
    with pytest.raises(TypeError, match="a result of feature_importance"):
        shapley.rank_rows(imp["x0"])
    with pytest.raises(ValueError, match="of 20 rows, the Shapley shares of 40"):
        shapley.rank_rows(imp.subset(np.arange(20)))
    fitted = LinearRegression().fit(X, y)
    scored = ll.shapley_importance(fitted, X, y, loss=get_scorer("r2"), random_state=0, budget=5_000)
    with pytest.raises(ValueError, match="which single rows do not have"):
        scored.rank_rows()


# As a table, in a file, as text.


def test_frame_file_and_text(tmp_path):
    X, y = classification(50)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    fitted = LogisticRegression().fit(table, y)
    imp = ll.feature_importance(fitted, table, y)
    found = ll.shapley_importance(fitted, table, y).rank_rows(imp)
    frame = found.to_frame()
    assert list(frame.columns) == [
        "row", "importance", "loss", "target", "prediction", "suspicious", "influence", "influence_on",
    ]  # fmt: skip
    assert frame["importance"].is_monotonic_increasing
    found.save(tmp_path / "rows")
    again = ll.load(tmp_path / "rows")
    pd.testing.assert_frame_equal(again.to_frame(), frame)
    assert repr(again) == repr(found)
    assert "50 rows" in repr(found)
