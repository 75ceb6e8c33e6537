"""Features that go together: `feature_groups` of a table, `Importances.together` and `Importances.given_others`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from losslens.donors.designs import Design
from losslens.donors.samplers import Within
from losslens.engines.blackbox import differ
from losslens.models import Model, as_model
from losslens.passes.in_common import block_of
from losslens.passes.task import Options, Task, opened, prepare
from losslens.passes.ways import FIXED_DONORS
from losslens.progress import bar
from losslens.results.base import WITH_MODEL
from losslens.results.importances import Importances
from losslens.results.together import Together
from losslens.tables.associations import groups_of
from losslens.tables.column_scores import CodedRows
from losslens.tables.features import unknown_feature
from losslens.tables.frames import Batch, as_table
from losslens.tables.sample import copy_columns, spread_rows
from losslens.tables.sources import in_files
from losslens.verbs.features import importances_of
from losslens.verbs.running import in_own_words

MOST_ROWS = 5000  # that groups are found from
LEADING = 8  # features that are drawn given the others, by default
COMPARED = 64  # rows on which the model is compared with the one of the result


def feature_groups(X: Any, threshold: float = 0.7) -> dict[str, list[Any]]:
    """Groups of columns that go together, ready for ``features=``: average linkage of their rank correlations.

    Two groups are joined while the average association between their columns is at least the threshold. It is the
    absolute rank correlation of two numbers (dates, ordered categories) on the rows where both are present, the
    correlation ratio of the ranks where one is a category, and Cramér's V of two categories, both corrected for the
    number of categories. Indicators of one category (neighbouring columns of 0 and 1, of which one is 1 in every row)
    have association 1, and a constant 0. With few rows more is required: what independent columns reach in one table
    of twenty. The same table has the same groups.

    Parameters
    ----------
    X
        A table; of more than 5,000 rows so many are looked at, spread evenly.
    threshold
        The least average association, above 0 and at most 1.

    Examples
    --------
    >>> import numpy as np, pandas as pd, losslens as ll
    >>> size, color = np.random.default_rng(0).normal(size=(2, 200))
    >>> X = pd.DataFrame({"length": size, "color": color, "width": 2 * size})
    >>> ll.feature_groups(X)
    {'length, width': ['length', 'width'], 'color': ['color']}
    """
    number = isinstance(threshold, (int, float, np.number)) and not isinstance(threshold, bool)
    if not number or not 0 < threshold <= 1:
        raise ValueError(f"threshold is an association above 0 and at most 1, such as 0.7; got {threshold!r}")
    if in_files(X):
        raise TypeError("feature_groups takes a table in memory: read some rows of the files and pass these")
    table = as_table(X)
    rows = CodedRows.of(table.names, copy_columns(table, spread_rows(table, most=MOST_ROWS)))
    groups: dict[str, list[Any]] = {}
    for columns in groups_of(rows, float(threshold)):
        name = ", ".join(table.names[j] for j in columns)
        while name in groups or (len(columns) > 1 and name in table.names):  # as a column is called
            name += " "
        groups[name] = [table.labels[j] for j in columns]
    return groups


def together(
    imp: Importances, model: Any, X: Any, y: Any, blocks: Mapping[str, Any] | None, running: Mapping[str, Any],
    donors: int = FIXED_DONORS,
) -> Together:  # fmt: skip
    """`Importances.together`; `donors` of a row, at most, where they are sampled."""
    options = Options(**running)
    check_result(imp)
    chosen = imp.blocks if blocks is None else _checked(imp, blocks)
    if not chosen:
        return Together(
            {}, imp.title, imp.error, imp.design, exact=True, engine=imp.engine, n_predictions=0, backend=imp.backend
        )
    wanted = {name: dict.fromkeys(c for one in members for c in imp[one].columns) for name, members in chosen.items()}
    wanted |= {one: dict.fromkeys(imp[one].columns) for members in chosen.values() for one in members}
    task = same_task(imp, model, X, y, wanted, options)
    with bar(len(chosen), "replacing blocks", options.progress, "blocks") as tick:
        results = []
        for name, members in chosen.items():
            results.append(block_of(task, name, {one: imp[one] for one in members}, donors))
            tick(1)
    joint = [one for _, one, _ in results]
    return Together.of(
        [block for block, _, _ in results], title=imp.title, error=imp.error,
        design=", ".join(dict.fromkeys(repr(one.design) for one in joint)), exact=all(one.exact for one in joint),
        engine=", ".join(dict.fromkeys(one.engine for one in joint)), n_predictions=sum(count for *_, count in results),
        backend=imp.backend,
    )  # fmt: skip


def _checked(imp: Importances, blocks: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Blocks that the caller names, of features of the result."""
    if not isinstance(blocks, Mapping) or not blocks:
        raise TypeError(f"blocks is a mapping from names to lists of features, {{'name': [features]}}; got {blocks!r}")
    checked = {}
    for name, members in blocks.items():
        listed = [members] if isinstance(members, str) else [str(one) for one in members]
        for one in listed:
            if one not in imp:
                raise ValueError(unknown_feature(one, list(imp), "features"))
        columns = [column for one in listed for column in imp[one].columns]
        if len(set(listed)) < 2 or len(set(columns)) < len(columns) or str(name) in imp:
            raise ValueError(
                f"a block is two or more features with different columns, under a name that no feature has; got "
                f"{name!r}: {listed!r}"
            )
        checked[str(name)] = tuple(listed)
    return checked


def check_result(imp: Importances) -> None:
    """Raise ValueError, in one sentence, for results to which no further features can be added."""
    if imp._is_score:
        raise ValueError(f"{imp.title} has no loss of single rows: compute the importances by a loss first")
    first = imp._first
    if first.totals is not None:
        raise ValueError(
            f"this result comes from files ({first.totals.n:,} rows) and keeps some of the rows; call "
            "feature_importance with rows that fit into memory"
        )
    if len(first.at) < first.sample.n:
        raise ValueError("this result is of some rows: call the method on the result for all rows")
    if any(one.conditioning is not None for one in imp.values()):
        raise ValueError("these values were drawn given other columns; call the method on a result with donors='auto'")


def same_task(
    imp: Importances, model: Any, X: Any, y: Any, features: Mapping[str, Any], options: Options, sampler: Any = None,
    compared: int = COMPARED,
) -> Task:  # fmt: skip
    """The task of further features with the rows, weights and groups of a result, and its donors or a sampler.

    After a check, on so many rows, that the model and the rows are those of the result.
    """
    first = imp._first
    given = in_own_words({"model": model, "X": X, "y": y}, "model")
    wrapped: Model = as_model(given["model"])
    design: Any = {repr(one.design): one.design for one in imp.values()}
    alike = next(iter(design.values())) if len(design) == 1 else None
    usable = isinstance(alike, Design) and not (alike.common and not alike.all_pairs) and not alike.ranked
    options = replace(options, donors=sampler or (alike if usable and repr(alike) != "All()" else "auto"))
    X, y, options, files = opened(wrapped, given["X"], given["y"], options)
    if files is not None:
        raise ValueError("these rows are in files that don't fit into memory; pass the rows of the result")
    options, table = replace(options, sample_weight=first.sample.weight, groups=first.sample.block), as_table(X)
    if table.n != first.sample.n:
        raise ValueError(
            f"X has {table.n:,} rows, but the result was computed on {first.sample.n:,}: pass the same rows"
        )
    label = dict(zip(table.names, table.labels, strict=True))
    unknown = [column for columns in features.values() for column in columns if column not in label]
    if unknown:
        raise ValueError(f"X lacks the column {unknown[0]!r}, which the result explains: pass the same table")
    named = {name: [label[column] for column in columns] for name, columns in features.items()}
    task = prepare(wrapped, X, y, replace(options, features=named), loss=imp.loss, response=imp.loss.reads)
    some = np.unique(np.linspace(0, task.n - 1, compared).astype(np.intp))
    predicted, recorded = task.engine.respond(Batch(task.table).fill(some, [])), first.sample.prediction
    if predicted.shape != recorded[some].shape or differ(recorded[some], predicted, recorded):
        raise ValueError("the model's predictions differ from those of the result: pass the same model and rows")
    if task.sample.y is None or not np.array_equal(task.sample.y, np.asarray(first.sample.y)):
        raise ValueError("y differs from the true values of the result: pass the same y")
    return task


def given_others(
    imp: Importances, model: Any, X: Any, y: Any, sampler: Any, features: Sequence[str] | None,
    running: Mapping[str, Any],
) -> Importances:  # fmt: skip
    """`Importances.given_others`."""
    options = Options(**running)
    check_result(imp)
    sampler = Within(m=FIXED_DONORS) if sampler is None else sampler
    if not callable(sampler) or isinstance(sampler, (type, Design)):
        raise TypeError(
            f"sampler must draw values given the other columns, such as Within() or Residual(); got {sampler!r}"
        )
    names = [one.name for one in imp._ranked[:LEADING]] if features is None else features
    listed = [names] if isinstance(names, str) else [str(name) for name in names]
    unknown = [name for name in listed if name not in imp]
    if unknown or not listed:
        raise ValueError(unknown_feature(unknown[0], list(imp), "features") if unknown else "features is empty")
    wanted = {name: dict.fromkeys(imp[name].columns) for name in listed}
    return importances_of(same_task(imp, model, X, y, wanted, options, sampler))[0]


WITH_MODEL |= {"together": together, "given_others": given_others}
