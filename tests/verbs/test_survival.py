"""Importances of survival models: by hand through the model's own step functions, and calls that can't work."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

import losslens as ll
from survival_models import Weibull, censored_rows, concordance

TIMES = (2.0, 3.5, 7.0, 12.0)
MODEL = Weibull([1.0, 0.5, 0.0])
X, Y = censored_rows(40)


@pytest.fixture(scope="module")
def found():
    return ll.feature_importance(MODEL, X, Y, loss=ll.losses.brier_survival(TIMES))


def weights_by_hand(known):
    """1 / G(t) where a row is observed beyond t, 1 / G(T) where its event came before; G from the rows `known`."""

    def uncensored(t):
        product = 1.0
        for u in np.unique(known["time"][known["time"] <= t]):
            censored = np.sum(~known["event"] & (known["time"] == u))
            product *= 1 - censored / (censored + np.sum(known["time"] > u)) if censored else 1.0
        return product

    weights = np.zeros((len(Y), len(TIMES)))
    for i, (event, time) in enumerate(Y):
        for k, t in enumerate(TIMES):
            weights[i, k] = 1 / uncensored(min(time, t)) if event or time > t else 0
    return weights


def importances_by_hand(column, known=Y):
    """At each time: the mean over all pairs of rows and donors of the change of the loss."""
    weights, survives = weights_by_hand(known), Y["time"][:, None] > TIMES

    def losses(rows):
        return weights * (survives - [curve(TIMES) for curve in MODEL.predict_survival_function(rows)]) ** 2

    total = np.zeros(len(TIMES))
    for donor in X:
        replaced = X.copy()
        replaced[:, column] = donor[column]
        total += (losses(replaced) - losses(X)).mean(axis=0) / len(X)
    return total


INTEGRAL = np.array([0.75, 2.5, 4.25, 2.5]) / 10  # half the gaps to both neighbours, over 12 - 2


def test_every_time_and_the_integral(found):
    for j, name in enumerate(("x0", "x1")):
        at_times = importances_by_hand(j)
        np.testing.assert_allclose([found.outputs[t][name].pfi for t in TIMES], at_times, rtol=1e-9)
        assert found[name].pfi == pytest.approx(INTEGRAL @ at_times, rel=1e-9)
    assert [found.outputs[t]["x2"].pfi for t in TIMES] == [0, 0, 0, 0]
    assert found["x0"].loss.title == "integrated Brier score, 4 times from 2 to 12"
    assert found.outputs[3.5]["x0"].loss.title == "Brier score at 3.5"
    assert str(found.outputs).startswith("Importances for 4 times: increase in Brier score of each")


def test_scikit_survival_scores_the_same_curves(found):
    metrics = pytest.importorskip("sksurv.metrics")
    curves = np.array([curve(TIMES) for curve in MODEL.predict_survival_function(X)])
    assert found.error == pytest.approx(metrics.integrated_brier_score(Y, Y, curves, TIMES), rel=1e-12)


FORMS = {
    "pandas": pd.DataFrame({"time": Y["time"], "event": Y["event"]}),
    "polars": pl.DataFrame({"event": Y["event"], "time": Y["time"]}),
    "two columns": np.column_stack([Y["event"], Y["time"]]),
}


@pytest.mark.parametrize("y", FORMS.values(), ids=FORMS)
def test_forms_of_y(y, found):
    same = ll.feature_importance(MODEL, X, y, features=["x0"], loss=ll.losses.brier_survival(TIMES))
    assert same["x0"].pfi == found["x0"].pfi


def test_a_function_of_a_table(found):
    def curves(table):
        return np.array([curve(TIMES) for curve in MODEL.predict_survival_function(table)])

    same = ll.feature_importance(curves, X, Y, features=["x0"], loss=ll.losses.brier_survival(TIMES))
    assert same["x0"].pfi == pytest.approx(found["x0"].pfi, rel=1e-12)
    one = ll.losses.brier_survival(TIMES[1])
    alone = ll.feature_importance(lambda table: curves(table)[:, 1], X, Y, features=["x0"], loss=one)
    assert alone["x0"].pfi == pytest.approx(found.outputs[TIMES[1]]["x0"].pfi, rel=1e-12)


def test_the_default_is_deciles_of_event_times(found):
    """The smallest time up to which at least k/10 of the events have come, k = 1, ..., 9."""
    times = np.sort(Y["time"][Y["event"]])
    deciles = [next(t for t in times if np.sum(times <= t) * 10 >= k * len(times)) for k in range(1, 10)]
    for loss in (None, "brier_survival", ll.losses.brier_survival, ll.losses.brier_survival()):
        default = ll.feature_importance(MODEL, X, Y, features=["x0"], loss=loss)
        assert list(default.outputs) == sorted(set(deciles))


def test_censoring_of_other_rows_or_of_the_users_own():
    _, train = censored_rows(90, seed=5)
    loss = ll.losses.brier_survival(TIMES, censoring=train)
    at_times = importances_by_hand(0, known=train)
    imp = ll.feature_importance(MODEL, X, Y, features=["x0"], loss=loss)
    np.testing.assert_allclose([imp.outputs[t]["x0"].pfi for t in TIMES], at_times, rtol=1e-9)
    frame = pd.DataFrame({"event": train["event"], "time": train["time"]})
    same = ll.feature_importance(MODEL, X, Y, features=["x0"], loss=ll.losses.brier_survival(TIMES, censoring=frame))
    assert same["x0"].pfi == imp["x0"].pfi
    twos = ll.losses.brier_survival(TIMES, censoring=np.full((len(X), len(TIMES)), 2.0))
    ones = ll.losses.brier_survival(TIMES, censoring=np.ones((len(X), len(TIMES))))
    two, one = (ll.feature_importance(MODEL, X, Y, features=["x0"], loss=loss)["x0"].pfi for loss in (twos, ones))
    assert two == pytest.approx(2 * one, rel=1e-12)


def test_a_weight_counts_as_often_as_a_row_is_repeated():
    often = np.arange(len(X)) % 3
    loss = ll.losses.brier_survival(TIMES)
    weighted = ll.feature_importance(MODEL, X, Y, loss=loss, features=["x0"], sample_weight=often)
    repeated = ll.feature_importance(MODEL, X.repeat(often, 0), Y.repeat(often), loss=loss, features=["x0"])
    assert weighted["x0"].pfi == pytest.approx(repeated["x0"].pfi, rel=1e-9)


def test_a_row_without_weight_is_as_none():
    """The longest row, which survives where all others are censored: its weight would be infinite."""
    rows = np.vstack([X[:20], [[0.1, 0.2, 0.3]]])
    y = np.append(Y[:20], np.array([(True, 99.0)], Y.dtype))
    loss = ll.losses.brier_survival(TIMES)
    y["event"][y["time"] >= 11], y["time"][:20] = False, np.minimum(y["time"][:20], 12.5)
    weight = np.append(np.ones(20), 0.0)
    alone = ll.feature_importance(MODEL, rows[:20], y[:20], loss=loss, features=["x0"])
    beside = ll.feature_importance(MODEL, rows, y, loss=loss, features=["x0"], sample_weight=weight)
    assert beside["x0"].pfi == pytest.approx(alone["x0"].pfi, rel=1e-12)
    longer = ll.losses.brier_survival([*TIMES, 13.0])
    with pytest.raises(ValueError, match=r"times goes on to 13, but no row of y is observed beyond 12.5"):
        ll.feature_importance(MODEL, rows, y, loss=longer, sample_weight=weight)


def test_saved_and_pickled(found, tmp_path):
    found.save(tmp_path / "survival.losslens")
    for again in (ll.load(tmp_path / "survival.losslens"), pickle.loads(pickle.dumps(found))):
        assert again["x0"].loss == found["x0"].loss
        assert again.outputs[7.0]["x1"].pfi == found.outputs[7.0]["x1"].pfi
        assert again.outputs[7.0]["x1"].std_error == found.outputs[7.0]["x1"].std_error


def test_files_do_not_hold_the_censoring_that_was_given(tmp_path):
    loss = ll.losses.brier_survival(TIMES, censoring=Y)
    ll.feature_importance(MODEL, X, Y, loss=loss, features=["x0"]).save(tmp_path / "a.losslens")
    with pytest.raises(ValueError, match="files don't hold what was passed as censoring="):
        ll.feature_importance(MODEL, X, Y, loss=ll.load(tmp_path / "a.losslens")["x0"].loss)


def test_the_concordance_index_is_a_score():
    """Mean over all donors of the index of the replaced rows, as the scorer computes it."""

    def index(estimator, rows, y):
        return concordance(y["event"], y["time"], estimator.predict(rows))

    few, y, by_hand = X[:15], Y[:15], 0
    for shift in range(len(few)):
        replaced = few.copy()
        replaced[:, 0] = np.roll(few[:, 0], shift)
        by_hand += (index(MODEL, few, y) - index(MODEL, replaced, y)) / len(few)
    for loss in ("score", ll.losses.scorer(index)):
        imp = ll.feature_importance(MODEL, few, y, loss=loss, features=["x0", "x2"])
        assert imp["x0"].pfi == pytest.approx(by_hand, rel=1e-9)
        assert imp["x2"].pfi == 0
        assert imp["x0"].std_error > 0


def test_shares_of_all_features():
    """Shapley values of the mean loss from all coalitions, each asked of the model; walks agree within their error."""
    loss, few, y = ll.losses.brier_survival(TIMES), X[:12], Y[:12]
    known = loss.encode(y)

    def worth(coalition):
        total = 0
        for donor in few:
            mixed = np.tile(donor, (len(few), 1))
            mixed[:, coalition] = few[:, coalition]
            curves = np.array([curve(TIMES) for curve in MODEL.predict_survival_function(mixed)])
            total -= loss(known, curves).mean() / len(few)
        return total

    parts = {before: worth([*before, 0]) - worth(list(before)) for before in ((), (1,), (2,), (1, 2))}
    shares = (parts[()] + parts[1, 2]) / 3 + (parts[1,] + parts[2,]) / 6
    found = ll.shapley_importance(MODEL, few, y, loss=loss)
    assert found.sfimp[0] == pytest.approx(shares, rel=1e-9)
    wide = np.column_stack([X, np.zeros((len(X), 15))])
    model = Weibull(np.r_[MODEL.b, np.zeros(15)])
    walked = ll.shapley_importance(model, wide, Y, loss=loss, random_state=0)
    exact = ll.shapley_importance(MODEL, X, Y, loss=loss)
    assert walked.sfimp.sum() == pytest.approx(exact.sfimp.sum(), rel=1e-9)
    np.testing.assert_allclose(walked.sfimp[:3], exact.sfimp, atol=4 * walked.monte_carlo_error.max())


def test_every_verb_has_the_default_grid(found):
    """Verbs that compute the loss of each row find the loss, the grid and the curves as feature_importance does."""
    default = ll.feature_importance(MODEL, X, Y).loss.title
    both = ll.compare({"a": MODEL, "b": Weibull([1.0, 0.0, 0.0])}, X, Y, shapley=False)
    assert both.title == default
    assert ll.shapley_importance(MODEL, X, Y).loss.title == default
    assert default in str(ll.feature_importance_cv(MODEL, X, Y, cv=2, random_state=0))
    assert default in str(ll.leave_one_covariate_out(MODEL, X, Y, cv=2, how="constant", random_state=0))
    assert default in str(ll.pair_interactions(MODEL, X, Y))
    assert default in str(ll.weak_segments(MODEL, X, Y))
    assert default in str(ll.conditional_predictive_impact(MODEL, X, Y, ll.Residual(), random_state=0))


def test_folds_have_one_grid_and_one_estimate_of_censoring():
    """The mean over folds of importances whose weights come from all rows, also where a fold ends before the grid."""
    folds = [(np.flatnonzero(Y["time"] > 8), np.flatnonzero(Y["time"] <= 8)), (np.arange(5), np.arange(5, 40))]
    loss = ll.losses.brier_survival(TIMES)
    given = ll.losses.brier_survival(TIMES, censoring=Y)
    found = ll.feature_importance_cv(MODEL, X, Y, loss=loss, cv=folds, features=["x0"])
    alone = [ll.feature_importance(MODEL, X[test], Y[test], loss=given, features=["x0"]) for _, test in folds]
    assert found.importance[0] == pytest.approx(np.mean([one["x0"].pfi for one in alone]), rel=1e-9)


def test_several_losses_have_their_own_grids(found):
    other = ll.losses.brier_survival([5.0, 9.0])
    both = ll.feature_importance(MODEL, X, Y, loss=[ll.losses.brier_survival(TIMES), "score"])
    assert both["brier_survival"]["x0"].pfi == found["x0"].pfi
    assert both["score"]["x2"].pfi == 0
    grids = ll.feature_importance(MODEL, X, Y, loss=[ll.losses.brier_survival(TIMES), other], features=["x0"])
    alone = ll.feature_importance(MODEL, X, Y, loss=other, features=["x0"])
    assert [one["x0"].pfi for one in grids.values()] == [found["x0"].pfi, alone["x0"].pfi]


def test_verbs_that_need_one_prediction_a_row(tmp_path):
    with pytest.raises(
        ValueError, match=r"a report shows one prediction a row, but integrated Brier score.* reads sev"
    ):
        ll.report(MODEL, X, Y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(event=Y["event"], time=Y["time"])
    frame.to_parquet(tmp_path / "rows.parquet")
    for loss in (None, ll.losses.brier_survival(TIMES)):
        with pytest.raises(ValueError, match="for data in files y is one column, but event, time were named"):
            ll.feature_importance(MODEL, tmp_path / "rows.parquet", ["event", "time"], loss=loss)
        with pytest.raises(ValueError, match=r"y is an array of shape \(40,\); a survival loss needs"):
            ll.feature_importance(MODEL, tmp_path / "rows.parquet", "time", loss=loss)


LAST = Y["time"].max()
WRONG = {
    "no curves": (
        {"model": lambda table: table[:, 0]},
        r"one column of predictions for 4 times \(2.0, 3.5, 7.0, 12.0\)",
    ),
    "risks": (
        {"model": lambda table: np.tile(table[:, :1] - 5, 4)},
        r"brier_survival needs every prediction to be a probability of survival, in \[0, 1\], but .*; return S\(t",
    ),
    "a grid that is too long": (
        {"loss": ll.losses.brier_survival([3.0, LAST])},
        f"times goes on to {LAST:g}, but no row of y is observed beyond {LAST:g}.* give a shorter grid",
    ),
    "beyond the censoring": (
        {"loss": ll.losses.brier_survival([3.0, 9.0], censoring=np.array([(1, 8.0)], [("e", bool), ("t", float)]))},
        "times goes on to 9, but no row of censoring is observed beyond 8",
    ),
    "beyond the model": (
        {"model": Weibull([1.0, 0, 0], unique_times=np.array([1.0, 5.0]))},
        "Weibull knows survival up to time 5, .* goes on to 12; give a shorter grid",
    ),
    "weights of other rows": (
        {"loss": ll.losses.brier_survival(TIMES, censoring=np.ones((3, 4)))},
        r"censoring has weights of shape \(3, 4\), but y has 40 rows and there are 4 times",
    ),
    "y of other rows": ({"y": Y[:30]}, "y has 30 values, but X has 40 rows"),
    "no events and times": ({"y": Y["time"]}, r"y is an array of shape \(40,\); a survival loss needs a structured"),
}


@pytest.mark.parametrize(("call", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong(call, words):
    given = {"model": MODEL, "X": X, "y": Y, "loss": ll.losses.brier_survival(TIMES)} | call
    with pytest.raises(ValueError, match=words):
        ll.feature_importance(**given)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        ({"times": [3.0, 2.0]}, ValueError, r"times are finite, from 0 on and increasing; got \[3.0, 2.0\]"),
        ({"times": []}, ValueError, "times are finite, from 0 on and increasing"),
        ({"times": "late"}, TypeError, "times are numbers in the unit of y's times; got 'late'"),
        ({"censoring": np.ones(3)}, ValueError, "censoring is y of other rows, as a structured array or a frame, or"),
        ({"censoring": pd.DataFrame({"event": [0], "time": [1]})}, ValueError, "censoring has no event"),
    ],
)
def test_bad_arguments(call, error, words):
    with pytest.raises(error, match=words):
        ll.losses.brier_survival(**call)


@pytest.mark.filterwarnings("default:X has the target")
def test_a_time_among_the_columns_is_the_answer():
    leaked = np.column_stack([X[:, :2], Y["time"]])
    with pytest.warns(UserWarning, match="its column 'x2' equals 'time' of y in every row"):
        ll.feature_importance(MODEL, leaked, Y, loss=ll.losses.brier_survival(TIMES), features=["x0"])
    with pytest.warns(UserWarning, match="its column 'x2' equals 'time' of y in every row"):
        ll.feature_importance(MODEL, leaked, FORMS["pandas"], features=["x0"], loss=ll.losses.brier_survival(TIMES))


def test_events_and_times_lead_to_survival_losses():
    with pytest.raises(TypeError, match=r"y is a structured array of event and time, .* use loss='brier_survival'"):
        ll.feature_importance(MODEL, X, Y, loss="squared_error")


def test_an_array_is_no_loss():
    with pytest.raises(TypeError, match="a loss is a name or a function"):
        ll.feature_importance(MODEL, X, Y, loss=np.ones(3))


@pytest.mark.parametrize("loss", ["squared_error", "brier_survival"])
def test_y_is_kept_as_the_loss_reads_it(found, loss):
    with pytest.raises(ValueError, match=r"y is kept as integrated Brier score, .* reads it, which no other loss can"):
        found["x0"].with_loss(loss)


def test_a_grid_of_one_time(found, tmp_path):
    """Its importances and curves are those of this time on a longer grid, also from a file."""
    imp = ll.feature_importance(MODEL, X, Y, loss=ll.losses.brier_survival([3.5]))
    imp.save(tmp_path / "one_time.losslens")
    expected = found.outputs[3.5]["x0"]
    for one in (imp, ll.load(tmp_path / "one_time.losslens")):
        assert one["x0"].pfi == one.outputs[3.5]["x0"].pfi == pytest.approx(expected.pfi, rel=1e-12)
        for effect in (one["x0"].effect, one["x0"].effect_of(3.5), one.outputs[3.5]["x0"].effect):
            np.testing.assert_allclose(effect.pd, expected.effect.pd, rtol=1e-12)
            np.testing.assert_allclose(effect.ice, expected.effect.ice, rtol=1e-12)
