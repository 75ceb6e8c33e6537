"""Base classes of results: display in notebooks, saving to a file, and a mapping from features to results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self, TypeVar, cast

from numpy.typing import NDArray

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.selection import Grouped, Numbers
from losslens.results.table import ResultTable
from losslens.tables.checks import is_one_of
from losslens.tables.features import pair_name, unknown_feature
from losslens.tables.frames import make_frame
from losslens.tables.frozen import Frozen
from losslens.text import Sentence
from losslens.tracebacks import brief
from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Mask, Sort
from losslens.uncertainty.cautions import in_short

# What the library asks of results: how they are stored, shown and put together. Tab completion leaves it out, and the
# reference; what one class alone has of this kind is its `_internal`.
INTERNAL = frozenset({
    "at", "at_positions", "backend", "base_influence", "block", "cells", "change", "clipped_in_words",
    "computed_extrapolation", "covariance", "covers_table", "cubes", "doubted", "extrapolated",
    "freedom", "full_size", "grouped", "harm", "headline", "is_auc", "is_error", "keeping", "kinds", "leaves_out_own",
    "means", "measure", "negative_in_words", "noun", "observed", "of_part", "quantity", "ranking",
    "row_labels", "sample", "skewness", "stored", "trimmed", "units", "untouched",
})  # fmt: skip


def internal(kind: type) -> frozenset[str]:
    """The public names of a class that are the library's own."""
    return INTERNAL.union(*(vars(one).get("_internal", ()) for one in kind.__mro__))


class Stored(Frozen):
    """Base class of what files of results may contain. Subclasses are registered by name, which files refer to."""

    kinds: ClassVar[dict[str, type]] = {}

    def __dir__(self) -> list[str]:
        """What a user may want, for tab completion."""
        return sorted(set(super().__dir__()) - internal(type(self)))

    @property
    def stored(self) -> Any:
        """The object that is written to a file."""
        return self

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith("losslens."):  # a class of the user's can't be loaded without their code
            Stored.kinds[cls.__name__] = cls


# What methods do that predict: verbs put it here, which results cannot import. They take the model, results hold none.
WITH_MODEL: dict[str, Callable[..., Any]] = {}

# Methods that every result has a name for, and why a result may have none.
NO_ERRORS = "its numbers have no standard errors on new rows"
WORDS = dict.fromkeys(("estimates", "interval", "test"), NO_ERRORS)
WORDS["save"] = "it is part of another result: save that one"


class Absent(AttributeError, ValueError):  # noqa: N818 - said of a name
    """A result has no attribute of this name, which other results have."""


class Displayed(Stored):
    """A result that is shown as a table, in notebooks with a plot beside it."""

    _of_one: ClassVar[bool] = False  # whether it is the result of one feature
    _refused: ClassVar[Mapping[str, str]] = {}  # why one of `WORDS` makes no sense for it
    _errors_elsewhere: ClassVar[str] = ""  # where the errors are that `estimates`, `interval` and `test` would be of

    # -- its picture in a notebook --------------------------------------------------------------------------------

    _panels: ClassVar[int] = 0  # how many small plots it has at most; 0: it has one
    _plotted: ClassVar[tuple[str, ...]] = ()  # which part of it that one is of

    @property
    def _message(self) -> Sentence:
        """What its picture says as a title, a claim; "" where there is none to make."""
        return Sentence("")

    def _rows_drawn(self, lines: int) -> int:
        """How many rows of text the picture has, if its table has so many lines; 0: it is no list of rows."""
        return 0 if self._of_one else lines

    def _why_absent(self, name: str) -> str:
        """Why the result lacks an attribute that others have, in one sentence; "" for a name that no result has."""
        why = self._refused.get(name, WORDS.get(name, ""))
        why = self._errors_elsewhere or why if why == NO_ERRORS else why
        return why and f"a result of the class {type(self).__name__} has no {name}: {why}"

    # -- parts by name --------------------------------------------------------------------------------------------

    @property
    def _names(self: Any) -> tuple[Any, ...]:
        """The names of the parts of the result: by default those of the features."""
        names = (self.name,) if self._of_one else getattr(self, "features", None)
        if names is None:
            raise TypeError(f"a result of the class {type(self).__name__} has no parts with names; see to_frame()")
        return tuple(names)

    def _part(self: Any, name: Any) -> Any:
        """The part of one name: for a result of one feature the result itself, otherwise a number with its interval."""
        return self if self._of_one else self.estimates()[name]

    def __getitem__(self, name: Any) -> Any:
        names = self._names
        if not is_one_of(name, names):
            raise KeyError(unknown_feature(name, [*map(str, names)], "names").replace("feature", "name", 1))
        return self._part(name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __bool__(self) -> bool:
        return True  # also without parts

    if not TYPE_CHECKING:  # which knows what there is

        def __getattr__(self, name: str) -> NoReturn:
            if not name.startswith("_") and (why := self._why_absent(name)):
                raise Absent(why)
            object.__getattribute__(self, name)  # raises: there is none, or why a property has none

    def __repr__(self: Any) -> str:
        table: ResultTable = self._table()
        return table.text()

    def _repr_html_(self) -> str:
        from losslens.plots.notebook import show

        return show(self)


class Tabular(Displayed):
    """A result that can be converted to a data frame."""

    backend: str  # the data frame library of the input data

    def to_frame(self: Any) -> Any:
        """The table as a data frame, in the library of the input data."""
        return self._frame(self._table().data())

    def _frame(self, columns: Mapping[str, Any]) -> Any:
        short = {"caution": [in_short(one) for one in columns["caution"]]} if "caution" in columns else {}
        return make_frame({**columns, **short}, self.backend)


class Saveable(Displayed):
    """A result that can be written to a file."""

    def save(self, path: str | Path) -> None:
        """Write the result to the file `path`, which `losslens.load` reads; the file contains no code."""
        from losslens.results.storage import save

        save(self, path)


class Result(Tabular, Saveable):
    """Base class of what verbs return: a table, a plot and a file."""


class Ranked(Result):
    """A result with a number of each feature."""

    _picture: ClassVar[str]  # the function that draws the numbers, in a module of `plots`

    @draws("rows")
    def plot(
        self, ax: Axes | None = None, *, top: int | None = None, sort: Sort = "importance",
        scale: AxisScale = "linear", colors: Colors | None = None, labels: FeatureLabels | None = None,
        title: str | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the importances, the largest on top.

        Shapley importances have their shares of the total beside them, refits a dot for each fold, and a test against
        permuted targets what these give, and p.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> shares = ll.shapley_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
        >>> [label.get_text() for label in shares.plot().get_yticklabels()]
        ['x1', 'x0']
        """
        ax = attrgetter(self._picture)(plots)(self, ax, Look(top, sort, scale, colors, labels))
        return cast("Axes", ax)


class WithLocal(Result):
    """A result with a number of each row and feature, `local`."""

    @draws("rows")
    def plot_local(
        self, ax: Axes | None = None, *, color: Literal["value"] | None = "value", top: int | None = None,
        sort: Sort = "importance", scale: AxisScale = "linear", colors: Colors | None = None,
        labels: FeatureLabels | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the importance of each feature for single rows: a line of dots each, the most important on top.

        Parameters
        ----------
        color
            ``"value"`` colours each dot by the rank of the feature's value in that row, which shows where in its range
            the feature matters; None, or `colors`, one colour for each feature.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
        >>> [label.get_text().split()[0] for label in imp.plot_local().get_yticklabels()]
        ['x1', 'x0']
        """
        return plots.cells.plot_local(cast("Any", self), ax, Look(top, sort, scale, colors, labels), color)


T = TypeVar("T", bound=Any)


@dataclass(frozen=True, eq=False, repr=False)
class ResultMapping(Grouped, Result, Mapping[str, T]):
    """A mapping from features to their results, in the requested order."""

    features: dict[str, T]
    n_predictions: int  #: rows that the model predicted, unchanged ones included

    @property
    def design(self) -> str:
        """The donor designs that were used."""
        return ", ".join(dict.fromkeys(repr(feature.design) for feature in self.features.values()))

    @property
    def engine(self) -> str:
        """The engines that computed the cells."""
        return ", ".join(dict.fromkeys(feature.engine for feature in self.features.values()))

    @property
    def exact(self) -> bool:
        """Whether every number is the mean over all pairs (curves on a product grid are not considered)."""
        return all(feature.exact for feature in self.features.values() if len(feature.values) == 1)

    @property
    def declined(self) -> dict[str, str]:
        """Why no exact engine computed a feature, for those whose cells the model predicted."""
        return {name: feature.declined for name, feature in self.features.items() if feature.declined}

    @brief
    def given(self, rows: Any) -> Self:
        """The result for these `rows` (a mask, row labels or positions) as observations, with donors from all rows."""
        return self._each(lambda feature: feature.given(rows))

    def _values_held(self, column: str) -> NDArray[Any] | None:
        held = (feature._values_held(column) for feature in self.features.values())
        return next((values for values in held if values is not None), None)

    def _split(self, groups: Any) -> dict[Any, Mask]:
        masks: dict[Any, Mask] = self._first._split(groups)
        return masks

    def _each(self, change: Callable[[T], T]) -> Self:
        return replace(self, features={name: change(feature) for name, feature in self.features.items()})

    @property
    def _first(self) -> T:
        return next(iter(self.features.values()))

    _has_curves = True
    backend = property(attrgetter("_first.backend"))
    row_labels = property(attrgetter("_first.row_labels"))
    _measure, _base, _base_estimates = (
        property(attrgetter(f"_first.{name}")) for name in ("_measure", "_base", "_base_estimates")
    )

    @property
    def _numbers(self) -> Numbers:
        return {name: numbers for feature in self.features.values() for name, numbers in feature._numbers.items()}

    def _why_absent(self, name: str) -> str:
        return str(self._first._why_absent(name) if name not in WORDS else super()._why_absent(name))

    def __getitem__(self, name: Any) -> T:
        key = pair_name(*map(str, name)) if isinstance(name, tuple) and str(name) not in self.features else str(name)
        if key not in self.features:
            raise KeyError(unknown_feature(name, list(self.features), "features"))
        return self.features[key]
