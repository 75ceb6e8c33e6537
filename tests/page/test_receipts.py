"""Every sentence of the page has a receipt, and each of its lines of Python runs and gives its number."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import losslens as ll
from losslens.page.page import with_minus
from losslens.page.receipts import NUMBERS, Page, in_python, receipts, sentences

N = 300
RNG = np.random.default_rng(3)
X = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N), "c's": RNG.normal(size=N)})
X["twin"] = X["a"] + 0.2 * RNG.normal(size=N)
X["site"] = np.where(RNG.random(N) < 0.5, "Rome", "Oslo")
NOISE = RNG.normal(size=N) * np.where(X["site"] == "Rome", 3.0, 0.5)
Y = X["a"] + X["twin"] + X["b"] * X["c's"] + NOISE
WEIGHT = RNG.integers(1, 4, N)


def additive(X: Any) -> Any:
    return np.asarray(X["a"] + X["twin"] + X["b"] * X["c's"])


def worse(X: Any) -> Any:
    return np.asarray(X["a"])


def of_frame() -> dict[str, Any]:
    return {"model": additive, "X": X, "y": Y, "models": {"worse": worse}, "by": "site", "loss": "squared_error"}


def of_array() -> dict[str, Any]:
    numbers, y = X[["a", "b", "c's", "twin"]].to_numpy(), np.exp(Y / 3)
    return {"model": LinearRegression().fit(numbers[:150], y[:150]), "X": numbers[150:], "y": y[150:]}


def of_classes() -> dict[str, Any]:
    numbers, y = X[["a", "b", "c's", "twin"]], np.where(Y > 1, "tall", np.where(Y < -1, "short", "even"))
    model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(numbers[:150], y[:150])
    return {"model": model, "X": numbers[150:], "y": y[150:]}


def of_weights() -> dict[str, Any]:
    numbers = X[["a", "b", "c's", "twin"]]
    model = RandomForestRegressor(10, random_state=0).fit(numbers[:150], Y[:150])
    return {"model": model, "X": numbers[150:], "y": Y[150:], "sample_weight": WEIGHT[150:], "loss": "absolute_error"}


def of_score() -> dict[str, Any]:
    numbers, y = X[["a", "b", "c's", "twin"]], Y > 0
    return {"model": LogisticRegression().fit(numbers, y), "X": numbers, "y": y, "loss": "roc_auc"}


def of_sample() -> dict[str, Any]:
    numbers = X[["a", "b", "twin"]]
    return {"model": LinearRegression().fit(numbers, Y), "X": numbers, "y": Y, "rows": 120, "loss": "absolute_error"}


def of_nothing() -> dict[str, Any]:
    numbers = X[["a", "b", "twin"]]
    return {"model": LinearRegression().fit(numbers[:100], NOISE[:100]), "X": numbers[100:], "y": NOISE[100:]}


CASES = (of_frame, of_array, of_classes, of_weights, of_score, of_sample, of_nothing)


def explained(case: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    given = case()
    options = {"random_state": 7, "progress": False}
    model, table, y = (given[name] for name in ("model", "X", "y"))
    rest = {name: value for name, value in given.items() if name not in ("model", "X", "y")}
    return given, with_minus(ll.report(model, table, y, **options, **rest).summary)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_every_line_runs_and_gives_its_number(case: Any) -> None:
    given, summary = explained(case)
    found = receipts(summary)
    assert {str(text) for text in sentences(summary)} == set(found)
    compared = 0
    for text, one in found.items():
        lines = one["python"].split("\n")
        ends = len(lines) - len(one["numbers"])
        names = dict(given)
        exec("\n".join(lines[:ends]), names)
        assert one["rows"] == summary["n_explained"]
        for (_, value), line in zip(one["numbers"], lines[ends:], strict=True):
            expression, said = line.split("  # ")
            assert eval(expression, names) == pytest.approx(value, rel=1e-6, abs=1e-9), (text, line)
            assert float(said) == pytest.approx(value, rel=1e-5)
            compared += 1
    assert compared > 8


def test_sentences_of_each_kind_have_numbers() -> None:
    """On these data sets most kinds of sentences are made, and those that state numbers have some behind them."""
    made, empty = set(), set()
    for case in CASES:
        summary = explained(case)[1]
        found = receipts(summary)
        for text in sentences(summary):
            made.add(text.claim)
            if text.claim in NUMBERS and not found[text]["numbers"]:
                empty.add(text.claim)
    assert empty == set()
    assert made >= {
        "how_well", "headline", "no_better", "from_other_rows", "largest_shares", "leads_here", "surely_matter",
        "uncertain", "goes_together", "hardly_occurring", "error_is_larger", "errors_differ", "works_together",
        "helped_rows", "smallest_error", "off_in_a_range",
    }  # fmt: skip


def test_the_number_of_a_receipt_is_that_of_its_sentence() -> None:
    summary = explained(of_frame)[1]
    found = receipts(summary)
    opening = summary["words"]["opening"]
    for text in opening[:2]:
        said = {float(token) for token in re.findall(r"(?<![\w.])\d+\.\d+", text)}
        numbers = [value for _, value in found[str(text)]["numbers"]]
        assert said
        for number in said:
            assert any(abs(number - value) <= 0.006 for value in numbers), (text, numbers)


def test_only_calls_that_a_line_needs_are_shown() -> None:
    calls = {"imp": "imp = first()", "p": "p = second(imp)", "shares": "shares = third()"}
    assert in_python(calls, [("p", "p['imp']", 1.0)]).split("\n")[1:] == [calls["imp"], calls["p"], "p['imp']  # 1"]
    assert in_python(calls, [("share", "shares.x", 0.5)]).split("\n")[1:] == [calls["shares"], "shares.x  # 0.5"]


def test_a_page_without_calls_has_no_receipts(opened: Any) -> None:
    from summaries import made

    assert receipts(made()) == {}
    assert opened(made()).locator("button.receipt").count() == 0
    assert Page(made()).calls == {}


def test_a_reader_opens_and_closes_a_receipt(opened: Any) -> None:
    given = of_frame()
    summary = ll.report(given["model"], X, Y, loss="squared_error", by="site", random_state=7, progress=False).summary
    page = opened(summary)
    assert page.locator(".opening dd button.receipt").count() == len(summary["words"]["opening"])
    button = page.locator(".opening dd button.receipt").nth(1)
    button.focus()
    page.keyboard.press("Enter")
    panel = page.locator(".opening .receipt-of")
    assert button.get_attribute("aria-expanded") == "true"
    text = panel.inner_text()
    assert "import numpy as np, losslens as ll" in text
    assert "Holm" in text or "simultaneous" in text
    assert f"{N}" in text
    page.keyboard.press("Enter")
    assert page.locator(".opening .receipt-of").count() == 0
    page.locator("#findings summary").click()
    assert page.locator("#findings p button.receipt").count() >= len(summary["words"]["sentences"])
    for_whom = page.locator("#for-whom > p button.receipt")
    assert for_whom.count() == len(summary["for_whom"]["sentences"])
