"""Tables in parts: what is read, and what is wrong with files that don't fit together."""

import os
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest

from losslens.tables.sources import as_source

dd = pytest.importorskip("dask.dataframe")
FRAME = pd.DataFrame(
    {
        "number": np.arange(10.0),
        "whole": pd.array([1, None, 3, 4, 5, 6, 7, 8, 9, 10], dtype="Int64"),
        "word": list("abcabcabca"),
        "kind": pd.Categorical(list("xyxyzxyzzz")),
    }
)


@pytest.fixture
def folder(tmp_path):
    for k, rows in enumerate((slice(0, 3), slice(3, 10))):
        FRAME[rows].reset_index(drop=True).to_parquet(tmp_path / f"{k}.parquet", row_group_size=4)
    return tmp_path


def kinds(folder):
    return {
        "path": str(folder / "0.parquet"),
        "paths": [folder / "0.parquet", str(folder / "1.parquet")],
        "folder": folder,
        "pattern": f"{folder}/*.parquet",
        "dataset": ds.dataset(str(folder)),
        "lazy": pl.scan_parquet(f"{folder}/*.parquet"),
        "dask": dd.read_parquet(str(folder)),
    }


@pytest.mark.parametrize("kind", ["path", "paths", "folder", "pattern", "dataset", "lazy", "dask"])
def test_parts_are_the_table(folder, kind):
    source = as_source(kinds(folder)[kind])
    assert source.names == tuple(FRAME.columns)
    assert source.n == (3 if kind == "path" else 10)
    expected = FRAME["number"][: source.n].tolist()
    for cut in (source, source.cut(2), source.cut(3)):
        # A part and a reader travel to workers.
        parts = pickle.loads(pickle.dumps(cut.parts)) if kind != "lazy" else cut.parts
        found = [np.asarray(cut.load(part, ["number"])["number"]) for part in parts]
        assert np.concatenate(found).tolist() == expected
        assert [part.start for part in parts] == np.cumsum([0, *map(len, found)])[:-1].tolist()
    assert max(part.rows for part in source.cut(2).parts) <= 2
    assert np.asarray(source.in_memory(["number"])["number"]).tolist() == expected


def test_types_and_categories_are_those_of_one_table(folder):
    whole = as_source(folder).in_memory(["number", "whole", "word", "kind"])
    pd.testing.assert_frame_equal(whole, FRAME, check_categorical=False)
    assert set(whole["kind"].cat.categories) == {"x", "y", "z"}


@pytest.mark.parametrize("X", [FRAME, FRAME.to_numpy(), [[1, 2], [3, 4]], pl.from_pandas(FRAME), {"a": [1]}, None])
def test_what_is_in_memory_is_no_source(X):
    assert as_source(X) is None


def test_a_file_of_another_kind_is_refused_by_its_name(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"X names files that are not all Parquet files: .*table.csv"):
        as_source(path)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone\.parquet"):
        as_source(str(tmp_path / "gone.parquet"))
    with pytest.raises(FileNotFoundError, match="no file matches"):
        as_source(str(tmp_path / "*.parquet"))
    with pytest.raises(FileNotFoundError, match="holds no file"):
        as_source(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="word"), r"2\.parquet has no column 'word'"),
        (lambda frame: frame.assign(more=1), r"2\.parquet has a column 'more'"),
        (lambda frame: frame.assign(number="text"), r"2\.parquet has columns of other types"),
    ],
)
def test_a_part_with_other_columns_is_named(folder, change, message):
    change(FRAME).to_parquet(folder / "2.parquet")
    with pytest.raises(ValueError, match=message):
        as_source(folder)


def test_numbers_of_two_kinds_have_a_common_one(folder):
    FRAME.assign(number=np.arange(10)).to_parquet(folder / "2.parquet")
    source = as_source(folder)
    assert {str(source.load(part, ["number"])["number"].dtype) for part in source.parts} == {"float64"}


def test_a_file_that_is_changed_or_removed_is_named(folder):
    source = as_source(folder)
    FRAME.to_parquet(folder / "1.parquet")
    with pytest.raises(ValueError, match=r"1\.parquet is no longer the file that was opened"):
        source.load(source.parts[1], ["number"])
    os.remove(folder / "0.parquet")  # noqa: PTH107
    with pytest.raises(FileNotFoundError, match=r"0\.parquet was removed"):
        source.load(source.parts[0], ["number"])


def test_an_index_is_no_column(tmp_path):
    FRAME.set_index("word").to_parquet(tmp_path / "0.parquet")
    assert as_source(tmp_path).names == ("number", "whole", "kind")


def test_folders_of_one_value_each_are_a_column(tmp_path):
    for year in (2024, 2025):
        (tmp_path / f"year={year}").mkdir()
        FRAME.to_parquet(tmp_path / f"year={year}" / "0.parquet")
    source = as_source(tmp_path)
    assert source.names == (*FRAME.columns, "year")
    assert source.in_memory(["year"])["year"].tolist() == [2024] * 10 + [2025] * 10
