"""Which rows a page holds: all that are explained, a sample of them, or none.

Numbers of all rows are the same in each. Without rows, a page is made of means over rows: values of a feature that few
rows hold are joined, so that none of them can be read from an axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from losslens.page.labels import rough, rough_labels
from losslens.page.sizes import with_fewer_digits
from losslens.text import claim
from losslens.typing import Floats, Indices

Embed = Literal["all", "sample", "none"]
EMBEDS = ("all", "sample", "none")
SAMPLE = 500  # rows of a sample
FEWEST = 10  # rows that hold a value, or one of several joined ones, in a page without rows
MOST_BINS = 32  # of joined numbers
CURVES = ("pi", "pi_low", "pi_high", "pd", "pd_low", "pd_high")


def embedded(summary: dict[str, Any], embed: Embed, rng: np.random.Generator) -> dict[str, Any]:
    """The summary with these rows only: `n` of them, of `n_explained`."""
    n = summary["n"]
    if embed == "none":
        return _without(summary) | {"rounded": None, "embed": "none", "holds": holds("none", 0, n, summary["n_given"])}
    some = np.arange(n)
    if embed == "sample" and n > SAMPLE:
        some = np.sort(rng.choice(n, SAMPLE, replace=False))
    about = {"embed": embed, "holds": holds(embed, len(some), n, summary["n_given"])}
    return with_fewer_digits(summary if len(some) == n else _of_rows(summary, some)) | about


@claim(level=0)
def holds(embed: Embed, n: int, explained: int, given: int) -> str:
    """Which rows are in the page, and what can be read from it."""
    part = f" of the {given:,} rows that were given" if explained < given else ""
    if embed == "none":
        return (
            "This file holds no row of the data, no target and no prediction: curves and groups are means over rows, "
            f"and values that fewer than {FEWEST} rows hold are joined, or not named. There is no table of rows, and "
            "subgroups cannot be formed."
        )
    if n < explained:
        return (
            f"This file holds {n:,} rows, drawn at random from the {explained:,} that were explained{part}, with their "
            f"targets and predictions. Numbers and curves of all rows are those of the {explained:,}, and so are the "
            f"values on the axes of curves; subgroups formed here are of the {n:,}."
        )
    which = f"{n:,}{part}" if part else f"all {n:,} rows"
    return f"This file holds {which}, with all columns, targets and predictions: anyone who receives it can read them."


def _of_rows(summary: dict[str, Any], some: Indices) -> dict[str, Any]:
    """The summary with some of the rows, and without the list of rows that stand out, which is of all rows."""
    table, rows, clusters, blocks = (summary[key] for key in ("table", "rows", "clusters", "blocks"))
    models = [{key: _taken(values, some) for key, values in model.items()} for model in table["models"]]
    return summary | {
        "n": len(some),
        "table": table | {
            "columns": [column | {"values": _taken(column["values"], some)} for column in table["columns"]],
            "models": models, **{key: _taken(table[key], some) for key in ("y", "index")},
            "weight": table["weight"][some] / (table["weight"][some].sum() or 1.0),
        },
        "features": [_feature(feature, lambda values: _taken(values, some)) for feature in summary["features"]],
        "blocks": blocks and blocks | {"blocks": [one | {"local": one["local"][some]} for one in blocks["blocks"]]},
        "rows": None if rows is None else rows | {"importance": rows["importance"][some], **_unlisted(rows)},
        "clusters": None if clusters is None else clusters | {"labels": clusters["labels"][some]},
    }  # fmt: skip


def _taken(values: Any, some: Indices) -> Any:
    if values is None:
        return None
    return values[some] if isinstance(values, np.ndarray) else [values[i] for i in some]


def _unlisted(rows: dict[str, Any]) -> dict[str, Any]:
    nothing = np.zeros(0, np.intp)
    return {"suspicious": nothing, "influence": None if rows["influence"] is None else nothing, "influence_on": []}


def _feature(feature: dict[str, Any], take: Callable[[Any], Any]) -> dict[str, Any]:
    """A feature with some of its rows' numbers: all that is as long as there are rows."""

    def with_rows(form: dict[str, Any] | None) -> dict[str, Any] | None:
        return form and {key: take(part) if key in ("values", "row", "level") else part for key, part in form.items()}

    entries = [
        entry | {"local": take(entry["local"]), "cells": with_rows(entry["cells"]), "ice": with_rows(entry["ice"])}
        for entry in feature["models"]
    ]
    return feature | {"own": take(feature["own"]), "models": entries}


def _without(summary: dict[str, Any]) -> dict[str, Any]:
    """The summary without any row, target or prediction, and without what would show those of few rows."""
    columns = {column["name"]: column["values"] for column in summary["table"]["columns"]}
    features = [_joined(feature, columns.get(feature["column"])) for feature in summary["features"]]
    empty = _of_rows(summary | {"features": features}, np.zeros(0, np.intp))
    for feature in empty["features"]:
        for entry in feature["models"]:
            entry |= {"cells": None, "ice": None}
        feature["own"] = None
    empty["table"]["columns"] = []
    heads = [head | {"quality": _rounded(head["quality"])} for head in summary["models"]]
    pairs = summary["interactions"]
    if pairs is not None:  # the ends of its ranges are values of single rows
        empty["interactions"] = pairs | {"map": None}
    weak = summary["segments"]
    if weak is not None:  # their conditions hold values of single rows
        weak = weak | {"segments": [one | {"conditions": []} for one in weak["segments"]]}
    groups, score = _of_large_groups(summary["for_whom"]), summary["score"]
    if score is not None and score["groups"] is not None:
        large = [one for one in score["groups"]["groups"] if one["n"] >= FEWEST]
        score = score | {"groups": None if groups is None else score["groups"] | {"groups": large}}
    return empty | {"score": score, "python": None, "models": heads, "for_whom": groups, "segments": weak}


def _joined(feature: dict[str, Any], column: Any) -> dict[str, Any]:
    """The curves of a feature, with values joined until several rows hold each; or no curves."""
    own, n_values = feature["own"], len(feature["labels"] or [])
    if own is None or column is None:
        empty = dict.fromkeys((*CURVES, "pd_classes"))
        return feature | {
            "values": None, "labels": None, "weights": None, "models": [entry | empty for entry in feature["models"]],
            "extrapolation": feature["extrapolation"] and feature["extrapolation"] | {"faded": None},
        }  # fmt: skip
    count = np.bincount(own, minlength=n_values)
    values: Any
    if feature["kind"] == "words":
        place, values = _frequent(count), _names(feature["labels"], count)
        texts = values
    else:
        number = np.asarray(column, float)
        place = _neighbours(count, np.isnan(feature["values"]), feature["kind"])
        values, texts = _middles(number, place[own], int(place.max()) + 1, feature["kind"])
    weights = _sums(feature["weights"], place)

    def means(curve: Any) -> Any:
        return None if curve is None else _sums(feature["weights"] * curve, place) / np.where(weights > 0, weights, 1)

    entries = [
        entry | {key: means(entry[key]) for key in CURVES}
        | {"pd_classes": entry["pd_classes"] and [means(curve) for curve in entry["pd_classes"]]}
        for entry in feature["models"]
    ]  # fmt: skip
    far = feature["extrapolation"]
    if far is not None and far["faded"] is not None:
        far = far | {"faded": means(np.asarray(far["faded"], float)) > 0.5}
    return feature | {"values": values, "labels": texts, "weights": weights, "models": entries, "extrapolation": far}


def _sums(values: Floats, place: Indices) -> Floats:
    """Sums over the values of each bin; -1 is in none."""
    kept = place >= 0
    return np.asarray(np.bincount(place[kept], np.asarray(values, float)[kept], int(place.max()) + 1))


def _frequent(count: Indices) -> Indices:
    """The bin of each category: its own if it is frequent, else the last one."""
    often = count >= FEWEST
    return np.where(often, np.cumsum(often) - 1, often.sum())


def _names(labels: list[str], count: Indices) -> list[str]:
    kept = [label for label, times in zip(labels, count.tolist(), strict=True) if times >= FEWEST]
    rare = len(labels) - len(kept)
    return kept + ([f"{rare:,} rare {'ones' if rare > 1 else 'one'}"] if rare else [])


def _neighbours(count: Indices, missing: NDArray[np.bool_], kind: str) -> Indices:
    """The bin of each value in order; a missing value has its own, or none if it is rare."""
    present = int(count[~missing].sum())
    least = FEWEST if kind == "integer" else max(FEWEST, present // MOST_BINS)
    place, held, here = np.full(len(count), -1), 0, 0
    for v in np.flatnonzero(~missing):
        place[v] = here
        held += int(count[v])
        if held >= least:
            here, held = here + 1, 0
    if held and here:  # the last ones are too few: they join those before
        place[place == here] = here - 1
    if (often := np.flatnonzero(missing & (count >= FEWEST))).size:
        place[often] = place.max() + 1
    return place


def _middles(column: Floats, place: Indices, bins: int, kind: str) -> tuple[Floats, list[str]]:
    """The mean of the values of each bin, rounded by their spread; a value that is alone in its bin as it is."""
    held = [column[place == b] for b in range(bins)]
    values = np.array(
        [np.nan if np.isnan(part).any() else rough(part.mean(keepdims=True), part, kind)[0] for part in held]
    )
    alone = np.array([len(np.unique(part)) == 1 for part in held])
    named = zip(rough_labels(values, kind), alone | np.isnan(values) | (kind == "date"), strict=True)
    return values, [name if as_is else f"about {name}" for name, as_is in named]


def _of_large_groups(for_whom: dict[str, Any] | None) -> dict[str, Any] | None:
    """The groups without those of few rows, whose means disclose single ones; None if fewer than two are left."""
    if for_whom is None:
        return None
    kept = {k: place for place, k in enumerate(k for k, one in enumerate(for_whom["groups"]) if one["n"] >= FEWEST)}
    small = [one["label"] for one in for_whom["groups"] if one["n"] < FEWEST]
    if len(kept) < 2:
        return None
    models = [
        {
            "groups": [model["groups"][k] for k in kept],
            "differences": [
                one | {"first": kept[one["first"]], "second": kept[one["second"]]}
                for one in model["differences"] if one["first"] in kept and one["second"] in kept
            ],
        }
        for model in for_whom["models"]
    ]  # fmt: skip
    sentences = [text for text in for_whom["sentences"] if not any(label in text for label in small)]
    groups = [for_whom["groups"][k] | {"conditions": []} for k in kept]  # they hold values of single rows
    return for_whom | {"groups": groups, "models": models, "sentences": sentences}


def _rounded(tree: Any) -> Any:
    """Numbers with three digits: quantiles and ends of ranges are numbers of single rows."""
    if isinstance(tree, dict):
        return {key: _rounded(part) for key, part in tree.items()}
    if isinstance(tree, (list, tuple, np.ndarray)):
        return [_rounded(part) for part in tree]
    return float(f"{tree:.3g}") if isinstance(tree, (float, np.floating)) else tree
