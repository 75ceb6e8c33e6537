"""What a result of pairs says: intervals, tests, frames, files, words; against the definitions, by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from scipy.stats import t as student

import losslens as ll
from losslens.results.interactions import Interactions
from losslens.uncertainty.inference import adjusted

NAMES = ("a", "b", "c")
INDEX = np.array([[0, 2.0, -0.5], [2.0, 0, 0], [-0.5, 0, 0]])
ERROR = np.array([[np.nan, 0.5, 0.4], [0.5, np.nan, 0.0], [0.4, 0.0, np.nan]])
UNITS = 50


def made(**other):
    known = {"unbiased": INDEX * 1.02, "std_error": ERROR, "units": UNITS}
    return Interactions(NAMES, INDEX, "PFI_j + PFI_l - PFI_jl", "squared error", "pandas", **(known | other))


def ends(found, first, second, level=0.95):
    """The interval of one pair."""
    number = found.estimates().number(f"{first} x {second}", level)
    return number.low, number.high


TESTED = ("_std_error", "_low", "_high", "_p", "_p_adjusted")


def with_parts(title="squared error", **other):
    """The whole is a third shared and two thirds interaction."""
    parts = {
        "shared": replace(made(), index=INDEX / 3, unbiased=INDEX / 3, kind="shared information", title=title),
        "interaction": replace(
            made(), index=INDEX / 1.5, unbiased=INDEX / 1.5, kind="the model's interaction", title=title
        ),
        "strength": replace(made(), index=INDEX**2, unbiased=INDEX**2, kind="strength of it", title="of predictions"),
    }
    return made(parts=parts, **other)


def test_parts_are_results_of_their_own():
    found = with_parts()
    assert found.interaction["a", "b"] + found.shared["a", "b"] == pytest.approx(found["a", "b"])
    reach = 0.5 * student.ppf(0.975, UNITS - 1)
    assert ends(found.interaction, "a", "b") == pytest.approx((4 / 3 - reach, 4 / 3 + reach))
    by_hand = adjusted(found.interaction.p[np.triu_indices(3, 1)], "holm")
    np.testing.assert_array_equal(found.interaction.p_adjusted[np.triu_indices(3, 1)], by_hand)
    text = repr(found)
    assert text.startswith("Interactions: the model's interaction, squared error\n  a, b  1.333 ± 0.500 (0.3")
    assert "; counted by both: 2.000" in text
    assert "the model is additive on the scale of predictions" in text
    assert "the interaction is computed for the Brier score, not for the squared error" in repr(
        with_parts("Brier score")
    )
    assert found.of_part("whole") is found
    assert found.of_part(None) is found.interaction
    assert found.of_part("shared") is found.shared
    for draw in (found.plot, found.plot_ranking):
        with pytest.raises(ValueError, match="part is None, 'whole', 'shared', 'interaction' or 'strength'; got 'all'"):
            draw(part="all")
        assert "strength of it, of predictions" in drawn_words(draw(part="strength"))
    plain = made()
    assert np.isnan(plain.interaction.index).all()
    assert plain.interaction.absent == "only what pair_interactions returns has parts"
    with pytest.raises(ValueError, match="only what pair_interactions returns has parts"):
        ends(plain.interaction, "a", "b")


def drawn_words(ax):
    """All texts of a figure."""
    return " ".join(" ".join(text.get_text() for text in ax.figure.findobj(Text)).split())


def test_notes_of_notebooks_are_about_columns_that_are_there():
    """A ± in the notes has one in the table, a p a column."""
    for found in (made(), with_parts(), with_parts().interaction):
        page = found._repr_html_()
        assert ("±: standard error" in page) == ("± 0." in page)
        assert ("p: test of 0" in page) == ("<th>p</th>" in page)
    plain = Interactions(NAMES, INDEX, "Shapley interaction index", "squared error", "pandas")._repr_html_()
    assert "±" not in plain
    assert "p: test" not in plain
    assert "even if the model only adds them" in plain


def test_intervals_are_students_around_the_u_statistic():
    found, reach = made(), 0.5 * student.ppf(0.95, UNITS - 1)
    low, high = ends(found, "a", "b", 0.9)
    assert (low, high) == pytest.approx(((2.04 - reach) / 1.02, 2.04 + reach))
    low, high = found.interval(0.9)
    assert (low[0, 1], high[1, 0]) == ends(found, "a", "b", 0.9)
    np.testing.assert_array_equal(found.low, found.low.T)
    np.testing.assert_array_equal(found.low, found.interval()[0])
    np.testing.assert_array_equal(found.high, found.interval()[1])
    assert np.isnan(found.low.diagonal()).all()


def test_skewed_estimates_have_bent_intervals_that_agree_with_the_test():
    """The interval at level 1 - p ends at 0; the end in the direction of the skewness is farther than Student's."""
    skewness = np.where(INDEX > 0, -0.3, 0.3)
    found, plain = made(skewness=skewness), made()
    low, high = ends(found, "a", "b")
    assert low < ends(plain, "a", "b")[0]
    assert high == ends(plain, "a", "b")[1]
    for pair in (("a", "b"), ("a", "c")):
        p = found.p[found._at(pair)]
        low, high = ends(found, *pair, level=1 - p)
        assert min(abs(low), abs(high)) == pytest.approx(0, abs=1e-9)
        assert p > plain.p[plain._at(pair)]
    decided = made(skewness=np.full((3, 3), 0.9))
    assert decided.to_frame()["caution"].tolist() == ["few rows decide", "few rows decide", ""]
    assert "a and b, a and c: a few rows decide this number" in repr(decided)
    assert "the effective number of groups is 5" in repr(made(units=5, grouped=True))


def test_tests_are_two_sided_students_and_holms():
    found = made()
    by_hand = np.array([2 * student.sf(2.04 / 0.5, UNITS - 1), 2 * student.sf(0.51 / 0.4, UNITS - 1), 1.0])
    upper = np.triu_indices(3, 1)
    np.testing.assert_allclose(found.p[upper], by_hand)
    np.testing.assert_allclose(found.p_adjusted[upper], adjusted(by_hand, "holm"))
    np.testing.assert_array_equal(found.p, found.p.T)
    np.testing.assert_array_equal(found.p_adjusted, found.p_adjusted.T)


def test_the_frame_has_the_strongest_pair_first():
    frame = made().to_frame()
    columns = ["first", "second", "counted_by_both", "std_error", "low", "high", "p", "p_adjusted"]
    assert list(frame.columns) == [*columns, "caution"]
    split = with_parts().to_frame()
    more = [name + end for name in ("counted_by_both", "shared", "strength") for end in ("", *TESTED)]
    assert list(split.columns) == [*columns[:2], "interaction", *columns[3:], *more, "caution"]
    pd.testing.assert_frame_equal(split[[*columns[:2], "interaction", *columns[3:], "caution"]],
                                  with_parts().interaction.to_frame())  # fmt: skip
    whole = split.set_index(["first", "second"]).loc[frame.set_index(["first", "second"]).index]
    for end, name in zip(("", *TESTED), ["counted_by_both", *columns[3:]], strict=True):
        np.testing.assert_array_equal(whole[f"counted_by_both{end}"], frame[name])
    assert list(frame["first"] + frame["second"]) == ["ab", "ac", "bc"]
    np.testing.assert_allclose(frame["counted_by_both"], [2, -0.5, 0])
    np.testing.assert_allclose(frame["std_error"], [0.5, 0.4, 0])
    low, high = ends(made(), "a", "c")
    assert (frame["low"][1], frame["high"][1]) == (low, high)


def test_pairs_without_an_error_say_why():
    error = ERROR.copy()
    error[0, 1] = error[1, 0] = np.nan
    found = made(std_error=error, absent="too few rows")
    assert np.isnan([found.low[0, 1], found.p[0, 1], found.p_adjusted[0, 1]]).all()
    assert found.p_adjusted[0, 2] == pytest.approx(2 * found.p[0, 2])  # two tests are left
    with pytest.raises(ValueError, match="no interval: too few rows"):
        ends(found, "a", "b")
    assert "(no interval for 1 of the pairs: too few rows)" in repr(found)
    assert "no interval for any of the pairs: because" in repr(made(std_error=None, absent="because"))
    plain = Interactions(NAMES, INDEX, "Shapley interaction index", "squared error", "pandas")
    assert np.isnan(plain.to_frame()[["std_error", "low", "high", "p", "p_adjusted"]]).all(axis=None)
    assert "no interval" not in repr(plain)
    with pytest.raises(ValueError, match="the standard error is unknown"):
        ends(plain, "a", "b")


def test_what_a_result_says_of_itself():
    text = repr(made(n_predictions=1234))
    low, high = ends(made(), "a", "b")
    assert f"a, b  2.000 ± 0.500 ({low:.3f} to {high:.3f}), p = " in text
    assert "the model predicted 1,234 rows" in text
    page = made()._repr_html_()
    assert "95% interval" in page
    assert "a, b" in page


@pytest.mark.parametrize("pair", [("a", "z"), "ab", ("a", "b", "c")], ids=str)
def test_unknown_pairs_are_refused(pair):
    with pytest.raises(KeyError, match=r"two names|unknown feature"):
        _ = made()[pair]


def test_parts_are_saved(tmp_path):
    with_parts().save(tmp_path / "parts.losslens")
    loaded = ll.load(tmp_path / "parts.losslens")
    pd.testing.assert_frame_equal(loaded.to_frame(), with_parts().to_frame())
    assert repr(loaded) == repr(with_parts())


def test_files_bring_everything_back(tmp_path):
    path = tmp_path / "new.losslens"
    made(n_predictions=7).save(path)
    loaded = ll.load(path)
    pd.testing.assert_frame_equal(loaded.to_frame(), made().to_frame())
    assert repr(loaded) == repr(made(n_predictions=7))
