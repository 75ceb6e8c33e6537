"""Options of plots: few, the same everywhere, checked before anything is drawn; looked up on what is drawn."""

import inspect
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

import losslens as ll
from losslens import plots
from losslens.plots import options
from losslens.plots.canvas import BAND, SINGLE
from losslens.plots.importance_axis import extent
from losslens.plots.subgroups import name_rules
from losslens.results.base import Displayed
from pictures import LONG, caption, legend, looked_at, named, plot_groups, plot_shares, texts
from results_to_draw import importance, response, shapley, slopes, table, three_models

OPTIONS = {"color", "top", "sort", "curves", "center", "scale", "limits", "colors", "labels", "title", "ax"}
OWN = {"blocks", "partner", "ratio", "part"}  # of a single plot
LABELS = {"x0": ("speed", "km/h"), "x2": "age"}
GREEN, RED = to_hex("tab:green"), to_hex("tab:red")


@pytest.fixture(scope="module")
def imp():
    return importance(table(6))


@pytest.fixture(scope="module")
def shares():
    return shapley(table(6))


@pytest.fixture(scope="module")
def skewed():
    """A feature of which some rows have large importances, as in counts of rented bicycles."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"hour": rng.integers(0, 24, 200), "noise": rng.normal(size=200)})
    size = rng.gamma(0.5, 2.0, 200)

    def predict(X):
        return np.sin(X["hour"].to_numpy() / 4)

    return ll.feature_importance(predict, X, size * predict(X), loss="squared_error", donors="all")["hour"]


def below(made):
    return [made, *(more for child in made.__subclasses__() for more in below(child))]


def methods():
    for made in sorted(set(below(Displayed)), key=lambda made: made.__name__):
        for name, method in vars(made).items():
            if name.startswith("plot") and made.__module__.startswith("losslens"):
                yield pytest.param(method, id=f"{made.__name__}.{name}")


# -- the same everywhere ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plot", list(methods()))
def test_plots_have_these_options_by_name_and_no_others(plot):
    parameters = inspect.signature(plot).parameters
    assert {name for name, one in parameters.items() if one.kind == one.KEYWORD_ONLY} <= OPTIONS | OWN
    assert len({"ax", "figure"} & parameters.keys()) == 1  # several panels need a figure
    assert not any(one.kind == one.VAR_KEYWORD for one in parameters.values())


def test_functions_behind_the_methods_are_not_public():
    assert not hasattr(plots, "__all__")
    assert [name for name, one in vars(plots).items() if inspect.isfunction(one) and not name.startswith("_")] == [
        "import_module"
    ]


DEFAULTS = {"color": "value", "sort": "importance", "scale": "linear", "limits": "pi", "curves": True, "center": False}


@pytest.mark.parametrize("plot", list(methods()))
def test_options_have_the_same_defaults(plot):
    for name, one in inspect.signature(plot).parameters.items():
        if name in OPTIONS - {"top"}:
            assert one.default == DEFAULTS.get(name)


@pytest.mark.parametrize("plot", list(methods()))
def test_options_are_documented_with_an_example(plot):
    text = inspect.getdoc(plot)
    listed = text.split("Parameters\n----------\n")[1].split("\n\nExamples\n--------\n")
    assert len(listed) == 2
    assert ">>> " in listed[1]
    names = [name for line in listed[0].splitlines() if line[:1] != " " for name in line.split(", ")]
    assert sorted(names) == sorted(name for name in inspect.signature(plot).parameters if name != "self")


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"top": 0}, ValueError, "top is how many to draw, a whole number from 1 on, .*; got 0"),
        ({"top": -2}, ValueError, "got -2"),
        ({"top": True}, ValueError, "got True"),
        ({"top": 2.5}, ValueError, "got 2.5"),
        ({"top": "3"}, ValueError, "got '3'"),
        ({"sort": "size"}, ValueError, "sort is 'importance', 'name' or 'given'; got 'size'"),
        ({"sort": None}, ValueError, "got None"),
        ({"scale": "sqrt"}, ValueError, "scale is 'linear', 'log' or 'symlog'; got 'sqrt'"),
        ({"labels": ["speed"]}, TypeError, "labels is a mapping .*; got list"),
        ({"labels": {"x0": 3}}, TypeError, "a label is a name, or a name and a unit .*; got 3 for 'x0'"),
        ({"labels": {"x0": ("a", "b", "c")}}, TypeError, "two texts"),
        ({"labels": {"X0": "speed"}}, ValueError, "labels names 'X0', which is no feature here; did you mean 'x0'"),
        ({"labels": {"weather": "speed"}}, ValueError, "'weather', which is no feature here. The features are x0, x1"),
        ({"colors": "blurple"}, ValueError, "colors is a colour, a list of colours, or a mapping .*; got 'blurple'"),
        ({"colors": ["red"]}, ValueError, "colors has 1 colour for 6 features; give one for each"),
        ({"colors": {"x9": "red"}}, ValueError, "colors names 'x9', which is no feature here"),
        ({"colors": {"x0": "blurple"}}, ValueError, "colors holds 'blurple', which is no colour"),
        ({"colors": 3}, ValueError, "got 3"),
        ({"ax": "here"}, TypeError, "ax must be one matplotlib Axes"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(imp, given, error, said):
    with pytest.raises(error, match=said):
        imp.plot(**given)
    plt.close("all")


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"curves": "no"}, TypeError, "curves is True or False"),
        ({"limits": "pd"}, ValueError, "limits is 'pi' or 'all'; got 'pd'"),
        ({"colors": ["red", "blue"]}, ValueError, "colors is one colour here"),
        ({"scale": "log"}, ValueError, "scale='log' needs values above 0, and .* are not; scale='symlog' shows all"),
    ],
)
def test_what_is_wrong_of_one_feature_is_said_before_there_is_a_figure(given, error, said):
    X = table(2)
    ignored = ll.feature_importance(lambda X: X["x0"].to_numpy(), X, response(X), loss="squared_error")["x1"]
    with pytest.raises(error, match=said):
        ignored.plot(**given)
    assert plt.get_fignums() == []


def test_other_options_are_refused_by_python(imp):
    for given in ({"show": False}, {"figsize": (3, 3)}, {"center": True}):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            imp["x0"].plot(**given)


def test_a_colour_map_is_not_a_colour(imp):
    with pytest.raises(ValueError, match="colors is a colour map here, or its name such as 'cividis'; got 'red'"):
        imp["x0"].plot_cells(colors="red")
    assert plt.get_fignums() == []
    ax = imp["x0"].plot_cells(colors="viridis")
    assert ax.collections[0].get_cmap().name == "viridis"


# -- top and sort -----------------------------------------------------------------------------------------------------


def rows(ax):
    return [text.split(" (")[0].removesuffix(" †") for text in texts(ax.get_yticklabels())]


def draw_top(imp, shares):
    yield imp.plot
    yield shares.plot
    yield imp.plot_local


def test_the_most_important_are_drawn_and_the_others_counted(imp, shares):
    for draw in draw_top(imp, shares):
        ax = looked_at(draw(top=2))
        assert rows(ax) == ["x0", "x1"]
        assert "4 less important features not shown" in caption(ax)
        assert len(rows(draw(top=99))) == 6
        assert "not shown" not in caption(draw(top=6))
        plt.close("all")


def test_sort_orders_what_is_drawn_and_decides_nothing_else():
    names = ["wind", "Ash", "cold", "bare"]
    imp = importance(table(4, name=names.__getitem__))
    assert rows(imp.plot()) == names  # slopes fall
    assert rows(imp.plot(sort="name")) == ["Ash", "bare", "cold", "wind"]
    assert rows(imp.plot(sort="given", top=2)) == ["wind", "Ash"]
    assert rows(imp.plot(sort="name", top=2)) == ["Ash", "wind"]
    shown = {"bare": "zebra"}
    assert rows(imp.plot(sort="name", labels=shown)) == ["Ash", "cold", "wind", "zebra"]


def test_sort_given_is_the_order_of_the_columns():
    X = table(3)
    imp = ll.feature_importance(lambda X: X.to_numpy() @ [1, 3, 2], X, X.to_numpy() @ [1, 3, 2], loss="squared_error")
    assert rows(imp.plot()) == ["x1", "x2", "x0"]
    assert rows(imp.plot(sort="given")) == ["x0", "x1", "x2"]
    assert rows(imp.plot(sort="given", top=2)) == ["x1", "x2"]


def test_a_waterfall_gathers_the_others_in_one_step(shares):
    ax = looked_at(shares.plot_waterfall(top=2))
    assert rows(ax) == ["no feature", "x0", "x1", "4 other features", "all features"]
    changes = [patch.get_width() for patch in ax.patches]
    assert np.allclose(changes, -np.array([*shares.sfimp[:2], shares.sfimp[2:].sum()]))
    assert rows(shares.plot_waterfall(top=2, sort="name"))[1:3] == ["x0", "x1"]


def test_shares_of_the_others_are_one_part():
    ax = looked_at(plot_shares(three_models(), top=2, labels=LABELS, colors={"x0": "tab:green"}))
    assert legend(ax)[:3] == ["speed", "x1", "2 others"]
    assert {to_hex(patch.get_facecolor()) for patch in ax.patches[:3]} == {GREEN}


def test_refits_and_comparisons_keep_dots_and_names_together():
    X = table(4)
    from sklearn.linear_model import LinearRegression

    refits = ll.feature_importance_cv(LinearRegression(), X, response(X), random_state=0)
    ax = looked_at(refits.plot(sort="given", top=3, labels={"x3": "last"}))
    kept = np.sort(np.argsort(-refits.importance)[:3])
    (dots,) = [line for line in ax.lines if line.get_gid() == SINGLE]
    assert np.allclose(dots.get_xdata().reshape(len(refits.folds), 3), refits.per_fold[:, kept])
    assert rows(ax) == [{"x3": "last"}.get(refits.features[j], refits.features[j]) for j in kept]
    found = ll.compare({"a": lambda X: X.to_numpy() @ slopes(4), "b": lambda X: X["x1"].to_numpy()}, X, response(X),
                       loss="squared_error", shapley=False)  # fmt: skip
    ax = looked_at(found.plot(top=2, sort="name", colors=["tab:green", "tab:red"]))
    assert len(rows(ax)) == 2
    for name, colour in (("a", GREEN), ("b", RED)):
        line = named(ax, f"{name}: ")
        assert to_hex(line.get_color()) == colour
        assert np.allclose(line.get_xdata(), [found.importances[name][feature].pfi for feature in rows(ax)])


# -- names and colours ------------------------------------------------------------------------------------------------


def test_labels_name_rows_axes_and_values(imp):
    assert rows(imp.plot(labels=LABELS))[:3] == ["speed", "x1", "age"]
    assert imp["x0"].plot(labels=LABELS).get_xlabel() == "speed (km/h)"
    assert imp["x1"].plot(labels=LABELS).get_xlabel() == "x1"  # one mapping serves all features
    assert imp["x2"].plot(labels=LABELS).get_xlabel() == "age"
    assert "distribution of age" in legend(imp["x2"].plot(labels=LABELS))
    X = table(3)
    effect = ll.shapley_effect(lambda X: X.to_numpy() @ [3, 1, 2], X, 1, random_state=0)
    assert texts(effect.plot(labels=LABELS).get_yticklabels())[1].startswith("speed = ")
    assert any(text.endswith(" km/h") for text in texts(effect.plot(labels=LABELS).get_yticklabels()))


def test_labels_name_both_axes_of_a_pair():
    X = table(3)
    pair = importance(X, features=[("x0", "x1")])["x0", "x1"]
    ax = pair.plot(labels=LABELS, colors="viridis")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("speed (km/h)", "x1")
    assert ax.collections[0].get_cmap().name == "viridis"
    with pytest.raises(ValueError, match="has several columns"):
        pair.plot(scale="symlog")
    with pytest.raises(ValueError, match="single column"):
        pair.effect.plot(center=True)


def test_cautions_have_the_shown_names():
    X = table(3)
    y = response(X)
    y[0] += 1000
    imp = ll.feature_importance(lambda X: X.to_numpy() @ slopes(3), X, y, loss="squared_error")
    assert any(one.caution for one in imp.values())
    ax = imp.plot(labels={name: f"shown {name}" for name in imp})
    assert not any(word.startswith("x") for word in caption(ax).replace("shown x", "shown ").split())


def test_colours_of_bars(imp):
    def fill(**asked):
        return [to_hex(patch.get_facecolor()) for patch in imp.plot(top=3, **asked).patches]

    assert fill(colors="tab:red") == [RED] * 3
    assert fill(colors=["tab:red", "tab:green", "tab:red"]) == [RED, GREEN, RED]
    usual = fill()[0]
    assert fill(colors={"x1": "tab:red", "x5": "tab:green"}) == [usual, RED, usual]  # x5 is not drawn
    assert fill(colors=(0.0, 0.0, 0.0)) == ["#000000"] * 3


def test_the_colour_of_a_curve_is_that_of_its_band(imp):
    ax = imp["x0"].plot(colors="tab:green")
    (band,) = [some for some in ax.collections if some.get_gid() == BAND]
    assert to_hex(named(ax, "PI").get_color()) == to_hex(band.get_facecolor()[0]) == GREEN


def test_groups_have_their_colours(imp):
    parts = imp["x0"].by(np.arange(40) % 2 == 0)
    ax = plot_groups(parts, colors={True: "tab:red"}, labels=LABELS)
    assert to_hex(named(ax, "True").get_color()) == RED
    assert to_hex(named(ax, "False").get_color()) != RED
    assert ax.get_xlabel() == "speed (km/h)"


# -- curves, center, scale, limits ------------------------------------------------------------------------------------


def test_without_curves_no_row_is_drawn(imp):
    for result in (imp["x0"], imp["x0"].effect):
        ax = looked_at(result.plot(curves=False))
        assert not [some for some in (*ax.lines, *ax.collections) if some.get_gid() == SINGLE]
        assert not any(text.startswith(("IC", "row")) for text in legend(ax))
        assert any(some.get_gid() == BAND for some in ax.collections)
        assert any(some.get_gid() == SINGLE for some in result.plot().collections)


def test_without_curves_words_have_dots_and_bands_only():
    X = table(2).assign(town=np.array(["a", "b", "c"], object)[np.arange(40) % 3])
    one = ll.feature_importance(lambda X: (X["town"] == "a") * 2.0, X, (X["town"] == "a") * 2.0 + X["x0"],
                                loss="squared_error")["town"]  # fmt: skip
    full, bare = one.plot(), one.plot(curves=False)
    assert "ICI, 50% and 90% of 40 rows" in caption(full)
    assert "ICI" not in caption(bare)
    assert not any(text.startswith("row") for text in legend(bare))
    centred = looked_at(one.effect.plot(center="b"))
    dots = named(centred, "PD").get_offsets()
    assert sorted(dots[:, 0].round(9)) == [0.0, 0.0, 2.0]
    assert centred.get_xlabel() == "prediction, less that at town = b"


@pytest.mark.parametrize(("center", "place"), [(True, 0), (1.0, None), (-99, 0)])
def test_centred_curves_are_0_at_the_reference(imp, center, place):
    effect = imp["x0"].effect
    at = effect.grid[place if place is not None else np.argmin(np.abs(effect.grid - center))]
    ax = looked_at(effect.plot(center=center))
    line = named(ax, "PD")
    where = np.flatnonzero(line.get_xdata() == at)
    assert np.allclose(line.get_ydata(), effect.pd - effect.pd[effect.grid == at])
    (rows_drawn,) = [some for some in ax.collections if some.get_gid() == SINGLE]
    assert np.allclose([path.vertices[where, 1] for path in rows_drawn.get_paths()], 0)
    assert ", less that at x0 = " in ax.get_ylabel().replace("\n", " ")


def test_the_band_of_a_centred_curve_is_of_the_differences():
    """A model that only shifts: all centred curves are the same line, so their mean is known without error."""
    X = table(2)
    effect = ll.feature_effect(lambda X: X["x0"].to_numpy() + 5 * X["x1"].to_numpy(), X, features=["x0"])["x0"]
    (band,) = [some for some in effect.plot(center=True).collections if some.get_gid() == BAND]
    assert np.ptp(effect.band().high - effect.band().low) < 1e-9 < (effect.band().high - effect.band().low).min()
    heights = band.get_paths()[0].vertices
    at = np.unique(heights[:, 0])
    assert max(np.ptp(heights[heights[:, 0] == x, 1]) for x in at) < 1e-9


@pytest.mark.parametrize(("center", "said"), [("high", "is no number, and the grid holds numbers"), (np.nan, "not on")])
def test_a_reference_that_is_no_value_is_refused(imp, center, said):
    with pytest.raises(ValueError, match=said):
        imp["x0"].effect.plot(center=center)
    assert plt.get_fignums() == []


def test_points_of_separate_donors_are_not_centred():
    effect = importance(table(2), donors=ll.Latin(2))["x0"].effect
    with pytest.raises(ValueError, match="gives each row its own donors"):
        effect.plot(center=True)


def test_the_axis_follows_the_mean_curve_and_says_what_leaves_it(skewed):
    ax = looked_at(skewed.plot())
    low, high = ax.get_ylim()
    band = skewed.band()
    assert np.ptp([*band.low, *band.high, 0.0]) > 0.4 * (high - low)  # the legend and the distribution take much
    assert low < band.low.min() <= band.high.max() < high
    limits = extent(np.append(skewed.pi, skewed.pfi), skewed.ici, np.array([band.low, band.high]))
    leaving = ((skewed.ici < limits[0]) | (skewed.ici > limits[1])).any(axis=1).sum()
    assert 0 < leaving < 200
    assert f"the axis follows PI: {leaving} of 200 curves run beyond it" in caption(ax)
    whole = looked_at(skewed.plot(limits="all"))
    assert whole.get_ylim()[0] <= skewed.ici.min() <= skewed.ici.max() <= whole.get_ylim()[1]
    assert "follows" not in caption(whole)


def test_the_axis_of_words_follows_their_means():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"town": np.array(["a", "b"], object)[np.arange(200) % 2], "x": rng.normal(size=200)})
    y = np.where(X["town"] == "a", 1.0, 0.0) + 30 * X["x"].to_numpy()
    one = ll.feature_importance(lambda X: np.where(X["town"] == "a", 1.0, 0.0), X, y, loss="squared_error")["town"]
    ax = looked_at(one.plot())
    assert "the axis follows PI: 2 of 4 ranges run beyond it" in caption(ax)
    assert "triangles beyond the axis" in caption(ax)
    band, (low, high) = one.band(), ax.get_xlim()
    assert high - low < 5 * np.ptp([*one.pi, 0.0, one.pfi]) + np.ptp([*band.low, *band.high])
    whole = looked_at(one.plot(limits="all"))
    assert whole.get_xlim()[0] < one.ici.min() < one.ici.max() < whole.get_xlim()[1]
    assert "axis" not in caption(whole)


def test_an_axis_without_single_rows_is_not_cut(skewed):
    assert "follows" not in caption(skewed.plot(curves=False))


@pytest.mark.parametrize("scale", ["log", "symlog"])
def test_bent_axes_of_bars(imp, scale):
    ax = looked_at(imp.plot(scale=scale))
    assert ax.get_xscale() == scale
    ends = [patch.get_x() + patch.get_width() for patch in ax.patches]
    left, right = ax.get_xlim()
    assert all(left < end < right for end in ends)
    labels = [label for label in ax.get_xticklabels() if label.get_text()]
    assert len(labels) >= 3
    boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.x0)
    assert all(one.x1 < other.x0 for one, other in pairwise(boxes))
    assert [float(label.get_text().replace(",", "")) for label in labels] == pytest.approx(list(ax.get_xticks()))


def test_bent_axes_of_curves(skewed, shares):
    ax = looked_at(skewed.plot(scale="symlog", limits="all"))
    assert ax.get_yscale() == "symlog"
    assert ax.get_ylim()[1] > skewed.ici.max()
    assert shares.curve("x0").plot(scale="symlog").get_yscale() == "symlog"
    assert shares.rank_rows().plot(scale="symlog").get_yscale() == "symlog"
    assert shares.plot_local(scale="symlog").get_xscale() == "symlog"


def test_a_logarithmic_axis_refuses_what_it_cannot_show(shares):
    X = table(2)
    imp = ll.feature_importance(lambda X: X["x0"].to_numpy(), X, X["x0"].to_numpy(), loss="squared_error")
    with pytest.raises(ValueError, match="scale='log' needs values above 0, and 1 of 2 are not"):
        imp.plot(scale="log")
    assert plt.get_fignums() == []
    assert imp.plot(scale="log", top=1).get_xscale() == "log"
    with pytest.raises(ValueError, match="effects"):
        plot_groups(imp["x0"].effect.by(np.arange(40) % 2), scale="symlog")


# -- rules of regions -------------------------------------------------------------------------------------------------


def test_rules_are_never_cut(imp):
    """Long ones are numbers, which the caption explains in full."""
    rules = [f"{LONG(what)} > 0.5 and {LONG('cars')} ≤ 12.25" for what in ("dogs", "cats", "birds", "fish")]
    parts = dict(zip(rules, imp["x0"].by(np.arange(40) % 4).values(), strict=True))
    small = plt.subplots(figsize=(5.2, 3.6), layout="constrained")[1]
    for many, own in ((4, None), (2, small)):
        ax = looked_at(plot_groups(dict(list(parts.items())[:many]), ax=own))
        assert [text.split(": ")[0] for text in legend(ax)[:many]] == [str(k) for k in range(1, many + 1)]
        assert "; ".join(f"{k}: {rule}" for k, rule in enumerate(rules[:many], 1)) in caption(ax)
        assert ax.get_window_extent().height > 0.4 * ax.figure.bbox.height


def test_rules_have_the_shown_names_and_keep_their_conditions():
    rules = [f"{LONG('cats')} > 0.5 and dogs ≤ 3", f"{LONG('cats')} ≤ 0.5"]
    columns = [LONG("cats"), "dogs"]
    assert name_rules(rules, columns, None, own=True) == dict(zip(rules, rules, strict=True))
    assert name_rules(rules, columns, {LONG("cats"): ("cats", "%")}, own=False)[rules[0]] == "cats > 0.5 and dogs ≤ 3"
    for rule, shown in name_rules(rules, columns, None, own=False).items():
        assert len(shown) < 45
        assert shown.endswith(rule[len(LONG("cats")) :])
    with pytest.raises(TypeError, match="a label is a name"):
        name_rules(rules, columns, {"dogs": 3}, own=True)


def test_regions_pass_their_options_on():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 2)), columns=["x0", "x1"])

    def predict(X):
        return 3 * X["x0"].to_numpy() * (X["x1"].to_numpy() > 0)

    imp = ll.feature_importance(predict, X, predict(X), loss="squared_error")
    found = imp.regions(X, target="importance", permutations=19)
    (rule, *_) = [region.rule for region in found.of("x0") if region.leaf]
    ax = looked_at(found.plot("x0", colors={rule: "tab:red"}, labels={"x0": ("speed", "km/h"), "x1": "wind"}))
    assert ax.get_xlabel() == "speed (km/h)"
    line = named(ax, rule.replace("x1", "wind"))
    assert to_hex(line.get_color()) == RED
    with pytest.raises(ValueError, match="colors names 'x9 > 3', which is no group here"):
        found.plot("x0", colors={"x9 > 3": "red"})


def test_check_takes_every_option_that_plots_have():
    assert set(options.CHOICES) | set(options.CHECKS) | {"colors", "center"} == OPTIONS


def test_rows_of_a_colour_map_are_a_list_of_colours():
    rows = plt.get_cmap("tab10")(range(2))
    assert options.colours(rows, ["a", "b"], ["black", "black"], "feature") == [to_hex(row) for row in rows]


def test_pairs_have_colours_by_name():
    result = ll.pair_interactions(
        lambda X: X[:, 0] * X[:, 1] * X[:, 2],
        X := np.random.default_rng(0).normal(size=(40, 3)),
        X[:, 0],
        loss="squared_error",
    )
    ax = looked_at(result.plot_ranking(colors={("x0", "x2"): "red"}))
    names = texts(ax.get_yticklabels())
    edges = dict(zip(names, ax.collections[-1].get_edgecolors(), strict=True))
    assert [name for name, edge in edges.items() if to_hex(edge) == to_hex("red")] == ["x0 × x2"]
    with pytest.raises(ValueError, match="names \\('x0', 'x9'\\), which is no pair here"):
        result.plot_ranking(colors={("x0", "x9"): "red"})


def test_a_ratio_is_a_matter_of_yes_or_no():
    with pytest.raises(ValueError, match="ratio is True or False; got <NA>"):
        ll.feature_importance(lambda X: X[:, 0], np.eye(5), np.arange(5), loss="squared_error").plot(ratio=pd.NA)
