"""Shares of models, groups of rows, single cells and HTML, as data and artists; the results are real ones."""

import base64
import re
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.collections import PathCollection, QuadMesh
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer

import losslens as ll
from losslens.plots.canvas import BLUE, VERMILLION
from losslens.plots.cells import MOST_MAPPED, plot_cells, plot_local
from losslens.plots.notebook import MOST_LINES, VIEWS, show
from losslens.plots.shapley_effect import MOST_DOTS
from losslens.plots.shares import COLOURS, SIDE, WIDTH, plot_shares, plot_waterfall
from losslens.plots.subgroups import LOOKS, plot_groups
from losslens.results.base import Stored
from losslens.text import in_digits
from pictures import caption, legend, looked_at, texts

N = 40
LONG = "the share of {} among all households of the municipality, in percent, as counted in the census".format
NAMES = ["größe", "Возраст", "$x_1$", "100 % of $", "_hidden", "a\nb", "<b>&\"'"]


@pytest.fixture(autouse=True)
def _clean_desk():
    before = dict(mpl.rcParams)
    yield
    assert dict(mpl.rcParams) == before  # no plot changes the user's style
    plt.close("all")


def table(p=4, n=N, name="x{}".format):
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(n, p)), columns=[name(j) for j in range(p)])


def slopes(p):
    return 10 * 0.75 ** np.arange(p)


def response(X):
    return X.to_numpy() @ slopes(X.shape[1]) + np.random.default_rng(1).normal(scale=5, size=len(X))


def shapley(X, weights=None, **asked):
    weights = slopes(X.shape[1]) if weights is None else weights
    asked = {"loss": "squared_error", "random_state": 0} | asked
    return ll.shapley_importance(lambda X: X.to_numpy() @ weights, X, response(X), **asked)


def importance(X, **asked):
    weights = slopes(X.shape[1])
    asked = {"loss": "squared_error", "random_state": 0} | asked
    return ll.feature_importance(lambda X: X.to_numpy() @ weights, X, response(X), **asked)


def three_models(p=4, name="x{}".format):
    X = table(p, name=name)
    wrong = slopes(p) * np.where(np.arange(p) == 1, -0.6, 1.0)
    return {"good": shapley(X), "half": shapley(X, slopes(p) / 2), "wrong": shapley(X, wrong)}


@pytest.fixture(scope="module")
def models():
    return three_models()


@pytest.fixture(scope="module")
def imp():
    return importance(table())


def no_overlap(texts):
    boxes = sorted((t.get_window_extent() for t in texts if t.get_text()), key=lambda box: box.y0)
    return all(below.y1 <= above.y0 for below, above in pairwise(boxes))


def inside(ax, artist):
    box, page = artist.get_window_extent(), ax.figure.bbox
    return box.x0 >= -1 and box.y0 >= -1 and box.x1 <= page.x1 + 1 and box.y1 <= page.y1 + 1


# -- shares -----------------------------------------------------------------------------------------------------------


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


def scored():
    X = table(3)
    y = response(X)
    return ll.shapley_importance(LinearRegression().fit(X, y), X, y, loss=get_scorer("r2"), random_state=0)


def test_scores_go_up_from_the_score_without_features():
    result = scored()
    ax = looked_at(plot_shares({"linear": result}))
    top = max(bar.get_y() + bar.get_height() for c in ax.containers[:-1] for bar in c.patches)
    assert top == pytest.approx(-result.error_all + (-result.sfimp).clip(0).sum())
    assert ax.get_ylabel() == result.title
    ax = looked_at(plot_waterfall(result))
    starts = [bar.get_x() for bar in ax.patches]
    assert starts[0] == pytest.approx(-result.error_none)
    assert mpl.colors.to_hex(ax.patches[0].get_facecolor()).upper() == BLUE


def test_the_waterfall_goes_from_one_error_to_the_other(models):
    result = models["wrong"]
    ax = looked_at(plot_waterfall(result))
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
    ax = looked_at(plot_waterfall(result))
    shown = ax.get_yticklabels()
    assert no_overlap(shown)
    assert len(set(texts(shown))) == len(shown)
    assert all(inside(ax, text) for text in [*shown, ax.xaxis.label])
    total = sum(bar.get_width() for bar in ax.patches)
    assert total == pytest.approx(result.error_all - result.error_none)
    looked_at(plot_shares({"a": result}))


# -- groups -----------------------------------------------------------------------------------------------------------


def test_each_group_has_its_curve_its_importance_and_its_size(imp):
    parts = imp["x0"].by(np.where(np.arange(N) < 10, "early", "late"))
    ax = looked_at(plot_groups(parts))
    names = legend(ax)
    assert names[0] == f"early: {parts['early'].pfi:.3g} (n = 10)"
    assert names[1].endswith("(n = 30)")
    assert names[2].startswith("distribution")
    for line, part in zip(ax.lines[::2], parts.values(), strict=False):
        np.testing.assert_array_equal(line.get_ydata(), part.pi)
        np.testing.assert_array_equal(line.get_xdata(), part.grid)
    marks = [line.get_ydata()[0] for line in ax.lines if line.get_marker() == "<"]
    np.testing.assert_allclose(marks, [part.pfi for part in parts.values()])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "increase in squared error")


def test_one_group_is_the_whole(imp):
    ax = looked_at(plot_groups(imp["x0"].by(np.zeros(N))))
    np.testing.assert_allclose(ax.lines[0].get_ydata(), imp["x0"].pi)
    assert legend(ax)[0].startswith("0: ")


def test_effects_have_groups_without_a_number(imp):
    parts = imp["x0"].effect.by(np.arange(N) % 2)
    ax = looked_at(plot_groups(parts))
    assert legend(ax)[:2] == ["0 (n = 20)", "1 (n = 20)"]
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), parts[1].pd)
    assert ax.get_ylabel() == "prediction"


def test_the_largest_groups_are_shown_and_the_rest_is_counted(imp):
    groups = np.repeat(np.arange(12), [8, 8, 6, 4, 4, 3, 2, 1, 1, 1, 1, 1])
    ax = looked_at(plot_groups(imp["x0"].by(groups)))
    assert [name.split(":")[0] for name in legend(ax)[:-1]] == [str(k) for k in range(len(LOOKS))]
    assert "the largest 8 of 12 groups" in caption(ax)


@pytest.mark.parametrize("design", ["all", ll.Latin(4), ll.Grid(5), ll.Derangements(2), ll.Systematic(4)])
def test_groups_draw_under_every_design(design):
    one = importance(table(), donors=design)["x0"]
    looked_at(plot_groups(one.by(np.arange(N) % 3)))


def words(**asked):
    X = pd.DataFrame({"z": ["low", "medium", "high", "never"] * (N // 4), "w": np.linspace(-1, 1, N)})

    def predict(X):
        return X["z"].str.len().to_numpy() * (1.0 + X["w"].to_numpy())

    return ll.feature_importance(predict, X, predict(X) + X["w"], loss="squared_error", features=["z"], **asked)["z"]


def test_words_are_dots_a_row_for_each_value():
    one = words()
    parts = one.by(np.arange(N) < 25)
    ax = looked_at(plot_groups(parts))
    shown = ax.get_yticklabels()
    assert {text.split()[0] for text in texts(shown)} == {"low", "medium", "high", "never"}
    assert no_overlap(shown)
    for line, part in zip(ax.lines, parts.values(), strict=False):
        np.testing.assert_allclose(sorted(line.get_xdata()), sorted(part.pi))
    assert ax.get_xlabel() == "increase in squared error"
    assert ax.get_ylabel() == "z"
    looked_at(plot_groups(words(donors=ll.Latin(3)).by(np.arange(N) % 10)))
    small = plt.subplots(2, 2, layout="constrained")[1][0, 0]
    looked_at(plot_groups(parts, ax=small))


def test_groups_that_met_other_values_share_an_axis():
    one = words(donors=ll.Derangements(1))
    parts = {k: one.given([k, k + 1]) for k in range(5)}
    ax = looked_at(plot_groups(parts))
    assert len(ax.get_yticks()) == len({value for part in parts.values() for value in part.grid})
    numbers = importance(table(), donors=ll.Derangements(1))["x0"]
    looked_at(plot_groups({k: numbers.given([k, k + 1]) for k in range(5)}))


def test_what_has_no_common_axis_is_refused():
    found = importance(table(), features=["x0", "x1", ("x0", "x1")])
    halves = np.arange(N) % 2
    with pytest.raises(ValueError, match="several columns"):
        plot_groups(found["x0", "x1"].by(halves))
    with pytest.raises(ValueError, match="different features"):
        plot_groups({"a": found["x0"], "b": found["x1"]})
    with pytest.raises(ValueError, match="no group"):
        plot_groups({})


# -- cells ------------------------------------------------------------------------------------------------------------


def mesh(ax):
    (found,) = [c for c in ax.collections if isinstance(c, QuadMesh)]
    return found


def test_cells_are_sorted_by_local_importance(imp):
    one = imp["x0"]
    ax = looked_at(plot_cells(one))
    order = np.argsort(-one.local, kind="stable")
    np.testing.assert_array_equal(mesh(ax).get_array(), one.ici[order])
    assert ax.yaxis_inverted()  # the first is on top
    low, high = mesh(ax).get_clim()
    assert low == -high
    assert high == pytest.approx(np.quantile(np.abs(one.ici), 0.98))
    assert mesh(ax).colorbar.extend in ("max", "both")
    assert mesh(ax).colorbar.ax.get_ylabel() == "increase in squared error"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "rows, by local importance")
    assert caption(ax) == f"{N} rows"


def test_many_rows_are_thinned_and_both_ends_stay():
    one = importance(table(2, n=MOST_MAPPED + 60), donors=ll.Grid(5))["x0"]
    ax = looked_at(plot_cells(one))
    cells = np.asarray(mesh(ax).get_array())
    assert len(cells) == MOST_MAPPED
    np.testing.assert_array_equal(cells[0], one.ici[one.local.argmax()])
    np.testing.assert_array_equal(cells[-1], one.ici[one.local.argmin()])
    assert f"{MOST_MAPPED} of {MOST_MAPPED + 60} rows" in caption(ax)


def test_cells_that_nobody_met_are_grey():
    ax = looked_at(plot_cells(importance(table(), donors=ll.Latin(3))["x0"]))
    assert np.ma.getmaskarray(mesh(ax).get_array()).any() or np.isnan(np.asarray(mesh(ax).get_array())).any()
    assert "grey: never met" in caption(ax)


@pytest.mark.parametrize("features", [{"both": ["x0", "x1"]}, [("x0", "x1")]])
def test_cells_of_several_columns_go_by_their_mean(features):
    (one,) = importance(table(), features=features).values()
    ax = looked_at(plot_cells(one))
    means = np.asarray(mesh(ax).get_array()).mean(axis=0)
    assert (np.diff(means) >= -1e-9).all()
    assert "joint values, by their mean" in ax.get_xlabel()


def dots(ax):
    (found,) = [c for c in ax.collections if isinstance(c, PathCollection)]
    return np.asarray(found.get_offsets())


def test_local_importances_are_lines_of_dots(imp, models):
    for result, means in (
        (imp, {name: f.pfi for name, f in imp.items()}),
        (models["good"], dict(zip(models["good"].features, models["good"].sfimp, strict=True))),
    ):
        ax = looked_at(plot_local(result))
        order = sorted(means, key=lambda name: -means[name])
        assert [text.split(" (")[0] for text in texts(ax.get_yticklabels())] == order
        assert len(dots(ax)) == N * len(order)
        np.testing.assert_allclose(ax.lines[1].get_xdata(), [means[name] for name in order])
        first = dots(ax)[np.abs(dots(ax)[:, 1]) < 0.5][:, 0]
        local = result.local[:, 0]
        low, high = dots(ax)[:, 0].min(), dots(ax)[:, 0].max()
        np.testing.assert_allclose(np.sort(first), np.sort(np.clip(local, low, high)))
        assert ax.get_xlabel().endswith("crease in squared error, per row")


def test_dots_are_thinned_and_outliers_are_counted():
    n = MOST_DOTS + 200
    X = table(1, n=n)
    y = X.iloc[:, 0].to_numpy().copy()
    y[0] = 1e3
    imp = ll.feature_importance(lambda X: X.to_numpy()[:, 0], X, y, loss="squared_error", donors=ll.Grid(5))
    ax = looked_at(plot_local(imp))
    assert len(dots(ax)) == MOST_DOTS
    assert f"{MOST_DOTS:,} of {n:,} rows in each line" in caption(ax)
    assert "from beyond the axis" in caption(ax)


def test_twenty_lines_with_long_names_are_legible():
    ax = looked_at(plot_local(importance(table(20, name=LONG))))
    shown = ax.get_yticklabels()
    assert len(set(texts(shown))) == 20
    assert no_overlap(shown)
    assert all(inside(ax, text) for text in [*shown, *ax.texts, ax.xaxis.label])
    ax = looked_at(plot_local(importance(table(30))))
    assert "10 less important features not shown" in caption(ax)


def test_what_has_no_local_importances_says_why(models):
    with pytest.raises(ValueError, match="only curves"):
        plot_local(importance(table(), features=[("x0", "x1")]))
    X = table()
    scores = ll.feature_importance(LinearRegression().fit(X, response(X)), X, response(X), loss=get_scorer("r2"))
    with pytest.raises(ValueError, match="local importance"):
        plot_local(scores)
    with pytest.raises(ValueError, match="not known"):
        plot_local(scored())


# -- html -------------------------------------------------------------------------------------------------------------


def results(X):
    weights = slopes(X.shape[1])

    def predict(X):
        return X.to_numpy() @ weights

    imp, effects, shared = importance(X), ll.feature_effect(predict, X), shapley(X)
    forest = RandomForestRegressor(5, random_state=0, bootstrap=True).fit(X, response(X))
    scores = ll.feature_importance(LinearRegression().fit(X, response(X)), X, response(X), loss=get_scorer("r2"))
    return [
        imp,
        imp[X.columns[0]],
        scores,
        scores[X.columns[0]],
        shared,
        shared.curve(X.columns[0]),
        shared.curve(X.columns[0], by="donor"),
        *([shared.interactions] if X.shape[1] > 1 else []),
        effects,
        effects[X.columns[0]],
        *([ll.breiman_importance(forest, X, response(X))] if len(X) > 20 else []),
        ll.shapley_effect(predict, X, [0]),
        ll.shapley_effect(predict, X, list(range(min(3, len(X))))),
        *learners(X, predict),
        *([ll.regions(imp, X, target="importance", random_state=0, permutations=19)] if len(X) > 12 else []),
        *([imp.extrapolation] if len(X) > 20 else []),  # with fewer there is nothing to draw
        imp[X.columns[0]].row_influence,
        ll.observations(shared),
        ll.clusters(shared, X, random_state=0),
    ]


def learners(X, predict):
    """Results that take several models, or refits."""
    if len(X) < 12:
        return []
    y = response(X)
    refits = ll.feature_importance_cv(LinearRegression(), X, y, cv=3, random_state=0)
    return [
        refits,
        refits.curve(refits.features[0]),
        ll.permuted_target_test(LinearRegression(), X, y, cv=2, permutations=5, random_state=0),
        ll.leave_one_covariate_out(LinearRegression(), X, y, cv=2, how="constant", random_state=0),
        ll.conditional_predictive_impact(
            predict, X, y, lambda X, columns, rng: X.iloc[rng.permutation(len(X))], loss="squared_error"
        ),
        ll.compare({"one": predict, "other": lambda X: predict(X) / 2}, X, y, loss="squared_error", shapley=False),
    ]


def image(page):
    code = re.search(r'src="data:image/png;base64,([^"]+)"', page)
    return base64.b64decode(code[1]) if code else b""


def test_html_has_a_table_and_a_picture_and_leaves_no_figure():
    before = plt.get_fignums()
    for result in results(table()):
        page = result._repr_html_()
        assert page.count("<table>") == page.count("</table>") == 1
        assert image(page).startswith(b"\x89PNG")
        assert page.count("<div") == page.count("</div>")
    assert plt.get_fignums() == before


def test_html_has_the_numbers(imp, models):
    page = show(imp)
    for feature in imp.values():
        assert f'<td style="text-align: left">{feature.name}</td><td>{in_digits(feature.pfi)}</td>' in page
    assert page.index(">x0<") < page.index(">x3<")  # the most important first
    page = show(models["good"])
    assert f"{models['good'].share[0]:.1%}" in page


def test_every_result_shows_itself_in_a_notebook():
    for kind in Stored.kinds.values():
        assert hasattr(kind, "_repr_html_") or not hasattr(kind, "to_frame"), kind
    shown = results(table())
    for kind, _ in VIEWS:  # so that the other tests look at each
        assert any(isinstance(result, kind) for result in shown), kind


def test_html_of_curves_has_their_ends():
    X = table()
    effect = ll.feature_effect(lambda X: X.to_numpy() @ slopes(4), X)["x0"]
    assert f"<td>{in_digits(effect.pd.max())}</td>" in show(effect)
    curve = shapley(X).curve("x0")
    assert f"<td>{in_digits(curve.sfimp)}</td>" in show(curve)


def test_html_escapes_names():
    X = table(2, name=lambda j: f'<script>alert("{j}")</script>&')
    for result in results(X):
        page = show(result)
        assert "<script>" not in page
        if not isinstance(result, ll.Observations | ll.Clusters):  # they speak of rows
            assert "&lt;script&gt;alert(&quot;0&quot;)&lt;/script&gt;&amp;" in page


def test_html_of_many_features_is_cut_and_says_so():
    page = show(importance(table(MOST_LINES + 5, n=10)))
    assert page.count("<tr>") == MOST_LINES + 1
    assert "5 more not shown" in page


def test_html_without_a_picture_is_a_table():
    page = show(importance(table(), features=[("x0", "x1")]))
    assert "curves only" in page
    assert not image(page)


def test_html_of_scores_and_of_letters_that_the_font_lacks():
    X = table(2, name=lambda j: f"特徴{j}")
    scores = ll.feature_importance(LinearRegression().fit(X, response(X)), X, response(X), loss=get_scorer("r2"))
    assert "特徴0" in show(scores)
    assert image(show(scores))


def test_html_knows_what_it_shows():
    with pytest.raises(TypeError, match="no table for int"):
        show(3)


# -- odd shapes and the user's axes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES[:-1])
def test_names_are_text_and_nothing_else(name):
    X = table(2, name=lambda j: f"{name}{'' if j == 0 else j}")
    imp, shared, plain = importance(X), shapley(X), " ".join(name.split())
    assert plain in legend(looked_at(plot_shares({name: shared})))
    assert plain in texts(looked_at(plot_waterfall(shared)).get_yticklabels())
    assert plain in [text.rsplit(" (", 1)[0] for text in texts(looked_at(plot_local(imp)).get_yticklabels())]
    ax = looked_at(plot_groups({name: imp[name]}))
    assert ax.get_xlabel() == plain
    assert legend(ax)[0].startswith(plain)
    assert looked_at(plot_cells(imp[name])).get_xlabel() == plain


def draw_all(X, axes=None):
    imp, shared = importance(X), shapley(X)
    axes = iter([None] * 6 if axes is None else axes)
    looked_at(plot_shares({"one": shared, "two": shared}, ax=next(axes)))
    looked_at(plot_waterfall(shared, ax=next(axes)))
    looked_at(plot_local(imp, ax=next(axes)))
    looked_at(plot_local(shared, ax=next(axes)))
    one = imp[X.columns[0]]
    looked_at(plot_cells(one, ax=next(axes)))
    looked_at(plot_groups(one.by(np.arange(len(X)) % 2), ax=next(axes)))
    for result in results(X):
        show(result)


def test_one_row_draws(imp, models):
    looked_at(plot_cells(imp["x0"].given([3])))
    looked_at(plot_groups({"one": imp["x0"].given([3])}))
    looked_at(plot_local(imp.given([3])))
    looked_at(plot_waterfall(models["good"].given([3])))
    looked_at(plot_shares({"one": models["wrong"].given([3])}))
    assert image(show(imp.given([3])))


@settings(max_examples=4, deadline=None)
@given(n=st.integers(2, 8), p=st.integers(1, 3), values=st.sampled_from([1, 2, 1000]))
def test_odd_shapes_draw(n, p, values):
    rng = np.random.default_rng(n)
    draw_all(pd.DataFrame(rng.integers(0, values, size=(n, p)).astype(float), columns=[f"x{j}" for j in range(p)]))
    plt.close("all")


@pytest.mark.parametrize(("size", "layout"), [((7, 10), None), ((12, 12), "constrained")])
def test_pictures_draw_beside_each_other(size, layout):
    figure, axes = plt.subplots(3, 2, figsize=size, layout=layout)
    draw_all(table(), axes.ravel())
    assert tuple(figure.get_size_inches()) == size
    assert len(plt.get_fignums()) == 1
