"""Losses of a coalition over all pairs, on a device, any named loss: F = (A v) B^T, and every number of F is judged.

A holds which rows meet the leaves' conditions on kept columns, B which meet those on lent ones, v the leaves' values. These
are whole numbers of a unit, two or three digits of eleven bits each: half precision holds a digit, and single precision a
sum of digits, so that the products are exact, in the fastest units of a GPU. What is lost is half a unit a leaf, where a
unit is 2^-30 to 2^-26 of the largest possible answer, and what single precision loses of a pair's answer, 2^-24.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from losslens.engines.gpu.boxes import WHOLE, Boxes, Floats, Marks, Sides
from losslens.engines.gpu.judging import Judge
from losslens.engines.gpu.memory import Steps

PAIRS = 1 << 25  # judged at a time
DONORS = 1 << 10  # words of donors that are spread at a time
BASE = 2048  # of the digits, which are from -1024 to 1023; the highest may be twice as large
TWO, THREE = 2.0**22 - BASE, 2.0**33 - BASE**2  # the largest numbers of two and three digits
FINE, COARSE = 2.0**30, 2.0**26  # units of the largest sum
MOST_TREES = 2**13  # whose digits single precision can add up


class DevicePairs:
    """Mean losses of rows over all donors and of donors over all rows."""

    def __init__(self, boxes: Boxes, y: Floats, weight: Floats, judge: Judge, device: str) -> None:
        self.sides, self.device, self.judge = Sides(boxes, device), device, judge
        self.weight = self._on(weight / weight.sum())
        self.equal = bool(np.all(weight == weight[0]))
        value, middle, largest = _centred(boxes)
        unit, count = _unit(float(largest.max(initial=0.0)), float(largest.sum(axis=0).max(initial=0.0)))
        target = self._on(np.asarray(y, np.float64)[:, None])
        shift, scale = judge.seen(target, self._on(boxes.offset + middle))  # in double precision: y may be far from 0
        self.y, self.shift, self.scale = target.float(), shift.float(), (scale * unit).float()
        whole = np.zeros((boxes.value.shape[1], len(self.sides.value)))
        whole[:, : len(value)] = np.rint(value / unit).T
        self.digits = self._on(_digits(whole, count)).to(self._kind)  # (digits, outputs, leaves), the highest first
        most = min(DONORS, self.sides.bits.shape[1]) * WHOLE
        self.steps = Steps(max(1, PAIRS // (most * WHOLE)), f"times {WHOLE} rows")

    def means(self, kept: Marks) -> tuple[Floats, Floats]:
        """The mean loss of each row, and of each donor, where these columns are kept; both (n,)."""
        mine, lent = self.sides.met(np.asarray(kept)), self.sides.met(~np.asarray(kept))
        by_row, by_donor = torch.zeros((2, self.sides.n), dtype=torch.float64, device=self.device)
        words = mine.shape[1]
        for start in range(0, words, DONORS):
            donors = slice(start, min(start + DONORS, words))
            among, other = self._rows(donors), self._spread(lent[:, donors])

            def judged(part: slice, other: Any = other, among: slice = among) -> tuple[Any, Any]:
                rows = self._rows(part)
                return self._means(self._losses(mine[:, part], other, rows, among), rows, among)

            for part, (of_rows, of_donors) in self.steps.over(words, judged):
                by_row[self._rows(part)] += of_rows
                by_donor[among] += of_donors
        return by_row.cpu().numpy(), by_donor.cpu().numpy()

    def _losses(self, mine: Any, other: Any, rows: slice, donors: slice) -> Any:
        own, seen = self._spread(mine), []
        for k in range(self.digits.shape[1]):
            terms = (own * self.digits[:, k, None, :]).reshape(-1, own.shape[1])
            sums = self._product(terms, other).view(-1, len(own), len(other))
            sums = sums[:, : rows.stop - rows.start, : donors.stop - donors.start]
            whole = sums[0]
            for lower in sums[1:]:
                whole = torch.add(lower, whole, alpha=BASE)
            seen.append(torch.addcmul(self.shift[rows, k, None], whole, self.scale[rows, k, None]))
        return self.judge.lose(self.y[rows], torch.stack(seen) if len(seen) > 1 else seen[0][None])

    def _means(self, losses: Any, rows: slice, donors: slice) -> tuple[Any, Any]:
        """Added up in double precision."""
        if self.equal:
            each = self.weight[0]
            return losses.sum(dim=1, dtype=torch.float64) * each, losses.sum(dim=0, dtype=torch.float64) * each
        precise = losses.double()
        return precise @ self.weight[donors], self.weight[rows] @ precise

    @property
    def _kind(self) -> Any:
        return torch.float16 if self.device != "cpu" else torch.float32  # a CPU has no unit for the former

    def _product(self, terms: Any, other: Any) -> Any:
        return torch.mm(terms, other.T) if self.device == "cpu" else torch.mm(terms, other.T, out_dtype=torch.float32)

    def _spread(self, met: Any) -> Any:
        """Zeros and ones, (rows, leaves)."""
        return self.sides.spread(met).T.to(self._kind, memory_format=torch.contiguous_format)

    def _rows(self, words: slice) -> slice:
        return slice(words.start * WHOLE, min(words.stop * WHOLE, self.sides.n))

    def _on(self, array: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


def _unit(largest: float, total: float) -> tuple[float, int]:
    """What leaves are counted in, and how many digits they then have: two where that is fine enough."""
    unit = max(largest / TWO, total / FINE, 1e-300)
    return (unit, 2) if unit * COARSE <= total or total == 0 else (max(largest / THREE, total / FINE, 1e-300), 3)


def _digits(whole: Floats, count: int) -> Floats:
    """``sum of digit[d] BASE^(count - 1 - d)``, the highest first."""
    found = []
    for _ in range(count - 1):
        low = np.mod(whole + BASE // 2, BASE) - BASE // 2
        found.append(low)
        whole = (whole - low) / BASE
    return np.stack([whole, *found[::-1]])


def _centred(boxes: Boxes) -> tuple[Floats, Floats, Floats]:
    """Leaves relative to the middle of their tree; what these add up to; and the largest leaf of each tree."""
    trees, outputs = int(boxes.tree.max()) + 1, boxes.value.shape[1]
    low, high = np.full((trees, outputs), np.inf), np.full((trees, outputs), -np.inf)
    np.minimum.at(low, boxes.tree, boxes.value)
    np.maximum.at(high, boxes.tree, boxes.value)
    middle = (low + high) / 2
    return boxes.value - middle[boxes.tree], middle.sum(axis=0), (high - low) / 2
