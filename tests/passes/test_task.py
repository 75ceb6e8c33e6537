"""The arguments that verbs share are checked once, wherever they go from there."""

import inspect
from dataclasses import fields, replace

import numpy as np
import pytest

import losslens as ll
from losslens.passes.task import Options, picked


def test_options_hold_arguments_under_their_names():
    """All but limits, which the arguments `budget` and `precision` state together."""
    takes = inspect.signature(ll.feature_importance).parameters
    for field in fields(Options):
        if field.name != "limits":
            assert takes[field.name].default == field.default


def test_a_copy_has_the_same_seed():
    """Also where nobody named one, and where a generator would go on drawing."""
    for random_state in (None, 3, np.random.default_rng(0), np.random.RandomState(0)):
        first = Options(random_state=random_state)
        assert isinstance(first.random_state, int)
        assert replace(first, features="a").random_state == first.random_state


def test_memory_is_a_number_of_bytes():
    assert Options(memory="2 kB").memory == replace(Options(memory="2 kB"), donors="all").memory == 2000


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"n_jobs": 0}, "n_jobs"),
        ({"progress": "yes"}, "progress"),
        ({"memory": "much"}, "memory"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_what_needs_no_table_is_checked_at_once(wrong, says):
    with pytest.raises(ValueError, match=says):
        Options(**wrong)


def test_of_a_verbs_arguments_those_that_are_shared_are_picked():
    found = picked(Options, {"features": "a", "n_jobs": 2, "loss": "squared_error"})
    assert (found.features, found.n_jobs, found.donors) == ("a", 2, "auto")


# The first rows that a function predicts.

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
LABELS = (X[:, 0] + RNG.normal(size=300) > 0).astype(int)


def with_constant(X):
    """As statsmodels' `add_constant`: a column of ones, unless one is constant already."""
    return X if (np.ptp(X, axis=0) == 0).any() else np.column_stack([np.ones(len(X)), X])


def probability(X):
    return 1 / (1 + np.exp(-with_constant(X) @ np.array([0.5, 1.0, 0.0])))


def test_a_function_that_adds_a_constant_is_asked_for_several_rows():
    """One row alone has constant columns only. The oracle is the same function with a constant in any case."""
    expected = ll.feature_importance(
        lambda X: 1 / (1 + np.exp(-0.5 - X[:, 0])), X, LABELS, loss="log_loss", donors=ll.Latin(5), random_state=0
    )
    found = ll.feature_importance(probability, X, LABELS, loss="log_loss", donors=ll.Latin(5), random_state=0)
    np.testing.assert_allclose(found["x0"].pfi, expected["x0"].pfi, rtol=1e-12)
    assert found["x0"].pfi > 0.1


def test_a_sorted_column_is_not_constant_among_the_first_rows():
    """The rows come from the whole table: the first 64 have one value here."""
    by_place = np.column_stack([np.repeat([0.0, 1.0], 150), X[:, 1]])
    assert ll.feature_importance(probability, by_place, LABELS, loss="brier", donors=ll.Latin(5))["x1"].pfi == 0


@pytest.mark.parametrize(("raised", "kind"), [(ValueError, ValueError), (ZeroDivisionError, RuntimeError)])
def test_a_model_that_fails_on_the_first_rows_is_told_which_rows(raised, kind):
    def fails(X):
        raise raised("shapes not aligned")

    says = "the model was first asked for 64 rows of X, to see how many classes it has, and failed: .*not aligned"
    with pytest.raises(kind, match=says):
        ll.feature_importance(fails, X, LABELS, loss="log_loss")


@pytest.mark.parametrize("design", [ll.Latin(21), ll.Grid(21), ll.Systematic(21), ll.Derangements(20)], ids=repr)
def test_more_donors_than_there_are_rows_are_refused_before_anything_is_predicted(design):
    def never(X):
        raise AssertionError("the model was asked")

    table = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=rf"asks for {design.m} donors, but 20 rows have only"):
        ll.feature_importance(never, table, np.arange(20.0), loss="squared_error", donors=design)
