"""What is drawn of Shapley importances, as data and artists; the results are made up."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import dates
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, PathCollection

from losslens.plots.canvas import BLUE
from losslens.plots.shapley import running_mean
from made_shapley import curve, effect, importance, interactions, noisy, words
from pictures import LONG, SAME_ENDS, caption, inside, legend, looked_at, named, no_overlap, texts


def written(ax):
    """The texts inside the axes."""
    return [text for text in ax.texts if text.get_gid() != "caption"]


def segments(ax):
    """Ends of the thin lines."""
    return [s[:, 0] for c in ax.collections if isinstance(c, LineCollection) for s in c.get_segments()]


# -- the ranking ------------------------------------------------------------------------------------------------------


def test_bars_are_the_shares_of_the_error_the_largest_on_top():
    result = importance()
    ax = looked_at(result.plot())
    order = np.argsort(-result.sfimp)
    assert texts(ax.get_yticklabels()) == [result.features[j] for j in order]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], result.sfimp[order])
    assert ax.yaxis_inverted()
    assert ax.get_xlabel() == "decrease in squared error by each feature"
    first = result.sfimp.max()
    assert texts(written(ax))[0] == f"{first:.3f} ({first / result.sfimp.sum():.0%})"


def test_thin_lines_are_the_intervals_and_the_caption_says_so():
    result = importance()
    ax = result.plot()
    order = np.argsort(-result.sfimp)
    np.testing.assert_allclose(segments(ax), np.column_stack(result.interval())[order])
    ends = f"error {result.error_none:.1f} with all values from other rows, {result.error_all:.3f} with their own"
    assert caption(ax) == f"{ends}; sums to {result.sfimp.sum():.3g}; lines: 95% intervals"


def test_monte_carlo_error_alone_is_named():
    result = importance(known=False, monte_carlo_error=np.array([0.1, 0.2, 0.0, np.nan, 0.1]), exact=False)
    ax = looked_at(result.plot())
    assert len(segments(ax)) == 3  # nothing was drawn for one feature, and of one the error is not known
    assert "95% intervals of the Monte-Carlo error alone" in caption(ax)


def test_no_lines_where_nothing_is_known():
    for error in (0.0, np.nan):
        ax = looked_at(importance(known=False, monte_carlo_error=np.full(5, error)).plot())
        assert not segments(ax)
        assert "lines" not in caption(ax)


def test_unknown_monte_carlo_errors_leave_their_features_without_a_line():
    result = importance(monte_carlo_error=np.array([0.1, np.nan, 0.1, 0.1, 0.1]))
    assert len(segments(looked_at(result.plot()))) == 4


def test_negative_shares_are_explained():
    below = importance(sfimp=np.array([8.0, 4.0, -1.0, 0.5, 0.0]), error_all=1.0, error_none=12.5)
    assert "below 0: values that increase the error" in caption(below.plot())
    score = importance(
        2, known=False, loss=None, title="r2", error_all=-0.9, error_none=0.1, sfimp=np.array([1.2, -0.2])
    )
    assert "below 0: values that lower the score" in caption(score.plot())
    assert "below 0" not in caption(importance().plot())


def test_scores_increase():
    result = importance(known=False, loss=None, title="r2", error_all=-0.9, error_none=0.1)
    ax = looked_at(result.plot())
    assert ax.get_xlabel() == "increase in r2 by each feature"
    assert caption(ax).startswith("score −0.100 with all values from other rows, 0.900 with their own")


def test_negative_values_lie_left_of_zero():
    result = importance(8, down=1.0)
    ax = looked_at(result.plot())
    assert min(bar.get_width() for bar in ax.patches) == result.sfimp.min() < 0
    assert ax.get_xlim()[0] < min(ends[0] for ends in segments(ax))
    last = written(ax)[-1]
    assert last.get_text().startswith("−")
    assert "(−" in last.get_text()
    zero = ax.transData.transform((0, 0))[0]
    assert last.get_window_extent().x0 >= zero


def test_there_are_no_shares_where_there_is_nothing_to_share():
    lost = importance(down=3.0)
    assert lost.error_none < lost.error_all
    nothing = importance(error_none=importance().error_all)
    nearly = importance(error_none=importance().error_all + 1e-6)
    for result in (lost, nothing, nearly):
        assert not any("%" in text for text in texts(written(looked_at(result.plot()))))


def test_a_small_negative_share_is_neither_none_nor_minus_zero():
    result = importance(3, sfimp=np.array([1.0, 0.002, -0.002]), error_none=importance(3).error_all + 1.0)
    assert [text.split()[-1] for text in texts(written(result.plot()))] == ["(100%)", "(<1%)", "(−0.2%)"]


def test_how_the_numbers_came_about_is_in_the_caption():
    assert "SAGE" in caption(importance(aggregate="prediction").plot())
    assert "interrupted" in caption(importance(complete=False).plot())


def test_features_without_a_number_are_left_out():
    result = importance(3, known=False, sfimp=np.array([1.0, np.nan, 2.0]))
    assert texts(looked_at(result.plot()).get_yticklabels()) == ["x2", "x0"]
    with pytest.raises(ValueError, match="no feature has an importance"):
        importance(2, known=False, sfimp=np.full(2, np.nan)).plot()


@pytest.mark.parametrize("p", [1, 3, 40])
@pytest.mark.parametrize("name", ["x{}".format, LONG, SAME_ENDS])
def test_labels_of_the_ranking_never_overlap_and_stay_on_the_page(p, name):
    ax = looked_at(importance(p, name=name).plot())
    shown = ax.get_yticklabels()
    assert len(shown) == len(set(texts(shown))) == p
    assert no_overlap(shown)
    assert inside(ax, [*shown, *ax.texts, ax.xaxis.label])


@pytest.mark.parametrize("name", ["x{}".format, LONG])
@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e9])
def test_numbers_of_the_ranking_stand_inside_the_axes(name, scale):
    result = importance(12, name=name, scale=scale)
    small = plt.subplots(2, 2, layout="constrained")[1][0, 0]
    for ax in (result.plot(), result.plot(ax=small)):
        looked_at(ax)
        right = ax.get_window_extent().x1 + 2
        assert all(text.get_window_extent().x1 <= right for text in written(ax))
        assert no_overlap(ax.get_yticklabels())


def test_features_that_do_not_fit_are_counted():
    assert "20 less important features not shown" in caption(importance(60).plot())
    ax = looked_at(importance(40).plot(ax=plt.subplots(figsize=(5, 3), layout="constrained")[1]))
    shown = len(ax.get_yticklabels())
    assert 3 <= shown < 40
    assert f"{40 - shown} less important features not shown" in caption(ax)


# -- along the values -------------------------------------------------------------------------------------------------


def test_many_values_are_pale_points_and_a_running_mean():
    shown = noisy()
    ax = looked_at(shown.plot())
    points = named(ax, "rows that hold the value")
    np.testing.assert_allclose(points.get_offsets(), np.column_stack((shown.grid, shown.importance)))
    line = named(ax, "running mean, 15% of the rows")
    assert line.get_color() == BLUE
    assert np.all(np.diff(line.get_xdata()) > 0)
    assert line.get_ydata().max() < shown.importance.max() / 3  # smooth
    np.testing.assert_array_equal(named(ax, "SFIMP").get_ydata(), shown.sfimp)
    assert [line for line in ax.lines if np.all(np.equal(line.get_ydata(), 0.0))]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("LSTAT", "decrease in squared error")


def test_donors_are_named():
    ax = noisy(by="donor").plot()
    assert {"donors that hold the value", "running mean, 15% of the donors"} < set(legend(ax))
    few = curve(words("a", "b"), [1, 2], by="donor", ordered=False).plot()
    assert "share of the donors that hold the value" in caption(few)


def test_the_axis_is_cut_where_single_values_lie_far_out():
    shown = noisy()
    far = replace(shown, importance=np.where(np.arange(500) == 7, 2e3, shown.importance))
    ax = looked_at(far.plot())
    assert ax.get_ylim()[1] < 1e3
    assert "points lie beyond it" in caption(ax)


def test_few_values_are_a_curve_through_each():
    shown = curve(np.arange(1, 9), [3, 2, 1, 0.5, -0.5, 0.2, 1, 2], [1, 2, 5, 9, 9, 4, 2, 1])
    ax = looked_at(shown.plot())
    (points,) = [c for c in ax.collections if isinstance(c, PathCollection)]
    assert np.ptp(np.argsort(points.get_sizes()) - np.argsort(shown.weights)) == 0
    assert "points are sized by weight" in caption(ax)
    assert any(np.array_equal(line.get_ydata(), shown.importance) for line in ax.lines)
    heights = np.array([segment[1, 1] for segment in named(ax, "distribution").get_segments()])
    np.testing.assert_allclose(heights / heights.sum(), shown.weights)
    assert all(float(tick).is_integer() for tick in ax.get_xticks())


def test_the_curve_stays_clear_of_the_legend():
    for shown in (noisy(by="donor"), curve([1, 2, 3], [3, 1, 3])):
        ax = looked_at(shown.plot(ax=plt.subplots(figsize=(3.2, 4))[1]))
        bottom = ax.get_legend().get_window_extent().y0
        highest = max(line.get_ydata().max() for line in ax.lines if len(line.get_xdata()) > 2)
        assert ax.transData.transform((0, highest))[1] < bottom


@pytest.mark.parametrize("many", [True, False])
def test_a_missing_value_is_a_diamond_at_the_right(many):
    shown = noisy() if many else curve([1.0, 2.0, 3.0], [1, 2, 1])
    n = len(shown.grid)
    shown = curve(np.append(shown.grid, np.nan), np.append(shown.importance, 70.0), np.append(np.ones(n), n))
    ax = looked_at(shown.plot())
    (point,) = [line for line in ax.lines if line.get_marker() == "D"]
    assert point.get_ydata()[0] == 70.0
    assert point.get_xdata()[0] > shown.grid[-2]
    assert "\nmissing (50%)" in texts(ax.get_xticklabels())


def test_dates_have_a_date_axis():
    days = np.datetime64("2020-01-01") + np.arange(400)
    ax = looked_at(curve(days, np.sin(np.arange(400) / 60)).plot())
    assert isinstance(ax.xaxis.get_major_formatter(), dates.ConciseDateFormatter)
    looked_at(curve(np.append(days, np.datetime64("NaT", "D")), np.sin(np.arange(401) / 60)).plot())


def test_words_are_bars_sorted_by_importance_and_the_missing_one_is_last():
    shown = curve(words("a", "b", LONG("x"), None), [0.2, -1, 2, 5], [5, 3, 1, 1], ordered=False, name="kind")
    ax = looked_at(shown.plot())
    assert [text[:3] for text in texts(ax.get_yticklabels())] == ["the", "a (", "b (", "mis"]
    assert texts(ax.get_yticklabels())[1] == "a (50%)"
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], [2, 0.2, -1, 5])
    assert any(np.all(np.equal(line.get_xdata(), shown.sfimp)) for line in ax.lines)
    assert f"the SFIMP, {shown.sfimp:.3f}" in caption(ax)
    assert ax.get_ylabel() == "kind"


def test_of_many_words_the_frequent_ones_are_shown():
    grid = words(*(f"word {k}" for k in range(90)))
    shown = curve(grid, np.arange(90), np.where(np.arange(90) == 5, 100, 1), ordered=False)
    ax = looked_at(shown.plot())
    assert len(ax.get_yticklabels()) == 40
    assert any(text.startswith("word 5 (") for text in texts(ax.get_yticklabels()))
    assert "the 40 most frequent of 90 values" in caption(ax)
    assert no_overlap(ax.get_yticklabels())


def test_truth_values_keep_their_order_and_ordered_words_are_a_curve():
    ax = curve(np.array([False, True]), [0.1, 2.0]).plot()
    assert [text.split()[0] for text in texts(ax.get_yticklabels())] == ["False", "True"]
    ax = looked_at(curve(words("low", "high", "highest"), [1, 3, 2]).plot())
    assert texts(ax.get_xticklabels()) == ["low", "high", "highest"]


def test_a_group_is_a_histogram_over_its_importance():
    shown = replace(noisy(columns=("lat", "lon")), grid=np.random.default_rng(0).normal(size=(500, 2)), name="place")
    ax = looked_at(shown.plot())
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1)
    assert ax.get_ylabel() == "share of the rows"
    assert "place is 2 columns (lat, lon) without a common axis" in caption(ax)
    assert any(np.all(np.equal(line.get_xdata(), shown.sfimp)) for line in ax.lines)


@pytest.mark.parametrize(
    "shown",
    [
        curve([3.0], [1.2]),
        curve([np.nan], [1.2]),
        curve(np.append(np.arange(40.0), np.inf), np.arange(41)),
        curve(words("only"), [0.0], ordered=False),
        curve([[1.0, 2.0]], [0.5], columns=("a", "b")),
        noisy(scale=1e-7),
        noisy(scale=1e9),
        noisy(name="$x_1$ and _more_"),
        curve(np.arange(50), np.zeros(50)),
    ],
    ids=["one", "missing", "infinite", "word", "group", "tiny", "huge", "name", "zero"],
)
def test_odd_curves_draw(shown):
    looked_at(shown.plot())
    looked_at(shown.plot(ax=plt.subplots(2, 2, layout="constrained")[1][0, 0]))


def test_a_running_mean_respects_weights():
    """A value that a hundred rows hold counts as these rows would one by one."""
    rng = np.random.default_rng(0)
    at, values = np.arange(30.0), rng.normal(size=30)
    times = rng.integers(1, 100, 30)
    expected = running_mean(np.repeat(at, times), np.repeat(values, times), np.ones(times.sum()))
    np.testing.assert_allclose(running_mean(at, values, times.astype(float)), expected)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_a_running_mean_stays_between_the_values(values):
    values = np.array(values)
    at, means = running_mean(np.arange(len(values)) * 1.0, values, np.ones(len(values)))
    assert values.min() - 1e-6 <= means.min() <= means.max() <= values.max() + 1e-6
    assert np.all(np.diff(at) >= -1e-9)


# -- all of them ------------------------------------------------------------------------------------------------------


PICTURES = [importance, noisy, interactions, effect, lambda **asked: effect(20, **asked)]


@pytest.mark.parametrize("make", PICTURES)
def test_pictures_draw_in_the_users_axes(make):
    for size in ((1.5, 1.5), (2, 4), (12, 1.2), (5, 3)):
        figure = plt.figure(figsize=size)
        ax = figure.add_subplot()
        assert make().plot(ax=ax) is ax
        looked_at(ax)
        assert tuple(figure.get_size_inches()) == size
    part = plt.figure(layout="constrained").subfigures(1, 2)[0]
    make().plot(ax=part.add_subplot())
    part.figure.canvas.draw()


@pytest.mark.parametrize("make", PICTURES)
def test_numbers_of_all_sizes_draw(make):
    for scale in (0.0, 1e-12, 1e-7, 1e5, 1e9, 1e15):
        looked_at(make(scale=scale).plot())
        plt.close("all")


@pytest.mark.parametrize("name", ["größe", "$x_1$", "100 % of $", "_hidden", "a\nb"])
def test_names_are_text_and_nothing_else(name):
    def numbered(j):
        return f"{name}{'' if j == 0 else j}"

    wanted = " ".join(name.split())
    assert wanted in texts(looked_at(importance(name=numbered).plot()).get_yticklabels())
    assert looked_at(noisy(name=name).plot()).get_xlabel() == wanted
    assert wanted in texts(looked_at(interactions(name=numbered).plot()).get_xticklabels())
    for rows in (1, 9):
        shown = texts(looked_at(effect(rows, name=numbered).plot()).get_yticklabels())
        assert any(text.startswith(f"{wanted} ") for text in shown)


def test_methods_of_results_draw():
    ax = plt.figure().add_subplot()
    result = importance()
    assert result.plot(ax) is ax
    assert result.curve("x1").plot().get_xlabel() == "x1"
    assert result.curve("x1", by="donor").plot().get_xlabel() == "x1"
    assert len(interactions().plot().get_yticklabels()) == 3
    assert effect().plot().get_xlabel() == "prediction"


@settings(max_examples=6)
@given(
    p=st.integers(1, 6),
    rows=st.integers(1, 5),
    scale=st.sampled_from([0.0, 1e-8, 1.0, 1e8]),
    name=st.text(st.characters(codec="latin-1", exclude_categories=["C"]), min_size=1, max_size=80),
)
def test_odd_shapes_draw(p, rows, scale, name):
    def numbered(j):
        return f"{name}{j}"

    looked_at(importance(p, scale=scale, name=numbered).plot())
    looked_at(interactions(p, scale=scale, name=numbered).plot())
    looked_at(effect(rows, p, scale=scale, name=numbered).plot())
    looked_at(noisy(5 * rows, scale=scale, name=name).plot())
    plt.close("all")
