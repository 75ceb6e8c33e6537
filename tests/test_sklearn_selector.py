"""`losslens.sklearn.ImportanceSelector`: scikit-learn's own checks, and what it keeps."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import losslens as ll
from losslens.sklearn import ImportanceSelector

pytestmark = pytest.mark.filterwarnings("ignore:No features were selected")
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(300, 4)), columns=["a", "b", "c", "d"])
Y = X["b"].to_numpy() + RNG.normal(size=300)


@pytest.mark.filterwarnings("ignore")  # of the checks themselves
@parametrize_with_checks([ImportanceSelector(Ridge(), random_state=0), ImportanceSelector(LogisticRegression())])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_what_is_kept_is_what_the_test_on_held_out_rows_finds():
    """The same split, fit and test by hand."""
    selector = ImportanceSelector(LinearRegression(), validation=0.3, random_state=4).fit(X, Y)
    train, test = train_test_split(np.arange(300), test_size=0.3, random_state=4)
    model = LinearRegression().fit(X.iloc[train], Y[train])
    tested = ll.feature_importance(model, X.iloc[test], Y[test]).test("holm")
    by_name = dict(zip(tested["feature"], tested["p_adjusted"], strict=True))
    np.testing.assert_allclose(selector.p_values_, [by_name[name] for name in X])
    assert selector.get_feature_names_out().tolist() == [name for name in X if by_name[name] <= 0.05] == ["b"]


def test_a_useless_feature_is_kept_as_often_as_alpha_says():
    """Nothing predicts y: any of four features is kept in at most 5% of 200 runs (standard error 1.5%)."""
    kept = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        noise, y = rng.normal(size=(60, 4)), rng.normal(size=60)
        kept += bool(
            ImportanceSelector(LinearRegression(), random_state=seed, validation=0.5).fit(noise, y).get_support().any()
        )
    assert kept / 200 <= 0.095


def test_it_is_a_step_of_a_pipeline_that_keeps_names():
    pipeline = make_pipeline(
        StandardScaler(), ImportanceSelector(LinearRegression(), random_state=0), LinearRegression()
    )
    pipeline.set_output(transform="pandas").fit(X, Y)
    assert pipeline[-1].feature_names_in_.tolist() == ["b"]
    assert pipeline[:-1].get_feature_names_out().tolist() == ["b"]


def test_weights_go_where_they_are_requested():
    """Rows of weight 0 count neither in the fit nor in the test."""
    weight = np.r_[np.ones(200), np.zeros(100)]
    spoilt = np.r_[Y[:200], 100 * X["a"].to_numpy()[200:]]
    with config_context(enable_metadata_routing=True):
        learner = LinearRegression().set_fit_request(sample_weight=True)
        selector = ImportanceSelector(learner, random_state=0).fit(X, spoilt, sample_weight=weight)
    assert selector.get_feature_names_out().tolist() == ["b"]
    assert abs(selector.estimator_.coef_[0]) < 0.3


@pytest.mark.parametrize("scoring", ["roc_auc", "log_loss", None])
def test_classes_are_in_both_parts(scoring):
    y = (X["b"] > 0.8).map({True: "yes", False: "no"}).to_numpy()
    learner = RandomForestClassifier(20, random_state=0)
    selector = ImportanceSelector(learner, scoring=scoring, random_state=0, adjust=None).fit(X, y)
    assert selector.get_support()[1]
    assert set(selector.estimator_.classes_) == {"yes", "no"}


def test_polars_keeps_its_names_and_a_generator_is_a_seed():
    import polars as pl

    frame = pl.DataFrame({name: X[name].to_numpy() for name in X})
    selector = ImportanceSelector(LinearRegression(), random_state=np.random.default_rng(0)).fit(frame, Y)
    assert list(selector.importances_) == list("abcd")
    assert selector.get_feature_names_out().tolist() == ["b"]


def test_a_feature_that_no_prediction_uses_is_not_kept():
    data, y = load_diabetes(return_X_y=True, as_frame=True)
    constant = data.assign(nothing=0.0)
    selector = ImportanceSelector(Ridge(alpha=0.01), random_state=0).fit(constant, y)
    assert selector.p_values_[-1] == 1
    assert "bmi" in selector.get_feature_names_out()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"alpha": 2}, "alpha is a probability between 0 and 1; got 2"),
        ({"adjust": "bonferroni"}, "adjust is 'holm', 'benjamini_hochberg' or None; got 'bonferroni'"),
        ({"scoring": ["r2", "max_error"]}, "importances are of one score"),
        ({"validation": 1.5}, "test_size"),
    ],
)
def test_bad_arguments_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        ImportanceSelector(Ridge(), **wrong).fit(X, Y)
    with pytest.raises(NotFittedError):
        ImportanceSelector(Ridge()).get_support()
