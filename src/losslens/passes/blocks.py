"""The features of a block replaced together, and each alone, with the same donors.

Where all of these are means over all pairs of rows they have the same donors already: only the block is evaluated.
Otherwise all of them are, with the donors of one draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from losslens.donors.designs import Latin
from losslens.donors.questions import Subject
from losslens.passes.task import Task
from losslens.passes.ways import FIXED_DONORS, design_of, evaluate, first_design
from losslens.results.importance import FeatureImportance
from losslens.results.together import Block
from losslens.text import size_in_words

FEWEST_DONORS = 5  # of a row


class SharedDonors(Subject):
    """A feature with the donors that all others have."""

    def seed(self, entropy: int) -> tuple[int, ...]:
        """The seed of every such feature."""
        return (entropy,)


def block_of(
    task: Task, name: str, members: Mapping[str, FeatureImportance], donors: int = FIXED_DONORS
) -> tuple[Block, FeatureImportance, int]:
    """The block, its importance, and the number of predictions; `donors` of a row, at most, where they are sampled."""
    subjects = {subject.feature.name: subject for subject in task.subjects}
    design = design_of(task, subjects[name], partial(first_design, blocked=task.blocked))
    if design.all_pairs and all(one.exact and one.design == design.remembered for one in members.values()):
        ((joint, *_),), predicted = evaluate(task, [(subjects[name], design)])
        return Block.of(name, joint, members), joint, predicted
    m = donors if task.design is None or task.design.m is None else task.design.m
    together = [SharedDonors(subjects[one].feature, subjects[one].columns) for one in (name, *members)]
    while task.budget.kept_rows([m] * len(together), task.n) < task.n and m > FEWEST_DONORS:
        m = max(m // 2, FEWEST_DONORS)
    evaluated, predicted = evaluate(task, [(subject, Latin(min(m, task.n))) for subject in together])
    joint, *alone = (by_loss[0] for by_loss in evaluated)
    if not joint.complete:
        needs = size_in_words(len(together) * joint.full_size)
        raise ValueError(f"the features of {name!r} are compared cell by cell, which needs memory={needs!r}")
    return Block.of(name, joint, dict(zip(members, alone, strict=True))), joint, predicted
