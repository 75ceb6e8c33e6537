"""Kinds of walks: paths, donors of sweeps, how many sweeps, and the errors that they state."""

from dataclasses import replace
from itertools import islice, permutations
from types import SimpleNamespace

import numpy as np
import pytest

import coalitions
import losslens as ll
from coalitions import mixed
from losslens import losses
from losslens.game_theory import along
from losslens.passes.task import Options, prepare
from losslens.shapley import walks
from losslens.shapley.effect_walks import EffectWalk
from losslens.shapley.loss_walks import GROWTH, LossWalk, PerformanceWalk, WalkSummary, latin_shifts
from losslens.shapley.request import Request
from losslens.shapley.setup import set_up
from losslens.shapley.stopping import Absolute, ShapleySettings
from losslens.shapley.walks import SWEEP_BYTES, path, walk_from_donors

RNG = np.random.default_rng(0)
N, P = 30, 4
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 3, (N, 3))]).astype(float)
Y = X[:, 0] * (1 + X[:, 1]) + X[:, 2] + RNG.normal(size=N)
WEIGHT = RNG.uniform(0.2, 2, N)


def model(X):
    return X[:, 0] * (1 + X[:, 1]) + np.sin(X[:, 2] + X[:, 3])


def chances(X):
    p = 1 / (1 + np.exp(-model(X)))
    return np.column_stack([p / 2, 1 - p, p / 2])


def kind_of_walk(monkeypatch, verb=ll.shapley_importance, model=model, y=Y, loss="squared_error", **options):
    """The walk of a call, and its sweeps."""
    found = []
    original = walks.run

    def record(kind, progress):
        found.append((kind, original(kind, progress)))
        return found[-1][1]

    monkeypatch.setattr(walks, "run", record)
    given = {"y": y, "loss": loss} if verb is ll.shapley_importance else {}
    result = verb(model, X, **given, method="walk", random_state=0, **options)
    return found[-1][0], found[-1][1].sweeps, result


# Both readings of a walk.


TINY = 4


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "poisson"])
def test_both_readings_of_all_walks_are_the_shapley_shares(loss, monkeypatch):
    """Every order of three players and every pair of four rows, each walk read in both directions.

    The mean over the orders of a pair (i, k) is its Shapley share, by the first reading and by the second, and half
    the sum of the two readings of a step is (b_i - b_k) (T_after - T_before) / 2 for a loss a(y) - b(y) T(f) + c(f).
    """
    Z, y = np.exp(X[:TINY, :3]), np.exp(Y[:TINY])

    def positive(Z):
        return Z[:, 0] * (1 + Z[:, 1]) + np.sin(Z[:, 2]) + 2

    judge = losses.resolve(loss)
    options = Options(donors="all", random_state=0, progress=False)
    on = set_up(prepare(positive, Z, y, options, loss=judge, response="values", exact=False), None, lambda rows: None)
    every = np.array(list(permutations(range(3))))
    monkeypatch.setattr(walks, "random_orders", lambda count, p, rng, xp: np.tile(every, (count // len(every), 1)))
    i, k = (a.ravel() for a in np.meshgrid(np.arange(TINY), np.arange(TINY), indexing="ij"))
    rows, donors = np.repeat(i, len(every)), np.repeat(k, len(every))
    (found,) = walk_from_donors(on.arrays, rows, donors[None], np.random.default_rng(0), 7, both_ways=True)

    def by_pair(shares):
        return shares.reshape(TINY, TINY, len(every), 3).mean(axis=2)

    expected = coalitions.shares(positive, Z, y, judge)
    there, back = by_pair(found.shares), by_pair(found.back)
    np.testing.assert_allclose(back, there.swapaxes(0, 1), atol=1e-12)
    np.testing.assert_allclose(there.mean(axis=(0, 1)), expected.sfimp, atol=1e-12)
    np.testing.assert_allclose(there.mean(axis=1), expected.local, atol=1e-12)
    if loss != "absolute_error":
        predictions = path(on.arrays, rows, donors, every[np.arange(len(rows)) % len(every)])
        T = predictions if loss == "squared_error" else np.log(predictions)
        step = -along(every[np.arange(len(rows)) % len(every)], T)
        np.testing.assert_allclose(found.shares + found.back, 2 * (y[rows] - y[donors])[:, None] * step, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"sample_weight": WEIGHT}, {"donors": ll.Derangements()}], ids=str)
def test_both_readings_make_shares_of_rows_and_donors(monkeypatch, options):
    """Every walk is two pairs; rows and donors average to SFIMP, and half the sum of a walk is all that errors know."""
    _, sweeps, found = kind_of_walk(monkeypatch, budget=N + 7 * N * (P - 1), **options)
    shares, (n, R) = found.shares, (N, len(sweeps))
    pairs = shares.layout
    assert shares.cells.shape == (n, 2 * R, P)
    for r in range(R):  # the second half holds the first with row and donor swapped
        np.testing.assert_array_equal(pairs.donors[pairs.donors[:, r], R + r], np.arange(n))
    weight = found.sample.weight
    mass = weight * (1 - weight) if pairs.leaves_out_own else weight
    for role in (shares.local, shares.caused):
        np.testing.assert_allclose(mass @ role / mass.sum(), found.sfimp, rtol=1e-12, atol=1e-12)
    alike = pairs.mean_with_swapped(shares.cells[:, :, 0], np.arange(n))
    for r in range(R):
        np.testing.assert_array_equal(alike[:, r], alike[pairs.donors[:, r], R + r])
    few = np.arange(0, n, 3)
    partly = pairs.mean_with_swapped(shares.cells[few][:, :, 0], few)
    inside = np.isin(pairs.donors[few], few)
    np.testing.assert_array_equal(partly, np.where(inside, alike[few], shares.cells[few][:, :, 0]))


def test_walks_are_read_one_way_where_columns_are_left_out_or_donors_given(monkeypatch):
    """A column that nobody plays stays the row's: the reverse would be another row. Given donors are not added to."""
    for options in ({"features": ["x0", "x2"]}, {"donors": ll.Latin(6)}):
        _, sweeps, found = kind_of_walk(monkeypatch, **options)
        assert all(one.back is None for one in sweeps)
        assert not found.shares.layout.mirrored


def test_both_readings_take_half_of_the_noise(monkeypatch):
    """Of the same predictions; the loss of one reading holds f^2, which is no part of their sum."""
    kind, sweeps, _ = kind_of_walk(monkeypatch, budget=N + 40 * N * (P - 1))
    both, one = (kind.summary(some).monte_carlo_error for some in (sweeps, [replace(one, back=None) for one in sweeps]))
    assert np.square(both).sum() < 0.6 * np.square(one).sum()


# Paths.


@pytest.mark.parametrize("players", [[[0], [1], [2], [3]], [[0, 2], [1]], [[1], [3]]], ids=str)
@pytest.mark.parametrize("predict", [model, chances])
def test_a_path_goes_from_donor_to_row_one_player_at_a_time(monkeypatch, players, predict):
    """Many ties: a player with equal values changes nothing, and the model is asked only where something changes."""
    labels = np.digitize(Y, [0.0, 2.0])
    names = {f"p{k}": columns for k, columns in enumerate(players)}
    options = {"y": Y} if predict is model else {"y": labels, "loss": "log_loss"}
    kind, _, _ = kind_of_walk(monkeypatch, model=predict, features=names, budget=2000, **options)
    setup, rng = kind.setup, np.random.default_rng(1)
    rows, donors = rng.integers(0, N, (2, 200))
    orders = np.argsort(rng.random((200, len(players))), axis=1)
    before = setup.counter.rows
    found = path(setup.arrays, rows, donors, orders)
    asked = setup.counter.rows - before
    covered = sorted(c for columns in players for c in columns) == list(range(P))
    distinct = 0
    for walk, (i, k, order) in enumerate(zip(rows, donors, orders, strict=True)):
        lent = [c for columns in players for c in columns]
        at = [tuple(mixed(X, [i], [k], lent)[0])]
        for step in range(len(players) + 1):
            np.testing.assert_allclose(found[walk, step], predict(mixed(X, [i], [k], lent))[0], atol=1e-12)
            if step < len(players):
                lent = [c for c in lent if c not in players[order[step]]]
                at.append(tuple(mixed(X, [i], [k], lent)[0]))
        distinct += len(set(at)) - 1 - (covered and len(set(at)) > 1)  # both ends are known, or the row alone
    assert asked == distinct


@pytest.mark.parametrize("together", [1, 7, 1000])
def test_walks_at_a_time_change_nothing(monkeypatch, together):
    kind, _, _ = kind_of_walk(monkeypatch, budget=2000)
    donors = np.stack(list(islice(latin_shifts(N, np.random.default_rng(2), leaves_out_own=False), 3)))
    sweeps = walk_from_donors(kind.setup.arrays, np.arange(N), donors, np.random.default_rng(3), together)
    assert len(sweeps) == 3
    for one, lent in zip(sweeps, donors, strict=True):
        np.testing.assert_array_equal(one.donors, lent)
        walked = path(kind.setup.arrays, np.arange(N), lent, one.orders.astype(int))
        losses = (Y[:, None] - walked) ** 2
        for i in range(N):
            for step, j in enumerate(one.orders[i]):
                assert one.shares[i, j] == pytest.approx(losses[i, step] - losses[i, step + 1], abs=1e-9)
                assert one.steps[i, j] == pytest.approx(walked[i, step + 1] - walked[i, step], abs=1e-9)


# Donors.


@pytest.mark.parametrize("leaves_out_own", [False, True])
def test_n_sweeps_pair_every_row_with_every_donor_once(leaves_out_own):
    n, rng = 7, np.random.default_rng(0)
    draws = latin_shifts(n, rng, leaves_out_own=leaves_out_own)
    many = n - leaves_out_own
    for _ in range(3):  # then again
        sweeps = np.stack(list(islice(draws, many)))
        assert all(sorted(sweep) == list(range(n)) for sweep in sweeps)
        for i in range(n):
            expected = set(range(n)) - ({i} if leaves_out_own else set())
            assert set(sweeps[:, i]) == expected
    first = [next(latin_shifts(n, np.random.default_rng(s), leaves_out_own=leaves_out_own)) for s in range(700)]
    pairs = np.zeros((n, n))
    for donors in first:
        pairs[np.arange(n), donors] += 1
    expected = 700 / many * (1 - np.eye(n) * leaves_out_own)
    assert (np.abs(pairs - expected) <= 5 * np.sqrt(expected)).all()  # every pair is as likely


def test_donors_of_effects_come_as_often_as_their_weight_says(monkeypatch):
    kind, _, _ = kind_of_walk(monkeypatch, ll.shapley_effect, rows=list(range(12)), sample_weight=WEIGHT, budget=900)
    share = WEIGHT / WEIGHT.sum()
    drawn = np.array([kind._draw_donors(12) for _ in range(3000)])
    times = np.stack([np.bincount(one, minlength=N) for one in drawn])
    assert (np.abs(times - 12 * share) < 1 + 1e-9).all()  # up to rounding, in every draw
    np.testing.assert_allclose(times.mean(axis=0), 12 * share, atol=0.06)
    for place in (0, 11):  # and in every place
        first = np.bincount(drawn[:, place], minlength=N) / 3000
        assert (np.abs(first - share) < 5 * np.sqrt(share / 3000)).all()


# How many.


class Told(PerformanceWalk):
    """A walk whose errors are told."""

    gain = property(lambda self: SimpleNamespace(total=lambda weight: 10.0))
    total_error = property(lambda self: 0.1)

    def sweeps(self, count):
        return [None] * count

    def summary(self, sweeps):
        noise = np.array([0.4, 0.1]) / np.sqrt(len(sweeps)) if len(sweeps) > 2 else np.full(2, np.nan)
        return WalkSummary(np.array([6.0, 4.0]), None, noise, 10.0, np.zeros(N))

    def sampling(self, summary):
        return self.setup.sampling


def told(settings=None, sampling=0.2, *, fixed=None, memory=1 << 30, counted=0, fewest=6, cost=100):
    setup = SimpleNamespace(
        n=N, p=2, counter=SimpleNamespace(rows=counted), sample=SimpleNamespace(weight=np.full(N, 1 / N)),
        sampling=np.full(2, sampling),
    )  # fmt: skip
    return Told(
        setup=setup, rng=None, cost=cost, settings=settings or ShapleySettings(), memory=memory, fewest=fewest,
        fixed_sweeps=fixed,
    )  # fmt: skip


def test_a_budget_is_spent_on_whole_sweeps():
    for budget, sweeps in ((1230, 12), (1229, 11), (130, 1)):
        walk = told(ShapleySettings(budget=budget), counted=30)
        assert walk.max_sweeps == walk.first_sweeps == sweeps
        assert walk.sweeps_needed([None] * sweeps) == sweeps
    with pytest.raises(ValueError, match="budget=129 is too small: one sweep of walks takes up to 100 predictions"):
        _ = told(ShapleySettings(budget=129), counted=30).max_sweeps
    assert told().first_sweeps == 6
    assert told().max_sweeps == 100_000  # ten million predictions, where no budget is given
    assert told(cost=10**8).max_sweeps == told(cost=10**8).first_sweeps == 1


def test_sweeps_fit_into_memory():
    one = N * 2 * SWEEP_BYTES
    assert told(memory=5 * one).max_sweeps == told(memory=5 * one).first_sweeps == 5
    assert told(memory=6 * one - 1).max_sweeps == 5
    with pytest.raises(ValueError, match="memory is too small for 30 walks of 2 steps"):
        _ = told(memory=one - 1).max_sweeps
    assert told(fixed=8, memory=8 * one).max_sweeps == told(fixed=8, memory=8 * one).first_sweeps == 8
    assert told(fixed=8).sweeps_needed([None] * 8) == 8
    # A number that the arguments fix is drawn, or an error says why not.
    for given in ({"fixed": 8}, {"settings": ShapleySettings(budget=830)}):
        assert told(**given, memory=8 * one, counted=30).max_sweeps == 8
        with pytest.raises(ValueError, match=r"memory is too small for 8 sweeps .*; pass memory='\d+.* KiB'"):
            _ = told(**given, memory=8 * one - 1, counted=30).max_sweeps
    both = ShapleySettings(budget=830, precision=Absolute(0.1))
    assert told(both, memory=7 * one, counted=30).max_sweeps == 7


def test_sweeps_are_drawn_until_their_variance_is_a_tenth_of_the_samplings():
    """0.16 / R <= s^2 / 10: R = 1.6 / s^2. At least a quarter more than there are, of few rows at most GROWTH times."""
    assert told(sampling=0.4).sweeps_needed([None] * 10) == 10  # exactly enough
    assert told(sampling=0.2).sweeps_needed([None] * 20) == 40
    assert told(sampling=0.2).sweeps_needed([None] * 39) == 49  # 40 would do: a look costs as much as some sweeps
    assert told(sampling=0.2, fewest=5).sweeps_needed([None] * 5) == 5 * GROWTH
    many = told(sampling=0.2, fewest=5)
    many.setup.n = 10_000  # the variance of 30,000 cells is known well enough for the whole way
    assert many.sweeps_needed([None] * 5) == 40
    assert many.sweeps_needed([None] * 39) == 49
    assert told(sampling=0.0).sweeps_needed([None] * 20) == 64  # an error of 0.05, 0.5% of the total, is negligible
    assert told(fewest=2).sweeps_needed([None] * 2) == 2  # nothing is known of the error
    assert told(sampling=9.0).sweeps_needed([None] * 4) == 6  # memory= allows no more: cut short, whatever the error


def test_a_precision_fixes_the_number_at_its_first_look():
    """Stein: variance 0.16 of a sweep, half-width 0.1, t of 30 (R - 2) degrees of freedom at 2.5% / 2."""
    from scipy.stats import t

    walk = told(ShapleySettings(precision=Absolute(0.1)))
    expected = int(np.ceil(0.16 * t.ppf(1 - 0.05 / 4, N * 4) ** 2 / 0.01))
    assert walk.sweeps_needed([None] * 6) == expected
    assert walk.sweeps_needed([None] * 7) == 7
    assert told(ShapleySettings(precision=0.01)).half_width == pytest.approx(0.1)
    assert told(ShapleySettings(precision=Absolute(0.1)), fewest=2).sweeps_needed([None] * 2) == 3
    both = told(ShapleySettings(budget=10_000, precision=Absolute(0.1)))
    assert (both.first_sweeps, both.sweeps_needed([None] * 6)) == (6, expected)


def test_what_ended_a_run_is_said(monkeypatch):
    kind, sweeps, _ = kind_of_walk(monkeypatch, budget=2000, memory="4 GiB")
    for settings, cut, text in (
        (ShapleySettings(budget=5), True, "budget= ended the walks"),
        (ShapleySettings(), True, "the limit of 10,000,000 predictions ended the walks"),
        (ShapleySettings(), False, None),
    ):
        said = replace(kind, settings=settings).result(walks.Walked(sweeps, True, cut), "", ["first"]).remarks
        assert said[0] == "first"
        assert (len(said) == 1) if text is None else said[1].startswith(text)
    full = replace(kind, settings=ShapleySettings(precision=Absolute(1e-9)), memory=3 * N * P * SWEEP_BYTES)
    said = full.result(walks.Walked(sweeps[:3], True, True), "", []).remarks
    assert (
        said[0] == f"memory= ended the walks after 3 of {kind.fewest} sweeps, too few to estimate the Monte-Carlo error"
    )


def test_memory_for_fewer_sweeps_than_the_first_look_takes_is_said():
    """The numbers differ from those with more memory, however small their error is."""
    ask = {"method": "walk", "random_state": 0, "progress": False}
    found = ll.shapley_importance(model, X, Y, loss="squared_error", memory=92_160, **ask)
    assert "memory= ended the walks after 8 of 67 sweeps" in repr(found)
    assert "memory=" not in repr(ll.shapley_importance(model, X, Y, loss="squared_error", **ask))


def test_the_error_beside_the_bar_is_that_of_the_widest_interval(monkeypatch):
    kind, sweeps, _ = kind_of_walk(monkeypatch, budget=20_000, sample_weight=WEIGHT)
    rounds = np.array([WEIGHT / WEIGHT.sum() @ (one.shares + one.back) / 2 for one in sweeps])
    half = 1.96 * rounds[-100:].std(axis=0, ddof=1).max() / np.sqrt(len(sweeps))
    assert len(sweeps) > 100
    assert kind.accuracy(sweeps) == f"± {half / abs(kind.total):.1%} of the total"
    some, sweeps, _ = kind_of_walk(monkeypatch, budget=2000, features=["x0", "x1"])
    rounds = np.array([one.shares.mean(axis=0) for one in sweeps])
    half = 1.96 * rounds.std(axis=0, ddof=1).max() / np.sqrt(len(sweeps))
    assert some.accuracy(sweeps) == f"± {half:.3g}"


def test_few_rows_have_no_sampling_error_and_noise_is_no_part_of_it(monkeypatch):
    kind, sweeps, _ = kind_of_walk(monkeypatch, budget=4000)
    summary = kind.summary(sweeps)

    def with_noise(noise):
        return kind.sampling(replace(summary, monte_carlo_error=np.full(P, noise)))

    without, less = with_noise(0.0), with_noise(0.05)
    np.testing.assert_allclose(less**2, np.maximum(without**2 - 0.0025, 0))
    assert (with_noise(1e3) == 0).all()
    two = replace(kind, setup=replace(kind.setup, sample=replace(kind.setup.sample, block=np.arange(N) % 2)))
    assert np.isinf(two.sampling(summary)).all()


# Errors that are stated.


def spread_and_stated(ask, seeds=50):
    found = [ask(seed) for seed in range(seeds)]
    values, stated = (np.array(part) for part in zip(*found, strict=True))
    return values.mean(axis=0), values.var(axis=0, ddof=1), np.square(stated).mean(axis=0)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
def test_walks_from_all_donors_say_how_far_off_they_are(weight):
    """50 seeds: a ratio of variances lies within 0.4 and 2.5."""

    def ask(seed):
        found = ll.shapley_importance(
            model, X, Y, loss="squared_error", method=ll.Sage("walk"), budget=N + 6 * N * N * 3,
            random_state=seed, sample_weight=weight,
        )  # fmt: skip
        return found.sfimp, found.monte_carlo_error

    _, variance, stated = spread_and_stated(ask)
    assert (0.4 * variance < stated).all()
    assert (stated < 2.5 * variance).all()


@pytest.mark.parametrize("rows", [[0, 3], list(range(20))], ids=["few", "many"])
def test_walks_to_rows_say_how_far_off_they_are(rows):
    """Few rows have too few walks for additive parts, many have enough: either is right, and says how far off."""
    exact = ll.shapley_effect(model, X, rows, method="exact")

    def ask(seed):
        found = ll.shapley_effect(model, X, rows, method="walk", budget=N + 60 * 3 * len(rows), random_state=seed)
        np.testing.assert_allclose(found.local.sum(axis=1), found.prediction - found.base, atol=1e-9)
        return found.local, found.std_error

    mean, variance, stated = spread_and_stated(ask)
    moving = variance > 1e-12
    assert (np.abs(mean - exact.local)[moving] <= 5 * np.sqrt(variance[moving] / 50)).all()
    ratio = stated[moving] / variance[moving]
    assert 0.7 < np.median(ratio) < 1.6


def test_effects_of_walks_are_not_fitted_to_their_own_noise(monkeypatch):
    """Steps of one sweep are wrong: only sweeps of the other half have parts fitted to it.

    These all have donor 0 here, so that what changes is the same for every row.
    """
    kind, sweeps, _ = kind_of_walk(
        monkeypatch, ll.shapley_effect, rows=list(range(20)), features=["x0", "x1", "x2"], budget=N + 60 * 3 * 20
    )
    assert isinstance(kind, EffectWalk)
    even = [replace(one, donors=np.zeros(20, int)) if r % 2 else one for r, one in enumerate(sweeps)]
    noise = np.random.default_rng(0).normal(size=(20, 3)) * 20
    shaken = [replace(one, steps=one.steps + noise) if r == 0 else one for r, one in enumerate(even)]
    moved = kind.summary(shaken)[0] - kind.summary(even)[0]
    assert np.abs(moved).max() > 1e-3
    np.testing.assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-9)


def test_effects_stop_at_a_hundredth_of_the_spread_of_predictions(monkeypatch):
    kind, sweeps, found = kind_of_walk(monkeypatch, ll.shapley_effect, rows=[0, 5, 9])
    error = np.sqrt(np.mean(found.std_error**2, axis=0)).max()
    precise = 0.01 * model(X).std()
    assert error <= precise
    fewer = sweeps[: len(sweeps) // 8]
    needed, error = kind.sweeps_needed(fewer), np.sqrt(np.mean(kind.summary(fewer)[1] ** 2, axis=0)).max()
    assert needed == int(1 + len(fewer) * min(4.0, (error / precise) ** 2)) > len(fewer)
    assert replace(kind, budget=10).sweeps_needed(fewer) == len(fewer)


def test_walks_to_rows_within_budget_and_memory(monkeypatch):
    kind, _, _ = kind_of_walk(monkeypatch, ll.shapley_effect, rows=[0, 5, 9], budget=1000)
    assert kind.cost == 9
    setup = replace(kind.setup, counter=SimpleNamespace(rows=10))
    sized = 3 * P * SWEEP_BYTES
    assert replace(kind, setup=setup, budget=100).max_sweeps == 10
    assert replace(kind, setup=setup, budget=100).first_sweeps == 10
    assert replace(kind, setup=setup, budget=100, memory=10 * sized).first_sweeps == 10
    with pytest.raises(ValueError, match="memory is too small for 10 sweeps of walks to 3 rows"):
        _ = replace(kind, setup=setup, budget=100, memory=10 * sized - 1).first_sweeps
    free = replace(kind, setup=setup, budget=None)
    assert (free.max_sweeps, free.first_sweeps) == ((10**7 - 10) // 9, 10)
    with pytest.raises(ValueError, match="two sweeps of walks take 18 predictions; raise budget="):
        _ = replace(kind, setup=setup, budget=27).max_sweeps
    assert replace(kind, setup=setup, budget=28).max_sweeps == 2


@pytest.mark.parametrize(("donors", "many"), [("auto", 512), ("all", 513)])
def test_walks_from_all_donors_take_512_of_them_unless_all_are_asked_for(donors, many):
    table = np.random.default_rng(0).normal(size=(513, 2))
    found = ll.shapley_importance(
        lambda X: X[:, 0] + X[:, 1], table, table[:, 0] + 1, loss="squared_error", method=ll.Sage("walk"),
        budget=300_000, donors=donors, random_state=0,
    )  # fmt: skip
    assert f"from {many} donors" in found.design


def test_the_gain_of_other_pairs_is_a_mean_over_them(monkeypatch):
    """Over n - 1 donors, not n: by 1 / (1 - 1/n) larger. With weights a row's donors weigh differently: unknown."""
    kind, _, _ = kind_of_walk(monkeypatch, donors=ll.Derangements(), budget=2000)
    assert isinstance(kind, LossWalk)
    f = model(X)
    pairs = (Y[:, None] - f) ** 2 - ((Y - f) ** 2)[:, None]
    np.testing.assert_allclose(kind.gain.by_row, pairs.sum(axis=1) / (N - 1))
    np.testing.assert_allclose(kind.gain.by_donor, pairs.sum(axis=0) / (N - 1))
    assert kind.total == pytest.approx(pairs.sum() / N / (N - 1))
    other, _, _ = kind_of_walk(monkeypatch, donors=ll.Derangements(), budget=2000, sample_weight=WEIGHT)
    assert other.gain is None
    assert np.isinf(other.total_error)


def test_a_budget_with_a_precision_is_spent_as_far_as_memory_goes():
    """A budget alone says how many sweeps there are: fewer would be another result."""
    asked = SimpleNamespace(
        setup=SimpleNamespace(n=100, p=3), cost=1, memory=10_000, _by_budget=10**6, _by_memory=5, fixed_sweeps=None
    )
    asked.settings = ShapleySettings(budget=10**9, precision=Absolute(0.1))
    assert PerformanceWalk.max_sweeps.func(asked) == 5
    asked.settings = ShapleySettings(budget=10**9)
    with pytest.raises(ValueError, match="memory is too small for 1,000,000 sweeps"):
        PerformanceWalk.max_sweeps.func(asked)


def test_a_background_has_no_row_twice_and_none_of_weight_0():
    weight = np.repeat([0.0, 1.0], [10, 30])
    task = SimpleNamespace(sample=SimpleNamespace(weight=weight), design=SimpleNamespace(all_pairs=False, m=25))
    drawn = Request.draw_background(SimpleNamespace(task=task), np.random.default_rng(0))
    assert len(set(drawn.tolist())) == 25
    assert drawn.min() >= 10
