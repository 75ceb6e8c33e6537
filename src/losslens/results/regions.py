"""Regions: subsets of the data, described by rules, in which a feature's importance differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Result, Stored
from losslens.results.importance import FeatureImportance
from losslens.results.table import INTERVAL, NONE, ResultTable
from losslens.tables.features import position_of
from losslens.tables.frames import make_frame
from losslens.text import claim, in_digits
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels

RegionTarget = Literal["interaction", "importance"]
CONFIRMED = 0.05  # largest p of differences that sentences mention
MODELS_PART = 0.5  # least share of a difference of importances that the model's effect must explain
SENTENCES = 2  # in the title of the table


@dataclass(frozen=True, eq=False)
class Region(Stored):
    """Rows that satisfy a rule.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> X[:, 1] = X[:, 1] > 0
    >>> f = lambda X: X[:, 0] * (1 + X[:, 1])
    >>> _, first, second = ll.feature_importance(f, X, f(X), loss="squared_error").regions(X).of("x0")
    >>> first.rule, second.rule, first.n + second.n, bool(first.pfi < second.pfi)
    ('x1 = 0', 'x1 = 1', 300, True)
    """

    feature: str  #: name of the feature
    rule: str  #: "" for all rows
    depth: int  #: number of conditions
    rows: NDArray[Any]  #: labels of its rows, or positions where there are none
    pfi: float  #: importance of the feature there
    low: float  #: low end of its 95% interval
    high: float  #: high end
    p: float  #: of no difference from the other side of the last split, times the number of features; NaN for all rows
    found: float  #: permutation p-value of that split, as the best of all splits
    leaf: bool  #: whether it is not split further
    difference: float = np.nan  #: of the importance from that of the other side, with its 95% interval
    difference_low: float = np.nan  #: low end of that interval
    difference_high: float = np.nan  #: high end
    ratio: float = np.nan  #: of the two importances; NaN unless that of the other side is surely above 0
    ratio_low: float = np.nan  #: low end of its 95% interval
    ratio_high: float = np.nan  #: high end
    strength: float = np.nan  #: target="interaction": mean divergence between predictions with other values

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def contrast(self) -> str:
        """How the importance compares with that of the other side, by the test; "" for all rows."""
        if self.ratio_low > 1:
            return f"{_times(self.ratio)} times (95% interval {_times(self.ratio_low)} to {_times(self.ratio_high)})"
        if not np.isfinite(self.difference):
            return ""
        sign, numbers = (-1 if self.difference < 0 else 1), (self.difference, self.difference_low, self.difference_high)
        gap, low, high = (in_digits(sign * number, self.difference) for number in numbers)
        ends = (low, high) if sign > 0 else (high, low)
        return f"{gap} {'more' if sign > 0 else 'less'} (95% interval {ends[0]} to {ends[1]})"


@dataclass(frozen=True, eq=False, repr=False)
class Regions(Result):
    """Where features matter more, or less: a small tree for each feature.

    `to_frame()` has one row a region: feature, rule ("" for all rows), n, pfi, low, high, p, and the difference from
    and the ratio to the other side of the last split, each with its interval.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> X[:, 1] = X[:, 1] > 0
    >>> f = lambda X: X[:, 0] * (1 + X[:, 1])
    >>> found = ll.feature_importance(f, X, f(X), loss="squared_error").regions(X)
    >>> found.found, [region.rule for region in found.of("x0")]
    (('x0', 'x1'), ['', 'x1 = 0', 'x1 = 1'])
    """

    regions: tuple[Region, ...]  #: by feature, all rows first
    features: dict[str, FeatureImportance]
    target: RegionTarget

    _internal = ("target",)
    _errors_elsewhere = "each region has its own: see regions, or to_frame()"

    def of(self, feature: str) -> tuple[Region, ...]:
        """The regions of `feature`, all rows first."""
        name = tuple(self.features)[position_of(feature, tuple(self.features))]
        return tuple(region for region in self.regions if region.feature == name)

    def _part(self, name: str) -> tuple[Region, ...]:
        return self.of(name)

    @property
    def found(self) -> tuple[str, ...]:
        """The features that have regions."""
        return tuple(dict.fromkeys(region.feature for region in self.regions if region.rule))

    @property
    def sentences(self) -> list[str]:
        """The first splits whose sides surely differ in importance (p of at most 0.05), as sentences."""
        return list(self._sentences.values())

    @property
    def _sentences(self) -> dict[str, str]:
        """The sentence on each feature that has one."""
        sentences = {name: self._matters_more(self.of(name)) for name in self.found}
        return {name: text for name, text in sentences.items() if text}

    @claim(level=CONFIRMED)
    def _matters_more(self, regions: tuple[Region, ...]) -> str:
        """Where a feature matters more; "" unless that is sure."""
        root, *_ = regions
        more, less = sorted((region for region in regions if region.depth == 1), key=lambda side: -side.pfi)
        if not (more.p <= CONFIRMED and more.low > 0 and more.difference_low > 0 and _by_model(root, more, less)):
            return ""
        where = f"where {more.rule} ({more.n:,} row{'s' if more.n > 1 else ''})"
        numbers = f"{in_digits(more.pfi)} against {in_digits(less.pfi)}"
        sides = " by leave-one-out" if self.target == "interaction" else ""
        return f"{more.feature} matters more {where} than elsewhere: {numbers}; {more.contrast}{sides}."

    @property
    def _unexplained(self) -> dict[str, str]:
        """A sentence on each further feature whose importance surely differs, not because the model's effect does."""
        sentences = {name: self._differs(self.of(name)) for name in self.found if name not in self._sentences}
        return {name: text for name, text in sentences.items() if text}

    def _differs(self, regions: tuple[Region, ...]) -> str:
        """How the importance of a feature differs, and that the model's effect does not explain it; "" unless sure."""
        root, *_ = regions
        more, less = sorted((region for region in regions if region.depth == 1), key=lambda side: -side.pfi)
        if not (more.p <= CONFIRMED and more.difference_low > 0):
            return ""
        where = f"{in_digits(more.pfi)} where {more.rule} ({more.n:,} row{'s' if more.n > 1 else ''})"
        elsewhere = in_digits(less.pfi, more.pfi)
        why = "" if _by_model(root, more, less) else "; the model's effect explains less than half of that"
        return f"The importance of {more.feature} differs: {where}, {elsewhere} elsewhere (p = {more.p:.2g}){why}."

    def _shown(self, feature: str) -> list[Region]:
        """The regions of a feature with a sentence that differ from their other side, all rows first; else none."""
        return self._confirmed(feature) if feature in self._sentences else []

    def _confirmed(self, feature: str) -> list[Region]:
        """The regions of a feature that surely differ from their other side, all rows first."""
        kept: list[Region] = []
        doubtful = np.inf  # depth of the last split that isn't confirmed: nothing below it is shown
        for region in self.of(feature):
            if region.depth <= doubtful:
                doubtful = region.depth if region.p > CONFIRMED else np.inf
                kept += [region] if doubtful == np.inf else []
        return kept

    def _table(self) -> ResultTable:
        contrasts = [name + end for name in ("difference", "ratio") for end in ("", "_low", "_high")]
        names = ("feature", "rule", "n", "pfi", "low", "high", "p", *contrasts)
        columns = {name: [getattr(region, name) for region in self.regions] for name in names}
        kept = {id(region) for name in self._sentences | self._unexplained for region in self._confirmed(name)}
        rows = [k for k, region in enumerate(self.regions) if id(region) in kept]
        all_rows = [k for k, region in enumerate(self.regions) if not region.rule]
        return ResultTable(
            f"Regions: {self._title}", columns, ("{region}", "{pfi} ([{low} to {high}, ]n = {n})[, p = {p}]"),
            (("region", "{region}"), ("importance", "{pfi}"), INTERVAL, ("rows", "{n}"), ("p", "{p}")), self._notes,
            extra={"region": [_name(region) for region in self.regions]}, like="pfi",
            rounding=next(iter(self.features.values()))._rounding, in_text=rows,
            in_view=rows or all_rows,
        )  # fmt: skip

    @property
    def _title(self) -> str:
        sentences, many = self.sentences or list(self._unexplained.values()), _count(len(self.features))
        if not sentences and self.found:
            return f"none: no importance (of {many}) differs significantly between regions"
        if not sentences:
            what = "the model's effect" if self.target == "interaction" else "the importance"
            return f"none: no feature (of {len(self.features)}) has a rule by which {what} differs more than by chance"
        more = len(sentences) - SENTENCES
        return " ".join(sentences[:SENTENCES]) + (f" ({_count(more)} more below.)" if more > 0 else "")

    @property
    def _notes(self) -> list[str]:
        """What p allows for, and how many features have no region that is shown."""
        sentences, many = self._sentences | self._unexplained, len(self.features)
        notes, rest, only_found = [], many - len(sentences), len(self.found) - len(sentences)
        if sentences:
            allowed = "the choice of the rule" + (f" and for {_count(many)}" if many > 1 else "")
            notes.append(f"p: test of no difference from the other side, allowing for {allowed}")
        if sentences and rest:
            notes.append(f"no region of {_count(rest)} surely differs")
        if sentences and len(self._unexplained) and self._sentences:
            notes += self._unexplained.values()
        if only_found:
            what = "the model's effect differs" if self.target == "interaction" else "a split was found"
            notes.append(f"{what} between regions of {_count(only_found)}, but not surely the importance: to_frame()")
        return notes

    def _frame(self, columns: Mapping[str, Any]) -> Any:
        return make_frame(columns, next(iter(self.features.values())).backend)

    def _rows_drawn(self, lines: int) -> int:
        return 0

    @property
    def _plotted(self) -> tuple[str, ...]:  # type: ignore[override]
        return () if self.found else (next(iter(self.features)),)  # the curve of all rows

    @draws("curve")
    def plot(
        self, feature: str | None = None, ax: Axes | None = None, *, scale: AxisScale = "linear",
        colors: Colors | None = None, labels: FeatureLabels | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the PI curve of each region of a feature.

        Parameters
        ----------
        feature
            Whose regions; of the first feature that has some by default.
        colors
            One colour for all regions, a list in the order of the legend, or a mapping from rules to colours.
        labels
            Names to show instead of those of the features, also in rules: a mapping to a name, or to a name and a unit.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> f = lambda X: X[:, 0] * (X[:, 1] > 0)
        >>> imp = ll.feature_importance(f, X, f(X), loss="squared_error", features=["x0"])
        >>> found = imp.regions(X, target="importance", permutations=19)
        >>> found.plot("x0", labels={"x0": ("speed", "m/s")}).get_xlabel()
        'speed (m/s)'
        """
        if feature is None and not self.found:
            raise ValueError("no feature has regions; draw the result of feature_importance instead")
        name = next(iter(self._sentences), self.found[0]) if feature is None else feature
        leaves = {region.rule or "all rows": region.rows for region in self.of(name) if region.leaf}
        shown = plots.subgroups.name_rules(list(leaves), list(self.features), labels, own=ax is None)
        if isinstance(colors, Mapping):
            colors = {shown.get(rule, rule): colour for rule, colour in colors.items()}
        parts = {shown[rule]: self.features[name].given(rows) for rule, rows in leaves.items()}
        return plots.subgroups.plot_groups(parts, ax, Look(scale=scale, colors=colors, labels=labels))


def _name(region: Region) -> str:
    """The name of a region in a table, with one dash a split."""
    return f"{NONE * region.depth} {region.rule}" if region.rule else f"{region.feature}: all rows"


def _by_model(root: Region, more: Region, less: Region) -> bool:
    """Whether the model's effect is stronger where the importance is larger, and by a like amount.

    Otherwise the importance differs because rows differ: it does so in additive models of dependent features.
    """
    if np.isnan(more.strength):  # target="importance", or a file of an older version
        return True
    gap = (more.strength - less.strength) * root.pfi
    return bool(gap >= MODELS_PART * (more.pfi - less.pfi) * root.strength)


def _count(features: int) -> str:
    return f"{features} feature{'s' if features > 1 else ''}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 2 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"
