"""Shapley values of sums of products against all coalitions of every pair."""

from functools import cache
from itertools import compress, product
from math import comb

import numpy as np
import pytest

from losslens.engines import product_effects
from losslens.engines.kernel_machines import GaussianSum
from losslens.engines.monomials import MonomialSum
from losslens.engines.product_effects import effects_on_sum, operations
from losslens.engines.product_kernels import TILE
from losslens.progress import silent

RNG = np.random.default_rng(0)
N, C, L = 9, 6, 2 * TILE + 5  # tiles, and a part of one
MATRIX, WEIGHTS = RNG.normal(size=(N, C)), RNG.uniform(-1, 1, size=(3, N))
WIDTHS = np.array([0.3, 0.0, 0.1, 0.7, 0.2, 0.4])  # the second column has no effect
FORMS = {
    "gaussian": GaussianSum(RNG.normal(size=L), 2.0, RNG.normal(size=(L, C)), WIDTHS),
    "monomials": MonomialSum(
        RNG.normal(size=L), 1.0, RNG.integers(0, 3, size=(L, C)) * (RNG.uniform(size=(L, C)) < 0.5)
    ),
}
PLAYERS = {"columns": [[j] for j in range(C)], "together": [[0, 3], [1], [2, 4, 5]], "idle": [[1], [0, 2, 3, 4, 5]]}


@cache
def of_pairs(kind, players):
    """Shares of every row with every donor, (N, N, p): from the predictions of all coalitions."""
    players, (i, k) = PLAYERS[players], np.divmod(np.arange(N * N), N)
    value = {}
    for S in product([False, True], repeat=len(players)):
        mixed = MATRIX[k]
        for columns in compress(players, S):
            mixed[:, columns] = MATRIX[i][:, columns]
        value[S] = FORMS[kind].predict(mixed)
    shares, p = np.zeros((N * N, len(players))), len(players)
    for S, j in product(value, range(p)):
        if not S[j]:
            joined = (*S[:j], True, *S[j + 1 :])
            shares[:, j] += (value[joined] - value[S]) / comb(p - 1, sum(S)) / p
    return shares.reshape(N, N, p)


def expected(kind, players, rows, weights):
    return np.einsum("dk,ikj->dij", weights, of_pairs(kind, players)[rows])[..., None]


@pytest.mark.parametrize("memory", [1 << 20, 1], ids=["at once", "a tile at a time"])
@pytest.mark.parametrize("rows", [np.arange(N), np.array([7, 2, 3])], ids=["all rows", "some"])
@pytest.mark.parametrize("players", PLAYERS)
@pytest.mark.parametrize("kind", FORMS)
def test_shares_are_those_of_all_coalitions(kind, players, rows, memory):
    found = effects_on_sum(FORMS[kind], MATRIX, PLAYERS[players], WEIGHTS, memory, 1, silent)(rows)
    np.testing.assert_allclose(found, expected(kind, players, rows, WEIGHTS), rtol=1e-10, atol=1e-11)


def test_donors_without_weight_are_left_out():
    weights = WEIGHTS * (np.arange(N) < 4)
    inside = np.arange(4)
    found = effects_on_sum(FORMS["gaussian"], MATRIX, PLAYERS["columns"], weights, 1 << 20, 1, silent)(inside)
    np.testing.assert_allclose(found, expected("gaussian", "columns", inside, weights), rtol=1e-10, atol=1e-12)


def test_threads_change_no_bit_and_ticks_add_up():
    rng, form = np.random.default_rng(1), FORMS["gaussian"]
    matrix, weights, found = rng.normal(size=(150, C)), np.ones((2, 150)), []
    for n_jobs in (1, 2):
        done: list[int] = []
        ask = effects_on_sum(form, matrix, PLAYERS["columns"], weights, 1, n_jobs, done.append)
        found.append(ask(np.arange(150)))
        assert sum(done) == 150
    assert np.array_equal(*found)


def test_work_counts_columns_with_an_effect():
    moved = C - 1
    assert operations(FORMS["gaussian"], PLAYERS["columns"], 10) == 45 * L * moved * 3  # 3 points for 5 factors
    assert operations(FORMS["gaussian"], PLAYERS["idle"], 10) == 45 * L
    assert product_effects._point_count(0) == product_effects._point_count(2) == 1
