"""Where another library computes the same number, ours is equal to it; where it goes wrong, ours does not."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer

import brute
import losslens as ll

RNG = np.random.default_rng(0)
N = 60
X = np.column_stack([RNG.normal(size=(N, 2)), RNG.integers(0, 4, size=N)]).astype(float)
Y = X[:, 0] * X[:, 1] + X[:, 2] + RNG.normal(size=N)
FOREST = RandomForestRegressor(10, random_state=0).fit(X, Y)
LABELS = np.where(Y > 1, "yes", "no")
CLASSIFIER = RandomForestClassifier(10, random_state=0).fit(X, LABELS)


# scikit-learn: the same numbers.


@pytest.mark.parametrize("fitted", [FOREST, LinearRegression().fit(X, Y)], ids=["forest", "linear"])
@pytest.mark.parametrize("j", [0, 1, 2])
def test_ice_and_pd_are_those_of_scikit_learn(fitted, j):
    theirs = partial_dependence(fitted, X, [j], kind="both", grid_resolution=N + 1, method="brute")
    ours = ll.feature_effect(fitted, X, donors="all")[f"x{j}"]
    np.testing.assert_array_equal(ours.grid, theirs["grid_values"][0])
    np.testing.assert_allclose(ours.ice, theirs["individual"][0])
    np.testing.assert_allclose(ours.pd, theirs["average"][0])


def test_weighted_pd_and_the_pd_of_classes_and_pairs_are_those_of_scikit_learn():
    weight = RNG.integers(1, 5, size=N)
    theirs = partial_dependence(FOREST, X, [0], sample_weight=weight, grid_resolution=N + 1, method="brute")
    ours = ll.feature_effect(FOREST, X, features="x0", donors="all", sample_weight=weight)["x0"]
    np.testing.assert_allclose(ours.pd, theirs["average"][0])
    theirs = partial_dependence(CLASSIFIER, X, [1], grid_resolution=N + 1, method="brute")
    np.testing.assert_allclose(ll.feature_effect(CLASSIFIER, X, donors="all")["x1"].pd, theirs["average"][0])
    theirs = partial_dependence(FOREST, X, [(0, 2)], grid_resolution=N + 1, method="brute")
    ours = ll.feature_effect(FOREST, X, features=("x0", "x2"), donors="all")["x0", "x2"]
    np.testing.assert_allclose(ours.pd, theirs["average"][0])


def test_cells_at_scikit_learns_own_permutations_are_its_importances():
    """It draws one seed and shuffles the rows again and again, each time shuffling the column as it stands.

    Row i then holds the value of row t(i), t the composition so far: its score falls by the mean of our D(i, t(i)).
    """
    theirs = permutation_importance(FOREST, X, Y, scoring="neg_mean_squared_error", n_repeats=4, random_state=5)
    seed = np.random.RandomState(5).randint(np.iinfo(np.int32).max + 1)
    ours = ll.feature_importance(FOREST, X, Y, donors="all")
    for j, feature in enumerate(ours.values()):
        place = np.searchsorted(feature.grid, X[:, j])
        state, order, donor = np.random.RandomState(seed), np.arange(N), np.arange(N)
        for repeat in range(4):
            state.shuffle(order)
            donor = donor[order]
            found = feature.ici[np.arange(N), place[donor]].mean()
            assert found == pytest.approx(theirs.importances[j, repeat])


@pytest.mark.parametrize(
    ("scoring", "loss"), [("neg_mean_squared_error", None), ("neg_mean_absolute_error", "absolute_error")]
)
def test_our_permutations_give_the_same_in_scikit_learns_scoring(scoring, loss):
    ours = ll.feature_importance(FOREST, X, Y, loss=loss, donors=ll.Permutations(5), random_state=1)
    scorer = get_scorer(scoring)
    for j, (name, feature) in enumerate(ours.items()):
        falls = []
        for donors in brute.donors(feature).T:
            replaced = X.copy()
            replaced[:, j] = X[donors, j]
            falls.append(scorer(FOREST, X, Y) - scorer(FOREST, replaced, Y))
        assert ours[name].pfi == pytest.approx(np.mean(falls))


def test_more_permutations_of_scikit_learn_come_nearer_to_our_exact_number():
    """Its 50 repeats have standard error std/sqrt(50); and U = n/(n - 1) V is not what they estimate."""
    theirs = permutation_importance(FOREST, X, Y, scoring="neg_mean_squared_error", n_repeats=50, random_state=0)
    for j, feature in enumerate(ll.feature_importance(FOREST, X, Y, donors="all").values()):
        error = theirs.importances_std[j] / np.sqrt(50)
        assert feature.pfi == pytest.approx(theirs.importances_mean[j], abs=4 * error)


# scikit-learn: what goes wrong there.


@pytest.mark.parametrize("design", [ll.Grid(6), ll.Latin(3), ll.Permutations(3), ll.Systematic(3)], ids=str)
def test_an_unused_feature_is_zero_on_a_sample_too(design):
    """permutation_importance(max_samples=0.1) compares a sample with the baseline of all rows: -0.114 for nothing."""
    model = LinearRegression().fit(X[:, :2], Y)
    found = ll.feature_importance(lambda X: model.predict(X[:, :2]), X, Y, loss="squared_error", donors=design)
    assert found["x2"].pfi == 0
    assert np.all(found["x2"].local == 0)
    assert found.given(np.arange(6))["x2"].pfi == 0


def test_errors_of_different_features_do_not_move_together():
    """One seed for every column would: two features alike in all but their noise then err by the same draw.

    Over 200 seeds the correlation of independent errors has standard error 0.07; four of them are allowed.
    """
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(40, 2))
    y = Z.sum(axis=1) + rng.normal(size=40)
    draws = []
    for seed in range(200):
        options = {"loss": "squared_error", "donors": ll.Latin(1), "random_state": seed}
        draws.append([f.pfi for f in ll.feature_importance(lambda Z: Z.sum(axis=1), Z, y, **options).values()])
    assert abs(np.corrcoef(np.array(draws).T)[0, 1]) < 4 / np.sqrt(200)


def test_polars_frames_keep_their_names_and_types():
    table = pl.DataFrame({"a": X[:, 0], "whole": X[:, 2].astype(int)})
    seen = []

    def model(table):
        seen.append((table.columns, table.schema["whole"]))
        return table["a"] * table["whole"]

    ll.feature_importance(model, table, Y, loss="squared_error")
    ll.feature_effect(model, table)
    assert set(map(str, seen)) == {str((["a", "whole"], pl.Int64))}


def test_integer_columns_have_a_partial_dependence():
    found = ll.feature_effect(lambda X: X[:, 0] / 2, np.array([[1, 2], [3, 4], [5, 6]]))["x0"]
    np.testing.assert_array_equal(found.pd, [0.5, 1.5, 2.5])
    assert found.grid.dtype.kind == "i"


# sage, fippy, hidimstat.


def test_zero_one_loss_works_and_unused_features_have_an_error_of_zero():
    found = ll.feature_importance(
        lambda X: (X[:, 0] > 0).astype(int), X, (Y > 1).astype(int), loss="zero_one", donors=ll.Latin(5)
    )
    assert found["x0"].std_error > 0
    assert found["x1"].std_error == 0


def test_a_seed_repeats_an_answer():
    one, two = (
        ll.feature_importance(FOREST, X, Y, donors=ll.Permutations(3), random_state=9).to_frame() for _ in range(2)
    )
    pd.testing.assert_frame_equal(one, two)


def test_an_interval_covers_a_noise_feature_as_often_as_it_says():
    """f = x0 + 0.1 x1, y = x0 + e: in the population PFI_1 = E(0.1 (x_i - x_k))² + 2 E r_i 0.1 (x_i - x_k),

    r = e - 0.1 x1: 0.02 - 0.02 = 0. fippy's 95% interval covers such a feature 24% of the time. 400 samples: the share
    has standard error 0.011.
    """
    rng, covered = np.random.default_rng(4), 0
    for _ in range(400):
        Z = rng.normal(size=(80, 2))
        y = Z[:, 0] + rng.normal(size=80)
        found = ll.feature_importance(
            lambda Z: Z[:, 0] + 0.1 * Z[:, 1], Z, y, loss="squared_error", features="x1", donors=ll.Latin(10)
        )
        low, high = found["x1"].interval()
        covered += low < 0 < high
    assert 0.90 < covered / 400 < 0.99


def test_words_and_missing_values_are_values():
    table = pd.DataFrame({"a": np.where(np.arange(N) % 7 == 0, np.nan, X[:, 0]), "w": ["p", "q", None] * 20})

    def model(table):
        return table["a"].fillna(5.0).to_numpy() + (table["w"] == "q").to_numpy()

    found = ll.feature_importance(model, table, Y, loss="squared_error")
    base = (Y - model(table)) ** 2
    for name in table:
        losses = [(Y - model(table.assign(**{name: table[name].iloc[k]}))) ** 2 for k in range(N)]
        assert found[name].pfi == pytest.approx(np.mean(losses) - base.mean())


# dalex, alibi, eli5, mlxtend.


def test_exact_numbers_with_weights_need_no_n_squared_memory():
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(600, 2))
    weight = rng.integers(1, 4, size=600)
    options = {"loss": "squared_error", "donors": "all", "sample_weight": weight, "features": "x0"}
    small = ll.feature_importance(lambda Z: Z[:, 0] * Z[:, 1], Z, Z[:, 0], memory="1 MiB", **options)["x0"]
    large = ll.feature_importance(lambda Z: Z[:, 0] * Z[:, 1], Z, Z[:, 0], **options)["x0"]
    assert not small.complete
    assert small.exact
    assert small.pfi == pytest.approx(large.pfi)


def test_grouped_columns_are_replaced_and_no_others():
    before = X.copy()
    found = ll.feature_importance(FOREST, X, Y, features={"g": ["x2", "x0"]}, donors="all")["g"]
    np.testing.assert_array_equal(X, before)
    cells = brute.cells(FOREST.predict, X, Y, [0, 2], brute.LOSSES["squared_error"])
    assert found.pfi == pytest.approx(cells.mean())
    assert found.pfi > 0.1


# featureImportance (R).


def test_a_value_seen_forty_times_counts_forty_times():
    Z = np.column_stack([np.r_[np.zeros(40), np.ones(2)], np.ones(42)])
    found = ll.feature_importance(lambda Z: Z[:, 0], Z, Z[:, 0], loss="squared_error", donors="all")["x0"]
    np.testing.assert_allclose(found.weights, [40 / 42, 2 / 42])
    assert found.pfi == pytest.approx(2 * 40 * 2 / 42**2)
    assert found.pfi != pytest.approx(found.pi.mean())


def test_an_accuracy_gives_positive_importance_to_a_good_feature():
    logistic = LogisticRegression().fit(X[:, :1], X[:, 0] > 0)
    found = ll.feature_importance(logistic, X[:, :1], X[:, 0] > 0, loss=get_scorer("accuracy"), donors="all")
    assert found["x0"].pfi > 0.3


def test_a_curve_costs_a_batch_and_not_a_call_for_each_value():
    calls = []

    def model(X):
        calls.append(len(X))
        return X[:, 0]

    found = ll.feature_importance(model, X, Y, loss="squared_error", donors="all")
    assert sum(calls) == found.n_predictions == N + 2 * N * (N - 1) + 3 * N
    assert len(calls) <= 2


def test_two_losses_print_side_by_side():
    found = ll.feature_importance(HistGradientBoostingRegressor(max_iter=3).fit(X, Y), X, Y)
    assert "squared error" in repr(found)
    assert "absolute error" in repr(found.with_loss("absolute_error"))
