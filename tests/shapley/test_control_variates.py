"""Control variates: what is taken from a walk has mean 0 over all pairs and orders, and was not fitted to that walk."""

import tracemalloc
from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest

import losslens as ll
from losslens.shapley import control_variates, mean_walks
from losslens.shapley.control_variates import (
    _by_player,
    _Controls,
    _folds,
    _LeastSquares,
    _order_terms,
    _Walks,
    additive_parts,
    gather,
)
from losslens.shapley.setup import BINS, value_bins
from losslens.shapley.walks import SWEEP_BYTES

RNG = np.random.default_rng(0)
N, P = 60, 3
X = np.column_stack([RNG.normal(size=(N, 2)), RNG.integers(0, 3, N), RNG.normal(size=N)])
Y = X[:, 0] * (1 + X[:, 1]) + X[:, 2] + RNG.normal(size=N)
FEW = np.column_stack([RNG.integers(0, 2, N), RNG.integers(0, 4, N), RNG.integers(0, 3, N), np.arange(N)]) - 0.5
WEIGHT = RNG.uniform(0.2, 2, N)


def model(X):
    return X[:, 0] * (1 + X[:, 1]) + np.sin(X[:, 2])


def additive(X):
    return 2 * X[:, 2] - 3 * (X[:, 0] > 0)


def walks(monkeypatch, model=model, X=X, sweeps=10, y=Y, **options):
    """Setup, sweeps and the known gain of a call."""
    found = []

    def record(setup, sweeps, gain, **options):
        found.append((setup, sweeps, gain))
        return gather(setup, sweeps, gain, **options)

    monkeypatch.setattr(control_variates, "gather", record)
    budget = len(X) * (1 + sweeps * 3)
    ll.shapley_importance(model, X, y, loss="squared_error", method="walk", budget=budget, random_state=0, **options)
    return found[-1]


def shaken(sweeps, r, noise):
    return [replace(one, shares=one.shares + noise) if k == r else one for k, one in enumerate(sweeps)]


@pytest.mark.parametrize("r", [0, 1, 4])
def test_a_sweep_is_not_corrected_by_a_fit_to_its_own_noise(monkeypatch, r):
    """Noise in one sweep stays as it is there, and in those fitted together with it; the others' fit changes."""
    setup, sweeps, gain = walks(monkeypatch, features=["x0", "x1", "x2"])
    assert gain is None  # a column without a player: the ends are not known
    noise = np.random.default_rng(r).normal(size=(N, P)) * 5
    before, after = (gather(setup, some, None, leaves_out_own=False)[2] for some in (sweeps, shaken(sweeps, r, noise)))
    moved = after - before
    np.testing.assert_allclose(moved[:, r], noise, atol=1e-9)
    for other in range(len(sweeps)):
        if other != r and other % 2 == r % 2:
            np.testing.assert_allclose(moved[:, other], 0, atol=1e-9)
        if other % 2 != r % 2:
            assert np.abs(moved[:, other]).max() > 1e-6


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sweeps_part_of_its_excess_is_not_fitted_to_it_either(monkeypatch, weighted):
    """Noise e in the shares of a walk leaves e - s sum(e), with the same s for all rows, that sum to one."""
    setup, sweeps, gain = walks(monkeypatch, sample_weight=WEIGHT if weighted else None)
    monkeypatch.setattr(_Walks, "has_controls", False)
    noise = np.random.default_rng(1).normal(size=(N, 4))
    before, after = (gather(setup, some, gain, leaves_out_own=False)[2] for some in (sweeps, shaken(sweeps, 2, noise)))
    left = noise - (after - before)[:, 2]
    slopes = left / noise.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(slopes, np.broadcast_to(slopes[0], slopes.shape), atol=1e-8)
    assert slopes[0].sum() == pytest.approx(1)
    np.testing.assert_allclose((after - before)[:, 0::2][:, [0, 2, 3, 4]], 0, atol=1e-9)


@pytest.mark.parametrize("count", range(2, 9))
def test_every_sweep_is_corrected_once_by_others(count):
    every = np.arange(count)
    folds = [(every[fit], every[use]) for fit, use in _folds(count)]
    assert sorted(np.concatenate([use for _, use in folds]).tolist()) == list(range(count))
    for fit, use in folds:
        assert not set(fit) & set(use)
        assert sorted([*fit, *use]) == list(range(count))


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("leaves_out_own", [False, True])
def test_controls_have_mean_zero_for_every_row_and_donor(leaves_out_own, even):
    """Over the donors of a row (or the other rows), and over the rows of a donor, weights w_i w_k, and all orders.

    So they change the expectation of no row's share. Means over all pairs alone would not do: those of a row with
    itself are left out, and what is missing differs from row to row.
    """
    n, rng = 7, np.random.default_rng(2)
    weight = np.full(n, 1 / n) if even else rng.dirichlet(np.full(n, 5.0))
    parts = rng.normal(size=(n, P))
    parts -= weight @ parts
    f, y = rng.normal(size=(2, n))
    orders = np.array(list(permutations(range(P))), np.int16)
    sample = SimpleNamespace(weight=weight, y=y, prediction=f, classes=None)
    setup = SimpleNamespace(n=n, p=P, sample=sample, loss=ll.losses.squared_error)
    variables = _Controls(_Walks(setup, [], np, leaves_out_own), parts)
    by_row = np.zeros((P, control_variates.CONTROLS, n))
    by_donor, size = np.zeros_like(by_row), 0.0
    for shift in range(int(leaves_out_own), n):
        lent = (np.arange(n) + shift) % n
        donors = np.repeat(lent[:, None], len(orders), axis=1)
        terms = _order_terms(parts, donors, np.broadcast_to(orders, (n, *orders.shape)))
        controls = variables.of(_by_player(terms), np.arange(n)[:, None], donors)
        assert controls.shape == (P, control_variates.CONTROLS, n, len(orders))
        found = controls.mean(axis=3)
        by_row += weight[lent] * found
        by_donor[:, :, lent] += weight * found
        size += np.abs(found).mean()
    np.testing.assert_allclose(by_row, 0, atol=1e-12 * size)
    np.testing.assert_allclose(by_donor, 0, atol=1e-12 * size)
    assert size > 0.1


def test_terms_of_an_order_are_what_the_squared_loss_of_a_sum_depends_on():
    """(s + d_j)^2 - s^2 = d_j (2 s + d_j), s the sum before j; without its mean over the order and its reverse,
    d_j^2 + d_j (all - d_j), what is left is d_j (before - after)."""
    rng = np.random.default_rng(3)
    parts, donors = rng.normal(size=(5, 4)), rng.integers(0, 5, (5, 6))
    orders = rng.permuted(np.tile(np.arange(4, dtype=np.int16), (5, 6, 1)), axis=2)
    found, back = _order_terms(parts, donors, orders), _order_terms(parts, donors, orders[:, :, ::-1])
    np.testing.assert_allclose(found, -back, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=2), 0, atol=1e-12)
    for i, r in np.ndindex(5, 6):
        d = parts[i] - parts[donors[i, r]]
        for place, j in enumerate(orders[i, r]):
            before, after = d[orders[i, r, :place]].sum(), d[orders[i, r, place + 1 :]].sum()
            assert found[i, r, j] == pytest.approx(d[j] * (before - after))
    alone = _order_terms(parts, None, orders)
    for i, r in np.ndindex(5, 6):
        before = parts[i][orders[i, r, :2]].sum() - parts[i][orders[i, r, 3:]].sum()
        j = orders[i, r, 2]
        assert alone[i, r, j] == pytest.approx(parts[i, j] * before)


def test_additive_parts_of_an_additive_model_are_its_parts(monkeypatch):
    """Few distinct values: bins are values, and every step is exactly c_j(row) - c_j(donor)."""
    setup, sweeps, _ = walks(monkeypatch, additive, FEW, sample_weight=WEIGHT)
    parts = additive_parts(setup, sweeps)
    weight = WEIGHT / WEIGHT.sum()
    truth = np.column_stack([-3.0 * (FEW[:, 0] > 0), np.zeros(N), 2 * FEW[:, 2], np.zeros(N)])
    truth -= weight @ truth
    np.testing.assert_allclose(weight @ parts, 0, atol=1e-12)
    np.testing.assert_allclose(parts, truth, atol=0.01 * np.abs(truth).max())  # a ridge of a thousandth


def test_controls_take_most_noise_off_a_model_of_few_interactions(monkeypatch):
    """Sums over parts make the whole noise of an additive model under squared loss: controls explain it."""
    setup, sweeps, _ = walks(monkeypatch, additive, FEW, features=["x0", "x1", "x2"])
    plain = np.stack([one.shares for one in sweeps], axis=1)
    left = gather(setup, sweeps, None, leaves_out_own=False)[2]
    rows, donors = np.repeat(np.arange(N), len(sweeps)), np.stack([one.donors for one in sweeps], axis=1).ravel()
    main = np.concatenate([np.eye(N)[rows], np.eye(N)[donors]], axis=1)  # effects of rows and donors are no noise

    def noise(cells):
        flat = cells.reshape(-1, P)
        return np.square(flat - main @ np.linalg.lstsq(main, flat, rcond=None)[0]).sum(axis=0)

    before, after = noise(plain), noise(left)
    used = before > 1e-9
    assert used.tolist() == [True, False, True]
    assert (after[used] < 0.05 * before[used]).all()


def _fit(controls, cells, counts, step=5):
    """Of two players, of whom the second has the same controls and the opposite cells; added a few rows at a time."""
    fit = _LeastSquares(2, controls.shape[2])
    controls, cells = np.stack([np.moveaxis(controls, 2, 0)] * 2), np.stack([cells, -cells])
    for start in range(0, len(counts), step):
        rows = slice(start, start + step)
        fit.add_within_rows(controls[:, :, rows], cells[:, rows], counts[rows])
    first, second = fit.slopes()
    np.testing.assert_allclose(first, -second, atol=1e-12)
    return first


def test_slopes_are_weighted_least_squares_within_rows():
    rng = np.random.default_rng(4)
    controls, counts = rng.normal(size=(12, 5, 3)), rng.uniform(0.1, 3, (12, 5))
    controls[:, :, 1] = 0.0
    cells = controls @ [2.0, 7.0, -1.0] + rng.normal(size=(12, 1))
    np.testing.assert_allclose(_fit(controls, cells, counts), [2.0, 0.0, -1.0], atol=1e-8)
    cells = rng.normal(size=(12, 5))
    inner, target = controls - controls.mean(axis=1, keepdims=True), cells - cells.mean(axis=1, keepdims=True)
    root = np.sqrt(counts).ravel()
    expected = np.linalg.lstsq(inner.reshape(-1, 3) * root[:, None], target.ravel() * root, rcond=None)[0]
    np.testing.assert_allclose(_fit(controls, cells, counts), expected, atol=1e-8)


@pytest.mark.parametrize("values", [3, 12, 13, 40, 200])
def test_bins_are_ranges_of_values_with_about_as_many_rows(values):
    codes = np.random.default_rng(values).integers(0, values, 400)
    codes = np.unique(codes, return_inverse=True)[1]
    found = value_bins(codes)
    if codes.max() < BINS:
        np.testing.assert_array_equal(found, codes)
        return
    order = np.argsort(codes, kind="stable")
    assert (np.diff(found[order]) >= 0).all()  # along the order of values
    assert len(np.unique(found)) <= BINS
    assert found.max() + 1 == len(np.unique(found)) >= 10
    for value in np.unique(codes):
        assert len(np.unique(found[codes == value])) == 1
    most = np.bincount(codes).max()  # a bin begins within its twelfth of the rows, and ends with a whole value
    assert np.bincount(found).max() <= 400 / BINS + most


def test_rows_without_orders_terms_keep_their_gain(monkeypatch):
    """Walks from all donors together: the noise of orders goes, every row's shares sum to the same as before."""
    seen = []

    def record(setup, sweeps, cells, is_donor):
        seen.append((cells, without(setup, sweeps, cells, is_donor)))
        return seen[-1][1]

    without = control_variates.without_order_terms
    monkeypatch.setattr(mean_walks.control_variates, "without_order_terms", record)
    ll.shapley_importance(
        lambda X: X[:, 0] + X[:, 2], X, Y, loss="squared_error", method=ll.Sage("walk"), random_state=0
    )
    before, after = seen[-1]
    np.testing.assert_allclose(after.sum(axis=2), before.sum(axis=2), atol=1e-9)
    spread = [np.square(cells - cells.mean(axis=1, keepdims=True)).sum() for cells in (before, after)]
    assert spread[1] < 0.1 * spread[0]


@pytest.mark.parametrize("case", ["known ends", "unknown ends", "weights", "other rows"])
def test_rows_are_corrected_a_few_at_a_time(monkeypatch, case):
    """All rows at once are the same but for rounding."""
    options = {
        "known ends": {}, "unknown ends": {"features": ["x0", "x1"]}, "weights": {"sample_weight": WEIGHT},
        "other rows": {"donors": ll.Derangements()},
    }[case]  # fmt: skip
    setup, sweeps, gain = walks(monkeypatch, **options)
    found = []
    for at_once in (1, 1 << 10, 1 << 30):
        monkeypatch.setattr(control_variates, "AT_ONCE", at_once)
        count = len(control_variates._blocks(N, len(sweeps) * P))
        assert count == {1: N, 1 << 30: 1}.get(at_once, count)
        sfimp, shares, cells = gather(setup, sweeps, gain, leaves_out_own=case == "other rows")
        found.append([sfimp, shares.local, shares.caused, cells])
    for one in found[:2]:
        for numbers, expected in zip(one, found[2], strict=True):
            np.testing.assert_allclose(numbers, expected, rtol=1e-9, atol=1e-11)


def test_temporary_arrays_are_small_beside_the_cells(monkeypatch):
    """Of the memory that a sweep counts with, 40 bytes a row and player, gathering takes less than half."""
    times = 12  # the controls of one row are few beside the cells
    table, y = np.tile(X, (times, 1)) + np.arange(times * N)[:, None] / 1e6, np.tile(Y, times)
    setup, sweeps, gain = walks(monkeypatch, X=table, y=y, sweeps=44)  # Python keeps tuples of up to 20
    monkeypatch.setattr(control_variates, "AT_ONCE", 1 << 12)
    cells = len(table) * 4 * len(sweeps)
    gather(setup, sweeps, gain, leaves_out_own=False)  # what is imported and cached once is not counted
    tracemalloc.start()
    gather(setup, sweeps, gain, leaves_out_own=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < SWEEP_BYTES / 2 * cells
