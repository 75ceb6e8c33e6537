"""Any score, column by column: the mean over columns in which each row has one donor.

Its jackknife leaves out blocks of rows, or groups, as rows and as donors, in a bounded number of calls.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from losslens.donors.designs import Shifts
from losslens.donors.layout import CommonGrid, Layout
from losslens.tables.frozen import Frozen, deferred, lazy
from losslens.tables.sample import Sample, effective_number
from losslens.typing import Floats, Indices
from losslens.uncertainty.standard_errors import Influence

BLOCKS, BLOCK_ROWS, BLOCK_COLUMNS = 25, 6_000, 3  # of the jackknife of other scores; predictions and columns in a call
MOST_GROUPS = 100  # that are left out one by one there; more are joined


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
            if len(held) > MOST_GROUPS:  # joined at random, the same for all features
                number[counted] = np.random.default_rng(n).permutation(len(held))[number[counted]] % MOST_GROUPS
            count = min(len(held), MOST_GROUPS)
            some = self.at[number[self.at] >= 0]
            sizes = np.bincount(number[some], weight[some], count).astype(float)
            return Units("groups", number, count, effective_number(sizes))
        count = min(BLOCKS, len(counted))
        # The same for every seed: what is exact has the same error again. The same for all features and models.
        number[np.random.default_rng(n).permutation(counted)] = np.arange(len(counted)) % count
        return Units("blocks", number, count, float(len(np.setdiff1d(number[self.at], [-1]))))

    def left_out(self) -> Floats | None:
        """The score without each unit, (u,); None where some unit can't be left out."""
        return _finite(self._without) if self.units.count >= 3 else None

    def _without(self) -> Floats:
        number = self.units.number[self.at]
        return np.array([self.of(self.at[number != g]) for g in range(self.units.count)])


@dataclass(frozen=True, eq=False)
class Units:
    """What the jackknife leaves out, one after the other: groups of rows, or random blocks of rows."""

    kind: Literal["groups", "blocks"]
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
        layout, weight, block, scored = self.layout, own.weight, own.sample.block, own.at
        n = own.sample.n
        drawn = None if isinstance(layout, CommonGrid) else np.asarray(layout.donors[:])
        # Rows of a group often follow each other: a short shift leaves few pairs, one along a random order doesn't.
        order = np.arange(n) if block is None else np.random.default_rng(n).permutation(n)
        place = np.argsort(order)
        for t in range(int(layout.leaves_out_own and drawn is None), n if drawn is None else drawn.shape[1]):
            cell = np.full(n, t) if drawn is None else _cell_of(layout.donors, t)
            donors, rows = order[(place[scored] + t) % n] if drawn is None else drawn[scored, cell[scored]], scored
            if block is not None:  # no donors of the own group
                differ = block[rows] != block[donors]
                rows, donors = rows[differ], donors[differ]
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

    def scores(self, own: ScoredRows) -> Floats | None:
        """The score of each column; None where the design has none."""
        columns = self.columns(own)
        return np.array([self.score(own, column) for column in columns]) if columns else None

    def bases(self, own: ScoredRows) -> Floats:
        """The score of the rows of each column, nothing replaced."""
        return np.array([own.in_column(column) for column in self.columns(own)])

    def without(self, own: ScoredRows) -> Floats | None:
        """The importance without each unit, as rows and as donors; None where some unit can't be left out."""
        columns = self.columns(own)
        if not columns or own.units.count < 3:
            return None
        return _finite(self._without_blocks, own, columns)

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


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnScore(Frozen):
    """A score of one feature: that of the rows less its mean over the columns of the design."""

    score: float
    values: tuple[NDArray[Any], ...] = lazy()  # the grid of the curve
    shares: Floats | None = lazy()  # (g,): of the donors at each value
    column_scores: Floats | None = lazy()  # (m,): None for a grid
    column_bases: Floats | None = lazy()  # (m,): of the same rows and weights, nothing replaced; None: all have `score`
    column_shares: Floats | None  # (m,): weight of each column
    own_share: float  # of the pairs, those of a row with itself
    at_values: Floats | None = lazy()  # (g,): the score with every row at a value
    without: Floats | None = lazy()  # (u,): the importance without each unit; None where there is no jackknife
    score_without: Floats | None = lazy()  # (u,): the score without each unit
    unit: Literal["groups", "blocks"]
    units: float
    title: str
    own: ScoredRows | None  # None where the scorer may read the model or the rows, which results don't hold
    number: ScoredCells | None  # with the columns of the design
    grid: ScoredCells | None  # with those of the curve
    undefined: str = ""

    @classmethod
    def of(
        cls, own: ScoredRows, number: ScoredCells, grid: ScoredCells, values: Any, shares: Any, title: str, *,
        keeps: bool,
    ) -> Self:  # fmt: skip
        """`number` has the columns, `grid` the curve. What takes calls of the scorer waits, if it `keeps` the cells."""
        later: Any = deferred if keeps else _now
        columns = number.columns(own)
        share = np.array([column.share for column in columns])
        return cls(
            score=own.score, values=values, shares=shares, title=title, unit=own.units.kind, units=own.units.effective,
            column_scores=later(number.scores, own),
            column_bases=later(number.bases, own) if own.matched and columns else None,
            column_shares=share / share.sum() if columns else None,
            own_share=sum(column.own_mass for column in columns) / float(share.sum()) if columns else 0.0,
            at_values=later(grid.curve, own), without=later(number.without, own), score_without=later(own.left_out),
            own=own if keeps else None, number=number if keeps else None, grid=grid if keeps else None,
        )  # fmt: skip

    is_auc: ClassVar[bool] = False

    @property
    def column_drops(self) -> Floats:
        """How much lower the score of each column is than with nothing replaced, (m,)."""
        if self.column_scores is None:
            raise ValueError("a curve and no number for a scorer; use 'all' or Latin(m)")
        return np.asarray((self.score if self.column_bases is None else self.column_bases) - self.column_scores)

    @property
    def importance(self) -> float:
        """The mean over the columns; exactly 0 where nothing changes."""
        drops = self.column_drops
        assert self.column_shares is not None  # columns have shares
        return float(drops @ self.column_shares)

    @property
    def unbiased(self) -> float:
        """Without pairs of a row with itself, which change nothing."""
        return self.importance / (1 - self.own_share) if self.own_share < 1 else self.importance

    @property
    def curve(self) -> Floats:
        """The score less that with every row at a value."""
        if self.at_values is None:
            raise ValueError("no PI curve for a scorer; use donors='all' or Grid(m)")
        return np.asarray(self.score - self.at_values)

    @property
    def influence(self) -> Influence:
        """The jackknife: what each unit moves the importance."""
        if self.without is None:
            raise ValueError(
                f"no standard error of {self.title}: without some rows, as without all of a class, it is not defined, "
                "or there are too few rows, or the design has no columns; use donors='auto' or Latin(m)"
            )
        return self._jackknife(self.without)

    @property
    def score_influence(self) -> Influence:
        """The same for the score itself."""
        if self.score_without is None:
            raise ValueError(f"no standard error of {self.title}: without some rows it is not defined")
        return self._jackknife(self.score_without)

    def _jackknife(self, without: Floats) -> Influence:
        """Blocks are too few to estimate a skewness."""
        count = len(without)
        moved = np.sqrt((count - 1) / count) * (without.mean() - without)
        return Influence(moved, cubes=0.0 if self.unit == "blocks" else None)

    @property
    def rows(self) -> ScoredRows:
        """The rows that are scored."""
        if self.own is None:
            raise ValueError(
                f"some rows have no score by {self.title}: it may read the model or the rows, which results don't "
                "hold. Pass a scorer that sklearn.metrics.make_scorer made, or its name"
            )
        return self.own

    at = property(attrgetter("rows.at"), doc="Their positions.")
    sample = property(attrgetter("rows.sample"), doc="All rows.")

    def at_positions(self, chosen: Indices) -> Self:
        """The score of some rows, with donors from all rows; NaN where it is not defined."""
        own = replace(self.rows, at=self.rows.at[chosen])
        undefined = own.judge.why_undefined(lambda: own.score)[1]
        assert self.number is not None  # kept together
        assert self.grid is not None
        if undefined:
            scores, curve = (one if one is None else one * np.nan for one in (self.column_scores, self.at_values))
            undefined = f"{self.title} is not defined for these rows: {undefined}"
            return replace(
                self, score=np.nan, column_scores=scores, at_values=curve, without=None, score_without=None, own=own,
                undefined=undefined,
            )  # fmt: skip
        return self.of(own, self.number, self.grid, self.values, self.shares, self.title, keeps=True)


def _now(compute: Any, *given: Any) -> Any:
    return compute(*given)
