"""The matrix of cells and its running means, by hand."""

import numpy as np
import pytest

import losslens as ll
from few_rows import CHANGES, CODES, EVERY, MET, WEIGHT, N, everybody, sample
from losslens.cells.matrix import Averages, Cells, curves, means, shares
from losslens.donors.layout import OwnDonors

# Means.


def test_means_of_cells_of_ones_own():
    """Row means of CHANGES, values 0, 1, 2 by the donors' codes, all by hand."""
    found = means(Cells(EVERY, CHANGES, CHANGES), OwnDonors(MET, CODES, 3), sample())
    np.testing.assert_allclose(found.local, [1.5, 3.5, 5.5, 7.5])
    np.testing.assert_allclose(found.pi, [(3 + 6) / 2, (1 + 4 + 7 + 8) / 4, (2 + 5) / 2])
    np.testing.assert_allclose(found.weights, [2 / 8, 4 / 8, 2 / 8])
    np.testing.assert_allclose(found.pd, found.pi)
    assert found.pfi == 4.5
    np.testing.assert_allclose(found.caused, [4.5, (1 + 8) / 2, (4 + 7) / 2, 3.5])
    assert found.square == np.mean(CHANGES**2)


def test_means_on_a_common_grid():
    changes = np.arange(12.0).reshape(4, 3)
    found = means(Cells(EVERY, changes, changes), everybody(), sample(WEIGHT))
    np.testing.assert_allclose(found.local, changes @ [0.1, 0.5, 0.4])
    np.testing.assert_allclose(found.pi, WEIGHT @ changes)
    np.testing.assert_allclose(found.pfi, WEIGHT @ changes @ [0.1, 0.5, 0.4])


@pytest.mark.parametrize("layout", [everybody(), everybody(leaves_out_own=True), OwnDonors(MET, CODES, 3)])
@pytest.mark.parametrize("block", [None, np.array([0, 1, 1, 2])])
def test_means_do_not_depend_on_how_the_rows_come_in(layout, block):
    values = np.random.default_rng(0).normal(size=(N, layout.width))
    at_once = means(Cells(EVERY, values, values), layout, sample(WEIGHT, block))
    running = Averages(layout, sample(WEIGHT, block))
    for rows in (np.array([2, 0]), np.array([3]), np.array([1])):
        running.add(rows, values[rows], values[rows])
    in_parts = running.finish(EVERY)
    for name in ("local", "mass", "pi", "weights", "pd"):
        np.testing.assert_allclose(getattr(in_parts, name), getattr(at_once, name), err_msg=name)


def test_a_row_that_met_nobody_has_no_local_importance_and_no_say():
    met = MET.copy()
    met[0] = -1
    found = means(Cells(EVERY, CHANGES, CHANGES), OwnDonors(met, CODES, 3), sample())
    assert np.isnan(found.local[0])
    assert found.pfi == CHANGES[1:].mean()


def test_means_without_a_loss_have_no_number():
    found = means(Cells(EVERY, CHANGES), OwnDonors(MET, CODES, 3), sample())
    assert found.local is None
    np.testing.assert_allclose(found.pd, [4.5, 5, 3.5])
    with pytest.raises(ValueError, match="computed without y"):
        found.pfi  # noqa: B018


def test_probabilities_of_several_classes_average_by_class():
    probabilities = np.random.default_rng(1).dirichlet(np.ones(3), size=(N, 2))
    found = means(Cells(EVERY, probabilities), OwnDonors(MET, CODES, 3), sample())
    assert found.pd.shape == (3, 3)
    for k in range(3):
        alone = means(Cells(EVERY, probabilities[..., k]), OwnDonors(MET, CODES, 3), sample())
        np.testing.assert_allclose(found.pd[:, k], alone.pd)


def test_cells_at_the_clipping_bound_are_counted_by_weight():
    at_bound = np.array([[9.0, 0.0], [0.0, 0.0], [0.0, 9.0], [0.0, 0.0]])
    found = means(Cells(EVERY, at_bound, at_bound), OwnDonors(MET, CODES, 3), sample(), ceiling=9.0)
    assert found.clipped == 2 / 8


# Curves of single rows.


def test_a_curve_is_nan_where_the_row_met_no_donor_and_the_mean_where_it_met_two():
    found = curves(CHANGES, OwnDonors(MET, CODES, 3), sample(), EVERY)
    expected = [[np.nan, 1, 2], [3, 4, np.nan], [6, np.nan, 5], [np.nan, 7.5, np.nan]]
    np.testing.assert_allclose(found, expected)


def test_rank_bins_are_columns():
    binned = OwnDonors(MET, np.array([0, 1]), 2, binned=True)
    np.testing.assert_allclose(curves(CHANGES, binned, sample(), EVERY), CHANGES)
    np.testing.assert_allclose(means(Cells(EVERY, CHANGES, CHANGES), binned, sample()).pi, [4, 5])


def test_shares_of_cells_at_values_are_counted():
    """Every row meets two donors: 2, 4 and 2 of 8 cells hold the values 0, 1 and 2; of the first two rows half."""
    layout = OwnDonors(MET, CODES, 3)
    np.testing.assert_allclose(shares(layout, sample(), EVERY), [2 / 8, 4 / 8, 2 / 8])
    counts = np.bincount(CODES[MET[:2]].ravel(), minlength=3)
    np.testing.assert_allclose(shares(layout, sample(), EVERY[:2]), counts / 4)


def test_chosen_rows_that_are_as_many_as_values_need_not_have_one_each():
    """Three rows of four, with two of the three values of the feature: PI at a value is over all of its donors."""
    X = np.array([[1.0, 0.5], [2.0, -1.0], [2.0, 0.3], [-1.0, 0.0]])
    importance = ll.feature_importance(
        lambda X: X[:, 0] * X[:, 1], X, X[:, 1], loss="squared_error", features="x0", donors=ll.Latin(3), progress=False
    )
    part = importance["x0"].subset([0, 1, 2])
    np.testing.assert_allclose(np.nansum(part.pi * part.weights), part.pfi, rtol=1e-12)
    assert np.isfinite(part.pi[part.weights > 0]).all()
