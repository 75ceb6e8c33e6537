"""Arrays go into a page and come out of it."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np
import pytest

from losslens.page.packing import Box, safe_json


def unpacked(reference: dict[str, Any], box: Box) -> np.ndarray[Any, Any]:
    """What data.js does, in NumPy."""
    kind, shape, start, *rest = reference["$"]
    how = rest[0] if rest else {}
    data = gzip.decompress(base64.b64decode(box.base64()))
    dtype = np.dtype(f"<{kind}")
    length = int(np.prod(shape))
    planes = np.frombuffer(data, np.uint8)[start : start + length * dtype.itemsize].reshape(dtype.itemsize, length)
    found = np.ascontiguousarray(planes.T).view(dtype).reshape(shape)
    if how.get("differences"):
        found = np.cumsum(found, axis=-1, dtype=found.dtype)
    return how.get("middle", 0) + found * how.get("scale", 1) / how.get("divide", 1)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "f4", "f8", ">f8"])
def test_arrays_come_out_as_they_went_in(dtype: str) -> None:
    array = np.random.default_rng(0).integers(0, 100, (7, 3)).astype(dtype)
    box = Box()
    box.put(np.arange(5))
    np.testing.assert_array_equal(unpacked(box.put(array), box), array)


def test_fixed_point_keeps_nine_digits_of_the_range() -> None:
    array = np.random.default_rng(0).normal(5, 100, (50, 20))
    box = Box()
    fine, coarse = box.fixed(array), box.fixed(array, 16, differences=True)
    np.testing.assert_allclose(unpacked(fine, box), array, rtol=0, atol=np.ptp(array) / 2**32)
    np.testing.assert_allclose(unpacked(coarse, box), array, rtol=0, atol=np.ptp(array) / 2**16)
    flat = box.fixed(np.full(4, 2.5))
    np.testing.assert_array_equal(unpacked(flat, box), 2.5)


def test_columns_are_exact_where_they_can_be() -> None:
    box = Box()
    decimals, dates = np.array([0.1, -2.35, 100.0]), np.array([1.7e12, 1.8e12])
    missing = np.array([1.0, np.nan])
    for array in (decimals, dates, missing, np.array([True, False]), np.array([], float)):
        np.testing.assert_array_equal(unpacked(box.smallest(array), box), array)
    other = np.array([np.pi, np.e])
    np.testing.assert_array_equal(unpacked(box.smallest(other), box), other.astype(np.float32))


def test_json_cannot_end_its_element() -> None:
    tree = {"</script>": ["<!--", "\u2028", float("nan"), np.float32(0.5), np.arange(2), None, True]}
    text = safe_json(tree)
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == {"</script>": ["<!--", "\u2028", None, 0.5, [0, 1], None, True]}
