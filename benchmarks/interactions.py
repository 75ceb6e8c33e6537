"""Loss interactions of pairs: what intervals and tests hold, predictions, and seconds with trees against brute force.

`f = x0 + x1 + x2 + x0 x1` with independent normal features is both the model and, with noise, the truth. Replacing x0
adds ``(x0 - x0') (1 + x1)`` to the residual, of mean square 2 * 2 = 4; so does x1, and x2 adds 2. Replacing x0 and x1
together adds ``d0 + d1 + x0 x1 - x0' x1'``, of mean square 2 + 2 + 2: I_01 = 4 + 4 - 6 = 2, all others are 0.

With r the correlation of x0 and x1, I_01 of x0 x1 alone has two parts: ``-2 r^2`` shared information, and the model's
interaction ``2 + 4 r^2`` (derived in tests/verbs/test_interactions.py).

Bars: those of `benchmarks.coverage`; of the 15 pairs of six features that a model only adds up any one is found, after
Holm, in at most 6 % of the runs. The report's sentence "a and b work together" is told of an interaction of half the
main effect in at least 80 % of the runs (boosting, fitted to 500 rows, 500 new ones), of a model that only adds two
correlated features never, and of boosting on independent features that the truth only adds in at most 5 %.
`python -m benchmarks.interactions [--quick] [--only coverage,parts,told,predictions,trees]`.
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
from sklearn.linear_model import LinearRegression, LogisticRegression

import losslens as ll
from benchmarks.coverage import FLAGGED, HEAD, HOW, SIZES, Bar, Counted, Line, bar_for, simulate, within
from benchmarks.coverage_cases import NOISE
from benchmarks.peers import seconds
from losslens.page.findings import Findings, pairs_dict
from losslens.results.sentences import works_together

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
    low, high = found.interval()
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


def parts(runs: int) -> Iterator[Line]:
    """95 % intervals of the two parts of x0 x1, correlated and not."""
    for n in SIZES:
        for r in (0.0, 0.9):
            for name, design in {"all pairs": "all", "Latin(8)": ll.Latin(8)}.items():
                for what, held in simulate(partial(_split, n, r, design), runs).items():
                    yield Line(f"x0 x1, r = {r:g}", f"{what}, {name}", n, held, bar_for(n))


def _split(n: int, r: float, design: Any, seed: int) -> Counted:
    rng = np.random.default_rng([seed, n, 2])
    X = rng.normal(size=(n, 2))
    X[:, 1] = r * X[:, 0] + np.sqrt(1 - r * r) * X[:, 1]
    y = X[:, 0] * X[:, 1] + NOISE * rng.normal(size=n)
    found = ll.pair_interactions(lambda X: X[:, 0] * X[:, 1], X, y, donors=design, random_state=seed, **HOW)
    truth = {"shared": -2 * r * r, "interaction": 2 + 4 * r * r, "strength": 4 + 8 * r * r}
    ends = {part: [end[0, 1] for end in found.of_part(part).interval()] for part in truth}
    return {part: np.atleast_1d(within(ends[part], value)) for part, value in truth.items()}


TOLD_ROWS = 500


def told(runs: int) -> Iterator[Line]:
    """How often the report says that two features work together: where they do, and where they don't."""
    cases: dict[str, tuple[Any, Bar | None]] = {
        "half the main effect": (_combined, Bar(0.8)),
        "linear, r = .92": (_linear, Bar(high=0.0)),
        "logistic, r = .92": (_logistic, Bar(high=0.0)),
        "stumps, r = .92": (_stumps, Bar(high=0.0)),
        "boosting, truth adds": (_boosted, Bar(high=0.05)),
        # Not false: far from the diagonal it has no rows to fit, and there it does combine the two.
        "boosting, truth adds, r = .7": (_boosted_correlated, None),
    }
    for name, (case, bar) in cases.items():
        for what, held in simulate(case, runs).items():
            yield Line("told", f"{name}: {what}", TOLD_ROWS, held, bar)


def _said(model: Any, X: Any, y: Any, first: str = "", second: str = "") -> Counted:
    """Whether the page says that some pair works together, or this one."""
    found = ll.pair_interactions(model, X, y, progress=False)
    said = works_together(pairs_dict(Findings(found, "", None, None, lambda one: None, "")))
    return {
        "told": np.array(
            [said.startswith((f"{first} and {second} ", f"{second} and {first} ")) if first else bool(said)]
        )
    }


def _rows(seed: int, r: float, truth: Any) -> tuple[Any, Any, Any, Any]:
    """Rows to fit, and as many new ones: four normal features, the first two of correlation r."""
    rng = np.random.default_rng([seed, 3])
    X = rng.normal(size=(2 * TOLD_ROWS, 4))
    X[:, 1] = r * X[:, 0] + np.sqrt(1 - r * r) * X[:, 1]
    y = truth(X) + NOISE * rng.normal(size=len(X))
    return X[:TOLD_ROWS], y[:TOLD_ROWS], X[TOLD_ROWS:], y[TOLD_ROWS:]


def _summed(X: Any) -> Any:
    return X[:, 0] + X[:, 1]


def _combined(seed: int) -> Counted:
    X, y, Z, t = _rows(seed, 0.0, lambda X: _summed(X) + 0.5 * X[:, 0] * X[:, 1])
    return _said(HistGradientBoostingRegressor(random_state=0).fit(X, y), Z, t, "x0", "x1")


def _linear(seed: int) -> Counted:
    X, y, Z, t = _rows(seed, 0.92, _summed)
    return _said(LinearRegression().fit(X, y), Z, t)


def _logistic(seed: int) -> Counted:
    X, y, Z, t = _rows(seed, 0.92, _summed)
    return _said(LogisticRegression().fit(X, y > 0), Z, t > 0)


def _stumps(seed: int) -> Counted:
    X, y, Z, t = _rows(seed, 0.92, _summed)
    return _said(HistGradientBoostingRegressor(max_depth=1, random_state=0).fit(X, y), Z, t)


def _boosted(seed: int) -> Counted:
    X, y, Z, t = _rows(seed, 0.0, _summed)
    return _said(HistGradientBoostingRegressor(random_state=0).fit(X, y), Z, t)


def _boosted_correlated(seed: int) -> Counted:
    X, y, Z, t = _rows(seed, 0.7, _summed)
    return _said(HistGradientBoostingRegressor(random_state=0).fit(X, y), Z, t)


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
    parser.add_argument("--only", default="coverage,parts,told,predictions,trees")
    parser.add_argument("--quick", action="store_true", help="few simulations: nothing is held to a bar")
    parser.add_argument("--simulations", type=int, default=None, help="a line; 1000 unless told")
    asked = parser.parse_known_args()[0]
    chosen = asked.only.split(",")
    for simulated in (coverage, parts, told):
        if simulated.__name__ in chosen:
            print(HEAD)
            for line in simulated(asked.simulations or (50 if asked.quick else 1000)):
                print(line, flush=True)
    for name, lines in (("predictions", predictions), ("trees", partial(trees, asked.quick))):
        for text in lines() if name in chosen else ():
            print(text, flush=True)


if __name__ == "__main__":
    main()
