"""Shapley values of a game: what each player adds to a coalition, averaged over all orders of joining.

A game is a table of 2^p values: bit j of the place of a coalition says whether player j is in it. Here a value is an
error, and less error is better: a player's worth is what it takes off. Never a model or a loss.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

from losslens.typing import Floats, Indices, Mask


def weights(p: int) -> Floats:
    """The share of the orders in which a given player meets a given coalition of s others, s = 0 .. p - 1.

    ``s! (p - s - 1)! / p!``

    >>> weights(3).tolist()
    [0.3333333333333333, 0.16666666666666666, 0.3333333333333333]
    """
    return np.array([1 / (p * comb(p - 1, s)) for s in range(p)])


def members(p: int, places: NDArray[np.integer]) -> Mask:
    """Who is in the coalitions at these places of a table, (coalitions, p)."""
    return np.asarray((np.asarray(places)[:, None] >> np.arange(p)) & 1, bool)


def coefficients(kept: Mask) -> Floats:
    """What the error of each coalition adds to each player's value, (coalitions, p).

    ``value_j = sum over S without j of w(|S|) (error(S) - error(S + j))``
    """
    p = kept.shape[1]
    size, share = kept.sum(axis=1), np.append(weights(p), 0.0)
    return np.asarray(np.where(kept, -share[size - 1][:, None], share[size][:, None]))


def values(table: Floats) -> Floats:
    """The Shapley values, (p,), or (p, ...) where the table's coalitions hold more than a number.

    >>> values(np.array([10.0, 7.0, 9.0, 2.0])).tolist()  # alone 3 and 1, together 8
    [5.0, 3.0]
    """
    p = len(table).bit_length() - 1
    found = np.empty((p, *table.shape[1:]))
    size, share = members(p, np.arange(len(table))).sum(axis=1), weights(p)
    for j in range(p):  # differences first: who changes nothing earns exactly nothing
        pairs = table.reshape(-1, 2, 1 << j, *table.shape[1:])
        without = size.reshape(-1, 2, 1 << j)[:, 0]
        found[j] = np.tensordot(share[without], pairs[:, 0] - pairs[:, 1], 2)
    return found


def interactions(table: Floats) -> Floats:
    """The Shapley interaction index of each pair of players, (p, p); 0 on the diagonal.

    ``I_jl = sum over S without j, l of |S|! (p - |S| - 2)! / (p - 1)! (gain(S, j and l) - gain(S, j) - gain(S, l))``,
    where a gain is the error that joining takes off. Above 0: the two are worth more together.

    >>> interactions(np.array([10.0, 7.0, 9.0, 2.0]))[0, 1].item()
    4.0
    """
    p = len(table).bit_length() - 1
    index, places = np.zeros((p, p)), np.arange(len(table))
    inside = members(p, places)
    share = weights(p - 1) if p > 1 else np.zeros(0)
    size = inside.sum(axis=1)
    for j in range(p):
        for other in range(j):
            S = places[~inside[:, j] & ~inside[:, other]]
            # Differences first: with who changes nothing nobody interacts.
            gain = (table[S | 1 << j] - table[S | 1 << j | 1 << other]) - (table[S] - table[S | 1 << other])
            index[j, other] = index[other, j] = float(share[size[S]] @ gain)
    return index


def random_orders(n: int, p: int, rng: np.random.Generator) -> Indices:
    """n independent orders of p players, (n, p)."""
    return np.argsort(rng.random((n, p)), axis=1)


def circle(p: int, rng: np.random.Generator) -> Indices:
    """2 p orders from one random circle: it is read from each player on, both ways round, (2 p, p).

    Every player stands in every place twice, and of every two each comes first as often: games in which only pairs
    interact are solved exactly. Their coalitions are arcs, so that they need few values for many orders.
    """
    round_once = rng.permutation(p)
    turned = round_once[(np.arange(p)[:, None] + np.arange(p)) % p]
    return np.concatenate([turned, turned[:, ::-1]])


def coalitions_met(orders: Indices) -> Mask:
    """The coalitions that grow along some orders, from nobody to everybody, (orders, p + 1, p)."""
    p = orders.shape[1]
    place = np.argsort(orders, axis=1)
    return np.asarray(place[:, None, :] < np.arange(p + 1)[:, None])


def along(orders: Indices, errors: Floats) -> Floats:
    """What each player took off along each order, (orders, p), from the errors of the coalitions met, (orders, p+1)."""
    return np.take_along_axis(errors[:, :-1] - errors[:, 1:], np.argsort(orders, axis=1), axis=1)
