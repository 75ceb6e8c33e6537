"""Which exact engine knows a model: trees, sums, products. What none can answer as the model would is declined.

The one place that picks an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Ask
from losslens.engines import readers
from losslens.engines.additive import Additive, judges
from losslens.engines.blackbox import BlackBox
from losslens.engines.kernel_machines import ProductForm, Products
from losslens.engines.readers.ensemble import Declined, Ensemble
from losslens.engines.readers.kernel_machines import read_product
from losslens.engines.readers.linear import Linear, read_linear
from losslens.engines.readers.pipelines import CHUNK, Image, Peeled, as_numbers, innermost, peel
from losslens.losses import Loss, Response
from losslens.models import Model, Responder, TorchModule, as_model
from losslens.progress import PREPARING, waiting
from losslens.tables.columns import Column, Distinct
from losslens.tables.frames import Batch, Table
from losslens.typing import Floats, Indices

if TYPE_CHECKING:
    from losslens.engines.trees.engine import Trees

CHECKED = 64  # rows on which an engine has to say what the model says
SLACK, SINGLE_SLACK = 1e-9, 1e-5  # of the largest prediction; trees that add up in float32: XGBoost

Respond = Callable[[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Site:
    """What an engine is built on: the table, its columns, and the columns that are asked for."""

    table: Table
    column: Callable[[int], Column]
    asked: frozenset[int]
    memory: int
    n_jobs: int | None
    progress: bool | None
    error: Callable[[Indices, NDArray[Any]], float] | None = None  # the mean loss of some rows, given their predictions
    device: str | None = None  # where trees are counted


def find(model: Model, response: Response, respond: Respond, site: Site) -> tuple[Any, str]:
    """The exact engine of a model, or None and, where its kind is known, why."""
    try:
        read = read_parts(model, response)
        if read is None:
            return None, ""
        with waiting(PREPARING, site.progress):
            engine = _build(read, peel(model.native, site.table), site)
            _check(engine, respond, site)
        return engine, ""
    except Declined as declined:
        return None, str(declined)


def read_parts(model: Model, response: Response) -> Ensemble | Linear | ProductForm | None:
    """The estimator at the end of a pipeline as numbers."""
    estimator = innermost(model.native)
    if estimator is None:
        return None
    inner = model if estimator is model.native else replace(as_model(estimator), classes=model.classes)
    return (
        readers.read(inner, response)
        or read_linear(estimator, response)
        or read_product(estimator, response, model.classes)
    )


def _build(read: Ensemble | Linear | ProductForm, peeled: Peeled, site: Site) -> Any:
    names = getattr(peeled.estimator, "feature_names_in_", site.table.names)
    by_name = peeled.transform is None and site.table.backend != "numpy"
    if by_name and _plain(names) != _plain(site.table.names):
        raise Declined("it was fitted with other columns, or in another order")
    if isinstance(read, Ensemble):
        return _trees(read, peeled, site)
    if isinstance(read, Linear):
        return additive(read, peeled, site)
    return Products(
        read, _matrix(peeled, site), lambda ask: _image(peeled, site.table, ask), site.memory // 8, site.n_jobs
    )


def _plain(names: Any) -> list[str]:
    """Names as LightGBM writes them: without blanks."""
    return [str(name).replace(" ", "_") for name in names]


def _trees(ensemble: Ensemble, peeled: Peeled, site: Site) -> Trees:
    from losslens.engines import step_sums  # noqa: F401 - compiled now, while the user is told so
    from losslens.engines.trees.bound import bind
    from losslens.engines.trees.engine import Trees

    used = np.unique(ensemble.feature[ensemble.feature >= 0])
    if len(used) and used[-1] >= len(peeled.source):
        raise Declined("its trees ask for a column that the table doesn't have")
    needed = site.asked | {int(peeled.source[c]) for c in used}
    nothing = Distinct(np.zeros(1), np.zeros(site.table.n, np.intp), np.zeros(1, np.intp), ordered=True)
    distinct = [site.column(j).distinct if j in needed else nothing for j in range(len(site.table.names))]
    bound = bind(ensemble, distinct, tree_images(ensemble, peeled, site, needed, distinct))
    return Trees(bound, site.memory // 8, site.device)


def tree_images(
    ensemble: Ensemble,
    peeled: Peeled,
    site: Site,
    needed: frozenset[int] | set[int],
    distinct: Sequence[Distinct] | Mapping[int, Distinct],
) -> Mapping[int, Image]:
    """The numbers that trees compare, at the distinct values of each column."""
    used = set(np.unique(ensemble.feature).tolist())
    if peeled.transform is None:
        of = {j: ensemble.numbers(j, distinct[j].values) for j in needed if j in used}
        return {j: (np.array([j]), numbers[:, None]) for j, numbers in of.items()}
    found = peeled.images(site.table, {j: (site.column(j), distinct[j].first) for j in needed})
    return {
        j: (at, np.stack([ensemble.numbers(int(c), values[:, k]) for k, c in enumerate(at)], axis=1))
        for j, (at, values) in found.items()
        if len(at)
    }


def additive(linear: Linear, peeled: Peeled, site: Site) -> Additive:
    """A linear model on the columns of a table."""
    if len(linear.coef) != len(peeled.source):
        raise Declined("it was fitted on another number of columns")
    if peeled.transform is None:
        return Additive(_matrix(peeled, site), linear.coef, linear.intercept)
    # What the columns made of one column add together.
    p = len(site.table.names)
    spread = np.zeros((len(linear.coef), p))
    spread[np.arange(len(linear.coef)), peeled.source] = linear.coef
    parts = np.concatenate([np.asarray(part @ spread) for part in _transformed(peeled, site.table)])
    return Additive(parts, np.ones(p), linear.intercept)


def _matrix(peeled: Peeled, site: Site) -> Floats:
    """What the estimator sees of the whole table."""
    if peeled.transform is not None:
        parts = [part.toarray() if hasattr(part, "toarray") else part for part in _transformed(peeled, site.table)]
        return np.concatenate(parts).astype(np.float64, copy=False)
    whole = Batch(site.table).source
    if whole is not None:
        return np.asarray(whole, np.float64)
    return np.stack([as_numbers(site.column(j).array) for j in range(len(site.table.names))], axis=1)


def _transformed(peeled: Peeled, table: Table) -> Iterator[Any]:
    batch = Batch(table)
    for start in range(0, table.n, CHUNK):
        assert peeled.transform is not None  # the callers have asked
        part = peeled.transform(batch.fill(np.arange(start, min(start + CHUNK, table.n)), []))
        yield part.tocsr() if hasattr(part, "tocsr") else as_numbers(np.asarray(part))


def _image(peeled: Peeled, table: Table, ask: Ask) -> Image:
    """What the values of an ask put into the estimator's columns."""
    found = [
        peeled.image(table, j, index, source)
        for j, source, index in zip(ask.columns, ask.sources, ask.index, strict=True)
    ]
    return np.concatenate([at for at, _ in found]), np.concatenate([values for _, values in found], axis=1)


def agrees(said: NDArray[Any], respond: Respond, table: Table) -> None:
    """Decline where predictions of a table's rows, read off the model, are not the model's own."""
    rows = np.unique(np.linspace(0, table.n - 1, CHECKED).astype(np.intp))
    own = respond(Batch(table).fill(rows, []))
    if own.shape != said[rows].shape or not np.all(np.abs(own - said[rows]) <= SLACK * max(1.0, np.abs(own).max())):
        raise Declined("some of its predictions differ from what was read from it")


def _check(engine: Any, respond: Respond, site: Site) -> None:
    """Some rows are asked of the model itself: an engine that disagrees has misread it."""
    table = site.table
    rows = np.unique(np.linspace(0, table.n - 1, CHECKED).astype(np.intp))
    said, mine = respond(Batch(table).fill(rows, [])), engine.predict(rows)
    if said.shape != mine.shape:
        raise Declined("its predictions have another shape than was read from it")
    single = said.dtype == np.float32 and engine.name == "trees"
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


def choose_exact(model: Model, response: Response, respond: Respond, loss: Loss | None, site: Site) -> tuple[Any, str]:
    """An exact engine for this model and loss, or None and why."""
    engine, declined = find(model, response, respond, site)
    if isinstance(engine, Additive) and not judges(loss, response):
        return None, "of an additive model the squared, absolute, pinball and hinge losses have a closed form"
    return engine, declined


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
