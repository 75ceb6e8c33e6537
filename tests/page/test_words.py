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
    finding_words,
    pairs_dict,
    regions_dict,
    rows_dict,
)
from losslens.page.opening import baseline
from losslens.page.page import with_minus
from losslens.page.words import words
from losslens.results.clusters import Clusters
from losslens.results.extrapolation import Extrapolation, Extrapolations
from losslens.results.interactions import Interactions
from losslens.results.observations import Observations
from losslens.results.plain_error import PlainError
from losslens.results.ranking import Ranking, leads_here, leads_surely, surely_matter
from losslens.results.sentences import hardly_occurring, largest_shares
from losslens.text import in_digits

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


def said(imp: Any, shares: Any = None, ends: Any = NOWHERE, n_given: int = N) -> dict[str, Any]:
    ranking = Ranking.of(imp, imp.extrapolation, baseline(imp))
    return words({"m": imp}, {} if shares is None else {"m": shares}, ranking, ends, n_given)


# The headline: l = mean (y - f)^2, beside that of the mean of y. R² is scikit-learn's.


def test_the_headline_has_the_error_its_interval_and_that_of_the_best_constant(imp: Any) -> None:
    f = model(X)
    error, constant = np.sqrt(np.mean((Y - f) ** 2)), Y.std()
    start, end = "The root mean squared error of m is ", "; always predicting the average has "
    assert said(imp)["headline"] == f"{start}{error:.3f}{end}{constant:.2f}."
    text = said(imp, ends=(0.5, 2.25))["headline"]
    assert text == f"{start}{error:.2f} (95% interval 0.71 to 1.50){end}{constant:.2f}."
    assert said(imp, ends=(0.5, np.inf))["headline"] == f"{start}{error:.3f}{end}{constant:.2f}."


def test_a_model_that_is_not_better_than_a_constant_is_not_said_to_be() -> None:
    flat = explained(lambda X: np.full(len(X), Y.mean()))
    assert said(flat)["headline"].endswith(", about the same.")
    wrong = explained(lambda X: -model(X))
    assert said(wrong)["headline"].endswith(", which is better.")
    assert explained(model, y=model(X)).skill == 1
    assert "of m is 0; always predicting" in said(explained(model, y=model(X)))["headline"]
    custom = ll.feature_importance(model, X, Y, loss=lambda y, f: np.abs(y - f), random_state=0)
    assert said(custom)["headline"] == f"The custom loss of m is {custom.error:.3f}."  # of which none is known
    constant = explained(model, y=np.ones(N))
    assert "always" not in said(constant)["headline"]  # it has no error


def test_other_losses_have_another_constant() -> None:
    loss = {"absolute_error": "the median", "huber": "the constant with the smallest Huber loss"}
    for name, constant in loss.items():
        found = said(ll.feature_importance(model, X, Y, loss=name))["headline"]
        assert f"always predicting {constant} has " in found


def test_what_shares_divide(imp: Any, shares: Any) -> None:
    """Mean over pairs of (y_i - f_k)^2."""
    none = np.sqrt(np.mean((Y[:, None] - model(X)) ** 2))
    start = f"With the values of all 7 features taken from another row, the root mean squared error is {none:.2f}"
    assert said(imp, shares)["sentences"][0] == f"{start}."
    worse = replace(shares, error_none=shares.error_all)
    told = said(imp, worse)["sentences"]
    assert told[0].endswith(f"is {np.sqrt(imp.error):.3f}, no worse: there is no reduction to share.")
    assert not any("largest share" in text for text in told)


def votes(X: Any) -> Any:
    """Probabilities of 0 and 1 as well."""
    share = np.clip((np.sign(X[:, 0]) + np.sign(X[:, 1]) + 2) / 4, 0, 1)
    return np.column_stack([1 - share, share])


def test_probabilities_of_0_are_counted_where_the_error_and_the_shares_are_told() -> None:
    """p = 0 for the true class: its own for rows of the headline, that of any other row for the shares."""
    y = (X[:, 0] + RNG.normal(size=N) > 0).astype(int)
    imp = ll.feature_importance(votes, X, y, loss="log_loss")
    shares = ll.shapley_importance(votes, X[:, :3], y, loss="log_loss")
    p = votes(X)
    own, pairs = np.mean(p[np.arange(N), y] == 0), np.mean(p[:, y].T == 0)
    assert shares.clipped == pytest.approx(pairs)
    made, there = said(imp, shares), p[np.arange(N), y] == 0
    without = np.mean(-np.log(p[np.arange(N), y][~there]))
    assert made["careful"][1] == (
        f"For {there.sum()} of 120 rows the model gives the true class probability 0. Their log loss is set to the "
        "clipping bound, 36.04: without them the typical probability of the true class would be "
        f"{np.exp(-without):.1%}, not {np.exp(-imp.error):.1%}."
    )
    assert own == there.mean()
    clipped = f"{pairs:.0%} of the predictions for other rows give the true class probability 0: "
    assert any(clipped in text for text in made["careful"])
    assert any(f"{pairs:.0%} of the predictions for other rows" in note for note in shares.notes)
    smooth = ll.shapley_importance(lambda X: 0.1 + 0.8 * votes(X), X[:, :3], y, loss="log_loss")
    assert smooth.clipped == 0
    assert smooth.clipped_in_words == ""
    some = ll.shapley_importance(votes, X[:, :3], y, loss="log_loss", features=["x0"])
    assert np.isnan(some.clipped)  # x1 is the row's own
    assert some.clipped_in_words == ""
    assert shares.given(y == 1).clipped == pytest.approx(np.mean(p[:, 1] == 0))


def test_negative_shares_are_explained() -> None:
    """f = x0 - x1 for y = x0 + x1: the share of x1 is as far below 0 as that of x0 is above."""
    y = 2 * X[:, 0] + X[:, 1]
    shares = ll.shapley_importance(lambda X: 2 * X[:, 0] - X[:, 1] / 2, X, y, loss="squared_error")
    assert (shares.share < -0.05).sum() == 1
    expected = (
        "the share of x1 is below 0: on these rows, on average over coalitions, its values increase the error; "
        "the other shares add up to more than 100%"
    )
    assert shares.negative_in_words == expected
    assert expected in shares.notes
    assert shares.share[0] > 1
    useful = ll.shapley_importance(model, X, Y, loss="squared_error", method="exact")
    assert useful.share.min() > -0.0005
    assert useful.negative_in_words == ""
    wrong = ll.shapley_importance(lambda X: -X[:, 0], X, y, loss="squared_error")
    assert wrong.negative_in_words == ""  # no reduction: no shares are shown


# The most important features.


def test_the_largest_shares_are_named_in_order_at_most_four(imp: Any, shares: Any) -> None:
    """Shares of 5% and more; where there is none, the largest."""
    part = dict(zip(shares.features, shares.sfimp / (shares.error_none - shares.error_all), strict=True))
    first = sorted(part, key=lambda name: -part[name])[:4]
    listed = [f"{name} ({part[name]:.1%})" for name in first]
    start = "Of the difference to the model's error, the largest share"
    expected = f"{start}s go to {', '.join(listed[:3])} and {listed[3]}."
    assert said(imp, shares)["sentences"][1] == expected
    few = {0: (0.94, 0.05, 0.01), 1: (0.95, 0.049, 0.001), 2: (0.04, 0.03, 0.02)}
    texts = {
        0: f"{start}s go to a (94.0%) and b (5.0%).",
        1: f"{start} goes to a (95.0%).",
        2: f"{start} goes to a (4.0%).",
    }
    for case, numbers in few.items():
        made = SimpleNamespace(_total=1.0, share=np.array(numbers), features=("a", "b", "c"))
        assert largest_shares(made) == texts[case]


def test_every_feature_is_said_to_matter_surely_or_not(imp: Any) -> None:
    told = said(imp)["sentences"]
    assert told[0] == (
        "On new rows, too, the error grows with x0, x1, x2, x3 and x4 shuffled alone (tests at 5%, Holm, and 95% "
        "intervals)."
    )
    wrong = explained(lambda X: X[:, 0], y=-X[:, 0])
    told = said(wrong)["sentences"]
    assert told[0] == "The error shrinks with x0 shuffled (intervals at 95%, Bonferroni)."
    assert not any("uncertain" in text for text in told)
    assert said(explained(features=["x0"]))["sentences"] == []  # the first screen says it
    few = said(explained(X=X[:2], y=Y[:2]), n_given=2)["sentences"]
    assert not any("test" in text for text in few)


def test_features_of_which_nothing_is_sure_are_named(imp: Any) -> None:
    """x5 and x6 are not used: that is sure."""
    tests = "(tests at 5%, Holm, and 95% intervals)."
    assert said(imp)["sentences"][-1] == "With x5 and x6 shuffled no error changes."
    some = explained(features=["x0", "x1"])
    assert said(some)["sentences"][-1] == (
        f"On new rows, too, the error grows with each of the 2 features shuffled alone {tests}"
    )
    start = "It is uncertain whether the error grows on new rows with "
    noise = np.random.default_rng(5).normal(size=N)
    for count, tail in (
        (2, "{0} or {1}"),
        (3, "any of {0}, {1} and {2}"),
        (7, "any of {0}, {1}, {2}, {3}, {4}, {5}"),
    ):
        unrelated = explained(lambda X, count=count: X[:, :count].sum(axis=1), y=noise)
        used = [f"x{j}" for j in range(count)]
        found = next(text for text in said(unrelated)["sentences"] if text.startswith(start))
        assert found.startswith(f"{start}{tail.format(*(one.name for one in unrelated._ranked if one.name in used))}")
        assert found.endswith(f" shuffled {tests}")


def test_of_sampled_rows_that_changed_nothing_no_more_is_said() -> None:
    """A model that uses x5 above a value that one row has: Latin(5) may miss it, and all pairs do not."""
    highest = np.sort(X[:, 5])[-1]

    def rare(Z: Any) -> Any:
        return Z[:, 0] + 5 * (Z[:, 5] >= highest) * (Z[:, 1] > np.sort(X[:, 1])[-3])

    end, how = "no error changes", {"loss": "squared_error", "donors": ll.Latin(3)}
    sampled = next(
        imp for imp in (ll.feature_importance(rare, X, Y, random_state=s, **how) for s in range(50))
        if not np.any(imp["x5"].local)
    )  # fmt: skip
    told = said(sampled)["sentences"]
    assert told[-1].endswith(f"x5 and x6 shuffled {end} for the sampled rows; others were not tried.")
    assert not any("uncertain whether" in text for text in told)
    told = said(explained(rare, donors="all"))["sentences"]
    assert not any("x5" in text and end in text for text in told)
    assert any("uncertain whether" in text and "x5" in text for text in told)


def test_a_claim_about_every_feature_rests_on_all_of_them() -> None:
    """A feature without a standard error is not tested, and so nothing is said of all."""
    imp = explained(features=["x0", "x1"])
    partly = replace(imp, features=imp.features | {"x2": replace(explained(X=X[:2], y=Y[:2])["x2"])})
    assert len(partly.estimates().names) == 2
    assert leads_surely(Ranking.of(partly)) == ""
    assert leads_here(Ranking.of(partly)).endswith("how surely is not known.")
    assert "each of" not in surely_matter(Ranking.of(partly))
    assert surely_matter(Ranking.of(imp))
    assert leads_surely(Ranking.of(imp))


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
    told = said(imp)["careful"]
    assert told[1:] == [f"Importance of {caution}." for caution in imp.cautions]
    monkeypatch.setattr("losslens.page.words.sentences", lambda names, cautions, of: [])
    assert len(said(imp)["careful"]) == 1
    assert said(imp, n_given=121)["careful"][1] == "All numbers are about the sample of 120 rows."
    assert said(explained(X=X[:100], y=Y[:100]), n_given=100)["careful"][1:] == []
    few = said(explained(X=X[:99], y=Y[:99]), n_given=99)["careful"]
    assert few[:-1] == ["99 rows are few: intervals are wide, and rare values may be missing."]
    monkeypatch.setattr(type(imp), "notes", property(lambda self: ["how", "some rows were left out", "some more"]))
    assert said(imp)["careful"][1:] == ["Some rows were left out.", "Some more."]


# Findings.


def feature(*sentences: str) -> dict[str, Any]:
    return {"regions": {"sentences": list(sentences)}}


def test_two_sentences_on_regions_at_most() -> None:
    nothing = {"regions": None}
    assert finding_words([nothing, feature()], None, None) == []
    assert finding_words([feature("A."), nothing, feature("B.")], None, None) == ["A.", "B."]
    assert finding_words([feature("A."), feature("C."), feature("D.")], None, None) == ["A.", "C."]


def pair(p: float, value: float, first: str = "a", second: str = "b") -> dict[str, Any]:
    return {"first": first, "second": second, "value": value, "low": value - 1, "high": value + 1, "p": p}


def test_the_strongest_pair_that_is_sure_to_gain() -> None:
    def told(*pairs: dict[str, Any]) -> list[str]:
        return finding_words([], {"pairs": list(pairs), "by": "", "title": "squared error"}, None)

    assert told() == told(pair(0.051, 9.0)) == told(pair(0.001, -9.0)) == told(pair(0.001, 0.0)) == []
    expected = (
        "a and b work together in the model: how it combines them adds 3.5 to their importances together (squared "
        "error; 95% interval 2.5 to 4.5)."
    )
    for more in ((), (pair(0.001, -9.0, "u", "v"),), (pair(0.9, 9.0, "u", "v"),)):
        assert told(*more, pair(0.05, 3.5), pair(0.001, 2.0, "x", "y")) == [expected]


@pytest.mark.parametrize(
    ("n", "text"), [(1, "1 row stands out: "), (2, "2 rows stand out: "), (1500, "1,500 rows stand")]
)
def test_rows_that_stand_out_are_counted(n: int, text: str) -> None:
    assert finding_words([], None, {"n_suspicious": 0}) == []
    found = finding_words([], None, {"n_suspicious": n})[0]
    assert found.startswith(text)
    assert f"{'its' if n == 1 else 'their'} loss would be smaller" in found


def far(name: str, share: float, auc: float = 0.9) -> Extrapolation:
    return Extrapolation(name, auc, share, np.arange(3.0), np.array([0.2, 0.5, 0.8]), ("z",))


def test_features_with_replaced_rows_unlike_real_ones_are_named_up_to_three() -> None:
    def told(*ones: Extrapolation) -> str:
        return hardly_occurring(Extrapolations({one.name: one for one in ones}))

    start = "Shuffling creates unrealistic rows, on which the numbers partly rest. Their share by feature: "
    assert told(far("a", 0.3, 0.6), far("b", 0.009)) == ""  # an AUC of 0.6, or too few far rows, is no warning
    assert told(far("a", 0.01), far("b", 0.3), far("c", 0.9, 0.5)) == f"{start}b 30% and a 1%."
    six = [far(f"x{k}", 0.6 - k / 10) for k in range(6)]
    assert told(*six) == f"{start}x0 60%, x1 50%, x2 40% and 3 more."


def test_a_curve_fades_where_most_replaced_rows_are_unlike_real_ones() -> None:
    told = extrapolation_dict(far("a", 0.3), None)
    assert told is not None
    assert told["faded"].tolist() == [False, False, True]
    assert told["sentence"] == (
        "30% of the rows with a replaced are unlike any real one (a classifier tells them apart, AUC 0.90): a is "
        "correlated with z. To draw values that fit a row's "
        "other columns instead, compute the importances with donors=Within() or donors=Residual()."
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
        "The rows were divided into 2 clusters by their local Shapley shares. Clusters found on two halves of "
        f"the rows are {alike} (stability {stability:.2f}; 1: the same, 0: chance); the rules assign 82.0% of "
        "held-out rows to their own cluster, against 66.7% by always choosing the largest one."
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
    assert alone["sentence"] == "By local Shapley shares, no division of the rows is stable and well separated."
    ruleless = clusters_dict(replace(clusters(0.9), rules=("", "")))
    assert ruleless is not None
    assert ruleless["sentence"].endswith("; no rules describe them better than by always choosing the largest one.")


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
    low, high = whole.interval()
    for one in told["pairs"]:
        at = names.index(one["first"]), names.index(one["second"])
        assert one["value"] == index[at]
        assert (one["low"], one["high"]) == (low[at], high[at])
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
    sure = {"pairs": [pair(0.01, 3.5)], "by": "Brier score", "title": "Brier score"}
    assert "adds 3.5 to their importances together (Brier score; 95% interval" in finding_words([], sure, None)[0]
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
    both = "The features reduce the loss of {} of 127 rows, compared with values from other rows{}."
    assert told["sentence"] == both.format(100, ", and increase that of 25")
    helped = rows_dict(replace(one, importance=np.ones(n)))
    assert helped is not None
    assert helped["remark"] == ""
    assert helped["sentence"] == both.format(127, "")
    start = f"Their importance is unusually low, below the outlier fence of all rows ({in_digits(one.fence)}): "
    assert told["remark"].startswith(start)
    assert " The clearest 20 of 25. Largest influence: " in told["remark"]
    bare = rows_dict(replace(one, influence=None, influence_on=None))
    assert bare is not None
    assert bare["influence"] is bare["influence_on"] is None
    assert bare["remark"].endswith(" The clearest 20 of 25.")
    assert rows_dict(None) is None


def test_what_is_absent_has_its_reason() -> None:
    nobody = Findings(None, "", None, None, lambda one: None, "")
    told = Findings(None, "Pairs: none.", None, None, lambda one: None, "Regions: none.")
    assert absence_words(nobody, True) == []
    assert absence_words(told, True) == ["Pairs: none.", "Regions: none."]
    assert absence_words(nobody, False) == ["Shapley shares were not requested: the page has no importances of rows."]
    assert regions_dict(None, "a", PlainError("root", "squared error", 1.0)) is None


def test_a_useless_model_is_said_in_place_of_what_matters() -> None:
    """Predictions that have nothing to do with the target: what they depend on is not the second sentence."""
    rng = np.random.default_rng(3)
    rows, y = rng.normal(size=(120, 2)), rng.normal(size=120)
    bad = ll.report(lambda X: 3 * X[:, 0], rows, y, loss="squared_error", interactions=False, random_state=0)
    good = ll.report(lambda X: 3 * X[:, 0], rows, 3 * rows[:, 0] + y, loss="squared_error", interactions=False)
    assert [one.claim for one in bad.summary["words"]["opening"]][:2] == ["how_well", "no_better"]
    assert "no_better" not in [one.claim for one in good.summary["words"]["opening"]]


def test_numbers_of_sentences_have_the_minus_sign_of_the_page() -> None:
    made = {"words": {"a": "from -3 to -0.5, (-1) of x-1 and 2021-05-01"}, "title": "-1", "rule": "x ≤ -2"}
    changed = {"words": {"a": "from −3 to −0.5, (−1) of x-1 and 2021-05-01"}, "title": "-1", "rule": "x ≤ −2"}
    assert with_minus(made) == changed
