"""Scores of cells, and their jackknife: each row, as an observation and as a donor, is left out.

Of an AUC single rows, or groups of them, are left out of the pairs that it counts; of other scores blocks of rows, or
groups, which takes a bounded number of calls.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from losslens.donors.designs import Shifts
from losslens.donors.layout import CommonGrid, Layout
from losslens.tables.sample import Sample, effective_number
from losslens.typing import Floats, Indices
from losslens.uncertainty.pair_counts import Areas, ClassAreas

BLOCKS, BLOCK_ROWS, BLOCK_COLUMNS = 25, 6_000, 3  # of the jackknife of other scores; predictions and columns in a call
MOST_GROUPS = 100  # that are left out one by one there; more are joined


class Judge(Protocol):
    """Gives the score of predictions: `PredictionScore`, or a scorer that needs the model and the rows."""

    @property
    def areas(self) -> Areas | None:
        """Which AUCs it averages, if it is one."""

    def of_rows(
        self, predictions: NDArray[Any], y: NDArray[Any], weight: Floats | None, rows: Indices | None = None
    ) -> float:
        """The score of all rows, or of those at these positions."""

    def ranked(
        self, predictions: NDArray[Any], y: NDArray[Any], weight: Floats | None, rows: Indices | None = None
    ) -> ClassAreas:
        """The pairs that an AUC counts."""


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The rows whose score is taken, with nothing replaced."""

    judge: Any  # a Judge
    sample: Sample  # all rows: they are the donors
    at: Indices  # (r,): the rows that are scored, in ascending order

    @property
    def y(self) -> NDArray[Any]:
        """Positions of classes, or numbers."""
        assert self.sample.y is not None  # scores have one
        return self.sample.y

    @cached_property
    def weight(self) -> Floats | None:
        """Of all rows, which sum to their number; None where they are equal."""
        weight = self.sample.weight
        return None if np.ptp(weight) == 0 else weight * len(weight)

    @cached_property
    def score(self) -> float:
        """The score."""
        return self.of(self.at)

    def of(self, rows: Indices) -> float:
        """The score of some rows."""
        weight = None if self.weight is None else self.weight[rows]
        every = len(rows) == self.sample.n
        return float(self.judge.of_rows(self.sample.prediction[rows], self.y, weight, None if every else rows))

    @property
    def matched(self) -> bool:
        """Whether columns hold some of the rows, or other weights of them, than the score has."""
        return self.weight is not None or self.sample.block is not None

    def in_column(self, column: ReplacedColumn) -> float:
        """The score of the rows of a column with their own values, each with the weight that it has there."""
        rows = None if len(column.rows) == self.sample.n else column.rows
        return float(self.judge.of_rows(self.sample.prediction[column.rows], self.y, column.weight, rows))

    # What is left out.

    @cached_property
    def units(self) -> Units:
        """What the jackknife leaves out, of all rows, as rows and as donors."""
        n, weight, block = self.sample.n, self.sample.weight, self.sample.block
        counted, number = np.flatnonzero(weight), np.full(n, -1)  # rows without weight are in no unit
        if block is not None:
            held, number[counted] = np.unique(block[counted], return_inverse=True)
            if self.judge.areas is None and len(held) > MOST_GROUPS:  # joined at random, the same for all features
                number[counted] = np.random.default_rng(n).permutation(len(held))[number[counted]] % MOST_GROUPS
            count = min(len(held), MOST_GROUPS) if self.judge.areas is None else len(held)
            some = self.at[number[self.at] >= 0]
            sizes = np.bincount(number[some], weight[some], count).astype(float)
            return Units("groups", number, count, effective_number(sizes))
        if self.judge.areas is not None:
            number[counted] = np.arange(len(counted))
            return Units("rows", number, len(counted), effective_number(weight[self.at]))
        count = min(BLOCKS, len(counted))
        # The same for every seed: what is exact has the same error again. The same for all features and models.
        number[np.random.default_rng(n).permutation(counted)] = np.arange(len(counted)) % count
        return Units("blocks", number, count, float(len(np.setdiff1d(number[self.at], [-1]))))

    @cached_property
    def without(self) -> Floats | None:
        """The score without each unit, (u,); None where some unit can't be left out."""
        return _finite(self._without) if self.units.count >= 3 else None

    def _without(self) -> Floats:
        if self.units.kind == "rows":
            return self.counts.without(self.place, self.place)[self.units.number >= 0]
        number = self.units.number[self.at]
        if self.judge.areas is not None:
            row = np.flatnonzero(number >= 0)
            return self.counts.without_units(row, number[row], self.units.count)
        return np.array([self.of(self.at[number != g]) for g in range(self.units.count)])

    # Of an AUC.

    @cached_property
    def counts(self) -> ClassAreas:
        """The pairs that the AUC of these rows counts."""
        return self.counted(self.sample.prediction[self.at], None if self.weight is None else self.weight[self.at])

    def counted(self, predictions: NDArray[Any], weight: Floats | None) -> ClassAreas:
        """The pairs of these predictions; a last row without weight stands for rows that are not scored."""
        weight = np.ones(len(self.at)) if weight is None else weight
        rows, weight = np.append(self.at, self.at[0]), np.append(weight, 0.0)
        padded = np.concatenate([predictions, predictions[:1]])
        found: ClassAreas = self.judge.ranked(padded, self.y, weight, rows)
        return found

    @cached_property
    def place(self) -> Indices:
        """Where each of all rows is among those that are scored, (n,); the place behind the last: nowhere."""
        place = np.full(self.sample.n, len(self.at))
        place[self.at] = np.arange(len(self.at))
        return place


@dataclass(frozen=True, eq=False)
class Units:
    """What the jackknife leaves out, one after the other: rows, groups of rows, or random blocks of rows."""

    kind: Literal["rows", "groups", "blocks"]
    number: Indices  # (n,): the unit of each row; -1: none
    count: int
    effective: float  # as many of equal weight


@dataclass(frozen=True, eq=False)
class ReplacedColumn:
    """Rows with one donor each: a column of the design. With weights the weight of a cell is w_i w_k."""

    rows: Indices
    donors: Indices  # of these rows
    at: tuple[Indices, Any]  # their cells
    weight: Floats | None
    share: float

    @property
    def own_mass(self) -> float:
        """The weight of the rows that are their own donors."""
        same = self.rows == self.donors
        return float(same.sum() if self.weight is None else self.weight[same].sum())


@dataclass(frozen=True, eq=False)
class ScoredCells:
    """Predictions of the cells of a feature, and the columns that its design makes of them."""

    layout: Layout
    predictions: NDArray[Any]  # (n, c) or (n, c, K)
    has_columns: bool  # with one donor of each row

    def columns(self, own: ScoredRows) -> list[ReplacedColumn]:
        """The columns of the design, of the rows that are scored; for all pairs the n cyclic shifts."""
        return list(self._columns(own)) if self.has_columns and self.layout.has_mass else []

    def _columns(self, own: ScoredRows) -> Iterator[ReplacedColumn]:
        layout, weight, block, at = self.layout, own.weight, own.sample.block, own.at
        n = own.sample.n
        drawn = None if isinstance(layout, CommonGrid) else np.asarray(layout.donors[:])
        # Rows of a group often follow each other: a short shift leaves few pairs, one along a random order doesn't.
        order = np.arange(n) if block is None else np.random.default_rng(n).permutation(n)
        place = np.argsort(order)
        for t in range(int(layout.leaves_out_own and drawn is None), n if drawn is None else drawn.shape[1]):
            cell = np.full(n, t) if drawn is None else _cell_of(layout.donors, t)
            donors, rows = order[(place[at] + t) % n] if drawn is None else drawn[at, cell[at]], at
            if block is not None:  # no donors of the own group
                apart = block[rows] != block[donors]
                rows, donors = rows[apart], donors[apart]
            pair = None if weight is None else weight[rows] * weight[donors]
            if not len(rows) or (pair is not None and not pair.any()):
                continue  # no pair has weight
            cells = (rows, layout.own[donors] if isinstance(layout, CommonGrid) else cell[rows])
            share = float(len(rows) if pair is None else pair.sum())
            yield ReplacedColumn(rows, donors, cells, pair, share)

    def score(self, own: ScoredRows, column: ReplacedColumn) -> float:
        """The score of a column."""
        rows = None if len(column.rows) == own.sample.n else column.rows
        return float(own.judge.of_rows(self.predictions[column.at], own.y, column.weight, rows))

    def curve(self, own: ScoredRows) -> Floats | None:
        """The score with every row at each value, (g,); None where rows have donors of their own."""
        if not isinstance(self.layout, CommonGrid):
            return None
        rows = None if len(own.at) == own.sample.n else own.at
        weight = own.weight if own.weight is None else own.weight[own.at]
        cells = self.predictions[own.at]
        return np.array([own.judge.of_rows(cells[:, v], own.y, weight, rows) for v in range(self.layout.size)])

    def jackknifed(self, own: ScoredRows, columns: list[ReplacedColumn]) -> tuple[Floats, Floats | None]:
        """The score of each column, and the importance without each unit, as rows and as donors.

        None where some unit can't be left out.
        """
        if own.units.kind == "rows":
            scores, without = self._without_rows(own, columns)
        elif own.judge.areas is not None:
            scores, without = self._without_groups(own, columns)
        else:
            scores = np.array([self.score(own, column) for column in columns])
            return scores, _finite(self._without_blocks, own, columns) if own.units.count >= 3 else None
        return scores, without if own.units.count >= 3 and np.isfinite(without).all() else None

    def _without_rows(self, own: ScoredRows, columns: list[ReplacedColumn]) -> tuple[Floats, Floats]:
        """Of an AUC: without row i, and without the row that has it as its donor, also with nothing replaced."""
        n, first = own.sample.n, own.place
        total, mass, scores = np.zeros(n), np.zeros(n), []
        for column in columns:
            second = np.full(n, len(own.at))
            second[column.donors] = np.arange(len(own.at))
            counts = own.counted(self.predictions[column.at], column.weight)
            scores.append(counts.auc)
            before = own.counts
            if own.matched:
                before = own.counted(own.sample.prediction[column.rows], column.weight)
            pair = counts.weight
            left = column.share - pair[first] - np.where(first == second, 0.0, pair[second])
            total += left * (before.without(first, second) - counts.without(first, second))
            mass += left
        with np.errstate(invalid="ignore"):  # one row with weight
            return np.array(scores), (total / mass)[own.units.number >= 0]

    def _without_groups(self, own: ScoredRows, columns: list[ReplacedColumn]) -> tuple[Floats, Floats]:
        """Of an AUC: without the rows of a group, and those that have their donor from it, also with nothing replaced.

        Columns in which a class is then gone don't count for that group.
        """
        units, scores = own.units, []
        total, mass = np.zeros(units.count), np.zeros(units.count)
        for column in columns:
            unit = np.concatenate([units.number[column.rows], units.number[column.donors]])  # never twice the same
            row = np.tile(np.arange(len(column.rows)), 2)[unit >= 0]
            unit = unit[unit >= 0]
            before, after = (
                own.judge.ranked(prediction, own.y, column.weight, column.rows)
                for prediction in (own.sample.prediction[column.rows], self.predictions[column.at])
            )
            scores.append(after.auc)
            left = column.share - np.bincount(unit, after.weight[row], units.count)
            drop = before.without_units(row, unit, units.count) - after.without_units(row, unit, units.count)
            total += np.where(np.isnan(drop), 0.0, left * drop)
            mass += np.where(np.isnan(drop), 0.0, left)
        with np.errstate(invalid="ignore"):  # a class is in one group alone
            return np.array(scores), total / mass

    def _without_blocks(self, own: ScoredRows, columns: list[ReplacedColumn]) -> Floats:
        """Of any score: of some columns together, in one call for each block, and one with nothing replaced."""
        units, sample = own.units, own.sample
        most = pooled(len(own.at))
        some = columns[:: max(1, len(columns) // most)][:most]
        rows, donors, places = (
            np.concatenate(part) for part in zip(*((one.rows, one.donors, one.at[1]) for one in some), strict=True)
        )
        weight = None if some[0].weight is None else np.concatenate([one.weight for one in some])
        cells, of_row, of_donor = self.predictions[rows, places], units.number[rows], units.number[donors]
        found = []
        for g in range(units.count):
            left = (of_row != g) & (of_donor != g)
            kept, of_pairs = rows[left], None if weight is None else weight[left]
            before = own.judge.of_rows(sample.prediction[kept], own.y, of_pairs, kept)
            after = own.judge.of_rows(cells[left], own.y, of_pairs, kept)
            found.append(before - after)
        return np.array(found)


def _cell_of(donors: Any, t: int) -> Indices:
    """The cell of each row with its donor in column t, (n,): in a column every row is a donor once.

    Where the cells of a row are in the order of its donors' ranks, the donors in the t-th cells of all rows have about
    the same rank; those at the t-th shift have all ranks. The cells behind the end of the cyclic order come first.
    """
    n, m = donors.shape
    if not isinstance(donors, Shifts) or not donors.ascending:
        return np.full(n, t)
    behind = m - np.searchsorted(np.sort(donors.shifts), n - donors.places)
    return np.asarray((t + behind) % m, np.intp)


def pooled(n: int) -> int:
    """Columns whose rows are scored together where a block is left out."""
    return max(BLOCK_COLUMNS, BLOCK_ROWS // n)


def _finite(leave: Any, *given: Any) -> Floats | None:
    """Numbers without each unit; None where one of them is not defined."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scores that are not defined without a unit
        try:
            found = leave(*given)
        except Exception:  # noqa: BLE001 - whatever a scorer raises without some rows, such as those of a class
            return None
    return found if np.isfinite(found).all() else None


def score_fields(own: ScoredRows, number: ScoredCells, grid: ScoredCells) -> dict[str, Any]:
    """The numbers of a feature: `number` has the columns, `grid` the curve."""
    columns = number.columns(own)
    shares = np.array([column.share for column in columns])
    itself = sum(column.own_mass for column in columns)
    scores, without = number.jackknifed(own, columns) if columns else (None, None)
    return {
        "score": own.score,
        "column_scores": scores,
        "column_bases": np.array([own.in_column(column) for column in columns]) if columns and own.matched else None,
        "column_shares": shares / shares.sum() if columns else None,
        "curve": grid.curve(own),
        "own_share": itself / float(shares.sum()) if columns else 0.0,
        "without": without,
        "score_without": own.without,
        "units": own.units.kind,
        "effective": own.units.effective,
    }
