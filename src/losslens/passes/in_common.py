"""One pass over the rows for pairs of features: what two of them have in common, with the same donors for all.

The cells of a part of the rows are predicted for the single features and for the pairs, combined, summed over donors
and over rows, and dropped. Where the sums of all pairs don't fit into memory, pairs take turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import losses
from losslens.cells.in_common import ROUNDING, SINGLE_ROUNDING, AddingScale, ReplacedPredictions, split
from losslens.cells.matrix import Means
from losslens.donors.conditional import common_condition
from losslens.donors.designs import All, Design, Latin
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.donors.questions import Question, Subject, all_rows, pose
from losslens.engines.base import Declined
from losslens.engines.choice import CHECKED
from losslens.engines.curve_cells import CurveCells
from losslens.engines.readers.pipelines import innermost
from losslens.losses import POSITIVE, Loss, is_scorer
from losslens.models import Model
from losslens.passes.cells import blank, record
from losslens.passes.importances import by_each_loss
from losslens.passes.scored import score_importance
from losslens.passes.task import Options, Task, default_loss, prepare
from losslens.passes.ways import EXACT_PREDICTIONS, FIXED_DONORS, exact_cost, is_sampled, route
from losslens.progress import Tick, bar
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.scores import FeatureScore
from losslens.tables.frames import Table
from losslens.tables.sample import Sample, cell_changes, chunks, loss_changes
from losslens.typing import Floats, Indices
from losslens.uncertainty.standard_errors import Influence, influence

FEWEST_ROWS = 16  # that are processed at a time, at least: otherwise pairs are computed in turns
PART_SHARE = 8  # of the memory, for the cells of the rows that are processed at a time
SUMS_SHARE = 4  # of the memory, for the sums of all pairs
MOST_CLIPPED = 0.01  # share of probabilities at the clipping bound, up to which a log loss is split
CLIPPED = "over 1% of the probabilities are at the clipping bound, where logits no longer add up"
IN_LINK = "what two features have in common is computed from cells, not from means of sums inside a link"
PARTS = ("shared", "interaction", "strength")
# Parts of the names of classes whose predictions are means: of the trees of a forest, the votes of neighbours.
AVERAGES = ("Forest", "ExtraTree", "DecisionTree", "Bagging", "Voting", "Neighbors")

Pair = tuple[str, str]


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


def in_common(
    model: Model, table: Table, y: Any, loss: Any, options: Options, together: Mapping[Pair, str]
) -> InCommon:
    """What pairs have in common: from cells with the same donors for all features, else from three importances a pair.

    `together` has, for each pair, the name of the feature that replaces both.
    """
    if is_scorer(loss):
        scores = score_importance(model, table, y, loss, options)
        return _from_importances(scores, scores.title, together, "a scorer has no loss of a row")
    chosen = default_loss(model, loss, y)
    task = by_cells(prepare(model, table, y, options, loss=chosen, response=chosen.reads, all_pairs=True))
    design, ways = common_design(task), {route(task, subject).way for subject in task.subjects}
    if design is not None and "sums" not in ways:
        if not design.all_pairs:
            task = replace(task, exact=None)  # the model predicts: cells take the memory of the engine
        return _from_cells(task, design, together, *adding_scale(model, chosen))
    absent = "an engine adds up some of these features, and the model predicts others; use Latin(m)"
    if design is None:
        drawn = None if task.design is None else task.design.remembered
        absent = f"the features must have the same donors, and {drawn!r} draws others for each; use Latin(m)"
    result = _from_importances(by_each_loss(task)[0], chosen.title, together, absent)
    if design is None or ways != {"sums"}:
        return result
    none = dict.fromkeys(together, PairMean(0.0, 0.0, 0.0))  # the model only adds
    return replace(
        result, parts={"shared": result.total, "interaction": none, "strength": none}, part_title=chosen.title,
        scale=AddingScale.PREDICTIONS, quadratic=chosen == losses.squared_error, absent="",
    )  # fmt: skip


_One = FeatureImportance | FeatureScore


def _from_importances(importances: Importances, title: str, together: Mapping[Pair, str], absent: str) -> InCommon:
    first: _One = next(iter(importances.values()))
    triples = {(a, b): (importances[a], importances[b], importances[both]) for (a, b), both in together.items()}
    return InCommon(
        title=title, units=first._units, grouped=first._unit == "groups", n_predictions=importances.n_predictions,
        total={pair: _total(*triple) for pair, triple in triples.items()}, parts={}, absent=absent,
        condition=common_condition(one.conditioning for one in importances.values()),
    )  # fmt: skip


def _total(first: _One, second: _One, both: _One) -> PairMean:
    """What two importances have in common, from the influence of each row as observation and as donor."""
    value, unbiased = first.pfi + second.pfi - both.pfi, first.unbiased + second.unbiased - both.unbiased
    try:
        parts = [one.influence for one in (first, second, both)]
    except ValueError as error:
        return PairMean(value, unbiased, absent=str(error))
    moved = parts[0].moved + parts[1].moved - parts[2].moved
    of_pair = Influence(moved, sum(part.excess for part in parts), noise=sum(part.noise for part in parts))
    if isinstance(first, FeatureScore):
        return PairMean(value, unbiased, of_pair.std_error, 0.0 if first.units == "blocks" else of_pair.skewness)
    compared = first.error + abs(first.pfi) + abs(second.pfi) + abs(both.pfi)
    return without_rounding(PairMean(value, unbiased, of_pair.std_error, of_pair.skewness), compared, first.sample)


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
        return None, "a loss of your own is evaluated at predictions of the model alone; use a named loss"
    if loss.reads == "outputs":
        return None, "the loss is a mean over several outputs; pass one of them"
    if loss.reads == "labels":
        return None, "labels can't be added; use a loss of probabilities or scores"
    try:
        name = type(innermost(model.native)).__name__
    except Declined:
        name = type(model.native).__name__
    averages = any(word in name for word in AVERAGES)
    if loss.reads == "probabilities":
        return (AddingScale.PROBABILITIES if averages else AddingScale.LOGITS), ""
    if loss.domains is not None and loss.domains[1] == POSITIVE:
        if averages:
            return None, f"a {name} adds predictions, and sums of their changes may be below 0, where no deviance is"
        if not _has_log_link(model.native):
            return None, f"a {name} is not known to add logarithms, and sums of changes may be below 0"
        return AddingScale.LOGS, ""
    return AddingScale.PREDICTIONS, ""


def _has_log_link(native: Any) -> bool:
    """Whether the class of a model, or its loss, says that it predicts e to the power of a sum."""
    try:
        inner = innermost(native)
    except Declined:
        inner = native
    named = f"{type(inner).__name__} {getattr(inner, 'loss', '')} {getattr(inner, 'objective', '')}".lower()
    identity = getattr(inner, "link", "") == "identity" or (
        getattr(inner, "link", "") == "auto" and getattr(inner, "power", 1) <= 0
    )
    return any(word in named for word in ("poisson", "gamma", "tweedie")) and not identity


def _from_cells(
    task: Task, design: Design, together: Mapping[Pair, str], scale: AddingScale | None, absent: str
) -> InCommon:
    """All pairs, cell by cell; without a scale there are no parts, and `absent` says why."""
    assert task.loss is not None
    pairs = [(a, b, both) for (a, b), both in together.items()]
    exact = {subject.feature.name for subject in task.subjects if design.all_pairs and route(task, subject).exact}
    subjects = {subject.feature.name: subject for subject in task.subjects}
    names = ["total", *(PARTS if scale else ())]
    if scale is AddingScale.PROBABILITIES and task.loss == losses.log_loss:
        names += [f"Brier {part}" for part in PARTS]
    turns = list(_turns(task, design, pairs, len(names)))
    sums: dict[Pair, _PairSums] = {}
    clipped: list[float] = []
    samples, total, layout = list[Sample](), 0, None
    most = sum(task.n * (1 + sum(_width(subjects[name], design) for name in _features(turn))) for turn in turns)
    with bar(most, "explaining", task.progress, "cells" if exact else "predictions") as tick:
        for turn in turns:
            questions = {
                name: pose(subjects[name], design, task.n, task.entropy, same_for_all=True) for name in _features(turn)
            }
            if layout is None:
                layout = _layout(next(iter(questions.values())).layout, task.n)
                mass = _CellWeights(layout, task.sample)
            of_turn = {(a, b): _PairSums(names, mass) for a, b, _ in turn}
            for rows, own, cells, count in _predicted(task, questions, exact, tick):
                total += count
                samples = samples or blank(task.sample, own, task.losses)
                record(samples, all_rows(task.n)[rows], own, task.losses)
                clipped += _add(of_turn, turn, questions, (rows, own, cells), samples[0], task, scale)
            sums |= of_turn
    (sample,) = samples  # there is a pair
    brier, loss = False, task.loss
    if clipped and float(np.mean(clipped)) > MOST_CLIPPED:  # logits there no longer add up, whatever the model does
        brier = scale is AddingScale.PROBABILITIES
        scale, absent = (scale, "") if brier else (None, CLIPPED)
    parts = {part: f"Brier {part}" if brier else part for part in PARTS} if scale else {}
    return InCommon(
        title=loss.title, units=sample.effective_units(task.every), grouped=task.blocked,
        n_predictions=total + (min(task.n, CHECKED) if exact else 0),
        total={pair: one.mean("total", sample) for pair, one in sums.items()},
        parts={part: {pair: one.mean(name, sample) for pair, one in sums.items()} for part, name in parts.items()},
        part_title=losses.brier.title if brier else loss.title, scale=scale, absent=absent,
        quadratic=brier or loss == losses.squared_error,
    )  # fmt: skip


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
        fits &= 16 * quantities * n * len(more) <= budget.memory // SUMS_SHARE
        if turn and not fits:
            yield turn
            more = [pair]
        turn = more
    yield turn


def _layout(layout: Layout, n: int) -> Layout:
    """One column of cells a donor, not a value: these differ between features."""
    if isinstance(layout, OwnDonors):
        return layout
    return CommonGrid(all_rows(n), all_rows(n), n, layout.leaves_out_own)


def _predicted(
    task: Task, questions: dict[str, Question], exact: set[str], tick: Tick
) -> Iterator[tuple[slice, NDArray[Any], dict[str, NDArray[Any]], int]]:
    """Predictions of some rows at a time: unchanged, and in the cells of each feature; and how many the model made."""
    n, budget = task.n, task.budget
    step = max(1, budget.memory // PART_SHARE // budget.row_bytes(list(questions.values())))
    ways = {
        name: task.exact.way(questions[name].subject, task.loss, blocked=task.blocked)
        for name in questions
        if name in exact
    }
    by_steps = {name: questions[name] for name, way in ways.items() if way == "steps"}
    filled = {name: questions[name] for name, way in ways.items() if way == "cells"}
    others = {name: question for name, question in questions.items() if name not in exact}
    curves = CurveCells(task.exact, task.n_jobs)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        positions, count = np.arange(rows.start, rows.stop), 0
        cells: dict[str, NDArray[Any]] = {}
        for engine, some in ((curves, by_steps), (task.exact, filled), (task.engine, others)):
            if some:
                answer = engine.fill(positions, [one.ask for one in some.values()], tick)
                own, cells = answer.base, cells | dict(zip(some, answer.cells, strict=True))
                count += len(positions) + sum(answer.n_predictions) if some is others else 0
        yield rows, own, cells, count


def _add(
    sums: dict[Pair, _PairSums],
    turn: Sequence[tuple[str, str, str]],
    questions: dict[str, Question],
    part: tuple[slice, NDArray[Any], dict[str, NDArray[Any]]],
    sample: Sample,
    task: Task,
    scale: AddingScale | None,
) -> list[float]:
    """Add the cells of some rows of all pairs; returns shares of clipped probabilities."""
    rows, own, cells = part
    positions, loss, clipped = np.arange(rows.start, rows.stop), task.loss, []
    assert loss is not None
    changes = {name: cell_changes(loss, sample, positions, predictions) for name, predictions in cells.items()}
    size = {name: float(sample.weight[rows] @ np.abs(change).mean(axis=1)) for name, change in changes.items()}
    for a, b, both in turn:
        pair_sums = sums[a, b]
        pair_sums.compared += size[a] + size[b] + size[both]
        for some in chunks(positions, pair_sums.mass.layout.width):
            first, second, together = (_by_donor(changes[name][some], questions[name].layout) for name in (a, b, both))
            total = first + second - together
            quantities = {"total": total}
            if scale is not None:
                shown = (_by_donor(cells[name][some], questions[name].layout) for name in (a, b, both))
                replaced = ReplacedPredictions(own[some], *shown)
                one = split(replaced, sample, positions[some], loss, scale)
                quantities |= _parts("", total, one.interaction, one.strength)
                clipped.append(one.clipped)
                if loss == losses.log_loss and scale is AddingScale.PROBABILITIES:
                    one = split(replaced, sample, positions[some], losses.brier, AddingScale.PROBABILITIES)
                    brier = _brier(replaced, sample, positions[some])
                    quantities |= _parts("Brier ", brier, one.interaction, one.strength)
            pair_sums.add(positions[some], quantities)
    return clipped


def _parts(prefix: str, total: Floats, interaction: Floats, strength: Floats) -> dict[str, Floats]:
    return dict(zip((prefix + part for part in PARTS), (total - interaction, interaction, strength), strict=True))


def _brier(cells: ReplacedPredictions, sample: Sample, rows: Indices) -> Floats:
    """What two features have in common of the Brier score, in each cell."""
    base = replace(sample, loss=np.zeros(sample.n))  # the own loss occurs once in each change: it is added at the end
    first, second, both = (
        loss_changes(losses.brier, base, rows, part) for part in (cells.first, cells.second, cells.both)
    )
    assert sample.y is not None
    return first + second - both - losses.brier(sample.y[rows], cells.own)[:, None]


def _by_donor(cells: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Cells with a column for each donor; those of a common grid have one for each value."""
    return cells if isinstance(layout, OwnDonors) else cells[:, layout.own]


class _CellWeights:
    """Weights of the cells, common to all pairs."""

    def __init__(self, layout: Layout, sample: Sample) -> None:
        self.layout, self.sample, weight = layout, sample, sample.weight
        if isinstance(layout, OwnDonors):
            self.row, self.donor = np.zeros(sample.n), np.zeros(sample.n)
            for some in chunks(all_rows(sample.n), layout.width):
                donors, donor_weight = self.donor_weights(all_rows(sample.n)[some])
                self.row[some] = donor_weight.sum(axis=1)
                self.donor += np.bincount(donors.ravel(), (weight[some][:, None] * donor_weight).ravel(), sample.n)
        else:
            # The weight of the donors of a row: all, or all but itself or its group.
            donor_mass = 1 - (weight if layout.leaves_out_own else np.zeros(sample.n))
            if sample.block is not None:
                donor_mass = 1 - np.bincount(sample.block, weight).astype(float)[sample.block]
            self.row = np.where(donor_mass > 1e-12, donor_mass, 0.0)
            self.donor = weight * self.row

    def donor_weights(self, rows: Indices) -> tuple[Indices, Floats]:
        """The donors of these rows and their weights in the mean of each row; an omitted cell has weight 0."""
        assert isinstance(self.layout, OwnDonors)
        donors = self.layout.donors[rows]
        return np.where(donors < 0, 0, donors), self.layout.weights(self.sample, rows, donors)


class _PairSums:
    """Sums of the cells of one pair, of each quantity: over the donors of a row and over the rows of a donor."""

    def __init__(self, names: Sequence[str], mass: _CellWeights) -> None:
        n = len(mass.row)
        self.names, self.mass = list(names), mass
        self.row, self.donor, self.square = np.zeros((len(names), n)), np.zeros((len(names), n)), np.zeros(len(names))
        self.compared = 0.0  # the mean absolute changes that the total is a sum of

    def add(self, rows: Indices, quantities: dict[str, Floats]) -> None:
        """All cells of these rows; each row is added once."""
        layout, sample = self.mass.layout, self.mass.sample
        weight = sample.weight[rows]
        if isinstance(layout, OwnDonors):
            donors, donor_weight = self.mass.donor_weights(rows)
            cell_weight = weight[:, None] * donor_weight
        elif sample.block is not None:
            other_group = sample.block[rows][:, None] != sample.block
        for name, cells in quantities.items():
            q = self.names.index(name)
            if isinstance(layout, OwnDonors):
                self.row[q, rows] = (donor_weight * cells).sum(axis=1)
                self.donor[q] += np.bincount(donors.ravel(), (cell_weight * cells).ravel(), sample.n)
                self.square[q] += float(np.sum(cell_weight * cells * cells))
            else:
                counted = cells if sample.block is None else cells * other_group
                self.row[q, rows] = counted @ sample.weight
                self.donor[q] += sample.weight * (weight @ counted)

    def mean(self, name: str, sample: Sample) -> PairMean:
        """The mean of a quantity, and its standard error from the influence of each row in both roles."""
        q, mass, layout = self.names.index(name), self.mass, self.mass.layout
        total = float(mass.donor.sum())
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0: a row without donors, or a donor without rows
            means = Means(
                local=self.row[q] / mass.row,
                mass=mass.row * sample.weight,
                caused=np.where(mass.donor > 0, self.donor[q] / mass.donor, 0.0),
                donor_weight=mass.donor / total,
                square=float(self.square[q] / total),
            )
        value, at = means.pfi, all_rows(sample.n)
        unbiased = value
        if sample.block is None and not layout.leaves_out_own:
            unbiased = value / sample.others_share(at, means.mass)
        try:
            moved = influence(means, layout, sample, at)
        except ValueError as error:
            return PairMean(value, unbiased, absent=str(error))
        result = PairMean(value, unbiased, moved.std_error, moved.skewness)
        # Strength and interaction are exactly 0 where the predictions differ from a sum by rounding errors only.
        if name.endswith(("strength", "interaction")):
            return result
        return without_rounding(result, sample.error + self.compared, sample)


def without_rounding(mean: PairMean, compared: float, sample: Sample) -> PairMean:
    """The mean, or 0 if it is a rounding error: features that the model does not use must not be significant."""
    least = compared * (SINGLE_ROUNDING if sample.prediction.dtype == np.float32 else ROUNDING)
    if not (mean.std_error <= least and abs(mean.unbiased) <= least):  # also where the error is NaN
        return mean
    return replace(mean, value=0.0, unbiased=0.0, std_error=0.0)
