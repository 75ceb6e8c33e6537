"""The simplest alternative to a model: the best constant, or for a score a random ranking; and whether it is beaten."""

from __future__ import annotations

from typing import Any

import numpy as np

from losslens.page.quality import against_constant
from losslens.results.ranking import Baseline
from losslens.results.scores import Scores
from losslens.results.table import or_else
from losslens.text import claim

SAME = 0.005  # skills below it are shown as none
IN_WORDS = {"the mean of y": "the average", "the median of y": "the median", "the share of each class":
            "the class frequencies"}  # fmt: skip


def baseline(model: Any) -> Baseline | None:
    """The alternative by the loss or the score of a result; None where none is known."""
    if model._is_score:
        return _of_score(model)
    skill = or_else(lambda: model.skill, None)
    constant = or_else(lambda: against_constant(model._first), None)
    if skill is None or constant is None:
        return None
    return Baseline(always(constant["predicts"]), skill >= SAME, bool(constant["high"] < 0))


def always(constant: str) -> str:
    """The best constant as readers call it."""
    return f"always predicting {IN_WORDS.get(constant, constant)}"


def _of_score(model: Scores) -> Baseline | None:
    """An AUC of a random ranking is 0.5, R² of the average 0; what others are of a constant is not known."""
    words, least = ("a random ranking", 0.5) if model._first.is_auc else (always("the average"), 0.0)
    if not (model._first.is_auc or model.title == "r2_score") or not np.isfinite(model.base):
        return None
    low, _ = or_else(model.score_interval, (np.nan, np.nan))
    return Baseline(words, model.base > least + SAME, bool(low > least))


@claim(level=0)
def no_better(one: Baseline | None, target: str) -> str:
    """Where the model is not better on these rows by half a percent, or may not be on new ones."""
    if one is None or (one.here and one.surely):
        return ""
    where, how, little = ("On new rows", "may do", "little") if one.here else ("On these rows", "does", "nothing")
    return f"{where} the model {how} no better than {one.words}, so this ranking may tell you {little} about {target}."
