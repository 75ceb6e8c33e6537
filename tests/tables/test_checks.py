"""What comes beside the table is checked, and a refusal names the argument, what came and what to do."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslens.losses import resolve as resolve_loss
from losslens.models import as_model
from losslens.tables import checks

SQUARED = resolve_loss("squared_error")
MODEL = as_model(lambda X: X)


# One value for each row.


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3],
        (1, 2, 3),
        np.array([1, 2, 3]),
        np.array([[1], [2], [3]]),
        pd.Series([1, 2, 3], index=[7, 7, 0]),
        pd.DataFrame({"y": [1, 2, 3]}),
        pl.Series([1, 2, 3]),
        pa.chunked_array([[1], [2, 3]]),
    ],
    ids=lambda values: type(values).__name__,
)
def test_one_value_for_each_row_comes_in_any_container(values):
    np.testing.assert_array_equal(checks.vector(values, 3, "y"), [1, 2, 3])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1, 2], "y has 2 values, but X has 3 rows"),
        (np.zeros((3, 2)), r"y needs one value for each row; got shape \(3, 2\)"),
        (5, r"y needs one value for each row; got shape \(\)"),
        ("abc", r"got shape \(\)"),
    ],
)
def test_another_length_or_shape_is_refused(values, words):
    with pytest.raises(ValueError, match=words):
        checks.vector(values, 3, "y")


# y.


@pytest.mark.parametrize(
    "y",
    [
        np.array([0, 1], "int8"),
        np.array([False, True]),
        np.array([0, 1], "float32"),
        np.array([0, 1.0], dtype=object),
        np.asarray(pd.Series([0, 1], dtype="Int64")),
    ],
    ids=lambda y: str(y.dtype),
)
def test_numbers_of_any_type_become_floats(y):
    found = checks.numbers(y, SQUARED)
    assert found.dtype == np.float64
    assert found.tolist() == [0, 1]


@pytest.mark.parametrize("gap", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_numbers_are_refused_with_their_row(gap):
    with pytest.raises(ValueError, match=r"y has 2 missing or infinite values \(the first in row 1\); drop these rows"):
        checks.numbers(np.array([0, gap, gap, 1]), SQUARED)


@pytest.mark.parametrize("gap", [None, pd.NA, np.nan])
def test_missing_objects_are_refused_too(gap):
    with pytest.raises(ValueError, match="y has 1 missing or infinite values"):
        checks.numbers(np.array([0, gap, 1], dtype=object), SQUARED)


@pytest.mark.parametrize(
    "y",
    [
        np.array(["a", "b"]),
        np.array(["a", 1], dtype=object),
        np.array(["2024-01-01", "2024-01-02"], "datetime64[ns]"),
        np.array(["2024-01-01", "2024-01-02"], "datetime64[s]"),
    ],
    ids=["text", "mixed", "nanoseconds", "seconds"],
)
def test_what_is_no_number_is_refused(y):
    with pytest.raises(TypeError, match=r"squared_error needs numbers in y; got .* For classes use 'log_loss'"):
        checks.numbers(y, SQUARED)


def test_integers_that_no_float_can_hold_are_refused():
    with pytest.raises(ValueError, match="y has integers that floats can't hold"):
        checks.numbers(np.array([10**400, 1], dtype=object), SQUARED)


def test_rows_with_labels_are_named_by_them():
    index = pd.Index(["ann", "bob"])
    with pytest.raises(ValueError, match="the first in row bob"):
        checks.numbers(np.array([1, np.nan]), SQUARED, index)
    with pytest.raises(ValueError, match=r"needs every y to be .*, but that of row bob is -1"):
        checks.numbers(np.array([1.0, -1.0]), resolve_loss("poisson_deviance"), index)
    with pytest.raises(ValueError, match=r"y is 1e\+300 in row bob"):
        checks.numbers(np.array([1.0, 1e300]), SQUARED, index)
    with pytest.raises(ValueError, match=r"missing labels \(the first in row bob\)"):
        checks.observed_classes(np.array(["a", None], dtype=object), index)
    with pytest.raises(ValueError, match="row bob has -2"):
        checks.row_weights([1, -2], 2, index)


def test_a_loss_of_ones_own_may_read_words():
    y = np.array(["a", "b"])
    assert checks.numbers(y, resolve_loss(lambda y, f: f, "values")) is y


def test_a_loss_may_be_defined_for_some_targets_alone():
    with pytest.raises(ValueError, match="y"):
        checks.numbers(np.array([-1.0, 1.0]), resolve_loss("poisson_deviance"))


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.array(["b", "a", "b"]), np.array(["a", "b"])),
        (np.array(["b", "a", "b"], dtype=object), np.array(["a", "b"])),
        (np.array([1.0, 0.0, 1.0]), np.array([0, 1])),
        (np.array([True, False, True]), np.array([0, 1])),
    ],
)
def test_labels_become_positions_among_the_classes(y, classes):
    assert checks.class_positions(y, classes, MODEL.name).tolist() == [1, 0, 1]


def test_a_class_that_the_model_has_never_seen_is_refused():
    with pytest.raises(ValueError, match=r"y has the class 'c', which is no class of <lambda>; its classes are \['a'"):
        checks.class_positions(np.array(["a", "c"]), np.array(["a", "b"]), MODEL.name)


def test_the_classes_of_y_are_sorted():
    assert checks.observed_classes(np.array(["b", "a", "b"])).tolist() == ["a", "b"]


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA])
def test_missing_labels_are_refused_with_their_row(gap):
    with pytest.raises(ValueError, match=r"y has 1 missing labels \(the first in row 2\)"):
        checks.observed_classes(np.array(["a", "b", gap], dtype=object))


def test_labels_of_several_types_are_refused():
    with pytest.raises(TypeError, match="y mixes labels of several types"):
        checks.observed_classes(np.array(["a", 1], dtype=object))


# Weights and groups.


@given(st.lists(st.integers(0, 5), min_size=2).filter(lambda w: sum(x > 0 for x in w) > 1))
def test_weights_keep_their_proportions_and_sum_to_one(weights):
    found = checks.row_weights(weights, len(weights))
    assert found.sum() == pytest.approx(1)
    np.testing.assert_allclose(found * sum(weights), weights)


def test_no_weights_are_equal_weights():
    np.testing.assert_array_equal(checks.row_weights(None, 4), [0.25] * 4)


@pytest.mark.parametrize("kind", ["Int64", "Float64", "float32", "bool"])
def test_weights_of_any_numeric_type_will_do(kind):
    np.testing.assert_allclose(checks.row_weights(pd.Series([1, 0, 1], dtype=kind), 3), [0.5, 0, 0.5])


@pytest.mark.parametrize(
    "weights", [[Decimal(1), Decimal(0), Decimal(1)], [1, 0.0, 1.0], [True, False, True], [np.True_, 0, 1]]
)
def test_weights_may_be_objects_that_are_numbers(weights):
    for each in (weights, np.array(weights, dtype=object)):
        np.testing.assert_allclose(checks.row_weights(each, 3), [0.5, 0, 0.5])


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1, Decimal("NaN"), 1], "sample_weight must hold finite numbers"),
        ([1, 2], "sample_weight has 2 values, but X has 3 rows"),
        ([1, -2, 3], "sample_weight must not be negative; row 1 has -2"),
        ([0, 0, 0], "sample_weight must be above zero for at least two rows"),
        ([0, 1, 0], "sample_weight must be above zero for at least two rows"),
        ([1, np.nan, 1], "sample_weight must hold finite numbers"),
        ([1, np.inf, 1], "sample_weight must hold finite numbers"),
        (["a", "b", "c"], "sample_weight must hold finite numbers"),
    ],
)
def test_weights_that_weigh_nothing_are_refused(weights, words):
    with pytest.raises(ValueError, match=words):
        checks.row_weights(weights, 3)


@pytest.mark.parametrize("unit", [1e-300, 1e-150, 1e150, 1e300])
def test_weights_of_any_unit_are_the_same_shares(unit):
    """Their sum would overflow, their squares would be 0."""
    np.testing.assert_allclose(checks.row_weights(np.array([1.0, 2.0, 5.0]) * unit, 3), [0.125, 0.25, 0.625])


def test_weights_too_far_apart_are_refused():
    """A product of the small ones is 0: rows with a weight would count as rows without."""
    with pytest.raises(ValueError, match=r"sample_weight ranges from 1e-300 to 1e\+300"):
        checks.row_weights([1e-300, 1.0, 1e300], 3)
    assert (checks.row_weights([1e-99, 1.0, 0.5], 3)[:2] > 0).all()


def test_one_row_with_a_weight_is_enough_where_nothing_is_replaced_by_other_rows():
    np.testing.assert_array_equal(checks.row_weights([0, 2, 0], 3, least=1), [0, 1, 0])
    with pytest.raises(ValueError, match="sample_weight must be above zero for at least one row"):
        checks.row_weights([0, 0, 0], 3, least=1)


def test_weights_are_not_changed_in_place():
    weights = np.array([1.0, 3.0])
    checks.row_weights(weights, 2)
    assert weights.tolist() == [1, 3]


def test_groups_are_numbered_in_the_order_they_appear():
    assert checks.group_numbers(["b", "a", "b"], 3).tolist() == [0, 1, 0]
    assert checks.group_numbers(np.array([7, 7, 3]), 3).tolist() == [0, 0, 1]
    assert checks.group_numbers(None, 3) is None


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (["a", "a", "a"], "only one group"),
        (["a", None, "b"], "groups has missing labels"),
        ([1.0, np.nan, 2.0], "groups has missing labels"),
        (["a", "b"], "groups has 2 values, but X has 3 rows"),
    ],
)
def test_groups_that_cannot_lend_to_each_other_are_refused(groups, words):
    with pytest.raises(ValueError, match=words):
        checks.group_numbers(groups, 3)


def test_labels_of_groups_that_cannot_be_compared_are_refused():
    with pytest.raises(TypeError, match="groups has labels such as lists, which can't be compared"):
        checks.group_numbers([{}, {}, {}], 3)


# Memory and randomness.


@pytest.mark.parametrize(
    ("memory", "size"),
    [
        ("1 GiB", 2**30),
        ("1GiB", 2**30),
        (" 1.5 gib ", 3 * 2**29),
        ("500 MB", 500_000_000),
        ("2 KiB", 2048),
        ("3 kB", 3000),
        ("12 B", 12),
        ("12", 12),
        (12, 12),
        (np.int64(12), 12),
        (1e9, 10**9),
    ],
)
def test_memory_is_a_size_in_words_or_bytes(memory, size):
    assert checks.memory_bytes(memory) == size


@pytest.mark.parametrize("memory", ["much", "1 XB", "GiB", "1.2.3 GiB", ".", "-1 GiB", "", None, True, "1 GiB 2"])
def test_memory_that_is_no_size_is_refused(memory):
    with pytest.raises(ValueError, match="memory is a size such as '1 GiB'"):
        checks.memory_bytes(memory)


@pytest.mark.parametrize("memory", [0, -5, "0 GiB", "0.0"])
def test_memory_must_be_above_zero(memory):
    with pytest.raises(ValueError, match="memory must be above zero"):
        checks.memory_bytes(memory)


@pytest.mark.parametrize("seed", [0, 7, np.int32(7), 2**70])
def test_a_seed_is_itself(seed):
    assert checks.entropy(seed) == seed


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_gives_a_new_number_each_time_and_the_same_again(make):
    rng = make(3)
    first, second = checks.entropy(rng), checks.entropy(rng)
    assert first != second
    assert [first, second] == [checks.entropy(again) for again in [make(3)] for _ in range(2)]


def test_no_seed_is_another_number_each_time():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - it must stay as it was
    assert len({checks.entropy(None) for _ in range(5)}) == 5
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("seed", [-1, 1.5, "seed", True, np.random])
def test_what_gives_no_randomness_is_refused(seed):
    with pytest.raises(ValueError, match="random_state is None, a whole number from 0 on, or a NumPy generator"):
        checks.entropy(seed)


@pytest.mark.parametrize("value", [np.arange(3), np.array([]), pd.DataFrame(), pl.Series([1]), pd.NA, {}, [None], 2.5])
def test_what_compares_entry_by_entry_is_no_choice(value):
    assert not checks.is_one_of(value, (None, True, "holm"))
    assert checks.is_one_of("holm", (None, "holm"))
    assert checks.is_one_of(None, (None, "holm"))
    with pytest.raises(ValueError, match="progress is True, False, or None"):
        checks.check_workers(None, value)
    with pytest.raises(ValueError, match="shapley is True or False"):
        checks.check_flag(value, "shapley")


def test_lists_of_different_lengths_are_refused_by_name():
    with pytest.raises(ValueError, match="y needs one value for each row; got lists of different lengths"):
        checks.vector([[1], [2, 3]], 2, "y")
