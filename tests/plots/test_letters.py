"""Letters of any script: from a font that has them, or as boxes and with one warning."""

import warnings

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib import pyplot as plt

from losslens.plots import letters
from losslens.plots.letters import BOX
from pictures import legend, looked_at, plot_shares, texts
from results_to_draw import importance, shapley, table

WORDS = ["年齢", "العمر", "🚲 rides", "größe"]
RARE = "\U0010fffd"  # a letter for private use: in no font but the one below


@pytest.fixture(autouse=True)
def _no_warning_given(monkeypatch):
    monkeypatch.setattr(letters, "_warned", set())


@pytest.fixture
def font(tmp_path):
    """A font that has one rare letter, installed for one test."""
    pen = TTGlyphPen(None)
    for step, point in enumerate([(0, 0), (0, 700), (500, 700), (500, 0)]):
        (pen.moveTo if step == 0 else pen.lineTo)(point)
    pen.closePath()
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "rare"])
    builder.setupCharacterMap({ord(RARE): "rare"})
    builder.setupGlyf({".notdef": TTGlyphPen(None).glyph(), "rare": pen.glyph()})
    builder.setupHorizontalMetrics({".notdef": (500, 0), "rare": (600, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Rare Letters", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "rare.ttf")
    before = list(font_manager.fontManager.ttflist)
    font_manager.fontManager.addfont(tmp_path / "rare.ttf")
    yield "Rare Letters"
    font_manager.fontManager.ttflist[:] = before


def named(*names):
    return table(len(names), name=names.__getitem__)


def test_a_letter_comes_from_a_font_that_has_it(font):
    ax = looked_at(importance(named(f"a{RARE}", "b")).plot())  # a warning is an error here
    assert texts(ax.get_yticklabels()) == [f"a{RARE}", "b"]
    assert font in ax.get_yticklabels()[0].get_fontfamily()
    ax = looked_at(importance(named(f"a{RARE}", "b"))[f"a{RARE}"].plot())
    assert ax.get_xlabel() == f"a{RARE}"
    assert font in ax.xaxis.label.get_fontfamily()


def test_letters_of_no_font_are_boxes_and_told_once():
    imp = importance(named(f"a{RARE}{RARE}", "b"))
    with pytest.warns(UserWarning, match=f"no installed font has {RARE}: shown as {BOX}; install one") as told:
        ax = looked_at(imp.plot())
    assert len(told) == 1
    assert texts(ax.get_yticklabels()) == [f"a{BOX}{BOX}", "b"]
    for _ in range(2):  # neither we nor matplotlib warn again: that would be an error here
        looked_at(imp.plot())
        assert looked_at(imp[f"a{RARE}{RARE}"].plot()).get_xlabel() == f"a{BOX}{BOX}"


@pytest.mark.parametrize("word", WORDS)
def test_names_of_all_scripts_draw_with_at_most_one_warning(word):
    X = named(word, "b")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        looked_at(importance(X).plot())
        looked_at(importance(X)[word].plot())
        ax = looked_at(plot_shares({word: shapley(X)}))
    assert len(told) <= 1
    assert len(legend(ax)[0]) == len(word)
    assert not any("Glyph" in str(one.message) for one in told)


def test_letters_without_a_look_are_left_out():
    ax = looked_at(importance(named("a\u200b\ufe0fb", "c")).plot())
    assert texts(ax.get_yticklabels())[0] in ("ab", "a\u200b\ufe0fb", "a\u200bb", "a\ufe0fb")


def test_the_fonts_of_others_are_left_alone():
    figure, (mine, yours) = plt.subplots(1, 2)
    yours.set_title("größe")
    before = yours.title.get_fontfamily()
    importance(named("größe", "b")).plot(mine)
    assert yours.title.get_fontfamily() == before
    assert np.isfinite(figure.dpi)
