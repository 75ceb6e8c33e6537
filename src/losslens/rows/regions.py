"""Search for regions: a tree whose splits are chosen on all rows by a test that allows for the choice.

What a region explains may be the divergence of rows: how much a row's prediction depends on a feature, whatever its
label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.donors.layout import CommonGrid
from losslens.results.importance import FeatureImportance
from losslens.results.regions import Region, Regions, RegionTarget
from losslens.results.replaced_rows import ReplacedRows
from losslens.results.table import or_else
from losslens.rows import splits
from losslens.rows.splits import PermutationTest, SplitRule, in_words, smaller_side, with_rule
from losslens.tables.checks import check_count, entropy, is_one_of
from losslens.tables.columns import Distinct
from losslens.tables.frames import Table, explained_table
from losslens.tables.row_labels import row_names
from losslens.typing import Floats, Indices, Mask
from losslens.uncertainty.inference import difference
from losslens.uncertainty.standard_errors import check_level

LEAST_ROWS, LEAST_SHARE = 20, 0.05  # on either side of a split
LEAST_GROUPS = 5  # on either side, if rows are grouped
LEVEL = 0.95  # of intervals
Kind = Callable[[NDArray[Any], Floats], Floats]
CONSTANT = 1e-9  # relative spread below which values are equal up to rounding
ROUNDING = 1e-12  # rounding error of predictions, relative to the largest


def find_regions(
    features: Mapping[str, FeatureImportance], X: Any, target: RegionTarget, depth: int, level: float,
    permutations: int, random_state: Any,
) -> Regions:  # fmt: skip
    """The regions of these features, which share the level, by rules on the columns of the table."""
    if not is_one_of(target, ("interaction", "importance")):
        raise ValueError(f"target is 'interaction' or 'importance'; got {target!r}")
    check_count(depth, "depth")
    check_count(permutations, "permutations")
    if not 1 / (1 + permutations) <= check_level(level):
        raise ValueError(f"{permutations} permutations cannot give a p-value of {level} or less; use more")
    first = next(iter(features.values()))
    search = RegionSearch.over(
        _explained(X, first), first, len(features), depth=int(depth), level=level,
        permutations=int(permutations), seed=entropy(random_state),
    )  # fmt: skip
    regions = [region for one in features.values() for region in search.of(one, target)]
    return Regions(tuple(regions), dict(features), target)


def _explained(X: Any, first: FeatureImportance) -> Table:
    """The table of the result; the columns of an array are called as in the result."""
    table, among = explained_table(X, len(first.at), first.row_labels), first.extrapolated
    if table.backend != "numpy" or set(first.columns) <= set(table.names):
        return table
    if not isinstance(among, ReplacedRows) or len(among.among.names) != len(table.names):
        raise ValueError(f"X is an array, and the result is about {first.name!r}: pass a data frame with its columns")
    return replace(table, labels=among.among.names, names=among.among.names)


@dataclass(frozen=True, eq=False)
class RegionSearch:
    """What the search for regions needs for all features."""

    columns: Mapping[str, Distinct]
    block: Indices | None  # group of each row
    n_features: int  # they share the level
    depth: int = 3
    level: float = 0.05
    permutations: int = 499
    seed: int = 0

    @classmethod
    def over(cls, table: Table, one: FeatureImportance, n_features: int, **options: Any) -> Self:
        """A search over the rows of a table, which are those of the result."""
        columns = {name: table.column(j).distinct for j, name in enumerate(table.names)}
        return cls(columns, None if one.sample.block is None else one.sample.block[one.at], n_features, **options)

    def of(self, one: FeatureImportance, target: RegionTarget) -> list[Region]:
        """The region of all rows, followed by the regions within it."""
        if one.conditioning is not None:
            raise ValueError(
                f"values of {one.name!r} were drawn given other columns; regions need the same donors for all rows"
            )
        values = divergence(one) if target == "interaction" else one.local
        others = {name: column for name, column in self.columns.items() if name not in one.columns}
        counted = np.isfinite(values) & np.isfinite(one.local) & (one.sample.weight[one.at] > 0)
        least = max(LEAST_ROWS, int(np.ceil(LEAST_SHARE * counted.sum())))
        feature = _Searched(one, values, others, least, target == "interaction", np.random.default_rng([self.seed, 11]))
        return self._below(feature, counted, (), _Contrast())

    def _below(
        self, feature: _Searched, here: Mask, rules: tuple[SplitRule, ...], contrast: _Contrast, depth: int = 0
    ) -> list[Region]:
        """A region and those within it."""
        best = self._split(feature, here) if depth < self.depth else None
        region = feature.region(np.flatnonzero(here), in_words(rules), depth, contrast, leaf=best is None)
        if best is None:
            return [region]
        yes, no = (here & best.split.rows, best.split.yes), (here & ~best.split.rows, best.split.no)
        sides = sorted((yes, no), key=lambda side: -feature.values[side[0]].mean())  # the higher one first
        higher = splits.left_out(best, feature.values, here, self.block) if feature.by_model else sides[0][0]
        contrasts = feature.contrasts(np.flatnonzero(higher), np.flatnonzero(here & ~higher), best, self.n_features)
        below = {
            rule: self._below(feature, side, with_rule(rules, rule), contrast, depth + 1)
            for (side, rule), contrast in zip(sides, contrasts, strict=True)
        }
        return [region, *below[best.split.yes], *below[best.split.no]]

    def _split(self, feature: _Searched, here: Mask) -> splits.Tested | None:
        """The best split of these rows, if it is significant."""
        if here.sum() < 2 * feature.least or is_constant(feature.values[here]):
            return None
        candidates = splits.candidates(feature.others, here, feature.least)
        if self.block is not None:
            block = self.block[here]
            candidates = [split for split in candidates if smaller_side(split.rows[here], block) >= LEAST_GROUPS]
        if not candidates:
            return None
        level = self.level / self.n_features
        # With the fewest draws that can give so small a p-value a single one would decide: take twice as many.
        permutations = max(self.permutations, int(np.ceil(2 / level)) - 1)
        test = PermutationTest(permutations, level, feature.rng, self.block)
        best = splits.best(candidates, feature.values, here, test)
        return best if best.p <= level else None


@dataclass(frozen=True)
class _Contrast:
    """One side of a split against the other."""

    p: float = np.nan
    p_search: float = np.nan  # p-value of the split in the search
    difference: tuple[float, float, float] = (np.nan, np.nan, np.nan)  # and its interval
    ratio: tuple[float, float, float] = (np.nan, np.nan, np.nan)
    level: float = LEVEL  # of the interval of a single rule, such that those of all candidates hold together


@dataclass(frozen=True, eq=False)
class _Searched:
    """A feature whose regions are searched."""

    one: FeatureImportance
    values: Floats  # what the splits separate, (n,)
    others: Mapping[str, Distinct]  # columns of rules
    least: int  # rows on either side of a split
    by_model: bool  # the values are the model's own: labels had no say in the choice of a rule
    rng: np.random.Generator

    def region(self, rows: Indices, rule: str, depth: int, contrast: _Contrast, *, leaf: bool) -> Region:
        """These rows as a region."""
        part = self.one.at_positions(rows)
        low, high = or_else(lambda: part.interval(contrast.level), (np.nan, np.nan))  # none if too few have weight
        strength = np.nan
        if self.by_model and len(rows):
            strength = float(np.average(self.values[rows], weights=self.one.sample.weight[part.at]))
        return Region(
            self.one.name, rule, depth, row_names(self.one.row_labels, rows), part.pfi, low, high, contrast.p,
            contrast.p_search, leaf, *contrast.difference, *contrast.ratio, strength,
        )  # fmt: skip

    def contrasts(self, high: Indices, low: Indices, best: splits.Tested, tests: int) -> tuple[_Contrast, _Contrast]:
        """The higher side against the lower, and the reverse; p-values are multiplied by the number of tests.

        If the model's own values chose the rule, labels had no say in it: rows are on the sides where rules found
        without them put them, and test and intervals are Student's. If the local importances themselves chose it, the
        difference in standard errors is compared with the largest of all candidates under chance.
        """
        from scipy.stats import t

        try:
            a, b = self.one.at_positions(high), self.one.at_positions(low)
            std_error = (a.influence - b.influence).std_error
        except ValueError:  # too few rows have weight
            return _Contrast(p_search=best.p), _Contrast(p_search=best.p)
        freedom = min(a._units, b._units) - 1
        level = LEVEL
        if not self.by_model:
            level = float(np.clip(2 * t.cdf(np.quantile(best.largest, LEVEL), freedom) - 1, LEVEL, 1 - 1e-12))
        apart = a.unbiased - b.unbiased
        gap = difference(("", ""), a.pfi - b.pfi, std_error, freedom, level, centre=apart)
        p = gap.p_value if self.by_model else best.p_of(abs(apart) / std_error if std_error > 0 else np.inf)
        p, reach = min(p * tests, 1.0), float(t.ppf((1 + level) / 2, freedom))
        covariance = np.array([[a.influence.variance, 0.0], [0.0, b.influence.variance]])
        covariance[0, 1] = covariance[1, 0] = (np.trace(covariance) - std_error**2) / 2
        return (
            _Contrast(p, best.p, (gap.value, gap.low, gap.high),
                      ratio((a.unbiased, b.unbiased), covariance, reach), level),
            _Contrast(p, best.p, (-gap.value, -gap.high, -gap.low),
                      ratio((b.unbiased, a.unbiased), covariance[::-1, ::-1], reach), level),
        )  # fmt: skip


def ratio(values: tuple[float, float], covariance: Floats, reach: float) -> tuple[float, float, float]:
    """The ratio of two estimates with Fieller's interval; NaN unless the second is surely above 0.

    The interval has the ratios r for which ``a - r b`` is within its standard error times `reach`: 1 is one of them
    exactly if the difference may be 0.
    """
    a, b = values
    square = b**2 - reach**2 * covariance[1, 1]
    if not (b > 0 and square > 0):
        return np.nan, np.nan, np.nan
    mixed, rest = a * b - reach**2 * covariance[0, 1], a**2 - reach**2 * covariance[0, 0]
    root = np.sqrt(max(mixed**2 - square * rest, 0.0))
    return a / b, float((mixed - root) / square), float((mixed + root) / square)


def divergence(one: FeatureImportance) -> Floats:
    """The mean over pairs of donors of the divergence between the row's predictions with their values, (n,).

    Squared error: ``2 var_k f(x_i, k)``; absolute error: ``mean |f(x_i, k) - f(x_i, l)|``; log loss: the
    Kullback-Leibler divergence. For a model without interactions with this feature it is the same for every row.
    """
    kinds: dict[str, tuple[Kind, int]] = {
        "squared_error": (_squared, 2),
        "absolute_error": (_absolute, 1),
        "log_loss": (_log, 0),
    }
    if one.loss.name not in kinds:
        other = "" if one.loss.reads == "outputs" else "change the loss of the result, with_loss(...), or "
        raise ValueError(
            "target='interaction' is defined for squared error, absolute error and log loss of one prediction a row, "
            f"but the loss is {one.loss.title}; {other}use target='importance'"
        )
    one._need_all_cells("regions")
    predictions = np.asarray(one.cells.predictions, float)
    one._need_donors("regions")
    weights = _donor_weights(one)
    with np.errstate(invalid="ignore"):  # 0 / 0: a row without donors
        shares = np.broadcast_to(weights / weights.sum(axis=1, keepdims=True), predictions.shape[:2])
    measure, power = kinds[one.loss.name]
    values = measure(predictions, shares)
    rounding = ROUNDING ** max(power, 1) * float(np.abs(predictions).max()) ** power
    return np.where(np.abs(values) <= rounding, 0.0, values)


def _donor_weights(one: FeatureImportance) -> Floats:
    """Weights of the donors: on a common grid the same for all rows, even if a row's own pair is left out.

    Otherwise a row's divergence would depend on its own value, and so on columns correlated with it.
    """
    layout, weight = one.layout, one.sample.weight
    if isinstance(layout, CommonGrid):
        mass = np.bincount(layout.own[layout.donors], weight[layout.donors], layout.size)
        return np.asarray(mass, float)[None, :]
    return layout.weights(one.sample, one.cells.rows)


def is_constant(values: Floats) -> bool:
    """Whether values differ by no more than rounding."""
    return bool(np.ptp(values) <= CONSTANT * max(float(np.abs(values).max(initial=0.0)), 1e-300))


def _squared(predictions: Floats, shares: Floats) -> Floats:
    mean = (shares * predictions).sum(axis=1, keepdims=True)
    return np.asarray(2 * (shares * np.square(predictions - mean)).sum(axis=1))


def _absolute(predictions: Floats, shares: Floats) -> Floats:
    """``sum_kl w_k w_l |f_k - f_l| = 2 sum_k w_k f_k (2 W_k - w_k - 1)`` with f sorted and W cumulated."""
    order = np.argsort(predictions, axis=1)
    f, w = (np.take_along_axis(some, order, axis=1) for some in (predictions, shares))
    return np.asarray(2 * (w * f * (2 * np.cumsum(w, axis=1) - w - 1)).sum(axis=1))


def _log(predictions: NDArray[Any], shares: Floats) -> Floats:
    """``sum_c mean(p_c log p_c) - mean(p_c) mean(log p_c)``, over the classes c."""
    eps = np.finfo(float).eps
    p = np.clip(predictions, eps, 1.0)
    logs, w = np.log(p), shares[:, :, None]
    inside = (w * p * logs).sum(axis=1) - (w * p).sum(axis=1) * (w * logs).sum(axis=1)
    return np.asarray(inside.sum(axis=1))
