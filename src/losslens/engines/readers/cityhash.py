"""CityHash64 in its first version, by which CatBoost stores categories: Pike and Alakuijala (2011).

Only the last 32 bits are compared, so other categories may have the same hash; then CatBoost takes them for the same.
"""

from __future__ import annotations

_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_MULTIPLIER = 0x9DDFEA08EB382D69
_WORD = (1 << 64) - 1


def hash_of(name: str) -> int:
    """The hash of a category, a signed whole number of 32 bits.

    >>> hash_of("fig")
    -332026415
    """
    low = city_hash(name.encode()) & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low


def city_hash(data: bytes) -> int:
    """CityHash64, an unsigned word."""
    size = len(data)
    if size <= 16:
        return _up_to_16(data)
    if size <= 32:
        first, last = _at(data, 0) * _K1, _at(data, size - 8) * _K2
        left = _turned(first - _at(data, 8), 43) + _turned(last, 30) + _at(data, size - 16) * _K0
        return _mixed(left, first + _turned(_at(data, 8) ^ _K3, 20) - last + size)
    return _up_to_64(data) if size <= 64 else _longer(data)


def _at(data: bytes, place: int, width: int = 8) -> int:
    return int.from_bytes(data[place : place + width], "little")


def _turned(word: int, by: int) -> int:
    word &= _WORD
    return (word >> by | word << (64 - by)) & _WORD


def _folded(word: int) -> int:
    word &= _WORD
    return word ^ word >> 47


def _mixed(first: int, second: int) -> int:
    """Two words as one."""
    first, second = first & _WORD, second & _WORD
    inner = _folded((first ^ second) * _MULTIPLIER)
    return _folded((second ^ inner) * _MULTIPLIER) * _MULTIPLIER & _WORD


def _up_to_16(data: bytes) -> int:
    size = len(data)
    if size > 8:
        last = _at(data, size - 8)
        return _mixed(_at(data, 0), _turned(last + size, size)) ^ last
    if size >= 4:
        return _mixed(size + (_at(data, 0, 4) << 3), _at(data, size - 4, 4))
    if size == 0:
        return _K2
    letters, end = data[0] + (data[size // 2] << 8), size + (data[-1] << 2)
    return _folded(letters * _K2 ^ end * _K3) * _K2 & _WORD


def _up_to_64(data: bytes) -> int:
    end = len(data) - 32
    v = _of_32(data, 0, _at(data, 0) + (len(data) + _at(data, end + 16)) * _K0)
    w = _of_32(data, end, _at(data, 16) + _at(data, end))
    inner = _folded((v[0] + w[1]) * _K2 + (w[0] + v[1]) * _K0)
    return _folded(inner * _K0 + v[1]) * _K2 & _WORD


def _of_32(data: bytes, place: int, a: int) -> tuple[int, int]:
    """Two words of the 32 bytes from a place on."""
    last = _at(data, place + 24)
    b, c = _turned(a + last, 52), _turned(a, 37)
    a += _at(data, place + 8)
    c += _turned(a, 7)
    a += _at(data, place + 16)
    return a + last, b + _turned(a, 31) + c


def _longer(data: bytes) -> int:
    """64 bytes at a time, after the last 64."""
    size = len(data)
    x, y, z = _at(data, 0), _at(data, size - 16) ^ _K1, _at(data, size - 56) ^ _K0
    v, w = _weak(data, size - 64, size, y), _weak(data, size - 32, size * _K1, _K0)
    z += _folded(v[1]) * _K1
    x = _turned(z + x, 39) * _K1
    y = _turned(y, 33) * _K1
    for place in range(0, (size - 1) // 64 * 64, 64):
        x = _turned(x + y + v[0] + _at(data, place + 16), 37) * _K1
        y = _turned(y + v[1] + _at(data, place + 48), 42) * _K1
        x, y = (x ^ w[1]) & _WORD, (y ^ v[0]) & _WORD
        z = _turned(z ^ w[0], 33)
        v = _weak(data, place, v[1] * _K1, x + w[0])
        w = _weak(data, place + 32, z + w[1], y)
        x, z = z, x
    return _mixed(_mixed(v[0], w[0]) + _folded(y) * _K1 + z, _mixed(v[1], w[1]) + x)


def _weak(data: bytes, place: int, a: int, b: int) -> tuple[int, int]:
    first, second, third, last = (_at(data, place + 8 * k) for k in range(4))
    a += first
    b = _turned(b + a + last, 21)
    c = a
    a += second + third
    return (a + last) & _WORD, (b + _turned(a, 44) + c) & _WORD
