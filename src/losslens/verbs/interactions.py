"""`pair_interactions`: what two features have in common in the model's performance, and the model's part of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from losslens import losses
from losslens.cells.in_common import AddingScale
from losslens.donors.conditional import common_condition
from losslens.losses import Loss, is_scorer
from losslens.models import Model, as_model
from losslens.passes.in_common import (
    PARTS,
    InCommon,
    Pair,
    PairMean,
    adding_scale,
    by_cells,
    common_design,
    from_cells,
    without_rounding,
)
from losslens.passes.scored import score_importance
from losslens.passes.task import Options, default_loss, picked, prepare
from losslens.passes.ways import route
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.interactions import Interactions
from losslens.results.scores import FeatureScore
from losslens.tables.features import resolve
from losslens.tables.frames import Table, as_table
from losslens.tables.leakage import warn_of_target
from losslens.uncertainty.standard_errors import Influence
from losslens.verbs.features import feature_importance, importances_of
from losslens.verbs.running import verb

KIND = "PFI_j + PFI_l - PFI_jl"
INTERACTION = "the model's interaction"


@verb
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
    """What two features have in common, by replacing them alone and together: shared information, and interaction.

    The whole, ``PFI_j + PFI_l - PFI_jl``, is the loss that is counted twice when each is replaced alone, and once when
    both are. It has two parts. ``.interaction`` is the model's own: 0 if the model only adds the two features,
    whatever their correlation. ``.shared`` is the rest: 0 on average for squared error if one of them is independent of
    all other columns, and ``-4 cov(g_j(x_j), g_l(x_l))`` in an additive model. ``.strength`` is the mean squared
    interaction in the predictions. Each of the four has standard errors, intervals and two-sided tests, about this
    model on new data. The cost is that of the single features and of one group of columns a pair.
    `ShapleyImportance.interactions` is the Shapley interaction index, which averages over all coalitions, and like the
    whole is not 0 for correlated features of an additive model.

    Parameters
    ----------
    model, X, y, loss
        As in `feature_importance`. Scorers, labels and functions of your own have no parts.
    features
        Columns; ``{"name": [columns]}`` for columns replaced together.
    pairs
        Pairs of names of these features; all pairs by default.
    options
        More arguments of `feature_importance`: donors, sample_weight, random_state, n_jobs, memory, progress, groups.
        All features have the same donors; under ``"auto"`` all rows, or 32 a row where a feature would take more than
        a million predictions.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.array([[a, b, c] for a in (-1.0, 1.0) for b in (-1.0, 1.0) for c in (-1.0, 1.0)])
    >>> f = lambda X: X[:, 0] * X[:, 1] + X[:, 2]
    >>> pairs = ll.pair_interactions(f, X, f(X), loss="squared_error")
    >>> pairs["x0", "x1"], pairs.shared["x0", "x1"], pairs.interaction["x0", "x1"]
    (2.0, 0.0, 2.0)
    """
    table = as_table(X)
    chosen = chosen_pairs(table, features, pairs)
    signature(feature_importance).bind(model, X, y, **options)  # refuses unknown options
    if options.get("budget") is not None or options.get("precision") is not None:
        raise ValueError("all features of pairs have the same donors: for fewer predictions leave out budget= and "
                         "precision=, and pass donors=Latin(m), or fewer pairs")  # fmt: skip
    warn_of_target(table, y)
    checked = picked(Options, options | {"features": chosen.features})
    shared = in_common(as_model(model), table, y, loss, checked, chosen.together)
    return _result(tuple(chosen.alone), shared, table.backend)


class ChosenPairs(NamedTuple):
    """The columns of the features of all pairs, and for each pair a name and the columns of both."""

    alone: dict[str, list[Any]]
    together: dict[tuple[str, str], str]
    columns: dict[str, list[Any]]

    @property
    def features(self) -> dict[str, list[Any]]:
        """What is replaced: each feature alone, and each pair."""
        return self.alone | self.columns


def chosen_pairs(table: Table, features: Any, pairs: Sequence[tuple[Any, Any]] | None) -> ChosenPairs:
    """The pairs to replace, checked."""
    named = resolve(features, table.labels, by_position=table.backend == "numpy")
    if any(feature.kind == "pair" for feature in named):
        raise ValueError("features must be columns or groups of columns; name the pairs in pairs=[(a, b), ...]")
    columns = {feature.name: [table.labels[j] for j in feature.columns] for feature in named}
    chosen = _pairs(list(columns), pairs)
    for a, b in chosen:
        shared = [label for label in columns[a] if label in columns[b]]
        if shared:
            raise ValueError(
                f"{a!r} and {b!r} share column {str(shared[0])!r}; features of a pair must have different columns"
            )
    alone = {name: columns[name] for pair in chosen for name in pair}
    join = " and "
    while any(f"{a}{join}{b}" in columns for a, b in chosen):  # the name is taken
        join += " "
    together = {(a, b): f"{a}{join}{b}" for a, b in chosen}
    return ChosenPairs(alone, together, {name: [*columns[a], *columns[b]] for (a, b), name in together.items()})


def in_common(
    model: Model, table: Table, y: Any, loss: Any, options: Options, together: Mapping[Pair, str]
) -> InCommon:
    """What pairs have in common: from cells with the same donors for all features, else from three importances a pair.

    `together` has, for each pair, the name of the feature that replaces both.
    """
    if is_scorer(loss):
        scores = score_importance(model, table, y, loss, options)
        return _from_importances(scores, scores.title, together, "a scorer has no loss of single rows")
    chosen = default_loss(model, loss, y)
    task = by_cells(prepare(model, table, y, options, loss=chosen, response=chosen.reads, all_pairs=True))
    design, ways = common_design(task), {route(task, subject).way for subject in task.subjects}
    if design is not None and "sums" not in ways:
        if not design.all_pairs:
            task = replace(task, exact=None)  # the model predicts: cells take the memory of the engine
        return from_cells(task, design, together, *adding_scale(model, chosen))
    absent = "an exact engine computes some of these features, and the model predicts the others; use Latin(m)"
    if design is None:
        drawn = None if task.design is None else task.design.remembered
        absent = f"the features must have the same donors, but {drawn!r} draws different ones for each; use Latin(m)"
    result = _from_importances(importances_of(task)[0], chosen.title, together, absent)
    if design is None or ways != {"sums"}:
        return result
    none = dict.fromkeys(together, PairMean(0.0, 0.0, 0.0))  # the model only adds
    return replace(
        result, parts={"shared": result.total, "interaction": none, "strength": none}, part_title=chosen.title,
        scale=AddingScale.PREDICTIONS, quadratic=chosen == losses.squared_error, absent="",
    )  # fmt: skip


_One = FeatureImportance | FeatureScore


def _from_importances(importances: Importances, title: str, together: Mapping[Pair, str], absent: str) -> InCommon:
    """Of three importances a pair, each with donors of its own: the total alone, without its parts."""
    first: _One = next(iter(importances.values()))
    triples = {(a, b): (importances[a], importances[b], importances[both]) for (a, b), both in together.items()}
    return InCommon(
        title=title, units=first._units, grouped=first._unit == "groups", n_predictions=importances.n_predictions,
        total={pair: _total(*triple) for pair, triple in triples.items()}, parts={}, absent=absent,
        condition=common_condition(one.conditioning for one in importances.values()),
    )  # fmt: skip


def _total(first: _One, second: _One, both: _One) -> PairMean:
    """What two importances have in common, from the influence of each row as observation and as donor."""
    value, unbiased = first.pfi + second.pfi - both.pfi, first.unbiased + second.unbiased - both.unbiased
    try:
        parts = [one.influence for one in (first, second, both)]
    except ValueError as error:
        return PairMean(value, unbiased, absent=str(error))
    moved = parts[0].moved + parts[1].moved - parts[2].moved
    of_pair = Influence(moved, sum(part.excess for part in parts), noise=sum(part.noise for part in parts))
    if first._is_score:
        return PairMean(value, unbiased, of_pair.std_error, 0.0 if first._unit == "blocks" else of_pair.skewness)
    compared = first.base + abs(first.pfi) + abs(second.pfi) + abs(both.pfi)
    return without_rounding(PairMean(value, unbiased, of_pair.std_error, of_pair.skewness), compared, first.sample)


def _result(names: tuple[str, ...], shared: InCommon, backend: str) -> Interactions:
    """The total as symmetric matrices, and its parts."""

    def matrices(kind: str, title: str, each: Mapping[Pair, PairMean], absent: str, **more: Any) -> Interactions:
        return Interactions(
            names, _matrix(each, "value", names, 0.0), kind, title, backend,
            unbiased=_matrix(each, "unbiased", names), std_error=_matrix(each, "std_error", names), units=shared.units,
            absent=absent, skewness=_matrix(each, "skewness", names), grouped=shared.grouped, **more,
        )  # fmt: skip

    missing = dict.fromkeys(shared.total, PairMean(np.nan, np.nan))
    scale = "" if shared.scale is None else f"of {shared.scale.value}"
    kinds = {
        "shared": ("shared information" if shared.quadratic else "overlap", shared.part_title),
        "interaction": (INTERACTION, shared.part_title),
        "strength": ("strength of the interaction", scale),
    }
    parts = {}
    for part in PARTS:
        each = shared.parts.get(part, missing)
        kind, title = kinds[part]
        parts[part] = matrices(kind, title or shared.title, each, _absent(each) or shared.absent)
    kind = f"{KIND}, values drawn {shared.condition}" if shared.condition else KIND
    return matrices(
        kind, shared.title, shared.total, _absent(shared.total), n_predictions=shared.n_predictions, parts=parts
    )


def _absent(each: Mapping[Pair, PairMean]) -> str:
    return next((one.absent for one in each.values() if one.absent), "")


def _matrix(each: Mapping[Pair, PairMean], what: str, names: Sequence[str], diagonal: float = np.nan) -> Any:
    """A symmetric matrix; NaN for pairs that were not requested."""
    matrix = np.full((len(names), len(names)), np.nan)
    np.fill_diagonal(matrix, diagonal)
    for (a, b), one in each.items():
        j, k = names.index(a), names.index(b)
        matrix[j, k] = matrix[k, j] = getattr(one, what)
    return matrix


def _pairs(names: list[str], pairs: Any) -> list[tuple[str, str]]:
    """The pairs of names to compute, all if none are given; an error for unknown or equal names."""
    if len(names) < 2:
        raise ValueError(f"an interaction needs two features; got {len(names)}")
    if pairs is None:
        return list(combinations(names, 2))
    if isinstance(pairs, str) or not np.iterable(pairs):
        raise TypeError(f"pairs must be a list of pairs of names, such as [('a', 'b')]; got {pairs!r}")
    pairs = list(pairs)
    if not pairs:
        raise ValueError("pairs is empty: name at least one pair, or leave it out for all pairs")
    distinct: dict[frozenset[str], tuple[str, str]] = {}  # a pair that is named twice counts once
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"pairs must be a list of pairs of different names, such as [('a', 'b')]; got {pair!r}")
        unknown = [name for name in map(str, pair) if name not in names]
        if unknown:
            raise ValueError(f"unknown feature {unknown[0]!r} in pairs; the features are {', '.join(names)}")
        distinct.setdefault(frozenset(map(str, pair)), (str(pair[0]), str(pair[1])))
    return list(distinct.values())
