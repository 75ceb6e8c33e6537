"""A small survival model with the methods of scikit-survival, and data that follow it."""

import numpy as np
from sklearn.base import BaseEstimator


class StepFunction:
    """As scikit-survival's: right-continuous, before its first time the value there, after its last time an error."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __call__(self, times):
        if np.max(times) > self.x[-1]:
            raise ValueError(f"x must be within [0; {self.x[-1]:f}]")
        return self.y[np.maximum(np.searchsorted(self.x, times, side="right") - 1, 0)]


class Weibull(BaseEstimator):
    """S(t | x) = exp(-(t/10)^2 exp(x b)), known at `unique_times_`."""

    def __init__(self, b, unique_times=None):
        self.b, self.unique_times = b, unique_times
        self.unique_times_ = np.linspace(0.5, 30, 60) if unique_times is None else unique_times

    def fit(self, X, y):
        """Nothing is estimated: the coefficients are given."""
        return self

    def predict(self, X):
        """The risk: large where events come early."""
        return np.asarray(X) @ np.asarray(self.b)

    def predict_survival_function(self, X, return_array=False):
        hazard = (self.unique_times_ / 10) ** 2
        curves = np.exp(-np.exp(self.predict(X))[:, None] * hazard)
        return curves if return_array else [StepFunction(self.unique_times_, curve) for curve in curves]

    def score(self, X, y):
        """The concordance index."""
        return concordance(y["event"], y["time"], self.predict(X))


def concordance(event, time, risk):
    """The share of pairs, a row with an event and one observed longer, where the first has the larger risk."""
    pairs = event[:, None] & (time[:, None] < time)
    larger = (risk[:, None] > risk) + 0.5 * (risk[:, None] == risk)
    return float(larger[pairs].mean())


def censored_rows(n, b=(1.0, 0.5, 0.0), rounded=True, seed=0):
    """X, and y as scikit-survival has it: events as `Weibull` has them, censored at random; times with ties."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(b)))
    event = 10 * np.sqrt(rng.exponential(size=n) / np.exp(X @ np.asarray(b)))
    censoring = rng.uniform(2, 25, n)
    time = np.minimum(event, censoring)
    y = np.empty(n, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = event <= censoring, np.ceil(time) if rounded else time
    return X, y
