"""Scorers: how they are called, and those that are computed column by column, by brute force with scikit-learn's own.

Functions of mean losses are in results/test_mean_scores.py, those of pooled cells in uncertainty/test_pooled_scores.py.
"""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import average_precision_score, check_scoring, get_scorer, make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVR, LinearSVC
from sklearn.tree import DecisionTreeRegressor

import brute
import losslens as ll
from losslens.engines import choice
from losslens.engines.choice import CHECKED
from losslens.sklearn import permutation_importance
from losslens.text import in_digits
from pictures import caption, plot_groups

RNG = np.random.default_rng(0)
N = 14
X = np.column_stack([RNG.normal(size=(N, 2)), RNG.integers(0, 3, size=N)])
Y = X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=N)
LABELS = np.where(Y > 0, "yes", "no")
THREE = X[:, 2].astype(int)
LINEAR = LinearRegression().fit(X, Y)
LOGISTIC = LogisticRegression().fit(X, LABELS)
COLUMN = {"x0": 0, "x1": 1, "x2": 2}
MEDIAN = "neg_median_absolute_error"  # a score that is no function of a mean
CASES = {
    "r2": (LINEAR, Y),
    "neg_mean_squared_error": (LINEAR, Y),
    "neg_median_absolute_error": (LINEAR, Y),
    "roc_auc": (LOGISTIC, LABELS == "yes"),
    "accuracy": (LOGISTIC, LABELS),
    "neg_log_loss": (LOGISTIC, LABELS),
    "balanced_accuracy": (LogisticRegression().fit(X, THREE), THREE),
    "roc_auc_ovr": (LogisticRegression().fit(X, THREE), THREE),
}
CASES["roc_auc"] = (LogisticRegression().fit(X, LABELS == "yes"), LABELS == "yes")
CASES["average_precision"] = CASES["roc_auc"]
CASES["f1"] = CASES["roc_auc"]


def explain(scorer, donors="all", features=None, **options):
    model, y = CASES[scorer]
    options = {"loss": get_scorer(scorer), "donors": donors, "features": features, "random_state": 3} | options
    return ll.feature_importance(model, X, y, **options)


def scored(scorer, columns, donors=None, value=None, **more):
    """The score with each row's columns from its donor, or all at one value."""
    model, y = CASES[scorer]
    replaced = X.copy()
    if value is None:
        replaced[:, columns] = X[donors][:, columns]
    else:
        replaced[:, columns] = value
    return get_scorer(scorer)(model, replaced, y, **more)


@pytest.mark.parametrize("scorer", ["r2", "neg_mean_squared_error", MEDIAN, "accuracy", "neg_log_loss"])
def test_all_pairs_are_the_n_shifts(scorer):
    """Also where the score is one of the pooled cells, if it is linear in these and each shift has all rows."""
    found = explain(scorer)
    base = scored(scorer, [], np.arange(N))
    assert found.score == pytest.approx(base)
    for name, j in COLUMN.items():
        shifts = [scored(scorer, [j], (np.arange(N) + shift) % N) for shift in range(N)]
        assert found[name].pfi == pytest.approx(base - np.mean(shifts))


def columns_of(seen, values):
    """The columns of a design; cells of a Systematic draw are in the order of ranks, its columns shifts along these."""
    donors = brute.donors(seen).T
    if not isinstance(seen.design, ll.Systematic):
        return donors
    order, rank = np.argsort(values), np.argsort(np.argsort(values))
    shifts = np.sort((rank[donors] - rank) % len(values), axis=0)
    assert np.ptp(shifts, axis=1).max() == 0
    return order[(rank + shifts) % len(values)]


@pytest.mark.parametrize("scorer", ["r2", MEDIAN, "accuracy"])
@pytest.mark.parametrize("design", [ll.Latin(5), ll.Permutations(4), ll.Systematic(6), ll.Derangements(3)], ids=str)
def test_the_number_is_the_score_less_its_mean_over_the_columns(scorer, design):
    """The columns are drawn as for a loss with the same seed, where they can be seen."""
    found = explain(scorer, design)
    seen = ll.feature_importance(lambda X: X[:, 0], X, Y, loss="squared_error", donors=design, random_state=3)
    base = scored(scorer, [], np.arange(N))
    for name, j in COLUMN.items():
        if isinstance(design, ll.Systematic) and j == 2:
            continue  # ranks of equal values are drawn
        scores = [scored(scorer, [j], donors) for donors in columns_of(seen[name], X[:, j])]
        assert found[name].pfi == pytest.approx(base - np.mean(scores))


@pytest.mark.parametrize("scorer", CASES)
def test_the_curve_is_the_score_less_that_with_every_row_at_the_value(scorer):
    found = explain(scorer)
    base = scored(scorer, [], np.arange(N))
    for name, j in COLUMN.items():
        grid = np.unique(X[:, j])
        np.testing.assert_array_equal(found[name].grid, grid)
        expected = [base - scored(scorer, [j], value=v) for v in grid]
        np.testing.assert_allclose(found[name].pi, expected, atol=1e-12)


@pytest.mark.parametrize("scorer", ["roc_auc", "r2", "accuracy"])
def test_useful_features_are_positive(scorer):
    assert explain(scorer)["x1"].pfi > 0


@pytest.mark.parametrize("scorer", ["neg_mean_squared_error", MEDIAN, "accuracy"])
def test_weights_reach_the_scorer(scorer):
    """A cell weighs w_i w_k: so does a row in a column of donors, before and after, and a column by their sum."""
    weight = np.random.default_rng(1).integers(1, 9, size=N)
    found = explain(scorer, sample_weight=weight, features="x0")["x0"]
    base = scored(scorer, [], np.arange(N), sample_weight=weight)
    donors = [(np.arange(N) + shift) % N for shift in range(N)]
    drops = [
        scored(scorer, [], k, sample_weight=weight * weight[k])
        - scored(scorer, [0], k, sample_weight=weight * weight[k])
        for k in donors
    ]
    assert found.score == pytest.approx(base)
    assert found.pfi == pytest.approx(np.average(drops, weights=[weight @ weight[k] for k in donors]))
    at = [base - scored(scorer, [0], value=v, sample_weight=weight) for v in found.grid]
    np.testing.assert_allclose(found.pi, at, atol=1e-12)


def test_weighted_scores_that_are_means_agree_with_the_weighted_loss():
    weight = np.random.default_rng(1).integers(0, 4, size=N)
    loss = ll.feature_importance(LINEAR, X, Y, loss="squared_error", donors="all", sample_weight=weight)
    for name, feature in explain("neg_mean_squared_error", sample_weight=weight).items():
        assert feature.pfi == pytest.approx(loss[name].pfi)


def test_a_scorer_without_weights_says_so():
    with pytest.raises(TypeError, match="takes no sample_weight; leave it out, or use a loss"):
        ll.feature_importance(LINEAR, X, Y, loss=get_scorer("neg_max_error"), sample_weight=np.ones(N))


def test_a_scorer_for_other_models_is_refused():
    with pytest.raises(ValueError, match=r"the scorer roc_auc_score is for other models: .* Pass another loss"):
        ll.feature_importance(LINEAR, X, Y, loss=get_scorer("roc_auc"))


def test_a_scorer_checks_y_too():
    with pytest.raises(ValueError, match="1 missing or infinite"):
        ll.feature_importance(LINEAR, X, np.where(np.arange(N) == 0, np.nan, Y), loss=get_scorer("r2"))


def test_a_score_has_nothing_of_single_rows():
    found = explain("r2")
    with pytest.raises(ValueError, match="one number for all rows together"):
        found.with_loss("squared_error")
    with pytest.raises(ValueError, match="doesn't exist for the scorer"):
        found["x0"].effect_of(1)


def test_a_score_that_is_minus_a_mean_loss_agrees_with_the_loss():
    """neg_mean_squared_error averages over rows, so its importance is that of the squared error."""
    loss = ll.feature_importance(LINEAR, X, Y, loss="squared_error", donors="all")
    for name, feature in explain("neg_mean_squared_error").items():
        assert feature.pfi == pytest.approx(loss[name].pfi)
        np.testing.assert_allclose(feature.pi, loss[name].pi, atol=1e-12)


def test_groups_of_columns_are_scored_too():
    found = explain("r2", features={"both": ["x0", "x2"]})["both"]
    shifts = [scored("r2", [0, 2], (np.arange(N) + shift) % N) for shift in range(N)]
    assert found.pfi == pytest.approx(scored("r2", [], np.arange(N)) - np.mean(shifts))


def test_derangements_leave_the_zero_shift_out():
    found = explain(MEDIAN, ll.Derangements(), features="x0")["x0"]
    shifts = [scored(MEDIAN, [0], (np.arange(N) + shift) % N) for shift in range(1, N)]
    assert found.pfi == pytest.approx(scored(MEDIAN, [], np.arange(N)) - np.mean(shifts))


def test_an_unused_feature_scores_exactly_zero():
    class First(ClassifierMixin, BaseEstimator):
        classes_ = np.array([0, 1])

        def fit(self, X, y):
            return self

        def predict_proba(self, X):
            p = 1 / (1 + np.exp(-X[:, 0]))
            return np.column_stack([1 - p, p])

        def predict(self, X):
            return (X[:, 0] > 0).astype(int)

    y = (X[:, 0] > 0.1).astype(int)
    for name in ("roc_auc", "accuracy", "neg_log_loss"):
        found = ll.feature_importance(First(), X, y, loss=get_scorer(name), donors="all")
        assert found["x1"].pfi == 0
        assert np.all(found["x1"].pi == 0)
        assert found["x0"].pfi > 0


def test_scorers_that_read_scores():
    svc = LinearSVC().fit(X, LABELS)
    found = ll.feature_importance(svc, X, LABELS, loss=get_scorer("roc_auc"), donors="all", features="x1")["x1"]
    replaced = np.repeat(X, N, axis=0)
    replaced[:, 1] = np.tile(X[:, 1], N)
    pooled = get_scorer("roc_auc")(svc, replaced, np.repeat(LABELS, N))
    assert found.pfi == pytest.approx(get_scorer("roc_auc")(svc, X, LABELS) - pooled)


def test_scorers_of_ones_own_and_frames():
    def gap(y, share):
        return float(share[y == "yes"].max() - share[y == "no"].min())

    scorer = make_scorer(gap, response_method="predict_proba")
    frame = pd.DataFrame(X, columns=list("abc"))
    forest = RandomForestClassifier(5, random_state=0).fit(frame, LABELS)
    found = ll.feature_importance(forest, frame, LABELS, loss=scorer, donors="all", features="b")["b"]
    shifts = [scorer(forest, frame.assign(b=np.roll(frame["b"], -s)), LABELS) for s in range(N)]
    assert found.pfi == pytest.approx(shifts[0] - np.mean(shifts))


# What one number for all rows can't have.


@pytest.mark.parametrize("what", ["local", "ici", "ratio", "band", "effect", "subset", "with_loss"])
def test_what_needs_a_loss_of_each_row_says_so(what):
    feature = explain("r2", features="x0")["x0"]
    with pytest.raises(ValueError, match="doesn't exist for the scorer r2_score: it gives one number for all rows"):
        getattr(feature, what)


def test_the_whole_refuses_what_its_features_refuse():
    found = explain("r2")
    for ask in (
        lambda: found.local,
        lambda: found.observations,
        lambda: found.subset([0, 1]),
        lambda: found.with_loss("squared_error"),
        lambda: found.error,
        lambda: found.loss,
    ):
        with pytest.raises(ValueError, match="scorer"):
            ask()


def test_a_grid_gives_a_curve_and_no_number():
    feature = explain(MEDIAN, ll.Grid(5), features="x0")["x0"]
    assert feature.pi.shape == (5,)
    with pytest.raises(ValueError, match="a curve and no number for a scorer"):
        feature.pfi  # noqa: B018


def test_shifts_give_a_number_and_no_curve():
    feature = explain(MEDIAN, ll.Latin(5), features="x0")["x0"]
    assert np.isfinite(feature.pfi)
    with pytest.raises(ValueError, match="no PI curve for a scorer; use donors='all' or Grid"):
        feature.pi  # noqa: B018


def test_scores_have_a_text_and_a_frame():
    found = explain("r2")
    assert repr(found).startswith("Importances: decrease in r2_score")
    frame = found.to_frame()
    assert list(frame["importance"]) == sorted((f.pfi for f in found.values()), reverse=True)
    assert (frame["low"] < frame["importance"]).all()
    assert (frame["importance"] < frame["high"]).all()
    assert list(found["x2"].to_frame()["value"]) == [0, 1, 2]
    assert "decrease in r2_score" in repr(found["x0"])
    assert found.exact


def test_predictions_are_counted():
    """n to see what the scorer asks for, n unchanged, n (d - 1) for each feature."""
    calls = []

    class Counted(LinearRegression):
        def predict(self, X):
            calls.append(len(X))
            return super().predict(X)

    found = ll.feature_importance(Counted().fit(X, Y), X, Y, loss=get_scorer(MEDIAN), donors="all")
    assert found.n_predictions == sum(calls) == 2 * N + 2 * N * (N - 1) + N * 2


# Refusals.


def test_a_bare_function_has_no_methods_for_a_scorer():
    with pytest.raises(TypeError, match="a scorer needs an estimator with predict"):
        ll.feature_importance(lambda X: X[:, 0], X, Y, loss=get_scorer("r2"))


@pytest.mark.parametrize("scorer", [MEDIAN])
def test_donors_come_from_other_groups(scorer):
    """Rows whose donor is of their own group are left out of each shift, before and after; the others are its weight.

    Shifts are along a random order, in which rows of a group don't follow each other.
    """
    model, y = CASES[scorer]
    groups = np.arange(N) // 3
    found = explain(scorer, groups=groups, features="x0")["x0"]
    drops, masses = [], []
    order = np.random.default_rng(N).permutation(N)
    for shift in range(N):
        donors = order[(np.argsort(order) + shift) % N]
        rows = np.flatnonzero(groups != groups[donors])
        if len(rows):
            replaced = X[rows]
            replaced[:, 0] = X[donors[rows], 0]
            drops.append(get_scorer(scorer)(model, X[rows], y[rows]) - get_scorer(scorer)(model, replaced, y[rows]))
            masses.append(len(rows))
    assert found.pfi == pytest.approx(np.average(drops, weights=masses))
    assert found.units == "groups"


@pytest.mark.parametrize("scorer", ["r2", "roc_auc", "neg_mean_squared_error"])
def test_with_weights_and_groups_an_unused_feature_scores_exactly_zero(scorer):
    """Groups of different sizes: columns hold fewer rows of large ones, and are compared with the same rows."""
    groups, weight = np.repeat([0, 1, 2, 3], [6, 4, 2, 2]), np.random.default_rng(1).integers(1, 9, size=N)
    _, y = CASES[scorer]
    kind = LogisticRegression if scorer == "roc_auc" else LinearRegression
    unused = kind().fit(X * [1, 1, 0], y)
    for options in ({"groups": groups}, {"sample_weight": weight}, {"groups": groups, "sample_weight": weight}):
        found = ll.feature_importance(unused, X, y, loss=scorer, donors="all", **options)
        assert found["x2"].pfi == 0
        assert found["x2"].p_value == 1


@pytest.mark.filterwarnings("ignore:The effective number")
def test_a_score_that_is_minus_a_mean_loss_agrees_with_the_loss_in_groups():
    groups = np.repeat([0, 1, 2, 3], [6, 4, 2, 2])
    loss = ll.feature_importance(LINEAR, X, Y, loss="squared_error", donors="all", groups=groups)
    for name, feature in explain("neg_mean_squared_error", groups=groups).items():
        assert feature.pfi == pytest.approx(loss[name].pfi)


@pytest.mark.filterwarnings("ignore:The effective number")
def test_blocks_of_rows_in_a_row_have_an_auc_of_every_column():
    """A shift by one leaves only the last row of each block, hardly ever one of a rare class."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 2))
    rare = (table[:, 0] + rng.normal(size=200) > 2).astype(int)
    model = LogisticRegression().fit(table, rare)
    found = ll.feature_importance(model, table, rare, loss="roc_auc", donors="all", groups=np.arange(200) // 20)["x0"]
    assert np.isfinite(found.pfi)
    assert np.isfinite(found.std_error)


def test_all_cells_must_fit_and_the_memory_named_suffices():
    names = {f"group {j}": ["x0", "x1"] for j in range(12)}
    with pytest.raises(ValueError, match="a scorer needs all cells at once") as error:
        explain(MEDIAN, memory=40_000, features=names)
    size = str(error.value).split("memory='")[1].split("'")[0]
    assert len(explain(MEDIAN, memory=size, features=names)) == 12


def test_a_scorer_that_gives_no_number_is_refused():
    scorer = make_scorer(lambda y, p: float("nan"))
    with pytest.raises(ValueError, match="not one finite number"):
        ll.feature_importance(LINEAR, X, Y, loss=scorer)


def test_a_model_that_writes_into_its_table_changes_nothing_of_the_users():
    class Writes(LinearRegression):
        def predict(self, X):
            found = super().predict(X)
            X[:] = 0
            return found

    mine, before = X.copy(), X.copy()
    found = ll.feature_importance(Writes().fit(X, Y), mine, Y, loss=get_scorer("r2"), donors="all")
    np.testing.assert_array_equal(mine, before)
    assert found["x0"].pfi == pytest.approx(explain("r2")["x0"].pfi)


# Scorers that call the model's own method `score`, and a scorer that calls nothing.


class ScoresLogs(LinearRegression):
    """A method `score` of its own, on top of the inherited one."""

    def score(self, X, y, sample_weight=None):
        return np.log1p(max(super().score(X, y, sample_weight), 0))


OWN_SCORES = {
    "regressor": (LINEAR, Y),
    "classifier": (LOGISTIC, LABELS),
    "pipeline": (make_pipeline(StandardScaler(), LinearRegression()).fit(X, Y), Y),
    "search": (GridSearchCV(Ridge(), {"alpha": [1, 2]}, cv=2, scoring="neg_mean_squared_error").fit(X, Y), Y),
    "search in a pipeline": (make_pipeline(StandardScaler(), GridSearchCV(Ridge(), {"alpha": [1]}, cv=2)).fit(X, Y), Y),
    "of its own": (ScoresLogs().fit(X, Y), Y),
    "dummy": (DummyClassifier().fit(X, LABELS), LABELS),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", OWN_SCORES)
def test_the_models_own_score_is_a_scorer(case, weighted):
    """`check_scoring(model)`: by brute force with the model's `score`, over all shifts."""
    model, y = OWN_SCORES[case]
    weight = RNG.uniform(1, 2, N) if weighted and case in ("classifier", "of its own", "dummy") else None
    found = ll.feature_importance(model, X, y, loss=check_scoring(model), donors="all", sample_weight=weight)
    assert found.title == "score"
    drops, masses = [], []
    for t in range(N):
        donors = np.roll(np.arange(N), -t)
        replaced = X.copy()
        replaced[:, 0] = X[donors, 0]
        pair = np.ones(N) if weight is None else weight * weight[donors]
        options = {} if weight is None else {"sample_weight": pair}
        drops.append(model.score(X, y, **options) - model.score(replaced, y, **options))
        masses.append(pair.sum())
    expected = model.score(X, y, **({} if weight is None else {"sample_weight": weight}))
    assert found.score == pytest.approx(expected)
    assert found["x0"].pfi == pytest.approx(np.average(drops, weights=masses), abs=1e-12)


def test_the_models_own_score_has_shapley_shares():
    found = ll.shapley_importance(LINEAR, X, Y, loss=check_scoring(LINEAR), donors="all")
    expected = ll.shapley_importance(LINEAR, X, Y, loss=get_scorer("r2"), donors="all")
    np.testing.assert_allclose(found.sfimp, expected.sfimp)


class ConstantScorer:
    def __call__(self, estimator, X, y, sample_weight=None):
        return 1


class RowScorer:
    """Reads the rows themselves: predictions of replaced rows are not all it needs."""

    def __call__(self, estimator, X, y):
        return float(np.mean(X[:, 0]))


def test_a_constant_score_depends_on_no_feature():
    for verb in (ll.feature_importance, ll.shapley_importance):
        found = verb(LINEAR, X, Y, loss=ConstantScorer())
        numbers = found.sfimp if hasattr(found, "sfimp") else [one.pfi for one in found.values()]
        np.testing.assert_array_equal(numbers, 0)


def test_a_scorer_that_reads_the_rows_is_refused():
    with pytest.raises(ValueError, match="the scorer RowScorer called none of"):
        ll.feature_importance(LINEAR, X, Y, loss=RowScorer())


def test_an_error_that_a_scorer_negates_is_told_as_an_error():
    """A negated error is below 0: what is told is the error itself, and its increase."""
    scorer = get_scorer("neg_mean_absolute_percentage_error")
    found = ll.feature_importance(LINEAR, X, Y, loss=scorer)
    error = -found.score
    assert error > 0
    assert found.base == error
    assert found.headline.startswith("increase in mean absolute percentage error; ")
    assert f"; {in_digits(error)} with nothing replaced" in found.headline
    assert "increase in mean absolute percentage error" in repr(found["x0"])
    assert found.plot().get_xlabel() == "increase in mean absolute percentage error"
    shares = ll.shapley_importance(LINEAR, X, Y, loss=scorer)
    assert shares.error_all == pytest.approx(error)
    assert shares.headline.startswith("decrease in mean absolute percentage error by each feature; ")
    assert f"{in_digits(error)} with each row's own" in shares.headline


# Cells of exact engines: the model predicts only the rows on which it is checked and asked for its methods.

FEW = np.random.default_rng(5)
M = 70
TABLE = np.column_stack([FEW.normal(size=(M, 2)), FEW.integers(0, 3, size=(M, 2))])  # many rows differ in one column
SIGNAL = TABLE[:, 0] + TABLE[:, 2] * TABLE[:, 3] + FEW.normal(size=M)
TWO, SIX = (SIGNAL > 1).astype(int), np.digitize(SIGNAL, [-1, 0, 1, 2, 4])
EXACT = {
    "forest, auc": (RandomForestClassifier(8, random_state=0), TWO, "roc_auc", "trees"),
    "forest, log loss": (RandomForestClassifier(8, random_state=0), SIX, "neg_log_loss", "trees"),
    "boosting, labels": (HistGradientBoostingClassifier(max_iter=5), TWO, "f1", "trees"),
    "boosting, rates": (HistGradientBoostingClassifier(max_iter=5), SIX, "top_k_accuracy", "trees"),
    "tree, r2": (DecisionTreeRegressor(max_depth=4), SIGNAL, "r2", "trees"),
    "linear, median": (LinearRegression(), SIGNAL, MEDIAN, "additive"),
    "scores, auc": (LogisticRegression(), TWO, "roc_auc", "additive"),
    "machine, median": (SVR(), SIGNAL, MEDIAN, "products"),
    "logistic, labels": (LogisticRegression(), TWO, "balanced_accuracy", "link"),
}


def expected_of(model, y, scorer, columns, weight=None, donors=None):
    """The decrease of the score over all columns of donors, or of the pooled cells, by the model's own methods."""
    every = np.arange(M)
    donors = [np.roll(every, -t) for t in range(M)] if donors is None else list(donors)
    if scorer in ("roc_auc", "f1", "r2", "balanced_accuracy"):
        donors, rows = np.concatenate(donors), np.tile(every, len(donors))
    else:
        rows = every
    drops, masses = [], []
    for k in donors if isinstance(donors, list) else [donors]:
        replaced = TABLE[rows]
        replaced[:, columns] = TABLE[k][:, columns]
        pair = None if weight is None else weight[rows] * weight[k]
        before, after = (get_scorer(scorer)(model, of, y[rows], sample_weight=pair) for of in (TABLE[rows], replaced))
        drops.append(before - after)
        masses.append(1.0 if pair is None else pair.sum())
    return np.average(drops, weights=masses)


@pytest.mark.thread_unsafe(reason="models that all threads share are fitted")
@pytest.mark.parametrize("case", EXACT)
def test_cells_of_exact_engines_give_the_models_score_without_its_predictions(case):
    model, y, scorer, engine = EXACT[case]
    model.fit(TABLE, y)
    weight = FEW.integers(0, 4, M).astype(float) if scorer in ("r2", "f1") else None
    features = {"x2": [2], "both": ["x1", "x3"]}
    options = {"loss": get_scorer(scorer), "features": features, "sample_weight": weight, "random_state": 1}
    found = ll.feature_importance(model, TABLE, y, donors="all", **options)
    assert (found.engine, found.exact, found.declined) == (engine, True, {})
    for name, columns in (("x2", [2]), ("both", [1, 3])):
        assert found[name].n_predictions == 0
        assert found[name].pfi == pytest.approx(expected_of(model, y, scorer, columns, weight), abs=1e-12)
    at = TABLE.copy()
    at[:, 2] = 1
    score = get_scorer(scorer)(model, at, y, sample_weight=weight)
    assert found["x2"].pi[1] == pytest.approx(found.score - score, abs=1e-12)
    assert found.n_predictions <= 2 * (CHECKED + len(np.unique(SIX)))
    planned = ll.plan(ll.feature_importance, model, TABLE, y, donors="all", **options)
    assert (planned.n_predictions, set(planned.engines)) == (found.n_predictions, {engine})


@pytest.mark.thread_unsafe(reason="models that all threads share are fitted")
@pytest.mark.parametrize("case", ["forest, auc", "boosting, labels", "linear, median", "machine, median"])
def test_exact_engines_fill_the_cells_of_other_designs_too(case):
    model, y, scorer, engine = EXACT[case]
    model.fit(TABLE, y)
    options = {"loss": get_scorer(scorer), "random_state": 1}
    for design in (ll.Latin(4), ll.Systematic(3), ll.Grid(5)):
        found = ll.feature_importance(model, TABLE, y, donors=design, **options)
        assert (found.engine, found["x0"].n_predictions) == (engine, 0)
        assert set(found.declined.values()) == {f"donors={design!r} asks for some of the pairs of rows"}
        assert not any("no exact engine" in note for note in found.notes)
        planned = ll.plan(ll.feature_importance, model, TABLE, y, donors=design, **options)
        assert (planned.n_predictions, set(planned.engines)) == (found.n_predictions, {engine})
        if design.common:
            at = TABLE.copy()
            at[:, 1] = found["x1"].grid[2]
            assert found["x1"].pi[2] == pytest.approx(found.score - get_scorer(scorer)(model, at, y), abs=1e-12)
        else:
            seen = ll.feature_importance(lambda X: X[:, 0], TABLE, SIGNAL, loss="squared_error", donors=design,
                                         random_state=1)  # fmt: skip
            donors = columns_of(seen["x1"], TABLE[:, 1])
            assert found["x1"].pfi == pytest.approx(expected_of(model, y, scorer, [1], donors=donors), abs=1e-12)
    found = ll.feature_importance(model, TABLE, y, donors=ll.Grid(values=[0.5]), features="x0", **options)["x0"]
    at = TABLE.copy()
    at[:, 0] = 0.5  # which no row has
    score = get_scorer(scorer)
    assert (found.engine, found.n_predictions) == (engine, 0)
    assert found.pi[0] == pytest.approx(score(model, TABLE, y) - score(model, at, y), abs=1e-12)


def test_predictions_that_differ_by_rounding_are_ties(monkeypatch):
    """Rows that are equal but for the replaced column have equal predictions of the model, and so have cells."""
    table = np.random.default_rng(0).integers(0, 2, size=(100, 6)) * np.array([0.1, 0.7, 1.3, 2.1, 7.7, 0.3])
    y = (table[:, 0] + table[:, 1] - table[:, 2] + np.random.default_rng(1).normal(size=100) > 0).astype(int)
    model, scorer = LogisticRegression().fit(table, y), get_scorer("roc_auc")
    found = ll.feature_importance(model, table, y, loss=scorer, donors="all")
    monkeypatch.setattr(choice, "READERS", ())
    asked = ll.feature_importance(model, table, y, loss=scorer, donors="all")
    assert (found.engine, asked.engine) == ("additive", "blackbox")
    for name, one in found.items():
        assert one.pfi == pytest.approx(asked[name].pfi, abs=1e-12)


@pytest.mark.thread_unsafe(reason="models that all threads share are fitted")
@pytest.mark.parametrize("case", ["forest, auc", "linear, median", "boosting, labels"])
def test_shares_of_a_score_are_those_of_the_model(case):
    """It predicts rows that mix the columns of two rows as fast as any engine, and no labels tie by rounding."""
    model, y, scorer, _ = EXACT[case]
    model.fit(TABLE, y)
    options = {"loss": get_scorer(scorer), "donors": ll.Latin(3), "random_state": 0}
    found = ll.shapley_importance(model, TABLE, y, **options)
    planned = ll.plan(ll.shapley_importance, model, TABLE, y, **options)
    assert found.engine == "blackbox"
    assert (set(planned.engines), planned.n_predictions) == ({found.engine}, found.n_predictions)
    assert planned.way.endswith("by the model")


def test_a_scorer_that_needs_all_rows_gets_them():
    """Which method it calls is seen on a few rows; one that fails there is asked again."""
    weight = np.linspace(1, 2, M)

    def weighted(y, prediction):
        return -float(np.average((y - prediction) ** 2, weights=weight))

    model = LinearRegression().fit(TABLE, SIGNAL)
    found = ll.feature_importance(model, TABLE, SIGNAL, loss=make_scorer(weighted), donors="all")
    assert found.n_predictions == M + CHECKED
    assert found.score == weighted(SIGNAL, model.predict(TABLE))


# The jackknife.


@pytest.mark.parametrize("scorer", ["roc_auc", "accuracy"])
@pytest.mark.parametrize("groups", [None, np.arange(M) // 5])
def test_rows_without_weight_are_not_left_out_of_a_score(scorer, groups):
    """The error of the score is that of the other rows alone: a jackknife of as many units as have weight."""
    model, some = LogisticRegression().fit(TABLE, TWO), np.arange(M) >= 40
    options = {"loss": scorer, "features": "x0", "donors": ll.Latin(2), "random_state": 0}
    found = ll.feature_importance(model, TABLE, TWO, sample_weight=some.astype(float), groups=groups, **options)["x0"]
    groups = None if groups is None else groups[some]
    alone = ll.feature_importance(model, TABLE[some], TWO[some], groups=groups, **options)["x0"]
    if groups is not None or scorer == "roc_auc":  # other blocks of rows are drawn otherwise
        assert found.base_influence.std_error == pytest.approx(alone.base_influence.std_error)


# Several outputs.


@pytest.mark.parametrize("scorer", ["r2", "score", "neg_mean_absolute_error"])
def test_a_model_of_several_outputs_is_scored(scorer, tmp_path):
    """As scikit-learn's function does, by brute force over all shifts; its rows and files as those of one output."""
    both = pd.DataFrame({"up": Y, "down": X[:, 2] - Y})
    model = Ridge().fit(X, both)
    judge = check_scoring(model, None if scorer == "score" else scorer)
    found = ll.feature_importance(model, X, both, loss=scorer, donors="all")
    shifted = []
    for shift in range(N):
        replaced = X.copy()
        replaced[:, 0] = np.roll(X[:, 0], -shift)
        shifted.append(judge(model, replaced, both))
    assert found.score == pytest.approx(judge(model, X, both))
    assert found["x0"].pfi == pytest.approx(found.score - np.mean(shifted))
    assert found["x0"].std_error > 0
    some = np.arange(N) % 3 > 0
    assert found.given(some).score == pytest.approx(judge(model, X[some], both[some]))
    found.save(tmp_path / "scores.losslens")
    assert ll.load(tmp_path / "scores.losslens").given(some)["x0"].pfi == found.given(some)["x0"].pfi
    with pytest.raises(ValueError, match="column 'down' of y has 1 missing"):
        ll.feature_importance(model, X, both.assign(down=np.where(np.arange(N) == 2, np.nan, Y)), loss=scorer)
    ours = permutation_importance(model, X, both, scoring=None if scorer == "score" else scorer)
    assert ours.importances.shape == (3, 5)


# Groups of rows.


@pytest.mark.parametrize("scorer", ["r2", "accuracy", MEDIAN])
def test_the_score_of_some_rows_has_donors_from_all_rows(scorer):
    model, y = CASES[scorer]
    some = np.arange(N) % 4 != 2
    found = explain(scorer).given(some)

    def of(donors=None, value=None):
        replaced = X.copy()
        replaced[:, 1] = X[donors, 1] if value is None else value
        return get_scorer(scorer)(model, replaced[some], y[some])

    base = of(np.arange(N))
    assert found.score == found["x0"].score == pytest.approx(base)
    shifts = [of((np.arange(N) + shift) % N) for shift in range(N)]
    assert found["x1"].pfi == pytest.approx(base - np.mean(shifts))
    np.testing.assert_allclose(found["x1"].pi, [base - of(value=v) for v in found["x1"].grid], atol=1e-12)
    fewer = np.arange(some.sum()) != 3
    assert found["x1"].given(fewer).score == pytest.approx(get_scorer(scorer)(model, X[some][fewer], y[some][fewer]))


def test_groups_of_rows_have_scores_and_one_without_a_class_says_so():
    model, y = CASES["roc_auc"]
    groups = np.where(y, "all", np.where(np.arange(N) % 2, "all", "only no"))
    found = explain("roc_auc").by(groups)
    assert list(found) == ["all", "only no"]
    rows = groups == "all"
    assert found["all"].score == pytest.approx(roc_auc_score(y[rows], model.decision_function(X[rows])))
    none = found["only no"]
    assert np.isnan([none.score, none["x0"].pfi, *none["x0"].pi]).all()
    assert "roc_auc_score is not defined for these rows: a class is missing among them" in repr(none)
    assert "decrease in roc_auc_score; not defined for these rows\n  x0  not defined\n" in repr(none)
    assert none.to_frame()["low"].isna().all()
    with pytest.raises(ValueError, match="not defined for these rows"):
        none["x0"].std_error  # noqa: B018
    precise = ll.feature_importance(model, X, y, loss="average_precision", donors="all").given(~y)
    assert "not defined for these rows: No positive class" in repr(precise)


def test_groups_are_drawn_and_those_without_a_score_are_left_out():
    y = CASES["roc_auc"][1]
    groups = np.where(y, "all", np.where(np.arange(N) % 2, "all", "only no"))
    found = explain("roc_auc")
    ax = plot_groups(found["x0"].by(groups))
    assert ax.get_legend_handles_labels()[1] == ["all (n = 11)", "distribution of x0"]
    assert "1 group without a curve left out" in caption(ax)
    with pytest.raises(ValueError, match="roc_auc_score is not defined for these rows"):
        found.by(groups)["only no"].plot()
    plt.close("all")


def test_verbs_that_need_rows_say_so_in_one_sentence():
    found = explain("r2")
    for ask in (
        lambda: found.regions(X),
        lambda: ll.weak_segments(LINEAR, X, Y, loss="r2"),
        lambda: ll.shapley_importance(LINEAR, X, Y, loss="r2").rank_rows(),
        lambda: ll.leave_one_covariate_out(LinearRegression(), X, Y, loss="r2", cv=2),
        lambda: ll.conditional_predictive_impact(LINEAR, X, Y, ll.Residual(), loss="r2"),
        lambda: ll.compare({"a": LINEAR, "b": LINEAR}, X, Y, loss="r2", groups=np.arange(N) // 2),
    ):
        with pytest.raises(ValueError, match=r"score.*loss") as error:
            ask()
        assert str(error.value).count(". ") == 0
    with pytest.raises(ValueError, match="a score doesn't hold the rows: the importances by a loss"):
        found.extrapolation  # noqa: B018


def test_a_score_that_reads_the_rows_is_not_kept_for_groups():
    found = ll.feature_importance(LINEAR, X, Y, loss=ll.losses.scorer(lambda e, X, y: e.score(X, y)), donors="all")
    with pytest.raises(ValueError, match="some rows have no score by custom score: it may read the model or the rows"):
        found.given([0, 1, 2])
    assert ll.feature_importance(LINEAR, X, Y, loss="score", donors="all").given(np.arange(9)).score == pytest.approx(
        LINEAR.score(X[:9], Y[:9])
    )


@pytest.mark.parametrize("scorer", ["roc_auc", "f1", "own"])
def test_scores_of_groups_come_from_files_too(scorer, tmp_path):
    loss = make_scorer(average_precision_score) if scorer == "own" else scorer
    model, y = CASES["roc_auc"]
    found = ll.feature_importance(model, X, y, loss=loss, donors="all")
    found.save(tmp_path / "scores")
    loaded = ll.load(tmp_path / "scores")
    assert loaded.to_frame().equals(found.to_frame())
    if scorer == "own":
        with pytest.raises(ValueError, match="is a function, which files don't hold; explain again"):
            loaded.given(np.arange(10))
    else:
        assert loaded.given(np.arange(10)).to_frame().equals(found.given(np.arange(10)).to_frame())


@pytest.mark.parametrize(
    ("model", "y", "scorer", "says"),
    [
        (CASES["roc_auc_ovr"][0], THREE, "roc_auc", "two classes; of more of them pass loss='roc_auc_ovr'"),
        (LOGISTIC, LABELS, "f1", r"'yes'\]\. Pass loss=make_scorer\(f1_score, pos_label=\.\.\.\)"),
        (CASES["roc_auc_ovr"][0], THREE, "precision", r"make_scorer\(precision_score, average='macro'\)"),
        (LOGISTIC, LABELS, roc_auc_score, "metric of scikit-learn: .*write loss='roc_auc', which .*report take"),
    ],
)
def test_scores_of_other_classes_lead_to_the_call_that_works(model, y, scorer, says):
    with pytest.raises(ValueError, match=says):
        ll.feature_importance(model, X, y, loss=scorer)


def test_many_groups_take_a_bounded_number_of_calls():
    """Of scores other than AUCs more than 100 groups are joined, whole, and the plan counts the same calls."""
    rng, n = np.random.default_rng(0), 600
    table = rng.normal(size=(n, 2))
    y, groups = table[:, 0] + rng.normal(size=n), np.arange(n) // 2
    model, calls = LinearRegression().fit(table, y), []

    def counted(y, prediction):
        calls.append(len(y))
        return -float(np.mean((y - prediction) ** 2))

    options = {"loss": make_scorer(counted), "donors": ll.Latin(3), "groups": groups, "random_state": 0}
    found = ll.feature_importance(model, table, y, **options)["x0"]
    assert (found.units, len(found.influence.moved)) == ("groups", 100)
    assert len(calls) < 2 * (200 + 6) + 10
    loss = ll.feature_importance(model, table, y, **(options | {"loss": "squared_error"}))["x0"]
    assert found.std_error == pytest.approx(loss.std_error, rel=0.3)


def test_other_scores_leave_out_blocks_and_groups_are_left_out_whole():
    model = LinearRegression().fit(TABLE, SIGNAL)
    options = {"donors": ll.Latin(3), "random_state": 2, "features": "x2"}
    blocks = ll.feature_importance(model, TABLE, SIGNAL, loss=get_scorer(MEDIAN), **options)["x2"]
    assert (blocks.units, len(blocks.scored.without), blocks._units) == ("blocks", 25, 25)
    groups = np.arange(M) // 7
    score = get_scorer(MEDIAN)
    found = ll.feature_importance(model, TABLE, SIGNAL, loss=score, groups=groups, **options)["x2"]
    seen = ll.feature_importance(lambda X: X[:, 0], TABLE, SIGNAL, loss="squared_error", **options)["x2"]
    rows, donors = np.tile(np.arange(M), 3), brute.donors(seen).T.ravel()
    replaced = TABLE[rows]
    replaced[:, 2] = TABLE[donors, 2]
    for g in range(10):
        left = (groups[rows] != g) & (groups[donors] != g) & (groups[rows] != groups[donors])
        own = score(model, TABLE[rows[left]], SIGNAL[rows[left]])
        assert found.scored.without[g] == pytest.approx(own - score(model, replaced[left], SIGNAL[rows[left]]))


def test_an_unused_feature_has_no_error_and_scores_have_tests_ranks_and_differences():
    model = LogisticRegression().fit(TABLE[:, :2], TWO)
    table = np.column_stack([TABLE[:, :2], np.zeros(M)])
    model = make_pipeline(FunctionTransformer(first_two), model)
    found = ll.feature_importance(model, table, TWO, loss=get_scorer("roc_auc"), donors=ll.Latin(5), random_state=0)
    assert (found["x2"].std_error, found["x2"].p_value, found["x2"].interval()) == (0, 1, (0, 0))
    assert found["x0"].p_value < 0.05
    assert found.test()["feature"].iloc[0] == found.ranks()["feature"].iloc[0] == "x0"
    apart = found.difference("x0", "x2")
    assert (apart.value, apart.std_error) == pytest.approx((found["x0"].unbiased, found["x0"].std_error))
    one = found["x0"]
    assert one.interval(0.9)[0] > one.interval(0.99)[0]
    with pytest.raises(ValueError, match="a score has no interval of the Monte-Carlo error"):
        one.interval(target="sample")


def first_two(X):
    return np.asarray(X)[:, :2]


def test_without_a_class_there_is_no_jackknife():
    y = np.zeros(M, int)
    y[:1] = 1
    model = LogisticRegression().fit(TABLE, TWO)
    found = ll.feature_importance(model, TABLE, y, loss=get_scorer("roc_auc"), donors=ll.Latin(2))
    with pytest.raises(ValueError, match="without some rows, as without all of a class, it is not defined"):
        found["x0"].std_error  # noqa: B018
    with pytest.raises(ValueError, match="no standard error of roc_auc_score"):
        found.ranks()


def test_auto_takes_a_bounded_number_of_calls_and_has_a_curve():
    """Of 1,500 rows 30 shifts and 20 values, instead of 3,000 calls a feature, and two calls for each of 25 blocks.

    They are made when the numbers are read; one more for each block is for the error of the score itself.
    """
    calls = []

    def counted(y, prediction):
        calls.append(len(y))
        return -float(np.mean((y - prediction) ** 2))

    rng = np.random.default_rng(0)
    table = rng.normal(size=(1500, 2))
    y = table[:, 0] + rng.normal(size=1500)
    model = LinearRegression().fit(table, y)
    found = ll.feature_importance(model, table, y, loss=make_scorer(counted), random_state=0)
    assert len(calls) == 2
    for numbers, many in (("pfi", 2 * 30), ("pi", 2 * 20), ("std_error", 2 * 2 * 25)):
        before = len(calls)
        for _ in range(2):
            [getattr(one, numbers) for one in found.values()]
        assert len(calls) == before + many
    found.score_interval()
    assert len(calls) == 2 + 25 + 2 * (30 + 20 + 2 * 25)
    assert repr(found["x0"].design) == "Latin(30)"
    assert len(found["x0"].pi) == len(found["x0"].grid) == 20
    loss = ll.feature_importance(model, table, y, loss="squared_error")
    assert found["x0"].pfi == pytest.approx(loss["x0"].pfi, rel=0.05)
    assert found["x0"].std_error == pytest.approx(loss["x0"].std_error, rel=0.5)
    at = loss["x0"].grid.searchsorted(found["x0"].grid)
    np.testing.assert_allclose(found["x0"].pi, loss["x0"].pi[at], atol=1e-9)


# Names, and functions of one's own.


@pytest.mark.parametrize("name", ["roc_auc", "neg_mean_squared_error", "score"])
def test_a_name_stands_for_scikit_learns_scorer(name):
    model, y = CASES["roc_auc"] if name == "roc_auc" else (LINEAR, Y)
    given = check_scoring(model) if name == "score" else get_scorer(name)
    for verb in (ll.feature_importance, ll.shapley_importance):
        named, expected = (verb(model, X, y, loss=loss, donors="all", random_state=0) for loss in (name, given))
        assert named.title == expected.title
        assert named.to_frame().equals(expected.to_frame())
        plans = [ll.plan(verb, model, X, y, loss=loss, donors="all").n_predictions for loss in (name, given)]
        assert plans == [named.n_predictions] * 2


def test_a_function_of_estimator_and_rows_is_wrapped():
    def closeness(estimator, X, y):
        return -float(np.abs(y - estimator.predict(X)).mean())

    found = ll.feature_importance(LINEAR, X, Y, loss=ll.losses.scorer(closeness), donors="all")
    loss = ll.feature_importance(LINEAR, X, Y, loss="absolute_error", donors="all")
    assert found.title == "closeness"
    assert found["x0"].pfi == pytest.approx(loss["x0"].pfi)
    with pytest.raises(TypeError, match=r"closeness takes three arguments; .*loss=losslens.losses.scorer\(closeness\)"):
        ll.feature_importance(LINEAR, X, Y, loss=closeness)
    with pytest.raises(TypeError, match=r"scorer takes a function \(estimator, X, y\) -> one number; got"):
        ll.losses.scorer(lambda y, prediction: np.abs(y - prediction))
    with pytest.raises(ValueError, match=r"a metric of all rows is passed as loss=sklearn\.metrics\.make_scorer"):
        ll.feature_importance(LINEAR, X, Y, loss=lambda y, prediction: np.abs(y - prediction).mean())
    with pytest.raises(TypeError, match="loss='score' needs an estimator with a method score"):
        ll.feature_importance(lambda X: X[:, 0], X, Y, loss="score")


def test_a_score_of_some_shifts_says_why_not_of_all():
    """An AUC of few pairs takes all of them, a score that is computed column by column 30 shifts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(410, 2))
    for model, y, scorer, exact in (
        (LinearRegression(), X[:, 0], MEDIAN, False),
        (LogisticRegression(), (X[:, 0] + rng.normal(size=410) > 0).astype(int), "roc_auc", True),
    ):
        found = ll.feature_importance(model.fit(X, y), X, y, loss=scorer, progress=False)
        assert (found.engine, found.exact) == ("additive", exact)
        assert (found.declined == {}) == exact
        assert all("all pairs take longer than 30 shifts" in why for why in found.declined.values())
        assert not any("no exact engine" in note for note in found.notes)
