"""The cost of a call, estimated without running it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from losslens.tables.frames import make_frame
from losslens.text import duration, padded, size_in_words, width_of


@dataclass(frozen=True)
class Stage:
    """A step of a call that consists of several."""

    name: str
    seconds: float
    n_predictions: int = 0  # at least
    calls: int = 0  # of the model
    fits: int = 0  # of the learner

    @property
    def words(self) -> str:
        """What the step takes."""
        counts = [f"{self.fits:,} fits"] * bool(self.fits)
        counts += [f"{self.n_predictions:,} predictions"] * bool(self.n_predictions)
        return ", ".join([*counts, f"about {duration(self.seconds)}"])


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The cost of a call; fields that do not apply to this kind of call are None.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> plan = ll.plan(ll.feature_importance, lambda X: X[:, 0], X, X[:, 0], loss="squared_error")
    >>> plan.features, plan.engine, plan.n_predictions
    (('x0', 'x1'), 'blackbox', 20100)
    """

    features: tuple[str, ...]  #: names of the features
    engines: tuple[str, ...]  #: the engine of each feature
    designs: tuple[str, ...] | None = None  #: the donor design of each feature
    predictions: tuple[int, ...] | None = None  #: rows to predict for each feature, without more donors
    n_predictions: int  #: all of them, unchanged rows included
    most: int | None = None  #: predictions, at most
    upper: bool = False  #: some rows get a value twice, or their own, and are predicted once: these are upper bounds
    calls: int | None = None  #: calls of the model
    memory: int  #: bytes, of the result and the run; for data in parts, on each worker
    seconds: float = 0.0  #: expected, with the donors or walks beyond the fewest that precision will need
    backend: str
    workers: int = 0  #: threads of the cluster; 0: in this process
    # Importances and effects of data in memory
    kept: int | None = None  #: rows whose cells are kept
    complete: bool | None = None  #: all cells are kept; otherwise the result is streamed
    grows: tuple[str, ...] | None = None  #: features whose number of donors is doubled until the error is small
    # Shapley importances
    way: str | None = None  #: the method
    exact: bool | None = None  #: whether nothing is sampled
    # Data that are read in parts
    n: int | None = None  #: rows
    parts: int | None = None  #: parts that the data are read in
    passes: int | None = None  #: passes over them
    # Calls that consist of several steps
    stages: tuple[Stage, ...] | None = None  #: the steps of the call, each with its seconds
    fits: int | None = None  #: fits of the learner
    budget: str | None = None  #: what a budget affords, where that is not everything

    @property
    def engine(self) -> str:
        """The engines of all features."""
        return ", ".join(dict.fromkeys(self.engines))

    def to_frame(self) -> Any:
        """One row a feature; a single row for Shapley importances, which all features share; or one row a stage."""
        if self.stages is not None:
            return make_frame({f.name: [getattr(s, f.name) for s in self.stages] for f in fields(Stage)}, self.backend)
        if self.way is not None:
            names = ("way", "engine", "exact", "n_predictions", "most", "calls", "memory", "seconds")
            return make_frame({name: [getattr(self, name)] for name in names}, self.backend)
        each: tuple[Sequence[Any], ...] = (self.features, self.engines, self.designs or (), self.predictions or ())
        columns = zip(("feature", "engine", "design", "n_predictions"), map(list, each), strict=True)
        return make_frame(dict(columns), self.backend)

    def __repr__(self) -> str:
        of_cells = self.stages is None and self.way is None and self.parts is None
        kept = "all cells kept" if self.complete else f"curves of {self.kept or 0:,} single rows kept"
        memory = f"{size_in_words(self.memory)}{' a worker' if self.workers and self.parts else ''}"
        lines = [f"Plan: {self._headline}", f"  {self.budget}" if self.budget else ""]
        lines += [f"  memory: {memory}{f' ({kept})' if of_cells else ''}", *self._details()]
        return "\n".join(filter(None, lines))

    @property
    def _headline(self) -> str:
        """What the call takes, and about how long."""
        on_cluster = f" on a cluster of {self.workers} thread{'s' * (self.workers != 1)}" if self.workers else ""
        seconds = f"{duration(self.seconds)}{on_cluster}"
        if self.parts is not None:
            parts = f"{self.parts:,} part{'s' * (self.parts != 1)}"
            return f"{self.n:,} rows in {parts}, read {self.passes} times, about {seconds}"
        fits = f"{self.fits:,} fits and " if self.fits else ""
        limit = "at least " if self.grows or (self.stages and self._at_most) else "at most " * self.upper
        at_most = self._at_most if self.way is not None else ""
        calls = f"in {self.calls:,} call{'s' * (self.calls != 1)}"
        return f"{fits}{limit}{self.n_predictions:,} predictions {calls}{at_most}, about {seconds}"

    @property
    def _at_most(self) -> str:
        return f", at most {self.most:,} until precise" if (self.most or 0) > self.n_predictions else ""

    def _details(self) -> list[str]:
        """The way, and a line for each step or feature."""
        if self.stages is not None:
            return _aligned([(stage.name, stage.words) for stage in self.stages])
        if self.way is not None:
            exact = "exact" if self.exact else "sampled"
            return [f"  method: {self.way}; {exact}; engine: {self.engine}; {len(self.features)} features"]
        designs = self.designs or ()
        if self.parts is not None:
            first = f"  engine {self.engine}: {self.n_predictions:,} predictions"
            return [first, f"  {len(self.features)} features, each {designs[0]}"]
        each = zip(self.features, self.engines, designs, self.predictions or (), strict=True)
        more = dict.fromkeys(self.grows or (), " at least, doubled until precise")
        return _aligned([(n, f"{e}  {d}  {count:,} predictions{more.get(n, '')}") for n, e, d, count in each])


def _aligned(lines: Sequence[tuple[str, str]]) -> list[str]:
    width = max(width_of(name) for name, _ in lines)
    return [f"  {padded(name, width)}  {words}" for name, words in lines]
