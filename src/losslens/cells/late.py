"""Fields of frozen results that are worked out when somebody first asks for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Later(Generic[T]):
    """A value that is worked out when it is first asked for, once for all who hold it."""

    def __init__(self, work_out: Callable[[], T]) -> None:
        self._work_out: Callable[[], T] | None = work_out

    @cached_property
    def now(self) -> T:
        """The value; what it was made of is let go."""
        assert self._work_out is not None  # it is asked for once
        value = self._work_out()
        self._work_out = None
        return value

    @property
    def known(self) -> bool:
        """Whether somebody has asked already."""
        return "now" in self.__dict__

    def __reduce__(self) -> tuple[Any, tuple[T]]:
        return _known, (self.now,)  # a copy in another process holds the value


def _known(value: T) -> Later[T]:
    return Later(lambda: value)


def later(work_out: Callable[[], T]) -> T:
    """What to give for a `late` field, to have it worked out at the first look."""
    return cast(T, Later(work_out))


def late(*default: Any) -> Any:
    """A dataclass field that may be given as `later`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Answer:
    ...     number: int = late()
    >>> Answer(later(lambda: 42)).number
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
        found = instance.__dict__[self.name]
        if isinstance(found, Later):
            found = instance.__dict__[self.name] = found.now
        return found

    def __set__(self, instance: object, value: Any) -> None:
        instance.__dict__[self.name] = value
