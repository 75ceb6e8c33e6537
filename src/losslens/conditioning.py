"""What values were drawn given: which columns, how much they tell, and the rules of a tree's leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]
SHOWN = 12  # rules in the text


@dataclass(frozen=True, eq=False, repr=False)
class Conditioning:
    """How a feature's values were drawn, where not from everywhere."""

    feature: str
    given: tuple[str, ...]  # the columns that the draw knew
    rest: bool  # these are all other columns
    explained: float  # share of the feature's variance that these tell
    leaf: Indices | None = None  # (n,): the leaf of each row; donors come from the same one
    rules: tuple[str, ...] = ()  # one a leaf

    def at(self, rows: Indices) -> Conditioning:
        """The same for some rows alone."""
        return self if self.leaf is None else replace(self, leaf=self.leaf[rows])

    @property
    def whom(self) -> str:
        """Given what, in words."""
        if self.rest:
            return "given the other columns"
        return f"given {', '.join(self.given)}" if self.given else "given nothing"

    @property
    def headline(self) -> str:
        """One sentence."""
        known = f", which tell {self.explained:.0%} of its variance" if np.isfinite(self.explained) else ""
        return f"{self.feature} drawn {self.whom}{known}"

    def __repr__(self) -> str:
        lines = [self.headline]
        if self.leaf is not None:
            count = np.bincount(self.leaf, minlength=len(self.rules))
            largest = np.argsort(-count, kind="stable")
            lines += [f"  n = {count[k]:<7,} {self.rules[k] or 'all rows'}" for k in largest[:SHOWN]]
            if len(largest) > SHOWN:
                lines.append(f"  ({len(largest) - SHOWN} smaller leaves not shown)")
        return "\n".join(lines)
