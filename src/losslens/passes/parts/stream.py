"""A checked call on data larger than memory: model, design, parts, and the model as an exact engine reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.donors.designs import Design
from losslens.donors.designs import resolve as resolve_design
from losslens.donors.questions import Subjects
from losslens.engines.base import Declined, ReadModel, Site
from losslens.engines.choice import read_model
from losslens.engines.readers.pipelines import UnwrappedModel, unwrap
from losslens.losses import Loss, Response
from losslens.models import Model
from losslens.passes.parts.reading import Data, Job, cut_into_jobs
from losslens.passes.task import Options, classes_of_function
from losslens.tables.features import Feature
from losslens.tables.features import resolve as resolve_features
from losslens.tables.frames import Table, as_columns, frame_table
from losslens.tables.loading import HEAD, Opened
from losslens.workers import Workers, choose_workers

FEWEST_ROWS = 1000  # of a part, however small the memory limit
QUANTILE_PARTS = 20  # most parts from which the quantiles of a column are estimated


@dataclass(frozen=True, eq=False)
class Stream:
    """A checked call on data larger than memory."""

    model: Model
    response: Response
    loss: Loss | None
    features: tuple[Feature, ...]
    design: Design | None  # None: "auto"
    data: Data
    jobs: list[Job]
    head: Table  # the first rows, as the model sees them
    n: int
    memory: int
    entropy: int
    workers: Workers
    progress: bool | None
    read: Any  # the model as numbers (`ReadModel`), for the engine of its kind; None without one
    unwrapped: UnwrappedModel | None
    declined: str  # why `read` is None

    @property
    def feature_columns(self) -> tuple[int, ...]:
        """The columns of the features, ascending."""
        return tuple(sorted({j for feature in self.features for j in feature.columns}))

    @property
    def spread_rows(self) -> list[Table]:
        """A few rows of parts all over the data: the first rows of sorted files hold only the smallest values."""
        parts = [part for job in self.jobs for part in job.parts]
        chosen = [parts[k] for k in np.unique(np.linspace(0, len(parts) - 1, QUANTILE_PARTS).astype(np.intp))]
        some = [replace(part, rows=min(part.rows, HEAD // len(chosen))) for part in chosen]
        columns = self.data.columns
        tables = (frame_table(next(self.data.reader.each([part], columns))) for part in some)
        return [as_columns(table, columns, None, as_array=self.data.as_array) for table in tables]

    def site(self, table: Table) -> Site:
        """The site of an engine on some rows."""
        columns = frozenset(self.feature_columns)
        return Site(table, Subjects(table).column, columns, self.memory, None, self.progress)

    @property
    def model_info(self) -> Model:
        """Name and classes of the model, which workers need to read y, without the model itself, which is large."""
        return replace(self.model, native=None, responses={})


def prepare(
    model: Model, opened: Opened, loss: Loss | None, response: Response, options: Options, *, for_games: bool = False
) -> Stream:
    """Check every argument; an error says which one is wrong and what to do. for_games: of Shapley importances."""
    if response == "outputs":
        raise ValueError(
            f"{'several outputs' if loss is None else loss.title}: data that are read in parts have one y and one "
            "prediction a row; pass a sample of the rows"
        )
    if options.groups is not None:
        raise ValueError("groups= needs all rows in memory; leave it out for data that are read in parts")
    if loss is not None and opened.target is None and opened.y is None:
        raise ValueError("y, the true values, is missing; for curves of predictions use feature_effect")
    design = resolve_design(options.donors)
    head = as_columns(_counting(opened), opened.columns, None, as_array=opened.as_array)
    features = resolve_features(options.features, opened.columns, by_position=False)
    read, unwrapped, declined = None, None, _not_counted(design, features)
    if not declined:
        read, unwrapped, declined = _read(model, response, loss, head, for_games)
    most = max(FEWEST_ROWS, options.memory // (16 * (opened.head.row_bytes + 64)))
    source = opened.source.cut(most)
    data = Data(source.reader, opened.columns, opened.target, opened.weight, opened.as_array)
    return Stream(
        model=model, response=response, loss=loss, features=features, design=design, data=data,
        jobs=cut_into_jobs(source, opened.y), head=head, n=opened.n, memory=options.memory,
        entropy=options.random_state, workers=choose_workers(options.n_jobs), progress=options.progress,
        read=read, unwrapped=unwrapped, declined=declined,
    )  # fmt: skip


def _not_counted(design: Design | None, features: Sequence[Feature]) -> str:
    """Why counts of the donors' values don't do, whatever the model; empty if they do."""
    if design is not None and (not design.all_pairs or design.leaves_out_own):
        return f"data in parts are read for all pairs of rows, not those of {design.remembered!r}"
    several = [feature.name for feature in features if len(feature.columns) > 1]
    return f"data in parts are read for single columns, not for {several[0]!r}" if several else ""


def _counting(opened: Opened) -> Table:
    """The first rows, without those of weight 0: engines are checked on them."""
    if opened.weight is None:
        return opened.head
    weight = opened.head.column(opened.head.names.index(opened.weight)).array
    rows = np.flatnonzero(weight > 0 if weight.dtype.kind in "biuf" else 0)
    return opened.head.at(rows) if len(rows) > 1 else opened.head


def _read(
    model: Model, response: Response, loss: Loss | None, head: Table, for_games: bool
) -> tuple[ReadModel | None, UnwrappedModel | None, str]:
    """The model as numbers, if an exact engine can read it in parts, or why not."""
    try:
        read = read_model(model, response)
        if not for_games:
            read.check_parts(loss)
        elif loss is None or read.slope(loss) is None:
            raise Declined("its Shapley importances are not covariances")
        return read, unwrap(model.native, head), ""
    except Declined as declined:
        return None, None, str(declined)


def classes_of(stream: Stream, labels: NDArray[Any] | None) -> NDArray[Any] | None:
    """The classes, from the model or else from y; None for numbers."""
    if stream.response == "values":
        return None
    if stream.model.classes is not None:
        return stream.model.classes
    if labels is None:
        return None
    if stream.response == "labels":
        return labels
    return classes_of_function(stream.model.responder(stream.response), stream.head, labels)


def wants_labels(stream: Stream) -> bool:
    """Whether the classes have to be collected from y, as the model has none."""
    return stream.loss is not None and stream.response != "values" and stream.model.classes is None
