"""Boston housing: what a random forest's predictions of house values rest on (the paper's real-data example)."""

from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

import losslens as ll
from losslens.datasets import load_boston
from losslens.results import Importances

TITLE = "Boston housing: which features a random forest rests on"

QUESTION = """\
A random forest predicts the median house value of districts around Boston. Which features does it rest on, where in
their range, and for which districts?\
"""

WORDS = """\
For every pair of the {rows} test districts one borrows a feature's value from the other, and the growth of its
squared error is kept. Two features carry the model: `LSTAT`, the percentage of poorer residents, and `RM`, the
average number of rooms. The curves show where: a district that is given an `LSTAT` under 5 or more than 7 rooms is
taken for an expensive one, and its prediction goes far wrong; values in the middle do little harm.

Nor does every district need `LSTAT`: those at both ends of its range do, those in the middle hardly, and {negative}
are even predicted better with borrowed values, so that the integral of their curve, the local importance, is below
zero. The two highlighted curves of `LSTAT` are the ends: row {most_row} ({most_about}) and row {least_row}
({least_about}).

It also depends on whom one asks: recomputed among the districts with `LSTAT` up to 10, `RM` matters most, because
there the values of `LSTAT` differ less.\
"""

DIFFERS = """\
Our forest is not the paper's, so its numbers are others. It has {trees} trees too ({tried} features tried at a split,
nodes of 5 rows stay whole), but it comes from scikit-learn, takes `RAD` as a number and not as a category (for
`CHAS`, which is 0 or 1, that makes no difference), and is trained on {train} rows of our own drawing. The split
matters a lot: over {splits} splits of ours, the forest otherwise the same, the importance of `RM` alone goes from
{rm_range}. We show the split whose test error is in the middle; the bars of the first picture are what all of them
give. The paper's test error is {error_place}, its importance of `LSTAT` {lstat_place}, that of `RM` {rm_place}, and
its number of negative integrals {negative_place}.

Column `B` rests on a racist premise; the data are here only to repeat the paper's example.\
"""

CAPTIONS = {
    "ranking": "LSTAT and RM carry the model, here as in the paper. Permutation importance of all 13 features: our "
    "forest with its 95% interval, the range over {splits} splits, and the paper's value.",
    "curves": "A borrowed LSTAT under 5 or RM over 7 does the harm. Above: PI curves, one dot a value. Below: the ICI "
    "curves whose mean they are, with the largest and the smallest integral highlighted.",
    "conditional": "Districts with LSTAT above 10 are harmed by a low LSTAT, the others by a high one. PI curves apart "
    "for the two, donors are all districts (`given`).",
    "local": "LSTAT matters at both ends of its range. Local importance over a district's own value; below zero the "
    "district is predicted better with borrowed values.",
}

SHOWN = ("forest", "table_two")

BLUE, VERMILLION, PALE, INK = "#0072B2", "#D55E00", "#BBD7EA", "0.1"
SPLITS = 21  # odd: one of them has the middle error
LIMIT = 10.0  # of LSTAT, the paper's

TREES, TRIED = 500, 4

# The paper's table: all rows; only LSTAT <= 10; only rows whose LSTAT curve has a positive integral.
PAPER = {
    "LSTAT": (32.0, 10.4, 35.3), "RM": (15.6, 29.6, 17.0), "NOX": (3.9, 1.5, 4.3), "DIS": (2.7, 3.3, 2.4),
    "CRIM": (2.6, 0.8, 2.5), "PTRATIO": (2.2, 2.3, 2.5), "AGE": (1.2, 0.8, 1.1), "INDUS": (1.0, 0.5, 1.2),
    "TAX": (1.0, 1.2, 0.8), "RAD": (0.8, 1.1, 0.9), "B": (0.8, 0.6, 0.8), "ZN": (0.1, 0.2, 0.1),
    "CHAS": (0.1, 0.2, 0.1),
}  # fmt: skip
PAPER_ERROR, PAPER_NEGATIVE = 7.96, 18


class Explained(NamedTuple):
    """A forest's importances, and its test rows with what is true and what the forest says."""

    imp: Importances
    X_test: pd.DataFrame
    y_test: np.ndarray
    said: np.ndarray


@cache
def forest(split):
    X, y = load_boston()
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=166, random_state=split)
    # The defaults of R's randomForest for regression: a third of the features at a split, nodes of 5 stay whole.
    model = RandomForestRegressor(TREES, max_features=TRIED, min_samples_split=6, random_state=0, n_jobs=2)
    model.fit(X_train, y_train)
    imp = ll.feature_importance(model, X_test, y_test, donors="all")
    return Explained(imp, X_test, y_test, model.predict(X_test))


@cache
def over_splits():
    """Test errors (s,) and importances (s, p) of the forests of all splits; features as in PAPER."""
    found = [forest(split).imp for split in range(SPLITS)]
    return np.array([imp.error for imp in found]), np.array([[imp[name].pfi for name in PAPER] for imp in found])


def explain():
    """The forest that is shown: its test error is the middle one."""
    errors, _ = over_splits()
    return forest(int(np.argsort(errors)[SPLITS // 2]))


def pictures():
    return {"ranking": ranking(), "curves": curves(), "conditional": conditional(), "local": local()}


# -- numbers ------------------------------------------------------------------------------------------------------


def numbers():
    """Tables by title."""
    shown = explain()
    lstat = shown.imp["LSTAT"]
    every = [forest(split) for split in range(SPLITS)]
    small = [(one.imp["LSTAT"].subset(is_low(one)).pfi, one.imp["LSTAT"].given(is_low(one)).pfi) for one in every]
    counts = [count_negative(one.imp) for one in every]
    errors, _ = over_splits()
    low, rows = is_low(shown), f" of {len(shown.y_test)}"
    around = [
        ("number", "losslens", f"over {SPLITS} splits", "paper"),
        ("test error (mean squared)", f"{shown.imp.error:.2f}", ends(errors, ".2f"), f"{PAPER_ERROR}"),
        (
            "districts with a negative LSTAT integral",
            f"{count_negative(shown.imp)}{rows}",
            ends(counts, "d"),
            f"{PAPER_NEGATIVE}{rows}",
        ),
        (
            "PFI of LSTAT, rows and donors with LSTAT ≤ 10 (`subset`)",
            f"{lstat.subset(low).pfi:.1f}",
            ends([part[0] for part in small], ".1f"),
            f"{PAPER['LSTAT'][1]}",
        ),
        (
            "PFI of LSTAT, rows with LSTAT ≤ 10, all donors (`given`)",
            f"{lstat.given(low).pfi:.1f}",
            ends([part[1] for part in small], ".1f"),
            "not printed",
        ),
    ]
    return {
        "PFI of all districts and recomputed on two parts of them, the paper's table": table_two(shown),
        "The forest and its LSTAT curves": around,
        "The highlighted districts (values in 1,000 dollars)": highlighted(shown),
    }


def table_two(shown):
    """One line a feature: PFI of all rows and recomputed, rows and donors, on two subsets."""
    imp = shown.imp
    parts = (imp, imp.subset(is_low(shown)), imp.subset(imp["LSTAT"].local > 0))
    heads = ("feature", "(1) all", "paper", "(2) LSTAT ≤ 10", "paper", "(3) positive LSTAT integral", "paper")
    lines = [heads]
    for name, theirs in PAPER.items():
        pairs = ((f"{round(part[name].pfi, 1) + 0.0}", f"{paper}") for part, paper in zip(parts, theirs, strict=True))
        lines.append((name, *(cell.replace("-", "−") for pair in pairs for cell in pair)))
    return lines


def highlighted(shown):
    """The districts whose curves are at both ends."""
    lines = [("curve", "row", "own value", "true house value", "prediction", "local importance")]
    for name in ("LSTAT", "RM"):
        local = shown.imp[name].local
        for words, row in (("largest", local.argmax()), ("smallest", local.argmin())):
            own = shown.X_test[name].iloc[row]
            cells = (f"{row}", f"{own:.1f}", f"{shown.y_test[row]:.1f}", f"{shown.said[row]:.1f}", f"{local[row]:.0f}")
            lines.append((f"{name}, {words} integral", *(cell.replace("-", "−") for cell in cells)))
    return lines


def ends(values, form):
    return f"{min(values):{form}} to {max(values):{form}}"


def facts():
    shown = explain()
    local = shown.imp["LSTAT"].local
    errors, across = over_splits()
    counts = [count_negative(forest(split).imp) for split in range(SPLITS)]
    lstats, rooms = (across[:, list(PAPER).index(name)] for name in ("LSTAT", "RM"))
    most, least = int(local.argmax()), int(local.argmin())
    return {
        "rows": f"{len(local)}",
        "train": f"{len(load_boston()[1]) - len(local)}",
        "negative": f"{count_negative(shown.imp)}",
        "most_row": f"{most}",
        "most_about": about(shown, most),
        "least_row": f"{least}",
        "least_about": about(shown, least),
        "trees": f"{TREES}",
        "tried": f"{TRIED}",
        "splits": f"{SPLITS}",
        "error_place": place(PAPER_ERROR, errors),
        "lstat_place": place(PAPER["LSTAT"][0], lstats),
        "rm_place": place(PAPER["RM"][0], rooms),
        "rm_range": ends(rooms, ".0f"),
        "negative_place": place(PAPER_NEGATIVE, counts),
    }


def about(shown, row):
    own, true, said = shown.X_test["LSTAT"].iloc[row], shown.y_test[row], shown.said[row]
    return f"`LSTAT` {own:.1f}; worth {true:.1f} and predicted {said:.1f} thousand dollars"


def place(value, ours):
    if value < min(ours):
        return "below all of ours"
    return "above all of ours" if value > max(ours) else "within their range"


def claims():
    shown = explain()
    imp, low = shown.imp, is_low(shown)
    lstat, rm, own = imp["LSTAT"], imp["RM"], shown.X_test["LSTAT"].to_numpy()
    part = imp.subset(low)
    middle = (own > 5) & (own < 14)
    return {
        "LSTAT and RM carry the model": set(sorted(imp, key=lambda name: imp[name].pfi)[-2:]) == {"LSTAT", "RM"},
        "a borrowed LSTAT under 5 does the harm": lstat.pi[lstat.grid < 5].min() > lstat.pi[lstat.grid > 6].max(),
        "so do more than 7 rooms": rm.pi[rm.grid > 7].min() > rm.pi[rm.grid < 6.8].max(),
        "districts in the middle hardly need LSTAT": lstat.local[~middle].mean() > 4 * lstat.local[middle].mean(),
        "some are predicted better with borrowed values": count_negative(imp) > 0,
        "among districts with LSTAT up to 10, RM matters most": max(part, key=lambda name: part[name].pfi) == "RM",
        "there the values of LSTAT differ less": np.std(own[low]) < np.std(own),
        "low LSTAT harms the high and high LSTAT the low": crosses(lstat.given(low), lstat.given(~low)),
    }


def crosses(below, above):
    """Whether the curve of the one group is under the other's at its start and over it at its end."""
    return bool(below.pi[0] < above.pi[0] and below.pi[-1] > above.pi[-1])


def count_negative(imp):
    return int(np.sum(imp["LSTAT"].local < 0))


def is_low(shown):
    return (shown.X_test["LSTAT"] <= LIMIT).to_numpy()


# -- pictures -----------------------------------------------------------------------------------------------------


def ranking():
    imp = explain().imp
    _, across = over_splits()
    figure, ax = plt.subplots(figsize=(10, 4.8), layout="constrained")
    place = np.arange(len(PAPER))
    low, high = across.min(axis=0), across.max(axis=0)
    ax.barh(place, high - low, left=low, height=0.55, color=PALE, label=f"range of {SPLITS} splits")
    ours = np.array([imp[name].pfi for name in PAPER])
    ends = np.array([imp[name].interval() for name in PAPER])
    ax.hlines(place, ends[:, 0], ends[:, 1], color=BLUE, linewidth=1.6)
    ax.plot(ours, place, "o", color=BLUE, label="our forest, 95% interval")
    ax.plot(
        [paper[0] for paper in PAPER.values()],
        place,
        "D",
        color=VERMILLION,
        mfc="none",
        mew=1.6,
        label="the paper's forest",
    )
    ax.axvline(0, color=INK, linewidth=0.6)
    ax.set_yticks(place, PAPER)
    ax.tick_params(axis="y", length=0)
    ax.invert_yaxis()
    finish(ax, xlabel="PFI: increase in squared error", ylabel="")
    ax.legend(loc="lower right", frameon=False)
    return figure


def curves():
    imp = explain().imp
    figure, axes = plt.subplots(2, 2, figsize=(10, 8.6), layout="constrained", height_ratios=(1, 1.35))
    for (above, below), name in zip(axes.T, ("LSTAT", "RM"), strict=True):
        one = imp[name]
        above.plot(one.grid, one.pi, "-o", color=BLUE, linewidth=1.6, markersize=3, label="PI")
        above.axhline(
            one.pfi, color=INK, linewidth=1.2, linestyle="--", label=f"PFI, its mean over the districts: {one.pfi:.1f}"
        )
        above.set_ylim(0, 1.2 * one.pi.max())  # room for the legend
        finish(above, xlabel=name, ylabel="increase in squared error")
        above.legend(frameon=False)
        one.plot(ax=below)
    figure.get_layout_engine().set(wspace=0.06, hspace=0.06)
    return figure


def conditional():
    shown = explain()
    imp, low = shown.imp, is_low(shown)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for ax, name in zip(axes, ("LSTAT", "RM"), strict=True):
        parts = imp[name].by(low)
        for label, words, colour, dashes in ((True, "LSTAT ≤ 10", BLUE, "-"), (False, "LSTAT > 10", VERMILLION, "--")):
            part = parts[label]
            text = f"districts with {words}: PFI {part.pfi:.1f}"
            ax.plot(part.grid, part.pi, dashes, color=colour, linewidth=2, label=text)
        ax.plot(imp[name].grid, imp[name].pi, ":", color=INK, linewidth=1.4, label=f"all: PFI {imp[name].pfi:.1f}")
        ax.set_ylim(bottom=0)
        finish(ax, xlabel=f"{name}, as borrowed from another district", ylabel="increase in squared error")
        ax.legend(frameon=False)
    figure.get_layout_engine().set(wspace=0.06)
    return figure


def local():
    shown = explain()
    imp, one, held = shown.imp, shown.imp["LSTAT"].local, shown.X_test["LSTAT"].to_numpy()
    figure, ax = plt.subplots(figsize=(10, 4.2), layout="constrained")
    below = one < 0
    ax.plot(
        held[~below],
        one[~below],
        "o",
        color=BLUE,
        markersize=4.5,
        alpha=0.7,
        label=f"{np.sum(~below)} districts above zero",
    )
    ax.plot(held[below], one[below], "v", color=VERMILLION, markersize=6, label=f"{np.sum(below)} below zero")
    ax.axhline(0, color=INK, linewidth=0.6)
    ax.axhline(
        imp["LSTAT"].pfi, color=INK, linewidth=1.2, linestyle="--", label=f"their mean, the PFI: {imp['LSTAT'].pfi:.1f}"
    )
    finish(ax, xlabel="LSTAT, the district's own value", ylabel="local importance of LSTAT")
    ax.legend(frameon=False)
    return figure


def finish(ax, xlabel, ylabel):
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.spines[["top", "right"]].set_visible(False)
