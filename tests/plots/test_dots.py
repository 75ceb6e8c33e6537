"""Words, ordered or not, and truth values."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import PathCollection

import losslens as ll
from features_to_draw import N, explain_column, word_length, words
from losslens.plots.canvas import BAND
from pictures import caption, looked_at, named, no_overlap, texts


def test_words_without_order_are_dots_sorted_by_importance():
    one = explain_column(words(ordered=False), word_length)
    ax = looked_at(one.plot())
    (dots,) = [c for c in ax.collections if isinstance(c, PathCollection)]
    order = np.argsort(-one.pi)
    np.testing.assert_allclose(dots.get_offsets(), np.column_stack((one.pi[order], np.arange(len(order)))))
    shown = texts(ax.get_yticklabels())
    assert [text.split(" (")[0][:6] for text in shown] == [one.grid[k][:6] for k in order]
    assert shown[0].endswith(f"({one.weights[order[0]]:.0%})")
    assert ax.get_xlabel() == "increase in squared error"
    assert ax.get_ylabel() == "z"
    np.testing.assert_array_equal(named(ax, "PFI").get_xdata(), one.pfi)


def test_ranges_of_words_are_quantiles_of_the_rows():
    one = explain_column(words(ordered=False), word_length)
    order = np.argsort(-one.pi)
    ax = looked_at(one.plot())
    assert f"grey: ICI, 50% and 90% of {N} rows" in caption(ax)
    thin, thick, *_ = [some for some in ax.collections if hasattr(some, "get_segments") and some.get_gid() != BAND]
    for share, lines in ((0.05, thin), (0.25, thick)):
        ends = [segment[:, 0] for segment in lines.get_segments()]
        wanted = np.quantile(one.ici[:, order], [share, 1 - share], axis=0, method="inverted_cdf").T
        np.testing.assert_allclose(ends, wanted)


def test_ordered_words_are_a_line_over_their_names():
    one = explain_column(words(ordered=True), word_length)
    ax = looked_at(one.plot())
    np.testing.assert_array_equal(named(ax, "PI").get_ydata(), one.pi)
    shown = texts(ax.get_xticklabels())
    assert shown[:2] == ["rarely", "often"]
    assert len(shown) == len(one.grid)


def test_truth_values_are_dots_in_their_order():
    one = explain_column(pd.Series(np.arange(N) % 3 == 0), lambda z: z.to_numpy(float))
    assert [text[:5] for text in texts(looked_at(one.plot()).get_yticklabels())] == ["False", "True "]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("design", ["all", ll.Permutations(3), ll.Systematic(3), ll.Grid(6)])
def test_words_with_a_missing_one_draw(ordered, design):
    one = explain_column(words(ordered, missing=True), word_length, donors=design)
    ax = looked_at(one.plot())
    names = texts(ax.get_xticklabels() if ordered else ax.get_yticklabels())
    if design == "all":
        assert names[-1].startswith("missing")
    looked_at(one.effect.plot())


def test_a_category_called_missing_is_not_missing():
    one = explain_column(pd.Series(["missing", "there"] * 30, dtype=object), lambda z: (z == "missing").to_numpy(float))
    looked_at(one.plot())


def test_many_categories_show_the_frequent_ones():
    values = pd.Series([f"word {k % 90 if k < 180 else 5}" for k in range(200)], dtype=object)
    one = explain_column(values, lambda z: z.str.len().to_numpy(float))
    ax = looked_at(one.plot())
    assert len(ax.get_yticklabels()) == 40
    assert any(text.startswith("word 5 (") for text in texts(ax.get_yticklabels()))
    assert "the 40 most frequent of 90 values" in caption(ax)
    assert no_overlap(ax.get_yticklabels())
    small = plt.subplots(figsize=(4, 3), layout="constrained")[1]
    assert len(looked_at(one.plot(ax=small)).get_yticklabels()) < 15
