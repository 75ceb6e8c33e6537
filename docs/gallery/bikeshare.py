"""Bike hires: the paper's questions to a boosting model of another data set, and its performance shared out."""

from functools import cache
from itertools import combinations

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.lines import Line2D
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

import losslens as ll
from losslens.datasets import load_bikeshare

TITLE = "Bikeshare: the same questions to a boosting model"

QUESTION = """\
A boosting model predicts how many bikes are hired in an hour in Washington from the time and the weather. Which
features does it rest on, where, and for which hours? These data are not in the paper; the questions are.\
"""

WORDS = """\
Which feature? The hour of the day, `hr`, by far. Where? On working days borrowing a rush hour does the most harm
({cost_work} most of all), because the model then expects commuters; on days off the night does ({cost_off}). For
whom? Rows of the rush hours on working days rest on `hr` {rush} times as much as the others, and {negative} of {rows}
rows would be predicted better with a borrowed hour. `workingday` comes second: without it the model does not know
whether to expect commuters or people on an outing. Recomputed on working days alone it is worth nothing, as all rows
there lend each other the same value: the difference between `given` and `subset`.

In rain and snow other things count: `hr` is worth {rain_hr} of what it is worth when it is dry, and `weathersit`
{rain_weather} times as much.

A permutation importance counts what features have in common for each of them. Shapley shares count it once and
split it, so they sum to all that the features take off the error. `workingday` loses {lost}: most of its importance
is its interaction with `hr`, the strongest of all, which the two now share. `temp`, `atemp`, `mnth` and `season`
gain: they tell the same story, so each one alone can be missed, which is what a permutation importance asks, but not
all of them. Their interactions are negative: together they are worth less than the sum. So is that of `hr` and `hum`,
which tells of the time of day too.

A share is also a covariance: what the SHAP values of a feature, the Shapley values of the predictions, have in common
with the target. The SHAP values of a feature say how far it moves the predictions; only those that move with the
target are worth anything. `weathersit` moves them {further} times as far as `weekday`, and the two are worth about the
same: the weather's SHAP values correlate with the number of bikes by {loose}, the weekday's by {tight}.\
"""

DIFFERS = """\
There is no number of the paper to compare with; in its place stand sums that must hold, and do.\
"""

CAPTIONS = {
    "ranking": "The hour carries the model. Permutation importance of all features with 95% intervals, on {rows} test "
    "hours.",
    "hours": "Rush hours do the harm on working days, the night on days off. PI curves of the hour, for all rows and "
    "apart.",
    "curves": "ICI curves of single rows, whose mean is the PI curve of the hour; the largest and the smallest "
    "integral are highlighted.",
    "local": "Rows of the rush hours need the hour most. Local importance over a row's own hour: single rows as dots, "
    "means as lines.",
    "conditional": "In rain and snow the weather counts and the hour counts less. Importance of each feature for all "
    "rows and for four kinds of rows, donors from everywhere (`given`).",
    "shares": "Shapley shares: what each feature earns of all that the features together take off the squared error.",
    "compared": "Features with positive interaction indices lose against their PFI, features with negative ones gain. "
    "The scale is logarithmic.",
    "covariances": "Importance is how well SHAP values move with the target. Each dot is an hour: what the feature "
    "adds to its prediction, over the number of bikes. The slope of the least-squares line times twice the variance of "
    "the target is the feature's bar above, SFIMP. The four panels on the right have the same axes.",
    "interactions": "Shapley interaction indices. Orange: two features are worth more together; violet: less. "
    "Correlated features have one even if a model only adds them.",
}

SHOWN = ("fit", "explain", "share_out", "explain_predictions")

BLUE, VERMILLION, INK = "#0072B2", "#D55E00", "0.1"
DAYS = ((1, "working days", BLUE, "-", "o"), (0, "days off", VERMILLION, "--", "^"))
TEST_ROWS, TREES = 1000, 100
RUSH = (8, 17, 18)
MOVES = (
    "temp",
    "workingday",
    "weathersit",
    "weekday",
)  # shown beside hr
RAIN = {"hr": "hr", "weather": "weathersit"}


@cache
def fit():
    X, y = load_bikeshare()
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=TEST_ROWS, random_state=0)
    model = HistGradientBoostingRegressor(max_iter=TREES, categorical_features="from_dtype", random_state=0)
    return model.fit(X_train, y_train), X_test, y_test


@cache
def explain():
    return ll.feature_importance(*fit(), random_state=0)


@cache
def share_out():
    return ll.shapley_importance(*fit(), method="rows", random_state=0)  # interactions need more than a covariance


@cache
def explain_predictions():
    model, X_test, _ = fit()
    return ll.shapley_effect(model, X_test, X_test)


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
        "conditional": conditional(),
        "shares": shares(),
        "compared": compared(),
        "covariances": covariances(),
        "interactions": interactions(),
    }


# -- numbers ------------------------------------------------------------------------------------------------------


def numbers():
    """Tables by title."""
    return {
        "What the model rests on": findings(),
        "Shares and importances": of_shares(),
        "SHAP values of the predictions and the target": of_effects(),
        "Sums that must hold": sums(),
    }


def findings():
    imp, masks = explain(), kinds()
    hr, days, work = imp["hr"], imp["workingday"], masks["working day"]
    low, high = hr.interval()
    parts = {"working days": hr.given(work), "days off": hr.given(~work)}
    return [
        ("number", "losslens"),
        ("test error (mean squared)", f"{imp.error:,.0f}"),
        ("PFI of hr, 95% interval", f"{hr.pfi:,.0f} ({low:,.0f} to {high:,.0f})"),
        *(
            (f"PFI of hr given {name}; costliest hour", f"{part.pfi:,.0f}; {costliest(part)}")
            for name, part in parts.items()
        ),
        ("rows with a negative local importance of hr", f"{np.sum(hr.local < 0)} of {len(hr.local):,}"),
        ("PFI of workingday given working days, all donors", f"{days.given(work).pfi:,.0f}"),
    ]


def costliest(part):
    return f"{part.grid[part.pi.argmax()]}:00"


def of_shares():
    got, imp = share_out(), explain()
    order = np.argsort(-got.sfimp)
    lines = [("feature", "PFI", "SFIMP", "share of the whole")]
    for j in order:
        name = got.features[j]
        lines.append((name, f"{imp[name].pfi:,.0f}", f"{got.sfimp[j]:,.0f}", f"{got.share[j]:.1%}"))
    return lines


def of_effects():
    effects, together, got = explain_predictions(), with_target(), share_out()
    lines = [("feature", "mean absolute SHAP value", "correlation with the target", "2 cov", "SFIMP")]
    for j in np.argsort(-got.sfimp):
        size, (_, _, close, twice) = effects.importance[j], together[effects.features[j]]
        lines.append((effects.features[j], f"{size:.1f}", f"{close:.2f}", f"{twice:,.0f}", f"{got.sfimp[j]:,.0f}"))
    return lines


def with_target():
    """By feature: its SHAP values, their spread, their correlation with the target, and twice their covariance."""
    effects, y = explain_predictions(), fit()[2]
    found = {}
    for name, phi in zip(effects.features, effects.local.T, strict=True):
        together, spread = np.cov(phi, y, bias=True)[0, 1], phi.std()
        found[name] = phi, spread, together / (spread * np.std(y)) if spread > 0 else 0.0, 2 * together
    return found


def sums():
    got, hr, days = share_out(), explain()["hr"], explain()["workingday"]
    work = kinds()["working day"]
    back = hr.given(work).pfi * work.mean() + hr.given(~work).pfi * (~work).mean()
    model, X_test, y_test = fit()
    twice = 2 * np.cov(model.predict(X_test), y_test, bias=True)[0, 1]
    whole = got.error_none - got.error_all
    return [
        ("number", "losslens", "must be"),
        ("mean of the local importances of hr", f"{hr.local.mean():,.0f}", f"{hr.pfi:,.0f}, the PFI"),
        ("mean of the PI curve of hr over the donors", f"{hr.pi @ hr.weights:,.0f}", f"{hr.pfi:,.0f}, the PFI"),
        ("PFI of hr given both kinds of days, averaged by rows", f"{back:,.0f}", f"{hr.pfi:,.0f}, the PFI"),
        ("PFI of workingday within working days (`subset`)", f"{days.subset(work).pfi:,.0f}", "0, nothing to borrow"),
        ("sum of the Shapley shares", f"{got.sfimp.sum():,.0f}", f"{whole:,.0f}, error without − with features"),
        ("the same from the predictions", f"{whole:,.0f}", f"{twice:,.0f}, 2 cov(f, y)"),
    ]


def sfimp():
    got = share_out()
    return dict(zip(got.features, got.sfimp, strict=True))


def in_rain():
    """How many times as much as when it is dry the hour and the weather are worth in rain and snow."""
    imp, masks = explain(), kinds()
    wet, dry = masks["rain, snow"], masks["dry"]
    return {f"rain_{key}": imp[name].given(wet).pfi / imp[name].given(dry).pfi for key, name in RAIN.items()}


def needed_most():
    """The three hours of working days with the largest mean of local importances."""
    _, X_test, _ = fit()
    mine = kinds()["working day"]
    held, local = X_test["hr"].to_numpy()[mine], explain()["hr"].local[mine]
    means = [local[held == hour].mean() for hour in range(24)]
    return set(np.argsort(means)[-3:].tolist())


def facts():
    imp, work, rush, told = explain(), kinds()["working day"], in_rush(), in_rain()
    weather, week = (with_target()[name] for name in ("weathersit", "weekday"))
    hr = imp["hr"]
    return {
        "cost_work": costliest(hr.given(work)),
        "cost_off": costliest(hr.given(~work)),
        "rush": f"{hr.local[rush].mean() / hr.local[~rush].mean():.1f}",
        "negative": f"{np.sum(hr.local < 0)}",
        "rows": f"{len(hr.local):,}",
        "rain_hr": f"{told['rain_hr']:.0%}",
        "rain_weather": f"{told['rain_weather']:.0f}",
        "further": f"{weather[1] / week[1]:.1f}",
        "loose": f"{weather[2]:.2f}",
        "tight": f"{week[2]:.2f}",
        "lost": f"{1 - sfimp()['workingday'] / imp['workingday'].pfi:.0%}",
    }


def in_rush():
    """Rows of the rush hours of working days."""
    _, X_test, _ = fit()
    return (X_test["hr"].isin(RUSH) & (X_test["workingday"] == 1)).to_numpy()


def claims():
    imp, work, got, shared, told = explain(), kinds()["working day"], sfimp(), pairs(), in_rain()
    first, second, third = sorted(imp, key=lambda name: -imp[name].pfi)[:3]
    on, off = imp["hr"].given(work), imp["hr"].given(~work)
    alike = ("temp", "atemp", "mnth", "season")
    return {
        "hr is first by far": first == "hr" and imp["hr"].pfi > 4 * imp[second].pfi,
        "workingday comes second": second == "workingday" and imp[second].pfi > imp[third].pfi,
        "on working days rush hours do the most harm": set(on.grid[np.argsort(on.pi)[-3:]]) == set(RUSH),
        "on days off the night does": off.grid[off.pi.argmax()] < 7,
        "rows of the rush hours need the hour most": needed_most() == set(RUSH),
        "in rain and snow the hour counts less and the weather more": told["rain_hr"] < 1 < told["rain_weather"],
        "workingday loses by sharing": got["workingday"] < imp["workingday"].pfi,
        "most of its importance is its interaction with hr": shared["hr", "workingday"] > imp["workingday"].pfi / 2,
        "that is the strongest of all": max(shared, key=lambda pair: abs(shared[pair])) == ("hr", "workingday"),
        "temp, atemp, mnth and season gain": all(got[name] > imp[name].pfi for name in alike),
        "their interactions are negative": all(shared[tuple(sorted(pair))] < 0 for pair in combinations(alike, 2)),
        "so is that of hr and hum": shared["hr", "hum"] < 0,
        "a share is a covariance": all(
            np.isclose(twice, got[name], rtol=1e-9) for name, (*_, twice) in with_target().items()
        ),
        "weathersit and weekday are worth about the same": 0.8 < got["weathersit"] / got["weekday"] < 1.25,
    }


def pairs():
    """Interactions by the sorted names of two features."""
    got = share_out().interactions
    return {pair: got[pair] for pair in combinations(sorted(got.features), 2)}


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
    ax.set_ylim(0, 1.3 * max(part.pi.max() for part in parts.values()))  # room for the legend
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


def compared():
    """PFI and share of each feature, a line from the one to the other."""
    imp, got = explain(), sfimp()
    names = sorted(got, key=got.get)
    figure, ax = plt.subplots(figsize=(6.2, 4.8), layout="constrained")
    for at, name in enumerate(names):
        gains = got[name] > imp[name].pfi
        ax.plot([imp[name].pfi, got[name]], [at, at], color=BLUE if gains else VERMILLION, linewidth=1.6, zorder=1)
    pfi = [imp[name].pfi for name in names]
    ax.plot(pfi, range(len(names)), "o", color=INK, markerfacecolor="white", label="PFI")
    ax.plot([got[name] for name in names], range(len(names)), "D", color=INK, label="SFIMP")
    handles = ax.get_legend_handles_labels()[0]
    handles += [Line2D([], [], color=BLUE, label="gains by sharing"), Line2D([], [], color=VERMILLION, label="loses")]
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("increase in squared error (PFI), share of it (SFIMP)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(handles=handles, frameon=False, loc="lower right", fontsize="small")
    return figure


def covariances():
    """What each feature adds to a row's prediction over the row's target; the slope is in proportion to the share."""
    figure = plt.figure(figsize=(9, 4.8), layout="constrained")
    panels = figure.subplot_mosaic(
        [["hr", MOVES[0], MOVES[1]], ["hr", MOVES[2], MOVES[3]]], width_ratios=(1.5, 1, 1)
    )  # fmt: skip
    first = panels[MOVES[0]]
    for name in MOVES[1:]:
        panels[name].sharex(first)
        panels[name].sharey(first)
    for name, ax in panels.items():
        draw_effects(ax, name)
    for name in MOVES[1::2]:
        panels[name].tick_params(axis="y", labelleft=False)
    for name in MOVES[:2]:
        panels[name].tick_params(axis="x", labelbottom=False)
    panels["hr"].set_ylabel("what the feature adds to the prediction (SHAP value)")
    figure.supxlabel("bikes hired in the hour, the target", fontsize="medium")
    return figure


def draw_effects(ax, name):
    phi, _, close, twice = with_target()[name]
    y = fit()[2]
    slope = np.cov(phi, y, bias=True)[0, 1] / np.var(y)
    ends = np.array([y.min(), y.max()])
    ax.plot(y, phi, "o", color=BLUE, markersize=3, alpha=0.3, markeredgewidth=0)
    ax.plot(ends, phi.mean() + slope * (ends - y.mean()), color=VERMILLION, linewidth=2)
    ax.axhline(0, color=INK, linewidth=0.6)
    ax.set_title(f"{name}\nSFIMP {twice:,.0f}, correlation {close:.2f}", loc="left", fontsize="small")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.spines[["top", "right"]].set_visible(False)


def interactions():
    figure, ax = plt.subplots(figsize=(9, 5.6), layout="constrained")
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
