"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
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
    with _telling(name), tempfile.TemporaryFile(dir=folder):
        pass


@contextmanager
def written_whole(name: str) -> Iterator[Path]:
    """A path to write to; what is there in the end takes the place of `name` in one step."""
    target = Path(name).resolve()  # of a link: what it points to
    with _telling(name):
        room = Path(tempfile.mkdtemp(dir=target.parent, prefix=".losslens-"))
        try:
            part = room / target.name
            yield part
            if target.exists():
                part.chmod(target.stat().st_mode & 0o777)
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.replace(target)
        finally:
            shutil.rmtree(room, ignore_errors=True)


@contextmanager
def _telling(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ValueError(f"could not write {name}: {error.strerror or error}") from error
