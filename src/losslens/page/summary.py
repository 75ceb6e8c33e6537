"""Results as a plain dict: numbers, text and NumPy arrays. README.md defines the keys."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.page import sizes
from losslens.page.blocks import going_together_dict
from losslens.page.cells import PackedGrid, grid_of, low_rank, low_rank_effect, measured_on, width_errors
from losslens.page.findings import (
    Findings,
    absence_words,
    clusters_dict,
    extrapolation_dict,
    finding_words,
    map_dict,
    pairs_dict,
    regions_dict,
    rows_dict,
    segments_dict,
)
from losslens.page.groups import LEADING, FeatureByGroup, Groups, by_group, compared, for_whom, groups_by
from losslens.page.labels import as_numbers, bin_labels, expressions, kind_of, labels, literals, rows_in_python, texts
from losslens.page.opening import baseline, on_rows, question, told
from losslens.page.quality import error_ends, quality
from losslens.page.scored import how_score, score_dict
from losslens.page.target import effect_of, predicted_labels, predictions, shown_class, target_dict, true_labels
from losslens.page.words import words
from losslens.plots.wording import MOST_SHARE
from losslens.results.effects import FeatureEffect
from losslens.results.feature import MIN_CURVES
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.one_number import NUMBERS, number_of
from losslens.results.plain_error import plain_error
from losslens.results.ranking import Ranking
from losslens.results.scores import Scores
from losslens.results.shapley import ShapleyImportance
from losslens.results.table import or_else
from losslens.tables.columns import Distinct
from losslens.tables.frames import Table
from losslens.tables.row_labels import row_name
from losslens.typing import Floats, Mask
from losslens.uncertainty.bands import Band, band

Complete = Callable[[FeatureImportance], FeatureImportance]
FORMAT = 2


@dataclass(frozen=True, eq=False)
class ShownModel:
    """Title, table and target of a report: all but the results."""

    title: str
    library: str
    columns: Mapping[str, Distinct]  # of the table, and of `by`
    index: NDArray[Any]  # (n,): labels of the rows, or their positions in the user's table
    n_given: int
    y: NDArray[Any]
    by: str | None
    target_name: str  # what is predicted, in the reader's words
    X: Table  # all rows that were given
    descriptions: Mapping[str, str]  # of columns and groups of columns


def summarise(
    shown: ShownModel,
    models: Mapping[str, Importances],
    shares: Mapping[str, ShapleyImportance],
    findings: Findings,
    complete: Complete,
    tick: Callable[[int], None],
    scores: Mapping[str, Scores] = MappingProxyType({}),
) -> dict[str, Any]:
    """The dict; `complete` computes a streamed feature again with all of its cells; `scores` are of all models."""
    first = next(iter(models.values()))
    target = target_dict(shown.target_name, first._first)
    table = _table(shown, models, target)
    heads = [_model(name, importances, shares.get(name)) for name, importances in models.items()]
    ends = (heads[0]["error_low"], heads[0]["error_high"])
    cells = sum(len(one.at) * one.layout.size for one in first.values())
    size = sizes.held(
        len(shown.index), len(first), len(models), cells, streamed=not all(one.complete for one in first.values())
    )
    features, groups = [], _groups(shown, first._first.sample.weight)
    tested = {name: Ranking.of(importances).p for name, importances in models.items()}
    by_groups: list[dict[str, FeatureByGroup]] = [{} for _ in models]
    for place, one in enumerate(first._ranked):
        done = complete(one) if place < max(size.curves, LEADING) else one  # others have no curves of single rows
        features.append(_feature(done, shown, models, target, shares, findings, size, place, tick, tested))
        if groups is not None and place < LEADING:
            results = [done, *(other[one.name] for other in list(models.values())[1:])]
            for by_feature, each in zip(by_groups, results, strict=True):
                by_feature[one.name] = by_group(each, groups)
    plain = plain_error(first)
    pairs, rows = pairs_dict(findings), rows_dict(findings.rows)
    if pairs is not None:
        pairs["map"] = map_dict(findings.map, shown.columns, target)
    ranked = next(iter(scores.values()), first)
    ranking = Ranking.of(ranked, first.extrapolation, baseline(ranked))
    top = words(models, shares, ranking, ends, shown.n_given, findings.blocks, shown.target_name, scores)
    top["question"] = question(shown.target_name, target["classes"])
    total = heads[0]["error_none"] and heads[0]["error_none"] - first.error
    top["sentences"] += finding_words(features, pairs, rows, total)
    top["computed"] += absence_words(findings, bool(shares))
    if scores:
        top["computed"].insert(0, how_score(next(iter(scores.values()))))
    return {
        "format": FORMAT,
        "title": shown.title,
        "made": dt.date.today().isoformat(),  # local date
        "library": shown.library,
        "words": top,
        "told": vars(told(scores or models)) | {"rows": on_rows(ranked._first, shown.n_given).removeprefix("On ")},
        "target": target,
        "loss": {
            "name": first.loss.name,
            "title": first.title,
            "least": None if first.loss.custom else 0.0,
            "told_as": plain.kind,
            "measure": plain.measure,
            "unit": plain.unit,
        },
        "score": score_dict(scores, first.title, groups),
        "n": len(shown.index),
        "n_explained": len(shown.index),
        "n_given": shown.n_given,
        "models": heads,
        "by": shown.by,
        "compared": compared(models, [one.name for one in first._ranked]),
        "for_whom": for_whom(groups, models, by_groups),
        "segments": segments_dict(findings.weak, shown.columns, plain),
        "table": table,
        "python": _python(shown, first._first),
        "features": features,
        "blocks": going_together_dict(findings.blocks, first),
        "interactions": pairs,
        "rows": rows,
        "clusters": clusters_dict(findings.clusters),
    }


def _groups(shown: ShownModel, weight: Floats) -> Groups | None:
    if shown.by is None:
        return None
    return groups_by(shown.by, shown.columns[shown.by], weight)


def _model(name: str, importances: Importances, share: ShapleyImportance | None) -> dict[str, Any]:
    low, high = or_else(lambda: error_ends(importances._first), (np.nan, np.nan))
    return {
        "name": name, "error": importances.error, "error_low": low, "error_high": high,
        "error_none": None if share is None else share.error_none,
        "error_constant": or_else(lambda: importances.error_constant, None),
        "skill": or_else(lambda: importances.skill, None), "quality": quality(importances._first),
    }  # fmt: skip


def _table(shown: ShownModel, models: Mapping[str, Importances], target: dict[str, Any]) -> dict[str, Any]:
    """Columns, targets and predictions of all rows, as the page's table shows them."""
    ones = [importances._first for importances in models.values()]
    named, labels_of_rows = shown_class(target), true_labels(ones[0])
    return {
        "columns": [{"name": name, **_column(column)} for name, column in shown.columns.items()],
        "y": shown.y if labels_of_rows is None else labels_of_rows,
        "index": _names(shown.index),
        "weight": ones[0].sample.weight,
        "models": [
            {"prediction": predictions(one, named), "label": predicted_labels(one), "loss": one._losses} for one in ones
        ],
    }


def _python(shown: ShownModel, one: FeatureImportance) -> dict[str, Any]:
    """The expressions with which the page writes a subgroup in Python."""
    written, classes = expressions(shown.X), one.sample.classes
    columns = [
        {"of": written.get(name, "np.asarray(by)"), **(literals(column.values) if kind_of(column) == "words" else {})}
        for name, column in shown.columns.items()
    ]
    return {"columns": columns, "target": {} if classes is None else literals(classes), "rows": rows_in_python(shown.X)}


def _names(index: NDArray[Any]) -> NDArray[Any] | list[str]:
    """Row numbers, or labels as text."""
    return index if index.dtype.kind in "iu" else [row_name(index, row) for row in range(len(index))]


def _column(column: Distinct) -> dict[str, Any]:
    kind, values = kind_of(column), column.values
    if kind == "words":
        named = texts(values)
        return {"kind": kind, "values": [named[code] for code in column.codes]}
    return {"kind": kind, "values": as_numbers(values)[column.codes]}


def _feature(
    one: FeatureImportance, shown: ShownModel, models: Mapping[str, Importances], target: dict[str, Any],
    shares: Mapping[str, ShapleyImportance], findings: Findings, size: sizes.Held, place: int,
    tick: Callable[[int], None], tested: Mapping[str, Mapping[str, float]],
) -> dict[str, Any]:  # fmt: skip
    """All that the page shows of a feature: its values, curves and regions, by the first model and by others."""
    group = len(one.columns) > 1
    column = None if group else shown.columns[one.columns[0]]
    grid = None if column is None else grid_of(one, column.codes, size.bins(place))
    kind = "group" if column is None else kind_of(column)
    values = None if group else one.values[0] if grid is None else grid.values
    others = list(models.items())[1:]
    name = next(iter(models))
    entries = [_entry(one, shares.get(name), one, grid, target)]
    single = grid is not None and place < size.curves
    if grid is not None and single:
        groups = [] if size.all_cells else _measured_groups(one, shown)
        entries[0] |= {
            "cells": _cells(one, grid, groups, size),
            "ice": _ice(one, grid, entries[0]["pd"], groups, size, shown_class(target)),
        }
    entries += [_entry(importances[one.name], shares.get(other), one, grid, target) for other, importances in others]
    far = models[name][one.name].extrapolation  # computed already for this result, not for `one`
    regions = regions_dict(findings.where(one), one.name, plain_error(models[name]))
    for entry, p in zip(entries, tested.values(), strict=True):
        entry["p"] = p.get(one.name, np.nan)  # Holm's, of all features
    tick(1)
    return {
        "name": one.name,
        "description": shown.descriptions.get(one.name, ""),
        "column": None if group else one.columns[0],
        "kind": kind,
        "ordered": column is not None and column.ordered,
        "values": None if values is None else labels(values) if kind == "words" else as_numbers(values),
        "labels": None if values is None else _labels(values, grid),
        "weights": None if values is None else np.asarray(one.weights if grid is None else grid.weights, float),
        "own": grid.own if grid is not None and (single or kind == "words") else None,  # numbers: from the column
        "models": entries,
        "extrapolation": extrapolation_dict(None if far is None else far.on(one.values[0]), grid),
        "regions": regions,
    }


def _labels(values: NDArray[Any], grid: PackedGrid | None) -> list[str]:
    if grid is None or len(grid.bin) == len(values):
        return labels(values)
    rarer = int(np.sum(grid.bin == len(values) - 1)) - 1  # of words, the rarest share the last bin
    return bin_labels(values, grid.last, rarer if values[-1] is grid.last[-1] or values[-1] == grid.last[-1] else 0)


def _entry(
    one: FeatureImportance, share: ShapleyImportance | None, first: FeatureImportance, grid: PackedGrid | None,
    target: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """One feature of one model; curves are on the grid of the first model, or missing."""
    numbers = {name: number_of(one, name) for name in NUMBERS}
    entry: dict[str, Any] = {
        "pfi": numbers.pop("importance"), **numbers,
        "caution": one._caution,  # rows unlike real ones have a mark of their own
        **_share(one.name, share),
        "exact": one.exact, "design": repr(one.design), "engine": one.engine, "local": one.local,
        **dict.fromkeys(("pi", "pi_low", "pi_high", "pd", "pd_low", "pd_high", "pd_classes", "ice", "cells")),
    }  # fmt: skip
    if one.values[0].ndim > 1 or not _same_values(one.values[0], first.values[0]):
        return entry
    return entry | _curves(one, grid, target)


def _same_values(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one is other or texts(one) == texts(other)


def _share(name: str, share: ShapleyImportance | None) -> dict[str, Any]:
    if share is None or name not in share.features:
        return dict.fromkeys(("sfimp", "sfimp_low", "sfimp_high", "share"))
    j = share.features.index(name)
    low, high = or_else(share.interval, (np.full(len(share.features), np.nan),) * 2)
    part = or_else(lambda: float(share.share[j]) if np.abs(share.share).max() <= MOST_SHARE else None, None)
    return {"sfimp": float(share.sfimp[j]), "sfimp_low": float(low[j]), "sfimp_high": float(high[j]), "share": part}


def _curves(one: FeatureImportance, grid: PackedGrid | None, target: dict[str, Any]) -> dict[str, Any]:
    """PI and PD, averaged over bins, with their bands; PD of the shown class, and without a band of the others."""
    effect = or_else(partial(effect_of, one, shown_class(target)), None)
    curves: dict[str, Any] = {}
    for name, result, curve in (("pi", one, one.pi), ("pd", effect, None if effect is None else effect.pd)):
        joined = curve if curve is None or grid is None else grid.joined(curve)
        band = None if result is None else or_else(partial(_band, result, grid, joined), None)
        curves |= {name: joined, f"{name}_low": band and band.low, f"{name}_high": band and band.high}
    return curves | {"pd_classes": None if curves["pd"] is None else _of_classes(one, grid, target)}


def _of_classes(one: FeatureImportance, grid: PackedGrid | None, target: dict[str, Any]) -> list[Floats | None] | None:
    """PD of each class that is drawn, in the order of the target's."""
    if target["classes"] is None:
        return None

    def pd(k: int) -> Floats | None:
        effect: FeatureEffect | None = or_else(partial(effect_of, one, target["classes"][k]), None)
        return None if effect is None else effect.pd if grid is None else grid.joined(effect.pd)

    return [pd(k) if k in target["drawn"] else None for k in range(len(target["classes"]))]


def _band(result: FeatureImportance | FeatureEffect, grid: PackedGrid | None, curve: Floats | None) -> Band:
    """The band of the binned curve, a mean over rows at each bin."""
    if grid is None or curve is None:
        return result.band()
    rows = result.cells.rows
    if not result.complete and len(rows) < MIN_CURVES:
        raise ValueError("too few rows have curves")
    single = grid.joined(result._curves)
    return band(single, curve, result.sample.weight[rows], None, result.sample.units(result.at), 0.95)


def _measured_groups(one: FeatureImportance, shown: ShownModel) -> list[Mask]:
    """Groups to measure the errors of low-rank forms on, by the feature's own column and others."""
    own = shown.columns[one.columns[0]]
    others = [column for column in shown.columns.values() if column is not own]
    return measured_on([column.codes.astype(float) for column in (own, *others)], one.sample.weight)


def _cells(one: FeatureImportance, grid: PackedGrid, groups: list[Mask], size: sizes.Held) -> dict[str, Any]:
    if size.all_cells:
        return {"kind": "whole", "values": grid.changes.astype(np.float32)}
    form = low_rank(grid, one.local, one.sample.weight, groups, size.rank)
    return form | width_errors(one, grid, form, groups)


def _ice(
    one: FeatureImportance,
    grid: PackedGrid,
    pd: Floats | None,
    groups: list[Mask],
    size: sizes.Held,
    shown: str | None,
) -> dict[str, Any] | None:
    """ICE curves of all rows, as the cells are."""
    if pd is None:
        return None
    curves = grid.joined(effect_of(one, shown).ice)
    if not np.isfinite(curves).all():
        return None
    if size.all_cells:
        return {"kind": "whole", "values": curves.astype(np.float32), "error": float(np.ptp(curves)) / 2**17}
    return low_rank_effect(curves, pd, one.sample.weight, grid.weights, groups, size.rank)
