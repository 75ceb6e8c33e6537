"""Pipelines: which column of the user's table each column of the last estimator's matrix is computed from.

Steps that work column by column are known by name, and how many columns each makes of which is read from what it
learned. What was read is then checked on rows of the table. Every other step is declined: an exact engine has to know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from losslens.engines.readers.ensemble import Declined
from losslens.tables.columns import Column
from losslens.tables.frames import Batch, Edit, Table
from losslens.typing import Floats, Indices

Image: TypeAlias = tuple[Indices, Floats]

CHUNK = 10_000  # rows that go through the steps at a time, fewer where they are wide
CELLS = 2 * 10**7  # values in such a chunk
MOST = 10**8  # values of all images of a call: a column of names, one hot, would fill any memory
SAMPLE = 64  # rows on which the sources are checked


@dataclass(frozen=True, eq=False)
class Peeled:
    """A model's last estimator, and how the columns that it sees come from those of the user's table.

    Column c of the estimator's matrix is computed from column ``source[c]`` of the table and from no other. `transform`
    makes the matrix of a table, and is None where the estimator sees the table itself. A step may write into what it is
    given (``copy=False``), so hand it a batch, never the user's own table.
    """

    estimator: Any
    source: Indices  # (C,)
    transform: Callable[[Any], Any] | None

    def image(self, table: Table, j: int, first: Indices, column: Column | None = None) -> Image:
        """The estimator's columns that come from column j, and their values at ``column[first]``.

        The column is the table's own unless given: one with values of the user's behind it can be asked too.
        """
        return self.images(table, {j: (column or table.column(j), first)})[j]

    def images(self, table: Table, wanted: Mapping[int, tuple[Column, Indices]]) -> dict[int, Image]:
        """The same of several columns of the table, {j: (column, first)}, in one pass through the steps.

        Declined where the images hold more than `MOST` values.
        """
        if self.transform is None:
            return {
                j: (np.array([j], np.intp), as_numbers(column.array[first])[:, None])
                for j, (column, first) in wanted.items()
            }
        place = {j: np.flatnonzero(self.source == j) for j in wanted}
        if sum(len(first) * len(place[j]) for j, (_, first) in wanted.items()) > MOST:
            raise Declined("its steps make too many columns of one")
        found = {j: np.empty((len(first), len(place[j]))) for j, (_, first) in wanted.items()}
        used = {j: given for j, given in wanted.items() if len(place[j])}
        size = max((len(first) for _, first in used.values()), default=0)
        chunk = max(1, min(CHUNK, CELLS // max(len(self.source), len(table.names))))
        batch = Batch(table)
        for start in range(0, size, chunk):
            # No column looks at another, so all of them can take their next values at once.
            edits = [
                Edit(0, len(first[start : start + chunk]), j, column, first[start : start + chunk])
                for j, (column, first) in used.items()
                if start < len(first)
            ]
            rows = np.zeros(min(chunk, size - start), np.intp)
            matrix = _opened(self.transform(batch.fill(rows, edits)))
            for edit in edits:
                found[edit.column][start : start + edit.stop] = _columns(matrix, place[edit.column])[: edit.stop]
        return {j: (place[j], found[j]) for j in wanted}


def innermost(native: Any) -> Any:
    """The estimator at the end of a model's pipelines and searches; None where reading it would not tell.

    A class of the user's own, or a method put on an instance, may answer anything.
    """
    try:
        estimator = _unwrapped(native)[1]
    except (AttributeError, Declined):  # not fitted; or a pipeline that only transforms
        return None
    known = _kind(estimator).partition(".")[0] in _LIBRARIES
    return estimator if known and not _has_its_own_answers(estimator) else None


_LIBRARIES = ("lightgbm", "sklearn", "xgboost")


def _has_its_own_answers(thing: Any) -> bool:
    methods = ("predict", "predict_proba", "decision_function")
    return any(name in getattr(thing, "__dict__", {}) for name in methods)


def peel(native: Any, table: Table) -> Peeled:
    """Take a model apart into its last estimator and what happens to the table before.

    >>> from losslens.tables.frames import as_table
    >>> peel("any model", as_table([[1, 2], [3, 4]])).source
    array([0, 1])
    """
    p = len(table.names)
    try:
        steps, estimator = _unwrapped(native)
        seen = Seen(np.arange(p), None if table.backend == "numpy" else table.names)
        source = _along(steps, seen).source
    except AttributeError as error:  # not fitted, or a version that keeps what it learned elsewhere
        raise Declined(f"what its steps learned can't be read: {error}") from error
    if not steps:
        return Peeled(estimator, np.arange(p), None)
    transform = partial(_through, steps)
    _check(transform, source, table)
    return Peeled(estimator, source, transform)


def _unwrapped(native: Any) -> tuple[list[Any], Any]:
    steps: list[Any] = []
    while True:
        kind = _kind(native)
        if _has_its_own_answers(native):
            return steps, native
        if kind in _WRAPPERS:
            native = getattr(native, _WRAPPERS[kind])
        elif kind == "sklearn.Pipeline":
            steps += [step for _, step in native.steps[:-1] if not _passes(step)]
            native = native.steps[-1][1]
        elif _passes(native):
            raise Declined("the last step of its pipeline is no estimator")
        else:
            return steps, native


_WRAPPERS = {
    "sklearn.GridSearchCV": "best_estimator_",
    "sklearn.RandomizedSearchCV": "best_estimator_",
    "sklearn.HalvingGridSearchCV": "best_estimator_",
    "sklearn.HalvingRandomSearchCV": "best_estimator_",
    "sklearn.FrozenEstimator": "estimator",
}


def _through(steps: Sequence[Any], table: Any) -> Any:
    for step in steps:
        table = step.transform(table)
    return table


def class_names(thing: Any) -> list[str]:
    """Its class and the ancestors of that by library and name: 'sklearn.Ridge', wherever in sklearn that lives."""
    return [f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(thing).__mro__]


def _kind(thing: Any) -> str:
    # The class itself, not its ancestors: somebody's own class of scalers may mix columns.
    return class_names(thing)[0]


def _passes(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


# Sources: columns a step is given -> columns it makes, each by the column of the user's table that it comes from.


@dataclass(frozen=True, eq=False)
class Seen:
    """The columns that a step is given: where they come from, and their names while they are those of the table."""

    source: Indices
    names: tuple[str, ...] | None


def _along(steps: Sequence[Any], seen: Seen) -> Seen:
    for step in steps:
        seen = _after(step, seen)
    return seen


def _after(step: Any, seen: Seen) -> Seen:
    kind = _kind(step)
    if _passes(step):
        return seen
    if kind in _COMPOSED:
        return _COMPOSED[kind](step, seen)
    rule = _selected if "sklearn.SelectorMixin" in class_names(step) else _RULES.get(kind)
    if rule is None:
        raise Declined(f"{type(step).__name__} isn't known to work column by column")
    expected = getattr(step, "n_features_in_", len(seen.source))
    if expected != len(seen.source):
        raise Declined(f"{type(step).__name__} was fitted to {expected} columns and is given {len(seen.source)}")
    return Seen(rule(step, seen.source), None)


def _joined(parts: Sequence[Seen]) -> Seen:
    return Seen(np.concatenate([np.empty(0, np.intp), *(part.source for part in parts)]), None)


def _pipeline(step: Any, seen: Seen) -> Seen:
    return _along([part for _, part in step.steps], seen)


def _frozen(step: Any, seen: Seen) -> Seen:
    return _after(step.estimator, seen)


def _union(step: Any, seen: Seen) -> Seen:
    return _joined([_after(part, seen) for _, part in step.transformer_list if not _drops(part)])


def _column_transformer(step: Any, seen: Seen) -> Seen:
    selected, place = step._transformer_to_input_indices, _places(step, seen)
    parts = []
    for name, part, _ in step.transformers_:
        chosen = place[np.asarray(selected[name], np.intp)]
        if _drops(part) or len(chosen) == 0:
            continue
        if (chosen < 0).any():
            raise Declined("its ColumnTransformer selects a column that the table doesn't have")
        # Without names: in whatever order the table's columns are, a part gets its own in the order of the fit.
        parts.append(_after(part, Seen(seen.source[chosen], None)))
    return _joined(parts)


def _places(step: Any, seen: Seen) -> Indices:
    """Where the columns of the fit are now: frames are read by name, so theirs may have moved."""
    if seen.names is not None and hasattr(step, "feature_names_in_"):
        now = {name: position for position, name in enumerate(seen.names)}
        return np.array([now.get(name, -1) for name in step.feature_names_in_], np.intp)
    if step.n_features_in_ != len(seen.source):
        raise Declined(
            f"its ColumnTransformer was fitted to {step.n_features_in_} columns and is given {len(seen.source)}"
        )
    return np.arange(len(seen.source))


def _drops(part: Any) -> bool:
    return isinstance(part, str) and part == "drop"


def _function(step: Any, seen: Seen) -> Seen:
    func = step.func
    # A ufunc with a signature (matmul) looks at several elements at once, and options can name other arrays.
    pointwise = isinstance(func, np.ufunc) and (func.nin, func.nout, func.signature) == (1, 1, None)
    if func is None or (pointwise and not step.kw_args):
        return seen
    name = getattr(func, "__name__", type(func).__name__)
    raise Declined(f"the function {name} of its FunctionTransformer isn't known to work column by column")


_COMPOSED: dict[str, Callable[[Any, Seen], Seen]] = {
    "sklearn.Pipeline": _pipeline,
    "sklearn.FrozenEstimator": _frozen,
    "sklearn.FeatureUnion": _union,
    "sklearn.ColumnTransformer": _column_transformer,
    "sklearn.FunctionTransformer": _function,
}


def _same(step: Any, source: Indices) -> Indices:
    return source


def _selected(step: Any, source: Indices) -> Indices:
    return np.asarray(source[step.get_support(indices=True)])


def _one_hot(step: Any, source: Indices) -> Indices:
    width = np.array([len(categories) for categories in step.categories_], np.intp)
    # The attribute is there only where rare categories were to be grouped.
    for i, rare in enumerate(getattr(step, "infrequent_categories_", ())):
        width[i] -= 0 if rare is None else len(rare) - 1
    for i, dropped in enumerate(() if step.drop_idx_ is None else step.drop_idx_):
        width[i] -= dropped is not None
    return np.repeat(source, width)


def _bins(step: Any, source: Indices) -> Indices:
    return source if step.encode == "ordinal" else np.repeat(source, step.n_bins_)


def _target(step: Any, source: Indices) -> Indices:
    return np.repeat(source, len(step.classes_)) if step.target_type_ == "multiclass" else source


def _splines(step: Any, source: Indices) -> Indices:
    return np.repeat(source, step.bsplines_[0].c.shape[1] - (not step.include_bias))


def _imputed(step: Any, source: Indices) -> Indices:
    kept = source
    if not step.keep_empty_features:  # a column with nothing to learn from is left out
        empty = [isinstance(value, (float, np.floating)) and np.isnan(value) for value in step.statistics_]
        kept = source[~np.array(empty, bool)]
    return np.concatenate([kept, source[step.indicator_.features_]]) if step.add_indicator else kept


def _indicated(step: Any, source: Indices) -> Indices:
    return np.asarray(source[step.features_])


def _powers(step: Any, source: Indices) -> Indices:
    low, high = step.degree if isinstance(step.degree, tuple) else (0, step.degree)
    most = min(high, len(source)) if step.interaction_only else high
    # Asked first: the powers of many columns are more than memory may hold.
    if len(np.unique(source)) > 1 and max(low, 2) <= most:
        raise Declined("its PolynomialFeatures multiplies columns with each other")
    if step.n_output_features_ == 0:
        return source[:0]
    # The constant is a function of any column: the first one's.
    return np.asarray(source[np.argmax(step.powers_ > 0, axis=1)])


_RULES: dict[str, Callable[[Any, Indices], Indices]] = {
    "sklearn.StandardScaler": _same,
    "sklearn.MinMaxScaler": _same,
    "sklearn.MaxAbsScaler": _same,
    "sklearn.RobustScaler": _same,
    "sklearn.QuantileTransformer": _same,
    "sklearn.PowerTransformer": _same,
    "sklearn.Binarizer": _same,
    "sklearn.OrdinalEncoder": _same,
    "sklearn.OneHotEncoder": _one_hot,
    "sklearn.TargetEncoder": _target,
    "sklearn.KBinsDiscretizer": _bins,
    "sklearn.SplineTransformer": _splines,
    "sklearn.PolynomialFeatures": _powers,
    "sklearn.SimpleImputer": _imputed,
    "sklearn.MissingIndicator": _indicated,
}


# The check, and what comes out of the steps as numbers.


def _check(transform: Callable[[Any], Any], source: Indices, table: Table) -> None:
    """Decline unless columns that are shuffled one by one come out as the same columns, shuffled like their source."""
    rows = np.unique(np.linspace(0, table.n - 1, SAMPLE).astype(np.intp))
    few = replace(table, native=Batch(table).fill(rows, ()), n=len(rows))
    batch, width = Batch(few), len(table.names)
    drawn = np.random.default_rng(0).integers(len(rows), size=(SAMPLE, width))
    plain = as_numbers(_dense(transform(batch.fill(np.arange(len(rows)), ()))))
    if plain.shape[1] != len(source):
        raise Declined(f"its steps make {plain.shape[1]} columns where {len(source)} were expected")
    edits = [Edit(0, SAMPLE, j, few.column(j), drawn[:, j]) for j in range(width)]
    shuffled = as_numbers(_dense(transform(batch.fill(np.zeros(SAMPLE, np.intp), edits))))
    expected = np.take_along_axis(plain, drawn[:, source], axis=0)
    if not _agree(expected, shuffled):
        raise Declined("a column that its steps make depends on more than one column of the table")


def _agree(expected: Floats, found: Floats) -> bool:
    """Equal to rounding, which can differ with the memory layout."""
    finite = np.isfinite(expected)
    scale = np.abs(expected).max(axis=0, initial=0, where=finite)
    same = (expected == found) | (np.isnan(expected) & np.isnan(found))
    with np.errstate(invalid="ignore"):  # infinity less infinity
        near = finite & (np.abs(expected - found) <= 1e-6 * np.abs(expected) + 1e-9 * scale)
    return bool((same | near).all())


def _opened(matrix: Any) -> Any:
    """What a step returned as an array, or as a sparse matrix that gives columns quickly."""
    return matrix.tocsc() if hasattr(matrix, "tocsc") else np.asarray(matrix)


def _columns(matrix: Any, place: Indices) -> Floats:
    return as_numbers(_dense(matrix[:, place]))


def _dense(matrix: Any) -> NDArray[Any]:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def as_numbers(array: NDArray[Any]) -> Floats:
    """A float64 copy, with NaN where a value is missing; words are declined."""
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    # NumPy would turn the string '1' into a number.
    if array.dtype.kind == "O" and not any(isinstance(value, (str, bytes)) for value in array.flat):
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise Declined(f"its estimator is given values that are no numbers ({error})") from error
    raise Declined(f"its estimator is given a column of words or dates ({array.dtype})")
