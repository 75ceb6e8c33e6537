"""Importances for each output of a model, from the same predictions as the importances for their mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from losslens.losses import OutputLoss
from losslens.results.base import Tabular
from losslens.results.importance import NUMBERS, number_of
from losslens.results.table import FEATURE, RANKED, ResultTable
from losslens.typing import Floats

if TYPE_CHECKING:
    from losslens.results.importances import Importances


@dataclass(frozen=True, eq=False, repr=False)
class Outputs(Mapping["str | float", "Importances"], Tabular):
    """A mapping from outputs, points in time or quantiles to the importances for each.

    `to_frame()` has one row an output and feature.
    """

    of: dict[str | float, Importances]

    @property
    def backend(self) -> str:  # type: ignore[override]
        """The data frame library of the input data."""
        return str(self._first._first.backend)

    @property
    def features(self) -> tuple[str, ...]:
        """The features, in the requested order."""
        return tuple(self._first)

    @property
    def importance(self) -> Floats:
        """Importance of each feature for each output, (p, K); NaN where a feature has curves only."""
        return np.array([[number_of(one[name], "importance") for one in self.of.values()] for name in self.features])

    @property
    def error(self) -> Floats:
        """The model's mean loss in each output with nothing replaced, (K,)."""
        return np.array([one.error for one in self.of.values()])

    def __getitem__(self, output: Any) -> Importances:
        if output not in self.of:
            raise KeyError(f"{output!r} is no output; the outputs are {', '.join(map(repr, self.of))}")
        return self.of[output]

    def __iter__(self) -> Iterator[str | float]:
        return iter(self.of)

    def __len__(self) -> int:
        return len(self.of)

    @property
    def _first(self) -> Importances:
        return next(iter(self.of.values()))

    def _table(self) -> ResultTable:
        pairs = [(output, feature) for output, one in self.of.items() for feature in one._ranked]
        numbers = {name: partial(_numbers, [feature for _, feature in pairs], name) for name in NUMBERS}
        columns = {
            "output": [output for output, _ in pairs],
            "feature": [feature.name for _, feature in pairs],
            **{name: numbers[name] for name in ("importance", "std_error", "low", "high", "ratio")},
        }
        loss = self._first.loss
        what = loss.of.of_each if isinstance(loss, OutputLoss) else loss.title
        title = f"Importances for {len(self)} outputs: increase in {what} of each"
        return ResultTable(
            title, columns, ("{output}", *RANKED), (("output", "{output}"), FEATURE, ("importance", RANKED[1])),
            self._first.notes[:1], like="importance", formats={"output": str}, most_in_text=40,
        )  # fmt: skip


def _numbers(features: list[Any], name: str) -> list[float]:
    return [number_of(feature, name) for feature in features]
