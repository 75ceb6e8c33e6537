"""Shapley importances of models with several outputs: linear in the losses, so the mean of those of each output."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor

import losslens as ll

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(24, 3)), 1)
Y = np.column_stack([X[:, 0] * X[:, 1], X[:, 1] ** 2, RNG.normal(size=24)])
WEIGHTS = np.array([2.0, 1.0, 1.0]) / 4
LOSS = ll.losses.outputs("squared_error", weights=WEIGHTS)
OPTIONS = {"random_state": 0, "progress": False}


def test_shares_of_any_model_are_the_mean_of_those_of_outputs():
    model = KNeighborsRegressor(3).fit(X, Y)
    found = ll.shapley_importance(model, X, Y, loss=LOSS, **OPTIONS)
    each = [
        ll.shapley_importance(lambda X, k=k: model.predict(X)[:, k], X, Y[:, k], loss="squared_error", **OPTIONS)
        for k in range(3)
    ]
    np.testing.assert_allclose(found.sfimp, WEIGHTS @ [one.sfimp for one in each], rtol=1e-9)
    np.testing.assert_allclose(found.local, np.tensordot(WEIGHTS, [one.local for one in each], 1), atol=1e-12)
    assert found.sfimp.sum() == pytest.approx(found.error_none - found.error_all)
    assert found.declined == "losslens has no reader for the values of KNeighborsRegressor"


@pytest.mark.parametrize("outputs", [2, 3])
def test_walks_of_several_outputs_keep_the_total(outputs):
    """Two outputs are not the probabilities of two classes; the total is 2 cov(f, y), averaged over outputs."""
    model = KNeighborsRegressor(3).fit(X, Y[:, :outputs])
    found = ll.shapley_importance(model, X, Y[:, :outputs], method="walk", **OPTIONS)
    exact = ll.shapley_importance(model, X, Y[:, :outputs], method="exact", **OPTIONS)
    of_outputs = [np.cov(model.predict(X)[:, k], Y[:, k], bias=True)[0, 1] for k in range(outputs)]
    assert found.sfimp.sum() == pytest.approx(2 * np.mean(of_outputs))
    assert (abs(found.sfimp - exact.sfimp) <= 5 * found.monte_carlo_error).all()
    assert found.method == "walks"


@pytest.mark.parametrize("options", [{}, {"method": "totals"}, {"method": ll.Sage()}], ids=str)
@pytest.mark.parametrize(
    ("model", "engine"),
    [
        (Ridge(), "additive"),
        (RandomForestRegressor(3, random_state=0), "trees"),
        (MultiOutputRegressor(GradientBoostingRegressor(n_estimators=3, random_state=0)), "trees"),
    ],
)
def test_exact_engines_take_one_output_after_another(model, engine, options, tmp_path):
    """Against all coalitions by the model's own predict, 1e-9: totals, standard errors and rows."""
    model.fit(X, Y)
    found = ll.shapley_importance(model, X, Y, loss=LOSS, **options, **OPTIONS)
    asked = ll.shapley_importance(model.predict, X, Y, loss=LOSS, **options, **OPTIONS)
    assert (found.engine, found.declined, found.exact) == (engine, "", True)
    for name in ("sfimp", "std_error", "error_none", "error_all"):
        np.testing.assert_allclose(getattr(found, name), getattr(asked, name), rtol=1e-9, atol=1e-12, err_msg=name)
    if options.get("method") != "totals":
        np.testing.assert_allclose(found.local, asked.local, rtol=1e-9, atol=1e-12)
    found.save(tmp_path / "shares.ll")
    assert repr(ll.load(tmp_path / "shares.ll")) == repr(found)
