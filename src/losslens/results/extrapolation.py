"""How far replaced rows are from real ones: a warning, and the parts of a feature's curve that it concerns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Result, Stored
from losslens.results.table import FEATURE, ResultTable
from losslens.tables.columns import places_of
from losslens.tables.features import position_of
from losslens.text import Sentence, claim, percent, share_in_words
from losslens.typing import Axes, Colors, FeatureLabels, Floats, Sort

WARNING = 0.6  # AUC above which replaced rows differ from real ones enough to warn
MIN_FAR_SHARE = 0.01  # no warning where a smaller share of the cells is far from real rows
RARER = 10.0  # a cell is far where real rows like it are this many times rarer than replaced ones
NAMED_IN_NOTE = 6  # features in one line of text
MOSTLY = 0.3  # share of far cells from which on it is said wherever the number stands
FADED = 0.5  # share of far cells above which a part of a curve is drawn faded


def rule_in_words(features: Iterable[Extrapolation]) -> str:
    """When a feature is marked: the rule of `Extrapolation.warns`, with the largest threshold of these features."""
    limit = max(one.threshold for one in features)
    return (
        f"a classifier distinguishes rows with the feature replaced from real ones (AUC > {limit:.2g}), and "
        f"{MIN_FAR_SHARE:.0%} or more of these are {RARER:g} times rarer among real rows"
    )


@dataclass(frozen=True, eq=False, repr=False)
class Extrapolation(Stored):
    """How well a classifier distinguishes replaced rows of one feature from real ones, and the share far from all.

    A replaced row keeps its own values of the other columns and has the feature's value of a donor. Where the feature
    is correlated with other columns, such rows may be unlike any real one, and the model's predictions for them were
    never checked against data.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> a, b, c = np.random.default_rng(0).normal(size=(3, 500))
    >>> X = np.column_stack([a, a + 0.1 * b, c])
    >>> one = ll.feature_importance(lambda X: X[:, 0], X, a, loss="squared_error")["x0"].extrapolation
    >>> one.warns, one.ties
    (True, ('x1',))
    """

    name: str  #: name of the feature
    auc: float  #: AUC of a cross-fitted classifier of replaced and real rows; NaN where there are too few rows
    share: float  #: of the replaced rows: those at least `RARER` times as frequent as similar real rows
    grid: NDArray[Any]  #: values of the feature, (g,); none for a group of columns
    at: Floats  #: the share among the rows at each grid value, (g,)
    ties: tuple[str, ...] = ()  #: the columns most associated with the feature
    threshold: float = WARNING  #: the AUC above which it warns: higher for few rows, where 0.6 may occur by chance
    drawn: bool = False  #: whether values were drawn given the other columns

    _internal = ("on", "percent")

    @property
    def warns(self) -> bool:
        """Whether replaced rows differ from real ones (AUC > 0.6; more under 100 rows), and some are far from all."""
        return bool(self.auc > self.threshold and self.share >= MIN_FAR_SHARE)

    @property
    def faded(self) -> NDArray[np.bool_]:
        """The grid values where most replaced rows are far from real ones, (g,)."""
        return np.asarray(self.warns & (self.at > FADED))

    @property
    def sentence(self) -> str:
        """The warning in words, or why there is none."""
        return self._unlike_real_rows()

    @claim(level=0.05)
    def _unlike_real_rows(self) -> str:
        """`sentence`: that a classifier separates the rows is a claim; that it failed to is none about new rows."""
        if np.isnan(self.auc):
            return f"too few rows to tell whether replaced rows of {self.name} are like real ones"
        if not self.warns:
            alike = self.auc <= self.threshold
            finding = (
                "could not be told from real ones" if alike else "differ from real ones, but hardly any is far from all"
            )
            return f"replaced rows of {self.name} {finding} (AUC {self.auc:.2f})"
        return self._finding if self.drawn else f"{self._finding}; see Within() or Residual()"

    @property
    def _finding(self) -> str:
        """What a warning says, without advice."""
        others = " and ".join(self.ties) or "other columns"
        tied = f"(a classifier tells them apart, AUC {self.auc:.2f}): {self.name} is correlated with {others}"
        return f"{self.percent} of the rows with {self.name} replaced are unlike any real one {tied}"

    @property
    def remark(self) -> str:
        """What is said wherever the importance stands, from a share of 30% on."""
        return self._many_unreal_rows()

    @claim(level=0.05)
    def _many_unreal_rows(self) -> str:
        """`remark`: where the share is 30% or more."""
        if not (self.warns and self.share >= MOSTLY):
            return ""
        how = "drawn anew" if self.drawn else "shuffled"
        return f"{self.percent.capitalize()} of the rows with it {how} are unlike any real one."

    @property
    def percent(self) -> str:
        """The share as text."""
        return share_in_words(self.share)

    def on(self, grid: NDArray[Any]) -> Extrapolation:
        """The same at other values of the feature, `grid`: interpolated if they have an order, otherwise matched."""
        grid = np.atleast_1d(grid)
        if grid.ndim != 1:  # of a group of columns
            return replace(self, grid=grid[:0], at=np.empty(0))
        return replace(self, grid=grid, at=_interpolated(self.grid, self.at, grid, self.share))

    def __repr__(self) -> str:
        return f"<Extrapolation {self.name!r}: AUC {self.auc:.3f}, {percent(self.share)} far from real rows>"


def _interpolated(values: NDArray[Any], far: Floats, grid: NDArray[Any], default: float) -> Floats:
    """Shares at the values of a grid; a value that was not examined has the share over all values."""
    position = places_of(grid, values)
    shares = np.where(position >= 0, far[position], np.nan) if len(far) else np.full(len(grid), np.nan)
    if values.dtype.kind in "biufmM" and grid.dtype.kind in "biufmM":
        numbers, grid_numbers = (_as_numbers(some) for some in (values, grid))
        inner = np.isfinite(numbers)
        missing = np.isnan(shares) & ~np.isnan(grid_numbers)
        if inner.any():
            shares[missing] = np.interp(grid_numbers[missing], numbers[inner], far[inner])
    return np.where(np.isnan(shares), default, shares)


def _as_numbers(values: NDArray[Any]) -> Floats:
    """Numbers as they are, dates and durations as microseconds: nanoseconds end in 2262."""
    if values.dtype.kind not in "mM":
        return values.astype(float)
    fine = np.datetime_data(values.dtype)[0] == "ns"
    numbers = (values if fine else values.astype(f"{values.dtype.kind}8[us]")).astype("i8").astype(float)
    return np.where(np.isnat(values), np.nan, numbers / 1000 if fine else numbers)


@dataclass(frozen=True, eq=False, repr=False)
class Extrapolations(Result, Mapping[str, Extrapolation]):
    """Extrapolation of several features: a mapping from name to `Extrapolation`, without pairs on a product grid.

    `to_frame()` has one row a feature, the largest AUC first: feature, auc, share, warns, tied_to.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> a, b, c = np.random.default_rng(0).normal(size=(3, 500))
    >>> X = np.column_stack([a, a + 0.1 * b, c])
    >>> imp = ll.feature_importance(lambda X: X[:, 0], X, a, loss="squared_error")
    >>> {name: one.warns for name, one in imp.extrapolation.items()}
    {'x0': True, 'x1': True, 'x2': False}
    """

    features: dict[str, Extrapolation]
    backend: str = "pandas"

    @property
    def warned(self) -> tuple[str, ...]:
        """The features that warn, the largest AUC first."""
        return tuple(one.name for one in sorted(self.features.values(), key=lambda one: -one.auc) if one.warns)

    @property
    def note(self) -> str:
        """One line on all features that warn, those with the most far rows first; empty where none does."""
        return self._warned_in_words()

    @claim(level=0.05)
    def _warned_in_words(self) -> str:
        """`note`, as a claim about these rows."""
        warned = sorted((self.features[name] for name in self.warned), key=lambda one: -one.share)
        some = ", ".join(f"{one.name} {one.percent}" for one in warned[:NAMED_IN_NOTE])
        more = f" and {len(warned) - NAMED_IN_NOTE} more" if len(warned) > NAMED_IN_NOTE else ""
        return f"unrealistic rows created by replacing values: {some}{more}; see .extrapolation" if warned else ""

    @property
    def _message(self) -> Sentence:
        from losslens.results.sentences import hardly_occurring

        return hardly_occurring(self)

    def _table(self) -> ResultTable:
        order = sorted(self.features.values(), key=lambda one: -np.nan_to_num(one.auc))
        columns = {
            "feature": [one.name for one in order],
            "auc": [one.auc for one in order],
            "share": [one.share for one in order],
            "warns": [one.warns for one in order],
            "tied_to": [", ".join(one.ties) for one in order],
        }
        return ResultTable(
            f"Extrapolation: replaced one by one, {len(self.warned)} of {len(self)} features create unrealistic rows",
            columns, ("{sentence}",),
            (FEATURE, ("AUC", "{auc}"), ("unlike any real row", "{share}"), ("tied to", "{tied_to}")),
            extra={"sentence": [one.sentence for one in order]}, formats={"auc": ".2f"},
            in_text=[k for k, one in enumerate(order) if one.warns],
        )  # fmt: skip

    @draws("rows")
    def plot(
        self, ax: Axes | None = None, *, top: int | None = None, sort: Sort = "importance",
        colors: Colors | None = None, labels: FeatureLabels | None = None, title: str | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the share of each feature's replaced rows that are unlike any real one, the largest on top.

        Parameters
        ----------
        top
            How many features to draw, those with the largest shares; all that fit by default.
        sort
            Order of the features: ``"importance"``, the largest share first, ``"name"`` or ``"given"``.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
        >>> imp.extrapolation.plot(top=1).get_xlabel()
        'share of replaced rows that are unrealistic'
        """
        return plots.rankings.plot_extrapolation(self, ax, Look(top, sort, colors=colors, labels=labels))

    def __getitem__(self, name: str) -> Extrapolation:
        position_of(name, tuple(self.features))
        return self.features[str(name)]
