"""Shares of rows in squares of what trees predict: products of two nodes against all coalitions asked of the model."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from losslens import game_theory
from losslens.engines.readers import read
from losslens.engines.trees import pair_boxes
from losslens.engines.trees.bound import bind
from losslens.engines.trees.pair_boxes import cost, products, square_shares
from losslens.models import as_model
from losslens.progress import silent
from losslens.tables.frames import as_table

RNG = np.random.default_rng(0)
N, P = 12, 5
PLAYERS = {"columns": [[j] for j in range(P)], "groups": [[3, 0], [1], [2, 4]]}
WEIGHTS = {"alike": np.ones(N), "weights": RNG.exponential(size=N) * (RNG.random(N) < 0.7)}
HIST = {"max_iter": 8, "max_leaf_nodes": 12, "min_samples_leaf": 5}


def table(n):
    """Numbers, one column of categories and one of five values; some are missing."""
    X = pd.DataFrame(RNG.normal(size=(n, P)), columns=list("abcde"))
    y = X["a"] * (1 + X["b"]) + np.sin(2 * X["c"]) + X["d"] + 100.0
    X = X.mask(RNG.random(X.shape) < 0.1).assign(d=np.digitize(X["d"], [-1, -0.3, 0.3, 1]).astype(float))
    words = pd.Categorical(RNG.choice(list("uvwxy"), n), categories=list("uvwxyz"))
    return X.assign(e=words), np.asarray(y + 2.0 * (words.codes % 2))


(TRAIN, TARGET), (X, _) = table(300), table(N)
NUMBERS = [frame.drop(columns="e").assign(e=frame["e"].cat.codes).fillna(0.0) for frame in (TRAIN, X)]
CASES = {
    "boosting": (HistGradientBoostingRegressor(categorical_features="from_dtype", **HIST), TRAIN, X),
    "lightgbm": (lgb.LGBMRegressor(n_estimators=8, num_leaves=12, min_child_samples=5, n_jobs=1, verbose=-1), TRAIN, X),
    "forest": (RandomForestRegressor(4, max_leaf_nodes=20, random_state=0), *NUMBERS),
    "tree": (DecisionTreeRegressor(max_leaf_nodes=30), *NUMBERS),
    "leaf": (DecisionTreeRegressor(min_samples_leaf=200), *NUMBERS),
    "classes": (RandomForestClassifier(4, max_leaf_nodes=12, random_state=0), *NUMBERS),
}


def bound_to(model, rows, response="values"):
    ensemble, columns = read(as_model(model), response), as_table(rows)
    distinct = [columns.column(j).distinct for j in range(rows.shape[1])]
    images = {j: (np.array([j]), ensemble.numbers(j, values.values)[:, None]) for j, values in enumerate(distinct)}
    return bind(ensemble, len(distinct[0].codes), distinct, images)


@pytest.fixture(scope="module", params=CASES)
def fitted(request):
    """The trees, their predictions, (n, outputs), as a function, and the rows."""
    model, train, rows = CASES[request.param]
    if request.param == "classes":
        model.fit(train, np.digitize(TARGET, [99, 101]))
        return bound_to(model, rows, "probabilities"), model.predict_proba, rows
    model.fit(train, TARGET)
    return bound_to(model, rows), lambda Z: model.predict(Z)[:, None], rows


def brute(predict, rows, players, weight, target):
    """Shares of the squares less their means, and interactions in their mean and in that of products with the target.

    From all coalitions: bit j of S is set if player j keeps its values."""
    p, mean = len(players), weight @ predict(rows)
    S, i, k = (np.ravel(part) for part in np.indices((1 << p, N, N)))
    owner = {column: j for j, columns in enumerate(players) for column in columns}
    taken = [rows.iloc[np.where(S >> owner[c] & 1, i, k), [c]].reset_index(drop=True) for c in range(P)]
    apart = predict(pd.concat(taken, axis=1)) - mean
    squares = np.sum(apart**2, axis=1).reshape(-1, N, N) @ weight
    products = np.sum(apart * target[i], axis=1).reshape(-1, N, N) @ weight
    order = [1.0]  # of s players: s! (p - 1 - s)! / p!
    for s in range(p - 1):
        order.append(order[-1] * (s + 1) / (p - 1 - s))
    found = np.zeros((N, p))
    for number in range(1 << p):
        for j in range(p):
            if not number >> j & 1:
                found[:, j] += order[number.bit_count()] / p * (squares[number | 1 << j] - squares[number])
    return found, *(-game_theory.interactions(table @ weight) for table in (squares, products))  # a gain lowers it


@pytest.mark.parametrize("most", [pair_boxes.MOST_IN_TABLE, 2, 0], ids=["tables", "both", "comparisons"])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("players", PLAYERS)
def test_shares_are_those_of_all_coalitions_asked_of_the_model(fitted, players, weight, most, monkeypatch):
    monkeypatch.setattr(pair_boxes, "MOST_IN_TABLE", most)
    bound, predict, rows = fitted
    mass = WEIGHTS[weight] / WEIGHTS[weight].sum()
    target = predict(rows)[::-1] - mass @ predict(rows)
    found = square_shares(bound, PLAYERS[players], mass, target, n_jobs=1, tick=silent)
    local, index, of_target = brute(predict, rows, PLAYERS[players], mass, target)
    np.testing.assert_allclose(found.local, local, rtol=0, atol=1e-10)
    np.testing.assert_allclose(mass @ found.local, 0, atol=1e-11)  # what a row gets, its donors lose
    np.testing.assert_allclose(found.index, index, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.of_target, of_target, rtol=0, atol=1e-9)


def many_columns():
    Z = RNG.normal(size=(300, 30))
    y = Z[:, :12].sum(axis=1) + Z[:, 0] * Z[:, 13]
    return HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=5).fit(Z, y), Z[:100]


def test_tables_and_comparisons_agree_on_many_players(monkeypatch):
    """Boxes of more than 14 players are compared in any case, also where patterns are not told apart."""
    model, Z = many_columns()
    bound, players, weight = bound_to(model, pd.DataFrame(Z)), [[j] for j in range(30)], np.full(100, 1 / 100)
    ask = {"n_jobs": 1, "tick": silent}
    target = RNG.normal(size=(100, 1))
    usual = square_shares(bound, players, weight, target, **ask)
    for most, together in ((16, 1 << 20), (4, 1 << 20), (4, 10)):
        monkeypatch.setattr(pair_boxes, "MOST_IN_TABLE", most)
        monkeypatch.setattr(pair_boxes, "MOST_TOGETHER", together)
        found = square_shares(bound, players, weight, target, **ask)
        np.testing.assert_allclose(found.local, usual.local, rtol=0, atol=1e-11)
        np.testing.assert_allclose(found.index, usual.index, rtol=0, atol=1e-11)


def test_threads_change_no_bit_and_ticks_add_up():
    model, Z = many_columns()
    bound, players, weight = bound_to(model, pd.DataFrame(Z[:60])), [[j] for j in range(30)], np.full(60, 1 / 60)
    ticks, target = [], np.ones((60, 1))
    one = square_shares(bound, players, weight, target, n_jobs=1, tick=ticks.append)
    two = square_shares(bound, players, weight, target, n_jobs=2, tick=silent)
    np.testing.assert_array_equal(one.local, two.local)
    np.testing.assert_array_equal(one.index, two.index)
    assert 0 < sum(ticks) <= products(bound)  # leaves that no row can reach are left out


def test_stops_early():
    model, Z = many_columns()
    bound = bound_to(model, pd.DataFrame(Z[:60]))

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        square_shares(bound, [[j] for j in range(30)], np.full(60, 1 / 60), np.ones((60, 1)), n_jobs=1, tick=stop)


def test_cost_grows_with_rows_and_has_its_limits():
    model, Z = many_columns()
    players = [[j] for j in range(30)]
    few, many = (bound_to(model, pd.DataFrame(Z[:n])) for n in (60, 100))
    assert products(few) == products(many)
    assert 60 * products(few) < cost(few, players, 1e9) < cost(many, players, 1e9)
    assert cost(many, players, 1e5) is None  # memory
