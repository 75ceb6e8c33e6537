"""What a time, or a number of predictions, afforded: rows, donors, and why the call ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from losslens.results.base import Stored
from losslens.text import claim, duration, listed
from losslens.typing import Floats, Indices

Stopped = Literal["budget", "precise", "settled", "memory", "interrupted", "failed"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Afforded(Stored):
    """What a budget afforded, and what going on needs.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> f = lambda X: X[:, 0]
    >>> imp = ll.feature_importance(f, X, X[:, 0], loss="squared_error", budget=10_000, random_state=0)
    >>> len(imp.afforded.rows)
    50
    """

    budget: str  #: as it was given: "10 min", or a number of predictions
    stopped: Stopped  #: why the call ended
    seconds: float | None  #: that the call took; None where predictions are counted, and results are reproducible
    rows: Indices  #: positions of the rows that were used, drawn at random
    n: int  #: rows of X
    looks: Floats  #: donors of a row at each look, one column a feature; infinite: all other rows
    settled: tuple[str, ...] = ()  #: the leading features whose ranks are settled, in their order
    error: str = ""  #: what the model raised, where that ended the call
    seed: int  # of the donors

    @property
    def sentence(self) -> str:
        """What was afforded, and why no more."""
        rows = f"all {self.n:,} rows" if len(self.rows) == self.n else f"{len(self.rows):,} of {self.n:,} rows"
        took = "" if self.seconds is None else f" in {duration(self.seconds)}"
        return f"budget: {rows}, {self._donors}{took}; {self._why}"

    @property
    def _donors(self) -> str:
        last = self.looks[-1]
        counts = last[np.isfinite(last)]
        if not len(counts):
            return "all pairs"
        low, high = (f"{one:.0f}" for one in (counts.min(), counts.max()))
        donors = f"{low} donors" if low == high else f"{low} to {high} donors"
        return f"{donors} a row" + (", all pairs for some features" if len(counts) < len(last) else "")

    @property
    def _why(self) -> str:
        reasons = {
            "budget": f"the budget of {self.budget} allowed no more",
            "precise": "more donors would hardly make it more precise",
            "settled": "the leading ranks are settled",
            "memory": "memory= holds no more cells",
            "interrupted": "it was interrupted, and this is what was done until then",
            "failed": f"the model failed four times in a row ({self.error}), and this is what was done until then",
        }
        return reasons[self.stopped]


@claim(level=0.05)
def settled_order(names: Sequence[str]) -> str:
    """Which of the leading ranks are settled; "" if none is, or nobody asked."""
    if not names:
        return ""
    return f"settled ranks (at 95%, all looks counted), the most important first: {listed(names)}"
