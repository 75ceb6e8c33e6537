"""Whose use of something deprecated a warning is about: ours fails the test, one inside of a dependency does not.

A warning names a line by its stacklevel: the use. Where this is the line that warns (stacklevel 1, as in most
FutureWarnings of scikit-learn), it says nothing, and the use is that of whoever called the package. A package whose
stacklevel ends in its own wrappers looks like one that uses itself; such warnings are in pytest's summary, like those
inside of dependencies. Filters know the module of the line only, so this looks at the calls themselves.
"""

import linecache
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from sysconfig import get_path
from types import FrameType
from typing import Any

DEPRECATIONS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
TREE = Path(__file__).parents[2]
INSTALLED = {Path(get_path(name)).resolve() for name in ("purelib", "platlib")}
STANDARD = Path(get_path("stdlib")).resolve()
OURS = "ours"


@contextmanager
def deprecated_uses_of_ours_raise() -> Iterator[None]:
    """Inside of pytest's own recording of warnings, which starts anew with every test."""
    usual = warnings.showwarning

    def show(message: Any, category: type[Warning], filename: str, lineno: int, *rest: Any) -> None:
        if issubclass(category, DEPRECATIONS) and is_ours(filename, lineno, sys._getframe(1)):
            raise message
        usual(message, category, filename, lineno, *rest)

    warnings.showwarning = show  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.showwarning = usual


def is_ours(filename: str, lineno: int, frame: FrameType | None) -> bool:
    """Whether a warning about this line, raised below this frame, is about a call in this tree."""
    package = home(filename)
    if package == OURS or (package and "warn" not in linecache.getline(filename, lineno)):
        return package == OURS
    while frame is not None and frame.f_code.co_filename != filename:
        frame = frame.f_back
    while frame is not None and home(frame.f_code.co_filename) in ("", package):
        frame = frame.f_back
    return frame is not None and home(frame.f_code.co_filename) == OURS


@cache
def home(filename: str) -> str:
    """The installed package that a file is of; "" for Python's own and for what is in no file."""
    path = Path(filename).resolve()
    for folder in INSTALLED:
        if path.is_relative_to(folder):
            return path.relative_to(folder).parts[0]
    if path.is_relative_to(TREE) and path.is_file():
        return OURS
    return "" if path.is_relative_to(STANDARD) or not path.is_file() else str(path.parent)
