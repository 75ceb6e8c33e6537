"""Samplers: values of some columns drawn given other columns, instead of from any row.

A sampler is any function ``(X, columns, rng) -> a table like X`` whose named columns are drawn given the others.
`Within` and `Residual` also record which donor each value comes from, so that standard errors of importances can
account for rows and donors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from losslens.donors.designs import Latin
from losslens.donors.leaves import grown, leaves_of, same_values
from losslens.donors.residuals import FOLDS, Chances, Folds, Residuals, by_classes, neighbourhoods, rounded_like
from losslens.tables.checks import check_count
from losslens.tables.columns import Column, narrow, stable_order
from losslens.tables.frames import Batch, Edit, Table, as_table
from losslens.tables.numbers import Numbers
from losslens.typing import Floats, Indices

PREDICTIONS = 1_000_000  # of one feature, if m is not given
FEWEST, FUNCTION_DRAWS = 8, 8  # donors a row at least; draws of a user's function


@runtime_checkable
class Sampler(Protocol):
    """Draws some columns of every row given its other columns."""

    def __call__(self, X: Any, columns: Sequence[Any], rng: np.random.Generator, /) -> Any:
        """A table like X whose named columns (positions, for an array) are drawn anew; the others are not read."""


@dataclass(frozen=True, eq=False)
class DrawnValues:
    """m values of some columns for each row."""

    donors: Indices  # (n, m); -1: no donor
    # New values, appended to the column: the value of cell (i, k) is at (k + 1) n + i.
    sources: dict[int, Column] = field(default_factory=dict)
    explained: float = np.nan  # share of the columns' variance explained by the given ones
    leaf: Indices | None = None  # (n,)
    rules: tuple[str, ...] = ()
    alone: bool = False  # values were drawn for the row, without a donor

    def __post_init__(self) -> None:
        object.__setattr__(self, "donors", narrow(self.donors))


class DonorSampler:
    """Base class of samplers that record donors; as a function it draws one value for each row."""

    given: Iterable[Any] | None  # columns to condition on; None: all that are not drawn
    m: int | None
    typed: ClassVar[tuple[str, ...]] = ()  # how it is written on the command line

    def lend(
        self, numbers: Numbers, columns: Sequence[int], given: Sequence[int], m: int, rng: np.random.Generator
    ) -> DrawnValues:
        """m values of these columns for each row, drawn given others."""
        raise NotImplementedError

    def draws(self, n: int) -> int:
        """Values drawn for each of n rows, at most."""
        most = int(np.clip(PREDICTIONS // n, min(FEWEST, n), n))
        return most if self.m is None else int(min(self.m, n))

    def __call__(self, X: Any, columns: Sequence[Any], rng: np.random.Generator) -> Any:
        """A table like X whose named columns are drawn anew, given the others."""
        table = as_table(X)
        chosen = positions(columns, table)
        given = given_columns(self, table, chosen)
        drawn = self.lend(Numbers(table), chosen, given, 1, rng)
        rows = np.arange(table.n)
        donor = np.where(drawn.donors[:, 0] < 0, rows, drawn.donors[:, 0])  # a row alone in its leaf keeps its value
        edits = [
            Edit(0, table.n, j, drawn.sources[j], table.n + rows) if j in drawn.sources
            else Edit(0, table.n, j, table.column(j), donor)
            for j in chosen
        ]  # fmt: skip
        return Batch(table).fill(rows, edits)


@dataclass(frozen=True, eq=False, repr=False)
class Within(DonorSampler):
    """Donors from the same leaf of a tree that predicts the feature from the other columns, or with the same values.

    Parameters
    ----------
    tree
        A scikit-learn tree; clones of it are fitted (to numbers and categories alike). By default the number of
        leaves, of at least 20 rows each, is chosen on held-out rows. Or a column, such as ``"hour"``, or a list of
        columns: donors then have the same values there as the row, without a tree. A row that is alone with its values
        has no donor and does not count.
    given
        The columns that the tree may split on; all others by default. With fewer, the importance is *relative* to
        these: with none it is the permutation importance.
    m
        Donors a row; by default as many as make a million predictions a feature, and 8 at least.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> a, b = np.random.default_rng(0).normal(size=(2, 500))
    >>> X = np.column_stack([a, a + 0.1 * b])  # nearly the same twice
    >>> imp = ll.feature_importance(lambda X: X[:, 0], X, a, loss="squared_error", donors=ll.Within(), random_state=0)
    >>> bool(imp["x0"].pfi < 0.2 * a.var())  # the permutation importance is twice the variance
    True
    """

    tree: Any = None
    given: Iterable[Any] | None = None
    m: int | None = None
    typed = ("within",)

    def __post_init__(self) -> None:
        if self._by_value:
            if self.given is not None:
                raise ValueError(f"given={self.given!r} is what a tree splits on; Within({self.tree!r}) has none")
            object.__setattr__(self, "given", [self.tree] if isinstance(self.tree, str) else list(self.tree))
        elif self.tree is not None and not (hasattr(self.tree, "fit") and hasattr(self.tree, "apply")):
            raise TypeError(
                "tree is a scikit-learn decision tree, with fit and apply, or a column, or a list of columns; got "
                f"{type(self.tree).__name__}"
            )
        _check(self.given, self.m)

    @property
    def _by_value(self) -> bool:
        """Whether donors have the same values in some columns, and no tree is grown."""
        return isinstance(self.tree, (str, list, tuple))

    def __repr__(self) -> str:
        return f"Within({self.tree!r})" if self._by_value else _call_text("Within", self.tree, self.given)

    def lend(
        self, numbers: Numbers, columns: Sequence[int], given: Sequence[int], m: int, rng: np.random.Generator
    ) -> DrawnValues:
        """Donors of each row, from its leaf and never itself."""
        counted = numbers.counted if len(numbers.counted) < numbers.table.n else slice(None)
        target = _scaled(numbers.of(columns)[0], counted)
        if self._by_value:
            table = numbers.table
            leaf, rules = same_values(
                [table.names[j] for j in given], [table.column(j).distinct for j in given], table.n
            )
        else:
            leaf, rules = self._leaves(numbers, given, target, counted, rng)
        if np.bincount(leaf).max() < 2:
            no_leaf = "every leaf of the tree holds one row, which leaves no donors; set its min_samples_leaf"
            raise ValueError(f"{self!r}: no two rows have the same values there" if self._by_value else no_leaf)
        explained = _share_explained(target[counted], leaf[counted])
        return DrawnValues(_donors_in_leaves(leaf, m, rng), explained=explained, leaf=leaf, rules=rules)

    def _leaves(
        self, numbers: Numbers, given: Sequence[int], target: Floats, counted: Any, rng: np.random.Generator
    ) -> tuple[Indices, tuple[str, ...]]:
        # Trees of scikit-learn read single precision.
        others, axes = numbers.of(given, np.float64 if self.tree is not None else np.float32)
        seed = int(rng.integers(2**31))
        tree = grown(self.tree, others[counted], target[counted], seed) if axes else None
        return leaves_of(tree, others, axes)


@dataclass(frozen=True, eq=False, repr=False)
class Residual(DonorSampler):
    """What a regression on the other columns predicts for a row, plus the residual of a similar row.

    Donors are rows with a similar prediction and a similar expected size of the residual, so that residuals may have
    another spread and shape elsewhere. Categories, and numbers with at most ten distinct values, are drawn with the
    probabilities of a classifier. Predictions are out of fold (5 folds, groups of rows stay together): in-sample
    residuals would be too small.

    Parameters
    ----------
    regressor, classifier
        Scikit-learn estimators; clones of them are fitted to the other columns as numbers. By default smooth curves
        (a ridge regression on cubic splines) or boosted trees, whichever predicts better.
    given, m
        As in `Within`.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> a, b = np.random.default_rng(0).normal(size=(2, 300))
    >>> X = np.column_stack([a, a + b])
    >>> imp = ll.feature_importance(lambda X: X[:, 0], X, a, loss="squared_error", donors=ll.Residual(), random_state=0)
    >>> bool(imp["x0"].pfi < 2 * a.var()), imp["x1"].pfi
    (True, 0.0)
    """

    regressor: Any = None
    classifier: Any = None
    given: Iterable[Any] | None = None
    m: int | None = None
    typed = ("residual",)

    def __post_init__(self) -> None:
        for name, needs in (("regressor", "predict"), ("classifier", "predict_proba")):
            estimator = getattr(self, name)
            if estimator is not None and not (hasattr(estimator, "fit") and hasattr(estimator, needs)):
                raise TypeError(f"{name} is an estimator with fit and {needs}; got {type(estimator).__name__}")
        _check(self.given, self.m)

    def __repr__(self) -> str:
        return _call_text("Residual", self.regressor, self.given)

    def lend(
        self, numbers: Numbers, columns: Sequence[int], given: Sequence[int], m: int, rng: np.random.Generator
    ) -> DrawnValues:
        """Numbers by residuals of one donor, then categories given these."""
        table, seed = numbers.table, int(rng.integers(2**31))
        if len(numbers.counted) < 2 * FOLDS:
            raise ValueError(
                f"residuals need {2 * FOLDS} rows that count; there are {len(numbers.counted)}: use Within()"
            )
        categories = [j for j in columns if by_classes(table.column(j), table.names[j])]
        others, folds = numbers.of(given)[0], Folds.draw(table.n, numbers.block, seed)
        residuals = {
            j: Residuals.of(table.column(j), others, numbers.counted, self.regressor, folds, table.names[j])
            for j in columns if j not in categories
        }  # fmt: skip
        if residuals:
            alike = np.concatenate([one.likeness for one in residuals.values()], axis=1)
            donors = _donors_in_leaves(neighbourhoods(alike, numbers.block), m, rng)
        else:
            donors = Latin(min(m, table.n)).draw(table.n, rng)
        draw = _Draw(numbers, others if categories else others[:, :0].copy(), donors, folds)
        del others  # without categories they are read no more
        for j, one in residuals.items():
            draw.number(j, one, recorded=bool(categories))
        for j in categories:
            draw.category(j, self.classifier, rng)
        return DrawnValues(donors, draw.sources, float(np.mean(draw.explained)), alone=not residuals)


class _Draw:
    """Columns drawn one after the other; the draws of all rows are stacked."""

    def __init__(self, numbers: Numbers, others: Floats, donors: Indices, folds: Folds) -> None:
        self.table, self.numbers, self.donors, self.folds = numbers.table, numbers, donors, folds
        self.seen = [others]  # predictors of a draw: observed values, (n, .),
        self.drawn: list[Floats] = []  # and the values drawn so far, (n m, .)
        self.sources: dict[int, Column] = {}
        self.explained: list[float] = []

    def number(self, j: int, residuals: Residuals, *, recorded: bool) -> None:
        """Numbers take the residuals of the same donor; `recorded` for categories, which are predicted from them."""
        column = self.table.column(j)
        values = residuals.of_donors(self.donors.T).ravel()
        self.sources[j] = self.table.column_with(j, rounded_like(values, column))
        self.explained.append(residuals.explained)
        if recorded:
            own = np.nan_to_num(np.asarray(column.array, float), nan=residuals.middle)
            self._record(own[:, None], values[:, None])

    def category(self, j: int, classifier: Any, rng: np.random.Generator) -> None:
        """Categories are also predicted from the columns drawn before."""
        column, (n, m) = self.table.column(j), self.donors.shape
        chances = Chances.of(column, np.concatenate(self.seen, axis=1), self.numbers.counted, classifier, self.folds)
        cells = np.concatenate([np.tile(self.seen[0], (m, 1)), *self.drawn], axis=1) if self.drawn else self.seen[0]
        code = chances.drawn(cells, n, m, rng)
        self.sources[j] = _appended(column, code)
        self.explained.append(chances.explained)
        shown = self.numbers.of([j])[0]
        self._record(shown, shown[column.distinct.first[code]])

    def _record(self, own: Floats, drawn: Floats) -> None:
        self.seen.append(own)
        self.drawn.append(np.nan_to_num(drawn, nan=float(np.median(own))))


def _appended(column: Column, code: Indices) -> Column:
    """The column with the values of these codes appended."""
    first = np.append(np.arange(len(column.array)), column.distinct.first[code])
    return Column(lambda index: column.gather(first[index]), column.array[first], column.categories, column.ordered,
                  column.extend, None if column.null is None else column.null[first])  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class FunctionSampler(DonorSampler):
    """A user's function, called once a draw."""

    function: Sampler
    given = None

    def __repr__(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def draws(self, n: int) -> int:
        """The function's attribute `m`, else `FUNCTION_DRAWS`."""
        m = getattr(self.function, "m", None)
        return FUNCTION_DRAWS if m is None else int(min(m, n))

    def lend(
        self, numbers: Numbers, columns: Sequence[int], given: Sequence[int], m: int, rng: np.random.Generator
    ) -> DrawnValues:
        """What the function draws, m times."""
        from losslens.tables.frames import as_rows, prepend_rows

        table = together = numbers.table
        for _ in range(m):
            copy = table.rows(np.arange(table.n))  # which the function may write to
            drawn = self.function(copy, labels_of(columns, table), rng)
            try:
                rows = as_rows(drawn, table)
            except (TypeError, ValueError) as error:
                raise type(error)(f"sampler must give a table like X: {error}") from error
            if len(rows) != table.n:
                raise ValueError(f"sampler gave {len(rows)} rows for {table.n}; it draws one value for each row")
            together = prepend_rows(together.native, as_table(rows))
        donors = np.repeat(np.arange(table.n)[:, None], m, axis=1)
        return DrawnValues(donors, {j: together.column(j) for j in columns}, alone=True)


SAMPLERS: tuple[type[DonorSampler], ...] = (Within, Residual)


def labels_of(columns: Sequence[int], table: Table) -> list[Any]:
    """Column labels of the user's table; positions for arrays."""
    return [j if table.backend == "numpy" else table.labels[j] for j in columns]


def positions(columns: Iterable[Any], table: Table) -> list[int]:
    """Columns as positions in the table."""
    from losslens.tables.features import resolve

    names = list(dict.fromkeys([columns] if isinstance(columns, (str, int)) else columns))
    if not names:
        return []
    return [j for one in resolve(names, table.labels, by_position=table.backend == "numpy") for j in one.columns]


def given_columns(sampler: DonorSampler, table: Table, replaced: Sequence[int]) -> list[int]:
    """The columns that a draw is conditioned on: those named, or all others."""
    if sampler.given is None:
        return [j for j in range(len(table.names)) if j not in replaced]
    return [j for j in positions(sampler.given, table) if j not in replaced]


def _check(given: Any, m: Any) -> None:
    if given is not None and (isinstance(given, (str, bytes)) or not isinstance(given, Iterable)):
        raise TypeError(f"given is a list of columns, such as ['age', 'sex']; got {given!r}")
    if m is not None:
        check_count(m, "m of donors a row")


def _call_text(name: str, estimator: Any, given: Iterable[Any] | None) -> str:
    parts = [] if estimator is None else [type(estimator).__name__]
    parts += [] if given is None else [f"given={list(given)!r}"]
    return f"{name}({', '.join(parts)})"


def _scaled(target: Floats, counted: Indices | slice) -> Floats:
    spread = target[counted].std(axis=0)
    return np.asarray((target - target[counted].mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _share_explained(target: Floats, leaf: Indices) -> float:
    """The share of the variance between leaves."""
    count, total = np.maximum(np.bincount(leaf), 1), float(np.square(target).sum())
    means = np.stack([np.bincount(leaf, column) / count for column in target.T], axis=1)[leaf]
    return float(np.square(means).sum()) / total if total > 0 else 0.0


def _donors_in_leaves(leaf: Indices, m: int, rng: np.random.Generator) -> Indices:
    """Donors by distinct cyclic shifts of a random order of each leaf's rows; -1 where a leaf has too few."""
    order = rng.permutation(len(leaf))
    order = order[stable_order(leaf[order])]
    count = np.bincount(leaf)
    m = min(m, int(count.max()) - 1)
    donors = np.full((len(leaf), max(m, 1)), -1, narrow(leaf).dtype)
    for rows in np.split(order, np.cumsum(count)[:-1]):
        s = len(rows)
        shifts = 1 + rng.permutation(s - 1)[:m]
        donors[rows, : len(shifts)] = rows[(np.arange(s)[:, None] + shifts) % s]
    return donors
