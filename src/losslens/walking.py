"""Sweeps of walks until a rule is met; what was walked is valid whenever it ends, by the rule or by hand."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

import numpy as np

from losslens.allotments import Allotment
from losslens.games import Board
from losslens.progress import Teller
from losslens.sample import Floats
from losslens.shares import Shares
from losslens.stopping import MOST_PREDICTIONS, Rule, enough, stein

TOGETHER = 30_000  # predictions between two looks at the clock and the keyboard
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
    rule: Rule
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
        together = max(1, TOGETHER // max(1, walk.cost))
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
