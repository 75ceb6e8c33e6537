"""Several losses in one call: a dict from names to results, from the same predictions where they read the same."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import f1_score, make_scorer
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import losslens as ll
from losslens.cli.arguments import loss_of
from losslens.losses import names_of

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(40, 3)), 1)
LABELS = (X[:, 0] + RNG.normal(size=40) > 0).astype(int)
Y = X[:, 0] + X[:, 1] ** 2
CLASSIFIER = KNeighborsClassifier(7).fit(X, LABELS)
OPTIONS = {"random_state": 1, "progress": False}


def same(found, alone):
    for name, one in alone.items():
        assert found[name].pfi == pytest.approx(one.pfi, rel=1e-12)
        assert found[name].std_error == pytest.approx(one.std_error, rel=1e-9)
        np.testing.assert_allclose(found[name].local, one.local, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found[name].ici, one.ici, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("donors", ["all", ll.Latin(3)])
def test_losses_of_one_response_are_evaluated_on_the_same_predictions(donors):
    asked = []

    def predict(X):
        asked.append(len(X))
        return CLASSIFIER.predict_proba(X)

    found = ll.feature_importance(predict, X, LABELS, loss=["brier", "log_loss"], donors=donors, **OPTIONS)
    together, probed = sum(asked), 40
    asked.clear()
    for name in ("brier", "log_loss"):
        same(found[name], ll.feature_importance(predict, X, LABELS, loss=name, donors=donors, **OPTIONS))
    assert together - 2 * probed == sum(asked) / 2 - probed
    assert found["log_loss"].n_predictions == together - 2 * probed
    assert found["log_loss"]["x0"].clipped > 0


def test_losses_of_other_responses_and_scorers_come_along():
    losses = ["brier", "zero_one", "roc_auc"]
    found = ll.feature_importance(CLASSIFIER, X, LABELS, loss=losses, **OPTIONS)
    assert list(found) == losses
    for name in losses:
        alone = ll.feature_importance(CLASSIFIER, X, LABELS, loss=name, **OPTIONS)
        assert type(found[name]) is type(alone)
        assert [one.pfi for one in found[name].values()] == pytest.approx([one.pfi for one in alone.values()])


@pytest.mark.parametrize("donors", ["all", ll.Latin(3), "auto"])
@pytest.mark.parametrize("weight", [None, 1.0 + np.arange(40) % 3])
def test_a_score_is_computed_of_the_predictions_of_a_loss(donors, weight, monkeypatch):
    """Both read probabilities; the scorer is tried once on few rows, to see what it reads, and asks for real rows."""
    ask, asked = KNeighborsClassifier.predict_proba, []
    monkeypatch.setattr(KNeighborsClassifier, "predict_proba", lambda self, X: asked.append(len(X)) or ask(self, X))
    options = OPTIONS | {"donors": donors, "sample_weight": weight}
    found = ll.feature_importance(CLASSIFIER, X, LABELS, loss=["log_loss", "roc_auc"], **options)
    together = sum(asked)
    asked.clear()
    loss, score = (ll.feature_importance(CLASSIFIER, X, LABELS, loss=name, **options) for name in found)
    same(found["log_loss"], loss)
    assert found["roc_auc"].n_predictions < score.n_predictions
    assert together == sum(asked) - (score.n_predictions - found["roc_auc"].n_predictions) < sum(asked) - 100
    for name, one in score.items():
        assert found["roc_auc"][name].pfi == pytest.approx(one.pfi, abs=1e-12)
        assert found["roc_auc"][name].std_error == pytest.approx(one.std_error, rel=1e-9)
        if donors in ("all", "auto"):
            np.testing.assert_allclose(found["roc_auc"][name].pi, one.pi, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*greater than or equal to .n_classes")
def test_a_score_with_groups_or_many_columns_asks_for_itself():
    groups = {"groups": np.arange(40) // 2} | OPTIONS
    found = ll.feature_importance(CLASSIFIER, X, LABELS, loss=["log_loss", "roc_auc"], **groups)
    alone = ll.feature_importance(CLASSIFIER, X, LABELS, loss="roc_auc", **groups)
    assert [one.pfi for one in found["roc_auc"].values()] == pytest.approx([one.pfi for one in alone.values()])
    found = ll.feature_importance(CLASSIFIER, X, LABELS, loss=["log_loss", "top_k_accuracy"], **OPTIONS)
    assert found["log_loss"]["x0"].design.all_pairs
    assert found["top_k_accuracy"]["x0"].design.m == 30


def test_engines_compute_what_they_can_and_the_model_the_rest():
    """Of a linear model the squared error has a closed form, a function of the user's has none."""
    cubed = ll.losses.pointwise(lambda y, f: abs(y - f) ** 3, reads="values", name="cubed")
    model = Ridge().fit(X, Y)
    found = ll.feature_importance(model, X, Y, loss=["squared_error", cubed], **OPTIONS)
    assert (found["squared_error"].engine, found["cubed"].engine) == ("additive", "blackbox")
    assert "closed form" in found["cubed"].declined["x0"]
    same(found["cubed"], ll.feature_importance(model, X, Y, loss=cubed, **OPTIONS))


@pytest.mark.parametrize("model", [RandomForestRegressor(3, random_state=0), KNeighborsRegressor(3)])
def test_several_losses_of_several_outputs(model):
    both = np.column_stack([Y, X[:, 2]])
    model.fit(X, both)
    found = ll.feature_importance(model, X, both, loss=["squared_error", "absolute_error"], **OPTIONS)
    for name in found:
        alone = ll.feature_importance(model, X, both, loss=name, **OPTIONS)
        same(found[name], alone)
        same(found[name].outputs["y1"], alone.outputs["y1"])
        assert found[name].engine == alone.engine


def test_donors_are_drawn_until_all_losses_have_enough(monkeypatch):
    """The loss with the most noise decides; all have the same design."""
    monkeypatch.setattr("losslens.passes.ways.EXACT_PREDICTIONS", 0)

    def predict(X):
        return np.sign(X[:, 0]) * X[:, 1] ** 3

    losses = ["squared_error", "absolute_error"]
    wide = np.random.default_rng(2).normal(size=(300, 2))
    y = predict(wide) + 1
    found = ll.feature_importance(predict, wide, y, loss=losses, **OPTIONS)
    alone = [ll.feature_importance(predict, wide, y, loss=name, **OPTIONS) for name in losses]
    for feature in ("x0", "x1"):
        designs = {one[feature].design.m for one in found.values()}
        assert designs == {max((one[feature].design.m or 300) for one in alone)}


def test_names_of_losses():
    found = ll.feature_importance(
        lambda X: X[:, 0], X, Y, loss=(ll.losses.pinball(0.1), ll.losses.pinball(0.9), "huber"), **OPTIONS
    )
    assert list(found) == ["pinball loss (0.1)", "pinball loss (0.9)", "huber"]
    with pytest.raises(ValueError, match="two losses are called 'huber'; pass each in a call"):
        ll.feature_importance(lambda X: X[:, 0], X, Y, loss=["huber", "huber"])
    with pytest.raises(ValueError, match="the list of losses is empty"):
        ll.feature_importance(lambda X: X[:, 0], X, Y, loss=[])


def test_a_scorer_is_named_by_its_metric_and_two_of_one_metric_in_full():
    own = make_scorer(f1_score, pos_label=0)
    found = ll.feature_importance(CLASSIFIER, X, LABELS, loss=["brier", own], donors=ll.Latin(2), **OPTIONS)
    assert list(found) == ["brier", "f1_score"]
    assert len(names_of([own, make_scorer(f1_score)])) == 2


@pytest.mark.parametrize("verb", [ll.feature_importance, ll.shapley_importance])
def test_several_losses_have_a_plan_with_a_stage_each(verb):
    """Losses that share predictions take fewer of them: the sum is an upper bound."""
    asked = []

    def predict(X):
        asked.append(len(X))
        return CLASSIFIER.predict_proba(X)

    losses = ["brier", "log_loss"]
    plan = ll.plan(verb, predict, X, LABELS, loss=losses, donors="all")
    assert [stage.name for stage in plan.stages] == losses
    asked.clear()
    verb(predict, X, LABELS, loss=losses, donors="all", **OPTIONS)
    assert sum(asked) <= plan.n_predictions + 4 * 40  # as probes
    with pytest.raises(ValueError, match="two losses are called 'brier'"):
        ll.plan(verb, predict, X, LABELS, loss=["brier", "brier"])


def test_shapley_importances_by_several_losses():
    model = RandomForestRegressor(3, random_state=0).fit(X, Y)
    found = ll.shapley_importance(model, X, Y, loss=["squared_error", "absolute_error"], **OPTIONS)
    for name, one in found.items():
        np.testing.assert_array_equal(one.sfimp, ll.shapley_importance(model, X, Y, loss=name, **OPTIONS).sfimp)


def test_other_verbs_take_one_loss():
    with pytest.raises(TypeError, match=r"one loss is needed here, got \['huber'\]; feature_importance and"):
        ll.compare({"a": Ridge().fit(X, Y), "b": Ridge(9.0).fit(X, Y)}, X, Y, loss=["huber"])
    with pytest.raises(TypeError, match="one loss is needed here"):
        ll.report(Ridge().fit(X, Y), X, Y, loss=["huber", "squared_error"])


def test_refits_say_so_before_the_first_fit():
    with pytest.raises(TypeError, match=r"^one loss is needed here"):
        ll.feature_importance_cv(LinearRegression(), X, Y, loss=["squared_error", "absolute_error"])


def test_the_command_line_takes_one_loss():
    with pytest.raises(
        ValueError, match=r"--loss takes one loss, got 'log_loss,roc_auc'; call once for each, or pass a"
    ):
        loss_of("log_loss,roc_auc")
