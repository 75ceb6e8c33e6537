"""Brute force for Shapley games: every coalition of every pair of rows asked of the model itself; nothing is shared.

A coalition keeps a row's own values, a donor lends the others'. Coalitions stand in a table at their bits: bit j says
that player j is kept.
"""

from itertools import permutations
from math import factorial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl


def by_orders(table):
    """What each player takes off the error on joining, averaged over all orders of joining, (p, ...)."""
    p = len(table).bit_length() - 1
    found = np.zeros((p, *np.shape(table)[1:]))
    orders = list(permutations(range(p)))
    for order in orders:
        place = 0
        for j in order:
            found[j] += table[place] - table[place | 1 << j]
            place |= 1 << j
    return found / len(orders)


def mixed(X, rows, donors, columns):
    """Rows of X with the donors' values in these columns (positions), in the container that X is."""
    if isinstance(X, pd.DataFrame):
        parts = [X.iloc[donors if j in columns else rows, j].reset_index(drop=True) for j in range(X.shape[1])]
        return pd.concat(parts, axis=1)
    if isinstance(X, pl.DataFrame):
        return pl.DataFrame([X[:, j].gather(donors if j in columns else rows) for j in range(X.shape[1])])
    found = X[rows]
    found[:, columns] = X[donors][:, columns]
    return found


def pair_predictions(predict, X, players):
    """The prediction of each row with what each row lends, (2^p, n, n, ...)."""
    n, p = len(X), len(players)
    rows, donors = (np.ravel(pair) for pair in np.indices((n, n)))
    found = []
    for place in range(1 << p):
        lent = [c for j, columns in enumerate(players) if not place >> j & 1 for c in columns]
        said = np.asarray(predict(mixed(X, rows, donors, lent)))
        found.append(said.reshape(n, n, *said.shape[1:]))
    return np.stack(found)


def pair_losses(predict, X, y, loss, players):
    """The loss of each row with what each row lends, (2^p, n, n)."""
    said = pair_predictions(predict, X, players)
    n = len(X)
    flat = said.reshape(-1, *said.shape[3:])
    return np.asarray(loss(np.tile(np.repeat(y, n), len(said)), flat), float).reshape(len(said), n, n)


def shares(predict, X, y, loss, players=None, weight=None, apart=False):
    """Everything that a result may say, from all pairs; apart: a row and itself are no pair."""
    n = len(X)
    players = [[j] for j in range(X.shape[1])] if players is None else players
    weight = np.ones(n) if weight is None else np.asarray(weight, float)
    losses = pair_losses(predict, X, y, loss, players)
    mass = np.outer(weight, weight) * (1 - np.eye(n) if apart else 1)
    own = losses[-1].diagonal()
    cells = by_orders(losses)  # (p, n, n)
    with np.errstate(invalid="ignore"):  # rows that count nothing at all
        lent = mass / mass.sum(axis=1, keepdims=True)
        local = (cells * lent).sum(axis=2).T
        caused = (cells * (mass / mass.sum(axis=0))).sum(axis=1).T
        gains = ((losses[0] - own[:, None]) * lent).sum(axis=1)
    error = weight @ own / weight.sum()
    rise = ((losses - own[:, None]) * mass).sum(axis=(1, 2)) / mass.sum()
    return SimpleNamespace(
        sfimp=(cells * mass).sum(axis=(1, 2)) / mass.sum(), local=local, caused=caused, gains=gains,
        table=error + rise, error_all=error, error_none=error + rise[0], cells=np.moveaxis(cells, 0, 2),
    )  # fmt: skip


def mean_shares(predict, X, y, loss, players=None, weight=None):
    """SAGE: predictions averaged over all donors before they are judged."""
    players = [[j] for j in range(X.shape[1])] if players is None else players
    weight = np.full(len(X), 1 / len(X)) if weight is None else np.asarray(weight, float) / np.sum(weight)
    said = np.einsum("sik...,k->si...", pair_predictions(predict, X, players), weight)
    losses = np.stack([loss(y, one) for one in said])
    local = by_orders(losses).T
    return SimpleNamespace(sfimp=weight @ local, local=local, gains=local.sum(axis=1), table=losses @ weight)


def interactions(table):
    """Grabisch and Roubens: the mean over coalitions of what two add together beyond what each adds alone."""
    p = len(table).bit_length() - 1
    index = np.zeros((p, p))
    for j, k in permutations(range(p), 2):
        for S in range(1 << p):
            if S >> j & 1 or S >> k & 1:
                continue
            size = S.bit_count()
            more = table[S | 1 << j] + table[S | 1 << k] - table[S] - table[S | 1 << j | 1 << k]
            index[j, k] += factorial(size) * factorial(p - size - 2) / factorial(p - 1) * more
    return index


def effects(predict, X, rows, players=None, weight=None):
    """Shapley values of the predictions of some rows of X, donors from all of X, (r, p)."""
    players = [[j] for j in range(X.shape[1])] if players is None else players
    means = []
    for place in range(1 << len(players)):
        lent = [c for j, columns in enumerate(players) if not place >> j & 1 for c in columns]
        said = [predict(mixed(X, np.full(len(X), i), np.arange(len(X)), lent)) for i in rows]
        means.append(np.average(said, axis=1, weights=weight))
    return -by_orders(np.array(means)).T
