"""Sums over the steps of curves at the values of a row's own group: with `groups=` these pairs are left out.

For each feature the rows of a group are sorted by their class, so that a step covers a range of them: the time is
proportional to the number of steps, however many pairs a group has.
"""

from __future__ import annotations

from numba import types

from losslens.engines.compiled import compiled
from losslens.engines.trees.node_rules import ONE, TWO, U, i4, i8

f8 = types.float64


@compiled(
    types.void(
        i8[:, ::1], i4[::1], f8[::1], f8[::1], f8[::1], f8, i8[:, ::1], i4[:, ::1],
        f8[:, ::1], f8[:, ::1], f8[:, ::1], f8[::1],
    )
)  # fmt: skip
def sum_own_groups(start, classes, change, weight, base, ceiling, group, member, mass, local, jumps, clipped):
    """Add the steps of some rows.

    The group of row i is ``group[i, 0] .. group[i, 1]`` of `member`, (features, rows): the classes of its rows in
    ascending order, with ``mass[k, s]`` the weight of all before s. ``local[i, k]`` is the sum of the changes of row i
    over its group; `jumps` holds the increments of the sum that each member causes, for a running sum in its group;
    the mass at the loss's ceiling is taken off `clipped`.
    """
    for i in range(U(len(weight))):
        end = U(group[i, 1])
        for k in range(U(len(member))):
            row_sum, before, begin, stop = 0.0, 0.0, U(group[i, 0]), U(start[i, k + ONE])
            for s in range(U(start[i, k]), stop):
                after = end
                if s + ONE < stop:  # the first member at or after the next step
                    low = begin
                    while low < after:
                        middle = (low + after) // TWO
                        if member[k, middle] < classes[s + ONE]:
                            low = middle + ONE
                        else:
                            after = middle
                if after == begin:  # no member is there
                    continue
                covered = mass[k, after] - mass[k, begin]
                row_sum += covered * change[s]
                if change[s] + base[i] >= ceiling:
                    clipped[k] -= weight[i] * covered
                jumps[k, begin] += weight[i] * (change[s] - before)
                before = change[s]
                begin = after
            local[i, k] = row_sum
