"""Telling replaced rows from real ones by a classifier of the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from losslens.results.replaced_rows import Replaced
from losslens.tables.frames import Batch, Edit, Table
from losslens.typing import Floats, Indices


@dataclass(frozen=True, eq=False)
class OwnClassifier:
    """A classifier of the user's own that tells replaced rows from real ones; it sees tables like the user's."""

    table: Table
    columns: tuple[int, ...]
    classifier: Any

    def odds(self, replaced: Replaced, half: Indices) -> tuple[Floats, Floats]:
        """Log odds of being replaced, of the real and of the replaced rows, each from the half that it is not in."""
        donors = replaced.donors
        real, changed = np.zeros(self.table.n), np.zeros(len(donors))
        for side in (0, 1):
            seen, unseen = (np.flatnonzero(half == part) for part in (side, 1 - side))
            learns = np.flatnonzero((half[replaced.rows] == side) & replaced.learns)[: len(seen)]
            judged = half[replaced.rows] != side
            model = _unfitted(self.classifier)
            mixed = self._mixed(np.concatenate([seen, replaced.rows[learns]]), np.concatenate([seen, donors[learns]]))
            model.fit(mixed, np.repeat([0, 1], [len(seen), len(learns)]))
            real[unseen] = self._odds(model, unseen, unseen)
            changed[judged] = self._odds(model, replaced.rows[judged], donors[judged])
        return real, changed

    def _mixed(self, rows: Indices, donors: Indices) -> Any:
        """Rows with the feature's values of donors."""
        edits = [Edit(0, len(rows), j, self.table.column(j), donors) for j in self.columns]
        return Batch(self.table).fill(rows, edits)

    def _odds(self, model: Any, rows: Indices, donors: Indices) -> Floats:
        chance = np.asarray(model.predict_proba(self._mixed(rows, donors)), float)[:, 1]
        chance = np.clip(chance, 1e-6, 1 - 1e-6)
        return np.asarray(np.log(chance / (1 - chance)))


def _unfitted(classifier: Any) -> Any:
    try:
        from sklearn.base import clone
    except ImportError:  # any object with fit and predict_proba will do
        from copy import deepcopy

        return deepcopy(classifier)
    return clone(classifier, safe=False)
