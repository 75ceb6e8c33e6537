"""`losslens.sklearn`'s displays: as scikit-learn's, and drawn by the plots of results."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.metrics import make_scorer, max_error

import losslens as ll
from losslens.sklearn import PartialImportanceDisplay, PermutationImportanceDisplay

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(80, 4)), columns=["a", "b", "c", "d"])
Y = X["b"].to_numpy() - 0.3 * X["c"].to_numpy() + 0.1 * RNG.normal(size=80)
MODEL = LinearRegression().fit(X, Y)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def names(display):
    return [label.get_text() for label in display.ax_.get_yticklabels()]


@pytest.mark.parametrize(
    "scoring", [None, "r2", "squared_error", make_scorer(max_error, greater_is_better=False), max_error]
)
def test_importances_of_an_estimator_are_drawn(scoring):
    if scoring is max_error:
        scoring = lambda estimator, X, y: -max_error(y, estimator.predict(X))  # noqa: E731
    display = PermutationImportanceDisplay.from_estimator(MODEL, X, Y, scoring=scoring, random_state=0, top=3)
    assert names(display)[0].startswith("b")
    assert display.figure_ is display.ax_.figure
    assert display.importances["b"].pfi > display.importances["a"].pfi


def test_importances_are_drawn_where_they_should_be():
    figure, (left, right) = plt.subplots(1, 2)
    imp = ll.feature_importance(MODEL, X, Y)
    display = PermutationImportanceDisplay.from_importances(imp, ax=left)
    assert display.ax_ is left
    assert display.plot(right, sort="name") is display
    assert (display.ax_, display.figure_) == (right, figure)
    assert names(display) == ["a", "b", "c", "d"]


def test_curves_of_several_features_have_a_panel_each():
    display = PartialImportanceDisplay.from_estimator(MODEL, X, Y, ["b", "c", "a", "d"])
    assert [ax.get_xlabel() for ax in display.axes_] == ["b", "c", "a", "d"]
    assert len(display.figure_.axes) == 6  # two rows of three, two of them empty
    assert not display.figure_.axes[-1].get_visible()
    single = PartialImportanceDisplay.from_importances(ll.feature_importance(MODEL, X, Y), 1)
    assert single.axes_[0].get_xlabel() == "b"
    assert len(PartialImportanceDisplay.from_importances(display.importances, ax=plt.subplots(2, 2)[1]).axes_) == 4


def test_a_score_of_all_rows_has_a_curve():
    forest = RandomForestClassifier(10, random_state=0).fit(X, Y > 0)
    display = PartialImportanceDisplay.from_estimator(forest, X, Y > 0, "b", scoring="roc_auc")
    assert display.axes_[0].get_xlabel() == "b"


def test_bad_arguments_are_named():
    imp = ll.feature_importance(MODEL, X, Y)
    with pytest.raises(TypeError, match=r"pass the result of losslens\.feature_importance; got Bunch|got dict"):
        PermutationImportanceDisplay({})
    with pytest.raises(ValueError, match="importances are of one score"):
        PermutationImportanceDisplay.from_estimator(MODEL, X, Y, scoring=["r2", "max_error"])
    with pytest.raises(ValueError, match="ax has 2 axes for 4 features: pass one for each"):
        PartialImportanceDisplay.from_importances(imp, ax=plt.subplots(1, 2)[1])
    with pytest.raises(KeyError, match="unknown feature 'z'"):
        PartialImportanceDisplay.from_importances(imp, "z")
    with pytest.raises(ValueError, match="nothing to draw"):
        PartialImportanceDisplay(imp, [])
