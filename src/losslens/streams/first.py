"""The first pass over all parts: counts, weights, types, and whatever sums an engine needs to begin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import inputs
from losslens.progress import bar
from losslens.streams.counting import Bins, Grid, count, together
from losslens.streams.parts import Data, Floats, Rows, Stretch
from losslens.tables import common_kinds
from losslens.workers import Workers

Sums = Callable[[Rows], Floats]


@dataclass(frozen=True, eq=False)
class Asked:
    """What the first pass is asked; it travels."""

    data: Data
    columns: tuple[int, ...]  # those that are counted
    bins: Bins
    labels: bool  # collect the labels of y: nobody else knows the classes
    sums: Sums | None = None  # a row of numbers of each part, which are added up


@dataclass(frozen=True, eq=False)
class Counted:
    """What it finds in a stretch, or in all of them."""

    grids: dict[int, Grid]
    mass: Floats  # (3,): sums of the weights and of their squares, and how many are above zero
    checksums: tuple[int, ...]
    kinds: tuple[dict[str, Any], ...]  # types of pandas' columns
    labels: NDArray[Any] | None
    sums: Floats | None

    @property
    def units(self) -> int:
        """Rows that count."""
        return int(self.mass[2])


def first_pass(asked: Asked, stretches: Sequence[Stretch], workers: Workers, progress: bool | None) -> Counted:
    """All stretches together."""
    found = []
    with bar(sum(stretch.rows for stretch in stretches), "counting", progress, "rows") as tick:
        for stretch, counted in zip(stretches, workers.map(_count, asked, stretches), strict=True):
            found.append(counted)
            tick(stretch.rows)
            if len(found) > 16:  # not one by one: putting grids together has a price of its own
                found = [_together(found)]
    counted = _together(found)
    if counted.units < 2:
        raise ValueError("fewer than two rows have a weight above zero")
    return counted


def looked_at(stretches: Sequence[Stretch], counted: Counted) -> list[Stretch]:
    """The stretches with their checksums, for all passes to come."""
    found, at = [], 0
    for stretch in stretches:
        k = len(stretch.parts)
        found.append(replace(stretch, seen=counted.checksums[at : at + k]))
        at += k
    return found


def kinds_of_all(counted: Counted, columns: Sequence[str]) -> dict[str, Any] | None:
    """One type for each column of all parts, where they are pandas frames."""
    if not counted.kinds:
        return None
    categories = {columns[j]: grid.categories for j, grid in counted.grids.items()}
    return common_kinds(counted.kinds, categories)


def _count(asked: Asked, stretch: Stretch) -> Counted:
    return _together([_count_part(asked, rows) for rows in asked.data.rows(stretch)])


def _count_part(asked: Asked, rows: Rows) -> Counted:
    table, weight = rows.table, rows.weight
    kinds: tuple[dict[str, Any], ...] = ()
    if table.backend == "pandas":
        kinds = (dict(zip(table.names, table.native.dtypes, strict=True)),)
    labels = inputs.observed_classes(rows.y) if asked.labels and rows.y is not None else None
    return Counted(
        grids=count(table, weight, asked.columns, asked.bins),
        mass=np.array([weight.sum(), weight @ weight, np.sum(weight > 0)]),
        checksums=(rows.checksum,),
        kinds=kinds,
        labels=labels,
        sums=None if asked.sums is None else asked.sums(rows),
    )


def _together(found: Sequence[Counted]) -> Counted:
    if len(found) == 1:
        return found[0]
    labels = [each.labels for each in found if each.labels is not None]
    sums = [each.sums for each in found if each.sums is not None]
    return Counted(
        grids=together(each.grids for each in found),
        mass=np.sum([each.mass for each in found], axis=0),
        checksums=tuple(checksum for each in found for checksum in each.checksums),
        kinds=_different(kinds for each in found for kinds in each.kinds),
        labels=inputs.observed_classes(np.concatenate(labels)) if labels else None,
        sums=np.sum(sums, axis=0) if sums else None,
    )


def _different(kinds: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    found: list[dict[str, Any]] = []
    for each in kinds:
        if each not in found:
            found.append(each)
    return tuple(found)
