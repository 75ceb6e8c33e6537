"""How often intervals, bands, ranks and tests hold what they promise: simulated with known truths and counted.

Bars: 95 % intervals of PFI, ratio and SFIMP cover 92 to 97 % at n = 300 and at least 91 % at n = 100, on linear and
interaction cases, for all pairs and for sampled donors; bands, differences and intervals about the sample 92 to 97 %;
simultaneous ranks are all right in at least 95 %; a noise feature is flagged in at most 6 % at the 5 % level.

A line is the mean over its features, with the least and the largest of single ones and the simulation's standard error.
The mean is held to the bar, and every single feature to the bar give or take two of its own errors. The peers see
the same data. `python -m benchmarks.coverage [--quick] [--only intervals,bands] [--simulations 1000]`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from io import StringIO
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import KFold, ShuffleSplit

import losslens as ll
from benchmarks import coverage_cases as cases
from benchmarks import score_cases
from benchmarks.coverage_cases import HEAVY, INTERACTION, LINEAR, REAL, TRAINED, WEAK, Case
from losslens.uncertainty.block_length import FEWEST_BLOCKS, LONGER
from losslens.uncertainty.inference import adjusted
from losslens.verbs.conditional import conditional_predictive_impact
from losslens.verbs.refits import permuted_target_test

Floats = NDArray[np.float64]
Counted = dict[str, NDArray[np.bool_]]  # by number: what held in one run, or in all of them, (runs, k)
Run = Callable[[int], Counted]  # one seed
SIZES = (100, 300)
PERMUTATIONS, SLOW = 39, 200  # of a test by refits; most runs of it
SLOW_LEARNERS = ("boosting", "small leaves", "forest")
JUDGED = 200  # runs, for a bar to mean something
ROUNDING = 1e-9
DIFFERENCES, RANKS = "differences of two features, paired", "ranks of all features (tied: any of theirs)"
HOW: dict[str, Any] = {"loss": "squared_error", "progress": False}


@dataclass(frozen=True)
class Bar:
    """Where a share must lie."""

    low: float = 0.0
    high: float = 1.0

    def __str__(self) -> str:
        if self.low and self.high < 1:
            return f"{100 * self.low:g} to {100 * self.high:g} %"
        return f">= {100 * self.low:g} %" if self.low else f"<= {100 * self.high:g} %"


COVERS, AT_LEAST, FLAGGED = Bar(0.92, 0.97), Bar(0.91), Bar(high=0.06)


def bar_for(n: int) -> Bar:
    """Of the interval of a single number."""
    return COVERS if n >= 300 else AT_LEAST


@dataclass(frozen=True)
class Line:
    """One line of the table; no bar: printed as it is."""

    case: str
    number: str
    n: int
    held: NDArray[np.bool_]  # (runs, k)
    bar: Bar | None = None
    note: str = ""

    def __str__(self) -> str:
        each, runs = self.held.mean(axis=0), len(self.held)
        value, error = each.mean(), self.held.mean(axis=1).std() / np.sqrt(runs)
        span = f"{100 * each.min():5.1f} .. {100 * each.max():5.1f}" if len(each) > 1 else ""
        bar = "" if self.bar is None else str(self.bar)
        shown = f"{100 * value:6.1f} ± {100 * error:.1f}  {span:15}{runs:6}  {bar:12}{self._verdict(each):5}"
        return f"{self.case:15}{self.number:43}{self.n:4}{shown} {self.note}".rstrip()

    def _verdict(self, each: Floats) -> str:
        if self.bar is None:
            return "info"
        if len(self.held) < JUDGED:
            return "few"
        slack = 2 * np.sqrt(np.maximum(each * (1 - each), 1e-4) / len(self.held)) if len(each) > 1 else 0.0
        singles = np.all(each >= self.bar.low - slack) and np.all(each <= self.bar.high + slack)
        return "ok" if self.bar.low <= each.mean() <= self.bar.high and singles else "MISS"


HEAD = f"{'case':15}{'number':43}{'n':>4}{'%':>6} ± {'MC':5}{'single features':15}{'runs':>6}  {'bar':12}"


def simulate(run: Run, runs: int) -> Counted:
    """All runs, on as many processes as the command line says."""
    parts = [part for part in np.array_split(np.arange(runs), 64) if len(part)]
    found = Parallel()(delayed(_several)(run, part.tolist()) for part in parts)
    return {name: np.concatenate([some[name] for some in found]) for name in found[0]}


def _several(run: Run, seeds: list[int]) -> Counted:
    warnings.simplefilter("ignore")
    found = [run(seed) for seed in seeds]
    return {name: np.stack([one[name] for one in found]) for name in found[0]}


def within(ends: Any, truth: Any) -> NDArray[np.bool_]:
    """Whether each truth lies between its ends."""
    low, high = np.asarray(ends[0]), np.asarray(ends[1])
    return np.asarray((low <= truth) & (truth <= high))


def drawn(case: Case, n: int, seed: int) -> tuple[Floats, Floats]:
    """The same data for everything that is counted on a case."""
    return case.draw(np.random.default_rng([seed, n]), n)


def each_end(ends: list[tuple[float, float]]) -> Floats:
    """Intervals of several features as low and high ends, (2, p)."""
    return np.array(ends).T


# -- intervals ------------------------------------------------------------------------------------------------------


def intervals(runs: int) -> Iterator[Line]:
    """Single numbers, differences of two, all ranks at once; beside them what plainer intervals would have covered."""
    for case in (LINEAR, WEAK, INTERACTION, HEAVY):
        for n in SIZES:
            bars = {"PFI": bar_for(n), "ratio": bar_for(n), "SFIMP": bar_for(n), DIFFERENCES: COVERS, RANKS: Bar(0.95)}
            for name, held in simulate(partial(_intervals, case, n), runs).items():
                yield Line(case.name, name, n, held, None if case is HEAVY else bars.get(name))


def _intervals(case: Case, n: int, seed: int) -> Counted:
    X, y = drawn(case, n, seed)
    imp = ll.feature_importance(case.predict, X, y, donors="all", **HOW)
    shap = ll.shapley_importance(case.predict, X, y, random_state=seed, **HOW)
    found = {
        "PFI": within(each_end([f.interval() for f in imp.values()]), case.pfi),
        "ratio": within(each_end([f.ratio_interval() for f in imp.values()]), 1 + case.pfi / case.error),
        "SFIMP": within(shap.interval(), case.sfimp),
    }
    return found | _compared(case, imp) | _plainer(case, imp, n)


def _compared(case: Case, imp: Any) -> Counted:
    """A feature tied with others has a set of ranks: its interval is right if it holds one of them (strictly: all)."""
    gaps = [(imp.difference(f"x{j}", f"x{k}"), case.pfi[j] - case.pfi[k]) for j, k in ((0, 2), (1, 2), (0, 1))]
    held = np.array([within((gap.low, gap.high), truth) for gap, truth in gaps])
    _, low, high = imp.estimates().ranks()
    first = 1 + np.sum(case.pfi > case.pfi[:, None] + ROUNDING, axis=1)
    last = len(case.pfi) - np.sum(case.pfi < case.pfi[:, None] - ROUNDING, axis=1)
    degenerate = {"  x0 - x1, which no single row moves": held[2:]} if case == INTERACTION else {}
    return {
        DIFFERENCES: held[:2] if degenerate else held,
        **degenerate,
        RANKS: np.atleast_1d(np.all((low <= last) & (high >= first))),
        "  the same, tied: all of theirs": np.atleast_1d(np.all((low <= first) & (high >= last))),
    }


def _plainer(case: Case, imp: Any, n: int) -> Counted:
    """Intervals of the PFI that are not bent by the skewness of the estimate."""
    value, error = (np.array([getattr(f, name) for f in imp.values()]) for name in ("unbiased", "std_error"))
    reach = student.ppf(0.975, n - 1) * error
    plain = np.stack([value - reach, value + reach])
    far = value > 3 * error
    safe = np.where(far, value, 1.0)
    by_log = np.where(far, safe * np.exp(np.stack([-reach, reach]) / safe), plain)
    return {
        "  PFI, for comparison: U ± t SE": within(plain, case.pfi),
        "  PFI, for comparison: log where U > 3 SE": within(by_log, case.pfi),
    }


def designs(runs: int) -> Iterator[Line]:
    """PFI from sampled donors, about new data and about the sample."""
    for n in SIZES:
        for name, held in simulate(partial(_designs, n), runs).items():
            yield Line(LINEAR.name, name, n, held, COVERS if "sample" in name else bar_for(n))


def _designs(n: int, seed: int) -> Counted:
    X, y = drawn(LINEAR, n, seed)
    found = {}
    for design in (ll.Latin(5), ll.Systematic(20)):
        imp = ll.feature_importance(LINEAR.predict, X, y, donors=design, random_state=seed, **HOW)
        found[f"PFI, {design!r}"] = within(each_end([f.interval() for f in imp.values()]), LINEAR.pfi)
    pairs = ll.feature_importance(LINEAR.predict, X, y, donors="all", **HOW)
    imp = ll.feature_importance(LINEAR.predict, X, y, donors=ll.Latin(10), random_state=seed, **HOW)
    ends = each_end([f.interval(target="sample") for f in imp.values()])
    return found | {"PFI of the sample, Latin(10)": within(ends, np.array([f.pfi for f in pairs.values()]))}


# -- curves ----------------------------------------------------------------------------------------------------------


def bands(runs: int) -> Iterator[Line]:
    """Whole curves of x0, at every value of the sample at once."""
    for case in (LINEAR, INTERACTION):
        for n in SIZES:
            for name, held in simulate(partial(_bands, case, n), runs).items():
                yield Line(case.name, name, n, held, COVERS)
    for case in (cases.Bent("gamma"), cases.Bent("lognormal")):
        for n in (80, 300):
            held = simulate(partial(_bands, case, n), runs)["band of PI, x0, whole curve"]
            yield Line(case.name, "band of PI, x0, whole curve", n, held, Bar(0.92))


def _bands(case: Case | cases.Bent, n: int, seed: int) -> Counted:
    X, y = drawn(case, n, seed)
    one = ll.feature_importance(case.predict, X, y, features=["x0"], donors="all", **HOW)["x0"]
    grid = np.asarray(one.grid, float)
    pi, pd = one.band(), one.effect.band()
    return {
        "band of PI, x0, whole curve": np.atleast_1d(within((pi.low, pi.high), case.pi(grid)).all()),
        "band of PD, x0, whole curve": np.atleast_1d(within((pd.low, pd.high), case.pd(grid)).all()),
    }


# -- tests ----------------------------------------------------------------------------------------------------------


def noise(runs: int) -> Iterator[Line]:
    """Features that are worth nothing, flagged at the 5 % level; OLS is fitted on 200 other rows."""
    for n in SIZES:
        found = simulate(partial(_noise, n), runs)
        power = " ".join(f"{100 * share:.0f} %" for share in found.pop("real").mean(axis=0))
        for name, held in found.items():
            bar = None if name.startswith(" ") else FLAGGED
            yield Line("OLS, 7 noise", name, n, held, bar, f"real features by p_value: {power}" if bar else "")
    for real, case in ((True, "OLS, 7 noise"), (False, "OLS, all noise")):
        held = simulate(partial(_permuted_target, real), min(runs, SLOW))["flagged"]
        note = f"{PERMUTATIONS} permutations, 2 folds"
        yield Line(case, "flagged by permuted_target_test", 100, held, FLAGGED, note)
    for n in SIZES:
        held = simulate(partial(_conditional, n), runs)["flagged"]
        note = "Gaussian sampler, correlation 0.7; the model uses the feature a little"
        yield Line("correlated", "flagged by conditional_predictive_impact", n, held, FLAGGED, note)
    for kind in ("steps", "counts", "binomial"):
        for n in (200, 500):
            for name, held in simulate(partial(_discrete, kind, n), runs).items():
                yield Line(f"discrete {kind}", name, n, held, Bar(high=0.07))


def _noise(n: int, seed: int) -> Counted:
    rng = np.random.default_rng([seed, n])
    model = LinearRegression().fit(*cases.with_noise(rng, TRAINED))
    imp = ll.feature_importance(model, *cases.with_noise(rng, n), donors="all", **HOW)
    p = np.array([f.p_value for f in imp.values()])
    useless = slice(len(REAL), None)
    return {
        "flagged by p_value": p[useless] < 0.05,
        "any flagged after Holm": np.atleast_1d(np.any(adjusted(p, "holm")[useless] < 0.05)),
        "real": p[: len(REAL)] < 0.05,
    }


def _permuted_target(real: bool, seed: int) -> Counted:
    X, y = cases.with_noise(np.random.default_rng([seed, real]), 100, real)
    test = permuted_target_test(LinearRegression(), X, y, permutations=PERMUTATIONS, cv=2, random_state=seed, **HOW)
    return {"flagged": test.p_values[len(REAL) if real else 0 :] <= 0.05 + ROUNDING}


def _conditional(n: int, seed: int) -> Counted:
    X, y = cases.correlated(np.random.default_rng([seed, n]), n)
    how = HOW | {"features": ["x2"], "random_state": seed}
    impact = conditional_predictive_impact(cases.uses_the_third, X, y, cases.gaussian_draw, **how)
    return {"flagged": impact.estimates().p_values() < 0.05}


def _discrete(kind: str, n: int, seed: int) -> Counted:
    """x1 tells nothing of y beyond x0: of a model that takes it for part of x0, and of one that was fitted."""
    rng = np.random.default_rng([seed, n])
    (X, y), (train, known) = (
        (some, some[:, 0] + 0.5 * some[:, 2] + 0.5 * rng.normal(size=len(some)))
        for some in (cases.discrete(kind, rng, n), cases.discrete(kind, rng, 300))
    )
    models = {
        "part of another": lambda X: X @ np.array([0.7, 0.3, 0.35]),
        "fitted": LinearRegression().fit(train, known),
    }
    return {
        f"flagged by CPI, Within(), {name}": ll.conditional_predictive_impact(
            model, X, y, features=[1], random_state=seed, **HOW
        ).estimates().p_values() < 0.05
        for name, model in models.items()
    }  # fmt: skip


# -- learners and peers ---------------------------------------------------------------------------------------------


def learner(runs: int) -> Iterator[Line]:
    """Refits: least squares is unbiased, so its expected PFI is E[2 b beta] = 2 beta^2.

    The corrected variance is approximate. A line for each feature with the jackknife, because the bar is for each one.
    """
    for name, held in simulate(partial(_learner, 200), runs).items():
        if "jackknife" not in name:
            each = " ".join(f"{100 * share:.1f}" for share in held.mean(axis=0))
            yield Line(LINEAR.name, name, 200, held, None, f"x0, x1, x2: {each}; meant: 92 to 99 %")
            continue
        for slope, one in zip(LINEAR.beta, held.T, strict=True):
            yield Line(LINEAR.name, f"{name}, slope {slope:g}", 200, one[:, None], AT_LEAST)


def _learner(n: int, seed: int) -> Counted:
    X, y = drawn(LINEAR, n, seed)
    found, how = {}, HOW | {"random_state": seed}
    splits = {"10 folds": 10, "10 splits, 1/4 tested": ShuffleSplit(10, test_size=0.25, random_state=seed)}
    for name, cv in splits.items():
        refits = ll.feature_importance_cv(LinearRegression(), X, y, cv=cv, **how)
        found[f"PFI of the learner, {name}"] = within(refits.interval(), 2 * np.square(LINEAR.beta))
    for name, verb in (("PFI", ll.feature_importance_cv), ("SFIMP", ll.shapley_importance_cv)):
        refits = verb(LinearRegression(), X, y, cv=10, variance="jackknife", **how)
        found[f"{name}, jackknife, 10 folds"] = within(refits.interval(), 2 * np.square(LINEAR.beta))
    return found


def left_out(runs: int) -> Iterator[Line]:
    """Least squares without a feature: the truth is that of these very fits, var(e) + b_0^2 + |b - beta|^2 each."""
    for n, folds in ((100, 5), (100, 10), (300, 5)):
        held = simulate(partial(_left_out, n, folds), runs)["held"]
        for slope, one in zip(LINEAR.beta, held.T, strict=True):
            bar = Bar(0.93) if slope == 0 else AT_LEAST
            yield Line(LINEAR.name, f"left out, {folds} folds, slope {slope:g}", n, one[:, None], bar)

    for name, learner, kind, loss in INFORMATIVE:
        for slope, bar in ((0.0, Bar(0.015, 0.06)), (0.15 if kind == "numbers" else 0.4, None)):
            held = simulate(
                partial(_informative, learner, kind, loss, slope), min(runs, SLOW) if name in SLOW_LEARNERS else runs
            )
            yield Line(name, f"left out, {loss}, slope {slope:g}: flagged", 200, held["flagged"], bar)


INFORMATIVE: tuple[tuple[str, Any, str, str], ...] = (
    ("ridge", Ridge(), "numbers", "squared_error"), ("ridge", Ridge(), "numbers", "absolute_error"),
    ("logit", LogisticRegression(), "classes", "log_loss"), ("logit", LogisticRegression(), "classes", "brier"),
    ("GLM", PoissonRegressor(alpha=1e-3), "counts", "poisson_deviance"),
    ("boosting", HistGradientBoostingRegressor(), "numbers", "squared_error"),
    ("boosting", HistGradientBoostingClassifier(max_iter=50), "classes", "log_loss"),
    ("small leaves", HistGradientBoostingRegressor(max_iter=40, min_samples_leaf=10), "numbers", "squared_error"),
    ("forest", RandomForestRegressor(50, min_samples_leaf=3), "numbers", "squared_error"),
    ("forest", RandomForestClassifier(50, min_samples_leaf=5), "classes", "log_loss"),
)  # fmt: skip


def _informative(learner: Any, kind: str, loss: str, slope: float, seed: int) -> Counted:
    """The last feature, or noise, left out; by the test at 5 %."""
    X, y = cases.nested(kind, slope, np.random.default_rng([seed, 200]), 200)
    found = ll.leave_one_covariate_out(learner, X, y, features=["x3"], loss=loss, random_state=seed, progress=False)
    return {"flagged": found.estimates().p_values() < 0.05}


def _left_out(n: int, folds: int, seed: int) -> Counted:
    X, y = drawn(LINEAR, n, seed)
    splits = list(KFold(folds, shuffle=True, random_state=seed).split(X))
    beta, every = np.array(LINEAR.beta), list(range(X.shape[1]))
    truth = np.zeros(len(every))
    for train, _ in splits:
        whole = _population_error(X[train], y[train], every, beta)
        without = [_population_error(X[train], y[train], [k for k in every if k != j], beta) for j in every]
        truth += (np.array(without) - whole) / folds
    found = ll.leave_one_covariate_out(LinearRegression(), X, y, cv=splits, **HOW)
    return {"held": within(found.interval(), truth)}


def _population_error(X: Floats, y: Floats, columns: list[int], beta: Floats) -> float:
    """Of least squares on some columns, fitted to these rows; beyond the noise of the target."""
    fitted, slopes = LinearRegression().fit(X[:, columns], y), np.zeros(len(beta))
    slopes[columns] = fitted.coef_
    return float(fitted.intercept_**2 + np.sum(np.square(slopes - beta)))


def good_models(runs: int) -> Iterator[Line]:
    """Ranges of importances over good models, whose errors chose them on the same rows."""
    bars = {"a truly good model left out": Bar(high=0.01), "  decided": None}
    for case in cases.MANY:
        for n in SIZES:
            for name, held in simulate(partial(_good_models, case, n), runs).items():
                yield Line(case.name, name, n, held, bars.get(name, Bar(high=0.05)))


def _good_models(case: cases.ManyModels, n: int, seed: int) -> Counted:
    X, y = case.draw(np.random.default_rng([seed, n]), n)
    found = ll.good_models(case.models, X, y, within=0.02, **HOW)
    error, importance, gain = case.truth
    good, margin = error <= error.min() + 0.02 * gain, found.margin * gain
    least, most = importance[good].min(axis=0), importance[good].max(axis=0)
    low, high = found.interval()
    need = np.array(list(found.need.values()))
    stays = np.isin(found.names, found.good)
    return {"  decided": need != "can't tell"} | {
        name: np.atleast_1d(np.any(held))
        for name, held in {
            "a truly good model left out": good & ~stays,
            "range of any feature missed": (low > least + ROUNDING) | (high < most - ROUNDING),
            "any false 'always'": (need == "always") & (least <= margin),
            "any false 'never'": (need == "never") & (most > margin),
        }.items()
    }  # fmt: skip


def peers(runs: int) -> Iterator[Line | str]:
    """The linear case again; its x2 is worth nothing to the model, which uses it a little."""
    few = min(runs, 500)
    asked = {"": (_ours, runs), "sklearn": (_sklearn, runs), "fippy": (_fippy, few), "hidimstat": (_hidimstat, few)}
    for n in SIZES:
        for name, (run, count) in asked.items():
            if name and not installed(name):
                yield f"{LINEAR.name:15}{name + ': not installed: pip install fippy hidimstat':43}"
                continue
            for number, held in simulate(partial(run, n), count).items():
                yield Line(LINEAR.name, number, n, held)


def installed(name: str) -> bool:
    """Whether a peer can be imported, with all that it needs."""
    try:
        import_module(name)
    except ImportError:
        return False
    return True


def _ours(n: int, seed: int) -> Counted:
    X, y = drawn(LINEAR, n, seed)
    imp = ll.feature_importance(LINEAR.estimator, X, y, donors="all", **HOW)
    refits = ll.feature_importance_cv(LinearRegression(), X, y, cv=5, random_state=seed, **HOW)
    return {
        "losslens: interval()": within(each_end([f.interval() for f in imp.values()]), LINEAR.pfi),
        "losslens: x2 flagged, p_value": np.atleast_1d(imp["x2"].p_value < 0.05),
        "losslens: x2 flagged, 5 refits": refits.estimates().p_values()[2:] < 0.05,
    }


def _sklearn(n: int, seed: int) -> Counted:
    """Its guide calls a feature important whose mean is more than two standard deviations of the repeats above 0."""
    X, y = drawn(LINEAR, n, seed)
    how: dict[str, Any] = {"scoring": "neg_mean_squared_error", "n_repeats": 30, "random_state": seed}
    found = permutation_importance(LINEAR.estimator, X, y, **how)
    mean, spread = found.importances_mean, found.importances_std
    return {
        "scikit-learn: mean ± 1.96 std of 30 repeats": within((mean - 1.96 * spread, mean + 1.96 * spread), LINEAR.pfi),
        "scikit-learn: x2 flagged, mean > 2 std": mean[2:] > 2 * spread[2:],
    }


def _fippy(n: int, seed: int) -> Counted:
    """Donors are the rows explained, as everywhere here; its own interval and test."""
    import pandas as pd

    Explainer, loss = import_module("fippy").Explainer, import_module("fippy.losses").squared_error
    X, y = drawn(LINEAR, n, seed)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    np.random.seed(seed)  # noqa: NPY002 - what it draws from
    with redirect_stderr(StringIO()):  # its bars
        found = Explainer(lambda rows: LINEAR.predict(rows.to_numpy()), frame, loss).pfi(frame, y, n_repeats=30)
    ends = found.ci()
    return {
        "fippy: ci(), 30 repeats": within((ends["lower"], ends["upper"]), LINEAR.pfi),
        "fippy: x2 flagged, test()": np.asarray(found.test()["p_value"])[2:] < 0.05,
    }


def _hidimstat(n: int, seed: int) -> Counted:
    """It has p-values and no intervals: over its 50 permutations, and over folds by Nadeau and Bengio's test."""
    peer, loss = import_module("hidimstat"), lambda true, told: np.mean(np.square(true - told))
    X, y = drawn(LINEAR, n, seed)
    with redirect_stderr(StringIO()):
        one = peer.PFI(LINEAR.estimator, loss=loss, random_state=seed)
        one.fit_importance(X, y)
        cv = KFold(5, shuffle=True, random_state=seed)
        folds = peer.PFICV(LinearRegression(), cv=cv, loss=loss, random_state=seed)
        folds.fit_importance(X, y)
    return {
        "hidimstat: x2 flagged, PFI": one.pvalues_[2:] < 0.05,
        "hidimstat: x2 flagged, PFICV, 5 refits": folds.pvalues_[2:] < 0.05,
    }


def scores(runs: int) -> Iterator[Line]:
    """Several scores of fitted models, and AUC and R2 of sums, of which more is known; sampled donors."""
    for case in score_cases.CASES:
        for name, held in simulate(partial(_score, case, case.model, case.importances), runs).items():
            yield Line(case.name, name, case.n, held, bar_for(case.n))
    for n in SIZES:
        for name, held in simulate(partial(_scores, n), runs).items():
            yield Line(LINEAR.name, name, n, held, bar_for(n // 3 if "a third" in name else n))


def _score(case: score_cases.ScoreCase, model: Any, truth: Any, seed: int) -> Counted:
    X, y, groups = case.draw(np.random.default_rng(10_000 + seed), case.n)
    imp = ll.feature_importance(model, X, y, loss=case.score, groups=groups, random_state=seed, progress=False)
    return {case.score: within(each_end([f.interval() for f in imp.values()]), truth)}


def _scores(n: int, seed: int) -> Counted:
    """Importances, the score itself, some of the rows, and two models: b, and b without its first feature.

    Sums f, the score, and z, with y = 1 where z > 0, have correlation r: ``AUC = 1/2 + 2 arcsin(r / sqrt 2) / pi``.

    That is 4 P(f1 > f0, z1 > 0, z0 < 0) of two rows: the orthant of three normal variables with correlations
    r / sqrt 2, r / sqrt 2 and 0. Replacing feature j takes b_j beta_j off the covariance. R2 loses PFI / var(y).
    """
    X, y = drawn(LINEAR, n, seed)
    b, beta = np.array(LINEAR.b), np.array(LINEAR.beta)
    other, var = b * (np.arange(len(b)) != 0), beta @ beta + cases.NOISE**2
    auc, less = (
        [0.5 + 2 / np.pi * np.arcsin((c @ beta - off) / np.sqrt(2 * c @ c * var)) for off in (0.0, *(c * beta))]
        for c in (b, other)
    )
    models = {"b": _classifier(b), "other": _classifier(other)}
    asked: dict[str, Any] = {"donors": ll.Latin(30), "random_state": seed, "progress": False}
    compared = ll.compare(models, X, (y > 0).astype(int), loss="roc_auc", shapley=False, **asked)
    ranked = compared.importances["b"]
    third = ranked.given(np.random.default_rng(seed).random(n) < 1 / 3)
    explained = ll.feature_importance(LINEAR.estimator, X, y, loss="r2", **asked)
    drop, gaps = auc[0] - np.array(auc[1:]), ((0, 1), (0, 2))
    apart = [(ranked.difference(f"x{j}", f"x{k}"), drop[j] - drop[k]) for j, k in gaps]
    of_models = [(compared.difference(f"x{j}", "b", "other"), drop[j] - (less[0] - less[j + 1])) for j in range(3)]
    scores = compared.error_difference("b", "other")
    return {
        "the AUC itself": np.atleast_1d(within(ranked.score_interval(), auc[0])),
        "the AUC, two models": np.array([bool(scores.low <= auc[0] - less[0] <= scores.high)]),
        "AUC, two models": np.array([bool(one.low <= truth <= one.high) for one, truth in of_models]),
        "AUC, a third of the rows": within(each_end([f.interval() for f in third.values()]), drop),
        "R2 itself": np.atleast_1d(
            within(explained.score_interval(), 1 - (np.sum((beta - b) ** 2) + cases.NOISE**2) / var)
        ),
        "AUC": within(each_end([f.interval() for f in ranked.values()]), drop),
        "AUC, differences": np.array([bool(one.low <= truth <= one.high) for one, truth in apart]),
        "R2": within(each_end([f.interval() for f in explained.values()]), LINEAR.pfi / var),
    }


def _classifier(b: Any) -> LogisticRegression:
    """Of two classes, by the sign of the sum."""
    made = LogisticRegression()
    made.classes_, made.coef_, made.intercept_ = np.array([0, 1]), b[None], np.zeros(1)
    return made


def gaps(runs: int) -> Iterator[Line]:
    """Differences in error between two groups of rows: the whole, and every line; clusters are left out as wholes.

    With donors as they are: what intervals cover where single pairs were not kept.
    """
    for case in cases.GAPS:
        bar = None if case.share < 0.1 else bar_for(case.n)
        for name, held in simulate(partial(_gaps, case), runs).items():
            yield Line(case.name, name, case.n, held, bar if not name.startswith(" ") else None)
        for counted in (_by,) if case.share < 0.1 else (_by, _sets):
            for name, held in simulate(partial(counted, case), runs).items():
                yield Line(case.name, name, case.n, held, bar)
    for case in cases.ALIKE:
        for name, held in simulate(partial(_no_gap, case), runs).items():
            judged = "Holm" in name and case.share > 0.1
            yield Line(case.name, name, case.n, held, FLAGGED if judged else None)


def _gaps(case: cases.TwoGroups, seed: int) -> Counted:
    gap, truth = _gap(case, seed), case.parts
    whole, fixed = gap.whole(), _gap(case, seed, memory="700 KiB") if case.cluster == 1 and case.n >= 300 else None
    plain = {} if fixed is None else {"  lines, donors as they are": within(fixed.interval(), truth)}
    return {
        "gap": np.atleast_1d(within((whole.low, whole.high), truth.sum())),
        "lines of the gap": within(gap.interval(), truth),
        **plain,
    }


def _gap(case: cases.TwoGroups, seed: int, **how: Any) -> Any:
    X, y, first, cluster = case.draw(np.random.default_rng([seed, case.n]))
    model = replace(LINEAR, b=case.b).estimator
    groups = None if case.cluster == 1 else cluster
    shares = ll.shapley_importance(model, X, y, method="rows", groups=groups, **(HOW | how))
    gap = shares.gap(first)
    assert bool(gap.remarks) == ("memory" in how)  # whether single pairs were kept
    return gap


def _by(case: cases.TwoGroups, seed: int) -> Counted:
    """Differences between the groups of `by`, whose rows have donors from both."""
    X, y, first, cluster = case.draw(np.random.default_rng([seed, case.n]))
    groups = None if case.cluster == 1 else cluster
    by = ll.feature_importance(replace(LINEAR, b=case.b).estimator, X, y, groups=groups, **HOW).by(
        np.where(first, "a", "b")
    )
    found = [by.error_difference("a", "b"), *(by.difference("a", "b", name) for name in by.features)]
    held = within(each_end([(one.low, one.high) for one in found]), case.given)
    return {"by: difference of errors": held[:1], "by: differences of PFI": held[1:]}


def _sets(case: cases.TwoGroups, seed: int) -> Counted:
    """One model on two sets of rows: in each, PFI is 2 b_j cov(r, x_j) + 2 b_j^2 = 2 b_j beta_j, whatever the means."""
    X, y, first, cluster = case.draw(np.random.default_rng([seed, case.n]))
    model = replace(LINEAR, b=case.b).estimator
    parts = [{"a": values[first], "b": values[~first]} for values in (X, y, cluster)]
    groups = None if case.cluster == 1 else parts[2]
    found = ll.compare(model, *parts[:2], shapley=False, groups=groups, **HOW)
    apart = [found.difference(f"x{j}", "a", "b") for j in range(len(case.b))]
    truth = 2 * np.array(case.b) * (np.array(case.beta[0]) - np.array(case.beta[1]))
    return {"PFI, differences of two sets of rows": within(each_end([(one.low, one.high) for one in apart]), truth)}


def _no_gap(case: cases.TwoGroups, seed: int) -> Counted:
    frame = _gap(case, seed).test()
    return {
        "lines flagged, groups alike": np.asarray(frame["p"])[np.argsort(frame["line"])] < 0.05,
        "any flagged after Holm, groups alike": np.atleast_1d(np.any(np.asarray(frame["p_adjusted"]) < 0.05)),
    }


def time(runs: int) -> Iterator[Line]:
    """Rows in time, autocorrelation .8: blocks of a given length, or of one chosen by `like=`; importance over time.

    Columns and noise are independent of each other, so the truth is that of independent rows, at all times.
    """
    for n in (300, 1000):
        for name, held in simulate(partial(_time, n), runs if n == 300 else min(runs, 400)).items():
            bar = FLAGGED if "flagged" in name else AT_LEAST
            yield Line("linear, AR(.8)", name, n, held, None if name.startswith(" ") else bar)
    for name, held in simulate(_same_hour, min(runs, 400)).items():
        yield Line("linear, AR(.8)", name, 960, held, None if name.startswith(" ") else AT_LEAST)
    for name, held in simulate(partial(_over, 300, None), runs).items():
        bar = FLAGGED if "flagged" in name else AT_LEAST
        yield Line(LINEAR.name, name, 300, held, None if name.startswith(" ") else bar)


def _time(n: int, seed: int) -> Counted:
    X, y = LINEAR.draw_in_time(np.random.default_rng([seed, n]), n, 0.8)
    single = ll.feature_importance(LINEAR.estimator, X, y, **HOW)
    chosen = ll.time_blocks(np.arange(n), like=single)
    found = {"  rows as if independent": within(each_end([f.interval() for f in single.values()]), LINEAR.pfi)}
    lengths = {"blocks of 25": 25, "blocks chosen, like=": chosen.length}
    if n == 300:
        theirs = np.ceil(chosen.length / LONGER)
        lengths |= {"  Politis and White's length": theirs, "  twice theirs": min(2 * theirs, n / FEWEST_BLOCKS)}
    for name, length in lengths.items():
        blocks = ll.time_blocks(np.arange(n), length)
        imp = ll.feature_importance(LINEAR.estimator, X, y, groups=blocks, **HOW)
        found[name] = within(each_end([f.interval() for f in imp.values()]), LINEAR.pfi)
    return found | (_over(n, chosen, seed) if n == 1000 else {})


def _same_hour(seed: int) -> Counted:
    """x0 also has the cycle of a day, which donors of the same hour share: it adds nothing to the importance."""
    n = 960
    X, y = LINEAR.draw_in_time(np.random.default_rng([seed, n]), n, 0.8)
    hour = np.arange(n) % 24
    cycle = 2 * np.sin(2 * np.pi * hour / 24)
    table, y = np.column_stack([X[:, 0] + cycle, X[:, 1:], hour]), y + LINEAR.beta[0] * cycle
    asked: dict[str, Any] = {"features": [0, 1, 2], "donors": ll.Within([3]), "random_state": seed}
    found = {}
    for name, groups in (
        ("the same hour, blocks of two days", ll.time_blocks(np.arange(n), 48)),
        ("  without blocks", None),
    ):
        imp = ll.feature_importance(lambda X: LINEAR.predict(X[:, :3]), table, y, groups=groups, **asked, **HOW)
        found[name] = within(each_end([f.interval() for f in imp.values()]), LINEAR.pfi)
    return found


def _over(n: int, blocks: Any, seed: int) -> Counted:
    """The importance never changes: the whole band holds it, and a step is a false alarm."""
    X, y = LINEAR.draw_in_time(np.random.default_rng([seed, n]), n, 0.0 if blocks is None else 0.8)
    imp = ll.feature_importance(LINEAR.estimator, X, y, groups=blocks, **HOW)
    over = imp.over(np.arange(n))
    found = {
        "over time, whole band": within((over.low, over.high), LINEAR.pfi).all(axis=0),
        "over time, a step flagged": over.p < 0.05,
    }
    if blocks is None:
        short = imp.over(np.arange(n), bins=10)
        found["  the same, ten stretches of 30 rows"] = within((short.low, short.high), LINEAR.pfi).all(axis=0)
    return found


PARTS: dict[str, Callable[[int], Iterator[Any]]] = {
    "intervals": intervals, "scores": scores, "designs": designs, "bands": bands, "noise": noise, "learner": learner,
    "left_out": left_out, "good_models": good_models, "gaps": gaps, "time": time, "peers": peers,
}  # fmt: skip


def main() -> None:
    """Print the table."""
    print_table("coverage", __doc__, PARTS)


def print_table(name: str, doc: str | None, parts: dict[str, Callable[[int], Iterator[Any]]]) -> None:
    """The parts that the command line asks for, line by line."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=doc)
    parser.add_argument("--only", default="", help=f"some of {', '.join(parts)}")
    parser.add_argument("--quick", action="store_true", help="few simulations: nothing is held to a bar")
    parser.add_argument("--simulations", type=int, default=None, help="a line; 1000 unless told")
    parser.add_argument("--jobs", type=int, default=2, help="processes; 2 unless told")
    asked = parser.parse_known_args()[0]
    chosen = [word for word in asked.only.split(",") if word] or list(parts)
    if not set(chosen) <= set(parts):
        parser.error(f"--only takes some of {', '.join(parts)}")
    runs = asked.simulations or (50 if asked.quick else 1000)
    print(HEAD)
    with parallel_config(n_jobs=asked.jobs):
        for part in chosen:
            for line in parts[part](runs):
                print(line, flush=True)


if __name__ == "__main__":
    main()
