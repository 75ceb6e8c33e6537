"""Curves of groups of rows, side by side."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import losslens as ll
from losslens.plots.canvas import LOOKS
from pictures import caption, legend, looked_at, no_overlap, plot_groups, texts
from results_to_draw import N, importance, table


@pytest.fixture(scope="module")
def imp():
    return importance(table())


def test_each_group_has_its_curve_its_importance_and_its_size(imp):
    parts = imp["x0"].by(np.where(np.arange(N) < 10, "early", "late"))
    ax = looked_at(plot_groups(parts))
    names = legend(ax)
    assert names[0] == f"early: {parts['early'].pfi:.3g} (n = 10)"
    assert names[1].endswith("(n = 30)")
    assert names[2].startswith("distribution")
    for line, part in zip(ax.lines[::2], parts.values(), strict=False):
        np.testing.assert_array_equal(line.get_ydata(), part.pi)
        np.testing.assert_array_equal(line.get_xdata(), part.grid)
    marks = [line.get_ydata()[0] for line in ax.lines if line.get_marker() == ">"]
    np.testing.assert_allclose(marks, [part.pfi for part in parts.values()])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "increase in squared error")


def test_one_group_is_the_whole(imp):
    ax = looked_at(plot_groups(imp["x0"].by(np.zeros(N))))
    np.testing.assert_allclose(ax.lines[0].get_ydata(), imp["x0"].pi)
    assert legend(ax)[0].startswith("0: ")


def test_effects_have_groups_without_a_number(imp):
    parts = imp["x0"].effect.by(np.arange(N) % 2)
    ax = looked_at(plot_groups(parts))
    assert legend(ax)[:2] == ["0 (n = 20)", "1 (n = 20)"]
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), parts[1].pd)
    assert ax.get_ylabel() == "prediction"


def test_the_largest_groups_are_shown_and_the_rest_is_counted(imp):
    groups = np.repeat(np.arange(12), [8, 8, 6, 4, 4, 3, 2, 1, 1, 1, 1, 1])
    ax = looked_at(plot_groups(imp["x0"].by(groups)))
    assert [name.split(":")[0] for name in legend(ax)[:-1]] == [str(k) for k in range(len(LOOKS))]
    assert "the largest 8 of 12 groups" in caption(ax)


@pytest.mark.parametrize("design", ["all", ll.Latin(4), ll.Grid(5), ll.Derangements(2), ll.Systematic(4)])
def test_groups_draw_under_every_design(design):
    one = importance(table(), donors=design)["x0"]
    looked_at(plot_groups(one.by(np.arange(N) % 3)))


def words(**asked):
    X = pd.DataFrame({"z": ["low", "medium", "high", "never"] * (N // 4), "w": np.linspace(-1, 1, N)})

    def predict(X):
        return X["z"].str.len().to_numpy() * (1.0 + X["w"].to_numpy())

    return ll.feature_importance(predict, X, predict(X) + X["w"], loss="squared_error", features=["z"], **asked)["z"]


def test_words_are_dots_a_row_for_each_value():
    one = words()
    parts = one.by(np.arange(N) < 25)
    ax = looked_at(plot_groups(parts))
    shown = ax.get_yticklabels()
    assert {text.split()[0] for text in texts(shown)} == {"low", "medium", "high", "never"}
    assert no_overlap(shown)
    for line, part in zip(ax.lines, parts.values(), strict=False):
        np.testing.assert_allclose(sorted(line.get_xdata()), sorted(part.pi))
    assert ax.get_xlabel() == "increase in squared error"
    assert ax.get_ylabel() == "z"
    looked_at(plot_groups(words(donors=ll.Latin(3)).by(np.arange(N) % 10)))
    small = plt.subplots(2, 2, layout="constrained")[1][0, 0]
    looked_at(plot_groups(parts, ax=small))


def test_groups_that_met_other_values_share_an_axis():
    one = words(donors=ll.Derangements(1))
    parts = {k: one.given([k, k + 1]) for k in range(5)}
    ax = looked_at(plot_groups(parts))
    assert len(ax.get_yticks()) == len({value for part in parts.values() for value in part.grid})
    numbers = importance(table(), donors=ll.Derangements(1))["x0"]
    looked_at(plot_groups({k: numbers.given([k, k + 1]) for k in range(5)}))


def test_what_has_no_common_axis_is_refused():
    found = importance(table(), features=["x0", "x1", ("x0", "x1")])
    halves = np.arange(N) % 2
    with pytest.raises(ValueError, match="several columns"):
        plot_groups(found["x0", "x1"].by(halves))
    with pytest.raises(ValueError, match="different features"):
        plot_groups({"a": found["x0"], "b": found["x1"]})
    with pytest.raises(ValueError, match="no group"):
        plot_groups({})
