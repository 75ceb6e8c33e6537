"""Brute force: every pair of rows asked of the model itself, one donor at a time. The oracle of the tests.

Nothing here is shared with the library: formulas of losses included.
"""

from types import SimpleNamespace

import numpy as np

from losslens.donors.layout import CommonGrid


def _own(y, p):
    return p[np.arange(len(y)), y]


def _deviance(y, f, power):
    if power == 1:
        return 2 * (np.where(y > 0, y * np.log(np.where(y > 0, y, 1) / f), 0) - y + f)
    if power == 2:
        return 2 * (y / f - np.log(y / f) - 1)
    first = y ** (2 - power) / ((1 - power) * (2 - power))
    return 2 * (first - y * f ** (1 - power) / (1 - power) + f ** (2 - power) / (2 - power))


def _hinge(y, s):
    if s.ndim == 1:
        return np.maximum(0, 1 - np.where(y == 1, s, -s))
    best = np.where(np.arange(s.shape[1]) == y[:, None], -np.inf, s).max(axis=1)
    return np.maximum(0, 1 + best - _own(y, s))


def _brier(y, p):
    if p.shape[1] == 2:
        return (p[:, 1] - y) ** 2
    return ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1)


EPS = np.finfo(float).eps
LOSSES = {
    "squared_error": lambda y, f: (y - f) ** 2,
    "absolute_error": lambda y, f: np.abs(y - f),
    "huber": lambda y, f: np.where(np.abs(y - f) <= 1, (y - f) ** 2 / 2, np.abs(y - f) - 0.5),
    "pinball": lambda y, f: np.where(y >= f, 0.5 * (y - f), 0.5 * (f - y)),
    "poisson_deviance": lambda y, f: _deviance(y, f, 1),
    "gamma_deviance": lambda y, f: _deviance(y, f, 2),
    "tweedie_deviance": lambda y, f: _deviance(y, f, 1.5),
    "log_loss": lambda y, p: -np.log(np.clip(_own(y, p), EPS, 1 - EPS)),
    "brier": _brier,
    "zero_one": lambda y, labels: (y != labels).astype(float),
    "hinge": _hinge,
}


def predictions(predict, X, columns):
    """f(x_i with k's values), (n, n) or (n, n, K)."""
    rows = []
    for donor in X:
        replaced = X.copy()
        replaced[:, columns] = donor[columns]
        rows.append(predict(replaced))
    return np.stack(rows, axis=1)


def pair_losses(predict, X, y, columns, loss):
    """l_S(i, k), (n, n)."""
    asked = predictions(predict, X, columns)
    return np.stack([loss(y, asked[:, k]) for k in range(len(X))], axis=1)


def cells(predict, X, y, columns, loss):
    """D(i, k) = l_S(i, k) - l_i, (n, n)."""
    return pair_losses(predict, X, y, columns, loss) - loss(y, predict(X))[:, None]


def donors(feature):
    """Who lends to whom in a design of single meetings, (n, m)."""
    return np.asarray(feature.layout.donors[np.arange(feature.sample.n)])


def meetings(feature):
    """How often row i met donor k, (n, n); of pairs that `groups=` forbids too."""
    n, layout = feature.sample.n, feature.layout
    count = np.zeros((n, n))
    if isinstance(layout, CommonGrid):
        count[:, layout.donors] = 1
        if layout.leaves_out_own:
            np.fill_diagonal(count, 0)
        return count
    for column in donors(feature).T:
        count[np.arange(n)[column >= 0], column[column >= 0]] += 1
    return count


def averages(cells, count, weight=None, block=None):
    """The importance, local importances (n,), and the mass of each cell (n, n)."""
    weight = np.ones(len(cells)) if weight is None else np.asarray(weight, float)
    lent = count * weight
    if block is not None:
        lent = lent * (np.asarray(block)[:, None] != np.asarray(block))
    mass = weight[:, None] * lent
    with np.errstate(invalid="ignore"):
        pfi = (mass * cells).sum() / mass.sum()
        return SimpleNamespace(pfi=pfi, local=(lent * cells).sum(axis=1) / lent.sum(axis=1), mass=mass)


def v_statistic(cells):
    return cells.mean()


def u_statistic(cells):
    n = len(cells)
    return (cells.sum() - np.trace(cells)) / (n * (n - 1))


def jackknife(statistic, units):
    """Standard error from leaving each unit out: sqrt((u - 1)/u sum (theta_(-u) - mean)^2)."""
    names = np.unique(units)
    left = np.array([statistic(np.flatnonzero(units != name)) for name in names])
    return np.sqrt((len(names) - 1) / len(names) * np.sum((left - left.mean()) ** 2))
