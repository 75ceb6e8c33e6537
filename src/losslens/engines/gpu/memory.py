"""What is done where a device runs out of memory: the same work in halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch

Found = TypeVar("Found")
LIBRARIES = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")  # their own words for it


@dataclass
class BatchSizes:
    """Work that is done `size` units at a time; a step that does not fit is halved, and so are all after it."""

    size: int
    unit: str
    fewest: int = 1

    def over(self, total: int, work: Callable[[slice], Found]) -> Iterator[tuple[slice, Found]]:
        """The work on 0 .. total, step by step.

        >>> [found for _, found in Steps(2, "rows").over(5, lambda part: part.stop)]
        [2, 4, 5]
        """
        start = 0
        while start < total:
            part = slice(start, min(start + self.size, total))
            try:
                found = work(part)
            except RuntimeError as error:
                self.size = part.stop - part.start
                self.halve(error)
                continue
            yield part, found
            start = part.stop

    def halve(self, error: RuntimeError) -> None:
        """Half as much at a time; MemoryError where that is too little, the error itself if it is another one."""
        if not _is_out_of_memory(error):
            raise error
        if self.size <= self.fewest:
            raise MemoryError(
                f"the device has too little memory for {self.size} {self.unit} at a time; free some of it, or compute "
                "on the CPU"
            ) from error
        self.size = max(self.fewest, self.size // 2)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # what the last try held in pieces


def _is_out_of_memory(error: RuntimeError) -> bool:
    """Whether the device had no room, rather than something being wrong."""
    return isinstance(error, torch.cuda.OutOfMemoryError) or any(words in str(error) for words in LIBRARIES)
