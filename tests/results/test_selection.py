"""Choosing rows of a result: masks, positions, labels, and what is refused."""

from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import losslens as ll
from losslens.cells import matrix
from losslens.results.selection import positions, split
from losslens.tables.sample import chunks
from losslens.uncertainty import leave_one_out, standard_errors

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=20), RNG.integers(0, 2, size=20)])
Y = X[:, 0] + X[:, 1] + RNG.normal(size=20)
DESIGNS = [ll.All(), ll.Derangements(), ll.Grid(14), ll.Latin(6), ll.Systematic(6), ll.Permutations(6)]


def explain(donors="all", **options):
    return ll.feature_importance(
        lambda X: X[:, 0] * (1 + X[:, 1]), X, Y, loss="squared_error", donors=donors, random_state=0, **options
    )


def same(a, b):
    assert a.pfi == pytest.approx(b.pfi)
    np.testing.assert_allclose(a.local, b.local)
    np.testing.assert_allclose(a.pi, b.pi)
    np.testing.assert_allclose(a.ici, b.ici)
    np.testing.assert_allclose(a.weights, b.weights)
    assert a.error == pytest.approx(b.error)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_masks_positions_series_and_negative_positions_choose_alike(design):
    feature = explain(design)["x0"]
    mask = X[:, 1] == 1
    expected = feature.given(mask)
    for rows in (np.flatnonzero(mask), list(np.flatnonzero(mask)), pd.Series(mask, index=range(50, 70)), mask.tolist()):
        same(feature.given(rows), expected)
    same(feature.given(np.flatnonzero(mask) - 20), expected)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_all_rows_are_the_whole(design):
    feature = explain(design)["x0"]
    same(feature.given(np.arange(20)), feature)
    same(feature.subset(np.ones(20, bool)), feature)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_choosing_twice_is_choosing_once(design):
    feature = explain(design)["x0"]
    rows, again = np.arange(0, 20, 2), np.array([1, 4, 5, 7])
    same(feature.given(rows).given(again), feature.given(rows[again]))
    same(feature.subset(rows).subset(again), feature.subset(rows[again]))


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_by_is_given_for_each_label(design):
    feature, labels = explain(design)["x0"], np.where(X[:, 0] > 0, "b", "a")
    parts = feature.by(labels)
    assert list(parts) == ["a", "b"]
    for label, part in parts.items():
        same(part, feature.given(labels == label))


def test_all_features_choose_together():
    found, rows = explain(), np.arange(7)
    for name in found:
        same(found.given(rows)[name], found[name].given(rows))
        same(found.subset(rows)[name], found[name].subset(rows))
    labels = X[:, 1].astype(int)
    assert list(found.by(labels)) == [0, 1]
    same(found.by(labels)[1]["x0"], found["x0"].given(labels == 1))


def test_given_and_subset_differ():
    feature, low = explain()["x0"], X[:, 0] < 0
    assert feature.given(low).pfi != pytest.approx(feature.subset(low).pfi)


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        (np.ones(19, bool), ValueError, "the mask has 19 entries for 20 rows"),
        ([0, 20], ValueError, "row positions run from 0 to 19; got 0 to 20"),
        ([-21], ValueError, "row positions run from 0 to 19"),
        ([], ValueError, "no row is chosen"),
        (np.zeros(20, bool), ValueError, "no row is chosen"),
        ([3, 3], ValueError, "occurs twice"),
        ([1, -19], ValueError, "occurs twice"),
        (np.ones(20), TypeError, "a boolean mask or a list of row positions"),
        ("x0", TypeError, "a boolean mask or a list of row positions"),
        (np.ones((20, 1), bool), TypeError, "a boolean mask or a list of row positions"),
    ],
)
@pytest.mark.parametrize("method", ["given", "subset"])
def test_rows_that_choose_nothing_sensible_are_refused(method, rows, error, words):
    with pytest.raises(error, match=words):
        getattr(explain()["x0"], method)(rows)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.arange(19), "one label for each of 20 rows"),
        (np.ones((20, 2)), "one label for each of 20 rows"),
        (np.r_[np.nan, np.ones(19)], "1 missing"),
        (np.array([None, np.nan, *"a" * 18], dtype=object), "2 missing"),
        (pd.Series([pd.NA, *range(19)], dtype="Int64"), "1 missing"),
    ],
)
def test_labels_that_leave_rows_out_are_refused(labels, words):
    with pytest.raises(ValueError, match=words):
        explain().by(labels)


def test_labels_come_in_their_order_whatever_their_type():
    assert list(split(["b", "a", "b"], 3)) == ["a", "b"]
    assert list(split(pd.Categorical(["u", "v", "u"]), 3)) == ["u", "v"]
    assert list(split([True, False, True], 3)) == [False, True]
    assert list(split(np.array([1, "a", 1], dtype=object), 3)) == [1, "a"]
    np.testing.assert_array_equal(split(np.array([1, "a", 1], dtype=object), 3)["a"], [False, True, False])


def test_positions_come_back_sorted():
    np.testing.assert_array_equal(positions([3, 1, -1], 5), [1, 3, 4])
    np.testing.assert_array_equal(positions(np.array([True, False, True], dtype=object), 3), [0, 2])


def test_results_can_not_be_changed_by_accident():
    feature = explain()["x0"]
    with pytest.raises(FrozenInstanceError):
        feature.name = "other"
    with pytest.raises(AttributeError):
        feature.pfi = 0.0


def test_rows_with_nobody_to_lend_say_so():
    with pytest.raises(ValueError, match="no cell to average"):
        explain(ll.Derangements())["x0"].subset([0]).pfi  # noqa: B018
    grouped = explain(groups=np.arange(20) // 5)["x0"]
    with pytest.raises(ValueError, match="no cell to average"):
        grouped.subset(np.arange(5)).pfi  # noqa: B018
    weight = np.r_[np.zeros(3), np.ones(17)]
    with pytest.raises(ValueError, match="weigh"):
        explain(sample_weight=weight)["x0"].given(np.arange(3)).pfi  # noqa: B018
    with pytest.raises(ValueError, match="weight zero"):
        explain(sample_weight=weight)["x0"].subset(np.arange(3))


def test_dates_in_nanoseconds_are_labels_too():
    days = np.array(["2020-01-01", "2020-01-02"], "M8[ns]")[np.arange(20) % 2]
    parts = explain(ll.All())["x0"].by(days)
    assert list(parts) == sorted(set(days))
    assert all(len(part.at) == 10 for part in parts.values())


@pytest.mark.parametrize("donors", ["all", ll.Derangements(), ll.Systematic(4)], ids=str)
def test_choosing_rows_of_a_streamed_result_is_linear_in_the_rows(donors, monkeypatch):
    """Cells that `by`, `given`, intervals and ranks go through: the kept ones, whose number `memory` bounds, and those
    of designs with few donors a row. Twice the rows have at most twice as many; all pairs would have four times."""
    touched = []

    def counted(rows, width, least=0):
        touched.append(len(rows) * width)
        return chunks(rows, width, least)

    for module in (matrix, standard_errors, leave_one_out):
        monkeypatch.setattr(module, "chunks", counted)
    cells = []
    for n in (3000, 6000):
        x = np.random.default_rng(n).normal(size=(n, 2))
        imp = ll.feature_importance(
            LinearRegression().fit(x, x[:, 0]), x, x[:, 0] + x[:, 1], donors=donors, memory=2**18, random_state=0
        )
        assert not imp["x0"].complete
        touched.clear()
        assert len(imp.by(np.arange(n) % 5)) == 5
        imp["x0"].given(np.arange(n // 3))
        for feature in imp.values():
            assert feature.interval()[0] < feature.interval()[1]
        imp.ranks()
        cells.append(sum(touched))
    assert cells[1] <= 2.1 * cells[0] + 1000


def test_some_rows_have_the_values_of_their_donors_only():
    one = explain(ll.Latin(3))["x0"]
    donors = np.asarray(one.layout.donors[np.array([0, 7])])
    part = one.given([0, 7])
    np.testing.assert_array_equal(part.values[0], np.unique(X[donors, 0]))
    assert np.isfinite(part.pi).all()
