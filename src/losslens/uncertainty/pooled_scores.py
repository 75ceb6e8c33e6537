"""Scores of the pooled cells: AUCs, scores of the table of true and predicted classes, average precision.

``importance = s(rows) - s(cells)``, where both weigh rows as pairs do. Errors are the jackknife's: each row, or group
of rows, is left out of all pairs in which it is a row or a donor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.cells.pool import Pool
from losslens.tables.frozen import Frozen, lazy
from losslens.tables.sample import Sample, effective_number
from losslens.typing import Floats, Indices
from losslens.uncertainty.inference import Unit
from losslens.uncertainty.pair_counts import ClassAreas
from losslens.uncertainty.prediction_scores import PredictionScore
from losslens.uncertainty.standard_errors import Influence

EXACT_PAIRS = 1_100_000  # up to so many units are left out exactly of an AUC
CURVE = 50  # values of a curve, at most
FIRST = 1000  # runs that usually show whether any prediction changes
BLOCKS = 25  # of rows, of the jackknife of the average precision


@dataclass(frozen=True, eq=False, kw_only=True)
class PooledScore(Frozen):
    """A score of one feature."""

    judge: PredictionScore
    pool: Pool | None = lazy()  # None for a grid without donors
    grid: Pool | None = lazy()  # whose values the curve has; None where rows have donors of their own
    values: tuple[NDArray[Any], ...] = lazy()
    shares: Floats | None = lazy()  # (g,): of the donors at each value
    every: Sample
    at: Indices  # the rows that are scored
    undefined: str = ""

    sample = property(attrgetter("every"), doc="All rows, which are the donors.")

    @property
    def is_auc(self) -> bool:
        """Whether it is an AUC, or a mean of AUCs."""
        return self.judge.areas is not None

    @property
    def score(self) -> float:
        """Of the rows as they are."""
        return self.judge.of_rows(self.every.prediction[self.at], self._y, self.every.weight[self.at], self.at)

    @property
    def importance(self) -> float:
        """The score of the pairs with each row's own prediction less that of the cells."""
        if self._unchanged:
            return 0.0
        return float(self._base.value - self._cells.value)

    @property
    def unbiased(self) -> float:
        """The same: it has little bias, and no factor takes it away."""
        return self.importance

    @property
    def _unchanged(self) -> bool:
        """Whether no prediction changes: sums of the same numbers in another order would differ by rounding."""
        pool, own = self._pool, self.every.prediction
        same = (np.array_equal(pool.prediction[some], own[pool.row[some]]) for some in (slice(FIRST), slice(None)))
        return all(same)

    @property
    def local(self) -> Floats:
        """Of an AUC, (r,): what each row adds to the importance by its pairs with rows of other classes."""
        if not self.is_auc:
            raise AttributeError
        changes = self._base.by_row - self._cells.by_row
        return np.asarray(changes * (1 / self._share_of_rows))

    @property
    def _share_of_rows(self) -> Floats:
        weight = self.every.weight[self.at]
        share = weight / weight.sum()
        return np.where(share > 0, share, np.inf)

    @property
    def curve(self) -> Floats:
        """The score less that with every row at a value, (g,)."""
        if self.grid is None:
            raise ValueError("no PI curve for a scorer; use donors='all' or Grid(m)")
        cells, weight = self.grid.at_values(self._shown), self.every.weight[self.at]
        each = [self.judge.of_rows(cells[:, v], self._y, weight, self.at) for v in range(cells.shape[1])]
        return np.asarray(self.score - np.array(each))

    @property
    def _shown(self) -> Indices:
        assert self.grid is not None  # callers ask for a curve
        assert self.grid.at_value is not None
        return shown_values(len(self.grid.at_value))

    @property
    def column_drops(self) -> Floats:
        """How much lower the score is in each column of a design in which rows have donors of their own, (m,)."""
        pool = self._pool
        if pool.at_value is not None:
            raise ValueError("the design has no columns in which each row has one donor; use Permutations(m)")
        columns = np.arange(len(pool.row)).reshape(len(self.at), -1).T
        weight = pool.mass
        drops = [
            self.judge.of_rows(self.every.prediction[pool.row[cells]], self._y, weight[cells], pool.row[cells])
            - self.judge.of_rows(pool.prediction[cells], self._y, weight[cells], pool.row[cells])
            for cells in columns
        ]
        return np.array(drops)

    # The error.

    @property
    def unit(self) -> Unit:
        """What is left out."""
        return "groups" if self.every.block is not None else "rows" if self.judge.deletes else "blocks"

    @cached_property
    def units(self) -> float:
        """As many of equal weight; of single rows as many as the classes together give degrees of freedom, and one.

        ``sum(v)^2 / sum(v^2 / (e - 1))`` of what each class adds to the variance of the score, and how many rows of
        equal weight it has: a rare class has few.
        """
        weight = np.zeros(self.every.n)
        weight[self.at] = self.every.weight[self.at]
        if self.unit == "blocks":
            return float(min(BLOCKS, int(np.count_nonzero(weight))))
        if self.unit == "groups":
            return effective_number(self.every.by_unit(weight))
        try:
            squares = self.score_influence.moved**2
        except ValueError:
            return effective_number(weight)
        classes = [k for k in np.unique(self._y[self.at]) if np.any(weight[self._y == k])]
        each = [(squares[self._y == k].sum(), effective_number(weight[self._y == k])) for k in classes]
        if not sum(v for v, _ in each) > 0:
            return min((e for _, e in each), default=np.nan)
        return float(sum(v for v, _ in each) ** 2 / sum(v**2 / max(e - 1, 0.5) for v, e in each)) + 1

    @cached_property
    def influence(self) -> Influence:
        """What each unit moves the importance."""
        if self._unchanged:
            return Influence(np.zeros(self._base.units))
        return self._jackknife(self._base.lost - self._cells.lost)

    @cached_property
    def score_influence(self) -> Influence:
        """What each unit moves the score."""
        return self._jackknife(self._of_rows.lost)

    def _jackknife(self, lost: Floats) -> Influence:
        """From the number less that without each unit; NaN for a unit without weight."""
        pool = self._pool
        weight = np.bincount(pool.unit, self.every.weight)
        counted = weight > 0 if self.unit != "blocks" else np.ones(len(lost), bool)
        count = int(counted.sum())
        if count < 3 or not np.isfinite(lost[counted]).all():
            raise ValueError(
                f"no standard error of {self.judge.title}: without some rows, as without all of a class, it is not "
                "defined, or there are too few rows"
            )
        moved = np.where(counted, np.sqrt((count - 1) / count) * (lost - lost[counted].mean()), 0.0)
        return Influence(moved, cubes=0.0 if self.unit == "blocks" else None)

    # The populations: of the cells, of the same pairs with nothing replaced, and of the rows.

    @property
    def _pool(self) -> Pool:
        if self.pool is None:
            raise ValueError("a curve and no number for a scorer; use 'all' or Latin(m)")
        return self.pool

    @property
    def _y(self) -> NDArray[Any]:
        assert self.every.y is not None  # scores have one
        return self.every.y

    @cached_property
    def _cells(self) -> Any:
        return self._scored(self._pool)

    @cached_property
    def _base(self) -> Any:
        pool = self._pool
        return self._scored(pool.unchanged) if pool.matched else self._of_rows

    @cached_property
    def _of_rows(self) -> Any:
        """Each row once: with itself alone as its donor."""
        n = self.every.n
        pool = Pool(
            sample=replace(self.every, block=None), row=self.at, first=np.zeros_like(self.at),
            stop=np.ones_like(self.at), prediction=self.every.prediction[self.at], donor_class=np.full(n, -1), size=1,
            at_value=np.zeros(1, np.intp),
        )  # fmt: skip
        return self._scored(pool, self._pool.unit, grouped=self.every.block is not None)

    def _scored(self, *arguments: Any, **options: Any) -> Any:
        return _POPULATIONS[self.judge.kind](self.judge, *arguments, **options)

    def at_positions(self, chosen: Indices) -> Self:
        """The score of some rows, with donors from all rows; NaN where it is not defined."""
        rows = self.at[chosen]
        new = replace(self, at=rows, pool=self._pool.of_rows(rows), undefined="")
        if self.grid is not None:
            new = replace(new, grid=self.grid.of_rows(rows))
        undefined = self.judge.why_undefined(lambda: new.score)[1]
        return replace(
            new, undefined=f"{self.judge.title} is not defined for these rows: {undefined}" * bool(undefined)
        )


def shown_values(size: int) -> Indices:
    """The values of a grid that have the score of all rows at it: at most 50, evenly."""
    return np.unique(np.linspace(0, size - 1, min(size, CURVE)).round().astype(np.intp))


class _Population:
    """A score of weighted predictions: `value`, and `lost`, the score less that without each unit, (u,)."""

    def __init__(
        self, judge: PredictionScore, pool: Pool, unit: Indices | None = None, *, grouped: bool = False
    ) -> None:
        self.judge, self.pool = judge, pool
        self.alone = unit is not None  # rows without donors, which weigh as they do
        self.grouped = pool.sample.block is not None or grouped
        self.unit = pool.unit if unit is None else unit
        self.units = int(self.unit.max()) + 1
        assert pool.sample.y is not None  # scores have one
        self.y = pool.sample.y[pool.row]
        self.mass = pool.sample.weight[pool.row] if self.alone else pool.mass


class _Areas(_Population):
    """An AUC."""

    @cached_property
    def counts(self) -> ClassAreas:
        assert self.judge.areas is not None
        return ClassAreas.of(self.judge.areas, self.pool.prediction, self.y, self.mass)

    @property
    def value(self) -> float:
        return self.counts.auc

    @property
    def by_row(self) -> Floats:
        """The AUC as a sum over the rows: half of each pair of a positive and a negative cell is either's."""
        halves = np.zeros(len(self.pool.row))
        for part in self.counts.parts:
            halves += np.where(part.weight > 0, part.weight * part.won, 0.0) / 2 / part.sides.prod()
        each = np.bincount(self.pool.row, halves, self.pool.sample.n)[self.pool.rows]
        return np.asarray(each * (self.value / each.sum()))

    @property
    def lost(self) -> Floats:
        pool = self.pool
        if self.alone:
            cells = (np.arange(len(pool.row)), self.unit[pool.row], self.mass)
        elif pool.pairs <= EXACT_PAIRS:
            cells = pool.pairs_of_units()
        else:
            return self._linear()
        return np.asarray(self.value - self.counts.without(*cells, self.units))

    def _linear(self) -> Floats:
        """To first order in each role, scaled by what is left of the row's class, and of the donors."""
        pool, slope = self.pool, self.counts.slope
        of_row: Floats = np.bincount(self.unit[pool.row], self.mass * slope, self.units).astype(float)
        of_class = np.bincount(self.y, self.mass)
        share = np.bincount(self.unit[pool.row], self.mass / of_class[self.y], self.units)
        lends = np.bincount(self.unit, pool.sample.weight, self.units)
        by_donor = pool.by_donor(np.zeros(len(pool.row), np.intp), slope, 1)[:, 0]
        of_donor = np.bincount(self.unit, by_donor, self.units)
        of_row = of_row / np.where(share < 1, 1 - share, np.nan)
        return np.asarray(of_row + of_donor / np.where(lends < 1, 1 - lends, np.nan))


class _Confusion(_Population):
    """A score of the table of true and predicted classes."""

    @property
    def classes(self) -> int:
        assert self.judge.classes is not None
        return len(self.judge.classes)

    @cached_property
    def code(self) -> Indices:
        """The place of each cell in the table."""
        return np.asarray(self.y * self.classes + self.pool.prediction)

    @cached_property
    def table(self) -> Floats:
        return np.bincount(self.code, self.mass, self.classes**2).astype(float)

    @property
    def value(self) -> float:
        return float(self._of(self.table))

    @property
    def lost(self) -> Floats:
        """``T_(-u) = T - rows_u - columns_u + own_u``."""
        pool, codes = self.pool, self.classes**2

        def by_unit(unit: Indices, code: Indices, weight: Floats) -> Floats:
            sums: Floats = np.bincount(unit * codes + code, weight, self.units * codes).astype(float)
            return sums.reshape(-1, codes)

        gone = by_unit(self.unit[pool.row], self.code, self.mass)
        if not self.alone:
            by_donor = pool.by_donor(self.code, np.ones(len(pool.row)), codes)
            np.add.at(gone, self.unit, by_donor)
            run, donor = pool.own
            gone -= by_unit(
                self.unit[donor], self.code[run], pool.sample.weight[pool.row[run]] * pool.sample.weight[donor]
            )
        left = self.table - gone
        left[left < 1e-12 * self.table.sum()] = 0.0
        return np.asarray(self.value - self._of(left))

    def _of(self, tables: Floats) -> Floats:
        assert self.judge.table is not None
        with np.errstate(invalid="ignore", divide="ignore"):  # without a class: NaN
            return self.judge.table(tables.reshape(*tables.shape[:-1], self.classes, self.classes))


class _Precision(_Population):
    """The average precision: the mean over positive cells of the share of positives among cells as high as it.

    A row counts once beside its own cell, as it does with nothing replaced: ``(A - H_i + 1) / (B - H_i + 1)``, A and B
    the positive and all rows, by the share of their cells that are as high, H_i that of the cell's row.
    """

    @cached_property
    def order(self) -> tuple[Indices, Indices]:
        """Cells from high to low, and the last of those as high as each."""
        prediction = self.pool.prediction
        scores = prediction if prediction.ndim == 1 else prediction[:, 1]
        order = np.argsort(-scores)
        return order, _last_of_equal(scores[order])

    @cached_property
    def _in_rows(self) -> tuple[Indices, Indices, Indices]:
        """Cells by row, from high to low, the last of those as high as each, and where the row begins."""
        order, last = self.order
        key = np.empty(len(order), np.int64)
        key[order] = last
        key += self.pool.row * np.int64(len(order))
        by_row, count = np.argsort(key), np.bincount(self.pool.row)
        return by_row, _last_of_equal(key[by_row]), np.repeat(np.cumsum(count) - count, count)

    def of(self, mass: Floats) -> float:
        """The score with these weights of the cells."""
        order, last = self.order
        positive, weight = (self.y == 1)[order], mass[order]
        above, every = np.cumsum(weight * positive)[last], np.cumsum(weight)[last]
        by_row, last_in_row, first_in_row = self._in_rows
        cumulated = np.concatenate([[0.0], np.cumsum(mass[by_row])])
        own = np.empty(len(mass))
        own[by_row] = cumulated[last_in_row + 1] - cumulated[first_in_row]
        of_row = np.bincount(self.pool.row, mass)[self.pool.row]
        others = (of_row - own)[order]
        counted = positive & (weight > 0)
        precision = (above + others)[counted] / (every + others)[counted]
        return float(weight[counted] @ precision / weight[counted].sum()) if counted.any() else np.nan

    @property
    def value(self) -> float:
        return self.of(self.mass)

    @property
    def lost(self) -> Floats:
        """Without each of 25 blocks of rows, the same for all features, or each group of rows."""
        sample, pool = self.pool.sample, self.pool
        unit = self.unit if self.grouped else blocks(sample)
        found = []
        for u in range(int(unit.max()) + 1):
            left = sample.weight * (unit != u)
            found.append(self.of(left[pool.row] * (1.0 if self.alone else pool.lends(left))))
        return self.value - np.array(found)


def _last_of_equal(ordered: NDArray[Any]) -> Indices:
    """The position of the last of those that are equal to each, in an order."""
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, len(ordered))
    return np.repeat(ends - 1, np.diff(ends, prepend=0))


def blocks(sample: Sample) -> Indices:
    """The block of each row, at random: the same for all features and models, and whatever the seed."""
    counted, number = np.flatnonzero(sample.weight), np.zeros(sample.n, np.intp)
    number[np.random.default_rng(sample.n).permutation(counted)] = np.arange(len(counted)) % BLOCKS
    return number


_POPULATIONS: dict[str, Any] = {"areas": _Areas, "table": _Confusion, "precision": _Precision}
