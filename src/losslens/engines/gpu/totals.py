"""Mean squared errors of coalitions over all pairs, on a device: two products of 0/1 matrices a coalition.

With a_l the rows that meet a leaf's conditions on kept columns and b_l those that meet its conditions on lent ones, the
mean of f^2 over all n^2 pairs is the sum of ``v_l v_l' |a_l & a_l'| |b_l & b_l'| / n^2``. Counts are whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from losslens.engines.gpu.boxes import WHOLE, Boxes, Sides, digits, marks
from losslens.engines.gpu.memory import BatchSizes
from losslens.typing import Floats, Mask

TILE = 4096  # leaves that are compared with as many others at a time
CHUNK = 1 << 12  # words of rows that are spread at a time
DIGITS = 7  # of y: 54 bits and a sign


class DeviceErrors:
    """The same as `CoalitionErrors`, of boxes on a device.

    With equal weights the products are of bytes, summed up as whole numbers; y enters as digits. With others they are
    of numbers in double precision, which takes four times as long.
    """

    def __init__(self, boxes: Boxes, y: Floats, weight: Floats, device: str) -> None:
        self.sides, self.device, self.tile = Sides(boxes, device), device, BatchSizes(TILE, "leaves", WHOLE)
        share = weight / weight.sum()
        self.equal = bool(np.all(share == share[0]))
        self.mass = float(len(share)) if self.equal else 1.0
        y = np.asarray(y, np.float64).reshape(len(y), -1)
        mean = share @ y
        mean = mean + share @ (y - mean)  # what rounding has left
        self.y, self.share = self._on(y - mean), self._on(share)
        self._lay_out(boxes.bits.shape[1] * WHOLE)
        self.value, self.offset = self._centred(boxes, mean)

    def error(self, kept: Any) -> float:
        """The error where these columns are kept and a donor lends all others."""
        return self.errors(kept)[0]

    def errors(self, kept: Any) -> tuple[float, float]:
        """The errors where these columns are kept, and where all others are: the work is the same."""
        asked = self.sides.asked
        mine = marks(kept, len(asked)) & asked
        if not mine.any() or mine[asked].all():
            together, apart = self._whole()
            return (together, apart) if mine[asked].all() else (apart, together)
        while True:
            try:
                return self._errors(mine)
            except RuntimeError as error:
                self.tile.halve(error)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _errors(self, kept: Mask) -> tuple[float, float]:
        sides = self.sides.met(kept), self.sides.met(~kept)
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
        together, apart = torch.stack([centred - 2 * product for product in products]).tolist()
        return together, apart

    def _whole(self) -> tuple[float, float]:
        """The errors where all columns that matter are kept, and where none is: neither is a difference."""
        own = torch.zeros(
            (self.sides.bits.shape[1] * WHOLE, self.value.shape[1]), dtype=torch.float64, device=self.device
        )
        met = self.sides.met(self.sides.asked)
        for a in self._leaves():
            for words, rows in self._chunks():
                own[rows] += self.sides.spread(met[a, words]).T.double() @ self.value[a]
        own = own[: len(self.y)] + self.offset
        together = torch.sum(self.share @ (own - self.y) ** 2)
        return float(together), float(torch.sum(self.share @ own**2) + self._target_square)

    def _lay_out(self, room: int) -> None:
        """What stands beside the leaves: a one and y of each row, in digits or as they are; and the rows' weights."""
        rows, outputs = self.y.shape
        self._target_square = torch.sum(self.share @ self.y**2)
        largest = max(float(self.y.abs().max()), 1e-300)
        self.unit = float(2.0 ** (np.ceil(np.log2(largest)) + 2 - 8 * DIGITS))
        if self.equal:
            self.beside = torch.zeros((-(-(1 + DIGITS * outputs) // 8) * 8, room), dtype=torch.int8, device=self.device)
            self.beside[0, :rows] = 1
            whole = torch.round(self.y.T / self.unit).to(torch.int64)
            self.beside[1 : 1 + DIGITS * outputs, :rows] = digits(whole, DIGITS).reshape(-1, rows)
            return
        self.weight = torch.zeros(room, dtype=torch.float64, device=self.device)
        self.weight[:rows] = self.share
        self.beside = torch.zeros((1 + outputs, room), dtype=torch.float64, device=self.device)
        self.beside[0, :rows], self.beside[1:, :rows] = 1, self.y.T

    def _centred(self, boxes: Boxes, mean: Floats) -> tuple[Any, Any]:
        """Leaves relative to what their tree says on average: no digits are lost to what all have in common."""
        value, tree = self.sides.value, torch.zeros(len(self.sides.value), dtype=torch.int64, device=self.device)
        tree[: len(boxes.tree)] = self._on(boxes.tree)
        sums = torch.empty((len(value), self.y.shape[1] + 1), dtype=torch.float64, device=self.device)
        met = self.sides.met(self.sides.asked)
        for a in self._leaves():
            sums[a] = self._beside(met, a)
        said = torch.zeros((int(boxes.tree.max()) + 1, value.shape[1]), dtype=torch.float64, device=self.device)
        said.index_add_(0, tree, value * sums[:, :1] / self.mass)
        real = torch.arange(len(value), device=self.device)[:, None] < len(boxes.tree)
        return torch.where(real, value - said[tree], 0.0), self._on(boxes.offset - mean) + said.sum(dim=0)

    def _compare(self, met: Any, a: slice, b: slice, sums: Any) -> Any:
        """The rows that leaves share, or their weight, (a, b); and, where a is b, `sums` over the rows of each leaf."""
        shared = None
        if sums is not None:
            sums[a] = 0
        for words, rows in self._chunks():
            mine = self.sides.spread(met[a, words])
            other = mine if a == b else self.sides.spread(met[b, words])
            more = self._product(mine, other, rows)
            shared = more if shared is None else shared.add_(more)
            if sums is not None:
                sums[a] += self._read(self._product(mine, self.beside[:, rows], rows))
        return shared

    def _beside(self, met: Any, a: slice) -> Any:
        parts = (
            self._read(self._product(self.sides.spread(met[a, words]), self.beside[:, rows], rows))
            for words, rows in self._chunks()
        )
        return sum(parts)

    def _product(self, mine: Any, other: Any, rows: slice) -> Any:
        if self.equal and mine.is_cuda:
            return torch._int_mm(mine, other.T)
        if self.equal:  # a CPU has no units for bytes; the same whole numbers
            return mine.double() @ other.double().T
        return (mine * self.weight[rows]) @ other.double().T

    def _read(self, product: Any) -> Any:
        """Rows and sums of y, from sums of digits."""
        if not self.equal:
            return product
        outputs = self.y.shape[1]
        parts = product[:, 1 : 1 + DIGITS * outputs].reshape(len(product), DIGITS, outputs).double()
        powers = self.unit * 256.0 ** torch.arange(DIGITS, dtype=torch.float64, device=self.device)
        return torch.cat([product[:, :1].double(), (parts * powers[:, None]).sum(dim=1)], dim=1)

    def _leaves(self) -> Iterator[slice]:
        for start in range(0, len(self.sides.value), self.tile.size):
            yield slice(start, min(start + self.tile.size, len(self.sides.value)))

    def _tiles(self) -> Iterator[tuple[slice, slice]]:
        """Pairs of leaves, once: what they share is symmetric."""
        for a in self._leaves():
            for b in self._leaves():
                if a.start <= b.start:
                    yield a, b

    def _chunks(self) -> Iterator[tuple[slice, slice]]:
        """Words of bits, and the rows they stand for."""
        words = self.sides.bits.shape[1]
        for start in range(0, words, CHUNK):
            stop = min(start + CHUNK, words)
            yield slice(start, stop), slice(start * WHOLE, stop * WHOLE)

    def _on(self, array: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
