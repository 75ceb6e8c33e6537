"""Four rows and their meetings, small enough to work out by hand."""

import numpy as np

from losslens.donors.layout import CommonGrid
from losslens.tables.sample import Sample

N = 4
WEIGHT = np.array([0.1, 0.2, 0.3, 0.4])
EVERY = np.arange(N)
CODES = np.array([0, 1, 1, 2])  # rows 1 and 2 share a value


def sample(weight=None, block=None):
    weight = np.full(N, 0.25) if weight is None else weight
    return Sample(weight, np.zeros(N), y=np.zeros(N), loss=np.zeros(N), block=block)


def everybody(leaves_out_own=False):
    return CommonGrid(CODES, EVERY, 3, leaves_out_own)


MET = np.array([[1, 3], [0, 2], [3, 0], [2, 1]], np.int32)
CHANGES = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
