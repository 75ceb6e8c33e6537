"""Control variates: less Monte-Carlo noise from the same walks, by regression on variables of known mean 0.

Over all pairs and orders the mean of each control is exactly 0, so that subtracting a multiple of it changes no
expectation. The total of a walk is one: its mean over all pairs is known, because both ends are. Others come from an
additive approximation of the prediction (`additive_parts`), estimated from the steps of the walks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from losslens.blas import one_thread
from losslens.results.shapley import Shares, mean_of, with_mean
from losslens.shapley.setup import FullGain, GameSetup, fetched, value_bins
from losslens.shapley.walks import Sweep, single_number
from losslens.shapley.way import own_donors
from losslens.typing import Floats, Indices, Mask

CONTROLS = 14  # of each player
CELLS_PER_CONTROL = 20  # fewer would fit noise
HALF = 0.5 - 1e-6  # of the weight
AT_ONCE = 1 << 16  # numbers of a temporary array: cells are corrected a few rows at a time


Gathered = tuple[Floats, Shares, Any]  # SFIMP, the shares of rows and donors, and those of pairs, (n, m, p)


@one_thread()
def gather(
    setup: GameSetup, sweeps: list[Sweep], gain: FullGain | None, *, leaves_out_own: bool, xp: Any = np
) -> Gathered:
    """SFIMP and the shares of rows, donors and pairs, with as little noise as the walks' controls allow.

    The shares of a row or donor sum to its gain over all pairs, if that is given. xp: the library of the sweeps'
    arrays, and of the pairs'.
    """
    if gain is not None:
        gain = FullGain(xp.asarray(gain.by_row), xp.asarray(gain.by_donor))
    walks = _Walks(setup, sweeps, xp, leaves_out_own)
    if sweeps[0].back is not None:
        return _gather_both_ways(walks, gain)
    cells = xp.stack([one.shares for one in sweeps], axis=1)
    donors = np.stack([one.donors for one in sweeps], axis=1)
    if walks.has_controls:
        _subtract_explained(walks, {0: cells}, xp.asarray(donors), _fold_parts(walks))
    by_row, by_donor = _sums(walks, cells, xp.asarray(donors), gain)
    local = fetched(by_row.means())
    sfimp = mean_of(local, walks.mass)
    caused = with_mean(fetched(by_donor.means()), walks.mass, sfimp)
    pairs = own_donors(donors, repeats=True, fresh=True, leaves_out_own=leaves_out_own)
    return sfimp, Shares(local, caused, pairs), cells


class _Walks:
    """Sweeps, and weights of the rows, as arrays of the sweeps' library."""

    def __init__(self, setup: GameSetup, sweeps: list[Sweep], xp: Any, leaves_out_own: bool) -> None:
        self.setup, self.sweeps, self.xp, self.leaves_out_own = setup, sweeps, xp, leaves_out_own
        self.n, self.p, weight = setup.n, setup.p, setup.sample.weight
        self.weight, self.mass = xp.asarray(weight), weight * (1 - weight) if leaves_out_own else weight

    @property
    def has_controls(self) -> bool:
        """Whether there are enough cells to fit controls to."""
        setup, sweeps = self.setup, self.sweeps
        if setup.p < 2 or len(sweeps) < 2 or any(one.steps is None for one in sweeps):
            return False
        if self.leaves_out_own and setup.sample.weight.max() >= HALF:  # then no control has mean 0 for all rows
            return False
        return _target(setup) is not None and setup.n * (len(sweeps) // 2) >= CELLS_PER_CONTROL * CONTROLS

    def blocks(self, numbers: int) -> list[slice]:
        """Slices of rows whose temporary arrays, of so many numbers a row, are small."""
        return _blocks(self.n, numbers, self.xp)


def _gather_both_ways(walks: _Walks, gain: FullGain | None) -> Gathered:
    """The same from walks that are read in both directions.

    Half the sum of a walk's two readings is all that SFIMP depends on; half their difference says how the two rows
    share it, and its mean over all pairs is 0. Either has controls and slopes of its own.
    """
    sweeps, xp, n, p = walks.sweeps, walks.xp, walks.n, walks.p
    R = len(sweeps)
    parts = _fold_parts(walks) if walks.has_controls else None  # before the cells take memory
    cells, partners = xp.empty((n, 2 * R, p)), np.empty((n, 2 * R), np.intp)
    mean, half_gap = cells[:, :R], cells[:, R:]
    for r, one in enumerate(sweeps):
        partners[:, r], partners[one.donors, R + r] = one.donors, np.arange(n)  # every row is a donor once a sweep
    blocks = _blocks(R, n * p, xp)
    for some in blocks:
        there = xp.stack([one.shares for one in sweeps[some]], axis=1)
        back = xp.stack([one.back for one in sweeps[some]], axis=1)
        mean[:, some], half_gap[:, some] = (there + back) / 2, (there - back) / 2
    sent = xp.asarray(partners)
    donors = sent[:, :R]
    if parts is not None:
        _subtract_explained(walks, {1: mean, -1: half_gap}, donors, parts)
    gains: list[FullGain | None] = [None, None]
    if gain is not None:
        both, gap = (gain.by_row + gain.by_donor) / 2, (gain.by_row - gain.by_donor) / 2
        gains = [FullGain(both, both), FullGain(gap, -gap)]
    one_role = []
    for part, of_part, sign in ((mean, gains[0], 1), (half_gap, gains[1], -1)):
        by_row, by_donor = _sums(walks, part, donors, of_part)
        by_row.total += sign * by_donor.total
        by_row.mass += by_donor.mass
        one_role.append(fetched(by_row.means()))
    sfimp, half_gaps = mean_of(one_role[0], walks.mass), with_mean(one_role[1], walks.mass, np.zeros(p))
    for some in blocks:
        there, back = mean[:, some] + half_gap[:, some], mean[:, some] - half_gap[:, some]
        mean[:, some], half_gap[:, some] = there, back[sent[:, R:][:, some], xp.arange(back.shape[1])]
    pairs = own_donors(partners, repeats=True, fresh=True, leaves_out_own=walks.leaves_out_own, mirrored=True)
    return sfimp, Shares(one_role[0] + half_gaps, one_role[0] - half_gaps, pairs), cells


def _sums(walks: _Walks, cells: Any, donors: Any, gain: FullGain | None) -> tuple[_Means, _Means]:
    """Of rows and of donors; each walk's excess over the known gains is subtracted, in place."""
    weight, xp, (n, R, p) = walks.weight, walks.xp, cells.shape
    slopes = None if gain is None else _slopes(walks, cells, donors, gain)
    by_row, by_donor = _Means(n, p, xp), _Means(n, p, xp)
    for rows in walks.blocks(4 * R * p):
        some, donor_weight = cells[rows], weight[donors[rows]]
        by_row.mass[rows] = donor_weight.sum(axis=1)
        if gain is None or slopes is None:
            by_row.total[rows] = xp.einsum("irp,ir->ip", some, donor_weight)
            by_donor.add(some, donors[rows], weight[rows])
            continue
        walked, excess = _excess(some, donors[rows], gain, weight, rows)
        of_row = some - (walked - gain.by_row[rows, None])[:, :, None] * slopes
        by_row.total[rows] = xp.einsum("irp,ir->ip", of_row, donor_weight)
        by_donor.add(some - (walked - gain.by_donor[donors[rows]])[:, :, None] * slopes, donors[rows], weight[rows])
        cells[rows] = some - excess[:, :, None] * slopes
    return by_row, by_donor


@one_thread()
def subtract_centred(cells: Floats, controls: Floats, default: Floats) -> None:
    """Subtract from cells (p, r, R), in place, what variables of mean 0 explain, (k, p, r, R).

    Their slopes are fitted to the other half of the sweeps; where these are too few they are the default ones, (k,).
    """
    p, r, R = cells.shape
    slopes, folds = [np.tile(default, (p, 1))] * 2, _folds(R)
    if R > 1 and r * (R // 2) >= CELLS_PER_CONTROL * len(default):
        for fold, (fit, _) in enumerate(folds):
            squares = _LeastSquares(p, len(default))
            some = np.ascontiguousarray(controls[..., fit].swapaxes(0, 1))
            squares.add_within_rows(some, cells[..., fit], np.ones(some[0, 0].shape))
            slopes[fold] = squares.slopes()
    for of_fold, (_, use) in zip(slopes, folds, strict=False):
        cells[..., use] -= np.einsum("kprR,pk->prR", controls[..., use], of_fold)


def _blocks(n: int, numbers: int, xp: Any = np) -> list[slice]:
    """Slices of n things whose temporary arrays, of so many numbers each, are small; those of a device are larger."""
    step = max(1, getattr(xp, "at_once", AT_ONCE) // numbers)
    return [slice(start, start + step) for start in range(0, n, step)]


def _folds(sweeps: int) -> list[tuple[slice, slice]]:
    """Cross-fitting: sweeps to fit on, and sweeps to apply the fit to, so that no sweep is fitted to its own noise."""
    even, odd = slice(0, None, 2), slice(1, None, 2)
    return [(even, even)] if sweeps == 1 else [(odd, even), (even, odd)]


class _Means:
    """Means over the cells of each row, or of each donor, whose sums are computed a few rows at a time."""

    def __init__(self, n: int, p: int, xp: Any) -> None:
        self.total, self.mass, self.sums_by_key = xp.zeros((n, p)), xp.zeros(n), getattr(xp, "sums_by_key", None)

    def add(self, cells: Any, donors: Any, weight: Any) -> None:
        """Cells of some rows, (b, R, p), their donors and the weight of the rows."""
        if self.sums_by_key is not None:  # a device, which would have little to do for one sweep
            of_donors = self.sums_by_key(donors, len(self.mass))
            self.total += of_donors(weight[:, None, None] * cells)
            self.mass += of_donors(weight[:, None].expand(donors.shape))
            return
        for r in range(cells.shape[1]):  # every donor once a sweep
            self.total[donors[:, r]] += weight[:, None] * cells[:, r]
            self.mass[donors[:, r]] += weight

    def means(self) -> Any:
        """NaN for a row whose donors all have weight 0."""
        with np.errstate(invalid="ignore"):
            return self.total / self.mass[:, None]


def _excess(cells: Any, donors: Any, gain: FullGain, weight: Any, rows: slice) -> tuple[Any, Any]:
    """The total of each walk, and what exceeds the known gains of its row and donor: its mean over either is 0."""
    walked = cells.sum(axis=2)
    return walked, walked - gain.by_row[rows, None] - gain.by_donor[donors] + gain.total(weight)


def _slopes(walks: _Walks, cells: Any, donors: Any, gain: FullGain) -> Any:
    """Each player's average part of a walk's excess, (R, p); the parts sum to one in every sweep."""
    weight, xp, (_, R, p) = walks.weight, walks.xp, cells.shape
    folds, size = _folds(R), xp.zeros(p)
    sums = [xp.zeros(3 + p) for _ in folds]
    for rows in walks.blocks(4 * R * p):
        some = cells[rows]
        walked, excess = _excess(some, donors[rows], gain, weight, rows)
        counts = weight[rows, None] * weight[donors[rows]]
        size += abs(some).sum(axis=(0, 1))
        for (fit, _), of_fold in zip(folds, sums, strict=True):
            inner = excess[:, fit]
            if inner.shape[1] > 1:
                inner = inner - inner.mean(axis=1, keepdims=True)
            pull = inner * counts[:, fit]
            of_fold[0] += (pull * walked[:, fit]).sum()
            of_fold[1] += (pull * excess[:, fit]).sum()
            of_fold[2] += (counts[:, fit] * walked[:, fit] ** 2).sum()
            of_fold[3:] += xp.einsum("irp,ir->p", some[:, fit], pull)
    slopes, size = np.empty((R, p)), fetched(size)
    for (_, use), (spread, own, square, *pulled) in zip(folds, map(fetched, sums), strict=True):
        # `walked` holds the effects of the drawn rows and donors: where these are large, slopes are unstable.
        if own > 1e-12 * square and 0.5 <= spread / own <= 2:
            slopes[use] = np.array(pulled) / spread
        else:  # proportional to size: a player that changes nothing keeps a share of 0
            slopes[use] = size / size.sum() if size.any() else 1 / p
    return xp.asarray(slopes)


def _fold_parts(walks: _Walks) -> list[Any]:
    """The additive approximation of the prediction, from the sweeps that each fold is fitted on."""
    return [additive_parts(walks.setup, walks.sweeps[fit], xp=walks.xp) for fit, _ in _folds(len(walks.sweeps))]


def _subtract_explained(walks: _Walks, cells: dict[int, Any], donors: Any, parts: list[Any]) -> None:
    """Subtract what the controls explain of each cell, (n, R, p), in place.

    The keys say which cells these are. 0: of walks in one direction. Of walks that are read in both directions, 1: half
    the sum of both readings, -1: half their difference; their controls are half the sum, or difference, of those of
    both pairs.
    """
    weight, xp, sweeps, n, R, p = walks.weight, walks.xp, walks.sweeps, walks.n, len(walks.sweeps), walks.p
    folds, blocks = _folds(R), walks.blocks(R * p * CONTROLS)
    variables = [_Controls(walks, of_fold) for of_fold in parts]

    def controls(k: int, rows: slice, some: slice) -> Iterator[tuple[int, Any]]:
        """Of some sweeps, for each of the cells, (p, controls, b, sweeps), with the parts of the k-th fold."""
        others, orders = donors[rows][:, some], xp.stack([one.orders[rows] for one in sweeps[some]], axis=1)
        rows_of_walks, terms = xp.arange(n)[rows, None], _by_player(_order_terms(parts[k], others, orders, rows, xp))
        there = variables[k].of(terms, rows_of_walks, others)
        if 0 in cells:
            yield 0, there
            return
        back = variables[k].of(-terms, others, rows_of_walks)  # in reverse, a term of the order changes its sign
        there /= 2
        back /= 2
        yield 1, there + back
        there -= back
        yield -1, there

    slopes: dict[tuple[int, int], Any] = {}
    for k, (fit, _) in enumerate(folds):
        fits = {sign: _LeastSquares(p, CONTROLS, xp) for sign in cells}
        for rows in blocks:
            counts = weight[rows, None] * weight[donors[rows][:, fit]]
            for sign, control in controls(k, rows, fit):
                fits[sign].add_within_rows(control, _by_player(cells[sign][rows][:, fit]), counts)
        slopes |= {(k, sign): xp.asarray(one.slopes()) for sign, one in fits.items()}
    for rows in blocks:  # once both folds are fitted, to cells as they were
        for k, (_, use) in enumerate(folds):
            for sign, control in controls(k, rows, use):
                some = _by_player(cells[sign][rows][:, use])
                some -= (slopes[k, sign][:, None] @ control.reshape(p, CONTROLS, -1)).reshape(some.shape)


def _by_player(cells: Any) -> Any:
    """Cells with the players first, (p, b, R): the others are vectors then, as products of short rows are slow."""
    return cells.swapaxes(1, 2).swapaxes(0, 1)


@one_thread()
def without_order_terms(setup: GameSetup, sweeps: list[Sweep], cells: Floats, parts: Floats) -> Floats:
    """Shares of walks from all donors together, without the effect of the order, (n, R, p).

    parts: what each player adds to each row's mean prediction, (n, p). The terms of a walk sum to 0 over the players,
    and all players have one slope: a row's shares still sum to its gain.
    """
    y, f = _target(setup), single_number(setup.sample.prediction[:, None])
    if y is None or f is None or setup.p < 2:
        return cells
    weight, (n, R, p) = setup.sample.weight, cells.shape
    blocks = _blocks(n, 3 * R * p) if R > 3 else [slice(0, n)]  # with a single sweep in a fold, means over rows

    def controls(rows: slice) -> Floats:
        terms = _order_terms(parts, None, np.stack([one.orders[rows] for one in sweeps], axis=1), rows)
        return np.stack([terms, terms * y[rows, None, None], terms * f[rows, :, None]], axis=3)

    folds, left = _folds(R), np.empty_like(cells)
    fits = [_LeastSquares(1, 3) for _ in folds]
    for rows in blocks:
        for of_fold, (fit, _) in zip(fits, folds, strict=True):
            control, some = controls(rows)[:, fit], cells[rows, fit]
            axis = 1 if some.shape[1] > 1 else 0
            inner, target = (part - part.mean(axis=axis, keepdims=True) for part in (control, some))
            counts = np.broadcast_to(weight[rows, None, None], some.shape).reshape(-1)
            of_fold.add(inner.reshape(-1, 3).T[None], target.reshape(1, -1), counts)
    for rows in blocks:
        for of_fold, (_, use) in zip(fits, folds, strict=True):
            left[rows, use] = cells[rows, use] - controls(rows)[:, use] @ of_fold.slopes()[0]
    return left


def _target(setup: GameSetup) -> Floats | None:
    """The target as a number: its value, or 1 for the second of two classes; None for other targets."""
    y, classes = setup.sample.y, setup.sample.classes
    if y is None or setup.loss is None or setup.loss.reads in ("labels", "outputs") or y.dtype.kind not in "biuf":
        return None
    return np.asarray(y, float) if classes is None or len(classes) == 2 else None


def _order_terms(parts: Any, donors: Any, orders: Any, rows: slice = slice(None), xp: Any = np) -> Any:
    """``d_j (sum of d before j - sum of d after j)``, d = c(row) - c(donor): a reversed order changes its sign.

    This is how the squared loss of a sum depends on the order.
    """
    own = parts[rows, None]
    gaps = np.broadcast_to(own, orders.shape) if donors is None else own - parts[donors]
    gaps = xp.take_along_axis(gaps, orders, axis=2)
    up_to = xp.cumsum(gaps, axis=2)
    terms = gaps * (2 * up_to - gaps - up_to[:, :, -1:])
    return xp.take_along_axis(terms, xp.argsort(orders, axis=2), axis=2)


class _Controls:
    """The controls of all players: products of variables of the row and of the donor, and terms of the order."""

    def __init__(self, walks: _Walks, parts: Any) -> None:
        self.xp, sample = walks.xp, walks.setup.sample
        y, f = _target(walks.setup), single_number(sample.prediction[:, None])
        assert y is not None and f is not None  # noqa: PT018  # `_Walks.has_controls` checks it
        self.y, self.f, c = walks.xp.asarray(y)[None], walks.xp.asarray(f[:, 0])[None], parts.T
        variables = (c, self.f, self.y, self.y * self.f, self.y * c)  # (p, n), or (1, n) of all players
        self.of_row = [one - (one @ walks.weight)[:, None] for one in variables]
        self.of_donor, self.own = self.of_row[:2], None
        if walks.leaves_out_own:
            self.own = [_of_own_pairs(a * b, walks.weight) for a in self.of_row for b in self.of_donor]

    def of(self, terms: Any, rows: Any, donors: Any) -> Any:
        """(p, controls, b, R), from terms of the order, (p, b, R), and from rows and donors, (b, R) or (b, 1)."""
        of_row, of_donor = [one[:, rows] for one in self.of_row], [one[:, donors] for one in self.of_donor]
        pairs = [(a, b) for a in of_row for b in of_donor]
        factors = [None, self.y[:, rows], self.f[:, rows], self.f[:, donors]]
        controls = self.xp.empty((len(terms), len(pairs) + len(factors), *terms.shape[1:]))
        for q, (a, b) in enumerate(pairs):
            # The sum of both first: what is equal in both directions is so to the last bit, and its difference 0.
            controls[:, q] = a * b if self.own is None else a * b + (self.own[q][:, rows] + self.own[q][:, donors])
        for q, factor in enumerate(factors, len(pairs)):
            controls[:, q] = terms if factor is None else terms * factor
        return controls


def _of_own_pairs(products: Any, weight: Any) -> Any:
    """u of each row, (p, n), that makes ``a_i b_k + u_i + u_k`` of mean 0 over the other rows k, and over the other i.

    products: those of a row with itself, q_i = a_i b_i, with a and b of mean 0. ``(1 - 2 w_i) u_i = w_i q_i - U`` with
    U the mean of u.
    """
    left = 1 - 2 * weight
    mean = (products * (weight * weight / left)).sum(axis=1) / (1 + (weight / left).sum())
    return (weight * products - mean[:, None]) / left


class _LeastSquares:
    """Weighted least-squares slopes of each player; what they are fitted to is added a few rows at a time."""

    def __init__(self, p: int, k: int, xp: Any = np) -> None:
        self.count, self.squares, self.gram, self.pull = 0, xp.zeros((p, k)), xp.zeros((p, k, k)), xp.zeros((p, k))

    def add(self, inner: Any, target: Any, counts: Any) -> None:
        """Controls (p, k, m), what they explain, (p, m), and weights, (m,)."""
        weighted = inner * counts
        self.count += inner.shape[2]
        self.gram += weighted @ inner.swapaxes(1, 2)
        self.pull += (weighted @ target[:, :, None])[:, :, 0]
        self.squares += (inner * inner).sum(axis=2)

    def add_within_rows(self, controls: Any, cells: Any, counts: Any) -> None:
        """Cells of some rows, (p, b, R), about their mean in each row; as they are where each row has one.

        The controls are overwritten: they are many.
        """
        p, k = controls.shape[:2]
        if cells.shape[2] > 1:
            controls -= controls.mean(axis=3, keepdims=True)
            cells = cells - cells.mean(axis=2, keepdims=True)
        self.add(controls.reshape(p, k, -1), cells.reshape(p, -1), counts.reshape(-1))

    def slopes(self) -> Floats:
        """(p, k); 0 for controls that are 0 throughout."""
        every = zip(*(fetched(sums) for sums in (self.squares, self.gram, self.pull)), strict=True)
        return np.stack([self._solved(*of_player) for of_player in every])

    def _solved(self, squares: Floats, all_gram: Floats, pull: Floats) -> Floats:
        """The slopes of one player, (k,); controls are first divided by their size, so that rounding loses none."""
        size = np.sqrt(squares / max(self.count, 1))
        used, slopes = np.flatnonzero(size > 0), np.zeros(len(size))
        if len(used):
            scale = size[used]
            gram = all_gram[np.ix_(used, used)] / (scale[:, None] * scale)
            slopes[used] = np.linalg.lstsq(gram, pull[used] / scale, rcond=1e-10)[0] / scale
        return slopes


# The additive approximation of the prediction.


@one_thread()
def additive_parts(setup: GameSetup, sweeps: list[Sweep], rows: Indices | None = None, xp: Any = np) -> Any:
    """c_j of each row, (n, p), centred: the least-squares fit ``step = c_j(row) - c_j(donor)`` on bins of values."""
    weight, parts = setup.sample.weight, np.zeros((setup.n, setup.p))
    own = xp.asarray(np.tile(np.arange(setup.n) if rows is None else rows, len(sweeps)))
    donors = xp.asarray(np.concatenate([one.donors for one in sweeps]))
    steps = xp.concatenate([one.steps for one in sweeps])
    together = _BinPairs(own, donors, xp)
    same = together.same_column(setup.bins, steps)
    for j, bins in enumerate(setup.bins):
        gram, pull = together.normal_equations(bins, [next(same) for _ in range(bins.shape[1])])
        gram += np.eye(len(gram)) * (1e-3 * np.trace(gram) / len(gram) + 1e-300)
        values = np.linalg.solve(gram, pull)[bins].sum(axis=1)
        parts[:, j] = values - weight @ values
    return xp.asarray(parts)


@dataclass(frozen=True, eq=False)
class _BinPairs:
    """How often bins of values occur together in the pairs of walks."""

    own: Any  # (pairs,): the row
    donors: Any  # (pairs,)
    xp: Any

    def same_column(self, bins: list[Indices], steps: Any) -> Iterator[tuple[Floats, Floats]]:
        """Of each column of each player: how often a row's bin meets a donor's, and the sum of steps where it does."""
        xp, size = self.xp, 1 + max(int(of_player.max()) for of_player in bins)
        columns, player = np.concatenate(bins, axis=1), np.repeat(np.arange(len(bins)), [b.shape[1] for b in bins])
        for some in _blocks(len(player), max(len(self.own), size * size), xp):
            sent, moved = xp.asarray(columns[:, some]), steps[:, xp.asarray(player[some])]
            first = xp.arange(sent.shape[1]) * size * size  # a table for each column
            keys, cells = (first + sent[self.own] * size + sent[self.donors]).reshape(-1), sent.shape[1] * size * size
            tables = (xp.bincount(keys, None, cells), xp.bincount(keys, moved.reshape(-1), cells))
            yield from zip(*(fetched(one).reshape(-1, size, size) for one in tables), strict=True)

    def normal_equations(self, bins: Indices, same: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
        """Normal equations of step = sum of the row's bins - sum of the donor's bins, of a player's columns."""
        size = int(bins.max()) + 1
        gram, pull = np.zeros((size, size)), np.zeros(size)
        for together, moved in ((together[:size, :size], moved[:size, :size]) for together, moved in same):
            pull += moved.sum(axis=1) - moved.sum(axis=0)
            gram += np.diag(together.sum(axis=1) + together.sum(axis=0)) - together - together.T
        for a in range(bins.shape[1]):
            for b in range(a):
                gram += self._two_columns(self.xp.asarray(bins[:, a]), self.xp.asarray(bins[:, b]), size)
        return gram, pull

    def _two_columns(self, a: Any, b: Any, size: int) -> Floats:
        """What two columns of a player add to its normal equations."""
        total, own, donors = np.zeros(size * size), self.own, self.donors
        for first, second, sign in ((own, own, 1), (donors, donors, 1), (own, donors, -1), (donors, own, -1)):
            total += sign * fetched(self.xp.bincount(a[first] * size + b[second], None, size * size))
        table = total.reshape(size, size)
        return table + table.T


@one_thread()
def own_parts(setup: GameSetup, sweeps: list[Sweep], is_donor: Mask) -> Floats:
    """c_j of each row minus its mean over the donors, (n, p): the mean step of the rows in a bin."""
    steps = np.mean([one.steps for one in sweeps if one.steps is not None], axis=0)
    weight, parts = setup.sample.weight, np.zeros((setup.n, setup.p))
    for j, player in enumerate(setup.players):
        bins = value_bins(player.distinct.codes)
        mass = np.bincount(bins, weight) + 1e-300
        values = (np.bincount(bins, weight * steps[:, j]) / mass)[bins]
        parts[:, j] = values - np.average(values[is_donor], weights=weight[is_donor] + 1e-300)
    return parts
