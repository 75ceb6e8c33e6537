"""Coverage of intervals of survival importances, where censoring weights are estimated and then taken as known.

Bars: those of `benchmarks.coverage`, 92 to 97 % at n = 300 and at least 91 % at n = 100, for the integrated Brier score
and at single times where at least a tenth of the rows had their event.

Three features are 0 or 1 with probability 1/2. Events have the hazard ``exp(beta'x) / 10``, censoring has 1/20, the
model says ``S(t | x) = exp(-t exp(b'x) / 10)``. With s the true survival, the Brier score at t of a prediction S has
the mean ``s (1 - S)^2 + (1 - s) S^2 = s - 2 s S + S^2``, so importances are finite sums over the values of x.

`python -m benchmarks.survival [--quick] [--simulations 1000]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import losslens as ll
from benchmarks.coverage import SIZES, Counted, Line, bar_for, each_end, print_table, simulate, within

Floats = NDArray[np.float64]
TIMES = np.array([1.0, 2.0, 4.0, 6.0, 8.0, 10.0])
MODEL, TRUTH = np.array([1.0, 0.3, 0.2]), np.array([1.0, 0.5, 0.0])
HALVES = np.array([1.0, 3.0, 4.0, 4.0, 4.0, 2.0]) / 18  # the trapezoid rule


def survival(X: Floats, b: Floats) -> Floats:
    """S at each time, (n, K)."""
    return np.exp(-np.exp(X @ b)[:, None] * TIMES / 10)


def truth() -> Floats:
    """The importance of each feature at each time, (3, K)."""
    rows = np.array(list(product((0.0, 1.0), repeat=3)))
    true, found = survival(rows, TRUTH), []
    for j in range(3):
        change = np.zeros(len(TIMES))
        for value in (0.0, 1.0):
            moved = rows.copy()
            moved[:, j] = value
            for sign, curves in ((1, survival(moved, MODEL)), (-1, survival(rows, MODEL))):
                change += sign * (curves**2 - 2 * true * curves).mean(axis=0) / 2
        found.append(change)
    return np.array(found)


def coverage(runs: int) -> Iterator[Line]:
    """The integrated score and single times, with weights from the rows themselves."""
    for n in SIZES:
        for name, held in simulate(partial(_coverage, n), runs).items():
            yield Line("survival", name, n, held, bar_for(n))


def _coverage(n: int, seed: int) -> Counted:
    rng = np.random.default_rng([seed, n])
    X = rng.integers(0, 2, (n, 3)).astype(float)
    event, censored = 10 * rng.exponential(size=n) / np.exp(X @ TRUTH), 20 * rng.exponential(size=n)
    y = np.column_stack([event <= censored, np.minimum(event, censored)])
    loss = ll.losses.brier_survival(TIMES)
    imp = ll.feature_importance(lambda rows: survival(rows, MODEL), X, y, loss=loss, donors="all", progress=False)
    at, names = truth(), ("x0", "x1", "x2")
    found = {"PFI, integrated Brier score": within(each_end([f.interval() for f in imp.values()]), at @ HALVES)}
    for k in (0, 2, 5):
        ends = each_end([imp.outputs[TIMES[k]][name].interval() for name in names])
        found[f"PFI, Brier score at t = {TIMES[k]:g}"] = within(ends, at[:, k])
    return found


PARTS: dict[str, Callable[[int], Iterator[Any]]] = {"coverage": coverage}

if __name__ == "__main__":
    print_table("survival", __doc__, PARTS)
