"""Whether another good model would agree: the range of importances over all models that predict as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Result
from losslens.results.comparison import Comparison
from losslens.results.table import ResultTable
from losslens.text import in_digits, listed, share_in_words
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Floats, Mask, Sort
from losslens.uncertainty.cautions import noted
from losslens.uncertainty.inference import Estimates, adjusted, largest_error
from losslens.uncertainty.standard_errors import check_level

Need = Literal["always", "never", "sometimes", "can't tell"]
SELECTING = 0.2  # the part of the probability of an error that the choice of the good models takes
MEANINGS: dict[Need, str] = {
    "always": "surely above the margin in each good model",
    "never": "surely below the margin, or exactly 0, in all of them",
    "sometimes": "surely above the margin in one, and surely below it or exactly 0 in another",
    "can't tell": "neither always, never nor sometimes is significant",
}


@dataclass(frozen=True)
class ImportanceRange:
    """The importance of a feature over the good models.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> models = {"a": lambda X: X[:, 0], "b": lambda X: 1.01 * X[:, 0]}
    >>> ll.good_models(models, X, X[:, 0], loss="squared_error")["x1"]
    <ImportanceRange 'x1': never, 0 to 0 in 2 models (95%: 0 to 0)>
    """

    name: str  #: the feature
    need: Need  #: whether the good models need it, see `GoodModels`
    smallest: float  #: the smallest importance in a good model
    largest: float  #: the largest
    low: float  #: low end of the interval of the range
    high: float  #: high end
    of_models: Mapping[str, float]  #: the importance in each good model, by its name

    def __repr__(self) -> str:
        pairs = (self.smallest, self.largest), (self.low, self.high)
        span, ends = (" to ".join(map(in_digits, pair)) for pair in pairs)
        return f"<ImportanceRange {self.name!r}: {self.need}, {span} in {len(self.of_models)} models (95%: {ends})>"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GoodModels(Result):
    """The models that can't be told from the best, and how important each feature is among them, at least and at most.

    A model is left out only if its error is surely above that of another by more than `within` of the best model's
    gain. All differences of two errors hold together with 99%, so that every truly good model stays with 99%.
    Importances of all models and features hold together with 96%: the range from the lowest low end to the highest high
    end, over the models that stay, covers that over the truly good ones with 95%, although the same rows chose them.

    - ``"always"``: the importance is surely above the margin in each model that stays (the largest p of these, Holm
      over the features, is at most .04);
    - ``"never"``: all high ends are below the margin, or the importance is exactly 0 (no prediction changes);
    - ``"sometimes"``: a low end is above the margin, and another model is below it in the same sense. It is said of
      models that can't be told from the best: more rows may show that one of them is worse;
    - ``"can't tell"``: none of these.

    `to_frame()` has one row a feature, the one with the largest importance first.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> X = np.column_stack([X, X[:, 0]])  # the first column twice
    >>> models = {"first": lambda X: X[:, 0] + X[:, 1], "copy": lambda X: X[:, 2] + X[:, 1], "none": lambda X: X[:, 1]}
    >>> good = ll.good_models(models, X, X[:, 0] + X[:, 1], loss="squared_error")
    >>> good.good, good["x0"].need, good["x1"].need
    (('first', 'copy'), 'sometimes', 'always')
    """

    comparison: Comparison  #: all models, with their importances and errors
    within: float  #: a share of the best model's gain over the best constant: how much worse a good model may be
    margin: float  #: a share of that gain: importances below it don't count
    failed: dict[str, str] = field(default_factory=dict)  #: why a fit failed, by the name of the model
    n_fitted: int = 0  #: rows that models were fitted on here

    _internal = ("n_fitted",)
    _errors_elsewhere = "each model has its own: good.comparison[name]; interval() has those of the ranges"
    backend = property(attrgetter("comparison.backend"))
    features = property(attrgetter("comparison.features"), doc="Names of the features.")
    title = property(attrgetter("comparison.title"), doc="The name of the loss.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all models that were compared."""
        return self.comparison.names

    @cached_property
    def _errors(self) -> Estimates:
        """The errors of the models, with what each row moves them."""
        each = [one._base_estimates for one in self.comparison.importances.values()]
        value, influences = [one.value[0] for one in each], [one.influences[0] for one in each]
        return Estimates.of_influences(self.names, value, influences, each[0].units, each[0].unit, sampled=False)

    @cached_property
    def _importances(self) -> list[Estimates]:
        """The importances of each model; ValueError where one has no standard error."""
        each = [one.estimates() for one in self.comparison.importances.values()]
        for feature, why in [pair for one in each for pair in one.absent.items()]:
            raise ValueError(f"no range of {feature!r}: {why}")
        return each

    @property
    def best(self) -> str:
        """The name of the model with the smallest error on these rows."""
        return self.names[int(np.argmin(self._errors.value))]

    @property
    def gain(self) -> float:
        """How much smaller the error of the best model is than that of the best constant prediction."""
        return float(self.comparison.importances[self.best].error_constant - self._errors.value.min())

    @property
    def least(self) -> float:
        """The margin in units of the loss: an importance below it doesn't count."""
        return self.margin * self.gain

    def _kept(self, level: float) -> Mask:
        """Which models are not surely worse than another by more than `within`."""
        low, _ = self._errors.differences_at_once(1 - SELECTING * (1 - check_level(level)))
        return np.asarray((low <= self.within * self.gain).all(axis=1))

    @cached_property
    def good(self) -> tuple[str, ...]:
        """Names of the models that can't be told from the best."""
        return tuple(name for name, stays in zip(self.names, self._kept(0.95), strict=True) if stays)

    def _ends(self, level: float) -> tuple[Floats, Floats]:
        """Low and high ends of all importances in the good models at once, (G, p)."""
        each, confidence = self._importances, 1 - (1 - SELECTING) * (1 - check_level(level))
        quantile = largest_error([one for model in each for one in model.influences], each[0].freedom, confidence)
        ends = [model.at_once(quantile) for model, stays in zip(each, self._kept(level), strict=True) if stays]
        return np.array([low for low, _ in ends]), np.array([high for _, high in ends])

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Low and high ends of the range of each feature over all truly good models, (p,); they hold together.

        Parameters
        ----------
        level
            The coverage probability.
        """
        low, high = self._ends(level)
        return low.min(axis=0), high.max(axis=0)

    @cached_property
    def importance(self) -> Floats:
        """The importances in the good models, (G, p)."""
        kept = zip(self._importances, self._kept(0.95), strict=True)
        return np.array([model.value for model, stays in kept if stays])

    @cached_property
    def _p(self) -> Floats:
        """The largest p-value over the good models of an importance of at most the margin, (p,)."""
        kept = zip(self._importances, self._kept(0.95), strict=True)
        return np.asarray(np.max([model.above(self.least) for model, stays in kept if stays], axis=0))

    @cached_property
    def need(self) -> dict[str, Need]:
        """By feature, whether good models need it: ``"always"``, ``"never"``, ``"sometimes"`` or ``"can't tell"``."""
        low, high = self._ends(0.95)
        always = adjusted(self._p, "holm") <= (1 - SELECTING) * 0.05
        below = (high < self.least) | ((high == low) & (high <= self.least))  # a margin of 0: 0 itself
        never = below.all(axis=0)
        sometimes = (low.max(axis=0) > self.least) & below.any(axis=0)
        words: list[Need] = ["can't tell"] * len(self.features)
        for j in range(len(words)):
            words[j] = "always" if always[j] else "never" if never[j] else "sometimes" if sometimes[j] else words[j]
        return dict(zip(self.features, words, strict=True))

    def test(self) -> Any:
        """Tests that the importance is above the margin in every good model; a data frame, the smallest p first.

        p is the largest over the good models, p_adjusted by Holm's method for the number of features.
        """
        order, p = np.argsort(self._p, kind="stable"), adjusted(self._p, "holm")
        smallest = self.importance.min(axis=0)
        columns = {"feature": [self.features[j] for j in order], "importance": smallest[order]}
        return self._frame(columns | {"p": self._p[order], "p_adjusted": p[order]})

    def _part(self, name: str) -> ImportanceRange:
        j, (low, high) = self.features.index(name), self.interval()
        of_models = dict(zip(self.good, self.importance[:, j].tolist(), strict=True))
        smallest, largest = min(of_models.values()), max(of_models.values())
        return ImportanceRange(name, self.need[name], smallest, largest, float(low[j]), float(high[j]), of_models)

    @property
    def cautions(self) -> list[str]:
        """Which importances are to be taken with caution, and why; empty if none is."""
        each = [(name, self.comparison.importances[name][feature]) for feature in self.features for name in self.good]
        return noted([f"{one.name} ({name})" for name, one in each], [one.caution for _, one in each])

    @property
    def headline(self) -> str:
        """How many models are good, and by what."""
        share = share_in_words(self.within)
        than = f"the best ({self.best}) by more than {share} of its gain over a constant"
        return (
            f"{self.comparison.change}; {len(self.good)} of {len(self.names)} models are not surely worse than {than}"
        )

    def _table(self) -> ResultTable:
        value, (low, high) = self.importance, self.interval()
        order = np.argsort(-value.max(axis=0), kind="stable")
        columns = {
            "feature": [self.features[j] for j in order],
            "need": [self.need[self.features[j]] for j in order],
            "smallest": value.min(axis=0)[order],
            "largest": value.max(axis=0)[order],
            "low": low[order],
            "high": high[order],
            "smallest_in": [self.good[k] for k in value.argmin(axis=0)[order]],
            "largest_in": [self.good[k] for k in value.argmax(axis=0)[order]],
            "p": adjusted(self._p, "holm")[order],
        }
        said = dict.fromkeys(columns["need"])
        notes = [f"{word}: {MEANINGS[word]}" for word in said]
        notes.append(f"the margin is {in_digits(self.least)}, {share_in_words(self.margin)} of the best model's gain")
        worse = [name for name in self.names if name not in self.good]
        notes += [f"surely worse: {listed(worse, 5)}"] if worse else []
        notes += [f"fitted here, on {self.n_fitted:,} other rows than those of the numbers"] if self.n_fitted else []
        notes += [f"left out, because the fit failed: {name} ({why})" for name, why in self.failed.items()]
        view = (("feature", "{feature}"), ("needed", "{need}"), ("importance", "{smallest} to {largest}"),
                ("95% interval of the range", "[{low} to {high}]"))  # fmt: skip
        return ResultTable(f"Good models: {self.headline}", columns, view=view, notes=[*notes, *self.cautions],
                           like="largest", alike=("smallest", "low", "high"))  # fmt: skip

    @draws("rows")
    def plot(
        self, ax: Axes | None = None, *, top: int | None = None, sort: Sort = "importance",
        scale: AxisScale = "linear", colors: Colors | None = None, labels: FeatureLabels | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the range of each feature's importance as a bar, with a dot for each good model and the best one marked.

        Parameters
        ----------
        colors
            One colour of all dots, or a mapping from features to colours.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> models = {"both": lambda X: X[:, 0] + X[:, 1], "less": lambda X: 0.9 * X[:, 0] + X[:, 1]}
        >>> good = ll.good_models(models, X, X[:, 0] + 2 * X[:, 1], loss="squared_error")
        >>> [label.get_text().split()[0] for label in good.plot().get_yticklabels()]
        ['x1', 'x0']
        """
        return plots.rankings.plot_good_models(self, ax, Look(top, sort, scale, colors, labels))
