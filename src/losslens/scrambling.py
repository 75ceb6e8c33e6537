"""Random orders of many rows that take no memory: a permutation that is worked out, not stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]
Words = NDArray[np.uint64]
ROUNDS = 6
STORED = 50_000  # rows up to which an order is simply drawn


@dataclass(frozen=True, eq=False)
class Scramble:
    """A permutation of 0 .. n-1 by a Feistel network on the bits of a number; what falls outside goes round again.

    >>> sorted(Scramble(10, (1, 2, 3, 4, 5, 6))[np.arange(10)].tolist()) == list(range(10))
    True
    """

    n: int
    keys: tuple[int, ...]

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: Any) -> Indices:
        asked = np.asarray(index)
        found = self._once(asked.ravel().astype(np.uint64))
        outside = np.flatnonzero(found >= self.n)
        while len(outside):  # fewer than three in four: each comes back in a few rounds
            found[outside] = self._once(found[outside])
            outside = outside[found[outside] >= self.n]
        return found.astype(np.intp).reshape(asked.shape)

    def _once(self, x: Words) -> Words:
        half = np.uint64(max(1, (max(self.n - 1, 1).bit_length() + 1) // 2))
        mask = np.uint64((1 << int(half)) - 1)
        left, right = x >> half, x & mask
        for key in self.keys:
            left, right = right, left ^ (_mixed(right + np.uint64(key)) & mask)
        return (left << half) | right


def _mixed(x: Words) -> Words:
    """Splitmix: every bit of the answer hangs on every bit of the question."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def random_order(n: int, rng: np.random.Generator) -> Any:
    """A random order of n rows: drawn where they are few, and else worked out."""
    if n <= STORED:
        return rng.permutation(n)
    return Scramble(n, tuple(int(key) for key in rng.integers(2**62, size=ROUNDS)))
