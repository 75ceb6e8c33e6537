"""The rows as the model saw them, and changes of loss."""

import numpy as np
import pytest

from few_rows import WEIGHT, sample
from losslens import losses
from losslens.tables.sample import Sample, chunks, loss_changes

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
    found = loss_changes(losses.squared_error, judged, np.arange(2), np.array([[1.0, 2.0], [0.0, 3.0]]))
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
