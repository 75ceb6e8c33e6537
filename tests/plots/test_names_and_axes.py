"""Shares, groups, cells and HTML: with any names, of few rows, in axes of the user's own."""

import base64
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt

from losslens.plots.notebook import show
from pictures import legend, looked_at, plot_groups, plot_shares, texts
from results_to_draw import importance, results, shapley, table, three_models

NAMES = ["größe", "Возраст", "$x_1$", "100 % of $", "_hidden", "a\nb"]


@pytest.fixture(scope="module")
def models():
    return three_models()


@pytest.fixture(scope="module")
def imp():
    return importance(table())


def image(page):
    code = re.search(r'src="data:image/png;base64,([^"]+)"', page)
    return base64.b64decode(code[1]) if code else b""


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text_and_nothing_else(name):
    X = table(2, name=lambda j: f"{name}{'' if j == 0 else j}")
    imp, shared, plain = importance(X), shapley(X), " ".join(name.split())
    assert plain in legend(looked_at(plot_shares({name: shared})))
    assert plain in texts(looked_at(shared.plot_waterfall()).get_yticklabels())
    assert plain in [text.rsplit(" (", 1)[0] for text in texts(looked_at(imp.plot_local()).get_yticklabels())]
    ax = looked_at(plot_groups({name: imp[name]}))
    assert ax.get_xlabel() == plain
    assert legend(ax)[0].startswith(plain)
    assert looked_at(imp[name].plot_cells()).get_xlabel() == plain


def draw_all(X, axes=None):
    imp, shared = importance(X), shapley(X)
    axes = iter([None] * 6 if axes is None else axes)
    looked_at(plot_shares({"one": shared, "two": shared}, ax=next(axes)))
    looked_at(shared.plot_waterfall(ax=next(axes)))
    looked_at(imp.plot_local(ax=next(axes)))
    looked_at(shared.plot_local(ax=next(axes)))
    one = imp[X.columns[0]]
    looked_at(one.plot_cells(ax=next(axes)))
    looked_at(plot_groups(one.by(np.arange(len(X)) % 2), ax=next(axes)))


def test_one_row_draws(imp, models):
    looked_at(imp["x0"].given([3]).plot_cells())
    looked_at(plot_groups({"one": imp["x0"].given([3])}))
    looked_at(imp.given([3]).plot_local())
    looked_at(models["good"].given([3]).plot_waterfall())
    looked_at(plot_shares({"one": models["wrong"].given([3])}))
    assert image(show(imp.given([3])))


@settings(max_examples=2, deadline=None)
@given(n=st.integers(2, 8), p=st.integers(1, 3), values=st.sampled_from([1, 2, 1000]))
def test_odd_shapes_draw(n, p, values):
    rng = np.random.default_rng(n)
    X = pd.DataFrame(rng.integers(0, values, size=(n, p)).astype(float), columns=[f"x{j}" for j in range(p)])
    draw_all(X)
    for result in results(X):
        show(result)
    plt.close("all")


@pytest.mark.parametrize(("size", "layout"), [((7, 10), None), ((12, 12), "constrained")])
def test_pictures_draw_beside_each_other(size, layout):
    figure, axes = plt.subplots(3, 2, figsize=size, layout=layout)
    draw_all(table(), axes.ravel())
    assert tuple(figure.get_size_inches()) == size
    assert len(plt.get_fignums()) == 1
