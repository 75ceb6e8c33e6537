"""The choice of an engine: an exact one if the model is supported, otherwise the black box.

A new exact engine needs a module or folder of its own, and a reader in `READERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines import readers
from losslens.engines.base import SINGLE_TOLERANCE, Declined, ExactEngine, Mean, ReadModel, Site, Wrapped, spread
from losslens.engines.blackbox import BlackBox
from losslens.engines.checked_rows import checked_rows
from losslens.engines.readers.explainable_boosting import read_explainable_boosting
from losslens.engines.readers.kernel_machines import read_product
from losslens.engines.readers.linear import read_linear, read_linked
from losslens.engines.readers.naive_bayes import read_naive_bayes
from losslens.engines.readers.pipelines import has_steps, innermost, unwrap
from losslens.engines.readers.results_of_statsmodels import read_statsmodels
from losslens.engines.readers.unwrapped import UnwrappedModel, is_single
from losslens.engines.readers.wrappers import mean_in, wrapped_in
from losslens.losses import Loss, Response
from losslens.models import Model, Responder, TorchModule, as_model
from losslens.progress import PREPARING, waiting
from losslens.tables.frames import Batch, Edit, Table
from losslens.typing import Floats, Indices

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

# Tried in this order; a reader returns None if it doesn't support the kind of estimator.
READERS: tuple[Callable[[Model, Response], ReadModel | None], ...] = (
    readers.read,
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
