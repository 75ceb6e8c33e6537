"""Linear models are read as coefficients; what isn't linear is declined."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  (its import is what enables it)
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    GammaRegressor,
    HuberRegressor,
    Lars,
    Lasso,
    LassoCV,
    LassoLars,
    LassoLarsIC,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    MultiTaskLasso,
    MultiTaskLassoCV,
    OrthogonalMatchingPursuit,
    PassiveAggressiveRegressor,
    Perceptron,
    PoissonRegressor,
    QuantileRegressor,
    RANSACRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    TheilSenRegressor,
    TweedieRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR

from losslens.engines.base import Declined
from losslens.engines.readers.linear import read_linear

N = 150
RNG = np.random.default_rng(0)


# Few values and many, positive throughout for logarithms, one skewed.
X = np.column_stack(
    [RNG.integers(1, 5, N), RNG.exponential(size=N), RNG.uniform(1, 2, N), RNG.choice([0.5, 1.5, 9.0], N)]
).astype(float)


Y = X @ [1.0, 2.0, -3.0, 0.5] + RNG.normal(size=N)
BINARY = (np.median(Y) < Y).astype(int)
THREE = np.digitize(Y, np.quantile(Y, [0.3, 0.7]))


REGRESSORS = [
    LinearRegression(),
    LinearRegression(fit_intercept=False, positive=True),
    Ridge(),
    RidgeCV(),
    Lasso(alpha=0.01),
    LassoCV(cv=2),
    LassoLars(alpha=0.01),
    LassoLarsIC(),
    Lars(),
    ElasticNet(alpha=0.01),
    ElasticNetCV(cv=2),
    SGDRegressor(random_state=0),
    SGDRegressor(random_state=0, average=True),
    LinearSVR(random_state=0, tol=0.1),
    HuberRegressor(),
    TheilSenRegressor(random_state=0, max_subpopulation=50),
    BayesianRidge(),
    ARDRegression(),
    QuantileRegressor(alpha=0.01),
    OrthogonalMatchingPursuit(n_nonzero_coefs=2),
    RANSACRegressor(random_state=0),
    RANSACRegressor(Ridge(), min_samples=20, random_state=0),
    SVR(kernel="linear"),
    NuSVR(kernel="linear"),
    TweedieRegressor(power=0),
    TweedieRegressor(power=0, link="identity"),
]


# Defaults that scikit-learn is changing: stated, they don't warn; older releases don't know them.
NEW_DEFAULTS = {"use_legacy_attributes": False, "l1_ratios": (0,)}
if "use_legacy_attributes" not in LogisticRegressionCV().get_params():
    NEW_DEFAULTS.clear()


CLASSIFIERS = [
    LogisticRegression(),
    LogisticRegressionCV(cv=2, scoring="neg_log_loss", **NEW_DEFAULTS),
    LinearSVC(random_state=0),
    SGDClassifier(random_state=0),
    SGDClassifier(loss="log_loss", random_state=0),
    RidgeClassifier(),
    RidgeClassifierCV(),
    Perceptron(random_state=0),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
    SVC(kernel="linear"),
    NuSVC(kernel="linear"),
]


SCALED = StandardScaler().fit_transform(X)


@pytest.mark.parametrize("estimator", REGRESSORS, ids=str)
def test_coefficients_give_the_predictions(estimator):
    estimator.fit(SCALED, Y)
    linear = read_linear(estimator, "values")
    assert linear.coef.shape == (1, 4)
    assert linear.intercept.shape == (1,)
    np.testing.assert_allclose(SCALED @ linear.coef[0] + linear.intercept, estimator.predict(SCALED), **rounding(Y))
    assert read_linear(estimator, "scores") is None


def rounding(values):
    return {"rtol": 1e-12, "atol": 1e-12 * np.abs(values).max()}


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=str)
@pytest.mark.parametrize("classes", [np.array([0, 1]), np.array(["no", "yes"])], ids=["numbers", "words"])
def test_coefficients_give_the_scores_of_two_classes(estimator, classes):
    estimator.fit(SCALED, classes[BINARY])
    linear, scores = read_linear(estimator, "scores"), estimator.decision_function(SCALED)
    np.testing.assert_allclose(SCALED @ linear.coef[0] + linear.intercept, scores, **rounding(scores))
    for response in ("values", "labels", "probabilities"):
        assert read_linear(estimator, response) is None


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=str)
def test_coefficients_give_the_scores_of_three_classes(estimator):
    """Support vector machines of libsvm have coefficients for each pair of classes."""
    estimator.fit(SCALED, THREE)
    if type(estimator).__name__ in ("SVC", "NuSVC"):
        with pytest.raises(Declined, match="compares pairs of classes: its scores are no sums over columns"):
            read_linear(estimator, "scores")
        return
    linear, scores = read_linear(estimator, "scores"), estimator.decision_function(SCALED)
    assert linear.coef.shape == (3, 4)
    np.testing.assert_allclose(linear.respond(SCALED @ linear.coef.T + linear.intercept), scores, **rounding(scores))


@pytest.mark.parametrize("estimator", [LinearRegression(), Ridge(), MultiTaskLasso(), MultiTaskLassoCV(cv=2), Lars()])
def test_several_targets_are_declined(estimator):
    with pytest.raises(Declined, match="2 targets"):
        read_linear(estimator.fit(SCALED, np.column_stack([Y, -Y])), "values")


@pytest.mark.parametrize("estimator", [LinearRegression(), Ridge()])
def test_one_target_in_a_column_is_one_target(estimator):
    linear = read_linear(estimator.fit(SCALED, Y[:, None]), "values")
    found = SCALED @ linear.coef[0] + linear.intercept
    np.testing.assert_allclose(found, estimator.predict(SCALED).ravel(), **rounding(Y))


def test_sparse_coefficients_and_descendants():
    estimator = SGDRegressor(penalty="l1", random_state=0).fit(SCALED, Y)
    expected = estimator.predict(SCALED)
    linear = read_linear(estimator.sparsify(), "values")
    np.testing.assert_allclose(SCALED @ linear.coef[0] + linear.intercept, expected, **rounding(Y))

    class Mine(SGDRegressor):
        """Somebody's own, by descent."""

    with pytest.raises(Declined, match="Mine, derived from SGDRegressor"):
        read_linear(Mine().fit(SCALED, Y), "values")


@pytest.mark.filterwarnings("ignore:.*PassiveAggressiveRegressor.*deprecated:FutureWarning")
def test_passive_aggressive():
    estimator = PassiveAggressiveRegressor(random_state=0).fit(SCALED, Y)
    linear = read_linear(estimator, "values")
    np.testing.assert_allclose(SCALED @ linear.coef[0] + linear.intercept, estimator.predict(SCALED), **rounding(Y))


@pytest.mark.parametrize(
    "estimator",
    [
        PoissonRegressor(),
        GammaRegressor(),
        TweedieRegressor(power=1.5),
        TweedieRegressor(power=0, link="log"),
        SVR(),
        RandomForestRegressor(2),
        RANSACRegressor(make_pipeline(StandardScaler(), Ridge()), min_samples=20),
    ],
    ids=str,
)
def test_what_is_not_linear(estimator):
    estimator.fit(SCALED, Y - Y.min() + 1)
    assert read_linear(estimator, "values") is None
    assert read_linear(estimator, "scores") is None


@pytest.mark.parametrize("estimator", [Ridge(), SVR(kernel="linear"), RANSACRegressor()], ids=str)
def test_linear_models_that_are_not_fitted(estimator):
    with pytest.raises(Declined, match="fitted"):
        read_linear(estimator, "values")
