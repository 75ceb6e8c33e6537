"""What all results of one feature have in common: the grid, the layout of the cells, and the selection of rows.

A result holds arrays, numbers and strings, but no table, model or engine (`lazy` fields included): for each feature a
few vectors as long as the rows or the grid (local importances, grid positions, curves; of an additive model its column
until curves are computed); cells of as many rows as fit into half of the `memory` that these leave; and, once for all
features of a call, copies of at most 2,000 rows and a million cells, from which `extrapolation` is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Cells, Means, besides_cells, curves, drawn_cells, means, shares
from losslens.donors.conditional import Conditioning
from losslens.donors.designs import Design
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.results.extrapolation import Extrapolation
from losslens.results.replaced_rows import ReplacedRows
from losslens.results.selection import Grouped, positions
from losslens.tables.column_scores import CodedRows
from losslens.tables.frozen import Deferred, deferred, lazy
from losslens.tables.sample import Sample, Totals
from losslens.text import size_in_words
from losslens.tracebacks import brief
from losslens.typing import Floats, Indices
from losslens.uncertainty.bands import Band, band

MIN_CURVES = 30  # rows with kept cells that the mean curve of a streamed group needs: fewer are too noisy


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OneFeature(Grouped):
    """A feature, and how its numbers were computed: of cells, or of scores of cells."""

    name: str  #: name of the feature
    columns: tuple[str, ...]  #: the columns that are replaced
    ordered: bool  #: whether its values have an order
    design: Design  #: the donor design that was used
    engine: str  #: the engine that computed the predictions
    exact: bool  #: whether the number is the mean over all pairs
    n_predictions: int  #: rows that the model predicted
    backend: str
    declined: str = ""  #: why no exact engine was used, or why it computed a sample; empty if it computed everything

    _of_one, _has_curves = True, True

    @property
    def grid(self: Any) -> Any:
        """The distinct donor values, in order; for a group (g, columns); for a pair two arrays."""
        return self.values[0] if len(self.values) == 1 else self.values


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FeatureResult(OneFeature):
    """Cells of one feature and their means."""

    values: tuple[NDArray[Any], ...] = lazy()  # the grid: one array, or two for a pair
    layout: Layout = lazy()
    sample: Sample
    at: Indices  # positions in the sample of the rows of this result
    means: Means
    cells: Cells
    observed: Floats | None = None  # (len(at), 2), of a pair: positions of these rows on both grids
    conditioning: Conditioning | None = None  #: what conditional samplers condition on; None: donors from all rows
    extrapolated: ReplacedRows | Extrapolation | None = None  # of all rows, also where some are selected

    _internal = ("influence", "totals")

    @property
    def _why_sampled(self) -> str:
        """Why the model predicted the cells; empty for samplers, which draw values that no engine has."""
        return self.declined if self.declined != self.design.declined else ""

    @property
    def _is_scattered(self) -> bool:
        """Whether few rows are paired with each value: separate estimates, not a curve."""
        return isinstance(self.layout, OwnDonors) and not self.layout.binned

    @property
    def weights(self) -> Floats:
        """The share of the donors at each grid value."""
        if self.means.weights is None:
            raise ValueError(f"the grid of {self.name!r} has no weights: {self._no_donors}")
        return self.means.weights

    @property
    def extrapolation(self) -> Extrapolation | None:
        """How far replaced rows of all rows are from real ones, on this grid; computed on first access.

        None for pairs, which have no donors, and in files of older versions. Text, plots and files include it if it
        has been computed; they never compute it.
        """
        result = self.extrapolated
        if isinstance(result, ReplacedRows):
            result = result.extrapolation
        return None if result is None else result.on(self.values[0])

    @property
    def computed_extrapolation(self) -> Extrapolation | None:
        """`extrapolation` if it has been computed already, otherwise None."""
        rows = self.extrapolated
        return None if isinstance(rows, ReplacedRows) and not rows.is_computed else self.extrapolation

    @property
    def _real_rows(self) -> CodedRows | None:
        """Some rows of the table, which all features share; None where none are kept."""
        return self.extrapolated.among if isinstance(self.extrapolated, ReplacedRows) else None

    @property
    def totals(self) -> Totals | None:
        """Totals over all rows of files, of which `at` and `local` hold some; None for data in memory."""
        return self.sample.totals

    @property
    def rows(self) -> Indices:
        """The rows whose single curves are kept, as positions in `local`: all unless the result was streamed.

        Of data in files, `local` is that of a sample of the rows; ``totals.rows`` are their positions in the files.
        """
        return np.searchsorted(self.at, self.cells.rows)

    @property
    def complete(self) -> bool:
        """Whether the cells of every row are kept."""
        return len(self.cells.rows) == len(self.at)

    @property
    def _is_streamed(self) -> bool:
        """Whether some cells are not kept; False as long as the cells are not computed."""
        return not isinstance(vars(self.cells)["rows"], Deferred) and not self.complete

    def _values_held(self, column: str) -> NDArray[Any] | None:
        places = self.layout.own_places
        if self.columns != (column,) or places is None or len(places) != self.sample.n or (places[self.at] < 0).any():
            return None
        return np.asarray(self.values[0][places[self.at]])

    @property
    def _no_donors(self) -> str:
        if len(self.values) == 2:
            return "a product grid has pairs of values that may not occur in the data"
        return "its grid values were given without frequencies; use Grid(m) or another design"

    def _shaped(self, curve: NDArray[Any]) -> NDArray[Any]:
        """Curves in the shape of the grid: the last axis becomes two for a pair."""
        if len(self.values) == 1:
            return curve
        return curve.reshape(*curve.shape[:-1], *map(len, self.values))

    @brief
    def given(self, rows: Any) -> Self:
        """The result for these rows as observations, with donors from all rows.

        `rows` is a boolean mask or a list of rows: labels, if X is a pandas frame whose index has labels, otherwise
        positions. The mean of groups, weighted by their shares of the rows, is the result for all rows.
        """
        self._need_rows("given")
        return self.at_positions(positions(rows, len(self.at), self.row_labels, self.backend))

    def at_positions(self, chosen: Indices) -> Self:
        """`given` for rows at these positions, sorted."""
        rows, observed = self.at[chosen], None if self.observed is None else self.observed[chosen]
        if self.complete:
            cells = take_rows(self.cells, chosen)
            numbers = self._means(cells, self.layout, self.sample)
            return replace(self, at=rows, cells=cells, means=numbers, observed=observed).trimmed()
        kept = np.flatnonzero(np.isin(self.cells.rows, rows))
        cells, numbers = take_rows(self.cells, kept), self._streamed(chosen, kept)
        return replace(self, at=rows, cells=cells, means=numbers, exact=False, observed=observed).trimmed()

    def trimmed(self) -> Self:
        """The result without grid values at which none of these rows has a donor: curves are undefined there."""
        if self.design.common and not self.design.leaves_out_own and self.sample.block is None:
            return self  # every row has cells at every value
        weights = self.means.weights
        if weights is None:
            return self
        kept = np.flatnonzero(weights > 0)
        if len(kept) in (0, len(weights)):
            return self
        cells = take_columns(self.cells, kept) if isinstance(self.layout, CommonGrid) else self.cells
        pi, pd = (None if curve is None else curve[kept] for curve in (self.means.pi, self.means.pd))
        return replace(
            self,
            layout=self.layout.keep(kept),
            values=(self.values[0][kept],),
            cells=cells,
            means=replace(self.means, pi=pi, pd=pd, weights=weights[kept]),
        )

    def keeping(self, rows: Indices) -> Self:
        """The result with the cells of these rows only, which are among those whose cells are kept."""
        if len(self.cells.rows) <= len(rows):
            return self
        return replace(self, cells=take_rows(self.cells, np.searchsorted(self.cells.rows, rows)))

    @property
    def leaves(self) -> dict[str, Self]:
        """``{rule: given(rows of the leaf)}``, for designs that take donors from the same leaf of a tree."""
        given = self.conditioning
        if given is None or given.leaf is None:
            raise ValueError(f"no leaves: the values of {self.name!r} were drawn by {self.design!r}; use Within()")
        leaf = given.leaf[self.at]
        return {given.rules[k]: self.given(leaf == k) for k in np.unique(leaf).tolist()}

    def _means(self, cells: Cells, layout: Layout, sample: Sample) -> Means:
        return means(cells, layout, sample)

    def _streamed(self, chosen: Indices, kept: Indices) -> Means:
        """Means of some rows of a streamed result: exact numbers, and curves of the kept rows shifted to them."""
        every = self.means
        local = None if every.local is None else every.local[chosen]
        numbers = Means(
            local=local,
            mass=every.mass[chosen],
            pi=None,
            weights=None if every.weights is None else shares(self.layout, self.sample, self.at[chosen]),
            pd=None,
            clipped=float("nan"),
        )
        if len(kept) < MIN_CURVES:
            return numbers
        of_kept = self._means(take_rows(self.cells, kept), self.layout, self.sample)
        pi = of_kept.pi
        if pi is not None and local is not None and of_kept.local is not None:
            pi = pi + (numbers.pfi - of_kept.pfi)
        return replace(numbers, pi=pi, pd=of_kept.pd, weights=of_kept.weights)

    def _band(self, cells: NDArray[Any], curve: Any, what: str, level: float) -> Band:
        """A confidence band around the mean of the kept rows' curves."""
        mean, rows = np.asarray(self._required(curve, what), float), self.cells.rows
        if isinstance(self.layout, OwnDonors) and not self.layout.binned:
            raise ValueError(
                f"no band: {self.design!r} gives each row its own donors, so few rows have a cell at each value; "
                "use donors='all', Grid(m) or Systematic(m)"
            )
        if not self.complete and len(rows) < MIN_CURVES:
            raise ValueError(f"no band: {len(rows)} rows have kept curves, {MIN_CURVES} are needed; raise memory=")
        single = np.asarray(curves(cells, self.layout, self.sample, rows), float)
        block = None if self.sample.block is None else self.sample.block[rows]
        flat = band(single, mean, self.sample.weight[rows], block, self.sample.units(self.at), level)
        low, high, error = map(self._shaped, (flat.low, flat.high, flat.std_error))
        return Band(low, high, error, level)

    def _required(self, curve: Any, what: str) -> Any:
        if curve is None:
            raise ValueError(
                f"{what} was not computed: the result keeps the cells of {len(self.cells.rows)} of these rows, and "
                f"{MIN_CURVES} are needed; raise memory= (all cells take {size_in_words(self.full_size)})"
            )
        return curve

    @property
    def full_size(self) -> int:
        """The `memory` that keeps every cell of this feature, in bytes: a change and its predictions a cell."""
        per_cell = 8 + 8 * int(np.prod(self.sample.prediction.shape[1:]))
        n, m = self.sample.n, self.layout.width
        drawn = 0 if self.conditioning is None else drawn_cells(n, m)
        return 2 * n * m * per_cell + besides_cells(n, 1) + drawn

    def _need_rows(self, what: str) -> None:
        if self.totals is not None:
            raise ValueError(
                f"{what} needs the values of every row, but this result comes from files ({self.totals.n:,} rows) and "
                "keeps a sample of the rows; filter the files and call feature_importance again"
            )

    def _need_all_cells(self, what: str) -> None:
        self._need_rows(what)
        if not self.complete:
            raise ValueError(
                f"{what} needs every cell, but the result was streamed and keeps {len(self.cells.rows)} of "
                f"{len(self.at)} rows; {self.name!r} alone needs memory='{size_in_words(self.full_size)}'"
            )


def take_rows(cells: Cells, chosen: Indices) -> Cells:
    """The cells of some of the kept rows."""
    changes = None if cells.changes is None else cells.changes[chosen]
    return Cells(cells.rows[chosen], cells.predictions[chosen], changes)


def take_columns(cells: Cells, kept: Indices) -> Cells:
    """The cells at some grid values."""
    return Cells(cells.rows, deferred(_columns, cells, "predictions", kept), deferred(_columns, cells, "changes", kept))


def _columns(cells: Cells, what: str, kept: Indices) -> Any:
    every = getattr(cells, what)
    return None if every is None else every[:, kept]
