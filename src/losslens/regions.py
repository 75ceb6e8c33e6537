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
from losslens.splits import Mask, Rule, both
from losslens.tables import as_table
from losslens.uncertainty import Influence, check_level

LEAST_ROWS, LEAST_SHARE = 20, 0.05  # of the half that looks, on either side of a question


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
        The largest p-value of a question that is asked.
    permutations
        Of the test at each question, which takes all rows that have a weight as alike.
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
    first = next(iter(features.values()))
    if first.sample.block is not None:
        raise ValueError("rows that belong together are not exchanged one by one: explain without groups= for regions")
    table = as_table(X)
    if table.n != len(first.at):
        raise ValueError(f"X has {table.n} rows, the result {len(first.at)}; pass the table that was explained")
    columns = {name: table.column(j).distinct for j, name in enumerate(table.names)}
    seed = entropy(random_state)
    looks = np.random.default_rng([seed, 10]).permutation(table.n) < table.n / 2
    search = _Search(columns, looks, int(depth), level, int(permutations), seed)
    found = [region for one in features.values() for region in search.of(one, target)]
    return Regions(tuple(found), dict(features), target)


@dataclass(frozen=True, eq=False)
class _Search:
    columns: Mapping[str, Distinct]
    looks: Mask  # the half that finds rules
    depth: int
    level: float
    permutations: int
    seed: int

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
        question = self._question(values, others, here, rng) if depth < self.depth else None
        rows = np.flatnonzero(here & ~self.looks)
        mine = _region(one, rows, " and ".join(map(str, rules)), depth, tests, leaf=question is None)
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
        self, values: Floats, others: Mapping[str, Distinct], here: Mask, rng: np.random.Generator
    ) -> tuple[splits.Split, float] | None:
        """The best question about these rows, if it is better than chance."""
        looking = here & self.looks
        least = max(LEAST_ROWS, int(np.ceil(LEAST_SHARE * self.looks.sum())))
        if looking.sum() < 2 * least or is_constant(values[looking]):
            return None
        asked = splits.candidates(others, looking, least)
        asked = [split for split in asked if min(_sizes(split, here & ~self.looks)) >= 3]
        if not asked:
            return None
        split, p = splits.best(asked, values, looking, self.permutations, rng)
        return (split, p) if p <= self.level else None


def _sizes(split: splits.Split, rows: Mask) -> tuple[int, int]:
    yes = int((split.rows & rows).sum())
    return yes, int(rows.sum()) - yes


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
