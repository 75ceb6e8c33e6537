"""One pass over the rows of an additive model: everything is a sum. Curves are computed on first access.

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

from losslens.cells.lazy import deferred, recomputed
from losslens.cells.matrix import Cells, Means
from losslens.donors.designs import Design
from losslens.donors.layout import CommonGrid, Layout
from losslens.donors.questions import Subject, all_rows
from losslens.engines.additive import Additive, AdditiveRows, Hinges, centred, hinges
from losslens.losses import Loss
from losslens.passes.budget import Budget, Filled, RowMass
from losslens.tables.columns import Distinct, distinct_numbers, joint
from losslens.tables.sample import Sample, chunks, loss_changes
from losslens.typing import Floats, Indices


def run(
    engine: Additive,
    subjects: Sequence[tuple[Subject, Design]],
    sample: Sample,
    loss: Loss | None,
    budget: Budget,
    entropy: int,
) -> tuple[Sample, list[Filled]]:
    """The sample with predictions and losses, and the means and cells of each feature."""
    n, y = sample.n, None
    if loss is not None and loss.name == "squared_error" and sample.y is not None:
        y = np.asarray(sample.y, float)
    read = AdditiveRows.read(engine, sorted({j for s, _ in subjects for j in s.feature.columns}), y, sample.weight)
    sample = replace(sample, prediction=read.prediction)
    if loss is not None:
        loss.check_prediction(sample.prediction)
        sample = sample.with_loss(loss)
    columns, squared = read.columns, read.moments
    grids = [_grid(subject, engine, columns) for subject, _ in subjects]
    kept = deferred(_rows_to_keep, budget, n, entropy, *(distinct for distinct, _ in grids))
    rows, filled = RowMass(sample), []
    for (subject, design), (distinct, ordered) in zip(subjects, grids, strict=True):
        shared = (sample, loss, design.leaves_out_own, rows, read.residual)
        j, *others = subject.feature.columns
        if others:
            curves = AdditiveCurves(engine.parts[:, [j, *others]] @ engine.scale[[j, *others]], 1.0, *shared)
        elif squared is None:
            curves = AdditiveCurves(columns[j], float(engine.scale[j]), *shared)
        else:
            moments = (float(squared.mean[j]), float(squared.variance[j]), float(squared.pfi[j]))
            curves = AdditiveCurves(columns[j], float(engine.scale[j]), *shared, *moments)
        predictions = deferred(curves.predictions, distinct, kept)
        changes = None if loss is None else deferred(curves.changes, kept, predictions)
        filled.append(
            Filled(
                values=deferred(_values, distinct),
                ordered=ordered,
                meeting=deferred(_layout, distinct, n, design.leaves_out_own),
                means=curves.means(distinct),
                cells=Cells(kept, predictions, changes),
            )
        )
    return sample, filled


def _grid(subject: Subject, engine: Additive, columns: Mapping[int, Floats]) -> tuple[Distinct, bool]:
    """The distinct values of a feature, and whether they are ordered; sorted on first access if numeric."""
    if all(np.may_share_memory(column.array, engine.parts) for column in subject.columns):
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
class AdditiveCurves:
    """Numbers and curves of one feature of an additive model, or of several columns at once, from arrays alone."""

    added: Floats  # (n,): a column, or what several columns add
    scale: float  # `added` times this is what the feature adds
    sample: Sample
    loss: Loss | None
    apart: bool  # whether a row's own cell is left out
    rows: RowMass
    residual: Floats | None = None  # y - f, where the loss is the squared one
    mean: float = float("nan")  # of a column, where the loss is the squared one
    variance: float = float("nan")  # likewise, of what it adds
    pfi: float | None = None  # likewise, over all pairs

    @cached_property
    def c(self) -> Floats:
        """What the feature adds to each row, less its mean."""
        return centred(self.added * self.scale, self.sample.weight)

    @cached_property
    def constant(self) -> bool:
        """Whether the feature adds the same to every row: then nothing changes, to the last bit."""
        return self.scale == 0 or bool(np.ptp(self.c) == 0)

    def means(self, distinct: Distinct) -> Means:
        """All of them computed on first access, except a total given by the moments.

        Moments give the changes of all rows in the time that it takes to read them, and room in memory takes longer to
        get than to fill: those are not kept.
        """
        rows, weight, has_loss = self.rows, self.sample.weight, self.loss is not None
        local = deferred(self.local) if self.pfi is None else recomputed(self.local)
        return Means(
            local=local if has_loss else None,
            mass=rows.mass if self.apart else weight,
            pi=deferred(self.pi, distinct) if has_loss else None,
            weights=deferred(self.weights, distinct),
            pd=deferred(self.pd, distinct),
            caused=deferred(self.caused) if has_loss else None,
            lent=(rows.lent if self.apart else weight) if has_loss else None,
            # Without a row's own cell, its mass is no longer its weight.
            total=None if self.apart else self.pfi,
        )

    def local(self) -> Floats:
        """The mean change of each row over the donors, (n,)."""
        local = self._local()
        return local / self.rows.met if self.apart else local

    def _local(self) -> Floats:
        if self.pfi is not None:
            from losslens.engines.additive_sums import write_changes

            changes = np.empty(self.sample.n)
            write_changes(self.added, self.residual, self.mean, self.scale, self.variance, changes)
            return changes
        if self.constant:
            return np.zeros(self.sample.n)
        if (lines := self._hinges()) is not None:
            return lines.over_donors(self.c, self.sample.weight) - self._base
        assert self.residual is not None  # of the squared loss, the one that is left
        return np.asarray(self.c * (2 * self.residual + self.c) + self.sample.weight @ self.c**2)

    def caused(self) -> Floats:
        """The mean change that each row causes as a donor, (n,)."""
        changes = self._mean_changes(self.c)
        return changes / self.rows.met if self.apart else changes

    def _mean_changes(self, c: Floats) -> Floats:
        """The mean change of all rows at some values of c."""
        weight = self.sample.weight
        if self.constant:
            return np.zeros(len(c))
        if (lines := self._hinges()) is not None:
            return lines.over_rows(c, weight) - weight @ self._base
        r = self.residual
        assert r is not None  # of the squared loss, the one that is left
        return np.asarray(c * (c - 2 * (weight @ r)) + weight @ (self.c * (self.c + 2 * r)))

    @property
    def _base(self) -> Floats:
        assert self.sample.loss is not None  # only needed with a loss
        return self.sample.loss

    def _hinges(self) -> Hinges | None:
        if self.loss is None or self.loss.name == "squared_error":
            return None
        return hinges(self.loss, self.sample.target(self.loss), self.sample.prediction, self.c)

    # At the values of the grid.

    def _on_grid(self, distinct: Distinct) -> Floats:
        """c at each value, (g,)."""
        on_grid = np.empty(len(distinct))
        on_grid[distinct.codes] = self.c
        return on_grid

    def _value_mass(self, distinct: Distinct) -> Floats:
        weight, codes, g = self.sample.weight, distinct.codes, len(distinct)
        own = np.bincount(codes, weight**2, g) if self.apart else 0.0
        return np.asarray(np.bincount(codes, weight, g) - own)

    def weights(self, distinct: Distinct) -> Floats:
        """The share of the cells at each value, (g,)."""
        mass = self._value_mass(distinct)
        return np.asarray(mass / mass.sum())

    def pd(self, distinct: Distinct) -> Floats:
        """The mean prediction at each value, (g,)."""
        return np.asarray(self.sample.weight @ self.sample.prediction + self._on_grid(distinct))

    def pi(self, distinct: Distinct) -> Floats:
        """The mean change at each value, (g,)."""
        changes = self._mean_changes(self._on_grid(distinct))
        if not self.apart:
            return changes
        donor_mass = np.bincount(distinct.codes, self.sample.weight, len(distinct))
        with np.errstate(invalid="ignore", divide="ignore"):  # a value that a single row holds
            return np.asarray(changes * donor_mass / self._value_mass(distinct))

    def predictions(self, distinct: Distinct, rows: Indices) -> Floats:
        """The cells of some rows, (r, g)."""
        base = self.sample.prediction
        if self.constant:
            return np.repeat(base[rows, None], len(distinct), axis=1)
        predictions = (base - self.c)[rows, None] + self._on_grid(distinct)
        predictions[np.arange(len(rows)), distinct.codes[rows]] = base[rows]  # a row at its own value is the row itself
        return np.asarray(predictions)

    def changes(self, rows: Indices, predictions: Floats) -> Floats:
        """Their changes of loss, (r, g)."""
        assert self.loss is not None  # only needed with a loss
        changes = np.empty(predictions.shape)
        for part in chunks(rows, predictions.shape[1]):
            changes[part] = loss_changes(self.loss, self.sample, rows[part], predictions[part])
        return changes
