"""A progress bar in terminals and notebooks; none when stderr is redirected."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Protocol

from losslens.text import duration

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


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


class ProgressBar(Tick, Protocol):
    """A tick that can also show a note and change the total."""

    @property
    def is_shown(self) -> bool:
        """Whether it is displayed."""

    def note(self, words: str) -> None:
        """Show this text beside the bar."""

    def set_total(self, total: int) -> None:
        """Change the total."""


class _Silent:
    """No bar."""

    is_shown = False

    def __call__(self, rows: int, /) -> None:
        pass

    def note(self, words: str) -> None:
        pass

    def set_total(self, total: int) -> None:
        pass


_watched = 0  # how many bars and titles are open whose stderr is a terminal or a notebook's


@contextmanager
def _watching(progress: bool | None) -> Iterator[None]:
    """While this is open, `tell` writes; of the whole process, since kernels run in threads of their own.

    What was shown in a notebook goes away at the end, also after an error or an interrupt.
    """
    global _watched  # noqa: PLW0603
    mine = progress is not False and (sys.stderr.isatty() or _in_notebook())
    with _LOCK:
        _watched += mine
    try:
        yield
    finally:
        with _LOCK:
            _watched -= mine
        if not _watched:
            _CELL.clear()


def tell(line: str) -> None:
    """Show a line in a terminal (stderr) or notebook, while a call runs that was not made with ``progress=False``."""
    if _watched and _in_notebook():
        _CELL.show(escape(line), line)
    elif _watched:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def _is_shown(progress: bool | None) -> bool:
    """Whether to show progress; None: if stderr is a terminal, or in a notebook."""
    return sys.stderr.isatty() or _in_notebook() if progress is None else progress


@contextmanager
def waiting(title: str, progress: bool | None) -> Iterator[None]:
    """Show a title while something runs, once it has taken a while."""
    if not _is_shown(progress):
        with _watching(progress):
            yield
        return
    done = Event()

    def show() -> None:
        if done.wait(DELAY):
            return
        if _in_notebook():
            _CELL.show(f"{escape(title)} …", title)
            return
        from rich.console import Console

        console = Console(stderr=True)
        if not console.is_terminal:
            console.print(title)  # without a terminal: one line
            return
        with console.status(title):
            done.wait()

    thread = Thread(target=show, daemon=True)
    with _watching(progress):
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@contextmanager
def bar(total: int, title: str, progress: bool | None, unit: str = "predictions") -> Iterator[ProgressBar]:
    """Show how many of `total` predictions are made; ``progress=None``: if stderr is a terminal, or in a notebook."""
    if not _is_shown(progress):
        with _watching(progress):
            yield _Silent()
        return
    if _in_notebook():
        with _watching(progress):
            yield _InNotebook(total, title, unit)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=6)),  # narrower than the text if need be
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + unit),
        TimeRemainingColumn(),
        TextColumn("{task.fields[words]}"),
        console=Console(stderr=True),
        transient=sys.stderr.isatty(),  # without a terminal the last line stays
        expand=True,
    )
    drawn = _InTerminal(shown, shown.add_task(title, total=total, words=""))
    try:
        with _watching(progress):
            yield drawn
    finally:
        if drawn.running:
            shown.stop()


class _InTerminal:
    """A bar that appears after a delay."""

    is_shown = True

    def __init__(self, shown: Progress, task: TaskID) -> None:
        self.shown, self.task = shown, task
        self.started, self.running = time.monotonic(), False

    def __call__(self, rows: int, /) -> None:
        if not self.running and time.monotonic() - self.started > DELAY:
            self.shown.start()
            self.running = True
        self.shown.advance(self.task, rows)

    def note(self, words: str) -> None:
        self.shown.update(self.task, words=words)

    def set_total(self, total: int) -> None:
        self.shown.update(self.task, total=total)


class _InNotebook:
    """The same in a notebook: HTML of one line, which needs no widgets."""

    is_shown = True

    def __init__(self, total: int, title: str, unit: str) -> None:
        self.total, self.title, self.unit = total, title, unit
        self.done, self.words, self.lock = 0, "", Lock()
        self.started = self.drawn = time.monotonic()

    def __call__(self, rows: int, /) -> None:
        now = time.monotonic()
        with self.lock:
            self.done += rows
            due = now - self.started > DELAY and now - self.drawn > min(REFRESH, DELAY)
            if due:
                self.drawn = now
        if due:
            self._draw(now)

    def note(self, words: str) -> None:
        self.words = words

    def set_total(self, total: int) -> None:
        self.total = total

    def _draw(self, now: float) -> None:
        done, total = min(self.done, self.total), max(self.total, 1)
        left = (now - self.started) * (total - done) / done if done else 0.0
        count, rest = f"{self.done:,} of {self.total:,} {self.unit}", f"{duration(left)} left" if left >= 1 else ""
        text = ", ".join(filter(None, [count, rest, self.words]))
        meter = f'<progress value="{done}" max="{total}" style="width: 12em; vertical-align: middle"></progress>'
        style = "white-space: nowrap; overflow: hidden; text-overflow: ellipsis"
        _CELL.show(f'<div style="{style}">{escape(self.title)} {meter} {escape(text)}</div>', f"{self.title}: {text}")


class _NotebookCell:
    """One place in the output of the cell that runs, for all bars and lines of its calls: none is left behind."""

    def __init__(self) -> None:
        self.count, self.filled = -1, False
        self.place: Any = None  # IPython's handle of it
        self.lock = Lock()  # threads of a bar and of a title may draw at once

    def show(self, html: str, text: str) -> None:
        """Replace what is shown; nothing once all calls have ended, as a thread that is late would leave its line."""
        content, count = {"text/html": html, "text/plain": text}, _kernel().execution_count
        with self.lock:
            if not _watched:
                return
            if self.place is None or count != self.count:
                display: Any = import_module("IPython.display").display  # no dependency: only a notebook comes here
                self.count, self.place = count, display(content, raw=True, display_id=True)
            else:
                self.place.update(content, raw=True)
            self.filled = True

    def clear(self) -> None:
        """Show nothing."""
        with self.lock:
            if self.filled:
                self.filled = False
                self.place.update({"text/html": "", "text/plain": ""}, raw=True)


_CELL = _NotebookCell()


def _kernel() -> Any:
    """The shell of IPython that runs this; None: none does."""
    shell = sys.modules.get("IPython")
    return shell.get_ipython() if shell is not None else None


def _in_notebook() -> bool:
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in type(_kernel()).__mro__)  # or one that extends it
