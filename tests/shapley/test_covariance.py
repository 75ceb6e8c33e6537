"""SFIMP is a covariance: totals and standard errors against all coalitions of all pairs, asked of the model itself.

Brute force knows the shares of every pair. Their means over donors and over rows, added, are what the covariance gives
for each row; standard errors and tests that follow from it equal those of the full shares.
"""

from dataclasses import replace
from math import factorial

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, TweedieRegressor
from sklearn.metrics import get_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import brute
import coalitions
import losslens as ll
from losslens import losses
from losslens.donors.layout import CommonGrid
from losslens.results.shapley import Shares
from losslens.shapley import ways

N = 13
SMALL = {"max_iter": 6, "max_leaf_nodes": 6, "min_samples_leaf": 5, "random_state": 0}
FEW = {"random_state": 0, "max_leaf_nodes": 7}


def columns(n, p, rng):
    """Correlated columns, one of three values."""
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.6 * np.eye(p, k=1))
    X[:, 2] = np.digitize(X[:, 2], [-0.5, 0.5])
    return X


def mean(X):
    return X[:, 0] * (1 + X[:, 1]) + np.sin(2 * X[:, 2]) - 0.5 * X[:, 3]


RNG = np.random.default_rng(1)
TRAIN, X = columns(160, 4, RNG), columns(N, 4, RNG)
TARGET, Y = (mean(Z) + 0.4 * RNG.normal(size=len(Z)) for Z in (TRAIN, X))
COUNTS, COUNTED = (RNG.poisson(np.exp(0.4 * mean(Z))) for Z in (TRAIN, X))
WEIGHT = RNG.integers(0, 4, N).astype(float)


def grades(y, classes):
    return np.digitize(y, [0.2] if classes == 2 else [-0.4, 0.8])


def lightgbm(kind, **options):
    library = pytest.importorskip("lightgbm")
    return getattr(library, kind)(n_estimators=6, num_leaves=6, min_child_samples=5, n_jobs=1, verbose=-1, **options)


def xgboost(kind, **options):
    return getattr(pytest.importorskip("xgboost"), kind)(n_estimators=6, max_depth=3, **options)


# How to make the model, the loss, and how many classes there are ("counts": of a Poisson model).
CASES = {
    "boosting": (lambda: HistGradientBoostingRegressor(**SMALL), "squared_error", None),
    "forest": (lambda: RandomForestRegressor(5, **FEW), "squared_error", None),
    "tree": (lambda: DecisionTreeRegressor(**FEW), "squared_error", None),
    "lightgbm": (lambda: lightgbm("LGBMRegressor"), "squared_error", None),
    "xgboost": (lambda: xgboost("XGBRegressor"), "squared_error", None),
    "linear": (LinearRegression, "squared_error", None),
    "forest, 2 classes": (lambda: RandomForestClassifier(5, **FEW), "brier", 2),
    "forest, 3 classes": (lambda: ExtraTreesClassifier(5, **FEW), "brier", 3),
    "boosting, 2 classes": (lambda: HistGradientBoostingClassifier(**SMALL), "log_loss", 2),
    "boosting, 3 classes": (lambda: HistGradientBoostingClassifier(**SMALL), "log_loss", 3),
    "older boosting": (lambda: GradientBoostingClassifier(n_estimators=4, **FEW), "log_loss", 3),
    "lightgbm, 2 classes": (lambda: lightgbm("LGBMClassifier", sigmoid=0.7), "log_loss", 2),
    "xgboost, 2 classes": (lambda: xgboost("XGBClassifier"), "log_loss", 2),
    "xgboost, 3 classes": (lambda: xgboost("XGBClassifier"), "log_loss", 3),
    "logistic": (LogisticRegression, "log_loss", 2),
    "logistic, 3 classes": (LogisticRegression, "log_loss", 3),
    "discriminant": (LinearDiscriminantAnalysis, "log_loss", 3),
    "pipeline": (lambda: make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), [2]), remainder=StandardScaler()),
        LogisticRegression()), "log_loss", 2),
    "boosted counts": (lambda: HistGradientBoostingRegressor(loss="poisson", **SMALL), "poisson_deviance", "counts"),
    "lightgbm, counts": (lambda: lightgbm("LGBMRegressor", objective="poisson"), "poisson_deviance", "counts"),
    "xgboost, counts": (lambda: xgboost("XGBRegressor", objective="count:poisson"), "poisson_deviance", "counts"),
    "log link": (PoissonRegressor, "poisson_deviance", "counts"),
    "Tweedie": (lambda: TweedieRegressor(power=1, alpha=0.1), losses.tweedie_deviance(1), "counts"),
}  # fmt: skip
SINGLE = 2e-5  # XGBoost adds up in single precision


def fitted(case):
    """The model, its response, y, and the loss in NumPy."""
    make, loss, kind = CASES[case]
    name = loss if isinstance(loss, str) else "poisson_deviance"
    if kind == "counts":
        native, y = make().fit(TRAIN, COUNTS), COUNTED
    elif kind is None:
        native, y = make().fit(TRAIN, TARGET), Y
    else:
        native, y = make().fit(TRAIN, grades(TARGET, kind)), grades(Y, kind)
    respond = native.predict if kind in (None, "counts") else native.predict_proba
    return native, respond, y, brute.LOSSES[name]


def by_pairs(found, expected, weight, *, apart=False):
    """The same result with the shares of all pairs, from which everything else is computed."""
    pairs = CommonGrid(np.arange(len(weight)), np.arange(len(weight)), len(weight), apart)
    local, caused = (np.where(weight[:, None] > 0, part, 0.0) for part in (expected.local, expected.caused))
    return replace(found, both=None, shares=Shares(local, caused, pairs), sfimp=expected.sfimp)


def agree(found, expected, weight=None, *, apart=False, slack=1e-9):
    """Totals, both roles of each row, and all that is said about new data."""
    close = {"rtol": 1e-9 if slack < SINGLE else 1e-3, "atol": slack}
    weight = np.ones(len(found.at)) if weight is None else weight
    counted = weight > 0
    assert (found.method, found.exact, found.shares) == ("covariance", True, None)
    np.testing.assert_allclose(found.sfimp, expected.sfimp, **close)
    np.testing.assert_allclose([found.error_all, found.error_none], [expected.error_all, expected.error_none], **close)
    np.testing.assert_allclose(found.both[counted], (expected.local + expected.caused)[counted], **close)
    full = by_pairs(found, expected, weight, apart=apart)
    np.testing.assert_allclose(found.std_error, full.std_error, **close)
    np.testing.assert_allclose(found.unbiased, full.unbiased, **close)
    np.testing.assert_allclose(found.interval(), full.interval(), **close)
    np.testing.assert_allclose(found.estimates().covariance, full.estimates().covariance, **close)
    np.testing.assert_allclose(found.estimates().cubes, full.estimates().cubes, **close)
    for ask in (lambda result: result.test(), lambda result: result.ranks()):
        one, two = (ask(result).select_dtypes("number").to_numpy(float) for result in (found, full))
        np.testing.assert_allclose(one, two, rtol=1e-6 if slack < SINGLE else 0.1, atol=max(slack, 1e-8))


def share(native, X, y, loss, **options):
    return ll.shapley_importance(native, X, y, loss=loss, method="totals", **options)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("case", CASES)
def test_totals_and_errors_are_those_of_all_pairs_and_coalitions(case, weight):
    native, respond, y, judge = fitted(case)
    found = share(native, X, y, CASES[case][1], sample_weight=weight)
    expected = coalitions.shares(respond, X, y, judge, weight=weight)
    agree(found, expected, weight, slack=SINGLE if case.startswith("xgboost") else 1e-9)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("case", ["boosting", "boosting, 3 classes", "logistic", "linear"])
def test_pairs_of_different_rows(case, weight):
    native, respond, y, judge = fitted(case)
    found = share(native, X, y, CASES[case][1], sample_weight=weight, donors=ll.Derangements())
    agree(found, coalitions.shares(respond, X, y, judge, weight=weight, apart=True), weight, apart=True)


@pytest.mark.parametrize("case", ["forest", "forest, 3 classes", "logistic, 3 classes", "boosted counts"])
def test_columns_that_play_together(case):
    native, respond, y, judge = fitted(case)
    found = share(native, X, y, CASES[case][1], features={"a": [0, 2], "b": [3], "c": [1]})
    agree(found, coalitions.shares(respond, X, y, judge, [[0, 2], [3], [1]]))


def shapley(table):
    """What each player takes off the error, from the table of all coalitions, (p, ...)."""
    p = len(table).bit_length() - 1
    found = np.zeros((p, *table.shape[1:]))
    for S in range(1 << p):
        size = S.bit_count()
        for j in range(p):
            if not S >> j & 1:
                found[j] += factorial(size) * factorial(p - 1 - size) / factorial(p) * (table[S] - table[S | 1 << j])
    return found


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "poisson_deviance"])
def test_eight_columns_with_missing_values_and_categories(loss):
    def frame(n):
        Z = columns(n, 8, RNG)
        Z[RNG.random((n, 8)) < 0.1] = np.nan
        table = pd.DataFrame(Z, columns=list("abcdefgh"))
        table["c"] = pd.Categorical(np.array(list("uvw"))[RNG.integers(0, 3, n)])
        return table, np.nan_to_num(Z[:, 0] * (1 + Z[:, 1])) + (table["c"] == "v") + 0.3 * RNG.normal(size=n)

    (train, target), (rows, y) = frame(200), frame(10)
    make = HistGradientBoostingClassifier if loss == "log_loss" else HistGradientBoostingRegressor
    options = SMALL | {"categorical_features": "from_dtype"} | ({"loss": "poisson"} if "poisson" in loss else {})
    if loss == "log_loss":
        target, y = target > 0.5, (y > 0.5).astype(int)
    elif loss == "poisson_deviance":
        target, y = (np.floor(np.exp(0.4 * t)) for t in (target, y))
    y, native = np.asarray(y), make(**options).fit(train, target)
    respond = native.predict_proba if loss == "log_loss" else native.predict
    # All coalitions of all pairs in one call: row i keeps the columns whose bits are set in S, k lends the others.
    S, i, k = (np.ravel(part) for part in np.indices((256, 10, 10)))
    mixed = pd.concat([rows.iloc[np.where(S >> j & 1, i, k), j].reset_index(drop=True) for j in range(8)], axis=1)
    cells = shapley(brute.LOSSES[loss](y[i], respond(mixed)).reshape(256, 10, 10))
    found = share(native, rows, y, loss)
    np.testing.assert_allclose(found.sfimp, cells.mean(axis=(1, 2)), atol=1e-9)
    np.testing.assert_allclose(found.both, (cells.mean(axis=2) + cells.mean(axis=1)).T, atol=1e-9)


def test_any_number_of_columns_sums_to_the_gain():
    """Replacing everything leaves the predictions of other rows: their mean loss needs no game."""
    Z = RNG.normal(size=(300, 60))
    y = Z[:, :5].sum(axis=1) + Z[:, 5] * Z[:, 6] + RNG.normal(size=300) + 1000.0
    native = HistGradientBoostingRegressor(max_iter=20).fit(Z, y)
    found, f = share(native, Z, y, "squared_error"), native.predict(Z)
    gain = np.mean((y[:, None] - f) ** 2) - np.mean((y - f) ** 2)
    assert found.sfimp.sum() == pytest.approx(gain, rel=1e-11)
    assert found.sfimp.sum() == pytest.approx(found.error_none - found.error_all, rel=1e-11)
    np.testing.assert_allclose(found.observations, np.mean((y[:, None] - f) ** 2, axis=1) - (y - f) ** 2, rtol=1e-9)
    assert np.isfinite(found.std_error).all()


BLOCKS = np.array(list("aabcbbdeadcef"))


@pytest.mark.parametrize("weight", [None, WEIGHT + 0.5], ids=["alike", "weights"])
@pytest.mark.parametrize("case", ["boosting", "forest, 3 classes", "logistic", "linear"])
@pytest.mark.filterwarnings("ignore:.*groups")
def test_rows_of_a_group_are_not_donors_of_each_other(case, weight):
    """Standard errors by leaving out whole groups: U_(-g) from the pairs of the other groups alone."""
    native, respond, y, judge = fitted(case)
    found = share(native, X, y, CASES[case][1], sample_weight=weight, groups=BLOCKS)
    w = np.ones(N) if weight is None else weight
    cells = coalitions.shares(respond, X, y, judge).cells
    mass = np.outer(w, w) * (BLOCKS[:, None] != BLOCKS)

    def over(kept):
        some = mass[np.ix_(kept, kept)]
        return np.einsum("ik,ikj->j", some, cells[np.ix_(kept, kept)]) / some.sum()

    np.testing.assert_allclose(found.sfimp, over(np.ones(N, bool)), atol=1e-9)
    without = np.array([over(label != BLOCKS) for label in np.unique(BLOCKS)])
    G = len(without)
    np.testing.assert_allclose(
        found.std_error, np.sqrt((G - 1) / G * np.sum((without - without.mean(axis=0)) ** 2, axis=0)), atol=1e-9
    )
    assert "all pairs of rows of different groups" in repr(found)


@pytest.mark.parametrize("weight", [None, WEIGHT + 0.5], ids=["alike", "weights"])
@pytest.mark.parametrize("case", ["boosting", "linear", "a function"])
@pytest.mark.filterwarnings("ignore:.*groups")
def test_shares_of_rows_without_donors_of_their_own_group(case, weight):
    """Local shares are means over donors of other groups; a row with fewer of them counts for less, as in the total."""
    native, respond, y, judge = fitted("linear" if case == "a function" else case)
    model, loss = (respond, "absolute_error") if case == "a function" else (native, "squared_error")
    judge = brute.LOSSES[loss]
    found = ll.shapley_importance(model, X, y, loss=loss, method="rows", sample_weight=weight, groups=BLOCKS)
    w = np.ones(N) if weight is None else weight
    cells = coalitions.shares(respond, X, y, judge).cells
    mass = np.outer(w, w) * (BLOCKS[:, None] != BLOCKS)
    np.testing.assert_allclose(found.local, np.einsum("ik,ikj->ij", mass, cells) / mass.sum(1)[:, None], atol=1e-9)
    np.testing.assert_allclose(found.sfimp, np.einsum("ik,ikj->j", mass, cells) / mass.sum(), atol=1e-9)
    np.testing.assert_allclose(found.local.sum(axis=1), found.observations, atol=1e-9)
    few = BLOCKS <= "b"
    np.testing.assert_allclose(
        found.given(few).sfimp, np.einsum("ik,ikj->j", mass[few], cells[few]) / mass[few].sum(), atol=1e-9
    )
    for by in ("own", "donor"):
        curve = found.curve("x0", by=by)
        assert curve.importance @ curve.weights == pytest.approx(found.sfimp[0])
    without = []
    for label in np.unique(BLOCKS):
        kept = np.ix_(label != BLOCKS, label != BLOCKS)
        without.append(np.einsum("ik,ikj->j", mass[kept], cells[kept]) / mass[kept].sum())
    G = len(without)
    spread = np.sum((without - np.mean(without, axis=0)) ** 2, axis=0)
    np.testing.assert_allclose(found.std_error, np.sqrt((G - 1) / G * spread), atol=1e-9)
    assert found.design == "all pairs of rows of different groups"


@pytest.mark.filterwarnings("ignore:.*groups")
def test_groups_need_a_covariance_or_all_pairs():
    native, _, y, _ = fitted("boosting")
    rows, blocks = np.vstack([X, X]), np.tile(BLOCKS, 2)
    many = {"loss": "absolute_error", "memory": 80_000}  # all pairs of 26 rows take more
    for options in (many, {"method": "walk"}, {"method": ll.Sage()}, {"donors": ll.Latin(5)}):
        with pytest.raises(ValueError, match=r"with groups= importances .* or from the shares of all pairs"):
            ll.shapley_importance(native, rows, np.tile(y, 2), **({"loss": "squared_error"} | options), groups=blocks)


# Which way is taken.


def test_rows_come_where_they_are_cheap_or_wanted():
    """Pairs of 13 rows take no time; of 1,000 rows no rows come."""
    native, _, y, _ = fitted("boosting")
    assert ll.shapley_importance(native, X, y).method == "all coalitions"
    Z = columns(1000, 12, np.random.default_rng(0))
    z = mean(Z)
    trees = HistGradientBoostingRegressor(max_iter=60, max_leaf_nodes=16).fit(Z, z)
    found = ll.shapley_importance(trees, Z, z)
    assert found.method == "covariance"
    assert ll.plan(ll.shapley_importance, trees, Z, z).exact
    for ask in (
        lambda: found.local, lambda: found.given([0]), lambda: found.by(Z[:, 2]), lambda: found.curve("x0"),
        lambda: found.interactions,
    ):  # fmt: skip
        with pytest.raises(ValueError, match="method='rows'"):
            ask()


def test_rows_by_walks_agree_with_the_covariance(monkeypatch):
    """Where no exact way gives rows: shares of rows and donors are estimated, their sums are known."""
    native, respond, y, judge = fitted("boosting, 3 classes")
    monkeypatch.setattr(ways, "WAYS", (ways.COVARIANCE, ways.WALKS_FOR_ROWS, ways.WALKS))
    exact = share(native, X, y, "log_loss")
    for donors in ("all", ll.Derangements()):
        exact = share(native, X, y, "log_loss", donors=donors)
        found = ll.shapley_importance(native, X, y, loss="log_loss", method="rows", donors=donors, random_state=0)
        assert (found.method, found.exact) == ("covariance", True)
        assert "single rows by" in repr(found)
        for name in ("sfimp", "std_error", "both", "error_none"):
            np.testing.assert_allclose(getattr(found, name), getattr(exact, name), atol=1e-12)
        np.testing.assert_allclose(found.local.mean(axis=0), found.sfimp, atol=1e-12)
        np.testing.assert_allclose(found.shares.caused.mean(axis=0), found.sfimp, atol=1e-12)
        np.testing.assert_allclose(found.local + found.shares.caused, found.both, atol=1e-12)
        np.testing.assert_allclose(found.local.sum(axis=1), found.observations, atol=1e-9)
        expected = coalitions.shares(respond, X, y, judge, apart=donors != "all")
        np.testing.assert_allclose(found.local, expected.local, atol=0.1)
        part = found.given([0, 1, 2, 3])
        assert not part.exact
        assert (part.monte_carlo_error > 0).any()


@pytest.mark.parametrize("donors", ["all", ll.Derangements()], ids=["all", "others"])
@pytest.mark.parametrize("weight", [None, np.resize([0.5, 1.0, 2.0], 200)], ids=["alike", "weights"])
def test_errors_of_rows_by_walks_are_as_large_as_their_deviations(weight, donors, monkeypatch):
    """Both roles of a row together are exact, so that only half of their gap is drawn."""
    rng = np.random.default_rng(2)
    Z = columns(200, 4, rng)
    y = mean(Z) + 0.4 * rng.normal(size=len(Z))
    native, options = fitted("boosting")[0], {"method": "rows", "sample_weight": weight, "donors": donors}
    truth = ll.shapley_importance(native, Z, y, **options).local
    monkeypatch.setattr(ways, "WAYS", (ways.COVARIANCE, ways.WALKS_FOR_ROWS, ways.WALKS))
    squares = []
    for seed in range(10):
        found = ll.shapley_importance(native, Z, y, random_state=seed, **options)
        assert not found.monte_carlo_error.any()
        assert "estimated" not in repr(found)  # totals are exact, and
        np.testing.assert_allclose(found.local.sum(axis=1), found.observations, atol=1e-9)
        squares.append([np.mean((found.local - truth) ** 2), np.mean(found.local_error**2)])
    deviation, error = np.mean(squares, axis=0)
    assert 0.8 < deviation / error < 1.2


def test_rows_of_more_columns_than_coalitions_allow():
    """24 columns: totals as without rows, a row's shares sum to its gain."""
    Z = RNG.normal(size=(40, 24)) + 1000.0
    y = Z[:, 0] + (Z[:, 1] - 1000) * (Z[:, 2] - 1000)
    native = HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=4).fit(Z, y)
    options = {"loss": "squared_error", "random_state": 0}
    found, alone = (ll.shapley_importance(native, Z, y, method=method, **options) for method in ("rows", "totals"))
    np.testing.assert_allclose(found.sfimp, alone.sfimp, rtol=1e-12)
    np.testing.assert_allclose(found.std_error, alone.std_error, rtol=1e-9)
    f = native.predict(Z)
    gain = np.mean((y[:, None] - f) ** 2, axis=1) - (y - f) ** 2
    np.testing.assert_allclose(found.local.sum(axis=1), gain, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.local[:, alone.sfimp == 0], 0.0, atol=1e-12)
    assert np.isfinite(found.local_error).all()
    assert "single rows by walks" in ll.plan(ll.shapley_importance, native, Z, y, method="rows", **options).way


def test_what_a_covariance_does_not_cover():
    """Columns of no player, other losses, averaged predictions."""
    native, _, y, _ = fitted("boosting")
    for options in ({"features": ["x0", "x1"]}, {"loss": "absolute_error"}, {"method": ll.Sage()}):
        asked = {"method": "totals", "random_state": 0} | options
        assert ll.shapley_importance(native, X, y, **asked).method != "covariance"


def test_log_losses_at_the_clipping_bound_are_left_to_coalitions():
    Z = np.column_stack([np.linspace(-1, 1, 12), np.tile([0.0, 1.0, 2.0], 4)])
    y = (Z[:, 0] > 0).astype(int)
    native = LogisticRegression().fit(Z, y)
    assert share(native, Z, y, "log_loss").remarks == ()
    native.coef_[:], native.intercept_[:] = [[30.0, 4.0]], 0.0  # up to 38 for mixed rows, the bound is at 36.04
    Z[[0, -1], 1] = 0.0, 0.0  # but no row is there
    Z[-2, 1] = 0.0
    found = share(native, Z, y, "log_loss")
    assert (found.method, found.remarks) == (
        "covariance",
        ("log losses follow from raw scores, so those of mixed rows are not clipped",),
    )
    native.coef_[:] = [[60.0, 1.0]]
    assert share(native, Z, y, "log_loss").method == "all coalitions"


def test_a_scorer_has_no_rows():
    native, _, y, _ = fitted("linear")
    with pytest.raises(ValueError, match="judges all rows at once"):
        ll.shapley_importance(native, X, y, loss=get_scorer("r2"), method="rows")


def test_a_file_brings_back_both_roles(tmp_path):
    native, _, y, _ = fitted("boosting")
    found = share(native, X, y, "squared_error")
    found.save(tmp_path / "found.losslens")
    loaded = ll.load(tmp_path / "found.losslens")
    np.testing.assert_array_equal(loaded.both, found.both)
    np.testing.assert_array_equal(loaded.std_error, found.std_error)
    assert repr(loaded) == repr(found)


def test_models_are_compared():
    one, two = fitted("boosting")[0], fitted("forest")[0]
    found = ll.compare({"one": one, "two": two}, X, Y, loss="squared_error", shapley=True)
    assert set(found.shapley) == {"one", "two"}
