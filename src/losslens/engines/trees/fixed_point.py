"""Leaf values as integers, whose sums are exact in any order, with as many digits as predictions need.

A value becomes a multiple of a unit so small that only the last bits of the sum of the largest leaves are lost. A
loss may depend on the relative error of a small prediction (a deviance, a logarithm): then trees with leaves of very
different sizes are declined.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined
from losslens.engines.readers.ensemble import Ensemble, is_affine
from losslens.typing import Floats

FIXED_BITS = 61  # of 63: the sum over all trees fits, with a bit to spare
PRECISION = 1e-10  # of predictions; 1e-9 of the mean losses is promised
FAR_APART = "the values of its leaves are too many orders of magnitude apart to be added up as integers"


def fixed_point(ensemble: Ensemble) -> tuple[NDArray[np.int64], Floats]:
    """Leaf values as integers, (leaves, W), and their unit, a power of two, in each output."""
    unit = _unit(ensemble)
    return np.rint(ensemble.value / unit).astype(np.int64), np.resize(unit, ensemble.outputs)


def check_digits(ensemble: Ensemble) -> None:
    """Raise `Declined` unless predictions keep their digits if each leaf value is rounded to its unit.

    Leaves of one sign don't cancel: every sum of one leaf of each tree has a relative error of at most q, if over the
    trees the largest values of |error| - q |value| have a sum of at most 0. Leaves of both signs have no such bound,
    nor has a prediction near 0 a relative error to speak of. Behind a link that is not linear, such as an exponential,
    an error of a sum is a relative error of the prediction.
    """
    unit, value, offset, trees = _unit(ensemble), ensemble.value, ensemble.offset, len(ensemble.roots)
    most = trees * float(unit.max()) / 2  # of the error of a sum
    small = most <= PRECISION * ensemble.divisor
    one_sign = (value.min() >= 0 and offset.min() >= 0) or (value.max() <= 0 and offset.max() <= 0)
    if one_sign:
        small &= most <= PRECISION * trees * min(abs(float(value.min())), abs(float(value.max())))
    if small:
        return
    error = np.abs(value - np.rint(value / unit) * unit)
    if one_sign and np.any(_largest_sums(ensemble, error - PRECISION * np.abs(value)) > PRECISION * np.abs(offset)):
        raise Declined(FAR_APART)
    absolute = bool(np.all(_largest_sums(ensemble, error) <= PRECISION * ensemble.divisor))
    if not (absolute or is_affine(ensemble.link, ensemble.outputs)):
        raise Declined(FAR_APART)


def _unit(ensemble: Ensemble) -> Floats:
    """The unit of each column of leaf values, (W,)."""
    if not np.isfinite(ensemble.value).all():
        raise Declined("the value of a leaf is not finite")
    largest = np.maximum.reduceat(np.abs(ensemble.value), ensemble.first_leaf, axis=0).sum(axis=0)
    return np.asarray(2.0 ** (np.ceil(np.log2(np.maximum(largest, 1e-300))) - FIXED_BITS))


def _largest_sums(ensemble: Ensemble, of_leaves: Floats) -> Floats:
    """The largest sum over the trees of what each has at one of its leaves, (leaves, W), in each output."""
    largest = np.maximum.reduceat(of_leaves, ensemble.first_leaf, axis=0)
    if largest.shape[1] == ensemble.outputs:
        return np.asarray(largest.sum(axis=0))
    return np.asarray(np.bincount(ensemble.output, largest[:, 0], ensemble.outputs), np.float64)
