"""The tree engine: exact curves of tree ensembles, any loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Ask, Subject
from losslens.engines.base import Answer, AnswerWay, Declined, ExactEngine, PlayerGames, Site, Steps, Walker
from losslens.engines.readers.ensemble import TIES, Ensemble, Leading
from losslens.engines.readers.pipelines import UnwrappedModel
from losslens.engines.trees.bound import BoundEnsemble, RawSteps, Search, bind, tree_images
from losslens.engines.trees.node_rules import FEATURE
from losslens.losses import Loss
from losslens.progress import Tick
from losslens.tables.columns import ClassRuns, Column, Distinct
from losslens.tables.frames import Batch, Edit
from losslens.tables.sample import chunks
from losslens.typing import Floats, Indices
from losslens.workers import in_process

if TYPE_CHECKING:
    from losslens.engines.trees.pair_table import GridCost

# Seconds for all curves of a row in a tree of at most 64 leaves, or of more, of the right order (`benchmarks.engines`).
SMALL_TREE, LARGE_TREE = 3e-7, 2e-6
FEW_VALUES = 300_000  # sorted and bound to the trees in one thread: of short columns threads wait for each other
PAIRS = 1 << 18  # pairs predicted at a time
MAX_SMALL_TREES, MAX_LARGE_TREES = 4e9, 1e8  # pairs times small trees, and times large ones: some seconds
MANY_COLUMNS = 1 / 40  # of these limits, for three and more columns: beyond a tenth of a second a sample is cheaper
MAX_UNORDERED = 3e8  # rows times trees times classes without order: some seconds


@dataclass(frozen=True, eq=False)
class Trees(ExactEngine):
    """Exact curves of tree ensembles: walks the trees with one feature free."""

    bound: BoundEnsemble
    memory: int  # bytes of a thread's buffers, about
    ties: Ties | None = None  # of labels that the model is asked for
    name: ClassVar[str] = "trees"
    adds_in_single: ClassVar[bool] = True
    sorts_values: ClassVar[bool] = True

    @classmethod
    def of(cls, ensemble: Ensemble, unwrapped: UnwrappedModel, site: Site) -> Self:
        """An ensemble on the columns of a table."""
        n, columns = site.table.n, {j: site.column(j) for j in sorted(site.requested | ensemble.used(unwrapped))}
        workers = in_process(site.n_jobs if n * len(columns) > FEW_VALUES else 1)
        values = dict(zip(columns, workers.map(_distinct, columns, columns), strict=True))
        images = tree_images(ensemble, unwrapped, site.table, {j: (columns[j], values[j]) for j in columns})
        unused = Distinct(np.zeros(1), np.zeros(n, np.intp), np.zeros(1, np.intp), ordered=True)
        bound = bind(ensemble, n, [values.get(j, unused) for j in range(len(site.table.names))], images, workers)
        if not isinstance(ensemble.link, Leading):
            return cls(bound, site.memory // 8)
        return cls(bound, site.memory // 8, Ties(site, np.arange(n), ensemble.rounding, []))

    @property
    def uses(self) -> Floats:
        """The number of nodes that compare each column."""
        number = np.zeros(len(self.bound.size))
        for nodes in self.bound.ensemble.nodes_of.values():
            number[self.bound.nodes[nodes[0], FEATURE]] += len(nodes)
        return number

    def predict(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Predictions of some rows."""
        codes = self.bound.codes
        of_each = codes[:, rows] if rows.ndim == 1 else np.take_along_axis(codes, rows.T, axis=1)
        sums = self.bound.sums_of(of_each)
        prediction = self.bound.respond(sums)
        if self.ties is not None and len(tied := self.ties.among(self.bound, sums)):
            source = rows if rows.ndim == 2 else np.repeat(rows[:, None], len(codes), axis=1)
            prediction[tied] = self.ties.labels(source[tied])
        return prediction

    @property
    def asked(self) -> int:
        """Rows whose labels the model was asked for, as their classes tie."""
        return 0 if self.ties is None else sum(self.ties.count)

    def way(self, subject: Subject, loss: Loss | None, *, blocked: bool) -> AnswerWay:
        """Steps for a single column, cells for several columns, unless these are too many."""
        feature = subject.feature
        if feature.kind == "single":
            if self._takes_column(feature.columns[0]):
                return "steps"
        elif self.ties is not None:
            raise Declined(TIES)
        elif feature.kind == "pair" or self._takes_pairs(subject):
            return "cells"  # of a product grid, too, which is smaller than all pairs
        raise Declined(f"{feature.name!r} has too many values for its trees")

    def prefers_sample(self, subject: Subject) -> bool:
        """A sample suits columns that are replaced together, unless pairs are few, or two columns have rectangles."""
        return subject.feature.kind == "group" and not self._takes_pairs(subject, MANY_COLUMNS)

    def _takes_column(self, column: int) -> bool:
        """Whether a column has few enough classes without order: categories, or a missing value."""
        unordered = int(self.bound.size[column] - self.bound.special[column])
        return unordered <= 2 or unordered * len(self.bound.roots) * self.bound.codes.shape[1] <= MAX_UNORDERED

    # Several columns replaced together.

    def _takes_pairs(self, subject: Subject, share_of_many: float = 1.0) -> bool:
        """Whether all pairs, with several columns replaced, are cheap enough to be predicted one by one.

        `share_of_many` of the limit holds for three and more columns.
        """
        columns, pairs = subject.feature.columns, self.bound.codes.shape[1] * len(subject.distinct)
        most = MAX_SMALL_TREES if self.bound.is_small else MAX_LARGE_TREES
        if pairs * len(self.bound.roots) <= most * (1.0 if len(columns) == 2 else share_of_many):
            return True
        from losslens.engines.trees import pair_table  # compiled, and of no use for single columns

        return pair_table.is_feasible(self.bound, self._grid_cost(columns), pairs)

    @cached_property
    def _grid_costs(self) -> dict[tuple[int, ...], GridCost | None]:
        return {}

    def _grid_cost(self, columns: Sequence[int]) -> GridCost | None:
        """Cost of a row's grid of two columns, estimated once."""
        key = tuple(sorted(int(j) for j in columns))
        if key not in self._grid_costs:
            from losslens.engines.trees import pair_table

            self._grid_costs[key] = pair_table.grid_cost(self.bound, np.array(key, np.intp))
        return self._grid_costs[key]

    def games(self, players: Sequence[Subject]) -> PlayerGames:
        """Games of these players."""
        if self.ties is not None:
            return PlayerGames()
        from losslens.engines.trees.player_games import TreeGames  # importances have no use for its kernels

        return TreeGames(self.bound, [player.feature.columns for player in players])

    def fill(self, rows: NDArray[np.intp], asks: Sequence[Ask], tick: Tick) -> Answer:
        """Predictions of these rows, unchanged and at every value of each group, some rows at a time."""
        base, cells = self.predict(rows), []
        tick(len(rows))
        for ask in asks:
            replaced, of_column = np.sort(ask.columns), dict(zip(ask.columns, ask.index, strict=True))
            donor_codes = np.stack([self.bound.codes[j, of_column[j]] for j in replaced])  # classes of the values
            of_ask = np.empty((len(rows), ask.size, *base.shape[1:]), base.dtype)
            step = max(1, PAIRS // ask.size)
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                raw = self._table(replaced, donor_codes, rows[part])
                of_ask[part] = self.bound.respond(raw.reshape(-1, raw.shape[2])).reshape(of_ask[part].shape)
                tick(ask.most(len(rows[part])))
            cells.append(of_ask)
        return Answer(base, cells, [0] * len(asks))

    def _table(
        self, replaced: NDArray[np.intp], donor_codes: NDArray[np.int32], rows: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """Sums of leaves of these rows at every value."""
        from losslens.engines.trees import pair_table

        bound, g, cost = self.bound, donor_codes.shape[1], self._grid_cost(replaced.tolist())
        if (
            cost is not None
            and pair_table.is_feasible(bound, cost, len(rows) * g)
            and pair_table.is_cheaper(bound, cost, g)
        ):
            return pair_table.grid_table(bound, replaced, donor_codes, rows)
        kept = np.setdiff1d(np.arange(len(bound.size)), replaced)
        return pair_table.pair_table(bound, bound.tables, kept, donor_codes, rows)

    # Curves of single columns.

    def classes(self, ask: Ask) -> ClassRuns:
        """The class of each value."""
        column = ask.columns[0]
        every, values = self.bound.class_of[column], ask.index[0]
        return every if ask.all_values else ClassRuns.of(self.bound.codes[column, values], every.size)

    def takes_about(self, n: int) -> tuple[float, int]:
        """Expected seconds of n rows, and bytes that would be sent to workers."""
        per_tree = SMALL_TREE if self.bound.is_small else LARGE_TREE
        return n * len(self.bound.roots) * per_tree, self.bound.codes.nbytes + self.bound.nodes.nbytes

    def walker(self, asks: Sequence[Ask]) -> Walker:
        """Computes curves, in one thread."""
        requested = np.zeros(len(self.bound.size), np.uint8)
        columns = np.array([ask.columns[0] for ask in asks])
        requested[columns] = 1
        ties = None if self.ties is None else replace(self.ties, columns=columns)
        return TreeWalker(self.bound, self.search(requested, self.bound), ties)

    def reordered(self, order: NDArray[np.intp]) -> Self:
        """The engine of the same rows in another order."""
        ties = None if self.ties is None else replace(self.ties, rows=self.ties.rows[order])
        bound = replace(self.bound, codes=np.ascontiguousarray(self.bound.codes[:, order]))
        return replace(self, bound=bound, ties=ties)

    def search(self, requested: NDArray[np.uint8], bound: BoundEnsemble) -> Search:
        """A search for curves of the requested columns, for one thread; `bound` may hold other rows."""
        if (tables := self.bound.tables) is None:
            from losslens.engines.trees.large_trees import LargeTrees  # one of two compiled searches

            return LargeTrees(bound, requested, self.memory)
        from losslens.engines.trees.small_trees import SmallTrees

        return SmallTrees(bound, tables, requested)


def _distinct(columns: Mapping[int, Column], j: int, _: Tick) -> Distinct:
    return columns[j].distinct


@dataclass(frozen=True, eq=False)
class TreeWalker:
    """Converts the steps of a search from sums of leaves to predictions."""

    bound: BoundEnsemble
    search: Search
    ties: Ties | None = None

    def steps(self, start: int, stop: int) -> Iterator[Steps]:
        """The curves of rows start .. stop, some rows at a time."""
        respond, room = self.bound.respond, np.empty((0, self.bound.ensemble.outputs))
        for raw in self.search.steps(start, stop):
            if len(room) < len(raw.raw):  # used again: new memory would take as long as filling it
                room = np.empty((len(raw.raw) * 5 // 4, room.shape[1]))
            prediction, own = respond(raw.raw, room[: len(raw.raw)]), respond(raw.own)
            if self.ties is not None:
                self.ties.break_in(self.bound, raw, prediction, own)
            yield Steps(raw.rows, raw.start, raw.classes, prediction, own)


@dataclass(frozen=True, eq=False)
class Ties:
    """Asks the model for the labels of rows in which two classes lead together."""

    site: Site
    rows: Indices  # of the table: the engine's may be in another order
    rounding: float
    count: list[int]  # of rows that the model has predicted, call by call
    columns: Indices | None = None  # (asks,): those of the curves

    def among(self, bound: BoundEnsemble, sums: NDArray[np.int64]) -> Indices:
        """The places of sums of leaves at which two classes lead."""
        leading: Any = bound.ensemble.link
        return np.flatnonzero(leading.tied(bound.scores(sums), self.rounding))

    def break_in(self, bound: BoundEnsemble, steps: RawSteps, prediction: NDArray[Any], own: NDArray[Any]) -> None:
        """Fill in the model's labels of tied steps of curves, and of tied rows with their own values."""
        tied, rows = self.among(bound, steps.raw), self.among(bound, steps.own)
        of_steps = self._source(bound, steps, tied)
        of_rows = np.repeat((steps.rows.start + rows)[:, None], len(bound.codes), axis=1)
        if len(tied) + len(rows):
            prediction[tied], own[rows] = np.split(self.labels(np.concatenate([of_steps, of_rows])), [len(tied)])

    def labels(self, source: Indices) -> NDArray[Any]:
        """The model's labels of rows whose columns take their values from these rows, (m, p)."""
        respond: Callable[[Any], NDArray[Any]] | None = self.site.respond
        assert respond is not None  # `choose_exact` has it
        source, each = self.rows[source], []
        for part in chunks(source[:, 0], source.shape[1]):
            some, base = source[part], source[part, 0]
            moved = np.flatnonzero((some != base[:, None]).any(axis=0))
            edits = [Edit(0, len(some), j, self.site.column(j), some[:, j]) for j in moved.tolist()]
            each.append(respond(Batch(self.site.table).fill(base, edits)))
            self.count.append(len(some))
        return np.concatenate(each)

    def _source(self, bound: BoundEnsemble, steps: RawSteps, tied: Indices) -> Indices:
        """Where the values of rows at these steps come from, (m, p): all values of a class have one label."""
        assert self.columns is not None  # there are curves
        row = np.searchsorted(steps.start[:, -1], tied, side="right")
        column = self.columns[(steps.start[row, 1:] <= tied[:, None]).sum(axis=1)]
        source = np.repeat((steps.rows.start + row)[:, None], len(bound.codes), axis=1)
        for j in np.unique(column).tolist():
            mine, first = column == j, np.unique(bound.codes[j], return_index=True)[1]
            source[mine, j] = first[steps.classes[tied[mine]]]
        return source
