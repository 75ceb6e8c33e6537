"""Results in files: a zip archive of NumPy arrays and a JSON description, without any code, and a digest of both.

Whatever was damaged or edited has another digest, so a result that is read is one that was saved: nothing else is
checked. Files of versions before 5 have none; the archive's own checksums show damage there.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import re
import zipfile
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from stat import S_ISREG
from typing import IO, Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from losslens.cells.matrix import Cells, Means
from losslens.cells.pool import Pool
from losslens.cells.row_sums import InfluenceSums
from losslens.donors.conditional import Conditioning
from losslens.donors.designs import DESIGNS, Design, Redrawn, Shifts
from losslens.donors.layout import CommonGrid, OwnDonors
from losslens.losses import Loss, from_metadata
from losslens.results.base import Saveable, Stored
from losslens.results.files import atomic_file, check_name
from losslens.tables.checks import memory_bytes
from losslens.tables.column_scores import CodedRows
from losslens.tables.columns import is_missing, missing_name
from losslens.tables.distribution_shift import DistributionShift
from losslens.tables.row_labels import plain_label
from losslens.tables.sample import Sample, Totals
from losslens.text import size_in_words
from losslens.uncertainty.inference import Estimates
from losslens.uncertainty.pooled_scores import PooledScore
from losslens.uncertainty.prediction_scores import PredictionScore, TableScore
from losslens.uncertainty.scored_cells import ColumnScore, ScoredCells, ScoredRows

FORMAT = "losslens result"
VERSION = 5  # 2: rows for the extrapolation, sums over files; 3: labels of rows; 4: parts of interactions; 5: a digest
DESCRIPTION, DIGEST = "result.json", "digest.json"  # members of the archive
# Files refer to classes by name; these two have another name in files.
NAMES_IN_FILES = {CommonGrid: "Common", OwnDonors: "PerRow"}
FIELDS_IN_FILES = {"layout": "meeting", "donor_weight": "lent"}  # likewise of fields
FIELDS = {in_files: name for name, in_files in FIELDS_IN_FILES.items()}
# Results register themselves; these are the classes of other rooms that they contain.
Stored.kinds |= {
    NAMES_IN_FILES.get(kind, kind.__name__): kind
    for kind in (
        Sample, Totals, CodedRows, Cells, Means, InfluenceSums, CommonGrid, OwnDonors, Conditioning,
        DistributionShift, Estimates, Shifts,
        PredictionScore, TableScore, Pool, PooledScore, ColumnScore, ScoredRows, ScoredCells, *DESIGNS,
    )
}  # fmt: skip
USUAL, MOST_TIMES = 1 << 30, 100  # bytes of content that every file may have, and as a multiple of its size


def save(result: Any, path: str | Path) -> None:
    """Write a result to one file."""
    packer, digest = _Packer(), hashlib.sha256()
    description = {"format": FORMAT, "version": VERSION, "losslens": _release(), "result": packer.pack(result)}
    with atomic_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open(DESCRIPTION, "w") as member:
            _Digested(member, digest).write(json.dumps(description, indent=1).encode())
        for key, array in packer.arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(_Digested(member, digest), array, allow_pickle=False)
        archive.writestr(DIGEST, json.dumps(digest.hexdigest()))


class _Digested:
    """A member of an archive whose content is part of the digest."""

    def __init__(self, member: IO[bytes], digest: Any) -> None:
        self.member, self.digest = member, digest

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return self.member.write(content)


def load(path: str | Path, memory: str | int | None = None) -> Any:
    """Read a result that `save` wrote; neither the model nor the data is needed.

    A file that is damaged, or was edited, is refused with a ValueError; so is one of a release whose results this one
    can't read, with its version.

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
    content = Path(path).read_bytes()
    limit = max(USUAL, MOST_TIMES * len(content)) if memory is None else memory_bytes(memory)
    try:
        members = _members(content, limit)
        description = json.loads(members[DESCRIPTION])
        version, written = int(description["version"]), description["result"]
        _need(description["format"] == FORMAT, "its description has another format")
        _need(version != VERSION or DIGEST in members, "it has no checksum")
    except _Refused as error:
        raise ValueError(f"{path} {error}") from None
    except Exception as error:  # whatever zipfile, zlib and json raise for content that is none
        why = f" ({' '.join(str(error).split())[:200]})" if type(error) is ValueError else ""
        raise ValueError(f"{path} is not a losslens result, or is damaged{why}; save it again") from error
    if version > VERSION:
        raise ValueError(f"{path} was written by a newer losslens (file version {version}): update")
    try:
        result = _Reader(members).unpack(written)
        _need(isinstance(result, Saveable), "it holds no result")
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        why = text if isinstance(error, _Refused) else f"can't read it ({text})"
        writer = "an earlier losslens" if version < VERSION else f"losslens {description.get('losslens')}"
        doubts = "" if DIGEST in members else "is not a losslens result, or is damaged, or "
        raise ValueError(
            f"{path} {doubts}was written by {writer} (file version {version}), and this one {why}: compute the result "
            "again"
        ) from error
    return result


def _release() -> str:
    """The version of the library; "unknown" where it runs from a folder, without having been installed."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    with suppress(PackageNotFoundError):
        return version("losslens")
    return "unknown"


class _Refused(Exception):  # noqa: N818 - said of a file
    """The file would take more memory than allowed, or has a class or field that is gone."""


def _need(condition: bool, sentence: str) -> None:
    if not condition:
        raise ValueError(sentence)


def _members(content: bytes, limit: int) -> dict[str, bytes]:
    """The members of an archive by name, whose digest is that of the file; none is read if together they are too large.

    Never more is inflated than the directory says.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(info.file_size for info in archive.infolist())
        if size > limit:
            raise _Refused(
                f"says that it holds more than {size_in_words(limit)} of content, which is unusual for its size; "
                f"if you trust the file, pass memory='{size_in_words(size)}' or more"
            )
        usual = {info.compress_type for info in archive.infolist()} <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
        _need(usual, "it is compressed in a way that results are not")
        members = {}
        for info in archive.infolist():
            with archive.open(info) as member:
                members[info.filename] = member.read(info.file_size)
    if DIGEST in members:
        digest = hashlib.sha256()
        for name, part in members.items():
            digest.update(part if name != DIGEST else b"")
        _need(json.loads(members[DIGEST]) == digest.hexdigest(), "it was changed after it was saved")
    return members


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


class _Reader:
    """Makes objects of a description and the arrays beside it."""

    def __init__(self, members: dict[str, bytes]) -> None:
        self.members = members
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.objects: dict[int, Any] = {}

    def unpack(self, thing: Any) -> Any:
        """The object that a part of the description stands for."""
        match thing:
            case {"array": name}:
                return self._array(name)
            case {"objects": items, "shape": shape}:
                return np.fromiter(map(self.unpack, items), object, len(items)).reshape(shape)
            case {"missing": name}:
                return _absent(name)
            case {"text": text}:
                return str(text)
            case {"datetime": text}:
                return _moment(text, thing.get("zone"))
            case {"date": text}:
                return dt.date.fromisoformat(text)
            case {"loss": metadata}:
                return from_metadata(metadata)
            case {"dict": pairs}:
                return {key: self.unpack(value) for key, value in pairs}
            case {"tuple": items}:
                return tuple(map(self.unpack, items))
            case {"same": number}:
                return self.objects[number]
            case {"object": name, "number": number, "fields": content}:
                self.objects[number] = self._object(name, content)
                return self.objects[number]
        return thing

    def _array(self, name: str) -> np.ndarray[Any, Any]:
        if name not in self.arrays:
            array = np.lib.format.read_array(io.BytesIO(self.members.pop(f"{name}.npy")), allow_pickle=False)
            self.arrays[name] = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        return self.arrays[name]

    def _object(self, name: str, parts: dict[str, Any]) -> Any:
        kind = Stored.kinds.get(name)
        if kind is None:
            raise _Refused(f"has no {name}")
        content = {FIELDS.get(key, key): self.unpack(value) for key, value in parts.items()}
        for gone in content.keys() - {field.name for field in fields(kind)}:  # which most results left empty
            value = content.pop(gone)
            if not isinstance(value, bool | tuple | None) or value:
                raise _Refused(f"has no {gone}")
        block = content.get("block")
        if isinstance(block, np.ndarray) and block.dtype.kind in "iu" and block.size and block.max() >= len(block):
            content["block"] = np.unique(block, return_inverse=True)[1]  # matrices have a row for each number
        return kind(**content)
