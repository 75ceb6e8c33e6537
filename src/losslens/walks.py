"""Walks: turn a donor into a row, one player at a time; what each step takes off the loss is that player's share.

A walk draws an order of the players and a pair (i, k). Both ends are known, so that p - 1 predictions give all p
contributions. One *sweep* is n walks: every row once, every donor once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.games import Board, Marks
from losslens.sample import Floats, Indices
from losslens.shapley import along, random_orders

TOGETHER = 1 << 18  # steps that are walked at a time
BINS = 12  # of a column's values, where what it adds to the prediction is estimated


@dataclass(frozen=True, eq=False)
class Sweep:
    """n walks, one a row."""

    donors: Indices  # (n,)
    orders: NDArray[np.int16]  # (n, p)
    shares: Floats  # (n, p): what each player took off the loss
    steps: Floats | None  # (n, p): what it added to the prediction; None where that is no single number


def sweeps(board: Board, donors: Indices, rng: np.random.Generator) -> list[Sweep]:
    """Walk from donors to rows, each in an order of its own: a sweep for each column of donors, (n, r)."""
    n, p = board.n, board.p
    r = donors.shape[1]
    rows, lenders = np.tile(np.arange(n), r), donors.T.ravel()
    orders = random_orders(n * r, p, rng)
    shares, steps = np.empty((n * r, p)), np.empty((n * r, p))
    single = board.loss is not None
    together = max(1, TOGETHER // (p + 1))
    for start in range(0, n * r, together):
        part = slice(start, start + together)
        found = path(board, rows[part], lenders[part], orders[part])
        scalar = single_number(found)
        if scalar is None:
            single = False
        else:
            steps[part] = -along(orders[part], scalar)
        if board.loss is None:  # the prediction is shared out, not the loss
            shares[part] = steps[part]
            continue
        losses = board.judge(np.repeat(rows[part], p + 1), found.reshape(-1, *found.shape[2:]))
        shares[part] = along(orders[part], losses.reshape(-1, p + 1))
    places = [slice(k * n, (k + 1) * n) for k in range(r)]
    small = orders.astype(np.int16)
    return [Sweep(lenders[at], small[at], shares[at], steps[at] if single else None) for at in places]


def single_number(predictions: NDArray[Any]) -> Floats | None:
    """Predictions as one number each: values and scores as they are, of two classes the second's; else None."""
    if predictions.dtype.kind not in "fiub" or (predictions.ndim == 3 and predictions.shape[2] != 2):
        return None
    return np.asarray(predictions[..., 1] if predictions.ndim == 3 else predictions, float)


def path(board: Board, rows: Indices, donors: Indices, orders: Indices) -> NDArray[Any]:
    """Predictions along the walks of these rows, from the donor to the row, (b, p + 1, ...).

    A player whose value both have moves nothing: only where something moves, and more is to come, is the model asked.
    """
    base = board.sample.prediction
    differ = board.codes[rows] != board.codes[donors]
    moves = np.take_along_axis(differ, orders, axis=1)
    b, p = orders.shape
    last = np.where(moves.any(axis=1), p - 1 - np.argmax(moves[:, ::-1], axis=1), -1)
    place = np.argsort(orders, axis=1)
    asked = moves & (np.arange(p) < last[:, None])
    where, step = np.nonzero(asked)
    start = np.flatnonzero(last >= 0) if not board.whole else np.empty(0, np.intp)  # nobody knows the donors' end
    kept = np.concatenate([place[where] <= step[:, None], np.zeros((len(start), p), bool)])
    walkers = np.concatenate([where, start])
    answers = board.predict(rows[walkers], donors[walkers], kept)
    steps = np.empty((b, p + 1, *base.shape[1:]), base.dtype)
    steps[:, 0] = np.where(_wide(last >= 0, base), base[donors], base[rows])
    steps[start, 0] = answers[len(where) :]
    found = np.empty((b, p, *base.shape[1:]), base.dtype)
    found[where, step] = answers[: len(where)]
    for t in range(p):
        steps[:, t + 1] = np.where(_wide(asked[:, t], base), found[:, t], steps[:, t])
        steps[:, t + 1] = np.where(_wide(t >= last, base), base[rows], steps[:, t + 1])
    return steps


def _wide(marks: NDArray[np.bool_], like: NDArray[Any]) -> NDArray[np.bool_]:
    return marks.reshape(-1, *[1] * (like.ndim - 1))


def circles(n: int, rng: np.random.Generator, *, apart: bool = False) -> Iterator[Indices]:
    """Donors of one sweep after the other: distinct shifts after two relabellings; new ones once all n were used.

    Apart, no row meets itself: rows and donors have one relabelling, and no shift is zero.
    """
    while True:
        place, donor = rng.permutation(n), rng.permutation(n)
        if apart:
            place = np.argsort(donor)
        for shift in int(apart) + rng.permutation(n - int(apart)):
            yield donor[(place + shift) % n]


# What each player adds to the prediction, as far as that is a sum: learnt from the walks' own steps.


def additive_parts(board: Board, sweeps: list[Sweep], walkers: Indices | None = None) -> Floats:
    """c_j of each row, (n, p), centred: the least-squares fit ``step = c_j(row) - c_j(donor)`` on bins of values."""
    weight, parts = board.sample.weight, np.zeros((board.n, board.p))
    rows = np.tile(np.arange(board.n) if walkers is None else walkers, len(sweeps))
    donors = np.concatenate([one.donors for one in sweeps])
    for j, player in enumerate(board.players):
        bins = [_bins(column.distinct.codes) for column in player.columns]
        starts = np.cumsum([0, *(int(b.max()) + 1 for b in bins)])
        where = np.stack([b + start for b, start in zip(bins, starts, strict=False)], axis=1)  # (n, columns)
        steps = np.concatenate([one.steps[:, j] for one in sweeps if one.steps is not None])
        gram, pull = _normal_equations(where[rows], where[donors], steps, int(starts[-1]))
        gram += np.eye(len(gram)) * (1e-3 * np.trace(gram) / len(gram) + 1e-300)
        found = np.linalg.solve(gram, pull)[where].sum(axis=1)
        parts[:, j] = found - weight @ found
    return parts


def _normal_equations(own: Indices, lent: Indices, steps: Floats, size: int) -> tuple[Floats, Floats]:
    """Of the fit step = sum of the row's bins - sum of the donor's bins."""
    gram, pull = np.zeros(size * size), np.zeros(size)
    for a in range(own.shape[1]):
        pull += np.bincount(own[:, a], steps, size) - np.bincount(lent[:, a], steps, size)
        for b in range(own.shape[1]):
            for first, second, sign in ((own, own, 1), (lent, lent, 1), (own, lent, -1), (lent, own, -1)):
                gram += sign * np.bincount(first[:, a] * size + second[:, b], minlength=size * size)
    return gram.reshape(size, size), pull


def own_parts(board: Board, steps: Floats, lends: Marks) -> Floats:
    """c_j of each row less its mean over the donors, (n, p): the mean step of rows in a bin of values."""
    weight, parts = board.sample.weight, np.zeros((board.n, board.p))
    for j, player in enumerate(board.players):
        bins = _bins(player.distinct.codes)
        mass = np.bincount(bins, weight) + 1e-300
        found = (np.bincount(bins, weight * steps[:, j]) / mass)[bins]
        parts[:, j] = found - np.average(found[lends], weights=weight[lends] + 1e-300)
    return parts


def _bins(codes: Indices) -> Indices:
    """A few bins of values, each of about as many rows."""
    rank = np.argsort(np.argsort(codes, kind="stable"))
    values = int(codes.max()) + 1
    if values <= BINS:
        return codes
    first = np.full(values, len(codes))
    np.minimum.at(first, codes, rank)  # rows of one value share a bin
    return np.unique(first[codes] * BINS // len(codes), return_inverse=True)[1].reshape(-1)
