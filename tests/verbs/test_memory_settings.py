"""The numbers of a call don't depend on `memory`, but for rounding: less memory means smaller batches, or an error."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import get_scorer
from sklearn.neighbors import KNeighborsRegressor

import losslens as ll
from losslens.results import Effects, Interactions, ShapleyEffect, ShapleyImportance

RNG = np.random.default_rng(0)
N, P = 60, 5
X = RNG.normal(size=(N, P)).round(1)
Y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * RNG.normal(size=N)
FOREST = RandomForestRegressor(5, random_state=0).fit(X, Y)
NEIGHBOURS = KNeighborsRegressor(3).fit(X, Y)
SETTINGS = ("1 GiB", "12 MiB", "4 MiB", "1 MiB")


def function(X):
    return X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * np.sin(X[:, 3])


def shares(model=function, **options):
    given = {"loss": "squared_error"} | options
    return lambda memory: ll.shapley_importance(model, X, Y, random_state=0, memory=memory, **given)


def importances(model=function, **options):
    given = {"loss": "squared_error"} | options
    return lambda memory: ll.feature_importance(model, X, Y, random_state=0, memory=memory, **given)


CALLS = {
    "walks, a budget": shares(method="walk", budget=20_000),
    "walks, few": shares(method="walk", budget=3_000),
    "walks, auto": shares(method="walk"),
    "walks, a precision": shares(method="walk", precision=ll.Absolute(0.2)),
    "walks, a design": shares(method="walk", donors=ll.Latin(7)),
    "walks, other rows": shares(method="walk", donors=ll.Derangements(), budget=10_000),
    "walks, some columns": shares(method="walk", features=["x0", "x1"], budget=5_000),
    "sage walks": shares(method=ll.Sage("walk"), budget=100_000),
    "sage": shares(method=ll.Sage("exact")),
    "coalitions": shares(method="exact"),
    "coalitions, a design": shares(method="exact", donors=ll.Latin(9)),
    "paper": shares(method=ll.Paper(5, 4)),
    "neighbours": shares(NEIGHBOURS, method="walk", budget=10_000),
    "forest": shares(FOREST),
    "scorer": shares(NEIGHBOURS, loss=get_scorer("r2"), donors=ll.Latin(4)),
    "effects by walks": lambda memory: ll.shapley_effect(
        function, X, [0, 3], method="walk", budget=20_000, random_state=0, memory=memory
    ),
    "effects": lambda memory: ll.shapley_effect(function, X, [0, 3], random_state=0, memory=memory),
    "importance": importances(),
    "importance, all pairs": importances(donors="all"),
    "importance, shifts": importances(donors=ll.Latin(11)),
    "importance, systematic": importances(donors=ll.Systematic(6)),
    "importance, permutations": importances(donors=ll.Permutations(5)),
    "importance, a sampler": importances(donors=ll.Residual(), features=["x0"]),
    "importance, groups": importances(features={"g": ["x0", "x1"], "h": ["x2"]}),
    "importance, forest": importances(FOREST),
    "effect": lambda memory: ll.feature_effect(function, X, random_state=0, memory=memory),
    "effect, grid": lambda memory: ll.feature_effect(function, X, donors=ll.Grid(6), random_state=0, memory=memory),
    "interactions": lambda memory: ll.pair_interactions(
        function, X, Y, loss="squared_error", features=["x0", "x1", "x2"], random_state=0, memory=memory
    ),
    "interactions, shifts": lambda memory: ll.pair_interactions(
        function, X, Y, loss="squared_error", features=["x0", "x1"], donors=ll.Latin(9), random_state=0, memory=memory
    ),
}


def numbers(found):
    """What a result says, and how many predictions it took."""
    if isinstance(found, ShapleyImportance):
        parts = [found.sfimp, found.monte_carlo_error, [found.error_none, found.n_predictions]]
        return np.concatenate(parts if found.shares is None else [*parts, found.local.ravel(), found.sampling_error])
    if isinstance(found, ShapleyEffect):
        return np.concatenate([found.local.ravel(), found.std_error.ravel(), [found.n_predictions]])
    if isinstance(found, Effects):
        return np.concatenate([*(one.pd for one in found.values()), [found.n_predictions]])
    if isinstance(found, Interactions):
        return np.append(found.index.ravel(), found.n_predictions)
    each = [[one.pfi, one.std_error, one.error, one.n_predictions, *one.interval()] for one in found.values()]
    return np.concatenate([*each, *(one.local for one in found.values())])


@pytest.mark.parametrize("call", CALLS)
def test_only_rounding_depends_on_memory(call):
    """Or the call is refused, with a size that is enough. Walks without a budget may end early, and then say so."""
    expected = numbers(CALLS[call]("8 GiB"))
    assert np.isfinite(expected).any()
    refused = []
    for memory in SETTINGS:
        try:
            result = CALLS[call](memory)
        except ValueError as error:
            assert "memory" in str(error)  # noqa: PT017
            refused.append(memory)
            continue
        assert not refused  # more memory did not help
        if any("memory= ended the walks" in remark for remark in getattr(result, "remarks", ())):
            assert call in ("walks, auto", "walks, a precision")
            continue
        np.testing.assert_allclose(numbers(result), expected, rtol=1e-9, atol=1e-10)
    assert len(refused) < len(SETTINGS) - 1


def test_a_refused_budget_names_a_memory_that_is_enough():
    with pytest.raises(
        ValueError, match=r"memory is too small for 83 sweeps .* pass memory='[^']+', or a smaller budget="
    ):
        CALLS["walks, a budget"]("1 MiB")
