"""Shapley importance: error and predictions against the paper's algorithm and sage-importance; exact engines' times.

One thread on both sides, unless a line says otherwise. About 15 minutes on two cores; `--quick` takes fewer seeds
and leaves out what is long, `--only 1,3` takes some lines. Line 6, coverage, is `benchmarks.shapley_coverage`.
The lines against sage-importance need `pip install sage-importance`, those against woodelf `pip install
woodelf_explainer`; without them they say so. Bars are in the table. Lines 8 and 9 take a million rows.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from math import ceil
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import losslens as ll
from benchmarks import shapley_coverage
from benchmarks.engines import ONE_THREAD
from benchmarks.memory import forget_peak, resident
from benchmarks.models import data, models
from benchmarks.peers import bound_to, fitted, interleaved, rows, seconds, unfitted
from benchmarks.shapley_coverage import Floats, Line
from losslens.datasets import load_boston
from losslens.engines.trees.effects import shapley_effects
from losslens.shapley import control_variates, walks

Estimator = Literal["PermutationEstimator", "KernelEstimator"]
SAGE: tuple[Estimator, ...] = ("PermutationEstimator", "KernelEstimator")
SAGE_LOSS = {"squared_error": "mse", "log_loss": "cross entropy"}
HALF = 0.5  # of each competitor's error
PAPER_ROWS = 10_600_000  # of the R package's default run on Boston, as given
PAPER_SUM = 0.016  # how far its sum was off, as given


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


def relative(found: list[Floats], truth: Floats) -> float:
    """Root mean square over runs of ||estimate - truth|| / ||truth||."""
    return float(np.sqrt(np.mean([np.sum((one - truth) ** 2) for one in found]) / np.sum(truth**2)))


# 1. Error at equal numbers of predictions.


def errors(quick: bool) -> Iterator[Line]:
    """Both games, 8 and 13 features, squared and log loss."""
    seeds = 4 if quick else 10
    for p in (8,) if quick else (8, 13):
        for loss in SAGE_LOSS:
            yield from _against_paper(boosted(loss, 150, p), seeds, (20_000,) if quick else (20_000, 100_000))
    for p in (8,) if quick else (8, 13):
        for loss in SAGE_LOSS:
            yield from _against_sage(boosted(loss, 100, p), seeds, (2,) if quick else (1, 2, 4) if p == 8 else (1, 2))


def _against_paper(case: Case, seeds: int, budgets: tuple[int, ...]) -> Iterator[Line]:
    """The paper's algorithm spends at least as much: 12 orders to 5 permutations, as by default, or to 1."""
    truth = case.exact().sfimp
    for budget in budgets:
        ours = [case.share(method="walk", budget=budget, random_state=seed) for seed in range(seeds)]
        error = relative([one.sfimp for one in ours], truth)
        for words, split in (("12:5", _as_by_default), ("12:1", _more_orders)):
            m_feat, m_obs = _enough(case, budget, split)
            theirs = [
                case.share(method="paper", m_feat=m_feat, m_obs=m_obs, random_state=seed) for seed in range(seeds)
            ]
            other = relative([one.sfimp for one in theirs], truth)
            work = f"SFIMP, {_named(case)}, {budget:,} predictions"
            note = f"{error:.4f} of {ours[0].n_predictions:,} against {other:.4f} of {theirs[0].n_predictions:,}"
            note += f" ({m_feat} orders, {m_obs} permutations)"
            yield Line(work, f"the paper's algorithm, {words}", error / other, HALF, note)


def _as_by_default(step: int) -> tuple[int, int]:
    return ceil(2.4 * step), step


def _more_orders(step: int) -> tuple[int, int]:
    return 12 * step, step


def _enough(case: Case, budget: int, split: Callable[[int], tuple[int, int]]) -> tuple[int, int]:
    """The smallest step of a split that takes the budget."""
    for step in range(1, 1000):
        m_feat, m_obs = split(step)
        if case.share(method="paper", m_feat=m_feat, m_obs=m_obs, random_state=0).n_predictions >= budget:
            return m_feat, m_obs
    raise ValueError(f"no split takes {budget:,} predictions")


def _against_sage(case: Case, seeds: int, sweeps: tuple[int, ...]) -> Iterator[Line]:
    """The same game: every row lends, predictions are averaged, every row is judged."""
    if find_spec("sage") is None:
        yield Line(f"SAGE, {_named(case)}", "sage-importance", np.nan, None, "not there: pip install sage-importance")
        return
    n, p = case.X.shape
    truth = case.exact(aggregate="prediction").sfimp
    for count in sweeps:
        budget = n + count * n * n * (p - 1)
        asked = {"method": "walk", "aggregate": "prediction", "budget": budget}
        ours = [case.share(random_state=seed, **asked) for seed in range(seeds)]
        error = relative([one.sfimp for one in ours], truth)
        for name in SAGE:
            theirs = [_sage(case, name, budget, seed) for seed in range(seeds)]
            other = relative([values for values, _ in theirs], truth)
            note = f"{error:.4f} of {ours[0].n_predictions:,} against {other:.4f} of {theirs[0][1]:,}"
            yield Line(
                f"SAGE, {_named(case)}, {budget:,} predictions", f"sage-importance, {name}", error / other, HALF, note
            )


def _sage(case: Case, name: Estimator, budget: int, seed: int) -> tuple[Floats, int]:
    """Its values, and the rows that it asked for, drawn in one batch; its check of the data comes on top."""
    sage, function, (n, p) = import_module("sage"), case.function, case.X.shape
    estimator = getattr(sage, name)
    estimate = estimator(sage.MarginalImputer(function, case.X), SAGE_LOSS[case.loss], random_state=seed)
    if name == "PermutationEstimator":
        draws = ceil(budget / (n * (p + 1)))
        drawn = {"n_permutations": draws}
    else:  # its two ends take 2 n^2
        draws = ceil((budget - 2 * n * n) / (2 * n))
        drawn = {"n_samples": draws}
    found = estimate(case.X, case.y, batch_size=draws, detect_convergence=False, bar=False, **drawn)
    return found.values, function.rows


def _named(case: Case) -> str:
    return f"{'squared' if case.loss == 'squared_error' else 'log'} loss, p = {case.X.shape[1]}"


# 2. Predictions to a standard error.


def to_a_standard_error(quick: bool, share: float = 0.025) -> Iterator[Line]:
    """0.025 of the whole; sage-importance stops at 0.025 of the gap from the largest to the smallest value."""
    X_fit, y_fit, X, y = data(1000)
    boosting = HistGradientBoostingRegressor(max_iter=50, max_leaf_nodes=15, random_state=0)
    for name, model in (("MLP", models()["MLP"]), ("boosting", boosting)):
        case = Case(model.fit(X_fit, y_fit), X, y, "squared_error")
        found = list(_standard_errors(case, 10 if quick else 30))
        theirs = None if quick or find_spec("sage") is None else _until_converged(case, share)
        for of in ("whole", "gap"):
            needed = next(((rows, one[of]) for rows, one in found if one[of] <= share), (np.inf, np.nan))
            work = f"{name}, p = 13, n = 1,000: error of {share} of the {of}"
            note = f"ours {needed[0]:,} rows, {needed[1]:.4f}"
            if theirs is None:
                yield Line(work, "sage-importance: --quick, or not there", np.nan, None, note)
                continue
            rows, error = theirs
            note += f"; theirs {rows:,} rows, {error['gap']:.4f} of the gap, {error['whole']:.4f} of the whole"
            yield Line(work, "sage-importance, 512 background rows", needed[0] / rows, 1 / 250, note + "; games differ")
            if of == "whole":  # it stopped at less than that
                scaled = rows * (error["whole"] / share) ** 2
                yield Line(work, "the same, scaled to that error", needed[0] / scaled, 1 / 250, f"{scaled:,.0f} rows")


def _standard_errors(case: Case, seeds: int) -> Iterator[tuple[int, dict[str, float]]]:
    """What the walks' predictions spread over seeds, the largest feature, at one sweep after the other."""
    n, p = case.X.shape
    for sweeps in range(1, 7):
        budget = n + sweeps * n * (p - 1)
        runs = [case.share(method="walk", budget=budget, random_state=seed) for seed in range(seeds)]
        values = np.array([run.sfimp for run in runs])
        spread, mean = float(values.std(axis=0, ddof=1).max()), values.mean(axis=0)
        whole = runs[0].error_none - runs[0].error_all
        yield max(run.n_predictions for run in runs), {"whole": spread / whole, "gap": spread / float(np.ptp(mean))}


def _until_converged(case: Case, thresh: float) -> tuple[int, dict[str, float]]:
    """Rows until sage-importance says that it has converged, and the error that it says it has."""
    sage, function = import_module("sage"), case.function
    background = case.X[np.random.default_rng(0).choice(len(case.X), 512, replace=False)]
    estimate = sage.PermutationEstimator(sage.MarginalImputer(function, background), "mse", random_state=0)
    found = estimate(case.X, case.y, thresh=thresh, bar=False)
    spread = float(found.std.max())
    return function.rows, {"whole": spread / float(found.values.sum()), "gap": spread / float(np.ptp(found.values))}


# 3 and 4. Exact, from trees.


COVARIANCES = {
    (1000, 10): 0.3,
    (1000, 20): 0.3,
    (1000, 100): 0.3,
    (10_000, 20): 1.5,
    (100_000, 20): 8.0,
    (1_000_000, 20): 90.0,
}  # fmt: skip - rows and features: seconds, at most
WITH_ROWS = {(1000, 10): 6.0, (1000, 20): 30.0, (1000, 100): 120.0}
FOREST = {1000: 5.0, 10_000: 50.0}  # rows of a default forest of 600,000 leaves


def exact_seconds(quick: bool) -> Iterator[Line]:
    """Totals and standard errors; with shares of single rows; of a large forest. The second call."""
    note = "n_jobs=2, seconds; means something on two idle cores alone"
    for (n, p), bar in COVARIANCES.items():
        if not quick or n <= 10_000:
            took = [seconds(lambda: _is_exact(boosted("squared_error", n, p), n_jobs=2)) for _ in range(2)]  # noqa: B023
            yield Line(f"exact SFIMP and its error, boosting 100 x 31, p = {p}, n = {n:,}", note, took[1], bar)
    for (n, p), bar in WITH_ROWS.items():
        if not quick or p <= 10:
            case = boosted("squared_error", n, p)
            took = [seconds(lambda: _is_exact(case, n_jobs=2, rows=True)) for _ in range(2)]  # noqa: B023
            yield Line(f"the same with rows and donors, p = {p}, n = {n:,}", note, took[1], bar)
    for n, bar in FOREST.items():
        if not quick:
            took = [seconds(lambda: _is_exact(_default_forest(n), n_jobs=2)) for _ in range(2)]  # noqa: B023
            yield Line(f"exact SFIMP and its error, forest of 600,000 leaves, p = 13, n = {n:,}", note, took[1], bar)


@lru_cache(maxsize=2)
def _default_forest(n: int) -> Case:
    X, y = make_friedman1(n_samples=9000 + n, n_features=13, noise=1.0, random_state=0)
    forest = RandomForestRegressor(random_state=0, n_jobs=2).fit(X[:9000], y[:9000])
    return Case(forest, X[9000:], y[9000:], "squared_error")


def exact_ratio(quick: bool, some: int = 100_000) -> Iterator[Line]:
    """All coalitions of all pairs against predicting them: a batch at the same moment, and extrapolated."""
    for loss in SAGE_LOSS:
        case = boosted(loss, 200, 13)
        case.exact(rows=True)
        n, p = case.X.shape
        many, function = np.tile(case.X, (some // n, 1)), case.function
        scale = 2**p * n * n / some
        found = interleaved(partial(case.exact, rows=True, n_jobs=1), partial(function, many), 1 if quick else 3, scale)
        against = "2^p n^2 rows through predict"
        note = f"{found.note} ({some:,} rows, x {scale:,.0f}: extrapolated)"
        yield Line(f"exact SFIMP, {_named(case)}, n = {n}", against, found.ratio, 500, note, at_least=True)


def _is_exact(case: Case, **asked: Any) -> None:
    """By the default method."""
    found = case.share(case.model, **asked)
    assert found.exact
    assert np.isfinite(found.std_error).all()


# 5. The R package's default run on Boston.


def boston(quick: bool) -> Iterator[Line]:
    """Walks with a twentieth of its predictions; its own algorithm at full scale on a forest of 20 trees."""
    large, small = _forest(40 if quick else 500), _forest(20)
    for case, seeds in ((small, 4 if quick else 10), (large, 1)):
        truth, budget = case.exact(n_jobs=2), PAPER_ROWS // 20
        runs = [case.share(method="walk", budget=budget, random_state=seed) for seed in range(seeds)]
        whole = truth.error_none - truth.error_all
        off = max(abs(float(run.sfimp.sum()) / whole - 1) for run in runs)
        error = relative([run.sfimp for run in runs], truth.sfimp)
        work = f"Boston, forest of {len(case.model.estimators_)}: walks"
        note = f"{runs[0].n_predictions:,} predictions of at most {budget:,}"
        yield Line(work, f"R package: sum off by {PAPER_SUM} (given)", off, 1e-12, f"the sum's error; {note}")
        if case is large:
            yield Line(work, "exact", error, None, "relative error, one run")
        elif quick:
            yield Line(work, "exact", error, None, f"relative error; {note}; the paper's algorithm: not in --quick")
        else:
            yield _default_run(case, error, truth.sfimp, whole, work)


def _default_run(case: Case, error: float, truth: Floats, whole: float, work: str, seeds: int = 3) -> Line:
    """The paper's algorithm with its defaults, on the forest that affords it."""
    runs = [case.share(method="paper", random_state=seed) for seed in range(seeds)]
    other = relative([run.sfimp for run in runs], truth)
    off = np.sqrt(np.mean([(run.sfimp.sum() / whole - 1) ** 2 for run in runs]))
    note = f"{error:.4f} against {other:.4f} of {runs[0].n_predictions:,} predictions, whose sum is off by {off:.4f}"
    return Line(work, "the paper's algorithm, its defaults", error / other, 1.0, note)


def _forest(trees: int) -> Case:
    """306 rows to fit on, 200 to explain, no preprocessing."""
    table, y = load_boston()
    X, order = table.to_numpy(float), np.random.default_rng(0).permutation(len(y))
    fit, explain = order[:306], order[306:]
    return Case(
        RandomForestRegressor(trees, random_state=0).fit(X[fit], y[fit]), X[explain], y[explain], "squared_error"
    )


# 7. What reading walks in both directions saves.


def both_ways(quick: bool) -> Iterator[Line]:
    """Predictions to the same standard error, one reading against both, of the same walks to the rows of MLPs."""
    X_fit, y_fit, X, y = data(1000)
    drawn = np.random.default_rng(1)
    labels_fit, labels = ((drawn.random(len(t)) < 1 / (1 + np.exp(-(t - 14) / 2))).astype(int) for t in (y_fit, y))
    layers = MLPClassifier(hidden_layer_sizes=(100, 50), max_iter=200, early_stopping=True, random_state=0)
    classifier = make_pipeline(StandardScaler(), layers).fit(X_fit, labels_fit)
    regressor = models()["MLP"].fit(X_fit, y_fit)
    for case in (Case(regressor, X, y, "squared_error"), Case(classifier, X, labels, "log_loss")):
        for words, none in (("as they are", True), ("with controls", False)):
            one, both = _noise_of_readings(case, 3 if quick else 12, without_controls=none)
            note = f"variance of a sweep: {one:.3g} read once, {both:.3g} both ways; sum over features"
            work = f"MLP, {_named(case)}, n = 1,000: walks {words}"
            bar = 2.1 if case.loss == "squared_error" else 1.6
            yield Line(work, "predictions when read once / both ways", one / both, bar, note, at_least=True)


def _noise_of_readings(case: Case, seeds: int, *, without_controls: bool, sweeps: int = 8) -> tuple[float, float]:
    """The Monte-Carlo variance of one sweep, read once and in both directions, summed over the features."""
    runs: list[tuple[Any, list[Any]]] = []
    found: list[tuple[float, float]] = []
    run, has_controls = walks.run, control_variates._has_controls

    def record(kind: Any, progress: Any) -> Any:
        walked = run(kind, progress)
        runs.append((kind, walked.sweeps))
        return walked

    walks.run = record
    try:
        for seed in range(seeds):
            case.share(method="walk", budget=len(case.X) * (1 + sweeps * (case.X.shape[1] - 1)), random_state=seed)
    finally:
        walks.run = run
    if without_controls:
        control_variates._has_controls = lambda *_: False
    try:
        for kind, drawn in runs:
            once = kind.summary([replace(one, back=None) for one in drawn]).monte_carlo_error
            both = kind.summary(drawn).monte_carlo_error
            found.append((sweeps * float(once @ once), sweeps * float(both @ both)))
    finally:
        control_variates._has_controls = has_controls
    return float(np.mean([one for one, _ in found])), float(np.mean([both for _, both in found]))


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
        yield Line(f"two weightings, {name}, n = {n:,}, p = {p}", "n_jobs=2, seconds", took, bar, note)


def against_woodelf(quick: bool) -> Iterator[Line]:
    """All rows over all donors, one thread each, in processes of their own; the exponent from the first to the last."""
    sizes = (1_000, 10_000) if quick else (1_000, 10_000, 100_000, 1_000_000)
    found = [_effect_process("ours", n) for n in sizes]
    for n, (ours, memory) in zip(sizes, found, strict=True):
        work, note = f"shapley_effect, 100 x 31, p = 20, n = {n:,}", f"ours {ours:.2f} s, {memory:,.0f} MB"
        if find_spec("woodelf") is None:
            yield Line(work, "woodelf", np.nan, None, f"{note}; not there: pip install woodelf_explainer")
            continue
        theirs, other = _effect_process("theirs", n)
        note += f"; theirs {theirs:.2f} s, {other:,.0f} MB"
        yield Line(work, "woodelf: times as fast", theirs / ours, 1.0, note, at_least=True)
        yield Line(work, "woodelf: memory beyond the data", memory / other, 1.0, note)
    slope = np.log(found[-1][0] / found[0][0]) / np.log(sizes[-1] / sizes[0])
    yield Line(f"shapley_effect, n = {sizes[0]:,} to {sizes[-1]:,}", "growth exponent", float(slope), 1.1, "")


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


LINES: dict[int, Callable[[bool], Iterator[Line]]] = {
    1: errors,
    2: to_a_standard_error,
    3: exact_seconds,
    4: exact_ratio,
    5: boston,
    6: shapley_coverage.lines,
    7: both_ways,
    8: weighted_effects,
    9: against_woodelf,
}


def main() -> None:
    """Print the table, from a process that has had one thread from its beginning."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapley", description=__doc__)
    parser.add_argument("--only", default="", help="numbers of lines, such as 1,3")
    parser.add_argument("--quick", action="store_true", help="fewer seeds, and nothing that is long")
    asked = parser.parse_known_args()[0]
    chosen = {int(word) for word in asked.only.split(",") if word} or set(LINES)
    if not chosen <= set(LINES):
        parser.error(f"--only takes numbers from 1 to {max(LINES)}")
    if any(os.environ.get(key) != value for key, value in ONE_THREAD.items()):
        command = [sys.executable, "-m", "benchmarks.shapley", *sys.argv[1:]]
        subprocess.run(command, env=os.environ | ONE_THREAD, check=True)
        return
    warnings.simplefilter("ignore")
    print("1: ratio of relative errors, theirs at least as many rows; 2: ratio of rows; 3: seconds; 4: ratio of times;")
    print("5: error of the sum, and ratio of errors; 6: shares of runs that hold the truth; 7: ratio of predictions")
    print("to the same error; 8: seconds; 9: ratios of processor seconds and of memory", flush=True)
    for line in sorted(chosen):
        for row in LINES[line](asked.quick):
            print(f"{line:>2}  {row}", flush=True)


if __name__ == "__main__":
    main()
