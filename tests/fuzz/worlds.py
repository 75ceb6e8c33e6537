"""Fitted models and small tables, drawn at random, and the model's answers for every coalition of pairs of rows."""

import json
import re
import warnings
from dataclasses import dataclass
from functools import cached_property, partial
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
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
)

import brute
import losslens as ll

TRAIN = 70
U = 2.0**-24  # of single precision


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
    model = {"xgb": xgb.XGBRegressor, "xgbc": xgb.XGBClassifier, "lgb": lgb.LGBMRegressor, "lgbc": lgb.LGBMClassifier}[
        name
    ]
    trees = {"n_estimators": int(pick(rng, [1, 5, 12])), "n_jobs": 1}
    if name.startswith("xgb"):
        return model(max_depth=int(pick(rng, [1, 3, 6])), enable_categorical=True, **trees, **more)
    return model(num_leaves=int(pick(rng, [2, 5, 15])), min_child_samples=3, verbose=-1, **trees, **more)


def histograms(model, rng, **more):
    return model(
        max_iter=6,
        max_leaf_nodes=int(pick(rng, [2, 5, 31])),
        min_samples_leaf=4,
        categorical_features="from_dtype",
        **more,
    )


def splined(model):
    columns = make_column_transformer(
        (SplineTransformer(4), ["a", "b"]), (OneHotEncoder(handle_unknown="ignore"), ["c"]), remainder="passthrough"
    )
    return make_pipeline(columns, StandardScaler(with_mean=False), model)


def scaled(model):
    return make_pipeline(StandardScaler(), model)


def catboost(model, rng, **more):
    policy = pick(rng, ["SymmetricTree", "Depthwise", "Lossguide"])
    more |= {"grow_policy": policy, "nan_mode": pick(rng, ["Min", "Max"])}
    few = {"iterations": int(pick(rng, [1, 5, 20])), "depth": int(pick(rng, [1, 3, 6])), "thread_count": 1}
    return model(verbose=0, allow_writing_files=False, random_seed=0, **few, **more)


def voters(rng, kinds):
    """Two or three models of different kinds."""
    return [(f"m{k}", make(rng)) for k, make in enumerate(kinds) if k < 2 or rng.random() < 0.5]


def weights(rng, models):
    return pick(rng, [None, rng.exponential(size=len(models)).tolist()])


def bagged(rng, make, model):
    options = {"max_features": pick(rng, [1.0, 0.75]), "bootstrap_features": bool(pick(rng, [False, True]))}
    return make(model, n_estimators=3, random_state=0, **options)


def averaged(rng):
    models = voters(
        rng,
        [
            lambda rng: histograms(ensemble.HistGradientBoostingRegressor, rng),
            lambda rng: grown(ensemble.RandomForestRegressor, rng, n_estimators=3),
            lambda rng: boosted(rng, "lgb"),
        ],
    )
    return ensemble.VotingRegressor(models, weights=weights(rng, models))


def voted(rng):
    models = voters(
        rng,
        [
            lambda rng: grown(tree.DecisionTreeClassifier, rng),
            lambda rng: histograms(ensemble.HistGradientBoostingClassifier, rng),
            lambda rng: grown(ensemble.RandomForestClassifier, rng, n_estimators=3),
        ],
    )
    return ensemble.VotingClassifier(models, voting="soft", weights=weights(rng, models))


def transformed(rng):
    """A target between transformations that take any number."""
    transformer = pick(rng, [StandardScaler(), PowerTransformer(), QuantileTransformer(n_quantiles=20), None])
    boosting, one = histograms(ensemble.HistGradientBoostingRegressor, rng), grown(tree.DecisionTreeRegressor, rng)
    inside = pick(rng, [boosting, one])
    return TransformedTargetRegressor(inside, transformer=transformer)


def calibrated(rng):
    inside = pick(
        rng,
        [
            histograms(ensemble.HistGradientBoostingClassifier, rng),
            grown(ensemble.RandomForestClassifier, rng, n_estimators=3),
        ],
    )
    several = bool(pick(rng, [False, True]))
    return CalibratedClassifierCV(inside, method=pick(rng, ["sigmoid", "isotonic"]), cv=2, ensemble=several)


def encoded(rng, model):
    """A model behind an encoder, which keeps None and NaN as two categories."""
    encoder = pick(
        rng,
        [
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-5, encoded_missing_value=-2),
        ],
    )
    return make_pipeline(make_column_transformer((encoder, ["c"]), remainder="passthrough"), model)


TREES = ("array", "single", "pandas", "polars", "swapped")
WORDS = ("array", "pandas", "words", "words", "swapped")
ANY = ("array", "pandas", "polars", "words", "arrow", "objects", "swapped")
KINDS = {
    "line": Kind(
        lambda rng: linear.LinearRegression(), lambda rng: linear.LogisticRegression(C=pick(rng, [0.1, 10.0]))
    ),
    "scaled ridge": Kind(
        lambda rng: scaled(linear.Ridge(pick(rng, [0.1, 10.0]))), lambda rng: scaled(linear.RidgeClassifier())
    ),
    "splines": Kind(
        lambda rng: splined(linear.Ridge()), lambda rng: splined(linear.LogisticRegression(max_iter=500)), ("words",)
    ),
    "sparse line": Kind(lambda rng: linear.LassoLars(0.01), lambda rng: svm.LinearSVC()),
    "counts of a line": Kind(lambda rng: scaled(linear.PoissonRegressor()), None, positive=True),
    "amounts of a line": Kind(
        lambda rng: scaled(pick(rng, [linear.GammaRegressor(), linear.TweedieRegressor(power=1.5, link="log")])),
        None,
        positive=True,
    ),
    "discriminants": Kind(
        lambda rng: linear.HuberRegressor(alpha=0.1),
        lambda rng: pick(
            rng,
            [
                LinearDiscriminantAnalysis(),
                GaussianNB(var_smoothing=1e-3),
                OneVsRestClassifier(linear.LogisticRegression(C=10.0)),
            ],
        ),
    ),
    "polynomials": Kind(
        lambda rng: make_pipeline(StandardScaler(), PolynomialFeatures(2), linear.Ridge()),
        lambda rng: make_pipeline(StandardScaler(), PolynomialFeatures(2), linear.LogisticRegression()),
    ),
    "landmarks": Kind(
        lambda rng: make_pipeline(StandardScaler(), Nystroem(n_components=6, random_state=0), linear.Ridge()),
    ),
    "tree": Kind(
        lambda rng: grown(tree.DecisionTreeRegressor, rng),
        lambda rng: grown(tree.DecisionTreeClassifier, rng),
        TREES,
        True,
    ),
    "forest": Kind(
        lambda rng: grown(ensemble.RandomForestRegressor, rng, n_estimators=5),
        lambda rng: grown(ensemble.RandomForestClassifier, rng, n_estimators=5),
        TREES,
        True,
    ),
    "extra trees": Kind(
        lambda rng: grown(ensemble.ExtraTreesRegressor, rng, n_estimators=3),
        lambda rng: grown(ensemble.ExtraTreesClassifier, rng, n_estimators=3),
        TREES,
    ),
    "boosting": Kind(
        lambda rng: ensemble.GradientBoostingRegressor(n_estimators=6, random_state=0),
        lambda rng: ensemble.GradientBoostingClassifier(n_estimators=6, random_state=0),
        TREES,
    ),
    "histograms": Kind(
        lambda rng: histograms(ensemble.HistGradientBoostingRegressor, rng),
        lambda rng: histograms(ensemble.HistGradientBoostingClassifier, rng),
        WORDS,
        True,
    ),
    "histograms of counts": Kind(
        lambda rng: histograms(ensemble.HistGradientBoostingRegressor, rng, loss=pick(rng, ["poisson", "gamma"])),
        None,
        WORDS,
        True,
        True,
    ),
    "bagging": Kind(
        lambda rng: bagged(rng, ensemble.BaggingRegressor, grown(tree.DecisionTreeRegressor, rng)),
        lambda rng: bagged(rng, ensemble.BaggingClassifier, grown(tree.DecisionTreeClassifier, rng)),
    ),
    "bagged boosting": Kind(
        lambda rng: bagged(rng, ensemble.BaggingRegressor, boosted(rng, "lgb")),
        lambda rng: bagged(rng, ensemble.BaggingClassifier, histograms(ensemble.HistGradientBoostingClassifier, rng)),
    ),
    "voting": Kind(averaged, voted),
    "wrappers": Kind(transformed, calibrated),
    "xgboost": Kind(
        lambda rng: boosted(
            rng, "xgb", objective=pick(rng, ["reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror"])
        ),
        lambda rng: boosted(rng, "xgbc"),
        WORDS,
        True,
    ),
    "xgboost of counts": Kind(
        lambda rng: boosted(rng, "xgb", objective=pick(rng, ["count:poisson", "reg:gamma", "reg:tweedie"])),
        None,
        WORDS,
        True,
        True,
    ),
    "lightgbm": Kind(
        lambda rng: boosted(rng, "lgb", objective=pick(rng, ["regression", "l1", "quantile", "huber"])),
        lambda rng: boosted(rng, "lgbc"),
        WORDS,
        True,
    ),
    "lightgbm of counts": Kind(
        lambda rng: boosted(rng, "lgb", objective=pick(rng, ["poisson", "tweedie", "gamma"])), None, WORDS, True, True
    ),
    "catboost": Kind(
        lambda rng: catboost(cat.CatBoostRegressor, rng),
        lambda rng: catboost(cat.CatBoostClassifier, rng),
        ("array", "pandas"),
        True,
    ),
    "kernel ridge": Kind(
        lambda rng: scaled(KernelRidge(alpha=pick(rng, [1e-3, 0.5]), kernel="rbf", gamma=pick(rng, [0.1, 0.5])))
    ),
    "support vectors": Kind(
        lambda rng: scaled(svm.NuSVR(gamma=pick(rng, ["scale", 0.3]))), lambda rng: scaled(svm.SVC())
    ),
    "process": Kind(
        lambda rng: GaussianProcessRegressor(RBF(1.5) + WhiteKernel(0.3), optimizer=None, normalize_y=True)
    ),
    "neighbours": Kind(
        lambda rng: neighbors.KNeighborsRegressor(3, algorithm="kd_tree"),
        lambda rng: neighbors.KNeighborsClassifier(3, algorithm="kd_tree"),
    ),
    "network": Kind(
        lambda rng: TransformedTargetRegressor(
            scaled(MLPRegressor(hidden_layer_sizes=(5,), max_iter=30, random_state=0)), transformer=StandardScaler()
        )
    ),
    "mixed columns": Kind(
        lambda rng: make_pipeline(StandardScaler(), PCA(2), linear.Ridge()),
        lambda rng: make_pipeline(PCA(2), linear.LogisticRegression()),
    ),
    "encoders": Kind(
        lambda rng: encoded(
            rng,
            pick(
                rng,
                [
                    grown(ensemble.RandomForestRegressor, rng, n_estimators=4),
                    histograms(ensemble.HistGradientBoostingRegressor, rng),
                ],
            ),
        ),
        lambda rng: encoded(rng, grown(ensemble.RandomForestClassifier, rng, n_estimators=4)),
        ("objects",),
        True,
    ),
    "leaves far apart": Kind(
        lambda rng: pick(
            rng,
            [
                grown(ensemble.RandomForestRegressor, rng, n_estimators=4),
                grown(tree.DecisionTreeRegressor, rng),
            ],
        ),
        None,
        TREES,
        True,
        True,
    ),
    "classes of unequal weight": Kind(
        None,
        lambda rng: grown(
            tree.DecisionTreeClassifier, rng, class_weight={"no": 10.0 ** -rng.integers(0, 10), "so": 1.0, "yes": 1e3}
        ),
        TREES,
        True,
    ),
    "function": Kind(None, None, ANY, True),
}

VALUES = ["squared_error", "absolute_error", "huber", "pinball", "custom"]
POSITIVE = ["poisson_deviance", "gamma_deviance", "tweedie_deviance", "squared_error"]
LOSSES = {"probabilities": ["log_loss", "brier"], "labels": ["zero_one"], "scores": ["hinge"]}
SCORERS = {"values": "neg_mean_squared_error", "probabilities": "neg_log_loss", "labels": "accuracy"}


def cubed(y, prediction):
    return np.abs(y - prediction) ** 3


# Tables.


def drawn(rng, n, missing, words, far=1e4):
    """Columns with and without ties, a category, a constant; and what y depends on."""
    data = pd.DataFrame(
        {"a": rng.normal(size=n), "b": np.round(rng.normal(size=n), 1), "i": rng.integers(0, 3, n).astype(float)}
    )
    c = rng.choice(list("uvw"), n)
    signal = data.a * (data.b > 0) + data.i + np.where(c > "u", np.sin(2 * data.a), data.b) + 0.3 * rng.normal(size=n)
    if rng.random() < 0.3:  # a value that occurs once, far from the others
        data.loc[int(rng.integers(n)), "b"] = pick(rng, [far, -1e-6])
    if rng.random() < 0.3:
        data.loc[data.i == 0, "i"] = rng.choice([0.0, -0.0], int((data.i == 0).sum()))
    if missing:
        data.loc[rng.random(n) < 0.15, "a"] = np.nan
    if words == "objects":
        data["c"] = c.astype(object)
        if missing:
            for kind in (None, np.nan):
                data.loc[rng.random(n) < 0.1, "c"] = pd.Series([kind] * n, dtype=object)
    elif words:
        data["c"] = pd.Categorical(c, categories=list("uvw"))
    else:
        data["k"] = np.full(n, 0.1) if rng.random() < 0.5 else np.round(data.b + rng.normal(size=n))
    return data, signal.to_numpy()


def contained(data, kind):
    """The table in a container; polars and arrow get null for every other missing number, NaN for the rest."""
    if kind in ("array", "single", "swapped"):
        return data.to_numpy(np.float32 if kind == "single" else np.float64)
    if kind not in ("polars", "arrow"):
        return data
    columns = data.to_dict("list")
    columns["a"] = [None if value != value and row % 2 else value for row, value in enumerate(columns["a"])]
    table = pa.Table.from_pandas(data, preserve_index=False)
    table = table.set_column(0, "a", pa.array(columns["a"], pa.float64(), from_pandas=False))
    return table if kind == "arrow" else pl.from_arrow(table)


def assembled(X, index):
    """A table whose column j holds the values of rows index[j], in the container that X is."""
    if isinstance(X, np.ndarray):
        return np.column_stack([X[at, j] for j, at in enumerate(index)])
    if isinstance(X, pd.DataFrame):
        return pd.concat([X.iloc[at, j].reset_index(drop=True) for j, at in enumerate(index)], axis=1)
    if isinstance(X, pl.DataFrame):
        return pl.DataFrame([X[:, j].gather(at) for j, at in enumerate(index)])
    return pa.table({name: X.column(j).take(pa.array(index[j])) for j, name in enumerate(X.column_names)})


def mixed(X, rows, donors, columns):
    """Rows with the donors' values in these columns."""
    return assembled(X, [donors if j in columns else rows for j in range(4)])


def numbers_of(X):
    """Any of the tables as numbers that tell its values apart: kinds of missing values and signed zeros, too."""
    if isinstance(X, np.ndarray):
        columns = X.T.tolist()
    else:
        names = X.column_names if isinstance(X, pa.Table) else X.columns
        columns = [X[name].to_pylist() if isinstance(X, pa.Table) else X[name].to_list() for name in names]
    return np.array([[_number(value) for value in column] for column in columns]).T


def _number(value):
    if value is None:
        return -1.5
    if isinstance(value, str):
        return {"u": 0.0, "v": 1.0, "w": 2.0}[value]
    if value != value:
        return 2.5
    return -0.25 if value == 0 and np.signbit(value) else float(value)


def plain(X, unit, shift, shape):
    A = numbers_of(X)
    if shape == 0:
        return unit * (A @ np.arange(1.0, A.shape[1] + 1) + shift)
    return unit * (A[:, 0] * A[:, 1] + np.maximum(A[:, 2], A[:, -1]) + shift)


def plain_chances(X, k):
    scores = numbers_of(X) @ np.array([[1.0, -1.0, 0.5], [0.5, 1.0, -1.0], [-0.2, 0.1, 0.4], [0.3, -0.6, 0.1]])[:, :k]
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def plain_value(value):
    """What identifies a value on a grid."""
    if value is None or value is pd.NA:
        return "missing", "None"
    if isinstance(value, float) and np.isnan(value):
        return "missing", "NaN"
    return (float(value), bool(np.signbit(value))) if isinstance(value, (int, float, np.number)) else value


# Worlds.


@dataclass
class World:
    """A fitted model, a table it has not seen, and every coalition of every pair of its rows."""

    seed: int
    number: int

    def __post_init__(self):
        self.rng = rng = np.random.default_rng([self.seed, self.number, 7])
        self.name = list(KINDS)[self.number % len(KINDS)]
        kind = KINDS[self.name]
        self.k = (
            0
            if kind.positive or (kind.classifier is None and self.name != "function")
            else int(pick(rng, [2, 3] if kind.regressor is None and self.name != "function" else [0, 0, 2, 3]))
        )
        if self.name == "sparse line" and self.k == 3:
            self.k = 2
        self.container = pick(rng, kind.tables)
        missing = kind.missing and rng.random() < 0.5
        far = 8.0 if kind.positive else 1e4  # exponentials of a line stay finite
        words = self.container if self.container in ("words", "arrow", "objects") else ""
        self.n = int(rng.integers(5, 13))
        self.positive = kind.positive
        self.unit, self.shift = 10.0 ** rng.integers(-6, 7), float(pick(rng, [0.0, 0.0, 1.0, -30.0, 1000.0]))
        data, signal = drawn(rng, TRAIN, missing, words, far)
        test, seen = drawn(rng, self.n, missing, words, far)
        if rng.random() < 0.5:  # values of training rows, and twice the same
            test.iloc[0], test.iloc[1] = data.iloc[0], data.iloc[0]
        if self.container == "words":
            test["c"] = pd.Categorical(test["c"], categories=list("uvw"))
        self.X = contained(test, self.container)  # what the model is asked with
        self.table = self.X.astype(">f8") if self.container == "swapped" else self.X  # what the library gets
        self.names = [f"x{j}" for j in range(4)] if isinstance(self.X, np.ndarray) else list(test.columns)
        self.cuts = np.quantile(signal, np.arange(1, self.k) / self.k) if self.k else None
        self.classes = None
        if self.name == "function":
            shape = int(rng.integers(2))
            self.model = (
                partial(plain_chances, k=self.k)
                if self.k
                else partial(plain, unit=self.unit, shift=self.shift, shape=shape)
            )
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of learners that stop early
                self.model = (kind.classifier if self.k else kind.regressor)(rng).fit(
                    contained(data, self.container), self.of(signal)
                )
        self.y = self.of(seen)

    def of(self, signal):
        """y in its unit; classes; or positive numbers."""
        if self.k:
            labels = (
                np.arange(self.k) if self.name in ("xgboost", "function") else np.array(["no", "so", "yes"])[: self.k]
            )
            return labels[np.digitize(signal, self.cuts)]
        if self.name == "leaves far apart":
            return np.exp(pick(np.random.default_rng(self.number), [1, 3, 6]) * signal)
        if self.positive:
            return (
                self.unit * np.exp(signal / 3)
                if self.name != "counts of a line"
                else np.round(np.exp(signal / 2)) + 1.0
            )
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

    # XGBoost adds up in single precision; docs/engines.md states what that may move.

    @property
    def xgboost(self):
        return self.name.startswith("xgboost")

    @cached_property
    def margin_error(self):
        """(T + 8) u A: T trees, u = 2^-24, and A the sum of each tree's largest |leaf| and of the |base score|."""
        booster = self.model.get_booster()
        leaves = [re.findall(r'"leaf": ([^ ,}]+)', dump) for dump in booster.get_dump(dump_format="json")]
        largest = [max(abs(float(leaf)) for leaf in tree) for tree in leaves]
        settings = json.loads(booster.save_config())["learner"]["learner_model_param"]
        base = max(abs(float(number)) for number in re.findall(r"[-+.\dEe]+", str(settings["base_score"])))
        if self.positive:
            base = abs(np.log(base))
        return (len(leaves) + 8) * U * (sum(largest) + base)

    def shifted(self, reads, sign):
        """The predictions of all pairs with margins moved by as much, and 8 u of the prediction."""
        f, by = self.pairs(reads).astype(float), sign * self.margin_error
        if reads == "probabilities":
            with np.errstate(divide="ignore"):
                own = np.arange(self.k) == self.target[:, None]
                moved = np.log(f) + np.where(own, by, -by)[:, None, :]
            f = np.exp(moved) / np.exp(moved).sum(axis=-1, keepdims=True)
        elif self.positive:
            f = f * np.exp(by)
        else:
            f = f + by
        return f * (1 + 8 * U * np.sign(by)) if reads == "values" else f

    def slack(self, loss, reads):
        """How far a cell may be off: what these errors move the loss by, with the value replaced and without."""
        if not self.xgboost or reads == "labels":
            return 0.0
        here, moved = self.table_of(loss, reads), [self.table_of(loss, reads, self.shifted(reads, s)) for s in (-1, 1)]
        return 2 * float(max(np.abs(one - here).max() for one in moved))

    def moved(self, reads, k=None):
        """How far a prediction may be off."""
        if not self.xgboost:
            return 0.0
        gaps = [np.abs(self.shifted(reads, sign) - self.pairs(reads)) for sign in (-1, 1)]
        return float(max((gap if k is None else gap[..., k]).max() for gap in gaps))

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
            delta = self.unit * (1.0, 1e-2, 1e-8)[self.number % 3]
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

    def table_of(self, loss, reads, said=None):
        """l of every pair in every coalition, (16, n, n)."""
        said = self.pairs(reads) if said is None else said
        flat = said.reshape(-1, *said.shape[3:])
        flat = (
            flat.astype(float) if reads == "values" else flat
        )  # a log loss is clipped by the precision of its argument
        y = np.tile(np.repeat(self.target, self.n), 16)
        return np.asarray(loss(y, flat), float).reshape(16, self.n, self.n)

    def weights(self, rng):
        if rng.random() < 0.5:
            return None
        weight = rng.random(self.n) + 0.2
        return weight if rng.random() < 0.5 else np.where(np.arange(self.n) > 2, np.round(3 * weight), 1.0)

    def designs(self):
        m, n = 3, self.n
        exact = ["auto", "all", "all", "auto", ll.Derangements(), ll.Derangements()]  # where engines answer
        return [*exact, ll.Latin(m), ll.Permutations(m), ll.Grid(m), ll.Systematic(m), ll.Derangements(m), ll.Latin(n)]

    def keys_of(self, columns):
        """What each row holds in these columns, to find it on the grid."""
        if isinstance(self.X, np.ndarray):
            held = [self.X[:, j].tolist() for j in columns]
        else:
            held = [
                list(self.X[self.names[j]])
                if not isinstance(self.X, pa.Table)
                else self.X.column(self.names[j]).to_pylist()
                for j in columns
            ]
        return [tuple(plain_value(value) for value in values) for values in zip(*held, strict=True)]

    def columns(self, at):
        return at if isinstance(self.X, np.ndarray) else [self.names[j] for j in at]

    def __str__(self):
        data = f"{self.container}, n={self.n}, unit {self.unit:g}, shift {self.shift:g}"
        return f"{self.name}, {self.k or 'no'} classes, {data}"
