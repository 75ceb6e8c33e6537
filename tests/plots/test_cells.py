"""Single cells as a map, local importances as dots."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection, QuadMesh
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer

import losslens as ll
from losslens.plots.cells import MOST_MAPPED
from losslens.plots.shapley_effect import MOST_DOTS
from losslens.plots.wording import number
from pictures import LONG, caption, inside, looked_at, no_overlap, texts
from results_to_draw import N, importance, response, scored, table, three_models


@pytest.fixture(scope="module")
def models():
    return three_models()


@pytest.fixture(scope="module")
def imp():
    return importance(table())


def mesh(ax):
    (found,) = [c for c in ax.collections if isinstance(c, QuadMesh)]
    return found


def test_cells_are_sorted_by_local_importance(imp):
    one = imp["x0"]
    ax = looked_at(one.plot_cells())
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
    ax = looked_at(one.plot_cells())
    cells = np.asarray(mesh(ax).get_array())
    assert len(cells) == MOST_MAPPED
    np.testing.assert_array_equal(cells[0], one.ici[one.local.argmax()])
    np.testing.assert_array_equal(cells[-1], one.ici[one.local.argmin()])
    assert f"{MOST_MAPPED} of {MOST_MAPPED + 60} rows" in caption(ax)


def test_cells_that_nobody_met_are_grey():
    ax = looked_at(importance(table(), donors=ll.Latin(3))["x0"].plot_cells())
    assert np.ma.getmaskarray(mesh(ax).get_array()).any() or np.isnan(np.asarray(mesh(ax).get_array())).any()
    assert "grey: value not paired with the row" in caption(ax)


@pytest.mark.parametrize("features", [{"both": ["x0", "x1"]}, [("x0", "x1")]])
def test_cells_of_several_columns_go_by_their_mean(features):
    (one,) = importance(table(), features=features).values()
    ax = looked_at(one.plot_cells())
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
        ax = looked_at(result.plot_local())
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
    ax = looked_at(imp.plot_local())
    assert len(dots(ax)) == MOST_DOTS
    assert f"{MOST_DOTS:,} of {n:,} rows in each line" in caption(ax)
    assert "beyond the axis, drawn at its ends" in caption(ax)


def test_twenty_lines_with_long_names_are_legible():
    ax = looked_at(importance(table(20, name=LONG)).plot_local())
    shown = ax.get_yticklabels()
    assert len(set(texts(shown))) == 20
    assert no_overlap(shown)
    assert inside(ax, [*shown, *ax.texts, ax.xaxis.label])
    ax = looked_at(importance(table(30)).plot_local())
    assert "10 less important features not shown" in caption(ax)


def test_what_has_no_local_importances_says_why(models):
    with pytest.raises(ValueError, match="only curves"):
        importance(table(), features=[("x0", "x1")]).plot_local()
    X = table()
    scores = ll.feature_importance(LinearRegression().fit(X, response(X)), X, response(X), loss=get_scorer("r2"))
    with pytest.raises(ValueError, match="local importance"):
        scores.plot_local()
    with pytest.raises(ValueError, match="no shares of single rows"):
        scored().plot_local()


def test_dots_have_the_colour_of_the_value_of_their_row(imp):
    ax = looked_at(imp.plot_local())
    (found,) = [c for c in ax.collections if isinstance(c, PathCollection)]
    at, rank = dots(ax), np.ma.getdata(found.get_array())
    names = [text.get_text().split(" (")[0] for text in ax.get_yticklabels()]
    for line, name in enumerate(names):
        here = np.abs(at[:, 1] - line) < 0.5
        one = imp[name]
        expected = pd.Series(one.values[0][one.layout.own]).rank().to_numpy()
        expected = (expected - expected.min()) / (expected.max() - expected.min())
        local = np.clip(one.local, at[:, 0].min(), at[:, 0].max())
        order = np.lexsort((rank[here], at[here, 0])), np.lexsort((expected, local))
        np.testing.assert_allclose(rank[here][order[0]], expected[order[1]], atol=1e-6)
    assert [label.get_text() for label in ax.figure.axes[1].get_yticklabels()] == ["low", "high"]
    plain = looked_at(imp.plot_local(color=None))
    assert len(plain.figure.axes) == 1
    with pytest.raises(ValueError, match="color is 'value' or None"):
        imp.plot_local(color="size")


def test_panels_name_the_peak_of_each_curve_and_share_an_axis(imp):
    axes = imp.plot_curves(top=2)
    assert len(axes) == 2
    assert axes[0].get_ylim() == axes[1].get_ylim()
    first = imp._ranked[0]
    assert f"+{number(first.pi.max())}" in axes[0].texts[-1].get_text()
    (shared,) = axes[0].figure.legends  # of panels whose PFI differ
    assert "PFI" in [text.get_text() for text in shared.get_texts()]
