"""Every mistake gets an error that names the argument, what came and what to do; and nothing is changed."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer, mean_squared_error, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import losslens as ll

RNG = np.random.default_rng(0)
N = 30
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + RNG.normal(size=N)
FRAME = pd.DataFrame(X, columns=["LSTAT", "RM", "NOX"])
VIEWS = pa.array(["a", "b"] * (N // 2), pa.string_view())
BINARY = (Y > 0).astype(int)
LOGISTIC = LogisticRegression().fit(X, BINARY)


def model(X):
    return np.asarray(X)[:, 0] * 2.0


def explain(model=model, X=X, y=Y, **options):
    return ll.feature_importance(model, X, y, **({"loss": "squared_error"} | options))


def refused(words, error=ValueError, *, model=model, X=X, y=Y, **options):
    """The call fails with these words, and X and y are as they were."""
    before = [np.array(part, copy=True) for part in (X, y) if isinstance(part, (np.ndarray, pd.DataFrame))]
    with pytest.raises(error, match=words):
        explain(model, X, y, **options)
    after = [np.asarray(part) for part in (X, y) if isinstance(part, (np.ndarray, pd.DataFrame))]
    for one, two in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, two)


# features


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ("LSAT", r"unknown feature 'LSAT'; did you mean 'LSTAT'\? The columns are LSTAT, RM, NOX"),
        (["RM", "NOXX"], "unknown feature 'NOXX'; did you mean 'NOX'"),
        (["zzz"], "unknown feature 'zzz'. The columns are"),
        ({"g": ["RM", "Rm"]}, "unknown feature 'Rm'; did you mean 'RM'"),
        ({"g": ["RM", "NOX", "RM"]}, "group 'g' names column 'RM' twice"),
        ({"g": []}, "group 'g' has no columns"),
        ([], "features is empty"),
        (["RM", "RM"], "features names 'RM' twice"),
        (("RM", "RM"), "names one column twice"),
        (("RM", "NOX", "LSTAT"), "a pair of columns"),
        (7, "unknown feature 7"),
    ],
    ids=str,
)
def test_features_that_are_none(features, words):
    refused(words, X=FRAME, features=features)


def test_positions_beyond_an_array():
    refused("there is no column at position 3; X has 3 columns", features=3)
    refused("features is a column", TypeError, features=3.5)


# X


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        (pd.DataFrame(X, columns=["a", "b", "a"]), ValueError, "X has more than one column named 'a'"),
        (pd.DataFrame(X, columns=[1, "1", "b"]), ValueError, "X has more than one column named '1'"),
        (np.empty((0, 3)), ValueError, "X has no rows"),
        (X[:1], ValueError, "X has one row; replacing values needs at least two"),
        (FRAME[:1], ValueError, "X has one row"),
        (FRAME[:0], ValueError, "X has no rows"),
        (np.empty((N, 0)), ValueError, "X has no columns"),
        (pd.DataFrame(index=range(N)), ValueError, "X has no columns"),
        (X[:, 0], ValueError, r"X must have two dimensions, rows and columns; got an array of shape \(30,\)"),
        (X[:, :, None], ValueError, r"X must have two dimensions.*\(30, 3, 1\)"),
        (sparse.csr_array(X), TypeError, r"X is sparse; .* X.toarray\(\)"),
        (sparse.coo_matrix(X), TypeError, "X is sparse"),
        (pl.LazyFrame({"a": [1.0]}), ValueError, "X has one row"),
        (None, TypeError, "X must be a NumPy array or a pandas, polars or pyarrow table; got NoneType"),
        ("table.csv", FileNotFoundError, "there is no file table.csv"),
        ({"a": [1, 2]}, TypeError, "X must be .* got dict"),
        (FRAME["RM"], (TypeError, ValueError), "X must"),
        (
            pa.table({"a": X[:, 0], "b": VIEWS}),
            TypeError,
            "column 'b' of X has the type string_view, .*; convert it to string",
        ),
        (pd.DataFrame({"b": pd.Series(pd.arrays.ArrowExtensionArray(VIEWS))}), TypeError, "'b' .* string_view"),
        (X.astype([("a", float)]), (TypeError, ValueError), "X"),
    ],
)
def test_tables_that_are_none(table, error, words):
    with pytest.raises(error, match=words):
        explain(X=table)
    with pytest.raises(error, match=words):
        ll.feature_effect(model, table)


def test_a_column_of_lists_has_no_values_to_lend():
    table = pd.DataFrame({"a": X[:, 0], "b": [[1]] * N})
    refused("column of lists", TypeError, X=table, model=lambda t: t["a"].to_numpy())


# y


@pytest.mark.parametrize(
    ("y", "error", "words"),
    [
        (Y[:-1], ValueError, "y has 29 values, but X has 30 rows"),
        (np.c_[Y, Y], ValueError, r"one column of predictions for 2 outputs \(y0, y1\); pass a function that returns"),
        (3.0, ValueError, "y needs one value for each row"),
        (np.r_[np.nan, Y[1:]], ValueError, "y has 1 missing or infinite values .the first in row 0."),
        (np.r_[Y[:2], np.inf, Y[3:]], ValueError, "y has 1 missing or infinite values .the first in row 2."),
        (pd.Series([None, *Y[1:]], dtype=object), ValueError, "y has 1 missing"),
        (np.array(["a"] * N), TypeError, "squared_error needs numbers in y; got .* For classes use 'log_loss'"),
    ],
)
def test_targets_that_are_none(y, error, words):
    refused(words, error, y=y)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.r_[2, BINARY[1:]], r"y has the class 2, which is no class of LogisticRegression; its classes are \[0, 1\]"),
        (np.array(["no", "yes"])[BINARY], "y has the class '(no|yes)', which is no class of LogisticRegression"),
        (np.r_[np.nan, BINARY[1:]], "y has 1 missing labels .the first in row 0."),
        (np.array([None, *BINARY[1:]], dtype=object), "y has 1 missing labels"),
        (BINARY[:-1], "y has 29 values, but X has 30 rows"),
    ],
)
def test_labels_that_the_model_does_not_know(y, words):
    refused(words, model=LOGISTIC, y=y, loss="log_loss")


def test_labels_of_mixed_types():
    refused("y mixes labels", TypeError, model=LOGISTIC, y=np.array([1, "a"] * 15, dtype=object), loss="log_loss")


def test_columns_of_probabilities_that_match_no_labels():
    proba = np.full((N, 3), 1 / 3)
    words = r"returns 3 columns, but y has the 2 labels \['a', 'b'\]"
    refused(words, model=lambda X: proba[: len(X)], y=np.array(["a", "b"] * 15), loss="log_loss")


@pytest.mark.parametrize(("loss", "y"), [("gamma", Y), ("poisson", Y), ("tweedie", Y), ("gamma", np.zeros(N))])
def test_targets_that_the_loss_is_not_defined_for(loss, y):
    refused("needs every y to be a number", y=y, loss=loss, model=lambda X: np.ones(len(X)))


# the loss


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda y, f: np.mean((y - f) ** 2), "returned one number"),
        (lambda y, f: (y - f)[:-1], "returned an array of shape .* one value for each row"),
        (lambda y, f: np.where(y > 0, np.nan, 0.0), "returned nan for row .* finite numbers"),
        (lambda y, f: np.full(len(y), np.inf), "returned inf"),
        (lambda y, f: np.array(["a"] * len(y)), "returned no numbers"),
        (mean_squared_error, "metric of scikit-learn: .*pass loss='squared_error'"),
        (r2_score, "score of all rows"),
        (
            "r2_score",
            "'r2_score' is a score of all rows together: write loss='r2', which .* take; all others need",
        ),
        ("mse", "'mse' names a mean or a score, not the loss of one row; pass loss='squared_error'"),
        ("auc", "score of all rows"),
        ("squared_eror", "unknown loss 'squared_eror'; did you mean 'squared_error'"),
        ("log_loss", "needs every|returns"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_losses_that_are_none(loss, words):
    refused(words, loss=loss)


def test_a_loss_that_is_no_function():
    refused("a loss is a name or a function", TypeError, loss=3)


def test_a_loss_that_reads_what_the_model_can_not_give():
    refused("LinearRegression gives values, not probabilities", model=LinearRegression().fit(X, Y), loss="log_loss")
    refused("gives", model=LOGISTIC, y=BINARY, loss="squared_error")


# the model


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda X: np.zeros(len(X) - 1), "returned .* predictions for .* rows"),
        (lambda X: np.zeros((len(X), 2)), "returned an array of shape"),
        (lambda X: np.zeros((len(X), 1, 1)), "returned an array of shape"),
        (lambda X: 1.0, "returned a single float"),
        (lambda X: np.full(len(X), np.nan), "returned NaN or infinity"),
        (
            lambda X: np.where(X[:, 0] > 0, np.inf, 0.0),
            "returned NaN or infinity for .* of the 30 rows of X, first for row",
        ),
        (lambda X: np.array(["a"] * len(X)), "returned dtype"),
        (lambda X: None, "returned"),
    ],
)
def test_predictions_that_are_none(bad, words):
    refused(words, model=bad)


def test_predictions_that_turn_bad_only_where_values_are_replaced():
    """The unchanged rows are fine: x0 = x1 in each of them."""
    table = np.column_stack([np.arange(6.0), np.arange(6.0)])

    def breaks(X):
        return np.where(X[:, 0] == X[:, 1], 1.0, np.nan)

    refused("returned NaN or infinity", model=breaks, X=table, y=np.ones(6))


def test_predictions_that_change_shape():
    sizes = iter([2, 2, *[3] * 100])

    def shifty(X):
        k = next(sizes)
        return np.full((len(X), k), 1 / k)

    with pytest.raises(ValueError, match="shape"):
        explain(shifty, y=BINARY, loss="log_loss", donors="all", memory="200 kB")


def test_probabilities_that_are_none():
    refused("in .0, 1.", model=lambda X: np.column_stack([X[:, 0], 1 - X[:, 0]]), y=BINARY, loss="log_loss")
    refused("sum of probabilities to be 1", model=lambda X: np.full((len(X), 2), 0.3), y=BINARY, loss="brier")


@pytest.mark.parametrize(
    "unfitted",
    [LinearRegression(), RandomForestRegressor(), make_pipeline(StandardScaler(), LinearRegression())],
    ids=["linear", "forest", "pipeline"],
)
def test_a_model_that_is_not_fitted(unfitted):
    refused("not fitted", model=unfitted)


@pytest.mark.parametrize(
    ("bad", "words"),
    [(None, "a model is a function of a table or has a method predict"), (LinearRegression, "is a class, not a model")],
)
def test_models_that_are_none(bad, words):
    refused(words, TypeError, model=bad)


def test_an_error_of_the_models_own_reaches_the_user():
    class Fails(RegressorMixin, BaseEstimator):
        def predict(self, X):
            raise ZeroDivisionError("inside the model")

    refused("inside the model", ZeroDivisionError, model=Fails())


@pytest.mark.parametrize(
    "convert", [lambda f: f, pl.from_pandas, lambda f: f.to_numpy()], ids=["pandas", "polars", "numpy"]
)
def test_a_model_that_changes_its_table_is_right_or_refused(convert):
    def writes(table):
        found = model(table)
        if isinstance(table, np.ndarray):
            table[:] = 0
        elif isinstance(table, pd.DataFrame):
            table["LSTAT"] = 0.0
            table.loc[:, "RM"] = 0.0
            del table["NOX"]
        else:
            table[0, "LSTAT"] = 0.0
        return found

    table = convert(FRAME.copy())
    found = explain(writes, table, donors="all")
    np.testing.assert_array_equal(np.asarray(table), X)
    for one, two in zip(found.values(), explain().values(), strict=True):
        np.testing.assert_allclose(one.ici, two.ici)


# donors


@pytest.mark.parametrize(
    ("donors", "words"),
    [
        (ll.Latin(31), "asks for 31 donors, but 30 rows have only 30; lower m to 30 or less"),
        (ll.Systematic(31), "lower m to 30"),
        (ll.Grid(31), "lower m to 30"),
        (ll.Derangements(30), "asks for 30 donors, but 30 rows have only 29"),
        ("some", "donors is 'auto', 'all' or a design such as Latin.20.; got 'some'"),
    ],
    ids=str,
)
def test_designs_that_do_not_fit(donors, words):
    refused(words, donors=donors)


def test_permutations_may_be_many():
    assert np.isfinite(explain(donors=ll.Permutations(50))["x0"].pfi)


@pytest.mark.parametrize("donors", [20, ll.Latin, None])
def test_donors_that_are_no_design(donors):
    refused("donors is 'auto', 'all' or a design", TypeError, donors=donors)


def test_groups_of_columns_have_no_order():
    refused("has no order for Systematic.5.; use Latin", donors=ll.Systematic(5), features={"g": [0, 1]})
    refused("is for one column; 'g' is a group", donors=ll.Grid(values=[1.0]), features={"g": [0, 1]})


def test_a_pair_needs_a_grid():
    refused("needs a grid", donors=ll.Latin(5), features=("x0", "x1"))
    refused("is for one column; 'x0 x x1' is a pair", donors=ll.Grid(values=[1.0]), features=("x0", "x1"))


def test_workers_and_progress():
    refused("n_jobs is None, a number of workers, or -1 for all cores; got 'two'", n_jobs="two")
    refused("n_jobs is None, a number of workers", n_jobs=0)
    refused("progress is True, False, or None", progress="x")


def test_groups_of_columns_are_named():
    refused("write {'name': ..x1., .x2..} in features", features=["x0", ["x1", "x2"]])
    refused("group 'g' needs a list of columns; got 3.5", TypeError, features={"g": 3.5})


def test_a_scorer_where_a_loss_is_needed():
    found = ll.feature_importance(lambda X: X[:, 0], np.eye(3), np.ones(3), loss="squared_error")
    with pytest.raises(ValueError, match="a scorer gives one number for all rows"):
        found.with_loss(get_scorer("r2"))


def test_values_of_ones_own_must_fit_the_column():
    whole = pd.DataFrame({"a": np.arange(N), "w": pd.array(["x", "y"] * 15, "string")})
    for features, values in (("a", [1.5]), ("a", ["x"]), ("w", [3])):
        with pytest.raises(ValueError, match=r"Grid\(values=...\).*don't fit"):
            explain(lambda t: np.zeros(len(t)), whole, features=features, donors=ll.Grid(values=values))
    refused("names a value twice", donors=ll.Grid(values=[1.0, 1.0]), features="x0")


# sample_weight, groups, memory


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.r_[-1.0, np.ones(29)], "sample_weight must not be negative; row 0 has -1.0"),
        (np.zeros(N), "sample_weight must be above zero for at least two rows"),
        (np.r_[1.0, np.zeros(29)], "sample_weight must be above zero for at least two rows"),
        (np.ones(29), "sample_weight has 29 values, but X has 30 rows"),
        (np.r_[np.nan, np.ones(29)], "sample_weight must hold finite numbers"),
        (np.r_[np.inf, np.ones(29)], "sample_weight must hold finite numbers"),
        (["a"] * N, "sample_weight must hold finite numbers"),
        (np.ones((N, 2)), "sample_weight needs one value for each row"),
    ],
)
def test_weights_that_are_none(weight, words):
    refused(words, sample_weight=weight)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (np.zeros(N), "groups has only one group"),
        (np.arange(29), "groups has 29 values, but X has 30 rows"),
        (np.r_[np.nan, np.arange(29)], "groups has missing labels"),
        ([None, *"a" * 29], "groups has missing labels"),
    ],
)
def test_groups_that_are_none(groups, words):
    refused(words, groups=groups)


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        ("1 KiB", "memory=.* is too small for batches of 30 rows of this table: set it to"),
        (1000, "is too small"),
        ("much", "memory is a size such as '1 GiB', '500 MB' or a number of bytes; got 'much'"),
        ("1 parsec", "memory is a size"),
        ("1.2.3 GiB", "memory is a size"),
        (0, "memory must be above zero; got 0"),
        (-5, "memory must be above zero"),
        (None, "memory is a size"),
        (True, "memory is a size"),
    ],
)
def test_memory_that_is_no_size_or_too_small(memory, words):
    refused(words, memory=memory)


def test_the_memory_named_suffices_for_a_batch():
    with pytest.raises(ValueError, match="is too small") as error:
        explain(memory="1 KiB")
    needed = int(str(error.value).split("at least ")[1].split()[0])
    assert np.isfinite(explain(memory=needed)["x0"].pfi)


def test_a_ratio_over_an_error_of_zero():
    found = explain(y=model(X))["x0"]
    with pytest.raises(ValueError, match="divides by the model's error, which is exactly 0 here; use pfi"):
        found.ratio  # noqa: B018


def test_an_argument_that_does_not_exist():
    with pytest.raises(TypeError, match="n_repeats"):
        explain(n_repeats=5)


# losses that look at other rows


def centred(y, p):
    return (y - p) ** 2 - np.mean((y - p) ** 2)


LINEAR = LinearRegression().fit(X, Y)
FOREST = RandomForestRegressor(5, random_state=0).fit(X, Y)
WITH_LOSS = {
    "black box": lambda loss: explain(loss=loss),
    "sample": lambda loss: explain(loss=loss, donors=ll.Latin(3)),
    "linear": lambda loss: explain(LINEAR, loss=loss),
    "forest": lambda loss: explain(FOREST, loss=loss),
    "several": lambda loss: explain(loss=["squared_error", loss]),
    "with_loss": lambda loss: explain().with_loss(loss),
    "shapley": lambda loss: ll.shapley_importance(model, X, Y, loss=loss, random_state=0),
    "shapley of a forest": lambda loss: ll.shapley_importance(FOREST, X, Y, loss=loss, random_state=0),
    "pairs": lambda loss: ll.pair_interactions(model, X, Y, loss=loss),
    "draws": lambda loss: ll.conditional_predictive_impact(model, X, Y, ll.Residual(), loss=loss, random_state=0),
    "segments": lambda loss: ll.weak_segments(model, X, Y, loss=loss),
    "folds": lambda loss: ll.feature_importance_cv(LinearRegression(), X, Y, cv=2, loss=loss, random_state=0),
    "left out": lambda loss: ll.leave_one_covariate_out(LinearRegression(), X, Y, cv=2, loss=loss, random_state=0),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few rows, and rows that are in every bag
@pytest.mark.parametrize("call", WITH_LOSS.values(), ids=WITH_LOSS)
def test_no_verb_takes_a_loss_that_looks_at_other_rows(call):
    with pytest.raises(ValueError, match=r"the loss 'centred' of a row depends on the other rows: .*losses\.scorer"):
        call(centred)
    call(lambda y, p: (y - p) ** 2)


def test_neither_do_files(tmp_path):
    rows = np.random.default_rng(1).integers(0, N, 6_000)
    FRAME.assign(y=Y).iloc[rows].to_parquet(tmp_path / "0.parquet")
    with pytest.raises(ValueError, match="the loss 'centred' of a row depends on the other rows"):
        ll.feature_importance(model, tmp_path, "y", loss=centred, memory="250 KB")
