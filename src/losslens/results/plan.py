"""What a verb would do, before it does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from losslens.tables.frames import make_frame
from losslens.text import duration, size_in_words


@dataclass(frozen=True)
class Plan:
    """The cost of a call: one entry a feature, and the whole."""

    features: tuple[str, ...]
    engines: tuple[str, ...]
    designs: tuple[str, ...]
    predictions: tuple[int, ...]  # rows to predict for each feature
    n_predictions: int  # all of them, unchanged rows included
    calls: int
    memory: int  # bytes that the result keeps and the run needs
    complete: bool  # all cells are kept; otherwise the result is streamed
    seconds: float
    grows: tuple[str, ...]  # features whose number of donors is doubled until it suffices
    backend: str
    workers: int = 0  # threads of the cluster that is asked; 0: everything is done here

    def to_frame(self) -> Any:
        """One row a feature."""
        columns = {"feature": self.features, "engine": self.engines, "design": self.designs}
        return make_frame(
            {name: list(values) for name, values in columns.items()} | {"n_predictions": list(self.predictions)},
            self.backend,
        )

    def __repr__(self) -> str:
        kept = "all cells kept" if self.complete else "streamed: single curves kept for some rows"
        lines = [
            f"Plan: {self.n_predictions:,} predictions in {self.calls:,} call{'s' * (self.calls != 1)}, "
            f"about {duration(self.seconds)}{on_cluster(self.workers)}",
            f"  memory: {size_in_words(self.memory)} ({kept})",
        ]
        width = max(map(len, self.features))
        for name, engine, design, count in zip(
            self.features, self.engines, self.designs, self.predictions, strict=True
        ):
            more = " at least, doubled until certain" if name in self.grows else ""
            lines.append(f"  {name:<{width}}  {engine}  {design}  {count:,} predictions{more}")
        return "\n".join(lines)


def on_cluster(threads: int) -> str:
    """Where it is done, in words."""
    return f" on a cluster of {threads} thread{'s' * (threads != 1)}" if threads else ""
