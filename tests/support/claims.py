"""Simulated data with a known truth, the sentences of a report about them, and which of these are false.

A sentence is known by the function that makes it, not by its wording: `TRUTHS` has one truth for each function
registered with `losslens.text.claim`, and reads no more of a sentence than the features and numbers that it names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import factorial
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import log_loss

import losslens as ll
from losslens.page.opening import baseline, how_well
from losslens.page.scored import how_score, score_dict
from losslens.page.story import how_rare
from losslens.results.ranking import Ranking, tested_features, what_matters
from losslens.text import CLAIMS, Sentence, share_in_words

Floats = NDArray[np.float64]
Pairs = frozenset[frozenset[str]]


@dataclass(frozen=True, eq=False)
class Kind:
    """A way to draw data, a fixed model, and what is true of both.

    A feature that is independent of the others and of y has importance 0, whatever the model makes of it: replaced
    rows have the distribution of real ones.
    """

    name: str
    n: int
    draw: Callable[[np.random.Generator, int], tuple[Floats, NDArray[Any]]]
    model: Callable[[Any], Floats]
    pfi: tuple[float, ...]  # expected on new rows; only order and signs count
    loss: str = "squared_error"
    unused: frozenset[str] = frozenset()
    together: Pairs = frozenset()  # the model does not only add them
    dependent: Pairs = frozenset()  # columns that are not independent


@dataclass(frozen=True, eq=False)
class Case:
    """One data set."""

    kind: Kind
    X: Floats
    y: NDArray[Any]

    def losses(self, prediction: Floats) -> Floats:
        """The loss of each row, written out again."""
        if self.kind.loss == "squared_error":
            return np.asarray((self.y - prediction) ** 2)
        own = np.clip(prediction[np.arange(len(self.y)), self.y], np.finfo(float).eps, 1 - np.finfo(float).eps)
        return np.asarray(-np.log(own))

    def true_pfi(self, name: str) -> float:
        return self.kind.pfi[int(name[1:])]


def _gauss(rng: np.random.Generator, n: int) -> Floats:
    return rng.normal(size=(n, 3))


def _null(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    return _gauss(rng, n), rng.normal(size=n)


def _null_model(X: Any) -> Floats:
    return np.asarray(0.5 * X[:, 0] + 0.3 * X[:, 1])


def _additive(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    X = _gauss(rng, n)
    X[:, 1] = 0.9 * X[:, 0] + np.sqrt(1 - 0.81) * X[:, 1]
    return X, X[:, 0] + X[:, 1] + rng.normal(size=n)


def _additive_model(X: Any) -> Floats:
    return np.asarray(X[:, 0] + X[:, 1] + 0.2 * X[:, 2])


def _interacting(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    X = _gauss(rng, n)
    return X, _interacting_model(X) + rng.normal(size=n)


def _interacting_model(X: Any) -> Floats:
    """The interaction has half the coefficient of either main effect."""
    return np.asarray(X[:, 0] + X[:, 1] + 0.5 * X[:, 0] * X[:, 1] + 0.5 * X[:, 2])


def _skewed(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    X = np.exp(_gauss(rng, n))
    return X, X[:, 0] + 0.3 * X[:, 1] + rng.normal(size=n)


def _skewed_model(X: Any) -> Floats:
    return np.asarray(X[:, 0] + 0.3 * X[:, 1] + 0.2 * X[:, 2])


def _tiny(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    X = _gauss(rng, n)
    return X, X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n)


def _tiny_model(X: Any) -> Floats:
    return np.asarray(X[:, 0] + 0.5 * X[:, 1] + 0.2 * X[:, 2])


def _imbalanced(rng: np.random.Generator, n: int) -> tuple[Floats, NDArray[Any]]:
    """One in twenty is positive; both classes occur."""
    X = _gauss(rng, n)
    y = (rng.random(n) < 1 / (1 + np.exp(3.4 - 1.2 * X[:, 0]))).astype(int)
    y[int(X[:, 0].argmax())], y[int(X[:, 0].argmin())] = 1, 0
    return X, y


def _imbalanced_model(X: Any) -> Floats:
    """Far out the probability is exactly 0, as that of a vote."""
    p = 1 / (1 + np.exp(3.4 - 1.2 * X[:, 0] - 0.4 * X[:, 1]))
    p = np.where(X[:, 0] < -1.8, 0.0, p)
    return np.column_stack([1 - p, p])


def _substitutes(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    X = _gauss(rng, n)
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    return X, X[:, 0] + X[:, 1] + rng.normal(size=n)


def _opposed(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """The model's effects of x0 and x1 cancel, but for what they don't have in common."""
    X = _gauss(rng, n)
    X[:, 1] = 0.95 * X[:, 0] + np.sqrt(1 - 0.95**2) * X[:, 1]
    return X, 2 * X[:, 0] - 2 * X[:, 1] + 0.5 * rng.normal(size=n)


def _opposed_model(X: Any) -> Floats:
    return np.asarray(2 * X[:, 0] - 2 * X[:, 1] + 0.1 * X[:, 2])


def _copied(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    X = _gauss(rng, n)
    X[:, 1] = X[:, 0]
    return X, 2 * X[:, 0] + rng.normal(size=n)


def _summed(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    X = _gauss(rng, n)
    X[:, 2] = X[:, 0] + X[:, 1]
    return X, X.sum(axis=1) + rng.normal(size=n)


def _sum_model(X: Any) -> Floats:
    return np.asarray(X[:, 0] + X[:, 1] + X[:, 2])


def _nested(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Nine towns in three regions: a town says its region."""
    X = _gauss(rng, n)
    X[:, 0] = rng.integers(0, 9, n)
    X[:, 1] = X[:, 0] // 3
    return X, 0.5 * X[:, 0] + X[:, 1] + rng.normal(size=n)


def _nested_model(X: Any) -> Floats:
    return np.asarray(0.5 * X[:, 0] + X[:, 1] + 0.2 * X[:, 2])


FIRST_TWO: Pairs = frozenset({frozenset({"x0", "x1"})})
X2 = frozenset({"x2"})
KINDS = (
    Kind("null", 300, _null, _null_model, (0, 0, 0), unused=X2),
    Kind("additive", 300, _additive, _additive_model, (2, 2, 0), dependent=FIRST_TWO),
    Kind("interacting", 500, _interacting, _interacting_model, (2.5, 2.5, 0.5), together=FIRST_TWO),
    Kind("skewed", 300, _skewed, _skewed_model, (9.34, 0.84, 0)),
    Kind("tiny", 12, _tiny, _tiny_model, (2, 0.5, 0)),
    # What adds on the logistic scale does not on that of probabilities: either may be said of x0 and x1.
    Kind("imbalanced", 300, _imbalanced, _imbalanced_model, (0.05, 0, 0), "log_loss", X2, FIRST_TWO),
)

ALL_PAIRS: Pairs = frozenset(frozenset(pair) for pair in (("x0", "x1"), ("x0", "x2"), ("x1", "x2")))
# Columns that go together. PFI of a term of a linear model that is right is twice its variance, whatever it depends on.
CORRELATED = (
    Kind("substitutes", 300, _substitutes, _additive_model, (2, 2.02, 0), dependent=FIRST_TWO),
    Kind("opposed", 300, _opposed, _opposed_model, (8, 8, 0), dependent=FIRST_TWO),
    Kind("copied", 300, _copied, _additive_model, (2, 2, 0), dependent=FIRST_TWO),
    Kind("summed", 300, _summed, _sum_model, (2, 2, 4), dependent=ALL_PAIRS),
    Kind("nested", 300, _nested, _nested_model, (10 / 3, 4 / 3, 0), dependent=FIRST_TWO),
)


def drawn(kind: Kind, seed: int, n: int | None = None) -> Case:
    """One data set of a kind."""
    rng = np.random.default_rng([seed, sum(map(ord, kind.name))])
    return Case(kind, *kind.draw(rng, n or kind.n))


def told(case: Case, seed: int = 0) -> dict[str, Any]:
    """The summary of the report, without what sentences don't need: bands, cells and single curves."""

    def nothing(*_: Any) -> None:
        return None

    with (
        patch("losslens.page.summary._band", nothing),
        patch("losslens.page.summary._cells", nothing),
        patch("losslens.page.summary._ice", nothing),
    ):
        page = ll.report(case.kind.model, case.X, case.y, loss=case.kind.loss, random_state=seed, progress=False)
    return page.summary


def of_results(case: Case, seed: int = 0) -> dict[str, Any]:
    """What results say of themselves in words, outside of a report."""
    ask: dict[str, Any] = {"loss": case.kind.loss, "progress": False}
    found = ll.feature_importance(case.kind.model, case.X, case.y, donors="all", **ask)
    shares = ll.shapley_importance(case.kind.model, case.X, case.y, random_state=seed, **ask)
    spent: Any = {"budget": 200 * len(case.y), "precision": "ranks", "random_state": seed}
    ranked = ll.feature_importance(case.kind.model, case.X, case.y, **spent, **ask)
    notes = [*found.notes, *ranked.notes, *shares.notes, shares.rank_rows().headline]
    effects = ll.feature_effect(lambda X: _of_last_class(case.kind.model(X)), case.X, progress=False)
    rows = list(range(MOVED))
    moved = ll.shapley_effect(lambda X: _of_last_class(case.kind.model(X)), case.X, rows, progress=False)
    titled = [found, shares, shares.rank_rows(), moved, *found.values(), *effects.values()]
    notes += [result._message for result in titled if result._message]
    if len(case.y) >= ENOUGH:
        far = found.extrapolation
        notes += [*found.regions(case.X).sentences, far.note, *(one.sentence for one in far.values())]
    return {"results": [note for note in notes if isinstance(note, Sentence)]}


ENOUGH = 40  # rows that can be split into regions
MOVED = 5  # rows whose predictions are divided among the features


def sentences(summary: Any, key: str = "") -> Iterator[str]:
    """Everything on the page that is a sentence: what is under `words`, `sentence` and `sentences`."""
    if isinstance(summary, dict):
        for name, part in summary.items():
            yield from sentences(part, "words" if key == "words" else name)
    elif isinstance(summary, (list, tuple)):
        for part in summary:
            yield from sentences(part, key)
    elif isinstance(summary, str) and summary and (isinstance(summary, Sentence) or key in SAYING):
        yield summary


SAYING = ("words", "sentence", "sentences", "remark")


def unknown(summary: Any) -> list[str]:
    """Sentences that no registered function made, or that have no truth here."""
    return [text for text in sentences(summary) if getattr(text, "claim", None) not in TRUTHS.keys() & CLAIMS.keys()]


def false(case: Case, summary: Any) -> list[Sentence]:
    """Sentences that do not hold."""
    made = [text for text in sentences(summary) if isinstance(text, Sentence)]
    return [text for text in made if not TRUTHS[text.claim](case, text)]


# Truths. What is about these rows is computed again, by brute force; what is about new rows is known.


def named(text: str) -> list[str]:
    """Features, in the order in which they occur."""
    return re.findall(r"\bx\d\b", text)


def holds(case: Case, text: str) -> bool:
    """About the call alone, or advice: tests/page/test_words.py compares it with the call."""
    return True


def _headline(case: Case, text: str) -> bool:
    prediction, y = case.kind.model(case.X), case.y
    losses = case.losses(prediction)
    if case.kind.loss == "squared_error":
        constant = float(np.mean((y - y.mean()) ** 2))
    else:
        constant = float(log_loss(y, np.broadcast_to([1 - y.mean(), y.mean()], (len(y), 2))))
    skill = 1 - losses.mean() / constant
    better, same = "which is better" in text, "about the same" in text
    direction = same == (abs(skill) < 0.005) and (same or better == (skill < 0))
    return _near(text, _unit(case, losses.mean())) and _near(text, _unit(case, constant)) and direction


def _matters_most_at(case: Case, text: str) -> bool:
    """The error with every row's feature replaced by one value is largest at a value with this label."""
    after = [case.losses(case.kind.model(X)).mean() for X in _replaced(case, text)]
    now, most = case.losses(case.kind.model(case.X)).mean(), int(np.argmax(after))
    told = _near(text, after[most]) and _near(text, now)  # a picture, in the unit of its axis
    return (told or (_near(text, _unit(case, after[most])) and _near(text, _unit(case, now)))) and _at(case, text, most)


def _ranges(case: Case, text: str) -> bool:
    """The mean prediction with every row's feature replaced by one value is smallest and largest at these values."""
    values = [_of_last_class(case.kind.model(X)).mean() for X in _replaced(case, text)]
    ends = int(np.argmin(values)), int(np.argmax(values))
    between = [float(part) for part in re.findall(r"(-?[\d.]+) \(at", text)]
    step = 0.51 * 10.0 ** -len(re.findall(r"(\d*) \(at", text)[0])
    near = len(between) == 2 and all(abs(a - values[k]) <= step for a, k in zip(between, ends, strict=True))
    return near and all(_at(case, text, k) for k in ends)


def _moves_most(case: Case, text: str) -> bool:
    """Shapley values of the first rows by brute force: each feature's gain in every coalition, over all rows."""
    p = case.X.shape[1]
    worth = {}
    for size in range(p + 1):
        for some in combinations(range(p), size):
            means = []
            for row in range(MOVED):
                X = case.X.copy()
                X[:, some] = case.X[row, some]
                means.append(_of_last_class(case.kind.model(X)).mean())
            worth[some] = np.array(means)
    effect = np.zeros((p, MOVED))
    for some, alone in worth.items():
        for j in set(range(p)) - set(some):
            share = factorial(len(some)) * factorial(p - len(some) - 1) / factorial(p)
            effect[j] += share * (worth[tuple(sorted((*some, j)))] - alone)
    sizes, named_first = np.abs(effect).mean(axis=1), int(named(text)[0][1:])
    return bool(sizes[named_first] >= sizes.max() - 1e-12) and _near(text, sizes.max())


def _of_last_class(prediction: Floats) -> Floats:
    return prediction if prediction.ndim == 1 else prediction[:, -1]


def _replaced(case: Case, text: str) -> Iterator[Floats]:
    """The table with one feature replaced by the value of each row, one after the other."""
    j = int(named(text)[0][1:])
    for value in case.X[:, j]:
        X = case.X.copy()
        X[:, j] = value
        yield X


def _at(case: Case, text: str, row: int) -> bool:
    """Whether the value of this row is among those that the sentence names."""
    value = case.X[row, int(named(text)[0][1:])]
    places = re.findall(r"at (−?[\d.]+(?:e[+-]\d+)?)", text)
    numbers = [at.rstrip(".").replace("−", "-") for at in places]
    return any(abs(float(at) - value) <= 0.51 * 10.0 ** -len(at.partition(".")[2]) for at in numbers)


def _unit(case: Case, loss: float) -> float:
    """A mean loss in the reader's unit: the root of a squared error, the typical probability in percent."""
    return float(np.sqrt(loss) if case.kind.loss == "squared_error" else 100 * np.exp(-loss))


def _near(text: str, wanted: float) -> bool:
    """Whether a number of the text is the wanted one, to its own precision."""
    found = [part.replace(",", "") for part in re.findall(r"\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?", text)]
    steps = [(float(part), 10.0 ** -len(part.partition(".")[2])) for part in found if "e" not in part]
    return any(
        abs(value - wanted) <= 0.500001 * step and (wanted < step or step <= 0.1 * wanted) for value, step in steps
    )


def _how_far_off(case: Case, text: str) -> bool:
    """Root of the mean squared error: of the model, and of the mean of y."""
    error, constant = case.losses(case.kind.model(case.X)).mean(), np.var(case.y)
    less, same = "less than the model" in text, "as well" in text
    told = same == (abs(1 - error / constant) < 0.005) and (same or less == (error > constant))
    return told and f" {len(case.y):,} rows" in text and _near(text, error**0.5) and _near(text, constant**0.5)


def _how_often_right(case: Case, text: str) -> bool:
    """Accuracy and the share of the largest class."""
    if case.kind.loss != "log_loss":
        return False
    prediction, y = case.kind.model(case.X), case.y
    right, counts = np.mean(prediction.argmax(axis=1) == y), np.bincount(y) / len(y)
    share = counts.max()
    told = [float(part) / 100 for part in re.findall(r"([\d.]+)%", text)]
    shares = abs(told[0] - right) <= 0.0051 and abs(told[1] - share) <= 0.0051
    own, same = np.mean(case.losses(prediction)), log_loss(y, np.broadcast_to(counts, (len(y), len(counts))))
    typical = "no worse" in text if same < own else _near(text.partition(". ")[2], _unit(case, same))
    return bool(shares) and f"“{counts.argmax()}”" in text and bool(typical)


def _grown(case: Case, text: str) -> bool:
    """The first feature has the largest importance on these rows, and its number is that of its error, or score."""
    best = int(named(text)[0][1:])
    if _by_score(text):
        base, found = _scores(case)
        return bool(found[best] >= found.max() - 1e-12) and _near(text, abs(base - found[best]))
    found, error = _importances(case), case.losses(case.kind.model(case.X)).mean()
    after = error + found[best]
    told = _near(text, after) or (  # a picture, in the unit of its axis
        _near(text, after**0.5) if case.kind.loss == "squared_error" else _typical(text, np.exp(-error), np.exp(-after))
    )
    return bool(found[best] >= found.max() - 1e-12) and told


def _typical(text: str, now: float, after: float) -> bool:
    """Two typical probabilities of the true class, in percent."""
    said = [float(share) / 100 for share in re.findall(r"([\d.]+)%", text.partition("the true class")[2])]
    return "over" in text or "under" in text or np.allclose(said[:2], [after, now], atol=0.0051)


def _by_score(text: str) -> bool:
    return "ROC AUC" in text or "R²" in text


def _leads_here(case: Case, text: str) -> bool:
    """Whether others are named that may come first: they are not known to be unused."""
    return _grown(case, text) and not set(named(text)[2:]) & case.kind.unused


def _takeaway(case: Case, text: str) -> bool:
    """None is above all that are named, on new rows."""
    return not named(text) or max(map(case.true_pfi, named(text))) == max(case.kind.pfi)


def _no_single_feature(case: Case, text: str) -> bool:
    """That the model is better than the simplest alternative is said of new rows."""
    return _grown(case, text) and ("surely does better" not in text or _beyond_constant(case.kind) < 0)


def _how_well(case: Case, text: str) -> bool:
    if _by_score(text):
        auc = case.kind.loss == "log_loss"
        return _near(text.partition("(")[0], abs(_scores(case)[0])) and auc == ("random ranking has 0.5" in text)
    return (_how_often_right if case.kind.loss == "log_loss" else _how_far_off)(case, text)


def _nothing_matters(case: Case, text: str) -> bool:
    found = _scores(case)[1] if _by_score(text) else _importances(case)
    return bool(found.max() <= 1e-12) and ("surely does better" not in text or _beyond_constant(case.kind) < 0)


def _surely_matter(case: Case, text: str) -> bool:
    names = named(text) or [f"x{j}" for j in range(3)]
    return all(case.true_pfi(name) > 0 for name in names)


def _no_better(case: Case, text: str) -> bool:
    if text.startswith("On new rows"):
        return True
    losses = case.losses(case.kind.model(case.X))
    share = np.broadcast_to(np.bincount(case.y) / len(case.y), (len(case.y), 2)) if case.y.dtype.kind == "i" else 0
    constant = np.var(case.y) if case.y.dtype.kind == "f" else log_loss(case.y, share)
    return bool(losses.mean() > 0.994 * constant)


def _at_the_bound(case: Case, text: str) -> bool:
    own = case.kind.model(case.X)[np.arange(len(case.y)), case.y]
    return text.startswith(f"For {np.sum(own == 0)} of {len(own)} rows")


def _pair_losses(case: Case) -> Floats:
    """(n, n): row i with the prediction for row k."""
    prediction = case.kind.model(case.X)
    n = len(case.y)
    every = Case(case.kind, case.X, np.repeat(case.y, n))
    return every.losses(np.tile(prediction, (n, 1) if prediction.ndim == 2 else n)).reshape(n, n)


def _from_other_rows(case: Case, text: str) -> bool:
    pairs = _pair_losses(case)
    larger = pairs.mean() > np.diag(pairs).mean()
    return _near(text, _unit(case, pairs.mean())) and larger != ("no worse" in text)


def _importances(case: Case) -> Floats:
    """PFI of each feature over all pairs of rows."""
    n, base = len(case.y), case.losses(case.kind.model(case.X)).mean()
    rows, donors = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
    again, found = Case(case.kind, case.X[rows], case.y[rows]), []
    for j in range(case.X.shape[1]):
        X = case.X[rows].copy()
        X[:, j] = case.X[donors, j]
        found.append(again.losses(case.kind.model(X)).mean() - base)
    return np.array(found)


def _clipped_pairs(case: Case, text: str) -> bool:
    """The share of all pairs of rows with the prediction for the other one at the bound."""
    return case.kind.loss == "log_loss" and text.startswith(share_in_words(float(np.mean(_pair_losses(case) > 36))))


def _up_to(share: float) -> str:
    return f"up to {share:.1%} of" if share >= 0.0005 else "under 0.1% of"


def _clipped_cells(case: Case, text: str) -> bool:
    """The largest share of the cells of a feature, and of the feature that is named."""
    n = len(case.y)
    rows, donors = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
    again, found = Case(case.kind, case.X[rows], case.y[rows]), []
    for j in range(case.X.shape[1]):
        X = case.X[rows].copy()
        X[:, j] = case.X[donors, j]
        found.append(float(np.mean(again.losses(case.kind.model(X)) > 36)))
    own = found[int(named(text)[0][1:])]
    return case.kind.loss == "log_loss" and own == max(found) and text.startswith(_up_to(own))


def _negative_rows(case: Case, text: str) -> bool:
    """Rows and those with a larger loss than with the prediction for another row; no more of them are suspicious."""
    pairs = _pair_losses(case)
    worse = int(np.sum(pairs.mean(axis=1) - np.diag(pairs) < 0))
    rows, negative, suspicious = (int(part) for part in re.findall(r"\d+", text)[:3])
    return (rows, negative) == (len(case.y), worse) and suspicious <= negative


def _doubtful(case: Case, text: str) -> bool:
    """Few rows are fewer than ten; a bound is one of the log loss."""
    few, bound = "number of rows is" not in text or len(case.y) < 10, "at the bound" not in text
    return few and (bound or case.kind.loss == "log_loss")


def _ranks_first(case: Case, text: str) -> bool:
    first, *others = sorted(case.kind.pfi, reverse=True)
    return case.true_pfi(named(text)[0]) == first > others[0]


def _largest_shares(case: Case, text: str) -> bool:
    parts = [int(part) for part in re.findall(r"\((-?\d+)%\)", text)]
    return parts == sorted(parts, reverse=True) and not set(named(text)) & case.kind.unused


def _helped_rows(case: Case, text: str) -> bool:
    pairs = _pair_losses(case)
    gain = pairs.mean(axis=1) - np.diag(pairs)
    return f"of {np.sum(gain > 1e-12):,} of {len(gain):,} rows" in text


def _rows_that_stand_out(case: Case, text: str) -> bool:
    """As many rows at least are predicted worse than with the prediction for another row, on average."""
    pairs = _pair_losses(case)
    return int(re.findall(r"\d+", text)[0]) <= np.sum(pairs.mean(axis=1) < np.diag(pairs))


def _tied(case: Case, text: str) -> bool:
    """Every feature that is named depends on another."""
    return set(named(text)) <= {name for pair in case.kind.dependent for name in pair}


@cache
def _shuffled(kind: Kind, columns: tuple[int, ...]) -> float:
    """The importance of these columns together on 20,000 new rows, each with one donor."""
    X, y = kind.draw(np.random.default_rng(7), 20_000)
    many, replaced = Case(kind, X, y), X.copy()
    replaced[:, columns] = np.roll(X, 1, axis=0)[:, columns]  # rows are independent
    return float(np.mean(many.losses(kind.model(replaced)) - many.losses(kind.model(X))))


def _goes_together(case: Case, text: str) -> bool:
    """The features that are shuffled together depend on each other, and the case is that of their importances."""
    names = named(re.split("raise|lower", text)[0])
    return _tied(case, text) and _case_holds(case, text, names, named(text)[-1])


def _case_in_words(case: Case, text: str) -> bool:
    """It holds of some of the features that depend on each other; which, it does not say."""
    rest = {name for pair in case.kind.dependent for name in pair}
    some = [{*pair} for pair in case.kind.dependent] + [rest]
    return any(_case_holds(case, text, sorted(names), one) for names in some for one in names)


def _case_holds(case: Case, text: str, names: list[str], one_of: str) -> bool:
    """The case of features that are shuffled together, one of which is compared with them."""
    joint = _shuffled(case.kind, tuple(int(name[1:]) for name in names))
    alone = [_shuffled(case.kind, (int(name[1:]),)) for name in names]
    one = _shuffled(case.kind, (int(one_of[1:]),))
    truths = {
        "cancel": one > joint, "stand in": joint > sum(alone) and 2 * max(alone) < joint,
        "matter more than": joint > sum(alone), "overlap": max(alone) < joint < sum(alone),
        "little": abs(one - joint) < 0.2 * joint and sum(alone) - one < 0.1 * joint * len(alone),
    }  # fmt: skip
    return all(true for words, true in truths.items() if words in text)


def _region(case: Case, text: str) -> bool:
    """The feature does not only add to a column of the rule, or to one that this column depends on."""
    feature, *columns = named(text)
    near = {other for c in columns for pair in case.kind.dependent if c in pair for other in pair} | set(columns)
    return any(frozenset({feature, other}) in case.kind.together for other in near)


@cache
def _new_rows(kind: Kind) -> Case:
    """So many new rows that their means are nearly the truth."""
    return drawn(kind, 1_000_003, 100_000)


def _beyond_constant(kind: Kind) -> float:
    """The model's error on new rows less that of the constant that is best for them."""
    case = _new_rows(kind)
    constant = np.mean((case.y - case.y.mean()) ** 2)
    if kind.loss == "log_loss":
        constant = log_loss(case.y, np.broadcast_to([1 - case.y.mean(), case.y.mean()], (len(case.y), 2)))
    return float(case.losses(kind.model(case.X)).mean() - constant)


def _no_more_often_right(case: Case, text: str) -> bool:
    if case.kind.loss != "log_loss":
        return False
    return bool(
        np.mean(case.kind.model(case.X).argmax(axis=1) == case.y) <= max(case.y.mean(), 1 - case.y.mean()) + 1e-12
    )


def _off_in_a_range(case: Case, text: str) -> bool:
    """On new rows with a prediction in that range, the mean residual has the sign that is said."""
    low, high = map(float, re.findall(r"predicts (\S+) to (\S+),", text)[0])
    low, high = low - 0.005 * abs(low), high + 0.005 * abs(high)  # as rounded
    new = _new_rows(case.kind)
    prediction = case.kind.model(new.X)
    inside = (prediction >= low) & (prediction <= high)
    return bool(((new.y - prediction)[inside].mean() > 0) == ("larger on average" in text))


def _misses_a_probability(case: Case, text: str) -> bool:
    """On new rows with a probability in that range, the class is rarer, or more frequent, as is said."""
    if case.kind.loss != "log_loss":
        return False
    label, low, high, said, seen = re.findall(
        r"class (\d) a probability of (.*?)%(?: to (.*?)%)?, on average (.*?)%, the class occurs in (.*?)%", text
    )[0]
    new = _new_rows(case.kind)
    p = case.kind.model(new.X)[:, int(label)]
    low, high, said, seen = (float(re.sub("under |over ", "", part)) / 100 for part in (low, high or low, said, seen))
    inside = (p >= low - 0.01) & (p <= high + 0.01)
    more = seen > said
    return bool(((new.y == int(label))[inside].mean() > p[inside].mean()) == more)


def _worse_there(case: Case, text: str) -> bool:
    """On 50,000 new rows the mean loss under the rule is larger than elsewhere."""
    new = drawn(case.kind, 1, 50_000)
    losses, there = new.losses(case.kind.model(new.X)), np.ones(len(new.y), bool)
    for part in text.removeprefix("Where ").partition(" (")[0].split(" and "):
        low, column, high = re.findall(r"^(?:(\S+) < )?x(\d)(?: ≤ (\S+))?", part)[0]
        values = new.X[:, int(column)]
        above = re.findall(r"> (\S+)$", part)
        there &= (values > float(low or (above or ["-inf"])[0])) & (values <= float(high or "inf"))
    return bool(losses[there].mean() > losses[~there].mean())


class Fitted(BaseEstimator):
    """The model of a kind as an estimator, which scorers ask."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Floats:
        prediction = self.kind.model(X)
        return prediction if prediction.ndim == 1 else prediction.argmax(axis=1)


class FittedRegressor(RegressorMixin, Fitted):
    """Of squared errors."""


class FittedClassifier(ClassifierMixin, Fitted):
    """Of two classes."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X: Any) -> Floats:
        return self.kind.model(X)


def told_by_score(case: Case) -> dict[str, Any]:
    """The sentences of a report by R² or AUC that are about the score."""
    classes = case.kind.loss == "log_loss"
    model = FittedClassifier(case.kind) if classes else FittedRegressor(case.kind)
    found = ll.feature_importance(model, case.X, case.y, loss="roc_auc" if classes else "r2", donors="all")
    ranking = Ranking.of(found, baseline=baseline(found))
    opening = [how_well({"it": found}, "y", len(case.y)), *what_matters(ranking), *tested_features(ranking)]
    return {"words": [*opening, how_score(found)], **score_dict({"it": found}, "log loss", None)}


def _scores(case: Case) -> tuple[float, Floats]:
    """R² or the AUC, and what it loses where the rows with each feature from each row are one population."""
    n = len(case.y)

    def score(X: Floats, y: Floats) -> float:
        prediction = case.kind.model(X)
        if case.kind.loss == "squared_error":
            return float(1 - np.sum((y - prediction) ** 2) / np.sum((y - y.mean()) ** 2))
        up, down = prediction[y == 1, 1][:, None], prediction[y == 0, 1]
        return float(np.mean((up > down) + 0.5 * (up == down)))

    base, found = score(case.X, case.y), []
    for j in range(case.X.shape[1]):
        pooled = np.repeat(case.X, n, axis=0)
        pooled[:, j] = np.tile(case.X[:, j], n)
        found.append(base - score(pooled, np.repeat(case.y, n)))
    return base, np.array(found)


def _settled_order(case: Case, text: str) -> bool:
    """Each is above all that come later, and above all that are not named."""
    names, rest = named(text), [f"x{j}" for j in range(case.X.shape[1])]
    for name in names:
        rest.remove(name)
        if any(case.true_pfi(name) <= case.true_pfi(other) for other in rest):
            return False
    return bool(names)


Truth = Callable[[Case, str], bool]
TRUTHS: dict[str, Truth] = {
    "question": holds,
    "how_well": _how_well,
    "nothing_matters": _nothing_matters,
    "one_feature": lambda case, text: False,  # there are three
    "leads_surely": lambda case, text: _ranks_first(case, text) and _grown(case, text),
    "no_single_feature": _no_single_feature,
    "leads_here": _leads_here,
    "takeaway": _takeaway,
    how_rare.__name__: lambda case, text: False,  # of a story: tests/page/test_story.py
    "no_better": _no_better,
    "goes_together": _goes_together,
    "case_in_words": _case_in_words,
    "hardly_occurring": _tied,
    "unlike_real_rows": lambda case, text: "unlike any real one" not in text or _tied(case, text),
    "headline": _headline,
    "at_the_bound": _at_the_bound,
    "from_other_rows": _from_other_rows,
    "largest_shares": _largest_shares,
    "matters_most_at": _matters_most_at,
    "ranges": _ranges,
    "moves_most": _moves_most,
    "negative_shares": lambda case, text: bool(named(text)) and not set(named(text)) & case.kind.unused,
    "surely_matter": _surely_matter,
    "uncertain": lambda case, text: not set(named(text)) & case.kind.unused,
    "shrinks": lambda case, text: all(case.true_pfi(name) < 0 for name in named(text)),
    "unused": lambda case, text: set(named(text)) <= case.kind.unused,
    "how_importances": lambda case, text: f"{len(case.y):,} rows" in text,
    "how_shares": holds,
    "how_computed": holds,
    "about_intervals": holds,
    "about_training_rows": holds,
    "only_a_sample": lambda case, text: False,  # every row is explained here
    "few_rows": lambda case, text: len(case.y) < 100,
    "remark": holds,
    "doubtful": _doubtful,
    "negative_in_words": lambda case, text: bool(named(text)) and not set(named(text)) & case.kind.unused,
    "clipped_in_words": _clipped_pairs,
    "clipped_cells": _clipped_cells,
    "no_error": lambda case, text: not case.losses(case.kind.model(case.X)).any(),
    "negative_rows": _negative_rows,
    "settled_order": _settled_order,
    "matters_more": _region,
    "warned_in_words": _tied,
    "many_unreal_rows": lambda case, text: bool(case.kind.dependent),
    "moves_with": lambda case, text: bool(case.kind.dependent),
    "far_from_real": _tied,
    "region": _region,
    "works_together": lambda case, text: frozenset(named(text)[:2]) in case.kind.together,
    "helped_rows": _helped_rows,
    "rows_that_stand_out": _rows_that_stand_out,
    "why_they_stand_out": lambda case, text: float(re.findall(r"all rows \((\S+)\)", text)[0].replace(",", "")) <= 0,
    "clusters_in_words": holds,
    "fewer_digits": lambda case, text: False,  # these pages are small
    "holds": lambda case, text: f"all {len(case.y):,} rows" in text,
    "error_is_larger": _worse_there,
    "no_weak_segment": lambda case, text: len(case.y) >= 100 or "needs 100 rows" in text,
    "worse_than_constant": lambda case, text: _beyond_constant(case.kind) > 0,
    "no_more_often_right": _no_more_often_right,
    "off_in_a_range": _off_in_a_range,
    "misses_a_probability": _misses_a_probability,
    "smallest_error": lambda case, text: False,  # there is one model: tests/page/test_compared.py
    "smallest_is_uncertain": lambda case, text: False,  # likewise
    "how_grouped": lambda case, text: False,  # no groups are named here: tests/page/test_groups.py
    "errors_differ": lambda case, text: False,  # likewise
    "sentence_by": holds,
    "how_score": lambda case, text: "exact over all pairs" in text,
}
