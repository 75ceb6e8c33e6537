"""A value reaches the model as it is: what a model can tell apart is never merged with what is equal to it."""

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from zlib import crc32
from zoneinfo import ZoneInfo

import dask
import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder

import brute
import losslens as ll
from losslens.tables.columns import is_missing, missing_name

NAN, NAT = float("nan"), pd.NaT
N = 30
X2 = np.random.default_rng(5).normal(size=N).round(1)
NOON = dt.datetime(2024, 2, 29, 12, tzinfo=ZoneInfo("Europe/Paris"))


def objects(*items):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def drawn(*items, seed=0):
    """N of the items, each at least once."""
    order = np.append(np.arange(len(items)), np.random.default_rng(seed).integers(len(items), size=N - len(items)))
    return objects(*items)[order]


def frame(column, x=X2):
    return pd.DataFrame({"c": column, "x": x})


def arrow(column):
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(column)))


FLOATS = [1.0, 2.0, None, NAN, 0.0, -0.0]
NULLABLE = pd.arrays.FloatingArray(
    np.resize([1.0, 2.0, NAN, 3.0], N).astype(float), np.resize([False, False, False, False, True], N)
)
TABLES = {
    "object words": frame(drawn("a", "b", None, NAN)),
    "object words, four kinds": frame(drawn("a", None, NAN, NAT, pd.NA)),
    "object numbers": frame(drawn(1.0, 2.0, None, NAN)),
    "numpy objects": np.column_stack([drawn("a", None, NAN), X2.astype(object)]),
    "nullable": frame(NULLABLE),
    "nullable words": frame(pd.array(drawn("a", "b", pd.NA), "string")),
    "arrow": frame(arrow(drawn(*FLOATS).tolist())),
    "arrow words": frame(arrow(drawn("a", "b", None).tolist())),
    "polars": pl.DataFrame({"c": pl.Series(drawn(*FLOATS).tolist(), dtype=pl.Float64), "x": X2}),
    "polars words": pl.DataFrame({"c": pl.Series(drawn("a", "b", None).tolist()), "x": X2}),
    "pyarrow": pa.table({"c": pa.array(drawn(*FLOATS).tolist()), "x": X2}),
    "categorical": frame(pd.Categorical(drawn("a", "b", None), ["b", "a", "unused"])),
    "polars categorical": pl.DataFrame({"c": pl.Series(drawn("a", "b", None).tolist(), dtype=pl.Categorical), "x": X2}),
    "signed zeros": frame(drawn(0.0, -0.0, 1.0, NAN).astype(float)),
    "signed zeros in an array": np.column_stack([drawn(0.0, -0.0, 1.0).astype(float), X2]),
    "signed zeros among objects": frame(drawn(0.0, -0.0, "a")),
    "two time zones": frame(drawn(NOON, NOON.astimezone(ZoneInfo("Europe/London")), NOON.replace(hour=3))),
    "numbers of several types": frame(drawn(Fraction(1, 2), Decimal("0.5"), Decimal("0.50"), 0.5, np.float32(0.5))),
    "truth values and numbers": frame(drawn(True, 1, 1.0, False, 0)),
    "tuples": frame(drawn((1, 2), (1.0, 2), (True, 2), (NAN, 2))),
}  # fmt: skip


def column_of(X, name):
    if isinstance(X, np.ndarray):
        return X[:, ["c", "x"].index(name)].tolist()
    return X[name].to_pylist() if isinstance(X, pa.Table) else X[name].to_list()


def told_apart(X):
    """A model that tells all values apart that Python can."""
    written = [f"{type(v).__name__} {v!r} {getattr(v, 'tzinfo', '')}" for v in column_of(X, "c")]
    score = np.array([crc32(text.encode()) % 1000 / 500 for text in written])
    return score * (1 + np.array(column_of(X, "x"), float)) + np.array(column_of(X, "x"), float)


def with_value_of(X, name, k):
    """The table with the value that row k has in one column, in all rows."""
    index = np.full(N if not hasattr(X, "__len__") else len(X), k)
    if isinstance(X, np.ndarray):
        X = X.copy()
        j = ["c", "x"].index(name)
        X[:, j] = X[k, j]
        return X
    if isinstance(X, pd.DataFrame):
        return X.assign(**{name: X[name].iloc[index].set_axis(X.index)})
    if isinstance(X, pl.DataFrame):
        return X.with_columns(X[name].gather(index))
    return X.set_column(X.column_names.index(name), name, X[name].take(pa.array(index)))


def all_pairs(predict, X, name):
    """f(x_i with k's value), (n, n)."""
    return np.stack([np.asarray(predict(with_value_of(X, name, k)), float) for k in range(len(X))], axis=1)


def label(X, name):
    return f"x{['c', 'x'].index(name)}" if isinstance(X, np.ndarray) else name


def check(predict, X, model, y):
    """PFI, local importances, PD and SFIMP of both columns, and sampled designs, against all pairs by `predict`."""
    own = (np.asarray(predict(X), float) - y) ** 2
    pairs = {name: all_pairs(predict, X, name) for name in ("c", "x")}
    cells = {name: (f - y[:, None]) ** 2 - own[:, None] for name, f in pairs.items()}
    imp = ll.feature_importance(model, X, y, loss="squared_error", donors="all")
    effects = ll.feature_effect(model, X, donors="all")
    assert imp.error == pytest.approx(own.mean(), rel=1e-9)
    for name in ("c", "x"):
        one, effect = imp[label(X, name)], effects[label(X, name)]
        np.testing.assert_allclose(one.local, cells[name].mean(axis=1), atol=1e-9)
        assert one.pfi == pytest.approx(cells[name].mean(), abs=1e-9)
        kept = np.argsort(pairs[name].mean(axis=0))
        expanded = np.sort(np.repeat(effect.pd, np.round(effect.weights * len(y)).astype(int)))
        np.testing.assert_allclose(expanded, pairs[name].mean(axis=0)[kept], atol=1e-9)
    for design in (ll.Latin(3), ll.Permutations(2), ll.Systematic(4), ll.Grid(5), ll.Derangements()):
        sampled = ll.feature_importance(model, X, y, loss="squared_error", donors=design, random_state=1)
        for name in ("c", "x"):
            one = sampled[label(X, name)]
            expected = brute.averages(cells[name], brute.meetings(one))
            assert one.pfi == pytest.approx(expected.pfi, abs=1e-9), (design, name)
    # Two players: SFIMP_j = (PFI_j + GE_0 - GE_{j}) / 2, and keeping j alone is replacing the other.
    none = ((np.asarray(predict(X), float)[None, :] - y[:, None]) ** 2).mean()
    shares = ll.shapley_importance(model, X, y, loss="squared_error", random_state=1)
    first = {"c": none - own.mean() - cells["x"].mean(), "x": none - own.mean() - cells["c"].mean()}
    expected = [(cells[name].mean() + first[name]) / 2 for name in ("c", "x")]
    np.testing.assert_allclose(shares.sfimp, expected, atol=1e-9)


@pytest.mark.parametrize("name", TABLES)
def test_a_function_gets_values_as_they_are(name):
    X = TABLES[name]
    check(told_apart, X, told_apart, told_apart(X) + np.sin(np.arange(N)))


ENCODERS = {
    "one-hot": OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    "ordinal": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2),
    "target": TargetEncoder(cv=2),
}
ENCODED = (
    "object words", "nullable words", "arrow words", "polars words", "categorical", "polars categorical",
    "truth values and numbers",
)  # fmt: skip


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("name", ENCODED)
def test_an_encoder_gets_values_as_they_are(name, encoder):
    X = TABLES[name]
    y = told_apart(X)
    forest = RandomForestRegressor(8, random_state=0)
    model = make_pipeline(make_column_transformer((ENCODERS[encoder], ["c"]), remainder="passthrough"), forest)
    try:
        model.fit(X, y)
    except (TypeError, ValueError) as error:
        pytest.skip(f"the encoder takes no such column: {error}")
    check(model.predict, X, model, y + np.sin(np.arange(N)))


@pytest.mark.parametrize("name", ["categorical", "nullable", "signed zeros", "arrow"])
def test_native_categories_of_boosting_get_values_as_they_are(name):
    X = TABLES[name]
    if name == "arrow":
        X = X.astype({"c": "double[pyarrow]"})
    y = told_apart(X)
    model = HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=2, categorical_features="from_dtype").fit(X, y)
    check(model.predict, X, model, y + np.sin(np.arange(N)))


def test_odd_values_in_few_rows_are_not_merged_with_others():
    """None and NaN in two rows of 400 each, which an encoder keeps as two categories."""
    rng = np.random.default_rng(0)
    column = rng.choice(["a", "b", "c"], 400).astype(object)
    column[[17, 205]], column[[90, 311]] = None, NAN
    X = pd.DataFrame({"c": column, "x": rng.normal(size=400)})
    y = (
        np.array([{"a": 0.0, "b": 1.0, "c": 2.0}.get(v, 9.0 if v is None else -9.0) for v in column])
        + X["x"].to_numpy()
    )
    model = make_pipeline(
        make_column_transformer((OrdinalEncoder(encoded_missing_value=-1), ["c"]), remainder="passthrough"),
        HistGradientBoostingRegressor(max_iter=60, min_samples_leaf=1, learning_rate=0.3),
    ).fit(X, y)
    cells = (all_pairs(model.predict, X, "c") - y[:, None]) ** 2 - ((model.predict(X) - y) ** 2)[:, None]
    imp = ll.feature_importance(model, X, y, donors="all")
    assert imp.error == pytest.approx(np.mean((model.predict(X) - y) ** 2), rel=1e-9)
    assert imp["c"].pfi == pytest.approx(cells.mean(), rel=1e-9)


def test_nan_of_a_float_column_is_one_value_whatever_its_bits():
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001], np.uint64).view(float)
    x = np.append(np.repeat(bits, 3), np.arange(6.0))
    one = ll.feature_importance(
        lambda X: np.nan_to_num(X[:, 0]), np.column_stack([x, x]), np.zeros(15), loss="squared_error"
    )
    assert len(one["x0"].grid) == 7


@pytest.mark.parametrize("name", ["object words, four kinds", "polars", "arrow"])
def test_each_kind_of_missing_value_is_drawn_saved_and_named(name, tmp_path):
    X = TABLES[name]
    imp = ll.feature_importance(told_apart, X, told_apart(X) + 1, loss="squared_error", donors="all")
    ax = imp["c"].plot()
    ax.figure.canvas.draw()
    labels = "".join(text.get_text() for text in [*ax.get_xticklabels(), *ax.get_yticklabels()])
    assert "missing (NaN)" in labels
    assert "missing (None)" in labels
    imp.save(tmp_path / "one.losslens")
    again = ll.load(tmp_path / "one.losslens")["c"]
    names = [[missing_name(value) for value in one.grid if is_missing(value)] for one in (imp["c"], again)]
    assert names[0] == names[1]
    np.testing.assert_array_equal(imp["c"].pi, again.pi)


def test_parts_of_a_file_with_different_kinds_of_missing_values_keep_them():
    """The rows of each part hold None alone, or NaN alone, or both zeros."""
    x = np.append(X2, X2)
    words = objects(*["a", None, "b"] * 10, *["a", NAN, "b"] * 10)
    numbers = pl.Series([1.0, None, 0.0] * 10 + [1.0, NAN, -0.0] * 10, dtype=pl.Float64)
    in_parts = {
        "dask": (frame(words, x), lambda X: dask.dataframe.from_pandas(X, npartitions=2, sort=False)),
        "polars": (pl.DataFrame({"c": numbers, "x": x}), lambda X: X.lazy()),
    }
    for X, as_parts in in_parts.values():
        y = told_apart(X) + np.sin(np.arange(60))
        whole = ll.feature_importance(told_apart, X, y, loss="squared_error", donors="all")
        with dask.config.set({"dataframe.convert-string": False}):  # otherwise it makes one kind of both
            parts = ll.feature_importance(told_apart, as_parts(X), y, loss="squared_error", donors="all")
        assert parts.exact
        assert parts["c"].pfi == pytest.approx(whole["c"].pfi, rel=1e-9)


@pytest.mark.parametrize("kind", [">f8", ">i4", ">f4", ">M8[s]"])
@pytest.mark.parametrize("make", [pd.DataFrame, np.column_stack])
def test_another_byte_order_gives_the_same_numbers(kind, make):
    column = drawn(1, 2, 3, 5).astype("<i8").astype(kind[1:])
    data = [column, column[::-1]] if make is np.column_stack else {"c": column, "x": column[::-1]}
    X = make(data)
    swapped = X.astype(kind) if make is np.column_stack else pd.DataFrame({k: v.astype(kind) for k, v in data.items()})
    y = np.arange(N, dtype=float)

    def model(X):
        return np.asarray(X).astype("i8") @ [1.0, 2.0]

    ones = [ll.feature_importance(model, Z, t, loss="squared_error") for Z, t in ((X, y), (swapped, y.astype(">f8")))]
    assert [one.pfi for one in ones[0].values()] == [one.pfi for one in ones[1].values()]
