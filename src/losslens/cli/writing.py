"""Whether files can be written, and what is said where they can't; the results write them whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_place(name: str) -> None:
    """Find out before a long run that a file can't be written after it."""
    path = Path(name)
    if path.is_dir():
        raise ValueError(f"could not write {name}: it is a folder")
    if path.exists() and not path.is_file():  # a device or a pipe would be replaced by a file
        raise ValueError(f"could not write {name}: it is no plain file")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise ValueError(f"could not write {name}: there is no folder {path.parent}")
    with telling(name), tempfile.TemporaryFile(dir=folder):
        pass


@contextmanager
def telling(name: str) -> Iterator[None]:
    """Say which file could not be written, and why."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"could not write {name}: {error.strerror or error}") from error
