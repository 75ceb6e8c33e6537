"""Shapley importance along the values of a feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Stored, Tabular
from losslens.results.table import ResultTable, facts
from losslens.tables.frozen import lazy
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Floats, Indices, Limits


@dataclass(frozen=True, eq=False, kw_only=True)
class Values(Stored):
    """The values of each player: ``distinct[j][codes[i, j]]`` is that of row i; (g, columns) for a group."""

    distinct: tuple[NDArray[Any], ...] = lazy()
    codes: NDArray[np.int32] = lazy()  # (n, p)
    ordered: tuple[bool, ...]
    columns: tuple[tuple[str, ...], ...]

    def held(self, column: str, rows: Indices | None = None) -> NDArray[Any] | None:
        """The value of each row in a column that is a player alone; None where it is none."""
        if (column,) not in self.columns or not len(self.codes):
            return None
        j = self.columns.index((column,))
        return np.asarray(self.distinct[j][self.codes[:, j] if rows is None else self.codes[rows, j]])


def values_of(players: Sequence[Any], names: Sequence[str]) -> Values:
    """The values of players, which have a feature and its distinct values."""
    return Values(
        distinct=tuple(player.distinct.values for player in players),
        codes=np.stack([player.distinct.codes for player in players], axis=1, dtype=np.int32),
        ordered=tuple(player.distinct.ordered for player in players),
        columns=tuple(tuple(names[j] for j in player.feature.columns) for player in players),
    )


@dataclass(frozen=True, eq=False, repr=False)
class ShapleyCurve(Tabular):
    """A feature's Shapley importance along its values: ``importance @ weights`` is its SFIMP.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> shares = ll.shapley_importance(lambda X: X[:, 0], X, X[:, 0], loss="squared_error")
    >>> curve = shares.curve("x0")
    >>> bool(np.isclose(curve.importance @ curve.weights, shares.sfimp[0]))
    True
    """

    name: str  #: name of the feature
    by: Literal["own", "donor"]  #: whether over the rows' own values or those of their donors
    grid: NDArray[Any]  #: values of the feature, (g,), or (g, columns) for a group
    weights: Floats  #: the share of the rows, or donors, at each value, (g,)
    importance: Floats  #: the mean at each value, (g,)
    columns: tuple[str, ...]
    ordered: bool  #: whether its values have an order
    title: str  #: name of the loss
    backend: str

    _internal = ("columns", "of")

    @classmethod
    def of(
        cls, name: str, by: Literal["own", "donor"], values: Values, j: int, codes: NDArray[Any], weight: Floats,
        amount: Floats, title: str, backend: str,
    ) -> ShapleyCurve:  # fmt: skip
        """Means at each value; values without rows, or with weight 0, are left out."""
        g = len(values.distinct[j])
        used = (weight > 0) & ~np.isnan(amount)
        mass = np.bincount(codes[used], weight[used], g)
        total = np.bincount(codes[used], weight[used] * amount[used], g)
        kept = np.flatnonzero(mass > 0)
        return cls(
            name, by, values.distinct[j][kept], mass[kept] / mass.sum(), total[kept] / mass[kept], values.columns[j],
            values.ordered[j], title, backend,
        )  # fmt: skip

    _of_one = True

    @property
    def sfimp(self) -> float:
        """The weighted mean of the curve."""
        return float(self.importance @ self.weights)

    def to_frame(self) -> Any:
        """The curve as a data frame: value, weight, importance."""
        data = {"value": self.grid} if self.grid.ndim == 1 else dict(zip(self.columns, self.grid.T, strict=True))
        for name, numbers in (("weight", self.weights), ("importance", self.importance)):
            data[name if name not in data else f"{name}_"] = numbers  # a column of the data keeps its name
        return self._frame(data)

    @draws("curve")
    def plot(
        self, ax: Axes | None = None, *, scale: AxisScale = "linear", limits: Limits = "pi",
        colors: Colors | None = None, labels: FeatureLabels | None = None,
    ) -> Axes:  # fmt: skip
        """Draw where in a feature's range its Shapley importance comes from; the dashed line is its mean, the SFIMP.

        Many ordered values give pale points and a running mean, few give a curve, unordered values give bars, and a
        group of columns, which has no axis, gives a histogram.

        Parameters
        ----------
        limits
            ``"pi"``: the axis follows the running mean, and the caption says how many points lie beyond; ``"all"``: it
            holds all points.
        colors
            Colour of the curve, or of the bars.

        Examples
        --------
        >>> import numpy as np
        >>> from losslens.results.shapley_curve import ShapleyCurve
        >>> means, rest = np.array([1.0, 3.0]), (("age",), True, "squared error", "numpy")
        >>> grid, half = np.array([30, 60]), np.array([0.5, 0.5])
        >>> curve = ShapleyCurve("age", "own", grid, half, means, *rest)
        >>> ax = curve.plot()
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('age', 'decrease in squared error')
        """
        look = Look(scale=scale, colors=colors, labels=labels, limits=limits)
        return plots.shapley.plot_shapley_curve(self, ax, look)

    def _table(self) -> ResultTable:
        from losslens.plots.wording import value_label

        place = int(np.argmax(self.importance))
        numbers = {
            "SFIMP, the mean": self.sfimp,
            "smallest": float(self.importance.min()),
            "largest": float(self.importance.max()),
            "largest at": ", ".join(map(value_label, np.atleast_1d(self.grid[place]))),
            "values": len(self.weights),
        }
        title = f"{self.name}: decrease in {self.title} along its values"
        return facts(title, numbers, [f"means over the {self._averaged} with each value"])

    def __repr__(self) -> str:
        return f"<ShapleyCurve {self.name!r}: {len(self.weights)} values, means over {self._averaged}>"

    @property
    def _averaged(self) -> str:
        return "rows" if self.by == "own" else "donors"
