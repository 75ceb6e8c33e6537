"""Named losses against scikit-learn's metrics, properties of every loss, and each error message."""

import functools
import json
import pickle
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics as metrics
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from losslens import losses
from losslens.losses import Loss, from_metadata, pointwise, resolve

DTYPES = ["float64", "float32"]
POWERS = [-1.5, 0, 1, 1.3, 1.5, 1.9, 2, 2.5, 3]
CLASS_COUNTS = [2, 3, 7]
NAMES = [
    "squared_error", "absolute_error", "huber", "pinball", "poisson_deviance", "gamma_deviance",
    "tweedie_deviance", "log_loss", "brier", "zero_one", "hinge",
]  # fmt: skip


def close(dtype: str) -> dict[str, float]:
    """scikit-learn computes in the prediction's dtype, losslens in float64."""
    return {"rel": 1e-12 if dtype == "float64" else 1e-4}


def positive(dtype: str, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.gamma(2.0, size=n), rng.gamma(2.0, size=n).astype(dtype) + np.dtype(dtype).type(0.01)


def probabilities(k: int, dtype: str, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Some rows are certain, and some of those wrong, so that clipping matters."""
    rng = np.random.default_rng(k)
    y = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    p = rng.dirichlet(np.ones(k), size=n)
    p[::10] = np.eye(k)[rng.integers(0, k, len(p[::10]))]
    return y, p.astype(dtype)


def example(name: str, n: int = 60) -> tuple[Loss, np.ndarray, np.ndarray]:
    """A loss with y and predictions it is defined for."""
    loss, rng = resolve(name), np.random.default_rng(3)
    if loss.reads == "values":
        return loss, rng.gamma(2.0, size=n), rng.gamma(2.0, size=n) + 0.01
    y, p = probabilities(3, "float64", n)
    return loss, y, {"probabilities": p, "scores": p * 4 - 2, "labels": p.argmax(axis=1)}[loss.reads]


# Against scikit-learn.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("squared_error", metrics.mean_squared_error),
        ("absolute_error", metrics.mean_absolute_error),
        ("pinball", metrics.mean_pinball_loss),
        ("poisson_deviance", metrics.mean_poisson_deviance),
        ("gamma_deviance", metrics.mean_gamma_deviance),
    ],
)
def test_losses_of_values_average_to_the_metric(name: str, metric: Any, dtype: str) -> None:
    y, f = positive(dtype)
    assert resolve(name)(y, f).mean() == pytest.approx(metric(y, f), **close(dtype))
    both = y.astype(dtype)
    assert resolve(name)(both, f).mean() == pytest.approx(metric(both, f), **close(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.9])
def test_pinball_averages_to_the_metric(alpha: float, dtype: str) -> None:
    y, f = positive(dtype)
    ours = losses.pinball(alpha)(y, f).mean()
    assert ours == pytest.approx(metrics.mean_pinball_loss(y, f, alpha=alpha), **close(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("power", POWERS)
def test_tweedie_averages_to_the_metric(power: float, dtype: str) -> None:
    y, f = positive(dtype)
    if 1 <= power < 2:
        y[:30] = 0
    if power <= 0:
        y[:30] *= -1
    ours = losses.tweedie_deviance(power)(y, f).mean()
    assert ours == pytest.approx(metrics.mean_tweedie_deviance(y, f, power=power), **close(dtype))


def test_tweedie_meets_its_relatives() -> None:
    y, f = positive("float64")
    for power, name in ((0, "squared_error"), (1, "poisson"), (2, "gamma")):
        np.testing.assert_array_equal(losses.tweedie_deviance(power)(y, f), resolve(name)(y, f))
        near = losses.tweedie_deviance(power + (1e-6 if power else -1e-6))(y, f)
        np.testing.assert_allclose(near, resolve(name)(y, f), rtol=1e-3, atol=1e-3)


def test_poisson_of_zero_counts_is_twice_the_prediction() -> None:
    np.testing.assert_array_equal(losses.poisson_deviance([0.0, 0.0], [0.25, 3.0]), [0.5, 6.0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", CLASS_COUNTS)
def test_log_loss_averages_to_the_metric_without_renormalising(k: int, dtype: str) -> None:
    y, p = probabilities(k, dtype)
    assert losses.log_loss(y, p).mean() == pytest.approx(metrics.log_loss(y, p), **close(dtype))
    off = p * np.dtype(dtype).type(0.9)
    with pytest.warns(UserWarning, match="do not sum to one"):
        theirs = metrics.log_loss(y, off)
    assert losses.log_loss(y, off).mean() == pytest.approx(theirs, **close(dtype))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64"])
def test_log_loss_clips_by_the_eps_of_the_dtype_as_the_metric_does(dtype: str) -> None:
    y, p = np.array([0, 1]), np.array([[0, 1], [0, 1]]).astype(dtype)
    wrong, right = losses.log_loss(y, p)
    eps = np.finfo(dtype if dtype != "int64" else "float64").eps
    assert wrong == pytest.approx(-np.log(float(eps)), rel=1e-12)
    assert right == pytest.approx(float(eps), rel=1e-3)
    assert (wrong + right) / 2 == pytest.approx(metrics.log_loss(y, p), rel=1e-3)
    assert losses.log_loss.ceiling(dtype) == wrong


def test_only_log_loss_has_a_ceiling() -> None:
    for name in NAMES:
        assert (resolve(name).ceiling("float64") is not None) == (name == "log_loss")
    assert pointwise(lambda y, p: y, reads="probabilities", name="log_loss").ceiling("float64") is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", CLASS_COUNTS)
def test_brier_averages_to_the_metric(k: int, dtype: str) -> None:
    y, p = probabilities(k, dtype)
    if k == 2:
        theirs = metrics.brier_score_loss(y, p[:, 1])
    else:  # one class against the others, added up: scikit-learn 1.6 has no score of several classes
        theirs = sum(metrics.brier_score_loss(y == label, p[:, label]) for label in range(k))
    assert losses.brier(y, p).mean() == pytest.approx(theirs, **close(dtype))


@pytest.mark.parametrize("k", CLASS_COUNTS)
def test_zero_one_averages_to_the_metric(k: int) -> None:
    y, p = probabilities(k, "float64")
    label = p.argmax(axis=1)
    assert losses.zero_one(y, label).mean() == pytest.approx(metrics.zero_one_loss(y, label))
    np.testing.assert_array_equal(losses.zero_one(np.array([0, 1]), np.array([-1, 1])), [1.0, 0.0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", CLASS_COUNTS)
def test_hinge_averages_to_the_metric(k: int, dtype: str) -> None:
    y, p = probabilities(k, dtype)
    scores = p * np.dtype(dtype).type(3) - np.dtype(dtype).type(1)
    scores = scores if k > 2 else scores[:, 1]
    before = scores.copy()
    assert losses.hinge(y, scores).mean() == pytest.approx(metrics.hinge_loss(y, scores), **close(dtype))
    np.testing.assert_array_equal(scores, before)
    np.testing.assert_array_equal(losses.hinge(y.astype("uint8"), scores), losses.hinge(y, scores))


@given(
    r=npst.arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e6, 1e6)),
    delta=st.floats(1e-3, 1e3),
)
def test_huber_is_its_two_branches(r: np.ndarray, delta: float) -> None:
    inside = np.abs(r) <= delta
    expected = np.where(inside, 0.5 * r**2, delta * (np.abs(r) - delta / 2))
    # Below the smallest normal number floats have no relative precision: 0.5 r**2 and 0.5 r r round apart.
    smallest = np.finfo(np.float64).tiny
    np.testing.assert_allclose(losses.huber(delta)(r, np.zeros_like(r)), expected, rtol=1e-12, atol=smallest)


# Properties of every named loss.


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_result_is_new_float64_of_one_dimension_and_inputs_stay(name: str, dtype: str) -> None:
    loss, y, prediction = example(name)
    prediction = prediction if loss.reads == "labels" else prediction.astype(dtype)
    y.flags.writeable = prediction.flags.writeable = False
    result = loss(y, prediction)
    assert result.dtype == np.float64
    assert result.shape == y.shape
    assert not np.shares_memory(result, prediction)
    assert not np.shares_memory(result, y)
    assert (result > -1e-14).all()


@pytest.mark.parametrize("name", [*NAMES, "brier", "hinge"])
@given(data=st.data())
def test_a_row_does_not_know_its_neighbours_or_the_layout(name: str, data: st.DataObject) -> None:
    """Bitwise: a feature the model ignores must change a loss by exactly 0, whatever the batches."""
    loss, y, prediction = example(name, 97)
    whole = loss(y, prediction)
    rows = np.array(data.draw(st.lists(st.integers(0, 96), min_size=1, max_size=40)))
    np.testing.assert_array_equal(loss(y[rows], prediction[rows]), whole[rows])
    np.testing.assert_array_equal(loss(y[rows], np.asfortranarray(prediction[rows])), whole[rows])
    start, step = data.draw(st.integers(0, 90)), data.draw(st.integers(1, 5))
    np.testing.assert_array_equal(loss(y[start::step], prediction[start::step]), whole[start::step])


@pytest.mark.parametrize("power", POWERS)
@given(y=st.floats(1e-3, 1e3), f=st.floats(1e-3, 1e3))
def test_deviances_are_zero_at_the_truth_and_positive_elsewhere(power: float, y: float, f: float) -> None:
    loss = losses.tweedie_deviance(power)
    scale = max(y, f, 1 / y, 1 / f) ** (abs(2 - power) + 1)
    assert loss([y], [y])[0] == pytest.approx(0, abs=1e-12 * scale)
    assert loss([y], [f])[0] >= -1e-12 * scale


@given(y=st.floats(-1e6, 1e6), f=st.floats(-1e6, 1e6), alpha=st.floats(0.01, 0.99))
def test_pinball_and_its_mirror_add_up_to_the_absolute_error(y: float, f: float, alpha: float) -> None:
    total = losses.pinball(alpha)([y], [f]) + losses.pinball(1 - alpha)([y], [f])
    np.testing.assert_allclose(total, losses.absolute_error([y], [f]), rtol=1e-12, atol=1e-300)


@given(p=st.floats(0, 1), y=st.integers(0, 1))
def test_brier_of_two_classes_is_half_the_sum_over_classes(p: float, y: int) -> None:
    row = np.array([[1 - p, p]])
    both = ((row - np.eye(2)[[y]]) ** 2).sum()
    assert losses.brier([y], row)[0] == pytest.approx(both / 2, abs=1e-15)


@given(
    scores=npst.arrays(np.float64, (5, 4), elements=st.floats(-100, 100)),
    y=npst.arrays(np.int64, 5, elements=st.integers(0, 3)),
)
def test_hinge_bounds_the_number_of_mistakes(scores: np.ndarray, y: np.ndarray) -> None:
    assert (losses.hinge(y, scores) >= losses.zero_one(y, scores.argmax(axis=1))).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_rows_no_losses(name: str) -> None:
    loss, y, prediction = example(name)
    loss.check_target(y[:0])
    loss.check_prediction(prediction[:0])
    assert loss(y[:0], prediction[:0]).shape == (0,)


def test_lists_work() -> None:
    np.testing.assert_array_equal(losses.squared_error([1, 2], [1, 4]), [0.0, 4.0])
    np.testing.assert_array_equal(losses.brier([1, 0], [[0.5, 0.5], [1.0, 0.0]]), [0.25, 0.0])


def test_a_column_of_predictions_is_not_broadcast() -> None:
    with pytest.raises(ValueError, match=re.escape("cannot pair y of shape (3,) with (3, 1) predictions")):
        losses.squared_error(np.zeros(3), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="log_loss cannot pair"):
        losses.log_loss(np.zeros(3, dtype=int), np.full(3, 0.5))
    with pytest.raises(ValueError, match="absolute_error cannot pair"):
        losses.absolute_error(np.zeros(3), np.zeros(1))


# Names, equality, files.


@pytest.mark.parametrize("name", NAMES)
def test_named_losses_survive_pickle_and_json(name: str) -> None:
    loss = resolve(name)
    assert loss.name == name
    assert not loss.custom
    assert resolve(loss) is loss
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert from_metadata(json.loads(json.dumps(loss.metadata()))) == loss
    assert hash(loss) == hash(resolve(name))


def test_parameters_survive_json() -> None:
    for loss in (losses.pinball(0.9), losses.huber(2), losses.tweedie_deviance(1.2)):
        again = from_metadata(json.loads(json.dumps(loss.metadata())))
        assert again == loss
        assert again.parameters == loss.parameters
    assert losses.pinball(0.9) != losses.pinball(0.8)


def test_titles_and_parameters() -> None:
    assert losses.pinball(0.9).title == "pinball loss (0.9)"
    assert losses.pinball(0.9).parameters == (("alpha", 0.9),)
    assert losses.huber().title == "Huber loss (1)"
    assert losses.tweedie_deviance().title == "Tweedie deviance (1.5)"
    assert losses.brier.title == "Brier score"


def test_short_names_and_uncalled_families() -> None:
    for short in ("poisson", "gamma", "tweedie"):
        assert resolve(short) == resolve(f"{short}_deviance")
    assert resolve(losses.pinball) == losses.pinball(0.5)
    assert resolve(losses.huber) == resolve("huber") == losses.huber(1.0)


def test_a_custom_loss_comes_back_without_its_function() -> None:
    loss = pointwise(lambda y, p: y, reads="probabilities", name="my_loss")
    again = from_metadata(json.loads(json.dumps(loss.metadata())))
    assert (again.name, again.reads, again.title) == ("my_loss", "probabilities", "my loss")
    assert again.custom
    assert again.function is None
    with pytest.raises(ValueError, match="'my_loss' is a custom function, which files don't hold; pass it"):
        again(np.zeros(1), np.zeros(1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.pinball(0), "pinball needs 0 < alpha < 1, got 0"),
        (lambda: losses.pinball(1), "pinball needs 0 < alpha < 1, got 1"),
        (lambda: losses.pinball(90), "got 90; 0.9 is the 90% quantile"),
        (lambda: losses.pinball(float("nan")), "got nan"),
        (lambda: losses.huber(0), "huber needs a positive delta, got 0"),
        (lambda: losses.huber(float("inf")), "huber needs a positive delta, got inf"),
        (lambda: losses.huber(np.complex128(1)), "huber needs a positive delta"),
        (lambda: losses.pinball(np.complex128(0.5)), "pinball needs 0 < alpha < 1"),
        (lambda: losses.tweedie_deviance(np.complex128(2)), "no Tweedie distribution has power"),
        (
            lambda: losses.tweedie_deviance(0.5),
            "no Tweedie distribution has power 0.5; use a power <= 0 or >= 1",
        ),
        (lambda: losses.tweedie_deviance(float("nan")), "power nan"),
    ],
)
def test_parameters_are_checked(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_unknown_names_get_the_nearest_and_the_list() -> None:
    with pytest.raises(ValueError, match=r"unknown loss 'log_los'; did you mean 'log_loss'\? The losses are abs"):
        resolve("log_los")
    with pytest.raises(ValueError, match=r"unknown loss 'xyz'\. The losses are .*zero_one, and any function"):
        resolve("xyz")


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("mse", "squared_error"),
        ("rmse", "squared_error"),
        ("mean_squared_error", "squared_error"),
        ("neg_mean_squared_error", "squared_error"),
        ("neg_root_mean_squared_error", "squared_error"),
        ("mae", "absolute_error"),
        ("neg_mean_absolute_error", "absolute_error"),
        ("accuracy", "zero_one"),
        ("accuracy_score", "zero_one"),
        ("zero_one_loss", "zero_one"),
        ("neg_log_loss", "log_loss"),
        ("cross_entropy", "log_loss"),
        ("neg_brier_score", "brier"),
        ("brier_score_loss", "brier"),
        ("hinge_loss", "hinge"),
        ("mean_pinball_loss", "pinball"),
        ("quantile_loss", "pinball"),
        ("neg_mean_poisson_deviance", "poisson_deviance"),
        ("mean_tweedie_deviance", "tweedie_deviance"),
    ],
)
def test_names_of_metrics_get_the_loss_to_use(name: str, loss: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' names a mean or a score, not .*; pass loss='{loss}'"):
        resolve(name)
    assert loss in NAMES


@pytest.mark.parametrize(
    ("name", "scorer"),
    [
        ("roc_auc", "roc_auc"),
        ("auc", "roc_auc"),
        ("roc_auc_score", "roc_auc"),
        ("roc_auc_ovr", "roc_auc_ovr"),
        ("r2", "r2"),
        ("r2_score", "r2"),
        ("f1", "f1"),
        ("f1_macro", "f1_macro"),
        ("balanced_accuracy_score", "balanced_accuracy"),
        ("average_precision", "average_precision"),
        ("precision", "precision"),
        ("recall_score", "recall"),
        ("matthews_corrcoef", "matthews_corrcoef"),
        ("explained_variance_score", "explained_variance"),
        ("median_absolute_error", "neg_median_absolute_error"),
        ("neg_max_error", "neg_max_error"),
    ],
)
def test_names_of_averages_get_a_scorer(name: str, scorer: str) -> None:
    with pytest.raises(ValueError, match="which feature_importance, shapley_importance") as caught:
        resolve(name)
    assert f"write loss='{scorer}'" in str(caught.value)
    assert str(caught.value).startswith(f"{name!r} is a score of all rows")
    metrics.get_scorer(scorer)


# Checks of targets and predictions.


@pytest.mark.parametrize("name", NAMES)
def test_good_targets_and_predictions_pass(name: str) -> None:
    loss, y, prediction = example(name)
    loss.check_target(y)
    loss.check_prediction(prediction)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (
            "squared_error",
            [1, np.nan],
            "every y to be a finite number, but that of row 1 is nan; drop or repair",
        ),
        ("pinball", [1, np.inf], "pinball needs every y to be a finite number, but that of row 1 is inf"),
        ("huber", [-np.inf, 1], "that of row 0 is -inf"),
        (
            "absolute_error",
            ["a", "b"],
            "absolute_error needs every y to be a finite number, but the dtype is <U1",
        ),
        (
            "poisson",
            [0, 3, -1],
            "poisson_deviance needs every y to be a number >= 0, but that of row 2 is -1; use",
        ),
        ("poisson", [0, np.nan], "that of row 1 is nan; drop or repair such rows"),
        (
            "gamma",
            [1.0, 0.0],
            "gamma_deviance needs every y to be a number > 0, but that of row 1 is 0.0; use a",
        ),
        ("tweedie", [1.0, -0.5], "tweedie_deviance needs every y to be a number >= 0"),
        (
            "log_loss",
            ["a", "b"],
            "log_loss needs every y to be a class position 0..K-1, but the dtype is <U1",
        ),
        ("zero_one", [0.0, 1.0], "but the dtype is float64; convert it, or use a loss for such data"),
        ("brier", [0, -1], "that of row 1 is -1; drop rows of classes the model does not know"),
    ],
)
def test_bad_targets(loss: str, y: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        resolve(loss).check_target(np.array(y))


@pytest.mark.parametrize(
    ("power", "bad"),
    [(-1, np.nan), (0, np.nan), (1, -0.1), (1.5, -0.1), (2, 0.0), (3, 0.0)],
)
def test_tweedie_targets_by_power(power: float, bad: float) -> None:
    loss = losses.tweedie_deviance(power)
    good = np.array([1.0, -1.0 if power <= 0 else 0.0 if power < 2 else 5e-324])
    loss.check_target(good)
    with pytest.raises(ValueError, match="tweedie_deviance needs every y"):
        loss.check_target(np.array([1.0, bad]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("power", POWERS)
def test_tweedie_predictions_by_power(power: float, dtype: str) -> None:
    loss, zero = losses.tweedie_deviance(power), np.array([1, 0], dtype=dtype)
    loss.check_prediction(np.array([np.finfo(dtype).tiny, np.finfo(dtype).max], dtype=dtype))
    if power == 0:
        loss.check_prediction(zero)
    else:
        with pytest.raises(ValueError, match="every prediction to be a number > 0, but that of row 1 is 0"):
            loss.check_prediction(zero)


@pytest.mark.parametrize(
    ("loss", "prediction", "message"),
    [
        (
            "squared_error",
            [1, np.nan],
            "squared_error needs every prediction to be a finite number, but that",
        ),
        (
            "squared_error",
            [[1.0], [2.0]],
            "reads values, but the model returned shape (2, 1); it must be (N,)",
        ),
        ("squared_error", ["a"], "but the dtype is <U1"),
        (
            "poisson",
            [1, -0.5],
            "that of row 1 is -0.5; use a loss for any number such as 'squared_error', or a",
        ),
        (
            "gamma",
            [1, np.inf],
            "gamma_deviance needs every prediction to be a number > 0, but that of row 1 is inf",
        ),
        (
            "log_loss",
            [0.2, 0.7],
            "reads probabilities, but the model returned shape (2,); it must be (N, K), K >= 2",
        ),
        ("brier", [[0.2], [0.7]], "returned shape (2, 1); it must be (N, K), K >= 2"),
        (
            "log_loss",
            [[0.5, 0.5], [-1.5, 2.5]],
            "to be in [0, 1], but that of row 1 is -1.5; return the model's",
        ),
        ("log_loss", [[0.5, 0.5], [0.0, 2.5]], "to be in [0, 1], but that of row 1 is 2.5"),
        ("brier", [[0.5, np.nan]], "but that of row 0 is nan; drop or repair such rows"),
        (
            "brier",
            [[0.5, 0.5], [0.5, 0.4]],
            "needs every sum of probabilities to be 1, but that of row 1 is 0.9",
        ),
        ("log_loss", [[0.5, 0.5], [0.9, 0.8]], "apply softmax to its scores"),
        (
            "zero_one",
            ["a", "b"],
            "zero_one needs every prediction to be a finite number, but the dtype is <U1",
        ),
        (
            "hinge",
            [[1.0], [2.0]],
            "reads scores, but the model returned shape (2, 1); it must be (N, K), K >= 2",
        ),
        (
            "hinge",
            [[1.0, np.inf]],
            "hinge needs every prediction to be a finite number, but that of row 0 is inf",
        ),
    ],
)
def test_bad_predictions(loss: str, prediction: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        resolve(loss).check_prediction(np.array(prediction))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_rounded_probabilities_pass(dtype: str) -> None:
    rng = np.random.default_rng(0)
    losses.log_loss.check_prediction(rng.dirichlet(np.ones(30), size=500).astype(dtype))
    losses.log_loss.check_prediction(np.array([[1 + 1e-6, -1e-6]]).astype(dtype))
    losses.log_loss.check_prediction(np.eye(3, dtype=np.int64))


# A user's own function.


def relative(y: np.ndarray, prediction: np.ndarray) -> Any:
    return np.abs(y - prediction) / y


Y, F = np.array([1.0, 2.0, 4.0]), np.array([2.0, 2.0, 2.0])


def test_a_function_becomes_a_custom_loss() -> None:
    loss = resolve(relative)
    assert (loss.name, loss.reads, loss.title, loss.custom) == ("relative", "values", "relative", True)
    np.testing.assert_array_equal(loss(Y, F), [1.0, 0.0, 0.5])
    assert resolve(relative, "labels").reads == "labels"
    assert resolve(relative) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert resolve(lambda y, p: y).name == "custom loss"
    assert pointwise(functools.partial(relative), reads="values").name == "relative"
    assert pointwise(relative, reads="values", name="mine_own").title == "mine own"


def test_custom_losses_see_what_the_user_wrote() -> None:
    loss = pointwise(lambda y, p: y != p, reads="labels")
    loss.check_target(np.array(["a", "b"]))
    loss.check_prediction(np.array(["a", "b"]))
    np.testing.assert_array_equal(loss(np.array(["a", "b"]), np.array(["a", "c"])), [0.0, 1.0])
    series = resolve(relative)(pd.Series(Y, index=[7, 8, 9]), F)
    assert type(series) is np.ndarray


def test_custom_losses_of_probabilities_still_get_probabilities() -> None:
    loss = pointwise(lambda y, p: y, reads="probabilities", name="mine")
    with pytest.raises(ValueError, match=re.escape("mine needs every prediction to be in [0, 1]")):
        loss.check_prediction(np.array([[3.0, -2.0]]))


def test_the_result_is_never_the_users_own_array() -> None:
    loss = pointwise(lambda y, p: p, reads="values")
    assert not np.shares_memory(loss(Y, F), F)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (0.5, "returned one number (an average?); a loss must return one value for each row, here 3 finite"),
        (np.float32(0.5), "returned one number (an average?)"),
        (np.zeros(2), "returned an array of shape (2,); a loss must return one value for each row"),
        (np.zeros((3, 1)), "returned an array of shape (3, 1)"),
        (None, "returned no numbers but NoneType of dtype object"),
        (np.array(["a", "b", "c"]), "returned no numbers but ndarray of dtype <U1"),
        (np.zeros(3, dtype=complex), "returned no numbers but ndarray of dtype complex128"),
        (np.array([0, np.nan, 1]), "returned nan for row 1"),
        (np.array([0, 1, -np.inf]), "returned -inf for row 2"),
    ],
)
def test_results_of_functions_are_checked(returned: Any, message: str) -> None:
    loss = pointwise(lambda y, p: returned, reads="values", name="mine")
    with pytest.raises(ValueError, match=re.escape(f"the loss 'mine' {message}")):
        loss(Y, F)


def test_metrics_of_scikit_learn_get_a_hint() -> None:
    with pytest.raises(ValueError, match=r"metric of scikit-learn: .*; pass loss='squared_error'"):
        resolve(metrics.mean_squared_error)(Y, F)
    with pytest.raises(ValueError, match="write loss='r2'"):
        resolve(metrics.r2_score)(Y, F)
    with pytest.raises(
        ValueError, match=r"all rows; pass loss=sklearn.metrics.make_scorer\(mean_squared_log_error, greater"
    ):
        resolve(metrics.mean_squared_log_error)(Y, F)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match=re.escape("a loss is a name or a function (y, prediction) -> (N,), got 3")):
        resolve(3)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match="a loss reads one of values, probabilities, labels, scores, outputs, got 'proba'"
    ):
        pointwise(relative, reads="proba")  # type: ignore[arg-type]


def test_the_module_needs_numpy_alone() -> None:
    code = "import sys, losslens.losses; print([m for m in ('scipy', 'sklearn', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("odd", ["1", None, [1.0], np.array([0.5, 0.5]), pd.NaT, 1j])
def test_parameters_that_are_no_numbers_are_refused_by_name(odd):
    for family, name in ((losses.huber, "delta"), (losses.pinball, "alpha"), (losses.tweedie_deviance, "power")):
        with pytest.raises(ValueError, match=name):
            family(odd)
    with pytest.raises(ValueError, match="a loss reads one of"):
        pointwise(np.subtract, reads=odd)
    if odd is not None and not isinstance(odd, str):
        with pytest.raises(TypeError, match="name must be text"):
            pointwise(np.subtract, reads="values", name=odd)


@pytest.mark.parametrize("odd", [pd.DataFrame(), pd.Series([1.0, 2.0]), np.arange(3), 3])
def test_what_is_no_loss_is_refused(odd):
    with pytest.raises(TypeError, match="a loss is a name or a function"):
        resolve(odd)


# A custom loss of a row depends on nothing but the row.

LOOKS_AROUND = {
    "centred": lambda y, p: (y - p) ** 2 - np.mean((y - p) ** 2),
    "share": lambda y, p: np.abs(y - p) / len(y),
    "scaled": lambda y, p: np.abs(y - p) / np.ptp(y),
    "ranks": lambda y, p: np.argsort(np.argsort(np.abs(y - p))),
    "standardised": lambda y, p: ((y - p) / np.std(p)) ** 2,
}
MINDS_ITS_ROW = {
    "squares": lambda y, p: (y - p) ** 2,
    "product": lambda y, p: np.column_stack([y, p]) @ np.array([1.0, -1.0]) * 1e3,
    "einsum": lambda y, p: np.einsum("ik,ik->i", np.column_stack([y, p, y - p]), np.column_stack([p, y, y - p])),
    "exponential": lambda y, p: np.exp(-np.abs(y - p)) + np.log1p(np.exp(-y * p)),
    "wrong side": lambda y, p: y * p < 0,
    "loop": lambda y, p: [abs(a - b) for a, b in zip(y, p, strict=True)],
    "constant": lambda y, p: np.ones(len(y)),
    "cancels": lambda y, p: (1e3 + (y - p) ** 2) - 1e3,
}


@pytest.mark.parametrize("n", [3, 4, 20, 2_000])
@pytest.mark.parametrize("function", LOOKS_AROUND.values(), ids=LOOKS_AROUND)
def test_a_loss_that_looks_at_other_rows_is_refused(function: Any, n: int) -> None:
    rng = np.random.default_rng(0)
    loss = pointwise(function, reads="values", name="mine")
    for _ in range(2):  # also the second time
        with pytest.raises(ValueError, match=r"the loss 'mine' of a row depends on the other rows: .*losses\.scorer"):
            loss(rng.normal(size=n), rng.normal(size=n))


def test_so_it_is_if_the_model_makes_no_errors() -> None:
    y = np.random.default_rng(0).normal(size=50)
    with pytest.raises(ValueError, match="depends on the other rows"):
        pointwise(LOOKS_AROUND["centred"], reads="values")(y, y)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 100, 5_000])
@pytest.mark.parametrize("function", MINDS_ITS_ROW.values(), ids=MINDS_ITS_ROW)
def test_losses_of_single_rows_pass(function: Any, n: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    y, p = rng.normal(size=(2, n)).astype(dtype)
    loss = pointwise(function, reads="values")
    assert np.allclose(loss(y, p), np.asarray(function(y, p), float), rtol=1e-6)
    assert np.allclose(loss(y, y), np.asarray(function(y, y), float), rtol=1e-6)


def test_a_matrix_product_of_a_model_without_errors_is_no_alarm() -> None:
    """Losses of 1e-32, which are rounding errors that depend on the batch."""
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(400, 37))
    y = np.array([row @ np.ones(37) for row in parts])
    loss = pointwise(lambda y, p: (y - p @ np.ones(37)) ** 2, reads="outputs")
    assert loss(y, parts).max() < 1e-20


def test_a_loss_undefined_for_predictions_of_other_rows_passes() -> None:
    def strict(y: Any, p: Any) -> Any:
        if np.any(np.abs(y - p) > 0.5):
            raise RuntimeError("too far")
        return np.abs(y - p)

    y = np.arange(50.0)
    assert pointwise(strict, reads="values")(y, y + 0.25).tolist() == [0.25] * 50


def test_losses_of_labels_probabilities_and_outputs_are_looked_at_too() -> None:
    rng = np.random.default_rng(0)
    label, p = rng.choice(["a", "b"], 60), rng.dirichlet(np.ones(3), 60)
    pointwise(lambda y, p: y != p, reads="labels")(label, label[::-1])
    pointwise(lambda y, p: 1 - p.max(axis=1), reads="probabilities")(label, p)
    with pytest.raises(ValueError, match="depends on the other rows"):
        pointwise(lambda y, p: (y != p) / np.sum(y == "a"), reads="labels")(label, label[::-1])
    with pytest.raises(ValueError, match="depends on the other rows"):
        pointwise(lambda y, p: 1 - p.max(axis=1) / p.max(), reads="probabilities")(label, p)
    of_outputs = pointwise(lambda y, p: (y - p) ** 2 - ((y - p) ** 2).mean(), reads="outputs")
    with pytest.raises(ValueError, match="depends on the other rows"):
        of_outputs.bound(["u", "v"])(rng.normal(size=(40, 2)), rng.normal(size=(40, 2)))  # type: ignore[attr-defined]


def test_rows_are_evaluated_alone_once() -> None:
    sizes: list[int] = []
    loss = pointwise(lambda y, p: sizes.append(len(y)) or abs(y - p), reads="values")
    for _ in range(3):
        loss(np.arange(300.0), np.arange(300.0)[::-1])
    assert sizes.count(300) == 3
    assert sum(sizes) < 3 * 300 + 300
    assert pickle.loads(pickle.dumps(pointwise(relative, reads="values"))).custom
