"""The error in a reader's words: how far predictions are off, how often an answer is wrong, how many times as large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor, log10
from typing import ClassVar, Literal, TypeVar

import numpy as np

from losslens.losses import Loss
from losslens.results.importances import Importances
from losslens.results.one_number import number_of
from losslens.results.scores import Scores
from losslens.text import measured, rounded, share_in_words

Kind = Literal["root", "mean", "wrong", "typical", "times", "loss"]
LEADING = 8  # features in the picture of the first screen
LEVEL = 0.05  # of tests
MOST_DIGITS = 6  # of the largest number, where numbers that are compared would look equal with fewer
SAME = 1e-6  # numbers that are as close are equal
KINDS: dict[str, Kind] = {
    "squared_error": "root", "brier": "root", "absolute_error": "mean", "zero_one": "wrong", "log_loss": "typical",
}  # fmt: skip


def plain_kind(loss: Loss) -> Kind:
    """How readers see a mean loss. A custom loss has no meaning but its mean."""
    return "loss" if loss.custom else KINDS.get(loss.name, "times")


@dataclass(frozen=True)
class PlainError:
    """The error with nothing shuffled, and with a feature shuffled between rows, as readers see it.

    >>> error = PlainError("root", "squared error", 25.0)
    >>> error.now, error.after(119.0), error.after(-30.0), error.grown(119.0)
    (5.0, 12.0, 0.0, 'its predictions are off by 12.0 instead of 5.00')
    """

    kind: Kind
    title: str  # of the loss
    error: float  # mean loss with nothing shuffled
    largest: float = 0.0  # number of the first screen: all of its numbers have as many decimals
    digits: int = 3  # of the largest

    @property
    def falls(self) -> bool:
        """Whether the number is smaller where the loss is larger."""
        return self.kind == "typical"

    @property
    def times(self) -> bool:
        """Whether readers see a multiple of the error, which an error of 0 has not."""
        return self.kind == "times" and self.error > 0

    @property
    def now(self) -> float:
        """The number with nothing shuffled."""
        return self.after(0.0)

    def after(self, pfi: float) -> float:
        """The number with a feature shuffled, whose importance is the increase of the mean loss."""
        if self.times:
            return 1 + pfi / self.error
        if self.falls:
            return float(np.exp(-max(self.error + pfi, 0.0)))
        return float(np.sqrt(max(self.error + pfi, 0.0))) if self.kind == "root" else self.error + pfi

    def text(self, value: float) -> str:
        """A number of `now` or `after`."""
        if self.kind in ("wrong", "typical"):
            return share_in_words(value, self.digits - 2)
        if self.times and abs(value) < 100:
            return f"{value:.{self.digits - 1}f}"
        return short_digits(value, self.largest or self.now, self.digits)

    def level(self, loss: float, low: float = float("nan"), high: float = float("nan")) -> str:
        """A mean loss as the page's tables show it, with the digits that its interval allows (`assets/told.js`)."""
        value, start, end = (self.after(one - self.error) for one in (loss, low, high))
        if self.kind in ("wrong", "typical"):
            return share_in_words(value, 1)
        return rounded(value, start, end) + ("×" if self.times else "")

    def between(self, low: float, high: float) -> str:
        """The ends of an interval of a mean loss, the smaller number first."""
        ends = (high, low) if self.falls else (low, high)
        return " to ".join(self.level(end, low, high) for end in ends)

    @property
    def name(self) -> str:
        """What sentences call the numbers."""
        return self.unit.removesuffix(" ratio")

    @property
    def measure(self) -> str:
        """The name of the numbers."""
        return {
            "root": f"How far off the {'probabilities' if self.brier else 'predictions'} are ({self.unit})",
            "mean": "How far off the predictions are on average",
            "wrong": "The share of rows with a wrong answer",
            "typical": "The probability that the model typically gives to the true class",
            "times": f"Error ratio ({self.title}; 1× = unchanged)" if self.times else f"The {self.title}",
            "loss": f"The error ({self.title})",
        }[self.kind]

    @property
    def unit(self) -> str:
        """A short name of the numbers, for an axis or a column."""
        return {
            "root": "root of the Brier score" if self.brier else "root mean squared error",
            "mean": "mean absolute error",
            "wrong": "share of wrong answers",
            "typical": "typical probability of the true class",
            "times": f"{self.title} ratio" if self.times else self.title,
            "loss": self.title,
        }[self.kind]

    @property
    def brier(self) -> bool:
        """Whether predictions are probabilities, off by the root of a Brier score."""
        return self.title == "Brier score"

    def grown(self, pfi: float) -> str:
        """The effect of shuffling, as a clause: "its predictions are off by 160 instead of 33"."""
        now, after = self.now, self.after(pfi)
        ends = f"{self.text(after)} instead of {self.text(now)}"
        if self.kind in ("root", "mean"):
            return f"its {'probabilities' if self.brier else 'predictions'} are off by {ends}"
        if self.falls:
            return f"it typically gives the true class a probability of {ends}"
        if self.kind == "wrong":
            return f"its answer is wrong for {ends} of the rows"
        if self.times:
            return f"its error ({self.title}) is {self.text(after)} times as large"
        return f"its error ({self.title}) is {ends}"


@dataclass(frozen=True)
class PlainScore:
    """A score with nothing shuffled, and with a feature shuffled between rows, as readers see it.

    >>> score = PlainScore("ROC AUC", 0.9, falls=True)
    >>> score.now, score.after(0.25), score.grown(0.25)
    (0.9, 0.65, 'its ROC AUC is 0.650 instead of 0.900')
    """

    name: str
    base: float  # the score, or the error that a scorer negates, with nothing shuffled
    falls: bool  # it is a score, the larger the better
    largest: float = 0.0  # as of an error
    digits: int = 3
    times: ClassVar[bool] = False

    @property
    def now(self) -> float:
        """The score with nothing shuffled."""
        return self.base

    def after(self, pfi: float) -> float:
        """The score with a feature shuffled, whose importance is its decrease, or the increase of an error."""
        return self.base - pfi if self.falls else self.base + pfi

    def text(self, value: float) -> str:
        """A number of `now` or `after`."""
        return short_digits(value, self.largest or self.base, self.digits)

    @property
    def measure(self) -> str:
        """The name of the numbers."""
        return f"The {self.name}"

    def grown(self, pfi: float) -> str:
        """The effect of shuffling, as a clause."""
        return f"its {self.name} is {self.text(self.after(pfi))} instead of {self.text(self.now)}"


P = TypeVar("P", PlainError, PlainScore)


def plain(model: Importances | Scores) -> PlainError | PlainScore:
    """The error or the score of a model in a reader's words, with the decimals of the picture of the first screen."""
    shown = model._ranked[:LEADING]
    pfi, ends = [one.pfi for one in shown], [number_of(one, name) for one in shown for name in ("low", "high")]
    if model._is_score:
        return scaled(PlainScore(score_name(model.title), model.base, model._measure == "score"), pfi, ends)
    return scaled(plain_error(model), pfi, ends)


def plain_error(model: Importances) -> PlainError:
    """The error of a model by a loss in a reader's words."""
    return PlainError(plain_kind(model.loss), model.title, model.error)


def scaled(number: P, importances: Sequence[float], ends: Sequence[float] = ()) -> P:
    """The same with decimals for all of these: enough that the first importances differ from none."""
    sizes = [abs(number.after(pfi)) for pfi in (0.0, *importances, *ends) if np.isfinite(pfi)]
    number = replace(number, largest=max(sizes))
    apart = [value for value in map(number.after, importances[:1]) if abs(value - number.now) > SAME * abs(number.now)]
    for digits in range(number.digits, MOST_DIGITS + 1):
        number = replace(number, digits=digits)
        if number.text(number.now) not in map(number.text, apart):
            break
    return number


NAMES = {
    "roc_auc_score": "ROC AUC", "r2_score": "R²", "accuracy_score": "accuracy", "average_precision_score":
    "average precision", "balanced_accuracy_score": "balanced accuracy", "f1_score": "F1 score",
}  # fmt: skip


def score_name(title: str) -> str:
    """What a scorer measures, in a reader's words.

    >>> score_name("roc_auc_score"), score_name("neg_mean_absolute_error"), score_name("d2_tweedie_score")
    ('ROC AUC', 'mean absolute error', 'd2 tweedie score')
    """
    return NAMES.get(title, measured(title)[0].replace("_", " "))


def short_digits(value: float, like: float | None = None, digits: int = 3) -> str:
    """A number with two significant digits, and as many decimals at least as the larger of both has with three.

    >>> short_digits(32.71, 160.3), short_digits(160.3), short_digits(0.05123, 12.5), short_digits(26504.3)
    ('33', '160', '0.051', '26,504')
    >>> short_digits(0.0), short_digits(1.2e-7), short_digits(3e12), short_digits(0.98765, 1.2)
    ('0', '1.2e-07', '3e+12', '0.99')
    """
    largest = max(abs(value), abs(value if like is None else like))
    if not 1e-5 <= largest < 1e9:
        return f"{value:.2g}"
    own = _decimals(value, 2) if abs(value) >= 1e-5 else 0
    return f"{value:,.{max(own, _decimals(largest, digits))}f}"


def _decimals(value: float, digits: int) -> int:
    return max(0, digits - 1 - floor(log10(abs(value))))


def is_sure(p: float | None, low: float | None) -> bool:
    """The one rule of marks and sentences: Holm's one-sided p is at most 5%, and the two-sided 95% interval above 0."""
    return p is not None and p <= LEVEL and low is not None and low > 0
