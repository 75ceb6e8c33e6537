"""Walks: turn a donor into a row, one player at a time; what each step takes off the loss is that player's share.

A walk draws an order of the players and a pair (i, k). Both ends are known, so that p - 1 predictions give all p
contributions. One *sweep* is n walks: every row once, every donor once.


Sweeps of walks until a rule is met; what was walked is valid whenever it ends, by the rule or by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from losslens.game_theory import along, random_orders
from losslens.progress import Teller
from losslens.results.shapley import Shares
from losslens.shapley.allotment import Allotment
from losslens.shapley.games import Board
from losslens.shapley.stopping import MOST_PREDICTIONS, StoppingRule, enough, stein
from losslens.typing import Floats, Indices, Mask

STEPS_AT_ONCE = 1 << 18  # steps that are walked at a time
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
    together = max(1, STEPS_AT_ONCE // (p + 1))
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


def own_parts(board: Board, steps: Floats, lends: Mask) -> Floats:
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


PREDICTIONS_BETWEEN_CHECKS = 30_000  # predictions between two looks at the clock and the keyboard
GROWTH = 4  # times as many sweeps at most before the next look: the first one may have seen little
SAID = 100  # of the last sweeps, from which the interval beside the bar is estimated


@dataclass(frozen=True, eq=False)
class Summary:
    """What some sweeps say together."""

    sfimp: Floats  # (p,)
    shares: Shares
    monte_carlo_error: Floats  # (p,); NaN where there are too few sweeps to tell
    total: float  # what the features earn together
    gains: Floats  # (n,)


class Walk(Protocol):
    """One kind of walk, on one board."""

    @property
    def cost(self) -> int:
        """The most predictions that a sweep takes."""

    @property
    def fewest(self) -> int:
        """Sweeps before anything is decided."""

    @property
    def size(self) -> int:
        """Bytes that a sweep holds."""

    @property
    def total(self) -> float | None:
        """What the features earn together, where that is known without walking."""

    @property
    def total_error(self) -> float:
        """Its standard error, on new data."""

    def sweeps(self, count: int) -> list[Any]:
        """In each every row once."""

    def round(self, sweep: Any) -> Floats:
        """The mean of a sweep, (p,)."""

    def summary(self, sweeps: list[Any]) -> Summary:
        """What the sweeps say together."""

    def sampling(self, found: Summary) -> Floats:
        """The sampling error of each player, (p,); infinite where there are too few rows for one."""

    def design(self, sweeps: int) -> str:
        """What was drawn, in words."""

    @property
    def remarks(self) -> list[str]:
        """What a reader should know."""


@dataclass(frozen=True, eq=False)
class Walking:
    """A walk under a rule."""

    board: Board
    walk: Walk
    rule: StoppingRule
    room: int  # bytes for what the sweeps hold
    tell: Teller

    @property
    def most(self) -> int:
        """Sweeps that the budget and the memory allow."""
        board, cost = self.board, max(1, self.walk.cost)
        by_budget = ((self.rule.budget or MOST_PREDICTIONS) - board.counter.rows) // cost
        by_memory = self.room // self.walk.size
        if by_memory < 1:
            raise ValueError(f"memory is too small for {board.n:,} walks of {board.p} steps; raise memory=")
        if self.rule.budget is not None and by_budget < 1:
            raise ValueError(
                f"budget={self.rule.budget:,} is too small: one sweep of walks takes up to {cost:,} predictions, and "
                f"{board.n:,} are for the rows as they are"
            )
        if self.rule.sweeps is not None:
            if by_memory < self.rule.sweeps:
                raise ValueError(f"memory is too small for {self.rule.sweeps:,} sweeps of walks; raise memory=")
            return self.rule.sweeps
        return int(max(1, min(by_budget, by_memory)))

    def run(self) -> Allotment:
        """Walk until the rule is met, or the user has had enough."""
        walk, most = self.walk, self.most
        width = self.rule.half_width(walk.total, walk.total_error)
        only_budget = self.rule.budget is not None and width is None
        wanted = most if only_budget else min(self.rule.sweeps or walk.fewest, most)
        sweeps: list[Any] = []
        together = max(1, PREDICTIONS_BETWEEN_CHECKS // max(1, walk.cost))
        complete, more = True, 0
        try:
            while len(sweeps) < wanted:
                self.tell.expect(self.board.n + wanted * walk.cost)
                while len(sweeps) < wanted:
                    sweeps += walk.sweeps(min(together, wanted - len(sweeps)))
                    self._say(sweeps)
                more = max(more, self._wanted(sweeps, width, first=more == 0))
                wanted = max(wanted, min(more, most))
        except KeyboardInterrupt:
            if not sweeps:
                raise
            complete = False
        return self._allotment(sweeps, complete, ended=complete and more > len(sweeps))

    def _wanted(self, sweeps: list[Any], width: float | None, *, first: bool) -> int:
        """Sweeps that the rule wants, now that some are there."""
        R = len(sweeps)
        if self.rule.sweeps is not None or (self.rule.budget is not None and width is None):
            return R
        if width is not None and not first:
            return R  # the first stage has decided
        found = self.walk.summary(sweeps)
        drawn = found.monte_carlo_error
        if not np.isfinite(drawn).all():  # too few to tell
            return R if width is None else R + 1
        if width is not None:
            return stein(R * np.square(drawn), width, max(1, self.board.n * (R - 2)))
        more = enough(drawn, self.walk.sampling(found), found.total, R)
        return R if more <= R else min(max(more, ceil(1.25 * R)), GROWTH * R)

    def _say(self, sweeps: list[Any]) -> None:
        if len(sweeps) < 2:
            return
        rounds = np.array([self.walk.round(sweep) for sweep in sweeps[-SAID:]])
        widest = 1.96 * float(rounds.std(axis=0, ddof=1).max()) / np.sqrt(len(sweeps))
        total = self.walk.total
        self.tell.say(f"± {widest:.3g}" if not total else f"± {widest / abs(total):.1%} of the whole")

    def _allotment(self, sweeps: list[Any], complete: bool, ended: bool) -> Allotment:
        found, remarks = self.walk.summary(sweeps), []
        remarks += self.walk.remarks
        if ended:
            reason = "budget=" if self.rule.budget else "the most predictions, or the memory, of a call"
            remarks.append(f"{reason} ended it before the Monte-Carlo error was as small as asked for")
        return Allotment(
            sfimp=found.sfimp,
            method="walks",
            design=self.walk.design(len(sweeps)),
            exact=False,
            error_none=self.board.sample.error + found.total,
            shares=found.shares,
            gains=found.gains,
            monte_carlo_error=found.monte_carlo_error,
            remarks=tuple(remarks),
            complete=complete,
        )
