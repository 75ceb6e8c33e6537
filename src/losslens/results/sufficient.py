"""Which features are enough: how much of what a model gains over a constant is kept as features leave, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import ClassVar

import numpy as np

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Result
from losslens.results.table import ResultTable, named
from losslens.text import how_computed, listed, percent
from losslens.typing import Axes, Colors, FeatureLabels, Floats
from losslens.uncertainty.cautions import noted
from losslens.uncertainty.inference import Estimated, Estimates


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Sufficient(Result, Estimated):
    """The order in which features leave, and the share of the model's gain over a constant that the others keep.

    ``kept(S) = (C - GE_S) / (C - GE_P)``: C is the error of the best constant, GE_P that of the model, and GE_S that of
    the model with the features outside S replaced together, by values of other rows. The order was chosen on one half
    of the rows; all other numbers are of the other half.

    `to_frame()` has one row a feature, in the order in which they leave: feature, left (how many remain), kept,
    std_error, low, high, kept_choosing (on the half that chose), enough (whether what remains is enough), caution.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(400, 4))
    >>> y = 2 * X[:, 1] + X[:, 3]
    >>> f = lambda X: 2 * X[:, 1] + X[:, 3] + 0.1 * X[:, 0]
    >>> enough = ll.feature_importance(f, X, y, loss="squared_error").sufficient(f, X, y, random_state=0)
    >>> enough.enough, enough.gone
    (('x3', 'x1'), ('x0', 'x2'))
    """

    features: tuple[str, ...]  #: all features, in the order in which they leave
    count: int  #: how many of them leave: the most that still kept `keep` on the half that chose
    keep: float  #: the share that was to be kept
    chosen: Floats  #: the share kept without each feature and those before it, on the half that chose, (p,)
    kept: Estimates  #: the same on the other half, with standard errors
    constant: str  #: the best constant, in words
    title: str  #: name of the loss
    rows: tuple[int, int]  #: rows that chose, and rows that judged
    design: str  #: the donors
    n_predictions: int  #: rows that the model predicted
    backend: str

    _estimates = property(attrgetter("kept"))
    _refused: ClassVar[Mapping[str, str]] = {
        "test": "the question is how much is kept, not whether anything is: see interval()"
    }

    @property
    def gone(self) -> tuple[str, ...]:
        """The features that may leave, the first first."""
        return self.features[: self.count]

    @property
    def enough(self) -> tuple[str, ...]:
        """The features that are enough, the one that matters most last."""
        return self.features[self.count :]

    @property
    def sentence(self) -> str:
        """What is enough, and how much it keeps on the rows that had no part in the choice."""
        total, left = len(self.features), len(self.enough)
        if not self.count:
            return f"No feature can leave: without {self.features[0]} the others keep less than {self.keep:.0%}."
        if not left:
            return f"No feature is needed to keep {self.keep:.0%} of what this model gains over {self.constant}."
        last = self.kept[self.gone[-1]]
        share, low, high = (percent(one) for one in (last.value, last.low, last.high))
        return (
            f"{left} of {total} features ({listed(self.enough[::-1])}) keep {share} of what this model gains over "
            f"{self.constant} (95% interval {low} to {high})."
        )

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        return self.kept.intervals()

    def _table(self) -> ResultTable:
        low, high = self._ends
        p = len(self.features)
        columns = {
            "feature": list(self.features),
            "left": [p - 1 - k for k in range(p)],
            "kept": self.kept.value,
            "std_error": self.kept.std_error,
            "low": low,
            "high": high,
            "kept_choosing": self.chosen,
            "enough": [k < self.count for k in range(p)],
            "caution": list(self.kept.cautions),
        }
        view = (
            ("leaves", "{feature}"), ("left", "{left}"), ("kept", "{kept} ± {std_error}"),
            ("95% interval", "{low} to {high}"), ("still enough", "{enough}"),
        )  # fmt: skip
        percents = dict.fromkeys(("kept", "std_error", "low", "high", "kept_choosing"), ".1%")
        title = f"Sufficient: {self.sentence}"
        return ResultTable(title, columns, view=view, notes=named(self.notes), formats=percents, most_in_text=20)

    @property
    def notes(self) -> list[str]:
        """What the numbers are of, and what they are not."""
        chose, judged = self.rows
        computed = how_computed("blackbox", self.n_predictions)
        return [
            f"{self.title}; the order was chosen on {chose:,} rows, the numbers are of {judged:,} others; {computed}",
            "a model that is fitted to these features alone may do better; leave_one_covariate_out refits",
            *noted(self.features, self.kept.cautions),
        ]

    @draws("curve")
    def plot(
        self, ax: Axes | None = None, *, colors: Colors | None = None, labels: FeatureLabels | None = None
    ) -> Axes:
        """Draw the share that is kept as features leave, with its 95% intervals.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> f = lambda X: X[:, 0] + X[:, 1]
        >>> enough = ll.feature_importance(f, X, f(X), loss="squared_error").sufficient(f, X, f(X))
        >>> [label.get_text() for label in enough.plot().get_xticklabels()][0]
        'all 3'
        """
        return plots.bands.plot_sufficient(self, ax, Look(colors=colors, labels=labels))

    def __len__(self) -> int:
        return len(self.features)


def share_kept(chosen: Floats, keep: float) -> int:
    """How many may leave: the most after which at least `keep` is kept.

    >>> share_kept(np.array([1.0, 0.97, 0.99, 0.5]), 0.98)
    3
    """
    return int(np.max(np.flatnonzero(chosen >= keep), initial=-1)) + 1
