"""What weak_segments finds where the error is the same everywhere, and where it is not: simulated, and counted.

Bars: where losses have nothing to do with any column any segment is found in at most 5 % of the runs, give or take
two errors of the simulation: normal and lognormal noise, the log loss of one positive in twenty, weights, groups of
rows with a common error, 100 rows, 40 columns. A segment with twice the error and 15 % of 1,000 rows is found in at
least 80 %, by the squared and the absolute error and by the rate of errors, with one condition, with two, and in a
category. Found: a segment is told whose rows overlap with it by half (Jaccard). The 95 % interval of its error covers
the error of new rows under the told rule in at least 91 %, and all segments that are told are worse than the other
rows in at least 95 %. Under 100 rows the result says why there is none.

Lines without a bar are there to be read: losses that only vary more in places, intervals of a column.
`python -m benchmarks.segments [--quick] [--only noise,power] [--simulations 1000]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import losslens as ll
from benchmarks.coverage import AT_LEAST, Bar, Counted, Line, print_table, simulate
from losslens.results import WeakSegments

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Where = Callable[[pd.DataFrame], Mask]
N, SMALL, COLUMNS = 1000, 100, 8
QUIET, FOUND, SURE, ALWAYS = Bar(high=0.05), Bar(0.80), Bar(0.95), Bar(1.0)


def table(rng: np.random.Generator, n: int, columns: int = COLUMNS) -> pd.DataFrame:
    """Numbers, one of four categories, yes or no, whole numbers."""
    X = pd.DataFrame(rng.normal(size=(n, columns - 3)), columns=[f"x{j}" for j in range(columns - 3)])
    return X.assign(kind=rng.choice(list("abcd"), n), flag=rng.integers(0, 2, n), hour=rng.integers(0, 24, n))


def zero(X: Any) -> Floats:
    return np.zeros(len(X))


def look(X: pd.DataFrame, e: Floats, seed: int, loss: Any = "squared_error", **how: Any) -> WeakSegments:
    """Segments of a model that predicts 0, with errors e."""
    return ll.weak_segments(zero, X, e, loss=loss, random_state=seed, progress=False, **how)


def one(held: Any) -> Mask:
    return np.array([bool(held)])


# -- nothing to be found ------------------------------------------------------------------------------------------


def noise(runs: int) -> Iterator[Line]:
    """Any segment, where the error is the same everywhere."""
    for name, n, run in NULLS:
        yield Line(name, "any segment", n, simulate(run, runs)["any"], None if name.startswith(" ") else QUIET)


def _nothing(draw: Callable[[np.random.Generator, int], Floats], n: int, seed: int, columns: int = COLUMNS) -> Counted:
    rng = np.random.default_rng([seed, n, 1])
    return {"any": one(look(table(rng, n, columns), draw(rng, n), seed).segments)}


def _normal(rng: np.random.Generator, n: int) -> Floats:
    return rng.normal(size=n)


def _lognormal(rng: np.random.Generator, n: int) -> Floats:
    return rng.lognormal(size=n)


def _rare(seed: int) -> Counted:
    """One in twenty is positive, and the model says so; the log loss of a positive is 58 times that of the others."""
    rng = np.random.default_rng([seed, 2])
    y = np.r_[np.ones(1, int), np.zeros(1, int), (rng.random(N - 2) < 0.05).astype(int)]
    found = ll.weak_segments(_one_in_twenty, table(rng, N), y, loss="log_loss", random_state=seed, progress=False)
    return {"any": one(found.segments)}


def _one_in_twenty(X: Any) -> Floats:
    return np.tile([0.95, 0.05], (len(X), 1))


def _weighted(seed: int) -> Counted:
    rng = np.random.default_rng([seed, 3])
    X = table(rng, N)
    return {"any": one(look(X, rng.normal(size=N), seed, sample_weight=rng.gamma(0.7, size=N) + 0.01).segments)}


def grouped(rng: np.random.Generator, groups: int) -> tuple[pd.DataFrame, NDArray[np.intp], Floats]:
    """Groups of 1 to 30 rows with a common part in x0, x1, the kind and the error."""
    block = np.repeat(np.arange(groups), 1 + rng.poisson(rng.gamma(1.5, 6, size=groups)))
    shared, X = rng.normal(size=(groups, 3))[block], table(rng, len(block))
    X["x0"], X["x1"] = shared[:, 0], X["x1"] + shared[:, 1]
    X["kind"] = rng.choice(list("abcd"), groups)[block]
    return X, block, rng.normal(size=len(block)) + shared[:, 2]


def _in_groups(seed: int, told: bool = True) -> Counted:
    X, block, e = grouped(np.random.default_rng([seed, 4]), 100)
    return {"any": one(look(X, e, seed, groups=block if told else None).segments)}


def _uneven(seed: int) -> Counted:
    """The mean loss is 1 everywhere, its variance 0.2 or 5: absolute errors of a gamma distribution."""
    rng = np.random.default_rng([seed, 5])
    X = table(rng, N)
    shape = np.where(X["x0"] > 1, 0.2, 5.0)
    return {"any": one(look(X, rng.gamma(shape, 1 / shape), seed, "absolute_error").segments)}


NULLS: tuple[tuple[str, int, Callable[[int], Counted]], ...] = (
    ("normal noise", N, partial(_nothing, _normal, N)),
    ("normal noise", SMALL, partial(_nothing, _normal, SMALL)),
    ("40 columns", N, partial(_nothing, _normal, N, columns=40)),
    ("lognormal", N, partial(_nothing, _lognormal, N)),
    ("lognormal", SMALL, partial(_nothing, _lognormal, SMALL)),
    ("rare positives", N, _rare),
    ("weights", N, _weighted),
    ("100 groups", N, _in_groups),
    ("  not told", N, partial(_in_groups, told=False)),
    ("  uneven", N, _uneven),
)


# -- something to be found ----------------------------------------------------------------------------------------

TWICE = np.sqrt(2)  # times the standard deviation: twice the squared error
PLACES: dict[str, Where] = {
    "one condition": lambda X: (X["x0"] > 1.0364).to_numpy(),
    "two conditions": lambda X: ((X["x0"] > 0.2858) & (X["x1"] < -0.2858)).to_numpy(),
    "category+side": lambda X: ((X["kind"] == "b") & (X["x1"] > -0.2533)).to_numpy(),
    "  a middle": lambda X: (X["x0"].abs() < 0.1891).to_numpy(),
    "  hours 7 to 9": lambda X: X["hour"].between(7, 9).to_numpy(),
}


def power(runs: int) -> Iterator[Line]:
    """A segment with twice the error is told."""
    for place, where in PLACES.items():
        for number, held in simulate(partial(_found, where), runs).items():
            yield Line(place, number, N, held, None if place.startswith(" ") else FOUND)
    held = simulate(partial(_found_in_groups), runs)["found"]
    yield Line("  one condition", "found, 100 groups", N, held)


def _found(where: Where, seed: int) -> Counted:
    rng = np.random.default_rng([seed, 6])
    X, e = table(rng, N), rng.normal(size=N)
    there = where(X)
    wrong = (rng.random(N) < np.where(there, 0.4, 0.2)).astype(int)
    calls = {
        "found, squared error": look(X, e * np.where(there, TWICE, 1), seed),
        "found, absolute error": look(X, e * np.where(there, 2, 1), seed, "absolute_error"),
        "found, zero-one": ll.weak_segments(_no, X, wrong, loss="zero_one", random_state=seed, progress=False),
    }
    return {name: one(_overlaps(found, there)) for name, found in calls.items()}


def _no(X: Any) -> NDArray[np.intp]:
    return np.zeros(len(X), int)


def _overlaps(found: WeakSegments, there: Mask) -> bool:
    masks = [found.mask(k) for k in range(len(found.segments))]
    return any((mask & there).sum() >= 0.5 * (mask | there).sum() for mask in masks)


def _found_in_groups(seed: int) -> Counted:
    X, block, e = grouped(np.random.default_rng([seed, 7]), 100)
    there = PLACES["one condition"](X)
    return {"found": one(_overlaps(look(X, e * np.where(there, 2, 1), seed, groups=block), there))}


# -- what is told -------------------------------------------------------------------------------------------------

NEW = 200_000  # rows that say what is true of a rule


def told(runs: int) -> Iterator[Line]:
    """Of the runs that tell a segment: its interval holds the error of new rows, which is larger than elsewhere."""
    for place in ("one condition", "two conditions"):
        held = simulate(partial(_sentences, PLACES[place]), runs)
        for number, bar in (("interval of the error", AT_LEAST), ("interval of the ratio", AT_LEAST), ("worse", SURE)):
            yield Line(place, number, N, held[number][held["told"][:, 0]], bar)


def _sentences(where: Where, seed: int) -> Counted:
    rng = np.random.default_rng([seed, 6])
    X, e = table(rng, N), rng.normal(size=N)
    found = look(X, e * np.where(where(X), TWICE, 1), seed)
    new = table(np.random.default_rng([seed, 8]), NEW)
    truth = np.where(where(new), 2.0, 1.0)
    held = {"interval of the error": True, "interval of the ratio": True, "worse": True, "told": bool(found.segments)}
    if found.segments:
        first = found.segments[0]
        there = fulfils(first.rule, new)
        here, other = truth[there].mean(), truth[~there].mean()
        held |= {"interval of the error": first.judged_low <= here <= first.judged_high}
        held |= {"interval of the ratio": first.ratio_low <= here / other <= first.ratio_high}
        held |= {"worse": all(_worse(truth, fulfils(segment.rule, new)) for segment in found.segments)}
    return {name: one(value) for name, value in held.items()}


def _worse(truth: Floats, there: Mask) -> bool:
    return bool(truth[there].mean() > truth[~there].mean())


def fulfils(rule: str, X: pd.DataFrame) -> Mask:
    """The rows of a table under a rule in words."""
    there = np.ones(len(X), bool)
    for part in rule.split(" and "):
        words = part.split()
        if len(words) == 5:  # low < column ≤ high
            low, _, column, _, high = words
            there &= ((X[column] > float(low)) & (X[column] <= float(high))).to_numpy()
            continue
        column, how, value = words
        values = X[column]
        if how in ("≤", ">"):
            there &= ((values <= float(value)) == (how == "≤")).to_numpy()
        else:
            there &= ((values.astype(str) == value) == (how == "=")).to_numpy()
    return there


def few(runs: int) -> Iterator[Line]:
    """Fewer than 100 rows."""
    held = simulate(_few, min(runs, 50))["says why there is none"]
    yield Line("99 rows", "says why there is none", SMALL - 1, held, ALWAYS)


def _few(seed: int) -> Counted:
    rng = np.random.default_rng([seed, 9])
    found = look(table(rng, SMALL - 1), rng.normal(size=SMALL - 1), seed)
    return {"says why there is none": one(not found.segments and "100 rows" in found.why)}


# -- time ---------------------------------------------------------------------------------------------------------


def speed(runs: int) -> Iterator[str]:
    """Many rows, and many columns."""
    for n, columns in ((N, COLUMNS), (100_000, 20), (5_000, 200)):
        rng = np.random.default_rng(0)
        X, e = table(rng, n, columns), rng.normal(size=n)
        for name, errors in (("noise", e), ("a segment", e * np.where(X["x0"] > 1, TWICE, 1))):
            start = perf_counter()
            found = look(X, errors, 0)
            yield f"{n:,} rows, {columns} columns, {name}: {perf_counter() - start:.1f} s, {len(found.segments)} told"


PARTS: dict[str, Callable[[int], Iterator[Any]]] = {
    "noise": noise, "power": power, "told": told, "few": few, "speed": speed,
}  # fmt: skip


def main() -> None:
    """Print the table."""
    print_table("segments", __doc__, PARTS)


if __name__ == "__main__":
    main()
