"""Results as a plain dict: numbers, text and NumPy arrays. README.md defines the keys."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.page.cells import MOST_BINS, PackedGrid, grid_of, low_rank, measured_on
from losslens.page.findings import (
    Findings,
    absence_words,
    clusters_dict,
    extrapolation_dict,
    far_words,
    finding_words,
    pairs_dict,
    regions_dict,
    rows_dict,
)
from losslens.page.quality import error_ends, quality
from losslens.page.words import words
from losslens.results.effects import FeatureEffect
from losslens.results.importance import NUMBERS, FeatureImportance, number_of
from losslens.results.importances import Importances
from losslens.results.shapley import ShapleyImportance
from losslens.results.table import or_else
from losslens.tables.columns import Distinct, is_missing
from losslens.tables.row_labels import row_name
from losslens.typing import Floats
from losslens.uncertainty.bands import Band, band

Complete = Callable[[FeatureImportance], FeatureImportance]
FORMAT = 1
MOST_CELLS = 500_000  # of all features together, up to which the page holds every cell
MOST_CURVES = 200  # ICE curves


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


def summarise(
    shown: ShownModel,
    models: Mapping[str, Importances],
    shares: Mapping[str, ShapleyImportance],
    findings: Findings,
    complete: Complete,
    tick: Callable[[int], None],
) -> dict[str, Any]:
    """The dict; `complete` computes a streamed feature again with all of its cells."""
    first = next(iter(models.values()))
    table = _table(shown, models)
    numbers = {c["name"]: c["values"] for c in table["columns"] if c["kind"] in ("number", "integer")}
    heads = [_model(name, importances, shares.get(name)) for name, importances in models.items()]
    ends = (heads[0]["error_low"], heads[0]["error_high"])
    whole = sum(len(one.at) * one.meeting.size for one in first.values()) <= MOST_CELLS
    features = [_feature(complete(one), shown, models, shares, findings, whole, tick) for one in first._ranked]
    pairs, rows = pairs_dict(findings), rows_dict(findings.rows)
    top = words(models, shares, ends, shown.n_given, {k: v for k, v in numbers.items() if k in first})
    top["sentences"] += finding_words(features, pairs, rows)
    top["computed"] += absence_words(findings, bool(shares))
    top["careful"] += [text for text in (far_words(first.extrapolation),) if text]
    return {
        "format": FORMAT,
        "title": shown.title,
        "made": dt.date.today().isoformat(),  # local date
        "library": shown.library,
        "words": top,
        "loss": {"name": first.loss.name, "title": first.title, "least": None if first.loss.custom else 0.0},
        "n": len(shown.index),
        "n_given": shown.n_given,
        "models": heads,
        "by": shown.by,
        "table": table,
        "features": features,
        "interactions": pairs,
        "rows": rows,
        "clusters": clusters_dict(findings.clusters),
    }


def _model(name: str, importances: Importances, share: ShapleyImportance | None) -> dict[str, Any]:
    low, high = or_else(lambda: error_ends(importances._first), (np.nan, np.nan))
    return {
        "name": name, "error": importances.error, "error_low": low, "error_high": high,
        "error_none": None if share is None else share.error_none,
        "error_constant": or_else(lambda: importances.error_constant, None),
        "skill": or_else(lambda: importances.skill, None), "quality": quality(importances._first),
    }  # fmt: skip


def _table(shown: ShownModel, models: Mapping[str, Importances]) -> dict[str, Any]:

    ones = [importances._first for importances in models.values()]
    return {
        "columns": [{"name": name, **_column(column)} for name, column in shown.columns.items()],
        "y": shown.y,
        "index": _names(shown.index),
        "weight": ones[0].sample.weight,
        "models": [{"prediction": _predicted(one), "loss": one._base} for one in ones],
    }


def _names(index: NDArray[Any]) -> NDArray[Any] | list[str]:
    """Row numbers, or labels as text."""
    return index if index.dtype.kind in "iu" else [row_name(index, row) for row in range(len(index))]


def _predicted(one: FeatureImportance) -> NDArray[Any]:
    """One number a row: the value, the label, or the probability of the true class."""
    prediction, sample = one.sample.prediction, one.sample
    if prediction.ndim == 2:
        assert sample.y is not None  # every loss reads it
        return np.asarray(prediction[np.arange(sample.n), sample.y], float)
    if one.loss.reads == "labels" and sample.classes is not None:
        return np.asarray(sample.classes[prediction])
    return np.asarray(prediction, float)


def _column(column: Distinct) -> dict[str, Any]:
    kind, values = kind_of(column), column.values
    if kind == "words":
        return {"kind": kind, "values": [label(value) for value in values[column.codes]]}
    return {"kind": kind, "values": as_numbers(values)[column.codes]}


def kind_of(column: Distinct) -> str:
    """The axis of the values: numbers, integers, dates or words (categories)."""
    values = column.values
    if values.dtype.kind in "mM":
        return "date"
    if not column.ordered or values.dtype.kind not in "iuf":
        return "words"
    present = values[np.isfinite(values)]
    return "integer" if np.array_equal(present, np.round(present)) else "number"


def as_numbers(values: NDArray[Any]) -> Floats:
    """Numbers unchanged, dates as milliseconds; missing is NaN."""
    if values.dtype.kind not in "mM":
        return np.asarray(values, float)
    return np.where(np.isnat(values), np.nan, values.astype("datetime64[ms]").astype("i8").astype(float))


def label(value: Any) -> str:
    """A value as text."""
    if is_missing(value) or (isinstance(value, (np.datetime64, np.timedelta64)) and np.isnat(value)):
        return "missing"
    if isinstance(value, (float, np.floating)):
        return f"{value + 0.0:.6g}"  # + 0.0: no negative zero
    return str(value)


def _feature(
    one: FeatureImportance, shown: ShownModel, models: Mapping[str, Importances],
    shares: Mapping[str, ShapleyImportance], findings: Findings, whole: bool, tick: Callable[[int], None],
) -> dict[str, Any]:  # fmt: skip
    group = len(one.columns) > 1
    column = None if group else shown.columns[one.columns[0]]
    grid = None if column is None else grid_of(one, column.codes, None if whole else MOST_BINS)
    kind = "group" if column is None else kind_of(column)
    values = None if group else one.values[0] if grid is None else grid.values
    others = list(models.items())[1:]
    name = next(iter(models))
    entries = [_entry(one, shares.get(name), grid)]
    if grid is not None:
        entries[0] |= {"cells": _cells(one, grid, shown, whole), "ice": _ice(one, grid)}
    entries += [_entry(importances[one.name], shares.get(other), grid) for other, importances in others]
    far = models[name][one.name].extrapolation  # computed already for this result, not for `one`
    regions = regions_dict(findings.where(one), one.name)
    tick(1)
    return {
        "name": one.name,
        "column": None if group else one.columns[0],
        "kind": kind,
        "values": None if values is None else [label(v) for v in values] if kind == "words" else as_numbers(values),
        "labels": None if values is None else _labels(values, grid),
        "weights": None if values is None else np.asarray(one.weights if grid is None else grid.weights, float),
        "own": None if grid is None else grid.own,
        "models": entries,
        "extrapolation": extrapolation_dict(None if far is None else far.on(one.values[0]), grid),
        "regions": regions,
    }


def _labels(values: NDArray[Any], grid: PackedGrid | None) -> list[str]:
    if grid is None or len(grid.bin) == len(values):
        return [label(value) for value in values]
    pairs = [(label(a), label(b)) for a, b in zip(values, grid.last, strict=True)]
    ends = [a if a == b else f"{a} to {b}" for a, b in pairs]
    rare = int(np.sum(grid.bin == len(values) - 1)) - 1
    if rare > 0 and pairs[-1][0] == pairs[-1][1]:  # words: the rarest share the last bin
        ends[-1] += f" and {rare:,} rarer"
    return ends


def _entry(one: FeatureImportance, share: ShapleyImportance | None, grid: PackedGrid | None) -> dict[str, Any]:
    """One feature of one model; curves are on the grid of the first model, or missing."""
    numbers = {name: number_of(one, name) for name in NUMBERS}
    entry: dict[str, Any] = {
        "pfi": numbers.pop("importance"), **numbers, "p": or_else(lambda: one.p_value, np.nan),
        "caution": one.caution,
        **_share(one.name, share),
        "exact": one.exact, "design": repr(one.design), "engine": one.engine, "local": one.local,
        **dict.fromkeys(("pi", "pi_low", "pi_high", "pd", "pd_low", "pd_high", "ice", "cells")),
    }  # fmt: skip
    if one.values[0].ndim > 1 or (grid is not None and len(one.values[0]) != len(grid.bin)):
        return entry
    return entry | _curves(one, grid)


def _share(name: str, share: ShapleyImportance | None) -> dict[str, Any]:
    if share is None or name not in share.features:
        return dict.fromkeys(("sfimp", "sfimp_low", "sfimp_high", "share"))
    j = share.features.index(name)
    low, high = or_else(share.interval, (np.full(len(share.features), np.nan),) * 2)
    part = or_else(lambda: float(share.share[j]), None)
    return {"sfimp": float(share.sfimp[j]), "sfimp_low": float(low[j]), "sfimp_high": float(high[j]), "share": part}


def _curves(one: FeatureImportance, grid: PackedGrid | None) -> dict[str, Any]:
    """PI and PD, averaged over bins, with their bands."""
    effect = or_else(lambda: one.effect, None)
    curves: dict[str, Any] = {}
    for name, result, curve in (("pi", one, one.pi), ("pd", effect, None if effect is None else effect.pd)):
        band = None if result is None else or_else(partial(_band, result, grid), None)
        curves[name] = curve if curve is None or grid is None else grid.joined(curve)
        curves |= {f"{name}_low": band and band.low, f"{name}_high": band and band.high}
    return curves


def _band(result: FeatureImportance | FeatureEffect, grid: PackedGrid | None) -> Band:
    """The band of the binned curve, a mean over rows at each bin."""
    if grid is None or not result.complete:
        return result.band()
    single = grid.changes if isinstance(result, FeatureImportance) else grid.joined(result.ice)
    weight = result.sample.weight[result.at]
    return band(single, weight / weight.sum() @ single, weight, None, len(weight), 0.95)


def _cells(one: FeatureImportance, grid: PackedGrid, shown: ShownModel, whole: bool) -> dict[str, Any]:
    if whole:
        return {"kind": "whole", "values": grid.changes.astype(np.float32)}
    own = shown.columns[one.columns[0]]
    others = [column for column in shown.columns.values() if column is not own]
    groups = measured_on([column.codes.astype(float) for column in (own, *others)], len(grid.own))
    return low_rank(grid, one.local, one.sample.weight, groups)


def _ice(one: FeatureImportance, grid: PackedGrid) -> dict[str, Any] | None:
    """ICE curves of some rows, evenly spaced along their local importances."""
    effect = or_else(lambda: one.effect, None)
    if effect is None:
        return None
    order = np.argsort(one.local, kind="stable")
    rows = np.unique(order[np.linspace(0, len(order) - 1, min(MOST_CURVES, len(order))).round().astype(np.intp)])
    curves = grid.joined(effect.at_positions(rows).ice)
    return {"rows": rows, "values": curves.astype(np.float32)}
