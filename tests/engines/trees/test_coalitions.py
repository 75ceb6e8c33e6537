"""Coalitions of trees: what follows from their leaves is what the model itself says, over all pairs."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

import brute
from losslens.engines.trees import coalitions, node_rules, small_trees
from losslens.engines.trees.coalitions import CoalitionErrors, pair_table, single_tree_errors, squared_error
from tree_cases import (
    CLASSES,
    EQUAL,
    FRAME,
    FRAME_TARGET,
    FRAME_TRAIN,
    FRAME_Y,
    KINDS,
    REGRESSORS,
    RNG,
    SOME,
    SUBSETS,
    TARGET,
    TRAIN,
    UNEQUAL,
    WEIGHTS,
    N,
    P,
    X,
    Y,
    answers,
    bound_of,
    squared,
    table,
)


def close(got, wanted, tolerance=1e-12):
    assert abs(got - wanted) <= tolerance * max(1, wanted)


@pytest.fixture(scope="module", params=REGRESSORS)
def fitted(request):
    if request.param == "categories":
        model, data = REGRESSORS["categories"].fit(FRAME_TRAIN, FRAME_TARGET), (FRAME, FRAME_Y)
    else:
        model, data = REGRESSORS[request.param].fit(TRAIN, TARGET), (X, Y)
    return model, *data, bound_of(model, data[0]), {}


def said(fitted, kept):
    """Answers of the fitted model, asked once for each coalition."""
    model, X, _, _, known = fitted
    if tuple(kept) not in known:
        known[tuple(kept)] = answers(model.predict, X, kept)
    return known[tuple(kept)]


# The squared error.


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_the_squared_error_is_that_of_all_pairs(fitted, weight):
    _, _, y, bound, _ = fitted
    errors = CoalitionErrors(bound, y, weight)
    for kept in SUBSETS:
        close(errors.error(kept), squared(said(fitted, kept), y, weight))


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_a_coalition_and_its_complement_come_together(fitted, weight):
    _, _, y, bound, _ = fitted
    errors = CoalitionErrors(bound, y, weight)
    for kept in SOME:
        rest = [j for j in range(P) if j not in kept]
        close(errors.errors(kept)[1], squared(said(fitted, rest), y, weight))


def test_a_mask_says_the_same_as_numbers():
    bound = bound_of(REGRESSORS["boosting"].fit(TRAIN, TARGET), X)
    mask = np.array([True, False, False, True])
    assert squared_error(bound, mask, Y, EQUAL) == squared_error(bound, [3, 0], Y, EQUAL)


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_nothing_depends_on_what_is_counted_together(fitted, weight, monkeypatch):
    _, _, y, bound, _ = fitted
    whole = [CoalitionErrors(bound, y, weight).error(kept) for kept in SOME]
    for kept, wanted in zip(SOME, whole, strict=True):  # rows in slabs of 64
        close(CoalitionErrors(bound, y, weight, memory=1).error(kept), wanted)
    monkeypatch.setattr(coalitions, "TABLE_PATTERNS", 5)
    monkeypatch.setattr(coalitions, "SHARED_COUNTS", 1)
    monkeypatch.setattr(coalitions, "TEST_BYTES", 1)
    for kept, wanted in zip(SOME, whole, strict=True):
        close(CoalitionErrors(bound, y, weight).error(kept), wanted)


@pytest.mark.parametrize("name", ["forest", "boosting", "histogram"])
def test_no_digits_are_lost_to_an_offset(name):
    model = REGRESSORS[name].fit(TRAIN, TARGET + 1e6)
    errors = CoalitionErrors(bound_of(model, X), Y + 1e6, UNEQUAL)
    for kept in SOME:
        close(errors.error(kept), squared(answers(model.predict, X, kept), Y + 1e6, UNEQUAL), 1e-9)


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_residuals_of_a_few_last_digits_are_told_exactly(weight):
    """Targets near 2^40 that differ from the model by a few units in the last place: their mean is no such number."""
    model = REGRESSORS["tree"].fit(TRAIN, TARGET + 2.0**40)
    f = model.predict(X)
    y = f + np.spacing(2.0**40) * np.random.default_rng(1).integers(-3, 4, N)
    said = CoalitionErrors(bound_of(model, X), y, weight).error([0, 1, 2, 3])
    assert said == pytest.approx(np.average((y - f) ** 2, weights=weight), rel=1e-8)


def test_a_model_that_is_far_off_is_told_so():
    model = REGRESSORS["forest"].fit(TRAIN, TARGET + 1e6)
    close(squared_error(bound_of(model, X), [0], Y, EQUAL), squared(answers(model.predict, X, [0]), Y, EQUAL))


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_the_brier_score_of_forests(weight):
    model = RandomForestClassifier(6, max_leaf_nodes=10, random_state=0).fit(TRAIN, CLASSES)
    errors = CoalitionErrors(bound_of(model, X, "probabilities"), np.eye(3)[KINDS], weight)
    two = RandomForestClassifier(6, max_leaf_nodes=10, random_state=0).fit(TRAIN, CLASSES > 0)
    errors_two = CoalitionErrors(bound_of(two, X, "probabilities"), (KINDS > 0).astype(float), weight)
    for kept in SOME:
        close(errors.error(kept), squared(answers(model.predict_proba, X, kept), np.eye(3)[KINDS], weight))
        second = answers(two.predict_proba, X, kept)[:, :, 1:]
        close(errors_two.error(kept), squared(second, (KINDS > 0).astype(float), weight))


@pytest.mark.parametrize("trees", [1, 8])
@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_trees_that_take_turns_in_adding_to_outputs(weight, trees):
    model = GradientBoostingClassifier(n_estimators=trees, random_state=0).fit(TRAIN, CLASSES)
    wanted = RNG.normal(size=(N, 3))
    errors = CoalitionErrors(bound_of(model, X, "scores"), wanted, weight)
    for kept in SOME:
        close(errors.error(kept), squared(answers(model.decision_function, X, kept), wanted, weight))


@pytest.mark.parametrize("weighted", [False, True])
def test_many_rows_and_trees_with_many_leaves(weighted):
    """Counts with many digits, and more patterns in a tree than stand in a line of a table."""
    rows, target = table(3000)
    model = RandomForestRegressor(4, max_features=2, random_state=0).fit(rows, target)
    X, y = table(1100)
    bound = bound_of(model, X)
    assert np.diff(bound.leaf_at).min() > 1500
    weight = RNG.exponential(size=len(y)) if weighted else np.ones(len(y))
    for kept in ([0, 3], [1]):
        values = bound.codes[[j for j in range(P) if j not in kept]]
        raw = pair_table(bound, None, kept, values, np.arange(len(y)))
        wanted = squared(bound.respond(raw.reshape(-1, 1)).reshape(len(y), len(y), 1), y, weight)
        close(squared_error(bound, kept, y, weight), wanted)


def test_the_cost_counts_words():
    bound = bound_of(REGRESSORS["boosting"].fit(TRAIN, TARGET), X)
    assert coalitions.cost(bound) == len(bound.value) ** 2 * N / 64 < coalitions.MAX_WORD_OPERATIONS


# A single tree.


def averages(loss, weight):
    """Of each row and of each donor, from all pairs."""
    share = weight / weight.sum()
    return loss @ share, share @ loss


@pytest.mark.parametrize("name", ["tree", "large tree", "tree without a node"])
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "pinball"])
@pytest.mark.parametrize("found", [1 << 20, 1])
def test_any_loss_of_a_single_tree(name, loss, found, monkeypatch):
    monkeypatch.setattr(coalitions, "REACHED_LEAVES", found)
    model, function = REGRESSORS[name].fit(TRAIN, TARGET), brute.LOSSES[loss]
    bound = bound_of(model, X)
    value = bound.respond(bound.value)
    for kept in SUBSETS:
        got = single_tree_errors(bound, kept, lambda leaf, row: function(Y[row], value[leaf]), UNEQUAL)
        said = answers(model.predict, X, kept)[:, :, 0]
        for mine, wanted in zip(got, averages(function(Y[:, None], said), UNEQUAL), strict=True):
            np.testing.assert_allclose(mine, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_the_log_loss_of_a_single_tree(weight):
    model = DecisionTreeClassifier(max_leaf_nodes=15, random_state=0).fit(TRAIN, CLASSES)
    bound = bound_of(model, X, "probabilities")
    value = bound.respond(bound.value)
    for kept in SOME:
        got = single_tree_errors(
            bound, kept, lambda leaf, row: brute.LOSSES["log_loss"](KINDS[row], value[leaf]), weight
        )
        said = answers(model.predict_proba, X, kept)
        loss = np.stack([brute.LOSSES["log_loss"](KINDS, said[:, k]) for k in range(N)], axis=1)
        for mine, wanted in zip(got, averages(loss, weight), strict=True):
            np.testing.assert_allclose(mine, wanted, rtol=1e-10, atol=1e-12)


def test_a_single_tree_agrees_with_the_squared_error():
    bound = bound_of(REGRESSORS["tree"].fit(TRAIN, TARGET), X)
    value = bound.respond(bound.value)
    of_row, of_donor = single_tree_errors(bound, [0, 2], lambda leaf, row: (Y[row] - value[leaf]) ** 2, EQUAL)
    error = squared_error(bound, [0, 2], Y, EQUAL)
    close(of_row @ EQUAL, error)
    close(of_donor @ EQUAL, error)


def test_several_trees_are_not_a_single_one():
    bound = bound_of(REGRESSORS["forest"].fit(TRAIN, TARGET), X)
    with pytest.raises(ValueError, match="single tree, not 7"):
        single_tree_errors(bound, [0], lambda leaf, row: np.zeros(len(leaf)), EQUAL)


# All pairs, one by one.


def tables_of(bound):
    return small_trees.tables(bound) if np.diff(bound.leaf_at).max() <= node_rules.SMALL_TREE_LEAVES else None


@pytest.mark.parametrize("held", [1 << 22, 1])
def test_pairs_are_what_the_model_says(fitted, held, monkeypatch):
    monkeypatch.setattr(coalitions, "MASKS", held)
    bound = fitted[3]
    rows = np.array([5, 0, 33, 69])
    for kept in SUBSETS:
        values = bound.codes[[j for j in range(P) if j not in kept]]
        raw = pair_table(bound, tables_of(bound), kept, values, rows)
        assert raw.shape == (len(rows), N, 1)
        assert np.array_equal(raw, pair_table(bound, None, kept, values, rows))
        got = bound.respond(raw.reshape(-1, 1)).reshape(len(rows), N)
        np.testing.assert_allclose(got, said(fitted, kept)[rows, :, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "response"),
    [
        (RandomForestClassifier(6, max_leaf_nodes=10, random_state=0), "probabilities"),
        (GradientBoostingClassifier(n_estimators=8, random_state=0), "scores"),
    ],
    ids=["wide leaves", "trees in turn"],
)
def test_pairs_of_several_outputs(model, response):
    model.fit(TRAIN, CLASSES)
    predict = model.predict_proba if response == "probabilities" else model.decision_function
    bound, donors = bound_of(model, X, response), np.array([3, 4, 60])
    values = bound.codes[np.ix_([0, 2], donors)]
    raw = pair_table(bound, tables_of(bound), [1, 3], values, np.arange(N))
    assert np.array_equal(raw, pair_table(bound, None, [1, 3], values, np.arange(N)))
    got = bound.respond(raw.reshape(-1, 3)).reshape(N, len(donors), 3)
    np.testing.assert_allclose(got, answers(predict, X, [1, 3])[:, donors], rtol=1e-12, atol=1e-12)


def test_as_many_rows_with_weight_as_columns():
    """Rows without weight count for nothing, however many are left."""
    model = REGRESSORS["boosting"].fit(TRAIN, TARGET)
    weight = np.zeros(len(X))
    weight[[3, 8, 1, 7, 20, 15, 30, 11][:P]] = np.arange(1.0, P + 1)
    errors, kept = CoalitionErrors(bound_of(model, X), Y, weight), [0]
    close(errors.error(kept), squared(answers(model.predict, X, kept), Y, weight))
