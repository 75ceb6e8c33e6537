"""The calls whose numbers are frozen, by names that stay: a call that a refactoring writes otherwise keeps its name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import Any
from zlib import crc32

import dask.dataframe as dd
import numpy as np
import polars as pl
from sklearn import ensemble, linear_model
from tests.frozen.settings import ENGINES, OBJECTS, Setting, losses, made, of_engine_table, setting, survival, targets
from tests.fuzz.worlds import KINDS

import losslens as ll
from losslens.sklearn import permutation_importance

QUIET = {"random_state": 0, "n_jobs": 1, "progress": False}
DESIGNS = {
    "auto": "auto", "all": "all", "derangements": ll.Derangements(), "Latin": ll.Latin(4), "Grid": ll.Grid(5),
    "Systematic": ll.Systematic(4), "Permutations": ll.Permutations(3), "Derangements": ll.Derangements(3),
    "quantiles": ll.Grid(5, at="quantiles"),
}  # fmt: skip
SITUATIONS = {
    "plain": lambda s: {},
    "weights": lambda s: {"sample_weight": s.weights},
    "groups": lambda s: {"groups": s.groups},
}
WITH_GROUPS = ("auto", "all", "Latin")  # designs that take donors from other groups


@dataclass(frozen=True)
class Call:
    """What is run, on which model and rows."""

    setting: Callable[[], Setting]
    run: Callable[[Setting], Any]


CALLS: dict[str, Call] = {}


def add(name, setting, run):
    assert name not in CALLS, name
    CALLS[name] = Call(setting, run)


def call(verb, situation="plain", **options):
    """A verb of model, X and y."""
    return lambda s: verb(s.model, s.X, s.y, **(QUIET | loss_of(s) | SITUATIONS[situation](s) | options))


def loss_of(s):
    """Functions have none by default."""
    return {} if hasattr(s.model, "predict") else {"loss": "squared_error"}


def on_made(name, verb, model, size=None, situation="plain", **options):
    """A call on one of the models of a pandas frame."""
    add(name, partial(made, model, **(size or {})), call(verb, situation, **options))


def turns(choices, name):
    """The choices one after another, from a place that depends on the name alone."""
    return islice(cycle(choices), crc32(name.encode()) % len(choices), None)


# Every kind of model, with every loss, situation and design somewhere.


def every_kind():
    for kind in KINDS:
        for target in targets(kind):
            here, of = partial(setting, kind, target), f"{kind}/{target}"
            loss, design = turns(losses(kind, target), of), turns([*DESIGNS, "auto", "auto"], of)
            for situation in SITUATIONS:
                judge, donors = next(loss), next(design)
                if situation == "groups":
                    donors = next(one for one in design if one in WITH_GROUPS)
                run = call(ll.feature_importance, situation, loss=OBJECTS.get(judge, judge), donors=DESIGNS[donors])
                add(f"feature_importance/{of}/{judge}/{situation}/{donors}", here, run)
            for situation in ("plain", next(turns(["weights", "groups"], of))):
                judge, method = next(loss), "rows" if situation == "weights" else "auto"
                run = call(ll.shapley_importance, situation, loss=OBJECTS.get(judge, judge), method=method)
                add(f"shapley_importance/{of}/{judge}/{situation}", here, run)
            if target == "values" or (kind != "function" and "log_loss" in losses(kind, target)):
                add(f"feature_effect/{of}", here, effect(target))
                add(f"shapley_effect/{of}", here, shapley_effect(target))
        target = targets(kind)[0]
        run = call(ll.pair_interactions, loss=losses(kind, target)[0])
        add(f"pair_interactions/{kind}", partial(setting, kind, target), run)


def effect(of="values", **options):
    return lambda s: ll.feature_effect(s.model, s.X, **(QUIET | last_class(s, of) | options))


def shapley_effect(of="values", **options):
    return lambda s: ll.shapley_effect(s.model, s.X, [0, 3, 7], **(QUIET | last_class(s, of) | options))


def last_class(s, of):
    return {} if of == "values" else {"target": np.unique(s.model.classes_).tolist()[-1]}


def every_engine():
    for name in ENGINES:
        here = partial(of_engine_table, name)
        add(f"feature_importance/engine table/{name}", here, call(ll.feature_importance, donors="all"))
        add(f"shapley_importance/engine table/{name}", here, call(ll.shapley_importance))


# Ways that depend on sizes and options.


MANY, SOME = {"columns": 24}, [f"x{j}" for j in range(12)]
WAYS = {  # model, size, options
    "coalitions": ("function", {}, {}),
    "drawn coalitions": ("function", {}, {"donors": ll.Latin(6)}),
    "coalitions of different rows": ("function", {}, {"donors": ll.Derangements()}),
    "coalitions of permutations": ("function", {}, {"donors": ll.Permutations(6)}),
    "walks": ("function", {}, {"method": "walk"}),
    "walks of Latin donors": ("function", {}, {"method": "walk", "donors": ll.Latin(6)}),
    "walks with a budget": ("function", {}, {"method": "walk", "budget": 3000}),
    "walks to a precision": ("function", {}, {"method": "walk", "precision": 0.03}),
    "walks to a number": ("function", {}, {"method": "walk", "precision": ll.Absolute(0.1)}),
    "walks of many columns": ("function", MANY, {}),
    "walks of trees": ("boosting", MANY, {"loss": "absolute_error"}),
    "walks of a line": ("line", MANY, {"loss": "absolute_error"}),
    "walks of averages": ("function", {"columns": 12}, {"method": ll.Sage("walk")}),
    "averages": ("function", {}, {"method": ll.Sage()}),
    "averages on a grid": ("function", {}, {"method": ll.Sage(), "donors": ll.Grid(8)}),
    "averages of leaves": ("boosting", {}, {"method": ll.Sage()}),
    "averages of classes": ("forest of classes", {}, {"method": ll.Sage()}),
    "averages of trees in a link": ("boosted odds", {}, {"method": ll.Sage()}),
    "averages of sums": ("line", {}, {"method": ll.Sage()}),
    "averages of odds": ("odds", {}, {"method": ll.Sage()}),
    "the paper's": ("function", {}, {"method": ll.Paper(m_feat=8, m_obs=4)}),
    "closed form": ("line", MANY, {}),
    "tree pairs": ("boosting", {"rows": 150}, {"loss": "absolute_error"}),
    "tree pairs of many columns": ("boosting", {"columns": 14}, {"loss": "absolute_error"}),
    "walks of some columns of a forest": ("forest", {"columns": 13, "rows": 1500}, {"features": SOME}),
    "walks of some columns of a tree": ("tree", {"columns": 13, "rows": 1500}, {"features": SOME}),
    "coalitions of some columns": ("machine", {}, {"features": ["x0", "x1", "x2"], "method": "exact"}),
    "covariance of trees": ("boosting", MANY, {"method": "totals"}),
    "covariance of odds": ("odds", MANY, {}),
    "covariance of boosted odds": ("boosted odds", MANY, {}),
    "coalitions of a machine": ("machine", {"columns": 10}, {}),
    "covariance and walks of trees": ("boosting", MANY, {"method": "rows"}),
    "covariance and walks of odds": ("odds", MANY, {"method": "rows"}),
    "covariance and walks of boosted odds": ("boosted odds", MANY, {"method": "rows"}),
    "walks of a machine": ("machine", {"columns": 14}, {"method": "rows"}),
    "players of several columns": ("boosting", {}, {"features": {"a": ["x0", "x3"], "b": ["x1"], "c": ["x2", "x4"]}}),
    "columns that nobody plays": ("forest", {}, {"features": ["x0", "x1"]}),
    "draws within leaves": ("function", {"rows": 30}, {"donors": ll.Within(), "features": ["x0", "x1", "x2"]}),
    "draws of residuals": ("function", {"rows": 30}, {"donors": ll.Residual(m=5), "features": ["x0", "x1"]}),
    "draws in orders": ("function", {"rows": 30, "columns": 12}, {"donors": ll.Within(m=2)}),
    "a score": ("boosting", {}, {"loss": "r2"}),
    "a score of classes": ("odds", {}, {"loss": "roc_auc"}),
    "a score in orders": ("line", {"columns": 14}, {"loss": "r2", "donors": ll.Latin(3), "budget": 100_000}),
    "several losses": ("forest", {}, {"loss": ["squared_error", "absolute_error", "r2"]}),
    "two outputs": ("two outputs", {}, {}),
    "two lines": ("two lines", {}, {}),
    "two functions": ("two functions", {}, {}),
    "little memory": ("function", {"rows": 200}, {"memory": "300 KiB"}),
    "little memory, trees": ("boosting", {"rows": 200}, {"memory": "300 KiB", "loss": "absolute_error"}),
}


def shapley_ways():
    for name, (model, size, options) in WAYS.items():
        on_made(f"shapley_importance/{name}", ll.shapley_importance, model, size, **options)
    for model in ("function", "line", "boosting", "machine", "odds", "boosted odds", "two outputs"):
        for situation in ("weights", "groups"):
            on_made(f"shapley_importance/{model}/{situation}", ll.shapley_importance, model, situation=situation)
    for model in ("function", "boosting", "line", "machine"):
        wide = partial(made, model, columns=14)
        add(f"shapley_effect/walks/{model}", wide, shapley_effect(method="walk", budget=20_000))
        add(f"shapley_effect/many columns/{model}", wide, shapley_effect(budget=20_000))
        add(f"shapley_effect/grid/{model}", partial(made, model), shapley_effect(donors=ll.Grid(20)))


TOGETHER = {"two": ["x0", "x1"], "three": ["x0", "x2", "x3"], "one": ["x4"]}


def importances():
    many = {"rows": 300}
    for model in ("function", "line", "forest", "boosting", "large boosting", "machine", "odds", "boosted odds"):
        of = partial(on_made, verb=ll.feature_importance, model=model)
        for design, donors in DESIGNS.items():
            of(f"feature_importance/designs/{model}/{design}", donors=donors)
        for situation in SITUATIONS:
            of(f"feature_importance/together/{model}/{situation}", features=TOGETHER, situation=situation)
        of(f"feature_importance/product grid/{model}", features=("x0", "x3"))
        of(f"feature_importance/within leaves/{model}", donors=ll.Within())
        of(f"feature_importance/residuals/{model}", donors=ll.Residual())
        of(f"feature_importance/little memory/{model}", size=many, memory="300 KiB")
        add(f"feature_effect/little memory/{model}", partial(made, model, **many), effect(memory="300 KiB"))
        on_made(f"pair_interactions/{model}/groups", ll.pair_interactions, model, situation="groups")
    for model in ("forest", "odds", "line"):
        of = partial(on_made, verb=ll.feature_importance, model=model)
        for scorer in ("roc_auc", "average_precision") if model == "odds" else ("r2", "neg_mean_squared_error"):
            for situation in SITUATIONS:
                of(f"feature_importance/score/{model}/{scorer}/{situation}", loss=scorer, situation=situation)
        of(f"feature_importance/score/{model}/Latin", loss="score", donors=ll.Latin(5))
        several = ["log_loss", "brier", "roc_auc"] if model == "odds" else ["squared_error", "absolute_error", "r2"]
        of(f"feature_importance/several losses/{model}", loss=several)
    for model in ("two outputs", "two lines", "two functions"):
        on_made(f"feature_importance/{model}", with_outputs, model)
        add(f"feature_effect/{model}", partial(made, model), effect(target=1))
    add("feature_importance/quantiles", partial(made, "two functions"), quantiles)
    for verb in (ll.feature_importance, ll.shapley_importance):
        add(f"{verb.__name__}/survival", survival, call(verb, loss=ll.losses.brier_survival((2.0, 7.0))))
    on_made("feature_importance/row labels", ll.feature_importance, "forest", {"labelled": True})


def with_outputs(*arguments, **options):
    found = ll.feature_importance(*arguments, **options)
    return {"importances": found, "outputs": found.outputs}


def quantiles(s):
    return ll.feature_importance(s.model, s.X, s.y[:, 0], loss=ll.losses.pinball([0.1, 0.9]), **QUIET)


# What results make of other rows, losses and groups.


N = 90
SOME_ROWS, LABELS, TIMES = np.arange(0, N, 2), np.arange(N) % 3, np.arange(N)
OF_IMPORTANCES = {
    "given": lambda found, s: found.given(SOME_ROWS),
    "subset": lambda found, s: found.subset(SOME_ROWS),
    "drop": lambda found, s: found.drop([0, 5]),
    "by": lambda found, s: found.by(LABELS),
    "difference of groups": lambda found, s: found.by(LABELS).difference(0, 1, "x0"),
    "with_loss": lambda found, s: found.with_loss("brier" if s.y.dtype == bool else "absolute_error"),
    "over": lambda found, s: found.over(TIMES, bins=4),
    "difference": lambda found, s: found.difference("x0", "x1"),
    "by of a feature": lambda found, s: found["x0"].by(LABELS),
    "effect of a group": lambda found, s: found["x0"].given(SOME_ROWS).effect,
    "extrapolation": lambda found, s: found.extrapolation,
    "regions": lambda found, s: found.regions(s.X, permutations=99),
    "regions of importance": lambda found, s: found["x0"].regions(s.X, target="importance", permutations=99),
    "time blocks": lambda found, s: ll.time_blocks(TIMES, like=found),
    "saved and loaded": lambda found, s: saved(found),
}
OF_SHARES = {
    "given": lambda found, s: found.given(SOME_ROWS),
    "by": lambda found, s: found.by(LABELS),
    "gap": lambda found, s: found.gap(LABELS == 0),
    "curve": lambda found, s: {by: found.curve("x0", by=by) for by in ("own", "donor")},
    "influence": lambda found, s: found.influence("x0"),
    "difference": lambda found, s: found.difference("x0", "x1"),
    "observations": lambda found, s: found.rank_rows(),
    "clusters": lambda found, s: found.clusters(s.X, k=3, random_state=0),
    "clusters of any number": lambda found, s: found.clusters(s.X, random_state=0, starts=3),
    "saved and loaded": lambda found, s: saved(found),
}


def derived():
    for model in ("function", "forest", "odds"):
        for what, change in OF_IMPORTANCES.items():
            add(f"importances/{what}/{model}", partial(made, model, N), then(change, ll.feature_importance))
        for what, change in OF_SHARES.items():
            add(f"shares/{what}/{model}", partial(made, model, N), then(change, ll.shapley_importance, method="rows"))
    here = partial(made, "forest", N)
    add("importances/leaves", here, then(leaves, ll.feature_importance, donors=ll.Within()))
    add("interactions/parts", here, then(parts, ll.pair_interactions))
    add("time_blocks", here, lambda s: ll.time_blocks(TIMES, 9))
    add("feature_importance/time blocks", here, call(ll.feature_importance, groups=ll.time_blocks(TIMES, 9)))


def then(change, verb, **options):
    """What is made of a result, and how that was computed: its numbers are another call's."""

    def run(s):
        found = call(verb, **options)(s)
        way = {name: getattr(found, name, None) for name in ("engine", "method", "design", "exact")}
        return {"source": way, "then": change(found, s)}

    return run


def leaves(found, s):
    return found["x0"].leaves


def parts(found, s):
    return {name: getattr(found, name) for name in ("interaction", "shared", "strength")}


def saved(found):
    found.save("result")
    return ll.load("result")


# Several models, refits, samplers, reports, and what calls would cost.


LEARNERS = {"forest": ensemble.RandomForestRegressor(4, max_depth=3, random_state=0), "line": linear_model.Ridge()}
REFITS = {
    "feature_importance_cv": {"cv": 3}, "shapley_importance_cv": {"cv": 3},
    "permuted_target_test": {"cv": 2, "permutations": 9}, "leave_one_covariate_out": {"cv": 3},
}  # fmt: skip


def other_verbs():
    for name, learner in LEARNERS.items():
        here = partial(made, name, N)
        for verb, options in REFITS.items():
            for situation in ("plain", "groups"):
                run = with_model(learner, call(getattr(ll, verb), situation, **options))
                add(f"{verb}/{name}/{situation}", here, run)
        run = with_model(learner, call(ll.leave_one_covariate_out, cv=3, how="constant"))
        add(f"leave_one_covariate_out/{name}/constant", here, run)
    for model in ("forest", "function", "odds"):
        for sampler in (ll.Within(), ll.Residual()):
            for situation in ("plain", "weights"):
                name = f"conditional_predictive_impact/{model}/{type(sampler).__name__}/{situation}"
                on_made(name, ll.conditional_predictive_impact, model, None, situation, sampler=sampler, draws=3)
        for situation in SITUATIONS:
            on_made(f"weak_segments/{model}/{situation}", ll.weak_segments, model, {"rows": 200}, situation)
        on_made(f"report/{model}", ll.report, model, {"rows": N}, title="frozen")
    for model in ("forest", "odds"):
        on_made(f"permutation_importance/{model}", permuted, model)
    for situation in SITUATIONS:
        add(f"compare/models/{situation}", partial(made, "forest"), partial(models, situation))
    add(
        "good_models/",
        partial(made, "line"),
        lambda s: ll.good_models(three(), s.X, s.y, loss="squared_error", **QUIET),
    )
    add("compare/rows", partial(made, "forest", N), halves)
    for verb in (ll.feature_importance, ll.shapley_importance, ll.pair_interactions, ll.weak_segments, ll.report):
        for model in ("function", "forest", "machine"):
            on_made(f"plan/{verb.__name__}/{model}", partial(ll.plan, verb), model)


def with_model(model, run):
    return lambda s: run(Setting(model, s.X, s.y))


def permuted(model, X, y, progress, **options):
    return dict(permutation_importance(model, X, y, n_repeats=3, **options))


def three():
    return {name: made(name).model for name in ("line", "boosting", "function")}


def models(situation, s):
    return call(ll.compare, situation)(Setting(three(), s.X, s.y))


def halves(s):
    X, y = ({"early": part[: N // 2], "late": part[N // 2 :]} for part in (s.X, s.y))
    return ll.compare(s.model, X, y, **QUIET)


# Data in files of the current folder, read in parts.


OPENED = {"parquet": str, "polars": pl.scan_parquet, "dask": dd.read_parquet}


def files():
    for model in ("forest", "line", "boosted odds", "machine", "function"):
        here = partial(made, model, 1500)
        for way in OPENED if model in ("forest", "line") else ["parquet"]:
            add(f"feature_importance/{way}/{model}", here, read(way, ll.feature_importance))
            if model not in ("function", "machine"):
                add(f"shapley_importance/{way}/{model}", here, read(way, ll.shapley_importance))
        if model not in ("function", "machine"):
            add(f"feature_effect/parquet/{model}", here, read("parquet", ll.feature_effect))
    here = partial(made, "forest", 1500)
    add("feature_importance/parquet/forest/weights", here, read("parquet", ll.feature_importance, sample_weight="w"))
    run = read("parquet", ll.feature_importance, memory="1 GiB")
    add("feature_importance/parquet/forest/in memory", partial(made, "forest", N), run)


def read(way, verb, memory=300_000, **options):
    def run(s):
        s.X.assign(y=s.y, w=s.weights).to_parquet("rows.parquet", row_group_size=400)
        X, features = OPENED[way]("rows.parquet"), list(s.X.columns)
        if verb is ll.feature_effect:
            return verb(s.model, X, features=features, memory=memory, **QUIET)
        return call(verb, features=features, memory=memory, **options)(Setting(s.model, X, "y"))

    return run


for make in (every_kind, every_engine, shapley_ways, importances, derived, other_verbs, files):
    make()
