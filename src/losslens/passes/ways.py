"""Each feature's way: its donors, the engine that evaluates its cells, and the pass over the rows that fits the engine.

An exact engine computes all pairs of what it supports; the model predicts the rest, cell by cell. ``donors="auto"``
takes all pairs where that is cheap, else donors until their noise is negligible. It depends on counts, never on
seconds: the same data give the same result on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from losslens.donors.designs import All, Design, Grid, Latin, Systematic
from losslens.donors.questions import Subject
from losslens.engines.base import AnswerWay, CurveCells, Declined
from losslens.engines.choice import CHECKED
from losslens.losses import Loss, OutputsLoss
from losslens.passes import additive, cells, products, step_curves
from losslens.passes.outputs import mean_of_outputs
from losslens.passes.task import FeatureDesign, Outcome, Passed, Task
from losslens.results.effects import FeatureEffect
from losslens.results.importance import FeatureImportance
from losslens.results.replaced_rows import ReplacedRows
from losslens.tables.sample import Sample, with_parts

EXACT_PREDICTIONS = 1_000_000  # a feature that needs at most so many is computed over all pairs
FIRST_DRAW = 8  # donors a row in the first round of a sample
PAIR_AXIS = 20  # grid values on each axis of a pair
EFFECT_GRID = (20, 100)  # fewest and most grid values of an effect where all values are over the limit
FIXED_DONORS = 32  # donors a row where there is no standard error to compare the noise with
NOISE_SHARE = 0.1  # of the sampling variance: below it, more donors hardly reduce the total variance
LEAST_LEFT = 1e-6  # of the weight: subtraction keeps ten digits
MIXED = "rows with donors of their own are predicted one by one, by the model as fast as in its trees"
SAMPLED = "sampled, as all pairs take longer: donors='all' takes them"
ONE_HOLDS_ALL = "one row or group holds nearly all weight, and little is left of the pairs if its own are left out"


Way = AnswerWay | Literal["outputs"]
ByFeature = dict[str, list[FeatureImportance]]  # by all losses of a task and their parts


@dataclass(frozen=True)
class Route:
    """The engine of a feature, and its way of answering."""

    engine: Any  # of several outputs the route of each
    way: Way
    label: str  # the engine's name
    exact: bool  # without predictions of the model
    declined: str = ""  # why no exact engine is used


def _each_output(task: Task, routes: tuple[Route, ...], designs: Sequence[FeatureDesign]) -> Passed:
    """The mean over several outputs, each by an engine of its own."""
    assert isinstance(task.loss, OutputsLoss)  # others have no tasks of outputs
    each = [PASSES[r.way](one, r.engine, designs) for one, r in zip(task.outputs, routes, strict=True)]
    return mean_of_outputs(each, task.loss)


PASSES: dict[Way, Callable[[Task, Any, Sequence[FeatureDesign]], Passed]] = {
    "cells": cells.run, "steps": step_curves.run, "sums": additive.run, "factors": products.run,
    "outputs": _each_output,
}  # fmt: skip


def evaluate(task: Task, designs: Sequence[FeatureDesign]) -> tuple[list[list[Any]], int]:
    """Each feature with its donors: its importance by each loss of the task and by their parts, or its effect.

    And the number of predictions of the model.
    """
    routes = [route(task, subject, design) for subject, design in designs]
    predicted = min(task.n, CHECKED) if any(one.exact for one in routes) else 0  # the exact engine was checked on these
    already = 0 if task.exact is None else task.exact.asked
    results: dict[int, list[FeatureImportance | FeatureEffect]] = {}
    for engine, way in dict.fromkeys((one.engine, one.way) for one in routes):
        features = [k for k, one in enumerate(routes) if (one.engine, one.way) == (engine, way)]
        passed = PASSES[way](task, engine, [designs[k] for k in features])
        predicted += passed.n_predictions if engine is task.engine or way == "outputs" else 0
        unsteady = task.engine.repeats.declined if engine is task.engine else ""
        for k, by_loss in zip(features, passed.outcomes, strict=True):
            steady = replace(routes[k], declined=unsteady or routes[k].declined)
            results[k] = _results(task, designs[k], steady, passed.samples, by_loss)
    predicted += 0 if task.exact is None else task.exact.asked - already
    return [results[k] for k in range(len(designs))], predicted


def _results(
    task: Task, one: FeatureDesign, taken: Route, samples: Sequence[Sample], by_loss: Sequence[Outcome]
) -> list[FeatureImportance | FeatureEffect]:
    """A feature's importance by each loss and by their parts, or its effect."""
    losses: Sequence[Loss | None] = with_parts(task.losses) or [None]
    return [
        _result(task, one, taken, sample, outcome, loss)
        for sample, outcome, loss in zip(samples, by_loss, losses, strict=True)
    ]


def _result(
    task: Task, one: FeatureDesign, taken: Route, sample: Sample, outcome: Outcome, loss: Loss | None
) -> FeatureImportance | FeatureEffect:
    (subject, design), table = one, task.table
    feature = subject.feature
    fields = outcome.fields(
        feature, design, taken.label, sample, table.names, task.every, table.backend, taken.declined
    )
    if feature.kind != "pair":  # which has no donors; replaced rows, to be compared with real ones
        fields["extrapolated"] = ReplacedRows(feature.name, feature.columns, task.real_rows.now[1], outcome.drawn)
    return FeatureEffect(**fields) if loss is None else FeatureImportance(**fields, loss=loss)


# The engine.


def route(task: Task, subject: Subject, design: Design | None = None) -> Route:
    """The exact engine if it supports the feature, else the black box; cell by cell under designs of some pairs."""
    declined = task.declined
    if task.outputs:  # means are linear in losses, but each output's sample of donors would be another one
        each = tuple(route(one, subject, design) for one in task.outputs)
        if all(r.exact for r in each) and (task.design is None or task.design.all_pairs):
            return Route(each, "outputs", each[0].label, exact=True)
        declined = next((r.declined for r in each if r.declined), declined)
    elif is_sampled(task, subject) and (design is None or not design.all_pairs):
        declined = SAMPLED
    elif task.exact is not None:
        try:
            engine, way = task.exact, task.exact.way(subject, task.loss, blocked=task.blocked)
            if design is not None and not design.all_pairs:
                engine, way = _of_some_pairs(task, design, way)
        except Declined as why:
            declined = str(why)
        else:
            if way == "cells" or task.loss is None or not _few_digits_left(task, design):
                return Route(engine, way, task.exact.name, exact=True)
            declined = ONE_HOLDS_ALL
    return Route(task.engine, "cells", task.engine.name, exact=False, declined=declined)


def _of_some_pairs(task: Task, design: Design, way: AnswerWay) -> tuple[Any, AnswerWay]:
    """The exact engine, and its way, under a design of some pairs: cells are read off curves where there are curves.

    Raises `Declined` where it would predict row by row.
    """
    exact = task.exact
    if way == "steps":
        return CurveCells(exact, task.n_jobs), "cells"
    if not design.common and not exact.fills_own_donors:
        raise Declined(MIXED)
    return exact, "cells"


def is_sampled(task: Task, subject: Subject) -> bool:
    """Whether "auto" draws donors for a feature of many values although there is an exact engine."""
    if task.design is not None or task.loss is None or task.exact is None:
        return False
    return bool(task.exact.prefers_sample(subject)) and len(subject.distinct) - 1 > FIRST_DRAW


def _few_digits_left(task: Task, design: Design | None) -> bool:
    """Whether pairs inside groups, or rows' own, which are subtracted from all pairs, hold nearly all weight."""
    if not task.blocked and (design is None or not design.leaves_out_own):
        return False
    return task.largest_share > 1 - LEAST_LEFT


# The donors.


def first_designs(task: Task) -> list[FeatureDesign]:
    """The donors of each feature's importance, to begin with."""
    rule = partial(first_design, blocked=task.blocked)
    return [(subject, design_of(task, subject, rule)) for subject in task.subjects]


def effect_designs(task: Task) -> list[FeatureDesign]:
    """The donors of each feature's effect."""
    return [(subject, design_of(task, subject, effect_design)) for subject in task.subjects]


def design_of(
    task: Task, subject: Subject, rule: Callable[[Subject, int], Design], *, all_exact: bool = True
) -> Design:
    """The design of a feature; for "auto" all rows if the engine is exact (`all_exact`), else by the rule, as pairs."""
    if task.design is not None:
        if task.design.unless_exact and route(task, subject).exact:
            automatic = design_of(replace(task, design=None), subject, rule, all_exact=all_exact)
            return automatic if automatic.all_pairs else task.design
        return task.design
    if all_exact and subject.feature.kind != "pair" and route(task, subject).exact:
        return All()
    return Latin(FIRST_DRAW) if is_sampled(task, subject) else rule(subject, task.n)


def exact_cost(subject: Subject, n: int) -> int:
    """Predictions for all pairs of one feature: each row at every distinct value but its own."""
    return n * (len(subject.distinct) - 1)


def first_design(subject: Subject, n: int, *, blocked: bool = False) -> Design:
    """All pairs where that is cheap, else a first draw of shifts; pairs of features get a grid.

    `blocked`: donors come from other groups. All donors of a systematic shift might be in the rows' own groups, so the
    shifts are random.
    """
    if subject.feature.kind == "pair":
        return Grid(min(PAIR_AXIS, n), at="quantiles")
    if exact_cost(subject, n) <= EXACT_PREDICTIONS:
        return All()
    return Latin(FIRST_DRAW) if subject.feature.kind == "group" or blocked else Systematic(FIRST_DRAW)


def effect_design(subject: Subject, n: int) -> Design:
    """The same for curves only: a common grid where all values are over the limit."""
    design = first_design(subject, n)
    return design if design.common else Grid(int(np.clip(EXACT_PREDICTIONS // n, *EFFECT_GRID)), at="quantiles")


# Rounds of donors, more and more until their noise is negligible.


def evaluate_until_precise(task: Task, designs: Sequence[FeatureDesign]) -> tuple[ByFeature, int]:
    """Each feature's importance by each loss, first with these donors, and the number of predictions of the model."""
    results: ByFeature = {}
    total, by_feature = 0, Counter[str]()  # predictions of all rounds
    while designs:
        evaluated, predicted = evaluate(_with_memory_left(task, designs, results), designs)
        total += predicted
        again: list[FeatureDesign] = []
        for (subject, _), by_loss in zip(designs, evaluated, strict=True):
            importances, name = [one.trimmed() for one in by_loss], subject.feature.name
            by_feature[name] += importances[0].n_predictions
            if (more := _more_donors(task, subject, importances)) is not None:
                again.append((subject, more))
            elif importances[0].design.common and by_feature[name] == importances[0].n_predictions:
                results[name] = importances
            else:  # new results, without the influences that were computed for the decision
                results[name] = [replace(one, n_predictions=by_feature[name]) for one in importances]
        designs = again
        del evaluated, by_loss, importances  # the draws so far are not kept while the next are computed
    return {subject.feature.name: _steady(task, results[subject.feature.name]) for subject in task.subjects}, total


def _steady(task: Task, importances: list[FeatureImportance]) -> list[FeatureImportance]:
    """Not exact, if predictions of a row differed, perhaps in a later round only."""
    unsteady = task.engine.repeats.declined
    if not unsteady or importances[0].engine != task.engine.name:
        return importances
    return [replace(one, exact=False, declined=unsteady) for one in importances]


def _with_memory_left(task: Task, designs: Sequence[FeatureDesign], results: ByFeature) -> Task:
    """The task with the memory that earlier features leave; these keep cells of no more rows than the next."""
    cells = {name: one[0].layout.width for name, one in results.items() if one[0].engine == task.engine.name}
    if not cells:
        return task
    budget = replace(task.budget, other_widths=tuple(cells.values()))
    widths = [len(subject.distinct) if design.m is None else design.m for subject, design in designs]
    kept = budget.rows_to_keep(widths, task.n, task.entropy)
    results |= {name: [one.keeping(kept) for one in results[name]] for name in cells}
    return replace(task, budget=budget)


def _more_donors(task: Task, subject: Subject, importances: Sequence[FeatureImportance]) -> Design | None:
    """The donors of the next round; None if the noise of these is negligible by every loss, or if they were given.

    Twice as many; or four, eight, ... times as many where the noise, which falls as 1/m, requires it.
    """
    design: Any = importances[0].design  # Latin or Systematic, if not common
    if task.design is not None or design.common:
        return None
    ratios = np.array([_noise_over_sampling(one) for one in importances])
    if np.all(ratios <= NOISE_SHARE):
        return None
    doublings = np.ceil(np.log2(ratios[(ratios > NOISE_SHARE) & np.isfinite(ratios)] / NOISE_SHARE))
    m = (design.m or 1) * 2 ** int(np.max(doublings, initial=1).clip(1, 16))
    return All() if m >= len(subject.distinct) - 1 else replace(design, m=m)


def _noise_over_sampling(importance: FeatureImportance) -> float:
    """Monte-Carlo variance over sampling variance; infinite where there are too few donors to estimate it."""
    if importance.sample.units() < 3:  # no standard error: a fixed number of donors
        return 0.0 if (importance.design.m or 0) >= FIXED_DONORS else np.inf
    try:
        influence = importance.influence
    except ValueError:  # too few donors with positive weight
        return np.inf
    noise, sampling = influence.noise, influence.variance
    if not importance.design.ranked:
        sampling -= noise
    return 0.0 if noise == 0 else noise / sampling if sampling > 0 else np.inf
