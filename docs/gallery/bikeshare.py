"""Bike hires: the paper's questions to a boosting model of another data set, and its performance shared out."""

from functools import cache

import numpy as np
from matplotlib import pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

import losslens as ll
from losslens.datasets import load_bikeshare

TITLE = "Bikeshare: the same questions to a boosting model"

WORDS = """
A boosting model predicts how many bikes are hired in an hour in Washington from the time and the weather. These data
are not in the paper; the questions are. Which feature? The hour of the day, `hr`, by far. Where? On working days
borrowing a rush hour, 8:00 or 17:00, does the most harm, because the model then expects commuters; on days off the
hours before dawn do. For whom? Rows of the rush hours on working days rest on `hr` three times as much as the others,
and for one row in a hundred the prediction would be better with a borrowed hour. `workingday` is the second: without
it the model does not know whether to expect commuters or people on an outing. Recomputed on working days alone it is
worth nothing, as all rows there lend each other the same value: the difference between `given` and `subset`.

A permutation importance counts an interaction for every feature that takes part. Shapley shares count it once and
split it, so they sum to all that the features take off the error. `workingday` loses almost half: most of its
importance is its interaction with `hr`, the strongest of all, which the two now share. `temp`, `atemp`, `mnth` and
`season` gain: they tell the same story, so each one alone can be missed, which is what a permutation importance asks,
but not all of them. Their interactions are negative: together they are worth less than the sum. So is that of `hr`
and `hum`, which tells of the time of day too. There is no number of the paper to compare with; in its place stand
sums that must hold, and do.
"""

CAPTIONS = {
    "ranking": "Permutation importance of all features with 95% intervals, on 1,000 test hours.",
    "hours": "PI curves of the hour, for all rows and apart for working days and days off.",
    "curves": "ICI curves of single rows and the PI curve of the hour.",
    "local": "Local importance of the hour over a row's own hour: single rows as dots, means as lines.",
    "shares": "Each feature's share of what all features together take off the squared error (Shapley).",
    "interactions": "Shapley interaction indices. Orange: two features are worth more together; violet: less.",
    "conditional": "Importance of each feature for all rows and for four kinds of rows, donors from everywhere.",
}

BLUE, VERMILLION, INK = "#0072B2", "#D55E00", "0.1"
DAYS = ((1, "working days", BLUE, "-", "o"), (0, "days off", VERMILLION, "--", "^"))
NONE = "not in the paper"


@cache
def fit():
    X, y = load_bikeshare()
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=1000, random_state=0)
    model = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0).fit(X_train, y_train)
    return model, X_test, y_test


@cache
def explain():
    return ll.feature_importance(*fit(), random_state=0)


@cache
def share_out():
    return ll.shapley_importance(*fit(), random_state=0)


def kinds():
    """Kinds of rows by name, as masks."""
    _, X_test, _ = fit()
    work, rain = X_test["workingday"] == 1, X_test["weathersit"] >= "light rain/snow"
    found = {"working day": work, "day off": ~work, "dry": ~rain, "rain, snow": rain}
    return {name: mask.to_numpy() for name, mask in found.items()}


def pictures():
    return {
        "ranking": ranking(),
        "hours": hours(),
        "curves": curves(),
        "local": local(),
        "shares": shares(),
        "interactions": interactions(),
        "conditional": conditional(),
    }


# -- numbers ------------------------------------------------------------------------------------------------------


def numbers():
    return [*of_importance(), *of_groups(), *of_shares()]


def of_importance():
    imp = explain()
    hr = imp["hr"]
    low, high = hr.interval()
    return [
        ("Test error (mean squared)", f"{imp.error:,.0f}", NONE),
        ("PFI of hr, 95% interval", f"{hr.pfi:,.0f} ({low:,.0f} to {high:,.0f})", NONE),
        ("Mean of the local importances of hr", f"{hr.local.mean():,.0f}", f"{hr.pfi:,.0f}, the PFI"),
        ("Mean of the PI curve of hr over the donors", f"{hr.pi @ hr.weights:,.0f}", f"{hr.pfi:,.0f}, the PFI"),
        ("Rows with a negative local importance of hr", f"{np.sum(hr.local < 0)} of {len(hr.local):,}", NONE),
    ]


def of_groups():
    imp, masks = explain(), kinds()
    hr, work, off = imp["hr"], masks["working day"], masks["day off"]
    parts = [hr.given(work), hr.given(off)]
    back = parts[0].pfi * work.mean() + parts[1].pfi * off.mean()
    days = imp["workingday"]
    return [
        *(
            (f"PFI of hr given {name}; costliest hour", f"{part.pfi:,.0f}; {part.grid[part.pi.argmax()]}:00", NONE)
            for name, part in zip(("working days", "days off"), parts, strict=True)
        ),
        ("The two averaged by their numbers of rows", f"{back:,.0f}", f"{hr.pfi:,.0f}, the PFI"),
        ("PFI of workingday given working days, all donors", f"{days.given(work).pfi:,.0f}", NONE),
        ("PFI of workingday within working days (`subset`)", f"{days.subset(work).pfi:,.0f}", "0: nothing to borrow"),
    ]


def of_shares():
    got, imp = share_out(), explain()
    whole = got.error_none - got.error_all
    model, X_test, y_test = fit()
    twice = 2 * np.cov(model.predict(X_test), y_test, bias=True)[0, 1]
    table = got.interactions.to_frame()
    pairs = [(f"{a}, {b}", value) for a, b, value in table.head(3).itertuples(index=False)]
    return [
        ("Sum of the Shapley shares", f"{got.sfimp.sum():,.0f}", f"{whole:,.0f}, error without − with features"),
        ("The same from the predictions", f"{whole:,.0f}", f"{twice:,.0f}, 2 cov(f, y)"),
        *(
            (f"{name}: Shapley share, and PFI", f"{value:,.0f} ({part:.0%}), {imp[name].pfi:,.0f}", NONE)
            for name, value, part in zip(got.features, got.sfimp, got.share, strict=True)
            if part > 0.045
        ),
        *((f"Interaction of {names}", f"{value:,.0f}".replace("-", "−"), NONE) for names, value in pairs),
    ]


# -- pictures -----------------------------------------------------------------------------------------------------


def ranking():
    figure, ax = plt.subplots(figsize=(6.2, 4.4), layout="constrained")
    explain().plot(ax=ax)
    return figure


def hours():
    _, X_test, _ = fit()
    hr = explain()["hr"]
    figure, ax = plt.subplots(figsize=(6.2, 4.4), layout="constrained")
    parts = hr.by(X_test["workingday"])
    for label, words, colour, dashes, _ in DAYS:
        part = parts[label]
        ax.plot(part.grid, part.pi, dashes, color=colour, linewidth=2.2, label=f"{words}: PFI {part.pfi:,.0f}")
    ax.plot(hr.grid, hr.pi, ":", color=INK, linewidth=1.6, label=f"all: PFI {hr.pfi:,.0f}")
    ax.set_ylim(0, 82_000)
    finish(ax, "hr, as borrowed from another row", "increase in squared error")
    return figure


def curves():
    figure, ax = plt.subplots(figsize=(6.2, 4.6), layout="constrained")
    explain()["hr"].plot(ax=ax)
    return figure


def local():
    _, X_test, _ = fit()
    one = explain()["hr"].local
    held, work = X_test["hr"].to_numpy(), X_test["workingday"].to_numpy()
    figure, ax = plt.subplots(figsize=(6.2, 4.6), layout="constrained")
    for label, words, colour, dashes, marker in DAYS:
        mine = work == label
        aside = 0.15 if label else -0.15
        ax.plot(held[mine] + aside, one[mine], marker, color=colour, markersize=3, alpha=0.35, markeredgewidth=0)
        means = [one[mine & (held == hour)].mean() for hour in range(24)]
        ax.plot(range(24), means, dashes, color=colour, linewidth=2, label=f"mean of {words}")
    ax.axhline(0, color=INK, linewidth=0.6)
    finish(ax, "hr, the row's own value", "local importance of hr")
    return figure


def shares():
    figure, ax = plt.subplots(figsize=(6.2, 4.8), layout="constrained")
    share_out().plot(ax=ax)
    return figure


def interactions():
    figure, ax = plt.subplots(figsize=(6.2, 4.8), layout="constrained")
    share_out().interactions.plot(ax=ax)
    return figure


def conditional():
    """A table: features down, kinds of rows across; shades by size within a column."""
    imp, masks = explain(), kinds()
    names = sorted(imp, key=lambda name: -imp[name].pfi)
    heads = [f"all\n{len(imp['hr'].local):,} rows", *(f"{kind}\n{mask.sum():,} rows" for kind, mask in masks.items())]
    table = np.array([[imp[name].pfi, *(imp[name].given(mask).pfi for mask in masks.values())] for name in names])
    figure, ax = plt.subplots(figsize=(9, 4.8), layout="constrained")
    ax.imshow(np.sqrt(np.maximum(table, 0) / table.max(axis=0)), cmap="Blues", vmin=0, vmax=2, aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        ax.text(column, row, f"{value:,.0f}".replace("-", "−"), ha="center", va="center", color=INK)
    ax.set_xticks(range(len(heads)), heads)
    ax.set_yticks(range(len(names)), names)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return figure


def finish(ax, xlabel, ylabel):
    ax.set_xticks(range(0, 24, 4), [f"{hour}:00" for hour in range(0, 24, 4)])
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper left", fontsize="small")
