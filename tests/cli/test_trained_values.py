"""What models were fitted on, and that a CSV file gives them that: their own predictions for the true table."""

import json
import warnings
from functools import partial

import joblib
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, VotingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from typer.testing import CliRunner

import losslens as ll
from losslens.cli import app
from losslens.cli.tables import kinds_for, read_table, rows_for
from losslens.cli.trained_values import categories_of, kinds_of
from losslens.engines.readers.boosters import counts_bytes
from losslens.models import as_model
from tree_walks import XGBOOST_3_1

WORDS = ["region", "zip", "code", "city"]
SAVES_CATEGORIES = pytest.mark.skipif(not XGBOOST_3_1, reason="earlier releases save no categories")


def make_table(n=240):
    """Text that looks like missing values and numbers; a number that looks like text."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "region": rng.choice(["NA", "EU", "None", "null"], n),
        "zip": rng.choice(["01234", "01299", "81234"], n),
        "code": rng.choice(["1", "2", "3"], n),
        "city": rng.choice(["Zurich", "Geneva", "Bern"], n),
        "month": rng.integers(1, 13, n),
        "age": rng.normal(40, 10, n).round(1),
    })  # fmt: skip
    levels = {"region": {"NA": 4.0}, "zip": {"01234": 3.0}, "code": {"2": 2.0}, "city": {"Geneva": 3.0}}
    y = sum(table[name].map(level).fillna(0.0) for name, level in levels.items())
    return table.assign(y=y + table["month"] / 4 + table["age"] / 10)


TABLE = make_table()
X, Y = TABLE.drop(columns="y"), TABLE["y"]
CATEGORIES = X.astype(dict.fromkeys(WORDS, "category"))


def encoded(model):
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    columns = make_column_transformer((words, WORDS), (StandardScaler(), ["age"]), remainder="passthrough")
    return make_pipeline(columns, model)


def _models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield "pipeline", encoded(LinearRegression()).fit(X, Y)
        yield "search", GridSearchCV(encoded(LinearRegression()), {}, cv=2).fit(X, Y)
        yield "target", TransformedTargetRegressor(encoded(LinearRegression())).fit(X, Y)
        yield "vote", VotingRegressor([("a", encoded(LinearRegression()))]).fit(X, Y)
        histogram = HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=20)
        yield "histogram", histogram.fit(CATEGORIES, Y)
        yield "lightgbm", lightgbm.LGBMRegressor(verbose=-1, n_estimators=20).fit(CATEGORIES, Y)
        yield "booster", lightgbm.train({"verbose": -1}, lightgbm.Dataset(CATEGORIES, Y), 20)
        if XGBOOST_3_1:
            forest = xgboost.XGBRegressor(enable_categorical=True, n_estimators=20).fit(CATEGORIES, Y)
            yield "xgboost", forest
            yield "xgboost booster", forest.get_booster()


MODELS = dict(_models())


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    TABLE.assign(month=[f"{month:02d}" for month in TABLE["month"]]).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", MODELS)
def test_models_predict_from_a_csv_file_what_they_predict_for_the_true_table(path, name):
    model = MODELS[name]
    table = read_table(str(path), kinds=partial(kinds_for, [model], target="y"))
    rows = rows_for([model], table, target="y")
    assert rows.notes == ()
    assert rows.X["month"].dtype.kind == "i"
    predict = as_model(model).responder("values")
    assert np.array_equal(predict(rows.X), predict(CATEGORIES))
    if name not in ("pipeline", "search", "target", "vote", "histogram"):
        for word in WORDS:
            assert list(rows.X[word].cat.categories) == list(CATEGORIES[word].cat.categories)


def test_importances_from_a_csv_file_are_those_of_the_true_table(path, tmp_path):
    model = MODELS["pipeline"]
    joblib.dump(model, tmp_path / "model.joblib")
    arguments = ["importance", tmp_path / "model.joblib", path, "--target", "y", "--trust", "--json"]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert "missing" not in result.stderr
    printed = {row["feature"]: row["importance"] for row in json.loads(result.stdout)["result"]}
    predicted, region = model.predict(X), X["region"].to_numpy()
    replaced = [model.predict(X.assign(region=value)) for value in region]  # brute force over all pairs
    grown = np.square(Y.to_numpy() - replaced) - np.square(Y.to_numpy() - predicted)
    assert printed["region"] == pytest.approx(grown.mean(), rel=1e-9)
    expected = ll.feature_importance(model, X, Y)
    assert printed == pytest.approx({one: expected[one].pfi for one in X})


def kinds(model, columns=X, words=WORDS):
    return kinds_of(model, list(columns), words)


def test_encoders_and_estimators_say_what_they_were_fitted_on():
    numbers = X[["month", "age"]]
    mixed = X.assign(code=X["code"].astype(int))
    text, number = dict.fromkeys(WORDS, "text"), {"month": "number", "age": "number"}
    assert kinds(MODELS["pipeline"]) == kinds(MODELS["vote"]) == kinds(MODELS["histogram"]) == text | number
    assert kinds(OrdinalEncoder().fit(mixed[["code", "zip"]]), ["code", "zip"]) == {"code": "number", "zip": "text"}
    assert kinds(RandomForestRegressor(n_estimators=2).fit(numbers, Y), numbers) == number
    classes = CalibratedClassifierCV(LogisticRegression(), cv=2).fit(numbers, Y > 8)
    assert kinds(classes, numbers) == number
    truth = X.assign(code=X["code"] == "1")
    assert kinds(OrdinalEncoder().fit(truth[["code"]]), ["code"]) == {}  # as it looks: True and False
    own = make_pipeline(FunctionTransformer(lambda table: table[["age"]]), LinearRegression()).fit(X, Y)
    assert kinds(own) == {}  # whatever the function does
    assert kinds(lambda table: table["age"]) == {}


def test_each_part_of_a_column_transformer_gets_its_own_columns():
    by_type = make_column_transformer(
        (OneHotEncoder(), make_column_selector(dtype_include="category")),
        ("drop", [5]),
        ("passthrough", [4]),
    )
    model = make_pipeline(by_type, "passthrough", LinearRegression()).fit(CATEGORIES, Y)
    assert kinds(model) == dict.fromkeys(WORDS, "text") | {"month": "number"}
    union = FeatureUnion([("a", OneHotEncoder()), ("b", "drop")])
    assert kinds(make_pipeline(union, LinearRegression()).fit(X[WORDS], Y), WORDS) == dict.fromkeys(WORDS, "text")
    array = make_column_transformer((OneHotEncoder(), [0]), remainder="passthrough")
    matrix = X[["region", "age"]].to_numpy(object)
    assert kinds(make_pipeline(array, LinearRegression()).fit(matrix, Y), ["p", "q"]) == {"p": "text", "q": "number"}


def test_lightgbm_says_which_columns_are_numbers_once_all_its_lists_are_taken():
    assert kinds(MODELS["booster"], words=[*WORDS, "month"]) == dict.fromkeys(WORDS, "text") | {
        "month": "number",
        "age": "number",
    }
    ordered = CATEGORIES.assign(zip=CATEGORIES["zip"].cat.as_ordered())
    model = lightgbm.train({"verbose": -1}, lightgbm.Dataset(ordered, Y), 5)
    assert kinds(model)["zip"] == "text"
    assert kinds(model, words=[*WORDS, "month"]) == {}  # the file does not say which of both the list belongs to


@SAVES_CATEGORIES
def test_numeric_categories_of_boosters_are_numbers(tmp_path):
    table = X.assign(code=X["code"].astype(int).astype("category"))[["code", "age"]]
    table.assign(y=Y, code=[f"0{code}" for code in table["code"]]).to_csv(tmp_path / "t.csv", index=False)
    for model in (
        xgboost.XGBRegressor(enable_categorical=True, n_estimators=5).fit(table, Y),
        lightgbm.LGBMRegressor(verbose=-1, n_estimators=5).fit(table, Y),
    ):
        read = read_table(
            str(tmp_path / "t.csv"), kinds=lambda table, model=model: kinds_for([model], table, target="y")
        )
        rows = rows_for([model], read, target="y")
        assert list(rows.X["code"].cat.categories) == [1, 2, 3]
        assert np.array_equal(model.predict(rows.X), model.predict(table))


def test_numbers_that_an_estimator_of_xgboost_takes_for_categories_stay_numbers():
    table = X[["month", "age"]].assign(y=Y)
    model = xgboost.XGBRegressor(n_estimators=5, feature_types=["c", "q"]).fit(table[["month", "age"]], Y)
    rows = rows_for([model], table, target="y")
    assert np.array_equal(model.predict(rows.X), model.predict(table[["month", "age"]]))


def test_models_that_are_not_fitted_say_nothing():
    for model in (encoded(LinearRegression()), GridSearchCV(LinearRegression(), {}), xgboost.XGBRegressor()):
        assert kinds(model) == {}
        assert categories_of(model, X) == {}


def test_a_step_whose_columns_were_made_by_others_says_nothing_about_them():
    behind = make_column_transformer((OrdinalEncoder(), WORDS), remainder="passthrough").set_output(transform="pandas")
    histogram = HistGradientBoostingRegressor(categorical_features=[0, 1], max_iter=2)
    model = make_pipeline(behind, histogram).fit(X, Y)
    assert kinds(model) == dict.fromkeys(WORDS, "text")


@SAVES_CATEGORIES
@pytest.mark.parametrize(
    "cities", [["Bern", "Genève", "Zürich"], ["bé", "z", "çç", "éabcdefghij"], ["Łódź", "Gdańsk", "Bielsko-Biała"]]
)
def test_xgboost_gets_its_categories_of_any_letters_where_it_saves_them(tmp_path, cities):
    """Before 3.4 it saves them incompletely, cut between other letters than it should: they are refused."""
    column = pd.Categorical(np.random.default_rng(1).choice(cities, 200), categories=cities)
    table = pd.DataFrame({"city": column, "size": np.linspace(0, 1, 200)})
    y = column.codes * 1.0 + table["size"]
    model = xgboost.XGBRegressor(enable_categorical=True, n_estimators=10).fit(table, y)
    table.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    model.save_model(tmp_path / "m.ubj")
    booster = xgboost.Booster(model_file=tmp_path / "m.ubj")
    if not counts_bytes():
        with pytest.raises(ValueError, match="'city' is a category to the model, whose file does not list the values"):
            rows_for([booster], read_table(str(tmp_path / "t.csv")), target="y")
        return
    rows = rows_for([booster], read_table(str(tmp_path / "t.csv")), target="y")
    assert list(rows.X["city"].cat.categories) == cities
    assert np.array_equal(as_model(booster).responder("values")(rows.X), model.predict(table))
    arguments = ["importance", "m.ubj", "t.csv", "--target", "y", "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        printed = json.loads(CliRunner().invoke(app, arguments).stdout)["result"]
    expected = ll.feature_importance(model, table, y)
    assert {row["feature"]: row["importance"] for row in printed} == pytest.approx(
        {name: expected[name].pfi for name in table}, rel=1e-5
    )
