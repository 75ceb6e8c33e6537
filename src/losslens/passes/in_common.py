"""One pass over the rows for pairs of features: what two of them have in common, with the same donors for all.

The cells of a part of the rows are predicted for the single features and for the pairs, combined, summed over donors
and over rows, and dropped. Where the sums of all pairs don't fit into memory, pairs take turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import losses
from losslens.cells.in_common import ROUNDING, SINGLE_ROUNDING, AddingScale, ReplacedPredictions, split
from losslens.cells.matrix import Means
from losslens.donors.designs import All, Design, Drawn, Latin
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.donors.questions import Question, Subject, all_rows, pose
from losslens.engines.base import Declined
from losslens.engines.choice import CHECKED
from losslens.engines.readers.pipelines import innermost
from losslens.losses import POSITIVE, Loss
from losslens.models import Model
from losslens.passes import step_curves
from losslens.passes.task import Task
from losslens.passes.ways import EXACT_PREDICTIONS, FIXED_DONORS, exact_cost, is_sampled, route
from losslens.progress import Tick, bar
from losslens.tables.sample import Sample, cell_changes, chunks, loss_changes
from losslens.typing import Floats, Indices
from losslens.uncertainty.standard_errors import influence

FEWEST_ROWS = 16  # that are processed at a time, at least: otherwise pairs are computed in turns
PART_SHARE = 8  # of the memory, for the cells of the rows that are processed at a time
SUMS_SHARE = 4  # of the memory, for the sums of all pairs
MOST_CLIPPED = 0.01  # share of probabilities at the clipping bound, up to which a log loss is split
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


@dataclass(frozen=True, eq=False)
class InCommon:
    """What the pairs have in common: the whole and, where a scale is given, its parts."""

    whole: dict[Pair, PairMean]
    parts: dict[str, dict[Pair, PairMean]]  # by the names in `PARTS`; empty without a scale
    brier: bool  # the parts are those of the Brier score: too many probabilities are at the clipping bound
    sample: Sample
    n_predictions: int


@dataclass(frozen=True, eq=False, repr=False)
class SameDonors(Design):
    """A design with the same draw for all features."""

    design: Design
    seed: int

    def __repr__(self) -> str:
        return repr(self.design)

    @property
    def m(self) -> int | None:  # type: ignore[override]
        """As in the design."""
        return self.design.m

    @property
    def leaves_out_own(self) -> bool:
        """As in the design."""
        return self.design.leaves_out_own

    @property
    def repeats(self) -> bool:
        """As in the design."""
        return self.design.repeats

    def lend(self, n: int, rng: np.random.Generator) -> Drawn:
        """The donors of each row, the same for all features."""
        return self.design.lend(n, np.random.default_rng(self.seed))


def by_cells(task: Task) -> Task:
    """The task with cells, which parts of pairs need, and not means: without an engine that adds up inside a link."""
    inside_link = task.exact is not None and task.exact.inside_link
    if inside_link:
        return replace(task, exact=None, declined=IN_LINK)
    return task if task.exact is None else replace(task, exact=task.exact.by_cells())


def common_design(task: Task) -> Design | None:
    """The design with which all features have the same donors; None if there is none."""
    if task.design is None:
        asked = [subject for subject in task.subjects if not route(task, subject).exact]
        few = max((exact_cost(subject, task.n) for subject in asked), default=0) <= EXACT_PREDICTIONS
        if few and not any(is_sampled(task, subject) for subject in asked):
            return All()
        return SameDonors(Latin(FIXED_DONORS), task.entropy)
    if task.design.all_pairs:
        return task.design
    if task.design.common or task.design.ranked or task.design.conditional:
        return None
    return SameDonors(task.design, task.entropy)


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
    """Whether a model is known to predict e to the power of a sum: by its class or what it was fitted to."""
    try:
        inner = innermost(native)
    except Declined:
        inner = native
    named = f"{type(inner).__name__} {getattr(inner, 'loss', '')} {getattr(inner, 'objective', '')}".lower()
    identity = getattr(inner, "link", "") == "identity" or (
        getattr(inner, "link", "") == "auto" and getattr(inner, "power", 1) <= 0
    )
    return any(word in named for word in ("poisson", "gamma", "tweedie")) and not identity


def run(task: Task, design: Design, pairs: Sequence[tuple[str, str, str]], scale: AddingScale | None) -> InCommon:
    """All pairs, each as two features and the name of the feature that replaces both."""
    assert task.loss is not None
    exact = {subject.feature.name for subject in task.subjects if design.all_pairs and route(task, subject).exact}
    subjects = {subject.feature.name: subject for subject in task.subjects}
    names = ["whole", *(PARTS if scale else ())]
    if scale is AddingScale.PROBABILITIES and task.loss == losses.log_loss:
        names += [f"Brier {part}" for part in PARTS]
    turns = list(_turns(task, design, pairs, len(names)))
    sums: dict[Pair, _PairSums] = {}
    clipped: list[float] = []
    sample, total, layout = task.sample, 0, None
    most = sum(task.n * (1 + sum(_width(subjects[name], design) for name in _features(turn))) for turn in turns)
    with bar(most, "explaining", task.progress, "cells" if exact else "predictions") as tick:
        for turn in turns:
            asked = {name: pose(subjects[name], design, task.n, task.entropy) for name in _features(turn)}
            if layout is None:
                layout = _layout(next(iter(asked.values())).meeting, task.n)
                mass = _Mass(layout, sample)
            found = {(a, b): _PairSums(names, mass) for a, b, _ in turn}
            for rows, own, cells, count in _predicted(task, asked, exact, tick):
                sample, total = _record(sample, rows, own, task), total + count
                clipped += _add(found, turn, asked, (rows, own, cells), sample, task, scale)
            sums |= found
    much = bool(clipped) and float(np.mean(clipped)) > MOST_CLIPPED
    brier = much and scale is AddingScale.PROBABILITIES
    # Logits at the clipping bound no longer add up, whatever the model does: they show nothing.
    parts = {} if much and not brier else {part: f"Brier {part}" if brier else part for part in names[1:4]}
    return InCommon(
        {pair: one.estimate("whole", sample) for pair, one in sums.items()},
        {part: {pair: one.estimate(name, sample) for pair, one in sums.items()} for part, name in parts.items()},
        brier, sample, total + (min(task.n, CHECKED) if exact else 0),
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


def _layout(meeting: Layout, n: int) -> Layout:
    """One column of cells a donor, not a value: these differ between features."""
    if isinstance(meeting, OwnDonors):
        return meeting
    return CommonGrid(all_rows(n), all_rows(n), n, meeting.leaves_out_own)


def _predicted(
    task: Task, asked: dict[str, Question], exact: set[str], tick: Tick
) -> Iterator[tuple[slice, NDArray[Any], dict[str, NDArray[Any]], int]]:
    """Predictions of some rows at a time: unchanged, and in the cells of each feature; and how many the model made."""
    n, budget = task.n, task.budget
    step = max(1, budget.memory // PART_SHARE // budget.row_bytes(list(asked.values())))
    ways = {
        name: task.exact.way(asked[name].subject, task.loss, blocked=task.blocked) for name in asked if name in exact
    }
    by_steps = {name: asked[name] for name, way in ways.items() if way == "steps"}
    filled = {name: asked[name] for name, way in ways.items() if way == "cells"}
    others = {name: question for name, question in asked.items() if name not in exact}
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        at, count = np.arange(rows.start, rows.stop), 0
        cells: dict[str, NDArray[Any]] = {}
        for engine, some in ((task.exact, filled), (task.engine, others)):
            if some:
                answer = engine.fill(at, [one.ask for one in some.values()], tick)
                own, cells = answer.base, cells | dict(zip(some, answer.cells, strict=True))
                count += len(at) + sum(answer.n_predictions) if some is others else 0
        if by_steps:
            curves = step_curves.cells_of(task.exact, list(by_steps.values()), task.sample, rows)
            cells |= dict(zip(by_steps, curves, strict=True))
        yield rows, own, cells, count


def _record(sample: Sample, rows: slice, own: NDArray[Any], task: Task) -> Sample:
    """The sample with the predictions and losses of some more rows."""
    loss = task.loss
    assert loss is not None
    if len(sample.prediction) == 0:
        prediction = np.empty((sample.n, *own.shape[1:]), own.dtype)
        sample = replace(sample, prediction=prediction, loss=np.empty(sample.n))
    loss.check_prediction(own)
    sample.prediction[rows] = own
    assert sample.loss is not None
    sample.loss[rows] = loss(sample.target(loss)[rows], sample.shown(loss, own))
    return sample


def _add(
    found: dict[Pair, _PairSums],
    turn: Sequence[tuple[str, str, str]],
    asked: dict[str, Question],
    part: tuple[slice, NDArray[Any], dict[str, NDArray[Any]]],
    sample: Sample,
    task: Task,
    scale: AddingScale | None,
) -> list[float]:
    """Add the cells of some rows of all pairs; returns shares of clipped probabilities."""
    rows, own, cells = part
    at, loss, clipped = np.arange(rows.start, rows.stop), task.loss, []
    assert loss is not None
    changes = {name: cell_changes(loss, sample, at, predictions) for name, predictions in cells.items()}
    size = {name: float(sample.weight[rows] @ np.abs(change).mean(axis=1)) for name, change in changes.items()}
    for a, b, both in turn:
        sums = found[a, b]
        sums.compared += size[a] + size[b] + size[both]
        for some in chunks(at, sums.mass.layout.width):
            first, second, together = (_by_donor(changes[name][some], asked[name].meeting) for name in (a, b, both))
            whole = first + second - together
            quantities = {"whole": whole}
            if scale is not None:
                shown = (_by_donor(cells[name][some], asked[name].meeting) for name in (a, b, both))
                replaced = ReplacedPredictions(own[some], *shown)
                one = split(replaced, sample, at[some], loss, scale)
                quantities |= _parts("", whole, one.interaction, one.strength)
                clipped.append(one.clipped)
                if loss == losses.log_loss and scale is AddingScale.PROBABILITIES:
                    one = split(replaced, sample, at[some], losses.brier, AddingScale.PROBABILITIES)
                    brier = _brier(replaced, sample, at[some])
                    quantities |= _parts("Brier ", brier, one.interaction, one.strength)
            sums.add(at[some], quantities)
    return clipped


def _parts(prefix: str, whole: Floats, interaction: Floats, strength: Floats) -> dict[str, Floats]:
    return dict(zip((prefix + part for part in PARTS), (whole - interaction, interaction, strength), strict=True))


def _brier(cells: ReplacedPredictions, sample: Sample, rows: Indices) -> Floats:
    """What both importances count of the Brier score."""
    base = replace(sample, loss=np.zeros(sample.n))  # the own loss occurs once in each change: it is added at the end
    first, second, both = (
        loss_changes(losses.brier, base, rows, part) for part in (cells.first, cells.second, cells.both)
    )
    assert sample.y is not None
    return first + second - both - losses.brier(sample.y[rows], cells.own)[:, None]


def _by_donor(cells: NDArray[Any], meeting: Layout) -> NDArray[Any]:
    """Cells by donor: those of a common grid are by value."""
    return cells if isinstance(meeting, OwnDonors) else cells[:, meeting.own]


class _Mass:
    """Weights of the cells, common to all pairs."""

    def __init__(self, layout: Layout, sample: Sample) -> None:
        self.layout, self.sample, weight = layout, sample, sample.weight
        if isinstance(layout, OwnDonors):
            self.row, self.donor = np.zeros(sample.n), np.zeros(sample.n)
            for some in chunks(all_rows(sample.n), layout.width):
                donors, lent = self.lent(all_rows(sample.n)[some])
                self.row[some] = lent.sum(axis=1)
                self.donor += np.bincount(donors.ravel(), (weight[some][:, None] * lent).ravel(), sample.n)
        else:
            # The weight of the donors that a row meets: all, or all but itself or its group.
            met = 1 - (weight if layout.leaves_out_own else np.zeros(sample.n))
            if sample.block is not None:
                met = 1 - np.bincount(sample.block, weight).astype(float)[sample.block]
            self.row = np.where(met > 1e-12, met, 0.0)
            self.donor = weight * self.row

    def lent(self, rows: Indices) -> tuple[Indices, Floats]:
        """The donors of these rows and their weights; an omitted cell has weight 0."""
        assert isinstance(self.layout, OwnDonors)
        donors = self.layout.donors[rows]
        return np.where(donors < 0, 0, donors), self.layout.weights(self.sample, rows, donors)


class _PairSums:
    """Sums of the cells of one pair, of each quantity: over the donors of a row and over the rows of a donor."""

    def __init__(self, names: Sequence[str], mass: _Mass) -> None:
        n = len(mass.row)
        self.names, self.mass = list(names), mass
        self.row, self.donor, self.square = np.zeros((len(names), n)), np.zeros((len(names), n)), np.zeros(len(names))
        self.compared = 0.0  # the mean absolute changes that the whole is a sum of

    def add(self, rows: Indices, quantities: dict[str, Floats]) -> None:
        """All cells of these rows; each row is added once."""
        layout, sample = self.mass.layout, self.mass.sample
        weight = sample.weight[rows]
        if isinstance(layout, OwnDonors):
            donors, lent = self.mass.lent(rows)
            each = weight[:, None] * lent
        elif sample.block is not None:
            apart = sample.block[rows][:, None] != sample.block
        for name, cells in quantities.items():
            q = self.names.index(name)
            if isinstance(layout, OwnDonors):
                self.row[q, rows] = (lent * cells).sum(axis=1)
                self.donor[q] += np.bincount(donors.ravel(), (each * cells).ravel(), sample.n)
                self.square[q] += float(np.sum(each * cells * cells))
            else:
                counted = cells if sample.block is None else cells * apart
                self.row[q, rows] = counted @ sample.weight
                self.donor[q] += sample.weight * (weight @ counted)

    def estimate(self, name: str, sample: Sample) -> PairMean:
        """The mean of a quantity, and its standard error from the influence of each row in both roles."""
        q, mass, layout = self.names.index(name), self.mass, self.mass.layout
        total = float(mass.donor.sum())
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0: a row that meets no donor, or a donor no row
            means = Means(
                local=self.row[q] / mass.row,
                mass=mass.row * sample.weight,
                caused=np.where(mass.donor > 0, self.donor[q] / mass.donor, 0.0),
                lent=mass.donor / total,
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
        found = PairMean(value, unbiased, moved.std_error, moved.skewness)
        # Where m is a rounding error it is 0: what is left of strength and interaction is none.
        if name.endswith(("strength", "interaction")):
            return found
        return settled(found, sample.error + self.compared, sample)


def settled(found: PairMean, compared: float, sample: Sample) -> PairMean:
    """Without rounding errors: for features that the model does not use they must not be significant."""
    least = compared * (SINGLE_ROUNDING if sample.prediction.dtype == np.float32 else ROUNDING)
    if not (found.std_error <= least and abs(found.unbiased) <= least):  # also where the error is not known
        return found
    return replace(found, value=0.0, unbiased=0.0, std_error=0.0)
