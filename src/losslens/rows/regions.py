"""The verb that looks for regions: one half of the rows finds rules, the other half says what they are worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from losslens.results.importance import FeatureImportance
from losslens.results.regions import Region, Target
from losslens.results.table import or_else
from losslens.rows import splits
from losslens.rows.divergence import divergence, is_constant
from losslens.rows.splits import Chance, SplitRule, both, in_words
from losslens.tables.columns import Distinct
from losslens.typing import Floats, Indices, Mask
from losslens.uncertainty.inference import difference

LEAST_ROWS, LEAST_SHARE = 20, 0.05  # of the half that looks, on either side of a question
LEAST_JUDGING = 3  # rows or groups of the other half, on either side: a standard error needs them
LEAST_GROUPS = 5  # of the half that looks, on either side, where rows belong together


def half_of_rows(unit: Indices, rng: np.random.Generator) -> Mask:
    """About half of the rows; what belongs together stays together."""
    many = np.bincount(unit)
    order = rng.permutation(len(many))
    chosen = np.zeros(len(many), bool)
    chosen[order] = np.cumsum(many[order]) - many[order] < len(unit) / 2
    return np.asarray(chosen[unit])


@dataclass(frozen=True, eq=False)
class RegionSearch:
    """Everything that the search for regions shares among features."""

    columns: Mapping[str, Distinct]
    looks: Mask  # the half that finds rules
    block: Indices | None  # rows that belong together
    depth: int
    level: float
    permutations: int
    seed: int
    together: int  # features whose first questions share the level

    def of(self, one: FeatureImportance, target: Target) -> list[Region]:
        """All rows, and below them what was found."""
        values = divergence(one) if target == "interaction" else one.local
        others = {name: column for name, column in self.columns.items() if name not in one.columns}
        rng = np.random.default_rng([self.seed, 11])
        counted = np.isfinite(values) & np.isfinite(one.local) & (one.sample.weight[one.at] > 0)
        return self._below(one, values, others, counted, 0, (), (np.nan, np.nan), rng)

    def _below(
        self, one: FeatureImportance, values: Floats, others: Mapping[str, Distinct], here: Mask, depth: int,
        rules: tuple[SplitRule, ...], tests: tuple[float, float], rng: np.random.Generator,
    ) -> list[Region]:  # fmt: skip
        """A region and those below it; `tests`: p against the other side, and p of the question."""
        level = self.level / (1 if depth else self.together)
        question = self._question(values, others, here, level, rng) if depth < self.depth else None
        rows = np.flatnonzero(here & ~self.looks)
        mine = _region(one, rows, in_words(rules), depth, tests, leaf=question is None)
        if question is None:
            return [mine]
        split, found = question
        sides = (here & split.rows, here & ~split.rows)
        p = _differ(one, *(np.flatnonzero(side & ~self.looks) for side in sides))
        below = [
            self._below(one, values, others, side, depth + 1, both(rules, rule), (p, found), rng)
            for side, rule in zip(sides, (split.yes, split.no), strict=True)
        ]
        return [mine, *below[0], *below[1]]

    def _question(
        self, values: Floats, others: Mapping[str, Distinct], here: Mask, level: float, rng: np.random.Generator
    ) -> tuple[splits.Split, float] | None:
        """The best question about these rows, if it is better than chance."""
        looking = here & self.looks
        least = max(LEAST_ROWS, int(np.ceil(LEAST_SHARE * self.looks.sum())))
        if looking.sum() < 2 * least or is_constant(values[looking]):
            return None
        judging = here & ~self.looks
        asked = splits.candidates(others, looking, least, judging, LEAST_JUDGING)
        if self.block is not None:
            asked = [
                split
                for split in asked
                if _groups(self.block, split.rows, looking) >= LEAST_GROUPS
                and _groups(self.block, split.rows, judging) >= LEAST_JUDGING
            ]
        if not asked:
            return None
        permutations = max(self.permutations, int(np.ceil(1 / level)) - 1)  # or no p-value is as small
        split, p = splits.best(asked, values, looking, Chance(permutations, level, rng, self.block))
        return (split, p) if p <= level else None


def _groups(block: Indices, yes: Mask, rows: Mask) -> int:
    """How many groups of these rows are on the side that has fewer."""
    return min(len(np.unique(block[rows & yes])), len(np.unique(block[rows & ~yes])))


def _region(
    one: FeatureImportance, rows: Indices, rule: str, depth: int, tests: tuple[float, float], *, leaf: bool
) -> Region:
    part = one.given(rows)
    low, high = or_else(part.interval, (np.nan, np.nan))  # none where too few rows count
    return Region(one.name, rule, depth, rows, part.pfi, low, high, *tests, leaf)


def _differ(one: FeatureImportance, yes: Indices, no: Indices) -> float:
    """p of no difference between two sets of rows, which share their donors."""
    try:
        a, b = one.given(yes), one.given(no)
        error = (a.influence - b.influence).std_error
    except ValueError:
        return np.nan
    return difference(("", ""), a.unbiased - b.unbiased, error, min(a._units, b._units) - 1, 0.95).p_value
