"""Findings about the first model as plain dicts: extrapolation, regions, pairs of features, rows and their clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from losslens.page.cells import PackedGrid
from losslens.results.clusters import Clusters
from losslens.results.extrapolation import FADED, NAMED_IN_NOTE, Extrapolation, Extrapolations
from losslens.results.importance import FeatureImportance
from losslens.results.interactions import Interactions
from losslens.results.observations import Observations
from losslens.results.regions import CONFIRMED, Regions
from losslens.text import in_digits

MOST_PAIRS = 15
MOST_ROWS = 20  # of those that look wrong
LEADING = 4  # features that a cluster is known by
SENTENCES = 2  # on regions, at the top of the page
# How alike two halves of the rows are clustered, from which stability on, in words.
ALIKE = ((0.95, "nearly the same"), (0.8, "much the same"), (0.6, "similar"), (-np.inf, "not the same"))


@dataclass(frozen=True, eq=False)
class Findings:
    """What the page says beyond importances, of the first model; None where there is nothing to say."""

    pairs: Interactions | None
    pairs_how: str  # how the pairs' numbers were computed, or why there are none
    rows: Observations | None
    clusters: Clusters | None
    where: Callable[[FeatureImportance], Regions | None]  # the regions of one feature
    where_how: str  # where they were not looked for


def told_far(far: Extrapolation | None, grid: PackedGrid | None) -> dict[str, Any] | None:
    """How far replaced rows of a feature are from real ones; `faded`: where on the page's grid curves stand on them."""
    if far is None:
        return None
    at = far.at if grid is None or len(far.at) == 0 else grid.joined(far.at)
    faded = np.asarray(far.warns & (at > FADED)) if len(at) else None
    said = f"{far.sentence[0].upper()}{far.sentence[1:]}." if far.warns else ""
    return {"auc": far.auc, "share": far.share, "warns": far.warns, "sentence": said, "faded": faded}


def told_regions(found: Regions | None, name: str) -> dict[str, Any] | None:
    """The tree of one feature's regions, from all rows down, and its sentence where other rows confirm it."""
    if found is None or name not in found.found:
        return None
    keys = ("rule", "depth", "n", "pfi", "low", "high", "p")
    tree = [{key: getattr(region, key) for key in keys} for region in found.of(name)]
    return {"sentences": found.sentences, "tree": tree}


def told_pairs(findings: Findings) -> dict[str, Any] | None:
    """The strongest pairs of features, the strongest first."""
    pairs = findings.pairs
    if pairs is None:
        return None
    error = np.full_like(pairs.index, np.nan) if pairs.std_error is None else pairs.std_error
    low, high = pairs.intervals()
    numbers = {"value": pairs.index, "std_error": error, "low": low, "high": high, "p": pairs.p_adjusted}
    listed = [
        {"first": pairs.features[j], "second": pairs.features[k], **{key: float(m[j, k]) for key, m in numbers.items()}}
        for j, k in pairs._pairs[:MOST_PAIRS]
    ]
    return {"features": list(pairs.features), "n_pairs": len(pairs._pairs), "pairs": listed, "how": findings.pairs_how}


def told_rows(found: Observations | None) -> dict[str, Any] | None:
    """What the model's knowledge is worth on each row, and the rows that look wrong."""
    if found is None:
        return None
    listed = found.suspicious[:MOST_ROWS]
    moved = None if found.influence is None else found.influence[listed]
    on = None if found.influence_on is None else [str(name) for name in found.influence_on[listed]]
    return {
        "importance": found.importance,
        "fence": found.fence,
        "helped": int(np.sum(found.importance > 0)),
        "hurt": int(np.sum(found.importance < 0)),
        "n_suspicious": len(found.suspicious),
        "suspicious": listed,
        "influence": moved,
        "influence_on": on,
    }


def told_clusters(found: Clusters | None) -> dict[str, Any] | None:
    """Clusters, the largest first: size, rule, and the features that the model knows their rows by."""
    if found is None:
        return None
    listed = []
    for c, (n, share) in enumerate(zip(found.sizes.tolist(), found.shares.tolist(), strict=True)):
        leading = np.argsort(-np.abs(found.profiles[c]), kind="stable")[:LEADING]
        known = [{"name": found.features[j], "value": float(found.profiles[c, j])} for j in leading]
        stable = float(found.cluster_stability[c])
        listed.append({"n": n, "share": share, "rule": found.rules[c], "known_by": known, "stability": stable})
    return {
        "labels": found.labels, "clusters": listed, "stability": found.stability, "described": found.described,
        "chance": found.chance, "sentence": _clustered(found),
    }  # fmt: skip


def _clustered(found: Clusters) -> str:
    if found.k == 1:
        return "By how the model knows them, the rows fall into no clusters that are stable and lie apart."
    alike = next(words for least, words in ALIKE if not found.stability < least)
    return (
        f"By how the model knows them, the rows fall into {found.k} clusters. Clustered by halves of the rows they "
        f"come out {alike} (stability {found.stability:.2f}; 1 is the same, 0 is chance); the rules put "
        f"{found.described:.0%} of rows that they were not made from into their own cluster, the largest cluster "
        f"alone {found.chance:.0%}."
    )


def finding_words(features: list[dict[str, Any]], pairs: dict[str, Any] | None, rows: Any) -> list[str]:
    """What the top of the page says of them: a sentence each, two on regions."""
    said = [text for feature in features for text in (feature["regions"] or {"sentences": []})["sentences"]]
    found = said[:SENTENCES]
    if len(said) > SENTENCES:
        found[-1] += f" ({len(said) - SENTENCES} more of this kind: see the features.)"
    sure = [] if pairs is None else [one for one in pairs["pairs"] if one["p"] <= CONFIRMED and one["value"] > 0]
    if sure:
        best = sure[0]
        ends = f"95% interval {in_digits(best['low'])} to {in_digits(best['high'])}"
        found.append(
            f"{best['first']} and {best['second']} work together most: {in_digits(best['value'])} of what they are "
            f"worth ({ends}) is there only while both are."
        )
    if rows is not None and rows["n_suspicious"]:
        n = rows["n_suspicious"]
        found.append(
            f"{n:,} row{'s look' if n > 1 else ' looks'} wrong: the model would do much better on "
            f"{'them' if n > 1 else 'it'} without the features."
        )
    return found


def far_words(found: Extrapolations) -> list[str]:
    """One line on all features that warn, those with the most far rows first."""
    warned = sorted((found[name] for name in found.warned), key=lambda one: -one.share)
    if not warned:
        return []
    some = ", ".join(f"{one.name} {one.percent}" for one in warned[:NAMED_IN_NOTE])
    more = f" and {len(warned) - NAMED_IN_NOTE} more features" if len(warned) > NAMED_IN_NOTE else ""
    return [f"Rows with a replaced value can be told from real ones. The share that is unlike any: {some}{more}."]


def absence_words(findings: Findings, shared: bool) -> list[str]:
    """How pairs were computed, where regions were not looked for, and why there is no word on rows."""
    found = [text for text in (findings.pairs_how, findings.where_how) if text]
    if not shared:
        found.append("Shapley shares were not asked for: nothing is said of what the model is worth row by row.")
    return found
