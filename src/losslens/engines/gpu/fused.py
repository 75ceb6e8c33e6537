"""One pass over the sums of a block of pairs: digits put together, judged and averaged, where Triton is at hand.

Step by step the same takes a pass over the block for every operation, and more time than the matrix product before it.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

SQUARED, ABSOLUTE, LOGISTIC = 0, 1, 2  # what is seen: a residual, a residual, a score with the sign of the wrong class
ROWS, DONORS = 32, 128  # of a tile


def means(
    sums: Any, base: int, seen: tuple[Any, Any], weights: tuple[Any, Any], kind: int, clip: Any
) -> tuple[Any, Any]:
    """The rows' and the donors' weighted mean losses, from sums of digits (digits, rows, donors), the highest first.

    A pair is seen as ``shift + scale * sum``; `clip` holds the least and the largest log loss, as a tensor, because a
    number of Python's would come in single precision.
    """
    rows, donors = len(weights[0]), len(weights[1])
    grid = -(-rows // ROWS), -(-donors // DONORS)
    by_row = torch.empty((grid[1], rows), dtype=torch.float64, device=sums.device)
    by_donor = torch.empty((grid[0], donors), dtype=torch.float64, device=sums.device)
    _judge[grid](
        sums, *seen, *weights, by_row, by_donor, rows, donors, sums.stride(0), sums.stride(1), clip,
        BASE=base, DIGITS=len(sums), KIND=kind, BM=ROWS, BN=DONORS,
    )  # fmt: skip
    return by_row.sum(dim=0), by_donor.sum(dim=0)  # in the same order always, unlike additions by whoever comes first


@triton.jit
def _judge(
    sums, shift, scale, row_weight, donor_weight, by_row, by_donor, rows, donors, digit_step, row_step, clip,
    BASE: tl.constexpr, DIGITS: tl.constexpr, KIND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    k = tl.program_id(1) * BN + tl.arange(0, BN)
    real = (i < rows)[:, None] & (k < donors)[None, :]
    at = i.to(tl.int64)[:, None] * row_step + k[None, :]
    whole = tl.load(sums + at, mask=real, other=0.0).to(tl.float64)
    for d in tl.static_range(1, DIGITS):
        whole = whole * BASE + tl.load(sums + d * digit_step.to(tl.int64) + at, mask=real, other=0.0).to(tl.float64)
    first = tl.load(shift + i, mask=i < rows, other=0.0)
    unit = tl.load(scale + i, mask=i < rows, other=0.0)
    seen = first[:, None] + unit[:, None] * whole
    if KIND == 0:
        loss = seen * seen
    elif KIND == 1:
        loss = tl.abs(seen)
    else:
        loss = tl.maximum(seen, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(seen)))
        loss = tl.minimum(tl.maximum(loss, tl.load(clip)), tl.load(clip + 1))
    loss = tl.where(real, loss, 0.0)
    mine = tl.load(row_weight + i, mask=i < rows, other=0.0)
    theirs = tl.load(donor_weight + k, mask=k < donors, other=0.0)
    tl.store(by_row + tl.program_id(1) * rows + i, tl.sum(loss * theirs[None, :], 1), mask=i < rows)
    tl.store(by_donor + tl.program_id(0) * donors + k, tl.sum(loss * mine[:, None], 0), mask=k < donors)
