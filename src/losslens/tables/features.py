"""Arguments that name columns of X: `features=` as sets of columns; y, weights or groups by name; names for arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import narwhals as nw
import numpy as np

from losslens.tables.frames import Table, as_table, frame_table
from losslens.tables.sources import as_source, in_files
from losslens.text import closest

ROLES = ("y", "sample_weight", "groups", "by")  # arguments of verbs that may name a column of X
Names = tuple[str, ...]
# Where models hold the names of columns: scikit-learn's, boosters of LightGBM, of XGBoost, and CatBoost's.
NAMES = ("feature_names_in_", "feature_name", "feature_names", "feature_names_")


@dataclass(frozen=True)
class Feature:
    """One thing to explain: a column, a group of columns replaced together, or a pair on a product grid."""

    name: str
    columns: tuple[int, ...]
    kind: Literal["single", "group", "pair"] = "single"


def resolve(features: Any, labels: Sequence[Hashable], *, by_position: bool) -> tuple[Feature, ...]:
    """The columns of each feature.

    Parameters
    ----------
    features
        None (every column), a label, a list of labels, a tuple of two (a pair), or ``{"group": [labels]}``.
    labels
        The table's column labels.
    by_position
        Whether an integer that is no label selects by position (arrays have no labels of their own).

    >>> resolve({"size": ["a", "b"]}, ["a", "b", "c"], by_position=False)[0].columns
    (0, 1)
    """
    if features is None:
        return tuple(Feature(str(label), (j,)) for j, label in enumerate(labels))
    if isinstance(features, Mapping):
        resolved = [_group(name, columns, labels, by_position) for name, columns in features.items()]
    elif _is_one(features, labels):
        resolved = [_one(features, labels, by_position)]
    elif np.iterable(features):
        resolved = [feature for item in features for feature in _item(item, labels, by_position)]
    else:
        raise TypeError(f"features is a column, a list of columns or {{'group': [columns]}}; got {features!r}")
    if not resolved:
        raise ValueError("features is empty: name at least one column, or leave it out for all of them")
    twice = [name for name, count in Counter(feature.name for feature in resolved).items() if count > 1]
    if twice:
        raise ValueError(f"features names {twice[0]!r} twice; a result has one entry for each name")
    return tuple(resolved)


def _is_one(features: Any, labels: Sequence[Hashable]) -> bool:
    return isinstance(features, (str, int, np.integer, tuple)) or _position(features, labels) is not None


def _item(item: Any, labels: Sequence[Hashable], by_position: bool) -> list[Feature]:
    if isinstance(item, Mapping):  # groups among single columns
        return [_group(name, columns, labels, by_position) for name, columns in item.items()]
    if isinstance(item, list):
        raise ValueError(f"for columns replaced together write {{'name': {item!r}}} in features; got a bare list")
    return [_one(item, labels, by_position)]


def _one(item: Any, labels: Sequence[Hashable], by_position: bool) -> Feature:
    if isinstance(item, tuple) and _position(item, labels) is None:
        return _pair(item, labels, by_position)
    j = _find(item, labels, by_position)
    return Feature(str(labels[j]), (j,))


def _pair(item: tuple[Any, ...], labels: Sequence[Hashable], by_position: bool) -> Feature:
    if len(item) != 2:
        raise ValueError(
            f"a tuple in features is a pair of columns on a product grid; got {len(item)} in {item!r}. "
            "For columns replaced together write {'name': [columns]}"
        )
    columns = tuple(_find(part, labels, by_position) for part in item)
    if columns[0] == columns[1]:
        raise ValueError(f"the pair {item!r} names one column twice")
    return Feature(pair_name(str(labels[columns[0]]), str(labels[columns[1]])), columns, "pair")


def pair_name(first: str, second: str) -> str:
    """The name of a pair of features."""
    return f"{first} x {second}"


def _group(name: Any, columns: Any, labels: Sequence[Hashable], by_position: bool) -> Feature:
    alone = _is_one(columns, labels) and (not isinstance(columns, tuple) or _position(columns, labels) is not None)
    if not alone and not hasattr(columns, "__iter__"):
        raise TypeError(f"group {name!r} needs a list of columns; got {columns!r}")
    members = [columns] if alone else list(columns)
    if not members:
        raise ValueError(f"group {name!r} has no columns")
    positions = tuple(_find(member, labels, by_position) for member in members)
    for j in positions:
        if positions.count(j) > 1:
            raise ValueError(f"group {name!r} names column {str(labels[j])!r} twice")
    return Feature(str(name), positions, "single" if len(positions) == 1 else "group")


def _position(label: Any, labels: Sequence[Hashable]) -> int | None:
    label = label.item() if isinstance(label, np.generic) else label
    try:
        # The type matters: True is not column 1.
        return next((j for j, own in enumerate(labels) if type(own) is type(label) and own == label), None)
    except (TypeError, ValueError):
        return None


def _find(label: Any, labels: Sequence[Hashable], by_position: bool) -> int:
    position = _position(label, labels)
    if position is not None:
        return position
    if isinstance(label, (int, np.integer)) and not isinstance(label, bool):
        if int(label) in labels:
            return list(labels).index(int(label))
        if by_position:
            if not -len(labels) <= label < len(labels):
                raise ValueError(f"there is no column at position {label}; X has {len(labels)} columns")
            return int(label) % len(labels)
    raise ValueError(unknown_feature(label, [str(own) for own in labels]))


def position_of(name: Any, names: Sequence[str]) -> int:
    """The position of a feature among those of a result, or KeyError."""
    if str(name) not in names:
        raise KeyError(unknown_feature(name, names, "features"))
    return names.index(str(name))


def unknown_feature(label: Any, names: Sequence[str], what: str = "columns") -> str:
    """The message for an unknown name, with the nearest known one."""
    likely = closest(label, names)
    hint = f"; did you mean {likely!r}?" if likely else "."
    shown = ", ".join(names[:20]) + (f", ... ({len(names)} in all)" if len(names) > 20 else "")
    return f"unknown feature {label!r}{hint} The {what} are {shown}"


def fitted_names(model: Any) -> Names | None:
    """The names of the columns that a model, or the first of several, was fitted on; None where it doesn't say.

    Those that LightGBM and CatBoost make up for arrays don't count.
    """
    models = model.values() if isinstance(model, Mapping) else (model,)
    for native in (getattr(one, "native", one) for one in models if not isinstance(one, type)):
        for attribute in NAMES:
            given = getattr(native, attribute, None)
            given = given() if callable(given) else given
            names = () if given is None else tuple(map(str, given))
            made_up = (tuple(f"{start}{j}" for j in range(len(names))) for start in ("Column_", ""))
            if names and names not in made_up:
                return names
    return None


def with_roles(X: Any, fitted: Names | None, roles: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """X and the arguments of `ROLES`, with columns of X in the place of their names.

    A column that is named leaves X, unless the model was fitted on it; `by` leaves only where the model is known to do
    without it. The columns of an array are called as those that the model was fitted on.
    """
    if isinstance(X, Mapping):
        return _of_each(X, fitted, roles)
    if fitted is not None and isinstance(X, np.ndarray) and X.shape[1:] == (len(fitted),):
        X = replace(as_table(X), labels=fitted, names=fitted)
    named = {role: name for role, name in roles.items() if isinstance(name, str)}
    if not named:
        return X, dict(roles)
    if in_files(X):
        return _of_files(X, fitted, roles)
    table = as_table(X)
    resolved, leaving = dict(roles), set()
    for role, name in named.items():
        if name not in table.names:
            raise ValueError(f"{role}={name!r} is no column of X: {unknown_feature(name, table.names)}")
        j = table.names.index(name)
        leaves = name not in (fitted or ()) and (role != "by" or fitted is not None)
        if leaves:
            leaving.add(j)
        if leaves or role != "by":
            resolved[role] = _column(table, j)
    kept = [j for j in range(len(table.names)) if j not in leaving]
    if not kept:
        raise ValueError(f"X has no columns but {', '.join(named.values())}, which are named as {', '.join(named)}")
    return _only(table, kept) if leaving else X, resolved


def _of_each(X: Mapping[Any, Any], fitted: Names | None, roles: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The same for several sets of rows by name."""
    each = {
        name: with_roles(
            one, fitted, {role: value if isinstance(value, str) else None for role, value in roles.items()}
        )
        for name, one in X.items()
    }
    resolved = {
        role: {name: its[role] for name, (_, its) in each.items()} if isinstance(value, str) else value
        for role, value in roles.items()
    }
    return {name: one for name, (one, _) in each.items()}, resolved


def _of_files(X: Any, fitted: Names | None, roles: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Of data in files: y and weights are read with the rows, groups here."""
    groups = roles.get("groups")
    if not isinstance(groups, str):
        return X, dict(roles)
    source = as_source(X)
    assert source is not None  # checked by callers
    if groups not in source.names:
        raise ValueError(f"groups={groups!r} is no column of X: {unknown_feature(groups, source.names)}")
    labels = frame_table(source.in_memory([groups])).column(0).array
    names = tuple(name for name in source.names if name != groups or name in (fitted or ()))
    return replace(source, names=names), {**roles, "groups": labels}


def _column(table: Table, j: int) -> Any:
    """A column as the caller would pass it: an array, or a series with its name and row labels."""
    native = table.native
    if table.backend == "numpy":
        return native[:, j]
    return native.iloc[:, j] if table.backend == "pandas" else nw.from_native(native)[table.names[j]].to_native()


def _only(table: Table, kept: list[int]) -> Any:
    """Some columns; an array keeps their names."""
    native = table.take(kept)
    if table.backend != "numpy":
        return native
    return replace(
        table, native=native, labels=tuple(table.labels[j] for j in kept), names=tuple(table.names[j] for j in kept)
    )
