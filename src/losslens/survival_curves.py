"""Survival curves of fitted models at the times of a grid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from losslens.typing import Floats

CELLS = 1 << 22  # numbers of curves at a time: a forest gives them at all times of its training data


@dataclass(frozen=True, eq=False)
class SurvivalCurves:
    """S(t | x) of a fitted survival model at these times, as a function of a table.

    The values are those of the model's own step functions, which are right-continuous; before its first time a step
    function of scikit-survival has the value of that time, and after its last time it has none.
    """

    model: Any
    times: Floats

    def __call__(self, table: Any) -> Floats:
        """The curves, (n, len(times))."""
        model = getattr(self.model, "best_estimator_", self.model)  # of a search
        if (own := _own_times(model)) is None:
            return np.array([function(self.times) for function in model.predict_survival_function(table)])
        if self.times[-1] > own[-1]:
            raise ValueError(
                f"{type(model).__name__} knows survival up to time {own[-1]:g}, the last of its training data, but "
                f"times= goes on to {self.times[-1]:g}; give a shorter grid"
            )
        column = np.maximum(np.searchsorted(own, self.times, side="right") - 1, 0)
        if (baseline := _baseline(_last(model))) is not None:
            return np.asarray(np.power(baseline[column], np.exp(model.predict(table))[:, None]))
        return np.concatenate(
            [
                np.asarray(model.predict_survival_function(part, return_array=True))[:, column]
                for part in _parts(table, max(1, CELLS // len(own)))
            ]
        )


def _parts(table: Any, rows: int) -> Iterator[Any]:
    """The table, so many rows at a time."""
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    for start in range(0, len(frame), rows):
        part = frame if len(frame) <= rows else frame[start : start + rows]
        yield nw.to_native(part, pass_through=True)


def _last(model: Any) -> Any:
    """The last step of a pipeline, or the model itself."""
    return model.steps[-1][1] if hasattr(model, "steps") else model


def _own_times(model: Any) -> Floats | None:
    """The times at which a model's curves step, if it can give the curves as one array."""
    for name in ("unique_times_", "event_times_"):  # the second until scikit-survival 0.22
        if (times := getattr(_last(model), name, None)) is not None:
            return np.asarray(times, dtype=np.float64)
    return None


def _baseline(model: Any) -> Floats | None:
    """S_0 at the model's own times, where scikit-survival computes S_0(t)^exp(predict), a row at a time."""
    if not type(model).__module__.startswith("sksurv."):
        return None
    survival = getattr(getattr(model, "_baseline_model", None), "baseline_survival_", None)
    return None if survival is None else np.asarray(survival.y)
