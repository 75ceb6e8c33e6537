"""What a search gives, by whichever way it was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

STEPS = 1 << 16  # handed over at a time, about: they stay in the processor's cache


@dataclass(frozen=True, eq=False)
class RawSteps:
    """Curves of the rows from .. to; of row i and the k-th wanted feature the steps ``start[i, k] : start[i, k+1]``.

    A step is the class from which on the curve has a value; every curve has one at class 0.
    """

    rows: slice
    start: NDArray[np.int64]  # (b, wanted + 1)
    classes: NDArray[np.int32]
    raw: NDArray[np.int64]  # (steps, outputs)
    own: NDArray[np.int64]  # (b, outputs): with nothing replaced


class Search(Protocol):
    """It keeps arrays that are used again: one for each thread."""

    def steps(self, start: int, stop: int) -> Iterator[RawSteps]:
        """The curves of rows start .. stop, some rows at a time; the arrays are used again for the next ones."""
