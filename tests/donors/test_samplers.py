"""Values drawn given other columns: against what theory says of Gaussian linear models, and by hand."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import explained_variance_score, make_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import losslens as ll
from losslens.donors import leaves
from losslens.tables.frames import as_table
from losslens.tables.numbers import Numbers

SLOPES = np.array([1.0, 2.0, 3.0])


def line(X):
    return np.asarray(X, float) @ SLOPES


def gaussian(n, rho=0.6, seed=0):
    C = np.full((3, 3), rho) + (1 - rho) * np.eye(3)
    rng = np.random.default_rng(seed)
    X = rng.multivariate_normal(np.zeros(3), C, n)
    return X, line(X) + rng.normal(size=n), C


@pytest.mark.parametrize("sampler", [ll.Within(), ll.Residual(LinearRegression())], ids=repr)
def test_conditional_importance_of_a_gaussian_line(sampler):
    """Replacing x_j by a draw x'_j given the rest changes the error of f = b x by b_j (x_j - x'_j), independent of y's
    noise. Given the rest both have variance v_j = var(X_j | rest) and are independent: 2 b_j^2 v_j, and v_j is 1 over
    the j-th diagonal entry of the inverse covariance matrix. Within 5% at n = 20,000."""
    X, y, C = gaussian(20_000)
    truth = 2 * SLOPES**2 / np.diag(np.linalg.inv(C))
    found = ll.feature_importance(line, X, y, loss="squared_error", donors=sampler, random_state=0)
    pfi = np.array([one.pfi for one in found.values()])
    assert np.abs(pfi / truth - 1).max() < 0.05
    assert all(
        low < t < high for one, t in zip(found.values(), truth, strict=True) for low, high in [one.interval(0.999)]
    )


@pytest.mark.parametrize("sampler", [ll.Within, ll.Residual], ids=lambda s: s.__name__)
def test_a_column_is_not_drawn_given_itself(sampler):
    """Given itself it would never change: an importance of 0."""
    X, y, _ = gaussian(300)
    asked = {"loss": "squared_error", "features": "x0", "random_state": 0}
    found, plain = (
        ll.feature_importance(line, X, y, donors=sampler(given=given), **asked)["x0"]
        for given in (["x0", "x1"], ["x1"])
    )
    assert found.pfi == plain.pfi > 0.5
    assert found.conditioning.given == ("x1",)


def test_draws_given_coalitions_say_how_far_off_they_are():
    """Two draws a row, 120 seeds: the variance that they state is that of the seeds, on average over the players.

    Of two numbers the variance is their squared difference over 2: without the correction by n - 1 it would be half.
    """
    X, y, _ = gaussian(40)
    found = [
        ll.shapley_importance(line, X, y, loss="squared_error", donors=ll.Within(m=2), random_state=s)
        for s in range(120)
    ]
    stated = np.mean([one.monte_carlo_error**2 for one in found], axis=0)
    spread = np.var([one.sfimp for one in found], axis=0, ddof=1)
    assert 0.7 < np.median(stated / spread) < 1.5


@pytest.mark.parametrize("sampler", [ll.Within, ll.Residual], ids=lambda s: s.__name__)
def test_importance_relative_to_some_columns(sampler):
    """Given G alone the truth is 2 b_j^2 var(X_j | X_G): 1 - rho^2 given one other column, 1 given none (then it is the
    permutation importance)."""
    X, y, _ = gaussian(20_000)
    for given, share in ((["x1"], 1 - 0.36), ([], 1.0)):
        found = ll.feature_importance(
            line, X, y, loss="squared_error", features="x0", donors=sampler(given=given), random_state=0
        )["x0"]
        assert found.pfi == pytest.approx(2 * share, rel=0.05)
        assert found.conditioning.given == tuple(given)
        assert found.conditioning.explained == pytest.approx(1 - share, abs=0.03)


@pytest.mark.parametrize("sampler", [ll.Within(), ll.Residual(LinearRegression())], ids=repr)
def test_conditional_shapley_shares_of_a_gaussian_line(sampler):
    """Two features, f = b1 x1 + b2 x2, correlation r. With nothing known the error grows by 2 var f; with x1 known, x2
    is drawn given it: 2 b2^2 (1 - r^2). So phi_1 = ((2 var f - 2 b2^2 (1 - r^2)) + 2 b1^2 (1 - r^2)) / 2: a feature
    earns what it tells of the other one, too."""
    r, b, n = 0.8, np.array([1.0, 2.0]), 20_000
    rng = np.random.default_rng(1)
    X = rng.multivariate_normal([0, 0], [[1, r], [r, 1]], n)
    y = X @ b + rng.normal(size=n)
    whole, alone = 2 * (b @ [[1, r], [r, 1]] @ b), 2 * b**2 * (1 - r**2)
    truth = np.array([(whole - alone[1] + alone[0]) / 2, (whole - alone[0] + alone[1]) / 2])
    shap = ll.shapley_importance(lambda X: X @ b, X, y, loss="squared_error", donors=sampler, random_state=0)
    np.testing.assert_allclose(shap.sfimp, truth, rtol=0.05)
    assert shap.sfimp.sum() == pytest.approx(shap.error_none - shap.error_all, abs=1e-9)
    np.testing.assert_allclose(shap.local.mean(axis=0), shap.sfimp)
    np.testing.assert_allclose(shap.observations, shap.local.sum(axis=1))
    low, high = shap.interval(0.999)
    assert (low < truth).all()
    assert (truth < high).all()


def test_many_players_are_shared_out_along_orders():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 11))
    y = X[:, 0] + X[:, 1] + rng.normal(size=120) * 0.1
    shap = ll.shapley_importance(
        lambda X: X[:, 0] + X[:, 1], X, y, loss="squared_error", donors=ll.Within(), budget=30_000, random_state=0
    )
    assert "cyclic orders" in shap.method
    assert shap.sfimp[:2] == pytest.approx([2, 2], rel=0.35)
    assert np.abs(shap.sfimp[2:]).max() < 0.35
    assert (shap.monte_carlo_error > 0).any()


def test_within_is_the_mean_over_pairs_of_one_leaf():
    """By hand: rows of one value of g lend to each other, all pairs of different rows, rows counting alike."""
    rng = np.random.default_rng(3)
    g = np.repeat([0.0, 1.0, 2.0], [5, 8, 11])
    X = np.column_stack([rng.normal(size=24) + g, g])
    y = rng.normal(size=24)

    def f(X):
        return np.exp(X[:, 0]) * (1 + X[:, 1])

    tree = DecisionTreeRegressor(min_samples_leaf=2, max_leaf_nodes=3)
    found = ll.feature_importance(
        f, X, y, loss="squared_error", features={"x": ["x0"]}, donors=ll.Within(tree, given=["x1"]), random_state=0
    )["x"]
    base = (f(X) - y) ** 2
    local = []
    for i in range(24):
        donors = [k for k in range(24) if g[k] == g[i] and k != i]
        local.append(np.mean([(f(np.array([[X[k, 0], g[i]]]))[0] - y[i]) ** 2 - base[i] for k in donors]))
    np.testing.assert_allclose(found.local, local, rtol=1e-9, atol=1e-12)
    assert found.pfi == pytest.approx(np.mean(local))
    assert found.pi @ found.weights == pytest.approx(found.pfi)
    assert [len(one.at) for one in found.leaves.values()] == [5, 8, 11]
    assert list(found.leaves) == ["x1 ≤ 0.5", "x1 > 0.5 and x1 ≤ 1.5", "x1 > 1.5"]
    assert np.mean([one.pfi * len(one.at) for one in found.leaves.values()]) * 3 == pytest.approx(found.pfi * 24)


def test_leaves_of_a_discrete_column_hold_one_value_each():
    """Two values in a leaf would leave dependence in it: drawn values would differ from real ones given the others.

    The distributions of neighbouring values overlap, so that the fewest leaves that predict well join some of them.
    """
    pure, single = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        first = rng.integers(0, 5, 200)
        second = np.clip(first + rng.integers(-1, 2, 200), 0, 4).astype(float)
        others = np.column_stack([first, rng.normal(size=200)]).astype(np.float32)
        at = leaves.grown(None, others, second[:, None], seed).apply(others)
        pure.append(all(np.ptp(first[at == leaf]) == 0 for leaf in np.unique(at)))
        single.append(leaves.grown(None, others, rng.normal(size=(200, 1)), seed) is None)
    assert sum(pure) >= 17
    assert sum(single) >= 12  # where nothing is explained, donors come from all rows


def test_the_share_that_leaves_explain():
    """1 - sum of squares within leaves / sum of squares, of columns of mean 0."""
    from losslens.donors.samplers import _share_explained

    rng = np.random.default_rng(0)
    leaf = rng.integers(0, 7, 200)
    leaf[leaf == 3] = 4  # a leaf without rows
    target = rng.normal(size=(200, 2)) + 0.7 * leaf[:, None]
    target -= target.mean(axis=0)
    means = np.stack([target[leaf == one].mean(axis=0) for one in leaf])
    assert _share_explained(target, leaf) == pytest.approx(
        1 - np.square(target - means).sum() / np.square(target).sum()
    )
    assert _share_explained(np.zeros((200, 1)), leaf) == 0.0


def test_residuals_by_hand():
    """Rows that nothing tells apart meet the residuals of all others: x_hat_i + r_k, x_hat of a model that has not seen
    the row."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 2))
    X[:, 0] += X[:, 1]
    y = rng.normal(size=40)
    drawn = []

    class Mean:
        """A regressor that says 2 whatever it is asked."""

        def fit(self, X, y):
            return self

        def predict(self, X):
            drawn.append(len(X))
            return np.full(len(X), 2.0)

        def get_params(self, deep=False):
            return {}

    sampler = ll.Residual(Mean())
    lent = sampler.lend(Numbers(as_table(X)), [0], [1], 5, np.random.default_rng(0))
    assert sum(drawn) == 40  # each row once, out of its fold
    values = X[:, 0]  # a constant prediction plus a donor's residual (less their mean, that prediction's own)
    expected = 2 + (values - 2) - (values - 2).mean()
    np.testing.assert_allclose(lent.sources[0].array[40:].reshape(-1, 40).T, expected[lent.donors])
    assert (lent.donors != np.arange(40)[:, None]).all()
    found = ll.feature_importance(
        lambda X: X[:, 0] ** 2, X[:, :1], y, loss="squared_error", donors=ll.Residual(), random_state=0
    )["x0"]
    cells = (X[:, 0] ** 2 - y[:, None]) ** 2 - ((values**2 - y) ** 2)[:, None]  # given nothing: all others are donors
    np.testing.assert_allclose(found.local, cells.sum(axis=1) / 39)


def test_a_curve_with_an_uneven_spread():
    """x1 = sin(2 x0) + s(x0) e, f = 2 x1: the importance given x0 is 2 b^2 E s^2, as a draw and the value differ by
    s (e - e'). For s = .3 + |x0|, E s^2 = .09 + .6 E|x0| + 1. Within 15% at n = 1,000."""
    rng, n = np.random.default_rng(7), 1000
    x0, e = rng.normal(size=(2, n))
    for spread, truth in ((0.3, 0.09), (0.3 + np.abs(x0), 1.09 + 0.6 * np.sqrt(2 / np.pi))):
        X = np.column_stack([x0, np.sin(2 * x0) + spread * e])
        found = ll.feature_importance(
            lambda X: 2 * X[:, 1], X, 2 * X[:, 1], loss="squared_error", donors=ll.Residual(), features=[1],
            random_state=0,
        )["x1"]  # fmt: skip
        assert found.pfi == pytest.approx(8 * truth, rel=0.15)
        assert not found.conditioning.in_doubt


def frame(n=300):
    rng = np.random.default_rng(2)
    data = pd.DataFrame({"a": rng.normal(size=n), "count": rng.poisson(20, n)})
    data["b"] = np.where(rng.random(n) < 0.1, np.nan, data.a + rng.normal(size=n))
    data["word"] = pd.Categorical(np.where(data.a > 0, "up", rng.choice(["down", "level"], n)))
    data["flag"] = rng.random(n) < 0.5
    return data, seen(data) + rng.normal(size=n)


def seen(X):
    X = X.to_pandas() if hasattr(X, "to_pandas") else X
    found = X["a"] + X["b"].fillna(-1) + X["count"] / 10 + X["flag"] + (X["word"].astype(str) == "up")
    return np.asarray(found, float)


@pytest.mark.parametrize(
    "sampler",
    [ll.Within(), ll.Residual(LinearRegression(), LogisticRegression(max_iter=2000), m=4)],
    ids=["within", "residual"],
)
def test_every_kind_of_column_in_every_kind_of_table(sampler):
    """Types reach the model unchanged (it would raise), drawn words and whole numbers are such as occur, and the answer
    does not hang on the kind of table."""
    X, y = frame()
    kinds = dict(X.dtypes)
    told = []

    def model(table):
        if isinstance(table, pd.DataFrame):
            assert dict(table.dtypes) == kinds
            assert set(table["word"]) <= {"up", "down", "level"}
            told.append(table["b"].isna().mean())
        return seen(table)

    asked = {"loss": "squared_error", "donors": sampler, "random_state": 0, "features": [*X.columns]}
    pandas = ll.feature_importance(model, X, y, **asked)
    polars = ll.feature_importance(seen, pl.from_pandas(X), y, **asked)
    for name, one in pandas.items():
        assert one.pfi == pytest.approx(polars[name].pfi, rel=1e-9)
        assert one.std_error > 0 or name == "word"  # which tells "up" by a alone
        assert one.pi @ one.weights == pytest.approx(one.pfi)
    assert 0 < np.mean(told) < 0.3
    group = ll.feature_importance(seen, X, y, **asked | {"features": {"both": ["a", "word", "b"], "a": ["a"]}})
    assert group["both"].pfi > group["a"].pfi


def test_words_are_drawn_given_the_rest():
    """word is "up" where a > 0 and never "up" elsewhere: a draw given a moves "down" and "level" alone."""
    X, y = frame()
    asked = {"loss": "squared_error", "features": "word", "random_state": 0}
    assert ll.feature_importance(seen, X, y, donors=ll.Within(), **asked)["word"].pfi == pytest.approx(0, abs=0.02)
    assert ll.feature_importance(seen, X, y, donors=ll.Residual(), **asked)["word"].pfi < 0.1
    assert ll.feature_importance(seen, X, y, **asked)["word"].pfi > 0.3


def test_a_function_of_the_users_own_draws_too():
    """Drawing by any permutation is the permutation importance; its error is of rows alone."""
    X, y, _ = gaussian(2_000)

    def shuffled(X, columns, rng):
        assert columns == [0]
        return X[rng.permutation(len(X))]

    asked = {"loss": "squared_error", "features": "x0", "random_state": 0}
    found = ll.feature_importance(line, X, y, donors=shuffled, **asked)["x0"]
    assert found.pfi == pytest.approx(ll.feature_importance(line, X, y, **asked)["x0"].pfi, abs=4 * found.std_error)
    assert found.std_error == pytest.approx(found.local.std(ddof=1) / np.sqrt(2_000))
    assert "shuffled" in repr(found)
    with pytest.raises(ValueError, match="sampler gave 3 rows for 2000"):
        ll.feature_importance(line, X, y, donors=lambda X, columns, rng: X[:3], **asked)


def test_samplers_are_functions_that_keep_other_columns():
    X, _ = frame()
    for sampler in (ll.Within(), ll.Residual()):
        drawn = sampler(X, ["b"], np.random.default_rng(0))
        pd.testing.assert_frame_equal(drawn.drop(columns="b"), X.drop(columns="b"))
        assert not drawn["b"].equals(X["b"])
        cpi = ll.conditional_predictive_impact(
            seen, X, X["a"], sampler, loss="squared_error", features=["b", "flag"], random_state=0
        )
        assert cpi.importance.shape == (2,)


def test_results_are_regrouped_saved_and_drawn(tmp_path):
    X, y, _ = gaussian(400)
    found = ll.feature_importance(line, X, y, loss="squared_error", donors=ll.Within(), random_state=0)
    one = found["x0"]
    half = np.arange(200)
    assert one.given(half).pfi == pytest.approx(one.local[half].mean())
    subset = one.subset(half)
    assert len(subset.conditioning.leaf) == 200
    assert subset.leaves.keys() <= one.leaves.keys()
    found.save(tmp_path / "given.losslens")
    back = ll.load(tmp_path / "given.losslens")["x0"]
    assert repr(back.conditioning) == repr(one.conditioning)
    assert back.interval() == one.interval()
    assert repr(back.design) == "Within()"
    assert "x0 drawn given the other columns, which explain" in repr(one.conditioning)
    one.plot()
    found.plot()


def test_drawn_rows_look_like_real_ones():
    """Where replacing x0 from everywhere gives rows that are told from real ones (correlation 0.9), a draw given the
    others gives rows that are not."""
    X, y, _ = gaussian(2_000, rho=0.9)
    asked = {"loss": "squared_error", "features": "x0", "random_state": 0}
    assert ll.feature_importance(line, X, y, **asked)["x0"].extrapolation.warns
    for sampler in (ll.Within(), ll.Residual(LinearRegression())):
        found = ll.feature_importance(line, X, y, donors=sampler, **asked)["x0"].extrapolation
        assert not found.warns
        assert found.share < 0.02


def test_rows_of_weight_zero_neither_lend_nor_teach():
    """20 rows far out, of weight 0: every number is as if they were not there (the same draws are not, so closely)."""
    X, y, _ = gaussian(600)
    far = np.concatenate([X, X[:20] * 1000])
    weight = np.append(np.ones(600), np.zeros(20))
    target = np.append(y, y[:20])
    for sampler in (ll.Within(m=60), ll.Residual(LinearRegression(), m=60)):
        ask = {"loss": "squared_error", "donors": sampler, "random_state": 0}
        one = ll.feature_importance(line, far, target, sample_weight=weight, **ask)
        other = ll.feature_importance(line, X, y, **ask)
        np.testing.assert_allclose(one.local[:600].mean(axis=0), other.local.mean(axis=0), rtol=0.15)
        shared = ll.shapley_importance(line, far, target, sample_weight=weight, **ask)
        np.testing.assert_allclose(shared.sfimp, ll.shapley_importance(line, X, y, **ask).sfimp, rtol=0.15)
        np.testing.assert_allclose(shared.given(np.arange(620)).sfimp, shared.sfimp)
        ask = {"loss": "squared_error", "random_state": 0, "draws": 20}
        one = ll.conditional_predictive_impact(line, far, target, sampler, sample_weight=weight, **ask)
        other = ll.conditional_predictive_impact(line, X, y, sampler, **ask)
        np.testing.assert_allclose(one.importance, other.importance, rtol=0.2)


def test_more_draws_than_a_leaf_has_rows_change_no_mean():
    """Leaves of two rows: the one donor is all there is, however often values are drawn."""
    X, y, _ = gaussian(200)
    sampler = ll.Within(DecisionTreeRegressor(min_samples_leaf=2))
    few, many = (
        ll.conditional_predictive_impact(
            line, X, y, sampler, loss="squared_error", features="x0", draws=draws, random_state=0
        ).importance[0]
        for draws in (1, 20)
    )
    assert many == pytest.approx(few, rel=0.35)
    with pytest.raises(ValueError, match="every leaf of the tree holds one row"):
        ll.feature_importance(line, X, y, loss="squared_error", donors=ll.Within(DecisionTreeRegressor()))


def test_shares_hang_on_names_and_not_on_places():
    X, y, _ = gaussian(200)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])

    def model(X):
        return line(X[["a", "b", "c"]].to_numpy())

    ask = {"loss": "squared_error", "donors": ll.Within(m=5), "random_state": 0}
    one = ll.shapley_importance(model, frame, y, **ask)
    other = ll.shapley_importance(model, frame[["c", "a", "b"]], y, **ask)
    np.testing.assert_allclose(one.sfimp, other.sfimp[[1, 2, 0]], rtol=1e-9)


def test_whole_numbers_with_gaps_and_dates_beside():
    rng = np.random.default_rng(0)
    n = 400
    a = rng.normal(size=n)
    count = pd.array(rng.poisson(30 + 5 * a), dtype="Int64")
    count[::9] = pd.NA
    day = pd.date_range("2020-01-01", periods=n)
    X = pd.DataFrame({"a": a, "count": count, "day": day})

    def model(X):
        X = X.to_pandas() if hasattr(X, "to_pandas") else X
        return 5 * X["a"].to_numpy(float) + X["count"].astype("Float64").fillna(30).to_numpy(float)

    y = model(X) + rng.normal(size=n)
    ask = {"loss": "squared_error", "donors": ll.Residual(LinearRegression()), "random_state": 0}
    for table in (X, pl.from_pandas(X)):
        found = ll.feature_importance(model, table, y, features=["a", "count"], **ask)
        alone = ll.feature_importance(model, X[["a", "count"]], y, **ask)
        for name in ("a", "count"):  # the date tells nothing, however large its numbers are
            assert found[name].pfi == pytest.approx(alone[name].pfi, rel=0.05)
    tree = ll.Within(DecisionTreeRegressor(max_leaf_nodes=2), given=["day"])
    found = ll.feature_importance(
        model, X.assign(a=np.arange(n) / n), y, features="a", loss="squared_error", donors=tree
    )
    assert list(found["a"].leaves) == ["day ≤ 2020-07-18T12:00:00", "day > 2020-07-18T12:00:00"]


def test_places_of_drawn_values():
    """Numbers go to the nearest value, missing ones to a place of their own, words that nobody has nowhere."""
    X = np.column_stack([np.repeat(np.arange(0, 4, 0.25), 8), np.zeros(128)])

    def model(X):
        return X[:, 0]

    drawn = ll.feature_effect(
        model, X, features=[0], donors=ll.Residual(LinearRegression(), given=[], m=20), random_state=0
    )
    np.testing.assert_allclose(drawn["x0"].pd[1:-1], drawn["x0"].grid[1:-1], atol=0.13)

    def gaps(X, columns, rng):
        X = X.copy()
        X[::2, columns] = np.nan
        return X

    def known(X):
        return np.nan_to_num(X[:, 0], nan=100.0)

    curve = ll.feature_effect(known, X, features=[0], donors=gaps, random_state=0)["x0"]
    assert np.isnan(curve.grid[-1])
    assert curve.pd[-1] == 100
    assert curve.weights[-1] == pytest.approx(0.5)
    words = pd.DataFrame({"w": ["a", "b"] * 20, "v": range(40)})
    with pytest.raises(ValueError, match="the sampler drew 'zzz' for 'w', which occurs in no row"):
        ll.feature_importance(
            lambda X: X["v"].to_numpy(float), words, np.arange(40.0), loss="squared_error", features="w",
            donors=lambda X, columns, rng: X.assign(w="zzz"),
        )  # fmt: skip


def test_estimators_inside_pipelines_are_seeded():
    X, y, _ = gaussian(200)
    sampler = ll.Residual(make_pipeline(StandardScaler(), RandomForestRegressor(3)))
    ask = {"loss": "squared_error", "features": "x0", "donors": sampler, "random_state": 1}
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (ll.feature_importance(line, X, y, **ask)["x0"].pfi for _ in range(2))
    assert first == second
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_groups_lend_nothing_to_themselves():
    X, y, _ = gaussian(400)
    groups = np.arange(400) // 4
    found = ll.feature_importance(
        line, X, y, loss="squared_error", features="x0", donors=ll.Within(), groups=groups, random_state=0
    )["x0"]
    met = found.layout.weights(found.sample, np.arange(400)) > 0
    donors = np.asarray(found.layout.donors)
    assert (groups[donors[met]] != np.repeat(groups, met.sum(axis=1))).all()
    assert found.std_error > 0


def test_groups_that_are_alike_still_have_donors():
    """x0 is known from a column that a whole group shares: the most similar rows are those of the group itself."""
    groups = np.arange(400) // 20
    shared = np.random.default_rng(0).normal(size=20)[groups]
    X = np.column_stack([shared + 0.1 * np.random.default_rng(1).normal(size=400), shared])
    one = ll.feature_importance(
        lambda X: X[:, 0], X, X[:, 0], loss="squared_error", features=[0], donors=ll.Residual(), groups=groups,
        random_state=0,
    )["x0"]  # fmt: skip
    assert (one.layout.weights(one.sample, np.arange(400)) > 0).any(axis=1).all()
    assert one.std_error > 0


def test_intervals_cover_the_truth():
    """100 samples, 95% intervals, nominal coverage within the noise of 100 draws (3.5 standard errors): the regression
    is right, so the truth is 2 b^2 var(X_0 | X_1) = 2 (1 - .64). `benchmarks.conditional` takes 1,000."""
    hit, n = 0, 100
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], n)
        y = X @ SLOPES[:2] + rng.normal(size=n)
        sampler = ll.Residual(LinearRegression(), m=10)
        low, high = ll.feature_importance(
            lambda X: X @ SLOPES[:2], X, y, loss="squared_error", features="x0", donors=sampler, random_state=seed
        )["x0"].interval()
        hit += low <= 0.72 <= high
    assert hit / 100 > 0.95 - 3.5 * np.sqrt(0.95 * 0.05 / 100)


def test_plans_say_what_draws_take():
    X, y, _ = gaussian(500)
    asked = {"loss": "squared_error", "donors": ll.Within(m=5), "random_state": 0}
    assert ll.plan(ll.feature_importance, line, X, y, **asked).n_predictions >= 3 * 500
    plan = ll.plan(ll.shapley_importance, line, X, y, **asked)
    assert plan.n_predictions == ll.shapley_importance(line, X, y, **asked).n_predictions
    assert "drawn given the kept ones" in repr(plan)


def test_numbers_of_a_table():
    table = as_table(pd.DataFrame({"n": [1.0, np.nan, 3.0], "w": ["a", None, "b"], "t": [True, False, True]}))
    matrix, axes = Numbers(table).of([0, 1, 2])
    np.testing.assert_array_equal(matrix, [[1, 0, 1, 0, 0, 1], [2, 1, 0, 0, 1, 0], [3, 0, 0, 1, 0, 1]])
    assert [axis.rule(0.5, above=True) for axis in axes] == [
        "n > 0.5", "n is missing", "w = a", "w = b", "w is missing", "t > 0.5",
    ]  # fmt: skip


def test_a_classification_tree_draws_words():
    X, y = frame()
    tree = DecisionTreeClassifier(min_samples_leaf=20)
    found = ll.feature_importance(
        seen, X, y, loss="squared_error", features="word", donors=ll.Within(tree), random_state=0
    )
    assert found["word"].pfi == pytest.approx(0, abs=0.02)


def test_what_can_not_be_drawn_is_said():
    X, y = frame()
    X["day"] = pd.date_range("2020-01-01", periods=len(X))
    ask = {"loss": "squared_error", "random_state": 0}
    with pytest.raises(ValueError, match="'day' holds dates, which Residual"):
        ll.feature_importance(seen, X, y, donors=ll.Residual(), features="day", **ask)
    with pytest.raises(ValueError, match="unknown feature 'z'"):
        ll.feature_importance(seen, X, y, donors=ll.Within(given=["z"]), **ask)
    with pytest.raises(TypeError, match=r"or a sampler: Within\(\), Residual\(\); got <class"):
        ll.feature_importance(seen, X, y, donors=ll.Within, **ask)
    with pytest.raises(TypeError, match="tree is a scikit-learn decision tree"):
        ll.Within(3)
    with pytest.raises(TypeError, match="regressor is an estimator with fit and predict"):
        ll.Residual("linear")
    with pytest.raises(TypeError, match="given is a list of columns"):
        ll.Within(given="a")
    with pytest.raises(ValueError, match="m is a whole number of donors"):
        ll.Residual(m=0)
    with pytest.raises(ValueError, match="needs a grid"):
        ll.feature_importance(seen, X, y, donors=ll.Within(), features=[("a", "b")], **ask)
    with pytest.raises(ValueError, match="leave out method"):
        ll.shapley_importance(seen, X, y, donors=ll.Within(), method="walk", **ask)
    fitted, scorer = LinearRegression().fit(X[["a"]], y), make_scorer(explained_variance_score)
    with pytest.raises(ValueError, match="needs a loss, not a scorer"):
        ll.feature_importance(fitted, X[["a"]], y, donors=ll.Within(), loss=scorer)
    with pytest.raises(ValueError, match="no leaves"):
        ll.feature_importance(seen, X, y, features="a", **ask)["a"].leaves  # noqa: B018


def test_no_row_has_its_own_residual():
    """A neighbourhood has few rows: with its own residual among them a row would change by a tenth less."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60, 2)), rng.integers(0, 3, 60)])
    found = ll.feature_importance(
        lambda X: X[:, 0] + X[:, 1] * X[:, 2], X, X[:, 1], loss="squared_error", donors=ll.Residual(), random_state=0
    )
    assert (np.asarray(found["x0"].layout.donors) != np.arange(60)[:, None]).all()
    assert found["x0"].unbiased == found["x0"].pfi
    assert found["x2"].unbiased == found["x2"].pfi


def test_sixty_rows_can_be_split_in_two_leaves_and_fewer_can_not():
    """A third is held out; of the other 40 rows each leaf has its 20."""
    for n, count in ((60, 2), (57, 1)):
        held = np.random.default_rng(5).permutation(n) % leaves.HELD_OUT == 0
        x = np.empty(n)
        x[~held], x[held] = np.arange((~held).sum()) % 2, np.arange(held.sum()) % 2
        assert leaves._best_count(x[:, None], x, 5) == count


@pytest.mark.parametrize("groups", [2, 3, 4])
def test_fewer_groups_than_folds_can_be_drawn_too(groups):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60, 2)), rng.integers(0, 3, 60)])
    found = ll.feature_importance(
        lambda X: X[:, 0], X, X[:, 0] + X[:, 1], loss="squared_error", donors=ll.Residual(),
        groups=np.arange(60) % groups, random_state=0,
    )  # fmt: skip
    assert found["x0"].pfi > 0
    assert found["x2"].pfi == 0


@pytest.mark.parametrize("weight", [np.arange(60) < 12, np.arange(60) % 3 != 1], ids=["few", "one level less"])
def test_values_and_folds_without_rows_that_count(weight):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), np.arange(60) % 3 == 1])
    found = ll.feature_importance(
        lambda X: X[:, 0], X, X[:, 0] + rng.normal(size=60), loss="squared_error", donors=ll.Residual(),
        sample_weight=weight.astype(float), random_state=0,
    )  # fmt: skip
    assert np.isfinite(found["x0"].pfi)
    assert found["x1"].pfi == 0


def test_within_columns_takes_donors_with_the_same_values():
    X = pd.DataFrame({"a": np.arange(8.0), "hour": [0, 1] * 4, "day": list("xxxxyyyy")})
    drawn = ll.Within(["hour", "day"])(X, ["a"], np.random.default_rng(0))["a"].to_numpy(int)
    assert (drawn != np.arange(8)).all()
    for column in ("hour", "day"):
        assert (X[column].to_numpy()[drawn] == X[column]).all()
    assert repr(ll.Within("hour")) == "Within('hour')"
    assert ll.Within("hour").given == ["hour"]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ll.Within("hour", given=["day"]), ValueError, r"given=\['day'\] is what a tree splits on"),
        (
            lambda: ll.Within(True),
            TypeError,
            "decision tree, with fit and apply, or a column, or a list of columns; got bool",
        ),
        (
            lambda: ll.Within("a")(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), ["b"], None),
            ValueError,
            "same values there",
        ),
        (lambda: ll.Within("hours")(pd.DataFrame({"hour": [1, 1], "b": [3, 4]}), ["b"], None), ValueError, "'hour'"),
    ],
)
def test_within_columns_that_do_not_work(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_the_headline_of_several_features_names_all_columns_that_they_are_drawn_given():
    """The column itself is drawn given nothing, and is the first feature."""
    table = pd.DataFrame({"hour": np.arange(40) % 4, "b": np.arange(40.0), "c": np.arange(40) % 3})

    def headline(features=None, columns="hour"):
        found = ll.feature_importance(
            lambda X: X["b"], table, table["b"], loss="squared_error", features=features, donors=ll.Within(columns, m=3)
        )
        return found.headline

    assert "values drawn given hour, each feature without its own;" in headline()
    assert "values drawn given hour;" in headline(["b", "c"])
    assert "values drawn given nothing;" in headline(["hour"])
    assert "values drawn given c, hour, each feature without its own;" in headline(columns=["hour", "c"])
