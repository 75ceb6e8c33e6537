"""What users read is listed by `tests/strings.py`, and sentences that readers stumbled over stay away."""

import re

import pytest
from tests.strings import files, texts

TEXTS = {name: texts(path) for name, path in files().items()}

# Each was said of something that has a name in the field; beside it what is said now.
STUMBLES = {
    r"who gets the file": "anyone who receives this file",
    r"is to be careful about": "caveats",
    r"(?<!of )one and the same answer": "always giving the same answer",
    r"counts? as .* of equal weight": "the effective number of rows",
    r"sides? (that are )?chosen without each row": "by leave-one-out",
    r"had no part in finding the rule (it|\(|$)": "were not used to find the rule",
    r"makes rows that hardly occur": "creates unrealistic rows",
    r"told by the": "measured by the",
    r"[Hh]ow many times as large": "error ratio",
    r"is \(missing\)": "is missing",
    r"misses one names it": "any false finding",
    r"[Oo]perations a way": "the number of predictions",
    r"is no (?:number|value)s? that .* is": "is not one of",
    r"streamed: single curves": "to save memory",
    r"exclude each other": "pass either, not both",
    r"\bsaid where\b": "named where",
    r"call this of": "call the method on",
}


@pytest.mark.parametrize("stumble", STUMBLES)
def test_sentences_that_readers_stumbled_over_stay_away(stumble):
    told = [f"{name}:{line} {text}" for name, listed in TEXTS.items() for line, _, text in listed]
    assert [one for one in told if re.search(stumble, one)] == []


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("results/selection.py", "error", "no row is chosen; choose at least one"),
        ("results/selection.py", "error", "the mask has {len(array):,} entries for {n:,} rows"),
        ("cli/commands.py", "help", "What a command would cost, before it runs."),
        ("uncertainty/cautions.py", "text", "A few rows decide this number: its interval may be too narrow."),
        ("page/assets/sections/words.html", "text", "Method and caveats"),
        ("page/assets/bar.js", "text", "No column has this name."),
    ],
)
def test_texts_of_all_kinds_are_listed(name, kind, text):
    start = text.partition("{")[0]
    assert any(one.startswith(start) and how == kind for _, how, one in TEXTS[name])


def test_names_and_docstrings_are_not_listed():
    listed = {text for _, _, text in TEXTS["text.py"]}
    assert all(" " in text.strip() for text in listed)
    assert not any("\n\n" in text for text in listed)
