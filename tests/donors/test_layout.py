"""Who met whom, and what each cell weighs, by hand."""

import numpy as np
import pytest

from few_rows import CODES, EVERY, MET, WEIGHT, N, everybody, sample
from losslens.donors.layout import CommonGrid, OwnDonors

# What each cell weighs.


def test_a_value_weighs_what_its_donors_weigh():
    np.testing.assert_allclose(everybody().weights(sample(WEIGHT), EVERY), [[0.1, 0.5, 0.4]])


def test_a_row_lends_nothing_to_itself_in_a_u_statistic():
    expected = [[0, 0.5, 0.4], [0.1, 0.3, 0.4], [0.1, 0.2, 0.4], [0.1, 0.5, 0]]
    np.testing.assert_allclose(everybody(leaves_out_own=True).weights(sample(WEIGHT), EVERY), expected)


def test_a_group_lends_nothing_to_its_rows():
    block = np.array([0, 0, 1, 1])
    expected = [[0, 0.3, 0.4], [0, 0.3, 0.4], [0.1, 0.2, 0], [0.1, 0.2, 0]]
    np.testing.assert_allclose(everybody().weights(sample(WEIGHT, block), EVERY), expected)
    found = OwnDonors(MET, CODES, 3).weights(sample(WEIGHT, block), EVERY)
    np.testing.assert_allclose(found, [[0, 0.4], [0, 0.3], [0, 0.1], [0, 0.2]])


def test_what_rounding_leaves_of_a_value_is_nothing():
    """0.1 + 0.2 + 0.3 less 0.6 is not exactly zero in floating point."""
    weight = np.array([0.1, 0.2, 0.3, 0.4])
    one_value = CommonGrid(np.array([0, 0, 0, 1]), EVERY, 2)
    left = one_value.weights(sample(weight, np.array([0, 0, 0, 1])), EVERY)
    assert np.all(left[:3, 0] == 0)


def test_a_cell_that_is_left_out_weighs_nothing():
    met = MET.copy()
    met[0, 1] = -1
    found = OwnDonors(met, CODES, 3).weights(sample(WEIGHT), EVERY)
    np.testing.assert_allclose(found, [[0.2, 0], [0.1, 0.3], [0.4, 0.1], [0.3, 0.2]])


def test_values_of_the_users_own_have_no_mass():
    assert everybody().has_mass
    assert not CommonGrid(np.full(N, -1), np.empty(0, np.intp), 3).has_mass


# Subsets.


def test_a_subset_of_a_table_keeps_the_values_of_its_own_rows():
    layout, kept = everybody().subset(np.array([1, 3]))
    np.testing.assert_array_equal(kept, [1, 2])
    np.testing.assert_array_equal(layout.own, [0, 1])
    np.testing.assert_array_equal(layout.donors, [0, 1])
    assert layout.size == 2


def test_a_subset_of_single_meetings_leaves_out_the_donors_outside():
    layout, kept = OwnDonors(MET, CODES, 3).subset(np.array([1, 2, 3]))
    np.testing.assert_array_equal(layout.donors, [[-1, 1], [2, -1], [1, 0]])
    np.testing.assert_array_equal(kept, [0, 1, 2])
    fewer = layout.keep(np.array([1, 2]))
    assert fewer.size == 2
    assert fewer.places(np.array([1]))[0, 0] == 1  # the donor holds value 2, now the second


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal weights", "weighted"])
@pytest.mark.parametrize("block", [None, np.array([0, 1, 1, 2])], ids=["rows", "groups"])
@pytest.mark.parametrize("leaves_out_own", [False, True])
def test_the_mass_of_values_is_the_sum_over_rows_without_going_through_them(weight, block, leaves_out_own):
    """``sum over i of w_i weights[i, v]``: every row's own group holds back what it lends itself."""
    grid, of = everybody(leaves_out_own=leaves_out_own), sample(weight, block)
    for rows in (EVERY, np.array([0, 3]), np.array([1, 2]), np.array([0])):
        lent = np.broadcast_to(grid.weights(of, rows), (len(rows), grid.size))
        np.testing.assert_allclose(grid.value_mass(of, rows), of.weight[rows] @ lent, atol=1e-15)
