"""Kinds of walks: from single donors (shares of the loss), from all donors together (SAGE's shares), and to some rows
(shares of their predictions)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Means
from losslens.donors.layout import OwnDonors
from losslens.engines.base import Pairs
from losslens.game_theory import along, random_orders
from losslens.progress import Tick, silent
from losslens.results.shapley import ShapleyImportance, Shares
from losslens.shapley import control_variates
from losslens.shapley.setup import BINS, FullGain, GameSetup, fetched, full_gain
from losslens.shapley.stopping import MOST_PREDICTIONS, StoppingRule, enough, stein
from losslens.shapley.walks import Sweep, Walked, WalkKind, contributions, path, walk_from_donors
from losslens.shapley.way import all_pairs, result
from losslens.tables.sample import Sample
from losslens.text import size_in_words
from losslens.typing import Floats, Indices
from losslens.uncertainty import standard_errors
from losslens.uncertainty.standard_errors import RowColumnFit
from losslens.workers import in_process

SWEEP_BYTES = 48  # per row and player: shares of both readings, steps, orders, and what is made of them
STEPS_AT_ONCE = 1 << 18  # predicted at a time
EFFECT_STEPS_AT_ONCE = 1 << 17
PREDICTIONS_AT_ONCE = 30_000  # between two updates of the progress bar
GROWTH = 4  # at most so many times the sweeps before the next decision: early variances are uncertain,
CERTAIN = 20_000  # unless they have so many degrees of freedom
RECENT = 100  # last sweeps, from which the interval beside the bar is estimated
FIRST_EFFECT_SWEEPS = 10  # before the first stopping decision
PRECISE = 0.01  # of the predictions' standard deviation: sweeps are drawn until the Monte-Carlo error is below
SLOPE_REACH = 0.01  # of the sums' standard deviation, for slopes of a link
STRATA = 4  # of the donors, unless the budget allows less
LINKED_STEPS_AT_ONCE = 1 << 15  # of the sums, which stay in the processor's cache
MIN_WALKS = 40 * BINS  # to estimate additive parts; fewer would fit noise


def check_memory(sweeps: int, rows: int, p: int, memory: int, sweep_bytes: int = SWEEP_BYTES) -> None:
    """Raise ValueError unless the sweeps fit into memory: fewer would be another result."""
    if sweeps * rows * p * sweep_bytes > memory:
        needs = size_in_words(2 * sweeps * rows * p * sweep_bytes)
        raise ValueError(
            f"memory is too small for {sweeps:,} sweeps of walks to {rows:,} rows; pass memory='{needs}', or a smaller "
            "budget="
        )


@dataclass(frozen=True, eq=False)
class WalkSummary:
    """Estimates from some sweeps."""

    sfimp: Floats  # (p,)
    shares: Shares
    monte_carlo_error: Floats  # (p,); NaN with too few sweeps
    total: float  # gain of all players
    gains: Floats  # (n,)
    cells: Any = None  # (n, m, p): shares of each pair, an array of the walks' library
    fits: tuple[tuple[Means, RowColumnFit], ...] = ()  # of rows and donors, for the errors of each player


@dataclass(frozen=True, eq=False, kw_only=True)
class _PerformanceWalk(WalkKind):
    """Walks that distribute the loss, under a stopping rule. A sweep has one walk to each row."""

    rule: StoppingRule
    memory: int  # bytes for the sweeps
    fewest: int  # sweeps before the first stopping decision, unless the rule fixes their number
    fewest_valid = 1

    @property
    @abstractmethod
    def gain(self) -> FullGain | None:
        """By how much all players reduce each row's loss, where that needs no walks."""

    @property
    @abstractmethod
    def total_error(self) -> float:
        """The sampling error of the total gain."""

    @abstractmethod
    def summary(self, sweeps: list[Sweep]) -> WalkSummary:
        """Estimates from these sweeps."""

    @abstractmethod
    def sampling(self, summary: WalkSummary) -> Floats:
        """The sampling error of each player, (p,); infinite where there are too few rows for one."""

    @property
    def total(self) -> float | None:
        """The gain of all players; None where it is not known before walking."""
        return None if self.gain is None else self.gain.total(self.setup.sample.weight)

    @cached_property
    def max_sweeps(self) -> int:
        """The most sweeps that budget and memory allow; a budget alone is spent, or an error."""
        setup, rule, by_budget = self.setup, self.rule, self._by_budget
        if self._by_memory < 1:
            raise ValueError(f"memory is too small for {setup.n:,} walks of {setup.p} steps; raise memory=")
        if rule.budget is not None and by_budget < 1:
            raise ValueError(
                f"budget={rule.budget:,} is too small: one sweep of walks takes up to {self.cost:,} predictions, and "
                f"{setup.n:,} are for the rows as they are"
            )
        if rule.sweeps is not None:
            check_memory(rule.sweeps, setup.n, setup.p, self.memory)
            return rule.sweeps
        if rule.budget is not None and rule.precision is None:
            check_memory(by_budget, setup.n, setup.p, self.memory)
        return int(max(1, min(by_budget, self._by_memory)))

    @property
    def _by_budget(self) -> int:
        return ((self.rule.budget or MOST_PREDICTIONS) - self.setup.counter.rows) // max(1, self.cost)

    @property
    def _by_memory(self) -> int:
        return self.memory // (self.setup.n * self.setup.p * SWEEP_BYTES)

    @cached_property
    def half_width(self) -> float | None:
        """The requested half-width of the intervals, if any."""
        return self.rule.half_width(self.total, self.total_error)

    @property
    def first_sweeps(self) -> int:
        """All that the budget allows, if there is a budget and no precision."""
        half_width = self.half_width  # raises for a precision that can't be met, before anything is predicted
        if self.rule.budget is not None and half_width is None:
            return self.max_sweeps
        return min(self.rule.sweeps or self.fewest, self.max_sweeps)

    @property
    def sweeps_at_once(self) -> int:
        """Sweeps between two updates of the progress bar."""
        return max(1, self.predictions_at_once // max(1, self.cost))

    @property
    def predictions_at_once(self) -> int:
        """Predictions between two updates of the progress bar."""
        return PREDICTIONS_AT_ONCE

    def sweeps_needed(self, sweeps: list[Sweep]) -> int:
        """As the stopping rule says."""
        R, width = len(sweeps), self.half_width
        if self.rule.sweeps is not None or (self.rule.budget is not None and width is None):
            return R
        if width is not None and self.first_sweeps < R:
            return R  # the first stage fixed the number
        if self.fewest > R:  # not reached: the run says so
            return self.fewest
        summary = self._summary_of(sweeps)
        noise = summary.monte_carlo_error
        if not np.isfinite(noise).all():  # too few sweeps for an error
            return R if width is None else R + 1
        if width is not None:
            return stein(R * np.square(noise), width, max(1, self.setup.n * (R - 2)))
        more = enough(noise, self.sampling(summary), summary.total, R)
        if more <= R:
            return R
        more = max(more, ceil(1.25 * R))
        return more if self.setup.n * (R - 2) >= CERTAIN else min(more, GROWTH * R)

    def _summary_of(self, sweeps: list[Sweep]) -> WalkSummary:
        """The summary; the last one is held, as the stopping rule and the result need the same."""
        if len(sweeps) not in self._held:
            self._held.clear()
            self._held[len(sweeps)] = self.summary(sweeps)
        return self._held[len(sweeps)]

    @cached_property
    def _held(self) -> dict[int, WalkSummary]:
        return {}

    def accuracy(self, sweeps: list[Sweep]) -> str:
        """The half-width of the widest interval."""
        read = [one.shares if one.back is None else (one.shares + one.back) / 2 for one in sweeps[-RECENT:]]
        rounds = np.array([self.setup.sample.weight @ fetched(one) for one in read])
        widest = 1.96 * float(rounds.std(axis=0, ddof=1).max()) / np.sqrt(len(sweeps))
        return f"± {widest:.3g}" if not self.total else f"± {widest / abs(self.total):.1%} of the total"

    def result(self, walked: Walked, design: str, remarks: list[str]) -> ShapleyImportance:
        """The shares, and remarks for the reader."""
        summary = self._summary_of(walked.sweeps)
        shares = summary.shares if summary.cells is None else replace(summary.shares, cells=fetched(summary.cells))
        if walked.cut_short:
            reason = "budget=" if self.rule.budget else f"the limit of {MOST_PREDICTIONS:,} predictions"
            reason = "memory=" if self._by_memory < self._by_budget else reason
            drawn = len(walked.sweeps)
            ended = f"ended it after {drawn} of {self.fewest} sweeps, too few to judge the Monte-Carlo error by"
            if drawn >= self.fewest:
                ended = "ended it before the Monte-Carlo error was as small as required"
            remarks = [*remarks, f"{reason} {ended}"]
        return result(
            self.setup, summary.sfimp, "walks", design=design, exact=False, shares=shares, gains=summary.gains,
            error_none=self.setup.sample.error + summary.total, monte_carlo_error=summary.monte_carlo_error,
            remarks=tuple(remarks), complete=walked.complete,
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class LossWalk(_PerformanceWalk):
    """From single donors: in each sweep every row has one."""

    donors: Iterator[Indices]  # one array for each sweep
    leaves_out_own: bool  # no row is its own donor
    both_ways: bool = False  # walks are read in reverse, too: for all pairs, where every column belongs to a player

    @cached_property
    def gain(self) -> FullGain | None:
        """Over all pairs that walks can draw."""
        gain, weight = full_gain(self.setup), self.setup.sample.weight
        if gain is None or not self.leaves_out_own:
            return gain
        if not np.allclose(weight, weight[0]):  # then a row's weight depends on its donors
            return None
        return FullGain(gain.by_row / (1 - weight), gain.by_donor / (1 - weight))

    @property
    def total_error(self) -> float:
        """From the gains of rows and donors."""
        sample, gain = self.setup.sample, self.gain
        if gain is None or sample.units() < 3:
            return np.inf
        means = Means(local=gain.by_row, mass=sample.weight, caused=gain.by_donor, donor_weight=sample.weight)
        return standard_errors.std_error(means, all_pairs(sample.n), sample, np.arange(sample.n))

    @property
    def predictions_at_once(self) -> int:
        """Predictions between two updates of the progress bar."""
        return self.setup.loss_arrays.together or PREDICTIONS_AT_ONCE

    def sweeps(self, count: int) -> list[Sweep]:
        """In each, every row has one donor."""
        setup, donors = self.setup, np.stack([next(self.donors) for _ in range(count)])
        together = max(1, (setup.loss_arrays.together or STEPS_AT_ONCE) // (setup.p + 1))
        return walk_from_donors(
            setup.loss_arrays, np.arange(setup.n), donors, self.rng, together, both_ways=self.both_ways
        )

    def summary(self, sweeps: list[Sweep]) -> WalkSummary:
        """With control variates."""
        setup, sample, gain = self.setup, self.setup.sample, self.gain
        setup.loss_arrays.check()
        sfimp, shares, cells = control_variates.gather(
            setup, sweeps, gain, leaves_out_own=self.leaves_out_own, xp=setup.loss_arrays.xp
        )
        assert isinstance(shares.layout, OwnDonors)
        fits = _fits(setup.loss_arrays.pairs(shares.layout, sample, cells), shares.layout, sample)
        noise = np.sqrt([fit.noise for _, fit in fits]) if fits else np.full(setup.p, np.nan)
        total = float(sfimp.sum()) if self.total is None else self.total
        gains = shares.local.sum(axis=1) if gain is None else gain.by_row
        return WalkSummary(sfimp, shares, noise, total, gains, cells, fits)

    def sampling(self, summary: WalkSummary) -> Floats:
        """From the effects of rows and donors, without the Monte-Carlo error."""
        return sampling_error(self.setup, summary.shares, summary.monte_carlo_error, summary.fits)


def _fits(pairs: Pairs, layout: OwnDonors, sample: Sample) -> tuple[tuple[Means, RowColumnFit], ...]:
    """The means of each player over pairs, and the effects of rows and donors; none where there are too few pairs."""
    try:
        means, weights = pairs.means(), pairs.weights
        fits = standard_errors.fit_several(means, layout, sample, np.arange(sample.n), weights)
    except ValueError:
        return ()
    return tuple(zip(means, fits, strict=True))


def sampling_error(
    setup: GameSetup, shares: Shares, noise: Floats, fits: Sequence[tuple[Means, RowColumnFit | None]] = ()
) -> Floats:
    """The sampling error of each player, (p,); infinite where there are too few rows for one.

    fits: means over pairs and effects of rows and donors, where these are known.
    """
    sample, every = setup.sample, np.arange(setup.n)
    if sample.units() < 3:
        return np.full(setup.p, np.inf)
    known = fits or [(shares.means(j, sample, every), None) for j in range(setup.p)]
    errors = [standard_errors.influence(means, shares.layout, sample, every, fit).std_error for means, fit in known]
    return np.asarray(np.sqrt(np.maximum(np.square(errors) - np.square(noise), 0.0)))


def latin_shifts(n: int, rng: np.random.Generator, *, leaves_out_own: bool) -> Iterator[Indices]:
    """Donors of one sweep after the other: distinct cyclic shifts after random relabellings of rows and donors.

    After n shifts the labels are drawn again. Where no row may be its own donor, rows and donors have the same labels,
    and no shift is zero.
    """
    while True:
        place, donor = rng.permutation(n), rng.permutation(n)
        if leaves_out_own:
            place = np.argsort(donor)
        for shift in int(leaves_out_own) + rng.permutation(n - int(leaves_out_own)):
            yield donor[(place + shift) % n]


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanWalk(_PerformanceWalk):
    """From all donors together, whose predictions are averaged before the loss."""

    donors: Indices  # (B,)

    @property
    def donor_weight(self) -> Floats:
        """The weights of the donors; they sum to one."""
        weight = self.setup.sample.weight[self.donors]
        return np.asarray(weight / weight.sum())

    @cached_property
    def gain(self) -> FullGain | None:
        """All walks of a row have the same ends."""
        setup = self.setup
        if not setup.covers_table:
            return None
        mean = np.tensordot(self.donor_weight, setup.sample.prediction[self.donors], 1)
        every = np.broadcast_to(mean, (setup.n, *mean.shape))
        assert setup.sample.loss is not None
        by_row = setup.losses(np.arange(setup.n), np.ascontiguousarray(every)) - setup.sample.loss
        return FullGain(by_row, np.zeros(setup.n))

    @property
    def total_error(self) -> float:
        """From the gains of rows."""
        if self.gain is None:
            return np.inf
        return float(
            np.linalg.norm(standard_errors.influence_on_mean(self.gain.by_row[:, None], self.setup.sample.weight))
        )

    def sweeps(self, count: int) -> list[Sweep]:
        """In each, every row has one order for all donors."""
        return [self._sweep() for _ in range(count)]

    def _sweep(self) -> Sweep:
        setup = self.setup
        orders, rows = random_orders(setup.n, setup.p, self.rng), np.arange(setup.n)
        together = max(1, STEPS_AT_ONCE // (self.donors_predicted * (setup.p + 1)))
        predict = lambda part: self.mean_path(rows[part], orders[part])  # noqa: E731
        shares, steps, _ = contributions(setup.arrays, rows, orders, predict, together)
        return Sweep(self.donors, orders.astype(np.int16), shares, steps)

    @property
    def donors_predicted(self) -> int:
        """Donors whose predictions are averaged, at each step."""
        return len(self.donors)

    def mean_path(self, rows: Indices, orders: Indices) -> NDArray[Any]:
        """Mean predictions over the donors along walks to these rows, (b, p + 1, ...)."""
        B, donors = len(self.donors), np.tile(self.donors, len(rows))
        predictions = path(self.setup.arrays, np.repeat(rows, B), donors, np.repeat(orders, B, 0))
        predictions = predictions.reshape(len(rows), B, *predictions.shape[1:])
        return np.asarray(np.einsum("ib...,b->i...", predictions, self.donor_weight))

    def summary(self, sweeps: list[Sweep]) -> WalkSummary:
        """Means over the sweeps, with the effect of the order as a control; every row's total is exact."""
        n, weight, cells = self.setup.n, self.setup.sample.weight, np.stack([one.shares for one in sweeps], axis=1)
        gains = cells.sum(axis=2).mean(axis=1)  # the same in every sweep
        if all(one.steps is not None for one in sweeps):
            cells = control_variates.without_order_terms(self.setup, sweeps, cells, self.parts(sweeps))
        local = cells.mean(axis=1)
        noise = np.full(self.setup.p, np.nan)
        if len(sweeps) > 1:
            noise = np.sqrt(np.square(weight) @ cells.var(axis=1, ddof=1) / len(sweeps))
        shares = Shares(local, None, all_pairs(n))
        return WalkSummary(weight @ local, shares, noise, float(weight @ gains), gains)

    def parts(self, sweeps: list[Sweep]) -> Floats:
        """What each player adds to each row's mean prediction, (n, p), estimated from the steps of the walks."""
        return control_variates.own_parts(self.setup, sweeps, np.isin(np.arange(self.setup.n), self.donors))

    def sampling(self, summary: WalkSummary) -> Floats:
        """From the variation between rows; donors are taken as fixed."""
        return np.asarray(
            np.linalg.norm(standard_errors.influence_on_mean(summary.shares.local, self.setup.sample.weight), axis=0)
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ExactMeanWalk(MeanWalk):
    """The same where an engine knows the mean predictions: only orders are drawn.

    The Shapley value phi_ij of a row's prediction is known, too. Of the squared loss a step d of the mean prediction m
    is worth (2 y_i - m_before - m_after) d. Its part that is linear in m, 2 y_i d, has the exact mean 2 y_i phi_ij,
    over rows a covariance. What depends on the order is the square, as ``d_j (sum of d before j - sum of d after j)``
    of a sum with the steps phi_ij does. These terms have mean 0 over orders, and are the control variates of
    `MeanWalk`: here from exact steps, not from estimated ones.
    """

    along: Callable[[Indices, Indices], NDArray[Any]]  # rows and orders to mean predictions

    @property
    def donors_predicted(self) -> int:
        """None of its own: their mean is known."""
        return 1

    def mean_path(self, rows: Indices, orders: Indices) -> NDArray[Any]:
        """From the engine."""
        self.setup.counter.tick(len(rows) * (self.setup.p - 1))
        return self.along(rows, orders)

    def parts(self, sweeps: list[Sweep]) -> Floats:
        """phi, (n, p), of the second of two classes."""
        return self._effects if self._effects.ndim == 2 else self._effects[:, :, 1]

    @cached_property
    def _effects(self) -> Floats:
        """Shapley values of the predictions of all rows."""
        task = self.setup.task
        return np.asarray(task.games.effects(task.every, self.donors, self.donor_weight, task.n_jobs, silent))


@dataclass(frozen=True, eq=False, kw_only=True)
class EffectWalk(WalkKind):
    """To some rows, from donors drawn by weight; distributes the predictions of these rows."""

    rows: Indices
    donors: Indices
    weight: Floats  # of the donors
    budget: int | None
    memory: int  # bytes for the sweeps
    sweep_bytes: ClassVar[int] = SWEEP_BYTES  # per row and player

    @cached_property
    def max_sweeps(self) -> int:
        """The most sweeps that the budget allows."""
        most = ((self.budget or MOST_PREDICTIONS) - self.setup.counter.rows) // max(1, self.cost)
        if most < 2:
            raise ValueError(f"two sweeps of walks take {2 * self.cost:,} predictions; raise budget=")
        return int(most)

    @property
    def first_sweeps(self) -> int:
        """All that the budget allows, if there is one."""
        first = self.max_sweeps if self.budget is not None else min(FIRST_EFFECT_SWEEPS, self.max_sweeps)
        check_memory(first, len(self.rows), self.setup.p, self.memory, self.sweep_bytes)
        return first

    @property
    def sweeps_at_once(self) -> int:
        """Sweeps between two updates of the progress bar."""
        return max(1, EFFECT_STEPS_AT_ONCE // max(1, self.cost))

    def sweeps(self, count: int) -> list[Sweep]:
        """Each from new donors."""
        donors = np.stack([self._draw_donors(len(self.rows)) for _ in range(count)])
        together = max(1, EFFECT_STEPS_AT_ONCE // self.setup.p)
        return walk_from_donors(self.setup.arrays, self.rows, donors, self.rng, together, judged=False)

    def _draw_donors(self, r: int) -> Indices:
        """A systematic draw along a random order: every donor as often as its weight says, up to rounding."""
        order = self.rng.permutation(len(self.donors))
        at = (np.arange(r) + self.rng.random()) / r
        place = np.searchsorted(np.cumsum(self.weight[order]), at, side="right")
        return self.donors[order][np.minimum(place, len(order) - 1)][self.rng.permutation(r)]

    def sweeps_needed(self, sweeps: list[Sweep]) -> int:
        """Until the errors are small compared to the spread of the predictions."""
        if self.budget is not None or (missing := self.noise(sweeps)) <= 1:
            return len(sweeps)
        needed = int(1 + len(sweeps) * min(4.0, missing))
        check_memory(min(needed, self.max_sweeps), len(self.rows), self.setup.p, self.memory, self.sweep_bytes)
        return needed

    def noise(self, sweeps: list[Sweep]) -> float:
        """The variance of these sweeps over that of precise ones; 1 if all donors have the same prediction."""
        error = np.sqrt(np.mean(np.square(self.summary(sweeps)[1]), axis=0)).max()
        precise = PRECISE * float(self.setup.sample.prediction[self.donors].std())
        return float((error / precise) ** 2) if error > precise > 0 else 1.0

    def summary(self, sweeps: list[Sweep]) -> tuple[Floats, Floats]:
        """What each player adds to each row, and its Monte-Carlo error, (r, p) each.

        Means over the walks of each row; the donor's additive part and the known total are control variates.
        """
        setup, R = self.setup, len(sweeps)
        cells = np.stack([one.shares for one in sweeps], axis=1)  # (r, R, p)
        self.subtract_controls(cells, sweeps)
        if setup.covers_table:
            base = setup.sample.prediction
            excess = cells.sum(axis=2) - (base[self.rows] - self.weight @ base[self.donors])[:, None]
            cells = cells - excess[:, :, None] * _slopes(cells, excess)
        return cells.mean(axis=1), cells.std(axis=1, ddof=1) / np.sqrt(R)

    def subtract_controls(self, cells: Floats, sweeps: list[Sweep]) -> None:
        """Subtract, in place, what is explained by the additive part of the donor: its mean over the donors is 0."""
        donors = np.stack([one.donors for one in sweeps], axis=1)
        if cells.shape[0] * len(sweeps) < 2 * MIN_WALKS:
            return
        for half in range(2):  # cross-fitting: no walk is fitted to its own noise
            parts = control_variates.additive_parts(self.setup, sweeps[1 - half :: 2], self.rows)
            parts = parts - self.weight @ parts[self.donors]
            cells[:, half::2] += parts[donors[:, half::2]]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkedWalk(EffectWalk):
    """To some rows, where an engine knows the sums u of which a link h makes predictions: log-odds, say.

    A step of player j from donor k towards row i moves the sums by s_j, (K,), and the prediction by about g s_j, with g
    the slopes of the link, (K,). Over all orders s_j averages to a_j(i, k), j's Shapley value on the scale of the sums,
    which has a closed form. With slopes g(i) at the row's sums, g(k) at the donor's, and their mean over donors g, each
    step has three control variates, whose means over orders and over donors with weights w_k are exact:

        g(i) s_j,   mean  g(i) A_j(i),               A_j(i) = sum over k of w_k a_j(i, k)
        g(k) s_j,   mean  sum over k of w_k g(k) a_j(i, k)
        g s_j,      mean  g A_j(i)

    So the donors are counted with the weights w and w g_1, .., w g_K. Subtracting any multiples of the controls less
    their means changes no expectation, if the multiples don't depend on the walk: they are fitted to the other half of
    the sweeps. What is left is the bend of the link between row and donor; of a linear link nothing. Slopes need not be
    those of the link for this to hold, so difference quotients will do.
    """

    strata: int  # of the donors, by their predictions: a row has two walks from each of them in a sweep
    pick: Callable[[NDArray[Any]], NDArray[Any]]  # one number of each prediction
    tick: Tick
    sweep_bytes = 128

    @property
    def games(self) -> Any:
        """Of the engine."""
        return self.setup.task.games

    @cached_property
    def slopes(self) -> Floats:
        """The slopes of the link at the sums of each row, (n, K)."""
        every, p = np.arange(self.setup.n), self.setup.p
        own = self.games.walk_sums(every, every, np.tile(np.arange(p), (len(every), 1)))[:, -1]
        reach = SLOPE_REACH * np.where(np.ptp(own, axis=0) > 0, own.std(axis=0), 1.0)
        ends = [[self._respond(own + side * np.diag(reach)[k]) for side in (-1, 1)] for k in range(own.shape[1])]
        return np.stack([(high - low) / (2 * step) for (low, high), step in zip(ends, reach, strict=True)], axis=1)

    def _respond(self, sums: Floats) -> Floats:
        """The explained prediction, from sums (..., K)."""
        return np.asarray(self.pick(self.games.respond(sums.reshape(-1, sums.shape[-1]))), float).reshape(
            sums.shape[:-1]
        )

    @cached_property
    def mean_slope(self) -> Floats:
        """Over the donors, (K,)."""
        return np.asarray(self.weight @ self.slopes[self.donors])

    @cached_property
    def means(self) -> Floats:
        """The exact means of the controls, (3, p, r)."""
        weight = np.bincount(self.donors, self.weight, self.setup.n)
        weights = np.vstack([weight, weight * self.slopes.T])
        effects = self.games.effects_on_sums(weights, self.setup.task.n_jobs, silent)(self.rows)  # (1 + K, r, p, K)
        at_row = np.einsum("rk,rpk->pr", self.slopes[self.rows], effects[0])
        at_donor = np.einsum("krpk->pr", effects[1:])
        return np.stack([at_row, at_donor, np.einsum("k,rpk->pr", self.mean_slope, effects[0])])

    def sweeps(self, count: int) -> list[Sweep]:
        """Each row has donors from all strata, and for each of these walks in an order and in its reverse."""
        (r, p), D, means = (len(self.rows), self.setup.p), self.strata, self.means
        donors = np.stack([self._draw_strata(r) for _ in range(count)]).reshape(-1)  # sweep, row, stratum
        orders, rows = random_orders(len(donors), p, self.rng), np.tile(np.repeat(self.rows, D), count)
        step = max(1, LINKED_STEPS_AT_ONCE // (2 * D * (p + 1))) * D
        parts = [(rows[s], donors[s], orders[s]) for s in _slices(len(rows), step)]
        done = in_process(self.setup.task.n_jobs).map(_linked_steps, self, parts, self.tick)
        steps = np.concatenate(list(done), axis=2).reshape(4, p, count, r)
        return [Sweep(donors, orders, one[0].T, None, controls=one[1:] - means) for one in np.moveaxis(steps, 2, 0)]

    def _draw_strata(self, r: int) -> Indices:
        """For each row donors that are evenly spaced in the order of their predictions, (r, strata), by weight."""
        at = (np.arange(self.strata) + self.rng.random((r, 1))) / self.strata
        place = np.searchsorted(self._ranked[1], at, side="right")
        return self._ranked[0][np.minimum(place, len(self.donors) - 1)]

    @cached_property
    def _ranked(self) -> tuple[Indices, Floats]:
        """The donors in the order of their predictions, and their cumulated weights."""
        order = np.argsort(self.setup.sample.prediction[self.donors], kind="stable")
        return self.donors[order], np.cumsum(self.weight[order])

    def subtract_controls(self, cells: Floats, sweeps: list[Sweep]) -> None:
        """Subtract, in place, what the steps of the sums explain."""
        controls = np.stack([one.controls for one in sweeps], axis=3)
        left = np.ascontiguousarray(cells.transpose(2, 0, 1))
        control_variates.subtract_centred(left, controls, np.array([0.5, 0.5, 0.0]))
        cells[:] = left.transpose(1, 2, 0)


def _slices(n: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _linked_steps(walk: LinkedWalk, part: tuple[Indices, Indices, Indices], tick: Tick) -> Floats:
    """By how much each player changes the prediction, and its three controls: means over strata, (4, p, rows)."""
    rows, donors, orders = part
    mean_slope = np.broadcast_to(walk.mean_slope, walk.slopes[rows].shape)
    steps = np.zeros((4, orders.shape[1], len(rows) // walk.strata))
    for there in (orders, orders[:, ::-1]):
        sums = walk.games.walk_sums(rows, donors, there)
        controls = [np.einsum("bsk,bk->bs", sums, of) for of in (walk.slopes[rows], walk.slopes[donors], mean_slope)]
        for total, one in zip(steps, (walk._respond(sums), *controls), strict=True):
            total -= along(there, one).reshape(-1, walk.strata, len(total)).sum(axis=1).T / (2 * walk.strata)
        tick(len(rows) * (orders.shape[1] - int(walk.setup.covers_table)))
    return steps


def _slopes(cells: Floats, excess: Floats) -> Floats:
    """Each player's average part of a walk's excess, (p,); the parts sum to one."""
    pull = excess - excess.mean(axis=1, keepdims=True)
    spread = float(np.sum(pull * cells.sum(axis=2)))
    if not spread > 1e-12 * float(np.sum(np.square(cells.sum(axis=2)))):
        return np.full(cells.shape[2], 1 / cells.shape[2])
    return np.asarray(np.einsum("irp,ir->p", cells, pull) / spread)
