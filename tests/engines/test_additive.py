import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import losslens as ll
from losslens import losses
from losslens.engines.additive import Additive, SumRows
from losslens.engines.base import Declined
from losslens.engines.readers.linear import Linear

N, P = 37, 3
RNG = np.random.default_rng(3)
PARTS = RNG.normal(size=(N, P)).round(1)  # with ties
SCALE = np.array([1.5, -0.7, 0.0])
ENGINE = Additive(PARTS, SCALE, 0.3)
Y = RNG.normal(size=N)
WEIGHT = RNG.uniform(size=N)
WEIGHT /= WEIGHT.sum()


def pair_changes(j, loss, y):
    """L(f_i - g_i + g_k, y_i) - L(f_i, y_i), (n, n)."""
    f, g = ENGINE.prediction, SCALE[j] * PARTS[:, j]
    replaced = f[:, None] - g[:, None] + g
    return np.stack([loss(y, column) for column in replaced.T], axis=1) - loss(y, f)[:, None]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_squared_changes_are_those_of_all_pairs(order, offset):
    """mean_k (r + c_i - c_k)^2 - r^2 = c_i (2r + c_i) + var(c); its mean is 2 var(c) + 2 cov(r, c)."""
    X = np.asarray(PARTS + offset, order=order)
    model = LinearRegression().fit(X, Y)
    model.coef_, model.intercept_ = SCALE, 0.3 - offset * SCALE.sum()
    found = ll.feature_importance(model, X, Y, sample_weight=WEIGHT)
    assert found.engine == "additive"
    for j, one in enumerate(found.values()):
        cells = pair_changes(j, losses.squared_error, Y)
        np.testing.assert_allclose(one.local, cells @ WEIGHT, atol=1e-12 if offset == 0 else 1e-8)
        assert one.pfi == pytest.approx(WEIGHT @ cells @ WEIGHT, abs=1e-12 if offset == 0 else 1e-8)
    assert np.all(found["x2"].local == 0)  # a column that adds nothing
    assert found["x2"].pfi == 0


def test_moments_of_columns_far_from_zero_keep_their_digits():
    far = SumRows.read(Additive(PARTS + 1e6, SCALE, 0.3 - 1e6 * SCALE.sum()), [0], Y, WEIGHT).moments
    near = SumRows.read(ENGINE, [0], Y, WEIGHT).moments
    np.testing.assert_allclose(far.mean, near.mean + 1e6)
    np.testing.assert_allclose(far.variance, near.variance, rtol=1e-8)
    np.testing.assert_allclose(far.pfi, near.pfi, rtol=1e-8, atol=1e-12)


def test_columns_together_add_their_sum():
    both = ENGINE.contribution([0, 1], WEIGHT)
    np.testing.assert_allclose(both, ENGINE.contribution([0], WEIGHT) + ENGINE.contribution([1], WEIGHT))
    assert WEIGHT @ both == pytest.approx(0, abs=1e-15)


def test_which_losses_have_a_closed_form():
    linear = Linear(SCALE[None], np.array([0.3]))
    linear.check_loss(None, "values")
    linear.check_loss(losses.squared_error, "values")
    linear.check_loss(losses.hinge, "scores")
    own = losses.pointwise(lambda y, f: abs(y - f), reads="values", name="squared_error")
    for loss, response in ((losses.log_loss, "probabilities"), (losses.poisson_deviance, "values"), (own, "values")):
        with pytest.raises(Declined, match="closed form"):
            linear.check_loss(loss, response)
    linear.check_parts(losses.squared_error)
    for loss in (losses.absolute_error, own):
        with pytest.raises(Declined, match="part by part the squared error"):
            linear.check_parts(loss)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("features", [None, ["x2", "x0"], {"both": [0, 1]}])
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_a_table_that_is_changed_later_changes_nothing(order, features, loss):
    table, y, weight = np.array(PARTS, order=order), Y.copy(), WEIGHT.copy()
    model = LinearRegression().fit(table, y)
    asked = {"features": features, "loss": loss, "sample_weight": weight}
    found, expected = (ll.feature_importance(model, table, y, **asked) for _ in range(2))
    for one in expected.values():
        _ = one.pi, one.std_error, one.ici, one.effect.ice
    for own in (table, y, weight, model.coef_):
        own += 5.0
    for name, one in found.items():
        assert one.pfi == expected[name].pfi
        for part in ("local", "grid", "weights", "pi", "ici"):
            np.testing.assert_array_equal(getattr(one, part), getattr(expected[name], part))
        np.testing.assert_array_equal(one.effect.ice, expected[name].effect.ice)
        np.testing.assert_array_equal(one.effect.pd, expected[name].effect.pd)
        assert one.std_error == expected[name].std_error


def test_a_pipeline_keeps_its_own_grid_when_the_table_is_changed():
    table = PARTS.copy()
    found = ll.feature_importance(make_pipeline(StandardScaler(), LinearRegression()).fit(table, Y), table, Y)
    table[:] = 0.0
    assert found.engine == "additive"
    np.testing.assert_array_equal(found["x0"].grid, np.unique(PARTS[:, 0]))


def test_a_logistic_model_is_additive_in_its_score():
    label = np.where(Y > 0, "yes", "no")
    model = LogisticRegression().fit(PARTS, label)
    exact = ll.feature_importance(model, PARTS, label, loss="hinge", sample_weight=WEIGHT)
    asked = ll.feature_importance(model, PARTS, label, loss="hinge", sample_weight=WEIGHT, donors=ll.Latin(N))
    assert (exact.engine, asked.engine) == ("additive", "additive")
    for name in exact:
        np.testing.assert_allclose(exact[name].local, asked[name].local, atol=1e-12)
