"""Steps that mix columns, and the linear model after them: cells are what the pipeline itself says, pair by pair."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

import losslens as ll

RNG = np.random.default_rng(0)
N = 40
X = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.integers(0, 3, N) * 1.0, "c": RNG.normal(3, 1, N)})
X["d"] = RNG.normal(size=N) ** 3  # many values near 0, a few far away
WORDS = X.assign(w=RNG.choice(["u", "v", "w"], N))
Y = (X.a * X.b + np.sin(X.c) * X.a).to_numpy() + RNG.normal(size=N) / 3
COUNTS, HIGH = np.round(np.exp(Y / 3)), np.where(Y > 0, "yes", "no")


def polynomial(*between, model=None, **options):
    return make_pipeline(StandardScaler(), PolynomialFeatures(**options), *between, Ridge() if model is None else model)


def nystroem(*between, model=None, **options):
    options = {"n_components": 12, "random_state": 0, "gamma": 0.2} | options
    return make_pipeline(StandardScaler(), Nystroem(**options), *between, Ridge(0.1) if model is None else model)


CODED = make_column_transformer((OneHotEncoder(), ["w"]), remainder=StandardScaler())
SPLINES = SplineTransformer(n_knots=3, include_bias=False)
MODELS = {
    "degree 2": polynomial(),
    "degree 3 of raw columns": make_pipeline(PolynomialFeatures(3), Ridge()),
    "interactions": polynomial(interaction_only=True),
    "all four together": polynomial(degree=4, interaction_only=True),
    "no constant": polynomial(include_bias=False),
    "constant": polynomial(model=LinearRegression(fit_intercept=False)),
    "degrees 2 to 3": polynomial(degree=(2, 3)),
    "degree 3 alone": polynomial(degree=(3, 3), include_bias=False),
    "sparse": polynomial(degree=3, model=Lasso(0.05)),
    "nothing": polynomial(model=Lasso(100.0)),
    "scaled": polynomial(StandardScaler(), include_bias=False),
    "centred": polynomial(StandardScaler(with_std=False), MaxAbsScaler()),
    "divided": polynomial(StandardScaler(with_mean=False), RobustScaler(), MinMaxScaler((-1, 2)), degree=3),
    "shifted": polynomial(RobustScaler(with_centering=False), RobustScaler(with_scaling=False)),
    "selected": polynomial(VarianceThreshold(), StandardScaler(), SelectKBest(f_regression, k=5)),
    "searched": GridSearchCV(polynomial(), {"polynomialfeatures__degree": [2, 3]}, cv=2),
    "searched inside": make_pipeline(StandardScaler(), GridSearchCV(make_pipeline(PolynomialFeatures(), Ridge()), {})),
    "splines": make_pipeline(SPLINES, PolynomialFeatures(interaction_only=True), Ridge()),
    "nystroem": nystroem(),
    "nystroem of raw columns": make_pipeline(Nystroem(n_components=10, random_state=0), Ridge(0.1)),
    "nystroem scaled": nystroem(StandardScaler(), model=Ridge(1.0), gamma=0.05),
}


def paired(table, columns):
    """Row i with these columns of row k, as row n i + k."""
    i, k = np.divmod(np.arange(len(table) ** 2), len(table))
    rows = table.iloc[i].reset_index(drop=True)
    return rows.assign(**{name: table[name].iloc[k].array for name in columns})


def agrees(model, table, y, groups=None):
    """The importance of each column, and of a group, is the mean over all pairs of what the model itself says."""
    found = ll.feature_importance(model, table, y, features=groups, loss="squared_error")
    base = (y - model.predict(table)) ** 2
    for name, one in found.items():
        columns = [name] if groups is None else groups[name]
        cells = (y[:, None] - model.predict(paired(table, columns)).reshape(len(y), len(y))) ** 2 - base[:, None]
        assert (one.engine, one.exact, one.declined) == ("products", True, "")
        atol = 1e-9 * (2 * base.mean() + np.abs(cells).mean())
        np.testing.assert_allclose(one.local, cells.mean(axis=1), rtol=1e-12, atol=atol)
        np.testing.assert_allclose(one.pfi, cells.mean(), rtol=1e-12, atol=atol)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_what_pairs_say(name):
    agrees(MODELS[name].fit(X, Y), X, Y)


def test_groups_and_columns_that_become_several():
    model = make_pipeline(CODED, PolynomialFeatures(), Ridge()).fit(WORDS, Y)
    agrees(model, WORDS, Y)
    agrees(model, WORDS, Y, {"words": ["w", "a"], "numbers": ["a", "b", "c", "d"]})


def test_a_column_that_no_term_has_changes_nothing():
    """Bit for bit."""
    X = np.random.default_rng(0).normal(size=(60, 4))
    X[:, 3] = 1.0
    y = X[:, 0] * X[:, 1]
    model = polynomial(model=Ridge()).fit(X, y)
    X = np.random.default_rng(1).normal(size=(30, 4))
    model[-1].coef_[model[1].powers_[:, 3] > 0] = 0.0  # so that no term is made of it
    found = ll.feature_importance(model, X, y[:30])["x3"]
    assert (found.engine, found.pfi) == ("products", 0.0)
    np.testing.assert_array_equal(found.ici, 0.0)


DECLINED = {
    "mixes columns, and the values of RandomForestRegressor": (polynomial(model=RandomForestRegressor(2)), Y, None),
    "PolynomialFeatures multiplies": (polynomial(Normalizer()), Y, None),
    "PolynomialFeatures multiplies columns": (polynomial(MinMaxScaler(clip=True)), Y, None),
    "Nystroem has the kernel 'laplacian'": (nystroem(kernel="laplacian"), Y, None),
    "the probabilities of LogisticRegression": (polynomial(model=LogisticRegression()), HIGH, "log_loss"),
    "the labels of LogisticRegression": (polynomial(model=LogisticRegression()), HIGH, "zero_one"),
    "the values of PoissonRegressor": (polynomial(model=PoissonRegressor()), COUNTS, None),
    "the squared error has a closed form": (polynomial(), Y, "absolute_error"),
    "of a linear model after a step that mixes columns": (nystroem(), Y, "huber"),
    "what its wrapper makes of predictions": (
        TransformedTargetRegressor(polynomial(), func=np.sinh, inverse_func=np.arcsinh),
        Y,
        None,
    ),
}


@pytest.mark.parametrize("why", DECLINED)
def test_what_is_declined(why):
    model, target, loss = DECLINED[why]
    found = ll.feature_importance(model.fit(X, target), X, target, features="a", loss=loss)["a"]
    assert (found.engine, why in found.declined) == ("blackbox", True)


def test_single_precision_is_the_models_own():
    """Products of float32 numbers are rounded to float32."""
    rows = X.to_numpy(np.float32)
    found = ll.feature_importance(make_pipeline(PolynomialFeatures(), Ridge()).fit(rows, Y), rows, Y)["x0"]
    assert (found.engine, "single precision" in found.declined) == ("blackbox", True)
