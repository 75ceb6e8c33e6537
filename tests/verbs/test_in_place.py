"""Functions of the user that work in place: a loss or scorer is told to copy, a model may do as it likes."""

import warnings

import narwhals as nw
import numba
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import make_scorer
from sklearn.svm import SVR

import losslens as ll
from losslens import losses

N = 40
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).round(2)
Y = X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * RNG.normal(size=N)

FRAME = pd.DataFrame(X, columns=["x0", "x1", "x2"])


def predict(X):
    return X[:, 0] + X[:, 1] * X[:, 2]


def in_place(y, p):
    p -= y
    return p * p


def changes_y(y, p):
    y -= p
    return y * y


FOREST = RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, Y)
MODELS = {
    "black box": predict,
    "forest": FOREST,
    "linear": LinearRegression().fit(X, Y),
    "kernel": SVR().fit(X, Y),
}
VERBS = {
    "feature_importance": ll.feature_importance,
    "sampled": lambda m, X, y, **k: ll.feature_importance(m, X, y, donors=ll.Latin(3), **k),
    "grouped": lambda m, X, y, **k: ll.feature_importance(m, X, y, features={"g": ["x0", "x1"]}, **k),
    "streamed": lambda m, X, y, **k: ll.feature_importance(m, X, y, donors="all", memory=120_000, **k),
    "pairs": ll.pair_interactions,
    "coalitions": lambda m, X, y, **k: ll.shapley_importance(m, X, y, method="exact", **k),
    "walks": lambda m, X, y, **k: ll.shapley_importance(m, X, y, method="walk", budget=2000, **k),
    "paper": lambda m, X, y, **k: ll.shapley_importance(m, X, y, method=ll.Paper(3, 3), **k),
    "sage": lambda m, X, y, **k: ll.shapley_importance(m, X, y, method=ll.Sage(), **k),
    "conditional": lambda m, X, y, **k: ll.conditional_predictive_impact(m, X, y, ll.Residual(), **k),
    "weak_segments": ll.weak_segments,
    "compare": lambda m, X, y, **k: ll.compare({"a": m, "b": m}, X, y, **k),
    "report": ll.report,
}
LEARNERS = {
    "feature_importance_cv": ll.feature_importance_cv,
    "shapley_importance_cv": ll.shapley_importance_cv,
    "leave_one_covariate_out": ll.leave_one_covariate_out,
    "permuted_target_test": lambda *a, **k: ll.permuted_target_test(*a, permutations=1, **k),
}
TOLD = r"the loss '\w+' changed its arguments, which are read-only; it should copy them first"


@pytest.mark.parametrize("loss", [in_place, changes_y])
@pytest.mark.parametrize("verb", VERBS)
def test_a_loss_that_works_in_place_is_told_to_copy(verb, loss):
    """In every verb; NumPy alone would say that an output array is read-only, or nothing."""
    for name, model in MODELS.items():
        if verb == "streamed" and name != "black box":
            continue
        with pytest.raises(ValueError, match=TOLD):
            VERBS[verb](model, X, Y, loss=loss)


@pytest.mark.parametrize("verb", LEARNERS)
def test_a_loss_of_refits_is_told_to_copy(verb):
    with pytest.raises(ValueError, match=TOLD):
        LEARNERS[verb](LinearRegression(), X, Y, cv=2, loss=in_place)


@pytest.mark.parametrize("model", MODELS)
def test_files_tell_it_to_copy(model, tmp_path):
    """Part by part: the files take more than `memory`."""
    table = pd.concat([FRAME.assign(y=Y)] * 150)
    table.to_parquet(tmp_path / "a.parquet", row_group_size=500)
    fitted = clone(MODELS[model]).fit(FRAME, Y) if model != "black box" else lambda X: predict(X.to_numpy())
    with pytest.raises(ValueError, match=TOLD):
        ll.feature_importance(fitted, tmp_path / "a.parquet", "y", loss=in_place, memory=190_000)


def test_with_loss_tells_it_to_copy():
    """A result keeps predictions, from which another loss is computed later."""
    found = ll.feature_importance(predict, X, Y, loss="squared_error", donors="all")
    before = found["x0"].pfi
    for one in (found, found["x0"]):
        with pytest.raises(ValueError, match=TOLD):
            one.with_loss(in_place)
    assert found["x0"].with_loss("squared_error").pfi == before


def test_probabilities_and_labels_are_read_only_too():
    labels = (Y > 0).astype(int)
    forest = RandomForestClassifier(5, random_state=0).fit(X, labels)

    def clips(y, p):
        np.clip(p, 0.1, 0.9, out=p)
        return -np.log(p[np.arange(len(y)), y])

    def swaps(y, p):
        p[p == y] = 2
        return (p == 2) * 1.0

    with pytest.raises(ValueError, match=TOLD):
        ll.feature_importance(forest, X, labels, loss=clips)
    with pytest.raises(ValueError, match=TOLD):
        ll.feature_importance(forest, X, labels, loss=losses.pointwise(swaps, reads="labels"))


def test_a_loss_that_copies_first_gives_the_same_numbers():
    def copies(y, p):
        p = p.copy()
        p -= y
        return p * p

    for verb in (ll.feature_importance, ll.shapley_importance):
        mine, named = verb(predict, X, Y, loss=copies), verb(predict, X, Y, loss="squared_error")
        numbers = (mine.sfimp, named.sfimp) if hasattr(mine, "sfimp") else ([mine["x0"].pfi], [named["x0"].pfi])
        np.testing.assert_allclose(*numbers, rtol=1e-12)


def test_another_read_only_array_is_not_blamed_on_the_arguments():
    """The loss writes to a constant of its own: the error is NumPy's."""
    constant = np.zeros(1)
    constant.flags.writeable = False

    def writes(y, p):
        constant[0] = 1
        return (y - p) ** 2

    with pytest.raises(ValueError, match=r"^assignment destination is read-only$"):
        ll.feature_importance(predict, X, Y, loss=writes)


def test_compiled_losses_that_take_only_writable_arrays_get_copies():
    """A signature of numba, or a memoryview of Cython, says nothing about writing."""
    compiled = numba.njit("float64[:](float64[:], float64[:])")(lambda y, p: (y - p) ** 2)
    mine, named = (ll.feature_importance(predict, X, Y, loss=loss)["x0"] for loss in (compiled, "squared_error"))
    assert mine.pfi == pytest.approx(named.pfi, rel=1e-12)

    def writes(y, p):
        p -= y
        return p * p

    with pytest.raises(ValueError, match=TOLD):
        ll.feature_importance(predict, X, Y, loss=numba.njit("float64[:](float64[:], float64[:])")(writes))


def test_the_users_arrays_stay_writable():
    target, weight = Y.copy(), np.ones(N)
    ll.feature_importance(predict, X, target, loss=lambda y, p: (y - p) ** 2, sample_weight=weight)
    assert target.flags.writeable
    assert weight.flags.writeable


@pytest.mark.parametrize("which", ["y", "predictions", "weight"])
@pytest.mark.parametrize("verb", [ll.feature_importance, ll.shapley_importance])
def test_a_scorer_that_works_in_place_is_told_to_copy(verb, which):
    def score(y, p, sample_weight=None):
        if which == "y":
            y -= p
        elif which == "predictions":
            p -= y
        else:
            sample_weight *= 2
        return 1.0

    class Estimator(RegressorMixin, BaseEstimator):
        def predict(self, X):
            return predict(X)

    with pytest.raises(ValueError, match="the scorer score changed its arguments"):
        verb(Estimator(), X, Y, loss=make_scorer(score), sample_weight=np.ones(N))


# Models.


class Spoiler(RegressorMixin, BaseEstimator):
    """Overwrites the table it predicts, as far as its library lets it."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        if isinstance(X, np.ndarray):
            values = predict(X).astype(float)
            X *= 0
            with warnings.catch_warnings():  # NumPy 2.5 warns, and still lets it
                warnings.simplefilter("ignore", DeprecationWarning)
                X.shape = (X.shape[1], X.shape[0])
        elif isinstance(X, pd.DataFrame):
            values = predict(X.to_numpy(float)).copy()
            X.iloc[:, 0] = 0
            X["x1"] = 0.0
            del X["x2"]
        elif isinstance(X, pl.DataFrame):
            values = predict(X.to_numpy().astype(float))
            X.replace_column(0, pl.Series("x0", np.zeros(len(X))))
            X.drop_in_place("x1")
        else:
            values = predict(X.to_pandas().to_numpy(float))
        return values


class Plain(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        return self

    def predict(self, X):
        return predict(
            X if isinstance(X, np.ndarray) else np.column_stack([np.asarray(X[c]) for c in ("x0", "x1", "x2")])
        )


TABLES = {
    "numpy": X,
    "pandas": FRAME,
    "mixed pandas": FRAME.assign(x1=(10 * FRAME["x1"]).astype(int)),
    "polars": pl.from_pandas(FRAME),
    "pyarrow": pa.Table.from_pandas(FRAME),
}


def absolute(y, prediction):
    return -np.mean(abs(y - prediction))


CALLS = {
    "importance": lambda m, X: ll.feature_importance(m, X, Y, donors=ll.Latin(4), random_state=0).to_frame,
    "effect": lambda m, X: ll.feature_effect(m, X, donors=ll.Grid(4), random_state=0)["x0"].to_frame,
    "pairs": lambda m, X: ll.pair_interactions(m, X, Y, random_state=0).to_frame,
    "exact": lambda m, X: ll.shapley_importance(m, X, Y, method="exact").to_frame,
    "walk": lambda m, X: ll.shapley_importance(m, X, Y, method="walk", budget=2000, random_state=0).to_frame,
    "shapley effect": lambda m, X: ll.shapley_effect(m, X, [0, 3]).to_frame,
    "scorer": lambda m, X: ll.feature_importance(m, X, Y, loss=make_scorer(absolute), random_state=0).to_frame,
    "cv": lambda m, X: ll.feature_importance_cv(m, X, Y, cv=2, random_state=0).to_frame,
    "loco": lambda m, X: ll.leave_one_covariate_out(m, X, Y, cv=2, how="constant", random_state=0).to_frame,
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("call", CALLS)
def test_a_model_may_overwrite_the_rows_it_predicts(call, table):
    """The table is the user's and stays as it is; the results are those of a model that leaves it alone."""
    given = TABLES[table]
    before = given.copy() if hasattr(given, "copy") else given
    spoiled, plain = (nw.from_native(CALLS[call](m, given)()).to_pandas() for m in (Spoiler(), Plain()))
    pd.testing.assert_frame_equal(spoiled, plain)
    if isinstance(before, np.ndarray):
        np.testing.assert_array_equal(given, before)
    elif not isinstance(before, pa.Table):
        assert given.equals(before)


def test_a_model_may_overwrite_rows_from_files(tmp_path):
    """Part by part."""
    pd.concat([FRAME.assign(y=Y)] * 150).to_parquet(tmp_path / "a.parquet", row_group_size=500)
    spoiled, plain = (
        ll.feature_importance(
            m, tmp_path / "a.parquet", "y", features=["x0"], donors=ll.Latin(1), memory=190_000, random_state=0
        )
        for m in (Spoiler(), Plain())
    )
    assert spoiled["x0"].pfi == plain["x0"].pfi
