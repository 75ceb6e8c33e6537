"""The examples of the README and of docs/ run, and give what their comments say."""

import ast
import io
import re
import shlex
import tomllib
import warnings
from contextlib import chdir, redirect_stdout
from doctest import ELLIPSIS, OutputChecker
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import typer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

from losslens.cli import app

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
# What can't run here: a scheduler elsewhere, a plan with seconds that were measured, a library that isn't installed.
ELSEWHERE = (
    "tcp://scheduler",
    ">>> ll.plan(",
    *(name for name in ("sksurv", "mlflow", "skore") if not find_spec(name)),
)


def blocks(page, language=""):
    """The code between fences."""
    fenced = re.findall(r"^```(.*?)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [code for kind, code in fenced if kind == language]


def run(code, names):
    """Run the statements in `names`; the value of each expression by its lines, with the comments up to the next."""
    lines, values, body = code.splitlines(), {}, ast.parse(code).body
    for node, end in zip(body, [*(after.lineno - 1 for after in body[1:]), len(lines)], strict=True):
        if isinstance(node, ast.Expr):
            written = "\n".join(lines[node.lineno - 1 : end])
            values[written] = eval(compile(ast.Expression(node.value), written, "eval"), names)
        else:
            exec(compile(ast.Module([node], []), ast.unparse(node), "exec"), names)
    return values


# -- the README ---------------------------------------------------------------------------------------------------

(TEN_LINES,) = blocks(ROOT / "README.md", "python")


@pytest.fixture(scope="module")
def readme(tmp_path_factory):
    """The README's example, run: its names, the values of its expressions, and what it printed."""
    names, printed = {}, io.StringIO()
    with chdir(tmp_path_factory.mktemp("readme")), redirect_stdout(printed):
        values = run(TEN_LINES, names)
    return names, values, printed.getvalue()


def test_the_readme_prints_what_it_shows(readme):
    (shown,) = blocks(ROOT / "README.md", "text")
    assert OutputChecker().check_output(shown, readme[2], ELLIPSIS), readme[2]


def test_numbers_in_the_text_are_those_that_come_out(readme):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    hr = readme[0]["imp"]["hr"]
    low, high = hr.interval()
    assert f"{hr.pfi:,.0f} is the *permutation feature importance* (PFI) of the hour" in text
    assert f'`imp["hr"].interval()`, {low:,.0f} to {high:,.0f}, is its 95% confidence interval' in " ".join(
        text.split()
    )


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 110
    assert len(TEN_LINES.replace("\n\n", "\n").splitlines()) == 10


@pytest.fixture(scope="module")
def asked(readme, tmp_path_factory):
    """What the calls in tables of questions are about: a model of few rows and columns, and results of the README."""
    ll, few = readme[0]["ll"], ["hr", "workingday", "temp"]
    X, y = readme[0]["X_test"][few][:300].reset_index(drop=True), readme[0]["y_test"][:300]
    learner = DecisionTreeRegressor(max_depth=5, random_state=0)  # which is fitted hundreds of times
    model, labels = learner.fit(X, y), y > np.median(y)
    classifier = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype").fit(X, labels)
    names = {"ll": ll, "model": model, "a": model, "b": model, "learner": learner, "estimator": learner}
    names |= {"models": {"deep": model, "flat": DecisionTreeRegressor(max_depth=3, random_state=0).fit(X, y)}}
    names |= {
        "X": X,
        "y": y,
        "X_train": X,
        "classifier": classifier,
        "labels": labels,
        "background": X,
        "i": 0,
        "j": 0,
        "row": 0,
        "name": "hr",
    }
    names |= {"groups": X["workingday"], "rows": (X["workingday"] == 1).to_numpy(), "times": np.arange(300)}
    names |= {"G": names["rows"], "A": names["rows"], "B": ~names["rows"]}
    names |= {"imp": ll.feature_importance(model, X, y), "shares": ll.shapley_importance(model, X, y, method="rows")}
    names |= {"one": names["imp"]["hr"], "refits": ll.feature_importance_cv(learner, X, y)}
    with chdir(tmp_path_factory.mktemp("asked")):
        names["imp"].save("bikeshare.losslens")
        yield names


PAGES_OF_TABLES = (ROOT / "README.md", *DOCS, *sorted((ROOT / "docs").glob("*/*.md")))
TABLES = [line for page in PAGES_OF_TABLES for line in page.read_text("utf-8").splitlines() if line[:1] == "|"]
NAMED = r"(?:ll|imp|shares|refits|one)"  # the library, and results as tables call them
CALLS = sorted({code for line in TABLES for code in re.findall(rf"`((?:\w+ = )?{NAMED}[.\[][^`]*)`", line)})
UNUSED = "one.local == 0"  # of a feature that the model ignores


@pytest.mark.parametrize("call", CALLS)
def test_code_in_tables_runs_as_written(asked, call):
    """Calls and attributes; an identity holds."""
    (statement,) = ast.parse(call.replace("(...", "(model, X, y")).body
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a few rows are too few for
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Compare) and call != UNUSED:
            sides = (statement.value.left, *statement.value.comparators)
            left, right = (eval(ast.unparse(side), dict(asked)) for side in sides)
            np.testing.assert_allclose(left, right, rtol=1e-9)
        else:
            exec(ast.unparse(statement), dict(asked))


def test_code_in_the_tables_of_questions_is_all_run():
    """Every piece of code in a row that begins with a question, but for what is typed in a shell."""
    lines = [line for line in TABLES if re.match(r"\| .*\?.* \| .*`", line)]
    code = [one for line in lines for one in re.findall(r"`([^`]+)`", line)]
    code = [one for one in code if re.match(rf"(\w+ = )?{NAMED}[.\[]", one)]
    assert set(code) <= set(CALLS)
    assert len(code) > 50


# -- docs/ --------------------------------------------------------------------------------------------------------


@pytest.fixture
def given(readme, tmp_path, monkeypatch):
    """What examples in docs/ don't define: the README's model, rows to explain, and a folder of Parquet files."""
    X, y = readme[0]["X_test"], readme[0]["y_test"]
    (tmp_path / "data").mkdir()
    for part in (slice(0, 40), slice(40, 100)):
        table = X[part].assign(target=y[part], weight=1.0)
        table.to_parquet(tmp_path / "data" / f"{part.start}.parquet")
    monkeypatch.chdir(tmp_path)
    names = {name: readme[0][name] for name in ("ll", "model", "X_test", "y_test")}
    small = HistGradientBoostingRegressor(max_iter=3, categorical_features="from_dtype").fit(X, y)
    booster = HistGradientBoostingClassifier(max_iter=3, categorical_features="from_dtype").fit(X, y > np.median(y))
    names |= {"estimator": small, "linear": small, "forest": names["model"], "classifier": booster}
    return names | {"X": X[:300], "y": y[:300], "X_train": X[:300], "y_train": y[:300], "groups": X["workingday"]}


@pytest.mark.parametrize("page", [page for page in DOCS if blocks(page, "python")], ids=lambda page: page.stem)
def test_examples_of_docs_run(page, given):
    for code in blocks(page, "python"):
        if not any(word in code for word in ELSEWHERE):
            for line, value in run(code, given).items():
                if shown := re.search(r"# '(.*)'$", line):
                    assert OutputChecker().check_output(f"{shown[1]}\n", f"{value}\n", ELLIPSIS), value


# -- shell ----------------------------------------------------------------------------------------------------------

COMMANDS = typer.main.get_command(app).commands


def test_commands_and_options_in_shell_examples_exist():
    shell = [line for page in (ROOT / "README.md", *DOCS) for code in blocks(page) for line in code.splitlines()]
    shell += [code for page in DOCS for code in re.findall(r"`(losslens [a-z].*?)`", page.read_text(encoding="utf-8"))]
    calls = [shlex.split(line) for line in shell if line.startswith("losslens ")]
    assert len(calls) > 5
    for _, command, *arguments in calls:
        options = {option for parameter in COMMANDS[command].params for option in parameter.opts}
        assert {argument for argument in arguments if argument.startswith("-")} <= options, command


def test_every_command_is_in_the_readme_and_in_its_own_page():
    for page in (ROOT / "README.md", ROOT / "docs" / "cli.md"):
        text = page.read_text(encoding="utf-8")
        assert [name for name in COMMANDS if not re.search(rf"losslens {name}|`{name}", text)] == []


TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_make_targets_exist():
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "CONTRIBUTING.md"))
    assert set(re.findall(r"`?make ([a-z-]+)(?:`|    #)", text)) <= TARGETS


def test_workflows_call_make_targets():
    """And nothing else, but for what a system must have before make runs."""
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    steps = [step for path in workflows for step in re.findall(r" run: (.+)", path.read_text(encoding="utf-8"))]
    others = [step for step in steps if not step.startswith("make ")]
    assert [step.split()[:2] for step in others] == [["brew", "install"]]
    assert {step.split()[1] for step in steps if step not in others} <= TARGETS


# -- versions -------------------------------------------------------------------------------------------------------


def test_one_version_everywhere():
    """What pyproject.toml says is what is cited, and the newest entry of the changelog."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    newest = re.search(
        r"^## \[(.+?)\] - (?:unreleased|\d{4}-\d{2}-\d{2})$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    assert project["version"] == cited[1] == newest[1]


# -- paths ----------------------------------------------------------------------------------------------------------

PACKAGE = ROOT / "src" / "losslens"
PAGES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")]
PAGES += [*DOCS, PACKAGE / "page" / "README.md"]


MODULES = [path.relative_to(ROOT).as_posix() for folder in (PACKAGE, ROOT / "tests") for path in folder.rglob("*.py")]
OTHERS = (*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "docs").glob("*/*.py"))
MODULES += [path.relative_to(ROOT).as_posix() for path in OTHERS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_modules_that_a_page_names_exist(page):
    """By their whole path, or by the end of it where the sentence says in which room."""
    named = set(re.findall(r"[\w/]+\.py\b", page.read_text(encoding="utf-8")))
    assert [path for path in named if not any(f"/{module}".endswith(f"/{path}") for module in MODULES)] == []


def anchors(page):
    """What a link can point to: headings in small letters, spaces as hyphens, other signs left out."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
