"""The rule of ``donors="auto"``: all pairs where that is cheap, else donors until their noise is negligible.

It depends on counts, never on seconds: the same data give the same result on every machine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from losslens.donors.designs import All, Design, Grid, Latin, Systematic
from losslens.donors.questions import Subject
from losslens.results.importance import FeatureImportance

EXACT_PREDICTIONS = 1_000_000  # a feature that needs at most so many is computed over all pairs
FIRST_DRAW = 8  # donors a row in the first round of a sample
PAIR_AXIS = 20  # grid values on each axis of a pair
EFFECT_GRID = (20, 100)  # fewest and most grid values of an effect where all values are over the limit
FIXED_DONORS = 32  # donors a row where there is no standard error to compare the noise with
NOISE_SHARE = 0.1  # of the sampling variance: below it, more donors hardly reduce the total variance


def exact_cost(subject: Subject, n: int) -> int:
    """Predictions for all pairs of one feature: each row at every distinct value but its own."""
    return n * (len(subject.distinct) - 1)


def first_design(subject: Subject, n: int, *, blocked: bool = False) -> Design:
    """All pairs where that is cheap, else a first draw of shifts; pairs of features get a grid.

    `blocked`: donors come from other groups. All donors of a systematic shift might be in the rows' own groups, so the
    shifts are random.
    """
    if subject.feature.kind == "pair":
        return Grid(min(PAIR_AXIS, n), at="quantiles")
    if exact_cost(subject, n) <= EXACT_PREDICTIONS:
        return All()
    return Latin(FIRST_DRAW) if subject.feature.kind == "group" or blocked else Systematic(FIRST_DRAW)


def effect_design(subject: Subject, n: int) -> Design:
    """The same for curves only: a common grid where all values are over the limit."""
    design = first_design(subject, n)
    return design if design.common else Grid(int(np.clip(EXACT_PREDICTIONS // n, *EFFECT_GRID)), at="quantiles")


def _noise_over_sampling(importance: FeatureImportance) -> float:
    """Monte-Carlo variance over sampling variance; infinite where there are too few donors to estimate it."""
    if importance.sample.units() < 3:  # no standard error: a fixed number of donors
        return 0.0 if (importance.design.m or 0) >= FIXED_DONORS else np.inf
    try:
        influence = importance.influence
    except ValueError:  # too few donors with positive weight
        return np.inf
    noise, sampling = influence.noise, influence.variance
    if not importance.design.ranked:
        sampling -= noise
    return 0.0 if noise == 0 else noise / sampling if sampling > 0 else np.inf


def wants_more(importance: FeatureImportance) -> bool:
    """Whether the noise of the sampled donors is not negligible yet."""
    return not importance.design.common and _noise_over_sampling(importance) > NOISE_SHARE


def more_donors(importance: FeatureImportance) -> int:
    """Twice the donors, or four, eight, ... times where the noise, which falls as 1/m, requires it."""
    ratio = _noise_over_sampling(importance)
    doublings = int(np.clip(np.ceil(np.log2(ratio / NOISE_SHARE)), 1, 16)) if np.isfinite(ratio) else 1
    return int((importance.design.m or 1) * 2**doublings)


def next_design(importance: FeatureImportance, subject: Subject, n: int) -> Design:
    """The design of the next round."""
    design: Any = importance.design  # Latin or Systematic
    m = more_donors(importance)
    return All() if m >= len(subject.distinct) - 1 else replace(design, m=m)
