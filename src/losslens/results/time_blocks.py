"""Blocks of time: which rows are close in time, as a label for each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.frames import make_frame
from losslens.tables.frozen import Frozen
from losslens.tables.row_labels import Labels
from losslens.tables.sample import effective_number
from losslens.tables.times import Length, time_text
from losslens.typing import Indices
from losslens.uncertainty.cautions import few_groups


@dataclass(frozen=True, eq=False, repr=False)
class TimeBlocks(Frozen):
    """A label for each row, the number of its block of time: for ``groups=`` of the verbs, and for ``by``.

    ``numpy.asarray(blocks)`` has the labels, which is all that a file needs to hold.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> hours = np.datetime64("2024-03-01T00") + np.arange(100)
    >>> blocks = ll.time_blocks(hours, "2D")
    >>> blocks.sizes.tolist(), blocks.labels[:3].tolist()
    ([48, 48, 4], [0, 0, 0])
    """

    #: the block of each row, (n,): 0, 1, ... in the order of time; periods without rows have no number
    labels: Indices
    start: NDArray[Any]  #: the first time of the rows in each block, (G,)
    end: NDArray[Any]  #: the last, (G,)
    span: Length
    chosen: str = ""  #: how the length was chosen; empty if it was given
    row_order: Labels | None = None  # (n,): labels of a pandas series of times, compared with those of X

    @property
    def length(self) -> Any:
        """The length of a block in the unit of the times, as `time_blocks` takes it: a number, or a duration."""
        return self.span.plain

    @property
    def sizes(self) -> Indices:
        """The number of rows in each block, (G,)."""
        return np.bincount(self.labels)

    @property
    def caution(self) -> str:
        """Why standard errors from these blocks are to be taken with caution; empty if they are not."""
        return few_groups(effective_number(self.sizes.astype(float)))

    def to_frame(self) -> Any:
        """One line for each block, in the order of time: its number, first and last time, and rows; a data frame."""
        columns = {"block": np.arange(len(self.start)), "start": self.start, "end": self.end, "rows": self.sizes}
        return make_frame(columns, "numpy")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.labels, dtype=dtype)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        sizes = self.sizes
        rows = f"{sizes.min():,}" if sizes.min() == sizes.max() else f"{sizes.min():,} to {sizes.max():,}"
        lines = [f"TimeBlocks: {len(self):,} rows in {len(sizes):,} blocks of {self.span}, {rows} rows each"]
        lines.append(f"from {time_text(self.start[0])} to {time_text(self.end[-1])}")
        lines += [self.chosen, self.caution]
        return "\n  ".join(line.removesuffix(".") for line in lines if line)
