"""Options of the command line as arguments of the verbs: models, rows, features, losses, donors."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from losslens import Paper, Sage, losses
from losslens.cli.errors import note, suggestion
from losslens.cli.model_files import PICKLES, from_python, read_model
from losslens.cli.options import Arguments, Method
from losslens.cli.settings import split
from losslens.cli.tables import LoadedRows, is_csv, kinds_for, missing_values, read_table, rows_for
from losslens.donors.designs import DESIGNS
from losslens.donors.samplers import SAMPLERS
from losslens.models import as_model
from losslens.verbs.time_blocks import time_blocks

DONORS: dict[str, Callable[..., Any]] = {word: kind for kind in DESIGNS for word in kind.typed}
DONORS |= {word: kind for kind in SAMPLERS for word in kind.typed}
FAMILIES: dict[str, Callable[[float], Any]] = {
    "huber": losses.huber,
    "pinball": losses.pinball,
    "tweedie": losses.tweedie_deviance,
    "tweedie_deviance": losses.tweedie_deviance,
}


def one_model(args: Arguments, name: str) -> Any:
    """A model that can predict."""
    if name.lower().endswith(PICKLES) and args.trust and not args.quiet:
        note(f"warning: reading {name} runs any code in it; use --trust only for files from a source you know")
    model = read_model(name, trust=args.trust, trusted=args.trust_type or ())
    as_model(model)  # raises where it can't predict
    return model


def rows_of(args: Arguments, models: Sequence[Any], name: str, needs_target: bool = True) -> LoadedRows:
    """The rows of a file; notes on what was left out or sampled go to stderr."""
    if needs_target and args.target is None:
        raise ValueError("the target column is missing: name the column to predict with --target")
    columns: dict[str, Any] = {"target": args.target, "weight": args.weight, "drop": names(args.drop)}
    table = read_table(name, args.sep, _marks(args.missing), partial(kinds_for, models, **columns))
    loaded = rows_for(models, table, rows=args.rows, seed=args.seed, **columns)
    beside = (args.target, args.weight, args.by, args.groups, args.time)
    missing = missing_values(loaded, beside) if is_csv(name) else ""
    for text in filter(None, (missing, *loaded.notes)):
        if not args.quiet and (args.csv or text not in sampled(loaded)):  # a table and JSON contain it
            note(f"note: {text}")
    return loaded


def sampled(rows: LoadedRows) -> list[str]:
    """The note that these are not all rows, if so."""
    return [text for text in rows.notes if text.startswith("a sample")]


def groups_of(args: Arguments, rows: LoadedRows, explain: Callable[[], Any]) -> Any:
    """Which rows belong together: a label of each, blocks of time, or None; `explain` gives an importance of them."""
    if args.time_blocks is None:
        if args.time is not None:
            raise ValueError("--time, the column with the times, and --time-blocks, such as 7D, go together: pass both")
        return None if args.groups is None else np.asarray(rows.column(args.groups))
    if args.time is None or args.groups is not None:
        raise ValueError("--time-blocks needs --time, the column with the time of each row, and no --groups")
    times, length = np.asarray(rows.column(args.time)), args.time_blocks
    if times.dtype.kind in "OU":
        try:
            times = times.astype("M8[us]")  # as CSV files hold dates
        except ValueError:
            raise ValueError(
                f"--time {args.time} must hold numbers or dates, such as 2024-01-31 18:00; got {times[0]!r}"
            ) from None
    if length == "auto":
        return time_blocks(times, like=explain())
    return time_blocks(times, float(length) if times.dtype.kind in "iuf" and _is_number(length) else length)


def _number_or_text(text: str | None, kind: Callable[[str], Any]) -> Any:
    return text if text is None or not _is_number(text) else kind(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def names(texts: Sequence[str] | None) -> list[str]:
    """Names separated by commas, from an option that may be repeated."""
    return [name for text in texts or () for name in split(text)]


def _marks(texts: Sequence[str] | None) -> list[str]:
    """Text that stands for missing values; white space around it does not count, unless it is all there is."""
    return [mark.strip() or mark for text in texts or () for mark in next(csv.reader([text]), [])]


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """name=value, each name once."""
    values: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise ValueError(f"{option} takes name=value; got {text!r}")
        if name in values:
            raise ValueError(f"{option} names {name!r} twice")
        values[name] = value
    return values


def first_and_more(name: str, more: Mapping[str, str], option: str) -> dict[str, str]:
    """Paths by name: the first has the name of its file unless it is given as name=path."""
    own, equals, path = name.partition("=")
    if not equals or Path(name).exists():
        own, path = Path(name).name.partition(".")[0] if ":" not in name else name.partition(":")[2], name
    if own in more:
        raise ValueError(f"{option} names {own!r}, which is already the name of {path}; write that one as NAME={path}")
    return {own: path} | dict(more)


def features_of(args: Arguments) -> Any:
    """Columns and groups as a verb takes them; None for all columns."""
    chosen = args.features if args.curves_of is None else args.curves_of
    single = names(chosen)
    if chosen and not single:
        raise ValueError("--features names no column; leave it out for all columns")
    groups = {name: split(columns) for name, columns in pairs(args.group, "--group").items()}
    return [*single, *([groups] if groups else [])] or None


def loss_of(text: str | None) -> Any:
    """A name, a family with its parameter, a scorer, or a user-defined function."""
    if text is not None and "," in text:
        raise ValueError(f"--loss takes one loss, got {text!r}; call once for each, or pass a list in Python")
    if text is None or ":" not in text:
        return text
    family, _, parameter = text.partition(":")
    if family == "scorer":
        return _scorer(parameter)
    if family in FAMILIES:
        try:
            number = float(parameter)
        except ValueError:
            raise ValueError(f"--loss {family}:NUMBER takes a number; got {parameter!r}") from None
        return FAMILIES[family](number)
    return from_python(text)


def _scorer(name: str) -> Any:
    try:
        from sklearn.metrics import get_scorer, get_scorer_names
    except ImportError as error:
        raise ValueError("scorers need scikit-learn, which is not installed: pip install scikit-learn") from error
    if name not in get_scorer_names():
        raise ValueError(f"scikit-learn has no scorer {name!r}{suggestion(name, get_scorer_names())}")
    return get_scorer(name)


def donors_of(text: str) -> Any:
    """A donor design, or a sampler, from its name and number."""
    if text in ("auto", "all"):
        return text
    name, colon, number = text.partition(":")
    if number.isdigit() and f"{name}:N" in DONORS:
        return DONORS[f"{name}:N"](int(number))
    if not colon and name in DONORS:
        return DONORS[name]()
    raise ValueError(f"--donors is auto, all, or one of {', '.join(DONORS)}; got {text!r}")


def class_of(model: Any, text: str | None) -> Any:
    """The class with this label as text: labels may be numbers."""
    classes = as_model(model).classes
    if text is None or classes is None:
        return text
    labels = {str(label): label for label in classes.tolist()}
    if text not in labels:
        raise ValueError(f"the model has no class {text!r}{suggestion(text, list(labels))}")
    return labels[text]


# The arguments of verbs that options set.
SET_BY: dict[str, Callable[[Arguments], Any]] = {
    "loss": lambda args: loss_of(args.loss),
    "features": features_of,
    "donors": lambda args: donors_of(args.donors),
    "method": lambda args: {Method.paper: Paper(), Method.sage: Sage()}.get(args.method, args.method.value),
    "embed": attrgetter("embed.value"),
    "random_state": attrgetter("seed"),
    "n_jobs": attrgetter("jobs"),
    "progress": lambda args: False if args.quiet else None,
    "budget": lambda args: _number_or_text(args.budget, int),
    "precision": lambda args: _number_or_text(args.precision, float),
    **{name: attrgetter(name) for name in ("depth", "level", "memory", "shapley", "target_name", "title")},
}


def descriptions_in(path: str | None) -> dict[str, str] | None:
    """The first two fields of each line: a column, and what it is."""
    if path is None:
        return None
    try:
        lines = [line for line in csv.reader(Path(path).read_text("utf-8-sig").splitlines()) if line]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--descriptions: could not read {path}: {error}") from error
    if short := next((k for k, line in enumerate(lines, 1) if len(line) < 2), None):
        raise ValueError(f"--descriptions: line {short} of {path} has one field; write a column and its description")
    head = [field.strip().lower() for field in lines[0][:2]] if lines else []
    return {name: text for name, text, *_ in lines[head in (["column", "description"], ["name", "description"]) :]}


def options_for(verb: Callable[..., Any], args: Arguments, **more: Any) -> dict[str, Any]:
    """The arguments of a verb: those that it takes as options set them, and more."""
    taken = signature(verb).parameters
    return {name: value(args) for name, value in SET_BY.items() if name in taken and name not in more} | more
