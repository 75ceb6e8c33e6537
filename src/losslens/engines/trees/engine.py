"""The tree engine: exact curves of tree ensembles, any loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Ask, Subject
from losslens.engines import rates
from losslens.engines.base import Answer, AnswerWay, Declined, ExactEngine, Site, Steps, Walker, spread
from losslens.engines.readers.ensemble import Ensemble, is_affine
from losslens.engines.readers.unwrapped import UnwrappedModel
from losslens.engines.trees.bound import BoundEnsemble, Search, bind, tree_images
from losslens.engines.trees.fixed_point import PRECISION, fixed_point, in_one_digit
from losslens.engines.trees.node_rules import FEATURE, SMALL_TREE_LEAVES
from losslens.progress import Tick
from losslens.tables.columns import ClassRuns, Column, Distinct
from losslens.typing import Floats
from losslens.workers import in_process

if TYPE_CHECKING:
    from losslens.engines.gpu.boxes import Boxes
    from losslens.engines.gpu.losses import DeviceLoss
    from losslens.engines.gpu.pairs import DevicePairs
    from losslens.engines.gpu.totals import DeviceErrors
    from losslens.engines.trees.coalitions import CoalitionErrors
    from losslens.engines.trees.player_games import TreeGames
    from losslens.losses import Loss

FEW_VALUES = 300_000  # sorted and bound to the trees in one thread: of short columns threads wait for each other
PAIRS = 1 << 18  # pairs predicted at a time
MAX_SMALL_TREES, MAX_LARGE_TREES = 4e9, 1e8  # pairs times small trees, and times large ones: some seconds
MAX_DEVICE_WORD_OPERATIONS = 1e13  # of a coalition on a device, see `coalitions.cost`: some seconds
MAX_UNORDERED = 3e8  # rows times trees times classes without order: some seconds


@dataclass(frozen=True, eq=False)
class Trees(ExactEngine):
    """Exact curves of tree ensembles: walks the trees with one feature free."""

    bound: BoundEnsemble
    memory: int  # bytes of a thread's buffers, about
    device: str | None = None  # torch device for coalitions; None: this processor
    name: ClassVar[str] = "trees"
    adds_in_single: ClassVar[bool] = True
    sorts_values: ClassVar[bool] = True

    @classmethod
    def of(cls, ensemble: Ensemble, unwrapped: UnwrappedModel, site: Site) -> Self:
        """An ensemble on the columns of a table."""
        needed = site.requested | ensemble.used(unwrapped)
        workers = in_process(site.n_jobs if site.table.n * len(needed) > FEW_VALUES else 1)
        columns = _ColumnValues(site, sorted(needed))
        if unwrapped.transform is not None:  # images of all columns come first
            for _ in workers.map(_distinct, columns, columns.needed):
                pass
        images = tree_images(ensemble, unwrapped, site.table, columns)
        bound = bind(ensemble, site.table.n, _AllValues(columns), images, workers, columns.release)
        return cls(bound, site.memory // 8, site.device)

    @property
    def uses(self) -> Floats:
        """The number of nodes that compare each column."""
        number = np.zeros(len(self.bound.size))
        for nodes in self.bound.ensemble.nodes_of.values():
            number[self.bound.nodes[nodes[0], FEATURE]] += len(nodes)
        return number

    @cached_property
    def sums(self) -> BoundEnsemble:
        """The trees as closed forms need them: with one integer for each leaf, if errors are small in all rows."""
        one = in_one_digit(self.bound.ensemble)
        if one is self.bound.ensemble or not is_affine(one.link, one.outputs):
            return self.bound
        value, unit = fixed_point(one)
        error = len(one.roots) * float(unit.max()) / 2 / one.divisor
        if error > PRECISION * spread(self.predict(np.arange(self.bound.codes.shape[1]))):
            return self.bound
        return replace(self.bound, value=value, unit=unit, ensemble=one)

    @cached_property
    def is_small(self) -> bool:
        """Whether every tree has few enough leaves for `tables`."""
        return int(np.diff(self.bound.leaf_at).max()) <= SMALL_TREE_LEAVES

    @cached_property
    def levels(self) -> Any:
        """The questions of oblivious trees; None if some tree is none."""
        from losslens.engines.trees.oblivious_trees import levels_of

        return levels_of(self.bound)

    @cached_property
    def tables(self) -> Any:
        """The masks of small trees; None if a tree is too large for them."""
        if not self.is_small:
            return None
        from losslens.engines.trees.small_trees import tables  # each kernel is compiled when it is first needed

        return tables(self.bound)

    def predict(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Predictions of some rows."""
        codes = self.bound.codes
        of_each = codes[:, rows] if rows.ndim == 1 else np.take_along_axis(codes, rows.T, axis=1)
        return self.bound.respond(self.bound.sums_of(of_each))

    def way(self, subject: Subject, loss: Loss | None, *, blocked: bool) -> AnswerWay:
        """Steps for a single column; for several columns cells, or only means if there are too many cells."""
        feature, n = subject.feature, self.bound.codes.shape[1]
        if feature.kind == "single":
            if self._takes_column(feature.columns[0]):
                return "steps"
        elif feature.kind == "pair" or self.takes_pairs(n * len(subject.distinct), feature.columns):
            return "cells"  # of a product grid, too, which is smaller than all pairs
        elif loss is not None and not loss.custom and not blocked and (self.is_single or self.gives_totals(loss)):
            return "totals"
        raise Declined(f"{feature.name!r} has too many values for its trees")

    def _takes_column(self, column: int) -> bool:
        """Whether a column has few enough classes without order: categories, or a missing value."""
        unordered = int(self.bound.size[column] - self.bound.special[column])
        return unordered <= 2 or unordered * len(self.bound.roots) * self.bound.codes.shape[1] <= MAX_UNORDERED

    def label(self, way: AnswerWay) -> str:
        """Name of the engine; totals of several trees are computed on the device."""
        on_device = way == "totals" and self.device is not None and not self.is_single
        return f"{self.name} on {self.device}" if on_device else self.name

    # Several columns replaced together.

    @property
    def is_single(self) -> bool:
        """Whether it is a single tree: then every mean has a closed form."""
        return len(self.bound.roots) == 1

    @property
    def is_countable(self) -> bool:
        """Whether it has few enough leaves to compare all of them with each other."""
        from losslens.engines.trees.coalitions import MAX_WORD_OPERATIONS, cost

        return cost(self.bound) <= (MAX_WORD_OPERATIONS if self.device is None else MAX_DEVICE_WORD_OPERATIONS)

    def squared_target(self, loss: Loss, y: NDArray[np.generic]) -> Floats | None:
        """y on the scale of the trees' sums, if the loss is a squared error on that scale; else None."""
        sums, outputs = self.sums.ensemble.sums_are, self.sums.ensemble.outputs
        if loss.name == "squared_error" and sums == "values":
            return np.asarray(y, float)
        if loss.name == "brier" and sums == "second class":
            return np.asarray(y == 1, float)
        if loss.name == "brier" and sums == "classes" and outputs > 2:  # that of two classes is of the second alone
            return np.asarray(np.asarray(y)[:, None] == np.arange(outputs), float)
        return None

    def gives_totals(self, loss: Loss) -> bool:
        """Whether the mean loss over all pairs, with any columns replaced, can be computed without the pairs."""
        if loss.custom or not self.is_countable:
            return False
        return self.squared_target(loss, np.zeros(1, np.intp)) is not None

    def takes_pairs(self, pairs: int, columns: Sequence[int]) -> bool:
        """Whether so many pairs, with these columns replaced, are cheap enough to be predicted one by one."""
        from losslens.engines.trees import two_columns

        if pairs * len(self.bound.roots) <= (MAX_SMALL_TREES if self.is_small else MAX_LARGE_TREES):
            return True
        return two_columns.is_feasible(self.bound, self._grid_cost(columns), pairs)

    @cached_property
    def _grid_costs(self) -> dict[tuple[int, ...], Any]:
        return {}

    def _grid_cost(self, columns: Sequence[int]) -> Any:
        """Cost of a row's grid of two columns, estimated once."""
        from losslens.engines.trees import two_columns

        key = tuple(sorted(int(j) for j in columns))
        if key not in self._grid_costs:
            self._grid_costs[key] = two_columns.grid_cost(self.bound, np.array(key, np.intp))
        return self._grid_costs[key]

    def coalition_errors(self, target: Floats, weight: Floats) -> CoalitionErrors | DeviceErrors:
        """Mean squared errors over all pairs, of any columns."""
        if self.device is not None:
            from losslens.engines.gpu.totals import DeviceErrors

            rows = np.flatnonzero(weight > 0)
            return DeviceErrors(self._boxes(rows), target[rows], weight[rows], self.device)
        from losslens.engines.trees.coalitions import CoalitionErrors

        return CoalitionErrors(self.sums, target, weight, self.memory // 2)

    def device_loss(self, loss: Loss) -> DeviceLoss | None:
        """The loss of single pairs on the device; None if there is no device, or the loss is not supported there."""
        ensemble = self.bound.ensemble
        if self.device is None or not ensemble.is_tried:
            return None
        from losslens.engines.gpu.losses import device_loss
        from losslens.engines.gpu.pairs import MAX_TREES

        return device_loss(ensemble.link, ensemble.outputs, loss) if len(self.bound.roots) <= MAX_TREES else None

    def device_pairs(self, loss: Loss, target: Floats, weight: Floats) -> DevicePairs:
        """Mean losses of rows and donors over all pairs, of any columns, on the device."""
        from losslens.engines.gpu.pairs import DevicePairs

        on_device = self.device_loss(loss)
        assert on_device is not None  # callers have tested it
        assert self.device is not None
        return DevicePairs(self._boxes(np.arange(len(target))), target, weight, on_device, self.device)

    def _boxes(self, rows: NDArray[np.intp]) -> Boxes:
        from losslens.engines.trees.boxes import boxes

        return boxes(self.bound, rows)

    @cached_property
    def leaf_predictions(self) -> NDArray[Any]:
        """The prediction of a single tree at each leaf."""
        bound = self.bound
        raw = np.zeros((len(bound.value), bound.ensemble.outputs), np.int64)
        raw[:, bound.output[0] : bound.output[0] + bound.value.shape[1]] = bound.value
        return bound.respond(raw)

    def errors_of_single_tree(self, kept: NDArray[np.intp], leaf_loss: Any, weight: Floats) -> tuple[Floats, Floats]:
        """The mean loss of each row over all donors, and of each donor over all rows."""
        from losslens.engines.trees.coalitions import single_tree_errors

        return single_tree_errors(self.bound, kept, leaf_loss, weight)

    def games(self, players: Sequence[Subject]) -> TreeGames:
        """Games of these players: pair by pair, from the leaves of a single tree, or totals."""
        from losslens.engines.trees.player_games import TreeGames

        return TreeGames(self, players)

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
        from losslens.engines.trees import two_columns
        from losslens.engines.trees.coalitions import pair_table

        cost = self._grid_cost(replaced.tolist())
        if two_columns.is_feasible(self.bound, cost, len(rows) * donor_codes.shape[1]) and (
            not self.is_small or two_columns.is_cheaper(self.bound, cost, donor_codes.shape[1])
        ):
            return two_columns.grid_table(self.bound, replaced, donor_codes, rows)
        kept = np.setdiff1d(np.arange(len(self.bound.size)), replaced)
        return pair_table(self.bound, self.tables, kept, donor_codes, rows)

    # Curves of single columns.

    def classes(self, ask: Ask) -> ClassRuns:
        """The class of each value."""
        return self.bound.class_of[ask.columns[0]]

    def takes_about(self, n: int) -> tuple[float, int]:
        """Expected seconds of n rows, and bytes that would be sent to workers."""
        per_tree = rates.SMALL_TREE if self.is_small else rates.LARGE_TREE
        per_tree = per_tree if self.levels is None else rates.OBLIVIOUS_TREE
        return n * len(self.bound.roots) * per_tree, self.bound.codes.nbytes + self.bound.nodes.nbytes

    def walker(self, asks: Sequence[Ask]) -> Walker:
        """Computes curves, in one thread."""
        wanted = np.zeros(len(self.bound.size), np.uint8)
        wanted[[ask.columns[0] for ask in asks]] = 1
        return TreeWalker(self.bound, self.search(wanted, self.bound))

    def reordered(self, order: NDArray[np.intp]) -> Self:
        """The engine of the same rows in another order."""
        return replace(self, bound=replace(self.bound, codes=np.ascontiguousarray(self.bound.codes[:, order])))

    def search(self, wanted: NDArray[np.uint8], bound: BoundEnsemble) -> Search:
        """Search for curves of the wanted columns, in one thread; `bound` may have other rows with the same classes."""
        if (levels := self.levels) is not None:
            from losslens.engines.trees.oblivious_trees import ObliviousTrees

            return ObliviousTrees(bound, levels, wanted)
        if self.tables is None:
            from losslens.engines.trees.large_trees import LargeTrees

            return LargeTrees(bound, wanted, self.memory)
        from losslens.engines.trees.small_trees import SmallTrees

        return SmallTrees(bound, self.tables, wanted)


@dataclass(frozen=True, eq=False)
class _ColumnValues(Mapping[int, tuple[Column, Distinct]]):
    """The columns that trees or features use, and their distinct values: sorted when they are read."""

    site: Site
    needed: Sequence[int]

    def __getitem__(self, j: int) -> tuple[Column, Distinct]:
        column = self.site.column(j)
        return column, column.distinct

    def __iter__(self) -> Iterator[int]:
        return iter(self.needed)

    def __len__(self) -> int:
        return len(self.needed)

    def release(self, j: int) -> None:
        """Forget the values of a column, where they are not needed soon."""
        if self.site.releases:
            self.site.column(j).release()


def _distinct(columns: _ColumnValues, j: int, _: Tick) -> Distinct:
    return columns[j][1]


@dataclass(frozen=True, eq=False)
class _AllValues(Sequence[Distinct]):
    """The distinct values of all columns of the table; those that nothing uses have one."""

    columns: _ColumnValues

    def __getitem__(self, j: Any) -> Any:
        return self.columns[j][1] if j in self.columns.needed else self._constant

    def __len__(self) -> int:
        return len(self.columns.site.table.names)

    @cached_property
    def _constant(self) -> Distinct:
        n = self.columns.site.table.n
        return Distinct(np.zeros(1), np.zeros(n, np.intp), np.zeros(1, np.intp), ordered=True)


@dataclass(frozen=True, eq=False)
class TreeWalker:
    """Converts the steps of a search from sums of leaves to predictions."""

    bound: BoundEnsemble
    search: Search

    def steps(self, start: int, stop: int) -> Iterator[Steps]:
        """The curves of rows start .. stop, some rows at a time."""
        respond, room = self.bound.respond, np.empty((0, self.bound.ensemble.outputs))
        for raw in self.search.steps(start, stop):
            if len(room) < len(raw.raw):  # used again: new memory would take as long as filling it
                room = np.empty((len(raw.raw) * 5 // 4, room.shape[1]))
            prediction = respond(raw.raw, room[: len(raw.raw)])
            yield Steps(raw.rows, raw.start, raw.classes, prediction, respond(raw.own))
