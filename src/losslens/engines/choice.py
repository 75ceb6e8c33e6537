"""The one place that picks an engine: an exact one that knows the model, or else the black box.

A new exact engine is a folder, and a line in `READERS`.
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

CHECKED = 64  # rows on which an engine has to say what the model says
SLACK, SINGLE_SLACK = 1e-9, 1e-5  # of the largest prediction; trees that add up in float32: XGBoost

Respond = Callable[[Any], NDArray[Any]]

# The first that knows the estimator reads it; None: it is of another kind.
READERS: tuple[Callable[[Model, Response], ReadModel | None], ...] = (
    readers.read,
    lambda model, response: read_linear(model.native, response),
    lambda model, response: read_product(model.native, response, model.classes),
)


def choose_exact(
    model: Model, response: Response, respond: Respond, loss: Loss | None, site: Site
) -> tuple[ExactEngine | None, str]:
    """The exact engine for a model and a loss, or None and, where the kind of model is known, why."""
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
    """The estimator at the end of a pipeline as numbers."""
    estimator = innermost(model.native)
    if estimator is None:
        return None
    inner = model if estimator is model.native else replace(as_model(estimator), classes=model.classes)
    return next((read for reader in READERS if (read := reader(inner, response)) is not None), None)


def _check_columns(unwrapped: UnwrappedModel, table: Table) -> None:
    names = getattr(unwrapped.estimator, "feature_names_in_", table.names)
    by_name = unwrapped.transform is None and table.backend != "numpy"
    if by_name and _plain(names) != _plain(table.names):
        raise Declined("it was fitted with other columns, or in another order")


def _plain(names: Any) -> list[str]:
    """Names as LightGBM writes them: without blanks."""
    return [str(name).replace(" ", "_") for name in names]


def agrees(said: NDArray[Any], respond: Respond, table: Table) -> None:
    """Decline where predictions of a table's rows, read off the model, are not the model's own."""
    rows = np.unique(np.linspace(0, table.n - 1, CHECKED).astype(np.intp))
    own = respond(Batch(table).fill(rows, []))
    if own.shape != said[rows].shape or not np.all(np.abs(own - said[rows]) <= SLACK * max(1.0, np.abs(own).max())):
        raise Declined("some of its predictions differ from what was read from it")


def _check(engine: ExactEngine, respond: Respond, site: Site) -> None:
    """Some rows are asked of the model itself: an engine that disagrees has misread it."""
    table = site.table
    rows = np.unique(np.linspace(0, table.n - 1, CHECKED).astype(np.intp))
    said, mine = respond(Batch(table).fill(rows, [])), engine.predict(rows)
    if said.shape != mine.shape:
        raise Declined("its predictions have another shape than was read from it")
    single = said.dtype == np.float32 and engine.adds_in_single
    slack = (SINGLE_SLACK if single else SLACK) * max(1.0, float(np.abs(said).max()))
    if not np.all(np.abs(said - mine) <= slack):
        raise Declined("some of its predictions differ from what was read from it")
    if single and site.error is not None:
        # What a squared loss makes of the gaps; measured, it is about the largest error of a PI curve.
        gap = np.sqrt(np.mean((said.astype(float) - mine) ** 2))
        if gap * float(said.std()) > SINGLE_SLACK * max(1.0, site.error(rows, said)):
            raise Declined("it adds up in single precision, so far from 0 that digits are lost; centre the target")


BATCH = 10_000
LARGE_BATCH = 30_000  # where a call costs much beside the rows: trees sent to a pool, checks before one product
LARGE = ("Forest", "ExtraTrees", "Bagging", "HistGradientBoosting", "Linear", "Ridge", "Lasso", "ElasticNet")


def choose(native: Any, respond: Callable[[Any], Any], table: Table, memory: int, n_jobs: int | None) -> BlackBox:
    """The engine that serves every model: the black box; of a torch module, on the device that it lives on."""
    rows = batch_rows(native, table, memory)
    if isinstance(respond, Responder) and isinstance(respond.predict, TorchModule):
        from losslens.engines.gpu.modules import Modules

        return Modules.of(table, respond, rows)
    return BlackBox(table, respond, rows, n_jobs)


def batch_rows(native: Any, table: Table, memory: int) -> int:
    """Rows a call: a count rule, so that the same data give the same batches on every machine."""
    last = native.steps[-1][1] if hasattr(native, "steps") else native
    last = getattr(last, "best_estimator_", last)
    wanted = LARGE_BATCH if any(word in type(last).__name__ for word in LARGE) else BATCH
    # A batch, what the model makes of it, and its predictions: an eighth of the memory, four times over.
    fits = memory // (32 * (table.row_bytes + 64))
    fewest = min(64, table.n)
    if fits < fewest:
        raise ValueError(
            f"memory={memory} bytes is too small: a batch of {fewest} rows of this table takes "
            f"{32 * fewest * (table.row_bytes + 64)} bytes with what the model makes of it"
        )
    return int(min(wanted, fits))
