"""Random models, losses, designs and containers against brute force with the model's own predict.

A world is a fitted model and a table of a few rows. The model is asked once for every coalition of columns of every
pair of rows; what losslens says is compared with means over these predictions. A case is one checked vector: one
quantity (an importance, local importances, a curve, shares of Shapley) of one feature in one call.

The gap of a case is its largest absolute difference over the scale of what is compared: for losses the larger of the
mean losses over all pairs with and without replaced values, for predictions the spread of the predictions of all
pairs. The unit and the origin of y are drawn too.
"""

import traceback
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import catboost as cat
import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import xgboost as xgb
from sklearn import ensemble, neighbors, svm, tree
from sklearn import linear_model as linear
from sklearn.base import is_classifier
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import get_scorer
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

import brute
import coalitions
import losslens as ll

TOLERANCE = 1e-9
XGBOOST = 1e-5  # its own sums are in single precision: docs/engines.md
TRAIN = 70


# Models.


@dataclass(frozen=True)
class Kind:
    """Models of one kind: what regresses and what classifies, by a generator of random numbers."""

    regressor: Any
    classifier: Any = None
    tables: tuple = ("array", "pandas")
    missing: bool = False
    positive: bool = False  # predicts positive numbers


def pick(rng, choices):
    return choices[int(rng.integers(len(choices)))]


def grown(model, rng, **more):
    return model(max_depth=pick(rng, [None, 2, 4]), random_state=0, **more)


def boosted(rng, name, **more):
    model = {"xgb": xgb.XGBRegressor, "xgbc": xgb.XGBClassifier, "lgb": lgb.LGBMRegressor, "lgbc": lgb.LGBMClassifier}[name]
    trees = {"n_estimators": int(pick(rng, [1, 5, 12])), "n_jobs": 1}
    if name.startswith("xgb"):
        return model(max_depth=int(pick(rng, [1, 3, 6])), enable_categorical=True, **trees, **more)
    return model(num_leaves=int(pick(rng, [2, 5, 15])), min_child_samples=3, verbose=-1, **trees, **more)


def histograms(model, rng, **more):
    return model(max_iter=6, max_leaf_nodes=int(pick(rng, [2, 5, 31])), min_samples_leaf=4, categorical_features="from_dtype", **more)


def splined(model):
    columns = make_column_transformer(
        (SplineTransformer(4), ["a", "b"]), (OneHotEncoder(handle_unknown="ignore"), ["c"]), remainder="passthrough"
    )
    return make_pipeline(columns, StandardScaler(with_mean=False), model)


def scaled(model):
    return make_pipeline(StandardScaler(), model)


def catboost(model, rng, **more):
    return model(iterations=5, depth=3, verbose=0, allow_writing_files=False, thread_count=1, random_seed=0, **more)


TREES = ("array", "single", "pandas", "polars")
WORDS = ("array", "pandas", "words", "words")
ANY = ("array", "pandas", "polars", "words", "arrow")
KINDS = {
    "line": Kind(lambda rng: linear.LinearRegression(), lambda rng: linear.LogisticRegression(C=pick(rng, [0.1, 10.0]))),
    "scaled ridge": Kind(lambda rng: scaled(linear.Ridge(pick(rng, [0.1, 10.0]))), lambda rng: scaled(linear.RidgeClassifier())),
    "splines": Kind(lambda rng: splined(linear.Ridge()), lambda rng: splined(linear.LogisticRegression(max_iter=500)), ("words",)),
    "sparse line": Kind(lambda rng: linear.LassoLars(0.01), lambda rng: svm.LinearSVC()),
    "counts of a line": Kind(lambda rng: scaled(linear.PoissonRegressor()), None, positive=True),
    "tree": Kind(lambda rng: grown(tree.DecisionTreeRegressor, rng), lambda rng: grown(tree.DecisionTreeClassifier, rng), TREES, True),
    "forest": Kind(
        lambda rng: grown(ensemble.RandomForestRegressor, rng, n_estimators=5),
        lambda rng: grown(ensemble.RandomForestClassifier, rng, n_estimators=5), TREES, True,
    ),
    "extra trees": Kind(
        lambda rng: grown(ensemble.ExtraTreesRegressor, rng, n_estimators=3),
        lambda rng: grown(ensemble.ExtraTreesClassifier, rng, n_estimators=3), TREES,
    ),
    "boosting": Kind(
        lambda rng: ensemble.GradientBoostingRegressor(n_estimators=6, random_state=0),
        lambda rng: ensemble.GradientBoostingClassifier(n_estimators=6, random_state=0), TREES,
    ),
    "histograms": Kind(
        lambda rng: histograms(ensemble.HistGradientBoostingRegressor, rng),
        lambda rng: histograms(ensemble.HistGradientBoostingClassifier, rng), WORDS, True,
    ),
    "histograms of counts": Kind(
        lambda rng: histograms(ensemble.HistGradientBoostingRegressor, rng, loss=pick(rng, ["poisson", "gamma"])), None, WORDS, True, True
    ),
    "bagging": Kind(lambda rng: ensemble.BaggingRegressor(n_estimators=3, random_state=0), lambda rng: ensemble.BaggingClassifier(n_estimators=3, random_state=0)),
    "xgboost": Kind(
        lambda rng: boosted(rng, "xgb", objective=pick(rng, ["reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror"])),
        lambda rng: boosted(rng, "xgbc"), WORDS, True,
    ),
    "xgboost of counts": Kind(
        lambda rng: boosted(rng, "xgb", objective=pick(rng, ["count:poisson", "reg:gamma", "reg:tweedie"])), None, WORDS, True, True
    ),
    "lightgbm": Kind(
        lambda rng: boosted(rng, "lgb", objective=pick(rng, ["regression", "l1", "quantile", "huber"])), lambda rng: boosted(rng, "lgbc"), WORDS, True
    ),
    "lightgbm of counts": Kind(lambda rng: boosted(rng, "lgb", objective=pick(rng, ["poisson", "tweedie", "gamma"])), None, WORDS, True, True),
    "catboost": Kind(lambda rng: catboost(cat.CatBoostRegressor, rng), lambda rng: catboost(cat.CatBoostClassifier, rng), ("array", "pandas"), True),
    "kernel ridge": Kind(lambda rng: scaled(KernelRidge(alpha=0.5, kernel="rbf", gamma=pick(rng, [0.1, 0.5])))),
    "support vectors": Kind(lambda rng: scaled(svm.NuSVR(gamma=pick(rng, ["scale", 0.3]))), lambda rng: scaled(svm.SVC())),
    "process": Kind(lambda rng: GaussianProcessRegressor(RBF(1.5) + WhiteKernel(0.3), optimizer=None, normalize_y=True)),
    "neighbours": Kind(
        lambda rng: neighbors.KNeighborsRegressor(3, algorithm="kd_tree"), lambda rng: neighbors.KNeighborsClassifier(3, algorithm="kd_tree")
    ),
    "network": Kind(lambda rng: TransformedTargetRegressor(scaled(MLPRegressor(hidden_layer_sizes=(5,), max_iter=30, random_state=0)), transformer=StandardScaler())),
    "mixed columns": Kind(lambda rng: make_pipeline(StandardScaler(), PCA(2), linear.Ridge()), lambda rng: make_pipeline(PCA(2), linear.LogisticRegression())),
    "function": Kind(None, None, ANY, True),
}  # fmt: skip

VALUES = ["squared_error", "absolute_error", "huber", "pinball", "custom"]
POSITIVE = ["poisson_deviance", "gamma_deviance", "tweedie_deviance", "squared_error"]
LOSSES = {"probabilities": ["log_loss", "brier"], "labels": ["zero_one"], "scores": ["hinge"]}
SCORERS = {"values": "neg_mean_squared_error", "probabilities": "neg_log_loss", "labels": "accuracy"}


def cubed(y, prediction):
    return np.abs(y - prediction) ** 3


# Tables.


def drawn(rng, n, missing, words):
    """Columns with and without ties, a category, a constant; and what y depends on."""
    data = pd.DataFrame({"a": rng.normal(size=n), "b": np.round(rng.normal(size=n), 1), "i": rng.integers(0, 3, n).astype(float)})
    c = rng.choice(list("uvw"), n)
    signal = data.a * (data.b > 0) + data.i + np.where(c > "u", np.sin(2 * data.a), data.b) + 0.3 * rng.normal(size=n)
    if missing:
        data.loc[rng.random(n) < 0.15, "a"] = np.nan
    if words:
        data["c"] = pd.Categorical(c, categories=list("uvw"))
    else:
        data["k"] = np.full(n, 0.1) if rng.random() < 0.5 else np.round(data.b + rng.normal(size=n))
    return data, signal.to_numpy()


def contained(data, kind):
    if kind in ("array", "single"):
        return data.to_numpy(np.float64 if kind == "array" else np.float32)
    return pl.from_pandas(data) if kind == "polars" else pa.Table.from_pandas(data, preserve_index=False) if kind == "arrow" else data


def mixed(X, rows, donors, columns):
    if not isinstance(X, pa.Table):
        return coalitions.mixed(X, rows, donors, columns)
    return pa.table({name: X.column(name).take(pa.array(donors if j in columns else rows)) for j, name in enumerate(X.column_names)})


def numbers_of(X):
    """Any of the tables as numbers."""
    if isinstance(X, np.ndarray):
        return np.nan_to_num(np.asarray(X, float))
    frame = X if isinstance(X, pd.DataFrame) else X.to_pandas()
    columns = [frame[c].astype(str).map({"u": 0.0, "v": 1.0, "w": 2.0}) if c == "c" else frame[c] for c in frame.columns]
    return np.nan_to_num(np.column_stack([np.asarray(column, float) for column in columns]))


def plain(X, unit, shift, shape):
    A = numbers_of(X)
    if shape == 0:
        return unit * (A @ np.arange(1.0, A.shape[1] + 1) + shift)
    return unit * (A[:, 0] * A[:, 1] + np.maximum(A[:, 2], A[:, -1]) + shift)


def plain_chances(X, k):
    scores = numbers_of(X) @ np.array([[1.0, -1.0, 0.5], [0.5, 1.0, -1.0], [-0.2, 0.1, 0.4], [0.3, -0.6, 0.1]])[:, :k]
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# Worlds.


@dataclass
class Tally:
    """Cases, gaps and failures."""

    cases: int = 0
    worst: dict = field(default_factory=lambda: defaultdict(float))
    count: dict = field(default_factory=lambda: defaultdict(int))
    failures: list = field(default_factory=list)
    worlds: int = 0
    declined: int = 0

    def __str__(self):
        rows = [f"  {engine:32s} {self.count[engine]:>8,} cases, largest gap {self.worst[engine]:.1e}" for engine in sorted(self.count)]
        return f"{self.cases:,} cases in {self.worlds:,} worlds, {len(self.failures)} failures\n" + "\n".join(rows)


@dataclass
class World:
    """A fitted model, a table it has not seen, and every coalition of every pair of its rows."""

    seed: int
    number: int
    tally: Tally

    def __post_init__(self):
        self.rng = rng = np.random.default_rng([self.seed, self.number, 7])
        self.name = list(KINDS)[self.number % len(KINDS)]
        kind = KINDS[self.name]
        self.k = 0 if kind.positive or (kind.classifier is None and self.name != "function") else int(pick(rng, [0, 0, 2, 3]))
        if self.name == "sparse line" and self.k == 3:
            self.k = 2
        self.container = pick(rng, kind.tables)
        missing = kind.missing and rng.random() < 0.5
        self.n = int(rng.integers(5, 13))
        self.positive = kind.positive
        self.unit, self.shift = 10.0 ** rng.integers(-6, 7), float(pick(rng, [0.0, 0.0, 1.0, -30.0, 1000.0]))
        data, signal = drawn(rng, TRAIN, missing, self.container in ("words", "arrow"))
        test, seen = drawn(rng, self.n, missing, self.container in ("words", "arrow"))
        if rng.random() < 0.5:  # values of training rows, and twice the same
            test.iloc[0], test.iloc[1] = data.iloc[0], data.iloc[0]
        if self.container == "words":
            test["c"] = pd.Categorical(test["c"], categories=list("uvw"))
        self.X = contained(test, self.container)
        self.names = [f"x{j}" for j in range(4)] if isinstance(self.X, np.ndarray) else list(test.columns)
        self.cuts = np.quantile(signal, np.arange(1, self.k) / self.k) if self.k else None
        self.classes = None
        if self.name == "function":
            shape = int(rng.integers(2))
            self.model = partial(plain_chances, k=self.k) if self.k else partial(plain, unit=self.unit, shift=self.shift, shape=shape)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of learners that stop early
                self.model = (kind.classifier if self.k else kind.regressor)(rng).fit(contained(data, self.container), self.of(signal))
        self.y = self.of(seen)

    def of(self, signal):
        """y in its unit; classes; or positive numbers."""
        if self.k:
            labels = np.arange(self.k) if self.name in ("xgboost", "function") else np.array(["no", "so", "yes"])[: self.k]
            return labels[np.digitize(signal, self.cuts)]
        if self.positive:
            return self.unit * np.exp(signal / 3) if "counts of a line" != self.name else np.round(np.exp(signal / 2)) + 1.0
        return self.unit * (signal + self.shift)

    @cached_property
    def target(self):
        """y as losses read it."""
        if not self.k:
            return self.y
        classes = np.arange(self.k) if self.name == "function" else np.unique(self.model.classes_)
        return np.searchsorted(classes, self.y)

    def respond(self, X, reads):
        """What the loss reads, from the model itself."""
        model = self.model
        if self.name == "function":
            return model(X)
        if reads == "values":
            return np.ravel(model.predict(X)) if not self.name.startswith("xgboost") else model.predict(X)
        if reads == "probabilities":
            return model.predict_proba(X)
        if reads == "labels":
            return np.searchsorted(np.unique(model.classes_), np.ravel(model.predict(X)))
        raw = {lgb.LGBMClassifier: {"raw_score": True}, xgb.XGBClassifier: {"output_margin": True}}.get(type(model))
        if isinstance(model, cat.CatBoostClassifier):
            raw = {"prediction_type": "RawFormulaVal"}
        return model.decision_function(X) if raw is None else model.predict(X, **raw)

    @cached_property
    def responses(self):
        if not self.k:
            return ["values"]
        if self.name == "function":
            return ["probabilities"]
        able = [] if not hasattr(self.model, "predict_proba") else ["probabilities"]
        return [*able, "labels", *(["scores"] if not able else [])]

    def pairs(self, reads):
        """f of every pair of rows in every coalition, (16, n, n, ...): bit j says that column j is the row's own."""
        if reads not in self.asked:
            rows, donors = (np.ravel(pair) for pair in np.indices((self.n, self.n)))
            said = []
            for place in range(16):
                lent = [j for j in range(4) if not place >> j & 1]
                one = np.asarray(self.respond(mixed(self.X, rows, donors, lent), reads))
                said.append(one.reshape(self.n, self.n, *one.shape[1:]))
            self.asked[reads] = np.stack(said)
        return self.asked[reads]

    @cached_property
    def asked(self):
        return {}

    # Losses.

    def losses(self, rng):
        """Names of two losses, and what each reads."""
        reads = pick(rng, self.responses)
        known = (POSITIVE if self.positive else VALUES) if reads == "values" else LOSSES[reads]
        return [(pick(rng, known), reads) for _ in range(2)]

    def judge(self, loss):
        """The loss as the library takes it, and as brute force does."""
        if loss == "custom":
            return cubed, cubed
        if loss == "huber":
            delta = self.unit
            return ll.losses.huber(delta), lambda y, f: delta**2 * brute.LOSSES["huber"](y / delta, f / delta)
        if loss == "pinball":
            return ll.losses.pinball(0.2), lambda y, f: np.where(y >= f, 0.2 * (y - f), 0.8 * (f - y))
        if loss == "tweedie_deviance":
            return ll.losses.tweedie_deviance(1.5), brute.LOSSES[loss]
        if loss == "log_loss":
            return loss, self.log_loss
        return loss, brute.LOSSES[loss]

    @staticmethod
    def log_loss(y, p):
        eps = np.finfo(p.dtype).eps if p.dtype == np.float32 else brute.EPS
        return -np.log(np.clip(p[np.arange(len(y)), y].astype(float), eps, 1 - eps))

    def table_of(self, loss, reads):
        """l of every pair in every coalition, (16, n, n)."""
        said = self.pairs(reads)
        flat = said.reshape(-1, *said.shape[3:])
        y = np.tile(np.repeat(self.target, self.n), 16)
        return np.asarray(loss(y, flat), float).reshape(16, self.n, self.n)

    # Checks.

    def check(self, what, engine, found, expected, scale):
        found, expected = np.asarray(found, float), np.asarray(expected, float)
        tally, key = self.tally, f"{engine}, {'xgboost' if self.name.startswith('xgboost') else 'others'}"
        tally.cases += 1
        tally.count[key] += 1
        bound = XGBOOST if self.name.startswith("xgboost") else TOLERANCE
        if found.shape != expected.shape:
            gap = np.inf
        else:
            both = np.isfinite(expected) | np.isfinite(found)
            gap = float(np.max(np.abs(found - expected)[both], initial=0.0)) / scale if scale > 0 else float(np.abs(found - expected).max() > 0)
            gap = np.inf if np.isnan(gap) else gap
        tally.worst[key] = max(tally.worst[key], gap)
        if gap > bound:
            again = f"python -m tests.fuzz numbers --seed {self.seed} --only {self.number}"
            tally.failures.append(f"{self}: {what} by {engine}: gap {gap:.1e}; again: {again}")

    def __str__(self):
        return f"{self.name}, {self.k or 'no'} classes, {self.container}, n={self.n}, unit {self.unit:g}, shift {self.shift:g}"

    def run(self):
        rng = self.rng
        self.tally.worlds += 1
        for loss, reads in self.losses(rng):
            self.importances(rng, loss, reads)
        loss, reads = self.losses(rng)[0]
        self.shapley(rng, loss, reads)
        self.interactions(rng, loss, reads)
        self.effects(rng)
        if rng.random() < 0.3 and self.name != "function" and not self.positive:
            self.scores(rng)

    def weights(self, rng):
        if rng.random() < 0.5:
            return None
        weight = rng.random(self.n) + 0.2
        return weight if rng.random() < 0.5 else np.where(np.arange(self.n) > 2, np.round(3 * weight), 1.0)

    def designs(self):
        m, n = 3, self.n
        return ["auto", "all", ll.Derangements(), ll.Latin(m), ll.Permutations(m), ll.Grid(m), ll.Systematic(m), ll.Derangements(m), ll.Latin(n)]

    def keys_of(self, columns):
        """What each row holds in these columns, to find it on the grid."""
        if isinstance(self.X, np.ndarray):
            held = [self.X[:, j].tolist() for j in columns]
        else:
            held = [list(self.X[self.names[j]]) if not isinstance(self.X, pa.Table) else self.X.column(self.names[j]).to_pylist() for j in columns]
        return [tuple(_plain(value) for value in values) for values in zip(*held, strict=True)]

    def importances(self, rng, loss, reads):
        asked, judge = self.judge(loss)
        table = self.table_of(judge, reads)
        weight = self.weights(rng)
        design = pick(rng, self.designs())
        groups = None
        if rng.random() < 0.25 and design in ("auto", "all"):
            groups = np.arange(self.n) // 2
        one, other = (int(j) for j in rng.choice(4, 2, replace=False))
        features = {name: [name] if not isinstance(self.X, np.ndarray) else [j] for j, name in enumerate(self.names)}
        features["both"] = features[self.names[one]] + features[self.names[other]]
        if isinstance(design, ll.Systematic):
            features.pop("both")
        found = ll.feature_importance(
            self.model, self.X, self.y, loss=asked, features=features, donors=design, sample_weight=weight, groups=groups,
            random_state=int(rng.integers(100)), progress=False, n_jobs=1,
        )  # fmt: skip
        places = {name: [j] for j, name in enumerate(self.names)} | {"both": [one, other]}
        rows = np.sort(rng.choice(self.n, max(2, self.n // 2), replace=False))
        if weight is not None and not (weight[rows] > 0).any():
            rows = np.arange(3)
        w = np.ones(self.n) if weight is None else weight
        own = table[-1].diagonal()
        error = w @ own / w.sum()
        others = [name for name in ((POSITIVE if self.positive else VALUES) if reads == "values" else LOSSES[reads]) if name != loss]
        for name, one_found in found.items():
            columns = places[name]
            cells = table[15 - sum(1 << j for j in columns)] - own[:, None]
            of = _Means(self, cells, one_found, w, groups, columns)
            scale = max(error, float(np.abs(cells + own[:, None]).mean()), float(own.max()))
            said = f"{loss}, {design}, {'weights, ' if weight is not None else ''}{'groups, ' if groups is not None else ''}{name}"
            check = partial(self.check, engine=one_found.engine, scale=scale)
            check(f"error of {said}", found=one_found.error, expected=error)
            of.compare(check, said, one_found)
            if error > 0:
                check(f"ratio of {said}", found=one_found.ratio * error, expected=error + of.pfi)
            part = one_found.given(rows)
            _Means(self, cells, part, w, groups, columns, rows).compare(check, f"given, {said}", part)
            label = np.arange(self.n) % 2
            for at, piece in one_found.by(label).items():
                if w[label == at].sum() > 0:
                    _Means(self, cells, piece, w, groups, columns, np.flatnonzero(label == at)).compare(check, f"by, {said}", piece, few=True)
            if design in ("auto", "all") and groups is None and (w[rows] > 0).sum() > 1:
                subset = one_found.subset(rows)
                inner = cells[np.ix_(rows, rows)]
                expected = brute.averages(inner, np.ones_like(inner), w[rows])
                check(f"subset pfi of {said}", found=subset.pfi, expected=expected.pfi)
                check(f"subset local of {said}", found=subset.local, expected=expected.local)
            if others and one_found.complete:
                instead = pick(rng, others)
                asked_too, judge_too = self.judge(instead)
                changed, again = one_found.with_loss(asked_too), self.table_of(judge_too, reads)
                own_too = again[-1].diagonal()
                cells_too = again[15 - sum(1 << j for j in columns)] - own_too[:, None]
                larger = max(float(np.abs(cells_too + own_too[:, None]).mean()), float(own_too.max()))
                _Means(self, cells_too, changed, w, groups, columns).compare(
                    partial(self.check, engine=one_found.engine, scale=larger), f"with_loss({instead}) of {said}", changed, few=True
                )
            if reads == "values":
                self.effect(one_found.effect, columns, w, said)

    def effect(self, effect, columns, w, said, reads="values", k=None):
        """PD and ICE."""
        said_f = self.pairs(reads)[15 - sum(1 << j for j in columns)]
        said_f = said_f if k is None else said_f[..., k]
        spread = float(np.ptp(self.pairs(reads) if k is None else self.pairs(reads)[..., k]))
        check = partial(self.check, engine=effect.engine, scale=spread or 1.0)
        if not effect.design.common or effect.design.leaves_out_own or effect.sample.block is not None:
            return
        at = self.at(effect, columns)
        held = at >= 0
        check(f"ice of {said}", found=effect.ice[:, at[held]], expected=said_f[:, held])
        check(f"pd of {said}", found=effect.pd[at[held]], expected=w @ said_f[:, held] / w.sum())

    def at(self, found, columns):
        """The grid position of what each row holds; -1 where it is not on the grid."""
        grid = found.grid
        values = [tuple(map(_plain, row)) for row in grid.tolist()] if grid.ndim == 2 else [(_plain(value),) for value in grid.tolist()]
        place = {value: k for k, value in enumerate(values)}
        return np.array([place.get(key, -1) for key in self.keys_of(columns)])

    def shapley(self, rng, loss, reads):
        asked, judge = self.judge(loss)
        table = self.table_of(judge, reads)
        weight, apart = self.weights(rng), rng.random() < 0.3
        averaged = not apart and rng.random() < 0.25
        if averaged and reads == "labels":
            averaged = False
        n, w = self.n, np.ones(self.n) if weight is None else weight
        found = ll.shapley_importance(
            self.model, self.X, self.y, loss=asked, donors=ll.Derangements() if apart else "all", sample_weight=weight, random_state=0,
            aggregate="prediction" if averaged else "loss", method=pick(rng, ["auto", "exact"]), progress=False, n_jobs=1,
        )  # fmt: skip
        said = f"Shapley {loss}, {'weights, ' if weight is not None else ''}{'Derangements' if apart else 'all'}, {found.method}"
        if not found.exact:
            self.tally.failures.append(f"{self}: {said} is not exact")
            return
        own = table[-1].diagonal()
        if averaged:
            f = self.pairs(reads)
            mean = np.tensordot(f, w / w.sum(), axes=(2, 0)) if f.ndim == 3 else np.einsum("sikc,k->sic", f, w / w.sum())
            y = np.tile(self.target, 16)
            losses = np.asarray(judge(y, mean.reshape(-1, *mean.shape[2:])), float).reshape(16, n)
            local = coalitions.by_orders(losses).T
            errors = losses @ w / w.sum()
            sfimp = w @ local / w.sum()
        else:
            mass = np.outer(w, w) * (1 - np.eye(n) if apart else 1)
            cells = coalitions.by_orders(table)
            with np.errstate(invalid="ignore"):
                local = (cells * mass / mass.sum(axis=1, keepdims=True)).sum(axis=2).T
            errors = w @ own / w.sum() + ((table - own[:, None]) * mass).sum(axis=(1, 2)) / mass.sum()
            sfimp = (cells * mass).sum(axis=(1, 2)) / mass.sum()
        scale = max(float(np.abs(table).mean()), float(own.max()))
        check = partial(self.check, engine=found.engine, scale=scale)
        check(f"error_all of {said}", found=found.error_all, expected=errors[-1])
        check(f"error_none of {said}", found=found.error_none, expected=errors[0])
        for j, name in enumerate(self.names):
            check(f"sfimp of {said}, {name}", found=found.sfimp[j], expected=sfimp[j])
            counted = w > 0 if apart else slice(None)
            check(f"local of {said}, {name}", found=found.local[counted, j], expected=local[counted, j])
            if not averaged:
                curve = found.curve(name)
                at = self.at(curve, [j])
                rows = mass.sum(axis=1)
                expected = np.array([_mean(local[at == k, j], rows[at == k]) for k in range(len(curve.grid))])
                kept = np.isfinite(expected)
                check(f"curve of {said}, {name}", found=curve.importance[kept], expected=expected[kept])
        if not averaged and (found.table is not None or found.index is not None):
            check(f"interactions of {said}", found=found.interactions.index, expected=coalitions.interactions(errors))
        group = {"one": self.columns([0, 1]), "two": self.columns([2]), "three": self.columns([3])}
        if not averaged:
            together = ll.shapley_importance(
                self.model, self.X, self.y, loss=asked, features=group, sample_weight=weight, random_state=0, progress=False, n_jobs=1,
                donors=ll.Derangements() if apart else "all",
            )  # fmt: skip
            kept = [sum((place & 1) * 3 + (place >> 1 & 1) * 4 + (place >> 2 & 1) * 8 for _ in [0]) for place in range(8)]
            cells = coalitions.by_orders(table[kept])
            for j, name in enumerate(group):
                check(f"sfimp of {said}, group {name}", found=together.sfimp[j], expected=(cells[j] * mass).sum() / mass.sum())

    def columns(self, at):
        return at if isinstance(self.X, np.ndarray) else [self.names[j] for j in at]

    def interactions(self, rng, loss, reads):
        asked, judge = self.judge(loss)
        table = self.table_of(judge, reads)
        weight = self.weights(rng)
        w = np.ones(self.n) if weight is None else weight
        found = ll.pair_interactions(self.model, self.X, self.y, loss=asked, donors="all", sample_weight=weight, progress=False, n_jobs=1)
        errors = np.einsum("sik,i,k->s", table, w, w) / w.sum() ** 2
        scale = max(float(np.abs(table).mean()), float(table[-1].max()))
        for j, k in combinations(range(4), 2):
            without = errors[15 - (1 << j)] + errors[15 - (1 << k)] - errors[15 - (1 << j) - (1 << k)] - errors[15]
            self.check(f"interaction of {self.names[j]} and {self.names[k]}, {loss}", "pairs", found.index[j, k], without, scale)

    def effects(self, rng):
        reads = "values" if not self.k else next((r for r in ("probabilities", "scores") if r in self.responses), None)
        if reads is None or (self.name == "function" and self.k):
            return
        k = None
        target = {}
        if self.k and reads == "probabilities":
            k = self.k - 1
            target = {"target": np.unique(self.model.classes_).tolist()[k]}
        elif self.k:
            k = None if self.k == 2 else self.k - 1
            target = {"target": np.unique(self.model.classes_).tolist()[-1]}
        weight = self.weights(rng)
        w = np.ones(self.n) if weight is None else weight
        for name, effect in ll.feature_effect(self.model, self.X, sample_weight=weight, progress=False, n_jobs=1, **target).items():
            self.effect(effect, [self.names.index(name)], w, f"effect of {name}", reads, k)
        rows = np.sort(rng.choice(self.n, 3, replace=False))
        found = ll.shapley_effect(self.model, self.X, rows, sample_weight=weight, random_state=0, progress=False, n_jobs=1, **target)
        f = self.pairs(reads) if k is None else self.pairs(reads)[..., k]
        games = np.tensordot(f, w / w.sum(), axes=(2, 0))[:, rows]
        expected = -coalitions.by_orders(games)
        check = partial(self.check, engine=found.engine, scale=float(np.ptp(f)) or 1.0)
        for j, name in enumerate(self.names):
            check(f"Shapley effect of {name}, {found.method}", found=found.local[:, j], expected=expected[j])

    def scores(self, rng):
        """A scorer gives one number for all rows: its mean over the n cyclic shifts of the donors."""
        reads = pick(rng, [reads for reads in self.responses if reads in SCORERS] or [None])
        if reads is None or (reads == "probabilities" and len(np.unique(self.y)) < self.k):
            return
        scorer = get_scorer(SCORERS[reads])
        found = ll.feature_importance(self.model, self.X, self.y, loss=scorer, donors="all", random_state=1, progress=False)
        rows, base = np.arange(self.n), self.score(scorer, self.X)
        for j, name in enumerate(self.names):
            shifted = [self.score(scorer, mixed(self.X, rows, np.roll(rows, -t), [j])) for t in rows]
            scale = max(map(abs, [base, *shifted])) or 1.0
            self.check(f"{scorer} of {name}", found[name].engine, found[name].pfi, base - np.mean(shifted), scale)

    def score(self, scorer, X):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return scorer(self.model, X, self.y)


class _Means:
    """What a result must say, from the cells of all pairs."""

    def __init__(self, world, cells, found, w, groups, columns, rows=None):
        self.rows = np.arange(world.n) if rows is None else rows
        count = brute.meetings(found)
        lent = count * w
        if groups is not None:
            lent = lent * (groups[:, None] != groups)
        self.mass = (w[:, None] * lent)[self.rows]
        self.cells = cells[self.rows]
        with np.errstate(invalid="ignore", divide="ignore"):
            self.local = (lent * cells).sum(axis=1)[self.rows] / lent.sum(axis=1)[self.rows]
            self.pfi = (self.mass * self.cells).sum() / self.mass.sum()
        self.w, self.count, self.world, self.columns = w, count, world, columns

    def compare(self, check, said, found, few=False):
        check(f"pfi of {said}", found=found.pfi, expected=self.pfi)
        counted = np.isfinite(self.local)
        check(f"local of {said}", found=np.asarray(found.local)[counted], expected=self.local[counted])
        if few or found.design.ranked:
            return
        at = self.world.at(found, self.columns)
        held = np.eye(len(found.grid) + 1)[at][:, :-1]  # (n, g)
        with np.errstate(invalid="ignore", divide="ignore"):
            total = self.mass.sum(axis=0) @ held
            pi = ((self.mass * self.cells).sum(axis=0) @ held) / total
        kept = total > 0
        check(f"pi of {said}", found=found.pi[kept], expected=pi[kept])
        check(f"pi @ weights of {said}", found=found.pi[kept] @ found.weights[kept], expected=self.pfi)
        if found.design.common and not found.design.leaves_out_own and found.sample.block is None:
            on = at >= 0
            check(f"ici of {said}", found=found.ici[:, at[on]], expected=self.cells[:, on])


def _mean(values, weight):
    return weight @ values / weight.sum() if weight.sum() > 0 else np.nan


def _plain(value):
    if isinstance(value, float) and np.isnan(value):
        return None
    return None if value is None or value is pd.NA else float(value) if isinstance(value, (int, float, np.number)) else value


def run(seed, cases=None, worlds=None, only=None, trace=False):
    """Worlds until there are so many cases or worlds."""
    tally, number = Tally(), 0 if only is None else only
    while (cases is None or tally.cases < cases) and (worlds is None or tally.worlds < worlds):
        world = World(seed, number, tally)
        if trace:
            print(world)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # feature names of frames in estimators, of brute force
            try:
                world.run()
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                again = f"python -m tests.fuzz numbers --seed {seed} --only {number}"
                tally.failures.append(f"{world}: {error!r} at {where.filename}:{where.lineno}; again: {again}")
                if trace:
                    raise
        number += 1
        if only is not None:
            break
    return tally
