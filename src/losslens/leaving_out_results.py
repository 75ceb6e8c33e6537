"""Features left out as a result: how much worse a learner does without each of them, row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from losslens.impact_results import RowChanges
from losslens.inference import Estimates
from losslens.results import Floats, Indices, positions, split
from losslens.uncertainty import Target, check_target

How = Literal["drop", "constant"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LeftOut(RowChanges):
    """How much worse fits of a learner do without a feature, on rows that they have not seen.

    Standard errors, intervals and tests are about *these fits on new rows*: the models of all folds as they are, not
    what other training rows would have made of them. ``interval(target="learner")`` is about that.
    """

    loss: Floats  # (n,): of each row, with all features; NaN where no fold tested it
    per_fold: Floats  # (M, p): the mean of each fold; no rows where some rows were chosen
    correction: float  # Nadeau and Bengio's 1/M + n_test/n_train: folds share training rows, so they agree too well
    how: How

    def interval(self, level: float = 0.95, target: Target = "model") -> tuple[Floats, Floats]:
        """Low and high ends for each feature.

        Parameters
        ----------
        level
            The probability that such an interval holds what it is about.
        target
            ``"model"``: these fits on new rows. ``"learner"``: what refits on new data of this size give on average,
            from the spread of the folds.
        """
        if target == "learner":
            return self._learner.intervals(level)
        if check_target(target) == "sample":
            raise ValueError("nothing is drawn beside the folds: use target='model' or target='learner'")
        return self.estimates.intervals(level)

    @property
    def _learner(self) -> Estimates:
        folds = len(self.per_fold)
        if folds < 2:
            raise ValueError("what refits give on some rows is not kept; ask the result of all rows")
        mean = self.per_fold.mean(axis=0)
        apart = self.per_fold - mean
        return Estimates(self.features, mean, self.correction / (folds - 1) * apart.T @ apart, folds - 1)

    @property
    def what(self) -> str:
        """What the numbers are, as an axis says it."""
        return f"increase in {self.title} without the feature, refitted"

    @property
    def untouched(self) -> str:
        """What `error` is with."""
        return "with all features"

    def given(self, rows: Any) -> LeftOut:
        """These rows alone; a boolean mask or row positions. Groups average back to the whole with their shares."""
        chosen = positions(rows, len(self.weight))
        known = chosen[(self.weight[chosen] > 0) & np.isfinite(self.loss[chosen])]
        if len(known) == 0:
            raise ValueError("none of the chosen rows has a weight and was tested by a fold")
        weight = np.where(np.isin(chosen, known), self.weight[chosen], 0.0)
        weight = weight / weight.sum()
        error = float(weight[weight > 0] @ self.loss[chosen][weight > 0])
        block: Indices | None = None if self.block is None else self.block[chosen]
        return replace(
            self, local=self.local[chosen], loss=self.loss[chosen], weight=weight, error=error, block=block,
            per_fold=np.empty((0, len(self.features))),
        )  # fmt: skip

    def by(self, groups: Any) -> dict[Any, LeftOut]:
        """``{label: given(groups == label)}`` for each label."""
        return {label: self.given(mask) for label, mask in split(groups, len(self.weight)).items()}

    def __repr__(self) -> str:
        if not self._has_errors:
            return super().__repr__()
        return f"{super().__repr__()}\n  (± is the standard error for these fits on new rows)"
