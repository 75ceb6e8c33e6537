"""Sums over the steps of curves: their contributions to local importances, PI and PD curves.

With `groups=` the pairs inside groups are left out: for each feature the rows of a group are sorted by their class, so
that a step covers a range of them, and the time is proportional to the number of steps, however many pairs a group has.
"""

from __future__ import annotations

import numpy as np
from numba import types

from losslens.engines.compiled import compiled
from losslens.engines.trees.node_rules import ONE, TWO, U, i4, i8

f8 = types.float64


@compiled(
    types.void(
        i8[:, ::1], i4[::1], f8[::1], f8[:, ::1], f8[::1], f8[::1], f8[::1], f8,
        f8[::1], i8[::1], f8[:, ::1], f8[:, ::1], f8[::1],
    )
)  # fmt: skip
def sum_steps(start, classes, change, prediction, y, weight, base, ceiling, mass, mass_at, local, curve, clipped):
    """Add the steps of some rows. With y, the changes are those of squared errors, and are filled in.

    ``local[i, k]`` is the mean change of row i's curve of feature k over the donors, whose mass below class c is
    ``mass[mass_at[k] + c]``. `curve` holds for each class the increment of the weighted sums of the changes (first
    column) and of the predictions (other columns), for a running sum later; `clipped` is mass at the loss's ceiling.
    """
    outputs = U(prediction.shape[1])
    usual = outputs == ONE and ceiling == np.inf
    for k in range(U(len(mass_at) - 1)):  # outside, so that the sums of one feature stay in the processor's cache
        for i in range(U(len(weight))):
            origin, row_sum, row_clipped, before, last = U(mass_at[k]), 0.0, 0.0, 0.0, 0.0
            first, final = U(start[i, k]), U(start[i, k + ONE]) - ONE
            below = mass[origin]
            if usual:  # in less than half of the time, because there is no branch in the loop
                place, target, own, row_weight, now = origin, y[i] if len(y) > 0 else 0.0, base[i], weight[i], 0.0
                for s in range(first, final + ONE):
                    after, value = origin + U(classes[min(s + ONE, final)]), prediction[s, 0]
                    now = (target - value) * (target - value) - own if len(y) > 0 else change[s]
                    change[s] = now
                    row_sum += (mass[after] - below) * now
                    curve[place, 0] += row_weight * (now - before)
                    curve[place, 1] += row_weight * (value - last)
                    below, before, last, place = mass[after], now, value, after
                local[i, k] = row_sum + (mass[U(mass_at[k + ONE]) - ONE] - below) * now
                continue
            for s in range(first, final + ONE):
                place = origin + U(classes[s])
                end = mass[origin + U(classes[s + ONE])] if s < final else mass[U(mass_at[k + ONE]) - ONE]
                step_mass = end - below
                below = end
                if len(y) > 0:
                    error = y[i] - prediction[s, 0]
                    change[s] = error * error - base[i]
                row_sum += step_mass * change[s]
                if change[s] + base[i] >= ceiling:
                    row_clipped += step_mass
                curve[place, 0] += weight[i] * (change[s] - before)
                before = change[s]
                if outputs == ONE:
                    curve[place, 1] += weight[i] * (prediction[s, 0] - last)
                    last = prediction[s, 0]
                    continue
                for w in range(outputs):
                    level = prediction[s - ONE, w] if s > first else 0.0
                    curve[place, ONE + w] += weight[i] * (prediction[s, w] - level)
            local[i, k] = row_sum
            clipped[k] += weight[i] * row_clipped


@compiled(types.void(i8[:, ::1], i4[::1], types.int64, i4[:, ::1], i8[:, ::1]))
def find_steps(start, classes, k, wanted, place):
    """Write the step on which the k-th curve of each row has each of its classes, or those that all rows share."""
    for i in range(U(len(place))):
        first, final = start[i, k], start[i, k + 1]
        of_row = min(i, U(len(wanted) - 1))
        for c in range(U(place.shape[1])):
            low, high = first, final
            while high - low > 1:  # the last step that begins at this class or before it
                middle = (low + high) // 2
                if classes[middle] <= wanted[of_row, c]:
                    low = middle
                else:
                    high = middle
            place[i, c] = low


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
