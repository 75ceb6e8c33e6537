"""Walks: turn a donor into a row, one player at a time; the reduction of the loss at a step is that player's share.

A walk draws an order of the players and a pair (i, k). Both ends are known, so that p - 1 predictions give all p
contributions. One *sweep* is a walk to every row. Sweeps are drawn until a stopping rule is met (`run`).

Where every column belongs to a player, the same predictions in reverse are a walk from i to k: judged by row k's target
they give the pair (k, i) its contributions, too. For a loss ``a(y) - b(y) T(f) + c(f)`` the mean of both readings of a
step is ``(b_i - b_k) (T_after - T_before) / 2``, without the noise of c.
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

    donors: Indices  # (r,), or those of all walks
    orders: NDArray[np.int16]  # (r, p)
    shares: Floats  # (r, p): by how much each player reduced the loss; without a loss, its steps
    steps: Floats | None  # (r, p): what it added to the prediction; None where predictions are not single numbers
    back: Floats | None = None  # (r, p): shares of the donor with the row as its donor, the walk read in reverse


@dataclass(frozen=True, eq=False, kw_only=True)
class WalkKind(ABC):
    """How sweeps are drawn, and how many are needed."""

    setup: GameSetup
    rng: np.random.Generator
    cost: int  # predictions that a sweep takes, at most
    fewest_valid: ClassVar[int] = 2  # sweeps needed for a result when the user interrupts

    @property
    @abstractmethod
    def max_sweeps(self) -> int:
        """The most sweeps that budget and memory allow; ValueError if these are too few."""

    @property
    @abstractmethod
    def first_sweeps(self) -> int:
        """Sweeps before the first stopping decision."""

    @property
    @abstractmethod
    def sweeps_at_once(self) -> int:
        """Sweeps between two updates of the progress bar."""

    @abstractmethod
    def sweeps(self, count: int) -> list[Any]:
        """Draw `count` sweeps."""

    @abstractmethod
    def sweeps_needed(self, sweeps: list[Any]) -> int:
        """The total number of sweeps needed, judging by those drawn so far."""

    def accuracy(self, sweeps: list[Any]) -> str:
        """The precision so far, shown beside the progress bar."""
        return ""


class Walked(NamedTuple):
    """The sweeps of a run, and how it ended."""

    sweeps: list[Any]
    complete: bool  # False: stopped by the user
    cut_short: bool  # more were needed than budget and memory allow


def run(kind: WalkKind, progress: ProgressBar) -> Walked:
    """Draw sweeps until no more are needed. The result is valid whenever it ends, by the rule or by Ctrl-C."""
    sweeps: list[Any] = []
    most, needed, complete = kind.max_sweeps, 0, True
    planned = kind.first_sweeps
    try:
        while len(sweeps) < planned:
            progress.set_total(kind.setup.n + planned * kind.cost)
            while len(sweeps) < planned:
                sweeps += kind.sweeps(min(kind.sweeps_at_once, planned - len(sweeps)))
                if len(sweeps) > 1:
                    progress.note(kind.accuracy(sweeps))
            needed = max(needed, kind.sweeps_needed(sweeps))
            planned = max(planned, min(needed, most))
    except KeyboardInterrupt:
        if len(sweeps) < kind.fewest_valid:
            raise
        complete = False
    return Walked(sweeps, complete, complete and needed > len(sweeps))


def walk_from_donors(
    setup: GameSetup, rows: Indices, donors: Indices, rng: np.random.Generator, together: int, both_ways: bool = False
) -> list[Sweep]:
    """A walk to each row from its donor in each sweep, donors (sweeps, rows); `together` walks at a time."""
    count, r = donors.shape
    orders = random_orders(count * r, setup.p, rng)
    rows, single = np.tile(rows, count), donors.ravel()

    def predict(part: slice) -> NDArray[Any]:
        return path(setup, rows[part], single[part], orders[part])

    shares, steps, back = contributions(setup, rows, orders, predict, together, single if both_ways else None)
    small, at = orders.astype(np.int16), [slice(c * r, (c + 1) * r) for c in range(count)]
    return [
        Sweep(
            donors[c], small[part], shares[part], None if steps is None else steps[part],
            None if back is None else back[part],
        )
        for c, part in enumerate(at)
    ]  # fmt: skip


def contributions(
    setup: GameSetup, rows: Indices, orders: Indices, predict: Callable[[slice], NDArray[Any]], together: int,
    donors: Indices | None = None,
) -> tuple[Floats, Floats | None, Floats | None]:  # fmt: skip
    """By how much each player reduced the loss, and changed the prediction, in walks to these rows, (walks, p) each.

    With donors, the reductions of the walks back to these as well. `predict` returns the predictions along some of the
    walks, (b, p + 1, ...).
    """
    p, shares, steps = setup.p, np.empty(orders.shape), np.empty(orders.shape)
    back = None if donors is None else np.empty(orders.shape)
    has_steps = True
    for start in range(0, len(rows), together):
        part = slice(start, start + together)
        predictions = predict(part)
        number = single_number(predictions)
        if number is None:
            has_steps = False
        else:
            steps[part] = -along(orders[part], number)
        if setup.loss is not None:
            flat = predictions.reshape(-1, *predictions.shape[2:])
            losses = setup.losses(np.repeat(rows[part], p + 1), flat)
            shares[part] = along(orders[part], losses.reshape(-1, p + 1))
            if back is not None and donors is not None:
                losses = setup.losses(np.repeat(donors[part], p + 1), flat)
                back[part] = -along(orders[part], losses.reshape(-1, p + 1))
    return steps if setup.loss is None else shares, steps if has_steps else None, back


def single_number(predictions: NDArray[Any]) -> Floats | None:
    """Predictions as one number each: values, scores, or the second of two classes; else None."""
    if predictions.dtype.kind not in "fiub" or (predictions.ndim == 3 and predictions.shape[2] != 2):
        return None
    return np.asarray(predictions[..., 1] if predictions.ndim == 3 else predictions, float)


def path(setup: GameSetup, rows: Indices, donors: Indices, orders: Indices) -> NDArray[Any]:
    """Predictions along the walk to these rows, from the donor to the row, (b, p + 1, ...).

    A player with equal values in row and donor changes nothing: the model predicts only steps that change something,
    except the last of them, which reaches the row.
    """
    base = setup.sample.prediction
    differ = setup.codes[rows] != setup.codes[donors]
    moves = np.take_along_axis(differ, orders, axis=1)
    b, p = orders.shape
    last = np.where(moves.any(axis=1), p - 1 - np.argmax(moves[:, ::-1], axis=1), -1)
    place = np.argsort(orders, axis=1)
    needed = moves & (np.arange(p) < last[:, None])
    where, step = np.nonzero(needed)
    start = np.flatnonzero(last >= 0) if not setup.covers_table else np.empty(0, np.intp)  # their start is a mixed row
    kept = np.concatenate([place[where] <= step[:, None], np.zeros((len(start), p), bool)])
    walk = np.concatenate([where, start])
    answers = setup.predict(rows[walk], donors[walk], kept)
    steps = np.empty((b, p + 1, *base.shape[1:]), base.dtype)
    steps[:, 0] = np.where(_wide(last >= 0, base), base[donors], base[rows])
    steps[start, 0] = answers[len(where) :]
    mixed = np.empty((b, p, *base.shape[1:]), base.dtype)
    mixed[where, step] = answers[: len(where)]
    for t in range(p):
        steps[:, t + 1] = np.where(_wide(needed[:, t], base), mixed[:, t], steps[:, t])
        steps[:, t + 1] = np.where(_wide(t >= last, base), base[rows], steps[:, t + 1])
    return steps


def _wide(marks: Mask, like: NDArray[Any]) -> Mask:
    return marks.reshape(-1, *[1] * (like.ndim - 1))
