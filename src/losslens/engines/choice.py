"""The choice of an engine: an exact one if the model is supported, otherwise the black box.

A new exact engine needs a module or folder of its own, and a reader in `READERS`.

Half of the rows on which an engine is compared with the model hold what is rare or extreme in its columns. Rows at
equal distances say how predictions vary, but an engine that misreads a rare category, a kind of missing values or the
largest numbers would most likely agree with the model on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import SINGLE_TOLERANCE, Declined, ExactEngine, Mean, ReadModel, Site, Wrapped, spread
from losslens.engines.blackbox import BlackBox
from losslens.engines.readers import boosters, catboost, scikit
from losslens.engines.readers.ensemble import Ensemble
from losslens.engines.readers.explainable_boosting import read_explainable_boosting
from losslens.engines.readers.kernel_machines import read_product
from losslens.engines.readers.linear import read_linear, read_linked, read_statsmodels
from losslens.engines.readers.naive_bayes import read_naive_bayes
from losslens.engines.readers.pipelines import UnwrappedModel, has_steps, innermost, is_single, unwrap
from losslens.engines.readers.recognition import kind_of
from losslens.engines.readers.wrappers import mean_in, wrapped_in
from losslens.losses import Loss, Response
from losslens.models import Model, Responder, TorchModule, as_model
from losslens.progress import PREPARING, waiting
from losslens.tables.columns import Column
from losslens.tables.frames import Batch, Edit, Table
from losslens.typing import Floats, Indices, Mask

DIFFERENT = "predictions computed from the model's parameters differ from those of its predict function"
ROUNDED = "rounding errors of its predictions are large compared with how these vary; centre the target and the columns"
ROUNDED_IN_SINGLE = (
    "the model sums in single precision, and what it adds up is so far from 0 that digits are lost; centre the target "
    "and the columns"
)
SINGLE = "the model predicts in single precision, and its predictions are rounded; pass the table as float64"
ROUNDED_LOSSES = "rounding errors of its predictions change its losses by a share of"
FEWEST_IN_SINGLE = 8
FEW_IN_SINGLE = f"of fewer than {FEWEST_IN_SINGLE} rows too few pairs can be compared with a model in single precision"
CHECKED = 64  # rows on which the engine's predictions are compared with the model's
MOST_REPLACED = 64  # columns that take values of other rows there: replacing them one by one takes time in wide frames
# Relative to the spread of the predictions and to the mean loss, as SINGLE_TOLERANCE is. Never absolute: y in another
# unit must give the same decision. What is promised is 1e-9 of the mean losses, and 1e-5 (docs/engines.md).
TOLERANCE = 1e-10

Respond = Callable[[Any], NDArray[Any]]

# Fitted tree models as sums of trees, by class.
TREE_READERS: dict[str, Callable[[Model, Response], Ensemble | None]] = {
    **{f"sklearn.{name}": scikit.read_tree for name in scikit.TREES},
    **{f"sklearn.{name}": scikit.read_forest for name in scikit.FORESTS},
    **{f"sklearn.{name}": scikit.read_boosting for name in scikit.BOOSTING},
    **{f"sklearn.{name}": scikit.read_histogram_boosting for name in scikit.HISTOGRAM_BOOSTING},
    **{f"xgboost.{name}": boosters.read_xgboost for name in boosters.XGBOOST},
    **{f"lightgbm.{name}": boosters.read_lightgbm for name in boosters.LIGHTGBM},
    **{f"catboost.{name}": catboost.read_catboost for name in catboost.CATBOOST},
}

TREES_OF_OUTPUTS = {f"sklearn.{name}" for name in (*scikit.TREES, *scikit.FORESTS)}


def read_trees(model: Model, response: Response) -> Ensemble | None:
    """The model as a sum of trees that gives this response; None if it is not a tree model.

    Raises `Declined` if it is a tree model that can't be read exactly. The arrays may be views of the model's arrays.
    """
    kind = kind_of(model.native)
    reader = TREE_READERS.get(kind)
    if reader is None or response not in model.responses:
        return None
    if model.output is not None and kind not in TREES_OF_OUTPUTS:
        raise Declined(f"one of several outputs of {model.name} is not read")
    if response != "values" and model.classes is not None and len(model.classes) < 2:
        raise Declined("it was fitted to a single class")
    try:
        ensemble = reader(model, response)
    except (AttributeError, KeyError) as error:  # not fitted, or a version with another storage format
        library = kind.partition(".")[0]
        raise Declined(f"this version of {library} stores its trees in a format that losslens can't read") from error
    return ensemble


# Tried in this order; a reader returns None if it doesn't support the kind of estimator.
READERS: tuple[Callable[[Model, Response], ReadModel | None], ...] = (
    read_trees,
    read_explainable_boosting,
    lambda model, response: read_linear(model.native, response, model.output),
    lambda model, response: read_product(model.native, response, model.classes),
    lambda model, response: read_linked(model.native, response),
    lambda model, response: read_naive_bayes(model.native, response),
    lambda model, response: read_statsmodels(model.native, response),
)

READERS_OF_OUTPUTS = (READERS[0], READERS[2])  # those that read one of several outputs: trees and linear models


def choose_exact(
    model: Model, response: Response, respond: Respond, loss: Loss | None, site: Site
) -> tuple[ExactEngine | None, str]:
    """The exact engine for a model and a loss, or None and the reason."""
    try:
        read = read_model(model, response)
        read.check_loss(loss, response)
        with waiting(PREPARING, site.progress):
            unwrapped = unwrap(model.native, site.table)
            _check_columns(unwrapped, site.table)
            engine = read.engine(unwrapped, replace(site, respond=respond))
            check_predictions(engine, respond, site)
        return engine, ""
    except Declined as declined:
        return None, str(declined)


def read_model(model: Model, response: Response) -> ReadModel:
    """The parameters of the estimator, the last step of a pipeline; `Declined` if there is no reader for it."""
    read = _read(model, response)
    read.check_digits()
    return read


def _read(model: Model, response: Response) -> ReadModel:
    estimator = innermost(model.native)
    try:
        wrapped = wrapped_in(estimator, response)
        mean = mean_in(estimator, response) if wrapped is None else None
    except AttributeError as error:  # not fitted, or a version with other attribute names
        raise Declined(f"the fitted attributes of {type(estimator).__name__} can't be read: {error}") from error
    if model.output is not None and (wrapped is not None or mean is not None):
        raise Declined(f"one of several outputs of {type(estimator).__name__} is not read")
    if wrapped is not None:
        return _read_wrapped(wrapped)
    if mean is not None:
        return _read_mean(mean)
    inner = model
    if estimator is not model.native:
        inner = replace(as_model(estimator), classes=model.classes, output=model.output)
    for reader in READERS if model.output is None else READERS_OF_OUTPUTS:
        if (read := reader(inner, response)) is not None:
            return read
    raise Declined(f"losslens has no reader for the {response} of {inner.name}")


def _read_wrapped(wrapped: Wrapped) -> ReadModel:
    read = _read(as_model(wrapped.estimator), wrapped.response)
    return read if wrapped.after is None else read.then(wrapped)


def _read_mean(mean: Mean) -> ReadModel:
    if any(has_steps(member.model.estimator) for member in mean.members):
        raise Declined("it averages pipelines, each with steps of its own")
    parts = [_read_wrapped(member.model) for member in mean.members]
    if len({type(part) for part in parts}) > 1:
        raise Declined("it averages models of different kinds")
    return type(parts[0]).mean(parts, mean)


def _check_columns(unwrapped: UnwrappedModel, table: Table) -> None:
    names = getattr(unwrapped.estimator, "feature_names_in_", table.names)
    by_name = unwrapped.transform is None and table.backend != "numpy"
    if by_name and _plain(names) != _plain(table.names):
        raise Declined("the model was fitted on columns with other names or in another order")


def _plain(names: Any) -> list[str]:
    """Names as LightGBM stores them: with underscores instead of blanks."""
    return [str(name).replace(" ", "_") for name in names]


def check_predictions(engine: ExactEngine, respond: Respond, site: Site) -> None:
    """Compare the engine with the model on some rows; raise `Declined` if predictions or losses differ.

    Every second row holds odd values (`checked_rows`). The rows between them take values of requested columns from
    another row, since cells lie where no row of the table does: of one column, or of half of them.
    """
    n = site.table.n
    rows, covers, weight = checked_rows(engine, site, CHECKED)
    columns = sorted(site.requested)[:: len(site.requested) // MOST_REPLACED + 1]
    source = _replaced(rows, columns, len(site.table.names))
    edits = [Edit(0, len(rows), j, site.column(j), source[:, j]) for j in columns]
    expected = respond(Batch(site.table).fill(rows, edits))
    computed = engine.predict(source)
    if expected.shape != computed.shape:
        raise Declined(
            f"the model's predictions have shape {expected.shape}, but those computed from its parameters "
            f"{computed.shape}"
        )
    single = engine.in_single or is_single(expected)
    if single and not engine.adds_in_single:
        raise Declined(SINGLE)
    if single and engine.sums_losses and n < FEWEST_IN_SINGLE:
        raise Declined(FEW_IN_SINGLE)
    tolerance, rounded = (SINGLE_TOLERANCE, ROUNDED_IN_SINGLE) if single else (TOLERANCE, ROUNDED)
    gaps, largest = np.abs(np.subtract(expected, computed, dtype=np.float64)), float(np.abs(expected).max())
    # What cancels is rounded in proportion to itself: that is no other model, but is declined below.
    if not np.all(gaps <= tolerance * max(largest, engine.magnitude * max(1.0, largest) if single else 0.0)):
        raise Declined(DIFFERENT)
    # Predictions that are rounded alike have no gaps, but a closed form is not rounded.
    rounding = float(np.abs(expected[~covers]).max()) * float(np.finfo(np.float32 if single else np.float64).eps)
    gap = np.sqrt(np.average(np.mean(gaps.reshape(len(rows), -1) ** 2, axis=1), weights=weight))
    if not max(rounding, gap) <= tolerance * spread(expected, weight):
        raise Declined(rounded)
    if site.losses is not None:
        check = partial(_check_losses, partial(site.losses, rows), expected, computed, weight, tolerance, 4 * rounding)
        check(allow_rounding=engine.own_rounding and not single)  # of float32 that is more than is promised


def _replaced(rows: Indices, columns: Sequence[int], p: int) -> Indices:
    """The row from which each row takes the value of each column, (rows, p)."""
    m, rng = len(rows), np.random.default_rng(0)
    source = np.repeat(rows[:, None], p, axis=1)
    for position in range(1, m, 2):
        some = rng.permutation(columns)[: 1 if position % 4 == 1 else (len(columns) + 1) // 2]
        source[position, some] = rows[(position + rng.integers(1, m)) % m]
    return source


def _check_losses(
    losses: Callable[[NDArray[Any]], Floats], by_model: Any, by_engine: Any, weight: Floats, tolerance: float,
    moved: float, *, allow_rounding: bool = False,
) -> None:  # fmt: skip
    """Raise `Declined` unless the engine's losses are the model's, on average, relative to the mean loss.

    The losses of a perfect model are rounding errors themselves, which another order of summation does not share. Such
    a model shows in what predictions that are `moved` this little, both ways, add to the loss: more than the losses
    differ, but nothing compared with the losses of other predictions. allow_rounding: the losses may differ by what
    such a move changes (`ExactEngine.own_rounding`).
    """

    def mean(values: Floats) -> float:
        return float(weight[defined] @ values[defined])

    try:
        with np.errstate(all="ignore"):
            expected, computed = losses(by_model), losses(by_engine)
            defined = np.isfinite(expected)  # a deviance is not, of a prediction below 0
            gap = mean(np.abs(computed - expected))
            if gap <= tolerance * mean(np.abs(expected)):
                return
            both_ways = (
                [losses(by_model + moved), losses(by_model - moved)] if by_model.dtype.kind == "f" else [expected] * 2
            )
            if allow_rounding and gap <= mean(np.max(np.abs(np.subtract(both_ways, expected)), axis=0)):
                return
            added = mean(sum(both_ways) / 2 - expected)
            if gap <= added <= tolerance * mean(losses(np.roll(by_model, 1, axis=0))):
                return
    except Exception as error:  # the user's function: of rows that the black box may never ask for
        raise Declined(f"the loss can't be evaluated on rows with replaced values ({error})") from error
    raise Declined(f"{ROUNDED_LOSSES} more than {tolerance:g}")


BATCH = 10_000  # rows per call of the model
# Parts of class names, and rows if a call has a large fixed cost: threads for each tree, input checks.
LARGE_BATCHES = {"Forest": 120_000, "ExtraTrees": 120_000, "HistGradientBoosting": 50_000} | dict.fromkeys(
    ("Bagging", "Linear", "Ridge", "Lasso", "ElasticNet"), 30_000
)


def choose(native: Any, respond: Callable[[Any], Any], table: Table, memory: int, n_jobs: int | None) -> BlackBox:
    """The engine for every model: the black box, or for a torch module its version on the module's device."""
    rows = batch_rows(native, table, memory)
    if isinstance(respond, Responder) and isinstance(respond.predict, TorchModule):
        from losslens.engines.gpu.modules import Modules

        return Modules.of(table, respond, rows)
    return BlackBox(table, respond, rows, n_jobs)


def batch_rows(native: Any, table: Table, memory: int) -> int:
    """Rows per call, derived from counts so that the same data give the same batches on every machine."""
    last = native.steps[-1][1] if hasattr(native, "steps") else native
    last = getattr(last, "best_estimator_", last)
    usual = next((rows for word, rows in LARGE_BATCHES.items() if word in type(last).__name__), BATCH)
    # An eighth of the memory holds a batch, the model's temporary arrays and the predictions: four times the batch.
    fits = memory // (32 * (table.row_bytes + 64))
    fewest = min(64, table.n)
    if fits < fewest:
        raise ValueError(
            f"memory={memory} bytes is too small for batches of {fewest} rows of this table: "
            f"set it to at least {32 * fewest * (table.row_bytes + 64)} bytes"
        )
    return int(min(usual, fits))


COVERED_COLUMNS = 64  # whose values are looked at, those first that the model uses most
RARE_VALUES = 8  # of a column, besides its extremes and missing values
SOME_ROWS = 1 << 12  # among which extremes are searched, where the engine does not sort columns


def checked_rows(engine: ExactEngine, site: Site, count: int) -> tuple[Indices, Mask, Floats]:
    """So many rows, which of them cover odd values, and their weights.

    As long as there are odd values, every second row covers some, and stands for itself; the others lie at equal
    distances, and stand for the rest. Rows of weight 0 are left out: no mean depends on them.
    """
    n, of_rows = site.table.n, site.weight
    counted = np.arange(n) if of_rows is None else np.flatnonzero(of_rows)
    covering = np.empty(0, np.intp)
    if len(counted) > count:
        search = _covering_rows if engine.sorts_values else _extreme_rows
        columns = [site.column(j) for j in _columns(engine, site)]
        covering = search(columns, None if len(counted) == n else counted, count // 2)
    covers = np.zeros(min(n, count), np.bool_)
    covers[: 2 * len(covering) : 2] = True
    spread = counted[np.linspace(0, len(counted) - 1, len(covers) - len(covering)).astype(np.intp)]
    rows = np.empty(len(covers), np.intp)
    rows[covers], rows[~covers] = covering, spread
    weight = np.where(covers, 1.0, (len(counted) - len(covering)) / len(spread))
    return rows, covers, weight if of_rows is None else weight * of_rows[rows]


def _covering_rows(columns: Sequence[Column], counted: Indices | None, most: int) -> Indices:
    """Rows that hold as many odd values as possible: greedily, extremes and missing values before rare ones."""
    odd = sorted((turn, k, row) for k, column in enumerate(columns) for turn, row in _odd_values(column, counted, most))
    rows, places = np.unique([row for _, _, row in odd], return_inverse=True)
    codes = np.zeros((len(rows), len(columns)), np.intp)
    uncovered = np.zeros(codes.shape, np.bool_)  # of each row, the odd values that no chosen row holds
    for k, column in enumerate(columns):
        codes[:, k] = column.distinct.codes[rows]
        own = [place for place, (_, number, _) in zip(places.tolist(), odd, strict=True) if number == k]
        uncovered[:, k] = np.isin(codes[:, k], codes[own, k])
    chosen: list[int] = []
    for place, (_, k, _) in zip(places.tolist(), odd, strict=True):
        if uncovered[place, k] and len(chosen) < most:
            holding = np.flatnonzero(codes[:, k] == codes[place, k])
            best = holding[uncovered[holding].sum(axis=1).argmax()]
            uncovered &= codes != codes[best]
            chosen.append(int(rows[best]))
    return np.array(chosen, np.intp)


def _columns(engine: ExactEngine, site: Site) -> list[int]:
    """The columns that are looked at, those first that the model uses most."""
    requested, uses = np.array(sorted(site.requested), np.intp), engine.uses
    if uses is None:
        return list(requested[:COVERED_COLUMNS])
    columns = np.union1d(requested, np.flatnonzero(uses))
    return list(columns[np.argsort(-uses[columns], kind="stable")[:COVERED_COLUMNS]])


def _odd_values(column: Column, counted: Indices | None, most: int) -> Iterator[tuple[int, int]]:
    """The turn of each odd value, and a row that holds it: missing values and extremes at turn 0, then the rarest."""
    distinct, codes = column.distinct, column.distinct.codes
    present, first = np.arange(len(distinct)), distinct.first
    if counted is not None:
        codes = codes[counted]
        present, first = np.unique(codes, return_index=True)
        first = counted[first]
    last = int(np.searchsorted(present, distinct.present))
    for k in {*range(last, len(present)), 0, max(last - 1, 0)}:
        yield 0, int(first[k])
    if 4 * len(present) <= len(codes):  # else every value is about as rare as the others
        number = np.bincount(codes, minlength=len(distinct))[present[:last]]
        rare = np.flatnonzero(number * most <= len(codes))  # at equal distances less than one row has them
        for turn, k in enumerate(rare[np.argsort(number[rare], kind="stable")[:RARE_VALUES]].tolist()):
            yield 1 + turn, int(first[k])


def _extreme_rows(columns: Sequence[Column], counted: Indices | None, most: int) -> Indices:
    """Rows with extremes of numbers, or with a missing one, among some rows of columns that are not sorted yet."""
    chosen: dict[int, None] = {}
    for array in (column.array for column in columns if column.array.dtype.kind in "biuf"):
        if len(chosen) < most:
            step = (len(array) if counted is None else len(counted)) // SOME_ROWS + 1
            some = array[::step] if counted is None else array[counted[::step]]
            ends = (step * int(some.argmin()), step * int(some.argmax()))
            chosen |= dict.fromkeys(ends if counted is None else counted[list(ends)].tolist())
    return np.array([*chosen][:most], np.intp)
