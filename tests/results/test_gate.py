"""Gates: what passes is surely alike, what fails surely differs, and otherwise the rows can't tell."""

import warnings

import numpy as np
import pytest

import losslens as ll
from losslens.results.gate import judge, same_rows

N = 400


def rows(seed, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + X[:, 1] / 2 + rng.normal(scale=0.5, size=n)


def model(slope=0.5, noise=0.0):
    return lambda X: X[:, 0] + slope * X[:, 1] + noise * X[:, 2]


def importance(f, X, y, loss="squared_error"):
    return ll.feature_importance(f, X, y, loss=loss)


X, Y = rows(0)
OLD = importance(model(), X, Y)


def outcomes(verdicts):
    return {one.question: one.outcome for one in verdicts}


def test_the_same_result_is_alike_whatever_the_margin():
    assert set(outcomes(OLD.assert_like(OLD, within=1e-6)).values()) == {"passes"}


def test_another_model_on_the_same_rows_is_compared_pair_by_pair():
    """The slope of x1 doubles: its importance grows from .5 to 1, the error from .25 to .5; the margin is .2 of 2."""
    new = importance(model(slope=1.0), X, Y)
    with pytest.raises(
        AssertionError, match=r"(?s)2 of 4 numbers surely differ:.*importance:x1 fails: on the same rows"
    ):
        new.assert_like(OLD)
    assert same_rows(new, OLD)


def test_few_other_rows_cannot_tell():
    other = importance(model(), *rows(1, 60))
    with pytest.warns(UserWarning, match="(?s)too few rows to judge .* on different rows"):
        found = outcomes(other.assert_like(OLD, within=0.05))
    assert found["importance:x0"] == "cannot tell"
    assert found["importance:x2"] == "passes"  # exactly 0 in both
    with pytest.raises(AssertionError, match="are not surely alike"):
        other.assert_like(OLD, within=0.05, strict=True)


def test_rows_that_only_share_y_are_other_rows():
    """Sorted labels are the same in any balanced sample."""
    y = np.linspace(0, 3, 100) ** 2
    A, B = (np.random.default_rng(seed).normal(size=(100, 2)) + y[:, None] for seed in (1, 2))
    f = lambda X: X[:, 0]  # noqa: E731
    assert not same_rows(importance(f, A, y), importance(f, B, y))
    assert same_rows(importance(f, A, y), importance(f, A, y))


def test_many_other_rows_can_tell():
    old, new = (importance(model(), *rows(seed, 40_000)) for seed in (2, 3))
    assert set(outcomes(new.assert_like(old, within=0.1)).values()) == {"passes"}


def test_models_that_are_alike_fail_as_rarely_as_the_level_says():
    """The same model on new rows, a margin near 0: nothing more than the level may be said to differ."""
    failed = 0
    for seed in range(100):
        new = importance(model(), *rows(100 + seed, 80))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                new.assert_like(importance(model(), *rows(1000 + seed, 80)), within=1e-9)
            except AssertionError:
                failed += 1
    assert failed <= 11  # 5 expected, standard deviation 2.2


def test_a_saved_result_is_compared_with_a_new_one(tmp_path):
    OLD.save(tmp_path / "baseline.losslens")
    found = importance(model(), X, Y).assert_like(ll.load(tmp_path / "baseline.losslens"))
    assert all("on the same rows" in one.sentence for one in found)


@pytest.mark.parametrize(
    ("other", "options", "message"),
    [
        (OLD, {"within": 0}, "within is a share above 0, such as .1; got 0"),
        (OLD, {"level": 0.95}, r"level is the probability of a false verdict, such as \.05; got 0\.95"),
        (OLD, {"within": True}, "within is a share above 0"),
        (importance(model(), X, Y, "absolute_error"), {}, "two losses, squared error and absolute error"),
        (
            ll.feature_importance(model(), X, Y, loss="squared_error", features=["x0"]),
            {},
            "only one of the results has x1, x2",
        ),
    ],
)
def test_bad_arguments_are_named(other, options, message):
    with pytest.raises(ValueError, match=message):
        OLD.assert_like(other, **options)


@pytest.mark.parametrize("other", [None, 3, "baseline.losslens"])
def test_a_baseline_is_a_result(other):
    with pytest.raises(TypeError, match="other is a result of feature_importance"):
        OLD.assert_like(other)


def compared(**models):
    return ll.compare({"old": model()} | models, X, Y, loss="squared_error", shapley=True)


# With squared error and y = x0 + x1/2 + e the importance of s x1 is 2 s^2 + 2 (1/2 - s) s = s, and that of x0 is 2.
CHANGED = compared(new=model(slope=4, noise=0.4))


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [
        ("error", "fails"),
        ("error>.1", "fails"),
        ("error>500", "passes"),
        ("importance:x1", "fails"),
        ("importance:x1 > 500%", "passes"),
        ("importance:x0>200%", "passes"),
        ("rank:x1", "fails"),  # from surely second to surely first
        ("share:x1>.2", "fails"),
        ("share:x1>90%", "passes"),
    ],
)
def test_conditions_of_a_release(condition, outcome):
    (found,) = judge(CHANGED, [condition], 0.05)
    assert (found.model, found.question, found.outcome) == ("new", condition, outcome)


def test_a_share_is_a_contrast_of_the_shapley_importances():
    """s_j - x sum s with the jackknife's covariance: its error is that of the contrast of the rows' influences."""
    shares = CHANGED.shapley["new"]
    moved = np.stack([one.moved for one in shares.estimates().influences], axis=1)
    contrast = moved @ (np.array([0.0, 1.0, 0.0]) - 0.4)
    (found,) = judge(CHANGED, ["share:x1>.4"], 0.05)
    low, high = (float(word.strip(")")) for word in found.sentence.split("interval ")[1].split(" to "))
    half = 1.966 * np.sqrt(contrast @ contrast) / shares.sfimp.sum()
    assert (high - low) / 2 == pytest.approx(half, rel=0.05)  # bent outward, so not less
    assert (high - low) / 2 >= half - 1e-3


def test_a_rank_that_the_rows_do_not_settle_is_open():
    near = ll.compare({"old": model(2.0), "new": model(2.02)}, X, Y, loss="squared_error", shapley=False)
    assert judge(near, ["rank:x0"], 0.05)[0].outcome == "cannot tell"
    assert judge(near, ["rank:x2"], 0.05)[0].outcome == "passes"  # surely last in both


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("errors", "'errors' is no condition: error, error>.05"),
        ("error:x0", "error stands alone"),
        ("rank", "the others name a feature"),
        ("share:x0", "a share needs a bound"),
        ("rank:x0>2", "a rank has none"),
        ("error>.", "is no condition"),
    ],
)
def test_conditions_that_are_none(condition, message):
    with pytest.raises(ValueError, match=message):
        judge(CHANGED, [condition], 0.05)
    with pytest.raises(KeyError, match="unknown feature 'x9'"):
        judge(CHANGED, ["rank:x9"], 0.05)
