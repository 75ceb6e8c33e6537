"""Walks: turn a donor into a row, one player at a time; what each step takes off the loss is that player's share.

A walk draws an order of the players and a pair (i, k). Both ends are known, so that p - 1 predictions give all p
contributions. One *sweep* is a walk to every row. Sweeps are drawn until a rule is met (`run`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from losslens.game_theory import along, random_orders
from losslens.progress import ProgressBar
from losslens.shapley.setup import GameSetup
from losslens.typing import Floats, Indices, Mask


@dataclass(frozen=True, eq=False)
class Sweep:
    """A walk to each of r rows."""

    donors: Indices  # (r,), or those that all walks share
    orders: NDArray[np.int16]  # (r, p)
    shares: Floats  # (r, p): what each player took off the loss; without a loss, its steps
    steps: Floats | None  # (r, p): what it added to the prediction; None where that is no single number


@dataclass(frozen=True, eq=False, kw_only=True)
class WalkKind(ABC):
    """What is drawn in sweeps, and how many of them are wanted."""

    setup: GameSetup
    rng: np.random.Generator
    cost: int  # predictions that a sweep takes, at most
    fewest_valid: ClassVar[int] = 2  # sweeps that make a result, where a user stops

    @property
    @abstractmethod
    def most(self) -> int:
        """Sweeps that are affordable; a ValueError where there are too few for any answer."""

    @property
    @abstractmethod
    def first(self) -> int:
        """Sweeps before anything is decided."""

    @property
    @abstractmethod
    def together(self) -> int:
        """Sweeps between two looks at the keyboard."""

    @abstractmethod
    def sweeps(self, count: int) -> list[Any]:
        """Draw some more."""

    @abstractmethod
    def wanted(self, sweeps: list[Any]) -> int:
        """Sweeps that are wanted in all, now that these are there."""

    def accuracy(self, sweeps: list[Any]) -> str:
        """How exact the answer is so far, in words."""
        return ""


class Walked(NamedTuple):
    """What was drawn."""

    sweeps: list[Any]
    complete: bool  # False: stopped by the user
    cut_short: bool  # more were wanted than are affordable


def run(kind: WalkKind, progress: ProgressBar) -> Walked:
    """Draw sweeps until no more are wanted; whatever was drawn is valid whenever it ends, by the rule or by Ctrl-C."""
    sweeps: list[Any] = []
    most, wanted, complete = kind.most, 0, True
    planned = kind.first
    try:
        while len(sweeps) < planned:
            progress.set_total(kind.setup.n + planned * kind.cost)
            while len(sweeps) < planned:
                sweeps += kind.sweeps(min(kind.together, planned - len(sweeps)))
                if len(sweeps) > 1:
                    progress.note(kind.accuracy(sweeps))
            wanted = max(wanted, kind.wanted(sweeps))
            planned = max(planned, min(wanted, most))
    except KeyboardInterrupt:
        if len(sweeps) < kind.fewest_valid:
            raise
        complete = False
    return Walked(sweeps, complete, complete and wanted > len(sweeps))


def walk_from_donors(
    setup: GameSetup, rows: Indices, donors: Indices, rng: np.random.Generator, together: int
) -> list[Sweep]:
    """A walk to each row from its donor in each sweep, donors (sweeps, rows); `together` walks at a time."""
    count, r = donors.shape
    orders = random_orders(count * r, setup.p, rng)
    rows, single = np.tile(rows, count), donors.ravel()

    def predict(part: slice) -> NDArray[Any]:
        return path(setup, rows[part], single[part], orders[part])

    shares, steps = contributions(setup, rows, orders, predict, together)
    small, at = orders.astype(np.int16), [slice(c * r, (c + 1) * r) for c in range(count)]
    return [
        Sweep(donors[c], small[part], shares[part], None if steps is None else steps[part])
        for c, part in enumerate(at)
    ]  # fmt: skip


def contributions(
    setup: GameSetup, rows: Indices, orders: Indices, predict: Callable[[slice], NDArray[Any]], together: int
) -> tuple[Floats, Floats | None]:
    """What each player took off the loss, and added to the prediction, in walks to these rows, (walks, p) each.

    `predict` gives the predictions along some walks, (some, p + 1, ...).
    """
    p, shares, steps = setup.p, np.empty(orders.shape), np.empty(orders.shape)
    has_steps = True
    for start in range(0, len(rows), together):
        part = slice(start, start + together)
        found = predict(part)
        number = single_number(found)
        if number is None:
            has_steps = False
        else:
            steps[part] = -along(orders[part], number)
        if setup.loss is not None:
            losses = setup.losses(np.repeat(rows[part], p + 1), found.reshape(-1, *found.shape[2:]))
            shares[part] = along(orders[part], losses.reshape(-1, p + 1))
    return steps if setup.loss is None else shares, steps if has_steps else None


def single_number(predictions: NDArray[Any]) -> Floats | None:
    """Predictions as one number each: values and scores as they are, of two classes the second's; else None."""
    if predictions.dtype.kind not in "fiub" or (predictions.ndim == 3 and predictions.shape[2] != 2):
        return None
    return np.asarray(predictions[..., 1] if predictions.ndim == 3 else predictions, float)


def path(setup: GameSetup, rows: Indices, donors: Indices, orders: Indices) -> NDArray[Any]:
    """Predictions along the walks to these rows, from the donor to the row, (b, p + 1, ...).

    A player whose value both have moves nothing: the model predicts only where something moves, and more is to come.
    """
    base = setup.sample.prediction
    differ = setup.codes[rows] != setup.codes[donors]
    moves = np.take_along_axis(differ, orders, axis=1)
    b, p = orders.shape
    last = np.where(moves.any(axis=1), p - 1 - np.argmax(moves[:, ::-1], axis=1), -1)
    place = np.argsort(orders, axis=1)
    needed = moves & (np.arange(p) < last[:, None])
    where, step = np.nonzero(needed)
    start = np.flatnonzero(last >= 0) if not setup.covers_table else np.empty(0, np.intp)  # whose first step is mixed
    kept = np.concatenate([place[where] <= step[:, None], np.zeros((len(start), p), bool)])
    walks = np.concatenate([where, start])
    answers = setup.predict(rows[walks], donors[walks], kept)
    steps = np.empty((b, p + 1, *base.shape[1:]), base.dtype)
    steps[:, 0] = np.where(_wide(last >= 0, base), base[donors], base[rows])
    steps[start, 0] = answers[len(where) :]
    found = np.empty((b, p, *base.shape[1:]), base.dtype)
    found[where, step] = answers[: len(where)]
    for t in range(p):
        steps[:, t + 1] = np.where(_wide(needed[:, t], base), found[:, t], steps[:, t])
        steps[:, t + 1] = np.where(_wide(t >= last, base), base[rows], steps[:, t + 1])
    return steps


def _wide(marks: Mask, like: NDArray[Any]) -> Mask:
    return marks.reshape(-1, *[1] * (like.ndim - 1))
