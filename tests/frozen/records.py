"""What a result says, as numbers and words under the names that users read; and many of them in one folder.

A result is walked along its public names: fields, properties, methods without required arguments, items of mappings,
columns of frames. Nothing refers to a class or a name of the library, so that results may change both.
"""

import inspect
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version

import narwhals as nw
import numpy as np

SEP = "::"  # between the names of a path
MODEL = "the model's own predictions"
# Where objects with public numbers live; others, such as cells and layouts, are inside.
WALKED = ("losslens.results", "losslens.page", "losslens.uncertainty.bands", "losslens.uncertainty.inference")
WALKED += ("losslens.uncertainty.standard_errors",)
WRITTEN = ("losslens.donors",)  # of these the repr says everything
LEFT_OUT = {"extrapolated", "html", "json", "save"}  # the same again; a file. And "known_...": what was computed before
FIXED = {"random_state": 0, "n_jobs": 1, "progress": False}  # passed to methods that take them
RAISED = (
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn", "lightgbm", "catboost", "pandas", "polars")


@dataclass
class Record:
    """One call: its numbers and words by path, what it raised, and its seconds."""

    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    labels: dict[str, list[str]] = field(default_factory=dict)  # words that are data: names, categories, rules
    words: dict[str, str] = field(default_factory=dict)  # sentences, and why there is no number
    raised: str = ""
    seconds: float = 0.0


def record(thing):
    """Everything that a result says, without what it raises by itself."""
    found = Record()
    _Walk(found).visit(thing, (), ())
    return found


class _Walk:
    """One walk: each object is visited once, and none inside another of its class, which may go on for ever."""

    def __init__(self, found):
        self.found, self.seen = found, {}

    def visit(self, thing, path, inside):
        name = SEP.join(path)
        if thing is None:
            return
        if isinstance(thing, str):
            self.found.words[name] = ADDRESS.sub("", thing)
        elif isinstance(thing, (bool, int, float, np.number, np.bool_)):
            self.found.numbers[name] = np.asarray(thing, float)
        elif isinstance(thing, np.ndarray):
            self.array(thing, name)
        elif isinstance(thing, nw.Series) or type(thing).__name__ in ("Series", "Index", "ChunkedArray"):
            self.array(np.asarray(thing), name)
        elif _is_frame(thing):
            for column in (frame := nw.from_native(thing, eager_only=True)).columns:
                self.array(frame[column].to_numpy(), f"{name}{SEP}{column}")
        elif isinstance(thing, (list, tuple, set, frozenset)):
            self.sequence(thing, path, inside)
        elif type(thing).__module__.startswith(WRITTEN):
            self.found.words[name] = ADDRESS.sub("", repr(thing))
        elif isinstance(thing, Mapping) or type(thing).__module__.startswith(WALKED):
            self.inside(thing, path, inside)

    def array(self, values, name):
        if values.dtype.kind in "fiub":
            self.found.numbers[name] = np.asarray(values, float)
            return
        items = values.ravel().tolist()
        if values.dtype == object and all(isinstance(one, (bool, int, float, type(None))) for one in items):
            self.found.numbers[name] = np.array([np.nan if one is None else float(one) for one in items])
        else:
            self.found.labels[name] = [str(one) for one in items]

    def sequence(self, things, path, inside):
        things = sorted(things) if isinstance(things, (set, frozenset)) else things
        keys = getattr(things, "_fields", None) or [str(k) for k in range(len(things))]
        if all(isinstance(one, (str, np.str_)) for one in things):
            self.found.labels[SEP.join(path)] = [str(one) for one in things]
        elif all(isinstance(one, (bool, int, float, np.number, np.bool_)) for one in things):
            self.found.numbers[SEP.join(path)] = np.array(things, float)
        else:
            for key, one in zip(keys, things, strict=True):
                self.visit(one, (*path, key), inside)

    def inside(self, thing, path, inside):
        if id(thing) in self.seen or type(thing) in inside:
            return
        self.seen[id(thing)] = thing  # kept, so that its id stays its own
        if isinstance(thing, Mapping):
            for key, value in thing.items():
                self.visit(value, (*path, str(key)), inside)
        if type(thing).__module__.startswith(WALKED):
            for name in dir(thing):
                if not name.startswith(("_", "plot", "known")) and name not in LEFT_OUT:
                    self.attribute(thing, name, path, (*inside, type(thing)))

    def attribute(self, thing, name, path, inside):
        static = inspect.getattr_static(thing, name)
        if isinstance(static, (classmethod, staticmethod, type)):
            return
        try:
            if not inspect.isfunction(static):
                self.visit(getattr(thing, name), (*path, name), inside)
                return
            parameters = list(inspect.signature(static).parameters.values())[1:]
            if any(one.default is one.empty for one in parameters):
                return
            options = {one.name: FIXED[one.name] for one in parameters if one.name in FIXED}
            self.visit(getattr(thing, name)(**options), (*path, name), inside)
            if name == "interval" and any(one.name == "target" for one in parameters):  # the Monte-Carlo error
                self.visit(thing.interval(target="sample"), (*path, "interval of the draw"), inside)
        except RAISED as error:
            self.found.words[SEP.join((*path, name))] = in_words(error)


def _is_frame(thing):
    return hasattr(thing, "columns") and type(thing).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow")


def in_words(error):
    return ADDRESS.sub("", f"{type(error).__name__}: {error}")


def here():
    """The versions that numbers may depend on."""
    found = {"python": ".".join(map(str, sys.version_info[:2]))}
    for name in LIBRARIES:
        found[name] = version(name)
    return found


def save(records, folder):
    """The numbers of a call as one vector, the rest as text."""
    folder.mkdir(parents=True, exist_ok=True)
    calls = {}
    for name, one in records.items():
        shapes = {path: values.shape for path, values in one.numbers.items()}
        calls[name] = asdict(one) | {"numbers": shapes}
    vectors = {
        str(k): np.concatenate([np.empty(0), *(values.ravel() for values in one.numbers.values())])
        for k, one in enumerate(records.values())
    }
    np.savez(folder / "numbers.npz", **vectors)
    (folder / "calls.json").write_text(json.dumps({"with": here(), "calls": calls}), encoding="utf-8")


def load(folder):
    """The records, and the versions they were made with."""
    if not (folder / "calls.json").exists():
        raise FileNotFoundError(f"{folder} has no frozen numbers; write them with make frozen DIR={folder}")
    stored = json.loads((folder / "calls.json").read_text(encoding="utf-8"))
    records = {}
    with np.load(folder / "numbers.npz") as vectors:
        for k, (name, one) in enumerate(stored["calls"].items()):
            ends = np.cumsum([int(np.prod(shape)) for shape in one["numbers"].values()])
            pieces = np.split(vectors[str(k)], ends[:-1]) if len(ends) else []
            numbers = {
                path: piece.reshape(shape) for (path, shape), piece in zip(one["numbers"].items(), pieces, strict=True)
            }
            records[name] = Record(**(one | {"numbers": numbers}))
    return records, stored["with"]
