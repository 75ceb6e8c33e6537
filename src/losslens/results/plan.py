"""The cost of a call, estimated without running it."""

from __future__ import annotations

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


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The cost of a call; fields that do not apply to this kind of call are None.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> found = ll.plan(ll.feature_importance, lambda X: X[:, 0], X, X[:, 0], loss="squared_error")
    >>> found.features, found.engine, found.n_predictions
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
    seconds: float  #: expected, with the donors or walks beyond the fewest that precision will need
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
        columns = {"feature": self.features, "engine": self.engines, "design": self.designs or ()}
        return make_frame(
            {name: list(values) for name, values in columns.items()} | {"n_predictions": list(self.predictions or ())},
            self.backend,
        )

    def __repr__(self) -> str:
        if self.stages is not None:
            return "\n".join(self._in_stages(self.stages))
        if self.way is not None:
            return "\n".join(self._shares())
        return "\n".join(self._in_memory() if self.parts is None else self._in_parts())

    def _in_memory(self) -> list[str]:
        kept = "all cells kept" if self.complete else f"streamed: single curves of {self.kept or 0:,} rows kept"
        least = "at least " if self.grows else ""
        lines = [
            f"Plan: {least}{self._predictions}, about {duration(self.seconds)}{self._on_cluster}",
            f"  memory: {size_in_words(self.memory)} ({kept})",
        ]
        width = max(map(width_of, self.features))
        each = zip(self.features, self.engines, self.designs or (), self.predictions or (), strict=True)
        for name, engine, design, count in each:
            more = " at least, doubled until precise" if name in (self.grows or ()) else ""
            lines.append(f"  {padded(name, width)}  {engine}  {design}  {count:,} predictions{more}")
        return lines

    def _shares(self) -> list[str]:
        return [
            f"Plan: {self.way} ({'exact' if self.exact else 'sampled'}), engine {self.engine}, "
            f"{len(self.features)} features",
            f"  {self._predictions}{self._at_most}, about {duration(self.seconds)}{self._on_cluster}",
            f"  memory: {size_in_words(self.memory)}",
        ]

    def _in_stages(self, stages: tuple[Stage, ...]) -> list[str]:
        fits = f"{self.fits:,} fits and " if self.fits else ""
        least = "at least " if self.grows or (self.most or 0) > self.n_predictions else ""
        lines = [
            f"Plan: {fits}{least}{self._predictions}, about {duration(self.seconds)}{self._on_cluster}",
            f"  memory: {size_in_words(self.memory)}",
        ]
        width = max(len(stage.name) for stage in stages)
        for stage in stages:
            counts = [f"{stage.fits:,} fits"] * bool(stage.fits)
            counts += [f"{stage.n_predictions:,} predictions"] * bool(stage.n_predictions)
            lines.append(f"  {stage.name:<{width}}  {', '.join([*counts, f'about {duration(stage.seconds)}'])}")
        return lines

    def _in_parts(self) -> list[str]:
        parts = f"{self.parts:,} part{'s' * (self.parts != 1)}"
        lines = [
            f"Plan: {self.n:,} rows in {parts}, read {self.passes} times, "
            f"{'at least' if self._at_most else 'about'} {duration(self.seconds)}{self._on_cluster}",
            f"  engine {self.engine}: {self.n_predictions:,} predictions{self._at_most}",
            f"  memory: {size_in_words(self.memory)}{' a worker' if self.workers else ''}",
        ]
        designs = self.designs or ()
        if len(set(designs)) == 1:
            return [*lines, f"  {len(self.features)} features, each {designs[0]}"]
        width = max(map(width_of, self.features))
        return [*lines, *(f"  {padded(n, width)}  {design}" for n, design in zip(self.features, designs, strict=True))]

    @property
    def _predictions(self) -> str:
        upper = "at most " if self.upper and not self.grows else ""
        return f"{upper}{self.n_predictions:,} predictions in {self.calls:,} call{'s' * (self.calls != 1)}"

    @property
    def _at_most(self) -> str:
        return f", at most {self.most:,} until precise" if (self.most or 0) > self.n_predictions else ""

    @property
    def _on_cluster(self) -> str:
        return f" on a cluster of {self.workers} thread{'s' * (self.workers != 1)}" if self.workers else ""
