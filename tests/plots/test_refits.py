"""Pictures of refits: bars, folds as dots, curves of every kind of column."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold

from losslens.plots.canvas import BAND, SINGLE
from pictures import caption, legend, looked_at, texts
from refits_by_hand import HALVES, ODD, X, Y, odd_pandas, refit, share


@pytest.mark.parametrize("verb", [refit, share])
def test_the_picture_has_a_bar_a_feature_and_a_dot_a_fold(verb):
    found = verb()
    ax = looked_at(found.plot())
    order = np.argsort(-found.importance)
    assert texts(ax.get_yticklabels()) == [found.features[j] for j in order]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], found.importance[order])
    dots = next(line for line in ax.lines if line.get_gid() == SINGLE)
    np.testing.assert_allclose(dots.get_xdata(), found.per_fold[:, order].ravel())
    np.testing.assert_array_equal(dots.get_ydata(), np.tile(np.arange(3), 3))
    low, high = found.interval()
    drawn = [path.vertices[:, 0] for some in ax.collections for path in some.get_paths()]
    np.testing.assert_allclose(drawn, np.stack([low, high], axis=1)[order])
    left, right = ax.get_xlim()
    assert left <= found.per_fold.min()
    assert right >= found.per_fold.max()
    assert "dots: 3 folds" in caption(ax)


def test_numbers_stand_right_of_every_dot():
    found = refit(cv=[*HALVES, *KFold(3).split(X)])
    ax = looked_at(found.plot())
    order = np.argsort(-found.importance)
    ends = np.maximum(found.interval()[1], found.per_fold.max(axis=0))[order]
    np.testing.assert_allclose([text.xy[0] for text in ax.texts[:3]], np.maximum(ends, 0))
    box = ax.get_window_extent()
    assert all(text.get_window_extent().x1 <= box.x1 for text in ax.texts[:3])


def test_the_picture_of_ordered_words_joins_nothing():
    """'medium' is in one fold alone: it has no interval, and its neighbours keep theirs."""
    curve = refit(ODD, odd_pandas(), Y, cv=KFold(3), features="size").curve("size")
    ax = looked_at(curve.plot())
    assert texts(ax.get_xticklabels()) == ["small", "medium", "large"]
    mean = next(line for line in ax.lines if line.get_label() == "mean")
    assert mean.get_linestyle() == "None"
    lines = next(some for some in ax.collections if some.get_gid() == BAND)
    drawn = np.array([path.vertices[:, 1] for path in lines.get_paths() if np.isfinite(path.vertices).all()])
    ends = np.stack([curve.importance - curve.reach, curve.importance + curve.reach], axis=1)
    np.testing.assert_allclose(drawn, ends[[0, 2]])


def test_the_picture_of_a_curve():
    found = refit(LinearRegression(), cv=KFold(4))
    curve = found.curve("x0")
    ax = looked_at(curve.plot())
    lines = [line for line in ax.lines if line.get_gid() == SINGLE]
    assert len(lines) == 4
    for line, fold in zip(lines, curve.folds, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), fold)
    mean = next(line for line in ax.lines if line.get_label() == "mean")
    np.testing.assert_array_equal(mean.get_xdata(), curve.grid)
    every = np.isfinite(curve.folds).all(axis=0)  # elsewhere the mean of fewer folds would step
    np.testing.assert_array_equal(mean.get_ydata(), np.where(every, curve.importance, np.nan))
    assert every.any()
    assert ("the mean is drawn where every fold has test rows" in caption(ax)) == (not every.all())
    assert legend(ax) == ["4 folds", "95% for the learner", "mean"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "increase in squared error")
    assert any(some.get_gid() == BAND for some in ax.collections)


def test_the_picture_of_words_has_a_row_a_value():
    curve = refit(ODD, odd_pandas(), Y, cv=KFold(3), features="colour").curve("colour")
    ax = looked_at(curve.plot())
    order = np.argsort(-curve.importance)
    assert texts(ax.get_yticklabels()) == [curve.grid[k] for k in order]
    mean = next(line for line in ax.lines if line.get_label() == "mean")
    np.testing.assert_array_equal(mean.get_xdata(), curve.importance[order])
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("colour", "increase in squared error")


@pytest.fixture(scope="module")
def odd():
    return refit(ODD, odd_pandas(), Y, cv=KFold(3))


@pytest.mark.parametrize("size", [(2.2, 2.0), (1.6, 4), (9, 1.6)])
@pytest.mark.parametrize("layout", [None, "constrained"])
def test_pictures_fit_axes_of_any_size(odd, size, layout):
    for draw in (odd, *(odd.curve(name) for name in ("number", "colour", "hole"))):
        figure, ax = plt.subplots(figsize=size, layout=layout)
        assert draw.plot(ax=ax) is ax
        figure.canvas.draw()


@pytest.mark.parametrize(("p", "name"), [(1, ("x{} " + 15 * "long").format), (200, "größe {} Возраст $x_1$ %".format)])
def test_pictures_of_few_and_many_features_with_any_names(p, name):
    table = pd.DataFrame(np.random.default_rng(3).normal(size=(30, p)), columns=[name(j) for j in range(p)])
    y = table.to_numpy() @ (0.9 ** np.arange(p))
    found = refit(Ridge(), table, y, cv=2)
    ax = looked_at(found.plot())
    assert len(texts(ax.get_yticklabels())) == len(ax.patches) <= p
    assert ("less important features not shown" in caption(ax)) == (p == 200)
    looked_at(found.curve(name(0)).plot())
