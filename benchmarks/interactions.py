"""Loss interactions of pairs: what intervals and tests hold, predictions, and seconds with trees against brute force.

`f = x0 + x1 + x2 + x0 x1` with independent normal features is both the model and, with noise, the truth. Replacing x0
adds ``(x0 - x0') (1 + x1)`` to the residual, of mean square 2 * 2 = 4; so does x1, and x2 adds 2. Replacing x0 and x1
together adds ``d0 + d1 + x0 x1 - x0' x1'``, of mean square 2 + 2 + 2: I_01 = 4 + 4 - 6 = 2, all others are 0.

Bars: those of `benchmarks.coverage`; of the 15 pairs of six features that a model only adds up any one is found, after
Holm, in at most 6 % of the runs. `python -m benchmarks.interactions [--quick] [--only coverage,predictions,trees]`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import losslens as ll
from benchmarks.coverage import FLAGGED, HEAD, HOW, SIZES, Bar, Counted, Line, bar_for, simulate, within
from benchmarks.coverage_cases import NOISE
from benchmarks.peers import seconds

TRUTH = np.array([2.0, 0.0, 0.0])  # of (x0, x1), (x0, x2), (x1, x2)
ADDED = 6  # features of the model that only adds
DESIGNS = {"all pairs": "all", "Latin(8)": ll.Latin(8), "Permutations(5)": ll.Permutations(5)}
P, ROWS, REPEATS = 10, 300, 30  # features and rows whose predictions are counted; repeats that peers take
ASKED = 100_000  # predictions of which the time of brute force is measured


def product(X: Any) -> Any:
    """The model, and the truth but for noise."""
    return X[:, 0] + X[:, 1] + X[:, 2] + X[:, 0] * X[:, 1]


def adding(X: Any) -> Any:
    """A model without interactions."""
    return X @ np.linspace(1.0, 0.2, X.shape[1])


def _counting(asked: list[int], X: Any) -> Any:
    asked.append(len(X))
    return adding(X)


def coverage(runs: int) -> Iterator[Line]:
    """95 % intervals of all three pairs, and false findings."""
    for n in SIZES:
        for name, design in DESIGNS.items():
            for what, held in simulate(partial(_covered, n, design), runs).items():
                each = " ".join(f"{100 * share:.1f}" for share in held.mean(axis=0))
                yield Line("x0 x1", f"{what}, {name}", n, held, bar_for(n), f"x0 x1, x0 x2, x1 x2: {each}")
        for name, design in DESIGNS.items():
            for what, held in simulate(partial(_flagged, n, design), runs).items():
                yield Line("only added", f"{what}, {name}", n, held, FLAGGED if "Holm" in what else Bar(0.03, 0.06))


def _covered(n: int, design: Any, seed: int) -> Counted:
    rng = np.random.default_rng([seed, n])
    X = rng.normal(size=(n, 3))
    y = product(X) + NOISE * rng.normal(size=n)
    found = ll.pair_interactions(product, X, y, donors=design, random_state=seed, **HOW)
    upper = np.triu_indices(3, 1)
    low, high = found.intervals()
    return {"interval": within((low[upper], high[upper]), TRUTH)}


def _flagged(n: int, design: Any, seed: int) -> Counted:
    rng = np.random.default_rng([seed, n])
    X = rng.normal(size=(n, ADDED))
    y = adding(X) + NOISE * rng.normal(size=n)
    found = ll.pair_interactions(adding, X, y, donors=design, random_state=seed, **HOW)
    upper = np.triu_indices(ADDED, 1)
    return {
        "pairs with p < 0.05": found.p[upper] < 0.05,
        "any after Holm": np.atleast_1d(np.any(found.p_adjusted[upper] < 0.05)),
    }


def predictions() -> Iterator[str]:
    """Rows that a bare function is asked for: the features alone and one group a pair, each with the same donors."""
    X = np.random.default_rng(0).normal(size=(ROWS, P))
    y = adding(X)
    pairs = P * (P - 1) // 2
    for name, design in {"all pairs": "all", f"Permutations({REPEATS})": ll.Permutations(REPEATS)}.items():
        asked: list[int] = []
        found = ll.pair_interactions(partial(_counting, asked), X, y, donors=design, random_state=0, **HOW)
        m = ROWS - 1 if design == "all" else REPEATS
        apart = pairs * 3 * ROWS * m
        yield (
            f"{name:20}{P} features, {pairs} pairs, n = {ROWS}: {sum(asked):,} predictions, of which a group a pair is "
            f"{pairs * ROWS * m:,}; each pair by itself, three importances each: {apart:,} ({apart / sum(asked):.1f} x)"
        )
        assert sum(asked) == found.n_predictions


def trees(quick: bool) -> Iterator[str]:
    """All 45 pairs of ten features over all n^2 pairs of rows, with intervals; brute force from part of its rows."""
    X, y = make_friedman1(12_000, n_features=P, noise=1.0, random_state=0)
    models = {
        "boosting, 100 trees": HistGradientBoostingRegressor(max_iter=100, random_state=0),
        "forest, 100 trees": RandomForestRegressor(100, random_state=0, n_jobs=1),
    }
    pairs = list(combinations([f"x{j}" for j in range(P)], 2))
    for name, model in models.items():
        model.fit(X[:2000], y[:2000])
        for n in (2000,) if quick else (2000, 10_000):
            Z, t = X[2000 : 2000 + n], y[2000 : 2000 + n]
            few = pairs if name.startswith("boosting") else pairs[:: len(pairs) // 4][:4]
            ll.pair_interactions(model, Z[:50], t[:50], pairs=few, progress=False)  # compiled
            took = seconds(partial(ll.pair_interactions, model, Z, t, pairs=few, progress=False))
            found = ll.pair_interactions(model, Z, t, pairs=[("x0", "x1")], progress=False)
            assert found.std_error is not None
            block = np.resize(Z, (ASKED, P))
            brute = (
                seconds(partial(model.predict, block)) / ASKED * n * n * (len(few) + len({a for p in few for a in p}))
            )
            yield (
                f"{name:22}n = {n:6,}  {len(few):2} pairs: {took:7.1f} s, {took / len(few):6.2f} a pair; predict alone "
                f"would take {brute:9,.0f} s ({brute / took:,.0f} x)   x0, x1: {found['x0', 'x1']:.3f} ± "
                f"{found.std_error[0, 1]:.3f}"
            )


def main() -> None:
    """Print all lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="coverage,predictions,trees")
    parser.add_argument("--quick", action="store_true", help="few simulations: nothing is held to a bar")
    parser.add_argument("--simulations", type=int, default=None, help="a line; 1000 unless told")
    asked = parser.parse_known_args()[0]
    chosen = asked.only.split(",")
    if "coverage" in chosen:
        print(HEAD)
        for line in coverage(asked.simulations or (50 if asked.quick else 1000)):
            print(line, flush=True)
    for name, lines in (("predictions", predictions), ("trees", partial(trees, asked.quick))):
        for text in lines() if name in chosen else ():
            print(text, flush=True)


if __name__ == "__main__":
    main()
