"""How far replaced rows are from real ones: a warning, and where on a feature's curve it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from losslens.results.base import Result, Stored
from losslens.results.table import FEATURE, ResultTable
from losslens.tables.columns import is_missing
from losslens.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WARNING = 0.6  # AUC from which replaced rows are told from real ones too well
FEWEST_FAR = 0.01  # share of far cells under which nothing is warned of
RARER = 10.0  # a cell is far where real rows like it are so many times rarer than replaced ones
MOST_NAMED = 6  # features in one line of text
FADED = 0.5  # share of far cells from which a part of a curve stands on them


@dataclass(frozen=True, eq=False, repr=False)
class Extrapolation(Stored):
    """How well replaced rows of one feature can be told from real ones, and which share of them is far from all.

    A replaced row keeps its own values of the other columns and has the feature's value of a donor. Where the feature
    hangs together with other columns such rows may be unlike any real one, and what a model says of them was never
    checked against data.
    """

    name: str
    auc: float  # of a cross-fitted classifier; NaN where the rows are too few to tell
    share: float  # of the replaced rows: those that are `RARER` times as frequent as real rows like them, or more
    grid: NDArray[Any]  # (g,); none for a group of columns
    at: Floats  # (g,): the share among the rows at each grid value
    ties: tuple[str, ...] = ()  # the columns that the feature hangs together with most
    threshold: float = WARNING  # the AUC over which it warns: higher where so few rows leave 0.6 to luck
    drawn: bool = False  # values were drawn given other columns already

    @property
    def warns(self) -> bool:
        """Whether replaced rows are told from real ones (AUC > 0.6; more under 100 rows), and some are far from all."""
        return bool(self.auc > self.threshold and self.share >= FEWEST_FAR)

    @property
    def faded(self) -> NDArray[np.bool_]:
        """Where a curve stands mostly on rows that are far from real ones, (g,)."""
        return np.asarray(self.warns & (self.at > FADED))

    @property
    def sentence(self) -> str:
        """The warning in words, or why there is none."""
        if np.isnan(self.auc):
            return f"too few rows to tell whether replaced rows of {self.name} are like real ones"
        if not self.warns:
            told = "look like real ones" if self.auc <= self.threshold else "are near real ones"
            return f"replaced rows of {self.name} {told} (AUC {self.auc:.2f})"
        tied = f"{self.name} is tied to {' and '.join(self.ties)}" if self.ties else f"{self.name} is tied to others"
        told = f"{self.percent} of the replaced rows are unlike any real one (AUC {self.auc:.2f})"
        return f"{told}: {tied}" if self.drawn else f"{told}: {tied}; see Within() or Residual()"

    @property
    def percent(self) -> str:
        """The share in words."""
        return f"{self.share:.0%}" if self.share >= 0.01 else "under 1%"

    def on(self, grid: NDArray[Any]) -> Extrapolation:
        """The same on another grid of the feature: read off between values that have an order, one by one else."""
        if grid.ndim != 1:  # of a group of columns
            return replace(self, grid=grid[:0], at=np.empty(0))
        return replace(self, grid=grid, at=_read_off(self.grid, self.at, grid, self.share))

    def __repr__(self) -> str:
        return f"<Extrapolation {self.name!r}: AUC {self.auc:.3f}, {self.share:.1%} far from real rows>"


def _read_off(known: NDArray[Any], at: Floats, grid: NDArray[Any], otherwise: float) -> Floats:
    """Shares at the values of a grid; a value that nobody looked at has the share of all."""
    place = {_key(value): share for value, share in zip(known, at, strict=True)}
    found = np.array([place.get(_key(value), np.nan) for value in grid], float)
    if known.dtype.kind in "biufmM" and grid.dtype.kind in "biufmM":
        numbers, wanted = (_as_numbers(values) for values in (known, grid))
        inner = np.isfinite(numbers)
        between = np.isnan(found) & ~np.isnan(wanted)
        if inner.any():
            found[between] = np.interp(wanted[between], numbers[inner], at[inner])
    return np.where(np.isnan(found), otherwise, found)


def _key(value: Any) -> Any:
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return None if np.isnat(value) else value
    return None if is_missing(value) else value


def _as_numbers(values: NDArray[Any]) -> Floats:
    if values.dtype.kind not in "mM":
        return values.astype(float)
    numbers = values.astype(f"{values.dtype.kind}8[ns]").astype("i8").astype(float)
    return np.where(np.isnat(values), np.nan, numbers)


@dataclass(frozen=True, eq=False, repr=False)
class Extrapolations(Mapping[str, Extrapolation], Result):
    """The extrapolation of several features: a mapping from name to `Extrapolation`; features on a product grid have
    none.

    `to_frame()` has one row a feature, the clearest extrapolation first: feature, auc, share, warns, tied_to.
    """

    features: dict[str, Extrapolation]
    backend: str = "pandas"

    @property
    def warned(self) -> tuple[str, ...]:
        """The features whose replaced rows can be told from real ones, the clearest first."""
        found = [one for one in self.features.values() if one.warns]
        return tuple(one.name for one in sorted(found, key=lambda one: -one.auc))

    @property
    def note(self) -> str:
        """One line on all features that warn, those with the most far rows first; empty where none does."""
        found = sorted((self.features[name] for name in self.warned), key=lambda one: -one.share)
        some = ", ".join(f"{one.name} {one.percent}" for one in found[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        return f"replaced rows that are unlike any real one: {some}{more}; .extrapolation says more" if found else ""

    def _table(self) -> ResultTable:
        order = sorted(self.features.values(), key=lambda one: -np.nan_to_num(one.auc))
        columns = {
            "feature": [one.name for one in order],
            "auc": [one.auc for one in order],
            "share": [one.share for one in order],
            "warns": [one.warns for one in order],
            "tied_to": [", ".join(one.ties) for one in order],
        }
        return ResultTable(
            f"Extrapolations: {len(self.warned)} of {len(self)} features warn", columns, ("{sentence}",),
            (FEATURE, ("AUC", "{auc}"), ("unlike any real row", "{share}"), ("tied to", "{tied_to}")),
            extra={"sentence": [one.sentence for one in order]}, formats={"auc": ".2f"},
            in_text=[k for k, one in enumerate(order) if one.warns],
        )  # fmt: skip

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the shares of far rows."""
        from losslens.plots.bars import plot_extrapolation

        return plot_extrapolation(self, ax=ax)

    def __getitem__(self, name: str) -> Extrapolation:
        return self.features[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)
