"""A bound ensemble as boxes: for each leaf what it asks of each column, and the rows that meet that, as bits."""

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
    """The leaves, and which of these rows meet their conditions; leaves are relative to the first of their tree."""
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


def _conditions(bound: BoundEnsemble, test: Ints, left: Words, everybody: Words) -> tuple[Ints, Words]:
    """What each leaf asks of each column, (leaves, columns), and who meets it; what the same rows meet is one."""
    nodes, known = bound.nodes, [everybody]
    place = {blake2b(everybody.tobytes(), digest_size=16).digest(): 0}
    condition = np.zeros((len(bound.value), len(bound.size)), np.int32)
    above = np.zeros((bound.depth + 2, len(bound.size)), np.int32)  # the conditions of the nodes on the way

    def narrowed(held: int, goes: Words) -> int:
        met = known[held] & goes
        key = blake2b(met.tobytes(), digest_size=16).digest()
        if key not in place:
            place[key] = len(known)
            known.append(met)
        return place[key]

    for root in bound.roots:
        waiting = [(int(root), 0, 0, 0)]
        while waiting:
            s, depth, asked, met = waiting.pop()
            above[depth] = above[depth - 1] if depth else 0
            if depth:
                above[depth, asked] = met
            f = nodes[s, FEATURE]
            if f < 0:
                condition[nodes[s, RIGHT]] = above[depth]
                continue
            goes, held = left[test[s]], above[depth, f]
            waiting.append((nodes[s, RIGHT], depth + 1, f, narrowed(held, ~goes)))
            waiting.append((s + 1, depth + 1, f, narrowed(held, goes)))
    return condition, np.stack(known)
