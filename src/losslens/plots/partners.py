"""The feature by whose values single rows' curves differ most in shape: its values colour them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from losslens.plots.feature_data import Singles
from losslens.plots.shapley_effect import ranked
from losslens.tables.columns import array_column
from losslens.typing import Floats, Indices

GROUPS = 4  # of rows, by the partner's value


class Partner(NamedTuple):
    """A column, and the rank of its value in each row, from 0 to 1; NaN where it is missing or has no order."""

    name: str
    ranks: Floats  # (n,)


def partner_of(singles: Singles, given: Any, columns: tuple[str, ...]) -> Partner:
    """The column whose values were given, or the one of several results that explains most of the curves' shapes."""
    n = len(singles.result.at)
    if not isinstance(given, Mapping):
        values = np.asarray(given)
        if values.shape != (n,):
            raise ValueError(f"partner has one value for each of the {n:,} rows, or is a result of all features")
        return Partner(str(getattr(given, "name", None) or "value"), _ranks(values))
    held = {name: given._values_held(name) for name in given if name not in columns}  # type: ignore[attr-defined]
    choices = [
        Partner(name, _ranks(values)) for name, values in held.items() if values is not None and len(values) == n
    ]
    choices = [one for one in choices if np.isfinite(one.ranks).any()]
    if not choices:
        raise ValueError("partner: no other feature of that result has values in an order for these rows")
    curves = singles.curves(np.arange(len(singles.rows)))
    return max(choices, key=lambda one: explained(curves, one.ranks[singles.rows]))


def _ranks(values: Any) -> Floats:
    distinct = array_column(values).distinct
    return ranked(distinct.values, distinct.codes, ordered=distinct.ordered)


def explained(curves: Floats, ranks: Floats) -> float:
    """The share of the differences in shape between curves that groups of rows of similar rank explain.

    Adjusted for the number of groups, so that a column without an effect has 0 on average.

    >>> slopes = np.repeat([-1.0, 1.0], 10)
    >>> curves = slopes[:, None] * np.arange(5.0)
    >>> explained(curves, np.linspace(0, 1, 20)), explained(curves, np.tile([0.0, 1.0], 10)) < 0.1
    (1.0, True)
    """
    kept = np.isfinite(ranks)
    group: Indices = np.minimum((ranks[kept] * GROUPS).astype(np.intp), GROUPS - 1)
    shape = curves[kept] - np.nanmean(curves[kept], axis=1, keepdims=True)
    present = np.isfinite(shape).all(axis=0)
    used, shape = np.unique(group), shape[:, present]
    total = float(np.sum((shape - shape.mean(axis=0)) ** 2))
    within = sum(float(np.sum((shape[group == k] - shape[group == k].mean(axis=0)) ** 2)) for k in used)
    free = len(shape) - len(used)
    return 1 - (within / free) / (total / (len(shape) - 1)) if free > 0 and total > 0 else 0.0
