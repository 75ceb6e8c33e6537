"""An interaction, counted twice or shared: the second simulation of the paper, with four learners.

The target is a sum of three features and of the product of two. Permutation importances count the product for both of
its features; Shapley shares (SFIMP) split it between them, and so sum to what the features are worth together.
"""

from functools import cache

import matplotlib as mpl
import numpy as np
from joblib import Parallel, delayed
from matplotlib import pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVR

import losslens as ll
from losslens.plots.canvas import BLUE, GREEN, INK, QUIET, SKY, VERMILLION, plain_frame

TITLE = "Simulation 2: an interaction, counted twice or shared"

QUESTION = """\
Y = X1 + X2 + X3 + X1 X2 + noise: X1 and X2 matter in themselves and once more together. Whose is the product?\
"""

WORDS = """\
Without X1 the model loses X1's own part and all of the product, and without X2 the product again: permutation
importances (PFI) count it twice and make X1 and X2 look about twice as important as X3. Shapley shares (SFIMP) give
each of the two half of the product, and put them at about one and a half times X3. Both answers are right, to
different questions: how much worse is the model without this feature, and how much of the whole performance is its
due? Only the shares sum to the whole, so only they can be drawn as parts of a bar.

The importance as a ratio of errors also depends on how much error there was before: the forest, which has the most of
those that see the product, has the smallest ratios. The linear model can't see the product and takes all three
features to be alike.\
"""

DIFFERS = """\
Where a learner can see the product, the truth is 2 for differences, {truth_ratio} for ratios of errors and 1.5 for
SFIMP. Our medians differ from the paper's by at most {gap}, most for the {farthest}. The data are our own draw, and
the learners have other settings than those of the paper's R packages: the SVM is trained on {rows_svm} of the
{rows_train} rows, to keep this page quick, and the forest has {trees} trees with leaves of {leaf} rows or more. It
smooths the product away where rows are few, so it stays below the truth, as the paper's does. We know of no printed
median of the ratio-based PFI; the paper shows it in its figure. The boxes are wide because {rows} rows are few; all
learners see the same test sets. Each importance is exact for its test set: all pairs of its rows and all sets of
features.\
"""

CAPTIONS = {
    "importances": "PFI counts the product of X1 and X2 twice, SFIMP shares it. Left: importances of X1 and X2 as "
    "multiples of X3's over {sets} test sets of {rows} rows, by learner and kind of importance; boxes hold the middle "
    "half, whiskers 90%. Right: SFIMP of each feature and the error that is left, in percent of the error without any "
    "feature, means over the test sets.",
}

SHOWN = ("measure", "importances")

TEST_SETS, ROWS, TRAIN, TRAIN_SVM = 500, 100, 10_000, 1000
TREES, LEAF = 50, 10
PROCESSES = 2
LEARNERS = ("linear", "two-way linear", "Gaussian SVM", "random forest")
KINDS = {"PFI": BLUE, "ratio": GREEN, "SFIMP": VERMILLION}
KIND_NAMES = {"PFI": "PFI, difference of errors", "ratio": "PFI, ratio of errors", "SFIMP": "SFIMP"}
# Medians over the test sets of the importance over that of X3: X1 and X2.
PAPER = {
    ("linear", "PFI"): (1.00, 1.00), ("linear", "SFIMP"): (1.02, 1.01),
    ("two-way linear", "PFI"): (1.98, 2.03), ("two-way linear", "SFIMP"): (1.48, 1.47),
    ("Gaussian SVM", "PFI"): (1.98, 2.02), ("Gaussian SVM", "SFIMP"): (1.46, 1.46),
    ("random forest", "PFI"): (1.87, 1.92), ("random forest", "SFIMP"): (1.43, 1.42),
}  # fmt: skip
TRUTH = {"PFI": 2, "ratio": 17 / 9, "SFIMP": 1.5}
TRUE_SFIMP, TRUE_PFI, NOISE = np.array([3, 3, 2]), np.array([4, 4, 2]), 0.25


def draw(n, rng):
    X = rng.normal(size=(n, 3))
    return X, X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(0, 0.5, n)


def fit(rng, rows, rows_svm):
    """The four learners; the SVM sees fewer rows, because its predictions cost as much as it has support vectors."""
    X, y = draw(rows, rng)
    products = PolynomialFeatures(interaction_only=True, include_bias=False)
    return {
        "linear": LinearRegression().fit(X, y),
        "two-way linear": make_pipeline(products, LinearRegression()).fit(X, y),
        "Gaussian SVM": SVR(C=10, gamma=0.05, epsilon=0.5).fit(X[:rows_svm], y[:rows_svm]),
        "random forest": RandomForestRegressor(TREES, max_features=1, min_samples_leaf=LEAF, random_state=0).fit(X, y),
    }


def measure(model, tests):
    """For each test set and feature: PFI, ratio, SFIMP; and the errors with no and with all features."""
    found = []
    for X, y in tests:
        shares = ll.shapley_importance(model, X, y, method="exact", n_jobs=1, progress=False)
        pfi = importances(model, X, y, shares)
        found.append([*pfi, *(1 + pfi / shares.error_all), *shares.sfimp, shares.error_none, shares.error_all])
    return np.array(found)


def importances(model, X, y, shares):
    """PFI of each feature; where the errors of all coalitions are at hand, those that lack one feature tell it."""
    if shares.table is None:
        imp = ll.feature_importance(model, X, y, n_jobs=1, progress=False)
        return np.array([one.pfi for one in imp.values()])
    return shares.table[[0b110, 0b101, 0b011]] - shares.error_all


@cache
def results():
    """By learner, importances (test sets, features) of each kind, and the two errors (test sets, 2)."""
    rng = np.random.default_rng(2)
    models = fit(rng, TRAIN, TRAIN_SVM)
    tests = [draw(ROWS, rng) for _ in range(TEST_SETS)]
    parts = [(name, part) for name in reversed(LEARNERS) for part in range(10)]  # the slow ones first
    runs = Parallel(n_jobs=PROCESSES)(delayed(measure)(models[name], tests[part::10]) for name, part in parts)
    found = {}
    for name in LEARNERS:
        table = np.concatenate([run for (of, _), run in zip(parts, runs, strict=True) if of == name])
        found[name] = {kind: table[:, 3 * j : 3 * j + 3] for j, kind in enumerate(KINDS)} | {"errors": table[:, 9:]}
    return found


def relative(values):
    """X1's and X2's importance over X3's, for each test set."""
    return values[:, :2] / values[:, 2:]


def numbers():
    """Tables by title."""
    found = results()
    lines = [("learner, importance", "X1 / X3", "paper", "X2 / X3", "paper", "truth")]
    for name in LEARNERS:
        for kind in KINDS:
            ours = [f"{value:.2f}" for value in medians(name, kind)]
            theirs = [f"{value:.2f}" for value in PAPER.get((name, kind), ())] or ["in its figure"] * 2
            truth = f"{1 if name == 'linear' else TRUTH[kind]:.2f}"
            lines.append((f"{name}, {KIND_NAMES[kind]}", ours[0], theirs[0], ours[1], theirs[1], truth))
    means = [("learner, importance", "X1", "X2", "X3", "truth")]
    for kind, known in (("PFI", TRUE_PFI), ("SFIMP", TRUE_SFIMP)):
        for name in LEARNERS:
            values = [f"{value:.2f}" for value in found[name][kind].mean(axis=0)]
            means.append((f"{name}, {kind}", *values, ", ".join(map(str, [2, 2, 2] if name == "linear" else known))))
    return {
        f"Importance as a multiple of X3's: medians over {TEST_SETS} test sets": lines,
        f"Increase in squared error: means over {TEST_SETS} test sets": means,
    }


def medians(name, kind):
    return np.median(relative(results()[name][kind]), axis=0)


def facts():
    gaps = {name: max(np.abs(medians(*key) - PAPER[key]).max() for key in PAPER if key[0] == name) for name in LEARNERS}
    return {
        "truth_ratio": f"{TRUTH['ratio']:.2f}",
        "gap": f"{max(gaps.values()):.2f}",
        "farthest": max(gaps, key=gaps.get),
        "rows_svm": f"{TRAIN_SVM:,}",
        "rows_train": f"{TRAIN:,}",
        "trees": f"{TREES}",
        "leaf": f"{LEAF}",
        "rows": f"{ROWS}",
        "sets": f"{TEST_SETS}",
    }


def claims():
    seeing = [name for name in LEARNERS if name != "linear"]
    off = {kind: max(np.abs(medians(name, kind) - TRUTH[kind]).max() for name in seeing) for kind in ("PFI", "SFIMP")}
    ratio = {name: medians(name, "ratio").mean() for name in seeing}
    left = {name: results()[name]["errors"][:, 1].mean() for name in seeing}
    worst, flattest = max(left, key=left.get), min(ratio, key=ratio.get)
    return {
        "PFI makes X1 and X2 look about twice as important as X3": off["PFI"] < 0.3,
        "SFIMP puts them at about one and a half times X3": off["SFIMP"] < 0.2,
        "the linear model takes all features to be alike": all(
            np.abs(medians("linear", kind) - 1).max() < 0.1 for kind in KINDS
        ),
        "the forest stays below the truth": all(
            medians("random forest", kind).max() < TRUTH[kind] for kind in ("PFI", "SFIMP")
        ),
        "the forest has the most error of those that see the product": worst == "random forest",
        "it has the smallest ratios": flattest == "random forest",
    }


def pictures():
    """Both panels of the paper's figure."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained", width_ratios=(1.5, 1))
    draw_ratios(left, results())
    draw_shares(right, results())
    figure.get_layout_engine().set(wspace=0.05)
    return {"importances": figure}


def draw_ratios(ax, found):
    for at, name in enumerate(LEARNERS):
        for shift, (kind, colour) in zip((-0.28, 0, 0.28), KINDS.items(), strict=True):
            ratios = relative(found[name][kind])
            for j, side in enumerate((-0.06, 0.06)):
                draw_box(ax, ratios[:, j], at + shift + side, colour, hatch="////" if j else None)
    for kind, colour in KINDS.items():
        ax.axhline(TRUTH[kind], color=colour, linestyle=(0, (4, 2)), linewidth=0.9, zorder=0)
    ax.set_xticks(range(len(LEARNERS)), LEARNERS)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.5, len(LEARNERS) - 0.5)
    ax.set_ylim(0, None)
    ax.set_ylabel("importance as a multiple of X3's")
    handles = [Patch(facecolor=colour, alpha=0.6, label=KIND_NAMES[kind]) for kind, colour in KINDS.items()]
    handles += [
        Patch(facecolor="white", edgecolor=QUIET, label="X1"),
        Patch(facecolor="white", edgecolor=QUIET, hatch="////", label="X2"),
        Line2D([], [], color=QUIET, linestyle=(0, (4, 2)), label="truth"),
    ]
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize="small")
    plain_frame(ax)


def draw_box(ax, values, at, colour, hatch):
    shown = ax.boxplot(
        values, positions=[at], widths=0.1, whis=(5, 95), showfliers=False, patch_artist=True, manage_ticks=False,
        medianprops={"color": INK, "linewidth": 1.6}, whiskerprops={"color": colour}, capprops={"color": colour},
    )  # fmt: skip
    shown["boxes"][0].set(facecolor=mpl.colors.to_rgba(colour, 0.5), edgecolor=colour, hatch=hatch)


def draw_shares(ax, found):
    """Parts of the error without any feature: what each feature takes off, and what is left."""
    names = [*LEARNERS, "true function"]
    parts = [shares_of(found[name]) for name in LEARNERS]
    parts.append(np.array([*TRUE_SFIMP, NOISE]) / (TRUE_SFIMP.sum() + NOISE))
    ends = np.cumsum(parts, axis=1) * 100
    looks = (("X1", BLUE, "white"), ("X2", SKY, INK), ("X3", VERMILLION, "white"), ("error left", "0.85", INK))
    for j, (label, colour, ink) in enumerate(looks):
        sizes = np.array(parts)[:, j] * 100
        starts = ends[:, j] - sizes
        ax.barh(names, sizes, left=starts, color=colour, edgecolor="white", label=label, height=0.72)
        for at, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            if size >= 2:
                ax.text(start + size / 2, at, f"{size:.0f}", ha="center", va="center", color=ink, fontsize="small")
    ax.invert_yaxis()
    ax.set_xlim(0, 100)
    ax.set_xlabel("SFIMP in percent of the error without any feature")
    ax.tick_params(axis="y", length=0)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, fontsize="small", columnspacing=1.2)
    plain_frame(ax)


def shares_of(one):
    means = np.append(one["SFIMP"].mean(axis=0), one["errors"][:, 1].mean())
    return means / one["errors"][:, 0].mean()
