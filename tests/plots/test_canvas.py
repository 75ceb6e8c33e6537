"""What all plots share."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import losslens as ll

X = np.random.default_rng(0).normal(size=(20, 2))


def drawn():
    imp = ll.feature_importance(lambda X: X[:, 0] * X[:, 1], X, X[:, 0], loss="squared_error")
    shap = ll.shapley_importance(lambda X: X[:, 0] * X[:, 1], X, X[:, 0], loss="squared_error")
    return [imp, imp["x0"], imp["x0"].effect, shap, shap.interactions, shap.curve("x0"), shap.rank_rows()]


@pytest.mark.parametrize("result", drawn(), ids=lambda result: type(result).__name__)
def test_axes_are_one_plain_axes(result):
    for odd in ("x", 3, [], plt.subplots(2)[1], plt.figure()):
        with pytest.raises(TypeError, match="ax must be one matplotlib Axes"):
            result.plot(ax=odd)
    with pytest.raises(ValueError, match="ax must be axes at right angles; got polar"):
        result.plot(ax=plt.figure().add_subplot(projection="polar"))
