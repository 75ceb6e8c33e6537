"""The user's classifier of replaced against real rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from losslens.results.replaced_rows import Replaced
from losslens.tables.frames import Batch, Edit, Table
from losslens.typing import Floats, Indices


@dataclass(frozen=True, eq=False)
class OwnClassifier:
    """The user's classifier of replaced against real rows; it is fitted to tables of the user's kind."""

    table: Table
    columns: tuple[int, ...]
    classifier: Any

    def odds(self, replaced: Replaced, half: Indices) -> tuple[Floats, Floats]:
        """Log odds of being replaced, for real and for replaced rows; cross-fitted on the two halves."""
        donors = replaced.donors
        real, changed = np.zeros(self.table.n), np.zeros(len(donors))
        for side in (0, 1):
            train, test = (np.flatnonzero(half == part) for part in (side, 1 - side))
            pairs = np.flatnonzero((half[replaced.rows] == side) & replaced.learns)[: len(train)]
            test_pairs = half[replaced.rows] != side
            model = _unfitted(self.classifier)
            mixed = self._mixed(np.concatenate([train, replaced.rows[pairs]]), np.concatenate([train, donors[pairs]]))
            model.fit(mixed, np.repeat([0, 1], [len(train), len(pairs)]))
            real[test] = self._odds(model, test, test)
            changed[test_pairs] = self._odds(model, replaced.rows[test_pairs], donors[test_pairs])
        return real, changed

    def _mixed(self, rows: Indices, donors: Indices) -> Any:
        """Rows with the donors' values of the feature."""
        edits = [Edit(0, len(rows), j, self.table.column(j), donors) for j in self.columns]
        return Batch(self.table).fill(rows, edits)

    def _odds(self, model: Any, rows: Indices, donors: Indices) -> Floats:
        chance = np.asarray(model.predict_proba(self._mixed(rows, donors)), float)[:, 1]
        chance = np.clip(chance, 1e-6, 1 - 1e-6)
        return np.asarray(np.log(chance / (1 - chance)))


def _unfitted(classifier: Any) -> Any:
    try:
        from sklearn.base import clone
    except ImportError:  # any object with fit and predict_proba is accepted
        from copy import deepcopy

        return deepcopy(classifier)
    return clone(classifier, safe=False)
