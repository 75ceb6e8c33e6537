"""Pipelines: the last estimator, and which column of the user's table each column of its matrix is computed from.

Steps that work column by column are recognised by class name; how many columns each makes of which is read from its
fitted attributes, and then checked on rows of the table. All other steps are declined: an exact engine has to be sure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Ask
from losslens.engines.base import Declined
from losslens.engines.readers.recognition import class_names, kind_of
from losslens.engines.readers.wrappers import POINTWISE_INVERSES, inside, is_pointwise
from losslens.tables.columns import Column
from losslens.tables.frames import Batch, Edit, Table
from losslens.typing import Floats, Indices

Image: TypeAlias = tuple[Indices, Floats]

CHUNK = 10_000  # rows transformed at a time, fewer if they are wide
CHUNK_VALUES = 2 * 10**7  # values in such a chunk
MAX_VALUES = 10**8  # values of all images of a call: a column of distinct names, one-hot encoded, would fill any memory


@dataclass(frozen=True, eq=False)
class UnwrappedModel:
    """A model's last estimator, and how the columns of its input come from those of the user's table.

    Column c of the estimator's matrix is computed from column ``source[c]`` of the table and from no other. `transform`
    computes the matrix from a table; it is None if the estimator gets the table itself. A step may overwrite its input
    (``copy=False``), so pass it a batch, never the user's table.
    """

    estimator: Any
    source: Indices  # (C,)
    transform: Callable[[Any], Any] | None

    def image(self, table: Table, j: int, first: Indices, column: Column | None = None) -> Image:
        """The estimator's columns that come from column j, and their values at ``column[first]``.

        `column` defaults to the table's column j; one with the user's grid values appended can be given instead.
        """
        return self.images(table, {j: (column or table.column(j), first)})[j]

    def image_of(self, table: Table, ask: Ask) -> Image:
        """The estimator's columns that come from those of an ask, and their values at the ask's values."""
        images = [
            self.image(table, j, index, source)
            for j, source, index in zip(ask.columns, ask.sources, ask.index, strict=True)
        ]
        return np.concatenate([rows for rows, _ in images]), np.concatenate([values for _, values in images], axis=1)

    def matrix(self, table: Table) -> Floats:
        """The estimator's input for all rows."""
        if self.transform is not None:
            parts = [part.toarray() if hasattr(part, "toarray") else part for part in self.chunks(table)]
            return np.concatenate(parts).astype(np.float64, copy=False)
        array = Batch(table).source
        if array is not None:
            return np.asarray(array, np.float64) if array.dtype.kind in "biuf" else as_numbers(array)
        return np.stack([as_numbers(table.column(j).array) for j in range(len(table.names))], axis=1)

    def gives_single(self, table: Table) -> bool:
        """Whether the estimator gets float32: with coefficients of that type it adds up in it."""
        rows = Batch(table).fill(np.zeros(1, np.intp), [])
        given = rows if self.transform is None else self.transform(rows)
        return is_single(given if hasattr(given, "tocsr") else np.asarray(given))

    def chunks(self, table: Table) -> Iterator[Any]:
        """The estimator's input, some rows at a time; sparse if the steps return it so."""
        assert self.transform is not None
        batch = Batch(table)
        for start in range(0, table.n, CHUNK):
            part = self.transform(batch.fill(np.arange(start, min(start + CHUNK, table.n)), []))
            yield part.tocsr() if hasattr(part, "tocsr") else as_numbers(np.asarray(part))

    def images(self, table: Table, columns: Mapping[int, tuple[Column, Indices]]) -> dict[int, Image]:
        """Images of several columns of the table, {j: (column, first)}, in one pass through the steps.

        Declined if the images hold more than `MAX_VALUES` values.
        """
        if self.transform is None:
            return {
                j: (np.array([j], np.intp), as_numbers(column.array[first])[:, None])
                for j, (column, first) in columns.items()
            }
        place = {j: np.flatnonzero(self.source == j) for j in columns}
        if sum(len(first) * len(place[j]) for j, (_, first) in columns.items()) > MAX_VALUES:
            raise Declined("its steps turn one column into too many columns")
        values = {j: np.empty((len(first), len(place[j]))) for j, (_, first) in columns.items()}
        used = {j: column_and_first for j, column_and_first in columns.items() if len(place[j])}
        size = max((len(first) for _, first in used.values()), default=0)
        chunk = max(1, min(CHUNK, CHUNK_VALUES // max(len(self.source), len(table.names))))
        batch = Batch(table)
        for start in range(0, size, chunk):
            # No column depends on another, so all of them can take their next values at once.
            edits = [
                Edit(0, len(first[start : start + chunk]), j, column, first[start : start + chunk])
                for j, (column, first) in used.items()
                if start < len(first)
            ]
            rows = np.zeros(min(chunk, size - start), np.intp)
            matrix = _by_column(self.transform(batch.fill(rows, edits)))
            for edit in edits:
                values[edit.column][start : start + edit.stop] = _columns(matrix, place[edit.column])[: edit.stop]
        return {j: (place[j], values[j]) for j in columns}


def is_single(array: Any) -> bool:
    """Whether its numbers are float32."""
    return bool(array.dtype == np.float32)


def _by_column(matrix: Any) -> Any:
    """Output of a step as an array, or as a sparse matrix with fast access to columns."""
    return matrix.tocsc() if hasattr(matrix, "tocsc") else np.asarray(matrix)


def _columns(matrix: Any, place: Indices) -> Floats:
    return as_numbers(dense(matrix[:, place]))


def dense(matrix: Any) -> NDArray[Any]:
    """Output of a step as an array."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def as_numbers(array: NDArray[Any]) -> Floats:
    """A float64 copy, with NaN for missing values; text is declined."""
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    # NumPy would turn the string '1' into a number.
    if array.dtype.kind == "O" and not any(isinstance(value, (str, bytes)) for value in array.flat):
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise Declined(f"its estimator gets values that are not numbers ({error})") from error
    raise Declined(f"its estimator gets a column of text or dates ({array.dtype})")


CHECK_ROWS = 64  # rows on which the sources are checked


def innermost(native: Any) -> Any:
    """The estimator at the end of a model's pipelines and searches."""
    try:
        return _steps_and_estimator(native)[1]
    except AttributeError as error:
        raise Declined(f"the fitted attributes of {type(native).__name__} can't be read: {error}") from error


def unwrap(native: Any, table: Table) -> UnwrappedModel:
    """Split a model into its last estimator and the steps that transform the table before it."""
    p = len(table.names)
    try:
        steps, estimator = _steps_and_estimator(native, through=True)
        source = _after_all(steps, StepColumns(np.arange(p), None if table.backend == "numpy" else table.names)).source
    except AttributeError as error:  # not fitted, or a version with other attribute names
        raise Declined(f"the fitted attributes of its steps can't be read: {error}") from error
    if not steps:
        return UnwrappedModel(estimator, source, None)
    transform = partial(_transform, steps)
    _check(transform, source, table)
    return UnwrappedModel(estimator, source, transform)


def has_steps(native: Any) -> bool:
    """Whether a model transforms its columns first."""
    return bool(_steps_and_estimator(native, through=True)[0])


def _steps_and_estimator(native: Any, *, through: bool = False) -> tuple[list[Any], Any]:
    """through: also through wrappers that change the response."""
    steps: list[Any] = []
    while True:
        if _is_passthrough(native):
            raise Declined("the last step of its pipeline is not an estimator")
        kind = kind_of(native)
        if kind in _WRAPPERS:
            native = getattr(native, _WRAPPERS[kind])
        elif kind == "sklearn.Pipeline":
            steps += [step for _, step in native.steps[:-1] if not _is_passthrough(step)]
            native = native.steps[-1][1]
        elif through and (inner := inside(native)) is not None:
            native = inner
        else:
            return steps, native


_WRAPPERS = {
    "sklearn.GridSearchCV": "best_estimator_",
    "sklearn.RandomizedSearchCV": "best_estimator_",
    "sklearn.HalvingGridSearchCV": "best_estimator_",
    "sklearn.HalvingRandomSearchCV": "best_estimator_",
    "sklearn.FrozenEstimator": "estimator",
}


def _transform(steps: Sequence[Any], table: Any) -> Any:
    for step in steps:
        table = step.transform(table)
    return table


def _is_passthrough(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


# Sources: input columns of a step -> its output columns, each with the column of the user's table it is computed from.


@dataclass(frozen=True, eq=False)
class StepColumns:
    """Columns between two steps: their source columns, and their names as long as these are the table's."""

    source: Indices
    names: tuple[str, ...] | None


def _after_all(steps: Sequence[Any], columns: StepColumns) -> StepColumns:
    for step in steps:
        columns = _after(step, columns)
    return columns


def _after(step: Any, columns: StepColumns) -> StepColumns:
    if _is_passthrough(step):
        return columns
    kind, *ancestors = class_names(step)
    if kind in _COMPOSED:
        return _COMPOSED[kind](step, columns)
    rule = _selected if "sklearn.SelectorMixin" in ancestors else _RULES.get(kind)
    if rule is None:
        raise Declined(f"its step {type(step).__name__} is not known to work column by column")
    expected = getattr(step, "n_features_in_", len(columns.source))
    if expected != len(columns.source):
        raise Declined(f"{type(step).__name__} was fitted to {expected} columns but gets {len(columns.source)}")
    return StepColumns(rule(step, columns.source), None)


def _joined(parts: Sequence[StepColumns]) -> StepColumns:
    return StepColumns(np.concatenate([np.empty(0, np.intp), *(part.source for part in parts)]), None)


def _pipeline(step: Any, columns: StepColumns) -> StepColumns:
    return _after_all([part for _, part in step.steps], columns)


def _frozen(step: Any, columns: StepColumns) -> StepColumns:
    return _after(step.estimator, columns)


def _union(step: Any, columns: StepColumns) -> StepColumns:
    return _joined([_after(part, columns) for _, part in step.transformer_list if not _is_drop(part)])


def _column_transformer(step: Any, columns: StepColumns) -> StepColumns:
    selected, position = step._transformer_to_input_indices, _current_positions(step, columns)
    parts = []
    for name, part, _ in step.transformers_:
        chosen = position[np.asarray(selected[name], np.intp)]
        if _is_drop(part) or len(chosen) == 0:
            continue
        if (chosen < 0).any():
            raise Declined("its ColumnTransformer selects a column that the table doesn't have")
        # Without names: whatever the order of the table's columns, a part gets its columns in the order of the fit.
        parts.append(_after(part, StepColumns(columns.source[chosen], None)))
    return _joined(parts)


def _current_positions(step: Any, columns: StepColumns) -> Indices:
    """Current positions of the columns of the fit: frames are read by name, so columns may have moved."""
    if columns.names is not None and hasattr(step, "feature_names_in_"):
        now = {name: position for position, name in enumerate(columns.names)}
        return np.array([now.get(name, -1) for name in step.feature_names_in_], np.intp)
    if step.n_features_in_ != len(columns.source):
        fitted = step.n_features_in_
        raise Declined(f"its ColumnTransformer was fitted to {fitted} columns but gets {len(columns.source)}")
    return np.arange(len(columns.source))


def _is_drop(part: Any) -> bool:
    return isinstance(part, str) and part == "drop"


def _function(step: Any, columns: StepColumns) -> StepColumns:
    func = step.func
    if func is None or is_pointwise(func, step.kw_args):
        return columns
    name = getattr(func, "__name__", type(func).__name__)
    raise Declined(f"the function {name} of its FunctionTransformer is not known to work column by column")


_COMPOSED: dict[str, Callable[[Any, StepColumns], StepColumns]] = {
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
    # The attribute exists only if rare categories are grouped.
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
    if not step.keep_empty_features:  # a column without any value is left out
        empty = [isinstance(value, (float, np.floating)) and np.isnan(value) for value in step.statistics_]
        kept = source[~np.array(empty, bool)]
    return np.concatenate([kept, source[step.indicator_.features_]]) if step.add_indicator else kept


def _indicated(step: Any, source: Indices) -> Indices:
    return np.asarray(source[step.features_])


def _powers(step: Any, source: Indices) -> Indices:
    low, high = step.degree if isinstance(step.degree, tuple) else (0, step.degree)
    highest = min(high, len(source)) if step.interaction_only else high
    # Before `powers_` is read: with many columns it may not fit in memory.
    if len(np.unique(source)) > 1 and max(low, 2) <= highest:
        raise Declined("its PolynomialFeatures multiplies columns with each other")
    if step.n_output_features_ == 0:
        return source[:0]
    # The constant is a function of any column: assigned to the first one.
    return np.asarray(source[np.argmax(step.powers_ > 0, axis=1)])


_RULES: dict[str, Callable[[Any, Indices], Indices]] = {
    **dict.fromkeys(POINTWISE_INVERSES, _same),
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


# The check, and output of the steps as numbers.


def _check(transform: Callable[[Any], Any], source: Indices, table: Table) -> None:
    """Decline unless resampling each input column separately resamples each output column like its source."""
    rows = np.unique(np.linspace(0, table.n - 1, CHECK_ROWS).astype(np.intp))
    few = replace(table, native=Batch(table).fill(rows, ()), n=len(rows))
    batch, width = Batch(few), len(table.names)
    drawn = np.random.default_rng(0).integers(len(rows), size=(CHECK_ROWS, width))
    original = as_numbers(dense(transform(batch.fill(np.arange(len(rows)), ()))))
    if original.shape[1] != len(source):
        raise Declined(f"its steps make {original.shape[1]} columns where {len(source)} were expected")
    edits = [Edit(0, CHECK_ROWS, j, few.column(j), drawn[:, j]) for j in range(width)]
    shuffled = as_numbers(dense(transform(batch.fill(np.zeros(CHECK_ROWS, np.intp), edits))))
    expected = np.take_along_axis(original, drawn[:, source], axis=0)
    if not _agree(expected, shuffled):
        raise Declined("a column that its steps make depends on more than one column of the table")


def _agree(expected: Floats, actual: Floats) -> bool:
    """Equal up to rounding, which can differ with the memory layout."""
    finite = np.isfinite(expected)
    scale = np.abs(expected).max(axis=0, initial=0, where=finite)
    same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        close = finite & (np.abs(expected - actual) <= 1e-6 * np.abs(expected) + 1e-9 * scale)
    return bool((same | close).all())
