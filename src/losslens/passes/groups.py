"""Groups of columns of a tree ensemble, replaced together, where the cells of all pairs are too many to keep.

A single tree has all means in closed form; several trees have only the total, for a squared loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Cells, Means
from losslens.donors.designs import Design
from losslens.donors.questions import Subject, pose
from losslens.losses import Loss
from losslens.passes.budget import Filled, RowMass, ratio, share_left
from losslens.tables.sample import Sample
from losslens.typing import Floats

if TYPE_CHECKING:
    from losslens.engines.trees.engine import Trees


def run(
    engine: Trees, asked: Sequence[tuple[Subject, Design]], sample: Sample, loss: Loss, entropy: int, *, tight: bool
) -> tuple[Sample, list[Filled]]:
    """The sample with predictions and losses, and the means of each group; `tight`: values of one at a time."""
    sample = replace(sample, prediction=engine.predict(np.arange(sample.n)))
    loss.check_prediction(sample.prediction)
    sample = sample.with_loss(loss)
    find = _single_tree if engine.is_single else _total
    filled = []
    for subject, design in asked:
        for one, _ in asked if tight else ():
            one.release()
        means = find(engine, subject, design, sample, loss)
        filled.append(_filled(means, subject, design, sample, entropy))
    return sample, filled


def _filled(means: Means, subject: Subject, design: Design, sample: Sample, entropy: int) -> Filled:
    question = pose(subject, design, sample.n, entropy)
    shape = (0, question.meeting.width)
    cells = Cells(
        np.empty(0, np.intp), np.empty((*shape, *sample.prediction.shape[1:]), sample.prediction.dtype), np.empty(shape)
    )
    return Filled.of(question, means, cells)


def _total(engine: Trees, subject: Subject, design: Design, sample: Sample, loss: Loss) -> Means:
    """The mean over all pairs, without any other mean."""
    weight, y = sample.weight, sample.target(loss)
    target = engine.squared_target(loss, y)
    assert target is not None  # checked by the engine
    kept = np.setdiff1d(np.arange(len(engine.bound.size)), subject.feature.columns)
    total = engine.coalition_errors(target, weight).error(kept) - sample.error
    if design.leaves_out_own:
        total /= 1 - float(weight @ weight)
    distinct = subject.distinct
    mass = RowMass(sample).at_values(distinct.codes, len(distinct), apart=design.leaves_out_own)
    return Means(local=None, mass=weight, weights=mass / mass.sum(), total=float(total))


def _single_tree(engine: Trees, subject: Subject, design: Design, sample: Sample, loss: Loss) -> Means:
    """Sums over the leaves that a row, or a donor, can reach."""
    leaf_prediction, y, weight = engine.leaf_predictions, sample.target(loss), sample.weight
    kept = np.setdiff1d(np.arange(len(engine.bound.size)), subject.feature.columns)

    def leaf_loss(leaves: NDArray[np.int32], rows: NDArray[np.int32]) -> Floats:
        return loss(y[rows], sample.shown(loss, leaf_prediction[leaves]))

    def at_ceiling(leaves: NDArray[np.int32], rows: NDArray[np.int32]) -> Floats:
        return np.asarray(leaf_loss(leaves, rows) >= bound, float)

    by_row, by_donor = engine.errors_of_single_tree(kept, leaf_loss, weight)
    ceiling = loss.ceiling(leaf_prediction.dtype)
    bound = np.inf if ceiling is None else ceiling * (1 - 1e-9)
    clipped = 0.0 if ceiling is None else weight @ engine.errors_of_single_tree(kept, at_ceiling, weight)[0]
    assert sample.loss is not None
    apart, rows = design.leaves_out_own, RowMass(sample)
    local, changes, distinct = by_row - sample.loss, by_donor - sample.error, subject.distinct
    mass, every = (rows.at_values(distinct.codes, len(distinct), apart=out) for out in (apart, False))
    pi = changes[distinct.first]  # donors with equal values have equal changes
    if apart:
        pi = ratio(pi * every, mass)
        clipped = share_left(float(clipped - weight**2 @ (sample.loss >= bound)), float(rows.mass.sum()))
    return Means(
        local=local / rows.met if apart else local,
        mass=rows.mass if apart else weight,
        pi=pi,
        weights=mass / mass.sum(),
        caused=changes / rows.met if apart else changes,
        lent=rows.lent if apart else weight,
        clipped=float(clipped),
    )
