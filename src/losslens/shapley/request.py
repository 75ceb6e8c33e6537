"""A checked call of `shapley_importance`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from losslens.donors.questions import Subject
from losslens.losses import Loss
from losslens.models import as_model
from losslens.passes.task import Options, Task, default_loss, prepare
from losslens.shapley.stopping import Wanted
from losslens.typing import Indices

BACKGROUND = 512  # donors whose predictions are averaged before the loss, where all rows are more
CELLS_SHARE = 4  # of the memory: what a result keeps of single pairs


@dataclass(frozen=True, eq=False)
class Request:
    """What is shared out, among whom, and how."""

    task: Task
    loss: Loss
    wanted: Wanted

    @property
    def players(self) -> tuple[Subject, ...]:
        """The features."""
        return self.task.subjects

    @property
    def n(self) -> int:
        """Rows."""
        return self.task.n

    @property
    def p(self) -> int:
        """Players."""
        return len(self.task.subjects)

    @property
    def covers_table(self) -> bool:
        """Whether every column belongs to a player."""
        return covers_table(self.task)

    @property
    def averages_predictions(self) -> bool:
        """Whether predictions are averaged over the donors before the loss: SAGE."""
        return self.wanted.aggregate == "prediction"

    @property
    def all_pairs(self) -> bool:
        """Whether every row is a donor of every row (or of every other row)."""
        return self.task.design is None or self.task.design.all_pairs

    @property
    def leaves_out_own(self) -> bool:
        """Whether no row is its own donor."""
        return self.task.design is not None and self.task.design.leaves_out_own

    @property
    def donors_a_row(self) -> int:
        """Donors that a row meets."""
        design = self.task.design
        return self.n if design is None or design.all_pairs else design.m or self.n

    @cached_property
    def engine_work(self) -> dict[str, float]:
        """The ways that the exact engine offers, and the operations that each takes."""
        return dict(self.task.games.ways(self.loss, averaged=self.averages_predictions))

    def generator(self) -> np.random.Generator:
        """Random numbers of this call."""
        return np.random.default_rng([self.task.entropy, 4])

    def keeps_pairs(self, donors_a_row: int) -> bool:
        """Whether single pairs fit into what a result may keep."""
        needs = 8 * self.n * donors_a_row * self.p
        return not self.averages_predictions and needs <= self.task.budget.memory // CELLS_SHARE

    def draw_donors(self, rng: np.random.Generator) -> Indices:
        """The donors of each row, (n, m)."""
        assert self.task.design is not None
        if not self.averages_predictions:
            return self.task.design.draw(self.n, rng)
        some = self.draw_background(rng)
        return np.broadcast_to(some, (self.n, len(some)))

    def draw_background(self, rng: np.random.Generator) -> Indices:
        """Donors that all rows share, none of weight 0."""
        rows, design = np.flatnonzero(self.task.sample.weight > 0), self.task.design
        if design is not None and design.all_pairs:
            return rows
        m = BACKGROUND if design is None or design.m is None else design.m
        return rows if m >= len(rows) else np.sort(rng.choice(rows, m, replace=False))


def check_request(model: Any, X: Any, y: Any, loss: Any, wanted: Wanted, options: Options) -> Request:
    """Check every argument of a call with a loss."""
    known = as_model(model)
    chosen = default_loss(known, loss)
    if wanted.aggregate == "prediction" and chosen.reads == "labels":
        raise ValueError(f"{chosen.name} reads labels, which have no mean; aggregate='prediction' needs numbers")
    task = prepare(known, X, y, options, loss=chosen, response=chosen.reads)
    check_players(task)
    request = Request(task, chosen, wanted)
    _check_design(request)
    return request


def covers_table(task: Task) -> bool:
    """Whether every column belongs to a player."""
    return sum(len(s.feature.columns) for s in task.subjects) == len(task.table.names)


def check_players(task: Task) -> None:
    """Raise ValueError unless donors lend values of all players, and every column belongs to one of them at most."""
    design = task.design
    if design is not None and (design.ranked or design.values is not None):
        does = "orders donors by one feature's values" if design.ranked else "holds the values of one feature"
        raise ValueError(f"{design!r} {does}, but a Shapley game needs one donor for all features; use Latin(m)")
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


def _check_design(request: Request) -> None:
    """Raise ValueError unless the donors fit the other arguments."""
    design, wanted = request.task.design, request.wanted
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
    if wanted.precision is not None and not request.all_pairs:
        raise ValueError(f"donors={design!r} says how much is drawn; leave out precision=")
    if wanted.aggregate == "prediction" and (not design.common or design.leaves_out_own):
        raise ValueError(f"averaged predictions need donors that all rows share: 'all' or Grid(m); got {design!r}")
    if wanted.aggregate == "loss" and design.sampled_grid:
        raise ValueError(f"with {design!r} all rows have the same few donors, whose effects don't cancel: use Latin(m)")
