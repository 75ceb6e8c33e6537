"""Arrays of results are read-only: a number that was reported is not changed by accident."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any

import numpy as np


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

    Fields are views, so that an array that belongs to somebody else stays as it is. What properties compute is
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
