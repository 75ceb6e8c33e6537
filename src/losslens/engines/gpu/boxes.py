"""Trees as boxes, in plain arrays: the condition of each leaf on each column, and the rows that fulfil it, as bits.

A leaf is a box: a condition on each column. For a coalition S the rows that fulfil a leaf's conditions on the columns
of S are the bitwise conjunction of the rows that fulfil each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from losslens.typing import Floats, Mask

WORD = 64  # rows in a word of bits; leaves are padded to a multiple of it, as int8 matrix units need
DIGIT = 8  # bits of a digit


def as_mask(kept: Any, columns: int) -> Mask:
    """Columns, given by number or as a mask, as a mask."""
    chosen = np.asarray(kept)
    if chosen.dtype == np.bool_:
        return chosen
    mask = np.zeros(columns, np.bool_)
    mask[chosen.astype(np.intp)] = True
    return mask


@dataclass(frozen=True, eq=False)
class Boxes:
    """The prediction is ``offset + sum of the values of the leaves that contain the row``, one number per output."""

    n: int
    condition: NDArray[np.int32]  # (leaves, columns): a row of `bits`; 0: no condition
    bits: NDArray[np.uint64]  # (conditions, words): the rows that fulfil it, row 64 w + b at bit b of word w
    value: Floats  # (leaves, outputs)
    tree: NDArray[np.intp]  # (leaves,)
    offset: Floats  # (outputs,)

    @property
    def used(self) -> Mask:
        """The columns on which some leaf has a condition."""
        return np.asarray((self.condition != 0).any(axis=0))


class DeviceBoxes:
    """Boxes on a device: the rows that fulfil the leaves' conditions on some columns."""

    def __init__(self, boxes: Boxes, device: str) -> None:
        self.n, self.used = boxes.n, boxes.used
        leaves = -(-len(boxes.value) // WORD) * WORD  # padded with leaves of value 0
        condition = np.zeros((boxes.condition.shape[1], leaves), np.int64)
        condition[:, : len(boxes.value)] = boxes.condition.T
        value = np.zeros((leaves, boxes.value.shape[1]))
        value[: len(boxes.value)] = boxes.value
        self.condition = torch.from_numpy(condition).to(device)
        self.value = torch.from_numpy(value).to(device)
        self.bits = torch.from_numpy(boxes.bits.view(np.int64)).to(device)
        self.place = torch.arange(DIGIT, dtype=torch.uint8, device=device)

    def fulfilled(self, columns: Mask) -> Any:
        """The rows that fulfil the conditions on these columns, as bits, (leaves, words)."""
        rows = None
        for j in np.flatnonzero(columns & self.used):
            of_column = self.bits.index_select(0, self.condition[j])
            rows = of_column if rows is None else rows.bitwise_and_(of_column)
        return self.bits[:1].expand(len(self.value), -1).contiguous() if rows is None else rows

    def unpack(self, words: Any) -> Any:
        """Bits as zeros and ones, (leaves, 64 words)."""
        ones = (words.view(torch.uint8)[..., None] >> self.place).bitwise_and_(1)
        return ones.view(torch.int8).reshape(len(words), -1)


def digits(integers: Any, count: int) -> Any:
    """Integers as `count` digits from -128 to 127, the lowest first: ``sum of digit[d] 256^d``.

    >>> digits(torch.tensor([300, -129]), 2).tolist()
    [[44, 127], [1, -1]]
    """
    lowest_first = []
    for _ in range(count):
        low = torch.remainder(integers + 128, 256) - 128
        lowest_first.append(low.to(torch.int8))
        integers = (integers - low) >> DIGIT
    return torch.stack(lowest_first)
