"""When a device runs out of memory, the work is repeated in halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch

Result = TypeVar("Result")
ALLOCATION_ERRORS = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")  # messages of CUDA's libraries


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
