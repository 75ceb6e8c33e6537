"""The arguments of verbs that say how to run: described once, and shown in the docstring of each verb."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

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
    "executor": "A dask.distributed ``Client``: the work is done on its cluster.",
}
OF_LEARNERS = OF_MODELS | {
    "random_state": "A seed or a NumPy generator, for folds and donors; the estimator has its own.",
    "n_jobs": "Folds, or pairs of them, at a time, in threads.",
    "memory": "Bound for all folds together.",
}


def verb(function: Verb) -> Verb:
    """Decorator of verbs: their work runs on ``executor=``, and their docstrings describe how to run them."""
    names = inspect.signature(function).parameters
    run = with_executor(function)
    run.__doc__ = with_running(inspect.getdoc(function) or "", names)
    return run  # type: ignore[return-value]  # it has the signature of the verb


def with_running(doc: str, names: Iterable[str]) -> str:
    """A numpydoc docstring with those of a verb's arguments that it doesn't describe itself, behind the others."""
    texts = OF_LEARNERS if "cv" in names else OF_MODELS
    described, examples, code = doc.partition(EXAMPLES)
    own = set(re.findall(r"\w+", " ".join(re.findall(r"^\w[\w, ]*$", described, re.MULTILINE))))
    shared = [name for name in names if name in texts and name not in own]
    return described + "".join(f"\n{name}\n{_indented(texts[name])}" for name in shared) + examples + code


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
