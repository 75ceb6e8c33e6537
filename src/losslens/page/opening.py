"""The first screen in words: a question and at most three sentences, for readers to whom the method is new.

How well the model predicts beside the simplest alternative, what matters most and how surely, and one thing to be
careful about. The alternative is the best constant, or for a score a random ranking (`baseline`). By a loss and by a
score the sentences are the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.page.labels import labels
from losslens.page.quality import IN_WORDS, against_constant, error_ends, mean_of
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.plain_error import plain, plain_error, plain_kind, score_name
from losslens.results.ranking import OTHERS, Baseline
from losslens.results.scores import FeatureScore, Scores
from losslens.results.table import or_else
from losslens.text import LONGEST, claim, cut, in_digits, listed, shares_in_words

UNNAMED = "the target"
FEW_CLASSES = 3  # that the question names
CLAUSES = ("what", "whether", "which", "who", "how", "if", "when", "where", "why")  # a target may start with one
SAME = 0.005  # skills below it are shown as none


@claim(level=0)
def question(target: str, classes: Sequence[str] | None = None) -> str:
    """The question of the page, in the reader's words; up to three classes are named, unless they are numbers.

    >>> question("diagnosis", ["benign", "malignant"])
    'What does this model need to predict diagnosis (benign or malignant)?'
    >>> question("default", ["0", "1"])
    'What does this model need to predict default?'
    >>> question("what the borrower does")
    'What does this model need to predict “what the borrower does”?'
    """
    named = " or ".join(classes or ())
    few = classes is not None and len(classes) <= FEW_CLASSES and len(named) <= LONGEST
    which = f" ({named})" if few and any(letter.isalpha() for letter in named.replace(" or ", "")) else ""
    clause = target.split(" ", maxsplit=1)[0].lower() in CLAUSES
    return f"What does this model need to predict {f'“{target}”' if clause else target}{which}?"


@dataclass(frozen=True)
class Told:
    """How well the models do, as readers are told it: one number each, and that of the simplest alternative."""

    measure: str  # the name of the numbers
    texts: tuple[str, ...]  # of each model
    alternative: str  # what it does; empty where none is known
    number: str = ""  # its own
    tail: str = ""  # how it compares, where that is not what is expected
    between: str = ""  # the interval of the first


def told(models: Mapping[str, Importances | Scores]) -> Told:
    """The numbers of how well the models do on these rows."""
    first: Any = next(iter(models.values()))
    if first._is_score:
        score = plain(first)
        texts = tuple(score.text(one.base) for one in models.values())
        low, high = or_else(first.score_interval, (np.nan, np.nan))
        between = f"{score.text(low)} to {score.text(high)}" if np.isfinite([low, high]).all() else ""
        chance = ("a random ranking", "0.5") if first._first.is_auc else ("", "")
        return Told(score_name(first.title), texts, *chance, between=between)
    constant, one = or_else(lambda: first._first.best_constant, None), first._first
    if _is_off(first):
        return _how_far_off(models, first)
    if _has_answers(one):
        return _how_often_right(models, one)
    texts = tuple(in_digits(model.base) for model in models.values())
    if constant is None:
        return Told(first.title, texts, "")
    less = ", less than the model" if constant.error < first.error else ""
    return Told(first.title, texts, always(constant.words), in_digits(constant.error), less)


def _how_far_off(models: Mapping[str, Importances | Scores], first: Importances) -> Told:
    """Squared and absolute error: in units of the target."""
    error, constant = plain(first), first._first.best_constant
    texts = tuple(error.text(plain(one).now) for one in models.values())
    skill = or_else(lambda: first.skill, None)
    same = skill is not None and abs(skill) < SAME
    tail = " as well" if same else ", less than the model" if constant.error < first.error else ""
    number = error.text(error.after(constant.error - first.error))
    return Told(error.measure, texts, always(constant.words), number, tail)


def _how_often_right(models: Mapping[str, Importances | Scores], one: FeatureImportance) -> Told:
    """How often the answer is right, the label or the most probable class, and how often the same for all is."""
    weight = one.sample.weight[one.at]
    assert one.sample.y is not None  # every named loss reads it
    assert one.sample.classes is not None
    shares = np.bincount(one.sample.y[one.at], weight) / weight.sum()
    frequent, base = cut(labels(one.sample.classes)[int(shares.argmax())]), float(shares.max())
    right = [share_right(model._first) for model in models.values()]
    *texts, often = shares_in_words(*right, base, digits=1)
    least = mean_of(_is_right(one).astype(float) - (one.sample.y == shares.argmax())[one.at], weight)[1]
    doubt = "" if least > 0 else ", and the difference could be chance"
    tail = " too" if abs(base - right[0]) < 1e-9 else ", more often" if base > right[0] else doubt
    return Told("Share of rows with the right answer", tuple(texts), f"always answering “{frequent}”", often, tail)


@claim(level=0)
def how_well(models: Mapping[str, Importances | Scores], target: str, n_given: int) -> str:
    """The error or the score on these rows, of each model, and that of the simplest alternative."""
    first, numbers = next(iter(models.values())), told(models)
    own, *others = numbers.texts
    text, of, would, unknown = _phrases(first, target, numbers.between)
    also = [of.format(cut(name), number) for name, number in zip(list(models)[1:], others, strict=True)]
    text = f"{on_rows(first._first, n_given)}, {text.format(own)}{f', {listed(also, OTHERS)}' if also else ''}"
    if not numbers.alternative:
        return f"{text}{unknown}."
    return f"{text}; {numbers.alternative} {would.format(numbers.number)}{numbers.tail}.{_probabilities(first)}"


def _probabilities(first: Any) -> str:
    """Where answers are told and probabilities ranked: how good these are, beside the class frequencies."""
    if first._is_score or not _has_answers(first._first) or plain_kind(first.loss) not in ("root", "typical"):
        return ""
    error, constant = plain_error(first), first._first.best_constant
    low, high = or_else(lambda: error_ends(first._first), (np.nan, np.nan))
    own, other = (error.level(loss, low, high) for loss in (first.error, constant.error))
    how = "It typically gives the true class a probability of {}" if error.falls else "Its probabilities are off by {}"
    would = "gives {}" if error.falls else "is off by {}"
    tail = ", no worse" if constant.error < first.error or own == other else ""
    return f" {how.format(own)}; {always(constant.words)} {would.format(other)}{tail}."


def _phrases(first: Any, target: str, between: str) -> tuple[str, str, str, str]:
    """What is said of the first model, of others, of the alternative, and where none is known."""
    if first._is_score:
        better = "larger is better" if first._measure == "score" else "smaller is better"
        ends = f"; 95% interval {between}" if between else ""
        return f"its {score_name(first.title)} is {{}} ({better}{ends})", "that of {} {}", "has {}", ""
    unknown = "; what the simplest prediction would have is not known for this loss"
    if _is_off(first):
        how = " (root mean squared error)" if plain_kind(first.loss) == "root" else " on average"
        return f"its predictions of {target} are off by about {{}}{how}", "those of {} by {}", "would be off by {}", ""
    if _has_answers(first._first):
        what = "the class" if target == UNNAMED else target
        return f"it is right about {what} for {{}}", "{} for {}", "would be right for {}", ""
    return f"its {first.title} is {{}} (smaller is better)", "that of {} {}", "would have {}", unknown


def _is_off(first: Importances) -> bool:
    """Whether predictions are values, which are off by so much."""
    return plain_kind(first.loss) in ("root", "mean") and first.loss.reads == "values"


def _has_answers(one: FeatureImportance) -> bool:
    """Whether the model's answers are classes, which are right or wrong."""
    return not one.loss.custom and one.loss.reads in ("labels", "probabilities") and one.sample.classes is not None


def on_rows(one: FeatureImportance | FeatureScore, n_given: int) -> str:
    """The rows that the page is about: all that were given, or a sample; their groups; whether they have weights."""
    n, sample = len(one.at), one.sample
    rows = f"On these {n:,} rows" if n == n_given else f"On a random sample of {n:,} of {n_given:,} rows"
    if sample.block is not None:
        rows += f" in {len(np.unique(sample.block[one.at])):,} groups"
    return f"{rows}, weighted" if np.ptp(sample.weight[one.at]) > 1e-9 * sample.weight.max() else rows


def share_right(one: FeatureImportance | FeatureScore) -> float:
    """The share of the rows whose label, or most probable class, is the true one."""
    weight = one.sample.weight[one.at]
    return float(weight @ _is_right(one) / weight.sum())


def _is_right(one: FeatureImportance | FeatureScore) -> NDArray[np.bool_]:
    answer = one.sample.prediction if one.sample.prediction.ndim == 1 else one.sample.prediction.argmax(axis=1)
    return np.asarray((answer == one.sample.y)[one.at])


def baseline(model: Any) -> Baseline | None:
    """The alternative by the loss or the score of a result; None where none is known."""
    if model._is_score:
        return _of_score(model)
    skill = or_else(lambda: model.skill, None)
    constant = or_else(lambda: against_constant(model._first), None)
    if skill is None or constant is None:
        return None
    of = "the model's probabilities" if model.loss.reads == "probabilities" else "the model"
    return Baseline(always(constant["predicts"]), skill >= SAME, bool(constant["high"] < 0), of)


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
    several = one.of.endswith("s")
    how = ("may be" if several else "may do") if one.here else "are" if several else "does"
    where, little = ("On new rows", "little") if one.here else ("On these rows", "nothing")
    return f"{where} {one.of} {how} no better than {one.words}, so this ranking may tell you {little} about {target}."
