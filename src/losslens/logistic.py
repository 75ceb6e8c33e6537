"""Logistic regression with a penalty for each coefficient, by Newton's method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
STEPS, HALVINGS = 25, 12
ENOUGH = 1e-5  # of the objective a unit of weight: a smaller gain ends the search


def fit(terms: Floats, answer: Floats, weight: Floats, penalty: Floats) -> Floats:
    """Coefficients b that minimise ``sum w (log(1 + e^eta) - y eta) + sum penalty b^2 / 2`` with ``eta = terms b``.

    Parameters
    ----------
    terms
        (n, q); a constant is a term like any other.
    answer
        (n,): 0 or 1.
    weight
        (n,).
    penalty
        (q,), at least 0. Where it is positive for all but a constant the answer exists also where a plane parts
        the zeros from the ones.
    """
    found = np.zeros(terms.shape[1])
    now = _objective(terms, answer, weight, penalty, found)
    for _ in range(STEPS):
        chance = 0.5 + 0.5 * np.tanh(terms @ found / 2)  # 1 / (1 + e^-eta), without overflow
        gradient = terms.T @ (weight * (chance - answer)) + penalty * found
        curvature = (terms * (weight * chance * (1 - chance))[:, None]).T @ terms
        curvature[np.diag_indices_from(curvature)] += penalty + 1e-9  # terms may say the same twice
        step = np.linalg.solve(curvature, gradient)
        for _ in range(HALVINGS):  # a full step can go too far
            new = _objective(terms, answer, weight, penalty, found - step)
            if new <= now:
                break
            step /= 2
        if not now - new > 0:
            break
        found, gain, now = found - step, now - new, new
        if gain < ENOUGH * weight.sum():
            break
    return found


def _objective(terms: Floats, answer: Floats, weight: Floats, penalty: Floats, at: Floats) -> float:
    eta = terms @ at
    return float(weight @ (np.logaddexp(0.0, eta) - answer * eta) + 0.5 * penalty @ at**2)
