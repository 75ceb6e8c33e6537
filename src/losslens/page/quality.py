"""How good a model is: its error beside that of the best constant, and where its predictions are off.

Everything is a summary over many rows, so that a page without rows can show it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.page.labels import labels
from losslens.results.importance import FeatureImportance
from losslens.results.table import or_else
from losslens.tables.constant import MEANS, losses_of_constant
from losslens.tables.sample import effective_number
from losslens.text import claim, in_digits, share_in_words, shares_in_words
from losslens.typing import Floats, Indices
from losslens.uncertainty.standard_errors import Influence, influence_on_error, influence_on_mean, interval

Range = dict[str, Any]
LEVEL = 0.05  # of intervals, and of sentences
RANGES = 10  # of predictions, with about equally many rows
ROWS_IN_RANGE = 20  # about the fewest
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of residuals
MATTERS = 0.2  # of the root mean squared residual: a smaller mean residual is not worth a sentence
OFF_BY = 0.05  # likewise of a probability
ROUNDING = 1e-12  # of sums of weights
DRAWN_CLASSES = 6  # the most frequent ones, whose calibration is shown
TABLED_CLASSES = 10  # in the table of true and predicted classes: the others are joined
IN_WORDS = {"the mean of y": "the average", "the median of y": "the median", "the share of each class":
            "the class frequencies"}  # fmt: skip


def quality(one: FeatureImportance) -> dict[str, Any]:
    """Error and best constant, R² or accuracy, residuals or calibration and confusion, of one model."""
    of_classes = one.sample.classes is not None and one.loss.reads != "values"
    numbers: dict[str, Any] = {
        "bound": rows_at_the_bound(one),
        "constant": or_else(lambda: against_constant(one), None),
        "score": accuracy(one) if of_classes else or_else(lambda: r_squared(one), None),
        "residuals": None if of_classes else residuals(one),
        "calibration": calibration(one) if one.loss.reads == "probabilities" else None,
        "confusion": confusion(one) if of_classes else None,
    }
    sentences = [
        worse_than_constant(numbers["constant"]), no_more_often_right(numbers["score"]), at_the_bound(one),
        off_in_a_range(numbers["residuals"], one.loss.name),
        misses_a_probability(numbers["calibration"]),
    ]  # fmt: skip
    return numbers | {"sentences": list(filter(None, sentences))}


def error_ends(one: FeatureImportance) -> tuple[float, float]:
    """The interval of the error of these rows; a named loss is never negative."""
    moved = influence_on_error(one.sample, one.at)
    low, high = interval(one.error, moved.std_error, one._units, 1 - LEVEL, moved.skewness)
    return (low if one.loss.custom else max(low, 0.0)), high


def against_constant(one: FeatureImportance) -> dict[str, Any]:
    """The best constant, and by how much the model's error is larger, paired by rows.

    The constant is fitted on the same rows. To first order that moves nothing: its error is smallest there.
    """
    words, losses, weight = losses_of_constant(one.loss, one.sample, one.at)
    value, low, high = mean_of(one._losses - losses, weight)
    return {
        "predicts": IN_WORDS.get(words, words),
        "error": float(weight @ losses),
        "difference": value,
        "low": low,
        "high": high,
    }


def r_squared(one: FeatureImportance) -> dict[str, Any]:
    """R², with an interval by leaving out one row at a time: that of log(1 - R²), which has no upper end.

    Without row i, the squares of y about its mean sum to ``S - w_i a_i^2 - (w_i a_i)^2 / (1 - w_i)``, a_i = y_i - mean.
    """
    y, f, weight = _numbers(one)
    deviation, wrong = y - weight @ y, weight * (y - f) ** 2
    spread = weight * deviation**2
    rest, left = spread.sum() - spread - (weight * deviation) ** 2 / (1 - weight), wrong.sum() - wrong
    constant = ROUNDING * float(weight @ y**2)  # squares about the mean that are rounding
    if one.loss.name == "pinball" or not (rest.min() > constant and left.min() > 0):
        raise ValueError("R² is of a mean, and of a target and predictions that differ in more than one row")
    ratio, u = wrong.sum() / spread.sum(), len(y)
    changes = np.log(ratio) - np.log(left / rest)
    moved = Influence(np.sqrt((u - 1) / u) * (changes - changes.mean()))
    ends = interval(float(np.log(ratio)), moved.std_error, effective_number(weight), 1 - LEVEL, moved.skewness)
    low, high = (float(1 - np.exp(end)) for end in reversed(ends))
    return {"name": "R²", "value": float(1 - ratio), "low": low, "high": high, "base": None}


def accuracy(one: FeatureImportance) -> dict[str, Any]:
    """The share of the rows whose predicted class is the true one; `base`: with the most frequent class for all."""
    y, predicted, weight = _predicted_classes(one)
    share = float(weight @ (y == predicted))
    low, high = wilson(share, effective_number(weight), 1 - LEVEL)
    base = float(np.bincount(y, weight).max())
    text, of_base = shares_in_words(share, base, digits=1)
    return {"name": "accuracy", "value": share, "low": low, "high": high, "base": base, "text": text,
            "base_text": of_base}  # fmt: skip


def residuals(one: FeatureImportance) -> list[Range]:
    """Target less prediction in ranges of the prediction: quantiles, and the mean with its interval.

    `off`: whether the mean differs from 0 by an interval that holds for all ranges together, and by much.
    """
    y, f, weight = _numbers(one)
    every, root, parts = ranges(f, weight), float(np.sqrt(weight @ (y - f) ** 2)), []
    for rows in every:
        residual, share = (y - f)[rows], weight[rows] / weight[rows].sum()
        mean, low, high = mean_of(residual, share)
        _, least, most = mean_of(residual, share, LEVEL / len(every))
        parts.append(_range(f, rows, weight) | {
            "mean": mean, "mean_low": low, "mean_high": high, "quantiles": _quantiles(residual, share),
            "off": bool(abs(mean) > MATTERS * root and (least > 0 or most < 0)), "off_low": least, "off_high": most,
        })  # fmt: skip
    return parts


def calibration(one: FeatureImportance) -> list[dict[str, Any]]:
    """How often a class occurs in ranges of its predicted probability: of the second of two, or the most frequent."""
    y, weight, classes = _counted(one, one.sample.y), _weight(one), one.sample.classes
    assert classes is not None
    often = np.bincount(y, weight, len(classes))
    chosen = [1] if len(classes) == 2 else np.argsort(-often, kind="stable")[:DRAWN_CLASSES].tolist()
    curves, named = [], labels(classes)
    for k in chosen:
        p, every = _counted(one, one.sample.prediction[:, k]), []
        for rows in ranges(p, weight):
            share, units = weight[rows] / weight[rows].sum(), effective_number(weight[rows])
            every.append((rows, float(share @ p[rows]), float(share @ (y[rows] == k)), units))
        several, parts = len(every) * len(chosen), []
        for rows, predicted, observed, units in every:
            low, high = wilson(observed, units, 1 - LEVEL)
            least, most = clopper_pearson(observed, units, 1 - LEVEL / several)
            parts.append(_range(p, rows, weight) | {
                "observed": observed, "observed_low": low, "observed_high": high,
                "off": abs(observed - predicted) > OFF_BY and not least <= predicted <= most,
                "off_low": least, "off_high": most,
            })  # fmt: skip
        curves.append({"label": named[k], "share": float(often[k]), "ranges": parts})
    return curves


def confusion(one: FeatureImportance) -> dict[str, Any]:
    """The rows of each true class (first axis) that are predicted to be of each class, as shares of all rows."""
    y, predicted, weight = _predicted_classes(one)
    classes = one.sample.classes
    assert classes is not None
    order = np.argsort(-np.bincount(y, weight, len(classes)), kind="stable")
    joined = len(classes) - TABLED_CLASSES + 1 if len(classes) > TABLED_CLASSES else 0
    kept = np.sort(order[: len(classes) - joined]) if joined else np.arange(len(classes))
    place = np.full(len(classes) + 1, len(kept))  # the last entry is for a label that is no class of y
    place[kept] = np.arange(len(kept))
    strange = bool((predicted < 0).any())
    k = len(kept) + (joined > 0 or strange)
    table = np.bincount(place[y] * k + place[predicted], weight, k * k).reshape(k, k)
    named, other = labels(classes), f"{joined} others" if joined else "no class of y"
    return {
        "labels": [*(named[c] for c in kept), *[other] * (k - len(kept))],
        "shares": table.tolist(),
        "joined": joined,
        "rows": np.bincount(place[y], minlength=k).tolist(),
    }


def ranges(values: Floats, weight: Floats, most: int = RANGES) -> list[Indices]:
    """Rows in ranges of values with about equal weights, in order; equal values stay together."""
    distinct, codes = np.unique(values, return_inverse=True)
    count = int(np.clip(len(values) // ROWS_IN_RANGE, 1, most))
    mass = np.bincount(codes, weight)
    middle = np.cumsum(mass) - mass / 2
    place = np.minimum((middle / mass.sum() * count).astype(np.intp), count - 1)
    if len(distinct) <= count:
        place = np.arange(len(distinct))
    return [np.flatnonzero(place[codes] == k) for k in np.unique(place)]


def wilson(share: float, units: float, level: float) -> tuple[float, float]:
    """Wilson's interval of a share of so many rows: never empty, and never beyond 0 or 1."""
    from scipy.special import ndtri

    z = float(ndtri((1 + level) / 2))
    centre = (share + z**2 / (2 * units)) / (1 + z**2 / units)
    half = z / (1 + z**2 / units) * np.sqrt(share * (1 - share) / units + z**2 / (4 * units**2))
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


def clopper_pearson(share: float, units: float, level: float) -> tuple[float, float]:
    """The interval of a share that covers at least so often: Wilson's excludes tiny shares too often with few rows."""
    from scipy.special import betaincinv

    times, tail = share * units, (1 - level) / 2
    low = float(betaincinv(times, units - times + 1, tail)) if share > ROUNDING else 0.0
    return low, float(betaincinv(times + 1, units - times, 1 - tail)) if share < 1 - ROUNDING else 1.0


def _range(values: Floats, rows: Indices, weight: Floats) -> Range:
    return {
        "low": float(values[rows].min()), "high": float(values[rows].max()), "n": len(rows),
        "predicted": float(weight[rows] @ values[rows] / weight[rows].sum()),
    }  # fmt: skip


def mean_of(values: Floats, weight: Floats, level: float = LEVEL) -> tuple[float, float, float]:
    """A weighted mean and its interval, which is NaN with fewer than three rows."""
    mean = float(weight @ values / weight.sum())
    if len(values) < 3:
        return mean, np.nan, np.nan
    moved = Influence(influence_on_mean(values[:, None], weight)[:, 0])
    return mean, *interval(mean, moved.std_error, effective_number(weight), 1 - level, moved.skewness)


def _quantiles(values: Floats, weight: Floats) -> list[float]:
    order = np.argsort(values, kind="stable")
    reached = np.searchsorted(np.cumsum(weight[order]), np.asarray(QUANTILES) * weight.sum() * (1 - 1e-12))
    return [float(values[order[min(place, len(order) - 1)]]) for place in reached.tolist()]


def _counted(one: FeatureImportance, values: NDArray[Any] | None) -> NDArray[Any]:
    """The values of the rows that have a weight; they are never None, as every loss reads y."""
    assert values is not None
    return np.asarray(values[one.at][one.sample.weight[one.at] > 0])


def _weight(one: FeatureImportance) -> Floats:
    weight = _counted(one, one.sample.weight)
    return np.asarray(weight / weight.sum())


def _numbers(one: FeatureImportance) -> tuple[Floats, Floats, Floats]:
    """Target, prediction and weight of the rows that have one."""
    return _counted(one, one.sample.y).astype(float), _counted(one, one.sample.prediction).astype(float), _weight(one)


def _predicted_classes(one: FeatureImportance) -> tuple[Indices, Indices, Floats]:
    """True and predicted class, and weight: the most probable class, or the largest score."""
    predicted = _counted(one, one.sample.prediction)
    if predicted.ndim == 2:
        predicted = predicted.argmax(axis=1)
    elif one.loss.reads == "scores":
        predicted = (predicted > 0).astype(np.intp)
    return _counted(one, one.sample.y), predicted, _weight(one)


# What says that a model is bad. Preconditions are in the docstrings.


@claim(level=0)
def at_the_bound(one: FeatureImportance) -> str:
    """Where the log loss of some rows is at the clipping bound: how much they decide."""
    rows = rows_at_the_bound(one)
    if rows is None:
        return ""
    whose, without = ("Its", "it") if rows["rows"] == 1 else ("Their", "them")
    text = (
        f"For {rows['rows']:,} of {rows['n']:,} {'row' if rows['n'] == 1 else 'rows'} the model gives the true class "
        f"probability 0. {whose} {one.loss.title} is set to the clipping bound, {in_digits(rows['bound'])}"
    )
    if rows["without"] is None:
        return f"{text}, and so is that of every row."
    typical, now = (share_in_words(float(np.exp(-loss)), 1) for loss in (rows["without"], one.error))
    return f"{text}: without {without} the typical probability of the true class would be {typical}, not {now}."


def rows_at_the_bound(one: FeatureImportance) -> dict[str, Any] | None:
    """Rows whose log loss is at the clipping bound, and the mean without them; None where there are none."""
    bound, weight = one.loss.ceiling(one.sample.prediction.dtype), one.sample.weight[one.at]
    if bound is None:
        return None
    there = (one._losses >= bound * (1 - 1e-9)) & (weight > 0)
    if not there.any():
        return None
    left = np.where(there, 0.0, weight)
    without = float(left @ one._losses / left.sum()) if left.any() else None
    return {"rows": int(there.sum()), "n": int((weight > 0).sum()), "bound": bound, "without": without}


@claim(level=LEVEL)
def worse_than_constant(constant: dict[str, Any] | None) -> str:
    """Where the interval of the difference of the errors is above 0."""
    if constant is None or not constant["low"] > 0:
        return ""
    return (
        f"The model is worse than always predicting {constant['predicts']}: its importances say what a bad model rests "
        "on."
    )


@claim(level=0)
def no_more_often_right(score: dict[str, Any] | None) -> str:
    """Where the accuracy on these rows is at most that of the most frequent class."""
    if score is None or score["base"] is None or score["value"] > score["base"] + ROUNDING:
        return ""
    often = "is right as often" if score["value"] > score["base"] - ROUNDING else "is right more often"
    return f"Its predicted class is right for {score['text']} of the rows; the most frequent class {often}."


@claim(level=LEVEL)
def off_in_a_range(residuals: list[Range] | None, loss: str) -> str:
    """The range of predictions with the largest mean residual, where it is surely not 0 and not small.

    Only of losses that are smallest at the mean of y: a median need not be a mean.
    """
    off = [one for one in residuals or [] if one["off"]] if loss in MEANS else []
    if not off:
        return ""
    worst = max(off, key=lambda one: abs(one["mean"]))
    way, others = "larger" if worst["mean"] > 0 else "smaller", ""
    if len(off) > 1:
        others = " Predictions are off in other ranges, too."
    return (
        f"Where the model predicts {_between(worst)}, the target is {in_digits(abs(worst['mean']), digits=3)} {way} on "
        f"average (95% confidence for all ranges together).{others}"
    )


@claim(level=LEVEL)
def misses_a_probability(calibration: list[dict[str, Any]] | None) -> str:
    """The range of probabilities that is farthest from how often the class occurs, surely and not by little."""
    off = [(each["label"], one) for each in calibration or [] for one in each["ranges"] if one["off"]]
    if not off:
        return ""
    label, worst = max(off, key=lambda pair: abs(pair[1]["observed"] - pair[1]["predicted"]))
    ends = _probabilities(worst["low"], worst["high"])
    return (
        f"Where the model gives class {label} a probability of {ends}, on average "
        f"{share_in_words(worst['predicted'], 1)}, the class occurs in {share_in_words(worst['observed'], 1)} of the "
        "rows (95% confidence for all ranges together)."
    )


def _probabilities(low: float, high: float) -> str:
    ends = [share_in_words(end, 1) for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _between(one: Range) -> str:
    low, high = in_digits(one["low"], digits=3), in_digits(one["high"], digits=3)
    return low if low == high else f"{low} to {high}"
