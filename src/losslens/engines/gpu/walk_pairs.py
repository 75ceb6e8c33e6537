"""Pairs of rows and donors of walks, on a device: the means behind their errors, and the weights of the pairs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from losslens.cells.matrix import Averages, Means
from losslens.donors.layout import OwnDonors
from losslens.engines.gpu.arrays import SumsByKey, host
from losslens.engines.gpu.own_donors import DeviceCells, DeviceRows
from losslens.tables.sample import Sample
from losslens.typing import Floats
from losslens.uncertainty.cell_weights import CellWeights, connected_pairs

if TYPE_CHECKING:
    from losslens.engines.gpu.modules import DeviceTable


MOST_STEPS = 500  # of conjugate gradients


class WalkPairs:
    """Cells of all rows and their donors, (n, m, p)."""

    def __init__(self, on_device: DeviceTable, layout: OwnDonors, sample: Sample, cells: Any) -> None:
        self.layout, self.sample, self.cells = layout, sample, cells
        self.donors = on_device.index(np.asarray(layout.donors[:]))
        self.rows = DeviceRows.of(on_device, np.arange(sample.n), sample, None)

    @cached_property
    def by_donor(self) -> SumsByKey:
        """Sums over the pairs of each donor."""
        return SumsByKey(self.donors, self.sample.n)

    @cached_property
    def weights(self) -> CellWeights:
        """The weights of the pairs."""
        return _PairWeights(self)

    def means(self, j: int) -> Means:
        """As `Shares.means`, of one player."""
        changes, every = self.cells[:, :, j], np.arange(self.sample.n)
        if self.layout.mirrored:
            column = torch.arange(changes.shape[1], device=changes.device)
            changes = (changes + changes[self.donors, column.roll(changes.shape[1] // 2)]) / 2
        averages = Averages(self.layout, self.sample)
        found = DeviceCells(self.donors, changes.new_zeros(()).expand(changes.shape), changes)
        averages.add_sums(every, found.sums(self.layout, self.rows, None, self.by_donor))
        return averages.finish(every)


class _PairWeights(CellWeights):
    """Products on the device; the vectors of rows and donors are this processor's."""

    def __init__(self, pairs: WalkPairs) -> None:
        self.pairs, weight = pairs, pairs.rows.weight
        lent = weight[pairs.donors] * weight[:, None]
        counted = lent > 0
        self.cells, self.share = int(counted.sum()), lent / lent.sum()
        self._check(self.cells, int(counted.any(1).sum()))
        self.squares = float((self.share * self.share).sum())
        if pairs.layout.mirrored:  # all donors are rows
            self.cells, self.squares, self.swapped = self.cells - self.cells // 2, 2 * self.squares, 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and donors."""
        return self.pairs.sample.n, self.pairs.sample.n

    def times(self, donor: Floats) -> Floats:
        """The matrix times a vector of the donors, (n,)."""
        return host(self._times(self._sent(donor)))

    def transposed(self, row: Floats) -> Floats:
        """The transposed matrix times a vector of the rows, (n,)."""
        return host(self._transposed(self._sent(row)))

    def _times(self, donor: Any) -> Any:
        return (self.share * donor[self.pairs.donors]).sum(1)

    def _transposed(self, row: Any) -> Any:
        return self.pairs.by_donor(self.share * row[:, None])

    def _solve(self, total: Floats, per_row: Floats, rounding: float) -> Floats:
        """By conjugate gradients, as on the CPU, without sending a vector at each step."""
        residual, per_row, by_donor = (self._sent(vector) for vector in (total, per_row, self.by_donor))
        effect, direction, square = torch.zeros_like(residual), residual.clone(), float(residual @ residual)
        enough = max(1e-10 * square**0.5, rounding)
        for _ in range(MOST_STEPS):
            if square**0.5 <= enough:
                break
            image = by_donor * direction - self._transposed(per_row * self._times(direction))
            step = square / (direction @ image)
            effect += step * direction
            residual -= step * image
            before, square = square, float(residual @ residual)
            direction = residual + square / before * direction
        return host(effect)

    def _sent(self, vector: Floats) -> Any:
        return torch.from_numpy(np.ascontiguousarray(vector)).to(self.share.device)

    @cached_property
    def connected(self) -> int:
        """Components of the graph of rows and donors."""
        return connected_pairs(np.asarray(self.pairs.layout.donors[:]), host(self.share) > 0, self.pairs.sample.n)
