"""Shapley values of predictions: one row as a waterfall, many as dots."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection

from losslens.plots.canvas import VERMILLION
from losslens.results.shapley_curve import Values
from made_shapley import effect, words
from pictures import LONG, SAME_ENDS, caption, inside, looked_at, no_overlap, texts


def written(ax):
    """The texts inside the axes."""
    return [text for text in ax.texts if text.get_gid() != "caption"]


def segments(ax):
    """Ends of the thin lines."""
    return [s[:, 0] for c in ax.collections if isinstance(c, LineCollection) for s in c.get_segments()]


# -- effects on one row -----------------------------------------------------------------------------------------------


def test_one_row_goes_from_the_base_to_its_prediction():
    result = effect()
    ax = looked_at(result.plot())
    order = np.argsort(-np.abs(result.local[0]))
    starts = np.array([bar.get_x() for bar in ax.patches])
    ends = starts + [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(ends - starts, result.local[0, order])
    np.testing.assert_allclose(starts, np.append(result.base[0], ends[:-1]))
    assert ends[-1] == pytest.approx(result.prediction[0])
    up = [bar.get_facecolor() == mpl.colors.to_rgba(VERMILLION) for bar in ax.patches]
    assert up == (result.local[0, order] > 0).tolist()
    names = texts(ax.get_yticklabels())
    assert names[0] == "mean over 500 donors"
    assert names[-1] == "prediction"
    values = [result.values.distinct[j][0] for j in order]
    assert names[1:-1] == [f"x{j} = {v:.4g}".replace("-", "−") for j, v in zip(order, values, strict=True)]
    assert texts(written(ax))[0].strip() == "22.00"
    assert {text[0] for text in texts(written(ax))[1:-1]} == {"+", "−"}


def test_effects_that_do_not_fit_are_joined():
    result = effect(p=40)
    ax = looked_at(result.plot())
    assert len(ax.patches) == 21
    assert texts(ax.get_yticklabels())[-2] == "20 other features"
    last = ax.patches[-1]
    assert last.get_x() + last.get_width() == pytest.approx(result.prediction[0])
    small = looked_at(result.plot(ax=plt.subplots(2, 2, layout="constrained")[1][0, 0]))
    assert 2 <= len(small.patches) < 10
    assert sum(bar.get_width() for bar in small.patches) == pytest.approx(result.local.sum())
    looked_at(result.plot(ax=plt.figure(figsize=(1.5, 0.8)).add_subplot()))


def test_errors_of_one_row_are_thin_lines_at_the_ends_of_bars():
    result = effect(error=0.1)
    result = replace(result, std_error=result.std_error * [1, 0, 1, 1])
    ax = looked_at(result.plot())
    lines = [np.diff(ends)[0] for ends in segments(ax) if ends[0] != ends[1]]  # the others join the bars
    np.testing.assert_allclose(lines, np.full(3, 2 * 1.959964 * 0.1), rtol=1e-6)
    assert "Monte-Carlo error" in caption(ax)
    assert caption(effect().plot()) == ""


def test_values_of_every_kind_are_named():
    distinct = (
        words(LONG("x"), "b"),
        np.array(["2021-05-01"], "datetime64[s]"),
        np.array([np.nan]),
        words([2.5, "y"]).reshape(1, 2),
    )
    ordered, codes = (False, True, True, False), np.zeros((1, 4), np.int32)
    values = Values(distinct=distinct, codes=codes, ordered=ordered, columns=(("a",),) * 4)
    ax = looked_at(effect(values=values).plot())
    shown = dict(text.split(" = ") for text in texts(ax.get_yticklabels())[1:-1])
    assert shown.pop("x0").startswith("the sha")
    assert shown == {"x1": "2021-05-01", "x2": "missing", "x3": "(2.5, y)"}


def test_a_class_is_named():
    assert effect(target="yes").plot().get_xlabel() == "probability of yes"
    assert effect().plot().get_xlabel() == "prediction"
    assert effect(9, target="yes").plot().get_xlabel() == "what each feature adds to the probability of yes"


@pytest.mark.parametrize("rows", [1, 30])
@pytest.mark.parametrize("name", ["x{}".format, LONG, SAME_ENDS])
def test_labels_of_effects_never_overlap_and_stay_on_the_page(rows, name):
    ax = looked_at(effect(rows, 20, name=name).plot())
    shown = ax.get_yticklabels()
    assert len(set(texts(shown))) == len(shown)
    assert no_overlap(shown)
    assert inside(ax, [*shown, *ax.texts, ax.xaxis.label])


# -- effects on many rows ---------------------------------------------------------------------------------------------


def test_many_rows_are_dots_sorted_by_mean_size():
    result = effect(200)
    ax = looked_at(result.plot())
    order = np.argsort(-result.importance)
    assert texts(ax.get_yticklabels()) == [f"x{j} ({result.importance[j]:.4f})" for j in order]
    (dots,) = ax.collections
    x, y = dots.get_offsets().T
    lines = np.round(y).astype(int)
    assert np.abs(y - lines).max() < 0.4
    for line, j in enumerate(order):
        np.testing.assert_allclose(np.sort(x[lines == line]), np.sort(result.local[:, j]))
    assert "200 rows" in caption(ax)


def test_dots_are_coloured_by_the_rank_of_the_value():
    result = effect(50, 1)
    (dots,) = looked_at(result.plot()).collections
    ranks = np.empty(50)
    ranks[np.argsort(result.local[:, 0])] = dots.get_array()
    np.testing.assert_allclose(ranks * 49, result.values.codes[:, 0])


def test_missing_values_and_words_are_grey():
    codes = np.column_stack([np.arange(40) % 4, np.arange(40) % 2]).astype(np.int32)
    distinct = np.array([1.0, 2.0, 5.0, np.nan]), words("a", "b")
    values = Values(distinct=distinct, codes=codes, ordered=(True, False), columns=(("a",), ("b",)))
    ax = looked_at(effect(40, 2, values=values).plot())
    colours = np.ma.filled(ax.collections[0].get_array(), np.nan)
    assert np.isnan(colours).sum() == 10 + 40
    assert set(colours[np.isfinite(colours)]) == {0.0, 0.5, 1.0}
    assert "grey: categories, or missing values" in caption(ax)
    only_words = replace(values, ordered=(False, False))
    ax = looked_at(effect(40, 2, values=only_words).plot())
    assert len(ax.figure.axes) == 1  # no bar of colours
    assert "grey" not in caption(effect(40).plot())


def test_many_dots_are_thinned_and_both_ends_stay():
    result = effect(3000, 2, error=0.2)
    ax = result.plot()
    x = ax.collections[0].get_offsets()[:, 0]
    assert len(x) == 2000
    assert (x.min(), x.max()) == (result.local.min(), result.local.max())
    assert "1,000 of 3,000 rows in each line" in caption(ax)
    assert "Monte-Carlo error: 0.200 (median)" in caption(ax)
    assert "20 smaller effects not shown" in caption(effect(9, 40).plot())
