"""The picture of the first screen: the leading features of the first model on one scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from losslens.results.plain_error import LEADING, PlainError, PlainScore, is_sure, scaled

MOST_ROWS = 12  # of the picture, with those of features together


def leading(summary: dict[str, Any]) -> dict[str, Any]:
    """The picture of the first screen: the leading features of the first model on one scale, in percent of its width.

    By a loss, features that go together are one bar, and those that lead stand under it. The interval is that of the
    importance, carried to the scale with the model's error as it is: it reaches the line of nothing shuffled where the
    interval of the importance reaches 0.
    """
    place = {feature["name"]: k for k, feature in enumerate(summary["features"])}
    described = {feature["name"]: feature.get("description", "") for feature in summary["features"]}
    plain, rows = plain_of(summary), []
    for name, one, block, number in _bars(summary):
        low, high = sorted([_end(plain, one["low"]), _end(plain, one["high"])], key=lambda end: (end is None, end))
        words = one["words"] if block == "all" else described[name]
        row = {"name": name, "description": words, "place": place.get(name), "value": plain.after(one["pfi"])}
        row |= {"low": low, "high": high, "p": one["p_zero" if block == "all" else "p"], "block": block}
        rows.append(row | {"sure": is_sure(row["p"], one["low"]), "number": number, "grown": plain.grown(one["pfi"])})
    shown_values = [value for row in rows for value in (row["value"], row["low"], row["high"]) if value is not None]
    times = "×" if plain.times else ""
    first, last = min([plain.now, *shown_values]), max([plain.now, *shown_values])

    def at(value: float | None) -> str | None:
        return None if value is None else f"{1 + 98 * (value - first) / ((last - first) or 1):.2f}%"

    for row in rows:
        row["text"] = plain.text(row["value"]) + times
        between = [plain.text(row[end]) for end in ("low", "high") if row[end] is not None]
        row["between"] = " to ".join(between)
        row["at"] = {key: at(row[key]) for key in ("value", "low", "high")}
    return {
        "rows": rows,
        "measure": plain.measure,
        "falls": plain.falls,  # worse is to the left
        "now": "1×" if times else plain.text(plain.now),
        "now_value": plain.now,
        "now_at": at(plain.now),
    }


def _bars(summary: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], str, str]]:
    """Names and numbers: of blocks ("all"), of their features ("inside"), of others (""); marks by a score."""
    score = summary["score"]
    shown = {one["name"]: one["models"][0] for one in (score or summary)["features"][:LEADING]}
    blocks = [] if summary["blocks"] is None else summary["blocks"]["blocks"]
    number = {name: str(k) for k, one in enumerate(blocks, 1) for name in one["features"]}
    if score is not None or not blocks:  # a block has no score
        yield from ((name, one, "", number.get(name, "")) for name, one in shown.items())
        return
    inside = {name for block in blocks for name in block["features"]}
    units = [(one["pfi"], one["name"], one) for one in blocks if shown.keys() & {*one["features"]}]
    units += [(one["pfi"], name, one) for name, one in shown.items() if name not in inside]
    rows = []
    for _, name, one in sorted(units, key=lambda unit: -unit[0]):
        members = [(each, shown[each], "inside", "") for each in shown if each in one.get("features", ())]
        rows += [(name, one, "all" if members else "", ""), *members]
    yield from rows[:MOST_ROWS]


def plain_of(summary: dict[str, Any]) -> PlainError | PlainScore:
    """The error or the score of a page's first model."""
    score, loss = summary["score"], summary["loss"]
    entries = [feature["models"][0] for feature in (score or summary)["features"][:LEADING]]
    pfi = [np.nan if one["pfi"] is None else one["pfi"] for one in entries]
    ends = [one[key] for one in entries for key in ("low", "high") if one[key] is not None]
    if score is None:
        return scaled(PlainError(loss["told_as"], loss["title"], summary["models"][0]["error"]), pfi, ends)
    return scaled(PlainScore(score["name"], score["models"][0]["base"], score["told_as"] == "score"), pfi, ends)


def _end(plain: PlainError | PlainScore, end: float | None) -> float | None:
    return None if end is None or not np.isfinite(end) else plain.after(end)
