"""Which way to share out: exact wherever that is cheap, by stated counts; otherwise walks.

The same data give the same way on every machine: rules count cells, words and predictions, never seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from losslens.donors.designs import Design
from losslens.donors.questions import Subject
from losslens.engines.additive import Additive
from losslens.engines.kernel_machines import Products
from losslens.losses import Loss
from losslens.passes.auto import EXACT_PREDICTIONS
from losslens.passes.task import Task
from losslens.shapley.stopping import Wanted

Way = Literal[
    "closed form", "device pairs", "tree pairs", "single tree", "tree totals", "product totals", "tree orders",
    "coalitions", "walks",
]  # fmt: skip
ASKED_FOR = 16  # times as much is done where the exact answer is asked for by name
MOST_CELLS = 4e9  # pairs times coalitions that trees are asked for one by one: half a minute
LOOKED_UP, WALKED = 25, 1500  # cells that a tree of a pair takes as long as
MOST_ROWS = 3e8  # rows times coalitions of a single tree: the same
MOST_WORDS = 4e11  # word operations of all coalitions' totals: the same
MOST_DEVICE_PAIRS = 2e15  # multiply-adds of all coalitions of all pairs, on a device: half a minute of a large one
MOST_DEVICE_WORDS = 1e14  # the same for the totals of all coalitions
MOST_MADDS = 2e12  # multiply-adds of all coalitions of a sum of products
MOST_PREDICTIONS = 10**9  # where the exact answer is asked for by name
A_COALITION = 128  # predictions that a coalition takes as long as, however few rows it has
MOST_PLAYERS = 20  # of a table of all coalitions


@dataclass(frozen=True)
class Cost:
    """A way that was looked at, what it takes, and how much is too much."""

    way: Way
    takes: float
    unit: str
    most: float

    @property
    def fits(self) -> bool:
        """Whether it is cheap enough."""
        return self.takes <= self.most

    def __str__(self) -> str:
        return f"{self.takes:,.0f} {self.unit}" if self.takes < 1e15 else f"{self.takes:.1e} {self.unit}"


def exact_ways(task: Task, loss: Loss | None, aggregate: str, budget: int | None, asked_for: bool) -> list[Cost]:
    """The ways to an exact answer, the most telling first."""
    p, n, more = len(task.subjects), task.n, ASKED_FOR if asked_for else 1
    engine, found = task.exact, []
    coalitions = coalition_count(p)
    if isinstance(engine, Additive) and _is_squared(loss) and aggregate == "loss":
        found.append(Cost("closed form", 0.0, "predictions", 1.0))
    if is_trees(engine) and loss is not None:
        if aggregate == "loss" and p <= MOST_PLAYERS and not engine.is_single and engine.device_judge(loss) is not None:
            madds = coalitions * n**2 * len(engine.bound.value) * engine.bound.ensemble.outputs
            found.append(Cost("device pairs", madds, "multiply-adds", more * MOST_DEVICE_PAIRS))
        pairs = n * (n - 1) / (2 if aggregate == "loss" else 1)
        if p <= MOST_PLAYERS:
            cells = pairs * (coalitions + _cells_of_trees(engine))
            found.append(Cost("tree pairs", cells, "cells of pairs and coalitions", more * MOST_CELLS))
        if aggregate == "loss" and engine.is_single:
            found.append(Cost("single tree", n * coalitions, "rows and coalitions", more * MOST_ROWS))
        elif aggregate == "loss" and has_totals(task, loss):
            words = coalitions / 2 * max(1.0, _tree_words(engine))
            found.append(Cost("tree totals", words, "word operations", more * _most_words(engine)))
    if isinstance(engine, Products) and _is_squared(loss) and aggregate == "loss":
        found.append(Cost("product totals", coalitions * _madds(engine, n), "multiply-adds", more * MOST_MADDS))
    if p > MOST_PLAYERS:
        found = [cost for cost in found if cost.way == "closed form"]
    by_model = by_predictions(task, n, budget, asked_for)
    if isinstance(engine, Products) and by_model.fits:  # it tells more
        return [by_model]
    return [*found, by_model]


def by_predictions(task: Task, m: int, budget: int | None, asked_for: bool) -> Cost:
    """All coalitions by the model itself, with m donors a row."""
    most = budget or (MOST_PREDICTIONS if asked_for else EXACT_PREDICTIONS * len(task.subjects))
    rows = predictions(task.subjects, task.n, m, is_whole(task))
    return Cost("coalitions", max(rows, A_COALITION * coalition_count(len(task.subjects))), "predictions", most)


def predictions(players: Sequence[Subject], n: int, m: int, whole: bool) -> float:
    """The most that all coalitions take: a row meets no more values of the replaced players than there are."""
    p = len(players)
    if p > MOST_PLAYERS:
        return (coalition_count(p) - 2) * n * m
    values = np.ones(1)
    for player in players:  # of each set of replaced players, none first
        values = np.concatenate([values, np.minimum(values * len(player.distinct), float(m))])
    return float(values[1 : -1 if whole else None].sum() * n) + n


def coalition_count(p: int) -> float:
    """2^p, or as much as a number holds."""
    return float(2.0 ** min(p, 900))


def is_whole(task: Task) -> bool:
    """Whether every column belongs to a player."""
    return sum(len(s.feature.columns) for s in task.subjects) == len(task.table.names)


def has_totals(task: Task, loss: Loss) -> bool:
    """Whether trees give the total of any coalition without its pairs."""
    if not is_trees(task.exact) or task.exact.is_single:
        return False
    from losslens.passes import groups

    return groups.applies(task.exact, loss)


def most_circles(task: Task) -> int:
    """Circles of orders that exact totals can afford: p (p - 1) / 2 coalitions each."""
    p = len(task.subjects)
    return int(4 * _most_words(task.exact) / max(1.0, p * (p - 1) / 2 * _tree_words(task.exact)))


def is_trees(engine: Any) -> bool:
    """Whether this is the tree engine; asked by name, as its compiled parts are imported when they are needed."""
    return engine is not None and engine.name == "trees"


def check_players(task: Task) -> None:
    """Raise ValueError unless every column belongs to one player at most."""
    design = task.design
    if design is not None and (design.ranked or design.values is not None):
        raise ValueError(
            f"{design!r} goes by one feature's values, but in a Shapley game all features need the same donors; "
            "use Latin(m)"
        )
    seen: dict[int, str] = {}
    for subject in task.subjects:
        feature = subject.feature
        if feature.kind == "pair":
            raise ValueError(
                f"{feature.name!r} is a pair on a product grid, which shares nothing out; for columns that play "
                "together write {'name': [columns]}"
            )
        for j in feature.columns:
            if j in seen:
                name = task.table.names[j]
                raise ValueError(f"column {name!r} is in {seen[j]!r} and in {feature.name!r}; players must not overlap")
            seen[j] = feature.name


def check_design(task: Task, wanted: Wanted) -> None:
    """Raise ValueError unless the donors fit what is wanted."""
    design = task.design
    if design is None:
        return
    if design.conditional:
        if wanted.method not in ("auto", "exact") or wanted.aggregate != "loss" or wanted.precision is not None:
            raise ValueError(
                f"{design!r} draws given what each coalition keeps: leave out method, aggregate, precision"
            )
        return
    if wanted.method == "paper":
        raise ValueError("the paper's algorithm draws permutations of its own, m_obs of them; leave out donors")
    if wanted.precision is not None and not everybody_lends(design):
        raise ValueError(f"donors={design!r} says how much is drawn; leave out precision=")
    if wanted.aggregate == "prediction" and (not design.common or design.leaves_out_own):
        raise ValueError(f"averaged predictions need donors that all rows share: 'all' or Grid(m); got {design!r}")
    if wanted.aggregate == "loss" and design.sampled_grid:
        raise ValueError(f"with {design!r} all rows have the same few donors, whose effects don't cancel: use Latin(m)")


def everybody_lends(design: Design | None) -> bool:
    """Whether every pair counts."""
    return design is None or design.all_pairs


def _is_squared(loss: Loss | None) -> bool:
    return loss is not None and loss.name == "squared_error" and not loss.custom


def _tree_words(engine: Any) -> float:
    from losslens.engines.trees.coalitions import cost

    return cost(engine.bound)


def _most_words(engine: Any) -> float:
    """Word operations of all coalitions' totals that are affordable."""
    return MOST_WORDS if engine.device is None else MOST_DEVICE_WORDS


def _cells_of_trees(engine: Any) -> float:
    """What the trees take for a pair, in cells: small ones are looked up, large ones are walked."""
    return float(len(engine.bound.roots) * (LOOKED_UP if engine.tables is not None else WALKED))


def _madds(engine: Products, n: int) -> float:
    terms = len(engine.form.coef)
    return float(n) * terms * min(n, terms)
