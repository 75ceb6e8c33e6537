"""Importance over time: `given` the rows of each stretch of time, with a band, and the largest step."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

import losslens as ll
from losslens.uncertainty.standard_errors import interval

N = 120
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, 0.5, 0.0] + RNG.normal(size=N)
DAYS = np.datetime64("2024-01-01") + np.arange(N)
ASKED = {"loss": "squared_error", "progress": False}


def model(X):
    """Does not use x2."""
    return X @ [1.0, 0.5, 0.0]


def explained(**more):
    return ll.feature_importance(model, X, Y, **(ASKED | more))


IMP = explained()


@pytest.mark.parametrize("groups", [None, ll.time_blocks(DAYS, "5D")], ids=["rows", "blocks"])
def test_a_stretch_is_given_its_rows(groups):
    """Numbers, standard errors and intervals are those of `given`, each at the level of Šidák: .95^(1/4)."""
    imp = explained(groups=groups)
    over = imp.over(DAYS, bins=4)
    assert over.features == ("x0", "x1", "x2")
    assert over.rows.tolist() == [30, 30, 30, 30]
    for k in range(4):
        part = imp.given(np.arange(N) // 30 == k)
        for j, one in enumerate(part.values()):
            assert over.importance[k, j] == one.pfi
            assert over.std_error[k, j] == one.std_error
            assert (over.low[k, j], over.high[k, j]) == one.interval(0.95**0.25)
    np.testing.assert_allclose(over.overall, [one.pfi for one in imp.values()])
    if groups is None:  # with groups, rows have more donors where theirs is small
        np.testing.assert_allclose(over.importance.mean(axis=0), over.overall)


def test_one_feature_alone_and_among_others_are_the_same():
    alone, among = IMP["x1"].over(DAYS, bins=4), IMP.over(DAYS, bins=4)
    assert alone.features == ("x1",)
    for name in ("importance", "std_error", "low", "high"):
        np.testing.assert_array_equal(getattr(alone, name)[:, 0], getattr(among, name)[:, 1])
    assert alone.p[0] == among.p[1]


def test_rows_may_be_in_any_order_and_times_of_any_kind():
    order = RNG.permutation(N)
    mixed = ll.feature_importance(model, X[order], Y[order], **ASKED)
    expected = IMP.over(DAYS, width="1M")
    assert expected.rows.tolist() == [31, 29, 31, 29]
    assert expected.start.astype("M8[D]").astype(str).tolist() == [
        "2024-01-01",
        "2024-02-01",
        "2024-03-01",
        "2024-04-01",
    ]
    for times in (DAYS[order], pd.Series(DAYS[order]), pl.Series(DAYS[order].astype("M8[us]"))):
        found = mixed.over(times, width="1M")
        np.testing.assert_allclose(found.importance, expected.importance)
        np.testing.assert_array_equal(found.start, expected.start)
    numbers = IMP.over(np.arange(N), width=30)
    assert numbers.start.tolist() == [0, 30, 60, 90]
    assert numbers.middle.tolist() == [14.5, 44.5, 74.5, 104.5]
    np.testing.assert_array_equal(
        IMP.over(np.arange(N) * np.timedelta64(1, "h"), width="30h").importance, numbers.importance
    )


def test_stretches_without_rows_are_left_out():
    times = np.where(np.arange(N) < 60, np.arange(N), np.arange(N) + 200)
    over = IMP.over(times, width=30)
    assert over.start.tolist() == [0, 30, 240, 270, 300]
    assert over.end.tolist() == [30, 60, 270, 300, 330]
    assert over.rows.tolist() == [30, 30, 10, 30, 20]


def test_rows_of_weight_zero_are_in_no_stretch():
    over = explained(sample_weight=np.where(np.arange(N) < 30, 0.0, 1.0)).over(np.arange(N), width=30)
    assert over.start.tolist() == [30, 60, 90]


def test_a_stretch_whose_rows_have_no_donors_has_no_importance():
    """The hour of the first stretch occurs there alone, and each of its rows has another one."""
    frame = pd.DataFrame({"a": X[:, 0], "hour": np.where(np.arange(N) < 30, -np.arange(N), 1)})
    imp = ll.feature_importance(
        lambda X: X["a"], frame, Y, features=["a"], donors=ll.Within("hour"), random_state=0, **ASKED
    )
    over = imp.over(np.arange(N), width=30)
    assert np.isnan(over.importance[:, 0]).tolist() == [True, False, False, False]
    assert "– " in repr(imp["a"].over(np.arange(N), width=30))
    assert "0 to 30" in repr(imp["a"].over(np.arange(N), width=30))
    over.plot()


def test_there_are_as_many_stretches_as_rows_or_groups_allow():
    assert len(IMP.over(DAYS).rows) == 2  # 60 rows each
    assert len(explained(groups=ll.time_blocks(DAYS, "4D")).over(DAYS).rows) == 6  # 5 groups each


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: IMP.over(DAYS, 4, "30D"), ValueError, "pass either bins, .* or width, .* not both"),
        (lambda: IMP.over(DAYS, 1), ValueError, "bins is a whole number from 2 on; got 1"),
        (lambda: IMP.over(DAYS, 2.5), ValueError, "bins is a whole number"),
        (lambda: IMP.over(DAYS, width=30), ValueError, "width is a duration above 0"),
        (
            lambda: IMP.over(DAYS, width="1Y"),
            ValueError,
            "in one stretch of time: ask for more bins, or a smaller width",
        ),
        (lambda: IMP.over(np.zeros(N)), ValueError, "all times are the same"),
        (lambda: IMP.over(DAYS[1:]), ValueError, "times has 119 values, but the result has 120 rows"),
        (lambda: IMP.over(DAYS.astype(str)), TypeError, "times are numbers or dates"),
        (lambda: IMP.over(DAYS, level=95), ValueError, "level lies between 0 and 1"),
        (lambda: explained(donors=ll.Grid(values=[0.0, 1.0, 2.0])).over(DAYS), ValueError, "only curves"),
        (
            lambda: scored().over(DAYS),
            ValueError,
            r"needs a loss of each row, and r2_score is a score: use given\(rows\)",
        ),
        (lambda: scored()["x0"].over(DAYS), ValueError, "r2_score is a score"),
    ],
)
def test_mistakes_are_told(call, error, words):
    with pytest.raises(error, match=words):
        call()


def scored():
    return ll.feature_importance(LinearRegression().fit(X, Y), X, Y, loss="r2", donors=ll.Latin(3), progress=False)


def test_times_with_the_labels_of_x_in_another_order_are_refused():
    frame = pd.DataFrame(X, index=[f"r{k}" for k in range(N)])
    imp = ll.feature_importance(lambda X: model(X.to_numpy()), frame, Y, **ASKED)
    times = pd.Series(DAYS, frame.index)
    with pytest.raises(ValueError, match="times has the row labels of X in another order"):
        imp.over(times[::-1])
    assert imp.over(times).backend == "pandas"


def test_without_cells_there_are_numbers_and_no_band():
    imp = explained(donors="all", memory="200 KB")
    over = imp.over(DAYS, bins=4)
    np.testing.assert_allclose(over.importance, IMP.over(DAYS, bins=4).importance)
    assert np.isnan(over.low).all()
    assert "no band: no standard error for some rows of a streamed result; raise memory=" in repr(over)
    assert over.plot().get_xlabel() == "time"


# -- the largest step -------------------------------------------------------------------------------------------------


def test_a_step_is_found_where_it_is():
    """From row 60 on the target follows x1 three times as much: the model's use of it is worth more."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(240, 2))
    y = X @ [1.0, 0.5] + np.where(np.arange(240) < 60, 0, 1.0) * X[:, 1] + 0.3 * rng.normal(size=240)
    imp = ll.feature_importance(lambda X: X @ [1.0, 0.5], X, y, **ASKED)
    over = imp.over(np.arange(240), width=30)
    assert over.step[1] == 2
    assert over.p[1] < 1e-6
    for name, rows in (("before", np.arange(60)), ("after", np.arange(60, 240))):
        assert getattr(over, name)[1] == pytest.approx(imp["x1"].given(rows).pfi)
    assert over.changes()["feature"][0] == "x1"
    assert over.changes()["at"][0] == "60"


def test_of_two_stretches_the_step_is_their_difference():
    """One place, so that nothing is adjusted for: the interval of the difference at level 1 - p ends at 0."""
    over = IMP["x0"].over(DAYS, bins=2)
    parts = [IMP["x0"].given(np.arange(N) // 60 == k) for k in range(2)]
    moved = parts[1].influence - parts[0].influence
    variances = np.array([one.influence.variance for one in parts])
    freedom = variances.sum() ** 2 / np.sum(variances**2 / 59)
    step = parts[1].unbiased - parts[0].unbiased
    assert [over.before[0], over.after[0]] == pytest.approx([one.pfi for one in parts]) == list(over.importance[:, 0])
    ends = interval(step, moved.std_error, freedom + 1, 1 - over.p[0], moved.skewness)
    # The comparison with simulated normal variables has an error of its own.
    assert min(abs(end) for end in ends) < 0.05 * moved.std_error


def test_a_feature_that_is_not_used_has_no_step():
    over = IMP.over(DAYS, bins=4)
    assert (over.step[2], over.importance[:, 2].tolist()) == (-1, [0, 0, 0, 0])
    assert np.isnan([over.p[2], over.p_adjusted[2]]).all()
    assert over.p_adjusted[np.argmin(over.p[:2])] == min(1.0, 2 * over.p[:2].min())


def test_groups_with_rows_at_all_times_count_once():
    """Five sites in six stretches are five groups on either side of a step, too few; not up to twenty-five."""
    assert explained(groups=np.arange(N) % 8)["x0"].over(np.arange(N), bins=6).step[0] >= 0
    few = explained(groups=np.arange(N) % 5).over(np.arange(N), bins=6)
    assert few.step.tolist() == [-1, -1, -1]
    assert "p of a constant importance" not in repr(few)


def test_a_stretch_of_two_rows_has_no_interval_which_is_said():
    over = IMP.over(np.where(np.arange(N) < N - 2, np.arange(N), 500), width=60)
    assert np.isnan(over.low[:, 0]).tolist() == [False, False, True]
    assert "no interval in 1 of 3 stretches: too few rows, or donors" in repr(over)
    assert "no interval" not in repr(IMP.over(DAYS, bins=4))


# -- tables, text and files -------------------------------------------------------------------------------------------


def test_the_frame_has_a_line_for_each_feature_and_stretch():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    over = ll.feature_importance(lambda X: model(X.to_numpy()), frame, Y, **ASKED).over(DAYS, width="1M")
    table = over.to_frame()
    assert list(table) == ["feature", "start", "end", "rows", "importance", "std_error", "low", "high"]
    assert table["feature"].tolist() == ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    np.testing.assert_array_equal(table["importance"], over.importance.T.ravel())
    assert table["start"][1] == pd.Timestamp(2024, 2, 1)
    assert list(over.changes()) == ["feature", "at", "before", "after", "p", "p_adjusted"]


def test_numbers_are_told_to_a_hundredth_of_a_stretch():
    """Edges of thirds have no end of digits; the frame has all of them."""
    found = IMP.over(np.arange(N) / 7, bins=3)
    assert found.edges == (["0", "5.67", "11.33"], ["5.67", "11.33", "17"])
    assert found.to_frame()["end"].iloc[0] == (N - 1) / 21
    assert IMP.over(1e9 + 1000.0 * np.arange(N), bins=3).edges[0][1] == "1000039667"


def test_the_text_says_what_the_band_is():
    shown = repr(IMP["x0"].over(DAYS, width="1M"))
    assert shown.startswith("OverTime: x0, increase in squared error\n  2024-01-01 to 2024-02-01  ")
    assert "31 rows" in shown
    assert "95% band for all stretches of a feature together; errors over rows, taken as independent" in shown
    assert "largest step: " in shown
    grouped = repr(explained(groups=ll.time_blocks(DAYS, "4D")).over(DAYS))
    assert "OverTime: increase in squared error in 6 stretches of time" in grouped
    assert "errors over groups of rows" in grouped


@pytest.mark.parametrize("times", [DAYS, np.arange(N), np.arange(N) * np.timedelta64(1, "h")])
def test_it_is_saved_and_loaded(times, tmp_path):
    over = IMP.over(times, bins=3)
    over.save(tmp_path / "over")
    back = ll.load(tmp_path / "over")
    assert repr(back) == repr(over)
    np.testing.assert_array_equal(back.low, over.low)
    assert back.start.dtype == over.start.dtype
