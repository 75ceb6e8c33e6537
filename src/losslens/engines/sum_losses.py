"""Mean changes of loss over all pairs for models of the form h(u_i + v_k).

u_i is what row i keeps of a sum, v_k what donor k adds to it. Between kinks most losses are combinations of few
functions of v, with coefficients of the row: 1, v and v^2, or 1, v and e^v under a log link. Means of these functions
over all donors, or over those beyond a row's kink, and means of the coefficients over the rows give everything
(`Piecewise`).
Losses of logistic functions are interpolated (`Interpolated`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined
from losslens.engines.interpolation import GridAxis, means_of_sums
from losslens.losses import Loss
from losslens.typing import Floats

# How predictions follow from sums. "log1p": exp(sum) - 1; "logistic": the first probability is 1 - the second; "odds":
# it is computed by itself, and keeps its digits; "sign": labels; "softmax": a sum for each of several classes.
Link = Literal["identity", "log", "log1p", "logistic", "odds", "sign", "softmax"]
SATURATED = 40.0  # sums beyond: a logistic function is 0 or 1 to 4e-18, below the clip of log losses
MOST_DELTAS = 100_000  # what donors change, in units of a Huber loss's delta: rounding is then up to 1e-10 of the loss
_DEVIANCES = ("poisson_deviance", "gamma_deviance", "tweedie_deviance")
_ON_RESPONSE = ("squared_error", "absolute_error", "pinball", "huber")
# Losses whose means over all pairs have a closed form, by link.
LOSSES: dict[Link, tuple[str, ...]] = {
    "identity": (*_ON_RESPONSE, "hinge"),
    "log": (*_ON_RESPONSE, *_DEVIANCES),
    "log1p": _ON_RESPONSE,
    "logistic": ("log_loss", "brier", "squared_error"),
    "odds": ("log_loss", "brier"),
    "sign": ("zero_one",),
}


def check_deltas(loss: Loss | None, largest: float) -> None:
    """Raise `Declined` where means of Huber losses lose digits: they are differences of squares of residuals.

    Relative to the loss, the rounding of squares grows with the largest residual, in multiples of delta.
    """
    if loss is not None and loss.name == "huber" and not largest <= MOST_DELTAS * dict(loss.parameters)["delta"]:
        raise Declined(
            f"changes of over {MOST_DELTAS:,} times the Huber loss's delta would leave its means only rounding error"
        )


class MeanLosses(Protocol):
    """Mean losses over all pairs of rows u and donors v; up to a constant of each row, the same in all methods."""

    def over_donors(self, v: Floats, weight: Floats) -> Floats:
        """The mean loss of each row over the donors, whose numbers are v, (n,)."""

    def over_rows(self, v: Floats, weight: Floats) -> Floats:
        """The mean loss over the rows for each donor's v, (n,)."""

    def own(self, v: Floats) -> Floats:
        """The loss of each row with the v of its own, (n,)."""


@dataclass(frozen=True, eq=False)
class Piecewise:
    """The loss of row i at v: ``sum over s of (last[s, i] + changes[s, i] up to kinks) functions[s](v)``.

    A row's terms without v may be left out. Sums up to a kink hold no larger v: where functions grow with v, those of
    donors far beyond would swallow their digits.
    """

    functions: Callable[[Floats], Floats]  # v, (m,) -> (S, m)
    last: Floats  # (S, n): coefficients beyond the last kink
    kinks: Sequence[tuple[Floats, Floats]] = ()  # where, (n,), and what is added to the coefficients up to it, (S, n)

    def over_donors(self, v: Floats, weight: Floats) -> Floats:
        """The mean losses of rows, from means of the functions over all donors, and over those up to each kink."""
        weighted = weight * self.functions(v)
        means = weighted.sum(axis=1) @ self.last
        if self.kinks:
            order = np.argsort(v)
            sums, ordered = np.zeros((len(weighted), len(v) + 1)), v[order]
            np.cumsum(weighted[:, order], axis=1, out=sums[:, 1:])
            for kink, change in self.kinks:
                means += np.sum(change * sums[:, np.searchsorted(ordered, kink, "right")], axis=0)
        return np.asarray(means)

    def over_rows(self, v: Floats, weight: Floats) -> Floats:
        """The means over rows, from those of the coefficients of all rows, and of rows whose kinks are not exceeded."""
        values = self.functions(v)
        means = (self.last @ weight) @ values
        for kink, change in self.kinks:
            order = np.argsort(-kink)
            sums = np.zeros((len(values), len(kink) + 1))
            np.cumsum((weight * change)[:, order], axis=1, out=sums[:, 1:])
            means += np.sum(sums[:, np.searchsorted(-kink[order], -v, "right")] * values, axis=0)
        return np.asarray(means)

    def own(self, v: Floats) -> Floats:
        """The loss of each row at its own v."""
        coefficients = self.last + sum(np.where(v <= kink, change, 0.0) for kink, change in self.kinks)
        return np.asarray(np.sum(coefficients * self.functions(v), axis=0))


def _powers(highest: int) -> Callable[[Floats], Floats]:
    return lambda v: np.stack([v**d for d in range(highest + 1)])


def _lines(zero: Floats, below: Floats | float, above: Floats | float) -> Piecewise:
    """``below max(0, zero - v) + above max(0, v - zero)``."""
    one, both = np.ones(len(zero)), np.add(below, above)
    return Piecewise(_powers(1), np.stack([-above * zero, above * one]), [(zero, both * np.stack([zero, -one]))])


def _weights_of_sides(loss: Loss) -> tuple[float, float]:
    """Slopes of the absolute and the pinball loss, below and above y."""
    alpha = dict(loss.parameters).get("alpha")
    return (1.0, 1.0) if alpha is None else (alpha, 1 - alpha)


def of_identity(loss: Loss, y: NDArray[Any], u: Floats, v: Floats) -> Piecewise:
    """f = u + v."""
    if loss.name == "hinge":
        sign = np.where(y == 1, 1.0, -1.0)
        return _lines(sign - u, np.maximum(sign, 0), np.maximum(-sign, 0))
    zero = np.asarray(y, float) - u  # where the residual is 0
    if loss.name in ("absolute_error", "pinball"):
        return _lines(zero, *_weights_of_sides(loss))
    one = np.ones(len(u))
    if loss.name == "squared_error":
        return Piecewise(lambda v: np.stack([v, v**2]), np.stack([-2 * zero, one]))
    delta = dict(loss.parameters)["delta"]
    return _huber(_powers(2), zero, one, (zero - delta, zero + delta), delta, v)


def _huber(
    functions: Callable[[Floats], Floats], q: Floats, b: Floats, kinks: tuple[Floats, Floats], delta: float, v: Floats
) -> Piecewise:
    """The residual is ``q - b a``, with functions 1, a and a^2 of v; it is delta at the first of the kinks, and -delta
    at the second. A row that no kink divides has one polynomial, without its constant: the square of its residual, or
    of delta, could be far larger than any change.
    """
    low, high = kinks
    none = np.zeros(len(q))
    below = np.stack([delta * q - delta**2 / 2, -delta * b, none])
    between = np.stack([q**2 / 2, -q * b, b**2 / 2])
    above = np.stack([-delta * q - delta**2 / 2, delta * b, none])
    inside, beneath, beyond = (low <= v.min()) & (v.max() <= high), v.max() <= low, high <= v.min()
    bent = ~(inside | beneath | beyond)
    last = np.where(inside, between, np.where(beneath, below, above))
    last[0] *= bent
    if not bent.any():
        return Piecewise(functions, last)
    return Piecewise(functions, last, [(low, bent * (below - between)), (high, bent * (between - above))])


def _power(alpha: float, v: Floats) -> tuple[Callable[[Floats], Floats], float, float]:
    """A function of v, c and d with ``exp(alpha v) = exp(alpha c) (d + function)``: at most 1, so nothing overflows.

    d = 1 where v hardly varies, so that differences keep their digits.
    """
    c = float(v.max() if alpha > 0 else v.min())
    if np.ptp(v) < 1:
        return lambda x: np.expm1(alpha * (x - c)), c, 1.0
    return lambda x: np.exp(alpha * (x - c)), c, 0.0


def of_log(loss: Loss, y: NDArray[Any], u: Floats, v: Floats) -> Piecewise:
    """f = exp(u + v) = b (d + a), b of the row and a of the donor."""
    y = np.asarray(y, float)
    if loss.name in _DEVIANCES:
        return _deviance(loss, y, u, v)
    a, c, d = _power(1.0, v)
    b = np.exp(u + c)
    q = y - d * b
    if loss.name == "squared_error":
        return Piecewise(lambda x: np.stack([a(x), a(x) ** 2]), np.stack([-2 * q * b, b**2]))
    if loss.name == "huber":
        delta = dict(loss.parameters)["delta"]
        low, high = (_log(y + side) - u for side in (-delta, delta))
        return _huber(lambda x: np.stack([np.ones(len(x)), a(x), a(x) ** 2]), q, b, (low, high), delta, v)
    below, above = _weights_of_sides(loss)
    residual = np.stack([q, -b])
    kink = _log(y) - u, (below + above) * residual
    return Piecewise(lambda x: np.stack([np.ones(len(x)), a(x)]), -above * residual, [kink])


def _log(y: Floats) -> Floats:
    """Minus infinity where no prediction is as low."""
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(y, 0))


def _deviance(loss: Loss, y: Floats, u: Floats, v: Floats) -> Piecewise:
    """Twice ``f^(2 - p) / (2 - p) - y f^(1 - p) / (1 - p)``: two powers, or a power and a logarithm."""
    power = {"poisson_deviance": 1.0, "gamma_deviance": 2.0}.get(loss.name) or dict(loss.parameters)["power"]
    functions: list[Callable[[Floats], Floats]] = []
    coefficients = []
    for alpha, factor in ((1 - power, -y), (2 - power, np.ones(len(y)))):
        if alpha == 0:  # f^alpha / alpha has the limit log f
            functions.append(lambda x: x)
            coefficients.append(2 * factor)
        else:
            function, c, _ = _power(alpha, v)
            functions.append(function)
            coefficients.append(2 * factor / alpha * np.exp(alpha * (u + c)))
    return Piecewise(lambda x: np.stack([function(x) for function in functions]), np.stack(coefficients))


def of_sign(y: NDArray[Any], u: Floats) -> Piecewise:
    """The second class where the sum is above 0."""
    wrong = np.asarray(y != 1, float)[None]
    return Piecewise(_powers(0), wrong, [(-u, 1 - 2 * wrong)])


def check_ties(kinks: Floats, v: Floats, margin: float, tied: str) -> None:
    """Raise `Declined` if a v is within a margin of one of the kinks, where a label changes."""
    ordered = np.sort(v)
    if np.any(np.searchsorted(ordered, kinks - margin) != np.searchsorted(ordered, kinks + margin, "right")):
        raise Declined(tied)


# Logistic functions.


def _softplus(z: Floats) -> Floats:
    return np.logaddexp(0.0, z)


def logistic(z: Floats) -> Floats:
    """1 / (1 + exp(-z)), without overflow."""
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, small) / (1 + small))


def _functions(loss: Loss) -> tuple[Callable[[Floats], Floats], ...]:
    """The loss of either class; for numbers y the functions that are multiplied by -2y and by 1."""
    if loss.name == "log_loss":
        return _softplus, lambda z: _softplus(-z)
    if loss.name == "brier":
        return lambda z: logistic(z) ** 2, lambda z: logistic(-z) ** 2
    return logistic, lambda z: logistic(z) ** 2


@dataclass(frozen=True, eq=False)
class Interpolated:
    """Losses of logistic functions; log losses are clipped at `ceiling`."""

    loss: Loss
    y: NDArray[Any]
    u: Floats
    base: Floats  # losses of the rows as they are
    ceiling: float | None

    def over_donors(self, v: Floats, weight: Floats) -> Floats:
        """The mean losses of rows: tables of the grid, for each class, or for each power of the prediction."""
        u, v = within_reach(self.u, v)
        rows, donors = GridAxis.of(u), GridAxis.of(v)
        masses = donors.masses(_one_table(v), weight, 1)[0]
        values = np.stack([means_of_sums(phi, rows, donors, masses) for phi in _functions(self.loss)])
        if self.loss.reads != "values":
            means, excess = rows.interpolate(self._class, values), self._excess(u, v)
            return means if excess is None else means - excess.over_donors(v, weight)
        linear, square = (rows.interpolate(_one_table(u), one[None]) for one in values)
        return np.asarray(self.y * (self.y - 2 * linear) + square)

    def over_rows(self, v: Floats, weight: Floats) -> Floats:
        """The means over rows: those of each class, or weighted by each power of y, have their own masses."""
        u, v = within_reach(self.u, v)
        rows, donors = GridAxis.of(u), GridAxis.of(v)
        if self.loss.reads != "values":
            masses, excess = rows.masses(self._class, weight, 2), self._excess(u, v)
            constant = 0.0 if excess is None else -excess.over_rows(v, weight)
        else:
            masses = np.concatenate([rows.masses(_one_table(u), w, 1) for w in (-2 * self.y * weight, weight)])
            constant = weight @ np.asarray(self.y**2, float)
        both = [means_of_sums(phi, donors, rows, mass) for phi, mass in zip(_functions(self.loss), masses, strict=True)]
        return np.asarray(donors.interpolate(_one_table(v), np.sum(both, axis=0)[None]) + constant)

    def own(self, v: Floats) -> Floats:
        """The losses of the unchanged rows, as computed from predictions."""
        return self.base

    def clipped(self, v: Floats, weight: Floats) -> float:
        """The share of the pairs whose loss is at the ceiling."""
        if (excess := self._excess(self.u, v)) is None:
            return 0.0
        above = np.asarray(self._class != 1, float)[None]  # the second class is clipped where sums are low
        counted = Piecewise(_powers(0), above, [(kink, 1 - 2 * above) for kink, _ in excess.kinks])
        return float(weight @ counted.over_donors(v, weight))

    @property
    def _class(self) -> NDArray[np.uint8]:
        return np.asarray(self.y, np.uint8)

    def _excess(self, u: Floats, v: Floats) -> Piecewise | None:
        """How far losses are above the ceiling, where they are linear to 2e-16; None if none is."""
        c = self.ceiling
        if c is None or (u.max() + v.max() < c and u.min() + v.min() > -c):
            return None
        second = self._class == 1  # whose loss grows as the sum falls
        return _lines(np.where(second, -c, c) - u, second.astype(float), (~second).astype(float))


def _one_table(x: Floats) -> NDArray[np.uint8]:
    return np.zeros(len(x), np.uint8)


def within_reach(u: Floats, v: Floats) -> tuple[Floats, Floats]:
    """The numbers, clipped where all their sums saturate: there losses are clipped, and probabilities 0 or 1."""
    if max(u.max() + v.max(), -u.min() - v.min()) <= SATURATED:
        return u, v
    u = _towards(u, v)
    return u, _towards(v, u)


def _towards(x: Floats, other: Floats) -> Floats:
    """The numbers x, clipped where their sums with every other number are beyond `SATURATED`."""
    return np.clip(x, -SATURATED - float(other.max()), SATURATED - float(other.min()))


def mean_probability(u: Floats, v: Floats, weight: Floats) -> Floats:
    """The mean probability over the rows for each donor's v."""
    u, v = within_reach(u, v)
    rows, donors = GridAxis.of(u), GridAxis.of(v)
    masses = rows.masses(_one_table(u), weight, 1)[0]
    return donors.interpolate(_one_table(v), means_of_sums(logistic, donors, rows, masses)[None])
