"""Results in files: a zip archive of NumPy arrays and a JSON description, without any code."""

from __future__ import annotations

import datetime as dt
import errno
import json
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from stat import S_ISREG
from typing import IO, Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Cells, Means
from losslens.cells.pool import Pool
from losslens.cells.row_sums import InfluenceSums
from losslens.donors.conditional import Conditioning
from losslens.donors.designs import DESIGNS, Design, Redrawn, Shifts
from losslens.donors.layout import CommonGrid, OwnDonors
from losslens.losses import Loss, from_metadata
from losslens.results.base import Saveable, Stored
from losslens.results.files import atomic_file, check_name
from losslens.results.stored_content import (
    RETIRED,
    Damaged,
    Retired,
    check,
    check_fields,
    check_loss,
    need,
    refusing,
)
from losslens.tables.checks import memory_bytes
from losslens.tables.column_scores import CodedRows
from losslens.tables.columns import is_missing, missing_name
from losslens.tables.distribution_shift import DistributionShift
from losslens.tables.row_labels import plain_label
from losslens.tables.sample import Sample, Totals
from losslens.text import size_in_words
from losslens.uncertainty.pooled_scores import PooledScore
from losslens.uncertainty.prediction_scores import PredictionScore
from losslens.uncertainty.scored_cells import ColumnScore, ScoredCells, ScoredRows
from losslens.uncertainty.table_scores import TableScore

FORMAT = "losslens result"
VERSION = 4  # 2: rows for the extrapolation, sums over files; 3: labels of rows; 4: parts of interactions
# Files refer to classes by name; these two have another name in files.
NAMES_IN_FILES = {CommonGrid: "Common", OwnDonors: "PerRow"}
FIELDS_IN_FILES = {"layout": "meeting", "donor_weight": "lent"}  # likewise of fields
FIELDS = {in_files: name for name, in_files in FIELDS_IN_FILES.items()}
# Results register themselves; these are the classes of other rooms that they contain.
Stored.kinds |= {
    NAMES_IN_FILES.get(kind, kind.__name__): kind
    for kind in (
        Sample, Totals, CodedRows, Cells, Means, InfluenceSums, CommonGrid, OwnDonors, Conditioning,
        DistributionShift, Shifts,
        PredictionScore, TableScore, Pool, PooledScore, ColumnScore, ScoredRows, ScoredCells, *DESIGNS,
    )
}  # fmt: skip


def save(result: Any, path: str | Path) -> None:
    """Write a result to one file."""
    packer = _Packer()
    description = {"format": FORMAT, "version": VERSION, "losslens": _release(), "result": packer.pack(result)}
    with atomic_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("result.json", json.dumps(description, indent=1))
        for key, array in packer.arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def load(path: str | Path, memory: str | int | None = None) -> Any:
    """Read a result that `save` wrote; neither the model nor the data is needed.

    Sizes, types and shapes are checked before they are used: a file that is damaged, or was edited, is refused with a
    ValueError. Any other error is one of losslens; a note names the releases that wrote and read the file.

    Parameters
    ----------
    path
        The file.
    memory
        The most that the content may take, such as ``"8 GiB"``; by default 1 GiB, or 100 times the size of the file if
        that is more. Genuine results rarely shrink to less than a tenth in a file.

    Examples
    --------
    >>> import tempfile, numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ll.feature_importance(lambda X: X[:, 0], X, X[:, 0], loss="squared_error").save(f"{folder}/small.losslens")
    ...     ll.load(f"{folder}/small.losslens")["x1"].pfi
    0.0
    """
    check_name(path)
    if not S_ISREG(Path(path).stat().st_mode):
        raise ValueError(f"{path} is not a losslens result: it is not a regular file")
    size = Path(path).stat().st_size
    limit = max(USUAL, MOST_TIMES * size) if memory is None else memory_bytes(memory)
    with Path(path).open("rb") as file:
        try:
            with _opened(file) as archive:
                return _read(_Archive(archive, limit), path)
        except _Refused as error:
            raise ValueError(f"{path} {error}") from None
        except Damaged as error:
            why = f" ({' '.join(str(error).split())[:200]})" if str(error) else ""
            raise ValueError(f"{path} is not a losslens result, or is damaged{why}; save it again") from error


def _opened(file: IO[bytes]) -> zipfile.ZipFile:
    with _decoding():
        return zipfile.ZipFile(file)


def _release() -> str:
    """The version of the library; "unknown" where it runs from a folder, without having been installed."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    with suppress(PackageNotFoundError):
        return version("losslens")
    return "unknown"


SCALARS = (bool, int, float, str, dt.date, type(None))
USUAL, MOST_TIMES = 1 << 30, 100  # bytes of content that every file may have, and as a multiple of its size
OF_JSON = 20  # bytes in memory of each byte of JSON, at most
NESTED = 200  # levels of a description, at most
# Raised for damaged or foreign content by zipfile, json, NumPy and pandas.
_UNREADABLE = (
    LookupError, ValueError, TypeError, AttributeError, EOFError, NotImplementedError, RuntimeError, ArithmeticError,
    AssertionError, zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip


@contextmanager
def _decoding() -> Iterator[None]:
    """Around calls of other libraries alone: what they can't read is damaged, whatever they raise."""
    try:
        yield
    except Damaged:
        raise
    except _UNREADABLE as error:
        raise Damaged(str(error) if type(error) is ValueError else "") from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise Damaged("") from error  # a place before the start of the file


class _Refused(Exception):  # noqa: N818 - said of a file
    """The file is a good one, of a version to come or one that is gone, or would take more memory than allowed."""


def _read(archive: _Archive, path: str | Path) -> Any:
    """The result. Damage is `Damaged`; an error of another kind is ours, and says so."""
    description = archive.json("result.json")
    need(isinstance(description, dict) and description.get("format") == FORMAT, "its description is another one")
    form = _part(description, "version", int)
    if form > VERSION:
        raise _Refused(f"was written by a newer losslens (file version {form}): update")
    try:
        content = description.get("result")
        result = _ResultReader(archive, set(_referenced(content))).unpack(content)
        need(isinstance(result, Saveable), "its content is no result")
    except (Damaged, _Refused, OSError, MemoryError):
        raise
    except Retired as gone:
        written = f"was written by an earlier losslens (file version {form})"
        raise _Refused(f"{written}, and this one has no {gone}: compute the result again") from None
    except Exception as error:
        writer = str(description.get("losslens", "0.1.0, or a state before it"))[:50]
        error.add_note(
            f"losslens {_release()} could not read {path}, written by losslens {writer}. The file is not known to be "
            "damaged: this is an error of losslens"
        )
        raise
    return result


def _part(thing: dict[str, Any], name: str, kind: type) -> Any:
    """An entry of a description; Damaged unless it is of this type."""
    value = thing.get(name)
    need(isinstance(value, kind) and not isinstance(value, bool), f"the description has no {name}, or another one")
    return value


def _referenced(thing: Any, level: int = 0) -> Iterator[str]:
    """The names of the arrays that a description refers to."""
    need(level < NESTED, "its description is nested too deeply")
    if isinstance(thing, dict):
        if isinstance(thing.get("array"), str):
            yield thing["array"]
        thing = list(thing.values())
    if isinstance(thing, list):
        for item in thing:
            yield from _referenced(item, level + 1)


class _Archive:
    """The members of a file; none is read before its size has been compared with its header and with a limit."""

    def __init__(self, archive: zipfile.ZipFile, limit: int) -> None:
        self.archive, self.left, self.limit = archive, limit, limit

    def json(self, name: str) -> Any:
        """A member as JSON."""
        info = self._info(name, OF_JSON)
        with _decoding(), self.archive.open(info) as member:
            return json.loads(member.read(info.file_size))  # never more, whatever it would inflate to

    def claim(self, names: Iterable[str]) -> None:
        """Raise unless these arrays, together, fit into memory."""
        for name in names:
            self._info(f"{name}.npy", 1)

    def array(self, name: str) -> NDArray[Any]:
        """An array, whose header must agree with the size of the member."""
        info = self.archive.getinfo(f"{name}.npy")  # it is there: `claim` looked
        with _decoding(), self.archive.open(info) as member:
            shape, dtype = _header(member)
            size = info.file_size - member.tell()
        usual = dtype.kind in "biufmMUS" and (dtype.itemsize > 0 or math.prod(shape) == 0)
        need(usual, f"{name} is an array of {dtype}, which results don't have")
        fits = min(shape, default=0) >= 0 and math.prod(shape) * dtype.itemsize == size
        need(fits, f"{name} declares shape {shape} of {dtype}, but the file holds {size} bytes")
        with _decoding(), self.archive.open(info) as member:
            array = np.lib.format.read_array(member, allow_pickle=False)
        return array if dtype.isnative else array.astype(dtype.newbyteorder("="))

    def _info(self, name: str, times: int) -> zipfile.ZipInfo:
        need(name in self.archive.NameToInfo, f"it holds no {name[:50]}")
        info = self.archive.getinfo(name)
        usual = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        need(usual, f"{name} is compressed in a way that results are not")
        self.left -= times * info.file_size
        if self.left < 0:
            needs = size_in_words(self.limit - self.left)
            raise _Refused(
                f"says that it holds more than {size_in_words(self.limit)} of content, which is unusual for its size; "
                f"if you trust the file, pass memory='{needs}' or more"
            )
        return info


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(member)
    need(version in readers, f"NumPy's format {version} is not used by results")
    try:
        shape, _, dtype = readers[version](member)
    except Exception:  # noqa: BLE001  NumPy parses it as Python, whose tokenizer and parser raise many kinds
        raise Damaged("a header of an array is no header") from None
    return shape, dtype


class _Packer:
    """Converts a result to JSON; arrays are collected under numbered names, shared objects are stored once."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        # id, or of an array its place in memory -> number, and the object, so that neither is used again
        self.seen: dict[Any, tuple[int, Any]] = {}

    def pack(self, thing: Any) -> Any:
        if isinstance(thing, Stored):
            thing = thing.stored
        if isinstance(thing, Redrawn):
            thing = thing.drawn
        if isinstance(thing, PredictionScore):
            thing = thing.without_function
        if isinstance(thing, np.ndarray):
            return self._array(thing)
        if isinstance(thing, Loss):
            return {"loss": thing.metadata()}
        if isinstance(thing, Design) or (is_dataclass(thing) and not isinstance(thing, type)):
            return self._object(thing)
        if isinstance(thing, dict):
            return {"dict": [[key, self.pack(value)] for key, value in thing.items()]}
        if isinstance(thing, (tuple, list)):
            return {"tuple": [self.pack(item) for item in thing]}
        return _scalar(thing)

    def _array(self, array: np.ndarray[Any, Any]) -> Any:
        if array.dtype == object:
            return {"objects": [_scalar(item) for item in array.ravel()], "shape": list(array.shape)}
        place = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        key = f"a{self.seen.setdefault(place, (len(self.seen), array))[0]}"  # results that share it have views of it
        self.arrays[key] = array
        return {"array": key}

    def _object(self, thing: Any) -> Any:
        if id(thing) in self.seen:
            return {"same": self.seen[id(thing)][0]}
        name = NAMES_IN_FILES.get(type(thing), type(thing).__name__)
        if name not in Stored.kinds:
            raise TypeError(f"{thing!r} can't be saved: loading it would need your code")
        number = self.seen.setdefault(id(thing), (len(self.seen), thing))[0]
        content = {FIELDS_IN_FILES.get(f.name, f.name): self.pack(getattr(thing, f.name)) for f in fields(thing)}
        return {"object": name, "number": number, "fields": content}


def _scalar(value: Any) -> Any:
    if is_missing(value) and missing_name(value) in _MISSING:  # JSON has null and NaN
        return {"missing": missing_name(value)}
    plain = plain_label(value)
    if isinstance(plain, dt.datetime):
        zone = getattr(plain.tzinfo, "key", getattr(plain.tzinfo, "zone", None))  # of zoneinfo, and of pytz
        return {"datetime": plain.isoformat()} | ({} if zone is None else {"zone": zone})
    if isinstance(plain, dt.date):
        return {"date": plain.isoformat()}
    if isinstance(plain, tuple):  # a row label of a pandas MultiIndex
        return {"tuple": [_scalar(item) for item in plain]}
    return plain


_MISSING = ("NaT", "NA")


def _absent(name: str) -> Any:
    """A missing value by its name; None for one of pandas where that is not installed."""
    if name == "NaT":
        return np.datetime64("NaT", "ns")
    if find_spec("pandas") is None or name != "NA":
        return None
    import pandas as pd

    return pd.NA


def _moment(text: str, zone: str | None) -> dt.datetime:
    """A time; of pandas where that is installed and finer than Python's, or in a zone.

    Those of Python have no nanoseconds, and those of one zone are equal in the hour that occurs twice.
    """
    moment, finer = dt.datetime.fromisoformat(text), re.search(r"\.\d{6}(\d{3})", text)
    if (zone is None and finer is None) or find_spec("pandas") is None:
        return moment
    import pandas as pd

    exact = pd.Timestamp(moment) + pd.Timedelta(int(finer[1]) if finer else 0, "ns")
    with suppress(ZoneInfoNotFoundError, OSError):  # its offset is in the text, on any machine
        exact = exact if zone is None else exact.tz_convert(ZoneInfo(zone))
    return cast("dt.datetime", exact)


class _ResultReader:
    """Makes objects of a description; each is checked as soon as its parts are made."""

    def __init__(self, archive: _Archive, names: set[str]) -> None:
        archive.claim(names)
        self.archive = archive
        self.arrays: dict[str, NDArray[Any]] = {}
        self.objects: dict[int, Any] = {}

    def unpack(self, thing: Any) -> Any:
        if not isinstance(thing, dict):
            return thing
        if "array" in thing:
            return self._array(_part(thing, "array", str))
        if "objects" in thing:
            return self._objects(
                [self.unpack(item) for item in _part(thing, "objects", list)], _part(thing, "shape", list)
            )
        if "missing" in thing:
            return _absent(_part(thing, "missing", str))
        if "text" in thing:
            return str(thing["text"])
        if "datetime" in thing:
            with _decoding():
                return _moment(thing["datetime"], thing.get("zone"))
        if "date" in thing:
            with _decoding():
                return dt.date.fromisoformat(thing["date"])
        if "loss" in thing:
            with _decoding():
                loss = from_metadata(thing["loss"])
            check_loss(loss)
            return loss
        if "dict" in thing:
            pairs = _part(thing, "dict", list)
            named = all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], SCALARS) for pair in pairs)
            need(named, "entries without a name")
            return {key: self.unpack(value) for key, value in pairs}
        if "tuple" in thing:
            return tuple(self.unpack(item) for item in _part(thing, "tuple", list))
        if "same" in thing:
            number = _part(thing, "same", int)
            need(number in self.objects, f"there is no object {number}")
            return self.objects[number]
        return self._object(thing)

    def _objects(self, items: list[Any], shape: list[Any]) -> NDArray[Any]:
        parts = [part for item in items for part in (item if isinstance(item, tuple) else (item,))]
        plain = all(is_missing(part) or isinstance(part, SCALARS) for part in parts)
        need(plain, "values of a column are lists, or objects")
        fits = len(shape) <= 8 and all(type(size) is int and 0 <= size < 1 << 31 for size in shape)
        need(fits and math.prod(shape) == len(items), f"{len(items)} values for another shape")
        return np.fromiter(items, object, len(items)).reshape(shape)

    def _array(self, name: str) -> NDArray[Any]:
        if name not in self.arrays:
            self.arrays[name] = self.archive.array(name)
        return self.arrays[name]

    def _object(self, thing: dict[str, Any]) -> Any:
        name, number = _part(thing, "object", str), _part(thing, "number", int)
        content = {FIELDS.get(key, key): self.unpack(value) for key, value in _part(thing, "fields", dict).items()}
        block = content.get("block")
        if isinstance(block, np.ndarray) and block.dtype.kind in "iu" and block.size and block.max() >= len(block):
            content["block"] = np.unique(block, return_inverse=True)[1]  # matrices have a row for each number
        kind = Stored.kinds.get(name)
        if name in RETIRED:
            raise Retired(name)
        need(kind is not None and is_dataclass(kind), f"{name[:50]} is no part of a result")
        check_fields(cast("type", kind), content)
        with refusing():
            result = cast("type", kind)(**content)
        check(result)
        self.objects[number] = result
        return result
