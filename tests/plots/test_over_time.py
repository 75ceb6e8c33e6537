"""The picture of importance over time."""

import numpy as np
import pytest
from matplotlib import dates
from matplotlib import pyplot as plt

import losslens as ll
from losslens.plots.canvas import BAND, CAPTION
from pictures import legend

N = 240
DAYS = np.datetime64("2024-01-01") + np.arange(N)


def importances(p=2, later=0.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, p))
    slopes = 0.7 ** np.arange(p)
    y = X @ slopes + later * (np.datetime64("2024-05-01") <= DAYS) * X[:, 0] + 0.3 * rng.normal(size=N)
    return ll.feature_importance(lambda X: X @ slopes, X, y, loss="squared_error", progress=False)


def caption(ax):
    return " ".join(next(text.get_text() for text in ax.texts if text.get_gid() == CAPTION).split())


def test_points_are_at_the_mean_time_of_their_rows_with_a_band():
    over = importances().over(DAYS, width="1M")
    ax = over.plot()
    lines = ax.lines[:2]
    for j, line in enumerate(lines):
        np.testing.assert_allclose(line.get_ydata(), over.importance[:, j])
        np.testing.assert_allclose(dates.date2num(over.middle), line.get_xdata())
    assert legend(ax) == ["x0", "x1"]
    assert sum(some.get_gid() == BAND for some in ax.collections) == 2
    assert "95% bands, for all stretches of time together; donors come from all times" in caption(ax)
    assert ax.get_ylabel() == "importance: increase in squared error"


def test_a_significant_step_is_marked_between_two_points():
    over = importances(later=1.0)["x0"].over(DAYS, width="1M")
    assert over.p[0] < 0.01
    ax = over.plot()
    places = dates.date2num(over.middle)
    assert any(places[3] < line.get_xdata()[0] < places[4] for line in ax.lines)
    assert "the largest step: 1.9" in caption(ax) or "before 2024-05-01" in caption(ax)
    calm = importances()["x0"].over(DAYS, width="1M")
    assert "step" not in caption(calm.plot())


def test_lines_are_broken_where_there_were_no_rows():
    times = np.where(np.arange(N) < 120, np.arange(N), np.arange(N) + 500)
    ax = importances()["x0"].over(times, width=60).plot()
    assert np.isnan(ax.lines[0].get_ydata()).sum() == 1


def test_few_features_are_drawn_and_the_others_counted():
    ax = importances(9).over(DAYS, bins=3).plot()
    assert len(legend(ax)) == 5
    assert "the most important: 5 of 9 features" in caption(ax)


def test_bands_that_would_flatten_the_lines_are_cut():
    imp = importances()
    over = ll.feature_importance(
        lambda X: X @ [1.0, 0.7], np.random.default_rng(0).normal(size=(N, 2)), np.zeros(N), loss="squared_error",
        groups=ll.time_blocks(DAYS, "20D"), progress=False,
    ).over(DAYS, bins=4)  # fmt: skip
    ax = over.plot()
    assert "the axis is cut" in caption(ax)
    assert ax.get_ylim()[1] < over.high.max()
    assert "the axis is cut" not in caption(imp.over(DAYS, bins=2).plot())


def test_it_draws_on_the_axes_it_is_given():
    _, ax = plt.subplots()
    over = importances().over(DAYS, bins=3)
    assert over.plot(ax=ax) is ax
    with pytest.raises(TypeError, match="ax must be one matplotlib Axes"):
        over.plot(ax="here")
