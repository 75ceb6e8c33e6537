"""Sums over parts of the rows say how far rows move an importance, as the rows themselves do."""

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import pytest

from losslens.cells.matrix import Means
from losslens.cells.row_sums import Deletion, PartSums, RowSums
from losslens.donors.layout import CommonGrid
from losslens.tables.sample import Sample, Totals
from losslens.uncertainty.standard_errors import influence, influence_on_error, ratio_influence

RNG = np.random.default_rng(0)
N, G = 60, 7
OWN = RNG.integers(0, G, N)
OWN[:G] = np.arange(G)
WEIGHT = RNG.integers(1, 4, N) / 1.0
WEIGHT /= WEIGHT.sum()
LOSS = RNG.exponential(size=N)
CELLS = RNG.normal(size=(N, G)) + RNG.normal(size=(N, 1))  # changes of loss, of rows that meet values
LENT = np.bincount(OWN, WEIGHT, G)
LOCAL, CAUSED = CELLS @ LENT, WEIGHT @ CELLS
PFI, ERROR = float(WEIGHT @ LOCAL), float(WEIGHT @ LOSS)
DELETION = Deletion(float(WEIGHT @ WEIGHT), N)
PARTS = np.split(np.arange(N), [1, 20, 21, 50])


def summed():
    parts = (RowSums.of(WEIGHT[part], LOCAL[part], LOSS[part], OWN[part], G, DELETION) for part in PARTS)
    return reduce(add, parts).influences(PFI, CAUSED, ERROR, DELETION)


def pull_on_error():
    """w_i (l_i - mean) / (1 - w_i) about its mean, times (n - 1)/n: as equal weights have it without deletion."""
    pull = (N - 1) / N * WEIGHT / (1 - WEIGHT) * (LOSS - ERROR)
    return pull - pull.mean()


def results(rows=None):
    """The means and the sample of all rows; or those of some rows beside sums over all."""
    kept = np.arange(N) if rows is None else rows
    weight = WEIGHT[kept] / WEIGHT[kept].sum()
    totals = Totals(N, kept, N, float(WEIGHT @ WEIGHT), ERROR, float(np.sum(pull_on_error() ** 2)))
    sample = Sample(weight, np.zeros(len(kept)), loss=LOSS[kept], totals=None if rows is None else totals)
    means = Means(
        local=LOCAL[kept],
        mass=weight,
        caused=CAUSED[OWN[kept]],
        donor_weight=weight,
        total=PFI,
        influences=None if rows is None else summed(),
    )
    return means, CommonGrid(OWN[kept], np.arange(len(kept)), G), sample, np.arange(len(kept))


def test_sums_of_parts_are_those_of_the_rows():
    """U - U_(-i) = (w_i (R_i + C_i) - 2 U w_i (1 - w_i)) / (Z - 2 w_i (1 - w_i)), Z = 1 - sum of w^2, U = V / Z.

    The factor (n - 1)(n - 2)/n^2 makes it w_i (R_i + C_i - 2 V) where weights are equal. Sums are about its mean.
    """
    Z = 1 - WEIGHT @ WEIGHT
    u = (WEIGHT * (LOCAL + CAUSED[OWN]) - 2 * PFI / Z * WEIGHT * (1 - WEIGHT)) / (Z - 2 * WEIGHT * (1 - WEIGHT))
    u = (N - 1) * (N - 2) / N**2 * (u - u.mean())
    found = summed()
    assert found.square == pytest.approx(u @ u)
    assert found.cube == pytest.approx(np.sum(u**3))
    assert found.with_error == pytest.approx(u @ pull_on_error())


def test_equal_weights_move_the_mean_over_all_pairs():
    w, even = np.full(5, 0.2), Deletion(0.2, 5)
    a, o = even.of_pairs(w)
    np.testing.assert_allclose(a, w)
    np.testing.assert_allclose(o / even.pairs, w)
    np.testing.assert_allclose(even.of_mean(w), w)


@pytest.mark.parametrize("rows", [np.arange(N), np.arange(0, N, 3)], ids=["all kept", "some kept"])
def test_standard_errors_do_not_depend_on_where_the_rows_are(rows):
    """Errors and skewness of the importance, the mean loss and the ratio: from rows, or from sums of parts."""
    here, there = results(), results(rows)
    one, other = influence(*here), influence(*there)
    assert other.std_error == pytest.approx(one.std_error)
    assert other.skewness == pytest.approx(one.skewness)
    assert other.moved @ other.moved == pytest.approx(one.variance)  # kept rows stand for all
    errors = [influence_on_error(sample, at) for _, _, sample, at in (here, there)]
    assert errors[1].std_error == pytest.approx(errors[0].std_error)
    ratios = [ratio_influence(each, on_error, PFI, ERROR) for each, on_error in zip((one, other), errors, strict=True)]
    assert ratios[1].std_error == pytest.approx(ratios[0].std_error)
    numbers = [
        (sample.units(at), sample.mean_loss(at), sample.others_share(at, means.mass))
        for means, _, sample, at in (here, there)
    ]
    assert numbers[1] == pytest.approx(numbers[0])


def test_what_parts_add_up_to():
    @dataclass(frozen=True)
    class Several(PartSums):
        number: float
        arrays: tuple
        names: list

    one = Several(1.0, (np.ones(2), np.zeros(3)), ["a"])
    both = one + Several(2.0, (np.ones(2), np.ones(3)), ["b"])
    assert (both.number, both.names) == (3.0, ["a", "b"])
    assert [array.tolist() for array in both.arrays] == [[2, 2], [1, 1, 1]]
