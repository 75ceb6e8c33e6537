"""Features that go together: `feature_groups` of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from losslens.tables.associations import groups_of
from losslens.tables.column_scores import CodedRows, copy_columns, spread_rows
from losslens.tables.frames import as_table
from losslens.tables.sources import in_files

MOST_ROWS = 5000  # that groups are found from


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
