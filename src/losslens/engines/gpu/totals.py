"""Mean squared errors of coalitions over all pairs, on a device: two products of 0/1 matrices per coalition.

With a_l the rows that fulfil a leaf's conditions on kept columns and b_l those that fulfil its conditions on replaced
ones, the mean of f^2 over all n^2 pairs is the sum of ``v_l v_l' |a_l & a_l'| |b_l & b_l'| / n^2``: integer counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from losslens.engines.gpu.boxes import WORD, Boxes, DeviceBoxes, as_mask, digits
from losslens.engines.gpu.memory import BatchSizes
from losslens.typing import Floats, Mask

TILE = 4096  # leaves that are compared with as many others at a time
CHUNK_WORDS = 1 << 12  # words of rows' bits that are unpacked at a time
DIGITS = 7  # of y: 54 bits and a sign


class DeviceErrors:
    """As `CoalitionErrors`, for boxes on a device.

    With equal weights the products are of int8 matrices, with integer sums; y enters as digits. With other weights they
    are in double precision, which takes four times as long.
    """

    def __init__(self, boxes: Boxes, y: Floats, weight: Floats, device: str) -> None:
        self.boxes, self.device, self.tile = DeviceBoxes(boxes, device), device, BatchSizes(TILE, "leaves", WORD)
        share = weight / weight.sum()
        self.equal = bool(np.all(share == share[0]))
        self.mass = float(len(share)) if self.equal else 1.0
        y = np.asarray(y, np.float64).reshape(len(y), -1)
        mean = share @ y
        mean = mean + share @ (y - mean)  # corrects the rounding error of the mean
        self.y, self.share = self._on(y - mean), self._on(share)
        self._prepare_factors(boxes.bits.shape[1] * WORD)
        self.value, self.offset = self._centred(boxes, mean)

    def error(self, kept: Any) -> float:
        """The error if these columns are kept and all others replaced by a donor's."""
        return self.errors(kept)[0]

    def errors(self, kept: Any) -> tuple[float, float]:
        """The errors if these columns are kept, and if all others are: both come from the same counts."""
        used = self.boxes.used
        mask = as_mask(kept, len(used)) & used
        if not mask.any() or mask[used].all():
            all_kept, none_kept = self._trivial_errors()
            return (all_kept, none_kept) if mask[used].all() else (none_kept, all_kept)
        while True:
            try:
                return self._errors(mask)
            except RuntimeError as error:
                self.tile.halve(error)

    def _errors(self, kept: Mask) -> tuple[float, float]:
        sides = self.boxes.fulfilled(kept), self.boxes.fulfilled(~kept)
        value, square = self.value, torch.zeros((), dtype=torch.float64, device=self.device)
        sums = torch.empty((2, len(value), self.y.shape[1] + 1), dtype=torch.float64, device=self.device)
        for a, b in self._tiles():
            shared = [self._compare(side, a, b, sums[o] if a == b else None) for o, side in enumerate(sides)]
            both = torch.mul(shared[0], shared[1].double())
            square += (1 if a == b else 2) * torch.sum(value[a] * (both @ value[b]))
        rows = sums[:, :, :1]
        mean = torch.sum(value * rows[0] * rows[1], dim=0) / self.mass**2
        centred = square / self.mass**2 + torch.sum(self.offset * (self.offset + 2 * mean)) + self._target_square
        products = [torch.sum(value * sums[o, :, 1:] * rows[1 - o]) / self.mass**2 for o in range(2)]
        kept_error, complement_error = torch.stack([centred - 2 * product for product in products]).tolist()
        return kept_error, complement_error

    def _trivial_errors(self) -> tuple[float, float]:
        """The errors if all columns that the trees use are kept, and if none is: both without any cancellation."""
        own = torch.zeros(
            (self.boxes.bits.shape[1] * WORD, self.value.shape[1]), dtype=torch.float64, device=self.device
        )
        bits = self.boxes.fulfilled(self.boxes.used)
        for a in self._leaves():
            for words, rows in self._chunks():
                own[rows] += self.boxes.unpack(bits[a, words]).T.double() @ self.value[a]
        own = own[: len(self.y)] + self.offset
        all_kept = torch.sum(self.share @ (own - self.y) ** 2)
        return float(all_kept), float(torch.sum(self.share @ own**2) + self._target_square)

    def _prepare_factors(self, padded: int) -> None:
        """Factors of the leaves' bits: a one and y of each row, as digits or as they are; and the rows' weights."""
        rows, outputs = self.y.shape
        self._target_square = torch.sum(self.share @ self.y**2)
        largest = max(float(self.y.abs().max()), 1e-300)
        self.unit = float(2.0 ** (np.ceil(np.log2(largest)) + 2 - 8 * DIGITS))
        if self.equal:
            self.factors = torch.zeros(
                (-(-(1 + DIGITS * outputs) // 8) * 8, padded), dtype=torch.int8, device=self.device
            )
            self.factors[0, :rows] = 1
            integers = torch.round(self.y.T / self.unit).to(torch.int64)
            self.factors[1 : 1 + DIGITS * outputs, :rows] = digits(integers, DIGITS).reshape(-1, rows)
            return
        self.weight = torch.zeros(padded, dtype=torch.float64, device=self.device)
        self.weight[:rows] = self.share
        self.factors = torch.zeros((1 + outputs, padded), dtype=torch.float64, device=self.device)
        self.factors[0, :rows], self.factors[1:, :rows] = 1, self.y.T

    def _centred(self, boxes: Boxes, mean: Floats) -> tuple[Any, Any]:
        """Leaf values relative to the mean of their tree: no digits are lost to a common constant."""
        value, tree = self.boxes.value, torch.zeros(len(self.boxes.value), dtype=torch.int64, device=self.device)
        tree[: len(boxes.tree)] = self._on(boxes.tree)
        sums = torch.empty((len(value), self.y.shape[1] + 1), dtype=torch.float64, device=self.device)
        bits = self.boxes.fulfilled(self.boxes.used)
        for a in self._leaves():
            sums[a] = sum(self._row_sums(self.boxes.unpack(bits[a, words]), rows) for words, rows in self._chunks())
        tree_means = torch.zeros((int(boxes.tree.max()) + 1, value.shape[1]), dtype=torch.float64, device=self.device)
        tree_means.index_add_(0, tree, value * sums[:, :1] / self.mass)
        real = torch.arange(len(value), device=self.device)[:, None] < len(boxes.tree)
        return torch.where(real, value - tree_means[tree], 0.0), self._on(boxes.offset - mean) + tree_means.sum(dim=0)

    def _compare(self, bits: Any, a: slice, b: slice, sums: Any) -> Any:
        """The rows that leaves share, or their weight, (a, b); and, if a is b, `sums` over the rows of each leaf."""
        shared = None
        if sums is not None:
            sums[a] = 0
        for words, rows in self._chunks():
            of_a = self.boxes.unpack(bits[a, words])
            of_b = of_a if a == b else self.boxes.unpack(bits[b, words])
            part = self._product(of_a, of_b, rows)
            shared = part if shared is None else shared.add_(part)
            if sums is not None:
                sums[a] += self._row_sums(of_a, rows)
        return shared

    def _product(self, left: Any, right: Any, rows: slice) -> Any:
        if self.equal and left.is_cuda:
            return torch._int_mm(left, right.T)
        if self.equal:  # a CPU has no int8 matrix units; the same integers
            return left.double() @ right.double().T
        return (left * self.weight[rows]) @ right.double().T

    def _row_sums(self, of_leaves: Any, rows: slice) -> Any:
        """Number or weight of each leaf's rows, and the sums of their y; from sums of digits if weights are equal."""
        product = self._product(of_leaves, self.factors[:, rows], rows)
        if not self.equal:
            return product
        outputs = self.y.shape[1]
        parts = product[:, 1 : 1 + DIGITS * outputs].reshape(len(product), DIGITS, outputs).double()
        powers = self.unit * 256.0 ** torch.arange(DIGITS, dtype=torch.float64, device=self.device)
        return torch.cat([product[:, :1].double(), (parts * powers[:, None]).sum(dim=1)], dim=1)

    def _leaves(self) -> Iterator[slice]:
        for start in range(0, len(self.boxes.value), self.tile.size):
            yield slice(start, min(start + self.tile.size, len(self.boxes.value)))

    def _tiles(self) -> Iterator[tuple[slice, slice]]:
        """Pairs of tiles of leaves, once each: shared counts are symmetric."""
        for a in self._leaves():
            for b in self._leaves():
                if a.start <= b.start:
                    yield a, b

    def _chunks(self) -> Iterator[tuple[slice, slice]]:
        """Words of bits, and the rows that they are."""
        words = self.boxes.bits.shape[1]
        for start in range(0, words, CHUNK_WORDS):
            stop = min(start + CHUNK_WORDS, words)
            yield slice(start, stop), slice(start * WORD, stop * WORD)

    def _on(self, array: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
