"""Importances by scorers (AUC, R2), which give one number for all rows: a global number and a PI curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from losslens.donors.designs import Design
from losslens.results.base import Tabular
from losslens.results.effects import curve_columns
from losslens.results.importances import Importances
from losslens.results.table import ResultTable, facts, grid_size, or_else
from losslens.text import in_digits, measured
from losslens.typing import Axes, Floats


def _absent(what: str) -> property:
    def refuse(self: FeatureScore) -> NoReturn:
        raise ValueError(
            f"{what} doesn't exist for the scorer {self.title}: it gives one number for all rows together. Use a "
            "loss, such as loss='log_loss' or 'squared_error'"
        )

    return property(refuse, doc=f"Raises: {what} needs a loss of each row.")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FeatureScore(Tabular):
    """How much a score decreases when one feature's values come from other rows."""

    name: str
    columns: tuple[str, ...]
    values: tuple[NDArray[Any], ...]
    ordered: bool
    design: Design
    engine: str
    exact: bool
    n_predictions: int
    title: str  # of the scorer
    score: float  # with nothing replaced
    column_scores: Floats | None  # (m,): of each column of the design; None for a grid
    column_shares: Floats | None  # (m,): weight of each column
    curve: Floats | None  # (g,): the score with every row at that value; None if not computed
    shares: Floats | None
    backend: str
    clipped: float = 0.0
    complete: bool = True
    known_as_streamed: bool = False
    caution: ClassVar[str] = ""  # there is no interval
    declined: str = ""  # why no exact engine was used
    extrapolation: ClassVar[None] = None  # not computed for scorers
    known_extrapolation: ClassVar[None] = None
    whole: ClassVar[None] = None  # scorers need all rows at once

    @property
    def pfi(self) -> float:
        """The score minus its mean over the columns of the design: positive means useful."""
        if self.column_scores is None or self.column_shares is None:
            raise ValueError(f"{self.design!r} gives a curve and no number for a scorer; use 'all' or Latin(m)")
        return float((self.score - self.column_scores) @ self.column_shares)  # exactly 0 where nothing changes

    @property
    def unbiased(self) -> float:
        """Equal to `pfi`: a score of all rows has no pairs to leave out."""
        return self.pfi

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

    loss = _absent("a loss of each row")
    error = _absent("the mean loss")
    best_constant = _absent("the best constant")
    error_constant = _absent("the error of the best constant")
    skill = _absent("the skill")
    local = _absent("a local importance")
    ici = _absent("an ICI curve")
    ratio = _absent("the ratio of errors")
    std_error = _absent("the standard error")
    interval = _absent("an interval")
    ratio_std_error = _absent("the ratio of errors")
    ratio_interval = _absent("the ratio of errors")
    p_value = _absent("a test")
    influence = _absent("an influence")
    band = _absent("a band")
    effect = _absent("the effect")
    given = _absent("the importance given some rows")
    by = _absent("the importance by group")
    subset = _absent("the importance on a subset")
    with_loss = _absent("another loss")
    effect_of = _absent("the effect")
    rows = _absent("the list of kept rows")
    at = _absent("a list of rows")
    cells = _absent("an error of single cells")
    drop = _absent("the importance without some rows")
    row_influence = _absent("the influence of single rows")
    conditioning: ClassVar[None] = None

    def to_frame(self) -> Any:
        """The PI curve as a data frame: value, importance."""
        return self._frame(curve_columns(self, {"importance": self.pi}))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the PI curve."""
        from losslens.plots.feature import plot_importance

        return plot_importance(self, ax=ax)

    def _table(self) -> ResultTable:
        numbers = {
            "importance": or_else(lambda: self.pfi, np.nan),
            f"{'error' if measured(self.title)[1] else 'score'}, nothing replaced": self.base,
            "values": grid_size(self.values),
        }
        return facts(f"{self.name}: {self.change}", numbers, [f"{self.design!r}; {self.engine}"])

    def __repr__(self) -> str:
        return f"<FeatureScore {self.name!r}: {self.change}, {self.design}>"

    @property
    def change(self) -> str:
        """What `pfi` is: the decrease in a score, or the increase in an error that the scorer negates."""
        name, is_error = measured(self.title)
        return f"{'increase' if is_error else 'decrease'} in {name}"

    @property
    def base(self) -> float:
        """The score with nothing replaced; the error where the scorer negates one."""
        return -self.score if measured(self.title)[1] else self.score


@dataclass(frozen=True, eq=False, repr=False)
class Scores(Importances):
    """Importances by a scorer: a mapping from name to `FeatureScore`."""

    features: dict[str, FeatureScore]  # type: ignore[assignment]

    def by(self, groups: Any) -> NoReturn:
        """Raises: importance by group needs a loss of each row."""
        raise self._refusal

    def with_loss(self, loss: Any) -> NoReturn:
        """Raises: the predictions are not kept."""
        raise self._refusal

    @property
    def _refusal(self) -> ValueError:
        return ValueError("a scorer gives one number for all rows together; explain again with a loss")

    @property
    def score(self) -> float:
        """The score with nothing replaced."""
        return next(iter(self.features.values())).score

    @property
    def title(self) -> str:
        """The name of the scorer."""
        return next(iter(self.features.values())).title

    @property
    def base(self) -> float:
        """The reference of the importances: the score with nothing replaced, or the error that the scorer negates."""
        return next(iter(self.features.values())).base

    @property
    def headline(self) -> str:
        """What the numbers are."""
        first = next(iter(self.features.values()))
        return f"{first.change}; {in_digits(first.base)} with nothing replaced"
