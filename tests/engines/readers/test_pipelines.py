"""Pipelines are taken apart into columns; what can't be is declined."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  (its import is what enables it)
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import (
    RFE,
    SelectFromModel,
    SelectKBest,
    SelectPercentile,
    SequentialFeatureSelector,
    VarianceThreshold,
    f_regression,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer, KNNImputer, MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

from losslens.engines.base import Declined
from losslens.engines.readers import pipelines
from losslens.engines.readers import pipelines as peeled_module
from losslens.engines.readers.linear import read_linear
from losslens.engines.readers.pipelines import UnwrappedModel, unwrap
from losslens.tables.frames import Batch, as_table

N = 150
RNG = np.random.default_rng(0)


# Few values and many, positive throughout for logarithms, one skewed.
X = np.column_stack(
    [RNG.integers(1, 5, N), RNG.exponential(size=N), RNG.uniform(1, 2, N), RNG.choice([0.5, 1.5, 9.0], N)]
).astype(float)


Y = X @ [1.0, 2.0, -3.0, 0.5] + RNG.normal(size=N)
BINARY = (np.median(Y) < Y).astype(int)
THREE = np.digitize(Y, np.quantile(Y, [0.3, 0.7]))
HOLES = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
HOLES[:, 2] = X[:, 2]  # one column with every value
WORDS = RNG.choice(["x", "y", "z", "rare"], N, p=[0.4, 0.3, 0.25, 0.05])
WORDS[:2] = "rare", "x"
FRAME = pd.DataFrame(
    {
        "a": X[:, 0].astype(int),
        "word": pd.Series(WORDS, dtype=object),
        "b": HOLES[:, 1],
        "letter": pd.Series(RNG.choice(["p", "q"], N), dtype=object),
        "c": X[:, 2],
        "kind": pd.Categorical(RNG.choice(["k", "l", "m"], N)),
    }
)


POLARS = pl.from_pandas(FRAME, nan_to_null=True)
FRAMES = {"pandas": FRAME, "polars": POLARS}


def in_each_library(array):
    frame = pd.DataFrame(array, columns=[f"c{j}" for j in range(array.shape[1])])
    return {"numpy": array, "pandas": frame, "polars": pl.from_pandas(frame)}


PLAIN, GAPS = in_each_library(X), in_each_library(HOLES)


def dense(matrix):
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix).astype(float)


def seen(unwrapped, table):
    """The estimator's matrix, made by the steps themselves."""
    batch = Batch(table).fill(np.arange(table.n), ())
    return batch if unwrapped.transform is None else unwrapped.transform(batch)


def rebuilt(unwrapped, table):
    """The same matrix from the images of the columns: matrix[:, c] = image[codes]."""
    matrix = np.full((table.n, len(unwrapped.source)), np.inf)
    columns = {j: table.column(j) for j in range(len(table.names))}
    images = unwrapped.images(table, {j: (column, column.distinct.first) for j, column in columns.items()})
    for j, (places, values) in images.items():
        assert (unwrapped.source[places] == j).all()
        assert values.shape == (len(columns[j].distinct), len(places))
        assert values.dtype == np.float64
        matrix[:, places] = values[columns[j].distinct.codes]
    return matrix


RIDGE = Ridge()


SKLEARN = tuple(int(part) for part in sklearn.__version__.split(".")[:2])


def fitted(steps, native, y=Y, last=RIDGE):
    own = native.copy() if hasattr(native, "copy") else native  # a step may work in place
    return make_pipeline(*steps, clone(last)).fit(own, y)


def check(model, native):
    """Sources, images and the estimator together give what the model gives."""
    table = as_table(native)
    unwrapped = unwrap(model, table)
    matrix = seen(unwrapped, table)
    np.testing.assert_array_equal(rebuilt(unwrapped, table), dense(matrix))
    batch = Batch(table).fill(np.arange(table.n), ())
    np.testing.assert_allclose(unwrapped.estimator.predict(matrix), model.predict(batch), rtol=1e-12, atol=1e-12)
    return unwrapped


# One step.


SCALERS = {
    "standard": StandardScaler(),
    "in place": StandardScaler(copy=False),
    "min max": MinMaxScaler(),
    "max abs": MaxAbsScaler(),
    "robust": RobustScaler(),
    "uniform": QuantileTransformer(n_quantiles=20),
    "normal": QuantileTransformer(n_quantiles=20, output_distribution="normal"),
    "power": PowerTransformer(),
    "box-cox": PowerTransformer(method="box-cox", standardize=False),
    "binary": Binarizer(threshold=1.5),
    "log": FunctionTransformer(np.log1p),
    "scipy's": FunctionTransformer(expit, validate=True),
    "identity": FunctionTransformer(),
    "passthrough": "passthrough",
    "ordinal": OrdinalEncoder(),
    "bins": KBinsDiscretizer(3, encode="ordinal", strategy="uniform"),
    "degree 1": PolynomialFeatures(1),
}


WIDENERS = {
    "one hot bins": KBinsDiscretizer([3, 4, 2, 5], strategy="uniform"),
    "dense bins": KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform"),
    "splines": SplineTransformer(n_knots=4),
    "fewer splines": SplineTransformer(n_knots=4, degree=2, include_bias=False, extrapolation="linear"),
    "periodic": SplineTransformer(n_knots=5, extrapolation="periodic"),
    "sparse splines": SplineTransformer(n_knots=4, sparse_output=True),
    "one hot": OneHotEncoder(handle_unknown="ignore"),
    "grouped": OneHotEncoder(min_frequency=20, handle_unknown="infrequent_if_exist"),
    "grouped, first dropped": OneHotEncoder(max_categories=3, drop="first"),
    "dense one hot": OneHotEncoder(sparse_output=False, drop="if_binary", dtype=np.float32),
}


SELECTORS = {
    "k best": SelectKBest(f_regression, k=2),
    "percentile": SelectPercentile(f_regression, percentile=75),
    "variance": VarianceThreshold(0.3),
    "rfe": RFE(Ridge(), n_features_to_select=2),
    "from model": SelectFromModel(Lasso(alpha=0.1)),
    "sequential": SequentialFeatureSelector(Ridge(), n_features_to_select=3),
}


@pytest.mark.parametrize("library", PLAIN)
@pytest.mark.parametrize("name", [*SCALERS, *WIDENERS, *SELECTORS])
def test_one_step(name, library):
    step = {**SCALERS, **WIDENERS, **SELECTORS}[name]
    before = X.copy()
    unwrapped = check(fitted([step], PLAIN[library]), PLAIN[library])
    if name in SCALERS and name != "degree 1":
        assert unwrapped.source.tolist() == [0, 1, 2, 3]
    if name in SELECTORS:
        assert unwrapped.source.tolist() == peeled_support(step, library)
    np.testing.assert_array_equal(X, before)


def peeled_support(step, library):
    return np.flatnonzero(fitted([step], PLAIN[library])[0].get_support()).tolist()


IMPUTERS = {
    "mean": SimpleImputer(),
    "most frequent": SimpleImputer(strategy="most_frequent"),
    "constant": SimpleImputer(strategy="constant", fill_value=-1.0),
    "indicator beside": SimpleImputer(add_indicator=True),
    "indicator alone": MissingIndicator(),
    "indicator of all": MissingIndicator(features="all"),
    "sparse indicator": MissingIndicator(sparse=True),
    "scaled": StandardScaler(),
    "missing is a category": OneHotEncoder(handle_unknown="ignore"),
}
if "handle_missing" in SplineTransformer().get_params():  # from scikit-learn 1.8 on
    IMPUTERS["splines"] = SplineTransformer(n_knots=3, handle_missing="zeros")


@pytest.mark.parametrize("library", GAPS)
@pytest.mark.parametrize("name", IMPUTERS)
def test_missing_values(name, library):
    steps = [IMPUTERS[name], *([SimpleImputer()] if name == "scaled" else [])]
    unwrapped = check(fitted(steps, GAPS[library]), GAPS[library])
    expected = {
        "indicator beside": [0, 1, 2, 3, 0, 1, 3],
        "indicator alone": [0, 1, 3],
        "indicator of all": [0, 1, 2, 3],
    }
    assert unwrapped.source.tolist() == expected.get(name, unwrapped.source.tolist())


@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
@pytest.mark.parametrize(
    ("imputer", "source"),
    [
        (SimpleImputer(), [0, 2, 3]),
        (SimpleImputer(add_indicator=True), [0, 2, 3, 0, 1, 3]),
        (SimpleImputer(keep_empty_features=True), [0, 1, 2, 3]),
        (SimpleImputer(keep_empty_features=True, add_indicator=True), [0, 1, 2, 3, 0, 1, 3]),
        (SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True), [0, 1, 2, 3]),
    ],
    ids=str,
)
def test_a_column_without_values_is_left_out_or_kept(imputer, source):
    empty = HOLES.copy()
    empty[:, 1] = np.nan
    assert check(fitted([imputer], empty), empty).source.tolist() == source


def test_the_estimator_may_be_given_missing_values():
    unwrapped = check(fitted([StandardScaler()], HOLES, last=RandomForestRegressor(3)), HOLES)
    assert np.isnan(rebuilt(unwrapped, as_table(HOLES))).any()


@pytest.mark.parametrize("target", [Y, BINARY, THREE], ids=["numbers", "two classes", "three classes"])
@pytest.mark.parametrize("library", FRAMES)
def test_target_encoding_makes_a_column_for_each_of_three_classes(library, target):
    encoder = TargetEncoder(target_type="multiclass" if target is THREE else "auto")
    native = FRAMES[library][["word", "letter"]]
    last = LogisticRegression() if target is not Y else Ridge()
    unwrapped = check(fitted([encoder], native, target, last), native)
    assert unwrapped.source.tolist() == ([0, 0, 0, 1, 1, 1] if target is THREE else [0, 1])


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(),
        OneHotEncoder(drop="first"),
        OneHotEncoder(drop="if_binary", min_frequency=15),
        OneHotEncoder(drop=["x", "q", "l"], sparse_output=False),
        OneHotEncoder(min_frequency=0.1, handle_unknown="infrequent_if_exist"),
        OneHotEncoder(max_categories=2, drop="first"),
        OneHotEncoder(categories=[["x", "y", "z", "rare", "never"], ["p", "q"], ["k", "l", "m"]]),
        OrdinalEncoder(),
        OrdinalEncoder(min_frequency=15, handle_unknown="use_encoded_value", unknown_value=-1),
    ],
    ids=str,
)
@pytest.mark.parametrize("library", [*FRAMES, "numpy"])
def test_words(encoder, library):
    columns = ["word", "letter", "kind"]
    native = FRAME[columns].astype(object).to_numpy() if library == "numpy" else FRAMES[library][columns]
    check(fitted([encoder], native), native)


@pytest.mark.parametrize("library", FRAMES)
def test_words_that_were_not_there_at_the_fit(library):
    encoder, columns = OneHotEncoder(handle_unknown="ignore"), ["word", "letter"]
    rows = np.flatnonzero(WORDS != "rare")
    native = FRAMES[library][columns]
    model = fitted([encoder], FRAME[columns].iloc[rows] if library == "pandas" else native[rows], Y[rows])
    unwrapped = check(model, native)
    assert unwrapped.source.tolist() == [0, 0, 0, 1, 1]


def test_powers_of_one_column_are_its_own():
    one = X[:, :1]
    assert check(fitted([PolynomialFeatures(3)], one), one).source.tolist() == [0, 0, 0, 0]
    # Products of columns that come from the same one: splines of one column, multiplied.
    check(fitted([SplineTransformer(n_knots=3), PolynomialFeatures(2, include_bias=False)], one), one)
    nothing = PolynomialFeatures((3, 3), interaction_only=True, include_bias=False)
    union = make_union("passthrough", ColumnTransformer([("none", nothing, [0, 1])]))
    assert check(fitted([union], X), X).source.tolist() == [0, 1, 2, 3]


# Several steps.


def numbers_and_words():
    numeric = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore", drop="if_binary")
    return ColumnTransformer([("words", words, ["kind", "word", "letter"]), ("numbers", numeric, ["c", "b", "a"])])


@pytest.mark.parametrize("library", FRAMES)
def test_numbers_and_words_side_by_side(library):
    native = FRAMES[library]
    unwrapped = check(fitted([numbers_and_words()], native), native)
    # kind, word, letter by their categories; c, b, a and whether b is missing.
    assert unwrapped.source.tolist() == [5] * 3 + [1] * 4 + [3] + [4, 2, 0] + [2]


FILLED = {"pandas": FRAME.assign(b=X[:, 1]), "polars": POLARS.with_columns(b=pl.Series(X[:, 1]))}


@pytest.mark.parametrize("library", FILLED)
@pytest.mark.parametrize("remainder", ["drop", "passthrough", MinMaxScaler()], ids=str)
@pytest.mark.parametrize(
    ("columns", "scaled"),
    [
        (["c", "a"], "ca"),
        (slice("b", "c"), "bc"),
        (slice(2, None, 2), "bc"),
        ([4, 0], "ca"),
        ([-2, 0], "ca"),
        (np.array([True, False, False, False, True, False]), "ac"),
        (lambda frame: ["a", "c"], "ac"),
        (make_column_selector(pattern="^[ac]$"), "ac"),
    ],
    ids=["names", "names from to", "slice", "positions", "from the end", "mask", "function", "pattern"],
)
def test_columns_named_in_any_way(columns, scaled, remainder, library):
    if library == "polars" and isinstance(columns, make_column_selector):
        pytest.skip("scikit-learn's selector reads pandas only")
    order = ["a", "letter", "b", "word", "c", "kind"]
    if isinstance(columns, slice) and columns.start == "b":
        order = ["a", "letter", "word", "kind", "b", "c"]
    words = OneHotEncoder(sparse_output=False)
    step = ColumnTransformer(
        [("scaled", StandardScaler(), columns), ("words", words, ["letter", "word", "kind"])], remainder=remainder
    )
    unwrapped = check(fitted([step], FILLED[library][order]), FILLED[library][order])
    rest = [] if remainder == "drop" else sorted(set("abc") - set(scaled))
    expected = [*scaled, *["letter"] * 2, *["word"] * 4, *["kind"] * 3, *rest]
    assert [order[j] for j in unwrapped.source] == expected


def test_columns_by_type():
    native = FRAME.assign(b=X[:, 1])
    step = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(), make_column_selector(dtype_exclude="number")),
    )
    assert check(fitted([step], native), native).source.tolist() == [0, 2, 4] + [1] * 4 + [3] * 2 + [5] * 3


@pytest.mark.parametrize("library", FRAMES)
def test_columns_are_found_by_name_where_the_table_has_another_order(library):
    """A ColumnTransformer that was fitted to a frame reads frames by name, whatever else they hold."""
    native = FRAMES[library]
    model = fitted([numbers_and_words()], native)
    other = native[["kind", "c", "letter", "word", "b", "a"]]
    other = other.assign(more=1.0) if library == "pandas" else other.with_columns(more=pl.lit(1.0))
    unwrapped = check(model, other)
    assert unwrapped.source.tolist() == [0] * 3 + [3] * 4 + [2] + [1, 4, 5] + [4]
    np.testing.assert_array_equal(model.predict(other), model.predict(native))
    inside = make_pipeline(make_union(Pipeline([("first", model[0])])), model[1])
    check(inside.fit(native, Y), other)
    if library == "pandas":
        first = fitted([FunctionTransformer(), numbers_and_words()], native)
        check(first, other)


def test_a_selected_column_that_the_table_lacks():
    model = fitted([numbers_and_words()], FRAME)
    with pytest.raises(Declined, match="doesn't have"):
        unwrap(model, as_table(FRAME.drop(columns="c")))


@pytest.mark.parametrize("library", PLAIN)
def test_a_column_used_twice(library):
    if library == "polars" and SKLEARN < (1, 8):
        pytest.skip("before 1.8 scikit-learn does not put a sparse matrix next to columns of polars")
    step = ColumnTransformer(
        [
            ("bins", KBinsDiscretizer(3, strategy="uniform"), [1, 3]),
            ("scaled", StandardScaler(), [3, 1]),
            ("logarithm", FunctionTransformer(np.log), [1]),
            ("nothing", StandardScaler(), []),
            ("gone", "drop", [2]),
        ],
        remainder="passthrough",
        transformer_weights={"scaled": 10.0},
    )
    model = fitted([step], PLAIN[library])
    assert check(model, PLAIN[library]).source.tolist() == [1, 1, 1, 3, 3, 3, 3, 1, 1, 0]


@pytest.mark.parametrize("library", PLAIN)
def test_nested_pipelines_unions_and_transformers(library):
    inner = ColumnTransformer([("late", MinMaxScaler(), [1])], remainder="passthrough")
    union = FeatureUnion(
        [
            ("as it is", "passthrough"),
            ("gone", "drop"),
            ("chosen", Pipeline([("k", SelectKBest(f_regression, k=2)), ("s", SplineTransformer(n_knots=3))])),
        ],
        transformer_weights={"chosen": 2.0},
    )
    outer = ColumnTransformer([("inner", inner, [3, 0, 2])])
    last = Pipeline([("varying", VarianceThreshold()), ("ridge", Ridge())])
    model = make_pipeline(make_union(outer, union), StandardScaler(), last)
    model.fit(PLAIN[library], Y)
    unwrapped = check(model, PLAIN[library])
    assert isinstance(unwrapped.estimator, Ridge)
    assert unwrapped.source[:7].tolist() == [0, 3, 2, 0, 1, 2, 3]


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_steps_may_hand_frames_on(output):
    native = FILLED[output]
    words = OneHotEncoder(sparse_output=False)
    first = ColumnTransformer([("words", words, ["letter"])], remainder="passthrough", verbose_feature_names_out=False)
    second = ColumnTransformer([("scaled", StandardScaler(), ["c", "a"])], remainder="drop")
    model = make_pipeline(first, second, Ridge()).set_output(transform=output).fit(native, Y)
    assert check(model, native).source.tolist() == [4, 0]


def test_a_frame_from_another_library_than_that_of_the_fit():
    model = fitted([numbers_and_words()], FRAME)
    check(model, POLARS.with_columns(b=pl.col("b").fill_null(float("nan"))))


def test_arrays_given_to_what_was_fitted_to_a_frame():
    model = fitted([StandardScaler()], X)
    check(model, X.astype(np.float32))
    check(fitted([OrdinalEncoder()], X.astype(int)), X.astype(int))


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
def test_searches_give_their_best(search):
    inside = search(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [1.0, 2.0]}, **few(search)).fit(X, Y)
    assert check(inside, X).estimator is inside.best_estimator_[-1]
    last = make_pipeline(StandardScaler(), search(Ridge(), {"alpha": [1.0, 2.0]}, **few(search))).fit(X, Y)
    assert check(last, X).estimator is last[-1].best_estimator_


def few(search):
    return {"cv": 2, **({"n_iter": 2} if search is RandomizedSearchCV else {})}


def test_frozen_estimators_are_opened():
    model = FrozenEstimator(fitted([StandardScaler()], X))
    assert isinstance(check(model, X).estimator, Ridge)
    step = FrozenEstimator(StandardScaler().fit(X))
    assert check(fitted([step, SelectKBest(f_regression, k=2)], X), X).source.shape == (2,)


NULLABLE = pd.DataFrame(
    {
        "b": pd.array(np.where(np.arange(N) % 5, X[:, 0], np.nan), dtype="Int64"),
        "word": pd.array(WORDS, dtype="string"),
        "a": pd.array(X[:, 1], dtype="Float32"),
        "c": X[:, 3] > 1,
        "letter": pd.to_datetime(RNG.integers(0, 3, N), unit="D"),
        "kind": pd.Categorical(RNG.choice([1, 2, 3], N)),
    }
)


UNUSUAL = {
    **({"arrow": pa.Table.from_pandas(FRAME)} if SKLEARN >= (1, 7) else {}),  # before, it takes no columns of it
    "nullable": NULLABLE,
    "whole numbers with gaps": POLARS.with_columns(b=pl.col("a").replace(2, None).cast(pl.Int16)),
    "objects": FRAME.assign(kind=FRAME["kind"].astype(object), a=FRAME["a"].astype(object)),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_tables(name):
    check(fitted([numbers_and_words()], UNUSUAL[name]), UNUSUAL[name])


def test_arrays_of_objects():
    native = np.column_stack([X[:, :2].astype(object), WORDS.astype(object)])
    step = ColumnTransformer(
        [("scaled", StandardScaler(), [1]), ("words", OneHotEncoder(sparse_output=False), [2])], remainder="passthrough"
    )
    assert check(fitted([step], native), native).source.tolist() == [1, 2, 2, 2, 2, 0]


leaves = st.sampled_from(
    [
        StandardScaler(),
        MinMaxScaler(),
        SplineTransformer(n_knots=3, degree=1),
        KBinsDiscretizer(2, encode="onehot-dense", strategy="uniform"),
        SimpleImputer(add_indicator=True),
        VarianceThreshold(),
        FunctionTransformer(np.arctan),
    ]
).map(clone)  # pipelines fit what they are given, each its own


selections = st.lists(st.sampled_from([[0], [-1, 0], slice(0, 2), slice(-3, None)]), min_size=1, max_size=3)


compositions = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.lists(parts, min_size=2, max_size=2).map(lambda steps: make_pipeline(*steps)),
        st.lists(parts, min_size=2, max_size=2).map(lambda steps: make_union(*steps)),
        st.tuples(parts, selections).map(
            lambda drawn: ColumnTransformer([(f"part {k}", drawn[0], which) for k, which in enumerate(drawn[1])])
        ),
    ),
    max_leaves=4,
)


@pytest.mark.filterwarnings("ignore")  # constant columns, which random steps make now and then
@settings(max_examples=25)
@given(compositions)
def test_any_composition(step):
    check(fitted([step], X), X)


# No steps.


ARROW = pa.table(dict(zip("abcd", X.T, strict=True)))


@pytest.mark.parametrize("native", [*PLAIN.values(), X.astype(np.float32), ARROW])
def test_without_steps_the_estimator_sees_the_table(native):
    model = Ridge().fit(X, Y)
    for whole in (model, Pipeline([("nothing", "passthrough"), ("last", model)])):
        unwrapped = unwrap(whole, as_table(native))
        assert unwrapped.transform is None
        assert unwrapped.estimator is model
        assert unwrapped.source.tolist() == [0, 1, 2, 3]
        np.testing.assert_array_equal(rebuilt(unwrapped, as_table(native)), dense(seen(unwrapped, as_table(native))))


def test_without_steps_words_are_declined():
    table = as_table(pd.DataFrame({"a": [1, 2], "b": ["1", "2"], "c": [True, None], "d": pd.to_datetime([0, 1])}))
    unwrapped = unwrap(Ridge(), table)
    first = np.arange(2)
    assert unwrapped.image(table, 0, first)[1].tolist() == [[1.0], [2.0]]
    np.testing.assert_array_equal(unwrapped.image(table, 2, first)[1], [[1.0], [np.nan]])
    for j in (1, 3):
        with pytest.raises(Declined, match="text or dates"):
            unwrapped.image(table, j, first)
    odd = as_table(np.array([[1j, 2], [3, 4]], dtype=object))
    with pytest.raises(Declined, match="not numbers"):
        unwrap(Ridge(), odd).image(odd, 0, first)


# Images.


@pytest.mark.parametrize("library", FRAMES)
def test_images_of_several_columns_in_one_pass_and_in_chunks(library, monkeypatch):
    table = as_table(FRAMES[library])
    unwrapped = unwrap(fitted([numbers_and_words()], FRAMES[library]), table)
    columns = {j: table.column(j) for j in range(6)}
    wanted = {j: (column, column.distinct.first) for j, column in columns.items()}
    together = unwrapped.images(table, wanted)
    monkeypatch.setattr(peeled_module, "CHUNK", 7)
    in_chunks = unwrapped.images(table, wanted)
    for j, column in columns.items():
        alone = unwrapped.image(table, j, column.distinct.first, column)
        for other in (together[j], in_chunks[j]):
            np.testing.assert_array_equal(alone[0], other[0])
            np.testing.assert_array_equal(alone[1], other[1])


@pytest.mark.parametrize("library", FRAMES)
def test_images_at_values_of_the_users_own(library):
    table, model = as_table(FRAMES[library]), fitted([numbers_and_words()], FRAMES[library])
    column, values = table.column(4).extended([0.0, 1.0]), np.array([0.0, 1.0])
    places, found = unwrap(model, table).image(table, 4, N + np.arange(2), column)
    scaler = model[0].named_transformers_["numbers"][1]
    assert places.tolist() == [8]
    np.testing.assert_allclose(found[:, 0], (values - scaler.mean_[0]) / scaler.scale_[0], rtol=1e-12)


def test_images_that_would_fill_the_memory(monkeypatch):
    monkeypatch.setattr(peeled_module, "MAX_VALUES", 1000)
    native = np.arange(N)[:, None]
    table = as_table(native)
    unwrapped = unwrap(fitted([OneHotEncoder()], native), table)
    with pytest.raises(Declined, match="too many columns"):
        unwrapped.image(table, 0, np.arange(N))
    assert unwrapped.image(table, 0, np.arange(3))[1].sum(axis=1).tolist() == [1, 1, 1]


def test_a_column_that_nothing_comes_from():
    table = as_table(X)
    model = fitted([ColumnTransformer([("one", StandardScaler(), [0])])], X)
    places, values = unwrap(model, table).image(table, 2, np.arange(5))
    assert places.shape == (0,)
    assert values.shape == (5, 0)


# Declined.


class Centred(StandardScaler):
    """Somebody's own scaler, which looks across columns."""

    def transform(self, X):
        return super().transform(X) - np.mean(X, axis=1, keepdims=True)


class Unknown(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


MIXING = {
    "PCA": PCA(2),
    "TruncatedSVD": TruncatedSVD(2),
    "PolynomialFeatures": PolynomialFeatures(2),
    "multiplies": PolynomialFeatures(2, interaction_only=True),
    "Normalizer": Normalizer(),
    "KNNImputer": KNNImputer(),
    "IterativeImputer": IterativeImputer(),
    "Nystroem": Nystroem(n_components=3),
    "cumsum": FunctionTransformer(np.cumsum, kw_args={"axis": 1}),
    "<lambda>": FunctionTransformer(lambda X: X[:, ::-1]),
    "arctan": FunctionTransformer(np.arctan, kw_args={"where": True}),
    "Centred": Centred(),
    "Unknown": Unknown(),
}


@pytest.mark.parametrize("name", MIXING)
def test_steps_that_mix_columns_or_are_not_known(name):
    for step in (make_union("passthrough", MIXING[name]), MIXING[name]):
        with pytest.raises(Declined, match=name):
            unwrap(fitted([step], X), as_table(X))
    inside = ColumnTransformer([("part", make_pipeline(StandardScaler(), MIXING[name]), [0, 2, 1, 3])])
    with pytest.raises(Declined, match=rf"multipl|{name}"):
        unwrap(fitted([inside], np.abs(X)), as_table(X))


def test_hashed_and_counted_words():
    hasher = FeatureHasher(n_features=4, input_type="string")
    listed = FunctionTransformer(lambda frame: frame.astype(str).values.tolist())
    with pytest.raises(Declined, match="lambda"):
        unwrap(fitted([listed, hasher], FRAME[["word"]]), as_table(FRAME[["word"]]))
    counted = ColumnTransformer([("count", CountVectorizer(analyzer="char"), "word")])
    with pytest.raises(Declined, match="CountVectorizer"):
        unwrap(fitted([counted], FRAME), as_table(FRAME))


def test_words_that_reach_the_estimator():
    model = make_pipeline(FunctionTransformer(), RandomForestRegressor(2)).fit(X, Y)
    with pytest.raises(Declined, match="text"):
        unwrap(model, as_table(FRAME[["a", "word", "b", "c"]]))


@pytest.mark.parametrize("native", [GridSearchCV(Ridge(), {}), make_pipeline(OneHotEncoder(), Ridge())], ids=str)
def test_not_fitted(native):
    with pytest.raises(Declined, match="can't be read"):
        unwrap(native, as_table(X))


def test_a_table_of_another_width():
    with pytest.raises(Declined, match="fitted to 4 columns but gets 3"):
        unwrap(fitted([StandardScaler()], X), as_table(X[:, :3]))
    with pytest.raises(Declined, match="fitted to 4 columns but gets 3"):
        unwrap(fitted([ColumnTransformer([("a", StandardScaler(), [0])])], X), as_table(X[:, :3]))


def test_a_pipeline_without_an_estimator():
    with pytest.raises(Declined, match="not an estimator"):
        unwrap(Pipeline([("a", StandardScaler().fit(X)), ("b", "passthrough")]), as_table(X))


@pytest.mark.parametrize("fault", ["moved", "mixed", "widened", "of the batch"])
@pytest.mark.parametrize("n", [2, N])
def test_what_was_read_is_checked_on_rows(fault, n, monkeypatch):
    """A rule that is wrong, or a class that does not do what its name says, is found out."""
    changes = {
        "moved": lambda X: X[:, ::-1],
        "mixed": lambda X: X + 1e-3 * X[:, :1] * X[:, 1:2],
        "widened": lambda X: np.hstack([X, X]),
        "of the batch": lambda X: X - X.mean(axis=0),
    }
    model = fitted([StandardScaler()], X)
    unwrap(model, as_table(X[:n]))
    monkeypatch.setattr(pipelines, "_transform", lambda steps, table: changes[fault](table))
    with pytest.raises(Declined, match=r"more than one|8 columns where 4"):
        unwrap(model, as_table(X[:n]))


def rounding(values):
    return {"rtol": 1e-12, "atol": 1e-12 * np.abs(values).max()}


def test_the_pieces_together():
    """A prediction is the intercept and, for each column of the table, a number that hangs on its value alone."""
    table, model = as_table(FRAME), fitted([numbers_and_words()], FRAME)
    unwrapped = unwrap(model, table)
    assert isinstance(unwrapped, UnwrappedModel)
    linear = read_linear(unwrapped.estimator, "values")
    total = np.full(N, linear.intercept[0])
    for j in range(6):
        distinct = table.column(j).distinct
        columns, values = unwrapped.image(table, j, distinct.first)
        total += (values @ linear.coef[0, columns])[distinct.codes]
    np.testing.assert_allclose(total, model.predict(FRAME), **rounding(Y))


@pytest.mark.parametrize("func", [np.modf, np.add, np.matmul])
def test_functions_of_several_arrays_are_not_columnwise(func):
    with pytest.raises(Declined, match=func.__name__):
        pipelines._function(SimpleNamespace(func=func, kw_args=None), None)
