"""What a way to share out is (`Way`), what it takes (`Cost`), and what it gives (`Allotment`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from losslens.donors.layout import CommonGrid, OwnDonors
from losslens.losses import Loss
from losslens.passes.task import Task
from losslens.progress import ProgressBar
from losslens.results.shapley import ShapleyImportance, Shares
from losslens.results.shapley_curve import values_of
from losslens.shapley.request import CELLS_SHARE, Request
from losslens.shapley.setup import GameSetup
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices


@dataclass(frozen=True)
class Cost:
    """How much a way would do, and how much is too much: counts, never seconds, so that machines choose alike."""

    takes: float
    unit: str
    most: float = np.inf

    @property
    def fits(self) -> bool:
        """Whether it is cheap enough."""
        return self.takes <= self.most

    def __str__(self) -> str:
        return f"{self.takes:,.0f} {self.unit}" if self.takes < 1e15 else f"{self.takes:.1e} {self.unit}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Allotment:
    """Each player's share of the error that all of them take off, and what is known of its origin."""

    sfimp: Floats
    method: str
    design: str = "all pairs"
    exact: bool = True
    error_none: float
    shares: Shares | None = None
    gains: Floats | None = None
    table: Floats | None = None
    monte_carlo_error: Floats
    freedom: float = np.inf  # degrees of freedom of the Monte-Carlo error
    sampling: Floats | None = None
    index: Floats | None = None  # (p, p): interactions, where they are known without a table
    absent: str = ""
    remarks: tuple[str, ...] = ()
    complete: bool = True


class Way(ABC):
    """One way to share out."""

    name: ClassVar[str]  # short
    words: ClassVar[str]  # what is done, in a plan
    unit: ClassVar[str]  # of its progress
    exact: ClassVar[bool]  # no orders and no donors are drawn, unless the design draws them
    by_model: ClassVar[bool]  # the model predicts mixed rows; else an exact engine answers
    uses_device: ClassVar[bool] = False  # the engine counts on the device, where there is one

    @abstractmethod
    def cost(self, request: Request) -> Cost | None:
        """What it takes; None where it does not apply."""

    @abstractmethod
    def predictions(self, request: Request) -> tuple[int, int]:
        """The fewest and the most rows that the model predicts."""

    @abstractmethod
    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Share out."""

    def kept_bytes(self, request: Request) -> int:
        """What the result keeps, about: every pair, where there is room."""
        return min(8 * request.n**2 * request.p, request.task.budget.memory // CELLS_SHARE)


def all_pairs(n: int, leaves_out_own: bool = False) -> CommonGrid:
    """Every row is a donor of every row."""
    return CommonGrid(np.arange(n), np.arange(n), n, leaves_out_own)


def own_donors(
    donors: Indices,
    *,
    repeats: bool = False,
    fresh: bool = False,
    leaves_out_own: bool = False,
    alone: bool = False,
) -> OwnDonors:
    """Each row has donors of its own, (n, m)."""
    n = len(donors)
    return OwnDonors(donors, np.arange(n), n, leaves_out_own=leaves_out_own, repeats=repeats, fresh=fresh, alone=alone)


def without_own_pairs(found: Allotment, sample: Sample) -> Allotment:
    """The U-statistic: the same without pairs of a row with itself, in which no player earns anything."""
    weight, error_all = sample.weight, sample.error
    if weight.max() >= 1:
        raise ValueError("one row has all the weight: there is no pair of different rows that counts")
    up = 1 / (1 - float(weight @ weight))
    new = replace(
        found, sfimp=found.sfimp * up, monte_carlo_error=found.monte_carlo_error * up,
        error_none=error_all + up * (found.error_none - error_all),
        design="all pairs of different rows" if found.exact else f"{found.design}, pairs of different rows",
        index=None if found.index is None else found.index * up,
        table=None if found.table is None else error_all + up * (found.table - error_all),
        gains=None if found.gains is None else found.gains / (1 - weight),
    )  # fmt: skip
    shares = found.shares
    if shares is None or shares.caused is None:
        return new
    others = 1 - weight[:, None]
    pairs = all_pairs(sample.n, leaves_out_own=True)
    return replace(
        new, shares=replace(shares, local=shares.local / others, caused=shares.caused / others, meeting=pairs)
    )


def as_result(
    found: Allotment, task: Task, setup: GameSetup, *, title: str, loss: Loss | None, engine: str, error_all: float,
    aggregate: Literal["loss", "prediction"] = "loss", leaves_out_own: bool = False,
) -> ShapleyImportance:  # fmt: skip
    """What users see: an allotment's fields are the result's."""
    return ShapleyImportance(
        **vars(found),
        features=tuple(player.feature.name for player in setup.players),
        error_all=error_all,
        title=title,
        loss=loss,
        aggregate=aggregate,
        engine=engine,
        n_predictions=setup.counter.rows,
        sample=setup.sample,
        at=task.every,
        values=values_of(setup.players, task.table.names),
        leaves_out_own=leaves_out_own,
        backend=task.table.backend,
    )
