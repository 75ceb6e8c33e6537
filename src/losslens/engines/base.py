"""The interface between what is asked and who answers.

Curves as steps: what an engine gives that knows where a curve moves.

Distinct values of a feature that the model can't tell apart are one class; a row's curve is a few steps over classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Ask, Subject
from losslens.losses import Loss
from losslens.progress import Tick
from losslens.typing import Indices


@dataclass(frozen=True, eq=False)
class Answer:
    """Predictions of b rows: unchanged, (b,) or (b, K), and in each feature's cells, (b, width) or (b, width, K)."""

    base: NDArray[Any]
    cells: list[NDArray[Any]]
    n_predictions: list[int]  # rows that the model was asked for, one count a feature


class Engine(Protocol):
    """Fills cells. An engine that can't answer exactly what the model would say must not be chosen."""

    name: ClassVar[str]

    def fill(self, rows: Indices, asks: Sequence[Ask], tick: Tick) -> Answer:
        """Predictions of these rows, unchanged and in all cells of each ask."""

    def rows_a_call(self, n: int) -> int:
        """Rows of a full batch, for a table of n rows."""

    def timed_batch(self) -> tuple[int, float]:
        """Rows and seconds of one batch, to estimate the cost of a run."""


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
    """Gives whole curves without asking the model for each value."""

    name: ClassVar[str]

    def predict(self, rows: Indices) -> NDArray[Any]:
        """Predictions of some rows."""

    def classes(self, ask: Ask) -> NDArray[np.int32]:
        """The class of each value of an ask."""

    def takes_about(self, n: int) -> tuple[float, int]:
        """Seconds of n rows by counts alone, and bytes of what would travel with them."""

    def walker(self, asks: Sequence[Ask]) -> Walker:
        """Somebody to work through rows; asks come in the order of their columns."""


class CoalitionEngine:
    """What an exact engine offers to games of players, each one or several columns: by default nothing.

    The players of a coalition keep a row's values, the others take a donor's. An engine names the ways that it offers
    and says what each takes, by counts; whoever plays the game decides what is affordable, and calls the methods that
    belong to the way (see `Trees`, `Additive` and `Products`).
    """

    def coalition_ways(self, players: Sequence[Subject], loss: Loss, *, averaged: bool) -> dict[str, float]:
        """Ways to the losses of all coalitions over all pairs, and the operations that each takes.

        Averaged: predictions are averaged over the donors before the loss.
        """
        return {}

    def effect_ways(self, players: Sequence[Subject], rows: int, donors: int) -> dict[str, float]:
        """Ways to the Shapley values of predictions, and the cells that each takes."""
        return {}

    def import_kernels(self, way: str) -> None:
        """Import what a way has compiled the first time on a machine, so that the wait can be announced."""


def coalition_count(p: int) -> float:
    """2^p, or as much as a number holds."""
    return float(2.0 ** min(p, 900))
