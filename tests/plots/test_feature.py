"""What is drawn, as data and artists. `looked_at` draws each picture in full: a warning there is an error here."""

import datetime as dt
import re
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import dates
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, PathCollection, QuadMesh
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer

import losslens as ll
from losslens.plots.bars import plot_ranking
from losslens.plots.canvas import BLUE, GREEN, SINGLE, VERMILLION
from losslens.plots.feature import plot_effect, plot_importance
from losslens.plots.feature_data import MOST_CURVES
from losslens.plots.scale import MOST_DATES
from losslens.results.feature import take_rows
from pictures import caption, legend, looked_at, texts

N = 60


@pytest.fixture(autouse=True)
def _clean_desk():
    before = dict(mpl.rcParams)
    yield
    assert dict(mpl.rcParams) == before  # no plot changes the user's style
    plt.close("all")


@pytest.fixture(scope="module", name="X")
def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 3))


@pytest.fixture(scope="module")
def imp(X):
    return explain(X)


def model(X):
    return X[:, 0] ** 2 * (1 + X[:, 1]) + X[:, 1]


def explain(X, noise=0.5, **asked):
    y = model(X) + np.random.default_rng(1).normal(scale=noise, size=len(X))
    return ll.feature_importance(model, X, y, loss="squared_error", random_state=0, **asked)


def explain_column(values, score, **asked):
    """One column of any type and a partner; `score` turns the column into numbers."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"z": values, "w": rng.normal(size=len(values))})

    def predict(table):
        return score(table["z"]) * (1 + table["w"].to_numpy())

    y = predict(table) + rng.normal(scale=0.1, size=len(table))
    asked = {"features": ["z"], "random_state": 0} | asked
    return ll.feature_importance(predict, table, y, loss="squared_error", **asked)["z"]


def named(ax, start):
    """The line or collection whose label starts so."""
    (found,) = [a for a in [*ax.lines, *ax.collections, *ax.patches] if str(a.get_label()).startswith(start)]
    return found


def no_overlap(texts):
    boxes = sorted((t.get_window_extent() for t in texts if t.get_text()), key=lambda box: box.y0)
    return all(below.y1 <= above.y0 for below, above in pairwise(boxes))


def apart(ax):
    """How many labels of the x axis there are; no two of them touch."""
    low, high = sorted(ax.get_xlim())
    ticks = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    ends = sorted(tuple(label.get_window_extent().intervalx) for tick, label in ticks if low <= tick <= high)
    assert all(left[1] < right[0] for left, right in pairwise(ends))
    return len(ends)


def inside(ax, artist):
    box, page = artist.get_window_extent(), ax.figure.bbox
    return box.x0 >= -1 and box.y0 >= -1 and box.x1 <= page.x1 + 1 and box.y1 <= page.y1 + 1


# -- the ranking ------------------------------------------------------------------------------------------------------


def test_the_ranking_is_sorted_and_its_bars_are_the_importances(imp):
    ax = looked_at(plot_ranking(imp))
    order = sorted(imp, key=lambda name: -imp[name].pfi)
    assert texts(ax.get_yticklabels()) == order
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, [imp[name].pfi for name in order])
    assert ax.yaxis_inverted()  # the first is on top
    assert ax.get_xlabel() == "increase in squared error"


def test_the_ranking_shows_intervals_and_the_base_error(imp):
    ax = plot_ranking(imp)
    (lines,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    ends = [segment[:, 0] for segment in lines.get_segments()]
    order = sorted(imp, key=lambda name: -imp[name].pfi)
    np.testing.assert_allclose(ends, [imp[name].interval() for name in order])
    assert f"error with nothing replaced: {imp.error:.3g}" in caption(ax)
    assert "95% intervals" in caption(ax)


def test_the_ratio_starts_at_one_and_has_its_own_interval(imp):
    ax = looked_at(plot_ranking(imp, ratio=True))
    ends = sorted((bar.get_x() + bar.get_width() for bar in ax.patches), reverse=True)
    np.testing.assert_allclose(ends, sorted((f.ratio for f in imp.values()), reverse=True))
    drawn = sorted(ax.collections[0].get_segments(), key=lambda line: -line[0, 0])
    expected = sorted((f.ratio_interval() for f in imp.values()), key=lambda ends: -ends[0])
    np.testing.assert_allclose([line[:, 0] for line in drawn], expected)
    assert "95% intervals" in caption(ax)


def test_features_without_a_number_are_left_out(X):
    imp = explain(X, features=["x0", ("x0", "x1")], donors="auto")
    ax = looked_at(plot_ranking(imp))
    assert texts(ax.get_yticklabels()) == ["x0"]
    assert "1 feature without a number left out" in caption(ax)


def test_a_ranking_of_nothing_says_why(X):
    imp = explain(X, features=[("x0", "x1")])
    with pytest.raises(ValueError, match="none of the features has a number"):
        plot_ranking(imp)


def test_a_ranking_without_intervals_draws(X):
    ax = looked_at(plot_ranking(explain(X, donors=ll.Permutations(1))))
    assert "interval" not in caption(ax)


def wide(p, name="feature {}".format):
    X = np.random.default_rng(0).normal(size=(20, p))
    weights = 0.9 ** np.arange(p)
    table = pd.DataFrame(X, columns=[name(j) for j in range(p)])
    y = X @ weights
    return ll.feature_importance(lambda t: t.to_numpy() @ weights, table, y + 0.1, loss="squared_error")


LONG = "the share of {} among all households of the municipality, in percent, as counted in the census".format
SAME_ENDS = "a name that is the same at its beginning, only number {} differs, and the same at its end".format


@pytest.mark.parametrize("p", [1, 2, 20, 40])
@pytest.mark.parametrize("name", ["x{}".format, LONG, SAME_ENDS])
def test_labels_never_overlap_and_stay_on_the_page(p, name):
    ax = looked_at(plot_ranking(wide(p, name)))
    shown = ax.get_yticklabels()
    assert len(shown) == len(set(texts(shown))) == p
    assert no_overlap(shown)
    assert all(inside(ax, text) for text in [*shown, *ax.texts, ax.xaxis.label])


def test_the_numbers_stand_inside_the_axes(imp):
    for ax in (plot_ranking(imp), plot_ranking(imp, ax=plt.subplots(1, 3)[1][0]), plot_ranking(wide(20, LONG))):
        looked_at(ax)
        numbers = [text for text in ax.texts if text.get_gid() != "caption"]
        assert numbers
        assert all(text.get_window_extent().x1 <= ax.get_window_extent().x1 + 2 for text in numbers)


def test_two_hundred_features_show_the_first_and_say_so():
    imp = wide(200)
    ax = looked_at(plot_ranking(imp))
    assert texts(ax.get_yticklabels()) == sorted(imp, key=lambda name: -imp[name].pfi)[:40]
    assert "160 less important features not shown" in caption(ax)
    assert no_overlap(ax.get_yticklabels())


def test_axes_of_the_users_own_keep_their_size_and_hold_what_fits():
    figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
    assert plot_ranking(wide(40), ax=ax) is ax
    assert tuple(figure.get_size_inches()) == (5, 3)
    looked_at(ax)
    shown = ax.get_yticklabels()
    assert 3 <= len(shown) < 40
    assert no_overlap(shown)
    assert f"{40 - len(shown)} less important features not shown" in caption(ax)


@pytest.mark.parametrize("size", [(1.5, 1.5), (2, 4), (12, 1.2)])
def test_the_ranking_draws_in_small_figures(size):
    looked_at(plot_ranking(wide(12, LONG), ax=plt.figure(figsize=size).add_subplot()))


@pytest.mark.parametrize(
    "name", ["größe", "µ_σ²", "température °C", "Возраст", "$x_1$", "100 % of $", "_hidden", "a\nb"]
)
def test_names_are_text_and_nothing_else(name):
    """Matplotlib reads $...$ as a formula and leaves names that begin with _ out of legends."""
    imp = wide(3, lambda j: f"{name}{'' if j == 0 else j}")
    assert " ".join(name.split()) in texts(looked_at(plot_ranking(imp)).get_yticklabels())
    ax = looked_at(plot_importance(imp[name]))
    assert ax.get_xlabel() == " ".join(name.split())
    assert any(text.startswith("distribution") for text in legend(ax))


def test_numbers_of_all_sizes_draw(X):
    for factor in (1e-9, 1e-3, 1e5, 1e12):
        y = model(X) * factor
        imp = ll.feature_importance(lambda X, f=factor: model(X) * f * 1.1, X, y, loss="squared_error")
        looked_at(plot_ranking(imp))
        looked_at(plot_importance(imp["x0"]))
        plt.close("all")


def test_negative_importances_draw(X):
    y = -model(X)
    ax = looked_at(plot_ranking(ll.feature_importance(model, X, y, loss="squared_error")))
    assert min(bar.get_width() for bar in ax.patches) < 0
    assert ax.get_xlim()[0] < min(bar.get_width() for bar in ax.patches)


# -- one feature: curves ----------------------------------------------------------------------------------------------


def test_curves_of_an_importance(imp):
    one = imp["x0"]
    ax = looked_at(plot_importance(one))
    pi = named(ax, "PI")
    np.testing.assert_array_equal(pi.get_xdata(), one.grid)
    np.testing.assert_array_equal(pi.get_ydata(), one.pi)
    assert pi.get_color() == BLUE
    assert ax.get_xlabel() == "x0"
    assert ax.get_ylabel() == "increase in squared error"


def test_the_pfi_is_a_horizontal_line(imp):
    ax = plot_importance(imp["x0"])
    np.testing.assert_array_equal(named(ax, "PFI").get_ydata(), imp["x0"].pfi)
    zero = [line for line in ax.lines if np.all(np.equal(line.get_ydata(), 0.0)) and len(line.get_xdata()) == 2]
    assert zero


def test_all_curves_of_few_rows_are_drawn(imp):
    ax = plot_importance(imp["x0"])
    curves = named(ax, "ICI")
    assert curves.get_rasterized()
    drawn = np.array([segment[:, 1] for segment in curves.get_segments()])
    np.testing.assert_array_equal(drawn[np.argsort(drawn[:, 0])], imp["x0"].ici[np.argsort(imp["x0"].ici[:, 0])])
    assert f"ICI, {N} rows" in legend(ax)


def test_the_two_extreme_rows_are_highlighted_and_named(imp):
    one = imp["x0"]
    ax = plot_importance(one)
    for row, place, colour in ((one.local.argmax(), "largest", VERMILLION), (one.local.argmin(), "smallest", GREEN)):
        line = named(ax, f"row {row}: {place} local importance")
        np.testing.assert_array_equal(line.get_ydata(), one.ici[row])
        assert line.get_color() == colour


def test_rows_keep_their_names_in_a_part_of_the_data(imp):
    rows = np.arange(20, 40)
    part = imp["x0"].given(rows)
    ax = plot_importance(part)
    assert any(name.startswith(f"row {20 + part.local.argmax()}: largest") for name in legend(ax))
    assert "ICI, 20 rows" in legend(ax)


def test_many_rows_are_thinned_and_the_extremes_stay():
    X = np.random.default_rng(3).normal(size=(500, 2))
    one = explain(X, features=["x0"], donors=ll.Grid(20))["x0"]
    ax = plot_importance(one)
    assert f"ICI, {MOST_CURVES} of 500 rows" in legend(ax)
    drawn = [tuple(segment[:, 1]) for segment in named(ax, "ICI").get_segments()]
    assert len(drawn) == MOST_CURVES
    assert tuple(one.ici[one.local.argmax()]) in drawn
    assert tuple(one.ici[one.local.argmin()]) in drawn


def test_the_axis_is_cut_for_far_rows_and_says_so(X):
    X = X.copy()
    y = model(X)
    y[7] += 500
    one = ll.feature_importance(model, X, y, loss="squared_error")["x0"]
    ax = looked_at(plot_importance(one))
    low, high = ax.get_ylim()
    assert low < one.pi.min() < one.pi.max() < high < one.ici.max()
    span = max(one.pi.max(), 0) - min(one.pi.min(), 0)
    assert span > (high - low) / 12  # the mean is no flat line
    out = np.sum((one.ici > high).any(axis=1) | (one.ici < low).any(axis=1))
    said = re.search(rf"the axis is cut: (\d+) of {N} curves", caption(ax))
    assert int(said[1]) >= out >= 1


def test_nothing_is_cut_where_rows_are_near(imp):
    # A feature that acts alike on all rows.
    X = np.random.default_rng(0).normal(size=(50, 2))
    one = ll.feature_importance(lambda X: X[:, 0], X, 0 * X[:, 0], loss="absolute_error")["x0"]
    ax = looked_at(plot_importance(one))
    assert caption(ax) == ""
    assert ax.get_ylim()[0] < one.ici.min()
    assert ax.get_ylim()[1] > one.ici.max()


def test_curves_stay_clear_of_the_legend(imp):
    ax = looked_at(plot_importance(imp["x0"]))
    bottom = ax.get_legend().get_window_extent().y0
    for artist in [*ax.lines, *ax.collections]:
        if artist.get_gid() == SINGLE:
            assert artist.get_clip_box().y1 <= bottom + 6
    top = ax.transData.transform((0, imp["x0"].pi.max()))[1]
    assert top < bottom


def test_the_strip_holds_the_distribution():
    X = np.random.default_rng(0).integers(0, 4, size=(N, 2)).astype(float)
    one = explain(X)["x0"]
    ax = plot_importance(one)
    heights = np.array([segment[1, 1] for segment in named(ax, "distribution").get_segments()])
    np.testing.assert_allclose(heights / heights.sum(), one.weights)


def test_integers_have_ticks_at_integers():
    X = np.random.default_rng(0).integers(0, 4, size=(N, 2))
    ax = looked_at(plot_importance(explain(X)["x0"]))
    assert all(float(tick).is_integer() for tick in ax.get_xticks())
    assert named(ax, "PI").get_marker() == "o"  # few values are marked


def test_effects_draw_the_same_way(imp):
    effect = imp["x0"].effect
    ax = looked_at(plot_effect(effect))
    np.testing.assert_array_equal(named(ax, "PD").get_ydata(), effect.pd)
    assert len(named(ax, "ICE").get_segments()) == N
    assert ax.get_ylabel() == "prediction"
    assert not any(name.startswith("PFI") for name in legend(ax))
    highest = (effect.ice @ effect.weights).argmax()
    np.testing.assert_array_equal(named(ax, f"row {highest}: largest mean").get_ydata(), effect.ice[highest])


def test_effects_far_from_zero_fill_their_axis(X):
    effect = ll.feature_effect(lambda X: 25_000 + 1000 * X[:, 0], X)["x0"]
    low, high = looked_at(plot_effect(effect)).get_ylim()
    assert low > 15_000
    assert np.ptp(effect.ice) > 0.5 * (high - low)


def test_an_effect_on_a_class_names_it(X):
    classifier = LogisticRegression().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    effect = ll.feature_effect(classifier, X)["x0"]
    assert looked_at(plot_effect(effect)).get_ylabel() == "prediction for class yes"


def test_methods_of_results_draw(imp):
    ax = plt.figure().add_subplot()
    assert imp["x0"].plot(ax) is ax
    assert imp["x0"].effect.plot().get_ylabel() == "prediction"
    assert texts(imp.plot().get_yticklabels())[0] == max(imp, key=lambda name: imp[name].pfi)


# -- one feature: designs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", [ll.Permutations(4), ll.Latin(4), ll.Derangements(4)])
def test_estimates_from_donors_of_each_row_are_points(X, design):
    one = explain(X, features=["x0"], donors=design)["x0"]
    ax = looked_at(plot_importance(one))
    (points,) = [c for c in ax.collections if isinstance(c, PathCollection)]
    met = np.isfinite(one.pi)
    np.testing.assert_allclose(points.get_offsets(), np.column_stack((one.grid[met], one.pi[met])))
    assert not [c for c in ax.collections if isinstance(c, LineCollection) and c.get_gid() == SINGLE]
    assert "points, not curves" in caption(ax)
    assert len(named(ax, "ICI").get_xdata()) == N * 4
    row = one.local.argmax()
    np.testing.assert_allclose(
        np.sort(named(ax, f"row {row}").get_ydata()), np.sort(one.ici[row][~np.isnan(one.ici[row])])
    )


def test_points_are_sized_by_weight():
    X = np.random.default_rng(0).integers(0, 3, size=(N, 2)).astype(float) ** 2
    one = explain(X, features=["x0"], donors=ll.Permutations(4))["x0"]
    (points,) = [c for c in plot_importance(one).collections if isinstance(c, PathCollection)]
    sizes = points.get_sizes()
    np.testing.assert_array_equal(np.argsort(sizes), np.argsort(one.weights))


def test_rank_bins_are_a_marked_line(X):
    one = explain(X, features=["x0"], donors=ll.Systematic(8))["x0"]
    pi = named(looked_at(plot_importance(one)), "PI")
    np.testing.assert_array_equal(pi.get_xdata(), one.grid)
    assert pi.get_marker() == "o"
    assert pi.get_linestyle() == "-"


def test_values_of_the_users_own_have_no_pfi_and_no_distribution(X):
    one = explain(X, features=["x0"], donors=ll.Grid(values=[-1.0, 0.0, 2.0]))["x0"]
    ax = looked_at(plot_importance(one))
    assert not any(name.startswith(("PFI", "distribution")) for name in legend(ax))
    assert any("largest mean over the grid" in name for name in legend(ax))
    np.testing.assert_array_equal(named(ax, "PI").get_ydata(), one.pi)


@pytest.mark.parametrize(
    "design",
    [ll.All(), ll.Derangements(), ll.Grid(5), ll.Grid(5, at="quantiles"), ll.Systematic(4), ll.Latin(2)],
)
def test_every_design_draws(X, design):
    for one in explain(X, donors=design).values():
        looked_at(plot_importance(one))
        looked_at(plot_effect(one.effect))
        plt.close("all")


def test_streamed_results_say_how_many_rows_they_keep():
    X = np.random.default_rng(3).normal(size=(400, 2))
    imp = explain(X, features=["x0", "x1"], donors="all", memory="2 MiB")
    one = imp["x0"]
    assert not one.complete
    ax = looked_at(plot_importance(one))
    assert f"ICI, {min(len(one.rows), MOST_CURVES)} of 400 rows" in legend(ax)
    kept = one.rows[one.local[one.rows].argmax()]
    assert any(name.startswith(f"row {kept}: largest kept local importance") for name in legend(ax))
    looked_at(plot_effect(one.effect))
    looked_at(plot_ranking(imp))


def test_a_streamed_part_draws():
    X = np.random.default_rng(3).normal(size=(400, 2))
    one = explain(X, features=["x0"], donors="all", memory="1 MiB")["x0"].given(np.arange(100, 400))
    ax = looked_at(plot_importance(one))
    best = one.cells.rows[one.local[np.searchsorted(one.at, one.cells.rows)].argmax()]
    assert any(name.startswith(f"row {best}: largest") for name in legend(ax))


def test_a_result_that_keeps_no_row_draws(X):
    for name, one in (("x0", explain(X)["x0"]), ("z", explain_column(words(ordered=False), word_length))):
        bare = replace(one, cells=take_rows(one.cells, np.empty(0, np.intp)))
        assert bare.name == name
        ax = looked_at(plot_importance(bare))
        assert not any(name.startswith("ICI") for name in legend(ax))
        looked_at(plot_effect(bare.effect))


def test_one_row_draws(imp):
    for name in imp:
        ax = looked_at(plot_importance(imp[name].given([3])))
        assert "ICI, 1 row" in legend(ax)
        assert not any(name.startswith("row") for name in legend(ax))
        looked_at(plot_effect(imp[name].given([3]).effect))


def test_two_rows_of_data_draw(X):
    imp = explain(X[:2])
    looked_at(plot_ranking(imp))
    for one in imp.values():
        looked_at(plot_importance(one))


def test_weighted_rows_draw(X):
    imp = explain(X, sample_weight=np.arange(N) % 3)
    looked_at(plot_ranking(imp))
    looked_at(plot_importance(imp["x0"]))


def test_a_constant_feature_draws():
    one = explain_column(np.full(N, 3), lambda z: z.to_numpy(float))
    ax = looked_at(plot_importance(one))
    assert "PFI, 0" in legend(ax)
    assert not any(name.startswith("row") for name in legend(ax))
    assert named(ax, "PI").get_marker() == "o"


# -- one feature: types -----------------------------------------------------------------------------------------------


def days(n, missing=False):
    values = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n) * 11, "D"))
    return values.mask(np.arange(n) % 7 == 0) if missing else values


def test_dates_have_a_date_axis():
    one = explain_column(days(N), lambda z: z.dt.month.to_numpy(float))
    ax = looked_at(plot_importance(one))
    assert isinstance(ax.xaxis.get_major_formatter(), dates.ConciseDateFormatter)
    np.testing.assert_array_equal(named(ax, "PI").get_xdata(), dates.date2num(one.grid))
    assert any(text.startswith("20") for text in texts(ax.get_xticklabels()))


@pytest.mark.parametrize("size", [(3, 2.5), (6.4, 4.8)])
@pytest.mark.parametrize("days", [0.2, 1, 9, 40, 100, 400, 1500, 4000, 20000])
def test_ticks_of_dates_stand_apart(days, size):
    start = np.datetime64("2021-03-04T05:06:07", "s")
    values = start + (np.linspace(0, 86400 * days, N)).astype("timedelta64[s]")
    ax = plt.subplots(figsize=size, layout="constrained")[1]
    plot_effect(explain_column(values, lambda z: z.rank().to_numpy()).effect, ax=ax)
    assert 2 <= apart(looked_at(ax)) <= MOST_DATES


@pytest.mark.parametrize("size", [(3, 2.5), (6.4, 4.8)])
@pytest.mark.parametrize("ends", [(0, 1), (0, 0.001), (-3, 3), (0.5, 0.5001), (1e5, 2e5), (0, 3e9), (1990, 2021)])
def test_ticks_of_numbers_stand_apart(ends, size):
    values = np.linspace(*ends, N)
    for some in (values, values.round()) if np.ptp(values) > 2 else (values,):
        ax = plt.subplots(figsize=size, layout="constrained")[1]
        plot_effect(explain_column(some, lambda z: z.rank().to_numpy()).effect, ax=ax)
        assert apart(looked_at(ax)) >= 2


def test_spans_of_time_name_their_unit():
    one = explain_column(pd.Series(pd.to_timedelta(np.arange(N) * 20, "min")), lambda z: z.dt.seconds.to_numpy(float))
    assert looked_at(plot_importance(one)).get_xlabel() == "z (hours)"


@pytest.mark.parametrize("missing_dates", [True, False])
def test_a_missing_value_is_a_point_at_the_right(missing_dates):
    values = days(N, missing=True) if missing_dates else pd.Series(np.arange(N) % 9.0).mask(np.arange(N) % 7 == 0)
    score = (lambda z: z.dt.month.fillna(20).to_numpy(float)) if missing_dates else lambda z: z.fillna(20).to_numpy()
    one = explain_column(values, score)
    ax = looked_at(plot_importance(one))
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
    looked_at(plot_importance(one))


WORDS = ["rarely", "often", "sometimes", "always, on every single day of the year without any exception"]


def words(ordered, missing=False):
    chosen = pd.Series(np.array(WORDS)[np.arange(N) ** 2 % 7 % 4])
    if missing:
        chosen = chosen.mask(np.arange(N) % 5 == 0)
    return chosen.astype(pd.CategoricalDtype(WORDS, ordered=True)) if ordered else chosen.astype(object)


def word_length(z):
    return z.astype(object).fillna("nobody knows").str.len().to_numpy(float)


def test_words_without_order_are_dots_sorted_by_importance():
    one = explain_column(words(ordered=False), word_length)
    ax = looked_at(plot_importance(one))
    (dots,) = [c for c in ax.collections if isinstance(c, PathCollection)]
    order = np.argsort(-one.pi)
    np.testing.assert_allclose(dots.get_offsets(), np.column_stack((one.pi[order], np.arange(len(order)))))
    shown = texts(ax.get_yticklabels())
    assert [text.split(" (")[0][:6] for text in shown] == [one.grid[k][:6] for k in order]
    assert shown[0].endswith(f"({one.weights[order[0]]:.0%})")
    assert ax.get_xlabel() == "increase in squared error"
    assert ax.get_ylabel() == "z"
    np.testing.assert_array_equal(named(ax, "PFI").get_xdata(), one.pfi)


def test_ranges_of_words_are_quantiles_of_the_rows():
    one = explain_column(words(ordered=False), word_length)
    order = np.argsort(-one.pi)
    for share, name in ((0.05, "ICI, 90%"), (0.25, "ICI, 50%")):
        ends = [segment[:, 0] for segment in named(plot_importance(one), name).get_segments()]
        wanted = np.quantile(one.ici[:, order], [share, 1 - share], axis=0, method="inverted_cdf").T
        np.testing.assert_allclose(ends, wanted)


def test_ordered_words_are_a_line_over_their_names():
    one = explain_column(words(ordered=True), word_length)
    ax = looked_at(plot_importance(one))
    np.testing.assert_array_equal(named(ax, "PI").get_ydata(), one.pi)
    shown = texts(ax.get_xticklabels())
    assert shown[:2] == ["rarely", "often"]
    assert len(shown) == len(one.grid)


def test_truth_values_are_dots_in_their_order():
    one = explain_column(pd.Series(np.arange(N) % 3 == 0), lambda z: z.to_numpy(float))
    assert [text[:5] for text in texts(looked_at(plot_importance(one)).get_yticklabels())] == ["False", "True "]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("design", ["all", ll.Permutations(3), ll.Systematic(3), ll.Grid(6)])
def test_words_with_a_missing_one_draw(ordered, design):
    one = explain_column(words(ordered, missing=True), word_length, donors=design)
    ax = looked_at(plot_importance(one))
    names = texts(ax.get_xticklabels() if ordered else ax.get_yticklabels())
    if design == "all":
        assert names[-1].startswith("missing")
    looked_at(plot_effect(one.effect))


def test_a_category_called_missing_is_not_missing():
    one = explain_column(pd.Series(["missing", "there"] * 30, dtype=object), lambda z: (z == "missing").to_numpy(float))
    looked_at(plot_importance(one))


def test_many_categories_show_the_frequent_ones():
    values = pd.Series([f"word {k % 90 if k < 180 else 5}" for k in range(200)], dtype=object)
    one = explain_column(values, lambda z: z.str.len().to_numpy(float))
    ax = looked_at(plot_importance(one))
    assert len(ax.get_yticklabels()) == 40
    assert any(text.startswith("word 5 (") for text in texts(ax.get_yticklabels()))
    assert "the 40 most frequent of 90 values" in caption(ax)
    assert no_overlap(ax.get_yticklabels())
    small = plt.subplots(figsize=(4, 3), layout="constrained")[1]
    assert len(looked_at(plot_importance(one, ax=small)).get_yticklabels()) < 15


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

    def predict(table):
        return table["z"].rank("dense").fill_null(0).to_numpy() * (1.0 + table["w"].to_numpy())

    imp = ll.feature_importance(predict, table, predict(table), loss="absolute_error", features=["z", ("z", "w")])
    looked_at(plot_importance(imp["z"]))
    looked_at(plot_importance(imp["z", "w"]))
    looked_at(plot_effect(imp["z"].effect))


# -- groups, pairs, scores --------------------------------------------------------------------------------------------


def test_a_group_shows_its_local_importances(X):
    one = explain(X, features={"both": ["x0", "x1"]})["both"]
    ax = looked_at(plot_importance(one))
    assert sum(bar.get_height() for bar in ax.patches) == N
    assert ax.get_ylabel() == "rows"
    assert "both is 2 columns (x0, x1) without a common axis" in caption(ax)
    np.testing.assert_array_equal(named(ax, "PFI").get_xdata(), one.pfi)
    assert any(name.startswith(f"row {one.local.argmax()}: largest") for name in legend(ax))


@pytest.mark.parametrize("design", ["all", ll.Latin(3), ll.Grid(5)])
def test_groups_draw_under_every_design(X, design):
    one = explain(X, features={"both": ["x0", "x1"]}, donors=design)["both"]
    looked_at(plot_importance(one.given([1])))
    ax = looked_at(plot_effect(one.effect))
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1)
    assert "the values of its PD" in caption(ax)


def test_a_pair_is_a_heat_map(X):
    one = explain(X, features=[("x0", "x1")])["x0", "x1"]
    ax = looked_at(plot_importance(one))
    (mesh,) = [some for some in ax.collections if isinstance(some, QuadMesh)]
    np.testing.assert_array_equal(mesh.get_array(), one.pi.T)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "x1")
    assert mesh.colorbar.ax.get_ylabel() == "increase in squared error"
    assert no_overlap(ax.get_yticklabels())
    assert looked_at(plot_effect(one.effect)).collections[0].colorbar.ax.get_ylabel() == "prediction"


def test_colours_part_at_zero_where_the_map_has_both_signs(X):
    one = ll.feature_importance(model, X, -model(X), loss="squared_error", features=[("x0", "x1")])["x0", "x1"]
    assert one.pi.min() < 0 < one.pi.max()
    low, high = looked_at(plot_importance(one)).collections[0].get_clim()
    assert low == -high


def test_a_pair_of_words_draws():
    table = pd.DataFrame({"a": words(ordered=False, missing=True), "b": words(ordered=True)})

    def predict(table):
        return word_length(table["a"]) * word_length(table["b"])

    one = ll.feature_importance(predict, table, predict(table) + 1, loss="squared_error", features=[("a", "b")])[
        "a", "b"
    ]
    ax = looked_at(plot_importance(one))
    assert "missing" in texts(ax.get_xticklabels())


@pytest.mark.parametrize("features", [None, {"both": ["x0", "x1"]}])
def test_scores_draw_their_curve_alone(X, features):
    regressor = LinearRegression().fit(X, X[:, 0])
    scores = ll.feature_importance(
        regressor, X, X[:, 0], loss=get_scorer("r2"), donors="all", features=features, random_state=0
    )
    ax = looked_at(plot_ranking(scores))
    assert ax.get_xlabel() == "decrease in r2_score"
    assert "score with nothing replaced: 1.00" in caption(ax)
    for one in scores.values():
        ax = looked_at(plot_importance(one))
        assert "decrease in r2_score" in (ax.get_ylabel(), ax.get_xlabel())
    if features is None:
        np.testing.assert_array_equal(named(plot_importance(scores["x0"]), "PI").get_ydata(), scores["x0"].pi)
        assert [name.split()[0] for name in legend(plot_importance(scores["x0"]))] == ["PI", "distribution"]


def test_a_score_without_a_curve_says_why(X):
    regressor = LinearRegression().fit(X, X[:, 0])
    scores = ll.feature_importance(regressor, X, X[:, 0], loss=get_scorer("r2"), donors=ll.Latin(3))
    with pytest.raises(ValueError, match="no PI curve"):
        plot_importance(scores["x0"])


def test_saved_results_draw(imp, tmp_path):
    imp.save(tmp_path / "r.losslens")
    back = ll.load(tmp_path / "r.losslens")
    assert legend(plot_importance(back["x0"])) == legend(plot_importance(imp["x0"]))


# -- the user's axes and odd shapes -----------------------------------------------------------------------------------


def test_pictures_draw_side_by_side_and_one_over_the_other(imp):
    axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")[1]
    plot_ranking(imp, ax=axes[0])
    plot_importance(imp["x0"], ax=axes[1])
    plot_effect(imp["x0"].effect, ax=axes[2])
    for part in imp["x0"].by(np.arange(N) % 2).values():
        plot_importance(part, ax=axes[1])
    for ax in axes:
        looked_at(ax)
    assert len(plt.get_fignums()) == 1


def test_subfigures_are_figures(imp):
    part = plt.figure(layout="constrained").subfigures(1, 2)[0]
    for draw, result in ((plot_ranking, imp), (plot_importance, imp["x0"])):
        ax = part.add_subplot()
        draw(result, ax=ax)
        part.figure.canvas.draw()
    pair = explain(np.eye(4), features=[("x0", "x1")])["x0", "x1"]
    plot_importance(pair, ax=part.add_subplot())
    part.figure.canvas.draw()


def test_pdf_and_svg_can_be_written(imp, tmp_path):
    for kind in ("pdf", "svg"):
        plot_importance(imp["x0"]).figure.savefig(tmp_path / f"x.{kind}")


@settings(max_examples=6)
@given(
    n=st.integers(2, 12),
    p=st.integers(1, 3),
    values=st.sampled_from([1, 2, 5, 1000]),
    scale=st.sampled_from([0.0, 1e-8, 1.0, 1e8]),
    name=st.text(st.characters(codec="latin-1", exclude_categories=["C"]), min_size=1, max_size=80),
)
def test_odd_shapes_draw(n, p, values, scale, name):
    rng = np.random.default_rng(n)
    X = pd.DataFrame(rng.integers(0, values, size=(n, p)), columns=[f"{name}{j}" for j in range(p)])
    imp = ll.feature_importance(lambda X: scale * X.to_numpy(float)[:, 0], X, np.ones(n), loss="squared_error")
    looked_at(plot_ranking(imp))
    for one in imp.values():
        looked_at(plot_importance(one))
        looked_at(plot_effect(one.effect))
    plt.close("all")
