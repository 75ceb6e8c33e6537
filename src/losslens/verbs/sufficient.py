"""`Importances.sufficient`: backward elimination by the error with all features that have left replaced together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from losslens.donors.designs import Latin
from losslens.donors.questions import Subjects
from losslens.passes.in_common import SharedDonors
from losslens.passes.task import Options, Task, prepare
from losslens.passes.ways import evaluate
from losslens.progress import Tick, bar
from losslens.results.base import WITH_MODEL
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.sufficient import Sufficient, share_kept
from losslens.results.together import without_influences
from losslens.tables.constant import losses_of_constant
from losslens.tables.features import Feature
from losslens.tables.sources import in_files
from losslens.typing import Indices
from losslens.uncertainty.inference import Estimates
from losslens.uncertainty.standard_errors import Influence, influence_on_error, influence_on_mean
from losslens.verbs.blocks import check_result, same_task
from losslens.verbs.running import in_own_words

CHOOSING, JUDGING = 8, 32  # donors of a row: those that choose are shared by all candidates of a step
FEWEST_ROWS = 20  # of a half


@dataclass(frozen=True, eq=False)
class Half:
    """Half of the rows, and the columns of each player."""

    task: Task
    players: Mapping[str, tuple[int, ...]]

    def replaced(self, sets: Sequence[Sequence[str]], m: int) -> tuple[list[FeatureImportance], int]:
        """The importance of each set of players replaced together, all with the same donors; and the predictions."""
        columns, subjects = Subjects(self.task.table), []
        for names in sets:
            feature = Feature(" ".join(names), tuple(j for name in names for j in self.players[name]), "group")
            subjects.append(SharedDonors(feature, columns.subject(feature).columns))
        design = Latin(min(m, self.task.n))
        evaluated, predicted = evaluate(self.task, [(subject, design) for subject in subjects])
        return [by_loss[0] for by_loss in evaluated], predicted


def sufficient(
    imp: Importances, model: Any, X: Any, y: Any, keep: float, blocks: bool, running: Mapping[str, Any],
) -> Sufficient:  # fmt: skip
    """`Importances.sufficient`."""
    if not (isinstance(keep, (int, float)) and 0 < keep < 1):
        raise ValueError(f"keep is a share between 0 and 1, such as .98; got {keep!r}")
    check_result(imp)
    if in_files(X):
        raise ValueError("rows in files can't be split into halves: read them into memory and pass the table")
    options = Options(**running)
    given = in_own_words({"model": model, "X": X, "y": y}, "model")
    columns = _players(imp, blocks=blocks)
    task = same_task(imp, given["model"], given["X"], given["y"], columns, options)
    players = {subject.feature.name: subject.feature.columns for subject in task.subjects}
    explained = {j for several in players.values() for j in several}
    if others := [name for j, name in enumerate(task.table.names) if j not in explained]:
        raise ValueError(
            f"this result explains some of the columns only, so {others[0]!r} could never be left out: explain all "
            "columns, those of no interest as one group"
        )
    losses_of_constant(imp.loss, imp._first.sample, imp._first.at)  # refused before anything is predicted
    first, second = (_half(imp, task, given, rows, players, options) for rows in _halves(task))
    total, left, gone = 0, list(players), list[str]()
    steps = len(left) * (len(left) + 1) // 2
    with bar(steps, "leaving features out", options.progress, "sets") as tick:
        chosen, total = _order(first, left, gone, tick)
    judged, predicted = second.replaced([gone[: k + 1] for k in range(len(gone))], JUDGING)
    gains = [_gain(half.task, results[0]) for half, results in ((first, chosen), (second, judged))]
    shares = np.array([1 - one.pfi / gains[0][0] for one in chosen])
    return Sufficient(
        features=tuple(gone), count=share_kept(shares, keep), keep=float(keep), chosen=shares,
        kept=_shares(gone, judged, *gains[1]), constant=f"always predicting {_constant(judged[0])}", title=imp.title,
        rows=(first.task.n, second.task.n), design=repr(judged[0].design), n_predictions=total + predicted,
        backend=imp.backend,
    )  # fmt: skip


def _players(imp: Importances, *, blocks: bool) -> dict[str, dict[str, None]]:
    """Columns of each player: the features of a result, those of a block as one."""
    members = {name: [name] for name in imp}
    if blocks:
        within = {one: name for name, several in imp.blocks.items() for one in several}
        members = {}
        for name in imp:
            members.setdefault(within.get(name, name), []).append(name)
    columns = {name: dict.fromkeys(c for one in several for c in imp[one].columns) for name, several in members.items()}
    every = [column for several in columns.values() for column in several]
    if len(every) > len(set(every)):
        raise ValueError("two features of this result share a column: explain features with columns of their own")
    if len(columns) < 2:
        raise ValueError("this result has one feature, so there is nothing to leave out: explain at least two")
    return columns


def _halves(task: Task) -> tuple[Indices, Indices]:
    """Rows that choose, and rows that judge, in their own order; groups stay together, classes are halved.

    A group counts for the rarest of its classes.
    """
    unit = np.arange(task.n) if task.sample.block is None else np.unique(task.sample.block, return_inverse=True)[1]
    order = np.random.default_rng((task.entropy, 39)).permutation(unit.max() + 1)
    first = order[: len(order) // 2]
    if (y := task.sample.y) is not None and task.sample.classes is not None and task.sample.classes.size:
        counts = np.bincount(y)
        rarest = np.full(len(order), len(counts))
        np.minimum.at(rarest, unit, np.argsort(np.argsort(counts, kind="stable"))[y])
        first = order[np.argsort(rarest[order], kind="stable")][1::2]  # every second one of each class
    chooses = np.isin(unit, first)
    if min(chooses.sum(), (~chooses).sum()) < FEWEST_ROWS:
        raise ValueError(f"half of the rows choose, half judge: each needs {FEWEST_ROWS}, and there are {task.n:,}")
    return np.flatnonzero(chooses), np.flatnonzero(~chooses)


def _half(
    imp: Importances, task: Task, given: Mapping[str, Any], rows: Indices, players: Mapping[str, tuple[int, ...]],
    options: Options,
) -> Half:  # fmt: skip
    block = task.sample.block
    part = replace(
        options, sample_weight=task.sample.weight[rows], groups=None if block is None else block[rows], donors="auto",
        random_state=task.entropy,
    )  # fmt: skip
    y = given["y"].iloc[rows] if hasattr(given["y"], "iloc") else np.asarray(given["y"])[rows]
    half = prepare(given["model"], task.table.rows(rows), y, part, loss=imp.loss, response=imp.loss.reads, exact=False)
    return Half(half, players)


def _order(
    half: Half, left: list[str], gone: list[str], tick: Tick
) -> tuple[list[FeatureImportance], int]:  # fmt: skip
    """The sets that have left after each step, and the predictions: of those left, the cheapest to miss goes next."""
    path, total = [], 0
    while left:
        candidates, predicted = half.replaced([[*gone, name] for name in left], CHOOSING)
        tick(len(left))
        total += predicted
        best = int(np.argmin([one.pfi for one in candidates]))
        path.append(candidates[best])
        gone.append(left.pop(best))
    return path, total


def _gain(task: Task, one: FeatureImportance) -> tuple[float, Any]:
    """What the model gains over the best constant on these rows, and what each row moves it."""
    assert task.loss is not None
    _, losses, weight = losses_of_constant(task.loss, one.sample, one.at)
    gain = float(weight @ losses) - one.error
    moved = influence_on_mean(losses[:, None], weight, one.sample.block)[:, 0]
    moved = moved - influence_on_error(one.sample, one.at).moved
    if not gain > 0:
        raise ValueError(
            f"on one half of the rows the model does no better than a constant prediction ({_constant(one)}), "
            "so there is no gain to keep"
        )
    return gain, moved


def _constant(one: FeatureImportance) -> str:
    return one.best_constant.words


def _shares(names: Sequence[str], judged: Sequence[FeatureImportance], gain: float, moved: Any) -> Estimates:
    """The shares kept, 1 - PFI/G, with the influence of each row on both."""
    influences = []
    for one in judged:
        own = one.influence
        both = -own.moved / gain + one.pfi / gain**2 * moved
        influences.append(Influence(both, excess=own.excess / gain**2, noise=own.noise / gain**2))
    value, centre = (np.array([1 - getattr(one, number) / gain for one in judged]) for number in ("pfi", "unbiased"))
    first = judged[0]
    estimates = Estimates.of_influences(tuple(names), value, influences, first._units, first._unit, centre=centre)
    return without_influences(estimates)


WITH_MODEL |= {"sufficient": sufficient}
