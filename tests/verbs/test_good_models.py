"""Ranges over good models: the procedure by brute force, two copies of a column, refits, and what cannot be asked."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV

import losslens as ll
from losslens.results import GoodModels
from losslens.uncertainty.standard_errors import p_value, reach

RNG = np.random.default_rng(0)
N = 80
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, 0.4, 0.0] + 0.5 * RNG.normal(size=N)
SLOPES = {"true": (1.0, 0.4, 0.0), "near": (0.9, 0.5, 0.1), "far": (0.2, 0.4, 0.0), "swapped": (0.0, 0.4, 1.0)}
QUIET = {"loss": "squared_error", "progress": False}


def line(slopes):
    return lambda X: np.asarray(X, float) @ np.array(slopes)


MODELS = {name: line(slopes) for name, slopes in SLOPES.items()}


def good(models=MODELS, X=X, y=Y, **options):
    return ll.good_models(models, X, y, **(QUIET | {"random_state": 0} | options))


def jackknifed(leave_one_out):
    return np.sqrt((N - 1) / N) * (leave_one_out.mean() - leave_one_out)  # what a row adds


def by_hand(within, margin):
    """The procedure from the models' own predictions: every deletion made, quantiles from other draws."""
    losses = {name: (Y - model(X)) ** 2 for name, model in MODELS.items()}
    moved = {name: jackknifed((one.sum() - one) / (N - 1)) for name, one in losses.items()}
    error = {name: one.mean() for name, one in losses.items()}
    rng = np.random.default_rng(1)

    def quantile(columns, level):
        """Of the largest standardised sum of multipliers, inflated as Student's t."""
        columns = np.stack([one / np.linalg.norm(one) for one in columns], axis=1)
        drawn = np.abs(rng.normal(size=(40_000, N)) @ columns).max(axis=1)
        return np.quantile(drawn / np.sqrt(rng.chisquare(N - 1, 40_000) / (N - 1)), level)

    def ends(value, moved, q):
        size = np.linalg.norm(moved)
        down, up = reach(q, np.sum((moved / size) ** 3))
        return value - size * down, value + size * up

    gain = np.square(Y - Y.mean()).mean() - min(error.values())
    pairs = [(a, b) for a in MODELS for b in MODELS if a != b]
    q = quantile([moved[a] - moved[b] for a, b in pairs], 0.99)
    worse = {a for a, b in pairs if ends(error[a] - error[b], moved[a] - moved[b], q)[0] > within * gain}
    chosen = [name for name in MODELS if name not in worse]
    numbers = {}
    for name, model in MODELS.items():
        for j in range(3):
            cells = np.empty((N, N))
            for k in range(N):
                replaced = X.copy()
                replaced[:, j] = X[k, j]
                cells[:, k] = (Y - model(replaced)) ** 2 - losses[name]
            without = [(cells.sum() - cells[i].sum() - cells[:, i].sum()) / ((N - 1) * (N - 2)) for i in range(N)]
            numbers[name, j] = cells.mean(), cells.sum() / (N * (N - 1)), jackknifed(np.array(without))
    q = quantile([moved for *_, moved in numbers.values() if np.linalg.norm(moved) > 0], 0.96)
    low, high, p, need = {}, {}, {}, []
    for j in range(3):
        for name in chosen:
            _, u, row = numbers[name, j]
            size = np.linalg.norm(row)
            a, b = ends(u, row, q) if size else (u, u)
            low[name, j], high[name, j] = min(a, a * (N - 1) / N), max(b, b * (N - 1) / N)
            p[name, j] = p_value(u - margin * gain, size, N, np.sum((row / size) ** 3) if size else 0.0)
    p = np.array([max(p[name, j] for name in chosen) for j in range(3)])
    order, holm, before = np.argsort(p), np.empty(3), 0.0
    for place, j in enumerate(order):
        holm[j] = before = max(before, min(1.0, p[j] * (3 - place)))
    for j in range(3):
        lows, highs = [low[name, j] for name in chosen], [high[name, j] for name in chosen]
        if holm[j] <= 0.04:
            need.append("always")
        elif all(below := [b < margin * gain or a == b <= margin * gain for a, b in zip(lows, highs, strict=True)]):
            need.append("never")
        else:
            sure = max(lows) > margin * gain and any(below)
            need.append("sometimes" if sure else "can't tell")
    spans = [(min(low[name, j] for name in chosen), max(high[name, j] for name in chosen)) for j in range(3)]
    return chosen, np.array(spans).T, holm, need, gain


@pytest.mark.parametrize(("within", "margin"), [(0.0, 0.02), (0.01, 0.1), (0.6, 0.02), (0.95, 0.3), (0.6, 0.0)])
def test_the_procedure_by_brute_force(within, margin):
    found = good(within=within, margin=margin)
    chosen, ends, holm, need, gain = by_hand(within, margin)
    assert found.good == tuple(chosen)
    assert found.gain == pytest.approx(gain)
    np.testing.assert_allclose(found.interval(), ends, rtol=0.03, atol=0.03)  # quantiles from other draws
    assert list(found.need.values()) == need
    tested = found.test()
    np.testing.assert_allclose(sorted(holm), tested["p_adjusted"], atol=1e-12)


def test_wider_tolerance_keeps_more_models_and_wider_ranges():
    counts = [len(good(within=within).good) for within in (0.0, 0.2, 0.6, 0.99)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    low, high = good(within=0.0).interval()
    wide_low, wide_high = good(within=0.99).interval()
    assert np.all(wide_low <= low + 1e-12)
    assert np.all(wide_high >= high - 1e-12)
    wider = good().interval(0.99)
    assert np.all(wider[1] - wider[0] >= high - low)


def test_two_copies_are_needed_sometimes_and_their_block_always():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(300, 2))
    Z = np.column_stack([Z, Z[:, 0]])
    y = Z[:, 0] + 0.5 * Z[:, 1] + 0.3 * rng.normal(size=300)
    models = {"first": line([1, 0.5, 0]), "copy": line([0, 0.5, 1]), "half": line([0.5, 0.5, 0.5])}
    blocks = {"a": ["x0"], "b": ["x2"], "both": ["x0", "x2"]}
    found = good(models, Z, y, features=blocks)
    assert found.need == {"a": "sometimes", "b": "sometimes", "both": "always"}
    assert set(found.good) == set(models)
    one = found["a"]
    assert one.smallest == 0.0
    assert one.of_models["first"] == one.largest == pytest.approx(2 * Z[:, 0].var(), rel=0.3)


def test_noise_is_never_needed_and_one_model_class_says_less_than_one_model():
    found = good({"true": MODELS["true"], "near": line((0.95, 0.4, 0.0))})
    assert found.need["x2"] == "never"
    assert found.need["x0"] == "always"


def test_a_margin_of_nothing_is_for_models_without_the_feature():
    models = {"true": MODELS["true"], "near": line((0.95, 0.4, 0.0))}
    assert good(models, margin=0).need == {"x0": "always", "x1": "always", "x2": "never"}
    two = {"first": line((1.0, 0.4, 0.0)), "copy": line((0.0, 0.4, 1.0))}
    copies = np.column_stack([X[:, :2], X[:, 0]])
    assert good(two, copies, margin=0).need == {"x0": "sometimes", "x1": "always", "x2": "sometimes"}


def test_weights_and_groups_of_rows_count():
    weight = RNG.integers(1, 3, N)
    repeated = np.repeat(np.arange(N), weight)
    once, twice = good(sample_weight=weight), good(X=X[repeated], y=Y[repeated])
    np.testing.assert_allclose(once.importance[0], twice.importance[0], rtol=1e-9)  # V: integer weights repeat rows
    groups = np.arange(N) // 4
    assert good(groups=groups)._errors.units == pytest.approx(20)
    low, high = good(groups=groups).interval()
    assert np.all(low <= high)


# Models that are fitted here.


def test_candidates_of_a_search_are_fitted_again_on_the_rows_for_fits():
    with pytest.warns(Warning, match="fits failed"):
        search = GridSearchCV(Ridge(), {"alpha": [0.1, 10.0, -1.0]}, error_score=0.0, cv=3).fit(X, Y)
    found = good(search, X[40:], Y[40:], train=(X[:40], Y[:40]))
    assert found.names == ("alpha=0.1", "alpha=10.0")
    assert "alpha" in found.failed["alpha=-1.0"]
    assert "left out, because the fit failed: alpha=-1.0" in repr(found)
    again = good({f"alpha={a}": Ridge(a).fit(X[:40], Y[:40]) for a in (0.1, 10.0)}, X[40:], Y[40:])
    np.testing.assert_allclose(found.interval(), again.interval())


def test_bootstrap_fits_are_reproducible_and_judged_on_other_rows():
    one, two, other = (good((Ridge(), 3), random_state=seed, n_jobs=n) for seed, n in ((1, None), (1, 2), (2, None)))
    np.testing.assert_array_equal(one.importance, two.importance)
    assert not np.array_equal(one.importance, other.importance)
    assert one.n_fitted == 40
    assert one.comparison.importances["fit 1"]._first.sample.n == 40
    assert "40 other rows" in repr(one)
    groups = np.arange(N) // 8
    whole = good((Ridge(), 3), groups=groups)
    assert whole.comparison.importances["fit 1"]._first.sample.n == 40


def test_a_bootstrap_fit_without_a_rare_class_is_named_and_left_out():
    y = np.where(Y > 0, "up", "down")
    half = np.random.default_rng([0, 1]).permutation(N) % 2 == 0
    y[[np.flatnonzero(half)[0], np.flatnonzero(~half)[0]]] = "rare"  # a third of the fits draw none
    found = ll.good_models((LogisticRegression(), 12), X, y, random_state=0, progress=False)
    lacking = []
    for k in range(12):
        drawn = np.random.default_rng([0, k]).integers(0, 40, 40)
        if "rare" not in y[half][drawn]:
            lacking.append(f"fit {k + 1}")
    assert 0 < len(lacking) < 11
    assert list(found.failed) == lacking
    assert found.names == tuple(f"fit {k + 1}" for k in range(12) if f"fit {k + 1}" not in lacking)
    assert all("'rare'" in why for why in found.failed.values())


@pytest.mark.parametrize("models", [(Ridge(), 2), GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}).fit(X, Y)])
@pytest.mark.parametrize("name", ["y", "sample_weight", "groups"])
def test_rows_of_other_arguments_are_those_of_the_table(models, name):
    frame = pd.DataFrame(X, index=[f"row {i}" for i in range(N)])
    values = pd.Series({"y": Y, "sample_weight": np.ones(N), "groups": np.arange(N) // 2}[name], frame.index)
    good(models, frame, **{name: values})
    for wrong, words in ((values[::-1], "row labels of X in another order"), (values[:-1], "79 values, but X has 80")):
        for verb, first in ((good, models), (ll.feature_importance, MODELS["true"])):
            with pytest.raises(ValueError, match=f"{name} has .*{words}"):
                verb(first, frame, **({"y": Y, **QUIET} | {name: wrong}))


def test_no_model_is_lost_to_its_name():
    with pytest.raises(ValueError, match="equal as text"):
        good({1: MODELS["true"], "1": MODELS["near"]})

    class Line(Ridge):
        pass

    Line.__name__ = "Ridge 2"
    fitted = [kind(alpha).fit(X, Y) for alpha, kind in enumerate((Line, Ridge, Ridge, Ridge))]
    assert good(fitted).names == ("Ridge 2", "Ridge", "Ridge 3", "Ridge 4")


def test_losses_without_a_best_constant_are_refused_before_any_fit():
    class Unfitted(Ridge):
        def fit(self, X, y):
            raise AssertionError("fitted")

    for loss in (lambda y, f: (y - f) ** 2, "brier_survival"):
        with pytest.raises(ValueError, match=r"best constant, which the loss .* does not have"):
            good((Unfitted(), 2), loss=loss)


class Unfitted(Ridge):
    def fit(self, X, y):
        raise AssertionError("fitted")


@pytest.mark.parametrize(("change", "words"), [
    ({"y": Y[:-1]}, "y has 79 values, but X has 80"), ({"y": None}, "y, the true values, is missing"),
    ({"sample_weight": np.ones(79)}, "sample_weight has 79 values"), ({"sample_weight": -np.ones(80)}, "negative"),
    ({"groups": np.ones(80)}, "only one group"), ({"X": X[:, :2]}, "other columns than X: it has 'x2'"),
])  # fmt: skip
def test_rows_that_judge_are_checked_before_any_fit(change, words):
    with pytest.raises(ValueError, match=words):
        good(**({"models": (Unfitted(), 2), "train": (X, Y)} | change))


def test_a_half_that_judges_has_weight_before_any_fit():
    half = np.random.default_rng([0, 1]).permutation(N) % 2 == 0
    with pytest.raises(ValueError, match="above zero for at least two rows"):
        good((Unfitted(), 2), sample_weight=half.astype(float))


def test_a_plan_explains_a_candidate_that_has_every_class():
    """The first candidate is fitted without class 2, or fails: the call leaves it out, and so does the plan."""

    class TwoClasses(LogisticRegression):
        def __init__(self, kind="whole"):
            super().__init__()
            self.kind = kind

        def fit(self, X, y):
            if self.kind == "fails":
                raise RuntimeError("does not fit")
            some = y < 2 if self.kind == "lacking" else np.ones(len(y), bool)
            return super().fit(X[some], y[some])

    y = np.digitize(Y, np.quantile(Y, [0.4, 0.8]))
    search = GridSearchCV(TwoClasses(), {"kind": ["whole", "whole"]}).fit(X, y)
    search.cv_results_["params"] = [{"kind": kind} for kind in ("lacking", "fails", "whole", "whole")]
    found = ll.good_models(search, X, y, random_state=0, progress=False)
    assert list(found.failed) == ["kind=lacking", "kind=fails"]
    plan = ll.plan(ll.good_models, search, X, y, random_state=0)
    assert plan.fits == 4
    search.cv_results_["params"] = [{"kind": "lacking"}] * 2
    with pytest.raises(ValueError, match=r"no fit succeeds.*class 2"):
        ll.plan(ll.good_models, search, X, y, random_state=0)


def test_classifiers_frames_and_lists():
    y = np.where(Y > 0, "up", "down")
    models = [LogisticRegression(C=c).fit(X, y) for c in (0.1, 1.0)]
    found = ll.good_models(models, X, y, progress=False)
    assert found.names == ("LogisticRegression", "LogisticRegression 2")
    assert found.title == "log loss"
    frame = pl.DataFrame(X, schema=["a", "b", "c"])
    assert isinstance(good((Ridge(), 2), frame, Y).to_frame(), pl.DataFrame)
    table, groups = pd.DataFrame(X, columns=list("abc")), pd.Series(np.arange(N) // 2)
    pandas = good((Ridge(), 2), table, pd.Series(Y), groups=groups)
    assert pandas.features == ("a", "b", "c")


def test_plans_count_fits_and_predictions():
    plan = ll.plan(ll.good_models, MODELS, X, Y, loss="squared_error")
    assert plan.n_predictions == ll.plan(ll.compare, MODELS, X, Y, loss="squared_error", shapley=False).n_predictions
    fits = ll.plan(ll.good_models, (Ridge(), 5), X, Y, random_state=0)
    assert fits.fits == 5
    assert fits.n_predictions > 0


def test_it_is_saved_and_loaded(tmp_path):
    found = good()
    found.save(tmp_path / "good")
    loaded = ll.load(tmp_path / "good")
    assert isinstance(loaded, GoodModels)
    assert repr(loaded) == repr(found)
    pd.testing.assert_frame_equal(loaded.to_frame(), found.to_frame())
    assert repr(loaded["x0"]) == repr(found["x0"])


def test_the_picture_marks_the_best_and_every_good_model():
    found = good(within=0.6)
    ax = found.plot()
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        f"{name} ({found.need[name]})" for name in found.to_frame()["feature"]
    ]
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert f"the best: {found.best}" in legend
    dots = [points for points in ax.collections if len(points.get_offsets()) == 3]
    top = list(found.features).index(found.to_frame()["feature"][0])
    assert sorted(points.get_offsets()[0][0] for points in dots) == pytest.approx(sorted(found.importance[:, top]))


@pytest.mark.parametrize(("change", "words"), [
    ({"within": 1.0}, "within is a share"), ({"within": True}, "within is a share"), ({"margin": -0.1}, "margin is"),
    ({"models": "ridge"}, "a mapping"), ({"models": Ridge()}, "a mapping"),
    ({"models": {"one": MODELS["true"]}}, "two models"),
    ({"models": []}, "there is none"), ({"models": (Ridge(), 1)}, "2 or more"),
    ({"models": GridSearchCV(Ridge(), {"alpha": [1.0]})}, "fit the search first"),
    ({"train": (X, Y)}, "leave it out for fitted models"), ({"models": (Ridge(), 2), "train": X}, "train is a pair"),
    ({"loss": "r2"}, "a score does not have: name another loss"), ({"X": {"a": X, "b": X}}, "several sets of rows"),
    ({"models": (Ridge(alpha=-1), 2)}, "the fit of 'fit 1' failed"),
    ({"models": {"bad": line([9, 9, 9]), "worse": line([8, 9, 9])}}, "no model predicts better"),
    ({"models": (Ridge(), 2), "X": X[:4], "y": Y[:4]}, "too few"),
])  # fmt: skip
def test_what_cannot_be_asked(change, words):
    with pytest.raises((ValueError, TypeError), match=words):
        good(**change)


def test_student_is_the_limit_of_one_number():
    """With one error the largest of all is its own: the quantile of Student's t."""
    from losslens.uncertainty.inference import largest_error

    influence = ll.feature_importance(MODELS["true"], X, Y, features=["x0"], **QUIET)["x0"].influence
    assert largest_error([influence], 10, 0.95) == pytest.approx(student.ppf(0.975, 10), rel=0.05)
    assert largest_error([influence] * 3, 10, 0.95) == pytest.approx(student.ppf(0.975, 10), rel=0.05)  # dependent
