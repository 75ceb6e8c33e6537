"""What the reference shows of a class: what users read and call.

Fields of a result are shown if a comment `#:` stands behind them in the source; properties and methods if they have a
docstring, and are not among those that only the library itself asks for (`internal` of results/base.py).
"""

import inspect
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from types import FunctionType

from losslens.results.base import internal

# What every mapping has, and what nobody needs beside it.
OF_MAPPINGS = {"features", "get", "items", "keys", "values"}
# What verbs and methods return, beside the classes that `losslens.results` names.
OTHERS = ("losslens.page.report.Report", "losslens.uncertainty.inference.Difference")


def result_classes():
    """Classes that users get and never construct, by their full names in the reference."""
    from losslens import results

    found = {f"losslens.results.{name}": getattr(results, name) for name in results.__all__}
    for name in OTHERS:
        module, _, own = name.rpartition(".")
        found[name] = getattr(import_module(module), own)
    return found


def tables():
    """Of each result: its methods, each with a sentence, and its numbers, each with the directive that documents it."""
    return {name: {"methods": methods(one), "numbers": numbers(one)} for name, one in result_classes().items()}


def methods(one):
    kinds = (FunctionType, classmethod, staticmethod)
    return [(name, first_sentence(value)) for name, value in members(one) if isinstance(value, kinds)]


def numbers(one):
    """Fields in the order of the source, then properties."""
    properties = [name for name, value in members(one) if isinstance(value, property | cached_property)]
    fields = [name for name in commented_fields(one) if name not in properties]
    return [*(("autoattribute", name) for name in fields), *(("autoproperty", name) for name in properties)]


def members(one):
    """Properties and methods that have a docstring, by name."""
    hidden = internal(one) | (OF_MAPPINGS if issubclass(one, Mapping) else set())
    for name in dir(one):
        if not name.startswith("_") and name not in hidden:
            value = inspect.getattr_static(one, name)
            doc = inspect.getdoc(value) if callable(getattr(value, "__get__", None)) else None
            if doc and not doc.startswith("Raises:"):  # what a score has not, and says so
                yield name, value


def commented_fields(one):
    """Fields with a comment `#:`; those of base classes first."""
    from sphinx.pycode import ModuleAnalyzer

    found = {}
    for base in reversed(one.__mro__[:-1]):
        if base.__module__.startswith("losslens."):
            comments = ModuleAnalyzer.for_module(base.__module__).find_attr_docs()
            own = vars(base).get("__annotations__", ())
            found |= dict.fromkeys(name for kind, name in comments if kind == base.__name__ and name in own)
    return list(found)


def first_sentence(value):
    """The first paragraph of a docstring, on one line."""
    return " ".join(inspect.getdoc(value).split("\n\n")[0].split())
