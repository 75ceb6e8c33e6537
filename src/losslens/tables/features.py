"""The argument ``features=`` as named sets of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from losslens.text import closest


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
    near = closest(label, names)
    hint = f"; did you mean {near!r}?" if near else "."
    shown = ", ".join(names[:20]) + (f", ... ({len(names)} in all)" if len(names) > 20 else "")
    return f"unknown feature {label!r}{hint} The {what} are {shown}"
