"""The rule behind ``donors="auto"``: exact where that is cheap, else as many donors as the data can tell apart.

A rule of counts, never of seconds: the same data give the same answer on every machine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from losslens.donors.designs import All, Design, Grid, Latin, Systematic
from losslens.donors.questions import Subject
from losslens.results.importance import FeatureImportance
from losslens.uncertainty import standard_errors

EXACT_PREDICTIONS = 1_000_000  # a feature that needs no more is explained over all pairs
FIRST_DRAW = 8  # donors a row in the first round of a sample
PAIR_AXIS = 20  # grid values on each axis of a pair
EFFECT_GRID = (20, 100)  # fewest and most grid values of an effect that is too dear in full
UNJUDGED = 32  # donors a row where no standard error can say how many suffice
NOISE_SHARE = 0.1  # of the sampling variance: more donors would not make the number more certain


def exact_cost(subject: Subject, n: int) -> int:
    """Predictions that all pairs of one feature need: its own value is known for each row."""
    return n * (len(subject.distinct) - 1)


def first_design(subject: Subject, n: int, *, blocked: bool = False) -> Design:
    """All pairs where that is cheap, else a first draw of shifts; pairs of features get a grid.

    Blocked: rows of one group don't lend to each other, and a whole systematic shift might fall into own groups.
    """
    if subject.feature.kind == "pair":
        return Grid(min(PAIR_AXIS, n), at="quantiles")
    if exact_cost(subject, n) <= EXACT_PREDICTIONS:
        return All()
    return Latin(FIRST_DRAW) if subject.feature.kind == "group" or blocked else Systematic(FIRST_DRAW)


def effect_design(subject: Subject, n: int) -> Design:
    """The same for curves alone: a common grid where all values are too dear."""
    design = first_design(subject, n)
    return design if design.common else Grid(int(np.clip(EXACT_PREDICTIONS // n, *EFFECT_GRID)), at="quantiles")


def _noise_over_sampling(importance: FeatureImportance) -> float:
    """Monte-Carlo variance over sampling variance; infinite where the draw is too thin to tell."""
    if importance.sample.units() < 3:  # two groups: no standard error, a fixed number has to do
        return 0.0 if (importance.design.m or 0) >= UNJUDGED else np.inf
    try:
        sampling = importance.std_error**2
    except ValueError:  # the rows that count met too few donors that do
        return np.inf
    noise = standard_errors.monte_carlo_variance(importance.means, importance.meeting, importance.sample, importance.at)
    if not np.isfinite(noise):
        return np.inf
    if not importance.design.ranked:
        sampling -= noise
    return 0.0 if noise == 0 else noise / sampling if sampling > 0 else np.inf


def wants_more(importance: FeatureImportance) -> bool:
    """Whether the draw of the donors still adds noise that counts."""
    return not importance.design.common and _noise_over_sampling(importance) > NOISE_SHARE


def next_design(importance: FeatureImportance, subject: Subject, n: int) -> Design:
    """Twice the donors, or four or eight times where the noise (it falls as 1/m) says that twice can't do."""
    design: Any = importance.design  # Latin or systematic shifts, which "auto" samples with
    ratio = _noise_over_sampling(importance)
    doublings = int(np.clip(np.ceil(np.log2(ratio / NOISE_SHARE)), 1, 16)) if np.isfinite(ratio) else 1
    m = design.m * 2**doublings
    return All() if m >= len(subject.distinct) - 1 else replace(design, m=m)
