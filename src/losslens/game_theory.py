"""Shapley values of a game: what each player adds to a coalition, averaged over all orders of joining.

A game is a table of 2^p values: bit j of the index of a coalition is set if player j is in it. A value is an error, so
that a player's contribution is a reduction. This module uses no models and no losses.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.typing import Floats, Indices, Mask


def weights(p: int) -> Floats:
    """The share of the orders in which a player joins a given coalition of s others, s = 0 .. p - 1.

    ``s! (p - s - 1)! / p!``

    >>> weights(3).tolist()
    [0.3333333333333333, 0.16666666666666666, 0.3333333333333333]
    """
    return np.array([1 / (p * comb(p - 1, s)) for s in range(p)])


def members(p: int, indices: NDArray[np.integer]) -> Mask:
    """The members of the coalitions with these indices, (coalitions, p)."""
    return np.asarray((np.asarray(indices)[:, None] >> np.arange(p)) & 1, bool)


def coefficients(kept: Mask) -> Floats:
    """The coefficient of each coalition's error in each player's value, (coalitions, p).

    ``value_j = sum over S without j of w(|S|) (error(S) - error(S + j))``
    """
    p = kept.shape[1]
    size, share = kept.sum(axis=1), np.append(weights(p), 0.0)
    return np.asarray(np.where(kept, -share[size - 1][:, None], share[size][:, None]))


def values(table: Floats) -> Floats:
    """The Shapley values, (p,), or (p, ...) if the table has more axes.

    >>> values(np.array([10.0, 7.0, 9.0, 2.0])).tolist()  # alone 3 and 1, together 8
    [5.0, 3.0]
    """
    p = len(table).bit_length() - 1
    shapley = np.empty((p, *table.shape[1:]))
    size, share = members(p, np.arange(len(table))).sum(axis=1), weights(p)
    for j in range(p):  # differences first: a player that changes nothing has exactly 0
        pairs = table.reshape(-1, 2, 1 << j, *table.shape[1:])
        without = size.reshape(-1, 2, 1 << j)[:, 0]
        shapley[j] = np.tensordot(share[without], pairs[:, 0] - pairs[:, 1], 2)
    return shapley


def interactions(table: Floats) -> Floats:
    """The Shapley interaction index of each pair of players, (p, p); 0 on the diagonal.

    ``I_jl = sum over S without j, l of |S|! (p - |S| - 2)! / (p - 1)! (gain(S, j and l) - gain(S, j) - gain(S, l))``,
    where a gain is the reduction of the error by joining. Above 0: the two contribute more together.

    >>> interactions(np.array([10.0, 7.0, 9.0, 2.0]))[0, 1].item()
    4.0
    """
    p = len(table).bit_length() - 1
    index, indices = np.zeros((p, p)), np.arange(len(table))
    inside = members(p, indices)
    share = weights(p - 1) if p > 1 else np.zeros(0)
    size = inside.sum(axis=1)
    for j in range(p):
        for other in range(j):
            S = indices[~inside[:, j] & ~inside[:, other]]
            # Differences first: a player that changes nothing has interactions of exactly 0.
            gain = (table[S | 1 << j] - table[S | 1 << j | 1 << other]) - (table[S] - table[S | 1 << other])
            index[j, other] = index[other, j] = float(share[size[S]] @ gain)
    return index


def random_orders(n: int, p: int, rng: np.random.Generator, xp: Any = np) -> Any:
    """n independent orders of p players, (n, p), as an array of the library xp."""
    return xp.argsort(xp.asarray(rng.random((n, p))), axis=1)


def circle(p: int, rng: np.random.Generator) -> Indices:
    """2 p cyclic orders: a random circle of players, read from each player on in both directions, (2 p, p).

    Every player has every position twice, and of every two players each comes first equally often: games with
    interactions of pairs only are solved exactly. Coalitions are arcs of the circle: few values for many orders.
    """
    round_once = rng.permutation(p)
    turned = round_once[(np.arange(p)[:, None] + np.arange(p)) % p]
    return np.concatenate([turned, turned[:, ::-1]])


def coalitions_along(orders: Indices) -> Mask:
    """The coalitions along some orders, from the empty to the full one, (orders, p + 1, p)."""
    p = orders.shape[1]
    place = np.argsort(orders, axis=1)
    return np.asarray(place[:, None, :] < np.arange(p + 1)[:, None])


def along(orders: Any, errors: Any, xp: Any = np) -> Any:
    """Each player's reduction of the error along each order, (orders, p), from the errors of `coalitions_along`."""
    return xp.take_along_axis(errors[:, :-1] - errors[:, 1:], xp.argsort(orders, axis=1), axis=1)
