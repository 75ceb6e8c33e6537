"""`Importances.more`: a result within a budget goes on where it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from losslens.passes.allowance import limits_of
from losslens.passes.spending import go_on
from losslens.passes.task import Options
from losslens.results.base import WITH_MODEL
from losslens.results.importances import Importances
from losslens.tables.frames import as_table
from losslens.tables.sources import in_files
from losslens.verbs.blocks import check_result, same_task
from losslens.verbs.features import as_importances
from losslens.verbs.running import in_own_words

COMPARED = 4  # rows on which the model is compared with the one of the result: it is slow


def more(
    imp: Importances, model: Any, X: Any, y: Any, budget: Any, precision: Any, running: Mapping[str, Any]
) -> Importances:
    """`Importances.more`."""
    limits, before = limits_of(budget, precision), imp.afforded
    if limits is None:
        raise ValueError("more needs a budget, such as '10 min', or precision='ranks'")
    if before is None:
        raise ValueError("this result was computed without a budget: there is nothing to continue")
    check_result(imp)
    if not all(one.complete for one in imp.values()) or len(before.rows) != imp._first.sample.n:
        raise ValueError("this result holds some of its cells only: go on with the one that the call returned")
    if in_files(X):
        raise ValueError("rows in files can't be used: pass the table of the result")
    given = in_own_words({"model": model, "X": X, "y": y}, "model")
    table = as_table(given["X"])
    if table.n != before.n:
        raise ValueError(f"X has {table.n:,} rows, but the result was computed with {before.n:,}: pass the same rows")
    target = given["y"]
    y = target.iloc[before.rows] if hasattr(target, "iloc") else np.asarray(target)[before.rows]
    columns = {name: dict.fromkeys(one.columns) for name, one in imp.items()}
    options = Options(random_state=before.seed, **running)
    task = same_task(imp, given["model"], table.rows(before.rows), y, columns, options, compared=COMPARED)
    by_feature, predicted, afforded = go_on(task, limits, before, imp)
    assert afforded is not None  # the model is asked
    seconds = None if before.seconds is None or afforded.seconds is None else before.seconds + afforded.seconds
    result = as_importances(task, by_feature, imp.n_predictions + predicted, replace(afforded, seconds=seconds))[0]
    return replace(result, remarks=imp.remarks)


WITH_MODEL |= {"more": more}
