import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer

import losslens as ll
from losslens.results.extrapolation import Extrapolation, Extrapolations
from losslens.results.replaced_rows import ReplacedRows
from losslens.tables import column_scores
from pictures import plot_groups

N = 300


def model(X):
    return np.asarray(X, float)[:, 0] ** 2 + np.asarray(X, float)[:, 1]


@pytest.fixture(scope="module", name="X")
def table():
    a, b, c = np.random.default_rng(0).normal(size=(3, N))
    return pd.DataFrame({"temp": a, "atemp": a + 0.1 * b, "wind": c})


@pytest.fixture(scope="module", name="imp")
def explained(X):
    imp = explain(X)
    assert len(imp.extrapolation) == 3  # pictures and text show what was computed before
    return imp


def explain(X, **asked):
    y = model(X) + np.random.default_rng(1).normal(size=len(X))
    return ll.feature_importance(model, X, y, loss="squared_error", random_state=0, **asked)


def caption(ax):
    return " ".join(text.get_text().replace("\n", " ") for text in ax.texts)


def test_tied_columns_warn_and_say_to_whom_they_are_tied(imp):
    found = imp.extrapolation
    assert set(found) == {"temp", "atemp", "wind"}
    assert set(found.warned) == {"temp", "atemp"}
    assert found["temp"].auc > 0.85
    assert 0.5 < found["temp"].share < 1
    assert not found["wind"].faded.any()
    sentence = found["temp"].sentence
    share = f"{found['temp'].share:.0%}"
    assert sentence.startswith(f"{share} of the rows with temp replaced are unlike any real one (a classifier")
    assert sentence.endswith("apart, AUC 0.96): temp is correlated with atemp; see Within() or Residual()")
    assert "could not be told from real ones" in found["wind"].sentence


def test_it_is_computed_when_asked_for_by_name_and_never_by_text_pictures_or_files(X, tmp_path):
    imp = explain(X)
    temp = imp["temp"]
    parts = [temp, *temp.by(np.arange(N) % 2).values(), temp.subset(np.arange(50)), temp.with_loss("absolute_error")]
    parts.append(temp.effect)
    before = repr(imp) + imp._repr_html_() + temp._repr_html_() + repr(temp)
    ax = imp.plot()  # with the mark of the screen, which computes no extrapolation
    assert {label.get_text() for label in ax.get_yticklabels()} == {"temp¹ †", "atemp¹ †", "wind"}
    assert "†: correlated with other features" in caption(ax)
    for part in parts:
        assert "unlike" not in caption(part.plot())
    plot_groups(temp.by(np.arange(N) % 2))
    imp.save(tmp_path / "unknown.losslens")
    copies = [ll.load(tmp_path / "unknown.losslens"), pickle.loads(pickle.dumps(imp))]
    parts += [copy["temp"] for copy in copies]
    assert all(isinstance(part.extrapolated, ReplacedRows) and not part.extrapolated.is_computed for part in parts)
    assert all(part.computed_extrapolation is None for part in parts)
    assert "unlike" not in before
    auc = temp.extrapolation.auc
    assert {part.extrapolation.auc for part in parts} == {auc}  # one answer for all
    for each in (imp, *copies):
        assert "unrealistic rows created by replacing values: temp" in repr(each)


@pytest.mark.parametrize("design", ["all", ll.Systematic(16), ll.Latin(4), ll.Grid(10), ll.Derangements()], ids=str)
def test_it_lies_on_the_grid_whatever_became_of_it(X, design):
    temp = explain(X, donors=design)["temp"]
    for part in (temp, temp.given(np.arange(40)), temp.subset(np.arange(150)), temp.effect):
        found = part.extrapolation
        assert found.at.shape == found.faded.shape == part.grid.shape
        np.testing.assert_array_equal(found.grid, part.grid)
        assert ((found.at >= 0) & (found.at <= 1)).all()


def test_a_changed_table_changes_nothing(X):
    mine = X.copy()
    imp, other = explain(mine), explain(X)
    mine["atemp"] = 0.0
    assert imp["temp"].extrapolation.auc == other["temp"].extrapolation.auc


def test_pairs_and_scores_have_none_and_groups_no_curve(X):
    imp = explain(X, features={"heat": ["temp", "atemp"]})
    assert not imp["heat"].extrapolation.warns
    assert imp["heat"].extrapolation.at.shape == (0,)
    pair = explain(X, features=[("temp", "wind")], donors=ll.Grid(5))
    assert pair["temp", "wind"].extrapolation is None
    assert len(pair.extrapolation) == 0
    line = LinearRegression().fit(X, X["temp"])
    scores = ll.feature_importance(line, X, X["temp"], loss=get_scorer("r2"), donors=ll.Latin(2))
    with pytest.raises(AttributeError, match="a score doesn't hold the rows"):
        scores["temp"].extrapolation  # noqa: B018
    with pytest.raises(ValueError, match="a score doesn't hold the rows"):
        scores.extrapolation  # noqa: B018


def test_effects_know_it_too(X, imp):
    effect = ll.feature_effect(model, X, donors="all")["temp"]
    assert effect.extrapolation.auc == imp["temp"].extrapolation.auc
    np.testing.assert_array_equal(effect.extrapolation.at, imp["temp"].extrapolation.at)


def test_files_and_pickles_hold_it(imp, tmp_path):
    imp.save(tmp_path / "result.losslens")
    for copy in (ll.load(tmp_path / "result.losslens"), pickle.loads(pickle.dumps(imp))):
        for name, one in imp.extrapolation.items():
            found = copy[name].extrapolation
            assert (found.auc, found.share, found.ties) == (one.auc, one.share, one.ties)
            np.testing.assert_array_equal(found.at, one.at)
        assert repr(copy) == repr(imp)
    imp.extrapolation.save(tmp_path / "alone.losslens")
    alone = ll.load(tmp_path / "alone.losslens")
    assert repr(alone) == repr(imp.extrapolation)


def test_results_of_older_versions_have_none(imp):
    old = replace(imp["temp"], extrapolated=None)
    assert old.extrapolation is None
    old.plot()


def test_the_frame_has_a_row_a_feature_the_clearest_first(imp):
    frame = imp.extrapolation.to_frame()
    assert list(frame.columns) == ["feature", "auc", "share", "warns", "tied_to"]
    assert frame["auc"].is_monotonic_decreasing
    assert frame["warns"].tolist() == [True, True, False]
    assert "extrapolation" not in "".join(imp.to_frame().columns)


def known(values, at, auc=0.9):
    return Extrapolation("f", auc, 0.4, np.asarray(values), np.asarray(at, float))


def test_numbers_and_dates_are_read_off_between_words_one_by_one():
    grid = np.array([-1.0, 0.5, 1.0, 9.0, np.nan])
    np.testing.assert_allclose(known([0.0, 1.0, np.nan], [0.2, 0.8, 1.0]).on(grid).at, [0.2, 0.5, 0.8, 0.8, 1.0])
    np.testing.assert_allclose(known([0.0, 1.0], [0.2, 0.8]).on(grid).at[-1], 0.4)  # nobody was missing: as for all
    days = np.array(["2024-01-01", "2024-01-03"], "M8[D]")
    wanted = np.array(["2024-01-02", "2024-01-03", "NaT"], "M8[ns]")
    np.testing.assert_allclose(known(days, [0.0, 1.0]).on(wanted).at, [0.5, 1.0, 0.4])
    ages = np.array(["2000-01-01", "9999-12-31"], "M8[s]")
    np.testing.assert_allclose(known(ages, [0.0, 1.0]).on(ages[:1] + np.diff(ages) // 2).at, [0.5])
    words = np.array(["a", "b", None], dtype=object)
    np.testing.assert_allclose(known(words, [0.1, 0.6, 0.9]).on(np.array(["b", None, "c"], object)).at, [0.6, 0.9, 0.4])


def test_only_what_warns_fades():
    assert known([0.0, 1.0], [0.4, 0.6]).faded.tolist() == [False, True]
    assert not known([0.0, 1.0], [0.4, 0.6], auc=0.6).faded.any()
    few = Extrapolation("f", np.nan, np.nan, np.empty(0), np.empty(0))
    assert few.on(np.array(["a", "b"], object)).faded.tolist() == [False, False]
    assert "too few rows" in known([0.0], [0.0], auc=np.nan).sentence


def test_one_line_on_many_features_names_the_first_ones():
    many = {f"x{k}": Extrapolation(f"x{k}", 0.9, k / 100, np.empty(0), np.empty(0)) for k in range(9)}
    note = Extrapolations(many).note
    assert note.startswith("unrealistic rows created by replacing values: x8 8%, x7 7%")
    assert "and 2 more" in note
    assert Extrapolations({}).note == ""
    assert repr(Extrapolations(many)).startswith(
        "Extrapolation: replaced one by one, 8 of 9 features create unrealistic rows"
    )


# -- pictures ---------------------------------------------------------------------------------------------------------


def test_the_curve_is_dashed_and_pale_where_it_stands_on_far_rows(imp):
    temp = imp["temp"]
    faded = temp.extrapolation.faded
    assert faded.any()
    ax = temp.plot()
    strong = next(line for line in ax.lines if line.get_label() == "PI")
    np.testing.assert_array_equal(np.isnan(strong.get_ydata()), faded)
    drawn = [np.isfinite(line.get_ydata()) & (line.get_ydata() == temp.pi) for line in ax.lines if line.is_dashed()
             and len(line.get_ydata()) == len(faded)]  # fmt: skip
    assert any((some >= faded).all() for some in drawn)
    assert "faded: over half of the rows there are unlike any real one" in caption(ax)


def test_without_a_warning_a_picture_is_as_ever(imp):
    ax = imp["wind"].plot()
    line = next(line for line in ax.lines if line.get_label() == "PI")
    np.testing.assert_array_equal(line.get_ydata(), imp["wind"].pi)
    assert "unlike" not in caption(ax)


def test_groups_fade_as_well(imp):
    ax = plot_groups(imp["temp"].by(np.arange(N) % 2))
    assert "thin and pale: over half of the rows there" in caption(ax)
    thin = [line for line in ax.lines if line.get_linewidth() == 0.9 and line.get_linestyle() != "None"]
    assert len(thin) == 2


def test_the_ranking_marks_features_that_warn_and_says_what_the_sign_means(imp):
    ax = imp.plot()
    marked = {label.get_text() for label in ax.get_yticklabels()}
    share = imp.extrapolation["temp"].percent, imp.extrapolation["atemp"].percent
    assert marked == {f"temp¹ † {share[0]}", f"atemp¹ † {share[1]}", "wind"}
    assert "¹: features that go together" in caption(ax)
    assert "†: a classifier distinguishes rows with the feature replaced from real ones (AUC > 0.6), and 1%" in caption(
        ax
    )


def test_words_have_hollow_dots():
    rng = np.random.default_rng(0)
    city = rng.choice(["Berlin", "Hamburg", "Rome", "Paris"], 400, p=[0.35, 0.35, 0.15, 0.15])
    land = np.where(np.isin(city, ["Berlin", "Hamburg"]), "Germany", np.where(city == "Rome", "Italy", "France"))
    X = pd.DataFrame({"city": city, "land": land})
    f = lambda X: (X["city"] == "Rome").to_numpy() * 2.0  # noqa: E731
    city = ll.feature_importance(f, X, f(X), loss="squared_error")["city"]
    assert city.extrapolation.warns
    # Of the rows that would be in Rome 15% are in Italy, of those in Berlin 70% in Germany.
    assert city.extrapolation.faded.tolist() == [False, False, True, True]
    ax = city.plot()
    assert "hollow dots: over half" in caption(ax)
    assert "hollow: over half" in caption(plot_groups(city.by(X["land"] == "Italy")))


def test_points_are_hollow(X):
    temp = explain(X, donors=ll.Latin(4))["temp"]
    assert temp.extrapolation.warns
    assert "hollow: over half" in caption(temp.plot())


def test_notebooks_show_the_warning(imp):
    assert "unrealistic rows created by replacing values" in imp._repr_html_()
    assert "temp is correlated with atemp" in imp["temp"]._repr_html_()
    assert "unlike" not in imp["wind"]._repr_html_()


def test_shares_are_drawn_and_shown_in_notebooks(imp):
    ax = imp.extrapolation.plot()
    assert {label.get_text() for label in ax.get_yticklabels()} == {"temp †", "atemp †", "wind"}
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, sorted((one.share for one in imp.extrapolation.values()), reverse=True))
    assert "replaced one by one, 2 of 3 features create unrealistic rows" in imp.extrapolation._repr_html_()


def test_columns_are_coded_on_first_access(monkeypatch):
    """Sorting them takes longer than the importances of a linear model."""
    coded, plain = [], column_scores.distinct_values

    def counted(*column):
        coded.append(column)
        return plain(*column)

    monkeypatch.setattr(column_scores, "distinct_values", counted)
    X = np.random.default_rng(0).normal(size=(100, 3))
    importances = ll.feature_importance(LinearRegression().fit(X, X[:, 0]), X, X[:, 0] + X[:, 1])
    assert coded == []
    assert "x0" in repr(importances)
    assert len(coded) == 3
    assert importances["x0"].extrapolation is not None
    assert len(coded) == 3
    assert importances["x1"].extrapolation is not None
    assert len(coded) == 3  # shared by all features
