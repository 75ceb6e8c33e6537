"""Arguments as new users write them: columns by name, arrays of named columns, texts, words of other libraries.

What is named must give what is passed; and a mistake is answered by a sentence, below few of the library's own calls.
"""

import inspect
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union

import losslens as ll
from losslens.verbs.running import ELSEWHERE

RNG = np.random.default_rng(0)
N = 60
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["age", "pay", "size"])
X["sex"] = RNG.integers(0, 2, N)
Y = X["age"] * X["pay"] + X["sex"]
SITE, WEIGHT = np.arange(N) % 12, RNG.uniform(1, 2, N)
DATA = X.assign(price=Y, site=SITE, weight=WEIGHT)
MODEL = GradientBoostingRegressor(n_estimators=10, random_state=0).fit(X, Y)
LINE = LinearRegression().fit(X.to_numpy(), Y)
SPECIES = np.array(["Adelie", "Chinstrap", "Gentoo"])[RNG.integers(0, 3, N)]
BIRDS = LogisticRegression().fit(X, SPECIES)
KINDS = {"pandas": lambda data: data, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}


def same(one, two):
    assert list(one) == list(two)
    for name in one:
        assert one[name].pfi == pytest.approx(two[name].pfi, rel=1e-12, abs=1e-15)
        assert one[name].std_error == pytest.approx(two[name].std_error, rel=1e-9, abs=1e-15)


# -- columns by name --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_named_columns_are_as_passed(kind):
    named = ll.feature_importance(MODEL, KINDS[kind](DATA), "price", groups="site", sample_weight="weight")
    same(named, ll.feature_importance(MODEL, X, Y, groups=SITE, sample_weight=WEIGHT))


def test_columns_of_arrays_are_named_by_their_positions():
    array = DATA.to_numpy()
    named = ll.feature_importance(LINE, array, "x4", groups="x5", sample_weight="x6")
    same(named, ll.feature_importance(LINE, X.to_numpy(), Y, groups=SITE, sample_weight=WEIGHT))


@pytest.mark.filterwarnings("ignore:.*groups")
def test_a_column_that_the_model_was_fitted_on_stays():
    named, passed = (ll.feature_importance(MODEL, X, Y, groups=groups) for groups in ("sex", X["sex"]))
    assert {name: one.pfi for name, one in named.items()} == {name: one.pfi for name, one in passed.items()}


def test_a_target_that_the_model_was_fitted_on_stays_with_a_warning():
    data = X.assign(price=Y)
    leaked = LinearRegression().fit(data, Y)
    with pytest.warns(UserWarning, match="its column 'price' equals y"):
        assert "price" in ll.feature_importance(leaked, data, "price")


CALLS = {
    "feature_importance": lambda *rows, **named: ll.feature_importance(MODEL, *rows, **named).local,
    "scores": lambda *rows, **named: ll.feature_importance(MODEL, *rows, loss="r2", **named)["age"].pfi,
    "shapley_importance": lambda *rows, **named: ll.shapley_importance(MODEL, *rows, **named).sfimp,
    "weak_segments": lambda *rows, **named: ll.weak_segments(MODEL, *rows, **named).error,
    "pair_interactions": lambda *rows, **named: ll.pair_interactions(MODEL, *rows, **named)["age", "pay"],
    "compare": lambda *rows, **named: ll.compare(
        {"a": MODEL, "b": MODEL}, *rows, shapley=False, **named
    ).importances["b"].local,
    "cv": lambda *rows, **named: ll.feature_importance_cv(MODEL, *rows, cv=3, random_state=0, **named).importance,
    "loco": lambda *rows, **named: ll.leave_one_covariate_out(MODEL, *rows, cv=3, random_state=0, **named).importance,
    "plan": lambda *rows, **named: ll.plan(ll.feature_importance, MODEL, *rows, **named).n_predictions,
}  # fmt: skip


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.filterwarnings("ignore:.*groups")
def test_every_verb_takes_names(verb):
    named, passed = {"groups": "site", "sample_weight": "weight"}, {"groups": SITE, "sample_weight": WEIGHT}
    if verb == "shapley_importance":
        named, passed = {"sample_weight": "weight"}, {"sample_weight": WEIGHT}
    data = DATA if "groups" in named else DATA.drop(columns="site")
    np.testing.assert_allclose(CALLS[verb](data, "price", **named), CALLS[verb](X, Y, **passed), rtol=1e-9)


def test_several_sets_of_rows_name_the_same_columns():
    rows = {"early": DATA[:30], "late": DATA[30:]}
    found = ll.compare(MODEL, rows, "price", sample_weight="weight", groups="site", shapley=False)
    late = ll.feature_importance(MODEL, X[30:], Y[30:], sample_weight=WEIGHT[30:], groups=SITE[30:])
    assert found.importances["late"]["age"].pfi == pytest.approx(late["age"].pfi, rel=1e-12)


@pytest.mark.parametrize("role", ["y", "groups", "sample_weight"])
def test_an_unknown_name_is_said(role):
    arguments = {"y": Y} | {role: "prize"}
    with pytest.raises(ValueError, match=f"{role}='prize' is no column of X: .* did you mean 'price'"):
        ll.feature_importance(MODEL, DATA, **arguments)


def test_groups_are_named_in_files(tmp_path):
    DATA.to_parquet(tmp_path / "rows.parquet")
    named = ll.feature_importance(MODEL, tmp_path / "rows.parquet", "price", groups="site", sample_weight="weight")
    same(named, ll.feature_importance(MODEL, X, Y, groups=SITE, sample_weight=WEIGHT))
    with pytest.raises(ValueError, match="groups='place' is no column of X"):
        ll.feature_importance(MODEL, tmp_path / "rows.parquet", "price", groups="place")


# -- results ----------------------------------------------------------------------------------------------------

RESULTS = {
    "importances": lambda: ll.feature_importance(MODEL, X, Y),
    "one": lambda: ll.feature_importance(MODEL, X, Y)["sex"],
    "effects": lambda: ll.feature_effect(MODEL, X),
    "shapley": lambda: ll.shapley_importance(MODEL, X, Y, method="rows"),
    "shapley_effect": lambda: ll.shapley_effect(MODEL, X, np.arange(20, 50)),
    "some rows": lambda: ll.feature_importance(MODEL, X, Y).given(np.arange(20, 50)),
    "sampled": lambda: ll.feature_importance(MODEL, X, Y, donors=ll.Latin(5), random_state=0),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_a_result_groups_by_a_column_it_explained(kind):
    result, rows = RESULTS[kind](), slice(20, 50) if kind in ("shapley_effect", "some rows") else slice(None)
    named, passed = result.by("sex"), result.by(X["sex"][rows])
    assert named.name == "sex"
    assert list(named) == list(passed) == [0, 1]
    np.testing.assert_array_equal(named.codes, passed.codes)


def test_a_result_says_which_columns_it_holds():
    imp = ll.feature_importance(MODEL, X, Y, features=["age", "pay"])
    with pytest.raises(ValueError, match=r"holds no table, and not the values of 'sex' .*: pass groups=X\['sex'\]"):
        imp.by("sex")
    with pytest.raises(ValueError, match=r"pass groups=X\['age'\]"):  # on a grid rows have no values of their own
        ll.feature_importance(MODEL, X, Y, donors=ll.Grid(5), random_state=0).by("age")
    with pytest.raises(ValueError, match=r"pass times=X\['when'\]"):
        imp.over("when")
    with pytest.raises(ValueError, match=r"pass groups=X\['sex'\]"):
        ll.feature_importance(MODEL, X, Y, loss="r2").by("sex")


def test_over_a_column_of_times():
    named, passed = (ll.feature_importance(MODEL, X, Y).over(times, bins=3) for times in ("age", X["age"]))
    np.testing.assert_array_equal(named.importance, passed.importance)


def test_a_report_by_a_column_or_its_name():
    reports = [ll.report(MODEL, X, Y, by=by, shapley=False, interactions=False).summary for by in ("sex", X["sex"])]
    assert [report["by"] for report in reports] == ["sex", "sex"]
    assert reports[0]["for_whom"] == reports[1]["for_whom"] is not None
    with pytest.raises(ValueError, match="by is called 'sex' like a column of X, but has other values"):
        ll.report(MODEL, X, Y, by=1 - X["sex"])


# -- arrays of named columns ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # said by scikit-learn
def test_an_array_has_the_names_that_the_model_was_fitted_with():
    arrays = ll.feature_importance(MODEL, X.to_numpy(), Y)
    same(arrays, ll.feature_importance(MODEL, X, Y))
    assert list(ll.feature_importance(MODEL, X.to_numpy(), Y, features=["pay", 0])) == ["pay", "age"]
    assert list(ll.feature_importance(LINE, X.to_numpy(), Y)) == ["x0", "x1", "x2", "x3"]
    np.testing.assert_array_equal(arrays.by("sex").codes, X["sex"])


def test_names_that_lightgbm_makes_up_are_none():
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(X.to_numpy(), Y)
    assert list(ll.feature_importance(model, X.to_numpy(), Y)) == ["x0", "x1", "x2", "x3"]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_regions_of_named_arrays_are_those_of_the_frame():
    """A rule on the feature's own column, which the array calls by another name, would be no region of others."""
    of_array, of_frame = (
        ll.feature_importance(MODEL, rows, Y).regions(rows, permutations=99) for rows in (X.to_numpy(), X)
    )
    assert [region.rule for region in of_array.of("age")] == [region.rule for region in of_frame.of("age")]


# -- texts --------------------------------------------------------------------------------------------------------

TEXTS = [f"{'good' if k % 3 else 'bad'} {'tea' if k % 2 else 'coffee'} {k % 5}?" for k in range(N)]
LIKED = np.arange(N) % 3 > 0
PIPELINE = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, LIKED)


def brute_force():
    """The mean over all pairs of log losses, of the text of row k for row i, less that of row i's own."""
    p = PIPELINE.predict_proba(TEXTS)[:, 1]
    loss = -np.where(LIKED[:, None], np.log(p), np.log(1 - p))  # (i, k)
    return loss.mean() - np.diag(loss).mean()


@pytest.mark.parametrize(
    "rows",
    [
        TEXTS, tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, object), pd.Series(TEXTS, name="review"),
        pd.Series(TEXTS), pl.Series(TEXTS), pd.DataFrame({"review": TEXTS}), pl.DataFrame({"review": TEXTS}),
        pa.table({"review": TEXTS}), np.array(TEXTS, object)[:, None],
    ],
    ids=["list", "tuple", "array", "objects", "series", "nameless", "polars", "frame", "polars frame", "arrow", "2d"],
)  # fmt: skip
def test_texts_are_a_column_of_a_table(rows):
    one = next(iter(ll.feature_importance(PIPELINE, rows, LIKED).values()))
    assert one.pfi == pytest.approx(brute_force(), rel=1e-9)
    assert one.name in ("text", "review", "x0")


@pytest.mark.parametrize("container", [list, np.array, lambda texts: pd.Series(texts, name="review")])
def test_texts_are_rows_to_explain_as_they_are_a_table(container):
    """All of a text is one feature: its effect is its prediction less the mean one."""
    found = ll.shapley_effect(PIPELINE, container(TEXTS), container([TEXTS[1], "good good"]))
    mean = PIPELINE.predict_proba(TEXTS)[:, 1].mean()
    expected = PIPELINE.predict_proba([TEXTS[1], "good good"])[:, 1] - mean
    np.testing.assert_allclose(found.local[:, 0], expected, atol=1e-12)


def test_texts_by_a_function_a_search_a_score_and_folds():
    by_function = ll.feature_importance(PIPELINE.predict_proba, TEXTS, LIKED, loss="log_loss")
    assert by_function["text"].pfi == pytest.approx(brute_force(), rel=1e-9)
    search = GridSearchCV(PIPELINE, {"logisticregression__C": [1.0]}, cv=2).fit(TEXTS, LIKED)
    assert ll.feature_importance(search, TEXTS, LIKED)["text"].pfi == pytest.approx(brute_force(), rel=1e-9)
    assert ll.feature_importance(PIPELINE, TEXTS, LIKED, loss="roc_auc")["text"].pfi > 0.3
    refits = ll.feature_importance_cv(PIPELINE, TEXTS, LIKED, cv=2, random_state=0)
    assert (refits.features, refits.importance[0] > 0) == (("text",), True)
    assert ll.feature_effect(PIPELINE, TEXTS)["text"].pd.max() > 0.5
    either = make_pipeline(make_union(TfidfVectorizer(), CountVectorizer()), LogisticRegression()).fit(TEXTS, LIKED)
    assert ll.feature_importance(either, pd.DataFrame({"review": TEXTS}), LIKED)["review"].pfi > 0.3
    models = {"one": PIPELINE, "function": PIPELINE.predict_proba}
    both = ll.compare(models, TEXTS, LIKED, loss="log_loss", shapley=False)
    assert [one["text"].pfi for one in both.importances.values()] == pytest.approx([brute_force()] * 2, rel=1e-9)


def test_a_table_beside_the_texts_is_refused_by_a_sentence():
    with pytest.raises(ValueError, match="the model reads one text a row, and X has 2 columns: pass that of the texts"):
        ll.feature_importance(PIPELINE, pd.DataFrame({"review": TEXTS, "stars": 1}), LIKED)


def test_texts_are_no_files_and_files_are():
    with pytest.raises(FileNotFoundError, match=r"there is no file part-0\.parquet"):
        ll.feature_importance(MODEL, ["part-0.parquet", "part-1.parquet"], "price")
    with pytest.raises(FileNotFoundError, match=r"no file matches part-\*"):
        ll.feature_importance(MODEL, ["part-*", "more-*"], "price")
    named = ll.feature_importance(PIPELINE, ["what is in a.parquet?", "five *stars*", *TEXTS[2:]], LIKED)
    assert list(named) == ["text"]


# -- words of other libraries ---------------------------------------------------------------------------------------

VERBS = [
    one for name in ll.__all__
    if inspect.isfunction(one := getattr(ll, name)) and name not in ("load", "time_blocks", "plan", "feature_groups")
]  # fmt: skip


@pytest.mark.parametrize("argument", ELSEWHERE)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_arguments_of_other_libraries_are_answered(verb, argument):
    with pytest.raises(TypeError, match=f"{verb.__name__} has no argument '{argument}': "):
        verb(MODEL, X, Y, **{argument: 1})
    with pytest.raises(TypeError, match=f"{verb.__name__} has no argument '{argument}': "):
        ll.plan(verb, MODEL, X, Y, **{argument: 1})


def test_scoring_leads_to_loss_and_repeats_to_none():
    with pytest.raises(TypeError, match="loss='roc_auc'"):
        ll.feature_importance(MODEL, X, Y, scoring="r2")
    with pytest.raises(TypeError, match="repeats aren't needed"):
        ll.feature_importance(MODEL, X, Y, n_repeats=10)


def test_other_unknown_arguments_are_python_s():
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        ll.feature_importance(MODEL, X, Y, colour="red")


# -- messages ---------------------------------------------------------------------------------------------------------


class Survival:
    """A model without predict, as lifelines has them."""

    def predict_expectation(self, X):
        """Expected times."""
        return np.asarray(X)[:, 0]

    def predict_survival_function(self, X):
        """Curves."""
        return np.asarray(X)


def gaps(table):
    """NaN where the first column is large."""
    values = np.asarray(table)[:, 0]
    return np.where(values > 0.5, np.nan, values)


def pairs_only(table):
    """NaN where two equal columns differ: for no row as it is."""
    values = np.asarray(table)
    return np.where(values[:, 0] == values[:, 1], values[:, 0], np.nan)


PLACES = X.assign(place=["north", "south", "west"] * (N // 3))
TWICE = np.column_stack([X["age"], X["age"]])
MISTAKES = {
    "predict_proba": (
        lambda: ll.feature_importance(LogisticRegression().fit(X, Y > 0).predict_proba, X, Y > 0),
        "loss must be named for predict_proba, a function: loss='log_loss', or pass the classifier itself",
    ),
    "rmse": (
        lambda: ll.feature_importance(MODEL, X, Y, loss="rmse"),
        "pass loss='squared_error', or did you mean its root, the score loss='neg_root_mean_squared_error'",
    ),
    "a class of effects": (
        lambda: ll.feature_effect(BIRDS, X),
        "target must be one of the classes .*, such as target='Gentoo'",
    ),
    "a class of shapley_effect": (
        lambda: ll.shapley_effect(BIRDS, X, [0]),
        "target must be one of the classes .*, such as target='Gentoo'",
    ),
    "one row": (lambda: ll.shapley_effect(MODEL, X, X.iloc[0]), r"X\.iloc\[\[0\]\], not X\.iloc\[0\]"),
    "a series": (lambda: ll.feature_effect(MODEL, X.iloc[0]), r"X\.iloc\[\[0\]\], not X\.iloc\[0\]"),
    "NaN": (
        lambda: ll.feature_importance(gaps, X, Y, loss="squared_error"),
        f"NaN or infinity for {(X['age'] > 0.5).sum()} of the {N} rows of X, first for row "
        f"{np.flatnonzero(X['age'] > 0.5)[0]}$",
    ),
    "NaN of others": (
        lambda: ll.feature_importance(pairs_only, TWICE, Y, loss="squared_error"),
        f"rows with values of other rows, though for none of the {N} rows of X",
    ),
    "text": (
        lambda: ll.feature_importance(lambda T: LINE.predict(T.to_numpy()[:, 1:]), PLACES, Y, loss="squared_error"),
        "column 'place' of X holds text, such as 'north', and the model takes numbers: explain a pipeline",
    ),
    "no predict": (
        lambda: ll.feature_importance(Survival(), X, Y),
        r"got Survival, which has predict_expectation, .* model=lambda X: model\.predict_expectation\(X\), and name",
    ),
    "a feature": (lambda: ll.feature_importance(MODEL, X, Y, features="agee"), "did you mean 'age'"),
    "y is short": (lambda: ll.feature_importance(MODEL, X, Y[:20]), "y has 20 values, but X has 60 rows"),
    "not fitted": (lambda: ll.feature_importance(LinearRegression(), X, Y), "not fitted"),
    "donors": (lambda: ll.shapley_importance(MODEL, X, Y, donors="some"), "donors is 'auto', 'all' or a design"),
    "a loss": (lambda: ll.feature_importance(MODEL, X, Y, loss=lambda y, p: 1.0), "returned one number"),
    "groups": (lambda: RESULTS["importances"]().by([1, 2]), "one label for each of 60 rows"),
    "a column": (lambda: RESULTS["importances"]().by("size of it"), "pass groups=X"),
    "times": (lambda: RESULTS["importances"]().over([1, 2]), "times has 2 values"),
    "another table": (lambda: RESULTS["importances"]().regions(X[:3]), "X has 3 rows"),
    "compared": (lambda: ll.compare({"a": MODEL, "b": MODEL}, X, Y[:3]), "'a': y has 3 values"),
    "planned": (lambda: ll.plan(ll.feature_importance, MODEL, X, Y, donors="some"), "donors is 'auto'"),
    "blocks": (lambda: ll.time_blocks(["noon", "one"]), "times"),
    "a name": (lambda: RESULTS["importances"]()["agee"], "did you mean 'age'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_below_three_calls_of_the_library(mistake):
    """Frames of the error and of its causes, as Python prints them; those of other libraries are not ours."""
    call, words = MISTAKES[mistake]
    with pytest.raises((ValueError, TypeError, KeyError), match=words) as raised:
        call()
    ours, error = 0, traceback.TracebackException.from_exception(raised.value)
    while error is not None:
        ours += sum("/src/losslens/" in frame.filename.replace("\\", "/") for frame in error.stack)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert 1 <= ours <= 3


def test_a_mistake_of_the_library_shows_every_call(monkeypatch):
    monkeypatch.setattr("losslens.verbs.features.prepare", lambda *_, **__: np.zeros(2) + np.zeros(3))
    with pytest.raises(ValueError, match="broadcast") as raised:
        ll.feature_effect(MODEL, X)
    assert "feature_effect" in [frame.name for frame in traceback.extract_tb(raised.tb)]
