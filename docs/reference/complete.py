"""Docstrings as the reference shows them, with what signatures and other docstrings say, so that no source repeats it.

Types and defaults of parameters, in the order of the signature; what is returned, with the first sentence of its class;
and "see also": the names in the same list of a page, results beside what makes them. numpydoc validates them:

python -m docs.reference.complete
"""

import inspect
import re
import sys
import typing
from functools import cache
from importlib import import_module
from pathlib import Path

from docs.reference import members
from numpydoc.docscrape import NumpyDocString, Parameter, get_doc_object
from numpydoc.validate import Validator, validate

HERE = Path(__file__).parent
# A sentence may be enough, and need not begin with a verb.
NOT_ASKED = {"ES01", "SS05"}
SHORT = 100  # letters of a text that may stand there twice
LIKE_RESULTS = {"losslens.losses.Loss"}  # made by `pointwise` and others, never constructed by users
# Parameters that take more than an annotation says, in the words of the field.
TYPES = {
    "X": "table",
    "model": "estimator, function or torch module",
    "models": "mapping or list of models",
    "y": "array-like",
    "estimator": "scikit-learn estimator",
    "learner": "scikit-learn estimator, or function",
    "features": "names of columns",
    "sample_weight": "array-like",
    "groups": "array-like",
    "random_state": "int or numpy.random.Generator",
    "executor": "dask client or concurrent.futures.Executor",
    "sampler": "sampler or function",
    "rows": "positions, labels or mask",
    "rows_a": "positions, labels or mask",
    "rows_b": "positions, labels or mask",
    "by": "array-like",
    "labels": "mapping, or function",
    "target": "class, name or position",
    "loss": "str, function, scorer, or a list of them",
    "cv": "int, splitter, or list of pairs",
    "first": "name",
    "second": "name",
    "against": "name",
    "donors": "str, design or sampler",
    "times": "array-like",
    "scoring": "str or scorer",
    "figure": "matplotlib figure",
    "at": "positions",
    "width": "number or duration",
    "length": "number or duration",
    "like": "result",
    "options": "further arguments",
    "regressor": "scikit-learn estimator",
    "classifier": "scikit-learn estimator",
    "tree": "scikit-learn tree, or names of columns",
    "censoring": "array-like",
    "center": "number",
    "label": "label of a group",
    "X_train": "table",
    "prediction": "array-like",
    "ax": "matplotlib Axes",
}
# What is returned, where it has no class of ours: of methods and functions by its type, of others by their name.
RETURNED = {
    "Axes": "What holds the picture.",
    "tuple[float, float]": "The lower and the upper end.",
    "feature_importance": "By feature; of a list of losses, such a result for each.",
    "load": "The result, of the class that was saved.",
    "feature_groups": "The columns of each group, by its name.",
    "Loss": "What ``loss=`` takes.",
    "OutputsLoss": "What ``loss=`` takes.",
    "SurvivalLoss": "What ``loss=`` takes.",
    "FunctionScorer": "What ``loss=`` takes.",
    "bikeshare_times": "In the order of the rows.",
    "bikeshare_hirers": "One row an hour, one column for each kind of user.",
    "permutation_importance": "What scikit-learn's has, with `std_error`, `low`, `high`, and `result`, ours.",
}
KINDS = {"feature_importance": "Importances, or dict of them", "load": "result"}


def completed(name, one):
    """The docstring of a public name, as text."""
    doc = NumpyDocString(inspect.getdoc(one) or "")
    result = name in members.result_classes()
    if not result and callable(one):
        doc["Parameters"] = parameters(doc["Parameters"], one)
    if inspect.isfunction(one) and not doc["Returns"]:
        doc["Returns"] = returned(one)
    if not doc["See Also"] and (others := related().get(name)):
        doc["See Also"] = [([(f"~{other}", "py:obj")], [first_sentence(other)]) for other in others]
    return re.sub(r"\n{3,}", "\n\n", str(doc).strip()) + "\n"


def parameters(written, one):
    """In the order of the signature, each with what it takes; those that share a long text stay together."""
    texts = {name.strip(): text.desc for text in written for name in text.name.split(",")}
    kinds = {name.strip(): text.type for text in written for name in text.name.split(",")}
    found = []
    for parameter in inspect.signature(one).parameters.values():
        name = (
            "*" * (parameter.kind == parameter.VAR_POSITIONAL)
            + "**" * (parameter.kind == parameter.VAR_KEYWORD)
            + parameter.name
        )
        if (text := texts.get(name, texts.get(parameter.name))) is not None:
            kind = kinds.get(parameter.name) or takes(parameter, one)
            if found and text == found[-1].desc and len(" ".join(text)) > SHORT:
                before = found.pop()
                name, kind = f"{before.name}, {name}", f"{before.type}; {kind}"
            found.append(Parameter(name, kind, text))
    return found


def takes(parameter, one):
    """Words for the type of a parameter, and its default."""
    words = TYPES.get(parameter.name) or annotated(str(parameter.annotation), one)
    if parameter.default is inspect.Parameter.empty:
        return words
    return f"{words}, optional" if parameter.default is None else f"{words}, default {parameter.default!r}"


def annotated(text, one):
    """An annotation without quotes, None and module names; a choice as the values to choose from."""
    text = text.strip("'\"").replace(" | None", "")
    scope = vars(import_module(inspect.unwrap(one).__module__))
    if (kind := scope.get(text)) is not None and typing.get_origin(kind) is typing.Literal:
        text = "Literal" + str(list(typing.get_args(kind)))
    if text.startswith("Literal["):
        return "{" + text[len("Literal[") : -1] + "}"
    return "object" if text in ("Any", "<class 'inspect._empty'>") else text


def returned(one):
    """One of our classes with its first sentence; other kinds in words, where there are any."""
    kind = str(inspect.signature(one).return_annotation).strip("'\"")
    own = {name.rpartition(".")[2]: name for name in members.result_classes()}
    words = first_sentence(own[kind]) if kind in own else RETURNED.get(one.__name__, RETURNED.get(kind))
    return [Parameter("", KINDS.get(one.__name__, kind), [words])] if words else []


@cache
def listed():
    """The names in each list of the pages of the reference: by page, functions before results."""
    pages = {}
    for page in sorted(HERE.glob("*.md")):
        module, lists = "losslens", []
        for block in re.findall(r"^```\{eval-rst\}\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            lists.append([])
            for line in block.splitlines():
                if kind := re.match(r" *\.\. currentmodule:: *(.*)$", line):
                    module = kind[1]
                elif re.match(r" +~?[\w.]+$", line):
                    lists[-1].append(f"{module}.{line.strip().removeprefix('~')}")
        pages[page.stem] = lists
    return pages


@cache
def related():
    """Of each public name its neighbours: in its own list, and one of the lists beside it."""
    own = {}
    for lists in listed().values():
        every = [name for names in lists for name in names]
        for names in lists:
            for name in names:
                beside = [other for other in names if other != name] or [other for other in every if other != name]
                makers = [other for other in every if other.rpartition(".")[2] in makes().get(name, ())]
                own[name] = list(dict.fromkeys([*makers, *beside]))[:4]
    for name, others in MORE.items():
        own[name] = list(dict.fromkeys([*others, *own.get(name, [])]))[:5]
    return own


@cache
def makes():
    """Of each result the functions that return it."""
    import losslens

    found = {}
    for name in losslens.__all__:
        one = getattr(losslens, name)
        if inspect.isfunction(one):
            kind = str(inspect.signature(one).return_annotation).strip("'\"")
            found.setdefault(f"losslens.results.{kind}", []).append(name)
    return found


# What answers the next question, where it stands on another page.
MORE = {
    "losslens.feature_importance": [
        "losslens.shapley_importance",
        "losslens.feature_importance_cv",
        "losslens.results.Importances",
    ],
    "losslens.shapley_importance": ["losslens.feature_importance", "losslens.results.ShapleyImportance"],
    "losslens.plan": ["losslens.feature_importance", "losslens.results.Plan"],
    "losslens.load": ["losslens.results.Importances", "losslens.report"],
    "losslens.time_blocks": ["losslens.results.TimeBlocks", "losslens.feature_importance"],
    "losslens.weak_segments": ["losslens.results.WeakSegments", "losslens.report"],
    "losslens.report": ["losslens.page.report.Report", "losslens.compare"],
    "losslens.results.Plan": ["losslens.plan"],
}


def find(name):
    """What a full name stands for."""
    parts = name.split(".")
    for k in range(len(parts) - 1, 0, -1):
        try:
            found = import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def first_sentence(name):
    text = members.first_sentence(find(name))
    return f"{text[:1].upper()}{text[1:]}".rstrip(":.") + "."


class AsShown(Validator):
    """numpydoc's validator of a docstring as the reference shows it."""

    def __init__(self, obj_name):
        one = find(obj_name)
        text = completed(obj_name, one)
        super().__init__(get_doc_object(one, doc=text))
        self.raw_doc = f"\n{text}"
        self.clean_doc = text


def names():
    """Functions and classes of the reference; named losses are data, and checks of skore are skore's."""
    every = [name for lists in listed().values() for names in lists for name in names]
    return [
        name for name in every if not name.startswith(("losslens.skore", "losslens.mlflow", "losslens.losses.rows"))
    ]


def errors():
    """Sentences of numpydoc on what is missing, of all names."""
    results = set(members.result_classes())
    for name in names():
        for code, text in validate(name, AsShown)["errors"]:
            # Results are made by verbs: nobody constructs them.
            if code not in NOT_ASKED and not (code == "PR01" and name in results | LIKE_RESULTS):
                yield f"{name}: {code} {text}"


def of_autodoc(app, what, name, obj, options, lines):
    """Sphinx's event: the lines of a docstring, before numpydoc reads them."""
    if what in ("function", "class", "method") and lines:
        lines[:] = completed(name, obj).splitlines()


if __name__ == "__main__":
    found = list(errors())
    print("\n".join(found) if found else f"numpydoc: {len(names())} names, no error")
    sys.exit(bool(found))
