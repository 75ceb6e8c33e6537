"""Sums inside a link: ``f = h(b + sum over columns of g_j(x_j))``, with one sum, or one for each class.

Logistic regression and generalised linear models. Where a loss is linear in y on the scale of the sums (`loss_scales`),
its Shapley importances have a closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Subject
from losslens.engines.additive import Additive, AdditiveGames, differences
from losslens.engines.base import AnswerWay, Declined, ExactEngine, PlayerGames, ReadModel, Site, SumEffects
from losslens.engines.loss_scales import slope_on_sums, weights_of_sums
from losslens.engines.readers.unwrapped import UnwrappedModel
from losslens.losses import Loss, Response
from losslens.progress import Tick
from losslens.typing import Floats

Link = Callable[[Floats], NDArray[Any]]  # sums, (m, K) -> the response, (m,) or (m, classes)
CURVED = "inside a link only Shapley importances of the log loss or the Poisson deviance have a closed form"


@dataclass(frozen=True, eq=False)
class LinkedLinear(ReadModel):
    """``link(intercept + matrix @ coef.T)``, where matrix is the estimator's input."""

    coef: Floats  # (K, C)
    intercept: Floats  # (K,)
    link: Link
    kind: ClassVar[str] = "additive"
    donor_sums: ClassVar[str] = "additions"

    def engine(self, unwrapped: UnwrappedModel, site: Site) -> LinkedSums:
        """What each column adds to each sum."""
        pairs = zip(self.coef, self.intercept.tolist(), strict=True)
        return LinkedSums(tuple(Additive.of(coef, b, unwrapped, site.table) for coef, b in pairs), self.link)

    def check_loss(self, loss: Loss | None, response: Response) -> None:
        """The losses that are linear in y on the scale of the sums."""
        if loss is None or self.slope(loss) is None:
            raise Declined(CURVED)

    def slope(self, loss: Loss) -> float | None:
        """Where the link leads to the loss's scale."""
        return slope_on_sums(loss, self.link, len(self.coef))

    def check_parts(self, loss: Loss | None) -> None:
        """Always declined."""
        raise Declined(CURVED)


@dataclass(frozen=True, eq=False)
class LinkedSums(ExactEngine):
    """One additive model for each sum, and the link from their sums to predictions."""

    sums: tuple[Additive, ...]
    link: Link
    name: ClassVar[str] = "additive"

    def predict(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Predictions of the given rows."""
        return self.link(np.column_stack([one.predict(rows) for one in self.sums]))

    def way(self, subject: Subject, loss: Loss | None, *, blocked: bool) -> AnswerWay:
        """None for a single feature."""
        raise Declined(CURVED)

    def seconds(self, subject: Subject, way: AnswerWay) -> float:
        """Never asked, as there is no way."""
        return float("inf")

    def games(self, players: Sequence[Subject]) -> LinkedGames:
        """Closed forms on the scale of the sums."""
        return LinkedGames(self, players)


@dataclass(frozen=True, eq=False)
class LinkedGames(PlayerGames):
    """Games in which each player adds its contributions to the sums."""

    engine: LinkedSums
    players: Sequence[Subject]

    def ways(self, loss: Loss, *, averaged: bool) -> dict[str, float]:
        """The covariance, see `losslens.shapley.covariance`."""
        return {} if averaged or self._slope(loss) is None else {"covariance": 0.0}

    def _slope(self, loss: Loss) -> float | None:
        return slope_on_sums(loss, self.engine.link, len(self.engine.sums))

    def sum_weights(self, loss: Loss, y: NDArray[Any]) -> Floats | None:
        """b of each sum, (n, K)."""
        slope = self._slope(loss)
        return None if slope is None else weights_of_sums(loss, y, slope, len(self.engine.sums))

    def range_of_sums(self) -> tuple[Floats, Floats]:
        """The lowest and the highest sums that rows with replaced values may have, (K,) each."""
        ends = np.empty((2, len(self.engine.sums)))
        for k, one in enumerate(self.engine.sums):
            added = one.parts.min(axis=0) * one.scale, one.parts.max(axis=0) * one.scale
            ends[:, k] = one.intercept + np.sum(np.minimum(*added)), one.intercept + np.sum(np.maximum(*added))
        return ends[0], ends[1]

    def effects_on_sums(self, weights: Floats, n_jobs: int | None, tick: Tick) -> SumEffects:
        """The differences between what each player adds to a row and to the donors, for weights (D, n)."""
        added = [AdditiveGames(one, self.players).contributions(weights[0]) for one in self.engine.sums]
        return differences(np.stack(added, axis=2), weights)
