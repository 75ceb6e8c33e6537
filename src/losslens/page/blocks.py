"""Features that go together: what the page says of their joint importance, and of rows that don't exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from losslens.results.importances import Importances
from losslens.results.one_number import number_of
from losslens.results.plain_error import LEVEL, PlainError, plain
from losslens.results.together import Block, Together
from losslens.text import claim, cut, listed
from losslens.uncertainty.inference import adjusted

NAMED = 3  # members of a block that a sentence names

# What follows the joint number: that of one member alone, the most important, or where they are opposed the clearest.
ENDINGS = {
    "opposed": ", less than {one} alone ({alone}): {why}, so no number of one alone tells what it is worth",
    "substitutes": "; {most}, {one}, alone {to} {alone}: {why}, so that one alone looks small is no "
    "reason to drop {both}",
    "more than the sum": "; {most}, {one}, alone {to} {alone}: {why}, so judge them by the joint number",
    "one carries it": ", about as much as {one} alone ({alone}): {why}",
    "overlapping": ", more than {one} alone ({alone}), and less than their single effects add up to: {why}, "
    "so their numbers must not be added",
}
CASES = {  # of two features, and of more
    "opposed": ("their effects partly cancel",) * 2,
    "substitutes": ("each can stand in for the other", "each can stand in for the others"),
    "more than the sum": ("together they matter more than their single effects add up to",) * 2,
    "one carries it": ("the other adds little", "the others add little"),
    "overlapping": ("they overlap",) * 2,
    "can't tell": ("their values go together",) * 2,
}


@dataclass(frozen=True, eq=False)
class GoingTogether:
    """The blocks of the first model that have a leading feature, and importances given the other columns."""

    together: Together | None = None
    given: Importances | None = None  # of leading features that are mostly shuffled into unreal rows
    how: str = ""  # what was computed, or why nothing was

    @property
    def first(self) -> Block | None:
        """The block to tell of first: one of which something is sure, and of these the most important."""
        blocks = [] if self.together is None else list(self.together.blocks.values())
        return max(blocks, key=lambda one: (one.case != "can't tell", _size(one)), default=None)


def _size(block: Block) -> float:
    return max(block.importance, float(block.largest.value))


@claim(level=LEVEL)
def case_in_words(block: Block) -> str:
    """What is sure about features that go together; where nothing is, that they do."""
    return CASES[block.case][len(block.features) > 2]


@claim(level=LEVEL)
def goes_together(found: GoingTogether | None, first: Importances, *, by_score: bool = False) -> str:
    """The joint number of the first block of which a case surely holds, that of a member alone, and what follows."""
    block = None if found is None else found.first
    if block is None or block.case == "can't tell":
        return ""
    error = cast("PlainError", plain(first))  # blocks have losses
    one = block.balanced if block.case == "opposed" else block.largest.name
    alone, who = block.numbers[one].value, _members(block)
    two = len(block.features) == 2
    most, both = ("the more important one", "both") if two else ("the most important of them", "all")
    ending = ENDINGS[block.case].format(
        one=cut(one), alone=_text(error, alone), to=f"{_moves(error, alone)}s it to", most=most, both=both,
        why=case_in_words(block),
    )  # fmt: skip
    what = f"{_moves(error, block.importance)} {_number(error, by_score=by_score)} to"
    return f"Shuffled together, {who} {what} {_text(error, block.importance)}{ending}."


def _members(block: Block) -> str:
    """Its features in words, of many the most important ones."""
    members = list(block.features)
    if len(members) > NAMED:
        members.sort(key=lambda name: -block.numbers[name].value)
    return listed([cut(name) for name in members], NAMED - (len(members) > NAMED))


def _moves(error: PlainError, pfi: float) -> str:
    """What shuffling does to the number of the page."""
    return "raise" if error.after(pfi) >= error.now else "lower"


def _number(error: PlainError, *, by_score: bool) -> str:
    if error.falls or error.kind == "wrong":
        return "the typical probability of the true class" if error.falls else "the share of wrong answers"
    if error.kind in ("loss", "times"):
        return f"the error ({error.title})"
    return f"the {error.unit}" if by_score else "the error"


def _text(error: PlainError, pfi: float) -> str:
    return f"{error.text(error.after(pfi))}{' times its size' if error.times else ''}"


def going_together_dict(found: GoingTogether, first: Importances) -> dict[str, Any] | None:
    """The section of the page; None where nothing was computed and nothing is to be said."""
    if found.together is None and found.given is None and not found.how:
        return None
    error = cast("PlainError", plain(first))
    blocks = [] if found.together is None else found.together._ranked
    block_of = {name: block for block in blocks for name in block.features}
    tested: dict[str, dict[str, Any]] = {}
    if found.together is not None and blocks:
        estimates, exact = found.together._estimates, found.together.exact
        p = adjusted(estimates.p_values(), "holm").tolist()
        tested = {name: {"p_zero": one, "exact": exact} for name, one in zip(estimates.names, p, strict=True)}
    return {
        "how": found.how,
        "blocks": [_block_dict(block, error) | tested[block.name] for block in blocks],
        "unreal": [] if found.given is None else [
            _unreal_dict(first, name, block_of.get(name), found.given) for name in found.given
        ],
    }  # fmt: skip


def _block_dict(block: Block, error: PlainError) -> dict[str, Any]:
    joint, largest = block.numbers[block.name], block.largest
    return {
        "key": block.name, "name": f"{_members(block)} together", "features": list(block.features),
        "words": case_in_words(block), "text": error.text(error.after(block.importance)),
        "pfi": block.importance, "low": joint.low, "high": joint.high, "sum": block.sum,
        "largest": largest.name, "largest_text": error.text(error.after(largest.value)), "largest_pfi": largest.value,
        "case": block.case, "p": block.p, "local": block.local,
    }  # fmt: skip


def _unreal_dict(first: Importances, name: str, block: Block | None, given: Importances) -> dict[str, Any]:
    one, drawn, far = first[name], given[name], first[name].extrapolation
    numbers = {key: number_of(drawn, key) for key in ("importance", "low", "high")}
    return {
        "name": name, "share": "" if far is None else far.percent, "pfi": one.pfi,
        "block": None if block is None else block.importance,
        "given": numbers["importance"], "low": numbers["low"], "high": numbers["high"],
    }  # fmt: skip
