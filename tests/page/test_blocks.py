"""What the page says of features that go together: the sentence that must, and those that must not appear."""

import re
from typing import get_args

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split

import losslens as ll
from browser import members, set_donors, set_range, value
from losslens.page.agreement import contradictions
from losslens.page.blocks import CASES, GoingTogether, goes_together
from losslens.page.leading import leading
from losslens.results.together import Case
from losslens.text import in_digits

OLD = "each alone may look less important"


def page(model, X, y, **options):
    return ll.report(model, X, y, random_state=0, progress=False, shapley=False, interactions=False, **options)


def test_diabetes_two_that_cancel():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = LinearRegression().fit(X, y)
    report = page(model, X, y)
    opening, blocks = " ".join(report.summary["words"]["opening"]), report.summary["blocks"]
    error = np.sqrt(2859.69634758675)
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) == pytest.approx(error)
    first = blocks["blocks"][0]
    assert first["features"] == ["s1", "s2"]
    joint, alone = (f"{np.sqrt(error**2 + first[key]):.1f}" for key in ("pfi", "largest_pfi"))
    said = (
        f"Shuffled together, s1 and s2 raise the error to {joint}, less than s1 alone ({alone}): their effects partly "
        "cancel, so no number of one alone tells what it is worth."
    )
    assert said in opening
    assert OLD not in report.html()
    assert "add up" not in opening
    assert report.check() == []
    assert f"{joint} ({in_digits(first['pfi'])})" in report.html()


def test_breast_cancer_nine_that_stand_in_for_each_other():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    report = page(GradientBoostingClassifier(random_state=0).fit(X, y), X_test, y_test)
    opening = " ".join(report.summary["words"]["opening"])
    assert "mean concave points and 7 more lower the typical probability of the true class to" in opening
    assert "each can stand in for the others" in opening
    assert "not sure that any feature matters" not in report.html()
    assert "cancel" not in opening


def test_diamonds_what_is_shuffled_into_rows_that_exist_nowhere():
    """The weight determines length, width and depth; a forest that was fitted to width and clarity reads the width."""
    rng = np.random.default_rng(0)
    n = 600
    carat = np.exp(0.5 * rng.normal(size=n))
    sizes = carat[:, None] ** (1 / 3) * (1 + 0.01 * rng.normal(size=(n, 3)))
    X = np.column_stack([carat, sizes, rng.integers(0, 3, n)])
    y = 4000 * carat * (1 + 0.1 * X[:, 4]) + 100 * rng.normal(size=n)
    model = RandomForestRegressor(30, max_features=None, random_state=0).fit(X[:300] * [0, 0, 1, 0, 1], y[:300])

    def predict(X):
        return model.predict(X * [0, 0, 1, 0, 1])

    report = page(predict, X[300:], y[300:], loss="squared_error")
    summary = report.summary
    leader = next(text for text in summary["words"]["opening"] if "depends most on x2" in text)
    assert "95% confidence" in leader
    share = summary["features"][0]["extrapolation"]["share"]
    assert share > 0.3
    assert f"(which makes {share:.0%} of the rows unlike any real one)" in leader
    unreal = {one["name"]: one for one in summary["blocks"]["unreal"]}
    assert unreal["x2"]["given"] < 0.2 * unreal["x2"]["pfi"]
    assert unreal["x2"]["block"] == summary["blocks"]["blocks"][0]["pfi"]
    assert "Shuffling one of these features alone creates rows that mostly don't exist" in report.html()


def test_independent_features_have_no_such_section():
    X = np.random.default_rng(0).normal(size=(200, 3))
    report = page(lambda X: X[:, 0] + X[:, 1], X, X[:, 0], loss="squared_error")
    assert report.summary["blocks"] is None
    assert "go together?" not in report.html()
    assert "Shuffled together" not in report.html()


def told(case, loss="squared_error", score=False):
    """The sentence on two columns with a correlation of .9 of which the model makes this."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    X[:, 1] = 0.95 * X[:, 0] + np.sqrt(1 - 0.95**2) * X[:, 1]
    factors = {"opposed": (1, -1), "substitutes": (1, 1), "one carries it": (1, 0), "more than the sum": (1, 0.3)}
    a, b = factors[case]

    def f(X):
        return a * X[:, 0] + b * X[:, 1] + X[:, 2]

    y = f(X) + rng.normal(size=600)
    imp = ll.feature_importance(f, X, y, loss=loss, progress=False)
    together = imp.together(f, X, y)
    assert together["x0, x1"].case == case
    return goes_together(GoingTogether(together), imp, by_score=score)


@pytest.mark.parametrize(
    ("case", "must"),
    [
        ("opposed", "their effects partly cancel, so no number of one alone tells what it is worth"),
        ("substitutes", "each can stand in for the other, so that one alone looks small is no reason to drop both"),
        ("one carries it", "about as much as x0 alone"),
        ("more than the sum", "together they matter more than their single effects add up to"),
    ],
)
def test_each_case_has_its_sentence_and_no_other(case, must):
    text = told(case)
    assert text.startswith("Shuffled together, x0 and x1 raise the error to ")
    assert must in text
    others = {"their effects partly cancel", "stand in", "about as much", "add up to", "overlap"}
    assert sum(words in text for words in others) == 1


def test_the_number_is_the_one_the_reader_is_told():
    assert "raise the root mean squared error to" in told("substitutes", score=True)
    assert "raise the error to" in told("substitutes", "absolute_error")
    X = np.random.default_rng(0).normal(size=(300, 2))
    X[:, 1] = X[:, 0] + 0.2 * X[:, 1]
    y = X[:, 0] > 0
    model = LogisticRegression().fit(X, y)
    for loss, words in (
        ("log_loss", "lower the typical probability"),
        ("zero_one", "raise the share of wrong answers"),
    ):
        imp = ll.feature_importance(model, X, y, loss=loss, progress=False)
        assert words in goes_together(GoingTogether(imp.together(model, X, y)), imp)
    assert goes_together(GoingTogether(), imp) == goes_together(None, imp) == ""


CORRELATED = np.random.default_rng(0).normal(size=(200, 4))
CORRELATED[:, 1] = CORRELATED[:, 0] + 0.2 * CORRELATED[:, 1]
CORRELATED[:, 3] = np.arange(200) % 4


def added(X):
    X = np.asarray(X)
    return X[:, 0] + X[:, 1] + 1.7 * X[:, 2]


@pytest.fixture(scope="module")
def correlated():
    y = added(CORRELATED) + np.random.default_rng(1).normal(size=200)
    return page(added, CORRELATED, y, loss="squared_error", models={"other": lambda X: X[:, 0]})


def joint_by_hand(rows):
    """The mean growth of the squared error of these rows with x0 and x1 from each of all rows, one after another."""
    y = added(CORRELATED) + np.random.default_rng(1).normal(size=200)
    base, grown = (y - added(CORRELATED)) ** 2, []
    for donor in range(200):
        X = CORRELATED.copy()
        X[:, :2] = X[donor, :2]
        grown.append((y - added(X)) ** 2 - base)
    return np.mean(grown, axis=0)[rows].mean()


def test_features_that_go_together_are_one_bar_of_the_first_screen(correlated):
    rows = leading(correlated.summary)["rows"]
    block = correlated.summary["blocks"]["blocks"][0]
    assert [(row["name"], row["block"]) for row in rows] == [
        ("x0 and x1 together", "all"), (rows[1]["name"], "inside"), (rows[2]["name"], "inside"), ("x2", ""), ("x3", "")
    ]  # fmt: skip
    assert rows[0]["value"] == pytest.approx(np.sqrt(correlated.summary["models"][0]["error"] + joint_by_hand(...)))
    assert rows[0]["description"] == "each can stand in for the other" == block["words"]
    assert max(rows[1]["value"], rows[2]["value"]) < rows[3]["value"] < rows[0]["value"]  # alone each looks small
    html = correlated.html()
    assert '<tr data-name="x0 and x1 together" class="all">' in html
    assert "<sup>" not in html.partition("<footer>")[0]
    assert correlated.check() == []


def test_a_single_feature_is_no_block():
    """Independent columns: no bar of features together, and a block whose case is not sure has no words."""
    X = CORRELATED[:, [0, 2]]
    summary = page(lambda X: X[:, 0], X, X[:, 0], loss="squared_error").summary
    assert {row["block"] for row in leading(summary)["rows"]} == {""}
    assert len({*CASES.values()}) == len(CASES)
    assert {*CASES} == {*get_args(Case)}


def test_by_a_score_features_that_go_together_have_a_mark():
    y = added(CORRELATED) > 0
    summary = page(LogisticRegression().fit(CORRELATED, y), CORRELATED, y, loss="roc_auc")
    assert [row["block"] for row in leading(summary.summary)["rows"]] == [""] * 4
    assert summary.html().count("<sup>1</sup>") == 2
    assert "Features with the same small number" in summary.html()


def test_the_importance_of_no_block_is_tested_for_all_blocks(correlated):
    block = correlated.summary["blocks"]["blocks"][0]
    assert block["p_zero"] < 1e-6
    noise = np.random.default_rng(5).normal(size=200)
    null = page(lambda X: 0.1 * (X[:, 0] + X[:, 1]), CORRELATED, noise, loss="squared_error").summary
    (pair,) = null["blocks"]["blocks"]
    assert pair["p_zero"] > 0.05
    assert not leading(null)["rows"][[row["block"] for row in leading(null)["rows"]].index("all")]["sure"]


def test_the_ranking_has_bars_of_features_together(opened, correlated):
    """Sorted, folded by keyboard, single again where a box is unticked, and of the first model only."""
    drawn = opened(correlated.summary)

    def names():
        return drawn.locator("#ranking-body th button").all_inner_texts()

    assert names()[0] == "▾ x0 and x1 together"
    assert {*names()[1:3]} == {"x0", "x1"}
    assert names()[3] == "x2"
    assert "each can stand in for the other" in drawn.locator("tr.block").inner_text()
    assert (
        value(drawn, "joint-0") == correlated.summary["blocks"]["blocks"][0]["pfi"] == pytest.approx(joint_by_hand(...))
    )
    drawn.locator("button.block").focus()
    drawn.keyboard.press("Enter")
    assert names() == ["▸ x0 and x1 together", "x2", "x3"]
    assert drawn.evaluate("document.activeElement.dataset.block") == "0"
    drawn.keyboard.press("Enter")
    drawn.locator('#ranking-head button[data-key="name"]').click()
    assert names()[0] == "▾ x0 and x1 together"
    assert names()[1:] == ["x0", "x1", "x2", "x3"]
    drawn.locator('#ranking-head button[data-key="pfi"]').click()
    drawn.locator("#ranking-together").uncheck()
    assert names()[0] == "x2"
    drawn.locator("#ranking-together").check()
    drawn.locator("input[name=model]").nth(1).check()
    assert "▾ x0 and x1 together" not in names()
    assert "replaced together for this model only" in drawn.locator("#ranking-note").inner_text()


def test_the_number_of_a_subgroup_is_exact_or_absent(opened, correlated):
    drawn = opened(correlated.summary)
    set_range(drawn, "x2", "0", "9")
    rows = np.flatnonzero(CORRELATED[:, 2] >= 0)
    assert members(drawn) == len(rows)
    assert value(drawn, "joint-0") == pytest.approx(joint_by_hand(rows), rel=1e-6)
    assert "exact for the chosen rows, without an interval" in drawn.locator("#ranking-note").inner_text()
    set_donors(drawn, "subset")
    assert drawn.locator('output[data-name="joint-0"]').count() == 0
    assert "not with donors of the chosen rows" in drawn.locator("#ranking-note").inner_text()


@pytest.mark.parametrize(
    ("pattern", "new"),
    [
        (r'(data-claim="goes_together">[^<]*?: )each can stand in for the other', r"\1their effects partly cancel"),
        (r'(data-claim="goes_together">[^<]*? to )[\d.]+', r"\g<1>1.23"),
        (r'(<tr data-name="x0 and x1 together" class="all">.*?<circle class=")sure', r"\1unsure"),
        (r'(<tr data-name="x0 and x1 together" class="all">.*?data-value="[^"]*">)[\d.]+', r"\g<1>1.23"),
    ],
    ids=["case", "number", "mark", "bar"],
)
def test_a_contradiction_about_features_together_is_found(correlated, pattern, new):
    html = correlated.html()
    changed, count = re.subn(pattern, new, html, count=1, flags=re.DOTALL)
    assert count == 1
    assert contradictions(html) == []
    assert contradictions(changed)
