"""Errors about arguments as their caller sees them: the call, and the line that says what is wrong."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import ParamSpec, TypeVar

A = ParamSpec("A")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])
_BORDERS: set[CodeType] = set()


def brief(function: Callable[A, R]) -> Callable[A, R]:
    """Decorator of what users call: tracebacks of errors that losslens raises leave out the calls in between.

    Of other errors, mistakes in losslens itself, every call is shown.
    """

    @functools.wraps(function)
    def run(*args: A.args, **kwargs: A.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            shorten(error)
            raise

    return run


def users_code(function: F) -> F:
    """Decorator of what calls a function of the user's: of errors there, the calls before it are left out."""
    _BORDERS.add(function.__code__)
    return function


def shorten(error: BaseException) -> None:
    """Leave out of the tracebacks of an error and of its causes the calls between the user's and what went wrong."""
    one: BaseException | None = error
    while one is not None:
        place = last = one.__traceback__
        while place is not None:
            last, place = place, place.tb_next
            if last.tb_frame.f_code in _BORDERS:
                one.__traceback__ = last
        if last is not None and _is_raised_here(last):
            one.__traceback__ = last
        one = one.__cause__


def _is_raised_here(place: TracebackType) -> bool:
    """Whether this is a line of losslens that raises an error about what it was given."""
    frame = place.tb_frame
    if frame.f_globals.get("__name__", "").partition(".")[0] != "losslens":
        return False
    return linecache.getline(frame.f_code.co_filename, place.tb_lineno).lstrip().startswith("raise ")
