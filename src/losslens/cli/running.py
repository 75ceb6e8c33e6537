"""From typed options to printed and saved output, the same for every command."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import fields
from operator import getitem
from typing import Annotated, Any, get_type_hints

import typer

from losslens.cli.errors import check_writable, naming_file, reporting_errors, stopping_on_interrupt
from losslens.cli.options import OPTIONAL, SETS, TABLE, Arguments
from losslens.cli.printing import Output, emit

Body = Callable[[Arguments], Output | None]


def takes(verb: Callable[..., Any], *names: str) -> Callable[[Body], Callable[..., None]]:
    """Give a command these options and those that set arguments of the verb, in the order of `Arguments`."""
    hints, arguments = get_type_hints(Arguments), inspect.signature(verb).parameters
    taken = [field for field in fields(Arguments) if SETS.get(field.name) in arguments or field.name in names]
    chosen = [field for field in taken if field.name != "features" or "curves_of" not in names]

    def decorate(body: Body) -> Callable[..., None]:
        def command(ctx: typer.Context, **given: Any) -> None:
            for name in OPTIONAL:  # click before 8.3 passes an empty value here, and ignores the settings file
                if name in given:
                    given[name] = given[name] or (ctx.default_map or {}).get(name)
            with reporting_errors(debug=given["debug"], quiet=given["quiet"]):
                run(body, Arguments(**_one_format(ctx, given)))

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter("ctx", keyword, annotation=typer.Context)]
        for field in chosen:
            default = inspect.Parameter.empty if field.name in ("model", "data") else field.default
            typed = getitem(Annotated, (hints[field.name], field.metadata["typed"]))
            parameters.append(inspect.Parameter(field.name, keyword, default=default, annotation=typed))
        command.__name__, command.__doc__ = body.__name__, body.__doc__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def run(body: Body, args: Arguments) -> None:
    """Call, save, print. A result that can't be saved is still printed: it may have taken an hour."""
    if args.save is not None:
        check_writable(args.save)
    with stopping_on_interrupt(), redirect_stdout(sys.stderr):  # stdout holds the result only: a model may print, too
        output = body(args)
    if output is None:
        return
    problem = None
    if args.save is not None:
        try:
            with naming_file(args.save):
                output.result.save(args.save)
        except (ValueError, TypeError) as error:
            problem = error
    emit(args, output, body.__name__)
    if problem is not None:
        raise problem
    if output.code:
        raise typer.Exit(output.code)


def _one_format(ctx: typer.Context, given: dict[str, Any]) -> dict[str, Any]:
    """JSON or CSV; the command line takes precedence over a settings file."""
    if given.get("json") and given.get("csv"):
        sources = {name: ctx.get_parameter_source(name) for name in TABLE}
        typed = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
        if len(typed) != 1:
            raise ValueError("choose one of --json and --csv")
        given |= {name: name in typed for name in TABLE}
    return given
