"""Settings from a TOML file: common ones at the top, those of one command in the table of its name."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from losslens.cli.errors import existing_file, suggestion

TYPED = ("trust", "trust-type")  # on the command line only

Kind = Literal["flag", "one", "many", "named"]  # named: name=value, any number of times


@dataclass(frozen=True)
class Setting:
    """An option or an argument in a settings file: its key, the kind of its value, and the parameter it sets."""

    key: str
    kind: Kind
    parameter: str


def read_settings(path: str | Path, commands: Mapping[str, Iterable[Setting]], command: str) -> dict[str, Any]:
    """The settings of one command, by parameter; a key of no command is an error.

    Parameters
    ----------
    path
        A TOML file.
    commands
        The settings of each command.
    command
        The command that is run: its table takes precedence over the top of the file.
    """
    path = existing_file(str(path), "settings file")
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except UnicodeDecodeError as error:
        raise ValueError(f"could not read {path} as TOML: it is not UTF-8 text; save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"could not read {path} as TOML: {error}") from error
    by_command = {name: list(settings) for name, settings in commands.items()}
    everywhere = [setting for settings in by_command.values() for setting in settings]
    top = {key: value for key, value in content.items() if not (isinstance(value, dict) and key in by_command)}
    _check(path, "", top, everywhere, list(by_command))
    for name, settings in by_command.items():
        if isinstance(content.get(name), dict):
            _check(path, f"[{name}] ", content[name], settings, [])
    mine = content.get(command, {}) if isinstance(content.get(command, {}), dict) else {}
    values: dict[str, Any] = {}
    for part in (top, mine):
        for key, value in part.items():
            setting = _fitting(key, value, by_command[command])
            if setting is not None:
                values[setting.parameter] = _plain(value, setting)
    return values


def _check(path: Path, where: str, part: Mapping[str, Any], settings: list[Setting], more: list[str]) -> None:
    keys = list(dict.fromkeys(setting.key for setting in settings))
    for key, value in part.items():
        option = key.replace("_", "-")
        if option in TYPED:
            raise ValueError(
                f"{path}: {where}{key} can't be set in a file, which could trust itself; type --{option} instead"
            )
        if option not in keys:
            raise ValueError(f"{path}: {where}unknown key {key!r}{suggestion(key, [*keys, *more])}")
        if _fitting(key, value, settings) is None:
            kinds = {setting.kind for setting in settings if setting.key == option}
            raise ValueError(f"{path}: {where}{key} takes {_words(kinds)}; got {value!r}")


def _fitting(key: str, value: Any, settings: list[Setting]) -> Setting | None:
    """The setting of this key that can hold the value: `data` of compare is an argument and an option."""
    mine = [setting for setting in settings if setting.key == key.replace("_", "-")]
    return next((setting for setting in mine if _fits(value, setting.kind)), None)


def _fits(value: Any, kind: Kind) -> bool:
    scalar = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    if kind == "flag":
        return isinstance(value, bool)
    if kind == "one":
        return scalar
    if kind == "many":
        return scalar or (isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value))
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)  # "name=value", as on the command line
    return isinstance(value, dict) and all(_fits(item, "many") for item in value.values())


def _words(kinds: set[Kind]) -> str:
    words = {"flag": "true or false", "one": "one value", "many": "a list", "named": "a table of names"}
    return " or ".join(words[kind] for kind in sorted(kinds))


def _plain(value: Any, setting: Setting) -> Any:
    """The value as typed on the command line."""
    if setting.kind == "flag":
        return value
    if setting.kind == "one":
        return str(value)
    if setting.kind == "many":  # a list holds names, a string is as typed
        return [join([item]) for item in value] if isinstance(value, list) else [str(value)]
    if isinstance(value, list):
        return value
    return [f"{name}={join(items) if isinstance(items, list) else items}" for name, items in value.items()]


def join(items: Iterable[Any]) -> str:
    """Names separated by commas; a name with a comma is quoted.

    >>> join(["a", "b,c"])
    'a,"b,c"'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(list(items))
    return text.getvalue()


def split(text: str) -> list[str]:
    """Names separated by commas.

    >>> split('a, "b,c"')
    ['a', 'b,c']
    """
    parts = next(csv.reader([text], skipinitialspace=True), [])
    return [name.strip() for name in parts if name.strip()]
