"""Every result answers to the same few words, or refuses one of them in one sentence."""

import inspect
from collections.abc import Mapping
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import losslens as ll
from losslens.results.base import INTERNAL, Absent, Displayed, Stored

mpl.use("Agg")
N = 60
X = np.random.default_rng(0).normal(size=(N, 3))
Y = X[:, 0] + X[:, 1] * X[:, 2]
HALF = np.arange(N) % 2
ASKED = {"loss": "squared_error", "progress": False}
REFITS = {"cv": 3, "random_state": 0, "progress": False}


def model(table):
    return table[:, 0] + table[:, 1] * table[:, 2] + 0.1 * table[:, 1]


def importances():
    return ll.feature_importance(model, X, Y, **ASKED)


def scores():
    return ll.feature_importance(LinearRegression().fit(X, Y), X, Y, loss="r2", progress=False)


def shares():
    return ll.shapley_importance(model, X, Y, **ASKED)


def outputs():
    return ll.feature_importance(lambda table: table[:, :2], X, X[:, [1, 1]], **ASKED).outputs


MADE = {
    "Importances": importances,
    "FeatureImportance": lambda: importances()["x0"],
    "Scores": scores,
    "FeatureScore": lambda: scores()["x0"],
    "Effects": lambda: ll.feature_effect(model, X, progress=False),
    "FeatureEffect": lambda: ll.feature_effect(model, X, progress=False)["x0"],
    "ByGroup": lambda: importances().by(HALF),
    "OverTime": lambda: importances().over(np.arange(N), bins=2),
    "Outputs": outputs,
    "Extrapolations": lambda: importances().extrapolation,
    "RowInfluence": lambda: importances()["x0"].row_influence,
    "Regions": lambda: importances().regions(X, permutations=19),
    "Comparison": lambda: ll.compare({"one": model, "other": lambda table: table[:, 0]}, X, Y, **ASKED),
    "GoodModels": lambda: ll.good_models({"one": model, "other": lambda table: table[:, 0]}, X, Y, **ASKED),
    "ShapleyImportance": shares,
    "ShapleyCurve": lambda: shares().curve("x0"),
    "ShapleyEffect": lambda: ll.shapley_effect(model, X, [0, 1], progress=False),
    "Gap": lambda: shares().gap(HALF == 0),
    "Observations": lambda: shares().rank_rows(),
    "Interactions": lambda: ll.pair_interactions(model, X, Y, **ASKED),
    "Clusters": lambda: shares().clusters(X, k=2),
    "Sufficient": lambda: importances().sufficient(model, X, Y, progress=False, random_state=0),
    "Together": lambda: importances().together(model, X, Y, blocks={"b": ["x0", "x1"]}, progress=False),
    "WeakSegments": lambda: ll.weak_segments(model, X, Y, **ASKED),
    "ConditionalImpact": lambda: ll.conditional_predictive_impact(model, X, Y, ll.Residual(), **ASKED),
    "LeftOut": lambda: ll.leave_one_covariate_out(LinearRegression(), X, Y, **REFITS),
    "Refits": lambda: ll.feature_importance_cv(LinearRegression(), X, Y, **REFITS),
    "RefitCurve": lambda: ll.feature_importance_cv(LinearRegression(), X, Y, **REFITS).curve("x0"),
    "PermutedTarget": lambda: ll.permuted_target_test(LinearRegression(), X, Y, permutations=9, **REFITS),
}
NO_NAMES = {"Observations"}
OF_MAPPINGS = {"features", "get", "items", "keys", "values"}


@pytest.fixture(scope="module", params=MADE)
def result(request):
    return MADE[request.param]()


def one_sentence(error):
    assert isinstance(error, Absent)
    assert str(error).count(". ") == 0
    assert "object has no attribute" not in str(error)


def test_no_kind_of_result_is_forgotten():
    shown = {name for name, kind in Stored.kinds.items() if issubclass(kind, Displayed)}
    bases = {"Displayed", "Tabular", "Saveable", "Result", "Ranked", "WithLocal", "ResultMapping", "OneNumber"}
    assert shown - bases - {"RowChanges"} == {*MADE}


def test_it_is_shown_and_drawn(result):
    assert len(result.to_frame()) >= 0
    assert repr(result)
    assert "<" in result._repr_html_()
    if type(result).__name__ != "Regions" or result.found:
        assert result.plot() is not None
    mpl.pyplot.close("all")


def test_it_is_saved_or_is_a_part_of_what_is(result, tmp_path):
    if hasattr(result, "save"):
        result.save(tmp_path / "result")
        assert type(ll.load(tmp_path / "result")) is type(result)
    else:
        with pytest.raises(Absent) as error:
            result.save(tmp_path / "result")
        one_sentence(error.value)


@pytest.mark.parametrize("word", ["estimates", "interval", "test"])
def test_its_numbers_are_uncertain_or_it_says_why_not(result, word):
    if hasattr(result, word):
        assert callable(getattr(result, word))
    else:
        with pytest.raises(Absent) as error:
            getattr(result, word)
        one_sentence(error.value)


def test_an_interval_has_a_level_and_estimates_have_rows(result):
    if hasattr(result, "interval"):
        (low, high), (lower, higher) = result.interval(), result.interval(0.99)
        assert np.shape(low) == np.shape(high) == np.shape(lower)
        assert not np.any(np.asarray(lower) > low)
        assert not np.any(np.asarray(higher) < high)
    if hasattr(result, "estimates"):
        assert len(result.estimates()) == len(result.estimates(rows=None))
        if hasattr(result, "given"):
            assert len(result.estimates(HALF == 0)) == len(result.estimates())
        else:
            with pytest.raises(ValueError, match="has numbers for all rows only: leave out rows"):
                result.estimates(HALF == 0)


def test_tab_completion_shows_what_the_reference_documents(result):
    """Fields with a comment `#:`, and properties and methods with a docstring."""
    documented = set(OF_MAPPINGS if isinstance(result, Mapping) else ("features",))
    for kind in type(result).__mro__:
        if kind.__module__.startswith("losslens."):
            lines = [*inspect.getsource(kind).splitlines(), ""]
            pairs = zip(["", *lines], lines, strict=False)
            fields = [line.split(":")[0].strip() for before, line in pairs if "#:" in line or "#:" in before]
            documented |= {*fields, *(name for name, one in vars(kind).items() if inspect.getdoc(one))}
    shown = {name for name in dir(result) if not name.startswith("_")}
    assert shown - documented == set()
    assert not shown & INTERNAL


def test_it_has_parts_by_name(result):
    kind = type(result).__name__
    if kind in NO_NAMES:
        with pytest.raises(TypeError, match="no parts with names; see to_frame"):
            len(result)
        return
    assert len(result) == len(list(result))
    for name in result:
        assert result[name] is not None
    with pytest.raises(KeyError):
        result["no such name"]


def test_it_is_true(result):
    assert bool(result)


def test_the_estimates_of_pairs_are_those_of_their_matrices():
    found = MADE["Interactions"]()
    known, (low, high) = found.estimates(), found.interval()
    assert set(known) == {"x0 x x1", "x0 x x2", "x1 x x2"}
    for j, k in ((0, 1), (0, 2), (1, 2)):
        one = known[f"x{j} x x{k}"]
        assert (one.value, one.std_error) == (found.index[j, k], found.std_error[j, k])
        assert (one.low, one.high, one.p_value) == (low[j, k], high[j, k], found.p[j, k])
    with pytest.raises(ValueError, match="the covariance of these numbers is unknown"):
        known.difference("x0 x x1", "x0 x x2")


def test_the_estimates_of_a_gap_are_its_lines():
    found = shares().gap(HALF == 0)
    for line in found.lines:
        one, part = found.estimates()[line], found.part(line)
        assert (one.value, one.std_error, one.p_value) == (part.value, part.std_error, part.p_value)
        assert (one.low, one.high) == (part.low, part.high)


def test_the_estimates_of_segments_are_their_differences():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(800, 3))
    y = table[:, 0] + np.where(table[:, 1] > 1, 4.0, 1.0) * rng.normal(size=800)
    found = ll.weak_segments(lambda t: t[:, 0], table, y, **ASKED)
    segment = found.segments[0]
    one = found.estimates()[segment.rule]
    assert (one.value, one.low, one.high) == (segment.difference, segment.difference_low, segment.difference_high)
    assert len(found.estimates()) == len(found.segments)


def test_the_estimates_of_outputs_are_those_of_each_and_can_be_compared():
    """y0 and y1 are the same target, predicted by x0 and by x1, which is perfect: x1 matters to y1 alone."""
    found = outputs()
    for output, one in found.items():
        for name in one:
            number = found.estimates()[f"{output} x {name}"]
            assert replace(number, name=name) == one.estimates()[name]
    low, high = found.interval()
    assert [low[1, 1], high[1, 1]] == list(found["y1"]["x1"].interval())
    apart = found.difference("y1 x x1", "y0 x x1")
    assert apart.value == found["y1"]["x1"].pfi
    assert found.estimates(HALF == 0)["y1 x x1"].std_error == found["y1"].given(HALF == 0)["x1"].std_error
