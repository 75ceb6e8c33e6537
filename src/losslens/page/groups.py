"""For whom a model is good, and what it needs there: the groups of rows that `by=` names, side by side.

All numbers are those of `given`: rows of the group, donors from all rows. Differences of two groups are made here, too,
so that a page without rows can show them; and paired differences of every two models on the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from losslens.page.labels import as_numbers, condition_of, kind_of, labels, rough, rough_labels, texts
from losslens.page.quality import LEVEL, error_ends, ranges
from losslens.results.comparison import Comparison
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.one_number import OneNumber, number_of
from losslens.results.plain_error import plain_error
from losslens.results.sentences import smallest_error, smallest_is_uncertain
from losslens.results.table import or_else
from losslens.tables.columns import Distinct
from losslens.text import claim
from losslens.typing import Floats, Indices
from losslens.uncertainty.cautions import of_estimate
from losslens.uncertainty.inference import Difference, between
from losslens.uncertainty.standard_errors import influence_on_error

MOST_GROUPS = 12
RANGES = 5  # of a column of many numbers
LEADING = 8  # features whose importances are shown
NO_ENDS = (np.nan, np.nan)
MOST_MODELS = 6  # with more, differences are those to the first model only


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows by one column."""

    column: str
    labels: list[str]
    rows: list[Indices]
    joined: int  # rare values that share the last group
    in_ranges: bool
    conditions: list[dict[str, Any]]  # that make a group the page's subgroup


def groups_by(name: str, column: Distinct, weight: Floats) -> Groups | None:
    """A group for each value, the rarest joined; of many numbers or dates, ranges with about equally many rows.

    None where fewer than two groups have rows with weight.
    """
    g, codes, called = len(column.values), np.asarray(column.codes), labels(column.values)
    missing = g - 1 if texts(column.values[-1:]) == [None] else g
    in_ranges = column.ordered and g > MOST_GROUPS
    joined = 0
    if in_ranges:
        present = np.flatnonzero(codes < missing)
        parts = [present[rows] for rows in ranges(codes[present].astype(float), weight[present], RANGES)]
        kind, numbers = kind_of(column), as_numbers(column.values)
        names = _range_names([numbers[codes[rows]] for rows in parts], kind)
        if missing < g:
            parts, names = [*parts, np.flatnonzero(codes == missing)], [*names, called[missing]]
    else:
        joined = g - MOST_GROUPS + 1 if g > MOST_GROUPS else 0
        order = np.argsort(-np.bincount(codes, weight, g), kind="stable")
        kept = np.sort(order[: g - joined])
        parts, names = [np.flatnonzero(codes == v) for v in kept], [called[v] for v in kept]
        if joined:
            parts, names = [*parts, np.flatnonzero(~np.isin(codes, kept))], [*names, f"{joined:,} rarer ones"]
    counted = [k for k, rows in enumerate(parts) if len(rows) and weight[rows].sum() > 0]
    if len(counted) < 2:
        return None
    names, parts = [names[k] for k in counted], [parts[k] for k in counted]
    return Groups(name, names, parts, joined, in_ranges, [condition_of(name, column, rows) for rows in parts])


def _range_names(parts: Sequence[Floats], kind: str) -> list[str]:
    """Ranges by their ends, rounded by the spread of their values: no row's own, and distinct in a long tail, too."""
    ends = np.concatenate([rough(np.array([part.min(), part.max()]), part, kind) for part in parts])
    called = iter(rough_labels(ends, kind))
    return [low if low == high else f"{low} to {high}" for low, high in zip(called, called, strict=True)]


@dataclass(frozen=True, eq=False)
class FeatureByGroup:
    """The importance of one feature to one model, in each group and between every two."""

    numbers: list[dict[str, Any]]
    differences: list[dict[str, Any]]  # in the order of `combinations`


def by_group(one: FeatureImportance, groups: Groups) -> FeatureByGroup:
    """Importances of the groups, and their differences."""
    parts = [one.at_positions(rows) for rows in groups.rows]
    pairs = combinations(zip(groups.labels, parts, strict=True), 2)
    return FeatureByGroup([*map(importance_dict, parts)], [difference_dict(partial(_less, a, b)) for a, b in pairs])


def importance_dict(one: OneNumber) -> dict[str, Any]:
    """An importance by a loss or by a score as the page shows it; NaN where it is not defined."""
    numbers = {name: number_of(one, name) for name in ("importance", "low", "high")}
    return {"pfi": numbers.pop("importance"), **numbers, "caution": one.caution}


Part = tuple[str, FeatureImportance]  # the name of a group of rows, and its result


def _less(first: Part, second: Part) -> Difference:
    """The importance in one group less that in another."""
    (name, a), (other, b) = first, second
    return between(a.estimates(), b.estimates(), a.name, (name, other), 0.95, "others")


def _error_less(first: Part, second: Part, level: float = 0.95) -> Difference:
    """The error of one group less that of another."""
    (name, a), (other, b) = first, second
    return between(a._base_estimates, b._base_estimates, "error", (name, other), level, "others")


def for_whom(
    groups: Groups | None, models: Mapping[str, Importances], by_model: Sequence[Mapping[str, FeatureByGroup]]
) -> dict[str, Any] | None:
    """All numbers of the groups; `by_model` holds the importances of leading features, for each model."""
    if groups is None:
        return None
    weight = next(iter(models.values()))._first.sample.weight
    shown = [
        {"label": label, "n": len(rows), "share": float(weight[rows].sum() / weight.sum()), "conditions": [condition]}
        for label, rows, condition in zip(groups.labels, groups.rows, groups.conditions, strict=True)
    ]
    each = [_model(groups, model, features) for model, features in zip(models.values(), by_model, strict=True)]
    sentences = [errors_differ(groups, next(iter(models.values()))), how_grouped(groups)]
    return {
        "column": groups.column, "groups": shown, "features": list(by_model[0]), "models": each,
        "sentences": list(filter(None, sentences)),
    }  # fmt: skip


def _model(groups: Groups, model: Importances, features: Mapping[str, FeatureByGroup]) -> dict[str, Any]:
    """What the page shows of a model by group: errors, importances, and how every two groups differ."""
    parts = [_errors_of(model._first, rows) for rows in groups.rows]
    numbers = [
        {**_error(part), "importances": [one.numbers[k] for one in features.values()]} for k, part in enumerate(parts)
    ]
    places = combinations(range(len(parts)), 2)
    pairs = combinations(zip(groups.labels, parts, strict=True), 2)
    differences = [
        {"first": j, "second": k, "error": difference_dict(partial(_error_less, *pair)),
         "importances": [one.differences[place] for one in features.values()]}
        for place, ((j, k), pair) in enumerate(zip(places, pairs, strict=True))
    ]  # fmt: skip
    return {"groups": numbers, "differences": differences}


def _errors_of(one: FeatureImportance, rows: Indices) -> FeatureImportance:
    """A result for these rows, of which only the error is used: no cell is read."""
    return replace(one, at=one.at[rows])


def _error(part: FeatureImportance) -> dict[str, Any]:
    low, high = or_else(lambda: error_ends(part), (np.nan, np.nan))
    skewness = or_else(lambda: influence_on_error(part.sample, part.at).skewness, 0.0)
    return {
        "error": part.error, "low": low, "high": high, "skill": or_else(lambda: part.skill, None),
        "caution": of_estimate(skewness, part._units),
    }  # fmt: skip


def difference_dict(make: Callable[[], Difference]) -> dict[str, Any]:
    """A difference as the page shows it; NaN where there is none."""
    difference: Difference | None = or_else(make, None)
    if difference is None:
        return dict.fromkeys(("value", "low", "high", "p"), np.nan)
    return {"value": difference.value, "low": difference.low, "high": difference.high, "p": difference.p_value}


@claim(level=0)
def how_grouped(groups: Groups) -> str:
    """Where groups are not simply the values of the column."""
    if groups.in_ranges:
        return f"Groups are ranges of {groups.column}, with about equally many rows each."
    if groups.joined:
        return f"The {groups.joined:,} rarest values of {groups.column} are joined to one group."
    return ""


@claim(level=LEVEL)
def errors_differ(groups: Groups, first: Importances) -> str:
    """The two groups with the largest difference of errors, where an interval for all pairs together excludes 0."""
    parts = {label: _errors_of(first._first, rows) for label, rows in zip(groups.labels, groups.rows, strict=True)}
    order = sorted(parts, key=lambda label: parts[label].error)
    several = len(parts) * (len(parts) - 1) / 2
    high, low = (order[-1], parts[order[-1]]), (order[0], parts[order[0]])
    difference = or_else(lambda: _error_less(high, low, 1 - LEVEL / several), None)
    if difference is None or not difference.low > 0:
        return ""
    together = " for all pairs of groups together" if several > 1 else ""
    plain = plain_error(first)
    texts = [plain.level(part.error, *or_else(partial(error_ends, part), NO_ENDS)) for _, part in (high, low)]
    return (
        f"The {plain.name} is surely {'smaller' if plain.falls else 'larger'} where {groups.column} is {high[0]}, "
        f"{texts[0]}, than where it is {low[0]}, {texts[1]} (95% confidence{together})."
    )


def compared(models: Mapping[str, Importances], features: Sequence[str]) -> dict[str, Any] | None:
    """Differences of every two models, the first less the second; None for one model."""
    if len(models) < 2:
        return None
    comparison, names = Comparison(importances=dict(models), shapley={}, paired=True), list(models)
    pairs = [(j, k) for j, k in combinations(range(len(names)), 2) if j == 0 or len(names) <= MOST_MODELS]
    differences = [
        {
            "first": j,
            "second": k,
            "error": difference_dict(partial(comparison.error_difference, names[j], names[k])),
            "importances": [difference_dict(partial(comparison.difference, f, names[j], names[k])) for f in features],
        }
        for j, k in pairs
    ]
    sentences = [smallest_error(comparison), smallest_is_uncertain(comparison)]
    return {"differences": differences, "sentences": list(filter(None, sentences))}
