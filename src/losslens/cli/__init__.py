"""The command line: `losslens --help`. Reads models, tables and options from files, calls a verb, prints its result.

It may import every other room; no room imports it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from losslens.cli import commands
from losslens.cli.commands import report
from losslens.cli.errors import reporting_errors

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Boxes on a terminal, plain text in a pipe.
    rich_markup_mode="rich" if sys.stdout is not None and sys.stdout.isatty() else None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        from losslens import __version__

        typer.echo(f"losslens {__version__}")
        raise typer.Exit


@app.callback()
def losslens(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Which features a fitted model's performance rests on, where in their range, and for which rows."""


def demo() -> None:
    """Explain a model of the bundled Bikeshare data."""
    with reporting_errors(debug=False, quiet=False):
        from losslens.demo import main as run_demo

        run_demo()


def warmup() -> None:
    """Compile ahead of the first call, for containers and CI: it is done once for a machine."""
    with reporting_errors(debug=False, quiet=False):
        from losslens.engines.compiled import compile_all

        done = []
        for one in compile_all():
            done.append(one)
            if one.compiled:
                typer.echo(f"{one.name}: {one.compiled} of {one.kernels} kernels compiled, {one.seconds:.1f} s")
        kernels, compiled = sum(one.kernels for one in done), sum(one.compiled for one in done)
        folder = os.path.commonpath([one.folder for one in done])
        if compiled:
            seconds = sum(one.seconds for one in done)
            typer.echo(f"{compiled} of {kernels} kernels compiled in {seconds:.0f} s; the cache is in {folder}")
        else:
            typer.echo(f"everything is there: {kernels} compiled kernels in {folder}")


for _command in (
    report, commands.importance, commands.curves, commands.shapley, commands.segments, commands.compare, commands.plan,
    demo, warmup,
):  # fmt: skip
    app.command()(_command)


def main() -> Any:
    """Run the program."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller; a file that is opened later would take its place
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  open to the end
        with suppress(AttributeError):  # replace characters that the terminal can't print
            getattr(sys, name).reconfigure(errors="replace")
    app(prog_name="losslens")
