"""A real browser for the tests of pages: Debian's chromium, through playwright."""

from __future__ import annotations

import json
import os
import shutil
import urllib.parse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

from losslens.page.page import html

# Pages of tests live for seconds: to optimise their scripts takes longer than it saves.
FLAGS = ["--no-sandbox", "--disable-gpu", "--js-flags=--no-opt"]
PATIENCE = 120_000  # milliseconds until a page counts as hanging: how busy the machine is says nothing about the page
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str | None:
    """Where the browser is: what LOSSLENS_BROWSER says, or the first of the usual names on the path."""
    said = os.environ.get("LOSSLENS_BROWSER")
    return said or next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def started() -> Iterator[Any]:
    """A running browser; without one, the tests that ask are skipped, and say so loudly."""
    path = executable()
    if path is None:
        _skip("no chromium on the path: `make browser` installs it on Debian, or set LOSSLENS_BROWSER")
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        _skip("playwright is not installed")

    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        except Error as error:
            _skip(f"{path} does not start: {str(error).splitlines()[0]}")
        try:
            yield browser
        finally:
            browser.close()


def _skip(reason: str) -> NoReturn:
    line = "!" * 80
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # seen in the summary, not an error
        warnings.warn(f"\n{line}\nTHE REPORT WAS NOT TESTED IN A BROWSER: {reason}\n{line}", stacklevel=2)
    pytest.skip(f"THE REPORT WAS NOT TESTED IN A BROWSER: {reason}")


USUAL = {"viewport": {"width": 1200, "height": 900}, "reduced_motion": "reduce"}


@dataclass
class Reader:
    """Opens pages, and hears what they complain about and whom they ask.

    Where there is a tab, pages that need no browser context of their own open in it one after another: it has Bokeh's
    script compiled, which is a third of the work of opening a page.
    """

    chromium: Any
    folder: Path
    tab: Any = None
    pages: list[Any] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, summary: dict[str, Any], *, watched: bool = True, **options: Any) -> Any:
        path = self.folder / f"page{len(self.pages)}.html"
        path.write_text(html(summary), encoding="utf-8")
        if self.tab and watched and not options.keys() - {"viewport"}:
            page = self.tab
            page.set_viewport_size((USUAL | options)["viewport"])
            page.mouse.move(0, 0)
        else:
            page = self.chromium.new_context(**(USUAL | options)).new_page()
        page.set_default_timeout(PATIENCE)
        if watched and page not in self.pages:
            for event, heard in self._ears.items():
                page.on(event, heard)
        self.pages.append(page)
        page.goto(path.as_uri())
        page.locator("html[data-ready]").wait_for()
        page.evaluate(LAID_OUT)
        return page

    @property
    def _ears(self) -> dict[str, Any]:
        return {"console": self._heard, "pageerror": self._failed, "request": self._asked}

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _failed(self, error: Any) -> None:
        self.complaints.append(str(error))

    def _asked(self, request: Any) -> None:
        self.requests.append(request.url)

    def close(self) -> None:
        """At the end nothing has been complained about, and nothing asked for but the files themselves."""
        for page in set(self.pages):
            if page is self.tab:
                page.evaluate("sessionStorage.clear()")  # the theme, if one was chosen
                for event, heard in self._ears.items():
                    page.remove_listener(event, heard)
            else:
                page.context.close()
        assert self.complaints == [], self.complaints
        assert [url for url in self.requests if not url.startswith(self.folder.as_uri())] == []


# What is far below the window is laid out when it comes into view; before, it has no text.
LAID_OUT = "() => { document.getElementById('observations')?.style.setProperty('content-visibility', 'visible'); }"

BACK = """() => {
    const shown = () => [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility()).map((one) =>
        [...one.childNodes].map((part) => (part.nodeType === 3 ? part.data : "")) + one.value + one.checked).join();
    window.asOpened ??= shown();
    document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" })); // the row that was picked
    history.replaceState(null, "", location.pathname);
    dispatchEvent(new PopStateEvent("popstate"));
    for (const fold of document.querySelectorAll("details")) fold.open = false;
    document.activeElement.blur();
    scrollTo(0, 0);
    return shown() === window.asOpened;
}"""


def as_opened(page: Any) -> Any:
    """The page as it was before the first test: its state is in the address, and a reload takes what else is left."""
    page.set_viewport_size(USUAL["viewport"])
    page.mouse.move(2, 2)
    if not page.evaluate(BACK):
        page.reload()
        page.locator("html[data-ready]").wait_for()
    return page


def numbers_at(page: Any, states: list[dict[str, Any]], names: list[str]) -> list[dict[str, dict[str, str]]]:
    """What outputs of these names hold (value, low, high, ...) in states of the page, and how many rows (n) are in the
    subgroup. A state is what an address says: feature, model, donors, and `where`, one condition."""
    addresses = [
        urllib.parse.urlencode(state | ({"where": json.dumps(state["where"])} if "where" in state else {}))
        for state in states
    ]
    return page.evaluate(
        """async ([addresses, names]) => {
            const shown = [];
            for (const address of addresses) {
                history.pushState(null, "", `#${address}`);
                dispatchEvent(new PopStateEvent("popstate"));
                const told = (name) => document.querySelector(`output[data-name="${name}"]`).dataset;
                const n = document.getElementById("subgroup-words").dataset.n;
                shown.push({ n, ...Object.fromEntries(names.map((name) => [name, { ...told(name) }])) });
                await new Promise((next) => setTimeout(next)); // as for a reader: a title is made before the next one
            }
            return shown;
        }""",
        [addresses, names],
    )


def value(page: Any, name: str) -> float:
    """A number that is shown, in full."""
    return float(page.locator(f'output[data-name="{name}"]').first.get_attribute("data-value"))


def members(page: Any) -> int:
    """How many rows the subgroup has."""
    return int(page.locator("#subgroup-words").get_attribute("data-n"))


def brush(page: Any, chart: str, start: float, end: float) -> None:
    """Drags over a share of the chart, from left to right."""
    page.locator(chart).scroll_into_view_if_needed()
    box = page.locator(chart).bounding_box()
    left, width, y = box["x"] + 70, box["width"] - 90, box["y"] + box["height"] / 3
    page.mouse.move(left + start * width, y)
    page.mouse.down()
    page.mouse.move(left + (start + end) / 2 * width, y + 3)
    page.mouse.move(left + end * width, y + 6)
    page.mouse.up()
    page.locator("#clear:enabled").wait_for()


def unfold(page: Any) -> None:
    """Opens the fold of the bar, with the conditions and the donors."""
    if page.locator("#add").get_attribute("open") is None:
        page.locator("#add > summary").click()


def set_range(page: Any, column: str, low: str, high: str) -> None:
    unfold(page)
    page.locator("#condition-column").select_option(label=column)
    page.locator("#bound-low").fill(low)
    page.locator("#bound-high").fill(high)
    page.locator("#condition-fields button").click()
    page.locator("#done").click()


def tick(page: Any, column: str, *labels: str) -> None:
    """Ticks boxes of a column."""
    unfold(page)
    page.locator("#condition-column").select_option(label=column)
    for label in labels:
        page.locator(f"#condition-fields input[value={json.dumps(label)}]").check()
    page.locator("#done").click()


def set_donors(page: Any, donors: str) -> None:
    """Values that replace a feature's: of all rows (given), or of the chosen ones (subset)."""
    unfold(page)
    page.locator(f'input[name="donors"][value="{donors}"]').check()
    page.locator("#done").click()


def violations(page: Any, rules: list[str] | None = None) -> list[str]:
    """What axe-core finds wrong with the page as it is now, by all rules or by these: rule and element."""
    import axe_playwright_python

    source = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    if not page.evaluate("'axe' in window"):
        page.evaluate(source)  # not as a script of the page, which its policy forbids
    asked = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
    found = page.evaluate(f"axe.run(document, {json.dumps(asked)})")["violations"]
    return [f"{rule['id']}: {node['html'][:150]}" for rule in found for node in rule["nodes"]]
