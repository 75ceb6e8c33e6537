"""What the top of the page says, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from losslens.results.importances import Importances
from losslens.results.shapley import ShapleyImportance
from losslens.text import in_digits
from losslens.typing import Floats

ALIKE = 0.7  # rank correlation from which two features go together
FEW_ROWS = 100


def words(
    models: Mapping[str, Importances],
    shares: Mapping[str, ShapleyImportance],
    ends: tuple[float, float],
    n_given: int,
    columns: Mapping[str, Floats],
) -> dict[str, Any]:
    """A headline, what carries the model, what was computed, and what to be careful about."""
    name, first = next(iter(models.items()))
    share = shares.get(name)
    return {
        "headline": _headline(name, first, share, ends),
        "sentences": [*_carriers(first, share), *_unsure(first), *_others(models)],
        "computed": _computed(first, share, n_given),
        "careful": _careful(first, n_given, columns),
    }


def _headline(name: str, first: Importances, share: ShapleyImportance | None, ends: tuple[float, float]) -> str:
    error = f"The {first.title} of {name} is {in_digits(first.error)}"
    if np.isfinite(ends).all():
        error += f" (95% interval {in_digits(ends[0])} to {in_digits(ends[1])})"
    if share is None or not share._total > 0:
        return f"{error}."
    saved = 1 - share.error_all / share.error_none
    none = in_digits(share.error_none)
    return f"{error}; with all values borrowed from other rows it would be {none}: the features take off {saved:.0%}."


def _carriers(first: Importances, share: ShapleyImportance | None) -> list[str]:
    """Which features carry the performance, and how surely."""
    ranked = first._ranked
    found = []
    if share is not None and share._total > 0:
        parts = sorted(zip(share.share.tolist(), share.features, strict=True), reverse=True)
        most = [(part, name) for part, name in parts if part >= 0.05][:4] or parts[:1]
        listed = _listed([f"{name} ({part:.0%})" for part, name in most])
        found.append(f"Of that, {listed} earn{'s' if len(most) == 1 else ''} the largest shares.")
    best = ranked[0]
    if not best.pfi > 0:
        return [*found, "Without any single feature the error would not grow."]
    text = f"Without {best.name} the error would grow by {in_digits(best.pfi)}"
    try:
        low, high = best.interval()
        table = first.estimates.ranks()
        sure = int(table[2][first.estimates.names.index(best.name)]) == 1
        text += f" (95% interval {in_digits(low)} to {in_digits(high)})"
        text += ", more than without any other feature." if sure else "; which feature comes first is not sure."
    except ValueError:  # too few rows
        text += "."
    return [*found, text]


def _unsure(first: Importances) -> list[str]:
    try:
        known = first.estimates
    except ValueError:
        return []
    from losslens.uncertainty.inference import adjusted

    p = adjusted(known.p_values(), "holm")
    names = [name for name, value in zip(known.names, p.tolist(), strict=True) if value > 0.05]
    if not names:
        return ["Every feature matters: none of the importances can be 0 (tests at 5%, Holm)."]
    listed = _listed([repr(name) for name in names[:8]]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return [f"Of {listed} it cannot be told whether the model gains anything from them (tests at 5%, Holm)."]


def _others(models: Mapping[str, Importances]) -> list[str]:
    if len(models) < 2:
        return []
    errors = sorted((found.error, name) for name, found in models.items())
    return ["Errors of the models: " + _listed([f"{name} {in_digits(error)}" for error, name in errors]) + "."]


def _computed(first: Importances, share: ShapleyImportance | None, n_given: int) -> list[str]:
    n = len(first._first.at)
    rows = f"{n:,} rows" if n == n_given else f"a random sample of {n:,} of the {n_given:,} rows"
    kind = "exact over all pairs" if first.exact else f"sampled with {first.design}"
    found = [f"Permutation importances on {rows}: {kind}, engine {first.engine}, {first.n_predictions:,} predictions."]
    if share is not None:
        found.append(f"Shapley shares: {share.notes[0]}.")
    return [*found, "Intervals are about this fitted model on new rows from the same source."]


def _careful(first: Importances, n_given: int, columns: Mapping[str, Floats]) -> list[str]:
    found = ["On rows that the model was fitted on, importances show what it has learnt by heart: use rows new to it."]
    n = len(first._first.at)
    if n < n_given:
        found.append(f"All numbers are about the sample of {n:,} rows.")
    if n < FEW_ROWS:
        found.append(f"{n} rows are few: intervals are wide, and rare kinds of rows may be missing.")
    pairs = _alike(columns)
    if pairs:
        listed = _listed([f"{a} and {b} ({value:.2f})" for value, a, b in pairs[:3]])
        found.append(
            f"Some features go together ({listed}, rank correlation): rows with one of them replaced may be unlike any "
            "real row, and each can stand in for the other."
        )
    found += [f"{note[0].upper()}{note[1:]}." for note in first.notes[1:]]
    return found


def _alike(columns: Mapping[str, Floats]) -> list[tuple[float, str, str]]:
    """Pairs of number columns that go together, the strongest first."""
    names = list(columns)
    if len(names) < 2:
        return []
    from scipy.stats import rankdata

    moving = [k for k, name in enumerate(names) if np.unique(columns[name]).size > 2]
    found = []
    for place, j in enumerate(moving):
        for k in moving[place + 1 :]:
            known = np.isfinite(columns[names[j]]) & np.isfinite(columns[names[k]])
            a, b = (rankdata(columns[names[place]][known]) for place in (j, k))
            value = float(np.corrcoef(a, b)[0, 1]) if known.sum() > 2 and np.ptp(a) and np.ptp(b) else 0.0
            if abs(value) >= ALIKE:
                found.append((value, names[j], names[k]))
    return sorted(found, key=lambda pair: -abs(pair[0]))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
