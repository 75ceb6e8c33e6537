"""What objects from a file must be for their methods to work: types as annotated, shapes and positions as stated here.

Objects that the library computed satisfy this by construction. A file may have been damaged, or edited by hand: all of
that, and nothing else, is `Damaged`. Any other error is one of the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields
from functools import cache
from inspect import signature
from itertools import combinations
from math import prod
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from losslens.losses import OutputsLoss, Response, outputs_of
from losslens.losses.rows import FAMILIES
from losslens.losses.vectors import FROM_METADATA
from losslens.results.selection import Grouped
from losslens.tables.row_labels import find_rows
from losslens.typing import Indices

MOST = 1 << 62  # in absolute value, of whole numbers
ALL_ROWS = 10_000_000  # that folds may have been drawn from, however few they are
# One letter a dimension, or the length of a tuple: equal letters are equal numbers. "...": any further dimensions.
SHAPES = {
    "ByGroup": {"labels": "k", "codes": "n"},
    "Cells": {"rows": "r", "predictions": "r c ...", "changes": "r c"},
    "Clusters": {
        "labels": "n", "weight": "n", "profiles": "k p", "rules": "k", "cluster_stability": "k", "features": "p",
        "row_labels": "n",
    },
    "CodedRows": {"names": "p", "values": "p", "ordered": "p", "codes": "r p"},
    "CommonGrid": {"own": "n", "donors": "d", "steps": "n"},
    "Conditioning": {"leaf": "n"},
    "Extrapolation": {"grid": "g ...", "at": "g"},
    "FeatureResult": {"at": "r", "observed": "r 2"},
    "FeatureScore": {
        "column_scores": "m", "column_shares": "m", "column_bases": "m", "curve": "g", "shares": "g", "without": "u",
        "score_without": "u",
    },
    "Gap": {
        "names": "2", "features": "p", "n": "2", "error": "2", "without": "2", "shares": "2 p", "centre": "l",
        "std_error": "l", "skewness": "l", "freedom": "l",
    },
    "Interactions": {"features": "p", "index": "p p", "unbiased": "p p", "std_error": "p p", "skewness": "p p"},
    "LeftOut": {"features": "p", "loss": "n", "weight": "n", "per_fold": "m p", "training_variance": "n p"},
    "Means": {
        "local": "r", "mass": "r", "pi": "g", "weights": "g", "pd": "g ...", "caused": "n", "lent": "n",
    },
    "Observations": dict.fromkeys(
        ("importance", "loss", "weight", "target", "prediction", "influence", "influence_on", "row_labels"), "n"
    ),
    "OverTime": dict.fromkeys(("start", "end", "middle", "rows"), "b")
    | {"features": "p"}
    | dict.fromkeys(("importance", "std_error", "low", "high"), "b p")
    | dict.fromkeys(("overall", "step", "before", "after", "p"), "p"),
    "OwnDonors": {"place": "a ..."},
    "PermutedTarget": {"features": "p", "importance": "p", "null": "b p"},
    "RefitCurve": {"grid": "g", "folds": "m g", "reach": "g"},
    "Refits": {"folds": "m", "tested": "m", "trained": "m", "without": "m p"},
    "Region": {"rows": "n"},
    "RowChanges": {"features": "p", "local": "n p", "weight": "n", "block": "n", "row_labels": "n"},
    "RowInfluence": {"as_row": "n", "as_donor": "n", "row_labels": "n"},
    "Sample": {
        "weight": "n", "prediction": "n ...", "y": "n ...", "loss": "n", "classes": "k", "block": "n",
        "row_labels": "n",
    },
    "ScoredCells": {"predictions": "n c ..."},
    "ScoredRows": {"at": "r"},
    "Segment": {"rows": "n"},
    "ShapleyCurve": {"grid": "g ...", "weights": "g", "importance": "g"},
    "ShapleyEffect": {
        "features": "p", "local": "r p", "prediction": "r", "base": "r", "std_error": "r p", "row_labels": "r",
    },
    "ShapleyImportance": {
        "features": "p", "sfimp": "p", "monte_carlo_error": "p", "covariance": "p p",
        "cubes": "p p", "index": "p p", "at": "r", "gains": "r", "table": "t", "both": "r p",
    },
    "Shares": {"local": "r p", "caused": "n p", "cells": "r m p", "local_error": "r p"},
    "Shifts": {"place": "n", "donor": "n", "shifts": "m"},
    "Totals": {"rows": "r"},
    "Values": {"distinct": "p", "codes": "n p", "ordered": "p", "columns": "p"},
    "WeakSegments": {"row_labels": "n"},
}  # fmt: skip


class Damaged(ValueError):  # noqa: N818 - said of a file
    """The content of a file is not what the library writes."""


class Retired(Exception):  # noqa: N818 - said of a file
    """The file holds what an earlier release computed, and this one has no place for."""


# Fields of earlier states, which most results left empty.
RETIRED = {("ShapleyImportance", "sampling"), ("FeatureScore", "known_as_streamed")}
RETIRED_KINDS = {"BreimanImportance"}


def need(condition: Any, sentence: str) -> None:
    """Raise Damaged unless a condition holds."""
    if not condition:
        raise Damaged(sentence)


@contextmanager
def refusing() -> Iterator[None]:
    """What a method of ours refuses about a value, it refuses about the file."""
    try:
        yield
    except ValueError as error:
        raise Damaged(str(error)) from error


def check_fields(kind: type, content: dict[str, Any]) -> None:
    """Raise Damaged unless an object can be made of these fields: no more and no less, each of its type."""
    own = {field.name: field for field in fields(kind) if field.init}
    for name in content.keys() - own.keys():
        need((kind.__name__, name) in RETIRED, f"{kind.__name__} has no field {name}")
        empty = content.pop(name)
        if empty is not None and empty is not False:
            raise Retired(f"was written by an earlier losslens, and this one has no {name}: compute the result again")
    for name, field in own.items():
        if name in content:
            fits = _fits(content[name], _hints(kind)[name])
            need(fits, f"{kind.__name__}.{name} is {_shown(content[name])}, and not {field.type}")
        else:
            need(
                field.default is not MISSING or field.default_factory is not MISSING,
                f"{kind.__name__}.{name} is missing",
            )


# What files say about a loss; those of outputs and of one output say more.
LOSS: dict[str, Any] = {"name": str, "reads": Response, "title": str, "custom": bool, "parameters": dict[str, float]}
OUTPUTS: dict[str, Any] = {"outputs": list, "weights": list, "each": list}


def check_loss(said: Any) -> None:
    """Raise Damaged unless a loss can be made of what a file says about it."""
    need(isinstance(said, dict), "a loss without a name")
    _check_entries(said, LOSS, "a loss")
    if "of" in said:
        check_loss(said["of"])
        need(said["of"]["reads"] == "outputs", "an output of a loss without outputs")
        _check_entries(said, {"k": int}, "a loss")
        need(0 <= said["k"] < len(said["of"]["outputs"]), "a loss of no output")
    elif said["reads"] == "outputs":
        _check_entries(said, OUTPUTS, "a loss")
        numbers = said["weights"] + (said["outputs"] if said["name"] in FROM_METADATA and not said["custom"] else [])
        need(all(_fits(one, float) for one in numbers), "weights or outputs of a loss that are no numbers")
        need(all(isinstance(one, (str, int, float)) for one in said["outputs"]), "outputs of a loss without names")
        need(len(said["weights"]) in (0, len(said["outputs"])), "weights of other outputs")
        for one in said["each"]:
            check_loss(one)
    elif said["name"] in FAMILIES and not said["custom"]:
        known = signature(FAMILIES[said["name"]]).parameters
        need(said["parameters"].keys() <= known.keys(), f"{said['name']} has other parameters")


# Of version 0.1: sums over all rows of files.
WHOLE: dict[str, Any] = {"n": int, "units": int, "rows": Indices, "moved": NDArray[Any]} | dict.fromkeys(
    ("error", "up", "variance", "cubes", "error_variance", "covariance", "noise"), float
)


def check_whole(said: Any) -> None:
    """Raise Damaged unless these are sums over the rows of files."""
    need(isinstance(said, dict), "sums over files are none")
    _check_entries(said, WHOLE, "sums over files")
    need(1 < said["units"] <= said["n"] and said["up"] > 0, "sums over files of no rows")


def _check_entries(said: dict[str, Any], hints: dict[str, Any], what: str) -> None:
    for name, hint in hints.items():
        need(_fits(said.get(name), hint), f"{name} of {what} is {_shown(said.get(name))}")


def check(thing: Any) -> None:
    """Raise Damaged unless an object from a file, whose fields have their types, is one that could have been saved."""
    for kind in reversed(type(thing).__mro__):
        _check_shapes(thing, SHAPES.get(kind.__name__, {}))
    if (labels := vars(thing).get("row_labels")) is not None:
        need(len(set(labels.tolist())) == len(labels), "a label of a row occurs twice")
    for kind in reversed(type(thing).__mro__):
        if kind.__name__ in RULES:
            RULES[kind.__name__](thing)


_hints: Callable[[type], dict[str, Any]] = cache(get_type_hints)


_KINDS: dict[Any, str] = {
    np.float64: "iuf",
    np.intp: "iu",
    np.int32: "iu",
    np.bool_: "b",
}  # of the dtypes that an annotation allows


def _fits(value: Any, hint: Any) -> bool:
    hint = _unaliased(hint)
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in args)
    if origin is Literal:
        return isinstance(value, str) and value in args
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype.kind in _KINDS.get(get_args(args[1])[0], "biufmMUSO")
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, args[0]) for item in value)
    if origin is dict:
        parts = value.items() if isinstance(value, dict) else ()
        return isinstance(value, dict) and all(_fits(k, args[0]) and _fits(v, args[1]) for k, v in parts)
    if hint in (int, float):
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST
        return whole or (hint is float and isinstance(value, float))
    return isinstance(value, origin or hint)


def _unaliased(hint: Any) -> Any:
    """What an alias such as NDArray[...] stands for: since NumPy 2.5 it is an object of its own, no ndarray[...]."""
    value = getattr(get_origin(hint), "__value__", None)
    return hint if value is None else value[get_args(hint)]


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} and shape {value.shape}"
    return repr(value)[:50] if isinstance(value, (bool, int, float, str, type(None))) else f"a {type(value).__name__}"


def _check_shapes(thing: Any, shapes: dict[str, str]) -> None:
    known: dict[str, int] = {}
    for name, text in shapes.items():
        value = getattr(thing, name)
        if value is None:
            continue
        shape = value.shape if isinstance(value, np.ndarray) else (len(value),)
        letters = text.removesuffix(" ...").split()
        sizes = shape[: len(letters)] if text.endswith("...") else shape
        agree = len(sizes) == len(letters) and all(
            size == (int(letter) if letter.isdigit() else known.setdefault(letter, size))
            for size, letter in zip(sizes, letters, strict=True)
        )
        if not agree:
            raise Damaged(f"{type(thing).__name__}.{name} has shape {shape}, which contradicts its other arrays")


def _within(array: Any, low: int, high: int, what: str) -> None:
    """Whether positions are in low .. high - 1."""
    need(array.size == 0 or (array.min() >= low and array.max() < high), f"{what} are outside {low} to {high - 1}")


def _ascending(array: Any, what: str) -> None:
    need((np.diff(array) > 0).all(), f"{what} are not in ascending order")


def _numeric(array: Any, what: str) -> None:
    need(array.dtype.kind in "iuf", f"{what} are no numbers")


def _sample(sample: Any) -> None:
    _check_weight(sample.weight)
    _numeric(sample.prediction, "predictions")
    need(sample.prediction.ndim <= 2, "predictions have more than two dimensions")
    if sample.classes is not None:
        need(len(sample.classes) > 0, "there are no classes")
        if sample.y is not None:
            need(sample.y.dtype.kind in "iu", "y are no positions of classes")
            _within(sample.y, 0, len(sample.classes), "y")
        if sample.prediction.dtype.kind == "i":  # labels; -1: of no class of y
            _within(sample.prediction, -1, len(sample.classes), "predicted classes")
    if sample.totals is not None:
        need(len(sample.totals.rows) == sample.n, "rows of files are not those of the sample")


def _check_weight(weight: Any) -> None:
    """Weights sum to one; those of some rows of files to a part of it. Shapley values of files keep no row."""
    good = not len(weight) or (np.isfinite(weight).all() and weight.min() >= 0 and 0 < weight.sum() < 1 + 1e-6)
    need(good, "weights are negative, or do not sum to one")


def _totals(totals: Any) -> None:
    _within(totals.rows, 0, totals.n, "rows of files")
    need(2 <= totals.units <= totals.n, f"{totals.units} rows with weight of {totals.n}")
    need(0 <= totals.squares < 1, "the sum of squared weights is not between 0 and 1")


def _common_grid(grid: Any) -> None:
    need(grid.size >= 0, "a grid has a negative size")
    _within(grid.own, -1, grid.size, "grid positions")
    _within(grid.donors, 0, len(grid.own), "donors")
    _within(grid.own[grid.donors], 0, grid.size, "grid positions of donors")


def _own_donors(own: Any) -> None:
    n, m = _lent(own.donors)
    shapes = [(m,)] if own.binned else [(n,), (n, m)]
    need(own.place.shape in shapes, f"places of shape {own.place.shape} for {n} rows with {m} donors each")
    _within(own.place, 0, own.size, "grid positions")
    need(not own.mirrored or m % 2 == 0, f"{m} donors a row, of which half mirror the others")


def _lent(donors: Any) -> tuple[int, int]:
    need(len(donors.shape) == 2, "donors are no table")
    if isinstance(donors, np.ndarray):
        _within(donors, -1, len(donors), "donors")
    return int(donors.shape[0]), int(donors.shape[1])


def _shifts(shifts: Any) -> None:
    n = len(shifts.donor)
    for name in ("place", "donor", "shifts"):
        if getattr(shifts, name) is not None:
            _within(getattr(shifts, name), 0, n, f"{name} of shifts")
    if shifts.place is None:  # computed from the donors
        need((np.bincount(shifts.donor, minlength=n) == 1).all(), "a donor of shifts occurs twice")


def _coded_rows(rows: Any) -> None:
    for values, codes in zip(rows.values, rows.codes.T, strict=True):
        _check_grid(values, ("one",))
        _within(codes, 0, len(values), "codes")


def _values(values: Any) -> None:
    for distinct, codes, columns in zip(values.distinct, values.codes.T, values.columns, strict=True):
        _check_grid(distinct, columns)
        _within(codes, 0, len(distinct), "codes")


def _check_grid(values: Any, columns: tuple[str, ...]) -> None:
    need(columns, "a feature has no columns")
    expected = (len(values),) if len(columns) == 1 else (len(values), len(columns))
    need(values.shape == expected, f"a grid of shape {values.shape} for {len(columns)} columns")


def _check_grids(one: Any) -> None:
    """Of a feature, or of the two of a pair."""
    need(len(one.values) in (1, 2) and len(one.columns) >= len(one.values), "a grid of no feature, or of three")
    for values, columns in zip(one.values, [one.columns] if len(one.values) == 1 else one.columns, strict=False):
        _check_grid(values, columns if isinstance(columns, tuple) else (columns,))


def _rows_paired(meeting: Any) -> int:
    """The rows that a layout pairs with donors."""
    return len(meeting.own) if hasattr(meeting, "own") else int(meeting.donors.shape[0])


def _conditioning(conditioning: Any) -> None:
    if conditioning.leaf is not None:
        _within(conditioning.leaf, 0, len(conditioning.rules), "leaves")


def _impact(result: Any) -> None:
    need(len(result.conditioning) in (0, len(result.features)), "draws of other features")


def _replaced_rows(rows: Any) -> None:
    need(rows.columns, "replaced rows of no column")
    _within(np.array(rows.columns), 0, len(rows.among.names), "columns")
    if rows.drawn is not None:
        need(len(rows.drawn) == len(rows.columns), "drawn values")
        need(len({values.shape for values in rows.drawn}) == 1, "drawn values")
        need(rows.drawn[0].ndim == 1 and len(rows.drawn[0]) > 0, "drawn values")


def _feature(one: Any) -> None:
    """The parts of a feature's result fit together."""
    n, r, size, cells, means = one.sample.n, len(one.at), one.meeting.size, one.cells, one.means
    _check_grids(one)
    need(size == prod(map(len, one.values)), f"{size} grid positions for grids of {[len(v) for v in one.values]}")
    rows = _rows_paired(one.meeting)
    need(rows == n, f"donors of {rows} rows for a sample of {n}")
    need(r > 0, "no rows")
    _ascending(one.at, "rows")
    _within(one.at, 0, n, "rows")
    _ascending(cells.rows, "rows of cells")
    need(np.isin(cells.rows, one.at).all(), "cells of other rows")
    width = (len(cells.rows), one.meeting.width)
    _numeric(cells.predictions, "predictions")
    need(cells.predictions.shape == width + one.sample.prediction.shape[1:], "cells do not fit their rows and values")
    for name, length in (("mass", r), ("local", r), ("pi", size), ("weights", size), ("pd", size), ("caused", n)):
        values = getattr(means, name)
        need(values is None or len(values) == length, f"means: {name} has a wrong length")
    outputs = [one.sample.prediction.shape[1:]]
    if one.sample.classes is not None:
        outputs.append((len(one.sample.classes),))  # how often each label is predicted
    need(means.pd is None or means.pd.shape[1:] in outputs, "means: pd has other outputs than the predictions")
    need(means.local is None or means.weights is not None, "importances without weights of the values")
    need((means.caused is None) == (means.lent is None), "means of donors without their weights")
    if one.observed is not None:
        need(len(one.values) == 2, "positions on two grids of one feature")
        for column, values in zip(one.observed.T, one.values, strict=True):
            need(not np.isnan(column).all() and np.nanmax(column) <= len(values), "positions outside of the grid")
    if one.conditioning is not None and one.conditioning.leaf is not None:
        need(len(one.conditioning.leaf) == n, "leaves of other rows")


def _importance(one: Any) -> None:
    sample, loss = one.sample, one.loss
    need(sample.loss is not None and one.cells.changes is not None, "an importance without losses")
    need(sample.totals is not None or sample.y is not None, "an importance without y")
    if one.means.local is None and one.means.total is not None:
        raise Retired("was written by an earlier losslens, and holds a total alone: compute the result again")
    need(one.means.weights is None or one.means.local is not None, "no importance")
    dimensions = {"values": (1,), "labels": (1,), "probabilities": (2,), "scores": (1, 2), "outputs": (2,)}[loss.reads]
    need(sample.prediction.ndim in dimensions, f"{loss.name} needs {loss.reads}, and the predictions are others")
    if loss.reads == "outputs":
        _check_outputs(sample, loss)
        return
    if sample.y is not None and not loss.custom:
        kinds = "biuf" if loss.reads == "values" else "iu"
        need(sample.y.dtype.kind in kinds, f"{loss.name} needs other values of y")
        need(sample.y.ndim == 1, f"{loss.name} needs one value of y for each row")
    if sample.classes is not None and sample.prediction.ndim == 2:
        need(sample.prediction.shape[1] == len(sample.classes), "as many predictions as classes are needed")
    elif sample.prediction.ndim == 2 and sample.y is not None and not loss.custom:
        _within(sample.y, 0, sample.prediction.shape[1], "y")


def _check_outputs(sample: Any, loss: Any) -> None:
    outputs = outputs_of(loss) or ()
    need(loss.custom or sample.prediction.shape[1] == len(outputs), "predictions of other outputs")
    need(len(set(outputs)) == len(outputs), "an output occurs twice")
    if sample.y is not None and not loss.custom:
        need(sample.y.dtype.kind in "biuf", f"{loss.name} needs other values of y")
        with refusing():
            loss.check_target(sample.y)


def _mapping(features: Any, kind: str) -> None:
    need(features, "there are no features")
    for name, one in features.items():
        need(type(one).__name__ == kind and one.name == name, f"{name!r} is not a {kind} of this name")


def _importances(result: Any) -> None:
    scored = type(result).__name__ == "Scores"
    _mapping(result.features, "FeatureScore" if scored else "FeatureImportance")
    if not scored:
        _one_sample(result.features.values())
        loss = result.loss
        names = loss.outputs if isinstance(loss, OutputsLoss) else ()
        need(tuple(result.by_output) in ((), tuple(names)), "importances of other outputs")
        for one in result.by_output.values():
            need(list(one) == list(result) and not one.by_output, "outputs with other features")
        return
    left_out = {(len(one.without), one.units) for one in result.features.values() if one.without is not None}
    need(len(left_out) <= 1, "scores without different rows, groups or blocks")


def _one_sample(features: Iterable[Any]) -> None:
    sizes = {(len(one.at), one.sample.n, one.sample.prediction.shape, one.loss) for one in features}
    need(len(sizes) == 1, "features of different rows or losses")


def _effects(result: Any) -> None:
    _mapping(result.features, "FeatureEffect")
    need(len({len(one.at) for one in result.features.values()}) == 1, "features of different rows")


def _score(one: Any) -> None:
    _check_grids(one)
    if one.curve is not None:
        need(len(one.curve) == prod(map(len, one.values)), "a curve that does not fit its grid")
    if one.shares is not None:
        need(len(one.shares) == prod(map(len, one.values)), "weights that do not fit their grid")
    need((one.column_scores is None) == (one.column_shares is None), "scores without their weights")
    held = [one.own, one.column_cells, one.curve_cells]
    need(held == [None] * 3 or None not in held, "rows without cells, or cells without rows")
    for cells in held[1:]:
        if cells is not None:
            sample = one.own.sample
            need(_rows_paired(cells.meeting) == sample.n, "donors of other rows")
            shape = (sample.n, cells.meeting.width, *sample.prediction.shape[1:])
            need(cells.predictions.shape == shape, "cells do not fit their rows and values")


def _scored_rows(rows: Any) -> None:
    sample, judge = rows.sample, rows.judge
    need(type(judge).__name__ == "PredictionScore", "a score of no scorer")
    need(len(rows.at) > 0 and sample.y is not None, "a score of no rows, or without y")
    _ascending(rows.at, "rows")
    _within(rows.at, 0, sample.n, "rows")
    need((judge.classes is None) == (sample.classes is None), "classes of a score, or none")
    if judge.classes is not None:
        _within(sample.y, 0, len(judge.classes), "y")
        columns = 1 if sample.prediction.ndim == 1 else sample.prediction.shape[1]
        need(columns in (1, len(judge.classes)), "as many predictions as classes are needed")
        need(judge.areas in (None, "two") or columns > 1, "an AUC of several classes of one number a row")
        if judge.method == "predict":
            need(sample.prediction.dtype.kind in "iu", "labels that are no positions of classes")


def _scored_cells(cells: Any) -> None:
    _numeric(cells.predictions, "predictions")


def _prediction_score(score: Any) -> None:
    need(score.scorer is None, "a scorer, which files don't hold")
    need(score.method in ("predict", "predict_proba", "decision_function"), "a score of no method")
    need(score.classes is None or score.classes.ndim == 1, "classes are no list")
    need(score.areas is None or score.classes is not None, "an AUC without classes")


def _extrapolation(one: Any) -> None:
    need(one.grid.ndim == 1 or len(one.grid) == 0, f"a grid of shape {one.grid.shape} for one column")


def _extrapolations(result: Any) -> None:
    for name, one in result.features.items():
        need(one.name == name, f"{name!r} is not of this name")


def _shapley(result: Any) -> None:
    p, r, n, shares = len(result.features), len(result.at), result.sample.n, result.shares
    _names(result.features)
    need(r > 0 or result.sample.totals is not None, "no rows")
    _ascending(result.at, "rows")
    _within(result.at, 0, n, "rows")
    need(result.values.codes.shape == (n, p), "values of other rows or features")
    need(result.table is None or len(result.table) == 1 << min(p, 62), "errors of some coalitions only")
    need(result.freedom > 0, "no degrees of freedom")
    need(result.both is None or result.both.shape == (n, p), "both roles of other rows or features")
    need((result.covariance is None) == (result.cubes is None), "covariances without third moments")
    if result.covariance is not None:
        variance = np.diagonal(result.covariance)
        need(np.array_equal(result.covariance, result.covariance.T) and (variance >= 0).all(), "no covariances")
    if shares is None:
        return
    need(result.sample.loss is not None, "shares without losses")
    need(shares.local.shape == (r, p), "shares of other rows or features")
    need(shares.local_error is None or shares.local_error.shape == (r, p), "errors of other rows or features")
    need(shares.caused is None or shares.caused.shape == (n, p), "shares of other donors")
    need(_rows_paired(shares.meeting) == n == shares.meeting.size, "pairs of other rows")
    need(shares.cells is None or shares.cells.shape == (r, shares.meeting.width, p), "shares of other pairs")


def _names(features: tuple[str, ...]) -> None:
    need(features and len(set(features)) == len(features), "no features, or a feature twice")


def _shapley_effect(result: Any) -> None:
    _names(result.features)
    need(len(result.local) > 0, "no rows")
    need(result.values.codes.shape == result.local.shape, "values of other rows or features")


def _row_changes(result: Any) -> None:
    _names(result.features)
    _check_weight(result.weight)


def _clusters(result: Any) -> None:
    _names(result.features)
    _check_weight(result.weight)
    need(result.k > 0, "no clusters")
    _within(result.labels, -1, result.k, "clusters")
    need((result.labels >= 0).any() and result.weight[result.labels >= 0].sum() > 0, "empty clusters")


def _refits(result: Any) -> None:
    need(len(result.folds) > 1, "fewer than two folds")
    need(result.n <= max(ALL_ROWS, 1000 * sum(map(len, result.tested))), f"{result.n} rows, of which few were tested")
    need(len({type(fold) for fold in result.folds}) == 1, "folds of different kinds")
    need(len({tuple(fold.features) for fold in result.folds}) == 1, "folds of different features")
    without = result.without
    need(without is None or without.shape[1] == len(result.features), "jackknife of other features")
    for fold, rows, trained in zip(result.folds, result.tested, result.trained, strict=True):
        need(rows.ndim == 1, "test rows are no list")
        _within(rows, 0, result.n, "test rows")
        need(trained > 0, f"{trained} training rows")  # more than n where rows are drawn with replacement
        if type(fold).__name__ != "Scores":
            known = fold.at if hasattr(fold, "at") else next(iter(fold.features.values())).at
            need(len(known) == len(rows), "a fold of other rows")


def _comparison(result: Any) -> None:
    models = result.importances
    need(models and len({tuple(one.features) for one in models.values()}) == 1, "models with different features")
    need(len({type(one) for one in models.values()}) == 1, "models compared by a loss and by a score")
    for one in models.values():
        with refusing():  # where there is none
            need([feature.pfi for feature in one.values()], "models without importances")
    if result.paired and type(next(iter(models.values()))).__name__ == "Importances":
        need(len({len(one.local) for one in models.values()}) == 1, "models on different rows")
    pairs = [(one, other) for one, others in result.shifts.items() for other in others]
    need(not pairs or pairs == list(combinations(models, 2)), "shifts between other sets of rows")
    for shifts in (result.shifts[one][other] for one, other in pairs):
        need(len(shifts) == len(next(iter(models.values())).features), "shifts of other features")
    if result.shapley:
        need(list(result.shapley) == list(models), "shares of other models")
        own = {tuple(one.features) for one in models.values()}
        need({one.features for one in result.shapley.values()} == own, "shares of other features")


def _regions(result: Any) -> None:
    _mapping(result.features, "FeatureImportance")
    for region in result.regions:
        need(region.feature in result.features, f"a region of {region.feature!r}, which is no feature")
        one = result.features[region.feature]
        if one.row_labels is None:
            _within(region.rows, 0, len(one.at), "rows of regions")
        else:
            with refusing():
                find_rows(region.rows, one.row_labels)
    for name in result.found:
        need(sum(region.depth == 1 for region in result.of(name)) == 2, f"not two sides of {name!r}")


def _weak_segments(result: Any) -> None:
    labels = result.row_labels
    need(result.n > 0 and (labels is None or len(labels) == result.n), "labels of other rows")
    need(bool(result.segments) != bool(result.why), "segments, and why there are none")
    for segment in result.segments:
        if labels is None:
            _within(segment.rows, 0, result.n, "rows of segments")
        else:
            with refusing():
                find_rows(segment.rows, labels)


def _observations(result: Any) -> None:
    _check_weight(result.weight)


def _interactions(result: Any) -> None:
    _names(result.features)
    need(result.units >= 2 or result.std_error is None, "standard errors from fewer than two rows")
    for part in result.parts.values():
        need(part.features == result.features and not part.parts, "parts of other features")


def _gap(result: Any) -> None:
    _names(result.features)
    need(len(result.centre) == (0 if result.why else len(result.features) + 2), "intervals of other lines")
    need((result.freedom > 0).all(), "no degrees of freedom")


def _by_group(result: Any) -> None:
    need(isinstance(result.every, Grouped), "groups of no result that has rows")
    labels = result.labels.tolist()
    need(labels and len(set(labels)) == len(labels), "no group, or a group twice")
    _within(result.codes, 0, len(labels), "groups")
    with refusing():  # groups of other rows
        need(len(result.every._split(result.codes)) == len(labels), "a group without rows")
    need(result.name.strip(), "groups without a name")


def _over_time(result: Any) -> None:
    _named(result)
    need(len(result.start) > 0, "no stretch of time")
    kinds = {times.dtype.kind for times in (result.start, result.end, result.middle)}
    need(kinds in ({"f"}, {"M"}, {"m"}), "times of several kinds")
    _within(result.step, -1, len(result.start), "steps")


def _named(result: Any) -> None:
    _names(result.features)


RULES: dict[str, Callable[[Any], None]] = {
    "ByGroup": _by_group, "Clusters": _clusters, "CodedRows": _coded_rows,
    "CommonGrid": _common_grid,
    "Comparison": _comparison, "ConditionalImpact": _impact, "Conditioning": _conditioning, "Effects": _effects,
    "Extrapolation": _extrapolation, "Extrapolations": _extrapolations,
    "FeatureImportance": _importance, "FeatureResult": _feature, "FeatureScore": _score, "Gap": _gap,
    "Importances": _importances,
    "Interactions": _interactions, "Observations": _observations, "OverTime": _over_time, "OwnDonors": _own_donors,
    "PermutedTarget": _named,
    "PredictionScore": _prediction_score, "Refits": _refits, "Regions": _regions, "ReplacedRows": _replaced_rows,
    "RowChanges": _row_changes, "Sample": _sample, "ScoredCells": _scored_cells, "ScoredRows": _scored_rows,
    "ShapleyEffect": _shapley_effect, "ShapleyImportance": _shapley, "Shifts": _shifts,
    "Totals": _totals, "Values": _values, "WeakSegments": _weak_segments,
}  # fmt: skip
