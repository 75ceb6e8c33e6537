"""How good a model is, as the page says it: against sums written out, and on models that are bad on purpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, r2_score

import losslens as ll
from losslens.page.quality import clopper_pearson, quality, ranges, wilson

RNG = np.random.default_rng(5)
X = RNG.normal(size=(400, 2))
Y = X[:, 0] + 0.5 * RNG.normal(size=400)
WEIGHT = RNG.uniform(0.0, 2.0, 400) * (RNG.random(400) > 0.1)


def of(model: Any, y: Any = Y, loss: Any = "squared_error", weight: Any = None, rows: Any = X) -> dict[str, Any]:
    found = ll.feature_importance(model, rows, y, loss=loss, features=["x0"], sample_weight=weight)
    return quality(found["x0"])


def said(found: dict[str, Any]) -> set[str]:
    return {text.claim for text in found["sentences"]}


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["even", "weighted"])
def test_r_squared_is_that_of_scikit_learn_and_its_interval_the_jackknife_of_refits(weight: Any) -> None:
    """Leaving out each row and computing R² again gives the influences; Student's interval of log(1 - R²)."""
    from losslens.tables.sample import effective_number
    from losslens.uncertainty.standard_errors import Influence, interval

    w = np.ones(400) if weight is None else weight
    score = of(lambda rows: 0.8 * rows[:, 0], weight=weight)["score"]
    assert score["value"] == pytest.approx(r2_score(Y, 0.8 * X[:, 0], sample_weight=w), abs=1e-12)
    kept = np.flatnonzero(w > 0)
    log = [
        np.log(1 - r2_score(np.delete(Y, i), np.delete(0.8 * X[:, 0], i), sample_weight=np.delete(w, i))) for i in kept
    ]
    u, changes = len(kept), np.log(1 - score["value"]) - np.array(log)
    moved = Influence(np.sqrt((u - 1) / u) * (changes - changes.mean()))
    ends = interval(np.log(1 - score["value"]), moved.std_error, effective_number(w), 0.95, moved.skewness)
    assert (score["low"], score["high"]) == pytest.approx((1 - np.exp(ends[1]), 1 - np.exp(ends[0])), rel=1e-9)


@pytest.mark.parametrize("value", [1.0, 0.1, 1e6 / 3])
def test_a_target_that_does_not_vary_has_no_r_squared(value: float) -> None:
    """The squares about the mean are 0, or what rounding leaves of them: R² is not minus 1e31."""
    found = of(lambda rows: rows[:, 0], y=np.full(400, value))
    assert found["score"] is None
    assert "worse_than_constant" in said(found)


def test_residuals_are_those_of_the_rows_in_each_range() -> None:
    found = of(lambda rows: 0.8 * rows[:, 0], weight=WEIGHT)["residuals"]
    f, counted = 0.8 * X[:, 0], WEIGHT > 0
    assert sum(one["n"] for one in found) == counted.sum()
    for one in found:
        rows = counted & (f >= one["low"]) & (f <= one["high"])
        assert rows.sum() == one["n"]
        residual, w = (Y - f)[rows], WEIGHT[rows]
        assert one["mean"] == pytest.approx(w @ residual / w.sum(), rel=1e-9)
        assert one["mean_low"] < one["mean"] < one["mean_high"]
        below = [w[residual <= q].sum() / w.sum() for q in one["quantiles"]]
        assert all(share >= least - 1e-9 for share, least in zip(below, (0.05, 0.25, 0.5, 0.75, 0.95), strict=True))
        assert sorted(one["quantiles"]) == one["quantiles"]


def test_a_model_that_is_worse_than_its_mean_is_said_to_be_bad() -> None:
    """The prediction has the wrong sign: error 4 var(y), less or more."""
    found = of(lambda rows: -rows[:, 0])
    assert "worse_than_constant" in said(found)
    assert found["constant"]["low"] > 0
    assert found["score"]["value"] < 0


def test_a_useless_model_is_not_said_to_be_better() -> None:
    found = of(lambda rows: 0.02 * rows[:, 1])
    assert found["constant"]["low"] <= 0 <= found["constant"]["high"]


def test_a_good_model_is_not_flagged() -> None:
    assert said(of(lambda rows: rows[:, 0])) == set()


def test_predictions_that_are_too_large_in_a_range_are_found() -> None:
    """A model that doubles what is above 1."""
    found = of(lambda rows: np.where(rows[:, 0] > 1, 2 * rows[:, 0], rows[:, 0]))
    assert said(found) == {"off_in_a_range"}
    assert "smaller on average" in found["sentences"][0]
    off = [one for one in found["residuals"] if one["off"]]
    assert off
    assert all(one["high"] > 2 for one in off)


def test_a_median_may_differ_from_the_mean_without_being_off() -> None:
    rows = np.random.default_rng(1).normal(size=(3000, 2))
    y = rows[:, 0] + np.random.default_rng(2).exponential(2.0, 3000)
    found = of(lambda rows: rows[:, 0] + 2 * np.log(2), y, "absolute_error", rows=rows)
    assert any(one["off"] for one in found["residuals"])
    assert said(found) == set()


def probabilities(slope: float) -> Any:
    def model(rows: Any) -> Any:
        p = 1 / (1 + np.exp(-slope * rows[:, 0]))
        return np.column_stack([1 - p, p])

    return model


CLASS = (RNG.random(400) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)


def test_accuracy_confusion_and_calibration_are_counts() -> None:
    found = of(probabilities(1.0), CLASS, "log_loss", WEIGHT)
    p = probabilities(1.0)(X)
    expected = accuracy_score(CLASS, p.argmax(axis=1), sample_weight=WEIGHT)
    assert found["score"]["value"] == pytest.approx(expected)
    assert found["score"]["base"] == pytest.approx(max(WEIGHT @ CLASS, WEIGHT @ (1 - CLASS)) / WEIGHT.sum())
    table = confusion_matrix(CLASS, p.argmax(axis=1), sample_weight=WEIGHT) / WEIGHT.sum()
    np.testing.assert_allclose(found["confusion"]["shares"], table)
    assert found["confusion"]["rows"] == np.bincount(CLASS[WEIGHT > 0]).tolist()  # not their weights
    (one,) = found["calibration"]
    assert one["label"] == "1"
    for part in one["ranges"]:
        rows = (WEIGHT > 0) & (p[:, 1] >= part["low"]) & (p[:, 1] <= part["high"])
        assert part["predicted"] == pytest.approx(np.average(p[rows, 1], weights=WEIGHT[rows]))
        assert part["observed"] == pytest.approx(np.average(CLASS[rows], weights=WEIGHT[rows]))
        assert part["observed_low"] <= part["observed"] <= part["observed_high"]
    assert said(found) == set()


def test_probabilities_that_are_too_extreme_are_found() -> None:
    assert "misses_a_probability" in said(of(probabilities(6.0), CLASS, "log_loss"))


def test_a_class_that_is_never_predicted_is_no_gain_in_accuracy() -> None:
    rare = (RNG.random(400) < 0.05).astype(int)
    found = of(lambda rows: np.column_stack([np.full(len(rows), 0.95), np.full(len(rows), 0.05)]), rare, "log_loss")
    assert "no_more_often_right" in said(found)


def test_many_classes_are_joined_in_the_table_and_the_most_frequent_are_drawn() -> None:
    y = RNG.integers(0, 15, 400)
    found = of(lambda rows: np.full((len(rows), 15), 1 / 15), y, "log_loss")
    table = found["confusion"]
    assert len(table["labels"]) == 10
    assert table["labels"][-1] == "6 others"
    assert np.sum(table["shares"]) == pytest.approx(1)
    assert len(found["calibration"]) == 6


def test_labels_and_scores_have_a_confusion_but_no_calibration() -> None:
    found = of(lambda rows: (rows[:, 0] > 0).astype(int), CLASS, "zero_one")
    assert found["calibration"] is None
    assert found["score"]["value"] == pytest.approx(np.mean((X[:, 0] > 0) == CLASS))


def test_ranges_keep_equal_values_together() -> None:
    values = np.repeat([1.0, 2.0, 3.0], [100, 3, 97])
    assert [len(rows) for rows in ranges(values, np.full(200, 1 / 200))] == [100, 3, 97]


def test_the_interval_of_a_share_covers_and_stays_within_bounds() -> None:
    """Wilson's, over all outcomes of 30 rows at p = 0.1: 95%, about, and never beyond 0 or 1."""
    from scipy.stats import binom

    ends = [wilson(k / 30, 30, 0.95) for k in range(31)]
    covered = sum(binom.pmf(k, 30, 0.1) for k, (low, high) in enumerate(ends) if low <= 0.1 <= high)
    assert 0.93 < covered < 0.985
    assert ends[0][0] == 0
    assert ends[30][1] == pytest.approx(1)
    assert ends[0][1] > 0.05


def test_a_sentence_on_a_rare_class_rests_on_an_interval_that_covers() -> None:
    """One of eight rows at a probability of 0.3% is chance enough; over all outcomes, at least the level."""
    from scipy.stats import binom

    low, high = clopper_pearson(1 / 8, 8, 0.995)
    assert low < 0.003 < high
    for p in (0.003, 0.1, 0.5, 0.97):
        ends = [clopper_pearson(k / 20, 20, 0.95) for k in range(21)]
        assert sum(binom.pmf(k, 20, p) for k, (low, high) in enumerate(ends) if low <= p <= high) >= 0.95
    assert clopper_pearson(0.0, 20, 0.95)[0] == 0
    assert clopper_pearson(1.0, 20, 0.95)[1] == 1
