"""Peak memory of every verb above the data, against the memory= that was asked for.

Each case runs in a process of its own, after the same call on a few rows (imports and compiled code are not counted).
Allowed: `memory`, the model's own use (one prediction of the largest batch that it was asked for; of verbs that fit,
one fit on the rows of a fold), and what the result consists of (`exempt`; see "Data in memory" in docs/scale.md): 8
bytes for each local importance (n x p); where rows have donors of their own, 16 for each value of a column (PI and PD);
of further models that are black boxes, 8 for what a row causes as a donor, and 16 a row. `kept` is what is still held
when the result has been returned. Bar: at most 1 in `share`, the peak over what is allowed. Also: the time of `import
losslens` beyond NumPy (bar: 0.3 s), and the seconds that the methods of a streamed result take, which are linear in its
rows.

`python -m benchmarks.memory` shows 20,000 rows; `... 200000`, or several numbers of rows, those.
"""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

P = 10  # features
FEW = 400  # rows of the call before
MIB = 2**20
LARGE = 1_000_000  # rows from which only feature_importance and feature_effect are shown, with the default memory


def resident(line: str) -> int:
    """The resident size now (VmRSS) or at its peak (VmHWM), in bytes; Linux says so."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition(f"{line}:")[2].split()[0])


def forget_peak() -> None:
    """Start the peak anew: a process inherits that of its parent."""
    Path("/proc/self/clear_refs").write_text("5")


def settled() -> int:
    """The resident size, free memory returned to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return resident("VmRSS")


def growth(work: Callable[[], Any]) -> tuple[Any, int, int, float]:
    """What the work returns, the peak above the size before, what is kept, and the seconds."""
    before = settled()
    forget_peak()
    started = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - started
    peak = resident("VmHWM") - before
    return result, peak, settled() - before, seconds


class BlackBox:
    """A cheap function: the memory is then ours. It remembers the most rows that it was asked for."""

    most = 0

    def __call__(self, X: np.ndarray) -> np.ndarray:
        self.most = max(self.most, len(X))
        return X[:, 0] + X[:, 1] * X[:, 2]


def data(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Continuous columns, all values distinct: the largest grids."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, P))
    return X, X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n)


def fitted(kind: str, rows: int) -> Any:
    """A model of this kind."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import LinearRegression

    if kind == "function":
        return BlackBox()
    model = LinearRegression() if kind == "linear" else RandomForestRegressor(20, max_depth=6, random_state=0)
    return model.fit(*data(rows))


def cases() -> dict[str, Callable[..., Any]]:
    """The verbs, each as a function of model, X, y and options; `prepared` is what a verb on results starts from."""
    import losslens as ll

    few = {"features": [0, 1]}
    return {
        "feature_importance": ll.feature_importance,
        "feature_effect": lambda model, X, y, loss=None, **o: ll.feature_effect(model, X, **o),
        "Latin(8)": lambda *a, **o: ll.feature_importance(*a, donors=ll.Latin(8), **o),
        "Permutations(8)": lambda *a, **o: ll.feature_importance(*a, donors=ll.Permutations(8), **o),
        "Grid(20)": lambda *a, **o: ll.feature_importance(*a, donors=ll.Grid(20), **o),
        "Within()": lambda *a, **o: ll.feature_importance(*a, donors=ll.Within(), **few, **o),
        "Residual()": lambda *a, **o: ll.feature_importance(*a, donors=ll.Residual(), **few, **o),
        "conditional_predictive_impact": lambda model, X, y, **o: ll.conditional_predictive_impact(
            model, X, y, ll.Residual(), **few, **o
        ),
        "pair_interactions": lambda *a, **o: ll.pair_interactions(*a, pairs=[("x0", "x1"), ("x1", "x2")], **o),
        "shapley_importance": ll.shapley_importance,
        "shapley_effect": lambda model, X, y, loss=None, **o: ll.shapley_effect(model, X, np.arange(100), **o),
        "compare": lambda model, X, y, **o: ll.compare({"a": model, "b": model}, X, y, shapley=False, **o),
        "report": lambda *a, **o: ll.report(*a, interactions=False, **o),
        "regions": lambda imp, X, **o: imp["x1"].regions(X, permutations=99),
        "extrapolation": lambda imp, X, **o: imp["x1"].extrapolation,
        "clusters": lambda shares, X, **o: shares.clusters(X, k=3, starts=2),
        "observations": lambda shares, X, **o: shares.rank_rows(),
        "feature_importance_cv": lambda model, X, y, **o: ll.feature_importance_cv(model, X, y, cv=3, **o),
        "shapley_importance_cv": lambda model, X, y, **o: ll.shapley_importance_cv(model, X, y, cv=3, **o),
        "permuted_target_test": lambda model, X, y, **o: ll.permuted_target_test(
            model, X, y, permutations=5, cv=2, **o
        ),
        "leave_one_covariate_out": lambda model, X, y, memory=None, **o: ll.leave_one_covariate_out(
            model, X, y, cv=2, **o
        ),
        "save": lambda imp, X, **o: imp.save("/tmp/losslens-memory.npz"),
    }


KINDS = {
    "feature_importance": ("function", "forest", "linear"),
    "feature_effect": ("function", "forest", "linear"),
    "pair_interactions": ("function", "forest", "linear"),
    "shapley_importance": ("function", "forest", "linear"),
    "shapley_effect": ("function", "forest", "linear"),
    "compare": ("function", "forest"),
    "report": ("function", "forest"),
    "regions": ("forest",),
    "clusters": ("linear",),
    "observations": ("linear",),
    "feature_importance_cv": ("linear",),
    "shapley_importance_cv": ("linear",),
    "permuted_target_test": ("linear",),
    "leave_one_covariate_out": ("linear",),
    "save": ("function", "forest", "linear"),
}  # others: the function
# Bytes of a row and feature that are not counted: local importances, of each model; the points of both curves.
EXEMPT = {"feature_effect": 0, "Latin(8)": 8 + 16, "Permutations(8)": 8 + 16, "compare": 2 * 8}  # others: 8
FURTHER = {("compare", "function"): 8 + 16 / P}  # of the second model: what rows cause, its predictions and losses
FOLDS = {  # of verbs that fit
    "feature_importance_cv": 3,
    "shapley_importance_cv": 3,
    "permuted_target_test": 2,
    "leave_one_covariate_out": 2,
}
ON_RESULTS = ("regions", "extrapolation", "save")  # of feature_importance
ON_SHARES = ("clusters", "observations")  # of shapley_importance


def one(verb: str, kind: str, n: int, memory: str) -> None:
    """Run one case and print its line."""
    import losslens as ll
    from losslens.tables.checks import memory_bytes

    call = cases()[verb]
    model = fitted(kind, 2000)
    options: dict[str, Any] = {"memory": memory} | ({"loss": "squared_error"} if kind == "function" else {})
    explain: Any = ll.feature_importance if verb in ON_RESULTS else ll.shapley_importance if verb in ON_SHARES else None
    if verb == "regions":  # needs every cell
        explain = partial(ll.feature_importance, features=["x1"], donors=ll.Grid(10))

    def work(X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
        if explain is None:
            return lambda: call(model, X, y, **options)
        result = explain(model, X, y, **options)
        return lambda: call(result, X)

    work(*data(FEW))()
    X, y = data(n)
    job = work(X, y)
    if kind == "function":
        model.most = 0
    _, peak, kept, seconds = growth(job)
    own = 0
    if kind == "function" and model.most:
        batch = X[np.arange(model.most) % n]
        own = growth(lambda: model(batch))[1]
    elif verb in FOLDS:
        train = n - n // FOLDS[verb]
        own = growth(lambda: model.fit(X[:train], y[:train]))[1]
    exempt = int((EXEMPT.get(verb, 8) + FURTHER.get((verb, kind), 0)) * n * P)
    share = peak / (memory_bytes(memory) + own + exempt)
    numbers = "".join(f"{size / MIB:>10,.0f}" for size in (own, exempt, peak, kept))
    within = "yes" if share <= 1 else "NO"
    print(f"{verb:30}{kind:10}{n:>10,}{memory:>9}{numbers}{share:>8.2f}{within:>5}{seconds:9.1f} s", flush=True)


def methods(n: int) -> None:
    """Print the seconds of methods of a streamed result with n rows."""
    import losslens as ll

    X, y = data(n)
    imp, groups = ll.feature_importance(fitted("forest", 2000), X, y, memory="64 MiB"), np.arange(n) % 4
    works: dict[str, Callable[[], Any]] = {
        "one.by": lambda: imp["x0"].by(groups),
        "given": lambda: imp.given(groups == 0),
        "by": lambda: imp.by(groups),
        "intervals": lambda: [feature.interval() for feature in imp.values()],
        "ranks": imp.ranks,
    }
    seconds = [growth(work)[3] for work in works.values()]
    print(f"{n:>10,}" + "".join(f"{name:>12} {s:6.2f} s" for name, s in zip(works, seconds, strict=True)), flush=True)


def imports(rounds: int = 9) -> float:
    """Median seconds of `import losslens` beyond `import numpy`, in fresh processes, interleaved."""

    def seconds(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - started

    return median(seconds("import losslens") - seconds("import numpy") for _ in range(rounds))


def apart(*words: object) -> None:
    """Run a case in a process of its own; its error is shown, and the next case goes on."""
    command = [sys.executable, "-m", "benchmarks.memory", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout if done.returncode == 0 else f"{words[0]} {words[1]}: {done.stderr.strip().splitlines()[-1]}\n"
    print(said, end="", flush=True)


def main(sizes: tuple[int, ...] = (20_000,), verbs: tuple[str, ...] = ()) -> None:
    """Print the tables."""
    head = "".join(f"{name:>10}" for name in ("model", "exempt", "peak", "kept"))
    print(f"{'verb':30}{'of a':10}{'rows':>10}{'memory':>9}{head}{'share':>8}{'in?':>5}{'time':>11}   (sizes in MiB)")
    for n in sizes:
        every = cases() if n < LARGE else {"feature_importance": None, "feature_effect": None}
        for verb in verbs or every:
            for kind in KINDS.get(verb, ("function",)):
                apart(verb, kind, n, "64 MiB" if n < LARGE else "1 GiB")
    if verbs:
        return
    print("\nmethods of a streamed result of a forest, 10 features, 4 groups")
    for n in (20_000, 60_000, 215_000):
        apart("methods", n)
    print(f"\nimport losslens beyond NumPy: {imports():.2f} s (bar 0.30)")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["methods"]:
        methods(int(words[1]))
    elif len(words) == 4 and words[2].isdigit() and not words[1].isdigit():
        one(words[0], words[1], int(words[2]), words[3])
    else:
        main(
            tuple(int(word) for word in words if word.isdigit()) or (20_000,),
            tuple(word for word in words if not word.isdigit()),
        )
