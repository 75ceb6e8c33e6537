"""The ranking: bars, intervals, labels and numbers that don't overlap, whatever the features are called."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection

import losslens as ll
from features_to_draw import N, explain, model
from pictures import LONG, SAME_ENDS, caption, inside, legend, looked_at, no_overlap, texts


@pytest.fixture(scope="module", name="X")
def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 3))


@pytest.fixture(scope="module")
def imp(X):
    return explain(X)


def test_the_ranking_is_sorted_and_its_bars_are_the_importances(imp):
    ax = looked_at(imp.plot())
    order = sorted(imp, key=lambda name: -imp[name].pfi)
    assert texts(ax.get_yticklabels()) == order
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, [imp[name].pfi for name in order])
    assert ax.yaxis_inverted()  # the first is on top
    assert ax.get_xlabel() == "increase in squared error"


def test_the_ranking_shows_intervals_and_the_base_error(imp):
    ax = imp.plot()
    (lines,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    ends = [segment[:, 0] for segment in lines.get_segments()]
    order = sorted(imp, key=lambda name: -imp[name].pfi)
    np.testing.assert_allclose(ends, [imp[name].interval() for name in order])
    assert f"error as it is: {imp.error:.3g}" in caption(ax)
    assert "95% intervals" in caption(ax)


def test_the_ratio_starts_at_one_and_has_its_own_interval(imp):
    ax = looked_at(imp.plot(ratio=True))
    ends = sorted((bar.get_x() + bar.get_width() for bar in ax.patches), reverse=True)
    np.testing.assert_allclose(ends, sorted((f.ratio for f in imp.values()), reverse=True))
    drawn = sorted(ax.collections[0].get_segments(), key=lambda line: -line[0, 0])
    expected = sorted((f.ratio_interval() for f in imp.values()), key=lambda ends: -ends[0])
    np.testing.assert_allclose([line[:, 0] for line in drawn], expected)
    assert "95% intervals" in caption(ax)


def test_features_without_a_number_are_left_out(X):
    imp = explain(X, features=["x0", ("x0", "x1")], donors="auto")
    ax = looked_at(imp.plot())
    assert texts(ax.get_yticklabels()) == ["x0"]
    assert "1 feature without an importance left out" in caption(ax)


def test_a_ranking_of_nothing_says_why(X):
    imp = explain(X, features=[("x0", "x1")])
    with pytest.raises(ValueError, match="no feature has an importance"):
        imp.plot()


def test_a_ranking_without_intervals_draws(X):
    ax = looked_at(explain(X, donors=ll.Permutations(1)).plot())
    assert "interval" not in caption(ax)


@cache
def wide(p, name="feature {}".format):
    X = np.random.default_rng(0).normal(size=(20, p))
    weights = 0.9 ** np.arange(p)
    table = pd.DataFrame(X, columns=[name(j) for j in range(p)])
    y = X @ weights
    return ll.feature_importance(lambda t: t.to_numpy() @ weights, table, y + 0.1, loss="squared_error")


@pytest.mark.parametrize("p", [1, 2, 20, 40])
@pytest.mark.parametrize("name", ["x{}".format, LONG, SAME_ENDS])
def test_labels_never_overlap_and_stay_on_the_page(p, name):
    ax = looked_at(wide(p, name).plot())
    shown = ax.get_yticklabels()
    assert len(shown) == len(set(texts(shown))) == p
    assert no_overlap(shown)
    assert inside(ax, [*shown, *ax.texts, ax.xaxis.label])


def test_the_numbers_stand_inside_the_axes(imp):
    for ax in (imp.plot(), imp.plot(ax=plt.subplots(1, 3)[1][0]), wide(20, LONG).plot()):
        looked_at(ax)
        numbers = [text for text in ax.texts if text.get_gid() != "caption"]
        assert numbers
        assert all(text.get_window_extent().x1 <= ax.get_window_extent().x1 + 2 for text in numbers)


def test_two_hundred_features_show_the_first_and_say_so():
    imp = wide(200)
    ax = looked_at(imp.plot())
    assert texts(ax.get_yticklabels()) == sorted(imp, key=lambda name: -imp[name].pfi)[:40]
    assert "160 less important features not shown" in caption(ax)
    assert no_overlap(ax.get_yticklabels())


def test_axes_of_the_users_own_keep_their_size_and_hold_what_fits():
    figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
    assert wide(40).plot(ax=ax) is ax
    assert tuple(figure.get_size_inches()) == (5, 3)
    looked_at(ax)
    shown = ax.get_yticklabels()
    assert 3 <= len(shown) < 40
    assert no_overlap(shown)
    assert f"{40 - len(shown)} less important features not shown" in caption(ax)


@pytest.mark.parametrize("size", [(1.5, 1.5), (2, 4), (12, 1.2)])
def test_the_ranking_draws_in_small_figures(size):
    looked_at(wide(12, LONG).plot(ax=plt.figure(figsize=size).add_subplot()))


@pytest.mark.parametrize(
    "name", ["größe", "µ_σ²", "température °C", "Возраст", "$x_1$", "100 % of $", "_hidden", "a\nb"]
)
def test_names_are_text_and_nothing_else(name):
    """Matplotlib reads $...$ as a formula and leaves names that begin with _ out of legends."""
    imp = wide(3, lambda j: f"{name}{'' if j == 0 else j}")
    assert " ".join(name.split()) in texts(looked_at(imp.plot()).get_yticklabels())
    ax = looked_at(imp[name].plot())
    assert ax.get_xlabel() == " ".join(name.split())
    assert any(text.startswith("distribution") for text in legend(ax))


def test_numbers_of_all_sizes_draw(X):
    for factor in (1e-9, 1e-3, 1e5, 1e12):
        y = model(X) * factor
        imp = ll.feature_importance(lambda X, f=factor: model(X) * f * 1.1, X, y, loss="squared_error")
        looked_at(imp.plot())
        looked_at(imp["x0"].plot())
        plt.close("all")


def test_negative_importances_draw(X):
    y = -model(X)
    ax = looked_at(ll.feature_importance(model, X, y, loss="squared_error").plot())
    assert min(bar.get_width() for bar in ax.patches) < 0
    assert ax.get_xlim()[0] < min(bar.get_width() for bar in ax.patches)
