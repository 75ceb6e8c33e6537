"""Errors as one sentence and an exit code; notes on stderr; checks that output files can be written."""

from __future__ import annotations

import re
import signal
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from losslens.results.files import checked_target
from losslens.text import closest

UNEXPECTED, WRONG_CALL, CONDITION_HOLDS, INTERRUPTED = 1, 2, 3, 130
HOME = Path(__file__).parents[1]
# Arguments in the library's messages, and the options that set them.
OPTIONS = {"n_jobs": "jobs", "random_state": "seed", "sample_weight": "weight"} | {
    name: name for name in ("loss", "features", "donors", "memory", "budget", "method", "precision")
}


def note(text: str) -> None:
    """A line on stderr: stdout holds the result only."""
    typer.echo(text, err=True)


@contextmanager
def reporting_errors(*, debug: bool, quiet: bool) -> Iterator[None]:
    """Run a command: an error becomes a sentence and an exit code, a warning one line."""
    try:
        with warnings.catch_warnings():
            _tame_warnings(quiet)
            yield
    except (typer.Exit, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        note("stopped")
        raise typer.Exit(INTERRUPTED) from None
    except (Exception, SystemExit) as error:
        if debug:
            note(traceback.format_exc().rstrip())
        text, code = message_and_code(error)
        note(f"error: {text}")
        raise typer.Exit(code) from error


@contextmanager
def stopping_on_interrupt() -> Iterator[None]:
    """Ctrl-C stops the program, even where a verb would return what it has so far."""
    pressed = False

    def stop(*_: Any) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    usual = signal.getsignal(signal.SIGINT)
    mine = callable(usual) and threading.current_thread() is threading.main_thread()
    if mine:  # not for a program in the background, which ignores Ctrl-C
        signal.signal(signal.SIGINT, stop)
    try:
        yield
    except Exception:
        if not pressed:  # else an import that was interrupted, for example, fails when it is used
            raise
    finally:
        if mine:
            signal.signal(signal.SIGINT, usual)
    if pressed:
        raise KeyboardInterrupt


def _tame_warnings(quiet: bool) -> None:
    if quiet:
        warnings.simplefilter("ignore")
        return
    seen: set[str] = set()

    def show(message: Any, category: Any, *_: Any, **__: Any) -> None:
        text = _one_line(str(message))
        if text not in seen:
            seen.add(text)
            note(f"warning: {text}")

    warnings.simplefilter("default")
    for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):  # for programmers
        warnings.simplefilter("ignore", category)
    # Results need the table's column names; a model that was fitted on an array reads columns by position.
    warnings.filterwarnings("ignore", message="X has feature names, but")
    warnings.showwarning = show


def message_and_code(error: BaseException) -> tuple[str, int]:
    """The message for the user, and the exit code.

    >>> message_and_code(MemoryError())
    ('out of memory; use fewer --rows, or a smaller --memory', 1)
    >>> message_and_code(ValueError("raise memory="))
    ('raise --memory', 2)
    """
    if isinstance(error, MemoryError):
        return "out of memory; use fewer --rows, or a smaller --memory", UNEXPECTED
    text = _one_line(str(error.args[0] if isinstance(error, KeyError) and error.args else error))
    frames = [(Path(frame.filename), frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    ours = not frames or HOME in frames[-1][0].parents
    expected = isinstance(error, (ValueError, TypeError, KeyError, OSError, ImportError, SystemExit))
    if ours and expected and text:
        return in_options(text), WRONG_CALL
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}", WRONG_CALL
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if (HOME / "models.py", "_fitted") in frames and not ours:
        return f"the model failed on these data: {type(error).__name__}: {reason(error)}", WRONG_CALL
    return f"unexpected {what}; --debug shows where it came from", UNEXPECTED


def in_options(text: str) -> str:
    """Replace Python arguments in a message by the options that set them.

    >>> in_options("use loss='log_loss', or raise memory=")
    'use --loss log_loss, or raise --memory'
    >>> in_options("n_jobs is a number of workers; got 0")
    '--jobs is a number of workers; got 0'
    """
    text = re.sub(r"features=\{'name': \[columns\]\}", "--group name=a,b", text)
    text = re.sub(r"\{'name': \[columns\]\}", "--group name=a,b", text)

    text = re.sub(rf"^({'|'.join(OPTIONS)}) (?=is |must |names |needs )", lambda match: f"--{OPTIONS[match[1]]} ", text)
    text = re.sub(
        r"^target must be one of the classes (.*?)(, such as .*)?; got", r"--class must be one of \1; got", text
    )
    text = re.sub(r"^target='([^']*)' names a class", r"--class \1 names a class", text)

    def option(match: re.Match[str]) -> str:
        value = match[2].strip("'")
        quoted = match[2] if " " in value else value
        return f"--{OPTIONS[match[1]]} {quoted}".rstrip()

    return re.sub(rf"\b({'|'.join(OPTIONS)})=('[^']*'|[\w.]*)", option, text)


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 600 else text[:600] + "..."


def reason(error: BaseException) -> str:
    """The message of an exception, in one line."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : |^\[[\d:]+\] \S+:\d+: ", "", text)  # XGBoost: time and line
    return f"{text[:200]}{'...' * (len(text) > 200)}" if text else type(error).__name__


def suggestion(name: str, names: Sequence[str]) -> str:
    """The end of a message about an unknown name: the closest name, or all names."""
    if closest_name := closest(name, names):
        return f"; did you mean {closest_name!r}?"
    shown = ", ".join(names[:10]) + (f", ... ({len(names)} in all)" if len(names) > 10 else "")
    return f"; there is {shown}" if names else ""


def existing_file(name: str, what: str) -> Path:
    """The path of a file to read; an error where it is none."""
    path = Path(name)
    if not name:
        raise ValueError(f"the name of the {what} is empty")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {name}")
    if path.is_dir():
        raise IsADirectoryError(f"{name} is a folder, not a {what}")
    if not path.is_file():  # it would be waited for, and can't be read twice
        raise ValueError(f"{name} is a pipe or a device, not a {what}: write its content to a file first")
    return path


def check_writable(name: str) -> None:
    """Raise before a long run if a file can't be written after it."""
    with naming_file(name), tempfile.TemporaryFile(dir=checked_target(name).parent):
        pass


@contextmanager
def naming_file(name: str) -> Iterator[None]:
    """Name the file that could not be written, and the reason."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"could not write {name}: {error.strerror or error}") from error
