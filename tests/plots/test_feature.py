"""What is drawn of one feature, as data and artists; a warning while drawing is an error here."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, PathCollection, QuadMesh
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer

import losslens as ll
from features_to_draw import N, explain, explain_column, model, word_length, words
from losslens.plots import feature_data
from losslens.plots.canvas import BLUE, GREEN, SINGLE, VERMILLION
from losslens.plots.feature_data import MOST_CURVES
from losslens.plots.look import Look
from losslens.results.feature import take_rows
from pictures import caption, inside, legend, looked_at, named, names_of_curves, no_overlap, texts


@pytest.fixture(scope="module", name="X")
def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 3))


@pytest.fixture(scope="module")
def imp(X):
    return explain(X)


# -- one feature: curves ----------------------------------------------------------------------------------------------


def test_curves_of_an_importance(imp):
    one = imp["x0"]
    ax = looked_at(one.plot())
    pi = named(ax, "PI")
    np.testing.assert_array_equal(pi.get_xdata(), one.grid)
    np.testing.assert_array_equal(pi.get_ydata(), one.pi)
    assert pi.get_color() == BLUE
    assert ax.get_xlabel() == "x0"
    assert ax.get_ylabel() == "increase in squared error"


def test_the_pfi_is_a_horizontal_line(imp):
    ax = imp["x0"].plot()
    np.testing.assert_array_equal(named(ax, "PFI").get_ydata(), imp["x0"].pfi)
    zero = [line for line in ax.lines if np.all(np.equal(line.get_ydata(), 0.0)) and len(line.get_xdata()) == 2]
    assert zero


def test_all_curves_of_few_rows_are_drawn(imp):
    ax = imp["x0"].plot()
    curves = named(ax, "ICI")
    assert curves.get_rasterized()
    drawn = np.array([segment[:, 1] for segment in curves.get_segments()])
    np.testing.assert_array_equal(drawn[np.argsort(drawn[:, 0])], imp["x0"].ici[np.argsort(imp["x0"].ici[:, 0])])
    assert f"ICI, {N} rows" in legend(ax)


def test_the_two_extreme_rows_are_highlighted_and_named(imp):
    one = imp["x0"]
    ax = one.plot()
    for row, place, colour in ((one.local.argmax(), "largest", VERMILLION), (one.local.argmin(), "smallest", GREEN)):
        (name,) = (name for name in legend(ax) if name.startswith(f"row {row} (mean "))
        line = named(ax, f"row {row} (mean")
        assert name.endswith(f", the {place})")  # of the whole curve: it may end at quite another height
        np.testing.assert_array_equal(line.get_ydata(), one.ici[row])
        assert line.get_color() == colour


def test_rows_keep_their_names_in_a_part_of_the_data(imp):
    rows = np.arange(20, 40)
    part = imp["x0"].given(rows)
    ax = part.plot()
    assert any(re.match(rf"row {20 + part.local.argmax()} .*largest\)", name) for name in legend(ax))
    assert "ICI, 20 rows" in legend(ax)


def test_many_rows_are_thinned_and_the_extremes_stay():
    X = np.random.default_rng(3).normal(size=(500, 2))
    one = explain(X, features=["x0"], donors=ll.Grid(20))["x0"]
    ax = one.plot()
    assert f"ICI, {MOST_CURVES} of 500 rows" in legend(ax)
    drawn = [tuple(segment[:, 1]) for segment in named(ax, "ICI").get_segments()]
    assert len(drawn) == MOST_CURVES
    assert tuple(one.ici[one.local.argmax()]) in drawn
    assert tuple(one.ici[one.local.argmin()]) in drawn


def test_the_axis_is_cut_for_far_rows_and_says_so(X):
    X = X.copy()
    y = model(X)
    y[7] += 500
    one = ll.feature_importance(model, X, y, loss="squared_error")["x0"]
    ax = looked_at(one.plot())
    low, high = ax.get_ylim()
    assert low < one.pi.min() < one.pi.max() < high < one.ici.max()
    span = max(one.pi.max(), 0) - min(one.pi.min(), 0)
    assert span > (high - low) / 6  # the mean is no flat line, though its band is wide
    out = np.sum((one.ici > high).any(axis=1) | (one.ici < low).any(axis=1))
    said = re.search(rf"the axis follows PI: (\d+) of {N} curves run beyond it", caption(ax))
    assert int(said[1]) >= out >= 1
    assert "the band runs beyond the axis" in caption(ax)


def test_nothing_is_cut_where_rows_are_near(imp):
    # A feature that acts alike on all rows.
    X = np.random.default_rng(0).normal(size=(50, 2))
    one = ll.feature_importance(lambda X: X[:, 0], X, 0 * X[:, 0], loss="absolute_error")["x0"]
    ax = looked_at(one.plot())
    assert "beyond" not in caption(ax)
    assert ax.get_ylim()[0] < one.ici.min()
    assert ax.get_ylim()[1] > one.ici.max()


def test_names_of_curves_stand_at_their_ends(imp):
    """In their order, without overlap, right of the values and on the page; narrow axes have a legend."""
    ax = looked_at(imp["x0"].plot())
    names, pi = names_of_curves(ax), named(ax, "PI")
    assert no_overlap(names)
    assert inside(ax, names)
    (own,) = [text for text in names if text.get_text() == "PI"]
    box, end = own.get_window_extent(), ax.transData.transform((pi.get_xdata()[-1], pi.get_ydata()[-1]))
    assert box.x0 > end[0]
    assert abs((box.y0 + box.y1) / 2 - end[1]) < 2 * box.height
    assert max(ax.get_xticks()) <= pi.get_xdata().max()


def test_curves_stay_clear_of_the_legend(imp):
    ax = looked_at(imp["x0"].plot(ax=plt.subplots(figsize=(3.2, 4))[1]))
    bottom = ax.get_legend().get_window_extent().y0
    for artist in [*ax.lines, *ax.collections]:
        if artist.get_gid() == SINGLE:
            assert artist.get_clip_box().y1 <= bottom + 6
    top = ax.transData.transform((0, imp["x0"].pi.max()))[1]
    assert top < bottom


def test_the_strip_holds_the_distribution():
    X = np.random.default_rng(0).integers(0, 4, size=(N, 2)).astype(float)
    one = explain(X)["x0"]
    ax = one.plot()
    heights = np.array([segment[1, 1] for segment in named(ax, "distribution").get_segments()])
    np.testing.assert_allclose(heights / heights.sum(), one.weights)


def test_integers_have_ticks_at_integers():
    X = np.random.default_rng(0).integers(0, 4, size=(N, 2))
    ax = looked_at(explain(X)["x0"].plot())
    assert all(float(tick).is_integer() for tick in ax.get_xticks())
    assert named(ax, "PI").get_marker() == "o"  # few values are marked


def test_effects_draw_the_same_way(imp):
    effect = imp["x0"].effect
    ax = looked_at(effect.plot())
    np.testing.assert_array_equal(named(ax, "PD").get_ydata(), effect.pd)
    assert len(named(ax, "ICE").get_segments()) == N
    assert ax.get_ylabel() == "prediction"
    assert not any(name.startswith("PFI") for name in legend(ax))
    highest = (effect.ice @ effect.weights).argmax()
    np.testing.assert_array_equal(named(ax, f"row {highest} (mean").get_ydata(), effect.ice[highest])


def test_axes_of_importances_are_cut_at_far_rows_and_those_of_effects_never(imp):
    from losslens.plots.feature_data import show

    far = np.append(np.zeros(50), 1e9)
    low, high = show(imp["x0"], Look()).limits(far)
    assert np.isfinite([low, high]).all()
    assert high < 1e9
    assert show(imp["x0"].effect, Look()).limits(far) == (-np.inf, np.inf)


def test_effects_far_from_zero_fill_their_axis(X):
    effect = ll.feature_effect(lambda X: 25_000 + 1000 * X[:, 0], X)["x0"]
    low, high = looked_at(effect.plot()).get_ylim()
    assert low > 15_000
    assert np.ptp(effect.ice) > 0.5 * (high - low)


def test_an_effect_on_a_class_names_it(X):
    classifier = LogisticRegression().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    effect = ll.feature_effect(classifier, X)["x0"]
    assert looked_at(effect.plot()).get_ylabel() == "prediction for class yes"


@pytest.mark.parametrize("letters", [30, 31])
def test_a_long_name_of_a_class_is_shortened_to_thirty_letters(X, letters):
    classifier = LogisticRegression().fit(X, np.where(X[:, 0] > 0, letters * "y", "no"))
    shown = ll.feature_effect(classifier, X)["x0"].plot().get_ylabel().split("class")[1].strip()
    assert len(shown) == 30
    assert (shown == letters * "y") == (letters == 30)


def test_methods_of_results_draw(imp):
    ax = plt.figure().add_subplot()
    assert imp["x0"].plot(ax) is ax
    assert imp["x0"].effect.plot().get_ylabel() == "prediction"
    assert texts(imp.plot().get_yticklabels())[0] == max(imp, key=lambda name: imp[name].pfi)


# -- one feature: designs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", [ll.Permutations(4), ll.Latin(4), ll.Derangements(4)])
def test_estimates_from_donors_of_each_row_are_points(X, design):
    one = explain(X, features=["x0"], donors=design)["x0"]
    ax = looked_at(one.plot())
    (points,) = [c for c in ax.collections if isinstance(c, PathCollection)]
    met = np.isfinite(one.pi)
    np.testing.assert_allclose(points.get_offsets(), np.column_stack((one.grid[met], one.pi[met])))
    assert not [c for c in ax.collections if isinstance(c, LineCollection) and c.get_gid() == SINGLE]
    assert "points, not curves" in caption(ax)
    assert len(named(ax, "ICI").get_xdata()) == N * 4
    row = one.local.argmax()
    np.testing.assert_allclose(
        np.sort(named(ax, f"row {row}").get_ydata()), np.sort(one.ici[row][~np.isnan(one.ici[row])])
    )


def test_points_are_sized_by_weight():
    X = np.random.default_rng(0).integers(0, 3, size=(N, 2)).astype(float) ** 2
    one = explain(X, features=["x0"], donors=ll.Permutations(4))["x0"]
    (points,) = [c for c in one.plot().collections if isinstance(c, PathCollection)]
    sizes = points.get_sizes()
    np.testing.assert_array_equal(np.argsort(sizes), np.argsort(one.weights))


def test_rank_bins_are_a_marked_line(X):
    one = explain(X, features=["x0"], donors=ll.Systematic(8))["x0"]
    pi = named(looked_at(one.plot()), "PI")
    np.testing.assert_array_equal(pi.get_xdata(), one.grid)
    assert pi.get_marker() == "o"
    assert pi.get_linestyle() == "-"


def test_values_of_the_users_own_have_no_pfi_and_no_distribution(X):
    one = explain(X, features=["x0"], donors=ll.Grid(values=[-1.0, 0.0, 2.0]))["x0"]
    ax = looked_at(one.plot())
    assert not any(name.startswith(("PFI", "distribution")) for name in legend(ax))
    assert any("the largest)" in name for name in legend(ax))
    np.testing.assert_array_equal(named(ax, "PI").get_ydata(), one.pi)


@pytest.mark.parametrize(
    "design",
    [ll.All(), ll.Derangements(), ll.Grid(5), ll.Grid(5, at="quantiles"), ll.Systematic(4), ll.Latin(2)],
)
def test_every_design_draws(X, design):
    for one in explain(X, donors=design).values():
        looked_at(one.plot())
        looked_at(one.effect.plot())
        plt.close("all")


def test_streamed_results_say_how_many_rows_they_keep():
    X = np.random.default_rng(3).normal(size=(400, 2))
    imp = explain(X, features=["x0", "x1"], donors="all", memory="2 MiB")
    one = imp["x0"]
    assert not one.complete
    ax = looked_at(one.plot())
    assert f"ICI, {min(len(one.rows), MOST_CURVES)} of 400 rows" in legend(ax)
    kept = one.rows[one.local[one.rows].argmax()]
    assert any(re.match(rf"row {kept} .*, the largest kept\)", name) for name in legend(ax))
    looked_at(one.effect.plot())
    looked_at(imp.plot())


def test_a_streamed_part_draws():
    X = np.random.default_rng(3).normal(size=(400, 2))
    one = explain(X, features=["x0"], donors="all", memory="1 MiB")["x0"].given(np.arange(100, 400))
    ax = looked_at(one.plot())
    best = one.cells.rows[one.local[np.searchsorted(one.at, one.cells.rows)].argmax()]
    assert any(re.match(rf"row {best} .*largest", name) for name in legend(ax))


def test_a_result_that_keeps_no_row_draws(X):
    for name, one in (("x0", explain(X)["x0"]), ("z", explain_column(words(ordered=False), word_length))):
        bare = replace(one, cells=take_rows(one.cells, np.empty(0, np.intp)))
        assert bare.name == name
        ax = looked_at(bare.plot())
        assert not any(name.startswith("ICI") for name in legend(ax))
        looked_at(bare.effect.plot())


def test_one_row_draws(imp):
    for name in imp:
        ax = looked_at(imp[name].given([3]).plot())
        assert "ICI, 1 row" in legend(ax)
        assert not any(name.startswith("row") for name in legend(ax))
        looked_at(imp[name].given([3]).effect.plot())


def test_two_rows_of_data_draw(X):
    imp = explain(X[:2])
    looked_at(imp.plot())
    for one in imp.values():
        looked_at(one.plot())


def test_weighted_rows_draw(X):
    imp = explain(X, sample_weight=np.arange(N) % 3)
    looked_at(imp.plot())
    looked_at(imp["x0"].plot())


def test_a_constant_feature_draws():
    one = explain_column(np.full(N, 3), lambda z: z.to_numpy(float))
    ax = looked_at(one.plot())
    assert "PFI, 0" in legend(ax)
    assert not any(name.startswith("row") for name in legend(ax))
    assert named(ax, "PI").get_marker() == "o"


# -- groups, pairs, scores --------------------------------------------------------------------------------------------


def test_a_group_shows_its_local_importances(X):
    one = explain(X, features={"both": ["x0", "x1"]})["both"]
    ax = looked_at(one.plot())
    assert sum(bar.get_height() for bar in ax.patches) == N
    assert ax.get_ylabel() == "rows"
    assert "both is 2 columns (x0, x1) without a common axis" in caption(ax)
    np.testing.assert_array_equal(named(ax, "PFI").get_xdata(), one.pfi)
    assert any(re.match(rf"row {one.local.argmax()} .*largest\)", name) for name in legend(ax))


@pytest.mark.parametrize("design", ["all", ll.Latin(3), ll.Grid(5)])
def test_groups_draw_under_every_design(X, design):
    one = explain(X, features={"both": ["x0", "x1"]}, donors=design)["both"]
    looked_at(one.given([1]).plot())
    ax = looked_at(one.effect.plot())
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1)
    assert "the values of its PD" in caption(ax)


def test_a_pair_is_a_heat_map(X):
    one = explain(X, features=[("x0", "x1")])["x0", "x1"]
    ax = looked_at(one.plot())
    (mesh,) = [some for some in ax.collections if isinstance(some, QuadMesh)]
    np.testing.assert_array_equal(mesh.get_array(), one.pi.T)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "x1")
    assert mesh.colorbar.ax.get_ylabel() == "increase in squared error"
    assert no_overlap(ax.get_yticklabels())
    assert looked_at(one.effect.plot()).collections[0].colorbar.ax.get_ylabel() == "prediction"


def test_colours_part_at_zero_where_the_map_has_both_signs(X):
    one = ll.feature_importance(model, X, -model(X), loss="squared_error", features=[("x0", "x1")])["x0", "x1"]
    assert one.pi.min() < 0 < one.pi.max()
    low, high = looked_at(one.plot()).collections[0].get_clim()
    assert low == -high


def test_a_pair_of_words_draws():
    table = pd.DataFrame({"a": words(ordered=False, missing=True), "b": words(ordered=True)})

    def predict(table):
        return word_length(table["a"]) * word_length(table["b"])

    one = ll.feature_importance(predict, table, predict(table) + 1, loss="squared_error", features=[("a", "b")])[
        "a", "b"
    ]
    ax = looked_at(one.plot())
    assert "missing" in texts(ax.get_xticklabels())


@pytest.mark.parametrize("features", [None, {"both": ["x0", "x1"]}])
def test_scores_draw_their_curve_alone(X, features):
    regressor = LinearRegression().fit(X, X[:, 0])
    scores = ll.feature_importance(
        regressor, X, X[:, 0], loss=get_scorer("r2"), donors="all", features=features, random_state=0
    )
    ax = looked_at(scores.plot())
    assert ax.get_xlabel() == "decrease in r2_score"
    assert "score as it is: 1.00" in caption(ax)
    for one in scores.values():
        ax = looked_at(one.plot())
        assert "decrease in r2_score" in (ax.get_ylabel(), ax.get_xlabel())
    if features is None:
        np.testing.assert_array_equal(named(scores["x0"].plot(), "PI").get_ydata(), scores["x0"].pi)
        assert [name.split()[0] for name in legend(scores["x0"].plot())] == ["PI", "distribution"]


def test_a_score_without_a_curve_says_why(X):
    regressor = LinearRegression().fit(X, X[:, 0])
    scores = ll.feature_importance(
        regressor, X, X[:, 0], loss=get_scorer("neg_median_absolute_error"), donors=ll.Latin(3)
    )
    with pytest.raises(ValueError, match="no PI curve"):
        scores["x0"].plot()


def test_saved_results_draw(imp, tmp_path):
    imp.save(tmp_path / "r.losslens")
    back = ll.load(tmp_path / "r.losslens")
    assert legend(back["x0"].plot()) == legend(imp["x0"].plot())


# -- the user's axes and odd shapes -----------------------------------------------------------------------------------


def test_pictures_draw_side_by_side_and_one_over_the_other(imp):
    axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")[1]
    imp.plot(ax=axes[0])
    imp["x0"].plot(ax=axes[1])
    imp["x0"].effect.plot(ax=axes[2])
    for part in imp["x0"].by(np.arange(N) % 2).values():
        part.plot(ax=axes[1])
    for ax in axes:
        looked_at(ax)
    assert len(plt.get_fignums()) == 1


def test_subfigures_are_figures(imp):
    part = plt.figure(layout="constrained").subfigures(1, 2)[0]
    for result in (imp, imp["x0"]):
        ax = part.add_subplot()
        result.plot(ax=ax)
        part.figure.canvas.draw()
    pair = explain(np.eye(4), features=[("x0", "x1")])["x0", "x1"]
    pair.plot(ax=part.add_subplot())
    part.figure.canvas.draw()


def test_pdf_and_svg_can_be_written(imp, tmp_path):
    for kind in ("pdf", "svg"):
        imp["x0"].plot().figure.savefig(tmp_path / f"x.{kind}")


@settings(max_examples=6)
@given(
    n=st.integers(2, 12),
    p=st.integers(1, 3),
    values=st.sampled_from([1, 2, 5, 1000]),
    scale=st.sampled_from([0.0, 1e-8, 1.0, 1e8]),
    name=st.text(st.characters(codec="latin-1", exclude_categories=["C"]), min_size=1, max_size=80),
)
def test_odd_shapes_draw(n, p, values, scale, name):
    rng = np.random.default_rng(n)
    X = pd.DataFrame(rng.integers(0, values, size=(n, p)), columns=[f"{name}{j}" for j in range(p)])
    imp = ll.feature_importance(lambda X: scale * X.to_numpy(float)[:, 0], X, np.ones(n), loss="squared_error")
    looked_at(imp.plot())
    for one in imp.values():
        looked_at(one.plot())
        looked_at(one.effect.plot())
    plt.close("all")


def test_mean_predictions_of_rows_are_over_their_own_donors(X):
    """No row is its own donor: every row has its own weights on the common grid."""
    singles = feature_data.show(explain(X, donors=ll.Derangements())["x0"].effect, Look()).singles
    for row, integral in zip(singles.rows, singles.integral, strict=True):
        others = np.delete(X, row, axis=0)
        assert integral == pytest.approx(model(np.column_stack([others[:, 0], np.tile(X[row, 1:], (N - 1, 1))])).mean())


def test_a_value_of_a_common_grid_has_a_cell_of_every_row(X):
    singles = feature_data.show(explain(X, donors=ll.Derangements())["x0"], Look()).singles
    for k, (cells, weight) in zip([0, 7], singles.by_value(np.array([0, 7])), strict=True):
        np.testing.assert_array_equal(cells, singles.cells[:, k])
        np.testing.assert_array_equal(weight, singles.weight)


@pytest.mark.parametrize("letters", [60, 61])
def test_a_long_name_of_a_feature_is_shortened_to_sixty_letters(X, letters):
    table = pd.DataFrame(X[:, :2], columns=[letters * "a", "b"])
    imp = ll.feature_importance(lambda F: F.iloc[:, 0], table, X[:, 0], loss="squared_error")
    shown = imp[letters * "a"].plot().get_xlabel().replace("\n", "")
    assert len(shown) == 60
    assert (shown == letters * "a") == (letters == 60)


@pytest.mark.parametrize("of", ["importance", "effect"])
def test_curves_have_the_colour_of_the_feature_that_explains_their_shapes(of):
    """The slope of each row's ICE curve of x0 is its x2, and of no other column; what is given may be a column, too."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 4)), columns=["x0", "x1", "x2", "x3"])

    def predict(X):
        return X["x0"].to_numpy() * X["x2"].to_numpy() + 3 * X["x1"].to_numpy()

    given = {"loss": "squared_error"} if of == "importance" else {}
    found = getattr(ll, f"feature_{of}")(predict, X, *([predict(X)] if given else []), progress=False, **given)
    ax = looked_at(found["x0"].plot(partner=found))
    pale = named(ax, "IC")
    assert pale.colorbar.ax.get_ylabel() == "x2"
    assert len(pale.get_segments()) == len(pale.get_array()) == 80
    np.testing.assert_array_equal(np.sort(pale.get_array()), np.sort((X["x2"].rank() - 1) / 79))
    if of == "effect":
        slopes = [(segment[-1, 1] - segment[0, 1]) / np.ptp(segment[:, 0]) for segment in pale.get_segments()]
        np.testing.assert_array_equal(np.argsort(slopes), np.argsort(pale.get_array()))
    by_column = named(looked_at(found["x0"].plot(partner=X["x3"], labels={"x3": "wind"})), "IC")
    assert by_column.colorbar.ax.get_ylabel() == "wind"
    with pytest.raises(ValueError, match="partner has one value for each of the 80 rows"):
        found["x0"].plot(partner=[1, 2])
