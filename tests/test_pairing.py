"""Interactions of performance, two features at a time: against permutation importances of one and of both."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

import brute
import losslens as ll

RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 4))
X[:, 3] = RNG.integers(0, 3, N)
Y = X[:, 0] * (1 + X[:, 1]) + X[:, 2] + RNG.normal(size=N)
FOREST = RandomForestRegressor(5, max_leaf_nodes=8, random_state=0).fit(X, Y)
NAMES = ("x0", "x1", "x2", "x3")


def simulation(X):
    """Simulation 2 of the paper."""
    return X[:, 0] + X[:, 1] + X[:, 2] + X[:, 0] * X[:, 1]


def ask(model=simulation, X=X, y=Y, loss="squared_error", **options):
    return ll.pair_interactions(model, X, y, loss=loss, **options)


def direct(predict, j, k, loss="squared_error"):
    """PFI_j + PFI_k - PFI_jk over all pairs of rows."""
    alone = [brute.cells(predict, X, Y, columns, brute.LOSSES[loss]).mean() for columns in ([j], [k], [j, k])]
    return alone[0] + alone[1] - alone[2]


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
@pytest.mark.parametrize("native", ["function", "forest"])
def test_interactions_are_what_two_importances_have_in_common(native, loss):
    fitted, predict = (simulation, simulation) if native == "function" else (FOREST, FOREST.predict)
    found = ask(fitted, loss=loss, donors="all")
    assert found.features == NAMES
    for j in range(4):
        assert found.index[j, j] == 0
        for k in range(j):
            expected = direct(predict, j, k, loss)
            assert found[NAMES[j], NAMES[k]] == pytest.approx(expected, abs=1e-9)
            assert found[NAMES[k], NAMES[j]] == found[NAMES[j], NAMES[k]]


def test_the_papers_second_simulation():
    """PFI_1 = PFI_2 = 2 + 2, PFI_12 = 2 + 2 + 2: the product counts for both, 2 in common; nothing else does.

    2,000 rows; products of normals have a spread of a few, so that a twentieth of it is a tenth or two.
    """
    Z = np.random.default_rng(1).normal(size=(2000, 3))
    found = ask(X=Z, y=simulation(Z), donors=ll.Latin(20), random_state=0)
    assert found["x0", "x1"] == pytest.approx(2, abs=0.5)
    assert found["x0", "x2"] == pytest.approx(0, abs=0.5)
    assert found["x1", "x2"] == pytest.approx(0, abs=0.5)


def test_all_sign_patterns_have_the_theoretical_answer():
    """On all 8 rows of signs the columns are independent to the last digit: x0 x1 interacts by 2, nothing else does."""
    Z = np.array([[a, b, c] for a in (-1.0, 1.0) for b in (-1.0, 1.0) for c in (-1.0, 1.0)])
    found = ask(X=Z, y=simulation(Z))
    np.testing.assert_allclose(found.index, [[0, 2, 0], [2, 0, 0], [0, 0, 0]], atol=1e-12)
    shapley = ll.shapley_importance(simulation, Z, simulation(Z), loss="squared_error")
    np.testing.assert_allclose(shapley.interactions.index, found.index, atol=1e-12)
    np.testing.assert_allclose(shapley.sfimp, [3, 3, 2], atol=1e-12)


def test_some_pairs_alone_are_asked_for():
    found = ask(pairs=[("x3", "x1"), ("x1", "x0")])
    whole = ask()
    assert set(found.features) == {"x3", "x1", "x0"}
    for pair in (("x3", "x1"), ("x0", "x1")):
        assert found[pair] == pytest.approx(whole[pair], abs=1e-12)
    assert np.isnan(found["x3", "x0"])
    frame = found.to_frame()
    assert len(frame) == 2
    assert np.abs(frame["interaction"]).is_monotonic_decreasing


def test_groups_interact_too():
    found = ask(features={"a": [0, 3], "b": [1], "c": [2]})
    both, a, b = (
        brute.cells(simulation, X, Y, columns, brute.LOSSES["squared_error"]).mean()
        for columns in ([0, 3, 1], [0, 3], [1])
    )
    assert found["a", "b"] == pytest.approx(a + b - both, abs=1e-9)


def test_frames_and_options_are_those_of_feature_importance():
    frame = pd.DataFrame(X, columns=["a b", "c", "d", "e"])
    weight = RNG.integers(1, 4, N)

    def named(table):
        return simulation(np.asarray(table))

    found = ask(named, frame, donors=ll.Derangements(), sample_weight=weight, features=["a b", "c"])
    alone = ll.feature_importance(
        named, frame, Y, loss="squared_error", donors=ll.Derangements(), sample_weight=weight,
        features={"a b": ["a b"], "c": ["c"], "both": ["a b", "c"]},
    )  # fmt: skip
    assert found["a b", "c"] == pytest.approx(alone["a b"].pfi + alone["c"].pfi - alone["both"].pfi)
    assert isinstance(found.to_frame(), pd.DataFrame)
    assert "a b, c" in repr(found)


def test_one_pair_and_a_feature_named_like_a_pair():
    """A group that carries the name of two others together must not be mistaken for them."""
    players = {"x0": [0], "x1": [1], "x0 and x1": [2]}
    found = ask(features=players)
    assert found["x0", "x1"] == pytest.approx(direct(simulation, 0, 1), abs=1e-9)
    assert found["x0", "x0 and x1"] == pytest.approx(direct(simulation, 0, 2), abs=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["x0"]}, "an interaction needs two features"),
        ({"features": [("x0", "x1")]}, r"name the pairs in pairs=\[\(a, b\), ...\]"),
        ({"pairs": [("x0", "x0")]}, "pairs is a list of two different names each"),
        ({"pairs": ["x0x1"]}, "pairs is a list of two different names each"),
        ({"pairs": [("x0", "x1", "x2")]}, "pairs is a list of two different names each"),
        ({"pairs": [("x0", "x9")]}, "unknown feature 'x9' in pairs"),
        ({"pairs": []}, "pairs"),
        ({"features": {"a": [0, 1], "b": [1, 2]}}, "overlap|twice"),
        ({"y": None}, "y, the true values, is missing"),
    ],
    ids=str,
)
def test_calls_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ask(**options)
