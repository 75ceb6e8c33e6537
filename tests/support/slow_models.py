"""A clock that only models advance, and models that take long by it."""

import numpy as np
import pytest

from losslens.passes import allowance

SLOPES = np.array([3.0, 2.0, 1.5, 1.0, 0.8, 0.3, 0.0])


class Clock:
    """Seconds, which pass in models and in pauses."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(allowance, "clock", clock)
    monkeypatch.setattr(allowance, "pause", clock.wait)
    return clock


def linear(X):
    return np.asarray(X, float) @ SLOPES[: X.shape[1]]


def slow(clock, fixed, each, spread=0.0, seed=0, answer=linear):
    """A model whose calls take a fixed time and a time for each row, times a lognormal factor."""
    rng = np.random.default_rng(seed)

    def predict(X):
        clock.wait((fixed + each * len(X)) * np.exp(spread * rng.normal()))
        return answer(X)

    return predict


def rows(n, seed=0, p=7):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, linear(X) + rng.normal(size=n)
