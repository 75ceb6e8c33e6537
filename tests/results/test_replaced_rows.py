import numpy as np
import pandas as pd
import pytest
from threadpoolctl import ThreadpoolController

from coded import coded_rows
from losslens.results.replaced_rows import ReplacedRows, along
from losslens.tables.columns import distinct_numbers


def gaussian(rho, n, seed, more=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    return np.column_stack([a, rho * a + np.sqrt(1 - rho**2) * b, rng.normal(size=(n, more))])


def judged(X, *columns):
    return replaced(X, *columns).extrapolation


def replaced(X, *columns, drawn=None):
    return ReplacedRows("x", columns or (0,), coded_rows(X), drawn)


def true_odds(rho, x, y):
    """Log odds of being replaced, of a Gaussian pair: log of phi(x) phi(y) / phi_rho(x, y)."""
    return 0.5 * np.log(1 - rho**2) + (rho**2 * x**2 - 2 * rho * x * y + rho**2 * y**2) / (2 * (1 - rho**2))


def truth(rho, n=200_000):
    """AUC of the true odds, and the share of replaced rows whose odds are over 10 to 1."""
    rng = np.random.default_rng(99)
    real, replaced = gaussian(rho, n, 98).T, rng.normal(size=(2, n))
    real, replaced = np.sort(true_odds(rho, *real)), true_odds(rho, *replaced)
    return np.searchsorted(real, replaced).mean() / n, (replaced > np.log(10)).mean()


@pytest.mark.parametrize(("rho", "least"), [(0.6, 0.4), (0.9, 0.8)])
def test_auc_and_share_of_a_gaussian_pair_are_those_of_the_true_density_ratio(rho, least):
    """Real rows have the density phi_rho(x, y), replaced ones phi(x) phi(y): each column by itself is the same.

    With balanced classes the odds of being replaced are the ratio of the densities,

        log odds = log(1 - rho^2) / 2 + (rho^2 x^2 - 2 rho x y + rho^2 y^2) / (2 (1 - rho^2)),

    and no classifier has a larger AUC than this ratio. A fitted one that looks at three columns of noise, too, loses
    up to 0.03 of the AUC; its odds are calibrated, which draws them towards 1, so that the share errs on the low side
    the more, the fewer far rows there are.
    """
    auc, share = truth(rho)
    found = [judged(gaussian(rho, 2000, seed, more=3)) for seed in range(3)]
    assert auc - 0.03 < np.mean([one.auc for one in found]) < auc + 0.01
    assert least * share < np.mean([one.share for one in found]) < 1.1 * share


def test_a_weak_tie_is_no_reason_to_warn():
    """rho = 0.3: the best AUC that there is, is 0.577."""
    auc, share = truth(0.3)
    found = judged(gaussian(0.3, 2000, 0))
    assert auc - 0.03 < found.auc < auc + 0.02
    assert not found.warns
    assert found.share == pytest.approx(share, abs=0.005)


def test_the_curve_of_far_cells_is_that_of_the_true_density_ratio():
    """At x the share of far cells is P(log odds(x, Y) > log 10), Y standard normal: here by simulation of Y alone."""
    rho, y = 0.9, np.random.default_rng(3).normal(size=20_000)
    X = gaussian(rho, 2000, 1)
    grid = np.quantile(X[:, 0], [0.03, 0.25, 0.5, 0.75, 0.97])
    found = judged(X).on(grid)
    want = [(true_odds(rho, x, y) > np.log(10)).mean() for x in grid]
    np.testing.assert_allclose(found.at, want, atol=0.15)
    assert found.at[[0, -1]].min() > 2 * found.at[2]


def mixture(n, p, rng):
    kinds = [
        lambda: rng.normal(size=n),
        lambda: rng.exponential(size=n),
        lambda: rng.choice(list("abcd"), n, p=[0.5, 0.3, 0.15, 0.05]),
        lambda: np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 5, n)),
    ]
    return pd.DataFrame({f"c{j}": kinds[j % 4]() for j in range(p)})


@pytest.mark.parametrize(("n", "p"), [(30, 3), (100, 3), (100, 10), (300, 3)])
def test_independent_columns_hardly_ever_warn(n, p):
    """At most one in twenty; a share of far cells would be a false alarm as well."""
    rng, found = np.random.default_rng(n + p), []
    while len(found) < 30:
        table = mixture(n, p, rng)
        found += [judged(table, j) for j in range(p)]
    assert np.mean([one.warns for one in found]) <= 0.05
    assert np.mean([one.share for one in found]) < 0.01


def test_one_half_never_sees_the_other():
    """With 40 columns of noise and 60 rows a classifier that was tried on its own rows would be sure of everything."""
    found = [judged(np.random.default_rng(seed).normal(size=(60, 40))).auc for seed in range(6)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.04)


def ties(name, n, rng):
    a, b, c = rng.normal(size=(3, n))
    if name == "square":
        return np.column_stack([a, a**2 + 0.3 * b, c])
    if name == "circle":
        angle = rng.uniform(0, 2 * np.pi, n)
        return np.column_stack([np.cos(angle) + 0.1 * a, np.sin(angle) + 0.1 * b, c])
    if name == "sum":
        others = rng.normal(size=(n, 5))
        return np.column_stack([others.sum(axis=1) + 0.5 * a, others])
    kind = rng.integers(0, 4, n)
    return pd.DataFrame({"x": 2 * kind + rng.uniform(size=n), "kind": np.array(list("abcd"))[kind], "z": c})


@pytest.mark.parametrize("name", ["square", "circle", "sum", "category"])
def test_ties_that_no_straight_line_shows_warn(name):
    found = judged(ties(name, 1000, np.random.default_rng(0)))
    assert found.auc > 0.7
    assert found.share > 0.1


def test_a_category_that_decides_the_range_leaves_three_quarters_of_the_rows_far():
    """Four kinds with ranges of their own, alike frequent: a value of a donor of another kind is impossible, 3/4."""
    X = ties("category", 2000, np.random.default_rng(1))
    for column in (0, 1):
        found = judged(X, column)
        # The best AUC is 1 - 1/8: replaced rows of the same kind, a quarter, look like real ones.
        assert found.auc == pytest.approx(7 / 8, abs=0.02)
        assert 0.55 < found.share < 0.8
    assert judged(X, 0).ties == ("kind",)


def test_the_columns_that_a_feature_is_tied_to_are_named():
    X = gaussian(0.9, 500, 0, more=6)
    assert judged(X, 0).ties == ("x1",)
    assert judged(X, 5).ties == ()


def test_a_group_is_replaced_together_and_keeps_its_inner_ties():
    X = gaussian(0.95, 800, 0, more=2)
    both, one = judged(X, 0, 1), judged(X, 0)
    assert one.warns
    assert not both.warns
    assert len(both.at) == len(both.faded) == 0


def test_wide_groups_are_judged_by_their_principal_parts():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(600, 1))
    X = hidden + 0.3 * rng.normal(size=(600, 8))
    found = judged(X, *range(7))
    assert found.warns
    assert found.ties == ("x7",)


def test_few_rows_and_lonely_or_constant_columns_say_nothing():
    few = judged(gaussian(0.9, 19, 0))
    assert np.isnan(few.auc)
    assert not few.warns
    assert not few.faded.any()
    assert few.on(np.arange(3.0)).faded.tolist() == [False] * 3
    for X in (np.random.default_rng(0).normal(size=(50, 1)), np.column_stack([np.arange(50.0), np.ones(50)])):
        for column in range(X.shape[1]):
            found = judged(X, column)
            assert (found.auc, found.share, found.warns) == (0.5, 0.0, False)


def test_columns_that_cannot_be_compared_are_left_aside():
    X = pd.DataFrame({"a": np.arange(40.0), "lists": [[k] for k in range(40)], "b": np.arange(40.0)})
    assert judged(X).ties == ("b",)


def test_containers_do_not_matter():
    X = gaussian(0.8, 200, 0, more=1)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    polars = pytest.importorskip("polars")
    found = [judged(table) for table in (X, frame, polars.from_pandas(frame))]
    assert found[0].auc == found[1].auc == found[2].auc
    np.testing.assert_array_equal(found[0].at, found[2].at)


@pytest.mark.parametrize("kind", ["close", "everywhere"])
def test_values_that_others_drew_are_judged_as_well(kind):
    """Conditional draws, y = rho x + noise anew, give the real distribution again; values from everywhere do not."""
    rho, n = 0.9, 1000
    X, rng = gaussian(rho, n, 0), np.random.default_rng(1)
    rows = np.tile(np.arange(n), 2)
    noise = rng.normal(size=2 * n)
    new = rho * X[rows, 0] + np.sqrt(1 - rho**2) * noise if kind == "close" else noise
    found = replaced(X, 1, drawn=(new,)).extrapolation
    assert found.drawn
    if kind == "close":
        assert found.auc == pytest.approx(0.5, abs=0.04)
        assert found.share < 0.02
    else:
        assert found.auc == pytest.approx(judged(X, 1).auc, abs=0.03)
        assert found.faded.any()


def test_shares_along_a_feature_are_means_in_rank_bins_and_a_missing_value_stands_alone():
    x = np.concatenate([np.arange(400.0), np.full(20, np.nan)])
    distinct = distinct_numbers(x)
    far = np.isnan(x) | (x >= 200)
    grid, at = along(distinct.values, distinct.codes, far)
    assert len(grid) == 21
    np.testing.assert_array_equal(at, np.isnan(grid) | (grid >= 200))


def test_a_feature_is_judged_on_one_blas_thread():
    """Regressions on tens of columns take longer with several, and much longer on busy cores."""
    blas = [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
    rows, seen = replaced(gaussian(0.9, 100, 0)), []

    class Watched(ReplacedRows):
        def _of_donors(self):
            seen.extend(library.num_threads for library in blas)
            return super()._of_donors()

    before = [library.num_threads for library in blas]
    Watched(rows.name, rows.columns, rows.among).extrapolation  # noqa: B018
    assert set(seen) == {1}
    assert [library.num_threads for library in blas] == before
