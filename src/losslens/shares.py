"""Shares of single rows and donors in what each feature earns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from losslens import uncertainty
from losslens.cells import Cells, Means, means
from losslens.meetings import Meeting, PerRow
from losslens.sample import Floats, Indices, Sample


@dataclass(frozen=True, eq=False)
class Shares:
    """What is known of single rows and donors."""

    local: Floats  # (r, p): mean over the donors of each row
    caused: Floats | None  # (n, p): mean over the rows of each donor; None where rows alone have errors
    meeting: Meeting  # who met whom
    cells: Floats | None = None  # (r, m, p): of every pair that met; None where they are too many

    @property
    def leaves_out_own(self) -> bool:
        """Whether no row met itself."""
        return self.meeting.leaves_out_own

    def of(self, j: int | tuple[int, int]) -> Floats:
        """Of each row, one feature's, or the difference of two."""
        return _pick(j, self.local)

    def means(self, j: int | tuple[int, int], sample: Sample, at: Indices) -> Means:
        """Means over the pairs of one feature, or of the difference of two."""
        if self.cells is not None:
            changes = np.ascontiguousarray(_pick(j, self.cells))
            return means(Cells(at, np.broadcast_to(0.0, changes.shape), changes), self.meeting, sample)
        if isinstance(self.meeting, PerRow) and self.meeting.alone:
            return Means(self.of(j), sample.weight[at])
        if self.caused is None or len(at) < sample.n:
            raise ValueError("what each donor did to these rows is not kept")
        apart = 1 - sample.weight if self.leaves_out_own else np.ones(sample.n)
        mass = sample.weight * apart
        return Means(self.of(j), mass, caused=_pick(j, self.caused), lent=mass / mass.sum())


def _pick(j: int | tuple[int, int], shares: Floats) -> Floats:
    return shares[..., j] if isinstance(j, int) else np.asarray(shares[..., j[0]] - shares[..., j[1]])


def mean_of(local: Floats, weight: Floats) -> Floats:
    """The mean over rows, (p,); a row that met nobody who counts says nothing."""
    known = (weight > 0) & ~np.isnan(local).any(axis=1)
    return np.asarray(weight[known] @ local[known] / weight[known].sum())


def levelled(caused: Floats, weight: Floats, sfimp: Floats) -> Floats:
    """Means of donors, moved to average to the rows' mean: with weights, pairs that met weigh as neither does."""
    return np.asarray(caused + (sfimp - mean_of(caused, weight)))


def monte_carlo_error(shares: Shares, sample: Sample, at: Indices) -> Floats:
    """Standard error over fresh draws of donors and orders, (p,); NaN where too few were drawn to tell."""
    p = shares.local.shape[1]
    try:
        variance = [
            uncertainty.monte_carlo_variance(shares.means(j, sample, at), shares.meeting, sample, at) for j in range(p)
        ]
    except ValueError:
        return np.full(p, np.nan)
    return np.asarray(np.sqrt(np.array(variance)))


def rows_only(local: Floats, weight: Floats) -> Floats:
    """Donors are taken as they are: how far each row alone moves the means, (r, p)."""
    weight = weight / weight.sum()
    n = int(np.sum(weight > 0))
    if n < 2:
        raise ValueError("a standard error needs at least 2 rows that count")
    return np.asarray(np.sqrt(n / (n - 1)) * weight[:, None] * (local - weight @ local))
