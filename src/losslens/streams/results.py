"""From sums over all rows to results: numbers are those of the whole, single rows those that were kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells import Cells, Means
from losslens.curves import Effects, FeatureEffect
from losslens.donors import All, Design
from losslens.importance import FeatureImportance
from losslens.importances import Importances
from losslens.late import later
from losslens.meetings import Common
from losslens.sample import Sample
from losslens.streams.counting import Grid
from losslens.streams.explaining import Stream
from losslens.streams.kept import KeptRows
from losslens.streams.parts import Floats
from losslens.whole import Whole, scaled


def _of_class(cells: Cells, k: int) -> NDArray[Any]:
    return np.asarray(cells.predictions[..., k])


@dataclass(frozen=True, eq=False)
class Found:
    """What is known of one column."""

    grid: Grid
    k: int  # which of the asked columns it is
    pi: Floats | None  # (g,)
    pd: NDArray[Any]  # (g,) or (g, K)
    caused: Floats  # (r,): mean change that the kept rows cause as donors
    cells: Cells
    pfi: float = float("nan")
    square: float = float("nan")  # sums over rows of u^2, u^3, and u times the pull on the error; u = w (R + C - 2 PFI)
    cube: float = 0.0
    cross: float = float("nan")
    clipped: float = 0.0
    noise: float = 0.0
    design: Design = field(default_factory=All)
    n_predictions: int = 0


@dataclass(frozen=True, eq=False)
class Everything:
    """What is known of the whole, and of all columns."""

    stream: Stream
    engine: str
    kept: KeptRows
    classes: NDArray[Any] | None
    units: int
    squares: float  # sum of the squared weights
    columns: dict[int, Found]
    n_predictions: int
    error: float = float("nan")
    error_square: float = float("nan")  # sum of (w (l - error))^2

    def importances(self) -> Importances:
        """The result of `feature_importance`."""
        loss = self.stream.loss
        assert loss is not None
        sample, found = self.kept.sample(self.classes), {}
        for feature in self.stream.features:
            shared = self._shared(feature.name, feature.columns[0], sample)
            found[feature.name] = FeatureImportance(**shared, loss=loss).trimmed()
        return Importances(found, self.n_predictions)

    def effects(self, k: int | None, label: str | None) -> Effects:
        """The result of `feature_effect`, of the k-th class."""
        sample, found = self.kept.sample(self.classes), {}
        for feature in self.stream.features:
            shared = self._shared(feature.name, feature.columns[0], sample)
            if k is not None:
                cells, means = shared["cells"], shared["means"]
                shared["sample"] = replace(sample, prediction=sample.prediction[..., k])
                shared["cells"] = Cells(cells.rows, later(partial(_of_class, cells, k)))
                shared["means"] = replace(means, pd=means.pd[..., k])
            found[feature.name] = FeatureEffect(**shared, target=label)
        return Effects(found, self.n_predictions)

    def _shared(self, name: str, j: int, sample: Sample) -> dict[str, Any]:
        found, stream = self.columns[j], self.stream
        lent = found.grid.mass[:, 0] / found.grid.mass[:, 0].sum()
        judged = stream.loss is not None
        means = Means(
            local=self.kept.local[:, found.k] if judged else None, mass=sample.weight, pi=found.pi, weights=lent,
            pd=found.pd, caused=found.caused if judged else None, lent=sample.weight if judged else None,
            clipped=found.clipped, total=found.pfi if judged else None,
        )  # fmt: skip
        every = np.arange(len(self.kept.at))
        return {
            "name": name,
            "columns": (stream.head.names[j],),
            "values": (found.grid.values,),
            "ordered": found.grid.ordered,
            "design": found.design,
            "engine": self.engine,
            "exact": isinstance(found.design, All),
            "n_predictions": found.n_predictions,
            "meeting": Common(self.kept.place[:, found.k], every, len(found.grid)),
            "sample": sample,
            "at": every,
            "means": means,
            "cells": found.cells,
            "backend": "pandas" if stream.head.backend == "numpy" else stream.head.backend,
            "declined": stream.declined if self.engine == "blackbox" else "",
            "whole": self._whole(found) if judged else Whole(stream.n, self.units, self.kept.at, np.zeros(0)),
        }

    def _whole(self, found: Found) -> Whole:
        units = self.units
        up = units / (units - 1)
        # The jackknife's factors, as in `uncertainty`.
        factor = up**2 * units * (units - 1) / max(units - 2, 1) ** 2
        base = units / (units - 1)
        variance = factor * found.square + found.noise
        moved = self.kept.weight * (self.kept.local[:, found.k] + found.caused - 2 * found.pfi)
        return Whole(
            n=self.stream.n, units=units, rows=self.kept.at, moved=scaled(moved, variance), error=self.error,
            up=1 / (1 - self.squares), variance=variance, cubes=factor**1.5 * found.cube,
            error_variance=base * self.error_square, covariance=float(np.sqrt(factor * base)) * found.cross,
            noise=found.noise,
        )  # fmt: skip
