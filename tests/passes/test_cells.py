"""A streamed result has the numbers of a complete one, keeps what fits into memory, and says what it lacks."""

import re
import tracemalloc

import numpy as np
import pytest

import losslens as ll

N = 240
RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 50, size=N), RNG.normal(size=N)])
Y = X[:, 0] * X[:, 2] + X[:, 1] / 25 + RNG.normal(size=N)
WEIGHT = RNG.integers(1, 5, size=N)
PATIENT = RNG.integers(0, 60, size=N)
SMALL = "300 kB"
DESIGNS = [ll.All(), ll.Derangements(), ll.Grid(100), ll.Latin(70), ll.Systematic(70), ll.Permutations(70)]
SAMPLES = {
    "plain": {},
    "weights": {"sample_weight": WEIGHT},
    "groups": {"groups": PATIENT},
    "both": {"sample_weight": WEIGHT, "groups": PATIENT},
}
close = {"rtol": 1e-9, "atol": 1e-9}


def model(X):
    return X[:, 0] * X[:, 2] + X[:, 1] ** 2 / 1000


def explain(donors="all", memory="1 GiB", features="x0", loss="squared_error", model=model, y=Y, **options):
    options = {"random_state": 3, "memory": memory, "donors": donors, "features": features} | options
    return ll.feature_importance(model, X, y, loss=loss, **options)


def both(donors, features="x0", **options):
    complete = explain(donors, features=features, **options)[features]
    streamed = explain(donors, SMALL, features=features, **options)[features]
    assert complete.complete
    assert not streamed.complete
    return complete, streamed


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_streamed_numbers_and_curves_are_those_of_all_cells(design, sample):
    complete, streamed = both(design, **SAMPLES[sample])
    for number in ("pfi", "ratio", "error", "std_error", "exact", "n_predictions"):
        np.testing.assert_allclose(getattr(streamed, number), getattr(complete, number), err_msg=number, **close)
    for array in ("local", "pi", "grid", "weights"):
        np.testing.assert_allclose(getattr(streamed, array), getattr(complete, array), err_msg=array, **close)
    np.testing.assert_allclose(streamed.effect.pd, complete.effect.pd, **close)
    np.testing.assert_allclose(streamed.interval(), complete.interval(), **close)


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_streamed_numbers_of_some_rows_are_those_of_all_their_cells(design, sample):
    complete, streamed = both(design, **SAMPLES[sample])
    few = np.arange(0, N, 40)
    np.testing.assert_allclose(streamed.given(few).pfi, complete.given(few).pfi, **close)
    labels = np.where(X[:, 2] > 0, "high", "low")
    for label, part in complete.by(labels).items():
        same = streamed.by(labels)[label]
        np.testing.assert_allclose(same.pfi, part.pfi, **close)
        np.testing.assert_allclose(same.local, part.local, **close)
        np.testing.assert_allclose(same.ratio, part.ratio, **close)
        assert not same.exact


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_single_curves_are_kept_for_the_stated_rows(design):
    complete, streamed = both(design)
    rows = streamed.rows
    assert 30 <= len(rows) < N
    assert np.all(np.diff(rows) > 0)
    assert streamed.ici.shape == streamed.effect.ice.shape == (len(rows), len(streamed.grid))
    np.testing.assert_array_equal(streamed.ici, complete.ici[rows])
    np.testing.assert_array_equal(streamed.effect.ice, complete.effect.ice[rows])
    np.testing.assert_array_equal(complete.rows, np.arange(N))


def test_the_kept_rows_are_a_random_sample_the_same_for_all_features():
    found = explain(memory="600 kB", features=["x0", "x1", "x2"])
    rows = found["x0"].rows
    for feature in found.values():
        np.testing.assert_array_equal(feature.rows, rows)
    other = explain(memory="600 kB", features=["x0", "x1", "x2"], random_state=4)["x0"].rows
    assert len(other) == len(rows)
    assert not np.array_equal(other, rows)
    assert not np.array_equal(rows, np.arange(len(rows)))


def test_a_streamed_result_says_so():
    assert "curves of single rows are kept for" in repr(explain(memory=SMALL))
    assert "streamed" not in repr(explain())


def test_features_of_many_values_do_not_spoil_those_of_few():
    """x1 alone would fit; together they are streamed, and each has its own numbers."""
    together, alone = explain(memory=SMALL, features=["x0", "x1"]), explain(features="x1")
    assert together["x1"].pfi == pytest.approx(alone["x1"].pfi)
    np.testing.assert_allclose(together["x1"].pi, alone["x1"].pi)


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_the_curve_of_some_rows_is_that_of_the_kept_ones_shifted_to_their_number(design, sample):
    _, streamed = both(design, **SAMPLES[sample])
    rows = np.union1d(streamed.rows[:31], np.arange(0, N, 7))
    part = streamed.given(rows)
    assert len(part.rows) >= 31
    np.testing.assert_allclose(part.pi @ part.weights, part.pfi, **close)


def test_the_curve_of_some_rows_has_the_shape_of_their_kept_curves():
    """With a common grid the kept rows' mean curve and the reported one differ by a constant."""
    complete, streamed = both("all")
    rows = np.union1d(streamed.rows, np.arange(0, N, 7))
    part = streamed.given(rows)
    shift = part.pi - complete.ici[streamed.rows].mean(axis=0)
    np.testing.assert_allclose(shift, shift[0], **close)
    np.testing.assert_allclose(part.effect.pd, complete.effect.ice[streamed.rows].mean(axis=0), **close)


def test_rows_of_a_part_are_counted_within_it():
    """`rows` says which entries of `local` the single curves belong to, of the whole and of a part alike."""
    complete, streamed = both("all")
    chosen = np.union1d(streamed.rows[5:], np.arange(0, N, 7))
    for part in (complete.given(chosen), streamed, streamed.given(chosen), streamed.given(chosen).given(np.arange(40))):
        np.testing.assert_allclose(part.ici @ part.weights, part.local[part.rows], **close)


def test_fewer_than_thirty_kept_rows_make_no_curve():
    _, streamed = both("all")
    part = streamed.given(streamed.rows[:29])
    assert np.isfinite(part.pfi)
    for curve in (lambda: part.pi, lambda: part.effect.pd):
        with pytest.raises(ValueError, match="keeps the cells of 29 of these rows, and 30 are needed; raise memory="):
            curve()


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_a_part_whose_rows_are_all_kept_has_a_standard_error_or_says_why_not(design):
    complete, streamed = both(design)
    part = streamed.given(streamed.rows)
    try:
        found = part.std_error
    except ValueError as error:
        assert "no standard error" in str(error)  # noqa: PT017 - either is fine; a wrong number is not
    else:
        assert found == pytest.approx(complete.given(streamed.rows).std_error)


def test_a_part_of_a_streamed_result_has_no_standard_error_and_says_why():
    _, streamed = both("all")
    with pytest.raises(ValueError, match="memory="):
        streamed.given(np.arange(100)).std_error  # noqa: B018


def needed(error):
    return re.search(r"memory='([^']+)'", str(error.value))[1]


@pytest.mark.parametrize("design", [ll.All(), ll.Grid(100), ll.Latin(70), ll.Latin(143)], ids=str)
def test_what_needs_every_cell_names_the_memory_and_that_memory_suffices(design):
    _, streamed = both(design)
    with pytest.raises(ValueError, match="subset needs every cell") as first:
        streamed.subset(np.arange(50))
    with pytest.raises(ValueError, match="with_loss needs every cell") as second:
        streamed.with_loss("absolute_error")
    for error in (first, second):
        again = explain(design, needed(error))["x0"]
        assert again.complete
        assert again.subset(np.arange(50)).pfi == pytest.approx(explain(design)["x0"].subset(np.arange(50)).pfi)


def test_the_memory_named_suffices_where_no_row_was_kept():
    """95 groups of 32 values make rows of 3,040 cells, for which 91 kB have no room."""
    names = {f"group {j}": ["x0", "x2"] for j in range(95)}
    options = {"loss": "squared_error", "features": names, "donors": "all", "random_state": 0}
    streamed = ll.feature_importance(model, X[:32], Y[:32], memory=91_000, **options)["group 7"]
    assert len(streamed.rows) == 0
    assert streamed.ici.shape == (0, 32)
    with pytest.raises(ValueError, match="needs every cell") as error:
        streamed.subset(np.arange(9))
    size, unit = needed(error).split()
    assert float(size) * {"KiB": 2**10}[unit] >= 2 * 16 * 32**2


def test_importances_of_all_features_stream_together():
    found, whole = explain(memory=SMALL, features=None), explain(features=None)
    np.testing.assert_allclose(found.local, whole.local, **close)
    np.testing.assert_allclose(found.observations, whole.observations, **close)
    np.testing.assert_allclose(found.given(np.arange(9)).local, whole.given(np.arange(9)).local, **close)


def test_classes_and_clipped_cells_stream_too():
    def proba(X):
        p = np.clip((X[:, 0] + 1) / 2, 0, 1)
        return np.column_stack([1 - p, p])

    labels = (X[:, 0] > 0).astype(int)
    complete = explain(model=proba, y=labels, loss="log_loss")["x0"]
    streamed = explain(model=proba, y=labels, loss="log_loss", memory="600 kB")["x0"]
    assert not streamed.complete
    assert 0 < complete.clipped < 1
    assert streamed.clipped == pytest.approx(complete.clipped)
    np.testing.assert_allclose(streamed.pi, complete.pi)
    np.testing.assert_allclose(streamed.effect_of(0).pd, complete.effect_of(0).pd)


def test_effects_stream_too():
    options = {"features": "x0", "donors": "all", "random_state": 1}
    complete = ll.feature_effect(model, X, **options)["x0"]
    streamed = ll.feature_effect(model, X, memory=SMALL, **options)["x0"]
    assert not streamed.complete
    np.testing.assert_allclose(streamed.pd, complete.pd)
    np.testing.assert_array_equal(streamed.ice, complete.ice[streamed.rows])


# Memory.


def peak(run):
    """Most bytes that were held at once while running, beyond those held before."""
    run()  # imports and caches
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = run()
        return tracemalloc.get_traced_memory()[1] - before, result
    finally:
        tracemalloc.stop()


@pytest.mark.thread_unsafe
@pytest.mark.parametrize(
    ("design", "memory", "complete"),
    [
        ("all", 6, False),
        ("all", 80, True),
        (ll.Derangements(), 6, False),
        (ll.Latin(500), 6, False),
        (ll.Systematic(500), 6, False),
    ],
    ids=str,
)
def test_the_peak_stays_within_memory(design, memory, complete):
    """All cells would take 1,500² x 16 bytes = 34 MiB, and 11 MiB with 500 donors a row."""
    rng = np.random.default_rng(6)
    Z = rng.normal(size=(1500, 3))
    options = {"loss": "squared_error", "features": "x0", "donors": design, "memory": f"{memory} MiB"}
    used, result = peak(lambda: ll.feature_importance(lambda Z: Z[:, 0] * Z[:, 1], Z, Z[:, 0], **options))
    assert result["x0"].complete == complete
    assert used < memory * 2**20


@pytest.mark.thread_unsafe
def test_the_peak_stays_within_memory_for_several_classes_and_groups_of_rows():
    rng = np.random.default_rng(7)
    Z = rng.normal(size=(500, 3))

    def proba(Z):
        e = np.exp(Z)
        return e / e.sum(axis=1, keepdims=True)

    options = {"loss": "log_loss", "donors": "all", "memory": "4 MiB", "groups": np.arange(500) // 4}
    used, result = peak(lambda: ll.feature_importance(proba, Z, Z.argmax(axis=1), **options))
    assert not result["x0"].complete
    assert used < 4 * 2**20
