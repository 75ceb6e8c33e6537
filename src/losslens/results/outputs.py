"""Importances for each output of a model, from the same predictions as the importances for their mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from losslens import plots
from losslens.losses import OutputLoss
from losslens.plots.look import Look, draws
from losslens.results.base import Tabular
from losslens.results.one_number import NUMBERS, number_of, numbers_of, together
from losslens.results.table import FEATURE, RANKED, ResultTable
from losslens.tables.features import pair_name
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Floats, Sort
from losslens.uncertainty.inference import Estimates, Inference

if TYPE_CHECKING:
    from losslens.results.importances import Importances


@dataclass(frozen=True, eq=False, repr=False)
class Outputs(Tabular, Mapping["str | float", "Importances"], Inference):
    """A mapping from outputs, points in time or quantiles to the importances for each.

    `to_frame()` has one row an output and feature. In `estimates()`, `difference` and `test` the importance of x1 for
    the output y0 is called "y0 x x1".

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> imp = ll.feature_importance(lambda X: X, X, X, loss="squared_error")
    >>> {name: bool(one["x0"].pfi > 0) for name, one in imp.outputs.items()}
    {'y0': True, 'y1': False}
    """

    of: dict[str | float, Any]  # `Importances`, which are made of this module

    backend = property(attrgetter("_first.backend"))
    _names = property(attrgetter("of"))

    @property
    def features(self) -> tuple[str, ...]:
        """The features, in the requested order."""
        return tuple(self._first)

    @property
    def importance(self) -> Floats:
        """Importance of each feature for each output, (p, K); NaN where a feature has curves only."""
        return np.array([[number_of(one[name], "importance") for one in self.of.values()] for name in self.features])

    def given(self, rows: Any) -> Outputs:
        """The same for these `rows` (a mask, row labels or positions) as observations, with donors from all rows."""
        return Outputs({output: one.given(rows) for output, one in self.of.items()})

    @cached_property
    def _estimates(self) -> Estimates:
        """The importances of all features for all outputs, and their covariance: the rows are the same."""
        return together({pair_name(str(k), name): f for k, one in self.of.items() for name, f in one.features.items()})

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Low and high ends at `level` for each feature and output, (p, K); NaN where there is no standard error."""
        low, high = np.stack([one.interval(level) for one in self.of.values()], axis=-1)
        return low, high

    @property
    def error(self) -> Floats:
        """The model's mean loss in each output with nothing replaced, (K,)."""
        return np.array([one.error for one in self.of.values()])

    @property
    def what(self) -> str:
        """What is lost in each output, in words."""
        loss = self._first.loss
        return loss.of.of_each if isinstance(loss, OutputLoss) else loss.title

    @property
    def noun(self) -> str:
        """What an output is called: a time, a quantile, or an output."""
        loss = self._first.loss
        return loss.of.noun if isinstance(loss, OutputLoss) else "output"

    def _rows_drawn(self, lines: int) -> int:
        return 0

    @draws("map")
    def plot(
        self, ax: Axes | None = None, *, top: int | None = None, sort: Sort = "importance",
        colors: Colors | None = None, labels: FeatureLabels | None = None,
    ) -> Axes:  # fmt: skip
        """Draw a heat map of features and outputs, or lines where outputs are points in time or quantiles.

        Parameters
        ----------
        colors
            Colour map of a heat map, or its name; colours of lines as in `plot_lines`.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> imp = ll.feature_importance(lambda X: X[:, [1, 1]], X, X + X[:, [1]], loss="squared_error")
        >>> [label.get_text() for label in imp.outputs.plot().get_yticklabels()]
        ['x1', 'x0']
        """
        words = any(isinstance(name, str) for name in self.of)
        draw = plots.outputs.plot_outputs if words else plots.outputs.plot_output_lines
        return draw(self, ax, Look(top, sort, colors=colors, labels=labels))

    @draws("curve")
    def plot_lines(
        self, ax: Axes | None = None, *, top: int | None = None, sort: Sort = "importance",
        scale: AxisScale = "linear", colors: Colors | None = None, labels: FeatureLabels | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the importance of the features that matter most along the outputs, with 95% intervals as bands.

        Parameters
        ----------
        top
            How many features to draw, the most important ones, at most 8; the first 6 that fit by default.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> imp = ll.feature_importance(lambda X: X[:, [1, 1]], X, X + X[:, [1]], loss="squared_error")
        >>> [text.get_text() for text in imp.outputs.plot_lines(top=1).get_legend().get_texts()]
        ['x1']
        """
        return plots.outputs.plot_output_lines(self, ax, Look(top, sort, scale, colors, labels))

    _internal = ("of",)
    _refused: ClassVar[Mapping[str, str]] = {
        "save": "outputs are part of their importances: imp.save(path), and load(path).outputs"
    }

    def __getitem__(self, output: Any) -> Importances:
        if output not in self.of:
            raise KeyError(f"{output!r} is no output; the outputs are {', '.join(map(repr, self.of))}")
        importances: Importances = self.of[output]
        return importances

    @property
    def _first(self) -> Importances:
        first: Importances = next(iter(self.of.values()))
        return first

    def _table(self) -> ResultTable:
        pairs = [(output, feature) for output, one in self.of.items() for feature in one._ranked]
        numbers = {name: partial(numbers_of, [feature for _, feature in pairs], name) for name in NUMBERS}
        columns = {
            "output": [output for output, _ in pairs],
            "feature": [feature.name for _, feature in pairs],
            **{name: numbers[name] for name in ("importance", "std_error", "low", "high", "ratio")},
        }
        several = f"{len(self)} {self.noun}{'s' if len(self) > 1 else ''}"
        title = f"Importances for {several}: increase in {self.what} of each"
        return ResultTable(
            title, columns, ("{output}", *RANKED), (("output", "{output}"), FEATURE, ("importance", RANKED[1])),
            self._first.notes[:1], like="importance", formats={"output": str}, most_in_text=40,
        )  # fmt: skip
