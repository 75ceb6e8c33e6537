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

from losslens.engines.base import GameArrays
from losslens.game_theory import along, random_orders
from losslens.passes import allowance
from losslens.passes.allowance import Limits, ModelFailed
from losslens.progress import ProgressBar
from losslens.shapley.setup import GameSetup
from losslens.text import size_in_words
from losslens.typing import Indices

SWEEP_BYTES = 48  # per row and player: shares of both readings, steps, orders, and what is made of them


@dataclass(frozen=True, eq=False)
class Sweep:
    """A walk to each of r rows; all but the donors may be tensors on a device."""

    donors: Indices  # (r,), or those of all walks
    orders: Any  # (r, p), int16
    shares: Any  # (r, p): by how much each player reduced the loss; without a loss, its steps
    steps: Any  # (r, p): what it added to the prediction; None where predictions are not single numbers
    back: Any = None  # (r, p): shares of the donor with the row as its donor, the walk read in reverse
    controls: Any = None  # (k, p, r): variables of mean 0


@dataclass(frozen=True, eq=False, kw_only=True)
class WalkKind(ABC):
    """How sweeps are drawn, and how many are needed."""

    setup: GameSetup
    rng: np.random.Generator
    cost: int  # predictions that a sweep takes, at most
    fewest_valid: ClassVar[int] = 2  # sweeps needed for a result when the user interrupts

    @property
    def limits(self) -> Limits | None:
        """Of the time, if any."""
        return None

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
    def predictions_at_once(self) -> int:
        """Predictions between two updates of the progress bar."""

    @abstractmethod
    def sweeps(self, count: int) -> list[Any]:
        """Draw `count` sweeps."""

    @abstractmethod
    def sweeps_needed(self, sweeps: list[Any]) -> int:
        """The total number of sweeps needed, judging by those drawn so far."""

    def accuracy(self, sweeps: list[Any]) -> str:
        """The precision so far, shown beside the progress bar."""
        return ""


def check_memory(sweeps: int, rows: int, p: int, memory: int, sweep_bytes: int = SWEEP_BYTES) -> None:
    """Raise ValueError unless the sweeps fit into memory: fewer would be another result."""
    if sweeps * rows * p * sweep_bytes > memory:
        needs = size_in_words(2 * sweeps * rows * p * sweep_bytes)
        raise ValueError(
            f"memory is too small for {sweeps:,} sweeps of walks to {rows:,} rows; pass memory='{needs}', or a smaller "
            "budget="
        )


class Walked(NamedTuple):
    """The sweeps of a run, and how it ended."""

    sweeps: list[Any]
    complete: bool  # False: stopped by the user
    cut_short: bool  # more were needed than budget and memory allow
    error: str = ""  # of a model that failed and failed again


def run(kind: WalkKind, progress: ProgressBar) -> Walked:
    """Draw sweeps until no more are needed. The result is valid whenever it ends, by the rule or by Ctrl-C."""
    sweeps: list[Any] = []
    most, needed, complete = kind.max_sweeps, 0, True
    planned, at_once = kind.first_sweeps, max(1, kind.predictions_at_once // max(1, kind.cost))
    pace = Pace(kind.limits)
    try:
        while len(sweeps) < planned:
            progress.set_total(kind.setup.n + planned * kind.cost)
            while len(sweeps) < planned:
                sweeps += kind.sweeps(pace.count(min(at_once, planned - len(sweeps)), len(sweeps)))
                if len(sweeps) > 1 and progress.is_shown:
                    progress.note(kind.accuracy(sweeps))
            needed = max(needed, kind.sweeps_needed(sweeps))
            planned = max(planned, min(needed, most))
    except OutOfTime:
        return Walked(sweeps, complete=True, cut_short=True)
    except ModelFailed as failed:
        if len(sweeps) < kind.fewest_valid:
            raise failed.cause from None
        return Walked(sweeps, complete=True, cut_short=True, error=failed.words)
    except KeyboardInterrupt:
        if len(sweeps) < kind.fewest_valid:
            raise
        complete = False
    return Walked(sweeps, complete, complete and needed > len(sweeps))


class OutOfTime(Exception):  # noqa: N818 - not an error: the sweeps so far count
    """The time affords no further sweep."""


class Pace:
    """How many sweeps come next, where there is a time limit: as many as a small part of it takes."""

    def __init__(self, limits: Limits | None) -> None:
        self.limits, self.began = limits, allowance.clock()

    def count(self, sweeps: int, done: int) -> int:
        """At most so many; one until there are timings. Raises `OutOfTime` where none can be finished in time."""
        if self.limits is None or not self.limits.timed:
            return sweeps
        if done < 1:
            return 1
        now = allowance.clock()
        each = max((now - self.began) / done, 1e-9)
        left = self.limits.seconds - (now - self.limits.began)
        if left < each:
            raise OutOfTime
        return int(np.clip(min(allowance.CALL_SHARE * self.limits.seconds, left) / each, 1, sweeps))


def walk_from_donors(
    arrays: GameArrays, rows: Indices, donors: Indices, rng: np.random.Generator, together: int, *,
    both_ways: bool = False, judged: bool = True,
) -> list[Sweep]:  # fmt: skip
    """A walk to each row from its donor in each sweep, donors (sweeps, rows); `together` walks at a time."""
    (count, r), xp = donors.shape, arrays.xp
    orders = random_orders(count * r, arrays.codes.shape[1], rng, xp)
    every, single = xp.asarray(np.tile(rows, count)), xp.asarray(donors.ravel())

    def predict(part: slice) -> Any:
        return path(arrays, every[part], single[part], orders[part])

    shares, steps, back = contributions(
        arrays, every, orders, predict, together, single if both_ways else None, judged=judged
    )
    small, slices = xp.asarray(orders, np.int16), [slice(c * r, (c + 1) * r) for c in range(count)]
    return [
        Sweep(
            donors[c], small[part], shares[part], None if steps is None else steps[part],
            None if back is None else back[part],
        )
        for c, part in enumerate(slices)
    ]  # fmt: skip


def contributions(
    arrays: GameArrays, rows: Any, orders: Any, predict: Callable[[slice], Any], together: int, donors: Any = None, *,
    judged: bool = True,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """By how much each player reduced the loss, and changed the prediction, in walks to these rows, (walks, p) each.

    With donors, the reductions of the walks back to these as well. `predict` returns the predictions along some of the
    walks, (b, p + 1, ...). Without a loss (`judged`) the first are the changes of the prediction.
    """
    xp = arrays.xp
    shares, steps = xp.empty(orders.shape), xp.empty(orders.shape)
    back = None if donors is None else xp.empty(orders.shape)
    has_steps = True
    for start in range(0, len(rows), together):
        part = slice(start, start + together)
        predictions = predict(part)
        number = single_number(predictions, xp)
        if number is None:
            has_steps = False
        else:
            steps[part] = -along(orders[part], number, xp)
        if judged:
            shares[part] = along(orders[part], arrays.losses(rows[part], predictions), xp)
            if back is not None:
                back[part] = -along(orders[part], arrays.losses(donors[part], predictions), xp)
    return shares if judged else steps, steps if has_steps else None, back


def single_number(predictions: Any, xp: Any = np) -> Any:
    """Predictions as one number each: values, scores, or the second of two classes; else None."""
    is_number = getattr(predictions.dtype, "kind", "f") in "fiub"  # those of a device are numbers
    if not is_number or (predictions.ndim == 3 and predictions.shape[2] != 2):
        return None
    return xp.asarray(predictions[..., 1] if predictions.ndim == 3 else predictions, float)


def path(arrays: GameArrays, rows: Any, donors: Any, orders: Any) -> Any:
    """Predictions along the walk to these rows, from the donor to the row, (b, p + 1, ...).

    A player with equal values in row and donor changes nothing: the model predicts only steps that change something,
    except the last of them, which reaches the row.
    """
    xp, base = arrays.xp, arrays.base
    differ = arrays.codes[rows] != arrays.codes[donors]
    moves = xp.take_along_axis(differ, orders, axis=1)
    b, p = orders.shape
    last = xp.max(moves * xp.arange(1, p + 1), axis=1) - 1  # -1: none
    place = xp.argsort(orders, axis=1)
    needed = moves & (xp.arange(p) < last[:, None])
    where, step = xp.nonzero(needed)
    start = where[:0] if arrays.covers_table else xp.nonzero(last >= 0)[0]  # their start is a mixed row
    kept = xp.concatenate([place[where] <= step[:, None], xp.zeros((len(start), p), bool)])
    walk = xp.concatenate([where, start])
    answers = arrays.predict(rows[walk], donors[walk], kept)
    steps = xp.empty((b, p + 1, *base.shape[1:]), base.dtype)
    steps[:, 0] = xp.where(_wide(last >= 0, base), base[donors], base[rows])
    steps[start, 0] = answers[len(where) :]
    mixed = xp.empty((b, p, *base.shape[1:]), base.dtype)
    mixed[where, step] = answers[: len(where)]
    for t in range(p):
        steps[:, t + 1] = xp.where(_wide(needed[:, t], base), mixed[:, t], steps[:, t])
        steps[:, t + 1] = xp.where(_wide(t >= last, base), base[rows], steps[:, t + 1])
    return steps


def _wide(marks: Any, like: Any) -> Any:
    return marks.reshape(-1, *[1] * (like.ndim - 1))
