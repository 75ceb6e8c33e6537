"""Games of a tree ensemble: see `PlayerGames`.

Any loss is distributed pair by pair. Losses that are linear in y on the scale of the trees' sums need no pairs, but the
Shapley values of these sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import PlayerGames, SumEffects, coalition_count
from losslens.engines.loss_scales import weights_of_sums
from losslens.engines.trees import pair_games
from losslens.engines.trees.bound import BoundEnsemble
from losslens.losses import Loss
from losslens.progress import Tick
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices

SMALL_TREE, LARGE_TREE = 25, 1500  # cost of one tree for one pair, in units of one coalition's loss
MOST_STEPS = 64  # of a walk: bits of a word
TABLE_ROWS = 500  # a leaf's table of patterns takes about the time of so many rows


@dataclass(frozen=True, eq=False)
class TreeGames(PlayerGames):
    """Games of trees."""

    bound: BoundEnsemble
    players: Sequence[Sequence[int]]  # the columns of each

    def ways(self, loss: Loss, *, averaged: bool) -> dict[str, float]:
        """Pairs, the covariance, or means over donors from the leaves."""
        bound, n = self.bound, self.bound.codes.shape[1]
        if averaged:  # where predictions are sums of leaves, so are their means over donors
            if linear_response(bound) is None:
                return {}
            from losslens.engines.trees import mean_games  # compiled, as what follows: imported by those who play it

            table, walk = mean_games.costs(bound, self.players)
            return {"leaf means": n * table, "mean walks": n * walk}
        trees = float(len(bound.roots) * (SMALL_TREE if bound.is_small else LARGE_TREE))
        ways = {"tree pairs": n * (n - 1) / 2 * (coalition_count(len(self.players)) + trees)}
        if bound.ensemble.slope(loss) is not None:
            ways["covariance"] = (n + TABLE_ROWS) * float(len(bound.value))
        return ways

    def mean_walks(self, weight: Floats) -> Callable[[Indices, Indices], NDArray[Any]]:
        """A function from rows and orders to mean predictions over the donors as players join, (walks, p + 1, ...)."""
        from losslens.engines.trees.mean_games import MeanGames

        return MeanGames(self.bound, self.players, weight).along

    def mean_predictions(self, weight: Floats) -> Callable[[int], NDArray[Any]]:
        """A function from a row to its mean predictions over the donors in all coalitions, (2**p, ...)."""
        from losslens.engines.trees.mean_games import MeanGames

        return MeanGames(self.bound, self.players, weight).of_row

    # Pair by pair.

    @cached_property
    def packed(self) -> pair_games.PackedRows:
        """The rows in terms of players."""
        return pair_games.pack_rows(self.bound, self.players)

    @property
    def pair_work(self) -> int:
        """Total of the ticks of `pair_shares`."""
        return int(pair_games.cost(self.bound, self.players, self.bound.codes.shape[1]))

    def pair_shares(
        self, sample: Sample, loss: Loss, *, keep_cells: bool, n_jobs: int | None, tick: Tick
    ) -> pair_games.PairShares:
        """Shapley values of the loss of every pair, averaged over rows and over donors."""
        return pair_games.over_pairs(
            self.bound, self.players, sample, loss, n_jobs=n_jobs, tick=tick, keep_cells=keep_cells
        )

    def pair_predictions(self, rows: Indices, donors: Indices) -> NDArray[Any]:
        """Predictions of all coalitions of some pairs, (pairs, 2**p, ...)."""
        raw = pair_games.pair_predictions(self.bound, self.packed, rows, donors)
        predictions = self.bound.respond(raw.reshape(-1, raw.shape[2]))
        return predictions.reshape(*raw.shape[:2], *predictions.shape[1:])

    # Shapley values of the sums of leaves.

    def sum_weights(self, loss: Loss, y: NDArray[Any]) -> Floats | None:
        """b of each output, (n, outputs)."""
        slope = self.bound.ensemble.slope(loss)
        return None if slope is None else weights_of_sums(loss, y, slope, self.bound.ensemble.outputs)

    def range_of_sums(self) -> tuple[Floats, Floats]:
        """The lowest and the highest output that rows with replaced values may have, (outputs,) each: leaf by leaf."""
        bound = self.bound
        ends = np.tile(bound.ensemble.offset / bound.ensemble.divisor, (2, 1))
        for t, output in enumerate(bound.output.tolist()):
            leaves = bound.value[bound.leaf_at[t] : bound.leaf_at[t + 1]]
            outputs = slice(output, output + leaves.shape[1])
            extremes = np.stack([leaves.min(axis=0), leaves.max(axis=0)])
            ends[:, outputs] += extremes * bound.unit[outputs] / bound.ensemble.divisor
        return ends[0], ends[1]

    def effects_on_sums(self, weights: Floats, n_jobs: int | None, tick: Tick) -> SumEffects:
        """Shapley values of the outputs of some rows, summed over the donors with each of the weights (D, n)."""
        from losslens.engines.trees.effects import shapley_effects

        donors = np.arange(weights.shape[1])
        return lambda rows: shapley_effects(self.bound, self.players, rows, donors, weights, n_jobs=n_jobs, tick=tick)

    # Shapley values of predictions.

    def effect_ways(self, rows: int, donors: int) -> dict[str, float]:
        """A closed form if the response is linear in the sum of leaves, else coalition by coalition."""
        if linear_response(self.bound) is not None:
            return {"closed form": 0.0}
        ways = {"all coalitions": rows * donors * coalition_count(len(self.players))}
        return ways | ({"walks": 0.0} if len(self.players) <= MOST_STEPS else {})

    def walk_sums(self, rows: Indices, donors: Indices, orders: Indices) -> Floats:
        """The outputs along walks from donors to rows, (walks, players + 1, outputs)."""
        return self.bound.scores(pair_games.walk_sums(self.bound, self.packed, rows, donors, orders))

    def respond(self, sums: Floats) -> NDArray[Any]:
        """Predictions, from outputs (m, outputs)."""
        return self.bound.ensemble.link(sums)

    def effects(self, rows: Indices, donors: Indices, weight: Floats, n_jobs: int | None, tick: Tick) -> Floats:
        """Shapley values of the predictions of some rows, (rows, p, ...): weighted means over the donors."""
        from losslens.engines.trees.effects import shapley_effects

        respond = linear_response(self.bound)
        assert respond is not None  # else the way is not offered
        effects = shapley_effects(self.bound, self.players, rows, donors, weight[None], n_jobs=n_jobs, tick=tick)
        effects /= weight.sum()
        return respond(effects[0])


def linear_response(bound: BoundEnsemble) -> Callable[[Floats], Floats] | None:
    """A function from raw effects (m, p, outputs) to those on the response, (m, p) or (m, p, K); None if not linear."""
    sums = bound.ensemble.sums_are
    return None if sums is None else _LINEAR[sums]


_LINEAR: dict[str, Callable[[Floats], Floats]] = {
    "values": lambda effects: effects[:, :, 0],
    "second class": lambda effects: np.concatenate([-effects, effects], axis=2),
    "classes": lambda effects: effects,
}
