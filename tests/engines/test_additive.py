from itertools import permutations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import losslens as ll
from losslens import losses
from losslens.engines.additive import Additive, Hinges, Moments, hinges, judges, shapley_importances, squared_changes

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


def changes_of(engine):
    residual = Y - ENGINE.prediction
    return squared_changes(engine, residual, WEIGHT, Moments.of(engine, WEIGHT, residual))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_squared_changes_are_those_of_all_pairs(order, offset):
    """mean_k (r + c_i - c_k)^2 - r^2 = c_i (2r + c_i) + var(c); its mean is 2 var(c) + 2 cov(r, c)."""
    engine = Additive(np.asarray(PARTS + offset, order=order), SCALE, 0.3 - offset * SCALE.sum())
    local, total = squared_changes(
        engine, Y - ENGINE.prediction, WEIGHT, Moments.of(engine, WEIGHT, Y - ENGINE.prediction)
    )
    for j in range(P):
        cells = pair_changes(j, losses.squared_error, Y)
        np.testing.assert_allclose(local[j], cells @ WEIGHT, atol=1e-12 if offset == 0 else 1e-8)
        assert total[j] == pytest.approx(WEIGHT @ cells @ WEIGHT, abs=1e-12 if offset == 0 else 1e-8)


def test_a_column_that_adds_nothing_changes_nothing():
    local, total = squared_changes(
        ENGINE, Y - ENGINE.prediction, WEIGHT, Moments.of(ENGINE, WEIGHT, Y - ENGINE.prediction)
    )
    assert np.all(local[2] == 0)
    assert total[2] == 0


@pytest.mark.parametrize("loss", [losses.absolute_error, losses.pinball(0.8), losses.hinge], ids=lambda loss: loss.name)
@pytest.mark.parametrize("j", [0, 1])
def test_losses_of_two_lines_are_those_of_all_pairs(loss, j):
    y = (Y > 0).astype(int) if loss.name == "hinge" else Y
    c = ENGINE.contribution([j], WEIGHT)
    lines = hinges(loss, y, ENGINE.prediction, c)
    cells, base = pair_changes(j, loss, y), loss(y, ENGINE.prediction)
    np.testing.assert_allclose(lines.over_donors(c, WEIGHT) - base, cells @ WEIGHT, atol=1e-12)
    np.testing.assert_allclose(lines.over_rows(c, WEIGHT) - WEIGHT @ base, WEIGHT @ cells, atol=1e-12)


def test_hinges_by_hand():
    """Row 0: max(0, 1 - c) over c = 0, 2: (1 + 0) / 2; row 1: max(0, c - 1): (0 + 1) / 2."""
    lines = Hinges(np.ones(2), np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    np.testing.assert_allclose(lines.over_donors(np.array([0.0, 2.0]), np.full(2, 0.5)), [0.5, 0.5])


def test_columns_together_add_their_sum():
    both = ENGINE.contribution([0, 1], WEIGHT)
    np.testing.assert_allclose(both, ENGINE.contribution([0], WEIGHT) + ENGINE.contribution([1], WEIGHT))
    assert WEIGHT @ both == pytest.approx(0, abs=1e-15)


def test_which_losses_have_a_closed_form():
    assert judges(None, "values")
    assert judges(losses.squared_error, "values")
    assert judges(losses.hinge, "scores")
    assert not judges(losses.log_loss, "probabilities")
    assert not judges(losses.poisson_deviance, "values")
    assert not judges(losses.pointwise(lambda y, f: abs(y - f), reads="values", name="squared_error"), "values")


def test_a_table_that_was_changed_is_refused_and_not_explained_wrongly():
    table = PARTS.copy()
    model = LinearRegression().fit(table, Y)
    found = ll.feature_importance(model, table, Y)
    number, local = found["x0"].pfi, found["x0"].local.copy()
    model.coef_[:] = 7.0  # which is not ours
    table[:, 0] = 0.0
    assert found["x0"].pfi == number
    np.testing.assert_array_equal(found["x0"].local, local)
    for curve in (lambda: found["x0"].pi, lambda: found["x0"].grid, lambda: found["x0"].ici):
        with pytest.raises(ValueError, match="the table was changed after it was explained"):
            curve()
    assert found["x1"].pi @ found["x1"].weights == pytest.approx(found["x1"].pfi)


def test_a_pipeline_keeps_its_own_grid_when_the_table_is_changed():
    table = PARTS.copy()
    found = ll.feature_importance(make_pipeline(StandardScaler(), LinearRegression()).fit(table, Y), table, Y)
    table[:] = 0.0
    assert found.engine == "additive"
    np.testing.assert_array_equal(found["x0"].grid, np.unique(PARTS[:, 0]))


def test_shapley_importances_are_those_of_all_orders():
    """GE_S is the mean over all pairs of (y_i - f(x_S of i, the rest of k))^2; a column's share is the mean, over all
    orders, of what it takes off the error when it is added to those before it.
    """
    g = SCALE * PARTS

    def error(kept):
        own = g[:, list(kept)].sum(axis=1)
        lent = np.delete(g, list(kept), axis=1).sum(axis=1)
        return WEIGHT @ (Y[:, None] - 0.3 - own[:, None] - lent) ** 2 @ WEIGHT

    expected = np.zeros(P)
    for order in permutations(range(P)):
        for place, j in enumerate(order):
            expected[j] += (error(order[:place]) - error(order[: place + 1])) / 6
    np.testing.assert_allclose(shapley_importances(ENGINE, Y, WEIGHT), expected, atol=1e-12)


def test_a_logistic_model_is_additive_in_its_score():
    label = np.where(Y > 0, "yes", "no")
    model = LogisticRegression().fit(PARTS, label)
    exact = ll.feature_importance(model, PARTS, label, loss="hinge", sample_weight=WEIGHT)
    asked = ll.feature_importance(model, PARTS, label, loss="hinge", sample_weight=WEIGHT, donors=ll.Latin(N))
    assert (exact.engine, asked.engine) == ("additive", "blackbox")
    for name in exact:
        np.testing.assert_allclose(exact[name].local, asked[name].local, atol=1e-12)
