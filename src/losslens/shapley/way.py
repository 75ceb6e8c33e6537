"""A way to compute Shapley values (`Way`), its cost (`Cost`), and the result that it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from losslens.donors.layout import CommonGrid, OwnDonors
from losslens.progress import ProgressBar
from losslens.results.shapley import ShapleyImportance, donor_mass, mean_of
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


def kept_pairs(request: Request) -> int:
    """The bytes of every pair's shares, as far as memory allows."""
    return min(8 * request.n**2 * request.p, request.task.budget.memory // CELLS_SHARE)


@dataclass(frozen=True, eq=False, kw_only=True)
class Way:
    """One way to compute Shapley values."""

    name: str  # also that of the engine's offer, see `Request.engine_work`
    words: str  # description in a plan
    run: Callable[[Request, GameSetup, ProgressBar], ShapleyImportance]
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


def own_donors(donors: Indices, **fields: bool) -> OwnDonors:
    """Each row has its own donors, (n, m)."""
    return OwnDonors(donors, np.arange(len(donors)), len(donors), **fields)


def without_own_pairs(importance: ShapleyImportance, sample: Sample) -> ShapleyImportance:
    """The U-statistic: without the pairs of a row with itself, in which every share is 0."""
    weight, error_all = sample.weight, sample.error
    others = weight_of_others(weight)
    if not weight @ others > 0:
        raise ValueError(
            "one row has all the weight, so no pair of different rows has any; give at least two rows a weight above 0"
        )
    factor = 1 / float(weight @ others)
    new = replace(
        importance, sfimp=importance.sfimp * factor, monte_carlo_error=importance.monte_carlo_error * factor,
        error_none=error_all + factor * (importance.error_none - error_all),
        design="all pairs of different rows" if importance.exact else f"{importance.design}, pairs of different rows",
        index=None if importance.index is None else importance.index * factor,
        table=None if importance.table is None else error_all + factor * (importance.table - error_all),
        gains=None if importance.gains is None else importance.gains / others,
        both=None if importance.both is None else importance.both / others[:, None],
    )  # fmt: skip
    shares = importance.shares
    if shares is None or shares.caused is None:
        return new
    pairs = all_pairs(sample.n, leaves_out_own=True)
    return replace(
        new,
        shares=replace(
            shares, local=shares.local / others[:, None], caused=shares.caused / others[:, None], layout=pairs
        ),
    )


def without_own_groups(importance: ShapleyImportance, sample: Sample) -> ShapleyImportance:
    """Without the pairs of rows of the same group, from the shares of all pairs."""
    shares, block = importance.shares, sample.block
    assert shares is not None  # of a way with shares of pairs, which
    assert shares.cells is not None
    assert block is not None
    others, pairs = donor_mass(sample), (block[:, None] != block) * sample.weight
    others = np.where(others > ROUNDING, others, np.nan)[:, None]  # the only group with weight has no donors
    local = np.einsum("ik,ikj->ij", pairs, shares.cells) / others
    caused = np.einsum("ki,ikj->kj", pairs, shares.cells) / others
    mass = np.where(np.isnan(others[:, 0]), 0.0, sample.weight * donor_mass(sample))
    if not mass.sum() > 0:
        raise ValueError(
            "one group has all the weight, so pairs of rows of different groups have none: weight others, too"
        )
    sfimp = mean_of(local, mass)
    return replace(
        importance, sfimp=sfimp, design="all pairs of rows of different groups", gains=local.sum(axis=1), table=None,
        index=None, both=None, error_none=sample.error + float(sfimp.sum()),
        shares=replace(shares, local=local, caused=caused),
    )  # fmt: skip


def result(setup: GameSetup, sfimp: Floats, method: str, **fields: Any) -> ShapleyImportance:
    """What a way computed; by default nothing was drawn, and every row gains the sum of its shares."""
    task, loss, sample, shares = setup.task, setup.loss, setup.sample, fields.get("shares")
    usual: dict[str, Any] = {
        "design": "all pairs", "exact": True, "error_all": sample.error, "monte_carlo_error": np.zeros(setup.p),
        "error_none": sample.error + float(sfimp.sum()), "gains": None if shares is None else shares.local.sum(axis=1),
        "title": "" if loss is None else loss.title, "aggregate": "loss", "engine": "",
    }  # fmt: skip
    return ShapleyImportance(
        features=tuple(player.feature.name for player in setup.players), sfimp=sfimp, method=method, loss=loss,
        n_predictions=setup.counter.rows, sample=sample, at=task.every, covers_table=setup.covers_table,
        values=values_of(setup.players, task.table.names), backend=task.table.backend, **usual | fields,
    )  # fmt: skip


def stated(importance: ShapleyImportance, setup: GameSetup, *, declined: str, **more: Any) -> ShapleyImportance:
    """The result with what a way doesn't know: how much was predicted, and whether the model repeats its answers."""
    unsteady = setup.task.engine.repeats.declined
    exact, n_predictions = importance.exact and not unsteady, setup.counter.rows
    return replace(importance, exact=exact, n_predictions=n_predictions, declined=unsteady or declined, **more)
