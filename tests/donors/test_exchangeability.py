"""Whether drawn values can be told from real ones: the level of the test under a perfect sampler, and its power."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import losslens as ll
from losslens.donors.exchangeability import exchange_test
from losslens.uncertainty.cautions import doubted_folds
from pictures import caption, looked_at


def told(real, drawn, *others, block=None):
    copies = [(np.concatenate([real, drawn]), None, True)]
    return exchange_test(copies, [(np.asarray(other), None, True) for other in others], block)


def bent(n, rng):
    """x1 = x0^2 + (.3 + |x0|) e."""
    x0 = rng.normal(size=n)
    return x0, x0**2 + (0.3 + np.abs(x0)) * rng.normal(size=n)


def test_a_perfect_sampler_is_doubted_in_one_call_of_twenty():
    """Exchanging a row's two values changes nothing then, so p is at most 5% in 5% of the samples: of 300, 15 are
    expected, and more than 27 have probability 0.001."""
    rng, doubted = np.random.default_rng(0), 0
    for _ in range(300):
        x0, x2 = rng.normal(size=(2, 60))
        real, drawn = 0.8 * x0 + 0.6 * rng.normal(size=(2, 60))
        doubted += told(real, drawn, x0, x2).p <= 0.05
    assert 4 <= doubted <= 27


def test_draws_that_ignore_a_curve_or_a_spread_are_told_apart():
    """A line plus residuals from anywhere, as a regression with constant variance draws them."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        x0, x1 = bent(300, rng)
        straight = LinearRegression().fit(x0[:, None], x1).predict(x0[:, None])
        found = told(x1, straight + (x1 - straight)[rng.permutation(300)], x0)
        assert found.p <= 0.05
        assert found.share > 0.55
        scale = 0.3 + np.abs(x0)
        e = rng.normal(size=300)  # the right mean, the wrong spread
        assert told(x0**2 + scale * e, x0**2 + scale[rng.permutation(300)] * rng.normal(size=300), x0).p <= 0.05


def test_the_right_draws_are_not():
    rng = np.random.default_rng(2)
    x0, x1 = bent(300, rng)
    found = told(x1, x0**2 + (0.3 + np.abs(x0)) * rng.normal(size=300), x0)
    assert found.p > 0.05
    assert 0.4 < found.share < 0.6


def test_words_are_told_apart():
    rng = np.random.default_rng(3)
    x0 = rng.normal(size=300)
    real = np.where(x0 + 0.3 * rng.normal(size=300) > 0, "up", "down").astype(object)
    others = [(x0, None, True)]
    assert exchange_test([(np.concatenate([real, real[rng.permutation(300)]]), None, False)], others).p <= 0.01
    again = np.where(x0 + 0.3 * rng.normal(size=300) > 0, "up", "down").astype(object)
    assert exchange_test([(np.concatenate([real, again]), None, False)], others).p > 0.05


def test_rows_of_a_group_are_exchanged_together():
    """30 groups of 10 equal rows hold 30 comparisons, not 300: the level is kept with groups and lost without."""
    rng, doubted = np.random.default_rng(4), np.zeros(2)
    block = np.repeat(np.arange(30), 10)
    for _ in range(60):
        x0, real, drawn = (rng.normal(size=30)[block] for _ in range(3))
        doubted += [told(real, drawn, x0, block=some).p <= 0.05 for some in (block, None)]
    assert doubted[0] <= 10  # of 60 at 5%: more have probability 0.0002
    assert doubted[1] >= 30


def test_where_nothing_can_be_said():
    x = np.arange(30.0)
    assert np.isnan(told(x[:19], x[:19], x[:19]).p)  # too few rows
    assert np.isnan(told(x, x).p)  # given nothing
    assert np.isnan(told(x, x, x).p)  # nothing was changed
    assert np.isnan(told(x, x[::-1], x, block=np.arange(30) // 2).p)  # 15 groups
    assert np.isnan(told(np.ones(30), np.ones(30), x, block=np.arange(30)).p)  # a constant has no scores


def impact(sampler, n=300, seed=5, **options):
    rng = np.random.default_rng(seed)
    x0, x1 = bent(n, rng)
    X, y = pd.DataFrame({"a": x0, "b": x1}), x0**2 + rng.normal(size=n)
    options = {"loss": "squared_error", "random_state": 0, "progress": False} | options
    return ll.conditional_predictive_impact(lambda X: 0.7 * X["b"].to_numpy(), X, y, sampler, **options)


def straight(X, columns, rng):
    """A regression line plus residuals from anywhere."""
    (j,) = columns
    other = X.drop(columns=j).to_numpy()
    mean = LinearRegression().fit(other, X[j]).predict(other)
    return X.assign(**{j: mean + rng.permutation(X[j].to_numpy() - mean)})


def test_no_p_value_is_printed_without_the_warning(tmp_path):
    """b is drawn as if its mean were a line: every view of p says that the sampler is in doubt."""
    found = impact(straight)
    told, b = found.conditioning[1], "rawn values differ from real ones given the other columns (a test "
    assert told.recognised_p <= 0.05
    assert told.in_doubt
    line = next(line for line in repr(found).splitlines() if line.startswith("  b "))
    assert line.endswith("(sampler in doubt)")
    assert f"b: d{b}" in repr(found)
    assert "(sampler in doubt)" in found._repr_html_()
    assert b in found._repr_html_()
    for frame in (found.to_frame(), found.test(), found.test(None)):
        texts = dict(zip(frame["feature"], frame["caution"], strict=True))
        assert texts["b"] == "doubtful draws"
    assert "a test recognises the drawn value in " in repr(told)
    assert f"b: d{b}" in caption(looked_at(found.plot()))
    assert f"Of b: d{b}" in found.difference("a", "b").caution
    assert (found.ranks()["caution"] == "doubtful draws").any()
    found.save(tmp_path / "impact.zip")
    assert repr(ll.load(tmp_path / "impact.zip")) == repr(found)


def test_nothing_is_said_of_a_sampler_that_is_right():
    def right(X, columns, rng):
        spread = 0.3 + np.abs(X["a"])
        return X.assign(b=X["a"] ** 2 + spread * rng.normal(size=len(X)))

    found = impact(right, features=["b"])
    assert found.caution == ("",)
    assert "doubt" not in repr(found)
    assert found.conditioning[0].recognised_p > 0.05
    assert found.to_frame()["caution"].tolist() == [""]


def test_folds_with_doubted_draws_are_counted():
    """A right sampler is doubted in 5% of the folds: 2 of 5 or more in 2.3% of the cases, 1 or more in 23%; 3 of 10 or
    more in 1.2%, 2 or more in 8.6%."""
    assert not doubted_folds(0, 5)
    assert not doubted_folds(1, 5)
    assert doubted_folds(2, 5).startswith("Drawn values differ from real ones in 2 of 5 folds")
    assert not doubted_folds(2, 10)
    assert doubted_folds(3, 10)
    rng = np.random.default_rng(8)
    x0, x1 = bent(900, rng)
    X, y = pd.DataFrame({"a": x0, "b": x1}), x1 + rng.normal(size=900)
    ask = {"loss": "squared_error", "cv": 3, "random_state": 0}
    for donors, wrong in ((straight, True), ("auto", False)):
        found = ll.feature_importance_cv(LinearRegression(), X, y, donors=donors, **ask)
        for frame in (found.test(), found.to_frame(), found.ranks()):
            assert (frame.set_index("feature")["caution"]["b"] == "doubtful draws") == wrong
        apart, curve = found.difference("a", "b"), found.curve("b")
        for text in (repr(found), apart.caution, repr(apart), curve.caution, curve._repr_html_()):
            assert ("rawn values differ" in text) == wrong
        for ax in (found.plot(), curve.plot()):
            assert ("rawn values differ" in caption(looked_at(ax))) == wrong


@pytest.mark.parametrize(
    "sampler", [ll.Residual(), ll.Residual(given=["a"], m=3), straight], ids=["default", "given", "function"]
)
def test_importances_know_of_it_too(sampler):
    """`feature_importance` compares the same draws: an importance given the others is in doubt where they differ."""
    rng = np.random.default_rng(6)
    x0, x1 = bent(300, rng)
    X = pd.DataFrame({"a": x0, "b": x1})
    found = ll.feature_importance(
        lambda X: X["b"].to_numpy(), X, x1, loss="squared_error", donors=sampler, features="b", random_state=0
    )["b"]
    assert found.conditioning.in_doubt == (sampler is straight)
    assert ("drawn values differ" in found.caution.lower()) == (sampler is straight)
    table = ll.feature_importance(
        lambda X: X["b"].to_numpy(), X, x1, loss="squared_error", donors=sampler, random_state=0
    ).test()
    assert (table.set_index("feature")["caution"]["b"] == "doubtful draws") == (sampler is straight)
