"""Where in a feature's range its Shapley share comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from losslens.results.base import Stored, Tabular
from losslens.results.table import ResultTable, facts
from losslens.typing import Axes, Floats


@dataclass(frozen=True, eq=False)
class Values(Stored):
    """The values of each player: ``distinct[j][codes[i, j]]`` is that of row i; (g, columns) for a group."""

    distinct: tuple[NDArray[Any], ...]
    codes: NDArray[np.int32]  # (n, p)
    ordered: tuple[bool, ...]
    columns: tuple[tuple[str, ...], ...]


def values_of(players: Sequence[Any], names: Sequence[str]) -> Values:
    """The values of players: of anything that knows its feature and its distinct values."""
    return Values(
        tuple(player.distinct.values for player in players),
        np.stack([player.distinct.codes for player in players], axis=1).astype(np.int32),
        tuple(player.distinct.ordered for player in players),
        tuple(tuple(names[j] for j in player.feature.columns) for player in players),
    )


@dataclass(frozen=True, eq=False, repr=False)
class ShapleyCurve(Tabular):
    """A feature's Shapley importance along its values: ``importance @ weights`` is its SFIMP."""

    name: str
    by: Literal["own", "donor"]
    grid: NDArray[Any]  # (g,), or (g, columns) for a group
    weights: Floats  # (g,): the share of the rows, or donors, at each value
    importance: Floats  # (g,)
    columns: tuple[str, ...]
    ordered: bool
    title: str  # of the loss
    backend: str

    @classmethod
    def of(
        cls, name: str, by: Literal["own", "donor"], values: Values, j: int, codes: NDArray[Any], weight: Floats,
        amount: Floats, title: str, backend: str,
    ) -> ShapleyCurve:  # fmt: skip
        """Means at each value; values that nobody holds, or that count nothing, are left out."""
        g = len(values.distinct[j])
        met = (weight > 0) & ~np.isnan(amount)
        mass = np.bincount(codes[met], weight[met], g)
        total = np.bincount(codes[met], weight[met] * amount[met], g)
        kept = np.flatnonzero(mass > 0)
        return cls(
            name, by, values.distinct[j][kept], mass[kept] / mass.sum(), total[kept] / mass[kept], values.columns[j],
            values.ordered[j], title, backend,
        )  # fmt: skip

    @property
    def sfimp(self) -> float:
        """What the curve averages to."""
        return float(self.importance @ self.weights)

    def to_frame(self) -> Any:
        """The curve as a data frame: value, weight, importance."""
        data = {"value": self.grid} if self.grid.ndim == 1 else dict(zip(self.columns, self.grid.T, strict=True))
        for name, numbers in (("weight", self.weights), ("importance", self.importance)):
            data[name if name not in data else f"{name}_"] = numbers  # a column's own name is its own
        return self._frame(data)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curve over the values, how many rows hold them below."""
        from losslens.plots.shapley import plot_shapley_curve

        return plot_shapley_curve(self, ax=ax)

    def _table(self) -> ResultTable:
        from losslens.plots.wording import value_label

        place = int(np.argmax(self.importance))
        known = {
            "SFIMP, the mean": self.sfimp,
            "smallest": float(self.importance.min()),
            "largest": float(self.importance.max()),
            "largest at": ", ".join(map(value_label, np.atleast_1d(self.grid[place]))),
            "values": len(self.weights),
        }
        title = f"{self.name}: decrease in {self.title} along its values"
        holders = "rows that hold the value" if self.by == "own" else "donors that lend the value"
        return facts(title, known, [f"means over the {holders}"])

    def __repr__(self) -> str:
        what = "rows that hold a value" if self.by == "own" else "donors that lend a value"
        return f"<ShapleyCurve {self.name!r}: {len(self.weights)} values, over {what}>"
