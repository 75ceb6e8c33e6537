"""Cells that are read off curves: of an engine that computes whole curves, under designs of some pairs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from losslens.donors.questions import Ask
from losslens.engines.base import Answer, StepEngine
from losslens.progress import Tick
from losslens.typing import Indices
from losslens.workers import PerThread, in_process

ROWS = 1250  # whose curves a thread computes at a time, at least: they are passed down large trees together


@dataclass(frozen=True)
class CurveCells:
    """Predicts the cells of single columns: a row's curve has a value for every donor."""

    engine: StepEngine
    n_jobs: int | None

    def fill(self, rows: Indices, asks: Sequence[Ask], tick: Tick) -> Answer:
        """Predictions of these rows, unchanged and in all cells of each ask."""
        from losslens.engines.step_sums import find_steps

        own = self.engine.predict(rows[:1])
        base = np.empty((len(rows), *own.shape[1:]), own.dtype)
        cells = [np.empty((len(rows), ask.width, *own.shape[1:]), own.dtype) for ask in asks]
        classes = [self.engine.classes(ask).each for ask in asks]
        of_columns = {ask.columns: ask for ask in sorted(asks, key=lambda ask: ask.columns)}
        curve = {columns: k for k, columns in enumerate(of_columns)}
        engine, begin = self.engine, int(rows[0])
        if not np.array_equal(rows, np.arange(begin, begin + len(rows))):
            engine, begin = engine.reordered(rows), 0

        def fill_rows(_: None, first: int, tick: Tick) -> None:
            last = min(first + ROWS, len(rows))
            for steps in walkers.get().steps(begin + first, begin + last):
                part = slice(steps.rows.start - begin, steps.rows.stop - begin)
                base[part] = steps.own
                for ask, of_class, of_ask in zip(asks, classes, cells, strict=True):
                    wanted = of_class[None] if ask.donor_values is None else of_class[ask.donor_values[rows[part]]]
                    at = np.empty(of_ask[part].shape[:2], np.int64)
                    find_steps(steps.start, steps.classes, curve[ask.columns], wanted, at)
                    of_ask[part] = steps.prediction[at]
                tick(len(steps.own) + sum(ask.most(len(steps.own)) for ask in asks))

        walkers = PerThread(partial(engine.walker, list(of_columns.values())))
        walkers.get()  # before threads start: from Python 3.12 on each would compute what the engine caches
        deque(in_process(self.n_jobs).map(fill_rows, None, range(0, len(rows), ROWS), tick), maxlen=0)
        return Answer(base, cells, [0] * len(asks))
