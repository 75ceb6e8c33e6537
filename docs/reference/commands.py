"""The commands of the program as a page, from the program itself."""

from enum import Enum

import typer

from losslens.cli import app


def write(folder):
    """Into a file that the page of the command line includes."""
    folder.mkdir(parents=True, exist_ok=True)
    path, text = folder / "commands.txt", "\n".join(lines())
    if not path.exists() or path.read_text(encoding="utf-8") != text:  # an unchanged page is not built again
        path.write_text(text, encoding="utf-8")


def lines():
    """All commands as Markdown, each with its options in the groups that `--help` has."""
    for name, command in typer.main.get_command(app).commands.items():
        arguments = [one for one in command.params if not one.opts[0].startswith("-")]
        panels = {}
        for option in command.params:
            if option not in arguments and option.name != "help":
                panels.setdefault(option.rich_help_panel or "Options", []).append(option)
        typed = [one.metavar if one.required else f"[{one.metavar}...]" for one in arguments]
        yield f"## {name}\n"
        yield f"```\n{' '.join(['losslens', name, *typed, *(['[OPTIONS]'] if panels else [])])}\n```\n"
        yield command.help.replace("--", r"\-\-") + "\n"
        rows = [(f"`{one.metavar}`", one.help) for one in arguments]
        for panel, options in panels.items():
            rows += [(f"**{panel}**", ""), *((typed_as(one), one.help) for one in options)]
        if rows:
            told = (f"| {names} | {words.replace('|', chr(92) + '|')} |" for names, words in rows)
            yield "\n".join(["| | |", "|---|---|", *told, ""])


def typed_as(option):
    """The names of an option and what it takes."""
    takes = option.metavar or ""
    if isinstance(option.default, Enum):
        takes = "\\|".join(one.value for one in type(option.default))
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len, reverse=True))
    return names if option.is_flag else f"{names} {takes}"
