"""How predictions become curves: ICE and PD beside ICI and PI, from the same predictions, for five rows.

One matrix of predictions (rows down, borrowed values across) is all that is asked of the model. Its rows are the ICE
curves and its column means the PD curve; put through the loss, less each row's own loss, its rows are the ICI curves
and its column means the PI curve.
"""

from functools import cache

import numpy as np
from matplotlib import pyplot as plt

import losslens as ll
from losslens.plots.canvas import BLUE, GREEN, INK, PALE, QUIET, SKY, VERMILLION, plain_frame

TITLE = "From predictions to curves: ICE and PD, ICI and PI"

QUESTION = """\
What is the difference between how predictions move with a feature (PD) and how much it matters that they are right
(PI)?\
"""

WORDS = """\
Five rows, one feature x, one model. Each row is asked what the model would say if it had the value of x of each of
the five rows: 25 predictions. Drawn over the borrowed value, one line a row, they are the ICE curves, and their mean
is the partial dependence (PD) curve. Nothing in this picture knows whether the predictions are any good.

Compare each prediction with the row's true value, and take off the error that the row has anyway: the same 25 numbers
become the ICI curves and their mean the partial importance (PI) curve. The rings mark each row at its own value,
where nothing changes, so each ICI curve is 0 there.

The two pictures tell different stories. The PD curve is nearly flat, because x pushes three rows up and two rows
down; the PI curve isn't, because on the whole a value borrowed from afar makes the prediction wrong. The mean of the
PI curve over the donors is the PFI.\
"""

DIFFERS = """\
The paper has this scheme as a drawing, without numbers. The example is our own, so its numbers stand beside the
formulas, written out.\
"""

CAPTIONS = {
    "curves": "PD says x hardly matters, PI says it does, most at its ends. The same 25 predictions twice: ICE curves "
    "and their mean, PD (left); ICI curves and their mean, PI (right). Rings: a row at its own value.",
}

SHOWN = ("model", "results")

SIGN, SHIFT = [1.0, -1.0, 1.0, -1.0, 1.0], [-0.6, 0.4, 0.0, -0.3, 0.5]
X = np.column_stack([np.arange(-2.0, 3.0), SIGN, SHIFT])  # x, the sign of its effect, and a shift that is the row's own
Y = np.array([-2.0, 1.0, 0.5, -1.0, 2.0])
COLOURS, MARKERS = (VERMILLION, BLUE, GREEN, SKY, PALE), "os^vD"


def model(X):
    return X[:, 0] * X[:, 1] + X[:, 2]


@cache
def results():
    return ll.feature_importance(model, X, Y, loss="squared_error", features=["x0"], progress=False)["x0"]


def by_hand():
    """Predictions and changes of loss, written out: rows down, donors across."""
    predictions = X[:, [1]] * X[:, 0] + X[:, [2]]
    return predictions, (predictions - Y[:, None]) ** 2 - ((model(X) - Y) ** 2)[:, None]


def digits(values):
    return ", ".join(f"{value:.3g}" for value in np.round(np.atleast_1d(values), 9) + 0.0).replace("-", "−")


def numbers():
    """Tables by title."""
    one = results()
    predictions, changes = by_hand()
    lines = [
        ("number", "losslens", "by the formulas"),
        ("PD curve, at x = −2 to 2", digits(one.effect.pd), digits(predictions.mean(axis=0))),
        ("PI curve, at x = −2 to 2", digits(one.pi), digits(changes.mean(axis=0))),
        ("local importances of rows 1 to 5", digits(one.local), digits(changes.mean(axis=1))),
        ("PFI", digits(one.pfi), digits(changes.mean())),
    ]
    return {"Curves, local importances and their mean": lines}


def facts():
    return {}


def claims():
    one = results()
    pd, pi, away = one.effect.pd, one.pi, np.abs(one.grid)
    return {
        "the PD curve is nearly flat": np.ptp(pd) < 0.2 * np.ptp(one.effect.ice),
        "x pushes three rows up and two rows down": sum(SIGN) == 1,
        "the PI curve is highest at its ends": set(np.argsort(pi)[-2:]) == set(np.argsort(away)[-2:]),
        "each ICI curve is 0 at the row's own value": np.allclose(np.diag(one.ici), 0),
    }


def pictures():
    """Both kinds of curves, side by side."""
    one = results()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
    draw_curves(left, one.grid, one.effect.ice, one.effect.pd, ("ICE", "PD"))
    left.set(ylabel="prediction")
    left.set_title("what the model says", loc="left", fontsize="medium")
    draw_curves(right, one.grid, one.ici, one.pi, ("ICI", "PI"))
    right.axhline(one.pfi, color=QUIET, linestyle=":", linewidth=1.2)
    right.annotate(
        f"PFI {one.pfi:.1f}", (0, one.pfi), xytext=(0, 10), textcoords="offset points", ha="center", color=QUIET
    )
    right.set(ylabel="change of squared error")
    right.set_title("how much worse that is", loc="left", fontsize="medium")
    handles, names = right.get_legend_handles_labels()
    names = [name.replace("ICI of ", "") for name in names[:-1]] + ["their mean: PD, PI"]
    figure.legend(handles, names, loc="outside lower center", ncols=6, frameon=False, fontsize="small")
    return {"curves": figure}


def draw_curves(ax, grid, curves, mean, names):
    for i, (colour, marker) in enumerate(zip(COLOURS, MARKERS, strict=True)):
        ax.plot(
            grid,
            curves[i],
            marker=marker,
            color=colour,
            linewidth=1.4,
            markersize=5,
            label=f"{names[0]} of row {i + 1}",
        )
        ax.plot(X[i, 0], curves[i][i], "o", markersize=11, markerfacecolor="none", markeredgecolor=colour, zorder=4)
    ax.plot(grid, mean, color=INK, linewidth=3, label=names[1], zorder=3)
    ax.set_xticks(grid)
    ax.set_xlabel("x, as borrowed")
    plain_frame(ax)
