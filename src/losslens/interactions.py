"""How much more two features are worth together than each by itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from losslens.features import unknown_feature
from losslens.results import in_digits
from losslens.tables import make_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
SHOWN = 10  # pairs in the text


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Pairwise interactions of performance: above 0 two features are worth more together."""

    features: tuple[str, ...]
    index: Floats  # (p, p), symmetric; 0 on the diagonal, NaN where a pair was not asked for
    kind: str  # what the numbers are
    title: str  # of the loss
    backend: str

    def __getitem__(self, pair: tuple[str, str]) -> float:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise KeyError(f"two names, such as interactions['a', 'b']; got {pair!r}")
        for name in pair:
            if name not in self.features:
                raise KeyError(unknown_feature(name, self.features, "features"))
        return float(self.index[self.features.index(pair[0]), self.features.index(pair[1])])

    def to_frame(self) -> Any:
        """One row a pair, the strongest first: first, second, interaction."""
        pairs = self._pairs
        data = {
            "first": [self.features[j] for j, _ in pairs],
            "second": [self.features[k] for _, k in pairs],
            "interaction": [float(self.index[j, k]) for j, k in pairs],
        }
        return make_frame(data, self.backend)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the pairs as a table of colours."""
        from losslens.plots import plot_interactions

        return plot_interactions(self, ax=ax)

    def save(self, path: str | Path) -> None:
        """Write the result to one file that `losslens.load` reads back; nothing in it can run."""
        from losslens.storage import save

        save(self, path)

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        first, second = np.triu_indices(len(self.features), 1)
        order = np.argsort(-np.abs(self.index[first, second]), kind="stable")
        asked = [(int(first[k]), int(second[k])) for k in order]
        return [pair for pair in asked if np.isfinite(self.index[pair])]

    def _repr_html_(self) -> str:
        from losslens.plots.html import show

        return show(self)

    def __repr__(self) -> str:
        lines = [f"Interactions: {self.kind}, {self.title}"]
        pairs = self._pairs
        names = [f"{self.features[j]}, {self.features[k]}" for j, k in pairs[:SHOWN]]
        width = max(map(len, names), default=0)
        shown = zip(names, pairs, strict=False)
        lines += [f"  {name:<{width}}  {in_digits(float(self.index[pair]))}" for name, pair in shown]
        if len(pairs) > SHOWN:
            lines.append(f"  ({len(pairs) - SHOWN} weaker pairs not shown; to_frame() has all)")
        return "\n".join(lines)
