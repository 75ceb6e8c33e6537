"""Regions as a result: parts of the data in which a feature's importance differs, with rules to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from losslens.results.base import Saveable, Stored
from losslens.results.importance import FeatureImportance
from losslens.tables.features import unknown_feature
from losslens.tables.frames import make_frame
from losslens.text import in_digits
from losslens.typing import Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Target = Literal["interaction", "importance"]
CONFIRMED = 0.05


@dataclass(frozen=True, eq=False)
class Region(Stored):
    """Rows that a rule describes. Its numbers are of rows that took no part in finding the rule."""

    feature: str
    rule: str  # "" for all rows
    depth: int
    rows: Indices  # of the half that estimates
    pfi: float
    low: float
    high: float
    p: float  # of no difference from the other side of the last question; NaN for all rows
    found: float  # p of that question, where it was found: over permutations, of the best of all questions
    leaf: bool

    @property
    def n(self) -> int:
        """Rows that the numbers are of."""
        return len(self.rows)


@dataclass(frozen=True, eq=False, repr=False)
class Regions(Saveable):
    """Where features matter more, or less: a small tree for each feature."""

    regions: tuple[Region, ...]  # feature by feature, from all rows down
    features: dict[str, FeatureImportance]
    target: Target

    def of(self, feature: str) -> tuple[Region, ...]:
        """The regions of one feature, all rows first."""
        if feature not in self.features:
            raise KeyError(unknown_feature(feature, tuple(self.features), "features"))
        return tuple(region for region in self.regions if region.feature == feature)

    @property
    def found(self) -> tuple[str, ...]:
        """The features that have regions."""
        return tuple(dict.fromkeys(region.feature for region in self.regions if region.rule))

    @property
    def sentences(self) -> list[str]:
        """What the rows that took no part in finding confirm at 5%: the two sides of each feature's first question."""
        found = [_sides(self.of(name)) for name in self.found]
        return [_sentence(*sides) for sides in found if sides[0].p <= CONFIRMED and sides[0].pfi > 0]

    def to_frame(self) -> Any:
        """One row a region: feature, rule ("" for all rows), n, pfi, low, high, p."""
        columns = ("feature", "rule", "n", "pfi", "low", "high", "p")
        data = {name: [getattr(region, name) for region in self.regions] for name in columns}
        return make_frame(data, next(iter(self.features.values())).backend)

    def plot(self, feature: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the PI curve of each region of a feature; the first that has regions by default."""
        if feature is None and not self.found:
            raise ValueError("no feature has regions: there is nothing to draw apart")
        name = self.found[0] if feature is None else feature
        from losslens.plots.subgroups import plot_groups

        leaves = {region.rule or "all rows": region.rows for region in self.of(name) if region.leaf}
        return plot_groups({rule: self.features[name].given(rows) for rule, rows in leaves.items()}, ax=ax)

    def __repr__(self) -> str:
        what = "interactions" if self.target == "interaction" else "importances"
        if not self.found:
            return f"Regions: none; {what} of {len(self.features)} feature(s) differ nowhere more than by chance"
        lines = [f"Regions: where {what} differ; numbers of rows that took no part in finding the rules"]
        for region in self.regions:
            if region.feature in self.found:
                indent = "  " * region.depth
                name = f"{region.feature}: all rows" if not region.rule else region.rule
                lines.append(
                    f"  {indent}{name}  {in_digits(region.pfi)} ({in_digits(region.low)} to {in_digits(region.high)}, "
                    f"n = {region.n:,})" + (f", p = {region.p:.2g}" if np.isfinite(region.p) else "")
                )
        return "\n".join(lines)


def _sides(regions: tuple[Region, ...]) -> tuple[Region, Region]:
    """Both sides of the first question, where the feature matters more first."""
    one, other = (region for region in regions if region.depth == 1)
    return (one, other) if one.pfi >= other.pfi else (other, one)


def _sentence(more: Region, less: Region) -> str:
    if less.pfi > 0:
        times = more.pfi / less.pfi
        told = f"{times:.1f}" if times < 10 else f"{times:,.0f}"
        return f"{more.feature} matters {told} times as much where {more.rule}."
    return f"{more.feature} matters where {more.rule} ({in_digits(more.pfi)}), not where {less.rule}."
