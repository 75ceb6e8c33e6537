"""Control variates: less Monte-Carlo noise from the same walks, by regression on variables of known mean 0.

Over all pairs and orders the mean of each control is exactly 0, so that subtracting a multiple of it changes no
expectation. The total of a walk is one: its mean over all pairs is known, because both ends are. Others come from an
additive approximation of the prediction (`additive_parts`), estimated from the steps of the walks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from losslens.blas import one_thread
from losslens.results.shapley import Shares, mean_of, with_mean
from losslens.shapley.allotment import own_donors
from losslens.shapley.setup import FullGain, GameSetup
from losslens.shapley.walks import Sweep, single_number
from losslens.typing import Floats, Indices, Mask

CONTROLS = 14  # of each player
CELLS_PER_CONTROL = 20  # fewer would fit noise
BINS = 12  # of a column's values, for the additive approximation of the prediction


@one_thread()
def gather(
    setup: GameSetup, sweeps: list[Sweep], gain: FullGain | None, *, leaves_out_own: bool
) -> tuple[Floats, Shares]:
    """SFIMP and the shares of rows, donors and pairs, with as little noise as the walks' controls allow.

    The shares of a row or donor sum to its gain over all pairs, where that is known.
    """
    donors = np.stack([one.donors for one in sweeps], axis=1)
    cells = np.stack([one.shares for one in sweeps], axis=1)
    weight = setup.sample.weight
    donor_weight = weight[donors]
    if _has_controls(setup, sweeps):
        cells = cells - _explained(setup, sweeps, cells, donors, leaves_out_own)
    by_row = by_donor = cells
    if gain is not None:
        walked, row, donor = cells.sum(axis=2), gain.by_row[:, None], gain.by_donor[donors]
        excess = walked - row - donor + gain.total(weight)  # its mean over any row or donor is 0
        share = _slopes(cells, walked, excess, weight[:, None] * donor_weight)
        by_row = cells - (walked - row)[:, :, None] * share
        by_donor = cells - (walked - donor)[:, :, None] * share
        cells = cells - excess[:, :, None] * share
    local = _row_means(by_row, donor_weight)
    mass = weight * (1 - weight) if leaves_out_own else weight
    sfimp = mean_of(local, mass)
    caused = with_mean(_donor_means(by_donor, donors, weight), mass, sfimp)
    pairs = own_donors(donors, repeats=True, fresh=True, leaves_out_own=leaves_out_own)
    return sfimp, Shares(local, caused, pairs, cells)


def _folds(sweeps: int) -> list[tuple[Indices, Indices]]:
    """Cross-fitting: sweeps to fit on, and sweeps to apply the fit to, so that no sweep is fitted to its own noise."""
    every = np.arange(sweeps)
    if sweeps == 1:
        return [(every, every)]
    return [(every[1::2], every[::2]), (every[::2], every[1::2])]


def _row_means(cells: Floats, donor_weight: Floats) -> Floats:
    with np.errstate(invalid="ignore"):  # a row whose donors all have weight 0
        return np.asarray(np.einsum("irp,ir->ip", cells, donor_weight) / donor_weight.sum(axis=1, keepdims=True))


def _donor_means(cells: Floats, donors: Indices, weight: Floats) -> Floats:
    n, R, p = cells.shape
    total, mass = np.zeros((n, p)), np.zeros(n)
    for r in range(R):  # every donor once a sweep
        total[donors[:, r]] += weight[:, None] * cells[:, r]
        mass[donors[:, r]] += weight
    with np.errstate(invalid="ignore"):
        return total / mass[:, None]


def _slopes(cells: Floats, walked: Floats, excess: Floats, counts: Floats) -> Floats:
    """Each player's average part of a walk's excess, (R, p); the parts sum to one in every sweep."""
    slopes = np.empty(cells.shape[1:])
    for fit, use in _folds(cells.shape[1]):
        inner = excess[:, fit]
        if len(fit) > 1:
            inner = inner - inner.mean(axis=1, keepdims=True)
        pull = inner * counts[:, fit]
        spread, own = float(np.sum(pull * walked[:, fit])), float(np.sum(pull * excess[:, fit]))
        # `walked` holds the effects of the drawn rows and donors: where these are large, slopes are unstable.
        if own > 1e-12 * float(np.sum(counts[:, fit] * walked[:, fit] ** 2)) and 0.5 <= spread / own <= 2:
            slopes[use] = np.einsum("irp,ir->p", cells[:, fit], pull) / spread
        else:  # proportional to size: a player that changes nothing keeps a share of 0
            size = np.abs(cells).mean(axis=(0, 1))
            slopes[use] = size / size.sum() if size.any() else 1 / len(size)
    return slopes


def _has_controls(setup: GameSetup, sweeps: list[Sweep]) -> bool:
    if setup.p < 2 or len(sweeps) < 2 or any(one.steps is None for one in sweeps):
        return False
    return _target(setup) is not None and setup.n * (len(sweeps) // 2) >= CELLS_PER_CONTROL * CONTROLS


def _explained(setup: GameSetup, sweeps: list[Sweep], cells: Floats, donors: Indices, leaves_out_own: bool) -> Floats:
    """What the controls explain of each cell, (n, R, p)."""
    y, f = _target(setup), single_number(setup.sample.prediction[:, None])
    assert y is not None and f is not None  # noqa: PT018  # `_has_controls` checks it
    weight, orders = setup.sample.weight, np.stack([one.orders for one in sweeps], axis=1)
    counts, explained = weight[:, None] * weight[donors], np.zeros_like(cells)
    for fit, use in _folds(len(sweeps)):
        parts = additive_parts(setup, [sweeps[r] for r in fit])
        terms = _order_terms(parts, donors, orders)
        for j in range(setup.p):
            controls = _controls(parts[:, j], terms[:, :, j], f[:, 0], y, donors, weight, leaves_out_own)
            slope = _fit(controls[:, fit], cells[:, fit, j], counts[:, fit])
            explained[:, use, j] = controls[:, use] @ slope
    return explained


@one_thread()
def without_order_terms(setup: GameSetup, sweeps: list[Sweep], cells: Floats, is_donor: Mask) -> Floats:
    """Shares of walks from all donors together, without the effect of the order, (n, R, p).

    The terms of a walk sum to 0 over the players, and all players have one slope: a row's shares still sum to its gain.
    """
    y, f = _target(setup), single_number(setup.sample.prediction[:, None])
    if y is None or f is None or setup.p < 2:
        return cells
    steps = np.mean([one.steps for one in sweeps if one.steps is not None], axis=0)
    orders = np.stack([one.orders for one in sweeps], axis=1)
    terms = _order_terms(_own_parts(setup, steps, is_donor), None, orders)
    controls = np.stack([terms, terms * y[:, None, None], terms * f[:, :, None]], axis=3)
    axis = 1 if len(sweeps) > 1 else 0  # with a single sweep, means over rows
    inner, target = controls - controls.mean(axis=axis, keepdims=True), cells - cells.mean(axis=axis, keepdims=True)
    counts = np.broadcast_to(setup.sample.weight[:, None, None], cells.shape).reshape(-1)
    return np.asarray(cells - controls @ _least_squares(inner.reshape(-1, 3), target.reshape(-1), counts))


def _target(setup: GameSetup) -> Floats | None:
    """The target as a number: its value, or 1 for the second of two classes; None for other targets."""
    y, classes = setup.sample.y, setup.sample.classes
    if y is None or setup.loss is None or setup.loss.reads == "labels" or y.dtype.kind not in "biuf":
        return None
    return np.asarray(y, float) if classes is None or len(classes) == 2 else None


def _order_terms(parts: Floats, donors: Indices | None, orders: NDArray[np.int16]) -> Floats:
    """``d_j (sum of d before j - sum of d after j)``, d = c(row) - c(donor): a reversed order changes its sign.

    This is how the squared loss of a sum depends on the order.
    """
    gaps = np.broadcast_to(parts[:, None], orders.shape) if donors is None else parts[:, None] - parts[donors]
    gaps = np.take_along_axis(gaps, orders.astype(np.intp), axis=2)
    up_to = np.cumsum(gaps, axis=2)
    terms = gaps * (2 * up_to - gaps - up_to[:, :, -1:])
    return np.take_along_axis(terms, np.argsort(orders, axis=2), axis=2)


def _controls(
    c: Floats, term: Floats, f: Floats, y: Floats, donors: Indices, weight: Floats, leaves_out_own: bool
) -> Floats:
    """(n, R, controls): products of a row's and a donor's variables, and terms of the order."""
    # Corrects for the missing pair of a row with itself.
    own = weight / (1 - weight) if leaves_out_own else np.zeros(len(weight))

    def centred(values: Floats) -> Floats:
        return np.asarray(values - weight @ values)

    of_row = [centred(values) for values in (c, f, y, y * f, y * c)]
    of_donor = [centred(values) for values in (c, f)]
    products = [a[:, None] * b[donors] + (own * a * b)[:, None] for a in of_row for b in of_donor]
    terms = [term, term * y[:, None], term * f[:, None], term * f[donors]]
    return np.stack([*products, *terms], axis=2)


def _fit(controls: Floats, cells: Floats, counts: Floats) -> Floats:
    """The least-squares slopes of cells on controls, (controls,), within rows."""
    inner, target = controls, cells
    if cells.shape[1] > 1:
        inner, target = inner - inner.mean(axis=1, keepdims=True), target - target.mean(axis=1, keepdims=True)
    return _least_squares(inner.reshape(-1, inner.shape[2]), target.ravel(), counts.ravel())


def _least_squares(inner: Floats, target: Floats, counts: Floats) -> Floats:
    """Slopes; 0 for controls that are 0 throughout."""
    size = np.sqrt(np.mean(np.square(inner), axis=0))
    used, slope = size > 0, np.zeros(inner.shape[1])
    if used.any():
        inner = inner[:, used] / size[used]
        weighted = inner * counts[:, None]
        slope[used] = np.linalg.lstsq(weighted.T @ inner, weighted.T @ target, rcond=1e-10)[0] / size[used]
    return slope


# The additive approximation of the prediction.


@one_thread()
def additive_parts(setup: GameSetup, sweeps: list[Sweep], rows: Indices | None = None) -> Floats:
    """c_j of each row, (n, p), centred: the least-squares fit ``step = c_j(row) - c_j(donor)`` on bins of values."""
    weight, parts = setup.sample.weight, np.zeros((setup.n, setup.p))
    rows = np.tile(np.arange(setup.n) if rows is None else rows, len(sweeps))
    donors = np.concatenate([one.donors for one in sweeps])
    for j, player in enumerate(setup.players):
        bins = [_bins(column.distinct.codes) for column in player.columns]
        starts = np.cumsum([0, *(int(b.max()) + 1 for b in bins)])
        where = np.stack([b + start for b, start in zip(bins, starts, strict=False)], axis=1)  # (n, columns)
        steps = np.concatenate([one.steps[:, j] for one in sweeps if one.steps is not None])
        gram, pull = _normal_equations(where[rows], where[donors], steps, int(starts[-1]))
        gram += np.eye(len(gram)) * (1e-3 * np.trace(gram) / len(gram) + 1e-300)
        values = np.linalg.solve(gram, pull)[where].sum(axis=1)
        parts[:, j] = values - weight @ values
    return parts


def _normal_equations(own: Indices, donor: Indices, steps: Floats, size: int) -> tuple[Floats, Floats]:
    """Normal equations of step = sum of the row's bins - sum of the donor's bins."""
    gram, pull = np.zeros(size * size), np.zeros(size)
    for a in range(own.shape[1]):
        pull += np.bincount(own[:, a], steps, size) - np.bincount(donor[:, a], steps, size)
        for b in range(own.shape[1]):
            for first, second, sign in ((own, own, 1), (donor, donor, 1), (own, donor, -1), (donor, own, -1)):
                gram += sign * np.bincount(first[:, a] * size + second[:, b], minlength=size * size)
    return gram.reshape(size, size), pull


def _own_parts(setup: GameSetup, steps: Floats, is_donor: Mask) -> Floats:
    """c_j of each row minus its mean over the donors, (n, p): the mean step of the rows in a bin."""
    weight, parts = setup.sample.weight, np.zeros((setup.n, setup.p))
    for j, player in enumerate(setup.players):
        bins = _bins(player.distinct.codes)
        mass = np.bincount(bins, weight) + 1e-300
        values = (np.bincount(bins, weight * steps[:, j]) / mass)[bins]
        parts[:, j] = values - np.average(values[is_donor], weights=weight[is_donor] + 1e-300)
    return parts


def _bins(codes: Indices) -> Indices:
    """A few bins of values with about the same number of rows each."""
    rank = np.argsort(np.argsort(codes, kind="stable"))
    values = int(codes.max()) + 1
    if values <= BINS:
        return codes
    first = np.full(values, len(codes))
    np.minimum.at(first, codes, rank)  # equal values share a bin
    return np.unique(first[codes] * BINS // len(codes), return_inverse=True)[1].reshape(-1)
