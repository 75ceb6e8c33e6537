"""All options of the command line, each once. A command takes some of them (`running.takes`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import typer

from losslens.cli.settings import Setting, read_settings
from losslens.results.gate import GRAMMAR


class Method(StrEnum):
    """How Shapley values are computed."""

    auto = "auto"
    exact = "exact"
    rows = "rows"
    totals = "totals"
    walk = "walk"
    paper = "paper"
    sage = "sage"


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


def _option(panel: str, help: str, metavar: str | None = None, *names: str, default: Any = None, **more: Any) -> Any:  # noqa: A002
    """An option of this field's name, or of these names."""
    option = typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel, show_default=False, **more)
    return field(default=default, metadata={"typed": option})


def _flag(panel: str, help: str, *names: str) -> Any:  # noqa: A002
    """An option without a value."""
    return _option(panel, help, None, *names, default=False)


def _argument(metavar: str, help: str, default: Any = "") -> Any:  # noqa: A002
    return field(default=default, metadata={"typed": typer.Argument(metavar=metavar, help=help, show_default=False)})


def _from_file(ctx: typer.Context, path: str | None) -> str | None:
    """Read the settings first, so that the command line takes precedence."""
    if path is not None and ctx.parent is not None and not ctx.resilient_parsing:
        group: Any = ctx.parent.command
        by_command = {name: list(settings(command)) for name, command in group.commands.items()}
        try:
            ctx.default_map = read_settings(path, by_command, str(ctx.info_name))
        except (OSError, ValueError) as error:
            raise typer.BadParameter(str(error), ctx=ctx, param_hint="--config") from error
    return path


@dataclass(frozen=True)
class Arguments:
    """All arguments and options; a command takes some, the others keep their defaults."""

    model: str = _argument("MODEL", "A model file, or module:name.")
    data: str = _argument("DATA", "A table: CSV, TSV, Parquet, Feather or Arrow.")
    curves_of: list[str] | None = _argument("FEATURE", "Columns; default: all.", None)
    # the data
    target: str | None = _option(DATA, "The column to predict.", "COLUMN", "--target", "-t")
    weight: str | None = _option(DATA, "A column with the weights of rows.", "COLUMN")
    sep: str | None = _option(DATA, "What separates the columns of a CSV file: , ; | or tab.", "CHARACTER")
    missing: list[str] | None = _option(
        DATA, "Text of a CSV file that stands for missing values, besides empty fields.", "NA,NULL"
    )
    drop: list[str] | None = _option(DATA, "Columns to leave out.", "A,B")
    rows: int | None = _option(DATA, "Use a random sample of N rows.", "N", min=2)
    seed: int = _option(DATA, "Seed of all random draws; default 0.", "N", default=0, min=0)
    more_data: list[str] | None = _option(DATA, "Other rows for the same model; repeatable.", "NAME=PATH", "--data")
    # the model
    models: list[str] | None = _option(MODEL, "Other models on the same rows; repeatable.", "NAME=PATH")
    trust: bool = _flag(MODEL, "Read joblib and pickle files: runs the code in them.", "--trust")
    trust_type: list[str] | None = _option(MODEL, "A type that a skops file may hold; repeatable.", "MODULE.TYPE")
    # the question
    loss: str | None = _option(ASK, "Such as absolute_error, pinball:0.9, scorer:roc_auc, module:name.", "NAME")
    features: list[str] | None = _option(ASK, "Columns to explain; default: all.", "A,B")
    group: list[str] | None = _option(ASK, "Columns replaced together; repeatable.", "NAME=A,B")
    donors: str = _option(ASK, "auto, all, latin:5, systematic:20, grid:30, ...", "DESIGN", default="auto")
    by: str | None = _option(ASK, "Also separately for each value of a column.", "COLUMN")
    groups: str | None = _option(ASK, "A column that says which rows belong together (patients, sites).", "COLUMN")
    time: str | None = _option(ASK, "A column with the time of each row.", "COLUMN")
    time_blocks: str | None = _option(
        ASK, "Length of blocks of --time, such as 7D; auto: chosen from the data.", "LENGTH"
    )
    blocks: bool = _flag(ASK, "Also features that go together, replaced together.", "--blocks")
    level: float = _option(ASK, "The probability of any false finding; default 0.05.", "P", default=0.05)
    depth: int = _option(ASK, "The most conditions of a rule; default 2.", "N", default=2, min=1, max=3)
    label: str | None = _option(ASK, "The class whose probability is shown.", "C", "--class")
    points: int = _option(ASK, "Values to print for each feature; default 20.", "N", default=20, min=2)
    verb: Verb = _option(ASK, "What to plan; default: importance.", default=Verb.importance)
    shapley: bool = _flag(ASK, "Shapley shares as well.", "--shapley")
    no_shapley: bool = _flag(ASK, "Without Shapley shares, the most expensive part.", "--no-shapley")
    interactions: int | None = _option(
        ASK, "Pairs among the N most important features; default 6, 0: none.", "N", min=0
    )
    method: Method = _option(
        ASK, "How Shapley values are computed; rows: those of single rows, too; default: auto.", default=Method.auto
    )
    gap: str | None = _option(
        ASK, "Also by feature: the error of rows with a value less that of others.", "COLUMN=VALUE"
    )
    precision: str | None = _option(
        ASK, "Until all shares are this precise, such as 0.02; ranks: until the leading ranks are settled.", "P"
    )
    budget: str | None = _option(ASK, "A time, such as '10 min', or a number of predictions.", "TIME")
    fail_if: list[str] | None = _option(
        ASK, f"Exit with code 3 where this surely holds of another model; repeatable: {GRAMMAR}.", "CONDITION"
    )
    strict: bool = _flag(ASK, "Fail also where the rows can't tell.", "--strict")
    good: bool = _flag(
        ASK, "How important each feature is to all models that predict about as well as the best.", "--good"
    )
    # the run
    jobs: int | None = _option(RUN, "Threads; -1: all cores.", "N")
    memory: str = _option(RUN, "Maximal memory; default '1 GiB'.", "SIZE", default="1 GiB")
    config: str | None = _option(RUN, "Options from a TOML file.", "FILE", callback=_from_file, is_eager=True)
    quiet: bool = _flag(RUN, "No progress, notes or warnings.", "--quiet", "-q")
    debug: bool = _flag(RUN, "Show where an error came from.", "--debug")
    # the output
    json: bool = _flag(OUT, "Print JSON.", "--json")
    csv: bool = _flag(OUT, "Print CSV.", "--csv")
    junit: str | None = _option(OUT, "Write the conditions as tests, in JUnit's format.", "FILE")
    save: str | None = _option(OUT, "Save the result for losslens.load.", "FILE")
    output: str = _option(OUT, "Where to write; default report.html.", "FILE", "--output", "-o", default="report.html")
    embed: Embed = _option(
        OUT, "Rows that the file holds; none: only means over rows. Default: all.", default=Embed.all
    )
    title: str | None = _option(OUT, "Title of the report.", "TEXT")
    target_name: str | None = _option(OUT, "What is predicted, in words; default: the target's column.", "TEXT")
    descriptions: str | None = _option(OUT, "A CSV file with a column and its description in each line.", "FILE")


SOURCE = ("model", "data", "target", "weight", "sep", "missing", "drop", "rows", "seed", "trust", "trust_type")
# Options by the argument of a verb that they set: a command has those of its verb.
SETS = {"group": "features", "label": "target", "jobs": "n_jobs"}
SETS |= dict.fromkeys(("config", "quiet", "debug"), "progress")  # of every verb
SETS |= {
    name: name
    for name in (
        "loss", "features", "donors", "level", "depth", "method", "precision", "budget", "memory", "embed",
        "title", "target_name",
    )
}  # fmt: skip
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
