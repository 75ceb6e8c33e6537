"""Arrays as bytes of a page: small, and exact where numbers are computed from them. `assets/data.js` unpacks.

All first bytes of an array's numbers are written, then all second ones, which compresses better; a tree of plain values
refers to the array by `{"$": [type, shape, start, how]}`.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

DECIMALS = 6  # numbers with at most so many are written as integers


class Box:
    """Arrays one after another in a run of bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def put(self, array: NDArray[Any], **how: Any) -> dict[str, Any]:
        """Add an array unchanged and return the reference to it; `how` says how the page decodes the numbers."""
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        size = array.dtype.itemsize
        part = array.reshape(-1).view(np.uint8).reshape(-1, size).T.tobytes()
        reference: list[Any] = [f"{array.dtype.kind}{size}", list(array.shape), self._length]
        self._parts.append(part)
        self._length += len(part)
        return {"$": [*reference, how] if how else reference}

    def fixed(self, array: NDArray[Any], bits: int = 32, *, differences: bool = False) -> dict[str, Any]:
        """The array in steps of its range: with 32 bits, a step is 2e-10 of it. `differences` along the last axis."""
        array = np.asarray(array, dtype=np.float64)
        steps, middle, size = _steps(array, bits)
        if steps is None:
            return self.put(array)
        if differences:  # they may overflow: both sides compute modulo 2^bits
            steps = np.diff(steps, axis=-1, prepend=0)
        kept = steps.astype(f"u{bits // 8}").view(f"i{bits // 8}")
        return self.put(kept, scale=size, middle=middle, differences=differences)

    def stepped(self, array: NDArray[Any], step: float) -> dict[str, Any]:
        """Multiples of a step."""
        return self.put(_narrow(np.rint(np.asarray(array) / step).astype(np.int64)), scale=step, middle=0.0)

    def json(self, tree: Any) -> dict[str, Any]:
        """Text that is larger than its use: the page parses it on first access."""
        return self.put(np.frombuffer(safe_json(tree).encode(), np.uint8), json=True)

    def smallest(self, array: NDArray[Any]) -> dict[str, Any]:
        """Numbers of a table: integers and short decimals exactly, others as float32."""
        array = np.asarray(array)
        if array.dtype.kind in "biu":
            return self.put(_narrow(array.astype(np.int64)))
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            return self.put(array)
        for decimals in range(DECIMALS + 1):
            steps = np.rint(array * 10.0**decimals)
            if np.abs(steps).max(initial=0) >= 2**31:
                break
            if (steps / 10.0**decimals == array).all():
                return self.put(_narrow(steps.astype(np.int64)), divide=10.0**decimals)
        integers = (array == np.rint(array)).all()  # dates: too large for float32
        return self.put(array if integers else array.astype(np.float32))

    def base64(self) -> str:
        """All of it, gzipped, as text; the same arrays give the same text."""
        return base64.b64encode(gzip.compress(b"".join(self._parts), 6, mtime=0)).decode("ascii")


def in_steps(array: NDArray[Any], bits: int) -> NDArray[np.float64]:
    """The numbers as the page unpacks them from so many bits."""
    array = np.asarray(array, dtype=np.float64)
    steps, middle, size = _steps(array, bits)
    return np.asarray(array if steps is None else middle + steps * size, float)


def _steps(array: NDArray[np.float64], bits: int) -> tuple[NDArray[np.int64] | None, float, float]:
    """Whole steps from the middle of the range, which is given with their size; None without a range."""
    low, high = float(array.min(initial=np.inf)), float(array.max(initial=-np.inf))
    middle, half = (low + high) / 2, (high - low) / 2
    if not (array.size and np.isfinite(half) and half > 0):
        return None, middle, half
    largest = 2 ** (bits - 1) - 1
    return np.rint((array - middle) * (largest / half)).astype(np.int64), middle, half / largest


def _narrow(array: NDArray[np.int64]) -> NDArray[Any]:
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return array.astype(kind)
    return array.astype(np.float64)  # a page has no 64-bit integers


def safe_json(tree: Any) -> str:
    """JSON that is safe inside a `<script>`: nothing in it can end the element. Not finite: null."""
    text = json.dumps(_plain(tree), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _plain(tree: Any) -> Any:
    """A tree of dicts and lists with plain Python numbers, as JSON takes them; NaN and infinity become None."""
    if isinstance(tree, dict):
        return {str(key): _plain(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_plain(value) for value in tree]
    if isinstance(tree, np.ndarray):
        return _plain(tree.tolist())
    if isinstance(tree, np.generic):
        return _plain(tree.item())
    if isinstance(tree, float) and not math.isfinite(tree):
        return None
    return tree
