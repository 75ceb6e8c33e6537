"""Rows with labels: named by them, chosen by them, and never put in another order."""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer

import losslens as ll
from losslens.plots.rows import NUMBERED

RNG = np.random.default_rng(0)
N = 60
NUMBERS = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["a", "b", "c"])
Y = NUMBERS["a"] * (1 + (NUMBERS["c"] > 0)) + 0.2 * NUMBERS["b"]
Y[7] = -20 * Y[7]  # a wrong target
VALUES_ONLY = NUMBERS.to_numpy()
SHUFFLED = RNG.permutation(N)
INDICES = {
    "words": pd.Index([f"id{k}" for k in range(N)]),
    "shuffled": pd.Index(SHUFFLED),
    "dates": pd.date_range("2024-01-01", periods=N),
    "two levels": pd.MultiIndex.from_product([["x", "y", "z"], range(N // 3)]),
}
OPTIONS = {"loss": "squared_error", "progress": False, "random_state": 0}


def model(X):
    return np.asarray(X["a"], float) * (1 + (np.asarray(X["c"], float) > 0))


@pytest.fixture(params=INDICES)
def labelled(request):
    return NUMBERS.set_axis(INDICES[request.param], axis=0)


@pytest.fixture(scope="module")
def by_position():
    """The results of the same rows without labels."""
    return ll.feature_importance(model, NUMBERS, Y, **OPTIONS), ll.shapley_importance(model, NUMBERS, Y, **OPTIONS)


def test_rows_are_chosen_by_label(labelled, by_position, tmp_path):
    """The same rows as at these positions: directly, by a mask, twice in a row, and after saving and loading."""
    imp, chosen = ll.feature_importance(model, labelled, Y.to_numpy(), **OPTIONS), [40, 3, 8, 21, 30]
    rows = list(labelled.index[chosen])
    imp.save(tmp_path / "imp")
    for result in (imp, ll.load(tmp_path / "imp"), imp.given(np.arange(N) != 5)):
        for method in ("given", "subset", "drop"):
            if len(result["a"].at) < N and method != "given":
                continue
            found, same = getattr(result, method)(rows)["a"], getattr(by_position[0], method)(chosen)["a"]
            np.testing.assert_allclose(found.pfi, same.pfi, rtol=1e-12)
        assert result["a"].given(rows).row_labels.tolist() == labelled.take(sorted(chosen)).index.to_numpy().tolist()
    mask = pd.Series(np.isin(np.arange(N), chosen), labelled.index)
    assert imp.given(mask)["a"].pfi == imp.given(rows)["a"].pfi
    with pytest.raises(ValueError, match="the mask has the row labels of X in another order"):
        imp.given(mask[::-1])
    with pytest.raises(ValueError, match="groups has the row labels of X in another order"):
        imp["a"].by(mask[::-1])
    with pytest.raises(ValueError, match="no row of X has the label"):
        imp.given([*rows, "nobody"])


def test_months_are_chosen_and_compared_after_loading(tmp_path):
    """A file holds them as text, since loading imports no pandas."""
    table = NUMBERS.set_axis(pd.period_range("2000-01", periods=N, freq="M"), axis=0)
    imp = ll.feature_importance(model, table, Y.to_numpy(), **OPTIONS)
    imp.save(tmp_path / "imp")
    for result in (imp, ll.load(tmp_path / "imp")):
        for months in (table.index[:5], ["2000-01", "2000-02", "2000-03", "2000-04", "2000-05"]):
            assert result["a"].given(months).pfi == imp["a"].given(np.arange(N) < 5).pfi
        assert len(result.regions(table).of("a")) > 0
        with pytest.raises(ValueError, match="X has the row labels of the result in another order"):
            result.regions(table[::-1])


def test_rows_are_named_by_label(labelled, by_position, tmp_path):
    """Every table, text and plot that names rows; what is named chooses the row that is meant."""
    imp = ll.feature_importance(model, labelled, Y.to_numpy(), **OPTIONS)
    shares = ll.shapley_importance(model, labelled, Y.to_numpy(), **OPTIONS)
    rows, plain = shares.rank_rows(imp), by_position[1].rank_rows(by_position[0])
    assert plain.suspicious.tolist() == [7]
    np.testing.assert_array_equal(rows.suspicious, labelled.index[[7]].to_numpy())
    order = plain.to_frame()["row"].to_numpy()
    assert list(rows.to_frame()["row"]) == list(labelled.index[order])
    assert f"row {str(labelled.index[7]).removesuffix(' 00:00:00')}:" in repr(rows)
    np.testing.assert_allclose(imp.drop(rows.suspicious)["a"].pfi, by_position[0].drop([7])["a"].pfi, rtol=1e-12)
    np.testing.assert_allclose(shares.given(rows.suspicious).sfimp, by_position[1].given([7]).sfimp, rtol=1e-9)

    influence = imp["a"].row_influence
    assert list(influence.to_frame()["row"]) == list(labelled.index[by_position[0]["a"].row_influence.order])
    np.testing.assert_allclose(
        imp.drop(influence.order[:3])["a"].pfi,
        imp["a"].drop(np.isin(np.arange(N), influence.ranking[:3])).pfi,
        rtol=1e-12,
    )

    parts, same = (one.clusters(X, k=2, random_state=0) for one, X in ((shares, labelled), (by_position[1], NUMBERS)))
    np.testing.assert_array_equal(parts.rows(0), labelled.index[same.rows(0)].to_numpy())
    assert shares.given(parts.rows(1)).sfimp.tolist() == shares.given(same.labels == 1).sfimp.tolist()

    found = imp.regions(labelled, level=0.5, random_state=0)
    for region in found.regions:
        np.testing.assert_allclose(imp[region.feature].given(region.rows).pfi, region.pfi, rtol=1e-12)

    effects = ll.shapley_effect(model, labelled, list(labelled.index[[4, 2]]))
    assert list(effects.to_frame().index) == list(labelled.index[[4, 2]])
    one = ll.shapley_effect(model, labelled, labelled.index[7])
    np.testing.assert_array_equal(one.local, ll.shapley_effect(model, NUMBERS, 7).local)
    assert "row " + str(labelled.index[7]).removesuffix(" 00:00:00") in repr(one)
    assert effects.given(list(labelled.index[[2]])).local.tolist() == effects.local[[1]].tolist()

    for result in (rows, influence, parts, found, effects):
        result.save(tmp_path / "result")
        again = ll.load(tmp_path / "result")
        assert repr(again) == repr(result)
        pd.testing.assert_frame_equal(again.to_frame(), result.to_frame(), check_index_type=False)


def test_plots_name_rows_by_label():
    X = NUMBERS.set_axis(INDICES["words"], axis=0)
    imp = ll.feature_importance(model, X, Y.to_numpy(), **OPTIONS)
    rows = ll.shapley_importance(model, X, Y.to_numpy(), **OPTIONS).rank_rows()
    assert [text.get_text() for text in rows.plot().texts if text.get_gid() == NUMBERED] == ["id7"]
    most = INDICES["words"][int(imp["a"].row_influence.ranking[0])]
    assert imp["a"].row_influence.plot().get_yticklabels()[0].get_text() == f"row {most}"
    names = imp["a"].plot().get_legend_handles_labels()[1]
    assert any(text.startswith("row id") for text in names)
    plt.close("all")


def test_a_report_names_rows_by_label():
    for kind, X in (
        ("words", NUMBERS.set_axis(INDICES["words"], axis=0)),
        ("shuffled", NUMBERS.set_axis(SHUFFLED, axis=0)),
    ):
        told = ll.report(model, X, Y.to_numpy(), rows=40, **OPTIONS).summary["table"]["index"]
        plain = ll.report(model, NUMBERS, Y, rows=40, **OPTIONS).summary["table"]["index"]
        assert list(told) == X.index[plain].tolist(), kind


def test_repeated_labels_name_nothing():
    """Rows are known by position then, as without an index."""
    X = NUMBERS.set_axis(np.arange(N) // 2, axis=0)
    imp = ll.feature_importance(model, X, pd.Series(Y.to_numpy(), X.index), **OPTIONS)
    assert imp["a"].row_labels is None
    assert imp.given([50, 59])["a"].pfi == imp.given(np.arange(N) >= 0)["a"].given([50, 59]).pfi
    assert imp["a"].row_influence.to_frame()["row"].max() == N - 1


def test_positions_are_labels_where_there_is_no_index():
    imp = ll.feature_importance(
        lambda X: model(X.to_pandas()), pl.from_pandas(NUMBERS), pd.Series(Y.to_numpy(), SHUFFLED), **OPTIONS
    )
    assert imp["a"].row_labels is None
    assert len(imp.given([3, 4])["a"].at) == 2


def test_streamed_results_and_workers_keep_labels(labelled):
    some = ll.feature_importance(model, labelled, Y.to_numpy(), memory=300_000, n_jobs=2, **OPTIONS)
    whole = ll.feature_importance(model, labelled, Y.to_numpy(), **OPTIONS)
    assert not some["a"].complete
    rows = list(labelled.index[[3, 40]])
    np.testing.assert_allclose(some["a"].given(rows).pfi, whole["a"].given(rows).pfi, rtol=1e-12)


# Everything that has one value for each row.

FOREST = RandomForestRegressor(3, bootstrap=True, random_state=0).fit(NUMBERS, Y)
LINEAR = LinearRegression().fit(NUMBERS, Y)
QUIET = {"progress": False, "random_state": 0}
CALLS = {  # every verb that takes X, and its arguments with one value for each row
    "feature_importance": (partial(ll.feature_importance, LINEAR, **QUIET), ("y", "sample_weight", "groups")),
    "feature_importance of a scorer": (
        partial(ll.feature_importance, LINEAR, loss=get_scorer("r2"), **QUIET),
        ("y", "sample_weight"),
    ),
    "feature_effect": (partial(ll.feature_effect, LINEAR, **QUIET), ("sample_weight",)),
    "shapley_importance": (partial(ll.shapley_importance, LINEAR, **QUIET), ("y", "sample_weight")),
    "shapley_effect": (partial(ll.shapley_effect, LINEAR, rows=np.arange(N) < 2, **QUIET), ("sample_weight",)),
    "pair_interactions": (partial(ll.pair_interactions, LINEAR, **QUIET), ("y", "sample_weight", "groups")),
    "compare": (
        partial(ll.compare, {"one": LINEAR, "two": FOREST}, shapley=False, **QUIET),
        ("y", "sample_weight", "groups"),
    ),
    "report": (
        partial(ll.report, LINEAR, shapley=False, interactions=False, **QUIET),
        ("y", "sample_weight", "by"),
    ),
    "plan": (partial(ll.plan, ll.feature_importance, LINEAR, random_state=0), ("y", "sample_weight", "groups")),
    "weak_segments": (partial(ll.weak_segments, LINEAR, **QUIET), ("y", "sample_weight", "groups")),
    "conditional_predictive_impact": (
        partial(ll.conditional_predictive_impact, LINEAR, sampler=lambda X, columns, rng: X, **QUIET),
        ("y", "sample_weight"),
    ),
    "feature_importance_cv": (
        partial(ll.feature_importance_cv, LinearRegression(), cv=2, **QUIET),
        ("y", "sample_weight", "groups"),
    ),
    "shapley_importance_cv": (
        partial(ll.shapley_importance_cv, LinearRegression(), cv=2, **QUIET),
        ("y", "sample_weight", "groups"),
    ),
    "permuted_target_test": (
        partial(ll.permuted_target_test, LinearRegression(), cv=2, permutations=2, **QUIET),
        ("y", "sample_weight", "groups"),
    ),
    "leave_one_covariate_out": (
        partial(ll.leave_one_covariate_out, LinearRegression(), cv=2, **QUIET),
        ("y", "sample_weight", "groups"),
    ),
}
VALUES = {
    "y": Y.to_numpy(),
    "sample_weight": RNG.uniform(1, 2, N),
    "groups": np.arange(N) % 5,
    "by": np.arange(N) % 2,
}
ARGUMENTS = [(verb, argument) for verb, (_, arguments) in CALLS.items() for argument in arguments]


def called(verb, argument, value, X=NUMBERS):
    call, arguments = CALLS[verb]
    needed = {"y": VALUES["y"]} if "y" in arguments else {}
    return call(X=X, **{**needed, argument: value})


@pytest.mark.parametrize(("verb", "argument"), ARGUMENTS)
def test_values_of_rows_in_another_order_are_refused(verb, argument):
    """With the labels of X, which may also be the numbers 0, 1, ...; other labels mean nothing."""
    for index in (INDICES["words"], NUMBERS.index):
        X, values = NUMBERS.set_axis(index, axis=0), pd.Series(VALUES[argument], index)
        with pytest.raises(
            ValueError, match=rf"{argument} has the row labels of X in another order: pass {argument}.loc"
        ):
            called(verb, argument, values[::-1], X)
    called(verb, argument, pd.Series(VALUES[argument], NUMBERS.index), NUMBERS.set_axis(INDICES["words"], axis=0))


@pytest.mark.parametrize(("verb", "argument"), ARGUMENTS)
def test_masked_values_are_refused(verb, argument):
    values = np.ma.masked_array(VALUES[argument], np.isin(np.arange(N), [4, 9]))
    with pytest.raises(ValueError, match=rf"{argument} has 2 masked values .the first in row 4.; leave these rows out"):
        called(verb, argument, values)
    if verb in ("feature_importance", "feature_importance_cv", "report"):
        called(verb, argument, np.ma.masked_array(VALUES[argument], False))  # nothing is masked


@pytest.mark.parametrize("verb", CALLS)
def test_a_masked_table_is_refused(verb):
    table = np.ma.masked_array(NUMBERS.to_numpy(), NUMBERS.to_numpy() > 2)
    for X in (table, list(table)):
        with pytest.raises(TypeError, match=r"X is a masked array; pass X.filled\(numpy.nan\)"):
            CALLS[verb][0](X=X, **({"y": VALUES["y"]} if "y" in CALLS[verb][1] else {}))


def test_masked_predictions_losses_and_choices_are_refused(tmp_path):
    mask = np.arange(N) == 5
    with pytest.raises(ValueError, match=r"the model returned masked values for \d+ of \d+ rows, first for row 5"):
        ll.feature_importance(
            lambda X: np.ma.masked_array(X[:, 0], np.arange(len(X)) % N == 5), VALUES_ONLY, Y, **OPTIONS
        )
    with pytest.raises(ValueError, match="the loss 'custom loss' returned masked values"):
        ll.feature_importance(model, NUMBERS, Y, loss=lambda y, p: np.ma.masked_where(y > 1, (y - p) ** 2))
    imp = ll.feature_importance(model, NUMBERS, Y, **OPTIONS)
    for choose in (imp.given, imp.subset, imp.drop, imp["a"].given):
        with pytest.raises(ValueError, match="rows has 1 masked values"):
            choose(np.ma.masked_array(np.arange(N) < 30, mask))
    with pytest.raises(ValueError, match="groups has 1 masked values"):
        imp.by(np.ma.masked_array(np.arange(N) < 30, mask))
    with pytest.raises(TypeError, match="rows is a masked array"):
        ll.shapley_effect(lambda X: X[:, 0], VALUES_ONLY, np.ma.masked_array(VALUES_ONLY[:2], VALUES_ONLY[:2] > 0))
    NUMBERS.assign(y=Y).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="y has 1 masked values"):
        ll.feature_importance(LINEAR, tmp_path / "x.parquet", np.ma.masked_array(Y, mask))
