"""Leaf values as integers, whose sums are exact in any order, with as many digits as predictions need.

A value becomes a multiple of a unit so small that only the last bits of the sum of the largest leaves are lost. A
loss may depend on the relative error of a small prediction (a deviance, a logarithm), and then leaves of very different
sizes need a second integer, for what the first one leaves out: a further output of the trees, added up by the link.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined
from losslens.engines.readers.ensemble import Ensemble, func_and_args, is_affine, sum_of_digits
from losslens.typing import Floats

FIXED_BITS = 61  # of 63: the sum over all trees fits, with a bit to spare
PRECISION = 1e-10  # of predictions; 1e-9 of the mean losses is promised
FAR_APART = "the values of its leaves are too many orders of magnitude apart to be added up as integers"


def fixed_point(ensemble: Ensemble) -> tuple[NDArray[np.int64], Floats]:
    """Leaf values as integers, (leaves, W), and their unit, a power of two, in each output."""
    unit = _unit(ensemble)
    return np.rint(ensemble.value / unit).astype(np.int64), np.resize(unit, ensemble.outputs)


def in_digits(ensemble: Ensemble) -> Ensemble:
    """The ensemble, if an integer for each leaf is precise enough; else one of two outputs for each: high and low.

    Raises `Declined` if two are not enough, either.
    """
    unit = _unit(ensemble)
    if _is_precise(ensemble, ensemble.value, unit):
        return ensemble
    if ensemble.value.shape[1] < ensemble.outputs:
        raise Declined(FAR_APART)
    coarse = 4 * unit  # whatever the unit of the rounded values is, they are multiples of it
    high = np.rint(ensemble.value / coarse) * coarse
    both = replace(
        ensemble,
        value=np.hstack([high, ensemble.value - high]),
        offset=np.append(ensemble.offset, np.zeros(ensemble.outputs)),
        link=partial(sum_of_digits, ensemble.link),
    )
    if not _is_precise(ensemble, both.value[:, ensemble.outputs :], _unit(both)[ensemble.outputs :]):
        raise Declined(FAR_APART)
    return both


def in_one_digit(ensemble: Ensemble) -> Ensemble:
    """The ensemble that `in_digits` was given."""
    link, *inner = func_and_args(ensemble.link)
    if link is not sum_of_digits:
        return ensemble
    high, low = np.hsplit(ensemble.value, 2)
    return replace(ensemble, value=high + low, offset=ensemble.offset[: high.shape[1]], link=inner[0])


def _unit(ensemble: Ensemble) -> Floats:
    """The unit of each column of leaf values, (W,)."""
    if not np.isfinite(ensemble.value).all():
        raise Declined("the value of a leaf is not finite")
    largest = np.maximum.reduceat(np.abs(ensemble.value), ensemble.first_leaf, axis=0).sum(axis=0)
    return np.asarray(2.0 ** (np.ceil(np.log2(np.maximum(largest, 1e-300))) - FIXED_BITS))


def _is_precise(ensemble: Ensemble, rounded: Floats, unit: Floats) -> bool:
    """Whether predictions have small errors if this part of the leaf values, (leaves, W), is rounded to units.

    Leaves of one sign don't cancel: every sum of one leaf of each tree has a relative error of at most q, if over the
    trees the largest values of |error| - q |value| have a sum of at most 0. Leaves of both signs have no such bound,
    nor has a prediction near 0 a relative error to speak of. Behind a link that is not linear, such as an exponential,
    an error of a sum is a relative error of the prediction.
    """
    value, offset, trees = ensemble.value, ensemble.offset, len(ensemble.roots)
    most = trees * float(unit.max()) / 2  # of the error of a sum
    small = most <= PRECISION * ensemble.divisor
    one_sign = (value.min() >= 0 and offset.min() >= 0) or (value.max() <= 0 and offset.max() <= 0)
    if one_sign:
        small &= most <= PRECISION * trees * min(abs(float(value.min())), abs(float(value.max())))
    if small:
        return True
    error = np.abs(rounded - np.rint(rounded / unit) * unit)
    if one_sign and np.any(_largest_sums(ensemble, error - PRECISION * np.abs(value)) > PRECISION * np.abs(offset)):
        return False
    absolute = bool(np.all(_largest_sums(ensemble, error) <= PRECISION * ensemble.divisor))
    return absolute or is_affine(ensemble.link, ensemble.outputs)


def _largest_sums(ensemble: Ensemble, of_leaves: Floats) -> Floats:
    """The largest sum over the trees of what each has at one of its leaves, (leaves, W), in each output."""
    largest = np.maximum.reduceat(of_leaves, ensemble.first_leaf, axis=0)
    if largest.shape[1] == ensemble.outputs:
        return np.asarray(largest.sum(axis=0))
    return np.asarray(np.bincount(ensemble.output, largest[:, 0], ensemble.outputs), np.float64)
