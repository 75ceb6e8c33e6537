"""Compiled losses: the exponential and the logarithm to the last digits, and the losses of a block of coalitions."""

import numpy as np
import pytest

from losslens.engines.trees import pair_losses

exponential, logarithm = pair_losses.exponential, pair_losses.logarithm
squared_losses, log_losses = pair_losses.squared_losses, pair_losses.log_losses

RNG = np.random.default_rng(0)
EPS = np.finfo(float).eps


def test_the_exponential_is_right_to_the_last_digits():
    for x in (*np.linspace(-1, 1, 401), *RNG.uniform(-700, 700, 2000), -700.0, 700.0, 0.0, 1e-300):
        assert exponential(x) == pytest.approx(np.exp(x), rel=4 * EPS, abs=0)


def test_the_logarithm_is_right_to_the_last_digits():
    near = 1 + np.linspace(-0.5, 1, 601)
    for x in (*near, *np.exp(RNG.uniform(-700, 700, 2000)), 1 - EPS, 1 + EPS, EPS, 1.0):
        assert logarithm(x) == pytest.approx(np.log(x), rel=4 * EPS, abs=0)


@pytest.mark.parametrize(("row_y", "donor_y"), [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])
def test_losses_of_a_block_of_coalitions(row_y, donor_y):
    """Scores in fixed point: table * scale + shift; a block begins somewhere in the table."""
    table = np.append(RNG.integers(-4000, 4000, 40), [60_000, -60_000]).astype(np.int64)
    start, side, scale, shift = 7, 35, 1e-3, 0.25
    score = table[start:] * scale + shift
    losses = np.full((2, side), np.nan)
    squared_losses(table, np.uint64(start), np.uint64(side), scale, shift, row_y, donor_y, losses)
    np.testing.assert_allclose(losses, [(score - row_y) ** 2, (score - donor_y) ** 2], rtol=1e-12)
    log_losses(table, np.uint64(start), np.uint64(side), scale, shift, row_y, donor_y, losses)
    p = 1 / (1 + np.exp(-score))
    expected = [-np.log(np.clip(p if y > 0.5 else 1 - p, EPS, 1 - EPS)) for y in (row_y, donor_y)]
    np.testing.assert_allclose(losses, expected, rtol=1e-10)
