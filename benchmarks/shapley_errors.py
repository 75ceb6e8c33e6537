"""Shapley importance: errors and predictions, against the paper's algorithm and sage-importance.

About 10 minutes on two cores; `--quick` takes fewer seeds and leaves out what is long, `--only 1,2` takes some parts:
1, ratio of relative errors, theirs at least as many predictions; 2, ratio of predictions; 5, the R package's default
run; 7, predictions to the same error when walks are read in both directions. Intervals are counted by
`benchmarks.shapley_coverage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from math import ceil
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import losslens as ll
from benchmarks.lines import Line, run
from benchmarks.models import data, models
from benchmarks.shapley import NOT_INSTALLED, Case, boosted, named
from losslens.datasets import load_boston
from losslens.shapley import control_variates, walks
from losslens.typing import Floats

Estimator = Literal["PermutationEstimator", "KernelEstimator"]
SAGE: tuple[Estimator, ...] = ("PermutationEstimator", "KernelEstimator")
SAGE_LOSS = {"squared_error": "mse", "log_loss": "cross entropy"}
HALF = 0.5  # of each competitor's error
PAPER_ROWS = 10_600_000  # of the R package's default run on Boston, as given
PAPER_SUM = 0.016  # how far its sum was off, as given


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
            theirs = [case.share(method=ll.Paper(m_feat, m_obs), random_state=seed) for seed in range(seeds)]
            other = relative([one.sfimp for one in theirs], truth)
            work = f"SFIMP, {named(case)}, {budget:,} predictions"
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
        if case.share(method=ll.Paper(m_feat, m_obs), random_state=0).n_predictions >= budget:
            return m_feat, m_obs
    raise ValueError(f"no split takes {budget:,} predictions")


def _against_sage(case: Case, seeds: int, sweeps: tuple[int, ...]) -> Iterator[Line]:
    """The same game: every row lends, predictions are averaged, every row is judged."""
    if find_spec("sage") is None:
        yield Line(f"SAGE, {named(case)}", "sage-importance", bar=HALF, missing=NOT_INSTALLED)
        return
    n, p = case.X.shape
    truth = case.exact(method=ll.Sage()).sfimp
    for count in sweeps:
        budget = n + count * n * n * (p - 1)
        asked = {"method": ll.Sage("walk"), "budget": budget}
        ours = [case.share(random_state=seed, **asked) for seed in range(seeds)]
        error = relative([one.sfimp for one in ours], truth)
        for name in SAGE:
            theirs = [_sage(case, name, budget, seed) for seed in range(seeds)]
            other = relative([values for values, _ in theirs], truth)
            note = f"{error:.4f} of {ours[0].n_predictions:,} against {other:.4f} of {theirs[0][1]:,}"
            yield Line(
                f"SAGE, {named(case)}, {budget:,} predictions", f"sage-importance, {name}", error / other, HALF, note
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
                yield Line(
                    work, "sage-importance", bar=1 / 250, note=note, missing="--quick" if quick else NOT_INSTALLED
                )
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
    runs = [case.share(method=ll.Paper(), random_state=seed) for seed in range(seeds)]
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
            work = f"MLP, {named(case)}, n = 1,000: walks {words}"
            bar = 2.1 if case.loss == "squared_error" else 1.6
            yield Line(work, "predictions when read once / both ways", one / both, bar, note, at_least=True)


def _noise_of_readings(case: Case, seeds: int, *, without_controls: bool, sweeps: int = 8) -> tuple[float, float]:
    """The Monte-Carlo variance of one sweep, read once and in both directions, summed over the features."""
    runs: list[tuple[Any, list[Any]]] = []
    found: list[tuple[float, float]] = []
    run = walks.run

    def record(kind: Any, progress: Any) -> Any:
        walked = run(kind, progress)
        runs.append((kind, walked.sweeps))
        return walked

    with patch.object(walks, "run", record):
        for seed in range(seeds):
            case.share(method="walk", budget=len(case.X) * (1 + sweeps * (case.X.shape[1] - 1)), random_state=seed)
    with patch.object(control_variates._Walks, "has_controls", new=False) if without_controls else nullcontext():
        for kind, drawn in runs:
            once = kind.summary([replace(one, back=None) for one in drawn]).monte_carlo_error
            both = kind.summary(drawn).monte_carlo_error
            found.append((sweeps * float(once @ once), sweeps * float(both @ both)))
    return float(np.mean([one for one, _ in found])), float(np.mean([both for _, both in found]))


PARTS: dict[int, Callable[[bool], Iterator[Line]]] = {
    1: errors,
    2: to_a_standard_error,
    5: boston,
    7: both_ways,
}

if __name__ == "__main__":
    run("benchmarks.shapley_errors", __doc__, PARTS, set(PARTS))
