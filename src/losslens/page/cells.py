"""The cells of one feature, small enough for a page: whole, or in a low-rank form whose error was measured."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.blas import one_thread
from losslens.donors.layout import CommonGrid, OwnDonors
from losslens.results.importance import FeatureImportance
from losslens.tables.columns import is_missing
from losslens.typing import Floats, Indices

MOST_BINS = 128  # of donors, where cells are not whole
RANK = 8
STEPS = 127  # of a byte, either way
COLUMNS = 6  # along which the error of the low-rank form is measured
SHARES = (0.025, 0.1, 0.25, 0.5)  # of the rows, in a group that it is measured on
FEWEST = 5  # rows of such a group
SAFETY = 1.5  # other groups may be off by more than those that were looked at


@dataclass(frozen=True, eq=False)
class PackedGrid:
    """The changes of loss of all rows at common values, and where the rows' own values lie."""

    values: NDArray[Any]  # (g,): the first of each bin
    last: NDArray[Any]  # (g,): the last of each bin
    every: Floats  # (n, all values): the changes before they were joined
    at: Indices  # (n,): where rows lie among all values
    bin: Indices  # (all values,): the bin of each
    weights: Floats  # (g,)
    shares: Floats  # (all values,): of each in its bin
    changes: Floats  # (n, g)

    @property
    def own(self) -> Indices:
        """The bin that holds each row's own value, (n,)."""
        return self.bin[self.at]

    def joined(self, curves: NDArray[Any]) -> Floats:
        """Curves at all values as means over bins."""
        return join(np.asarray(curves, float), self.bin, self.shares)


def grid_of(one: FeatureImportance, codes: Indices, most: int | None) -> PackedGrid | None:
    """The cells on at most so many bins of donors; None where rows have donors of their own, or cells are not kept.

    `codes` are the positions of the rows' own values among the feature's values in order.
    """
    if not one.complete or one.values[0].ndim > 1 or len(one.values) > 1:
        return None
    if isinstance(one.meeting, OwnDonors) and not one.meeting.binned:
        return None
    changes, weights = np.asarray(one.ici, float), np.asarray(one.weights, float)
    own = one.meeting.own if isinstance(one.meeting, CommonGrid) else _by_rank(one.meeting, codes)
    if (own < 0).any():  # values of the user's own
        return None
    place = _bins(one.values[0], weights, one.ordered, most)
    g = int(place.max()) + 1
    mass = np.asarray(np.bincount(place, weights, g), float)
    count = np.bincount(place, minlength=g)  # values that only rows of weight 0 hold share their bin evenly
    shares = np.divide(weights, mass[place], out=1 / count[place], where=mass[place] > 0)
    first = np.searchsorted(place, np.arange(g)) if one.ordered else _first(place, g)
    last = np.searchsorted(place, np.arange(g), side="right") - 1 if one.ordered else first
    values, at = one.values[0], np.asarray(own[one.at])
    return PackedGrid(values[first], values[last], changes, at, place, mass, shares, join(changes, place, shares))


def join(curves: Floats, place: Indices, shares: Floats) -> Floats:
    """Means over bins of the last axis."""
    parts = curves * shares
    if (np.diff(place) < 0).any():  # words: the bins' values lie scattered
        order = np.argsort(place, kind="stable")
        parts, place = parts[..., order], place[order]
    return np.asarray(np.add.reduceat(parts, np.searchsorted(place, np.arange(place[-1] + 1)), axis=-1))


def _by_rank(meeting: OwnDonors, codes: Indices) -> Indices:
    """Of systematic shifts the columns are bins of ranks: that of each row's own value, ties by their middle."""
    count = np.bincount(codes)
    middle = np.cumsum(count) - (count + 1) / 2
    bins = (middle[codes] * meeting.width / len(codes)).astype(np.intp)
    return np.asarray(meeting.place[np.minimum(bins, meeting.width - 1)])


def _bins(values: NDArray[Any], weights: Floats, ordered: bool, most: int | None) -> Indices:
    """The bin of each value: of equal weight along an order; of words, the rarest together. Missing is its own."""
    g = len(values)
    if most is None or g <= most:
        return np.arange(g)
    if not ordered:
        rank = np.argsort(np.argsort(-weights, kind="stable"), kind="stable")
        return np.minimum(rank, most - 1)
    missing = int(is_missing(values[-1]))
    shares = weights[: g - missing] / weights[: g - missing].sum()
    middle = np.cumsum(shares) - shares / 2
    place = np.minimum((middle * (most - missing)).astype(np.intp), most - missing - 1)
    place = np.unique(place, return_inverse=True)[1]
    return np.append(place, place.max() + 1) if missing else place


def _first(place: Indices, g: int) -> Indices:
    found = np.zeros(g, np.intp)
    found[place[::-1]] = np.arange(len(place))[::-1]
    return found


@one_thread()
def low_rank(grid: PackedGrid, local: Floats, weight: Floats, groups: list[NDArray[np.bool_]]) -> dict[str, Any]:
    """The doubly centred cells as a product of narrow matrices, rows in bytes, with the errors measured on groups.

    Parameters
    ----------
    grid, local, weight
        The binned cells; the mean over all donors and the weight of each row.
    groups
        Masks of rows to measure the errors on.
    """
    curve, level = weight @ grid.changes, float(weight @ local)
    apart = grid.changes - local[:, None] - curve + level
    tall = np.sqrt(weight)[:, None] * apart * np.sqrt(grid.weights)
    size, axes = np.linalg.eigh(tall.T @ tall)  # its eigenvectors are the right singular vectors
    right = axes[:, ::-1].T[: int(np.clip(np.sum(size > 1e-12 * max(size[-1], 1e-300)), 1, RANK))]
    root = np.sqrt(grid.weights)
    column = np.divide(right, root, out=np.zeros_like(right), where=root > 0).astype(np.float32)
    row = apart @ (right * np.sqrt(grid.weights)).T
    scale = np.abs(row).max(axis=0, initial=1e-300) / STEPS
    found: dict[str, Any] = {"kind": "low rank", "row": np.round(row / scale).astype(np.int8), "scale": scale}
    found["column"] = column
    return found | _errors(found, grid, local, weight, groups)


def _errors(
    cells: dict[str, Any], grid: PackedGrid, local: Floats, weight: Floats, groups: list[NDArray[np.bool_]]
) -> dict[str, float]:
    """How far subgroups' numbers are off as the page works them out, and how that grows for small groups."""
    shares = np.stack([weight * group / weight[group].sum() for group in groups], axis=1)  # (n, groups)
    every = np.stack([np.bincount(grid.at, share, len(grid.bin)) for share in shares.T], axis=1)
    donors = np.stack([np.bincount(grid.own, share, len(grid.weights)) for share in shares.T], axis=1)
    exact = np.einsum("ng,ng->g", shares, grid.every @ every)
    curve, level = weight @ grid.changes, float(weight @ local)
    interaction = (shares.T @ (cells["row"] * cells["scale"])) @ cells["column"]  # (groups, g)
    curves = (shares.T @ local)[:, None] + curve - level + interaction
    off = np.abs(np.einsum("gv,vg->g", curves, donors) - exact)
    bent = np.abs(curves - shares.T @ grid.changes).max(axis=1)
    n = np.array([group.sum() for group in groups])
    return {
        "error": float(off.max()),
        "typical": float(np.median(off)),
        "error_times_n": SAFETY * float((off * n).max()),
        "pi_error_times_root_n": SAFETY * float((bent * np.sqrt(n)).max()),
    }


def measured_on(columns: list[Floats], n: int) -> list[NDArray[np.bool_]]:
    """Groups of rows to measure on, small and large: ends and middles along columns, and rows drawn at random."""
    rng = np.random.default_rng(0)
    groups = [rng.permutation(n) < n * share for share in SHARES]
    for column in columns[:COLUMNS]:
        order = np.argsort(np.argsort(column, kind="stable"), kind="stable")
        for share, start in product(SHARES, (0.0, 0.5, 1.0)):
            low = start * (1 - share) * n
            groups.append((order >= low) & (order < low + share * n))
    return [group for group in groups if group.sum() >= FEWEST]
