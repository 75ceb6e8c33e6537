"""What a pass over the rows takes and returns: a `Task`, the checked call of a verb on a table, and an `Outcome`.

`Options` are the arguments that all verbs share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import signature
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Cells, Means
from losslens.donors.conditional import Conditioning, bound
from losslens.donors.designs import Design
from losslens.donors.designs import resolve as resolve_design
from losslens.donors.layout import Layout
from losslens.donors.questions import Question, Subject, Subjects, all_rows
from losslens.engines.base import PlayerGames, Site
from losslens.engines.blackbox import UNSTEADY, BlackBox
from losslens.engines.choice import choose, choose_exact
from losslens.losses import (
    Loss,
    OutputsLoss,
    Response,
    SurvivalLoss,
    brier_survival,
    call_read_only,
    for_outputs,
)
from losslens.losses import resolve as resolve_loss
from losslens.models import Model, Responder, as_model, has_survival_curves, one_output
from losslens.passes.allowance import Limits
from losslens.passes.memory import Budget
from losslens.tables import checks, loading
from losslens.tables.column_scores import CodedRows
from losslens.tables.columns import is_missing
from losslens.tables.features import Feature
from losslens.tables.features import resolve as resolve_features
from losslens.tables.frames import Batch, Edit, Table, as_table
from losslens.tables.frozen import Deferred, deferred
from losslens.tables.sample import Sample, copy_columns, spread_rows
from losslens.tables.sources import as_source
from losslens.typing import Floats, Indices
from losslens.uncertainty.cautions import few_groups
from losslens.workers import warn_once

FeatureDesign = tuple[Subject, Design]  # a feature and the design of its donors
Kind = TypeVar("Kind")
PROBED = 64  # rows that a function predicts first, to see how many classes it has
SEVERAL_OUTPUTS = "this loss reads several outputs at once"


@dataclass(frozen=True, eq=False, kw_only=True)
class Options:
    """What is replaced, the donors, weights and groups of rows, and how to run; documented in `feature_importance`.

    Features, donors, weights and groups are checked later, against the table. A copy made by `dataclasses.replace` has
    the same seed.
    """

    features: Any = None
    donors: Any = "auto"
    sample_weight: Any = None
    groups: Any = None
    random_state: Any = None  # a seed, once checked
    n_jobs: int | None = None
    memory: Any = "1 GiB"  # bytes, once checked
    progress: bool | None = None
    limits: Limits | None = None  # of the predictions of the model, or of the time

    def __post_init__(self) -> None:
        checks.check_workers(self.n_jobs, self.progress)
        object.__setattr__(self, "random_state", checks.entropy(self.random_state))
        object.__setattr__(self, "memory", checks.memory_bytes(self.memory))

    @property
    def arguments(self) -> dict[str, Any]:
        """As arguments of a verb that makes a call of its own, without limits."""
        return {name: value for name, value in vars(self).items() if name != "limits"}


def picked(kind: type[Kind], arguments: Mapping[str, Any]) -> Kind:
    """A dataclass made of those arguments of a verb that it has fields for; in a verb they are `locals()`."""
    return kind(**{name: arguments[name] for name in signature(kind).parameters if name in arguments})


def opened(model: Model, X: Any, y: Any, options: Options) -> tuple[Any, Any, Options, loading.Opened | None]:
    """X, y and the options, loaded from files that fit into memory; and the data, if they are read in parts."""
    if (source := as_source(X)) is None:
        return X, y, options, None
    data = loading.opened(model, source, y, options.sample_weight)
    if loading.streams(data, options.memory):
        return source, y, options, data
    X, y, weight = data.load()
    return X, y, replace(options, sample_weight=weight), None


@dataclass(frozen=True, eq=False)
class Task:
    """A checked call of a verb."""

    table: Table
    subjects: tuple[Subject, ...]
    design: Design | None  # None: "auto"
    engine: BlackBox  # predicts any cell by calling the model
    exact: Any  # the exact engine of this kind of model, or None
    declined: str  # why there is none
    sample: Sample  # without predictions and losses, which are not computed yet
    losses: tuple[Loss, ...]  # evaluated on the same predictions; none for curves of predictions
    budget: Budget
    entropy: int
    n_jobs: int | None
    progress: bool | None
    real_rows: Deferred[tuple[Indices, CodedRows]]  # some rows and their codes: replaced rows are compared with them
    outputs: tuple[Task, ...] = ()  # one for each output of a mean over several, if exact engines take these

    @property
    def loss(self) -> Loss | None:
        """The loss, or the first of several: that of the exact engine."""
        return self.losses[0] if self.losses else None

    @property
    def every(self) -> NDArray[np.intp]:
        """All rows, as one array that all results share."""
        return all_rows(self.n)

    def of_rows(self, rows: Indices) -> Task:
        """The task of some of the rows, by the model."""
        table, engine = self.table.at(rows), self.engine
        sample = replace(self.sample, prediction=np.empty(self.n)).at(rows)
        subjects = Subjects(table)
        return replace(
            self, table=table, sample=replace(sample, prediction=np.empty(0)), exact=None, outputs=(),
            subjects=tuple(subjects.subject(one.feature) for one in self.subjects),
            engine=BlackBox(table, engine.respond, engine.batch_rows, engine.n_jobs, engine.repeats),
            real_rows=Deferred(_real_rows, table, sample.weight),
        )  # fmt: skip

    @cached_property
    def games(self) -> Any:
        """The games of the exact engine whose players are the features."""
        return PlayerGames() if self.exact is None else self.exact.games(self.subjects)

    @property
    def n(self) -> int:
        """Rows."""
        return self.table.n

    @property
    def blocked(self) -> bool:
        """Whether donors come from other groups than the row (`groups=`)."""
        return self.sample.block is not None

    @cached_property
    def largest_share(self) -> float:
        """The largest share of the weight that a group of rows holds, or a row where there are no groups."""
        weight, block = self.sample.weight, self.sample.block
        return float((weight if block is None else np.bincount(block, weight)).max())


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """Means and cells of one feature by one loss, as fields of its result; `values` and `layout` may be lazy."""

    values: tuple[NDArray[Any], ...]
    ordered: bool
    layout: Layout
    means: Means
    cells: Cells
    n_predictions: int = 0
    observed: Floats | None = None
    conditioning: Conditioning | None = None
    drawn: tuple[NDArray[Any], ...] | None = None  # values that a sampler drew for the rows of `Task.real_rows`

    @classmethod
    def of(cls, question: Question, means: Means, cells: Cells, n_predictions: int = 0) -> Self:
        """The outcome of a question about a feature; the question itself is not kept."""
        return cls(
            values=question.values, ordered=question.ordered, layout=question.stored_layout, means=means, cells=cells,
            n_predictions=n_predictions, observed=question.observed, conditioning=question.conditioning,
        )  # fmt: skip

    def fields(
        self, feature: Feature, design: Design, engine: str, sample: Sample, names: Sequence[str], rows: Indices,
        backend: str, declined: str = "",
    ) -> dict[str, Any]:  # fmt: skip
        """The fields that importances and effects share; `names` are those of the table's columns."""
        n = sample.n if sample.totals is None else sample.totals.n
        return {
            "name": feature.name,
            "columns": tuple(names[j] for j in feature.columns),
            "values": self.values,
            "ordered": self.ordered,
            "design": design.remembered,
            "engine": engine,
            "exact": design.is_exact(n) and feature.kind != "pair" and declined != UNSTEADY,
            "n_predictions": self.n_predictions,
            "layout": self.layout,
            "sample": sample,
            "at": rows,
            "means": self.means,
            "cells": self.cells,
            "backend": backend,
            "declined": declined,
            "observed": self.observed,
            "conditioning": self.conditioning,
        }


class Passed(NamedTuple):
    """The outcomes of a pass: all losses of a call share predictions, and each has its own sample and means."""

    samples: Sequence[Sample]  # the rows with predictions, and with each loss
    outcomes: Sequence[Sequence[Outcome]]  # of each feature, by each loss
    n_predictions: int = 0  # by the model


def prepare(
    model: Any, X: Any, y: Any, options: Options, *, loss: Loss | None, response: Response, exact: bool = True,
    all_pairs: bool = False, subjects: Subjects | None = None,
) -> Task:  # fmt: skip
    """Check every argument against the table; an error says which one is wrong and what to do.

    `all_pairs`: the caller asks an exact engine for all pairs only, and the model for those of other designs.
    `subjects` are the table's features, where results of other models on it share their values.
    """
    model, memory, sample_weight = as_model(model), options.memory, options.sample_weight
    if (source := as_source(X)) is not None:
        X, y, sample_weight = loading.load(model, source, y, sample_weight, memory)
    table = as_table(X)
    if isinstance(loss, SurvivalLoss):
        loss = loss.for_target(y)
        model = model.at(loss.outputs)
    respond = replace(model.responder(response), explained=table)
    least = 1 if loss is None else 2  # a curve needs no other row
    weight = checks.row_weights(sample_weight, table.n, table.index, least=least)
    target, classes = _target(model, respond, table, y, loss, response, weight)
    if isinstance(loss, OutputsLoss) and (loss.custom or loss.each) and target is not None:
        loss = _with_outputs(loss, respond, table, y, target)
    if response == "labels":
        respond = partial(label_positions, respond, {label: k for k, label in enumerate(classes.tolist())})
    features = resolve_features(options.features, table.labels, by_position=table.backend == "numpy")
    block = checks.group_numbers(options.groups, table.n, table.index)
    design = _design(options.donors, table, weight, block)
    sample = Sample(
        weight, np.empty(0), target, classes=classes if len(classes) else None, block=block, row_labels=table.row_labels
    )
    if loss is not None:
        _warn_of_few_groups(sample)
    subjects = Subjects(table) if subjects is None else subjects
    site = _site(table, subjects, features, design, sample, loss, options)
    engine, declined = None, "" if design is None or not (all_pairs or design.conditional) else design.declined
    if response == "outputs":
        declined = declined or SEVERAL_OUTPUTS
    elif exact and not declined:
        engine, declined = choose_exact(model, response, respond, loss, site)
    outputs = len(classes) if response == "probabilities" or (response == "scores" and len(classes) > 2) else 1
    parts = 0 if loss is None else len(loss.parts)
    return Task(
        table=table,
        subjects=tuple(subjects.subject(feature) for feature in features),
        design=design,
        engine=choose(model.native, respond, table, memory, options.n_jobs),
        exact=engine,
        declined=declined,
        sample=sample,
        losses=() if loss is None else (loss,),
        budget=Budget(memory, 8 * max(outputs, parts) + 8, losses=1 + parts),
        entropy=options.random_state,
        n_jobs=options.n_jobs,
        progress=options.progress,
        real_rows=Deferred(_real_rows, table, weight),
    )


def _design(donors: Any, table: Table, weight: Floats, block: Indices | None) -> Design | None:
    """The design of the argument `donors`, a sampler bound to the table; None for "auto"."""
    sampled = callable(donors) and not isinstance(donors, (type, Design))
    design = bound(donors, table, weight, block) if sampled else resolve_design(donors)
    if design is not None:
        design.check(table.n)
    return design


def _warn_of_few_groups(sample: Sample) -> None:
    """Groups are the independent units of standard errors."""
    if sample.block is not None and (caution := few_groups(sample.effective_units(np.arange(sample.n)))):
        warn_once(caution)


def _site(
    table: Table, subjects: Subjects, features: Sequence[Feature], design: Design | None, sample: Sample,
    loss: Loss | None, options: Options,
) -> Site:  # fmt: skip
    """What an exact engine is built from: the table, with rows for the values of a design that names its own."""
    requested = frozenset(j for feature in features for j in feature.columns)
    losses = partial(_losses, sample, loss) if loss else None
    site = Site(
        table, subjects.column, requested, options.memory, options.n_jobs, options.progress, losses,
        sample.weight,
    )  # fmt: skip
    if design is not None and design.values is not None and all(len(feature.columns) == 1 for feature in features):
        return _with_values(site, design.values)
    return site


def _real_rows(table: Table, weight: Floats) -> tuple[Indices, CodedRows]:
    """Some rows and their codes.

    Columns are copied now and coded on first access: sorting them can take longer than all importances.
    """
    rows = spread_rows(table, weight)
    return rows, deferred(CodedRows.of, table.names, copy_columns(table, rows))


def _with_values(site: Site, values: Sequence[Any]) -> Site:
    """The site with a row more for each of the user's values, which is in all requested columns: engines are bound to
    the values of their table.
    """
    n, m, losses, weight = site.table.n, len(values), site.losses, site.weight
    origin = np.append(np.arange(n), np.zeros(m, np.intp))  # the row that each one's other values come from
    new = np.arange(n, n + m)
    edits = [Edit(n, n + m, j, site.column(j).extended(values), new) for j in sorted(site.requested)]
    table = as_table(Batch(site.table).fill(origin, edits))
    return replace(
        site,
        table=table,
        column=Subjects(table).column,
        losses=None if losses is None else lambda rows, prediction: losses(origin[rows], prediction),
        weight=None if weight is None else np.append(weight, np.full(m, 1 / n)),
    )


def _losses(sample: Sample, loss: Loss, rows: NDArray[np.intp], prediction: NDArray[Any]) -> Floats:
    """The losses of some rows, given their predictions."""
    return loss(sample.target(loss)[rows], sample.shown(loss, prediction))


def on_grid(native: Any, loss: Any, y: Any) -> Any:
    """The given loss; that of survival curves, the default of survival models, is put on the grid that y gives."""
    named = isinstance(loss, str) and loss == "brier_survival"
    if named or loss is brier_survival or (loss is None and has_survival_curves(native)):
        loss = brier_survival()
    return loss.for_target(y) if isinstance(loss, SurvivalLoss) else loss


def for_folds(native: Any, loss: Any, y: Any) -> Any:
    """The given loss; that of survival curves gets one grid and one estimate of censoring for all folds."""
    if isinstance(loss, (list, tuple)):
        resolve_loss(loss)  # type: ignore[arg-type]  # raises: one is needed
    chosen = on_grid(native, loss, None)
    return chosen.for_folds(y) if isinstance(chosen, SurvivalLoss) else chosen


def default_loss(model: Model, loss: Any, y: Any = None) -> Loss:
    """The given loss, or the default of the kind of model; a plain function has no default.

    Where y has several columns, losses of values are averaged over them.
    """
    loss = on_grid(model.native, loss, y)
    if isinstance(loss, OutputsLoss) and (loss.custom or loss.encodes):
        return loss
    if (names := checks.output_names(y)) is not None:
        return _of_outputs(model, loss, names)
    if isinstance(loss, OutputsLoss) and not (loss.outputs and len(loss.each) == len(loss.outputs)):
        raise ValueError("losses.outputs averages over several outputs, but y has one column; pass the loss itself")
    if loss is None:
        if model.kind == "regressor":
            return resolve_loss("squared_error")
        if model.kind == "classifier":
            return resolve_loss("log_loss" if "probabilities" in model.responses else "zero_one")
        raise ValueError(_unnamed_loss(model))
    reads: Response = "probabilities" if model.kind == "classifier" else "values"
    return resolve_loss(loss, reads if reads in model.responses else next(iter(model.responses)))


def _unnamed_loss(model: Model) -> str:
    """What to write where a function says nothing of what it predicts, unless its name does."""
    if "proba" in model.name:
        return f"loss must be named for {model.name}, a function: loss='log_loss', or pass the classifier itself"
    return f"loss must be named for {model.name}: it doesn't say what it predicts; try 'squared_error'"


def _of_outputs(model: Model, loss: Any, names: tuple[str, ...]) -> Loss:
    """The loss where y has one column for each output."""
    if model.kind == "classifier":
        raise ValueError(
            f"y has {len(names)} columns, and {model.name} is a classifier: explain the probabilities of each column, "
            "such as model=lambda X: np.column_stack([p[:, 1] for p in clf.predict_proba(X)]) with "
            "loss='squared_error', the Brier score averaged over columns"
        )
    if loss is None and model.kind == "unknown":
        raise ValueError(_unnamed_loss(model))
    chosen = for_outputs(resolve_loss("squared_error" if loss is None else loss, "outputs"), names)
    if chosen.reads != "outputs":
        raise ValueError(
            f"y has {len(names)} columns, but {chosen.name} reads {chosen.reads} of one output; use a loss of numbers "
            "such as 'squared_error', which is averaged over columns, losses.pointwise(function, reads='outputs'), or "
            "one column of y"
        )
    return chosen


def _with_outputs(loss: OutputsLoss, respond: Responder, table: Table, y: Any, target: NDArray[Any]) -> OutputsLoss:
    """The loss, after a check that the model returns its outputs; a custom loss of each output gets their names."""
    rows = np.unique(np.linspace(0, table.n - 1, PROBED).astype(np.intp))
    predicted, returned_names = respond.with_names(Batch(table).fill(rows, []))
    expected = checks.output_names(y) or tuple(map(str, loss.outputs))
    if returned_names != expected and sorted(returned_names) == sorted(expected):
        raise ValueError(
            f"the model returns the columns {', '.join(returned_names)}, but the outputs are {', '.join(expected)}: "
            "give both in the same order"
        )
    if not loss.custom:
        loss.check_prediction(predicted)
        return loss
    returned = np.asarray(call_read_only(loss.formula, f"the loss {loss.name!r}", target[rows], predicted))
    if returned.ndim != 2:
        return loss
    names, count = checks.output_names(y) or (), returned.shape[1]
    return loss.bound(names if len(names) == count else [f"y{k}" for k in range(count)])


def effect_of(model: Model, target: Any) -> tuple[Model, Response]:
    """The model and the response whose effect is computed: for classifiers probabilities or else scores, else values.

    The target of a model of numbers is one of its outputs, by position or by the name of a column that it returns.
    """
    if model.kind == "classifier":
        if "probabilities" not in model.responses and "scores" not in model.responses:
            raise ValueError(f"{model.name} predicts labels only; an effect needs probabilities or scores")
        return model, "probabilities" if "probabilities" in model.responses else "scores"
    if target is None:
        return model, "values"
    if isinstance(target, bool) or not isinstance(target, (int, np.integer, str)):
        raise ValueError(f"target is an output of the model, by position or name; got {target!r}")
    return one_output(model, target if isinstance(target, str) else int(target)), "values"


def raw_of(model: Model) -> tuple[Model, Response]:
    """The model and its raw scores, or an error."""
    if model.kind != "classifier":
        raise ValueError(
            f"scale='raw' is that of a classifier's scores, such as log-odds, but {model.name} is "
            f"{'a regressor' if model.kind == 'regressor' else 'no classifier'}; leave out scale="
        )
    if "scores" not in model.responses:
        raise ValueError(
            f"{model.name} has no raw scores (no decision_function); leave out scale= for those of its "
            f"{' or '.join(one for one in model.responses if one != 'labels') or 'labels'}"
        )
    return model, "scores"


def class_of(sample: Sample, target: Any, response: Response) -> tuple[int | None, str | None]:
    """The column of the predictions whose effect is computed, and the name of its class or output."""
    if response == "values":
        return None, None if target is None else str(target)
    classes = [] if sample.classes is None else sample.classes.tolist()
    if target is None and len(classes) == 2:
        target = classes[1]
    if np.ndim(target) or is_missing(target) or target not in classes:
        advice = f", such as target={classes[-1]!r}" if target is None and classes else ""
        raise ValueError(f"target must be one of the classes {classes!r}{advice}; got {target!r}")
    if response == "scores" and len(classes) == 2:  # one column, of the second class
        if target != classes[1]:
            raise ValueError(f"scores of two classes are about the second: pass target={classes[1]!r}; got {target!r}")
        return None, str(target)
    return classes.index(target), str(target)


def _target(
    model: Model,
    respond: Callable[[Any], Any],
    table: Table,
    y: Any,
    loss: Loss | None,
    response: Response,
    weight: Floats | None = None,
) -> tuple[NDArray[Any] | None, NDArray[Any]]:
    """y as losses read it, and the classes (none for a regression)."""
    nothing = np.empty(0)
    if y is None:
        if loss is not None:
            raise ValueError("y, the true values, is missing; for curves of predictions use feature_effect")
        return None, nothing if model.classes is None else model.classes
    if isinstance(loss, OutputsLoss):
        return checks.outputs(y, loss, table.n, table.index, weight), nothing
    y = checks.vector(y, table.n, "y", table.index)
    if loss is not None and response == "values":
        return checks.numbers(y, loss, table.index), nothing
    observed = checks.observed_classes(y, table.index)
    classes = model.classes
    if classes is None:
        classes = observed if response == "labels" else classes_of_function(respond, table, observed)
    return checks.class_positions(y, classes, model.name), classes


def classes_of_function(respond: Callable[[Any], Any], table: Table, observed: NDArray[Any]) -> NDArray[Any]:
    """The classes of a plain function: the labels of y, or 0..K-1 where it returns more columns than y has labels."""
    # Several rows, from all over the table: in a single row every column would be constant.
    rows = np.unique(np.linspace(0, table.n - 1, PROBED).astype(np.intp))
    try:
        columns = np.shape(respond(Batch(table).fill(rows, [])))[1:]
    except Exception as error:
        kind = type(error) if type(error) in (ValueError, TypeError) else RuntimeError
        words = f"the model was first asked for {len(rows)} rows of X, to see how many classes it has, and failed"
        raise kind(f"{words}: {error if kind is type(error) else repr(error)}") from error
    k = columns[0] if columns else 2
    if k == len(observed):
        return observed
    if observed.dtype.kind in "biu" and observed.min() >= 0 and observed.max() < k:
        return np.arange(k)
    raise ValueError(
        f"the model returns {k} columns, but y has the {len(observed)} labels {observed.tolist()!r}, so columns cannot "
        "be matched to labels: pass y as column numbers 0, 1, ..., or an estimator with classes_"
    )


def label_positions(respond: Callable[[Any], Any], place: dict[Any, int], table: Any) -> NDArray[np.intp]:
    """Predicted labels as positions among the classes; -1 for a label that is none of them, which is always wrong."""
    return np.array([place.get(label, -1) for label in respond(table).tolist()], np.intp)
