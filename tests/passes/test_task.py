"""The arguments that verbs share are checked once, wherever they go from there."""

import inspect
from dataclasses import fields, replace

import numpy as np
import pytest

import losslens as ll
from losslens.passes.task import Options, picked


def test_options_hold_arguments_under_their_names():
    takes = inspect.signature(ll.feature_importance).parameters
    for field in fields(Options):
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
