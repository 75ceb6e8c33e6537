"""Arrays of results are read-only; users change copies. `tests/results/test_walls.py` looks at every result."""

import operator

import numpy as np
import pytest

import losslens as ll
from losslens.tables.frozen import read_only

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X[:, 0] + X[:, 1] * X[:, 2]


def model(table):
    return np.asarray(table)[:, 0] * np.asarray(table)[:, 1]


@pytest.fixture(scope="module")
def importances():
    return ll.feature_importance(model, X, Y, loss="squared_error", random_state=0)


@pytest.fixture(scope="module")
def shares():
    return ll.shapley_importance(model, X, Y, loss="squared_error", random_state=0)


def some_results(importances, folder):
    importances.save(folder / "all.losslens")
    chosen = np.arange(40) % 2 == 0
    yield importances
    yield ll.load(folder / "all.losslens")
    yield importances.given(chosen)
    yield importances.subset(chosen)
    yield importances.by(chosen)[True]


def test_arithmetic_in_place_is_refused_and_changes_nothing(shares):
    before = shares.sfimp.copy()
    with pytest.raises(ValueError, match="read-only"):
        shares.sfimp *= 2
    assert np.array_equal(shares.sfimp, before)


def test_no_element_can_be_written_whichever_way_a_result_was_made(importances, tmp_path):
    for result in some_results(importances, tmp_path):
        first = result["x0"]
        for array in (first.local, first.pi, first.grid, first.ici, first.weights, result.local, result.observations):
            with pytest.raises(ValueError, match="read-only"):
                operator.setitem(array, 0, 1.0)


def test_copies_can_be_changed(importances):
    copy = importances["x0"].local.copy()
    copy *= 2
    assert np.array_equal(copy, 2 * importances["x0"].local)


@pytest.mark.parametrize("of", [lambda imp: imp, lambda imp: imp["x0"], lambda imp: imp.by(np.arange(40) % 2)])
def test_frames_can_be_changed_and_the_result_stays(importances, of):
    pytest.importorskip("pandas")
    result = of(importances)
    frame, before = result.to_frame(), result.to_frame()
    for name in frame.columns:
        if frame[name].dtype.kind == "f":
            frame[name] *= 2
            frame.loc[frame.index[0], name] = -1.0
    assert not frame.equals(before)
    assert result.to_frame().equals(before)


def test_an_array_of_somebody_else_stays_writeable_and_is_not_copied():
    own = np.zeros(3)
    view = read_only(own)
    assert own.flags.writeable
    assert not view.flags.writeable
    assert np.shares_memory(own, view)
    assert read_only(view) is view


def test_arrays_that_results_share_are_stored_once(importances, tmp_path):
    """The position of every row, and the weights, are those of all features."""
    importances.save(tmp_path / "all.losslens")
    loaded = ll.load(tmp_path / "all.losslens")
    assert np.shares_memory(importances["x0"].at, importances["x1"].at)
    assert np.shares_memory(loaded["x0"].at, loaded["x1"].at)
