"""Models from files, and the columns they were fitted on. Files that can run code are read on request only."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslens.cli.errors import existing_file, reason
from losslens.tables.features import fitted_names

PICKLES = (".joblib", ".pkl", ".pickle")
DAMAGED = "it is damaged, or of another format"
# Libraries whose classes hold numbers, names and other models: a message may suggest to trust them.
ESTIMATORS = ("sklearn", "xgboost", "lightgbm", "catboost", "imblearn", "interpret", "statsmodels", "pygam", "ngboost")
TOOLS = {"conftest", "datasets", "externals", "testing", "tests"}  # of their modules: they hold no estimators
EXTRAS = {"skops": "safe", "onnxruntime": "onnx", "onnx": "onnx", "xgboost": "xgboost", "lightgbm": "lightgbm"}


def read_model(name: str, *, trust: bool = False, trusted: Sequence[str] = ()) -> Any:
    """A model from a file, by its suffix, or from Python, as ``module:name``.

    Parameters
    ----------
    name
        A path, or ``module:name`` of a function or a fitted model; the working directory is searched, too.
    trust
        Read joblib and pickle files, which run any code that they hold.
    trusted
        Names of types that a skops file may hold besides those that skops lists as safe.

    >>> read_model("math:sqrt")(4)
    2.0
    """
    path = Path(name)
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", name) and not path.exists():
        return from_python(name)
    existing_file(name, "model")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        endings = ", ".join(SUFFIXES)
        if suffix in (".csv", ".gz", ".tsv", ".parquet", ".feather", ".arrow", ".ipc"):
            raise ValueError(f"{name} is a table, not a model: the model comes first, then the data")
        raise ValueError(f"{name}: unknown kind of model; its name must end in one of {endings}, or be module:name")
    if suffix in PICKLES and not trust:
        raise ValueError(
            f"{name} is a pickle: reading it runs any code in it. Add --trust if you wrote it yourself or trust its "
            "author; skops and ONNX files need no trust"
        )
    return _read(path, suffix, trusted)


def _read(path: Path, suffix: str, trusted: Sequence[str]) -> Any:
    what, read = SUFFIXES[suffix]
    try:
        return read(path, trusted)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        advice = f': pip install "losslens[{extra}]"' if extra else ", which is not installed"
        raise ValueError(f"reading {path} needs {error.name}{advice}") from error
    except UntrustedError:
        raise
    except Exception as error:  # libraries raise different ones for a damaged file
        raise ValueError(f"could not read {path} as {what}: {reason(error)}") from error


class UntrustedError(ValueError):
    """Its message is complete: it says what to do."""


def _skops(path: Path, trusted: Sequence[str]) -> Any:
    from skops import io

    unknown = io.get_untrusted_types(file=path)
    strange = [name for name in unknown if name not in trusted]
    unsafe = [name for name in strange if not _is_estimator_class(name)]
    if unsafe:
        raise UntrustedError(
            f"{path} asks for {', '.join(unsafe[:5])}, which is no class of a library of estimators and may run "
            "commands; don't use the file unless you know who wrote it, and why it needs that"
        )
    if strange:
        raise UntrustedError(
            f"{path} holds types that skops does not list as safe; if you trust them, add "
            + " ".join(f"--trust-type {name}" for name in strange)
        )
    return io.load(path, trusted=[name for name in unknown if name in trusted])


def _is_estimator_class(name: str) -> bool:
    """Whether a type that a file names is a class of a library of estimators.

    Functions may run commands; of those, scikit-learn's own metrics are in files of models that were tuned by one.
    """
    module, _, attribute = name.rpartition(".")
    if name == "collections.OrderedDict":
        return True
    parts = module.split(".")
    if parts[0] not in ESTIMATORS or TOOLS & {part.lstrip("_") for part in parts}:
        return False
    try:
        thing = getattr(importlib.import_module(module), attribute, None)
        metrics = importlib.import_module("sklearn.metrics") if parts[:2] == ["sklearn", "metrics"] else None
        return isinstance(thing, type) or (thing is not None and getattr(metrics, attribute, None) is thing)
    except Exception:  # noqa: BLE001  an unknown module, or a library that is not installed
        return False


def _onnx(path: Path, trusted: Sequence[str]) -> Any:
    import onnxruntime  # noqa: F401  before our own module, so that the error names onnxruntime

    from losslens.cli.onnx_files import read_onnx

    return read_onnx(path)


def _pickle(path: Path, trusted: Sequence[str]) -> Any:
    import joblib

    if str(Path.cwd()) not in sys.path:  # a model's class may be defined in a file there
        sys.path.insert(0, str(Path.cwd()))
    return joblib.load(path)


def _xgboost(path: Path, trusted: Sequence[str]) -> Any:
    import xgboost

    content = path.read_bytes()
    end = content.rstrip()[-100:]
    # How both of its formats begin and end. XGBoost reads beyond the end of a truncated file and may crash.
    if not (content.startswith(b"{") and b"version" in end and end.endswith(b"}")):
        raise ValueError(DAMAGED)
    booster = xgboost.Booster()
    booster.load_model(bytearray(content))  # given a path, it would warn of the suffix .model
    return booster


def _lightgbm(path: Path, trusted: Sequence[str]) -> Any:
    import lightgbm

    content = path.read_bytes()
    if not content.startswith(b"tree") or b"end of trees" not in content:  # a truncated file would crash the process
        raise ValueError(DAMAGED)
    lightgbm.register_logger(_Silence())  # it writes to stdout otherwise
    return lightgbm.Booster(model_file=str(path))


def _booster(path: Path, trusted: Sequence[str]) -> Any:
    """A booster of either library; LightGBM's text begins with "tree"."""
    with path.open("rb") as file:
        return (_lightgbm if file.read(4) == b"tree" else _xgboost)(path, trusted)


SUFFIXES: dict[str, tuple[str, Callable[[Path, Sequence[str]], Any]]] = {
    ".skops": ("a skops file", _skops),
    ".onnx": ("an ONNX model", _onnx),
    ".json": ("an XGBoost model", _xgboost),
    ".ubj": ("an XGBoost model", _xgboost),
    ".txt": ("a LightGBM model", _lightgbm),
    ".lgb": ("a LightGBM model", _lightgbm),
    ".model": ("an XGBoost or LightGBM model", _booster),
} | dict.fromkeys(PICKLES, ("a pickle", _pickle))


class _Silence:
    def info(self, text: str) -> None:
        pass

    def warning(self, text: str) -> None:
        pass


def from_python(name: str) -> Any:
    """An object by ``module:name``; the working directory is searched, too."""
    module_name, _, rest = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        thing: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.split(".")[0] != error.name.split(".")[0]:
            raise ValueError(f"{name}: the module {module_name} needs {error.name}, which is not installed") from error
        raise ValueError(f"{name}: there is no module {module_name}, installed or in the working directory") from error
    except (Exception, SystemExit) as error:  # the user's code may raise any
        raise ValueError(f"{name}: importing {module_name} failed: {type(error).__name__}: {reason(error)}") from error
    for part in rest.split("."):
        if not hasattr(thing, part):
            raise ValueError(f"{name}: the module {module_name} has no {rest}")
        thing = getattr(thing, part)
    return thing


@dataclass(frozen=True)
class Columns:
    """The input columns of a model: names in order, or their number, or neither."""

    names: tuple[str, ...] | None
    count: int | None


def columns_of(model: Any) -> Columns:
    """The columns that a model was fitted on; names that a library generated for an array don't count."""
    names, count = fitted_names(model), getattr(model, "n_features_in_", None)
    for attribute in ("num_features", "num_feature"):  # of boosters of XGBoost and LightGBM
        count = getattr(model, attribute)() if count is None and hasattr(model, attribute) else count
    return Columns(names, count if names is None else len(names))
