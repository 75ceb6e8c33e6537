"""What a call takes above its data: `memory`, three times the table, and 16 bytes for each row and feature.

Besides those, results have 8 bytes for each local importance.
"""

import tracemalloc

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import losslens as ll
from losslens.donors.layout import CommonGrid
from losslens.passes import memory

pytestmark = pytest.mark.thread_unsafe  # tracemalloc counts what all threads take

N, P, MEMORY = 40_000, 10, 16 * 2**20
BESIDES = 3 * 8 * N * P + 16 * N * P
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, P))
Y = X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=N)
FOREST = RandomForestRegressor(5, max_depth=5, random_state=0).fit(X[:1000], Y[:1000])


LINEAR = LinearRegression().fit(X[:1000], Y[:1000])


def function(X):
    return X[:, 0] + X[:, 1] * X[:, 2]


def importance(model, rows, memory):
    return ll.feature_importance(model, X[:rows], Y[:rows], loss="squared_error", memory=memory, random_state=0)


def effect(model, rows, memory):
    return ll.feature_effect(model, X[:rows], memory=memory, random_state=0)


def measured(verb, model):
    """The result, and the bytes that are kept and that were taken at the peak."""
    verb(model, 500, "1 GiB")  # imports and compiled code are not counted
    tracemalloc.start()
    try:
        result = verb(model, N, MEMORY)
        return result, *tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("model", [function, FOREST], ids=["black box", "trees"])
@pytest.mark.parametrize("verb", [importance, effect])
def test_peak_and_result_stay_within_memory(verb, model):
    """All values are distinct, so every vector along the grid is as long as the rows: the most that there can be.

    The model's own use is the sum of two columns of a batch, under a hundredth of `memory`.
    """
    result, kept, peak = measured(verb, model)
    allowed = MEMORY + BESIDES + (8 * N * P if verb is importance else 0)
    assert peak <= 1.01 * allowed
    assert kept <= 0.75 * (allowed - BESIDES)
    assert len(result["x0"].rows) < N


def shares(model, rows, memory):
    return ll.shapley_importance(model, X[:rows], Y[:rows], memory=memory, random_state=0)


def interactions(model, rows, memory):
    return ll.pair_interactions(model, X[:rows], Y[:rows], pairs=[("x0", "x1"), ("x1", "x2")], memory=memory)


def impact(model, rows, memory):
    sampler = ll.Residual(LinearRegression())
    options = {"loss": "squared_error", "features": ["x0", "x1"], "memory": memory, "random_state": 0}
    return ll.conditional_predictive_impact(model, X[:rows], Y[:rows], sampler, **options)


@pytest.mark.parametrize(
    ("verb", "model"),
    [(shares, LINEAR), (interactions, FOREST), (impact, function)],
    ids=["closed form of shares", "pairs of trees", "residuals"],
)
def test_verbs_stay_within_memory(verb, model):
    _, _, peak = measured(verb, model)
    assert peak <= 1.01 * (MEMORY + BESIDES + 8 * N * P)


@pytest.mark.parametrize(
    ("model", "donors", "more"),
    [(FOREST, "all", 0), (function, ll.Systematic(2), 8 * N * P + 16 * N)],
    ids=["trees", "black box"],
)
def test_results_of_a_comparison_share_what_they_hold_of_the_columns(model, donors, more):
    """Two models, all values distinct.

    Trees: 12 bytes for each value (the value, and the position of its row), once; 4 for its class, of each model, were
    it not kept as runs. Shifts along a column: 4 for each row, once. Both results have 8 for each local importance. A
    black box has 8 more for what the row causes as a donor, beyond `memory` for the second model, as are its
    predictions and losses.
    """
    options = {"loss": "squared_error", "donors": donors, "random_state": 0}

    def comparison(model, rows, memory):
        return ll.compare({"a": model, "b": model}, X[:rows], Y[:rows], shapley=False, memory=memory, **options)

    result, _, peak = measured(comparison, model)
    assert peak <= 1.01 * (MEMORY + BESIDES + 2 * 8 * N * P + more)
    alone = ll.feature_importance(model, X, Y, memory=MEMORY // 2, **options)
    for name, one in alone.items():
        a, b = (result.importances[which][name] for which in "ab")
        if isinstance(a.layout, CommonGrid):
            assert b.layout.own is a.layout.own
            assert np.shares_memory(b.values[0], a.values[0])
            assert not a.values[0].flags.writeable  # or one result could change the other
        else:
            assert b.layout.donors.donor is a.layout.donors.donor
        assert np.array_equal(b.values[0], one.values[0])
        assert np.array_equal(b.local, one.local)
        assert np.array_equal(b.means.pd, one.means.pd)
        assert np.array_equal(b.means.caused, one.means.caused)


@pytest.mark.parametrize("donors", [ll.Latin(8), ll.Permutations(8)], ids=str)
def test_donors_of_each_row_are_drawn_again_not_kept(donors):
    """Bytes of a row and feature, all values distinct.

    8 for its local importance, what it causes as a donor, its value and the mean prediction there; 4 for its position
    on the grid. PI is what the donor of a value causes; weights are equal; donors follow from the seed. The peak has
    no more than `memory` above the local importances and the points of both curves.
    """

    def importance(model, rows, memory):
        options = {"loss": "squared_error", "donors": donors, "memory": memory, "random_state": 0}
        return ll.feature_importance(model, X[:rows], Y[:rows], **options)

    result, kept, peak = measured(importance, function)
    cells = sum(one.cells.predictions.nbytes + one.cells.changes.nbytes for one in result.values())
    of_rows = 8 * 8 * N  # y, weights, predictions, losses: once for all features
    assert kept - cells <= (4 * 8 + 4) * N * P + of_rows
    assert peak <= 1.01 * (MEMORY + BESIDES + (8 + 16) * N * P)
    one = result["x1"]
    assert one.pi @ one.weights == pytest.approx(one.pfi, rel=1e-12)
    assert np.array_equal(one.pi[one.layout.place], one.means.caused)


def left_out(model, rows, memory):
    return ll.leave_one_covariate_out(model, X[:rows], Y[:rows], cv=2, random_state=0)


def test_features_are_left_out_of_one_table_at_a_time():
    """Ten tables of nine columns would take 72 bytes a row and feature; losses with, without and of information 24."""
    _, _, peak = measured(left_out, LINEAR)
    assert peak <= 70 * N * P


def test_clusters_hold_no_values_of_all_rows():
    """A point of each row, and what one column takes while its values are sorted; splits of 10,000 rows, 64 at a time.

    Distinct values of all columns would be 12 bytes a row and feature more, a matrix of 256 splits 30 MB.
    """
    known = {rows: shares(LINEAR, rows, "1 GiB") for rows in (500, N)}

    def clustered(_, rows, memory):
        return known[rows].clusters(X[:rows], k=3, starts=2, random_state=0)

    _, _, peak = measured(clustered, None)
    assert peak <= 8 * N * P + 12 * 64 * 10_000 + 160 * N


def test_a_call_that_needs_more_than_the_machine_has_is_refused_before_it_predicts(monkeypatch):
    asked = []

    def counted(table):
        asked.append(len(table))
        return function(table)

    monkeypatch.setattr(memory, "machine_bytes", lambda: 1e8)
    options = {"loss": "squared_error", "random_state": 0}
    with pytest.raises(ValueError, match=r"would hold 122.5 MiB, but the machine has 95.4 MiB; .* smaller memory="):
        ll.feature_importance(counted, X[:2000], Y[:2000], features=["x0", "x1"], donors="all", **options)
    assert asked == []
    few = ll.feature_importance(function, X[:200], Y[:200], features="x0", donors="all", memory="1 MiB", **options)
    assert few.exact


def test_the_memory_of_a_container_counts(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "CONTAINER_LIMIT", limit)
    machine = memory.machine_bytes()  # without such a file
    for said, counts in (("1048576\n", 2**20), ("max\n", machine)):
        limit.write_text(said)
        assert memory.machine_bytes() == counts
    monkeypatch.delattr(memory.os, "sysconf")  # as on Windows
    assert memory.machine_bytes() == float("inf")
