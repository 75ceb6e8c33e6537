"""What `benchmarks.coverage` counts, on less well-behaved data: weights, groups, skewed features, rare classes.

Truths: weights, sizes of groups and the choice of rows are independent of features and target, so the importances of
`coverage_cases` hold unchanged. With an effect of the group in the target, which is independent of the features, a pair
of rows from different groups is a pair of independent rows, and they hold, too. Lognormal features are standardised,
and only second moments enter. A logistic model of 5 % positives has no closed form: its truths are means over two
million rows, with the losses averaged over the target. x2 is worth nothing there: it is independent of everything.

Bars: of each line. `python -m benchmarks.coverage_data [--only weights,groups] [--simulations 1000] [--jobs 16]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression

import losslens as ll
from benchmarks.coverage import HOW, Bar, Counted, Line, drawn, each_end, print_table, simulate, within
from benchmarks.coverage_cases import LINEAR, NOISE

Floats = NDArray[np.float64]
OTHER = (0.8, 0.5, 0.0)  # slopes of the model that the linear one is compared with
LOGIT, INTERCEPT = np.array([2.5, 1.0, 0.3]), -5.35  # 5 % positives
VALUE, ERROR = "value", "error"


@dataclass(frozen=True)
class VarianceLine:
    """The mean of the estimated variances over the variance of the estimates."""

    case: str
    number: str
    n: int
    value: Floats  # (runs, k)
    error: Floats  # (runs, k): the standard errors
    low: float
    high: float

    def __str__(self) -> str:
        squares, runs = np.square(self.error), len(self.value)
        each = squares.mean(axis=0) / self.value.var(axis=0, ddof=1)
        # Of a variance: (kurtosis - 1) / runs; of the mean of the estimated ones: their own.
        z = (self.value - self.value.mean(axis=0)) / self.value.std(axis=0)
        parts = (z**4).mean(axis=0) - 1 + squares.var(axis=0) / squares.mean(axis=0) ** 2
        noise = each * np.sqrt(parts / runs)
        slack = 2 * noise
        fine = np.all((each >= self.low - slack) & (each <= self.high + slack))
        shown = "  ".join(f"{one:.2f} ± {off:.2f}" for one, off in zip(each, noise, strict=True))
        verdict = "few" if runs < 200 else "ok" if fine else "MISS"
        return (
            f"{self.case:15}{self.number:43}{self.n:4}  {shown}  {runs} runs, {self.low:g} to {self.high:g} {verdict}"
        )


def lines(case: str, n: int, found: Counted, bars: dict[str, Bar | None]) -> Iterator[Line | VarianceLine]:
    """Shares that held, and a line of variances for every pair of values and errors."""
    for name, held in found.items():
        if name in bars:
            yield Line(case, name, n, held, bars[name])


def numbers(imp: Any) -> dict[str, Any]:
    """Estimates and standard errors of all features."""
    features = list(imp.values())
    return {VALUE: np.array([f.unbiased for f in features]), ERROR: np.array([f.std_error for f in features])}


def ends(imp: Any, level: float = 0.95) -> Floats:
    """Low and high ends of all features."""
    return each_end([f.interval(level) for f in imp.values()])


# -- weights ----------------------------------------------------------------------------------------------------------


def weights(runs: int) -> Iterator[Any]:
    """Exponential weights: a coefficient of variation of 1."""
    for n in (50, 100, 300):
        found = simulate(partial(_weights, n), runs)
        yield VarianceLine("weights", "variance / true, PFI of x0, x1, x2", n, found[VALUE], found[ERROR], 0.95, 1.2)
        bar = {50: None, 100: Bar(0.91), 300: Bar(0.93, 0.97)}[n]
        yield from lines("weights", n, found, {"PFI": bar, "SFIMP": bar, "PFI, Latin(10)": bar})


def _weights(n: int, seed: int) -> Counted:
    X, y = drawn(LINEAR, n, seed)
    how = HOW | {"sample_weight": np.random.default_rng([seed, n, 1]).exponential(size=n)}
    imp = ll.feature_importance(LINEAR.predict, X, y, donors="all", **how)
    some = ll.feature_importance(LINEAR.predict, X, y, donors=ll.Latin(10), random_state=seed, **how)
    shap = ll.shapley_importance(LINEAR.estimator, X, y, **how)
    return numbers(imp) | {
        "PFI": within(ends(imp), LINEAR.pfi),
        "SFIMP": within(shap.interval(), LINEAR.sfimp),
        "PFI, Latin(10)": within(ends(some), LINEAR.pfi),
    }


# -- groups -----------------------------------------------------------------------------------------------------------


def groups(runs: int) -> Iterator[Any]:
    """x0 is the same for all rows of a group, and so is a part of the target."""
    bars = {"equal": (0.92, 0.93, 0.93), "unequal": (0.89, 0.91, 0.93)}
    for kind, low in bars.items():
        for count, least in zip((15, 30, 60), low, strict=True):
            found = simulate(partial(_groups, kind, count), runs)
            case = f"{kind} groups"
            yield VarianceLine(
                case, "variance / true, PFI of x0, x1, x2", count, found[VALUE], found[ERROR], 0.95, 1.25
            )
            yield from lines(case, count, found, {"PFI": Bar(least), "PFI of x0, the same in a group": Bar(least)})


def _groups(kind: str, count: int, seed: int) -> Counted:
    rng = np.random.default_rng([seed, count])
    size = np.full(count, 8) if kind == "equal" else 1 + rng.poisson(7 * rng.lognormal(-0.5, 1, count))
    group = np.repeat(np.arange(count), size)
    X = rng.normal(size=(len(group), 3))
    X[:, 0] = rng.normal(size=count)[group]
    y = X @ np.array(LINEAR.beta) + NOISE * (rng.normal(size=count)[group] + rng.normal(size=len(group))) / np.sqrt(2)
    imp = ll.feature_importance(LINEAR.predict, X, y, donors="all", groups=group, **HOW)
    held = within(ends(imp), LINEAR.pfi)
    return numbers(imp) | {"PFI": held, "PFI of x0, the same in a group": held[:1]}


# -- skewed features ---------------------------------------------------------------------------------------------------


def skewed(runs: int) -> Iterator[Any]:
    """Standardised lognormal features: PFI, differences of two features, of two models, and a feature worth nothing."""
    for sigma, pfi, difference in ((0.7, 0.93, 0.92), (1.0, 0.91, 0.88)):
        found = simulate(partial(_skewed, 300, sigma), runs)
        bars: dict[str, Bar | None] = {
            "PFI": Bar(pfi),
            "differences of two features": Bar(difference),
            "differences of two models": Bar(difference),
            "ranks of all features": Bar(0.95),
            "worthless: lower end above 0": Bar(high=0.035),
            "  in agreement with test()": Bar(0.999),
            "99%: every end within 5.5 standard errors": Bar(0.999),
            "99%: PFI": None,
        }
        yield from lines(f"lognormal {sigma:g}", 300, found, bars)
        warned = found["cautions"]
        yield Line(f"lognormal {sigma:g}", "  numbers with a caution", 300, warned)
        yield Line(f"lognormal {sigma:g}", "  PFI, of those without", 300, found["PFI"][~warned][:, None])


def lognormal(rng: np.random.Generator, size: tuple[int, int], sigma: float) -> Floats:
    """Of mean 0 and variance 1."""
    mean, squares = np.exp(sigma**2 / 2), np.exp(2 * sigma**2)
    return np.asarray((np.exp(sigma * rng.normal(size=size)) - mean) / np.sqrt(squares - mean**2))


def _skewed(n: int, sigma: float, seed: int) -> Counted:
    rng = np.random.default_rng([seed, n, int(10 * sigma)])
    X = lognormal(rng, (n, 3), sigma)
    y = X @ np.array(LINEAR.beta) + NOISE * rng.normal(size=n)
    how: Any = {"donors": "all", **HOW}
    both = ll.compare({"a": LINEAR.predict, "b": lambda X: X @ np.array(OTHER)}, X, y, shapley=False, **how)
    imp, pfi = both.importances["a"], LINEAR.pfi
    pairs = [imp.difference(f"x{j}", f"x{k}") for j, k in ((0, 1), (0, 2), (1, 2))]
    models = [both.difference(f"x{j}", "a", "b") for j in range(3)]
    gaps = pfi - 2 * np.array(OTHER) * np.array(LINEAR.beta)
    _, low, high = imp.estimates().ranks()
    wide = ends(imp, 0.99)
    error = numbers(imp)[ERROR]
    above = ends(imp)[0][2:] > 0
    return {
        "PFI": within(ends(imp), pfi),
        "differences of two features": within(
            each_end([(d.low, d.high) for d in pairs]), np.array([pfi[0] - pfi[1], pfi[0] - pfi[2], pfi[1] - pfi[2]])
        ),
        "differences of two models": within(each_end([(d.low, d.high) for d in models]), gaps),
        "ranks of all features": np.atleast_1d(np.all((low <= [1, 2, 3]) & (high >= [1, 2, 3]))),
        "worthless: lower end above 0": above,
        "  in agreement with test()": above == np.array([imp["x2"].p_value < 0.025]),
        "99%: every end within 5.5 standard errors": np.abs(wide - numbers(imp)[VALUE]).max(axis=0) < 5.5 * error,
        "99%: PFI": within(wide, pfi),
        "cautions": np.array([f.caution != "" for f in imp.values()]),
    }


# -- targets that are mostly one value ------------------------------------------------------------------------------


def inflated(runs: int) -> Iterator[Any]:
    """A target that is 0 in most rows and skewed in the others; and one where no caution is due."""
    for zeros, n in ((0.5, 60), (0.5, 150), (0.8, 150), (0.8, 600), (0.95, 600), (0.0, 150)):
        found = simulate(partial(_inflated, n, zeros), runs)
        bars: dict[str, Bar | None] = {"  PFI": None, "missed without a caution": Bar(high=0.02)}
        if not zeros:
            bars = {"  PFI": None, "cautioned": Bar(high=0.05)}
        yield from lines(f"{100 * zeros:.0f} % zeros", n, found, bars)


def _inflated(n: int, zeros: float, seed: int) -> Counted:
    """The model is the mean, ``5 s exp(x / 2)``, s the share of the others: PFI = 2 (5 s)^2 (exp(1/2) - exp(1/4))."""
    rng = np.random.default_rng([seed, n])
    X, others = rng.normal(size=(n, 2)), 1 - zeros
    if zeros:
        y = np.where(rng.random(n) < others, 5 * np.exp(X[:, 0] / 2) * rng.exponential(size=n), 0.0)
        model, truth = lambda X: 5 * others * np.exp(X[:, 0] / 2), 50 * others**2 * (np.exp(0.5) - np.exp(0.25))
    else:
        y, model, truth = X[:, 0] + rng.normal(size=n), lambda X: X[:, 0], 2.0
    one = ll.feature_importance(model, X, y, features=["x0"], donors="all", **HOW)["x0"]
    held, said = within(one.interval(), truth), "target is" in one.caution
    quiet = not one.caution
    return {
        "  PFI": np.atleast_1d(held), "cautioned": np.atleast_1d(said),
        "missed without a caution": np.atleast_1d(~held & quiet),
    }  # fmt: skip


# -- Shapley shares of skewed features ------------------------------------------------------------------------------


def skewed_shares(runs: int) -> Iterator[Any]:
    """SFIMP of exponential features with an interaction, ``f = x0 + x1 + c x0 x1`` at n = 80.

    With u = x - 1 of mean 0 and variance 1, f is a constant and ``(1 + c)(u0 + u1) + c u0 u1``: replaced together both
    are worth ``2 (2 (1 + c)^2 + c^2)``, of which each has half.
    """
    for c in (0.2, 0.5, 1.0):
        found = simulate(partial(_skewed_shares, c), runs)
        yield from lines(f"exponential, {c:g}", 80, found, {"SFIMP": Bar(0.91), "  missed without a caution": None})


def _skewed_shares(c: float, seed: int) -> Counted:
    rng = np.random.default_rng([seed, 80])
    X = rng.exponential(size=(80, 3))

    def model(X: Any) -> Floats:
        return np.asarray(X[:, 0] + X[:, 1] + c * X[:, 0] * X[:, 1])

    shares = ll.shapley_importance(model, X, model(X) + rng.normal(size=80), random_state=seed, **HOW)
    held = within([end[:2] for end in shares.interval()], 2 * (1 + c) ** 2 + c**2)
    return {"SFIMP": held, "  missed without a caution": ~held & np.array([not one for one in shares.caution[:2]])}


# -- rare classes -----------------------------------------------------------------------------------------------------


def rare(runs: int) -> Iterator[Any]:
    """5 % positives; lines of x2, which is worth nothing, are apart."""
    for n in (100, 300):
        for loss in ("brier", "zero_one", "log_loss"):
            found = simulate(partial(_rare, n, loss, rare_truth(loss)), runs)
            bars: dict[str, Bar | None] = {
                f"PFI, {loss}": Bar(0.91) if n == 100 else Bar(0.93, 0.97),
                f"worthless: lower end above 0, {loss}": Bar(high=0.035),
                "  in agreement with test()": Bar(0.999),
            }
            yield from lines("5 % positives", n, found, bars)


def rare_model() -> Any:
    """The truth itself."""
    model = LogisticRegression()
    model.coef_, model.intercept_, model.classes_ = LOGIT[None], np.array([INTERCEPT]), np.array([0, 1])
    model.n_features_in_ = len(LOGIT)
    return model


def expected_loss(loss: str, p: Floats, told: Floats) -> Floats:
    """Of a probability told where it is p, averaged over the target."""
    if loss == "brier":
        return p * (1 - told) ** 2 + (1 - p) * told**2
    if loss == "zero_one":
        return np.where(told > 0.5, 1 - p, p)
    return -p * np.log(told) - (1 - p) * np.log1p(-told)


def rare_truth(loss: str) -> Floats:
    """PFI of x0 and x1 to the model that tells y's own probability but for x2; of x2 it is 0."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2_000_000, 3))
    p = true_probability(X)
    found = []
    for j in range(2):
        other = X.copy()
        other[:, j] = rng.permutation(other[:, j])
        told, before = (expit(Z @ LOGIT + INTERCEPT) for Z in (other, X))
        found.append(float(np.mean(expected_loss(loss, p, told) - expected_loss(loss, p, before))))
    return np.array([*found, 0.0])


def true_probability(X: Floats) -> Floats:
    """x2 says nothing of the target."""
    return np.asarray(expit(X[:, :2] @ LOGIT[:2] + INTERCEPT))


def _rare(n: int, loss: str, truth: Floats, seed: int) -> Counted:
    rng = np.random.default_rng([seed, n])
    X = rng.normal(size=(n, 3))
    y = (rng.uniform(size=n) < true_probability(X)).astype(int)
    if y.sum() == 0:  # no sample of two classes
        y[np.argmax(X[:, 0])] = 1
    imp = ll.feature_importance(rare_model(), X, y, donors="all", loss=loss, progress=False)
    interval = ends(imp)
    above = interval[0][2:] > 0
    return {
        f"PFI, {loss}": within(interval, truth)[:2],
        f"worthless: lower end above 0, {loss}": above,
        "  in agreement with test()": above == np.array([imp["x2"].p_value < 0.025]),
    }


# -- some rows, and grids ---------------------------------------------------------------------------------------------


def given(runs: int) -> Iterator[Any]:
    """A few of 200 rows."""
    for r in (3, 5, 10):
        found = simulate(partial(_given, r), runs)
        yield VarianceLine(
            f"given {r} of 200", "variance / true, PFI of x0, x1, x2", 200, found[VALUE], found[ERROR], 0.95, 1.15
        )
        yield from lines(f"given {r} of 200", 200, found, {"PFI": None})


def _given(r: int, seed: int) -> Counted:
    X, y = drawn(LINEAR, 200, seed)
    imp = ll.feature_importance(LINEAR.predict, X, y, donors="all", **HOW).given(np.arange(r))
    return numbers(imp) | {"PFI": within(ends(imp), LINEAR.pfi)}


def quantiles(runs: int) -> Iterator[Any]:
    """A grid of 20 donors at quantiles."""
    for n in (100, 300):
        found = simulate(partial(_quantiles, n), runs)
        yield VarianceLine("quantiles", "variance / true, PFI of x0, x1, x2", n, found[VALUE], found[ERROR], 0.9, 1.15)
        yield from lines("quantiles", n, found, {"PFI, Grid(20, at='quantiles')": Bar(0.93, 0.97)})


def _quantiles(n: int, seed: int) -> Counted:
    X, y = drawn(LINEAR, n, seed)
    imp = ll.feature_importance(LINEAR.predict, X, y, donors=ll.Grid(20, at="quantiles"), random_state=seed, **HOW)
    return numbers(imp) | {"PFI, Grid(20, at='quantiles')": within(ends(imp), LINEAR.pfi)}


# -- suspicious rows --------------------------------------------------------------------------------------------------


def suspicious(runs: int) -> Iterator[Any]:
    """Rows with correct targets that are called suspicious: as many as docs/observations.md says, for each noise."""
    for noise, most in (("alike", 0.018), ("|x0|", 0.065), ("exp x0", 0.065), ("step", 0.065)):
        for loss in ("squared_error", "absolute_error"):
            found = simulate(partial(_suspicious, noise, loss), min(runs, 200))["share"]
            yield Line(f"noise {noise}", f"suspicious rows, {loss}", 1000, found, Bar(high=most))


def _suspicious(noise: str, loss: str, seed: int) -> Counted:
    """Least squares, fitted on as many other rows."""
    rng = np.random.default_rng([seed, 1000])
    X = rng.normal(size=(2000, 3))
    scale = {"alike": 0.5, "|x0|": np.abs(X[:, 0]), "exp x0": 0.5 * np.exp(X[:, 0]), "step": 0.3 + 2.7 * (X[:, 0] > 1)}
    y = X @ np.array([1.0, 0.5, 0.0]) + scale[noise] * rng.normal(size=2000)
    fitted = LinearRegression().fit(X[:1000], y[:1000])
    shares = ll.shapley_importance(fitted, X[1000:], y[1000:], loss=loss, budget=20_000, random_state=0, progress=False)
    return {"share": np.array([len(shares.rank_rows().flagged) / 1000])}


PARTS = {
    "weights": weights, "groups": groups, "skewed": skewed, "rare": rare, "given": given, "quantiles": quantiles,
    "suspicious": suspicious, "inflated": inflated, "skewed_shares": skewed_shares,
}  # fmt: skip


if __name__ == "__main__":
    print_table("coverage_data", __doc__, PARTS)
