"""How much a page of many rows and features holds, so that it stays small: single curves, and digits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from losslens.page.labels import rough
from losslens.text import claim

MOST_CELLS = 500_000  # of all features together, up to which the page holds every cell
MOST_BINS = 128  # of donors' values, otherwise
FEW_BINS = 64  # of features without curves of single rows
RANKS = (8, 4)  # of the low-rank forms: the first if it fits for all features
BUDGET = 3e6  # bytes for the rows of all features
LEAST = 0.9e6  # of them for curves of single rows
AGAIN = 48  # features at most whose cells are computed again to be shown
LARGE = 250_000  # rows times features from which on numbers have fewer digits
STEP = 1e-4  # of local importances in such a page at most, in units of the error or the largest PFI


@dataclass(frozen=True)
class Held:
    """The part of the cells that a page holds."""

    all_cells: bool  # or a low-rank form of them
    rank: int  # of the low-rank forms
    curves: int  # features with curves of single rows, the most important ones

    def bins(self, place: int) -> int | None:
        """The most values of a feature at this place of the ranking."""
        return None if self.all_cells else MOST_BINS if place < self.curves else FEW_BINS


def held(n: int, p: int, models: int, cells: int, *, streamed: bool = False) -> Held:
    """The part of the cells that the budget allows; numbers that the page cannot do without come first.

    `streamed`: the cells were not kept, and are computed again for features with curves of single rows.
    """
    part = _held(n, p, models, cells)
    return replace(part, curves=min(part.curves, AGAIN)) if streamed and not part.all_cells else part


def _held(n: int, p: int, models: int, cells: int) -> Held:
    if cells <= MOST_CELLS:
        return Held(all_cells=True, rank=RANKS[0], curves=p)
    each = 1.3 + 1.1 * models if n * p > LARGE else 4 + 4 * models  # a value, and a local importance for each model
    left = max(BUDGET - n * p * each, LEAST)
    for rank in RANKS:
        if p * n * (2 * rank + 3) <= left:  # rows of ICI and ICE; level and place of each row
            return Held(all_cells=False, rank=rank, curves=p)
    some = max(1, int(left / (n * (2 * RANKS[-1] + 3))))
    return Held(all_cells=False, rank=RANKS[-1], curves=some)


def with_fewer_digits(summary: dict[str, Any]) -> dict[str, Any]:
    """A large page with local importances in steps, and columns of the less important features rounded."""
    n, features = summary["n"], summary["features"]
    if n * len(features) <= LARGE:
        return summary | {"rounded": None}
    unit = max(abs(summary["models"][0]["error"]), *(abs(feature["models"][0]["pfi"]) for feature in features))
    step = 2 * _of_one_digit(STEP * unit / 2) if unit > 0 else 1.0
    entries = [
        [entry | {"local": np.rint(entry["local"] / step) * step} for entry in one["models"]] for one in features
    ]
    full = {feature["column"] for feature in features if feature["models"][0]["cells"] is not None} | {summary["by"]}
    weak = summary["segments"]["segments"] if summary["segments"] else []
    full |= {condition["column"] for one in weak for condition in one["conditions"]}  # their bounds are not rounded
    columns = [
        column if column["kind"] != "number" or column["name"] in full
        else column | {"values": rough(np.asarray(column["values"]), np.asarray(column["values"]), "number")}
        for column in summary["table"]["columns"]
    ]  # fmt: skip
    count = sum(column is not before for column, before in zip(columns, summary["table"]["columns"], strict=True))
    return summary | {
        "features": [one | {"models": models} for one, models in zip(features, entries, strict=True)],
        "table": summary["table"] | {"columns": columns},
        "rounded": {"step": step, "sentence": fewer_digits(count, step)},
    }


def _of_one_digit(most: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not above."""
    power = 10.0 ** np.floor(np.log10(most))
    return float(max(digit * power for digit in (1, 2, 5) if digit * power <= most * (1 + 1e-12)))


@claim(level=0)
def fewer_digits(count: int, step: float) -> str:
    """The numbers that are rounded in a large page."""
    columns = f"{count:,} column{'s' if count > 1 else ''} of less important features to a 200th of the range or finer"
    parts = [columns] if count else []
    parts.append(
        f"local importances to steps of {step:.1g}, so that the PFI of a subgroup is off by {step / 2:.1g} at most"
    )
    return f"To keep this file small, numbers of rows are rounded: {'; '.join(parts)}."
