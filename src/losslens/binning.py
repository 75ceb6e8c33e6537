"""Where on a curve a value lies that was drawn, not met: bins of the feature's ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.columns import Column, Distinct, is_missing, joint

Indices = NDArray[np.intp]
MOST_BINS = 50  # of a curve
MOST_JOINT = 2000  # values of several columns together that are told apart


def rank_bins(distinct: Distinct) -> tuple[Indices, NDArray[Any]]:
    """The bin of each distinct value, as many of the rows in one as in another, and the bins' middle values.

    A missing value is a bin of its own, the last. Words, groups and few values are not joined.
    """
    g = len(distinct)
    if not distinct.ordered or g <= MOST_BINS:
        return np.arange(g), distinct.values
    known = g - int(_last_is_missing(distinct))
    reached = np.cumsum(np.bincount(distinct.codes, minlength=g)[:known])
    reached = reached / reached[-1]
    bins = np.unique(np.floor(reached * MOST_BINS * (1 - 1e-12)), return_inverse=True)[1]
    last = np.flatnonzero(np.diff(bins, append=-1))
    middle = np.searchsorted(reached, (np.append(0.0, reached[last[:-1]]) + reached[last]) / 2)
    if known == g:
        return bins, distinct.values[middle]
    return np.append(bins, bins[-1] + 1), distinct.values[np.append(middle, known)]


def drawn_places(
    sources: Sequence[Column], cell: Indices, distinct: Distinct, name: str
) -> tuple[Indices, NDArray[Any]]:
    """The place of each cell's value on a grid, (n, m), and the grid."""
    if len(sources) > 1:
        return _joint_places(sources, cell)
    bins, values = rank_bins(distinct)
    drawn = sources[0].array[cell]
    if drawn.dtype.kind in "iufmM" and distinct.ordered:
        return _ordered_places(drawn, distinct, bins, values)
    place = {value: k for k, value in enumerate(distinct.values.tolist()) if not is_missing(value)}
    last = len(distinct) - 1 if _last_is_missing(distinct) else None
    codes = [last if is_missing(value) else place.get(value) for value in drawn.ravel().tolist()]
    if None in codes:
        strange = drawn.ravel()[codes.index(None)]
        raise ValueError(f"the sampler drew {strange!r} for {name!r}, which no row has; a curve has no place for it")
    return bins[np.array(codes, np.intp)].reshape(drawn.shape), values


def _ordered_places(
    drawn: NDArray[Any], distinct: Distinct, bins: Indices, values: NDArray[Any]
) -> tuple[Indices, NDArray[Any]]:
    """Numbers and dates lie in the bin that they are nearest to; missing ones at the end."""
    known = len(values) - int(_last_is_missing(distinct))
    if len(values) == len(distinct):  # each value by itself: between two of them, the nearer one
        numbers = values[:known]
        edges = numbers[:-1] + (numbers[1:] - numbers[:-1]) / 2
    else:
        edges = distinct.values[np.flatnonzero(np.diff(bins[: len(distinct) - int(_last_is_missing(distinct))])) + 1]
    missing = np.isnat(drawn) if drawn.dtype.kind in "mM" else np.isnan(drawn)
    place = np.where(missing, known, np.searchsorted(edges, drawn, side="right"))
    if missing.any() and known == len(values):
        nothing = np.full(1, np.nan) if values.dtype.kind not in "mM" else np.full(1, "NaT", values.dtype)
        values = np.append(values, nothing)
    return np.asarray(place, np.intp), values


def _joint_places(sources: Sequence[Column], cell: Indices) -> tuple[Indices, NDArray[Any]]:
    """Several columns together, where they have few values; otherwise one place: there is no curve."""
    together = joint([source.distinct for source in sources])
    if len(together) <= MOST_JOINT:
        return np.asarray(together.codes[cell]), together.values
    return np.zeros(cell.shape, np.intp), np.full((1, len(sources)), np.nan)


def _last_is_missing(distinct: Distinct) -> bool:
    last = distinct.values[-1]
    if distinct.values.ndim > 1:
        return False
    return bool(np.isnat(last)) if isinstance(last, (np.datetime64, np.timedelta64)) else is_missing(last)
