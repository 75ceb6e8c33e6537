"""Groups of rows side by side."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

import losslens as ll
from losslens.plots.canvas import COLOURS
from pictures import caption, legend, looked_at, texts
from results_to_draw import N, importance, table

GROUPS = np.array(["north", "_south", "east"])[np.arange(N) % 3]


@pytest.fixture(scope="module")
def imp():
    return importance(table())


def test_each_group_of_one_feature_has_a_dot_and_its_interval(imp):
    parts = imp["x0"].by(GROUPS)
    ax = looked_at(parts.plot())
    assert texts(ax.get_yticklabels()) == [f"{label} (n = {(label == GROUPS).sum()})" for label in parts]
    dots, lines = ax.collections
    np.testing.assert_array_equal(dots.get_offsets()[:, 0], [part.pfi for part in parts.values()])
    ends = [segment[:, 0] for segment in lines.get_segments()]
    np.testing.assert_allclose(ends, [part.interval() for part in parts.values()])
    assert legend(ax) == [f"all rows: {imp['x0'].pfi:.3g}"]
    assert "lines: 95% intervals" in caption(ax)


def test_several_features_have_their_groups_below_each_other(imp):
    parts = imp.by(GROUPS)
    ax = looked_at(parts.plot())
    assert texts(ax.get_yticklabels()) == parts._ranked
    assert [name.strip() for name in legend(ax)] == [f"{label} (n = {(label == GROUPS).sum()})" for label in parts]
    for line, part in zip(ax.lines, parts.values(), strict=False):
        np.testing.assert_array_equal(line.get_xdata(), [part[feature].pfi for feature in parts._ranked])


def test_the_legend_names_the_column_of_the_groups(imp):
    ax = looked_at(imp.by(pd.Series(GROUPS, name="site")).plot())
    assert [name.split(" (")[0] for name in legend(ax)] == [f"site {label}" for label in imp.by(GROUPS)]


def test_features_are_chosen_ordered_and_named(imp):
    parts = imp.by(GROUPS)
    ax = looked_at(parts.plot(top=2, sort="given", labels={"x0": ("speed", "km/h"), "x1": "age"}))
    first = [name for name in imp if name in parts._ranked[:2]]
    assert texts(ax.get_yticklabels()) == [{"x0": "speed", "x1": "age"}.get(name, name) for name in first]
    assert f"{len(imp) - 2} less important features not shown" in caption(ax)


def test_groups_have_the_colours_asked_for(imp):
    red, own = to_hex("red"), COLOURS
    ax = looked_at(imp.by(GROUPS).plot(colors={"_south": "red"}))
    drawn = {name.strip().split(" (")[0]: line.get_color() for name, line in zip(legend(ax), ax.lines, strict=False)}
    assert drawn == {label: red if label == "_south" else own[k] for k, label in enumerate(imp.by(GROUPS))}
    dots = looked_at(imp["x0"].by(GROUPS).plot(colors="red")).collections[0]
    assert {to_hex(colour) for colour in dots.get_facecolor()} == {red}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"top": 0}, "top is how many to draw"),
        ({"sort": "size"}, "sort is"),
        ({"colors": {"west": "red"}}, "'west', which is no group here"),
        ({"labels": {"y": "speed"}}, "'y', which is no feature here"),
    ],
)
def test_options_that_cannot_be_drawn_with_are_refused(imp, given, said):
    with pytest.raises(ValueError, match=said):
        imp.by(GROUPS).plot(**given)
    assert not plt.get_fignums()


def test_a_logarithmic_axis_has_no_zero():
    X = np.arange(12.0).reshape(6, 2)
    imp = ll.feature_importance(lambda X: X[:, 0], X, X[:, 0], loss="squared_error")  # x1 is not used
    with pytest.raises(ValueError, match="log"):
        imp.by(np.arange(6) % 2).plot(scale="log")
    assert looked_at(imp.by(np.arange(6) % 2).plot(scale="log", top=1)).get_xscale() == "log"


def test_features_without_a_number_are_left_out_and_counted():
    X = np.random.default_rng(0).normal(size=(40, 2))
    imp = ll.feature_importance(lambda X: X[:, 0], X, X[:, 0], loss="squared_error", features=["x0", ("x0", "x1")])
    ax = looked_at(imp.by(np.arange(40) % 2).plot())
    assert texts(ax.get_yticklabels()) == ["x0"]
    assert "1 feature without a number left out" in caption(ax)


def test_groups_without_a_number_are_not_drawn():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    from sklearn.linear_model import LogisticRegression

    imp = ll.feature_importance(LogisticRegression().fit(X, y), X, y, loss="roc_auc")
    with pytest.raises(ValueError, match="no group has a number"):
        imp["x0"].by(y).plot()
    with pytest.raises(ValueError, match="no group has a number"):
        imp.by(y).plot()
    assert "<table>" in imp.by(y)._repr_html_()


def test_effects_have_curves(imp):
    effects = ll.feature_effect(lambda X: np.asarray(X)[:, 0], np.random.default_rng(0).normal(size=(N, 2)))
    with pytest.raises(ValueError, match="name one: plot_curves"):
        effects.by(GROUPS).plot()
    for ax in (effects.by(GROUPS).plot_curves("x0"), effects["x0"].by(GROUPS).plot(), imp.by(GROUPS).plot_curves("x0")):
        assert len(legend(looked_at(ax))) == 4
    with pytest.raises(ValueError, match="no curves of single features"):
        ll.shapley_effect(lambda X: X[:, 0], np.eye(N), np.eye(N)).by(GROUPS).plot_curves("x0")


def test_many_groups_are_drawn_by_size(imp):
    groups = np.minimum(np.random.default_rng(0).exponential(6, N).astype(int), 40)
    parts = imp.by(groups)
    assert len(parts) > 9
    ax = looked_at(parts.plot())
    largest = sorted(sorted(range(len(parts)), key=lambda k: -parts.n[k])[:8])
    assert [int(name.split(" (")[0]) for name in legend(ax)] == [list(parts)[k] for k in largest]
    assert f"the largest 8 of {len(parts)} groups" in caption(ax)
    assert "intervals with a caution: print the result" in caption(ax)
    small = looked_at(imp["x0"].by(groups).plot(ax=plt.subplots(figsize=(4, 2))[1]))
    assert 0 < len(small.get_yticks()) < len(parts)
    assert f"the largest {len(small.get_yticks())} of {len(parts)} groups" in caption(small)
