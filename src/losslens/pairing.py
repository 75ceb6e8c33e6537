"""The verb for interactions of performance between features, two at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from losslens.explain import feature_importance
from losslens.features import resolve
from losslens.interactions import Interactions
from losslens.losses import Loss
from losslens.tables import as_table


def pair_interactions(
    model: Any,
    X: Any,
    y: Any,
    *,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    pairs: Sequence[tuple[Any, Any]] | None = None,
    **options: Any,
) -> Interactions:
    """How much more two features are worth than each by itself, by replacing them together.

    ``I_jl = PFI_j + PFI_l - PFI_jl``: what is lost twice when each is replaced alone, and once when both are.
    `ShapleyImportance.interactions` has the Shapley interaction index, which averages over all coalitions.

    Parameters
    ----------
    model, X, y, loss
        As in `feature_importance`.
    features
        Columns; ``{"name": [columns]}`` for columns that play together.
    pairs
        Pairs of these features' names; all of them by default.
    options
        More arguments of `feature_importance`: donors, sample_weight, random_state, n_jobs, memory, progress, groups.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.array([[a, b, c] for a in (-1.0, 1.0) for b in (-1.0, 1.0) for c in (-1.0, 1.0)])
    >>> f = lambda X: X[:, 0] * X[:, 1] + X[:, 2]
    >>> ll.pair_interactions(f, X, f(X), loss="squared_error")["x0", "x1"]
    2.0
    """
    table = as_table(X)
    named = resolve(features, table.labels, by_position=table.backend == "numpy")
    if any(feature.kind == "pair" for feature in named):
        raise ValueError("features are columns or groups of columns here; name the pairs in pairs=[(a, b), ...]")
    columns = {feature.name: [table.labels[j] for j in feature.columns] for feature in named}
    wanted = _pairs(list(columns), pairs)
    alone = {name: columns[name] for pair in wanted for name in pair}
    between = " and "
    while any(f"{a}{between}{b}" in columns for a, b in wanted):  # somebody has called a feature so
        between += " "
    together = {f"{a}{between}{b}": [*columns[a], *columns[b]] for a, b in wanted}
    found = feature_importance(model, table, y, loss=loss, features=alone | together, **options)
    names = tuple(alone)
    index = np.full((len(names), len(names)), np.nan)
    np.fill_diagonal(index, 0.0)
    for a, b in wanted:
        value = found[a].pfi + found[b].pfi - found[f"{a}{between}{b}"].pfi
        index[names.index(a), names.index(b)] = index[names.index(b), names.index(a)] = value
    return Interactions(names, index, "PFI_j + PFI_l - PFI_jl", found.loss.title, table.backend)


def _pairs(names: list[str], pairs: Any) -> list[tuple[str, str]]:
    if len(names) < 2:
        raise ValueError("an interaction needs two features")
    if pairs is None:
        return list(combinations(names, 2))
    if not len(pairs):
        raise ValueError("pairs is empty: name two features at least, or leave it out for all pairs")
    found = []
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"pairs is a list of two different names each, such as [('a', 'b')]; got {pair!r}")
        unknown = [name for name in map(str, pair) if name not in names]
        if unknown:
            raise ValueError(f"unknown feature {unknown[0]!r} in pairs; the features are {', '.join(names)}")
        found.append((str(pair[0]), str(pair[1])))
    return found
