"""Tree ensembles on data larger than memory: count, bind, evaluate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from losslens.engines.choice import choose_exact
from losslens.engines.ensembles import Declined, Ensemble
from losslens.engines.exact import CHECKED, Site
from losslens.progress import PREPARING, bar, waiting
from losslens.questions import Subjects
from losslens.sample import Sample
from losslens.stepping import spread_cells
from losslens.streams.codebook import codebook
from losslens.streams.explaining import Stream, classes_of, wants_labels
from losslens.streams.first import Asked, Counted, first_pass, kinds_of_all, looked_at
from losslens.streams.kept import rows_to_keep
from losslens.streams.results import Everything, Found
from losslens.streams.trees import TreeBins, TreeSums, TreeWork, add_up, classes_of_values, evaluate, rowless
from losslens.tables import Table


def run(stream: Stream) -> Everything:
    """Two passes, and what they say."""
    asked, bins = counting(stream)
    counted = first_pass(asked, stream.stretches, stream.workers, stream.progress)
    stretches = looked_at(stream.stretches, counted)
    work = bound(stream, counted, bins)

    def answers() -> Iterator[TreeSums]:
        with bar(stream.n, "explaining", stream.progress, "rows") as tick:
            for stretch, found in zip(stretches, stream.workers.map(evaluate, work, stretches), strict=True):
                tick(stretch.rows)
                yield found

    return _everything(stream, work, counted, add_up(answers()))


def counting(stream: Stream) -> tuple[Asked, TreeBins]:
    """What the first pass is asked: the columns of the trees and those that are asked for."""
    ensemble, peeled = stream.read, stream.peeled
    assert isinstance(ensemble, Ensemble)
    assert peeled is not None
    used = {int(peeled.source[c]) for c in np.unique(ensemble.feature[ensemble.feature >= 0])}
    bins, needed = TreeBins(ensemble, peeled), tuple(sorted(used | set(stream.asked)))
    return Asked(stream.data, needed, bins, wants_labels(stream)), bins


def bound(stream: Stream, counted: Counted, bins: TreeBins) -> TreeWork:
    """An engine bound to the counted values, and checked on them."""
    kinds = kinds_of_all(counted, stream.data.columns)
    book = codebook(stream.head, counted.grids, kinds)
    engine = _engine(stream, book)
    like = engine.predict(np.arange(1))
    cells = sum(8 * (1 + like.size) * len(counted.grids[j]) for j in stream.asked)
    kept, curves = rows_to_keep(stream.n, len(stream.asked), cells, stream.memory, stream.entropy)
    return TreeWork(
        data=replace(stream.data, kinds=kinds), model=stream.nameplate, loss=stream.loss,
        classes=classes_of(stream, counted.labels), mass=float(counted.mass[0]), kept=kept, curves=curves,
        engine=rowless(engine), like=like, bins=bins, grids=counted.grids,
        class_of=classes_of_values(engine, book, counted.grids), asked=stream.asked,
    )  # fmt: skip


def _engine(stream: Stream, book: Table) -> Any:
    asked = frozenset(stream.asked)
    site = Site(book, Subjects(book).column, asked, stream.memory, None, stream.progress)
    respond = stream.model.responder(stream.response)
    with waiting(PREPARING, stream.progress):
        engine, why = choose_exact(stream.model, stream.response, respond, stream.loss, site)
    if engine is None:
        raise Declined(why)
    return engine


def _everything(stream: Stream, work: TreeWork, counted: Counted, sums: TreeSums) -> Everything:
    error, w2l, w2l2 = sums.error.tolist()
    squares = float(counted.mass[1] / counted.mass[0] ** 2)
    sample = sums.kept.sample(work.classes)
    return Everything(
        stream=stream,
        engine=work.engine.name,
        kept=sums.kept,
        classes=work.classes,
        units=counted.units,
        squares=squares,
        columns={j: _found(work, sums, k, j, sample) for k, j in enumerate(work.asked)},
        n_predictions=CHECKED,
        error=error,
        error_square=max(w2l2 - 2 * error * w2l + error**2 * squares, 0.0),
    )


def _found(work: TreeWork, sums: TreeSums, k: int, j: int, sample: Sample) -> Found:
    axes, part, of = work.axes, work.axes.part(k), work.class_of[j]
    by_class = np.cumsum(sums.curve[part], axis=0)  # changes, then predictions, of all rows at each class
    pd = by_class[of, 1:]
    one = work.like.ndim == 1 and work.like.dtype.kind != "i"
    curves = np.searchsorted(sums.kept.at, work.curves)
    cells = spread_cells(k, axes, sample, sums.curves, curves)
    found = Found(
        grid=work.grids[j], k=k, pi=None, pd=pd[:, 0] if one else pd, caused=np.zeros(len(sums.kept.at)), cells=cells
    )
    if work.loss is None:
        return found
    changes = by_class[:, 0]
    pfi = float(sums.rows[k].rows[0])
    square, cube, cross = sums.rows[k].moments(pfi, changes, float(sums.error[0]))
    return replace(
        found, pi=changes[of], caused=changes[of[sums.kept.place[:, k]]], pfi=pfi, square=square,
        cube=cube, cross=cross, clipped=float(sums.clipped[k]),
    )  # fmt: skip
