"""Shapley values of predictions: what each feature adds to each row's prediction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Result
from losslens.results.selection import Grouped, Numbers, in_order, split
from losslens.results.shapley_curve import Values
from losslens.results.table import FEATURE, ResultTable
from losslens.tables.row_labels import Labels, distinct_labels, row_name, take_labels
from losslens.text import Sentence, how_computed, in_digits, rounding_error
from losslens.typing import Axes, Colors, FeatureLabels, Floats, Mask, Sort
from losslens.uncertainty.standard_errors import check_level


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ShapleyEffect(Grouped, Result):
    """What each feature adds to each row's prediction; a row sums to ``prediction - base``.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.array([[0.0, 0.0], [2.0, 4.0]])
    >>> effect = ll.shapley_effect(lambda X: X[:, 0] + X[:, 0] * X[:, 1], X, 1)
    >>> effect.base, effect.local, effect.prediction
    (array([5.]), array([[3., 2.]]), array([10.]))
    """

    features: tuple[str, ...]  #: names of the features
    local: Floats  #: what each feature adds to each row's prediction, (r, p)
    prediction: Floats  #: predictions of the rows, (r,)
    base: Floats  #: mean prediction over the donors, with all features replaced that are not kept, (r,)
    std_error: Floats  #: standard errors due to sampled orders and donors, (r, p); 0 without sampling
    target: str | None  #: the class whose probability, score or log-odds it is
    response: str = "probability"  #: "probability", "value", "score" or "log-odds"
    method: str  #: how it was computed, in words
    engine: str  #: the engine that computed the predictions
    exact: bool  #: whether nothing is sampled
    n_donors: int  #: donors of each row
    n_predictions: int  #: rows that the model predicted
    values: Values  # of the rows that are explained
    backend: str
    complete: bool = True  #: False: the run was interrupted
    row_labels: Labels | None = None  # (r,), of a pandas index

    _internal = ("values",)
    _errors_elsewhere = "its errors are of the draw, not of new rows: std_error, interval()"

    def _part(self, name: str) -> Floats:
        """What one feature adds to each row's prediction, (r,)."""
        return self.local[:, self.features.index(name)]

    @property
    def importance(self) -> Floats:
        """Mean absolute effect of each feature over the rows, (p,)."""
        return np.asarray(np.abs(self.local).mean(axis=0))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Low and high ends of each effect over all orders and donors, (r, p) each, which cover it with `level`."""
        from scipy.stats import norm

        reach = float(norm.ppf((1 + check_level(level)) / 2)) * self.std_error
        return self.local - reach, self.local + reach

    def given(self, rows: Any) -> Self:
        """The result for these `rows`; a boolean mask, or row labels (positions where there are none)."""
        chosen = in_order(rows, len(self.local), self.row_labels, self.backend)
        values = replace(self.values, codes=self.values.codes[chosen])
        return replace(
            self, local=self.local[chosen], prediction=self.prediction[chosen], base=self.base[chosen],
            std_error=self.std_error[chosen], values=values,
            row_labels=distinct_labels(take_labels(self.row_labels, chosen)),
        )  # fmt: skip

    _axis = "mean absolute effect on the prediction"

    @property
    def _numbers(self) -> Numbers:
        return {name: {"importance": value} for name, value in zip(self.features, self.importance, strict=True)}

    def _values_held(self, column: str) -> NDArray[Any] | None:
        return self.values.held(column)

    def _split(self, groups: Any) -> dict[Any, Mask]:
        return split(groups, len(self.local), self.row_labels, self.backend)

    @property
    def _what(self) -> str:
        return "prediction" if self.target is None else f"{self.response} of {self.target}"

    @property
    def headline(self) -> str:
        """What the numbers are."""
        rows = f"{len(self.local):,} rows"
        if len(self.local) == 1:
            rows = "1 row" if self.row_labels is None else f"row {row_name(self.row_labels, 0)}"
        return f"what each feature adds to the {self._what}; {rows}, {self.n_donors:,} donors"

    @property
    def notes(self) -> list[str]:
        """How the numbers were computed."""
        kind = "exact" if self.exact else "sampled"
        notes = [f"{kind} ({self.method}); {how_computed(self.engine, self.n_predictions)}"]
        if not self.complete:
            notes.append("interrupted: a valid estimate with the stated error, from fewer walks than requested")
        return notes

    def to_frame(self) -> Any:
        """One row for each row explained: its prediction, the base, and what each feature adds.

        Labels of the rows are the index of a pandas frame.
        """
        data: dict[str, Any] = {}
        for name, values in (("prediction", self.prediction), ("base", self.base)):
            data[name if name not in self.features else f"{name}_"] = values  # a feature keeps its name
        frame = self._frame(data | dict(zip(self.features, self.local.T, strict=True)))
        if self.row_labels is not None and hasattr(frame, "set_axis"):
            frame = frame.set_axis(self.row_labels, axis=0)
        return frame

    def _rows_drawn(self, lines: int) -> int:
        return int(1.5 * (lines + 2 * (len(self.local) == 1)))

    @property
    def _message(self) -> Sentence:
        from losslens.results.sentences import moves_most

        return moves_most(self)

    @draws("rows")
    def plot(
        self, ax: Axes | None = None, *, top: int | None = None, sort: Sort = "importance",
        colors: Colors | None = None, labels: FeatureLabels | None = None, title: str | None = None,
    ) -> Axes:  # fmt: skip
        """Draw what each feature adds to the prediction, the largest effect on top.

        One row gives steps from the base to its prediction. Many rows give a line of dots for each feature, coloured by
        its value if values have an order. Select rows with ``.given``.

        Parameters
        ----------
        top
            How many features to draw, those with the largest effects; all that fit by default.
        colors
            Of one row, two colours: of effects above and below 0. Of many rows, a colour map or its name.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.array([[0.0, 0.0], [2.0, 4.0]])
        >>> result = ll.shapley_effect(lambda X: X[:, 0] + X[:, 0] * X[:, 1], X, 1)
        >>> [label.get_text() for label in result.plot().get_yticklabels()]
        ['mean over 2 donors', 'x0 = 2', 'x1 = 4', 'prediction']
        """
        return plots.shapley_effect.plot_shapley_effect(self, ax, Look(top, sort, colors=colors, labels=labels))

    def _table(self) -> ResultTable:
        single = len(self.local) == 1
        effect, error = (
            (self.local[0], self.std_error[0]) if single else (self.importance, np.zeros(len(self.features)))
        )
        about = "mean absolute effects over the rows; .local has every row"
        if single:
            base, prediction = in_digits(float(self.base[0])), in_digits(float(self.prediction[0]))
            about = f"from {base}, the mean over the donors, to {prediction}, the prediction"
        return ResultTable(
            f"ShapleyEffect: {self.headline}",
            {"feature": self.features, "effect": effect, "std_error": np.where(error > 0, error, np.nan)},
            ("{feature}", "{effect}[ ± {std_error}]"),
            (FEATURE, ("effect" if single else "mean absolute effect", "{effect}")),
            [about, *self.notes], like="effect",
            rounding=rounding_error(self.n_donors, np.abs(self.base).max(), np.abs(self.prediction).max()),
        ).ordered(np.argsort(-np.abs(effect), kind="stable"))  # fmt: skip
