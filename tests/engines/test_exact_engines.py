"""Exact engines say what brute force says: every pair of rows asked of the model's own predict.

Cases are drawn: data, model, options, loss and container hang on a seed. Tables hold what is awkward: values at
thresholds and next to them, beyond the training range, missing, of unseen categories, constant and unused columns.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from sklearn import ensemble, svm, tree
from sklearn import linear_model as linear
from sklearn.base import is_classifier
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)

import brute
import losslens as ll
from losslens.engines.base import Declined
from losslens.engines.choice import FEW_IN_SINGLE, ROUNDED_IN_SINGLE, SINGLE, read_trees
from losslens.models import as_model
from losslens.passes import left_out_pairs
from tree_walks import XGBOOST_3_1

# Brute force.


def paired(X, j):
    """Row i with column j of row k, as row n i + k."""
    i, k = np.divmod(np.arange(len(X) ** 2), len(X))
    if isinstance(X, pd.DataFrame):
        return X.iloc[i].reset_index(drop=True).assign(**{X.columns[j]: X.iloc[k, j].array})
    if isinstance(X, pl.DataFrame):
        return X[i].with_columns(X[:, j].gather(k))
    rows = X[i]
    rows[:, j] = X[k, j]
    return rows


def places(grid, values):
    """Which grid value each row holds; 0 and -0 are two."""

    def name(value):
        return (
            None if pd.isna(value) else (value, np.signbit(value)) if isinstance(value, (float, np.floating)) else value
        )

    names = {name(value): at for at, value in enumerate(grid.tolist())}
    return np.array([names[name(value)] for value in values])


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model and a table it has not seen."""

    model: Any
    X: Any
    y: np.ndarray
    loss: Any
    engine: str = "trees"
    tolerance: float = 1e-9  # of the largest error, or of what `close` is given

    @property
    def n(self):
        return len(self.y)

    @property
    def names(self):
        return [f"x{j}" for j in range(self.X.shape[1])] if isinstance(self.X, np.ndarray) else list(self.X.columns)

    def column(self, name):
        return list(self.X[:, self.names.index(name)] if isinstance(self.X, np.ndarray) else self.X[name])

    def respond(self, X):
        """What the loss reads, from the model itself."""
        model = self.model
        if self.loss == "hinge":
            raw = {lgb.LGBMClassifier: {"raw_score": True}, xgb.XGBClassifier: {"output_margin": True}}.get(type(model))
            return model.decision_function(X) if raw is None else model.predict(X, **raw)
        if not is_classifier(model):
            return model.predict(X)
        return np.searchsorted(model.classes_, model.predict(X)) if self.loss == "zero_one" else model.predict_proba(X)

    @property
    def target(self):
        return np.searchsorted(self.model.classes_, self.y) if is_classifier(self.model) else self.y

    def judge(self, predictions, repeats=1, loss=None):
        loss = loss or self.loss
        return (brute.LOSSES[loss] if isinstance(loss, str) else loss)(np.repeat(self.target, repeats), predictions)

    @cached_property
    def said(self):
        """Predictions of the rows as they are."""
        return self.respond(self.X)

    @cached_property
    def pairs(self):
        """Predictions of all pairs, (n, n) or (n, n, K), of each column."""
        asked = {name: self.respond(paired(self.X, j)) for j, name in enumerate(self.names)}
        return {name: said.reshape(self.n, self.n, *said.shape[1:]) for name, said in asked.items()}

    def cells(self, name, loss=None):
        """The changes of loss of all pairs."""
        pairs = self.pairs[name]
        losses = self.judge(pairs.reshape(-1, *pairs.shape[2:]), self.n, loss).reshape(self.n, self.n)
        return losses - self.judge(self.said, loss=loss)[:, None]

    def explain(self, **more):
        return ll.feature_importance(self.model, self.X, self.y, **({"loss": self.loss, "progress": False} | more))

    def blind(self, **more):
        """The same of a bare function, of which nothing is known."""
        options = {"loss": self.loss, "donors": "all", "progress": False} | more
        return ll.feature_importance(self.respond, self.X, self.target, **options)

    @cached_property
    def result(self):
        return self.explain()

    def of(self, rows):
        """These rows alone."""
        return replace(self, X=self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows], y=self.y[rows])

    def close(self, found, expected, what, loss=None, scale=None):
        atol = self.tolerance * (largest_error(self, loss) if scale is None else scale)
        np.testing.assert_allclose(found, expected, rtol=1e-15, atol=atol, err_msg=what)  # a constant has no spread


@cache
def largest_error(case, loss):
    """GE_P + GE_j, j the column that the model needs most: rounding of a loss is relative to it, in any unit."""
    changes = [case.cells(name, loss).mean() for name in case.names]
    return 2 * case.judge(case.said, loss=loss).mean() + max(0.0, *changes)


def agrees(case, result, weight=None, own=True, loss=None, groups=None):
    """Everything that a result says is what the pairs say; with groups those of different ones."""
    close = partial(case.close, loss=loss)
    w = np.ones(case.n) if weight is None else np.asarray(weight, float)
    error = w @ case.judge(case.said, loss=loss) / w.sum()
    close(result.error, error, "error")
    for name, found in result.items():
        cells, predicted = case.cells(name, loss), case.pairs[name]
        expected = brute.averages(cells, np.ones((case.n, case.n)) - (not own) * np.eye(case.n), w, groups)
        close(found.pfi, expected.pfi, f"pfi of {name}")
        close(found.local, expected.local, f"local of {name}")
        if error > 0:
            close(found.ratio * error, error + expected.pfi, f"ratio of {name}")
        at = places(found.grid, case.column(name))
        held = np.eye(len(found.grid))[at]  # (n, g)
        mass = expected.mass.sum(axis=0) @ held
        close(found.weights, mass / mass.sum(), f"weights of {name}", scale=1.0)
        # At a value whose holders have no weight there is a mean over the rows all the same.
        whole = own and groups is None
        pi = (w @ cells / w.sum())[held.argmax(axis=0)] if whole else (expected.mass * cells).sum(axis=0) @ held / mass
        close(found.pi, pi, f"pi of {name}")
        close(found.pi @ found.weights, found.pfi, f"pi @ weights of {name}")
        close(found.ici[:, at], cells, f"ici of {name}")
        if whole:
            close(found.ici @ found.weights, found.local, f"ici @ weights of {name}")
        for target, effect in effects(case, found):
            said = predicted == target if case.loss == "zero_one" else predicted
            said = predicted[..., target] if predicted.ndim == 3 else said
            close(effect.ice[:, at], said, f"ice of {name}", scale=said.std())
            close(effect.pd[at], w @ said / w.sum(), f"pd of {name}", scale=said.std())


def effects(case, found):
    """The effects of a result, by the column of the predictions that they are about."""
    if not is_classifier(case.model):
        return [(None, found.effect)]
    classes = list(case.model.classes_)
    if case.loss == "hinge" and len(classes) == 2:
        return [(None, found.effect)]
    return [(k, found.effect_of(label)) for k, label in enumerate(classes)]


# Tables and models.


def cubed(y, prediction):
    return np.abs(y - prediction) ** 3


def frame(rng, n, missing, words):
    """A table of all kinds of columns, and a target that hangs on most of them."""
    data = pd.DataFrame({"a": rng.normal(size=n), "b": np.round(rng.normal(size=n), 1), "i": rng.integers(0, 5, n)})
    data["t"], data["still"], data["unused"] = rng.random(n) < 0.4, 0.1, 0.0
    c = rng.choice([*words], n)
    signal = data.a * (data.b > 0) + data.i * data.t + np.where(c > "v", np.sin(2 * data.a), 0) + rng.normal(size=n) / 3
    if missing:
        for name in "ab":
            data.loc[rng.random(n) < 0.15, name] = np.nan
        c = np.where(rng.random(n) < 0.1, None, c.astype(object))
    return data.assign(c=pd.Categorical(c)), signal.to_numpy()


def contained(data, kind):
    """The table in the user's container; categories are for frames."""
    if kind == "categories":
        return data
    data = data.drop(columns="c")
    if kind in ("pandas", "polars"):
        return data if kind == "pandas" else pl.from_pandas(data)
    return data.to_numpy(kind)


def thresholds(model, j):
    """Where trees cut column j."""
    try:
        trees = read_trees(as_model(model), "probabilities" if is_classifier(model) else "values")
    except Declined:
        trees = None
    at = np.empty(0) if trees is None else trees.threshold[trees.feature == j]
    return at[np.isfinite(at)]


def draw(
    rng, model, loss, container="float64", k=0, n=None, train=150, missing=False, words="uvwxyz", positive=False, **more
):
    """Fit a model to a table with the words u, v, w and x, and take an awkward other one."""
    data, signal = frame(rng, train, missing, "uvwx")
    cuts = np.quantile(signal, np.arange(1, k) / k) if k else None
    names = np.arange(k) if isinstance(model, xgb.XGBClassifier) else np.array(["no", "so", "yes"])[:k]

    def target(signal):
        if k:
            return names[np.digitize(signal, cuts)]
        counted = np.round(np.exp(signal / 3)) if loss == "poisson_deviance" else np.exp(signal / 3)
        return counted if positive or loss == "poisson_deviance" else signal

    model.fit(contained(data, container), target(signal))
    n = n or int(rng.integers(12, 33))
    data, signal = frame(rng, n, missing, words)
    data["unused"] = rng.normal(size=n)
    for j, name in enumerate("ab"):
        at = rng.choice(np.append(thresholds(model, j), [-9.0, 9.0]), n // 2)  # and beyond all training rows
        at = [at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf)][rng.integers(3)]
        data.loc[rng.choice(n, n // 2, replace=False), name] = at
    if container == "categories" and isinstance(model, xgb.XGBModel) and not XGBOOST_3_1:
        codes = read_trees(as_model(model), "probabilities" if k else "values").feature == list(data).index("c")
        more["engine"] = "blackbox" if codes.any() else "trees"
    return Case(model, contained(data, container), target(signal), loss, **more)


ARRAYS, FRAMES, CATEGORIES = ("float64", "float32"), ("pandas", "polars"), ("categories",)
NUMBERS, CLASSES = ("squared_error", "absolute_error", "huber", "pinball", cubed), ("log_loss", "brier", "zero_one")


@dataclass(frozen=True)
class Kind:
    """Models of one kind: what regresses and what classifies, and what is drawn for them."""

    regressor: Any
    classifier: Any = None
    options: Any = ()  # {name: choices}
    losses: tuple = (NUMBERS, (*CLASSES, "hinge"))
    containers: tuple = ARRAYS + FRAMES
    missing: tuple = (False, True)
    train: tuple = (150,)
    fixed: Any = ()  # of the case


def scaled(model, **options):
    return make_pipeline(StandardScaler(), model(**options))


def splined(model, **options):
    one_hot = (OneHotEncoder(handle_unknown="ignore"), ["c"])
    columns = make_column_transformer((SplineTransformer(4), ["a", "b"]), one_hot, remainder="passthrough")
    return make_pipeline(columns, StandardScaler(with_mean=False), model(**options))


GROWN = {"max_depth": [None, 1, 3], "max_leaf_nodes": [None, None, 2, 9]}
GROVE = {"n_estimators": [1, 5], **GROWN}
HIST = {"max_iter": [4], "max_leaf_nodes": [2, 5, 200], "min_samples_leaf": [1, 20]}
QUIET = {"n_estimators": [4], "n_jobs": [1]}
LIGHT = {"num_leaves": [2, 5, 200], "min_child_samples": [1, 20], "min_data_per_group": [1], "verbose": [-1], **QUIET}
COUNTING = {"objective": ["count:poisson"]}
EXTREME = {"max_depth": [1, 3, 9], "min_child_weight": [0, 1], "enable_categorical": [True], **QUIET}
GROVES = {"losses": (NUMBERS, CLASSES), "train": (60, 400)}
HISTS = {"containers": ARRAYS + FRAMES + 4 * CATEGORIES, "train": (400,)}
LIGHTS = {"containers": (*ARRAYS, "pandas", *3 * CATEGORIES), "train": (400,)}
EXTREMES = HISTS | {"fixed": {"tolerance": 1e-5, "words": "uvwx"}}  # which it refuses others than
LINES = {"missing": (False,), "containers": ("float64", *FRAMES), "fixed": {"engine": "additive"}}
LINES |= {"losses": (("squared_error", "absolute_error", "pinball", "huber"), ("hinge",))}
LINKS = {"missing": (False,), "containers": ("float64", *FRAMES), "fixed": {"engine": "link", "positive": True}}
LINKS |= {"losses": (("poisson_deviance", "gamma_deviance", "tweedie_deviance", *NUMBERS[:4]), CLASSES)}
BUMPS = LINES | {"losses": (NUMBERS, ("hinge",)), "fixed": {"engine": "products"}}
DESCENT = {"loss": "log_loss", "alpha": 0.3, "random_state": 0}
COUNTS = {"losses": (("poisson_deviance",),)}
PROCESS = {"kernel": [2.0 * RBF(1.5) + WhiteKernel(0.1)], "optimizer": [None]}
KINDS = {
    "tree": Kind(tree.DecisionTreeRegressor, tree.DecisionTreeClassifier, GROWN, **GROVES),
    "forest": Kind(ensemble.RandomForestRegressor, ensemble.RandomForestClassifier, GROVE, **GROVES),
    "random": Kind(ensemble.ExtraTreesRegressor, ensemble.ExtraTreesClassifier, GROVE, **GROVES),
    "boosting": Kind(
        ensemble.GradientBoostingRegressor, ensemble.GradientBoostingClassifier,
        {"n_estimators": [5], "max_depth": [1, 3, 7]}, missing=(False,),
    ),
    "histograms": Kind(
        ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier, HIST, **HISTS
    ),
    "histograms of counts": Kind(
        ensemble.HistGradientBoostingRegressor, None, HIST | {"loss": ["poisson"]}, **(HISTS | COUNTS)
    ),
    "lightgbm": Kind(lgb.LGBMRegressor, lgb.LGBMClassifier, LIGHT, **LIGHTS),
    "lightgbm of counts": Kind(lgb.LGBMRegressor, None, LIGHT | {"objective": ["poisson"]}, **(LIGHTS | COUNTS)),
    "xgboost": Kind(xgb.XGBRegressor, xgb.XGBClassifier, EXTREME, **EXTREMES),
    "xgboost of counts": Kind(xgb.XGBRegressor, None, EXTREME | COUNTING, **(EXTREMES | COUNTS)),
    "line": Kind(linear.LinearRegression, svm.LinearSVC, **LINES),
    "scaled line": Kind(partial(scaled, linear.Lasso), partial(scaled, linear.LogisticRegression), **LINES),
    "splines": Kind(
        partial(splined, linear.Ridge), partial(splined, linear.RidgeClassifier), **(LINES | {"containers": CATEGORIES})
    ),
    "logistic and counts": Kind(linear.PoissonRegressor, partial(scaled, linear.LogisticRegression, C=0.05), **LINKS),
    "discriminant and gamma": Kind(
        linear.GammaRegressor, partial(LinearDiscriminantAnalysis, solver="lsqr", shrinkage=0.3), **LINKS
    ),
    "descent and Tweedie": Kind(
        partial(scaled, linear.TweedieRegressor, power=1.5), partial(scaled, linear.SGDClassifier, **DESCENT), **LINKS
    ),
    "splined counts": Kind(partial(splined, linear.PoissonRegressor), **(LINKS | {"containers": CATEGORIES})),
    "machine": Kind(svm.SVR, svm.SVC, {"gamma": ["scale", 0.3]}, **BUMPS),
    "scaled machine": Kind(partial(scaled, svm.NuSVR), partial(scaled, svm.NuSVC), {"nu": [0.2]}, **BUMPS),
    "ridge of kernels": Kind(KernelRidge, None, {"kernel": ["rbf"], "gamma": [0.2]}, **BUMPS),
    "process": Kind(GaussianProcessRegressor, None, PROCESS, **BUMPS),
}  # fmt: skip


def chosen(rng, choices):
    return {key: values[rng.integers(len(values))] for key, values in dict(choices).items()}


def made(name, k, rng, **more):
    """A model of a kind, not fitted."""
    model = (KINDS[name].classifier if k else KINDS[name].regressor)(**(chosen(rng, KINDS[name].options) | more))
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model


@cache
def case_of(name, k, seed, n=None):
    kind, rng = KINDS[name], np.random.default_rng([seed, k, list(KINDS).index(name)])
    choices = {"container": kind.containers, "missing": kind.missing, "train": kind.train, "loss": kind.losses[k > 0]}
    return draw(rng, made(name, k, rng), k=k, n=n, **chosen(rng, choices), **dict(kind.fixed))


def classes_of(name):
    kind = KINDS[name]
    if kind.classifier is None:
        return [0]
    return [0, 2] if "hinge" in kind.losses[1][:1] or dict(kind.fixed).get("engine") == "link" else [0, 2, 3]


CASES = [(name, k, seed) for name in KINDS for k in classes_of(name) for seed in range(4)]
every_case = pytest.mark.parametrize(("kind", "k", "seed"), CASES)
first_half, second_half = (
    pytest.mark.parametrize(("kind", "k", "seed"), [case for case in CASES if case[2] // 2 == half]) for half in (0, 1)
)
some_cases = pytest.mark.parametrize(("kind", "k", "seed"), [case for case in CASES if case[2] < 1])


# All cases.


@every_case
def test_every_number_is_that_of_brute_force(kind, k, seed):
    case = case_of(kind, k, seed)
    assert case.result.exact
    agrees(case, case.result)
    assert case.result.engine == case.engine, case.result[case.names[0]].declined


@first_half
def test_weights_and_pairs_of_different_rows(kind, k, seed):
    case = case_of(kind, k, seed)
    weight = np.random.default_rng(seed).integers(0, 3, case.n) + (np.arange(case.n) < 2)
    agrees(case, case.explain(sample_weight=weight, donors="all"), weight)
    apart = {"sample_weight": weight + 0.5, "donors": ll.Derangements()}
    found = case.explain(**apart)
    agrees(case, found, weight + 0.5, own=False)
    if seed == 0 and case.loss == "log_loss":
        for name, blind in case.blind(**apart).items():
            case.close(found[name].clipped, blind.clipped, f"clipped share of {name}", scale=1.0)


@pytest.mark.filterwarnings("ignore:The effective number")
@some_cases
def test_pairs_inside_groups_are_left_out(kind, k, seed, monkeypatch):
    """Of many small groups, of few large ones, or of one that holds all rows but two."""
    monkeypatch.setattr(left_out_pairs, "LARGE", 8)  # groups of more rows are not evaluated pair by pair
    case, rng = case_of(kind, k, seed), np.random.default_rng(seed)
    few = (rng.integers(0, case.n // 3, case.n), rng.integers(0, 3, case.n), np.arange(case.n) < case.n - 2)
    groups, weight = few[len(kind + str(k)) % 3], rng.integers(1, 4, case.n) / 2
    found, blind = (ask(sample_weight=weight, groups=groups, donors="all") for ask in (case.explain, case.blind))
    assert found.engine == case.result.engine
    agrees(case, found, weight, groups=groups)
    for name, one in found.items():
        case.close(one.means.caused, blind[name].means.caused, f"what donors of {name} cause")
        case.close(one.clipped, blind[name].clipped, f"clipped share of {name}", scale=1.0)
        if len(np.unique(groups)) > 2:
            case.close(one.std_error, blind[name].std_error, f"standard error of {name}")


@every_case
def test_columns_that_do_not_move_the_model_are_exactly_nothing(kind, k, seed):
    case = case_of(kind, k, seed)
    for j in (4, 5) if case.engine != "products" else (4,):  # a kernel looks at every column
        found = case.result[case.names[j]]
        for numbers in (found.pfi, found.local, found.pi, found.ici, found.std_error):
            np.testing.assert_array_equal(numbers, 0.0, err_msg=case.names[j])


@second_half
def test_standard_errors_and_clipped_shares_are_those_of_the_black_box(kind, k, seed):
    case = case_of(kind, k, seed)
    black_box = case.blind()
    assert black_box.engine == "blackbox"
    for name, found in case.result.items():
        case.close(found.std_error, black_box[name].std_error, f"standard error of {name}")
        case.close(found.interval(), black_box[name].interval(), f"interval of {name}")
        case.close(found.clipped, black_box[name].clipped, f"clipped share of {name}", scale=1.0)


@some_cases
def test_rows_are_chosen_and_losses_changed_without_the_model(kind, k, seed):
    case = case_of(kind, k, seed)
    rows = np.sort(np.random.default_rng(seed).choice(case.n, case.n // 2, replace=False))
    agrees(case.of(rows), case.result.subset(rows))
    for name, part in case.result.given(rows).items():
        case.close(part.local, case.cells(name)[rows].mean(axis=1), f"local of some rows, {name}")
        case.close(part.pfi, case.cells(name)[rows].mean(), f"pfi of some rows, {name}")
    others = ("brier", "log_loss") if is_classifier(case.model) else ("absolute_error", cubed)
    for loss in others if case.loss not in ("hinge", "zero_one") else (case.loss,):
        agrees(case, case.result.with_loss(loss), loss=loss)


@some_cases
def test_effects_are_those_of_brute_force(kind, k, seed):
    case = case_of(kind, k, seed)
    classes = list(getattr(case.model, "classes_", [None]))
    ask = case.model.predict
    if classes != [None]:
        ask = getattr(case.model, "predict_proba", None) or case.model.decision_function
    for name, found in ll.feature_effect(case.model, case.X, target=classes[-1], progress=False).items():
        j = case.names.index(name)
        said = ask(paired(case.X, j)).reshape(case.n, case.n, -1)[..., -1]
        at = places(found.grid, case.column(name))
        case.close(found.ice[:, at], said, f"ice of {name}", scale=said.std())
        case.close(found.pd[at], said.mean(axis=0), f"pd of {name}", scale=said.std())


@some_cases
def test_a_saved_result_comes_back_whole(kind, k, seed, tmp_path):
    case = case_of(kind, k, seed)
    case.result.save(tmp_path / "result")
    back = ll.load(tmp_path / "result")
    assert back.engine == case.result.engine
    agrees(case, back)


# Tables of several blocks of rows.


@pytest.mark.parametrize(("kind", "k"), [(name, max(classes_of(name))) for name in KINDS])
def test_threads_features_and_memory_change_nothing(kind, k, monkeypatch):
    """The bits with any number of threads; the numbers with features in any order, streamed, and of the black box."""
    monkeypatch.setattr("losslens.passes.step_curves.CHUNK_ROWS", 60)
    case = case_of(kind, k, 0, n=260)  # enough rows for two blocks of the black box, and four chunks of trees
    asked = [case.names[2], case.names[0]]
    whole, threaded = (case.explain(features=asked, n_jobs=n_jobs) for n_jobs in (1, 2))
    streamed = case.explain(features=asked, memory="256 KiB", donors="all")
    others = [streamed, case.explain(features=asked[::-1]), case.blind(features=asked)]
    assert (list(whole), whole.engine, others[-1].engine) == (asked, case.engine, "blackbox")
    for name, found in whole.items():
        for what in ("pfi", "local", "pi", "ici", "std_error"):
            np.testing.assert_array_equal(getattr(found, what), getattr(threaded[name], what), err_msg=what)
            for other in others if what != "ici" else others[1:]:
                case.close(getattr(other[name], what), getattr(found, what), f"{what} of {name}")
        assert not streamed[name].complete
        case.close(streamed[name].ici, found.ici[streamed[name].rows], f"ici of {name}")
        case.close(streamed[name].means.pd, found.means.pd, f"pd of {name}", scale=case.said.std())


def test_a_streamed_result_may_have_no_room_for_any_single_curve():
    """As that of the black box: 8 features x 1,200 values x 16 bytes are more than half of the memory."""
    X = np.random.default_rng(0).normal(size=(1200, 8))
    model = tree.DecisionTreeRegressor(max_depth=3).fit(X, X[:, 0] + X[:, 1] ** 2)
    whole, streamed = (ll.feature_importance(model, X, X[:, 0], memory=memory) for memory in ("1 GiB", "256 KiB"))
    assert (streamed.engine, len(streamed["x0"].rows)) == ("trees", 0)
    np.testing.assert_array_equal(whole.local, streamed.local)


# Trees of both sizes: with up to 64 leaves, and with more.


def leaves(model):
    """Of the largest tree."""
    trees = read_trees(as_model(model), "probabilities" if is_classifier(model) else "values")
    first = np.searchsorted(np.flatnonzero(trees.feature < 0), trees.roots)
    return int(np.diff(first, append=len(trees.value)).max())


SMALL = {"histograms": {"max_leaf_nodes": 6}, "lightgbm": {"num_leaves": 6}, "xgboost": {"max_depth": 2}}
SMALL["forest"] = {"max_depth": 3, "max_leaf_nodes": None}
LARGE = {
    "histograms": {"max_leaf_nodes": 300, "min_samples_leaf": 1},
    "xgboost": {"max_depth": 12, "min_child_weight": 0},
}
LARGE["lightgbm"] = {"num_leaves": 300, "min_child_samples": 1, "min_child_weight": 0, "min_data_in_bin": 1}
LARGE["forest"] = {"max_depth": None, "max_leaf_nodes": None}


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("kind", SMALL)
def test_both_searches_meet_categories_and_missing_values(kind, k, large):
    rng = np.random.default_rng(k)
    model = made(kind, k, rng, **(LARGE if large else SMALL)[kind])
    container, loss = "pandas" if kind == "forest" else "categories", "log_loss" if k else "absolute_error"
    case = draw(rng, model, loss, container, k, n=40, train=600, missing=True, **dict(KINDS[kind].fixed))
    assert (leaves(model) > 64, case.result.engine) == (large, case.engine)
    agrees(case, case.result)


@pytest.mark.parametrize("kind", ["tree", "forest", "boosting", "histograms", "xgboost", "lightgbm"])
def test_trees_of_one_leaf_rest_on_nothing(kind):
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = made(kind, 0, np.random.default_rng(0)).fit(X, np.full(50, 2.5))
    result = ll.feature_importance(model, X, X[:, 0])
    assert result.engine == "trees"
    assert all(np.all(found.ici == 0) and found.pfi == 0 for found in result.values())


@pytest.mark.parametrize("kind", ["boosting", "histograms", "lightgbm", "xgboost", "forest"])
def test_ties_between_labels_fall_as_they_do_in_the_model(kind):
    """Classes of one size and pure leaves: scores of several classes are equal but for the rounding of their sums."""
    options = LARGE | {"boosting": {"max_depth": None}, "forest": {"max_depth": 4, "n_estimators": 6}}
    options["xgboost"] = options["xgboost"] | {"reg_lambda": 0}
    for seed in range(6):
        rng, y = np.random.default_rng(seed), np.resize(np.arange(3), 60)
        model = made(kind, 3, rng, **options[kind]).fit(rng.normal(size=(60, 4)), y)
        case = Case(model, rng.normal(size=(40, 4)), y[:40], "zero_one")
        agrees(case, case.explain())


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_model_is_asked_for_labels_that_tie_and_for_no_others(n_jobs):
    """Votes of pure leaves are whole numbers; means of impure ones tie here and there: by a call with these rows."""
    for leaf, is_asked in ((1, False), (2, True)):
        model = ensemble.RandomForestClassifier(6, min_samples_leaf=leaf, random_state=0)
        case = draw(np.random.default_rng(3), model, "zero_one", k=3, n=200, train=20)
        for donors in ("all", ll.Latin(7)):
            found = case.explain(donors=donors, n_jobs=n_jobs)
            assert (found.engine, found.declined) == ("trees", {})
            assert (64 < found.n_predictions < 600) if is_asked else found.n_predictions == 64
            agrees(case, found) if donors == "all" else None
        together = case.explain(features=[{"both": ["x0", "x1"]}], donors="all")
        assert "ties between classes" in together["both"].declined or not is_asked


# Pipelines, searches, and models that are not what they look like.


GROVE_OF_FIVE = ensemble.RandomForestRegressor(5, random_state=0)
ONE_HOT = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["c"]), remainder="passthrough")
OTHERS = {
    "scaled": (make_pipeline(StandardScaler(), GROVE_OF_FIVE), "float64", "trees"),
    "turned": (make_pipeline(FunctionTransformer(np.negative), GROVE_OF_FIVE), "float64", "trees"),
    "one-hot": (make_pipeline(ONE_HOT, GROVE_OF_FIVE), "categories", "trees"),
    "searched": (GridSearchCV(GROVE_OF_FIVE, {"max_depth": [2, 9]}, cv=2), "pandas", "trees"),
    "searched pipeline": (GridSearchCV(scaled(svm.SVR), {"svr__C": [1.0]}, cv=2), "pandas", "products"),
    "consensus": (linear.RANSACRegressor(random_state=0), "float64", "additive"),
    "projected": (make_pipeline(PCA(3), GROVE_OF_FIVE), "float64", "blackbox"),
    "adaptive": (ensemble.AdaBoostRegressor(n_estimators=3, random_state=0), "float64", "blackbox"),
    "network": (MLPRegressor(hidden_layer_sizes=[3], max_iter=500, tol=0.1, random_state=0), "float64", "blackbox"),
    "bagged": (ensemble.BaggingRegressor(n_estimators=3, random_state=0), "float64", "trees"),
    "begun": (ensemble.GradientBoostingRegressor(n_estimators=3, init=linear.Ridge()), "float64", "blackbox"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_pipelines_and_models_of_other_kinds(name):
    model, container, engine = OTHERS[name]
    case = draw(np.random.default_rng(3), model, "squared_error", container, engine=engine)
    assert case.result.engine == engine
    assert ("PCA" in case.result[case.names[0]].declined) == (name == "projected")
    agrees(case, case.result)


def test_the_hinge_loss_of_three_classes_is_asked_for():
    case = draw(np.random.default_rng(0), scaled(linear.LogisticRegression), "hinge", k=3)
    assert case.result.engine == "blackbox"
    agrees(case, case.result)


class Floored:
    """Predictions have a floor, which no row of the table reaches, but pairs of rows do."""

    floor = -np.inf

    def predict(self, X):
        return np.maximum(super().predict(X), self.floor)


@pytest.mark.parametrize("how", ["class", "instance"])
@pytest.mark.parametrize("kind", [linear.LinearRegression, svm.SVR, tree.DecisionTreeRegressor, Pipeline])
def test_a_predict_of_the_users_own_is_asked(kind, how):
    rng = np.random.default_rng(0)
    a = rng.normal(size=30)
    X = np.column_stack([a, rng.normal(size=30) / 9 - a])
    options = {"steps": [("scale", StandardScaler()), ("model", linear.LinearRegression())]} if kind is Pipeline else {}
    model = (type("Own", (Floored, kind), {}) if how == "class" else kind)(**options).fit(X, 3 * X.sum(axis=1))
    said, floor = model.predict, model.predict(X).min()
    model.floor = floor
    if how == "instance":
        model.predict = lambda X: np.maximum(said(X), floor)
    case = Case(model, X, X[:, 1], "squared_error")
    agrees(case, case.explain())


SINGLES = {
    "line": (linear.Ridge(), ("squared_error", "absolute_error", "huber"), 0),
    "descent": (linear.SGDClassifier(random_state=0), ("hinge",), 2),  # with an intercept of float64
}


@pytest.mark.parametrize("name", SINGLES)
def test_linear_models_in_single_precision_are_within_the_stated_bound(name):
    """Sums of p + 1 float32 numbers are off by p + 1 roundings of 6e-8 at most, losses by 1e-5 of their mean."""
    model, losses, k = SINGLES[name]
    for loss in losses:
        case = draw(np.random.default_rng(0), model, loss, "float32", k=k, n=24, tolerance=1e-5, positive=k == 0)
        case.X[:, :2] = np.clip(case.X[:, :2], -3, 3)  # a score of 9 has a probability of 3 digits
        found = case.explain()
        assert found.engine != "blackbox", found["x0"].declined
        agrees(case, found)
        in_double = replace(case, X=case.X.astype(float), tolerance=1e-9)
        agrees(in_double, in_double.explain())


def test_single_precision_that_loses_the_digits_is_asked_itself():
    """Values of 1e5 are known to 4e-3, of a spread of 1; two rows have one pair to check; inside a link float32 clips
    log losses, and decides labels.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y, above = X @ [1.0, 2.0], (X[:, 0] + X[:, 1] > 0).astype(int)
    far = (X + 1e5).astype(np.float32)
    assert ll.feature_importance(linear.Ridge().fit(far, y), far, y)["x0"].declined == ROUNDED_IN_SINGLE
    rows = X.astype(np.float32)
    line = linear.Ridge().fit(rows, y)
    assert ll.feature_importance(line, rows[:2], y[:2])["x0"].declined == FEW_IN_SINGLE
    odds = linear.LogisticRegression().fit(rows, above)
    odds.coef_, odds.intercept_ = odds.coef_.astype(np.float32), odds.intercept_.astype(np.float32)
    labels = linear.RidgeClassifier().fit(rows, above)
    for model, loss in ((odds, "log_loss"), (odds, "brier"), (labels, "zero_one")):
        assert ll.feature_importance(model, rows, above, loss=loss)["x0"].declined == SINGLE
        in_double = ll.feature_importance(model, X, above, loss=loss)
        assert (in_double.engine, in_double.exact) == ("link", True)


# Closed forms.


def test_squared_loss_of_an_additive_model_is_variances_and_a_covariance():
    """Replacing g_i by g_k moves (r_i)^2 to (r_i + g_i - g_k)^2, r = y - f. Of the mean over all i and k of
    (g_i - g_k)^2 + 2 r_i (g_i - g_k) the first part is 2 var(g) and the second 2 cov(r, g), with 1/n.
    """
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    model = linear.Ridge().fit(X, y + X[:, 0])
    for j, found in enumerate(ll.feature_importance(model, X, y).values()):
        g, r = model.coef_[j] * X[:, j], y - model.predict(X)
        assert found.pfi == pytest.approx(2 * g.var() + 2 * np.cov(r, g, ddof=0)[0, 1], rel=1e-10)


def test_a_forest_of_stumps_is_additive():
    """A stump asks for one feature, so that f = sum_j g_j(x_j), and g_j is the PD curve up to a constant:
    the importance is 2 var(g_j) + 2 cov(r, g_j) again, of another engine.
    """
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    model = ensemble.ExtraTreesRegressor(30, max_depth=1, random_state=0).fit(X, y)
    for j, found in enumerate(ll.feature_importance(model, X, y).values()):
        g, r = found.effect.pd[places(found.grid, X[:, j])], y - model.predict(X)
        assert found.engine == "trees"
        assert found.pfi == pytest.approx(2 * g.var() + 2 * np.cov(r, g, ddof=0)[0, 1], rel=1e-10)


def test_a_product_of_signs_and_a_clipped_probability():
    """f = y = s(a) s(b), s the sign: replacing a changes f by +-2 where the signs of a differ, a share 2 p (1 - p) of
    the pairs for a share p of positive ones, so that PFI = 8 p (1 - p). As classes, such a pair gives the true class
    probability 0 in place of 1: its log loss is log(1 / eps) and not log(1 / (1 - eps)).
    """
    X = np.random.default_rng(0).choice([-2.0, -1.0, 1.0, 2.0], (80, 2))
    y, p = np.sign(X[:, 0] * X[:, 1]), np.mean(X[:, 0] > 0)
    found = ll.feature_importance(tree.DecisionTreeRegressor().fit(X, y), X, y)["x0"]
    assert (found.engine, found.error, found.pfi) == ("trees", 0.0, pytest.approx(8 * p * (1 - p)))
    found = ll.feature_importance(ensemble.ExtraTreesClassifier(5).fit(X, y), X, y)["x0"]
    assert (found.engine, found.clipped) == ("trees", pytest.approx(2 * p * (1 - p)))
    assert found.pfi == pytest.approx(2 * p * (1 - p) * (np.log1p(-brute.EPS) - np.log(brute.EPS)))


def test_absolute_loss_of_a_perfect_line_is_a_mean_difference():
    """With y = f the loss of a pair is |g_i - g_k|: Gini's mean difference, sum_i (2 i - n - 1) g_(i) 2 / n^2."""
    X = np.random.default_rng(0).normal(size=(41, 2))
    model = linear.LinearRegression().fit(X, 3 * X[:, 0] - X[:, 1])
    found = ll.feature_importance(model, X, model.predict(X), loss="absolute_error")["x0"]
    assert found.pfi == pytest.approx(2 / 41**2 * (2 * np.arange(1, 42) - 42) @ np.sort(3 * X[:, 0]), rel=1e-10)


def test_one_bump_is_a_product_of_means():
    """f = y = c A(a) B(b): the mean of A_i^2 (B_i - B_k)^2, A and the first B a row's and the other a donor's,
    is mean(A^2 B^2) - 2 mean(A^2 B) mean(B) + mean(A^2) mean(B^2).
    """
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = KernelRidge(kernel="rbf", gamma=0.3, alpha=0.1).fit(np.zeros((1, 2)), [2.0])
    A, B = np.exp(-0.3 * X**2).T
    expected = (A * B) @ (A * B) / 40 - 2 * np.mean(A**2 * B) * B.mean() + np.mean(A**2) * np.mean(B**2)
    found = ll.feature_importance(model, X, model.predict(X))["x1"]
    assert (found.engine, found.pfi) == ("products", pytest.approx((2 / 1.1) ** 2 * expected, rel=1e-10))


def test_clipped_cells_of_rows_that_are_wrong_already():
    """A row whose own loss is large is clipped where the loss is at its ceiling, not where the change is."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] + rng.normal(size=120) > 0).astype(int)
    forest = ensemble.RandomForestClassifier(4, max_depth=3, random_state=0).fit(X[:60], y[:60])
    exact = ll.feature_importance(forest, X[60:], y[60:], loss="log_loss", memory="1 MiB")
    asked = ll.feature_importance(forest.predict_proba, X[60:], y[60:], loss="log_loss", donors="all")
    for one, other in zip(exact.values(), asked.values(), strict=True):
        assert one.engine == "trees"
        assert one.clipped == pytest.approx(other.clipped)
    assert any(one.clipped > 0 for one in exact.values())
