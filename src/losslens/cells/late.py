"""Fields of frozen results that are computed on first access.

A result keeps a function and what to call it with: arrays, numbers, words, and other values that are computed later.
It must not reach the table, the model or an engine; `tests/results/test_walls.py` follows every reference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Later(Generic[T]):
    """A value that is computed on first access, once for all who share it; arguments may come later themselves."""

    def __init__(self, compute: Callable[..., T], *arguments: Any) -> None:
        self._call: tuple[Callable[..., T], tuple[Any, ...]] | None = (compute, arguments)

    @cached_property
    def now(self) -> T:
        """The value; function and arguments are released."""
        assert self._call is not None  # cached: this runs once
        compute, arguments = self._call
        value = compute(*(argument.now if isinstance(argument, Later) else argument for argument in arguments))
        self._call = None
        return value

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Later, (_same, self.now)  # a copy in another process holds the value


def _same(value: T) -> T:
    return value


def later(compute: Callable[..., T], *arguments: Any) -> T:
    """What to pass for a `late` field to have it computed on first access."""
    return cast(T, Later(compute, *arguments))


def late(*default: Any) -> Any:
    """A dataclass field that may be given as `later`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Answer:
    ...     number: int = late()
    >>> Answer(later(max, 41, 42)).number
    42
    """
    return _Late(default)


class _Late:
    """The descriptor behind a late field."""

    def __init__(self, default: tuple[Any, ...]) -> None:
        self.default = default  # one, or none

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:  # a dataclass asks for the default
            if not self.default:
                raise AttributeError(self.name)
            return self.default[0]
        value = instance.__dict__[self.name]
        if isinstance(value, Later):
            value = instance.__dict__[self.name] = value.now
        return value

    def __set__(self, instance: object, value: Any) -> None:
        instance.__dict__[self.name] = value
