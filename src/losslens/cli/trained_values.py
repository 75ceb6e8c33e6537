"""The columns that a model was fitted on, where it states so: numbers or text, and the categories of boosters."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Real
from operator import attrgetter
from typing import Any

from losslens.cli.csv_files import Kind
from losslens.engines.readers.boosters import counts_bytes
from losslens.tables.columns import is_missing

Kinds = dict[str, Kind]
Route = tuple[Sequence[Any], Sequence[str]]  # steps, and the columns that go through them


def kinds_of(model: Any, names: Sequence[str], words: Collection[str]) -> Kinds:
    """Which columns are numbers to a model, and which text; it says nothing about the others.

    Parameters
    ----------
    model
        Any model.
    names
        Its columns, in its order.
    words
        Those that are not numeric in the data.
    """
    with suppress(AttributeError):  # not fitted, or of a release with other attributes
        return _kinds([model], names, words)
    return {}


def _kinds(steps: Sequence[Any], names: Sequence[str], words: Collection[str]) -> Kinds:
    """The kind of each column by the first step that states one."""
    if not steps:
        return {}
    step, *rest = steps
    root, kind = type(step).__module__.partition(".")[0], type(step).__name__
    if step is None or _is(step, "passthrough"):
        return _kinds(rest, names, words)
    if root == "sklearn" and kind in _INNER:
        return _kinds([_INNER[kind](step), *rest], names, words)
    routes = _ROUTES[kind](step, names) if root == "sklearn" and kind in _ROUTES else None
    if routes is not None:
        kinds: Kinds = {}
        for through, columns in routes:
            kinds = _kinds([*through, *rest], columns, words) | kinds
        return kinds
    if hasattr(step, "column_types"):  # of an ONNX file
        types = zip(names, step.column_types(len(names)), strict=True)
        return {name: "text" if issubclass(held, str) else "number" for name, held in types}
    booster = _booster(step)
    return _estimator_kinds(step, names) if booster is None else _booster_kinds(booster, names, words)


def _is(step: Any, word: str) -> bool:
    return isinstance(step, str) and step == word


def _columns(step: Any, names: Sequence[str]) -> list[Route]:
    fitted, chosen = getattr(step, "feature_names_in_", names), step._transformer_to_input_indices
    parts = [(part, chosen[name]) for name, part, _ in step.transformers_ if not _is(part, "drop")]
    return [([part], [str(fitted[position]) for position in positions]) for part, positions in parts]


def _imputed(step: Any, names: Sequence[str]) -> list[Route] | None:
    return [([], names)] if step.statistics_.dtype.kind == "O" else None  # text, of which the next step may say more


_INNER: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("GridSearchCV", "RandomizedSearchCV"), attrgetter("best_estimator_")),
    **dict.fromkeys(("HalvingGridSearchCV", "HalvingRandomSearchCV"), attrgetter("best_estimator_")),
    "TransformedTargetRegressor": attrgetter("regressor_"),
    "TunedThresholdClassifierCV": attrgetter("estimator_"),
    "FixedThresholdClassifier": lambda step: getattr(step, "estimator_", step.estimator),
    "FrozenEstimator": attrgetter("estimator"),
    "CalibratedClassifierCV": lambda step: step.calibrated_classifiers_[0].estimator,
}
_ROUTES: dict[str, Callable[[Any, Sequence[str]], list[Route] | None]] = {
    "Pipeline": lambda step, names: [([part for _, part in step.steps], names)],
    "ColumnTransformer": _columns,
    "FeatureUnion": lambda step, names: [([part], names) for _, part in step.transformer_list if not _is(part, "drop")],
    "FunctionTransformer": lambda step, names: [([], names)] if step.func is None else [],
    "SimpleImputer": _imputed,
    **dict.fromkeys(
        ("StackingClassifier", "StackingRegressor", "VotingClassifier", "VotingRegressor"),
        lambda step, names: [([part], names) for part in step.estimators_],
    ),
}


def _estimator_kinds(step: Any, names: Sequence[str]) -> Kinds:
    """An encoder has the kinds of its categories; scikit-learn's others take numbers unless they state more."""
    if len(getattr(step, "categories_", ())) == len(names):
        return kinds_of_values(dict(zip(names, step.categories_, strict=True)))
    categorical = getattr(step, "is_categorical_", None)
    if categorical is not None and getattr(step, "_preprocessor", None) is not None:  # HistGradientBoosting
        if len(categorical) != len(names):  # behind steps that made its columns
            return {}
        encoder = step._preprocessor.named_transformers_["encoder"]
        chosen = [name for name, has in zip(names, categorical, strict=True) if has]
        numbers: Kinds = {name: "number" for name in names if name not in chosen}
        return numbers | kinds_of_values(dict(zip(chosen, encoder.categories_, strict=True)))
    return dict.fromkeys(names, "number") if _takes_numbers_only(step) else {}


def _takes_numbers_only(step: Any) -> bool:
    if type(step).__module__.partition(".")[0] != "sklearn" or not hasattr(step, "__sklearn_tags__"):
        return False
    if any(hasattr(value, "fit") for value in step.get_params().values()):  # another estimator in it gets the columns
        return False
    tags = step.__sklearn_tags__()
    takes = tags.input_tags
    return bool(takes.two_d_array and not (takes.string or takes.categorical or takes.dict or tags.no_validation))


def kinds_of_values(values: Mapping[str, Iterable[Any] | None]) -> Kinds:
    """Text or numbers, where the values of a column are all of one kind."""
    kinds: Kinds = {}
    for name, some in values.items():
        types = {type(value) for value in (() if some is None else some) if not is_missing(value)}
        if types and all(issubclass(kind, (str, bytes)) for kind in types):
            kinds[name] = "text"
        elif types and all(issubclass(kind, Real) and not issubclass(kind, bool) for kind in types):
            kinds[name] = "number"
    return kinds


# Boosters of XGBoost and LightGBM.


def _booster(model: Any) -> Any:
    """The booster of a model of XGBoost or LightGBM; None for other models."""
    model = getattr(model, "best_estimator_", model)
    with suppress(AttributeError):  # not fitted
        model = model.get_booster() if hasattr(model, "get_booster") else getattr(model, "booster_", model)
    boosters = (("xgboost", "Booster"), ("lightgbm", "Booster"))
    return model if (type(model).__module__.partition(".")[0], type(model).__name__) in boosters else None


def _booster_kinds(booster: Any, names: Sequence[str], words: Collection[str]) -> Kinds:
    saved = _saved_categories(booster, words)
    own = booster.feature_names if _is_xgboost(booster) else booster.feature_name()
    if not set(own or ()) <= set(names):  # of an array, or behind steps that made its columns
        return {} if saved else dict.fromkeys(names, "number")
    kinds: Kinds = {} if None in saved.values() else {name: "number" for name in own or names if name not in saved}
    return kinds | kinds_of_values(saved)


def categories_of(model: Any, table: Any) -> dict[str, list[Any] | None]:
    """The categories of a booster's categorical columns, in order; None where its file doesn't list them.

    Parameters
    ----------
    model
        Any model; those of XGBoost and LightGBM have categories.
    table
        A pandas frame.
    """
    booster = _booster(model)
    if booster is None:
        return {}
    words = [name for name in table if table[name].dtype.kind not in "biuf"]
    saved = _saved_categories(booster, words)
    if booster is not model:  # an estimator that was fitted on numbers as categories takes them as they are
        saved = {name: some for name, some in saved.items() if some is not None or name in words}
    return {name: some and _in_text(some, table[name]) for name, some in saved.items()}


def _is_xgboost(booster: Any) -> bool:
    return type(booster).__module__.partition(".")[0] == "xgboost"


def _saved_categories(booster: Any, words: Collection[str]) -> dict[str, list[Any] | None]:
    if not _is_xgboost(booster):
        return _lightgbm_categories(booster, words) if booster.pandas_categorical else {}
    types = zip(booster.feature_names or (), booster.feature_types or (), strict=False)
    categorical = [name for name, kind in types if kind == "c"]
    return _xgboost_categories(booster, categorical) if categorical else {}


def _lightgbm_categories(booster: Any, words: Collection[str]) -> dict[str, list[Any] | None]:
    """The file lists the values of each categorical column in turn, but names only the unordered ones."""
    header = re.search(r"^feature_infos=(.*)$", booster.model_to_string(num_iteration=1), re.MULTILINE)
    infos = header[1].split() if header else []
    names, lists = booster.feature_name(), booster.pandas_categorical
    unordered = [name for name, info in zip(names, infos, strict=False) if re.fullmatch(r"-?\d+(:-?\d+)+", info)]
    maybe = [name for name in names if name in unordered or name in words]
    categorical = unordered if len(unordered) == len(lists) else maybe
    if len(categorical) != len(lists):
        return dict.fromkeys(categorical)
    return dict(zip(categorical, lists, strict=True))


def _xgboost_categories(booster: Any, categorical: Sequence[str]) -> dict[str, list[Any] | None]:
    """Categories from the booster, text as bytes; None where it does not list them."""
    if not hasattr(booster, "get_categories"):  # before XGBoost 3.1
        return dict.fromkeys(categorical)
    try:
        import pyarrow as pa

        saved = dict(booster.get_categories(export_to_arrow=True).to_arrow())
    except (ImportError, ValueError):  # no pyarrow; a model of an older XGBoost
        return dict.fromkeys(categorical)
    arrays = {name: saved.get(name) for name in categorical}
    return {
        name: None if array is None else (array.cast("binary") if pa.types.is_string(array.type) else array).to_pylist()
        for name, array in arrays.items()
    }


def _in_text(parts: list[Any], values: Iterable[Any]) -> list[Any] | None:
    """The categories of a column with bytes as text; None where they are not certain.

    Before 3.4 XGBoost saves too few bytes of lists with other than ASCII letters, cut at wrong places.
    """
    if not isinstance(parts[0], bytes):
        return parts
    try:
        texts = [part.decode() for part in parts]
    except UnicodeDecodeError:
        return None
    present = {value for value in values if isinstance(value, str)}
    certain = all(map(str.isascii, texts)) or (counts_bytes() and present <= set(texts))
    return texts if certain else None
