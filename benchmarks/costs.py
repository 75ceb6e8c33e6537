"""What exact importances of all features cost, model by model: the numbers of the table in docs/engines.md.

Processor time of one thread, as a multiple of one prediction of all rows by the model itself: medians of three rounds,
interleaved, after a warm-up. 10,000 rows, 10 columns, each model's default loss. About three minutes; `--only ridge`
takes the models whose names hold a word.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
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
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

import losslens as ll
from benchmarks.lines import in_one_thread, short

FITTED, EXPLAINED, COLUMNS, ROUNDS = 2_000, 10_000, 10, 3
FOREST, BOOSTING = ensemble.RandomForestRegressor(100, random_state=0), ensemble.HistGradientBoostingRegressor()
CLASSIFIER = ensemble.HistGradientBoostingClassifier()
KERNEL = RBF(np.full(COLUMNS, 0.7)) + WhiteKernel()

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
    ("ridge", linear.Ridge(), "values"),
    ("splines and ridge", make_pipeline(SplineTransformer(), linear.Ridge()), "values"),
    ("logistic regression", linear.LogisticRegression(max_iter=1000), 2),
    ("logistic regression, 3 classes", linear.LogisticRegression(max_iter=1000), 3),
    ("discriminant analysis", LinearDiscriminantAnalysis(), 2),
    ("naive Bayes", naive_bayes.GaussianNB(), 2),
    ("Poisson regression", linear.PoissonRegressor(), "counts"),
    ("gamma regression", linear.GammaRegressor(), "counts"),
    ("SVR", svm.SVR(), "values"),
    ("SVC, scores", svm.SVC(), 2),
    ("Gaussian process", GaussianProcessRegressor(KERNEL, optimizer=None), "values"),
    ("Nystroem and ridge", make_pipeline(StandardScaler(), Nystroem(random_state=0), linear.Ridge()), "values"),
    ("polynomial and ridge", make_pipeline(PolynomialFeatures(), linear.Ridge()), "values"),
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


def row(name: str, model: Any, kind: str | int) -> str:
    """One line of a Markdown table: the model, its engine and loss, one prediction, the cost in these."""
    X, values = make_friedman1(FITTED + EXPLAINED, COLUMNS, noise=1.0, random_state=0)
    y = target(values, kind)
    model.fit(X[:FITTED], y[:FITTED])
    X, y = X[FITTED:], y[FITTED:]
    loss = "hinge" if "scores" in name else None
    predict = model.decision_function if loss else model.predict_proba if isinstance(kind, int) else model.predict

    def explain() -> Any:
        return ll.feature_importance(model, X, y, loss=loss, n_jobs=1, progress=False)

    found = explain()
    predict(X)
    pairs = [(spent(explain), spent(lambda: predict(X))) for _ in range(ROUNDS)]
    ours, own = (median(column) for column in zip(*pairs, strict=True))
    ratio = median(a / b for a, b in pairs)
    told = found.engine if found.exact and not found.declined else f"SAMPLED by {found.engine}"
    return (
        f"| {name} | {told} | {found.loss.title} | {short(1000 * own)} ms | {short(1000 * ours)} ms | {short(ratio)} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the models' names")
    asked = parser.parse_args()
    in_one_thread("benchmarks.costs")
    print(
        "| model | engine | loss | one prediction | all features, exact | predictions |\n|---|---|---|---:|---:|---:|"
    )
    for name, model, kind in [*MODELS, *further()]:
        if asked.only in name:
            print(row(name, model, kind), flush=True)


if __name__ == "__main__":
    main()
