"""Search for regions: rules are found on one half of the rows, importances estimated on the other half."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from losslens.results.importance import FeatureImportance
from losslens.results.regions import Region, Target
from losslens.results.table import or_else
from losslens.rows import splits
from losslens.rows.divergence import divergence, is_constant
from losslens.rows.splits import PermutationTest, SplitRule, in_words, with_rule
from losslens.tables.columns import Distinct
from losslens.tables.row_labels import row_names
from losslens.typing import Floats, Indices, Mask
from losslens.uncertainty.inference import difference

LEAST_ROWS, LEAST_SHARE = 20, 0.05  # of the searching half, on either side of a split
LEAST_ESTIMATING = 3  # rows or groups of the other half, on either side: a standard error needs them
LEAST_GROUPS = 5  # of the searching half, on either side, if rows are grouped


def half_of_rows(unit: Indices, rng: np.random.Generator) -> Mask:
    """About half of the rows; groups of rows are not divided."""
    sizes = np.bincount(unit)
    order = rng.permutation(len(sizes))
    chosen = np.zeros(len(sizes), bool)
    chosen[order] = np.cumsum(sizes[order]) - sizes[order] < len(unit) / 2
    return np.asarray(chosen[unit])


@dataclass(frozen=True, eq=False)
class RegionSearch:
    """What the search for regions needs for all features."""

    columns: Mapping[str, Distinct]
    searching: Mask  # the half on which rules are found
    block: Indices | None  # group of each row
    depth: int
    level: float
    permutations: int
    seed: int
    n_features: int  # their first splits share the level

    def of(self, one: FeatureImportance, target: Target) -> list[Region]:
        """The region of all rows, followed by the regions within it."""
        values = divergence(one) if target == "interaction" else one.local
        others = {name: column for name, column in self.columns.items() if name not in one.columns}
        rng = np.random.default_rng([self.seed, 11])
        counted = np.isfinite(values) & np.isfinite(one.local) & (one.sample.weight[one.at] > 0)
        return self._below(one, values, others, counted, 0, (), (np.nan, np.nan), rng)

    def _below(
        self, one: FeatureImportance, values: Floats, others: Mapping[str, Distinct], here: Mask, depth: int,
        rules: tuple[SplitRule, ...], tests: tuple[float, float], rng: np.random.Generator,
    ) -> list[Region]:  # fmt: skip
        """A region and those within it; `tests`: p against the other side, and p of the split."""
        level = self.level / (1 if depth else self.n_features)
        best = self._split(values, others, here, level, rng) if depth < self.depth else None
        rows = np.flatnonzero(here & ~self.searching)
        region = _region(one, rows, in_words(rules), depth, tests, leaf=best is None)
        if best is None:
            return [region]
        split, p_split = best
        sides = (here & split.rows, here & ~split.rows)
        p = _differ(one, *(np.flatnonzero(side & ~self.searching) for side in sides))
        below = [
            self._below(one, values, others, side, depth + 1, with_rule(rules, rule), (p, p_split), rng)
            for side, rule in zip(sides, (split.yes, split.no), strict=True)
        ]
        return [region, *below[0], *below[1]]

    def _split(
        self, values: Floats, others: Mapping[str, Distinct], here: Mask, level: float, rng: np.random.Generator
    ) -> tuple[splits.Split, float] | None:
        """The best split of these rows and its p-value, if it is significant."""
        searching = here & self.searching
        least = max(LEAST_ROWS, int(np.ceil(LEAST_SHARE * self.searching.sum())))
        if searching.sum() < 2 * least or is_constant(values[searching]):
            return None
        estimating = here & ~self.searching
        candidates = splits.candidates(others, searching, least, estimating, LEAST_ESTIMATING)
        if self.block is not None:
            candidates = [
                split
                for split in candidates
                if _groups(self.block, split.rows, searching) >= LEAST_GROUPS
                and _groups(self.block, split.rows, estimating) >= LEAST_ESTIMATING
            ]
        if not candidates:
            return None
        permutations = max(self.permutations, int(np.ceil(1 / level)) - 1)  # fewer can't give a p-value that small
        split, p = splits.best(candidates, values, searching, PermutationTest(permutations, level, rng, self.block))
        return (split, p) if p <= level else None


def _groups(block: Indices, yes: Mask, rows: Mask) -> int:
    """Number of groups of these rows on the side that has fewer."""
    return min(len(np.unique(block[rows & yes])), len(np.unique(block[rows & ~yes])))


def _region(
    one: FeatureImportance, rows: Indices, rule: str, depth: int, tests: tuple[float, float], *, leaf: bool
) -> Region:
    part = one.at_positions(rows)
    low, high = or_else(part.interval, (np.nan, np.nan))  # none if too few rows have weight
    names = row_names(one.row_labels, rows)
    return Region(one.name, rule, depth, names, part.pfi, low, high, *tests, leaf)


def _differ(one: FeatureImportance, yes: Indices, no: Indices) -> float:
    """p-value of no difference between two sets of rows, which have the same donors."""
    try:
        a, b = one.at_positions(yes), one.at_positions(no)
        error = (a.influence - b.influence).std_error
    except ValueError:
        return np.nan
    return difference(("", ""), a.unbiased - b.unbiased, error, min(a._units, b._units) - 1, 0.95).p_value
