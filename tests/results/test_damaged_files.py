"""Files that are damaged, edited or made to harm: refused in one sentence, before memory is taken."""

import errno
import json
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

import losslens as ll
from damaged_files import Trap, members, packed, run, saved, trial, written
from losslens.results import storage

MIB = 1 << 20


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r.losslens"


def parts_of(name="all"):
    return members(saved()[name])


def array_of(parts):
    return next(name for name in parts if name.endswith(".npy"))


def write(path, parts):
    path.write_bytes(packed(parts))


def refuse(path, message, **options):
    """The error, and the memory that was taken on the way."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message) as told:
            ll.load(path, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "\n" not in str(told.value)
    assert str(told.value).startswith(str(path))
    return peak


def test_a_small_file_that_inflates_is_refused_before_anything_is_read(path, monkeypatch):
    write(path, parts_of() | {"a3.npy": written(np.zeros(MIB))})
    assert path.stat().st_size < MIB
    peak = refuse(path, "more than 4.0 MiB of content.* if you trust the file, pass memory='8.", memory="4 MiB")
    assert peak < 2 * MIB
    monkeypatch.setattr(storage, "USUAL", MIB)
    peak = refuse(path, "more than .* MiB of content, which is unusual for its size")
    assert peak < 2 * MIB
    refuse(path, "it was changed after it was saved", memory="20 MiB")


def test_a_member_that_holds_more_than_the_archive_says(path):
    """The directory says 200 bytes; deflated content of 64 MiB is inflated up to these and no further."""
    content = bytearray(packed(parts_of() | {"a0.npy": written(np.zeros(8 * MIB))}))
    entry = content.rfind(b"a0.npy") - 46  # in the directory at the end
    assert content[entry : entry + 4] == b"PK\x01\x02"
    content[entry + 24 : entry + 28] = struct.pack("<I", 200)
    path.write_bytes(content)
    assert refuse(path, "is not a losslens result, or is damaged") < 4 * MIB


def test_other_compressions_are_refused(path):
    """bzip2 and LZMA inflate a few bytes to gigabytes, and Python's readers inflate all at once."""
    path.write_bytes(packed(parts_of(), zipfile.ZIP_BZIP2))
    refuse(path, "compressed in a way that results are not")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refuse(tmp_path / "pipe", "it is not a regular file")


@pytest.mark.parametrize(
    "change",
    [
        lambda parts: {"result.json": parts["result.json"].replace(b"squared error", b"absolute error")},
        lambda parts: {array_of(parts): parts["result.json"]},
        lambda parts: {array_of(parts): parts[array_of(parts)] + b"\0"},
        lambda parts: {array_of(parts): written(np.array([Trap()], object))},
        lambda parts: {"unread.npy": b"nonsense"},
        lambda parts: {"digest.json": b'"0"'},
    ],
)
def test_what_was_edited_is_refused(path, change, capsys):
    parts = parts_of()
    write(path, parts | change(parts))
    refuse(path, "is not a losslens result, or is damaged .it was changed after it was saved.; save it again")
    assert "must not run" not in capsys.readouterr().out


def test_a_file_of_this_version_has_a_digest(path):
    write(path, {name: part for name, part in parts_of().items() if name != "digest.json"})
    refuse(path, "it has no checksum")


def test_a_file_whose_members_are_packed_again_loads(path):
    path.write_bytes(packed(parts_of(), zipfile.ZIP_STORED))
    assert list(ll.load(path)) == ["a", "b", "c"]


def test_every_kind_of_result_loads(path):
    """The fuzzer starts from these, and finds nothing wrong with them."""
    assert {name: trial(path, content) for name, content in saved().items()} == dict.fromkeys(saved(), (None, True))


def test_what_this_release_cannot_read_names_the_one_that_wrote_it(path, monkeypatch):
    """The file has the right digest: it is not said to be damaged."""
    path.write_bytes(saved()["all"])
    monkeypatch.delitem(storage.Stored.kinds, "FeatureImportance")
    written_by = f"was written by losslens {ll.__version__} .file version 5."
    refuse(path, f"r.losslens {written_by}, and this one has no FeatureImportance: compute the result again")


def test_a_file_says_which_release_wrote_it():
    assert json.loads(parts_of()["result.json"])["losslens"] == ll.__version__


def test_a_disk_that_fails_is_not_damage(path, monkeypatch):
    write(path, parts_of())

    def fails(*arguments, **options):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", fails)
    with pytest.raises(OSError, match="Input/output"):
        ll.load(path)


def test_a_description_that_is_nested_too_deeply_is_refused(path):
    write(path, {"result.json": b'{"format": "losslens result", "version": 4, "result": ' + b"[" * 10**5})
    refuse(path, "is not a losslens result, or is damaged")


def test_damaged_files_are_refused_or_say_what_they_said():
    failures, loaded = run(150, seed=0)
    assert failures == []
    assert 0 < loaded < 30  # dates of members, say, are not part of the content
