"""Which class of which library an object is.

The one place where a model, or a part of a model, is recognised: readers come here each time they descend into a
part. A class of the user's own, or a method replaced in an object or in a class, may predict anything: it is never
read, nor is a release of a library that is older than those tested, or after a change of the version's first number.
No estimator library is imported.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import cached_property, partial
from typing import Any

from losslens.engines.base import Declined

# The oldest and the newest release that the readers were tested with. Others are read up to the next one that may store
# something else, a change of the first number that is not 0: 1.10 after 1.9, but neither 2.0, nor 0.8 after 0.7.
TESTED = {
    "catboost": ("1.2", "1.2"),
    "interpret": ("0.7", "0.7"),
    "lightgbm": ("4.5", "4.7"),
    "sklearn": ("1.6", "1.9"),
    "statsmodels": ("0.14", "0.15"),
    "xgboost": ("3.0", "3.2"),
}
LIBRARIES = ("_catboost", *TESTED)
FUNCTIONS = ("builtins", "functools", "numpy")  # modules of the types of functions, partial ones and ufuncs
# Methods on which no prediction depends: tools that record fits replace these.
_NOT_READ = ("fit", "get_metadata", "get_params", "partial_fit", "score", "set_")


def class_names(thing: Any) -> list[str]:
    """Its class and all ancestors by library and name: 'sklearn.Ridge', whichever module of sklearn defines it.

    Raises `Declined` unless the class and its methods are those of the library.
    """
    methods = _methods(type(thing))
    _check_object(thing, methods)
    return [_name(cls) for cls in type(thing).__mro__]


def kind_of(thing: Any) -> str:
    """Its class by library and name; never that of an ancestor, since a subclass may compute something else."""
    return class_names(thing)[0]


def kinds_of(things: Iterable[Any]) -> set[str]:
    """The classes of many objects, such as the trees of a forest: each class is looked at once."""
    methods: dict[type, frozenset[str]] = {}
    for thing in things:
        cls = type(thing)
        if cls not in methods:
            methods[cls] = _methods(cls)
        _check_object(thing, methods[cls])
    return {_name(cls) for cls in methods}


def _name(cls: type) -> str:
    return f"{_root(cls.__module__)}.{cls.__name__}"


def _root(module: Any) -> str:
    return str(module).partition(".")[0]


def _check_object(thing: Any, methods: frozenset[str]) -> None:
    if replaced := methods & getattr(thing, "__dict__", {}).keys():
        raise Declined(
            f"{min(replaced)} of a {type(thing).__name__} was replaced in this object: what it does is unknown"
        )


def _methods(cls: type) -> frozenset[str]:
    """The names of its methods, which are all the library's own."""
    if _root(cls.__module__) not in LIBRARIES:
        raise Declined(_why_not_read(cls))
    _check_release(_root(cls.__module__).removeprefix("_"))
    names = set()
    for base in cls.__mro__[:-1]:
        for name, attribute in vars(base).items():
            special = name.startswith("__") and name not in ("__call__", "__getattr__", "__getattribute__")
            if special or name.startswith(_NOT_READ) or not (callable(attribute) or hasattr(attribute, "__get__")):
                continue
            if not _is_of_a_library(attribute):
                raise Declined(f"{name} of {base.__name__} was replaced in the class, and may do anything")
            if not isinstance(attribute, cached_property):  # kept in the object under its own name
                names.add(name)
    return frozenset(names)


def _check_release(library: str) -> None:
    """Raise `Declined` if this release of a library is older than those that were tested, or too new."""
    release = str(getattr(sys.modules.get(library), "__version__", ""))
    oldest, newest = TESTED[library]
    if not _numbers(oldest) <= _numbers(release) < _next_change(_numbers(newest)):
        tested = oldest if oldest == newest else f"{oldest} to {newest}"
        raise Declined(f"models of {library} {release or 'of an unknown release'} are not read: tested was {tested}")


def _numbers(release: str) -> tuple[int, int]:
    """The first two numbers.

    >>> _numbers("1.10.dev0")
    (1, 10)
    """
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else (-1, 0)


def _next_change(release: tuple[int, int]) -> tuple[int, int]:
    """The first release that may store something else.

    >>> _next_change((1, 9)), _next_change((0, 7))
    ((2, 0), (0, 8))
    """
    first, second = release
    return (first + 1, 0) if first else (0, second + 1)


def _why_not_read(cls: type) -> str:
    if _root(cls.__module__) in FUNCTIONS:
        return "a function can be called, but not read"
    bases = [base for base in cls.__mro__ if _root(base.__module__) in LIBRARIES and "Base" not in base.__name__]
    if bases and not bases[0].__name__.endswith("Mixin"):
        return f"{cls.__name__}, derived from {bases[0].__name__}, is not a class of the library: it may do anything"
    return f"losslens has no reader for {cls.__name__} of {_root(cls.__module__)}"


def _is_of_a_library(attribute: Any) -> bool:
    """Whether the code that runs when a method is called is that of a library, or compiled."""
    if isinstance(attribute, property) or _root(type(attribute).__module__) == "pandas":  # its cached properties
        attribute = getattr(attribute, "fget", attribute)
    elif isinstance(attribute, (cached_property, partial)):
        attribute = attribute.func
    attribute = getattr(attribute, "__func__", attribute)  # of static, class and bound methods
    attribute = getattr(attribute, "fn", attribute)  # of scikit-learn's available_if
    code = getattr(attribute, "__globals__", None)
    module = _root(type(attribute).__module__ if code is None else code.get("__name__"))
    return module in (*LIBRARIES, "abc", "builtins") or module.startswith("_cython")
