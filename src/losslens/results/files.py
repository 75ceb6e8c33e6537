"""Files that are replaced in one step: a failed write leaves the old file in place, a device or a pipe is refused."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import IO

ENDING = ".part"
SHOWN = 50  # characters of a file's name in that of its unfinished part: a name has at most 255 bytes


@contextmanager
def atomic_file(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write to, which replaces `path` in one step once it is complete."""
    target = checked_target(path)
    _remove_unfinished(target)
    handle, name = _new_part(target)
    try:
        with os.fdopen(handle, "wb") as file:
            Path(name).chmod(_usual_mode(target))
            yield file
            file.flush()
            os.fsync(file.fileno())  # a full disk raises here at the latest
            Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def check_name(path: str | Path) -> None:
    """Raise TypeError for what names no file."""
    if not isinstance(path, (str, os.PathLike)) or "\0" in str(path) or not str(path):
        raise TypeError(f"path must be the name of a file; got {path!r}")


def checked_target(path: str | Path) -> Path:
    """The file that `path` leads to through links; an error where writing would replace anything but a regular file."""
    check_name(path)
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        target = Path(path).resolve()
        missing = [str(folder) for folder in (Path(path).parent, target.parent) if not folder.is_dir()]
        if missing:
            raise FileNotFoundError(errno.ENOENT, f"there is no folder {missing[0]}", str(path)) from None
        return target
    if S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file, and is not overwritten", str(path))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "it is write-protected", str(path))
    return Path(path).resolve()


def _new_part(target: Path) -> tuple[int, str]:
    """An empty file beside the target, locked while it is open, so that no other save takes it for a killed one's."""
    while True:
        try:
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name[:SHOWN]}.", suffix=ENDING)
        except OSError as error:  # such as a read-only folder: name the file that was to be written
            raise type(error)(error.errno, error.strerror, str(target)) from None
        with suppress(OSError):  # a file system without locks
            _lock(handle, wait=True)
        if os.fstat(handle).st_nlink:
            return handle, name
        os.close(handle)  # removed before it was locked


def _remove_unfinished(target: Path) -> None:
    """Remove parts that a killed process left: those without a lock."""
    unfinished = re.compile(rf"{re.escape(target.name[:SHOWN])}\.[a-z0-9_]{{8}}{re.escape(ENDING)}")
    with suppress(OSError), os.scandir(target.parent) as entries:  # a folder that can't be listed
        for entry in entries:
            if unfinished.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(OSError), Path(entry.path).open("rb") as file:  # locked, or another user's
                    if _lock(file.fileno(), wait=False):
                        Path(entry.path).unlink()


def _lock(handle: int, *, wait: bool) -> bool:
    """Lock an open file until it is closed; an error where it is locked, False where the system has no such locks."""
    if sys.platform == "win32":
        return False
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    return True


def _usual_mode(target: Path) -> int:
    """The mode that `open` would give the file; that of mkstemp is private."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
