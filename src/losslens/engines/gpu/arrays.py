"""NumPy's functions on tensors of a device, as far as walks use them: one code for both.

When the device runs out of memory, the work is repeated in halves (`BatchSizes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from losslens.typing import Floats

LARGE = 1 << 19  # numbers that NumPy, unlike torch, finds large pages of memory for: others take long to be filled
_DTYPES = {float: torch.float64, bool: torch.bool, np.int16: torch.int16}
Result = TypeVar("Result")
ALLOCATION_ERRORS = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")  # messages of CUDA's libraries


class DeviceArrays:
    """Tensors of one device, by the names of NumPy's functions."""

    at_once = 1 << 26  # numbers of a temporary array

    def __init__(self, device: Any) -> None:
        self.device = device

    def asarray(self, array: Any, dtype: Any = None) -> Any:
        """A tensor on the device."""
        if not isinstance(array, torch.Tensor):
            array = torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
        return array if dtype is None else array.to(_DTYPES[dtype])

    def empty(self, shape: Sequence[int], dtype: Any = float) -> Any:
        """Numbers in double precision, or of the dtype of another tensor."""
        return torch.empty(tuple(shape), dtype=_DTYPES.get(dtype, dtype), device=self.device)

    def zeros(self, shape: Any, dtype: Any = float) -> Any:
        """Zeros, as `empty`."""
        return torch.zeros(shape, dtype=_DTYPES.get(dtype, dtype), device=self.device)

    def arange(self, *ends: int) -> Any:
        """Whole numbers."""
        return torch.arange(*ends, device=self.device)

    def argsort(self, array: Any, axis: int) -> Any:
        """The order of the entries along an axis."""
        return torch.argsort(array, dim=axis)

    def take_along_axis(self, array: Any, index: Any, axis: int) -> Any:
        """Entries along an axis."""
        return torch.take_along_dim(array, index.long(), dim=axis)

    def max(self, array: Any, axis: int) -> Any:
        """The largest entry along an axis."""
        return torch.amax(array, dim=axis)

    def nonzero(self, array: Any) -> Any:
        """Positions of entries that are not 0, one tensor an axis."""
        return torch.nonzero(array, as_tuple=True)

    def concatenate(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """One after the other."""
        return torch.cat(list(arrays), dim=axis)

    def stack(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """Along a new axis."""
        return torch.stack(list(arrays), dim=axis)

    def cumsum(self, array: Any, axis: int) -> Any:
        """Running sums along the last axis, as a product: torch takes long for many short rows."""
        p = array.shape[axis]
        return array @ torch.ones((p, p), dtype=array.dtype, device=self.device).triu()

    def where(self, condition: Any, yes: Any, no: Any) -> Any:
        """One or the other."""
        return torch.where(condition, yes, no)

    def einsum(self, words: str, *arrays: Any) -> Any:
        """Sums of products."""
        return torch.einsum(words, *arrays)

    def bincount(self, keys: Any, weights: Any = None, minlength: int = 0) -> Any:
        """Sums of weights by key, always added in the same order; without weights counts."""
        if weights is None:
            return torch.bincount(keys, minlength=minlength).double()
        return SumsByKey(keys, minlength)(weights)

    def sums_by_key(self, keys: Any, size: int) -> SumsByKey:
        """Sums of numbers with equal keys."""
        return SumsByKey(keys, size)


class SumsByKey:
    """Sums of numbers with equal keys 0 .. size - 1, always added in the same order, unlike atomic additions."""

    def __init__(self, keys: Any, size: int) -> None:
        self.axes = keys.ndim
        ordered, self.order = torch.sort(keys.reshape(-1), stable=True)
        # Not by `bincount`, which would wait for the device to find the largest key.
        ends = torch.searchsorted(ordered, torch.arange(size, device=keys.device), right=True)
        self.lengths = torch.diff(ends, prepend=ends.new_zeros(1))

    def __call__(self, numbers: Any) -> Any:
        """The sum for each key of numbers with the shape of the keys, or with one more axis."""
        numbers = numbers.reshape(len(self.order), *numbers.shape[self.axes :])
        return torch.segment_reduce(numbers[self.order], "sum", lengths=self.lengths, unsafe=True)


class Copied:
    """A tensor being copied to this processor; the copy does not wait for work that is launched after it."""

    def __init__(self, tensor: Any) -> None:
        self.tensor, self.done = tensor, None
        if isinstance(tensor, torch.Tensor) and tensor.is_cuda:
            self.tensor = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self.tensor.copy_(tensor, non_blocking=True)
            self.done = torch.cuda.Event()
            self.done.record(torch.cuda.current_stream(tensor.device))

    def wait(self) -> Any:
        """The copy, when it is complete."""
        if self.done is not None:
            self.done.synchronize()
        return self.tensor


def host(numbers: Any) -> Floats:
    """Copied to this processor."""
    if numbers.numel() < LARGE:
        return np.asarray(numbers.cpu().numpy())
    array = np.empty(tuple(numbers.shape), torch.empty(0, dtype=numbers.dtype).numpy().dtype)
    torch.from_numpy(array).copy_(numbers)
    return array


@dataclass
class BatchSizes:
    """Work done `size` units at a time; if a part does not fit, it and all later ones are halved."""

    size: int
    unit: str
    smallest: int = 1

    def over(self, total: int, work: Callable[[slice], Result]) -> Iterator[tuple[slice, Result]]:
        """The work on 0 .. total, part by part.

        >>> [result for _, result in BatchSizes(2, "rows").over(5, lambda part: part.stop)]
        [2, 4, 5]
        """
        start = 0
        while start < total:
            part = slice(start, min(start + self.size, total))
            try:
                result = work(part)
            except RuntimeError as error:
                self.size = part.stop - part.start
                self.halve(error)
                continue
            yield part, result
            start = part.stop

    def halve(self, error: RuntimeError) -> None:
        """Halve the size; raises MemoryError if it can't be halved, and `error` if it is about something else."""
        is_memory = isinstance(error, torch.cuda.OutOfMemoryError)
        if not is_memory and not any(message in str(error) for message in ALLOCATION_ERRORS):
            raise error
        if self.size <= self.smallest:
            raise MemoryError(
                f"the device has too little memory for {self.size} {self.unit} at a time; free some of it, or compute "
                "on the CPU"
            ) from error
        self.size = max(self.smallest, self.size // 2)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # fragments of the failed attempt
