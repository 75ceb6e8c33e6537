"""Every design draws what it promises: who lends to whom, how often, and never more than there are."""

import datetime as dt
import pickle
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer

import losslens as ll
from losslens.donors import designs
from losslens.donors.designs import (
    All,
    Conditional,
    Derangements,
    Design,
    Grid,
    Latin,
    Permutations,
    Redrawn,
    Spread,
    Systematic,
    resolve,
)

SEED = st.integers(0, 2**32 - 1)
DESIGNS = [
    All(), Grid(2), Grid(2, at="quantiles"), Permutations(2), Latin(2), Systematic(2), Spread(2), Derangements(2)
]  # fmt: skip


@st.composite
def rows_and_donors(draw, fewer=0, times=1):
    """n rows and 1 <= m <= (n - fewer) / times donors."""
    n = draw(st.integers(times * (1 + fewer), 40))
    return n, draw(st.integers(1, (n - fewer) // times))


def drawn(design, n, seed=0):
    return design.draw(n, np.random.default_rng(seed))


def is_permutation(column):
    return np.array_equal(np.sort(column), np.arange(len(column)))


def rows_are_distinct(donors):
    return all(len(set(row)) == len(row) for row in donors.tolist())


class Scripted:
    """A generator whose permutations are given in advance, so that a draw can be enumerated."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def permutation(self, n):
        answer = np.array(self.answers.pop(0))
        assert len(answer) == n
        return answer


# Who lends to whom.


@given(rows_and_donors(), SEED)
def test_a_draw_has_a_line_for_each_row_and_a_column_for_each_donor(sizes, seed):
    n, m = sizes
    for design in (Grid(m), Grid(m, at="quantiles"), Permutations(m), Latin(m), Systematic(m), Spread(m)):
        donors = drawn(design, n, seed)
        assert donors.shape == (n, m)
        assert donors.dtype.kind == "i"
        assert donors.min() >= 0
        assert donors.max() < n


@given(st.integers(2, 40))
def test_all_lends_every_row_to_every_row_in_order(n):
    np.testing.assert_array_equal(drawn(All(), n), np.tile(np.arange(n), (n, 1)))


def test_all_holds_nothing_of_the_size_of_the_table():
    assert drawn(All(), 100_000).strides[0] == 0


@given(rows_and_donors(), SEED)
def test_a_grid_lends_the_same_distinct_donors_to_everybody(sizes, seed):
    n, m = sizes
    for at in ("random", "quantiles"):
        donors = drawn(Grid(m, at=at), n, seed)
        assert (donors == donors[0]).all()
        assert (np.diff(donors[0]) > 0).all()


@given(rows_and_donors())
def test_a_grid_of_quantiles_takes_the_middle_of_each_rank_bin(sizes):
    n, m = sizes
    ranks = drawn(Grid(m, at="quantiles"), n)[0]
    edges = np.arange(m + 1) * n / m
    assert (edges[:-1] <= ranks + 0.5).all()
    assert (ranks < edges[1:]).all()
    np.testing.assert_allclose(ranks + 0.5, (edges[:-1] + edges[1:]) / 2, atol=0.5 + 1e-9)


@given(st.integers(2, 20), st.integers(1, 50), SEED)
def test_each_column_of_permutations_is_one_even_beyond_the_number_of_rows(n, m, seed):
    Permutations(m).check(n)
    assert all(map(is_permutation, drawn(Permutations(m), n, seed).T))


@given(rows_and_donors(), SEED)
def test_latin_meets_every_donor_once_a_column_and_no_pair_twice(sizes, seed):
    n, m = sizes
    donors = drawn(Latin(m), n, seed)
    assert all(map(is_permutation, donors.T))
    assert rows_are_distinct(donors)


@given(st.integers(2, 40), SEED)
def test_all_shifts_together_meet_every_pair_once(n, seed):
    for design in (Latin(n), Systematic(n), Spread(n)):
        assert all(map(is_permutation, drawn(design, n, seed)))


@given(rows_and_donors(fewer=1), SEED)
def test_derangements_never_give_a_row_back_to_itself(sizes, seed):
    n, m = sizes
    donors = drawn(Derangements(m), n, seed)
    assert donors.shape == (n, m)
    assert not (donors == np.arange(n)[:, None]).any()
    assert all(map(is_permutation, donors.T))
    assert rows_are_distinct(donors)


@given(st.integers(2, 40), SEED)
def test_all_derangements_meet_every_other_row_once(n, seed):
    donors = drawn(Derangements(), n, seed)
    for i, row in enumerate(donors):
        np.testing.assert_array_equal(np.sort(row), np.delete(np.arange(n), i))


@given(rows_and_donors(times=2), SEED)
def test_a_longer_draw_extends_a_shorter_one(sizes, seed):
    n, m = sizes
    for kind in (Latin, Spread):
        np.testing.assert_array_equal(drawn(kind(2 * m), n, seed)[:, :m], drawn(kind(m), n, seed))
    if 2 * m < n:
        np.testing.assert_array_equal(drawn(Derangements(2 * m), n, seed)[:, :m], drawn(Derangements(m), n, seed))


@given(rows_and_donors(times=2), SEED)
def test_twice_as_many_systematic_donors_contain_the_first_ones(sizes, seed):
    n, m = sizes
    few, many = drawn(Systematic(m), n, seed), drawn(Systematic(2 * m), n, seed)
    assert all(set(a) <= set(b) for a, b in zip(few.tolist(), many.tolist(), strict=True))


@given(rows_and_donors(), SEED)
def test_systematic_gives_each_row_one_donor_a_rank_bin_and_each_donor_the_same_work(sizes, seed):
    """Bin b is [b n/m, (b+1) n/m); where an edge splits a rank, the rank belongs to both of its neighbours."""
    n, m = sizes
    ranks = drawn(Systematic(m), n, seed)
    edges = np.arange(m + 1) * n / m
    assert (np.floor(edges[:-1] + 1e-9) <= ranks).all()
    assert (ranks < edges[1:] - 1e-9).all()
    assert rows_are_distinct(ranks)
    np.testing.assert_array_equal(np.bincount(ranks.ravel(), minlength=n), m)


@given(rows_and_donors(), SEED)
def test_spread_gives_each_row_distinct_donors_and_each_donor_the_same_work(sizes, seed):
    n, m = sizes
    ranks = drawn(Spread(m), n, seed)
    assert all(map(is_permutation, ranks.T))
    assert rows_are_distinct(ranks)


@pytest.mark.parametrize("m", [3, 5, 8, 20, 50])
def test_donors_of_a_row_are_spread_over_the_range(m):
    """m points at multiples of the golden section leave gaps of at most (1 + 2 / sqrt(5)) / m of the circle."""
    n = 10_000
    ranks = np.sort(drawn(Spread(m), n, 0)[:50], axis=1)
    gaps = np.diff(ranks, axis=1, append=ranks[:, :1] + n)
    assert gaps.max() <= (1 + 2 / 5**0.5) * n / m + 2


@pytest.mark.parametrize(("n", "m"), [(7, 3), (10, 10), (6, 4)])
def test_a_pair_of_row_and_donor_is_spread_with_probability_m_over_n(n, m):
    """Rows have random places on a circle of n donors, of which m lie at given steps: each donor is one of them with
    probability m/n. Counted over the n rotations of any order of places.
    """
    shifts = Spread(m).lend(n, np.random.default_rng(0)).shifts
    counts = sum(np.bincount((place + shifts) % n, minlength=n) for place in range(n))
    np.testing.assert_array_equal(counts, m)


@pytest.mark.parametrize("design", [*DESIGNS, Derangements()], ids=repr)
def test_some_rows_have_the_donors_that_they_have_among_all(design):
    rows = np.array([7, 0, 3])
    lent = design.lend(9, np.random.default_rng(5))
    assert lent.shape == drawn(design, 9, 5).shape
    np.testing.assert_array_equal(lent[rows], drawn(design, 9, 5)[rows])


@pytest.mark.parametrize("design", [ll.Latin(3), ll.Permutations(3), ll.Derangements(3)], ids=str)
def test_donors_are_drawn_again_from_their_seed_and_one_draw_is_held(design):
    """A copy through pickle has the donors themselves: another release of NumPy may draw others from a seed."""
    one, other = (Redrawn(design, (seed,), (20, 3)) for seed in (1, 2))
    expected = design.draw(20, np.random.default_rng((1,)))
    np.testing.assert_array_equal(one[:], expected)
    assert one.drawn is one.drawn
    np.testing.assert_array_equal(other[np.array([5])], design.draw(20, np.random.default_rng((2,)))[[5]])
    assert list(vars(one)) == ["design", "seed", "shape"]  # its draw is not held any more
    np.testing.assert_array_equal(np.asarray(one), expected)
    copy = pickle.loads(pickle.dumps(one))
    assert not isinstance(copy, Redrawn)
    np.testing.assert_array_equal(copy[:], expected)


def test_shifts_of_many_rows_are_not_held():
    n, m = 100_000, 10_000  # eight gigabytes as a matrix
    for design in (Latin(m), Systematic(m), Spread(m), Derangements(m)):
        lent = design.lend(n, np.random.default_rng(0))
        assert lent.shape == (n, m)
        assert rows_are_distinct(lent[np.array([0, n - 1])])


# How likely it is, by enumeration of all that the generator can answer.


@given(rows_and_donors())
def test_each_of_the_n_shifts_is_systematic_with_probability_m_over_n(sizes):
    """The shifts are floor(s + j n/m), j < m, s uniform on [0, n): as functions of s they jump at multiples of 1/m
    only, so that the middles of the n m intervals of length 1/m stand for all starts. Each j hits a given shift for
    1/n of the starts and no two j hit it together (they lie n/m >= 1 apart): m/n of the n m starts, that is m^2.
    """
    n, m = sizes

    class Start:
        def __init__(self, k):
            self.k = k

        def random(self):
            return (self.k + 0.5) / (n * m)

    times = np.zeros(n, int)
    for k in range(n * m):
        shifts = Systematic(m).shifts(n, Start(k))
        assert len(set(shifts.tolist())) == m
        times[shifts] += 1
    np.testing.assert_array_equal(times, m * m)


CELLS = np.random.default_rng(0).normal(size=(4, 4))
ORDERS = list(permutations(range(4)))


def means_of(design, *answers):
    """The mean over cells of every draw that is possible."""
    rows = np.arange(4)[:, None]
    return np.array([CELLS[rows, design.draw(4, Scripted(*each))].mean() for each in product(*answers)])


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_latin_is_unbiased_for_v_with_the_variance_of_the_specification(m):
    """One random permutation has variance V1 = sum(d^2) / (n^2 (n-1)), d the cells centred by rows and columns.
    m distinct shifts of one relabelled square: (V1/m) (1 - (m-1)/(n-1)), nothing at m = n.
    """
    means = means_of(Latin(m), ORDERS, ORDERS, ORDERS)
    d = CELLS - CELLS.mean(axis=0) - CELLS.mean(axis=1, keepdims=True) + CELLS.mean()
    one = (d**2).sum() / (4**2 * 3)
    assert means.mean() == pytest.approx(CELLS.mean())
    assert means.var() == pytest.approx(one / m * (1 - (m - 1) / 3), abs=1e-12)


def test_permutations_are_unbiased_for_v_and_their_variance_falls_as_one_over_m():
    one, two = means_of(Permutations(1), ORDERS), means_of(Permutations(2), ORDERS, ORDERS)
    assert one.mean() == pytest.approx(CELLS.mean())
    assert two.mean() == pytest.approx(CELLS.mean())
    assert two.var() == pytest.approx(one.var() / 2)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_derangements_are_unbiased_for_u(m):
    means = means_of(Derangements(m), ORDERS, list(permutations(range(3))))
    assert means.mean() == pytest.approx(CELLS[~np.eye(4, dtype=bool)].mean())


# What a design says of itself.


@pytest.mark.parametrize("design", [*DESIGNS, Derangements()], ids=repr)
def test_a_design_hangs_on_its_generator_alone(design):
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - it must stay as it was
    np.testing.assert_array_equal(drawn(design, 9, 5), drawn(design, 9, 5))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("kind", [Grid, Permutations, Latin, Systematic, Spread, Derangements])
def test_another_seed_draws_other_donors(kind):
    assert len({drawn(kind(3), 30, seed).tobytes() for seed in range(8)}) > 1


@pytest.mark.parametrize(
    ("design", "exact"),
    [
        (All(), True),
        (Grid(5), True),
        (Grid(4), False),
        (Grid(values=[1, 2, 3, 4, 5]), False),
        (Permutations(5), False),
        (Latin(5), True),
        (Latin(4), False),
        (Systematic(5), True),
        (Systematic(4), False),
        (Derangements(), True),
        (Derangements(4), True),
        (Derangements(3), False),
    ],
    ids=repr,
)
def test_exact_means_that_every_pair_is_met(design, exact):
    assert design.is_exact(5) is exact


@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_a_design_is_common_if_everybody_meets_the_same_donors(design):
    donors = drawn(design, 9)
    assert design.common == bool((donors == donors[0]).all())


@pytest.mark.parametrize("design", [*DESIGNS, Derangements()], ids=repr)
def test_derangements_alone_leave_out_the_own_value(design):
    assert design.leaves_out_own == isinstance(design, Derangements)
    assert isinstance(design, Design)


@pytest.mark.parametrize(
    ("design", "allows"),
    [
        (All(), {"common", "all_pairs", "has_columns"}),
        (Grid(2), {"common", "sampled_grid"}),
        (Grid(2, at="quantiles"), {"common", "sampled_grid", "ranked"}),
        (Grid(values=[1, 2]), {"common", "sampled_grid"}),
        (Permutations(2), {"repeats", "has_columns"}),
        (Latin(2), {"has_columns"}),
        (Systematic(2), {"ranked", "has_columns"}),
        (Spread(2), {"ranked", "spread", "has_columns"}),
        (Derangements(2), {"leaves_out_own", "has_columns"}),
        (Derangements(), {"common", "all_pairs", "leaves_out_own", "has_columns"}),
        (Conditional("Within()", 2), {"conditional", "repeats"}),
    ],
    ids=lambda value: "" if isinstance(value, set) else repr(value),  # sets print in an order of their own
)
def test_a_design_declares_what_it_allows(design, allows):
    flags = ("common", "all_pairs", "has_columns", "sampled_grid", "ranked", "repeats", "leaves_out_own", "spread")
    assert {flag for flag in (*flags, "conditional") if getattr(design, flag)} == allows
    assert design.remembered == design


def test_every_design_is_listed():
    """Files and the command line read the list; samplers bound to a table and the like are in neither."""
    here = [kind for kind in vars(designs).values() if isinstance(kind, type) and issubclass(kind, Design)]
    assert set(designs.DESIGNS) == {kind for kind in here if kind is not Design and not kind.__name__.startswith("_")}


@dataclass(frozen=True)
class Neighbours(Design):
    """The next two rows: all that it takes to add a design."""

    m: int = 2
    leaves_out_own = True

    def lend(self, n, rng):
        """Row i meets i + 1 and i + 2."""
        return (np.arange(n)[:, None] + [1, 2]) % n


def test_a_new_design_is_one_class():
    """Over the cells (i, i + 1) and (i, i + 2), with f = x and y = 0: the mean of x_k^2 - x_i^2 is 0."""
    X = np.random.default_rng(0).normal(size=(10, 1))
    y = np.zeros(10)
    found = ll.feature_importance(lambda X: X[:, 0], X, y, loss="squared_error", donors=Neighbours())["x0"]
    np.testing.assert_allclose(found.local, (np.roll(X, -1) ** 2 + np.roll(X, -2) ** 2)[:, 0] / 2 - X[:, 0] ** 2)
    assert found.pfi == pytest.approx(0.0, abs=1e-12)
    assert not found.exact
    shares = ll.shapley_importance(lambda X: X[:, 0], X, y, loss="squared_error", donors=Neighbours())
    assert shares.sfimp[0] == pytest.approx(0.0, abs=1e-12)
    linear = LinearRegression().fit(X, X[:, 0])
    scores = ll.feature_importance(linear, X, X[:, 0], loss=get_scorer("r2"), donors=Neighbours())
    assert scores["x0"].pfi > 0


@pytest.mark.parametrize("design", [*DESIGNS, Derangements(), Grid(values=["a", "b"])], ids=repr)
def test_a_design_shows_itself_as_it_is_written(design):
    assert eval(repr(design)) == design


# What is refused.


@pytest.mark.parametrize(
    "design", [Grid(4), Grid(4, at="quantiles"), Latin(4), Systematic(4), Spread(4), Derangements(3)]
)
def test_more_donors_than_rows_are_refused(design):
    design.check(4)
    with pytest.raises(ValueError, match=r"donors, but 3 rows have only [23]; lower m"):
        design.check(3)


@pytest.mark.parametrize("kind", [Grid, Permutations, Latin, Systematic, Spread, Derangements])
@pytest.mark.parametrize("m", [0, -1, 2.0, True, "3"])
def test_a_number_of_donors_is_whole_and_positive(kind, m):
    with pytest.raises(ValueError, match=f"{kind.__name__} needs a whole number of donors, at least 1; got"):
        kind(m)


@pytest.mark.parametrize("kind", [Grid, Permutations, Latin, Systematic, Spread, Derangements])
def test_a_number_of_donors_may_come_from_numpy(kind):
    assert drawn(kind(np.int64(2)), 5).shape == (5, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "either m"),
        ({"m": 2, "values": [1]}, "not both"),
        ({"values": []}, "non-empty"),
        ({"values": "abc"}, "flat list"),
        ({"values": [[1, 2], [3, 4]]}, "flat list"),
        ({"m": 2, "at": "median"}, "'random' or 'quantiles'"),
    ],
)
def test_a_grid_says_what_is_wrong_with_it(arguments, words):
    with pytest.raises(ValueError, match=words):
        Grid(**arguments)


@pytest.mark.parametrize("values", [(0.5, 1.5), np.array([0.5, 1.5]), range(2)], ids=["tuple", "array", "range"])
def test_values_of_ones_own_may_be_any_sequence(values):
    assert list(Grid(values=values).values) == list(values)


def test_values_of_ones_own_have_no_donors_to_draw():
    Grid(values=[1, 2, 3]).check(2)  # more values than rows are no harm
    with pytest.raises(ValueError, match="no donors"):
        drawn(Grid(values=[1, 2, 3]), 5)


def test_words_and_designs_are_understood():
    assert resolve("auto") is None
    assert resolve("all") == All()
    assert resolve(Latin(3)) == Latin(3)


@pytest.mark.parametrize("donors", [Latin, 20, None])
def test_what_is_no_design_is_refused(donors):
    with pytest.raises(TypeError, match=r"donors is 'auto', 'all' or a design: All\(\)"):
        resolve(donors)


def test_an_unknown_word_is_refused():
    with pytest.raises(ValueError, match="got 'some'"):
        resolve("some")


def test_values_of_ones_own_are_plain_python():
    assert Grid(values=np.array([1.0, 2.0])) == Grid(values=[1.0, 2.0])
    assert repr(Grid(values=np.array([1.0]))) == "Grid(values=[1.0])"
    assert Grid(values=np.array(["2020-01-05"], "M8[ns]")).values == (dt.datetime(2020, 1, 5),)
