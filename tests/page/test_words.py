"""The sentences at the top of the page: each number is what its sentence says, and each is said only where true."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import losslens as ll
from losslens.page.findings import (
    Findings,
    absence_words,
    clusters_dict,
    extrapolation_dict,
    far_words,
    finding_words,
    pairs_dict,
    regions_dict,
    rows_dict,
)
from losslens.page.words import _correlated, words
from losslens.results.clusters import Clusters
from losslens.results.extrapolation import Extrapolation, Extrapolations
from losslens.results.interactions import Interactions
from losslens.results.observations import Observations

N = 120
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 7))
SLOPES = np.array([4.0, 2.0, 1.5, 1.2, 0.8, 0.0, 0.0])
NOWHERE = (np.nan, np.nan)


def model(X: Any) -> Any:
    return np.asarray(X) @ SLOPES


Y = model(X) + RNG.normal(size=N)


def explained(model: Any = model, X: Any = X, y: Any = Y, **options: Any) -> Any:
    return ll.feature_importance(model, X, y, loss="squared_error", random_state=0, **options)


@pytest.fixture(scope="module")
def imp() -> Any:
    return explained()


@pytest.fixture(scope="module")
def shares() -> Any:
    return ll.shapley_importance(model, X, Y, loss="squared_error", method="exact")


def said(imp: Any, shares: Any = None, ends: Any = NOWHERE, n_given: int = N, columns: Any = None) -> dict[str, Any]:
    return words({"m": imp}, {} if shares is None else {"m": shares}, ends, n_given, columns or {})


# The headline: l = mean (y - f)^2, and with all values from other rows mean over pairs of (y_i - f_k)^2.


def test_the_headline_has_the_error_its_interval_and_what_the_features_save(imp: Any, shares: Any) -> None:
    f = model(X)
    error, none = np.mean((Y - f) ** 2), np.mean((Y[:, None] - f) ** 2)
    start = f"The squared error of m is {error:.4f}"
    assert said(imp)["headline"] == f"{start}."
    assert said(imp, ends=(0.5, 2.25))["headline"] == f"{start} (95% interval 0.5000 to 2.250)."
    assert said(imp, ends=(0.5, np.inf))["headline"] == f"{start}."
    rest = (
        f"; with all values from other rows it would be {none:.2f}: the features reduce it by {1 - error / none:.0%}."
    )
    assert said(imp, shares)["headline"] == start + rest


def test_features_that_save_nothing_are_not_said_to(imp: Any, shares: Any) -> None:
    worse = replace(shares, error_none=shares.error_all)
    assert said(imp, worse)["headline"].endswith(f"{imp.error:.4f}.")
    assert not any("Of that" in text for text in said(imp, worse)["sentences"])


# The most important features.


def test_the_largest_shares_are_named_in_order_at_most_four(imp: Any, shares: Any) -> None:
    """Shares of 5% and more; where there is none, the largest."""
    part = dict(zip(shares.features, shares.sfimp / (shares.error_none - shares.error_all), strict=True))
    first = sorted(part, key=lambda name: -part[name])[:4]
    listed = [f"{name} ({part[name]:.0%})" for name in first]
    expected = f"Of that, the largest shares are due to {', '.join(listed[:3])} and {listed[3]}."
    assert said(imp, shares)["sentences"][0] == expected
    few = {0: (0.94, 0.05, 0.01), 1: (0.95, 0.049, 0.001), 2: (0.04, 0.03, 0.02)}
    texts = {
        0: "Of that, the largest shares are due to a (94%) and b (5%).",
        1: "Of that, the largest share is due to a (95%).",
        2: "Of that, the largest share is due to a (4%).",
    }
    for case, numbers in few.items():
        made = SimpleNamespace(
            _total=1.0, share=np.array(numbers), features=("a", "b", "c"), error_all=0.0, error_none=1.0, notes=["x"]
        )
        assert said(imp, made)["sentences"][0] == texts[case]


def test_the_first_feature_is_said_to_be_first_where_that_is_sure(imp: Any) -> None:
    low, high = imp["x0"].interval()
    expected = f"Without x0 the error would grow by {imp['x0'].pfi:.2f} (95% interval {low:.2f} to {high:.2f})"
    assert said(imp)["sentences"][0] == f"{expected}, more than without any other feature."
    alike = explained(lambda X: X[:, 0] + X[:, 1], y=X[:, 0] + X[:, 1])
    assert said(alike)["sentences"][0].endswith("; which feature ranks first is uncertain.")
    few = explained(X=X[:2], y=Y[:2])
    best = max(few.values(), key=lambda one: one.pfi)
    text = said(few, n_given=2)["sentences"][0]
    assert text.startswith(f"Without {best.name} the error would grow by ")
    assert "interval" not in text
    assert text.endswith(".")
    wrong = explained(lambda X: X[:, 0], y=-X[:, 0])
    assert said(wrong)["sentences"][0] == "Without any single feature the error would not grow."


def test_features_of_which_nothing_is_sure_are_named(imp: Any) -> None:
    assert said(imp)["sentences"][1] == (
        "It is uncertain whether the model gains anything from 'x5' and 'x6' (tests at 5%, Holm)."
    )
    some = explained(features=["x0", "x1"])
    assert said(some)["sentences"][1] == "Every feature matters: all importances differ from 0 (tests at 5%, Holm)."
    for unused, tail in (
        (8, "'x7' and 'x8' (tests"),
        (9, "'x7' and 'x8' and 1 more (tests"),
        (11, "'x8' and 3 more ("),
    ):
        many = explained(lambda X: X[:, 0], np.column_stack([X[:, :1], RNG.normal(size=(N, unused))]), X[:, 0])
        assert tail in said(many)["sentences"][1]


def test_models_are_listed_by_their_error(imp: Any) -> None:
    flat = explained(lambda X: 0 * X[:, 0])
    found = words({"flat": flat, "m": imp}, {}, NOWHERE, N, {})["sentences"][-1]
    assert found == f"Errors of the models: m {np.mean((Y - model(X)) ** 2):.4f} and flat {np.mean(Y**2):.2f}."
    assert not any("Errors of the models" in text for text in said(imp)["sentences"])


# What was computed, and what to be careful about.


def test_rows_and_donors_are_counted(imp: Any, shares: Any) -> None:
    text = said(imp, shares)["computed"]
    assert text[0] == (
        f"Permutation importances on 120 rows: exact over all pairs, engine {imp.engine}, "
        f"{imp.n_predictions:,} predictions."
    )
    assert text[1] == f"Shapley shares: {shares.notes[0]}."
    assert len(text) == 3
    assert len(said(imp)["computed"]) == 2
    part = said(explained(donors=ll.Latin(5)), n_given=1200)["computed"][0]
    assert "a random sample of 120 of the 1,200 rows: sampled with Latin(5)" in part


def test_few_rows_and_samples_are_a_reason_for_care(imp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(said(imp)["careful"]) == 1
    assert said(imp, n_given=121)["careful"][1] == "All numbers are about the sample of 120 rows."
    assert said(explained(X=X[:100], y=Y[:100]), n_given=100)["careful"][1:] == []
    few = said(explained(X=X[:99], y=Y[:99]), n_given=99)["careful"]
    assert few[1:] == ["99 rows are few: intervals are wide, and rare values may be missing."]
    monkeypatch.setattr(type(imp), "notes", property(lambda self: ["how", "some rows were left out", "some more"]))
    assert said(imp)["careful"][1:] == ["Some rows were left out.", "Some more."]


def test_correlated_columns_are_named_the_strongest_first(imp: Any) -> None:
    """Rank correlations: any increasing function has 1, a decreasing one -1."""
    a, e = np.arange(50.0), np.random.default_rng(1).normal(size=50)
    gap = np.where(np.arange(50) < 5, np.nan, -np.exp(a / 9))
    columns = {"a": a, "b": gap, "c": a + 12 * e, "two": a > 20, "flat": np.full(50, 2.0), "e": e}
    found = _correlated({name: np.asarray(values, float) for name, values in columns.items()})
    assert [(x, y) for _, x, y in found] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert found[0][0] == pytest.approx(-1)
    assert 0.7 < found[1][0] < 0.9
    assert _correlated({"a": np.array([1.0, 2, 3, np.nan]), "b": np.array([1.0, 2, np.nan, 4])}) == []  # two rows
    assert _correlated({"a": np.array([1.0, 1, 1, 2, 3]), "b": np.array([4.0, 5, 6, np.nan, np.nan])}) == []
    text = said(imp, columns={k: v for k, v in columns.items() if k in ("a", "b", "c")})["careful"][1]
    assert text.startswith(f"Some features are correlated (a and b (-1.00), a and c ({found[1][0]:.2f}) and b and c (")
    four = dict.fromkeys("abcd", a * 2.0)
    assert said(imp, columns=four)["careful"][1].count("(1.00)") == 3


def test_a_correlation_of_07_is_one() -> None:
    """Ranks of five values: 1 - 6 sum d^2 / (5 * 24); sum d^2 = 6 gives exactly 0.7, 8 gives 0.6."""
    a = np.arange(5.0)
    assert [round(v, 9) for v, _, _ in _correlated({"a": a, "b": np.array([1.0, 2, 0, 3, 4])})] == [0.7]
    assert _correlated({"a": a, "b": np.array([1.0, 2, 0, 4, 3])}) == []


# Findings.


def feature(*sentences: str) -> dict[str, Any]:
    return {"regions": {"sentences": list(sentences)}}


def test_two_sentences_on_regions_and_how_many_more() -> None:
    nothing = {"regions": None}
    assert finding_words([nothing, feature()], None, None) == []
    assert finding_words([feature("A."), nothing, feature("B.")], None, None) == ["A.", "B."]
    found = finding_words([feature("A.", "B."), feature("C."), feature("D.", "E.")], None, None)
    assert found == ["A.", "B. (3 more of this kind: see the features.)"]


def pair(p: float, value: float, first: str = "a", second: str = "b") -> dict[str, Any]:
    return {"first": first, "second": second, "value": value, "low": value - 1, "high": value + 1, "p": p}


def test_the_strongest_pair_that_is_sure_to_gain() -> None:
    def told(*pairs: dict[str, Any]) -> list[str]:
        return finding_words([], {"pairs": list(pairs), "by": ""}, None)

    assert told() == told(pair(0.051, 9.0)) == told(pair(0.001, -9.0)) == told(pair(0.001, 0.0)) == []
    expected = "a and b work together in the model: 3.500 of their two importances (95% interval 2.500 to 4.500)"
    for more in ((), (pair(0.001, -9.0, "u", "v"),), (pair(0.9, 9.0, "u", "v"),)):
        assert told(*more, pair(0.05, 3.5), pair(0.001, 2.0, "x", "y")) == [
            f"{expected} comes from how it combines them."
        ]


@pytest.mark.parametrize(
    ("n", "text"), [(1, "1 row looks wrong: "), (2, "2 rows look wrong: "), (1500, "1,500 rows look")]
)
def test_rows_that_look_wrong_are_counted(n: int, text: str) -> None:
    assert finding_words([], None, {"n_suspicious": 0}) == []
    found = finding_words([], None, {"n_suspicious": n})[0]
    assert found.startswith(text)
    assert f"better on {'it' if n == 1 else 'them'} without" in found


def far(name: str, share: float, auc: float = 0.9) -> Extrapolation:
    return Extrapolation(name, auc, share, np.arange(3.0), np.array([0.2, 0.5, 0.8]), ("z",))


def test_features_with_replaced_rows_unlike_real_ones_are_named_up_to_six() -> None:
    def told(*ones: Extrapolation) -> list[str]:
        return far_words(Extrapolations({one.name: one for one in ones}))

    start = "Rows with a replaced value differ from real ones. The share that is unlike any: "
    assert told(far("a", 0.3, 0.6), far("b", 0.009)) == []  # an AUC of 0.6, or too few far rows, is no warning
    assert told(far("a", 0.01), far("b", 0.3), far("c", 0.9, 0.5)) == [f"{start}b 30%, a 1%."]
    six = [far(f"x{k}", 0.6 - k / 10) for k in range(6)]
    assert told(*six) == [f"{start}x0 60%, x1 50%, x2 40%, x3 30%, x4 20%, x5 10%."]
    assert told(*six, far("y", 0.05), far("z", 0.04))[0].endswith("x5 10% and 2 more features.")


def test_a_curve_fades_where_most_replaced_rows_are_unlike_real_ones() -> None:
    told = extrapolation_dict(far("a", 0.3), None)
    assert told is not None
    assert told["faded"].tolist() == [False, False, True]
    assert (
        told["sentence"]
        == "30% of the replaced rows are unlike any real one (AUC 0.90): a is tied to z; see Within() or Residual()."
    )
    quiet = extrapolation_dict(far("a", 0.3, 0.5), None)
    assert quiet is not None
    assert quiet["faded"].tolist() == [False] * 3
    assert quiet["sentence"] == ""
    assert extrapolation_dict(None, None) is None


def clusters(stability: float, k: int = 2) -> Clusters:
    labels = np.array([0] * 6 + [1] * 3 + [-1])[: 10 if k > 1 else 6]
    weight = np.full(len(labels), 1 / 9)
    profiles = np.array([[1.0, -7, 2, 3, -4], [0, 0, 5, 0, 0]])[:k]
    stable = np.array([0.9, 0.7])[:k]
    rules = ("b ≤ 0", "")[:k]
    return Clusters(
        labels, weight, profiles, rules, ("b",), 0.82, stability, stable, (), tuple("abcde"), "squared error", "pandas"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stability", "alike"),
    [(1.0, "nearly the same"), (0.95, "nearly the same"), (0.94, "much the same"), (0.8, "much the same"),
     (0.79, "similar"), (0.6, "similar"), (0.59, "not the same"), (-0.2, "not the same")],
)  # fmt: skip
def test_how_stable_clusters_are_in_words(stability: float, alike: str) -> None:
    told = clusters_dict(clusters(stability))
    assert told is not None
    assert told["sentence"] == (
        "By their local Shapley shares, the rows form 2 clusters. Clusters of two halves of the rows are "
        f"{alike} (stability {stability:.2f}; 1: the same, 0: chance); the rules assign 82% of held-out rows to their "
        "own cluster, against 67% by always choosing the largest one."
    )


def test_a_cluster_is_known_by_the_features_with_the_largest_means_of_either_sign() -> None:
    assert clusters_dict(None) is None
    told = clusters_dict(clusters(0.9))
    assert told is not None
    first, second = told["clusters"]
    assert [one["name"] for one in first["known_by"]] == ["b", "e", "d", "c"]
    assert [one["value"] for one in first["known_by"]] == [-7, -4, 3, 2]
    assert second["known_by"][0] == {"name": "c", "value": 5.0}
    assert (first["n"], second["n"], first["rule"], second["stability"]) == (6, 3, "b ≤ 0", 0.7)
    assert first["share"] == pytest.approx(2 / 3)
    alone = clusters_dict(clusters(np.nan, k=1))
    assert alone is not None
    assert "form no clusters" in alone["sentence"]


def test_the_strongest_pairs_are_listed() -> None:
    p = 7
    index = np.zeros((p, p))
    index[np.triu_indices(p, 1)] = np.arange(21, 0, -1) * np.where(np.arange(21) % 2, -1, 1)
    index += index.T
    names = tuple(f"x{j}" for j in range(p))
    error = np.full((p, p), 0.5)
    whole = Interactions(names, index, "kind", "loss", "pandas", unbiased=index, std_error=error, units=50)
    pairs = replace(whole, index=-2 * index, parts={"interaction": whole})
    nobody = Findings(pairs, "How.", None, None, lambda one: None, "")
    told = pairs_dict(nobody)
    assert told is not None
    assert (told["n_pairs"], told["how"], told["features"]) == (21, "How.", list(names))
    assert len(told["pairs"]) == 15
    for one in told["pairs"]:
        at = names.index(one["first"]), names.index(one["second"])
        assert one["value"] == index[at]
        assert (one["low"], one["high"]) == whole.interval(one["first"], one["second"])
        assert (one["std_error"], one["p"]) == (0.5, whole.p_adjusted[at])
    assert [abs(one["value"]) for one in told["pairs"]] == sorted(
        [abs(one["value"]) for one in told["pairs"]], reverse=True
    )
    unsure = replace(whole, std_error=None, unbiased=None, units=0)
    unknown = pairs_dict(replace(nobody, pairs=replace(pairs, parts={"interaction": unsure})))
    assert unknown is not None
    assert np.isnan(unknown["pairs"][0]["std_error"])
    assert pairs_dict(replace(nobody, pairs=None)) is None
    other = pairs_dict(replace(nobody, pairs=replace(pairs, title="log loss")))  # the part is of another loss
    assert (told["by"], other and other["by"]) == ("", "loss")
    sure = {"pairs": [pair(0.01, 3.5)], "by": "Brier score"}
    assert "3.500 of their two importances by the Brier score (95% interval" in finding_words([], sure, None)[0]
    nothing = replace(whole, index=np.full((p, p), np.nan), std_error=None, unbiased=None, absent="of this")
    without = replace(nobody, pairs=replace(pairs, parts={"interaction": nothing}))
    assert pairs_dict(without) is None
    assert "Whether the model combines features is unknown: of this." in absence_words(without, shared=True)


def test_rows_helped_hurt_and_suspicious_are_counted() -> None:
    importance = np.concatenate([np.linspace(1, 2, 100), [0.0, 0.0], -np.arange(50.0, 75)])
    n = len(importance)
    names = np.array(["a", "b"], object)[np.arange(n) % 2]
    one = Observations(
        importance, np.ones(n), np.full(n, 1 / n), None, None, np.arange(n) / 10, names, "loss", "pandas"
    )
    told = rows_dict(one)
    assert told is not None
    assert (told["helped"], told["hurt"], told["n_suspicious"], len(told["suspicious"])) == (100, 25, 25, 20)
    assert told["suspicious"].tolist() == list(range(n - 1, n - 21, -1))  # the least important first
    np.testing.assert_array_equal(told["influence"], told["suspicious"] / 10)
    assert told["influence_on"] == [str(names[k]) for k in told["suspicious"]]
    assert told["fence"] == one.fence
    bare = rows_dict(replace(one, influence=None, influence_on=None))
    assert bare is not None
    assert bare["influence"] is bare["influence_on"] is None
    assert rows_dict(None) is None


def test_what_is_absent_has_its_reason() -> None:
    nobody = Findings(None, "", None, None, lambda one: None, "")
    told = Findings(None, "Pairs: none.", None, None, lambda one: None, "Regions: none.")
    assert absence_words(nobody, True) == []
    assert absence_words(told, True) == ["Pairs: none.", "Regions: none."]
    assert absence_words(nobody, False) == ["Shapley shares were not requested: the page has no importances of rows."]
    assert regions_dict(None, "a") is None
