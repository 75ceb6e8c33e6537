"""What a call takes above its data: `memory`, and 8 bytes for each local importance."""

import tracemalloc

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import losslens as ll

N, P, MEMORY = 40_000, 10, 16 * 2**20
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, P))
Y = X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=N)
FOREST = RandomForestRegressor(5, max_depth=5, random_state=0).fit(X[:1000], Y[:1000])


def function(X):
    return X[:, 0] + X[:, 1] * X[:, 2]


def importance(model, rows, memory):
    return ll.feature_importance(model, X[:rows], Y[:rows], loss="squared_error", memory=memory, random_state=0)


def effect(model, rows, memory):
    return ll.feature_effect(model, X[:rows], memory=memory, random_state=0)


@pytest.mark.parametrize("model", [function, FOREST], ids=["black box", "trees"])
@pytest.mark.parametrize("verb", [importance, effect])
def test_peak_and_result_stay_within_memory(verb, model):
    """All values are distinct, so every vector along the grid is as long as the rows: the most that there can be.

    The model's own use is the sum of two columns of a batch, under a hundredth of `memory`.
    """
    verb(model, 500, "1 GiB")  # imports and compiled code are not counted
    tracemalloc.start()
    try:
        result = verb(model, N, MEMORY)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    allowed = MEMORY + (8 * N * P if verb is importance else 0)
    assert peak <= 1.01 * allowed
    assert kept <= 0.75 * allowed
    assert len(result["x0"].rows) < N
