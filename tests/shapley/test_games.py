"""Games of a model: the error of every coalition against brute force, in every container, and what it takes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import brute
import coalitions
import losslens as ll
from losslens import losses
from losslens.game_theory import members
from losslens.passes.task import Options, prepare
from losslens.shapley import games, setup
from losslens.shapley.games import MeanGame, PairGame, Remembered
from losslens.shapley.setup import full_gain, set_up

RNG = np.random.default_rng(0)
N = 9
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 3, N), RNG.integers(0, 2, N)])
Y = X[:, 0] * X[:, 1] + X[:, 2] + RNG.normal(size=N)
WEIGHT = RNG.integers(0, 4, N).astype(float)
CLASSIFIER = LogisticRegression().fit(X, np.digitize(Y, [-0.5, 0.7]))
EVERY = members(3, np.arange(8))


def model(X):
    return X[:, 0] * X[:, 1] + np.cos(X[:, 2])


def steep(y, f):
    return np.abs(y - f) ** 3 + (f > y)


def set_up_game(model=model, X=X, y=Y, loss="squared_error", **options):
    loss = losses.resolve(loss)
    options = Options(donors="all", random_state=0, progress=False, **options)
    task = prepare(model, X, y, options, loss=loss, response=loss.reads, exact=False)
    return set_up(task, None, lambda rows: None)


def share(weight):
    return np.full(N, 1 / N) if weight is None else np.asarray(weight) / np.sum(weight)


CASES = {
    "squared": (model, Y, "squared_error", model, brute.LOSSES["squared_error"]),
    "absolute": (model, Y, "absolute_error", model, brute.LOSSES["absolute_error"]),
    "tied targets": (model, np.round(Y), "absolute_error", model, brute.LOSSES["absolute_error"]),
    "a loss of one's own": (model, Y, losses.pointwise(steep, reads="values"), model, steep),
    "log loss": (
        CLASSIFIER,
        np.digitize(Y, [-0.5, 0.7]),
        "log_loss",
        CLASSIFIER.predict_proba,
        brute.LOSSES["log_loss"],
    ),
}


# The gain of all players together.


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("case", CASES)
def test_gains_are_means_over_all_pairs(case, weight):
    fitted, y, loss, predict, judge = CASES[case]
    found = full_gain(set_up_game(fitted, y=y, loss=loss, sample_weight=weight))
    expected = coalitions.shares(predict, X, y, judge, weight=weight)
    np.testing.assert_allclose(found.by_row, expected.gains, rtol=1e-9, atol=1e-9)
    losses_of_pairs = np.stack([judge(y, np.repeat(predict(X)[k : k + 1], N, 0)) for k in range(N)], axis=1)
    gain = losses_of_pairs - judge(y, predict(X))[:, None]
    np.testing.assert_allclose(found.by_donor, share(weight) @ gain, rtol=1e-9, atol=1e-9)
    assert found.total(share(weight)) == pytest.approx(expected.error_none - expected.error_all, abs=1e-12)


def test_gains_of_a_squared_loss_keep_their_digits_far_from_zero():
    near, far = (full_gain(set_up_game(lambda X, a=a: model(X) + a, y=Y + a)) for a in (0.0, 1e8))
    np.testing.assert_allclose(far.by_row, near.by_row, atol=1e-6)
    np.testing.assert_allclose(far.by_donor, near.by_donor, atol=1e-6)


def test_gains_in_parts_are_the_same(monkeypatch):
    whole = full_gain(set_up_game(loss="absolute_error"))
    monkeypatch.setattr(setup, "LOSSES_AT_ONCE", 2 * N)
    parts = full_gain(set_up_game(loss="absolute_error"))
    np.testing.assert_allclose(parts.by_row, whole.by_row, rtol=1e-12)
    np.testing.assert_allclose(parts.by_donor, whole.by_donor, rtol=1e-12)


def test_gains_are_unknown_where_a_column_is_kept():
    assert full_gain(set_up_game(features=["x0", "x1"])) is None


def test_gains_that_take_too_many_losses_are_left_out():
    assert full_gain(set_up_game(loss="absolute_error"), N * N - 1) is None
    assert full_gain(set_up_game(), N * N - 1) is not None  # squares need no pairs


# All pairs, all coalitions.


def compare(found, losses_of_pairs, weight=None):
    weight = share(weight)
    for value, expected in zip(found, losses_of_pairs, strict=True):
        np.testing.assert_allclose(value.pairs, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(value.by_row, expected @ weight, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(value.by_donor, weight @ expected, rtol=1e-9, atol=1e-12)
        assert value.total == pytest.approx(weight @ expected @ weight)


@pytest.mark.parametrize("together", [4, 1 << 17], ids=["row by row", "at once"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("case", CASES)
def test_errors_of_all_coalitions(case, weight, together, monkeypatch):
    monkeypatch.setattr(games, "PAIRS_AT_ONCE", together)
    fitted, y, loss, predict, judge = CASES[case]
    found = PairGame(set_up_game(fitted, y=y, loss=loss, sample_weight=weight), None, keeps_pairs=True).values(EVERY)
    compare(found, coalitions.pair_losses(predict, X, y, judge, [[0], [1], [2]]), weight)


@pytest.mark.parametrize("players", [{"a": [0, 2], "b": [1]}, {"b": [1], "c": [2]}], ids=["groups", "some"])
def test_players_of_several_columns_and_columns_that_nobody_plays(players):
    found = PairGame(set_up_game(features=players), None, keeps_pairs=True).values(members(2, np.arange(4)))
    squared = brute.LOSSES["squared_error"]
    compare(found, coalitions.pair_losses(model, X, Y, squared, list(players.values())))


WORDS = np.array(["a", "b", "c"])[RNG.integers(0, 3, N)]
FRAME = pd.DataFrame(
    {
        "x": np.where(RNG.random(N) < 0.3, np.nan, X[:, 0]),
        "count": X[:, 1].astype(np.int32),
        "word": pd.Categorical(WORDS, categories=["c", "a", "b", "d"], ordered=True),
        "flag": X[:, 2].astype(bool),
        "day": np.datetime64("2020-01-01") + RNG.integers(0, 3, N).astype("timedelta64[D]"),
    }
)
FRAME.loc[3, "word"] = np.nan
FRAMES = {
    "pandas": FRAME,
    "another index": FRAME.set_index(pd.Index(list("abcdefghi"))),
    "nullable": FRAME.convert_dtypes(),
    "polars": pl.from_pandas(FRAME),
}


def reads_everything(table):
    """Numbers, words, flags and days, missing ones too, from either container."""
    plain = {name: table[name].to_list() for name in table.columns}
    x = [0.5 if v is None or v != v else v for v in plain["x"]]
    words = [{"a": 1.0, "b": -2.0, "c": 0.5}.get(v, 3.0) for v in plain["word"]]
    days = [v.day for v in plain["day"]]
    columns = np.array([x, plain["count"], words, plain["flag"], days], float)
    return columns[0] * columns[2] + columns[1] * (1 + columns[3]) + np.sin(columns[4]) * columns[0]


@pytest.mark.parametrize("name", FRAMES)
def test_columns_of_every_kind(name):
    table = FRAMES[name]
    found = list(
        PairGame(set_up_game(reads_everything, table), None, keeps_pairs=True).values(members(5, np.arange(32)))
    )
    squared = brute.LOSSES["squared_error"]
    compare(found, coalitions.pair_losses(reads_everything, table, Y, squared, [[j] for j in range(5)]))


def test_missing_numbers_are_values_like_others():
    gaps = np.where(RNG.random(X.shape) < 0.3, np.nan, X)

    def fills(X):
        return model(np.nan_to_num(X, nan=0.7))

    found = PairGame(set_up_game(fills, gaps), None, keeps_pairs=True).values(EVERY)
    compare(found, coalitions.pair_losses(fills, gaps, Y, brute.LOSSES["squared_error"], [[0], [1], [2]]))


def test_drawn_donors_have_their_own_means():
    """Each row's mean over its donors, each donor's mean over its rows; the total is the mean over the rows."""
    donors = RNG.integers(0, N, size=(N, 4))
    on = set_up_game(sample_weight=WEIGHT + 1)
    expected = coalitions.pair_losses(model, X, Y, brute.LOSSES["squared_error"], [[0], [1], [2]])
    met = np.zeros((N, N))
    np.add.at(met, (np.arange(N)[:, None], donors), 1)
    mass = met * np.outer(WEIGHT + 1, WEIGHT + 1)
    for value, cells in zip(PairGame(on, donors, keeps_pairs=True).values(EVERY), expected, strict=True):
        np.testing.assert_allclose(value.pairs, np.take_along_axis(cells, donors, axis=1), rtol=1e-9)
        np.testing.assert_allclose(value.by_row, (mass * cells).sum(axis=1) / mass.sum(axis=1))
        lent = mass.sum(axis=0) > 0
        np.testing.assert_allclose(value.by_donor[lent], ((mass * cells).sum(axis=0)[lent] / mass.sum(axis=0)[lent]))
        assert np.isnan(value.by_donor[~lent]).all()
        assert value.total == pytest.approx((WEIGHT + 1) @ value.by_row / (WEIGHT + 1).sum())


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("case", ["squared", "log loss"])
def test_mean_games_average_predictions_first(case, weight):
    fitted, y, loss, predict, judge = CASES[case]
    found = MeanGame(PairGame(set_up_game(fitted, y=y, loss=loss, sample_weight=weight), None)).values(EVERY)
    expected = coalitions.mean_shares(predict, X, y, judge, weight=weight).table
    np.testing.assert_allclose([value.total for value in found], expected, rtol=1e-9)


# What it takes.


class Recorder:
    """A model that counts what it is asked for."""

    def __init__(self):
        self.rows = self.calls = 0

    def __call__(self, X):
        self.rows += len(X)
        self.calls += 1
        return model(X)


def test_values_that_a_row_meets_twice_are_asked_for_once():
    """Two values of x2, three of x1: with both replaced a row meets as many pairs of values as there are."""
    recorder = Recorder()
    on = set_up_game(recorder)
    game, asked = PairGame(on, None), recorder.rows
    for S in EVERY:
        list(game.values(S[None]))
        replaced = np.unique(X[:, ~S], axis=0)
        known = S.all() or not S.any()
        assert recorder.rows - asked == (0 if known else N * len(replaced))
        asked = recorder.rows
    assert on.counter.rows == recorder.rows


@pytest.mark.parametrize("together", [4, 100, 1 << 17], ids=["row by row", "some", "at once"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("case", CASES)
def test_complements_share_their_predictions(case, weight, together, monkeypatch):
    """x_S of i with x_R of k is x_R of k with x_S of i: every number is the same to the last bit, for every loss.

    Asked for one after the other, the one with fewer values to replace is predicted; asked for alone, either is.
    """
    monkeypatch.setattr(games, "PAIRS_AT_ONCE", together)
    fitted, y, loss, *_ = CASES[case]
    on = set_up_game(fitted, y=y, loss=loss, sample_weight=weight)
    order = [0, 7, 1, 6, 2, 5, 4, 3]
    expected = [next(iter(PairGame(on, None, keeps_pairs=True).values(S[None]))) for S in EVERY[order]]
    before = on.counter.rows
    found = list(PairGame(on, None, keeps_pairs=True, mirrors=True).values(EVERY[order]))
    replaced = [len(np.unique(X[:, ~S], axis=0)) for S in EVERY]
    assert on.counter.rows - before == N * sum(min(replaced[a], replaced[7 - a]) for a in (1, 2, 4))
    alone = [next(iter(PairGame(on, None, keeps_pairs=True, mirrors=True).values(S[None]))) for S in EVERY[order]]
    for values in (found, alone):
        for one, other in zip(values, expected, strict=True):
            assert one.total == other.total
            for name in ("by_row", "by_donor", "pairs"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    means = [MeanGame(PairGame(on, None, mirrors=m)).values(EVERY[order]) for m in (False, True)]
    for one, other in zip(*means, strict=True):
        np.testing.assert_array_equal(one.by_row, other.by_row)


@pytest.mark.parametrize("method", ["exact", ll.Sage("exact")], ids=str)
def test_all_coalitions_take_half_of_the_predictions(method):
    """Distinct values in every column; columns that nobody plays stay the row's, so that nothing can be swapped."""
    n, asked = 90, {"loss": "absolute_error", "method": method}
    Z = np.random.default_rng(1).normal(size=(n, 4))

    def shares(**options):
        return ll.shapley_importance(lambda Z: Z[:, 0] * Z[:, 1] + Z[:, 2], Z, Z[:, 0], **asked, **options)

    found, tight = shares(), shares(memory=4 * 8 * n * n - 1)
    assert found.n_predictions == n + n * n * 14 // 2
    assert tight.n_predictions == n + n * n * 14  # a fourth of the memory doesn't hold the predictions of all pairs
    np.testing.assert_array_equal(tight.sfimp, found.sfimp)
    np.testing.assert_array_equal(tight.local, found.local)
    assert found.sfimp[3] == 0.0
    assert shares(features=["x0", "x1"]).n_predictions == n + n * n * 3


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features": ["x0", "x2"]},
        {"donors": ll.Latin(4)},
        {"donors": ll.Derangements()},
        {"method": "walk"},
        {"method": "walk", "features": ["x0", "x2"]},
        {"method": "walk", "budget": 300},
        {"method": ll.Paper(3, 2)},
        {"method": ll.Sage()},
        {"method": ll.Sage("walk")},
    ],
    ids=str,
)
def test_a_result_says_how_many_rows_the_model_saw(options):
    recorder = Recorder()
    found = ll.shapley_importance(recorder, X, Y, loss="squared_error", random_state=0, **options)
    assert found.n_predictions == recorder.rows


# Games that remember.


def test_small_coalitions_are_asked_for_together():
    """A model is called a few times, not once for each of 2^p coalitions; the answers are the same."""
    recorder = Recorder()
    on = set_up_game(recorder)
    together = [value.total for value in PairGame(on, None).values(EVERY)]
    calls = recorder.calls
    apart = [value.total for S in EVERY for value in PairGame(on, None).values(S[None])]
    assert calls <= 3
    assert together == apart


def test_a_coalition_is_asked_for_once():
    on = set_up_game()
    game = Remembered(PairGame(on, None))
    first = [value.total for value in game.values(EVERY)]
    asked = on.counter.rows
    assert [value.total for value in game.values(EVERY[::-1])] == first[::-1]
    assert on.counter.rows == asked
