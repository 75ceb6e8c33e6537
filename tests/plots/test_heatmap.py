"""Two features on a product grid: where the observed rows lie, as data, as points and as hatches."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer

import losslens as ll
from losslens.plots.heatmap import EMPTY, MOST_POINTS, OBSERVED, SPREAD, empty_cells, reach
from losslens.results import Importances
from pictures import caption, looked_at, texts

N = 80


def explain(first, second, donors="all", **asked):
    """A pair of columns of any type; the model sees their ranks among all rows."""
    X = pd.DataFrame({"a": first, "b": second})
    ranks = {name: dict(zip(X[name], pd.to_numeric(X[name].rank(method="dense")), strict=True)) for name in X}

    def predict(X):
        return sum(np.array([0 if pd.isna(v) else ranks[name].get(v, 0) for v in X[name]], float) for name in X)

    asked = {"loss": "squared_error", "random_state": 0, "progress": False} | asked
    return ll.feature_importance(predict, X, np.zeros(len(X)), features=[("a", "b")], donors=donors, **asked)["a", "b"]


def numbers(n=N, seed=0):
    rng = np.random.default_rng(seed)
    first = rng.normal(size=n)
    return first, first + 0.1 * rng.normal(size=n)


def marked(ax, gid):
    """The only artist with this mark, or none."""
    found = [artist for artist in [*ax.collections, *ax.patches] if artist.get_gid() == gid]
    assert len(found) <= 1
    return found[0] if found else None


def points(ax):
    return np.asarray(marked(ax, OBSERVED).get_offsets())


# -- where rows lie ---------------------------------------------------------------------------------------------------


def test_on_a_grid_of_all_values_each_row_lies_on_its_own():
    one = explain(*numbers())
    for axis in (0, 1):
        at = one.observed[:, axis]
        np.testing.assert_array_equal(at, at.round())
        np.testing.assert_array_equal(one.values[axis][at.astype(int)], numbers()[axis])


@pytest.mark.parametrize("dates", [False, True])
def test_between_two_grid_values_rows_lie_by_their_distance(dates):
    first, second = numbers()
    if dates:
        first = pd.Timestamp("2020-01-01") + pd.to_timedelta((first * 100).round(), unit="D")
    one = explain(first, second, ll.Grid(7))
    grid = one.values[0].astype("datetime64[ns]").astype(float) if dates else one.values[0]
    own = np.asarray(first, "datetime64[ns]").astype(float) if dates else first
    inner = (own >= grid[0]) & (own <= grid[-1])
    assert 0 < inner.sum() < N
    np.testing.assert_allclose(one.observed[inner, 0], np.interp(own[inner], grid, np.arange(len(grid))), atol=1e-6)
    assert (one.observed[own < grid[0], 0] == -0.4).all()
    assert (one.observed[own > grid[-1], 0] == len(grid) - 1 + 0.4).all()


def test_words_and_missing_values_lie_on_their_own_or_nowhere():
    words = np.resize(["p", "p", "p", "q", "q", "r"], N).astype(object)
    second = numbers()[1]
    second[::10] = np.nan
    one = explain(words, second)
    np.testing.assert_array_equal(one.values[0][one.observed[:, 0].astype(int)], words)
    assert (one.observed[::10, 1] == len(one.values[1]) - 1).all()
    few = explain(words, second, ll.Grid(2))
    on_grid = np.isin(words, few.values[0])
    assert 0 < on_grid.sum() < N
    np.testing.assert_array_equal(np.isfinite(few.observed[:, 0]), on_grid)


def test_infinite_numbers_lie_in_their_order():
    first, second = numbers()
    first[:2] = -np.inf, np.inf
    one = explain(first, second)
    assert one.observed[0, 0] == 0
    assert one.observed[1, 0] == N - 1
    assert np.isfinite(one.observed).all()


def test_rows_keep_their_places_in_parts_and_files(tmp_path):
    one = explain(*numbers(), ll.Grid(5))
    chosen = np.arange(3, 30, 2)
    np.testing.assert_array_equal(one.given(chosen).observed, one.observed[chosen])
    np.testing.assert_array_equal(one.subset(chosen).observed, one.observed[chosen])
    np.testing.assert_array_equal(one.effect.observed, one.observed)
    np.testing.assert_array_equal(one.with_loss("absolute_error").observed, one.observed)
    Importances({one.name: one}, 0).save(tmp_path / "pair.losslens")
    np.testing.assert_array_equal(ll.load(tmp_path / "pair.losslens")[one.name].observed, one.observed)


def test_a_streamed_part_has_its_rows():
    one = explain(*numbers(200), ll.Grid(12), memory="200 KiB")
    assert not one.complete
    chosen = np.arange(0, 200, 3)
    np.testing.assert_array_equal(one.given(chosen).observed, one.observed[chosen])


def test_only_pairs_have_it():
    X = np.column_stack(numbers())
    imp = ll.feature_importance(lambda X: X[:, 0], X, X[:, 1], loss="squared_error")
    assert imp["x0"].observed is None


# -- which cells are empty --------------------------------------------------------------------------------------------


def brute(rows, values):
    """Cell by cell, for grids of numbers without a missing value."""

    def rank(of, at):
        return ((of < at).sum() + (of <= at).sum()) / 2 / len(of)

    near = np.empty((2, len(rows), max(map(len, values))), bool)
    for axis in (0, 1):
        for k in range(len(values[axis])):
            for i, row in enumerate(rows[:, axis]):
                inside = abs(row - k) < 0.5
                close = abs(rank(rows[:, axis], row) - rank(rows[:, axis], k)) <= reach(len(rows)) + 1e-9
                near[axis, i, k] = inside or close
    first, second = (near[axis][:, : len(values[axis])] for axis in (0, 1))
    return ~(first[:, :, None] & second[:, None, :]).any(axis=0)


@pytest.mark.parametrize("design", ["all", ll.Grid(6)])
def test_a_cell_is_empty_where_no_row_is_near(design):
    one = explain(*numbers(60), design)
    empty = empty_cells(one.observed, one.values)
    np.testing.assert_array_equal(empty, brute(one.observed, one.values))
    assert 0 < empty.mean() < 1
    assert not empty[tuple(np.clip(one.observed.round().astype(int), 0, empty.shape[0] - 1).T)].any()


def test_whole_numbers_are_near_themselves():
    first, second = np.resize([0, 0, 1, 1, 2], 100), np.resize([0, 1, 0, 1, 0], 100)
    one = explain(first, second)
    np.testing.assert_array_equal(empty_cells(one.observed, one.values), [[False] * 2, [False] * 2, [False, True]])


@pytest.mark.parametrize(("common", "rare"), [("p", "q"), (False, True), (1.0, None)])
def test_what_has_no_neighbours_is_near_itself_alone(common, rare):
    """A rare word or missing value is few ranks away from the others, and yet nothing like them."""
    first, second = np.array([common] * N, object), numbers()[0]
    first[second.argmax()] = rare
    one = explain(first, second)
    empty = empty_cells(one.observed, one.values)
    assert not empty[0].any()
    assert empty[1, 0]
    assert not empty[1, -1]


def test_independent_features_have_hardly_an_empty_cell():
    rng = np.random.default_rng(0)
    for n in (40, 300, 3000):
        rows = rng.permuted(np.tile(np.arange(n, dtype=float)[:, None], 2), axis=0)
        assert empty_cells(rows, (np.arange(n),) * 2).mean() < (0.1 if n == 40 else 0.03)


# -- what is drawn ----------------------------------------------------------------------------------------------------


def test_points_are_the_rows_and_hatches_the_empty_cells():
    one = explain(*numbers())
    for ax in (looked_at(one.plot()), looked_at(one.effect.plot())):
        np.testing.assert_array_equal(np.unique(points(ax), axis=0), np.unique(one.observed, axis=0))
        assert marked(ax, OBSERVED).get_rasterized()
        patch = marked(ax, EMPTY)
        assert patch.get_hatch()
        a, b = np.indices(tuple(map(len, one.values)))
        inside = patch.get_path().contains_points(np.column_stack([a.ravel(), b.ravel()]))
        np.testing.assert_array_equal(inside.reshape(a.shape), empty_cells(one.observed, one.values))
        assert f"points: {N} observed rows; hatched: no observed row near (within 17% of the ranks" in caption(ax)


def test_many_rows_are_thinned_evenly_and_the_plot_says_so():
    one = explain(*numbers(2500), ll.Grid(4))
    ax = looked_at(one.plot())
    drawn = points(ax)
    assert len(drawn) == MOST_POINTS
    assert f"points: {MOST_POINTS:,} of 2,500 observed rows" in caption(ax)
    share = [(some[:, 0] < 1).mean() for some in (drawn, one.observed)]
    assert share[0] == pytest.approx(share[1], abs=0.01)


def test_rows_that_share_a_cell_are_spread_inside_it():
    one = explain(np.resize(["p", "q"], N), np.resize([1, 1, 2, 3], N))
    ax = looked_at(one.plot())
    drawn = points(ax)
    assert len(np.unique(drawn, axis=0)) == N
    assert np.abs(drawn - drawn.round()).max() <= SPREAD / 2
    assert "spread in cells" in caption(ax)
    np.testing.assert_array_equal(points(looked_at(one.plot())), drawn)  # the same each time


def test_a_part_shows_its_rows_and_what_they_leave_empty():
    one = explain(*numbers(), ll.Grid(8))
    part = one.given(one.observed[:, 0] < 3)
    ax = looked_at(part.plot())
    assert points(ax)[:, 0].max() < 3
    assert marked(ax, EMPTY) is not None
    looked_at(one.given([5]).plot())
    assert "points: 1 observed row;" in caption(one.given([5]).plot())


def test_results_that_know_no_rows_draw():
    one = replace(explain(*numbers(), ll.Grid(5)), observed=None)
    ax = looked_at(one.plot())
    assert marked(ax, OBSERVED) is None
    assert caption(ax) == f"PI; over {N} rows"
    X = np.column_stack(numbers())
    fitted = LinearRegression().fit(X, X[:, 0])
    scores = ll.feature_importance(
        fitted, X, X[:, 0], loss=get_scorer("r2"), features=[("x0", "x1")], donors=ll.Grid(4)
    )
    assert caption(looked_at(scores["x0", "x1"].plot())) == "PI"


def test_small_axes_keep_their_labels_apart_and_name_the_colours_below():
    one = explain(*numbers(), ll.Grid(20))
    figure, ax = plt.subplots(figsize=(3, 2.5), layout="constrained")
    one.plot(ax=ax)
    figure.canvas.draw()
    assert caption(ax).startswith("PI, increase in squared error; points")
    for labels, side in ((ax.get_xticklabels(), 0), (ax.get_yticklabels(), 1)):
        boxes = [label.get_window_extent() for label in labels]
        ends = sorted((box.intervalx if side == 0 else box.intervaly).tolist() for box in boxes)
        assert len(ends) > 1
        assert all(left[1] <= right[0] for left, right in pairwise(ends))


def test_the_missing_value_always_has_its_name():
    first, second = numbers()
    first[::7] = np.nan
    figure, ax = plt.subplots(figsize=(3, 2.5), layout="constrained")
    explain(first, second, ll.Grid(20)).plot(ax=ax)
    figure.canvas.draw()
    assert texts(ax.get_xticklabels())[-1] == "missing"


def test_pdf_and_svg_can_be_written(tmp_path):
    for kind in ("pdf", "svg"):
        explain(*numbers(), ll.Grid(6)).plot().figure.savefig(tmp_path / f"x.{kind}")
