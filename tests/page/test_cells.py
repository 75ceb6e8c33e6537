"""Cells in a page: bins, the low-rank form, and that its stated errors are those of the groups it was measured on."""

from types import SimpleNamespace

import numpy as np
import pytest

import losslens as ll
from losslens.page import summary
from losslens.page.cells import FEWEST_ROWS, SAFETY, grid_of, join, low_rank, low_rank_effect, measured_on

RNG = np.random.default_rng(0)
N = 160
X = RNG.normal(size=(N, 3))
WEIGHT = RNG.uniform(0.5, 2, N)


def model(X):
    return np.sin(3 * X[:, 0]) * (1 + X[:, 1]) + X[:, 0] * X[:, 2] ** 2


Y = model(X) + RNG.normal(size=N)


def explained(weight=WEIGHT):
    return ll.feature_importance(model, X, Y, loss="squared_error", features="x0", donors="all", sample_weight=weight)[
        "x0"
    ]


def codes(column):
    return np.unique(column, return_inverse=True)[1]


def changes():
    """D(i, k) of x0, by hand."""
    replaced = np.stack([model(np.column_stack([np.full(N, v), X[:, 1:]])) for v in X[:, 0]], axis=1)
    return (Y[:, None] - replaced) ** 2 - ((Y - model(X)) ** 2)[:, None]


@pytest.mark.parametrize("most", [None, 40, 16])
def test_bins_hold_weighted_means_of_the_cells(most):
    grid = grid_of(explained(), codes(X[:, 0]), most)
    D, w = changes(), WEIGHT / WEIGHT.sum()
    order = np.argsort(X[:, 0])
    place = np.empty(N, int)
    place[order] = grid.bin  # values in order, all distinct
    np.testing.assert_array_equal(grid.own, place)
    g = len(grid.weights)
    assert g == N if most is None else g <= most
    np.testing.assert_allclose(grid.weights, np.bincount(place, w))
    for b in range(g):
        mine = place == b
        np.testing.assert_allclose(grid.changes[:, b], D[:, mine] @ w[mine] / w[mine].sum(), atol=1e-9)
        assert (grid.values[b], grid.last[b]) == (X[mine, 0].min(), X[mine, 0].max())
    if most is not None:  # about as much weight each
        assert grid.weights.max() < 2 / most


def test_the_stated_errors_are_those_of_the_groups():
    """The page adds a group's local importances to the rest of the curve and the low-rank interaction; its PFI within
    the group is the mean over the group's own values. Against the definition, from all cells."""
    one = explained()
    grid, w, D = grid_of(one, codes(X[:, 0]), 16), WEIGHT / WEIGHT.sum(), changes()
    groups = [X[:, 1] > 0.5, X[:, 2] < -0.3, np.arange(N) % 5 == 0]
    form = low_rank(grid, one.local, w, groups, 8)
    assert form["row"].dtype == np.int8
    assert np.abs(form["row"].astype(int)).max(axis=0).min() == 127  # every column uses the whole byte
    interaction = form["row"].astype(float) * form["scale"] @ form["column"].astype(float)
    off, curve_off, sizes = [], [], []
    for group in groups:
        share = w * group / w[group].sum()
        curve = share @ one.local + w @ grid.changes - one.pfi + share @ interaction
        within = np.bincount(grid.own, share, len(curve)) @ curve
        off.append(abs(within - share @ D @ share))
        curve_off.append(np.abs(curve - share @ grid.changes).max())
        sizes.append(group.sum())
    off, curve_off, sizes = np.array(off), np.array(curve_off), np.array(sizes)
    assert form["error"] == pytest.approx(off.max(), rel=1e-5)
    assert form["typical"] == pytest.approx(np.median(off), rel=1e-5)
    assert form["error_times_n"] == pytest.approx(SAFETY * (off * sizes).max(), rel=1e-5)
    assert form["pi_error_times_root_n"] == pytest.approx(SAFETY * (curve_off * np.sqrt(sizes)).max(), rel=1e-5)


def test_as_many_ranks_as_the_cells_have_are_all_of_them():
    """Cells are sums of five products of functions of row and donor: at most half a step of each byte is left."""
    one = explained(None)
    grid = grid_of(one, codes(X[:, 0]), 40)
    form = low_rank(grid, one.local, np.full(N, 1 / N), [np.ones(N, bool)], 8)
    centred = grid.changes - one.local[:, None] - grid.changes.mean(axis=0) + one.pfi
    left = centred - form["row"].astype(float) * form["scale"] @ form["column"].astype(float)
    assert form["column"].shape == (5, 40)
    assert (np.abs(left) <= form["scale"] / 2 @ np.abs(form["column"]) + 1e-5 * np.abs(centred).max()).all()
    assert np.square(left).mean() < 1e-3 * np.square(centred).mean()


def test_the_stated_error_of_pd_is_that_of_the_groups():
    """ICE is the level of a row, the curve of all rows, and the product; levels are kept in 16 bits."""
    one, w = explained(), WEIGHT / WEIGHT.sum()
    grid = grid_of(one, codes(X[:, 0]), 16)
    ice = grid.joined(one.effect.ice)
    groups = [X[:, 1] > 0.5, X[:, 2] < -0.3, np.arange(N) % 5 == 0]
    form = low_rank_effect(ice, w @ ice, w, grid.weights, groups, 8)
    each = form["level"][:, None] + w @ ice - form["mean"] + form["row"] * form["scale"] @ form["column"]
    off = [np.abs((w * group / w[group].sum()) @ (each - ice)).max() for group in groups]
    sizes = np.array([group.sum() for group in groups])
    assert form["error"] == pytest.approx(max(off), rel=1e-4)
    measured = [size for size, _ in form["measured"]]
    assert measured[0] == sizes.min()
    for (_, error), before in zip(form["measured"], [measured[0], *measured[:-1]], strict=True):
        assert error == pytest.approx(SAFETY * np.array(off)[sizes >= before].max(), rel=1e-4)
    assert np.abs(form["level"] - ice @ grid.weights).max() <= np.ptp(ice @ grid.weights) / 2**16


def test_errors_are_measured_on_small_and_large_groups_of_every_column():
    n = 1000
    columns = [RNG.normal(size=n) for _ in range(8)]
    groups = measured_on(columns, np.ones(n))
    sizes = [int(group.sum()) for group in groups]
    assert sizes[:5] == [10, 25, 100, 250, 500]  # random rows: 1%, 2.5%, 10%, 25% and a half
    straight = 5 + 6 * 5 * 3  # both ends and the middle of six columns
    assert all(size in (10, 25, 100, 250, 500) for size in sizes[:straight])
    assert 8 < len(sizes[straight:]) <= 16  # corners of two columns, but for those of hardly any rows
    ranks = np.argsort(np.argsort(columns[0]))
    for group, (low, high) in zip(groups[5:8], [(0, 10), (495, 505), (990, 1000)], strict=True):
        np.testing.assert_array_equal(group, (ranks >= low) & (ranks < high))
    light = columns[0] > np.median(columns[0])
    groups = measured_on(columns[:1], 1.0 * light)
    assert min(group.sum() for group in groups) >= FEWEST_ROWS
    assert all(light[group].any() for group in groups)


@pytest.mark.parametrize("place", [[0, 0, 1, 2], [1, 0, 1, 2], [2, 1, 0, 0], [0, 2, 1, 2]])
def test_curves_are_averaged_over_bins_in_any_order(place):
    place, shares, curves = np.array(place), np.array([0.5, 0.25, 1.0, 2.0]), RNG.normal(size=(3, 4))
    wanted = [(curves * shares)[:, place == k].sum(axis=1) for k in range(3)]
    np.testing.assert_allclose(join(curves, place, shares), np.column_stack(wanted))


def test_bins_are_labelled_by_their_ends_and_words_by_the_first():
    numbers = SimpleNamespace(bin=np.array([0, 0, 1, 1, 1]), last=np.array([1.0, 9.0]))
    assert summary._labels(np.array([0.0, 5.0]), numbers) == ["0 to 1", "5 to 9"]
    words = SimpleNamespace(bin=np.array([0, 1, 1, 1]), last=np.array(["a", "b"]))
    assert summary._labels(np.array(["a", "b"]), words) == ["a", "b and 2 rarer"]
