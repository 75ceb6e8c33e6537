"""What users write in features= becomes named sets of columns, or an error that helps."""

import numpy as np
import pandas as pd
import pytest

from losslens.tables.features import Feature, pair_name, resolve, unknown_feature

LABELS = ("a", "b", "c")


def columns(features, labels=LABELS, by_position=False):
    return [(f.name, f.columns, f.kind) for f in resolve(features, labels, by_position=by_position)]


def test_nothing_means_every_column_in_order():
    assert columns(None) == [("a", (0,), "single"), ("b", (1,), "single"), ("c", (2,), "single")]


def test_a_name_is_one_column():
    assert columns("b") == [("b", (1,), "single")]


@pytest.mark.parametrize(
    "features",
    [["c", "a"], np.array(["c", "a"], dtype=object), np.array(["c", "a"]), pd.Index(["c", "a"]), iter(["c", "a"])],
    ids=["list", "objects", "text array", "index", "iterator"],
)
def test_any_sequence_of_names_keeps_its_order(features):
    assert columns(features) == [("c", (2,), "single"), ("a", (0,), "single")]


@pytest.mark.parametrize(("position", "column"), [(0, 0), (2, 2), (-1, 2), (np.int64(1), 1)])
def test_a_whole_number_is_a_position_where_columns_have_no_names(position, column):
    assert columns(position, by_position=True) == [(LABELS[column], (column,), "single")]


def test_a_whole_number_is_no_position_where_columns_have_names():
    with pytest.raises(ValueError, match=r"unknown feature 0"):
        columns(0)


def test_a_whole_number_that_is_a_label_is_that_column():
    assert columns([7, np.int64(5)], labels=(5, 7)) == [("7", (1,), "single"), ("5", (0,), "single")]


def test_a_label_may_come_from_numpy():
    assert columns([np.float64(1.5), np.str_("a")], labels=("a", 1.5)) == [
        ("1.5", (1,), "single"),
        ("a", (0,), "single"),
    ]


def test_true_is_no_column_one():
    with pytest.raises(ValueError, match="unknown feature True"):
        columns(True, labels=(0, 1), by_position=True)


def test_a_tuple_that_is_a_label_is_one_column():
    labels = (("a", 1), ("a", 2))
    assert columns(("a", 2), labels=labels) == [("('a', 2)", (1,), "single")]
    assert [c[1] for c in columns([("a", 2), ("a", 1)], labels=labels)] == [(1,), (0,)]


def test_another_tuple_is_a_pair():
    assert columns(("c", "a")) == [("c x a", (2, 0), "pair")]
    assert columns([("a", "b"), "c"]) == [("a x b", (0, 1), "pair"), ("c", (2,), "single")]
    assert pair_name("a", "b") == "a x b"


def test_a_pair_of_tuple_labels_is_a_pair():
    labels = (("a", 1), ("a", 2))
    assert columns([(("a", 2), ("a", 1))], labels=labels)[0][1:] == ((1, 0), "pair")


def test_a_mapping_names_groups():
    assert columns({"size": ["c", "a"], "rest": ["b"]}) == [("size", (2, 0), "group"), ("rest", (1,), "single")]
    assert columns({"only": "b"}) == [("only", (1,), "single")]
    assert columns({"both": [0, -1]}, by_position=True) == [("both", (0, 2), "group")]


def test_a_feature_is_a_value():
    assert resolve("a", LABELS, by_position=False) == (Feature("a", (0,)),)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([], "features is empty"),
        ({}, "features is empty"),
        ({"g": []}, "group 'g' has no columns"),
        ({"g": ["a", "b", "a"]}, "group 'g' names column 'a' twice"),
        (["a", "a"], "features names 'a' twice"),
        (("a", "a"), "names one column twice"),
        (("a", "b", "c"), "pair of columns on a product grid; got 3"),
        (["a", "z"], "unknown feature 'z'"),
        ({"g": ["a", "z"]}, "unknown feature 'z'"),
        (("a", "z"), "unknown feature 'z'"),
    ],
)
def test_what_cannot_be_meant_is_refused(features, words):
    with pytest.raises(ValueError, match=words):
        columns(features)


def test_what_is_no_column_at_all_is_refused():
    with pytest.raises(TypeError, match="features is a column, a list of columns"):
        columns(1.5)


@pytest.mark.parametrize("position", [3, -4])
def test_a_position_outside_is_refused(position):
    with pytest.raises(ValueError, match=f"no column at position {position}; X has 3 columns"):
        columns(position, by_position=True)


def test_an_unknown_name_comes_with_the_nearest_and_the_rest():
    with pytest.raises(ValueError, match=r"unknown feature 'LSAT'; did you mean 'LSTAT'\? The columns are RM, LSTAT"):
        columns("LSAT", labels=("RM", "LSTAT"))


def test_a_wide_table_is_not_listed_in_full():
    message = unknown_feature("nothing like it", [f"x{j}" for j in range(50)])
    assert "x19, ... (50 in all)" in message
    assert "x20" not in message


def test_a_label_that_is_a_tuple_is_one_column_of_a_group():
    labels = [("a", "low"), ("a", "high"), "b"]
    (feature,) = resolve({"g": ("a", "high")}, labels, by_position=False)
    assert (feature.columns, feature.kind) == ((1,), "single")
    (pair,) = resolve({"g": ("b", ("a", "low"))}, labels, by_position=False)
    assert pair.columns == (2, 0)
