"""The picture of the README: what a model of bike hires rests on, and how the hour matters on two kinds of days.

Run it from anywhere: python docs/images/bikeshare.py. It writes bikeshare.png beside itself.
"""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

import losslens as ll
from losslens.datasets import load_bikeshare

DAYS = ((1, "working days", "#0072B2", "-", (9.0, 50_000)), (0, "days off", "#D55E00", "--", (9.0, 30_500)))


def explain():
    X, y = load_bikeshare()
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=1000, random_state=0)
    model = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0).fit(X_train, y_train)
    return ll.feature_importance(model, X_test, y_test, random_state=0), X_test


def draw_hours(ax, by_workingday):
    for label, words, colour, dashes, at in DAYS:
        hr = by_workingday[label]
        ax.plot(hr.grid, hr.pi, dashes, color=colour, linewidth=2.2)
        ax.annotate(f"{words}\nPFI {hr.pfi:,.0f}", at, color=colour, ha="left", va="center")
    ax.set_xticks(range(0, 24, 4), [f"{hour}:00" for hour in range(0, 24, 4)])
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.set(xlabel="hr, as borrowed from another row", ylabel="increase in squared error")
    ax.set_title("Where does hr matter, and on which days?", loc="left", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)


def main():
    imp, X_test = explain()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    imp.plot(ax=left)
    left.set_title("Which features does the model rest on?", loc="left", fontsize="medium")
    draw_hours(right, imp["hr"].by(X_test["workingday"]))
    figure.get_layout_engine().set(wspace=0.08)
    figure.savefig(Path(__file__).with_name("bikeshare.png"), dpi=160)


if __name__ == "__main__":
    main()
