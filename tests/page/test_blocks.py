"""What the page says of features that go together: the sentence that must, and those that must not appear."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split

import losslens as ll
from losslens.page.blocks import GoingTogether, goes_together
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
        f"Shuffled together, s1 and s2 raise the error to {joint}, less than s1 alone ({alone}): their effects cancel."
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
        ("opposed", "their effects cancel"),
        ("substitutes", "each can stand in for the others"),
        ("one carries it", "about as much as x0 alone"),
        ("more than the sum", "together they matter more than their single effects add up to"),
    ],
)
def test_each_case_has_its_sentence_and_no_other(case, must):
    text = told(case)
    assert text.startswith("Shuffled together, x0 and x1 raise the error to ")
    assert must in text
    others = {"their effects cancel", "stand in", "about as much", "add up to", "overlap"}
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


def test_the_first_screen_marks_features_that_go_together():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[:, 1] = X[:, 0] + 0.2 * X[:, 1]
    html = page(lambda X: X[:, 0] + X[:, 2], X, X[:, 0] + X[:, 2], loss="squared_error").html()
    assert html.count("<sup>1</sup>") == 2
    assert "Features with the same small number" in html
    independent = page(lambda X: X[:, 0], X[:, [0, 2]], X[:, 0], loss="squared_error").html()
    assert "<sup>" not in independent.partition("<footer>")[0]
