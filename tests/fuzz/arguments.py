"""Arguments that fit a scene, by the name of the parameter."""

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn import linear_model, tree
from sklearn.model_selection import KFold
from tests.fuzz.scenes import ESTIMATORS, contained, cubed, fitted

import losslens as ll


def columns(s):
    names = s.labels
    one, other = names[0], names[-1]
    return s.pick([
        None, [one], [one, other] if one != other else [one], {"both": names}, {"a": [one]}, one,
        (one, other) if one != other else [one],
        tuple(names[:2]) if len(names) > 1 else [one], names,
    ])  # fmt: skip


def designs(s):
    m = int(s.rng.integers(1, 4))
    return s.pick([
        "auto", "all", ll.All(), ll.Derangements(), ll.Latin(m), ll.Permutations(m), ll.Derangements(m),
        ll.Systematic(m), ll.Grid(m),
        ll.Grid(m, at="quantiles"), ll.Within(), ll.Residual(), ll.Within(m=2), shuffled,
    ])  # fmt: skip


def shuffled(X, columns, rng):
    X = X.copy() if hasattr(X, "copy") else X
    order = rng.permutation(X.shape[0])
    return (
        X.iloc[order].set_axis(X.index)
        if isinstance(X, pd.DataFrame)
        else X.take(order)
        if isinstance(X, pa.Table)
        else X[order]
    )


def weights(s):
    w = s.rng.random(s.n) + 0.1
    return contained(
        s.pick([w, np.ones(s.n), np.round(w * 3) + 1, np.where(np.arange(s.n) < 2, 1.0, w * (w > 0.5))]), s.rng
    )


def labels(s):
    g = s.rng.integers(0, 3, s.n)
    return contained(s.pick([g, np.array(["a", "b", "c"])[g], np.arange(s.n), np.arange(s.n) // 2]), s.rng)


def some_rows(s):
    n = s.n
    some = s.rng.choice(n, max(1, n // 2), replace=False)
    return s.pick(
        [
            some,
            np.isin(np.arange(n), some),
            some.tolist(),
            pd.Series(np.isin(np.arange(n), some)),
            [0],
            [-1],
            range(max(1, n // 2)),
            slice(None),
        ]
    )


def learner(s):
    kind = s.pick(list(ESTIMATORS))
    return ESTIMATORS[kind][s.task != "values"]()


def axes(s):
    import matplotlib.pyplot as plt

    return s.pick([None, None, plt.figure().add_subplot, lambda: plt.figure().add_subplot(projection="polar")])


def folds(s):
    half = np.arange(s.n) < s.n // 2
    rows = np.arange(s.n)
    return s.pick(
        [
            2,
            3,
            KFold(2),
            KFold(3, shuffle=True, random_state=0),
            [(rows[half], rows[~half]), (rows[~half], rows[half])],
            2,
            2,
        ]
    )


def feature_of(s):
    held = getattr(s.result, "features", None) or s.names
    return s.pick(list(held))


def whole(low, high):
    return lambda s: int(s.rng.integers(low, high))


def one_of(*choices):
    return lambda s: s.pick(choices)


def level(s):
    return s.pick([0.95, 0.5, 0.9, 0.999, np.float64(0.8)])


FITS = {
    "model": lambda s: s.model,
    "models": lambda s: {"one": s.model, "other": s.model},
    "within": one_of(0.0, 0.01, 0.5), "margin": one_of(0.0, 0.02), "train": lambda s: None,
    "estimator": learner,
    "learner": learner,
    "forest": lambda s: fitted("forest", s.task, s.p, s.classes),
    "X": lambda s: s.X,
    "y": lambda s: s.y,
    "loss": lambda s: s.loss,
    "features": columns,
    "donors": designs,
    "sampler": one_of(shuffled, ll.Within(), ll.Residual()),
    "sample_weight": weights,
    "groups": labels,
    "rows": some_rows,
    "random_state": lambda s: s.pick([3, np.random.default_rng(3), np.random.RandomState(3), np.int64(4)]),
    "n_jobs": one_of(None, 1, 2, -1),
    "memory": one_of("1 GiB", "64 KiB", 10**6, "1 MB", 5000),
    "progress": one_of(False, None),
    "executor": one_of(None),
    "ax": axes,
    "grid": lambda s: np.array([0.0, 1.0]),
    "cv": folds,
    "fit_params": one_of(None, {}),
    "method": lambda s: s.pick(["auto", "rows", "exact", "walk", ll.Sage(), ll.Paper(whole(1, 4)(s), whole(1, 4)(s))]),
    "precision": one_of(None, 0.3, ll.Absolute(1.0)),
    "budget": one_of(None, 500, 2000),
    "permutations": whole(1, 25),
    "how": one_of("drop", "constant", "marginal"),
    "draws": whole(1, 4),
    "pairs": lambda s: s.pick([None, [tuple(s.names[:2])], [(s.names[0], s.names[-1])]]),
    "by": lambda s: s.pick([None, "own", "donor", labels(s), s.names[0]]),
    "shapley": lambda s: s.pick([True, False]),
    "interactions": one_of(True, False, 2, 0),
    "title": one_of(None, "A title", "<b>&"),
    "depth": whole(1, 4),
    "level": level,
    "k": one_of(None, 2, 3),
    "starts": whole(1, 4),
    "verb": one_of(ll.feature_importance, ll.feature_effect, ll.shapley_importance),
    "path": one_of("result", "other.zip"),
    "target": lambda s: s.pick([None, "model", "learner", "importance", "interaction", "loss", *s.classes]),
    "adjust": one_of("holm", None, "bonferroni", "bh"),
    "first": feature_of,
    "second": feature_of,
    "feature": feature_of,
    "name": feature_of,
    "key": feature_of,
    "pair": lambda s: (feature_of(s), feature_of(s)),
    "against": lambda s: s.pick([None, *getattr(s.result, "names", [])]),
    "of": one_of("pfi", "sfimp"),
    "at": lambda s: s.pick([None, 0.0, "quantiles", "random"]),
    "label": lambda s: s.pick(s.classes or (0,)),
    "cluster": whole(0, 3),
    "value": one_of(0.1, 1.0, 3),
    "m": whole(1, 5),
    "values": one_of(None, [0.0, 1.0], np.array([1.0]), ["red"]),
    "given": one_of(None, [], ["x0"], [0]),
    "tree": one_of(None, tree.DecisionTreeRegressor(max_depth=2), "x0", ["x0"]),
    "times": lambda s: s.pick([np.arange(s.n), np.datetime64("2024-01-31", "D") + np.arange(s.n)]),
    "length": one_of(2, 0.5, "2D", "36h", "1M", np.timedelta64(3, "D")), "width": one_of(None, 3, "2D"),
    "bins": one_of(None, 2, 5),
    "like": lambda s: s.result,
    "regressor": one_of(None, linear_model.LinearRegression()),
    "delta": one_of(1.0, 0.5), "alpha": one_of(0.5, 0.1), "power": one_of(0, 1, 1.5, 2, 3, -1),
    "function": one_of(cubed), "reads": one_of("values", "probabilities", "labels", "scores"),
    "prediction": lambda s: np.zeros(s.n),
}  # fmt: skip
