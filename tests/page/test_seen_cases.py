"""Pages that once misled on data nobody here chose: the sentence that must be there, and the one that must not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score

import losslens as ll
from losslens.page.leading import leading
from losslens.page.report import Report
from losslens.text import shares_in_words

OPTIONS: dict[str, Any] = {"shapley": False, "interactions": False, "random_state": 0, "progress": False}


def opening(page: Report) -> list[str]:
    assert page.check() == []
    found: list[str] = page.summary["words"]["opening"]
    return found


def test_no_single_sure_feature_of_a_good_model() -> None:
    """Breast cancer: right for 97%, and each of 30 columns has others that stand in for it."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    test = np.random.default_rng(0).permutation(len(y))[:200]
    train = np.setdiff1d(np.arange(len(y)), test)
    model = HistGradientBoostingClassifier(random_state=0).fit(X.iloc[train], y.iloc[train])
    page = ll.report(model, X.iloc[test], y.iloc[test], **OPTIONS)
    _, matters, _ = opening(page)
    assert matters.startswith("No single feature surely matters: ")
    assert "But the model surely does better than always predicting the class frequencies" in matters
    assert "Shuffled together, " in matters
    assert "not sure that any feature matters" not in page.html()
    rows = leading(page.summary)["rows"]
    assert not any(row["sure"] for row in rows if row["block"] != "all")
    assert any(row["sure"] for row in rows if row["block"] == "all")
    assert min(one["models"][0]["p"] for one in page.summary["features"]) > 0.05


def test_effects_that_cancel_are_not_said_to_look_small_alone() -> None:
    """Diabetes, a linear model: s1 alone raises the error more than s1 and s2 together."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = LinearRegression().fit(X[::2], y[::2])
    page = ll.report(model, X[1::2], y[1::2], **OPTIONS)
    texts = " ".join([*opening(page), *page.summary["words"]["careful"]])
    assert "Shuffled together, s1 and s2 raise the error to " in texts
    assert ": their effects partly cancel, so no number of one alone tells what it is worth." in texts
    assert "look less important" not in texts


def test_a_leader_by_rows_that_do_not_exist_is_not_announced_without_saying_so() -> None:
    """Three sizes of one thing: the model takes the last one, and a size that does not fit the others is no thing."""
    rng = np.random.default_rng(7)
    size = rng.gamma(4, size=400)
    X = pd.DataFrame({name: size * (1 + 0.01 * rng.normal(size=400)) for name in "xyz"}).assign(
        cut=rng.normal(size=400)
    )
    y = 5 * size + X["cut"] + rng.normal(size=400)
    page = ll.report(lambda X: (5 * X["y"] + X["cut"]).to_numpy(), X, y, loss="squared_error", **OPTIONS)
    _, matters, _ = opening(page)
    assert matters.startswith("It depends most on y: when y is shuffled between rows (which makes ")
    share = re.search(r"makes (\d+)% of the rows unlike any real one\)", matters)
    assert share
    assert int(share[1]) >= 30


def test_the_error_of_a_segment_is_that_of_the_rows_it_names() -> None:
    """Few rows of a large error: on the half that judged them it is not that of all."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"democracy": rng.choice(["yes", "no"], 400, p=[0.8, 0.2]), "wealth": rng.normal(size=400)})
    y = X["wealth"] + rng.standard_t(3, size=400) * np.where(X["democracy"] == "no", 4, 1)
    page = ll.report(lambda X: X["wealth"].to_numpy(), X, y, loss="squared_error", **OPTIONS)
    opening(page)
    (one, *_) = page.summary["segments"]["segments"]
    there = (X["democracy"] == "no").to_numpy()
    assert (one["rule"], one["n"]) == ("democracy = no", there.sum())
    losses = (y - X["wealth"]).to_numpy() ** 2
    assert (one["error"], one["other"]) == pytest.approx((losses[there].mean(), losses[~there].mean()))
    said = re.search(
        r"\((\d+) rows\), the root mean squared error is ([\d.]+), against ([\d.]+) elsewhere", one["sentence"]
    )
    assert said
    assert int(said[1]) == there.sum()
    for text, loss in ((said[2], losses[there].mean()), (said[3], losses[~there].mean())):
        assert float(text) == pytest.approx(np.sqrt(loss), abs=0.51 * 10.0 ** -len(text.partition(".")[2]))
    assert f"On the {one['judged']} of these rows that were not used to find the rule" in one["sentence"]


def test_differences_are_of_what_stands_beside_them() -> None:
    """24 rows: a row with itself is 4% of the pairs."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(24, 2)), columns=["a", "b"])
    y = X["a"] * X["b"] + X["b"] + 0.3 * rng.normal(size=24)
    imp = ll.feature_importance(lambda X: X["a"] + X["b"], X, y, loss="squared_error")
    shown = imp.to_frame().set_index("feature")["importance"]
    assert imp.test().set_index("feature")["importance"].to_dict() == pytest.approx(shown.to_dict())
    assert imp.difference("b", "a").value == pytest.approx(shown["b"] - shown["a"])
    assert imp.test().set_index("feature")["importance"]["b"] == pytest.approx(imp["b"].pfi)


class Overconfident(ClassifierMixin, BaseEstimator):
    """Its order is good, its probabilities are not: worse than the class frequencies by the log loss."""

    classes_ = np.array([0, 1])

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Any) -> Any:
        p = 1 / (1 + np.exp(-8 * np.asarray(X)[:, 0]))
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> Any:
        return self.predict_proba(X).argmax(axis=1)


def test_a_page_by_a_score_is_cautious_by_the_score() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + 1.2 * rng.normal(size=300) > 0).astype(int)
    page = ll.report(Overconfident(), X, y, loss="roc_auc", **OPTIONS)
    texts = opening(page)
    assert roc_auc_score(y, X[:, 0]) > 0.7
    assert page.summary["models"][0]["quality"]["constant"]["low"] > 0  # the log loss is worse than that of a constant
    assert f"its ROC AUC is {roc_auc_score(y, X[:, 0]):.3f}" in texts[0]
    assert "a random ranking has 0.5" in texts[0]
    assert not any("no better" in text for text in texts)
    ranked = ll.report(Overconfident(), rng.normal(size=(300, 2)), y, loss="roc_auc", **OPTIONS)
    assert any("no better than a random ranking" in text for text in opening(ranked))


def test_one_row_that_decides_the_log_loss_is_not_0_percent() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] > 0).astype(int)
    largest = X[:, 0].max()
    y[int(X[:, 0].argmax())] = 0  # to which the model gives 0

    def model(X: Any) -> Any:
        first = np.asarray(X)[:, 0]
        p = np.where(first >= largest, 1.0, 0.5 + 0.4 * np.sign(first))
        return np.column_stack([1 - p, p])

    page = ll.report(model, X, y, loss="log_loss", **OPTIONS)
    assert page.check() == []
    (text,) = (one for one in page.summary["words"]["careful"] if one.claim == "at_the_bound")
    assert text.startswith("For 1 of 200 rows the model gives the true class probability 0.")
    assert "without it the typical probability of the true class would be 90.0%" in text
    assert not any("For 0%" in one for one in page.summary["words"]["careful"])


def test_shares_that_are_compared_look_different() -> None:
    """193 and 191 of 200 are 96.5% and 95.5%: with no digit both were 96%."""
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    y, lowest = np.where(X["a"] > 0, "yes", "no"), np.sort(X["b"])

    def wrong(X: Any, times: int) -> Any:
        answer = np.where(X["a"] > 0, "yes", "no")
        flipped = (X["b"] <= lowest[times - 1]).to_numpy()
        answer[flipped] = np.where(answer[flipped] == "yes", "no", "yes")
        return answer

    page = ll.report(
        lambda X: wrong(X, 7), X, y, models={"other": lambda X: wrong(X, 9)}, loss="zero_one", **OPTIONS
    )  # fmt: skip
    assert "it is right about the class for 96.5%, other for 95.5%; " in opening(page)[0]
    assert shares_in_words(0.965, 0.955, digits=1) == ["96.5%", "95.5%"]


def test_weights_and_groups_are_named_in_the_first_sentence() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=120)
    plain = ll.report(lambda X: X[:, 0], X, y, loss="squared_error", **OPTIONS)
    weighted = ll.report(lambda X: X[:, 0], X, y, loss="squared_error", sample_weight=rng.uniform(1, 3, 120), **OPTIONS)
    assert opening(plain)[0].startswith("On these 120 rows, its predictions")
    assert opening(weighted)[0].startswith("On these 120 rows, weighted, its predictions")
