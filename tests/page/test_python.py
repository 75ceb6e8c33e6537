"""The subgroup as Python: the code of the page chooses the rows that the page shows."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import losslens as ll
from browser import members, set_donors, unfold, value
from losslens.page.labels import expressions, literals
from losslens.tables.frames import as_table

Open = Callable[..., Any]
N = 120
RNG = np.random.default_rng(8)
ODD = 'it\'s "odd" \\ é\n☃'


def table() -> pd.DataFrame:
    when = pd.date_range("2024-03-30", periods=N, freq="37min", tz="Europe/Berlin")
    frame = pd.DataFrame(
        {
            "rough": RNG.normal(size=N),  # kept as float32 in the page
            "gaps": RNG.normal(size=N),
            "short": RNG.integers(0, 40, N) / 10,
            "weekday": RNG.integers(0, 7, N),
            "flag": RNG.random(N) < 0.3,
            "few": pd.array(RNG.integers(1, 5, N), dtype="Int64"),
            ODD: RNG.choice(["a", ODD, "missing", "", "True"], N),
            "level": pd.Categorical(RNG.choice([1.5, 1234567.1, 1234567.2], N)),
            "mixed": pd.Series([[True, "1", 2.5, 7][k % 4] for k in range(N)], dtype=object),
            "month": pd.period_range("2024-01", periods=N, freq="D").asfreq("M"),
            "zoned": when,
            "naive": when.tz_localize(None) + pd.Timedelta("0.25ms"),
            7: RNG.normal(size=N).round(1),
        }
    )
    for name in ("gaps", "few", ODD, "level", "naive"):
        frame.loc[RNG.random(N) < 0.1, name] = None
    return frame


X = table()
Y = X["short"].to_numpy() + (X["weekday"] == 2) * 3


def model(X: Any) -> Any:
    return X["short"].to_numpy() + 2.0 * (X["weekday"] == 2).to_numpy()


UTC = X["zoned"].dt.tz_convert("UTC").dt.tz_localize(None)
LOW, HIGH = float(np.float32(X["rough"].iloc[3])), float(np.float32(X["rough"].max()))
DAY = 24 * 3600 * 1000
NOON = 1711843200000  # 2024-03-31
LATE = X["naive"].dt.floor("ms").astype("datetime64[ms]").astype("int64").iloc[60]
CASES = {
    "a range of rounded numbers": ([{"column": "rough", "from": LOW, "to": HIGH}], X["rough"] >= X["rough"].iloc[3]),
    "a range between them": ([{"column": "rough", "from": -0.2, "to": 0.5}], X["rough"].between(-0.2, 0.5)),
    "or missing": (
        [{"column": "gaps", "from": 0.25, "to": 1.0, "missing": True}], X["gaps"].between(0.25, 1) | X["gaps"].isna(),
    ),
    "everything known": ([{"column": "gaps", "from": -99, "to": 99}], X["gaps"].notna()),
    "missing": ([{"column": "gaps", "from": 5, "to": 1, "missing": True}], X["gaps"].isna()),
    "decimals": ([{"column": "short", "from": 0.3, "to": 2.1}], X["short"].between(0.3, 2.1)),
    "integers": ([{"column": "weekday", "in": [1, 4]}], X["weekday"].isin([1, 4])),
    "integers that may be missing": (
        [{"column": "few", "in": [2, None]}], X["few"].isin([2]) | X["few"].isna(),
    ),
    "a range of them": ([{"column": "few", "from": 2, "to": 3}], X["few"].isin([2, 3])),
    "truth values": ([{"column": "flag", "in": ["True"]}], X["flag"]),
    "text": ([{"column": ODD, "in": [ODD, "missing", ""]}], X[ODD].isin([ODD, "missing", ""])),
    "text or missing": ([{"column": ODD, "in": ["True", None]}], X[ODD].isin(["True"]) | X[ODD].isna()),
    "categories that are numbers": ([{"column": "level", "in": ["1234567.1"]}], X["level"] == 1234567.1),
    "categories of several types": ([{"column": "mixed", "in": ["1", "True"]}], X["mixed"].isin(["1", True])),
    "periods": ([{"column": "month", "in": ["2024-02"]}], X["month"] == pd.Period("2024-02")),
    "days": (
        [{"column": "zoned", "from": NOON, "to": NOON + DAY - 1}], (UTC >= "2024-03-31") & (UTC < "2024-04-01"),
    ),
    "instants": (
        [{"column": "naive", "from": NOON + 1, "missing": True}],
        (X["naive"] >= pd.Timestamp(NOON + 1, unit="ms")) | X["naive"].isna(),
    ),
    "the last instant": ([{"column": "naive", "to": int(LATE)}], X["naive"] <= X["naive"].iloc[60]),
    "a column of another name": ([{"column": "7", "from": 0, "to": 0.9}], X[7].between(0, 0.9)),
    "the target": ([{"made": "y", "from": 1, "to": 3}], Y.between(1, 3)),
    "the loss": ([{"made": "loss", "from": 0.5}], X["weekday"] == 2),
    "rows": ([{"rows": "3-5,70"}], pd.Series(np.isin(np.arange(N), [3, 4, 5, 70]))),
    "labels that were given": ([{"column": "group", "in": ["odd"]}], pd.Series(np.arange(N) % 2 == 1)),
    "several": (
        [{"column": "short", "from": 1}, {"column": "flag", "in": ["False"]}, {"rows": "0-80"}, {"made": "y", "to": 4}],
        (X["short"] >= 1) & ~X["flag"] & (np.arange(N) <= 80) & (Y <= 4),
    ),
}  # fmt: skip
BY = pd.Series(np.where(np.arange(N) % 2, "odd", "even"), name="group")


def code_of(page: Any, conditions: list[dict[str, Any]]) -> str:
    address = "&".join(f"where={urllib.parse.quote(json.dumps(one))}" for one in conditions)
    page.evaluate(
        "(hash) => { history.pushState(null, '', hash); dispatchEvent(new PopStateEvent('popstate')); }", f"#{address}"
    )
    return str(page.locator("#python-code").input_value())


def test_the_code_chooses_the_rows_of_the_page(opened: Open) -> None:
    report = ll.report(
        model, X, Y, loss="squared_error", by=BY, shapley=False, interactions=False, features=["short", "weekday"]
    )
    page = opened(report.summary)
    unfold(page)
    page.locator("#python").click()
    for name, (conditions, expected) in CASES.items():
        code = code_of(page, conditions)
        known: dict[str, Any] = {"X": X, "y": Y, "by": BY}
        exec(code.split("importances =")[0], known)
        rows = np.asarray(known["rows"])
        assert rows.dtype == bool, name
        assert members(page) == rows.sum() > 0, (name, code)
        np.testing.assert_array_equal(rows, np.asarray(expected, bool), err_msg=f"{name}\n{code}")
    set_donors(page, "subset")
    known = {"X": X, "y": Y, "model": model}
    before, last = page.locator("#python-code").input_value().rsplit("\n", 1)
    exec(before, known)
    assert ".subset(" in last
    assert eval(last, known).pfi == pytest.approx(value(page, "pfi-subset"), rel=1e-6)


def test_the_code_has_the_weights_of_the_report(opened: Open) -> None:
    weight = np.random.default_rng(1).uniform(0, 2, N)
    report = ll.report(
        model, X, Y, loss="squared_error", sample_weight=weight, shapley=False, interactions=False, features=["short"]
    )
    page = opened(report.summary)
    unfold(page)
    page.locator("#python").click()
    code, last = code_of(page, [{"column": "weekday", "in": [1, 4]}]).rsplit("\n", 1)
    known = {"X": X, "y": Y, "model": model, "sample_weight": weight}
    exec(code, known)
    assert eval(last, known).pfi == pytest.approx(value(page, "pfi-given"), rel=1e-6)


def test_rows_of_a_sample_are_chosen_by_their_names(opened: Open) -> None:
    frame = pd.DataFrame({"a": np.arange(N) % 9.0, "b": np.arange(N) * 1.0}, index=[f"id {k}" for k in range(N)])
    for table, names in ((frame, frame.index), (frame.to_numpy(), np.arange(N))):
        report = ll.report(
            lambda X: np.asarray(X)[:, 0], table, frame["b"].to_numpy(), loss="squared_error", rows=40,
            shapley=False, interactions=False, random_state=0,
        )  # fmt: skip
        page = opened(report.summary)
        unfold(page)
        page.locator("#python").click()
        known: dict[str, Any] = {"X": table}
        exec(code_of(page, [{"rows": "2-4"}]).split("importances =")[0], known)
        assert list(names[known["rows"]]) == list(np.asarray(report.summary["table"]["index"])[2:5])
        code = code_of(page, [{"column": "a" if table is frame else "x0", "in": [1, 2]}])
        assert "holds 40 of 120 rows" in code
        exec(code.split("importances =")[0], known)
        np.testing.assert_array_equal(np.asarray(known["rows"]), np.isin(np.arange(N) % 9, [1, 2]))


def test_columns_of_every_kind_of_table() -> None:
    polars = pytest.importorskip("polars")
    array = np.array([[1, "a"], [2, None], [None, "b"]], dtype=object)
    frame = polars.DataFrame({"a": [1, 2, None], 'q"': ["x", "y", None]})
    frame = frame.with_columns(
        polars.datetime_range(*2 * [pd.Timestamp("2024-01-01")], time_zone="Asia/Tokyo").first().alias("t")
    )
    for X in (array, frame, frame.to_arrow()):
        for code in expressions(as_table(X)).values():
            assert len(eval(code, {"X": X})) == 3
    assert expressions(as_table(array))["x0"] == "X[:, 0].astype(float)"
    assert literals(np.array([True, 1, "1"], object))["as_text"]
    assert literals(np.array(["a", None], object)) == {"as_text": False, "literals": []}
