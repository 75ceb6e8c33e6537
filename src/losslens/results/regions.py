"""Regions: subsets of the data, described by rules, in which a feature's importance differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from losslens.results.base import Result, Stored
from losslens.results.importance import FeatureImportance
from losslens.results.table import INTERVAL, NONE, ResultTable
from losslens.tables.features import position_of
from losslens.tables.frames import make_frame
from losslens.text import in_digits
from losslens.typing import Axes

Target = Literal["interaction", "importance"]
CONFIRMED = 0.05  # largest p of differences that sentences mention


@dataclass(frozen=True, eq=False)
class Region(Stored):
    """Rows that satisfy a rule. Its numbers come from rows that were not used to find the rule."""

    feature: str
    rule: str  # "" for all rows
    depth: int
    rows: NDArray[Any]  # of the half of the rows for estimation: labels, or positions where there are none
    pfi: float
    low: float
    high: float
    p: float  # of no difference from the other side of the last split; NaN for all rows
    found: float  # permutation p-value of that split in the half that it was found in, as the best of all splits
    leaf: bool

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.rows)


@dataclass(frozen=True, eq=False, repr=False)
class Regions(Result):
    """Where features matter more, or less: a small tree for each feature.

    `to_frame()` has one row a region: feature, rule ("" for all rows), n, pfi, low, high, p.
    """

    regions: tuple[Region, ...]  # by feature, all rows first
    features: dict[str, FeatureImportance]
    target: Target

    def of(self, feature: str) -> tuple[Region, ...]:
        """The regions of one feature, all rows first."""
        name = tuple(self.features)[position_of(feature, tuple(self.features))]
        return tuple(region for region in self.regions if region.feature == name)

    @property
    def found(self) -> tuple[str, ...]:
        """The features that have regions."""
        return tuple(dict.fromkeys(region.feature for region in self.regions if region.rule))

    @property
    def sentences(self) -> list[str]:
        """The first splits that differ significantly (5%) in rows that were not used to find them, as sentences."""
        splits = [_sides(self.of(name)) for name in self.found]
        return [_sentence(*sides) for sides in splits if sides[0].p <= CONFIRMED and sides[0].pfi > 0]

    def _table(self) -> ResultTable:
        names = ("feature", "rule", "n", "pfi", "low", "high", "p")
        columns = {name: [getattr(region, name) for region in self.regions] for name in names}
        what = "interactions" if self.target == "interaction" else "importances"
        summary = " ".join(self.sentences) or f"where {what} differ"
        if not self.found:
            summary = f"none; {what} of {len(self.features)} feature(s) do not differ more than by chance"
        return ResultTable(
            f"Regions: {summary}", columns, ("{region}", "{pfi} ([{low} to {high}, ]n = {n})[, p = {p}]"),
            (("region", "{region}"), ("importance", "{pfi}"), INTERVAL, ("rows", "{n}"), ("p", "{p}")),
            ["numbers are of rows that were not used to find the rules; p: against the other side"],
            extra={"region": [_name(region) for region in self.regions]}, like="pfi",
            in_text=[k for k, region in enumerate(self.regions) if region.feature in self.found],
        )  # fmt: skip

    def _frame(self, columns: Mapping[str, Any]) -> Any:
        return make_frame(columns, next(iter(self.features.values())).backend)

    def plot(self, feature: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the PI curve of each region of a feature; the first that has regions by default."""
        if feature is None and not self.found:
            raise ValueError("no feature has regions; draw the result of feature_importance instead")
        name = self.found[0] if feature is None else feature
        from losslens.plots.subgroups import plot_groups

        leaves = {region.rule or "all rows": region.rows for region in self.of(name) if region.leaf}
        return plot_groups({rule: self.features[name].given(rows) for rule, rows in leaves.items()}, ax=ax)


def _name(region: Region) -> str:
    """The name of a region in a table, with one dash a split."""
    return f"{NONE * region.depth} {region.rule}" if region.rule else f"{region.feature}: all rows"


def _sides(regions: tuple[Region, ...]) -> tuple[Region, Region]:
    """Both sides of the first split, the one with the larger importance first."""
    one, other = (region for region in regions if region.depth == 1)
    return (one, other) if one.pfi >= other.pfi else (other, one)


def _sentence(more: Region, less: Region) -> str:
    if less.pfi > 0:
        ratio = more.pfi / less.pfi
        times = f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"
        return f"{more.feature} matters {times} times as much where {more.rule}."
    return f"{more.feature} matters where {more.rule} ({in_digits(more.pfi)}), not where {less.rule}."
