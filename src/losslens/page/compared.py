"""Several models on the same rows: paired differences of their errors and of every importance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from losslens.page.groups import difference_dict
from losslens.results.comparison import Comparison
from losslens.results.importances import Importances
from losslens.results.table import or_else
from losslens.text import claim, in_digits

LEVEL = 0.05
MOST_MODELS = 6  # with more, differences are those to the first model only


def compared(models: Mapping[str, Importances], features: Sequence[str]) -> dict[str, Any] | None:
    """Differences of every two models, the first less the second; None for one model."""
    if len(models) < 2:
        return None
    found, names = Comparison(importances=dict(models), shapley={}, paired=True), list(models)
    pairs = [(j, k) for j, k in combinations(range(len(names)), 2) if j == 0 or len(names) <= MOST_MODELS]
    differences = [
        {
            "first": j,
            "second": k,
            "error": difference_dict(partial(found.error_difference, names[j], names[k])),
            "importances": [difference_dict(partial(found.difference, f, names[j], names[k])) for f in features],
        }
        for j, k in pairs
    ]
    sentences = [smallest_error(found), smallest_is_uncertain(found)]
    return {"differences": differences, "sentences": [text for text in sentences if text]}


def _least(found: Comparison) -> tuple[str, list[tuple[str, float, float]]]:
    """The model with the smallest error, and for each other the interval of its difference, for all together."""
    errors = {name: model.error for name, model in found.importances.items()}
    best = min(errors, key=lambda name: errors[name])
    others = sorted((name for name in errors if name != best), key=lambda name: errors[name])
    level = 1 - LEVEL / (len(errors) * (len(errors) - 1) / 2)  # which pairs are looked at depends on the errors
    ends = []
    for name in others:
        one = or_else(partial(found.error_difference, name, best, level), None)
        ends.append((name, float("nan"), float("nan")) if one is None else (name, one.low, one.high))
    return best, ends


@claim(level=LEVEL)
def smallest_error(found: Comparison) -> str:
    """The model with the smallest error, where paired intervals for all pairs together set it apart from all others."""
    best, others = _least(found)
    if not all(low > 0 for _, low, _ in others):
        return ""
    name, low, high = others[0]
    than = f"the next, {name}" if len(others) > 1 else name
    return (
        f"{best} has the smallest error: {in_digits(low)} to {in_digits(high)} less than {than} (paired 95% interval"
        f"{', for all pairs of models together' if len(others) > 1 else ''})."
    )


@claim(level=0)
def smallest_is_uncertain(found: Comparison) -> str:
    """Where no model is set apart so."""
    best, others = _least(found)
    near = [name for name, low, _ in others if not low > 0]
    if not near:
        return ""
    return (
        f"On these rows {best} has the smallest error, but on new ones {' or '.join(near[:3])} may have a smaller one "
        "(paired 95% intervals)."
    )
