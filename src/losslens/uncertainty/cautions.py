"""Where an interval cannot be trusted: one plain sentence each, said beside the number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import comb

from losslens.donors.conditional import Conditioning
from losslens.donors.exchangeability import LEVEL
from losslens.uncertainty.standard_errors import degrees_of_freedom, skewness_limit

FEW_GROUPS = 30  # below, intervals cover less than they say, most where groups differ much in size
FEW_ROWS = 10  # below, a standard error is itself a rough number
MUCH_CLIPPED = 0.01  # of the cells, from which on the bound of the log loss decides the number
MOST_NAMES = 3  # of features that share a sentence


def few_groups(effective: float) -> str:
    """Of groups of rows that count as so many of equal weight."""
    if not effective < FEW_GROUPS:
        return ""
    few = f"with fewer than {FEW_GROUPS}, intervals may be too short"
    return f"The groups count as {effective:.3g} of equal weight: {few}."


def few_rows(effective: float) -> str:
    """Of rows that count as so many of equal weight."""
    if not effective < FEW_ROWS:
        return ""
    return f"The rows count as {effective:.3g} of equal weight: with fewer than {FEW_ROWS}, an interval is rough."


def small_group(effective: float) -> str:
    """Of two groups of rows that are compared, the smaller of which counts as so many of equal weight."""
    if not effective < FEW_GROUPS:
        return ""
    few = f"with fewer than {FEW_GROUPS}, intervals may be too short"
    return f"The smaller group of rows counts as {effective:.3g} of equal weight: {few}."


def skewed(skewness: float, freedom: float, level: float = 0.95) -> str:
    """Of an interval whose skewness is at its limit."""
    from scipy.special import stdtrit  # loads faster than scipy.stats: text of a result needs no more

    if not abs(skewness) > skewness_limit(float(stdtrit(freedom, (1 + level) / 2))):
        return ""
    return "A few rows decide this number: its interval may be too short."


def clipped(share: float) -> str:
    """Of a log loss of which a share of the cells is at its bound."""
    if not share > MUCH_CLIPPED:
        return ""
    return f"{share:.0%} of the replaced predictions are at the bound of the log loss, which decides this number."


def doubted_draws(conditioning: Conditioning | None) -> str:
    """Of values drawn given other columns that can be told from real ones."""
    if conditioning is None or not conditioning.in_doubt:
        return ""
    told = f"told apart in {conditioning.told:.0%} of the rows, p = {conditioning.told_p:.2g}"
    given = conditioning.condition
    return f"Drawn values differ from real ones {given} ({told}): the p-value and the interval may be wrong."


def doubted_folds(doubted: int, folds: int) -> str:
    """Of refits: more folds with doubted draws than a sampler that is right has in all but 5% of the cases."""
    by_chance = sum(comb(folds, k) * LEVEL**k * (1 - LEVEL) ** (folds - k) for k in range(doubted, folds + 1))
    if by_chance > LEVEL:
        return ""
    return (
        f"Drawn values differ from real ones in {doubted} of {folds} folds: the p-value and the interval may be wrong."
    )


def few_units(effective: float, *, grouped: bool) -> str:
    """Of rows, or of groups of rows."""
    return few_groups(effective) if grouped else few_rows(effective)


def of_estimate(skewness: float, effective: float, *, grouped: bool = False) -> str:
    """All that is to be said of a 95% interval; empty where there is nothing."""
    found = few_units(effective, grouped=grouped), skewed(skewness, degrees_of_freedom(effective))
    return " ".join(filter(None, found))


def noted(names: Sequence[str], cautions: Sequence[str]) -> list[str]:
    """Notes on several features, one for each sentence; without names where it is about all of them."""
    parts = _shared(names, cautions)
    return [f"{'' if everybody else f'{who}: '}{_small(said).removesuffix('.')}" for who, said, everybody in parts]


def told(names: Sequence[str], cautions: Sequence[str], of: str) -> list[str]:
    """The same as full sentences that begin with what is meant.

    >>> told(["a", "b"], ["", "A few rows decide this number."], "Importance of")
    ['Importance of b: a few rows decide this number.']
    """
    parts = _shared(names, cautions)
    return [
        f"{of} {'every feature' if everybody and len(names) > MOST_NAMES else who}: {_small(said)}"
        for who, said, everybody in parts
    ]


def _shared(names: Sequence[str], cautions: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """The features that share a sentence, the sentence, and whether it is about all of them."""
    for sentence in dict.fromkeys(filter(None, cautions)):
        found = [name for name, caution in zip(names, cautions, strict=True) if caution == sentence]
        having = list(dict.fromkeys(found))
        more = f" and {len(having) - MOST_NAMES} more" if len(having) > MOST_NAMES else ""
        yield f"{', '.join(having[:MOST_NAMES])}{more}", sentence, len(found) == len(names)


def _small(sentence: str) -> str:
    return f"{sentence[0].lower()}{sentence[1:]}"
