"""Which features are enough: order, share and interval against brute force, and sentences that hold on new rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression

import losslens as ll
from losslens.passes.task import Options
from losslens.tables.checks import entropy
from losslens.verbs.blocks import same_task
from losslens.verbs.sufficient import _halves

SLOPES = np.array([3.0, 0.0, 1.5, 0.2])


def f(X):
    return np.asarray(X) @ SLOPES


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, f(X) + rng.normal(size=n)


def sufficient(n=400, seed=0, model=f, keep=0.98, **asked):
    X, y = rows(n, seed)
    imp = ll.feature_importance(model, X, y, loss="squared_error", progress=False)
    return imp.sufficient(model, X, y, keep, progress=False, random_state=seed, **asked)


def test_features_leave_in_the_order_of_what_they_are_worth():
    """Independent columns of a linear model: GE_S - GE_P = 2 sum of b_j^2 outside S."""
    found = sufficient(2000)
    assert found.features == ("x1", "x3", "x2", "x0")
    assert found.enough == ("x2", "x0")
    gain = np.sum(SLOPES**2)
    expected = 1 - 2 * np.cumsum(SLOPES[[1, 3, 2, 0]] ** 2) / gain
    np.testing.assert_allclose(found.kept.value, expected, atol=4 * found.kept.std_error.max())
    assert found.sentence.startswith("2 of 4 features (x0 and x2) keep 9")
    assert "of what this model gains over always predicting the mean of y" in found.sentence


def test_the_numbers_are_means_over_the_rows_that_did_not_choose():
    """Of 61 rows 31 judge: fewer than 32 donors a row, so that all pairs are met: brute force by predict."""
    X, y = rows(61)
    imp = ll.feature_importance(f, X, y, loss="squared_error")
    found = imp.sufficient(f, X, y, 0.5, random_state=1)
    assert found.rows == (30, 31)
    judged = np.setdiff1d(np.arange(61), np.random.default_rng((entropy(1), 39)).permutation(61)[:30])
    Z, t = X[judged], y[judged]
    gain = np.mean((t - t.mean()) ** 2) - np.mean((t - f(Z)) ** 2)
    gone: list[int] = []
    for name, value in zip(found.features, found.kept.value, strict=True):
        gone.append(int(name[1]))
        errors = [np.mean((t - f(np.where(np.isin(range(4), gone), Z[k], Z))) ** 2) for k in range(31)]
        share = 1 - (np.mean(errors) - np.mean((t - f(Z)) ** 2)) / gain
        assert value == pytest.approx(share, abs=1e-9)


def test_what_is_kept_holds_on_new_rows():
    """The interval of the chosen set covers the share on 20,000 new rows in about 95% of 120 runs."""
    X, y = rows(20_000, 999)
    constant, error = np.var(y), np.mean((y - f(X)) ** 2)
    covered = 0
    for seed in range(120):
        found = sufficient(120, seed, keep=0.9)
        gone = [int(name[1]) for name in found.gone]
        truth = 1 - 2 * np.sum(SLOPES[gone] ** 2 * np.var(X[:, gone], axis=0)) / (constant - error)
        low, high = found.kept.intervals()
        if gone:
            covered += low[found.count - 1] <= truth <= high[found.count - 1]
        else:
            covered += 1
    assert covered / 120 >= 0.9


def test_columns_that_say_the_same_leave_as_one_on_request():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    X["a2"] = X["a"] + 0.01 * rng.normal(size=300)
    model = lambda X: (X["a"] + X["a2"] + 0.3 * X["b"]).to_numpy()  # noqa: E731
    imp = ll.feature_importance(model, X, model(X), loss="squared_error")
    found = imp.sufficient(model, X, model(X), blocks=True, random_state=0)
    assert set(found.features) == {"a, a2", "b", "c"}
    assert found.features[-1] == "a, a2"


def test_weights_and_groups_are_those_of_the_result():
    """Rows of weight 0 are not there, and rows of a group stay in one half."""
    X, y = rows(200)
    spoilt, weight = np.r_[y, 100 * X[:50, 1]], np.r_[np.ones(200), np.zeros(50)]
    Z = np.r_[X, X[:50]]
    groups = np.repeat(np.arange(125), 2)
    imp = ll.feature_importance(f, Z, spoilt, loss="squared_error", sample_weight=weight, groups=groups)
    found = imp.sufficient(f, Z, spoilt, random_state=0)
    assert found.enough == ("x2", "x0")
    assert found.kept.unit == "groups"


def test_classes_and_their_probabilities():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(X[:300], y[:300])
    some = X.iloc[300:, :]
    imp = ll.feature_importance(model, some, y[300:], progress=False)
    found = imp.sufficient(model, some, y[300:], 0.9, random_state=0)
    assert 0 < len(found.enough) < 15
    assert found["mean radius"].value <= 1.1
    assert len(found) == 30


@pytest.mark.parametrize("grouped", [False, True])
def test_half_of_each_class_chooses(grouped):
    """Six rows of 200, or groups of two, have a rare class: three of them are in either half, whatever the seed."""
    rng = np.random.default_rng(0)
    times = 2 if grouped else 1
    X = rng.normal(size=(200, 2))
    y = np.array(["often", "also"])[(X[:, 0] > 0).astype(int)].astype(object)
    y[: 6 * times : times] = "rarely"  # in a group its first row
    groups = np.arange(200) // 2 if grouped else None

    def model(X):
        odds = np.exp(np.column_stack([X[:, 0], -X[:, 0], np.full(len(X), -2.0)]))
        return odds / odds.sum(axis=1, keepdims=True)

    imp = ll.feature_importance(model, X, y, loss="log_loss", groups=groups, progress=False)
    for seed in range(5):
        found = imp.sufficient(model, X, y, 0.5, random_state=seed)
        task = same_task(imp, model, X, y, {"x0": {"x0": None}, "x1": {"x1": None}}, Options(random_state=seed))
        chose, judged = _halves(task)
        assert found.rows == (len(chose), len(judged))
        assert np.sum(y[chose] == "rarely") == np.sum(y[judged] == "rarely") == 3
        assert abs(np.sum(y[chose] == "often") - np.sum(y[judged] == "often")) <= (30 if grouped else 1)


def test_a_result_is_printed_saved_and_read():
    found = sufficient()
    text = repr(found)
    assert text.startswith("Sufficient: 2 of 4 features (x0 and x2) keep")
    assert "a model that is fitted to these features alone may do better" in text
    frame = found.to_frame()
    assert list(frame["feature"]) == list(found.features)
    assert list(frame["left"]) == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keep": 1}, "keep is a share between 0 and 1, such as .98; got 1"),
        ({"n": 30}, "half judge: each needs 20, and there are 30"),
        (
            {"model": lambda X: -f(X)},
            r"does no better than a constant prediction \(the mean of y\), so there is no gain to keep",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        sufficient(**change)


def test_scores_and_some_of_the_columns_are_refused():
    X, y = rows(100)
    linear = LinearRegression().fit(X, y)
    with pytest.raises(ValueError, match="'x3' could never be left out: explain all"):
        ll.feature_importance(linear, X, y, features=["x0", "x1", "x2"]).sufficient(linear, X, y)
    with pytest.raises(ValueError, match="the best constant prediction is not known"):
        ll.feature_importance(linear, X, y, loss=lambda y, p: (y - p) ** 2).sufficient(linear, X, y)
    with pytest.raises(ValueError, match="has no loss of single rows"):
        ll.feature_importance(linear, X, y, loss="r2").sufficient(linear, X, y)
    with pytest.raises(ValueError, match="has one feature"):
        ll.feature_importance(linear, X, y, features={"all": list(range(4))}).sufficient(linear, X, y)
    with pytest.raises(ValueError, match="the model's predictions differ"):
        ll.feature_importance(linear, X, y).sufficient(f, X, y)
