"""Exact engines against their named peers, as ratios measured in one run on the same fitted model.

One thread on both sides, interleaved, medians of three rounds after a warm-up. About 9 minutes on two quiet cores;
`--quick` takes one round, `--only 1,3,7` some parts; 11, a million rows, and 12, equality with brute force, run when
they are asked for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from math import log10
from typing import Any

import numpy as np
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression

import losslens as ll
from benchmarks import peers
from benchmarks.lines import Line, run
from benchmarks.peers import ENGINE, explain, fitted, interleaved, permute, rows

# line, model, rows fitted on and rows explained, features, bar, repeats of scikit-learn that are timed (of 5)
PERMUTED = (
    (1, "forest", 1_000, 13, 10, 5),
    (1, "forest", 10_000, 13, 7.5, 5),
    (2, "boosting", 1_000, 13, 20, 5),
    (2, "boosting", 10_000, 13, 28, 5),
    (3, "LightGBM", 10_000, 13, 35, 5),
    (3, "XGBoost", 10_000, 13, 7, 5),
    (3, "CatBoost", 10_000, 13, 5, 5),
    (3, "CatBoost", 10_000, 30, 5, 5),
    (4, "forest", 2_000, 200, 50, 1),
    (4, "boosting", 2_000, 200, 50, 1),
    (9, "SVR", 1_000, 13, 2.5, 5),
)

# model, scoring, bar
DROPPED_IN = (
    ("boosting", None, 15),
    ("LightGBM", None, 15),
    ("XGBoost", None, 5),
    ("forest", None, 5),
    ("boosting", "neg_mean_absolute_error", 15),
    ("boosted classifier", None, 15),
    ("boosted classifier", "roc_auc", 15),
    ("forest classifier", None, 5),
)
DROPPED_IN_CLASSIFIERS = {"boosted classifier": "boosting", "forest classifier": "forest"}

# model, rows explained, threads, bar
CORES = (
    ("forest", 10_000, 2, 1.8),
    ("boosting", 10_000, 2, 1.8),
    ("forest", 100_000, 16, 10),
    ("boosting", 100_000, 16, 6),
)


def permutations(line: int, rounds: int) -> Iterator[Line]:
    """All features against scikit-learn's permutations."""
    for _, name, n, p, bar, repeats in (case for case in PERMUTED if case[0] == line):
        work, against = f"exact, {name}, n = {n:,}, p = {p}", "permutation_importance, 5 repeats"
        try:
            model, (_, _, X, y) = fitted(name, n, p), rows(n, n, p)
        except ModuleNotFoundError:
            yield Line(work, against, bar=bar, unit="x", at_least=True, missing="not installed")
            continue
        explain(model, X, y, ENGINE[name])
        permute(model, X[:100], y[:100], 1)
        found = interleaved(
            lambda m=model, X=X, y=y, e=ENGINE[name]: explain(m, X, y, e),
            lambda m=model, X=X, y=y, r=repeats: permute(m, X, y, r),
            rounds,
            5 / repeats,
        )
        note = found.note + ("" if repeats == 5 else f" (5 x {repeats} repeat)")
        yield Line(work, against, found.ratio, bar, note, "x", at_least=True)


def curves(rounds: int, n: int = 1_000, values: int = 50) -> Iterator[Line]:
    """Full ICI matrices against scikit-learn's ICE curves."""
    model, (_, _, X, y) = fitted("forest", n), rows(n, n)

    def ours() -> None:
        for feature in explain(model, X, y, "trees").values():
            assert feature.ici.shape == (n, n)

    ours()
    peers.individual_curves(model, X, 2)
    found = interleaved(ours, lambda: peers.individual_curves(model, X, values), rounds, X.shape[1] * len(X) / values)
    note = f"{found.note} ({values} values of 1 feature, x {X.shape[1] * n // values})"
    work = f"13 full ICI matrices, forest, n = {n:,}"
    yield Line(work, "partial_dependence(individual)", found.ratio, 400, note, "x", at_least=True)


def growth(rounds: int, n: int = 10_000) -> Iterator[Line]:
    """The exponent from 10^4 to 10^5 rows."""
    for name in ("forest", "boosting"):
        model, (_, _, X, y) = fitted(name, n), rows(n, 10 * n)
        explain(model, X[:100], y[:100], "trees")
        found = interleaved(
            lambda m=model, X=X, y=y: explain(m, X[:n], y[:n], "trees"),
            lambda m=model, X=X, y=y: explain(m, X, y, "trees"),
            rounds,
        )
        work = f"growth, {name}, n = 10^4 to 10^5"
        yield Line(work, "itself: log10 of the ratio", log10(found.ratio), 1.05, found.note)


def additive(rounds: int, n: int = 1_000_000, p: int = 50) -> Iterator[Line]:
    """A linear model against one bare predict."""
    X_fit, y_fit, X, y = rows(10_000, n, p)
    model = peers.unfitted("linear").fit(X_fit, y_fit)
    model.predict(X)
    explain(model, X, y, "additive")
    found = interleaved(lambda: explain(model, X, y, "additive"), lambda: model.predict(X), rounds)
    work = f"exact, linear, n = {n:,}, p = {p}"
    yield Line(work, "one predict: its time, times", 1 / found.ratio, 3, found.note, "x")


def linked(rounds: int, n: int = 100_000, p: int = 20) -> Iterator[Line]:
    """Logistic regression against scikit-learn's permutations, on one core and on two, and a million rows."""
    X_fit, y_fit, X, y = rows(10_000, 10 * n, 30)
    middle = float(np.median(y_fit))
    model = LogisticRegression(max_iter=1000).fit(X_fit[:, :p], y_fit > middle)
    wide = LogisticRegression(max_iter=1000).fit(X_fit, y_fit > middle)
    some, label = np.ascontiguousarray(X[:n, :p]), y > middle

    def ours(model: Any, X: Any, n_jobs: int) -> None:
        found = ll.feature_importance(model, X, label[: len(X)], n_jobs=n_jobs, progress=False)
        if found.engine != "link":
            raise peers.OtherEngineError(f"{found.engine} has answered: {found.declined}")
        assert all(one.local.shape == (len(X),) and np.isfinite(one.pfi) for one in found.values())

    def theirs(n_jobs: int) -> None:
        options = {"scoring": "neg_log_loss", "n_repeats": 5, "random_state": 0, "n_jobs": n_jobs}
        permutation_importance(model, some, label[:n], **options)

    ours(model, some[:1000], 2)
    for n_jobs in (1, 2):
        found = interleaved(lambda k=n_jobs: ours(model, some, k), lambda k=n_jobs: theirs(k), rounds)
        work = f"exact, logistic, n = {n:,}, p = {p}, n_jobs={n_jobs}"
        yield Line(work, "permutation_importance, 5 repeats", found.ratio, 10, found.note, "x", at_least=True)
    found = interleaved(lambda: ours(wide, X, 1), lambda: wide.predict_proba(X), rounds)
    work = f"exact, logistic, n = {10 * n:,}, p = 30"
    yield Line(work, "30 predictions of all rows: times", 1 / found.ratio / 30, 3, found.note, "x")


def scores(rounds: int, p: int = 20) -> Iterator[Line]:
    """Scores against their losses, against scikit-learn's repeats, and against predictions alone, CPU time."""
    yield from scores_of_losses(rounds, 2_000, p)
    yield from labels(rounds, 1_000, p)
    for n in (1_000, 10_000):
        yield from pooled(rounds, n, p)
    yield from metric_calls(rounds, 1_000, p)


def of_classes(model: Any, n: int, p: int, classes: int) -> tuple[Any, Any, Any]:
    """A model fitted to classes of about one size, and other rows."""
    X_fit, y_fit, X, y = rows(n, n, p)
    cuts = np.quantile(y_fit, np.arange(1, classes) / classes)
    return model.fit(X_fit, np.digitize(y_fit, cuts)), X, np.digitize(y, cuts)


def scores_of_losses(rounds: int, n: int, p: int) -> Iterator[Line]:
    """A score that is a function of a mean loss costs what the loss costs."""
    X_fit, y_fit, X, y = rows(n, n, p)
    for name in ("boosting", "forest"):
        model = peers.unfitted(name).fit(X_fit, y_fit)
        for score, loss in (("r2", "squared_error"), ("neg_mean_absolute_error", "absolute_error")):
            ask = partial(ll.feature_importance, model, X, y, n_jobs=1, progress=False)
            ask(loss=score)
            found = interleaved(
                lambda a=ask, s=score: a(loss=s), lambda a=ask, s=loss: a(loss=s), rounds, clock=time.process_time
            )
            yield Line(f"{score}, {name}, n = {n:,}, p = {p}", f"{loss}: its time, times", 1 / found.ratio, 1.5,
                       found.note, "x")  # fmt: skip


def labels(rounds: int, n: int, p: int) -> Iterator[Line]:
    """Labels of three classes, some of which tie."""
    for name in ("boosting", "forest", "LightGBM", "XGBoost", "CatBoost"):
        against = "permutation_importance, 5 repeats"
        try:
            model, X, y = of_classes(peers.classifier(name), n, p, 3)
        except ModuleNotFoundError:
            yield Line(f"accuracy, {name}", against, bar=1, unit="x", at_least=True, missing="not installed")
            continue
        for loss in ("accuracy", "zero_one"):
            yield _repeats(f"{loss}, {name}, 3 classes", model, X, y, loss, "accuracy", 5, 1, rounds)


def pooled(rounds: int, n: int, p: int) -> Iterator[Line]:
    """Scores of all pairs: importances of an AUC; of the others with their errors."""
    model, X, y = of_classes(peers.classifier("boosting"), n, p, 2)
    yield _repeats("roc_auc, boosting", model, X, y, "roc_auc", "roc_auc", 5, 10, rounds)
    for score in ("average_precision", "f1", "matthews_corrcoef"):
        yield _repeats(f"{score}, boosting, errors", model, X, y, score, score, 10, 1, rounds, errors=True)


def _repeats(
    work: str, model: Any, X: Any, y: Any, loss: str, scoring: str, repeats: int, bar: float, rounds: int, *,
    errors: bool = False,
) -> Line:  # fmt: skip
    """One loss or score against scikit-learn's repeats of a score."""

    def ours() -> None:
        found = ll.feature_importance(model, X, y, loss=loss, n_jobs=1, progress=False)
        assert found.engine == "trees"
        assert all(np.isfinite(one.pfi) and (not errors or one.std_error >= 0) for one in found.values())

    def theirs() -> None:
        permutation_importance(model, X, y, scoring=scoring, n_repeats=repeats, random_state=0, n_jobs=1)

    ours()
    found = interleaved(ours, theirs, rounds, clock=time.process_time)
    work, against = f"{work}, n = {len(X):,}, p = {X.shape[1]}", f"permutation_importance, {repeats} repeats"
    return Line(work, against, found.ratio, bar, found.note, "x", at_least=True)


def metric_calls(rounds: int, n: int, p: int) -> Iterator[Line]:
    """A score of a model that no engine reads: its predictions, and 30 calls of the metric a feature."""
    from sklearn.metrics import median_absolute_error

    X_fit, y_fit, X, y = rows(n, n, p)
    model = peers.unfitted("MLP").fit(X_fit, y_fit)
    ask = partial(ll.feature_importance, model, X, y, loss="neg_median_absolute_error", n_jobs=1, progress=False)
    asked, batch, predicted = ask().n_predictions, np.resize(X, (10_000, p)), model.predict(X)

    def alone() -> None:
        for start in range(0, asked, len(batch)):
            model.predict(batch[: asked - start])
        for _ in range(30 * p):
            median_absolute_error(y, predicted)

    found = interleaved(lambda: [one.pfi for one in ask().values()], alone, rounds, clock=time.process_time)
    work = f"neg_median_absolute_error, MLP, n = {n:,}, p = {p}"
    yield Line(work, "predictions, 30 calls a feature: times", 1 / found.ratio, 1.3, found.note, "x")


def threads(rounds: int) -> Iterator[Line]:
    """Two threads against one, and sixteen; means something on idle cores alone."""
    for name, n, jobs, bar in CORES:
        work = f"n_jobs={jobs}, {name}, n = {n:,}"
        if (os.cpu_count() or 1) < jobs:
            yield Line(work, "n_jobs=1", bar=bar, unit="x", at_least=True, missing=f"needs {jobs} cores")
            continue
        model, (_, _, X, y) = fitted(name, 10_000), rows(10_000, n)
        explain(model, X[:1000], y[:1000], "trees", jobs)
        found = interleaved(
            lambda m=model, X=X, y=y, jobs=jobs: explain(m, X, y, "trees", jobs),
            lambda m=model, X=X, y=y: explain(m, X, y, "trees", 1),
            rounds,
        )
        yield Line(work, "n_jobs=1", found.ratio, bar, found.note, "x", at_least=True)


def a_million(_: int) -> Iterator[Line]:
    """A million rows in a process of its own; information, no bar."""
    found = peers.in_process("large")
    note = found.get("failed") or f"peak {found['peak'] / 2**20:.0f} MiB above the data's {found['data'] / 2**20:.0f}"
    work, took = "exact, boosting, n = 1,000,000, p = 13", found.get("seconds", np.nan)
    yield Line(work, "memory='1 GiB'", took, None, note, "s")


def brute_force(_: int, n: int = 60) -> Iterator[Line]:
    """How far exact numbers are from means over all pairs of the model's own predictions."""
    for name, engine in ENGINE.items():
        model, (_, _, X, y) = fitted(name, 1_000), rows(1_000, n)
        base = float(np.mean(np.square(y - model.predict(X))))
        truth = np.array([peers.replaced(model, X, y, [j]) - base for j in range(X.shape[1])])
        found = np.array([feature.pfi for feature in explain(model, X, y, engine).values()])
        gap = float(np.abs(found - truth).max() / truth.max())
        bar = 1e-5 if name == "XGBoost" else 1e-9  # XGBoost adds up in float32
        yield Line(f"exact, {name}, n = {n}", "brute force: relative difference", gap, bar)


def drop_in(rounds: int, n: int = 2_000, p: int = 20) -> Iterator[Line]:
    """`losslens.sklearn.permutation_importance` against the function whose place it takes, CPU time of one thread."""
    from losslens.sklearn import permutation_importance as ours

    for name, scoring, bar in DROPPED_IN:
        work = f"drop-in, {name}, {scoring or 'score'}, n = {n:,}, p = {p}"
        against = "permutation_importance, 5 repeats"
        try:
            X_fit, y_fit, X, y = rows(n, n, p)
            kind = DROPPED_IN_CLASSIFIERS.get(name)
            model = peers.unfitted(name) if kind is None else peers.classifier(kind)
            middle = float(np.median(y_fit))
            y_fit, y = (y_fit, y) if kind is None else (y_fit > middle, y > middle)
            model.fit(X_fit, y_fit)
        except ModuleNotFoundError:
            yield Line(work, against, bar=bar, unit="x", at_least=True, missing="not installed")
            continue
        options = {"scoring": scoring, "random_state": 0, "n_jobs": 1}
        ours(model, X, y, **options)
        found = interleaved(
            lambda m=model, X=X, y=y, o=options: ours(m, X, y, **o).importances_mean,
            lambda m=model, X=X, y=y, o=options: permutation_importance(m, X, y, **o),
            rounds,
            clock=time.process_time,
        )
        yield Line(work, against, found.ratio, bar, found.note, "x", at_least=True)


def designs(rounds: int, n: int = 2_000, p: int = 20) -> Iterator[Line]:
    """Designs of some pairs, which engines read off their curves, against all pairs, CPU time of one thread."""
    X_fit, y_fit, X, y = rows(n, n, p)
    quiet = {"n_jobs": 1, "progress": False}
    for name in ("boosting", "forest", "linear"):
        model = peers.unfitted(name).fit(X_fit, y_fit)
        for verb, design in (
            ("feature_effect", ll.Grid(50)), ("feature_effect", ll.Grid(values=np.linspace(-2, 2, 50))),
            ("feature_importance", ll.Grid(50)), ("feature_importance", ll.Permutations(5)),
            ("feature_importance", ll.Latin(5)),
        ):  # fmt: skip
            target = (y,) if verb == "feature_importance" else ()
            ask = partial(getattr(ll, verb), model, X, *target, **quiet)
            ask(donors=design)
            ask()
            found = interleaved(lambda a=ask, d=design: a(donors=d), ask, rounds, clock=time.process_time)
            drawn = "Grid(values=[50 values])" if design.values else repr(design)
            work = f"{verb}, {drawn}, {name}, n = {n:,}, p = {p}"
            bar = None if name == "linear" else 1.5  # all pairs of a sum are a covariance: no curve, some milliseconds
            yield Line(work, "all pairs: its time, times", 1 / found.ratio, bar, found.note, "x")


ROUNDS: dict[int, Callable[[int], Iterator[Line]]] = {
    **{line: partial(permutations, line) for line in (1, 2, 3, 4, 9)},
    5: curves,
    6: growth,
    7: additive,
    10: threads,
    11: a_million,
    12: brute_force,
    13: linked,
    14: scores,
    15: drop_in,
    16: designs,
}


def _measured(part: Callable[[int], Iterator[Line]], quick: bool) -> Iterator[Line]:
    """One round or three; an engine that declines is a miss, and the other parts are still worth knowing."""
    try:
        yield from part(1 if quick else 3)
    except peers.OtherEngineError as error:
        yield Line(str(error), "", missing="MISS")


PARTS = {number: partial(_measured, part) for number, part in sorted(ROUNDS.items())}

if __name__ == "__main__":
    run("benchmarks.engines", __doc__, PARTS, set(PARTS) - {11, 12})
