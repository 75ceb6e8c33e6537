"""Pictures of pairs: the table, frames where an interval excludes zero, and the ranking."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from losslens.plots.interactions import SURE
from losslens.results.interactions import Interactions
from made_shapley import interactions
from pictures import LONG, SAME_ENDS, caption, inside, looked_at, no_overlap, texts


def made(p=4, scale=1.0, error=0.4, name="x{}".format):
    rng = np.random.default_rng(4)
    index = np.triu(rng.normal(size=(p, p)) * scale, 1)
    index = index + index.T
    errors = np.full((p, p), error * scale)
    kind = "PFI_j + PFI_l - PFI_jl"
    names = tuple(name(j) for j in range(p))
    return Interactions(names, index, kind, "squared error", "pandas", unbiased=index, std_error=errors, units=100)


def framed(ax):
    """Pairs of the frames, by name."""
    boxes = [patch for patch in ax.patches if patch.get_gid() == SURE]
    down, across = texts(ax.get_yticklabels()), texts(ax.get_xticklabels())
    return {frozenset({down[int(box.get_y())], across[int(box.get_x())]}) for box in boxes}


def test_pairs_whose_interval_excludes_zero_are_framed():
    result = made()
    ax = looked_at(result.plot())
    sure = np.argwhere(np.tril(result.low * result.high > 0, -1))
    assert framed(ax) == {frozenset({result.features[j], result.features[k]}) for j, k in sure}
    assert 0 < len(framed(ax)) < 12
    assert "framed: the 95% interval excludes 0" in caption(ax)
    unsure = looked_at(made(error=100.0).plot())
    assert not framed(unsure)
    assert "framed" not in caption(unsure)
    assert not framed(replace(result, std_error=None).plot())


def test_the_ranking_has_the_strongest_pairs_with_their_intervals():
    result = made()
    ax = looked_at(result.plot_ranking(top=4))
    pairs = result._pairs[:4]
    assert texts(ax.get_yticklabels()) == [f"x{j} × x{k}" for j, k in pairs]
    lines, dots = ax.collections
    for row, (pair, line, dot) in enumerate(zip(pairs, lines.get_segments(), dots.get_offsets(), strict=True)):
        np.testing.assert_allclose(line, [[result.low[pair], row], [result.high[pair], row]])
        np.testing.assert_allclose(dot, [result.index[pair], row])
    sure = [result.low[pair] * result.high[pair] > 0 for pair in pairs]
    filled = [not np.allclose(colour[:3], 1) for colour in dots.get_facecolors()]
    assert filled == sure
    assert "2 weaker pairs not shown" in caption(ax)
    assert "lines: 95% intervals" in caption(ax)
    low, high = ax.get_xlim()
    assert low <= min(result.low[pair] for pair in pairs)
    assert high >= max(result.high[pair] for pair in pairs)


def test_without_intervals_there_are_dots_alone():
    ax = looked_at(replace(made(), std_error=None).plot_ranking())
    assert "intervals" not in caption(ax)
    assert len(texts(ax.get_yticklabels())) == 6
    assert not np.allclose(ax.collections[-1].get_facecolors()[:, :3], 1)


def test_pairs_that_were_not_asked_for_are_left_out():
    result = made()
    index = result.index.copy()
    index[0, 1] = index[1, 0] = np.nan
    ax = looked_at(replace(result, index=index).plot_ranking())
    assert len(ax.get_yticklabels()) == 5
    assert "x0 × x1" not in texts(ax.get_yticklabels())
    with pytest.raises(ValueError, match="no pair has an interaction"):
        replace(result, index=np.full((4, 4), np.nan)).plot_ranking()


@pytest.mark.parametrize("k", [0, 2.5, True], ids=str)
def test_k_is_a_number_of_pairs(k):
    with pytest.raises(ValueError, match="top is how many to draw"):
        made().plot_ranking(top=k)


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e6, 0.0])
@pytest.mark.parametrize("name", ["x{}".format, LONG], ids=["short", "long"])
@pytest.mark.parametrize("p", [2, 30])
def test_rankings_are_readable(p, name, scale):
    ax = looked_at(made(p, scale, name=name).plot_ranking(20))
    names = texts(ax.get_yticklabels())
    assert len(set(names)) == len(names) == min(20, p * (p - 1) // 2)
    assert no_overlap(ax.get_yticklabels())
    assert inside(ax, [*ax.get_yticklabels(), ax.xaxis.label, *ax.texts])


def test_rankings_fit_into_axes_of_the_users_own():
    axes = plt.subplots(2, 2, layout="constrained")[1]
    ax = looked_at(made(12, name=LONG).plot_ranking(30, ax=axes[0, 1]))
    assert no_overlap(ax.get_yticklabels())
    assert 1 < len(ax.get_yticklabels()) < 30


def written(ax):
    """The texts inside the axes."""
    return [text for text in ax.texts if text.get_gid() != "caption"]


# -- the table ---------------------------------------------------------------------------------------------------------


def cells(ax):
    return np.asarray(np.ma.filled(ax.collections[0].get_array(), np.nan))


def test_the_table_has_each_pair_once_sorted_and_parts_at_zero():
    """No row for the first feature and no column for the last, which would be empty."""
    result = interactions()
    ax = looked_at(result.plot())
    strength = np.abs(result.index).sum(axis=1)
    order = np.argsort(-strength)
    names = [result.features[j] for j in order]
    assert texts(ax.get_xticklabels()) == names[:-1]
    assert texts(ax.get_yticklabels()) == names[1:]
    wanted = np.where(np.tri(3) > 0, result.index[np.ix_(order[1:], order[:-1])], np.nan)
    np.testing.assert_array_equal(cells(ax), wanted)
    low, high = ax.collections[0].get_clim()
    assert -low == high == np.abs(result.index).max()
    assert ax.yaxis_inverted()
    assert ax.collections[0].colorbar.ax.get_ylabel().split() == [
        "Shapley",
        "interaction",
        "index,",
        "squared",
        "error",
    ]
    strongest = max(written(ax), key=lambda text: abs(float(text.get_text().replace("−", "-"))))
    assert abs(float(strongest.get_text().replace("−", "-"))) == pytest.approx(high, abs=0.01)


def test_numbers_have_a_unit_where_they_are_very_large_or_small():
    for scale, unit in ((1e-7, "1e−9"), (1e10, "1e9"), (1.0, None)):
        ax = looked_at(interactions(scale=scale).plot())
        assert max(len(text.get_text()) for text in written(ax)) <= 6
        assert (f"numbers in units of {unit}" in caption(ax)) == (unit is not None)


def test_pairs_that_were_not_asked_for_are_blank():
    result = interactions()
    index = result.index.copy()
    index[0, 1] = index[1, 0] = np.nan
    ax = looked_at(replace(result, index=index).plot())
    assert np.isnan(cells(ax)).sum() == 3 + 1
    assert len(written(ax)) == 5
    assert "blank: not requested" in caption(ax)
    assert "blank" not in caption(result.plot())
    looked_at(replace(result, index=np.full((4, 4), np.nan)).plot())


@pytest.mark.parametrize("name", ["x{}".format, "FEATURE{}".format, LONG, SAME_ENDS])
@pytest.mark.parametrize("p", [2, 13, 40])
def test_tables_are_readable(p, name):
    ax = looked_at(interactions(p, name=name).plot())
    shown = len(ax.get_yticklabels())
    assert shown == min(p, 20) - 1
    assert len(set(texts(ax.get_xticklabels()))) == shown
    assert no_overlap(ax.get_yticklabels())
    assert inside(ax, [*ax.get_yticklabels(), *ax.get_xticklabels(), *ax.texts])
    width = ax.get_window_extent().width / shown
    assert all(text.get_window_extent().width <= width for text in written(ax))
    assert ("20 weaker features not shown" in caption(ax)) == (p == 40)


def test_numbers_that_do_not_fit_are_left_out():
    axes = plt.subplots(2, 3, layout="constrained")[1]
    ax = looked_at(interactions(13, name=LONG).plot(ax=axes[0, 0]))
    assert not written(ax)
    assert no_overlap(ax.get_yticklabels())


def test_a_table_of_zeros_draws():
    assert set(texts(written(looked_at(interactions(scale=0.0).plot())))) == {"0.00"}
