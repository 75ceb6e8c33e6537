"""Monte-Carlo errors of the shares of single rows, from the walks of each row."""

from __future__ import annotations

import numpy as np

from losslens.typing import Floats, Indices

FEWEST_ROWS, FEWEST_WALKS = 20, 3  # that slopes, and a variance, are computed from
ROUNDING = 1e-8  # of the shares, up to which they are those of the walks
AT_ONCE = 1 << 20  # numbers of a temporary array


def row_errors(
    cells: Floats, sweep: Indices, donors: Indices, mass: Floats, local: Floats, gains: Floats, weight: Floats
) -> Floats:
    """Standard errors of the rows' means `local` over new draws of donors and orders, (n, p); NaN where unknown.

    cells: (n, m, p), what each walk of each row says; sweep: (m,), its number; mass: (n, m), of its donor; gains: (n,),
    how much all players reduce a row's loss; weight: (n,), of the rows.

    Cells include the gains of row and donor; the shares of a row sum to its own. Each player bears a part of the
    difference d, and of what the donor gains as a row, x: ``local = mean(cells - a x - b d) + c``, with slopes a and b
    for the sweeps of even and of odd number. They are those for which that holds: five unknowns of a player, and an
    equation for each row. Walks of a row from the same donor are summed first: they are alike.
    """
    n, m, p = cells.shape
    unknown, total = np.full((n, p), np.nan), mass.sum(axis=1)
    counted = (total > 0) & ~np.isnan(local).any(axis=1)
    if counted.sum() < FEWEST_ROWS or m < FEWEST_WALKS:
        return unknown
    share = np.divide(mass, total[:, None], out=np.zeros(mass.shape), where=total[:, None] > 0)
    donor_gain = np.nan_to_num(gains - np.nansum(weight * gains) / weight.sum())[donors]
    excess, even = cells.sum(axis=2) - np.nan_to_num(gains)[:, None], sweep % 2 == 0
    parts = [np.where(fold, part, 0.0) for part in (donor_gain, excess) for fold in (even, ~even)]
    design = np.stack([(share * part).sum(axis=1) for part in parts] + [np.ones(n)], axis=1)[counted]
    moved = (np.einsum("im,imp->ip", share, cells) - local)[counted]
    slopes = np.linalg.lstsq(design, moved, rcond=1e-10)[0]
    if np.abs(design @ slopes - moved).max() > ROUNDING * np.abs(local[counted]).max():
        return unknown  # these shares are no such means
    errors, donor_count = unknown, np.zeros(n, np.intp)
    step = max(1, AT_ONCE // (m * p))
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        own = cells[rows] - sum(part[rows, :, None] * slope for part, slope in zip(parts, slopes[:-1], strict=True))
        own -= np.einsum("im,imp->ip", share[rows], own)[:, None]
        own *= share[rows, :, None]
        pairs, place = np.unique(np.arange(start, rows.stop)[:, None] * n + donors[rows], return_inverse=True)
        weighed = np.bincount(place.ravel(), mass[rows].ravel()) > 0
        donor_count += np.bincount(pairs[weighed] // n, minlength=n)
        for j in range(p):
            alike = np.bincount(place.ravel(), own[:, :, j].ravel())
            errors[rows, j] = np.sqrt(np.bincount(pairs // n - start, np.square(alike), rows.stop - start))
    errors *= np.sqrt(donor_count / np.maximum(donor_count - 1, 1))[:, None]
    return np.where((counted & (donor_count >= FEWEST_WALKS))[:, None], errors, np.nan)
