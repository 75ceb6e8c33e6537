"""The way "sums": a model adds up what its columns contribute, inside a link or without one.

Curves are computed on first access, and of models without a link everything but totals of the squared error.

Columns are sorted when a curve is first accessed. Until then results share a copy of the features' columns, as the
model reads them: the table may change afterwards, and the engine need not be kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Cells, Means
from losslens.donors.layout import CommonGrid, Layout
from losslens.donors.questions import Subject, all_rows
from losslens.engines.additive import Additive, SumRows, centred
from losslens.engines.linked_sums import LinkedSums, mean_losses, mean_response, respond
from losslens.engines.sum_losses import Link
from losslens.losses import Loss, Response
from losslens.passes.left_out_pairs import RowMass, large_groups, pairs_inside, ratio, share_left
from losslens.passes.memory import Budget
from losslens.passes.task import FeatureDesign, Outcome, Passed, Task
from losslens.progress import Tick
from losslens.tables.columns import Distinct, distinct_numbers, joint
from losslens.tables.frozen import deferred
from losslens.tables.sample import Sample, chunks, loss_changes
from losslens.typing import Floats, Indices
from losslens.workers import in_process


def run(task: Task, engine: Additive | LinkedSums, designs: Sequence[FeatureDesign]) -> Passed:
    """All features: the means of their cells and the cells, nearly all of them computed on access."""
    total, n, y, sample, loss = engine.sums[0], task.n, None, task.sample, task.loss
    if not engine.inside_link and loss is not None and loss.name == "squared_error" and sample.y is not None:
        y = np.asarray(sample.y, float)
    task.budget.check_machine([1] * len(designs), n)  # cells are computed on access
    sum_rows = SumRows.read(total, sorted({j for s, _ in designs for j in s.feature.columns}), y, sample.weight)
    sample = replace(sample, prediction=respond(engine.link, engine.response, sum_rows.sums[:, None]))
    if loss is not None:
        loss.check_prediction(sample.prediction)
        sample = sample.with_loss(loss)
    columns, squared = sum_rows.columns, sum_rows.moments
    grids = [_grid(subject, total, columns) for subject, _ in designs]
    kept = deferred(_rows_to_keep, task.budget, n, task.entropy, *(distinct for distinct, _ in grids))
    rows, curves = RowMass(sample), []
    for subject, design in designs:
        leaves_out = design.leaves_out_own or sample.block is not None
        shared = (sum_rows.sums, engine.link, engine.response, sample, loss, leaves_out, rows, sum_rows.residual)
        j, *others = subject.feature.columns
        if others:
            curves.append(SumCurves(total.added([j, *others]), 1.0, *shared))
        else:
            moments = () if squared is None else (squared.mean[j], squared.variance[j], squared.pfi[j])
            curves.append(SumCurves(columns[j], float(total.scale[j]), *shared, *map(float, moments)))
    if loss is not None and engine.inside_link:
        numbers: list[tuple[Floats | None, float]] = list(in_process(task.n_jobs).map(_local_and_clipped, None, curves))
    else:
        numbers = [(None if loss is None else deferred(one.local), 0.0) for one in curves]
    outcomes = []
    for (_, design), (distinct, ordered), one, means in zip(designs, grids, curves, numbers, strict=True):
        predictions = deferred(one.predictions, distinct, kept)
        changes = None if loss is None else deferred(one.changes, kept, predictions)
        outcome = Outcome(
            values=deferred(_values, distinct),
            ordered=ordered,
            layout=deferred(_layout, distinct, n, design.leaves_out_own),
            means=one.means(distinct, *means),
            cells=Cells(kept, predictions, changes),
        )
        outcomes.append([outcome])
    return Passed([sample], outcomes)


def _local_and_clipped(_: None, curves: SumCurves, tick: Tick) -> tuple[Floats | None, float]:
    curves = replace(curves)  # a copy, that what it computes on the way is not kept
    return curves.local(), curves.clipped()


def _grid(subject: Subject, total: Additive, columns: Mapping[int, Floats]) -> tuple[Distinct, bool]:
    """The distinct values of a feature, and whether they are ordered; sorted on first access if numeric."""
    if all(np.may_share_memory(column.array, total.parts) for column in subject.columns):
        own = [columns[j] for j in subject.feature.columns]
        return deferred(_distinct, *own), len(own) == 1
    return subject.distinct, subject.distinct.ordered


def _distinct(*columns: Floats) -> Distinct:
    return joint([distinct_numbers(column) for column in columns])


def _values(distinct: Distinct) -> tuple[NDArray[Any], ...]:
    return (distinct.values,)


def _layout(distinct: Distinct, n: int, leaves_out_own: bool) -> Layout:
    return CommonGrid(distinct.codes, all_rows(n), len(distinct), leaves_out_own)


def _rows_to_keep(budget: Budget, n: int, entropy: int, *grids: Distinct) -> Indices:
    return budget.rows_to_keep([len(distinct) for distinct in grids], n, entropy)


@dataclass(frozen=True, eq=False)
class SumCurves:
    """Numbers and curves of one feature of a sum, or of several columns at once, from arrays alone."""

    added: Floats  # (n,): a column, or what several columns add
    scale: float  # `added` times this is what the feature adds to the sum
    sum: Floats  # (n,)
    link: Link
    response: Response
    sample: Sample
    loss: Loss | None
    leaves_out: bool  # whether pairs inside groups, or a row's own cell, are left out
    rows: RowMass
    residual: Floats | None = None  # y - f, where predictions are sums and the loss is the squared one
    mean: float = float("nan")  # of a column, likewise
    variance: float = float("nan")  # likewise, of what it adds
    pfi: float | None = None  # likewise, over all pairs

    @cached_property
    def c(self) -> Floats:
        """What the feature adds to each row, less its mean, (n,)."""
        return centred(self.added * self.scale, self.sample.weight)

    @cached_property
    def constant(self) -> bool:
        """Whether the feature adds the same to every row: then nothing changes, to the last bit."""
        return self.scale == 0 or bool(np.ptp(self.c) == 0)

    @property
    def _sum_without(self) -> Floats:
        """The sum of each row without what the feature adds to it, (n,)."""
        return np.asarray(self.sum - self.c)

    def means(self, distinct: Distinct, local: Floats | None, clipped: float) -> Means:
        """The means of the cells, computed on first access except `local` and `clipped`."""
        rows, weight, has_loss = self.rows, self.sample.weight, self.loss is not None
        return Means(
            local=local,
            mass=rows.mass if self.leaves_out else weight,
            pi=deferred(self.pi, distinct) if has_loss else None,
            weights=deferred(self.weights, distinct),
            pd=deferred(self.pd, distinct),
            caused=deferred(self.caused) if has_loss else None,
            donor_weight=(rows.donor_weight if self.leaves_out else weight) if has_loss else None,
            clipped=clipped,
            # Without a row's own cell, its mass is no longer its weight.
            total=None if self.leaves_out else self.pfi,
        )

    def local(self) -> Floats:
        """The mean change of each row over the donors, (n,)."""
        local = self._local()
        return ratio(local - self._own_group[0], self.rows.donor_mass) if self.leaves_out else local

    def _local(self) -> Floats:
        if self.pfi is not None:
            from losslens.engines.additive_sums import write_changes

            changes = np.empty(self.sample.n)
            write_changes(self.added, self.residual, self.mean, self.scale, self.variance, changes)
            return changes
        if self.constant:
            return np.zeros(self.sample.n)
        losses = self._losses
        return np.asarray(losses.over_donors(self.c, self.sample.weight) - losses.own(self.c))

    def caused(self) -> Floats:
        """The mean change that each row causes as a donor, (n,)."""
        if not self.leaves_out:
            return self._mean_changes(self.c)
        changes, donor_mass = self._mean_changes(self.c) - self._own_group[1], self.rows.donor_mass
        return np.divide(changes, donor_mass, out=np.zeros(self.sample.n), where=donor_mass > 0)

    @cached_property
    def _own_group(self) -> tuple[Floats, Floats, float]:
        """Over each row's own group: the sums of its changes, of the changes that it causes, and the mass clipped."""
        n, weight, block = self.sample.n, self.sample.weight, self.sample.block
        of_row, of_donor, clipped = np.zeros(n), np.zeros(n), 0.0
        assert self.loss is not None
        ceiling = self._ceiling
        if block is None or self.constant:  # a row's own cell changes nothing
            own_clipped = weight**2 @ (self._base >= (np.inf if ceiling is None else ceiling * (1 - 1e-9)))
            return of_row, of_donor, float(own_clipped)
        own, y = self._sum_without, self.sample.target(self.loss)
        for i, k in pairs_inside(block):
            sums = (own[i] + self.c[k])[:, None]
            prediction = self.sample.shown(self.loss, respond(self.link, self.response, sums))
            losses = self.loss(y[i], prediction)
            changes = losses - self._base[i]
            of_row += np.bincount(i, weight[k] * changes, n)
            of_donor += np.bincount(k, weight[i] * changes, n)
            if ceiling is not None:
                clipped += float((weight[i] * weight[k]) @ (losses >= ceiling * (1 - 1e-9)))
        for rows in large_groups(block):
            c, w = self.c[rows], weight[rows]
            means: Any = mean_losses(self.link, self.loss, y[rows], own[rows], c, self._base[rows], ceiling)
            of_row[rows] = means.over_donors(c, w) - w.sum() * means.own(c)
            of_donor[rows] = means.over_rows(c, w) - w @ means.own(c)
            clipped += 0.0 if ceiling is None else float(means.clipped(c, w))
        return of_row, of_donor, clipped

    def _mean_changes(self, c: Floats) -> Floats:
        """The mean change of all rows at some values of c."""
        weight = self.sample.weight
        if self.constant:
            return np.zeros(len(c))
        losses = self._losses
        return np.asarray(losses.over_rows(c, weight) - weight @ losses.own(self.c))

    def clipped(self) -> float:
        """The share of cells whose loss is clipped."""
        if (ceiling := self._ceiling) is None:
            return 0.0
        weight, rows = self.sample.weight, self.rows
        if self.constant:
            counted = rows.mass / rows.mass.sum() if self.leaves_out else weight
            return float(counted @ (self._base >= ceiling * (1 - 1e-9)))
        share = float(self._losses.clipped(self.c, weight))
        if self.leaves_out:
            return share_left(share - self._own_group[2], float(rows.mass.sum()))
        return share_left(share, 1.0)  # of masses on both sides of a bound

    @property
    def _losses(self) -> Any:
        assert self.loss is not None  # only needed with a loss
        y = self.sample.target(self.loss)
        return mean_losses(self.link, self.loss, y, self._sum_without, self.c, self._base, self._ceiling)

    @property
    def _ceiling(self) -> float | None:
        """The value at which log losses are clipped."""
        return None if self.loss is None else self.loss.ceiling(self.sample.prediction.dtype)

    @property
    def _base(self) -> Floats:
        assert self.sample.loss is not None  # only needed with a loss
        return self.sample.loss

    # At the values of the grid.

    def _on_grid(self, distinct: Distinct) -> Floats:
        """c at each value, (g,)."""
        on_grid = np.empty(len(distinct))
        on_grid[distinct.codes] = self.c
        return on_grid

    def _value_mass(self, distinct: Distinct) -> Floats:
        return self.rows.at_values(distinct.codes, len(distinct), leaves_out=self.leaves_out)

    def weights(self, distinct: Distinct) -> Floats:
        """The share of the cells at each value, (g,)."""
        mass = self._value_mass(distinct)
        return np.asarray(mass / mass.sum())

    def pd(self, distinct: Distinct) -> Floats:
        """The mean prediction at each value, (g,), or of each class, (g, K)."""
        c, weight = self._on_grid(distinct), self.sample.weight
        return mean_response(self.link, self.response, self._sum_without, c, weight)

    def pi(self, distinct: Distinct) -> Floats:
        """The mean change at each value, (g,)."""
        if not self.leaves_out:
            return self._mean_changes(self._on_grid(distinct))
        changes = self._mean_changes(self.c) - self._own_group[1]
        sums = np.bincount(distinct.codes, self.sample.weight * changes, len(distinct))
        return ratio(sums.astype(float), self._value_mass(distinct))

    def predictions(self, distinct: Distinct, rows: Indices) -> NDArray[Any]:
        """The cells of some rows, (r, g), or (r, g, K)."""
        base, on_grid = self.sample.prediction[rows], self._on_grid(distinct)
        predictions = np.empty((len(rows), len(distinct), *base.shape[1:]), base.dtype)
        if self.constant:
            predictions[:] = base[:, None]
            return predictions
        own = self._sum_without[rows]
        for part in chunks(rows, on_grid.size):
            sums = own[part, None] + on_grid
            flat = respond(self.link, self.response, sums.reshape(-1, 1))
            predictions[part] = flat.reshape(*sums.shape, *base.shape[1:])
        predictions[np.arange(len(rows)), distinct.codes[rows]] = base  # a row at its own value is the row itself
        return predictions

    def changes(self, rows: Indices, predictions: NDArray[Any]) -> Floats:
        """The changes of loss in the cells of some rows, (r, g)."""
        assert self.loss is not None  # only needed with a loss
        changes = np.empty(predictions.shape[:2])
        for part in chunks(rows, predictions.shape[1]):
            changes[part] = loss_changes(self.loss, self.sample, rows[part], predictions[part])
        return changes
