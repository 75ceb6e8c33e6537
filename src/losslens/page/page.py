"""The dict as one HTML file that loads nothing from a network; its content security policy forbids it."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from losslens.page import charts
from losslens.page.leading import leading
from losslens.page.packing import Box, safe_json
from losslens.page.receipts import receipts
from losslens.text import Sentence, in_digits, share_in_words

# Each uses those before it; joined, they are one script.
SCRIPTS = (
    "dom", "focus", "data", "told", "groups", "intervals", "columns",
    "ranking", "scales", "charts", "categories", "findings", "feature",
    "glance", "story", "quality", "segments", "for_whom", "compared", "together", "rows",
    "receipts", "python", "bar", "table", "csv", "address", "main",
)  # fmt: skip


def html(summary: dict[str, Any], story: str = "") -> str:
    """The page of a summary, as `losslens.page.summary` makes it, with its story as a page of its own."""
    import jinja2

    summary = with_minus(summary)
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    filters = {"short": short, "chance": chance, "breakable": breakable, "share": partial(share_in_words, digits=1)}
    environment.filters |= filters
    box = Box()
    tree = safe_json(packed(summary, box) | {"story": box.json(story) if story else None})
    scripts = {"theme": asset("theme.js"), "bokeh": bokeh_script(), "own": own_script()}
    return environment.get_template("page.html").render(
        summary=summary,
        leading=leading(summary),
        warned=any((feature["extrapolation"] or {"warns": False})["warns"] for feature in summary["features"]),
        shares=any(entry["sfimp"] is not None for feature in summary["features"] for entry in feature["models"]),
        policy=policy(list(scripts.values())),
        style=asset("style.css"),
        scripts=scripts,
        tree=tree,
        charts=safe_json(charts.document()),
        data=box.base64(),
    )


WRITTEN = {"words", "told", "sentence", "sentences", "rule", "contrast", "caution", "remark", "how"}  # keys of texts


def with_minus(tree: Any, written: bool = False) -> Any:
    """The summary with a minus sign, not a hyphen, before the numbers of its texts, as the script writes them."""
    if isinstance(tree, dict):
        return {key: with_minus(value, written or key in WRITTEN) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [with_minus(one, written) for one in tree]
    if not written or not isinstance(tree, str):
        return tree
    text = re.sub(r"(?<![^\s(“])-(?=\d)", "−", tree)
    if isinstance(tree, Sentence):
        text = Sentence(text)
        text.claim = tree.claim
    return text


def short(number: float | None, like: float | None = None) -> str:
    """A number within text: four digits, or as many decimals as `like` has so, or a dash where there is none."""
    return "–" if number is None or not np.isfinite(number) else in_digits(number, like).replace("-", "−")


def breakable(name: str) -> Markup:
    """A name that may break behind an underscore, a dot or a slash, rather than within a word."""
    return Markup(re.sub(r"(?<=[\w\d][_./])(?=\w)", "<wbr>", str(escape(name))))


def chance(p: float | None) -> str:
    """A p-value."""
    return "–" if p is None or not np.isfinite(p) else "< 0.0001" if p < 0.0001 else in_digits(p, digits=2)


def policy(scripts: list[str]) -> str:
    """Content security policy: these scripts and no others, no eval, and nothing is fetched."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")


@cache
def asset(name: str) -> str:
    """A file of `assets`."""
    return (files("losslens.page") / "assets" / name).read_text(encoding="utf-8")


@cache
def own_script() -> str:
    """The page's own script, inside one function: no names leak, nothing runs before all is loaded."""
    parts = "\n".join(asset(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


@cache
def bokeh_script() -> str:
    """BokehJS, without widgets, tables and WebGL."""
    import bokeh.util.paths

    path: Path = bokeh.util.paths.static_path() / "js" / "bokeh.min.js"
    return path.read_text(encoding="utf-8").replace("</script", "<\\/script")


def packed(summary: dict[str, Any], box: Box) -> dict[str, Any]:
    """The summary with its arrays in the box, each as small as its use allows."""
    table = dict(summary["table"])
    table["columns"] = [{**column, "values": _values(column["values"], box)} for column in table["columns"]]
    table["y"], table["index"] = _values(table["y"], box), _values(table["index"], box)
    table["weight"] = None if table["weight"] is None else box.put(np.asarray(table["weight"], dtype=np.float64))
    table["models"] = [
        {key: None if values is None else _measured(values, box) for key, values in model.items()}
        for model in table["models"]
    ]
    return {
        **summary,
        "table": table,
        "features": [_feature(feature, box, (summary["rounded"] or {}).get("step")) for feature in summary["features"]],
        "receipts": box.json(receipts(summary)),
        "blocks": _blocks(summary["blocks"], box),
        "rows": _rows(summary["rows"], box),
        "clusters": _clusters(summary["clusters"], box),
    }


def _blocks(joint: dict[str, Any] | None, box: Box) -> dict[str, Any] | None:
    return joint and joint | {"blocks": [one | {"local": box.fixed(one["local"])} for one in joint["blocks"]]}


def _rows(rows: dict[str, Any] | None, box: Box) -> dict[str, Any] | None:
    return None if rows is None else {**rows, "importance": box.fixed(rows["importance"])}


def _clusters(clusters: dict[str, Any] | None, box: Box) -> dict[str, Any] | None:
    return None if clusters is None else {**clusters, "labels": box.smallest(np.asarray(clusters["labels"]))}


def _values(values: Any, box: Box) -> Any:
    """Numbers as bytes; text as places in the list of its distinct values."""
    array = np.asarray(values)
    if array.dtype.kind in "biuf" and array.ndim:
        return box.smallest(array)
    texts = [None if value is None else str(value) for value in (values.tolist() if array is values else values)]
    levels = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return {"levels": list(levels), "codes": box.smallest(np.array([levels[text] for text in texts], dtype=np.int64))}


def _measured(values: Any, box: Box) -> Any:
    array = np.asarray(values)
    return box.put(array.astype(np.float32)) if array.dtype.kind == "f" else _values(values, box)


def _feature(feature: dict[str, Any], box: Box, step: float | None) -> dict[str, Any]:
    """A feature with its arrays packed into the box."""
    packed = dict(feature)
    if feature["values"] is not None:
        packed["values"] = _grid(feature["values"], box)
    if feature["labels"] is not None:
        packed["labels"] = box.json([str(label) for label in feature["labels"]])
    if feature["weights"] is not None:
        packed["weights"] = box.put(np.asarray(feature["weights"], dtype=np.float64))
    if feature["own"] is not None:
        packed["own"] = box.smallest(np.asarray(feature["own"]))
    packed["models"] = [_entry(entry, box, step) for entry in feature["models"]]
    return packed


def _grid(values: Any, box: Box) -> Any:
    array = np.asarray(values)
    return box.put(array.astype(np.float64)) if array.dtype.kind in "biuf" else [str(value) for value in values]


def _entry(entry: dict[str, Any], box: Box, step: float | None) -> dict[str, Any]:
    """A model's numbers of a feature. The mean of `local` is shown to many digits, ICE is only drawn."""
    local = box.fixed(entry["local"]) if step is None else box.stepped(entry["local"], step)
    packed = {**entry, "local": local}
    for key in ("pi", "pi_low", "pi_high", "pd", "pd_low", "pd_high"):
        if entry[key] is not None:
            packed[key] = box.put(np.asarray(entry[key], dtype=np.float32))
    if entry["pd_classes"] is not None:
        curves = entry["pd_classes"]
        packed["pd_classes"] = [None if pd is None else box.put(np.asarray(pd, dtype=np.float32)) for pd in curves]
    for key in ("ice", "cells"):
        packed[key] = None if entry[key] is None else {k: _part(key, k, v, box) for k, v in entry[key].items()}
    return packed


def _part(form: str, key: str, value: Any, box: Box) -> Any:
    """A part of the cells, or of the ICE curves, which have fewer digits than the importances."""
    if form == "ice" and key in ("values", "level"):
        return box.fixed(value, 16, differences=key == "values")
    kinds = {"values": np.float32, "row": np.int8, "scale": np.float64, "column": np.float32}
    return box.put(np.asarray(value, dtype=kinds[key])) if key in kinds else value
