"""From what was typed to what is printed and kept: the same way for every command."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import fields
from typing import Any, get_type_hints

import typer

from losslens.cli.errors import check_place, plainly, telling, to_the_end
from losslens.cli.options import OPTIONAL, TABLE, Typed
from losslens.cli.printing import Output, emit

Body = Callable[[Typed], Output | None]


def takes(*names: str) -> Callable[[Body], Callable[..., None]]:
    """Give a command these options, in the order of `Asked`."""
    hints = get_type_hints(Typed, include_extras=True)
    chosen = [field for field in fields(Typed) if field.name in names]

    def decorate(body: Body) -> Callable[..., None]:
        def command(ctx: typer.Context, **given: Any) -> None:
            for name in OPTIONAL:  # click before 8.3 takes none for some, and asks no file
                if name in given:
                    given[name] = given[name] or (ctx.default_map or {}).get(name)
            with plainly(debug=given["debug"], quiet=given["quiet"]):
                run(body, Typed(**_one_format(ctx, given)))

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter("ctx", keyword, annotation=typer.Context)]
        for field in chosen:
            default = inspect.Parameter.empty if field.name in ("model", "data") else field.default
            parameters.append(inspect.Parameter(field.name, keyword, default=default, annotation=hints[field.name]))
        command.__name__, command.__doc__ = body.__name__, body.__doc__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def run(body: Body, asked: Typed) -> None:
    """Ask, print, keep. A result that can't be kept is printed all the same: it may have taken an hour."""
    if asked.save:
        check_place(asked.save)
    with to_the_end(), redirect_stdout(sys.stderr):  # stdout is the result's: a model may print, too
        output = body(asked)
    if output is None:
        return
    problem = None
    if asked.save:
        try:
            with telling(asked.save):
                output.result.save(asked.save)
        except (ValueError, TypeError) as error:
            problem = error
    emit(asked, output, body.__name__)
    if problem is not None:
        raise problem


def _one_format(ctx: typer.Context, given: dict[str, Any]) -> dict[str, Any]:
    """JSON or CSV; one on the command line wins over one in a file."""
    if given.get("json") and given.get("csv"):
        typed = [name for name in TABLE if str(ctx.get_parameter_source(name)).endswith("COMMANDLINE")]
        if len(typed) != 1:
            raise ValueError("choose one of --json and --csv")
        given |= {name: name in typed for name in TABLE}
    return given
