"""Tables of results: templates, missing values, decimals, and what is worked out when."""

import numpy as np
import pytest

from losslens.results.table import FEATURE, IMPORTANCE, INTERVAL, NONE, RANKED, ResultTable, facts, or_else
from losslens.text import rounding_error, width_of


def table(**more):
    columns = {
        "feature": ["a", "long name", "c"],
        "importance": np.array([12.3456, 0.5, 0.0]),
        "std_error": np.array([1.23456, np.nan, 0.0]),
        "low": [10.0, np.nan, 0.0],
        "high": [15.0, np.nan, 0.0],
    }
    return ResultTable("Title", columns, **({"line": RANKED, "like": "importance"} | more))


def test_a_line_has_as_many_decimals_as_its_number_and_leaves_out_what_is_missing():
    assert table().text().splitlines() == [
        "Title",
        "  a          12.35 ± 1.23",
        "  long name  0.5000",
        "  c          0 ± 0",
    ]


def test_a_view_has_a_dash_for_what_is_missing():
    view = (FEATURE, IMPORTANCE, INTERVAL, ("absent", "{nothing}"))
    assert table(view=view).lines()[:2] == [["a", "12.35", "10.00 to 15.00", NONE], ["long name", "0.5000", NONE, NONE]]
    assert len(table(view=view, most=2).lines()) == 2


def test_without_a_line_the_text_is_the_view_under_its_headings():
    lines = table(line=(), view=(("", "{feature}"), ("number", "{importance}"))).text().splitlines()
    assert lines[1:] == ["             number", "  a           12.35", "  long name  0.5000", "  c               0"]


def test_some_rows_in_the_text_and_how_many_are_left_out():
    assert table(in_text=[2, 0, 1], most_in_text=1, notes=["a note"]).text().splitlines()[1:] == [
        "  c  0 ± 0",
        "  and 2 more: to_frame()",
        "  (a note)",
    ]
    assert table(in_text=[]).text() == "Title"


def test_the_order_is_that_of_every_column():
    found = table(extra={"other": ["x", "y", "z"]}).ordered(np.array([2, 0]))
    assert found.texts(["feature", "other", "importance"]) == [["c", "z", "0"], ["a", "x", "12.35"]]
    np.testing.assert_array_equal(found.data()["importance"], [0, 12.3456])


def test_what_takes_longer_is_worked_out_once_and_only_when_it_is_looked_at():
    calls = []

    def slow():
        calls.append(1)
        return np.array([1.0, 2.0])

    found = ResultTable("", {"feature": ["a", "b"], "slow": slow}, ("{feature}",), (("slow", "{slow}"),))
    found = found.ordered(np.array([1, 0]))
    assert found.text() == "\n  b\n  a"
    assert calls == []
    assert found.lines() == [["2.000"], ["1.000"]]
    assert found.data()["slow"].tolist() == [2.0, 1.0]
    assert calls == [1]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234, "1,234"),
        (True, "yes"),
        (np.False_, "no"),
        (None, ""),
        (np.inf, ""),
        ("", ""),
        (np.int8(3), "3"),
        (0.0, "0"),
    ],
)
def test_values_as_people_write_them(value, text):
    assert ResultTable("", {"x": [value]}).written("x", 0) == text


def test_formats_of_ones_own():
    formats = {"p": ".1f", "rule": lambda rule: rule or "none"}
    found = ResultTable("", {"p": [0.25], "rule": [""], "share": [0.25]}, formats=formats)
    assert found.texts(["p", "rule", "share"]) == [["0.2", "none", "25.0%"]]


def test_names_may_look_like_templates():
    found = ResultTable("", {"feature": ["{x}[y]"]}, ("[{feature}]",))
    assert found.text() == "\n  {x}[y]"


def test_facts_stand_beside_their_names():
    assert facts("t", {"a": 1.5, "b": "", "c": 1000}, []).lines() == [["a", "1.500"], ["b", NONE], ["c", "1,000"]]


def test_a_number_that_does_not_exist_has_a_place():
    def refuse():
        raise ValueError

    assert or_else(refuse, 3) == 3
    assert or_else(lambda: 4, 3) == 4


def ranked(names, importance):
    return ResultTable("Title", {"feature": names, "importance": importance}, ("{feature}", "{importance}"))


def columns_before(line, number):
    """How many columns of a terminal stand before a number."""
    return width_of(line[: line.index(number)])


def test_numbers_align_whatever_the_names_are():
    names = ["age", "年齢と住所", "🚲", "e\u0301te\u0301", "größe", "a\tb\nc"]
    found = ranked(names, np.arange(1.0, 7.0))
    _, *lines = found.text().splitlines()
    assert len(lines) == len(names)
    assert {columns_before(line, f"{k}.000") for k, line in enumerate(lines, 1)} == {2 + width_of("年齢と住所") + 2}
    assert lines[-1].startswith("  a b c ")


def test_a_long_name_has_a_line_of_its_own_and_is_not_cut():
    long = "the share of households with two or more children in the municipality, in percent"
    found = ranked(["age", long], np.array([1.0, 2.0]))
    assert found.text().splitlines()[1:] == ["  age  1.000", f"  {long}", "       2.000"]
    only = ranked([long], np.array([2.0]))
    assert only.text().splitlines()[1:] == [f"  {long}", "      2.000"]


def test_a_share_other_than_0_is_never_shown_as_0():
    shares = ResultTable("", {"share": [0.0001, 0.0, -0.0001, -0.01, 0.0005, np.nan]}).texts(["share"])
    assert [text for (text,) in shares] == ["<0.1%", "0%", ">-0.1%", "-1.0%", "0.1%", ""]


def test_numbers_within_rounding_of_their_parts_are_shown_as_0():
    """The same number is noise beside large parts, and none beside small ones: no fixed threshold says which."""
    columns = {"name": ["a", "b", "c"], "value": [2.0, 1e-16, -3e-16], "std_error": [0.1, 1e-17, 2.0]}
    shown = ResultTable("", columns, like="value", rounding=rounding_error(100, 1.0))
    assert shown.texts(["value", "std_error"]) == [["2.000", "0.100"], ["0", "0"], ["0", "2.000"]]
    small = ResultTable("", columns, like="value", rounding=rounding_error(100, 1e-3)).texts(["value"])
    assert small == [["2.000"], ["1e-16"], ["-3e-16"]]
    assert shown.data()["value"] == columns["value"]
    missing = ResultTable("", {"value": [np.nan]}, like="value", rounding=1.0)
    assert missing.texts(["value"]) == [[""]]


def test_text_has_at_most_20_rows():
    names = [f"x{k}" for k in range(162)]
    lines = ResultTable("", {"name": names}, view=(("", "{name}"),)).text().splitlines()
    assert [line.strip() for line in lines if line.strip()] == [*names[:20], "and 142 more: to_frame()"]
