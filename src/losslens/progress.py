"""A progress bar on a terminal or in a notebook, and silence in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


PREPARING = "preparing the exact engine (it is compiled the first time on a machine)"
PATIENCE = 0.7  # seconds before a bar appears: short runs should not flicker


class Tick(Protocol):
    """Called with the number of rows that were just predicted."""

    def __call__(self, rows: int, /) -> None:
        """Note that `rows` more are done."""


def silent(rows: int, /) -> None:
    """A tick that nobody hears."""


class ProgressBar(Tick, Protocol):
    """A tick that can also show a note and change the total."""

    def note(self, words: str) -> None:
        """Show these words beside the bar."""

    def set_total(self, total: int) -> None:
        """There is more, or less, to do than was thought."""


class _Silent:
    """No bar."""

    def __call__(self, rows: int, /) -> None:
        pass

    def note(self, words: str) -> None:
        pass

    def set_total(self, total: int) -> None:
        pass


def _wanted(progress: bool | None) -> bool:
    """Whether to show progress; None asks whether anybody is looking."""
    if progress is None:
        # In a notebook rich draws with ipywidgets, and complains where they are missing: then no bar.
        return sys.stderr.isatty() or (_in_notebook() and find_spec("ipywidgets") is not None)
    return progress


@contextmanager
def waiting(title: str, progress: bool | None) -> Iterator[None]:
    """Say what is being waited for, once it has taken a while."""
    if not _wanted(progress):
        yield
        return
    done = Event()

    def show() -> None:
        if done.wait(PATIENCE):
            return
        from rich.console import Console

        console = Console(stderr=True, force_jupyter=_in_notebook() or None)
        if not console.is_terminal and not console.is_jupyter:
            console.print(title)  # in a pipe a line says it
            return
        with console.status(title):
            done.wait()

    speaker = Thread(target=show, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        done.set()
        speaker.join()


@contextmanager
def bar(total: int, title: str, progress: bool | None, unit: str = "predictions") -> Iterator[ProgressBar]:
    """Show how many of `total` predictions are made; ``progress=None`` asks whether anybody is looking."""
    if not _wanted(progress):
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=6)),  # it gives way to the words
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + unit),
        TimeRemainingColumn(),
        TextColumn("{task.fields[words]}"),
        console=Console(stderr=True, force_jupyter=_in_notebook() or None),
        transient=sys.stderr.isatty(),  # in a pipe the last line is all there is to see
        expand=True,
    )
    drawn = _Shown(shown, shown.add_task(title, total=total, words=""))
    try:
        yield drawn
    finally:
        if drawn.running:
            shown.stop()


class _Shown:
    """A bar that appears once it has taken a while."""

    def __init__(self, shown: Progress, task: TaskID) -> None:
        self.shown, self.task = shown, task
        self.started, self.running = time.monotonic(), False

    def __call__(self, rows: int, /) -> None:
        if not self.running and time.monotonic() - self.started > PATIENCE:
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
