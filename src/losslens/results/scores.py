"""Importances by scorers (AUC, R2), which give one number for all rows: a global number and a PI curve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Literal, Self

import numpy as np

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.effects import curve_columns
from losslens.results.feature import OneFeature
from losslens.results.importances import Importances
from losslens.results.one_number import OneNumber, number_of
from losslens.results.selection import positions
from losslens.results.table import ResultTable, facts, grid_size, or_else
from losslens.text import Sentence, how_computed, in_digits, measured, rounding_error
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Floats, Indices
from losslens.uncertainty.standard_errors import Influence, interval

# What a loss of each row gives, and hence not a score.
NEED_A_LOSS = {
    "loss": "a loss of each row", "error": "the mean loss", "best_constant": "the best constant",
    "error_constant": "the error of the best constant", "skill": "the skill", "local": "a local importance",
    "ici": "an ICI curve", "band": "a band", "effect": "the effect", "effect_of": "the effect",
    "subset": "the importance on a subset", "with_loss": "another loss", "rows": "the list of kept rows",
    "cells": "a matrix of changes of loss", "drop": "the importance without some rows",
    "row_influence": "the influence of single rows",
    **dict.fromkeys(("regions", "extrapolated"), "a search for regions"),
    **dict.fromkeys(("ratio", "ratio_std_error", "ratio_interval"), "the ratio of errors"),
}  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FeatureScore(OneFeature, OneNumber):
    """How much a score decreases when one feature's values come from other rows.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> y = X[:, 0] + X[:, 1] > 0
    >>> model = LogisticRegression().fit(X, y)
    >>> x0 = ll.feature_importance(model, X, y, loss="roc_auc")["x0"]
    >>> low, high = x0.interval()
    >>> bool(0 < low < x0.pfi < high)
    True
    """

    title: str  #: name of the score
    scored: Any  # how the score is computed: MeanScore, ColumnScore
    clipped: ClassVar[float] = 0.0
    complete: ClassVar[bool] = True
    _is_score: ClassVar[bool] = True
    _sampled: ClassVar[bool] = False  # every column of the design is scored
    _is_streamed: ClassVar[bool] = False
    computed_extrapolation: ClassVar[None] = None
    _real_rows: ClassVar[None] = None
    _unreal_rows: ClassVar[str] = ""
    errorless: ClassVar[bool] = False
    conditioning: ClassVar[None] = None

    _internal = ("clipped", "complete", "conditioning", "errorless", "influence", "scored", "totals")
    totals: ClassVar[None] = None  # scorers need all rows at once

    values = property(attrgetter("scored.values"), doc="The values of the curve: one array, or two for a pair.")
    at = property(attrgetter("scored.at"), doc="The rows that are scored, as positions.")
    sample = property(attrgetter("scored.sample"), doc="All rows, which are the donors.")
    is_auc = property(attrgetter("scored.is_auc"), doc="Whether the score is known to be an AUC, or a mean of AUCs.")
    units = _unit = property(attrgetter("scored.unit"), doc='What is left out: "rows", "groups" or "blocks".')
    _units = property(attrgetter("scored.units"))

    @property
    def score(self) -> float:
        """The score with nothing replaced."""
        return np.nan if self.undefined else float(self.scored.score)

    @property
    def pfi(self) -> float:
        """The score less that of rows with this feature from other rows: positive means useful.

        With weights or groups it is compared with the score of the rows weighted as their pairs are.
        """
        return np.nan if self.undefined else float(self.scored.importance)

    @property
    def undefined(self) -> str:
        """Why these rows have no score."""
        return str(self.scored.undefined)

    def _why_absent(self, name: str) -> str:
        if name == "extrapolation":
            return (
                "a score doesn't hold the rows: the importances by a loss tell which replaced rows are unlike real ones"
            )
        if name == "over":
            need = f"over needs a loss of each row, and {self.title} is a score"
            return f"{need}: use given(rows), or by(time_blocks(...))"
        if name not in NEED_A_LOSS:
            return super()._why_absent(name)
        return (
            f"{NEED_A_LOSS[name]} doesn't exist for the scorer {self.title}: it gives one number for all rows "
            "together; use a loss, such as loss='log_loss' or 'squared_error'"
        )

    @property
    def _why_sampled(self) -> str:
        """Why the model predicted the cells; empty if an exact engine has the cells."""
        return self.declined if self.n_predictions else ""

    @property
    def column_drops(self) -> Floats:
        """How much lower the score of each column of the design is than with nothing replaced, (m,)."""
        return np.asarray(self.scored.column_drops)

    @property
    def unbiased(self) -> float:
        """The centre of intervals."""
        return np.nan if self.undefined else float(self.scored.unbiased)

    @cached_property
    def influence(self) -> Influence:
        """Influence of each row, group or block of rows, as observations and as donors, on `pfi`: the jackknife.

        ``V = (G-1)/G sum over g of (theta_(-g) - mean)^2``, theta_(-g) the importance without unit g.
        """
        self._need_score()
        found: Influence = self.scored.influence
        return found

    @property
    def local(self) -> Floats:
        """Of an AUC, (n,): what each row adds to the importance by its pairs with rows of other classes."""
        return np.asarray(self.scored.local)

    @property
    def base_influence(self) -> Influence:
        """Influence of each row, group or block of rows on `base`: the jackknife of the score itself."""
        self._need_score()
        found: Influence = self.scored.score_influence
        return -found if self._measure == "error" else found

    def _need_score(self) -> None:
        if self.undefined:
            raise ValueError(self.undefined)

    def score_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval of `base`, the score or the error that a scorer negates, on new data; `level`: its coverage."""
        moved = self.base_influence
        low, high = interval(self.base, moved.std_error, self._units, level, moved.skewness)
        return (max(low, 0.0), min(high, 1.0)) if self.is_auc else (low, high)

    @property
    def _rounding(self) -> float:
        """How far rounding moves the score and the importance."""
        return rounding_error(float(or_else(lambda: len(self.at), 1)), 2 * self.score)

    def _drawn_interval(self, level: float) -> tuple[float, float]:
        if self.exact:
            return self.pfi, self.pfi
        raise ValueError("a score has no interval of the Monte-Carlo error; use target='model', that for new rows")

    @property
    def weights(self) -> Floats:
        """The share of the donors at each grid value."""
        if self.scored.shares is None:
            raise ValueError(f"the grid of {self.name!r} has no weights")
        return np.asarray(self.scored.shares)

    @property
    def pi(self) -> Floats:
        """The score less that with every row at that value, (g,); its mean is not `pfi`."""
        shape = tuple(map(len, self.values)) if len(self.values) == 2 else (-1,)
        return np.asarray(self.scored.curve * (np.nan if self.undefined else 1)).reshape(shape)

    def given(self, rows: Any) -> Self:
        """The score of these `rows` (a mask, row labels or positions), with donors from all rows.

        NaN where the score of these rows is not defined, as an AUC of one class; `undefined` says why.
        """
        return self.at_positions(positions(rows, len(self.at), self.row_labels, self.backend))

    def at_positions(self, chosen: Indices) -> Self:
        """`given` for rows at these positions, sorted."""
        return replace(self, scored=self.scored.at_positions(chosen))

    def to_frame(self) -> Any:
        """The PI curve as a data frame: value, importance."""
        return self._frame(curve_columns(self, {"importance": self.pi}))

    @draws("curve")
    def plot(
        self, ax: Axes | None = None, *, scale: AxisScale = "linear", colors: Colors | None = None,
        labels: FeatureLabels | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the PI curve; single rows have no score.

        Parameters
        ----------
        colors
            Colour of the PI curve; of a pair, a colour map or its name.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> from sklearn.linear_model import LinearRegression
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> imp = ll.feature_importance(LinearRegression().fit(X, X[:, 1]), X, X[:, 1], loss="r2")
        >>> ax = imp["x1"].plot(labels={"x1": ("speed", "m/s")})
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('speed (m/s)', 'decrease in r2_score')
        """
        return plots.feature.plot_importance(self, ax, Look(scale=scale, colors=colors, labels=labels))

    def _picture(self, look: Look) -> Any:
        return plots.feature_data.of_score(self, look)

    def _table(self) -> ResultTable:
        low, high = (number_of(self, name) for name in ("low", "high"))
        numbers = {
            "importance": or_else(lambda: self.pfi, np.nan),
            "std. error": number_of(self, "std_error"),
            "95% interval": f"{in_digits(low)} to {in_digits(high)}" if np.isfinite(low) else "",
            f"{self._measure}, nothing replaced": self.base,
            "values": grid_size(self.values),
        }
        return facts(
            f"{self.name}: {self.change}",
            numbers,
            [f"{self.design!r}; {how_computed(self.engine, self.n_predictions)}"],
        )

    def __repr__(self) -> str:
        return f"<FeatureScore {self.name!r}: {self.change}, {self.design}>"

    @property
    def change(self) -> str:
        """What `pfi` is: the decrease in a score, or the increase in an error that the scorer negates."""
        name, is_error = measured(self.title)
        return f"{'increase' if is_error else 'decrease'} in {name}"

    @property
    def _measure(self) -> Literal["score", "error"]:  # type: ignore[override]
        """What `base` is: the score, or the error that the scorer negates."""
        return "error" if measured(self.title)[1] else "score"

    @property
    def base(self) -> float:
        """The score with nothing replaced; the error where the scorer negates one."""
        return -self.score if self._measure == "error" else self.score


@dataclass(frozen=True, eq=False, repr=False)
class Scores(Importances):
    """Importances by a scorer: a mapping from name to `FeatureScore`.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> y = X[:, 0] > 0
    >>> model = LogisticRegression().fit(X, y)
    >>> imp = ll.feature_importance(model, X, y, loss="roc_auc")
    >>> imp.score, bool(imp["x0"].pfi > 0.3)
    (1.0, True)
    """

    features: dict[str, FeatureScore]  # type: ignore[assignment]

    @property
    def _first(self) -> FeatureScore:  # type: ignore[override]
        return next(iter(self.features.values()))

    @property
    def notes(self) -> list[str]:
        """How the numbers were computed, and why there are none."""
        undefined = self._first.undefined
        return [*super().notes, *([undefined] if undefined else [])]

    @property
    def score(self) -> float:
        """The score with nothing replaced."""
        return self._first.score

    def score_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval of the score, or of the error that the scorer negates, on new data; `level`: its coverage."""
        return self._first.score_interval(level)

    @property
    def title(self) -> str:
        """The name of the scorer."""
        return self._first.title

    @property
    def base(self) -> float:
        """The reference of the importances: the score with nothing replaced, or the error that the scorer negates."""
        return self._first.base

    @property
    def headline(self) -> str:
        """What the numbers are."""
        first = self._first
        base = "not defined for these rows" if first.undefined else f"{in_digits(first.base)} with nothing replaced"
        return f"{first.change}; {base}"

    @property
    def _message(self) -> Sentence:
        from losslens.results.ranking import leading_words

        return leading_words(self)

    def _table(self) -> ResultTable:
        table = super()._table()
        return replace(table, formats={"importance": _defined}) if self._first.undefined else table


def _defined(number: float) -> str:
    return in_digits(number) if np.isfinite(number) else "not defined"
