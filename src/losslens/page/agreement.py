"""Whether a page agrees with itself: its sentences, marks and tables, as they are rendered.

The page is read as a browser reads it: its HTML, and the data in it that its script writes into tables. Sentences are
marked by the function that makes them (`data-claim`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from itertools import pairwise
from math import isfinite, nan
from typing import Any

from losslens.page.leading import leading, plain_of
from losslens.results.plain_error import PlainError, is_sure
from losslens.text import in_digits, rounded, share_in_words

EMPTY = ("area", "br", "col", "hr", "img", "input", "link", "meta")  # elements without an end
SHOWN = ("td", "th", "caption", "h1", "h2", "h3", "output", "dt")  # what stands in tables, tiles and headings
# Sentences that say how, or why not, and are themselves where their numbers stand.
METHOD = ("remark", "doubtful", "no_weak_segment", "far_from_real", "few_rows", "only_a_sample", "sentence_by")
ALWAYS = frozenset(["0", "1", "0%", "100%", "95%", "5%"])  # levels, and what needs no table
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?%?(?![\w])")
ROUNDING = 1e-6  # of numbers that are computed from each other
ENDS = (  # a number and its interval
    ("pfi", "low", "high"), ("sfimp", "sfimp_low", "sfimp_high"), ("error", "error_low", "error_high"),
    ("value", "low", "high"), ("base", "low", "high"), ("judged_error", "judged_low", "judged_high"),
    ("mean", "mean_low", "mean_high"), ("observed", "observed_low", "observed_high"), ("difference", "low", "high"),
)  # fmt: skip


@dataclass
class Element:
    """One element of a page."""

    tag: str
    attributes: dict[str, str]
    parts: list[Element | str] = field(default_factory=list)

    def all(self, *tags: str) -> Iterator[Element]:
        """The elements within, in order; only those with one of these tags, if there are any."""
        for part in self.parts:
            if isinstance(part, Element):
                if not tags or part.tag in tags:
                    yield part
                yield from part.all(*tags)

    @property
    def text(self) -> str:
        """All text within."""
        inner = "".join(part if isinstance(part, str) else part.text for part in self.parts)
        return " ".join(inner.split())

    def marked(self, name: str, value: str) -> Element | None:
        """The first element within with an attribute of this value."""
        return next((one for one in self.all() if value in one.attributes.get(name, "").split()), None)


class _Elements(HTMLParser):
    """The elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].parts.append(element)
        if tag not in EMPTY:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].parts.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in (element.tag for element in self._open):
            while self._open.pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        self._open[-1].parts.append(data)


@dataclass(frozen=True, eq=False)
class Rendered:
    """A page as it is read."""

    root: Element
    data: dict[str, Any]  # what its script draws

    @classmethod
    def of(cls, html: str) -> Rendered:
        """The page of this HTML."""
        reader = _Elements()
        reader.feed(html)
        data = reader.root.marked("id", "summary")
        return cls(reader.root, json.loads(data.text if data else "{}"))

    @cached_property
    def sentences(self) -> list[tuple[str, str]]:
        """Sentences with the names of the functions that made them; those that the script writes have none."""
        made = [(one.attributes["data-claim"], one.text) for one in self.root.all() if "data-claim" in one.attributes]
        by_script = [
            text for model in self.data["models"] if model["quality"] for text in model["quality"]["sentences"]
        ]
        by_script += [text for one in self.data["features"] if one["regions"] for text in one["regions"]["sentences"]]
        return made + [("", text) for text in by_script]

    def said(self, *claims: str) -> list[str]:
        """The sentences of these functions."""
        return [text for claim, text in self.sentences if claim in claims]

    @cached_property
    def ranked(self) -> list[dict[str, Any]]:
        """The features in the order of the first screen: by the score, if there is one."""
        found: list[dict[str, Any]] = (self.data["score"] or self.data)["features"]
        return found

    def is_sure(self, feature: dict[str, Any]) -> bool:
        """Whether a feature surely matters, by its numbers in the table of the page."""
        return is_sure(feature["models"][0]["p"], feature["models"][0]["low"])

    @cached_property
    def names(self) -> list[str]:
        """All names of the page that may hold digits, the longest first."""
        data, groups = self.data, self.data["for_whom"] or {"groups": [], "column": ""}
        rules = [one["rule"] for one in (data["segments"] or {"segments": []})["segments"]]
        rules += [region["rule"] for one in data["features"] for region in (one["regions"] or {"tree": []})["tree"]]
        labels = [one["label"] for one in groups["groups"]] + list(data["target"]["classes"] or [])
        found = {
            *rules, *labels, groups["column"], data["title"], data["target"]["name"], data["loss"]["title"],
            *(one["name"] for one in data["features"]), *(one["name"] for one in data["models"]),
            *(one["name"] for one in data["table"]["columns"]),
        }  # fmt: skip
        return sorted(filter(None, found), key=len, reverse=True)

    def named(self, text: str) -> list[str]:
        """The features that a sentence names, in order."""
        found, features = [], {one["name"] for one in self.ranked}
        for name in self.names:
            found += [(match.start(), name) for match in re.finditer(_as_a_word(name), text)]
            text = re.sub(_as_a_word(name), lambda match: "·" * len(match.group()), text)
        return [name for _, name in sorted(found) if name in features]

    def numbers(self, text: str) -> set[str]:
        """The numbers in a text that are no part of a name."""
        for name in self.names:
            text = re.sub(_as_a_word(name), "·", text)
        return numbers_in(re.sub(r"(?<![\d.,])\d+ (?:more|rarer)\b|The clearest \d+ of", "", text))


def _as_a_word(name: str) -> str:
    return rf"(?<![\w.,]){re.escape(name)}(?!\w|%|[.,]\d)"


def numbers_in(text: str) -> set[str]:
    """The numbers of a text as they are written, without signs and thousands' commas.

    >>> sorted(numbers_in("1,234.50 in x2, −3% and 1.20e-7 (95%)."))
    ['1.2e-07', '1234.50', '3%', '95%']
    """
    found = {token.strip(",").replace(",", "") for token in NUMBER.findall(text)}
    return {f"{float(token):.4g}" if "e" in token else token for token in found}


def contradictions(html: str) -> list[str]:
    """What of the page doesn't agree, one text each; none where all does."""
    page = Rendered.of(html)
    return [text for rule in RULES for text in rule(page)]


# Numbers.


def numbers_of_sentences(page: Rendered) -> Iterator[str]:
    """Every number in a sentence stands in a table, a tile or a heading, and equals it as shown."""
    shown = numbers_in(" ".join(one.text for one in page.root.all(*SHOWN) if "data-claim" not in one.attributes))
    shown |= numbers_in(" ".join(by_script(page.data))) | ALWAYS
    for claim, text in page.sentences:
        missing = set() if claim in METHOD or (claim.startswith(("how_", "about_")) and claim != "how_well") else (
            page.numbers(text) - shown
        )  # fmt: skip
        if missing:
            yield f"{', '.join(sorted(missing))} of a sentence stands in no table: {text}"


def own_numbers(page: Rendered) -> Iterator[str]:
    """A sentence has the numbers of that which it names, not of something else in a table."""
    model, features = page.data["models"][0], page.data["features"]
    entries = {one["name"]: one["models"][0] for one in features}
    far = {one["name"]: (one["extrapolation"] or {}).get("percent") for one in features}
    pairs = (page.data["interactions"] or {"pairs": []})["pairs"]
    plain, ends = _teller(page.data, model), _ends(model, "error_low", "error_high")
    for claim, text in page.sentences:
        names, expected = page.named(text), list[str]()
        if claim == "headline":
            expected = [f" is {plain.level(model['error'], *ends)}"]
        elif claim == "from_other_rows":
            expected = [f" is {plain.level(model['error_none'], *ends)}"]
        elif claim == "largest_shares":
            expected = [f"{name} ({share_in_words(entries[name]['share'], 1)})" for name in names]
        elif claim == "negative_shares":
            expected = [f"{name}, of which the share is below 0" for name in names if entries[name]["sfimp"] >= 0]
        elif claim == "hardly_occurring":
            expected = [f"{name} {far[name]}" for name in names]
        elif claim == "goes_together":
            of = [one for one in (page.data["blocks"] or {"blocks": []})["blocks"] if {*names} <= {*one["features"]}]
            expected = [f" to {of[0]['text']}", of[0]["words"]] if of else ["a block of the table"]
        elif claim == "works_together":
            found = [one for one in pairs if [one["first"], one["second"]] == names[:2]]
            only = page.data | {"interactions": page.data["interactions"] | {"pairs": found}}
            expected = list(_pairs(only)) or [" ".join(names)]
        elif claim == "error_is_larger":
            weak = (page.data["segments"] or {"segments": []})["segments"]
            expected = [
                f"{one['n']:,} rows), the {plain.name} is {plain.level(one['error'], *held)}, against"
                for one in weak if text.startswith(f"Where {one['rule']} (")
                for held in [_ends(one, "judged_low", "judged_high")]
            ] or ["a rule of the table"]  # fmt: skip
        yield from (f"“{part}” is what the table says, not: {text}" for part in expected if part not in text)


def by_script(data: dict[str, Any]) -> Iterator[str]:
    """The cells of tables and tiles that the script writes, as `assets` does: mean losses in the reader's unit."""
    yield from (f"{data[key]:,}" for key in ("n", "n_explained", "n_given"))
    yield f"{len(data['features']):,}"
    tellers = [_teller(data, model) for model in data["models"]]
    for model, plain in zip(data["models"], tellers, strict=True):
        ends = _ends(model, "error_low", "error_high")
        quality = model["quality"] or {}
        losses = [model["error"], model["error_none"], (quality.get("constant") or {}).get("error")]
        yield from (plain.level(loss, *ends) for loss in losses if loss is not None)
        yield from [plain.between(*ends)] if isfinite(sum(ends)) else []
        if quality.get("bound") and quality["bound"]["without"] is not None:
            yield plain.level(quality["bound"]["without"])
        yield from _of_quality(model["quality"])
    for feature in data["features"]:
        far = feature["extrapolation"]
        yield far["percent"] if far and far["warns"] else ""
        for entry, plain in zip(feature["models"], tellers, strict=True):
            yield from _replaced(plain, plain.error, entry)
            yield from [] if entry["share"] is None else [share_in_words(entry["share"], 1)]
        for region in (feature["regions"] or {"tree": []})["tree"]:
            yield f"{region['n']:,} {region['contrast']} {tellers[0].level(region['error'])}"
            yield from _replaced(tellers[0], region["error"], region)
    yield from _pairs(data)
    for one in (data["segments"] or {"segments": []})["segments"]:
        ends = _ends(one, "judged_low", "judged_high")
        yield f"{one['n']:,} {one['judged']:,} {tellers[0].between(*ends)}"
        for key in ("error", "other", "judged_error", "judged_other"):
            yield tellers[0].level(one[key], *ends)
    for model, plain in zip((data["for_whom"] or {"models": []})["models"], tellers, strict=False):
        for group in model["groups"]:
            yield plain.level(group["error"], *_ends(group, "low", "high"))


def _teller(data: dict[str, Any], model: dict[str, Any]) -> PlainError:
    return PlainError(data["loss"]["told_as"], data["loss"]["title"], model["error"])


def _ends(one: dict[str, Any], *keys: str, base: float = 0.0) -> tuple[float, float]:
    low, high = (nan if one[key] is None else base + one[key] for key in keys)
    return low, high


def _replaced(plain: PlainError, base: float, one: dict[str, Any]) -> Iterator[str]:
    """A mean loss with a feature replaced, and its interval."""
    ends = _ends(one, "low", "high", base=base)
    yield from [] if one["pfi"] is None else [plain.level(base + one["pfi"], *ends)]
    yield from [plain.between(*ends)] if isfinite(sum(ends)) else []


def _pairs(data: dict[str, Any]) -> Iterator[str]:
    """Interactions: of what all features achieve, where they are by the same loss."""
    found, model = data["interactions"] or {"pairs": [], "by": ""}, data["models"][0]
    total = 0.0 if found["by"] or model["error_none"] is None else model["error_none"] - model["error"]
    for one in found["pairs"]:
        numbers = [one[key] for key in ("value", "low", "high") if one[key] is not None]
        for number in numbers:
            yield share_in_words(number / total, 1) if total > 0 else rounded(number, *numbers[1:])


def _of_quality(quality: dict[str, Any] | None) -> Iterator[str]:
    if quality is None:
        return
    if bound := quality["bound"]:
        yield f"{bound['rows']:,} {bound['n']:,} {in_digits(bound['bound'])}"
    if quality["score"] and quality["score"]["base"] is not None:
        yield f"{quality['score']['text']} {quality['score']['base_text']}"
    for one in quality["residuals"] or []:
        yield from (in_digits(one[key], digits=3) for key in ("low", "high", "mean"))
    for curve in quality["calibration"] or []:
        for one in curve["ranges"]:
            yield from (share_in_words(one[key], 1) for key in ("low", "high", "observed", "predicted"))


def outputs(page: Rendered) -> Iterator[str]:
    """A number of the HTML is what its text says, to the digits of the text; the script's have losses behind them."""
    for one in page.root.all("output"):
        if not one.attributes.get("data-name", "").startswith(("leading-", "score-")):
            continue
        value, text = one.attributes.get("data-value", ""), one.text.replace("−", "-").replace(",", "")
        found = re.match(r"(-?\d+(?:\.(\d+))?)(%|×)?$", text)
        if not value or not found or not isfinite(float(value)):
            continue
        size = 100 if found[3] == "%" else 1
        step = 10.0 ** -len(found[2] or "") / size
        if abs(float(found[1]) / size - float(value)) > 0.501 * step:
            yield f"{one.attributes.get('data-name')}: {one.text} is shown for {value}"


def intervals(page: Rendered) -> Iterator[str]:
    """A number lies in its interval."""
    for one in _dicts({key: page.data[key] for key in PARTS}):
        for value, low, high in ENDS:
            numbers = [one.get(key) for key in (value, low, high)]
            if value == "base" and "value" in one:  # of the most frequent class
                continue
            if all(isinstance(number, (int, float)) and isfinite(number) for number in numbers):
                middle, start, end = map(float, numbers)  # type: ignore[arg-type]
                slack = ROUNDING * max(abs(start), abs(end))
                if not start - slack <= middle <= end + slack:
                    yield f"{value} {in_digits(middle)} is not in its interval, {in_digits(start)} to {in_digits(end)}"


PARTS = ("models", "score", "compared", "for_whom", "segments", "features", "interactions")


def _dicts(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _dicts(part)


def differences(page: Rendered) -> Iterator[str]:
    """A difference is that of the numbers beside it, a share that of its sum, a skill that of its errors."""
    data = page.data
    models, entries = data["models"], [[entry["pfi"] for entry in one["models"]] for one in data["features"]]
    for one in (data["compared"] or {"differences": []})["differences"]:
        first, second = one["first"], one["second"]
        yield from _differing(one["error"], models[first]["error"], models[second]["error"], "the errors of two models")
        for numbers, found in zip(entries, one["importances"], strict=True):
            yield from _differing(found, numbers[first], numbers[second], "the importances to two models")
    for model in (data["for_whom"] or {"models": []})["models"]:
        for one in model["differences"]:
            a, b = (model["groups"][one[key]] for key in ("first", "second"))
            yield from _differing(one["error"], a["error"], b["error"], "the errors of two groups")
            for found, x, y in zip(one["importances"], a["importances"], b["importances"], strict=True):
                yield from _differing(found, x["pfi"], y["pfi"], "the importances in two groups")
    for m, model in enumerate(models):
        if model["skill"] is not None and model["error_constant"]:
            skill = 1 - model["error"] / model["error_constant"]
            if abs(skill - model["skill"]) > ROUNDING * max(1, abs(skill)):
                yield f"the error of {model['name']} is not smaller by {share_in_words(model['skill'], 1)}"
        total = None if model["error_none"] is None else model["error_none"] - model["error"]
        for feature in data["features"]:
            entry = feature["models"][m]
            if total and entry["share"] is not None and abs(entry["sfimp"] / total - entry["share"]) > 1e-3:
                yield f"the share of {feature['name']} is not that of its SFIMP"


def _differing(one: dict[str, Any], first: float, second: float, of: str) -> Iterator[str]:
    value = one["value"]
    if None in (value, first, second) or not all(map(isfinite, (value, first, second))):
        return
    if abs(value - (first - second)) > ROUNDING * max(abs(first), abs(second), abs(value)):
        yield f"{in_digits(value)} is said to be the difference of {of}, {in_digits(first)} and {in_digits(second)}"


# Marks, and what is said of the features.


def first_screen(page: Rendered) -> Iterator[str]:
    """The picture has the numbers, intervals, places and marks of the table of importances, in its order."""
    table, expected = page.root.marked("class", "leading"), leading(page.data)
    if table is None:
        return
    rows = [row for body in table.all("tbody") for row in body.all("tr")]
    if [one["name"] for one in expected["rows"]] != [row.attributes["data-name"] for row in rows]:
        yield "the picture of the first screen has other features than the table, or another order"
        return
    caption = next(table.all("caption")).text
    if not caption.startswith(expected["measure"]):
        yield f"the picture is of {caption}, and the page of {expected['measure']}"
    for one, row in zip(expected["rows"], rows, strict=True):
        cells = [cell.text for cell in row.all("td") if "number" in cell.attributes.get("class", "")]
        if cells != [one["text"], one["between"]]:
            yield f"{one['name']}: the picture says {' '.join(cells)}, its table {one['text']} {one['between']}"
        mark = next(row.all("circle")).attributes
        if mark.get("class") != ("sure" if one["sure"] else "unsure"):
            numbers = f"its p-value {one['p']}, its interval {one['between']}"
            yield f"the mark of {one['name']} is {mark.get('class')}, {numbers}"
        if mark.get("cx") != one["at"]["value"]:
            yield f"the mark of {one['name']} is at {mark.get('cx')}, its number at {one['at']['value']}"


def verdicts(page: Rendered) -> Iterator[str]:
    """What sentences say of features is what their p-values say, of all features together."""
    sure = {one["name"] for one in page.ranked if page.is_sure(one)}
    best, pfi = page.ranked[0]["name"], [one["models"][0]["pfi"] for one in page.ranked]
    if any(a < b for a, b in pairwise(pfi) if a is not None and b is not None):
        yield "features are not in the order of their importances"
    grown = plain_of(page.data).grown(pfi[0]) if pfi[0] is not None else ""
    for text in page.said("leads_surely", "leads_here", "no_single_feature", "one_feature"):
        if page.named(text)[:1] != [best]:
            yield f"{best} is first in the table, but not in: {text}"
        if grown not in text:
            yield f"“{grown}” is what the table says, not: {text}"
    for text in page.said("leads_surely"):
        yield from [] if best in sure else [f"p of {best} is above 5%: {text}"]
    for text in page.said("leads_here", "one_feature"):
        if ("may make no difference" in text) == (best in sure) and "not known" not in text:
            yield f"{best} is {'sure' if best in sure else 'not sure'} by the table: {text}"
    for text in page.said("no_single_feature"):
        yield from [f"{', '.join(sorted(sure))} surely matter by the table: {text}"] if sure else []
    for text in page.said("nothing_matters"):
        yield from [f"{best} has an importance above 0: {text}"] if pfi[0] and pfi[0] > 0 else []
    for text in page.said("surely_matter"):
        wrong = set(page.named(text)) - sure
        yield from [f"{', '.join(sorted(wrong))} may not matter by the table: {text}"] if wrong else []
    for text in page.said("uncertain"):
        wrong = set(page.named(text)) & sure
        yield from [f"{', '.join(sorted(wrong))} surely matter by the table: {text}"] if wrong else []


def comparisons(page: Rendered) -> Iterator[str]:
    """What is said of the model beside the simplest alternative holds of the numbers as they are shown."""
    data = page.data
    own, other, falls = data["told"]["texts"][0], data["told"]["number"], _larger_is_better(data)
    gap = _value(own) - _value(other) if data["told"]["alternative"] else 0.0
    better = gap > 0 if falls else gap < 0
    for text in page.said("how_well"):
        if own not in text:
            yield f"the table says {own}, not: {text}"
        if ("more often" in text or "less than the model" in text) and (better or not gap):
            yield f"the table says {own} and {other}, not: {text}"
        if text.endswith((" too.", " as well.")) and abs(gap) > 0.01 * abs(_value(own)):
            yield f"the table says {own} and {other}, not: {text}"
    constant = (data["models"][0]["quality"] or {}).get("constant") if data["score"] is None else None
    if constant is None:
        return
    surely, predicts = constant["high"] is not None and constant["high"] < 0, constant["predicts"]
    for text in page.said("no_better"):
        if surely and text.startswith("On new rows"):
            yield f"the model is surely better than always predicting {predicts}, not: {text}"
    for text in page.said("no_single_feature", "nothing_matters"):
        if "surely does better" in text and not surely:
            yield f"the model is not surely better than always predicting {predicts}: {text}"


def _larger_is_better(data: dict[str, Any]) -> bool:
    if data["score"] is not None:
        return bool(data["score"]["told_as"] == "score")
    return bool(data["told"]["measure"].startswith("Share of rows with the right"))


def _value(text: str) -> float:
    found = re.search(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", text)
    return float(found[0].replace(",", "")) if found else float("nan")


def criteria(page: Rendered) -> Iterator[str]:
    """The first screen speaks of one criterion; a section by another one says which."""
    data = page.data
    told = f"Errors here are measured by the {data['loss']['title']}."
    for one in page.root.all("p"):
        if one.text.startswith("Errors here are measured by") and one.text != told:
            yield f"{one.text} The page's error is the {data['loss']['title']}"
    for text in page.said("how_well"):
        if data["score"] is not None and data["score"]["name"] not in text:
            yield f"the page is by {data['score']['name']}: {text}"
        if f"{data['n_explained']:,} " not in text:
            yield f"the page is about {data['n_explained']:,} rows: {text}"


RULES = (
    numbers_of_sentences,
    own_numbers,
    outputs,
    intervals,
    differences,
    first_screen,
    verdicts,
    comparisons,
    criteria,
)
