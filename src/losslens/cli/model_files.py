"""Models from files, and what they know of their columns. Files that can run code are read on request only."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PICKLES = (".joblib", ".pkl", ".pickle")
SUFFIXES = {
    ".skops": "a skops file",
    ".onnx": "an ONNX model",
    ".json": "an XGBoost model",
    ".ubj": "an XGBoost model",
    ".txt": "a LightGBM model",
    ".lgb": "a LightGBM model",
    ".model": "an XGBoost or LightGBM model",
} | dict.fromkeys(PICKLES, "a pickle")
DAMAGED = "it is damaged, or something else"
EXTRAS = {"skops": "safe", "onnxruntime": "onnx", "xgboost": "xgboost", "lightgbm": "lightgbm"}


def read_model(name: str, *, trust: bool = False, trusted: Sequence[str] = ()) -> Any:
    """A model from a file, by its suffix, or from Python, as ``module:name``.

    Parameters
    ----------
    name
        A path, or ``module:name`` of a function or a fitted model; modules in the working directory are found.
    trust
        Read joblib and pickle files, which run whatever code they hold.
    trusted
        Types that a skops file may hold besides those that skops knows to be harmless, by name.

    >>> read_model("math:sqrt")(4)
    2.0
    """
    path = Path(name)
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", name) and not path.exists():
        return from_python(name)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {name}")
    if path.is_dir():
        raise IsADirectoryError(f"{name} is a folder, not a model")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise ValueError(f"{name}: what kind of model is it? Its name should end in one of {known}, or be module:name")
    if suffix in PICKLES and not trust:
        raise ValueError(
            f"{name} is a pickle: reading it runs any code that its maker put in. Add --trust if you made it yourself "
            "or trust who did; skops and ONNX files need no trust"
        )
    return _read(path, suffix, trusted)


def _read(path: Path, suffix: str, trusted: Sequence[str]) -> Any:
    try:
        return _reader(path, suffix)(path, trusted)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        advice = f': pip install "losslens[{extra}]"' if extra else ", which is not installed"
        raise ValueError(f"reading {path} needs {error.name}{advice}") from error
    except UntrustedError:
        raise
    except Exception as error:  # each library has its own for a damaged file
        raise ValueError(f"could not read {path} as {SUFFIXES[suffix]}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """What an exception says, in one line."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : |^\[[\d:]+\] \S+:\d+: ", "", text)  # XGBoost: time and line
    return f"{text[:200]}{'...' * (len(text) > 200)}" if text else type(error).__name__


def _reader(path: Path, suffix: str) -> Callable[[Path, Sequence[str]], Any]:
    if suffix == ".skops":
        return _skops
    if suffix == ".onnx":
        return _onnx
    if suffix in PICKLES:
        return _pickle
    if suffix == ".model":  # both libraries' users write it; LightGBM's text begins so
        with path.open("rb") as file:
            suffix = ".txt" if file.read(4) == b"tree" else ".ubj"
    return _xgboost if suffix in (".json", ".ubj") else _lightgbm


class UntrustedError(ValueError):
    """Says itself what to do."""


def _skops(path: Path, trusted: Sequence[str]) -> Any:
    from skops import io

    unknown = io.get_untrusted_types(file=path)
    strange = [name for name in unknown if name not in trusted]
    if strange:
        raise UntrustedError(
            f"{path} holds types that skops does not know to be harmless; if you trust them, add "
            + " ".join(f"--trust-type {name}" for name in strange)
        )
    return io.load(path, trusted=[name for name in unknown if name in trusted])


def _onnx(path: Path, trusted: Sequence[str]) -> Any:
    import onnxruntime  # noqa: F401  before our own module, so that its absence is what is told

    from losslens.cli.onnx_files import read_onnx

    return read_onnx(path)


def _pickle(path: Path, trusted: Sequence[str]) -> Any:
    import joblib

    if str(Path.cwd()) not in sys.path:  # a model may be of a class of the user's own
        sys.path.insert(0, str(Path.cwd()))
    return joblib.load(path)


def _xgboost(path: Path, trusted: Sequence[str]) -> Any:
    import xgboost

    content = path.read_bytes()
    end = content.rstrip()[-100:]
    # How both of its formats begin and end. Of half a file it reads beyond the end, which can kill the process.
    if not (content.startswith(b"{") and b"version" in end and end.endswith(b"}")):
        raise ValueError(DAMAGED)
    booster = xgboost.Booster()
    booster.load_model(bytearray(content))  # by path it would complain of a suffix that isn't its own, .model
    return booster


def _lightgbm(path: Path, trusted: Sequence[str]) -> Any:
    import lightgbm

    content = path.read_bytes()
    if not content.startswith(b"tree") or b"end of trees" not in content:  # half a file would kill the process
        raise ValueError(DAMAGED)
    lightgbm.register_logger(_Silence())  # it writes to stdout otherwise
    return lightgbm.Booster(model_file=str(path))


class _Silence:
    def info(self, text: str) -> None:
        pass

    def warning(self, text: str) -> None:
        pass


def from_python(name: str) -> Any:
    """An object by ``module:name``; modules in the working directory are found."""
    module_name, _, rest = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.split(".")[0] != error.name.split(".")[0]:
            raise ValueError(f"{name}: the module {module_name} needs {error.name}, which is not installed") from error
        raise ValueError(f"{name}: there is no module {module_name}, here or installed") from error
    except Exception as error:  # whatever the user's own code raises
        raise ValueError(f"{name}: importing {module_name} failed: {type(error).__name__}: {reason(error)}") from error
    for part in rest.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{name}: the module {module_name} has no {rest}")
        found = getattr(found, part)
    return found


@dataclass(frozen=True)
class Columns:
    """What a model knows of its input: names in order, or how many there are, or nothing."""

    names: tuple[str, ...] | None
    count: int | None


def columns_of(model: Any) -> Columns:
    """The columns that a model was fitted on; names that a library made up for an array are none."""
    names = getattr(model, "feature_names_in_", None)
    if names is None and callable(getattr(model, "feature_name", None)):
        names = model.feature_name()  # lightgbm.Booster
    for attribute in ("feature_names", "feature_names_"):  # xgboost.Booster, CatBoost
        names = getattr(model, attribute, None) if names is None else names
    count = getattr(model, "n_features_in_", None)
    if count is None and callable(getattr(model, "num_features", None)):
        count = model.num_features()  # xgboost.Booster
    if names is None or not len(names):
        return Columns(None, count)
    names = tuple(map(str, names))
    made_up = all(re.fullmatch(r"(Column_)?\d+", name) for name in names)
    return Columns(None if made_up else names, len(names))


def categories_of(model: Any, words: Sequence[str]) -> dict[str, list[Any] | None]:
    """The categories of a booster's categorical columns; None where they can't be told from its file.

    Parameters
    ----------
    model
        Any model; boosters of XGBoost and LightGBM know categories.
    words
        Columns of the data that hold no numbers.
    """
    kind = f"{type(model).__module__.partition('.')[0]}.{type(model).__name__}"
    if kind == "xgboost.Booster" and model.feature_names and model.feature_types:
        categorical = [n for n, t in zip(model.feature_names, model.feature_types, strict=True) if t == "c"]
        return _xgboost_categories(model, categorical) if categorical else {}
    if kind == "lightgbm.Booster" and model.pandas_categorical:
        return _lightgbm_categories(model, words)
    return {}


def _lightgbm_categories(booster: Any, words: Sequence[str]) -> dict[str, list[Any] | None]:
    """The file lists the values of each categorical column in turn, but names only the unordered ones."""
    header = re.search(r"^feature_infos=(.*)$", booster.model_to_string(num_iteration=1), re.MULTILINE)
    infos = header[1].split() if header else []
    names = booster.feature_name()
    unordered = {name for name, info in zip(names, infos, strict=False) if re.fullmatch(r"-?\d+(:-?\d+)+", info)}
    categorical = [name for name in names if name in unordered or name in words]
    if len(categorical) != len(booster.pandas_categorical):
        return dict.fromkeys(categorical)
    return dict(zip(categorical, booster.pandas_categorical, strict=True))


def _xgboost_categories(booster: Any, categorical: Sequence[str]) -> dict[str, list[Any] | None]:
    if not hasattr(booster, "get_categories"):  # before XGBoost 3.1
        return dict.fromkeys(categorical)
    try:
        known = dict(booster.get_categories(export_to_arrow=True).to_arrow())
    except (ImportError, ValueError):  # no pyarrow; a model of an older XGBoost
        return dict.fromkeys(categorical)
    return {name: None if known.get(name) is None else known[name].to_pylist() for name in categorical}
