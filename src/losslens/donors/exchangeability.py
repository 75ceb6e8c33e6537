"""Whether drawn values differ from real ones, given the other columns: a test by exchanging the two.

Row i holds its own value x_i and one drawn value x'_i, beside the same other columns o_i. If the sampler draws from the
distribution given o, the two have the same distribution. A discriminant looks for a difference: phi(x, o) are scores of
x and their products with scores of o (normal scores of ranks and their second and third powers; indicators of
categories), ``a_i = phi(x'_i, o_i) - phi(x_i, o_i)``, ``G = sum a_i a_i' + ridge``, and the statistic is
``s' G^-1 s`` with ``s = sum a_i``. Exchanging the two values of a row changes the sign of a_i and leaves G as it is, so
that random signs give the null distribution, exactly where rows are drawn independently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from losslens.blas import one_thread
from losslens.tables.column_scores import CodedRows, FeatureScores
from losslens.tables.sample import ColumnCopy, by_unit
from losslens.typing import Floats, Indices

LEAST_ROWS, MOST_ROWS = 20, 2000  # with fewer rows there is no test; of more rows some are taken
MOST_COLUMNS = 8  # other columns: those most related to the feature
RIDGE = 0.1  # of standardised terms
EXCHANGES = 499
LEVEL = 0.05


class ExchangeTest(NamedTuple):
    """The share of rows in which the drawn value is recognised, 1/2 by chance; and the p-value of no difference."""

    share: float
    p: float


UNKNOWN = ExchangeTest(np.nan, np.nan)


@one_thread()
def exchange_test(
    columns: Sequence[ColumnCopy], others: Sequence[ColumnCopy], block: Indices | None = None
) -> ExchangeTest:
    """Compare real and drawn values.

    Parameters
    ----------
    columns
        Of each drawn column: the real values of r rows, then their drawn ones, (2r,).
    others
        The columns that values were drawn given, (r,) each.
    block
        (r,): rows of a group are exchanged together.
    """
    if not others or len(others[0][0]) < LEAST_ROWS:
        return UNKNOWN
    differences = by_unit(_differences(columns, others), block)
    size = np.sqrt(np.square(differences).mean(axis=0))
    differences = differences[:, size > 1e-9] / size[size > 1e-9]
    if len(differences) < LEAST_ROWS or differences.shape[1] == 0:
        return UNKNOWN
    gram = differences.T @ differences / len(differences) + RIDGE * np.eye(differences.shape[1])
    whitened = np.linalg.solve(np.linalg.cholesky(gram), differences.T).T
    total = whitened.sum(axis=0)
    guess = np.einsum("ij,ij->i", whitened, total - whitened)  # of each row by the others
    rng, as_far = np.random.default_rng(20), 0
    for _ in range(EXCHANGES):
        signs = 1.0 - 2.0 * rng.integers(0, 2, len(whitened), np.int8)
        as_far += np.square(signs @ whitened).sum() >= total @ total * (1 - 1e-9)
    return ExchangeTest(float(np.mean((guess > 0) + 0.5 * (guess == 0))), float((1 + as_far) / (1 + EXCHANGES)))


def _differences(columns: Sequence[ColumnCopy], others: Sequence[ColumnCopy]) -> Floats:
    """phi(x', o) - phi(x, o) of each row; what is chosen by the values is chosen by both together."""
    drawn, kept = (CodedRows.of(tuple(map(str, range(len(some)))), some) for some in (columns, others))
    own, rows = FeatureScores.of(drawn.scored).scores, kept.n
    change, both = own[rows:] - own[:rows], own[rows:] + own[:rows]
    strength = np.bincount(kept.column_of, np.square(kept.scores.T @ both).sum(axis=1), len(others))
    most = np.argsort(-strength, kind="stable")[:MOST_COLUMNS]
    scores = kept.scores[:, np.isin(kept.column_of, most)]
    return np.hstack([change, (change[:, :, None] * scores[:, None, :]).reshape(rows, -1)])
