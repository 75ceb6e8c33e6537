"""Games of pairs: what trees say in all coalitions at once is what the model says, and shares are Shapley values."""

from itertools import combinations
from math import factorial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor

import brute
from losslens.engines.choice import read_trees
from losslens.engines.trees import pair_games, pair_kernels, pair_losses
from losslens.engines.trees.bound import bind
from losslens.engines.trees.pair_games import cost, over_pairs, pack_rows, pair_predictions, walk_sums
from losslens.losses import pointwise, resolve
from losslens.models import as_model
from losslens.tables import sample
from losslens.tables.frames import as_table
from losslens.tables.sample import Sample

RNG = np.random.default_rng(0)
SUM_SUBSETS, LOG_LOSSES = pair_kernels.sum_subsets, pair_losses.log_losses
N, TRAINED, P = 16, 400, 5
SINGLE = [[j] for j in range(P)]
PLAYERS = {"columns": SINGLE, "groups": [[0, 3], [1], [4, 2]], "some": [[2], [0, 4]], "one": [[1]]}
HIST = {"max_iter": 12, "min_samples_leaf": 5, "early_stopping": False}


def table(n):
    """Two columns without ties, one with five values, one with two, and one that doesn't matter."""
    X = np.column_stack([RNG.normal(size=(n, 2)), RNG.integers(0, 5, n), RNG.integers(0, 2, n), RNG.normal(size=n)])
    return X, X[:, 0] * X[:, 2] + np.sin(3 * X[:, 1]) + X[:, 3] + 0.3 * RNG.normal(size=n)


def with_gaps(X):
    return np.where(RNG.random(X.shape) < 0.15, np.nan, X)


def frame(X, words):
    columns = {"x": X[:, 0], "word": words, "count": X[:, 2], "flag": X[:, 3], "rest": X[:, 4]}
    return pd.DataFrame(columns)


def words(n):
    return pd.Categorical(RNG.choice(["a", "b", "c", "d", "e"], n), categories=["a", "b", "c", "d", "e", "f"])


(TRAIN, TARGET), (X, Y) = table(TRAINED), table(N)
X[5] = X[3]  # a pair that nothing tells apart
WEIGHT = RNG.exponential(size=N) * (RNG.random(N) < 0.7)
WEIGHT /= WEIGHT.sum()
TWO, THREE = (
    (np.digitize(TARGET, [0]), np.digitize(Y, [0])),
    (np.digitize(TARGET, [-0.5, 1]), np.digitize(Y, [-0.5, 1])),
)
GAPS, GAPPED = with_gaps(TRAIN), with_gaps(X)
FRAME, FRAMED = frame(GAPS, words(TRAINED)), frame(GAPPED, words(N))
FRAMED.loc[2, "word"] = "f"


def far_off(y, prediction):
    return np.abs(y - prediction) > 0.5


def own_chance(labels, p):
    return 1 - p[np.arange(len(labels)), np.searchsorted(["high", "low", "middle"], labels)]


def lightgbm_regressor():
    return pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=15, num_leaves=12, verbose=-1)


def lightgbm_classifier():
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=15, num_leaves=12, verbose=-1)


def xgboost_regressor():
    return pytest.importorskip("xgboost").XGBRegressor(n_estimators=15, max_depth=4)


VALUES, CHANCES = (TRAIN, TARGET, X, Y, "values"), "probabilities"
SMALL_FOREST = {"n_estimators": 4, "max_leaf_nodes": 9, "random_state": 0}
CASES = {
    "histogram": (lambda: HistGradientBoostingRegressor(**HIST), *VALUES, "squared_error"),
    "histogram, absolute": (lambda: HistGradientBoostingRegressor(**HIST), *VALUES, "absolute_error"),
    "a loss of one's own": (lambda: HistGradientBoostingRegressor(**HIST), *VALUES, pointwise(far_off, reads="values")),
    "Poisson": (
        lambda: HistGradientBoostingRegressor(loss="poisson", **HIST),
        TRAIN,
        np.exp(TARGET),
        X,
        np.exp(Y),
        "values",
        "poisson",
    ),
    "gaps": (lambda: HistGradientBoostingRegressor(**HIST), GAPS, TARGET, GAPPED, Y, "values", "squared_error"),
    "categories": (
        lambda: HistGradientBoostingRegressor(categorical_features="from_dtype", **HIST),
        FRAME,
        TARGET,
        FRAMED,
        Y,
        "values",
        "squared_error",
    ),
    "tree without a node": (lambda: DecisionTreeRegressor(min_samples_leaf=300), *VALUES, "squared_error"),
    "large tree": (lambda: DecisionTreeRegressor(random_state=0), *VALUES, "absolute_error"),
    "forest": (lambda: RandomForestRegressor(**SMALL_FOREST), *VALUES, "squared_error"),
    "forest of large trees": (lambda: RandomForestRegressor(3, random_state=0), *VALUES, "squared_error"),
    "LightGBM": (lightgbm_regressor, *VALUES, "squared_error"),
    "XGBoost": (xgboost_regressor, *VALUES, "squared_error"),
    "two classes": (
        lambda: HistGradientBoostingClassifier(**HIST), TRAIN, TWO[0], X, TWO[1], CHANCES, "log_loss",
    ),
    "two classes, Brier": (
        lambda: HistGradientBoostingClassifier(**HIST), TRAIN, TWO[0], X, TWO[1], CHANCES, "brier",
    ),
    "two classes, LightGBM": (lightgbm_classifier, TRAIN, TWO[0], X, TWO[1], CHANCES, "log_loss"),
    "three classes": (
        lambda: HistGradientBoostingClassifier(**HIST), TRAIN, THREE[0], X, THREE[1], CHANCES, "log_loss",
    ),
    "labels of two classes": (
        lambda: GradientBoostingClassifier(n_estimators=5), TRAIN, TWO[0], X, TWO[1], "labels", "zero_one",
    ),
    "a forest's two classes": (
        lambda: RandomForestClassifier(**SMALL_FOREST), TRAIN, TWO[0], X, TWO[1], CHANCES, "brier",
    ),
    "a forest's two classes, log loss": (
        lambda: RandomForestClassifier(**SMALL_FOREST), TRAIN, TWO[0], X, TWO[1], CHANCES, "log_loss",
    ),
    "a forest's three classes": (
        lambda: RandomForestClassifier(**SMALL_FOREST), TRAIN, THREE[0], X, THREE[1], CHANCES, "brier",
    ),
    "large trees of three classes": (
        lambda: RandomForestClassifier(3, random_state=0), TRAIN, THREE[0], X, THREE[1], CHANCES, "log_loss",
    ),
}  # fmt: skip


class Case:
    """A fitted model, its trees bound to a table, and the table's rows judged by a loss."""

    def __init__(self, make, train, target, X, y, response, loss):
        model, self.X, self.y, self.loss = make().fit(train, target), X, y, resolve(loss)
        self.tolerance = 1e-5 if type(model).__name__.startswith("XGB") else 1e-9
        self.predict = model.predict_proba if response == CHANCES else model.predict
        ensemble, columns = read_trees(as_model(model), response), as_table(X)
        distinct = [columns.column(j).distinct for j in range(X.shape[1])]
        images = {j: (np.array([j]), ensemble.numbers(j, values.values)[:, None]) for j, values in enumerate(distinct)}
        self.bound, self.known = bind(ensemble, len(distinct[0].codes), distinct, images.get), {}
        self.sample = Sample(WEIGHT, self.predict(X), y).with_loss(self.loss)

    def said(self, players, kept):
        """Predictions of all pairs, row by row, where these players keep the row's values; asked once."""
        lent = tuple(sorted(c for j, columns in enumerate(players) for c in columns if j not in kept))
        if lent not in self.known:
            n = len(self.X)
            i, k = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
            mixed = pd.DataFrame(self.X).iloc[i].reset_index(drop=True)
            for column in lent:
                mixed.isetitem(column, pd.DataFrame(self.X).iloc[k, column].array)
            self.known[lent] = self.predict(mixed if isinstance(self.X, pd.DataFrame) else mixed.to_numpy())
        return self.known[lent]

    def losses(self, players):
        """The losses of all coalitions, (2**p, n, n)."""
        n, found = len(self.X), []
        own = brute.LOSSES.get(self.loss.name, self.loss.function)
        for number in range(1 << len(players)):
            kept = [j for j in range(len(players)) if number >> j & 1]
            found.append(own(np.repeat(self.y, n), self.said(players, kept)).astype(float).reshape(n, n))
        return np.stack(found)

    def over_pairs(self, players, n_jobs=1, keep_cells=True, tick=lambda cells: None):
        return over_pairs(
            self.bound, players, self.sample, self.loss, n_jobs=n_jobs, tick=tick, keep_cells=keep_cells
        )  # fmt: skip


def shapley(losses):
    """By the definition, (n, n, p)."""
    p = len(losses).bit_length() - 1
    shares = np.zeros((*losses.shape[1:], p))
    for j in range(p):
        others = [player for player in range(p) if player != j]
        for size in range(p):
            weight = factorial(size) * factorial(p - size - 1) / factorial(p)
            for members in combinations(others, size):
                number = sum(1 << member for member in members)
                shares[:, :, j] += weight * (losses[number] - losses[number | 1 << j])
    return shares


def near(got, wanted, tolerance):
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return Case(*CASES[request.param])


@pytest.mark.parametrize("players", PLAYERS.values(), ids=PLAYERS)
def test_shares_and_errors_are_those_of_all_pairs(case, players):
    losses = case.losses(players)
    shares, result = shapley(losses), case.over_pairs(players)
    near(result.cells, shares, case.tolerance)
    near(result.local, np.einsum("ikj,k->ij", shares, WEIGHT), case.tolerance)
    near(result.caused, np.einsum("ikj,i->kj", shares, WEIGHT), case.tolerance)
    near(result.errors, np.einsum("sik,i,k->s", losses, WEIGHT, WEIGHT), case.tolerance)


def test_shares_add_up_to_what_the_row_would_lose(case):
    for players in PLAYERS.values():
        nobody = case.losses(players)[0]
        near(case.over_pairs(players).cells.sum(axis=2), nobody - case.sample.loss[:, None], case.tolerance)


def test_no_answer_depends_on_threads_or_on_whether_cells_are_kept(case):
    one, two = case.over_pairs(SINGLE), case.over_pairs(SINGLE, n_jobs=2, keep_cells=False)
    assert two.cells is None
    np.testing.assert_array_equal(one.errors, case.over_pairs(SINGLE, n_jobs=2).errors)
    np.testing.assert_array_equal(two.errors, case.over_pairs(SINGLE, keep_cells=False).errors)
    near(one.local, two.local, 1e-12)
    near(one.errors, two.errors, 1e-12)


@pytest.mark.parametrize("players", [PLAYERS["groups"], PLAYERS["some"]], ids=["groups", "some"])
def test_predictions_of_pairs_are_the_models(case, players):
    rows, donors = RNG.integers(0, N, (2, 12))
    raw = pair_predictions(case.bound, pack_rows(case.bound, players), rows, donors)
    assert raw.shape == (12, 1 << len(players), len(case.bound.unit))
    for number in range(1 << len(players)):
        kept = [j for j in range(len(players)) if number >> j & 1]
        wanted = case.said(players, kept).reshape(N, N, -1)[rows, donors]
        near(case.bound.respond(raw[:, number].copy()).reshape(wanted.shape), wanted, case.tolerance)


def test_ticks_add_up_to_the_cost_where_all_rows_count(case):
    for players in PLAYERS.values():
        ticks = []
        case.over_pairs(players, tick=ticks.append)
        assert sum(ticks) == cost(case.bound, players, N)


# Small parts, so that there are many.


@pytest.mark.parametrize("name", ["histogram", "histogram, absolute", "two classes", "forest of large trees"])
def test_answers_don_t_depend_on_what_is_done_together(name, monkeypatch):
    case = Case(*CASES[name])
    whole = case.over_pairs(SINGLE)
    monkeypatch.setattr(pair_games, "TASK_CELLS", 300)
    monkeypatch.setattr(sample, "CHUNK", 40)
    monkeypatch.setattr(pair_games, "STRIPE_PAIRS", 40)
    one, two = case.over_pairs(SINGLE), case.over_pairs(SINGLE, n_jobs=2)
    for field in ("local", "caused", "errors", "cells"):
        near(getattr(one, field), getattr(whole, field), 1e-12)
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field))


def test_trees_whose_masks_would_not_fit_are_walked(monkeypatch):
    case = Case(*CASES["gaps"])
    whole = case.over_pairs(SINGLE)
    monkeypatch.setattr(pair_games, "MAX_MASKS", 0)
    np.testing.assert_array_equal(case.over_pairs(SINGLE).cells, whole.cells)


# Facts that need no other answer.


@pytest.mark.parametrize("name", ["histogram", "two classes", "three classes", "forest of large trees"])
def test_a_feature_that_no_tree_asks_for_is_worth_nothing(name):
    make, train, target, *rest = CASES[name]
    train = train.copy()
    train[:, 1] = 0
    case = Case(make, train, target, *rest)
    result = case.over_pairs(SINGLE)
    assert not np.any(result.cells[:, :, 1])
    assert np.any(result.cells[:, :, 0])
    without = [number for number in range(32) if not number >> 1 & 1]
    np.testing.assert_array_equal(result.errors[without], result.errors[[number | 2 for number in without]])


def test_a_row_and_its_copy_share_nothing():
    result = Case(*CASES["histogram"]).over_pairs(SINGLE)
    assert not np.any(result.cells[3, 5])
    assert not np.any(result.cells[5, 3])
    assert not np.any(result.cells[np.arange(N), np.arange(N)])


def test_rows_without_weight_lend_nothing_but_have_shares():
    result = Case(*CASES["histogram"]).over_pairs(SINGLE, keep_cells=False)
    assert np.any(WEIGHT == 0)
    assert np.all(np.any(result.local != 0, axis=1))


def test_labels_of_classes_reach_a_loss_of_one_s_own():
    names = np.array(["high", "low", "middle"])
    case = Case(*CASES["three classes"])
    case.loss = pointwise(own_chance, reads=CHANCES)
    case.sample = Sample(WEIGHT, case.predict(X), case.y, classes=names).with_loss(case.loss)
    n, wanted = len(X), []
    for number in range(1 << P):
        said = case.said(SINGLE, [j for j in range(P) if number >> j & 1])
        wanted.append(own_chance(names[np.repeat(case.y, n)], said).reshape(n, n))
    near(case.over_pairs(SINGLE).cells, shapley(np.stack(wanted)), 1e-9)


def test_a_loss_that_is_not_defined_for_a_prediction_says_so():
    case = Case(*CASES["histogram"])
    case.loss, case.sample = resolve("gamma"), Sample(WEIGHT, np.ones(N), np.exp(Y), np.zeros(N))
    with pytest.raises(ValueError, match="positive"):
        case.over_pairs(SINGLE)


# The kernels, of more players than there are columns above.


@pytest.mark.parametrize("players", [0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14])
def test_sums_over_subsets(players):
    table = RNG.integers(-9, 9, (3, 1 << players))
    wanted = table.copy()
    for j in range(players):
        halves = wanted.reshape(3, -1, 2, 1 << j)
        halves[:, :, 1] += halves[:, :, 0]
    SUM_SUBSETS(table.reshape(-1), np.uint64(1 << players), np.uint64(players))
    np.testing.assert_array_equal(table[1], wanted[1])


@pytest.mark.parametrize("p", [8, 11, 13])
@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "absolute_error"])
def test_many_players(p, loss):
    """Of a pair of rows, with some players that agree."""
    train = RNG.normal(size=(300, p))
    target = train @ np.linspace(1, 2, p) + train[:, 0] * train[:, -1]
    train[1, [2, 5]] = train[0, [2, 5]]
    chances = loss == "log_loss"
    kind = HistGradientBoostingClassifier if chances else HistGradientBoostingRegressor
    y = (target > 0).astype(int) if chances else target
    case = Case(lambda: kind(**HIST), train, y, train[:N], y[:N], CHANCES if chances else "values", loss)
    model_says, number = case.predict, np.arange(1 << p)
    kept = (number[:, None] >> np.arange(p)) & 1 == 1
    rows, donors = np.array([0, 1, 4]), np.array([1, 0, 2])
    shares = case.over_pairs([[j] for j in range(p)]).cells[rows, donors]
    sizes = kept.sum(axis=1)
    weight = np.array([factorial(s) * factorial(p - s - 1) / factorial(p) for s in range(p)] + [0.0])
    for row, donor, got in zip(rows, donors, shares, strict=True):
        said = model_says(np.where(kept, train[row], train[donor]))
        lost = brute.LOSSES[loss](np.full(1 << p, case.y[row]), said)
        for j in range(p):
            out = number[~kept[:, j]]
            near(got[j], weight[sizes[out]] @ (lost[out] - lost[out | 1 << j]), 1e-9)


@given(st.lists(st.floats(-60, 60), min_size=1, max_size=64), st.booleans(), st.booleans())
@settings(max_examples=60)
def test_log_losses_are_those_of_numpy(scores, mine, theirs):
    unit = 2.0**-40
    raw, lost = np.rint(np.array(scores) / unit).astype(np.int64), np.empty((2, 64))
    LOG_LOSSES(raw, np.uint64(0), np.uint64(len(raw)), unit, 0.0, float(mine), float(theirs), lost)
    p = 1 / (1 + np.exp(-raw * unit))
    for got, y in zip(lost, [mine, theirs], strict=True):
        wanted = brute.LOSSES["log_loss"](np.full(len(p), int(y)), np.column_stack([1 - p, p]))
        # Where 1 - p has few digits left, the last one of p decides.
        slack = 1e-14 + 2e-16 / np.maximum(p if y else 1 - p, 1e-16)
        assert np.all(np.abs(got[: len(p)] - wanted) <= slack * np.maximum(1, wanted))


@pytest.mark.parametrize("players", PLAYERS)
@pytest.mark.parametrize("name", CASES)
def test_walks_pass_through_coalitions(name, players):
    """Along an order the players join one by one: the sums are those of the coalitions on the way, to the last bit."""
    bound, players = Case(*CASES[name]).bound, PLAYERS[players]
    packed, rng, p = pack_rows(bound, players), np.random.default_rng(0), len(players)
    rows, donors = (part.ravel() for part in np.indices((N, N)))
    orders = rng.permuted(np.tile(np.arange(p), (N * N, 1)), axis=1)
    walked, table = walk_sums(bound, packed, rows, donors, orders), pair_predictions(bound, packed, rows, donors)
    numbers = np.cumsum(np.column_stack([np.zeros(N * N, int), 1 << orders]), axis=1)
    np.testing.assert_array_equal(walked, np.take_along_axis(table, numbers[:, :, None], axis=1))
