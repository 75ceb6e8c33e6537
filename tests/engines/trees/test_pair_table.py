"""Pairs of rows and donors: what follows from the leaves of trees is what the model itself says."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

from losslens.engines.trees import node_rules, small_trees
from losslens.engines.trees import pair_table as module
from losslens.engines.trees.pair_table import pair_table
from tree_cases import (
    CLASSES,
    FRAME,
    FRAME_TARGET,
    FRAME_TRAIN,
    FRAME_Y,
    REGRESSORS,
    SUBSETS,
    TARGET,
    TRAIN,
    N,
    P,
    X,
    Y,
    answers,
    bound_of,
)


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


def tables_of(bound):
    return small_trees.tables(bound) if np.diff(bound.leaf_at).max() <= node_rules.SMALL_TREE_LEAVES else None


@pytest.mark.parametrize("held", [1 << 22, 1])
def test_pairs_are_what_the_model_says(fitted, held, monkeypatch):
    monkeypatch.setattr(module, "MASKS", held)
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
