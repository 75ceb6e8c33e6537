"""Any table is taken as it is: its columns, and batches of its rows with some values replaced."""

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from losslens.tables.frames import Batch, Edit, Table, as_table, make_frame

DATA = {"a": [1.0, 2.0, 3.0, 4.0], "b": [10, 20, 30, 40]}
FRAMES = {"pandas": pd.DataFrame(DATA), "polars": pl.DataFrame(DATA), "pyarrow": pa.table(DATA)}
TABLES = {"numpy": np.array(list(DATA.values())).T, **FRAMES}


def lists(native):
    """The table as {column: values}."""
    if isinstance(native, np.ndarray):
        return dict(zip(DATA, native.T.tolist(), strict=True))
    return nw.from_native(native).to_dict(as_series=False)


def edit(table, start, stop, column, rows, source=None):
    return Edit(start, stop, column, source or table.column(column), np.array(rows))


@pytest.mark.parametrize("library", TABLES)
def test_a_table_says_what_it_holds(library):
    table = as_table(TABLES[library])
    assert (table.backend, table.n) == (library, 4)
    assert table.names == (("x0", "x1") if library == "numpy" else ("a", "b"))
    assert table.column(1).array.tolist() == [10, 20, 30, 40]
    assert table.row_bytes >= 16
    assert as_table(table) is table


def test_lists_of_lists_are_an_array():
    assert as_table([[1, 2], [3, 4]]).column(1).array.tolist() == [2, 4]


@pytest.mark.parametrize(
    "labels",
    [[0, 1], [7, "a"], [0.5, 1.5], [("a", 1), ("a", 2)], ["", " "], ["column_names", "columns"], ["shape", "take"]],
    ids=str,
)
def test_columns_of_pandas_may_be_labelled_with_anything(labels):
    frame = FRAMES["pandas"].set_axis(labels, axis=1)
    table = as_table(frame)
    assert table.labels == tuple(frame.columns)
    assert table.names == tuple(map(str, frame.columns))
    assert table.column(1).array.tolist() == [10, 20, 30, 40]
    batch = Batch(table).fill(np.arange(4), [edit(table, 0, 4, 1, [3, 3, 3, 3])])
    expected = frame.copy()
    expected.isetitem(1, [40] * 4)
    pd.testing.assert_frame_equal(batch, expected)


def test_a_flat_index_of_tuples_is_not_several_levels():
    frame = FRAMES["pandas"].set_axis(pd.Index([("a", 1), ("a", 2)], tupleize_cols=False), axis=1)
    assert as_table(frame).column(1).array.tolist() == [10, 20, 30, 40]


@pytest.mark.parametrize("name", ["self", "exprs", "*", "^a.*$", ""])
def test_columns_of_polars_may_have_any_name(name):
    table = as_table(FRAMES["polars"].rename({"b": name}))
    batch = Batch(table).fill(np.arange(4), [edit(table, 0, 4, 1, [3, 3, 3, 3])])
    assert batch.columns == ["a", name]
    assert batch[name].to_list() == [40] * 4


# Batches.


@pytest.mark.parametrize("library", TABLES)
def test_a_batch_repeats_rows_and_replaces_values(library):
    table = as_table(TABLES[library])
    rows = np.array([3, 3, 0, 1])
    a = table.column(0)
    edits = [edit(table, 1, 3, 0, [2, 1], a), edit(table, 3, 4, 1, [0]), edit(table, 0, 1, 0, [0], a)]
    batch = Batch(table).fill(rows, edits)
    assert lists(batch) == {"a": [1.0, 3.0, 2.0, 2.0], "b": [40, 40, 10, 10]}
    assert type(batch) is type(TABLES[library])


@pytest.mark.parametrize("library", TABLES)
def test_a_batch_can_be_used_again_for_more_or_fewer_rows(library):
    table = as_table(TABLES[library])
    batch = Batch(table)
    for rows in ([0, 1], [0, 1], [3, 2, 1, 0, 3], [2]):
        rows = np.array(rows)
        batch.fill(rows, [edit(table, 0, 1, 0, [3])])
        assert lists(batch.fill(rows, [])) == {
            "a": [DATA["a"][i] for i in rows],
            "b": [DATA["b"][i] for i in rows],
        }


def overwrite_array(X):
    X[:] = 0


def sort_array(X):
    X.sort(axis=0)


def overwrite_pandas(X):
    X["a"] = 0.0
    X.iloc[:, 1] = 0
    X.loc[0, "b"] = 5
    X["new"] = 1


def reshape_pandas(X):
    del X["a"]
    X.insert(0, "new", 1)
    X.columns = ["y", "z"]
    X.index = X.index[::-1]


def overwrite_polars(X):
    X[0, "a"] = 0.0
    X.replace_column(1, pl.Series("b", [0] * len(X)))
    X.columns = ["y", "z"]


def reshape_polars(X):
    X.insert_column(0, pl.Series("new", [0] * len(X)))
    X.drop_in_place("a")


@pytest.mark.parametrize("edited", [False, True], ids=["as it is", "edited"])
@pytest.mark.parametrize(
    ("library", "harm"),
    [
        ("numpy", overwrite_array),
        ("numpy", sort_array),
        ("pandas", overwrite_pandas),
        ("pandas", reshape_pandas),
        ("polars", overwrite_polars),
        ("polars", reshape_polars),
    ],
)
def test_whoever_gets_a_batch_may_do_with_it_what_he_likes(library, harm, edited):
    table = as_table(TABLES[library])
    before = lists(TABLES[library])
    batch, rows = Batch(table), np.array([2, 0, 1])
    edits = [edit(table, 0, 2, 0, [3, 3])] if edited else []
    first = lists(batch.fill(rows, edits))
    harm(batch.fill(rows, edits))
    assert lists(batch.fill(rows, edits)) == first
    assert lists(TABLES[library]) == before


# What is refused.


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.zeros(3), r"two dimensions, rows and columns; got an array of shape \(3,\)"),
        (np.zeros((3, 2, 1)), r"two dimensions.*\(3, 2, 1\)"),
        (np.zeros((0, 2)), "X has no rows"),
        (np.zeros((1, 2)), "X has one row"),
        (np.zeros((3, 0)), "X has no columns"),
        (pd.DataFrame({"a": []}), "X has no rows"),
        (pd.DataFrame(index=range(3)), "X has no columns"),
        (pl.DataFrame({"a": [1]}), "X has one row"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "more than one column named 'a'"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=[1, "1"]), "more than one column named '1'"),
        (pa.table([[1, 2], [3, 4]], names=["a", "a"]), "more than one column named 'a'"),
    ],
)
def test_a_table_of_the_wrong_shape_is_refused(X, words):
    with pytest.raises(ValueError, match=words):
        as_table(X)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (sparse.csr_array(np.eye(3)), r"X is sparse.*X.toarray\(\)"),
        (sparse.coo_matrix(np.eye(3)), "X is sparse"),
        (np.zeros(3, dtype=[("a", float), ("b", int)])[:, None], "structured array"),
        (pl.LazyFrame(DATA), r"got LazyFrame; call .collect\(\)"),
        (DATA, "got dict"),
        ("data.csv", "got str"),
        (None, "got NoneType"),
        (42, "got int"),
    ],
)
def test_what_is_no_table_is_refused(X, words):
    with pytest.raises(TypeError, match=words):
        as_table(X)


@pytest.mark.parametrize(
    "X", [FRAMES["pandas"]["a"], FRAMES["polars"]["a"], FRAMES["pyarrow"]["a"]], ids=["pandas", "polars", "pyarrow"]
)
def test_a_single_series_is_refused(X):
    with pytest.raises((TypeError, ValueError), match=r"X must (be|have)"):
        as_table(X)


def test_a_masked_array_is_refused_rather_than_read_under_its_mask():
    with pytest.raises(TypeError, match="mask"):
        as_table(np.ma.array([[1.0], [2.0], [1e9]], mask=[[0], [0], [1]]))


@pytest.mark.parametrize("library", FRAMES)
def test_a_narwhals_frame_is_the_frame_inside(library):
    table = as_table(nw.from_native(FRAMES[library]))
    batch = Batch(table).fill(np.array([1, 0]), [edit(table, 0, 1, 1, [3])])
    assert lists(batch) == {"a": [2.0, 1.0], "b": [40, 10]}


# Frames for the way out.


@pytest.mark.parametrize(("backend", "kind"), [("numpy", pd.DataFrame), *((k, type(v)) for k, v in FRAMES.items())])
def test_a_frame_is_made_in_the_library_the_user_came_with(backend, kind):
    frame = make_frame({"name": ["a", "b"], "value": np.array([0.5, 1.5])}, backend)
    assert type(frame) is kind
    assert lists(frame) == {"name": ["a", "b"], "value": [0.5, 1.5]}


def test_a_table_is_frozen():
    with pytest.raises(AttributeError):
        as_table(TABLES["numpy"]).n = 5
    assert isinstance(as_table(TABLES["numpy"]), Table)
