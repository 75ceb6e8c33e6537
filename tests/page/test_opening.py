"""The first screen: its sentences hold for every loss and kind of data, and its picture shows what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score

import losslens as ll
from browser import value
from losslens.page.agreement import Rendered
from losslens.page.blocks import GoingTogether
from losslens.page.leading import leading
from losslens.page.opening import baseline, question
from losslens.page.page import html
from losslens.page.words import words
from losslens.results.plain_error import PlainError, plain_kind
from losslens.results.ranking import Ranking
from losslens.results.ranking import tested_features as of_all
from losslens.uncertainty.inference import Estimates
from losslens.verbs.report import target_in_words
from summaries import made

Open = Callable[..., Any]
N = 150
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
Y = 3 * X[:, 0] + X[:, 1] + RNG.normal(size=N)


def model(X: Any) -> Any:
    return 3 * np.asarray(X)[:, 0] + np.asarray(X)[:, 1]


def explained(model: Any = model, X: Any = X, y: Any = Y, loss: Any = "squared_error", **options: Any) -> Any:
    return ll.feature_importance(model, X, y, loss=loss, random_state=0, **options)


def said(*imps: Any, target: str = "height", n_given: int | None = None, blocks: Any = None) -> list[str]:
    models = {f"m{k}" if k else "this model": imp for k, imp in enumerate(imps)}
    first, n = imps[0], len(imps[0]._first.at)
    ranking = Ranking.of(first, first.extrapolation, baseline(first))
    made = words(models, {}, ranking, (np.nan, np.nan), n_given or n, blocks, target)
    found: list[str] = made["opening"]
    assert 2 <= len(found) <= 3
    return found


def test_squared_errors_are_told_in_units_of_the_target() -> None:
    """Root of the mean squared error; always the average has the standard deviation of y."""
    imp = explained()
    error, spread = np.sqrt(np.mean((Y - model(X)) ** 2)), Y.std()
    first, second = said(imp)  # what is about every page is no reason to be careful
    start = f"On these 150 rows, its predictions of height are off by about {error:.2f} (root mean squared error)"
    assert first == f"{start}; always predicting the average would be off by {spread:.2f}."
    after = np.sqrt(np.mean([(Y - model(np.column_stack([np.roll(X[:, 0], k), X[:, 1:]]))) ** 2 for k in range(N)]))
    assert second == (
        f"It depends most on x0: when x0 is shuffled between rows, its predictions are off by {after:.2f} instead of "
        f"{error:.2f}, and no other feature matters as much (95% confidence)."
    )
    assert said(imp, n_given=900)[0].startswith("On a random sample of 150 of 900 rows, its")


def test_a_model_that_is_no_better_than_the_average_is_told_first() -> None:
    flat = said(explained(lambda X: np.full(len(X), Y.mean())))
    assert flat[0].endswith(f"always predicting the average would be off by {Y.std():.2f} as well.")
    assert flat[1] == (  # not what matters to it
        "On these rows the model does no better than always predicting the average, so this ranking may tell you "
        "nothing about height."
    )
    wrong = said(explained(lambda X: -model(X)))
    assert wrong[0].endswith(f"always predicting the average would be off by {Y.std():.2f}, less than the model.")
    assert wrong[1].startswith("On these rows the model does no better")
    constant = said(explained(y=np.ones(N)))[0]
    assert constant.endswith("always predicting the average would be off by 0.00, less than the model.")
    perfect = said(explained(y=model(X)))
    assert "are off by about 0 (root" in perfect[0].replace("0.00", "0")
    assert "instead of 0" in perfect[1]


def test_a_model_that_may_be_no_better_than_the_average_is_told_first() -> None:
    """A tenth of the noise is predicted: 1 - 0.9² is 0.19 of the squares, with a standard error of about as much."""
    y = np.random.default_rng(3).normal(size=20)
    rows = np.column_stack([0.1 * y, X[:20]])
    _, matters, told = said(explained(lambda X: X[:, 0] + 0.1 * X[:, 1], X=rows, y=y))
    assert "when x" in matters
    assert told.startswith("On new rows the model may do no better than always predicting the average, so")
    assert told.endswith("little about height.")
    assert len(said(explained())) == 2


def test_absolute_errors_are_means() -> None:
    first, second = said(explained(loss="absolute_error"))
    error = np.mean(np.abs(Y - model(X)))
    assert f"are off by about {error:.2f} on average; always predicting the median would" in first
    assert f"instead of {error:.2f}, and no" in second


def labels(X: Any) -> Any:
    return np.where(np.asarray(X)[:, 0] > 0, "yes", "no")


CLASSES = np.where(X[:, 0] + 0.5 * RNG.normal(size=N) > -0.8, "yes", "no")


def test_classes_are_told_by_how_often_they_are_right() -> None:
    fitted = LogisticRegression().fit(X, CLASSES)
    first, second, *_ = said(ll.feature_importance(fitted, X, CLASSES), target="illness")
    right, base = accuracy_score(CLASSES, fitted.predict(X)), np.mean(CLASSES == "yes")
    start = f"On these 150 rows, it is right about illness for {right:.1%}; "
    imp = ll.feature_importance(fitted, X, CLASSES)
    typical = [float(np.exp(-loss)) for loss in (imp.error + imp["x0"].pfi, imp.error, imp.error_constant)]
    assert first == (
        f"{start}always answering “yes” would be right for {base:.1%}. It typically gives the true class a probability "
        f"of {typical[1]:.1%}; always predicting the class frequencies gives {typical[2]:.1%}."
    )
    assert f"it typically gives the true class a probability of {typical[0]:.1%} instead of {typical[1]:.1%}" in second
    unnamed = said(ll.feature_importance(fitted, X, CLASSES, loss="brier"), target="the target")[0]
    assert ", it is right about the class for" in unnamed
    assert ". Its probabilities are off by " in unnamed


def test_a_gain_that_could_be_chance_is_said_to_be() -> None:
    """Of 100 rows it is right for 3 where the same for all is wrong, and wrong for 1 where that is right: p = 5/16."""
    y = np.array(["no"] * 60 + ["yes"] * 40)

    def answers(wrong: int, better: int) -> Any:
        told = np.array(["no"] * 100, object)
        told[:wrong], told[60 : 60 + better] = "yes", "yes"
        return lambda rows: told[np.asarray(rows)[:, 0].astype(int)]

    rows = np.column_stack([np.arange(100.0), np.zeros(100)])
    chance, sure = (said(explained(answers(1, k), X=rows, y=y, loss="zero_one"))[0] for k in (3, 30))
    assert chance.endswith("right for 60.0%, and the difference could be chance.")
    assert sure.endswith("right for 60.0%.")


def test_probabilities_that_are_no_better_are_named() -> None:
    """Answers may be right more often where probabilities are worse: 8 of 150 with 1e-7 cost 8 log(1e7) / 150 > 0.8."""
    y = (CLASSES == "yes").astype(int)
    p = np.where((y == 1) ^ (np.arange(N) < 8), 1 - 1e-7, 1e-7)
    rows = np.column_stack([np.arange(N), np.zeros(N)])

    def predict(X: Any) -> Any:
        own = p[np.asarray(X)[:, 0].astype(int)]
        return np.column_stack([1 - own, own])

    first, second, *_ = said(explained(predict, X=rows, y=y, loss="log_loss"))
    assert "right about height for 94.7%; always answering" in first
    assert first.endswith("%, no worse.")
    assert second.startswith("On these rows the model's probabilities are no better than always predicting the class")


def test_what_is_sure_has_a_test_and_an_interval_on_its_side() -> None:
    """A one-sided test at 5% ends at 1.64 standard errors, an interval at 1.96: at 1.8 the two differ."""
    estimates = Estimates.of_covariance(("x0", "x1"), np.array([1.8, 5.0]), np.eye(2), 1e6)
    ranking = Ranking(
        ("x1", "x0"), {"x0": 1.8, "x1": 5.0}, PlainError("root", "squared error", 1.0), estimates, frozenset()
    )
    assert ranking.p["x0"] < 0.05
    assert ranking.sure == ["x1"]
    assert "uncertain whether the error grows on new rows with x0" in " ".join(of_all(ranking))
    summary = made()
    for low, sure in ((-0.01, False), (0.01, True)):
        summary["features"][0]["models"][0] |= {"p": 0.04, "low": low}
        assert leading(summary)["rows"][0]["sure"] is sure
        page = Rendered.of(html(summary))
        assert page.is_sure(page.ranked[0]) is sure


def test_labels_are_right_or_wrong() -> None:
    imp = explained(lambda X: labels(np.asarray(X) + 0.8), y=CLASSES, loss="zero_one")
    first, second = said(imp)
    right, base = np.mean(labels(X + 0.8) == CLASSES), np.mean(CLASSES == "yes")
    more = ", more often" if base > right else ""
    assert first == (
        f"On these 150 rows, it is right about height for {right:.1%}; always answering “yes” would be right for "
        f"{base:.1%}{more}."
    )
    assert f"its answer is wrong for {1 - right + imp['x0'].pfi:.1%} instead of {1 - right:.1%} of the rows" in second
    often = said(explained(lambda X: np.full(len(X), "yes"), y=CLASSES, loss="zero_one"))[0]
    assert often.endswith(f"about height for {base:.1%}; always answering “yes” would be right for {base:.1%} too.")


def test_other_losses_are_told_by_their_means() -> None:
    y = np.exp(Y / 3)
    deviance = said(explained(lambda X: np.exp(model(X) / 3), y=y, loss="poisson"))
    assert "its Poisson deviance is 0." in deviance[0]
    assert "(smaller is better); always predicting the average would have 1." in deviance[0]
    assert "its error (Poisson deviance) is " in deviance[1]
    assert " times as large, and" in deviance[1]
    own = said(explained(loss=lambda y, f: np.abs(y - f) - 10))
    assert own[0].endswith("; what the simplest prediction would have is not known for this loss.")
    assert " is -9.198 (smaller" in own[0]
    assert "its error (custom loss) is -6.78" in own[1]
    assert " instead of -9.2" in own[1]
    exact = said(explained(lambda X: np.exp(model(X)), y=np.exp(model(X)), loss="poisson"))
    assert " instead of 0" in exact[1]  # a multiple of 0 is none


def test_several_models_are_told_beside_the_first() -> None:
    zero = explained(lambda X: 0 * X[:, 0])
    first = said(explained(), zero, explained(lambda X: X[:, 0]))[0]
    for error in (Y**2, (Y - X[:, 0]) ** 2):
        assert f" by {np.sqrt(error.mean()):.2f}" in first
    assert ", those of m1 by " in first
    fitted = LogisticRegression().fit(X, CLASSES)
    two = said(*(ll.feature_importance(fitted, X, CLASSES) for _ in range(2)))[0]
    assert ", m1 for " in two
    four = said(*(explained(loss="huber") for _ in range(5)))[0]
    assert " and 1 more; always" in four


def test_what_is_not_sure_is_said_so() -> None:
    alike = said(explained(lambda X: X[:, 0] + X[:, 1], y=X[:, 0] + X[:, 1] + Y / 9))[1]
    assert alike.startswith("On these rows it depends most on x")
    assert alike.endswith(("; on new rows x0 may matter more.", "; on new rows x1 may matter more."))
    assert "x2" not in alike  # as x3: that they don't matter is known
    flag = X.copy()
    flag[:, 1] = np.arange(N) == 7  # without this one row x1 has no importance
    rare = said(explained(lambda X: X[:, 0] + 60 * X[:, 1], X=flag, y=flag[:, 0] + 60 * flag[:, 1] + Y / 9))[1]
    assert rare.endswith("; on new rows it may make no difference and x0 may matter more.")
    noise = said(explained(y=np.random.default_rng(5).normal(size=N)))[1]
    assert noise.startswith("On these rows the model does no better than always predicting the average")
    assert "surely does better" not in noise
    ends = np.argsort(Y)[[0, -1]]
    few = said(explained(X=X[ends], y=Y[ends]))
    assert few[1].endswith("; how surely is not known.")
    assert said(explained(X=X[:99], y=Y[:99]))[2].startswith("99 rows are few")
    alone = said(explained(features=["x0"]))[1]
    assert alone.startswith("When x0 is shuffled between rows, its predictions are off by ")
    assert alone.endswith("; on new rows the error grows, too (test at 5%).")


def test_no_single_feature_is_not_nothing() -> None:
    """Twelve copies of one column, averaged: each alone is a twelfth, and a few rows decide it."""
    rng = np.random.default_rng(4)
    a = rng.normal(size=60)
    copies, y = np.tile(a[:, None], 12) + 1e-3 * rng.normal(size=(60, 12)), a + 0.9 * rng.standard_t(2, size=60)
    told = said(explained(lambda X: X.mean(axis=1), X=copies, y=y))
    assert told[1].startswith("No single feature surely matters: when x")
    assert told[1].endswith(
        "But the model surely does better than always predicting the average: its features matter together."
    )


def test_related_features_and_rows_unlike_real_ones_are_a_reason_for_care() -> None:
    tied = np.column_stack([X[:, 0], X[:, 0] + 0.05 * X[:, 1], X[:, 2]])
    imp = explained(lambda X: X[:, 0] + X[:, 1] + X[:, 2], X=tied, y=tied.sum(axis=1) + Y / 9)
    blocks = GoingTogether(imp.together(lambda X: X[:, 0] + X[:, 1] + X[:, 2], tied, tied.sum(axis=1) + Y / 9))
    assert said(imp, blocks=blocks)[2].startswith("Shuffled together, x0 and x1 raise the error to ")
    assert said(imp)[2].startswith(
        "Shuffling creates unrealistic rows, on which the numbers partly rest. Their share by feature: x"
    )
    share = imp.extrapolation["x1"].percent
    assert f" (which makes {share} of the rows unlike any real one), its" in said(imp)[1]
    independent = explained()
    assert "unlike any real" not in " ".join(said(independent))


def test_long_names_are_cut() -> None:
    long = pd.DataFrame(X, columns=[f"{'long ' * 60}{j}" for j in range(4)])
    found = said(explained(X=long), target="target " * 50)
    assert max(len(text) for text in found) < 330
    assert "…ong long long long long long long 0: when long" in found[1]


def test_the_target_is_named_by_the_reader_or_its_series() -> None:
    assert target_in_words(None, pd.Series([1.0], name="price")) == "price"
    for name in (None, "", "target", "y", 7):
        assert target_in_words(None, pd.Series([1.0], name=name)) == "the target"
    assert target_in_words(None, pd.Series([1.0], name="size"), ["size", "age"]) == "the target"  # made of a column
    assert target_in_words("bikes per hour", pd.Series([1.0], name="cnt")) == "bikes per hour"
    for wrong in ("", "  ", 7):
        with pytest.raises(ValueError, match="target_name is text"):
            target_in_words(wrong, [1.0])  # type: ignore[arg-type]
    page = ll.report(model, X, pd.Series(Y, name="height"), loss="squared_error", shapley=False, interactions=False)
    assert page.summary["words"]["question"] == question("height") == "What does this model need to predict height?"
    assert "its predictions of height are off" in page.summary["words"]["opening"][0]
    assert page.summary["target"]["name"] == "height"


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", lambda y, f: (y - f) ** 2])
def test_the_picture_has_the_numbers_of_the_importances(loss: Any) -> None:
    imp = explained(loss=loss)
    page = ll.report(model, X, Y, loss=loss, shapley=False, interactions=False, random_state=0)
    picture = leading(page.summary)
    told = PlainError(plain_kind(imp.loss), imp.title, imp.error)
    assert [row["name"] for row in picture["rows"]] == [one.name for one in imp._ranked]
    for row in picture["rows"]:
        one = imp[row["name"]]
        assert row["value"] == pytest.approx(told.after(one.pfi))
        assert row["sure"] == (row["p"] <= 0.05)
        ends = [float(row["at"][key].rstrip("%")) for key in ("low", "value", "high")]
        assert 1 <= ends[0] <= ends[1] <= ends[2] <= 99
        assert float(picture["now_at"].rstrip("%")) <= ends[1] or one.pfi < 0


def test_a_picture_without_intervals_or_differences() -> None:
    summary = made()
    for feature in summary["features"]:
        feature["models"][0] |= {"pfi": 0.0, "low": np.nan, "high": None, "p": np.nan}
    picture = leading(summary)
    assert {row["at"]["value"] for row in picture["rows"]} == {picture["now_at"]} == {"1.00%"}
    assert not any(row["sure"] or row["between"] or row["at"]["low"] for row in picture["rows"])


@pytest.mark.parametrize("width", [1280, 400])
def test_the_first_screen_is_one_screen(opened: Open, width: int) -> None:
    """Question, three sentences and eight features; the controls are not on it, and nothing is wider than it."""
    names = (*(f"feature {k}" for k in range(11)), "a name of many words and letters that is long")
    summary = made(n=120, names=names)
    summary["words"]["opening"] = [" ".join(["word"] * 26)] * 3
    page = opened(summary, viewport={"width": width, "height": 800})
    assert page.locator("table.leading").bounding_box()["height"] > 200
    assert page.locator("button.leading").count() == 8
    bottom = page.locator("table.leading").bounding_box()
    assert bottom["y"] + bottom["height"] <= 800
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    first = summary["features"][0]["models"][0]
    assert value(page, "leading-0") == pytest.approx(np.sqrt(summary["models"][0]["error"] + first["pfi"]))
    page.locator("button.leading").nth(3).click()
    assert page.locator("#feature-name").inner_text() == summary["features"][3]["name"]
    assert page.evaluate("document.activeElement.id") == "feature-name"
