"""Axes of dates, numbers, spans of time and missing values."""

import datetime as dt
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import dates
from matplotlib import pyplot as plt

import losslens as ll
from features_to_draw import N, explain, explain_column
from losslens.plots.scale import MOST_DATES
from pictures import looked_at, named, texts


@pytest.fixture(scope="module", name="X")
def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 3))


@pytest.fixture(scope="module")
def imp(X):
    return explain(X)


def apart(ax):
    """How many labels of the x axis there are; no two of them touch."""
    low, high = sorted(ax.get_xlim())
    ticks = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    ends = sorted(tuple(label.get_window_extent().intervalx) for tick, label in ticks if low <= tick <= high)
    assert all(left[1] < right[0] for left, right in pairwise(ends))
    return len(ends)


def days(n, missing=False):
    values = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n) * 11, "D"))
    return values.mask(np.arange(n) % 7 == 0) if missing else values


def test_dates_have_a_date_axis():
    one = explain_column(days(N), lambda z: z.dt.month.to_numpy(float))
    ax = looked_at(one.plot())
    assert isinstance(ax.xaxis.get_major_formatter(), dates.ConciseDateFormatter)
    np.testing.assert_array_equal(named(ax, "PI").get_xdata(), dates.date2num(one.grid))
    assert any(text.startswith("20") for text in texts(ax.get_xticklabels()))


@pytest.mark.parametrize("size", [(3, 2.5), (6.4, 4.8)])
@pytest.mark.parametrize("days", [0.2, 1, 9, 40, 100, 400, 1500, 4000, 20000])
def test_ticks_of_dates_stand_apart(days, size):
    start = np.datetime64("2021-03-04T05:06:07", "s")
    values = start + (np.linspace(0, 86400 * days, N)).astype("timedelta64[s]")
    ax = plt.subplots(figsize=size, layout="constrained")[1]
    explain_column(values, lambda z: z.rank().to_numpy()).effect.plot(ax=ax)
    assert 2 <= apart(looked_at(ax)) <= MOST_DATES


@pytest.mark.parametrize("size", [(3, 2.5), (6.4, 4.8)])
@pytest.mark.parametrize("ends", [(0, 1), (0, 0.001), (-3, 3), (0.5, 0.5001), (1e5, 2e5), (0, 3e9), (1990, 2021)])
def test_ticks_of_numbers_stand_apart(ends, size):
    values = np.linspace(*ends, N)
    for some in (values, values.round()) if np.ptp(values) > 2 else (values,):
        ax = plt.subplots(figsize=size, layout="constrained")[1]
        explain_column(some, lambda z: z.rank().to_numpy()).effect.plot(ax=ax)
        assert apart(looked_at(ax)) >= 2


def test_spans_of_time_name_their_unit():
    one = explain_column(pd.Series(pd.to_timedelta(np.arange(N) * 20, "min")), lambda z: z.dt.seconds.to_numpy(float))
    assert looked_at(one.plot()).get_xlabel() == "z (hours)"


@pytest.mark.parametrize("missing_dates", [True, False])
def test_a_missing_value_is_a_point_at_the_right(missing_dates):
    values = days(N, missing=True) if missing_dates else pd.Series(np.arange(N) % 9.0).mask(np.arange(N) % 7 == 0)
    score = (lambda z: z.dt.month.fillna(20).to_numpy(float)) if missing_dates else lambda z: z.fillna(20).to_numpy()
    one = explain_column(values, score)
    ax = looked_at(one.plot())
    pi = named(ax, "PI")
    assert len(pi.get_xdata()) == len(one.grid) - 1
    (point,) = [line for line in ax.lines if line.get_marker() == "D"]
    assert point.get_ydata()[0] == one.pi[-1]
    assert point.get_xdata()[0] > pi.get_xdata()[-1]
    shown = [text for text in ax.get_xticklabels() if text.get_text()]
    assert shown[-1].get_text() == f"\nmissing ({one.weights[-1]:.0%})"
    assert shown[-1].get_position()[0] == point.get_xdata()[0]


def test_only_missing_values_draw():
    one = explain_column(pd.Series(np.full(N, np.nan)), lambda z: z.fillna(1.0).to_numpy())
    looked_at(one.plot())


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([dt.date(2020, 1, 1) + dt.timedelta(days=k) for k in range(N)]),
        pl.Series([dt.datetime(2020, 1, 1) + dt.timedelta(hours=k) for k in range(N)]),
        pl.Series([dt.time(k % 24, 5) for k in range(N)]),
        pl.Series([dt.timedelta(seconds=k) for k in range(N)]),
        pl.Series([Decimal(k) / 4 for k in range(N)]),
        pl.Series([None if k % 5 == 0 else k for k in range(N)]),
        pl.Series([None if k % 5 == 0 else k % 2 == 0 for k in range(N)]),
        pl.Series(["low" if k % 3 else "high" for k in range(N)], dtype=pl.Enum(["low", "high"])),
        pl.Series([f"{k % 4}" for k in range(N)], dtype=pl.Categorical),
    ],
    ids=["date", "datetime", "time", "duration", "decimal", "int?", "bool?", "enum", "categorical"],
)
def test_every_type_of_polars_draws(values):
    table = pl.DataFrame({"z": values, "w": np.linspace(-1, 1, N)})
    ranks = dict(zip(values.to_list(), values.rank("dense").fill_null(0).to_list(), strict=True))

    def predict(table):
        return np.array([ranks[z] for z in table["z"].to_list()]) * (1.0 + table["w"].to_numpy())

    imp = ll.feature_importance(predict, table, predict(table), loss="absolute_error", features=["z", ("z", "w")])
    looked_at(imp["z"].plot())
    looked_at(imp["z", "w"].plot())
    looked_at(imp["z"].effect.plot())
