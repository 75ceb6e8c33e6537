"""The rule behind donors="auto", by its counts."""

import numpy as np
import pytest

from losslens.donors.designs import All, Grid, Latin, Systematic
from losslens.donors.questions import Subjects
from losslens.passes import ways
from losslens.passes.ways import effect_design, exact_cost, first_design
from losslens.tables.features import resolve
from losslens.tables.frames import as_table

RNG = np.random.default_rng(0)
N = 12
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 4, N), RNG.integers(0, 2, N)])


def subject(features, table=X):
    table = as_table(table)
    (feature,) = resolve(features, table.labels, by_position=True)
    return Subjects(table).subject(feature)


@pytest.fixture
def dear(monkeypatch):
    """Fewer than 40 predictions are exact."""
    monkeypatch.setattr(ways, "EXACT_PREDICTIONS", 40)


def test_a_feature_costs_its_distinct_values_less_the_own_one_for_each_row():
    assert [exact_cost(subject(name), N) for name in ("x0", "x1", "x2")] == [N * (N - 1), N * 3, N]
    assert exact_cost(subject({"g": ["x1", "x2"]}), N) == N * (len(np.unique(X[:, 1:], axis=0)) - 1)


def test_auto_is_exact_where_that_is_cheap():
    assert first_design(subject("x0"), N) == effect_design(subject("x0"), N) == All()


@pytest.mark.usefixtures("dear")
def test_auto_is_decided_for_each_feature_by_its_own_count():
    assert first_design(subject("x0"), N) == Systematic(8)
    assert first_design(subject("x1"), N) == All()
    assert first_design(subject({"g": ["x0", "x1"]}), N) == Latin(8)


@pytest.mark.usefixtures("dear")
def test_an_effect_that_is_too_dear_has_a_grid_of_quantiles():
    assert effect_design(subject("x0"), 1000) == Grid(20, at="quantiles")
    assert effect_design(subject("x1"), N) == All()


def test_a_million_predictions_are_the_limit():
    table = np.arange(1001.0)[:, None]
    assert first_design(subject("x0", table[:1000]), 1000) == All()
    assert first_design(subject("x0", table), 1001) == Systematic(8)


def test_a_pair_has_twenty_quantiles_an_axis_or_as_many_as_there_are_rows():
    assert first_design(subject(("x0", "x1")), 1000) == Grid(20, at="quantiles")
    assert first_design(subject(("x0", "x1")), N) == Grid(N, at="quantiles")


@pytest.mark.usefixtures("dear")
def test_rows_in_groups_get_latin_shifts():
    """A systematic shift by few places may fall into the own group for every row, and its column is then lost."""
    assert first_design(subject("x0"), N, blocked=False) == Systematic(8)
    assert first_design(subject("x0"), N, blocked=True) == Latin(8)
