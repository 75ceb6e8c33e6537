"""Results on losses: importances of features, of observations, and where they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens import uncertainty
from losslens.cells import Cells, Means, curves, means
from losslens.curves import FeatureEffect, ResultMapping, curve_columns
from losslens.losses import Loss
from losslens.losses import resolve as resolve_loss
from losslens.meetings import Common, Meeting
from losslens.results import FeatureResult, Floats, in_digits, positions, size_in_words, take_columns, take_rows
from losslens.sample import Sample, chunks, lose
from losslens.tables import make_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Pick = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FeatureImportance(FeatureResult):
    """How much the loss grows when one feature's values come from other rows: in all, where, and for whom."""

    loss: Loss

    @property
    def pfi(self) -> float:
        """Permutation feature importance: the mean change of loss over all cells."""
        self._need_donors("importance")
        return self.means.pfi

    @property
    def local(self) -> Floats:
        """Importance for each row: the mean change of loss over the donors it met, (n,)."""
        self._need_donors("local importance")
        return np.asarray(self._known(self.means.local, "the importance for single rows"))

    @property
    def error(self) -> float:
        """GE_P of the rows that this result speaks of: their mean loss, nothing replaced."""
        weight = self.sample.weight[self.at]
        if not weight.sum() > 0:
            raise ValueError("these rows have weight zero: they have no mean loss")
        return float(weight @ self._base / weight.sum())

    @property
    def ratio(self) -> float:
        """Error with the feature's values replaced over the error with nothing replaced."""
        if self.error == 0:
            raise ValueError("the ratio divides by the model's error, which is exactly 0 here; use pfi, the difference")
        return 1 + self.pfi / self.error

    @property
    def pi(self) -> Floats:
        """Partial importance: the mean change of loss with every row at that value, (g,) or (g1, g2)."""
        return self._shaped(np.asarray(self._known(self.means.pi, "the PI curve")))

    @property
    def ici(self) -> Floats:
        """Individual conditional importance, one curve a kept row, (n, g); NaN at values that it never met."""
        if not self.means.has_pd:  # nobody looked at single cells
            self._need_cells("every single curve")
        return self._shaped(curves(self._changes, self.meeting, self.sample, self.cells.rows))

    @property
    def clipped(self) -> float:
        """Share of the cells whose log loss is at the clipping bound: a probability of 0 for the true class."""
        return self.means.clipped

    @cached_property
    def std_error(self) -> float:
        """Standard error of `pfi` for this model on new data (jackknife over rows, as observations and donors)."""
        self._need_donors("standard error")
        if len(self.at) < self.sample.n and not self.complete:
            raise ValueError("a streamed result has standard errors for all rows, not for some; raise memory=")
        return uncertainty.std_error(self.means, self.meeting, self.sample, self.at)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the importance of this model on new data, centred at the U-statistic."""
        return uncertainty.interval(self._unbiased, self.std_error, uncertainty.count_units(self.sample), level)

    @property
    def effect(self) -> FeatureEffect:
        """PD and ICE from the same predictions; for two classes the probability of the second."""
        if self.cells.predictions.ndim == 2 and self.loss.reads != "labels":
            return self._effect(lambda p: p, None)
        classes = self._classes
        if len(classes) != 2:
            raise ValueError(f"there is one effect a class: effect_of(label), label one of {classes.tolist()!r}")
        return self.effect_of(classes[1])

    def effect_of(self, label: Any) -> FeatureEffect:
        """PD and ICE of one class: its probability or score, or how often it is predicted."""
        found = np.flatnonzero(self._classes == label)
        if len(found) != 1:
            raise ValueError(f"{label!r} is no class of the model; the classes are {self._classes.tolist()!r}")
        k = int(found[0])
        if self.loss.reads == "labels":
            return self._effect(lambda p: (p == k).astype(float), str(label), lambda pd: pd[..., k])
        if self.cells.predictions.ndim == 2:
            return self._effect(lambda p: p if k == 1 else -p, str(label))
        return self._effect(lambda p: p[..., k], str(label))

    def subset(self, rows: Any) -> Self:
        """These rows with donors among themselves: what recomputing on the subset gives, without the model."""
        chosen = positions(rows, len(self.at))
        self._need_all_cells("subset")
        if not self.meeting.has_mass:  # no donors: a curve over these rows is all there is
            return self.given(chosen)
        meeting, kept = self.meeting.subset(self.at[chosen])
        if len(kept) == 0:
            raise ValueError(f"no donor of {self.name!r} is among the chosen rows")
        sample = self.sample.at(self.at[chosen])
        cells = replace(take_rows(self.cells, chosen), rows=np.arange(len(chosen)))
        if isinstance(meeting, Common):
            cells = take_columns(cells, kept)
        new = replace(
            self, meeting=meeting, sample=sample, at=np.arange(len(chosen)), cells=cells,
            values=(self.values[0][kept],), exact=self.exact and isinstance(meeting, Common),
        )  # fmt: skip
        return replace(new, means=new._means(cells, meeting, sample)).trimmed()

    def with_loss(self, loss: str | Loss | Callable[..., Any]) -> Self:
        """The same predictions judged by another loss that reads the same response."""
        return self._judged(resolve_loss(loss, self.loss.reads))

    def _judged(self, loss: Loss, sample: Sample | None = None) -> Self:
        self._need_all_cells("with_loss")
        if loss.reads != self.loss.reads:
            raise ValueError(f"{loss.name} reads {loss.reads}, but the result holds {self.loss.reads}: explain again")
        if sample is None:
            _check_domain(loss, self.sample)
            sample = self.sample.with_loss(loss)
        changes = np.empty(self.cells.predictions.shape[:2])
        for part in chunks(self.cells.rows, self.meeting.width):
            some = self.cells.predictions[part]
            if loss.domains is not None:  # a deviance is not defined for every prediction
                loss.check_prediction(some.ravel())
            changes[part] = lose(loss, sample, self.cells.rows[part], some)
        new = replace(self, loss=loss, sample=sample, cells=replace(self.cells, changes=changes))
        return replace(new, means=new._means(new.cells, self.meeting, sample))

    def to_frame(self) -> Any:
        """The curves as a data frame: value, weight, importance."""
        return make_frame(curve_columns(self, {"importance": self.pi}), self.backend)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw ICI curves and the PI curve."""
        from losslens.plots import plot_importance

        return plot_importance(self, ax=ax)

    def _repr_html_(self) -> str:
        from losslens.plots.html import show

        return show(self)

    def __repr__(self) -> str:
        number = in_digits(self.pfi) if self.means.has_weights else "curves only"
        return f"<FeatureImportance {self.name!r}: {number} ({self.loss.title}), {len(self.at)} rows, {self.design}>"

    # -- inside ---------------------------------------------------------------------------------------------------

    @property
    def _base(self) -> Floats:
        assert self.sample.loss is not None  # a FeatureImportance is made from a judged sample
        return self.sample.loss[self.at]

    @property
    def _changes(self) -> Floats:
        assert self.cells.changes is not None  # likewise
        return self.cells.changes

    @property
    def _classes(self) -> NDArray[Any]:
        if self.sample.classes is None:
            raise ValueError("the model has no classes")
        return self.sample.classes

    @property
    def _unbiased(self) -> float:
        """The U-statistic: pairs of a row with itself are left out."""
        if self.sample.block is not None or self.meeting.leaves_out_own:
            return self.pfi
        mass = self.means.mass
        return self.pfi / (1 - float(mass @ self.sample.weight[self.at] / mass.sum()))

    def _need_donors(self, what: str) -> None:
        if not self.means.has_weights:
            raise ValueError(f"{self.name!r} has no {what}, only curves: {self._no_donors}")

    def _means(self, cells: Cells, meeting: Meeting, sample: Sample) -> Means:
        return means(cells, meeting, sample, self.loss.ceiling(cells.predictions.dtype))

    def _effect(self, pick: Pick, target: str | None, pick_mean: Pick | None = None) -> FeatureEffect:
        """The effect of one target: what is picked of the predictions, and of their means."""
        cells = Cells(self.cells.rows, pick(self.cells.predictions))
        sample = replace(self.sample, prediction=pick(self.sample.prediction))
        averages = replace(self.means, pd=None if self.means.pd is None else (pick_mean or pick)(self.means.pd))
        shared = {key: getattr(self, key) for key in FeatureResult.__dataclass_fields__}
        return FeatureEffect(**(shared | {"cells": cells, "sample": sample, "means": averages}), target=target)


@dataclass(frozen=True, eq=False, repr=False)
class Importances(ResultMapping[FeatureImportance]):
    """Importances of several features: a mapping from name to `FeatureImportance`."""

    features: dict[str, FeatureImportance]
    n_predictions: int  # rows that the model was asked for, unchanged ones included

    @property
    def error(self) -> float:
        """GE_P, the model's mean loss with nothing replaced."""
        return self._first.error

    @property
    def loss(self) -> Loss:
        """The loss whose change is reported."""
        return self._first.loss

    @property
    def local(self) -> Floats:
        """Importance of each feature for each row, (n, p)."""
        return np.stack([f.local for f in self.features.values()], axis=1)

    @property
    def observations(self) -> Floats:
        """How much each row's loss rests on the features together: the sum of its local importances, (n,)."""
        return np.asarray(self.local.sum(axis=1))

    def subset(self, rows: Any) -> Self:
        """These rows with donors among themselves."""
        self._need_all_cells("subset")
        return self._each(lambda feature: feature.subset(rows))

    def with_loss(self, loss: str | Loss | Callable[..., Any]) -> Self:
        """The same predictions judged by another loss that reads the same response."""
        self._need_all_cells("with_loss")
        new = resolve_loss(loss, self.loss.reads)
        samples: dict[int, Sample] = {}  # one new sample for all features that share one

        def judge(feature: FeatureImportance) -> FeatureImportance:
            judged = feature._judged(new, samples.get(id(feature.sample)))
            samples[id(feature.sample)] = judged.sample
            return judged

        return self._each(judge)

    def _need_all_cells(self, what: str) -> None:
        if not all(feature.complete for feature in self.features.values()):
            needs = size_in_words(sum(feature.full_size for feature in self.features.values()))
            raise ValueError(
                f"{what} needs every cell, but the result was streamed; all features need memory='{needs}'"
            )

    @property
    def headline(self) -> str:
        """What the numbers are."""
        return f"increase in {self.loss.title}; {in_digits(self.error)} with nothing replaced"

    @property
    def notes(self) -> list[str]:
        """What a reader should know of how the numbers came about."""
        first = self._first
        kind = "exact over all pairs" if self.exact else f"sampled with {self.design}"
        found = [f"{kind}; {self.engine}; {self.n_predictions:,} predictions"]
        declined = dict.fromkeys(f.declined for f in self.features.values() if f.engine == "blackbox" and f.declined)
        found += [f"no exact engine: {reason}" for reason in declined]
        if first.known_as_streamed:
            found.append(f"streamed: single curves are kept for {len(first.rows):,} of {len(first.at):,} rows")
        worst = max(self.features.values(), key=lambda f: f.clipped)
        if worst.clipped > 0:
            found.append(
                f"up to {worst.clipped:.1%} of the cells ({worst.name}) give the true class probability 0: "
                "their log loss is the clipping bound, not a measurement"
            )
        return found

    def to_frame(self) -> Any:
        """One row a feature, the most important first."""
        order = self._ranked
        ends = [_or_nan(f, lambda f: f.interval(), (np.nan, np.nan)) for f in order]
        data = {
            "feature": [f.name for f in order],
            "importance": [_or_nan(f, lambda f: f.pfi) for f in order],
            "std_error": [_or_nan(f, lambda f: f.std_error) for f in order],
            "low": [low for low, _ in ends],
            "high": [high for _, high in ends],
            "ratio": [_or_nan(f, lambda f: f.ratio) for f in order],
            "exact": [f.exact for f in order],
            "design": [repr(f.design) for f in order],
            "n_predictions": [f.n_predictions for f in order],
        }
        return make_frame(data, self._first.backend)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the ranking."""
        from losslens.plots import plot_ranking

        return plot_ranking(self, ax=ax)

    def save(self, path: str | Path) -> None:
        """Write the result to one file that `losslens.load` reads back; nothing in it can run."""
        from losslens.storage import save

        save(self, path)

    def _repr_html_(self) -> str:
        from losslens.plots.html import show

        return show(self)

    def __repr__(self) -> str:
        width = max(map(len, self.features))
        lines = [f"Importances: {self.headline}"]
        for f in self._ranked:
            number, error = _or_nan(f, lambda f: f.pfi), _or_nan(f, lambda f: f.std_error)
            pm = f" ± {in_digits(error, like=number)}" if np.isfinite(error) else ""
            lines.append(f"  {f.name:<{width}}  " + (in_digits(number) + pm if np.isfinite(number) else "curves only"))
        return "\n".join([*lines, *(f"  ({note})" for note in self.notes)])

    @property
    def _ranked(self) -> list[FeatureImportance]:
        """The most important first; what has no number comes last."""
        return sorted(self.features.values(), key=lambda f: -float(_or_nan(f, lambda f: f.pfi, -np.inf)))


def _check_domain(loss: Loss, sample: Sample) -> None:
    loss.check_target(sample.target(loss))
    loss.check_prediction(sample.prediction)


def _or_nan(feature: FeatureImportance, ask: Callable[[FeatureImportance], Any], otherwise: Any = np.nan) -> Any:
    """A number where there is one: tables have a place for each."""
    try:
        return ask(feature)
    except ValueError:
        return otherwise
