"""Identities of the definition, as properties over random models, losses, designs, ties, weights and groups.

The oracle is brute force over all pairs (`brute.py`): n predictions for each of n donors, and plain means of these.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import brute
import losslens as ll

COLUMNS = {"x0": [0], "x1": [1], "x2": [2], "x3": [3], "both": [0, 2]}
USED = ["x0", "x1", "x2", "both"]  # the model never looks at x3
POSITIVE = ("poisson_deviance", "gamma_deviance", "tweedie_deviance")
often, sometimes = settings(max_examples=100), settings(max_examples=50)
close = {"rtol": 1e-9, "atol": 1e-9}


@dataclass
class Case:
    """A model as a function, data, a loss, and who may lend to whom."""

    predict: Any
    X: np.ndarray
    y: np.ndarray
    loss: str
    weight: np.ndarray | None
    groups: np.ndarray | None

    @property
    def n(self):
        return len(self.X)

    def explain(self, donors, features=None, rows=slice(None), **more):
        part = {"sample_weight": self.weight, "groups": self.groups}
        part = {key: None if value is None else value[rows] for key, value in part.items()}
        asked = {name: COLUMNS[name] for name in features or USED}
        options = {"loss": self.loss, "features": asked, "donors": donors, "random_state": 7} | part | more
        return ll.feature_importance(self.predict, self.X[rows], self.y[rows], **options)

    def cells(self, name):
        return brute.cells(self.predict, self.X, self.y, COLUMNS[name], brute.LOSSES[self.loss])

    def averages(self, feature, rows=slice(None)):
        """The oracle's numbers for the pairs that this feature met; `rows` alone as observations."""
        count = brute.meetings(feature)
        kept = np.zeros(self.n, bool)
        kept[rows] = True
        found = brute.averages(self.cells(feature.name), count * kept[:, None], self.weight, self.groups)
        assume(found.mass.sum() > 0)
        return found


def polynomial(rng):
    c = rng.integers(-2, 3, size=6)
    return lambda X: c[0] + X[:, 0] * (c[1] + c[4] * X[:, 1]) + c[2] * X[:, 1] ** 2 + X[:, 2] * (c[3] + c[5] * X[:, 1])


def tree(rng):
    """A full tree of depth three: which of eight leaves, by three splits."""
    features, cuts, leaves = rng.integers(0, 3, size=7), rng.normal(size=7), rng.normal(size=8)

    def predict(X):
        node = np.zeros(len(X), int)
        for _ in range(3):
            node = 2 * node + 1 + (X[np.arange(len(X)), features[node]] > cuts[node])
        return leaves[node - 7]

    return predict


def signs(rng):
    a, b = rng.integers(0, 3, size=2)
    return lambda X: np.sign(X[:, a] - X[:, b]) + 2.0 * np.sign(X[:, 2] * X[:, 0])


def respond(raw, second, loss, k):
    """The raw functions as the response that a loss reads."""
    if loss in POSITIVE:
        return lambda X: 0.1 + np.abs(raw(X))
    if loss not in ("log_loss", "brier", "zero_one", "hinge"):
        return raw
    if loss == "hinge" and k == 2:
        return raw

    def scores(X):
        return np.column_stack([np.zeros(len(X)), raw(X), second(X)])[:, :k]

    def probabilities(X):
        shifted = np.exp(scores(X) - scores(X).max(axis=1, keepdims=True))
        return shifted / shifted.sum(axis=1, keepdims=True)

    return {"hinge": scores, "zero_one": lambda X: scores(X).argmax(axis=1)}.get(loss, probabilities)


VALUES = ("squared_error", "absolute_error", "huber", "pinball", *POSITIVE)


@st.composite
def cases(draw, weights=(False, True), groups=(False, True), least=4, losses=tuple(brute.LOSSES)):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    n = draw(st.integers(least, 11), label="n")
    ties = draw(st.sampled_from(["all", "some", "none"]), label="ties")
    X = rng.integers(-2, 3, size=(n, 4)).astype(float) if ties != "none" else rng.normal(size=(n, 4))
    if ties == "some":
        X[:, 1:3] = rng.normal(size=(n, 2))
    make = draw(st.sampled_from([polynomial, tree, signs]), label="model")
    loss = draw(st.sampled_from(losses), label="loss")
    k = draw(st.sampled_from([2, 3]), label="classes")
    predict = respond(make(rng), make(rng), loss, k)
    classified = loss in ("log_loss", "brier", "zero_one", "hinge")
    y = rng.integers(0, k, size=n) if classified else rng.gamma(2.0, size=n)
    weight = rng.integers(0, 4, size=n) if draw(st.sampled_from(weights), label="weights") else None
    labels = rng.integers(0, 3, size=n) if draw(st.sampled_from(groups), label="groups") else None
    assume(weight is None or (weight > 0).sum() > 1)
    assume(labels is None or len(np.unique(labels)) > 1)
    return Case(predict, X, y, loss, weight, labels)


def designs(n):
    m = st.integers(1, n)
    return st.one_of(
        st.just("all"),
        st.builds(ll.Grid, m, st.sampled_from(["random", "quantiles"])),
        st.builds(ll.Permutations, st.integers(1, 2 * n)),
        st.builds(ll.Latin, m),
        st.builds(ll.Systematic, m),
        st.just(ll.Derangements()),
        st.builds(ll.Derangements, st.integers(1, n - 1)),
    )


def names_for(design, names=USED):
    """A group of columns has no order for rank bins."""
    return [name for name in names if not (isinstance(design, ll.Systematic) and name == "both")]


def codes_on(grid, X, columns):
    """Which grid value each row holds; -1 where none."""
    grid = np.reshape(grid, (len(grid), -1))
    same = (X[:, None, columns] == grid[None]).all(axis=2)
    return np.where(same.any(axis=1), same.argmax(axis=1), -1)


# Everything is a mean over cells.


@often
@given(cases(), st.data())
def test_importance_and_local_importances_are_means_of_the_cells_met(case, data):
    design = data.draw(designs(case.n))
    for name, feature in case.explain(design, names_for(design)).items():
        expected = case.averages(feature)
        np.testing.assert_allclose(feature.pfi, expected.pfi, **close)
        np.testing.assert_allclose(feature.local, expected.local, err_msg=name, **close)


@often
@given(cases(), st.data())
def test_the_curve_is_the_mean_of_the_cells_that_share_a_value(case, data):
    design = data.draw(designs(case.n).filter(lambda design: not isinstance(design, ll.Systematic)))
    for name, feature in case.explain(design).items():
        columns, met = COLUMNS[name], case.averages(feature).mass
        codes = codes_on(feature.grid, case.X, columns)
        np.testing.assert_array_equal(codes[met.sum(axis=0) > 0] >= 0, True)
        cells, shares = case.cells(name), met.sum(axis=0) / met.sum()
        for v, pi in enumerate(feature.pi):
            at = met[:, codes == v]
            np.testing.assert_allclose(feature.weights[v], shares[codes == v].sum(), **close)
            if at.sum() > 0:
                np.testing.assert_allclose(pi, (at * cells[:, codes == v]).sum() / at.sum(), **close)


@sometimes
@given(cases(), st.data())
def test_the_curve_averages_to_the_importance(case, data):
    design = data.draw(designs(case.n))
    for feature in case.explain(design, names_for(design)).values():
        case.averages(feature)
        np.testing.assert_allclose(feature.weights.sum(), 1)
        np.testing.assert_allclose(feature.pi @ feature.weights, feature.pfi, **close)


@sometimes
@given(cases(), st.data())
def test_a_rank_bin_of_systematic_shifts_is_a_column_of_donors(case, data):
    m = data.draw(st.integers(1, case.n))
    for name, feature in case.explain(ll.Systematic(m), names_for(ll.Systematic(m))).items():
        cells, mass = case.cells(name), case.averages(feature).mass
        rows, donors = np.arange(case.n), brute.donors(feature)
        ranks = codes_on(np.unique(case.X[:, COLUMNS[name]]), case.X, COLUMNS[name])
        assert np.all(np.diff(ranks[donors], axis=1) >= 0)  # the bins follow the feature's order
        for v, pi in enumerate(feature.pi):
            at = [donors[:, t] for t in np.flatnonzero(feature.layout.place == v)]
            weight = np.array([np.where(mass[rows, k] > 0, mass[rows, k], 0) for k in at])
            # A donor met twice by a row has twice the mass in the oracle's matrix, once in each column.
            weight /= np.array([brute.meetings(feature)[rows, k] for k in at])
            np.testing.assert_allclose(feature.weights[v], weight.sum() / mass.sum(), **close)
            if weight.sum() > 0:
                found = np.array([cells[rows, k] for k in at])
                np.testing.assert_allclose(pi, (weight * found).sum() / weight.sum(), **close)


@sometimes
@given(cases(weights=[False], groups=[False]))
def test_local_importances_average_to_the_importance_and_single_curves_to_both(case):
    """ici @ weights = local, mean of the rows of ici = pi, mean of local = pi @ weights = pfi."""
    for feature in case.explain("all").values():
        np.testing.assert_allclose(feature.ici @ feature.weights, feature.local, **close)
        np.testing.assert_allclose(feature.ici.mean(axis=0), feature.pi, **close)
        np.testing.assert_allclose(feature.local.mean(), feature.pfi, **close)


@sometimes
@given(cases(losses=VALUES), st.data())
def test_predictions_average_to_partial_dependence(case, data):
    design = data.draw(designs(case.n).filter(lambda design: not isinstance(design, ll.Systematic)))
    w = np.ones(case.n) if case.weight is None else case.weight
    for name, feature in case.explain(design).items():
        asked = brute.predictions(case.predict, case.X, COLUMNS[name])
        codes, met = codes_on(feature.grid, case.X, COLUMNS[name]), case.averages(feature).mass
        for v, pd in enumerate(feature.effect.pd):
            k = np.flatnonzero(codes == v)
            if feature.design.common:  # every row sees every value, whoever lends it
                np.testing.assert_allclose(pd, w @ asked[:, k[0]] / w.sum(), **close)
            elif met[:, k].sum() > 0:
                np.testing.assert_allclose(pd, (met * asked)[:, k].sum() / met[:, k].sum(), **close)


# Identity 1: the diagonal, V and U, the ratio.


@sometimes
@given(cases(), st.data())
def test_a_row_that_lends_to_itself_changes_nothing(case, data):
    design = data.draw(st.sampled_from(["all", ll.Grid(2), ll.Latin(case.n)]))
    for name, feature in case.explain(design).items():
        codes = codes_on(feature.grid, case.X, COLUMNS[name])
        on = np.flatnonzero(codes >= 0)
        own = feature.ici[on, codes[on]]
        assert np.all((own == 0) | np.isnan(own))


@sometimes
@given(cases(weights=[False], groups=[False]))
def test_v_is_u_times_n_minus_one_over_n(case):
    v, u = case.explain("all"), case.explain(ll.Derangements())
    for name in USED:
        np.testing.assert_allclose(v[name].pfi, (case.n - 1) / case.n * u[name].pfi, **close)
        np.testing.assert_allclose(u[name].pfi, brute.u_statistic(case.cells(name)), **close)


@sometimes
@given(cases(), st.data())
def test_the_error_is_the_mean_loss_of_the_unchanged_rows(case, data):
    """GE_P has no donors in it, so neither the design nor `groups=` can change it."""
    design = data.draw(designs(case.n))
    found = case.explain(design, ["x0"])
    case.averages(found["x0"])
    expected = np.average(brute.LOSSES[case.loss](case.y, case.predict(case.X)), weights=case.weight)
    np.testing.assert_allclose(found.error, expected, **close)


@sometimes
@given(cases(weights=[False], groups=[False]), st.data())
def test_the_ratio_is_the_pair_losses_over_the_error(case, data):
    design = data.draw(designs(case.n))
    formula = brute.LOSSES[case.loss]
    error = formula(case.y, case.predict(case.X)).mean()
    assume(error > 1e-6)
    for name, feature in case.explain(design, names_for(design)).items():
        losses = brute.pair_losses(case.predict, case.X, case.y, COLUMNS[name], formula)
        count = brute.meetings(feature)
        np.testing.assert_allclose(feature.ratio, (count * losses).sum() / count.sum() / error, **close)


# Identity 3: all shifts are all pairs.


@sometimes
@given(cases())
def test_all_shifts_are_all_pairs(case):
    for design, name in ((ll.Latin(case.n), "both"), (ll.Systematic(case.n), "x1"), (ll.Grid(case.n), "x0")):
        exact, shifted = case.explain("all", [name])[name], case.explain(design, [name])[name]
        case.averages(exact)
        assert shifted.exact
        np.testing.assert_allclose(shifted.pfi, exact.pfi, **close)
        np.testing.assert_allclose(shifted.local, exact.local, **close)


@sometimes
@given(cases())
def test_all_shifts_but_zero_are_all_pairs_of_different_rows(case):
    exact, shifted = case.explain(ll.Derangements()), case.explain(ll.Derangements(case.n - 1))
    assert shifted.exact
    for name in USED:
        case.averages(exact[name])
        np.testing.assert_allclose(shifted[name].pfi, exact[name].pfi, **close)
        np.testing.assert_allclose(shifted[name].local, exact[name].local, **close)


# Identity 4: the variance of one permutation.


def test_one_permutation_varies_as_the_doubly_centred_cells_say():
    """Var = sum(d^2) / (n^2 (n - 1)), d the cells less their row and column means (plus the grand mean).

    N columns of Permutations(N) are N independent permutations. An empirical variance has relative standard error
    sqrt((kurtosis - 1)/N); four of them at N = 20,000 and the kurtosis found are under 5%, so that n^3 in place of
    n^2 (n - 1), 25% off at n = 5, fails.
    """
    rng, N = np.random.default_rng(0), 20_000
    X, y = rng.normal(size=(5, 2)), rng.normal(size=5)
    options = {"loss": "absolute_error", "features": "x0", "donors": ll.Permutations(N), "random_state": 1}
    found = ll.feature_importance(lambda X: X[:, 0] * X[:, 1], X, y, **options)["x0"]
    draws = found.cells.changes.mean(axis=0)
    cells = brute.cells(lambda X: X[:, 0] * X[:, 1], X, y, [0], brute.LOSSES["absolute_error"])
    d = cells - cells.mean(axis=0) - cells.mean(axis=1, keepdims=True) + cells.mean()
    variance = np.sum(d**2) / (5**2 * 4)
    kurtosis = np.mean((draws - draws.mean()) ** 4) / draws.var() ** 2
    tolerance = 4 * np.sqrt((kurtosis - 1) / N)
    assert tolerance < 0.05
    assert draws.var() == pytest.approx(variance, rel=tolerance)


# Identity 7: a feature the model ignores.


@often
@given(cases(), st.data())
def test_an_unused_feature_is_exactly_zero_everywhere(case, data):
    design = data.draw(designs(case.n))
    feature = case.explain(design, ["x0", "x3"])["x3"]
    case.averages(feature)
    assert feature.pfi == 0
    assert np.all(feature.cells.changes == 0)
    assert np.all((feature.local == 0) | np.isnan(feature.local))
    assert np.all((feature.pi == 0) | np.isnan(feature.pi))
    assert feature.given(np.arange(case.n)[feature.means.mass > 0]).pfi == 0


@sometimes
@given(cases(losses=["squared_error"]), st.floats(-3, 3), st.floats(-3, 3))
def test_cells_are_linear_in_the_loss(case, a, b):
    first, second = brute.LOSSES["squared_error"], brute.LOSSES["absolute_error"]
    mixed = case.explain("all", loss=lambda y, f: a * first(y, f) + b * second(y, f))
    one, two = case.explain("all", loss="squared_error"), case.explain("all", loss="absolute_error")
    for name in USED:
        np.testing.assert_allclose(mixed[name].ici, a * one[name].ici + b * two[name].ici, rtol=1e-7, atol=1e-7)


# Identity 8: two conditionals.


@often
@given(cases(), st.data())
def test_given_keeps_the_rows_and_all_their_donors(case, data):
    design = data.draw(designs(case.n))
    rows = np.sort(data.draw(st.lists(st.integers(0, case.n - 1), min_size=1, unique=True)))
    for feature in case.explain(design, names_for(design)).values():
        expected, part = case.averages(feature, rows), feature.given(rows)
        np.testing.assert_allclose(part.pfi, expected.pfi, **close)
        np.testing.assert_allclose(part.local, expected.local[rows], **close)
        np.testing.assert_allclose(part.pi @ part.weights, part.pfi, **close)


@sometimes
@given(cases(weights=[False], groups=[False]), st.data())
def test_groups_average_back_with_their_shares(case, data):
    labels = np.array(data.draw(st.lists(st.sampled_from("abc"), min_size=case.n, max_size=case.n)))
    design = data.draw(designs(case.n))
    for feature in case.explain(design, names_for(design)).values():
        parts = feature.by(labels)
        assert sorted(parts) == sorted(set(labels))
        whole = sum(part.pfi * np.mean(labels == label) for label, part in parts.items())
        np.testing.assert_allclose(whole, feature.pfi, **close)


@often
@given(cases(least=5), st.data())
def test_subset_is_what_recomputing_on_the_subset_gives(case, data):
    design = data.draw(st.sampled_from(["all", ll.Derangements()]))
    rows = np.sort(data.draw(st.lists(st.integers(0, case.n - 1), min_size=3, unique=True)))
    assume(case.weight is None or (case.weight[rows] > 0).sum() > 1)
    assume(case.groups is None or len(np.unique(case.groups[rows])) > 1)
    whole, again = case.explain(design), case.explain(design, rows=rows)
    for name in USED:
        part, anew = whole[name].subset(rows), again[name]
        mask = np.zeros(case.n, bool)
        mask[rows] = True
        pairs = np.outer(mask, mask) & ~np.eye(case.n, dtype=bool)
        assume(brute.averages(case.cells(name), pairs, case.weight, case.groups).mass.sum() > 0)
        assert part.exact
        np.testing.assert_allclose(part.pfi, anew.pfi, **close)
        np.testing.assert_allclose(part.local, anew.local, **close)
        np.testing.assert_array_equal(part.grid, anew.grid)
        np.testing.assert_allclose(part.weights, anew.weights, **close)
        np.testing.assert_allclose(part.pi, anew.pi, **close)
        np.testing.assert_allclose(part.ici, anew.ici, **close)
        np.testing.assert_allclose(part.error, anew.error, **close)


@often
@given(cases(), st.data())
def test_subset_of_a_sampled_design_is_the_mean_of_the_cells_that_remain(case, data):
    m = data.draw(st.integers(1, case.n - 1))
    kind = data.draw(st.sampled_from([ll.Latin, ll.Permutations, ll.Systematic, ll.Derangements, ll.Grid]))
    design = kind(m)
    rows = np.sort(data.draw(st.lists(st.integers(0, case.n - 1), min_size=2, unique=True)))
    mask = np.zeros(case.n, bool)
    mask[rows] = True
    for name, feature in case.explain(design, names_for(design)).items():
        count = brute.meetings(feature) * np.outer(mask, mask)
        expected = brute.averages(case.cells(name), count, case.weight, case.groups)
        assume(expected.mass.sum() > 0)
        part = feature.subset(rows)
        np.testing.assert_allclose(part.pfi, expected.pfi, **close)
        np.testing.assert_allclose(part.local, expected.local[rows], **close)  # NaN where no cell remains
        np.testing.assert_allclose(part.pi @ part.weights, part.pfi, **close)
        assert not part.exact or kind is ll.Derangements


# Identity 11 and the weights: repeated values, repeated rows.


@sometimes
@given(cases(weights=[True], groups=[False]))
def test_whole_weights_are_repeated_rows(case):
    repeated = np.repeat(np.arange(case.n), case.weight)
    once = case.explain("all")
    again = case.explain("all", rows=repeated, sample_weight=None)
    for name in USED:
        weighted, plain = once[name], again[name]
        np.testing.assert_allclose(weighted.pfi, plain.pfi, **close)
        np.testing.assert_allclose(np.repeat(weighted.local, case.weight), plain.local, **close)
        held = weighted.weights > 0
        np.testing.assert_allclose(weighted.weights[held], plain.weights, **close)
        np.testing.assert_allclose(weighted.pi[held], plain.pi, **close)
        np.testing.assert_allclose(weighted.error, plain.error, **close)


@sometimes
@given(cases(weights=[False]), st.data())
def test_the_order_of_the_rows_means_nothing_to_exact_numbers(case, data):
    order = np.array(data.draw(st.permutations(range(case.n))))
    design = data.draw(st.sampled_from(["all", ll.Derangements()]))
    one, two = case.explain(design), case.explain(design, rows=order)
    for name in USED:
        case.averages(one[name])
        np.testing.assert_allclose(one[name].pfi, two[name].pfi, **close)
        np.testing.assert_allclose(one[name].local[order], two[name].local, **close)
        np.testing.assert_allclose(one[name].pi, two[name].pi, **close)


@sometimes
@given(cases(weights=[False], groups=[False]))
def test_distinct_values_are_predicted_once(case):
    """n (d - 1) predictions for d distinct values: a row's own value is known."""
    for name, feature in case.explain("all").items():
        d = len(np.unique(case.X[:, COLUMNS[name]], axis=0))
        assert feature.n_predictions == case.n * (d - 1)
        assert len(feature.weights) == d
