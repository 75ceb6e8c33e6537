"""What was typed, as the verbs take it: models, rows, features, losses, donors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslens import losses
from losslens.cli.errors import note
from losslens.cli.model_files import PICKLES, from_python, read_model
from losslens.cli.options import Typed
from losslens.cli.settings import split
from losslens.cli.tables import LoadedRows, near, read_table, rows_for
from losslens.donors.designs import DESIGNS
from losslens.donors.samplers import SAMPLERS
from losslens.models import as_model

DONORS: dict[str, Callable[..., Any]] = {word: kind for kind in DESIGNS for word in kind.typed}
DONORS |= {word: kind for kind in SAMPLERS for word in kind.typed}
FAMILIES: dict[str, Callable[[float], Any]] = {
    "huber": losses.huber,
    "pinball": losses.pinball,
    "tweedie": losses.tweedie_deviance,
    "tweedie_deviance": losses.tweedie_deviance,
}


def one_model(asked: Typed, name: str) -> Any:
    """A model that can predict."""
    if name.lower().endswith(PICKLES) and asked.trust and not asked.quiet:
        note(f"warning: reading {name} runs any code that it holds; --trust says that you know where it comes from")
    model = read_model(name, trust=asked.trust, trusted=asked.trust_type or ())
    as_model(model)  # which says what is wrong with it
    return model


def rows_of(asked: Typed, models: Sequence[Any], name: str, needs_target: bool = True) -> LoadedRows:
    """The rows of a file, with what was done to them told."""
    if needs_target and asked.target is None:
        raise ValueError("which column is to be predicted? Name it with --target")
    found = rows_for(
        models, read_table(name), target=asked.target, weight=asked.weight, drop=names(asked.drop), rows=asked.rows,
        seed=asked.seed,
    )  # fmt: skip
    for text in found.notes:
        if not asked.quiet and (asked.csv or text not in sampled(found)):  # a table and JSON say it themselves
            note(f"note: {text}")
    return found


def sampled(rows: LoadedRows) -> list[str]:
    """That these are not all rows."""
    return [text for text in rows.notes if text.startswith("a sample")]


def names(texts: Sequence[str] | None) -> list[str]:
    """Names with commas between, from an option given any number of times."""
    return [name for text in texts or () for name in split(text)]


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """name=value, each name once."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise ValueError(f"{option} takes name=value; got {text!r}")
        if name in found:
            raise ValueError(f"{option} names {name!r} twice")
        found[name] = value
    return found


def first_and_more(name: str, more: Mapping[str, str], option: str) -> dict[str, str]:
    """Paths by name: the first is called as its file unless it is given as name=path."""
    own, equals, path = name.partition("=")
    if not equals or Path(name).exists():
        own, path = Path(name).name.partition(".")[0] if ":" not in name else name.partition(":")[2], name
    if own in more:
        raise ValueError(f"{option} names {own!r}, which is the first one's name; write the first as name={path}")
    return {own: path} | dict(more)


def features_of(asked: Typed, typed: Sequence[str] | None = None) -> Any:
    """Columns and groups as a verb takes them; None for all columns."""
    single = names(typed if typed is not None else asked.features)
    groups = {name: split(columns) for name, columns in pairs(asked.group, "--group").items()}
    return [*single, *([groups] if groups else [])] or None


def loss_of(text: str | None) -> Any:
    """A name, a family with its parameter, a scorer, or a function of the user's own."""
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
        raise ValueError("scorers are scikit-learn's, which is not installed") from error
    if name not in get_scorer_names():
        raise ValueError(f"scikit-learn has no scorer {name!r}{near(name, get_scorer_names())}")
    return get_scorer(name)


def donors_of(text: str) -> Any:
    """A design from its name and number."""
    if text in ("auto", "all"):
        return text
    name, colon, number = text.partition(":")
    if number.isdigit() and f"{name}:N" in DONORS:
        return DONORS[f"{name}:N"](int(number))
    if not colon and name in DONORS:
        return DONORS[name]()
    raise ValueError(f"--donors is auto, all, or one of {', '.join(DONORS)}; got {text!r}")


def class_of(model: Any, text: str | None) -> Any:
    """The class that somebody typed: labels may be numbers."""
    known = as_model(model).classes
    if text is None or known is None:
        return text
    labels = {str(label): label for label in known.tolist()}
    if text not in labels:
        raise ValueError(f"the model has no class {text!r}{near(text, list(labels))}")
    return labels[text]


def run_options(asked: Typed) -> dict[str, Any]:
    """What every verb takes."""
    return {
        "random_state": asked.seed,
        "n_jobs": asked.jobs,
        "memory": asked.memory,
        "progress": False if asked.quiet else None,
    }
