"""A way to compute Shapley values (`Way`), its cost (`Cost`), and what it returns (`Allotment`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from losslens.donors.layout import CommonGrid, OwnDonors
from losslens.losses import Loss
from losslens.passes.task import Task
from losslens.progress import ProgressBar
from losslens.results.shapley import ShapleyImportance, Shares, donor_mass, mean_of
from losslens.results.shapley_curve import values_of
from losslens.shapley.request import CELLS_SHARE, Request
from losslens.shapley.setup import GameSetup
from losslens.tables.sample import Sample, weight_of_others
from losslens.typing import Floats, Indices

ROUNDING = 1e-12  # of the weight of all rows


@dataclass(frozen=True)
class Cost:
    """How many operations a way amount, and the limit. Counts, not seconds: all machines choose the same way."""

    amount: float
    unit: str
    limit: float = np.inf

    @property
    def fits(self) -> bool:
        """Whether the amount is within the limit."""
        return self.amount <= self.limit

    def __str__(self) -> str:
        return f"{self.amount:,.0f} {self.unit}" if self.amount < 1e15 else f"{self.amount:.1e} {self.unit}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Allotment:
    """Each player's share of the error that all players remove, and how it was computed."""

    sfimp: Floats
    method: str
    design: str = "all pairs"
    exact: bool = True
    error_none: float
    shares: Shares | None = None
    both: Floats | None = None  # (n, p): each row's shares in both roles, where they were computed together
    gains: Floats | None = None
    table: Floats | None = None
    monte_carlo_error: Floats
    freedom: float = np.inf  # degrees of freedom of the Monte-Carlo error
    index: Floats | None = None  # (p, p): interactions, where they need no table of coalitions
    absent: str = ""  # why there are no shares of single rows, and what to do
    remarks: tuple[str, ...] = ()
    complete: bool = True


def kept_pairs(request: Request) -> int:
    """The bytes of every pair's shares, as far as memory allows."""
    return min(8 * request.n**2 * request.p, request.task.budget.memory // CELLS_SHARE)


@dataclass(frozen=True, eq=False, kw_only=True)
class Way:
    """One way to compute Shapley values."""

    name: str  # also that of the engine's offer, see `Request.engine_work`
    words: str  # description in a plan
    run: Callable[[Request, GameSetup, ProgressBar], Allotment]
    cost: Callable[[Request], Cost | None]  # operations and limit; None where the way does not apply
    predictions: Callable[[Request], tuple[int, int]]  # the fewest and the most rows that the model predicts
    unit: str = "predictions"  # of the progress bar
    exact: bool = False  # draws no orders, and no donors beyond those of the design
    by_model: bool = True  # the model predicts mixed rows; else an exact engine computes
    rows: bool = True  # gives shares of single rows
    pairs: bool = False  # and of all pairs, where memory allows
    quick: float = 0.0  # operations of about a second: so many are worth it for the rows' sake alone
    kept_bytes: Callable[[Request], int] = kept_pairs  # approximate size of the result


def all_pairs(n: int, leaves_out_own: bool = False) -> CommonGrid:
    """Every row is a donor of every row."""
    return CommonGrid(np.arange(n), np.arange(n), n, leaves_out_own)


def own_donors(donors: Indices, **known: bool) -> OwnDonors:
    """Each row has its own donors, (n, m)."""
    return OwnDonors(donors, np.arange(len(donors)), len(donors), **known)


def without_own_pairs(allotment: Allotment, sample: Sample) -> Allotment:
    """The U-statistic: without the pairs of a row with itself, in which every share is 0."""
    weight, error_all = sample.weight, sample.error
    others = weight_of_others(weight)
    if not weight @ others > 0:
        raise ValueError(
            "one row has all the weight, so no pair of different rows has any; give at least two rows a weight above 0"
        )
    up = 1 / float(weight @ others)
    new = replace(
        allotment, sfimp=allotment.sfimp * up, monte_carlo_error=allotment.monte_carlo_error * up,
        error_none=error_all + up * (allotment.error_none - error_all),
        design="all pairs of different rows" if allotment.exact else f"{allotment.design}, pairs of different rows",
        index=None if allotment.index is None else allotment.index * up,
        table=None if allotment.table is None else error_all + up * (allotment.table - error_all),
        gains=None if allotment.gains is None else allotment.gains / others,
        both=None if allotment.both is None else allotment.both / others[:, None],
    )  # fmt: skip
    shares = allotment.shares
    if shares is None or shares.caused is None:
        return new
    pairs = all_pairs(sample.n, leaves_out_own=True)
    return replace(
        new,
        shares=replace(
            shares, local=shares.local / others[:, None], caused=shares.caused / others[:, None], meeting=pairs
        ),
    )


def without_own_groups(allotment: Allotment, sample: Sample) -> Allotment:
    """Without the pairs of rows of the same group, from the shares of all pairs."""
    shares, block = allotment.shares, sample.block
    assert shares is not None  # of a way with shares of pairs, which
    assert shares.cells is not None
    assert block is not None
    others, apart = donor_mass(sample), (block[:, None] != block) * sample.weight
    others = np.where(others > ROUNDING, others, np.nan)[:, None]  # the only group with weight has no donors
    local = np.einsum("ik,ikj->ij", apart, shares.cells) / others
    caused = np.einsum("ki,ikj->kj", apart, shares.cells) / others
    mass = np.where(np.isnan(others[:, 0]), 0.0, sample.weight * donor_mass(sample))
    if not mass.sum() > 0:
        raise ValueError("one group has all the weight, so no pair of rows of different groups has any; weight others")
    sfimp = mean_of(local, mass)
    return replace(
        allotment, sfimp=sfimp, design="all pairs of rows of different groups", gains=local.sum(axis=1), table=None,
        index=None, both=None, error_none=sample.error + float(sfimp.sum()),
        shares=replace(shares, local=local, caused=caused),
    )  # fmt: skip


def as_result(
    allotment: Allotment, task: Task, setup: GameSetup, *, title: str, loss: Loss | None, engine: str, error_all: float,
    aggregate: Literal["loss", "prediction"] = "loss", leaves_out_own: bool = False, declined: str = "",
) -> ShapleyImportance:  # fmt: skip
    """The result that users see; it has all fields of the allotment."""
    unsteady = task.engine.repeats.declined
    return ShapleyImportance(
        **vars(allotment) | {"exact": allotment.exact and not unsteady},
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
        declined=unsteady or declined,
        covers_table=sum(len(player.feature.columns) for player in setup.players) == len(task.table.names),
        backend=task.table.backend,
    )
