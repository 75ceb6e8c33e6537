"""A mean of tree ensembles is one, too: all trees together.

Each model has raw outputs of its own, and the link takes the mean of theirs; where all have the same linear link, they
share their outputs, and nothing is left to do but to add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Mean
from losslens.engines.readers.ensemble import Ensemble, Section, func_and_args, is_affine, mean_of_links
from losslens.typing import Floats


def mean_of(parts: Sequence[Ensemble], spec: Mean) -> Ensemble:
    """The mean of the responses of these models, or the class with the most votes."""
    weights = np.array([member.weight for member in spec.members])
    joined = _joined(parts, spec)
    mean = _in_common(parts, weights, joined)
    if mean is None:
        mean = replace(joined, link=partial(mean_of_links, _sections(parts), weights / weights.sum()))
    return mean.labels() if spec.largest else mean


def _joined(parts: Sequence[Ensemble], spec: Mean) -> Ensemble:
    """The trees of all parts, with separate outputs for each; without a link."""
    nodes, leaves, outputs, sets = (
        np.cumsum([0, *counts])
        for counts in zip(*((len(p.feature), len(p.value), p.outputs, len(p.sets)) for p in parts), strict=True)
    )
    copies = _Copies(parts, spec)
    wide = any(part.value.shape[1] > 1 for part in parts)
    value = np.zeros((leaves[-1], outputs[-1] if wide else 1))
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in _JOINED}
    for k, part in enumerate(parts):
        leaf = part.feature < 0
        if not wide:
            value[leaves[k] : leaves[k + 1]] = part.value
        elif part.value.shape[1] == part.outputs:
            value[leaves[k] : leaves[k + 1], outputs[k] : outputs[k + 1]] = part.value
        else:
            tree = np.searchsorted(part.roots, np.flatnonzero(leaf), "right") - 1
            value[np.arange(leaves[k], leaves[k + 1]), outputs[k] + part.output[tree]] = part.value[:, 0]
        # x < t is x <= the number before t.
        threshold = np.nextafter(part.threshold, -np.inf) if part.strict else part.threshold
        in_set = np.full(len(leaf), -1, np.int32) if part.in_set is None else part.in_set
        of_part = {
            "roots": part.roots + nodes[k],
            "feature": np.where(leaf, -1, copies.columns[k][np.where(leaf, 0, part.feature)]),
            "threshold": threshold,
            "right": part.right + np.where(leaf, leaves[k], nodes[k]),
            "missing_left": part.missing_left,
            "output": np.zeros_like(part.output) if wide else part.output + outputs[k],
            "in_set": np.where(in_set >= 0, in_set + sets[k], -1),
        }
        for name, array in of_part.items():
            columns[name].append(array)
    arrays: dict[str, Any] = {name: np.concatenate(columns[name]).astype(kind) for name, kind in _JOINED.items()}
    return replace(
        parts[0],
        **arrays,
        value=value,
        offset=np.concatenate([part.offset for part in parts]),
        divisor=1.0,
        strict=False,
        accepts_missing=all(part.accepts_missing for part in parts),
        sets=tuple(one for part in parts for one in part.sets),
        encode=copies.encode,
        copies=len(copies.copies),
    )


_JOINED = {
    "roots": np.int32, "feature": np.int32, "threshold": np.float64, "right": np.int32, "missing_left": np.bool_,
    "output": np.int32, "in_set": np.int32,
}  # fmt: skip


_Encoder = tuple[Ensemble, NDArray[np.intp]]  # a model, and the columns of the table that it is given


class _Copies:
    """Copies of the table's columns: as many as there are ways to encode one of them."""

    def __init__(self, parts: Sequence[Ensemble], spec: Mean) -> None:
        self.width, self.copies = spec.width, [list[_Encoder]()]
        self.columns = []  # of each part: the column of a copy for each of the model's
        for part, member in zip(parts, spec.members, strict=True):
            selected = np.arange(spec.width) if member.columns is None else member.columns
            one = part, selected
            fits = (k for k, others in enumerate(self.copies) if all(_agree(one, other) for other in others))
            place = next(fits, len(self.copies))
            if place == len(self.copies):
                self.copies.append([])
            if not any(np.array_equal(selected, columns) for _, columns in self.copies[place]):
                self.copies[place].append(one)
            self.columns.append(place * spec.width + selected)

    def encode(self, column: int, values: NDArray[Any]) -> Floats:
        """The values of a column of some copy, encoded as the models of this copy do."""
        place, column = divmod(column, self.width)
        for part, selected in self.copies[place]:
            if (selected == column).any():
                return part.numbers(int(np.argmax(selected == column)), values)
        return np.zeros(len(values))  # no model of this copy is given it


def _agree(one: _Encoder, other: _Encoder) -> bool:
    """Whether no column is encoded in two ways."""
    if not np.isin(one[1], other[1]).any():
        return True
    if (one[0].single, *func_and_args(one[0].encode)) != (other[0].single, *func_and_args(other[0].encode)):
        return False
    # Encoders without arguments of their own encode all columns alike.
    _, *options = func_and_args(one[0].encode)
    free = all(isinstance(option, (bool, float)) or option in ({}, frozenset()) for option in options)
    return free or np.array_equal(one[1], other[1])


def _sections(parts: Sequence[Ensemble]) -> list[Section]:
    ends = np.cumsum([0, *(part.outputs for part in parts)]).tolist()
    return [(slice(*end), part.divisor, part.link) for end, part in zip(pairwise(ends), parts, strict=True)]


def _in_common(parts: Sequence[Ensemble], weights: Floats, joined: Ensemble) -> Ensemble | None:
    """The parts with their sums added up, if their links are the same linear function; else None."""
    first, wide = parts[0], parts[0].value.shape[1]
    if any(
        (part.outputs, part.value.shape[1]) != (first.outputs, wide)
        or func_and_args(part.link) != func_and_args(first.link)
        for part in parts
    ) or not is_affine(first.link, first.outputs):
        return None
    divisors = np.array([part.divisor for part in parts])
    alike = np.ptp(weights) == 0 and np.ptp(divisors) == 0
    # With equal weights the sums of votes stay whole numbers.
    scale = np.ones(len(parts)) if alike else weights / weights.sum() / divisors
    return replace(
        joined,
        value=np.concatenate([part.value * factor for part, factor in zip(parts, scale, strict=True)]),
        output=np.concatenate([part.output for part in parts]),
        offset=np.sum([part.offset * factor for part, factor in zip(parts, scale, strict=True)], axis=0),
        divisor=float(divisors.sum()) if alike else 1.0,
    )
