"""Comparison of models, or of one model on several sets of rows: differences, shares, agreement of rankings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import combinations
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Result
from losslens.results.importances import Importances
from losslens.results.one_number import numbers_of
from losslens.results.shapley import ShapleyImportance
from losslens.results.table import ResultTable, or_else
from losslens.tables.checks import is_one_of
from losslens.tables.distribution_shift import DistributionShift
from losslens.tables.features import unknown_feature
from losslens.text import Sentence
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Sort
from losslens.uncertainty.cautions import noted
from losslens.uncertainty.inference import Adjustment, Difference, between, columns_of_differences

BEYOND = "*"  # after the distance of two distributions, where it is beyond chance
MOVED = (
    "values moved: how far apart the feature's two distributions are, from 0 (equal) to 1 (Kolmogorov-Smirnov "
    f"distance; for categories total variation); {BEYOND}: more than by chance (5%); .moved() has means and shares"
)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Comparison(Result):
    """Importances of several models on the same rows and donors, or each on its own rows.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> models = {"both": lambda X: X[:, 0] + X[:, 1], "one": lambda X: X[:, 0]}
    >>> comparison = ll.compare(models, X, X[:, 0] + X[:, 1], loss="squared_error", shapley=False)
    >>> comparison.names, comparison.features, bool(comparison.error_difference("one", "both").low > 0)
    (('both', 'one'), ('x0', 'x1'), True)
    """

    importances: dict[str, Importances]  #: the importances by the name of the model, or of the set of rows
    shapley: dict[str, ShapleyImportance]  #: the Shapley importances likewise; empty if not requested
    paired: bool  #: whether the rows are the same
    # Of every two sets of rows, by their names: the values of each feature in the second, compared with the first
    shifts: dict[str, dict[str, tuple[DistributionShift, ...]]] = field(default_factory=dict)

    _internal = ("shifts",)
    _errors_elsewhere = "each model, or set of rows, has its own: comparison[name]; differences() compares them"
    _names = property(attrgetter("names"))
    _measure = property(attrgetter("_first._measure"))  # "error", the smaller the better, or "score", the larger
    backend = property(attrgetter("_first.backend"))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the models, or of the sets of rows."""
        return tuple(self.importances)

    def _part(self, name: str) -> Importances:
        return self.importances[name]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(self._first)

    @property
    def title(self) -> str:
        """The name of the loss."""
        return self._first.title

    # -- differences ----------------------------------------------------------------------------------------------

    def difference(
        self, feature: str, first: str, second: str, level: float = 0.95, *, of: Literal["pfi", "sfimp"] = "pfi"
    ) -> Difference:
        """How much more important a feature is to one model than to the other; paired where the rows are the same.

        Parameters
        ----------
        feature, first, second
            Names of the feature and of the two models, or sets of rows.
        level
            The coverage probability of the interval.
        of
            ``"pfi"``, or ``"sfimp"``: Shapley importances, in units of the loss.
        """
        a, b = self._model(first)[feature], self._model(second)[feature]
        if not is_one_of(of, ("pfi", "sfimp")):
            raise ValueError(f"of is 'pfi' or 'sfimp'; got {of!r}")
        if of == "pfi":
            return a._less(b, (first, second), level, paired=self.paired)
        if not self.shapley:
            raise ValueError("no Shapley shares were computed; compare again with shapley=True")
        return self.shapley[first]._less(self.shapley[second], feature, (first, second), level, paired=self.paired)

    def error_difference(self, first: str, second: str, level: float = 0.95) -> Difference:
        """How much larger the error, or score, of one model is than that of the other, with nothing replaced.

        `first` and `second` are names of models, or sets of rows; `level` is the coverage probability of the interval.
        """
        a, b = (self._model(name)._base_estimates for name in (first, second))
        return between(a, b, a.names[0], (first, second), level, "same" if self.paired else "independent")

    def differences(
        self,
        against: str | None = None,
        level: float = 0.95,
        adjust: Adjustment | None = "holm",
        *,
        of: Literal["pfi", "sfimp"] = "pfi",
    ) -> Any:
        """Every feature of every model against one model; a data frame, the largest difference first.

        Parameters
        ----------
        against
            The name of that model, or set of rows; the first by default.
        level
            The coverage probability of each interval.
        adjust
            How p-values are adjusted for the number of differences: ``"holm"``, ``"benjamini_hochberg"`` or None.
        of
            ``"pfi"``, or ``"sfimp"``: Shapley importances, in units of the loss.
        """
        return self._frame(self._differences(against, level, adjust, of))

    def _differences(
        self, against: str | None, level: float, adjust: Adjustment | None, of: Literal["pfi", "sfimp"]
    ) -> dict[str, Any]:
        base = self.names[0] if against is None else against
        self._model(base)
        others = [name for name in self.names if name != base]
        pairs = [(name, feature) for name in others for feature in self.features]
        differences = [self.difference(feature, name, base, level, of=of) for name, feature in pairs]
        columns = {"feature": [feature for _, feature in pairs], "model": [name for name, _ in pairs]}
        return columns_of_differences(columns | {"against": [base] * len(differences)}, differences, adjust)

    def moved(
        self,
        against: str | None = None,
        level: float = 0.95,
        adjust: Adjustment | None = "holm",
        *,
        of: Literal["pfi", "sfimp"] = "pfi",
    ) -> Any:
        """How each feature's importance and its values differ from those in one set of rows.

        A data frame with the columns of `differences`, the importances, and the fields of `DistributionShift`:
        ``distance`` of the two distributions, from 0 to 1, and ``moved``, whether that is beyond chance. The arguments
        are those of `differences`.
        """
        if not self.shifts:
            raise ValueError("the models were compared on the same rows, so no values moved; pass X as a mapping")
        data = self._differences(against, level, adjust, of)
        cautions, pairs = data.pop("caution"), list(zip(data["feature"], data["model"], data["against"], strict=True))
        shifts = [self.shift(*pair) for pair in pairs]
        data["importance"] = [self._importance(name, feature, of) for feature, name, _ in pairs]
        data["importance_against"] = [self._importance(base, feature, of) for feature, _, base in pairs]
        data["moved"] = [one.beyond_chance for one in shifts]
        data |= {column.name: [getattr(one, column.name) for one in shifts] for column in fields(DistributionShift)}
        return self._frame(data | {"caution": cautions})

    def shift(self, feature: str, name: str, against: str) -> DistributionShift:
        """How much the values of `feature` differ between two sets of rows, `name` and `against`, without any model."""
        for one in (name, against):
            self._model(one)
        j = self.features.index(self._first[feature].name)
        if name == against or not self.shifts:
            raise ValueError(
                f"{name!r} and {against!r} are the same rows: no values differ, so there is nothing to draw"
            )
        turned = against not in self.shifts or name not in self.shifts[against]
        return self.shifts[name][against][j].turned() if turned else self.shifts[against][name][j]

    def _importance(self, name: str, feature: str, of: str) -> float:
        if of == "pfi":
            return float(self.importances[name][feature].pfi)
        return float(self.shapley[name].sfimp[self.features.index(feature)])

    def errors(self, level: float = 0.95) -> Any:
        """The error of each model, or its score, with an interval at `level`; a data frame, the best first."""
        models = {name: one._base_estimates.number(self._measure, level) for name, one in self.importances.items()}
        order = sorted(models, key=lambda name: models[name].value, reverse=self._measure == "score")
        columns = {"value": self._measure} | {name: name for name in ("std_error", "low", "high", "caution")}
        data = {new: [getattr(models[name], own) for name in order] for own, new in columns.items()}
        return self._frame({"model": order} | data)

    def agreement(self) -> Any:
        """Agreement of the rankings of features: Kendall's and Spearman's coefficients of every two; a data frame."""
        from scipy.stats import kendalltau, spearmanr

        values = {name: np.array([f.pfi for f in imp.values()]) for name, imp in self.importances.items()}
        rows: dict[str, list[Any]] = {"first": [], "second": [], "kendall": [], "spearman": []}
        for first, second in combinations(self.names, 2):
            a, b = values[first], values[second]
            constant = min(np.ptp(a), np.ptp(b)) == 0  # has no ranks
            rows["first"].append(first)
            rows["second"].append(second)
            rows["kendall"].append(np.nan if constant else float(kendalltau(a, b).statistic))
            rows["spearman"].append(np.nan if constant else float(spearmanr(a, b).statistic))
        return self._frame(rows)

    @property
    def cautions(self) -> list[str]:
        """Which intervals of importances are to be taken with caution, and why; empty if none is."""
        every = [(name, self.importances[name][feature]) for feature in self._ranked for name in self.names]
        return noted([f"{one.name} ({name})" for name, one in every], [one.caution for _, one in every])

    # -- shown ----------------------------------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """One row for each model and feature: importances with intervals, and Shapley shares if requested."""
        data: dict[str, list[Any]] = {}
        for name, importances in self.importances.items():
            rows: dict[str, list[Any]] = {"model": [name] * len(importances), "feature": list(importances)}
            for key in ("importance", "std_error", "low", "high"):
                rows[key] = numbers_of(importances.values(), key)
            if self.shapley:
                shares = self.shapley[name]
                missing = np.full(len(shares.features), np.nan)
                share = or_else(partial(getattr, shares, "share"), missing)
                rows |= {"sfimp": shares.sfimp.tolist(), "share": share.tolist()}
            rows["caution"] = [feature.caution for feature in importances.values()]
            for column, values in rows.items():
                data.setdefault(column, []).extend(values)
        return self._frame(data)

    @property
    def _message(self) -> Sentence:
        from losslens.results.sentences import smallest_error, smallest_is_uncertain

        return smallest_error(self) or smallest_is_uncertain(self)

    def _rows_drawn(self, lines: int) -> int:
        return lines * (1 + len(self.names) // 2)

    @draws("rows")
    def plot(
        self, ax: Axes | None = None, *, top: int | None = None, sort: Sort = "importance",
        scale: AxisScale = "linear", colors: Colors | None = None, labels: FeatureLabels | None = None,
        title: str | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the importances of each feature below each other, with 95% intervals; the legend has each model's error.

        At most 8 models are drawn, and of the features those that matter most to any of them.

        Parameters
        ----------
        colors
            One colour for all models, a list in their order, or a mapping from their names to colours.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> models = {"both": lambda X: X[:, 0] + X[:, 1], "one": lambda X: X[:, 1]}
        >>> comparison = ll.compare(models, X, 2 * X[:, 1], loss="squared_error", shapley=False)
        >>> [label.get_text() for label in comparison.plot().get_yticklabels()]
        ['x1', 'x0']
        """
        return plots.rankings.plot_comparison(self, ax, Look(top, sort, scale, colors, labels))

    @draws("rows")
    def plot_moved(
        self, name: str | None = None, against: str | None = None, ax: Axes | None = None, *, top: int | None = None,
        sort: Sort = "importance", scale: AxisScale = "linear", colors: Colors | None = None,
        labels: FeatureLabels | None = None,
    ) -> Axes:  # fmt: skip
        """Draw how much importances differ between two sets of rows, with 95% intervals, and how far values moved.

        Parameters
        ----------
        name, against
            The two sets of rows: the first less the second; by default, the second set of all less the first.
        top
            How many features to draw, those whose importances differ most; all that fit by default.
        scale
            Axis of the differences: ``"linear"`` or ``"symlog"``; ``"log"`` only if all are above 0.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> rows = {"early": X, "late": X + [0, 2]}
        >>> y = {"early": X[:, 0] + X[:, 1], "late": X[:, 0]}
        >>> comparison = ll.compare(lambda X: X.sum(axis=1), rows, y, loss="squared_error", shapley=False)
        >>> [label.get_text() for label in comparison.plot_moved().get_yticklabels()]
        ['x1', 'x0']
        """
        base = self.names[0] if against is None else against
        self._model(base)
        name = next(n for n in self.names if n != base) if name is None else name
        return plots.rankings.plot_moved(self, ax, Look(top, sort, scale, colors, labels), name, base)

    @draws("rows")
    def plot_shares(
        self, ax: Axes | None = None, *, top: int | None = None, colors: Colors | None = None,
        labels: FeatureLabels | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the error without features as a bar for each model: the error that remains, and each feature's share.

        Features have the same order in all bars, the largest on average on top. A feature that raises the error is
        drawn beside its bar, from the top down to the error without features.

        Parameters
        ----------
        top
            How many features have a part of their own, the largest ones, at most 8; the others are one part.
        colors
            One colour for all parts, a list from the top of the bars down, or a mapping from features to colours.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> models = {"both": lambda X: X[:, 0] + X[:, 1], "one": lambda X: X[:, 1]}
        >>> comparison = ll.compare(models, X, 2 * X[:, 1], loss="squared_error")
        >>> [label.get_text() for label in comparison.plot_shares().get_xticklabels()]
        ['both', 'one']
        """
        if not self.shapley:
            raise ValueError("no Shapley shares were computed; compare again with shapley=True")
        return plots.shares.plot_shares(self.shapley, ax, Look(top, colors=colors, labels=labels))

    @property
    def headline(self) -> str:
        """What the numbers are."""
        rows = "the same rows and donors" if self.paired else "different rows"
        return f"{self.change}; {len(self.names)} side by side, on {rows}"

    @property
    def change(self) -> str:
        """What importances are: the increase in a loss, or the decrease in a score."""
        return next(iter(self._first.values())).change

    def _table(self) -> ResultTable:
        models = self.importances.values()
        order = self._ranked
        columns: dict[str, Any] = {"feature": [f"({self._measure})", *order]}
        for k, importances in enumerate(models):
            columns[f"model{k}"] = [importances.base, *(importances[feature].pfi for feature in order)]
        view = [("", "{feature}"), *((name, f"{{model{k}}}") for k, name in enumerate(self.names))]
        notes, extra = [".differences() tests differences, .agreement() compares rankings"], {}
        if self.shifts and len(self.names) == 2:
            extra = self._moved_columns(order)
            view += [("difference", "{difference}[ ({low} to {high})]"), ("values moved", "{distance}")]
            contrast = f"{self.names[1]} less {self.names[0]}, over pairs of different rows"
            notes = [f"the difference is {contrast}, with its 95% interval", MOVED, *notes]
        return ResultTable(
            f"Comparison: {self.headline}", columns, view=view, notes=[*notes, *self.cautions], extra=extra,
            like="difference", alike=("low", "high"),
        )  # fmt: skip

    def _moved_columns(self, features: Sequence[str]) -> dict[str, Any]:
        """Of two sets of rows: the difference of the errors and of each importance, and how far the values moved."""
        base, name = self.names
        nothing = Difference(name, base, np.nan, np.nan, np.nan, np.nan, np.nan, 0.95)
        comparisons = [partial(self.error_difference, name, base)]
        comparisons += [partial(self.difference, feature, name, base) for feature in features]
        differences = [or_else(one, nothing) for one in comparisons]
        shifts = [self.shift(feature, name, base) for feature in features]
        return {
            "difference": [one.value for one in differences],
            "low": [one.low for one in differences],
            "high": [one.high for one in differences],
            "distance": ["", *map(distance_in_words, shifts)],
        }

    # -- inside ---------------------------------------------------------------------------------------------------

    @property
    def _first(self) -> Importances:
        return next(iter(self.importances.values()))

    @property
    def _ranked(self) -> list[str]:
        """Features that matter most to any model first."""
        return sorted(self.features, key=lambda f: -max(model[f].pfi for model in self.importances.values()))

    def _model(self, name: str) -> Importances:
        if not is_one_of(name, self.importances):
            raise KeyError(unknown_feature(name, self.names, "models").replace("feature", "model", 1))
        return self.importances[name]


def distance_in_words(shift: DistributionShift) -> str:
    """The distance of two distributions, with a mark where it is beyond chance."""
    return f"{shift.distance:.2f}{BEYOND if shift.beyond_chance else ''}"
