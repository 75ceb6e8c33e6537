"""y of a survival analysis in its forms, and what is wrong with it."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from losslens.losses.survival import event_times

EVENT, TIME = np.array([True, False, True]), np.array([2.0, 5.0, 3.5])
COLUMNS = {"event": EVENT, "time": TIME}


def structured(event=EVENT, time=TIME, names=("cens", "t")):
    return np.array(list(zip(event, time, strict=True)), dtype=[(names[0], event.dtype), (names[1], time.dtype)])


FORMS = {
    "structured": structured(),
    "structured, time first": np.array([(2.0, 1), (5.0, 0), (3.5, 1)], dtype=[("time", "f8"), ("event", "i4")]),
    "pandas": pd.DataFrame(COLUMNS),
    "pandas, time first": pd.DataFrame({"Time": TIME, "Event": EVENT.astype(int)}),
    "pandas, by type": pd.DataFrame({"days": TIME, "died": EVENT}),
    "polars": pl.DataFrame(COLUMNS),
    "pyarrow": pa.table(COLUMNS),
    "two columns": np.column_stack([EVENT, TIME]),
    "list": [(True, 2), (False, 5), (1, 3.5)],
}


@pytest.mark.parametrize("y", FORMS.values(), ids=FORMS)
def test_forms(y):
    found = event_times(y)
    assert found.event.tolist() == EVENT.tolist()
    assert found.time.tolist() == TIME.tolist()


WRONG = {
    "one column": (TIME, r"y is an array of shape \(3,\); a survival loss needs a structured array"),
    "three columns": (np.ones((3, 3)), "y has 3 columns; a survival loss needs"),
    "which is the event": (pd.DataFrame({"a": [1, 0], "b": [2, 3]}), "'a' and 'b', and neither their names nor"),
    "columns swapped": (
        np.column_stack([TIME, EVENT]),
        "an event of y must be True or False, .* row 0 is 2; .* the first column is",
    ),
    "several events": ([(2, 1.0), (0, 2.0)], "an event of y must be True or False, .* row 0 is 2; with several kinds"),
    "missing": (pd.DataFrame({"event": [1, 0], "time": [1.0, None]}), "y has 1 missing values in time, .* row 1"),
    "negative": ([(1, 1.0), (0, -2.0)], "a time of y must be finite and not negative, but that of row 1 is -2"),
    "infinite": ([(1, np.inf), (0, 2.0)], "a time of y must be finite and not negative, but that of row 0 is inf"),
    "no event": ([(0, 1.0), (0, 2.0)], "y has no event: all rows are censored"),
}


@pytest.mark.parametrize(("y", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong(y, words):
    with pytest.raises(ValueError, match=words):
        event_times(y)


def test_dates():
    y = pd.DataFrame({"event": EVENT, "time": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"])})
    with pytest.raises(TypeError, match=r"y needs numbers as time; got datetime64.*: convert dates to days"):
        event_times(y)
    with pytest.raises(TypeError, match="censoring needs numbers as event; got object such as 'yes'"):
        event_times(pd.DataFrame({"event": np.array(["yes", "no"], object), "time": [1, 2]}), "censoring")
