"""`losslens.skore`: checks of skore's protocol, and a display."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import losslens as ll

skore = pytest.importorskip("skore")
pytestmark = [
    pytest.mark.thread_unsafe(reason="figures and a project of the process"),
    pytest.mark.filterwarnings("ignore"),  # of skore's own checks
]


def rows(n=600, seed=0):
    """x1 nearly equals x0: rows with either shuffled hardly exist. Where s = 1 the noise is large."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=["x0", "x1", "noise", "s"])
    X["x1"] = X["x0"] + 0.02 * X["x1"]
    X["s"] = (X["s"] > 1).astype(float)
    y = X["x0"] + X["x1"] + rng.normal(size=n) * np.where(X["s"] == 1, 5, 0.3)
    return X, y


class Both(LinearRegression):
    """A model that uses both of two columns that move together."""

    def fit(self, X, y):
        super().fit(X, y)
        self.coef_ = np.array([1.0, 1.0, 0.0, 0.0])
        return self


@pytest.fixture(scope="module")
def report():
    return skore.evaluate(Both(), *rows(), splitter=0.5)


def found(report):
    from losslens.skore import checks

    report.checks.add(checks())
    frame = report.checks.summarize().frame()
    return {
        row.code: row.explanation
        for row in frame.itertuples()
        if row.code.startswith("LL") and row.explanation == row.explanation
    }


def test_each_check_says_what_it_sees(report):
    said = found(report)
    assert "noise" in said["LL001"]
    assert "x0" not in said["LL001"]
    assert "s = 1" in said["LL002"] or "s > 0" in said["LL002"]
    assert "x0 (" in said["LL004"]


def test_a_good_model_of_independent_columns_has_no_remark():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.uniform(size=(800, 2)), columns=["a", "b"])
    clean = skore.evaluate(LinearRegression(), X, X["a"] + X["b"] + 0.1 * rng.normal(size=800), splitter=0.5)
    assert found(clean) == {}


def test_a_cross_validation_says_in_how_many_splits():
    said = found(skore.evaluate(Both(), *rows(), splitter=3))
    assert said["LL001"].startswith("In 3 of 3 splits, such as: On these 200 rows")


def test_the_display_has_error_bars(report):
    from losslens.skore import importance

    display = importance(report, loss="absolute_error")
    assert isinstance(display, skore.Display)
    own = ll.feature_importance(report.estimator_, report.X_test, report.y_test, loss="absolute_error")
    pd.testing.assert_frame_equal(display.frame(), own.to_frame())
    display.set_style(top=2)
    assert len(display.plot().axes[0].get_yticklabels()) == 2
    assert "absolute error" in repr(display)
    assert "<table" in display._repr_html_()


def test_a_cross_validation_is_explained_as_refits():
    from losslens.skore import importance

    X, y = rows(90)
    report = skore.evaluate(LinearRegression(), X, y, splitter=3)
    refits = importance(report).importances
    same = ll.feature_importance_cv(LinearRegression(), X, y, cv=list(report.split_indices))
    np.testing.assert_allclose(refits.importance, same.importance)
    np.testing.assert_allclose(refits.interval(), same.interval())


def test_a_model_that_is_not_explained_is_not_applicable():
    from losslens.skore import checks

    class Report:
        estimator_, X_test, y_test = LinearRegression(), rows(50)[0], rows(50)[1]

    with pytest.raises(skore.CheckNotApplicable, match="fit"):
        checks()[0].check_function(Report())
    Report.X_test = None
    with pytest.raises(skore.CheckNotApplicable, match="the report has none"):
        checks()[2].check_function(Report())


def test_two_rows_are_not_enough_and_stop_no_other_check():
    X, y = rows(40)
    few = skore.EstimatorReport(LinearRegression(), X_train=X[:38], y_train=y[:38], X_test=X[38:], y_test=y[38:])
    found(few)
    section = few.checks.summarize().frame(section="not_applicable")
    assert "LL001" in set(section["code"])
