"""Shapley importances by sampling: walks, their budget, precision and interruption; the paper's algorithm."""

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression

import brute
import coalitions
import losslens as ll

RNG = np.random.default_rng(0)
N, P = 36, 4
X = np.column_stack([RNG.normal(size=(N, 2)), RNG.integers(0, 3, N), RNG.normal(size=N)])
Y = X[:, 0] * (1 + X[:, 1]) + X[:, 2] + RNG.normal(size=N)
WEIGHT = RNG.integers(1, 4, N).astype(float)
NAMES = ["x0", "x1", "x2", "x3"]
CLASSIFIER = LogisticRegression().fit(X, np.digitize(Y, [-0.5, 1.0]))
LABELS = np.digitize(Y, [-0.5, 1.0])


def model(X):
    return X[:, 0] * (1 + X[:, 1]) + np.sin(X[:, 2])


def walk(model=model, X=X, y=Y, loss="squared_error", **options):
    return ll.shapley_importance(model, X, y, loss=loss, **({"random_state": 0, "method": "walk"} | options))


def classes(**options):
    return walk(CLASSIFIER, y=LABELS, loss="log_loss", **options)


def truth(loss="squared_error", **options):
    return coalitions.shares(model, X, Y, brute.LOSSES[loss], **options)


CASES = {
    "plain": (walk, {}, truth()),
    "weights": (walk, {"sample_weight": WEIGHT}, truth(weight=WEIGHT)),
    "apart": (walk, {"donors": ll.Derangements()}, truth(apart=True)),
    "apart, weights": (walk, {"donors": ll.Derangements(), "sample_weight": WEIGHT}, truth(weight=WEIGHT, apart=True)),
    "absolute": (walk, {"loss": "absolute_error"}, truth("absolute_error")),
    "some": (walk, {"features": ["x0", "x1"]}, truth(players=[[0], [1]])),
    "groups": (walk, {"features": {"a": [0, 2], "b": [1], "c": [3]}}, truth(players=[[0, 2], [1], [3]])),
    "classes": (classes, {}, coalitions.shares(CLASSIFIER.predict_proba, X, LABELS, brute.LOSSES["log_loss"])),
}


@pytest.mark.parametrize("case", CASES)
def test_walks_are_right_on_average_and_say_how_far_off_they_are(case):
    """60 seeds of 8 to 10 sweeps: their mean is within 4 standard errors of all pairs and coalitions.

    The errors they state are those that the seeds show: a ratio of variances of 60 draws lies within 0.4 and 2.5.
    Distinct donors of a row make them a little smaller than stated, the controls' fit a little larger.
    """
    ask, options, expected = CASES[case]
    found = [ask(budget=N + 8 * N * (P - 1), random_state=seed, **options) for seed in range(60)]
    shares = np.array([one.sfimp for one in found])
    spread = shares.std(axis=0, ddof=1)
    assert (np.abs(shares.mean(axis=0) - expected.sfimp) <= 4 * spread / np.sqrt(60) + 1e-9).all()
    stated = np.mean([one.monte_carlo_error**2 for one in found], axis=0)
    moving = spread > 1e-9
    assert moving.any()
    assert (0.4 * spread[moving] ** 2 < stated[moving]).all()
    assert (stated[moving] < 2.5 * spread[moving] ** 2).all()
    if case in ("plain", "weights", "classes"):
        some = [one.given(np.arange(N) % 3 > 0) for one in found]
        spread = np.array([one.sfimp for one in some]).std(axis=0, ddof=1)[moving]
        stated = np.mean([one.monte_carlo_error**2 for one in some], axis=0)[moving]
        assert (0.4 * spread**2 < stated).all()
        assert (stated < 4 * spread**2).all()


@pytest.mark.parametrize("case", ["apart", "apart, weights"])
def test_walks_between_different_rows_are_right_on_average(case):
    """As many sweeps as rows: what is left of the noise is small beside a bias of order 1/n.

    A product a(row) b(donor) of centred numbers has mean 0 over all pairs, but -mean(a b)/(n - 1) over those of
    different rows.
    """
    ask, options, expected = CASES[case]
    shares = np.array([ask(budget=N + N * N * (P - 1), random_state=s, **options).sfimp for s in range(60)])
    error = shares.std(axis=0, ddof=1) / np.sqrt(60)
    assert (np.abs(shares.mean(axis=0) - expected.sfimp) <= 4 * error + 1e-9).all()


def test_a_dummy_earns_nothing_in_any_walk():
    """Whatever is drawn, and however few sweeps: x3 is not used."""
    for seed in range(60):
        found = walk(budget=N + 5 * N * (P - 1), sample_weight=WEIGHT, random_state=seed)
        assert found.sfimp[3] == 0.0
        assert (found.local[:, 3] == 0.0).all()


@pytest.mark.parametrize("case", CASES)
def test_what_walks_say_adds_up(case):
    ask, options, expected = CASES[case]
    found = ask(**options)
    weight = options.get("sample_weight", np.ones(N))
    assert not found.exact
    assert found.method == "walks"
    assert found.sfimp.sum() == pytest.approx(found.error_none - found.error_all, abs=1e-9)
    np.testing.assert_allclose(found.local.sum(axis=1), found.observations, atol=1e-9)
    if case not in ("some", "apart, weights"):  # the ends are known for all pairs
        np.testing.assert_allclose(found.observations, expected.gains, atol=1e-9)
        assert found.error_none == pytest.approx(expected.error_none)
        np.testing.assert_allclose(weight @ found.local / weight.sum(), found.sfimp, atol=1e-9)
    assert found.error_all == pytest.approx(expected.error_all)
    assert (np.abs(found.sfimp - expected.sfimp) <= 5 * found.monte_carlo_error + 1e-9).all()


@pytest.mark.parametrize("by", ["own", "donor"])
@pytest.mark.parametrize("case", CASES)
def test_curves_of_walks_average_to_the_share(case, by):
    ask, options, _ = CASES[case]
    found = ask(budget=2000, **options)
    for j, name in enumerate(found.features):
        assert found.curve(name, by=by).sfimp == pytest.approx(found.sfimp[j], abs=1e-9)


@pytest.mark.parametrize(
    ("method", "design"),
    list(product(["walk", "exact"], [ll.Latin(6), ll.Permutations(6), ll.Derangements(6)])),
    ids=str,
)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
def test_sums_and_curves_of_drawn_donors(design, method, weight):
    """As many donors as asked for; whatever was drawn, shares sum to the whole and curves average to them."""
    found = walk(donors=design, method=method, sample_weight=weight)
    assert repr(design) in found.design
    assert found.sfimp.sum() == pytest.approx(found.error_none - found.error_all, abs=1e-9)
    for j, name in enumerate(NAMES):
        for by in ("own", "donor"):
            assert found.curve(name, by=by).sfimp == pytest.approx(found.sfimp[j], abs=1e-9), by


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("design", [ll.Latin(6), ll.Permutations(6)], ids=repr)
def test_all_coalitions_of_drawn_donors_are_right_on_average(design, weight):
    found = np.array(
        [walk(donors=design, method="exact", sample_weight=weight, random_state=s).sfimp for s in range(50)]
    )
    error = found.std(axis=0, ddof=1) / np.sqrt(50)
    bias = np.abs(found.mean(axis=0) - truth(weight=weight).sfimp)
    assert (bias <= 4 * error + (1e-9 if weight is None else 0.05)).all()  # a ratio of means


@pytest.mark.parametrize("method", ["auto", "exact", "walk"])
def test_rows_have_donors_of_their_own(method):
    """With the same few donors for all rows their effects don't cancel, and no error would say so."""
    with pytest.raises(
        ValueError, match=r"all rows have the same few donors, whose effects don't cancel; use Latin\(m\)"
    ):
        walk(donors=ll.Grid(5), method=method)


# A model that is far too steep: its features take off next to nothing for some pairs, and a hundred for others.

STEEP = np.random.default_rng(0)
Z = np.column_stack([STEEP.normal(size=24), STEEP.integers(0, 3, 24), STEEP.normal(size=24), STEEP.integers(0, 2, 24)])
TOO_STEEP = Z[:, 0] * Z[:, 1] + Z[:, 0] + STEEP.normal(size=24)
Z = np.column_stack([Z, np.full(24, 7.0)])


class Steep:
    """Counts its rows, and has enough of it at some point."""

    def __init__(self, most):
        self.rows, self.most = 0, most

    def __call__(self, Z):
        self.rows += len(Z)
        if self.rows > self.most:
            raise RuntimeError(f"more than {self.most} rows")
        return Z[:, 4] * (Z[:, 0] * Z[:, 1] + Z[:, 0])


@pytest.mark.parametrize("design", ["all", ll.Derangements()], ids=str)
def test_no_walk_goes_astray(design):
    """Of 40 seeds of 10 sweeps none is much further off than the others, and none says so of itself.

    The largest of 40 normal draws is about 2.2 standard deviations off, beyond 6 never; a slope that divides by next to
    nothing is.
    """
    exact = walk(Steep(10**6), Z, TOO_STEEP, method="exact", donors=design)
    found = [walk(Steep(10**6), Z, TOO_STEEP, donors=design, budget=24 * 41, random_state=s) for s in range(40)]
    off = np.array([np.abs(one.sfimp - exact.sfimp)[0] for one in found])
    stated = np.array([one.monte_carlo_error[0] for one in found])
    assert off.max() < 6 * np.median(stated)
    assert stated.max() < 6 * np.median(stated)


@pytest.mark.parametrize("design", ["all", ll.Derangements()], ids=str)
def test_walks_end_when_they_are_good_enough(design):
    """A tenth of the sampling variance takes some hundred sweeps; one noisy look must not order a million walks."""
    found = walk(Steep(400_000), Z, TOO_STEEP, donors=design)
    assert (found.monte_carlo_error**2 <= 0.11 * found.sampling_error**2 + (0.0055 * found.sfimp.sum()) ** 2).all()


# The same answer.


def test_the_same_seed_gives_the_same_answer_for_any_number_of_workers():
    one, again, two = (walk(n_jobs=n_jobs, memory="20 MiB") for n_jobs in (1, 1, 2))
    for other in (again, two):
        np.testing.assert_array_equal(one.sfimp, other.sfimp)
        np.testing.assert_array_equal(one.local, other.local)
        assert one.n_predictions == other.n_predictions
    assert not np.array_equal(one.sfimp, walk(random_state=1).sfimp)


def test_containers_of_the_same_values_walk_the_same_way():
    frame = pd.DataFrame(X, columns=NAMES)

    def named(table):
        return model(np.column_stack([np.asarray(table[name], float) for name in NAMES]))

    expected = walk()
    for table in (frame, frame.set_index(frame["x3"]), pl.from_pandas(frame)):
        found = walk(named, table)
        np.testing.assert_array_equal(found.sfimp, expected.sfimp)
        np.testing.assert_array_equal(found.local, expected.local)


@pytest.mark.parametrize("methods", [("exact", "walk"), (ll.Sage("exact"), ll.Sage("walk"))], ids=["SFIMP", "SAGE"])
def test_trees_may_be_walked_too(methods):
    native = HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=3).fit(X, Y)
    exact, walked = (walk(native, method=method) for method in methods)
    assert (walked.engine, exact.engine) == ("blackbox", "trees")
    assert (np.abs(walked.sfimp - exact.sfimp) <= 5 * walked.monte_carlo_error + 1e-9).all()


# When to stop.


@pytest.mark.parametrize("budget", [N + 3 * N, 1000, 5000])
@pytest.mark.parametrize("features", [None, ["x0", "x2"]], ids=["all", "some"])
def test_a_budget_is_the_most_predictions(budget, features):
    found = walk(budget=budget, features=features)
    assert found.n_predictions <= budget
    assert found.n_predictions > budget / 3 - N * P


@pytest.mark.parametrize("precision", [0.03, ll.Absolute(0.1)], ids=str)
def test_a_precision_is_reached(precision):
    """Stein's second stage takes the first's variances, so the error in the end may differ a little."""
    from scipy.stats import norm

    found = walk(precision=precision)
    width = precision.value if isinstance(precision, ll.Absolute) else precision * (found.error_none - found.error_all)
    reach = norm.ppf(1 - 0.05 / 2 / P)
    assert (reach * found.monte_carlo_error <= 1.2 * width).all()
    assert (np.abs(found.sfimp - truth().sfimp) <= 1.5 * width).all()


def test_a_precision_of_all_pairs_of_different_rows_is_reached_and_one_of_drawn_donors_is_refused():
    found = walk(precision=ll.Absolute(0.2), donors=ll.Derangements())
    assert 2.5 * found.monte_carlo_error.max() <= 0.24
    with pytest.raises(ValueError, match="fixes the number of draws; leave out precision="):
        walk(precision=ll.Absolute(0.2), donors=ll.Latin(5))


def test_a_precision_that_the_budget_does_not_allow_is_told():
    found = walk(precision=0.0005, budget=20_000)
    assert found.n_predictions <= 20_000
    assert "budget= ended the walks before the Monte-Carlo error was as small as required" in repr(found)


def test_a_share_of_nothing_is_no_precision():
    y = np.random.default_rng(5).normal(size=N)
    y -= np.polynomial.Polynomial.fit(model(X), y, 1)(model(X))  # nothing to do with the model
    with pytest.raises(
        ValueError, match=r"not clearly different from 0; give it in units of the loss: Absolute\(value\)"
    ):
        walk(y=y, precision=0.05)
    assert walk(y=y, precision=ll.Absolute(0.5)).monte_carlo_error.max() < 0.5


def test_a_share_of_a_whole_that_is_not_known_is_no_precision():
    with pytest.raises(ValueError, match=r"needs the total, which is not known before drawing; give Absolute\(value\)"):
        walk(precision=0.05, features=["x0", "x1"])


class Impatient:
    """A model whose user presses Ctrl-C after some calls."""

    def __init__(self, calls):
        self.calls = calls

    def __call__(self, X):
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt
        return model(X)


@pytest.mark.parametrize("method", ["walk", ll.Sage("walk")], ids=str)
def test_walks_stopped_by_hand_are_an_estimate(method):
    found = walk(Impatient(8), precision=ll.Absolute(0.002), method=method)
    assert not found.complete
    assert "interrupted: a valid estimate with the stated error" in repr(found)
    assert found.sfimp.sum() == pytest.approx(found.error_none - found.error_all, abs=1e-9)
    expected = truth() if method == "walk" else coalitions.mean_shares(model, X, Y, brute.LOSSES["squared_error"])
    assert (np.abs(found.sfimp - expected.sfimp) <= 6 * found.monte_carlo_error).all()


@pytest.mark.parametrize("options", [{}, {"method": "exact"}, {"method": ll.Paper()}, {"method": ll.Sage()}], ids=str)
def test_an_interruption_before_there_is_an_answer_is_one(options):
    with pytest.raises(KeyboardInterrupt):
        walk(Impatient(1), **options)


def test_an_error_of_the_model_reaches_the_user():
    def picky(X):
        if len(X) > N:
            raise RuntimeError("too many rows")
        return model(X)

    with pytest.raises(RuntimeError, match="too many rows"):
        walk(picky)


# The paper's algorithm.


def test_the_papers_algorithm_asks_for_each_coalition_once():
    """Both ends are known; each other coalition that an order meets takes m_obs permutations of all rows."""
    found = walk(method=ll.Paper(2, 3))
    met = (found.n_predictions - N) / (3 * N)
    assert met in range(3, 2 * (P - 1) + 1)
    assert found.design == "2 orders and 3 permutations"
    every = walk(method=ll.Paper(200, 3))
    assert every.n_predictions == N + (2**P - 2) * 3 * N
    some = walk(method=ll.Paper(200, 3), features=["x0", "x2"])
    assert some.n_predictions == N + 3 * 3 * N


@pytest.mark.parametrize("features", [None, ["x0", "x2"]], ids=["all", "some"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
def test_the_papers_shares_sum_to_its_own_whole(features, weight):
    found = walk(method=ll.Paper(7, 3), features=features, sample_weight=weight)
    assert not found.exact
    assert found.sfimp.sum() == pytest.approx(found.error_none - found.error_all, abs=1e-9)
    with pytest.raises(ValueError, match="the paper's algorithm averages over rows; use method='walk'"):
        _ = found.local


def test_the_papers_shares_are_right_on_average():
    found = np.array([walk(method=ll.Paper(6, 5), random_state=seed).sfimp for seed in range(50)])
    error = found.std(axis=0, ddof=1) / np.sqrt(50)
    assert (np.abs(found.mean(axis=0) - truth().sfimp) <= 4 * error).all()


def test_the_paper_has_defaults():
    found = walk(method=ll.Paper())
    assert found.design == "120 orders and 50 permutations"


def test_the_papers_algorithm_draws_its_own_donors():
    with pytest.raises(ValueError, match="draws its own permutations, m_obs of them; leave out donors"):
        walk(method=ll.Paper(3, 2), donors=ll.Derangements())


def test_a_precision_that_cannot_be_met_is_refused_before_the_walks():
    """The target is a noisy feature that the model ignores: its gain is near 0, and a share of it is no precision."""
    X = np.random.default_rng(0).normal(size=(400, 6))
    predicted = []

    def model(Z):
        predicted.append(len(Z))
        return Z[:, 1]

    with pytest.raises(ValueError, match="precision"):
        ll.shapley_importance(model, X, X[:, 0], loss="squared_error", method="walk", precision=0.02, random_state=0)
    assert sum(predicted) == len(X)
