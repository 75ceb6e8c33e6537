"""Nine cells are all there is: the paper's toy example, three rows that lend one feature's value to each other.

Every row borrows the value of every row. The change of its loss is a cell; a row's mean is its local importance, a
column's mean a point of the PI curve, and the mean of all cells the importance of the feature.
"""

from functools import cache

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Rectangle

import losslens as ll
from losslens.plots.canvas import BLUE, GREEN, INK, QUIET, VERMILLION, plain_frame

TITLE = "Nine cells: how one importance is made"

QUESTION = """\
How does one number, the importance of a feature, come about, and what else can be read from the same table?\
"""

WORDS = """\
Three rows of test data each borrow the value of one feature from every row, also from themselves. How much worse the
model then does on that row is written into a cell; a row that borrows its own value loses nothing, so the diagonal is
0. All numbers of the method are means of these cells.

Along a row: how much this row rests on the feature, its local importance; here the {leaning} row most. Down a column:
how much it hurts everybody to be given this value, a point of the partial importance (PI) curve; here the {hurting}
value most. Over everything: the permutation feature importance (PFI). A row of cells drawn as a line is the row's
individual conditional importance (ICI) curve, and the PI curve is the mean of these lines.\
"""

DIFFERS = """\
The numbers are those of the paper, to the last digit: nothing is estimated. They come from the library and not from a
calculator: a model that looks its prediction up gives just these losses. The three cells of the diagonal are 0
whatever the model does. With them the mean is called V here, without them U.\
"""

CAPTIONS = {
    "cells": "Row 1 leans on x most, and x = 3 hurts most. Left: the change of loss of each row with each borrowed "
    "value, with the means of rows and columns and, in the corner, of everything. Right: the same cells as curves.",
}

SHOWN = ("look_up", "results")

CELLS = np.array([[0, 0.65, 0.7], [0.6, 0, 0.5], [0.3, 0.25, 0]])
VALUES = np.array([1, 2, 3])
COLOURS = (VERMILLION, BLUE, GREEN)


def look_up(X):
    """A model whose absolute error is a cell: the row that borrows, and the value that it borrows."""
    return CELLS[X[:, 1].astype(int) - 1, X[:, 0].astype(int) - 1]


@cache
def results():
    """The importance of x over all nine pairs, and over the six pairs of different rows."""
    X, y = np.column_stack([VALUES, [1, 2, 3]]).astype(float), np.zeros(3)
    asked = {"loss": "absolute_error", "features": ["x0"], "progress": False}
    every = ll.feature_importance(look_up, X, y, donors=ll.All(), **asked)["x0"]
    others = ll.feature_importance(look_up, X, y, donors=ll.Derangements(), **asked)["x0"]
    return every, others


def digits(values):
    return ", ".join(f"{value:.4f}" for value in values)


def numbers():
    """Tables by title."""
    every, others = results()
    rows = [(f"cells of row {i + 1}", digits(every.ici[i]), digits(CELLS[i])) for i in range(3)]
    lines = [
        ("number", "losslens", "paper"),
        *rows,
        ("PI curve: means of the columns", digits(every.pi), "0.3000, 0.3000, 0.4000"),
        ("local importances: means of the rows", digits(every.local), "0.4500, 0.3667, 0.1833"),
        ("PFI over all 9 pairs (V)", f"{every.pfi:.4f}", "1/3"),
        ("PFI over the 6 pairs of different rows (U)", f"{others.pfi:.4f}", "1/2"),
    ]
    return {"The cells and their means": lines}


def facts():
    every, _ = results()
    names = ("first", "second", "third")
    return {"leaning": names[every.local.argmax()], "hurting": names[every.pi.argmax()]}


def claims():
    every, others = results()
    return {
        "row 1 leans on x most": every.local.argmax() == 0,
        "x = 3 hurts most": every.pi.argmax() == 2,
        "the numbers are those of the paper": np.allclose(every.ici, CELLS) and np.allclose(others.pfi, 1 / 2),
    }


def pictures():
    """The matrix of cells with its means, and the curves that they draw."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained", width_ratios=(1.15, 1))
    draw_matrix(left, results()[0])
    draw_curves(right, results()[0])
    figure.get_layout_engine().set(wspace=0.06)
    return {"cells": figure}


def draw_matrix(ax, one):
    shades = LinearSegmentedColormap.from_list("shades", ["white", BLUE])
    columns = [*one.ici.T, one.local]
    whole = np.column_stack(columns)
    whole = np.vstack([whole, [*one.pi, one.pfi]])
    for (i, k), value in np.ndenumerate(whole):
        at = (k + 0.25 * (k == 3), i + 0.25 * (i == 3))
        ax.add_patch(Rectangle(at, 1, 1, facecolor=shades(0.85 * value), edgecolor="white", linewidth=2))
        ax.text(
            at[0] + 0.5, at[1] + 0.5, f"{value:.3g}" if i == k or value in CELLS else f"{value:.3f}".rstrip("0"),
            ha="center", va="center", color=INK, weight="bold" if 3 in (i, k) else "normal",
        )  # fmt: skip
    ax.set_xlim(0, 4.25)
    ax.set_ylim(4.25, 0)
    ax.set_xticks(
        [0.5, 1.5, 2.5, 3.75], ["x = 1\nfrom row 1", "x = 2\nfrom row 2", "x = 3\nfrom row 3", "local\nimportance"]
    )
    ax.set_yticks([0.5, 1.5, 2.5, 3.75], ["row 1", "row 2", "row 3", "PI"])
    for label, colour in zip(ax.get_yticklabels(), COLOURS, strict=False):
        label.set_color(colour)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel(
        "change of loss of each row (down) with each value (across);\nmeans at the edges, the PFI in the corner",
        color=QUIET,
    )


def draw_curves(ax, one):
    for i, (colour, dashes, marker) in enumerate(zip(COLOURS, ("-", "--", "-."), "os^", strict=True)):
        ax.plot(one.grid, one.ici[i], dashes, marker=marker, color=colour, linewidth=1.4, label=f"ICI of row {i + 1}")
    ax.plot(one.grid, one.pi, "-", marker="D", color=INK, linewidth=3, label="PI, their mean")
    ax.axhline(one.pfi, color=QUIET, linestyle=":", linewidth=1.2, label=f"PFI {one.pfi:.3f}")
    ax.set_xticks(VALUES)
    ax.set(xlabel="x, as borrowed", ylabel="change of loss", ylim=(-0.03, 1.0), yticks=np.arange(0, 0.9, 0.2))
    ax.legend(loc="upper left", ncols=2, frameon=False, fontsize="small")
    plain_frame(ax)
