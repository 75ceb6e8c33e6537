"""How often Shapley importance's intervals and its `precision=` hold what they promise: simulated and counted.

`python -m benchmarks.shapley_coverage --jobs 16`: about five processor minutes; with `--quick` few runs, of which
nothing is held to a bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

import losslens as ll
from benchmarks.lines import Line, run

Floats = NDArray[np.float64]
TRUTH = np.array([3.0, 3.0, 2.0])  # SFIMP of Y = X1 + X2 + X3 + X1 X2 + e, X standard normal, f without e
LOW, HIGH = 0.92, 0.97  # of single intervals
JUDGED = 200  # runs, for a bar to mean something
ROUNDING = 1e-12  # of the whole: a feature that changes nothing has an interval of no width


def additive_and_more(X: Any) -> Floats:
    """Three features that add up, two of which interact."""
    return np.asarray(X[:, 0] + X[:, 1] + X[:, 2] + X[:, 0] * X[:, 1])


def curved(X: Any) -> Floats:
    """Friedman's first function; features after the fifth change nothing."""
    return np.asarray(10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4])


def chances(X: Any) -> Floats:
    """Of two classes."""
    second = 1 / (1 + np.exp(-(curved(X) - 14) / 2))
    return np.stack([1 - second, second], axis=1)


def lines(quick: bool) -> Iterator[Line]:
    """Everything."""
    yield from _fixed_sample(30 if quick else 200)
    yield from _new_samples(60 if quick else 500)


# One sample, many seeds: what was drawn is all that varies.


def _fixed_sample(runs: int) -> Iterator[Line]:
    rng = np.random.default_rng(3)
    X = rng.random((100, 6))
    y = curved(X) + rng.normal(size=100)
    classes = (rng.random(100) < chances(X)[:, 1]).astype(int)
    for function, target, loss in ((curved, y, "squared_error"), (chances, classes, "log_loss")):
        truth = ll.shapley_importance(function, X, target, loss=loss, method="exact", progress=False)
        asked: dict[str, Any] = {"loss": loss, "method": "walk", "progress": False}
        for precision in (0.05, 0.02):
            found = _runs(partial(_walk, function, X, target, precision=precision, **asked), runs)
            yield _joint(found, truth, precision)
        for sweeps in (5, 30):
            found = _runs(partial(_walk, function, X, target, budget=100 + 500 * sweeps, **asked), runs)
            yield _about_sample(found, truth, sweeps)


def _runs(run: Callable[[int], Any], number: int) -> list[Any]:
    """A run for each seed, in several processes if so asked."""
    return list(Parallel()(delayed(run)(seed) for seed in range(number)))


def _walk(function: Any, X: Floats, y: NDArray[Any], seed: int, **asked: Any) -> Any:
    return ll.shapley_importance(function, X, y, random_state=seed, **asked)


def _joint(found: list[Any], truth: Any, precision: float) -> Line:
    """All features within what was asked for, together."""
    width = precision * abs(truth.error_none - truth.error_all)
    worst = [float(np.abs(one.sfimp - truth.sfimp).max()) for one in found]
    held = float(np.mean([gap <= width for gap in worst]))
    asked = float(np.mean([one.n_predictions for one in found]))
    note = f"{len(found)} runs, {asked:,.0f} predictions on average; farthest {max(worst) / width:.2f} of the width"
    return Line(
        f"{truth.loss.name}, n = 100, p = 6: precision={precision}",
        "all features together",
        held,
        0.95,
        note,
        at_least=True,
    )


def _about_sample(found: list[Any], truth: Any, sweeps: int) -> Line:
    slack = ROUNDING * abs(truth.error_none - truth.error_all)
    held = [_held(one.interval(target="sample"), truth.sfimp, slack) for one in found]
    work = f"{truth.loss.name}, n = 100, p = 6: {sweeps} sweeps"
    return _single(held, work, "interval(target='sample')", slice(0, 5))


def _held(ends: tuple[Floats, Floats], truth: Floats, slack: float = 0.0) -> NDArray[np.bool_]:
    return np.asarray((ends[0] - slack <= truth) & (truth <= ends[1] + slack))


def _single(held: list[Any], work: str, against: str, used: slice, low: float = LOW) -> Line:
    """The mean over features is held to the bar, and every one of them, give or take two errors of the simulation."""
    each = np.mean(held, axis=0)[used]
    noise = float(np.sqrt(0.95 * 0.05 / len(held)))
    shown = " ".join(f"{value:.3f}" for value in each)
    value = float(each.mean())
    if low <= value <= HIGH and not (low - 2 * noise <= each.min() and each.max() <= HIGH + 2 * noise):
        value = float(each.min() if each.min() < low - 2 * noise else each.max())
    bar = HIGH if len(held) >= JUDGED else None
    return Line(work, against, value, bar, f"{len(held)} runs; each: {shown} (± {noise:.3f})", low=low)


# New samples from a known distribution: rows and donors vary, too.


def _new_samples(runs: int) -> Iterator[Line]:
    for n in (100, 300):
        ways: dict[str, dict[str, Any]] = {
            "exact": {"method": "exact"},
            "walk, by its own rule": {"method": "walk"},
            "walk, 3 sweeps": {"method": "walk", "budget": n + 3 * n * 2},
            "walk, 5 sweeps": {"method": "walk", "budget": n + 5 * n * 2},
        }
        for words, asked in ways.items():
            held = [_held(one.interval(), TRUTH) for one in _runs(partial(_drawn, n, asked), runs)]
            low = 0.91 if n == 100 else LOW
            yield _single(held, f"Y = X1 + X2 + X3 + X1 X2 + e, n = {n}: {words}", "interval()", slice(None), low)


def _drawn(n: int, asked: dict[str, Any], seed: int) -> Any:
    rng = np.random.default_rng([seed, n])
    X = rng.normal(size=(n, 3))
    y = additive_and_more(X) + rng.normal(size=n)
    return ll.shapley_importance(
        additive_and_more, X, y, loss="squared_error", random_state=seed, progress=False, **asked
    )


if __name__ == "__main__":
    run("benchmarks.shapley_coverage", __doc__, {1: lines}, {1})
