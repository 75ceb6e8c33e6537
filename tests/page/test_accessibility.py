"""The page for readers who see little, or use no mouse: axe-core's rules, the keyboard, and focus that stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import losslens as ll
from browser import members, tick, unfold, violations
from summaries import made, with_findings

Open = Callable[..., Any]
FOCUSED = """(() => {
    let one = document.activeElement;
    while (one.shadowRoot?.activeElement) one = one.shadowRoot.activeElement;
    const text = one.textContent.trim();
    const label = one.getAttribute('aria-label') || one.getAttribute('aria-labelledby') || one.labels?.length;
    const outside = one.getRootNode() === document; // of Bokeh's elements
    return [one.id, one.tagName, one.dataset.key ?? one.dataset.feature ?? text, Boolean(label || text), outside];
})()"""


def focused(page: Any) -> Any:
    return page.evaluate(FOCUSED)


def of_classes() -> Any:
    """A page of the library's own, with three classes, groups and two models."""
    flowers = load_iris(as_frame=True)
    X, y = flowers.data.iloc[::5], flowers.target_names[flowers.target.iloc[::5]]
    first, second = (LogisticRegression(C=C, max_iter=300).fit(X, y) for C in (1, 0.01))
    by = np.where(np.arange(len(X)) % 2, "odd", "even")
    return ll.report(first, X, y, models={"second": second}, by=by, random_state=0).summary


@pytest.mark.parametrize("kind", ["made up", "classes"])
def test_axe_finds_no_violation(opened: Open, kind: str) -> None:
    """As it opens, and on a narrow screen with a feature, a subgroup and every fold open; in the dark other colours."""
    summary = of_classes() if kind == "classes" else with_findings(made(n=16, models=2))
    summary["features"][0]["models"][0]["caution"] = "Few groups."
    page = opened(summary, color_scheme="light")
    if kind == "classes":
        assert page.locator("#quality, #for-whom, #models").count() == 3
        assert violations(page) == []  # of the other page, all folds open, below
    names = page.locator("button.csv").evaluate_all("all => all.map((one) => one.ariaLabel)")
    assert len(names) == len(set(names))
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("button.feature").nth(1).click()
    tick(page, *(("group", "odd") if kind == "classes" else ("c", "kind 1")))
    page.locator("#most button").first.click()
    page.locator("#table-head button").nth(1).click()
    page.set_viewport_size({"width": 400, "height": 800})
    unfold(page)
    page.locator("#python").click()
    page.locator("main details:not(#add)").evaluate_all("all => all.forEach((one) => { one.open = true; })")
    assert violations(page) == []
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    assert violations(page, ["color-contrast"]) == []


def test_focus_stays_where_it_was(opened: Open) -> None:
    page = opened(with_findings(made(n=120)))
    for button in ('#ranking-head button[data-key="pfi"]', '#table-head button[data-key="loss"]'):
        for _ in range(2):
            page.locator(button).focus()
            page.keyboard.press("Enter")
            assert page.locator(f"th[aria-sort]:not([aria-sort=none]) {button.split()[-1]}").count() == 1
            assert focused(page)[2] == button.split('"')[1]
    unfold(page)
    page.locator("#condition-column").select_option(label="c")
    page.locator("#condition-fields input").nth(1).focus()
    page.keyboard.press("Space")
    n = members(page)
    assert n < 120
    page.keyboard.press("Tab")  # on from the box, not from the top of the page
    page.keyboard.press("Space")
    assert n < members(page) < 120
    page.locator("#condition-column").select_option(label="b")
    page.locator("#bound-low").fill("0")
    page.keyboard.press("Enter")
    assert focused(page)[0] == "bound-low"
    page.locator("#chips button").first.focus()
    page.keyboard.press("Enter")  # the chip is gone: its neighbour
    assert focused(page)[:2] == ["", "BUTTON"]
    page.keyboard.press("Enter")
    assert members(page) == 120
    assert page.evaluate("document.getElementById('subgroup').contains(document.activeElement)")
    page.keyboard.press("Escape")
    assert focused(page)[2] == "Choose rows"
    tick(page, "c", "kind 1", "kind 2", "kind 3")
    page.locator("#clear").focus()
    page.keyboard.press("Enter")  # and the button is gone
    assert members(page) == 120
    assert page.evaluate("document.getElementById('subgroup').contains(document.activeElement)")
    page.locator("#table-on").focus()
    for _ in range(2):
        page.keyboard.press("Enter")  # the last page, where it is switched off
    assert focused(page)[0] == "table-back"


def test_everything_is_reached_by_tab_and_has_a_name(opened: Open) -> None:
    """Charts are named images that Tab skips; a feature, a row and the fold open by keyboard alone."""
    page = opened(with_findings(made(n=12)))
    page.locator("button.feature").nth(1).focus()
    page.keyboard.press("Enter")
    assert focused(page)[0] == "feature-name"
    seen = []
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.locator(".skip").focus()
    while (one := focused(page))[1] != "BODY" and len(seen) < 300:
        seen.append(one)
        page.keyboard.press("Tab")
    assert all(named and outside for *_, named, outside in seen)
    wanted = page.locator("main button:visible:enabled").count() + page.locator("header button:visible").count()
    assert sum(tag == "BUTTON" for _, tag, *_ in seen) == wanted
    assert {"theme", "card", "table-filter"} <= {one[0] for one in seen}
    for name in page.locator("[id^=chart-]:visible").evaluate_all("all => all.map((one) => one.ariaLabel)"):
        assert name
