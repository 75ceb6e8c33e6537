"""When to stop drawing: the rules, and the walks that follow them."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from losslens.shapley.stopping import Absolute, ShapleySettings, enough, joint_quantile, stein
from losslens.shapley.walks import WalkKind, run


def test_steins_number_of_draws_covers_all_features_together():
    """The mean of so many draws is within the half-width for all features with probability 95%, whatever the variance.

    4,000 experiments of two features, sd 1 and 3, ten draws first: the share covered has standard error .0035. The
    Bonferroni bound of two independent features is hardly conservative.
    """
    rng, covered, width = np.random.default_rng(0), 0, 1.0
    for _ in range(4000):
        sd = np.array([1.0, 3.0])
        first = rng.normal(size=(10, 2)) * sd
        needed = max(10, stein(first.var(axis=0, ddof=1), width, 9))
        mean = (first.sum(axis=0) + rng.normal(size=2) * sd * np.sqrt(needed - 10)) / needed
        covered += bool((np.abs(mean) <= width).all())
    assert 0.94 < covered / 4000 < 0.99


def test_half_widths_of_joint_intervals():
    """P(any of p independent |t| > q) <= p P(|t| > q) = 5%."""
    for p in (1, 2, 7):
        assert p * 2 * stats.t.sf(joint_quantile(p, 11), 11) == pytest.approx(0.05)
    assert stein(np.array([4.0, 1.0]), 0.5, 30) == int(np.ceil(4 * joint_quantile(2, 30) ** 2 / 0.25))


def test_enough_draws_make_the_variance_a_tenth_of_the_samplings_or_negligible():
    """Variance falls as 1 / draws; the feature that needs most decides."""
    assert enough(np.array([1.0, 0.1]), np.array([1.0, 1.0]), 0.0, 10) == 100
    assert enough(np.array([0.1, 1.0]), np.array([1.0, 2.0]), 0.0, 10) == 25
    assert enough(np.array([1.0]), np.array([0.0]), 100.0, 10) == 40  # 0.5% of the total: an error of 0.5
    assert enough(np.array([1.0]), np.array([0.0]), -100.0, 10) == 40
    assert enough(np.array([1.0]), np.array([10.0]), 100.0, 10) == 1  # the larger of both limits
    assert enough(np.array([0.0, 0.0]), np.array([0.0, 0.0]), 0.0, 10) == 0  # nothing varies


def test_half_widths_that_are_asked_for():
    assert ShapleySettings().half_width(5.0, 1.0) is None
    assert ShapleySettings(precision=Absolute(0.3)).half_width(None, np.inf) == 0.3
    assert ShapleySettings(precision=0.02).half_width(-50.0, 1.0) == pytest.approx(1.0)
    assert ShapleySettings(precision=0.02).half_width(2.1, 1.0) == pytest.approx(0.042)
    for total in (2.0, -1.9, 0.0, np.nan):  # not clearly different from 0
        with pytest.raises(ValueError, match="not clearly different from 0"):
            ShapleySettings(precision=0.02).half_width(total, 1.0)
    with pytest.raises(ValueError, match="needs the total"):
        ShapleySettings(precision=0.02).half_width(None, 1.0)


@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, True, "a"])
def test_a_precision_in_units_of_the_loss_is_a_number_above_0(value):
    with pytest.raises(ValueError, match="Absolute takes a number above 0"):
        Absolute(value)
    assert Absolute(np.float64(1e-300)).value == 1e-300


@dataclass(frozen=True, eq=False, kw_only=True)
class Counting(WalkKind):
    """Walks without a model: notes how many sweeps were drawn at a time."""

    wishes: list
    drawn: list
    most: int = 100
    first: int = 4
    at_once: int = 3
    stops_at: int | None = None

    max_sweeps = property(lambda self: self.most)
    first_sweeps = property(lambda self: self.first)
    predictions_at_once = property(lambda self: self.at_once * self.cost)

    def sweeps(self, count):
        if self.stops_at is not None and sum(self.drawn) >= self.stops_at:
            raise KeyboardInterrupt
        self.drawn.append(count)
        return [None] * count

    def sweeps_needed(self, sweeps):
        return self.wishes.pop(0)


def walked(wishes, totals=None, **options):
    drawn: list[int] = []
    kind = Counting(setup=SimpleNamespace(n=5), rng=None, cost=2, wishes=list(wishes), drawn=drawn, **options)
    totals = [] if totals is None else totals
    return run(kind, SimpleNamespace(set_total=totals.append, note=lambda words: None, is_shown=True)), drawn


def test_a_run_draws_what_is_needed_and_no_more():
    found, drawn = walked([4])
    assert (drawn, found.complete, found.cut_short) == ([3, 1], True, False)
    totals: list[int] = []
    found, drawn = walked([11, 9], totals)
    assert totals == [5 + 4 * 2, 5 + 11 * 2]  # predictions: the rows themselves, and so many a sweep
    found, drawn = walked([11, 9])  # a later look may not take back what an earlier one asked for
    assert (len(found.sweeps), sum(drawn), found.cut_short) == (11, 11, False)
    found, drawn = walked([11, 15, 15])
    assert (len(found.sweeps), found.cut_short) == (15, False)
    found, drawn = walked([50, 50], most=12)
    assert (len(found.sweeps), found.complete, found.cut_short) == (12, True, True)


def test_a_run_that_is_interrupted_has_what_was_drawn():
    found, _ = walked([50], stops_at=6)
    assert (len(found.sweeps), found.complete, found.cut_short) == (7, False, False)
    with pytest.raises(KeyboardInterrupt):
        walked([50], stops_at=1, at_once=1)
    found, _ = walked([50], stops_at=2, at_once=1)
    assert len(found.sweeps) == 2
