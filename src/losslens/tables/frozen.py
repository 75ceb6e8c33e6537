"""Fields of results: arrays are read-only, and some are computed on first access.

A number that was reported is not changed by accident. For a field that is computed later, a result keeps a function
and its arguments: arrays, numbers, strings, and other deferred values. The arguments must not refer to the table, the
model or an engine; `tests/results/test_walls.py` follows every reference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, Generic, TypeVar, cast

import numpy as np

T = TypeVar("T")


def read_only(value: Any) -> Any:
    """An array as a read-only view, also in a tuple; anything else as it is.

    >>> read_only(np.zeros(2)).flags.writeable
    False
    """
    if isinstance(value, np.ndarray) and value.flags.writeable:
        view = value.view()
        view.flags.writeable = False
        return view
    if type(value) is tuple and any(isinstance(part, np.ndarray) for part in value):
        return tuple(map(read_only, value))
    return value


class Frozen:
    """Base class of frozen dataclasses whose arrays can be read and copied, but not written to.

    Fields are views, so that an array of the caller stays as it is. What properties compute is
    read-only, too: ``result.local *= 2`` would otherwise change it, or seem to.
    """

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            vars(self)[name] = read_only(value)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, member in list(vars(cls).items()):
            if isinstance(member, cached_property):
                member.func = _read_only_result(member.func)
            elif isinstance(member, property) and member.fget is not None and not name.startswith("_"):
                setattr(cls, name, member.getter(_read_only_result(member.fget)))


def _read_only_result(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(function)
    def call(instance: Any) -> Any:
        return read_only(function(instance))

    return call


class Deferred(Generic[T]):
    """A value that is computed on first access, once for all results that share it; arguments may be deferred too."""

    def __init__(self, compute: Callable[..., T], *arguments: Any) -> None:
        self._call: tuple[Callable[..., T], tuple[Any, ...]] | None = (compute, arguments)
        self._value: Any = None

    @property
    def now(self) -> T:
        """The value; function and arguments are released."""
        call = self._call
        if call is not None:  # two threads may both compute: the value is stored before the call is released
            compute, arguments = call
            self._value = compute(*(each.now if isinstance(each, Deferred) else each for each in arguments))
            self._call = None
        return cast(T, self._value)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Deferred, (_same, self.now)  # a pickled copy holds the value


def _same(value: T) -> T:
    return value


def deferred(compute: Callable[..., T], *arguments: Any) -> T:
    """Pass this as the value of a `lazy` field to have it computed on first access."""
    return cast(T, Deferred(compute, *arguments))


def lazy(*default: Any) -> Any:
    """A dataclass field whose value may be `deferred`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Answer:
    ...     number: int = lazy()
    >>> Answer(deferred(max, 41, 42)).number
    42
    """
    return _LazyField(default)


class _LazyField:
    """The descriptor of a lazy field."""

    def __init__(self, default: tuple[Any, ...]) -> None:
        self.default = default  # empty: no default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:  # `dataclass` reads the default
            if not self.default:
                raise AttributeError(self.name)
            return self.default[0]
        value = instance.__dict__[self.name]
        if isinstance(value, Deferred):
            value = instance.__dict__[self.name] = read_only(value.now)
        return value

    def __set__(self, instance: object, value: Any) -> None:
        instance.__dict__[self.name] = value
