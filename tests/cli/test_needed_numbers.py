"""Text in columns of numbers is told with what to do, before a model fails on it."""

import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from losslens.cli.tables import rows_for

TABLE = pd.DataFrame({"age": ["31", "NA", "40", "?", "NA"], "b": [1.0, 2, 3, 4, 5], "y": [1.0, 2, 3, 4, 5]})
TOLD = (
    "column 'age' must hold numbers, but 3 of its values are text: 'NA', '?'; if they stand for missing values, read "
    "the CSV file with --missing 'NA,?'"
)


def message(model, table=TABLE, **options):
    with pytest.raises(ValueError, match=r"^column ") as error:
        rows_for([model], table, **({"target": "y"} | options))
    return str(error.value)


def fitted(**columns):
    numbers = pd.DataFrame({"age": range(5), "b": range(5)}).assign(**columns)
    return LinearRegression().fit(numbers, TABLE["y"])


def test_words_among_numbers_are_told_with_the_option_that_makes_them_missing():
    assert message(fitted()) == TOLD
    one = TABLE.assign(age=["31", "NA", "40", "2", "1"])
    assert message(fitted(), one).startswith("column 'age' must hold numbers, but 1 of its values is text: 'NA'; if")
    words = TABLE.assign(age=list("abcde"))
    assert message(fitted(), words).startswith("column 'age' must hold numbers, but it holds text: 'a', 'b',")
    comma = TABLE.assign(age=["1", "2", "3", "4", "none, yet"])
    assert message(fitted(), comma).endswith("""--missing '"none, yet"'""")


def test_many_different_words_are_hardly_missing_values():
    many = pd.concat([TABLE, TABLE.assign(age=list("abcde"))])
    told = message(fitted(), many)
    assert told.endswith("but 8 of its values are text, such as 'NA', '?', 'a', 'b', 'c'")


def test_a_model_that_says_nothing_gets_the_text():
    assert list(rows_for([lambda X: X["age"].str.len()], TABLE, target="y").X["age"]) == list(TABLE["age"])


def test_categories_that_are_numbers_and_words_are_no_mistake():
    encoder = make_column_transformer((OneHotEncoder(), ["age"]), remainder="passthrough")
    model = make_pipeline(encoder, LinearRegression()).fit(TABLE[["age", "b"]], TABLE["y"])
    assert list(rows_for([model], TABLE, target="y").X["age"]) == list(TABLE["age"])


def test_the_target_and_weights_must_hold_numbers_too():
    model = LinearRegression().fit(TABLE[["b"]], TABLE["y"])
    end = "of its values are text: 'NA', '?'; leave these rows out"
    assert message(model, target="age").endswith(end)
    assert message(model, weight="age").endswith(end)
    classes = LogisticRegression().fit(TABLE[["b"]], [0, 0, 0, 1, 1])
    assert message(classes, target="age").endswith(end)
    labels = LogisticRegression().fit(TABLE[["b"]], TABLE["age"])
    assert list(rows_for([labels], TABLE, target="age").y) == list(TABLE["age"])
