"""CSV files: text is text, numbers are numbers, and only what is missing is missing."""

import narwhals as nw
import numpy as np
import pytest

from losslens.cli import tables
from losslens.cli.tables import read_table

CONTENT = """word,zip,id,number,sign,e,big,truth,half,none,blank
NA,01234,123456789012345678901,1.5,+5,1e5,inf,True,true,,a
None,81234,123456789012345678902,,-3, 2,-Infinity,false,,,
null,5,7,2,0,1E+2 ,3,TRUE,False,"",b
nan,6,8,.25,7,5.,4,FALSE,"","",c
"""


@pytest.fixture(params=[(), ("pandas",), ("pandas", "polars")], ids=["pandas", "polars", "pyarrow"])
def read(request, tmp_path, monkeypatch):
    """A reader of each library; values missing are None."""
    monkeypatch.setattr(tables, "find_spec", lambda library: None if library in request.param else library)

    def columns(content=CONTENT, **options):
        (tmp_path / "t.csv").write_text(content)
        frame = nw.from_native(read_table(str(tmp_path / "t.csv"), **options), eager_only=True)
        return {
            column.name: [None if lacks else value for value, lacks in zip(column, column.is_null(), strict=True)]
            for column in frame.iter_columns()
        }

    return columns


def test_every_library_reads_the_same(read):
    assert read() == {
        "word": ["NA", "None", "null", "nan"],
        "zip": ["01234", "81234", "5", "6"],
        "id": ["123456789012345678901", "123456789012345678902", "7", "8"],
        "number": [1.5, None, 2.0, 0.25],
        "sign": [5, -3, 0, 7],
        "e": [1e5, 2.0, 100.0, 5.0],
        "big": [np.inf, -np.inf, 3.0, 4.0],
        "truth": [True, False, True, False],
        "half": [True, None, False, None],
        "none": [None] * 4,
        "blank": ["a", None, "b", "c"],
    }


def test_other_text_is_missing_where_it_is_said(read):
    content = "a,b\n1,NA\nNA,x\n-999,NULL\n4,-999\n"
    assert read(content) == {"a": ["1", "NA", "-999", "4"], "b": ["NA", "x", "NULL", "-999"]}
    assert read(content, missing=["NA", "-999"]) == {"a": [1, None, None, 4], "b": [None, "x", "NULL", None]}


def test_columns_are_what_they_are_said_to_be(read):
    content = "month,code,word,truth\n01,1,1,True\n12,2,x,False\n"
    seen = []

    def kinds(table):
        seen.append(nw.from_native(table, eager_only=True).schema)
        return {"month": "number", "code": "text", "word": "number", "truth": "text"}

    assert read(content, kinds=kinds) == {
        "month": [1, 12],
        "code": ["1", "2"],
        "word": ["1", "x"],  # which can't be numbers
        "truth": ["True", "False"],
    }
    assert [dtype.is_numeric() for dtype in seen[0].values()] == [False, True, False, False]  # as they look


def test_numbers_keep_their_last_digit(read):
    numbers = np.random.default_rng(0).normal(size=500)
    assert read("a\n" + "".join(f"{number!r}\n" for number in numbers.tolist()))["a"] == numbers.tolist()
