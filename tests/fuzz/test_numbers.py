"""A short, fixed run of random models and calls against brute force; `make fuzz` has the long one."""

import numpy as np
from tests.fuzz import numbers
from tests.fuzz.worlds import KINDS


def test_every_number_is_that_of_brute_force():
    tally = numbers.run(seed=1, worlds=len(KINDS))  # one of each kind
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.cases > 3000


def test_a_wrong_number_is_noticed():
    tally = numbers.Tally()
    world = numbers.Checks(0, 0, tally)
    world.check("right", "trees", np.ones(3), np.ones(3) * (1 + 1e-12), 1.0)
    assert not tally.failures
    for found in (np.ones(3) * (1 + 1e-8), np.array([1.0, np.nan, 1.0]), np.ones(2)):
        world.check("wrong", "trees", found, np.ones(3), 1.0)
    assert len(tally.failures) == 3
    assert tally.cases == 4
