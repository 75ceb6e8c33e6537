"""Whatever the table is made of: the same numbers, the model sees its own kind of table, and nothing is changed."""

import copy
import datetime as dt
import random
import zlib
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer
from sklearn.tree import DecisionTreeRegressor

import losslens as ll
from losslens.engines import choice
from losslens.page.summary import kind_of
from losslens.tables.columns import is_missing
from losslens.tables.frames import as_table

RNG = np.random.default_rng(0)
N = 12
DESIGNS = [
    ll.All(),
    ll.Grid(4),
    ll.Grid(4, at="quantiles"),
    ll.Permutations(4),
    ll.Latin(4),
    ll.Systematic(4),
    ll.Derangements(4),
    ll.Derangements(),
]
# Eighths and whole numbers: the same in every type.
NUMBERS = np.column_stack([RNG.integers(-40, 40, N) / 8, RNG.integers(0, 4, N), RNG.integers(0, 2, N)]).astype(float)
WHOLE = RNG.integers(0, 5, (N, 3))
Y = RNG.normal(size=N)
NAMES = ["a", "b", "c"]


def as_floats(X):
    """Three columns of any table as one array."""
    if isinstance(X, np.ndarray):
        return X.astype(float)
    if isinstance(X, pd.DataFrame):
        return X.to_numpy(dtype=float, na_value=np.nan)
    return np.column_stack([np.asarray(X[name]) for name in NAMES]).astype(float)


def model(X):
    a, b, c = as_floats(X).T
    return a * b + np.exp(c) + np.sin(a)


def explain(X, design=DESIGNS[0], predict=model, y=Y, **options):
    return ll.feature_importance(predict, X, y, loss="squared_error", donors=design, random_state=0, **options)


def assert_same(found, expected):
    for one, other in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_allclose(one.local, other.local, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(one.pi, other.pi, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-12)
        assert one.grid.dtype.kind in "biuf"  # plots and pages draw it on an axis of numbers
        np.testing.assert_array_equal(np.asarray(one.grid, float), np.asarray(other.grid, float))
        assert one.n_predictions == other.n_predictions


FRAME = pd.DataFrame(NUMBERS, columns=NAMES)
DECIMALS = FRAME.map(Decimal)
SAME = {
    "decimals": DECIMALS.to_numpy(),
    "pandas decimals": DECIMALS,
    "pandas sparse": FRAME.astype(pd.SparseDtype(float, 0.0)),
    "pandas arrow decimals": DECIMALS.astype(pd.ArrowDtype(pa.decimal128(8, 3))),
    "polars decimals": pl.from_pandas(FRAME).cast(pl.Decimal(8, 3)),
    "pyarrow decimals": pa.Table.from_pandas(DECIMALS),
    "columns first": np.asfortranarray(NUMBERS),
    "every other row": np.repeat(NUMBERS, 2, axis=0)[::2],
    "float32": NUMBERS.astype("float32"),
    "objects": NUMBERS.astype(object),
    "read-only": copy.deepcopy(NUMBERS),
    "big-endian": NUMBERS.astype(">f8"),
    "lists": NUMBERS.tolist(),
    "pandas": FRAME,
    "pandas float32": FRAME.astype("float32"),
    "pandas mixed": FRAME.astype({"b": "int8", "c": "bool"}),
    "pandas nullable": FRAME.astype({"a": "Float64", "b": "Int64", "c": "boolean"}),
    "pandas arrow": FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "pandas objects": FRAME.astype(object),
    "pandas of one block": FRAME.copy(),
    "pandas in pieces": pd.concat([FRAME[[name]] for name in NAMES], axis=1),
    "polars": pl.from_pandas(FRAME),
    "polars mixed": pl.from_pandas(FRAME.astype({"a": "float32", "b": "int8", "c": "bool"})),
    "polars in chunks": pl.concat([pl.from_pandas(FRAME[:5]), pl.from_pandas(FRAME[5:])], rechunk=False),
    "pyarrow": pa.Table.from_pandas(FRAME),
    "pyarrow in chunks": pa.concat_tables([pa.Table.from_pandas(FRAME[:5]), pa.Table.from_pandas(FRAME[5:])]),
    "pyarrow mixed": pa.Table.from_pandas(FRAME.astype({"a": "float32", "b": "int8", "c": "bool"})),
}
SAME["read-only"].flags.writeable = False


@pytest.mark.parametrize("kind", SAME)
def test_every_container_gives_the_numbers_of_an_array(kind):
    for design in DESIGNS:
        assert_same(explain(SAME[kind], design), explain(NUMBERS, design))


def held(kind, frame):
    """Numbers in columns of objects, of decimals, or with zeros left out; some are missing."""
    if kind == "pandas sparse":
        return frame.astype(pd.SparseDtype(float, 0.0))
    frame = frame.astype(object).where(frame.notna(), None) if kind == "objects" else frame
    decimals = frame.map(lambda value: None if is_missing(value) else Decimal(value))
    return {
        "objects": frame.to_numpy,
        "pandas decimals": lambda: decimals,
        "pandas arrow decimals": lambda: decimals.astype(pd.ArrowDtype(pa.decimal128(8, 3))),
        "polars decimals": lambda: pl.DataFrame(decimals.to_dict("list"), dict.fromkeys(NAMES, pl.Decimal(8, 3))),
        "pyarrow decimals": lambda: pa.table(
            decimals.to_dict("list"), pa.schema([(name, pa.decimal128(8, 3)) for name in NAMES])
        ),
    }[kind]()


@pytest.mark.parametrize(
    "kind",
    ["objects", "pandas sparse", "pandas decimals", "pandas arrow decimals", "polars decimals", "pyarrow decimals"],
)
def test_numbers_are_numbers_to_samplers_regions_and_pages(kind):
    """Whatever holds them: the same draws, rules, axes and distances as those of floats.

    A column of decimals rounds the values that residuals give to its own three places: their importance agrees to 0.1.
    """
    frame = pd.DataFrame(np.random.default_rng(3).integers(-8, 8, (120, 3)) / 8, columns=NAMES)
    y = (frame["a"] * (1 + 5 * (frame["c"] > 0)) + frame["b"]).to_numpy()
    frame.loc[::9, "b"] = np.nan

    def predict(X):
        a, b, c = np.nan_to_num(as_floats(X)).T
        return a * (1 + 5 * (c > 0)) + b

    found = []
    for X in (held(kind, frame), frame.to_numpy() if kind == "objects" else frame):
        columns = [as_table(X).column(j).distinct for j in range(3)]
        first, second, _ = ("x0", "x1", "x2") if kind == "objects" else NAMES
        imp = explain(X, ll.All(), predict, y, features=[first])
        within = explain(X, ll.Within(m=2), predict, y, features=[second])
        residual = explain(X, ll.Residual(DecisionTreeRegressor(max_depth=2), m=2), predict, y, features=[second])
        found.append(
            {
                "kinds": [kind_of(column) for column in columns],
                "regions": [region.rule for region in imp.regions(X, random_state=0).regions],
                "distance": imp[first].extrapolation.share,
                "within": within[second].pfi,
                "residual": round(residual[second].pfi, 1),
            }
        )
    own, floats = found
    assert any(own["regions"])  # some split was found
    assert str(own) == str(floats)


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint16", "object"])
def test_whole_numbers_are_as_good_as_floats(dtype):
    for design in DESIGNS:
        assert_same(explain(WHOLE.astype(dtype), design), explain(WHOLE.astype(float), design))


INDICES = {
    "letters": list("abcdefghijkl"),
    "duplicated": [0] * N,
    "backwards": range(N)[::-1],
    "dates": pd.date_range("2024", periods=N),
    "two levels": pd.MultiIndex.from_product([["x", "y"], range(6)]),
}


@pytest.mark.parametrize("index", INDICES)
def test_the_index_of_a_frame_means_nothing(index):
    frame = FRAME.set_axis(INDICES[index], axis=0)
    series = pd.Series(Y, index=pd.RangeIndex(100, 100 + N)[::-1])
    for design in DESIGNS:
        assert_same(explain(frame, design, y=series), explain(NUMBERS, design))


LABELS = {
    "numbers": [0, 1, 2],
    "other numbers": [10, 0, -3],
    "fractions": [0.5, 1.5, 2.5],
    "tuples": pd.Index([("a", 1), ("a", 2), ("b", 1)], tupleize_cols=False),
    "two levels": pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["outer", "inner"]),
    "mixed": ["a", 1, ("b", 2)],
    "dates": pd.date_range("2024", periods=3),
    "attributes": ["column_names", "values", "index"],
}


@pytest.mark.parametrize("labels", LABELS)
def test_columns_may_be_labelled_with_anything(labels):
    frame = FRAME.set_axis(LABELS[labels], axis=1)
    seen = []

    def recording(X):
        seen.append(X.columns)
        return model(X)

    found = explain(frame, predict=recording)
    assert_same(found, explain(NUMBERS))
    first, *_, last = list(frame.columns)
    assert list(found) == [str(label) for label in list(frame.columns)]
    assert all(columns.equals(frame.columns) and columns.names == frame.columns.names for columns in seen)
    assert explain(frame, features=[last])[last].pfi == found[last].pfi
    own = ll.feature_effect(model, frame, features=[first], donors=ll.Grid(values=[0.5]))[first]
    by_array = ll.feature_effect(model, NUMBERS, features="x0", donors=ll.Grid(values=[0.5]))["x0"]
    np.testing.assert_allclose(own.pd, by_array.pd)


# Columns of every type: a model that reads what is written there, whatever it is.


def records(X):
    """The rows of any table, value by value."""
    if isinstance(X, np.ndarray):
        return X.tolist()
    if isinstance(X, pd.DataFrame):
        return [list(row) for row in X.astype(object).itertuples(index=False)]
    return [list(row.values()) for row in (X.to_dicts() if isinstance(X, pl.DataFrame) else X.to_pylist())]


def score(row):
    """A number that every value has a say in, with its type: equal only for equal rows."""
    parts = [zlib.crc32(repr(value).encode()) / 2**32 for value in row]
    return parts[0] * parts[-1] + sum((j + 1) * part for j, part in enumerate(parts))


def read(X):
    return np.array([score(row) for row in records(X)])


def by_hand(X):
    """Local importances (n, p) from all pairs, the values swapped between lists."""
    rows = records(X)
    base = (Y - np.array([score(row) for row in rows])) ** 2
    local = np.zeros((N, len(rows[0])))
    for i, row in enumerate(rows):
        for j in range(len(row)):
            scores = np.array([score([*row[:j], donor[j], *row[j + 1 :]]) for donor in rows])
            local[i, j] = np.mean((Y[i] - scores) ** 2) - base[i]
    return local


def schema(X):
    if isinstance(X, np.ndarray):
        return X.dtype, X.shape[1]
    if isinstance(X, pl.DataFrame):
        return X.schema
    if isinstance(X, pa.Table):
        return X.schema.to_string(show_field_metadata=True, show_schema_metadata=True)
    categories = [list(X[c].cat.categories) if X[c].dtype == "category" else None for c in X]
    return list(X.columns), list(X.dtypes), categories


def pick(values, seed, missing=False):
    chosen = np.random.default_rng(seed).integers(0, len(values), N)
    return [None if missing and k % 5 == 2 else values[i] for k, i in enumerate(chosen)]


DAYS = [dt.date(2024, 1, 30) + dt.timedelta(i) for i in range(4)]
HOURS = [dt.datetime(2024, 3, 30, 22) + dt.timedelta(hours=i) for i in range(4)]
WORDS = ["low", "mid", "top"]
PANDAS = {
    "number": pd.Series(pick([0.5, 1.5, 2.5], 1, True), dtype="float64"),
    "float32": pd.Series(pick([0.5, 1.5], 2), dtype="float32"),
    "int8": pd.Series(pick([1, 2, 3], 3), dtype="int8"),
    "bool": pd.Series(pick([True, False], 4), dtype="bool"),
    "Int64": pd.Series(pick([1, 2, 3], 5, True), dtype="Int64"),
    "boolean": pd.Series(pick([True, False], 6, True), dtype="boolean"),
    "Float32": pd.Series(pick([0.5, 1.5], 7, True), dtype="Float32"),
    "text": pd.Series(pick(WORDS, 8, True), dtype="str"),
    "string": pd.Series(pick(WORDS, 9, True), dtype="string"),
    "objects": pd.Series(pick(["x", 1, 2.5, (1, 2)], 10, True), dtype=object),
    "text objects": pd.Series(pick(WORDS, 11), dtype=object),
    "whole objects": pd.Series(pick([1, 2], 12), dtype=object),
    "date objects": pd.Series(pick(DAYS, 13, True), dtype=object),
    "datetime objects": pd.Series(pick(HOURS, 14), dtype=object),
    "category": pd.Series(pd.Categorical(pick(WORDS, 15, True), categories=["top", "unused", "low", "mid"])),
    "ordered": pd.Series(pd.Categorical(pick(WORDS, 16), categories=[*WORDS, "unused"], ordered=True)),
    "number category": pd.Series(pd.Categorical(pick([3, 1], 17), categories=[3, 2, 1])),
    "datetime": pd.Series(pd.to_datetime(pick(HOURS, 18, True))),
    "seconds": pd.Series(pd.to_datetime(pick(HOURS, 19))).astype("datetime64[s]"),
    "zone": pd.Series(pd.to_datetime(pick(HOURS, 20, True))).dt.tz_localize("UTC").dt.tz_convert("Europe/Vienna"),
    "duration": pd.Series(pick([dt.timedelta(1), dt.timedelta(hours=1)], 21, True), dtype="timedelta64[us]"),
    "period": pd.Series(pd.PeriodIndex(pick(["2024-01", "2024-02"], 22), freq="M")),
    "interval": pd.Series(pd.IntervalIndex.from_breaks(range(N + 1))),
    "sparse": pd.Series(pd.arrays.SparseArray(pick([0, 1], 23), fill_value=0)),
    "arrow": pd.Series(pick([1, 2, 3], 24, True), dtype="int16[pyarrow]"),
    "arrow dictionary": pd.Series(pick(WORDS, 26, True), dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
    "decimals": pd.Series(pick([Decimal("0.5"), Decimal("NaN"), Decimal(2)], 27)),
    "arrow text": pd.Series(pick(WORDS, 25, True), dtype=pd.ArrowDtype(pa.string())),
}
POLARS = {
    "Float32": pl.Series(pick([0.5, 1.5], 1, True), dtype=pl.Float32),
    "NaN": pl.Series(pick([0.5, 1.5, float("nan")], 2)),
    "Int8": pl.Series(pick([1, 2, 3], 3), dtype=pl.Int8),
    "UInt64": pl.Series(pick([1, 2, 3], 4, True), dtype=pl.UInt64),
    "Int128": pl.Series(pick([1, 2, 3], 5), dtype=pl.Int128),
    "Boolean": pl.Series(pick([True, False], 6, True)),
    "String": pl.Series(pick(WORDS, 7, True)),
    "Categorical": pl.Series(pick(WORDS, 8, True), dtype=pl.Categorical),
    "Enum": pl.Series(pick(WORDS, 9, True), dtype=pl.Enum(["top", "unused", "low", "mid"])),
    "Date": pl.Series(pick(DAYS, 10, True)),
    "Datetime": pl.Series(pick(HOURS, 11, True), dtype=pl.Datetime("ms")),
    "zone": pl.Series(pick(HOURS, 12), dtype=pl.Datetime("us", "Europe/Vienna")),
    "Duration": pl.Series(pick([dt.timedelta(1), dt.timedelta(hours=1)], 13, True)),
    "Time": pl.Series(pick([dt.time(1), dt.time(2)], 14, True)),
    "Decimal": pl.Series(pick([1, 2], 15, True)).cast(pl.Decimal(10, 2)),
    "Binary": pl.Series(pick([b"x", b"y"], 16, True)),
}
ARROW = {
    "float": pa.array(pick([0.5, 1.5], 1, True), pa.float32()),
    "int": pa.array(pick([1, 2, 3], 2, True), pa.int8()),
    "bool": pa.array(pick([True, False], 3, True)),
    "string": pa.array(pick(WORDS, 4, True)),
    "large string": pa.array(pick(WORDS, 5, True), pa.large_string()),
    "dictionary": pa.array(pick(WORDS, 6, True)).dictionary_encode(),
    "ordered dictionary": pa.DictionaryArray.from_arrays(
        pa.array(pick([0, 1, 2], 7), pa.int8()), pa.array([*WORDS, "unused"]), ordered=True
    ),
    "date": pa.array(pick(DAYS, 8, True)),
    "timestamp": pa.array(pick(HOURS, 9, True), pa.timestamp("ms")),
    "zone": pa.array(pick(HOURS, 10, True), pa.timestamp("us", "Europe/Vienna")),
    "time": pa.array(pick([dt.time(1), dt.time(2)], 11, True)),
    "decimal": pa.array(pick([1, 2], 12, True)).cast(pa.decimal128(21, 2)),
    "binary": pa.array(pick([b"x", b"y"], 13, True)),
}


def tables():
    """Each column beside a number, so that a failure names its type."""
    for name, column in PANDAS.items():
        yield f"pandas {name}", pd.DataFrame({"mine": column, "other": NUMBERS[:, 0]})
    for name, column in POLARS.items():
        yield f"polars {name}", pl.DataFrame({"mine": column, "other": NUMBERS[:, 0]})
    for name, column in ARROW.items():
        yield f"pyarrow {name}", pa.table({"mine": column, "other": NUMBERS[:, 0]})
    mixed = np.array(list(zip(pick(["x", 1, None], 1), pick([2.5, "y"], 2), strict=True)), dtype=object)
    yield "numpy objects", mixed
    yield "numpy text", mixed.astype(str)
    yield "numpy dates", np.array([pick(HOURS, 3), pick(HOURS, 4)], "datetime64[s]").T


COLUMNS = dict(tables())


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_of_any_type_reaches_the_model_as_it_was(kind, monkeypatch):
    monkeypatch.setattr(choice, "BATCH", 3 * N)
    X = COLUMNS[kind]
    kinds = []

    def recording(batch):
        kinds.append((type(batch), schema(batch)))
        return read(batch)

    for design in (ll.All(), ll.Systematic(5), ll.Grid(values=[records(X)[0][1]])):
        features = None if not isinstance(design, ll.Grid) else 1 if isinstance(X, np.ndarray) else "other"
        explain(X, design, recording, features=features)
    assert all(seen == (type(X), schema(X)) for seen in kinds), (schema(X), set(map(str, kinds)))


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_of_any_type_has_the_right_importance(kind):
    X = COLUMNS[kind]
    np.testing.assert_allclose(explain(X, predict=read).local, by_hand(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", COLUMNS)
def test_sampled_donors_of_any_type_lend_what_they_have(kind):
    """All shifts together are the exact answer again, whatever the order that the type has."""
    X = COLUMNS[kind]
    for design in (ll.Latin(N), ll.Systematic(N)):
        np.testing.assert_allclose(explain(X, design, read).local, by_hand(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "columns"),
    [(pd.DataFrame, PANDAS), (pl.DataFrame, POLARS), (pa.table, ARROW)],
    ids=["pandas", "polars", "pyarrow"],
)
def test_columns_of_all_types_live_side_by_side(make, columns):
    X = make(columns)
    kinds = []

    def recording(batch):
        kinds.append(schema(batch))
        return read(batch)

    found = explain(X, predict=recording, features={"g": list(columns)[:2], "all": list(columns)})
    assert all(seen == schema(X) for seen in kinds)
    assert found["all"].pfi != 0


@pytest.mark.parametrize("kind", [name for name in COLUMNS if not name.startswith("numpy")])
def test_missing_values_are_one_grid_value_and_the_last(kind):
    X = COLUMNS[kind]
    missing = [is_missing(row[0]) for row in records(X)]
    feature = explain(X, predict=read)["mine"]
    *rest, last = map(is_missing, feature.grid.tolist())
    assert not any(rest)
    assert last == any(missing)
    if last:
        assert feature.weights[-1] == pytest.approx(np.mean(missing))


# Nothing is changed.


def fingerprint(X):
    return str(schema(X)), repr(records(X)), repr(getattr(X, "index", None))


@pytest.mark.parametrize(
    "kind", ["pandas category", "pandas text objects", "polars Enum", "pyarrow dictionary", "numpy objects"]
)
def test_the_users_data_stay_as_they_were(kind):
    X = COLUMNS[kind]
    if isinstance(X, pd.DataFrame):
        X = X.set_axis(INDICES["duplicated"], axis=0)
    y, weight, groups = Y.copy(), np.arange(N) + 1.0, np.arange(N) % 3
    before = fingerprint(X)
    for design in DESIGNS:
        explain(X, design, read, y=y, sample_weight=weight)
    explain(X, predict=read, y=y, groups=groups)
    ll.feature_effect(read, X)
    ll.plan(ll.feature_effect, read, X)
    assert fingerprint(X) == before
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(weight, np.arange(N) + 1.0)
    np.testing.assert_array_equal(groups, np.arange(N) % 3)


def test_the_global_random_state_stays_as_it_was():
    numpy_state, python_state = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002 - what we test
    for seed in (None, 0, np.random.default_rng(0)):
        for design in [*DESIGNS, "auto"]:
            ll.feature_importance(model, NUMBERS, Y, loss="squared_error", donors=design, random_state=seed)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    assert random.getstate() == python_state


class Careless(RegressorMixin, BaseEstimator):
    """A fitted model that writes into its input."""

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        answer = X[:, 0] * X[:, 1]
        X[:] = 0
        return answer


@pytest.mark.parametrize("loss", ["squared_error", get_scorer("r2")], ids=["loss", "scorer"])
def test_a_careless_model_cannot_reach_the_users_data(loss):
    X = NUMBERS.copy()
    estimator = Careless().fit(X, Y)
    found = ll.feature_importance(estimator, X, Y, loss=loss)
    np.testing.assert_array_equal(X, NUMBERS)
    ll.plan(ll.feature_importance, estimator, X, Y)
    ll.feature_effect(estimator, X)
    np.testing.assert_array_equal(X, NUMBERS)
    assert found["x0"].pfi != 0
    assert found["x2"].pfi == 0


def test_a_batch_is_no_window_on_the_users_data():
    windows = []

    def peeping(X):
        windows.append(np.shares_memory(X, NUMBERS))
        return model(X)

    explain(NUMBERS, predict=peeping)
    assert windows
    assert not any(windows)


def test_predictions_may_be_of_single_precision():
    found = explain(NUMBERS, predict=lambda X: model(X).astype("float32"))
    np.testing.assert_allclose(found.local, explain(NUMBERS).local, rtol=1e-4, atol=1e-4)
