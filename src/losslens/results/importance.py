"""The importance of one feature: one number, a curve along its values, and a number for each row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.cells.matrix import Cells, Means, curves, means
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.losses import Loss, OutputLoss, OutputsLoss, outputs_of, same_outputs
from losslens.losses import resolve as resolve_loss
from losslens.plots.look import Look, draws
from losslens.results.effects import FeatureEffect, curve_columns
from losslens.results.feature import FeatureResult, take_columns, take_rows
from losslens.results.one_number import OneNumber, number_of
from losslens.results.over_time import OverTime, over_time
from losslens.results.row_influence import RowInfluence
from losslens.results.selection import all_but, positions
from losslens.results.table import ResultTable, facts, grid_size, or_else
from losslens.tables.constant import BestConstant, best_constant, skill
from losslens.tables.sample import Sample, cell_changes
from losslens.text import Sentence, how_computed, in_digits, rounding_error
from losslens.tracebacks import brief
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Floats, Indices, Limits
from losslens.uncertainty import cautions, standard_errors
from losslens.uncertainty.bands import Band
from losslens.uncertainty.inference import Unit
from losslens.uncertainty.leave_one_out import leave_one_out
from losslens.uncertainty.standard_errors import Influence, Target, check_target

if TYPE_CHECKING:
    from losslens.results.regions import Regions, RegionTarget

Pick = Callable[[NDArray[Any]], NDArray[Any]]
CURVES_ONLY = "curves only"  # shown instead of a number for pairs and for grids without weights


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FeatureImportance(FeatureResult, OneNumber):
    """How much the loss increases when a feature's values come from other rows: on average, by value, and by row.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> x0 = ll.feature_importance(lambda X: 2 * X[:, 0], X, 2 * X[:, 0], loss="squared_error")["x0"]
    >>> low, high = x0.interval()
    >>> bool(low < x0.pfi < high)
    True
    >>> bool(np.isclose(x0.pi @ x0.weights, x0.pfi)), bool(np.isclose(x0.local.mean(), x0.pfi))
    (True, True)
    """

    loss: Loss  #: the loss whose change is reported

    @property
    def pfi(self) -> float:
        """Permutation feature importance: the mean change of loss over all cells."""
        self._need_donors("importance")
        return self.means.pfi

    @property
    def unbiased(self) -> float:
        """The U-statistic, without pairs of a row with itself: what intervals and tests are of."""
        if self.sample.block is not None or self.layout.leaves_out_own:
            return self.pfi
        return self.pfi / self.sample.others_share(self.at, self.means.mass)

    @property
    def local(self) -> Floats:
        """Importance for each row: the mean change of its loss over its donors, (n,)."""
        self._need_donors("local importance")
        return np.asarray(self._required(self.means.local, "the importance for single rows"))

    @property
    def error(self) -> float:
        """GE_P of the rows of this result: their mean loss with nothing replaced."""
        return self.sample.mean_loss(self.at)

    @property
    def errorless(self) -> bool:
        """Whether the loss of a prediction (not of a label, which is often right) is exactly 0 for every row."""
        loss = self.sample.loss
        if loss is None or self.loss.reads == "labels" or self.error != 0:
            return False
        return not loss[self.at][self.sample.weight[self.at] > 0].any()

    @property
    def best_constant(self) -> BestConstant:
        """The prediction that, the same for all rows, has the smallest error on them."""
        return best_constant(self.loss, self.sample, self.at)

    @property
    def error_constant(self) -> float:
        """The error of the best constant, such as the mean of y for the squared error, on the same rows."""
        return self.best_constant.error

    @property
    def skill(self) -> float:
        """``1 - error / error_constant``: 1 without errors, 0 as the best constant; R² for the squared error."""
        return skill(self.error, self.error_constant)

    @property
    def ratio(self) -> float:
        """Error with the feature's values replaced over the error with nothing replaced."""
        if self.error == 0:
            raise ValueError("the ratio divides by the model's error, which is exactly 0 here; use pfi, the difference")
        return 1 + self.pfi / self.error

    @property
    def pi(self) -> Floats:
        """Partial importance: the mean change of loss with every row at that value, (g,) or (g1, g2)."""
        return self._shaped(np.asarray(self._required(self.means.pi, "the PI curve")))

    @property
    def ici(self) -> Floats:
        """Individual conditional importance, one curve a kept row, (n, g); NaN at values without a cell."""
        return self._shaped(curves(self._changes, self.layout, self.sample, self.cells.rows))

    @property
    def clipped(self) -> float:
        """Share of the cells whose log loss is at the clipping bound: a probability of 0 for the true class."""
        return self.means.clipped

    @cached_property
    def influence(self) -> Influence:
        """Influence of each row, as an observation and as a donor, on `pfi`: the basis of standard errors."""
        self._need_donors("standard error")
        if len(self.at) < self.sample.n and not self.complete:
            raise ValueError("no standard error for some rows of a streamed result; raise memory=")
        return standard_errors.influence(self.means, self.layout, self.sample, self.at)

    @cached_property
    def row_influence(self) -> RowInfluence:
        """The change of the importance when a row is left out, as an observation and as a donor."""
        self._need_donors("importance")
        self._need_rows("row_influence")
        self._need_both_roles("row_influence")
        roles = leave_one_out(self.means, self.layout, self.sample, self.at, self.unbiased)
        share = self.pfi / self.unbiased if self.unbiased else 1.0
        as_row, as_donor = (share * role for role in roles)
        return RowInfluence(
            self.name, self.loss.title, self.unbiased, as_row, as_donor, self.backend, self.row_labels, self.pfi
        )

    @property
    def caution(self) -> str:
        """Why the number is to be taken with caution, in plain words; empty if it is not.

        For its interval, or as the rows with the feature shuffled are unlike real ones: their share is said, from 30%
        on, once `extrapolation` was computed; before that, that other columns determine the feature.
        """
        return " ".join(filter(None, (self._caution, self._unreal_rows)))

    @property
    def _unreal_rows(self) -> str:
        """That rows with the feature shuffled are, or may be, unlike any real one; empty where they are not."""
        return "" if self.extrapolated is None else self.extrapolated.remark

    @property
    def _doubts(self) -> str:  # type: ignore[override]
        """Why the number, not only its interval, is to be taken with caution."""
        influence = or_else(lambda: self.influence, None)
        if influence is None:
            return ""
        doubts = [cautions.doubted_draws(self.conditioning)]
        if influence.std_error > 0:  # else nothing changes: nothing is decided by a bound, or by a few targets
            sample = self.sample if len(self.at) == self.sample.n else self.sample.at(self.at)
            doubts = [cautions.clipped(self.clipped), cautions.inflated(sample), *doubts]
        return " ".join(filter(None, doubts))

    @property
    def ratio_std_error(self) -> float:
        """Standard error of `ratio` for this model on new data: both errors depend on the rows."""
        error = self.error
        if error == 0:
            return float(self.ratio)  # raises, with the reason
        on_error = standard_errors.influence_on_error(self.sample, self.at)
        return standard_errors.ratio_influence(self.influence, on_error, self.unbiased, error).std_error

    def ratio_interval(self, level: float = 0.95, target: Target = "model") -> tuple[float, float]:
        """Confidence interval of `ratio`, computed on the log scale; `level` and `target` as in `interval`."""
        if check_target(target) == "sample":
            low, high = (end - self.pfi for end in self.interval(level, "sample"))
            return self.ratio + low / self.error, self.ratio + high / self.error
        error = self.ratio_std_error
        change = self.unbiased / self.error
        ratio = 1 + change
        if not ratio > 0:
            low, high = standard_errors.interval(ratio, error, self._units, level)
        else:
            ends = standard_errors.interval(0.0, error / ratio, self._units, level)
            low, high = ratio * np.exp(ends)
        low, high = standard_errors.around(self.ratio - 1, change, (low - 1, high - 1))
        return float(1 + low), float(1 + high)

    def band(self, level: float = 0.95) -> Band:
        """Simultaneous confidence band of the PI curve, for this model on new data; `level` is its probability."""
        return self._band(self._changes, self.means.pi, "the PI curve", level)

    @property
    def effect(self) -> FeatureEffect:
        """PD and ICE from the same predictions; for two classes the probability of the second."""
        if isinstance(self.loss, OutputLoss):
            return self.effect_of(self.loss.of.outputs[self.loss.k])
        if isinstance(self.loss, OutputsLoss) and len(self.loss.outputs) == 1:
            return self.effect_of(self.loss.outputs[0])
        if self.cells.predictions.ndim == 2 and self.loss.reads != "labels":
            return self._effect(lambda p: p, None)
        if isinstance(self.loss, OutputsLoss):
            raise ValueError(
                f"each output has its own effect; use effect_of(output) with one of {list(self.loss.outputs)!r}"
            )
        classes = self._classes
        if len(classes) != 2:
            raise ValueError(f"each class has its own effect; use effect_of(label) with one of {classes.tolist()!r}")
        return self.effect_of(classes[1])

    def effect_of(self, label: Any) -> FeatureEffect:
        """PD and ICE of the class `label`: its probability or score, or how often it is predicted; or of an output."""
        if (outputs := outputs_of(self.loss)) is not None:
            if label not in outputs:
                raise ValueError(f"{label!r} is not an output of the model; the outputs are {list(outputs)!r}")
            column = outputs.index(label)
            return self._effect(lambda p: p[..., column], str(label))
        positions = np.flatnonzero(self._classes == label)
        if len(positions) != 1:
            raise ValueError(f"{label!r} is not a class of the model; the classes are {self._classes.tolist()!r}")
        k = int(positions[0])
        if self.loss.reads == "labels":
            return self._effect(lambda p: (p == k).astype(float), str(label), lambda pd: pd[..., k])
        if self.cells.predictions.ndim == 2:
            return self._effect(lambda p: p if k == 1 else -p, str(label))
        return self._effect(lambda p: p[..., k], str(label))

    @brief
    def subset(self, rows: Any) -> Self:
        """The result for these `rows` with donors among them: as of a new call on the subset, without the model."""
        self._need_rows("subset")
        return self._subset(positions(rows, len(self.at), self.row_labels, self.backend))

    def _subset(self, chosen: Indices) -> Self:
        self._need_all_cells("subset")
        if not self.layout.has_mass:  # no donors: only the curve over these rows
            return self.at_positions(chosen)
        layout, kept = self.layout.subset(self.at[chosen])
        if len(kept) == 0:
            raise ValueError(f"no donor of {self.name!r} is among the chosen rows")
        sample = self.sample.at(self.at[chosen])
        cells = replace(take_rows(self.cells, chosen), rows=np.arange(len(chosen)))
        if isinstance(layout, CommonGrid):
            cells = take_columns(cells, kept)
        new = replace(
            self, layout=layout, sample=sample, at=np.arange(len(chosen)), cells=cells,
            values=(self.values[0][kept],), exact=self.exact and isinstance(layout, CommonGrid),
            conditioning=None if self.conditioning is None else self.conditioning.at(self.at[chosen]),
        )  # fmt: skip
        return replace(new, means=new._means(cells, layout, sample)).trimmed()

    @brief
    def drop(self, rows: Any) -> Self:
        """The result without these `rows`, as observations and as donors: the `subset` of the others."""
        self._need_both_roles("drop")
        others = all_but(rows, len(self.at), self.row_labels, self.backend)
        return self if len(others) == len(self.at) else self._subset(others)

    @brief
    def with_loss(self, loss: str | Loss | Callable[..., Any]) -> Self:
        """The same predictions with another `loss`, a name or a function, of the same response."""
        return self._with_loss(same_outputs(resolve_loss(loss, self.loss.reads), self.loss))

    def _with_loss(self, loss: Loss, sample: Sample | None = None) -> Self:
        self._need_all_cells("with_loss")
        if loss.reads != self.loss.reads:
            raise ValueError(
                f"the loss {loss.name} reads {loss.reads}, but the result holds {self.loss.reads}: compute it again"
            )
        if sample is None:
            _check_domain(loss, self.sample)
            sample = self.sample.with_loss(loss)
        changes = cell_changes(loss, sample, self.cells.rows, self.cells.predictions)
        new = replace(self, loss=loss, sample=sample, cells=replace(self.cells, changes=changes))
        return replace(new, means=new._means(new.cells, self.layout, sample))

    @brief
    def over(self, times: Any, bins: int | None = None, width: Any = None, level: float = 0.95) -> OverTime:
        """The importance over time: of the rows in each period, with donors from all rows, and a band.

        Parameters
        ----------
        times
            The time of each row, as `time_blocks` takes them: numbers, dates or durations, in any order. Or the name of
            a column of which the result holds the values, as in `by`.
        bins
            The number of periods, equally long; by default up to 12, as many as have 60 rows (5 groups) on average.
        width
            Their length in the unit of `times` instead: a number, or for dates a duration such as ``"30D"``, ``"1M"``.
        level
            The probability that the band contains the importance in all periods.
        """
        return over_time({self.name: self}, times, bins, width, level)

    @brief
    def regions(
        self, X: Any, *, target: RegionTarget = "interaction", depth: int = 3, level: float = 0.05,
        permutations: int = 499, random_state: Any = 0,
    ) -> Regions:  # fmt: skip
        """Regions of the data in which the importance differs; arguments as in `Importances.regions`."""
        from losslens.rows.regions import find_regions

        return find_regions({self.name: self}, X, target, depth, level, permutations, random_state)

    def to_frame(self) -> Any:
        """The curves as a data frame: value, weight, importance."""
        return self._frame(curve_columns(self, {"importance": self.pi}))

    @property
    def _message(self) -> Sentence:
        from losslens.results.sentences import most_at

        return most_at(self)

    @draws("curve")
    def plot(
        self, ax: Axes | None = None, *, curves: bool = True, scale: AxisScale = "linear", limits: Limits = "pi",
        partner: Any = None, colors: Colors | None = None, labels: FeatureLabels | None = None,
        title: str | None = None,
    ) -> Axes:  # fmt: skip
        """Draw where in a feature's range its importance comes from: the PI curve over the ICI curves of single rows.

        An ordered feature gives curves, or points if the design pairs each value with few rows only. Unordered values
        give dots and ranges. A pair gives a heat map with the observed rows as points, hatched where there are none. A
        group of columns gives a histogram of its local importances. At most 200 curves are drawn, evenly along the
        order of the rows' local importances; the rows at both ends are named. Curves can't be centred, as those of
        effects can: each ICI curve is 0 at the row's own value.

        Parameters
        ----------
        curves
            Whether single rows are drawn: their ICI curves, points or ranges.
        limits
            ``"pi"``: the axis follows the PI curve and its band, and the caption says how many rows leave it;
            ``"all"``: it holds all rows that are drawn.
        partner
            The values of another column, one for each row, to colour the ICI curves by; or the importances of all
            features, of which the one is taken that explains most of how the shapes of the curves differ.
        colors
            Colour of the PI curve and its band; of a pair, a colour map or its name.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
        >>> imp["x1"].plot().get_ylabel()
        'increase in squared error'
        >>> imp["x1"].plot(curves=False, labels={"x1": ("speed", "m/s")}).get_xlabel()
        'speed (m/s)'
        """
        return plots.feature.plot_importance(
            self, ax, Look(scale=scale, colors=colors, labels=labels, curves=curves, limits=limits, partner=partner)
        )

    _curves = property(attrgetter("ici"))

    def _picture(self, look: Look) -> Any:
        return plots.feature_data.of_importance(self, look)

    @draws("map")
    def plot_cells(
        self, ax: Axes | None = None, *, colors: Colors | None = None, labels: FeatureLabels | None = None
    ) -> Axes:
        """Draw how each row's loss changes with each value: a heat map with the most important row on top.

        Of more than 400 rows, 400 are shown evenly along the order of local importances, both ends included.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
        >>> imp["x1"].plot_cells().get_xlabel()
        'x1'
        """
        return plots.cells.plot_cells(self, ax, Look(colors=colors, labels=labels))

    def _table(self) -> ResultTable:
        pfi, error, low, high = (number_of(self, name) for name in ("importance", "std_error", "low", "high"))
        numbers = {
            "importance (PFI)": pfi if np.isfinite(pfi) else CURVES_ONLY,
            "std. error": error,
            "95% interval": f"{in_digits(low)} to {in_digits(high)}" if np.isfinite(low) else "",
            "error, nothing replaced": or_else(lambda: self.error, np.nan),
            "rows": len(self.at),
            "values": grid_size(self.values),
        }
        kind = "exact over all pairs of rows" if self.exact else f"sampled pairs of rows, {self.design!r}"
        notes, far = [f"{kind}; {how_computed(self.engine, self.n_predictions)}"], self.computed_extrapolation
        if far is not None and far.warns:
            notes.append(far.sentence)
        notes += cautions.noted([self.name], [self.caution])
        return facts(f"{self.name}: increase in {self.loss.title}", numbers, notes)

    def __repr__(self) -> str:
        number = in_digits(or_else(lambda: self.pfi, np.nan)) if self.means.has_weights else CURVES_ONLY
        return f"<FeatureImportance {self.name!r}: {number} ({self.loss.title}), {len(self.at)} rows, {self.design}>"

    # -- inside ---------------------------------------------------------------------------------------------------

    @property
    def _rounding(self) -> float:
        """How far rounding moves the error and the importance: that of the losses, and of the predictions in them."""
        from_predictions, prediction = 0.0, self.sample.prediction
        if prediction.dtype.kind == "f" and self.sample.y is not None and self.loss.function is not None:
            nearer = (prediction * (1 - np.finfo(prediction.dtype).eps))[self.at][:, None]  # by their last bit
            changes = np.abs(cell_changes(self.loss, self.sample, self.at, nearer)[:, 0])
            from_predictions = float(np.average(changes, weights=self.sample.weight[self.at]))
        return rounding_error(len(self.at), 2 * self.error) + from_predictions

    @property
    def _losses(self) -> Floats:
        assert self.sample.loss is not None  # every FeatureImportance has a loss
        return self.sample.loss[self.at]

    @property
    def _changes(self) -> Floats:
        assert self.cells.changes is not None  # likewise
        return self.cells.changes

    @property
    def _classes(self) -> NDArray[Any]:
        if self.sample.classes is None:
            raise ValueError("the model has no classes, so effects have no label: use .effect")
        return self.sample.classes

    @property
    def _units(self) -> float:
        """The effective number of rows, or groups of rows."""
        return self.sample.effective_units(self.at)

    @property
    def _unit(self) -> Unit:
        return "rows" if self.sample.block is None else "groups"

    _measure = "error"

    @property
    def change(self) -> str:
        """What `pfi` is."""
        return f"increase in {self.loss.title}"

    @property
    def base(self) -> float:
        """The reference of the importance: the error with nothing replaced."""
        return self.error

    @property
    def base_influence(self) -> Influence:
        """Influence of each row, or group of rows, on `base`."""
        return standard_errors.influence_on_error(self.sample, self.at)

    def _drawn_interval(self, level: float) -> tuple[float, float]:
        """Interval of the mean over all pairs of these rows: only the sampling of donors is uncertain."""
        self._need_donors("importance")
        if self.design.sampled_grid and not self.exact:
            of_donors = standard_errors.grid_influence(self.means, self.design, self.sample)
            units = len(of_donors.moved)
            return standard_errors.interval(self.pfi, of_donors.std_error, units, level, of_donors.skewness)
        noise = (
            0.0 if self.exact else standard_errors.monte_carlo_variance(self.means, self.layout, self.sample, self.at)
        )
        if not np.isfinite(noise):
            raise ValueError("no Monte-Carlo error: too few cells to separate rows and donors from noise")
        return standard_errors.interval(self.pfi, float(np.sqrt(noise)), np.inf, level)

    def _influence_less(self, other: Any) -> Influence:
        """Influence of each row on the difference of two importances on the same rows.

        With the same donors in both, the influence is that of the differences of cells. Otherwise the noise of one
        sampled design can be subtracted; that of two, which may have donors in common, is not, which makes intervals
        conservative.
        """
        if not (isinstance(self.layout, OwnDonors) and isinstance(other.layout, OwnDonors)):
            return super()._influence_less(other)
        same = self.layout.donors.shape == other.layout.donors.shape and self.complete and other.complete
        if not (same and np.array_equal(self.layout.donors[self.at], other.layout.donors[other.at])):
            return Influence(self.influence.moved - other.influence.moved)
        cells = Cells(self.cells.rows, np.zeros(self._changes.shape), self._changes - other._changes)
        return standard_errors.influence(means(cells, self.layout, self.sample), self.layout, self.sample, self.at)

    def _need_both_roles(self, what: str) -> None:
        if len(self.at) < self.sample.n:
            raise ValueError(
                f"{what} leaves rows out as observations and as donors, but `given` selected observations only and "
                "kept all rows as donors; drop rows before `given`, or use subset instead of given"
            )

    def _need_donors(self, what: str) -> None:
        if not self.means.has_weights:
            raise ValueError(f"{self.name!r} has no {what}, only curves: {self._no_donors}")

    def _means(self, cells: Cells, layout: Layout, sample: Sample) -> Means:
        return means(cells, layout, sample, self.loss.ceiling(cells.predictions.dtype))

    def _effect(self, pick: Pick, target: str | None, pick_mean: Pick | None = None) -> FeatureEffect:
        """The effect on one output, which `pick` selects from predictions and `pick_mean` from their means."""
        cells = Cells(self.cells.rows, pick(self.cells.predictions))
        sample = replace(self.sample, prediction=pick(self.sample.prediction))
        averages = replace(self.means, pd=None if self.means.pd is None else (pick_mean or pick)(self.means.pd))
        shared = {key: getattr(self, key) for key in FeatureResult.__dataclass_fields__}
        return FeatureEffect(**(shared | {"cells": cells, "sample": sample, "means": averages}), target=target)


def _check_domain(loss: Loss, sample: Sample) -> None:
    loss.check_target(sample.target(loss))
    loss.check_prediction(sample.prediction)
