"""The matrix of cells by hand: who met whom, what counts, and running means."""

import numpy as np
import pytest

from losslens import losses
from losslens.cells import Averages, Cells, Common, PerRow, Sample, chunks, curves, lose, means

N = 4
WEIGHT = np.array([0.1, 0.2, 0.3, 0.4])
EVERY = np.arange(N)
CODES = np.array([0, 1, 1, 2])  # rows 1 and 2 share a value


def sample(weight=None, block=None):
    weight = np.full(N, 0.25) if weight is None else weight
    return Sample(weight, np.zeros(N), y=np.zeros(N), loss=np.zeros(N), block=block)


def everybody(leaves_out_own=False):
    return Common(CODES, EVERY, 3, leaves_out_own)


MET = np.array([[1, 3], [0, 2], [3, 0], [2, 1]], np.int32)
CHANGES = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])


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
    found = PerRow(MET, CODES, 3).weights(sample(WEIGHT, block), EVERY)
    np.testing.assert_allclose(found, [[0, 0.4], [0, 0.3], [0, 0.1], [0, 0.2]])


def test_what_rounding_leaves_of_a_value_is_nothing():
    """0.1 + 0.2 + 0.3 less 0.6 is not exactly zero in floating point."""
    weight = np.array([0.1, 0.2, 0.3, 0.4])
    one_value = Common(np.array([0, 0, 0, 1]), EVERY, 2)
    left = one_value.weights(sample(weight, np.array([0, 0, 0, 1])), EVERY)
    assert np.all(left[:3, 0] == 0)


def test_a_cell_that_is_left_out_weighs_nothing():
    met = MET.copy()
    met[0, 1] = -1
    found = PerRow(met, CODES, 3).weights(sample(WEIGHT), EVERY)
    np.testing.assert_allclose(found, [[0.2, 0], [0.1, 0.3], [0.4, 0.1], [0.3, 0.2]])


def test_values_of_the_users_own_have_no_mass():
    assert everybody().has_mass
    assert not Common(np.full(N, -1), np.empty(0, np.intp), 3).has_mass


# Means.


def test_means_of_cells_of_ones_own():
    """Row means of CHANGES, values 0, 1, 2 by the donors' codes, all by hand."""
    found = means(Cells(EVERY, CHANGES, CHANGES), PerRow(MET, CODES, 3), sample())
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


@pytest.mark.parametrize("meeting", [everybody(), everybody(leaves_out_own=True), PerRow(MET, CODES, 3)])
@pytest.mark.parametrize("block", [None, np.array([0, 1, 1, 2])])
def test_means_do_not_depend_on_how_the_rows_come_in(meeting, block):
    values = np.random.default_rng(0).normal(size=(N, meeting.width))
    at_once = means(Cells(EVERY, values, values), meeting, sample(WEIGHT, block))
    running = Averages(meeting, sample(WEIGHT, block))
    for rows in (np.array([2, 0]), np.array([3]), np.array([1])):
        running.add(rows, values[rows], values[rows])
    in_parts = running.finish(EVERY)
    for name in ("local", "mass", "pi", "weights", "pd"):
        np.testing.assert_allclose(getattr(in_parts, name), getattr(at_once, name), err_msg=name)


def test_a_row_that_met_nobody_has_no_local_importance_and_no_say():
    met = MET.copy()
    met[0] = -1
    found = means(Cells(EVERY, CHANGES, CHANGES), PerRow(met, CODES, 3), sample())
    assert np.isnan(found.local[0])
    assert found.pfi == CHANGES[1:].mean()


def test_means_without_a_loss_have_no_number():
    found = means(Cells(EVERY, CHANGES), PerRow(MET, CODES, 3), sample())
    assert found.local is None
    np.testing.assert_allclose(found.pd, [4.5, 5, 3.5])
    with pytest.raises(ValueError, match="no loss"):
        found.pfi  # noqa: B018


def test_probabilities_of_several_classes_average_by_class():
    probabilities = np.random.default_rng(1).dirichlet(np.ones(3), size=(N, 2))
    found = means(Cells(EVERY, probabilities), PerRow(MET, CODES, 3), sample())
    assert found.pd.shape == (3, 3)
    for k in range(3):
        alone = means(Cells(EVERY, probabilities[..., k]), PerRow(MET, CODES, 3), sample())
        np.testing.assert_allclose(found.pd[:, k], alone.pd)


def test_cells_at_the_clipping_bound_are_counted_by_weight():
    at_bound = np.array([[9.0, 0.0], [0.0, 0.0], [0.0, 9.0], [0.0, 0.0]])
    found = means(Cells(EVERY, at_bound, at_bound), PerRow(MET, CODES, 3), sample(), ceiling=9.0)
    assert found.clipped == 2 / 8


# Curves of single rows.


def test_a_curve_is_nan_where_the_row_met_no_donor_and_the_mean_where_it_met_two():
    found = curves(CHANGES, PerRow(MET, CODES, 3), sample(), EVERY)
    expected = [[np.nan, 1, 2], [3, 4, np.nan], [6, np.nan, 5], [np.nan, 7.5, np.nan]]
    np.testing.assert_allclose(found, expected)


def test_rank_bins_are_columns():
    binned = PerRow(MET, np.array([0, 1]), 2, binned=True)
    np.testing.assert_allclose(curves(CHANGES, binned, sample(), EVERY), CHANGES)
    np.testing.assert_allclose(means(Cells(EVERY, CHANGES, CHANGES), binned, sample()).pi, [4, 5])


# Subsets.


def test_a_subset_of_a_table_keeps_the_values_of_its_own_rows():
    meeting, kept = everybody().subset(np.array([1, 3]))
    np.testing.assert_array_equal(kept, [1, 2])
    np.testing.assert_array_equal(meeting.own, [0, 1])
    np.testing.assert_array_equal(meeting.donors, [0, 1])
    assert meeting.size == 2


def test_a_subset_of_single_meetings_leaves_out_the_donors_outside():
    meeting, kept = PerRow(MET, CODES, 3).subset(np.array([1, 2, 3]))
    np.testing.assert_array_equal(meeting.donors, [[-1, 1], [2, -1], [1, 0]])
    np.testing.assert_array_equal(kept, [0, 1, 2])
    fewer = meeting.keep(np.array([1, 2]))
    assert fewer.size == 2
    assert fewer.places(np.array([1]))[0, 0] == 1  # the donor holds value 2, now the second


# The sample.


def test_rows_of_a_sample_are_a_sample_whose_weights_sum_to_one():
    part = sample(WEIGHT, np.array([0, 1, 1, 2])).at(np.array([1, 3]))
    np.testing.assert_allclose(part.weight, [1 / 3, 2 / 3])
    np.testing.assert_array_equal(part.block, [1, 2])
    assert part.n == 2


def test_rows_without_weight_are_no_sample():
    with pytest.raises(ValueError, match="weight zero"):
        sample(np.array([0, 0, 0.5, 0.5])).at(np.array([0, 1]))


def test_changes_are_losses_less_the_loss_of_the_unchanged_row():
    judged = Sample(np.full(2, 0.5), np.array([1.0, 3.0]), y=np.array([0.0, 1.0])).with_loss(losses.squared_error)
    assert judged.error == (1 + 4) / 2
    found = lose(losses.squared_error, judged, np.arange(2), np.array([[1.0, 2.0], [0.0, 3.0]]))
    np.testing.assert_allclose(found, [[0, 3], [-3, 0]])


def test_a_custom_loss_sees_labels_and_a_named_one_class_positions():
    seen = []

    def wrong(y, label):
        seen.append((list(y), list(label)))
        return (y != label).astype(float)

    words = Sample(np.full(2, 0.5), np.array([0, -1]), y=np.array([1, 0]), classes=np.array(["no", "yes"]))
    mine = losses.pointwise(wrong, reads="labels")
    np.testing.assert_array_equal(words.with_loss(mine).loss, [1, 1])
    assert seen == [(["yes", "no"], ["no", None])]  # -1: a label that is no class of y
    np.testing.assert_array_equal(words.target(losses.zero_one), [1, 0])


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (7, 10**6), (1000, 1000), (3, 1)])
def test_chunks_cover_every_row_once(rows, width):
    parts = [np.arange(rows)[part] for part in chunks(np.arange(rows), width)]
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(rows))
    assert all(len(part) == 1 or len(part) * width <= 2**18 for part in parts)
