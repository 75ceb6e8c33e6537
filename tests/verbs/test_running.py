"""Arguments that say how to run are described in the docstring of every verb that takes them."""

import inspect
import re

import pytest

import losslens as ll
from losslens.verbs.running import OF_LEARNERS, OF_MODELS, with_running

VERBS = [one for name in ll.__all__ if inspect.isfunction(one := getattr(ll, name))]
DOC = "What it does.\n\nParameters\n----------\nmodel, n_jobs\n    Some.\n\nExamples\n--------\n>>> 1\n1"


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_every_argument_about_running_is_described_in_place(verb):
    taken = [name for name in inspect.signature(verb).parameters if name in OF_MODELS]
    described = [name for name in taken if re.search(rf"^{name}\n    \S", inspect.getdoc(verb), re.MULTILINE)]
    assert described == taken


def test_shared_texts_come_behind_those_of_the_verb():
    assert with_running(DOC, ["model", "n_jobs", "progress"]) == DOC.replace(
        "Some.\n", f"Some.\nprogress\n    {OF_MODELS['progress']}\n"
    )


def test_learners_have_their_own_texts():
    assert with_running("It.", ["cv", "memory"]) == f"It.\nmemory\n    {OF_LEARNERS['memory']}"
