"""Settings of `shapley_importance`, and when to stop drawing: at a budget, at a precision, or when the Monte-Carlo
error is small beside the sampling error."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

import numpy as np

from losslens.passes.allowance import Limits, is_ranks
from losslens.tables.checks import check_count, is_one_of
from losslens.typing import Floats

NOISE_SHARE = 0.1  # of the sampling variance: with less Monte-Carlo variance more draws hardly help
NEGLIGIBLE = 0.005  # of the total: a Monte-Carlo error too small to matter
MOST_PREDICTIONS = 10_000_000  # where no budget is given
METHODS = ("auto", "rows", "totals", "exact", "walk")
LEVEL = 0.95  # simultaneous coverage of the intervals of all features


@dataclass(frozen=True)
class Absolute:
    """A precision in units of the loss, not as a share of the total of all features.

    Parameters
    ----------
    value
        The half-width that intervals may have.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 12))
    >>> f = lambda X: X[:, 0] * X[:, 1]
    >>> shares = ll.shapley_importance(f, X, f(X), loss="squared_error", precision=ll.Absolute(0.1), random_state=0)
    >>> bool(shares.monte_carlo_error.max() <= 0.1)
    True
    """

    value: float

    def __post_init__(self) -> None:
        number = isinstance(self.value, (int, float, np.number)) and not isinstance(self.value, bool)
        if not number or not 0 < self.value < np.inf:
            raise ValueError(f"Absolute takes a number above 0, in units of the loss; got {self.value!r}")


@dataclass(frozen=True)
class Paper:
    """The paper's algorithm: random orders of the features, and new permutations of the rows for every coalition.

    The defaults are those of the authors' package.

    Parameters
    ----------
    m_feat
        How many orders of the features.
    m_obs
        How many permutations of the rows for each coalition.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> f, few = lambda X: X[:, 0] * X[:, 1], ll.Paper(m_feat=10, m_obs=5)
    >>> shares = ll.shapley_importance(f, X, f(X), loss="squared_error", method=few, random_state=0)
    >>> shares.method, shares.design
    ("the paper's algorithm", '10 orders and 5 permutations')
    """

    m_feat: int = 120  # orders of the features
    m_obs: int = 50  # permutations of the rows, for the error of each coalition

    def __post_init__(self) -> None:
        check_count(self.m_feat, "m_feat")
        check_count(self.m_obs, "m_obs")


@dataclass(frozen=True)
class Sage:
    """SAGE values: predictions are averaged over the donors before the loss.

    Parameters
    ----------
    method
        ``"exact"``, ``"walk"``, or ``"auto"``: exact where that is cheap.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> f = lambda X: X[:, 0] * X[:, 1]
    >>> shares = ll.shapley_importance(f, X, f(X), loss="squared_error", method=ll.Sage())
    >>> shares.aggregate, shares.exact
    ('prediction', True)
    """

    method: Literal["auto", "exact", "walk"] = "auto"

    def __post_init__(self) -> None:
        if not is_one_of(self.method, ("auto", "exact", "walk")):
            raise ValueError(f"method of Sage is 'auto', 'exact' or 'walk'; got {self.method!r}")


Method = Literal["auto", "rows", "totals", "exact", "walk"] | Paper | Sage


@dataclass(frozen=True)
class ShapleySettings:
    """The checked settings of `shapley_importance`."""

    method: Method = "auto"
    precision: float | Absolute | Literal["ranks"] | None = None
    budget: int | None = None
    limits: Limits | None = None  # of the time

    def __post_init__(self) -> None:
        paper = isinstance(self.method, Paper)
        if not isinstance(self.method, Paper | Sage) and not is_one_of(self.method, METHODS):
            names = ", ".join(map(repr, METHODS))
            raise ValueError(f"method is {names}, Paper(m_feat, m_obs) or Sage(); got {self.method!r}")
        check(self.precision, self.budget)
        if self.algorithm == "exact" and self.precision is not None:
            raise ValueError("'exact' shares have no Monte-Carlo error; leave out precision")
        if paper and (self.precision is not None or self.budget is not None):
            raise ValueError("the paper's algorithm is controlled by m_feat and m_obs; leave out precision and budget")

    @property
    def averages_predictions(self) -> bool:
        """Whether predictions are averaged over the donors before the loss."""
        return isinstance(self.method, Sage)

    @property
    def algorithm(self) -> Any:
        """``"auto"``, ``"exact"``, ``"walk"``, or the paper's."""
        if isinstance(self.method, Sage):
            return self.method.method
        return "auto" if self.method in ("rows", "totals") else self.method

    @property
    def until_ranked(self) -> bool:
        """Whether walks end once the leading ranks are settled."""
        return is_ranks(self.precision)

    def half_width(self, total: float | None, total_error: float) -> float | None:
        """The requested half-width of all intervals, in units of the loss."""
        if self.precision is None or isinstance(self.precision, str):
            return None
        if isinstance(self.precision, Absolute):
            return self.precision.value
        if total is None:
            raise ValueError(
                "precision as a share needs the total, which is not known before drawing; give Absolute(value)"
            )
        if not abs(total) > 2 * total_error:
            raise ValueError(
                f"precision={self.precision} is a share of the total of all features, but that is {total:.3g} "
                f"± {total_error:.2g}, not clearly different from 0; give it in units of the loss: Absolute(value)"
            )
        return self.precision * abs(total)


def check(precision: Any, budget: Any) -> None:
    """Raise ValueError or TypeError unless precision and budget are valid."""
    if precision is not None and not isinstance(precision, Absolute) and not is_ranks(precision):
        if isinstance(precision, bool) or not isinstance(precision, (int, float, np.number)):
            raise TypeError(f"precision is a share such as 0.02, Absolute(value), or 'ranks'; got {precision!r}")
        if not 0 < precision < 1:
            raise ValueError(
                f"precision is a share of the total, between 0 and 1, or Absolute(value); got {precision!r}"
            )
    if budget is not None:
        check_count(budget, "budget of predictions")


def stein(variance: Floats, half_width: float, freedom: float) -> int:
    """Draws that bring all intervals to a half-width (Stein 1945, Bonferroni), from the variances of a single draw.

    The second stage uses the variance estimates of the first: then the coverage holds for any true variances.
    """
    return ceil(float(np.max(variance)) * joint_quantile(len(variance), freedom) ** 2 / half_width**2)


def joint_quantile(p: int, freedom: float) -> float:
    """The half-width of p simultaneous intervals, in standard errors (Bonferroni)."""
    from scipy.stats import t

    return float(t.ppf(1 - (1 - LEVEL) / (2 * p), freedom))


def enough(monte_carlo: Floats, sampling: Floats, total: float, draws: int) -> int:
    """Draws after which the Monte-Carlo variance is a tenth of the sampling variance, or negligible."""
    bound = np.maximum(NOISE_SHARE * np.square(sampling), np.square(NEGLIGIBLE * total))
    ratio = np.divide(np.square(monte_carlo), bound, out=np.zeros(len(bound)), where=monte_carlo > 0)
    return ceil(draws * float(np.max(ratio)))
