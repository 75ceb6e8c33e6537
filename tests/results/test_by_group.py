"""Results by groups of rows: a mapping of `given`, its table, its frame, and differences that hold on new rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.linear_model import LinearRegression, LogisticRegression

import losslens as ll
from losslens.results import ByGroup, Importances, ShapleyImportance

N = 120
RNG = np.random.default_rng(3)
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["age", "dose", "noise"])
PLACE = pd.Series(np.array(["north", "south", "east"])[RNG.integers(0, 3, N)], name="place")
Y = X.age * np.where(PLACE == "north", 2.0, 1.0) + 0.5 * X.dose + 0.4 * RNG.normal(size=N)
BLOCK = np.repeat(np.arange(N // 4), 4)
LABELS = np.asarray(X.age > 0).astype(int)


def model(rows: Any) -> Any:
    return 1.4 * np.asarray(rows["age"]) + 0.5 * np.asarray(rows["dose"])


def importances(**options: Any) -> Importances:
    return ll.feature_importance(model, X, Y, **({"loss": "squared_error", "progress": False} | options))


def shares(**options: Any) -> ShapleyImportance:
    return ll.shapley_importance(model, X, Y, loss="squared_error", method="rows", progress=False, **options)


KINDS = {
    "importances": importances,
    "importance": lambda: importances()["age"],
    "scores": lambda: ll.feature_importance(LogisticRegression().fit(X, LABELS), X, LABELS, loss="roc_auc"),
    "score": lambda: ll.feature_importance(LinearRegression().fit(X, Y), X, Y, loss="r2")["age"],
    "shapley": shares,
    "left out": lambda: ll.leave_one_covariate_out(LinearRegression(), X, Y, progress=False),
    "effects": lambda: ll.feature_effect(model, X, progress=False),
    "effect": lambda: ll.feature_effect(model, X, progress=False)["age"],
    "shapley effect": lambda: ll.shapley_effect(model, X, X, progress=False),
}
WITH_ERRORS = [kind for kind in KINDS if "effect" not in kind]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return {kind: make() for kind, make in KINDS.items()}


# -- a mapping ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_each_group_has_the_result_of_its_rows(found: dict[str, Any], kind: str) -> None:
    parts = found[kind].by(PLACE)
    assert isinstance(parts, ByGroup)
    assert list(parts) == ["east", "north", "south"]
    assert parts == dict(parts)
    assert parts != {}
    assert {**parts}.keys() == parts.keys()
    for label, part in parts.items():
        given = found[kind].given((label == PLACE).to_numpy())
        assert type(part) is type(given)
        for name in ("pfi", "sfimp", "importance", "pd", "base"):
            if hasattr(type(given), name) or name in vars(given):
                np.testing.assert_array_equal(getattr(part, name), getattr(given, name))
    with pytest.raises(
        KeyError, match="unknown group 'nord'; did you mean 'north'\\? The groups are east, north, south"
    ):
        parts["nord"]
    assert "nord" not in parts
    assert parts.get("nord") is None


def test_a_group_is_found_by_any_equal_label() -> None:
    parts = importances().by(np.arange(N) % 3)
    assert parts[np.int64(2)] is parts[2]
    days = np.array(["2024-03-01", "2024-03-02"], "M8[ns]")[np.arange(N) % 2]
    assert list(importances().by(days)) == list(np.unique(days))


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        (np.arange(N - 1), f"one label for each of {N} rows; got shape \\({N - 1},\\)"),
        (np.where(np.arange(N) < 2, np.nan, 1.0), "2 missing labels"),
        ([], f"one label for each of {N} rows"),
        (np.zeros((N, 2)), "got shape"),
        (PLACE[::-1], "order"),
    ],
    ids=["short", "missing", "none", "table", "order"],
)
@pytest.mark.parametrize("kind", ["importances", "importance", "shapley", "left out", "effects"])
def test_labels_that_do_not_fit_the_rows_are_refused(found: dict[str, Any], kind: str, groups: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        found[kind].by(groups)


def test_what_has_no_rows_says_so_at_once() -> None:
    known = ll.shapley_importance(LinearRegression().fit(X, Y), X, Y, loss="r2", progress=False)
    with pytest.raises(ValueError, match="no shares of single rows"):
        known.by(PLACE)


def test_a_group_without_weight_has_no_numbers() -> None:
    parts = importances(sample_weight=(PLACE != "east").astype(float)).by(PLACE)
    frame = parts.to_frame().query("group == 'east'")
    assert frame[["error", "importance", "low"]].isna().all(axis=None)
    assert frame.caution.str.contains("at least 3 rows with weight; there are 0").all()
    assert parts.difference("north", "south", "age").std_error > 0
    assert np.isnan(parts.errors().error[0])
    with pytest.raises(ValueError, match="weight 0; choose rows with weight"):
        shares(sample_weight=(PLACE != "east").astype(float)).by(PLACE)


def test_one_group_is_all_rows() -> None:
    imp = importances()
    parts = imp.by(["all"] * N)
    assert parts["all"]["age"].pfi == pytest.approx(imp["age"].pfi)
    assert "in 1 group of rows" in repr(parts)
    assert len(parts.differences()) == 0
    with pytest.raises(ValueError, match="compared with itself"):
        parts.difference("all", "all", "age")


# -- shown --------------------------------------------------------------------------------------------------------


def test_text_is_one_aligned_line_a_group_with_that_of_all_rows_last() -> None:
    imp = importances()
    title, head, *lines = repr(imp["age"].by(PLACE)).split("\n")
    assert title == "ByGroup: age: increase in squared error, in 3 groups of rows"
    assert head.split() == ["place", "rows", "error", "importance"]
    assert [line.split()[0] for line in lines[:4]] == ["east", "north", "south", "(all)"]
    assert len({len(line) for line in [head, *lines[:4]]}) == 1
    part = imp["age"].given((PLACE == "north").to_numpy())
    assert f"{part.pfi:.3f} ± {part.std_error:.3f}" in lines[1]
    several = repr(imp.by(PLACE)).split("\n")
    assert several[1].split() == ["place", "rows", "error", "age", "dose", "noise"]
    assert "age (group)" in repr(imp.by(X.age > 0))


def test_long_tables_are_cut_and_say_so() -> None:
    wide = pd.DataFrame(RNG.normal(size=(60, 30)), columns=[f"a feature with a long name {k}" for k in range(30)])
    imp = ll.feature_importance(lambda rows: rows.to_numpy().sum(axis=1), wide, wide.sum(axis=1), loss="squared_error")
    parts = imp.by(np.arange(60))
    text = repr(parts)
    assert max(map(len, text.split("\n"))) <= 130
    assert "less important features not shown" in text
    assert "21 groups not shown; to_frame() has all" in text
    assert text.count("\n") < 55
    assert len(parts.to_frame()) == 60 * 30
    assert parts._repr_html_().count("<tr>") == 2 + 40  # with two headings: most of it is folded


@pytest.mark.parametrize("kind", KINDS)
def test_frames_have_a_row_for_each_group_and_feature(found: dict[str, Any], kind: str) -> None:
    parts = found[kind].by(PLACE)
    frame = parts.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == 3 * len(parts.features)
    assert list(frame.columns[:2]) == ["group", "n"]
    assert frame.groupby("group").n.first().to_dict() == PLACE.value_counts().to_dict()
    assert "<table>" in parts._repr_html_()
    if kind in ("importances", "importance", "left out"):
        expected = ["error", "feature", "importance", "std_error", "low", "high", "caution"]
        assert list(frame.columns[2:]) == expected
    if kind == "importances":
        row = frame.query("group == 'north' and feature == 'age'").iloc[0]
        part = parts["north"]["age"]
        assert (row.importance, row.std_error, row.low, row.high) == (part.pfi, part.std_error, *part.interval())
        assert row.error == part.error
        assert frame.feature.tolist()[:3] == ["age", "dose", "noise"]  # the most important first


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_are_of_the_library_of_the_input(library: str) -> None:
    module = pytest.importorskip(library)
    rows = module.from_pandas(X) if library == "polars" else module.Table.from_pandas(X)
    imp = ll.feature_importance(lambda t: np.asarray(t["age"], float), rows, Y.to_numpy(), loss="squared_error")
    parts = imp.by(pd.cut(X.age, 2).to_numpy())
    for frame in (parts.to_frame(), parts.differences(), parts.errors()):
        assert type(frame).__module__.startswith(library)
    assert all(isinstance(label, str) for label in np.asarray(parts.to_frame()["group"]).tolist())


# -- differences --------------------------------------------------------------------------------------------------


def deleted_jackknife(statistic: Any, units: np.ndarray) -> float:
    """Standard error from leaving out each unit, with the factor (G - 1) / G."""
    names = np.unique(units)
    without = np.array([statistic(units != name) for name in names])
    apart = without - without.mean()
    return float(np.sqrt((len(names) - 1) / len(names) * apart @ apart))


@pytest.mark.parametrize("grouped", [False, True])
def test_differences_are_jackknifed_with_each_row_or_group_in_both_roles(grouped: bool) -> None:
    """By definition: both importances are computed again without a unit, as observations and as donors.

    Groups of `groups=` (four rows each) have rows in both places, which then move both importances as observations.
    """
    units = BLOCK if grouped else np.arange(N)
    imp = importances(groups=BLOCK if grouped else None)
    parts = imp.by(PLACE)
    cells = imp["age"].ici[:, imp["age"].layout.own].copy()
    cells[units[:, None] == units] = np.nan  # no donors of the own unit
    first, second = (np.asarray(label == PLACE) for label in ("north", "south"))

    def statistic(kept: np.ndarray) -> float:
        return float(np.nanmean(cells[np.ix_(first & kept, kept)]) - np.nanmean(cells[np.ix_(second & kept, kept)]))

    found = parts.difference("north", "south", "age")
    assert found.value == pytest.approx(parts["north"]["age"].pfi - parts["south"]["age"].pfi)
    assert found.value == pytest.approx(statistic(np.ones(N, bool)) * (1 if grouped else (N - 1) / N))
    assert found.std_error == pytest.approx(deleted_jackknife(statistic, units), rel=0.03)
    assert (found.first, found.second) == ("north", "south")
    other = parts.difference("south", "north", "age")
    assert (other.value, other.low, other.high) == pytest.approx((-found.value, -found.high, -found.low))
    assert imp["age"].by(PLACE).difference("north", "south") == found

    loss = (Y.to_numpy() - model(X)) ** 2
    error = parts.error_difference("north", "south")
    by_hand = deleted_jackknife(lambda kept: loss[first & kept].mean() - loss[second & kept].mean(), units)
    assert error.value == pytest.approx(loss[first].mean() - loss[second].mean())
    assert error.std_error == pytest.approx(by_hand, rel=0.03)


def test_groups_that_share_the_error_of_their_units_differ_more_surely_than_variances_say() -> None:
    """Every unit has as many rows in both groups, and adds the same to their losses: the errors move together.

    loss = effect of the unit + a little noise of the row. The variance of the difference is that of the noise alone,
    2 s^2 / 60, whereas that of each error has the variance of the effects in it.
    """
    rng = np.random.default_rng(0)
    half = np.arange(N) % 2
    shared, own = rng.normal(size=N // 4)[BLOCK], 0.1 * rng.normal(size=N)
    y = X.age + 3 + shared + own
    imp = ll.feature_importance(lambda t: t["age"], X, y, loss="absolute_error", groups=BLOCK)
    parts = imp.by(half)
    separate = np.hypot(*parts.errors().std_error)
    assert parts.error_difference(0, 1).std_error == pytest.approx(0.1 * np.sqrt(2 / 60), rel=0.3)
    assert separate > 5 * parts.error_difference(0, 1).std_error


def test_shapley_differences_are_the_lines_of_a_gap() -> None:
    result = shares()
    parts = result.by(PLACE)
    first, second = ((label == PLACE).to_numpy() for label in ("north", "south"))
    gap = result.gap(first, second)
    for feature in result.features:
        one, line = parts.difference("north", "south", feature, level=0.9), gap.part(feature, 0.9)
        assert (one.value, one.std_error, one.low, one.high) == (-line.value, line.std_error, -line.high, -line.low)
        assert one.p_value == line.p_value
    whole = parts.error_difference("north", "south")
    assert (whole.value, whole.low, whole.high) == (gap.whole().value, gap.whole().low, gap.whole().high)
    frame = parts.to_frame()
    assert list(frame.columns) == [
        "group",
        "n",
        "error",
        "feature",
        "sfimp",
        "share",
        "std_error",
        "low",
        "high",
        "caution",
    ]


def test_differences_of_refits_add_the_variances_of_rows_that_are_apart(found: dict[str, Any]) -> None:
    parts = found["left out"].by(PLACE)
    one = parts.difference("north", "south", "age")
    separate = [parts[label].std_error[0] for label in ("north", "south")]
    assert one.std_error == pytest.approx(np.hypot(*separate))
    assert one.value == pytest.approx(parts["north"].importance[0] - parts["south"].importance[0])
    with pytest.raises(ValueError, match="training rows of a fold are test rows"):
        parts.error_difference("north", "south")
    assert np.isnan(parts.errors().std_error).all()


def test_differences_of_refits_know_units_in_both_groups() -> None:
    """By hand, without what training adds: units deleted from both means."""
    left = ll.leave_one_covariate_out(LinearRegression(), X, Y, groups=BLOCK, progress=False)
    half = np.arange(N) % 2
    parts = left.by(half)

    def statistic(kept: np.ndarray) -> float:
        return float(left.local[(half == 0) & kept, 0].mean() - left.local[(half == 1) & kept, 0].mean())

    one, by_hand = parts.difference(0, 1, "age"), deleted_jackknife(statistic, BLOCK)
    untrained = [replace(part, training_variance=None) for part in parts.values()]
    both = zip(parts.values(), untrained, strict=True)
    trained = sum(float(part.std_error[0] ** 2 - other.std_error[0] ** 2) for part, other in both)
    assert trained > 0
    assert one.std_error**2 == pytest.approx(by_hand**2 + trained, rel=0.03)


def test_scores_are_compared_unit_by_unit(found: dict[str, Any]) -> None:
    """The AUC without each row, in both groups: the jackknife of the difference."""
    half = np.arange(N) % 2
    parts = found["scores"].by(half)
    one, (a, b) = parts.difference(0, 1, "age"), parts.values()
    apart = a["age"].influence.moved - b["age"].influence.moved
    assert len(apart) == N
    assert one.std_error == pytest.approx(np.sqrt(apart @ apart))
    assert one.value == pytest.approx(a["age"].unbiased - b["age"].unbiased)
    assert parts.every._measure == "score"
    assert list(parts.errors().columns) == ["group", "n", "score", "std_error", "low", "high", "caution"]
    few = found["score"].by(half).difference(0, 1)  # blocks of rows are left out: they are no small groups
    assert "effective size" not in few.caution


def test_the_frame_of_differences(found: dict[str, Any]) -> None:
    parts = found["importances"].by(PLACE)
    frame = parts.differences(against="south", adjust="holm")
    assert set(frame.group) == {"east", "north"}
    assert set(frame.against) == {"south"}
    assert frame.difference.abs().is_monotonic_decreasing
    row = frame.query("group == 'north' and feature == 'dose'").iloc[0]
    one = parts.difference("north", "south", "dose")
    assert (row.difference, row.low, row.high, row.p) == (one.value, one.low, one.high, one.p_value)
    assert (frame.p_adjusted >= frame.p).all()
    assert "p_adjusted" not in parts.differences(adjust=None)
    with pytest.raises(KeyError, match="unknown group"):
        parts.differences("nord")
    with pytest.raises(ValueError, match="level lies between"):
        parts.differences(level=95)
    with pytest.raises(ValueError, match="which feature"):
        parts.difference("north", "south")
    with pytest.raises(KeyError, match="unknown feature 'agee'; did you mean 'age'"):
        parts.difference("north", "south", "agee")


@pytest.mark.parametrize("kind", WITH_ERRORS)
def test_a_group_of_two_rows_has_no_interval_and_the_reason(found: dict[str, Any], kind: str) -> None:
    labels = np.where(np.isin(np.arange(N), [0, 1]), "two", PLACE)
    parts = found[kind].by(labels)
    frame = parts.differences("north")
    small = frame[frame.group == "two"]
    if kind in ("scores", "score"):  # the jackknife of a score leaves out all rows as donors
        return
    assert small.difference.isna().all()
    assert small.caution.str.contains("3 rows").all()
    assert frame[frame.group != "two"].p_adjusted.notna().all()
    assert "3 rows" in repr(parts)


def test_small_groups_carry_a_caution(found: dict[str, Any]) -> None:
    labels = np.where(np.arange(N) < 20, "few", "many")
    assert (
        "The effective size of the smaller group is 20"
        in found["importances"].by(labels).difference("few", "many", "age").caution
    )
    assert "effective size" not in found["importances"].by(np.arange(N) % 2).difference(0, 1, "age").caution


@pytest.mark.parametrize("kind", ["effects", "effect", "shapley effect"])
def test_effects_have_no_difference(found: dict[str, Any], kind: str) -> None:
    parts = found[kind].by(PLACE)
    for ask in (lambda: parts.difference("north", "south", "age"), parts.differences, parts.errors):
        with pytest.raises(ValueError, match="an effect is"):
            ask()


def test_streamed_groups_have_numbers_and_no_errors() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 2))
    imp = ll.feature_importance(
        lambda t: t[:, 0], rows, 2 * rows[:, 0], loss="squared_error", donors="all", memory="170 KB", progress=False
    )
    assert not imp["x0"].complete
    parts = imp.by(np.arange(200) % 2)
    assert parts.to_frame().importance.notna().all()
    assert "no standard error for some rows of a streamed result; raise memory=" in repr(parts)
    with pytest.raises(ValueError, match="raise memory="):
        parts.difference(0, 1, "x0")
    assert parts.error_difference(0, 1).std_error > 0


def test_equal_groups_are_seldom_said_to_differ() -> None:
    """120 data sets with two groups that are alike, in units that have rows in both: p < 0.05 as often as it says."""
    wrong = np.zeros(2)
    for seed in range(120):
        rng = np.random.default_rng(seed)
        units = np.repeat(np.arange(40), 3)
        rows = rng.normal(size=(120, 1)) + 0.7 * rng.normal(size=(40, 1))[units]
        y = rows[:, 0] + rng.normal(size=120) + 0.7 * rng.normal(size=40)[units]
        imp = ll.feature_importance(lambda t: t[:, 0], rows, y, loss="squared_error", groups=units, progress=False)
        parts = imp.by(rng.integers(0, 2, 120))
        wrong += [parts.difference(0, 1).p_value < 0.05, parts.error_difference(0, 1).p_value < 0.05]
    assert (wrong <= binom.isf(0.001, 120, 0.05)).all()


# -- in files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_saved_with_all_rows_once(found: dict[str, Any], kind: str, tmp_path: Any) -> None:
    if kind == "scores":
        labels: Any = np.arange(N) % 2
    elif kind == "effects":
        labels = np.array(["2024-03-01", "2024-03-02"], "M8[ns]")[np.arange(N) % 2]
    else:
        labels = PLACE
    parts = found[kind].by(labels)
    parts.save(tmp_path / "groups.losslens")
    loaded = ll.load(tmp_path / "groups.losslens")
    assert isinstance(loaded, ByGroup)
    assert list(loaded) == list(parts)
    assert repr(loaded) == repr(parts)
    pd.testing.assert_frame_equal(loaded.to_frame(), parts.to_frame())
    if kind in WITH_ERRORS:
        pd.testing.assert_frame_equal(loaded.differences(), parts.differences())


def test_labels_of_other_types_are_text_in_files(tmp_path: Any) -> None:
    parts = importances().by(pd.cut(X.age, 2))
    parts.save(tmp_path / "groups.losslens")
    assert list(ll.load(tmp_path / "groups.losslens")) == [str(label) for label in parts]


def test_an_importance_of_0_has_its_error_in_the_table():
    """Two rows gain and two lose by their donors: an estimate of 0, and not one that is known to be 0."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(24, 1)), rng.integers(0, 2, size=24)
    found = []
    for seed in range(40):
        imp = ll.feature_importance(
            lambda X: (X[:, 0] > 0).astype(int), X, y, loss="zero_one", donors=ll.Latin(4), random_state=seed
        )["x0"]
        parts = imp.by(np.repeat(["a", "b"], 12))
        lines = repr(parts).splitlines()[2:]
        found += [line for part, line in zip(parts.values(), lines, strict=False) if part.pfi == 0 < part.std_error]
    assert found
    assert all(" 0 ± 0." in line for line in found)


def test_groups_that_agree_to_rounding_do_not_differ():
    """Two rows of each unit have the same loss: the groups have the same error, whatever the order of its sum."""
    rng = np.random.default_rng(0)
    x, y = np.repeat(rng.normal(size=(100, 1)), 2, axis=0), np.repeat(rng.normal(size=100), 2)
    imp = ll.feature_importance(
        lambda X: X[:, 0], x, y, loss="squared_error", groups=np.repeat(np.arange(100), 2), donors="all"
    )
    parts = imp.by(np.arange(200) % 2)
    for found in (parts.error_difference(0, 1), parts.difference(0, 1, "x0")):
        assert (found.value, found.std_error, found.p_value) == (0, 0, 1)


def test_labels_that_read_alike_are_told_apart():
    X = np.random.default_rng(0).normal(size=(40, 1))
    imp = ll.feature_importance(lambda X: X[:, 0], X, X[:, 0], loss="squared_error", donors="all")
    labels = np.empty(40, object)
    labels[:] = [1, "1"] * 20
    assert sorted(set(imp.by(labels).to_frame()["group"])) == ["'1'", "1"]


def test_a_table_is_no_label_of_a_group():
    found = ll.feature_importance(lambda X: X[:, 0], np.eye(6), np.arange(6.0), loss="squared_error").by(list("aabbcc"))
    with pytest.raises(TypeError, match=r"a group is chosen by its label, such as 'a'; got a list"):
        found.error_difference(["a"], "b")
