"""Every verb that takes a model or a learner has a plan; its counts are those of the call."""

import inspect
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.neighbors import KNeighborsRegressor

import losslens as ll
from losslens.passes import rehearsal
from losslens.shapley import scores
from losslens.verbs.plan import PLANNED

N = 60
X = np.random.default_rng(0).normal(size=(N, 4))
Y = X[:, 0] + X[:, 1] * X[:, 2]
FOREST = RandomForestRegressor(6, random_state=0).fit(X, Y)


class Counting:
    """A model that notes how many rows each call had."""

    def __init__(self):
        self.sizes = []

    def __call__(self, X):
        self.sizes.append(len(X))
        return X[:, 0] + X[:, 1] * X[:, 2]


class CountedFits(RegressorMixin, BaseEstimator):
    """A learner that notes the rows of each fit and of each prediction, in lists that its clones share."""

    fits, predictions = [], []

    def fit(self, X, y):
        self.fits.append(len(X))
        self.mean_ = y.mean()
        return self

    def predict(self, X):
        self.predictions.append(len(X))
        return self.mean_ + X[:, 0]


def shuffled(X, columns, rng):
    return X[rng.permutation(len(X))]


LOSS = {"loss": "squared_error"}
SMALL = {"random_state": 0, "progress": False}
CALLS = {
    ll.feature_importance: (Counting(), X, Y, LOSS),
    ll.feature_effect: (Counting(), X, None, {}),
    ll.shapley_importance: (Counting(), X, Y, LOSS),
    ll.shapley_effect: (Counting(), X, [0, 7, 9], {}),
    ll.pair_interactions: (Counting(), X, Y, LOSS),
    ll.conditional_predictive_impact: (Counting(), X, Y, {"sampler": shuffled} | LOSS),
    ll.compare: ({"a": Counting(), "b": LinearRegression().fit(X, Y)}, X, Y, LOSS),
    ll.good_models: ((LinearRegression(), 3), X, Y, LOSS),
    ll.report: (Counting(), X, Y, LOSS),
    ll.weak_segments: (Counting(), X, Y, LOSS),
    ll.feature_importance_cv: (LinearRegression(), X, Y, {"cv": 3}),
    ll.shapley_importance_cv: (LinearRegression(), X, Y, {"cv": 3}),
    ll.permuted_target_test: (LinearRegression(), X, Y, {"cv": 3, "permutations": 2}),
    ll.leave_one_covariate_out: (LinearRegression(), X, Y, {"cv": 3}),
}


def test_every_verb_has_a_plan_or_needs_none():
    """A verb takes a model or learner and X; the others predict nothing."""
    public = [getattr(ll, name) for name in ll.__all__]
    verbs = {one for one in public if inspect.isfunction(one)} - {ll.load, ll.plan, ll.time_blocks, ll.feature_groups}
    assert verbs == set(PLANNED)
    assert set(CALLS) == set(PLANNED)


@pytest.mark.parametrize("verb", PLANNED, ids=lambda verb: verb.__name__)
def test_every_verb_is_planned(verb):
    model, X, y, options = CALLS[verb]
    planned = ll.plan(verb, model, X, y, **options, **SMALL)
    assert planned.seconds > 0
    assert planned.memory > 0
    assert planned.n_predictions > 0
    assert set(planned.features) >= {"x0", "x1", "x2", "x3"}
    assert len(planned.to_frame()) >= 1
    assert repr(planned).startswith("Plan: ")


@pytest.mark.parametrize("verb", [ll.time_blocks, ll.feature_groups])
def test_what_predicts_nothing_has_no_plan(verb):
    with pytest.raises(ValueError, match=f"{verb.__name__} makes no predictions"):
        ll.plan(verb, None, X)


# Counts.


def counted(verb, y, **options):
    """The plan, and the rows that the call itself predicts."""
    model = Counting()
    planned = ll.plan(verb, Counting(), X, y, **options, **SMALL)
    verb(model, X, y, **options, **SMALL)
    return planned, model.sizes


@pytest.mark.parametrize("rows", [[3], [0, 7, 9], np.arange(N) < 20], ids=["one", "three", "mask"])
def test_effects_over_all_coalitions_take_the_planned_predictions(rows):
    """All rows as they are, and for each explained row 2^p - 2 coalitions of n donors, its own included."""
    planned, sizes = counted(ll.shapley_effect, rows)
    explained = np.arange(N)[rows]
    assert planned.n_predictions == sum(sizes) == N + len(explained) * (2**4 - 2) * N
    assert planned.exact


def test_effects_by_walks_take_as_many_as_the_budget_allows():
    """A sweep is a walk of p - 1 predictions to each of 5 rows, or of none from the row itself."""
    planned, sizes = counted(ll.shapley_effect, np.arange(5), method="walk", budget=N + 17 * 5 * 3 + 1)
    assert planned.n_predictions == planned.most == N + 17 * 5 * 3
    assert 0.9 * planned.n_predictions < sum(sizes) <= planned.n_predictions
    assert planned.way == "walks"


def test_effects_of_an_exact_engine_only_check_it():
    model = LinearRegression().fit(X, Y)
    planned = ll.plan(ll.shapley_effect, model, X, [0, 1])
    assert planned.n_predictions == ll.shapley_effect(model, X, [0, 1]).n_predictions == N
    assert planned.engine == "additive"


@pytest.mark.parametrize("options", [{}, {"pairs": [("x0", "x2")]}, {"donors": ll.Derangements(5)}], ids=str)
def test_pairs_take_the_planned_predictions(options):
    planned, sizes = counted(ll.pair_interactions, Y, **LOSS, **options)
    assert planned.n_predictions == sum(sizes)


def test_of_very_many_pairs_some_are_planned():
    """12 features and 66 pairs of 30 rows, of which every second one is looked at; all have as many predictions."""
    table = np.random.default_rng(5).normal(size=(30, 12))
    model = Counting()
    planned = ll.plan(ll.pair_interactions, model, table, table[:, 0], **LOSS, **SMALL)
    model.sizes.clear()
    ll.pair_interactions(model, table, table[:, 0], **LOSS, **SMALL)
    assert len(planned.features) == len(planned.engines) == len(planned.predictions) == 78
    assert sum(planned.predictions) == sum(model.sizes) - 30
    assert planned.n_predictions == pytest.approx(sum(model.sizes), rel=0.05)


@pytest.mark.parametrize("draws", [1, 3])
def test_conditional_impact_takes_the_planned_predictions(draws):
    planned, sizes = counted(ll.conditional_predictive_impact, Y, sampler=shuffled, draws=draws, **LOSS)
    assert planned.n_predictions == sum(sizes) == N * (1 + draws * 4)
    assert planned.calls == len(sizes)


def test_segments_take_one_prediction_a_row():
    planned, sizes = counted(ll.weak_segments, Y, **LOSS)
    assert planned.n_predictions == sum(sizes) == N
    assert planned.calls == len(sizes)


def test_a_comparison_is_the_sum_of_its_models():
    a, b = Counting(), Counting()
    planned = ll.plan(ll.compare, {"a": Counting(), "b": Counting()}, X, Y, **LOSS, **SMALL)
    ll.compare({"a": a, "b": b}, X, Y, **LOSS, **SMALL)
    assert planned.n_predictions == sum(a.sizes) + sum(b.sizes)
    assert [stage.name for stage in planned.stages] == [
        "a: importances", "a: Shapley shares", "b: importances", "b: Shapley shares"
    ]  # fmt: skip
    assert planned.seconds == pytest.approx(sum(stage.seconds for stage in planned.stages))
    alone = ll.plan(ll.compare, {"a": Counting(), "b": Counting()}, X, Y, shapley=False, **LOSS, **SMALL)
    assert len(alone.stages) == 2


def test_a_report_is_the_sum_of_its_results():
    planned, sizes = counted(ll.report, Y, **LOSS)
    assert planned.n_predictions == sum(sizes)
    assert [stage.name for stage in planned.stages][2:] == ["pairs of features", "the strongest pair", "the page"]
    short = ll.plan(ll.report, Counting(), X, Y, shapley=False, interactions=False, **LOSS, **SMALL)
    assert [stage.name for stage in short.stages][1:] == ["the page"]


@pytest.mark.parametrize("p", [4, 12])
def test_shares_of_a_scorer_take_the_planned_predictions(p, monkeypatch):
    """All coalitions of 10 donors a row; along orders of many features no more different ones than these pass."""
    if p == 12:
        monkeypatch.setattr(scores, "cost_by_model", lambda players, *a: scores.Cost(len(players), "predictions", 4.0))
        monkeypatch.setattr(scores, "MAX_ROUNDS", 6)
    table = np.random.default_rng(2).normal(size=(12, p))
    model = KNeighborsRegressor(2).fit(table, table[:, 0] - table[:, 1])  # which no exact engine reads
    arguments, options = (model, table, table[:, 0]), {"loss": get_scorer("r2"), **SMALL}
    planned, result = (
        ll.plan(ll.shapley_importance, *arguments, **options),
        ll.shapley_importance(*arguments, **options),
    )
    if p == 4:
        assert planned.n_predictions == result.n_predictions
        assert planned.way == "all coalitions, by the model"
    else:
        assert 0.7 * planned.n_predictions < result.n_predictions <= planned.n_predictions
        assert planned.way == "orders"
        assert "at most" in repr(planned)


# Fits.


@pytest.mark.parametrize(
    ("verb", "options", "times"),
    [
        (ll.feature_importance_cv, {"cv": 3}, 3),
        (ll.shapley_importance_cv, {"cv": 3}, 3),
        (ll.feature_importance_cv, {"cv": 4, "variance": "jackknife"}, 10),
        (ll.shapley_importance_cv, {"cv": 3, "variance": "jackknife"}, 6),
        (ll.permuted_target_test, {"cv": 3, "permutations": 2}, 9),
        (ll.leave_one_covariate_out, {"cv": 3}, 15),
        (ll.leave_one_covariate_out, {"cv": 3, "features": ["x0", "x1"]}, 9),
    ],
)
def test_a_learner_is_fitted_as_often_as_planned(verb, options, times):
    planned = ll.plan(verb, CountedFits(), X, Y, **options, **SMALL)
    CountedFits.fits.clear()
    CountedFits.predictions.clear()
    verb(CountedFits(), X, Y, **options, **SMALL)
    assert planned.fits == len(CountedFits.fits) == times
    assert planned.n_predictions == sum(CountedFits.predictions)
    assert f"{times} fits and" in repr(planned)
    assert sum(planned.to_frame()["fits"]) == times


def test_a_learner_is_fitted_on_few_rows(monkeypatch):
    """Until a third of a second is spent, by a clock that a fit advances; the next one would take longer."""
    table = np.random.default_rng(3).normal(size=(5_000, 3))
    CountedFits.fits.clear()
    monkeypatch.setattr(rehearsal, "time", SimpleNamespace(perf_counter=lambda: Slow.now))
    planned = ll.plan(ll.feature_importance_cv, Slow(), table, table[:, 0], **SMALL)
    assert CountedFits.fits == [32, 32, 128, 512]
    assert planned.stages[0].seconds == pytest.approx(5 * 4_000 * 2e-4)


class Slow(CountedFits):
    """Its fits take 0.2 ms a row by a clock of its own."""

    now = 0.0

    def fit(self, X, y):
        Slow.now += 2e-4 * len(X)
        return super().fit(X, y)


class Picky(CountedFits):
    """Can't be fitted on few rows."""

    def fit(self, X, y):
        if len(X) < 300:
            raise ValueError("too few rows")
        return super().fit(X, y)


def test_a_learner_that_needs_many_rows_gets_them():
    table = np.random.default_rng(3).normal(size=(500, 3))
    assert ll.plan(ll.feature_importance_cv, Picky(), table, table[:, 0], **SMALL).fits == 5
    with pytest.raises(ValueError, match="too few rows"):
        ll.plan(ll.feature_importance_cv, Picky(), table[:300], table[:300, 0], **SMALL)


def test_a_classifier_is_fitted_on_all_classes():
    """One row in a hundred is of the third class: evenly spaced rows may miss it."""
    rng = np.random.default_rng(4)
    table, y = rng.normal(size=(2_000, 2)), np.arange(2_000) % 2
    y[7::100] = 2
    planned = ll.plan(ll.feature_importance_cv, LogisticRegression(), table, y, donors=ll.Latin(2), **SMALL)
    assert planned.fits == 5


# Arguments.


@pytest.mark.parametrize(
    ("verb", "options", "error", "says"),
    [
        (ll.shapley_effect, {"y": None}, TypeError, "shapley_effect: missing a required argument: 'rows'"),
        (ll.shapley_effect, {"method": "paper"}, ValueError, "method is"),
        (ll.shapley_effect, {"y": [N]}, (ValueError, IndexError), "row positions"),
        (ll.pair_interactions, {"pairs": [("x0", "x9")]}, ValueError, "x9"),
        (ll.pair_interactions, {"colour": "red"}, TypeError, "unexpected keyword argument 'colour'"),
        (ll.conditional_predictive_impact, {"sampler": 3}, TypeError, "sampler must be a function"),
        (ll.conditional_predictive_impact, {"draws": 0}, ValueError, "draws"),
        (ll.compare, {"groups": {"a": np.arange(N)}}, ValueError, "groups is a mapping, but X is a single table"),
        (ll.compare, {"groups": np.arange(N), "donors": ll.Latin(3)}, ValueError, "with groups= importances"),
        (ll.report, {"rows": 1}, ValueError, "rows"),
        (ll.report, {"interactions": "many"}, ValueError, "interactions"),
        (ll.feature_importance_cv, {"cv": 1}, ValueError, "cv=1"),
        (ll.feature_importance_cv, {"cv": 2, "variance": "jackknife"}, ValueError, "it needs 3 or more"),
        (ll.permuted_target_test, {"permutations": -1}, ValueError, "permutations"),
        (ll.leave_one_covariate_out, {"how": "burn"}, ValueError, "how must be"),
    ],
)
def test_a_plan_refuses_what_the_verb_refuses(verb, options, error, says):
    model, X, y, usual = CALLS[verb]
    given = usual | SMALL | options
    y = given.pop("y", y)
    with pytest.raises(error, match=says):
        ll.plan(verb, model, X, y, **given)


def test_a_plan_of_a_missing_argument_names_it():
    with pytest.raises(TypeError, match="shapley_effect: missing a required argument: 'rows'"):
        ll.plan(ll.shapley_effect, Counting(), X)


# A rehearsal.


@pytest.mark.parametrize(
    ("seen", "seconds"),
    [
        ([(0.1, 1.0)], 10.0),  # once: in proportion
        ([(0.1, 1.0), (0.4, 4.0)], 10.0),  # in proportion
        ([(0.1, 1.0), (0.2, 4.0)], 28.0),  # the line
        ([(0.1, 3.0), (0.4, 6.0)], 12.0),  # a line: 1 more for .1 more
        ([(0.1, 5.0), (0.4, 5.0)], 5.0),  # the same for all
        ([(0.1, 5.0), (0.4, 2.0)], 5.0),  # something happened once: in proportion
        ([(0.4, 2.0), (1.0, 3.0)], 3.0),  # the call itself
    ],
)
def test_seconds_are_extrapolated(seen, seconds):
    assert rehearsal._of_all(seen) == pytest.approx(seconds)


def test_a_slow_call_is_rehearsed_once(monkeypatch):
    """On few rows, if that takes long; otherwise twice, because something may be compiled the first time."""
    now, rows = [0.0], []
    monkeypatch.setattr(rehearsal, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def prepare(some, seconds):
        now[0] += 1e-4  # to take the rows: not timed

        def run():
            rows.append(some)
            now[0] += seconds

        return run

    assert rehearsal.rehearse(partial(prepare, seconds=1.1), 1000) == pytest.approx(1.1 * 1000 / 32)
    assert rows == [32]
    rows.clear()
    assert rehearsal.rehearse(partial(prepare, seconds=0.3), 1000) == pytest.approx(0.3)  # as long for all
    assert rows == [32, 128]
    rows.clear()
    assert rehearsal.rehearse(partial(prepare, seconds=0.12), 1000) == pytest.approx(0.12)
    assert rows == [32, 32, 128]
