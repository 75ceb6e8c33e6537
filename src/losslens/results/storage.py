"""Results in files: a zip archive of NumPy arrays and a JSON description, without any code."""

from __future__ import annotations

import datetime as dt
import io
import json
import zipfile
import zlib
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from losslens.cells.matrix import Cells, Means
from losslens.cells.row_sums import InfluenceSums
from losslens.donors.conditional import Conditioning
from losslens.donors.designs import DESIGNS, Design, Shifts
from losslens.donors.layout import CommonGrid, OwnDonors
from losslens.losses import Loss, from_metadata
from losslens.results.base import Saveable, Stored
from losslens.results.files import atomic_file
from losslens.tables.column_scores import CodedRows
from losslens.tables.sample import Sample, Totals
from losslens.uncertainty.standard_errors import jackknife_factor

FORMAT = "losslens result"
VERSION = 2  # 2: rows for the extrapolation, sums over files
# Files refer to classes by name; these two were renamed after the first files were written.
NAMES_IN_FILES = {CommonGrid: "Common", OwnDonors: "PerRow"}
# Results register themselves; these are the classes of other rooms that they contain.
Stored.kinds |= {
    NAMES_IN_FILES.get(kind, kind.__name__): kind
    for kind in (
        Sample, Totals, CodedRows, Cells, Means, InfluenceSums, CommonGrid, OwnDonors, Conditioning, Shifts, *DESIGNS,
    )
}  # fmt: skip


def save(result: Any, path: str | Path) -> None:
    """Write a result to one file."""
    packer = _Packer()
    description = {"format": FORMAT, "version": VERSION, "result": packer.pack(result)}
    with atomic_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("result.json", json.dumps(description, indent=1))
        for key, array in packer.arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def load(path: str | Path) -> Any:
    """Read a result that `save` wrote; neither the model nor the data is needed.

    >>> load("no such file")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
    """
    try:
        with zipfile.ZipFile(path) as archive:
            description = json.loads(archive.read("result.json"))
            if not isinstance(description, dict) or description.get("format") != FORMAT:
                raise KeyError("format")
            newer = description["version"] > VERSION
            arrays = {} if newer else {name: _array(archive, name) for name in archive.namelist()}
            result = None if newer else _unpack(description["result"], arrays, {})
    except (zipfile.BadZipFile, *_UNREADABLE) as error:
        raise ValueError(f"{path} is not a losslens result, or is damaged; save it again") from error
    if newer:
        raise ValueError(f"{path} was written by a newer losslens (file version {description['version']}): update")
    if not isinstance(result, Saveable):
        raise ValueError(f"{path} is not a losslens result, or is damaged; save it again")
    return result


# Raised for damaged or foreign content by zipfile, json, NumPy and our own classes.
_UNREADABLE = (KeyError, ValueError, TypeError, AttributeError, EOFError, NotImplementedError, RuntimeError, zlib.error)


def _array(archive: zipfile.ZipFile, name: str) -> Any:
    if not name.endswith(".npy"):
        return None
    return np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)


class _Packer:
    """Converts a result to JSON; arrays are collected under numbered names, shared objects are stored once."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.seen: dict[int, tuple[int, Any]] = {}  # id -> number, and the object, so that its id is not reused

    def pack(self, thing: Any) -> Any:
        if isinstance(thing, Stored):
            thing = thing.stored
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
        key = f"a{self.seen.setdefault(id(array), (len(self.seen), array))[0]}"
        self.arrays[key] = array
        return {"array": key}

    def _object(self, thing: Any) -> Any:
        if id(thing) in self.seen:
            return {"same": self.seen[id(thing)][0]}
        name = NAMES_IN_FILES.get(type(thing), type(thing).__name__)
        if name not in Stored.kinds:
            raise TypeError(f"{thing!r} can't be saved: loading it would need your code")
        number = self.seen.setdefault(id(thing), (len(self.seen), thing))[0]
        content = {field.name: self.pack(getattr(thing, field.name)) for field in fields(thing)}
        return {"object": name, "number": number, "fields": content}


def _scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dt.datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    return {"text": str(value)}


def _unpack(thing: Any, arrays: dict[str, Any], known: dict[int, Any]) -> Any:
    if not isinstance(thing, dict):
        return thing
    if "array" in thing:
        return arrays[thing["array"] + ".npy"]
    if "objects" in thing:
        array = np.empty(len(thing["objects"]), dtype=object)
        array[:] = [_unpack(item, arrays, known) for item in thing["objects"]]
        return array.reshape(thing["shape"])
    if "text" in thing:
        return thing["text"]
    if "datetime" in thing:
        return dt.datetime.fromisoformat(thing["datetime"])
    if "date" in thing:
        return dt.date.fromisoformat(thing["date"])
    if "loss" in thing:
        return from_metadata(thing["loss"])
    if "dict" in thing:
        return {key: _unpack(value, arrays, known) for key, value in thing["dict"]}
    if "tuple" in thing:
        return tuple(_unpack(item, arrays, known) for item in thing["tuple"])
    if "same" in thing:
        return known[thing["same"]]
    content = {key: _unpack(value, arrays, known) for key, value in thing["fields"].items()}
    if thing["object"] == "Whole":
        return content
    if (whole := content.pop("whole", None)) is not None:
        content |= _from_whole(content, whole)
    known[thing["number"]] = Stored.kinds[thing["object"]](**content)
    return known[thing["number"]]


def _from_whole(content: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Convert the field `whole` of version 0.1: sums over all rows of files, scaled by the jackknife factors."""
    n, units, rows, noise = (whole[name] for name in ("n", "units", "rows", "noise"))
    pairs, single = jackknife_factor(units), units / (units - 1)
    totals = Totals(n, rows, units, 1 - 1 / whole["up"], whole["error"], whole["error_variance"] / single)
    upgraded = {"sample": replace(content["sample"], totals=totals)}
    if "means" in content and len(whole["moved"]):
        square, cube = (whole["variance"] - noise) / pairs, whole["cubes"] / pairs**1.5
        sums = InfluenceSums(square, cube, whole["covariance"] / np.sqrt(pairs * single), noise)
        upgraded["means"] = replace(content["means"], influences=sums)
    return upgraded
