"""Walks that distribute the loss: from single donors, under a stopping rule that all walks of the loss share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any, ClassVar

import numpy as np

from losslens.cells.matrix import Means
from losslens.donors.layout import OwnDonors
from losslens.passes.allowance import Limits
from losslens.results.shapley import ShapleyImportance, Shares
from losslens.shapley import control_variates
from losslens.shapley.setup import FullGain, fetched, full_gain
from losslens.shapley.stopping import MOST_PREDICTIONS, ShapleySettings, enough, stein
from losslens.shapley.walks import SWEEP_BYTES, Sweep, Walked, WalkKind, check_memory, walk_from_donors
from losslens.shapley.way import all_pairs, result
from losslens.typing import Floats, Indices
from losslens.uncertainty import standard_errors
from losslens.uncertainty.looks import LEADING, settled_ranks
from losslens.uncertainty.standard_errors import RowColumnFit

STEPS_AT_ONCE = 1 << 18  # predicted at a time
PREDICTIONS_AT_ONCE = 30_000  # between two updates of the progress bar
GROWTH = 4  # at most so many times the sweeps before the next decision: early variances are uncertain,
CERTAIN = 20_000  # unless they have so many degrees of freedom
RECENT = 100  # last sweeps, from which the interval beside the bar is estimated


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
class PerformanceWalk(WalkKind):
    """Walks that distribute the loss, under a stopping rule. A sweep has one walk to each row."""

    settings: ShapleySettings
    memory: int  # bytes for the sweeps
    fewest: int  # sweeps before the first stopping decision, unless their number is fixed
    fixed_sweeps: int | None = None  # as many as the columns of a design
    timed_sweeps: ClassVar[int] = 16  # at least, where time is left: rows were chosen by what half as many take
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
    def limits(self) -> Limits | None:
        """Of the time, if any."""
        return self.settings.limits

    @property
    def total(self) -> float | None:
        """The gain of all players; None where it is not known before walking."""
        return None if self.gain is None else self.gain.total(self.setup.sample.weight)

    @cached_property
    def max_sweeps(self) -> int:
        """The most sweeps that budget and memory allow; a budget alone is spent, or an error."""
        setup, fixed, by_budget, budget = self.setup, self.fixed_sweeps, self._by_budget, self.settings.budget
        if self._by_memory < 1:
            raise ValueError(f"memory is too small for {setup.n:,} walks of {setup.p} steps; raise memory=")
        if budget is not None and by_budget < 1:
            raise ValueError(
                f"budget={budget:,} is too small: one sweep of walks takes up to {self.cost:,} predictions, and "
                f"{setup.n:,} are for the rows as they are"
            )
        if fixed is not None:
            check_memory(fixed, setup.n, setup.p, self.memory)
            return fixed
        if budget is not None and self.settings.precision is None:
            check_memory(by_budget, setup.n, setup.p, self.memory)
        return int(max(1, min(by_budget, self._by_memory)))

    @property
    def _by_budget(self) -> int:
        return ((self.settings.budget or MOST_PREDICTIONS) - self.setup.counter.rows) // max(1, self.cost)

    @property
    def _by_memory(self) -> int:
        return self.memory // (self.setup.n * self.setup.p * SWEEP_BYTES)

    @cached_property
    def half_width(self) -> float | None:
        """The requested half-width of the intervals, if any."""
        return self.settings.half_width(self.total, self.total_error)

    @property
    def first_sweeps(self) -> int:
        """All that the budget allows, if there is a budget and no precision."""
        half_width = self.half_width  # raises for a precision that can't be met, before anything is predicted
        if self.settings.budget is not None and half_width is None and not self.settings.until_ranked:
            return self.max_sweeps
        return min(self.fixed_sweeps or self.fewest, self.max_sweeps)

    @property
    def predictions_at_once(self) -> int:
        """Predictions between two updates of the progress bar."""
        return PREDICTIONS_AT_ONCE

    def sweeps_needed(self, sweeps: list[Sweep]) -> int:
        """As the stopping rule says."""
        R, width = len(sweeps), self.half_width
        if self.settings.until_ranked and self.fewest <= R:
            return self._until_ranked(sweeps)
        if self.fixed_sweeps is not None or (self.settings.budget is not None and width is None):
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
        more = more if self.limits is None else max(more, self.timed_sweeps)
        if more <= R:
            return R
        more = max(more, ceil(1.25 * R))
        return more if self.setup.n * (R - 2) >= CERTAIN else min(more, GROWTH * R)

    def _until_ranked(self, sweeps: list[Sweep]) -> int:
        """As many again by a half, until the leading ranks are settled, or more sweeps would hardly help."""
        R, summary = len(sweeps), self._summary_of(sweeps)
        if not np.isfinite(summary.monte_carlo_error).all():
            return R + 1
        estimates = self.result(Walked(sweeps, complete=True, cut_short=False), "", []).estimates()
        # Errors of the shares of one walk may add up: (a + b)^2 is at most 2 a^2 + 2 b^2.
        estimates = replace(estimates, noise=2 * np.square(summary.monte_carlo_error))
        self._looks.append(R)
        looks = np.repeat(np.array(self._looks, float)[:, None], len(estimates), axis=1)
        self._settled[:] = settled_ranks(estimates, looks, self._settled)
        precise = enough(summary.monte_carlo_error, self.sampling(summary), summary.total, R) <= R
        return R if precise or len(self._settled) >= min(LEADING, len(estimates) - 1) else ceil(1.5 * R)

    @cached_property
    def _looks(self) -> list[int]:
        return []

    @cached_property
    def _settled(self) -> list[str]:
        return []

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
            reason = "budget=" if self.settings.budget else f"the limit of {MOST_PREDICTIONS:,} predictions"
            reason = "memory=" if self._by_memory < self._by_budget else reason
            reason = f"budget={self.limits.budget!r}" if self.limits is not None else reason
            reason = f"the model failed four times in a row ({walked.error}), which" if walked.error else reason
            drawn = len(walked.sweeps)
            ended = f"ended the walks after {drawn} of {self.fewest} sweeps, too few to estimate the Monte-Carlo error"
            if drawn >= self.fewest:
                until = "the leading ranks were settled" if self.settings.until_ranked else ""
                ended = f"ended the walks before {until or 'the Monte-Carlo error was as small as required'}"
            remarks = [*remarks, f"{reason} {ended}"]
        if self._settled:
            from losslens.results.afforded import settled_order  # where somebody asked for ranks

            remarks = [*remarks, settled_order(self._settled)]
        return result(
            self.setup, summary.sfimp, "walks", design=design, exact=False, shares=shares, gains=summary.gains,
            error_none=self.setup.sample.error + summary.total, monte_carlo_error=summary.monte_carlo_error,
            remarks=tuple(remarks), complete=walked.complete,
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class LossWalk(PerformanceWalk):
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
        setup, gain = self.setup, self.gain
        setup.loss_arrays.check()
        sfimp, shares, cells = control_variates.gather(
            setup, sweeps, gain, leaves_out_own=self.leaves_out_own, xp=setup.loss_arrays.xp
        )
        assert isinstance(shares.layout, OwnDonors)
        fits = self._fits(shares.layout, cells)
        noise = np.sqrt([fit.noise for _, fit in fits]) if fits else np.full(setup.p, np.nan)
        total = float(sfimp.sum()) if self.total is None else self.total
        gains = shares.local.sum(axis=1) if gain is None else gain.by_row
        return WalkSummary(sfimp, shares, noise, total, gains, cells, fits)

    def _fits(self, layout: OwnDonors, cells: Any) -> tuple[tuple[Means, RowColumnFit], ...]:
        """The means of each player over pairs, and the effects of rows and donors; none of too few pairs."""
        sample = self.setup.sample
        pairs = self.setup.loss_arrays.pairs(layout, sample, cells)
        try:
            means, weights = pairs.means(), pairs.weights
            fits = standard_errors.fit_several(means, layout, sample, np.arange(sample.n), weights)
        except ValueError:
            return ()
        return tuple(zip(means, fits, strict=True))

    def sampling(self, summary: WalkSummary) -> Floats:
        """From the effects of rows and donors, without the Monte-Carlo error."""
        sample, layout, noise = self.setup.sample, summary.shares.layout, summary.monte_carlo_error
        if sample.units() < 3:
            return np.full(self.setup.p, np.inf)
        every = np.arange(sample.n)
        errors = [standard_errors.influence(means, layout, sample, every, fit).std_error for means, fit in summary.fits]
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
