"""Files that are damaged, edited or made to harm: refused in one sentence, before memory is taken."""

import dataclasses
import errno
import io
import json
import os
import struct
import tracemalloc
import zipfile
from typing import get_origin

import numpy as np
import pytest

import losslens as ll
from damaged_files import members, packed, places, run, saved, trial, written
from losslens.results import storage, stored_content
from losslens.results.base import Stored
from losslens.tables.sample import Sample

MIB = 1 << 20
TABLES = (
    stored_content.SHAPES, stored_content.RANGES, stored_content.ASCENDING, stored_content.SHARES,
    stored_content.FILLED, stored_content.DIFFERENT, stored_content.NAMED, stored_content.RULES,
)  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r.losslens"


def parts_of(name="all"):
    return members(saved()[name])


def description_of(parts):
    return json.loads(parts["result.json"])


def fields_of(description, kind, name):
    """The entry of a field of the first object of a kind, as its container and key."""
    return next(
        (holder["fields"], name)
        for holder, key in places(description)
        if key == "object" and holder[key] == kind and name in holder["fields"]
    )


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


def array_of(parts, kind, field):
    holder, key = fields_of(description_of(parts), kind, field)
    return f"{holder[key]['array']}.npy"


# -- sizes ------------------------------------------------------------------------------------------------------------


def test_a_small_file_that_inflates_is_refused_before_anything_is_read(path, monkeypatch):
    parts = parts_of()
    name = array_of(parts, "Means", "local")
    write(path, parts | {name: written(np.zeros(8 * MIB // 8))})
    assert path.stat().st_size < MIB
    peak = refuse(path, "more than 4.0 MiB of content.* if you trust the file, pass memory='8.", memory="4 MiB")
    assert peak < 2 * MIB
    monkeypatch.setattr(storage, "USUAL", MIB)
    peak = refuse(path, "more than .* MiB of content, which is unusual for its size")
    assert peak < 2 * MIB
    refuse(path, "has shape|wrong length", memory="20 MiB")  # within memory, and no local importances of these rows


def test_a_long_description_counts_too(path):
    write(path, parts_of() | {"result.json": b"[" + b"0," * MIB + b"0]"})
    assert path.stat().st_size < MIB
    assert refuse(path, "more than 8.0 MiB of content", memory="8 MiB") < MIB


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"shape": (10**15,)}, r"declares shape \(1000000000000000,\) of float64, but the file holds 192 bytes"),
        ({"shape": (10**15, 0)}, "but the file holds 192 bytes"),
        ({"shape": (-24,)}, "declares shape"),
        ({"shape": (10**15,), "descr": "<U0"}, "is an array of <U0, which results don't have"),
        ({"descr": "|O"}, "is an array of object"),
        ({"descr": [("a", "<f8")]}, "is an array of .*, which results don't have"),
    ],
)
def test_a_header_that_claims_what_the_file_does_not_hold(path, header, message):
    parts = parts_of()
    name = array_of(parts, "Means", "local")
    write(path, parts | {name: written(np.zeros(24), **header)})
    assert refuse(path, message) < 2 * MIB


@pytest.mark.parametrize("text", [b"{'descr': (((\0", b"(" * 9000, b"{'a': 1}", b"\xff\xfe", b"'" * 3, b""])
def test_a_header_that_is_none(path, text):
    parts = parts_of()
    name = array_of(parts, "Means", "local")
    write(path, parts | {name: b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(192)})
    refuse(path, "damaged")


def test_a_member_that_holds_more_than_the_archive_says(path):
    """The directory says 200 bytes; deflated content of 64 MiB is inflated up to these and no further."""
    parts = parts_of()
    name = array_of(parts, "Means", "local")
    content = bytearray(packed(parts | {name: written(np.zeros(8 * MIB))}))
    entry = content.rfind(name.encode()) - 46  # in the directory at the end
    assert content[entry : entry + 4] == b"PK\x01\x02"
    content[entry + 24 : entry + 28] = struct.pack("<I", 200)
    path.write_bytes(content)
    assert refuse(path, "is not a losslens result, or is damaged") < 4 * MIB


def test_other_compressions_are_refused(path):
    """bzip2 and LZMA inflate a few bytes to gigabytes, and Python's readers inflate all at once."""
    path.write_bytes(packed(parts_of(), zipfile.ZIP_BZIP2))
    refuse(path, "compressed in a way that results are not")


def test_what_the_description_does_not_mention_is_not_read(path):
    write(path, parts_of() | {"unread.npy": b"nonsense", "a99.npy": bytes(16 * MIB), "notes.txt": b"mine"})
    tracemalloc.start()
    loaded = ll.load(path, memory="2 MiB")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert set(loaded) == {"a", "b", "c"}
    assert peak < 4 * MIB


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refuse(tmp_path / "pipe", "it is not a regular file")


# -- content ----------------------------------------------------------------------------------------------------------

EDITS = [
    ("all", "Importances", "n_predictions", "many", r"Importances\.n_predictions is 'many', and not int"),
    ("all", "Importances", "n_predictions", 10**40, r"n_predictions is 1000.*, and not int"),
    ("all", "Importances", "n_predictions", 1 << 62, r"n_predictions is 4611.*, and not int"),
    ("all", "Importances", "features", {"dict": []}, "there are no features"),
    ("all", "FeatureImportance", "name", "other", "'a' is not a FeatureImportance of this name"),
    ("all", "FeatureImportance", "ordered", "yes", r"ordered is 'yes', and not bool"),
    ("all", "FeatureImportance", "columns", {"tuple": []}, "a grid of no feature|has no columns"),
    ("all", "FeatureImportance", "sample", None, r"sample is None, and not Sample"),
    ("all", "Common", "size", 10**15, "cells.predictions has shape"),
    ("all", "Common", "size", 2, "CommonGrid.own are outside -1 to 1"),
    ("all", "Means", "clipped", "all", r"Means\.clipped is 'all', and not float"),
    ("all", "Sample", "loss", None, "an importance without losses"),
    ("latin", "Latin", "m", 0, "needs a whole number of donors"),
    ("refits", "Refits", "n", 10**15, "rows, of which few were tested"),
    ("refits", "Refits", "trained", {"tuple": [0, 0, 0]}, r"trained\.\* are below 1"),
    ("shapley effect", "ShapleyEffect", "features", {"tuple": ["a", "a", "a"]}, "no features, or one of them twice"),
    ("clusters", "Clusters", "rules", {"tuple": []}, "rules has shape|contradicts its other arrays"),
    ("scores", "FeatureScore", "columns", {"tuple": [3]}, r"columns is a tuple, and not tuple\[str, \.\.\.\]"),
    ("regions", "Regions", "target", "anything", r"target is 'anything', and not RegionTarget"),
]


@pytest.mark.parametrize(("name", "kind", "field", "value", "message"), EDITS)
def test_a_description_edited_by_hand_says_what_is_wrong(path, name, kind, field, value, message):
    parts = parts_of(name)
    description = description_of(parts)
    holder, key = fields_of(description, kind, field)
    holder[key] = value
    write(path, parts | {"result.json": json.dumps(description)})
    refuse(path, message)


def test_arrays_that_point_outside_are_refused(path):
    parts = parts_of()
    name = array_of(parts, "Common", "donors")
    donors = np.lib.format.read_array(io.BytesIO(parts[name]))
    write(path, parts | {name: written(donors + 1)})
    refuse(path, "donors are outside 0 to 23")


@pytest.mark.parametrize("factor", [0.0, 1.1, -1.0, np.nan])
def test_weights_that_do_not_sum_to_one_are_refused(path, factor):
    parts = parts_of()
    name = array_of(parts, "Sample", "weight")
    weight = np.lib.format.read_array(io.BytesIO(parts[name]))
    write(path, parts | {name: written(factor * weight)})
    refuse(path, "weights are negative, or do not sum to one")


def test_interactions_of_whole_numbers_have_intervals(path):
    parts = parts_of("pairs")
    name = array_of(parts, "Interactions", "index")
    index = np.lib.format.read_array(io.BytesIO(parts[name]))
    assert trial(path, packed(parts | {name: written(index.astype("u1"))})) == (None, True)


def test_extrapolation_of_one_column_has_one_value_a_place(path):
    parts = parts_of("far")
    name = array_of(parts, "Extrapolation", "grid")
    grid = np.lib.format.read_array(io.BytesIO(parts[name]))
    write(path, parts | {name: written(grid[:, None])})
    refuse(path, "a grid of shape .* for one column")


def test_every_kind_of_result_loads_and_works(path):
    """The fuzzer starts from these, and finds nothing wrong with them."""
    assert {name: trial(path, content) for name, content in saved().items()} == dict.fromkeys(saved(), (None, True))


@pytest.mark.parametrize("error", [TypeError("isinstance() arg 2 must be a type"), KeyError("a"), ZeroDivisionError()])
@pytest.mark.parametrize("where", ["_fits", "_check_shapes"])
def test_an_error_of_the_reader_is_not_blamed_on_the_file(path, monkeypatch, error, where):
    """It is raised as it is, and says which release wrote the file and which one reads it."""

    def fails(*arguments):
        raise error

    parts = parts_of()
    description = description_of(parts) | {"losslens": "0.0.7"}
    write(path, parts | {"result.json": json.dumps(description)})
    monkeypatch.setattr(stored_content, where, fails)
    with pytest.raises(type(error)) as raised:
        ll.load(path)
    assert raised.value is error
    (note,) = error.__notes__
    assert str(path) in note
    assert "written by losslens 0.0.7" in note
    assert f"losslens {ll.__version__} could not read" in note
    del error.__notes__


def test_a_file_says_which_release_wrote_it(path):
    assert description_of(parts_of())["losslens"] == ll.__version__


def test_a_disk_that_fails_is_neither_damage_nor_ours(path, monkeypatch):
    write(path, parts_of())

    def fails(*arguments, **options):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(np.lib.format, "read_array", fails)
    with pytest.raises(OSError, match="Input/output") as raised:
        ll.load(path)
    assert not hasattr(raised.value, "__notes__")


def test_a_description_that_is_nested_too_deeply_is_refused(path):
    nested = 3
    for _ in range(400):
        nested = {"tuple": [nested]}
    parts = parts_of()
    write(path, parts | {"result.json": json.dumps(description_of(parts) | {"result": nested})})
    refuse(path, "nested too deeply")


def test_damaged_files_load_and_work_or_are_refused():
    failures, loaded = run(150, seed=0)
    assert failures == []
    assert 5 < loaded < 75  # both happen


def test_every_array_of_a_stored_class_has_a_shape():
    """A new field is checked, too: `SHAPES` knows each array, and each name in the tables is that of a class."""
    kinds = {base for kind in Stored.kinds.values() for base in kind.__mro__ if dataclasses.is_dataclass(base)}
    known = {kind.__name__ for kind in kinds} | {"OutputLoss", "OutputsLoss"}
    for table in TABLES:
        assert set(table) <= known
    for kind in kinds:
        shapes = {name for base in kind.__mro__ for name in stored_content.SHAPES.get(base.__name__, {})}
        arrays = {name for name, hint in stored_content._hints(kind).items() if _is_array(hint)}
        assert arrays <= shapes, kind
    assert _is_array(stored_content._hints(Sample)["weight"])


def test_every_path_of_the_tables_leads_somewhere(path, monkeypatch):
    """A field that is renamed, or goes, is so here as well: what is not there would not be checked."""
    reached, at = set(), stored_content._at

    def follow(thing, way):
        values = at(thing, way)
        reached.update((kind.__name__, way) for kind in type(thing).__mro__ if values)
        return values

    monkeypatch.setattr(stored_content, "_at", follow)
    for content in saved().values():
        path.write_bytes(content)
        ll.load(path)
    paths = {(kind, name) for table in TABLES[:3] for kind, names in table.items() for name in names}
    arrays = {kind: stored_content._hints(Stored.kinds[kind]) for kind in Stored.kinds}
    missed = {(kind, name) for kind, name in paths - reached if name not in arrays.get(kind, {name})}
    assert missed == {("Sample", "totals.rows"), ("ShapleyImportance", "shares.local_error")}  # of data in files


def _is_array(hint):
    return get_origin(stored_content._unaliased(hint)) is np.ndarray
