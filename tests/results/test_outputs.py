"""Importances of a model with several outputs: their mean, and those for each output, from the same predictions."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import losslens as ll

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(40, 3)), 1)
Y = pd.DataFrame({"sum": X[:, 0] + X[:, 1], "square": X[:, 1] ** 2, "noise": RNG.normal(size=40)})
MODEL = KNeighborsRegressor(4).fit(X, Y)
WEIGHTS = {"sum": 1.0, "square": 2.0, "noise": 1.0}
LOSS = ll.losses.outputs("squared_error", weights=WEIGHTS)


def brute(j):
    """The mean over all pairs of the change of each output's squared error, by the model's own predict, (K,)."""
    truth, total = Y.to_numpy(), 0.0
    for k in range(len(X)):
        mixed = X.copy()
        mixed[:, j] = X[k, j]
        total = total + ((truth - MODEL.predict(mixed)) ** 2 - (truth - MODEL.predict(X)) ** 2).mean(axis=0)
    return total / len(X)


@pytest.fixture(scope="module")
def found():
    return ll.feature_importance(MODEL, X, Y, loss=LOSS, donors="all", progress=False)


def test_each_output_is_that_of_brute_force(found):
    assert list(found.outputs) == list(Y)
    assert len(found.outputs) == 3
    for j in range(3):
        np.testing.assert_allclose(found.outputs.importance[j], brute(j), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.outputs.error, ((Y - MODEL.predict(X)) ** 2).mean(axis=0))


@pytest.mark.parametrize(
    "options", [{"donors": "all"}, {"donors": ll.Latin(4)}, {"donors": "all", "memory": "115 KB"},
                {"donors": "all", "groups": np.arange(40) // 4, "sample_weight": np.arange(1, 41)}],
)  # fmt: skip
def test_the_mean_of_outputs_is_the_total(options):
    """Of numbers, rows and curves, whatever the design; the standard error of one output is that of a call on it."""
    found = ll.feature_importance(MODEL, X, Y, loss=LOSS, random_state=3, progress=False, **options)
    weights = np.array(list(WEIGHTS.values())) / 4
    for name, one in found.items():
        parts = [of[name] for of in found.outputs.values()]
        for number in ("pfi", "local", "pi", "error", "unbiased"):
            mean = np.tensordot(weights, np.array([getattr(part, number) for part in parts]), 1)
            np.testing.assert_allclose(mean, getattr(one, number), rtol=1e-11, atol=1e-13, err_msg=number)
    alone = ll.feature_importance(
        lambda X: MODEL.predict(X)[:, 1],
        X,
        Y["square"],
        loss="squared_error",
        random_state=3,
        progress=False,
        **options,
    )
    for name, one in alone.items():
        part = found.outputs["square"][name]
        assert part.pfi == pytest.approx(one.pfi, rel=1e-12)
        assert part.interval() == pytest.approx(one.interval(), rel=1e-9)
        assert part.ratio == pytest.approx(one.ratio, rel=1e-12)
        if options.get("memory") is None:
            np.testing.assert_allclose(part.effect.pd, one.effect.pd, rtol=1e-12)
            np.testing.assert_allclose(part.ici, one.ici, rtol=1e-9, atol=1e-12)


def test_rows_are_selected_in_all_outputs(found):
    few = X[:, 0] > 0
    again = ll.feature_importance(MODEL, X[few], Y[few], loss=LOSS, donors="all", progress=False)
    np.testing.assert_allclose(found.subset(few).outputs.importance, again.outputs.importance, rtol=1e-9, atol=1e-13)
    given = found.given(few).outputs["sum"]["x0"]
    assert given.pfi == pytest.approx(found.outputs["sum"]["x0"].local[few].mean())
    assert found.by(few)[True].outputs["sum"]["x0"].pfi == pytest.approx(given.pfi)


def test_another_loss_of_the_same_predictions(found):
    other = found.with_loss("absolute_error")
    again = ll.feature_importance(MODEL, X, Y, loss="absolute_error", donors="all", progress=False)
    np.testing.assert_allclose(other.outputs.importance, again.outputs.importance, rtol=1e-12, atol=1e-14)
    assert other["x0"].pfi == pytest.approx(again["x0"].pfi)
    one = found.outputs["sum"].with_loss("absolute_error")
    assert one["x0"].pfi == pytest.approx(again.outputs["sum"]["x0"].pfi)


def test_outputs_are_saved_with_their_importances(found, tmp_path):
    with pytest.raises(ValueError, match=r"imp\.save\(path\), and load\(path\)\.outputs"):
        found.outputs.save(tmp_path / "outputs.losslens")


def test_outputs_are_saved_and_loaded(found, tmp_path):
    found.save(tmp_path / "found.ll")
    again = ll.load(tmp_path / "found.ll")
    np.testing.assert_array_equal(again.outputs.importance, found.outputs.importance)
    assert repr(again.outputs) == repr(found.outputs)
    assert again.outputs["noise"]["x0"].interval() == found.outputs["noise"]["x0"].interval()
    one = found.outputs["sum"]
    one.save(tmp_path / "one.ll")
    assert repr(ll.load(tmp_path / "one.ll")) == repr(one)


def test_differences_tests_and_tables_of_one_output(found):
    one = found.outputs["sum"]
    assert one.difference("x0", "x2").value > 0
    frame = found.outputs.to_frame()
    assert list(frame["output"]) == ["sum"] * 3 + ["square"] * 3 + ["noise"] * 3
    first = frame[(frame["output"] == "square") & (frame["feature"] == "x1")].iloc[0]
    assert (first["low"], first["high"]) == found.outputs["square"]["x1"].interval()
    assert "increase in squared error of each" in repr(found.outputs)
    assert "squared error of sum" in repr(one)
    assert "(importances for each of the 3 outputs: .outputs)" in repr(found)
    assert ".outputs" not in repr(one)


def test_skill_is_that_of_the_mean_loss(found):
    """The best constant of each output is its mean: 1 - sum of w mse / sum of w var."""
    weights, errors = np.array([1, 2, 1]) / 4, ((Y - MODEL.predict(X)) ** 2).mean(axis=0)
    assert found.skill == pytest.approx(1 - weights @ errors / (weights @ Y.var(ddof=0)))
    assert found.outputs["sum"].skill == pytest.approx(1 - errors["sum"] / Y["sum"].var(ddof=0))


def test_effects_are_of_one_output(found):
    with pytest.raises(ValueError, match=r"each output has its own effect; use effect_of\(output\)"):
        _ = found["x0"].effect
    np.testing.assert_array_equal(found["x0"].effect_of("sum").pd, found.outputs["sum"]["x0"].effect.pd)
    assert found["x0"].effect_of("sum").plot().get_ylabel() == "prediction for output sum"
    assert "prediction for output sum" in found["x0"].effect_of("sum")._repr_html_()
    with pytest.raises(ValueError, match="'total' is not an output of the model"):
        found["x0"].effect_of("total")


def test_a_function_of_all_outputs_at_once():
    norm = ll.feature_importance(MODEL, X, Y, loss=lambda Y, P: ((Y - P) ** 2).sum(axis=1), progress=False)
    each = ll.feature_importance(MODEL, X, Y, loss=lambda Y, P: (Y - P) ** 2, progress=False)
    for j, name in enumerate(norm):
        assert norm[name].pfi == pytest.approx(brute(j).sum())
        np.testing.assert_allclose(each.outputs.importance[j], brute(j), rtol=1e-12, atol=1e-14)
    assert list(each.outputs) == list(Y)
    with pytest.raises(ValueError, match="has no outputs: it gives one loss for each row; return"):
        _ = norm.outputs


def test_regions_of_interactions_read_one_prediction_a_row():
    found = ll.feature_importance(MODEL, X, Y, progress=False)
    with pytest.raises(
        ValueError, match=r"of one prediction a row, but the loss is squared error, mean of .*; use tar"
    ):
        found[next(iter(found))].regions(X)


def test_what_has_no_outputs_says_what_to_pass():
    found = ll.feature_importance(lambda X: X[:, 0], X, Y["sum"], loss="squared_error", progress=False)
    with pytest.raises(ValueError, match="squared error has no outputs: pass y with one column for each output"):
        _ = found.outputs
    with pytest.raises(KeyError, match="'x9' is no output; the outputs are 'sum'"):
        ll.feature_importance(MODEL, X, Y, progress=False).outputs["x9"]


# Exact engines, one output at a time.

MODELS = {
    "linear": make_pipeline(StandardScaler(), Ridge()),
    "tree": DecisionTreeRegressor(max_depth=4, random_state=0),
    "forest": RandomForestRegressor(5, random_state=0),
    "one model an output": MultiOutputRegressor(GradientBoostingRegressor(n_estimators=5, random_state=0)),
}
ENGINES = {"linear": "additive", "tree": "trees", "forest": "trees", "one model an output": "trees"}


@pytest.mark.parametrize("kind", MODELS)
def test_exact_engines_take_one_output_after_another(kind):
    """By the model's own predict to 1e-9: numbers, errors, curves and rows of the mean and of each output."""
    model = MODELS[kind].fit(X, Y)
    options = {"loss": LOSS, "groups": np.arange(40) // 2 if kind == "tree" else None, "progress": False}
    exact = ll.feature_importance(model, X, Y, **options)
    asked = ll.feature_importance(model.predict, X, Y, donors="all", **options)
    assert (exact.engine, exact.declined, exact.exact) == (ENGINES[kind], {}, True)
    for name, one in asked.items():
        for of, other in zip((exact, *exact.outputs.values()), (asked, *asked.outputs.values()), strict=True):
            for number in ("pfi", "std_error", "local", "pi", "error", "ratio"):
                values = getattr(of[name], number), getattr(other[name], number)
                np.testing.assert_allclose(*values, rtol=1e-9, atol=1e-12, err_msg=number)
        np.testing.assert_allclose(exact[name].effect_of("sum").pd, one.effect_of("sum").pd, rtol=1e-9)
        np.testing.assert_allclose(exact[name].ici, one.ici, rtol=1e-9, atol=1e-12)


def test_exact_outputs_are_selected_saved_and_judged_by_another_loss(tmp_path):
    model = MODELS["forest"].fit(X, Y)
    exact = ll.feature_importance(model, X, Y, loss=LOSS, progress=False)
    exact.save(tmp_path / "exact.ll")
    assert repr(ll.load(tmp_path / "exact.ll").outputs) == repr(exact.outputs)
    few = X[:, 0] > 0
    again = ll.feature_importance(model, X[few], Y[few], loss=LOSS, progress=False)
    np.testing.assert_allclose(exact.subset(few).outputs.importance, again.outputs.importance, rtol=1e-9, atol=1e-13)
    other = ll.feature_importance(model, X, Y, loss="absolute_error", progress=False)
    np.testing.assert_allclose(exact.with_loss("absolute_error").outputs.importance, other.outputs.importance)


def test_what_is_not_read_is_asked_and_why_is_said():
    found = ll.feature_importance(RegressorChain(Ridge()).fit(X, Y), X, Y, progress=False)
    assert found.engine == "blackbox"
    assert set(found.declined.values()) == {"losslens has no reader for the values of RegressorChain"}
    sampled = ll.feature_importance(MODELS["tree"].fit(X, Y), X, Y, donors=ll.Latin(3), progress=False)
    assert sampled.engine == "blackbox"


def test_pictures_have_features_and_outputs(found):
    """A heat map where outputs have names; lines, to scale, where they are points in time."""
    ax = found.outputs.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["x0", "x1", "x2"]
    assert [label.get_text() for label in ax.get_xticklabels()] == list(Y)
    np.testing.assert_allclose(
        ax.collections[0].get_array().reshape(3, 3), found.outputs.importance / found.outputs.error
    )
    ax = found.outputs.plot_lines()
    low, high = found.outputs["square"]["x1"].interval()
    line = next(line for line in ax.lines if line.get_label() == "x1")
    assert line.get_ydata()[1] == found.outputs["square"]["x1"].pfi
    (bars,) = (one for one in ax.collections if (one.get_color()[0][:3] == mpl.colors.to_rgb(line.get_color())).all())
    assert [low, high] == pytest.approx(sorted(bars.get_segments()[1][:, 1].tolist()))
    loss = ll.losses.outputs("squared_error").bound([24.0, 1.0])
    times = ll.feature_importance(lambda X: MODEL.predict(X)[:, :2], X, Y["sum"], loss=loss, progress=False)
    np.testing.assert_array_equal(times.outputs.plot().lines[0].get_xdata(), [1.0, 24.0])
    plt.close("all")


@pytest.mark.parametrize("verb", [ll.feature_importance, ll.shapley_importance])
@pytest.mark.parametrize("kind", ["forest", "asked"])
def test_plans_have_the_engine_and_the_predictions_of_the_call(verb, kind):
    model = MODEL if kind == "asked" else MODELS["forest"].fit(X, Y)
    planned, found = ll.plan(verb, model, X, Y, loss=LOSS), verb(model, X, Y, loss=LOSS, progress=False)
    assert (planned.engine, planned.n_predictions) == (found.engine, found.n_predictions)


def test_a_plan_looks_at_some_of_many_rows():
    many = np.tile(X, (60, 100)), pd.concat([Y] * 60)
    planned = ll.plan(ll.feature_importance, lambda X: MODEL.predict(X[:, :3]), *many, loss=LOSS, features=[0])
    assert (planned.engine, planned.n_predictions) == ("blackbox", 2400 * len(np.unique(X[:, 0])))


# Mistakes lead to the call that works.

LABELS = (Y[["sum", "noise"]] > 0).astype(int)


class Reversed(KNeighborsRegressor):
    """A model that names its outputs, in another order than Y."""

    def predict(self, X):
        return pd.DataFrame(super().predict(X), columns=Y.columns)[Y.columns[::-1]]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: (Ridge().fit(X, Y["sum"]), Y), "one column of predictions for 3 outputs .* a y with the columns that"),
        (lambda: (MODEL, Y[["sum", "noise"]]), "3 columns of predictions for 2 outputs"),
        (lambda: (MODELS["forest"].fit(X, Y), pd.concat([Y, Y.add_suffix("2")], axis=1)), "3 columns .* 6 outputs"),
        (lambda: (MODEL, Y["sum"]), "if it is a multi-output model, pass y with one column for each output"),
        (lambda: (MODEL, Y.assign(sum=np.nan)), "column 'sum' of y has 40 missing or infinite values"),
        (lambda: (MODEL, Y.assign(sum="a")), "squared_error needs numbers in column 'sum' of y; got object"),
        (lambda: (MODEL, Y[:10]), "y has 10 rows, but X has 40 rows$"),
        (lambda: (MODEL, [*Y.to_numpy().T]), r"y has 3 rows, .* pass np.column_stack\(y\)"),
        (lambda: (RandomForestClassifier(2).fit(X, LABELS), LABELS), "is a multi-output classifier; explain a prob"),
        (lambda: (LogisticRegression().fit(X, LABELS["sum"]), LABELS), "y has 2 columns, and LogisticRegression is a"),
        (lambda: (MODEL, pd.concat([Y, Y], axis=1)), "two columns of y have the same name"),
        (
            lambda: (Reversed(4).fit(X, Y), Y),
            "the model returns the columns .*, but the outputs are sum, .*: give both in the same",
        ),
    ],
)
def test_models_and_targets_that_do_not_fit(call, sentence):
    model, y = call()
    with pytest.raises((ValueError, TypeError), match=sentence):
        ll.feature_importance(model, X, y)


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        ("log_loss", "y has 3 columns, but log_loss reads probabilities of one output; use a loss of numbers such"),
        (ll.losses.pointwise(np.subtract, reads="values"), r"losses.pointwise\(function, reads='outputs'\)"),
        (ll.losses.outputs(weights=[1, 2]), "weights has 2 numbers, but there are 3 outputs"),
    ],
)
def test_losses_that_do_not_fit(loss, sentence):
    with pytest.raises(ValueError, match=sentence):
        ll.feature_importance(MODEL, X, Y, loss=loss)
    with pytest.raises(ValueError, match=r"losses.outputs averages over several outputs, but y has one column"):
        ll.feature_importance(lambda X: X[:, 0], X, Y["sum"], loss=ll.losses.outputs("squared_error"))


def test_the_call_for_a_classifier_of_several_outputs_works():
    forest = RandomForestClassifier(3, random_state=0).fit(X, LABELS)

    def probabilities(X):
        return np.column_stack([p[:, 1] for p in forest.predict_proba(X)])

    found = ll.feature_importance(probabilities, X, LABELS, loss="squared_error", progress=False)
    alone = ll.feature_importance(
        lambda X: forest.predict_proba(X)[1], X, LABELS["noise"], loss="brier", progress=False
    )
    for name, one in alone.items():
        assert found.outputs["noise"][name].pfi == pytest.approx(one.pfi)


def test_one_column_is_one_output():
    found = ll.feature_importance(MODELS["linear"].fit(X, Y["sum"]), X, Y[["sum"]], progress=False)
    assert (found.loss.reads, found.engine) == ("values", "additive")


def test_what_does_not_take_several_outputs_says_so(tmp_path):
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(**Y).to_parquet(tmp_path / "rows.parquet")
    for y in (Y, ["sum", "noise"]):
        with pytest.raises(ValueError, match=r"for data in files y is one column, .* pass tables in memory"):
            ll.feature_importance(MODEL, str(tmp_path / "rows.parquet"), y, loss="squared_error")
    with pytest.raises(ValueError, match="y has 2 columns, and LogisticRegression is a classifier: explain"):
        ll.feature_importance(LogisticRegression().fit(X, LABELS["sum"]), X, LABELS, loss="accuracy")
    with pytest.raises(ValueError, match="a report shows one prediction a row"):
        ll.report(MODEL, X, Y)


def test_models_of_several_outputs_are_compared():
    found = ll.compare({"asked": MODEL, "linear": MODELS["linear"].fit(X, Y)}, X, Y, loss=LOSS, shapley=False)
    alone = ll.feature_importance(MODELS["linear"], X, Y, loss=LOSS, progress=False)
    assert found.importances["linear"]["x0"].pfi == pytest.approx(alone["x0"].pfi)


def test_refits_take_y_of_several_columns():
    """The mean over folds of the importances of each fold's model, on its test rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    Y = X @ [[1.0, 2.0], [0.5, 0.0]] + rng.normal(size=(40, 2))
    folds = [(np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))]
    found = ll.feature_importance_cv(Ridge(), X, Y, cv=folds)
    alone = [ll.feature_importance(Ridge().fit(X[a], Y[a]), X[b], Y[b]) for a, b in folds]
    for j, name in enumerate(("x0", "x1")):
        assert found.importance[j] == pytest.approx(np.mean([one[name].pfi for one in alone]), rel=1e-9)
    left = ll.leave_one_covariate_out(Ridge(), X, Y, cv=folds)
    by_hand = []
    for a, b in folds:
        errors = [np.square(Y[b] - Ridge().fit(X[a][:, c], Y[a]).predict(X[b][:, c])).mean() for c in ([0, 1], [1])]
        by_hand.append(errors[1] - errors[0])
    assert left.importance[0] == pytest.approx(np.mean(by_hand), rel=1e-9)
