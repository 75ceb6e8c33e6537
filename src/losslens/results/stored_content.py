"""Checks of objects from a file, so that their methods work: types as annotated, and the conditions of the tables here.

Objects that the library computed satisfy this by construction. A file may have been damaged, or edited by hand: all of
that, and nothing else, is `Damaged`. Any other error is one of the reader.

The tables are by class, and name what is checked by its path from an object: ``cells.rows`` is a field of a field,
``features.*.at`` that of every item of a tuple or a mapping. What is None is not checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from functools import cache
from itertools import combinations
from math import prod
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from losslens.losses import Loss, OutputLoss, OutputsLoss
from losslens.results.selection import Grouped
from losslens.tables.row_labels import find_rows
from losslens.uncertainty.pooled_scores import shown_values

MOST = 1 << 62  # in absolute value, of integers
ALL_ROWS = 10_000_000  # that folds may have been drawn from, however few they are
POSITIVE = np.finfo(float).tiny
# One letter a dimension, the length of a tuple, or an integer itself: equal letters are equal numbers.
# "...": any further dimensions; "*o": those of all with this name; "|": one or the other.
SHAPES = {
    "ByGroup": {"labels": "k", "codes": "n"},
    "Cells": {"rows": "r", "predictions": "r c ...", "changes": "r c"},
    "ColumnScore": {
        "column_scores": "m", "column_shares": "m", "column_bases": "m", "at_values": "g", "shares": "g",
        "without": "u", "score_without": "u", "own.sample.prediction": "n *o",
        "number.layout.own": "n", "number.layout.donors": "n w|d", "number.layout.width": "w",
        "number.predictions": "n w *o", "grid.layout.own": "n", "grid.layout.donors": "n c|e",
        "grid.layout.width": "c", "grid.predictions": "n c *o",
    },
    "Clusters": {
        "labels": "n", "weight": "n", "profiles": "k p", "rules": "k", "cluster_stability": "k", "features": "p",
        "row_labels": "n",
    },
    "CodedRows": {"names": "p", "values": "p", "ordered": "p", "codes": "r p"},
    "CommonGrid": {"own": "n", "donors": "d", "steps": "n"},
    "ConditionalImpact": {"features": "p", "conditioning": "p|0"},
    "Conditioning": {"leaf": "n"},
    "Effects": {"features.*.at": "r"},
    "Extrapolation": {"grid": "g ...", "at": "g"},
    "FeatureResult": {
        "at": "r", "observed": "r 2", "values": "f", "sample.weight": "n", "sample.prediction": "n *o",
        "layout.size": "g", "layout.width": "w", "layout.own": "n", "layout.donors": "n w|d",
        "cells.rows": "c", "cells.predictions": "c w *o", "means.mass": "r", "means.local": "r", "means.pi": "g",
        "means.weights": "g", "means.pd": "g ...", "means.caused": "n", "conditioning.leaf": "n",
    },
    "Gap": {
        "names": "2", "features": "p", "n": "2", "error": "2", "without": "2", "shares": "2 p", "centre": "l",
        "std_error": "l", "skewness": "l", "freedom": "l",
    },
    "Interactions": {"features": "p", "index": "p p", "unbiased": "p p", "std_error": "p p", "skewness": "p p"},
    "LeftOut": {"features": "p", "loss": "n", "weight": "n", "per_fold": "m p", "training_variance": "n p"},
    "Means": {"local": "r", "mass": "r", "pi": "g", "weights": "g", "pd": "g ...", "caused": "n", "donor_weight": "n"},
    "Observations": dict.fromkeys(
        ("importance", "loss", "weight", "target", "prediction", "influence", "influence_on", "row_labels"), "n"
    ),
    "OverTime": dict.fromkeys(("start", "end", "middle", "rows"), "b")
    | {"features": "p"}
    | dict.fromkeys(("importance", "std_error", "low", "high"), "b p")
    | dict.fromkeys(("overall", "step", "before", "after", "p"), "p"),
    "OutputsLoss": {"outputs": "k", "weights": "k|0", "each": "k|0"},
    "OwnDonors": {"donors": "n m", "place": "a|n m"},
    "Pool": {
        "sample.weight": "n", "sample.prediction": "n *o", "row": "c", "first": "c", "stop": "c", "prediction": "c *o",
        "donor_class": "n", "at_value": "v",
    },
    "PooledScore": {"at": "r", "shares": "g"},
    "PermutedTarget": {"features": "p", "importance": "p", "null": "b p"},
    "RefitCurve": {"grid": "g", "folds": "m g", "reach": "g"},
    "Refits": {"folds": "m", "folds.*.features": "p", "tested": "m", "trained": "m", "without": "m p"},
    "Region": {"rows": "n"},
    "ReplacedRows": {"columns": "c", "drawn": "c", "drawn.*": "r"},
    "RowChanges": {"features": "p", "local": "n p", "weight": "n", "block": "n", "row_labels": "n"},
    "RowInfluence": {"as_row": "n", "as_donor": "n", "row_labels": "n"},
    "Sample": {
        "weight": "n", "prediction": "n|n o", "y": "n ...", "loss": "n", "classes": "k", "block": "n",
        "row_labels": "n", "totals.rows": "n",
    },
    "ScoredCells": {"predictions": "n c ..."},
    "ScoredRows": {"at": "r"},
    "Segment": {"rows": "n"},
    "ShapleyCurve": {"grid": "g ...", "weights": "g", "importance": "g"},
    "ShapleyEffect": {
        "features": "p", "local": "r p", "prediction": "r", "base": "r", "std_error": "r p", "values.codes": "r p",
        "row_labels": "r",
    },
    "ShapleyImportance": {
        "features": "p", "sfimp": "p", "monte_carlo_error": "p", "covariance": "p p", "cubes": "p p", "index": "p p",
        "at": "r", "gains": "r", "table": "t", "both": "r p", "sample.weight": "n", "values.codes": "n p",
        "shares.local": "r p", "shares.local_error": "r p", "shares.caused": "n p", "shares.layout.size": "n",
        "shares.layout.own": "n", "shares.layout.donors": "n m|n", "shares.layout.width": "m",
        "shares.cells": "r m p",
    },
    "Shares": {"local": "r p", "caused": "n p", "cells": "r m p", "local_error": "r p"},
    "Shifts": {"place": "n", "donor": "n", "shifts": "m"},
    "Totals": {"rows": "r"},
    "Values": {"distinct": "p", "codes": "n p", "ordered": "p", "columns": "p"},
    "WeakSegments": {"n": "n", "row_labels": "n"},
}  # fmt: skip
# Where numbers are: not below the first of these, and below the second; None: anywhere. A word is the path to a number,
# or to what has so many items, in which they are positions.
RANGES: dict[str, dict[str, tuple[float | str | None, float | str | None]]] = {
    "ByGroup": {"codes": (0, "labels")},
    "Clusters": {"labels": (-1, "rules")},
    "CommonGrid": {"size": (0, None), "own": (-1, "size"), "donors": (0, "own")},
    "Conditioning": {"leaf": (0, "rules")},
    "FeatureResult": {"at": (0, "sample.weight"), "cells.predictions": (None, None)},
    "Gap": {"freedom": (POSITIVE, None)},
    "OutputLoss": {"k": (0, "of.outputs")},
    "OverTime": {"step": (-1, "start")},
    "OwnDonors": {"place": (0, "size")},
    "Refits": {"tested.*": (0, "n"), "trained.*": (1, None)},  # trained on more than n: drawn with replacement
    "Pool": {
        "row": (0, "sample.weight"),
        "first": (0, "size"),
        "stop": (1, None),
        "donor_class": (-1, "size"),
        "at_value": (0, "size"),
        "size": (1, None),
    },
    "PooledScore": {"at": (0, "every.weight")},
    "ReplacedRows": {"columns": (0, "among.names")},
    "Sample": {"y": (0, "classes"), "prediction": (None, None)},
    "ScoredCells": {"predictions": (None, None)},
    "ScoredRows": {"at": (0, "sample.weight"), "sample.y": (0, "judge.classes")},
    "ShapleyImportance": {"at": (0, "sample.weight"), "freedom": (POSITIVE, None)},
    "Shifts": {"place": (0, "donor"), "donor": (0, "donor"), "shifts": (0, "donor")},
    "Totals": {"rows": (0, "n"), "units": (2, None), "n": ("units", None), "squares": (0, 1)},
    "WeakSegments": {"n": (1, None)},
}
ASCENDING = {
    "FeatureResult": ("at", "cells.rows"), "PooledScore": ("at",), "ScoredRows": ("at",), "ShapleyImportance": ("at",),
}  # fmt: skip
SHARES = dict.fromkeys(("Clusters", "Observations", "RowChanges", "Sample"), "weight")  # of all rows: they sum to one
FILLED = {  # at least one of each
    "Comparison": ("importances",), "Effects": ("features",), "FeatureResult": ("at",), "Importances": ("features",),
    "OverTime": ("start",), "ReplacedRows": ("columns", "drawn.*"),
    "Regions": ("features",), "Sample": ("classes",), "ScoredRows": ("at",), "ShapleyEffect": ("local",),
}  # fmt: skip
LISTED = (
    "Clusters", "Gap", "Interactions", "OverTime", "PermutedTarget", "RowChanges", "ShapleyEffect", "ShapleyImportance",
)  # fmt: skip
DIFFERENT = {"ByGroup": "labels"} | dict.fromkeys(LISTED, "features")  # at least one, and none twice
NAMED = {  # the class of what stands under its own name
    "Effects": "FeatureEffect", "Extrapolations": "Extrapolation", "Importances": "FeatureImportance",
    "Regions": "FeatureImportance", "Scores": "FeatureScore",
}  # fmt: skip


class Damaged(ValueError):  # noqa: N818 - said of a file
    """The content of a file is not what the library writes."""


class Retired(Exception):  # noqa: N818 - said of a file
    """The name of a class or field that an earlier release wrote, and this one does not have."""


# Classes, and fields, which most results left empty.
RETIRED = {"BreimanImportance", "Whole", "sampling", "whole", "known_as_streamed"}


def need(condition: Any, sentence: str) -> None:
    """Raise Damaged unless a condition holds."""
    if not condition:
        raise Damaged(sentence)


@contextmanager
def refusing() -> Iterator[None]:
    """A ValueError of one of our methods means that the file is damaged."""
    try:
        yield
    except ValueError as error:
        raise Damaged(str(error)) from error


def check_fields(kind: type, content: dict[str, Any]) -> None:
    """Raise Damaged unless an object can be made of these fields: no more and no less, each of its type."""
    own = {field.name: field for field in fields(kind) if field.init}
    for name in content.keys() - own.keys():
        need(name in RETIRED, f"{kind.__name__} has no field {name}")
        empty = content.pop(name)
        if empty is not None and empty is not False:
            raise Retired(name)
    for name, field in own.items():
        if name in content:
            fits = _fits(content[name], _hints(kind)[name])
            need(fits, f"{kind.__name__}.{name} is {_shown(content[name])}, and not {field.type}")
        else:
            optional = field.default is not MISSING or field.default_factory is not MISSING
            need(optional, f"{kind.__name__}.{name} is missing")


_hints: Callable[[type], dict[str, Any]] = cache(get_type_hints)


# The kinds of dtypes that an annotation allows.
_KINDS: dict[Any, str] = {np.float64: "iuf", np.intp: "iu", np.int32: "iu", np.bool_: "b"}


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
        kinds = args[:1] * len(value) if args[-1] is ... and isinstance(value, tuple) else args
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(_fits, value, kinds))
    if origin is dict:
        parts = value.items() if isinstance(value, dict) else ()
        return isinstance(value, dict) and all(_fits(k, args[0]) and _fits(v, args[1]) for k, v in parts)
    if hint in (int, float):
        integer = isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST
        return integer or (hint is float and isinstance(value, float))
    return isinstance(value, origin or hint)


def _unaliased(hint: Any) -> Any:
    """The type behind an alias such as NDArray[...]: since NumPy 2.5 it is an object of its own, no ndarray[...]."""
    value = getattr(get_origin(hint), "__value__", None)
    return hint if value is None else value[get_args(hint)]


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} and shape {value.shape}"
    return repr(value)[:50] if isinstance(value, (bool, int, float, str, type(None))) else f"a {type(value).__name__}"


def check_loss(loss: Loss) -> None:
    """Raise Damaged unless a loss that was made of what a file says, and those that it is made of, are such as ours."""
    check_fields(type(loss), dict(vars(loss)))
    check(loss)
    for part in (*getattr(loss, "each", ()), *([loss.of] if isinstance(loss, OutputLoss) else [])):
        check_loss(part)


def check(thing: Any) -> None:
    """Raise Damaged unless an object from a file, whose fields have their types, is one that could have been saved."""
    kinds = [kind.__name__ for kind in reversed(type(thing).__mro__)]
    for kind in kinds:
        _check_shapes(thing, SHAPES.get(kind, {}))
    for kind in kinds:
        for path, (low, high) in RANGES.get(kind, {}).items():
            _check_range(thing, path, low, high)
        for path in ASCENDING.get(kind, ()):
            need(all((np.diff(value) > 0).all() for value in _at(thing, path)), f"{path} are not in ascending order")
        for path in FILLED.get(kind, ()):
            need(all(len(value) for value in _at(thing, path)), f"there are no {path}")
        if kind in DIFFERENT:
            names = list(getattr(thing, DIFFERENT[kind]))
            need(names and len(set(names)) == len(names), f"no {DIFFERENT[kind]}, or one of them twice")
        if kind in SHARES:
            _check_shares(getattr(thing, SHARES[kind]))
    if (labels := vars(thing).get("row_labels")) is not None:
        need(len(set(labels.tolist())) == len(labels), "a label of a row occurs twice")
    if named := next((NAMED[kind] for kind in reversed(kinds) if kind in NAMED), None):
        for name, one in thing.features.items():
            need(type(one).__name__ == named and one.name == name, f"{name!r} is not a {named} of this name")
    for kind in kinds:
        if kind in RULES:
            with refusing():
                RULES[kind](thing)


def _at(thing: Any, path: str) -> list[Any]:
    """The values at a path, without those that are None or absent."""
    things = [thing]
    for name in path.split("."):
        if name == "*":
            things = [part for one in things for part in (one.values() if isinstance(one, Mapping) else one)]
        else:
            things = [getattr(one, name, None) for one in things]
        things = [one for one in things if one is not None]
    return things


def _sizes(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else value.shape if hasattr(value, "shape") else (len(value),)


def _check_shapes(thing: Any, shapes: dict[str, str]) -> None:
    lengths: dict[str, Any] = {}
    for path, texts in shapes.items():
        for value in _at(thing, path):
            bound = [_bound(_sizes(value), text.split(), lengths) for text in texts.split("|")]
            fitting = [one for one in bound if one is not None]
            shown = f"has shape {_sizes(value)}, which contradicts its other arrays"
            need(fitting, f"{type(thing).__name__}.{path} {shown}")
            lengths = fitting[0]


def _bound(sizes: tuple[int, ...], letters: list[str], lengths: dict[str, Any]) -> dict[str, Any] | None:
    """The length that each letter stands for, those given included, if sizes are of this shape; else None."""
    lengths = dict(lengths)
    if letters[-1][0] in ".*":  # any further dimensions, which may have a name
        further, letters = letters[-1], letters[:-1]
        if further != "..." and lengths.setdefault(further, sizes[len(letters) :]) != sizes[len(letters) :]:
            return None
        sizes = sizes[: len(letters)]
    fits = len(sizes) == len(letters) and all(
        size == (int(letter) if letter.isdigit() else lengths.setdefault(letter, size))
        for letter, size in zip(letters, sizes, strict=True)
    )
    return lengths if fits else None


def _check_range(thing: Any, path: str, low: float | str | None, high: float | str | None) -> None:
    """Whether numbers are in a range; positions must be integers."""
    first, end = _limit(thing, low), _limit(thing, high)
    if isinstance(high, str) and end is None:  # positions among no classes: y are numbers
        return
    for value in map(np.asarray, _at(thing, path)):
        need(value.dtype.kind in ("iu" if isinstance(high, str) else "iuf"), f"{path} are no numbers, or no positions")
        above = first is None or not value.size or value.min() >= first
        below = end is None or not value.size or value.max() < end
        limits = f"below {first}" if end is None else f"outside {first} to {end - 1}"
        need(above and below, f"{type(thing).__name__}.{path} are {limits}")


def _limit(thing: Any, end: float | str | None) -> float | None:
    """A number, that at a path, or how many items stand there."""
    if not isinstance(end, str):
        return end
    return next((one if isinstance(one, int) else len(one) for one in _at(thing, end)), None)


def _check_shares(weight: Any) -> None:
    """Weights sum to one; those of some rows of files to a part of it. Shapley values of files keep no row."""
    good = not len(weight) or (np.isfinite(weight).all() and weight.min() >= 0 and 0 < weight.sum() < 1 + 1e-6)
    need(good, "weights are negative, or do not sum to one")


# What the tables can't say: how several fields fit together.


def _check_grids(values: Any, columns: Any) -> None:
    """A grid for each feature, with a column for each of its columns."""
    for grid, names in zip(values, columns, strict=True):
        need(names, "a feature has no columns")
        expected = (len(grid),) if len(names) == 1 else (len(grid), len(names))
        need(grid.shape == expected, f"a grid of shape {grid.shape} for {len(names)} columns")


def _grid_size(one: Any) -> int:
    """The number of values of a feature, or of pairs of values of two."""
    need(len(one.values) in (1, 2) and len(one.columns) >= len(one.values), "a grid of no feature, or of three")
    _check_grids(one.values, [one.columns] if len(one.values) == 1 else [(name,) for name in one.columns])
    return prod(map(len, one.values))


def _check_codes(codes: Any, values: Any) -> None:
    for column, distinct in zip(codes.T, values, strict=True):
        need(column.size == 0 or (column.min() >= 0 and column.max() < len(distinct)), "codes of no value")


def _coded_rows(rows: Any) -> None:
    _check_grids(rows.values, [(name,) for name in rows.names])
    _check_codes(rows.codes, rows.values)


def _values(values: Any) -> None:
    _check_grids(values.distinct, values.columns)
    _check_codes(values.codes, values.distinct)


def _common_grid(grid: Any) -> None:
    need((grid.own[grid.donors] >= 0).all(), "donors without a grid position")


def _own_donors(own: Any) -> None:
    n, m = own.donors.shape
    if isinstance(own.donors, np.ndarray):
        need(own.donors.size == 0 or -1 <= own.donors.min() <= own.donors.max() < n, "donors are no rows")
    need(own.place.shape in ([(m,)] if own.binned else [(n,), (n, m)]), f"places of shape {own.place.shape}")
    need(not own.mirrored or m % 2 == 0, f"{m} donors a row, of which half mirror the others")


def _shifts(shifts: Any) -> None:
    once = np.bincount(shifts.donor, minlength=len(shifts.donor)) == 1
    need(shifts.place is not None or once.all(), "a donor of shifts occurs twice")  # places are computed


def _sample(sample: Any) -> None:
    if sample.classes is not None and sample.prediction.dtype.kind == "i":  # labels; -1: of no class of y
        shown = sample.prediction
        need(shown.size == 0 or -1 <= shown.min() <= shown.max() < len(sample.classes), "predictions of no class")


def _feature(one: Any) -> None:
    sample, means = one.sample, one.means
    size = _grid_size(one)
    need(one.layout.size == size, f"{one.layout.size} grid positions for grids of {size} values")
    need(np.isin(one.cells.rows, one.at).all(), "cells of other rows")
    outputs = [sample.prediction.shape[1:], *([] if sample.classes is None else [(len(sample.classes),)])]
    need(means.pd is None or means.pd.shape[1:] in outputs, "mean predictions of other outputs than the predictions")
    need(means.local is None or means.weights is not None, "importances without weights of the values")
    need((means.caused is None) == (means.donor_weight is None), "means of donors without their weights")
    if one.observed is not None:
        need(len(one.values) == 2, "positions on two grids of one feature")
        for column, values in zip(one.observed.T, one.values, strict=True):
            need(not np.isnan(column).all() and np.nanmax(column) <= len(values), "positions outside of the grid")


def _importance(one: Any) -> None:
    sample, loss = one.sample, one.loss
    need(sample.loss is not None and one.cells.changes is not None, "an importance without losses")
    need(sample.totals is not None or sample.y is not None, "an importance without y")
    if one.means.local is None and one.means.total is not None:
        raise Retired("total without the mean of each row")
    need(one.means.weights is None or one.means.local is not None, "no importance")
    shown = sample.prediction.ndim
    need(shown in {"values": (1,), "labels": (1,), "scores": (1, 2)}.get(loss.reads, (2,)), f"no {loss.reads}")
    if loss.custom:
        return
    loss.check_prediction(sample.prediction)
    if sample.y is not None:
        loss.check_target(sample.y)
        need(loss.reads == "outputs" or sample.y.ndim == 1, f"{loss.name} needs one value of y for each row")
    if shown == 2 and loss.reads != "outputs":
        columns = sample.prediction.shape[1]
        need(sample.classes is None or len(sample.classes) == columns, "as many predictions as classes are needed")
        need(sample.y is None or sample.y.max() < columns, "y are outside of the predicted classes")


def _outputs_loss(loss: Any) -> None:
    need(len(set(loss.outputs)) == len(loss.outputs), "an output occurs twice")


def _alike(things: Iterable[Any], what: str) -> None:
    need(len(set(things)) <= 1, what)


def _importances(result: Any) -> None:
    if type(result).__name__ == "Scores":
        return
    sizes = ((len(one.at), one.sample.n, one.sample.prediction.shape, one.loss) for one in result.features.values())
    _alike(sizes, "features of different rows or losses")
    names = result.loss.outputs if isinstance(result.loss, OutputsLoss) else ()
    need(tuple(result.by_output) in ((), tuple(names)), "importances of other outputs")
    for one in result.by_output.values():
        need(list(one) == list(result) and not one.by_output, "outputs with other features")


def _mean_score(score: Any) -> None:
    need(score.parts, "a score of no importances")
    _alike(((len(one.at), one.sample.n) for one in score.parts), "importances of other rows")
    explained = score.scale != "share explained" or all(one.sample.y is not None for one in score.parts)
    need(explained, "a score without y")


def _column_score(one: Any) -> None:
    size = math.prod(map(len, one.values))
    need(all(held is None or len(held) == size for held in (one.at_values, one.shares)), "a curve of another grid")
    need((one.column_scores is None) == (one.column_shares is None), "scores without their weights")
    cells = [one.own, one.number, one.grid]
    need(cells == [None] * 3 or None not in cells, "rows without cells, or cells without rows")


def _pool(pool: Any) -> None:
    need(len(pool.row) > 0 and (np.diff(pool.row) >= 0).all(), "cells of rows that are not in order")
    need((pool.first < pool.stop).all() and (pool.stop <= pool.size).all(), "runs of cells that are not in order")
    if pool.at_value is None:
        need(pool.size == pool.sample.n, "donors that are no rows")
        return
    new = np.append(True, pool.row[1:] != pool.row[:-1])
    need((pool.first[new] == 0).all() and (pool.stop[np.append(new[1:], True)] == pool.size).all(), "curves with gaps")
    need((pool.first[1:] == pool.stop[:-1])[~new[1:]].all(), "curves with gaps")


def _pooled_score(score: Any) -> None:
    _judged(score.judge, score.every)
    need(score.judge.kind, "a score that has no pooled cells")
    for pool in filter(None, (score.pool, score.grid)):
        need(pool.sample.n == score.every.n and np.isin(pool.row, score.at).all(), "cells of other rows")
        need(len(score.at) == 0 or pool.sample.y is not None, "cells without y")
        labels = pool.prediction
        whole = labels.ndim == 1 and labels.dtype.kind in "iu" and labels.min() >= 0
        need(score.judge.kind != "table" or (whole and labels.max() < len(score.judge.classes)), "labels of no class")
    sizes = [len(one) for one in score.values]
    need(score.shares is None or [len(score.shares)] == sizes, "a curve of another grid")
    grid = score.grid
    need(grid is None or (grid.at_value is not None and len(shown_values(len(grid.at_value))) == math.prod(sizes)),
         "a curve of another grid")  # fmt: skip


def _scored_rows(rows: Any) -> None:
    _judged(rows.judge, rows.sample)


def _judged(judge: Any, sample: Any) -> None:
    need(type(judge).__name__ == "PredictionScore" and sample.y is not None, "a score of no scorer, or without y")
    need((judge.classes is None) == (sample.classes is None), "classes of a score, or none")
    if judge.classes is not None:
        columns = 1 if sample.prediction.ndim == 1 else sample.prediction.shape[1]
        need(columns in (1, len(judge.classes)), "as many predictions as classes are needed")
        need(judge.areas in (None, "two") or columns > 1, "an AUC of several classes of one number a row")
        labelled = judge.method == "predict"
        need(not labelled or sample.prediction.dtype.kind in "iu", "labels that are no positions of classes")


def _prediction_score(score: Any) -> None:
    need(score.scorer is None, "a scorer, which files don't hold")
    need(score.method in ("predict", "predict_proba", "decision_function"), "a score of no method")
    need(not score.kind or score.classes is not None, "a score of classes without classes")
    need(score.areas != "two" or len(score.classes) == 2, "an AUC of two classes of more")
    need(score.table is None or score.table.positive < len(score.classes), "a class that is none of them")


def _extrapolation(one: Any) -> None:
    need(one.grid.ndim == 1 or len(one.grid) == 0, f"a grid of shape {one.grid.shape} for one column")


def _shapley(result: Any) -> None:
    every, covariance = result.sample.n, result.covariance
    need(len(result.at) > 0 or result.sample.totals is not None, "no rows")
    coalitions = 1 << min(len(result.features), 62)
    need(result.table is None or len(result.table) == coalitions, "errors of some coalitions only")
    need(result.both is None or len(result.at) == every, "both roles of some rows only")
    need((covariance is None) == (result.cubes is None), "covariances without third moments")
    if covariance is not None:
        need(np.array_equal(covariance, covariance.T) and (np.diagonal(covariance) >= 0).all(), "no covariances")
    need(result.shares is None or result.sample.loss is not None, "shares without losses")


def _clusters(result: Any) -> None:
    need(result.weight[result.labels >= 0].sum() > 0, "empty clusters")


def _refits(result: Any) -> None:
    need(len(result.folds) > 1, "fewer than two folds")
    need(result.n <= max(ALL_ROWS, 1000 * sum(map(len, result.tested))), f"{result.n} rows, of which few were tested")
    _alike((type(fold) for fold in result.folds), "folds of different kinds")
    _alike((tuple(fold.features) for fold in result.folds), "folds of different features")
    for fold, rows in zip(result.folds, result.tested, strict=True):
        if type(fold).__name__ != "Scores":
            one = fold if hasattr(fold, "at") else next(iter(fold.features.values()))
            need(len(one.at) == len(rows), "a fold of other rows")


def _comparison(result: Any) -> None:
    models, shares = result.importances, result.shapley
    _alike((type(one) for one in models.values()), "models compared by a loss and by a score")
    _alike((tuple(one.features) for one in [*models.values(), *shares.values()]), "models with different features")
    need(list(shares) in ([], list(models)), "shares of other models")
    for one in models.values():
        need([feature.pfi for feature in one.values()], "models without importances")
    if result.paired and type(next(iter(models.values()))).__name__ == "Importances":
        _alike((len(one.local) for one in models.values()), "models on different rows")
    pairs = {(one, other): shifts for one, others in result.shifts.items() for other, shifts in others.items()}
    need(not pairs or list(pairs) == list(combinations(models, 2)), "shifts between other sets of rows")
    for shifts in pairs.values():
        need(len(shifts) == len(next(iter(models.values()))), "shifts of other features")


def _check_rows(rows: Any, labels: Any, n: int) -> None:
    """Labels of rows, or positions where rows have none."""
    if labels is not None:
        find_rows(rows, labels)
    else:
        inside = rows.size == 0 or 0 <= rows.min() <= rows.max() < n
        need(rows.dtype.kind in "iu" and inside, "rows that are not there")


def _regions(result: Any) -> None:
    for region in result.regions:
        need(region.feature in result.features, f"a region of {region.feature!r}, which is no feature")
        one = result.features[region.feature]
        _check_rows(region.rows, one.row_labels, len(one.at))
    for name in result.found:
        need(sum(region.depth == 1 for region in result.of(name)) == 2, f"not two sides of {name!r}")


def _weak_segments(result: Any) -> None:
    need(bool(result.segments) != bool(result.why), "segments, and why there are none")
    for segment in result.segments:
        _check_rows(segment.rows, result.row_labels, result.n)


def _interactions(result: Any) -> None:
    need(result.units >= 2 or result.std_error is None, "standard errors from fewer than two rows")
    for part in result.parts.values():
        need(part.features == result.features and not part.parts, "parts of other features")


def _gap(result: Any) -> None:
    need(len(result.centre) == (0 if result.why else len(result.features) + 2), "intervals of other lines")


def _by_group(result: Any) -> None:
    need(isinstance(result.every, Grouped), "groups of no result that has rows")
    need(len(result.every._split(result.codes)) == len(result.labels), "a group without rows")
    need(result.name.strip(), "groups without a name")


def _over_time(result: Any) -> None:
    kinds = {times.dtype.kind for times in (result.start, result.end, result.middle)}
    need(kinds in ({"f"}, {"M"}, {"m"}) and (result.start < result.end).all(), "times of several kinds, or none")


RULES: dict[str, Callable[[Any], None]] = {
    "ByGroup": _by_group, "Clusters": _clusters, "CodedRows": _coded_rows, "CommonGrid": _common_grid,
    "Comparison": _comparison, "Extrapolation": _extrapolation,
    "FeatureImportance": _importance, "FeatureResult": _feature, "Gap": _gap,
    "MeanScore": _mean_score, "ColumnScore": _column_score, "Pool": _pool, "PooledScore": _pooled_score,
    "Importances": _importances, "Interactions": _interactions, "OutputsLoss": _outputs_loss, "OverTime": _over_time,
    "OwnDonors": _own_donors, "PredictionScore": _prediction_score, "Refits": _refits, "Regions": _regions,
    "Sample": _sample, "ScoredRows": _scored_rows, "ShapleyImportance": _shapley, "Shifts": _shifts,
    "Values": _values, "WeakSegments": _weak_segments,
}  # fmt: skip
