"""Features that go together: groups of columns."""

import numpy as np
import pandas as pd
import pytest

import losslens as ll


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_groups_are_ready_for_features(rng):
    size = rng.normal(size=300)
    X = pd.DataFrame({"cut": rng.choice(list("abc"), 300), "carat": size, "x": size**3 + 0.1 * rng.normal(size=300)})
    groups = ll.feature_groups(X)
    assert groups == {"cut": ["cut"], "carat, x": ["carat", "x"]}
    imp = ll.feature_importance(lambda X: X["carat"] + X["x"], X, size, loss="squared_error", features=groups)
    assert list(imp) == ["cut", "carat, x"]
    assert imp["carat, x"].columns == ("carat", "x")


def test_groups_are_the_same_for_every_container_and_order_of_calls(rng):
    pl = pytest.importorskip("polars")
    X = rng.normal(size=(6000, 3))
    X[:, 2] = X[:, 0] + 0.1 * X[:, 1]
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    expected = {"a, c": ["a", "c"], "b": ["b"]}
    assert ll.feature_groups(frame) == ll.feature_groups(pl.from_pandas(frame)) == expected
    assert [[str(column) for column in group] for group in ll.feature_groups(X).values()] == [["x0", "x2"], ["x1"]]


def test_a_group_is_not_called_as_a_column_is(rng):
    x = rng.normal(size=100)
    X = pd.DataFrame({"a": x, "b": x, "a, b": rng.normal(size=100)})
    assert ll.feature_groups(X) == {"a, b ": ["a", "b"], "a, b": ["a, b"]}


@pytest.mark.parametrize("threshold", [0, -0.5, 1.5, "high", True, None, float("nan")])
def test_a_threshold_is_a_number_up_to_one(threshold):
    with pytest.raises(ValueError, match="threshold is an association above 0 and at most 1"):
        ll.feature_groups(np.eye(30), threshold)


def test_files_are_refused(tmp_path):
    with pytest.raises(TypeError, match="read some rows of the files"):
        ll.feature_groups(str(tmp_path / "data.parquet"))
