"""The bundled data sets: Bikeshare for examples, Boston housing to reproduce the paper."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


MONTHS = ["Jan", "Feb", "March", "April", "May", "June", "July", "Aug", "Sept", "Oct", "Nov", "Dec"]
WEATHER = ["clear", "cloudy/misty", "light rain/snow", "heavy rain/snow"]


def load_bikeshare() -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Hourly bike hires in Washington DC, 2011: 8,645 rows, 11 features.

    The hour of the day matters on every day, but differently on working days: commuters have two rush hours.

    Returns
    -------
    X : pandas.DataFrame
        Columns season, mnth, hr, holiday, weekday, workingday, weathersit, temp, atemp, hum, windspeed.
        mnth and weathersit are ordered categories (calendar, severity).
    y : numpy.ndarray
        Bikes hired in that hour.

    Notes
    -----
    H. Fanaee-T and J. Gama, "Bike Sharing", UCI Machine Learning Repository, 2013, CC BY 4.0,
    doi:10.24432/C5W894.

    Left out are `casual` and `registered`, which add up to the target, and `day`, the day of the year: after
    a random split a model could infer the level of a test hour from the training hours of the same day.

    Examples
    --------
    >>> X, y = load_bikeshare()
    >>> X.shape, y.shape
    ((8645, 11), (8645,))
    """
    table = _read("bikeshare.csv.gz")
    y = table["bikers"].to_numpy(dtype=np.float64, copy=True)
    X = table.drop(columns=["day", "casual", "registered", "bikers"])
    X["mnth"] = _ordered(X["mnth"], MONTHS)
    X["weathersit"] = _ordered(X["weathersit"], WEATHER)
    return X, y


def bikeshare_hirers() -> pd.DataFrame:
    """Who hired the bikes of each row of `load_bikeshare`: casual and registered users, which add up to its y.

    Examples
    --------
    >>> hirers = bikeshare_hirers()
    >>> bool((hirers.sum(axis=1) == load_bikeshare()[1]).all())
    True
    """
    return _read("bikeshare.csv.gz")[["casual", "registered"]].astype(float)


def bikeshare_times() -> NDArray[np.datetime64]:
    """The hour of each row of `load_bikeshare`, in the order of time.

    Examples
    --------
    >>> bikeshare_times()[[0, -1]].astype(str).tolist()
    ['2011-01-01T00', '2011-12-31T23']
    """
    table = _read("bikeshare.csv.gz")
    days = np.datetime64("2011-01-01", "D") + (table["day"].to_numpy() - 1).astype("m8[D]")
    return np.asarray(days.astype("M8[h]") + table["hr"].to_numpy().astype("m8[h]"))


def load_boston() -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """House values around Boston, 1970: 506 rows, 13 features. Only to reproduce the 2018 paper.

    Its column B rests on the premise that racial segregation raises house prices, which is why scikit-learn
    removed the data set. Use another one for anything but the paper's example.

    Returns
    -------
    X : pandas.DataFrame
        CRIM, ZN, INDUS, CHAS, NOX, RM, AGE, DIS, RAD, TAX, PTRATIO, B, LSTAT.
    y : numpy.ndarray
        MEDV, the median house value of the tract in 1,000 dollars.

    Notes
    -----
    D. Harrison and D. L. Rubinfeld, "Hedonic housing prices and the demand for clean air", 1978.

    Examples
    --------
    >>> X, y = load_boston()
    >>> X.shape, float(y.max())
    ((506, 13), 50.0)
    """
    table = _read("boston.csv")
    return table.drop(columns="MEDV"), table["MEDV"].to_numpy(dtype=np.float64, copy=True)


def _read(name: str) -> pd.DataFrame:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError('the data sets need pandas: pip install "losslens[demo]"') from error
    with resources.as_file(resources.files("losslens") / "data" / name) as path:
        return pd.read_csv(path)


def _ordered(column: pd.Series[str], levels: list[str]) -> pd.Series[Any]:
    import pandas as pd

    # All levels, also those without rows: train and test data then have the same type.
    return column.astype(pd.CategoricalDtype(levels, ordered=True))
