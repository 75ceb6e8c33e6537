"""All options of the command line, each once. A command takes some of them (`running.takes`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from losslens.cli.settings import Setting, read_settings


class Method(StrEnum):
    """How Shapley values are computed."""

    auto = "auto"
    exact = "exact"
    walk = "walk"
    paper = "paper"


class Aggregate(StrEnum):
    """What is averaged over donors."""

    loss = "loss"
    prediction = "prediction"


class Embed(StrEnum):
    """Rows that a report holds."""

    all = "all"
    sample = "sample"
    none = "none"


class Verb(StrEnum):
    """Calls that can be planned."""

    importance = "importance"
    curves = "curves"
    shapley = "shapley"


DATA, MODEL, ASK, RUN, OUT = "The data", "The model", "The question", "The run", "The output"


def _option(panel: str, help: str, *names: str, metavar: str | None = None, **more: Any) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel, show_default=False, **more)


def _from_file(ctx: typer.Context, path: str | None) -> str | None:
    """Read the settings first, so that the command line takes precedence."""
    if path is not None and ctx.parent is not None and not ctx.resilient_parsing:
        group: Any = ctx.parent.command
        known = {name: settings(command) for name, command in group.commands.items()}
        try:
            ctx.default_map = read_settings(path, known, str(ctx.info_name))
        except (OSError, ValueError) as error:
            raise typer.BadParameter(str(error), ctx=ctx, param_hint="--config") from error
    return path


@dataclass(frozen=True)
class Arguments:
    """All arguments and options; a command takes some, the others keep their defaults."""

    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file, or module:name.")] = ""
    data: Annotated[str, typer.Argument(metavar="DATA", help="A table: CSV, TSV, Parquet, Feather or Arrow.")] = ""
    curves_of: Annotated[
        list[str] | None, typer.Argument(metavar="FEATURE", help="Columns; default: all.", show_default=False)
    ] = None
    # the data
    target: Annotated[str | None, _option(DATA, "The column to predict.", "--target", "-t", metavar="COLUMN")] = None
    weight: Annotated[str | None, _option(DATA, "A column with the weights of rows.", metavar="COLUMN")] = None
    sep: Annotated[
        str | None, _option(DATA, "What separates the columns of a CSV file: , ; | or tab.", metavar="CHARACTER")
    ] = None
    missing: Annotated[
        list[str] | None,
        _option(DATA, "Text of a CSV file that stands for missing values, besides empty fields.", metavar="NA,NULL"),
    ] = None
    drop: Annotated[list[str] | None, _option(DATA, "Columns to leave out.", metavar="A,B")] = None
    rows: Annotated[int | None, _option(DATA, "Use a random sample of N rows.", metavar="N", min=2)] = None
    seed: Annotated[int, _option(DATA, "Seed of all random draws; default 0.", metavar="N", min=0)] = 0
    more_data: Annotated[
        list[str] | None, _option(DATA, "Other rows for the same model; repeatable.", "--data", metavar="NAME=PATH")
    ] = None
    # the model
    models: Annotated[
        list[str] | None, _option(MODEL, "Other models on the same rows; repeatable.", metavar="NAME=PATH")
    ] = None
    trust: Annotated[bool, _option(MODEL, "Read joblib and pickle files: runs the code in them.", "--trust")] = False
    trust_type: Annotated[
        list[str] | None, _option(MODEL, "A type that a skops file may hold; repeatable.", metavar="MODULE.TYPE")
    ] = None
    # the question
    loss: Annotated[
        str | None, _option(ASK, "Such as absolute_error, pinball:0.9, scorer:roc_auc, module:name.", metavar="NAME")
    ] = None
    features: Annotated[list[str] | None, _option(ASK, "Columns to explain; default: all.", metavar="A,B")] = None
    group: Annotated[list[str] | None, _option(ASK, "Columns replaced together; repeatable.", metavar="NAME=A,B")] = (
        None
    )
    donors: Annotated[str, _option(ASK, "auto, all, latin:5, systematic:20, grid:30, ...", metavar="DESIGN")] = "auto"
    by: Annotated[str | None, _option(ASK, "Also separately for each value of a column.", metavar="COLUMN")] = None
    groups: Annotated[
        str | None, _option(ASK, "A column that says which rows belong together (patients, sites).", metavar="COLUMN")
    ] = None
    time: Annotated[str | None, _option(ASK, "A column with the time of each row.", metavar="COLUMN")] = None
    time_blocks: Annotated[
        str | None,
        _option(ASK, "Rows within so much --time belong together, such as 7D; auto: chosen.", metavar="LENGTH"),
    ] = None
    level: Annotated[float, _option(ASK, "The probability of any false finding; default 0.05.", metavar="P")] = 0.05
    depth: Annotated[int, _option(ASK, "The most conditions of a rule; default 2.", metavar="N", min=1, max=3)] = 2
    label: Annotated[str | None, _option(ASK, "The class whose probability is shown.", "--class", metavar="C")] = None
    points: Annotated[int, _option(ASK, "Values to print for each feature; default 20.", metavar="N", min=2)] = 20
    verb: Annotated[Verb, _option(ASK, "What to plan; default: importance.")] = Verb.importance
    shapley: Annotated[bool, _option(ASK, "Shapley shares as well.", "--shapley")] = False
    no_shapley: Annotated[bool, _option(ASK, "Without Shapley shares, the most expensive part.", "--no-shapley")] = (
        False
    )
    interactions: Annotated[
        int | None, _option(ASK, "Pairs among the N most important features; default 6, 0: none.", metavar="N", min=0)
    ] = None
    method: Annotated[Method, _option(ASK, "How Shapley values are computed; default: auto.")] = Method.auto
    aggregate: Annotated[Aggregate, _option(ASK, "What is averaged over donors; prediction: SAGE values.")] = (
        Aggregate.loss
    )
    local: Annotated[bool, _option(ASK, "Shares of single rows, too, however long they take.", "--local")] = False
    gap: Annotated[
        str | None,
        _option(ASK, "Also by feature: the error of rows with a value less that of others.", metavar="COLUMN=VALUE"),
    ] = None
    precision: Annotated[
        float | None, _option(ASK, "Sample until all shares are this precise, such as 0.02.", metavar="P")
    ] = None
    budget: Annotated[int | None, _option(ASK, "Maximal number of predictions.", metavar="N", min=1)] = None
    # the run
    jobs: Annotated[int | None, _option(RUN, "Threads; -1: all cores.", metavar="N")] = None
    memory: Annotated[str, _option(RUN, "Maximal memory; default '1 GiB'.", metavar="SIZE")] = "1 GiB"
    config: Annotated[
        str | None,
        _option(RUN, "Options from a TOML file.", metavar="FILE", callback=_from_file, is_eager=True),
    ] = None
    quiet: Annotated[bool, _option(RUN, "No progress, notes or warnings.", "--quiet", "-q")] = False
    debug: Annotated[bool, _option(RUN, "Show where an error came from.", "--debug")] = False
    # the output
    json: Annotated[bool, _option(OUT, "Print JSON.", "--json")] = False
    csv: Annotated[bool, _option(OUT, "Print CSV.", "--csv")] = False
    save: Annotated[str | None, _option(OUT, "Save the result for losslens.load.", metavar="FILE")] = None
    output: Annotated[str, _option(OUT, "Where to write; default report.html.", "--output", "-o", metavar="FILE")] = (
        "report.html"
    )
    embed: Annotated[Embed, _option(OUT, "Rows that the file holds; none: only means over rows. Default: all.")] = (
        Embed.all
    )
    title: Annotated[str | None, _option(OUT, "Title of the report.", metavar="TEXT")] = None
    target_name: Annotated[
        str | None, _option(OUT, "What is predicted, in words; default: the target's column.", metavar="TEXT")
    ] = None


SOURCE = ("model", "data", "target", "weight", "sep", "missing", "drop", "rows", "seed", "trust", "trust_type")
RUNNING = ("jobs", "memory", "config", "quiet", "debug")
TABLE = ("json", "csv")
NAMED = ("group", "models", "more_data")  # name=value
OPTIONAL = ("curves_of",)  # arguments that may be omitted


def settings(command: Any) -> Iterator[Setting]:
    """The keys of a settings file that a command takes."""
    for parameter in command.params:
        if parameter.name in ("config", "help"):
            continue
        long = [name.removeprefix("--") for name in parameter.opts if name.startswith("--")]
        key = long[0] if long else "features" if parameter.name in OPTIONAL else parameter.name
        many = getattr(parameter, "multiple", False) or parameter.nargs == -1
        flag = getattr(parameter, "is_flag", False)
        kind: Any = "named" if parameter.name in NAMED else "many" if many else "flag" if flag else "one"
        yield Setting(key, kind, parameter.name)
