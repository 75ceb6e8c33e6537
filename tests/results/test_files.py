"""Files that are written: complete or not at all, and never in place of what is no file."""

import os
import signal
import socket
import stat
import subprocess
import sys

import pytest

from losslens.page.report import Report
from losslens.results.clusters import Tried
from losslens.results.files import atomic_file
from losslens.results.storage import load, save

RESULT = Tried(2, 0.5, True)


def write(path, content=b"new"):
    with atomic_file(path) as file:
        file.write(content)


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


SAVES = {
    "a result": lambda path: save(RESULT, path),
    "a report": lambda path: Report({"title": "t", "features": [], "n": 1}).save(path),
}


def make_special(kind, path):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to a pipe":
        os.mkfifo(path.with_name("pipe"))
        path.symlink_to("pipe")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(str(path))
    elif kind == "device":
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))  # a null device of our own
        except PermissionError:
            pytest.skip("only root makes devices")
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "socket", "device", "folder"])
@pytest.mark.parametrize("saved", SAVES)
def test_what_is_no_regular_file_is_refused_and_stays(kind, saved, tmp_path, monkeypatch):
    monkeypatch.setattr(Report, "html", lambda report: "a page")
    path = tmp_path / "x"
    make_special(kind, path)
    before = os.lstat(path), names(tmp_path)
    expected = IsADirectoryError if kind == "folder" else OSError
    with pytest.raises(expected, match="it is a folder" if kind == "folder" else "it is not a regular file"):
        SAVES[saved](path)
    after = os.lstat(path), names(tmp_path)
    assert (before[0].st_ino, before[0].st_mode, before[1]) == (after[0].st_ino, after[0].st_mode, after[1])


def test_a_pipe_that_is_open_is_refused_by_its_number():
    read, end = os.pipe()
    try:
        with pytest.raises(OSError, match="it is not a regular file"):
            write(f"/dev/fd/{end}")
    finally:
        os.close(read)
        os.close(end)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_a_link(there, tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    if there:
        target.write_bytes(b"old")
    link.symlink_to("folder/target")
    write(link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert (names(tmp_path), names(tmp_path / "folder")) == (["folder", "link"], ["target"])


def test_a_circle_of_links_says_so(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        write(tmp_path / "a")


@pytest.mark.parametrize("stop", [OSError(28, "No space left on device"), KeyboardInterrupt(), SystemExit()])
def test_a_write_that_is_stopped_leaves_the_old_file_alone(stop, tmp_path):
    path = tmp_path / "r"
    path.write_bytes(b"old")
    with pytest.raises(type(stop)), atomic_file(path) as file:  # noqa: PT012
        file.write(b"half of")
        raise stop
    assert (names(tmp_path), path.read_bytes()) == (["r"], b"old")


KILLED = """
import os, signal, sys
from losslens.results.files import atomic_file
with atomic_file(sys.argv[1]) as file:
    file.write(b"half of")
    file.flush()
    if sys.argv[2] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    print("writing", flush=True)
    sys.stdin.readline()
"""


def start(path, how):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", KILLED, str(path), how], **pipes)


def test_the_next_save_removes_what_a_killed_one_left_and_nothing_else(tmp_path):
    path = tmp_path / "r"
    path.write_bytes(b"old")
    others = {"r.notes.part", "r.part", "rabcdefgh.part", "s.abcdefgh.part", "r.abcdefgh.part.txt"}
    for name in others:
        (tmp_path / name).write_text("somebody's")
    with start(path, "dies") as process:
        assert process.wait(60) == -signal.SIGKILL
    assert len(names(tmp_path)) == 2 + len(others)
    assert path.read_bytes() == b"old"
    write(path)
    assert set(names(tmp_path)) == others | {"r"}
    assert path.read_bytes() == b"new"


def test_a_save_leaves_the_part_of_one_that_still_runs(tmp_path):
    path = tmp_path / "r"
    with start(path, "goes on") as process:
        assert process.stdout.readline() == "writing\n"
        write(path)
        assert len(names(tmp_path)) == 2
        process.communicate("\n", timeout=60)
    assert process.returncode == 0
    assert (names(tmp_path), path.read_bytes()) == (["r"], b"half of")  # the last to end, completely


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "r"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anything
    with pytest.raises(PermissionError, match="write-protected"):
        write(path)
    assert (names(tmp_path), path.read_bytes()) == (["r"], b"old")


def test_a_folder_that_may_not_be_written_to_names_the_file_that_was_asked_for(tmp_path, monkeypatch):
    def refuse(**options):
        raise PermissionError(13, "Permission denied", "r.abcdefgh.part")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(PermissionError, match=r"Permission denied: '.*/r'$"):
        write(tmp_path / "r")


@pytest.mark.parametrize("name", ["n" * 255, "ä" * 127, ".part", "a b\n*?[c].losslens"])
def test_every_name_that_a_file_can_have(name, tmp_path):
    write(tmp_path / name, b"old")
    write(tmp_path / name)
    assert names(tmp_path) == [name]


@pytest.mark.parametrize("path", [None, 3, [], b"x", "a\0b"])
def test_what_is_no_name_of_a_file_is_refused(path):
    with pytest.raises(TypeError, match="path must be the name of a file; got"), atomic_file(path):
        pass
    with pytest.raises(TypeError, match="path must be the name of a file; got"):
        load(path)
