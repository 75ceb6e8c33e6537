"""Checks of the arguments besides X: y, weights, groups, memory, random state."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.losses import LARGEST, SMALLEST, TOO_LARGE, TOO_SMALL, Loss, OutputsLoss, squared_error
from losslens.tables.arrays import plain_array
from losslens.tables.columns import is_missing, is_number
from losslens.tables.row_labels import check_order, labels_of, row_name
from losslens.typing import Floats, Indices

UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
UNITS |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
WEIGHT_RANGE = 1e100  # the largest weight over the smallest: products of three weights must not be 0


def vector(values: Any, n: int, name: str, index: Any = None) -> NDArray[Any]:
    """One value for each row, from a list, an array or a series; `index` is that of X, if it is a pandas frame."""
    array = plain_array(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        several = "; several outputs are taken by feature_importance and shapley_importance, with a loss of numbers"
        hint = several if name == "y" and array.ndim == 2 else ""
        raise ValueError(f"{name} needs one value for each row; got shape {array.shape}{hint}")
    if len(array) != n:
        raise ValueError(f"{name} has {len(array)} values, but X has {n} rows")
    check_order(values, index, name)
    return array


def output_names(y: Any) -> tuple[str, ...] | None:
    """The names of y's columns where it has several: those of a frame, or y0, y1, ...; None where it has one."""
    lazy = getattr(y, "collect_schema", None)  # of polars, whose lazy frames warn when asked for columns
    columns = lazy().names() if lazy else getattr(y, "column_names", getattr(y, "columns", None))  # pyarrow; pandas
    if columns is None:
        several = _of_rows(y) if isinstance(y, (list, tuple)) else len(getattr(y, "shape", (0,))) == 2
        columns = [f"y{k}" for k in range(len(y[0]) if isinstance(y, (list, tuple)) else y.shape[1])] if several else []
    names = tuple(map(str, columns))
    if len(set(names)) < len(names):
        raise ValueError(f"two columns of y have the same name: {', '.join(names)}")
    return names if len(names) > 1 else None


def _of_rows(y: Any) -> bool:
    """Whether a list holds one list of numbers for each row, all as long."""
    return bool(y) and all(isinstance(row, (list, tuple, np.ndarray)) and len(row) == len(y[0]) for row in y)


def outputs(y: Any, loss: OutputsLoss, n: int, index: Any = None, weight: Floats | None = None) -> NDArray[Any]:
    """y as a loss of several outputs reads it: (n, K), (n,) where all outputs have one target, or encoded."""
    encoded = loss.encode(y, weight)
    if encoded is not None:
        if len(encoded) != n:
            raise ValueError(f"y has {len(encoded)} values, but X has {n} rows")
        check_order(y, index, "y")
        return encoded
    names = output_names(y)
    if names is None:
        array = rows_of(y, n, index)
        return array if loss.custom and array.dtype.kind not in "biuf" else numbers(array, loss, index)
    matrix = columns_of(y, names, n, index)
    loss.check_target(matrix, lambda row: row_name(labels_of(index), row))
    return matrix


def columns_of(y: Any, names: Sequence[str], n: int, index: Any = None) -> NDArray[Any]:
    """y of several columns as finite numbers, (n, K)."""
    array = rows_of(y, n, index)
    columns = [numbers(array[:, k], squared_error, index, f"column {name!r} of y") for k, name in enumerate(names)]
    return np.stack(columns, axis=1)


def rows_of(y: Any, n: int, index: Any = None) -> NDArray[Any]:
    """y as an array, one value for each row or one row of values."""
    if output_names(y) is None:
        return vector(y, n, "y", index)
    array = plain_array(y, "y")
    if len(array) != n:
        turned = isinstance(y, (list, tuple)) and array.shape[1] == n
        hint = "; of a list with an array for each output pass np.column_stack(y)" if turned else ""
        raise ValueError(f"y has {len(array)} rows, but X has {n} rows{hint}")
    check_order(y, index, "y")
    return array


def numbers(y: NDArray[Any], loss: Loss, index: Any = None, name: str = "y") -> NDArray[Any]:
    """y as finite numbers."""
    if y.dtype.names is not None and not loss.custom:
        raise TypeError(
            f"{name} is a structured array of {' and '.join(y.dtype.names)}, and {loss.name} needs numbers; for "
            "survival times use loss='brier_survival', or a scorer such as the concordance index"
        )
    if y.dtype.kind not in "biuf":
        try:
            if y.dtype.kind != "O" or any(isinstance(value, str) for value in y):
                raise TypeError("dates and strings have no loss")  # NumPy would read the string "1" as a number
            y = np.array([np.nan if is_missing(value) else value for value in y.tolist()]).astype(float)
        except OverflowError:
            raise ValueError(f"{name} has integers that floats can't hold; {TOO_LARGE}") from None
        except (TypeError, ValueError):
            if loss.custom:
                return y
            raise TypeError(
                f"{loss.name} needs numbers in {name}; got {y.dtype} such as {y[0]!r}. For classes use 'log_loss', "
                "'brier' or 'zero_one'"
            ) from None
    y = y.astype(np.float64)
    if not np.isfinite(y).all():
        bad = np.flatnonzero(~np.isfinite(y))
        where = row_name(labels_of(index), int(bad[0]))
        raise ValueError(
            f"{name} has {len(bad)} missing or infinite values (the first in row {where}); drop these rows"
        )
    if np.abs(y).max(initial=0.0) > LARGEST:
        row = int(np.abs(y).argmax())
        raise ValueError(f"{name} is {y[row]:g} in row {row_name(labels_of(index), row)}; {TOO_LARGE}")
    if len(y) and 0 < (spread := float(np.ptp(y))) < SMALLEST:
        raise ValueError(f"{name} varies by {spread:g}; {TOO_SMALL}")
    loss.check_target(y, lambda row: row_name(labels_of(index), row))
    return y


def class_positions(y: NDArray[Any], classes: NDArray[Any], model: str) -> Indices:
    """y as positions among the classes; a label that is no class of the model is an error."""
    place = {label: k for k, label in enumerate(classes.tolist())}
    if y.dtype.kind in "biuf" and classes.dtype.kind in "biuf":  # without a Python object for each row
        order = np.argsort(classes)
        found = order[np.minimum(np.searchsorted(classes[order], y), len(classes) - 1)]
        if np.array_equal(classes[found], y):
            return found
    labels = y.tolist()
    unknown = [label for label in dict.fromkeys(labels) if label not in place]
    if unknown:
        raise ValueError(
            f"y has the class {unknown[0]!r}, which is no class of {model}; its classes are {classes.tolist()!r}"
        )
    return np.array([place[label] for label in labels], np.intp)


def observed_classes(y: NDArray[Any], index: Any = None) -> NDArray[Any]:
    """The distinct labels of y, sorted."""
    if y.dtype.kind in "biuf":
        missing = np.flatnonzero(np.isnan(y)).tolist() if y.dtype.kind == "f" else []
    else:
        missing = [row for row, label in enumerate(y.tolist()) if is_missing(label)]
    if missing:
        where = row_name(labels_of(index), missing[0])
        raise ValueError(f"y has {len(missing)} missing labels (the first in row {where}); drop these rows")
    try:
        return np.unique(y)
    except TypeError:
        raise TypeError("y mixes labels of several types; make them all text or all numbers") from None


def row_weights(sample_weight: Any, n: int, index: Any = None, *, least: int = 2) -> Floats:
    """Weights that sum to one, above zero for at least so many rows."""
    if sample_weight is None:
        return np.full(n, 1 / n)
    weight = vector(sample_weight, n, "sample_weight", index)
    if weight.dtype == object and all(map(is_number, weight)):
        weight = np.array(list(map(float, weight)))
    if weight.dtype.kind not in "biuf" or not np.isfinite(weight.astype(float)).all():
        raise ValueError("sample_weight must hold finite numbers")
    weight = weight.astype(float)
    if weight.min() < 0:
        where = row_name(labels_of(index), int(weight.argmin()))
        raise ValueError(f"sample_weight must not be negative; row {where} has {weight.min()}")
    some = weight[weight > 0]
    if len(some) < least:
        raise ValueError(f"sample_weight must be above zero for at least {'two rows' if least > 1 else 'one row'}")
    heaviest, lightest = float(some.max()), float(some.min())
    if lightest / heaviest < 1 / WEIGHT_RANGE:
        raise ValueError(
            f"sample_weight ranges from {lightest:g} to {heaviest:g}: products of such weights are 0 in double "
            "precision; set those of rows that don't count to 0"
        )
    weight /= heaviest  # first: a sum could overflow
    return np.asarray(weight / weight.sum())


def group_numbers(groups: Any, n: int, index: Any = None) -> Indices | None:
    """The number of each row's group."""
    if groups is None:
        return None
    labels = vector(groups, n, "groups", index).tolist()
    if any(is_missing(label) for label in labels):
        raise ValueError("groups has missing labels; give each row a group")
    number = number_labels(labels, "groups")
    if len(number) < 2:
        raise ValueError("groups has only one group; donors come from other groups, so at least two are needed")
    return np.array([number[label] for label in labels], np.intp)


def number_labels(labels: list[Any], name: str) -> dict[Any, int]:
    """A number for each distinct label, in order of occurrence."""
    try:
        return {label: k for k, label in enumerate(dict.fromkeys(labels))}
    except TypeError as error:  # a list or a dictionary
        raise TypeError(f"{name} has labels such as lists, which can't be compared; use numbers or text") from error


def check_count(number: Any, name: str, least: int = 1) -> None:
    """Raise ValueError unless this is a whole number from `least` on; `name` may end with what it counts."""
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < least:
        name, _, unit = name.partition(" ")
        raise ValueError(f"{name} is a whole number {f'{unit} ' if unit else ''}from {least} on; got {number!r}")


def is_one_of(value: Any, choices: Collection[Any]) -> bool:
    """Whether this is one of some names or flags; an array or a frame, which compares entry by entry, is none."""
    return isinstance(value, (str, int, np.bool_, np.integer, type(None))) and value in choices


def check_flag(value: Any, name: str) -> None:
    """Raise ValueError unless this is True or False."""
    if not is_one_of(value, (True, False)):
        raise ValueError(f"{name} is True or False; got {value!r}")


def check_workers(n_jobs: Any, progress: Any) -> None:
    """n_jobs as joblib takes it, progress as yes, no or None."""
    is_integer = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not is_integer or n_jobs == 0):
        raise ValueError(f"n_jobs is None, a number of workers, or -1 for all cores; got {n_jobs!r}")
    if not is_one_of(progress, (None, True, False)):
        raise ValueError(f"progress is True, False, or None for a bar in terminals and notebooks; got {progress!r}")


def memory_bytes(memory: str | int) -> int:
    """A size such as "1 GiB", or a number of bytes, as bytes.

    >>> memory_bytes("1 GiB")
    1073741824
    """
    if isinstance(memory, (int, np.integer)) and not isinstance(memory, bool):
        size = float(memory)
    else:
        match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([A-Za-z]*)\s*", str(memory))
        if not match or match[2].lower() not in UNITS:
            raise ValueError(f"memory is a size such as '1 GiB', '500 MB' or a number of bytes; got {memory!r}")
        size = float(match[1]) * UNITS[match[2].lower()]
    if size <= 0:
        raise ValueError(f"memory must be above zero; got {memory!r}")
    return int(size)


def entropy(random_state: Any) -> int:
    """The seed of all draws of a call; the global random state is never used."""
    if random_state is None:
        return int(np.random.SeedSequence().entropy % 2**63)  # type: ignore[operator]
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    raise ValueError(f"random_state is None, a whole number from 0 on, or a NumPy generator; got {random_state!r}")
