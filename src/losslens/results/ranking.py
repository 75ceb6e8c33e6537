"""What matters, and how surely: sentences on features, functions of one set of estimates, by a loss or by a score.

Marks and tables of the page read the same tests: Holm's, of all features together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Self

import numpy as np

from losslens.results.extrapolation import Extrapolations
from losslens.results.importances import Importances
from losslens.results.plain_error import LEVEL, PlainError, PlainScore, is_sure, plain, scaled
from losslens.results.scores import Scores
from losslens.results.table import or_else
from losslens.text import Sentence, claim, cut, listed
from losslens.uncertainty.inference import Estimates, adjusted

TESTED = "tests at 5%, Holm, and 95% intervals"
OTHERS = 3  # features or models that a sentence names beside the first


@dataclass(frozen=True)
class Baseline:
    """The simplest alternative, and whether the model is better on these rows, and surely on new ones."""

    words: str  # "always predicting the average"
    here: bool
    surely: bool
    of: str = "the model"  # what is compared: "the model's probabilities"


@dataclass(frozen=True, eq=False)
class Ranking:
    """The features of one model, the most important first, with all that is known of them together."""

    names: tuple[str, ...]
    value: Mapping[str, float]  # importances as they are printed
    error: PlainError | PlainScore
    estimates: Estimates | None  # of the features with a standard error; None: of no feature
    unused: frozenset[str]  # features that change no error
    sampled: frozenset[str] = frozenset()  # of these, those that were tried with some donors only
    far: Mapping[str, str] = field(default_factory=dict)  # large shares of shuffled rows unlike real ones
    baseline: Baseline | None = None  # the simplest alternative to the model
    joint: str = ""  # a sentence on features that go together
    subject: str = "it"  # what sentences call the model

    @classmethod
    def of(
        cls, model: Importances | Scores, far: Extrapolations | None = None, baseline: Baseline | None = None,
        subject: str = "it",
    ) -> Self:  # fmt: skip
        """The ranking of a result."""
        found = {} if far is None else far
        large = {name: one.percent for name, one in found.items() if one.remark}
        unused = unused_features(model)
        return cls(
            tuple(one.name for one in model._ranked), {one.name: one.pfi for one in model._ranked}, plain(model),
            or_else(model.estimates, None), frozenset(unused),
            frozenset(name for name in unused if not model[name].exact), large, baseline, subject=subject,
        )  # fmt: skip

    @cached_property
    def p(self) -> dict[str, float]:
        """p-values of no importance for new rows, adjusted for all features that have a standard error."""
        if self.estimates is None:
            return {}
        p = adjusted(self.estimates.p_values(), "holm")
        return dict(zip(self.estimates.names, p.tolist(), strict=True))

    @cached_property
    def sure(self) -> list[str]:
        """The features that surely matter."""
        ends = [] if self.estimates is None else self.estimates.intervals()[0].tolist()
        low = dict(zip(self.p, ends, strict=True))
        return [name for name in self.names if is_sure(self.p.get(name), low.get(name))]

    @property
    def all_tested(self) -> bool:
        """Whether every feature has a standard error: a claim about all must not rest on some."""
        return len(self.p) == len(self.names)

    @cached_property
    def may_be_first(self) -> list[str]:
        """The features that may matter most on new rows, by simultaneous 95% intervals of ranks; not unused ones."""
        assert self.estimates is not None
        best = dict(zip(self.estimates.names, self.estimates.ranks()[1].tolist(), strict=True))
        return [name for name in self.names if best[name] == 1 and name not in self.unused]

    @property
    def first_for_sure(self) -> bool:
        """Whether the first of several surely matters, and its rank is 1 by its simultaneous interval."""
        if len(self.names) == 1 or not self.all_tested or self.names[0] not in self.sure or self.estimates is None:
            return False
        return int(self.estimates.ranks()[2][self.estimates.names.index(self.names[0])]) == 1

    @property
    def below_zero(self) -> list[str]:
        """Features whose importances are below 0, by intervals that hold for all features together."""
        if self.estimates is None:
            return []
        high = self.estimates.intervals(1 - LEVEL / len(self.estimates.names))[1]
        return [name for name, end in zip(self.estimates.names, high.tolist(), strict=True) if end < 0]

    @property
    def worse(self) -> str:
        """What happens to the number of the page where a feature matters: "the error grows", "the ROC AUC falls"."""
        if isinstance(self.error, PlainError):
            return "the error grows"
        return f"the {self.error.name} {'falls' if self.error.falls else 'grows'}"

    def shuffled(self) -> str:
        """The effect of shuffling the most important feature, as a clause."""
        name = self.names[0]
        far = f" (which makes {self.far[name]} of the rows unlike any real one)" if name in self.far else ""
        return f"when {cut(name)} is shuffled between rows{far}, {self.error.grown(self.value[name])}"


def unused_features(model: Importances | Scores) -> list[str]:
    """Features that change the loss of no pair of rows that was evaluated; by a score, those without any influence."""
    if model._is_score:
        return [name for name, one in model.items() if or_else(partial(getattr, one, "std_error"), np.nan) == 0]
    return [name for name, one in model.items() if not np.any(one.local) and not np.any(one.pi)]


def what_matters(ranking: Ranking) -> list[Sentence]:
    """The sentence of the first screen, the first of these that applies."""
    made = (nothing_matters, one_feature, leads_surely, no_single_feature, leads_here)
    return [text for make in made if (text := make(ranking))][:1]


def leading_words(model: Importances | Scores) -> Sentence:
    """What the picture of a ranking says, in the unit of its axis; "" where its importances can't be ranked."""

    def found() -> list[Sentence]:
        ranking = Ranking.of(model, subject="the model")
        if isinstance(ranking.error, PlainError) and ranking.error.kind != "mean":
            loss = replace(ranking.error, kind="loss", largest=0.0)
            ranking = replace(ranking, error=scaled(loss, list(ranking.value.values())))
        return what_matters(ranking)

    none: list[Sentence] = []
    return next(iter(or_else(found, none)), Sentence(""))


@claim(level=LEVEL)
def nothing_matters(ranking: Ranking) -> str:
    """Where no importance on these rows is above 0; the model may still be surely better than the alternative."""
    if ranking.value[ranking.names[0]] > 0:
        return ""
    worse = ranking.worse.replace("grows", "does not grow").replace("falls", "does not fall")
    single = "single " if len(ranking.names) > 1 else ""
    return f"On these rows no {single}feature matters: {worse} with any one shuffled between rows.{_together(ranking)}"


def _together(ranking: Ranking) -> str:
    """That the features matter together, where the model is surely better than the alternative: it needs some."""
    if ranking.baseline is None or not ranking.baseline.surely or len(ranking.names) == 1:
        return ""
    return f" But the model surely does better than {ranking.baseline.words}: its features matter together."


@claim(level=LEVEL)
def one_feature(ranking: Ranking) -> str:
    """Whether the importance of a single feature is significantly above 0."""
    if len(ranking.names) > 1 or not ranking.p:
        return ""
    sure = f"on new rows {ranking.worse}, too" if ranking.sure else "on new rows it may make no difference"
    return f"W{ranking.shuffled()[1:]}; {sure} (test at 5%)."


@claim(level=LEVEL)
def leads_surely(ranking: Ranking) -> str:
    """Where the simultaneous 95% interval of a feature's rank among all of several features is 1 to 1."""
    if not ranking.first_for_sure:
        return ""
    it, name = ranking.subject, cut(ranking.names[0])
    text = f"{it[0].upper()}{it[1:]} depends most on {name}: {ranking.shuffled()}"
    return f"{text}, and no other feature matters as much (95% confidence)."


@claim(level=LEVEL)
def no_single_feature(ranking: Ranking) -> str:
    """Where all of several features are tested and none is significantly above 0: that is not "nothing matters".

    Whether the model is surely better than the simplest alternative, and hence needs some of its features, is said.
    """
    if not ranking.all_tested or ranking.sure:
        return ""
    text = f"No single feature surely matters: {ranking.shuffled()}, which may be chance ({TESTED})."
    return " ".join(filter(None, (f"{text}{_together(ranking)}", ranking.joint)))


@claim(level=0)
def leads_here(ranking: Ranking) -> str:
    """Otherwise: the first on these rows, whether it surely matters, and which others used may matter more."""
    name = ranking.names[0]
    text = f"On these rows {ranking.subject} depends most on {cut(name)}: {ranking.shuffled()}"
    if not ranking.all_tested:
        return f"{text}; how surely is not known."
    may = [cut(other) for other in ranking.may_be_first if other != name]
    doubts = [] if name in ranking.sure else ["it may make no difference"]
    doubts += [f"{listed(may, OTHERS)} may matter more"] if may else []
    return f"{text}; on new rows {' and '.join(doubts) or 'that is uncertain'}."


# What surely matters, and what not: of all features.


def tested_features(ranking: Ranking) -> list[Sentence]:
    """Features that surely matter, those of which that is uncertain, and those of which the opposite is known."""
    made = (surely_matter, uncertain, shrinks, unused)
    return [text for make in made if (text := make(ranking))]


@claim(level=LEVEL)
def surely_matter(ranking: Ranking) -> str:
    """Features whose importances are significantly above 0 (`is_sure`), of several features."""
    if len(ranking.names) == 1 or not ranking.sure:
        return ""
    which = f"each of the {len(ranking.names)} features" if len(ranking.sure) == len(ranking.names) else None
    return f"On new rows, too, {ranking.worse} with {which or listed(ranking.sure)} shuffled alone ({TESTED})."


@claim(level=0)
def uncertain(ranking: Ranking) -> str:
    """Features whose importances are not significantly above 0, nor below, and that changed some error."""
    certain = {*ranking.unused, *ranking.below_zero, *ranking.sure}
    names = [name for name in ranking.names if name in ranking.p and name not in certain]
    if len(ranking.names) == 1 or not names:
        return ""
    whose = f"{' or '.join(names)}" if len(names) < 3 else f"any of {listed(names)}"
    return f"It is uncertain whether {ranking.worse} on new rows with {whose} shuffled ({TESTED})."


@claim(level=LEVEL)
def shrinks(ranking: Ranking) -> str:
    """Features whose importances are below 0, by intervals that hold for all features together."""
    if not ranking.below_zero:
        return ""
    better = ranking.worse.replace("grows", "shrinks").replace("falls", "rises")
    return f"{better[0].upper()}{better[1:]} with {listed(ranking.below_zero)} shuffled (intervals at 95%, Bonferroni)."


@claim(level=0)
def unused(ranking: Ranking) -> str:
    """Features that change the mean error of no row: over all pairs of rows, or over those that were sampled."""
    exact = [name for name in ranking.names if name in ranking.unused - ranking.sampled]
    sampled = [name for name in ranking.names if name in ranking.sampled]
    same = "no error changes" if isinstance(ranking.error, PlainError) else f"the {ranking.error.name} never changes"
    texts = [f"With {listed(exact)} shuffled {same}."] if exact else []
    if sampled:
        texts.append(f"With {listed(sampled)} shuffled {same} for the sampled rows; others were not tried.")
    return " ".join(texts)
