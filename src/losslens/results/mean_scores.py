"""Scores that are functions of mean losses: minus a mean loss, 1 less it, 1 less a ratio of two, minus a root.

Their importances are those of the loss on another scale: nothing of them is computed twice. With c the mean loss of the
best constant, ``R2 = 1 - error / c``, so that its importance is ``PFI / c``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Literal, Self

import numpy as np

from losslens import losses
from losslens.donors.layout import CommonGrid, OwnDonors
from losslens.losses import Loss, OutputLoss
from losslens.results.base import Stored
from losslens.results.importance import FeatureImportance
from losslens.tables.sample import by_unit
from losslens.typing import Floats, Indices
from losslens.uncertainty.standard_errors import Influence

Scale = Literal["error", "share right", "share explained", "root"]

# The scorers of scikit-learn that are functions of a mean loss, by name.
MEAN_SCORES: dict[str, tuple[Loss, Scale]] = {
    "accuracy": (losses.zero_one, "share right"),
    "r2": (losses.squared_error, "share explained"),
    "d2_absolute_error_score": (losses.absolute_error, "share explained"),
    "d2_log_loss_score": (losses.log_loss, "share explained"),
    "d2_brier_score": (losses.brier, "share explained"),
    "neg_mean_squared_error": (losses.squared_error, "error"),
    "neg_mean_absolute_error": (losses.absolute_error, "error"),
    "neg_mean_poisson_deviance": (losses.poisson_deviance, "error"),
    "neg_mean_gamma_deviance": (losses.gamma_deviance, "error"),
    "neg_log_loss": (losses.log_loss, "error"),
    "neg_brier_score": (losses.brier, "error"),
    "neg_root_mean_squared_error": (losses.squared_error, "root"),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanScore(Stored):
    """A score of one feature, from its importances by a loss: several for the outputs over which it is a mean."""

    parts: tuple[FeatureImportance, ...]
    scale: Scale
    is_auc: ClassVar[bool] = False

    at = property(attrgetter("first.at"), doc="The rows that are scored, as positions.")
    sample = property(attrgetter("first.sample"), doc="All rows.")
    values = property(attrgetter("first.values"), doc="The grid of the curve.")
    shares = property(attrgetter("first.means.weights"), doc="The share of the donors at each value.")
    unit = property(attrgetter("first._unit"), doc="What is left out.")
    units = property(attrgetter("first._units"), doc="As many units of equal weight.")

    @property
    def first(self) -> FeatureImportance:
        """The importance by the loss of the first output, which has the donors and the grid of all."""
        return self.parts[0]

    @property
    def linear(self) -> bool:
        """Whether the score is minus the mean loss, but for a constant."""
        return self.scale in ("error", "share right")

    @property
    def undefined(self) -> str:
        """Why these rows have no score."""
        if self.scale != "share explained" or all(one.of_rows > 0 for one in self._each):
            return ""
        return "all of them have the same y"

    @property
    def score(self) -> float:
        """The score with nothing replaced."""
        return float(self._mean([one.score(one.part.error, one.of_rows) for one in self._each]))

    @property
    def importance(self) -> float:
        """The score less that of the pooled cells."""
        return float(self._mean([one.lost(one.part.pfi) for one in self._each]))

    @property
    def unbiased(self) -> float:
        """The centre of intervals: without pairs of a row with itself, as far as the score has a bias by them."""
        return float(self._mean([one.lost(one.unbiased) for one in self._each]))

    @property
    def curve(self) -> Floats:
        """The score less that with every row at a value, (g,) or (g1, g2)."""
        return np.asarray(self._mean([one.lost(one.part.pi) for one in self._each]))

    @property
    def column_drops(self) -> Floats:
        """How much lower the score is in each column of a design in which rows have donors of their own, (m,)."""
        return np.asarray(self._mean([one.lost(one.of_columns()) for one in self._each]))

    @cached_property
    def influence(self) -> Influence:
        """Influence of each row, or group of rows, on the importance: each is left out of all means exactly."""
        if self.linear:
            return self.first.influence
        return _sum([one.influence() for one in self._each])

    @cached_property
    def score_influence(self) -> Influence:
        """The same on the score with nothing replaced."""
        if self.linear:
            return -self.first.base_influence
        return _sum([one.score_influence() for one in self._each])

    def at_positions(self, chosen: Indices) -> Self:
        """The score of some rows, with donors from all rows."""
        return replace(self, parts=tuple(one.at_positions(chosen) for one in self.parts))

    def _mean(self, of_parts: list[Any]) -> Any:
        return of_parts[0] if len(of_parts) == 1 else np.mean(of_parts, axis=0)

    @cached_property
    def _each(self) -> list[_Scaled]:
        return [_Scaled(one, self.scale, len(self.parts)) for one in self.parts]


@dataclass(frozen=True, eq=False)
class _Scaled:
    """The importance by a loss, one of some outputs, on the scale of a score."""

    part: FeatureImportance
    scale: Scale
    outputs: int

    def score(self, error: Any, constant: Any) -> Any:
        """The score, given the mean loss and that of the best constant."""
        if self.scale == "share explained":
            with np.errstate(invalid="ignore", divide="ignore"):  # of rows with one y
                return 1 - np.divide(error, constant)
        return {"error": -error, "share right": 1 - error, "root": -np.sqrt(error)}[self.scale]

    def lost(self, change: Any) -> Any:
        """How much lower the score is where the mean loss is higher by `change`."""
        return self._lost(change, *self.of_cells) if self.scale in ("share explained", "root") else change

    def _lost(self, change: Any, error: Any, constant: Any) -> Any:
        if self.scale == "root":
            return np.sqrt(np.maximum(error + change, 0.0)) - np.sqrt(error)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.divide(change, constant)

    @property
    def unbiased(self) -> float:
        """The mean change of loss as the score needs it: ``PFI_U (1 - sum w^2) / var`` has no bias, and is PFI_V."""
        return self.part.pfi if self.scale == "share explained" else self.part.unbiased

    def of_columns(self) -> Floats:
        """The mean change of loss in each column of the design."""
        part = self.part
        if not isinstance(part.layout, OwnDonors):
            raise ValueError(f"{part.design!r} has no columns in which each row has one donor; use Permutations(m)")
        donors = part.layout.donors[part.cells.rows]
        weight = part.sample.weight[part.cells.rows][:, None] * part.layout.weights(
            part.sample, part.cells.rows, donors
        )
        return np.asarray((weight * part._changes).sum(axis=0) / weight.sum(axis=0))

    # The mean loss and that of the best constant.

    @cached_property
    def of_rows(self) -> float:
        """The mean loss of the best constant on these rows; 0 where the score doesn't need it."""
        return self._constant(self.part.sample.weight[self.part.at])

    @cached_property
    def of_cells(self) -> tuple[float, float]:
        """The mean loss and that of the best constant, where rows weigh as much as their cells."""
        part = self.part
        mass = part.means.mass if part.means.has_weights else part.sample.weight[part.at]  # a grid without donors
        assert part.sample.loss is not None  # importances have losses
        error = (
            part.sample.totals.error
            if part.sample.totals
            else float((mass * part.sample.loss[part.at]).sum() / mass.sum())
        )
        return error, self._constant(mass)

    def _constant(self, weight: Floats) -> float:
        return float(self._constants(lambda x: np.asarray((weight * x).sum()), lambda: iter([weight])))

    def _constants(self, sums: Callable[[Floats], Floats], weights: Callable[[], Iterator[Floats]]) -> Any:
        """The mean loss of the best constant, from weighted sums over the rows, and for the median from weights."""
        part = self.part
        if self.scale != "share explained":
            return 0.0
        if part.sample.totals is not None or part.sample.y is None:
            raise ValueError("this score needs y of all rows, and a result of files keeps some of them; use a loss")
        y, loss = part.sample.y[part.at], part.loss
        if isinstance(loss, OutputLoss):
            y, loss = loss.of.target(y, loss.k), loss.of.each[loss.k]
        if loss.name == "squared_error":
            y = np.asarray(y, float) - float(np.mean(y))
            mass = sums(np.ones(len(y)))
            left = sums(y * y) / mass - (sums(y) / mass) ** 2
            return np.where(left > 1e-14 * np.mean(y * y), left, 0.0)
        if loss.name == "absolute_error":
            return np.array([_about_median(np.asarray(y, float), weight) for weight in weights()]).squeeze()
        mass = sums(np.ones(len(y)))
        share = np.stack([sums((y == k).astype(float)) / mass for k in range(int(y.max()) + 1)])
        if loss.name == "brier":
            return (1 - np.sum(share**2, axis=0)) / (2 if part.sample.prediction.shape[1] == 2 else 1)
        return -np.sum(share * np.log(np.where(share > 0, share, 1.0)), axis=0)

    # Without each unit.

    def influence(self) -> Influence:
        """The importance without each unit, from the mean change, the mean loss and the constant without it."""
        part, of_change = self.part, self.part.influence
        left = _Left(part, of_cells=True)
        error, constant = left.mean(part.sample.loss), self._constants(left.sums, left.weights)
        change = part.unbiased - of_change.moved / left.factor
        if self.scale == "share explained":
            change = change * left.others_share
        moved = left.moved(self._lost(change, error, constant)) / self.outputs
        now, of_constant = self.of_cells
        slope = 1 / of_constant if self.scale == "share explained" else 0.5 / np.sqrt(max(now + part.unbiased, 1e-300))
        square = (slope / self.outputs) ** 2  # of what a change of loss does to the score
        return Influence(moved, of_change.excess * square, of_change.noise * square)

    def score_influence(self) -> Influence:
        """The score without each unit."""
        left = _Left(self.part, of_cells=False)
        error = left.mean(self.part.sample.loss)
        return Influence(left.moved(self.score(error, self._constants(left.sums, left.weights))) / self.outputs)


class _Left:
    """Sums over the rows of an importance without each unit, a row or a group of rows.

    Where pairs inside units are left out, the others lose the unit as donors, too: a row's mass is
    ``w_i (1 - W_unit(i) - W_u)`` without unit u.
    """

    def __init__(self, part: FeatureImportance, *, of_cells: bool) -> None:
        sample, self.at = part.sample, part.at
        self.sample = sample
        self.weight, self.mass = np.zeros(sample.n), np.zeros(sample.n)
        self.weight[self.at] = sample.weight[self.at]
        self.mass[self.at] = part.means.mass if of_cells else self.weight[self.at]
        self.lends = by_unit(sample.weight, sample.block)
        pairs_left_out = sample.block is not None or part.layout.leaves_out_own
        self.lost = self.lends * (of_cells and pairs_left_out and isinstance(part.layout, CommonGrid))
        self.all_pairs = not pairs_left_out
        count = sample.units(self.at)
        self.factor = np.sqrt((count - 1) / count)

    def sums(self, of_rows: Floats) -> Floats:
        """Weighted sums over these rows, (r,) -> (u,)."""
        every = np.zeros(self.sample.n)
        every[self.at] = of_rows
        of_mass, of_weight = (by_unit(w * every, self.sample.block) for w in (self.mass, self.weight))
        return np.asarray((of_mass.sum() - of_mass) - self.lost * (of_weight.sum() - of_weight))

    def mean(self, of_all_rows: Any) -> Floats:
        """A weighted mean over these rows, (n,) -> (u,)."""
        return self.sums(of_all_rows[self.at]) / self.sums(np.ones(len(self.at)))

    def weights(self) -> Iterator[Floats]:
        """The weights of these rows."""
        unit = np.arange(self.sample.n) if self.sample.block is None else np.unique(
            self.sample.block, return_inverse=True
        )[1]  # fmt: skip
        for u, lost in enumerate(self.lost):
            yield ((self.mass - lost * self.weight) * (unit != u))[self.at]

    @property
    def others_share(self) -> Floats:
        """The share of pairs of different rows, where rows' own are among the pairs."""
        if not self.all_pairs:
            return np.ones(len(self.lends))
        w, counted = self.sample.weight, self.weight
        own, mass = float(counted @ w) - counted * w, (counted.sum() - counted) * (w.sum() - w)
        return np.asarray(1 - np.divide(own, mass, out=np.ones(len(w)), where=mass > 0))

    def moved(self, without: Floats) -> Floats:
        """What each unit moves a number, given the number without it: the jackknife."""
        counted = (self.lends > 0) & np.isfinite(without)
        if not counted.all() and not np.isfinite(without[self.lends > 0]).all():
            raise ValueError("no standard error: without some rows the score is not defined")
        return np.where(counted, self.factor * (without[counted].mean() - np.where(counted, without, 0.0)), 0.0)


def _about_median(y: Floats, weight: Floats) -> float:
    """The mean absolute distance to the weighted median."""
    order = np.argsort(y, kind="stable")
    cumulated = np.cumsum(weight[order])
    median = y[order[min(int(np.searchsorted(cumulated, cumulated[-1] / 2)), len(y) - 1)]]
    return float(weight @ np.abs(y - median) / cumulated[-1])


def _sum(parts: list[Influence]) -> Influence:
    """Of a sum of numbers whose donors are the same."""
    noise = [sum(np.sqrt(max(getattr(one, name), 0.0)) for one in parts) ** 2 for name in ("excess", "noise")]
    return Influence(np.sum([one.moved for one in parts], axis=0), *map(float, noise))
