"""A bound ensemble as boxes: the condition of each leaf on each column, and the rows that fulfil it, as bits."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from losslens.engines.trees.bound import BoundEnsemble, Ints
from losslens.engines.trees.coalitions import Words, node_tests, pack_bits
from losslens.engines.trees.node_rules import FEATURE, RIGHT

if TYPE_CHECKING:
    from losslens.engines.gpu.boxes import Boxes


def boxes(bound: BoundEnsemble, rows: NDArray[np.intp]) -> Boxes:
    """The leaves, and which of these rows fulfil their conditions; leaf values are relative to their tree's first."""
    from losslens.engines.gpu.boxes import Boxes

    codes = np.ascontiguousarray(bound.codes[:, rows])
    test, left = node_tests(bound, codes)
    condition, bits = _conditions(bound, test, left, pack_bits(np.ones((1, len(rows)), np.bool_))[0])
    tree = np.repeat(np.arange(len(bound.roots)), np.diff(bound.leaf_at))
    outputs, scale = len(bound.unit), bound.unit / bound.ensemble.divisor
    base = bound.value[bound.leaf_at[:-1]]
    value, offset = np.zeros((len(tree), outputs)), np.zeros(outputs, np.int64)
    if bound.value.shape[1] == outputs:
        value[:], offset = bound.value - base[tree], base.sum(axis=0)
    else:
        value[np.arange(len(tree)), bound.output[tree]] = (bound.value - base[tree])[:, 0]
        np.add.at(offset, bound.output, base[:, 0])
    return Boxes(
        n=len(rows),
        condition=condition,
        bits=bits,
        value=value * scale,
        tree=tree,
        offset=bound.ensemble.offset / bound.ensemble.divisor + offset * scale,
    )


def _conditions(bound: BoundEnsemble, test: Ints, left: Words, all_rows: Words) -> tuple[Ints, Words]:
    """The condition of each leaf on each column, (leaves, columns), and the rows that fulfil each condition, as bits.

    Conditions that the same rows fulfil get the same number; number 0 is fulfilled by all rows.
    """
    nodes, rows_of = bound.nodes, [all_rows]
    number = {blake2b(all_rows.tobytes(), digest_size=16).digest(): 0}
    condition = np.zeros((len(bound.value), len(bound.size)), np.int32)
    on_path = np.zeros((bound.depth + 2, len(bound.size)), np.int32)  # conditions at each depth of the current path

    def narrowed(held: int, goes: Words) -> int:
        rows = rows_of[held] & goes
        key = blake2b(rows.tobytes(), digest_size=16).digest()
        if key not in number:
            number[key] = len(rows_of)
            rows_of.append(rows)
        return number[key]

    for root in bound.roots:
        waiting = [(int(root), 0, 0, 0)]
        while waiting:
            s, depth, changed, new = waiting.pop()
            on_path[depth] = on_path[depth - 1] if depth else 0
            if depth:
                on_path[depth, changed] = new
            f = nodes[s, FEATURE]
            if f < 0:
                condition[nodes[s, RIGHT]] = on_path[depth]
                continue
            goes, held = left[test[s]], on_path[depth, f]
            waiting.append((nodes[s, RIGHT], depth + 1, f, narrowed(held, ~goes)))
            waiting.append((s + 1, depth + 1, f, narrowed(held, goes)))
    return condition, np.stack(rows_of)
