"""What a result of importances offers: numbers, frames, curves of the same predictions, other losses, refusals."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import losslens as ll

RNG = np.random.default_rng(0)
N = 30
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 3, size=N), RNG.normal(size=(N, 2))])
Y = X[:, 0] * 2 + X[:, 1] + RNG.normal(size=N)
WORDS = np.array(["low", "mid", "top"])[X[:, 1].astype(int)]


def model(X):
    return 2 * X[:, 0] + X[:, 1]


def explain(X=X, y=Y, model=model, loss="squared_error", **options):
    return ll.feature_importance(model, X, y, **({"loss": loss, "random_state": 0} | options))


THREE = LogisticRegression(C=100, max_iter=1000).fit(X, WORDS)
TWO = LogisticRegression().fit(X, X[:, 1] > 0)


# The mapping.


def test_importances_iterate_in_the_order_asked_for_and_rank_in_frames():
    found = explain(features=["x3", "x1", "x0"])
    assert list(found) == ["x3", "x1", "x0"]
    assert list(found.to_frame()["feature"]) == ["x0", "x1", "x3"]
    assert found["x1"].name == "x1"
    assert len(found) == 3
    assert {**found}.keys() == {"x0", "x1", "x3"}


def test_an_unknown_name_is_a_key_error_with_the_nearest():
    found = explain(X=pd.DataFrame(X, columns=["LSTAT", "RM", "NOX", "DIS"]), model=lambda X: model(X.to_numpy()))
    with pytest.raises(KeyError, match="unknown feature 'LSAT'; did you mean 'LSTAT'"):
        found["LSAT"]


def test_local_importances_are_a_table_and_observations_their_sum():
    found = explain()
    assert found.local.shape == (N, 4)
    np.testing.assert_array_equal(found.local[:, 1], found["x1"].local)
    np.testing.assert_allclose(found.observations, sum(found[name].local for name in found))


def test_the_whole_says_how_it_came_about():
    found = explain()
    assert (found.design, found.engine, found.exact) == ("All()", "blackbox", True)
    assert found.n_predictions == N + sum(feature.n_predictions for feature in found.values())
    assert found.error == pytest.approx(np.mean((Y - model(X)) ** 2))
    assert found.loss.name == "squared_error"
    mixed = explain(donors=ll.Latin(5))
    assert (mixed.design, mixed.exact) == ("Latin(5)", False)
    assert "sampled pairs of rows, Latin(5)" in repr(mixed)
    assert "exact over all pairs" in repr(found)


def test_the_text_shows_a_line_for_each_feature_best_first():
    lines = repr(explain()).splitlines()
    assert lines[0].startswith("Importances: increase in squared error")
    assert [line.split()[0] for line in lines[1:5]] == ["x0", "x1", "x2", "x3"]


def test_the_frame_has_every_number():
    found = explain()
    frame = found.to_frame().set_index("feature")
    for name, feature in found.items():
        row = frame.loc[name]
        assert row["importance"] == feature.pfi
        assert row["std_error"] == feature.std_error
        assert (row["low"], row["high"]) == feature.interval()
        assert row["ratio"] == feature.ratio
        assert row["exact"]
        assert row["n_predictions"] == feature.n_predictions


def test_the_frame_has_gaps_where_there_is_no_number():
    few = explain(donors=ll.Latin(2)).to_frame()
    assert few["std_error"].isna().all()
    assert few["importance"].notna().all()
    pair = explain(features=["x0", ("x0", "x1")]).to_frame()
    assert pair["importance"].isna().tolist() == [False, True]
    perfect = explain(y=model(X)).to_frame()
    assert perfect["ratio"].isna().all()


@pytest.mark.parametrize(
    ("library", "convert"),
    [("pandas", lambda f: f), ("polars", pl.from_pandas), ("pyarrow", pa.Table.from_pandas)],
)
def test_frames_come_in_the_users_library(library, convert):
    table = convert(pd.DataFrame(X, columns=list("abcd")))
    found = ll.feature_importance(lambda t: 2 * np.asarray(t["a"]), table, Y, loss="squared_error")
    for frame in (found.to_frame(), found["a"].to_frame()):
        assert type(frame).__module__.partition(".")[0] == library
    assert len(found["b"].to_frame()) == 3


def test_the_frame_of_a_feature_is_its_curve():
    feature = explain()["x1"]
    frame = feature.to_frame()
    assert list(frame.columns) == ["value", "weight", "importance"]
    np.testing.assert_array_equal(frame["value"], feature.grid)
    np.testing.assert_array_equal(frame["importance"], feature.pi)


# Refusals.


def test_a_perfect_model_has_no_ratio_and_says_why():
    feature = explain(y=model(X))["x0"]
    assert feature.pfi > 0
    with pytest.raises(ValueError, match="error, which is exactly 0 here; use pfi"):
        feature.ratio  # noqa: B018


def test_values_of_ones_own_give_curves_and_no_number():
    feature = explain(donors=ll.Grid(values=[0.0, 1.0]), features="x0")["x0"]
    assert feature.pi.shape == (2,)
    assert feature.ici.shape == (N, 2)
    for number in ("pfi", "local", "ratio", "std_error", "weights"):
        with pytest.raises(ValueError, match="grid values were given without frequencies"):
            getattr(feature, number)
    assert "curves only" in repr(feature)


def test_a_pair_is_a_table_of_curves_and_no_number():
    feature = explain(features=("x0", "x1"))["x0", "x1"]
    first, second = feature.grid
    assert feature.pi.shape == (len(first), len(second)) == (20, 3)
    assert feature.ici.shape == (N, 20, 3)
    np.testing.assert_allclose(feature.ici.mean(axis=0), feature.pi)
    replaced = X.copy()
    replaced[:, 0], replaced[:, 1] = first[4], second[2]
    change = (Y - model(replaced)) ** 2 - (Y - model(X)) ** 2
    np.testing.assert_allclose(feature.ici[:, 4, 2], change)
    with pytest.raises(ValueError, match="product grid"):
        feature.pfi  # noqa: B018
    whole = explain(features=("x0", "x1"), donors="all")["x0 x x1"]
    assert whole.pi.shape == (N, 3)
    np.testing.assert_allclose(whole.given([1, 2]).pi, whole.ici[[1, 2]].mean(axis=0))


# Effects of classes.


def test_two_classes_have_one_effect_and_more_have_one_each():
    two = explain(model=TWO, y=X[:, 1] > 0, loss="log_loss")["x1"]
    np.testing.assert_allclose(two.effect.pd, two.effect_of(True).pd)
    np.testing.assert_allclose(two.effect.pd, 1 - two.effect_of(False).pd)
    three = explain(model=THREE, y=WORDS, loss="brier")["x1"]
    with pytest.raises(ValueError, match=r"each class has its own effect; use effect_of\(label\)"):
        three.effect  # noqa: B018
    with pytest.raises(ValueError, match="'no' is not a class of the model"):
        three.effect_of("no")
    np.testing.assert_allclose(sum(three.effect_of(word).pd for word in THREE.classes_), 1)
    proba = THREE.predict_proba(np.column_stack([X[:, 0], np.full(N, 2.0), X[:, 2:]]))
    np.testing.assert_allclose(three.effect_of("top").ice[:, 2], proba[:, 2])


def test_the_effect_on_labels_is_how_often_a_class_is_predicted():
    feature = explain(model=THREE, y=WORDS, loss="zero_one")["x1"]
    labels = THREE.predict(np.column_stack([X[:, 0], np.full(N, 2.0), X[:, 2:]]))
    assert feature.effect_of("top").pd[2] == pytest.approx(np.mean(labels == "top"))


def test_the_effect_on_scores_has_a_sign_for_each_class():
    svc = LinearSVC().fit(X, X[:, 1] > 0)
    feature = explain(model=svc, y=X[:, 1] > 0, loss="hinge")["x1"]
    scores = svc.decision_function(np.column_stack([X[:, 0], np.full(N, 2.0), X[:, 2:]]))
    assert feature.effect_of(True).pd[2] == pytest.approx(scores.mean())
    assert feature.effect_of(False).pd[2] == pytest.approx(-scores.mean())


def test_numbers_have_no_classes():
    with pytest.raises(ValueError, match="no classes"):
        explain()["x0"].effect_of(1)


# Other losses.


@pytest.mark.parametrize("loss", ["absolute_error", "huber", ll.losses.pinball(0.9), lambda y, f: np.abs(y - f) ** 3])
@pytest.mark.parametrize("donors", ["all", ll.Latin(6), ll.Derangements(), ll.Grid(4)], ids=str)
def test_another_loss_is_what_explaining_again_gives(loss, donors):
    weight = RNG.integers(1, 4, size=N)
    options = {"donors": donors, "sample_weight": weight}
    first, again = explain(**options).with_loss(loss), explain(loss=loss, **options)
    assert first.error == pytest.approx(again.error)
    for name in first:
        assert first[name].pfi == pytest.approx(again[name].pfi)
        np.testing.assert_array_equal(first[name].ici, again[name].ici)
        np.testing.assert_allclose(first[name].pi, again[name].pi)
        assert first[name].std_error == pytest.approx(again[name].std_error)
        assert first[name].with_loss("squared_error").pfi == pytest.approx(explain(**options)[name].pfi)


def test_another_loss_of_probabilities():
    first = explain(model=THREE, y=WORDS, loss="log_loss")
    again = explain(model=THREE, y=WORDS, loss="brier")
    for name in first:
        np.testing.assert_allclose(first.with_loss("brier")[name].local, again[name].local)
    mine = first.with_loss(lambda y, p: 1 - p[np.arange(len(y)), np.searchsorted(THREE.classes_, y)])
    assert mine.error == pytest.approx(1 - THREE.predict_proba(X)[np.arange(N), X[:, 1].astype(int)].mean())


@pytest.mark.parametrize("more", [{}, {"groups": np.arange(N) // 3}], ids=["rows", "groups"])
@pytest.mark.parametrize("donors", ["all", ll.Latin(4), ll.Systematic(4), ll.Derangements(), ll.Grid(9)], ids=str)
def test_another_loss_of_some_rows(donors, more):
    rows = np.arange(9)
    for choose in ("given", "subset"):
        first = getattr(explain(donors=donors, **more), choose)(rows).with_loss("absolute_error")
        again = getattr(explain(donors=donors, loss="absolute_error", **more), choose)(rows)
        for name in ("x0", "x1"):
            assert first[name].pfi == pytest.approx(again[name].pfi)
            assert first[name].ratio == pytest.approx(again[name].ratio)
            np.testing.assert_allclose(first[name].local, again[name].local)
            np.testing.assert_array_equal(first[name].grid, again[name].grid)
            np.testing.assert_allclose(first[name].pi, again[name].pi)
            np.testing.assert_allclose(first[name].ici, again[name].ici)


def test_labels_are_never_guessed_from_probabilities():
    found = explain(model=THREE, y=WORDS, loss="log_loss")
    with pytest.raises(ValueError, match="the loss zero_one reads labels, but the result holds probabilities"):
        found.with_loss("zero_one")
    with pytest.raises(ValueError, match="reads probabilities, but the result holds values"):
        explain()["x0"].with_loss("log_loss")


@pytest.mark.parametrize("loss", ["gamma_deviance", "poisson"])
def test_another_loss_must_be_defined_for_the_data(loss):
    with pytest.raises(ValueError, match="needs every"):
        explain().with_loss(loss)
    table = np.column_stack([np.arange(6.0), np.arange(6.0)])
    fine = explain(X=table, y=np.ones(6), model=lambda X: 13.0 - 2 * np.abs(X[:, 0] - X[:, 1]))
    assert np.isfinite(fine.with_loss(loss)["x0"].pfi)
    negative_where_replaced = explain(X=table, y=np.ones(6), model=lambda X: 3.0 - 2 * np.abs(X[:, 0] - X[:, 1]))
    with pytest.raises(ValueError, match="needs every prediction to be"):
        negative_where_replaced.with_loss(loss)


def test_a_custom_loss_that_fails_says_so():
    with pytest.raises(ValueError, match="returned one number"):
        explain().with_loss(lambda y, f: np.mean(y - f))


# The share of cells at the clipping bound.


@pytest.mark.parametrize("options", [{}, {"donors": ll.Derangements()}, {"groups": np.arange(40) % 7}], ids=str)
@pytest.mark.parametrize(
    "learner",
    [
        RandomForestClassifier(3, max_depth=2, random_state=0),
        DecisionTreeClassifier(max_depth=3, random_state=0),
        LogisticRegression(C=1e9, max_iter=5000),
    ],
    ids=["forest", "tree", "link"],
)
def test_the_clipped_share_counts_pairs_and_no_rounding_errors(learner, options):
    """Where none is clipped but pairs that are left out, it is 0: neither -1e-16 nor 1e-16."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        table, y = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
        table[:, 0] += 3 * y
        fitted = clone(learner).fit(table, y)
        y[:3] = 1 - y[:3]
        found = ll.feature_importance(fitted, table, y, features={"x0": [0], "x1": [1], "two": [0, 1]}, **options)
        counted = np.ones((40, 40), bool)
        if "donors" in options:
            counted = ~np.eye(40, dtype=bool)
        elif options:
            counted = options["groups"][:, None] != options["groups"]
        for feature, columns in (("x0", [0]), ("x1", [1]), ("two", [0, 1])):
            cells = np.repeat(table, 40, axis=0)
            cells[:, columns] = np.tile(table[:, columns], (40, 1))
            own = fitted.predict_proba(cells)[np.arange(1600), np.repeat(y, 40)].reshape(40, 40)
            expected = np.mean((own <= np.finfo(float).eps)[counted])
            assert found[feature].clipped == pytest.approx(expected, rel=1e-9, abs=0)


def test_the_importance_of_rounding_noise_is_shown_as_0():
    """A linear model fitted to a line: its error and the coefficient of c are last bits, and b is small but real."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(300, 3))
    y = 2 * table[:, 0] + 1e-6 * table[:, 1] + 0.1
    coefficients = np.array([2.0, 1e-6, 1e-16])
    found = ll.feature_importance(lambda x: x @ coefficients + 0.1, table, y, loss="squared_error", progress=False)
    lines = repr(found).splitlines()
    assert lines[0] == "Importances: increase in squared error; 0 with nothing replaced"
    assert [line.split()[1] == "0" for line in lines[1:4]] == [False, False, True]
    assert "±: standard error" in lines[4]


def test_an_error_of_exactly_0_is_named_and_a_small_one_is_not():
    by_heart = KNeighborsRegressor(1).fit(X, Y)
    assert "the error is exactly 0 in every row" in repr(explain(model=by_heart))
    assert "exactly 0" not in repr(explain(X + 1e-3, Y + 1e-3, by_heart))
    assert "exactly 0" not in repr(explain(y=Y + np.where(np.arange(N) == 3, 1e-9, 0.0), model=by_heart))
    right = explain(y=X[:, 0] > 0, model=lambda X: X[:, 0] > 0, loss="zero_one")
    assert right.error == 0
    assert "exactly 0" not in repr(right)  # labels are often right
