"""Results hold arrays, numbers and words: no table, no model, no engine, and nothing of the user's own.

Every reference is followed: attributes, slots, containers, closures, bound methods, arguments of functions that are
called later; before anything that comes later is computed, and after. Arrays that users can see are read-only.
"""

import inspect
import types
from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.svm import SVR

import losslens as ll
from losslens.donors.conditional import BoundSampler
from losslens.donors.questions import Ask, Question, Subject, Subjects
from losslens.losses import Loss
from losslens.passes.task import Outcome, Task
from losslens.tables.columns import Column
from losslens.tables.frozen import Deferred, Frozen

N = 60
PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype, type)
KNOW_THE_TABLE = (Column, Subject, Subjects, Question, Ask, Task, BoundSampler, Outcome)
OURS = ("losslens", "builtins", "functools", "datetime", "collections")


def walk(thing, path="result", seen=None) -> Iterator[tuple[str, object]]:
    """Every object that can be reached, with the way to it."""
    seen = {} if seen is None else seen
    if isinstance(thing, PLAIN) or id(thing) in seen:
        return
    seen[id(thing)] = thing  # kept, so that its id stays its own
    yield path, thing
    for step, child in children(thing):
        yield from walk(child, path + step, seen)


def children(thing) -> Iterator[tuple[str, object]]:
    if isinstance(thing, Loss):  # a loss of the user's own is theirs
        return
    if isinstance(thing, np.ndarray):
        yield ".base", thing.base
        if thing.dtype == object:
            yield from ((f"[{k}]", item) for k, item in enumerate(thing.ravel().tolist()))
    elif isinstance(thing, dict):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
    elif isinstance(thing, (list, tuple, set, frozenset)):
        yield from ((f"[{k}]", item) for k, item in enumerate(thing))
    elif isinstance(thing, partial):
        yield from (("(function)", thing.func), ("(arguments)", thing.args), ("(keywords)", thing.keywords))
    elif isinstance(thing, types.MethodType):
        yield from (("(self)", thing.__self__), ("(function)", thing.__func__))
    elif isinstance(thing, types.FunctionType):
        closed = zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True)
        yield from ((f"<{name}>", cell.cell_contents) for name, cell in closed)
        yield from (("(defaults)", thing.__defaults__), ("(keyword defaults)", thing.__kwdefaults__))
    if not isinstance(thing, types.FunctionType):
        yield from ((f".{name}", value) for name, value in getattr(thing, "__dict__", {}).items())
        slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
        yield from ((f".{name}", getattr(thing, name)) for name in slots if hasattr(thing, name))


def violations(result, own=()):
    """What a result holds that it should not; `own`: the user's arrays."""
    found = []
    for path, thing in walk(result):
        kind = type(thing)
        if isinstance(thing, np.ndarray):
            forbidden = any(np.shares_memory(thing, array) for array in own)
        else:
            room = kind.__module__.startswith(("losslens.engines", "losslens.models", "losslens.tables.frames"))
            foreign = kind.__module__.partition(".")[0] not in OURS
            forbidden = room or foreign or isinstance(thing, KNOW_THE_TABLE) or hasattr(thing, "predict")
        if forbidden:
            found.append(f"{path} is a {kind.__module__}.{kind.__name__}")
    return found


def compute_all(result):
    """Everything that comes later, of a result and of what it holds."""
    for _, thing in list(walk(result)):
        if isinstance(thing, Deferred):
            _ = thing.now
    for _, thing in list(walk(result)):
        for name, what in inspect.getmembers_static(type(thing)):
            if (
                isinstance(what, property)
                and not name.startswith("_")
                and type(thing).__module__.startswith("losslens")
            ):
                try:
                    getattr(thing, name)
                except (ValueError, NotImplementedError):  # what a scorer, a sample or one class does not have
                    continue


def writeable(thing, path="result", inside=()) -> Iterator[str]:
    """The arrays among the public attributes of a result, and of results in it, that could be written to.

    `inside`: the classes that were entered; a property may give another result of the same class, and so on.
    """
    if isinstance(thing, np.ndarray) and thing.flags.writeable:
        yield path
    if isinstance(thing, (dict, list, tuple)):
        steps = thing.items() if isinstance(thing, dict) else enumerate(thing)
        children = [(f"[{key!r}]", value) for key, value in steps]
    elif isinstance(thing, Frozen) and type(thing) not in inside:
        children, inside = [(f".{name}", value) for name, value in public_attributes(thing)], (*inside, type(thing))
    else:
        return
    for step, child in children:
        yield from writeable(child, path + step, inside)


def public_attributes(thing) -> Iterator[tuple[str, object]]:
    """Fields, properties and what is cached."""
    for name in sorted({*dir(type(thing)), *vars(thing)}):
        if not name.startswith("_") and not isinstance(getattr(type(thing), name, None), types.FunctionType):
            try:
                yield name, getattr(thing, name)
            except (ValueError, NotImplementedError):  # what a scorer, a sample or one class does not have
                continue


# -- what is called ---------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
Y = 2 * X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * RNG.normal(size=N)
LABEL = np.where(Y > 0, "yes", "no")
WEIGHT = RNG.uniform(1, 2, size=N)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(word=RNG.choice(["u", "v"], N))


def black_box(table):
    return 2 * np.asarray(table)[:, 0].astype(float)


MODELS = {
    "black box": black_box,
    "linear": LinearRegression().fit(X, Y),
    "boosting": GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X, Y),
    "forest": RandomForestRegressor(5, random_state=0).fit(X, Y),
    "classifier": RandomForestClassifier(5, random_state=0).fit(X, LABEL),
    "kernel machine": SVR().fit(X, Y),
}
DESIGNS = {"auto": "auto", "latin": ll.Latin(3), "no own": ll.Derangements(), "within": ll.Within(m=3)}


def asked(name, **more):
    shared = {"random_state": 0, "progress": False}
    return shared | ({"loss": "squared_error"} if name == "black box" else {}) | more


def importance(name, **more):
    return ll.feature_importance(MODELS[name], X, target(name), **asked(name, sample_weight=WEIGHT, **more))


def target(name):
    return LABEL if name == "classifier" else Y


def shares(name, **more):
    return ll.shapley_importance(MODELS[name], X, target(name), **asked(name, sample_weight=WEIGHT, **more))


def without_loss(name):
    return {key: value for key, value in asked(name).items() if key != "loss"}


def scorer(name):
    return get_scorer("accuracy" if name == "classifier" else "r2")


BY_MODEL = {
    "feature_importance": importance,
    "feature_effect": lambda name: ll.feature_effect(
        MODELS[name], X, target="yes" if name == "classifier" else None, **without_loss(name)
    ),
    "shapley_importance": shares,
    "shapley_effect": lambda name: ll.shapley_effect(MODELS[name], X, X[:2], **without_loss(name)),
    "pair_interactions": lambda name: ll.pair_interactions(MODELS[name], X, target(name), **asked(name)),
    "plan": lambda name: ll.plan(ll.feature_importance, MODELS[name], X, target(name), **asked(name)),
    "conditional_predictive_impact": lambda name: ll.conditional_predictive_impact(
        MODELS[name], X, target(name), ll.Residual(), **asked(name)
    ),
    "weak_segments": lambda name: ll.weak_segments(MODELS[name], X, target(name), **asked(name)),
    "compare": lambda name: ll.compare({"a": MODELS[name], "b": MODELS[name]}, X, target(name), **asked(name)),
    "good_models": lambda name: ll.good_models({"a": MODELS[name], "b": MODELS[name]}, X, target(name), **asked(name)),
    "regions": lambda name: importance(name).regions(X, permutations=30, random_state=0),
    "clusters": lambda name: shares(name).clusters(X, k=2, random_state=0),
    "rank_rows": lambda name: shares(name).rank_rows(importance(name)),
    "extrapolation": lambda name: importance(name).extrapolation,
}
CV = asked("linear", cv=3)
OTHERS = {
    "feature_importance_cv": lambda: ll.feature_importance_cv(LinearRegression(), X, Y, **CV),
    "shapley_importance_cv": lambda: ll.shapley_importance_cv(LinearRegression(), X, Y, **CV),
    "leave_one_covariate_out": lambda: ll.leave_one_covariate_out(LinearRegression(), X, Y, **CV),
    "permuted_target_test": lambda: ll.permuted_target_test(LinearRegression(), X, Y, permutations=3, **CV),
    "report": lambda: ll.report(MODELS["linear"], X, Y, **asked("linear")),
    "time_blocks": lambda: ll.time_blocks(np.arange(len(X)), like=importance("linear")),
}


def check(result, own=(X, Y, WEIGHT)):
    assert violations(result, own) == []
    compute_all(result)
    assert violations(result, own) == []
    assert isinstance(result, Frozen) or type(result).__name__ in ("Plan", "Report")  # these are no arrays
    assert list(writeable(result)) == []
    assert all(array.flags.writeable for array in (X, Y, WEIGHT))


def test_every_verb_is_called():
    verbs = {name for name in ll.__all__ if isinstance(getattr(ll, name), types.FunctionType)}
    methods = {"regions", "clusters", "rank_rows", "extrapolation"}
    assert verbs - {"load", "feature_groups"} == {*BY_MODEL, *OTHERS} - methods


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("verb", BY_MODEL)
def test_no_verb_leaves_a_table_or_a_model_in_its_result(verb, model):
    check(BY_MODEL[verb](model))


@pytest.mark.parametrize("verb", OTHERS)
def test_neither_do_verbs_that_fit_nor_the_report(verb):
    check(OTHERS[verb]())


@pytest.mark.parametrize("loss", ["log_loss", "zero_one"])
def test_nor_sums_inside_a_link(loss):
    found = ll.feature_importance(
        LogisticRegression().fit(X, LABEL), X, LABEL, loss=loss, features={"b": [1], "two": [0, 1]}
    )
    assert found.engine == "link"
    check(found)


@pytest.mark.parametrize("features", [None, {"two": [0, 1]}, [(0, 1)]], ids=["single", "joined", "pair"])
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("model", ["black box", "linear", "forest"])
def test_nor_designs_and_groups_of_columns(model, design, features):
    if isinstance(features, list) and design in ("latin", "within"):
        pytest.skip("a pair needs a grid")
    check(importance(model, donors=DESIGNS[design], features=features))


@pytest.mark.parametrize("model", ["linear", "forest", "classifier"])
def test_nor_scorers(model):
    check(importance(model, loss=scorer(model), donors=ll.Latin(2)))
    check(ll.shapley_importance(MODELS[model], X, target(model), **asked(model, loss=scorer(model))))


@pytest.mark.parametrize("verb", ["feature_importance", "feature_effect", "shapley_importance"])
@pytest.mark.parametrize("model", ["black box", "linear"])
def test_nor_groups_of_rows(verb, model, tmp_path):
    groups = np.arange(N) % 3
    found = BY_MODEL[verb](model).by(groups)
    check(found, (X, Y, WEIGHT, groups))
    if verb == "feature_importance":
        check(found.every["x0"].by(groups), (X, Y, WEIGHT, groups))
    found.save(tmp_path / "result.losslens")
    check(ll.load(tmp_path / "result.losslens"))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_nor_frames_of_any_library(library):
    frame = FRAME
    if library == "polars":
        frame = pytest.importorskip("polars").from_pandas(FRAME)
    elif library == "pyarrow":
        frame = pytest.importorskip("pyarrow").Table.from_pandas(FRAME)
    model = lambda table: np.asarray(table["a"], float)  # noqa: E731
    own = [FRAME["a"].to_numpy()]
    check(ll.feature_importance(model, frame, Y, loss="squared_error", random_state=0), own)
    check(ll.feature_importance(model, frame, Y, loss="squared_error", donors=ll.Within(), random_state=0), own)
    check(ll.shapley_importance(model, frame, Y, loss="squared_error", random_state=0), own)


@pytest.mark.parametrize("model", ["black box", "linear", "boosting"])
def test_nor_files_that_are_read_part_by_part(model, tmp_path):
    rows = np.random.default_rng(1).integers(0, N, 12_000)
    frame = pd.DataFrame(X[rows], columns=list("abcd")).assign(y=Y[rows])
    for k, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(tmp_path / f"{k}.parquet")
    named = frame[list("abcd")]
    fitted = black_box if model == "black box" else type(MODELS[model])().fit(named, frame["y"])
    result = ll.feature_importance(fitted, tmp_path, "y", **asked(model, memory="250 KB"))
    assert ("a random sample" if model == "black box" else "read in parts") in repr(result)
    check(result)
    if model == "linear":
        check(ll.shapley_importance(fitted, tmp_path, "y", **asked(model, memory="250 KB")))


@pytest.mark.parametrize("kind", [*BY_MODEL, *OTHERS])
def test_what_was_loaded_holds_no_more(kind, tmp_path):
    result = BY_MODEL[kind]("linear") if kind in BY_MODEL else OTHERS[kind]()
    if not hasattr(result, "save") or kind == "report":
        pytest.skip("it is not saved")
    result.save(tmp_path / "result.losslens")
    check(ll.load(tmp_path / "result.losslens"))


def test_the_walk_goes_everywhere():
    class Slotted:
        __slots__ = ("thing",)

    slotted, table = Slotted(), FRAME
    slotted.thing = table
    holders = [
        [table], {"a": (table,)}, partial(print, table), partial(print, end=table), lambda: table, table.head, slotted,
        Deferred(len, table), Deferred(lambda: table), np.array([table, None], dtype=object), lambda table=table: table,
    ]  # fmt: skip
    for holder in holders:
        assert any("DataFrame" in line for line in violations([holder]))
    assert violations(X[:, 0], [X])
    assert violations(types.SimpleNamespace(part=X[2:5]), [X])
