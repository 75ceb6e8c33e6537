"""Games of a tree ensemble: see `PlayerGames`.

Any loss is distributed pair by pair, or from the leaves if there is a single tree. Losses that are linear in y on the
scale of the trees' sums need no pairs, but the Shapley values of these sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Subject
from losslens.engines.base import PlayerGames, SumEffects, coalition_count
from losslens.engines.loss_scales import weights_of_sums
from losslens.engines.trees.node_rules import FEATURE
from losslens.losses import Loss
from losslens.progress import Tick, silent
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices, Mask

if TYPE_CHECKING:
    from losslens.engines.trees.engine import Trees
    from losslens.engines.trees.pair_games import PairShares

SMALL_TREE, LARGE_TREE = 25, 1500  # cost of one tree for one pair, in units of one coalition's loss
TABLE_ROWS = 500  # a leaf's table of patterns takes about the time of so many rows


@dataclass(frozen=True, eq=False)
class TreeGames(PlayerGames):
    """Games of trees. Compiled modules are imported where they are needed."""

    engine: Trees
    players: Sequence[Subject]

    @cached_property
    def columns(self) -> list[tuple[int, ...]]:
        """The columns of each player."""
        return [player.feature.columns for player in self.players]

    @property
    def width(self) -> int:
        """Columns of the table."""
        return len(self.engine.bound.size)

    def ways(self, loss: Loss, *, averaged: bool) -> dict[str, float]:
        """Pairs, leaves of a single tree, or totals."""
        engine, bound, p = self.engine, self.engine.bound, len(self.players)
        n, coalitions = bound.codes.shape[1], coalition_count(p)
        trees = float(len(bound.roots) * (SMALL_TREE if engine.is_small else LARGE_TREE))
        cells = n * (n - 1) * (coalitions + trees)
        if averaged:
            return {"tree means": cells} | self._leaf_means(n)
        ways = {"tree pairs": cells / 2}
        if self._slope(loss) is not None:
            ways["covariance"] = (n + TABLE_ROWS) * float(len(bound.value))
            if (operations := self._box_operations(loss)) is not None:
                ways["tree boxes"] = operations
        if engine.is_single:
            return ways | {"single tree": n * coalitions}
        if engine.gives_totals(loss):
            from losslens.engines.trees.coalitions import cost

            ways["tree totals"] = coalitions * max(1.0, cost(bound))
        return ways

    def _leaf_means(self, n: int) -> dict[str, float]:
        """Where predictions are sums of leaves, so are their means over donors."""
        from losslens.engines.trees.effects import linear_response
        from losslens.engines.trees.mean_games import cost

        if linear_response(self.engine.sums) is None:
            return {}
        return {"leaf means": n * cost(self.engine.sums, self.columns)}

    def mean_predictions(self, weight: Floats) -> Callable[[int], NDArray[Any]]:
        """A function from a row to its mean predictions over the donors in all coalitions, (2**p, ...)."""
        from losslens.engines.trees.mean_games import MeanGames

        games, link = MeanGames(self.engine.sums, self.columns, weight), self.engine.sums.ensemble.link
        return lambda i: link(games.scores(i))

    # Pair by pair.

    @property
    def pair_work(self) -> int:
        """Total of the ticks of `pair_shares`."""
        from losslens.engines.trees.pair_games import cost

        return int(cost(self.engine.bound, self.columns, self.engine.bound.codes.shape[1]))

    def pair_shares(
        self, sample: Sample, loss: Loss, *, keep_cells: bool, n_jobs: int | None, tick: Tick
    ) -> PairShares:
        """Shapley values of the loss of every pair, averaged over rows and over donors."""
        from losslens.engines.trees.pair_games import over_pairs

        bound = self.engine.bound
        return over_pairs(bound, self.columns, sample, loss, n_jobs=n_jobs, tick=tick, keep_cells=keep_cells)

    def shares_of_pairs(self, sample: Sample, loss: Loss, rows: Indices, donors: Indices, n_jobs: int | None) -> Floats:
        """Shapley values of the loss of some pairs, (pairs, p)."""
        from losslens.engines.trees.pair_games import pair_shares

        return pair_shares(self.engine.bound, self.columns, sample, loss, rows, donors, n_jobs=n_jobs)

    def pair_predictions(self, rows: Indices, donors: Indices) -> NDArray[Any]:
        """Predictions of all coalitions of some pairs, (pairs, 2**p, ...)."""
        from losslens.engines.trees.pair_games import pair_predictions

        raw = pair_predictions(self.engine.bound, self.columns, rows, donors)
        predictions = self.engine.bound.respond(raw.reshape(-1, raw.shape[2]))
        return predictions.reshape(*raw.shape[:2], *predictions.shape[1:])

    # Coalition by coalition.

    def row_errors(self, sample: Sample, loss: Loss) -> Callable[[Mask], tuple[Floats, Floats]]:
        """Mean losses of each row and of each donor in a coalition, of a single tree."""
        y, predictions = sample.target(loss), self.engine.leaf_predictions

        def leaf_loss(leaves: Indices, rows: Indices) -> Floats:
            return loss(y[rows], sample.shown(loss, predictions[leaves]))

        return lambda S: self.engine.errors_of_single_tree(self._kept(S), leaf_loss, sample.weight)

    def total_errors(self, sample: Sample, loss: Loss, tick: Tick) -> Callable[[Mask], tuple[float, float]]:
        """Mean squared losses of a coalition and of its complement; each is computed once."""
        target = self.engine.squared_target(loss, sample.target(loss))
        assert target is not None  # else the way is not offered
        prepared, used = self.engine.coalition_errors(target, sample.weight), self._used
        computed: dict[bytes, tuple[float, float]] = {}

        def errors(S: Mask) -> tuple[float, float]:
            """Coalitions that differ only in players that no tree uses have the same errors, to the last bit."""
            key, complement = (S & used).tobytes(), (~S & used).tobytes()
            if key not in computed:
                computed[key] = compute(S)
                computed[complement] = computed[key][1], computed[key][0]
            return computed[key]

        def compute(S: Mask) -> tuple[float, float]:
            tick(2)
            return prepared.error(self._kept(S)), prepared.error(self._kept(~S))

        return errors

    def _kept(self, S: Mask) -> Indices:
        """The columns that keep the row's values: those of the coalition, and those of no player."""
        replaced = [j for k in np.flatnonzero(~S).tolist() for j in self.columns[k]]
        return np.setdiff1d(np.arange(self.width), replaced)

    @property
    def _used(self) -> Mask:
        """The players that some tree uses."""
        used = np.isin(np.arange(self.width), self.engine.bound.nodes[:, FEATURE])
        return np.array([bool(used[list(columns)].any()) for columns in self.columns])

    # Shapley values of the sums of leaves.

    def _slope(self, loss: Loss) -> float | None:
        return self.engine.sums.ensemble.slope(loss)

    def sum_weights(self, loss: Loss, y: NDArray[Any]) -> Floats | None:
        """b of each output, (n, outputs)."""
        slope = self._slope(loss)
        return None if slope is None else weights_of_sums(loss, y, slope, self.engine.sums.ensemble.outputs)

    def range_of_sums(self) -> tuple[Floats, Floats]:
        """The lowest and the highest output that rows with replaced values may have, (outputs,) each: leaf by leaf."""
        bound = self.engine.sums
        ends = np.tile(bound.ensemble.offset / bound.ensemble.divisor, (2, 1))
        for t, output in enumerate(bound.output.tolist()):
            leaves = bound.value[bound.leaf_at[t] : bound.leaf_at[t + 1]]
            at = slice(output, output + leaves.shape[1])
            ends[:, at] += np.stack([leaves.min(axis=0), leaves.max(axis=0)]) * bound.unit[at] / bound.ensemble.divisor
        return ends[0], ends[1]

    def effects_on_sums(self, weights: Floats, n_jobs: int | None, tick: Tick) -> SumEffects:
        """Shapley values of the outputs of some rows, summed over the donors with each of the weights (D, n)."""
        from losslens.engines.trees.effects import shapley_effects

        bound, donors = self.engine.sums, np.arange(weights.shape[1])
        return lambda rows: shapley_effects(bound, self.columns, rows, donors, weights, n_jobs=n_jobs, tick=tick)

    def _box_operations(self, loss: Loss) -> float | None:
        """Operations of `squared_shares`; None where columns belong to no player, or the loss isn't a square."""
        from losslens.engines.trees.pair_boxes import cost

        covers_table = sum(map(len, self.columns)) == self.width
        if loss.custom or not covers_table or self.engine.squared_target(loss, np.zeros(1, np.intp)) is None:
            return None
        return cost(self.engine.sums, self.columns, 4 * self.engine.memory)  # the engine holds an eighth of it all

    @property
    def box_work(self) -> int:
        """Total of the ticks of `squared_shares`."""
        from losslens.engines.trees.pair_boxes import products

        return products(self.engine.sums)

    def squared_shares(self, sample: Sample, loss: Loss, n_jobs: int | None, tick: Tick) -> tuple[Floats, Floats]:
        """Each row's shares in a squared loss, (n, p): means over all donors; interactions of the players, (p, p).

        With c the mean output, ``(y - f)^2 = (y - c)^2 - 2 (y - c) (f - c) + (f - c)^2``.
        """
        from losslens.engines.trees.pair_boxes import square_shares

        target = self.engine.squared_target(loss, sample.target(loss))
        assert target is not None  # else the way is not offered
        outputs = self.engine.sums.ensemble.outputs
        mean = sample.weight @ np.asarray(sample.prediction, float).reshape(sample.n, -1)[:, -outputs:]
        apart = target.reshape(sample.n, -1) - mean
        linear = self.effects_on_sums(sample.weight[None], n_jobs, silent)(np.arange(sample.n))[0]
        squares = square_shares(self.engine.sums, self.columns, sample.weight, apart, n_jobs=n_jobs, tick=tick)
        local = 2 * np.einsum("ic,ijc->ij", apart, linear) - squares.local
        return local, 2 * squares.of_target - squares.index

    # Shapley values of predictions.

    def effect_ways(self, rows: int, donors: int) -> dict[str, float]:
        """From the leaves if the response is linear in their sum, else coalition by coalition."""
        from losslens.engines.trees.effects import linear_response

        if linear_response(self.engine.sums) is not None:
            return {"closed form": 0.0}
        return {"all coalitions": rows * donors * coalition_count(len(self.players))}

    def effects(self, rows: Indices, donors: Indices, weight: Floats, n_jobs: int | None, tick: Tick) -> Floats:
        """Shapley values of the predictions of some rows, (rows, p, ...): weighted means over the donors."""
        from losslens.engines.trees.effects import linear_response, shapley_effects

        bound = self.engine.sums
        respond = linear_response(bound)
        assert respond is not None  # else the way is not offered
        effects = shapley_effects(bound, self.columns, rows, donors, weight[None], n_jobs=n_jobs, tick=tick)
        effects /= weight.sum()
        return respond(effects[0])
