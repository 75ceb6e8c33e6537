"""The picture of the first screen: the leading features of the first model on one scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from losslens.results.plain_error import LEADING, PlainError, PlainScore, is_sure, scaled


def leading(summary: dict[str, Any]) -> dict[str, Any]:
    """The picture of the first screen: the leading features of the first model on one scale, in percent of its width.

    The interval is that of the importance, carried to the scale with the model's error as it is: it reaches the line
    of nothing shuffled where the interval of the importance reaches 0.
    """
    place = {feature["name"]: k for k, feature in enumerate(summary["features"])}
    described = {feature["name"]: feature.get("description", "") for feature in summary["features"]}
    shown = (summary["score"] or summary)["features"][:LEADING]
    entries, plain = [(feature["name"], feature["models"][0]) for feature in shown], plain_of(summary)
    blocks = [] if summary["blocks"] is None else [one["features"] for one in summary["blocks"]["blocks"]]
    number = {name: str(k) for k, features in enumerate(blocks, 1) for name in features}
    rows = []
    for name, one in entries:
        low, high = sorted([_end(plain, one["low"]), _end(plain, one["high"])], key=lambda end: (end is None, end))
        row = {"name": name, "description": described[name], "place": place[name], "value": plain.after(one["pfi"])}
        row |= {"low": low, "high": high, "sure": is_sure(one["p"]), "p": one["p"], "block": number.get(name, "")}
        rows.append(row)
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
        "now": "1×" if times else plain.text(plain.now),
        "now_value": plain.now,
        "grown": plain.grown(entries[0][1]["pfi"]),
        "now_at": at(plain.now),
    }


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
