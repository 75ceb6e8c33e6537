"""Shapley values of a sum of products (kernel machines, polynomials), without coalitions: see `product_kernels`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from losslens.engines.base import SumEffects
from losslens.engines.kernel_machines import IGNORE_RANGE, ProductForm
from losslens.progress import Tick, silent
from losslens.typing import Floats, Indices
from losslens.workers import in_process

BLOCKS = 64  # of rows, whatever the number of threads: sums are added up in the same order


def operations(form: ProductForm, players: Sequence[Sequence[int]], n: int) -> float:
    """Factors that are multiplied for n rows and n donors."""
    moved = sum(any(form.moves(j) for j in columns) for columns in players)
    return n * (n - 1) / 2 * len(form.coef) * moved * _point_count(moved)


def effects_on_sum(
    form: ProductForm,
    matrix: Floats,
    players: Sequence[Sequence[int]],
    weights: Floats,
    memory: int,
    n_jobs: int | None,
    tick: Tick,
) -> SumEffects:
    """The Shapley values of some rows' sums, summed over the donors with each of the weights (D, n): (D, rows, p, 1).

    players: the columns of each; columns of no player have no effect on the sum.
    """
    donors = np.flatnonzero(weights.any(axis=0))
    moved = [k for k, columns in enumerate(players) if any(form.moves(j) for j in columns)]
    columns = [[j for j in players[k] if form.moves(j)] for k in moved]

    def of_rows(rows: Indices) -> Floats:
        found = np.zeros((len(weights), len(rows), len(players), 1))
        if moved:
            found[:, :, moved, 0] = _add_up(form, matrix, columns, (rows, donors), weights, memory, n_jobs, tick)
        return found

    return of_rows


def _add_up(
    form: ProductForm,
    matrix: Floats,
    players: Sequence[Sequence[int]],
    pairs: tuple[Indices, Indices],
    weights: Floats,
    memory: int,
    n_jobs: int | None,
    tick: Tick,
) -> Floats:
    from losslens.engines.product_kernels import TILE, add_pairs

    (rows, donors), p = pairs, len(players)
    mirrored = np.array_equal(rows, donors)
    weight_of = np.ascontiguousarray(weights[:, rows]), np.ascontiguousarray(weights[:, donors])
    tiles = max(1, memory // (8 * TILE * p * (len(rows) + len(donors))))  # that fit into memory
    ends = np.linspace(0, len(rows), min(BLOCKS, len(rows)) + 1).astype(int)
    if mirrored:  # rows at the beginning have more donors after them
        ends = np.unique((len(rows) * (1 - np.sqrt(1 - np.linspace(0, 1, len(ends))))).astype(int))
    parts = list(pairwise(ends.tolist()))
    total = np.zeros((len(weights), len(rows), p))
    for start in range(0, len(form.coef), tiles * TILE):
        terms = slice(start, start + tiles * TILE)
        coef, lent = _tiled(form, matrix[donors], players, terms, TILE)
        kept = lent if mirrored else _tiled(form, matrix[rows], players, terms, TILE)[1]
        points = _points(lent, kept)

        def add(arrays: tuple[Floats, ...], part: tuple[int, int], tick: Tick) -> tuple[Floats, Floats]:
            kept, lent, coef, points = arrays
            own = np.zeros((len(weights), part[1] - part[0], p))
            swapped = np.zeros((len(weights), len(donors) if mirrored else 0, p))
            scratch = np.empty((5, p, TILE))
            add_pairs(kept, lent, coef, points, *weight_of, *part, mirrored, scratch, own, swapped)
            tick(part[1] - part[0])
            return own, swapped

        said = silent if start else tick  # every row is counted once
        found = in_process(n_jobs).map(add, (kept, lent, coef, points), parts, said)
        for part, (own, swapped) in zip(parts, found, strict=True):
            total[:, slice(*part)] += own
            if mirrored:
                total += swapped
    return total


def _tiled(
    form: ProductForm, matrix: Floats, players: Sequence[Sequence[int]], terms: slice, tile: int
) -> tuple[Floats, Floats]:
    """Coefficients of some terms, (tiles, tile), and the factors of rows, (tiles, rows, p, tile); filled up with 0."""
    coef = form.coef[terms]
    tiles = -(-len(coef) // tile)
    factors = np.zeros((len(players), len(matrix), tiles * tile))
    with np.errstate(**IGNORE_RANGE):
        for k, columns in enumerate(players):
            first, *others = (form.factor(matrix[:, j], j)[:, terms] for j in columns)
            factors[k, :, : len(coef)] = first
            for factor in others:
                factors[k, :, : len(coef)] *= factor
    padded = np.zeros(tiles * tile)
    padded[: len(coef)] = coef
    shaped = factors.reshape(len(players), len(matrix), tiles, tile)
    return padded.reshape(tiles, tile), np.ascontiguousarray(shaped.transpose(2, 1, 0, 3))


def _points(lent: Floats, kept: Floats) -> Floats:
    """Places between 0 and 1 and their weights, (2, q): as many as the products with most factors that vary need."""
    lowest, highest = (end((end(lent, axis=1), end(kept, axis=1)), axis=0) for end in (np.min, np.max))
    places, weights = np.polynomial.legendre.leggauss(_point_count(int((lowest < highest).sum(axis=1).max())))
    return np.array([(1 + places) / 2, weights / 2])


def _point_count(factors: int) -> int:
    """Points that integrate a product of one factor less, linear each, exactly."""
    return max(1, (factors + 1) // 2)
