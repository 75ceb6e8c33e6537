"""The sentences at the top of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from losslens.results.importances import Importances
from losslens.results.shapley import ShapleyImportance
from losslens.text import in_digits
from losslens.typing import Floats

CORRELATED = 0.7  # absolute rank correlation from which on two features are named as correlated
FEW_ROWS = 100  # with fewer, the page warns of wide intervals


def words(
    models: Mapping[str, Importances],
    shares: Mapping[str, ShapleyImportance],
    ends: tuple[float, float],
    n_given: int,
    columns: Mapping[str, Floats],
) -> dict[str, Any]:
    """A headline, the most important features, what was computed, and cautions."""
    name, first = next(iter(models.items()))
    share = shares.get(name)
    return {
        "headline": _headline(name, first, share, ends),
        "sentences": [*_leading(first, share), *_unsure(first), *_others(models)],
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
    return f"{error}; with all values from other rows it would be {none}: the features reduce it by {saved:.0%}."


def _leading(first: Importances, share: ShapleyImportance | None) -> list[str]:
    """The features with the largest shares and importances, with their uncertainty."""
    ranked = first._ranked
    sentences = []
    if share is not None and share._total > 0:
        parts = sorted(zip(share.share.tolist(), share.features, strict=True), reverse=True)
        most = [(part, name) for part, name in parts if part >= 0.05][:4] or parts[:1]
        listed = _listed([f"{name} ({part:.0%})" for part, name in most])
        sentences.append(f"Of that, the largest share{'s are' if len(most) > 1 else ' is'} due to {listed}.")
    best = ranked[0]
    if not best.pfi > 0:
        return [*sentences, "Without any single feature the error would not grow."]
    text = f"Without {best.name} the error would grow by {in_digits(best.pfi)}"
    try:
        low, high = best.interval()
        table = first.estimates.ranks()
        sure = int(table[2][first.estimates.names.index(best.name)]) == 1
        text += f" (95% interval {in_digits(low)} to {in_digits(high)})"
        text += ", more than without any other feature." if sure else "; which feature ranks first is uncertain."
    except ValueError:  # too few rows
        text += "."
    return [*sentences, text]


def _unsure(first: Importances) -> list[str]:
    try:
        estimates = first.estimates
    except ValueError:
        return []
    from losslens.uncertainty.inference import adjusted

    p = adjusted(estimates.p_values(), "holm")
    names = [name for name, value in zip(estimates.names, p.tolist(), strict=True) if value > 0.05]
    if not names:
        return ["Every feature matters: all importances differ from 0 (tests at 5%, Holm)."]
    listed = _listed([repr(name) for name in names[:8]]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return [f"It is uncertain whether the model gains anything from {listed} (tests at 5%, Holm)."]


def _others(models: Mapping[str, Importances]) -> list[str]:
    if len(models) < 2:
        return []
    errors = sorted((importances.error, name) for name, importances in models.items())
    return ["Errors of the models: " + _listed([f"{name} {in_digits(error)}" for error, name in errors]) + "."]


def _computed(first: Importances, share: ShapleyImportance | None, n_given: int) -> list[str]:
    n = len(first._first.at)
    rows = f"{n:,} rows" if n == n_given else f"a random sample of {n:,} of the {n_given:,} rows"
    kind = "exact over all pairs" if first.exact else f"sampled with {first.design}"
    sentences = [
        f"Permutation importances on {rows}: {kind}, engine {first.engine}, {first.n_predictions:,} predictions."
    ]
    if share is not None:
        sentences.append(f"Shapley shares: {share.notes[0]}.")
    return [*sentences, "Intervals are about this fitted model on new rows from the same source."]


def _careful(first: Importances, n_given: int, columns: Mapping[str, Floats]) -> list[str]:
    sentences = [
        "On its training rows a model's importances also show overfitting: use rows that it was not fitted on."
    ]
    n = len(first._first.at)
    if n < n_given:
        sentences.append(f"All numbers are about the sample of {n:,} rows.")
    if n < FEW_ROWS:
        sentences.append(f"{n} rows are few: intervals are wide, and rare values may be missing.")
    pairs = _correlated(columns)
    if pairs:
        listed = _listed([f"{a} and {b} ({value:.2f})" for value, a, b in pairs[:3]])
        sentences.append(
            f"Some features are correlated ({listed}, rank correlation): rows with one of them replaced may be unlike "
            "any real row, and each can substitute for the other."
        )
    sentences += [f"{note[0].upper()}{note[1:]}." for note in first.notes[1:]]
    return sentences


def _correlated(columns: Mapping[str, Floats]) -> list[tuple[float, str, str]]:
    """Pairs of correlated numeric columns, the strongest first."""
    from scipy.stats import rankdata

    varying = [name for name in columns if np.unique(columns[name]).size > 2]
    pairs = []
    for first, second in combinations(varying, 2):
        present = np.isfinite(columns[first]) & np.isfinite(columns[second])
        a, b = (rankdata(columns[name][present]) for name in (first, second))
        value = float(np.corrcoef(a, b)[0, 1]) if present.sum() > 2 and np.ptp(a) and np.ptp(b) else 0.0
        if abs(value) >= CORRELATED:
            pairs.append((value, first, second))
    return sorted(pairs, key=lambda pair: -abs(pair[0]))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
