"""Where an interval cannot be trusted: one plain sentence each, to stand beside the number; a few words in frames."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import comb

from losslens.donors.conditional import Conditioning
from losslens.donors.exchangeability import LEVEL
from losslens.tables.sample import Sample
from losslens.text import share_in_words
from losslens.uncertainty.standard_errors import degrees_of_freedom, skewness_limit

FEW_GROUPS = 30  # below, intervals cover less than they say, most where groups differ much in size
FEW_ROWS = 10  # below, a standard error is itself a rough number
MUCH_CLIPPED = 0.01  # of the cells, from which on the bound of the log loss decides the number
MUCH_OF_ONE_VALUE = 1 / 3  # of the rows
SKEWED_TARGET = 0.15  # skewness of the mean of such a target, from which on intervals cover less than they say
MOST_NAMES = 3  # of features that share a sentence

# How a sentence is recognised, and the few words for it in data frames: pandas prints lines of at most 80 letters, and
# would hide the numbers between names and a sentence, or even "correlated with income".
IN_FRAMES = {
    r"effective number of (groups|rows) is (\S+):": r"few \1 (\2)",
    r"effective size of the smaller group is (\S+):": r"small group (\1)",
    r"few rows decide this number": "few rows decide",
    r"at the bound of the log loss": "clipped log loss",
    r"target is (\S+) in .* and skewed": r"target often \1",
    r"drawn values differ from real ones": "doubtful draws",
    r"correlated with .*: shuffling": "correlated",
    r"(\d+%) of the rows with it .* unlike any real one": r"\1 unrealistic",
}


def few_groups(effective: float) -> str:
    """The caution if groups of rows count as too few of equal weight, else empty."""
    if not effective < FEW_GROUPS:
        return ""
    few = f"with fewer than {FEW_GROUPS}, intervals may be too narrow"
    return f"The effective number of groups is {effective:.3g}: {few}."


def few_rows(effective: float) -> str:
    """The caution if rows count as too few of equal weight, else empty."""
    if not effective < FEW_ROWS:
        return ""
    return f"The effective number of rows is {effective:.3g}: with fewer than {FEW_ROWS}, an interval is rough."


def small_group(effective: float) -> str:
    """The caution if the smaller of two compared groups counts as too few rows of equal weight, else empty."""
    if not effective < FEW_GROUPS:
        return ""
    few = f"with fewer than {FEW_GROUPS}, intervals may be too narrow"
    return f"The effective size of the smaller group is {effective:.3g}: {few}."


def skewed(skewness: float, freedom: float, level: float = 0.95) -> str:
    """The caution if the skewness of an interval is at its limit, else empty."""
    from scipy.special import stdtrit  # loads faster than scipy.stats: text of a result needs no more

    if not abs(skewness) > skewness_limit(float(stdtrit(freedom, (1 + level) / 2))):
        return ""
    return "A few rows decide this number: its interval may be too narrow."


def clipped(share: float) -> str:
    """The caution if much of a log loss is at its bound: this share of the cells."""
    if not share > MUCH_CLIPPED:
        return ""
    part = share_in_words(share)
    return f"{part} of the replaced predictions are at the bound of the log loss, which decides this number."


def inflated(sample: Sample) -> str:
    """The caution if many rows have the same target, such as 0, and the others are too few or too skewed; else empty.

    The sample then often lacks the large targets, and with them its standard error and skewness are too small.
    """
    value, share, skewness = sample.usual_target
    if share < MUCH_OF_ONE_VALUE or not abs(skewness) > SKEWED_TARGET:
        return ""
    part = share_in_words(share)
    return f"The target is {value:g} in {part} of the rows and skewed in the others: an interval may be too narrow."


def doubted_draws(conditioning: Conditioning | None) -> str:
    """The caution if values drawn given other columns differ from real ones, else empty."""
    if conditioning is None or not conditioning.in_doubt:
        return ""
    share, p, given = share_in_words(conditioning.recognised), conditioning.recognised_p, conditioning.condition
    how = f"a test recognises {share} of them, 50% by chance; p = {p:.2g}"
    return f"Drawn values differ from real ones {given} ({how}): the p-value and the interval may be wrong."


def doubted_folds(doubted: int, folds: int) -> str:
    """The caution if more folds have doubted draws than a correct sampler has in all but 5% of the cases."""
    by_chance = sum(comb(folds, k) * LEVEL**k * (1 - LEVEL) ** (folds - k) for k in range(doubted, folds + 1))
    if by_chance > LEVEL:
        return ""
    return (
        f"Drawn values differ from real ones in {doubted} of {folds} folds: the p-value and the interval may be wrong."
    )


def few_units(effective: float, *, grouped: bool) -> str:
    """The caution if rows, or groups of rows, count as too few."""
    return few_groups(effective) if grouped else few_rows(effective)


def of_estimate(skewness: float, effective: float, *, grouped: bool = False) -> str:
    """All cautions on a 95% interval; empty where there are none."""
    cautions = few_units(effective, grouped=grouped), skewed(skewness, degrees_of_freedom(effective))
    return " ".join(filter(None, cautions))


def in_short(caution: str) -> str:
    """A caution in a few words, for data frames; a text that is no caution, such as why there is no number, stays.

    >>> in_short("The effective number of groups is 6: with fewer than 30, intervals may be too narrow.")
    'few groups (6)'
    >>> in_short("A few rows decide this number. Correlated with income: shuffling it may create unrealistic rows.")
    '2 cautions'
    """
    seen = [(sign, re.search(sign, caution, re.IGNORECASE)) for sign in IN_FRAMES]
    short = [match.expand(IN_FRAMES[sign]) for sign, match in seen if match]
    return f"{len(short)} cautions" if len(short) > 1 else "".join(short or [caution])


def noted(names: Sequence[str], cautions: Sequence[str]) -> list[str]:
    """Notes on several features, one for each sentence; without names where it is about all of them."""
    parts = _shared(names, cautions)
    return [f"{'' if everybody else f'{who}: '}{_small(said).removesuffix('.')}" for who, said, everybody in parts]


def sentences(names: Sequence[str], cautions: Sequence[str], start: str) -> list[str]:
    """Cautions of several features as full sentences, which start with what they are about.

    >>> sentences(["a", "b"], ["", "A few rows decide this number."], "Importance of")
    ['Importance of b: a few rows decide this number.']
    """
    parts = _shared(names, cautions)
    return [
        f"{start} {'every feature' if everybody and len(names) > MOST_NAMES else who}: {_small(said)}"
        for who, said, everybody in parts
    ]


def _shared(names: Sequence[str], cautions: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """The features that share a sentence, the sentence, and whether it is about all of them."""
    for sentence in dict.fromkeys(filter(None, cautions)):
        having_it = [name for name, caution in zip(names, cautions, strict=True) if caution == sentence]
        distinct = list(dict.fromkeys(having_it))
        more = f" and {len(distinct) - MOST_NAMES} more" if len(distinct) > MOST_NAMES else ""
        yield f"{', '.join(distinct[:MOST_NAMES])}{more}", sentence, len(having_it) == len(names)


def _small(sentence: str) -> str:
    return f"{sentence[0].lower()}{sentence[1:]}"
