"""Monte-Carlo errors of the shares of single rows: against the deviations from the truth over new draws."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import losslens as ll
from losslens.uncertainty.row_errors import row_errors

RNG = np.random.default_rng(0)
N, P = 60, 4
X = RNG.normal(size=(N, P))
WEIGHT = RNG.uniform(0.5, 2, N)


def function(X):
    return X[:, 0] + X[:, 1] * X[:, 2]  # the last column is not used


Y = function(X) + RNG.normal(size=N)


def chances(X):
    p = 1 / (1 + np.exp(-function(X)))
    return np.column_stack([1 - p, p])


LABELS = (RNG.random(N) < chances(X)[:, 1]).astype(int)
CASES = {
    "both ways": {},
    "an odd number of sweeps": {"budget": 2000},
    "weights": {"sample_weight": WEIGHT},
    "some columns": {"features": ["x0", "x1", "x3"]},
    "log loss": {"loss": "log_loss"},
}


def shares(method, seed=0, **options):
    loss = options.pop("loss", "squared_error")
    model, y = (function, Y) if loss == "squared_error" else (chances, LABELS)
    if method == "walk":
        options.setdefault("budget", 1900)
    else:
        options.pop("budget", None)
    method = "rows" if method == "exact" else method
    return ll.shapley_importance(model, X, y, loss=loss, method=method, random_state=seed, progress=False, **options)


@pytest.mark.parametrize("case", CASES)
def test_errors_are_as_large_as_the_deviations(case):
    """The mean of the squared errors, over rows and features, is that of the squared deviations from all coalitions.

    Donors are drawn without replacement, so the variance of independent draws is a little too large: up to the share
    of the other rows that a row meets, a third here.
    """
    truth, squares = shares("exact", **CASES[case]).local, []
    for seed in range(25):
        found = shares("walk", seed, **CASES[case])
        assert found.local_error.shape == (N, len(found.features))
        squares.append([np.mean((found.local - truth) ** 2), np.mean(found.local_error**2)])
    deviation, error = np.mean(squares, axis=0)
    assert 0.6 < deviation / error < 1.2


def test_a_feature_that_is_not_used_has_no_error():
    found = shares("walk")
    assert found.local_error[:, 3].max() < 1e-12 < found.local_error[:, :3].min()


def test_without_sampling_the_error_is_0_and_of_averaged_predictions_it_is_unknown():
    assert not shares("exact").local_error.any()
    averaged = ll.shapley_importance(
        function, X, Y, loss="squared_error", method=ll.Sage("walk"), budget=200_000, progress=False
    )
    assert np.isnan(averaged.local_error).all()
    without_rows = ll.shapley_importance(LinearRegression().fit(X, Y), X, Y, method="totals", progress=False)
    if without_rows.shares is None:
        with pytest.raises(ValueError, match="single rows"):
            _ = without_rows.local_error


def test_some_rows_keep_their_errors(tmp_path):
    found = shares("walk")
    some = found.given([3, 9, 20])
    np.testing.assert_array_equal(some.local_error, found.local_error[[3, 9, 20]])
    np.testing.assert_array_equal(some.given([1]).local_error, found.local_error[[9]])
    for result in (found, some):
        result.save(tmp_path / "shares.zip")
        np.testing.assert_array_equal(ll.load(tmp_path / "shares.zip").local_error, result.local_error)


def test_too_few_rows_or_walks():
    few = ll.shapley_importance(function, X[:10], Y[:10], loss="squared_error", method="walk", progress=False)
    assert np.isnan(few.local_error).all()
    cells, no_row = np.zeros((30, 2, 3)), np.zeros((30, 2), int)
    arguments = np.arange(2), no_row, np.ones((30, 2)), np.zeros((30, 3)), np.zeros(30), np.ones(30)
    assert np.isnan(row_errors(cells, *arguments)).all()


def test_shares_that_are_no_means_of_the_walks_have_no_error():
    found = shares("walk")
    known, m = found.shares, found.shares.layout.width
    mass = known.layout.weights(found.sample, found.at)
    arguments = known.layout.donors[found.at], mass, known.local, found.gains, found.sample.weight
    assert np.isfinite(row_errors(known.cells, np.arange(m) % (m // 2), *arguments)).all()
    assert np.isnan(row_errors(known.cells**2, np.arange(m) % (m // 2), *arguments)).all()


def test_a_frame_by_its_labels():
    table = pd.DataFrame(X, columns=list("abcd"), index=[f"r{i}" for i in range(N)])
    found = ll.shapley_importance(
        lambda table: function(table.to_numpy()), table, Y, loss="squared_error", method="walk", progress=False
    )
    np.testing.assert_array_equal(found.given(["r5", "r7"]).local_error, found.local_error[[5, 7]])


@pytest.mark.parametrize("m", [N, N - 1])
def test_donors_are_drawn_without_replacement(m):
    """All donors leave no error; all but one leave sqrt(1 - (m - 1) / (n - 1)) of that of independent draws."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N, 3))
    f = lambda X: X[:, 0] * (1 + X[:, 1]) + X[:, 2]  # noqa: E731
    y = f(X) + rng.normal(size=N)
    options = {"loss": "squared_error", "donors": ll.Latin(m), "progress": False}
    draws = [ll.shapley_importance(f, X, y, random_state=seed, **options) for seed in range(12)]
    true = np.std([one.local for one in draws], axis=0, ddof=1).mean()
    said = np.mean([one.local_error for one in draws])
    assert said == pytest.approx(true, rel=0.2, abs=1e-12)
