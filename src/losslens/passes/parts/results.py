"""How far rows move an importance, from sums: no row is looked at twice.

With R_i the mean change of row i over the donors and C_v the mean change that a donor of class v causes, row i moves
the importance by ``u_i = w_i (R_i + D_v(i)), D = C - 2 PFI``. C is known only once all rows have been seen. So sums of
powers of w and R are kept, over all rows and by class, and ``sum of u^2 = sum w^2 R^2 + 2 sum_v D_v (sum of w^2 R in v)
+ sum_v D_v^2 (sum of w^2 in v)``. Where R is the mean over a few donors, its own noise is taken off its square.


From sums over all rows to results: numbers are those of the whole, single rows those that were kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Cells, Means
from losslens.donors.designs import All, Design
from losslens.donors.layout import CommonGrid
from losslens.passes.parts.counting import CountedGrid
from losslens.passes.parts.kept_rows import KeptRows
from losslens.passes.parts.stream import Stream
from losslens.results.effects import Effects, FeatureEffect, of_class
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.streamed import Whole, scaled
from losslens.tables.sample import Sample
from losslens.typing import Floats


@dataclass(frozen=True, eq=False)
class RowSums:
    """Of one feature; those of several parts are added."""

    rows: Floats  # (5,): sums of w R, w^2 R, w^2 R^2, w^2 R l, w^3 R^3
    classes: Floats  # (6, g): sums of w^2, w^2 R, w^2 l, w^3, w^3 R, w^3 R^2

    @classmethod
    def of(cls, w: Floats, R: Floats, loss: Floats, at: NDArray[Any], g: int, noise: Floats | float = 0.0) -> RowSums:
        """Rows with weights w, importances R of variance `noise`, losses, and classes `at` of their own values."""
        w2, w3 = w**2, w**3
        rows = np.array([w @ R, w2 @ R, w2 @ (R**2 - noise), w2 @ (R * loss), w3 @ R**3])
        each = (w2, w2 * R, w2 * loss, w3, w3 * R, w3 * R**2)
        return cls(rows, np.stack([np.bincount(at, weight, g) for weight in each]))

    def __add__(self, other: RowSums) -> RowSums:
        return RowSums(self.rows + other.rows, self.classes + other.classes)

    def moments(self, pfi: float, caused: Floats, error: float) -> tuple[float, float, float]:
        """Sums over rows of u^2, of u^3, and of u times the row's pull on the error, w (l - error)."""
        D = caused - 2 * pfi
        w2, w2r, w2l, w3, w3r, w3r2 = self.classes
        square = self.rows[2] + 2 * D @ w2r + D**2 @ w2
        cube = self.rows[4] + 3 * D @ w3r2 + 3 * D**2 @ w3r + D**3 @ w3
        cross = self.rows[3] - error * self.rows[1] + D @ (w2l - error * w2)
        return max(float(square), 0.0), float(cube), float(cross)


@dataclass(frozen=True, eq=False)
class Found:
    """What is known of one column."""

    grid: CountedGrid
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
            effect = FeatureEffect(**self._shared(feature.name, feature.columns[0], sample), target=label)
            found[feature.name] = effect if k is None else of_class(effect, k)
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
            "meeting": CommonGrid(self.kept.place[:, found.k], every, len(found.grid)),
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
