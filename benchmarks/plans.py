"""Planned against measured seconds, call by call: ``python -m benchmarks.plans [TEXT] [--json FILE] [--busy]``.

Bar: 90% of the calls take between a third and three times the planned seconds. With TEXT, only calls whose name
contains it. Everything is compiled and loaded before it is timed; the plan is made right before the call, so that both
meet the same load. Run it on idle cores; with ``--busy`` all seconds are those of the
processor, also those that the plan measures, and calls that wait (slow functions, workers) are left out.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

import losslens as ll
from benchmarks.models import data, models

SHORT, REPEATS = 1.0, 3  # a call shorter than so many seconds is measured so often
FEW = 60  # rows of the call that loads everything
FACTOR = 3.0

Made = tuple[Any, Any, Any]  # model, X, y


@dataclass(frozen=True)
class Call:
    """A call to plan and to make."""

    name: str
    verb: Callable[..., Any]
    make: Callable[[], Made]
    options: dict[str, Any] = field(default_factory=dict)
    workers: int = 0  # processes of a cluster

    def arguments(self, model: Any, X: Any, y: Any) -> tuple[Any, ...]:
        """Effects have no target."""
        return (model, X) if self.verb is ll.feature_effect else (model, X, y)


def regression(model: Any, n: int, p: int) -> Made:
    """Fitted to 2,000 other rows."""
    X_train, y_train, X, y = data(n, p)
    return model.fit(X_train, y_train), X, y


def classification(model: Any, n: int, p: int) -> Made:
    """The same of two classes."""
    X_train, y_train, X, y = data(n, p)
    return model.fit(X_train, y_train > 14), X, y > 14


def function(n: int, p: int) -> Made:
    """A cheap function that no engine reads."""
    _, _, X, y = data(n, p)
    return friedman, X, y


def friedman(X: Any) -> Any:
    X = np.asarray(X)
    return 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


def slow(n: int, p: int, seconds: float) -> Made:
    """A function with so many seconds a call."""
    _, X, y = function(n, p)

    def predict(X: Any) -> Any:
        time.sleep(seconds)
        return friedman(X)

    return predict, X, y


def unfitted(model: Any, n: int, p: int) -> Made:
    """A learner, and the rows to fit it on."""
    return model, *data(n, p)[2:]


def unfitted_classes(model: Any, n: int, p: int) -> Made:
    """The same of two classes."""
    _, X, y = unfitted(model, n, p)
    return model, X, y > 14


def explained(made: Callable[..., Made], rows: int, *args: Any) -> Made:
    """With positions of rows in place of y."""
    model, X, _ = made(*args)
    return model, X, np.arange(rows)


def two_models(n: int, p: int) -> Made:
    """Two models by name."""
    first, X, y = regression(LinearRegression(), n, p)
    return {"linear": first, "function": friedman}, X, y


def labelled(n: int) -> Made:
    """Numbers and words, one-hot encoded in a pipeline."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({f"x{j}": rng.normal(size=2000 + n) for j in range(4)})
    X["place"], X["kind"] = rng.choice(list("abcdef"), len(X)), rng.choice(["one", "two", "three"], len(X))
    y = X["x0"] + X["x1"] ** 2 + (X["place"] == "a") + rng.normal(size=len(X)) > 1
    encode = make_column_transformer((OneHotEncoder(), ["place", "kind"]), remainder=StandardScaler())
    model = make_pipeline(encode, LogisticRegression()).fit(X[:2000], y[:2000])
    return model, X[2000:].reset_index(drop=True), y[2000:].to_numpy()


def boosting(**options: Any) -> Any:
    return HistGradientBoostingRegressor(random_state=0, **options)


def logistic() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression())


@cache
def network() -> Any:
    return models()["MLP"]


def xgboost() -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=100, max_depth=5, n_jobs=1)


def lightgbm() -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=100, verbose=-1, n_jobs=1)


def files(folder: Path, model: Any, n: int, p: int) -> Made:
    """Rows in Parquet files of at most 20,000."""
    place = folder / f"{n}-{p}"
    X_train, y_train, X, y = data(n, p)
    columns = [f"x{j}" for j in range(p)]
    if not place.exists():
        place.mkdir()
        for k, start in enumerate(range(0, n, 20_000)):
            some = slice(start, start + 20_000)
            pd.DataFrame(X[some], columns=columns).assign(y=y[some]).to_parquet(place / f"{k:03}.parquet")
    return model.fit(pd.DataFrame(X_train, columns=columns), y_train) if model is not friedman else model, place, "y"


def table(folder: Path) -> list[Call]:
    """All calls."""
    of, linear, tree = regression, LinearRegression(), DecisionTreeRegressor(max_depth=8, random_state=0)
    forest = RandomForestRegressor(100, random_state=0)
    squared: dict[str, Any] = {"loss": "squared_error"}

    def importance(name: str, make: Callable[..., Made], *args: Any, **options: Any) -> Call:
        return Call(f"importance, {name}", ll.feature_importance, partial(make, *args), options)

    def effect(name: str, make: Callable[..., Made], *args: Any, **options: Any) -> Call:
        return Call(f"effect, {name}", ll.feature_effect, partial(make, *args), options)

    def shares(name: str, make: Callable[..., Made], *args: Any, **options: Any) -> Call:
        return Call(f"shapley, {name}", ll.shapley_importance, partial(make, *args), options)

    def call(verb: Callable[..., Any], name: str, make: Callable[..., Made], *args: Any, **options: Any) -> Call:
        return Call(f"{verb.__name__.replace('_', ' ')}, {name}", verb, partial(make, *args), options)

    calls = [
        importance("linear, n = 100, p = 5", of, linear, 100, 5),
        importance("linear, n = 2,000, p = 100", of, linear, 2_000, 100),
        importance("linear, n = 200,000, p = 10", of, linear, 200_000, 10),
        importance("linear, absolute error, n = 5,000, p = 20", of, linear, 5_000, 20, loss="absolute_error"),
        importance("ridge pipeline, n = 1,000, p = 13", of, make_pipeline(StandardScaler(), Ridge()), 1_000, 13),
        importance("boosting, n = 1,000, p = 20", of, boosting(), 1_000, 20),
        importance("boosting, n = 500, p = 100", of, boosting(), 500, 100),
        importance("boosting, n = 20,000, p = 20", of, boosting(), 20_000, 20),
        importance("boosting, n = 200,000, p = 10", of, boosting(max_iter=30), 200_000, 10),
        importance("boosting classifier, n = 2,000, p = 10", classification,
                   HistGradientBoostingClassifier(random_state=0), 2_000, 10),
        importance("boosting, columns in groups, n = 1,000, p = 10", of, boosting(), 1_000, 10,
                   features={"a": ["x0", "x1"], "b": ["x2", "x3", "x4"]}),
        importance("forest, n = 1,000, p = 13", of, forest, 1_000, 13),
        importance("forest, n = 5,000, p = 20", of, forest, 5_000, 20),
        importance("tree, n = 5,000, p = 10", of, tree, 5_000, 10),
        importance("XGBoost, n = 2,000, p = 20", lambda: of(xgboost(), 2_000, 20)),
        importance("LightGBM, n = 2,000, p = 20", lambda: of(lightgbm(), 2_000, 20)),
        importance("SVR, n = 500, p = 5", of, SVR(C=10), 500, 5),
        importance("SVR, n = 1,000, p = 13", of, SVR(C=10), 1_000, 13),
        importance("kernel ridge, n = 500, p = 10", of, KernelRidge(kernel="rbf", gamma=0.1), 500, 10),
        importance("logistic pipeline, n = 134, p = 5", classification, logistic(), 134, 5),
        importance("logistic pipeline, n = 500, p = 13", classification, logistic(), 500, 13),
        importance("logistic pipeline, labels, n = 500, p = 13", classification, logistic(), 500, 13, loss="zero_one"),
        importance("one-hot pipeline of a frame, n = 300, p = 6", labelled, 300),
        importance("neighbours, n = 200, p = 5", of, KNeighborsRegressor(), 200, 5),
        importance("function, n = 100, p = 5", function, 100, 5, **squared),
        importance("function, n = 1,000, p = 20", function, 1_000, 20, **squared),
        importance("function, n = 5,000, p = 20", function, 5_000, 20, **squared),
        importance("function, n = 20,000, p = 100", function, 20_000, 100, **squared),
        importance("function, n = 200,000, p = 10", function, 200_000, 10, **squared),
        importance("function, Latin, n = 1,000, p = 10", function, 1_000, 10, donors=ll.Latin(10), **squared),
        importance("function, permutations, n = 2,000, p = 10", function, 2_000, 10, donors=ll.Permutations(20),
                   **squared),
        importance("function, grid, n = 1,000, p = 5", function, 1_000, 5, donors=ll.Grid(20), **squared),
        importance("function, all pairs, n = 2,000, p = 5", function, 2_000, 5, donors="all", memory="100 MB",
                   **squared),
        importance("function, residuals, n = 500, p = 5", function, 500, 5, donors=ll.Residual(), **squared),
        importance("function, groups of rows, n = 600, p = 5", function, 600, 5, groups=np.arange(600) // 6, **squared),
        importance("function, weights, n = 600, p = 5", function, 600, 5, sample_weight=np.arange(600) + 1.0,
                   **squared),
        importance("function, two jobs, n = 1,000, p = 20", function, 1_000, 20, n_jobs=2, **squared),
        importance("slow function, n = 200, p = 5", slow, 200, 5, 0.02, **squared),
        importance("very slow function, n = 100, p = 5", slow, 100, 5, 0.3, donors=ll.Latin(20), **squared),
        importance("network, n = 500, p = 13", of, network(), 500, 13),
        importance("network, Latin, n = 5,000, p = 10", of, network(), 5_000, 10, donors=ll.Latin(10)),
        importance("forest, Latin, n = 500, p = 10", of, forest, 500, 10, donors=ll.Latin(10)),
        importance("AUC, logistic, n = 300, p = 5", classification, logistic(), 300, 5, loss=get_scorer("roc_auc")),
        importance("R2, linear, n = 200, p = 20", of, linear, 200, 20, loss=get_scorer("r2")),
        importance("R2, boosting, n = 200, p = 5", of, boosting(), 200, 5, loss=get_scorer("r2")),
        importance("accuracy, Latin, n = 5,000, p = 20", classification, logistic(), 5_000, 20,
                   loss=get_scorer("accuracy"), donors=ll.Latin(10)),
        effect("linear, n = 5,000, p = 20", of, linear, 5_000, 20),
        effect("boosting, n = 5,000, p = 20", of, boosting(), 5_000, 20),
        effect("function, n = 1,000, p = 10", function, 1_000, 10),
        effect("function, n = 50,000, p = 5", function, 50_000, 5),
        effect("function, a pair, n = 1,000", function, 1_000, 5, features=[("x0", "x1")]),
        effect("logistic pipeline, n = 400, p = 10", classification, logistic(), 400, 10),
        effect("network, grid, n = 2,000, p = 50", of, network(), 2_000, 50, donors=ll.Grid(20)),
        shares("linear, n = 1,000, p = 10", of, linear, 1_000, 10),
        shares("linear, n = 50,000, p = 50", of, linear, 50_000, 50),
        shares("boosting, n = 300, p = 5", of, boosting(), 300, 5),
        shares("boosting, n = 200, p = 10", of, boosting(), 200, 10),
        shares("boosting, n = 1,000, p = 10", of, boosting(max_iter=50), 1_000, 10),
        shares("boosting, n = 500, p = 20", of, boosting(max_iter=50), 500, 20),
        shares("forest, n = 100, p = 8", of, forest, 100, 8),
        shares("tree, n = 2,000, p = 10", of, tree, 2_000, 10),
        shares("SVR, n = 300, p = 8", of, SVR(C=10), 300, 8),
        shares("logistic pipeline, n = 134, p = 5", classification, logistic(), 134, 5),
        shares("logistic pipeline, n = 300, p = 13", classification, logistic(), 300, 13),
        shares("function, n = 100, p = 5", function, 100, 5, **squared),
        shares("function, n = 500, p = 13", function, 500, 13, **squared),
        shares("function, n = 5,000, p = 20", function, 5_000, 20, **squared),
        shares("function, n = 500, p = 100", function, 500, 100, **squared),
        shares("function, precision, n = 1,000, p = 13", function, 1_000, 13, precision=0.02, **squared),
        shares("function, averaged predictions, n = 200, p = 10", function, 200, 10, method=ll.Sage(), **squared),
        shares("function, the paper's, n = 200, p = 6", function, 200, 6, method=ll.Paper(20, 10),
               **squared),
        shares("function, residuals, n = 200, p = 5", function, 200, 5, donors=ll.Residual(), **squared),
        shares("network, budget, n = 500, p = 20", of, network(), 500, 20, budget=200_000),
        shares("AUC, logistic, n = 300, p = 5", classification, logistic(), 300, 5, loss=get_scorer("roc_auc")),
        shares("R2, linear, n = 200, p = 12", of, linear, 200, 12, loss=get_scorer("r2")),
        call(ll.shapley_effect, "linear, n = 500, p = 8", explained, of, 50, linear, 500, 8),
        call(ll.shapley_effect, "boosting, n = 1,000, p = 10", explained, of, 100, boosting(), 1_000, 10),
        call(ll.shapley_effect, "function, n = 300, p = 6", explained, function, 20, 300, 6),
        call(ll.shapley_effect, "function, n = 500, p = 20", explained, function, 50, 500, 20),
        call(ll.shapley_effect, "logistic pipeline, n = 300, p = 6", explained, classification, 30, logistic(), 300, 6),
        call(ll.pair_interactions, "function, n = 300, p = 6", function, 300, 6, **squared),
        call(ll.pair_interactions, "boosting, n = 500, p = 8", of, boosting(), 500, 8),
        call(ll.pair_interactions, "function, Latin, n = 1,000, p = 8", function, 1_000, 8, donors=ll.Latin(8),
             **squared),
        call(ll.conditional_predictive_impact, "residuals, n = 1,000, p = 6", function, 1_000, 6,
             sampler=ll.Residual(), **squared),
        call(ll.conditional_predictive_impact, "within, n = 2,000, p = 10", of, network(), 2_000, 10,
             sampler=ll.Within(), draws=5),
        call(ll.compare, "two models, n = 300, p = 5", two_models, 300, 5, **squared),
        call(ll.compare, "without shares, n = 2,000, p = 20", two_models, 2_000, 20, shapley=False, **squared),
        call(ll.report, "function, n = 300, p = 6", function, 300, 6, **squared),
        call(ll.report, "linear, n = 2,000, p = 10", of, linear, 2_000, 10),
        call(ll.report, "boosting, n = 500, p = 10", of, boosting(max_iter=50), 500, 10),
        call(ll.feature_importance_cv, "linear, n = 5,000, p = 20", unfitted, linear, 5_000, 20),
        call(ll.feature_importance_cv, "logistic pipeline, n = 500, p = 8", unfitted_classes, logistic(), 500, 8),
        call(ll.feature_importance_cv, "boosting, n = 1,000, p = 10", unfitted, boosting(), 1_000, 10),
        call(ll.feature_importance_cv, "forest, n = 2,000, p = 10", unfitted, forest, 2_000, 10),
        call(ll.feature_importance_cv, "SVR, n = 1,000, p = 8", unfitted, SVR(C=10), 1_000, 8),
        call(ll.shapley_importance_cv, "linear, n = 1,000, p = 8", unfitted, linear, 1_000, 8),
        call(ll.shapley_importance_cv, "logistic pipeline, n = 300, p = 5", unfitted_classes, logistic(), 300, 5),
        call(ll.permuted_target_test, "linear, n = 300, p = 5", unfitted, linear, 300, 5, permutations=39),
        call(ll.permuted_target_test, "tree, n = 1,000, p = 10", unfitted, tree, 1_000, 10, permutations=19),
        call(ll.leave_one_covariate_out, "linear, n = 1,000, p = 8", unfitted, linear, 1_000, 8),
        call(ll.leave_one_covariate_out, "boosting, n = 1,000, p = 5", unfitted, boosting(), 1_000, 5),
        call(ll.leave_one_covariate_out, "forest, n = 1,000, p = 5", unfitted, forest, 1_000, 5),
        importance("files, linear, n = 100,000, p = 10", files, folder, linear, 100_000, 10, memory="4 MB"),
        importance("files, boosting, n = 100,000, p = 10", files, folder, boosting(max_iter=30), 100_000, 10,
                   memory="4 MB"),
        importance("files, function, Latin, n = 40,000, p = 10", files, folder, friedman, 40_000, 10, memory="3 MB",
                   donors=ll.Latin(4), **squared),
        importance("files, function, n = 40,000, p = 10", files, folder, friedman, 40_000, 10, memory="3 MB",
                   **squared),
        effect("files, linear, n = 100,000, p = 10", files, folder, linear, 100_000, 10, memory="4 MB"),
        shares("files, linear, n = 100,000, p = 10", files, folder, linear, 100_000, 10, memory="4 MB"),
    ]  # fmt: skip
    if find_spec("distributed"):
        calls += [
            Call("importance, workers, files, boosting, n = 100,000, p = 10", ll.feature_importance,
                 partial(files, folder, boosting(max_iter=30), 100_000, 10), {"memory": "4 MB"}, 2),
            Call("importance, workers, network, n = 500, p = 13", ll.feature_importance,
                 partial(of, network(), 500, 13), {}, 2),
        ]  # fmt: skip
    return calls


@contextmanager
def cluster(workers: int) -> Iterator[dict[str, Any]]:
    """The argument `executor` of calls on a cluster."""
    if not workers:
        yield {}
        return
    from distributed import Client, LocalCluster

    local = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
    with local, Client(local) as client:
        yield {"executor": client}


def seconds(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Of the clock, and of this process; and what came out."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return time.perf_counter() - wall, time.process_time() - cpu, found


def load(call: Call, model: Any, X: Any, y: Any, options: dict[str, Any]) -> None:
    """The same call on few rows: everything is imported, compiled and sent to the workers."""
    if not isinstance(X, Path):
        X, y = X[:FEW], y[y < FEW] if call.verb is ll.shapley_effect else y[:FEW]
        options = options | {k: v[:FEW] for k, v in options.items() if k in ("groups", "sample_weight")}
        if call.options.get("budget"):
            options = options | {"budget": 20 * FEW * X.shape[1]}
    ll.plan(call.verb, *call.arguments(model, X, y), **options)
    if isinstance(X, Path) or "slow" not in call.name:
        call.verb(*call.arguments(model, X, y), **options)


def measured(call: Call, busy: bool) -> dict[str, Any]:
    """Seconds of the plan, planned and taken."""
    model, X, y = call.make()
    with cluster(call.workers) as executor:
        options = {"progress": False, "random_state": 0} | call.options | executor
        load(call, model, X, y, options)
        arguments = call.arguments(model, X, y)
        plans, taken, used = [], [], []
        while len(taken) < REPEATS and (not taken or taken[0] < SHORT):
            with processor_time() if busy else nullcontext():
                *planning, plan = seconds(lambda: ll.plan(call.verb, *arguments, **options))
                *took, _ = seconds(lambda: call.verb(*arguments, **options))
            plans.append((plan.seconds, planning[busy]))
            taken.append(took[busy])
            used.append(took[1])
    planned, planning = median(p for p, _ in plans), max(planning for _, planning in plans)
    return {
        "call": call.name, "planning": planning, "planned": planned, "measured": median(taken),
        "processor": median(used), "ratio": planned / median(taken),
    }  # fmt: skip


@contextmanager
def processor_time() -> Iterator[None]:
    """Every clock shows the time of the processor: other processes don't count."""
    wall, time.perf_counter = time.perf_counter, time.process_time
    try:
        yield
    finally:
        time.perf_counter = wall


def within(row: dict[str, Any], factor: float = FACTOR) -> bool:
    return 1 / factor <= row["ratio"] <= factor


def main(text: str = "", file: str | None = None, busy: bool = False) -> list[dict[str, Any]]:
    """Print the table."""
    warnings.simplefilter("ignore")
    rows = []
    print(f"{'call':62}{'planning':>9}{'planned':>9}{'measured':>9}{'cpu':>9}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for call in table(Path(folder)):
            if text not in call.name or (busy and (call.workers or "slow" in call.name)):
                continue
            row = measured(call, busy)
            rows.append(row)
            numbers = f"{row['planning']:9.3f}{row['planned']:9.3f}{row['measured']:9.3f}{row['processor']:9.3f}"
            print(f"{call.name:62}{numbers}{row['ratio']:8.2f}{'' if within(row) else '  *'}", flush=True)
    if rows:
        share = sum(map(within, rows)) / len(rows)
        worst = max(rows, key=lambda row: abs(np.log(row["ratio"])))
        longest = max(rows, key=lambda row: row["planning"])
        print(f"{len(rows)} calls, {share:.0%} within a factor of {FACTOR:g} (bar 90%)")
        print(f"worst: {worst['ratio']:.2f}, {worst['call']}")
        print(f"longest plan: {longest['planning']:.2f} s, {longest['call']}")
    if file:
        Path(file).write_text(json.dumps(rows, indent=1))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="?", default="")
    parser.add_argument("--json", dest="file")
    parser.add_argument("--busy", action="store_true")
    main(**vars(parser.parse_args()))
