"""A progress bar in terminals and notebooks; none when stderr is redirected."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


PREPARING = "preparing the exact engine"
_LOCK = Lock()
DELAY = 0.7  # seconds before a bar appears: short runs show none


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
    """Write a line to stderr, a terminal or notebook, while a call runs that was not made with ``progress=False``."""
    if _watched:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def _is_shown(progress: bool | None) -> bool:
    """Whether to show progress; None: if stderr is a terminal, or in a notebook."""
    if progress is None:
        # In a notebook rich needs ipywidgets, and warns if they are missing: then no bar.
        return sys.stderr.isatty() or (_in_notebook() and find_spec("ipywidgets") is not None)
    return progress


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
        from rich.console import Console

        console = Console(stderr=True, force_jupyter=_in_notebook() or None)
        if not console.is_terminal and not console.is_jupyter:
            console.print(title)  # without a terminal: one line
            return
        with console.status(title):
            done.wait()

    thread = Thread(target=show, daemon=True)
    thread.start()
    try:
        with _watching(progress):
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
        console=Console(stderr=True, force_jupyter=_in_notebook() or None),
        transient=sys.stderr.isatty(),  # without a terminal the last line stays
        expand=True,
    )
    drawn = _Shown(shown, shown.add_task(title, total=total, words=""))
    try:
        with _watching(progress):
            yield drawn
    finally:
        if drawn.running:
            shown.stop()


class _Shown:
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


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    kernel = shell.get_ipython() if shell is not None else None
    return kernel is not None and kernel.__class__.__name__ == "ZMQInteractiveShell"
