"""Sums inside a link: importances over all pairs are those of the model's own predictions."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from sklearn import clone
from sklearn import linear_model as linear
from sklearn import naive_bayes as bayes
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import BaggingClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, SplineTransformer, StandardScaler

import brute
import losslens as ll
from losslens import losses
from losslens.donors.questions import Subjects
from losslens.engines.base import Declined
from losslens.engines.linked_sums import PARTS, SEVERAL_CLASSES, TIED, LinkedLinear, LinkedSums
from losslens.engines.readers.linear import read_linked
from losslens.engines.readers.naive_bayes import read_naive_bayes
from losslens.engines.readers.pipelines import unwrap
from losslens.tables.features import resolve
from losslens.tables.frames import as_table

N = 24
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, 4)).round(2)
SIGNAL = X[:, 0] - 0.7 * X[:, 1] + RNG.normal(size=N)
TWO, THREE = np.where(SIGNAL > 0, "yes", "no"), np.digitize(SIGNAL, [-0.7, 0.7])
COUNTS = np.round(np.exp(SIGNAL / 2) + 0.2)
AMOUNTS = np.exp(SIGNAL / 2)
WHOLE = RNG.integers(0, 4, (N, 4))
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(word=RNG.choice(["u", "v", "w"], N))
WEIGHT = RNG.integers(1, 4, N) / 2

RESPONSES = {"probabilities": "predict_proba", "labels": "predict", "values": "predict"}
CLASSES, NUMBERS = ("log_loss", "brier", "zero_one"), ("squared_error", "absolute_error", "huber")


def columnwise(last):
    parts = (SplineTransformer(3), ["a"]), (KBinsDiscretizer(3, strategy="uniform"), ["b"])
    return make_pipeline(make_column_transformer(*parts, (OneHotEncoder(), ["word"]), remainder="passthrough"), last)


GAPS = np.where(RNG.random(X.shape) < 0.15, np.nan, X)
STILL = np.column_stack([X, np.full(N, 0.3)])
LOGISTIC = linear.LogisticRegression(C=0.3)
SGD = linear.SGDClassifier(loss="log_loss", alpha=0.1, random_state=0)
TABLE = {
    "logistic": (LOGISTIC, X, TWO, CLASSES),
    "of one feature": (LOGISTIC, X[:, :1], TWO, ("log_loss",)),
    "tiny units": (make_pipeline(StandardScaler(), LOGISTIC), 1e-15 * X, TWO, ("log_loss",)),
    "huge units": (make_pipeline(StandardScaler(), LOGISTIC), 1e15 * X, TWO, ("log_loss",)),
    "offset": (make_pipeline(StandardScaler(), LOGISTIC), X + 1e5, TWO, ("brier",)),
    "searched": (GridSearchCV(LOGISTIC, {"C": [0.1, 0.3]}, cv=2), X, TWO, ("log_loss",)),
    "by column": (columnwise(LOGISTIC), FRAME, TWO, CLASSES),
    "a still column": (LOGISTIC, STILL, TWO, ("brier",)),
    "missing": (make_pipeline(SimpleImputer(add_indicator=True), LOGISTIC), GAPS, TWO, CLASSES),
    "rare": (LOGISTIC, X, np.where(np.arange(N) % 12, "yes", "no"), ("log_loss",)),
    "descent": (SGD, X, TWO, CLASSES),
    "one against the other": (OneVsRestClassifier(LOGISTIC), X, TWO, CLASSES),
    "of log(1 + y)": (
        TransformedTargetRegressor(linear.Ridge(), func=np.log1p, inverse_func=np.expm1),
        X,
        AMOUNTS,
        NUMBERS,
    ),
    "discriminant": (LinearDiscriminantAnalysis(), X, TWO, CLASSES),
    "ridge": (linear.RidgeClassifier(), X, TWO, ("zero_one",)),
    "Gaussian": (bayes.GaussianNB(), X, TWO, CLASSES),
    "Gaussian, far": (bayes.GaussianNB(), 3 * X + 1e4, TWO, ("log_loss",)),
    "Bernoulli": (bayes.BernoulliNB(), X, TWO, CLASSES[:2]),
    "Bernoulli, as it is": (bayes.BernoulliNB(binarize=None), WHOLE % 2, TWO, ("log_loss",)),
    "multinomial": (bayes.MultinomialNB(), WHOLE, TWO, ("log_loss",)),
    "complement": (bayes.ComplementNB(), WHOLE, TWO, ("log_loss",)),
    "categorical": (bayes.CategoricalNB(min_categories=4), WHOLE, TWO, ("log_loss",)),
    "Poisson": (linear.PoissonRegressor(), X, COUNTS, ("poisson_deviance", *NUMBERS)),
    "gamma": (linear.GammaRegressor(), X, AMOUNTS, ("gamma_deviance", *NUMBERS)),
    "Tweedie": (linear.TweedieRegressor(power=1.5), X, COUNTS, ("tweedie_deviance", "squared_error")),
    "log of squares": (linear.TweedieRegressor(power=0, link="log"), X, AMOUNTS, ("squared_error", "pinball")),
    "tiny amounts": (linear.GammaRegressor(), X, 1e-12 * AMOUNTS, ("gamma_deviance", "squared_error")),
    "huge amounts": (linear.GammaRegressor(), X, 1e12 * AMOUNTS, ("gamma_deviance", "absolute_error")),
    "counts by column": (columnwise(linear.PoissonRegressor()), FRAME, COUNTS, ("poisson_deviance", "huber")),
}


@pytest.mark.parametrize(("name", "loss"), [(name, loss) for name, row in TABLE.items() for loss in row[-1]])
def test_every_number_is_that_of_the_models_own_predictions(name, loss):
    """Of columns and of columns together; relative to GE_P + GE_j."""
    model, table, y, _ = TABLE[name]
    model.fit(table, y)
    width = table.shape[1]
    columns = list(range(width)) if isinstance(table, np.ndarray) else list(table)
    features = {f"of {j}": [j] for j in columns} | ({"together": [columns[0], columns[-1]]} if width > 1 else {})
    options = {"features": features, "sample_weight": WEIGHT, "loss": loss, "progress": False}
    found = ll.feature_importance(model, table, y, **options)
    predict = getattr(model, RESPONSES[losses.resolve(loss).reads])
    classes = getattr(model, "classes_", None)
    target = y if classes is None or loss == "zero_one" else np.searchsorted(classes, y)
    asked = ll.feature_importance(predict, table, target, donors="all", **options)
    assert (found.engine, found.exact, asked.engine) == ("link", True, "blackbox"), found.declined
    largest = 2 * asked.error + max(one.pfi for one in asked.values())
    for feature in features:
        one, other = found[feature], asked[feature]
        for what in ("pfi", "local", "pi", "ici", "std_error"):
            np.testing.assert_allclose(
                getattr(one, what), getattr(other, what), rtol=0, atol=1e-9 * largest, err_msg=f"{what} of {feature}"
            )
        pd_there, spread = other.means.pd, np.abs(other.means.pd).max()
        np.testing.assert_allclose(one.means.pd, pd_there, rtol=0, atol=1e-10 * spread, err_msg=feature)
        assert one.clipped == pytest.approx(other.clipped, abs=1e-12)


SEVERAL = {
    "logistic": (LOGISTIC, CLASSES),
    "descent": (SGD, CLASSES),
    "one against the rest": (OneVsRestClassifier(LOGISTIC), CLASSES),
    "discriminant": (LinearDiscriminantAnalysis(), CLASSES),
    "ridge": (linear.RidgeClassifier(), ("zero_one",)),
    "Gaussian": (bayes.GaussianNB(), CLASSES),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_sums_of_several_classes_are_asked_for(name):
    """Also for their curves; a softmax has Shapley importances of the log loss."""
    model = SEVERAL[name][0].fit(X, THREE)
    for loss in SEVERAL[name][1]:
        found = ll.feature_importance(model, X, THREE, loss=loss)
        assert (found.engine, set(found.declined.values())) == ("blackbox", {SEVERAL_CLASSES})
    assert ll.feature_effect(model, X, target=THREE[0]).engine == "blackbox" or name == "ridge"
    if name in ("logistic", "discriminant", "Gaussian"):
        shares = ll.shapley_importance(model, X, THREE, loss="log_loss", method="totals")
        assert (shares.engine, shares.method, shares.exact) == ("link", "covariance", True)


def test_means_of_logistic_functions_are_asked_for():
    bagged = BaggingClassifier(LOGISTIC, 3, random_state=0).fit(X, TWO)
    found = ll.feature_importance(bagged, X, TWO)
    assert found.engine == "blackbox"
    assert set(found.declined.values()) == {"means of models have no closed form with the engine 'link'"}


def test_tiny_values_of_log1p_and_those_that_overflow_are_asked_for():
    """Where 1 + y has few digits of y, and where rows with replaced values exceed what squares allow."""
    model = TransformedTargetRegressor(linear.Ridge(), func=np.log1p, inverse_func=np.expm1)
    small = ll.feature_importance(model.fit(X, 1e-9 * AMOUNTS), X, 1e-9 * AMOUNTS)
    assert all("vary by less than 0.0001" in why for why in small.declined.values())
    assert len(small.declined) == 4
    table = np.array([[60.0, -60.0], [-60.0, 60.0], [0.0, 1.0]])
    line, frame = linear.LinearRegression().fit(table, [1.0, 2.0, 3.0]), as_table(table)
    for slope, reach in ((1.0, "exceed 1e"), (0.5, "")):
        read = LinkedLinear(np.full((1, 2), slope), np.ones(1), "log1p", "values")
        engine = LinkedSums(read.sums(unwrap(line, frame), frame), "log1p", "values")
        feature = Subjects(frame).subject(resolve(None, frame.labels, by_position=True)[0])
        with pytest.raises(Declined, match=reach) if reach else nullcontext():
            assert engine.way(feature, losses.squared_error, blocked=False) == "sums"


def test_sums_far_from_zero_are_known_as_well_as_the_model_knows_them():
    """Scores of up to 33: the model has p0 = 1 - p1, with an error of 2^-52, which moves its loss by 2^-52 e^|z|."""
    far = LOGISTIC.fit(X, TWO)
    far.coef_ *= 30 / np.abs(far.decision_function(X)).max()
    found = ll.feature_importance(far, X, TWO)
    asked = ll.feature_importance(far.predict_proba, X, TWO == "yes", loss="log_loss", donors="all")
    assert found.engine == "link"
    scores = X * far.coef_[0]
    total = far.decision_function(X)
    assert np.abs(total).max() > 29
    for j, name in enumerate(found):
        z = np.abs(total[:, None] - scores[:, [j]] + scores[:, j])
        known = 4 * 2.0**-52 * np.exp(np.minimum(z, 36.1)).mean(axis=1) + 4 * 2.0**-52 * np.exp(np.abs(total)) + 1e-12
        assert np.all(np.abs(found[name].local - asked[name].local) <= known)


def engine_of(model, table, response="values"):
    read = read_linked(model, response) or read_naive_bayes(model, response)
    table = as_table(table)
    engine = LinkedSums(read.sums(unwrap(model, table), table), read.link, response, read.rounding())
    features = resolve(None, table.labels, by_position=table.backend == "numpy")
    return engine, [Subjects(table).subject(one) for one in features]


def test_predictions_that_overflow_where_no_row_is_are_declined():
    """Neither row has more than 60 in both columns together; one has 120 with the other's value."""
    table = np.array([[60.0, -60.0], [-60.0, 60.0], [0.0, 0.0]])
    model = linear.PoissonRegressor().fit(table, [1.0, 1.0, 2.0])
    model.coef_[:] = 1.0
    engine, (first, _) = engine_of(model, table)
    with pytest.raises(Declined, match="above 1e"):
        engine.way(first, losses.poisson_deviance, blocked=False)
    model.coef_[:] = 0.5
    engine, (first, _) = engine_of(model, table)
    assert engine.way(first, losses.poisson_deviance, blocked=False) == "sums"


def test_too_many_steps_of_a_grid_are_declined():
    model = LOGISTIC.fit(X, TWO)
    model.coef_ *= 1e5
    engine, (first, *_) = engine_of(model, X, "probabilities")
    for _ in range(2):  # the reason is remembered
        with pytest.raises(Declined, match="range over more than 1,024"):
            engine.way(first, losses.log_loss, blocked=False)
    with pytest.raises(Declined, match=PARTS.partition(";")[0]):
        read_linked(model, "probabilities").check_parts(losses.log_loss)


def test_sums_of_zero_are_labelled_by_the_model():
    """Whole numbers and coefficients of 1 and -1: many sums are 0, and rounding may make them anything."""
    model = LOGISTIC.fit(WHOLE[:, :2], TWO)
    model.coef_[:], model.intercept_[:] = [1.0, -1.0], 0.0
    found = ll.feature_importance(model, WHOLE[:, :2], TWO, loss="zero_one")
    asked = ll.feature_importance(model.predict, WHOLE[:, :2], TWO, loss="zero_one", donors="all")
    assert (found.engine, set(found.declined.values())) == ("blackbox", {TIED})
    assert [one.pfi for one in found.values()] == [one.pfi for one in asked.values()]


def test_what_is_not_read():
    huber = linear.SGDClassifier(loss="modified_huber", random_state=0).fit(X, TWO)
    with pytest.raises(Declined, match="modified_huber"):
        read_linked(huber, "probabilities")
    assert read_linked(OneVsRestClassifier(linear.RidgeClassifier()).fit(X, THREE), "probabilities") is None
    assert read_linked(LOGISTIC.fit(X, TWO), "values") is None
    assert read_naive_bayes(bayes.GaussianNB(), "probabilities") is None
    own = losses.pointwise(lambda y, f: f[:, 0], reads="probabilities", name="mine")
    linked = LinkedLinear(np.ones((1, 2)), np.zeros(1), "logistic", "probabilities")
    with pytest.raises(Declined, match="not of mine"):
        linked.check_loss(own, "probabilities")


def test_a_custom_loss_asks_the_model_and_a_sampled_design_the_engine():
    model = LOGISTIC.fit(X, TWO)
    assert ll.feature_importance(model, X, TWO, loss=lambda y, p: p[:, 0] * (y == "yes")).engine == "blackbox"
    assert ll.feature_importance(model, X, TWO, donors=ll.Latin(3)).engine == "link"
    assert ll.feature_effect(model, X, target="yes").engine == "link"
    assert ll.feature_importance(model, X.astype(np.float32), TWO).engine == "link"  # its coefficients are not single


def test_results_of_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    matrix, y = sm.add_constant(X), WHOLE[:, 0] % 2.0  # which nothing separates
    families = sm.families
    fitted = {
        ("log_loss", "brier", "squared_error"): (sm.GLM(y, matrix, family=families.Binomial()).fit(), y, "link"),
        ("log_loss",): (sm.Logit(y, matrix).fit(disp=0), y, "link"),
        ("poisson_deviance", "huber"): (sm.GLM(COUNTS, matrix, family=families.Poisson()).fit(), COUNTS, "link"),
        ("absolute_error",): (sm.OLS(AMOUNTS, matrix).fit(), AMOUNTS, "additive"),
        ("brier",): (sm.Probit(y, matrix).fit(disp=0), y, "blackbox"),
    }
    for names, (results, target, engine) in fitted.items():
        for loss in names:
            found = ll.feature_importance(results, matrix, target, loss=loss)
            asked = ll.feature_importance(results.predict, matrix, target, loss=loss, donors="all")
            assert found.engine == engine
            for one, other in zip(found.values(), asked.values(), strict=True):
                np.testing.assert_allclose(one.local, other.local, atol=1e-12)
    by_formula = sm.Logit.from_formula("y ~ a * b", FRAME.assign(y=y)).fit(disp=0)
    assert "formula" in ll.feature_importance(by_formula, FRAME, y, loss="log_loss")["a"].declined


@pytest.mark.parametrize("model", [linear.LinearRegression(), linear.PoissonRegressor()], ids=["sum", "link"])
@pytest.mark.parametrize("unit", [1e-7, 1e3, 1e9])
def test_a_huber_loss_of_large_residuals_is_never_off(model, unit):
    """Between its kinks a Huber loss is a difference of squares of residuals. Squares that are 10^9 times the loss, as
    with y in the billions and delta 1, would leave 7 digits; and so would a delta far above all residuals.
    """
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 2))
    y = unit * np.exp(X @ [0.5, -0.3] + 0.3 * rng.normal(size=30))
    model = clone(model).fit(X, y)
    found = ll.feature_importance(model, X, y, loss=ll.losses.huber(1.0), donors="all", progress=False)
    for j, feature in enumerate(found.values()):
        cells = brute.cells(model.predict, X, y, [j], brute.LOSSES["huber"])
        np.testing.assert_allclose(feature.local, cells.mean(axis=1), rtol=0, atol=1e-9 * feature.error)
        assert ("delta" in feature.declined) == (unit == 1e9)
