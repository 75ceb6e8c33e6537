"""Trees as boxes, in plain arrays: what each leaf asks of each column, and which rows meet that; as bits on a device.

A leaf is a box: a condition on each column. For a coalition S the rows that meet a leaf's conditions on the columns of
S are the conjunction of some rows of bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from losslens.typing import Floats, Mask

WHOLE = 64  # sizes are multiples of this: what the units for small whole numbers want
DIGIT = 8  # bits


def marks(kept: Any, columns: int) -> Mask:
    """Columns, by number or as marks, as marks."""
    given = np.asarray(kept)
    if given.dtype == np.bool_:
        return given
    found = np.zeros(columns, np.bool_)
    found[given.astype(np.intp)] = True
    return found


@dataclass(frozen=True, eq=False)
class Boxes:
    """The answer is ``offset + sum over the leaves that a row meets of value``, one number an output."""

    n: int
    condition: NDArray[np.int32]  # (leaves, columns): a row of `bits`; 0: anything
    bits: NDArray[np.uint64]  # (conditions, words): the rows that meet it, row 64 w + b at bit b of word w
    value: Floats  # (leaves, outputs)
    tree: NDArray[np.intp]  # (leaves,)
    offset: Floats  # (outputs,)

    @property
    def asked(self) -> Mask:
        """The columns that a leaf has a condition on."""
        return np.asarray((self.condition != 0).any(axis=0))


class Sides:
    """Boxes on a device: the rows that meet the leaves' conditions on some columns."""

    def __init__(self, boxes: Boxes, device: str) -> None:
        self.n, self.asked = boxes.n, boxes.asked
        leaves = -(-len(boxes.value) // WHOLE) * WHOLE  # more leaves of value 0
        condition = np.zeros((boxes.condition.shape[1], leaves), np.int64)
        condition[:, : len(boxes.value)] = boxes.condition.T
        value = np.zeros((leaves, boxes.value.shape[1]))
        value[: len(boxes.value)] = boxes.value
        self.condition = torch.from_numpy(condition).to(device)
        self.value = torch.from_numpy(value).to(device)
        self.bits = torch.from_numpy(boxes.bits.view(np.int64)).to(device)
        self.place = torch.arange(DIGIT, dtype=torch.uint8, device=device)

    def met(self, columns: Mask) -> Any:
        """The rows that meet the conditions on these columns, (leaves, words)."""
        found = None
        for j in np.flatnonzero(columns & self.asked):
            more = self.bits.index_select(0, self.condition[j])
            found = more if found is None else found.bitwise_and_(more)
        return self.bits[:1].expand(len(self.value), -1).contiguous() if found is None else found

    def spread(self, words: Any) -> Any:
        """Bits as zeros and ones, (leaves, 64 words)."""
        ones = (words.view(torch.uint8)[..., None] >> self.place).bitwise_and_(1)
        return ones.view(torch.int8).reshape(len(words), -1)


def digits(whole: Any, count: int) -> Any:
    """Whole numbers as so many digits from -128 to 127, the lowest first: ``sum of digit[d] 256^d``.

    >>> digits(torch.tensor([300, -129]), 2).tolist()
    [[44, 127], [1, -1]]
    """
    found = []
    for _ in range(count):
        low = torch.remainder(whole + 128, 256) - 128
        found.append(low.to(torch.int8))
        whole = (whole - low) >> DIGIT
    return torch.stack(found)
