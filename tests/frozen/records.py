"""What a result says, as numbers and words under the names that users read; and many of them in one folder.

A result is walked along its public names: fields, properties, methods without required arguments, items of mappings,
columns of frames. No class and no attribute is named here, so that both may change.
"""

import inspect
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

import narwhals as nw
import numpy as np

SEP = "::"  # between the names of a path
MODEL, DRAW = "the model's own predictions", "interval of the draw"
# Where objects with public numbers live; others, such as cells and layouts, are inside.
WALKED = ("losslens.results", "losslens.page", "losslens.uncertainty.bands", "losslens.uncertainty.inference")
WALKED += ("losslens.uncertainty.standard_errors", "losslens.tables.constant", "losslens.tables.distribution_shift")
WRITTEN = "losslens.donors"  # of designs the repr says everything
SKIPPED = re.compile("_|plot|known|(extrapolated|html|json|save)$")  # pictures, files, and what was computed before
FIXED = {"random_state": 0, "n_jobs": 1, "progress": False}  # for methods that take them
NUMBERS = (bool, int, float, np.number, np.bool_)
RAISED = (ArithmeticError, AttributeError, ImportError, LookupError, RuntimeError, TypeError, ValueError)
ADDRESS = re.compile(" at 0x[0-9a-f]+")
LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn", "lightgbm", "catboost", "pandas", "polars")


@dataclass
class Record:
    """One call: numbers and words by path, or what it raised."""

    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    labels: dict[str, list[str]] = field(default_factory=dict)  # words that are data: names, categories, rules
    words: dict[str, str] = field(default_factory=dict)  # sentences, and why there is no number
    raised: str = ""
    seconds: float = 0.0


def record(thing):
    walk = _Walk(Record())
    walk.visit(thing, "", ())
    return walk.found


class _Walk:
    """Each object is visited once, and none inside another of its class, which could go on for ever."""

    def __init__(self, found):
        self.found, self.seen = found, {}

    def visit(self, thing, path, around):
        kind = type(thing)
        if isinstance(thing, str):
            self.found.words[path] = thing
        elif isinstance(thing, NUMBERS):
            self.found.numbers[path] = np.asarray(thing, float)
        elif isinstance(thing, np.ndarray) or kind.__name__ in ("Series", "Index", "RangeIndex", "ChunkedArray"):
            self.array(np.asarray(thing), path)
        elif hasattr(thing, "columns") and kind.__module__.startswith(("pandas", "polars", "pyarrow")):
            frame = nw.from_native(thing, eager_only=True)
            for name in frame.columns:
                self.array(frame[name].to_numpy(), _inside(path, name))
        elif isinstance(thing, (list, tuple, set, frozenset)):
            self.sequence(sorted(thing) if isinstance(thing, (set, frozenset)) else thing, path, around)
        elif kind.__module__.startswith(WRITTEN):
            self.found.words[path] = ADDRESS.sub("", repr(thing))
        elif id(thing) not in self.seen and kind not in around:
            self.seen[id(thing)] = thing  # kept, so that its id stays its own
            self.members(thing, path, around)

    def array(self, values, path):
        items = values.ravel().tolist() if values.dtype == object else []
        if values.dtype.kind in "fiub":
            self.found.numbers[path] = np.asarray(values, float)
        elif items and all(one is None or isinstance(one, NUMBERS) for one in items):
            self.found.numbers[path] = np.array([np.nan if one is None else float(one) for one in items])
        else:
            self.found.labels[path] = [str(one) for one in values.ravel().tolist()]

    def sequence(self, things, path, around):
        if all(isinstance(one, str) for one in things):
            self.found.labels[path] = [str(one) for one in things]
        elif all(isinstance(one, NUMBERS) for one in things):
            self.found.numbers[path] = np.array(things, float)
        else:
            for name, one in zip(getattr(things, "_fields", range(len(things))), things, strict=True):
                self.visit(one, _inside(path, name), around)

    def members(self, thing, path, around):
        for key, value in thing.items() if isinstance(thing, Mapping) else ():
            self.visit(value, _inside(path, key), around)
        if type(thing).__module__.startswith(WALKED):
            for name in sorted(object.__dir__(thing)):  # also what tab completion leaves out
                if not SKIPPED.match(name):
                    self.attempt(_inside(path, name), lambda at, name=name: self.member(thing, name, at, around))

    def attempt(self, path, read):
        try:
            read(path)
        except RAISED as error:
            self.found.words[path] = in_words(error)

    def member(self, thing, name, path, around):
        static, around = inspect.getattr_static(thing, name), (*around, type(thing))
        if not inspect.isfunction(static):
            if not isinstance(static, (classmethod, staticmethod, type)):
                self.visit(getattr(thing, name), path, around)
            return
        parameters = dict(list(inspect.signature(static).parameters.items())[1:])
        if all(one.default is not one.empty for one in parameters.values()):
            fixed = {key: value for key, value in FIXED.items() if key in parameters}
            self.visit(getattr(thing, name)(**fixed), path, around)
        if name == "interval" and "target" in parameters:  # half its width tells the Monte-Carlo error
            draw = path.removesuffix(name) + DRAW
            self.attempt(draw, lambda at: self.array(np.array(thing.interval(target="sample")), at))


def _inside(path, name):
    return f"{path}{SEP}{name}" if path else str(name)


def in_words(error):
    return ADDRESS.sub("", f"{type(error).__name__}: {error}")


def here():
    """The versions that numbers depend on."""
    return {"python": "{}.{}".format(*sys.version_info)} | {name: version(name) for name in LIBRARIES}


def save(records, folder):
    """The numbers of each call as one vector; all the rest as text."""
    folder.mkdir(parents=True, exist_ok=True)
    calls = {
        name: {**vars(one), "numbers": {p: v.shape for p, v in one.numbers.items()}} for name, one in records.items()
    }
    vectors = [np.concatenate([np.empty(0), *map(np.ravel, one.numbers.values())]) for one in records.values()]
    np.savez(folder / "numbers.npz", *vectors)
    (folder / "calls.json").write_text(json.dumps({"with": here(), "calls": calls}), encoding="utf-8")


def load(folder):
    """The records, and the versions they were made with."""
    if not (folder / "calls.json").exists():
        raise FileNotFoundError(f"{folder} has no frozen numbers; before the change: make frozen DIR={folder}")
    stored = json.loads((folder / "calls.json").read_text(encoding="utf-8"))
    records = {}
    with np.load(folder / "numbers.npz") as vectors:
        for vector, (name, one) in zip(vectors.values(), stored["calls"].items(), strict=True):
            pieces = np.split(vector, np.cumsum([int(np.prod(shape)) for shape in one["numbers"].values()])[:-1])
            shaped = {path: v.reshape(shape) for (path, shape), v in zip(one["numbers"].items(), pieces, strict=True)}
            records[name] = Record(**(one | {"numbers": shaped}))
    return records, stored["with"]
