"""Scores of tables of true and predicted classes: F1, precision, recall, Jaccard, Matthews' correlation, kappa.

As scikit-learn's metrics of the same names, for many tables at once: those without each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.typing import Floats

OF_ONE_CLASS = {  # weights of true positives, false positives and false negatives: above the line, and below it
    "precision_score": ((1, 0, 0), (1, 1, 0)),
    "recall_score": ((1, 0, 0), (1, 0, 1)),
    "jaccard_score": ((1, 0, 0), (1, 1, 1)),
}
OF_ALL = ("accuracy_score", "balanced_accuracy_score", "matthews_corrcoef", "cohen_kappa_score")
MOST_CLASSES = 20  # a table for each row has the square of it


@dataclass(frozen=True)
class TableScore:
    """A function of a table of weights, (..., K, K): true classes by predicted ones."""

    function: str  # scikit-learn's name
    average: str = "binary"
    positive: int = 1  # of two classes
    beta: float = 1.0

    @classmethod
    def of(cls, function: Any, options: dict[str, Any], classes: NDArray[Any]) -> Self | None:
        """The score that a metric of scikit-learn with these options is; None for others."""
        name, options = str(getattr(function, "__name__", "")), dict(options)
        module = str(getattr(function, "__module__", ""))
        if module != "sklearn.metrics._classification" or len(classes) > MOST_CLASSES:
            return None
        average, positive = options.pop("average", "binary"), options.pop("pos_label", 1)
        beta = options.pop("beta", 1.0) if name == "fbeta_score" else 1.0
        if options or (name not in OF_ALL and name not in OF_ONE_CLASS and name not in ("f1_score", "fbeta_score")):
            return None
        place = np.flatnonzero(classes == positive)
        if name in OF_ALL:
            return cls(name)
        if average == "binary":
            return cls(name, average, int(place[0]), beta) if len(classes) == 2 and len(place) == 1 else None
        return cls(name, average, beta=beta) if average in ("macro", "micro", "weighted") else None

    def __call__(self, table: Floats) -> Floats:
        """The score of each table.

        >>> float(TableScore("f1_score")(np.array([[3.0, 1.0], [2.0, 4.0]])))
        0.7272727272727273
        """
        right, true, predicted = np.einsum("...kk->...k", table), table.sum(axis=-1), table.sum(axis=-2)
        total = true.sum(axis=-1)
        if self.function == "accuracy_score":
            return np.asarray(right.sum(axis=-1) / total)
        if self.function == "balanced_accuracy_score":
            return np.asarray(_ratio(right, true).sum(axis=-1) / (true > 0).sum(axis=-1))
        by_chance = (true * predicted).sum(axis=-1)
        if self.function == "matthews_corrcoef":
            spread = [total**2 - (counts_of**2).sum(axis=-1) for counts_of in (true, predicted)]
            return _ratio(right.sum(axis=-1) * total - by_chance, np.sqrt(np.maximum(spread[0] * spread[1], 0.0)))
        if self.function == "cohen_kappa_score":
            return np.asarray(1 - (total - right.sum(axis=-1)) * total / (total**2 - by_chance))
        counts = np.stack([right, predicted - right, true - right])
        if self.average == "micro":
            counts = counts.sum(axis=-1, keepdims=True)
        above, below = OF_ONE_CLASS.get(
            self.function, ((1 + self.beta**2, 0, 0), (1 + self.beta**2, 1, self.beta**2))
        )  # fmt: skip
        each = _ratio(np.tensordot(above, counts, 1), np.tensordot(below, counts, 1))
        if self.average == "micro":
            return np.asarray(each[..., 0])
        if self.average == "binary":
            return np.asarray(each[..., self.positive])
        by = true if self.average == "weighted" else ((true > 0) | (predicted > 0)).astype(float)
        return np.asarray((each * by).sum(axis=-1) / by.sum(axis=-1))


def _ratio(above: Floats, below: Floats) -> Floats:
    """0 where nothing is below the line, as in scikit-learn."""
    return np.divide(above, below, out=np.zeros(np.shape(above)), where=below > 0)
