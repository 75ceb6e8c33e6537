"""What all results of one feature share: its grid, the layout of its cells, and choosing rows.

A result keeps arrays, numbers and words, and nothing of the table, the model or the engine (`lazy` fields included):
cells of as many rows as half of `memory` holds; for each feature a few vectors as long as the rows or the grid (local
importances, grid positions, curves; of an additive model its column until curves are computed); and, once for all
features of a call, the codes of at most 2,000 rows and a million cells, from which `extrapolation` is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.cells.lazy import Deferred, deferred, lazy
from losslens.cells.matrix import Cells, Means, curves, means, shares
from losslens.donors.conditional import Conditioning
from losslens.donors.designs import Design
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.results.extrapolation import Extrapolation
from losslens.results.replaced_rows import ReplacedRows
from losslens.results.selection import positions, split
from losslens.tables.sample import Sample, Totals
from losslens.text import size_in_words
from losslens.typing import Floats, Indices
from losslens.uncertainty.bands import Band, band

FEWEST_KEPT = 30  # kept rows under which the mean of a streamed group's curves says too little


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FeatureResult:
    """One feature's cells and their means."""

    name: str
    columns: tuple[str, ...]
    values: tuple[NDArray[Any], ...] = lazy()  # the grid: one array, or two for a pair
    ordered: bool
    design: Design
    engine: str
    exact: bool
    n_predictions: int
    meeting: Layout = lazy()
    sample: Sample
    at: Indices  # positions in the sample of the rows that this result speaks of
    means: Means
    cells: Cells
    backend: str
    declined: str = ""  # why no exact engine answered, where one knows the kind of model
    observed: Floats | None = None  # (len(at), 2), of a pair: where these rows lie on the grid, in its steps
    conditioning: Conditioning | None = None  # what values were drawn given, where not from everywhere
    extrapolated: ReplacedRows | Extrapolation | None = None  # of the whole table, also where rows are chosen

    @property
    def grid(self) -> Any:
        """The distinct donor values, in order; for a group (g, columns); for a pair two arrays."""
        return self.values[0] if len(self.values) == 1 else self.values

    @property
    def weights(self) -> Floats:
        """The share of the donors at each grid value."""
        if self.means.weights is None:
            raise ValueError(f"the grid of {self.name!r} has no weights: {self._no_donors}")
        return self.means.weights

    @property
    def extrapolation(self) -> Extrapolation | None:
        """How far replaced rows of the whole table are from real ones, on this grid; computed on first access.

        None for pairs, which have no donors, and in files of older versions: `losslens.extrapolation` takes those.
        Text, pictures and files show it once it was computed; they never compute it.
        """
        found = self.extrapolated
        if isinstance(found, ReplacedRows):
            found = found.extrapolation
        return None if found is None else found.on(self.values[0])

    @property
    def known_extrapolation(self) -> Extrapolation | None:
        """The same where it was computed already."""
        found = self.extrapolated
        return None if isinstance(found, ReplacedRows) and not found.known else self.extrapolation

    @property
    def whole(self) -> Totals | None:
        """What is known of all rows of data in files, of which `at` and `local` hold some; None for data in memory."""
        return self.sample.totals

    @property
    def rows(self) -> Indices:
        """The rows whose single curves are kept, as positions in `local`: all unless the result was streamed.

        Of data in files, `local` is that of a sample of the rows; ``whole.rows`` are their positions in the files.
        """
        return np.searchsorted(self.at, self.cells.rows)

    @property
    def complete(self) -> bool:
        """Whether the cells of every row are here."""
        return len(self.cells.rows) == len(self.at)

    @property
    def known_as_streamed(self) -> bool:
        """Whether cells are known to be missing, without computing which are kept."""
        return not isinstance(vars(self.cells)["rows"], Deferred) and not self.complete

    @property
    def _no_donors(self) -> str:
        if len(self.values) == 2:
            return "a product grid holds pairs of values that no row may have"
        return "values of your own say nothing on how often they occur; use Grid(m) or another design"

    def _shaped(self, curve: NDArray[Any]) -> NDArray[Any]:
        """A curve of a pair is a table over its two grids; the grid axis is the last."""
        if len(self.values) == 1:
            return curve
        return curve.reshape(*curve.shape[:-1], *map(len, self.values))

    def given(self, rows: Any) -> Self:
        """These rows, donors from everywhere; a boolean mask or row positions.

        Groups average back to the whole with their shares as weights.
        """
        self._need_rows("given")
        chosen = positions(rows, len(self.at))
        at, observed = self.at[chosen], None if self.observed is None else self.observed[chosen]
        if self.means.local is None and self.means.total is not None:
            self._need_cells("the importance for some rows")
        if self.complete:
            cells = take_rows(self.cells, chosen)
            numbers = self._means(cells, self.meeting, self.sample)
            return replace(self, at=at, cells=cells, means=numbers, observed=observed).trimmed()
        kept = np.flatnonzero(np.isin(self.cells.rows, at))
        cells, numbers = take_rows(self.cells, kept), self._streamed(chosen, kept)
        return replace(self, at=at, cells=cells, means=numbers, exact=False, observed=observed).trimmed()

    def trimmed(self) -> Self:
        """Without grid values that none of these rows met: a curve has nothing to say there."""
        if self.design.common and not self.design.leaves_out_own and self.sample.block is None:
            return self  # every row met every value
        weights = self.means.weights
        if weights is None:
            return self
        kept = np.flatnonzero(weights > 0)
        if len(kept) in (0, len(weights)):
            return self
        cells = take_columns(self.cells, kept) if isinstance(self.meeting, CommonGrid) else self.cells
        pi, pd = (None if curve is None else curve[kept] for curve in (self.means.pi, self.means.pd))
        return replace(
            self,
            meeting=self.meeting.keep(kept),
            values=(self.values[0][kept],),
            cells=cells,
            means=replace(self.means, pi=pi, pd=pd, weights=weights[kept]),
        )

    def by(self, groups: Any) -> dict[Any, Self]:
        """``{label: given(groups == label)}`` for each label."""
        return {label: self.given(mask) for label, mask in split(groups, len(self.at)).items()}

    @property
    def leaves(self) -> dict[str, Self]:
        """``{rule: given(rows of the leaf)}``, where donors came from the same leaf of a tree."""
        told = self.conditioning
        if told is None or told.leaf is None:
            raise ValueError(f"no leaves: the values of {self.name!r} were drawn by {self.design!r}; use Within()")
        here = told.leaf[self.at]
        return {told.rules[k]: self.given(here == k) for k in np.unique(here).tolist()}

    def _means(self, cells: Cells, meeting: Layout, sample: Sample) -> Means:
        return means(cells, meeting, sample)

    def _streamed(self, chosen: Indices, kept: Indices) -> Means:
        """Means of some rows of a streamed result: numbers exact, curves from the kept rows, shifted to fit them."""
        whole = self.means
        local = None if whole.local is None else whole.local[chosen]
        numbers = Means(
            local=local,
            mass=whole.mass[chosen],
            pi=None,
            weights=None if whole.weights is None else shares(self.meeting, self.sample, self.at[chosen]),
            pd=None,
            clipped=float("nan"),
        )
        if len(kept) < FEWEST_KEPT:
            return numbers
        some = self._means(take_rows(self.cells, kept), self.meeting, self.sample)
        pi = some.pi
        if pi is not None and local is not None and some.local is not None:
            pi = pi + (numbers.pfi - some.pfi)
        return replace(numbers, pi=pi, pd=some.pd, weights=some.weights)

    def band(self, level: float = 0.95) -> Band:
        """Confidence band of the whole curve, for this model on new data."""
        raise NotImplementedError

    def _band(self, cells: NDArray[Any], curve: Any, what: str, level: float) -> Band:
        """A band around the mean of the kept rows' curves."""
        mean, rows = np.asarray(self._known(curve, what), float), self.cells.rows
        if isinstance(self.meeting, OwnDonors) and not self.meeting.binned:
            raise ValueError(
                f"no band: {self.design!r} gives each row donors of its own, so that few rows met each value; "
                "use donors='all', Grid(m) or Systematic(m)"
            )
        if not self.complete and len(rows) < FEWEST_KEPT:
            raise ValueError(f"no band: the single curves of {len(rows)} rows alone are kept; raise memory=")
        single = np.asarray(curves(cells, self.meeting, self.sample, rows), float)
        block = None if self.sample.block is None else self.sample.block[rows]
        found = band(single, mean, self.sample.weight[rows], block, self.sample.units(self.at), level)
        low, high, error = map(self._shaped, (found.low, found.high, found.std_error))
        return Band(low, high, error, level)

    def _need_cells(self, what: str) -> None:
        if len(self.cells.rows) == 0:
            raise ValueError(
                f"{what} of {self.name!r} is not known: its table of {self.sample.n:,} rows and "
                f"{self.meeting.width:,} values has too many cells to look at; explain fewer rows, or use Latin(m)"
            )

    def _known(self, curve: Any, what: str) -> Any:
        if curve is None:
            self._need_cells(what)
            raise ValueError(
                f"{what} is not known here: the result keeps the cells of {len(self.cells.rows)} of these rows, "
                f"fewer than {FEWEST_KEPT}; raise memory= (all cells take {size_in_words(self.full_size)})"
            )
        return curve

    @property
    def full_size(self) -> int:
        """The memory= that keeps every cell of this feature."""
        outputs = self.sample.prediction.shape[1:]
        per_cell = 8 + 8 * int(np.prod(outputs))
        return 2 * self.sample.n * self.meeting.width * per_cell

    def _need_rows(self, what: str) -> None:
        if self.whole is not None:
            raise ValueError(
                f"{what} needs the values of every row, but this result comes from files ({self.whole.n:,} rows) and "
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
