"""`pair_interactions`: interactions of two features in the model's performance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from losslens.cells.matrix import means
from losslens.donors.designs import Design, Drawn
from losslens.losses import Loss
from losslens.results.importance import FeatureImportance
from losslens.results.interactions import Interactions
from losslens.results.scores import FeatureScore
from losslens.tables.checks import entropy
from losslens.tables.features import resolve
from losslens.tables.frames import Table, as_table
from losslens.uncertainty.standard_errors import Influence, influence
from losslens.verbs.features import feature_importance

ROUNDING, SINGLE_ROUNDING = 1e-9, 1e-5  # relative error of the losses, of predictions in double and single precision

KIND = "PFI_j + PFI_l - PFI_jl"


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
    """Interactions of pairs of features, by replacing the two alone and together.

    ``I_jl = PFI_j + PFI_l - PFI_jl``: the loss that is counted twice when each is replaced alone, and once when both
    are. Every pair has a standard error, an interval and a two-sided test, about this model on new data. The cost is
    that of the single features and of one group of columns a pair. Dependent features have a value other than 0 even
    in an additive model: with squared error it is ``-4 cov(g_j(x_j), g_l(x_l))``.
    `ShapleyImportance.interactions` is the Shapley interaction index, which averages over all coalitions.

    Parameters
    ----------
    model, X, y, loss
        As in `feature_importance`.
    features
        Columns; ``{"name": [columns]}`` for columns replaced together.
    pairs
        Pairs of names of these features; all pairs by default.
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
    wanted = wanted_pairs(table, features, pairs)
    alone, together = wanted.alone, wanted.together
    found = feature_importance(model, table, y, loss=loss, features=wanted.features, **_with_same_donors(options))
    names = tuple(alone)
    of_pairs = {
        (names.index(a), names.index(b)): strength(found[a], found[b], found[name]) for (a, b), name in together.items()
    }
    first = found[names[0]]
    kind = KIND if first.conditioning is None else f"{KIND}, values drawn {first.conditioning.condition}"
    return Interactions(
        names, _matrix(of_pairs, "value", len(names), 0.0), kind, found.title, table.backend,
        unbiased=_matrix(of_pairs, "unbiased", len(names)),
        std_error=_matrix(of_pairs, "std_error", len(names)),
        units=0 if isinstance(first, FeatureScore) else first._units,
        absent=next((one.absent for one in of_pairs.values() if one.absent), ""),
        n_predictions=found.n_predictions,
    )  # fmt: skip


class WantedPairs(NamedTuple):
    """The columns of the features of all pairs, and for each pair a name and the columns of both."""

    alone: dict[str, list[Any]]
    together: dict[tuple[str, str], str]
    columns: dict[str, list[Any]]

    @property
    def features(self) -> dict[str, list[Any]]:
        """What is replaced: each feature alone, and each pair."""
        return self.alone | self.columns


def wanted_pairs(table: Table, features: Any, pairs: Sequence[tuple[Any, Any]] | None) -> WantedPairs:
    """The pairs to replace, checked."""
    named = resolve(features, table.labels, by_position=table.backend == "numpy")
    if any(feature.kind == "pair" for feature in named):
        raise ValueError("features must be columns or groups of columns; name the pairs in pairs=[(a, b), ...]")
    columns = {feature.name: [table.labels[j] for j in feature.columns] for feature in named}
    wanted = _pairs(list(columns), pairs)
    for a, b in wanted:
        shared = [label for label in columns[a] if label in columns[b]]
        if shared:
            raise ValueError(
                f"{a!r} and {b!r} share column {str(shared[0])!r}; features of a pair must have different columns"
            )
    alone = {name: columns[name] for pair in wanted for name in pair}
    between = " and "
    while any(f"{a}{between}{b}" in columns for a, b in wanted):  # the name is taken
        between += " "
    together = {(a, b): f"{a}{between}{b}" for a, b in wanted}
    return WantedPairs(alone, together, {name: [*columns[a], *columns[b]] for (a, b), name in together.items()})


@dataclass(frozen=True, eq=False, repr=False)
class _SameDonors(Design):
    """A design with the same draw for all features, so that the noise of donors in the three importances cancels."""

    design: Design
    seed: int

    def __repr__(self) -> str:
        return repr(self.design)

    @property
    def m(self) -> int | None:  # type: ignore[override]
        return self.design.m

    @property
    def leaves_out_own(self) -> bool:
        return self.design.leaves_out_own

    @property
    def repeats(self) -> bool:
        return self.design.repeats

    def check(self, n: int) -> None:
        self.design.check(n)

    def lend(self, n: int, rng: np.random.Generator) -> Drawn:
        """The donors of each row, the same for all features."""
        return self.design.lend(n, np.random.default_rng(self.seed))

    def is_exact(self, n: int) -> bool:
        return self.design.is_exact(n)


def _with_same_donors(options: dict[str, Any]) -> dict[str, Any]:
    design = options.get("donors")
    if not isinstance(design, Design) or design.common or design.ranked:  # grids are shared; ranks differ by feature
        return options
    return options | {"donors": _SameDonors(design, entropy(options.get("random_state")))}


class _Strength(NamedTuple):
    """The interaction of one pair."""

    value: float
    unbiased: float
    std_error: float = float("nan")
    absent: str = ""  # why there is no standard error


def strength(first: FeatureImportance, second: FeatureImportance, both: FeatureImportance) -> _Strength:
    """The interaction and its standard error, from the influence of each row as observation and as donor."""
    value, unbiased = first.pfi + second.pfi - both.pfi, first.unbiased + second.unbiased - both.unbiased
    try:
        std_error = _influence(first, second, both).std_error
    except ValueError as error:
        return _Strength(value, unbiased, absent=_reason(both, error))
    # For a feature that the model does not use, only rounding errors are left: they must not be significant.
    single = first.sample.prediction.dtype == np.float32
    compared = first.error + abs(first.pfi) + abs(second.pfi) + abs(both.pfi)
    least = compared * (SINGLE_ROUNDING if single else ROUNDING)
    if std_error > least:
        return _Strength(value, unbiased, std_error)
    zero = abs(unbiased) <= least
    return _Strength(0.0 if zero else value, 0.0 if zero else unbiased, 0.0)


def _reason(both: FeatureImportance, error: ValueError) -> str:
    if isinstance(both, FeatureScore) or both.means.total is None:
        return str(error)
    return f"{both.sample.n:,} rows have too many pairs for a standard error; explain fewer rows, or use Latin(m)"


def _influence(first: FeatureImportance, second: FeatureImportance, both: FeatureImportance) -> Influence:
    """The influence of a row on the interaction: that on the two importances alone less that on both together."""
    three, same = (first, second, both), isinstance(both.design, _SameDonors)
    if same and all(one.complete for one in three):
        cells = replace(both.cells, changes=first._changes + second._changes - both._changes)
        return influence(means(cells, both.meeting, both.sample), both.meeting, both.sample, both.at)
    parts = [one.influence for one in three]
    # The noise of separate draws adds up. That of common draws partly cancels; by how much is unknown, so all is kept.
    excess = 0.0 if same else sum(part.excess for part in parts)
    moved = parts[0].moved + parts[1].moved - parts[2].moved
    return Influence(moved, excess, noise=sum(part.noise for part in parts))


def _matrix(pairs: Mapping[tuple[int, int], _Strength], what: str, p: int, diagonal: float = np.nan) -> Any:
    """A symmetric matrix; NaN for pairs that were not requested."""
    found = np.full((p, p), np.nan)
    np.fill_diagonal(found, diagonal)
    for (j, k), one in pairs.items():
        found[j, k] = found[k, j] = getattr(one, what)
    return found


def _pairs(names: list[str], pairs: Any) -> list[tuple[str, str]]:
    if len(names) < 2:
        raise ValueError(f"an interaction needs two features; got {len(names)}")
    if pairs is None:
        return list(combinations(names, 2))
    if isinstance(pairs, str) or not np.iterable(pairs):
        raise TypeError(f"pairs must be a list of pairs of names, such as [('a', 'b')]; got {pairs!r}")
    pairs = list(pairs)
    if not pairs:
        raise ValueError("pairs is empty: name at least one pair, or leave it out for all pairs")
    found: dict[frozenset[str], tuple[str, str]] = {}  # a pair that is named twice counts once
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"pairs must be a list of pairs of different names, such as [('a', 'b')]; got {pair!r}")
        unknown = [name for name in map(str, pair) if name not in names]
        if unknown:
            raise ValueError(f"unknown feature {unknown[0]!r} in pairs; the features are {', '.join(names)}")
        found.setdefault(frozenset(map(str, pair)), (str(pair[0]), str(pair[1])))
    return list(found.values())
