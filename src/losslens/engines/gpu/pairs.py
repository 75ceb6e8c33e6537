"""Losses of a coalition over all pairs, on a device, any named loss: predictions are F = (A v) B^T.

A says which rows fulfil the leaves' conditions on kept columns, B which donors fulfil those on replaced ones, and v is
the leaves' values. These are integer multiples of a unit, three digits of eleven bits each: half precision holds a
digit, and single precision a sum of digits, so that the products are exact, in the fastest units of a GPU. The rounding
error is half a unit per leaf: a unit is 2^-33 of the largest leaf. After the products all is in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from losslens.engines.gpu.boxes import WORD, Boxes, DeviceBoxes
from losslens.engines.gpu.losses import DeviceLoss
from losslens.engines.gpu.memory import BatchSizes
from losslens.typing import Floats, Mask

PAIRS = 1 << 26  # pairs evaluated at a time
DONOR_WORDS = 1 << 10  # words of donors' bits that are unpacked at a time
BASE = 2048  # of the digits, which are from -1024 to 1023; the highest may be twice as large
DIGITS, LARGEST = 3, 2.0**33 - BASE**2  # digits of a leaf's value, and the largest number they can hold
MIXED = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)  # half precision in, single out
MAX_TREES = 2**13  # number of trees up to which sums of digits are exact in single precision


class DevicePairs:
    """Mean losses of rows over all donors and of donors over all rows."""

    def __init__(self, boxes: Boxes, y: Floats, weight: Floats, loss: DeviceLoss, device: str) -> None:
        self.boxes, self.device, self.loss = DeviceBoxes(boxes, device), device, loss
        self.kind = torch.float16 if MIXED and device != "cpu" else torch.float32  # of the factors
        self.weight = self._on(weight / weight.sum())
        value, middle, largest = _centred(boxes)
        unit = max(float(largest.max(initial=0.0)) / LARGEST, 1e-300)
        target = self._on(np.asarray(y, np.float64)[:, None])
        shift, scale = loss.affine(target, self._on(boxes.offset + middle))
        self.y, self.shift, self.scale = target, shift, scale * unit
        integers = np.zeros((boxes.value.shape[1], len(self.boxes.value)))
        integers[:, : len(value)] = np.rint(value / unit).T
        by_leaf = np.moveaxis(_digits(integers, DIGITS), 0, 2)  # (outputs, leaves, digits)
        self.digits = self._on(by_leaf[..., None]).to(self.kind)
        self.clip = torch.tensor(loss.clip, dtype=torch.float64, device=device)
        self.fused = _fused() if loss.fused is not None and self.digits.is_cuda else None
        donors = min(DONOR_WORDS, self.boxes.bits.shape[1]) * WORD
        self.sizes = BatchSizes(max(1, PAIRS // (donors * WORD * len(self.digits))), f"times {WORD} rows")

    def means(self, kept: Mask) -> tuple[Floats, Floats]:
        """The mean loss of each row, and of each donor, if these columns are kept; both (n,)."""
        row_bits, donor_bits = self.boxes.fulfilled(np.asarray(kept)), self.boxes.fulfilled(~np.asarray(kept))
        by_row, by_donor = torch.zeros((2, self.boxes.n), dtype=torch.float64, device=self.device)
        words = row_bits.shape[1]
        for start in range(0, words, DONOR_WORDS):
            part_words = slice(start, min(start + DONOR_WORDS, words))
            donors, of_donors = self._rows(part_words), self._unpack(donor_bits[:, part_words])

            def means(part: slice, of_donors: Any = of_donors, donors: slice = donors) -> tuple[Any, Any]:
                return self._means(row_bits[:, part], of_donors, self._rows(part), donors)

            for part, (row_part, donor_part) in self.sizes.over(words, means):
                by_row[self._rows(part)] += row_part
                by_donor[donors] += donor_part
        return by_row.cpu().numpy(), by_donor.cpu().numpy()

    def _means(self, row_bits: Any, of_donors: Any, rows: slice, donors: slice) -> tuple[Any, Any]:
        """Contribution of the pairs of these rows and donors to the means of both."""
        of_rows, weights = self._unpack(row_bits), (self.weight[rows], self.weight[donors])
        sums = [self._sums(of_rows, of_donors, k, rows, donors) for k in range(len(self.digits))]
        if self.fused is not None:
            affine = self.shift[rows, 0].contiguous(), self.scale[rows, 0].contiguous()
            means: tuple[Any, Any] = self.fused(sums[0], BASE, affine, weights, self.loss.fused, self.clip)
            return means
        arguments = torch.stack([self._argument(digits, rows, k) for k, digits in enumerate(sums)])
        losses = self.loss.evaluate(self.y[rows], arguments)
        return losses @ weights[1], weights[0] @ losses

    def _sums(self, of_rows: Any, of_donors: Any, k: int, rows: slice, donors: slice) -> Any:
        """Sums of digits of one output, (digits, rows, donors)."""
        terms = (of_rows[:, None] * self.digits[k]).reshape(len(of_rows), -1).T
        single = terms.dtype == torch.float32
        product = torch.mm(terms, of_donors) if single else torch.mm(terms, of_donors, out_dtype=torch.float32)
        sums = product.view(-1, of_rows.shape[1], of_donors.shape[1])
        return sums[:, : rows.stop - rows.start, : donors.stop - donors.start]

    def _argument(self, sums: Any, rows: slice, k: int) -> Any:
        """The affine argument of the loss, from sums of digits."""
        total = sums[0].double()
        for lower in sums[1:]:
            total = total.mul_(BASE).add_(lower)
        return total.mul_(self.scale[rows, k, None]).add_(self.shift[rows, k, None])

    def _unpack(self, bits: Any) -> Any:
        """Zeros and ones, (leaves, rows)."""
        return self.boxes.unpack(bits).to(self.kind)

    def _rows(self, words: slice) -> slice:
        return slice(words.start * WORD, min(words.stop * WORD, self.boxes.n))

    def _on(self, array: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


def _fused() -> Any:
    """The compiled function from sums to means; None if torch comes without Triton."""
    try:
        from losslens.engines.gpu.fused import means
    except ImportError:
        return None
    return means


def _digits(integers: Floats, count: int) -> Floats:
    """``sum of digit[d] BASE^(count - 1 - d)``, the highest first."""
    lowest_first = []
    for _ in range(count - 1):
        low = np.mod(integers + BASE // 2, BASE) - BASE // 2
        lowest_first.append(low)
        integers = (integers - low) / BASE
    return np.stack([integers, *lowest_first[::-1]])


def _centred(boxes: Boxes) -> tuple[Floats, Floats, Floats]:
    """Leaf values relative to the middle of their tree; the sum of the middles; the largest leaf of each tree."""
    trees, outputs = int(boxes.tree.max()) + 1, boxes.value.shape[1]
    low, high = np.full((trees, outputs), np.inf), np.full((trees, outputs), -np.inf)
    np.minimum.at(low, boxes.tree, boxes.value)
    np.maximum.at(high, boxes.tree, boxes.value)
    middle = (low + high) / 2
    return boxes.value - middle[boxes.tree], middle.sum(axis=0), (high - low) / 2
