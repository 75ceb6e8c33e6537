"""Importances by scorers (AUC, R2), which give one number for all rows: a global number and a PI curve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.donors.designs import Design
from losslens.plots.look import Look, draws
from losslens.results.effects import curve_columns
from losslens.results.importances import Importances
from losslens.results.one_number import OneNumber, number_of
from losslens.results.selection import positions, split
from losslens.results.table import ResultTable, facts, grid_size, or_else
from losslens.tables.row_labels import Labels, take_labels
from losslens.tables.sample import Sample
from losslens.text import how_computed, in_digits, measured, rounding_error
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Floats, Indices, Mask
from losslens.uncertainty.inference import Unit
from losslens.uncertainty.scored_cells import ScoredCells, ScoredRows, score_fields
from losslens.uncertainty.standard_errors import Influence, interval

# What a loss of each row gives, and hence not a score.
NEED_A_LOSS = {
    "loss": "a loss of each row", "error": "the mean loss", "best_constant": "the best constant",
    "error_constant": "the error of the best constant", "skill": "the skill", "local": "a local importance",
    "ici": "an ICI curve", "band": "a band", "effect": "the effect", "effect_of": "the effect",
    "subset": "the importance on a subset", "with_loss": "another loss", "rows": "the list of kept rows",
    "cells": "a matrix of changes of loss", "drop": "the importance without some rows",
    "row_influence": "the influence of single rows", "regions": "a search for regions",
    **dict.fromkeys(("ratio", "ratio_std_error", "ratio_interval"), "the ratio of errors"),
}  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FeatureScore(OneNumber):
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

    name: str  #: name of the feature
    columns: tuple[str, ...]  #: the columns that are replaced
    values: tuple[NDArray[Any], ...]
    ordered: bool
    design: Design  #: the donor design that was used
    engine: str  #: the engine that computed the predictions
    exact: bool  #: whether nothing is sampled
    n_predictions: int  #: rows that the model predicted
    title: str  #: name of the score
    score: float  #: the score with nothing replaced
    column_scores: Floats | None  # (m,): of each column of the design; None for a grid
    column_shares: Floats | None  # (m,): weight of each column
    curve: Floats | None  #: (g,): the score with every row at that value; None if not computed
    shares: Floats | None
    backend: str
    clipped: float = 0.0
    complete: bool = True
    #: why no exact engine was used, or why it computed a sample; empty if it computed all pairs
    declined: str = ""
    own_share: float = 0.0  # of the pairs, those of a row with itself
    without: Floats | None = None  # (u,): the importance without each unit; None where there is no jackknife
    units: Literal["rows", "groups", "blocks"] = "rows"  # what is left out
    effective: float = float("nan")  # as many units of equal weight
    score_without: Floats | None = None  # (u,): the score, nothing replaced, without each unit
    own: ScoredRows | None = None  # the rows that are scored; None where the scorer may read the model or the rows
    column_cells: ScoredCells | None = None  # with the columns of the design
    curve_cells: ScoredCells | None = None  # with those of the curve
    undefined: str = ""  #: why these rows have no score
    # (m,): of the rows of each column, with the weights that they have there, nothing replaced; None: all have `score`
    column_bases: Floats | None = None
    _sampled: ClassVar[bool] = False  # every column of the design is scored
    _is_streamed: ClassVar[bool] = False
    computed_extrapolation: ClassVar[None] = None
    errorless: ClassVar[bool] = False
    whole: ClassVar[None] = None  # scorers need all rows at once

    @property
    def pfi(self) -> float:
        """The score minus its mean over the columns of the design: positive means useful.

        With weights or groups each column has its own weights and rows, and is compared with the score of these.
        """
        if self.column_scores is None or self.column_shares is None:
            raise ValueError(f"{self.design!r} gives a curve and no number for a scorer; use 'all' or Latin(m)")
        return float(self.column_drops @ self.column_shares)  # exactly 0 where nothing changes

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
        """How much lower the score of each column is than with nothing replaced, (m,)."""
        assert self.column_scores is not None  # callers ask for designs with columns
        return np.asarray((self.score if self.column_bases is None else self.column_bases) - self.column_scores)

    @property
    def unbiased(self) -> float:
        """The importance without pairs of a row with itself, which change nothing: the centre of intervals."""
        return self.pfi / (1 - self.own_share) if self.own_share < 1 else self.pfi

    @cached_property
    def influence(self) -> Influence:
        """Influence of each row, group or block of rows, as observations and as donors, on `pfi`: the jackknife.

        ``V = (G-1)/G sum over g of (theta_(-g) - mean)^2``, theta_(-g) the importance without unit g.
        """
        if self.undefined:
            raise ValueError(self.undefined)
        if self.without is None:
            raise ValueError(
                f"no standard error of {self.title}: without some rows, as without all of a class, it is not defined, "
                "or there are too few rows, or the design has no columns; use donors='auto' or Latin(m)"
            )
        return self._jackknife(self.without)

    @property
    def base_influence(self) -> Influence:
        """Influence of each row, group or block of rows on `base`: the jackknife of the score itself."""
        if self.score_without is None:
            raise ValueError(
                self.undefined or f"no standard error of {self.title}: without some rows it is not defined"
            )
        sign = -1 if measured(self.title)[1] else 1
        return self._jackknife(sign * self.score_without)

    def score_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of `base` on new data: of the score itself, or of the error that the scorer negates."""
        moved = self.base_influence
        low, high = interval(self.base, moved.std_error, self._units, level, moved.skewness)
        return (max(low, 0.0), min(high, 1.0)) if self.is_auc else (low, high)

    @property
    def _rounding(self) -> float:
        """How far rounding moves the score and the importance."""
        return rounding_error(max(float(np.nan_to_num(self.effective)), 1.0), 2 * self.score)

    @property
    def is_auc(self) -> bool:
        """Whether the score is known to be an AUC, or a mean of AUCs."""
        return self.own is not None and self.own.judge.areas is not None

    def _jackknife(self, without: Floats) -> Influence:
        """Blocks are too few to estimate a skewness."""
        count = len(without)
        moved = np.sqrt((count - 1) / count) * (without.mean() - without)
        return Influence(moved, cubes=0.0 if self.units == "blocks" else None)

    @property
    def at(self) -> Indices:
        """The rows that are scored, as positions."""
        return self._rows_scored().at

    @property
    def sample(self) -> Sample:
        """All rows, which are the donors."""
        return self._rows_scored().sample

    @property
    def row_labels(self) -> Labels | None:
        """The labels of the scored rows in a pandas index; None: they are known by position."""
        return take_labels(self.sample.row_labels, self.at)

    @property
    def _units(self) -> float:
        return self.effective

    @property
    def _unit(self) -> Unit:
        return self.units

    def _drawn_interval(self, level: float) -> tuple[float, float]:
        if self.exact:
            return self.pfi, self.pfi
        raise ValueError("the Monte-Carlo error of a score is not estimated separately; use target='model'")

    @property
    def grid(self) -> Any:
        """The values of the curve."""
        return self.values[0] if len(self.values) == 1 else self.values

    @property
    def weights(self) -> Floats:
        """The share of the donors at each grid value."""
        if self.shares is None:
            raise ValueError(f"the grid of {self.name!r} has no weights")
        return self.shares

    @property
    def pi(self) -> Floats:
        """The score minus the score with every row at that value, (g,); its mean is not `pfi`."""
        if self.curve is None:
            raise ValueError(f"{self.design!r} has no PI curve for a scorer; use donors='all' or Grid(m)")
        shape = tuple(map(len, self.values)) if len(self.values) == 2 else (-1,)
        return np.asarray(self.score - self.curve).reshape(shape)

    conditioning: ClassVar[None] = None

    def given(self, rows: Any) -> Self:
        """The score of these rows (a mask, row labels or positions), with donors from all rows.

        NaN where the score of these rows is not defined, as an AUC of one class; `undefined` says why.
        """
        return self.at_positions(positions(rows, len(self.at), self.row_labels, self.backend))

    def at_positions(self, chosen: Indices) -> Self:
        """`given` for rows at these positions, sorted."""
        own = self._rows_scored()
        own = replace(own, at=own.at[chosen])
        undefined = own.judge.why_undefined(lambda: own.score)[1]
        assert self.column_cells is not None  # kept together
        assert self.curve_cells is not None
        if undefined:
            scores, curve = (one if one is None else one * np.nan for one in (self.column_scores, self.curve))
            undefined = f"{self.title} is not defined for these rows: {undefined}"
            return replace(
                self, score=np.nan, column_scores=scores, curve=curve, without=None, score_without=None, own=own,
                undefined=undefined,
            )  # fmt: skip
        return replace(self, **score_fields(own, self.column_cells, self.curve_cells), own=own, undefined="")

    def _split(self, groups: Any) -> dict[Any, Mask]:
        return split(groups, len(self.at), self.row_labels, self.backend)

    def _rows_scored(self) -> ScoredRows:
        if self.own is None:
            raise ValueError(
                f"some rows have no score by {self.title}: it may read the model or the rows, which results don't "
                "hold. Pass a scorer that sklearn.metrics.make_scorer made, or its name"
            )
        return self.own

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
        """Confidence interval of the score itself on new data, or of the error that the scorer negates."""
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

    def _table(self) -> ResultTable:
        table = super()._table()
        return replace(table, formats={"importance": _defined}) if self._first.undefined else table


def _defined(number: float) -> str:
    return in_digits(number) if np.isfinite(number) else "not defined"
