"""The commands: load, call a verb, return its result as output. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import losslens as ll
from losslens.cli.arguments import (
    class_of,
    descriptions_in,
    first_and_more,
    groups_of,
    one_model,
    options_for,
    pairs,
    rows_of,
    sampled,
)
from losslens.cli.errors import CONDITION_HOLDS, check_writable, naming_file, note, stopping_on_interrupt
from losslens.cli.options import SOURCE, TABLE, Arguments, Verb
from losslens.cli.printing import Output, in_full, plain, records, write_junit
from losslens.cli.running import takes
from losslens.cli.tables import LoadedRows, rows_with
from losslens.results import Comparison
from losslens.results.gate import Verdict, judge, needs_shares
from losslens.results.table import ResultTable, or_else
from losslens.tables.frames import as_table
from losslens.text import in_digits, size_in_words

GATE_LEVEL = 0.05  # the probability that any condition is said to hold although none does


@takes(ll.feature_importance, *SOURCE, "by", "groups", "time", "time_blocks", "blocks", *TABLE, "save")
def importance(args: Arguments) -> Output:
    """How much the loss grows when a feature's values come from other rows.

    All pairs of rows are used where that is affordable.
    """
    model = one_model(args, args.model)
    rows = rows_of(args, [model], args.data)

    def explain(groups: Any = None) -> Any:
        options = options_for(ll.feature_importance, args, sample_weight=rows.weight, groups=groups)
        return ll.feature_importance(model, rows.X, rows.y, **options)

    groups = groups_of(args, rows, explain)
    imp = explain(groups)
    texts, entries = [in_full(imp._table())], records(imp.to_frame())
    if args.by is not None:
        parts = imp.by(np.asarray(rows.column(args.by)))
        label = f"{args.by} (group)" if args.by in imp.to_frame().columns else args.by  # not a column's
        texts.append(in_full(replace(parts, name=args.by)._table()))
        entries = [{label: "(all)"} | row for row in entries]
        entries += [{label: plain(own)} | row for own, part in parts.items() for row in records(part.to_frame())]
    facts = _facts(imp, loss="title", error="base", design="design") | {"n_rows": len(rows.y)}
    chosen = [repr(groups).split("\n")[0], groups.chosen] if hasattr(groups, "chosen") else []
    notes = [*sampled(rows), *filter(None, chosen)]
    if args.blocks and imp.blocks:
        together = imp.together(model, rows.X, rows.y, **options_for(imp.together, args))
        texts.append(in_full(together._table()))
        facts["blocks"] = records(together.to_frame())
    elif args.blocks:
        notes.append("no features go together (average rank correlation of 0.7 or more), or a score was asked for")
    return Output(texts, notes, [*notes, *imp.notes, *imp.cautions], entries, facts, imp)


@takes(ll.feature_effect, *SOURCE, "curves_of", "loss", "points", *TABLE, "save")
def curves(args: Arguments) -> Output:
    """Where in its range a feature matters.

    The increase in loss (with --target) and the mean prediction, with every row at the same value.
    """
    model = one_model(args, args.model)
    rows = rows_of(args, [model], args.data, needs_target=False)
    label = class_of(model, args.label)
    result: Any
    if rows.y is None:
        if args.loss is not None:
            raise ValueError("--loss needs the true values: name their column with --target")
        options = options_for(ll.feature_effect, args, sample_weight=rows.weight, target=label)
        result = ll.feature_effect(model, rows.X, **options)
    else:
        options = options_for(ll.feature_importance, args, sample_weight=rows.weight)
        result = ll.feature_importance(model, rows.X, rows.y, **options)
    notes, entries, texts = sampled(rows), [], []
    for name, one in result.items():
        points = _curve(one, label, notes)
        entries += [{"feature": name} | row for row in points]
        texts.append(_short(name, points, args.points))
    columns = [] if rows.y is None else [result.headline.split(";")[0]]
    columns += ["mean prediction"] if rows.y is None or any("effect" in row for row in entries) else []
    headline = f"Curves: {', and '.join(columns)}{',' if len(columns) > 1 else ''} with every row at a value"
    facts = {"n_rows": len(rows.X), "engine": result.engine}
    return Output([headline, *texts], notes, notes, entries, facts, result)


@takes(ll.shapley_importance, *SOURCE, "gap", *TABLE, "save")
def shapley(args: Arguments) -> Output:
    """Distribute the performance among the features.

    The reduction of the loss by all features together, divided by Shapley values: the shares sum to one.
    """
    model = one_model(args, args.model)
    rows = rows_of(args, [model], args.data)
    chosen = None if args.gap is None else rows_with(rows, args.gap)
    options = options_for(ll.shapley_importance, args, sample_weight=rows.weight)
    shap = ll.shapley_importance(model, rows.X, rows.y, **options | ({} if chosen is None else {"method": "rows"}))
    texts, notes = [in_full(shap._table())], [*sampled(rows), *shap.notes, *shap.cautions]
    facts = _facts(shap, loss="title", error_all="error_all", error_none="error_none", method="method")
    facts |= {"n_rows": len(rows.y)}
    if chosen is not None:
        gap = shap.gap(chosen, names=(args.gap or "", "the rest"))
        texts.append(in_full(gap._table()))
        facts |= {"gap_total": gap.total, "gap": records(gap.to_frame())}
        notes += gap.notes
    return Output(texts, sampled(rows), notes, records(shap.to_frame()), facts, shap)


@takes(ll.weak_segments, *SOURCE, "groups", *TABLE, "save")
def segments(args: Arguments) -> Output:
    """Where the model is worst.

    Rules of a few conditions under which the error is larger: found on one half of the rows, judged on the other.
    """
    model = one_model(args, args.model)
    rows = rows_of(args, [model], args.data)
    groups = None if args.groups is None else np.asarray(rows.column(args.groups))
    options = options_for(ll.weak_segments, args, sample_weight=rows.weight, groups=groups)
    weak = ll.weak_segments(model, rows.X, rows.y, **options)
    facts = {"loss": weak.title, "error": weak.error, "error_low": weak.low, "error_high": weak.high}
    facts |= {"n_rows": weak.n, "level": weak.level, "why": weak.why or None}
    table, notes = weak._table(), sampled(rows)
    return Output([in_full(table)], notes, [*notes, *table.notes], records(weak.to_frame()), facts, weak)


@takes(ll.compare, *SOURCE, "models", "more_data", "good", "shapley", "fail_if", "strict", *TABLE, "junit", "save")
def compare(args: Arguments) -> Output:
    """Put models, or sets of rows, side by side.

    Other models on the same rows with --models, or the same model on other rows with --data.
    """
    if bool(args.models) == bool(args.more_data):
        raise ValueError("compare with other models, --models name=path, or on other rows, --data name=path")
    paths = first_and_more(args.model, pairs(args.models, "--models"), "--models")
    models = {name: one_model(args, path) for name, path in paths.items()}
    tables = first_and_more(args.data, pairs(args.more_data, "--data"), "--data")
    rows = {name: rows_of(args, list(models.values()), path) for name, path in tables.items()}
    one = next(iter(rows.values()))
    several = bool(args.more_data)
    conditions = args.fail_if or []
    if not conditions and (args.strict or args.junit is not None):
        raise ValueError("--strict and --junit are about conditions: add --fail-if")
    if args.junit is not None:
        check_writable(args.junit)
    if args.good:
        return _good(args, models, one)
    args = replace(args, shapley=args.shapley or needs_shares(conditions))
    comparison = ll.compare(
        next(iter(models.values())) if several else models,
        {name: part.X for name, part in rows.items()} if several else one.X,
        {name: part.y for name, part in rows.items()} if several else one.y,
        **options_for(ll.compare, args, sample_weight=_weights(rows, several)),
    )
    differences = records(comparison.differences())
    facts = {"loss": comparison.title, "errors": records(comparison.errors()), "differences": differences}
    moved = records(comparison.moved()) if several else []
    facts |= {"moved": moved} if several else {}
    verdicts, notes = judge(comparison, conditions, GATE_LEVEL), sampled(one)
    texts = [in_full(comparison._table()), *_beside(comparison, moved or differences)]
    if verdicts:
        texts.insert(0, _gate(verdicts))
        facts |= {"gate": [asdict(one) for one in verdicts]}
    if args.junit is not None:
        write_junit(args.junit, verdicts, strict=args.strict)
    failing = ("fails", "cannot tell") if args.strict else ("fails",)
    code = CONDITION_HOLDS if any(one.outcome in failing for one in verdicts) else 0
    return Output(texts, notes, notes, records(comparison.to_frame()), facts, comparison, code)


def _good(args: Arguments, models: dict[str, Any], rows: LoadedRows) -> Output:
    """What good models need, in place of the models side by side."""
    if args.more_data or args.fail_if or args.shapley:
        raise ValueError("--good is about models on the same rows: leave out --data, --fail-if and --shapley")
    good = ll.good_models(models, rows.X, rows.y, **options_for(ll.good_models, args, sample_weight=rows.weight))
    table, notes = good._table(), sampled(rows)
    facts = {"loss": good.title, "good": list(good.good), "best": good.best, "margin": good.least}
    return Output([in_full(table)], notes, [*notes, *table.notes], records(good.to_frame()), facts, good)


@takes(ll.shapley_importance, *SOURCE, "verb", *TABLE)
def plan(args: Arguments) -> Output:
    """What a command would cost, before it runs.

    Predictions, calls, memory and seconds, from one timed batch.
    """
    model = one_model(args, args.model)
    rows = rows_of(args, [model], args.data, needs_target=args.verb is not Verb.curves)
    verbs: dict[Verb, Callable[..., Any]] = {
        Verb.importance: ll.feature_importance,
        Verb.curves: ll.feature_effect,
        Verb.shapley: ll.shapley_importance,
    }
    verb = verbs[args.verb]
    planned = ll.plan(verb, model, rows.X, rows.y, **options_for(verb, args, sample_weight=rows.weight))
    facts = {name: value for name, value in asdict(planned).items() if name != "backend" and value is not None}
    facts = {"verb": args.verb.value, "engine": planned.engine} | facts
    return Output([repr(planned)], sampled(rows), sampled(rows), records(planned.to_frame()), facts)


def _facts(result: Any, **names: str) -> dict[str, Any]:
    """Entries of the JSON output by attributes of the result, and its skill: None without a best constant."""
    skill = {name: or_else(partial(getattr, result, name), None) for name in ("error_constant", "skill")}
    same = {name: getattr(result, name) for name in ("exact", "engine", "n_predictions")}
    return {key: getattr(result, name) for key, name in names.items()} | skill | same


def _weights(rows: dict[str, LoadedRows], several: bool) -> Any:
    weights = {name: part.weight for name, part in rows.items()}
    if all(weight is None for weight in weights.values()):
        return None
    return weights if several else next(iter(weights.values()))


def _curve(one: Any, label: Any, notes: list[str]) -> list[dict[str, Any]]:
    """One record a value; with a loss, the effect beside the importance."""
    entries, effect, remark = records(one.to_frame()), one, ""
    if hasattr(one, "pi") and not one._is_score:
        try:
            effect = one.effect if label is None else one.effect_of(label)
            for row, value in zip(entries, np.ravel(effect.pd).tolist(), strict=True):
                row["effect"] = plain(value)
        except ValueError:  # several classes
            remark = "mean predictions are of one class: name it with --class"
    if getattr(effect, "target", None) is not None:
        remark = f"the effect is on the probability of class {effect.target}"
    notes.extend([remark] if remark and remark not in notes else [])
    if len(one.columns) > 1:  # a group: one text for all of its columns
        rows = entries
        entries = [
            {
                "value": ", ".join(
                    f"{name}={in_digits(row[name]) if isinstance(row[name], float) else row[name]}"
                    for name in one.columns
                )
            }
            for row in rows
        ]
        for new, row in zip(entries, rows, strict=True):
            new |= {key: value for key, value in row.items() if key not in one.columns}
    return entries


def _short(name: str, rows: list[dict[str, Any]], points: int) -> str:
    """A curve at some of its values, for a screen."""
    some = sorted(set(np.linspace(0, len(rows) - 1, points).round().astype(int).tolist()))
    title = f"{name} ({len(some)} of {len(rows):,} values; --csv has all)" if len(some) < len(rows) else name
    columns = {key: [row[key] for row in rows] for key in rows[0] if key != "weight"}
    return ResultTable(
        title, columns, view=_view(columns), in_text=some, most_in_text=None, formats={"value": str}
    ).text()


def _gate(verdicts: Sequence[Verdict]) -> str:
    columns = {name: [getattr(one, name) for one in verdicts] for name in ("model", "question", "outcome", "sentence")}
    return ResultTable("Gate", columns, [f"{{{name}}}" for name in columns], most_in_text=None).text()


def _view(columns: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, f"{{{name}}}") for name in columns]


def _beside(comparison: Comparison, differences: list[dict[str, Any]]) -> list[str]:
    """Shapley shares of models, and their differences, as tables."""
    texts = []
    if comparison.shapley:
        parts = {name: part.share.tolist() for name, part in comparison.shapley.items()}
        columns = {"feature": list(comparison.features)} | {f"model{k}": some for k, some in enumerate(parts.values())}
        view = [("feature", "{feature}"), *((name, f"{{model{k}}}") for k, name in enumerate(parts))]
        table = ResultTable("Shapley shares", columns, view=view, most_in_text=None,
                            formats=dict.fromkeys(columns, "z.1%") | {"feature": str})  # fmt: skip
        texts.append(table.text())
    names = ["feature", "model", "difference", "low", "high", "p_adjusted"]
    moved = ["distance", "by_chance"] if comparison.shifts else []  # of the values, from 0 to 1, and at most by chance
    columns = {name: [row[name] for row in differences] for name in (*names, *moved)}
    title = f"Differences from {comparison.names[0]}{', and how far the values moved' if moved else ''}"
    table = ResultTable(title, columns, view=_view(columns), like="difference", most_in_text=None,
                        formats=dict.fromkeys(moved, ".2f"))  # fmt: skip
    return [*texts, table.text()]


PAGE_ROWS = 5000  # rows of a report without --rows


@takes(ll.report, *SOURCE, "models", "by", "no_shapley", "interactions", "descriptions", "output")
def report(args: Arguments) -> None:
    """Everything in one HTML file.

    It works offline, and recomputes the numbers for subgroups of rows without the model.
    """
    from losslens.verbs.report import report as make

    check_writable(args.output)
    paths = first_and_more(args.model, pairs(args.models, "--models"), "--models")
    models = {name: one_model(args, path) for name, path in paths.items()}
    rows = rows_of(replace(args, rows=None), list(models.values()), args.data)  # the page states its own sample
    own, *others = models
    by: Any = args.by
    if by is not None and by not in as_table(rows.X).names:
        by = rows.column(by)  # not an input of the model
    together = True if args.interactions is None else args.interactions or False
    with stopping_on_interrupt():  # before anything is written
        page = make(
            models[own],
            rows.X,
            rows.y,
            models={name: models[name] for name in others} or None,
            **options_for(
                make,
                args,
                sample_weight=rows.weight,
                by=by,
                rows=args.rows or PAGE_ROWS,
                shapley=not args.no_shapley,
                interactions=together,
                descriptions=descriptions_in(args.descriptions),
            ),
        )
    with naming_file(args.output):
        page.save(args.output)
        size = Path(args.output).stat().st_size
    if not args.quiet:
        words = page.summary["words"]
        note("\n".join([words["question"], *(f"  {sentence}" for sentence in words["opening"])]))
        note(f"wrote {args.output} ({size_in_words(size)})")
