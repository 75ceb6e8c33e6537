"""Arguments in the caller's own words: columns of X by name as y, weights or groups; names for those of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from losslens.tables.features import unknown_feature
from losslens.tables.frames import Table, as_table, frame_table
from losslens.tables.sources import as_source, in_files

ROLES = ("y", "sample_weight", "groups", "by")  # arguments of verbs that may name a column of X
Names = tuple[str, ...]
# Where models hold the names of columns: scikit-learn's, boosters of LightGBM, of XGBoost, and CatBoost's.
NAMES = ("feature_names_in_", "feature_name", "feature_names", "feature_names_")


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
