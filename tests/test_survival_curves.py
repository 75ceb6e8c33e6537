"""Survival curves of models at given times are those of the model's own step functions."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from losslens.models import has_survival_curves
from losslens.survival_curves import SurvivalCurves
from survival_models import Weibull, censored_rows

TIMES = np.array([0.0, 0.1, 0.5, 3.0, 3.2, 11.0])


def own(model, X, times):
    return np.array([curve(times) for curve in model.predict_survival_function(X)])


class OldWeibull(Weibull):
    """With the name that its times had until scikit-survival 0.22."""

    def __init__(self, b):
        super().__init__(b)
        self.event_times_ = self.unique_times_
        self.unique_times_ = None

    def predict_survival_function(self, X, return_array=False):
        return Weibull(self.b).predict_survival_function(X, return_array)


class Search:
    """As a grid search of scikit-learn: the model that it found."""

    def __init__(self, model):
        self.best_estimator_ = model


class Curves:
    """A model that gives step functions only."""

    def __init__(self, model):
        self.model = model

    def predict_survival_function(self, X):
        return self.model.predict_survival_function(X)


@pytest.mark.parametrize("wrapped", [lambda model: model, lambda model: OldWeibull(model.b), Search, Curves])
def test_values_of_the_step_functions(wrapped):
    X, _ = censored_rows(20)
    model = Weibull([1.0, 0.5, 0.0])
    assert has_survival_curves(wrapped(model))
    assert np.array_equal(SurvivalCurves(wrapped(model), TIMES)(X), own(model, X, TIMES))


@pytest.mark.parametrize("table", [np.asarray, pd.DataFrame, lambda X: pl.DataFrame(X, schema=["a", "b", "c"])])
def test_curves_of_many_times_are_computed_some_rows_at_a_time(table, monkeypatch):
    X, asked = censored_rows(20)[0], []

    class Counting(Weibull):
        def predict_survival_function(self, X, return_array=False):
            asked.append((type(X), len(X)))
            return super().predict_survival_function(X, return_array)

    monkeypatch.setattr("losslens.survival_curves.CELLS", 7 * 60)
    model = Counting([1.0, 0.5, 0.0])
    assert np.array_equal(SurvivalCurves(model, TIMES)(table(X)), own(Weibull(model.b), X, TIMES))
    assert asked == [(type(table(X)), rows) for rows in (7, 7, 6)]


def test_times_after_the_last_of_the_model():
    X, _ = censored_rows(5)
    with pytest.raises(
        ValueError, match=r"Weibull knows survival up to time 30, .* goes on to 31; give a shorter grid"
    ):
        SurvivalCurves(Weibull([1.0, 0, 0]), np.array([3.0, 31.0]))(X)


def test_models_of_scikit_survival():
    ensemble = pytest.importorskip("sksurv.ensemble")
    linear = pytest.importorskip("sksurv.linear_model")
    X, y = censored_rows(80)
    models = [
        linear.CoxPHSurvivalAnalysis(),
        linear.CoxnetSurvivalAnalysis(fit_baseline_model=True),
        make_pipeline(StandardScaler(), linear.CoxPHSurvivalAnalysis()),
        ensemble.RandomSurvivalForest(5, random_state=0),
        ensemble.GradientBoostingSurvivalAnalysis(n_estimators=5),
        ensemble.ComponentwiseGradientBoostingSurvivalAnalysis(n_estimators=5),
    ]
    for model in models:
        found = SurvivalCurves(model.fit(X, y), TIMES)(X)
        np.testing.assert_allclose(found, own(model, X, TIMES), rtol=1e-14)
