"""Odd data: every plot and every `.plot()` draws results of every verb, in full, labelled and on the page.

Hypothesis draws tables (one row to forty, one column to two hundred, all types, names that nobody expects), a donor
design and a way to restrict the rows; a warning while drawing is an error here as everywhere.
"""

import datetime as dt
import inspect
import pkgutil
import re
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import Phase, assume, example, given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib import ticker
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer

import losslens as ll
from losslens.results.base import Ranked, WithLocal
from pictures import looked_at, plot_groups, plot_shares

# Letters that no font has: the user, who alone can install one, is told once.
pytestmark = pytest.mark.filterwarnings("ignore:no installed font has")

LONG = "the share of households with two or more children in the municipality, in percent, as counted in the census"
NAMES = (
    "x", "größe µ_σ²", "Возраст", "العمر", "年齢", "年齢と住所", "😀🚲", "$math$", "$\\frac{", "100 % of $",
    "<script>alert(1)</script>", "_hidden", " ", "\u200b", "a\tb\nc",
    "\\n%s{x}", "None", "1.5", LONG, "MEDIAN_INCOME", "MEDIAN_INCOME_" * 20, "e\u0301",
)  # fmt: skip
DESIGNS = ("auto", "all", ll.Grid(2), ll.Permutations(2), ll.Latin(2), ll.Systematic(2), ll.Derangements(1))
NUMBERS = ("normal", "constant", "zero", "integer", "huge", "tiny", "far")
TYPES = (*NUMBERS, "bool", "word", "category", "date", "time", "span")
READ = 4  # columns that the model reads: all others are worth nothing
WORDS = ("low", "very high", "$mid$", LONG, "", "😀")


@dataclass(frozen=True)
class Data:
    """A table, its true values, and a model that is a plain function."""

    X: Any
    y: np.ndarray
    library: str
    size: float
    scales: tuple[float, ...] = (1.0,) * READ  # numbers around one, however large they are in the table

    @property
    def names(self):
        return [f"x{j}" for j in range(self.X.shape[1])] if self.library == "numpy" else list(self.X.columns)

    def __call__(self, X):
        columns = [self.numbers(X, j) for j in range(min(READ, X.shape[1]))]
        return self.size * (sum((0.5**j) * c for j, c in enumerate(columns)) + columns[0] * columns[-1])

    def numbers(self, X, j):
        """A column as numbers, a row at a time."""
        if self.library == "numpy":
            return X[:, j] / self.scales[j]
        values = X.iloc[:, j] if self.library == "pandas" else X[:, j].to_pandas()
        if values.dtype.kind in "mM":
            return values.astype("int64").to_numpy() / self.scales[j]
        if values.dtype.kind in "biuf":
            return values.to_numpy(float) / self.scales[j]
        return values.astype(str).str.len().to_numpy(float) / self.scales[j]


def column(kind, n, rng):
    start = dt.datetime(2020, 2, 29)
    made = {
        "normal": lambda: rng.normal(size=n),
        "constant": lambda: np.full(n, 3.5),
        "zero": lambda: np.zeros(n),
        "integer": lambda: rng.integers(-2, 3, n),
        "huge": lambda: rng.normal(size=n) * 1e12,
        "tiny": lambda: rng.normal(size=n) * 1e-12,
        "far": lambda: 1e6 + rng.normal(size=n) * 1e-3,
        "bool": lambda: rng.integers(0, 2, n) == 1,
        "word": lambda: np.array(WORDS, object)[rng.integers(0, len(WORDS), n)],
        "category": lambda: np.array(WORDS[:3], object)[rng.integers(0, 3, n)],
        "date": lambda: [start.date() + dt.timedelta(days=int(d)) for d in rng.integers(0, 900, n)],
        "time": lambda: [start + dt.timedelta(seconds=int(d)) for d in rng.integers(0, 90, n)],
        "span": lambda: [dt.timedelta(seconds=int(d)) for d in rng.integers(0, 9e5, n)],
    }
    return made[kind]()


def table(library, n, p, kinds, names, seed):
    rng = np.random.default_rng(seed)
    kinds = [kinds[j % len(kinds)] for j in range(p)]
    columns = [column(kind, n, rng) for kind in kinds]
    if library == "numpy":
        return np.column_stack(columns).astype(float)
    # Names that look alike but aren't: a number at their end tells them apart from the second round on.
    named = {f"{names[j % len(names)]}{j // len(names) or ''}": c for j, c in enumerate(columns)}
    if library == "polars":
        some = zip(named.items(), kinds, strict=True)
        return pl.DataFrame(
            {k: pl.Series(k, list(v), dtype=pl.Enum(WORDS[:3])) if kind == "category" else v for (k, v), kind in some}
        )
    frame = pd.DataFrame(named)
    for name, kind in zip(named, kinds, strict=True):
        if kind == "category":
            frame[name] = frame[name].astype(pd.CategoricalDtype(WORDS[:3], ordered=True))
        if kind == "date":
            frame[name] = pd.to_datetime(frame[name])
    return frame


def make(library="pandas", n=12, p=3, kinds=("normal",), names=("x", "y", "z"), size=1.0, truth="noisy", seed=0):
    X = table(library, n, p, kinds, names, seed)
    plain = Data(X, np.zeros(n), library, size)
    scales = tuple(float(np.abs(plain.numbers(X, j)).max()) or 1.0 for j in range(min(READ, p)))
    right = replace(plain, scales=scales)(X)
    noise = size * np.random.default_rng(seed + 1).normal(size=n)
    # A model that is right, nearly so, always wrong (replacing helps), and one that has nothing to predict.
    y = {"right": right, "noisy": right + noise, "wrong": -right + noise, "nothing": noise}[truth]
    return Data(X, y, library, size, scales)


@st.composite
def shapes(draw):
    """What `make` needs: a failure says it in one line."""
    library = draw(st.sampled_from(["pandas", "numpy", "polars"]))
    p = draw(st.one_of(st.integers(1, 6), st.sampled_from([21, 41, 200])))
    return {
        "library": library,
        "n": draw(st.integers(2, 40) if p <= 6 else st.integers(3, 9)),
        "p": p,
        "kinds": draw(st.lists(st.sampled_from(NUMBERS if library == "numpy" else TYPES), min_size=1, max_size=4)),
        "names": draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)),
        "size": draw(st.sampled_from([1.0, 0.0, 1e-12, 1e12, 1e3])),
        "truth": draw(st.sampled_from(["noisy", "right", "wrong", "nothing"])),
        "seed": draw(st.integers(0, 99)),
    }


# Shapes that must not be left to chance: a constant and a single row, two hundred features, all names and types.
CONSTANT = {"n": 2, "p": 2, "kinds": ("constant", "word"), "names": ("年齢",), "truth": "wrong"}
WIDE = {"library": "numpy", "n": 3, "p": 200}
STRANGE = {"library": "polars", "n": 8, "p": len(NAMES), "kinds": TYPES, "names": NAMES}

parts = st.sampled_from(["all", "one", "half", "subset"])
designs = st.sampled_from(DESIGNS)


def chosen(result, part):
    """All rows of a result or some of them; donors from everywhere, or among themselves."""
    if part == "one":
        return result.given([0])
    n = len(next(iter(result.values())).at)
    if part == "half":
        return result.given(np.arange(n) < (n + 1) // 2)
    if part == "subset" and n > 3 and hasattr(result, "subset"):
        try:
            return result.subset(np.arange(n) % 4 != 3)
        except ValueError:  # no donor is among them
            return result
    return result


class Model(RegressorMixin, BaseEstimator):
    """The function as scorers and refits want it."""

    def __init__(self, function):
        self.function = function
        self.level_ = 0.0

    def fit(self, X, y):
        self.level_ = np.mean(y)
        return self

    def predict(self, X):
        return self.function(X) + self.level_


def ask(data, design="auto", features=None, **asked):
    asked = {"loss": "squared_error", "random_state": 0, "donors": design, "features": features} | asked
    return ll.feature_importance(data, data.X, data.y, **asked)


def shares(data, **asked):
    asked = {"loss": "squared_error", "random_state": 0, "budget": enough(data)} | asked
    return ll.shapley_importance(data, data.X, data.y, **asked)


def enough(data):
    """Predictions for two sweeps of walks."""
    return 2 * len(data.y) ** 2 * len(data.names) + 100


def some(names, most=2):
    """The first, which the model reads, and the last, which it needn't: not two hundred pictures."""
    return list(dict.fromkeys([names[0], names[-1]]))[:most]


# -- a case for each plot ---------------------------------------------------------------------------------------------


def draw_ranking(data, design, part):
    result = chosen(ask(data, design), part)
    yield result.plot()
    if all(np.isfinite(f.pfi) and f.error > 0 for f in result.values()):
        yield result.plot(ratio=True)


def draw_importance(data, design, part):
    for one in chosen(ask(data, design, some(data.names)), part).values():
        yield one.plot()


def draw_several(data, design, part):
    """Groups and pairs of columns, whose designs have no curve or no number."""
    if len(data.names) < 2:
        return
    first, last = data.names[0], data.names[-1]
    design = ll.Latin(2) if isinstance(design, ll.Systematic) else design  # columns together have no order
    yield chosen(ask(data, design, {f"{first} & {last}": data.names[:3]}), part)[f"{first} & {last}"].plot()
    if design in ("auto", "all"):
        pair = chosen(ask(data, design, [(first, last)]), "all" if part == "subset" else part)[first, last]
        yield pair.plot()
        yield pair.effect.plot()


def draw_scores(data, design, part):
    if data.size != 1.0:  # R2 of a constant is no number
        return
    loss = get_scorer("neg_mean_absolute_error")
    scores = ll.feature_importance(
        Model(data), data.X, data.y, loss=loss, features=some(data.names), donors="all", random_state=0
    )
    yield scores.plot()
    for one in scores.values():
        yield one.plot()


def draw_effect(data, design, part):
    effects = ll.feature_effect(data, data.X, features=some(data.names), donors=design, random_state=0)
    for one in chosen(effects, part).values():
        yield one.plot()


def draw_effects(data, design, part):
    yield ll.feature_effect(data, data.X, features=some(data.names), donors=design, random_state=0).plot()


def draw_curves(data, design, part):
    found = chosen(ask(data, design), part)
    yield found.plot_curves(top=4)


def named_groups(data, part):
    labels = np.array([*NAMES[:10], *NAMES[:30]], object)[: len(data.y)]
    return {"one": labels[[0] * len(data.y)], "half": np.arange(len(data.y)) % 2 == 0}.get(
        part, np.resize(labels, len(data.y))
    )


def draw_groups(data, design, part):
    (one,) = ask(data, design, data.names[:1]).values()
    yield plot_groups(one.by(named_groups(data, part)))
    yield plot_groups(one.effect.by(named_groups(data, part)))


def draw_by_group(data, design, part):
    found = ask(data, design, some(data.names))
    groups = named_groups(data, part)
    if any(np.isfinite(one.pfi) for one in found.values()):
        yield found.by(groups).plot()
    for one in list(found.values())[:1]:
        if np.isfinite(one.pfi):
            yield one.by(groups).plot()
    yield shares(data).by(groups).plot()


def draw_cells(data, design, part):
    for one in chosen(ask(data, design, some(data.names, 2)), part).values():
        if np.isfinite(one.local).any():
            yield one.plot_cells()


def draw_local(data, design, part):
    result = chosen(ask(data, design), part)
    if any(np.isfinite(one.pfi) for one in result.values()):
        yield result.plot_local()
    if part != "half":
        yield shares(data).plot_local()


def draw_shapley(data, design, part):
    yield _restricted(shares(data), part).plot()
    if part == "subset":
        yield shares(data, method=ll.Sage()).plot()


def _restricted(result, part):
    return (
        result.given([0])
        if part == "one"
        else result.given(np.arange(len(result.at)) % 2 == 0)
        if part == "half"
        else result
    )


def draw_shapley_curve(data, design, part):
    result = shares(data)
    for name in some(result.features):
        yield result.curve(name).plot()
    yield result.curve(result.features[0], by="donor").plot()
    if len(data.names) > 1:
        together = shares(data, features={"$all$": data.names})
        yield together.curve("$all$").plot()


def draw_shapley_effect(data, design, part):
    rows = [0] if part == "one" else list(range(len(data.y)))
    yield ll.shapley_effect(data, data.X, rows, random_state=0, budget=enough(data)).plot()


def draw_interactions(data, design, part):
    if len(data.names) < 2:
        return
    names = data.names[:21]
    found = ll.pair_interactions(data, data.X, data.y, loss="squared_error", features=names, random_state=0)
    yield found.plot()
    yield found.plot_ranking()
    yield found.plot_ranking(part="interaction")
    if len(names) <= 4:
        yield found.plot(part="strength")
        yield shares(data, features=names, method="exact", budget=None).interactions.plot()


def draw_shares(data, design, part):
    result = _restricted(shares(data), part)
    yield plot_shares({NAMES[0]: result, **({LONG: result, NAMES[4]: result} if part == "half" else {})})


def draw_gap(data, design, part):
    found, n = shares(data), len(data.y)
    if n > 1 and found.sample.weight[: n // 2].any() and found.sample.weight[n // 2 :].any():
        yield found.gap(np.arange(n) < n // 2, names=(LONG, "$b$")).plot()


def draw_outputs(data, design, part):
    """Two outputs in other units, or points in time."""
    names = [LONG, "$b$"] if part == "half" else [0.5, 12.0]
    loss = ll.losses.outputs("squared_error").bound(names)

    def both(X):
        return np.column_stack([data(X), -1000 * data(X)])

    y = pd.DataFrame(np.column_stack([data.y, data.y]), columns=names) if part == "half" else data.y
    found = ll.feature_importance(both, data.X, y, loss=loss, donors=design, random_state=0, progress=False)
    if any(np.isfinite(row).all() for row in found.outputs.importance):
        yield found.outputs.plot()
        yield found.outputs.plot_lines()


def draw_waterfall(data, design, part):
    yield _restricted(shares(data), part).plot_waterfall()


def draw_comparison(data, design, part):
    models = {
        LONG: data,
        "$half$": lambda X: data(X) / 2,
        **{f"{NAMES[k]}{k}": data for k in range(9 * (part == "half"))},
    }
    if len(data.y) < 3:  # no standard error
        return
    design = "all" if design in DESIGNS[2:] else design  # two donors a row have none, either
    yield ll.compare(models, data.X, data.y, loss="squared_error", donors=design, shapley=False, random_state=0).plot()


def draw_moved(data, design, part):
    if len(data.y) < 6:  # no standard error
        return
    half = len(data.y) // 2
    X, y = ({LONG: values[:half], "$late$": values[half:]} for values in (data.X, data.y))
    yield ll.compare(data, X, y, loss="squared_error", donors="all", shapley=False).plot_moved()


def draw_refits(data, design, part):
    if len(data.y) < 8:
        return
    asked = {"loss": "squared_error", "cv": 2, "random_state": 0}
    refits = ll.feature_importance_cv(Model(data), data.X, data.y, donors=design, **asked)
    yield refits.plot()
    for name in some(refits.features):
        yield refits.curve(name).plot()
    if part == "half":
        yield ll.shapley_importance_cv(Model(data), data.X, data.y, budget=enough(data), **asked).plot()


def draw_permuted_target(data, design, part):
    if len(data.y) < 8:
        return
    asked = {"loss": "squared_error", "cv": 2, "permutations": 3, "random_state": 0}
    yield ll.permuted_target_test(Model(data), data.X, data.y, **asked).plot()


def draw_good_models(data, design, part):
    """Where there are rows enough, and a gain over a constant: otherwise a sentence says so."""
    if len(data.y) > 7:
        with suppress(ValueError):
            models = {"one": data, "half": lambda X: data(X) / 2}
            yield ll.good_models(models, data.X, data.y, loss="squared_error", random_state=0, progress=False).plot()


def draw_impact(data, design, part):
    def shuffled(X, columns, rng):
        order = rng.permutation(len(data.y))
        return X.iloc[order] if data.library == "pandas" else X[order]

    if len(data.y) < 3:  # no standard error
        return
    asked = {"loss": "squared_error", "random_state": 0, "features": data.names[:45]}
    yield ll.conditional_predictive_impact(data, data.X, data.y, shuffled, **asked).plot()


def draw_left_out(data, design, part):
    if len(data.y) < 8:
        return
    asked = {"loss": "squared_error", "cv": 2, "random_state": 0, "features": data.names[:45], "how": "constant"}
    yield ll.leave_one_covariate_out(Model(data), data.X, data.y, **asked).plot()


def draw_regions(data, design, part):
    if len(data.y) < 3:
        return
    imp = ask(data, "all", some(data.names))
    for name, found in ((f, one.regions(data.X, target="importance", permutations=19)) for f, one in imp.items()):
        yield found.plot(name)


def draw_row_influence(data, design, part):
    for one in chosen(ask(data, design, some(data.names)), "half" if part == "subset" else "all").values():
        try:
            found = one.row_influence
        except ValueError:  # of rows that `given` chose, or where nothing can be left out
            continue
        if np.isfinite(found.total).any():
            yield found.plot()


def draw_over_time(data, design, part):
    n = len(data.y)
    if n < 2:
        return
    imp = ask(data, design)
    times = np.arange(n) if part == "half" else np.datetime64("2024-02-28T18", "s") + 3600 * np.arange(n)
    yield imp.over(times).plot()
    yield next(iter(imp.values())).over(times, bins=3).plot()


def draw_observations(data, design, part):
    yield _restricted(shares(data), part).rank_rows().plot()


def draw_extrapolation(data, design, part):
    found = chosen(ask(data, design), part).extrapolation
    if any(np.isfinite(one.auc) for one in found.values()):
        yield found.plot()


def draw_clusters(data, design, part):
    result = shares(data)
    many = len(np.unique(result.local.round(9), axis=0))
    for k in {1, min(many, 2), min(many, 5)} if part == "half" else {None}:
        yield result.clusters(data.X, k=k, random_state=0, starts=2).plot()


def draw_segments(data, design, part):
    yield ll.weak_segments(data, data.X, data.y, loss="squared_error", progress=False).plot()


def draw_sufficient(data, design, part):
    """Where there are rows for two halves, and something to keep: otherwise a sentence says so."""
    if len(data.names) > 1 and len(data.y) > 39:
        with suppress(ValueError):
            enough = ask(data).sufficient(data, data.X, data.y, keep=0.5, random_state=0)
            yield enough.plot()


def draw_together(data, design, part):
    """Blocks need three rows for their errors; curves alone have no importance."""
    imp, names = ask(data), data.names
    if len(names) > 1 and len(data.y) > 3:
        together = imp.together(data, data.X, data.y, blocks={f"{LONG}: $both$": names[:2]})
        yield together.plot()
        yield imp.plot(blocks=together)


CASES = {
    "ByGroup.plot": [draw_by_group],
    "ByGroup.plot_curves": [draw_groups],
    "Clusters.plot": [draw_clusters],
    "Comparison.plot": [draw_comparison],
    "Comparison.plot_moved": [draw_moved],
    "Comparison.plot_shares": [draw_shares],
    "Effects.plot": [draw_effects],
    "Extrapolations.plot": [draw_extrapolation],
    "FeatureEffect.plot": [draw_effect],
    "FeatureImportance.plot": [draw_importance, draw_several],
    "FeatureImportance.plot_cells": [draw_cells],
    "FeatureScore.plot": [draw_scores],
    "Gap.plot": [draw_gap],
    "GoodModels.plot": [draw_good_models],
    "Importances.plot": [draw_ranking],
    "Importances.plot_curves": [draw_curves],
    "Importances.plot_local": [draw_local],
    "Interactions.plot": [draw_interactions],
    "Interactions.plot_ranking": [draw_interactions],
    "Observations.plot": [draw_observations],
    "Outputs.plot": [draw_outputs],
    "Outputs.plot_lines": [draw_outputs],
    "OverTime.plot": [draw_over_time],
    "PermutedTarget.plot": [draw_permuted_target],
    "RefitCurve.plot": [draw_refits],
    "Refits.plot": [draw_refits],
    "Regions.plot": [draw_regions],
    "RowChanges.plot": [draw_impact, draw_left_out],
    "RowInfluence.plot": [draw_row_influence],
    "ShapleyCurve.plot": [draw_shapley_curve],
    "ShapleyEffect.plot": [draw_shapley_effect],
    "ShapleyImportance.plot": [draw_shapley],
    "ShapleyImportance.plot_local": [draw_local],
    "ShapleyImportance.plot_waterfall": [draw_waterfall],
    "Sufficient.plot": [draw_sufficient],
    "Together.plot": [draw_together],
    "WeakSegments.plot": [draw_segments],
}


# -- what a picture must be -------------------------------------------------------------------------------------------


def check(ax, blank=False):
    """Drawn in full, both axes say what they are (unless a feature's name is blank), and all text is on the page."""
    ax, *panels = ax if isinstance(ax, list) else [ax]  # of which the first has the labels of all
    looked_at(ax)
    for one in (one for one in ax.figure.axes if one.axison):  # others hold a sentence
        for axis in (one.xaxis, one.yaxis) if one is ax else (one.xaxis if one in panels else one.yaxis,):  # or colours
            named = isinstance(axis.get_major_locator(), ticker.FixedLocator) and len(axis.get_ticklabels())
            assert axis.label.get_text().strip() or named or blank, f"{axis} has neither a label nor names"
    page, slack = ax.figure.bbox, 0.03 * min(ax.figure.bbox.size)
    for text in written(ax):
        box = text.get_window_extent()
        off = max(page.x0 - box.x0, page.y0 - box.y0, box.x1 - page.x1, box.y1 - page.y1)
        assert off <= slack, f"{text} leaves the page by {off:.0f} pixels"


def written(ax):
    """All texts that are drawn."""
    for one in ax.figure.axes:
        legend = one.get_legend()
        yield from [one.xaxis.label, one.yaxis.label, *one.texts, *(legend.get_texts() if legend else [])]
        for axis in (one.xaxis, one.yaxis):
            low, high = sorted(axis.get_view_interval())
            yield from (t.label1 for t in axis.get_major_ticks() if low <= t.get_loc() <= high and t.label1.get_text())
            yield axis.get_offset_text()


SHARED = (Ranked, WithLocal)  # what these draw, each of their results draws


def test_every_plot_has_a_case():
    found = set()
    for module in pkgutil.walk_packages(ll.__path__, "losslens."):
        left_out = (".engines", ".demo", ".mlflow", ".skore", ".sklearn")  # which draw nothing of their own
        if not any(part in module.name for part in left_out):
            for name, made in inspect.getmembers(import_module(module.name), inspect.isclass):
                if made.__module__.startswith("losslens") and made not in SHARED:
                    own = chain(vars(made), *(vars(shared) for shared in SHARED if shared in made.__bases__))
                    found |= {f"{name}.{method}" for method in own if method.startswith("plot")}
    assert found == set(CASES)


@pytest.mark.parametrize("draw", list(dict.fromkeys(chain(*CASES.values()))))
@settings(max_examples=1, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # what is drawn is simple as it is
@given(shape=shapes(), design=designs, part=parts)
@example(shape=CONSTANT, design="auto", part="one")
@example(shape=WIDE, design="auto", part="half")
@example(shape=STRANGE, design="all", part="all")
def test_odd_results_draw(draw, shape, design, part):
    try:
        for ax in draw(make(**shape), design, part):
            check(ax, blank=" " in shape.get("names", ()))
            plt.close("all")
    finally:
        plt.close("all")


@settings(max_examples=4)
@given(p=st.integers(2, 8), seed=st.integers(0, 99))
def test_percentages_sum_to_a_hundred(p, seed):
    """Each is rounded, so that the sum may be half a percent a feature off."""
    result = shares(make("numpy", n=12, p=p, seed=seed))
    assume(result.error_none > 1.2 * result.error_all)
    written_there = [text.get_text() for text in result.plot().texts]
    found = [re.search(r"\((−?[<>]?\d+)%\)", text) for text in written_there]
    percent = [float(one[1].replace("−", "-").replace("<1", "0.5").replace(">99", "99.5")) for one in found if one]
    assert len(percent) == p
    assert sum(percent) == pytest.approx(100, abs=0.5 * p)
    plt.close("all")


# -- contact sheets: every plot on three data sets, to look at (make contact) -----------------------------------------

WIDTH, HEIGHT, COLUMNS = 4.6, 3.6, 4  # inches of a picture on a sheet, and pictures in a line


class Present(Data):
    """Missing values count as 0."""

    def numbers(self, X, j):
        return np.nan_to_num(super().numbers(X, j))


def long_names(n=90):
    rng = np.random.default_rng(1)
    names = [LONG, "years of education of the person with the highest income", "number of children under six", "noise"]
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=names)
    X[names[2]] = rng.integers(0, 4, n)
    return _noisy(X, rng)


def categories(n=90):
    rng = np.random.default_rng(2)
    X = pd.DataFrame(
        {
            "region": rng.choice(["Northern highlands", "Southern coast", "City"], n),
            "size": rng.gamma(2, 1, n),
            "has a car": rng.choice(["yes", "no"], n).astype(object),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 200, n), unit="D"),
        }
    )
    X.loc[rng.random(n) < 0.15, "has a car"] = None
    return _noisy(X, rng, scales=(10.0, 1.0, 3.0, 1e18))


def sixty(n=60):
    rng = np.random.default_rng(3)
    return _noisy(pd.DataFrame(rng.normal(size=(n, 4)).round(1), columns=["a", "b", "c", "d"]), rng)


def _noisy(X, rng, scales=(1.0,) * 4):
    plain = Present(X, np.zeros(len(X)), "pandas", 1.0, scales)
    return Present(X, plain(X) + 0.5 * rng.normal(size=len(X)), "pandas", 1.0, scales)


SHEETS = {"long names": long_names, "categories": categories, "sixty rows": sixty}


def pictures(data, folder):
    """Each picture of each plot as a file, by the name of the plot."""
    found = {}
    for name, draw in {draw.__name__: draw for draws in CASES.values() for draw in draws}.items():
        for k, drawn in enumerate(draw(data, "all", "all")):
            figure = (drawn[0] if isinstance(drawn, (list, np.ndarray)) else drawn).figure
            path = folder / f"{name}-{k}.png"
            figure.savefig(path, dpi=80)
            plt.close(figure)
            found.setdefault(name, []).append(path)
    return found


def sheet(found, path):
    """All pictures on one page, with the names of their plots."""
    every = [(f"{name} {k + 1}" if k else name, file) for name, files in found.items() for k, file in enumerate(files)]
    rows = -(-len(every) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(COLUMNS * WIDTH, rows * HEIGHT), squeeze=False)
    for ax in axes.flat:
        ax.axis("off")
    for ax, (title, file) in zip(axes.flat, every, strict=False):
        ax.imshow(plt.imread(file))
        ax.set_title(title.removeprefix("draw_"), fontsize=9)
    figure.tight_layout(pad=0.3)
    figure.savefig(path, dpi=90)
    plt.close(figure)


@pytest.mark.parametrize("name", SHEETS)
def test_a_sheet_holds_a_picture_of_every_plot(name, tmp_path):
    found = pictures(SHEETS[name](), tmp_path)
    assert set(found) == {draw.__name__ for draws in CASES.values() for draw in draws}
    sheet(found, tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").stat().st_size > 100_000


if __name__ == "__main__":
    for title, make in SHEETS.items():
        folder = Path(sys.argv[1]) / title
        folder.mkdir(parents=True, exist_ok=True)
        sheet(pictures(make(), folder), Path(sys.argv[1]) / f"{title}.png")
