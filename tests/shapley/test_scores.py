"""SAGE values, where predictions are averaged before the loss, and Shapley shares of scores such as AUC and R2."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer, make_scorer, r2_score, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

import brute
import coalitions
import losslens as ll

RNG = np.random.default_rng(0)
N, P = 16, 4
TRAIN, X = RNG.normal(size=(150, P)), RNG.normal(size=(N, P))
X[:, 2] = RNG.integers(0, 3, N)
X[4] = X[2]


def signal(X):
    return X[:, 0] * (1 + X[:, 1]) + X[:, 2]


TARGET, Y = signal(TRAIN) + RNG.normal(size=150), signal(X) + RNG.normal(size=N)
WEIGHT = RNG.integers(0, 4, N).astype(float)
LINEAR = LinearRegression().fit(TRAIN, TARGET)
CLASSIFIER = LogisticRegression().fit(TRAIN, np.digitize(TARGET, [0.5]))
THREE = LogisticRegression().fit(TRAIN, np.digitize(TARGET, [-0.5, 1.0]))
TREES = HistGradientBoostingRegressor(max_iter=8, max_leaf_nodes=8).fit(TRAIN, TARGET)
TREES_OF_TWO = HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=8).fit(TRAIN, np.digitize(TARGET, [0.5]))
BOOSTED = GradientBoostingClassifier(n_estimators=5).fit(TRAIN, np.digitize(TARGET, [-0.5, 1.0]))
TWO, LEVELS = np.digitize(Y, [0.5]), np.digitize(Y, [-0.5, 1.0])

CASES = {
    "function": (signal, signal, Y, "squared_error"),
    "function, absolute": (signal, signal, Y, "absolute_error"),
    "linear": (LINEAR, LINEAR.predict, Y, "squared_error"),
    "classes": (CLASSIFIER, CLASSIFIER.predict_proba, TWO, "log_loss"),
    "three classes": (THREE, THREE.predict_proba, LEVELS, "brier"),
    "trees": (TREES, TREES.predict, Y, "squared_error"),
    "trees, absolute": (TREES, TREES.predict, Y, "absolute_error"),
    "trees, classes": (TREES_OF_TWO, TREES_OF_TWO.predict_proba, TWO, "log_loss"),
    "trees, three classes": (BOOSTED, BOOSTED.predict_proba, LEVELS, "log_loss"),
}


def sage(case="function", **options):
    native, _, y, loss = CASES[case]
    asked = {"loss": loss, "method": ll.Sage(), "random_state": 0}
    return ll.shapley_importance(native, X, y, **(asked | options))


def truth(case="function", **options):
    _, predict, y, loss = CASES[case]
    return coalitions.mean_shares(predict, X, y, brute.LOSSES[loss], **options)


# SAGE.


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("case", CASES)
def test_sage_values_are_those_of_all_coalitions(case, weight):
    found, expected = sage(case, sample_weight=weight), truth(case, weight=weight)
    assert found.exact
    np.testing.assert_allclose(found.sfimp, expected.sfimp, atol=1e-9)
    np.testing.assert_allclose(found.local, expected.local, atol=1e-9)
    np.testing.assert_allclose(found.observations, expected.gains, atol=1e-9)
    assert (found.table is None) == (case == "linear")  # a closed form
    if found.table is not None:
        np.testing.assert_allclose(found.table, expected.table, atol=1e-9)
    np.testing.assert_allclose(found.interactions.index, coalitions.interactions(expected.table), atol=1e-9)
    assert found.sfimp.sum() == pytest.approx(found.error_none - found.error_all, abs=1e-9)
    for j, name in enumerate(found.features):
        assert found.curve(name).sfimp == pytest.approx(found.sfimp[j], abs=1e-9)
    with pytest.raises(ValueError, match="donors have no shares where predictions are averaged"):
        found.curve("x0", by="donor")


@pytest.mark.parametrize("case", ["function", "linear", "trees"])
def test_sage_values_of_groups_and_of_some_columns(case):
    for players in ([[0, 2], [1], [3]], [[2], [0]]):
        names = {f"g{k}": columns for k, columns in enumerate(players)}
        found, expected = sage(case, features=names), truth(case, players=players)
        np.testing.assert_allclose(found.sfimp, expected.sfimp, atol=1e-9)
        np.testing.assert_allclose(found.local, expected.local, atol=1e-9)


@pytest.mark.parametrize("weight", [None, WEIGHT + 1], ids=["alike", "weights"])
@pytest.mark.parametrize("case", ["function", "function, absolute", "classes", "three classes"])
def test_walks_to_sage_values(case, weight):
    """Every row's ends are known, so that rows sum exactly; orders alone are drawn."""
    found, expected = sage(case, method=ll.Sage("walk"), sample_weight=weight), truth(case, weight=weight)
    assert not found.exact
    np.testing.assert_allclose(found.local.sum(axis=1), expected.gains, atol=1e-9)
    np.testing.assert_allclose(found.observations, expected.gains, atol=1e-9)
    assert found.sfimp.sum() == pytest.approx(found.error_none - found.error_all, abs=1e-9)
    assert (np.abs(found.sfimp - expected.sfimp) <= 5 * found.monte_carlo_error + 1e-9).all()


@pytest.mark.parametrize("options", [{}, {"features": ["x0", "x1"]}], ids=["all", "some"])
def test_walks_to_sage_values_are_right_on_average(options):
    players = None if not options else [[0], [1]]
    found = [sage(method=ll.Sage("walk"), budget=8000, random_state=seed, **options) for seed in range(40)]
    shares = np.array([one.sfimp for one in found])
    spread = shares.std(axis=0, ddof=1)
    assert (np.abs(shares.mean(axis=0) - truth(players=players).sfimp) <= 4 * spread / np.sqrt(40) + 1e-9).all()
    stated = np.mean([one.monte_carlo_error**2 for one in found], axis=0)
    moving = spread > 1e-9
    assert (0.4 * spread[moving] ** 2 < stated[moving]).all()
    assert (stated[moving] < 2.5 * spread[moving] ** 2).all()
    assert all(one.n_predictions <= 8000 for one in found)


def test_averaging_first_takes_the_variance_off_a_squared_loss():
    """(y - f_k)^2 averages to (y - mean f)^2 + var f: what SFIMP's error without features has on top of SAGE's."""
    loss, prediction = (sage(method=method) for method in ("auto", ll.Sage()))
    assert loss.error_none - prediction.error_none == pytest.approx(np.var(signal(X)))
    assert loss.error_all == prediction.error_all
    some = [sage(method=method, features=["x0", "x2"]) for method in ("auto", ll.Sage())]
    said = coalitions.pair_predictions(signal, X, [[0, 2]])[0]
    assert some[0].error_none - some[1].error_none == pytest.approx(said.var(axis=1).mean())


def test_a_grid_of_donors_is_a_background():
    found = sage(donors=ll.Grid(5))
    table = [
        np.mean((Y - np.array([one[:, donors] for donors in [_lenders(found)]])[0].mean(axis=1)) ** 2)
        for one in coalitions.pair_predictions(signal, X, [[0], [1], [2], [3]])
    ]
    np.testing.assert_allclose(found.table, table, atol=1e-9)
    walked = sage(donors=ll.Grid(5), method=ll.Sage("walk"))
    assert (np.abs(walked.sfimp - found.sfimp) <= 5 * walked.monte_carlo_error + 1e-9).all()


def _lenders(found):
    return np.asarray(found.shares.layout.donors[0])


# Scores.


def scored(native, y, scorer, **options):
    asked = {"loss": get_scorer(scorer) if isinstance(scorer, str) else scorer, "random_state": 0, "donors": "all"}
    return ll.shapley_importance(native, X, y, **(asked | options))


def shifted(predict, y, score, players, weight=None):
    """The score of every coalition with a minus sign, the mean over the n cyclic shifts; pairs weigh w_i w_k."""
    said = coalitions.pair_predictions(predict, X, players)
    weight = np.ones(N) if weight is None else weight / weight.mean()
    every, table = np.arange(N), []
    for one in said:
        scores, masses = [], []
        for shift in range(N):
            donors = (every + shift) % N
            pair = weight * weight[donors]
            scores.append(score(y, one[every, donors], sample_weight=pair))
            masses.append(pair.sum())
        table.append(-np.average(scores, weights=masses))
    return np.array(table)


def chance(X):
    return CLASSIFIER.predict_proba(X)[:, 1]


SCORES = {"r2": (LINEAR, LINEAR.predict, Y, r2_score), "roc_auc": (CLASSIFIER, chance, TWO, roc_auc_score)}


@pytest.mark.parametrize("weight", [None, WEIGHT + 1], ids=["alike", "weights"])
@pytest.mark.parametrize("name", SCORES)
def test_scores_over_all_shifts(name, weight):
    native, predict, y, score = SCORES[name]
    found = scored(native, y, name, sample_weight=weight)
    table = shifted(predict, y, score, [[0], [1], [2], [3]], weight)
    assert found.exact
    np.testing.assert_allclose(found.table, table, atol=1e-9)
    np.testing.assert_allclose(found.sfimp, coalitions.by_orders(table), atol=1e-9)
    np.testing.assert_allclose(found.interactions.index, coalitions.interactions(table), atol=1e-9)
    assert found.sfimp.sum() == pytest.approx(found.error_none - found.error_all, abs=1e-9)
    if weight is None:
        assert -found.error_all == pytest.approx(score(y, predict(X)))


@pytest.mark.parametrize("players", [{"a": [0, 3], "b": [1], "c": [2]}, {"b": [1], "a": [0]}], ids=["groups", "some"])
def test_scores_of_groups_and_some_columns(players):
    found = scored(LINEAR, Y, "r2", features=players)
    table = shifted(LINEAR.predict, Y, r2_score, list(players.values()))
    np.testing.assert_allclose(found.sfimp, coalitions.by_orders(table), atol=1e-9)


def test_scores_of_labels():
    found = scored(CLASSIFIER, TWO, "accuracy")
    table = shifted(CLASSIFIER.predict, TWO, lambda y, f, sample_weight: np.mean(y == f), [[0], [1], [2], [3]])
    np.testing.assert_allclose(found.sfimp, coalitions.by_orders(table), atol=1e-9)


def test_orders_of_scores():
    """Circles of orders: exact coalitions, so that only orders are noise."""
    exact, orders = (scored(LINEAR, Y, "r2", method=method) for method in ("exact", "walk"))
    assert orders.error_none == exact.error_none
    assert orders.sfimp.sum() == pytest.approx(orders.error_none - orders.error_all)
    assert (np.abs(orders.sfimp - exact.sfimp) <= 5 * orders.monte_carlo_error + 1e-9).all()
    assert "orders" in orders.method
    assert (exact.exact, orders.exact) == (True, False)


@pytest.mark.parametrize("design", ["auto", ll.Latin(6), ll.Permutations(3), ll.Derangements(4)], ids=str)
def test_scores_of_drawn_donors(design):
    found = scored(LINEAR, Y, "r2", donors=design)
    assert not found.exact
    assert found.sfimp.sum() == pytest.approx(found.error_none - found.error_all, abs=1e-9)
    assert (found.monte_carlo_error[:3] > 0).all()  # the donors were drawn


def test_a_budget_holds_for_scores_too():
    """All coalitions would take 16 x 16 x 14; orders take less, or the call is refused."""
    found = scored(LINEAR, Y, "r2", donors=ll.Latin(4), method="walk", budget=1000)
    assert found.n_predictions <= 1000
    with pytest.raises(ValueError, match="budget"):
        scored(LINEAR, Y, "r2", donors=ll.Latin(4), method="walk", budget=100)


def test_no_row_has_a_score():
    found = scored(CLASSIFIER, TWO, "roc_auc")
    for ask in (
        lambda: found.local,
        lambda: found.observations,
        lambda: found.curve("x0"),
        lambda: found.given([0, 1]),
        lambda: found.std_error,
        found.interval,
    ):
        with pytest.raises(ValueError, match="the scorer roc_auc_score gives one number for all rows together"):
            ask()
    assert found.loss is None
    assert "increase in roc_auc_score by each feature" in repr(found)
    frame = found.to_frame()
    assert np.isnan(frame["std_error"]).all()
    np.testing.assert_allclose(np.sort(frame["sfimp"])[::-1], np.sort(found.sfimp)[::-1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": ll.Sage()}, "needs a loss of each row"),
        ({"method": ll.Paper()}, "the paper's algorithm needs a loss of each row"),
        ({"donors": ll.Grid(4)}, r"a scorer needs a design with one donor of each row per column"),
        ({"features": {"a": [0, 1], "b": [1]}}, "players must not overlap"),
        ({"method": "exact", "budget": 500}, r"all coalitions would take .* predictions, more than 500"),
    ],
    ids=str,
)
def test_calls_with_a_scorer_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        scored(LINEAR, Y, "r2", **options)


def test_a_scorer_needs_y():
    with pytest.raises(ValueError, match="y, the true values, is missing"):
        ll.shapley_importance(LINEAR, X, None, loss=get_scorer("r2"))


def test_a_scorer_of_ones_own():
    scorer = make_scorer(lambda y, f: -np.median(np.abs(y - f)))
    found = scored(LINEAR, Y, scorer)
    table = shifted(LINEAR.predict, Y, lambda y, f, sample_weight: -np.median(np.abs(y - f)), [[0], [1], [2], [3]])
    np.testing.assert_allclose(found.table, table, atol=1e-9)


def test_pairs_of_different_rows_are_all_other_shifts():
    """Derangements() has every shift but that by 0: all coalitions of them agree with all shifts, less the own rows."""
    every, others = (scored(LINEAR, Y, "r2", method="exact", donors=donors) for donors in ("all", ll.Derangements()))
    n = len(Y)
    np.testing.assert_allclose(others.error_none - every.error_all, (every.error_none - every.error_all) * n / (n - 1))


def test_a_score_of_some_donors_or_orders_says_why_not_of_all():
    """Whatever is sampled has a reason; all coalitions of all pairs say why the model predicts them."""
    auc = {"loss": "roc_auc", "random_state": 0}
    ways = {
        "which the model predicts": {"donors": "all"},
        "each row has 10 donors": {},
        "donors=Latin(3) asks for some of the pairs": {"donors": ll.Latin(3)},
        "random orders of the features are drawn": {"donors": "all", "method": "walk"},
    }
    for why, options in ways.items():
        found = ll.shapley_importance(CLASSIFIER, X, TWO, **auc, **options)
        assert (found.engine, found.exact) == ("blackbox", options == {"donors": "all"})
        assert why in found.declined
    neighbours = KNeighborsClassifier().fit(TRAIN, np.digitize(TARGET, [0.5]))
    assert ll.shapley_importance(neighbours, X, TWO, **auc, donors=ll.Latin(3)).declined
