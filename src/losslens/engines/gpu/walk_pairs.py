"""Pairs of rows and donors of walks, on a device: the means behind their errors, and the weights of the pairs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from losslens.cells.matrix import Averages, CellSums, Means
from losslens.donors.layout import OwnDonors
from losslens.engines.gpu.arrays import SumsByKey, host
from losslens.engines.gpu.own_donors import DeviceRows, row_weights
from losslens.tables.sample import Sample
from losslens.typing import Floats
from losslens.uncertainty.cell_weights import CellWeights, DonorEffects, EffectTotals, connected_pairs, inverse

if TYPE_CHECKING:
    from losslens.engines.gpu.modules import DeviceTable


MOST_STEPS = 500  # of conjugate gradients


class WalkPairs:
    """Cells of all rows and their donors, (n, m, p)."""

    def __init__(self, on_device: DeviceTable, layout: OwnDonors, sample: Sample, cells: Any) -> None:
        self.layout, self.sample, self.cells = layout, sample, cells
        self.donors = on_device.index(np.asarray(layout.donors[:]))
        self.rows = DeviceRows.of(on_device, np.arange(sample.n), sample)

    @cached_property
    def by_donor(self) -> SumsByKey:
        """Sums of numbers, (n, m, p), over the pairs of each donor."""
        return SumsByKey(self.donors, self.sample.n)

    @cached_property
    def weights(self) -> CellWeights:
        """The weights of the pairs."""
        return _PairWeights(self)

    def means(self) -> list[Means]:
        """The means of each player, as `Shares.means` has them."""
        changes, layout, every = self.cells, self.layout, np.arange(self.sample.n)
        if layout.mirrored:
            m = changes.shape[1]
            changes = (changes + changes[self.donors, torch.arange(m, device=changes.device).roll(m // 2)]) / 2
        donor_weight = row_weights(layout, self.rows, self.donors)
        weight = (self.rows.weight[:, None] * donor_weight)[:, :, None]
        weighted = weight * changes
        rows, donors = (donor_weight[:, :, None] * changes).sum(1), self._of_donors(weighted)
        squares = (weighted * changes).sum((0, 1))
        by_player = [host(sums).T.copy() for sums in (rows, donors, squares[None])]
        row_mass, donor_mass = host(donor_weight.sum(1)), host(self._of_donors(weight))[:, 0]
        means = []
        for row, curve, square in zip(*by_player, strict=True):
            averages = Averages(layout, self.sample)
            sums = CellSums(
                row_mass=row_mass, value_mass=donor_mass, pd=None, row=row, curve=curve, square=float(square[0])
            )
            averages.add_sums(every, sums)
            means.append(averages.finish(every))
        return means

    def _of_donors(self, pairs: Any) -> Any:
        """Sums over the pairs of each donor: where these were measured both ways, they are the row's own pairs."""
        return pairs.sum(1) if self.layout.mirrored else self.by_donor(pairs)


class _PairWeights(CellWeights):
    """Products on the device; the vectors of rows and donors are this processor's."""

    def __init__(self, pairs: WalkPairs) -> None:
        self.pairs, weight = pairs, pairs.rows.weight
        product = weight[pairs.donors] * weight[:, None]
        counted = product > 0
        self.cells, self.share = int(counted.sum()), product / product.sum()
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
        return host(self._times(self._sent(donor)[:, None])[:, 0])

    def transposed(self, row: Floats) -> Floats:
        """The transposed matrix times a vector of the rows, (n,)."""
        return host(self._transposed(self._sent(row)[:, None])[:, 0])

    def _times(self, donor: Any) -> Any:
        return (self.share[:, :, None] * donor[self.pairs.donors]).sum(1)

    def _transposed(self, row: Any) -> Any:
        if self.pairs.layout.mirrored:  # a symmetric matrix
            return self._times(row)
        return self.pairs.by_donor(self.share[:, :, None] * row[:, None])

    def effects(self, several: Sequence[EffectTotals]) -> list[DonorEffects]:
        """The donor effects of all means at once, by conjugate gradients, without sending a vector at each step."""
        rows, donors = (
            self._sent(np.stack(part, axis=1))
            for part in ([one.row for one in several], [one.donor for one in several])
        )
        per_row, by_donor = self._sent(inverse(self.by_row))[:, None], self._sent(self.by_donor)[:, None]
        row_mean = per_row * rows
        expected = self._transposed(row_mean)
        rounding = [one.rounding(size) for one, size in zip(several, host(expected.abs().sum(0)), strict=True)]
        left = donors - expected
        residual = left.clone()
        effect, direction, square = torch.zeros_like(residual), residual.clone(), (residual * residual).sum(0)
        enough = torch.maximum(1e-20 * square, self._sent(np.square(rounding)))
        for _ in range(MOST_STEPS):
            going = square > enough
            if not bool(going.any()):
                break
            image = by_donor * direction - self._transposed(per_row * self._times(direction))
            step = torch.where(going, square / (direction * image).sum(0), 0.0)
            effect += step * direction
            residual -= step * image
            before, square = square, torch.where(going, (residual * residual).sum(0), square)
            direction = residual + torch.where(going, square / before, 0.0) * direction
        row, explained = per_row * (rows - self._times(effect)), (row_mean * rows + effect * left).sum(0)
        vectors = (host(part).T.copy() for part in (effect, left, explained, row))
        return [
            DonorEffects(donor, rest, float(square), of_row)
            for donor, rest, square, of_row in zip(*vectors, strict=True)
        ]

    def _sent(self, vector: Floats) -> Any:
        return torch.from_numpy(np.ascontiguousarray(vector)).to(self.share.device)

    @cached_property
    def connected(self) -> int:
        """Components of the graph of rows and donors."""
        donors = np.asarray(self.pairs.layout.donors[:])
        return connected_pairs(donors, lambda some: host(self.share[:, some]) > 0, self.pairs.sample.n)
