"""Less noise from the same walks: regress what was walked on what is known to be zero on average.

Over all pairs and orders the mean of each control is exactly 0, so that taking off a multiple of it changes no
expectation. The walks' own total is one: its mean over all pairs is known, because both ends are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from losslens.results.shapley import levelled, mean_of
from losslens.shapley.games import Board, Ends
from losslens.shapley.walks import Sweep, additive_parts, own_parts, single_number
from losslens.typing import Floats, Indices, Mask

CONTROLS = 14  # of each player
CELLS_A_CONTROL = 20  # fewer would fit noise


@dataclass(frozen=True, eq=False)
class WalkRecord:
    """What the sweeps say together."""

    sfimp: Floats  # (p,)
    local: Floats  # (n, p): its rows sum to each row's gain, over all donors where the ends are known
    caused: Floats  # (n, p): the same for donors
    cells: Floats  # (n, R, p)
    donors: Indices  # (n, R)


def gather(board: Board, sweeps: list[Sweep], known: Ends | None, *, apart: bool = False) -> WalkRecord:
    """Means over the sweeps, with as little noise as their controls allow; apart, no row has met itself."""
    donors = np.stack([one.donors for one in sweeps], axis=1)
    cells = np.stack([one.shares for one in sweeps], axis=1)
    weight = board.sample.weight
    lent = weight[donors]
    if _has_controls(board, sweeps):
        cells = cells - _explained(board, sweeps, cells, donors, apart)
    by_row = by_donor = cells
    if known is not None:
        met, row, donor = cells.sum(axis=2), known.by_row[:, None], known.by_donor[donors]
        excess = met - row - donor + known.total(weight)  # its mean over any row or donor is 0
        share = _slopes(cells, met, excess, weight[:, None] * lent)
        by_row = cells - (met - row)[:, :, None] * share
        by_donor = cells - (met - donor)[:, :, None] * share
        cells = cells - excess[:, :, None] * share
    local = _row_means(by_row, lent)
    mass = weight * (1 - weight) if apart else weight
    sfimp = mean_of(local, mass)
    return WalkRecord(sfimp, local, levelled(_donor_means(by_donor, donors, weight), mass, sfimp), cells, donors)


def _folds(sweeps: int) -> list[tuple[Indices, Indices]]:
    """Sweeps to fit on, and sweeps to apply the fit to: nobody is explained by a fit to its own noise."""
    every = np.arange(sweeps)
    if sweeps == 1:
        return [(every, every)]
    return [(every[1::2], every[::2]), (every[::2], every[1::2])]


def _row_means(cells: Floats, lent: Floats) -> Floats:
    with np.errstate(invalid="ignore"):  # a row that met nobody who counts
        return np.asarray(np.einsum("irp,ir->ip", cells, lent) / lent.sum(axis=1, keepdims=True))


def _donor_means(cells: Floats, donors: Indices, weight: Floats) -> Floats:
    n, R, p = cells.shape
    total, mass = np.zeros((n, p)), np.zeros(n)
    for r in range(R):  # every donor once a sweep
        total[donors[:, r]] += weight[:, None] * cells[:, r]
        mass[donors[:, r]] += weight
    with np.errstate(invalid="ignore"):
        return total / mass[:, None]


def _slopes(cells: Floats, met: Floats, excess: Floats, counts: Floats) -> Floats:
    """How much of a walk's excess each player has on average, (R, p); they sum to one in every sweep."""
    found = np.empty(cells.shape[1:])
    for fit, use in _folds(cells.shape[1]):
        apart = excess[:, fit]
        if len(fit) > 1:
            apart = apart - apart.mean(axis=1, keepdims=True)
        pull = apart * counts[:, fit]
        spread, own = float(np.sum(pull * met[:, fit])), float(np.sum(pull * excess[:, fit]))
        # Effects of the rows and donors that happened to meet are in `met`: where they count much, slopes are wild.
        if own > 1e-12 * float(np.sum(counts[:, fit] * met[:, fit] ** 2)) and 0.5 <= spread / own <= 2:
            found[use] = np.einsum("irp,ir->p", cells[:, fit], pull) / spread
        else:  # who changes nothing still earns nothing
            size = np.abs(cells).mean(axis=(0, 1))
            found[use] = size / size.sum() if size.any() else 1 / len(size)
    return found


def _has_controls(board: Board, sweeps: list[Sweep]) -> bool:
    if board.p < 2 or len(sweeps) < 2 or any(one.steps is None for one in sweeps):
        return False
    return _target(board) is not None and board.n * (len(sweeps) // 2) >= CELLS_A_CONTROL * CONTROLS


def _explained(board: Board, sweeps: list[Sweep], cells: Floats, donors: Indices, apart: bool) -> Floats:
    """What the controls say of each cell, (n, R, p)."""
    y, f = _target(board), single_number(board.sample.prediction[:, None])
    assert y is not None and f is not None  # noqa: PT018  # `_has_controls` has asked
    weight, orders = board.sample.weight, np.stack([one.orders for one in sweeps], axis=1)
    counts, found = weight[:, None] * weight[donors], np.zeros_like(cells)
    for fit, use in _folds(len(sweeps)):
        parts = additive_parts(board, [sweeps[r] for r in fit])
        turns = _turns(parts, donors, orders)
        for j in range(board.p):
            controls = _controls(parts[:, j], turns[:, :, j], f[:, 0], y, donors, weight, apart)
            slope = _fit(controls[:, fit], cells[:, fit, j], counts[:, fit])
            found[:, use, j] = controls[:, use] @ slope
    return found


def turned(board: Board, sweeps: list[Sweep], cells: Floats, lends: Mask) -> Floats:
    """Shares of walks of all donors together, without what the order alone does to them, (n, R, p).

    Turns of a walk sum to 0 over the players, and all players have one slope: rows sum to their gain as before.
    """
    y, f = _target(board), single_number(board.sample.prediction[:, None])
    if y is None or f is None or board.p < 2:
        return cells
    steps = np.mean([one.steps for one in sweeps if one.steps is not None], axis=0)
    turns = _turns(own_parts(board, steps, lends), None, np.stack([one.orders for one in sweeps], axis=1))
    controls = np.stack([turns, turns * y[:, None, None], turns * f[:, :, None]], axis=3)
    axis = 1 if len(sweeps) > 1 else 0  # a single sweep does not tell rows apart
    inner, target = controls - controls.mean(axis=axis, keepdims=True), cells - cells.mean(axis=axis, keepdims=True)
    counts = np.broadcast_to(board.sample.weight[:, None, None], cells.shape).reshape(-1)
    return np.asarray(cells - controls @ _least_squares(inner.reshape(-1, 3), target.reshape(-1), counts))


def _target(board: Board) -> Floats | None:
    """The target as a number: values, or whether it is the second of two classes."""
    y, classes = board.sample.y, board.sample.classes
    if y is None or board.loss is None or board.loss.reads == "labels" or y.dtype.kind not in "biuf":
        return None
    return np.asarray(y, float) if classes is None or len(classes) == 2 else None


def _turns(parts: Floats, donors: Indices | None, orders: NDArray[np.int16]) -> Floats:
    """``d_j (sum of d before j - sum of d after j)``, d = c(row) - c(donor): a reversed order turns its sign.

    It is how a squared loss of a sum depends on the order.
    """
    apart = np.broadcast_to(parts[:, None], orders.shape) if donors is None else parts[:, None] - parts[donors]
    gaps = np.take_along_axis(apart, orders.astype(np.intp), axis=2)
    up_to = np.cumsum(gaps, axis=2)
    turn = gaps * (2 * up_to - gaps - up_to[:, :, -1:])
    return np.take_along_axis(turn, np.argsort(orders, axis=2), axis=2)


def _controls(c: Floats, turn: Floats, f: Floats, y: Floats, donors: Indices, weight: Floats, apart: bool) -> Floats:
    """(n, R, controls): products of something of the row and something of the donor, and turns of the order."""
    own = weight / (1 - weight) if apart else np.zeros(len(weight))  # what a row would have added to its own mean

    def centred(values: Floats) -> Floats:
        return np.asarray(values - weight @ values)

    of_row = [centred(values) for values in (c, f, y, y * f, y * c)]
    of_donor = [centred(values) for values in (c, f)]
    products = [a[:, None] * b[donors] + (own * a * b)[:, None] for a in of_row for b in of_donor]
    turns = [turn, turn * y[:, None], turn * f[:, None], turn * f[donors]]
    return np.stack([*products, *turns], axis=2)


def _fit(controls: Floats, cells: Floats, counts: Floats) -> Floats:
    """The least-squares slopes of cells on controls, (controls,); rows' own means are left out of it."""
    inner, target = controls, cells
    if cells.shape[1] > 1:
        inner, target = inner - inner.mean(axis=1, keepdims=True), target - target.mean(axis=1, keepdims=True)
    return _least_squares(inner.reshape(-1, inner.shape[2]), target.ravel(), counts.ravel())


def _least_squares(inner: Floats, target: Floats, counts: Floats) -> Floats:
    """Slopes; 0 for what never differs from 0."""
    size = np.sqrt(np.mean(np.square(inner), axis=0))
    used, slope = size > 0, np.zeros(inner.shape[1])
    if used.any():
        inner = inner[:, used] / size[used]
        weighted = inner * counts[:, None]
        slope[used] = np.linalg.lstsq(weighted.T @ inner, weighted.T @ target, rcond=1e-10)[0] / size[used]
    return slope
