"""Leaving out a row from the means of the cells gives what leaving it out of the data gives, for every design."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import losslens as ll

N = 25
RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 3, N), RNG.normal(size=N)])
Y = X[:, 0] * X[:, 1] + RNG.normal(size=N)
WEIGHT = RNG.integers(0, 4, N).astype(float)
GROUPS = np.repeat(np.arange(9), 3)[:N]
DESIGNS = (
    "all", ll.Derangements(), ll.Derangements(4), ll.Latin(5), ll.Latin(N), ll.Permutations(4), ll.Systematic(5),
    ll.Grid(6), ll.Grid(5, at="quantiles"), ll.Grid(1),
)  # fmt: skip


def model(X):
    return X[:, 0] * X[:, 1] + 0.3 * X[:, 2]


class Opaque:
    """A model that no engine can read."""

    def __init__(self, model):
        self.model = model

    def __call__(self, X):
        return self.model.predict(X)


def ask(donors="all", one=model, **options):
    return ll.feature_importance(one, X, Y, loss="squared_error", donors=donors, random_state=0, **options)


def without(one, i):
    """U without a row, as it is recomputed from the cells that are left; NaN where none is."""
    try:
        return one.drop([i]).unbiased
    except ValueError:
        return np.nan


@pytest.mark.parametrize("donors", DESIGNS, ids=str)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("groups", [None, GROUPS], ids=["alone", "grouped"])
def test_the_total_is_what_dropping_the_row_changes(donors, weight, groups):
    found = ask(donors, features=["x0", "x1"], sample_weight=weight, groups=groups)
    for one in found.values():
        try:
            left = one.unbiased
        except ValueError:  # the only donor of Grid(1) has weight 0
            continue
        share = one.pfi / left  # of pairs of different rows: the influence is on the number that is printed
        expected = share * np.array([left - without(one, i) for i in range(N)])
        np.testing.assert_allclose(one.row_influence.total, expected, atol=1e-11)
        np.testing.assert_allclose(one.row_influence.without, one.pfi - expected, atol=1e-11)


@pytest.mark.parametrize("one", [LinearRegression(), RandomForestRegressor(5, random_state=0)], ids=str)
@pytest.mark.parametrize("features", [["x0", "x1"], {"both": ["x0", "x1"]}], ids=str)
def test_exact_engines_give_the_same(one, features):
    fitted = one.fit(X, Y)
    mine, plain = (ask(one=asked, features=features) for asked in (fitted, Opaque(fitted)))
    for name, found in mine.items():
        for role in ("as_row", "as_donor"):
            expected = getattr(plain[name].row_influence, role)
            np.testing.assert_allclose(getattr(found.row_influence, role), expected, atol=1e-9)


def test_brute_force_with_the_model():
    """U_(-i) over all ordered pairs of other rows, predicted one by one; the two roles are the row's and the column's.

    With a_i the mean over k != i of D(i, k), and c_i that of D(k, i): U - U_(-i) = ((a_i - U) + (c_i - U)) / (n - 2).
    """
    replaced = np.stack([model(np.column_stack([np.full(N, v), X[:, 1:]])) for v in X[:, 0]], axis=1)
    cells = (replaced - Y[:, None]) ** 2 - ((model(X) - Y) ** 2)[:, None]
    np.fill_diagonal(cells, 0.0)
    others = [np.delete(np.delete(cells, i, 0), i, 1).sum() / ((N - 1) * (N - 2)) for i in range(N)]
    u = cells.sum() / (N * (N - 1))
    for donors in ("all", ll.Derangements()):
        found, c = ask(donors)["x0"].row_influence, (N - 1) / N if donors == "all" else 1.0
        assert (found.unbiased, found.importance) == pytest.approx((u, c * u))
        np.testing.assert_allclose(found.total, c * (u - np.array(others)), atol=1e-12)
        np.testing.assert_allclose(found.as_row, c * (cells.sum(axis=1) / (N - 1) - u) / (N - 2), atol=1e-12)
        np.testing.assert_allclose(found.as_donor, c * (cells.sum(axis=0) / (N - 1) - u) / (N - 2), atol=1e-12)
        assert found.total.sum() == pytest.approx(0, abs=1e-10)


def test_the_papers_toy_figure():
    """Cells (0, .65, .7), (.6, 0, .5), (.3, .25, 0): T = 3, U = 3/6. Without row 0: (.5 + .25)/2 = .375, without
    row 1: (.7 + .3)/2 = .5, without row 2: (.65 + .6)/2 = .625; hence U - U_(-i) = .125, 0, -.125, of V two thirds."""
    table = np.array([[0, 0.65, 0.7], [0.6, 0, 0.5], [0.3, 0.25, 0]])
    rows = np.column_stack([np.arange(3.0), np.arange(3.0)])  # the first column is replaced, the second says who it is

    def toy(X):
        return table[X[:, 1].astype(int), X[:, 0].astype(int)]

    imp = ll.feature_importance(toy, rows, np.zeros(3), loss="absolute_error", features="x0", donors="all")
    np.testing.assert_allclose(imp["x0"].row_influence.total, [0.25 / 3, 0, -0.25 / 3], atol=1e-12)


@pytest.mark.parametrize("donors", ["all", ll.Derangements()], ids=str)
def test_the_influence_of_standard_errors_is_the_same_but_for_the_jackknifes_factor(donors):
    one = ask(donors)["x0"]
    of_u = one.row_influence.total * one.unbiased / one.pfi
    np.testing.assert_allclose(one.influence.moved, np.sqrt((N - 1) / N) * of_u)


def test_a_row_that_never_lends_has_no_influence_as_a_donor():
    one = ask(ll.Grid(6))["x0"]
    lends = np.zeros(N, bool)
    lends[one.layout.donors] = True
    assert lends.sum() == 6
    np.testing.assert_array_equal(one.row_influence.as_donor[~lends], 0.0)
    assert (one.row_influence.as_donor[lends] != 0).all()


def test_streamed_results_know_it_too():
    rng = np.random.default_rng(1)
    table = rng.normal(size=(400, 2))
    options = {"loss": "squared_error", "donors": "all", "features": "x0"}
    y = rng.normal(size=400)
    streamed = ll.feature_importance(lambda X: X[:, 0], table, y, memory="200 KiB", **options)["x0"]
    whole = ll.feature_importance(lambda X: X[:, 0], table, y, **options)["x0"]
    assert not streamed.complete
    np.testing.assert_allclose(streamed.row_influence.total, whole.row_influence.total, atol=1e-12)


def test_what_it_is_not_known_for():
    imp = ask()
    with pytest.raises(ValueError, match="`given` selected observations only"):
        _ = imp["x0"].given([1, 2, 3]).row_influence
    with pytest.raises(ValueError, match="`given` selected observations only"):
        imp.given([1, 2, 3]).drop([0])
    with pytest.raises(ValueError, match="only curves"):
        _ = ask(ll.Grid(values=[0.0, 1.0]), features="x0")["x0"].row_influence
    assert len(imp["x0"].subset([1, 2, 3, 4]).row_influence.total) == 4
    drawn = ask(ll.Within(), features="x0")["x0"]
    with pytest.raises(ValueError, match="drawn given the other columns"):
        _ = drawn.row_influence


# Drop.


@pytest.mark.parametrize("donors", ["all", ll.Derangements()], ids=str)
def test_drop_is_recomputing_without_the_rows(donors):
    out = [0, 3, 17]
    left = np.setdiff1d(np.arange(N), out)
    again = ll.feature_importance(model, X[left], Y[left], loss="squared_error", donors=donors)
    mask = np.isin(np.arange(N), out)
    for rows in (out, mask, [-N, 3, 17]):
        dropped = ask(donors).drop(rows)
        assert {name: one.pfi for name, one in dropped.items()} == pytest.approx({k: v.pfi for k, v in again.items()})


def test_drop_of_nobody_and_of_everybody():
    imp = ask()
    for rows in ([], np.zeros(N, bool), np.empty(0, int)):
        assert imp.drop(rows)["x0"] is imp["x0"]
    with pytest.raises(ValueError, match="every row is left out"):
        imp.drop(np.ones(N, bool))
    with pytest.raises(ValueError, match="row positions run from"):
        imp["x0"].drop([N])


# As a table, in a file, as text.


def test_the_frame_starts_with_those_that_move_most():
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    imp = ll.feature_importance(lambda X: model(X.to_numpy()), table, Y, loss="squared_error", donors="all")
    frame = imp["a"].row_influence.to_frame()
    assert list(frame.columns) == ["row", "as_row", "as_donor", "total"]
    assert frame["total"].abs().is_monotonic_decreasing
    np.testing.assert_allclose(frame["as_row"] + frame["as_donor"], frame["total"])
    np.testing.assert_allclose(frame.set_index("row")["total"][np.arange(N)], imp["a"].row_influence.total)


def test_a_row_without_which_nothing_is_left_comes_last():
    found = ask(ll.Grid(1))["x0"].row_influence
    (only,) = np.flatnonzero(np.isnan(found.total))
    assert found.to_frame()["row"].tolist()[-1] == only


def test_saved_and_read_back(tmp_path):
    found = ask()["x0"].row_influence
    found.save(tmp_path / "influence")
    again = ll.load(tmp_path / "influence")
    np.testing.assert_array_equal(again.total, found.total)
    assert repr(again) == repr(found)
    assert f"row {found.order[0]} " in repr(found)
