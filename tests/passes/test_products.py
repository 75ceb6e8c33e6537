"""Mean squared losses from what rows keep and donors lend are those of the cells, which the model itself says."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import Pipeline
from sklearn.svm import SVR

import losslens as ll
from losslens.engines import kernel_machines
from losslens.passes import products, ways

N = 90
RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(N, 2)), RNG.integers(0, 30, N), np.ones(N)])
Y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + RNG.normal(size=N) / 3
WEIGHT = RNG.integers(0, 3, N) * 1.0
MODELS = {
    "svr": SVR(C=10, gamma=0.1),
    "ridge": KernelRidge(kernel="rbf", gamma=0.02, alpha=0.1),
}


@pytest.fixture(autouse=True)
def every_feature(monkeypatch):
    monkeypatch.setattr(kernel_machines, "MIN_CELLS", 0)


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param].fit(X[:60], Y[:60])


def agree(found, expected):
    scale = expected.error + max(one.pfi for one in expected.values())
    for name, one in found.items():
        other = expected[name]
        assert (one.engine, other.engine, one.exact) == ("products", "blackbox", True)
        for field in ("pfi", "local", "pi", "std_error", "weights"):
            np.testing.assert_allclose(
                getattr(one, field), getattr(other, field), rtol=1e-12, atol=1e-11 * scale, err_msg=field
            )
        np.testing.assert_allclose(one.means.caused, other.means.caused, atol=1e-11 * scale)
        np.testing.assert_allclose(one.effect.pd, other.effect.pd, atol=1e-11 * np.abs(Y).max())
        np.testing.assert_allclose(one.ici, other.ici[np.isin(other.rows, one.rows)], atol=1e-11 * scale)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("donors", ["all", ll.Derangements()], ids=str)
def test_means_are_those_of_the_cells(model, donors, weight, monkeypatch):
    monkeypatch.setattr(products, "BLOCK", 1)  # triangles of a few rows at a time
    options = {"loss": "squared_error", "donors": donors, "sample_weight": weight, "progress": False}
    asked = []
    run = products.run
    monkeypatch.setitem(ways.PASSES, "factors", lambda *given: (asked.extend(given[2]), run(*given))[1])
    agree(ll.feature_importance(model, X, Y, **options), ll.feature_importance(model.predict, X, Y, **options))
    assert {"x0", "x1"} <= {subject.feature.name for subject, _ in asked} <= {"x0", "x1", "x2"}  # x3 has one value


def test_a_streamed_result_keeps_the_cells_of_some_rows(model):
    """Features take turns, too, where what rows keep of all of them does not fit."""
    streamed = ll.feature_importance(model, X, Y, memory="256 KiB", donors="all")
    whole = ll.feature_importance(model, X, Y, features=["x1", "x0"])
    assert 0 < len(streamed["x0"].rows) < N
    for name, one in whole.items():
        np.testing.assert_allclose(streamed[name].local, one.local, atol=1e-11 * one.error)
        np.testing.assert_allclose(streamed[name].ici, one.ici[streamed[name].rows], atol=1e-11 * one.error)


def test_pairs_of_features_have_cells_and_other_losses_too(model):
    found, asked = (
        ll.pair_interactions(given, X, Y, loss="squared_error", features=["x0", "x1"])
        for given in (model, model.predict)
    )
    np.testing.assert_allclose(
        found.to_frame().select_dtypes("number"), asked.to_frame().select_dtypes("number"), rtol=1e-8, atol=1e-10
    )
    one_kernel_a_row = not isinstance(model, Pipeline)  # a polynomial is sampled as fast
    assert (ll.feature_importance(model, X, Y, loss="absolute_error").engine == "products") == one_kernel_a_row
    grid, asked = (
        ll.feature_importance(given, X[:20], Y[:20], loss="squared_error", features=[("x0", "x1")])
        for given in (model, model.predict)
    )
    assert grid.engine == "products"
    np.testing.assert_allclose(grid["x0 x x1"].pi, asked["x0 x x1"].pi, atol=1e-10)


def test_offsets_cost_no_digits():
    """A moment of y would: (10^4)^2 beside errors of 1."""
    model = SVR(C=10, gamma=0.1).fit(X, Y + 1e4)
    options = {"loss": "squared_error", "features": ["x0"], "donors": "all", "progress": False}
    found, asked = (ll.feature_importance(given, X, Y + 1e4, **options)["x0"] for given in (model, model.predict))
    assert found.engine == "products"
    assert found.pfi == pytest.approx(asked.pfi, rel=1e-10)
