"""Shapley values of what trees predict: what the model itself says of all coalitions, row by row and donor by donor."""

import threading
from itertools import combinations
from math import comb, fsum

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor

from losslens.engines.choice import read_trees
from losslens.engines.readers.ensemble import Ensemble
from losslens.engines.trees import effects
from losslens.engines.trees.bound import bind
from losslens.engines.trees.effects import count_bytes, count_patterns, effects_of, shapley_effects
from losslens.engines.trees.player_games import linear_response
from losslens.models import as_model
from losslens.tables.frames import as_table

RNG = np.random.default_rng(0)
P = 5
ROWS, DONORS = np.arange(20), np.arange(12, 40)  # some are both
EQUAL = np.ones(len(DONORS))
UNEQUAL = RNG.exponential(size=len(DONORS)) * (RNG.random(len(DONORS)) < 0.7)
SINGLES = [[j] for j in range(P)]
PLAYERS = {"columns": SINGLES, "groups": [[3, 0], [1], [2, 4]], "some": [[4], [0, 2]], "one": [[1]], "none": []}


def table(n, missing=0.0):
    """Columns without ties and columns with few values."""
    X = np.column_stack([RNG.normal(size=(n, 2)), RNG.integers(0, 5, n), RNG.integers(0, 2, n), RNG.normal(size=n)])
    y = X[:, 0] * X[:, 2] + np.sin(3 * X[:, 1]) * (1 + X[:, 3]) + 0.5 * X[:, 4] + 0.1 * RNG.normal(size=n)
    X[RNG.random(X.shape) < missing] = np.nan
    return X, y


def frame(n):
    """Categories and missing values."""
    X, y = table(n, 0.1)
    words = pd.Categorical(RNG.choice(list("abcde"), n), categories=list("abcdef"))
    return pd.DataFrame(X, columns=list("vwxyz")).assign(x=words), y + 2.0 * (words.codes % 2)


(TRAIN, TARGET), (GAPS, GAPS_TARGET), (FRAME, FRAME_TARGET) = table(300), table(300, 0.1), frame(300)
CLASSES = np.digitize(TARGET, [-0.5, 1])


def bound_of(model, X, response="values"):
    ensemble, columns = read_trees(as_model(model), response), as_table(X)
    distinct = [columns.column(j).distinct for j in range(X.shape[1])]
    images = {j: (np.array([j]), ensemble.numbers(j, values.values)[:, None]) for j, values in enumerate(distinct)}
    return bind(ensemble, len(distinct[0].codes), distinct, images.get)


def found(bound, players, rows=ROWS, donors=DONORS, weight=EQUAL, n_jobs=1, tick=lambda rows: None):
    raw = shapley_effects(bound, players, rows, donors, weight[None], n_jobs=n_jobs, tick=tick)
    return raw[0] / fsum(weight)


def mixed(X, lent, rows, donors):
    """Each row with the columns `lent` of each donor."""
    i, k = np.repeat(rows, len(donors)), np.tile(donors, len(rows))
    if isinstance(X, pd.DataFrame):
        return pd.concat([X.iloc[k if j in lent else i, [j]].reset_index(drop=True) for j in range(X.shape[1])], axis=1)
    return np.column_stack([X[k if j in lent else i, j] for j in range(X.shape[1])])


def brute(predict, X, players, rows=ROWS, donors=DONORS, weight=EQUAL):
    """Shapley values from all coalitions, (rows, players, outputs)."""
    p = len(players)

    def worth(coalition):
        lent = {j for number, columns in enumerate(players) if number not in coalition for j in columns}
        said = np.asarray(predict(mixed(X, lent, rows, donors)), float).reshape(len(rows), len(donors), -1)
        return np.einsum("ikw,k->iw", said, weight / weight.sum())

    worths = {s: worth(s) for size in range(p + 1) for s in combinations(range(p), size)}
    values = np.zeros((len(rows), p, worths[()].shape[1]))
    for s, value in worths.items():
        for j in set(range(p)) - set(s):
            values[:, j] += (worths[tuple(sorted((*s, j)))] - value) / (p * comb(p - 1, len(s)))
    return values


def close(got, wanted, tolerance=1e-9):
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance * max(1, np.abs(wanted).max(initial=0)))


CASES = {
    "histogram": lambda: (HistGradientBoostingRegressor(max_iter=15, min_samples_leaf=5).fit(TRAIN, TARGET), TRAIN),
    "missing": lambda: (
        HistGradientBoostingRegressor(max_iter=15, min_samples_leaf=5).fit(GAPS, GAPS_TARGET),
        GAPS,
    ),
    "categories": lambda: (
        HistGradientBoostingRegressor(max_iter=15, min_samples_leaf=5).fit(FRAME, FRAME_TARGET),
        FRAME,
    ),
    "forest": lambda: (RandomForestRegressor(5, random_state=0).fit(TRAIN, TARGET), TRAIN),
    "tree": lambda: (DecisionTreeRegressor(random_state=0).fit(TRAIN, TARGET), TRAIN),
    "stump": lambda: (DecisionTreeRegressor(max_depth=1).fit(TRAIN, TARGET), TRAIN),
    "leaf": lambda: (DecisionTreeRegressor(min_samples_leaf=200).fit(TRAIN, TARGET), TRAIN),
    "LightGBM": lambda: (
        lgb.LGBMRegressor(n_estimators=15, min_child_samples=5, n_jobs=1, verbose=-1).fit(FRAME, FRAME_TARGET),
        FRAME,
    ),
    "XGBoost": lambda: (xgb.XGBRegressor(n_estimators=15, n_jobs=1).fit(GAPS, GAPS_TARGET), GAPS),
}


@pytest.fixture(scope="module", params=CASES)
def fitted(request):
    model, X = CASES[request.param]()
    return model, X, bound_of(model, X), 1e-5 if request.param == "XGBoost" else 1e-9


# What the model says.


@pytest.mark.parametrize("players", PLAYERS.values(), ids=PLAYERS)
def test_effects_are_those_of_all_coalitions(fitted, players):
    model, X, bound, tolerance = fitted
    close(found(bound, players), brute(model.predict, X, players), tolerance)


def test_donors_count_by_their_weights(fitted):
    model, X, bound, tolerance = fitted
    got = found(bound, SINGLES, weight=UNEQUAL)
    close(got, brute(model.predict, X, SINGLES, weight=UNEQUAL), tolerance)
    counted = UNEQUAL > 0
    assert np.array_equal(got, found(bound, SINGLES, donors=DONORS[counted], weight=UNEQUAL[counted]))


def test_effects_sum_to_the_difference_from_the_donors(fitted):
    model, X, bound, tolerance = fitted
    every, said = np.arange(300), np.asarray(model.predict(X), float)
    got = found(bound, SINGLES, every, every, np.ones(300)).sum(axis=1)[:, 0]
    close(got, said - said.mean(), 1e-12 if tolerance < 1e-5 else tolerance)


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_of_forests(classes):
    model = RandomForestClassifier(6, random_state=0).fit(TRAIN, np.minimum(CLASSES, classes - 1))
    bound = bound_of(model, TRAIN, "probabilities")
    respond = linear_response(bound)
    for players in PLAYERS.values():
        got = respond(found(bound, players, weight=UNEQUAL))
        close(got, brute(model.predict_proba, TRAIN, players, weight=UNEQUAL))


def test_scores_of_boosted_classifiers():
    for model in (HistGradientBoostingClassifier(max_iter=4), GradientBoostingClassifier(n_estimators=4)):
        model.fit(TRAIN, CLASSES)
        bound = bound_of(model, TRAIN, "scores")
        respond = linear_response(bound)
        close(respond(found(bound, SINGLES)), brute(model.decision_function, TRAIN, SINGLES))


def test_trees_of_equal_players_share_equally():
    """A leaf that needs three columns of the row is worth a third to each."""
    X = np.array([[1.0, 1, 1], [0, 0, 0]])
    model = DecisionTreeRegressor(random_state=0).fit(
        np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T, [0] * 7 + [6.0]
    )
    got = found(bound_of(model, X), [[0], [1], [2]], np.array([0]), np.array([1]), np.ones(1))
    close(got, np.full((1, 3, 1), 2.0), 1e-12)


# Several weightings, and parts of the donors.

SIGNED = np.stack([UNEQUAL, RNG.normal(size=len(DONORS)), np.zeros(len(DONORS))])


@pytest.mark.parametrize("players", [SINGLES, PLAYERS["some"]], ids=["columns", "some"])
def test_weightings_of_any_sign(fitted, players):
    """Effects are linear in the weights: each weighting is a sum of positive ones, and nobody's weight is nothing."""
    model, X, bound, tolerance = fitted
    got = shapley_effects(bound, players, ROWS, DONORS, SIGNED, n_jobs=1, tick=lambda rows: None)
    for one, weight in zip(got, SIGNED, strict=True):
        parts = [sign * max(fsum(part), 0) * brute(model.predict, X, players, weight=part)
                 for sign in (1, -1) if (part := np.maximum(sign * weight, 0)).any()]  # fmt: skip
        close(one, sum(parts, np.zeros(one.shape)), 10 * tolerance)


@pytest.mark.parametrize("most", [14, 3])
def test_counts_of_parts_add_up(fitted, most, monkeypatch):
    """Also if the parts are bound to tables of their own."""
    model, X, bound, _ = fitted
    monkeypatch.setattr(effects, "MOST_IN_TABLE", most)  # leaves with and without tables
    for players in (SINGLES, PLAYERS["some"]):
        wanted = shapley_effects(bound, players, ROWS, DONORS, SIGNED, n_jobs=1, tick=lambda rows: None)
        counts = None
        for some in (slice(0, 11), slice(11, 13), slice(13, None)):
            part = X.iloc[DONORS[some]] if isinstance(X, pd.DataFrame) else X[DONORS[some]]
            new = count_patterns(bound_of(model, part), players, np.arange(len(part)), SIGNED[:, some])
            counts = new if counts is None else counts + new
        close(effects_of(counts, bound, players, ROWS), wanted, 1e-12)
        most_bytes, others = count_bytes(bound, players, 3, len(DONORS)), counts.others.values()
        tables = sum(table.nbytes for table in counts.tables)
        assert most_bytes.shape == bound.roots.shape
        assert most_bytes.sum() >= tables + sum(some.nbytes for pair in others for some in pair)
        assert others or most_bytes.sum() == tables


def test_counts_of_other_trees_do_not_add_up(fitted):
    bound = fitted[2]
    one, other = (count_patterns(bound, players, DONORS, SIGNED) for players in (SINGLES, PLAYERS["one"]))
    if one.chunks != other.chunks:
        with pytest.raises(ValueError, match="don't add up"):
            one + other


# What has no say.


def test_an_unused_column_has_no_effect_at_all():
    model = RandomForestRegressor(5, random_state=0).fit(TRAIN * [1, 1, 1, 0, 1], TARGET)
    got = found(bound_of(model, TRAIN), SINGLES)
    assert np.all(got[:, 3] == 0)
    assert np.abs(got[:, 0]).max() > 0.1


def test_who_is_its_own_donor_has_no_effects(fitted):
    assert not found(fitted[2], SINGLES, ROWS[:1], ROWS[:1], np.ones(1)).any()


def test_no_digits_are_lost_to_an_offset():
    model = RandomForestRegressor(5, random_state=0).fit(TRAIN, TARGET + 1e9)
    got = found(bound_of(model, TRAIN), SINGLES).sum(axis=1)[:, 0]
    close(got, model.predict(TRAIN[ROWS]) - model.predict(TRAIN[DONORS]).mean(), 1e-6)


# Who does the work.


@pytest.mark.parametrize("small", [False, True])
def test_threads_change_nothing(fitted, small, monkeypatch):
    _, _, bound, _ = fitted
    if small:  # by blocks, some leaves at a time
        for limit in ("CHUNK_BYTES", "TABLE_BYTES"):
            monkeypatch.setattr(effects, limit, 5000)
        for limit in ("LEAST_ROWS", "MOST_ROWS"):
            monkeypatch.setattr(effects, limit, 64)
    every, ticks = np.arange(300), []
    one = found(bound, SINGLES, every, every, np.ones(300), tick=ticks.append)
    assert sum(ticks) == 300
    assert np.array_equal(one, found(bound, SINGLES, every, every, np.ones(300), n_jobs=2))
    close(one[ROWS], found(bound, SINGLES, ROWS, every, np.ones(300)), 1e-12)


@pytest.mark.parametrize("limit", ["CHUNK_BYTES", "TABLE_BYTES"])
def test_memory_changes_nothing(fitted, limit, monkeypatch):
    _, _, bound, _ = fitted
    wanted = found(bound, PLAYERS["some"])
    monkeypatch.setattr(effects, limit, 1)
    close(found(bound, PLAYERS["some"]), wanted, 1e-13)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interruption_stops_the_workers(n_jobs):
    bound = bound_of(RandomForestRegressor(40, random_state=0).fit(TRAIN, TARGET), TRAIN)
    ticks = []

    def interrupt(rows):
        ticks.append(rows)
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        found(bound, SINGLES, n_jobs=n_jobs, tick=interrupt)
    for thread in set(threading.enumerate()) - before:
        thread.join(3)
    assert len(ticks) <= 2 * n_jobs  # 40 trees tick at least once each


def test_a_column_has_one_player():
    bound = bound_of(DecisionTreeRegressor(max_depth=2).fit(TRAIN, TARGET), TRAIN)
    with pytest.raises(ValueError, match="two players"):
        found(bound, [[0, 1], [1]])


# Many players.


def wide():
    X = RNG.normal(size=(300, 100))
    return X, X[:, [2, 70, 71, 99]].sum(axis=1) + 2 * X[:, 70] * X[:, 99]


def test_more_players_than_a_word_has_bits():
    """A boosted model of 100 columns uses six of them: the others have no effect, and these as if they were alone."""
    X, y = wide()
    shown = np.zeros_like(X)
    used = [2, 30, 70, 71, 80, 99]
    shown[:, used] = X[:, used]
    model = HistGradientBoostingRegressor(max_iter=15, min_samples_leaf=5).fit(shown, y)
    got = found(bound_of(model, X), [[j] for j in range(100)])
    close(got[:, used], brute(model.predict, X, [[j] for j in used]))
    assert not np.delete(got, used, axis=1).any()


def test_trees_of_more_players_than_a_word_has_bits():
    """Many columns in a tree, few on a way."""
    X, y = wide()
    model = RandomForestRegressor(3, max_features=1, random_state=0).fit(X, y)
    assert max(len(np.unique(tree.tree_.feature)) for tree in model) > 65
    got = found(bound_of(model, X), [[j] for j in range(100)])
    close(got.sum(axis=1)[:, 0], model.predict(X[ROWS]) - model.predict(X[DONORS]).mean(), 1e-12)
    groups = [list(range(20)), list(range(20, 70)), list(range(70, 100))]
    close(found(bound_of(model, X), groups), brute(model.predict, X, groups))


def chain(d):
    """A tree that asks for one column after the other, and for all once more, until somebody goes left."""
    feature, threshold = np.tile(np.arange(d), 2), np.repeat([-1.0, -0.5], d)
    nodes, leaves = 2 * np.arange(2 * d), 2 * np.arange(2 * d) + 1
    every = np.full(4 * d + 1, -1, np.int32)
    every[nodes] = feature
    right = np.empty(4 * d + 1, np.int32)
    right[nodes], right[leaves], right[-1] = nodes + 2, np.arange(2 * d), 2 * d
    cuts = np.zeros(4 * d + 1)
    cuts[nodes] = threshold
    return Ensemble(
        roots=np.zeros(1, np.int32),
        feature=every,
        threshold=cuts,
        right=right,
        missing_left=np.arange(4 * d + 1) % 3 == 0,
        value=np.random.default_rng(1).normal(size=(2 * d + 1, 2)),
        output=np.zeros(1, np.int32),
        offset=np.zeros(2),
        link=lambda raw: raw,
    )


def chained(d):
    """The chain, bound to a table in which most go far; some values are missing."""
    X = np.random.default_rng(2).exponential(size=(40, d)) - 0.9
    X[::7, ::5], X[::9, 3] = -1.2, np.nan
    ensemble, columns = chain(d), as_table(X)
    distinct = [columns.column(j).distinct for j in range(d)]
    images = {j: (np.array([j]), ensemble.numbers(j, values.values)[:, None]) for j, values in enumerate(distinct)}
    return X, bind(ensemble, len(distinct[0].codes), distinct, images.get)


def said_by_chain(bound, X):
    """The chain's answers, one row after the other."""
    ensemble, answers = bound.ensemble, []
    for row in X:
        s = 0
        while ensemble.feature[s] >= 0:
            value = row[ensemble.feature[s]]
            left = ensemble.missing_left[s] if np.isnan(value) else value <= ensemble.threshold[s]
            s = s + 1 if left else ensemble.right[s]
        answers.append(ensemble.value[ensemble.right[s]])
    return np.array(answers)


GROUPED = [list(range(30)), list(range(30, 31)), list(range(40, 66))]  # some columns are nobody's


def test_ways_of_more_players_than_a_word_has_bits():
    X, bound = chained(70)
    rows, donors = np.arange(8), np.arange(5, 40)
    got = found(bound, [[j] for j in range(70)], rows, donors, np.ones(35))
    said = said_by_chain(bound, X)
    close(got.sum(axis=1), said[rows] - said[donors].mean(axis=0), 1e-12)
    wanted = brute(lambda X: said_by_chain(bound, X), X, GROUPED, rows, donors, np.ones(35))
    close(found(bound, GROUPED, rows, donors, np.ones(35)), wanted)


@pytest.mark.parametrize("players", [SINGLES, [[0, 3], [2]]], ids=["columns", "groups"])
def test_the_slow_way_says_the_same(fitted, players, monkeypatch):
    _, _, bound, _ = fitted
    wanted = found(bound, players, weight=UNEQUAL)
    monkeypatch.setattr(effects, "MOST_IN_TABLE", 0)
    close(found(bound, players, weight=UNEQUAL), wanted, 1e-12)


def test_ways_of_as_many_players_as_a_word_has_bits(monkeypatch):
    for d in (63, 64):
        _, bound = chained(d)
        players = [[j] for j in range(d)]
        wanted = found(bound, players)
        monkeypatch.setattr(effects, "WORD", 60)
        close(found(bound, players), wanted, 1e-12)
        monkeypatch.undo()


# Responses.


@pytest.mark.parametrize(
    ("model", "response", "classes"),
    [
        (HistGradientBoostingRegressor(max_iter=2, loss="poisson"), "values", 3),
        (HistGradientBoostingClassifier(max_iter=2), "probabilities", 2),
        (HistGradientBoostingClassifier(max_iter=2), "probabilities", 3),
        (HistGradientBoostingClassifier(max_iter=2), "labels", 2),
        (RandomForestClassifier(2, random_state=0), "labels", 3),
    ],
    ids=["exponential", "logistic", "softmax", "labels", "votes"],
)
def test_effects_of_other_responses_are_not_linear(model, response, classes):
    bound = bound_of(model.fit(TRAIN, np.minimum(CLASSES, classes - 1)), TRAIN, response)
    assert linear_response(bound) is None


def test_effects_of_values_lose_their_last_axis(fitted):
    _, _, bound, _ = fitted
    got = found(bound, SINGLES)
    assert np.array_equal(linear_response(bound)(got), got[:, :, 0])
