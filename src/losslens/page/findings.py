"""Findings about the first model as plain dicts: extrapolation, regions, pairs of features, rows and their clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from losslens.page.blocks import GoingTogether
from losslens.page.cells import PackedGrid
from losslens.page.labels import as_numbers, condition_of, kind_of, labels, rough, rough_labels
from losslens.passes.pair_map import PairMap, ValueBins
from losslens.results.clusters import Clusters
from losslens.results.extrapolation import FADED, Extrapolation
from losslens.results.importance import FeatureImportance
from losslens.results.interactions import Interactions
from losslens.results.observations import Observations
from losslens.results.plain_error import PlainError
from losslens.results.regions import Regions
from losslens.results.segments import WeakSegments
from losslens.results.sentences import (
    clusters_in_words,
    error_is_larger,
    helped_rows,
    no_weak_segment,
    pairs_in_order,
    works_together,
)
from losslens.tables.columns import Distinct
from losslens.text import claim, in_digits

MOST_ROWS = 20  # suspicious rows listed
LEADING = 4  # features listed for each cluster
SENTENCES = 2  # on regions, at the top of the page


@dataclass(frozen=True, eq=False)
class Findings:
    """Results beyond importances, of the first model; None where there are none."""

    pairs: Interactions | None
    pairs_how: str  # how the pairs' numbers were computed, or why there are none
    rows: Observations | None
    clusters: Clusters | None
    where: Callable[[FeatureImportance], Regions | None]  # the regions of one feature
    where_how: str  # which features were not searched
    weak: WeakSegments | None = None  # where the model is worst
    weak_how: str = ""  # which columns and rows were not searched
    blocks: GoingTogether = GoingTogether()  # features that go together
    pairs_call: str = ""  # the arguments of `pair_interactions` in Python
    map: PairMap | None = None  # the strongest pair


def extrapolation_dict(far: Extrapolation | None, grid: PackedGrid | None) -> dict[str, Any] | None:
    """How far replaced rows of a feature are from real ones; `faded`: where on the page's grid most are far."""
    if far is None:
        return None
    shares = far.at if grid is None or len(far.at) == 0 else grid.joined(far.at)
    faded = np.asarray(far.warns & (shares > FADED)) if len(shares) else None
    return {
        "auc": far.auc,
        "share": far.share,
        "warns": far.warns,
        "percent": far.percent,
        "sentence": far_from_real(far),
        "faded": faded,
    }


@claim(level=0.05)
def far_from_real(far: Extrapolation) -> str:
    """Where a classifier tells replaced rows of one feature from real ones (`Extrapolation.warns`)."""
    if not far.warns:
        return ""
    advice = (
        " To draw values that fit a row's other columns instead, compute the importances with donors=Within() or "
        "donors=Residual()."
    )
    return f"{far._finding[0].upper()}{far._finding[1:]}.{'' if far.drawn else advice}"


def regions_dict(regions: Regions | None, name: str, plain: PlainError) -> dict[str, Any] | None:
    """The regions of one feature as far as importances surely differ, all rows first, and the sentence on them."""
    shown = [] if regions is None else regions._shown(name)
    if regions is None or not shown:
        return None
    keys = ("rule", "depth", "n", "pfi", "low", "high", "contrast", "p")
    all_rows = regions.features[name]
    tree = [{key: getattr(one, key) for key in keys} | {"error": all_rows.given(one.rows).error} for one in shown]
    return {"sentences": [region(name, tree, plain)], "tree": tree}


def segments_dict(
    weak: WeakSegments | None, columns: Mapping[str, Distinct], plain: PlainError
) -> dict[str, Any] | None:
    """Where the error is larger, each as conditions that the page can set; None where there was no search."""
    if weak is None:
        return None
    judged = ("judged", "judged_error", "judged_low", "judged_high", "judged_other")
    keys = ("rule", "n", "share", "error", "other", *judged, "ratio", "ratio_low", "ratio_high", "p")
    listed = [
        {
            **{key: getattr(one, key) for key in keys},
            "sentence": error_is_larger(one, plain),
            "conditions": [condition_of(name, columns[name], weak.mask(k)) for name in one.columns],
        }
        for k, one in enumerate(weak.segments)
    ]
    all_rows = {key: getattr(weak, key) for key in ("error", "low", "high", "n")}
    return {"sentence": no_weak_segment(weak), "whole": all_rows, "segments": listed}


def pairs_dict(findings: Findings) -> dict[str, Any] | None:
    """The strongest interactions of the model, in order; None where they were not computed."""
    if findings.pairs is None or not findings.pairs._is_split:
        return None
    pairs = findings.pairs.interaction
    return pairs_in_order(findings.pairs) | {
        "features": list(pairs.features), "n_pairs": len(pairs._pairs), "how": findings.pairs_how,
        "map": None,
    }  # fmt: skip


def _range_labels(column: Distinct, bins: ValueBins) -> list[str]:
    """Ranges by their rounded ends; a single value as it is."""
    kind, values = kind_of(column), column.values
    if kind == "words" or (bins.ends[:, 0] == bins.ends[:, 1]).all():
        return labels(values[bins.ends[:, 0]])
    ends = rough(as_numbers(values[bins.ends.ravel()]), as_numbers(values), kind)
    named = rough_labels(ends, kind)
    return [low if low == high else f"{low} to {high}" for low, high in zip(named[::2], named[1::2], strict=True)]


def map_dict(both: PairMap | None, columns: Mapping[str, Distinct], target: Mapping[str, Any]) -> dict[str, Any] | None:
    """Two features at once: labels of their bins, and for each pair of these rows, mean loss, and mean prediction."""
    if both is None:
        return None
    first, second = (_range_labels(columns[n], bins) for n, bins in zip(both.names, both.bins, strict=True))
    shown = both.prediction if both.prediction.ndim == 2 else both.prediction[:, :, target["shown"]]
    return {
        "first": both.names[0], "second": both.names[1], "rows": first, "columns": second, "count": both.count,
        "loss": both.loss, "prediction": None if target["reads"] == "labels" else shown, "error": both.error,
        "n": both.rows,
    }  # fmt: skip


def rows_dict(rows: Observations | None) -> dict[str, Any] | None:
    """How much the features reduce the loss of each row, and the rows that look wrong."""
    if rows is None:
        return None
    listed_rows = rows.flagged[:MOST_ROWS]
    influence = None if rows.influence is None else rows.influence[listed_rows]
    features = None if rows.influence_on is None else [str(name) for name in rows.influence_on[listed_rows]]
    return {
        "importance": rows.importance,
        "fence": rows.fence,
        "counted": int(np.sum(rows.weight > 0)),
        "helped": int(np.sum((rows.importance > 0) & (rows.weight > 0))),
        "hurt": int(np.sum((rows.importance < 0) & (rows.weight > 0))),
        "n_suspicious": len(rows.flagged),
        "sentence": helped_rows(rows),
        "remark": why_they_stand_out(rows, len(listed_rows)),
        "suspicious": listed_rows,
        "influence": influence,
        "influence_on": features,
    }


@claim(level=0)
def why_they_stand_out(rows: Observations, shown: int) -> str:
    """The text beside the list of rows below the fence, where there are any."""
    n = len(rows.flagged)
    if not n:
        return ""
    some = f" The clearest {shown} of {n:,}." if n > shown else ""
    about_influence = (
        " Largest influence: the feature whose PFI would change most without the row, and the row's contribution to it."
    )
    return (
        f"Their importance is unusually low, below the outlier fence of all rows ({in_digits(rows.fence)}): the "
        f"target may be wrong, or the row may be unlike the training data."
        f"{some}{'' if rows.influence is None else about_influence}"
    )


@claim(level=0)
def rows_that_stand_out(rows: Mapping[str, Any] | None) -> str:
    """Where importances of rows are below the fence of `Observations`: values of other rows fit better."""
    n = 0 if rows is None else rows["n_suspicious"]
    if not n:
        return ""
    return (
        f"{n:,} row{'s stand' if n > 1 else ' stands'} out: with values from other rows "
        f"{'their' if n > 1 else 'its'} loss would be smaller. "
        f"{'Their targets' if n > 1 else 'Its target'} may be wrong."
    )


def clusters_dict(clusters: Clusters | None) -> dict[str, Any] | None:
    """Clusters, the largest first: size, rule, and the features that reduce the loss of their rows most."""
    if clusters is None:
        return None
    listed = []
    for c, (n, share) in enumerate(zip(clusters.sizes.tolist(), clusters.shares.tolist(), strict=True)):
        leading = np.argsort(-np.abs(clusters.profiles[c]), kind="stable")[:LEADING]
        main = [{"name": clusters.features[j], "value": float(clusters.profiles[c, j])} for j in leading]
        stable = float(clusters.cluster_stability[c])
        listed.append({"n": n, "share": share, "rule": clusters.rules[c], "known_by": main, "stability": stable})
    return {
        "labels": clusters.labels, "clusters": listed, "stability": clusters.stability, "described": clusters.described,
        "chance": clusters.chance, "sentence": clusters_in_words(clusters),
    }  # fmt: skip


def finding_words(
    features: list[dict[str, Any]], pairs: dict[str, Any] | None, rows: Any, total: float | None = None
) -> list[str]:
    """Sentences for the top of the page: one each, two on regions. `total`: what all features achieve."""
    on_regions = [text for feature in features for text in (feature["regions"] or {"sentences": []})["sentences"]]
    return list(filter(None, (*on_regions[:SENTENCES], works_together(pairs, total), rows_that_stand_out(rows))))


@claim(level=0.05)
def region(name: str, tree: list[dict[str, Any]], plain: PlainError) -> str:
    """Where a feature matters more, in the reader's unit: `Regions` states the precondition."""
    more, less = sorted((one for one in tree if one["depth"] == 1), key=lambda one: -one["pfi"])
    there, elsewhere = (
        f"{plain.level(error)} to {plain.level(error + one['pfi'], error + one['low'], error + one['high'])}"
        for one in (more, less) for error in [one["error"]]
    )  # fmt: skip
    rows = f"{more['n']:,} row{'s' if more['n'] > 1 else ''}"
    return (
        f"{name} matters more where {more['rule']} ({rows}): with it replaced the {plain.name} goes from {there}, "
        f"elsewhere from {elsewhere} ({more['contrast']} by leave-one-out)."
    )


def absence_words(findings: Findings, shared: bool) -> list[str]:
    """How pairs were computed, what was not searched for regions or weak segments, why nothing is on rows."""
    absent = "" if shared else "Shapley shares were not requested: the page has no importances of rows."
    unsplit = ""
    if findings.pairs is not None and not findings.pairs._is_split:
        unsplit = f"Whether the model combines features is unknown: {findings.pairs.interaction.absent}."
    texts = (findings.pairs_how, findings.where_how, findings.weak_how, unsplit, absent)
    return [how_computed(text) for text in texts if text]


@claim(level=0)
def how_computed(text: str) -> str:
    """How further results were computed, or why there are none."""
    return text
