"""Shares of several models, and the waterfall of one: bars against the numbers of the results."""

from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest

from losslens.plots.canvas import BLUE, VERMILLION
from losslens.plots.shares import COLOURS, SIDE, WIDTH
from pictures import LONG, caption, inside, legend, looked_at, no_overlap, plot_shares, texts
from results_to_draw import scored, shapley, table, three_models


@pytest.fixture(scope="module")
def models():
    return three_models()


def bars(ax, place):
    """Signed heights of all parts of one model, what hangs beside it with a minus."""
    found = {}
    for container in ax.containers:
        bar = container.patches[place]
        beside = bar.get_width() == pytest.approx(SIDE)
        found[container.get_label()] = -bar.get_height() if beside else bar.get_height()
    return found


def test_parts_sum_to_the_error_without_features(models):
    ax = looked_at(plot_shares(models))
    assert texts(ax.get_xticklabels()) == list(models)
    for place, result in enumerate(models.values()):
        parts = bars(ax, place)
        assert parts["remaining"] == pytest.approx(result.error_all)
        assert sum(parts.values()) == pytest.approx(result.error_none)
        for name, value in zip(result.features, result.sfimp, strict=True):
            assert parts[name] == pytest.approx(value)


def test_parts_lie_on_each_other_without_gaps(models):
    ax = plot_shares(models)
    for place, result in enumerate(models.values()):
        spans = [c.patches[place] for c in ax.containers if c.patches[place].get_width() == pytest.approx(WIDTH)]
        spans = sorted((bar.get_y(), bar.get_y() + bar.get_height()) for bar in spans)
        for (_, end), (start, _) in pairwise(spans):
            assert start == pytest.approx(end)
        assert spans[-1][1] == pytest.approx(result.error_all + result.sfimp.clip(0).sum())


def test_what_raises_the_error_hangs_down_to_the_error_without_features(models):
    result = models["wrong"]
    assert result.sfimp[1] < 0
    ax = looked_at(plot_shares(models))
    (bar,) = [c.patches[2] for c in ax.containers if c.get_label() == "x1"]
    assert bar.get_width() == pytest.approx(SIDE)
    assert bar.get_y() == pytest.approx(result.error_none)
    assert "narrow: features that raise the error" in caption(ax)


def test_a_feature_has_one_colour_and_one_place_in_all_bars(models):
    ax = plot_shares(models)
    mean = np.mean([result.sfimp for result in models.values()], axis=0)
    order = [models["good"].features[j] for j in np.argsort(-mean)]
    assert legend(ax) == [*order, "remaining"]
    colours = [{bar.get_facecolor() for bar in container.patches} for container in ax.containers]
    assert all(len(some) == 1 for some in colours)
    assert len(set.union(*colours)) == len(order) + 1


def test_numbers_and_percentages_stand_in_the_parts(models):
    ax = looked_at(plot_shares({"good": models["good"]}))
    result, written = models["good"], texts(ax.texts)
    largest = int(np.argmax(result.sfimp))
    assert f"{result.sfimp[largest]:.0f} ({result.share[largest]:.0%})" in written
    assert f"{result.error_none:.0f}" in written
    assert ax.get_ylabel() == "mean squared error"
    assert ax.get_ylim()[0] == 0


def test_twenty_features_with_long_names_are_eight_and_the_rest():
    found = three_models(20, LONG)
    ax = looked_at(plot_shares(found))
    names = legend(ax)
    assert len(names) == len(set(names)) == len(COLOURS) + 2
    assert names[-2:] == ["12 others", "remaining"]
    assert sum(bars(ax, 0).values()) == pytest.approx(found["good"].error_none)
    box, page = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert box.x1 <= page.x1 + 2
    tops = max(bar.get_window_extent().y1 for container in ax.containers for bar in container.patches)
    assert tops <= box.y0 + 1  # bars don't run into the legend
    columns = [ax.get_legend().get_texts()[:5], ax.get_legend().get_texts()[5:]]
    assert all(no_overlap(column) for column in columns)


def test_models_with_other_features_or_losses(models):
    other = shapley(table(2, name="z{}".format))
    ax = looked_at(plot_shares({"a": models["good"], "b": other}))
    assert {"x0", "z0"} <= set(legend(ax))
    assert bars(ax, 1)["x0"] == 0
    absolute = shapley(table(), loss="absolute_error")
    with pytest.raises(ValueError, match="different losses"):
        plot_shares({"a": models["good"], "b": absolute})
    with pytest.raises(ValueError, match="no model"):
        plot_shares({})


def test_scores_go_up_from_the_score_without_features():
    result = scored()
    ax = looked_at(plot_shares({"linear": result}))
    top = max(bar.get_y() + bar.get_height() for c in ax.containers[:-1] for bar in c.patches)
    assert top == pytest.approx(-result.error_all + (-result.sfimp).clip(0).sum())
    assert ax.get_ylabel() == result.title
    ax = looked_at(result.plot_waterfall())
    starts = [bar.get_x() for bar in ax.patches]
    assert starts[0] == pytest.approx(-result.error_none)
    assert mpl.colors.to_hex(ax.patches[0].get_facecolor()).upper() == BLUE


def test_the_waterfall_goes_from_one_error_to_the_other(models):
    result = models["wrong"]
    ax = looked_at(result.plot_waterfall())
    order = [result.features[j] for j in np.argsort(-result.sfimp)]
    assert texts(ax.get_yticklabels()) == ["no feature", *order, "all features"]
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, -np.sort(result.sfimp)[::-1])
    starts = [bar.get_x() for bar in ax.patches]
    np.testing.assert_allclose(starts, result.error_none + np.cumsum([0, *widths[:-1]]))
    assert starts[-1] + widths[-1] == pytest.approx(result.error_all)
    assert mpl.colors.to_hex(ax.patches[-1].get_facecolor()).upper() == VERMILLION
    assert "orange: raises the error" in caption(ax)
    assert ax.get_xlabel() == "mean squared error"


@pytest.mark.parametrize("p", [1, 20, 30])
def test_waterfalls_of_many_features_are_legible(p):
    result = shapley(table(p, name=LONG))
    ax = looked_at(result.plot_waterfall())
    shown = ax.get_yticklabels()
    assert no_overlap(shown)
    assert len(set(texts(shown))) == len(shown)
    assert inside(ax, [*shown, ax.xaxis.label])
    total = sum(bar.get_width() for bar in ax.patches)
    assert total == pytest.approx(result.error_all - result.error_none)
    looked_at(plot_shares({"a": result}))
