"""How often reports and results say what is not so, and how often what is: sentences on simulated data, counted.

Six kinds of data, whose truth is known: no effect at all; an additive model of correlated features; an interaction;
lognormal features; twelve rows; one positive row in twenty. Five more of columns that go together: substitutes, effects
that cancel, a copy, a sum of two others, a category within another. `tests/support/claims.py` draws them and knows, for
each function that makes a sentence (`losslens.text.claim`), when its sentence holds.

Bars: a sentence is false on no more data sets than its level says, give or take two errors of the simulation; one
about the explained rows (level 0) never, nor that an additive model combines features; no page has a sentence that is
not known, and none contradicts itself (`report(...).check()`, on the rendered page). An interaction of half the main
effect is told at n = 500 in at least 80 %, features with a correlation of 0.9 in at least 95 %.
`python -m benchmarks.sentences [--quick] [--only null,skewed] [--simulations 200]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from tests.support.claims import CORRELATED, KINDS, Kind, drawn, false, of_results, sentences, told, unknown

from benchmarks.coverage import Bar, Counted, Line, print_table, simulate
from losslens.page.report import Report
from losslens.text import CLAIMS, Sentence

RUNS = 200  # of a kind, unless told
TOLD = {  # what is true of a kind, and in how many of its reports it is to be said
    ("interacting", "works_together"): 0.80, ("interacting", "surely_matter"): 0.95, ("additive", "related"): 0.95,
    ("additive", "hardly_occurring"): 0.95, ("null", "unused"): 1.0, ("tiny", "few_rows"): 1.0,
    ("skewed", "leads_surely"): 0.80, ("null", "no_better"): 0.95, ("imbalanced", "how_well"): 1.0,
}  # fmt: skip
ABOUT_THE_MODEL = ("works_together", "region", "matters_more")  # an additive model is never said to combine features
UNKNOWN = "a sentence that is not known"
CONTRADICTS = "a page that contradicts itself"


def of_kind(kind: Kind, runs: int) -> Iterator[Line]:
    """The claims that occurred: how often they are false, and how often they are made."""
    runs = min(runs, RUNS)
    found = simulate(partial(_one, kind), runs)
    for never in (UNKNOWN, CONTRADICTS):
        yield Line(kind.name, never, kind.n, found[never], Bar(high=0.0))
    for name, level in CLAIMS.items():
        made, wrong = found[f"{name}: told"], found[f"{name}: false"]
        expected = TOLD.get((kind.name, name))
        if made.any() or expected:
            often = 0.0 if name in ABOUT_THE_MODEL and not kind.together else level
            bar = Bar(high=round(often + 2 * np.sqrt(often * (1 - often) / runs), 3))
            yield Line(kind.name, f"{name}: false", kind.n, wrong, bar, f"told in {100 * made.mean():.0f} %")
            if expected:
                yield Line(kind.name, f"{name}: told", kind.n, made, Bar(expected))


def _one(kind: Kind, seed: int) -> Counted:
    case = drawn(kind, seed)
    page = told(case, seed)
    summary = page | of_results(case, seed)
    made = {text.claim for text in sentences(summary) if isinstance(text, Sentence)}
    wrong = {text.claim for text in false(case, summary)}
    found = {UNKNOWN: np.array([bool(unknown(page))]), CONTRADICTS: np.array([bool(Report(page).check())])}
    for name in CLAIMS:
        found |= {f"{name}: told": np.array([name in made]), f"{name}: false": np.array([name in wrong])}
    return found


def main() -> None:
    """Print the table."""
    print_table("sentences", __doc__, {kind.name: partial(of_kind, kind) for kind in (*KINDS, *CORRELATED)})


if __name__ == "__main__":
    main()
