"""Features replaced together and alone, with the same donors: what pairs, and the members of a block, have in common.

Pairs take one pass over the rows. The cells of a part of the rows are predicted for the single features and for the
pairs, combined, summed over donors and over rows, and dropped. Where the sums of all pairs don't fit into memory, pairs
take turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import losses
from losslens.cells.in_common import ROUNDING, SINGLE_ROUNDING, AddingScale, ReplacedPredictions, split
from losslens.cells.matrix import Averages
from losslens.donors.designs import All, Design, Latin
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.donors.questions import Question, Subject, all_rows, pose
from losslens.engines.base import CurveCells, Declined
from losslens.engines.choice import CHECKED
from losslens.engines.readers.pipelines import innermost
from losslens.losses import POSITIVE, Loss
from losslens.models import Model
from losslens.passes.cells import blank, record
from losslens.passes.task import Task
from losslens.passes.ways import (
    EXACT_PREDICTIONS,
    FIXED_DONORS,
    design_of,
    evaluate,
    exact_cost,
    first_design,
    is_sampled,
    route,
)
from losslens.progress import Tick, bar
from losslens.results.importance import FeatureImportance
from losslens.results.together import Block
from losslens.tables.sample import Sample, cell_changes, chunks
from losslens.text import size_in_words
from losslens.typing import Floats, Indices
from losslens.uncertainty.standard_errors import influence

FEWEST_ROWS = 16  # that are processed at a time, at least: otherwise pairs are computed in turns
PART_SHARE = 8  # of the memory, for the cells of the rows that are processed at a time
SUMS_SHARE = 4  # of the memory, for the sums of all pairs
MOST_CLIPPED = 0.01  # share of probabilities at the clipping bound, up to which a log loss is split
CLIPPED = "over 1% of the probabilities are at the clipping bound, where logits no longer add up"
IN_LINK = "what two features have in common has no closed form in a model with a link, so the model is asked"
PARTS = ("shared", "interaction", "strength")
# Parts of the names of classes whose predictions are means: of the trees of a forest, the votes of neighbours.
AVERAGES = ("Forest", "ExtraTree", "DecisionTree", "Bagging", "Voting", "Neighbors")

Pair = tuple[str, str]
FEWEST_DONORS = 5  # of a row


@dataclass(frozen=True)
class PairMean:
    """A mean over all cells of a pair."""

    value: float
    unbiased: float
    std_error: float = float("nan")
    skewness: float = 0.0
    absent: str = ""  # why there is no standard error


OfPairs = Mapping[Pair, PairMean]


@dataclass(frozen=True, eq=False, kw_only=True)
class InCommon:
    """What pairs of features have in common: the total and, if the model adds on an `AddingScale`, its parts."""

    title: str
    units: float
    grouped: bool
    n_predictions: int
    total: OfPairs
    parts: Mapping[str, OfPairs]  # by the names in `PARTS`; empty without a scale
    part_title: str = ""  # of the loss that the parts are parts of
    scale: AddingScale | None = None
    quadratic: bool = False  # whether the loss of the parts is: then the part "shared" is shared information
    absent: str = ""  # why there are no parts
    condition: str = ""  # on which values were drawn


def by_cells(task: Task) -> Task:
    """The task with cells, which parts of pairs need, and not means: without an engine that adds up inside a link."""
    inside_link = task.exact is not None and task.exact.inside_link
    if inside_link:
        return replace(task, exact=None, declined=IN_LINK)
    return task if task.exact is None else replace(task, exact=task.exact.by_cells())


def common_design(task: Task) -> Design | None:
    """The design with which all features have the same donors; None if there is none."""
    if task.design is None:
        by_model = [subject for subject in task.subjects if not route(task, subject).exact]
        few = max((exact_cost(subject, task.n) for subject in by_model), default=0) <= EXACT_PREDICTIONS
        return All() if few and not any(is_sampled(task, subject) for subject in by_model) else Latin(FIXED_DONORS)
    differs = task.design.common or task.design.ranked or task.design.conditional
    return task.design if task.design.all_pairs or not differs else None


def adding_scale(model: Model, loss: Loss) -> tuple[AddingScale | None, str]:
    """The scale on which a model adds what its features contribute; None, and why, if the loss can't be split."""
    if loss.custom:
        return None, "your own loss function is known only at the model's predictions; use a named loss"
    if loss.reads == "outputs":
        return None, "the loss is a mean over several outputs; pass one of them"
    if loss.reads == "labels":
        return None, "labels can't be added; use a loss of probabilities or scores"
    try:
        inner = innermost(model.native)
    except Declined:
        inner = model.native
    name = type(inner).__name__
    averages = any(word in name for word in AVERAGES)
    if loss.reads == "probabilities":
        return (AddingScale.PROBABILITIES if averages else AddingScale.LOGITS), ""
    if loss.domains is not None and loss.domains[1] == POSITIVE:
        if averages:
            return None, f"a {name} adds predictions, and sums of their changes may be below 0, where no deviance is"
        if not _has_log_link(inner):
            return None, f"a {name} is not known to add logarithms, and sums of changes may be below 0"
        return AddingScale.LOGS, ""
    return AddingScale.PREDICTIONS, ""


def _has_log_link(native: Any) -> bool:
    """Whether the class of a model, or its loss, says that it predicts e to the power of a sum."""
    named = f"{type(native).__name__} {getattr(native, 'loss', '')} {getattr(native, 'objective', '')}".lower()
    link = getattr(native, "link", "")
    identity = link == "identity" or (link == "auto" and getattr(native, "power", 1) <= 0)
    return any(word in named for word in ("poisson", "gamma", "tweedie")) and not identity


def from_cells(
    task: Task, design: Design, together: Mapping[Pair, str], scale: AddingScale | None, absent: str
) -> InCommon:
    """All pairs, cell by cell; without a scale there are no parts, and `absent` says why."""
    loss = task.loss
    assert loss is not None
    if scale is AddingScale.PROBABILITIES and loss == losses.log_loss:
        task = replace(task, losses=(loss, losses.brier))  # which has parts where the log loss is clipped
    pairs = [(a, b, both) for (a, b), both in together.items()]
    subjects = {subject.feature.name: subject for subject in task.subjects}
    engines = {name: _cell_engine(task, subject) for name, subject in subjects.items()}
    quantities = ["total", *(PARTS if scale else ())]
    turns = list(_turns(task, design, pairs, len(task.losses) * len(quantities)))
    sums: dict[Pair, list[_PairSums]] = {}
    clipped: list[float] = []
    samples, total, layout = list[Sample](), 0, None
    most = sum(task.n * (1 + sum(_width(subjects[name], design) for name in _features(turn))) for turn in turns)
    exact = any(engine is not task.engine for engine in engines.values())
    with bar(most, "explaining", task.progress, "cells" if exact else "predictions") as tick:
        for turn in turns:
            questions = {
                name: pose(subjects[name], design, task.n, task.entropy, same_for_all=True) for name in _features(turn)
            }
            if layout is None:
                layout = _layout(next(iter(questions.values())).layout, task.n)
            sums |= {(a, b): [_PairSums(quantities, layout, task.sample) for _ in task.losses] for a, b, _ in turn}
            for rows, own, cells, count in _predicted(task, questions, engines, tick):
                total += count
                samples = samples or blank(task.sample, own, task.losses)
                record(samples, rows, own, task.losses)
                clipped += _add(sums, turn, questions, (rows, own, cells), samples, task, scale)
    # Logits at the bound no longer add up, whatever the model does.
    at_bound = bool(clipped) and float(np.mean(clipped)) > MOST_CLIPPED
    if at_bound and len(samples) == 1:
        scale, absent = None, CLIPPED
    k = int(at_bound and len(samples) > 1)
    return InCommon(
        title=loss.title, units=samples[0].effective_units(task.every), grouped=task.blocked,
        n_predictions=total + (min(task.n, CHECKED) if exact else 0),
        total={pair: one[0].mean("total", samples[0]) for pair, one in sums.items()},
        parts={part: {pair: one[k].mean(part, samples[k]) for pair, one in sums.items()} for part in PARTS if scale},
        part_title=task.losses[k].title, scale=scale, absent=absent,
        quadratic=k > 0 or loss == losses.squared_error,
    )  # fmt: skip


def _cell_engine(task: Task, subject: Subject) -> Any:
    """The engine that fills the cells of a feature: cells are read off curves where there are curves."""
    chosen = route(task, subject)
    return CurveCells(task.exact, task.n_jobs) if chosen.way == "steps" else chosen.engine


def _features(turn: Sequence[tuple[str, str, str]]) -> list[str]:
    """The features alone and together that a turn needs, each once."""
    return list(dict.fromkeys([name for a, b, _ in turn for name in (a, b)] + [both for *_, both in turn]))


def _width(subject: Subject, design: Design) -> int:
    return design.m if design.m is not None else len(subject.distinct)


def _turns(
    task: Task, design: Design, pairs: Sequence[tuple[str, str, str]], quantities: int
) -> Iterator[list[tuple[str, str, str]]]:
    """Pairs that are computed together: their sums, and the cells of a few rows, fit into memory."""
    n, budget = task.n, task.budget
    width = {subject.feature.name: _width(subject, design) for subject in task.subjects}
    turn: list[tuple[str, str, str]] = []
    for pair in pairs:
        more = [*turn, pair]
        cells = budget.cell_bytes * sum(width[name] for name in _features(more))
        fits = FEWEST_ROWS * cells <= budget.memory // PART_SHARE
        fits &= 64 * quantities * n * len(more) <= budget.memory // SUMS_SHARE
        if turn and not fits:
            yield turn
            more = [pair]
        turn = more
    yield turn


def _layout(layout: Layout, n: int) -> Layout:
    """One column of cells a donor, not a value: these differ between features."""
    if isinstance(layout, OwnDonors):
        return replace(layout, place=all_rows(n), size=n)
    return CommonGrid(all_rows(n), all_rows(n), n, layout.leaves_out_own)


def _predicted(
    task: Task, questions: Mapping[str, Question], engines: Mapping[str, Any], tick: Tick
) -> Iterator[tuple[Indices, NDArray[Any], dict[str, NDArray[Any]], int]]:
    """Predictions of some rows at a time: unchanged, and in the cells of each feature; and how many the model made."""
    step = max(1, task.budget.memory // PART_SHARE // task.budget.row_bytes(list(questions.values())))
    by_engine: dict[Any, list[str]] = {}
    for name in questions:
        by_engine.setdefault(engines[name], []).append(name)
    for start in range(0, task.n, step):
        rows, count = np.arange(start, min(start + step, task.n)), 0
        cells: dict[str, NDArray[Any]] = {}
        for engine, names in sorted(by_engine.items(), key=lambda one: (one[0] is task.engine, one[0] is task.exact)):
            answer = engine.fill(rows, [questions[name].ask for name in names], tick)
            own, cells = answer.base, cells | dict(zip(names, answer.cells, strict=True))
            count += len(rows) + sum(answer.n_predictions) if engine is task.engine else 0
        yield rows, own, cells, count


def _add(
    sums: Mapping[Pair, Sequence[_PairSums]],
    turn: Sequence[tuple[str, str, str]],
    questions: Mapping[str, Question],
    part: tuple[Indices, NDArray[Any], dict[str, NDArray[Any]]],
    samples: Sequence[Sample],
    task: Task,
    scale: AddingScale | None,
) -> list[float]:
    """Add the cells of some rows of all pairs; returns shares of clipped probabilities."""
    rows, own, cells = part
    clipped = []
    for k, (loss, sample) in enumerate(zip(task.losses, samples, strict=True)):
        changes = {name: cell_changes(loss, sample, rows, predictions) for name, predictions in cells.items()}
        size = {name: float(sample.weight[rows] @ np.abs(change).mean(axis=1)) for name, change in changes.items()}
        for a, b, both in turn:
            pair_sums = sums[a, b][k]
            pair_sums.compared += size[a] + size[b] + size[both]
            for some in chunks(rows, pair_sums.layout.width):
                first, second, together = (
                    _by_donor(changes[name][some], questions[name].layout) for name in (a, b, both)
                )
                total = first + second - together
                quantities = {"total": total}
                if scale is not None:
                    shown = (_by_donor(cells[name][some], questions[name].layout) for name in (a, b, both))
                    one = split(ReplacedPredictions(own[some], *shown), sample, rows[some], loss, scale)
                    parts = total - one.interaction, one.interaction, one.strength
                    quantities |= zip(PARTS, parts, strict=True)
                    clipped += [one.clipped] if k == 0 else []
                pair_sums.add(rows[some], quantities)
    return clipped


def _by_donor(cells: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Cells with a column for each donor; those of a common grid have one for each value."""
    return cells if isinstance(layout, OwnDonors) else cells[:, layout.own]


class _PairSums:
    """Running means over the cells of one pair, of each quantity."""

    def __init__(self, names: Sequence[str], layout: Layout, sample: Sample) -> None:
        self.layout = layout
        self.means = {name: Averages(layout, sample) for name in names}
        self.compared = 0.0  # the mean absolute changes that the total is a sum of

    def add(self, rows: Indices, quantities: Mapping[str, Floats]) -> None:
        """All cells of these rows; each row is added once."""
        for name, cells in quantities.items():
            self.means[name].add(rows, None, cells)

    def mean(self, name: str, sample: Sample) -> PairMean:
        """The mean of a quantity, and its standard error from the influence of each row in both roles."""
        rows = all_rows(sample.n)
        means = self.means[name].finish(rows)
        value = unbiased = means.pfi
        if sample.block is None and not self.layout.leaves_out_own:
            unbiased = value / sample.others_share(rows, means.mass)
        try:
            moved = influence(means, self.layout, sample, rows)
        except ValueError as error:
            return PairMean(value, unbiased, absent=str(error))
        result = PairMean(value, unbiased, moved.std_error, moved.skewness)
        # Strength and interaction are exactly 0 where the predictions differ from a sum by rounding errors only.
        if name in ("strength", "interaction"):
            return result
        return without_rounding(result, sample.error + self.compared, sample)


def without_rounding(mean: PairMean, compared: float, sample: Sample) -> PairMean:
    """The mean, or 0 if it is a rounding error: features that the model does not use must not be significant."""
    least = compared * (SINGLE_ROUNDING if sample.prediction.dtype == np.float32 else ROUNDING)
    if not (mean.std_error <= least and abs(mean.unbiased) <= least):  # also where the error is NaN
        return mean
    return replace(mean, value=0.0, unbiased=0.0, std_error=0.0)


class SharedDonors(Subject):
    """A feature with the donors that all others have."""

    def seed(self, entropy: int) -> tuple[int, ...]:
        """The seed of every such feature."""
        return (entropy,)


def block_of(
    task: Task, name: str, members: Mapping[str, FeatureImportance], donors: int = FIXED_DONORS
) -> tuple[Block, FeatureImportance, int]:
    """The block, its importance, and the number of predictions; `donors` of a row, at most, where they are sampled.

    Where all of these are means over all pairs of rows they have the same donors already: only the block is evaluated.
    Otherwise all of them are, with the donors of one draw.
    """
    subjects = {subject.feature.name: subject for subject in task.subjects}
    design = design_of(task, subjects[name], partial(first_design, blocked=task.blocked))
    if design.all_pairs and all(one.exact and one.design == design.remembered for one in members.values()):
        ((joint, *_),), predicted = evaluate(task, [(subjects[name], design)])
        return Block.of(name, joint, members), joint, predicted
    m = donors if task.design is None or task.design.m is None else task.design.m
    together = [SharedDonors(subjects[one].feature, subjects[one].columns) for one in (name, *members)]
    while task.budget.kept_rows([m] * len(together), task.n) < task.n and m > FEWEST_DONORS:
        m = max(m // 2, FEWEST_DONORS)
    evaluated, predicted = evaluate(task, [(subject, Latin(min(m, task.n))) for subject in together])
    joint, *alone = (by_loss[0] for by_loss in evaluated)
    if not joint.complete:
        needs = size_in_words(len(together) * joint.full_size)
        raise ValueError(f"the features of {name!r} are compared cell by cell, which needs memory={needs!r}")
    return Block.of(name, joint, dict(zip(members, alone, strict=True))), joint, predicted
