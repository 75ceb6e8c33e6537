"""What all verbs share: how their arguments may be written, and those that say how to run, described once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

from losslens.models import as_model, on_texts, takes_texts
from losslens.tables.features import ROLES, fitted_names, with_roles
from losslens.tables.frames import as_table, is_texts
from losslens.tables.sources import in_files
from losslens.workers import with_executor

Verb = TypeVar("Verb", bound=Callable[..., object])
EXAMPLES = "\n\nExamples\n--------\n"
OF_MODELS = {
    "random_state": "A seed or a NumPy generator.",
    "n_jobs": 'Threads; for processes call inside ``joblib.parallel_config("loky")``.',
    "memory": """\
The most memory for intermediate arrays and for the result, besides what the model itself uses, 8 bytes for
each local importance (rows x features) and, with Latin, Permutations or Derangements(m), 16 for each value of
a column (PI and PD). On top of it come at most three times the table, and 16 bytes for each row and feature.
A call that would hold more than the machine has is refused.""",
    "progress": "Whether to show a progress bar; None: in terminals and notebooks only.",
    "executor": """\
A dask.distributed ``Client``, or any ``concurrent.futures.Executor``: the work is done there. Inside
``joblib.parallel_config("ray")``, ``"spark"`` or ``"dask"`` it is done by joblib's backend.""",
}
OF_LEARNERS = OF_MODELS | {
    "random_state": "A seed or a NumPy generator, for folds and donors; the estimator has its own.",
    "n_jobs": "Folds, or pairs of them, at a time, in threads.",
    "memory": "Bound for all folds together.",
}


# What other libraries call it, and what to write here.
ELSEWHERE = {
    "scoring": "name the score or loss in loss=, such as loss='roc_auc' or loss='squared_error'",
    "n_repeats": "repeats aren't needed: every pair of rows counts, or as many as the sampling error requires, and "
    "std_error and interval() say how sure the numbers are; leave it out, or pass a design such as donors=Latin(5)",
    "max_samples": "all rows are used, fast where an exact engine reads the model; leave it out, or pass fewer rows",
    "kind": "a result has both the average and the curve of each row: .pd and .ice, .pi and .ici; leave it out",
    "grid_resolution": "pass donors=Grid(50) for a grid of 50 values, or leave it out for all values",
    "background": "the background data are X, and of shapley_effect rows= are the rows to explain",
}


def verb(function: Verb) -> Verb:
    """Decorator of verbs.

    Their arguments may be columns of X by name, their work runs on ``executor=``, and their docstrings describe how to
    run them.
    """
    signature = inspect.signature(function)
    names = list(signature.parameters)

    @wraps(function)
    def ask(*args: Any, **kwargs: Any) -> Any:
        """The call, with columns of X in the place of their names."""
        refuse_foreign(function.__name__, [name for name in kwargs if name not in names])
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:  # Python says it in its own words
            return function(*args, **kwargs)
        given |= given.pop("options", {})
        return function(**in_own_words(given, names[0]))

    run = with_executor(ask)
    run.__doc__ = with_running(inspect.getdoc(function) or "", names)
    return run  # type: ignore[return-value]  # it has the signature of the verb


def refuse_foreign(name: str, unknown: Iterable[str]) -> None:
    """Raise TypeError where an argument is called as in another library."""
    for one in unknown:
        if one in ELSEWHERE:
            raise TypeError(f"{name} has no argument {one!r}: {ELSEWHERE[one]}")


def in_own_words(given: Mapping[str, Any], first: str) -> dict[str, Any]:
    """The arguments of a verb with columns of X in the place of their names; `first` is the name of the model."""
    model, X = given[first], given["X"]
    roles = {name: given[name] for name in ROLES if name in given}
    if not in_files(X) and is_texts(X):
        X, model = as_table(X), _of_texts(model)
    X, roles = with_roles(X, fitted_names(model), roles)
    return {**given, **roles, first: model, "X": X}


def _of_texts(model: Any) -> Any:
    """A model, or several by name, for X given as texts: functions are called with texts, as estimators are."""
    if isinstance(model, Mapping):
        return {name: _of_texts(one) for name, one in model.items()}
    return model if takes_texts(model) else on_texts(as_model(model))


def with_running(doc: str, names: Iterable[str]) -> str:
    """A numpydoc docstring with those of a verb's arguments that it doesn't describe itself, behind the others."""
    texts = OF_LEARNERS if "cv" in names else OF_MODELS
    described, examples, code = doc.partition(EXAMPLES)
    own = set(re.findall(r"\w+", " ".join(re.findall(r"^\w[\w, ]*$", described, re.MULTILINE))))
    shared = [name for name in names if name in texts and name not in own]
    return described + "".join(f"\n{name}\n{_indented(texts[name])}" for name in shared) + examples + code


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
