"""A progress bar in terminals and notebooks; none when stderr is redirected."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from html import escape
from importlib import import_module
from threading import Lock, Timer
from typing import Any, Protocol

from losslens.text import duration

PREPARING = "preparing the exact engine"
_LOCK = Lock()
DELAY = 0.7  # seconds before a bar appears: short runs show none
REFRESH = 0.2  # seconds between two drawings of a bar in a notebook


class Tick(Protocol):
    """Called with the number of rows that were just predicted."""

    def __call__(self, rows: int, /) -> None:
        """`rows` more are done."""


def silent(rows: int, /) -> None:
    """A tick that does nothing."""


class ProgressBar:
    """A tick that also shows a note and changes the total; drawn again at most every `REFRESH` seconds."""

    def __init__(self, total: int, title: str, unit: str, draw: Callable[[ProgressBar], None] | None = None) -> None:
        self.total, self.title, self.unit, self.draw = total, title, unit, draw
        self.done, self.words, self.lock = 0, "", Lock()
        self.started = self.drawn = time.monotonic()

    @property
    def is_shown(self) -> bool:
        """Whether it is displayed."""
        return self.draw is not None

    def __call__(self, rows: int, /) -> None:
        """`rows` more are done."""
        if self.draw is None:
            return
        now = time.monotonic()
        with self.lock:
            self.done += rows
            due = now - self.started > DELAY and now - self.drawn > min(REFRESH, DELAY)
            if due:
                self.drawn = now
        if due:
            self.draw(self)

    def note(self, words: str) -> None:
        """Show this text beside the bar."""
        self.words = words

    def set_total(self, total: int) -> None:
        """Change the total."""
        self.total = total


_watched = 0  # how many bars and titles are open whose stderr is a terminal or a notebook's


@contextmanager
def _watching(progress: bool | None) -> Iterator[None]:
    """While this is open, `tell` writes; of the whole process, since kernels run in threads of their own."""
    global _watched  # noqa: PLW0603
    mine = progress is not False and (sys.stderr.isatty() or _in_notebook())
    with _LOCK:
        _watched += mine
    try:
        yield
    finally:
        with _LOCK:
            _watched -= mine


def tell(line: str) -> None:
    """Write a line to stderr during a call with progress, where stderr is a terminal or a notebook."""
    if _watched:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def _is_shown(progress: bool | None) -> bool:
    """Whether to show progress; None: if stderr is a terminal, or in a notebook."""
    return sys.stderr.isatty() or _in_notebook() if progress is None else progress


@contextmanager
def waiting(title: str, progress: bool | None) -> Iterator[None]:
    """Show a title while something runs, once it has taken a while."""
    with _watching(progress), ExitStack() as closing:
        if _is_shown(progress):
            timer = Timer(max(DELAY, 0), _show_title, (title, closing))
            timer.start()
            closing.callback(timer.join)
            closing.callback(timer.cancel)  # the first to be called
        yield


def _show_title(title: str, closing: ExitStack) -> None:
    if _in_notebook():
        _notebook_line(closing)(f"{escape(title)} …", title)
        return
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        closing.enter_context(console.status(title))
    else:
        console.print(title)  # one line


@contextmanager
def bar(total: int, title: str, progress: bool | None, unit: str = "predictions") -> Iterator[ProgressBar]:
    """Show how many of `total` predictions are made; ``progress=None``: if stderr is a terminal, or in a notebook."""
    shown = _is_shown(progress)
    with _watching(progress), ExitStack() as closing:
        draw = None if not shown else _notebook(closing) if _in_notebook() else _terminal(closing)
        yield ProgressBar(total, title, unit, draw)


def _terminal(closing: ExitStack) -> Callable[[ProgressBar], None]:
    """Draws a bar in a terminal, from the first time on until it is closed."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=6)),  # narrower than the text if need be
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} {task.fields[unit]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[words]}"),
        console=Console(stderr=True),
        transient=sys.stderr.isatty(),  # without a terminal the last line stays
        expand=True,
    )

    def draw(bar: ProgressBar) -> None:
        if not shown.tasks:
            shown.add_task(bar.title, total=bar.total, unit=bar.unit, words="")
            closing.enter_context(shown)
            closing.callback(draw, bar)
        shown.update(shown.task_ids[0], completed=bar.done, total=bar.total, words=bar.words)

    return draw


def _notebook(closing: ExitStack) -> Callable[[ProgressBar], None]:
    """Draws a bar as HTML of one line, which needs no widgets; rich's bar would."""
    show = _notebook_line(closing)

    def draw(bar: ProgressBar) -> None:
        done, total, took = min(bar.done, bar.total), max(bar.total, 1), time.monotonic() - bar.started
        left = took * (total - done) / done if done else 0.0
        count, rest = f"{done:,} of {bar.total:,} {bar.unit}", f"{duration(left)} left" if left >= 1 else ""
        text = ", ".join(filter(None, [count, rest, bar.words]))
        meter = f'<progress value="{done}" max="{total}" style="width: 12em; vertical-align: middle"></progress>'
        style = "white-space: nowrap; overflow: hidden; text-overflow: ellipsis"
        show(f'<div style="{style}">{escape(bar.title)} {meter} {escape(text)}</div>', f"{bar.title}: {text}")

    return draw


def _notebook_line(closing: ExitStack) -> Callable[[str, str], None]:
    """Shows a line in the output of a cell, HTML and plain, in the place of the last one; it is empty at the end."""
    places: list[Any] = []  # IPython's handle of it

    def show(html: str, text: str) -> None:
        content = {"text/html": html, "text/plain": text}
        if places:
            places[0].update(content, raw=True)
            return
        display = import_module("IPython.display").display  # no dependency: only a notebook comes here
        places.append(display(content, raw=True, display_id=True))
        closing.callback(show, "", "")

    return show


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    kernel = shell.get_ipython() if shell is not None else None
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in type(kernel).__mro__)  # or one that extends it
