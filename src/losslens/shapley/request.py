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
from losslens.shapley.stopping import Paper, Sage, ShapleySettings
from losslens.typing import Indices

BACKGROUND = 512  # at most so many donors, by default, where predictions are averaged before the loss
CELLS_SHARE = 4  # a result keeps single pairs where they take at most a fourth of the memory


@dataclass(frozen=True, eq=False)
class Request:
    """The task, the loss to distribute among its features, and the settings."""

    task: Task
    loss: Loss
    settings: ShapleySettings

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
        return self.settings.averages_predictions

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
        """The number of donors of a row."""
        design = self.task.design
        return self.n if design is None or design.all_pairs else design.m or self.n

    @cached_property
    def engine_work(self) -> dict[str, float]:
        """The ways that the exact engine offers, and the number of operations of each."""
        return dict(self.task.games.ways(self.loss, averaged=self.averages_predictions))

    def generator(self) -> np.random.Generator:
        """The random generator of this call, in its initial state."""
        return np.random.default_rng([self.task.entropy, 4])

    def keeps_pairs(self, donors_a_row: int) -> bool:
        """Whether the shares of single pairs are kept in the result."""
        needs = 8 * self.n * donors_a_row * self.p
        return not self.averages_predictions and needs <= self.task.budget.memory // CELLS_SHARE

    @property
    def mirrors(self) -> bool:
        """Whether the predictions of all pairs under a coalition are kept for its complement, which has the same.

        Row i with the values of donor k outside a coalition is row k with those of donor i inside it, if every column
        belongs to a player.
        """
        classes, of_classes = self.task.sample.classes, self.loss.reads in ("probabilities", "scores")
        outputs = len(classes) if classes is not None and of_classes else max(1, len(self.loss.parts))
        needs = 8 * self.n**2 * outputs
        return self.all_pairs and self.covers_table and needs <= self.task.budget.memory // CELLS_SHARE

    def draw_donors(self, rng: np.random.Generator) -> Indices:
        """The donors of each row, (n, m)."""
        assert self.task.design is not None
        if not self.averages_predictions:
            return self.task.design.draw(self.n, rng)
        background = self.draw_background(rng)
        return np.broadcast_to(background, (self.n, len(background)))

    def draw_background(self, rng: np.random.Generator) -> Indices:
        """Donors that all rows share, none of weight 0."""
        rows, design = np.flatnonzero(self.task.sample.weight > 0), self.task.design
        if design is not None and design.all_pairs:
            return rows
        m = BACKGROUND if design is None or design.m is None else design.m
        return rows if m >= len(rows) else np.sort(rng.choice(rows, m, replace=False))


def check_request(model: Any, X: Any, y: Any, loss: Any, settings: ShapleySettings, options: Options) -> Request:
    """Check every argument of a call with a loss."""
    model = as_model(model)
    chosen = default_loss(model, loss, y)
    if settings.averages_predictions and chosen.reads == "labels":
        raise ValueError(f"{chosen.name} reads labels, which have no mean; Sage() needs numbers")
    if settings.until_ranked and settings.averages_predictions:
        raise ValueError("precision='ranks' is for shares of the loss: leave it out, or method=Sage()")
    task = prepare(model, X, y, options, loss=chosen, response=chosen.reads, all_pairs=True)
    check_players(task)
    assert task.loss is not None  # the chosen one, with the outputs of a custom function
    request = Request(task, task.loss, settings)
    _check_design(request)
    return request


def covers_table(task: Task) -> bool:
    """Whether every column belongs to a player."""
    return sum(len(s.feature.columns) for s in task.subjects) == len(task.table.names)


def check_players(task: Task) -> None:
    """Raise ValueError unless a donor gives values of all players, and every column has at most one player."""
    design = task.design
    if design is not None and (design.ranked or design.values is not None):
        does = "orders donors by one feature's values" if design.ranked else "holds the values of one feature"
        raise ValueError(f"{design!r} {does}, but a Shapley game needs one donor for all features; use Latin(m)")
    owner: dict[int, str] = {}
    for subject in task.subjects:
        feature = subject.feature
        if feature.kind == "pair":
            raise ValueError(
                f"{feature.name!r} is a pair on a product grid, which has no Shapley value; for columns replaced "
                "together write {'name': [columns]}"
            )
        for j in feature.columns:
            if j in owner:
                name = task.table.names[j]
                raise ValueError(
                    f"column {name!r} is in {owner[j]!r} and in {feature.name!r}; players must not overlap"
                )
            owner[j] = feature.name


def _check_design(request: Request) -> None:
    """Raise ValueError unless the design fits the other arguments."""
    design, settings = request.task.design, request.settings
    if design is None:
        return
    if design.conditional:
        if settings.method == "walk" or isinstance(settings.method, Paper | Sage) or settings.precision is not None:
            raise ValueError(f"{design!r} draws values given those of each coalition; leave out method and precision")
        return
    if isinstance(settings.method, Paper):
        raise ValueError("the paper's algorithm draws its own permutations, m_obs of them; leave out donors=")
    if settings.precision is not None and not request.all_pairs:
        raise ValueError(f"donors={design!r} fixes the number of draws; leave out precision=")
    if settings.averages_predictions and (not design.common or design.leaves_out_own):
        raise ValueError(f"averaged predictions need donors that all rows share: 'all' or Grid(m); got {design!r}")
    if not settings.averages_predictions and design.sampled_grid:
        raise ValueError(f"with {design!r} all rows have the same few donors, whose effects don't cancel; use Latin(m)")
