"""What the coverage of intervals is counted on: fixed models and distributions whose importances are known exactly.

Everywhere X is independent with mean 0 and variance 1, the loss is squared error, and x' is an independent copy of x.

Linear: ``y = beta'x + e`` and ``f = b'x``. Replacing feature j turns the residual ``r = y - f`` into
``r + b_j (x_j - x'_j)``, so with ``E[r x_j] = beta_j - b_j``

    PFI_j = 2 b_j E[r (x_j - x'_j)] + b_j^2 E[(x_j - x'_j)^2] = 2 b_j (beta_j - b_j) + 2 b_j^2 = 2 b_j beta_j.

Replacing several features adds ``sum b_j (x_j - x'_j)``, whose terms are uncorrelated: the error of a coalition is the
error plus the sum of the PFI of those replaced. Every order then gives a feature its PFI: SFIMP = PFI. The error
is ``var(e) + |beta - b|^2`` and the ratio 1 + PFI / error. With every row at the value v the residual is
``r + b_j (x_j - v)``, so ``PI_j(v) = 2 b_j (beta_j - b_j) + b_j^2 (1 + v^2)`` and ``PD_j(v) = b_j v``. Only second
moments enter: heavier tails change nothing of this.

Interaction: ``f = x0 x1 + x2`` and ``y = f + e``. Replacing x0, x1 or both moves the prediction by
``(x0 - x0') x1``, ``x0 (x1 - x1')`` or ``x0 x1 - x0' x1'``: each has mean square 2, and so has ``x2 - x2'``, which is
uncorrelated with them. So PFI = (2, 2, 2), and as x0 and x1 together are worth 2 like each alone, SFIMP = (1, 1, 2).
With x0 at v, ``PI_0(v) = E[(x0 - v)^2] E[x1^2] = 1 + v^2`` and ``PD_0(v) = v E[x1] + E[x2] = 0``. A row moves PFI_0
and PFI_1 by the same ``x0^2 x1^2 + x0^2 + x1^2 - 3`` (plus the same terms in e): their difference is degenerate, of
order 1/n, and an interval of order 1/sqrt(n) covers it nearly always.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression

Floats = NDArray[np.float64]
NOISE = 0.5  # standard deviation of e
REAL = (1.0, 0.5, 0.3)  # true coefficients where a model is fitted on real features and noise
USELESS = 7  # features that have nothing to do with the target, beside the real ones
TRAINED = 200  # rows that it is fitted on
RHO = 0.7  # correlation of any two features, where they are correlated


@dataclass(frozen=True)
class Linear:
    """A linear model of a linear truth."""

    name: str
    b: tuple[float, ...]
    beta: tuple[float, ...]
    heavy: bool = False  # x ~ t(6) and e ~ t(3), with the same variances

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """X and y."""
        size = (n, len(self.b))
        if self.heavy:
            X, e = rng.standard_t(6, size) / np.sqrt(6 / 4), rng.standard_t(3, n) / np.sqrt(3)
        else:
            X, e = rng.normal(size=size), rng.normal(size=n)
        return X, X @ np.array(self.beta) + NOISE * e

    def draw_in_time(self, rng: np.random.Generator, n: int, r: float) -> tuple[Floats, Floats]:
        """X and y whose columns and noise each have autocorrelation r: a row far from another is independent of it."""
        steps = rng.normal(size=(n, len(self.b) + 1))
        for k in range(1, n):
            steps[k] = r * steps[k - 1] + np.sqrt(1 - r**2) * steps[k]
        return steps[:, :-1], steps[:, :-1] @ np.array(self.beta) + NOISE * steps[:, -1]

    def predict(self, X: Any) -> Floats:
        """The model."""
        return np.asarray(X @ np.array(self.b))

    @property
    def estimator(self) -> Any:
        """The model as scikit-learn's."""
        model = LinearRegression()
        model.coef_, model.intercept_, model.n_features_in_ = np.array(self.b), 0.0, len(self.b)
        return model

    @property
    def pfi(self) -> Floats:
        """Of each feature."""
        return np.asarray(2 * np.array(self.b) * np.array(self.beta))

    @property
    def sfimp(self) -> Floats:
        """Of each feature: nothing interacts."""
        return self.pfi

    @property
    def error(self) -> float:
        """With nothing replaced."""
        return NOISE**2 + float(np.sum(np.square(np.array(self.beta) - np.array(self.b))))

    def pi(self, v: Floats) -> Floats:
        """Partial importance of x0 at v."""
        b, beta = self.b[0], self.beta[0]
        return 2 * b * (beta - b) + b**2 * (1 + v**2)

    def pd(self, v: Floats) -> Floats:
        """Partial dependence of x0 at v."""
        return self.b[0] * v


@dataclass(frozen=True)
class Bent:
    """``f = 1.5 |x0| + x0 x1`` with a skewed x0 and y = f + t(5): with x1 of mean 0 and variance 1, independent of x0,
    ``PI_0(v) = 2.25 E(|v| - |x0|)^2 + E(v - x0)^2`` and ``PD_0(v) = 1.5 |v|``, by the moments of x0.
    """

    kind: str  # of x0: "gamma" with shape 2, "lognormal" with sigma .6; both above 0

    @property
    def name(self) -> str:
        """As the table calls it."""
        return f"{self.kind} x0"

    @property
    def moments(self) -> tuple[float, float]:
        """E x0 and E x0^2."""
        return (2.0, 6.0) if self.kind == "gamma" else (float(np.exp(0.18)), float(np.exp(0.72)))

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """X and y."""
        x0 = rng.gamma(2.0, size=n) if self.kind == "gamma" else rng.lognormal(0.0, 0.6, size=n)
        X = np.column_stack([x0, rng.normal(size=n)])
        return X, self.predict(X) + rng.standard_t(5, size=n)

    def predict(self, X: Any) -> Floats:
        """The model."""
        return np.asarray(1.5 * np.abs(X[:, 0]) + X[:, 0] * X[:, 1])

    def pi(self, v: Floats) -> Floats:
        """Partial importance of x0 at v."""
        first, second = self.moments
        return np.asarray(3.25 * (v**2 - 2 * v * first + second))

    def pd(self, v: Floats) -> Floats:
        """Partial dependence of x0 at v."""
        return np.asarray(1.5 * np.abs(v))


@dataclass(frozen=True)
class Interaction:
    """Two features that count by their product alone, and a third."""

    name: str = "interaction"

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """X and y."""
        X = rng.normal(size=(n, 3))
        return X, self.predict(X) + NOISE * rng.normal(size=n)

    def predict(self, X: Any) -> Floats:
        """The model."""
        return np.asarray(X[:, 0] * X[:, 1] + X[:, 2])

    @property
    def pfi(self) -> Floats:
        """Of each feature."""
        return np.array([2.0, 2.0, 2.0])

    @property
    def sfimp(self) -> Floats:
        """Of each feature: the product's worth is shared."""
        return np.array([1.0, 1.0, 2.0])

    @property
    def error(self) -> float:
        """With nothing replaced."""
        return NOISE**2

    def pi(self, v: Floats) -> Floats:
        """Partial importance of x0 at v."""
        return 1 + v**2

    def pd(self, v: Floats) -> Floats:
        """Partial dependence of x0 at v."""
        return np.zeros_like(v)


Case = Linear | Interaction


@dataclass(frozen=True)
class TwoGroups:
    """A linear model in two groups of rows whose features, slopes and noise differ.

    In a group, ``x = mu + z`` with independent z of mean 0 and variance 1, ``y = beta'x + e``. The model is
    ``f = b'x``; donors are a share of the first group and the rest of the second, with mean m of x and F = b'm of f.
    The local SFIMP of row i is ``E_k (c_i - c_k)(2 y_i - f_i - f_k)``, c = b_j (x_j - m_j), which is
    ``c_i (2 y_i - f_i - F)`` and a number that is the same for all rows: in a group of rows its mean is

        b_j [ (mu_j - m_j) ((2 beta - b)'mu - F) + 2 beta_j - b_j ].

    Without any feature the loss of a row is ``y_i^2 - 2 y_i F`` and a number that is the same for all: the mean is
    ``(beta'mu)^2 + |beta|^2 + var(e) - 2 F beta'mu``. Rows of a cluster share half of the variance of z and e.
    """

    name: str
    n: int
    b: tuple[float, ...] = (1.0, 0.5, 0.3)
    beta: tuple[tuple[float, ...], ...] = ((0.4, 0.5, 0.3), (1.0, 0.5, 0.0))
    mu: tuple[tuple[float, ...], ...] = ((0.5, 0.0, 0.3), (0.0, 0.0, 0.0))
    noise: tuple[float, ...] = (1.0, 0.5)
    share: float = 0.5  # of the rows, in the first group
    skewed: bool = False  # z and e exponential
    cluster: int = 1  # rows

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.intp]]:
        """X, y, which rows are in the first group, and clusters."""
        first = np.arange(self.n) < round(self.share * self.n)
        cluster = np.arange(self.n) // self.cluster
        shape = (self.n, len(self.b) + 1)

        def deviations() -> Floats:
            return rng.exponential(size=shape) - 1 if self.skewed else rng.normal(size=shape)

        z = deviations() if self.cluster == 1 else np.sqrt(0.5) * (deviations() + deviations()[cluster])
        X = z[:, :-1] + np.where(first[:, None], *np.array(self.mu))
        y = np.where(first, *(X @ np.array(self.beta).T).T) + np.where(first, *self.noise) * z[:, -1]
        return X, y, first, cluster

    @property
    def parts(self) -> Floats:
        """Without any feature, and of each feature, (p + 1,): the first group less the second."""
        b, beta, mu = np.array(self.b), np.array(self.beta), np.array(self.mu)
        m = self.share * mu[0] + (1 - self.share) * mu[1]
        F, y = b @ m, np.sum(beta * mu, axis=1)
        none = np.square(y) + np.square(beta).sum(axis=1) + np.square(self.noise) - 2 * F * y
        local = b * ((mu - m) * (np.sum((2 * beta - b) * mu, axis=1) - F)[:, None] + 2 * beta - b)
        return np.array([none[0] - none[1], *(local[1] - local[0])])

    @property
    def given(self) -> Floats:
        """The error and the PFI of each feature, (p + 1,): the first group less the second, donors from both.

        With r = y - f, the mean of ``b_j^2 (x_k - x_i)^2 - 2 r_i b_j (x_k - x_i)`` over rows i of a group and all k is

            b_j^2 [ 1 + var_k + (m_j - mu_j)^2 ] - 2 b_j [ (beta - b)'mu (m_j - mu_j) - (beta_j - b_j) ],

        var_k the variance of a donor's x_j: 1, and that between the groups.
        """
        b, beta, mu = np.array(self.b), np.array(self.beta), np.array(self.mu)
        far = self.share * mu[0] + (1 - self.share) * mu[1] - mu
        spread = 1 + self.share * (1 - self.share) * np.square(mu[0] - mu[1])
        off = np.sum((beta - b) * mu, axis=1)
        pfi = b**2 * (1 + spread + far**2) - 2 * b * (off[:, None] * far - (beta - b))
        error = off**2 + np.square(beta - b).sum(axis=1) + np.square(self.noise)
        return np.array([error[0] - error[1], *(pfi[0] - pfi[1])])


GAPS = (
    TwoGroups("two groups", 300),
    TwoGroups("two groups", 100),
    TwoGroups("skewed", 300, skewed=True),
    TwoGroups("tiny group", 300, share=0.05),
    TwoGroups("tiny, skewed", 300, share=0.05, skewed=True),
    TwoGroups("clusters of 5", 300, cluster=5),
)
ALIKE = [replace(case, beta=((1.0, 0.5, 0.0),) * 2, mu=((0.0,) * 3,) * 2, noise=(0.5, 0.5)) for case in GAPS]
LINEAR = Linear("linear", (1.0, 0.3, 0.05), (1.0, 0.3, 0.0))
WEAK = Linear("weak", (0.2, 0.1, 0.05), (0.2, 0.1, 0.05))
INTERACTION = Interaction()
HEAVY = Linear("heavy-tailed", LINEAR.b, LINEAR.beta, heavy=True)


def with_noise(rng: np.random.Generator, n: int, real: bool = True) -> tuple[Floats, Floats]:
    """Three real features and some that have nothing to do with the target; `real` false: none has."""
    X = rng.normal(size=(n, len(REAL) + USELESS))
    return X, (X[:, : len(REAL)] @ np.array(REAL) if real else 0.0) + rng.normal(size=n)


def correlated(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Any two of three features correlate; the third tells nothing of y beyond the others."""
    X = np.sqrt(RHO) * rng.normal(size=(n, 1)) + np.sqrt(1 - RHO) * rng.normal(size=(n, 3))
    return X, X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n)


def uses_the_third(X: Any) -> Floats:
    """A model that uses the third feature a little.

    Drawn given the others, x2' is as independent of e as x2 was: ``y - f = e - 0.1 x2`` keeps its distribution, and
    the conditional importance of x2 is exactly 0.
    """
    return np.asarray(X[:, 0] + 0.5 * X[:, 1] + 0.1 * X[:, 2])


def gaussian_draw(X: Any, columns: Any, rng: np.random.Generator) -> Any:
    """One column of `correlated` given the two others: normal with the regression's mean and residual variance."""
    (j,) = columns
    others = [k for k in range(3) if k != j]
    slope = RHO / (1 + RHO)  # solves [[1, rho], [rho, 1]] s = (rho, rho)
    drawn = X.copy()
    drawn[:, j] = slope * X[:, others].sum(axis=1) + np.sqrt(1 - 2 * slope * RHO) * rng.normal(size=len(X))
    return drawn


@dataclass(frozen=True)
class ManyModels:
    """Linear models of a linear truth whose features may correlate: E of their errors and importances.

    With the covariance S of X and r = y - f, ``E r^2 = var(e) + (beta - b)' S (beta - b)``; replacing x_j changes it by
    ``2 b_j (S (beta - b))_j + 2 b_j^2 S_jj``. A constant has the error var(y): the best model gains as much on it.
    """

    name: str
    beta: tuple[float, ...]
    slopes: tuple[tuple[float, ...], ...]  # of each model
    copies: bool = False  # the last feature is the first again
    skewed: bool = False  # X and e exponential

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """X and y."""
        shape = (n, len(self.beta) + 1)
        z = rng.exponential(size=shape) - 1 if self.skewed else rng.normal(size=shape)
        X, e = z[:, :-1], z[:, -1]
        if self.copies:
            X[:, -1] = X[:, 0]
        return X, X @ np.array(self.beta) + e

    @property
    def models(self) -> dict[str, Any]:
        """By name."""
        return {f"model {k}": partial(_linear, np.array(b)) for k, b in enumerate(self.slopes)}

    @property
    def truth(self) -> tuple[Floats, Floats, float]:
        """Errors of the models, their importances, (M, p), and the gain of the best."""
        b, beta, cov = np.array(self.slopes), np.array(self.beta), np.eye(len(self.beta))
        if self.copies:
            cov[0, -1] = cov[-1, 0] = 1.0
        off = (beta - b) @ cov
        error = 1 + np.sum(off * (beta - b), axis=1)
        return error, 2 * b * off + 2 * b**2, float(1 + beta @ cov @ beta - error.min())


def _linear(b: Floats, X: Any) -> Floats:
    return np.asarray(X @ b)


def _around(beta: tuple[float, ...], spread: float, count: int) -> tuple[tuple[float, ...], ...]:
    """Slopes near the true ones, which are among them."""
    rng = np.random.default_rng(7)
    return (beta, *(tuple((np.array(beta) + spread * rng.normal(size=len(beta))).tolist()) for _ in range(count - 1)))


MANY = (
    ManyModels("near", (1.0, 0.5, 0.2, 0.0), _around((1.0, 0.5, 0.2, 0.0), 0.1, 12)),
    ManyModels("skewed", (1.0, 0.5, 0.2, 0.0), _around((1.0, 0.5, 0.2, 0.0), 0.1, 12), skewed=True),
    ManyModels("copies", (1.0, 0.5, 0.0), ((1, 0.5, 0), (0, 0.5, 1), (0.5, 0.5, 0.5), (0.9, 0.4, 0.1)), copies=True),
    ManyModels("tied", (1.0, 0.15, 0.15), ((1, 0.15, 0), (1, 0, 0.15), (1, 0.1, 0.1), (1, 0, 0), (0.9, 0.2, 0.2))),
)


def discrete(kind: str, rng: np.random.Generator, n: int) -> Floats:
    """Two discrete features, of which the second depends on the first, and an independent normal one."""
    first = rng.poisson(2, n) if kind == "counts" else rng.integers(0, 5, n)
    if kind == "steps":
        second = np.clip(first + rng.integers(-1, 2, n), 0, 4)
    else:
        second = rng.poisson(1 + first) if kind == "counts" else rng.binomial(4, (first + 0.5) / 5)
    return np.column_stack([first, second, rng.normal(size=n)]).astype(float)


def nested(kind: str, slope: float, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Four features with slopes 1, 1/2, 0 and this one, and a target of this kind."""
    X = rng.normal(size=(n, 4))
    eta = X @ np.array([1.0, 0.5, 0.0, slope])
    if kind == "classes":
        return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    return X, rng.poisson(np.exp(0.4 * eta)) if kind == "counts" else eta + rng.normal(size=n)
