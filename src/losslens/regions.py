"""The verb that looks for regions: one half of the rows finds rules, the other half says what they are worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from losslens import splits
from losslens.columns import Distinct
from losslens.divergence import divergence, is_constant
from losslens.importance import FeatureImportance
from losslens.importances import Importances
from losslens.inference import difference
from losslens.inputs import entropy
from losslens.region_results import Region, Regions, Target
from losslens.results import Floats, Indices
from losslens.splits import Chance, Mask, Rule, both, in_words
from losslens.tables import as_table
from losslens.uncertainty import Influence, check_level

LEAST_ROWS, LEAST_SHARE = 20, 0.05  # of the half that looks, on either side of a question
LEAST_JUDGING = 3  # rows or groups of the other half, on either side: a standard error needs them
LEAST_GROUPS = 5  # of the half that looks, on either side, where rows belong together


def regions(
    importance: Importances | FeatureImportance,
    X: Any,
    *,
    target: Target = "interaction",
    depth: int = 3,
    level: float = 0.05,
    permutations: int = 499,
    random_state: Any = None,
) -> Regions:
    """Find parts of the data in which a feature's importance differs, as a small tree with rules to read.

    Half of the rows look for the question about another column that splits the rows best, and ask a permutation test
    whether the best of all questions is better than chance; the other half says how important the feature is on either
    side. No prediction is made.

    The level holds for all features together: where nothing differs, some feature is split in one run of twenty (the
    first question of each of k features has the level / k). Further down it is that of one question, the best of all
    columns and bounds in one region. `p`, from the half that did not look, is the second opinion.

    Rows that belong together (``groups=`` of `feature_importance`) are in the same half, and standard errors and
    tests count groups, not rows. Any column may take part in rules, whether it varies inside groups or not, where
    five groups or more of those that look have rows on either side. Then groups' signs are drawn instead of
    permutations, which is a large-sample test in the number of groups: from some thirty on.

    Parameters
    ----------
    importance
        What `feature_importance` gives, with all cells kept, or one feature of it.
    X
        The table that was explained; any further columns may take part in rules, too.
    target
        ``"interaction"``: where the *model* makes more of the feature, whatever the labels; silent on a model without
        interactions. ``"importance"``: where its importance differs, also because rows there are other rows.
    depth
        The most questions one after the other.
    level
        The probability that any feature is split where nothing differs.
    permutations
        Of the test at each question (or draws of signs), which takes all rows that have a weight as alike; more where
        so many features need more.
    random_state
        A seed or a NumPy generator, for the halves and the permutations.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> X[:, 2] = X[:, 2] > 0
    >>> f = lambda X: X[:, 0] * (1 + X[:, 2]) + X[:, 1]
    >>> found = ll.regions(ll.feature_importance(f, X, f(X), loss="squared_error"), X, random_state=0)
    >>> found.found, [region.rule for region in found.of("x0")]
    (('x0', 'x2'), ['', 'x2 = 0', 'x2 = 1'])
    """
    if not isinstance(importance, (Importances, FeatureImportance)):
        raise TypeError(f"regions takes what feature_importance gives; got {type(importance).__name__}")
    features = importance if isinstance(importance, Importances) else {importance.name: importance}
    if target not in ("interaction", "importance"):
        raise ValueError(f"target is 'interaction' or 'importance'; got {target!r}")
    for name, number in (("depth", depth), ("permutations", permutations)):
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
            raise ValueError(f"{name} is a whole number from 1 on; got {number!r}")
    if not 1 / (1 + permutations) <= check_level(level):
        raise ValueError(f"{permutations} permutations give no p-value of {level} or less; use more")
    drawn = [name for name, one in features.items() if one.conditioning is not None]
    if drawn:
        raise ValueError(
            f"the values of {drawn[0]!r} were drawn given other columns, so that rows differ by what they could meet; "
            "regions need donors from everywhere"
        )
    first = next(iter(features.values()))
    table = as_table(X)
    if table.n != len(first.at):
        raise ValueError(f"X has {table.n} rows, the result {len(first.at)}; pass the table that was explained")
    columns = {name: table.column(j).distinct for j, name in enumerate(table.names)}
    seed = entropy(random_state)
    block = None if first.sample.block is None else first.sample.block[first.at]
    looks = _half(np.arange(table.n) if block is None else block, np.random.default_rng([seed, 10]))
    search = _Search(columns, looks, block, int(depth), level, int(permutations), seed, len(features))
    found = [region for one in features.values() for region in search.of(one, target)]
    return Regions(tuple(found), dict(features), target)


def _half(unit: Indices, rng: np.random.Generator) -> Mask:
    """About half of the rows; what belongs together stays together."""
    many = np.bincount(unit)
    order = rng.permutation(len(many))
    chosen = np.zeros(len(many), bool)
    chosen[order] = np.cumsum(many[order]) - many[order] < len(unit) / 2
    return np.asarray(chosen[unit])


@dataclass(frozen=True, eq=False)
class _Search:
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
        rules: tuple[Rule, ...], tests: tuple[float, float], rng: np.random.Generator,
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
    try:
        low, high = part.interval()
    except ValueError:  # too few rows that count
        low = high = np.nan
    return Region(one.name, rule, depth, rows, part.pfi, low, high, *tests, leaf)


def _differ(one: FeatureImportance, yes: Indices, no: Indices) -> float:
    """p of no difference between two sets of rows, which share their donors."""
    try:
        a, b = one.given(yes), one.given(no)
        first, second = a.influence, b.influence
    except ValueError:
        return np.nan
    error = Influence(first.moved - second.moved, first.excess + second.excess, first.noise + second.noise).std_error
    return difference(("", ""), a.unbiased - b.unbiased, error, min(a._units, b._units) - 1, 0.95).p_value
