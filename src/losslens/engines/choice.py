"""The choice of an engine: an exact one if the model is supported, otherwise the black box.

A new exact engine needs a module or folder of its own, and a reader in `READERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines import readers
from losslens.engines.base import Declined, ExactEngine, ReadModel, Site
from losslens.engines.blackbox import BlackBox
from losslens.engines.readers.kernel_machines import read_product
from losslens.engines.readers.linear import read_linear
from losslens.engines.readers.pipelines import innermost, unwrap
from losslens.engines.readers.unwrapped import UnwrappedModel
from losslens.losses import Loss, Response
from losslens.models import Model, Responder, TorchModule, as_model
from losslens.progress import PREPARING, waiting
from losslens.tables.frames import Batch, Table

DIFFERENT = "predictions computed from the model's parameters differ from those of its predict function"
CHECKED = 64  # rows on which the engine's predictions are compared with the model's
# Tolerances, relative to the largest prediction; the second for trees summed in float32 (XGBoost).
TOLERANCE, SINGLE_TOLERANCE = 1e-9, 1e-5

Respond = Callable[[Any], NDArray[Any]]

# Tried in this order; a reader returns None if it doesn't support the kind of estimator.
READERS: tuple[Callable[[Model, Response], ReadModel | None], ...] = (
    readers.read,
    lambda model, response: read_linear(model.native, response),
    lambda model, response: read_product(model.native, response, model.classes),
)


def choose_exact(
    model: Model, response: Response, respond: Respond, loss: Loss | None, site: Site
) -> tuple[ExactEngine | None, str]:
    """The exact engine for a model and a loss, or None and the reason (empty if the kind of model is not supported)."""
    try:
        read = read_model(model, response)
        if read is None:
            return None, ""
        read.check_loss(loss, response)
        with waiting(PREPARING, site.progress):
            unwrapped = unwrap(model.native, site.table)
            _check_columns(unwrapped, site.table)
            engine = read.engine(unwrapped, site)
            _check(engine, respond, site)
        return engine, ""
    except Declined as declined:
        return None, str(declined)


def read_model(model: Model, response: Response) -> ReadModel | None:
    """The parameters of the estimator, the last step of a pipeline; None if its kind is not supported."""
    estimator = innermost(model.native)
    if estimator is None:
        return None
    inner = model if estimator is model.native else replace(as_model(estimator), classes=model.classes)
    return next((read for reader in READERS if (read := reader(inner, response)) is not None), None)


def _check_columns(unwrapped: UnwrappedModel, table: Table) -> None:
    names = getattr(unwrapped.estimator, "feature_names_in_", table.names)
    by_name = unwrapped.transform is None and table.backend != "numpy"
    if by_name and _plain(names) != _plain(table.names):
        raise Declined("the model was fitted on columns with other names or in another order")


def _plain(names: Any) -> list[str]:
    """Names as LightGBM stores them: with underscores instead of blanks."""
    return [str(name).replace(" ", "_") for name in names]


def agrees(predictions: NDArray[Any], respond: Respond, table: Table) -> None:
    """Raise `Declined` if an engine's predictions of the table differ from the model's own; some rows are checked."""
    rows = np.unique(np.linspace(0, table.n - 1, CHECKED).astype(np.intp))
    own, mine = respond(Batch(table).fill(rows, [])), predictions[rows]
    if own.shape != mine.shape or not np.all(np.abs(own - mine) <= TOLERANCE * max(1.0, np.abs(own).max())):
        raise Declined(DIFFERENT)


def _check(engine: ExactEngine, respond: Respond, site: Site) -> None:
    """Compare predictions of some rows with the model's own; raise `Declined` if they differ."""
    table = site.table
    rows = np.unique(np.linspace(0, table.n - 1, CHECKED).astype(np.intp))
    own, mine = respond(Batch(table).fill(rows, [])), engine.predict(rows)
    if own.shape != mine.shape:
        raise Declined(
            f"the model's predictions have shape {own.shape}, but those computed from its parameters {mine.shape}"
        )
    single = own.dtype == np.float32 and engine.adds_in_single
    tolerance = (SINGLE_TOLERANCE if single else TOLERANCE) * max(1.0, float(np.abs(own).max()))
    if not np.all(np.abs(own - mine) <= tolerance):
        raise Declined(DIFFERENT)
    if single and site.error is not None:
        # The effect of the differences on a squared loss; empirically about the largest error of a PI curve.
        difference = np.sqrt(np.mean((own.astype(float) - mine) ** 2))
        if difference * float(own.std()) > SINGLE_TOLERANCE * max(1.0, site.error(rows, own)):
            raise Declined(
                "the model sums in single precision, and its predictions are so far from 0 that digits are lost; "
                "centre the target"
            )


BATCH = 10_000  # rows per call of the model
LARGE_BATCH = 30_000  # if a call has a large fixed cost: starting a thread pool, input checks
# Parts of the class names of such models.
LARGE = ("Forest", "ExtraTrees", "Bagging", "HistGradientBoosting", "Linear", "Ridge", "Lasso", "ElasticNet")


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
    wanted = LARGE_BATCH if any(word in type(last).__name__ for word in LARGE) else BATCH
    # An eighth of the memory holds a batch, the model's temporary arrays and the predictions: four times the batch.
    fits = memory // (32 * (table.row_bytes + 64))
    fewest = min(64, table.n)
    if fits < fewest:
        raise ValueError(
            f"memory={memory} bytes is too small for batches of {fewest} rows of this table: "
            f"set it to at least {32 * fewest * (table.row_bytes + 64)} bytes"
        )
    return int(min(wanted, fits))
