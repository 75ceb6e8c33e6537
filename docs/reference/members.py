"""What the reference shows of a class: what users read and call.

Fields of a result are shown if a comment `#:` stands behind them in the source; properties and methods if they have a
docstring, and are not among those that only the library itself asks for, which are listed here.
"""

import inspect
from functools import cached_property
from importlib import import_module
from types import FunctionType

# In no class: how results are stored, shown and put together.
INTERNAL = {
    "at_positions", "backend", "base_influence", "change", "clipped_in_words", "doubted", "full_size",
    "get", "harm", "headline", "is_auc", "is_error", "items", "keeping", "keys", "kinds",
    "computed_extrapolation", "measure", "negative_in_words", "noun", "quantity", "row_labels", "stored", "title",
    "trimmed", "untouched", "what",
}  # fmt: skip
# In these classes only: others have something for users under this name.
INTERNAL_IN = {
    "ByGroup": {"values"},
    "Extrapolation": {"on", "percent"},
    "Extrapolations": {"values"},
    "Effects": {"values"},
    "FeatureEffect": {"whole"},
    "FeatureImportance": {"influence", "whole"},
    "FeatureScore": {"at", "influence", "sample"},
    "Importances": {"values"},
    "Interactions": {"of_part"},
    "Outputs": {"values"},
    "OverTime": {"edges", "ranking"},
    "RowInfluence": {"ranking"},
    "Scores": {"values"},
    "ShapleyCurve": {"of"},
    "ShapleyImportance": {"whole"},
}
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
    hidden = INTERNAL | INTERNAL_IN.get(one.__name__, set())
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
