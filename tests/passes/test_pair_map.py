"""Two features at once, against loops over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import losslens as ll
from losslens.models import as_model
from losslens.passes.pair_map import MOST_BINS, MOST_ROWS, ValueBins, pair_map
from losslens.passes.task import Options, default_loss, prepare
from losslens.tables.columns import array_column

RNG = np.random.default_rng(2)
N = 90
X = pd.DataFrame(
    {"a": RNG.normal(size=N), "k": RNG.choice(["u", "v", "w"], N, p=[0.6, 0.3, 0.1]), "b": RNG.normal(size=N)}
)
X.loc[:4, "a"] = np.nan
X.loc[X["a"] > 0.8, "k"] = "u"
Y = X["a"].fillna(0) * (X["k"] == "u") + X["b"] + RNG.normal(size=N)
WEIGHT = RNG.integers(0, 3, N)


def model(X: Any) -> Any:
    return np.asarray(X["a"].fillna(3.0) * (X["k"] == "u") + X["b"])


def task(model: Any, X: Any, y: Any, features: Any, weight: Any = None, loss: Any = None) -> Any:
    chosen = default_loss(as_model(model), loss, y)
    options = Options(features=features, sample_weight=weight, random_state=0)
    return prepare(model, X, y, options, loss=chosen, response=chosen.reads, exact=False)


def test_the_map_is_the_mean_over_rows_with_both_values() -> None:
    found = pair_map(task(model, X, Y, ["a", "k"], WEIGHT, "squared_error"))
    first, second = found.bins
    kept = WEIGHT > 0
    assert found.rows == kept.sum()
    assert found.error == pytest.approx(np.average((Y - model(X))[kept] ** 2, weights=WEIGHT[kept]))
    for u, row in enumerate(first.row):
        for v, other in enumerate(second.row):
            moved = X[kept].copy()
            moved["a"], moved["k"] = X["a"][row], X["k"][other]
            predicted = model(moved)
            assert found.prediction[u, v] == pytest.approx(np.average(predicted, weights=WEIGHT[kept]))
            assert found.loss[u, v] == pytest.approx(np.average((Y[kept] - predicted) ** 2, weights=WEIGHT[kept]))
            assert found.count[u, v] == np.sum((first.of == u) & (second.of == v))
    assert found.count.sum() == N - 5  # missing values are in no bin
    top = first.of == first.of.max()
    assert (X["k"][top] == "u").all()
    assert (found.count[-1] == 0).sum() == 2  # no row has both: hatched


def test_bins_are_values_or_ranges_with_as_many_rows() -> None:
    values = RNG.normal(size=600)
    bins = ValueBins.by(array_column(values).distinct)
    assert np.bincount(bins.of).tolist() == [100] * MOST_BINS
    for b, row in enumerate(bins.row):
        inside = np.sort(values[bins.of == b])
        assert values[row] == inside[(len(inside) - 1) // 2]
    few = ValueBins.by(array_column(np.array([3, 1, 1, 2])).distinct)
    assert few.of.tolist() == [2, 0, 0, 1]
    assert few.row.tolist() == [1, 3, 0]
    heavy = ValueBins.by(array_column(np.r_[np.zeros(500), np.arange(1, 101)]).distinct)
    assert heavy.of.min() == 0
    assert len(heavy.row) == heavy.of.max() + 1 == 2
    words = ValueBins.by(array_column(np.array(list("aaabbbccddeeffgh"), dtype=object)).distinct)
    assert words.of.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, -1, -1]


def test_probabilities_have_one_map_a_class_and_many_rows_are_sampled() -> None:
    X = RNG.normal(size=(MOST_ROWS + 200, 3))
    y = np.array(["x", "y", "z"])[np.clip(np.rint(X[:, 0] * X[:, 1] + 1), 0, 2).astype(int)]
    fitted = LogisticRegression().fit(X, y)
    found = pair_map(task(fitted, X, y, [0, 2]))
    assert found.rows == MOST_ROWS
    assert found.prediction.shape == (MOST_BINS, MOST_BINS, 3)
    np.testing.assert_allclose(found.prediction.sum(axis=2), 1)


def test_the_page_shows_the_strongest_pair_and_hatches_what_no_row_has(opened: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[:, 1] = np.where(X[:, 0] > 0, np.abs(X[:, 1]), X[:, 1])  # no row has a large x0 and a small x1
    y = X[:, 0] * X[:, 1] + 0.1 * X[:, 2]
    summary = ll.report(
        lambda X: X[:, 0] * X[:, 1] + 0.1 * X[:, 2], X, y, loss="squared_error", random_state=0, progress=False
    ).summary
    found = summary["interactions"]["map"]
    assert {found["first"], found["second"]} == {"x0", "x1"}
    assert found["error"] == pytest.approx(0)
    page = opened(summary)
    page.locator("#pair-map").scroll_into_view_if_needed()
    assert page.locator("#pair-map-error td.no-rows").count() == int((found["count"] == 0).sum()) > 0
    cells = page.locator("#pair-map-prediction tbody td").all_inner_texts()
    shown = np.array([float(text.split()[0].replace("−", "-")) for text in cells])
    np.testing.assert_allclose(shown, np.ravel(found["prediction"]), atol=0.02)
    assert "All 200 rows get" in page.locator("#pair-map-words").inner_text()
    additive = ll.report(lambda X: X[:, 0], X, y, loss="squared_error", interactions=False, progress=False).summary
    assert additive["interactions"] is None
    bare = ll.report(lambda X: X[:, 0] * X[:, 1], X, y, loss="squared_error", embed="none", progress=False).summary
    assert bare["interactions"]["map"] is None  # ends of ranges are values of single rows
