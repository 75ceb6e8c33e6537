"""Importances within a time or a number of predictions: against brute force, and whatever ends them."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from tests.support.slow_models import clock, linear, rows, slow  # noqa: F401 - a fixture

import losslens as ll
from losslens.passes import allowance
from losslens.passes.allowance import seconds_of
from losslens.passes.drawing import Drawing

LOSS = {"loss": "squared_error", "progress": False}


def squared(y, prediction):
    return (y - prediction) ** 2


def by_hand(model, X, y, imp, name, loss=squared):
    """The importance of a feature, and its local importances, with the donors of the result."""
    used = imp.afforded.rows
    X, y, j = X[used], y[used], int(name[1:])
    own, donors = loss(y, model(X)), np.asarray(imp[name].layout.donors if imp[name].design.m else np.empty((0, 0)))
    donors = donors if donors.size else np.broadcast_to(np.arange(len(y)), (len(y), len(y)))
    local = []
    for i in range(len(y)):
        replaced = np.repeat(X[i : i + 1], donors.shape[1], axis=0)
        replaced[:, j] = X[donors[i], j]
        local.append(np.mean(loss(y[i], model(replaced))) - own[i])
    return np.array(local)


@pytest.mark.parametrize("budget", [4_000, 9_000, 40_000])
def test_cells_are_those_of_the_donors_by_brute_force(budget):
    """Also after `more`, and where a feature has few values, all of which are predicted."""
    X, y = rows(300)
    X[:, 4] = np.sign(X[:, 4])

    def product(X):
        return linear(X) + X[:, 0] * X[:, 3]

    imp = ll.feature_importance(product, X, y, budget=budget, random_state=3, **LOSS)
    for one in (imp, imp.more(product, X, y, 3_000, progress=False)):
        for name in one:
            np.testing.assert_allclose(one[name].local, by_hand(product, X, y, one, name), atol=1e-10)
        assert one["x4"].exact
        assert one["x6"].pfi == 0
        assert one.error == pytest.approx(np.mean(squared(y, product(X))[one.afforded.rows]))


def counted(predicted):
    def model(X):
        predicted.append(len(X))
        return linear(X)

    return model


@pytest.mark.parametrize("budget", [700, 2_000, 10_000, 30_000])
def test_no_more_predictions_than_the_budget_and_nearly_all_of_them(budget):
    X, y = rows(1000)
    predicted = []
    imp = ll.feature_importance(counted(predicted), X, y, budget=budget, random_state=0, **LOSS)
    assert sum(predicted) == imp.n_predictions <= budget
    # A column of cells, one donor of every row, is not begun unless it can be finished.
    assert sum(predicted) > budget - len(imp.afforded.rows) - 100
    assert imp.afforded.stopped == "budget"
    assert imp.afforded.seconds is None


def test_it_ends_early_if_everything_is_precise():
    """Variance due to donors below a hundredth of that due to rows, or of that of the fifth feature."""
    X, y = rows(400)
    imp = ll.feature_importance(linear, X, y, budget=10_000_000, random_state=0, **LOSS)
    assert imp.afforded.stopped == "precise"
    assert imp.n_predictions < 400_000
    for one in list(imp.values())[:5]:
        assert one.influence.noise <= 0.01 * (one.influence.variance - one.influence.noise)
    assert "more donors would hardly make it more precise" in repr(imp)


def test_the_same_whatever_the_number_of_threads():
    X, y = rows(500)
    one, two = (ll.feature_importance(linear, X, y, budget=12_000, random_state=1, n_jobs=n, **LOSS) for n in (1, 2))
    np.testing.assert_array_equal(one.local, two.local)
    np.testing.assert_array_equal(one.afforded.looks, two.afforded.looks)


def test_unimportant_features_get_less():
    """x5 and x6 are surely not among the leading five."""
    X, y = rows(300)
    imp = ll.feature_importance(linear, X, y, budget=15_000, random_state=0, **LOSS)
    donors = imp.afforded.looks[-1]
    assert donors[:5].max() > 5
    assert list(donors[5:]) == [3, 3]


def test_weights_groups_and_frames(clock):  # noqa: F811
    X, y = rows(200)
    frame = pd.DataFrame(X, columns=list("abcdefg"), index=[f"r{i}" for i in range(200)])
    weight, groups = np.random.default_rng(0).uniform(0.5, 2, 200), np.arange(200) // 4
    imp = ll.feature_importance(
        slow(clock, 0.1, 0.01), frame, pd.Series(y, frame.index), budget="40 s", sample_weight=weight, groups=groups,
        random_state=0, **LOSS,
    )  # fmt: skip
    used = imp.afforded.rows
    own, w = squared(y, linear(X))[used], weight[used]
    assert imp.error == pytest.approx(np.average(own, weights=w))
    donors, blocks = np.asarray(imp["a"].layout.donors), groups[used]
    total = mass = 0.0
    for i in range(len(used)):
        for k in donors[i]:
            if blocks[i] != blocks[k]:
                replaced = X[used][i].copy()
                replaced[0] = X[used][k, 0]
                total += w[i] * w[k] * (squared(y[used][i], linear(replaced[None])[0]) - own[i])
                mass += w[i] * w[k]
    assert imp["a"].pfi == pytest.approx(total / mass)
    again = imp.more(slow(clock, 0.1, 0.01), frame, pd.Series(y, frame.index), "20 s", progress=False)
    assert again["a"].design.m > imp["a"].design.m


# Time.


@pytest.mark.parametrize("fixed", [0.0, 0.3])
@pytest.mark.parametrize("each", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("seconds", [120, 600])
def test_the_time_is_kept(clock, fixed, each, seconds):  # noqa: F811
    X, y = rows(2000)
    model = slow(clock, fixed, each, spread=0.1)
    call = partial(ll.feature_importance, model, X, y, budget=f"{seconds} s", random_state=0, **LOSS)
    if each * 220 > seconds:  # of 10 rows
        with pytest.raises(ValueError, match="affords"):
            call()
        assert clock.now < 0.25 * seconds
        return
    imp = call()
    assert clock.now <= max(1.1 * seconds, seconds + 1)
    assert clock.now >= 0.9 * seconds or imp.afforded.stopped == "precise"
    assert imp.afforded.seconds == pytest.approx(clock.now)


def test_costs_of_a_call_are_estimated(clock):  # noqa: F811
    meter = allowance.Meter(allowance.limits_of("100 s"))
    for size in (2, 4, 16, 64):
        meter.record(size, 0.5 + 0.02 * size)
    assert meter.costs == pytest.approx((0.5, 0.02))
    # 0.05 of 100 s a call, 4.5 s of it for rows; 20 calls of 225 rows take 100 s.
    assert meter.rows_a_call(10_000) == 225
    assert meter.rows_left(10_000) == 20 * 225
    assert meter.time_of(450, 10_000) == pytest.approx(2 * 0.5 + 9)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90 s", 90), ("10 min", 600), ("1 h", 3600), ("1.5 hours", 5400), ("2minutes", 120)]
)
def test_times_in_words(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("budget", ["ten minutes", "10", "0 s", "5 days", "-3 s", "9" * 400 + " s", 0, 2.5, True])
def test_other_budgets_are_refused(budget):
    X, y = rows(50)
    with pytest.raises(ValueError, match="budget is a"):
        ll.feature_importance(linear, X, y, budget=budget, **LOSS)


# What ends a call.


def stopping(after, error):
    """A model that raises from its n-th call on."""
    calls = []

    def model(X):
        calls.append(len(X))
        if len(calls) > after:
            raise error
        return linear(X)

    return model, calls


def test_ctrl_c_gives_what_was_done():
    X, y = rows(20_000)
    model, calls = stopping(25, KeyboardInterrupt())
    imp = ll.feature_importance(model, X, y, budget=1_000_000, random_state=0, **LOSS)
    assert imp.afforded.stopped == "interrupted"
    assert len(calls) == 26
    assert "interrupted" in repr(imp)
    some = np.arange(0, 20_000, 4_000)
    donors = np.asarray(imp["x0"].layout.donors)
    for i in some:
        replaced = np.repeat(X[i : i + 1], donors.shape[1], axis=0)
        replaced[:, 0] = X[donors[i], 0]
        expected = np.mean(squared(y[i], linear(replaced))) - squared(y[i], linear(X[i : i + 1]))[0]
        assert imp["x0"].local[i] == pytest.approx(expected)


def test_whichever_call_is_interrupted_complete_columns_count(clock):  # noqa: F811
    """Or Ctrl-C is Ctrl-C, as long as a feature has no column."""
    X, y = rows(120, p=4)
    stopped = []
    for k in range(1, 60, 3):
        model, calls = stopping(k, KeyboardInterrupt())
        timed = slow(clock, 0.5, 0.01, answer=model)
        try:
            imp = ll.feature_importance(timed, X, y, budget="100 s", random_state=0, **LOSS)
        except KeyboardInterrupt:
            assert len(calls) < 25
            continue
        stopped.append(imp.afforded.stopped)
        for name in imp:
            np.testing.assert_allclose(imp[name].local, by_hand(linear, X, y, imp, name), atol=1e-10)
    assert {"interrupted"} <= set(stopped)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_ctrl_c_between_calls_of_the_model_gives_what_was_done(after, monkeypatch):
    """While importances are computed from the cells: they are, once more; a second Ctrl-C ends the call."""
    X, y = rows(300)
    call = dict(budget=30_000, random_state=0, **LOSS)
    whole, look, looks = ll.feature_importance(linear, X, y, **call), Drawing.look, []

    def interrupted(drawing, times=1):
        looks.append(drawing.width)
        if after < len(looks) <= after + times:
            raise KeyboardInterrupt
        return look(drawing)

    monkeypatch.setattr(Drawing, "look", interrupted)
    imp = ll.feature_importance(linear, X, y, **call)
    assert imp.afforded.stopped == "interrupted"
    assert looks[-1] == looks[-2]  # all that was predicted counts
    assert sum(one.design.m for one in imp.values()) == looks[-1]
    np.testing.assert_allclose(imp["x0"].local, by_hand(linear, X, y, imp, "x0"), atol=1e-10)
    if after == 0:
        np.testing.assert_array_equal(imp.afforded.looks[0], whole.afforded.looks[0])
    looks.clear()
    monkeypatch.setattr(Drawing, "look", lambda drawing: interrupted(drawing, times=2))
    with pytest.raises(KeyboardInterrupt):
        ll.feature_importance(linear, X, y, **call)


def test_few_rows_have_numbers_and_no_errors():
    X, y = rows(2)
    imp = ll.feature_importance(linear, X, y, budget=1_000, precision="ranks", random_state=0, **LOSS)
    assert imp.exact
    assert imp.afforded.settled == ()


def test_ctrl_c_before_there_is_anything_is_ctrl_c():
    X, y = rows(500)
    with pytest.raises(KeyboardInterrupt):
        ll.feature_importance(stopping(2, KeyboardInterrupt())[0], X, y, budget=50_000, **LOSS)


def test_a_call_that_fails_is_repeated_three_times(clock):  # noqa: F811
    X, y = rows(20_000)
    model, calls = stopping(25, ConnectionError("no route to the endpoint"))
    imp = ll.feature_importance(model, X, y, budget=1_000_000, random_state=0, **LOSS)
    assert imp.afforded.stopped == "failed"
    assert len(calls) == 25 + 4
    assert "four times in a row (ConnectionError: no route to the endpoint)" in repr(imp)
    with pytest.raises(ConnectionError, match="no route"):
        ll.feature_importance(stopping(1, ConnectionError("no route"))[0], X, y, budget=1_000_000, **LOSS)


def test_a_call_that_fails_once_changes_nothing(clock):  # noqa: F811
    X, y = rows(500)
    failed = []

    def model(X):
        if len(failed) < 3:
            failed.append(1)
            raise TimeoutError
        return linear(X)

    one, two = (ll.feature_importance(f, X, y, budget=9_000, random_state=0, **LOSS) for f in (model, linear))
    np.testing.assert_array_equal(one.local, two.local)


# More.


def test_more_goes_on_where_it_stopped_also_from_a_file(tmp_path):
    X, y = rows(400)
    first = ll.feature_importance(linear, X, y, budget=9_000, random_state=0, **LOSS)
    first.save(tmp_path / "first.losslens")
    loaded = ll.load(tmp_path / "first.losslens")
    assert loaded.afforded.sentence == first.afforded.sentence
    here, there = (one.more(linear, X, y, 6_000, progress=False) for one in (first, loaded))
    np.testing.assert_array_equal(here.local, there.local)
    assert here["x0"].design.m > first["x0"].design.m
    donors = np.asarray(first["x0"].layout.donors)
    np.testing.assert_array_equal(np.asarray(here["x0"].layout.donors)[:, : donors.shape[1]], donors)  # nested
    assert first.n_predictions < here.n_predictions <= first.n_predictions + 6_000


def test_more_is_refused_for_other_rows_and_models():
    X, y = rows(400)
    imp = ll.feature_importance(linear, X, y, budget=9_000, random_state=0, **LOSS)
    with pytest.raises(ValueError, match="pass the same model"):
        imp.more(lambda X: 2 * linear(X), X, y, 1_000)
    with pytest.raises(ValueError, match="pass the same y"):
        imp.more(linear, X, y + 1, 1_000)
    with pytest.raises(ValueError, match="pass the same rows"):
        imp.more(linear, X[1:], y[1:], 1_000)
    with pytest.raises(ValueError, match="needs a budget"):
        imp.more(linear, X, y)
    with pytest.raises(ValueError, match="computed without a budget"):
        ll.feature_importance(linear, X, y, **LOSS).more(linear, X, y, 1_000)
    with pytest.raises(ValueError, match="of some rows"):
        imp.given(np.arange(50)).more(linear, X, y, 1_000)


# What has no budget.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "r2"}, "'r2' is a score"),
        ({"donors": ll.Latin(5)}, "leave out donors"),
        ({"features": [("x0", "x1")]}, "a pair has curves only"),
        ({"precision": 0.1}, "precision is 'ranks'"),
    ],
)
def test_what_has_no_budget_is_refused(options, words):
    X, y = rows(100)
    with pytest.raises(ValueError, match=words):
        ll.feature_importance(linear, X, y, **(LOSS | {"budget": 5_000} | options))


def test_a_budget_that_is_too_small_says_what_it_takes(clock):  # noqa: F811
    X, y = rows(1000)
    with pytest.raises(
        ValueError, match=r"affords 9\d predictions, but 10 rows, the fewest, with 22 predictions each take 220"
    ):
        ll.feature_importance(linear, X, y, budget=100, **LOSS)
    with pytest.raises(ValueError, match=r"budget='60 s' affords .* each take 220 predictions, about 4 min"):
        ll.feature_importance(slow(clock, 0.0, 1.0), X, y, budget="60 s", **LOSS)


def test_an_exact_engine_needs_no_budget():
    X, y = rows(200)
    model = LinearRegression().fit(X, y)
    imp = ll.feature_importance(model, X, y, budget=10, progress=False)
    assert imp.exact
    assert imp.afforded is None


def test_a_model_that_answers_at_random_is_not_exact():
    X, y = rows(60)
    X[:, 4] = np.sign(X[:, 4])
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="random"):
        imp = ll.feature_importance(lambda X: linear(X) + rng.normal(size=len(X)), X, y, budget=5_000, **LOSS)
    assert not imp["x4"].exact


def test_ranks_are_settled():
    X, y = rows(2000)
    imp = ll.feature_importance(linear, X, y, budget=300_000, precision="ranks", random_state=0, **LOSS)
    assert imp.afforded.stopped == "settled"
    assert imp.afforded.settled == ("x0", "x1", "x2", "x3", "x4")
    assert "settled ranks" in repr(imp)


# Other verbs.


def test_models_are_compared_on_the_same_rows_within_the_time(clock):  # noqa: F811
    X, y = rows(2000)
    models = {
        "fast": slow(clock, 0.0, 1e-3, 0.1),
        "slow": slow(clock, 0.1, 3e-3, 0.1, answer=lambda X: 0.9 * linear(X)),
    }
    comparison = ll.compare(models, X, y, budget="2 min", random_state=0, **LOSS)
    assert 108 < clock.now < 132
    fast, slower = comparison.importances.values()
    np.testing.assert_array_equal(fast._first.sample.y, slower._first.sample.y)
    assert len(fast._first.sample.y) < 2000
    assert "drawn at random, the same for all models" in repr(slower)
    assert fast["x0"].design.m > slower["x0"].design.m >= 3
    assert comparison.difference("x0", "fast", "slow").low > 0
    assert comparison.shapley["slow"].n_predictions > 0


@pytest.mark.parametrize("shapley", [False, True])
@pytest.mark.parametrize("verb", [ll.report, ll.compare])
def test_models_together_take_no_more_predictions_than_the_budget(verb, shapley):
    X, y = rows(400, p=4)
    predicted = []
    models = {"first": counted(predicted), "second": counted(predicted)}
    options = LOSS | {"shapley": shapley, "random_state": 0}
    if verb is ll.compare:
        verb(models, X, y, budget=6_000, **options)
    else:
        verb(models["first"], X, y, models={"other": models["second"]}, budget=6_000, **options)
    assert 4_500 < sum(predicted) <= 6_000


def test_walks_of_several_models_end_when_they_are_precise_not_before(clock):  # noqa: F811
    """With time enough as they do without a limit."""
    X, y = rows(400)
    X = np.column_stack([X, np.random.default_rng(1).normal(size=(400, 3))])

    def model(X):
        clock.wait(1e-6)
        return linear(X[:, :7]) * (1 + X[:, 7] * X[:, 8] + X[:, 9])

    models = {"a": model, "b": lambda X: 0.9 * model(X)}
    timed, free = (ll.compare(models, X, y, random_state=0, **LOSS | more) for more in ({"budget": "1 h"}, {}))
    assert free.shapley["a"].design == timed.shapley["a"].design
    np.testing.assert_allclose(timed.shapley["a"].sfimp, free.shapley["a"].sfimp, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("budget", [5_000, 12_000, 30_000])
def test_rows_without_weight_take_no_predictions(budget):
    """They count for nothing; with three donors a row, half of them without weight, no standard error was left."""
    X, y = rows(700)
    weight = np.random.default_rng(0).random(700) < 0.5
    predicted = []
    imp = ll.feature_importance(counted(predicted), X, y, sample_weight=weight, budget=budget, random_state=0, **LOSS)
    assert sum(predicted) == imp.n_predictions <= budget
    assert weight[imp.afforded.rows].all()
    assert len(imp.afforded.rows) > 0.6 * min(weight.sum(), budget / (1 + 3 * 7))
    every = ll.feature_importance(linear, X[weight], y[weight], donors="all", **LOSS)
    share = weight.sum() / len(imp.afforded.rows)  # of the variance of all rows, besides the noise of donors
    assert imp["x0"].std_error < 1.6 * np.sqrt(share) * every["x0"].std_error
    assert abs(imp["x0"].pfi - every["x0"].pfi) < 4 * imp["x0"].std_error


def test_precision_alone_needs_no_budget(recwarn):
    X, y = rows(300)
    imp = ll.feature_importance(linear, X, y, precision="ranks", random_state=0, **LOSS)
    assert imp.afforded.stopped in ("settled", "precise")
    assert not recwarn.list


def test_a_report_within_the_time(clock):  # noqa: F811
    X, y = rows(1000, p=4)
    page = ll.report(slow(clock, 0.05, 2e-3, 0.1), X, y, budget="1 min", random_state=0, **LOSS)
    assert 50 < clock.now < 66
    assert page.check() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [({"rows": "x"}, "rows is a whole number"), ({"features": [("x0", "x1")]}, "leave out the pair")],
)
def test_other_arguments_of_a_report_are_checked_with_a_budget_too(options, words):
    X, y = rows(100)
    with pytest.raises(ValueError, match=words):
        ll.report(linear, X, y, budget="2 s", **(LOSS | options))


@pytest.mark.parametrize("verb", [ll.report, ll.compare])
def test_scores_have_no_budget(verb):
    X, y = rows(100)
    models = {"a": linear, "b": linear} if verb is ll.compare else LinearRegression().fit(X, y)
    with pytest.raises(ValueError, match="is a score"):
        verb(models, X, y, loss="neg_median_absolute_error", budget=10_000, progress=False)


@pytest.mark.parametrize(("fixed", "each"), [(0.0, 1e-3), (0.2, 1e-2)])
def test_shapley_importances_within_a_time(clock, fixed, each):  # noqa: F811
    X, y = rows(2000, p=4)
    shares = ll.shapley_importance(slow(clock, fixed, each, 0.1), X, y, budget="1 min", random_state=0, **LOSS)
    assert clock.now < 66
    if len(shares.sample.y) < 2000:
        assert clock.now > 50
    assert "budget: " in repr(shares)
    np.testing.assert_allclose(shares.sfimp.sum(), shares.error_none - shares.error_all)
    assert np.all(np.abs(shares.sfimp - np.array([18, 8, 4.5, 2])) < 5 * shares.std_error)


@pytest.mark.parametrize("method", ["auto", "exact"])
def test_shapley_importances_by_an_engine_need_no_time(method):
    X, y = rows(300)
    model = LinearRegression().fit(X, y)
    shares = ll.shapley_importance(model, X, y, budget="1 s", method=method, progress=False)
    assert shares.exact
    np.testing.assert_array_equal(shares.sfimp, ll.shapley_importance(model, X, y, progress=False).sfimp)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "neg_median_absolute_error"}, "is a score"),
        ({"method": ll.Sage()}, "leave out method and donors"),
        ({"method": ll.Paper()}, "leave out method and donors"),
        ({"donors": ll.Latin(5)}, "leave out donors|leave out method and donors"),
        ({"method": "exact"}, "which method='exact' rules out"),
    ],
)
def test_shapley_importances_that_have_no_time(options, words):
    X, y = rows(100)
    model = linear if "loss" not in options else LinearRegression().fit(X, y)
    with pytest.raises(ValueError, match=words):
        ll.shapley_importance(model, X, y, **(LOSS | {"budget": "1 min"} | options))


def test_a_plan_says_what_a_budget_affords():
    X, y = rows(1000)
    plan = ll.plan(ll.feature_importance, linear, X, y, budget=20_000, **LOSS)
    assert plan.n_predictions == 20_000
    assert "20,000 predictions affords about" in repr(plan)
    assert ll.plan(ll.feature_importance, linear, X, y, budget=10_000_000, **LOSS).budget is None
    assert "affords about" in repr(ll.plan(ll.compare, {"a": linear, "b": linear}, X, y, budget=20_000, **LOSS))


def test_shapley_ranks_are_settled():
    X, y = rows(1000)
    call = {"method": "walk", "random_state": 0, **LOSS}
    shares = ll.shapley_importance(linear, X, y, precision="ranks", **call)
    assert "settled ranks (at 95%, all looks counted), the most important first: x0, x1, x2" in repr(shares)
    tied = ll.shapley_importance(lambda X: X[:, 0] + X[:, 1], X, X[:, 0] + X[:, 1], precision="ranks", **call)
    assert "settled" not in repr(tied)
    noisy = ll.shapley_importance(lambda X: linear(X) * X[:, 5] ** 3, X, y, precision="ranks", budget=31_000, **call)
    assert "budget= ended the walks before the leading ranks were settled" in repr(noisy)
    with pytest.raises(ValueError, match="shares of the loss"):
        ll.shapley_importance(linear, X, y, precision="ranks", **(call | {"method": ll.Sage()}))
    with pytest.raises(TypeError, match="or 'ranks'"):
        ll.shapley_importance(linear, X, y, precision="rank", **call)


def test_shapley_importances_of_an_endpoint_that_fails(clock):  # noqa: F811
    X, y = rows(2000, p=4)
    model, calls = stopping(11, ConnectionError("no route"))
    shares = ll.shapley_importance(slow(clock, 0.2, 1e-2, answer=model), X, y, budget="2 min", random_state=0, **LOSS)
    assert len(calls) == 11 + 4
    assert "the model failed four times in a row (ConnectionError: no route)" in repr(shares)
    broken = slow(clock, 0.2, 1e-2, answer=stopping(5, ConnectionError("no route"))[0])
    with pytest.raises(ConnectionError, match="no route"):
        ll.shapley_importance(broken, X, y, budget="2 min", random_state=0, **LOSS)
