"""One pass over the rows of an additive model: everything is a sum. Curves are worked out when somebody asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from losslens.cells.late import Later, later
from losslens.cells.matrix import Cells, Means
from losslens.donors.designs import Design
from losslens.donors.questions import Question, Subject, pose
from losslens.engines.additive import Additive, Hinges, Moments, hinges, squared_changes
from losslens.losses import Loss
from losslens.passes.budget import Budget, Filled, RowMass
from losslens.tables.sample import Sample, chunks, lose
from losslens.typing import Floats, Indices


def run(
    engine: Additive,
    asked: Sequence[tuple[Subject, Design]],
    sample: Sample,
    loss: Loss | None,
    budget: Budget,
    entropy: int,
) -> tuple[Sample, list[Filled]]:
    """The sample as the engine saw it, and each feature's means and cells."""
    n = sample.n
    sample = replace(sample, prediction=engine.prediction)
    if loss is not None:
        loss.check_prediction(sample.prediction)
        sample = sample.with_loss(loss)
    seen = Moments.of(engine, sample.weight, _residual(sample, loss))
    questions = [_posed(engine, seen, sample, subject, design, entropy) for subject, design in asked]
    kept = Later(lambda: budget.rows_to_keep([question.now for question in questions], n, entropy))
    rows = RowMass(sample)
    found = _squared(engine, sample, loss, seen)
    filled = []
    for (subject, design), question in zip(asked, questions, strict=True):
        j, *others = subject.feature.columns
        sums = _Sums(engine, seen, (j, *others), design, sample, loss, question, kept, rows)
        local, total = (None, None) if found is None or others else (found[0][j], float(found[1][j]))
        means, posed = sums.means(local, total), later(sums.posed)
        filled.append(Filled(question=posed, means=means, cells=later(sums.cells), n_predictions=0))
    return sample, filled


def _posed(
    engine: Additive, seen: Moments, sample: Sample, subject: Subject, design: Design, entropy: int
) -> Later[Question]:
    """What hangs on the grid, later; a table that was changed in between is refused."""
    columns = subject.feature.columns

    def posed() -> Question:
        seen.check(engine, sample.weight, columns)
        return pose(subject, design, sample.n, entropy)

    if all(np.may_share_memory(column.array, engine.parts) for column in subject.columns):
        return Later(posed)  # the sums that are checked are those of the columns themselves
    question = posed()
    return Later(lambda: question)


def _residual(sample: Sample, loss: Loss | None) -> Floats:
    if loss is None or loss.name != "squared_error":
        return np.zeros(sample.n)
    return np.asarray(sample.y - sample.prediction, float)


def _squared(engine: Additive, sample: Sample, loss: Loss | None, seen: Moments) -> tuple[Floats, Floats] | None:
    """Local importances of all columns at once, for the loss that allows it, and their means."""
    if loss is None or loss.name != "squared_error" or sample.y is None:
        return None
    return squared_changes(engine, _residual(sample, loss), sample.weight, seen)


@dataclass(frozen=True, eq=False)
class _Sums:
    """One feature, or several replaced together."""

    engine: Additive
    seen: Moments
    columns: tuple[int, ...]
    design: Design
    sample: Sample
    loss: Loss | None
    question: Later[Question]
    kept: Later[Indices]
    rows: RowMass

    @cached_property
    def c(self) -> Floats:
        """What the columns add for each row, less its mean."""
        self.seen.check(self.engine, self.sample.weight, self.columns)
        return self.engine.contribution(self.columns, self.sample.weight)

    @cached_property
    def constant(self) -> bool:
        """Whether the columns add the same to every row: then nothing changes, to the last bit."""
        return bool(np.all(self.engine.scale[list(self.columns)] == 0)) or bool(np.ptp(self.c) == 0)

    def posed(self) -> Question:
        """The feature's grid, and who meets whom."""
        return self.question.now

    @property
    def _apart(self) -> bool:
        return self.design.leaves_out_own

    def means(self, local: Floats | None, total: float | None) -> Means:
        """Numbers now, curves later."""
        weight, rows = self.sample.weight, self.rows
        judged = self.loss is not None
        if judged and local is None:
            local = self._local()
        if self._apart:
            total = None  # the mass of a row is no longer its weight
            local = None if local is None else local / rows.met
        return Means(
            local=local,
            mass=rows.mass if self._apart else weight,
            pi=later(self._pi) if judged else None,
            weights=later(lambda: self._value_mass / self._value_mass.sum()),
            pd=later(lambda: weight @ self.sample.prediction + self._on_grid),
            caused=later(self._caused) if judged else None,
            lent=(rows.lent if self._apart else weight) if judged else None,
            total=total,
        )

    def _caused(self) -> Floats:
        changes = self._changes(self.c)
        return changes / self.rows.met if self._apart else changes

    def _local(self) -> Floats:
        if self.constant:
            return np.zeros(self.sample.n)
        if self._hinges is not None:
            return self._hinges.over_donors(self.c, self.sample.weight) - self._base
        return np.asarray(self.c * (2 * self._residual + self.c) + self.sample.weight @ self.c**2)

    def _changes(self, c: Floats) -> Floats:
        """The mean change of all rows at some values of c."""
        weight = self.sample.weight
        if self.constant:
            return np.zeros(len(c))
        if self._hinges is not None:
            return self._hinges.over_rows(c, weight) - weight @ self._base
        r = self._residual
        return np.asarray(c * (c - 2 * (weight @ r)) + weight @ (self.c * (self.c + 2 * r)))

    @property
    def _residual(self) -> Floats:
        return np.asarray(self.sample.y - self.sample.prediction, float)

    @property
    def _base(self) -> Floats:
        assert self.sample.loss is not None  # only asked for with a loss
        return self.sample.loss

    @cached_property
    def _hinges(self) -> Hinges | None:
        if self.loss is None or self.loss.name == "squared_error":
            return None
        return hinges(self.loss, self.sample.target(self.loss), self.sample.prediction, self.c)

    # What hangs on the grid.

    @cached_property
    def _on_grid(self) -> Floats:
        """c at each value, (g,)."""
        ask = self.question.now.ask
        found = np.empty(ask.size)
        found[ask.own] = self.c
        return found

    @cached_property
    def _value_mass(self) -> Floats:
        ask, weight = self.question.now.ask, self.sample.weight
        own = np.bincount(ask.own, weight**2, ask.size) if self._apart else 0.0
        return np.asarray(np.bincount(ask.own, weight, ask.size) - own)

    def _pi(self) -> Floats:
        ask, changes = self.question.now.ask, self._changes(self._on_grid)
        if not self._apart:
            return changes
        with np.errstate(invalid="ignore", divide="ignore"):  # a value that nobody else holds
            return np.asarray(changes * np.bincount(ask.own, self.sample.weight, ask.size) / self._value_mass)

    def cells(self) -> Cells:
        """The cells of the kept rows, laid out when somebody looks."""
        predictions = Later(self._predictions)
        changes = later(lambda: self._judged(predictions.now)) if self.loss is not None else None
        return Cells(self.kept.now, later(lambda: predictions.now), changes)

    def _predictions(self) -> Floats:
        rows, base = self.kept.now, self.sample.prediction
        if self.constant:
            return np.repeat(base[rows, None], self.question.now.ask.size, axis=1)
        predictions = (base - self.c)[rows, None] + self._on_grid
        own = self.question.now.ask.own[rows]
        predictions[np.arange(len(rows)), own] = base[rows]  # a row at its own value is the row itself
        return np.asarray(predictions)

    def _judged(self, predictions: Floats) -> Floats:
        assert self.loss is not None  # only asked for with a loss
        rows, changes = self.kept.now, np.empty(predictions.shape)
        for part in chunks(rows, predictions.shape[1]):
            changes[part] = lose(self.loss, self.sample, rows[part], predictions[part])
        return changes
