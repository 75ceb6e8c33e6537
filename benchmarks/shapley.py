"""Shapley shares from trees: seconds, how they grow with the rows, and against woodelf.

One thread on both sides, unless a line says otherwise. `--quick` leaves out what is long, `--only 3,9` takes some
parts: 3, seconds of importances; 4, against predicting all coalitions of all pairs; 8, seconds of the two weightings
behind a covariance; 9, shapley_effect against woodelf; 10, probabilities of a boosted classifier, row by row. Errors,
and predictions of walks: `benchmarks.shapley_errors`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestRegressor

import losslens as ll
from benchmarks.lines import Line, run
from benchmarks.memory import forget_peak, resident
from benchmarks.peers import bound_to, fitted, interleaved, rows, seconds, unfitted
from losslens.engines.trees.effects import shapley_effects

NOT_INSTALLED = "not installed"


class Recorded:
    """A model as a bare function, which no exact engine reads; it counts the rows that it is asked for."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function, self.rows = function, 0

    def __call__(self, X: Any) -> Any:
        self.rows += len(X)
        return self.function(X)


@dataclass(frozen=True, eq=False)
class Case:
    """Boosted trees, the rows to explain, and a loss."""

    model: Any
    X: Any
    y: Any
    loss: str

    @property
    def function(self) -> Recorded:
        """The model, unreadable."""
        return Recorded(self.model.predict if self.loss == "squared_error" else self.model.predict_proba)

    def share(self, model: Any = None, **asked: Any) -> Any:
        """What the features earn; from the bare function unless a model is given."""
        given = self.function if model is None else model
        return ll.shapley_importance(given, self.X, self.y, loss=self.loss, progress=False, **asked)

    def exact(self, **asked: Any) -> Any:
        """From the trees themselves, over all coalitions and pairs."""
        found = self.share(self.model, method="exact", **asked)
        assert found.exact  # or it is no reference
        return found


@lru_cache(maxsize=8)
def boosted(loss: str, n: int, p: int) -> Case:
    """Friedman's first function, or classes that follow it; a hundred trees of 31 leaves, or fifty of eight."""
    X, y = make_friedman1(n_samples=1000 + n, n_features=p, noise=1.0, random_state=0)
    if loss == "squared_error":
        model: Any = HistGradientBoostingRegressor(random_state=0)
    else:
        chance = 1 / (1 + np.exp(-(y - y.mean()) / 2))
        y = (np.random.default_rng(1).random(len(y)) < chance).astype(int)
        model = HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=8, random_state=0)
    return Case(model.fit(X[:1000], y[:1000]), X[1000:], y[1000:], loss)


def named(case: Case) -> str:
    """Loss and features."""
    return f"{'squared' if case.loss == 'squared_error' else 'log'} loss, p = {case.X.shape[1]}"


# 3 and 4. Exact, from trees.


COVARIANCES = {
    (1000, 10): 0.3,
    (1000, 20): 0.3,
    (1000, 100): 0.3,
    (10_000, 20): 1.5,
    (100_000, 20): 8.0,
    (1_000_000, 20): 90.0,
}  # fmt: skip - rows and features: seconds, at most
WITH_ROWS = {(1000, 10): 6.0, (1000, 20): 3.0, (1000, 100): 10.0}
FOREST = {1000: 5.0, 10_000: 50.0}  # rows of a default forest of 600,000 leaves


def exact_seconds(quick: bool) -> Iterator[Line]:
    """Totals and standard errors; with shares of single rows; of a large forest. Two threads, everything compiled."""
    for (n, p), bar in COVARIANCES.items():
        if not quick or n <= 10_000:
            took = _second_call(boosted("squared_error", n, p))
            yield Line(f"exact SFIMP and its error, boosting 100 x 31, p = {p}, n = {n:,}", "", took, bar, unit="s")
    for (n, p), bar in WITH_ROWS.items():
        if not quick or p <= 10:
            took = _second_call(boosted("squared_error", n, p), method="rows")
            yield Line(f"the same with rows and donors, p = {p}, n = {n:,}", "", took, bar, unit="s")
    for n, bar in FOREST.items():
        if not quick:
            took = _second_call(_default_forest(n))
            yield Line(f"exact SFIMP and its error, forest, 600,000 leaves, n = {n:,}", "", took, bar, unit="s")


def _second_call(case: Case, some: int = 200, short: float = 5.0, **asked: Any) -> float:
    """Seconds, after a call on some of the rows; once more where that is short."""
    _is_exact(replace(case, X=case.X[:some], y=case.y[:some]), n_jobs=2, **asked)
    took = seconds(lambda: _is_exact(case, n_jobs=2, **asked))
    return min(took, seconds(lambda: _is_exact(case, n_jobs=2, **asked))) if took < short else took


@lru_cache(maxsize=2)
def _default_forest(n: int) -> Case:
    X, y = make_friedman1(n_samples=9000 + n, n_features=13, noise=1.0, random_state=0)
    forest = RandomForestRegressor(random_state=0, n_jobs=2).fit(X[:9000], y[:9000])
    return Case(forest, X[9000:], y[9000:], "squared_error")


def exact_ratio(quick: bool, some: int = 100_000) -> Iterator[Line]:
    """All coalitions of all pairs against predicting them: a batch at the same moment, and extrapolated."""
    for loss in ("squared_error", "log_loss"):
        case = boosted(loss, 200, 13)
        case.exact(method="rows")
        n, p = case.X.shape
        many, function = np.tile(case.X, (some // n, 1)), case.function
        scale = 2**p * n * n / some
        found = interleaved(
            partial(case.exact, method="rows", n_jobs=1), partial(function, many), 1 if quick else 3, scale
        )
        against = "2^p n^2 rows through predict"
        note = f"{found.note} ({some:,} rows, x {scale:,.0f}: extrapolated)"
        yield Line(f"exact SFIMP, {named(case)}, n = {n}", against, found.ratio, 500, note, "x", at_least=True)


def _is_exact(case: Case, **asked: Any) -> None:
    """By the default method."""
    found = case.share(case.model, **asked)
    assert found.exact
    assert np.isfinite(found.std_error).all()


# 8 and 9. Shapley values of predictions, from trees: how they grow, and against woodelf.

WEIGHTED = (("boosting", 1_000, 10, 0.3), ("boosting", 1_000, 20, 0.3), ("boosting", 1_000, 100, 0.3),
            ("boosting", 10_000, 20, 1.5), ("boosting", 100_000, 20, 8.0), ("boosting", 1_000_000, 20, 90.0),
            ("forest", 1_000, 13, 5.0), ("forest", 10_000, 13, 50.0))  # fmt: skip


def weighted_effects(quick: bool) -> Iterator[Line]:
    """With two weightings of the donors, all that totals and standard errors of a covariance need: on two cores."""
    for name, n, p, bar in WEIGHTED[:3] if quick else WEIGHTED:
        X, y = make_friedman1(n_samples=n, n_features=p, noise=1.0, random_state=1)
        bound, rows = bound_to(fitted(name, 10_000, p), X, y), np.arange(n)
        weights, players = np.stack([np.ones(n), y - y.mean()]), [[j] for j in range(p)]

        def effects(some: Any, bound: Any = bound, weights: Any = weights, players: Any = players) -> Any:
            given = weights[:, some]
            return shapley_effects(bound, players, some, some, given, n_jobs=2, tick=lambda rows: None)

        effects(rows[:100])  # compiled now
        spent = time.process_time()
        took = seconds(partial(effects, rows))
        note = f"{time.process_time() - spent:.2f} processor seconds, {len(bound.value):,} leaves"
        yield Line(f"two weightings, {name}, n = {n:,}, p = {p}", "", took, bar, note, "s")


def against_woodelf(quick: bool) -> Iterator[Line]:
    """All rows over all donors, one thread each, in processes of their own; the exponent from the first to the last."""
    sizes = (1_000, 10_000) if quick else (1_000, 10_000, 100_000, 1_000_000)
    found = [_effect_process("ours", n) for n in sizes]
    for n, (ours, memory) in zip(sizes, found, strict=True):
        work, note = f"shapley_effect, 100 x 31, p = 20, n = {n:,}", f"ours {ours:.2f} s, {memory:,.0f} MB"
        if find_spec("woodelf") is None:
            yield Line(work, "woodelf: times as fast", bar=1.0, note=note, missing=NOT_INSTALLED)
            continue
        theirs, other = _effect_process("theirs", n)
        note += f"; theirs {theirs:.2f} s, {other:,.0f} MB"
        yield Line(work, "woodelf: times as fast", theirs / ours, 1.0, note, "x", at_least=True)
        yield Line(work, "woodelf: memory beyond the data", memory / other, 1.0, note, "x")
    slope = np.log(found[-1][0] / found[0][0]) / np.log(sizes[-1] / sizes[0])
    yield Line(f"shapley_effect, n = {sizes[0]:,} to {sizes[-1]:,}", "growth exponent", float(slope), 1.1)


def _effect_process(whose: str, n: int) -> tuple[float, float]:
    """Processor seconds and megabytes above the data, of a process of its own."""
    code = f"from benchmarks.shapley import effect_process; effect_process({whose!r}, {n})"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    spent, memory = said.splitlines()[-1].split()
    return float(spent), float(memory)


def effect_process(whose: str, n: int) -> None:
    """Print them; LightGBM, which both read, and a call on a few rows before."""
    p = 20
    names = [f"x{j}" for j in range(p)]
    X = pd.DataFrame(make_friedman1(n_samples=n, n_features=p, noise=1.0, random_state=1)[0], columns=names)
    X_fit, y_fit, _, _ = rows(10_000, 1, p)
    model = unfitted("LightGBM").fit(pd.DataFrame(X_fit, columns=names), y_fit)

    def explain(table: Any) -> Any:
        if whose == "ours":
            return ll.shapley_effect(model, table, slice(None), n_jobs=1, progress=False).local
        explainer = import_module("woodelf").WoodelfExplainer(model, table)
        return explainer.shap_values(table, verbose=False)

    explain(X[:100])
    forget_peak()
    before, spent = resident("VmRSS"), time.process_time()
    kept = explain(X)
    spent = time.process_time() - spent
    assert np.shape(kept) == (n, p)
    print(spent, (resident("VmHWM") - before) / 2**20)


# 10. Probabilities, of which boosted trees add up the log-odds.


def probabilities(quick: bool) -> Iterator[Line]:
    """20 rows of a boosted classifier, p = 20, 200 donors: as a model that is read, and as one that is asked only."""
    X, y = make_friedman1(n_samples=2000, n_features=20, noise=1.0, random_state=0)
    chance = 1 / (1 + np.exp(-(y - y.mean()) / 2))
    y = (np.random.default_rng(1).random(len(y)) < chance).astype(int)
    model = HistGradientBoostingClassifier(random_state=0).fit(X, y)
    donors, explained, errors = X[:200], X[200:220], {}

    def explain(method: str) -> Callable[[], Any]:
        def run() -> None:
            found = ll.shapley_effect(model, donors, explained, method=method, n_jobs=1, progress=False, random_state=0)
            errors[method] = float(np.sqrt(np.mean(found.std_error**2, axis=0)).max())

        return run

    spent: dict[str, list[float]] = {"auto": [], "walk": []}
    for method in spent:
        explain(method)()  # compiled now
    for _ in range(2 if quick else 5):
        for method, seconds_of in spent.items():
            started = time.process_time()
            explain(method)()
            seconds_of.append(time.process_time() - started)
    ours, walks = (float(np.min(of)) for of in spent.values())
    note = f"errors {errors['auto']:.2g} and {errors['walk']:.2g}"
    yield Line("probabilities, boosting, p = 20, 20 rows, 200 donors", "", ours, 0.3, note, "s")
    yield Line("the same", "walks that ask the model", walks / ours, 10.0, note, "x", at_least=True)


PARTS: dict[int, Callable[[bool], Iterator[Line]]] = {
    3: exact_seconds,
    4: exact_ratio,
    8: weighted_effects,
    9: against_woodelf,
    10: probabilities,
}

if __name__ == "__main__":
    run("benchmarks.shapley", __doc__, PARTS, set(PARTS))
