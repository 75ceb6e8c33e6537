"""Shapley values as game theory knows them: against all orders of joining, axioms, and games with known answers."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import coalitions
from losslens import game_theory

NUMBERS = st.floats(-1e3, 1e3)


def games(least=1, most=5):
    """Tables of all coalitions' errors."""
    return st.integers(least, most).flatmap(lambda p: arrays(float, 1 << p, elements=NUMBERS))


def sets(p):
    """The coalitions of p players as Python sets, in the order of a table."""
    return [frozenset(j for j in range(p) if place >> j & 1) for place in range(1 << p)]


def errors_of(worth, p):
    """The table of a game that says what a set of players is worth: worth is taken off the error."""
    return np.array([10.0 - worth(S) for S in sets(p)])


def slack(table):
    return 1e-12 * (1 + np.abs(table).max())


@given(games())
def test_values_are_averages_over_all_orders(table):
    np.testing.assert_allclose(
        game_theory.values(table), coalitions.by_orders(table), rtol=1e-9, atol=10 * slack(table)
    )


def test_values_of_coalitions_that_hold_arrays():
    tables = np.random.default_rng(0).normal(size=(16, 3, 2))
    found = game_theory.values(tables)
    assert found.shape == (4, 3, 2)
    for a in range(3):
        for b in range(2):
            np.testing.assert_allclose(found[:, a, b], game_theory.values(tables[:, a, b]), rtol=1e-12)


@given(games())
def test_values_sum_to_what_all_players_take_off(table):
    assert game_theory.values(table).sum() == pytest.approx(table[0] - table[-1], abs=100 * slack(table))


@given(games(least=2))
def test_players_in_the_same_role_have_the_same_value(table):
    """The mean of a game and the game with players 0 and 1 exchanged treats them alike."""
    places = np.arange(len(table))
    first, second = places & 1, places >> 1 & 1
    exchanged = table[places & ~3 | first << 1 | second]
    found = game_theory.values(table + exchanged)
    assert found[0] == pytest.approx(found[1], abs=100 * slack(table))


@given(games(most=4), st.integers(0, 4))
def test_a_dummy_has_exactly_nothing(table, where):
    p = len(table).bit_length() - 1
    where = min(where, p)
    pairs = table.reshape(-1, 1 << where)
    with_dummy = np.stack([pairs, pairs], axis=1).ravel()
    found = game_theory.values(with_dummy)
    assert found[where] == 0.0
    np.testing.assert_allclose(np.delete(found, where), game_theory.values(table), rtol=1e-9, atol=100 * slack(table))


@given(games(least=3, most=3), games(least=3, most=3), NUMBERS)
def test_values_and_interactions_are_linear(one, other, times):
    both = one + times * other
    bound = 1000 * (slack(one) + abs(times) * slack(other))
    for answer in (game_theory.values, game_theory.interactions):
        np.testing.assert_allclose(answer(both), answer(one) + times * answer(other), rtol=1e-9, atol=bound)


@pytest.mark.parametrize("p", [1, 2, 4, 6])
def test_a_constant_game_is_worth_nothing_to_anybody(p):
    assert (game_theory.values(np.full(1 << p, 0.1)) == 0.0).all()


@pytest.mark.parametrize("carriers", [{0}, {1, 3}, {0, 2, 4}, {0, 1, 2, 3, 4}], ids=str)
def test_unanimity_games(carriers):
    """1 for who has all of T: whoever of T comes last earns it, each as often, so 1/|T| each and 0 for the others.

    The pair index of T's Moebius term is 1/(|T| - 1): the term is an |T| - 1 player unanimity game of the joined pair.
    """
    table = errors_of(lambda S: float(carriers <= S), 5)
    expected = [1 / len(carriers) if j in carriers else 0.0 for j in range(5)]
    np.testing.assert_allclose(game_theory.values(table), expected, atol=1e-12)
    index = game_theory.interactions(table)
    for j, k in combinations(range(5), 2):
        both = {j, k} <= carriers
        assert index[j, k] == pytest.approx(1 / (len(carriers) - 1) if both else 0.0, abs=1e-12)


def test_the_airport_game():
    """A runway costs what its largest aircraft needs; each metre is shared by those who need it (Littlechild 1973).

    Needs 1, 3, 3, 6, 10: the first metre is shared by 5, the next two by 4, the next three by 2, the last four by 1.
    """
    needs = [1, 3, 3, 6, 10]
    table = errors_of(lambda S: float(max((needs[j] for j in S), default=0)), 5)
    expected = [1 / 5, 1 / 5 + 2 / 4, 1 / 5 + 2 / 4, 1 / 5 + 2 / 4 + 3 / 2, 1 / 5 + 2 / 4 + 3 / 2 + 4]
    np.testing.assert_allclose(game_theory.values(table), expected, rtol=1e-12)


def test_the_glove_game():
    """One left glove, two right ones; a pair is worth 1: the left one is pivotal unless it comes first, 2/3."""
    table = errors_of(lambda S: float(0 in S and len(S) > 1), 3)
    np.testing.assert_allclose(game_theory.values(table), [2 / 3, 1 / 6, 1 / 6], rtol=1e-12)


@pytest.mark.parametrize("p", range(1, 9))
def test_weights_are_shares_of_the_orders(p):
    """(p - 1 choose s) coalitions of s others, each met in s! (p - s - 1)! of p! orders: together every order once."""
    found = game_theory.weights(p)
    np.testing.assert_allclose(found, [factorial(s) * factorial(p - s - 1) / factorial(p) for s in range(p)])
    counts = [factorial(p - 1) / factorial(s) / factorial(p - 1 - s) for s in range(p)]
    assert found @ counts == pytest.approx(1)


@given(games())
def test_coefficients_add_up_to_the_values(table):
    p = len(table).bit_length() - 1
    found = game_theory.coefficients(game_theory.members(p, np.arange(1 << p)))
    np.testing.assert_allclose(table @ found, game_theory.values(table), rtol=1e-9, atol=1000 * slack(table))
    np.testing.assert_allclose(found.sum(axis=0), 0.0, atol=1e-12)


def test_members_are_the_bits_of_a_place():
    assert game_theory.members(3, np.array([0, 1, 6])).tolist() == [
        [False] * 3,
        [True, False, False],
        [False, True, True],
    ]


# Interactions.


@given(games())
def test_interactions_are_those_of_the_definition(table):
    found = game_theory.interactions(table)
    np.testing.assert_allclose(found, coalitions.interactions(table), rtol=1e-9, atol=1000 * slack(table))
    np.testing.assert_array_equal(found, found.T)
    assert (np.diag(found) == 0).all()


def two_additive(seed, p):
    """Worth a_j for each player, and b_jk for each two: (table, a, b)."""
    rng = np.random.default_rng(seed)
    alone, pairs = rng.normal(size=p), np.triu(rng.normal(size=(p, p)), 1)
    table = errors_of(lambda S: sum(alone[j] for j in S) + sum(pairs[j, k] for j in S for k in S), p)
    return table, alone, pairs + pairs.T


@pytest.mark.parametrize("p", [2, 3, 5])
def test_games_of_pairs_have_their_pairs_as_interactions(p):
    """A pair's worth is shared equally: value_j = a_j + sum_k b_jk / 2, and nothing but b_jk interacts."""
    table, alone, pairs = two_additive(p, p)
    np.testing.assert_allclose(game_theory.interactions(table), pairs, atol=1e-12)
    np.testing.assert_allclose(game_theory.values(table), alone + pairs.sum(axis=1) / 2, atol=1e-12)


def test_a_dummy_interacts_with_nobody_to_the_last_bit():
    table = np.random.default_rng(0).normal(size=16)
    with_dummy = np.stack([table.reshape(-1, 2), table.reshape(-1, 2)], axis=1).ravel()
    assert (game_theory.interactions(with_dummy)[1] == 0.0).all()


# Orders.


@pytest.mark.parametrize("p", [1, 2, 3, 7])
def test_on_a_circle_everybody_is_in_every_place_twice(p):
    orders = game_theory.circle(p, np.random.default_rng(p))
    assert orders.shape == (2 * p, p)
    for t in range(p):
        assert (np.bincount(orders[:, t], minlength=p) == 2).all()
    place = np.argsort(orders, axis=1)
    for j, k in combinations(range(p), 2):
        assert (place[:, j] < place[:, k]).sum() == p


@pytest.mark.parametrize("p", [1, 2, 3, 6])
def test_a_circle_solves_games_of_pairs(p):
    table = two_additive(10 + p, p)[0]
    orders = game_theory.circle(p, np.random.default_rng(p))
    errors = table[game_theory.coalitions_along(orders) @ (1 << np.arange(p))]
    np.testing.assert_allclose(game_theory.along(orders, errors).mean(axis=0), game_theory.values(table), atol=1e-12)


def test_circles_are_unbiased():
    """The mean over all circles is the mean over all orders: 400 random ones come within 5 standard errors."""
    table = np.random.default_rng(3).normal(size=32)
    rng = np.random.default_rng(4)
    rounds = []
    for _ in range(400):
        orders = game_theory.circle(5, rng)
        rounds.append(
            game_theory.along(orders, table[game_theory.coalitions_along(orders) @ (1 << np.arange(5))]).mean(axis=0)
        )
    error = np.std(rounds, axis=0, ddof=1) / 20
    assert (np.abs(np.mean(rounds, axis=0) - game_theory.values(table)) < 5 * error).all()


def test_coalitions_grow_along_an_order():
    met = game_theory.coalitions_along(np.array([[2, 0, 1]]))
    assert met.tolist() == [[[False] * 3, [False, False, True], [True, False, True], [True, True, True]]]


def test_along_an_order_each_player_takes_off_its_step():
    orders, errors = np.array([[2, 0, 1], [0, 1, 2]]), np.array([[9.0, 5.0, 4.0, 1.0], [9.0, 8.0, 6.0, 1.0]])
    assert game_theory.along(orders, errors).tolist() == [[1.0, 3.0, 4.0], [1.0, 2.0, 5.0]]


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_shares_along_any_orders_sum_to_the_whole(p, seed):
    rng = np.random.default_rng(seed)
    orders, table = game_theory.random_orders(6, p, rng), rng.normal(size=1 << p)
    assert (np.sort(orders, axis=1) == np.arange(p)).all()
    errors = table[game_theory.coalitions_along(orders) @ (1 << np.arange(p))]
    np.testing.assert_allclose(game_theory.along(orders, errors).sum(axis=1), table[0] - table[-1], atol=1e-12)


def test_random_orders_are_all_as_likely():
    """Chi-square of 6,000 draws over the 6 orders of three: 20.5 is passed by chance once in a thousand."""
    orders = game_theory.random_orders(6000, 3, np.random.default_rng(0)) @ [9, 3, 1]
    counts = np.unique(orders, return_counts=True)[1]
    assert len(counts) == 6
    assert ((counts - 1000) ** 2 / 1000).sum() < 20.5
