"""The weights of cells as a matrix: shifts, which need no matrix, against the matrix."""

from functools import partial

import numpy as np
import pytest

from losslens.donors.designs import Derangements, Latin, Systematic
from losslens.donors.layout import OwnDonors
from losslens.tables.sample import Sample
from losslens.uncertainty.cell_weights import EffectTotals, MatrixWeights, ShiftWeights

N = 60
RNG = np.random.default_rng(0)
DESIGNS = [Latin(7), Systematic(6), Systematic(7), Derangements(5), Latin(2)]
SOME_WEIGHTS = RNG.random(N) * (RNG.random(N) > 0.2)
WEIGHTS = {"equal": np.full(N, 1 / N), "some of them 0": SOME_WEIGHTS / SOME_WEIGHTS.sum()}
BLOCKS = {"rows": None, "groups": RNG.integers(0, 20, N)}
ROWS = {"all": np.arange(N), "some": np.sort(RNG.permutation(N)[:40])}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_shifts_are_the_matrix(design, weight, block, rows):
    sample = Sample(weight=weight, prediction=np.zeros(N), block=block)
    layout = OwnDonors(design.lend(N, np.random.default_rng(1)), np.arange(N), N)
    try:
        matrix = MatrixWeights(layout, sample, rows)
    except ValueError as too_few:
        with pytest.raises(ValueError, match=str(too_few)[:40]):
            ShiftWeights(layout.donors, sample, rows)
        return
    shifts = ShiftWeights(layout.donors, sample, rows)
    rng = np.random.default_rng(2)
    donor, row = rng.normal(size=N), rng.normal(size=len(rows))
    np.testing.assert_allclose(shifts.times(donor), matrix.times(donor), atol=1e-15)
    np.testing.assert_allclose(shifts.transposed(row), matrix.transposed(row), atol=1e-15)
    np.testing.assert_allclose(shifts.by_row, matrix.by_row, atol=1e-15)
    np.testing.assert_allclose(shifts.by_donor, matrix.by_donor, atol=1e-15)
    assert shifts.squares == pytest.approx(matrix.squares)
    assert (shifts.cells, shifts.components, shifts.freedom) == (matrix.cells, matrix.components, matrix.freedom)


def test_rows_without_weight_have_no_standard_error():
    sample = Sample(weight=np.eye(1, N, 5)[0], prediction=np.zeros(N))
    layout = OwnDonors(Latin(7).lend(N, np.random.default_rng(1)), np.arange(N), N)
    for weights in (partial(MatrixWeights, layout), partial(ShiftWeights, layout.donors)):
        with pytest.raises(ValueError, match=r"no standard error: rows have 0\.0 donors with weight on average"):
            weights(sample, np.arange(10, 20))


def _effects(weights, totals):
    """Of rows and of donors; what they explain is the product of effects and totals."""
    (found,) = weights.effects([totals])
    row = weights.row_effects(totals, found)
    explained, size = row @ totals.row + found.donor @ totals.donor, np.abs(row) @ np.abs(totals.row)
    assert found.explained == pytest.approx(explained, rel=1e-9, abs=1e-9 * size)
    return row, found.donor


@pytest.mark.parametrize(("n", "design"), [(60, Latin(7)), (60, Systematic(6)), (61, Systematic(7)), (300, Latin(20))])
def test_effects_of_equal_weights_come_from_waves(n, design):
    """The effects of the smallest norm among those with the least sum of squares: a dense fit gives the same."""
    rng, rows = np.random.default_rng(3), np.arange(n)
    donors = design.lend(n, rng)
    cells = rng.normal(size=donors.shape) + rng.normal(size=n)[:, None] + rng.normal(size=n)[donors[:]]
    cells -= cells.mean()
    row_total, donor_total = cells.sum(axis=1), np.bincount(donors[:].ravel(), cells.ravel(), n)
    dummies = np.zeros((cells.size, 2 * n))
    dummies[np.arange(cells.size), np.repeat(rows, donors.shape[1])] = 1
    dummies[np.arange(cells.size), n + donors[:].ravel()] = 1
    fitted = dummies @ np.linalg.lstsq(dummies, cells.ravel(), rcond=None)[0]
    shifts = ShiftWeights(donors, Sample(weight=np.full(n, 1 / n), prediction=np.zeros(n)), rows)
    row, donor = _effects(shifts, EffectTotals(row_total / cells.size, donor_total / cells.size, 0.0))
    np.testing.assert_allclose((row[:, None] + donor[donors[:]]).ravel(), fitted, atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_where_rows_explain_everything_donors_have_no_effect(seed):
    """All cells of a row are equal: the normal equations of the donors have 0 on the right, up to rounding.

    Conjugate gradients on that rounding divided by 0, and standard errors were NaN.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 8))
    effect = rng.normal(size=n) * 10.0 ** rng.integers(-8, 8)
    donors, uneven = Derangements(n - 1).lend(n, rng), rng.uniform(0.5, 2, n)
    for weight in (np.full(n, 1 / n), uneven / uneven.sum()):
        sample = Sample(weight=weight, prediction=np.zeros(n))
        matrix = MatrixWeights(OwnDonors(donors, np.arange(n), n), sample, np.arange(n))
        for weights in (matrix, ShiftWeights(donors, sample, np.arange(n))):
            row, donor = _effects(weights, EffectTotals(weights.by_row * effect, weights.transposed(effect), 0.0))
            np.testing.assert_allclose(row, effect, rtol=1e-9, atol=1e-9 * np.abs(effect).max())
            np.testing.assert_allclose(donor, 0.0, atol=1e-9 * np.abs(effect).max())
