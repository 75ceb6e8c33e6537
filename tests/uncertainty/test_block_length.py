"""The length of blocks, from the autocorrelation of a series."""

import numpy as np
import pytest
from scipy.signal import lfilter

from losslens.uncertainty.block_length import LONGER, block_length


def autoregressive(n, r, seed=0):
    return lfilter([1], [1, -r], np.random.default_rng(seed).normal(size=n + 200))[200:]


@pytest.mark.parametrize("r", [0.5, 0.8])
def test_long_series_have_the_length_of_their_process(r):
    """R(k) = r^k: g = (1 + r)/(1 - r), G = 2 r/(1 - r)^2, and Politis and White's length is (3/2 (G/g)^2 n)^(1/3)."""
    n = 50_000
    ratio = 2 * r / (1 - r) ** 2 / ((1 + r) / (1 - r))
    found, capped = block_length(autoregressive(n, r))
    assert found == pytest.approx(LONGER * (1.5 * ratio**2 * n) ** (1 / 3), rel=0.15)
    assert not capped


def test_independent_values_need_no_blocks():
    lengths = [block_length(np.random.default_rng(seed).normal(size=300))[0] for seed in range(50)]
    assert np.median(lengths) < 3


def test_values_correlated_for_as_long_as_they_are_observed_get_the_longest_blocks():
    assert block_length(np.arange(1000.0)) == (94, True)  # 3 sqrt(n)
    assert block_length(np.arange(100.0)) == (16, True)  # a sixth
    assert block_length(np.sin(2 * np.pi * np.arange(300) / 24))[1]


@pytest.mark.parametrize("series", [np.zeros(100), np.full(100, 0.1), np.arange(5.0)])
def test_series_without_anything_to_see_have_blocks_of_one(series):
    assert block_length(series) == (1.0, False)


def test_the_length_has_no_unit_and_no_origin():
    series = autoregressive(300, 0.8)
    assert block_length(1e6 * series + 1e3)[0] == pytest.approx(block_length(series)[0])
