"""One Triton kernel over the sums of a block of pairs: digits are combined, losses evaluated and averaged.

Operation by operation the same takes a pass over the block each, and more time than the matrix product before it.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Kinds of loss: of a residual, of a residual, and of a score with the sign of the wrong class.
SQUARED, ABSOLUTE, LOGISTIC = 0, 1, 2
ROWS, DONORS = 32, 128  # of a tile


def means(
    sums: Any, base: int, affine: tuple[Any, Any], weights: tuple[Any, Any], kind: int, clip: Any
) -> tuple[Any, Any]:
    """The rows' and the donors' weighted mean losses, from sums of digits (digits, rows, donors), the highest first.

    The loss of a pair is a function of ``shift + scale * sum``; `affine` is shift and scale. `clip` holds the smallest
    and the largest log loss, as a tensor, because a Python number would be passed in single precision.
    """
    rows, donors = len(weights[0]), len(weights[1])
    grid = -(-rows // ROWS), -(-donors // DONORS)
    by_row = torch.empty((grid[1], rows), dtype=torch.float64, device=sums.device)
    by_donor = torch.empty((grid[0], donors), dtype=torch.float64, device=sums.device)
    _mean_losses[grid](
        sums, *affine, *weights, by_row, by_donor, rows, donors, sums.stride(0), sums.stride(1), clip,
        BASE=base, DIGITS=len(sums), KIND=kind, BM=ROWS, BN=DONORS,
    )  # fmt: skip
    return by_row.sum(dim=0), by_donor.sum(dim=0)  # always in the same order, unlike atomic additions


@triton.jit
def _mean_losses(
    sums, shift, scale, row_weight, donor_weight, by_row, by_donor, rows, donors, digit_step, row_step, clip,
    BASE: tl.constexpr, DIGITS: tl.constexpr, KIND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    k = tl.program_id(1) * BN + tl.arange(0, BN)
    real = (i < rows)[:, None] & (k < donors)[None, :]
    at = i.to(tl.int64)[:, None] * row_step + k[None, :]
    total = tl.load(sums + at, mask=real, other=0.0).to(tl.float64)
    for d in tl.static_range(1, DIGITS):
        total = total * BASE + tl.load(sums + d * digit_step.to(tl.int64) + at, mask=real, other=0.0).to(tl.float64)
    first = tl.load(shift + i, mask=i < rows, other=0.0)
    unit = tl.load(scale + i, mask=i < rows, other=0.0)
    argument = first[:, None] + unit[:, None] * total
    if KIND == 0:
        loss = argument * argument
    elif KIND == 1:
        loss = tl.abs(argument)
    else:
        loss = tl.maximum(argument, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(argument)))
        loss = tl.minimum(tl.maximum(loss, tl.load(clip)), tl.load(clip + 1))
    loss = tl.where(real, loss, 0.0)
    of_rows = tl.load(row_weight + i, mask=i < rows, other=0.0)
    of_donors = tl.load(donor_weight + k, mask=k < donors, other=0.0)
    tl.store(by_row + tl.program_id(1) * rows + i, tl.sum(loss * of_donors[None, :], 1), mask=i < rows)
    tl.store(by_donor + tl.program_id(0) * donors + k, tl.sum(loss * of_rows[:, None], 0), mask=k < donors)
