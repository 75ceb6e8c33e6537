"""Losses of a coalition over all pairs, on a device, any named loss: F = (A v) B^T, and every number of F is judged.

A holds which rows meet the leaves' conditions on kept columns, B which meet those on lent ones, v the leaves' values. These
are whole numbers of a unit, three or four digits of a byte each, so that sums are exact: what is lost is half a unit a
leaf, where a unit is 2^-30 to 2^-26 of the largest possible answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from losslens.engines.gpu.boxes import WHOLE, Boxes, Floats, Marks, Sides, digits
from losslens.engines.gpu.judging import Judge
from losslens.engines.gpu.memory import Steps

PAIRS = 1 << 24  # judged at a time
DONORS = 1 << 10  # words of donors that are spread at a time
LARGEST = 127 * (1 + 256 + 65536)  # of three digits
ROOM, COARSE = 2.0**30, 2.0**26  # units of the largest sum: the most, so that it fits into 32 bits, and the fewest


class DevicePairs:
    """Mean losses of rows over all donors and of donors over all rows."""

    def __init__(self, boxes: Boxes, y: Floats, weight: Floats, judge: Judge, device: str) -> None:
        self.sides, self.device, self.judge = Sides(boxes, device), device, judge
        self.y, self.weight = self._on(np.asarray(y, np.float64)[:, None]), self._on(weight / weight.sum())
        value, middle, largest = _centred(boxes)
        self.offset = self._on(boxes.offset + middle)
        self.unit, count = _unit(float(largest.max(initial=0.0)), float(largest.sum(axis=0).max(initial=0.0)))
        whole = np.zeros((boxes.value.shape[1], len(self.sides.value)), np.int64)
        whole[:, : len(value)] = np.rint(value / self.unit).T
        most = min(DONORS, self.sides.bits.shape[1]) * WHOLE
        self.steps = Steps(max(1, PAIRS // (most * WHOLE)), f"times {WHOLE} rows")
        self.digits = digits(self._on(whole), count).flip(0)  # (digits, outputs, leaves), the highest first

    def means(self, kept: Marks) -> tuple[Floats, Floats]:
        """The mean loss of each row, and of each donor, where these columns are kept; both (n,)."""
        mine, lent = self.sides.met(np.asarray(kept)), self.sides.met(~np.asarray(kept))
        by_row, by_donor = torch.zeros((2, self.sides.n), dtype=torch.float64, device=self.device)
        words = mine.shape[1]
        for start in range(0, words, DONORS):
            donors = slice(start, min(start + DONORS, words))
            among = self._rows(donors)
            other = self.sides.spread(lent[:, donors]).T.contiguous()

            def judged(part: slice, other: Any = other, among: slice = among) -> tuple[Any, Any]:
                losses = self._losses(mine[:, part], other, self._rows(part), among)
                return losses @ self.weight[among], self.weight[self._rows(part)] @ losses

            for part, (of_rows, of_donors) in self.steps.over(words, judged):
                by_row[self._rows(part)] += of_rows
                by_donor[among] += of_donors
        return by_row.cpu().numpy(), by_donor.cpu().numpy()

    def _losses(self, mine: Any, other: Any, rows: slice, donors: slice) -> Any:
        own = self.sides.spread(mine).T
        shape, raw = (len(own), len(other)), []
        for k in range(len(self.offset)):
            terms = (own * self.digits[:, k, None, :]).reshape(-1, own.shape[1])
            sums = torch._int_mm(terms, other.T).view(-1, *shape)
            sums = sums[:, : rows.stop - rows.start, : donors.stop - donors.start]
            whole = sums[0]
            for lower in sums[1:]:
                whole = torch.add(lower, whole, alpha=256)
            raw.append(torch.add(self.offset[k], whole, alpha=self.unit))
        return self.judge(self.y[rows], torch.stack(raw) if len(raw) > 1 else raw[0][None])

    def _rows(self, words: slice) -> slice:
        return slice(words.start * WHOLE, min(words.stop * WHOLE, self.sides.n))

    def _on(self, array: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


def _unit(largest: float, total: float) -> tuple[float, int]:
    """What leaves are counted in, and how many digits they then have: three where that is fine enough."""
    unit = max(largest / LARGEST, total / ROOM, 1e-300)
    return (unit, 3) if unit * COARSE <= max(total, 1e-290) else (max(total / ROOM, 1e-300), 4)


def _centred(boxes: Boxes) -> tuple[Floats, Floats, Floats]:
    """Leaves relative to the middle of their tree; what these add up to; and the largest leaf of each tree."""
    trees, outputs = int(boxes.tree.max()) + 1, boxes.value.shape[1]
    low, high = np.full((trees, outputs), np.inf), np.full((trees, outputs), -np.inf)
    np.minimum.at(low, boxes.tree, boxes.value)
    np.maximum.at(high, boxes.tree, boxes.value)
    middle = (low + high) / 2
    return boxes.value - middle[boxes.tree], middle.sum(axis=0), (high - low) / 2
