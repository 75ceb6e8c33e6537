"""One self-contained page about a model: results as a plain dict, and the dict as HTML."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from losslens.results.files import atomic_file

HEIGHT = (
    "min(85vh, 50rem)"  # of the page in a notebook, which scrolls by itself: less than a window, and than printed paper
)


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A report on a model: `summary` is what the page shows, as plain data.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> page = ll.report(lambda X: X[:, 0], X, 2 * X[:, 0], loss="squared_error", interactions=False, random_state=0)
    >>> "<html" in page.html(), page.summary["words"]["question"]
    (True, 'What does this model need to predict the target?')
    """

    summary: dict[str, Any]  #: what the page shows, as plain data

    def json(self) -> str:
        """The data of the page, without the page."""
        return json.dumps(_plain(self.summary), allow_nan=False)

    def html(self) -> str:
        """The page: one self-contained file, which loads nothing from a network."""
        from losslens.page.page import html
        from losslens.page.story import story_html

        return html(self.summary, story_html(self.summary))

    def check(self) -> list[str]:
        """What contradicts itself on the page, in words: sentences, marks and tables, as they are rendered.

        A page that agrees gives an empty list: every number in a sentence stands in a table and equals it as shown,
        and what is said of a feature is what its mark and its p-value say.

        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> page = ll.report(lambda X: X[:, 0], X, 2 * X[:, 0], loss="squared_error", interactions=False)
        >>> page.check()
        []
        """
        from losslens.page.agreement import contradictions
        from losslens.page.page import html

        return contradictions(html(self.summary))

    def save(self, path: str | Path) -> None:
        """Write the page to `path`, completely or not at all."""
        page = self.html().encode()
        with atomic_file(path) as file:
            file.write(page)

    def story(self, path: str | Path) -> None:
        """Write the report's first screen as one sheet: a headline, three pictures that make a claim, and a caveat.

        Parameters
        ----------
        path
            Where: an ``.html``, a ``.pdf`` (A4) or a ``.png`` file, with the same words and pictures.

        Examples
        --------
        >>> import tempfile, numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(60, 2))
        >>> page = ll.report(lambda X: X[:, 0], X, X[:, 0] + 1, loss="squared_error", interactions=False)
        >>> page.story(tempfile.mkdtemp() + "/story.png")
        """
        from losslens.page.story import save_story

        save_story(self.summary, path)

    def _repr_html_(self) -> str:
        """In a notebook: the page in its own frame, so that styles and scripts don't interfere."""
        look = f"display: block; width: 100%; height: {HEIGHT}; border: 1px solid #8888; resize: vertical"
        frame = f'<iframe style="{look}" title="losslens report" srcdoc="{escape(self.html())}"></iframe>'
        title = f"<b>Report: {escape(str(self.summary['title']))}</b>"
        to_file = '<small>The same page as a file: <code>.save("report.html")</code></small>'
        return f'<details open><summary style="cursor: pointer">{title}</summary>{frame}{to_file}</details>'

    def __repr__(self) -> str:
        about = self.summary
        rows = f"{about['n_explained']:,} rows"
        return f"<Report {about['title']!r}: {len(about['features'])} features, {rows}; .save(path)>"


def _plain(thing: Any) -> Any:
    """Arrays as lists; numbers that are not finite as None."""
    if isinstance(thing, dict):
        return {str(key): _plain(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_plain(value) for value in thing]
    if isinstance(thing, np.ndarray):
        return [_plain(value) for value in thing.tolist()]
    if isinstance(thing, np.generic):
        thing = thing.item()
    if isinstance(thing, float) and not np.isfinite(thing):
        return None
    return thing if thing is None or isinstance(thing, (bool, int, float, str)) else str(thing)
