"""Receipts: behind each sentence of the page its numbers, the test, the rows, and the Python that gives the same.

A receipt's lines run where `model`, `X` and `y` are those of the report, and each gives the number behind its #.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from losslens.results.plain_error import LEVEL, PlainError, is_sure
from losslens.text import CLAIMS, Sentence

MOST = 8  # numbers of a receipt
HOLM = "one-sided t test of an importance of 0 or less, adjusted for all features by Holm's method"
TESTS = {
    "leads_surely": "simultaneous 95% intervals of the ranks of all features",
    "leads_here": f"{HOLM}; simultaneous 95% intervals of ranks",
    "nothing_matters": "95% interval of the paired difference to the simplest alternative",
    "shrinks": "95% intervals of all features together (Bonferroni)",
    "goes_together": "paired t tests of the joint importance against the sum and each member, Holm over all blocks",
    "errors_differ": "95% intervals of the differences of all pairs of groups together (Bonferroni)",
    "error_is_larger": "permutation test on the half of the rows that did not choose the rule, for all rules together",
    "region": "t test by leave-one-out, multiplied by the number of features",
    "works_together": "two-sided t tests, adjusted for all pairs by Holm's method",
    "hardly_occurring": "a cross-fitted classifier tells shuffled rows from real ones",
    "far_from_real": "a cross-fitted classifier tells shuffled rows from real ones",
    "worse_than_constant": "95% interval of the paired difference of the errors",
    "no_better": "95% interval of the paired difference to the simplest alternative",
    "smallest_error": "paired 95% intervals for all pairs of models together (Bonferroni)",
    "smallest_is_uncertain": "paired 95% intervals for all pairs of models together (Bonferroni)",
    "off_in_a_range": "95% intervals of the mean residuals of all ranges together (Bonferroni)",
    "misses_a_probability": "95% intervals of the frequencies of all ranges together (Bonferroni)",
} | dict.fromkeys(("one_feature", "no_single_feature", "surely_matter", "uncertain"), HOLM)
Number = tuple[str, str, Any]  # what it is, the expression, its value


@dataclass(frozen=True, eq=False)
class Page:
    """A summary as receipts read it."""

    summary: dict[str, Any]

    @property
    def calls(self) -> dict[str, str]:
        """`python_calls` of the report."""
        calls: dict[str, str] = self.summary["calls"]
        return calls

    @property
    def head(self) -> dict[str, Any]:
        """The first model."""
        model: dict[str, Any] = self.summary["models"][0]
        return model

    @property
    def of(self) -> str:
        """The importances by the loss."""
        return "imp" if self.summary["score"] is None else "by_loss"

    @property
    def ranked(self) -> list[tuple[str, dict[str, Any]]]:
        """Names and numbers of the features by the score, if there is one."""
        return [(one["name"], one["models"][0]) for one in (self.summary["score"] or self.summary)["features"]]

    def error(self, name: str, expression: str, value: float | None) -> Number:
        """A mean loss in the reader's unit."""
        loss, base = self.summary["loss"], self.head["error"]
        plain = PlainError(loss["told_as"], loss["title"], base)
        inner = f"({expression})" if " " in expression else expression
        written = {"root": f"{inner} ** 0.5", "typical": f"np.exp(-({expression}))"}.get(plain.kind, expression)
        if plain.times:
            written = f"{inner} / {self.of}.error"
        return f"{plain.name} {name}", written, None if value is None else plain.after(value - base)

    def shuffled(self, name: str, pfi: float) -> Number:
        """The error, or the score, with one feature shuffled."""
        score = self.summary["score"]
        if score is None:
            return self.error(f"with {name} shuffled", f"imp.error + imp[{name!r}].pfi", self.head["error"] + pfi)
        sign = "-" if score["told_as"] == "score" else "+"
        base = score["models"][0]["base"]
        value = base - pfi if sign == "-" else base + pfi
        return f"{score['name']} with {name} shuffled", f"imp.base {sign} imp[{name!r}].pfi", value

    def now(self) -> Number:
        """The error, or the score, as it is."""
        score = self.summary["score"]
        if score is None:
            return self.error("as it is", "imp.error", self.head["error"])
        return f"{score['name']} as it is", "imp.base", score["models"][0]["base"]


def python_calls(
    of: Mapping[str, Any], *, loss: str, scorer: str, seed: int, rows: str, blocks: Any, weak: bool, pairs: str,
    right: bool,
) -> dict[str, str]:  # fmt: skip
    """The calls of Python that give the results of a report, by the names of their results, each after those it needs.

    Parameters
    ----------
    of
        The arguments of the report, of which those that were given are passed on under their own names.
    loss, scorer
        The loss, and the scorer where there is one, as they are written.
    rows
        How a sample of the rows is taken: an index of X; empty where all rows are explained.
    blocks, weak, pairs
        The blocks that were replaced together; whether all columns and rows were searched for weak segments; the
        further arguments of `pair_interactions`.
    right
        Whether the model has a `predict` that answers with classes.
    """
    some = [name for name in ("features", "sample_weight") if of[name] is not None]
    options = "".join(f", {name}={name}" for name in some)
    weight = ", sample_weight=sample_weight" if "sample_weight" in some else ""
    first, seeded = "by_loss" if scorer else "imp", f"random_state={seed}"
    lines: dict[str, str] = {}
    if rows:
        lines["X"] = rows
    call = f"ll.feature_importance(model, X, y, loss={{}}{options}, {seeded})"
    lines["imp"] = f"imp = {call.format(scorer or loss)}"
    if scorer:
        lines["by_loss"] = f"by_loss = {call.format(loss)}"
    if of["models"]:
        others = f"others = {{name: {call.format(scorer or loss)} for name, model in models.items()}}"
        lines["others"] = others
    lines["p"] = 'p = dict(zip(imp.test()["feature"], imp.test()["p_adjusted"]))'
    lines["shares"] = f"shares = ll.shapley_importance(model, X, y, loss={loss}{options}, {seeded})"
    lines["rows"] = f"rows = shares.rank_rows({first})"
    lines["clusters"] = f"clusters = shares.clusters(X, {seeded})"
    lines["regions"] = f"regions = {first}.regions(X)"
    if weak:
        lines["weak"] = f"weak = ll.weak_segments(model, X, y, loss={loss}{weight})"
    if blocks:
        lines["together"] = f"together = {first}.together(model, X, y, blocks={blocks!r}, {seeded})"
    if pairs:
        lines["pairs"] = f"pairs = ll.pair_interactions(model, X, y, loss={loss}{weight}, {pairs}, {seeded})"
    lines["f"] = f"f = np.asarray(model{'.predict' if right else ''}(X), float)"
    if right:
        answers = "model.predict(X) == np.asarray(y)"
        lines["right"] = f"np.average({answers}, weights=sample_weight)" if weight else f"np.mean({answers})"
    return lines


def receipts(summary: dict[str, Any]) -> dict[str, Any]:
    """A receipt for each sentence of the summary, by its text."""
    page = Page(summary)
    behind: dict[str, Any] = {}
    for sentence in sentences(summary):
        name, text = sentence.claim, str(sentence)
        numbers = [one for one in NUMBERS[name](page, text) if _is_number(one[2])][:MOST] if name in NUMBERS else []
        behind[text] = {
            "numbers": [[what, float(value)] for what, _, value in numbers],
            "test": TESTS.get(name, ""),
            "level": CLAIMS.get(name, 0),
            "rows": summary["n_explained"],
            "python": in_python(page.calls, numbers, RESULTS.get(name, "imp")),
        }
    return behind


def _is_number(value: Any) -> bool:
    return value is not None and bool(np.isfinite(value))


def sentences(tree: Any) -> Iterator[Sentence]:
    """All sentences of a summary that a function has made."""
    if isinstance(tree, Sentence):
        if tree:
            yield tree
    elif isinstance(tree, dict):
        for part in tree.values():
            yield from sentences(part)
    elif isinstance(tree, (list, tuple)):
        for part in tree:
            yield from sentences(part)


def in_python(calls: Mapping[str, str], numbers: list[Number], result: str = "imp") -> str:
    """The calls that the expressions need, and one line a number."""
    text, needed = " ".join(expression for _, expression, _ in numbers) or result, list[str]()
    for name, line in reversed([*calls.items()]):  # each may need those before it
        if name in _words(text):
            needed.insert(0, line)
            text += f" {line}"
    lines = [f"{expression}  # {float(value):.6g}" for _, expression, value in numbers]
    return "\n".join(["import numpy as np, losslens as ll", *needed, *lines])


def _words(text: str) -> set[str]:
    return {*"".join(letter if letter.isalnum() or letter == "_" else " " for letter in text).split()}


# The numbers of each sentence.


def _p(page: Page, names: list[str]) -> list[Number]:
    entries = dict(page.ranked)
    return [(f"p of {name}", f"p[{name!r}]", entries[name]["p"]) for name in names]


def _leader(page: Page, _: str) -> list[Number]:
    name, one = page.ranked[0]
    return [page.now(), page.shuffled(name, one["pfi"]), *_p(page, [name])]


def _tested(page: Page, *, sure: bool) -> list[Number]:
    return _p(
        page, [name for name, one in page.ranked if _is_number(one["p"]) and is_sure(one["p"], one["low"]) == sure]
    )


def _how_well(page: Page, _: str) -> list[Number]:
    score, models = page.summary["score"], page.summary["models"]
    if score is not None:
        others = [(one["name"], f"others[{one['name']!r}].base", one["base"]) for one in score["models"][1:]]
        return [page.now(), *others]
    right = (page.head["quality"] or {}).get("score")
    if right and right["base"] is not None:
        if "right" not in page.calls:
            return []
        named = [(one["name"], one["quality"]["score"]["value"]) for one in models[1:]]
        others = [(name, page.calls["right"].replace("model.", f"models[{name!r}]."), value) for name, value in named]
        return [("share of right answers", page.calls["right"], right["value"]), *others]
    others = [page.error(f"of {one['name']}", f"others[{one['name']!r}].error", one["error"]) for one in models[1:]]
    constant = page.error("of the best constant", "imp.error_constant", page.head["error_constant"])
    return [page.now(), *others, constant]


def _headline(page: Page, _: str) -> list[Number]:
    head, of = page.head, page.of
    return [
        page.error("as it is", f"{of}.error", head["error"]),
        page.error("of the best constant", f"{of}.error_constant", head["error_constant"]),
    ]


def _from_other_rows(page: Page, _: str) -> list[Number]:
    return [page.error("with all features from other rows", "shares.error_none", page.head["error_none"])]


def _shares(page: Page, _: str) -> list[Number]:
    numbers = [(one["name"], one["models"][0]["share"]) for one in page.summary["features"]]
    numbers.sort(key=lambda one: -(one[1] or 0))
    of = "dict(zip(shares.features, shares.share))"
    return [(f"share of {name}", f"{of}[{name!r}]", share) for name, share in numbers]


def _importances(page: Page, _: str) -> list[Number]:
    numbers = sorted(page.ranked, key=lambda one: one[1]["pfi"])
    return [(f"importance of {name}", f"imp[{name!r}].pfi", one["pfi"]) for name, one in numbers if one["pfi"] <= 0]


def _together(page: Page, text: str) -> list[Number]:
    behind, error = page.summary["blocks"]["blocks"], page.head["error"]
    one = next((one for one in behind if f" to {one['text']}" in text and one["words"] in text), None)
    if one is None:
        return []
    joint = f"together[{one['key']!r}]"
    return [
        page.error("with all of them shuffled", f"{page.of}.error + {joint}.importance", error + one["pfi"]),
        page.error(
            f"with {one['largest']} shuffled", f"{page.of}.error + {joint}.largest.value", error + one["largest_pfi"]
        ),
        ("p", f"{joint}.p", one["p"]),
    ]


def _unreal(page: Page, text: str) -> list[Number]:
    far = [(one["name"], one["extrapolation"]) for one in page.summary["features"]]
    some = [(name, one) for name, one in far if one is not None and one["warns"]]
    some = [(name, one) for name, one in some if one["sentence"] == text] or some
    some.sort(key=lambda pair: -pair[1]["share"])
    of = f"{page.of}[{{!r}}].extrapolation.share"
    return [(f"unrealistic rows, {name}", of.format(name), one["share"]) for name, one in some]


def _region(page: Page, text: str) -> list[Number]:
    for feature in page.summary["features"]:
        regions = feature["regions"]
        if regions is not None and text in regions["sentences"]:
            rule = "[r for r in regions.regions if (r.feature, r.rule) == ({!r}, {!r})][0].{}"
            return [
                (f"{key} where {one['rule']}", rule.format(feature["name"], one["rule"], key), one[key])
                for one in regions["tree"] if one["depth"] == 1 for key in ("pfi", "p")
            ]  # fmt: skip
    return []


def _segment(page: Page, text: str) -> list[Number]:
    if "weak" not in page.calls:
        return []
    behind = enumerate(page.summary["segments"]["segments"])
    keys = {"error": "error", "judged_error": "of the held-out rows", "p": "p"}
    return [
        (f"p, rule {k + 1}", f"weak.segments[{k}].p", one["p"]) if key == "p"
        else page.error(words if key != "error" else "of these rows", f"weak.segments[{k}].{key}", one[key])
        for k, one in behind if one["sentence"] == text for key, words in keys.items()
    ]  # fmt: skip


def _pair(page: Page, _: str) -> list[Number]:
    pairs = page.summary["interactions"]
    best = next(one for one in pairs["pairs"] if one["p"] <= LEVEL and one["value"] > 0)
    j, k = (pairs["features"].index(best[key]) for key in ("first", "second"))
    of = "pairs.interaction"
    return [("interaction", f"{of}.index[{j}, {k}]", best["value"]), ("p", f"{of}.p_adjusted[{j}, {k}]", best["p"])]


def _rows(page: Page, _: str) -> list[Number]:
    rows = page.summary["rows"]
    return [
        ("rows with a smaller loss", "((rows.importance > 0) & (rows.weight > 0)).sum()", rows["helped"]),
        ("rows with a larger loss", "((rows.importance < 0) & (rows.weight > 0)).sum()", rows["hurt"]),
        ("rows that stand out", "len(rows.flagged)", rows["n_suspicious"]),
    ]


def _clusters(page: Page, _: str) -> list[Number]:
    behind = page.summary["clusters"]
    stability = ("stability", "clusters.stability", behind["stability"])
    return [("clusters", "clusters.k", len(behind["clusters"])), stability]


def _baseline(page: Page, _: str) -> list[Number]:
    if page.summary["score"] is not None:
        return [page.now()]
    return _headline(page, _)


def _models(page: Page, _: str) -> list[Number]:
    names = [one["name"] for one in page.summary["models"]]
    score = page.summary["score"]
    base = [one["base"] for one in score["models"]] if score else [one["error"] for one in page.summary["models"]]
    lines = ["imp.base", *(f"others[{name!r}].base" for name in names[1:])]
    return [(name, line, value) for name, line, value in zip(names, lines, base, strict=True)]


def _worse(page: Page, text: str) -> list[Number]:
    for one in page.summary["models"]:
        if text in (one["quality"] or {"sentences": []})["sentences"]:
            of = page.of if one is page.head else f"others[{one['name']!r}]"
            constant = page.error("of the best constant", f"{of}.error_constant", one["error_constant"])
            return [page.error(f"of {one['name']}", f"{of}.error", one["error"]), constant]
    return []


def _off(page: Page, text: str) -> list[Number]:
    of = next(
        (one for one in page.summary["models"] if text in (one["quality"] or {"sentences": []})["sentences"]), None
    )
    if of is None or "sample_weight=" in page.calls["imp"]:
        return []
    worst = max((one for one in of["quality"]["residuals"] if one["off"]), key=lambda one: abs(one["mean"]))
    other = page.calls["f"].partition(" = ")[2].replace("(model", f"(models[{of['name']!r}]")
    f = "f" if of is page.head else other
    inside = f"({f} >= {worst['low']!r}) & ({f} <= {worst['high']!r})"
    return [("mean of the target less the prediction", f"(np.asarray(y) - {f})[{inside}].mean()", worst["mean"])]


def _groups(page: Page, text: str) -> list[Number]:
    summary, written = page.summary, page.summary["python"]
    behind, columns = summary["for_whom"], [one["name"] for one in summary["table"]["columns"]]
    numbers = []
    for group, one in zip(behind["groups"], behind["models"][0]["groups"], strict=True):
        if written is None or f" is {group['label']}," not in text or not group["conditions"]:
            continue
        condition = group["conditions"][0]
        place = written["columns"][columns.index(condition["column"])]
        inside = _mask(condition, f"np.asarray({place['of']})", dict(place.get("literals") or []))
        if not place.get("as_text"):
            what = f"where {condition['column']} is {group['label']}"
            numbers.append(page.error(what, f"{page.of}.given({inside}).error", one["error"]))
    return numbers


def _mask(condition: dict[str, Any], column: str, literals: Mapping[str, str]) -> str:
    """The rows of a condition, as Python."""
    if "chosen" in condition:
        values = ", ".join(literals.get(text, repr(text)) for text in condition["chosen"])
        return f"np.isin({column}, [{values}])"
    ends = [("low", ">="), ("high", "<=")]
    parts = [f"({column} {sign} {condition[end]!r})" for end, sign in ends if np.isfinite(condition[end])]
    return " & ".join(parts)


# The result to show where a sentence has no number.
RESULTS = {"no_weak_segment": "weak"} | dict.fromkeys(("how_shares", "negative_in_words", "clipped_in_words"), "shares")
NUMBERS: dict[str, Callable[[Page, str], list[Number]]] = {
    "how_well": _how_well, "headline": _headline, "no_better": _baseline, "worse_than_constant": _worse,
    "from_other_rows": _from_other_rows, "largest_shares": _shares, "negative_shares": _shares,
    "nothing_matters": _leader, "one_feature": _leader, "leads_surely": _leader, "leads_here": _leader,
    "no_single_feature": _leader, "surely_matter": lambda page, _: _tested(page, sure=True),
    "uncertain": lambda page, _: _tested(page, sure=False), "shrinks": _importances, "unused": _importances,
    "goes_together": _together, "hardly_occurring": _unreal, "far_from_real": _unreal, "region": _region,
    "error_is_larger": _segment, "works_together": _pair, "helped_rows": _rows, "rows_that_stand_out": _rows,
    "why_they_stand_out": _rows, "clusters_in_words": _clusters, "smallest_error": _models,
    "smallest_is_uncertain": _models, "off_in_a_range": _off, "errors_differ": _groups,
}  # fmt: skip
