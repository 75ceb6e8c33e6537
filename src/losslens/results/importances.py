"""Importances of several features, of observations, and how surely they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from losslens.losses import Loss
from losslens.losses import resolve as resolve_loss
from losslens.results.base import Result, ResultMapping
from losslens.results.extrapolation import Extrapolations
from losslens.results.importance import CURVES_ONLY, NUMBERS, FeatureImportance, number_of
from losslens.results.table import ERROR, FEATURE, IMPORTANCE, INTERVAL, RANKED, ResultTable, or_else
from losslens.tables.frames import make_frame
from losslens.tables.sample import Sample
from losslens.text import in_digits, size_in_words
from losslens.typing import Floats
from losslens.uncertainty.inference import Estimates, Inference, cross_products

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Importances(ResultMapping[FeatureImportance], Result, Inference):
    """Importances of several features: a mapping from name to `FeatureImportance`.

    `to_frame()` has one row a feature, the most important first.
    """

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
    def title(self) -> str:
        """Of the loss, in words."""
        return self.loss.title

    @property
    def base(self) -> float:
        """What the numbers are compared with: the error with nothing replaced."""
        return self.error

    @property
    def local(self) -> Floats:
        """Importance of each feature for each row, (n, p)."""
        return np.stack([f.local for f in self.features.values()], axis=1)

    @property
    def observations(self) -> Floats:
        """How much each row's loss rests on the features together: the sum of its local importances, (n,)."""
        return np.asarray(self.local.sum(axis=1))

    @property
    def extrapolation(self) -> Extrapolations:
        """How far the replaced rows of each feature are from real ones; worked out at the first look."""
        found = {name: feature.extrapolation for name, feature in self.features.items()}
        return Extrapolations({name: one for name, one in found.items() if one is not None}, self._first.backend)

    @cached_property
    def estimates(self) -> Estimates:
        """The importances of this model on new data and their covariance; features with a standard error alone."""
        errors = {name: or_else(partial(getattr, f, "std_error"), None) for name, f in self.features.items()}
        known = {name: f for name, f in self.features.items() if errors[name] is not None}
        if not known:
            raise ValueError(f"no feature has a standard error; {self._first.name!r}: {_reason(self._first)}")
        influences = [f.influence for f in known.values()]
        moved = np.stack([found.moved for found in influences], axis=1)
        covariance = cross_products(moved)
        # Each feature has donors of its own: their noise is no feature's but its own.
        np.fill_diagonal(covariance, [found.variance for found in influences])
        return Estimates(
            tuple(known), np.array([f.unbiased for f in known.values()]), covariance, self._first._units - 1,
            np.array([found.skewness for found in influences]), np.array([found.noise for found in influences]),
        )  # fmt: skip

    def subset(self, rows: Any) -> Self:
        """These rows with donors among themselves."""
        self._need_all_cells("subset")
        return self._each(lambda feature: feature.subset(rows))

    def drop(self, rows: Any) -> Self:
        """Without these rows, as observations and as donors: the `subset` of the others."""
        self._need_all_cells("drop")
        return self._each(lambda feature: feature.drop(rows))

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
        if self._first.whole is not None:
            self._first._need_rows(what)
        if not all(feature.complete for feature in self.features.values()):
            needs = size_in_words(sum(feature.full_size for feature in self.features.values()))
            raise ValueError(
                f"{what} needs every cell, but the result was streamed; all features need memory='{needs}'"
            )

    @property
    def headline(self) -> str:
        """What the numbers are."""
        told = self._first.conditioning
        given = "" if told is None else f", values drawn {told.condition}"
        return f"increase in {self.loss.title}{given}; {in_digits(self.error)} with nothing replaced"

    @property
    def notes(self) -> list[str]:
        """What a reader should know of how the numbers came about."""
        first = self._first
        kind = "exact over all pairs" if self.exact else f"sampled with {self.design}"
        found = [f"{kind}; {self.engine}; {self.n_predictions:,} predictions"]
        declined = dict.fromkeys(f.declined for f in self.features.values() if f.declined)
        found += [f"no exact engine: {reason}" for reason in declined]
        if first.whole is not None:
            found.append(f"{first.whole.n:,} rows, read part by part; {len(first.at):,} of them are kept")
        elif first.known_as_streamed:
            found.append(f"streamed: single curves are kept for {len(first.rows):,} of {len(first.at):,} rows")
        worst = max(self.features.values(), key=lambda f: f.clipped)
        if worst.clipped > 0:
            found.append(
                f"up to {worst.clipped:.1%} of the cells ({worst.name}) give the true class probability 0: "
                "their log loss is the clipping bound, not a measurement"
            )
        return found

    def _table(self) -> ResultTable:
        order = self._ranked
        numbers = {name: partial(_numbers, order, name) for name in NUMBERS}
        columns = {
            "feature": [f.name for f in order],
            **{name: numbers[name] for name in ("importance", "std_error", "low", "high")},
            "target": ["model"] * len(order),  # the errors are about this model's importance on new data
            "ratio": numbers["ratio"],
            "exact": [f.exact for f in order],
            "design": [repr(f.design) for f in order],
            "n_predictions": [f.n_predictions for f in order],
        }
        return ResultTable(
            f"Importances: {self.headline}", columns, RANKED, (FEATURE, IMPORTANCE, ERROR, INTERVAL),
            [*self.notes, *self._known_warning], like="importance",
            formats={"importance": lambda number: in_digits(number) if np.isfinite(number) else CURVES_ONLY},
        )  # fmt: skip

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the ranking."""
        from losslens.plots.bars import plot_ranking

        return plot_ranking(self, ax=ax)

    @property
    def _known_warning(self) -> list[str]:
        """Of extrapolation, as far as it is known: a text must not wait for it."""
        known = {name: f.known_extrapolation for name, f in self.features.items()}
        note = Extrapolations({name: one for name, one in known.items() if one is not None}).note
        return [note] if note else []

    def _frame(self, columns: Mapping[str, Any]) -> Any:
        return make_frame(columns, self._first.backend)

    @property
    def _ranked(self) -> list[FeatureImportance]:
        """The most important first; what has no number comes last."""
        return sorted(self.features.values(), key=lambda f: -float(or_else(lambda: f.pfi, -np.inf)))


def _numbers(features: Sequence[FeatureImportance], name: str) -> list[float]:
    return [number_of(feature, name) for feature in features]


def _reason(feature: FeatureImportance) -> str:
    try:
        return f"{feature.std_error}"
    except ValueError as error:
        return str(error)
