"""Dicts such as a report is drawn from, with numbers worked out here: for pages of every odd kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Made(dict[str, Any]):
    """A summary that also knows the exact changes of loss (n, g) of each feature of its first model."""

    exact: dict[str, Floats]


def made(
    n: int = 300, names: tuple[str, ...] = ("a", "b", "c"), models: int = 1, *,
    whole: bool = True, weighted: bool = False, words: bool = True, missing: bool = False, shares: bool = True,
    n_given: int | None = None, integers: bool = False,
) -> Made:  # fmt: skip
    """A summary of f(x) = a linear form + x_first x_last, squared error, all pairs; the last may be of words."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, len(names))).round(2)
    if integers:
        X[:, 0] = rng.integers(0, 24, n)
    told = words and len(names) > 1
    if told:
        X[:, -1] = rng.integers(0, 4, n)
    weight = rng.uniform(0.5, 2, n) if weighted else np.ones(n)
    weight /= weight.sum()
    y = _f(X, 0) + rng.normal(0, 0.5, n)
    columns = [_column(name, X[:, j], told and j == len(names) - 1) for j, name in enumerate(names)]
    features = [_feature(X, y, weight, j, columns[j], models, whole, shares) for j in range(len(names))]
    features.sort(key=lambda feature: -feature["models"][0]["pfi"])
    if missing:
        _lose(features, columns, names[0])
    heads = [_head(f"model {m}" if m else "forest", X, y, weight, m) for m in range(models)]
    summary = Made({
        "format": 2, "title": "A made-up model", "made": "2026-01-31", "library": "losslens 0.1.0",
        "words": {
            "question": "What does this model need to predict the target?",
            "opening": ["It is off by 0.5.", f"It depends most on {names[0]}.", "Nothing is known of it."],
            "headline": "The mean squared error is 0.25.", "sentences": [f"{names[0]} carries most of it."],
            "computed": ["All pairs, exactly."], "careful": ["Little is known of made-up data."],
        },
        "loss": {"name": "squared_error", "title": "mean squared error", "least": 0.0, "told_as": "root",
                 "measure": "How far off the predictions are (root mean squared error)",
                 "unit": "root mean squared error"},
        "target": {"name": "y", "reads": "values", "classes": None, "shown": None, "drawn": None},
        "told": {
            "measure": "How far off the predictions are", "texts": ["0.500"] * models, "tail": "",
            "alternative": "always predicting the average", "number": "2.00", "rows": f"these {n} rows", "between": "",
        },
        "rounded": None, "embed": "all", "holds": f"This file holds {n} rows.", "n_explained": n,
        "n": n, "n_given": n_given or n, "by": None, "score": None,
        "for_whom": None, "compared": None, "segments": None, "calls": {},
        "models": heads,
        "table": {
            "columns": columns, "y": y, "index": np.arange(n) * 2, "weight": weight,
            "models": [{"prediction": _f(X, m), "label": None, "loss": (y - _f(X, m)) ** 2} for m in range(models)],
        },
        "features": features, "blocks": None, "interactions": None, "rows": None, "clusters": None,
    })  # fmt: skip
    summary.exact = {feature["name"]: feature.pop("exact") for feature in features}
    return summary


def with_findings(summary: Made) -> Made:
    """The same with a finding of each kind: the first feature warns and has regions, the last curve is not faded."""
    n, features = summary["n"], summary["features"]
    for place, feature in enumerate(features):
        faded = np.arange(len(feature["weights"])) < len(feature["weights"]) / 2
        said = f"40% of the replaced rows of {feature['name']} are unlike any real one."
        far = {"auc": 0.8, "share": 0.4, "warns": place == 0, "sentence": said if place == 0 else ""}
        feature["extrapolation"] = far | {"faded": faded & (place == 0)}
    rules = [("", 0, 150, np.nan), ("b ≤ 0", 1, 80, 0.003), ("b > 0", 1, 70, 0.003)]
    tree = [
        {
            "rule": rule,
            "depth": depth,
            "n": many,
            "pfi": 1.5 * many,
            "low": 1.0 * many,
            "high": 2.0 * many,
            "p": p,
            "contrast": "1.1 times" if rule else "",
        }
        for rule, depth, many, p in rules
    ]
    features[0]["regions"] = {"sentences": ["a matters 1.1 times as much where b ≤ 0."], "tree": tree}
    names = [feature["name"] for feature in features]
    sure = {"first": names[0], "second": names[1], "value": 2.5, "std_error": 0.2, "low": 2.1, "high": 2.9, "p": 1e-9}
    weak = {"first": names[0], "second": names[2], "value": -0.1, "std_error": 0.2, "low": -0.5, "high": 0.3, "p": 0.6}
    summary["interactions"] = {"features": names, "n_pairs": 3, "pairs": [sure, weak], "how": "All pairs, exactly."}
    summary["interactions"] |= {"by": "", "map": None}
    worth = np.linspace(-3, 9, n)[::-1].copy()
    summary["rows"] = {
        "importance": worth, "fence": -2.0, "helped": int((worth > 0).sum()), "hurt": int((worth < 0).sum()),
        "n_suspicious": 2, "counted": n, "suspicious": np.array([n - 1, n - 2]), "influence": np.array([0.5, -0.25]),
        "influence_on": [names[0], names[1]], "sentence": "Some rows gain.", "remark": "They are few.",
    }  # fmt: skip
    labels = np.where(np.arange(n) % 3 == 0, 1, 0)
    known = [{"name": names[0], "value": 1.25}, {"name": names[1], "value": -0.5}]
    clusters = [
        {"n": int((labels == c).sum()), "share": float((labels == c).mean()), "rule": rule, "known_by": known,
         "stability": 0.9}
        for c, rule in enumerate(("b ≤ 0", ""))
    ]  # fmt: skip
    summary["clusters"] = {
        "labels": labels, "clusters": clusters, "stability": 0.9, "described": 0.8, "chance": 0.67,
        "sentence": "The rows fall into 2 clusters.",
    }  # fmt: skip
    return summary


def given(summary: Made, name: str, rows: NDArray[Any]) -> tuple[float, Floats]:
    """PFI and PI of these rows with donors from everywhere, as the paper defines them."""
    feature, weight = _named(summary, name), summary["table"]["weight"][rows]
    curve = weight @ summary.exact[name][rows] / weight.sum()
    return float(curve @ feature["weights"]), curve


def subset(summary: Made, name: str, rows: NDArray[Any]) -> tuple[float, Floats]:
    """The same with donors among these rows; the curve at values that none of them holds is NaN."""
    feature, weight = _named(summary, name), summary["table"]["weight"][rows]
    curve = given(summary, name, rows)[1]
    held = np.bincount(feature["own"][rows], weight, len(curve)) / weight.sum()
    return float(held @ curve), np.where(held > 0, curve, np.nan)


def _named(summary: Made, name: str) -> dict[str, Any]:
    return next(feature for feature in summary["features"] if feature["name"] == name)


def _f(X: Floats, model: int) -> Floats:
    slopes = 2.0 / (1 + np.arange(X.shape[1])) + 0.3 * model
    return X @ slopes + (X[:, 0] * X[:, -1] if model == 0 else 0)


def _column(name: str, values: Floats, words: bool) -> dict[str, Any]:
    if words:
        return {"name": name, "kind": "words", "values": [f"kind {int(v)}" for v in values]}
    return {"name": name, "kind": "integer" if (values == values.round()).all() else "number", "values": values}


def _feature(
    X: Floats, y: Floats, weight: Floats, j: int, column: dict[str, Any], models: int, whole: bool, shares: bool
) -> dict[str, Any]:
    grid, own = np.unique(X[:, j], return_inverse=True)
    if len(grid) > 100:  # few values a column, so that big pages stay cheap to make
        own = own * 100 // len(grid)
        grid = np.array([grid[np.searchsorted(np.arange(len(grid)) * 100 // len(grid), b)] for b in range(100)])
        X = X.copy()
        X[:, j] = grid[own]
    mass = np.bincount(own, weight, len(grid))
    entries, exact = [], np.zeros(0)
    for m in range(models):
        ice = np.stack([_f(np.column_stack([X[:, :j], np.full(len(X), v), X[:, j + 1 :]]), m) for v in grid], axis=1)
        changes = (y[:, None] - ice) ** 2 - ((y - _f(X, m)) ** 2)[:, None]
        entries.append(_entry(changes, ice, mass, weight, whole or m > 0, shares))
        if m:
            entries[m]["cells"] = None
        else:
            exact = changes
    words = column["kind"] == "words"
    texts = [f"kind {int(v)}" for v in grid] if words else [f"{v:.6g}" for v in grid]
    return {
        "name": column["name"], "kind": column["kind"], "values": texts if words else grid, "labels": texts,
        "weights": mass, "own": own, "models": entries, "exact": exact, "extrapolation": None, "regions": None,
    }  # fmt: skip


def _entry(changes: Floats, ice: Floats, mass: Floats, weight: Floats, whole: bool, shares: bool) -> dict[str, Any]:
    local, pi = changes @ mass, weight @ changes
    pfi = float(weight @ local)
    spread = 0.1 * np.abs(pi) + 0.05
    share = {"sfimp": 0.8 * pfi, "sfimp_low": 0.7 * pfi, "sfimp_high": 0.9 * pfi, "share": 0.2}
    found = _whole(changes) if whole else _low_rank(changes, local, pi, pfi)
    return {
        "pfi": pfi, "low": 0.9 * pfi, "high": 1.1 * pfi, "std_error": 0.05 * pfi, "p": 1e-9, "ratio": 1.5,
        **(share if shares else dict.fromkeys(share)),
        "exact": True, "design": "All()", "engine": "made up", "local": local,
        "pi": pi, "pi_low": pi - spread, "pi_high": pi + spread, "pd": weight @ ice, "pd_low": None, "pd_high": None,
        "pd_classes": None, "ice": _whole(ice) | {"error": float(np.ptp(ice)) / 2**17}, "cells": found,
    }  # fmt: skip


def _whole(changes: Floats) -> dict[str, Any]:
    return {"kind": "whole", "values": changes.astype(np.float32)}


def _low_rank(changes: Floats, local: Floats, pi: Floats, pfi: float) -> dict[str, Any]:
    """One rank too few on purpose, so that there is an error to state: a bound that holds for every group."""
    apart = changes - local[:, None] - pi + pfi
    left, size, right = np.linalg.svd(apart, full_matrices=False)
    row = left[:, :3] * size[:3]
    scale = np.abs(row).max(axis=0) / 127
    whole = np.round(row / scale).astype(np.int8)
    column = right[:3].astype(np.float32)
    error = float(np.abs(whole * scale @ column - apart).max())
    return {"kind": "low rank", "row": whole, "scale": scale, "column": column, "error": error, "typical": error / 3}


def _head(name: str, X: Floats, y: Floats, weight: Floats, model: int) -> dict[str, Any]:
    error = float(weight @ (y - _f(X, model)) ** 2)
    return {
        "name": name,
        "error": error,
        "error_low": 0.9 * error,
        "error_high": 1.1 * error,
        "error_none": 4 * error,
        "error_constant": 3 * error,
        "skill": 2 / 3,
        "quality": None,
    }


def _lose(features: list[dict[str, Any]], columns: list[dict[str, Any]], name: str) -> None:
    """The largest value of a feature becomes a missing one."""
    feature = next(feature for feature in features if feature["name"] == name)
    feature["values"] = np.append(feature["values"][:-1], np.nan)
    feature["labels"][-1] = "missing"
    column = next(column for column in columns if column["name"] == name)
    column["values"] = np.where(feature["own"] == len(feature["values"]) - 1, np.nan, column["values"])
