"""Importances within a budget: is the time kept, is the error no larger than by "auto", are settled ranks right?

``python -m benchmarks.budgets [time] [shapley] [sleep] [error] [wide] [ranks]``. Models take seconds by a clock that
only they advance, so that an hour takes moments; `sleep` lets a few of them really sleep.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import losslens as ll
from losslens.passes import allowance

LOSS: dict[str, Any] = {"loss": "squared_error", "progress": False}
PARTS = "time", "shapley", "sleep", "error", "wide", "ranks"


class Clock:
    """Seconds that models take."""

    now = 0.0

    def pass_by(self, seconds: float) -> None:
        """So many seconds later."""
        self.now += seconds


@contextmanager
def virtual() -> Iterator[Clock]:
    """While this is open, time is that of the clock."""
    clock, real = Clock(), (allowance.clock, allowance.pause)
    allowance.clock, allowance.pause = (lambda: clock.now), clock.pass_by
    try:
        yield clock
    finally:
        allowance.clock, allowance.pause = real


def slow(predict: Callable[[Any], Any], wait: Callable[[float], None], fixed: float, each: float, spread: float) -> Any:
    """A model whose calls take this long, times a lognormal factor."""
    rng = np.random.default_rng(0)

    def model(X: Any) -> Any:
        wait((fixed + each * len(X)) * np.exp(spread * rng.normal()))
        return predict(X)

    return model


def data(n: int, p: int, seed: int) -> tuple[Any, Any, Any]:
    """Rows of a model with an interaction, and its targets with noise."""
    rng = np.random.default_rng(seed)
    X, slopes = rng.normal(size=(n, p)), 2 * 0.8 ** np.arange(p)

    def predict(X: Any) -> Any:
        return X @ slopes + X[:, 0] * X[:, 1]

    return X, predict(X) + rng.normal(size=n), predict


def kept(calls: int = 200, verb: Any = ll.feature_importance) -> None:
    """The time of calls with models of 0.1 ms to 1 s a row, and a fixed cost of 0 to 1 s a call."""
    rng, outcomes, shares = np.random.default_rng(1), [], []
    for seed in range(calls):
        n, p = int(rng.integers(200, 5000)), int(rng.integers(3, 15))
        each, fixed = 10 ** rng.uniform(-4, 0), rng.choice([0.0, rng.uniform(0, 1)])
        seconds = int(rng.choice([30, 60, 120, 300, 600]))
        X, y, predict = data(n, p, seed)
        with virtual() as clock:
            model = slow(predict, clock.pass_by, fixed, each, spread=0.1)
            try:
                result = verb(model, X, y, budget=f"{seconds} s", random_state=seed, **LOSS)
                cut = len(result.local) < n or "ended the walks" in repr(result)
                outcome = result.afforded.stopped if hasattr(result, "afforded") else "budget" if cut else "precise"
            except ValueError:  # fewer than ten rows, says the error
                outcome = "refused"
        over = max(0.1 * seconds, 1)
        late, early = clock.now > seconds + over, clock.now < seconds - over
        outcomes.append("late" if late else outcome if outcome != "budget" else "early" if early else "kept")
        shares.append(clock.now / seconds)
    counts = {one: outcomes.count(one) for one in dict.fromkeys(outcomes)}
    print(f"time: {calls} calls of {verb.__name__}: {counts}; longest {max(shares):.3f} of the time")


def of_shares() -> None:
    """The same of Shapley importances."""
    kept(60, ll.shapley_importance)


def slept() -> None:
    """Some calls of models that really sleep."""
    for fixed, each, seconds in ((0, 1e-3, 6), (0.05, 1e-4, 5), (0.2, 1e-3, 8), (0, 1e-2, 6), (0.02, 1e-4, 4)):
        X, y, predict = data(2000, 6, 0)
        began = time.monotonic()
        imp = ll.feature_importance(
            slow(predict, time.sleep, fixed, each, 0.1), X, y, budget=f"{seconds} s", random_state=0, **LOSS
        )
        took = time.monotonic() - began
        print(f"sleep: {fixed} s + {each} s a row: {took:.2f} of {seconds} s; {imp.afforded.sentence}")


def errors(runs: int = 60) -> None:
    """At the predictions that "auto" takes: the error of the leading five, against the truth of all pairs."""
    n, p = 2000, 12
    for what in ("additive", "interactions", "noise"):
        totals: dict[str, list[Any]] = {"auto": [], "budget": []}
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(n, p))
            slopes = np.array([3, 2.5, 2, 1.5, 1.2, *[0.3] * (p - 5)])

            def predict(X: Any, slopes: Any = slopes, what: str = what) -> Any:
                return X @ slopes + (3 * X[:, 0] * X[:, 1] + 2 * X[:, 2] * X[:, 3] if what == "interactions" else 0)

            y = predict(X) + rng.normal(size=n) * (10 if what == "noise" else 1)
            truth = np.array([exact(X, y, predict, j) for j in range(5)])
            auto = ll.feature_importance(predict, X, y, random_state=seed, **LOSS)
            some = ll.feature_importance(predict, X, y, budget=auto.n_predictions, random_state=seed, **LOSS)
            for name, imp in (("auto", auto), ("budget", some)):
                five = np.array([imp[f"x{j}"].pfi for j in range(5)])
                totals[name].append(np.append((five - truth) ** 2, imp.n_predictions))
        means = {name: np.mean(some, axis=0) for name, some in totals.items()}
        rms = {name: float(np.sqrt(mean[:5].mean())) for name, mean in means.items()}
        count = {name: int(mean[5]) for name, mean in means.items()}
        both = f"budget {rms['budget']:.4f}, auto {rms['auto']:.4f}"
        print(f"error of the leading five, {what}: {both}; predictions {count}")


def exact(X: Any, y: Any, predict: Any, j: int) -> float:
    """The importance of a column over all pairs of rows, for models linear in it: moments of its values suffice."""
    at = [X.copy() for _ in range(2)]
    at[0][:, j], at[1][:, j] = 0, 1
    start = predict(at[0])
    slope, rest = predict(at[1]) - start, y - start
    first, second = X[:, j].mean(), np.mean(X[:, j] ** 2)
    replaced = rest**2 - 2 * rest * slope * first + slope**2 * second
    return float(np.mean(replaced) - np.mean((y - predict(X)) ** 2))


def wide(runs: int = 10) -> None:
    """2,000 x 70 at 1,000 rows a second: leading five four standard errors apart, named within ten minutes."""
    n, p = 2000, 70
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, p))
        slopes = np.sqrt(np.append(SEPARATED, np.full(p - 6, 0.01)))

        def predict(X: Any, slopes: Any = slopes) -> Any:
            return X @ slopes

        y = predict(X) + 0.5 * rng.normal(size=n)
        every = ll.feature_importance(predict, X, y, features=[f"x{j}" for j in range(6)], random_state=0, **LOSS)
        apart = [every.difference(f"x{j}", f"x{j + 1}") for j in range(5)]
        least = min(one.value / one.std_error for one in apart)
        with virtual() as clock:
            model = slow(predict, clock.pass_by, 0.0, 1e-3, 0.0)
            imp = ll.feature_importance(model, X, y, budget="10 min", precision="ranks", random_state=seed, **LOSS)
        print(
            f"wide: closest {least:.1f} standard errors apart by all rows: settled {', '.join(imp.afforded.settled)} "
            f"after {clock.now:.0f} s; {imp.afforded.sentence}"
        )


SEPARATED = np.array([3.0, 2.25, 1.7, 1.27, 0.95, 0.71])  # squared slopes


def ranks(runs: int = 2000) -> None:
    """How often a tie is ordered by all looks, also after `more`, and by one look at the end."""
    for what, n in (("tie of two", 150), ("tie of two, unequal noise", 150), ("tie of six", 150)):
        false = dict.fromkeys(("ranks", "after more", "one look at the end"), 0)
        for seed in range(runs):
            rng = np.random.default_rng([7, seed])
            p = 6
            X = rng.normal(size=(n, p))
            slopes = np.array([1.0, 1.0, *[0.1] * (p - 2)]) if "two" in what else np.ones(p)

            def predict(X: Any, slopes: Any = slopes, what: str = what) -> Any:
                return X @ slopes + (X[:, 1] * X[:, 2] if "unequal" in what else 0)

            if "unequal" in what:  # 2 b^2 = 2 c^2 + 2 of the interaction for x1: equal importances
                slopes[0], slopes[1] = np.sqrt(1.5), np.sqrt(0.5)
            y = predict(X) + rng.normal(size=n)
            imp = ll.feature_importance(predict, X, y, budget=n * 60, precision="ranks", random_state=seed, **LOSS)
            false["ranks"] += bool(imp.afforded.settled)
            later = imp.more(predict, X, y, n * 150, precision="ranks", progress=False)
            false["after more"] += bool(later.afforded.settled)
            false["one look at the end"] += _ordered(later)
        shown = ", ".join(f"{name} {100 * count / runs:.1f}%" for name, count in false.items())
        print(f"ranks: {what}, falsely ordered in {runs} runs: {shown}")


def _ordered(imp: Any) -> bool:
    names = [one.name for one in imp._ranked]
    return all(imp.difference(names[0], other).p_value <= 0.05 for other in names[1:])


if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        {"time": kept, "shapley": of_shares, "sleep": slept, "error": errors, "wide": wide, "ranks": ranks}[part]()
