"""What every engine says of itself: which features it takes, in which way it answers, what that costs.

Ways to answer for a feature, and what each asks of an engine:

- "cells": every cell is predicted, `CellEngine`.
- "steps": the curve of a row is a few steps over classes of values that the model can't tell apart, `StepEngine`.
- "sums": all means have a closed form, `Additive`.
- "totals": means without cells, for columns that are replaced together, `Trees`.

The passes over the rows belong to the ways (`passes.dispatch`): an engine that answers in one of these ways needs none
of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Ask, Subject
from losslens.losses import Loss, Response
from losslens.progress import Tick
from losslens.tables.columns import Column
from losslens.tables.frames import Table
from losslens.typing import Indices

if TYPE_CHECKING:
    from losslens.engines.readers.unwrapped import UnwrappedModel

AnswerWay = Literal["cells", "steps", "sums", "totals"]
BLOCKED = "with groups= the donors of a row differ from row to row"


class Declined(Exception):  # noqa: N818 - not an error: the black box is used instead
    """The kind of model is supported, but its predictions can't be reproduced exactly; the text says why."""


@dataclass(frozen=True, eq=False)
class Answer:
    """Predictions of b rows: unchanged, (b,) or (b, K), and in each feature's cells, (b, width) or (b, width, K)."""

    base: NDArray[Any]
    cells: list[NDArray[Any]]
    n_predictions: list[int]  # rows that the model was asked for, one count a feature


class CellEngine(Protocol):
    """Predicts every cell."""

    def fill(self, rows: Indices, asks: Sequence[Ask], tick: Tick) -> Answer:
        """Predictions of these rows, unchanged and in all cells of each ask; ticks count cells."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Curves of the rows from .. to; of row i and the k-th ask the steps ``start[i, k] : start[i, k + 1]``.

    From class ``classes[s]`` on the prediction is ``prediction[s]``; every curve has a step at class 0.
    """

    rows: slice
    start: NDArray[np.int64]  # (b, asks + 1)
    classes: NDArray[np.int32]
    prediction: NDArray[Any]  # (steps,) or (steps, K)
    own: NDArray[Any]  # (b,) or (b, K): with nothing replaced


class Walker(Protocol):
    """Works through rows, for one thread."""

    def steps(self, start: int, stop: int) -> Iterator[Steps]:
        """The curves of rows start .. stop, some rows at a time; what was given before may be written over."""


class StepEngine(Protocol):
    """Gives whole curves without predicting every cell."""

    def predict(self, rows: Indices) -> NDArray[Any]:
        """Predictions of some rows."""

    def classes(self, ask: Ask) -> NDArray[np.int32]:
        """The class of each value of an ask."""

    def takes_about(self, n: int) -> tuple[float, int]:
        """Seconds of n rows by counts alone, and bytes of what would travel with them."""

    def walker(self, asks: Sequence[Ask]) -> Walker:
        """Somebody to work through rows; asks come in the order of their columns."""


class PlayerGames:
    """What an exact engine knows of games whose players are features; here nothing.

    The players of a coalition keep a row's values, the others take a donor's; columns of no player are kept. An engine
    names the ways that it offers and says what each takes, by counts; whoever plays the game decides what is
    affordable, and calls the methods that belong to the way.
    """

    def ways(self, loss: Loss, *, averaged: bool) -> dict[str, float]:
        """Ways to share out the loss over all pairs, and the operations that each takes.

        Averaged: predictions are averaged over the donors before the loss.
        """
        return {}

    def effect_ways(self, rows: int, donors: int) -> dict[str, float]:
        """Ways to share out predictions, and the cells that each takes."""
        return {}

    def import_kernels(self, way: str) -> None:
        """Import what a way has compiled the first time on a machine, so that the wait can be announced."""


class ExactEngine(ABC):
    """Knows the model. One that can't say exactly what the model would say must not be chosen."""

    name: ClassVar[str]
    adds_in_single: ClassVar[bool] = False  # whether models that add up in single precision are read

    @abstractmethod
    def predict(self, rows: Indices) -> NDArray[Any]:
        """Predictions of some rows."""

    @abstractmethod
    def way(self, subject: Subject, loss: Loss | None, *, blocked: bool) -> AnswerWay:
        """How it answers for a feature over all pairs; raises `Declined` where it can't.

        Blocked: rows of one group don't lend to each other.
        """

    @abstractmethod
    def seconds(self, subject: Subject, way: AnswerWay) -> float:
        """What a feature takes, by counts and `rates`; steps are timed instead."""

    def label(self, way: AnswerWay) -> str:
        """Its name, and the device that it works on."""
        return self.name

    @abstractmethod
    def games(self, players: Sequence[Subject]) -> PlayerGames:
        """What it knows of games of these features."""


@dataclass(frozen=True, eq=False)
class Site:
    """What an engine is built on: the table, its columns, and the columns that are asked for."""

    table: Table
    column: Callable[[int], Column]
    asked: frozenset[int]
    memory: int
    n_jobs: int | None
    progress: bool | None
    error: Callable[[Indices, NDArray[Any]], float] | None = None  # the mean loss of some rows, given their predictions
    device: str | None = None  # where trees are counted


class ReadModel(ABC):
    """A fitted model as numbers, before any table is seen; it knows the engine that they are for."""

    kind: ClassVar[str]  # the engine's name
    shares_over_parts: ClassVar[bool] = False  # whether Shapley importances of data in files are known

    @abstractmethod
    def engine(self, unwrapped: UnwrappedModel, site: Site) -> ExactEngine:
        """Its engine on a table."""

    def check_loss(self, loss: Loss | None, response: Response) -> None:  # noqa: B027 - most need not
        """Raise `Declined` where the engine is exact for other losses only."""

    @abstractmethod
    def check_parts(self, loss: Loss | None) -> None:
        """Raise `Declined` where data in files can't be explained part by part."""


def coalition_count(p: int) -> float:
    """2^p, or as much as a number holds."""
    return float(2.0 ** min(p, 900))
