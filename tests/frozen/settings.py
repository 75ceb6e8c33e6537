"""Fitted models with rows to explain: the kinds of models that the fuzzer has, on tables of a fixed size and seed."""

import warnings
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from sklearn import ensemble, linear_model, multioutput, svm, tree
from sklearn.base import clone
from tests.engines import test_engine_table as table_of_engines
from tests.fuzz import worlds
from tests.fuzz.worlds import KINDS, pick

import losslens as ll
from survival_models import Weibull, censored_rows

ROWS, TRAINED = 60, 300
CLASSES = {"values": 0, "two": 2, "three": 3}
OBJECTS = {
    "huber": ll.losses.huber(0.5), "pinball": ll.losses.pinball(0.2),
    "tweedie_deviance": ll.losses.tweedie_deviance(1.5), "custom": worlds.cubed,
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """A model, and rows that it has not seen."""

    model: Any
    X: Any
    y: Any

    @property
    def weights(self):
        w = np.random.default_rng(1).exponential(size=len(self.y))
        return np.where(w < 0.2, 0.0, w)

    @property
    def groups(self):
        return np.arange(len(self.y)) // 3

    @property
    def said(self):
        """The model's own predictions: another model is no other answer."""
        for name in ("predict_proba", "decision_function", "predict"):
            if hasattr(self.model, name):
                return np.asarray(getattr(self.model, name)(self.X), dtype=float)
        return np.asarray(self.model(self.X), dtype=float)


def seeded(name):
    """Of its own for each name: a model that is added changes no other."""
    return np.random.default_rng(crc32(name.encode()))


def fitted(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of learners that stop early
        return model.fit(X, y)


def targets(kind):
    """What models of this kind predict."""
    of = KINDS[kind]
    classes = [] if of.positive or (of.classifier is None and kind != "function") else ["two", "three"]
    values = [] if of.regressor is None and kind != "function" else ["values"]
    return [*values, *(classes[:1] if kind == "sparse line" else classes)]


def losses(kind, target):
    """The fuzzer's names of losses that read what these models give."""
    if target == "values":
        return worlds.POSITIVE if KINDS[kind].positive else worlds.VALUES
    if kind == "function" or hasattr(KINDS[kind].classifier(seeded(kind)), "predict_proba"):
        return [*worlds.LOSSES["probabilities"], *(worlds.LOSSES["labels"] if kind != "function" else [])]
    return [*(worlds.LOSSES["scores"] if target == "two" else []), *worlds.LOSSES["labels"]]


@cache
def setting(kind, target="values", rows=ROWS):
    """A model of one of the fuzzer's kinds."""
    of, k, rng = KINDS[kind], CLASSES[target], seeded(f"{kind}/{target}")
    container, missing = pick(rng, of.tables), of.missing and rng.random() < 0.5
    words = container if container in ("words", "arrow", "objects") else ""
    (data, signal), (test, seen) = (
        worlds.drawn(rng, worlds.TRAIN, missing, words),
        worlds.drawn(rng, rows, missing, words),
    )
    cuts = np.quantile(signal, np.arange(1, k) / k) if k else None
    labels = np.arange(3) if kind in ("xgboost", "function") else np.array(["no", "so", "yes"])

    def as_y(signal):
        if k:
            return labels[np.digitize(signal, cuts)]
        if of.positive:
            return np.round(np.exp(signal / 2)) + 1.0 if kind == "counts of a line" else np.exp(signal / 3)
        return signal

    X = worlds.contained(test, container)
    if kind == "function":
        predict = partial(worlds.plain_chances, k=k) if k else partial(worlds.plain, unit=1.0, shift=0.0, shape=1)
        return Setting(predict, X, as_y(seen))
    model = (of.classifier if k else of.regressor)(rng)
    return Setting(fitted(model, worlds.contained(data, container), as_y(signal)), X, as_y(seen))


ENGINES = table_of_engines.EXACT | table_of_engines.SAMPLED


@cache
def of_engine_table(name):
    """A model of docs/engines.md, with a seed."""
    model, target = ENGINES[name][:2]
    model = clone(model)
    seeds = {key: 0 for key in model.get_params() if key.endswith("random_state")}
    X, y = table_of_engines.X, table_of_engines.TARGETS[target]
    return Setting(fitted(model.set_params(**seeds) if seeds else model, X, y), X, y)


def product(X):
    X = np.asarray(X, float)
    return X[:, 0] * (X[:, 1] > 0) + X[:, 2] + 0.5 * X[:, 3] * X[:, -1]


MODELS = {
    "function": lambda X, y: product,
    "line": lambda X, y: linear_model.LinearRegression().fit(X, y),
    "forest": lambda X, y: ensemble.RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, y),
    "boosting": lambda X, y: ensemble.GradientBoostingRegressor(n_estimators=15, max_depth=3, random_state=0).fit(X, y),
    "large boosting": lambda X, y: ensemble.HistGradientBoostingRegressor(max_iter=40, min_samples_leaf=3).fit(X, y),
    "tree": lambda X, y: tree.DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, y),
    "machine": lambda X, y: svm.SVR(C=3.0).fit(X, y),
    "odds": lambda X, y: linear_model.LogisticRegression().fit(X, y > 0),
    "boosted odds": lambda X, y: ensemble.GradientBoostingClassifier(n_estimators=10, random_state=0).fit(X, y > 0),
    "forest of classes": lambda X, y: ensemble.RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y > 0),
    "two outputs": lambda X, y: ensemble.RandomForestRegressor(4, max_depth=3, random_state=0).fit(X, two(X, y)),
    "two lines": lambda X, y: multioutput.MultiOutputRegressor(linear_model.Ridge()).fit(X, two(X, y)),
    "two functions": lambda X, y: lambda X: np.column_stack([product(X), -np.asarray(X, float)[:, 0]]),
}  # fmt: skip


def two(X, y):
    return np.column_stack([y, np.asarray(X, float)[:, 1] ** 2])


@cache
def made(name, rows=ROWS, columns=5, labelled=False):
    """A model of a pandas frame of numbers: the first columns without ties, one of small integers."""
    rng = seeded(f"made/{columns}")
    data = rng.normal(size=(TRAINED + rows, columns))
    data[:, 3] = rng.integers(0, 4, len(data))
    data[:, 1] += 0.5 * data[:, 0]
    y = product(data) + 0.3 * rng.normal(size=len(data))
    frame = pd.DataFrame(data, columns=[f"x{j}" for j in range(columns)])
    train, test = slice(0, TRAINED), slice(TRAINED, None)
    model = MODELS[name](frame[train], y[train])
    X, y = frame[test].reset_index(drop=True), y[test]
    if labelled:
        X.index = [f"r{i}" for i in range(rows)]
    y = y > 0 if "odds" in name or "classes" in name else two(X, y) if name.startswith("two") else y
    return Setting(model, X, y)


@cache
def survival():
    return Setting(Weibull([1.0, 0.5, 0.0]), *censored_rows(ROWS))
