"""How far the values of a column are apart in two sets of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.columns import Column, count_missing, distinct_values, is_missing
from losslens.typing import Floats

CHANCE = 0.05  # how often samples of the same distribution are farther apart than `DistributionShift.by_chance`


@dataclass(frozen=True)
class DistributionShift:
    """The values of a column in a set of rows, compared with those in a first one.

    `distance` is between 0 and 1: for values with an order the largest difference of the two distribution functions
    (Kolmogorov and Smirnov), for others half of the sum of the differences of shares (total variation). A missing value
    is one value, the last.
    """

    column: str
    distance: float
    by_chance: float  # two samples of one distribution are farther apart in at most 5% of the cases
    what: str  # "mean" or, where values have none, the value whose share differs most
    value: float  # the mean, or the share of that value
    value_against: float  # the same in the first set
    missing: float  # the share of missing values
    missing_against: float
    # The difference of the means, and the mean distance of quantiles (Wasserstein), in standard deviations; NaN without
    mean_difference: float = float("nan")
    wasserstein: float = float("nan")

    def __repr__(self) -> str:
        sure = "beyond" if self.beyond_chance else "within"
        what = self.what if self.what == "mean" else f"share of {self.what}"
        values = f"{what} {self.value:.4g}, against {self.value_against:.4g}"
        return f"<DistributionShift {self.column!r}: distance {self.distance:.2f}, {sure} chance; {values}>"

    @property
    def beyond_chance(self) -> bool:
        """Whether samples of the same distribution are seldom that far apart."""
        return self.distance > self.by_chance

    def turned(self) -> DistributionShift:
        """The first set compared with the second."""
        return replace(
            self, value=self.value_against, value_against=self.value, missing=self.missing_against,
            missing_against=self.missing, mean_difference=-self.mean_difference,
        )  # fmt: skip


def shift_of(
    name: str, columns: Sequence[Column], weights: Sequence[Floats], units: Sequence[float]
) -> DistributionShift:
    """The second of two columns compared with the first.

    Parameters
    ----------
    weights
        Of the rows; each sums to one.
    units
        The effective numbers of rows, or of groups of rows, for `DistributionShift.by_chance`.

    Examples
    --------
    >>> from losslens.tables.columns import array_column
    >>> columns = [array_column(np.array(values)) for values in ([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])]
    >>> found = shift_of("x", columns, [np.full(3, 1 / 3)] * 2, [3, 3])
    >>> round(found.distance, 3), found.value_against, found.value
    (0.333, 2.0, 3.0)
    """
    values, ordered, shares = _shares(columns, weights)
    present, noise = len(values) - count_missing(values), 1 / units[0] + 1 / units[1]
    missing, change = shares[:, present:].sum(axis=1), shares[1] - shares[0]
    most = int(np.argmax(np.abs(change)))
    value = "missing" if is_missing(values[most]) else str(values[most])
    if ordered:  # Kolmogorov's bound
        distance, by_chance = np.abs(np.cumsum(change)).max(), np.sqrt(np.log(2 / CHANCE) / 2 * noise)
    else:
        # The mean if both have the same shares, by normal deviations; a row changes it by its weight at most, so that
        # McDiarmid's inequality bounds how far it is exceeded.
        pooled = shares.mean(axis=0)
        mean = np.sqrt(pooled * (1 - pooled) * noise / (2 * np.pi)).sum()
        distance, by_chance = np.abs(change).sum() / 2, mean + np.sqrt(np.log(1 / CHANCE) / 2 * noise)
    found = DistributionShift(
        name, float(distance), min(1.0, float(by_chance)), value, float(shares[1, most]), float(shares[0, most]),
        float(missing[1]), float(missing[0]),
    )  # fmt: skip
    numbers = values[:present]
    known = shares[:, : len(numbers)].sum(axis=1)  # exactly 0 where all are missing
    if not ordered or values.dtype.kind not in "biuf" or not (known > 0).all() or not np.isfinite(numbers).all():
        return found
    numbers, parts = numbers.astype(float), shares[:, : len(numbers)] / known[:, None]
    first, second = (parts @ numbers).tolist()
    variance = [part @ np.square(numbers - mean) for part, mean in zip(parts, (first, second), strict=True)]
    spread, between = np.sqrt(np.mean(variance)), np.abs(np.cumsum(parts[1] - parts[0])[:-1]) @ np.diff(numbers)
    found = replace(found, what="mean", value=second, value_against=first)
    if spread <= 1e-12 * np.abs(numbers).max():  # both are constant
        return found
    return replace(found, mean_difference=(second - first) / float(spread), wasserstein=float(between / spread))


def _shares(columns: Sequence[Column], weights: Sequence[Floats]) -> tuple[NDArray[Any], bool, Floats]:
    """The distinct values of both columns, whether they have an order, and the share of each, (2, g)."""
    arrays = [column.array for column in columns]
    if any(array.dtype == object for array in arrays):
        arrays = [array.astype(object) for array in arrays]
    categories = [column.categories for column in columns]
    first, second = (_merged(a or (), b or ()) for a, b in (categories, categories[::-1]))
    joined = None if None in categories else first
    in_order = all(column.ordered for column in columns) and first == second  # one order suits both
    distinct = distinct_values(np.concatenate(arrays), joined, in_order)
    codes = np.split(distinct.codes, [len(arrays[0])])
    shares = [np.bincount(code, weight, len(distinct)) for code, weight in zip(codes, weights, strict=True)]
    return distinct.values, distinct.ordered, np.stack(shares)


def _merged(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """The categories of the first, and each further one of the second behind that which it follows there.

    >>> _merged(("low", "high"), ("low", "middle", "high"))
    ('low', 'middle', 'high')
    """
    found, place = list(one), 0
    for value in other:
        if value not in found:
            found.insert(place, value)
        place = found.index(value) + 1
    return tuple(found)
