"""The way "factors": mean squared losses of sums of products, without the cells.

Predictions are ``f(i, k) = kept[i] . replaced[k]``, of a few numbers each.

The mean over the donors of ``(kept[i] . replaced[k] - y_i)^2`` is the squared norm of ``R (kept[i], -y_i)``, where R is
the triangular factor of the donors' side, and likewise over the rows. Unlike moments, norms do not cancel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from losslens.cells.matrix import Cells, Means
from losslens.donors.designs import Design
from losslens.donors.questions import Question, Subject, pose
from losslens.losses import Loss
from losslens.passes.left_out_pairs import RowMass, ratio
from losslens.passes.task import FeatureDesign, Outcome, Passed, Task
from losslens.progress import bar
from losslens.tables.frozen import deferred
from losslens.tables.sample import Sample, chunks, loss_changes
from losslens.typing import Floats, Indices

if TYPE_CHECKING:
    from losslens.engines.kernel_machines import Halves, Products

BLOCK = 1 << 20  # numbers multiplied at a time


def run(task: Task, engine: Products, designs: Sequence[FeatureDesign]) -> Passed:
    """All features: the means of their cells, from the factors of rows and donors, and the cells on access."""
    n, loss, sample = task.n, task.loss, task.sample
    assert loss is not None  # the squared one
    outcomes: list[list[Outcome]] = []
    widths = [len(subject.distinct) for subject, _ in designs]
    task.budget.check_machine(widths, n)
    kept_rows = task.budget.rows_to_keep(widths, n, task.entropy)
    with bar(n * len(designs), "explaining", task.progress, "rows") as tick:
        for turn in engine.turns([subject for subject, _ in designs]):
            questions = [pose(*designs[k], n, task.entropy) for k in turn]
            base, halves = engine.halves([question.ask for question in questions], tick)
            if not outcomes:
                sample = replace(sample, prediction=base)
                loss.check_prediction(base)
                sample = sample.with_loss(loss)
            for k, question, half in zip(turn, questions, halves, strict=True):
                cells = _cells(question, half, kept_rows, sample, loss)  # before kept predictions become errors
                outcomes.append([Outcome.of(question, _means(*designs[k], half, sample, loss), cells)])
    return Passed([sample], outcomes)


def _cells(question: Question, half: Halves, kept_rows: Indices, sample: Sample, loss: Loss) -> Cells:
    """The cells of some rows, computed on access."""
    factors = half.kept[kept_rows], half.replaced, question.ask.own[kept_rows], sample.prediction[kept_rows]
    predictions = deferred(_predictions, *factors)
    return Cells(kept_rows, predictions, deferred(_changes, kept_rows, predictions, sample, loss))


def _predictions(kept: Floats, replaced: Floats, own: Indices, base: Floats) -> Floats:
    predictions = kept @ replaced.T
    predictions[np.arange(len(own)), own] = base  # a row at its own value is the row itself
    return np.asarray(predictions)


def _changes(kept_rows: Indices, predictions: Floats, sample: Sample, loss: Loss) -> Floats:
    changes = np.empty(predictions.shape)
    for part in chunks(kept_rows, predictions.shape[1]):
        changes[part] = loss_changes(loss, sample, kept_rows[part], predictions[part])
    return changes


def _means(subject: Subject, design: Design, half: Halves, sample: Sample, loss: Loss) -> Means:
    """All means; `half.kept` is overwritten."""
    weight, codes, g, own = sample.weight, subject.distinct.codes, len(subject.distinct), sample.loss
    assert own is not None
    kept, replaced, rows = half.kept, half.replaced, RowMass(sample)
    mass = rows.at_values(codes, g, leaves_out=False)
    pd = replaced @ (weight @ kept)
    kept[:, -1] -= sample.target(loss)
    local = _squared_norms(kept, _triangle(replaced, mass)) - own
    changes = _squared_norms(replaced, _triangle(kept, weight)) - weight @ own
    if not design.leaves_out_own:
        return Means(
            local=local, mass=weight, pi=changes, weights=mass / mass.sum(), pd=pd, caused=changes[codes],
            donor_weight=weight,
        )  # fmt: skip
    others = rows.at_values(codes, g, leaves_out=True)
    return Means(
        local=local / rows.donor_mass, mass=rows.mass, pi=ratio(changes * mass, others), weights=others / others.sum(),
        pd=pd, caused=changes[codes] / rows.donor_mass, donor_weight=rows.donor_weight,
    )  # fmt: skip


def _triangle(side: Floats, weight: Floats) -> Floats:
    """R, for which ``R'R`` is the weighted sum of squares and products of the columns of one side."""
    triangle = np.empty((0, side.shape[1]))
    for part in _parts(side):
        more = np.sqrt(weight[part])[:, None] * side[part]
        triangle = np.asarray(np.linalg.qr(np.concatenate([triangle, more]), mode="r"))
    return triangle


def _squared_norms(side: Floats, triangle: Floats) -> Floats:
    """The squared norm of R times each row."""
    squares = np.empty(len(side))
    for part in _parts(side):
        images = side[part] @ triangle.T
        squares[part] = np.einsum("ij,ij->i", images, images)
    return squares


def _parts(side: Floats) -> Iterator[slice]:
    step = max(side.shape[1], BLOCK // side.shape[1])
    return (slice(start, start + step) for start in range(0, len(side), step))
