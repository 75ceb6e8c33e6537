"""A feature and a design become a question: the right values, the right meetings, and chance of its own."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslens.donors.designs import All, Derangements, Grid, Latin, Permutations, Systematic
from losslens.donors.questions import Ask, Subjects, pose
from losslens.tables.features import resolve
from losslens.tables.frames import as_table

DESIGNS = [
    All(),
    Grid(4),
    Grid(4, at="quantiles"),
    Permutations(5),
    Latin(4),
    Systematic(4),
    Derangements(4),
    Derangements(),
]
RNG = np.random.default_rng(0)
N = 12
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 4, N), RNG.integers(0, 2, N)])
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(w=RNG.choice(list("xyz"), N, p=[0.6, 0.3, 0.1]))


def subject(features, table=X):
    table = as_table(table)
    (feature,) = resolve(features, table.labels, by_position=table.backend == "numpy")
    return Subjects(table).subject(feature)


def ask(features, design, table=X, seed=0):
    return pose(subject(features, table), design, len(table), seed)


def donors_of(question):
    """Who lends to whom, (n, m); on a common grid who lends to everybody."""
    return np.asarray(question.layout.donors[:])


def values_met(question, table=X):
    """The values that each row meets, (n, cells, columns), read from what the engine is asked."""
    ask, rows = question.ask, np.arange(len(table))
    values = np.tile(np.arange(ask.size), (len(rows), 1)) if ask.donor_values is None else ask.donor_values[rows]
    return np.stack([s.array[i[values]] for s, i in zip(ask.sources, ask.index, strict=True)], axis=-1)


# Who meets what.


@pytest.mark.parametrize(
    ("features", "design"),
    [
        *((name, design) for name in ("x0", "x1") for design in DESIGNS),
        *(({"g": ["x1", "x2"]}, design) for design in DESIGNS if not isinstance(design, Systematic)),
    ],
    ids=str,
)
def test_a_row_meets_the_values_of_its_donors(features, design):
    question = ask(features, design)
    columns = question.subject.feature.columns
    met = values_met(question)
    if question.ask.donor_values is None:
        np.testing.assert_array_equal(met[0], met[-1])
        lent = np.unique(X[donors_of(question)][:, columns], axis=0)
        np.testing.assert_array_equal(np.unique(met[0], axis=0), lent)
        assert len(lent) == question.ask.size
    else:
        np.testing.assert_array_equal(met, X[donors_of(question)][:, :, columns])


@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_the_own_value_is_known(design):
    question = ask("x1", design)
    own, values = question.ask.own, question.ask.sources[0].array[question.ask.index[0]]
    for i in range(N):
        assert (values[own[i]] == X[i, 1]) if own[i] >= 0 else (X[i, 1] not in values)


@pytest.mark.parametrize("design", [d for d in DESIGNS if d.common], ids=repr)
def test_a_common_grid_is_sorted_and_every_donor_has_its_place(design):
    question = ask("x0", design)
    (grid,) = question.values
    assert (np.diff(grid) > 0).all()
    donors = donors_of(question)
    np.testing.assert_array_equal(grid[question.layout.own[donors]], X[donors, 0])


@pytest.mark.parametrize("design", [Permutations(5), Latin(4), Derangements(4)], ids=repr)
def test_the_grid_of_a_design_by_row_is_that_of_the_feature(design):
    question = ask("x1", design)
    np.testing.assert_array_equal(question.values[0], np.unique(X[:, 1]))
    np.testing.assert_array_equal(
        question.values[0][question.layout.places(np.arange(N))], values_met(question)[..., 0]
    )


def test_systematic_donors_rise_along_the_feature_one_in_each_rank_bin():
    question = ask("x0", Systematic(4))
    rank = np.argsort(np.argsort(X[:, 0]))
    np.testing.assert_array_equal(rank[donors_of(question)] // (N // 4), np.tile(np.arange(4), (N, 1)))


def test_the_grid_of_systematic_donors_is_the_median_of_each_rank_bin():
    (grid,) = ask("x0", Systematic(4)).values
    bins = np.sort(X[:, 0]).reshape(4, -1)
    np.testing.assert_array_equal(grid, bins[:, 1])


def test_rank_bins_that_share_their_median_share_a_grid_value():
    question = ask("x2", Systematic(6))
    np.testing.assert_array_equal(question.values[0], [0, 1])
    assert question.layout.size == 2
    np.testing.assert_array_equal(question.layout.places(np.arange(1))[0], np.sort(question.layout.place))


def test_words_are_ranked_by_how_often_they_occur():
    question = ask("w", Systematic(N), FRAME)
    counts = FRAME["w"].value_counts()
    met = FRAME["w"].to_numpy()[donors_of(question)[0]]
    assert list(dict.fromkeys(met)) == counts.index.tolist()


def test_missing_values_are_the_last_rank():
    column = np.array([[3.0], [np.nan], [1.0], [2.0]])
    met = donors_of(ask("x0", Systematic(4), column))
    assert met.tolist() == [[2, 3, 0, 1]] * 4


def test_ties_are_ranked_at_random():
    first = {donors_of(ask("x0", Systematic(1), np.ones((9, 1)), seed)).tobytes() for seed in range(9)}
    assert len(first) > 1


@pytest.mark.parametrize("m", [1, 2, 5])
def test_a_grid_of_quantiles_takes_order_statistics_of_the_feature(m):
    (grid,) = ask("x0", Grid(m, at="quantiles")).values
    ranks = np.floor((np.arange(m) + 0.5) * N / m).astype(int)
    np.testing.assert_array_equal(grid, np.sort(X[:, 0])[ranks])


# Values of the user's own.


def test_own_values_are_sorted_and_rows_that_hold_one_know_it():
    question = ask("x1", Grid(values=[7, 1, 0]))
    assert question.values[0].tolist() == [0, 1, 7]
    np.testing.assert_array_equal(values_met(question)[0, :, 0], [0, 1, 7])
    np.testing.assert_array_equal(question.ask.own, np.where(X[:, 1] < 2, X[:, 1], -1))
    assert not question.layout.has_mass


def test_own_words_keep_the_order_they_are_given_in():
    question = ask("w", Grid(values=["z", "new", "x"]), FRAME)
    assert question.values[0].tolist() == ["z", "new", "x"]
    np.testing.assert_array_equal(values_met(question, FRAME)[0, :, 0], ["z", "new", "x"])


def test_an_array_of_own_values_is_a_list_of_them():
    assert ask("x0", Grid(values=np.linspace(0, 1, 3))).values[0].tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("values", [[1, 1], [1, 1.0], [np.nan, None]])
def test_an_own_value_twice_is_refused(values):
    with pytest.raises(ValueError, match="names a value twice"):
        ask("x0", Grid(values=values))


def test_own_values_are_for_one_column():
    with pytest.raises(ValueError, match="'g' is a group"):
        ask({"g": ["x0", "x1"]}, Grid(values=[1]))


# Pairs.


@pytest.mark.parametrize("design", [All(), Grid(3, at="quantiles"), Grid(3)], ids=repr)
def test_a_pair_meets_every_value_of_the_one_with_every_value_of_the_other(design):
    question = ask(("x1", "x2"), design)
    first, second = question.values
    assert set(first) <= set(X[:, 1])
    assert second.tolist() == [0, 1]
    np.testing.assert_array_equal(values_met(question)[0], [(a, b) for a in first for b in second])
    for i, own in enumerate(question.ask.own):
        assert own == (-1 if X[i, 1] not in first else list(first).index(X[i, 1]) * 2 + X[i, 2])
    assert not question.layout.has_mass


@pytest.mark.parametrize("design", [Latin(3), Systematic(3), Permutations(3)], ids=repr)
def test_a_pair_needs_a_grid(design):
    with pytest.raises(ValueError, match=r"the pair 'x0 x x1' needs a grid"):
        ask(("x0", "x1"), design)


def test_a_group_has_no_order_for_systematic_donors():
    with pytest.raises(ValueError, match=r"a group such as 'g' has no order for Systematic\(3\); use Latin"):
        ask({"g": ["x0", "x1"]}, Systematic(3))


@pytest.mark.parametrize("design", [Grid(N + 1), Latin(N + 1), Systematic(N + 1), Derangements(N)], ids=repr)
def test_more_donors_than_rows_are_refused(design):
    with pytest.raises(ValueError, match="lower m"):
        ask("x0", design)


# What chance hangs on.


def draws(features, table, seed=0, design=None):
    return donors_of(ask(features, design or Latin(4), table, seed)).tolist()


def test_a_draw_hangs_on_the_seed():
    assert draws("x0", X) == draws("x0", X)
    assert draws("x0", X) != draws("x0", X, seed=1)


def test_two_features_draw_on_their_own():
    """Even where neither has ties: one draw for all would make their errors one and the same."""
    two = np.random.default_rng(1).normal(size=(N, 2))
    assert draws("x0", two) != draws("x1", two)
    assert draws("x0", X) != draws("x1", X)


def test_a_draw_does_not_hang_on_the_other_columns_or_on_names():
    assert (
        draws("x1", X)
        == draws("x0", X[:, [1]])
        == draws("b", FRAME)
        == draws("new", FRAME.rename(columns={"b": "new"}))
    )


@pytest.mark.parametrize("design", [Latin(4), Permutations(4), Derangements(4), Grid(4), Systematic(4)], ids=repr)
def test_a_draw_does_not_hang_on_the_kind_of_table(design):
    words = FRAME[["w"]]
    tables = [
        words,
        words.astype("category"),
        words.to_numpy(),
        pl.from_pandas(words),
        pl.from_pandas(words).with_columns(pl.col("w").cast(pl.Categorical)),
        pl.from_pandas(words).to_arrow(),
    ]
    found = [draws("x0" if isinstance(table, np.ndarray) else "w", table, design=design) for table in tables]
    assert all(each == found[0] for each in found)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=12), st.integers(0, 2**63))
def test_a_draw_hangs_on_the_order_of_the_values_alone(items, seed):
    column = np.array(items)[:, None]
    assert draws("x0", column, seed) == draws("x0", np.exp(column), seed)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=12), st.integers(0, 2**63))
def test_a_draw_of_words_hangs_on_which_rows_share_one_alone(items, seed):
    column = np.array(items)
    words, others = (np.array(list(letters), dtype=object)[column][:, None] for letters in ("abcd", "zxyw"))
    assert draws("x0", words, seed) == draws("x0", others, seed)


def test_a_rows_own_value_saves_a_prediction_only_if_all_rows_have_theirs_on_the_grid():
    for own, each in (([0, 2, 1], 2), ([0, -1, 2], 3)):
        assert Ask("x", (), (), (), np.array(own), 3).most(10) == 10 * each
