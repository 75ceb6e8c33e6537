"""The commands: load, call a verb, hand over what it found. Nothing is computed here.

The report: one HTML file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import losslens as ll
from losslens.cli.arguments import (
    class_of,
    donors_of,
    features_of,
    first_and_more,
    loss_of,
    one_model,
    pairs,
    rows_of,
    run_options,
    sampled,
)
from losslens.cli.errors import check_place, note, telling, to_the_end
from losslens.cli.options import RUNNING, SOURCE, TABLE, Typed, Verb
from losslens.cli.printing import Output, Sheet, digits, plain, probability, records
from losslens.cli.running import takes
from losslens.cli.tables import LoadedRows
from losslens.results.table import ResultTable
from losslens.tables.frames import as_table
from losslens.text import size_in_words

QUESTION = ("loss", "features", "group", "donors")


@takes(*SOURCE, *QUESTION, "by", *RUNNING, *TABLE, "save")
def importance(asked: Typed) -> Output:
    """How much the loss grows without each feature.

    A feature's values are taken from other rows, over all pairs of rows where that is affordable.
    """
    model = one_model(asked, asked.model)
    rows = rows_of(asked, [model], asked.data)
    imp = ll.feature_importance(
        model, rows.X, rows.y, loss=loss_of(asked.loss), features=features_of(asked), donors=donors_of(asked.donors),
        sample_weight=rows.weight, **run_options(asked),
    )  # fmt: skip
    parts = {None: imp} if asked.by is None else {None: imp} | imp.by(np.asarray(rows.column(asked.by)))
    group = f"{asked.by} (group)" if asked.by in imp.to_frame().columns else asked.by or ""  # a name of its own
    found, lines = [], []
    columns = ["feature", "importance", "std_error", "low", "high", "ratio"]
    for label, part in parts.items():
        own = {} if asked.by is None else {group: "(all)" if label is None else plain(label)}
        found += [own | row for row in records(part.to_frame())]
        lines += [[*map(digits, own.values()), *line] for line in part._table().texts(columns)]
    sheet = Sheet([*([group] if asked.by else []), *columns], lines, words=(group, "feature"))
    facts = {"loss": imp.title, "error": imp.base, "exact": imp.exact, "engine": imp.engine, "design": imp.design}
    facts |= {"n_rows": len(rows.y), "n_predictions": imp.n_predictions}
    notes = [*sampled(rows), *imp.notes]
    return Output(f"Importance: {imp.headline}", [sheet], notes, found, facts, imp)


@takes(*SOURCE, "curves_of", "loss", "group", "donors", "label", "points", *RUNNING, *TABLE, "save")
def curves(asked: Typed) -> Output:
    """Where in its range a feature matters.

    The increase in loss (with --target) and the mean prediction, with every row at the same value.
    """
    model = one_model(asked, asked.model)
    rows = rows_of(asked, [model], asked.data, needs_target=False)
    shared = {"features": features_of(asked, asked.curves_of), "donors": donors_of(asked.donors)}
    shared |= {"sample_weight": rows.weight, **run_options(asked)}
    label = class_of(model, asked.label)
    result: Any
    if rows.y is None:
        if asked.loss is not None:
            raise ValueError("--loss judges predictions by the true values: name their column with --target")
        result = ll.feature_effect(model, rows.X, target=label, **shared)
        headline = "Curves: mean prediction with every row at a value"
    else:
        result = ll.feature_importance(model, rows.X, rows.y, loss=loss_of(asked.loss), **shared)
        headline = f"Curves: increase in {result.title}, and mean prediction, with every row at a value"
    notes, found, sheets = sampled(rows), [], []
    for name, one in result.items():
        of_one = _curve(one, label, notes)
        found += [{"feature": name} | row for row in of_one]
        sheets.append(_short(name, of_one, asked.points))
    return Output(headline, sheets, notes, found, {"n_rows": len(rows.X), "engine": result.engine}, result)


@takes(*SOURCE, *QUESTION, "method", "aggregate", "precision", "budget", *RUNNING, *TABLE, "save")
def shapley(asked: Typed) -> Output:
    """Share out the performance among features.

    What the features together take off the loss, shared out fairly (Shapley): the shares sum to one.
    """
    model = one_model(asked, asked.model)
    rows = rows_of(asked, [model], asked.data)
    shap = ll.shapley_importance(
        model, rows.X, rows.y, loss=loss_of(asked.loss), features=features_of(asked), donors=donors_of(asked.donors),
        method=asked.method.value, aggregate=asked.aggregate.value, precision=asked.precision, budget=asked.budget,
        sample_weight=rows.weight, **run_options(asked),
    )  # fmt: skip
    columns = ["feature", "share", "sfimp", "std_error", "low", "high"]
    sheet = Sheet(columns, shap._table().texts(columns))
    facts = {"loss": shap.title, "error_all": shap.error_all, "error_none": shap.error_none, "exact": shap.exact}
    facts |= {"engine": shap.engine, "method": shap.method, "n_rows": len(rows.y), "n_predictions": shap.n_predictions}
    notes = [*sampled(rows), *shap.notes]
    return Output(f"Shapley importance: {shap.headline}", [sheet], notes, records(shap.to_frame()), facts, shap)


@takes(*SOURCE, "models", "more_data", *QUESTION, "shapley", *RUNNING, *TABLE, "save")
def compare(asked: Typed) -> Output:
    """Put models, or sets of rows, side by side.

    Other models on the same rows with --models, or the same model on other rows with --data.
    """
    if bool(asked.models) == bool(asked.more_data):
        raise ValueError("compare with other models, --models name=path, or on other rows, --data name=path")
    paths = first_and_more(asked.model, pairs(asked.models, "--models"), "--models")
    models = {name: one_model(asked, path) for name, path in paths.items()}
    tables = first_and_more(asked.data, pairs(asked.more_data, "--data"), "--data")
    rows = {name: rows_of(asked, list(models.values()), path) for name, path in tables.items()}
    one = next(iter(rows.values()))
    several = bool(asked.more_data)
    found = ll.compare(
        next(iter(models.values())) if several else models,
        {name: part.X for name, part in rows.items()} if several else one.X,
        {name: part.y for name, part in rows.items()} if several else one.y,
        loss=loss_of(asked.loss), features=features_of(asked), donors=donors_of(asked.donors), shapley=asked.shapley,
        sample_weight=_weights(rows, several), **run_options(asked),
    )  # fmt: skip
    differences = records(found.differences())
    facts = {"loss": found.title, "errors": records(found.errors()), "differences": differences}
    sheets = _side_by_side(found, differences)
    return Output(f"Comparison: {found.headline}", sheets, sampled(one), records(found.to_frame()), facts, found)


@takes(*SOURCE, "verb", *QUESTION, "method", "aggregate", "precision", "budget", *RUNNING, *TABLE)
def plan(asked: Typed) -> Output:
    """What a command would cost, before it runs.

    Predictions, calls, memory and seconds, from one timed batch.
    """
    model = one_model(asked, asked.model)
    rows = rows_of(asked, [model], asked.data, needs_target=asked.verb is not Verb.curves)
    options = {"features": features_of(asked), "donors": donors_of(asked.donors), "sample_weight": rows.weight}
    verbs: dict[Verb, Callable[..., Any]] = {
        Verb.importance: ll.feature_importance,
        Verb.curves: ll.feature_effect,
        Verb.shapley: ll.shapley_importance,
    }
    if asked.verb is not Verb.curves:
        options["loss"] = loss_of(asked.loss)
    if asked.verb is Verb.shapley:
        options |= {"method": asked.method.value, "aggregate": asked.aggregate.value}
        options |= {"precision": asked.precision, "budget": asked.budget}
    found = ll.plan(verbs[asked.verb], model, rows.X, rows.y, **options, **run_options(asked))
    facts = {name: value for name, value in asdict(found).items() if name != "backend" and value is not None}
    return Output(
        repr(found),
        [],
        sampled(rows),
        records(found.to_frame()),
        {"verb": asked.verb.value, "engine": found.engine} | facts,
    )


def _weights(rows: dict[str, LoadedRows], several: bool) -> Any:
    weights = {name: part.weight for name, part in rows.items()}
    if all(weight is None for weight in weights.values()):
        return None
    return weights if several else next(iter(weights.values()))


def _curve(one: Any, label: Any, notes: list[str]) -> list[dict[str, Any]]:
    """A row a value; where a loss was asked for, the effect stands beside the importance."""
    found, effect, told = records(one.to_frame()), one, ""
    if hasattr(one, "effect_of"):
        try:
            effect = one.effect if label is None else one.effect_of(label)
            for row, value in zip(found, np.ravel(effect.pd).tolist(), strict=True):
                row["effect"] = plain(value)
        except ValueError:  # several classes
            told = "mean predictions are those of one class: name it with --class"
    if getattr(effect, "target", None) is not None:
        told = f"the effect is that on the class {effect.target}"
    notes.extend([told] if told and told not in notes else [])
    if len(one.columns) > 1:  # a group: one text for all of its columns
        rows = found
        found = [{"value": ", ".join(f"{name}={digits(row[name])}" for name in one.columns)} for row in rows]
        for new, row in zip(found, rows, strict=True):
            new |= {key: value for key, value in row.items() if key not in one.columns}
    return found


def _short(name: str, rows: list[dict[str, Any]], points: int) -> Sheet:
    """A curve at some of its values, for a screen."""
    some = sorted(set(np.linspace(0, len(rows) - 1, points).round().astype(int).tolist()))
    title = f"{name} ({len(some)} of {len(rows):,} values; --csv has all)" if len(some) < len(rows) else name
    columns = [key for key in rows[0] if key != "weight"]
    words = ("value",) if isinstance(rows[0]["value"], str) else ()
    lines = [[str(rows[k]["value"]), *(digits(rows[k][key]) for key in columns[1:])] for k in some]
    return Sheet(columns, lines, title, words)


def _side_by_side(found: ll.Comparison, differences: list[dict[str, Any]]) -> list[Sheet]:
    table, head = found._table(), ["feature", *found.names]
    sheets = [Sheet(head, table.texts(list(table.columns)))]
    if found.shapley:
        shares = {name: dict(zip(part.features, part.share, strict=True)) for name, part in found.shapley.items()}
        features = table.columns["feature"][1:]  # below the error
        parts = [[f, *(f"{shares[name][f]:.1%}" for name in found.names)] for f in features]
        sheets.append(Sheet(head, parts, "Shapley shares"))
    columns = ["feature", "model", "difference", "low", "high", "p_adjusted"]
    values = {name: [row[name] for row in differences] for name in columns}
    tests = ResultTable("", values, like="difference", formats={"p_adjusted": probability})
    return [*sheets, Sheet(columns, tests.texts(columns), f"Differences from {found.names[0]}", ("feature", "model"))]


SHOWN = 5000  # rows of a page, if not told otherwise


@takes(
    "model", "data", "target", "weight", "drop", "rows", "seed", "models", "trust", "trust_type", "loss", "features",
    "group", "by", "no_shapley", "interactions", "title", "output", *RUNNING,
)  # fmt: skip
def report(asked: Typed) -> None:
    """Everything in one HTML file.

    It works offline, and regroups rows without the model.
    """
    from losslens.verbs.report import report as make

    check_place(asked.output)
    paths = first_and_more(asked.model, pairs(asked.models, "--models"), "--models")
    models = {name: one_model(asked, path) for name, path in paths.items()}
    rows = rows_of(replace(asked, rows=None), list(models.values()), asked.data)  # the page says itself what it sampled
    own, *others = models
    by: Any = asked.by
    if by is not None and by not in as_table(rows.X).names:
        by = rows.column(by)  # not an input of the model
    together = True if asked.interactions is None else asked.interactions or False
    with to_the_end():  # before anything is written
        found = make(
            models[own], rows.X, rows.y, models={name: models[name] for name in others} or None,
            loss=loss_of(asked.loss), features=features_of(asked), by=by, title=asked.title, rows=asked.rows or SHOWN,
            shapley=not asked.no_shapley, interactions=together, sample_weight=rows.weight, **run_options(asked),
        )  # fmt: skip
    with telling(asked.output):
        found.save(asked.output)
        size = Path(asked.output).stat().st_size
    if not asked.quiet:
        note(f"wrote {asked.output} ({size_in_words(size)})")
