"""Settings from a TOML file: common ones at the top, those of one command in the table of its name."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from losslens.cli.errors import existing_file, suggestion

TYPED = ("trust", "trust-type")  # on the command line only

Kind = Literal["flag", "one", "many", "named"]  # named: name=value, any number of times
VALUES: dict[Kind, tuple[tuple[type, ...], str]] = {
    "flag": ((bool,), "true or false"),
    "one": ((str, int, float), "one value"),
    "many": ((str, int, float, list), "a list"),
    "named": ((dict,), "a table of names"),
}


@dataclass(frozen=True)
class Setting:
    """An option or an argument in a settings file: its key, the kind of its value, and the parameter it sets."""

    key: str
    kind: Kind
    parameter: str

    def fits(self, value: Any) -> bool:
        """Whether it can hold this value of a file."""
        return isinstance(value, VALUES[self.kind][0]) and isinstance(value, bool) == (self.kind == "flag")

    def typed(self, value: Any) -> Any:
        """The value as typed on the command line."""
        if self.kind == "flag":
            return value
        if self.kind == "named":
            return [f"{name}={join(items) if isinstance(items, list) else items}" for name, items in value.items()]
        if self.kind == "many":  # a list holds names, a string is as typed
            return [join([item]) for item in value] if isinstance(value, list) else [str(value)]
        return str(value)


def read_settings(path: str | Path, commands: Mapping[str, Sequence[Setting]], command: str) -> dict[str, Any]:
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
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"could not read {path} as TOML: it is not UTF-8 text; save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"could not read {path} as TOML: {error}") from error
    everywhere = [setting for settings in commands.values() for setting in settings]
    top = {key: value for key, value in content.items() if not (isinstance(value, dict) and key in commands)}
    tables = {name: content[name] for name in commands if isinstance(content.get(name), dict)}
    values: dict[str, Any] = {}
    for name, part in {"": top, **tables}.items():
        for key, value in part.items():
            place = f"{path}: {f'[{name}] ' if name else ''}"
            fitting = _fitting(place, key, value, commands.get(name, everywhere), () if name else list(commands))
            if name in ("", command):
                mine = [setting for setting in fitting if setting in commands[command]]
                values |= {setting.parameter: setting.typed(value) for setting in mine}
    return values


def _fitting(place: str, key: str, value: Any, settings: Sequence[Setting], tables: Sequence[str]) -> list[Setting]:
    """The settings of this key that can hold the value: `data` of compare is an argument and an option."""
    option = key.replace("_", "-")
    if option in TYPED:
        raise ValueError(f"{place}{key} can't be set in a file, which could trust itself; type --{option} instead")
    named = [setting for setting in settings if setting.key == option]
    if not named:
        keys = dict.fromkeys(setting.key for setting in settings)
        raise ValueError(f"{place}unknown key {key!r}{suggestion(key, [*keys, *tables])}")
    fitting = [setting for setting in named if setting.fits(value)]
    if not fitting:
        words = " or ".join(VALUES[kind][1] for kind in sorted({setting.kind for setting in named}))
        raise ValueError(f"{place}{key} takes {words}; got {value!r}")
    return fitting


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
