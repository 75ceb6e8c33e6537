"""The pinball loss of several quantiles."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import mean_pinball_loss

import losslens as ll
from losslens.losses import from_metadata, pinball

LEVELS = (0.1, 0.5, 0.8)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
y = X[:, 0] + np.exp(X[:, 1]) * RNG.normal(size=30)


def quantiles(rows):
    """Three linear quantiles, of which the first reads x1 and the last does not."""
    return np.column_stack([rows[:, 0] - np.exp(rows[:, 1]), rows[:, 0], rows[:, 0] + 0.8])


def test_every_quantile_and_their_mean():
    losses = pinball(LEVELS).by_output(y, quantiles(X))
    expected = [mean_pinball_loss(y, f, alpha=level) for level, f in zip(LEVELS, quantiles(X).T, strict=True)]
    np.testing.assert_allclose(losses.mean(axis=0), expected, rtol=1e-12)
    np.testing.assert_allclose(pinball(LEVELS)(y, quantiles(X)), losses.mean(axis=1), rtol=1e-12)
    assert from_metadata(pinball(LEVELS).metadata()) == pinball(LEVELS)
    assert pinball(np.array(LEVELS)) == pinball(list(LEVELS))


def test_importances_of_every_quantile(tmp_path):
    """By hand: all pairs of rows and donors, with scikit-learn's mean of the loss over rows."""
    imp = ll.feature_importance(quantiles, X, y, loss=pinball(LEVELS))
    for k, level in enumerate(LEVELS):
        for j in range(2):
            by_hand = -mean_pinball_loss(y, quantiles(X)[:, k], alpha=level)
            for donor in X:
                replaced = X.copy()
                replaced[:, j] = donor[j]
                by_hand += mean_pinball_loss(y, quantiles(replaced)[:, k], alpha=level) / len(X)
            assert imp.outputs[level][f"x{j}"].pfi == pytest.approx(by_hand, rel=1e-9, abs=1e-15)
    assert imp.outputs[0.8]["x1"].pfi == 0 < imp.outputs[0.1]["x1"].pfi
    assert imp["x1"].pfi == pytest.approx(np.mean([one["x1"].pfi for one in imp.outputs.values()]), rel=1e-12)
    assert imp["x1"].loss.title == "pinball loss, mean of 3 quantiles"
    assert str(imp.outputs).startswith("Importances for 3 quantiles: increase in pinball loss of each")
    axes = imp.outputs.plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("quantile", "increase in pinball loss")
    assert imp.outputs[0.1]["x1"].loss.title == "pinball loss (0.1)"
    imp.save(tmp_path / "quantiles.losslens")
    again = ll.load(tmp_path / "quantiles.losslens")
    assert list(again.outputs) == list(LEVELS)
    assert again.outputs[0.1]["x1"].pfi == imp.outputs[0.1]["x1"].pfi


def test_predictions_of_some_quantiles_are_none_of_others():
    imp = ll.feature_importance(quantiles, X, y, loss=pinball(LEVELS), features=["x0"])
    with pytest.raises(ValueError, match=r"quantiles 0.2, 0.5, 0.8 .* got the outputs 0.1, 0.5, 0.8"):
        imp["x0"].with_loss(pinball([0.2, 0.5, 0.8]))


def test_the_same_quantiles_can_be_given_again():
    imp = ll.feature_importance(quantiles, X, y, loss=pinball(LEVELS), features=["x0"])
    again = imp.with_loss("absolute_error").with_loss(pinball(LEVELS))
    assert again["x0"].pfi == imp["x0"].pfi
    assert again.outputs[0.1]["x0"].pfi == imp.outputs[0.1]["x0"].pfi


@pytest.mark.parametrize("engine", ["additive", "blackbox"])
def test_a_list_of_one_quantile(engine, tmp_path):
    """The same as the quantile without a list, for models of one column, exact or asked."""
    model = QuantileRegressor(quantile=0.1, alpha=0).fit(X, y)
    model = model if engine == "additive" else model.predict
    imp, alone = (ll.feature_importance(model, X, y, loss=pinball(alpha)) for alpha in ([0.1], 0.1))
    assert imp.engine == engine
    assert "outputs" not in str(imp)
    assert imp.skill == pytest.approx(alone.skill, rel=1e-12)
    shares = [ll.shapley_importance(model, X, y, loss=pinball(alpha)).sfimp for alpha in ([0.1], 0.1)]
    np.testing.assert_allclose(*shares, atol=1e-12)
    ll.plan(ll.feature_importance, model, X, y, loss=pinball([0.1]))
    imp.save(tmp_path / "quantile.losslens")
    for one in (imp, ll.load(tmp_path / "quantile.losslens")):
        assert one.outputs[0.1]["x0"].pfi == pytest.approx(alone["x0"].pfi, rel=1e-12)
        np.testing.assert_allclose(one["x0"].effect.pd, alone["x0"].effect.pd, rtol=1e-12)


def test_the_best_constant_of_several_quantiles_in_words():
    imp = ll.feature_importance(quantiles, X, y, loss=pinball(LEVELS), features=["x0"])
    assert imp["x0"].best_constant.words == "the best constant in each quantile"
    assert imp.outputs[0.1]["x0"].best_constant.words == "the 0.1 quantile of y"


def test_one_regressor_for_each_quantile():
    models = [QuantileRegressor(quantile=level, alpha=0).fit(X, y) for level in LEVELS]
    imp = ll.feature_importance(
        lambda rows: np.column_stack([model.predict(rows) for model in models]), X, y, loss=pinball(LEVELS)
    )
    for level, model in zip(LEVELS, models, strict=True):
        alone = ll.feature_importance(model, X, y, loss=pinball(level))
        assert imp.outputs[level]["x0"].pfi == pytest.approx(alone["x0"].pfi, rel=1e-9)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([], "alpha of pinball must be one quantile level or a list of distinct ones; got"),
        ([0.5, 0.5], "a list of distinct ones"),
        ([[0.1, 0.5]], "a list of distinct ones"),
        ([0.1, 1.5], "pinball needs 0 < alpha < 1, got 1.5"),
        (["a"], "pinball needs 0 < alpha < 1, got 'a'"),
    ],
)
def test_levels_that_are_none(levels, words):
    with pytest.raises(ValueError, match=words):
        pinball(levels)


WRONG = {
    "one quantile": (
        {"model": lambda rows: rows[:, 0]},
        r"one column of predictions for 3 quantiles \(0.1, 0.5, 0.8\)",
    ),
    "two quantiles": (
        {"model": lambda rows: rows[:, :2]},
        r"2 columns of predictions for 3 quantiles \(0.1, 0.5, 0.8\)",
    ),
    "y of three columns": (
        {"y": quantiles(X)},
        "quantiles 0.1, 0.5, 0.8 and one column of y for all of them; got the outputs y0, y1, y2",
    ),
    "text": ({"y": np.where(y > 0, "a", "b")}, "needs numbers in y"),
}


@pytest.mark.parametrize(("call", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        ll.feature_importance(**{"model": quantiles, "X": X, "y": y, "loss": pinball(LEVELS)} | call)


def test_data_in_parts_have_one_prediction_a_row(tmp_path):
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="pinball loss, mean of 3 quantiles: data that are read in parts have one y"):
        ll.feature_importance(quantiles, tmp_path / "rows.parquet", "y", loss=pinball(LEVELS), memory=4000)
