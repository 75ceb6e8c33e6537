"""Black boxes over files: the sums of some rows and donors, against their definitions."""

from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import losslens as ll
from losslens.cells.row_sums import Deletion, RowSums
from losslens.losses import squared_error
from losslens.passes.parts import donor_values
from losslens.passes.parts.blackbox import _cells, _groups, _rows
from losslens.tables.sample import Sample

RNG = np.random.default_rng(0)
N, M, G = 40, 6, 5
SAMPLE = Sample(RNG.dirichlet(np.ones(N)), RNG.normal(size=N), RNG.normal(size=N), RNG.gamma(1, 1, N))
ROWS, OWN = np.arange(3, 33), RNG.integers(0, G, 30)
CHANGES = RNG.normal(size=(M, 30))
DELETION = Deletion(float(SAMPLE.weight @ SAMPLE.weight), N)


def same(found, expected):
    for field in fields(RowSums):
        np.testing.assert_allclose(getattr(found, field.name), getattr(expected, field.name), atol=1e-12)


def sums(mean, noise):
    return RowSums.of(SAMPLE.weight[ROWS], mean, SAMPLE.loss[ROWS], OWN, G, DELETION, noise)


def test_means_over_donors_have_the_noise_of_a_mean():
    """m donors that count alike: s^2 / m; the variance between donors is the mean of s^2 (n - 1)/n, as weights say."""
    found, within = _rows(SAMPLE, ROWS, CHANGES, np.full((M, 30), 0.7), OWN, G, DELETION, every=False)
    same(found, sums(CHANGES.mean(axis=0), CHANGES.var(axis=0, ddof=1) / M))
    w = SAMPLE.weight[ROWS]
    assert within[0] / within[1] == pytest.approx(w @ CHANGES.var(axis=0, ddof=1) / w.sum())


def test_all_donors_leave_no_noise():
    found, within = _rows(SAMPLE, ROWS, CHANGES, np.full((M, 30), 0.7), OWN, G, DELETION, every=True)
    same(found, sums(CHANGES.mean(axis=0), np.zeros(30)))
    assert within.tolist() == [0, 0]


def test_weighted_means_state_their_noise_without_bias():
    """Independent changes of variance 4 and shares s: the mean has variance 4 sum(s^2), as is stated on average."""
    weights = np.repeat(RNG.uniform(0.2, 2, (M, 1)), 20_000, axis=1)
    many = SimpleNamespace(weight=np.full(20_000, 1.0), loss=np.ones(20_000))
    changes = 2 * np.random.default_rng(1).normal(size=(M, 20_000))
    stated = []
    original = RowSums.of

    def record(w, R, loss, own, g, deletion, noise):
        stated.append((R, noise))
        return original(w, R, loss, own, g, deletion, noise)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowSums, "of", record)
        _, within = _rows(many, np.arange(20_000), changes, weights, np.zeros(20_000, int), 1, DELETION, every=False)
    share = weights[:, 0] / weights[:, 0].sum()
    mean, noise = stated[0]
    np.testing.assert_allclose(mean, share @ changes)
    assert noise.mean() == pytest.approx(4 * share @ share, rel=0.03)
    assert within[0] / within[1] == pytest.approx(4, rel=0.03)


def test_rows_with_one_donor_or_none_have_no_noise():
    weights = np.ones((M, 30))
    weights[:, 0] = 0.0
    weights[1:, 1] = 0.0
    found, within = _rows(SAMPLE, ROWS, CHANGES, weights, OWN, G, DELETION, every=False)
    mean, noise = CHANGES.mean(axis=0), CHANGES.var(axis=0, ddof=1) / M
    mean[:2], noise[:2] = [0, CHANGES[0, 1]], 0
    same(found, sums(mean, noise))
    w = SAMPLE.weight[ROWS][2:]
    assert within[0] / within[1] == pytest.approx(w @ CHANGES.var(axis=0, ddof=1)[2:] / w.sum())


@pytest.mark.parametrize("classes", [None, np.array(["a", "b", "c"])], ids=["numbers", "labels"])
def test_cells_are_summed_at_the_value_that_they_hold(classes):
    """Weight, change, clipped weight, and each output; labels count as one output a class."""
    work = SimpleNamespace(loss=squared_error, classes=classes)
    labels = classes is not None
    prediction = RNG.integers(0, 3, 30) if labels else RNG.normal(size=(30, 2))
    weight, at = RNG.uniform(size=30), RNG.integers(0, G, 30)
    found = _cells(work, SAMPLE, ROWS, prediction, CHANGES[0], weight, at, G)
    outputs = np.eye(3)[prediction] if labels else prediction
    for value in range(G):
        here = at == value
        expected = [weight[here].sum(), weight[here] @ CHANGES[0, here], 0.0, *(weight[here] @ outputs[here])]
        np.testing.assert_allclose(found[value], expected)


@pytest.fixture
def halves(tmp_path):
    """Two equal columns of six values, in two files."""
    a = np.random.default_rng(0).integers(0, 6, 8000)
    for k in range(2):
        pd.DataFrame({"a": a, "b": a, "y": 1.0 + (a > 2)})[k::2].to_parquet(tmp_path / f"{k}.parquet")
    return str(tmp_path)


def test_predictions_of_changed_rows_that_the_loss_does_not_take_are_refused(halves):
    """Every row is predicted 1, a row with another's value -1."""
    with pytest.raises(ValueError, match=r"poisson_deviance needs every prediction to be .*is -1"):
        ll.feature_importance(
            lambda X: np.where(X["a"] == X["b"], 1.0, -1.0), halves, "y", loss="poisson", memory=200_000, progress=False
        )


def test_rows_are_kept_as_far_as_an_eighth_of_the_memory_holds_their_curves(halves):
    """Three numbers of 8 bytes for each of 6 values of 2 columns."""
    memory = 200_000
    found = ll.feature_importance(
        lambda X: X["a"] * 1.0, halves, "y", loss="squared_error", memory=memory, progress=False
    )
    assert len(found["a"].whole.rows) == memory // 8 // (24 * 12)


@pytest.mark.parametrize("sizes", [[3, 3, 3, 3], [10, 1, 1, 9], [5, 6, 4, 1], [11, 2, 8, 3], [1]])
def test_columns_go_together_as_long_as_they_fit(sizes):
    groups = _groups(dict(enumerate(sizes)), 10)
    assert [j for group in groups for j in group] == list(range(len(sizes)))
    for group, after in zip(groups, [*groups[1:], None], strict=True):
        held = sum(sizes[j] for j in group)
        assert held <= 10 or len(group) == 1
        assert after is None or held + sizes[after[0]] > 10


def test_orders_of_many_rows_are_computed_on_access():
    """Every shift pairs each row with another donor, and each donor with one row."""
    shifts = donor_values.latin(donor_values.STORED + 1, 3, 0, "a")
    donors = shifts[np.arange(donor_values.STORED + 1)]
    assert shifts.shape == donors.shape
    for column in donors.T:
        assert len(np.unique(column)) == len(donors)
