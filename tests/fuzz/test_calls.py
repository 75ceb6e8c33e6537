"""A short, fixed run of the fuzzer of calls; `make fuzz` has the long one. And the fuzzer notices what it should."""

import time
import warnings

import numpy as np
import pytest
from tests.fuzz import calls
from tests.fuzz.scenes import scene

import losslens as ll


def test_calls_end_well_or_in_an_error_that_names_the_argument():
    tally = calls.run(seed=0, calls=300)
    assert not tally.findings, "\n".join(map(str, tally.findings))
    assert tally.fine > 150
    assert tally.refused > 40


def noticed(does, monkeypatch):
    """What the fuzzer says of a call that does this inside the library."""

    def verb(model, X):
        return does(X)

    monkeypatch.setattr(calls, "LIBRARY", __file__)
    tally = calls.Tally()
    fuzzer = calls.Fuzzer(0, 0, tally)
    fuzzer.call(scene(np.random.default_rng(0)), "verb", verb, {"model": len, "X": 3})
    return [finding.problem for finding in tally.findings]


def refuse(text):
    raise ValueError(text)


@pytest.mark.parametrize(
    ("does", "problem"),
    [
        (lambda X: list(range(X))[X], "internal error: IndexError"),
        (lambda X: X.columns, "internal error: AttributeError"),
        (lambda X: "a" + X, "not raised by the library: TypeError"),
        (lambda X: refuse("something is wrong"), "names no argument"),
        (lambda X: refuse("X: the truth value of an array is ambiguous"), "says how, not what"),
        (lambda X: np.log(np.array([-1.0])), "warned: RuntimeWarning: invalid value"),
        (lambda X: warnings.warn("no", DeprecationWarning, stacklevel=1), "warned: DeprecationWarning"),
    ],
)
def test_what_must_not_happen_is_noticed(does, problem, monkeypatch):
    (found,) = noticed(does, monkeypatch)
    assert found.startswith(problem)


def test_a_call_that_does_not_end_is_noticed(monkeypatch):
    monkeypatch.setattr(calls, "SECONDS", 0.02)
    assert noticed(lambda X: [None for _ in iter(int, 1)], monkeypatch) == ["took longer than 0.02 s"]
    assert noticed(lambda X: time.sleep(30), monkeypatch) == ["took longer than 0.02 s"]


def test_an_error_that_names_the_argument_is_fine(monkeypatch):
    assert noticed(lambda X: refuse(f"X needs rows; got {X}"), monkeypatch) == []


def test_every_public_name_is_called():
    assert set(ll.__all__) == {*calls.VERBS, *calls.MAKERS, "losses", "datasets", "All"}
