"""Several models on the same rows: paired differences of their errors and of every importance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from losslens.page.groups import difference_dict
from losslens.results.comparison import Comparison
from losslens.results.importances import Importances
from losslens.results.sentences import smallest_error, smallest_is_uncertain

MOST_MODELS = 6  # with more, differences are those to the first model only


def compared(models: Mapping[str, Importances], features: Sequence[str]) -> dict[str, Any] | None:
    """Differences of every two models, the first less the second; None for one model."""
    if len(models) < 2:
        return None
    comparison, names = Comparison(importances=dict(models), shapley={}, paired=True), list(models)
    pairs = [(j, k) for j, k in combinations(range(len(names)), 2) if j == 0 or len(names) <= MOST_MODELS]
    differences = [
        {
            "first": j,
            "second": k,
            "error": difference_dict(partial(comparison.error_difference, names[j], names[k])),
            "importances": [difference_dict(partial(comparison.difference, f, names[j], names[k])) for f in features],
        }
        for j, k in pairs
    ]
    sentences = [smallest_error(comparison), smallest_is_uncertain(comparison)]
    return {"differences": differences, "sentences": list(filter(None, sentences))}
