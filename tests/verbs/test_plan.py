"""A plan says what the verb will do, and does next to nothing itself."""

import time
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer, make_scorer, r2_score

import losslens as ll
from losslens.engines import choice
from losslens.models import Responder
from losslens.passes import counts, ways
from losslens.tables.checks import memory_bytes

RNG = np.random.default_rng(0)
N = 40
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 4, N), RNG.integers(0, 2, N)])
Y = X[:, 0] + X[:, 1]
VERBS = [ll.feature_importance, ll.feature_effect]


class Counting:
    """A model that notes how many rows each call had."""

    def __init__(self):
        self.sizes = []

    def __call__(self, X):
        self.sizes.append(len(X))
        return X[:, 0] + X[:, 1]


def plan_and_run(verb=ll.feature_importance, X=X, Y=Y, **options):
    """The plan, the calls it made, the calls of the run, and the result."""
    first, second = Counting(), Counting()
    arguments = (X,)
    if verb is ll.feature_importance:
        arguments, options = (X, Y), {"loss": "squared_error"} | options
    planned = ll.plan(verb, first, *arguments, **options)
    return planned, first.sizes, second.sizes, verb(second, *arguments, **options)


# The plan and the run.


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features": ["x2", "x0"]},
        {"features": {"g": ["x1", "x2"]}},
        {"features": [("x1", "x2"), "x1"]},
        {"donors": ll.Derangements()},
        {"features": "x0", "donors": ll.Grid(values=[0.5])},
    ],
    ids=str,
)
def test_the_plan_of_all_values_is_what_the_run_does(verb, options, monkeypatch):
    monkeypatch.setattr(choice, "BATCH", 3 * N)
    planned, _, ran, result = plan_and_run(verb, **options)
    assert planned.n_predictions == sum(ran) == result.n_predictions
    assert planned.calls == len(ran)
    assert planned.features == tuple(result)
    assert planned.predictions == tuple(result[name].n_predictions for name in result)
    assert "at most" not in repr(planned)


@pytest.mark.parametrize(
    "donors", [ll.Latin(5), ll.Permutations(5), ll.Systematic(5), ll.Grid(5), ll.Within()], ids=repr
)
def test_the_plan_of_a_sample_is_what_the_run_does(donors):
    """Values that a row gets twice, or its own, are predicted once or not at all: the plan knows the same draw."""
    planned, _, ran, result = plan_and_run(donors=donors, random_state=0)
    assert planned.n_predictions == sum(ran) == result.n_predictions
    assert planned.predictions == tuple(result[name].n_predictions for name in result)
    assert "at most" not in repr(planned)


@pytest.mark.parametrize("donors", [ll.Latin(5), ll.Permutations(5), ll.Systematic(5), ll.Within()], ids=repr)
def test_the_plan_of_a_large_sample_is_the_most_that_the_run_can_need(donors, monkeypatch):
    """Very many donors are not drawn, and samplers draw no longer than half a second."""
    monkeypatch.setattr(counts, "MOST_DRAWN", 0)
    monkeypatch.setattr(counts, "DRAWING", 0)
    planned, _, ran, result = plan_and_run(donors=donors)
    assert sum(ran) <= planned.n_predictions
    assert repr(planned).startswith(f"Plan: at most {planned.n_predictions:,} predictions")
    for name, most in zip(result, planned.predictions, strict=True):
        assert result[name].n_predictions <= most


def test_a_streamed_run_predicts_what_the_plan_says():
    X = np.random.default_rng(1).normal(size=(100, 4))
    planned, _, ran, result = plan_and_run(X=X, Y=X[:, 0], memory="300 kB")
    assert not planned.complete
    assert not result["x0"].complete
    assert planned.n_predictions == sum(ran) == result.n_predictions


@pytest.mark.parametrize("memory", ["300 kB", "1 GiB"])
def test_a_plan_keeps_within_the_memory(memory):
    X = np.random.default_rng(1).normal(size=(100, 4))
    planned, _, _, result = plan_and_run(X=X, Y=X[:, 0], memory=memory)
    kept = sum(f.cells.predictions.nbytes + f.cells.changes.nbytes for f in result.values())
    assert kept <= planned.memory <= memory_bytes(memory)


def test_a_scorer_is_planned_like_a_loss():
    model = LinearRegression().fit(X, Y)
    scorer = get_scorer("r2")
    planned = ll.plan(ll.feature_importance, model, X, Y, loss=scorer)
    assert planned.n_predictions == ll.feature_importance(model, X, Y, loss=scorer).n_predictions


def test_features_that_auto_samples_may_grow(monkeypatch):
    monkeypatch.setattr(ways, "EXACT_PREDICTIONS", 5 * N)
    planned, _, _, _ = plan_and_run()
    assert planned.grows == ("x0",)
    assert planned.designs == ("Systematic(8)", "All()", "All()")
    assert "x0  blackbox  Systematic(8)" in repr(planned)
    assert "at least, doubled until precise" in repr(planned)
    assert repr(planned).startswith("Plan: at least ")


def test_a_design_that_was_asked_for_does_not_grow():
    planned, _, _, _ = plan_and_run(donors=ll.Latin(3))
    assert planned.grows == ()
    assert planned.designs == ("Latin(3)",) * 3


# What it shows.


def test_a_plan_reads_as_a_few_lines():
    text = repr(ll.plan(ll.feature_effect, Counting(), X))
    assert text.startswith(f"Plan: {N * (N + 3 + 1):,} predictions in 1 call, about ")
    assert "all cells kept" in text
    assert f"x0  blackbox  All()  {N * (N - 1):,} predictions" in text


@pytest.mark.parametrize("kind", [np.ndarray, pd.DataFrame, pl.DataFrame])
def test_a_plan_is_a_frame_with_a_line_for_each_feature(kind):
    table = X if kind is np.ndarray else kind(dict(zip("abc", X.T, strict=True)))
    frame = ll.plan(ll.feature_effect, lambda X: np.zeros(len(X)), table).to_frame()
    assert list(frame.columns) == ["feature", "engine", "design", "n_predictions"]
    assert list(frame["n_predictions"]) == [N * (N - 1), N * 3, N]
    assert isinstance(frame, pd.DataFrame if kind is np.ndarray else kind)


# How long it says the call takes, by a clock that only the model advances.


class Clock:
    """Stands still but for the model, whose calls take `call` seconds, and `row` seconds for each row."""

    def __init__(self, monkeypatch, call=0.0, row=0.0):
        self.call, self.row, self.now, self.sizes = call, row, 0.0, []
        for name in ("perf_counter", "thread_time"):
            monkeypatch.setattr(time, name, lambda: self.now)

    def __call__(self, X):
        self.sizes.append(len(X))
        self.now += self.call + self.row * len(X)
        return X[:, 0] + X[:, 1]

    def of(self, verb, *arguments, **options):
        """Seconds of a call, the result, and the sizes of the calls of the model."""
        started, self.sizes = self.now, []
        result = verb(*arguments, progress=False, **options)
        return self.now - started, result, self.sizes


MANY = np.random.default_rng(3).normal(size=(300, 3))
TIMES = [(0.0, 1e-5), (0.001, 1e-7), (0.02, 0.0), (0.02, 1e-4), (0.3, 0.0), (0.0, 0.02)]


@pytest.mark.parametrize(("call", "row"), TIMES)
@pytest.mark.parametrize("donors", ["all", ll.Latin(5), ll.Permutations(8), ll.Grid(10)], ids=repr)
def test_the_planned_seconds_are_those_that_the_model_takes(monkeypatch, donors, call, row):
    """Within a factor of three, as promised; a slow model is not called more than some times."""
    monkeypatch.setattr(choice, "BATCH", 2_000)
    clock = Clock(monkeypatch, call, row)
    options = {"loss": "squared_error", "donors": donors, "random_state": 0}
    took, planned, _ = clock.of(partial(ll.plan, ll.feature_importance), clock, MANY, MANY[:, 0], **options)
    assert took <= 2.0
    measured, result, sizes = clock.of(ll.feature_importance, clock, MANY, MANY[:, 0], **options)
    assert 1 / 3 < planned.seconds / measured < 3
    assert planned.calls == len(sizes)
    assert planned.n_predictions == result.n_predictions


def test_a_model_slower_than_a_second_is_called_once(monkeypatch):
    """With one row, and the whole call counts as its time."""
    clock = Clock(monkeypatch, 0.0, 1.1)
    _, planned, asked = clock.of(partial(ll.plan, ll.feature_effect), clock, X, features="x1")
    assert asked == [1]
    assert planned.seconds == pytest.approx(1.1 * planned.n_predictions, rel=1e-4)


def test_the_calls_of_a_scorer_are_part_of_the_seconds(monkeypatch):
    clock, model = Clock(monkeypatch), LinearRegression().fit(X, Y)

    def score(y, predictions):
        clock.now += 0.01 + 1e-4 * len(y)
        return r2_score(y, predictions)

    scorer = make_scorer(score)
    for options in ({}, {"donors": ll.Latin(5)}, {"donors": ll.Grid(7), "features": ["x0"]}):
        _, planned, _ = clock.of(partial(ll.plan, ll.feature_importance), model, X, Y, loss=scorer, **options)
        measured, *_ = clock.of(ll.feature_importance, model, X, Y, loss=scorer, random_state=0, **options)
        assert 1 / 3 < planned.seconds / measured < 3


@pytest.mark.parametrize("design", [ll.Permutations, ll.Latin])
def test_a_plan_does_not_draw_all_donors(monkeypatch, design):
    """Those of this many rows are counted, not drawn: by a clock that a donor advances by 100 ns."""
    drawn, lend, clock = [], design.lend, Clock(monkeypatch)

    def timed(self, n, rng):
        drawn.append(n * self.m)
        clock.now += 1e-7 * drawn[-1]
        return lend(self, n, rng)

    monkeypatch.setattr(design, "lend", timed)
    table = np.random.default_rng(5).normal(size=(3_000, 2))
    m = 10**6 if design is ll.Permutations else 2_900
    planned = ll.plan(ll.feature_importance, clock, table, table[:, 0], loss="squared_error", donors=design(m))
    assert max(drawn, default=0) < 3e6
    assert planned.predictions == (len(table) * min(m, len(table)),) * 2
    assert planned.seconds > 0


# Data that are read part by part.


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("planned"), np.random.default_rng(2)
    for k, rows in enumerate((1, 900, 1600)):  # the first part says next to nothing
        values = {"many": rng.normal(size=rows), "few": rng.integers(0, 3, rows), "some": rng.integers(0, 40, rows)}
        frame = pd.DataFrame(values)
        frame.assign(y=frame["many"] + frame["few"], w=1.0).to_parquet(folder / f"{k}.parquet")
    return folder


SMALL = 265_000  # bytes: the parts don't fit
STREAMED = 2501


class CountingNames(Counting):
    """The same of frames."""

    def __call__(self, X):
        self.sizes.append(len(X))
        return np.asarray(X["many"] + X["few"], float)


def first_rows(folder, tmp_path):
    """All but the first part, so that the first rows show what the columns hold."""
    for name in ("1.parquet", "2.parquet"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    return tmp_path


@pytest.mark.parametrize("model", [LinearRegression(), RandomForestRegressor(5, random_state=0)])
def test_exact_engines_part_by_part(folder, model, monkeypatch):
    frame = pd.concat(pd.read_parquet(file) for file in sorted(folder.glob("*.parquet")))
    model.fit(frame[["many", "few", "some"]], frame["y"])
    asked, call = [], Responder.__call__
    monkeypatch.setattr(Responder, "__call__", lambda self, X: asked.append(len(X)) or call(self, X))
    planned = ll.plan(ll.feature_importance, model, folder, "y", memory=SMALL)
    assert sum(asked) <= 5 * 64  # what an engine is checked with, each time that it is tried
    result = ll.feature_importance(model, folder, "y", memory=SMALL)
    assert planned.engine == result["many"].engine
    assert (planned.n, planned.passes, planned.features) == (STREAMED, 2, ("many", "few", "some"))
    assert planned.n_predictions == 64 >= result.n_predictions
    assert repr(planned).startswith(f"Plan: {STREAMED:,} rows in {planned.parts} parts, read 2 times, about ")
    shapes = ll.plan(ll.feature_effect, model, folder, memory=SMALL, features="few")
    assert shapes.features == ("few",)


def test_black_boxes_are_planned_on_the_first_rows_of_a_sample(folder):
    first, second = CountingNames(), CountingNames()
    options = {"loss": "squared_error", "memory": SMALL, "random_state": 0, "sample_weight": "w"}
    planned = ll.plan(ll.feature_importance, first, folder, "y", donors=ll.Latin(3), **options)
    result = ll.feature_importance(second, folder, "y", donors=ll.Latin(3), **options)
    assert planned.engine == "blackbox" == result["many"].engine
    assert result.n_predictions <= planned.n_predictions <= 1.2 * result.n_predictions


def test_shares_part_by_part(folder):
    frame = pd.read_parquet(folder / "2.parquet")
    linear = LinearRegression().fit(frame[["many", "few", "some"]], frame["y"])
    assert ll.plan(ll.shapley_importance, linear, folder, "y", memory=SMALL).engine == "additive"
    trees = HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=4).fit(frame[["many", "few", "some"]], frame["y"])
    planned = ll.plan(ll.shapley_importance, trees, folder, "y", memory=SMALL)
    assert (planned.engine, planned.passes) == ("trees", 3)
    with pytest.raises(ValueError, match="pass a sample"):
        ll.plan(ll.shapley_importance, linear, folder, "y", memory=SMALL, method="walk")


def test_small_files_are_planned_as_data_in_memory(folder):
    planned = ll.plan(ll.feature_importance, CountingNames(), folder, "y", loss="squared_error")
    assert planned.features == ("many", "few", "some", "w")
    assert planned.workers == 0


def test_lazy_frames_are_planned(folder):
    frame = pl.scan_parquet(str(folder / "*.parquet"))
    options = {"loss": "squared_error", "memory": SMALL, "features": "few"}
    planned = ll.plan(ll.feature_importance, CountingNames(), frame, "y", donors=ll.Latin(2), **options)
    assert 1000 < planned.n_predictions < 3 * STREAMED


@pytest.mark.parametrize(
    ("X", "y", "options", "error", "says"),
    [
        ("nowhere.parquet", "y", {}, FileNotFoundError, "nowhere"),
        (None, "z", {}, ValueError, "y='z' is not a column"),
        (None, "y", {"features": "z"}, ValueError, "'z'"),
        (None, None, {}, ValueError, "y, the true values, is missing"),
        (None, "y", {"sample_weight": "z"}, ValueError, "sample_weight"),
    ],
)
def test_a_plan_of_parts_refuses_what_the_verb_refuses(folder, tmp_path, X, y, options, error, says):
    data = X or first_rows(folder, tmp_path)
    options = {"loss": "squared_error", "memory": SMALL} | options
    for call in (ll.feature_importance, partial(ll.plan, ll.feature_importance)):
        with pytest.raises(error, match=says):
            call(CountingNames(), data, y, **options)


# What it refuses: what the verb refuses.


@pytest.mark.parametrize(
    ("verb", "options", "error"),
    [
        (ll.feature_importance, {"y": None}, ValueError),
        (ll.feature_importance, {"y": Y[:-1]}, ValueError),
        (ll.feature_importance, {"loss": None}, ValueError),
        (ll.feature_importance, {"loss": "no such loss"}, ValueError),
        (ll.feature_importance, {"features": "x9"}, ValueError),
        (ll.feature_importance, {"donors": ll.Latin(N + 1)}, ValueError),
        (ll.feature_importance, {"sample_weight": -np.ones(N)}, ValueError),
        (ll.feature_importance, {"groups": np.zeros(N)}, ValueError),
        (ll.feature_importance, {"memory": "1 kB"}, ValueError),
        (ll.feature_importance, {"memory": "much"}, ValueError),
        (ll.feature_importance, {"random_state": -1}, ValueError),
        (ll.feature_importance, {"colour": "red"}, TypeError),
        (ll.feature_effect, {"target": "yes"}, ValueError),
        (ll.feature_effect, {"loss": "squared_error"}, TypeError),
    ],
    ids=lambda value: str(*value) if isinstance(value, dict) else value.__name__,
)
def test_a_plan_refuses_what_the_verb_refuses(verb, options, error):
    arguments = {"y": Y, "loss": "squared_error"} if verb is ll.feature_importance else {}
    arguments |= options
    with pytest.raises(error):
        verb(Counting(), X, **arguments)
    with pytest.raises(error):
        ll.plan(verb, Counting(), X, **arguments)


@pytest.mark.parametrize("verb", [ll.load, "feature_importance", Counting()])
def test_a_plan_takes_a_verb_first(verb):
    with pytest.raises(ValueError, match="the first argument of plan is one of feature_importance, feature_effect"):
        ll.plan(verb, X, Y)


def test_a_target_is_an_argument_like_any_other():
    model = LogisticRegression().fit(X, Y > 0)
    assert ll.plan(ll.feature_effect, model, X, target=True).features == ("x0", "x1", "x2")


def test_a_plan_of_shares_says_the_way_and_what_it_takes():
    """A sweep of walks is n (p - 1) predictions; all coalitions of n rows with distinct values (2^p - 2) n^2."""

    def f(table):
        return table[:, 0] * table[:, 1] + table[:, 2]

    few = ll.plan(ll.shapley_importance, f, X[:20], Y[:20], loss="squared_error")
    asked = ll.shapley_importance(f, X[:20], Y[:20], loss="squared_error")
    assert few.exact
    assert few.way == "all coalitions, by the model"
    assert asked.n_predictions <= few.n_predictions
    n, p = X.shape
    walks = ll.plan(ll.shapley_importance, f, X, Y, loss="squared_error", method="walk", budget=n + 7 * n * (p - 1))
    assert walks.n_predictions == walks.most == n + 7 * n * (p - 1)
    assert "walks; sampled" in repr(walks)
    linear = ll.plan(ll.shapley_importance, LinearRegression().fit(X, Y), X, Y)
    assert linear.way == "closed form"
    assert linear.engine == "additive"
    assert linear.to_frame()["exact"].tolist() == [True]
