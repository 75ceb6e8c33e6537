"""Scores of the pooled cells, and their jackknife, by brute force over all pairs of rows with the model's predictions.

With a feature replaced the population is all pairs (i, k): row i with the feature of row k, with the weight w_i w_k. A
score of it is scikit-learn's metric of the n x n rows; its jackknife leaves out the pairs of each row in either role.
"""

from functools import partial

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    cohen_kappa_score,
    f1_score,
    fbeta_score,
    jaccard_score,
    make_scorer,
    matthews_corrcoef,
    precision_score,
    recall_score,
    roc_auc_score,
)

import losslens as ll
from losslens.uncertainty import pooled_scores
from losslens.uncertainty.prediction_scores import TableScore

RNG = np.random.default_rng(0)
N = 26
X = RNG.normal(size=(N, 3)).round(1)
SIGNAL = X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=N)
WEIGHT, GROUPS = RNG.uniform(0.5, 2, N), RNG.integers(0, 12, N)
Y = {2: (SIGNAL > 0).astype(int), 3: np.digitize(SIGNAL, [-0.7, 0.7])}
ROW, DONOR = np.repeat(np.arange(N), N), np.tile(np.arange(N), N)
SITUATIONS = {"plain": (None, None), "weights": (WEIGHT, None), "groups": (None, GROUPS), "both": (WEIGHT, GROUPS)}


def models(kind, classes):
    model = (
        LogisticRegression() if kind == "linear" else HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=5)
    )
    return model.fit(X, Y[classes])


def area(scorer, y, shares, weight, row):
    """The AUC of two classes, or the mean over classes against the rest, or over pairs of classes, both ways."""
    if shares.shape[1] == 2:
        return roc_auc_score(y, shares[:, 1], sample_weight=weight)
    parts, by = [], []
    for a in range(shares.shape[1]):
        for b in [None] if "ovr" in scorer else [b for b in range(shares.shape[1]) if b != a]:
            some = np.ones(len(y), bool) if b is None else (y == a) | (y == b)
            parts.append(roc_auc_score(y[some] == a, shares[some, a], sample_weight=weight[some]))
            by.append(weight[y == a].sum() if b is None else weight[some].sum())
    return np.average(parts, weights=by if "weighted" in scorer else None)


def of_labels(metric, scorer, y, shares, weight, row):
    return metric(y, shares.argmax(axis=1), sample_weight=weight)


def precision(scorer, y, shares, weight, row):
    """The mean over positive cells of (A - H_i + w_i) / (B - H_i + w_i): the cell's row counts once beside the others.

    With one cell a row H_i = w_i, and this is scikit-learn's average precision.
    """
    score, mass = shares[:, 1], np.bincount(row, weight)
    above = [score >= t for t in score]
    A, B = (np.array([weight[here & of].sum() for here in above]) for of in (y == 1, y >= 0))
    own = np.array([weight[here & (row == i)].sum() for here, i in zip(above, row, strict=True)])
    each = (A - own + mass[row]) / (B - own + mass[row])
    counted = (y == 1) & (weight > 0)
    return np.average(each[counted], weights=weight[counted])


TWO = {
    "roc_auc": area, "f1": partial(of_labels, f1_score), "matthews_corrcoef": partial(of_labels, matthews_corrcoef),
    "balanced_accuracy": partial(of_labels, balanced_accuracy_score), "average_precision": precision,
}  # fmt: skip
THREE = {
    "roc_auc_ovr": area, "roc_auc_ovo": area, "roc_auc_ovr_weighted": area, "roc_auc_ovo_weighted": area,
    "f1_macro": partial(of_labels, partial(f1_score, average="macro")),
    "jaccard_weighted": partial(of_labels, partial(jaccard_score, average="weighted")),
    "precision_micro": partial(of_labels, partial(precision_score, average="micro")),
}  # fmt: skip
CASES = [(2, name, of) for name, of in TWO.items()] + [(3, name, of) for name, of in THREE.items()]


def brute(model, y, score, column, weight, groups, left_out=()):
    """The score of the pairs with each row's own prediction less that with the column from the donor.

    Pairs of two rows of a group, and those of units that are left out, don't count.
    """
    unit, weight = np.arange(N) if groups is None else groups, np.ones(N) if weight is None else weight
    kept = ~np.isin(unit[ROW], left_out) & ~np.isin(unit[DONOR], left_out)
    kept &= True if groups is None else unit[ROW] != unit[DONOR]
    replaced = X[ROW[kept]]
    replaced[:, column] = X[DONOR[kept], column]
    pairs, row = (weight[ROW] * weight[DONOR])[kept], ROW[kept]
    own, changed = model.predict_proba(X)[row], model.predict_proba(replaced)
    return score(y=y[row], shares=own, weight=pairs, row=row) - score(y=y[row], shares=changed, weight=pairs, row=row)


@pytest.mark.filterwarnings("ignore:The effective number", "ignore:.*is ill-defined", "ignore::UserWarning")
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize(("classes", "scorer", "of"), CASES, ids=[case[1] for case in CASES])
@pytest.mark.parametrize("kind", ["trees", "linear"])
def test_a_score_is_that_of_all_pairs_and_its_error_leaves_each_unit_out(kind, classes, scorer, of, situation):
    """AUCs, and scores of tables of classes, leave units out exactly: the literal jackknife, to rounding."""
    weight, groups = SITUATIONS[situation]
    model, y, score = models(kind, classes), Y[classes], partial(of, scorer)
    options = {"sample_weight": weight, "groups": groups, "features": "x1", "donors": "all"}
    found = ll.feature_importance(model, X, y, loss=scorer, **options)["x1"]
    assert found.pfi == pytest.approx(brute(model, y, score, 1, weight, groups), abs=1e-12)
    w = np.ones(N) if weight is None else weight
    assert found.score == pytest.approx(score(y=y, shares=model.predict_proba(X), weight=w, row=np.arange(N)))
    if scorer == "average_precision":
        assert found.units == ("blocks" if groups is None else "groups")
        return
    units = np.unique(np.arange(N) if groups is None else groups)
    without = np.array([brute(model, y, score, 1, weight, groups, [u]) for u in units])
    error = np.sqrt((len(units) - 1) / len(units) * np.sum((without - without.mean()) ** 2))
    assert found.std_error == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_error_of_the_average_precision_leaves_blocks_out(weighted):
    """25 blocks of rows, the same whatever the seed, as rows and as donors."""
    weight, model = WEIGHT if weighted else None, models("trees", 2)
    found = ll.feature_importance(model, X, Y[2], loss="average_precision", sample_weight=weight, features="x1")["x1"]
    block = pooled_scores.blocks(found.sample)
    assert (found.units, found._units, len(np.unique(block))) == ("blocks", 25, 25)
    score = partial(precision, "")
    without = [brute(model, Y[2], score, 1, weight, None, np.flatnonzero(block == b)) for b in range(25)]
    assert found.std_error == pytest.approx(np.sqrt(24 / 25 * np.sum((without - np.mean(without)) ** 2)))


@pytest.mark.parametrize("scorer", ["roc_auc", "roc_auc_ovr", "roc_auc_ovo"])
@pytest.mark.parametrize("weighted", [False, True])
def test_of_many_pairs_units_are_left_out_to_first_order(scorer, weighted, monkeypatch):
    """Scaled by what is left of the row's class and of the donors: at most so much above the exact jackknife."""
    rng, n = np.random.default_rng(1), 300
    table = rng.normal(size=(n, 3))
    y = np.digitize(
        table[:, 0] + table[:, 1] * table[:, 2] + rng.normal(size=n), [0] if scorer == "roc_auc" else [-1, 1]
    )
    model = HistGradientBoostingClassifier(max_iter=20).fit(table, y)
    options = {"loss": scorer, "sample_weight": rng.uniform(0.5, 2, n) if weighted else None}
    exact = ll.feature_importance(model, table, y, **options)
    monkeypatch.setattr(pooled_scores, "EXACT_PAIRS", 1000)
    linear = ll.feature_importance(model, table, y, **options)
    for name in exact:
        assert linear[name].std_error == pytest.approx(exact[name].std_error, rel=0.03)


def test_an_auc_has_local_importances():
    """A row's is what its pairs with the other classes lose; their mean is the importance."""
    for scorer, classes in (("roc_auc", 2), ("roc_auc_ovr", 3)):
        for weight in (None, WEIGHT):
            found = ll.feature_importance(models("trees", classes), X, Y[classes], loss=scorer, sample_weight=weight)
            assert found.local.shape == (N, 3)
            for one in found.values():
                assert np.average(one.local, weights=weight) == pytest.approx(one.pfi, abs=1e-12)


def test_an_auc_of_a_row_is_the_share_of_its_pairs():
    """By brute force: half of each pair of a positive and a negative cell is either's."""
    model, y = models("trees", 2), Y[2]
    found = ll.feature_importance(model, X, y, loss="roc_auc", features="x1")["x1"]
    replaced = X[ROW]
    replaced[:, 1] = X[DONOR, 1]

    def won(score, row):
        up, down = y[row] == 1, y[row] == 0
        right = (score[up][:, None] > score[down]) + 0.5 * (score[up][:, None] == score[down])
        each = np.bincount(row[up], right.mean(axis=1), N) / up.sum()
        return (each + np.bincount(row[down], right.mean(axis=0), N) / down.sum()) / 2

    own, changed = model.predict_proba(X)[:, 1], model.predict_proba(replaced)[:, 1]
    expected = N * (won(own, np.arange(N)) - won(changed, ROW))
    np.testing.assert_allclose(found.local, expected, atol=1e-12)


@pytest.mark.parametrize("scorer", ["roc_auc", "f1", "average_precision"])
@pytest.mark.parametrize("weighted", [False, True])
def test_of_a_sampled_design_the_drawn_pairs_are_pooled(scorer, weighted):
    weight, model, y, of = WEIGHT if weighted else None, models("linear", 2), Y[2], partial(TWO[scorer], scorer)
    options = {"donors": ll.Latin(5), "random_state": 3, "features": "x1", "sample_weight": weight}
    found = ll.feature_importance(model, X, y, loss=scorer, **options)["x1"]
    seen = ll.feature_importance(lambda X: X[:, 0], X, SIGNAL, loss="squared_error", **options)["x1"]
    row, donor = np.repeat(np.arange(N), 5), np.asarray(seen.layout.donors[np.arange(N)]).ravel()
    replaced, w = X[row], np.ones(N) if weight is None else weight
    replaced[:, 1] = X[donor, 1]
    pairs = {"y": y[row], "weight": w[row] * w[donor], "row": row}
    before, after = (of(shares=model.predict_proba(rows), **pairs) for rows in (X[row], replaced))
    assert found.pfi == pytest.approx(before - after, abs=1e-12)
    assert found.std_error > 0
    assert not found.exact


@pytest.mark.parametrize("scorer", ["roc_auc", "f1", "average_precision", "matthews_corrcoef"])
def test_some_rows_have_the_score_of_their_pairs_with_all_donors(scorer):
    model, y, some, of = models("trees", 2), Y[2], np.arange(N) % 3 > 0, partial(TWO[scorer], scorer)
    found = ll.feature_importance(model, X, y, loss=scorer, features="x0").given(some)["x0"]
    kept = some[ROW]
    replaced = X[ROW[kept]]
    replaced[:, 0] = X[DONOR[kept], 0]
    after = of(y=y[ROW[kept]], shares=model.predict_proba(replaced), weight=np.ones(kept.sum()), row=ROW[kept])
    assert found.pfi == pytest.approx(found.score - after, abs=1e-12)
    assert found.std_error > 0


def test_rows_of_a_rare_class_give_few_degrees_of_freedom():
    """``sum(v)^2 / sum(v^2 / (e - 1))``: those of the rare class where nearly all variance is theirs."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(300, 2))
    y = (table[:, 0] + rng.normal(size=300) > 2.2).astype(int)
    found = ll.feature_importance(LogisticRegression().fit(table, y), table, y, loss="roc_auc")
    rare = y.sum()
    assert rare - 1 < found["x0"]._units - 1 < 3 * rare


@pytest.mark.filterwarnings("ignore:The effective number")
@pytest.mark.parametrize("scorer", ["roc_auc", "f1", "average_precision"])
def test_a_feature_that_no_tree_uses_has_the_importance_0(scorer):
    model = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5).fit(X * [1, 1, 0], Y[2])
    for weight, groups in ((None, None), (WEIGHT, None), (WEIGHT, GROUPS)):
        found = ll.feature_importance(model, X, Y[2], loss=scorer, sample_weight=weight, groups=groups)["x2"]
        assert (found.pfi, found.std_error, found.p_value) == (0, 0, 1)


METRICS = {
    "precision": precision_score, "recall": recall_score, "f1": f1_score, "jaccard": jaccard_score,
    "fbeta": partial(fbeta_score, beta=2.0),
}  # fmt: skip


@pytest.mark.parametrize("average", ["binary", "macro", "micro", "weighted"])
@pytest.mark.parametrize("metric", METRICS)
def test_scores_of_tables_are_scikit_learns(metric, average):
    rng = np.random.default_rng(0)
    classes = np.arange(2 if average == "binary" else 4)
    y, label, weight = rng.choice(classes, 60), rng.choice(classes[:3], 60), rng.uniform(0.5, 2, 60)
    y, label = np.minimum(y, len(classes) - 1), np.minimum(label, len(classes) - 1)
    function = METRICS[metric]
    options = {"average": average} | getattr(function, "keywords", {})
    of = TableScore.of(getattr(function, "func", function), options, classes)
    size = len(classes)
    table = np.bincount(y * size + label, weight, size**2).reshape(size, size)
    expected = function(y, label, average=average, sample_weight=weight, zero_division=0)
    assert of(table) == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(of(np.stack([table, table.T])), [of(table), of(table.T)])


@pytest.mark.parametrize("metric", [matthews_corrcoef, balanced_accuracy_score, cohen_kappa_score])
def test_scores_of_all_classes_together_are_scikit_learns(metric):
    rng = np.random.default_rng(1)
    y, label, weight = rng.integers(0, 3, 60), rng.integers(0, 3, 60), rng.uniform(0.5, 2, 60)
    table = np.bincount(y * 3 + label, weight, 9).reshape(3, 3)
    of = TableScore.of(metric, {}, np.arange(3))
    assert of(table) == pytest.approx(metric(y, label, sample_weight=weight), abs=1e-12)


def test_metrics_with_other_options_are_no_scores_of_tables():
    assert TableScore.of(f1_score, {"average": "binary"}, np.array(["no", "yes"])) is None  # no class is called 1
    assert TableScore.of(f1_score, {"average": "samples"}, np.arange(2)) is None
    assert TableScore.of(f1_score, {"zero_division": 1.0}, np.arange(2)) is None
    assert TableScore.of(roc_auc_score, {}, np.arange(2)) is None
    assert TableScore.of(average_precision_score, {}, np.arange(2)) is None
    named = TableScore.of(f1_score, {"average": "binary", "pos_label": "no"}, np.array(["no", "yes"]))
    assert (named.positive, TableScore.of(f1_score, {}, np.arange(2)).positive) == (0, 1)


def test_made_scorers_with_names_of_classes_are_pooled():
    labels = np.where(Y[2] == 1, "yes", "no")
    model = LogisticRegression().fit(X, labels)
    for metric, how in ((f1_score, "predict"), (average_precision_score, "predict_proba")):
        scorer = make_scorer(metric, response_method=how, pos_label="yes")
        named = ll.feature_importance(model, X, labels, loss=scorer)
        plain = ll.feature_importance(
            LogisticRegression().fit(X, Y[2]), X, Y[2], loss=make_scorer(metric, response_method=how)
        )
        for name, one in named.items():
            assert one.pfi == pytest.approx(plain[name].pfi, abs=1e-12)
            assert one.score == pytest.approx(scorer(model, X, labels))


def test_curves_have_at_most_50_values():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(120, 2))
    y = (table[:, 0] + rng.normal(size=120) > 0).astype(int)
    model = RandomForestClassifier(10, max_depth=4, random_state=0).fit(table, y)
    found = ll.feature_importance(model, table, y, loss="roc_auc")["x0"]
    assert (found.engine, found.exact, len(found.grid), found.weights.sum()) == ("trees", True, 50, pytest.approx(1))
    at = table.copy()
    at[:, 0] = found.grid[7]
    assert found.pi[7] == pytest.approx(found.score - roc_auc_score(y, model.predict_proba(at)[:, 1]))
