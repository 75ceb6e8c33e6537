"""Losses of a coalition over all pairs, on a device, any named loss: F = (A v) B^T, and every number of F is judged.

A holds which rows meet the leaves' conditions on kept columns, B which meet those on lent ones, v the leaves' values.
These are whole numbers of a unit, three digits of eleven bits each: half precision holds a digit, and single precision
a sum of digits, so that the products are exact, in the fastest units of a GPU. What is lost is half a unit a leaf: a
unit is 2^-33 of the largest leaf. Everything after the products is in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from losslens.engines.gpu.boxes import WHOLE, Boxes, Sides
from losslens.engines.gpu.losses import DeviceLoss
from losslens.engines.gpu.memory import BatchSizes
from losslens.typing import Floats, Mask

PAIRS = 1 << 26  # judged at a time
DONORS = 1 << 10  # words of donors that are spread at a time
BASE = 2048  # of the digits, which are from -1024 to 1023; the highest may be twice as large
DIGITS, LARGEST = 3, 2.0**33 - BASE**2  # of a leaf, and what they can hold
MIXED = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)  # half precision in, single out
MOST_TREES = 2**13  # whose digits single precision can add up


class DevicePairs:
    """Mean losses of rows over all donors and of donors over all rows."""

    def __init__(self, boxes: Boxes, y: Floats, weight: Floats, judge: DeviceLoss, device: str) -> None:
        self.sides, self.device, self.judge = Sides(boxes, device), device, judge
        self.kind = torch.float16 if MIXED and device != "cpu" else torch.float32  # of the factors
        self.weight = self._on(weight / weight.sum())
        value, middle, largest = _centred(boxes)
        unit = max(float(largest.max(initial=0.0)) / LARGEST, 1e-300)
        target = self._on(np.asarray(y, np.float64)[:, None])
        shift, scale = judge.seen(target, self._on(boxes.offset + middle))
        self.y, self.shift, self.scale = target, shift, scale * unit
        whole = np.zeros((boxes.value.shape[1], len(self.sides.value)))
        whole[:, : len(value)] = np.rint(value / unit).T
        spread = np.moveaxis(_digits(whole, DIGITS), 0, 2)  # (outputs, leaves, digits)
        self.digits = self._on(spread[..., None]).to(self.kind)
        self.clip = torch.tensor(judge.clip, dtype=torch.float64, device=device)
        self.fused = _fused() if judge.fused is not None and self.digits.is_cuda else None
        most = min(DONORS, self.sides.bits.shape[1]) * WHOLE
        self.steps = BatchSizes(max(1, PAIRS // (most * WHOLE * len(self.digits))), f"times {WHOLE} rows")

    def means(self, kept: Mask) -> tuple[Floats, Floats]:
        """The mean loss of each row, and of each donor, where these columns are kept; both (n,)."""
        mine, lent = self.sides.met(np.asarray(kept)), self.sides.met(~np.asarray(kept))
        by_row, by_donor = torch.zeros((2, self.sides.n), dtype=torch.float64, device=self.device)
        words = mine.shape[1]
        for start in range(0, words, DONORS):
            donors = slice(start, min(start + DONORS, words))
            among, other = self._rows(donors), self._spread(lent[:, donors])

            def judged(part: slice, other: Any = other, among: slice = among) -> tuple[Any, Any]:
                return self._means(mine[:, part], other, self._rows(part), among)

            for part, (of_rows, of_donors) in self.steps.over(words, judged):
                by_row[self._rows(part)] += of_rows
                by_donor[among] += of_donors
        return by_row.cpu().numpy(), by_donor.cpu().numpy()

    def _means(self, mine: Any, other: Any, rows: slice, donors: slice) -> tuple[Any, Any]:
        """What the pairs of these rows and donors add to the means of both."""
        own, weights = self._spread(mine), (self.weight[rows], self.weight[donors])
        sums = [self._sums(own, other, k, rows, donors) for k in range(len(self.digits))]
        if self.fused is not None:
            seen = self.shift[rows, 0].contiguous(), self.scale[rows, 0].contiguous()
            found: tuple[Any, Any] = self.fused(sums[0], BASE, seen, weights, self.judge.fused, self.clip)
            return found
        seen = torch.stack([self._seen(digits, rows, k) for k, digits in enumerate(sums)])
        losses = self.judge.lose(self.y[rows], seen)
        return losses @ weights[1], weights[0] @ losses

    def _sums(self, own: Any, other: Any, k: int, rows: slice, donors: slice) -> Any:
        """Sums of digits of one output, (digits, rows, donors)."""
        terms = (own[:, None] * self.digits[k]).reshape(len(own), -1)
        sums = self._product(terms.T, other).view(-1, own.shape[1], other.shape[1])
        return sums[:, : rows.stop - rows.start, : donors.stop - donors.start]

    def _seen(self, sums: Any, rows: slice, k: int) -> Any:
        whole = sums[0].double()
        for lower in sums[1:]:
            whole = whole.mul_(BASE).add_(lower)
        return whole.mul_(self.scale[rows, k, None]).add_(self.shift[rows, k, None])

    def _product(self, terms: Any, other: Any) -> Any:
        if terms.dtype == torch.float32:
            return torch.mm(terms, other)
        return torch.mm(terms, other, out_dtype=torch.float32)

    def _spread(self, met: Any) -> Any:
        """Zeros and ones, (leaves, rows)."""
        return self.sides.spread(met).to(self.kind)

    def _rows(self, words: slice) -> slice:
        return slice(words.start * WHOLE, min(words.stop * WHOLE, self.sides.n))

    def _on(self, array: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


def _fused() -> Any:
    """The compiled way from sums to means; None where torch comes without Triton."""
    try:
        from losslens.engines.gpu.fused import means
    except ImportError:
        return None
    return means


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
