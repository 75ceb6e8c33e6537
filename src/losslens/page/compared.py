"""Several models on the same rows: paired differences of their errors and of every importance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from losslens.page.groups import difference_dict
from losslens.page.plain_error import score_name
from losslens.page.quality import LEVEL
from losslens.results.comparison import Comparison
from losslens.results.importances import Importances
from losslens.results.table import or_else
from losslens.text import claim

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


def _best(comparison: Comparison) -> tuple[str, list[tuple[str, float, float]]]:
    """The best model, and for each other the interval of how far it is behind, for all together."""
    falls = comparison._measure == "score"  # the larger the better
    bases = {name: -model.base if falls else model.base for name, model in comparison.importances.items()}
    best = min(bases, key=lambda name: bases[name])
    others = sorted((name for name in bases if name != best), key=lambda name: bases[name])
    level = 1 - LEVEL / (len(bases) * (len(bases) - 1) / 2)  # which pairs are looked at depends on the errors
    ends = []
    for name in others:
        pair = (best, name) if falls else (name, best)
        one = or_else(partial(comparison.error_difference, *pair, level), None)
        ends.append((name, float("nan"), float("nan")) if one is None else (name, one.low, one.high))
    return best, ends


def _superlatives(comparison: Comparison) -> tuple[str, str, str]:
    """Words for the best value, for values beyond it, and for the number."""
    falls = comparison._measure == "score"
    name = score_name(comparison.title) if comparison._first._is_score else "error"
    return ("largest", "larger", name) if falls else ("smallest", "smaller", name)


@claim(level=LEVEL)
def smallest_error(comparison: Comparison) -> str:
    """The best model by error or score, where paired intervals for all pairs together separate it from all others."""
    best, others = _best(comparison)
    if not all(low > 0 for _, low, _ in others):
        return ""
    most, _, what = _superlatives(comparison)
    together = ", for all pairs of models together" if len(others) > 1 else ""
    return f"{best} surely has the {most} {what} (paired 95% interval{together})."


@claim(level=0)
def smallest_is_uncertain(comparison: Comparison) -> str:
    """Where no model is separated so."""
    best, others = _best(comparison)
    near = [name for name, low, _ in others if not low > 0]
    if not near:
        return ""
    most, more, what = _superlatives(comparison)
    return (
        f"On these rows {best} has the {most} {what}, but on new ones {' or '.join(near[:3])} may have a {more} one "
        "(paired 95% intervals)."
    )
