"""What an estimator tells of rows that it was trained on, and that nothing is said of others."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import losslens as ll
from losslens.tables.leakage import training_rows

RNG = np.random.default_rng(0)
X, NEW = (pd.DataFrame(RNG.normal(size=(80, 3)), columns=["a", "b", "c"]) for _ in range(2))
Y, NEW_Y = (table["a"] + 0.1 * RNG.normal(size=80) for table in (X, NEW))
HOLDING = [KNeighborsRegressor(), GaussianProcessRegressor(alpha=0.1), KernelRidge(),
           make_pipeline(StandardScaler(), KNeighborsRegressor())]  # fmt: skip


@pytest.mark.parametrize("model", HOLDING, ids=lambda model: type(model).__name__)
def test_a_model_that_holds_its_rows_tells(model):
    model.fit(X, Y)
    assert training_rows(model, X, Y).startswith("80 of 80 rows equal rows that the model was trained on")
    mixed = pd.concat([X[:20], NEW[:60]])
    assert training_rows(model, mixed, Y).startswith("20 of 80 rows equal")
    assert training_rows(model, NEW, NEW_Y) == ""


def test_a_forest_tells_by_its_out_of_bag_score():
    forest = RandomForestRegressor(50, oob_score=True, random_state=0).fit(X, Y)
    assert training_rows(forest, X, Y).startswith("y is, row by row, the target that the model was trained on")
    assert training_rows(forest, NEW, NEW_Y) == ""
    assert training_rows(forest, X[:40], Y[:40]) == ""
    assert training_rows(forest, X, Y + 1e-3 * RNG.normal(size=80)) == ""


def test_models_that_do_not_know_tell_nothing():
    """Support vectors are some of the training rows; without its score a forest holds none; functions neither."""
    for model in (SVR().fit(X, Y), RandomForestRegressor(5, random_state=0).fit(X, Y), lambda X: X["a"]):
        assert training_rows(model, X, Y) == ""


def test_equal_rows_of_few_values_are_no_training_rows():
    """Three columns of 0 and 1: every new row equals a training row by chance."""
    old, new = (RNG.integers(0, 2, (80, 3)).astype(float) for _ in range(2))
    assert training_rows(KNeighborsRegressor().fit(old, Y), new, NEW_Y) == ""


def test_what_cannot_be_compared_is_passed_over():
    model = KNeighborsRegressor().fit(X, Y)
    for table in (X.iloc[:, :2], X.assign(a="text"), None):
        assert training_rows(model, table, Y) == ""
    forest = RandomForestRegressor(50, oob_score=True, random_state=0).fit(X, Y)
    assert training_rows(forest, X, ["text"] * 80) == ""


def test_the_remark_stands_in_notes_files_and_the_report(tmp_path):
    model = KNeighborsRegressor().fit(X, Y)
    found = ll.feature_importance(model, X, Y, progress=False)
    said = training_rows(model, X, Y)
    assert f"({said})" in repr(found)
    found.save(tmp_path / "importances")
    assert ll.load(tmp_path / "importances").remarks == (said,)
    assert said not in repr(ll.feature_importance(model, NEW, NEW_Y, progress=False))
    ll.report(model, X, Y, progress=False).save(tmp_path / "report.html")
    assert said in (tmp_path / "report.html").read_text("utf-8")


def test_an_error_of_exactly_0_is_named_and_a_small_one_is_not():
    ask = {"loss": "squared_error", "progress": False}
    by_heart = KNeighborsRegressor(1).fit(X, Y)
    assert "the error is exactly 0 in every row" in repr(ll.feature_importance(by_heart, X, Y, **ask))
    assert "exactly 0" not in repr(ll.feature_importance(by_heart, NEW, NEW_Y, **ask))
    near = Y.to_numpy() + np.where(np.arange(80) == 3, 1e-9, 0.0)
    assert "exactly 0" not in repr(ll.feature_importance(by_heart, X, near, **ask))
    right = ll.feature_importance(lambda X: X["a"] > 0, X, X["a"] > 0, loss="zero_one", progress=False)
    assert right.error == 0
    assert "exactly 0" not in repr(right)  # labels are often right
