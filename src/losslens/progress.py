"""A progress bar on a terminal or in a notebook, and silence in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Event, Thread
from typing import Protocol

PATIENCE = 0.7  # seconds before a bar appears: short runs should not flicker


class Tick(Protocol):
    """Called with the number of rows that were just predicted."""

    def __call__(self, rows: int, /) -> None:
        """Note that `rows` more are done."""


def _silent(rows: int, /) -> None:
    """No bar."""


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
def bar(total: int, title: str, progress: bool | None, unit: str = "predictions") -> Iterator[Tick]:
    """Show how many of `total` predictions are made; ``progress=None`` asks whether anybody is looking."""
    if not _wanted(progress):
        yield _silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + unit),
        TimeRemainingColumn(),
        console=Console(stderr=True, force_jupyter=_in_notebook() or None),
        transient=sys.stderr.isatty(),  # in a pipe the last line is all there is to see
    )
    task = shown.add_task(title, total=total)
    started, running = time.monotonic(), False

    def tick(rows: int, /) -> None:
        nonlocal running
        if not running and time.monotonic() - started > PATIENCE:
            shown.start()
            running = True
        shown.advance(task, rows)

    try:
        yield tick
    finally:
        if running:
            shown.stop()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    kernel = shell.get_ipython() if shell is not None else None
    return kernel is not None and kernel.__class__.__name__ == "ZMQInteractiveShell"
