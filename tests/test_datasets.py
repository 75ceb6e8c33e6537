import sys

import numpy as np
import pandas as pd
import pytest

from losslens.datasets import load_bikeshare, load_boston

LOADERS = [load_bikeshare, load_boston]


def test_bikeshare_has_its_features_and_no_part_of_its_target():
    X, y = load_bikeshare()
    assert list(X.columns) == [
        "season", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit",
        "temp", "atemp", "hum", "windspeed",
    ]  # fmt: skip
    assert X.shape == (8645, 11)
    assert y.shape == (8645,)
    assert y.sum() == 1_243_103  # casual + registered, all hours
    assert not X.isna().any(axis=None)


def test_bikeshare_hour_is_an_integer():
    X, _ = load_bikeshare()
    assert pd.api.types.is_integer_dtype(X["hr"])
    assert sorted(X["hr"].unique()) == list(range(24))


def test_bikeshare_months_follow_the_calendar_and_weather_its_severity():
    X, _ = load_bikeshare()
    months, weather = X["mnth"].cat, X["weathersit"].cat
    assert months.ordered
    assert weather.ordered
    assert (months.categories[0], months.categories[-1]) == ("Jan", "Dec")
    # The file runs through the year, so the codes of its months never fall.
    assert (np.diff(months.codes) >= 0).all()
    # One hour alone has heavy rain; it is the last and most severe level.
    assert (weather.codes == 3).sum() == 1
    assert weather.categories[3] == "heavy rain/snow"


def test_boston_is_the_data_of_the_paper():
    X, y = load_boston()
    assert X.shape == (506, 13)
    assert "MEDV" not in X
    assert y.mean() == pytest.approx(22.5328, abs=1e-4)


@pytest.mark.parametrize("load", LOADERS)
def test_target_is_an_array_and_calls_share_nothing(load):
    X, y = load()
    assert isinstance(y, np.ndarray)
    assert y.dtype == np.float64
    X.iloc[:, -1] = -1.0
    y[:] = -1.0
    again_X, again_y = load()
    assert (again_X.iloc[:, -1] >= 0).all()
    assert (again_y >= 0).all()


@pytest.mark.parametrize("load", LOADERS)
def test_without_pandas_the_error_says_what_to_install(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # None makes `import pandas` fail
    with pytest.raises(ImportError, match=r'pip install "losslens\[demo\]"'):
        load()
