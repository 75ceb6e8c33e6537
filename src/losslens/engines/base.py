"""The interface of all engines: which features an engine supports, how it computes them, and what that costs.

Ways to compute a feature's importance, and the interface or engine behind each:

- "cells": every cell is predicted, `CellEngine`.
- "steps": a row's curve is a step function over classes of values that the model can't distinguish, `StepEngine`.
- "sums": means over all pairs of a function of two sums, a row's and a donor's, `Additive` and `LinkedSums`.
- "factors": means of squared losses of products of a factor of the row and a factor of the donor, `Products`.

There is one pass over the rows per way (`passes.ways`), shared by all engines that offer this way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import CellSums, Means
from losslens.donors.layout import OwnDonors
from losslens.donors.questions import Ask, Subject
from losslens.losses import Loss, Response
from losslens.progress import Tick
from losslens.tables.columns import ClassRuns, Column
from losslens.tables.frames import Table
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices
from losslens.uncertainty.cell_weights import CellWeights
from losslens.workers import PerThread, in_process

if TYPE_CHECKING:
    from losslens.engines.readers.pipelines import UnwrappedModel

AnswerWay = Literal["cells", "steps", "sums", "factors"]
SINGLE_TOLERANCE = 1e-5  # of models that sum in float32 (XGBoost, linear models of float32 tables)
ROWS = 1250  # whose curves a thread computes at a time, at least: they are passed down large trees together


class Declined(Exception):  # noqa: N818 - not an error: the caller falls back to the black box
    """The kind of model is supported, but not in this case; the text gives the reason."""


@dataclass(frozen=True, eq=False)
class Answer:
    """Predictions of b rows: unchanged, (b,) or (b, K), and in each feature's cells, (b, width) or (b, width, K)."""

    base: NDArray[Any]
    cells: list[NDArray[Any]]
    n_predictions: list[int]  # rows predicted by the model, one count per feature


@dataclass(frozen=True, eq=False)
class Averaged:
    """The cells of one feature and some rows, summed where they were predicted."""

    predictions: NDArray[Any] | None  # (b, m) or (b, m, K), where they are requested
    sums: CellSums | None = None  # None: only predicted


class CellEngine(Protocol):
    """Predicts every cell."""

    def fill(self, rows: Indices, asks: Sequence[Ask], tick: Tick) -> Answer:
        """Predictions of these rows, unchanged and in all cells of each ask; tick is called with numbers of cells."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Curves of a slice of rows; the curve of row i for the k-th ask has the steps ``start[i, k] : start[i, k + 1]``.

    From class ``classes[s]`` on, the prediction is ``prediction[s]``; every curve starts with a step at class 0.
    """

    rows: slice
    start: NDArray[np.int64]  # (b, asks + 1)
    classes: NDArray[np.int32]
    prediction: NDArray[Any]  # (steps,) or (steps, K)
    own: NDArray[Any]  # (b,) or (b, K): predictions of the unchanged rows


class Walker(Protocol):
    """Computes the curves of rows; used by a single thread."""

    def steps(self, start: int, stop: int) -> Iterator[Steps]:
        """The curves of rows start .. stop, some rows at a time; the next item may overwrite the arrays of the last."""


class StepEngine(Protocol):
    """Computes complete curves without predicting every cell."""

    def predict(self, rows: Indices) -> NDArray[Any]:
        """Predictions of the given rows."""

    def classes(self, ask: Ask) -> ClassRuns:
        """The class of each value of an ask, of one column."""

    def takes_about(self, n: int) -> tuple[float, int]:
        """Estimates for n rows: seconds, from counts alone, and bytes to send to a worker."""

    def walker(self, asks: Sequence[Ask]) -> Walker:
        """A walker for one thread; asks are sorted by column."""

    def reordered(self, order: Indices) -> StepEngine:
        """The engine of the same rows in another order."""


class PlayerGames:
    """The ways in which an exact engine computes games whose players are features; none by default.

    The players of a coalition keep the row's values, the others take the donor's; columns of no player are kept. An
    engine lists its ways, each with a cost derived from counts. The caller decides which is affordable, and calls the
    methods that belong to it.
    """

    def ways(self, loss: Loss, *, averaged: bool) -> dict[str, float]:
        """Ways to distribute the mean loss over all pairs among the players, with the number of operations of each.

        averaged: predictions are averaged over the donors before the loss is evaluated.
        """
        return {}

    def effect_ways(self, rows: int, donors: int) -> dict[str, float]:
        """Ways to distribute predictions among the players, with the number of cells of each.

        An engine that offers "walks" has `walk_sums`, `respond` and `effects_on_sums`.
        """
        return {}

    def sum_weights(self, loss: Loss, y: NDArray[Any]) -> Floats | None:
        """b of each of the model's sums, (n, K), where the loss is linear in y on their scale (`loss_scales`).

        An engine that has them offers the way "covariance", with `effects_on_sums` and `range_of_sums`.
        """
        return None


class Pairs(Protocol):
    """The cells of pairs of rows and donors, from which the errors of p means are estimated."""

    @property
    def cells(self) -> Any:
        """(n, m, p), an array of any library."""

    @property
    def weights(self) -> CellWeights:
        """The weights of the pairs."""

    def means(self) -> list[Means]:
        """The p means; a pair that was measured together with the swapped one has the mean of both."""


@dataclass(frozen=True, eq=False)
class GameArrays:
    """What walks read, as arrays of one library: NumPy's, or tensors on the device of a torch module."""

    xp: Any  # the library: NumPy's functions
    codes: Any  # (n, p): the code of each player's value in each row
    base: Any  # (n,) or (n, K): predictions of the unchanged rows
    predict: Callable[[Any, Any, Any], Any]  # rows, donors, kept players -> predictions of mixed rows
    losses: Callable[[Any, Any], Any]  # rows (b,), some predictions of each (b, c, ...) -> losses (b, c)
    pairs: Callable[[OwnDonors, Sample, Any], Pairs]  # layout, sample, cells
    covers_table: bool = True  # every column belongs to a player
    together: int | None = None  # predictions of a device that keep it busy; None: as many as suit this processor
    check: Callable[[], None] = lambda: None  # raises if predictions were no finite numbers, where that waits for them


class ExactEngine(ABC):
    """An engine that uses the model's structure; chosen only if it reproduces the model's predictions exactly."""

    name: ClassVar[str]
    adds_in_single: ClassVar[bool] = False  # whether it supports models that sum in single precision
    in_single: bool = False  # whether this model does, whatever the type of its predictions
    inside_link: ClassVar[bool] = False  # whether columns add up inside a link, not in predictions
    sums_losses: ClassVar[bool] = False  # whether means of losses are closed forms, not means of cells
    sorts_values: ClassVar[bool] = False  # whether it is built from the distinct values of columns
    fills_own_donors: ClassVar[bool] = False  # whether `fill` takes donors of each row's own

    @property
    def own_rounding(self) -> bool:
        """Whether losses may differ by what the rounding of the model's predictions does to them.

        A probability that is 1 - another one has no more digits: log losses of scikit-learn's logistic regression are
        off by 2e-10 at a score of 16, and by 1e-3 at 30.
        """
        return False

    @property
    def magnitude(self) -> float:
        """The largest of what is added up for a prediction; 0 where an engine has no such bound."""
        return 0.0

    @property
    def asked(self) -> int:
        """Rows that the model has predicted for the engine."""
        return 0

    @property
    def uses(self) -> Floats | None:
        """How much the model uses each column of the table, (p,), in any unit; None where an engine cannot tell."""
        return None

    @abstractmethod
    def predict(self, rows: Indices) -> NDArray[Any]:
        """Predictions of the given rows, (m,), or of rows whose columns take their values from these rows, (m, p)."""

    @abstractmethod
    def way(self, subject: Subject, loss: Loss | None, *, blocked: bool) -> AnswerWay:
        """The way in which it computes a feature over all pairs; raises `Declined` if there is none.

        blocked: rows of the same group are not donors of each other.
        """

    def prefers_sample(self, subject: Subject) -> bool:
        """Whether the model predicts a sample of a feature's pairs, with an error bar, sooner than this all of them."""
        return False

    def by_cells(self) -> ExactEngine:
        """The engine for a caller that needs cells, not means, where it has both."""
        return self

    def games(self, players: Sequence[Subject]) -> PlayerGames:
        """Its ways to compute games with these features as players."""
        return PlayerGames()


Losses: TypeAlias = Callable[[Indices, NDArray[Any]], Floats]  # the losses of some rows, given predictions
# Some rows -> Shapley values of their sums, summed over the donors with D weightings, (D, rows, p, K).
SumEffects: TypeAlias = Callable[[Indices], Floats]


@dataclass(frozen=True, eq=False)
class Site:
    """What an engine is built from besides the model: the table, its columns, and the options that concern it."""

    table: Table
    column: Callable[[int], Column]
    requested: frozenset[int]  # columns of the requested features
    memory: int  # bytes
    n_jobs: int | None
    progress: bool | None
    losses: Losses | None = None
    weight: Floats | None = None  # of the rows; None: all alike
    respond: Callable[[Any], NDArray[Any]] | None = None  # the model's predictions of a table


Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A model inside another; `after` turns its response into that of the wrapper, None leaves it as it is."""

    estimator: Any
    response: Response
    after: Callable[[Array], Array] | None = None
    # Where `after` is link(slope x + shift): these three.
    form: tuple[Literal["identity", "log", "log1p", "logistic"], float, float] | None = None


@dataclass(frozen=True, eq=False)
class Member:
    """One of the models of a mean."""

    model: Wrapped
    weight: float = 1.0
    columns: Indices | None = None  # those of the table that it is given; None: all


@dataclass(frozen=True, eq=False)
class Mean:
    """The weighted mean of the responses of models."""

    members: Sequence[Member]
    width: int  # columns of the table
    largest: bool = False  # the response is the class with the most votes


class ReadModel(ABC):
    """The parameters of a fitted model, independent of any table, from which its engine is built."""

    kind: ClassVar[str]  # the engine's name
    # What parts of files add up to for Shapley importances: "moments", "additions", donors' "patterns" at leaves.
    donor_sums: ClassVar[str] = ""

    @abstractmethod
    def engine(self, unwrapped: UnwrappedModel, site: Site) -> ExactEngine:
        """The engine of this model on a table."""

    def check_loss(self, loss: Loss | None, response: Response) -> None:  # noqa: B027 - most support every loss
        """Raise `Declined` if the engine is not exact for this loss."""

    def check_digits(self) -> None:  # noqa: B027 - most engines add up as the model does
        """Raise `Declined` if its engine would lose digits of small predictions."""

    def slope(self, loss: Loss) -> float | None:
        """The slope in the model's sums of the scale on which a loss is linear in y (`loss_scales`); None without it.

        With it, Shapley importances are covariances, and sums over the donors add up over parts of the data.
        """
        return None

    @abstractmethod
    def check_parts(self, loss: Loss | None) -> None:
        """Raise `Declined` if data in files can't be processed in parts."""

    def then(self, wrapped: Wrapped) -> ReadModel:
        """The model whose response is what `wrapped` makes of this one's."""
        raise Declined(f"what its wrapper makes of predictions has no closed form with the engine {self.kind!r}")

    @classmethod
    def mean(cls, parts: Sequence[Any], spec: Mean) -> ReadModel:
        """The mean of several models of this type, `parts`, which are the members of `spec` in turn."""
        raise Declined(f"means of models have no closed form with the engine {cls.kind!r}")


def spread(predictions: NDArray[Any], weight: Floats | None = None) -> float:
    """The scale of a rounding error: how predictions vary, or how large they are if all are equal.

    >>> spread(np.array([1.0, 3.0])), spread(np.full(3, 0.1))
    (1.0, 0.1)
    """
    if np.ptp(predictions) > 0:  # a standard deviation of equal numbers may be a rounding error itself
        rows = np.asarray(predictions, np.float64).reshape(len(predictions), -1)
        squares = np.mean((rows - np.average(rows, axis=0, weights=weight).mean()) ** 2, axis=1)
        return float(np.sqrt(np.average(squares, weights=weight)))
    return float(np.abs(predictions).max())


def coalition_count(p: int) -> float:
    """2^p, capped to stay a finite float."""
    return float(2.0 ** min(p, 900))


@dataclass(frozen=True)
class CurveCells:
    """Predicts cells of single columns, of some pairs, off whole curves: a row's has a value for every donor."""

    engine: StepEngine
    n_jobs: int | None

    def fill(self, rows: Indices, asks: Sequence[Ask], tick: Tick) -> Answer:
        """Predictions of these rows, unchanged and in all cells of each ask."""
        from losslens.engines.step_sums import find_steps

        own = self.engine.predict(rows[:1])
        base = np.empty((len(rows), *own.shape[1:]), own.dtype)
        cells = [np.empty((len(rows), ask.width, *own.shape[1:]), own.dtype) for ask in asks]
        classes = [self.engine.classes(ask).each for ask in asks]
        of_columns = {ask.columns: ask for ask in sorted(asks, key=lambda ask: ask.columns)}
        curve = {columns: k for k, columns in enumerate(of_columns)}
        engine, begin = self.engine, int(rows[0])
        if not np.array_equal(rows, np.arange(begin, begin + len(rows))):
            engine, begin = engine.reordered(rows), 0

        def fill_rows(_: None, first: int, tick: Tick) -> None:
            last = min(first + ROWS, len(rows))
            for steps in walkers.get().steps(begin + first, begin + last):
                part = slice(steps.rows.start - begin, steps.rows.stop - begin)
                base[part] = steps.own
                for ask, of_class, of_ask in zip(asks, classes, cells, strict=True):
                    wanted = of_class[None] if ask.donor_values is None else of_class[ask.donor_values[rows[part]]]
                    steps_of_cells = np.empty(of_ask[part].shape[:2], np.int64)
                    find_steps(steps.start, steps.classes, curve[ask.columns], wanted, steps_of_cells)
                    of_ask[part] = steps.prediction[steps_of_cells]
                tick(len(steps.own) + sum(ask.most(len(steps.own)) for ask in asks))

        walkers = PerThread(partial(engine.walker, list(of_columns.values())))
        walkers.get()  # before threads start: from Python 3.12 on each would compute what the engine caches
        deque(in_process(self.n_jobs).map(fill_rows, None, range(0, len(rows), ROWS), tick), maxlen=0)
        return Answer(base, cells, [0] * len(asks))
