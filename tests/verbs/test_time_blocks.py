"""Blocks of time as groups: donors from other blocks, standard errors that leave out blocks."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeRegressor

import losslens as ll

RNG = np.random.default_rng(0)
N = 36
HOURS = np.datetime64("2024-03-01T00", "s") + np.arange(N) * np.timedelta64(1, "h")
X = RNG.normal(size=(N, 2))
Y = X[:, 0] + RNG.normal(size=N)
CLASS = (Y > 0).astype(int)


def slow(n, seed=0):
    """Two features and a target that change slowly: X, y and an importance of each row by itself."""
    steps = np.random.default_rng(seed).normal(size=(n, 3))
    for k in range(1, n):
        steps[k] += 0.8 * steps[k - 1]
    X, y = steps[:, :2], steps[:, 0] + steps[:, 2]
    return X, y, ll.feature_importance(lambda X: X[:, 0], X, y, loss="squared_error")


# -- the blocks ------------------------------------------------------------------------------------------------------


def test_rows_in_any_order_have_the_block_of_their_time():
    order = RNG.permutation(N)
    blocks, mixed = ll.time_blocks(HOURS, "6h"), ll.time_blocks(HOURS[order], "6h")
    assert blocks.labels.tolist() == np.repeat(np.arange(6), 6).tolist()
    np.testing.assert_array_equal(mixed.labels, blocks.labels[order])
    np.testing.assert_array_equal(mixed.start, HOURS[::6])
    np.testing.assert_array_equal(mixed.end, HOURS[5::6])


def test_rows_with_the_same_time_are_in_one_block_and_gaps_make_none():
    blocks = ll.time_blocks([5, 5, 5, 0, 100, 100.5, 40], 10)
    assert blocks.labels.tolist() == [0, 0, 0, 0, 2, 2, 1]
    assert blocks.sizes.tolist() == [4, 1, 2]
    assert (len(blocks), blocks.length, blocks.chosen) == (7, 10.0, "")
    assert blocks.to_frame().to_dict("list") == {
        "block": [0, 1, 2], "start": [0, 40, 100], "end": [5, 40, 100.5], "rows": [4, 1, 2],
    }  # fmt: skip


def test_the_text_says_how_many_how_long_and_whether_they_are_enough():
    shown = repr(ll.time_blocks(HOURS, "6h"))
    assert shown == (
        "TimeBlocks: 36 rows in 6 blocks of 6 hours, 6 rows each\n  from 2024-03-01 to 2024-03-02 11:00\n"
        "  The effective number of groups is 6: with fewer than 30, intervals may be too narrow"
    )
    assert ll.time_blocks(np.arange(60), 2).caution == ""


def test_without_a_length_neighbours_are_taken_to_correlate():
    """The rule of `like=` for R(k) = 2^-k: g = 1 + 2 sum of R(k) = 3, G = 2 sum of k R(k) = 4, summed to rounding."""
    R = 0.5 ** np.arange(1, 200)
    g, G = 1 + 2 * R.sum(), 2 * np.arange(1, 200) @ R
    rule = 1.5 * (1.5 * (G / g) ** 2 * 2400) ** (1 / 3)
    blocks = ll.time_blocks(np.datetime64("2024-03-01T00") + np.arange(2400))
    steps = int(np.ceil(rule))
    assert steps == 28
    assert blocks.length == np.timedelta64(28, "h")
    assert blocks.chosen.startswith("chosen: 28 times in a row, assuming a correlation of 0.5")
    assert len(ll.time_blocks(np.arange(12.0)).sizes) == 6  # at most a sixth of the times


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ll.time_blocks(HOURS, "6h", slow(N)[2]), ValueError, "pass either length or like=, .*, not both"),
        (lambda: ll.time_blocks([3.0, 3.0]), ValueError, "all times are the same"),
        (lambda: ll.time_blocks(HOURS, 6), ValueError, "length is a duration above 0"),
        (
            lambda: ll.time_blocks(HOURS, "18h"),
            ValueError,
            "a length of 18 hours divides these times into 2 blocks;.*shorter",
        ),
        (
            lambda: ll.time_blocks(np.arange(N) // 6, like=slow(N)[2]),
            ValueError,
            "6 distinct times, too few to estimate the auto",
        ),
        (lambda: ll.time_blocks(HOURS, like=Y), TypeError, r"like is an importance of these rows: .*; got ndarray"),
        (lambda: ll.time_blocks(HOURS[1:], like=slow(N)[2]), ValueError, "local values of 36 rows, but times has 35"),
        (
            lambda: ll.time_blocks(HOURS, like=scored(None, "f1")),
            ValueError,
            "a local importance doesn't exist for the scorer",
        ),
        (lambda: ll.time_blocks(HOURS, like=scored(None, "f1")["x0"]), ValueError, "a local importance doesn't exist"),
        (lambda: ll.time_blocks(HOURS.astype(str), "6h"), TypeError, "times are numbers or dates"),
    ],
)
def test_mistakes_are_told(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_row_labels_in_another_order_are_refused():
    """Blocks know the labels of their times, and times are compared with an importance of labelled rows."""
    labels = list("abcdefghijklmnopqrstuvwxyz0123456789")
    frame, times = pd.DataFrame(X, labels, columns=["a", "b"]), pd.Series(HOURS, labels)
    asked = {"loss": "squared_error", "progress": False}
    imp = ll.feature_importance(lambda X: X["a"], frame, Y, **asked)
    turned = times[::-1]
    with pytest.raises(ValueError, match=r"groups was made of times with the row labels of X in another order"):
        ll.feature_importance(lambda X: X["a"], frame, Y, groups=ll.time_blocks(turned, "6h"), **asked)
    with pytest.raises(ValueError, match="times has the row labels of X in another order"):
        ll.time_blocks(turned, like=imp)
    ll.feature_importance(lambda X: X["a"], frame, Y, groups=ll.time_blocks(times, "6h"), **asked)


# -- a length that is chosen ------------------------------------------------------------------------------------------


def test_the_chosen_length_is_the_longest_over_the_features_and_is_said():
    _, _, imp = slow(300)
    assert "stay correlated" not in ll.time_blocks(np.arange(300), like=imp).chosen
    single = [ll.time_blocks(np.arange(300), like=one).length for one in imp.values()]
    blocks = ll.time_blocks(np.arange(300), like=imp)
    assert blocks.length == max(single)
    assert 8 < blocks.length < 50
    assert f"chosen: {blocks.length:.0f} times in a row, from the autocorrelation of the local importances of" in repr(
        blocks
    )
    assert "the longest of 2 features" in blocks.chosen
    np.testing.assert_array_equal(ll.time_blocks(np.arange(300), blocks.length).labels, blocks.labels)


def test_the_order_of_rows_ties_and_outages_change_no_chosen_length():
    X, y, imp = slow(300)
    order, hours = np.random.default_rng(1).permutation(300), np.arange(300) * np.timedelta64(3600, "s")
    length = ll.time_blocks(hours, like=imp).length
    mixed = ll.feature_importance(lambda X: X[:, 0], X[order], y[order], loss="squared_error")
    assert ll.time_blocks(hours[order], like=mixed).length == length
    late = hours + np.where(np.arange(300) < 150, 0, 10**6) * np.timedelta64(1, "s")
    assert ll.time_blocks(late, like=imp).length == length
    twice = ll.feature_importance(lambda X: X[:, 0], np.repeat(X, 2, 0), np.repeat(y, 2), loss="squared_error")
    assert ll.time_blocks(np.repeat(hours, 2), like=twice).length == length


def test_of_a_season_it_is_said_that_no_block_is_long_enough():
    season = np.sin(2 * np.pi * np.arange(200) / 24)[:, None]
    imp = ll.feature_importance(lambda X: X[:, 0], season, 2 * season[:, 0], loss="squared_error")
    assert "some stay correlated for longer" in ll.time_blocks(np.arange(200), like=imp).chosen


def test_shapley_importances_have_local_values_too():
    X, y, _ = slow(100)
    shares = ll.shapley_importance(LinearRegression().fit(X, y), X, y)
    assert ll.time_blocks(np.arange(100), like=shares).length >= 1


# -- as groups --------------------------------------------------------------------------------------------------------


def scored(groups, scorer="roc_auc"):
    model = LogisticRegression().fit(X, CLASS)
    return ll.feature_importance(model, X, CLASS, loss=scorer, donors="all", groups=groups, progress=False)


def log_loss(y, p):
    return -np.log(np.where(y == 1, p[:, 1], p[:, 0]))


@pytest.mark.parametrize(
    ("model", "y", "predict", "loss"),
    [
        (LinearRegression(), Y, "predict", lambda y, f: (y - f) ** 2),
        (DecisionTreeRegressor(max_depth=4, random_state=0), Y, "predict", lambda y, f: (y - f) ** 2),
        (LogisticRegression(), CLASS, "predict_proba", log_loss),
    ],
    ids=["linear", "trees", "link"],
)
def test_exact_engines_leave_out_blocks_exactly(model, y, predict, loss):
    """Pairs inside a block don't count, and theta_(-g) = (T - R_g - C_g)/(Z - 2 W_g (W - W_g)), by brute force."""
    model.fit(X, y)
    blocks, respond = ll.time_blocks(HOURS, "6h"), getattr(model, predict)
    imp = ll.feature_importance(model, X, y, groups=blocks, progress=False)
    assert imp.exact
    assert "blackbox" not in imp.engine
    for j, one in enumerate(imp.values()):
        D = np.zeros((N, N))
        for k in range(N):
            replaced = X.copy()
            replaced[:, j] = X[k, j]
            D[:, k] = loss(y, respond(replaced)) - loss(y, respond(X))
        D *= blocks.labels[:, None] != blocks.labels
        W, G = blocks.sizes, len(blocks.sizes)
        Z = N**2 - np.sum(W**2)
        gone = [D[blocks.labels == g].sum() + D[:, blocks.labels == g].sum() for g in range(G)]
        without = (D.sum() - np.array(gone)) / (Z - 2 * W * (N - W))
        assert one.pfi == pytest.approx(D.sum() / Z, rel=1e-9)
        assert one.std_error == pytest.approx(np.sqrt((G - 1) / G * np.sum((without - without.mean()) ** 2)), rel=1e-9)


def test_scores_leave_out_blocks_too():
    """Without each block in turn; donors of a column score the rows of other blocks."""
    blocks = ll.time_blocks(HOURS, "6h")
    one, same = scored(blocks)["x0"], scored(np.asarray(blocks))["x0"]
    assert (one.units, len(one.influence.moved)) == ("groups", 6)
    assert (one.pfi, one.std_error) == (same.pfi, same.std_error)
    assert one.score == pytest.approx(roc_auc_score(CLASS, LogisticRegression().fit(X, CLASS).decision_function(X)))


def test_donors_of_the_same_hour_come_from_other_blocks():
    """`Within` a calendar column and blocks of two days: the same hour of other days."""
    n = 240
    rng = np.random.default_rng(2)
    hour = np.arange(n) % 24
    frame = pd.DataFrame({"hour": hour, "load": np.sin(hour / 4) + rng.normal(size=n), "c": 1.0})
    blocks = ll.time_blocks(np.datetime64("2024-03-01T00") + np.arange(n), "2D")
    imp = ll.feature_importance(
        lambda X: X["load"], frame, frame["load"], loss="squared_error", features=["load"], donors=ll.Within("hour"),
        groups=blocks, random_state=0, progress=False,
    )  # fmt: skip
    one = imp["load"]
    donors = one.layout.donors
    counted = one.layout.weights(one.sample, one.at) > 0
    assert counted.any(axis=1).all()
    assert (hour[donors] == hour[:, None])[counted].all()
    assert (blocks.labels[donors] != blocks.labels[:, None])[counted].all()
    # Of every hour eight donors are left to a row, and all of them are taken: nothing is drawn.
    value = frame["load"].to_numpy()
    apart = (hour == hour[:, None]) & (blocks.labels != blocks.labels[:, None])
    expected = np.mean([np.mean((value[i] - value[apart[i]]) ** 2) for i in range(n)])
    assert one.pfi == pytest.approx(expected)
    assert one.std_error > 0
    assert re.match(r"load drawn given hour, which explain \d+% of it", one.conditioning.headline)


@pytest.mark.parametrize(
    "asked",
    [
        lambda groups: ll.shapley_importance(LinearRegression().fit(X, Y), X, Y, groups=groups).std_error,
        lambda groups: (
            ll.feature_importance_cv(LinearRegression(), X, Y, groups=groups, cv=3, random_state=0).std_error
        ),
        lambda groups: [one.pfi for one in slow(N)[2]["x0"].by(groups).values()],
        lambda groups: ll.plan(ll.feature_importance, LinearRegression().fit(X, Y), X, Y, groups=groups).n_predictions,
    ],
    ids=["shapley", "refits", "by", "plan"],
)
def test_every_verb_reads_blocks_as_it_reads_labels(asked):
    blocks = ll.time_blocks(HOURS, "6h")
    np.testing.assert_array_equal(asked(blocks), asked(np.asarray(blocks)))


def test_files_that_are_read_in_parts_take_no_blocks_and_choose_none(tmp_path):
    frame = pd.DataFrame(np.tile(X, (300, 1)), columns=["a", "b"]).assign(y=np.tile(Y, 300))
    frame.to_parquet(tmp_path / "rows.parquet")
    asked = {"loss": "squared_error", "memory": "1 MB", "progress": False}
    model = LinearRegression().fit(frame[["a", "b"]], frame["y"])
    imp = ll.feature_importance(model, tmp_path / "rows.parquet", "y", **asked)
    times = np.arange(len(frame))
    assert imp["a"].totals is not None
    with pytest.raises(ValueError, match="groups"):
        ll.feature_importance(model, tmp_path / "rows.parquet", "y", groups=ll.time_blocks(times, 99), **asked)
    with pytest.raises(ValueError, match="time_blocks needs the values of every row, but this result comes from files"):
        ll.time_blocks(times, like=imp)
    with pytest.raises(ValueError, match="over needs the values of every row, but this result comes from files"):
        imp.over(times)
