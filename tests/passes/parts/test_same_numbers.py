"""Data larger than memory: part by part the same numbers as in memory."""

import os
import re

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

import losslens as ll
from losslens.passes.parts import reading, results

RNG = np.random.default_rng(0)
N = 2600
X = pd.DataFrame(
    {
        "many": RNG.normal(size=N),  # more values than are counted one by one
        "few": RNG.integers(0, 5, N),
        "gaps": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N).round(1)),
        "kind": pd.Categorical(RNG.choice(list("uvw"), N)),
    }
)
SIGNAL = X["many"] * X["few"] + X["gaps"].fillna(1) ** 2 + (X["kind"] == "u")
Y = SIGNAL + RNG.normal(size=N) * 0.3
W = RNG.integers(0, 3, N).astype(float)
NUMBERS = ["many", "few", "gaps"]
TARGETS = {"y": Y, "label": Y > 0, "three": np.digitize(Y, [0, 1]), "count": np.maximum(Y, 0).round()}
SMALL = 265_000  # bytes: less than these rows take, with what is made of them


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streamed")
    for k, rows in enumerate(np.split(np.arange(N), [40, 41, 1700])):
        frame = X.iloc[rows].assign(**{name: np.asarray(y)[rows] for name, y in TARGETS.items()}, w=W[rows])
        frame["kind"] = frame["kind"].cat.remove_unused_categories()  # files have categories of their own
        frame.to_parquet(folder / f"{k}.parquet", row_group_size=500)
    return folder


def assert_same(streamed, whole, rtol=1e-9):
    """Every number of every feature; of single rows, those that were kept."""
    for name in streamed:
        one, other = streamed[name], whole[name]
        assert one.totals is not None
        assert other.totals is None
        assert one.exact
        for what in ("pfi", "error", "unbiased", "std_error", "ratio", "ratio_std_error", "p_value", "clipped"):
            np.testing.assert_allclose(getattr(one, what), getattr(other, what), rtol=rtol, atol=1e-12, err_msg=what)
        np.testing.assert_allclose(one.interval(), other.interval(), rtol=rtol)
        np.testing.assert_allclose(one.pi @ one.weights, one.pfi, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(one.local, other.local[one.totals.rows], rtol=rtol, atol=1e-10)
        assert len(one.rows) > 0
        if len(one.grid) == len(other.grid):
            np.testing.assert_allclose(one.pi, other.pi, rtol=rtol, atol=1e-10)
            np.testing.assert_allclose(one.weights, other.weights, rtol=rtol)
            np.testing.assert_allclose(one.ici, other.ici[one.totals.rows][one.rows], rtol=rtol, atol=1e-10)
        else:  # bins: the curve is that at their smallest values
            at = np.searchsorted(other.grid[~np.isnan(other.grid)], one.grid[~np.isnan(one.grid)])
            if one.engine == "trees":
                np.testing.assert_allclose(one.pi[: len(at)], other.pi[at], rtol=rtol, atol=1e-10)


MODELS = {
    "forest": lambda: RandomForestRegressor(8, min_samples_leaf=3, random_state=0),
    "boosting": lambda: HistGradientBoostingRegressor(max_iter=20, max_leaf_nodes=8),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=20, num_leaves=8, verbose=-1),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("weight", [None, "w"])
def test_trees_over_all_pairs(folder, name, weight):
    columns = list(X) if name == "lightgbm" else NUMBERS
    model = MODELS[name]().fit(X[columns], Y)
    weights = None if weight is None else W
    streamed = ll.feature_importance(model, folder, "y", sample_weight=weight, memory=SMALL, random_state=0)
    assert_same(streamed, ll.feature_importance(model, X[columns], Y, sample_weight=weights))
    assert streamed.engine == "trees"
    assert len(streamed["many"].grid) < N
    assert streamed["many"].totals.n == N


def test_sums_of_products_get_a_sample(folder):
    """Kernel machines have no closed form over parts: a sample is explained, and there are no curves."""
    model = make_pipeline(SimpleImputer(), KernelRidge(kernel="rbf", gamma=0.3)).fit(X[NUMBERS][:120], Y[:120])
    found = ll.feature_importance(model, folder, "y", memory=2 * SMALL, random_state=0, features="few")
    assert "a random sample of" in repr(found)
    with pytest.raises(ValueError, match=r"need trees or a linear model \(sums of products are not computed part"):
        ll.feature_effect(model, folder, memory=2 * SMALL, features="few")


def test_xgboost_to_its_own_precision(folder):
    model = xgboost.XGBRegressor(n_estimators=15, max_depth=3).fit(X[NUMBERS], Y)
    streamed = ll.feature_importance(model, folder, "y", memory=SMALL, random_state=0)
    assert_same(streamed, ll.feature_importance(model, X[NUMBERS], Y), rtol=1e-6)


def test_log_loss_of_categories(folder):
    model = HistGradientBoostingClassifier(max_iter=15, max_leaf_nodes=6, categorical_features="from_dtype")
    model.fit(X, Y > 0)
    streamed = ll.feature_importance(model, folder, "label", memory=SMALL, random_state=0)
    assert_same(streamed, ll.feature_importance(model, X, Y > 0))
    assert set(streamed["kind"].grid) == {"u", "v", "w"}
    np.testing.assert_allclose(streamed["few"].effect.pd, ll.feature_effect(model, X)["few"].pd)


def test_a_pipeline_before_trees(folder):
    steps = make_column_transformer((OneHotEncoder(), ["kind"]), (SimpleImputer(), ["gaps"]), remainder="passthrough")
    model = make_pipeline(steps, RandomForestRegressor(5, min_samples_leaf=5, random_state=0)).fit(X, Y)
    streamed = ll.feature_importance(model, folder, "y", memory=SMALL, random_state=0)
    assert_same(streamed, ll.feature_importance(model, X, Y))


@pytest.mark.parametrize("weight", [None, "w"])
def test_additive_models(folder, weight):
    steps = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["many", "gaps"]),
        (SplineTransformer(), ["few"]),
        (OneHotEncoder(), ["kind"]),
    )
    model = make_pipeline(steps, Ridge()).fit(X, Y)
    weights = None if weight is None else W
    streamed = ll.feature_importance(model, folder, "y", sample_weight=weight, memory=SMALL, random_state=0)
    whole = ll.feature_importance(model, X, Y, sample_weight=weights)
    assert_same(streamed, whole)
    assert streamed.engine == "additive"
    effect = ll.feature_effect(model, folder, memory=SMALL, sample_weight=weight)
    np.testing.assert_allclose(effect["few"].pd, ll.feature_effect(model, X, sample_weight=weights)["few"].pd)


def assert_same_inference(found, whole):
    """Intervals bent by skewness, tests, ranks and differences of two features."""
    np.testing.assert_allclose(found.interval(), whole.interval(), rtol=1e-8)
    np.testing.assert_allclose(found.estimates().covariance, whole.estimates().covariance, rtol=1e-8, atol=1e-16)
    np.testing.assert_allclose(found.estimates().cubes, whole.estimates().cubes, rtol=1e-6, atol=1e-20)
    for ask in (lambda result: result.test(), lambda result: result.ranks()):
        one, two = (ask(result).select_dtypes("number").to_numpy(float) for result in (found, whole))
        np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-14)
    one, two = (result.difference(*result.features[:2]) for result in (found, whole))
    np.testing.assert_allclose([one.low, one.high], [two.low, two.high], rtol=1e-7)


@pytest.mark.parametrize("weight", [None, "w"])
def test_shapley_importances_of_linear_models(folder, tmp_path, weight):
    model, weights = LinearRegression().fit(X[["many", "few"]], Y), None if weight is None else W
    found = ll.shapley_importance(model, folder, "y", sample_weight=weight, memory=SMALL)
    whole = ll.shapley_importance(model, X[["many", "few"]], Y, sample_weight=weights)
    for what in ("sfimp", "error_all", "error_none", "std_error", "unbiased", "share"):
        np.testing.assert_allclose(getattr(found, what), getattr(whole, what), rtol=1e-9, err_msg=what)
    np.testing.assert_allclose(found.interactions["many", "few"], whole.interactions["many", "few"])
    assert_same_inference(found, whole)
    found.save(tmp_path / "shares")
    assert repr(ll.load(tmp_path / "shares")) == repr(found)
    with pytest.raises(ValueError, match="comes from files and keeps no rows"):
        found.local  # noqa: B018


SHARED = {
    "boosting": (HistGradientBoostingRegressor(max_iter=20, max_leaf_nodes=8), NUMBERS, "y", "squared_error"),
    "classes": (HistGradientBoostingClassifier(max_iter=15, max_leaf_nodes=6, categorical_features="from_dtype"),
                list(X), "label", "log_loss"),
    "forest": (RandomForestClassifier(5, max_leaf_nodes=10, random_state=0), NUMBERS, "three", "brier"),
    "counts": (HistGradientBoostingRegressor(loss="poisson", max_iter=20, max_leaf_nodes=8), NUMBERS, "count",
               "poisson_deviance"),
    "logistic": (LogisticRegression(), ["many", "few"], "three", "log_loss"),
    "log link": (PoissonRegressor(), ["many", "few"], "count", "poisson_deviance"),
}  # fmt: skip


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("name", SHARED)
def test_shapley_importances_that_are_covariances(folder, tmp_path, name, weight):
    """Donors' patterns, or their sums inside a link, add up over parts."""
    learner, columns, target, loss = SHARED[name]
    y = TARGETS[target]
    model, weights = learner.fit(X[columns], y), None if weight is None else W
    found = ll.shapley_importance(model, folder, target, loss=loss, sample_weight=weight, memory=SMALL)
    whole = ll.shapley_importance(model, X[columns], y, loss=loss, sample_weight=weights, method="totals")
    assert found.method == whole.method == "covariance"
    for what in ("sfimp", "error_all", "error_none", "std_error", "unbiased"):
        np.testing.assert_allclose(getattr(found, what), getattr(whole, what), rtol=1e-9, err_msg=what)
    assert_same_inference(found, whole)
    found.save(tmp_path / "shares")
    assert_same_inference(ll.load(tmp_path / "shares"), whole)


def test_far_from_0_shares_lose_no_digits(tmp_path):
    """y is centred before it is summed: an offset of 10^6 changes nothing."""
    table = X[NUMBERS]
    found = []
    for offset in (0.0, 1e6):
        target = np.round(Y * 2**20) / 2**20 + offset  # sums are exact
        table.assign(y=target).to_parquet(tmp_path / "rows.parquet", row_group_size=500)
        model = HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=4).fit(table, target - offset)
        found.append(ll.shapley_importance(model, tmp_path / "rows.parquet", "y", memory=SMALL).sfimp)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


def test_log_losses_beyond_the_clipping_bound_are_no_covariances(folder):
    model = LogisticRegression().fit(X[["many", "few"]], Y > 0)
    model.coef_ = model.coef_ * 100
    with pytest.raises(ValueError, match="beyond the clipping bound of the log loss"):
        ll.shapley_importance(model, folder, "label", loss="log_loss", memory=SMALL)
    model.intercept_ = model.intercept_ * 0
    added = X[["many", "few"]].to_numpy() * model.coef_
    own, mixed = np.abs(added.sum(axis=1)).max(), np.abs([added.min(axis=0).sum(), added.max(axis=0).sum()]).max()
    model.coef_ = model.coef_ * (2 * 36.05 / (own + mixed))  # mixed rows only; -log(eps) = 36.04
    whole = ll.shapley_importance(model, X[["many", "few"]], Y > 0, method="totals")
    found = ll.shapley_importance(model, folder, "label", memory=SMALL)
    assert whole.remarks[-1] == found.remarks[-1]


def test_trees_whose_counts_are_larger_than_memory(folder):
    model = RandomForestRegressor(30, random_state=0).fit(X[NUMBERS], Y)
    with pytest.raises(ValueError, match=r"counts at the leaves of these trees take .*, more than memory= allows"):
        ll.shapley_importance(model, folder, "y", memory=SMALL)


def test_rows_of_weight_0_do_not_make_a_linear_model_exact(tmp_path):
    """Its sums lose the digits in which the others differ, as in memory."""
    table = pd.DataFrame({"a": np.where(W > 0, 1e9, 0) + X["many"], "b": X["few"]})
    model = LinearRegression().fit(table, Y)
    model.coef_, model.intercept_ = np.ones(2), 0.0
    table.assign(y=Y, w=W).to_parquet(tmp_path / "rows.parquet", row_group_size=500)
    parts = ll.feature_importance(model, tmp_path / "rows.parquet", "y", sample_weight="w", memory=SMALL)
    whole = ll.feature_importance(model, table, Y, sample_weight=W)
    assert "a random sample of" in repr(parts)
    assert (parts.engine, parts["a"].declined) == (whole.engine, whole["a"].declined)
    assert whole.engine == "blackbox"


def interacting(table):
    return np.asarray(table["many"]) * np.asarray(table["few"])


@pytest.mark.parametrize("features", [["few", "many", "gaps"], {"both": ["few", "many"], "gaps": ["gaps"]}])
def test_black_boxes_and_what_parts_do_not_have_get_a_random_sample(tmp_path, features):
    """Sorted files: the first rows that fit would all hold the same value."""
    rows = np.argsort(X["few"].to_numpy(), kind="stable")
    for value, frame in X.iloc[rows].assign(y=Y.iloc[rows], w=W[rows] + 1).groupby("few"):
        frame.to_parquet(tmp_path / f"{value}.parquet")
    options = {"features": features, "random_state": 0, "sample_weight": "w"}
    several = ll.feature_importance(
        interacting, tmp_path, "y", memory=SMALL, loss=["squared_error", "absolute_error"], **options
    )
    found = several["squared_error"]
    table = X.assign(w=W + 1)
    whole = ll.feature_importance(interacting, table, Y, loss="squared_error", **options)
    assert re.search(r"a random sample of [4-6]\d\d of 2,600 rows in files", repr(found))
    assert several["absolute_error"].error != found.error
    for name in features:
        assert abs(found[name].pfi - whole[name].pfi) <= 4 * found[name].std_error
        assert found[name].totals is None
    assert found["gaps"].pfi == 0.0  # a feature that the model ignores


def test_a_sample_holds_rows_of_the_files_with_their_targets(folder):
    """The model of each row's own y has no error, whether y is a column or in memory."""
    rows = pd.concat(X.iloc[at] for at in np.split(np.arange(N), [40, 41, 1700]))
    known = dict(zip(rows["many"], Y, strict=True))

    def model(table):
        return np.array([known[value] for value in table["many"]])

    for y in ("y", Y.to_numpy()):
        found = ll.feature_importance(
            model, folder, y, loss="squared_error", memory=300_000, features=["few"], donors="all", random_state=1
        )
        assert found.error == 0
        assert found["few"].pfi == 0
        assert "a random sample of" in repr(found)


def test_random_numbers_of_a_call(folder):
    options = {"loss": "squared_error", "memory": SMALL, "donors": ll.Latin(2), "features": ["many"]}
    one, two, other = (
        ll.feature_importance(interacting, folder, "y", random_state=seed, **options)["many"].pfi for seed in (0, 0, 1)
    )
    assert one == two != other


def test_y_from_elsewhere(folder, tmp_path):
    model = LinearRegression().fit(X[["many", "few"]], Y)
    named = ll.feature_importance(model, folder, "y", memory=SMALL)
    Y.to_frame("target").to_parquet(tmp_path / "y.parquet")
    for y in (Y.to_numpy(), Y.tolist(), str(tmp_path / "y.parquet"), pl.scan_parquet(tmp_path / "y.parquet")):
        found = ll.feature_importance(model, folder, y, memory=SMALL)
        assert [found[name].pfi for name in found] == [named[name].pfi for name in found]
    with pytest.raises(ValueError, match=r"y has 3 values, but X has 2,600 rows"):
        ll.feature_importance(model, folder, [1, 2, 3], memory=SMALL)
    with pytest.raises(ValueError, match=r"'z' is not a column of X"):
        ll.feature_importance(model, folder, "z", memory=SMALL)


def test_what_fits_is_loaded(folder):
    """Then everything is as with data in memory, for every verb."""
    model = LinearRegression().fit(X[["many", "few"]], Y)
    found = ll.feature_importance(model, folder, "y")
    assert found["many"].totals is None
    assert found["many"].pfi == ll.feature_importance(model, X[["many", "few"]], Y)["many"].pfi
    shared = ll.shapley_importance(model, folder, "y")
    np.testing.assert_allclose(shared.sfimp, ll.shapley_importance(model, X[["many", "few"]], Y).sfimp)


def test_results_can_be_saved_shown_and_plotted(folder, tmp_path):
    model = MODELS["forest"]().fit(X[NUMBERS], Y)
    found = ll.feature_importance(model, folder, "y", memory=SMALL, random_state=0)
    found.save(tmp_path / "result")
    again = ll.load(tmp_path / "result")
    assert repr(again) == repr(found)
    assert "2,600 rows, read in parts" in repr(found)
    assert again["many"].std_error == found["many"].std_error
    assert len(found.to_frame()) == 3
    assert found.difference("many", "few").std_error == pytest.approx(
        ll.feature_importance(model, X[NUMBERS], Y).difference("many", "few").std_error, rel=0.3
    )
    import matplotlib.pyplot as plt

    for picture in (found.plot(), found["many"].plot(), found["few"].effect.plot()):
        plt.close(picture.figure)


@pytest.mark.parametrize("what", ["given", "subset"])
def test_rows_that_are_gone_are_not_chosen(folder, what):
    model = MODELS["forest"]().fit(X[NUMBERS], Y)
    found = ll.feature_importance(model, folder, "y", memory=SMALL)
    for result in (found, found["many"]):
        with pytest.raises(ValueError, match=rf"{what} needs the values of every row, .* files \(2,600 rows\)"):
            getattr(result, what)([0, 1, 2])
    with pytest.raises(ValueError, match="with_loss needs the values of every row"):
        found.with_loss("absolute_error")
    with pytest.raises(ValueError, match="row_influence needs the values of every row"):
        _ = found["many"].row_influence


def test_arguments_that_parts_do_not_have(folder):
    model = MODELS["forest"]().fit(X[NUMBERS], Y)

    def ask(**options):
        return ll.feature_importance(model, folder, "y", memory=SMALL, **options)

    with pytest.raises(ValueError, match="groups= needs all rows in memory"):
        ask(groups=np.zeros(N))
    for refused in ({"donors": ll.Grid(5)}, {"features": {"both": ["many", "few"]}}):
        with pytest.raises(ValueError, match="curves of data that are read in parts need trees or a linear model"):
            ll.feature_effect(model, folder, memory=SMALL, **refused)
    with pytest.raises(ValueError, match="for data in files sample_weight must be the name of a column"):
        ask(sample_weight=W)
    with pytest.raises(TypeError, match=r"files are read by feature_importance.*load a sample"):
        ll.shapley_effect(model, folder, [0], memory=SMALL)
    for refused in ({"loss": "absolute_error"}, {"features": ["few"]}, {"method": "walk"}, {"method": ll.Sage()}):
        with pytest.raises(ValueError, match=r"2,600 rows read in parts need all pairs.*pass a sample"):
            ll.shapley_importance(model, folder, "y", memory=SMALL, **refused)


@pytest.mark.parametrize("removed", [False, True])
def test_a_file_that_changes_between_passes(folder, tmp_path, monkeypatch, removed):
    """The first pass has been over all files; before the second one file is written again, or removed."""
    for file in folder.glob("*.parquet"):
        (tmp_path / file.name).write_bytes(file.read_bytes())

    plain = results.with_checksums

    def meddling(jobs, counted):
        victim = tmp_path / "3.parquet"
        frame = pd.read_parquet(victim)
        os.remove(victim)  # noqa: PTH107
        if not removed:
            frame.assign(many=frame["many"] + 1).to_parquet(victim)
        return plain(jobs, counted)

    monkeypatch.setattr(results, "with_checksums", meddling)
    model = MODELS["forest"]().fit(X[NUMBERS], Y)
    kind, words = (FileNotFoundError, "was removed") if removed else (ValueError, "is no longer the file")
    with pytest.raises(kind, match=rf"3\.parquet {words}"):
        ll.feature_importance(model, tmp_path, "y", memory=SMALL)


def test_values_that_change_between_passes(folder, monkeypatch):
    """A frame that is put together anew each time may differ each time: a checksum of its numbers tells."""
    noise = np.random.default_rng(1)
    numbers = pl.scan_parquet(folder / "*.parquet").select([*NUMBERS, "y"])
    frame = numbers.with_columns(
        pl.col("many").map_batches(lambda values: values + noise.normal(), return_dtype=pl.Float64)
    )
    model = MODELS["forest"]().fit(X[NUMBERS], Y)
    with pytest.raises(ValueError, match="holds other values than in the first pass"):
        ll.feature_importance(model, frame, "y", memory=SMALL)


def test_jobs_are_a_matter_of_counts(monkeypatch, folder):
    """However many parts make a stretch, the numbers are the same."""
    model = MODELS["boosting"]().fit(X[NUMBERS], Y)
    alone = ll.feature_importance(model, folder, "y", memory=SMALL)
    monkeypatch.setattr(reading, "MOST_JOBS", 2)
    together = ll.feature_importance(model, folder, "y", memory=SMALL, n_jobs=2)
    assert [together[name].pfi for name in NUMBERS] == pytest.approx([alone[name].pfi for name in NUMBERS], rel=1e-12)


def test_a_model_fitted_on_arrays_gets_arrays(folder):
    model = RandomForestRegressor(3, min_samples_leaf=20, random_state=0).fit(X[NUMBERS].to_numpy(), Y)
    data = pl.scan_parquet(folder / "*.parquet").select([*NUMBERS, "y"])
    found = ll.feature_importance(model, data, "y", memory=SMALL)
    whole = ll.feature_importance(model, X[NUMBERS].to_numpy(), Y)
    assert [feature.pfi for feature in found.values()] == pytest.approx([f.pfi for f in whole.values()])


def test_curves_of_sorted_files_have_points_all_over(tmp_path):
    """Bins are made from rows of parts all over the data: no bin holds much more than its share."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=20_000))
    frame = pd.DataFrame({"a": x, "b": rng.normal(size=20_000)})
    frame["y"] = frame["a"] + frame["b"]
    for k in range(10):
        frame[2000 * k : 2000 * (k + 1)].to_parquet(tmp_path / f"{k}.parquet")
    fitted = LinearRegression().fit(frame[["a", "b"]], frame["y"])
    found = ll.feature_importance(fitted, str(tmp_path), "y", memory="1 MiB", progress=False)
    assert found["a"].totals is not None
    assert found["a"].weights.max() < 0.1
    assert found["a"].pfi == pytest.approx(ll.feature_importance(fitted, frame[["a", "b"]], frame["y"])["a"].pfi)


def test_missing_values_of_a_linear_model_are_an_error_as_in_memory(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20_000, 3)), columns=["a", "b", "y"])
    fitted = LinearRegression().fit(frame[["a", "b"]], frame["y"])
    frame.loc[7, "a"] = np.nan
    frame.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"NaN|finite"):
        ll.feature_importance(fitted, str(tmp_path), "y", memory="500 KiB", progress=False)


def test_a_booster_is_given_its_own_columns_in_its_own_order(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(4000, 3)), columns=["a", "b", "c"])
    y = 2 * frame["a"] + frame["b"]
    booster = lightgbm.train({"verbosity": -1, "num_leaves": 7}, lightgbm.Dataset(frame, y), 20)
    frame[["c", "b", "a"]].assign(y=y).to_parquet(tmp_path / "x.parquet")
    found = ll.feature_importance(booster, str(tmp_path), "y", loss="squared_error", memory="300 KiB", progress=False)
    exact = ll.feature_importance(booster, frame, y, loss="squared_error")
    assert found["a"].pfi == pytest.approx(exact["a"].pfi, rel=1e-9)


def test_weights_far_from_one_are_refused(folder, tmp_path):
    """They can't be scaled before the files are read."""
    pd.read_parquet(folder / "2.parquet").assign(w=1e300).to_parquet(tmp_path / "a.parquet", row_group_size=500)
    model = LinearRegression().fit(X[["few"]], Y)
    with pytest.raises(ValueError, match=r"sample_weight='w' holds numbers from 1e\+300 to 1e\+300; scale them"):
        ll.feature_importance(model, tmp_path, "y", sample_weight="w", memory=150_000)
