"""The difference in error between two groups of rows: lines by brute force, exact sums, errors by deletion."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer

import brute
import coalitions
import losslens as ll

RNG = np.random.default_rng(3)
N = 26
X = np.column_stack([RNG.normal(size=(N, 2)), RNG.integers(0, 3, N)])
Y = X[:, 0] * (1 + X[:, 1]) + X[:, 2] + RNG.normal(size=N)
WEIGHT = RNG.uniform(0.2, 3, N)
WEIGHT[4] = 0.0
CLUSTERS = np.arange(N) // 2
FIRST = X[:, 2] > 0
SECOND = ~FIRST & (np.arange(N) > 2)
LINEAR = LinearRegression().fit(X, Y)
TREES = HistGradientBoostingRegressor(max_iter=9, min_samples_leaf=3, random_state=0).fit(X, Y)


def model(X):
    return X[:, 0] * (1 + X[:, 1]) + X[:, 2]


def share(model=model, loss="squared_error", **options):
    return ll.shapley_importance(model, X, Y, loss=loss, **({"random_state": 0, "method": "rows"} | options))


KINDS = {
    "a function": share,
    "closed form": lambda **more: share(LINEAR, **more),
    "trees": lambda **more: share(TREES, **more),
    "apart": lambda **more: share(donors=ll.Derangements(), **more),
    "drawn": lambda **more: share(donors=ll.Latin(8), **more),
    "walks": lambda **more: share(method="walk", **more),
    "some columns": lambda **more: share(features=["x0", "x1"], **more),
    "SAGE": lambda **more: share(method=ll.Sage(), **more),
    "within leaves": lambda **more: share(donors=ll.Within(), **more),
}


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_lines_sum_to_the_difference_in_error(kind, weight):
    """Whatever the way: ``l_i = u_i - sum of local shares`` for every row, so the same holds of weighted means."""
    gap = KINDS[kind](sample_weight=weight).gap(FIRST, SECOND)
    loss = (
        Y - (LINEAR.predict(X) if kind == "closed form" else TREES.predict(X) if kind == "trees" else model(X))
    ) ** 2
    error = [np.average(loss[rows], weights=None if weight is None else weight[rows]) for rows in (FIRST, SECOND)]
    np.testing.assert_allclose(gap.error, error, rtol=1e-12)
    assert gap.parts.sum() == pytest.approx(gap.total, rel=1e-10) == pytest.approx(error[0] - error[1], rel=1e-10)
    assert gap.centre[:-1].sum() == pytest.approx(gap.centre[-1], rel=1e-10) == pytest.approx(gap.total, rel=1e-10)
    low, high = gap.interval()
    assert (low < high).all()
    assert ((low < gap.centre[:-1]) & (gap.centre[:-1] < high)).all()
    assert gap.lines[0] == ("(without these features)" if kind == "some columns" else "(without any feature)")


@pytest.mark.parametrize("second", [SECOND, np.ones(N, bool)], ids=["others", "all rows"])
@pytest.mark.parametrize("clusters", [None, CLUSTERS], ids=["rows", "clusters"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
def test_lines_and_standard_errors_by_deletion(weight, clusters, second):
    """Every pair asked of the model. A unit (a row, or a group of rows) has two roles, and is deleted from each.

    From the observations: the mean over the others of the group, whose units u give the factor (u - 1) / u. From the
    donors: every row's mean over the donors that remain, in pairs of different units. Both changes, about their
    means, are added before they are squared; the rows of the two groups are independent samples, donors are common.
    """
    shares = share(sample_weight=weight, groups=clusters)
    gap = shares.gap(FIRST, second)
    w = np.ones(N) if weight is None else weight
    unit = np.arange(N) if clusters is None else clusters
    cells = coalitions.shares(model, X, Y, brute.LOSSES["squared_error"]).cells
    loss = (Y - model(X)) ** 2
    pairs = np.concatenate([loss[:, None, None] + cells.sum(axis=2, keepdims=True), -cells], axis=2)

    def means(donors, own):
        lent = np.where((unit[:, None] != unit) | own, w, 0.0) * donors
        return np.einsum("ik,ikj->ij", lent / lent.sum(axis=1, keepdims=True), pairs)

    def contrast(values, rows, others):
        return np.average(values[rows], 0, w[rows]) - np.average(values[others], 0, w[others])

    every, groups = np.ones(N, bool), (FIRST, second)
    np.testing.assert_allclose(gap.parts, contrast(means(every, own=clusters is None), *groups), atol=1e-9)
    apart = means(every, own=False)
    centre = contrast(apart, *groups)
    np.testing.assert_allclose(gap.centre[:-1], centre, atol=1e-9)
    moved = np.zeros((unit.max() + 1, pairs.shape[2]))
    with_weight = [h for h in range(len(moved)) if w[unit == h].any()]
    for group in groups:
        inside = [h for h in with_weight if w[group & (unit == h)].any()]
        change = np.array(
            [centre - contrast(apart, *(g & (unit != h) if g is group else g for g in groups)) for h in inside]
        )
        moved[inside] += np.sqrt(1 - 1 / len(inside)) * (change - change.mean(axis=0))
    change = np.array([centre - contrast(means(unit != h, own=False), *groups) for h in with_weight])
    moved[with_weight] += np.sqrt(1 - 1 / len(with_weight)) * (change - change.mean(axis=0))
    np.testing.assert_allclose(gap.std_error[:-1], np.sqrt(np.square(moved).sum(axis=0)), rtol=1e-9)
    np.testing.assert_allclose(gap.std_error[-1], np.sqrt(np.square(moved.sum(axis=1)).sum()), rtol=1e-9)
    np.testing.assert_allclose(
        gap.skewness[:-1], (moved**3).sum(axis=0) / np.square(moved).sum(axis=0) ** 1.5, rtol=1e-8
    )
    assert gap.grouped == (clusters is not None)


def test_sampled_donors_have_about_the_standard_errors_of_all():
    """Noise of the draw is in a row's mean and in its donor's; the second is subtracted."""
    exact, drawn = share(LINEAR).gap(FIRST), share(LINEAR, donors=ll.Latin(13), method="walk").gap(FIRST)
    np.testing.assert_allclose(drawn.std_error[:3], exact.std_error[:3], rtol=0.15)


def test_rows_may_be_in_both_groups():
    """All rows are a mixture of a group and the others: the difference to them is a share of that to the others."""
    shares = share(sample_weight=WEIGHT)
    rest, every = shares.gap(FIRST), shares.gap(FIRST, np.arange(N))
    part = WEIGHT[~FIRST].sum() / WEIGHT.sum()
    np.testing.assert_allclose(every.parts, part * rest.parts, atol=1e-9)


def test_the_other_way_round():
    shares = share()
    one, other = shares.gap(FIRST, SECOND, names=("a", "b")), shares.gap(SECOND, FIRST)
    np.testing.assert_allclose(one.parts, -other.parts)
    np.testing.assert_allclose(one.interval(0.9), [-end for end in other.interval(0.9)[::-1]])
    assert one.whole().p_value == pytest.approx(other.whole().p_value)
    assert one.whole().first == "a"
    assert one.part("x1").value == one.parts[2]


def test_a_feature_that_the_model_ignores_adds_nothing():
    gap = ll.shapley_importance(lambda X: X[:, 0], X, Y, loss="absolute_error").gap(FIRST)
    assert gap.part("x1").value == gap.part("x1").std_error == 0.0
    assert gap.part("x1").p_value == 1.0


def test_without_pairs_the_donors_are_taken_as_they_are():
    """Exact shares of rows, but too little memory for pairs: standard errors of rows alone, and a note that says so."""
    rows = np.tile(X, (8, 1))
    whole = ll.shapley_importance(LINEAR, rows, np.tile(Y, 8))
    few = ll.shapley_importance(LINEAR, rows, np.tile(Y, 8), memory=400_000)
    first = np.tile(FIRST, 8)
    full, gap = whole.gap(first), few.gap(first)
    np.testing.assert_allclose(gap.parts, full.parts, atol=1e-9)
    assert gap.whole() == full.whole()
    assert "take the donors as they are" in repr(gap)
    assert "memory=" in repr(gap)
    assert "take the donors as they are" not in repr(full)
    assert "explain again with method='walk'" in repr(replace(few, method="covariance").gap(first))
    moved = few.local / (1 - 1 / len(rows))
    variance = [np.var(moved[group], axis=0, ddof=1) / group.sum() for group in (first, ~first)]
    np.testing.assert_allclose(gap.std_error[1:-1], np.sqrt(sum(variance)), rtol=1e-9)


def test_rows_by_label_of_some_rows_and_of_a_classifier():
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=[f"row {i}" for i in range(N)])
    classifier = LogisticRegression().fit(frame, Y > 1)
    shares = ll.shapley_importance(classifier, frame, Y > 1, method="rows")
    by_mask, by_label = shares.gap(frame["c"] > 0), shares.gap(frame.index[FIRST].tolist())
    np.testing.assert_array_equal(by_mask.parts, by_label.parts)
    some = shares.given(frame["a"] > -1)
    first = (frame["c"] > 0)[frame["a"] > -1]
    parts = some.gap(first).parts
    np.testing.assert_allclose(parts, shares.gap((frame["a"] > -1) & FIRST, (frame["a"] > -1) & ~FIRST).parts)


def test_table_picture_and_file(tmp_path):
    shares = ll.shapley_importance(LINEAR, X, Y)
    gap = shares.gap(FIRST, names=("new", "old"))
    frame = gap.to_frame()
    assert frame["line"].tolist()[0] == "(without any feature)"
    assert np.abs(frame["part"].to_numpy()[1:]).tolist() == sorted(np.abs(gap.parts[1:]), reverse=True)
    assert frame["part"].sum() == pytest.approx(gap.total)
    np.testing.assert_allclose(frame["second"][1:] - frame["first"][1:], frame["part"][1:])
    assert frame["p_adjusted"].min() >= frame["p"].min()
    assert gap.test()["p"].is_monotonic_increasing
    assert "new less that of old" in repr(gap)
    for word in ("because", "caused by", "due to"):
        assert word not in repr(gap)
    assert "data:image/png" in gap._repr_html_()
    axes = gap.plot()
    assert [label.get_text() for label in axes.get_yticklabels()][:2] == ["whole difference", "(without any feature)"]
    plt.close(axes.figure)
    gap.save(tmp_path / "gap")
    again = ll.load(tmp_path / "gap")
    assert repr(again) == repr(gap)
    assert again.whole(0.9) == gap.whole(0.9)
    of_polars = ll.shapley_importance(
        lambda X: X["x0"].to_numpy(), pl.DataFrame(X, schema=["x0", "x1", "x2"]), Y, loss="squared_error"
    )
    assert isinstance(of_polars.gap(FIRST).to_frame(), pl.DataFrame)


def test_too_few_rows_have_a_difference_and_no_interval(tmp_path):
    gap = ll.shapley_importance(LINEAR, X, Y).gap([0, 1])
    assert gap.parts.sum() == pytest.approx(gap.total)
    assert "at least 3 rows with weight, and one has 2" in repr(gap)
    with pytest.raises(ValueError, match="no intervals"):
        gap.interval()
    plt.close(gap.plot().figure)
    gap.save(tmp_path / "gap")
    assert repr(ll.load(tmp_path / "gap")) == repr(gap)
    few = ll.shapley_importance(LINEAR, X, Y).gap([0, 1, 2, 3])
    assert all("smaller group is 4: with fewer than 30" in said for said in few.caution)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda s: s.gap(np.ones(N, bool)), ValueError, "rows_a are all rows"),
        (lambda s: s.gap(FIRST, FIRST), ValueError, "the same rows"),
        (lambda s: s.gap([]), ValueError, "no row is chosen"),
        (lambda s: s.gap(FIRST[1:]), ValueError, "mask has 25 entries"),
        (lambda s: s.gap("late"), TypeError, "boolean mask"),
        (lambda s: s.gap(FIRST, names="ab"), ValueError, "names are two different names"),
        (lambda s: s.gap(FIRST, names=("a", "a")), ValueError, "names are two different names"),
        (lambda s: s.gap(FIRST).part("x7"), KeyError, "unknown line"),
        (lambda s: s.gap(FIRST).interval(2), ValueError, "level lies between"),
        (lambda s: s.gap(FIRST).test("none"), ValueError, "adjust is"),
    ],
)
def test_bad_input(call, kind, words):
    with pytest.raises(kind, match=words):
        call(ll.shapley_importance(LINEAR, X, Y))


def test_what_has_no_shares_of_rows_says_how_to_get_them():
    with pytest.raises(ValueError, match="method='rows'"):
        ll.shapley_importance(TREES, X, Y, method="totals").gap(FIRST)
    with pytest.raises(ValueError, match="single rows"):
        ll.shapley_importance(LINEAR, X, Y, loss=get_scorer("r2")).gap(FIRST)
    weight = np.where(FIRST, 0.0, 1.0)
    with pytest.raises(ValueError, match="rows_a: all of them have weight 0"):
        ll.shapley_importance(LINEAR, X, Y, sample_weight=weight).gap(FIRST)
