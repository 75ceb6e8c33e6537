"""Control variates: less Monte-Carlo noise from the same walks, by regression on variables of known mean 0.

Over all pairs and orders the mean of each control is exactly 0, so that subtracting a multiple of it changes no
expectation. The total of a walk is one: its mean over all pairs is known, because both ends are. Others come from an
additive approximation of the prediction (`additive_parts`), estimated from the steps of the walks.
"""

from __future__ import annotations

from collections.abc import Iterator

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
AT_ONCE = 1 << 16  # numbers of a temporary array: cells are corrected a few rows at a time


@one_thread()
def gather(
    setup: GameSetup, sweeps: list[Sweep], gain: FullGain | None, *, leaves_out_own: bool
) -> tuple[Floats, Shares]:
    """SFIMP and the shares of rows, donors and pairs, with as little noise as the walks' controls allow.

    The shares of a row or donor sum to its gain over all pairs, where that is known.
    """
    if sweeps[0].back is not None:
        return _gather_both_ways(setup, sweeps, gain, leaves_out_own=leaves_out_own)
    donors = np.stack([one.donors for one in sweeps], axis=1)
    cells = np.stack([one.shares for one in sweeps], axis=1)
    if _has_controls(setup, sweeps):
        _subtract_explained(setup, sweeps, cells, donors, _fold_parts(setup, sweeps), leaves_out_own)
    by_row, by_donor = _sums(setup, cells, donors, gain)
    weight = setup.sample.weight
    mass, local = weight * (1 - weight) if leaves_out_own else weight, by_row.means()
    sfimp = mean_of(local, mass)
    caused = with_mean(by_donor.means(), mass, sfimp)
    pairs = own_donors(donors, repeats=True, fresh=True, leaves_out_own=leaves_out_own)
    return sfimp, Shares(local, caused, pairs, cells)


def _gather_both_ways(
    setup: GameSetup, sweeps: list[Sweep], gain: FullGain | None, *, leaves_out_own: bool
) -> tuple[Floats, Shares]:
    """The same from walks that are read in both directions.

    Half the sum of a walk's two readings is all that SFIMP depends on; half their difference says how the two rows
    share it, and its mean over all pairs is 0. Either has controls and slopes of its own.
    """
    weight, n, R, p = setup.sample.weight, setup.n, len(sweeps), setup.p
    parts = _fold_parts(setup, sweeps) if _has_controls(setup, sweeps) else None  # before the cells take memory
    cells, lent = np.empty((n, 2 * R, p)), np.empty((n, 2 * R), np.intp)
    mean, half_gap, donors = cells[:, :R], cells[:, R:], lent[:, :R]
    for r, one in enumerate(sweeps):
        lent[:, r], lent[:, R + r] = one.donors, np.argsort(one.donors)  # every row is a donor once a sweep
        assert one.back is not None  # as that of the first
        mean[:, r], half_gap[:, r] = (one.shares + one.back) / 2, (one.shares - one.back) / 2
    if parts is not None:
        _subtract_explained(setup, sweeps, mean, donors, parts, leaves_out_own, swapped=1)
        _subtract_explained(setup, sweeps, half_gap, donors, parts, leaves_out_own, swapped=-1)
    gains: list[FullGain | None] = [None, None]
    if gain is not None:
        both, gap = (gain.by_row + gain.by_donor) / 2, (gain.by_row - gain.by_donor) / 2
        gains = [FullGain(both, both), FullGain(gap, -gap)]
    one_role = []
    for part, of_part, sign in ((mean, gains[0], 1), (half_gap, gains[1], -1)):
        by_row, by_donor = _sums(setup, part, donors, of_part)
        by_row.total += sign * by_donor.total
        by_row.mass += by_donor.mass
        one_role.append(by_row.means())
    mass = weight * (1 - weight) if leaves_out_own else weight
    sfimp, half_gaps = mean_of(one_role[0], mass), with_mean(one_role[1], mass, np.zeros(p))
    for r in range(R):
        there, back = mean[:, r] + half_gap[:, r], mean[:, r] - half_gap[:, r]
        cells[:, r], cells[:, R + r] = there, back[lent[:, R + r]]
    pairs = own_donors(lent, repeats=True, fresh=True, leaves_out_own=leaves_out_own, mirrored=True)
    return sfimp, Shares(one_role[0] + half_gaps, one_role[0] - half_gaps, pairs, cells)


def _sums(setup: GameSetup, cells: Floats, donors: Indices, gain: FullGain | None) -> tuple[_Means, _Means]:
    """Of rows and of donors; each walk's excess over the known gains is subtracted, in place."""
    weight, (n, R, p) = setup.sample.weight, cells.shape
    slopes = None if gain is None else _slopes(cells, donors, gain, weight)
    by_row, by_donor = _Means(n, p), _Means(n, p)
    for rows in _blocks(n, R, p):
        some, lent = cells[rows], weight[donors[rows]]
        by_row.mass[rows] = lent.sum(axis=1)
        if gain is None or slopes is None:
            by_row.total[rows] = np.einsum("irp,ir->ip", some, lent)
            by_donor.add(some, donors[rows], weight[rows])
            continue
        walked, excess = _excess(some, donors[rows], gain, weight, rows)
        of_row = some - (walked - gain.by_row[rows, None])[:, :, None] * slopes
        by_row.total[rows] = np.einsum("irp,ir->ip", of_row, lent)
        by_donor.add(some - (walked - gain.by_donor[donors[rows]])[:, :, None] * slopes, donors[rows], weight[rows])
        cells[rows] = some - excess[:, :, None] * slopes
    return by_row, by_donor


def _blocks(n: int, sweeps: int, p: int) -> list[slice]:
    """Slices of rows whose temporary arrays are small."""
    step = max(1, AT_ONCE // (sweeps * max(p, CONTROLS)))
    return [slice(start, start + step) for start in range(0, n, step)]


def _folds(sweeps: int) -> list[tuple[Indices, Indices]]:
    """Cross-fitting: sweeps to fit on, and sweeps to apply the fit to, so that no sweep is fitted to its own noise."""
    every = np.arange(sweeps)
    if sweeps == 1:
        return [(every, every)]
    return [(every[1::2], every[::2]), (every[::2], every[1::2])]


class _Means:
    """Means over the cells of each row, or of each donor, whose sums are computed a few rows at a time."""

    def __init__(self, n: int, p: int) -> None:
        self.total, self.mass = np.zeros((n, p)), np.zeros(n)

    def add(self, cells: Floats, donors: Indices, weight: Floats) -> None:
        """Cells of some rows, (b, R, p), their donors and the weight of the rows."""
        for r in range(cells.shape[1]):  # every donor once a sweep
            self.total[donors[:, r]] += weight[:, None] * cells[:, r]
            self.mass[donors[:, r]] += weight

    def means(self) -> Floats:
        """NaN for a row whose donors all have weight 0."""
        with np.errstate(invalid="ignore"):
            return self.total / self.mass[:, None]


def _excess(cells: Floats, donors: Indices, gain: FullGain, weight: Floats, rows: slice) -> tuple[Floats, Floats]:
    """The total of each walk, and what exceeds the known gains of its row and donor: its mean over either is 0."""
    walked = cells.sum(axis=2)
    return walked, walked - gain.by_row[rows, None] - gain.by_donor[donors] + gain.total(weight)


def _slopes(cells: Floats, donors: Indices, gain: FullGain, weight: Floats) -> Floats:
    """Each player's average part of a walk's excess, (R, p); the parts sum to one in every sweep."""
    n, R, p = cells.shape
    folds, size = _folds(R), np.zeros(p)
    sums = [np.zeros(3 + p) for _ in folds]
    for rows in _blocks(n, R, p):
        some = cells[rows]
        walked, excess = _excess(some, donors[rows], gain, weight, rows)
        counts = weight[rows, None] * weight[donors[rows]]
        size += np.abs(some).sum(axis=(0, 1))
        for (fit, _), of_fold in zip(folds, sums, strict=True):
            inner = excess[:, fit]
            if len(fit) > 1:
                inner = inner - inner.mean(axis=1, keepdims=True)
            pull = inner * counts[:, fit]
            of_fold[0] += np.sum(pull * walked[:, fit])
            of_fold[1] += np.sum(pull * excess[:, fit])
            of_fold[2] += np.sum(counts[:, fit] * walked[:, fit] ** 2)
            of_fold[3:] += np.einsum("irp,ir->p", some[:, fit], pull)
    slopes = np.empty((R, p))
    for (_, use), (spread, own, square, *pulled) in zip(folds, sums, strict=True):
        # `walked` holds the effects of the drawn rows and donors: where these are large, slopes are unstable.
        if own > 1e-12 * square and 0.5 <= spread / own <= 2:
            slopes[use] = np.array(pulled) / spread
        else:  # proportional to size: a player that changes nothing keeps a share of 0
            slopes[use] = size / size.sum() if size.any() else 1 / p
    return slopes


def _has_controls(setup: GameSetup, sweeps: list[Sweep]) -> bool:
    if setup.p < 2 or len(sweeps) < 2 or any(one.steps is None for one in sweeps):
        return False
    return _target(setup) is not None and setup.n * (len(sweeps) // 2) >= CELLS_PER_CONTROL * CONTROLS


def _fold_parts(setup: GameSetup, sweeps: list[Sweep]) -> list[Floats]:
    """The additive approximation of the prediction, from the sweeps that each fold is fitted on."""
    return [additive_parts(setup, [sweeps[r] for r in fit]) for fit, _ in _folds(len(sweeps))]


def _subtract_explained(
    setup: GameSetup, sweeps: list[Sweep], cells: Floats, donors: Indices, parts: list[Floats], leaves_out_own: bool,
    swapped: int = 0,
) -> None:  # fmt: skip
    """Subtract what the controls explain of each cell, (n, R, p), in place.

    swapped: of walks that are read in both directions, 1 for half the sum of both readings, -1 for half their
    difference; the controls are then half the sum, or difference, of those of both pairs.
    """
    y, f = _target(setup), single_number(setup.sample.prediction[:, None])
    assert y is not None and f is not None  # noqa: PT018  # `_has_controls` checks it
    weight, (n, R, p) = setup.sample.weight, cells.shape
    folds, blocks = _folds(R), _blocks(n, R, p)

    def controls(k: int, rows: slice, some: Indices) -> Iterator[Floats]:
        """Of some sweeps, player by player, with the parts of the k-th fold."""
        lent, orders = donors[rows][:, some], np.stack([sweeps[r].orders[rows] for r in some], axis=1)
        at, terms = np.arange(n)[rows, None], _order_terms(parts[k], lent, orders, rows)
        for j in range(p):
            c, term = parts[k][:, j], terms[:, :, j]
            there = _controls(c, term, f[:, 0], y, at, lent, weight, leaves_out_own)
            if swapped:  # in reverse, a term of the order changes its sign
                there += swapped * _controls(c, -term, f[:, 0], y, lent, at, weight, leaves_out_own)
                there /= 2
            yield there

    slopes = np.zeros((len(folds), p, CONTROLS))
    for k, (fit, _) in enumerate(folds):
        fits = [_LeastSquares(CONTROLS) for _ in range(p)]
        for rows in blocks:
            counts = weight[rows, None] * weight[donors[rows][:, fit]]
            for j, control in enumerate(controls(k, rows, fit)):
                fits[j].add_within_rows(control, cells[rows][:, fit, j], counts)
        slopes[k] = [one.slopes() for one in fits]
    for rows in blocks:  # once both folds are fitted, to cells as they were
        for k, (_, use) in enumerate(folds):
            for j, control in enumerate(controls(k, rows, use)):
                cells[rows, use, j] -= control @ slopes[k, j]


@one_thread()
def without_order_terms(setup: GameSetup, sweeps: list[Sweep], cells: Floats, is_donor: Mask) -> Floats:
    """Shares of walks from all donors together, without the effect of the order, (n, R, p).

    The terms of a walk sum to 0 over the players, and all players have one slope: a row's shares still sum to its gain.
    """
    y, f = _target(setup), single_number(setup.sample.prediction[:, None])
    if y is None or f is None or setup.p < 2:
        return cells
    steps = np.mean([one.steps for one in sweeps if one.steps is not None], axis=0)
    parts, weight, (n, R, p) = _own_parts(setup, steps, is_donor), setup.sample.weight, cells.shape
    blocks = _blocks(n, R, 3 * p) if R > 1 else [slice(0, n)]  # with a single sweep, means over rows

    def controls(rows: slice) -> Floats:
        terms = _order_terms(parts, None, np.stack([one.orders[rows] for one in sweeps], axis=1), rows)
        return np.stack([terms, terms * y[rows, None, None], terms * f[rows, :, None]], axis=3)

    fit = _LeastSquares(3)
    for rows in blocks:
        control, some, axis = controls(rows), cells[rows], 1 if R > 1 else 0
        inner, target = (part - part.mean(axis=axis, keepdims=True) for part in (control, some))
        counts = np.broadcast_to(weight[rows, None, None], some.shape).reshape(-1)
        fit.add(inner.reshape(-1, 3), target.reshape(-1), counts)
    slopes, left = fit.slopes(), np.empty_like(cells)
    for rows in blocks:
        left[rows] = cells[rows] - controls(rows) @ slopes
    return left


def _target(setup: GameSetup) -> Floats | None:
    """The target as a number: its value, or 1 for the second of two classes; None for other targets."""
    y, classes = setup.sample.y, setup.sample.classes
    if y is None or setup.loss is None or setup.loss.reads == "labels" or y.dtype.kind not in "biuf":
        return None
    return np.asarray(y, float) if classes is None or len(classes) == 2 else None


def _order_terms(parts: Floats, donors: Indices | None, orders: NDArray[np.int16], rows: slice = slice(None)) -> Floats:
    """``d_j (sum of d before j - sum of d after j)``, d = c(row) - c(donor): a reversed order changes its sign.

    This is how the squared loss of a sum depends on the order.
    """
    own = parts[rows, None]
    gaps = np.broadcast_to(own, orders.shape) if donors is None else own - parts[donors]
    gaps = np.take_along_axis(gaps, orders.astype(np.intp), axis=2)
    up_to = np.cumsum(gaps, axis=2)
    terms = gaps * (2 * up_to - gaps - up_to[:, :, -1:])
    return np.take_along_axis(terms, np.argsort(orders, axis=2), axis=2)


def _controls(
    c: Floats, term: Floats, f: Floats, y: Floats, at: Indices, donors: Indices, weight: Floats, leaves_out_own: bool
) -> Floats:
    """(n, R, controls): products of a row's and a donor's variables, and terms of the order.

    Rows and donors have the shape (n, R) together.
    """
    # Corrects for the missing pair of a row with itself.
    own = weight / (1 - weight) if leaves_out_own else np.zeros(len(weight))

    def centred(values: Floats) -> Floats:
        return np.asarray(values - weight @ values)

    of_row = [centred(values) for values in (c, f, y, y * f, y * c)]
    of_donor = [centred(values) for values in (c, f)]
    products = [a[at] * b[donors] + (own * a * b)[at] for a in of_row for b in of_donor]
    terms = [term, term * y[at], term * f[at], term * f[donors]]
    return np.stack([*products, *terms], axis=2)


class _LeastSquares:
    """Weighted least-squares slopes; what they are fitted to is added a few rows at a time."""

    def __init__(self, k: int) -> None:
        self.count, self.squares, self.gram, self.pull = 0, np.zeros(k), np.zeros((k, k)), np.zeros(k)

    def add(self, inner: Floats, target: Floats, counts: Floats) -> None:
        """Controls (m, k), what they explain, and weights."""
        weighted = inner * counts[:, None]
        self.count += len(inner)
        self.squares += np.square(inner).sum(axis=0)
        self.gram += weighted.T @ inner
        self.pull += weighted.T @ target

    def add_within_rows(self, controls: Floats, cells: Floats, counts: Floats) -> None:
        """Cells of some rows, (b, R), about their mean in each row; as they are where each row has one."""
        inner, target = controls, cells
        if cells.shape[1] > 1:
            inner, target = inner - inner.mean(axis=1, keepdims=True), target - target.mean(axis=1, keepdims=True)
        self.add(inner.reshape(-1, inner.shape[2]), target.ravel(), counts.ravel())

    def slopes(self) -> Floats:
        """0 for controls that are 0 throughout."""
        size = np.sqrt(self.squares / max(self.count, 1))
        used, slopes = np.flatnonzero(size > 0), np.zeros(len(size))
        if len(used):
            scale = size[used]
            gram = self.gram[np.ix_(used, used)] / (scale[:, None] * scale)
            slopes[used] = np.linalg.lstsq(gram, self.pull[used] / scale, rcond=1e-10)[0] / scale
        return slopes


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
