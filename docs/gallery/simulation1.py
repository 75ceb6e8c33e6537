"""A feature that matters for half of the rows: the first simulation of the paper, its table and its conditional curves.

The target rests on X1 where X3 = 0 and on X2 where X3 = 1. Averaged over all rows both look equally important;
importances within the two groups, and PI curves of the two groups, show who rests on what.
"""

from copy import deepcopy
from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.lines import Line2D
from sklearn.ensemble import RandomForestRegressor

import losslens as ll
from losslens.plots.canvas import BLUE, GREEN, INK, QUIET, SKY, VERMILLION, plain_frame
from losslens.results import FeatureImportance

TITLE = "Simulation 1: a feature that matters for half of the rows"

QUESTION = """\
Y = X1 + X2 + 10 X1 [X3 = 0] + 10 X2 [X3 = 1] + noise: where X3 is 0 nearly everything depends on X1, where X3 is 1
on X2. Does an importance show that?\
"""

WORDS = """\
One importance for all rows hides it: X1 and X2 come out alike. Looked at within the two groups, X1 is worth {times}
times as much in the one as in the other (forest, all features). The curves say the same for each value: to be given a
large or a small X1 costs a row with X3 = 0 dearly and a row with X3 = 1 next to nothing. They are U-shaped because an
unusual value is wrong for nearly all rows.\
"""

DIFFERS = """\
For the true function the importances can be worked out by hand. The paper's forest stays far below them because it
underfits: it tries one randomly drawn feature a split, and in R's forest, as far as we can tell, a node that draws X3
for the second time finds nothing to split and stays a leaf, however many rows it holds. A model that uses a feature
less loses less without it. scikit-learn draws another feature instead, and its forest comes close to the truth, also
with one feature a split. With R's rule put into it, our forest comes within {gap} of the paper's large numbers, with
data and trees of our own drawing.

Two things set our means apart from the hand-worked values even for the true function. A row is also paired with
itself, which costs nothing (1 pair in {rows}, within a group about 1 in {half}). And {sets} test sets of {rows} rows
are still a sample: the mean over them has a standard error of about {error_all}, within a group {error_group}. As in
the paper's table, rows and donors are from the group (`subset`), and each run is rounded to one decimal. In the
picture of the curves donors are all rows (`given`).\
"""

CAPTIONS = {
    "table": "X3 decides which of X1 and X2 matters; over all rows they look alike. Means and standard deviations over "
    "{sets} test sets of {rows} rows.",
    "conditional": "X1 matters where X3 = 0 (orange) and not where X3 = 1 (blue). PI curves of X1 for a forest grown "
    "as in R, a well-fitted forest and the true function.",
}

SHOWN = ("explain", "over_tests", "by_group")

TEST_SETS, ROWS, TRAIN, TREES, CURVE_ROWS = 100, 100, 10_000, 100, 4000
GROUPS = {"all rows": None, "X3 = 0": 0, "X3 = 1": 1}
# Means and standard deviations over the repetitions.
PAPER = {
    ("X1", "all rows"): (77.976, 14.15),
    ("X2", "all rows"): (76.764, 13.89),
    ("X1", "X3 = 0"): (152.49, 26.06),
    ("X2", "X3 = 0"): (1.428, 1.32),
    ("X1", "X3 = 1"): (1.261, 1.03),
    ("X2", "X3 = 1"): (151.489, 24.69),
}
TRUTH = {
    ("X1", "all rows"): 122, ("X2", "all rows"): 122,
    ("X1", "X3 = 0"): 242, ("X2", "X3 = 0"): 2,
    ("X1", "X3 = 1"): 2, ("X2", "X3 = 1"): 242,
}  # fmt: skip
ENDING, ONE = "forest, one feature a split, as R does", "forest, one feature a split"
WELL, TRUE = "forest, all features", "true function"
LOOKS = {ENDING: (SKY, "v"), ONE: (BLUE, "o"), WELL: (GREEN, "s"), TRUE: (VERMILLION, "^")}


@dataclass(frozen=True)
class Results:
    """PFI of each test set by model, feature and group; curves of one large test set; errors of the models."""

    pfi: dict[str, dict[tuple[str, str], np.ndarray]]
    curves: dict[str, FeatureImportance]
    groups: np.ndarray
    errors: dict[str, float]


def true_function(X):
    return X[:, 0] + X[:, 1] + 10 * np.where(X[:, 2] == 0, X[:, 0], X[:, 1])


def draw(n, rng):
    X = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 2, n)])
    return X, true_function(X) + rng.normal(0, 0.5, n)


def models(rng):
    X, y = draw(TRAIN, rng)
    asked = {"n_estimators": TREES, "min_samples_split": 6, "random_state": 0, "n_jobs": 2}  # R splits no 5 rows
    one = RandomForestRegressor(max_features=1, **asked).fit(X, y)
    every = RandomForestRegressor(max_features=3, **asked).fit(X, y)
    return {ENDING: end_early(deepcopy(one), rng), ONE: one, WELL: every, TRUE: true_function}


def end_early(forest, rng):
    """The forest as R grows it: a node that draws a feature without a split, X3 for the second time, becomes a leaf.

    scikit-learn draws again instead. One node in three that has X3 above it would have drawn X3; all that is below such
    a node gets its value.
    """
    for tree in (grown.tree_ for grown in forest.estimators_):
        # Whether X3 was asked for above; whether it is a leaf by now.
        asked, ended = np.zeros((2, tree.node_count), dtype=bool)
        draws = rng.random(tree.node_count)
        left, right, feature = tree.children_left, tree.children_right, tree.feature
        for node in np.flatnonzero(left >= 0):  # parents come before their children
            children = [left[node], right[node]]
            ended[node] |= asked[node] and draws[node] < 1 / 3
            asked[children] = asked[node] or feature[node] == 2
            if ended[node]:
                ended[children] = True
                tree.value[children] = tree.value[node]
    return forest


def explain(model, X, y, features=("x0", "x1")):
    """Importances over all pairs of rows."""
    return ll.feature_importance(
        model, X, y, loss="squared_error", features=list(features), donors="all", n_jobs=1, progress=False
    )


def over_tests(model, tests):
    """`by_group` of every test set. Ten sets are asked together, so that the model is read once for ten."""
    runs = []
    for start in range(0, len(tests), 10):
        some = tests[start : start + 10]
        X, y = (np.concatenate(parts) for parts in zip(*some, strict=True))
        of_set = np.repeat(np.arange(len(some)), [len(y) for _, y in some])
        imp = explain(model, X, y)
        runs += [by_group(imp, X, of_set == one) for one in range(len(some))]
    return runs


def by_group(imp, X, mine):
    """PFI of X1 and X2, rows and donors of mine or of mine in a group of X3, to one decimal as in the paper."""
    found = {}
    for group, value in GROUPS.items():
        part = imp.subset(mine if value is None else mine & (X[:, 2] == value))
        found |= {(f"X{j + 1}", group): round(part[f"x{j}"].pfi, 1) for j in range(2)}
    return found


@cache
def results():
    rng = np.random.default_rng(1)
    fitted = models(rng)
    tests = [draw(ROWS, rng) for _ in range(TEST_SETS)]
    pfi = {}
    for name, model in fitted.items():
        runs = over_tests(model, tests)
        pfi[name] = {key: np.array([run[key] for run in runs]) for key in PAPER}
    X, y = draw(CURVE_ROWS, rng)
    large = {name: explain(model, X, y, ["x0"]) for name, model in fitted.items()}
    return Results(pfi, {n: imp["x0"] for n, imp in large.items()}, X[:, 2], {n: i.error for n, i in large.items()})


def spread(mean, deviation):
    """Two numbers as in a table; the small ones keep one digit more."""
    digits = 1 if mean >= 10 else 2
    return f"{mean:.{digits}f} ({deviation:.{digits}f})"


def numbers():
    """Tables by title."""
    found = results()
    lines = [("PFI of", "paper's forest", *(f"ours: {name}" for name in LOOKS), "truth, by hand")]
    for key, theirs in PAPER.items():
        ours = [found.pfi[name][key] for name in LOOKS]
        spreads = [spread(runs.mean(), runs.std(ddof=1)) for runs in ours]
        lines.append((f"{key[0]}, {key[1]}", spread(*theirs), *spreads, str(TRUTH[key])))
    errors = [f"{found.errors[name]:.2f}" for name in LOOKS]
    lines.append(("test error", "not printed", *errors, "0.25, the noise"))
    return {f"PFI: means over {TEST_SETS} test sets (standard deviations)": lines}


def facts():
    found = results()
    well, true = found.pfi[WELL], found.pfi[TRUE]
    return {
        "times": f"{well['X1', 'X3 = 0'].mean() / well['X1', 'X3 = 1'].mean():.0f}",
        "gap": f"{max(gaps()):.0%}",
        "sets": f"{TEST_SETS}",
        "rows": f"{ROWS}",
        "half": f"{ROWS // 2}",
        "error_all": f"{standard_error(true['X1', 'all rows']):.1f}",
        "error_group": f"{standard_error(true['X1', 'X3 = 0']):.1f}",
    }


def standard_error(runs):
    return runs.std(ddof=1) / np.sqrt(len(runs))


def gaps():
    """How far the forest with R's rule is from the paper's, relatively, for the large numbers."""
    found = results().pfi[ENDING]
    return [abs(found[key].mean() / theirs - 1) for key, (theirs, _) in PAPER.items() if theirs > 10]


def costs_only_the_one():
    """Whether, wherever on the curve, the rows with X3 = 0 lose ten times as much, and most at both ends."""
    found = results()
    parts = found.curves[WELL].by(found.groups)
    dear, cheap = parts[0.0].pi, parts[1.0].pi
    middle = dear[np.abs(parts[0.0].grid) < 0.5]
    return bool(np.all(dear > 10 * cheap) and min(dear[0], dear[-1]) > 2 * middle.max())


def claims():
    pfi = results().pfi
    small = [pfi[name][key].mean() / TRUTH[key] for name in (ONE, WELL, TRUE) for key in PAPER]
    ended = [pfi[ENDING][key].mean() / TRUTH[key] for key in PAPER]
    return {
        "X1 and X2 come out alike over all rows": all(
            abs(of["X1", "all rows"].mean() / of["X2", "all rows"].mean() - 1) < 0.15 for of in pfi.values()
        ),
        "scikit-learn's forests come close to the truth": min(small) > 0.85 and max(small) < 1.15,
        "to be given another X1 costs rows with X3 = 0 dearly and the others next to nothing": costs_only_the_one(),
        "with R's rule the forest stays far below the truth": max(ended) < 0.75,
        "with R's rule the forest comes near the paper's numbers": max(gaps()) < 0.15,
    }


def pictures():
    """The table as points, and the conditional PI curves."""
    return {"table": draw_table(results()), "conditional": draw_conditional(results())}


def draw_table(found):
    figure, ax = plt.subplots(figsize=(10, 4.2), layout="constrained")
    for at, key in enumerate(PAPER):
        ax.errorbar(at - 0.3, PAPER[key][0], PAPER[key][1], fmt="D", color=QUIET, capsize=3, markersize=5)
        for shift, (name, (colour, marker)) in zip((-0.15, 0, 0.15, 0.3), LOOKS.items(), strict=True):
            runs = found.pfi[name][key]
            ax.errorbar(at + shift, runs.mean(), runs.std(ddof=1), fmt=marker, color=colour, capsize=3, markersize=5)
        ax.plot([at - 0.4, at + 0.4], [TRUTH[key]] * 2, color=INK, linewidth=1, linestyle=(0, (4, 2)), zorder=0)
    ax.set_xticks(range(len(PAPER)), [f"{feature}\n{group}" for feature, group in PAPER])
    ax.tick_params(axis="x", length=0)
    ax.set_ylabel("PFI: increase in squared error")
    handles = [Line2D([], [], marker="D", linestyle="", color=QUIET, label="the paper's forest")]
    handles += [Line2D([], [], marker=m, linestyle="", color=c, label=f"ours: {n}") for n, (c, m) in LOOKS.items()]
    handles.append(Line2D([], [], color=INK, linewidth=1, linestyle=(0, (4, 2)), label="truth, by hand"))
    figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False, fontsize="small")
    plain_frame(ax)
    return figure


def draw_conditional(found):
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.9), sharey=True, layout="constrained")
    looks = {"X3 = 0": (VERMILLION, "-", 121), "all rows": (INK, "-", 61), "X3 = 1": (BLUE, "-", 1)}
    for ax, name in zip(axes, (ENDING, WELL, TRUE), strict=True):
        one = found.curves[name]
        parts = one.by(found.groups)
        curves = {"all rows": one, "X3 = 0": parts[0.0], "X3 = 1": parts[1.0]}
        for group, (colour, dashes, factor) in looks.items():
            part = curves[group]
            ax.plot(part.grid, part.pi, dashes, color=colour, linewidth=2)
            ax.plot(part.grid, factor * (1 + part.grid**2), ":", color=colour, linewidth=1.2)
            name_curve(ax, group, part, colour)
        ax.set_title(name, loc="left", fontsize="medium")
        ax.set(xlim=(-2.6, 2.6), ylim=(-30, 900), xlabel="X1, as borrowed from another row")
        plain_frame(ax)
    axes[0].set_ylabel("PI: increase in squared error")
    handles = [
        Line2D([], [], color=QUIET, linewidth=2, label=f"PI curve of {CURVE_ROWS:,} test rows"),
        Line2D([], [], color=QUIET, linestyle=":", label="truth: 121 (1 + x²), 61 (1 + x²) and 1 + x²"),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False, fontsize="small")
    return figure


def name_curve(ax, group, part, colour):
    """The group and its PFI, at the top, where no curve is."""
    heights = {"X3 = 0": 860, "all rows": 800, "X3 = 1": 740}
    ax.text(0, heights[group], f"{group}: PFI {part.pfi:.0f}", color=colour, ha="center", va="center", fontsize="small")
