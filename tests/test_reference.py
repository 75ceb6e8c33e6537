"""The reference of the site has every public name, and names nothing that isn't there."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
import typer

import losslens
import losslens.sklearn
from losslens import datasets, losses, results
from losslens.cli import app
from losslens.results.base import INTERNAL

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
# Of `losslens.losses`: what the other rooms of the library share, and what loss functions return.
NOT_FOR_USERS = {
    "LARGEST", "POSITIVE", "SMALLEST", "TOO_LARGE", "TOO_SMALL", "FunctionScorer", "OutputLoss", "OutputsLoss",
    "Response", "SurvivalLoss",
    "as_scorer", "call_read_only", "for_outputs", "from_metadata", "is_scorer", "names_of", "outputs_of", "resolve",
    "same_outputs", "title_of",
}  # fmt: skip

# Data with a line each, not functions with a docstring.
NAMED_LOSSES = {
    "absolute_error", "brier", "gamma_deviance", "hinge", "log_loss", "poisson_deviance", "squared_error", "zero_one",
}  # fmt: skip


def documented():
    """The full names in the lists of the reference, and of what it documents one by one."""
    for page in PAGES:
        module = "losslens"
        for block in re.findall(r"^```\{eval-rst\}\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            listing = False
            for line in block.splitlines():
                if found := re.match(r" *\.\. (\w+):: *(.*)$", line):
                    kind, rest = found.groups()
                    listing = kind == "autosummary"
                    module = rest if kind == "currentmodule" else module
                    if kind.startswith("auto") and not listing:
                        yield (rest if rest.startswith("losslens.") else f"{module}.{rest}").replace(".rows.", ".")
                elif listing and re.match(r" +~?[\w.]+$", line):
                    yield f"{module}.{line.strip().removeprefix('~')}"


NAMES = list(documented())


def find(name):
    """What a full name stands for."""
    parts = name.split(".")
    for k in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError as error:
            if not error.name.startswith("losslens"):
                pytest.skip(f"{error.name} is not installed")
            continue
        for part in parts[k:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def public():
    yield from (f"losslens.{name}" for name in losslens.__all__ if not inspect.ismodule(getattr(losslens, name)))
    yield from (f"losslens.results.{name}" for name in results.__all__)
    yield from (f"losslens.losses.{name}" for name in losses.__all__ if name not in NOT_FOR_USERS)
    yield from (f"losslens.sklearn.{name}" for name in losslens.sklearn.__all__)
    for name, one in vars(datasets).items():
        if inspect.isfunction(one) and not name.startswith("_"):
            yield f"losslens.datasets.{name}"


def test_every_public_name_is_in_the_reference():
    assert sorted(set(public()) - set(NAMES)) == []


@pytest.mark.parametrize("name", NAMES)
def test_what_the_reference_names_exists_and_has_a_docstring(name):
    assert inspect.getdoc(find(name))


def test_no_name_has_two_places():
    assert sorted({name for name in NAMES if NAMES.count(name) > 1}) == []


def test_names_that_users_do_not_need_are_still_there():
    assert set(losses.__all__) >= NOT_FOR_USERS


def test_every_page_is_in_the_contents():
    index = ROOT / "docs" / "reference" / "index.md"
    listed = re.search(r"```\{toctree\}\n(.*?)```", index.read_text("utf-8"), re.DOTALL)[1]
    listed = [line for line in listed.splitlines() if re.fullmatch(r"\w+", line)]
    assert sorted(listed) == sorted(page.stem for page in PAGES if page != index)


# -- what is shown of results -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def members():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield importlib.import_module("docs.reference.members")


def test_members_that_are_hidden_exist(members):
    classes = {one.__name__: one for one in members.result_classes().values()}
    fields = {
        name: {own for one in kind.__mro__ for own in getattr(one, "__annotations__", ())}
        for name, kind in classes.items()
    }
    public = {name: fields[name] | set(dir(kind)) for name, kind in classes.items()}
    assert INTERNAL - set().union(*public.values()) == set()
    for name, kind in classes.items():
        assert set(vars(kind).get("_internal", ())) <= public[name]


def test_results_that_only_the_reference_names_are_in_it(members):
    assert set(members.OTHERS) <= set(NAMES)


def test_what_is_shown_has_a_docstring(members):
    importances = members.result_classes()["losslens.results.Importances"]
    shown = dict(members.members(importances))
    assert {"plot", "test", "ranks", "to_frame", "given", "with_loss", "error"} <= set(shown)
    assert not {"stored", "kinds", "keys", "values"} & set(shown)


# -- the command line ---------------------------------------------------------------------------------------------


def test_every_command_and_option_is_in_the_reference(members):
    text = "\n".join(importlib.import_module("docs.reference.commands").lines())
    for name, command in typer.main.get_command(app).commands.items():
        assert f"## {name}\n" in text
        section = text.split(f"## {name}\n")[1].split("\n## ")[0]
        options = [option for one in command.params if one.name != "help" for option in one.opts]
        assert [option for option in options if option.startswith("-") and f"`{option}`" not in section] == []
    assert r"`--embed` all\|sample\|none" in text


def documented_functions(members):
    """What users call: functions, and methods of results."""
    for name in set(NAMES) & set(public()):
        if inspect.isfunction(one := find(name)):
            yield name, one
    for name, kind in members.result_classes().items():
        yield from ((f"{name}.{own}", one) for own, one in members.members(kind) if inspect.isfunction(one))


def is_described(parameter, text):
    """In a line of its own under "Parameters", or in a sentence; or all are those of another, which is named."""
    heads = re.findall(r"\w+", " ".join(re.findall(r"^\**\w[\w*, ]*$", text, re.MULTILINE)))
    in_a_sentence = re.search(rf"`{parameter}[`=]|^{parameter}: ", text, re.MULTILINE)
    return parameter in heads or in_a_sentence or re.search(r"arguments\s(as in|are those of) `", text)


def test_every_parameter_is_described_where_it_stands(members):
    missing = [
        f"{name}: {parameter}"
        for name, one in documented_functions(members)
        for parameter in inspect.signature(one).parameters
        if parameter not in ("self", "cls") and not is_described(parameter, inspect.getdoc(one))
    ]
    assert not missing, ", ".join(missing)


def test_numpydoc_finds_nothing_missing(members):
    """In docstrings as the site shows them: parameters with types, what is returned, an example, "see also"."""
    pytest.importorskip("numpydoc")
    complete = importlib.import_module("docs.reference.complete")
    assert list(complete.errors()) == []
    assert set(public()) - set(complete.names()) == {f"losslens.losses.{name}" for name in NAMED_LOSSES}
