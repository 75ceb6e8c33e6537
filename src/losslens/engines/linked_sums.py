"""Sums inside a link: ``f = h(b + sum over columns of g_j(x_j))``, with one sum, or one for each class.

Logistic regression, discriminant analysis, naive Bayes, generalised linear models. A feature, or a group of columns,
adds one number to each sum: with u_i what row i keeps and v_k what donor k adds, means of losses of ``h(u_i + v_k)``
over all pairs cost as much as a few predictions (`sum_losses`). Where a loss is linear in y on the scale of the sums
(`loss_scales`), Shapley importances have a closed form, too; with several classes nothing else has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Ask, Subject
from losslens.engines import sum_losses
from losslens.engines.additive import Additive, AdditiveGames, SumGames, fill_cells
from losslens.engines.base import (
    Answer,
    AnswerWay,
    Declined,
    ExactEngine,
    ReadModel,
    Site,
)
from losslens.engines.interpolation import STEPS
from losslens.engines.loss_scales import slope_on_sums
from losslens.engines.readers.pipelines import UnwrappedModel, as_numbers, dense
from losslens.engines.sum_losses import LOSSES, Link, MeanLosses
from losslens.losses import LARGEST, Loss, Response, log_loss
from losslens.progress import Tick
from losslens.typing import Floats, Indices

PARTS = "sums inside a link are not computed part by part; pass a sample of the rows in memory"
LOSSES_OF_SUMS = "of an additive model the squared, absolute, pinball, Huber and hinge losses have a closed form"
SEVERAL_CLASSES = "of sums of several classes only Shapley importances of the log loss have a closed form"
TIED = "ties between labels of rows with replaced values are broken by rounding"
LEAST_SPREAD = 1e-4  # of exp(sum) - 1: smaller ones lose digits where 1 is added again
MOST_STEPS = 1 << 15  # of the grid on which functions of sums are interpolated


def respond(link: Link, response: Response, sums: Floats) -> NDArray[Any]:
    """What a model predicts, given its sums, (m, K)."""
    if link == "identity":
        return sums[:, 0] if sums.shape[1] == 1 else sums
    if link == "log":
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(sums[:, 0]))
    if link == "log1p":
        with np.errstate(over="ignore"):
            return np.asarray(np.expm1(sums[:, 0]))
    if link == "sign":
        return np.asarray(sums[:, 0] > 0, np.intp)
    if link == "softmax":
        powers = np.exp(sums - sums.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))
    if link == "odds":
        return sum_losses.logistic(sums[:, :1] * [-1, 1])
    second = sum_losses.logistic(sums[:, 0])
    return second if response == "values" else np.column_stack([1 - second, second])


def mean_losses(
    link: Link, loss: Loss, y: NDArray[Any], u: Floats, v: Floats, base: Floats, ceiling: float | None
) -> MeanLosses:
    """Mean losses of ``h(u_i + v_k)`` over rows i and donors k, (n,) each; base: losses of the unchanged rows."""
    if link == "identity":
        return sum_losses.of_identity(loss, y, u, v)
    if link == "log":
        return sum_losses.of_log(loss, y, u, v)
    if link == "log1p":  # y - (exp(sum) - 1): a loss of their difference is that of y + 1
        return sum_losses.of_log(loss, np.asarray(y, float) + 1, u, v)
    if link == "sign":
        return sum_losses.of_sign(y, u)
    return sum_losses.Interpolated(loss, y, u, base, ceiling)


def mean_response(link: Link, response: Response, u: Floats, v: Floats, weight: Floats) -> Floats:
    """The mean prediction over the rows for each donor's v: (m,), or shares of the classes, (m, 2)."""
    if link == "identity":
        return np.asarray(weight @ u + v)
    if link in ("log", "log1p"):
        return np.asarray(np.exp(v + u.max()) * (weight @ np.exp(u - u.max())) - (link == "log1p"))
    if link == "sign":
        second = 1 - sum_losses.of_sign(np.ones(len(u)), u).over_rows(v, weight)
    else:
        second = sum_losses.mean_probability(u, v, weight)
    return second if response == "values" else np.column_stack([1 - second, second])


@dataclass(frozen=True, eq=False)
class ColumnFunctions:
    """Functions of single columns, of which a model adds multiples: the columns that it reads, made wider."""

    columns: Indices  # (C,): the column that each is a function of
    evaluate: Callable[[Floats], Floats]  # (m, columns) -> (m, C)

    def after(self, unwrapped: UnwrappedModel) -> UnwrappedModel:
        """The model that reads these functions."""
        step = partial(_functions_of_columns, unwrapped.transform, self.evaluate)
        return replace(unwrapped, source=unwrapped.source[self.columns], transform=step)


def _functions_of_columns(transform: Callable[[Any], Any] | None, evaluate: Callable[[Floats], Floats], X: Any) -> Any:
    return evaluate(as_numbers(dense(X if transform is None else transform(X))))


@dataclass(frozen=True, eq=False)
class LinkedLinear(ReadModel):
    """``respond(link, intercept + matrix @ coef.T)``, where matrix is the estimator's input, or functions of it."""

    coef: Floats  # (K, C)
    intercept: Floats  # (K,)
    link: Link
    response: Response
    functions: ColumnFunctions | None = None
    single: bool = False  # whether coefficients are float32
    kind: ClassVar[str] = "link"
    donor_sums: ClassVar[str] = "additions"

    def sums(self, unwrapped: UnwrappedModel, table: Any) -> tuple[Additive, ...]:
        """What each column adds to each sum."""
        if self.functions is not None:
            unwrapped = self.functions.after(unwrapped)
        return Additive.of(self.coef, self.intercept, unwrapped, table)

    @property
    def respond(self) -> Callable[[Floats], NDArray[Any]]:
        """Sums, (m, K), to predictions."""
        return partial(respond, self.link, self.response)

    def engine(self, unwrapped: UnwrappedModel, site: Site) -> ExactEngine:
        """The sums on a table."""
        in_single = self.single and unwrapped.gives_single(site.table)
        sums = self.sums(unwrapped, site.table)
        return LinkedSums(sums, self.link, self.response, self.rounding(), in_single)

    def rounding(self) -> float:
        """The most that rounding moves the sums, of all that is added up, in the model and here.

        Functions of columns are added up for each class by itself, and may be far larger than their differences.
        """
        return 8 * (self.coef.shape[1] + 4) * 2.0**-52 if self.functions is None else 1e-11

    def check_loss(self, loss: Loss | None, response: Response) -> None:
        """Raise `Declined` unless means over all pairs, or Shapley importances, have a closed form."""
        if self.link == "softmax":
            if loss is None or loss == log_loss:
                return
            raise Declined(SEVERAL_CLASSES)
        if loss is not None and len(self.coef) > 1:
            raise Declined(SEVERAL_CLASSES)
        supported = LOSSES[self.link]
        if loss is not None and (loss.custom or loss.name not in supported):
            if self.link == "identity":
                raise Declined(LOSSES_OF_SUMS)
            names = " and ".join(name.replace("_", " ") for name in supported)
            raise Declined(f"of sums inside a {self.link} link the means of {names} are known, not of {loss.title}")

    def slope(self, loss: Loss) -> float | None:
        """The slope of the loss's scale in the sums; None where the link does not lead to that scale."""
        return slope_on_sums(loss, self.respond, len(self.coef))

    def check_parts(self, loss: Loss | None) -> None:
        """Raise `Declined`: means inside a link do not add up over parts."""
        raise Declined(PARTS)


@dataclass(frozen=True, eq=False)
class LinkedSums(ExactEngine):
    """One additive model for each sum, and the link from sums to predictions."""

    sums: tuple[Additive, ...]
    link: Link
    response: Response
    rounding: float = 0.0  # of the sums, relative to `magnitude`
    in_single: bool = False  # whether the model adds up in float32, and the engine is declined
    checked: dict[tuple[int, ...], str] = field(default_factory=dict)  # columns -> why they are declined, or ""
    name: ClassVar[str] = "link"
    inside_link: ClassVar[bool] = True
    sums_losses: ClassVar[bool] = True
    fills_own_donors: ClassVar[bool] = True

    @property
    def own_rounding(self) -> bool:
        """Losses of probabilities may differ by the rounding of 1 - p."""
        return self.response == "probabilities"

    @cached_property
    def magnitude(self) -> float:
        """The largest of what is added up, over all columns."""
        return max(one.magnitude for one in self.sums)

    @property
    def uses(self) -> Floats:
        """By how much what each column adds to one of the sums varies."""
        return np.asarray(np.max([one.uses for one in self.sums], axis=0))

    @property
    def respond(self) -> Callable[[Floats], NDArray[Any]]:
        """Sums, (m, K), to predictions."""
        return partial(respond, self.link, self.response)

    def predict(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Predictions of the given rows."""
        return self.respond(np.column_stack([one.predict(rows) for one in self.sums]))

    def way(self, subject: Subject, loss: Loss | None, *, blocked: bool) -> AnswerWay:
        """Sums over all donors, where interpolation and closed forms reach rounding; cells of a product grid."""
        if len(self.sums) > 1:
            raise Declined(SEVERAL_CLASSES)
        if subject.feature.kind == "pair":
            return "cells"
        columns = subject.feature.columns
        if columns not in self.checked:
            try:
                self._check(columns, loss)
                self.checked[columns] = ""
            except Declined as why:
                self.checked[columns] = str(why)
        if self.checked[columns]:
            raise Declined(self.checked[columns])
        return "sums"

    def _check(self, columns: Sequence[int], loss: Loss | None) -> None:
        v = self.sums[0].added(columns)
        u = self.sums[0].prediction - v
        if not np.isfinite(u).all():
            raise Declined("some of its sums are infinite or missing")
        if self.link == "sign":
            sum_losses.check_ties(-u, v, self.rounding * self.magnitude, TIED)
        elif self.link == "log":
            low, high = float(u.min() + v.min()), float(u.max() + v.max())
            if not -np.log(LARGEST) <= low <= high <= np.log(LARGEST):
                raise Declined(
                    f"predictions of rows with replaced values are below {1 / LARGEST:g} or above {LARGEST:g}"
                )
            sum_losses.check_deltas(loss, float(np.exp(high)))
        elif self.link == "log1p":
            high = float(u.max() + v.max())
            if not (high <= np.log(LARGEST) and np.std(np.expm1(self.sums[0].prediction)) >= LEAST_SPREAD):
                raise Declined(f"predictions exceed {LARGEST:g}, or vary by less than {LEAST_SPREAD:g}")
            sum_losses.check_deltas(loss, float(np.exp(high)))
        else:
            reached = sum_losses.within_reach(u, v)
            if max(float(np.ptp(x)) for x in reached) * STEPS > MOST_STEPS:
                raise Declined(f"its sums range over more than {MOST_STEPS // STEPS:,}, too many steps to interpolate")

    def fill(self, rows: Indices, asks: Sequence[Ask], tick: Tick) -> Answer:
        """Predictions of these rows, unchanged and in all cells of each ask."""
        return fill_cells(self.sums, self.respond, rows, asks, tick)

    def games(self, players: Sequence[Subject]) -> SumGames:
        """Closed forms on the scale of the sums."""
        games = AdditiveGames if self.link == "identity" else SumGames
        return games(self.sums, self.respond, players)
