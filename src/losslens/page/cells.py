"""The cells of one feature, small enough for a page: all of them, or a low-rank form whose error was measured.

Cells are changes of loss, whose curves are ICI, and predictions, whose curves are ICE.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.blas import one_thread
from losslens.cells.matrix import Means
from losslens.donors.layout import CommonGrid, OwnDonors
from losslens.page.packing import in_steps
from losslens.results.importance import FeatureImportance
from losslens.tables.columns import count_missing
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices, Mask
from losslens.uncertainty.standard_errors import influence, interval

STEPS = 127  # the largest signed byte
COLUMNS = 6  # columns by which groups are formed to measure its error
SHARES = (0.01, 0.025, 0.1, 0.25, 0.5)  # of all rows, in such a group
CORNERS = 16  # such groups that are at the end of two columns
FEWEST_ROWS = 5  # in such a group
PART = 1 << 20  # numbers that are averaged at a time
INTERVALS = 20  # of these groups, whose intervals are compared
SAFETY = 1.5  # other groups may have larger errors than the measured ones


@dataclass(frozen=True, eq=False)
class PackedGrid:
    """The changes of loss of all rows at common values, and where the rows' own values lie."""

    values: NDArray[Any]  # (g,): the first of each bin
    last: NDArray[Any]  # (g,): the last of each bin
    every: Floats  # (n, all values): the changes before binning
    codes: Indices  # (n,): positions of the rows' own values among all values
    bin: Indices  # (all values,): the bin of each
    weights: Floats  # (g,)
    shares: Floats  # (all values,): the weight of each within its bin
    changes: Floats  # (n, g)

    @property
    def own(self) -> Indices:
        """The bin that holds each row's own value, (n,)."""
        return self.bin[self.codes]

    def joined(self, curves: NDArray[Any]) -> Floats:
        """Curves at all values as means over bins."""
        return join(np.asarray(curves, float), self.bin, self.shares)


def grid_of(one: FeatureImportance, codes: Indices, most: int | None) -> PackedGrid | None:
    """The cells on at most so many bins of donors' values; None without a common grid, or where cells are not kept.

    `codes` are the positions of the rows' own values among the feature's values in order.
    """
    if not one.complete or one.values[0].ndim > 1 or len(one.values) > 1:
        return None
    if isinstance(one.layout, OwnDonors) and not one.layout.binned:
        return None
    changes, weights = np.asarray(one.ici, float), np.asarray(one.weights, float)
    own = one.layout.own if isinstance(one.layout, CommonGrid) else _by_rank(one.layout, codes)
    if (own < 0).any():  # the grid has values that the user chose
        return None
    place = _bins(one.values[0], weights, one.ordered, most)
    g = int(place.max()) + 1
    mass = np.asarray(np.bincount(place, weights, g), float)
    count = np.bincount(place, minlength=g)  # values held by rows of weight 0 only count equally in their bin
    shares = np.divide(weights, mass[place], out=1 / count[place], where=mass[place] > 0)
    first = np.searchsorted(place, np.arange(g)) if one.ordered else _first(place, g)
    last = np.searchsorted(place, np.arange(g), side="right") - 1 if one.ordered else first
    values, codes = one.values[0], np.asarray(own[one.at])
    return PackedGrid(values[first], values[last], changes, codes, place, mass, shares, join(changes, place, shares))


def join(curves: Floats, place: Indices, shares: Floats) -> Floats:
    """Means over bins of the last axis."""
    order = None if (np.diff(place) >= 0).all() else np.argsort(place, kind="stable")  # categories are in any order
    start = np.searchsorted(place if order is None else place[order], np.arange(place.max() + 1))
    joined = np.empty((*curves.shape[:-1], len(start)))
    for part in _parts(curves):  # no second matrix of all cells
        parts = curves[part] * shares
        joined[part] = np.add.reduceat(parts if order is None else parts[..., order], start, axis=-1)
    return joined


def _parts(curves: Floats) -> list[Any]:
    if curves.ndim == 1:
        return [...]
    step = max(1, PART // curves.shape[-1])
    return [slice(k, k + step) for k in range(0, len(curves), step)]


def _by_rank(layout: OwnDonors, codes: Indices) -> Indices:
    """The rank bin of each row's own value: the columns of systematic shifts are such bins. Ties at their middle."""
    count = np.bincount(codes)
    middle = np.cumsum(count) - (count + 1) / 2
    bins = (middle[codes] * layout.width / len(codes)).astype(np.intp)
    return np.asarray(layout.place[np.minimum(bins, layout.width - 1)])


def _bins(values: NDArray[Any], weights: Floats, ordered: bool, most: int | None) -> Indices:
    """The bin of each value: of equal weight along an order; the rarest categories share one. Missing has its own."""
    g = len(values)
    if most is None or g <= most:
        return np.arange(g)
    if not ordered:
        rank = np.argsort(np.argsort(-weights, kind="stable"), kind="stable")
        return np.minimum(rank, most - 1)
    missing = count_missing(values)
    shares = weights[: g - missing] / weights[: g - missing].sum()
    middle = np.cumsum(shares) - shares / 2
    place = np.minimum((middle * (most - missing)).astype(np.intp), most - missing - 1)
    place = np.unique(place, return_inverse=True)[1]
    return np.append(place, place.max() + 1 + np.arange(missing))


def _first(place: Indices, g: int) -> Indices:
    first = np.zeros(g, np.intp)
    first[place[::-1]] = np.arange(len(place))[::-1]
    return first


@one_thread()
def low_rank(grid: PackedGrid, local: Floats, weight: Floats, groups: list[Mask], rank: int) -> dict[str, Any]:
    """The doubly centred changes of loss as a product of narrow matrices, with the errors measured on groups.

    Parameters
    ----------
    grid, local, weight
        The binned cells; the mean over all donors and the weight of each row.
    groups
        Masks of rows to measure the errors on.
    rank
        The most columns of the narrow matrices.
    """
    curve, level = weight @ grid.changes, float(weight @ local)
    form = _product(grid.changes - local[:, None] - curve + level, weight, grid.weights, rank)
    return form | _errors(form, grid, local, weight, groups)


@one_thread()
def low_rank_effect(
    ice: Floats, pd: Floats, weight: Floats, grid_weights: Floats, groups: list[Mask], rank: int
) -> dict[str, Any]:
    """The low-rank form of ICE curves (n, g) with mean `pd`; a row's `level`, the mean of its curve, has 16 bits."""
    level = in_steps(ice @ grid_weights, 16)
    mean = float(pd @ grid_weights)
    form = _product(ice - level[:, None] - pd + mean, weight, grid_weights, rank) | {"level": level, "mean": mean}
    share = _shares(weight, groups)
    product = (share.T @ (form["row"] * form["scale"])) @ form["column"]
    off = np.abs((share.T @ level)[:, None] + pd - mean + product - share.T @ ice).max(axis=1)
    return form | {"error": float(off.max()), "measured": _by_size(off, [int(group.sum()) for group in groups])}


def _by_size(off: Floats, sizes: list[int]) -> list[tuple[int, float]]:
    """The error of groups of so many rows and more: with a margin, and measured also on groups one size smaller."""
    least = sorted({min(sizes), *(int(share * max(sizes) / SHARES[-1]) for share in SHARES)} - {*range(min(sizes))})
    smaller = [least[0], *least[:-1]]
    return [(m, SAFETY * float(off[np.array(sizes) >= s].max())) for m, s in zip(least, smaller, strict=True)]


def _product(centred: Floats, weight: Floats, grid_weights: Floats, rank: int) -> dict[str, Any]:
    """A matrix (n, g) as a product of narrow ones, rows in bytes."""
    root = np.sqrt(grid_weights)
    weighted = np.sqrt(weight)[:, None] * centred * root
    size, axes = np.linalg.eigh(weighted.T @ weighted)  # its eigenvectors are the right singular vectors
    right = axes[:, ::-1].T[: int(np.clip(np.sum(size > 1e-12 * max(size[-1], 1e-300)), 1, rank))]
    column = np.divide(right, root, out=np.zeros_like(right), where=root > 0).astype(np.float32)
    row = centred @ (right * root).T
    scale = np.abs(row).max(axis=0, initial=1e-300) / STEPS
    return {"kind": "low rank", "row": np.round(row / scale).astype(np.int8), "scale": scale, "column": column}


def _shares(weight: Floats, groups: list[Mask]) -> Floats:
    """The weights of rows within each group, (n, groups)."""
    return np.stack([weight * group / weight[group].sum() for group in groups], axis=1)


def _errors(
    cells: dict[str, Any], grid: PackedGrid, local: Floats, weight: Floats, groups: list[Mask]
) -> dict[str, float]:
    """Errors of subgroups' numbers as the page computes them, and how they grow as groups become smaller."""
    shares = _shares(weight, groups)
    every = np.stack([np.bincount(grid.codes, share, len(grid.bin)) for share in shares.T], axis=1)
    donors = np.stack([np.bincount(grid.own, share, len(grid.weights)) for share in shares.T], axis=1)
    exact = np.einsum("ng,ng->g", shares, grid.every @ every)
    curve, level = weight @ grid.changes, float(weight @ local)
    interaction = (shares.T @ (cells["row"] * cells["scale"])) @ cells["column"]  # (groups, g)
    curves = (shares.T @ local)[:, None] + curve - level + interaction
    off = np.abs(np.einsum("gv,vg->g", curves, donors) - exact)
    curve_off = np.abs(curves - shares.T @ grid.changes).max(axis=1)
    n = np.array([group.sum() for group in groups])
    return {
        "error": float(off.max()),
        "typical": float(np.median(off)),
        "error_times_n": SAFETY * float((off * n).max()),
        "pi_error_times_root_n": SAFETY * float((curve_off * np.sqrt(n)).max()),
    }


@one_thread()
def width_errors(
    one: FeatureImportance, grid: PackedGrid, form: dict[str, Any], groups: list[Mask]
) -> dict[str, float]:
    """The largest errors of the width of a subgroup's interval as the page computes it, measured on some groups.

    With donors from all rows (`given`) as a share of the width; with donors of the group (`subset`) times its rows: as
    cells average out over rows and over donors, that falls as 1 / n, but not with the width, which may be tiny.
    """
    if not isinstance(one.layout, CommonGrid) or not one.exact:
        return {}  # the page has no intervals
    weight, local = one.sample.weight, one.local
    some = [group for group in groups[:: max(1, len(groups) // INTERVALS)] if np.sum(group & (weight > 0)) > 2]
    shares = _shares(weight, some)
    held = np.stack([np.bincount(grid.codes, share, len(grid.bin)) for share in shares.T], axis=1)
    curves, within = shares.T @ grid.every, grid.every @ held
    base, product = weight @ grid.changes - weight @ local, form["row"] * form["scale"]
    low = (shares.T @ local)[:, None] + base + (shares.T @ product) @ form["column"]
    binned = np.stack([np.bincount(grid.own, share, len(base)) for share in shares.T], axis=1)
    low_within = local[:, None] + base @ binned + product @ (form["column"] @ binned)
    given = subset = 0.0
    for k, group in enumerate(some):
        rows = np.flatnonzero(group & (weight > 0))
        inner, layout, every = one.sample.at(rows), one.layout.subset(rows)[0], np.arange(len(rows))
        caused, low_caused = curves[k][grid.codes], low[k][grid.own]
        from_all, from_group = (one.sample, one.layout, rows), (inner, layout, every)
        exact, low_rank = _width(local[rows], caused, *from_all), _width(local[rows], low_caused, *from_all)
        given = max(given, abs(low_rank / exact - 1) if exact > 0 else 0.0)
        exact = _width(within[rows, k], caused[rows], *from_group)
        low_rank = _width(low_within[rows, k], low_caused[rows], *from_group)
        subset = max(subset, len(rows) * abs(low_rank - exact))
    return {"width_off": SAFETY * given, "width_error_times_n": SAFETY * subset}


def _width(local: Floats, caused: Floats, sample: Sample, layout: CommonGrid, rows: Indices) -> float:
    """The width of the interval, from the mean change of each row and of each donor."""
    means = Means(local=local, mass=sample.weight[rows], caused=caused, donor_weight=sample.weight)
    moved = influence(means, layout, sample, rows)
    low, high = interval(0.0, moved.std_error, sample.effective_units(rows), 0.95, moved.skewness)
    return high - low


def measured_on(columns: list[Floats], weight: Floats) -> list[Mask]:
    """Groups of rows to measure errors on, small and large: random rows, both ends and the middle of columns, corners
    of two columns.
    """
    rng, n = np.random.default_rng(0), len(weight)
    groups = [rng.permutation(n) < n * share for share in SHARES]
    ranks = [np.argsort(np.argsort(column, kind="stable"), kind="stable") for column in columns[:COLUMNS]]
    for order, share, start in product(ranks, SHARES, (0.0, 0.5, 1.0)):
        low = start * (1 - share) * n
        groups.append((order >= low) & (order < low + share * n))
    for k in range(CORNERS if len(ranks) > 1 else 0):
        first, second = rng.choice(len(ranks), 2, replace=False)
        part = n * SHARES[k % len(SHARES)] ** 0.5  # of both: about that share if they are independent
        ends = [ranks[j] < part if rng.random() < 0.5 else ranks[j] >= n - part for j in (first, second)]
        groups.append(ends[0] & ends[1])
    return [group for group in groups if group.sum() >= FEWEST_ROWS and weight[group].sum() > 0]
