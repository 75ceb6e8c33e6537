"""What exact importances of all features cost, model by model: the numbers of the table in docs/engines.md.

Processor time of one thread, as a multiple of one prediction of all rows by the model itself: medians of three rounds,
interleaved, after a warm-up. 10,000 rows, 10 columns, each model's default loss. Some minutes; `--only ridge`
takes the models whose names hold a word.

`--sampled` compares with `donors="auto"` through the model instead, where no engine is allowed to read it: 10,000 rows,
20 columns, every family of losses, the second call of each. An exact way has its place where it is at least three
times as fast. About half an hour; models that no engine reads have no line.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from copy import copy
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np
from sklearn import ensemble, naive_bayes, svm, tree
from sklearn import linear_model as linear
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import make_friedman1
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

import losslens as ll
from benchmarks.lines import in_one_thread, short

FITTED, EXPLAINED, COLUMNS, ROUNDS = 2_000, 10_000, 10, 3
WIDER, FASTER = 20, 3  # columns where it is compared with a sample, and how many times as fast it must be there
LOSSES: dict[str | int, tuple[str, ...]] = {
    "values": ("squared_error", "absolute_error"),
    "counts": ("squared_error", "absolute_error", "poisson_deviance", "gamma_deviance"),
    2: ("log_loss", "brier", "zero_one"),
    3: ("log_loss", "brier", "zero_one"),
}
FOREST, BOOSTING = ensemble.RandomForestRegressor(100, random_state=0), ensemble.HistGradientBoostingRegressor()
CLASSIFIER = ensemble.HistGradientBoostingClassifier()
KERNEL = RBF(0.7) + WhiteKernel()
LOGISTIC, DISCRIMINANT = linear.LogisticRegression(max_iter=1000), LinearDiscriminantAnalysis()

# name, model, target: values, counts, or so many classes
MODELS: list[tuple[str, Any, str | int]] = [
    ("decision tree", tree.DecisionTreeRegressor(min_samples_leaf=5, random_state=0), "values"),
    ("random forest", FOREST, "values"),
    ("random forest, 3 classes", ensemble.RandomForestClassifier(100, random_state=0), 3),
    ("gradient boosting", ensemble.GradientBoostingRegressor(random_state=0), "values"),
    ("histogram boosting", BOOSTING, "values"),
    ("histogram boosting, 2 classes", CLASSIFIER, 2),
    ("bagging of trees", ensemble.BaggingRegressor(n_estimators=100, random_state=0), "values"),
    ("voting, boosting and forest", ensemble.VotingRegressor([("a", BOOSTING), ("b", FOREST)]), "values"),
    ("transformed target, boosting", TransformedTargetRegressor(BOOSTING, func=np.log, inverse_func=np.exp), "counts"),
    ("calibrated boosting, 5 folds", CalibratedClassifierCV(CLASSIFIER), 2),
    ("calibrated boosting, one sigmoid", CalibratedClassifierCV(CLASSIFIER, ensemble=False), 2),
    ("calibrated boosting, isotonic", CalibratedClassifierCV(CLASSIFIER, method="isotonic"), 2),
    ("calibrated boosting, 3 classes", CalibratedClassifierCV(CLASSIFIER), 3),
    ("calibrated forest, 5 folds", CalibratedClassifierCV(ensemble.RandomForestClassifier(random_state=0)), 2),
    ("threshold of boosting", FixedThresholdClassifier(CLASSIFIER, threshold=0.3), 2),
    ("tuned threshold of boosting", TunedThresholdClassifierCV(CLASSIFIER), 2),
    ("ridge", linear.Ridge(), "values"),
    ("splines and ridge", make_pipeline(SplineTransformer(), linear.Ridge()), "values"),
    ("bagging of ridge", ensemble.BaggingRegressor(linear.Ridge(), 10, random_state=0), "values"),
    ("voting of ridge and lasso", ensemble.VotingRegressor([("a", linear.Ridge()), ("b", linear.LassoCV())]), "values"),
    (
        "transformed target, ridge",
        TransformedTargetRegressor(linear.Ridge(), func=np.log, inverse_func=np.exp),
        "counts",
    ),
    ("log(1 + y), ridge", TransformedTargetRegressor(linear.Ridge(), func=np.log1p, inverse_func=np.expm1), "values"),
    ("scaled target, ridge", TransformedTargetRegressor(linear.Ridge(), transformer=StandardScaler()), "values"),
    ("logistic regression", LOGISTIC, 2),
    ("logistic regression, 3 classes", LOGISTIC, 3),
    ("splines, logistic regression, 3 classes", make_pipeline(SplineTransformer(), LOGISTIC), 3),
    ("one against the rest, 3 classes", OneVsRestClassifier(LOGISTIC), 3),
    ("discriminant analysis", DISCRIMINANT, 2),
    ("bagging of logistic regressions", ensemble.BaggingClassifier(LOGISTIC, 10, random_state=0), 2),
    ("voting of odds", ensemble.VotingClassifier([("a", LOGISTIC), ("b", DISCRIMINANT)], voting="soft"), 2),
    ("calibrated line, one sigmoid", CalibratedClassifierCV(svm.LinearSVC(), ensemble=False), 2),
    ("calibrated lines, 5 folds", CalibratedClassifierCV(svm.LinearSVC()), 2),
    ("threshold of a line", FixedThresholdClassifier(LOGISTIC, threshold=0.3), 2),
    ("linear machine, scores", svm.LinearSVC(), 2),
    ("naive Bayes", naive_bayes.GaussianNB(), 2),
    ("naive Bayes, 3 classes", naive_bayes.GaussianNB(), 3),
    ("Bernoulli, 3 classes", naive_bayes.BernoulliNB(binarize=0.5), 3),
    ("Poisson regression", linear.PoissonRegressor(), "counts"),
    ("gamma regression", linear.GammaRegressor(), "counts"),
    ("SVR", svm.SVR(), "values"),
    ("SVC, scores", svm.SVC(), 2),
    ("kernel ridge", KernelRidge(kernel="rbf", gamma=0.1), "values"),
    ("Gaussian process", GaussianProcessRegressor(KERNEL, optimizer=None), "values"),
]


def further() -> list[tuple[str, Any, str | int]]:
    """Models of the other libraries that are installed."""
    found: list[tuple[str, Any, str | int]] = []
    if find_spec("xgboost"):
        from xgboost import XGBRegressor

        found.append(("XGBoost", XGBRegressor(n_jobs=1, random_state=0), "values"))
    if find_spec("lightgbm"):
        from lightgbm import LGBMRegressor

        found.append(("LightGBM", LGBMRegressor(n_jobs=1, random_state=0, verbose=-1), "values"))
    if find_spec("catboost"):
        from catboost import CatBoostRegressor

        options = {"iterations": 100, "thread_count": 1, "random_seed": 0, "verbose": 0, "allow_writing_files": False}
        found.append(("CatBoost", CatBoostRegressor(**options), "values"))
    if find_spec("interpret"):
        from interpret.glassbox import ExplainableBoostingRegressor

        for pairs in (0, 5):
            name = f"explainable boosting, {pairs or 'no'} pairs"
            found.append((name, ExplainableBoostingRegressor(interactions=pairs, n_jobs=1), "values"))
    return found


def target(y: Any, kind: str | int) -> Any:
    """Friedman's values; counts; or their equal parts as classes."""
    if kind == "values":
        return y
    if kind == "counts":
        return np.maximum(np.round(y), 1)
    assert isinstance(kind, int)
    return np.searchsorted(np.quantile(y, np.arange(1, kind) / kind), y)


def spent(call: Callable[[], Any]) -> float:
    """Seconds of processor time."""
    started = time.process_time()
    call()
    return time.process_time() - started


def fitted(model: Any, kind: str | int, columns: int) -> tuple[Any, Any]:
    """Rows that the model was not fitted to, and their targets."""
    X, values = make_friedman1(FITTED + EXPLAINED, columns, noise=1.0, random_state=0)
    y = target(values, kind)
    model.fit(X[:FITTED], y[:FITTED])
    return X[FITTED:], y[FITTED:]


def row(name: str, model: Any, kind: str | int) -> str:
    """One line of a Markdown table: the model, its engine and loss, one prediction, the cost in these."""
    X, y = fitted(model, kind, COLUMNS)
    loss = "hinge" if "scores" in name else None
    predict = model.decision_function if loss else model.predict_proba if isinstance(kind, int) else model.predict

    def explain() -> Any:
        return ll.feature_importance(model, X, y, loss=loss, n_jobs=1, progress=False)

    result = explain()
    predict(X)
    pairs = [(spent(explain), spent(lambda: predict(X))) for _ in range(ROUNDS)]
    ours, own = (median(column) for column in zip(*pairs, strict=True))
    ratio = median(a / b for a, b in pairs)
    return (
        f"| {name} | {engine_of(result)} | {result.loss.title} | {short(1000 * own)} ms | {short(1000 * ours)} ms | "
        f"{short(ratio)} |"
    )


def engine_of(result: Any) -> str:
    """Its name, or that the numbers are sampled."""
    return str(result.engine) if result.exact and not result.declined else f"SAMPLED by {result.engine}"


def unread(model: Any) -> Any:
    """The same model as an instance of a class that no reader takes."""
    other = copy(model)
    other.__class__ = type(type(model).__name__, (type(model),), {"__module__": __name__})
    return other


def compared(name: str, model: Any, kind: str | int) -> Iterator[str]:
    """Lines of a Markdown table: the seconds of an engine and of a sample through the model, a loss at a time."""
    X, y = fitted(model, kind, WIDER)
    for loss in ("hinge",) if "scores" in name else LOSSES[kind]:
        seconds = []
        for one in (model, unread(model)):

            def explain(one: Any = one, rows: int = EXPLAINED, loss: str = loss) -> Any:
                result = ll.feature_importance(one, X[:rows], y[:rows], loss=loss, n_jobs=1, progress=False)
                result.to_frame()  # values and intervals
                return result

            if (engine := engine_of(explain(rows=500))).startswith("SAMPLED") and one is model:
                break
            seconds.append(spent(explain))
            if seconds[-1] < 1:
                seconds[-1] = median([spent(explain) for _ in range(ROUNDS)])
            if one is model:
                exact = engine
        else:
            ours, sampled = seconds
            verdict = "stays" if sampled >= FASTER * ours else "GOES"
            cells = (name, exact, loss, f"{short(ours)} s", f"{short(sampled)} s", short(sampled / ours), verdict)
            yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the models' names")
    parser.add_argument("--sampled", action="store_true", help="compare with a sample through the model")
    options = parser.parse_args()
    in_one_thread("benchmarks.costs")
    header = ("one prediction", "all features, exact", "predictions")
    if options.sampled:
        header = ("exact", "sampled", "times as fast", "verdict")
    print(f"| model | engine | loss | {' | '.join(header)} |\n|---|---|---|{'---:|' * len(header)}")
    for name, model, kind in [*MODELS, *further()]:
        if options.only in name:
            for line in compared(name, model, kind) if options.sampled else [row(name, model, kind)]:
                print(line, flush=True)


if __name__ == "__main__":
    main()
