"""The one place that picks an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from losslens.engines.additive import Additive, judges
from losslens.engines.base import Engine
from losslens.engines.blackbox import BlackBox
from losslens.engines.exact import Respond, Site, find
from losslens.losses import Loss, Response
from losslens.models import Model, Responder, TorchModule
from losslens.tables import Table

BATCH = 10_000
LARGE_BATCH = 30_000  # where a call costs much beside the rows: trees sent to a pool, checks before one product
LARGE = ("Forest", "ExtraTrees", "Bagging", "HistGradientBoosting", "Linear", "Ridge", "Lasso", "ElasticNet")


def choose_exact(model: Model, response: Response, respond: Respond, loss: Loss | None, site: Site) -> tuple[Any, str]:
    """An exact engine for this model and loss, or None and why."""
    engine, declined = find(model, response, respond, site)
    if isinstance(engine, Additive) and not judges(loss, response):
        return None, "of an additive model the squared, absolute, pinball and hinge losses have a closed form"
    return engine, declined


def choose(native: Any, respond: Callable[[Any], Any], table: Table, memory: int, n_jobs: int | None) -> Engine:
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
