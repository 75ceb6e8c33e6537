"""The command line: what it prints, what it writes, how it ends."""

import csv
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import losslens as ll
from losslens.cli import app
from losslens.cli.errors import stopping_on_interrupt
from losslens.cli.model_files import read_model
from losslens.cli.printing import as_csv
from losslens.cli.tables import read_table
from losslens.results import ShapleyImportance
from model_folder import REMAINDER, TREE, fill

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = fill(tmp_path_factory.mktemp("files"))
    os.mkfifo(folder / "pipe")
    (folder / "leaving.py").write_text("raise SystemExit(3)")
    (folder / "gaps.csv").write_text("a,b,y\n1,2,3\n2,,4\n3,4,5\n")
    return folder


@pytest.fixture(autouse=True)
def _inside(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))


def ask(*arguments, code=0):
    result = RUNNER.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def start(*arguments, **options):
    """The program itself."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    program = "from losslens.cli import main; main()"
    return subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], **(pipes | options))


def run(*arguments, code=0, **options):
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=100)
    assert process.returncode == code, (out, err)
    return out, err


LINEAR = ("linear.skops", "t.csv", "--target", "y")
# A model that brings no library along: a process of its own starts in a third of the time.
LIGHT = ("mine:quiet", "t.csv", "--target", "y", "--loss", "squared_error", "--drop", "size,label,id")


# -- what is printed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["importance", "shapley", "report"])
def test_a_model_that_reads_the_target_gets_a_warning(command, tmp_path):
    arguments = ("t.csv", "--target", "y", *(("--output", tmp_path / "page.html") if command == "report" else ()))
    told = ask(command, "given_the_answer.skops", *arguments).stderr
    assert told.count("warning: X has the target: its column 'y' equals y in every row") == 1
    assert "warning" not in ask(command, "linear.skops", *arguments).stderr


def test_importance_as_a_table_json_and_csv():
    table = ask("importance", *LINEAR, "--rows", 100)
    lines = table.stdout.splitlines()
    assert lines[0].startswith("Importances: increase in squared error")
    assert lines[1].split() == ["feature", "importance", "std.", "error", "95%", "interval"]
    assert [line.split()[0] for line in lines[2:4]] == ["a", "b"]
    assert "  (a sample of 100 of 200 rows, seed 0)" in lines
    assert "left out: size, label, id, weight" in table.stderr

    whole = json.loads(ask("importance", *LINEAR, "--json").stdout)
    assert whole["command"] == "importance"
    assert whole["loss"] == "squared error"
    assert whole["n_rows"] == 200
    assert [row["feature"] for row in whole["result"]] == ["a", "b"]

    rows = list(csv.DictReader(io.StringIO(ask("importance", *LINEAR, "--csv", "-q").stdout)))
    assert [float(row["importance"]) for row in rows] == [row["importance"] for row in whole["result"]]


def test_the_numbers_are_those_of_the_verb(folder):
    table = read_table("t.csv")
    imp = ll.feature_importance(
        read_model("linear.skops"), table[["a", "b"]], table["y"], loss="absolute_error",
        features=["b", {"both": ["a", "b"]}], donors=ll.Latin(5), sample_weight=table["weight"], random_state=3,
    )  # fmt: skip
    result = ask(
        "importance", *LINEAR, "--loss", "absolute_error", "--features", "b", "--group", "both=a,b", "--donors",
        "latin:5", "--weight", "weight", "--seed", 3, "--json", "--save", "kept.losslens",
    )  # fmt: skip
    found = {row["feature"]: row["importance"] for row in json.loads(result.stdout)["result"]}
    assert found == {name: imp[name].pfi for name in imp}
    assert {name: one.pfi for name, one in ll.load("kept.losslens").items()} == found


def test_a_budget_is_a_time_or_a_number_of_predictions():
    counted = ask("importance", *LIGHT, "--budget", 2000).stdout
    assert "the budget of 2,000 predictions allowed no more" in counted or "hardly make it more precise" in counted
    timed = ask("importance", *LIGHT, "--budget", "2 min", "--precision", "ranks").stdout
    assert "(budget: all 200 rows" in timed
    assert "budget is a time" in ask("importance", *LIGHT, "--budget", "ten", code=2).stderr
    assert "budget: all 200 rows" in ask("shapley", *LIGHT, "--budget", "1 min").stdout


def test_importance_by_a_column_that_is_no_input():
    found = json.loads(ask("importance", *LINEAR, "--by", "label", "--json").stdout)["result"]
    assert [(row["label"], row["feature"]) for row in found][::2] == [("(all)", "a"), ("down", "a"), ("up", "a")]
    assert re.search(r"^  label +rows +error +a +b$", ask("importance", *LINEAR, "--by", "label").stdout, re.MULTILINE)


@pytest.mark.parametrize("start", list("=+-@\t\r\n"))
def test_csv_holds_no_formula(start):
    """A spreadsheet runs a cell that begins like one; names and values come from data that others may have written."""
    rows = [{"feature": f"{start}cmd|x", f"{start}2,a": "-1.5", "n": -2.5}, {"feature": "+1e-5", "n": None}]
    head, first, second = csv.reader(io.StringIO(as_csv(rows), newline=""))
    assert head == ["feature", f"'{start}2,a", "n"]
    assert first == [f"'{start}cmd|x", "-1.5", "-2.5"]
    assert second == ["+1e-5", "", ""]


def test_curves_with_and_without_a_target():
    result = ask("curves", *LINEAR, "a", "b", "--points", 4)
    assert "a (4 of 200 values; --csv has all)" in result.stdout
    full = json.loads(ask("curves", *LINEAR, "a", "--json").stdout)["result"]
    assert len(full) == 200
    assert set(full[0]) == {"feature", "value", "weight", "importance", "effect"}
    alone = json.loads(ask("curves", "linear.skops", "t.csv", "a", "--json").stdout)["result"]
    assert [row["effect"] for row in alone] == pytest.approx([row["effect"] for row in full])
    assert "importance" not in alone[0]
    group = ask("curves", "linear.skops", "t.csv", "--group", "both=a,b", "--points", 3).stdout
    assert "a=" in group
    assert "b=" in group


def test_curves_of_a_class():
    up = ask("curves", "classes.skops", "t.csv", "a", "--target", "label", "--points", 3)
    assert "(the effect is on the probability of class up)" in up.stdout
    down = ask("curves", "classes.skops", "t.csv", "a", "--class", "down", "--points", 3)
    assert "(the effect is on the probability of class down)" in down.stdout


def test_curves_announce_the_columns_that_they_have():
    """The mean prediction of three classes is that of the class that is named."""
    asked = ("curves", "sizes.skops", "t.csv", "a", "--points", 3)
    both = "increase in log loss, and mean prediction, with every row at a value"
    alone = ask(*asked, "--target", "size").stdout
    assert alone.startswith("Curves: increase in log loss with every row at a value\n")
    assert "effect" not in alone.splitlines()[3]
    assert "(mean predictions are of one class: name it with --class)" in alone
    assert ask(*asked, "--target", "size", "--class", "large").stdout.startswith(f"Curves: {both}\n")
    assert ask(*asked, "--class", "large").stdout.startswith("Curves: mean prediction with every row at a value\n")
    found = ask("curves", *LINEAR, "a", "--loss", "scorer:r2", "--points", 3).stdout
    assert found.startswith("Curves: decrease in r2_score with every row at a value\n")


def test_shapley_shares_sum_to_one():
    result = ask("shapley", *LINEAR, "--json", "--save", "shares.losslens")
    found = json.loads(result.stdout)
    assert sum(row["share"] for row in found["result"]) == pytest.approx(1)
    assert found["exact"] is True
    assert found["skill"] == pytest.approx(1 - found["error_all"] / found["error_constant"])
    assert json.loads(ask("importance", *LINEAR, "--json").stdout)["skill"] == pytest.approx(found["skill"])
    assert isinstance(ll.load("shares.losslens"), ShapleyImportance)
    assert "%" in ask("shapley", *LINEAR, "--method", "walk", "--precision", 0.1, "--group", "all=a,b").stdout


def test_segments_as_a_table_json_csv_and_file(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 400))
    y = a + rng.normal(size=400) * np.where(b > 0.8, 6, 1)
    lines = [f"{u},{v},{w},{k // 4}" for k, (u, v, w) in enumerate(zip(a, b, y, strict=True))]
    (tmp_path / "worse.csv").write_text("\n".join(["a,b,y,site", *lines]))
    (tmp_path / "plain_model.py").write_text("def predict(X): return X.to_numpy()[:, 0]")
    sys.path.insert(0, str(tmp_path))
    asked = ("segments", "plain_model:predict", tmp_path / "worse.csv", "--target", "y", "--loss", "squared_error")
    table = ask(*asked, "--drop", "site").stdout
    assert table.startswith("Weak segments: 1 segment; squared error")
    assert "b > 0." in table
    whole = json.loads(ask(*asked, "--drop", "site", "--json", "--save", tmp_path / "found.losslens").stdout)
    [one] = whole["result"]
    assert one["error"] > one["other"]
    assert whole["why"] is None
    assert ll.load(tmp_path / "found.losslens").segments[0].rule == one["rule"]
    assert ask(*asked, "--drop", "site", "--csv").stdout.startswith("rule,n,share,error")
    grouped = json.loads(ask(*asked, "--drop", "site", "--groups", "site", "--depth", 1, "--json").stdout)
    assert grouped["result"][0]["rule"].startswith("b > 0.")
    few = json.loads(ask(*asked, "--drop", "site", "--rows", 50, "--json").stdout)
    assert few["result"] == []
    assert "needs 100 rows" in few["why"]
    assert "one number for all rows" in ask(*asked[:5], "--loss", "scorer:r2", code=2).stderr


def test_rows_in_time(tmp_path):
    """Dates of a CSV file are text; with blocks of time, standard errors are those of `groups=`."""
    rng = np.random.default_rng(0)
    a, y = rng.normal(size=(2, 60))
    days = np.datetime_as_string(np.datetime64("2024-01-01") + np.arange(60).astype("m8[D]"))
    lines = [f"{u},{v},{day},{k}" for k, (u, v, day) in enumerate(zip(a, y, days, strict=True))]
    (tmp_path / "days.csv").write_text("\n".join(["a,y,day,k", *lines]))
    (tmp_path / "timed_model.py").write_text("def predict(X): return X.to_numpy()[:, 0]")
    sys.path.insert(0, str(tmp_path))
    asked = ("importance", "timed_model:predict", tmp_path / "days.csv", "--target", "y", "--loss", "squared_error")
    asked = (*asked, "--drop", "day,k")
    found = json.loads(ask(*asked, "--time", "day", "--time-blocks", "7D", "--json").stdout)
    blocks = ll.time_blocks(np.array(days, "M8[D]"), "7D")
    imp = ll.feature_importance(lambda X: X[:, 0], a[:, None], y, loss="squared_error", groups=blocks)
    assert found["result"][0]["std_error"] == pytest.approx(imp["x0"].std_error)
    assert "TimeBlocks: 60 rows in 9 blocks of 7 days" in ask(*asked, "--time", "day", "--time-blocks", "7D").stdout
    by_number = json.loads(ask(*asked, "--time", "k", "--time-blocks", "7", "--json").stdout)
    assert by_number["result"] == found["result"]
    assert "in a row, from the autocorrelation" in ask(*asked, "--time", "k", "--time-blocks", "auto").stdout
    assert "--time, the column with the times, and --time-blocks" in ask(*asked, "--time", "day", code=2).stderr
    assert "--time-blocks needs --time" in ask(*asked, "--time-blocks", "7D", code=2).stderr
    (tmp_path / "days.csv").write_text("a,y,day\n1,2,monday\n2,3,tuesday\n")
    assert (
        "must hold numbers or dates" in ask(*asked[:-1], "day", "--time", "day", "--time-blocks", "7D", code=2).stderr
    )


def test_a_gap_by_feature():
    asked = ("shapley", "linear.skops", "t.csv", "--target", "y", "--gap")
    shown = ask(*asked, "size=small").stdout
    assert "Gap: squared error of size=small less that of the rest" in shown
    assert re.search(r"difference .* in size=small +in the rest\n", shown)
    found = json.loads(ask(*asked, "size=small", "--json").stdout)
    assert sum(line["part"] for line in found["gap"]) == pytest.approx(found["gap_total"])
    assert "no row has this value; there are" in ask(*asked, "size=huge", code=2).stderr
    assert "--gap takes a column and one of its values" in ask(*asked, "size", code=2).stderr


def test_features_that_go_together(tmp_path):
    a, b = np.random.default_rng(0).normal(size=(2, 200))
    pd.DataFrame({"a": a, "b": a + 0.1 * b, "c": b, "y": a}).to_csv(tmp_path / "tied.csv", index=False)
    asked = ("importance", "mine:quiet", str(tmp_path / "tied.csv"), "--target", "y", "--loss", "squared_error")
    shown = ask(*asked, "--blocks").stdout
    assert "Together: increase in squared error, features of a block together" in shown
    assert "one carries it" in shown
    (block,) = json.loads(ask(*asked, "--blocks", "--json").stdout)["blocks"]
    assert (block["block"], block["case"]) == ("a, b", "one carries it")
    assert "blocks" not in json.loads(ask(*asked, "--json").stdout)
    assert "no features go together" in ask("importance", *LINEAR, "--blocks").stdout


def test_models_and_rows_side_by_side():
    models = ask("compare", *LINEAR, "--models", "nameless=nameless.skops", "--shapley")
    heads = [line.split() for line in models.stdout.splitlines() if line.endswith("nameless")]
    assert heads == [["linear", "nameless"], ["feature", "linear", "nameless"]]
    assert "Differences from linear" in models.stdout
    scores = ask("compare", *LINEAR, "--models", "nameless=nameless.skops", "--loss", "r2").stdout
    assert scores.startswith("Comparison: decrease in r2_score; 2 side by side")
    assert "(score)" in scores
    rows = ("first=t.csv", "--target", "y", "--data", "second=t.parquet", "--json")
    whole = json.loads(ask("compare", "linear.skops", *rows, "--weight", "weight").stdout)
    assert [row["model"] for row in whole["result"]] == ["first", "first", "second", "second"]
    assert all(row["difference"] == 0 for row in whole["differences"])
    assert [(row["distance"], row["moved"]) for row in whole["moved"]] == [(0, False)] * 2
    assert "Differences from first, and how far the values moved" in ask("compare", "linear.skops", *rows[:-1]).stdout
    assert "with other models, --models name=path, or on other rows" in ask("compare", *LINEAR, code=2).stderr


def test_a_gate_exits_with_3_where_a_condition_surely_holds(tmp_path):
    """A model without b is worse, and a's share in it is surely above a half; the other order passes."""
    junit = tmp_path / "gate.xml"
    asked = ("compare", *LINEAR, "--models", "new=only_a.skops", "--fail-if", "error", "--fail-if", "rank:a")
    shown = ask(*asked, "--junit", junit, code=3).stdout
    assert re.search(r"new +error +fails +the error rises by", shown)
    assert re.search(r"new +rank:a +passes", shown)
    suite = ET.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), len(suite.findall("testcase"))) == ("2", "1", 2)
    whole = json.loads(ask(*asked, "--json", code=3).stdout)
    assert [one["outcome"] for one in whole["gate"]] == ["fails", "passes"]
    same = ("compare", *LINEAR, "--models", "same=linear.skops", "--fail-if", "error>.01")
    assert "passes" in ask(*same).stdout
    near = ("compare", *LINEAR, "--models", "near=near.skops", "--fail-if", "error")
    assert "cannot tell" in ask(*near).stdout
    ask(*near, "--strict", code=3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--fail-if", "mistake"), "'mistake' is no condition: error, error>.05"),
        (("--fail-if", "rank:c"), "unknown feature 'c'"),
        (("--strict",), "--strict and --junit are about conditions: add --fail-if"),
        (("--fail-if", "error", "--junit", "no/such/folder.xml"), "no/such"),
    ],
)
def test_conditions_that_make_no_sense(arguments, message):
    assert message in ask("compare", *LINEAR, "--models", "new=only_a.skops", *arguments, code=2).stderr


@pytest.mark.parametrize("verb", ["importance", "curves", "shapley"])
def test_plans(verb):
    assert ask("plan", *LINEAR, "--verb", verb).stdout.startswith("Plan: ")
    assert json.loads(ask("plan", *LINEAR, "--verb", verb, "--json").stdout)["n_predictions"] > 0


def test_a_scorer_has_no_empty_columns_and_its_name_is_a_loss():
    asked = ("importance", "classes.skops", "t.csv", "--target", "label", "--loss")
    lines = ask(*asked, "scorer:roc_auc").stdout
    assert "decrease in roc_auc" in lines.splitlines()[0]
    assert ask(*asked, "roc_auc").stdout == lines


@pytest.mark.parametrize(
    ("model", "target"),
    [("tree.skops", "y"), ("words.skops", "y"), ("xgb.ubj", "y"), ("unordered.txt", "y"), ("columns.onnx", "y"),
     ("linear.joblib", "y"), ("classes.skops", "label")],
)  # fmt: skip
def test_every_kind_of_model(model, target):
    arguments = ["importance", model, "t.parquet", "--target", target, "--rows", 60, "--csv"]
    trusted = (TREE, REMAINDER)
    result = ask(*arguments, "--trust", *(part for name in trusted for part in ("--trust-type", name)))
    assert result.stdout.splitlines()[1].startswith("a,")
    assert ("warning: reading linear.joblib runs any code" in result.stderr) == (model == "linear.joblib")


def test_a_report_is_one_file(folder):
    (folder / "words.csv").write_text("column,description\na,the first of them\n")
    result = ask(
        "report", *LINEAR, "--by", "label", "--models", "other=nameless.skops", "-o", "page.html", "--rows", 50,
        "--target-name", "pages & words", "--descriptions", "words.csv",
    )  # fmt: skip
    assert "wrote page.html" in result.stderr
    assert "What does this model need to predict pages & words?\n  On " in result.stderr
    assert result.stdout == ""
    page = (folder / "page.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "What does this model need to predict pages &amp; words?" in page
    assert "the first of them" in page
    (folder / "words.csv").write_text("aa,the first of them\n")
    wrong = ask("report", *LINEAR, "-o", "page.html", "--descriptions", "words.csv", code=2)
    assert "no column 'aa'; did you mean 'a'?" in wrong.stderr


def test_the_demo_and_what_it_needs(monkeypatch):
    monkeypatch.setattr("losslens.demo.main", lambda: sys.stdout.write("explained"))
    assert ask("demo").stdout == "explained"
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    assert ask("demo", code=2).stderr.startswith("error: the demo needs scikit-learn and pandas: pip install")


def test_warmup_says_that_everything_is_there_and_where(monkeypatch):
    """With one module, so that little is compiled: the cache of other tests may hold it or not."""
    from losslens.engines import additive_sums, compiled

    monkeypatch.setattr(compiled, "MODULES", {"losslens.engines.additive_sums": 1})
    ask("warmup")
    again = ask("warmup").stdout
    kernels = sum(isinstance(one, compiled.Kernel) for one in vars(additive_sums).values())
    assert again.startswith(f"everything is there: {kernels} compiled kernels in ")
    assert os.path.isdir(again.split(" in ")[-1].strip())  # noqa: PTH112


def test_warmup_says_what_is_compiled(monkeypatch):
    from losslens.engines import compiled

    done = [compiled.CompiledModule("a", 3, 2, 1.25, "/cache/a"), compiled.CompiledModule("b", 4, 0, 0.1, "/cache/b")]
    monkeypatch.setattr(compiled, "compile_all", lambda: done)
    lines = ask("warmup").stdout.splitlines()
    assert lines == ["a: 2 of 3 kernels compiled, 1.2 s", "2 of 7 kernels compiled in 1 s; the cache is in /cache"]


def test_warmup_without_a_folder_says_how_to_name_one(monkeypatch):
    from losslens.engines import compiled

    monkeypatch.setattr(compiled, "MODULES", {"losslens.engines.additive_sums": 1})
    monkeypatch.setattr(compiled.Kernel, "folder", lambda self: None)
    result = ask("warmup", code=2)
    assert result.stderr.startswith("error: compiled code cannot be kept")
    assert "set the environment variable NUMBA_CACHE_DIR" in result.stderr


def test_what_good_models_need():
    good = json.loads(ask("compare", *LINEAR, "--models", "near=near.skops", "--good", "--json").stdout)
    assert good["best"] in good["good"]
    assert {row["need"] for row in good["result"]} <= {"always", "never", "sometimes", "can't tell"}
    assert "Good models:" in ask("compare", *LINEAR, "--models", "near=near.skops", "--good", "--group", "g=a,b").stdout
    refused = ask("compare", *LINEAR, "--models", "near=near.skops", "--good", "--shapley", code=2)
    assert "leave out --data, --fail-if and --shapley" in refused.stderr


COMMANDS = ("importance", "curves", "shapley", "segments", "compare", "plan", "report")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_first_what_was_read_as_missing(folder, command, tmp_path):
    table = read_table("t.csv").astype({"b": str, "size": str})
    table.loc[[3, 4, 5], "b"] = ["NA", "-", ""]
    table.loc[[0, 1], "size"] = ["", "NA"]
    table.to_csv(tmp_path / "t.csv", index=False)
    more = {"compare": ["--models", "other=unordered.txt"], "report": ["-o", tmp_path / "r.html", "--no-shapley"]}
    arguments = [command, "lgb.model", tmp_path / "t.csv", "--target", "y", *more.get(command, [])]
    told = "column 'b' must hold numbers, but 2 of its values are text: 'NA', '-'; .* --missing NA,-$"
    assert re.search(told, ask(*arguments, code=2).stderr.strip())
    first, *_ = ask(*arguments, "--missing", "NA, -").stderr.splitlines()
    assert first == "note: values read as missing: 3 of b and 2 of size"
    (tmp_path / "settings.toml").write_text('missing = ["NA", "-"]')
    assert ask(*arguments, "--config", tmp_path / "settings.toml").stderr.splitlines()[0] == first
    assert "read as missing" not in ask(*arguments, "--missing", "NA,-", "--quiet").stderr


def test_nothing_is_said_where_nothing_is_missing():
    assert "read as missing" not in ask("importance", *LINEAR).stderr


# -- settings -------------------------------------------------------------------------------------------------------


def test_settings_from_a_file_and_the_command_line_wins(folder):
    (folder / "s.toml").write_text(
        'model = "linear.skops"\ndata = "t.csv"\ntarget = "y"\nrows = 100\njson = true\nquiet = true\n'
        'group = {both = ["a", "b"]}\n[importance]\nfeatures = ["b"]\n[curves]\nfeatures = ["a"]\n'
    )
    found = json.loads(ask("importance", "--config", "s.toml").stdout)
    assert found["n_rows"] == 100
    assert {row["feature"] for row in found["result"]} == {"b", "both"}
    other = ask("importance", "nameless.skops", "--config", "s.toml", "--rows", 50, "--group", "x=a", "--csv", "--drop",
                "size,label,id,weight")  # fmt: skip
    assert [line.split(",")[0] for line in other.stdout.splitlines()] == ["feature", "x", "b"]
    assert "a sample" not in other.stderr  # quiet
    assert {row["feature"] for row in json.loads(ask("curves", "--config", "s.toml").stdout)["result"]} == {"a", "both"}
    (folder / "trusting.toml").write_text('model = "linear.pkl"\ntrust = true\n')
    told = ask("importance", "--config", "trusting.toml", "--target", "y", code=2).stderr
    assert "trust can't be set in a file" in told
    (folder / "bad.toml").write_text('[report]\ntitel = "x"')
    told = ask("importance", *LINEAR, "--config", "bad.toml", code=2).stderr
    assert "unknown key 'titel'; did you mean 'title'?" in told
    assert "there is no file" in ask("importance", "--config", "none.toml", code=2).stderr


# -- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.skops", "t.csv", "--target", "y"), "there is no file none.skops"),
        (("linear.skops", "none.csv", "--target", "y"), "there is no file none.csv"),
        (("linear.skops", "t.csv"), "name the column to predict with --target"),
        (("linear.skops", "t.csv", "--target", "lable"), "no target 'lable'; did you mean 'label'?"),
        (("linear.skops", "t.csv", "--target", "label"), "squared_error needs numbers in y"),
        (("linear.pkl", "t.csv", "--target", "y"), "Add --trust if you wrote it yourself"),
        (("tree.skops", "t.csv", "--target", "y", "--trust"), f"add --trust-type {TREE}"),
        (("mine:slope", "t.csv", "--target", "y"), "--loss must be named for slope"),
        (
            ("mine:fails", "t.csv", "--target", "y", "--loss", "squared_error"),
            "the model failed on these data: Runtime",
        ),
        (("classes.skops", "t.csv", "--target", "label", "--loss", "squared_error"), "use --loss zero_one"),
        (("classes.skops", "t.csv", "--target", "label", "--loss", "auc"), "write --loss roc_auc"),
        (("classes.skops", "t.csv", "--target", "label", "--loss", "scorer:roc"), "no scorer 'roc'"),
        ((*LINEAR, "--loss", "pinball:high"), "--loss pinball:NUMBER takes a number"),
        ((*LINEAR, "--loss", "mine:none"), "the module mine has no none"),
        ((*LINEAR, "--features", "A"), "unknown feature 'A'; did you mean 'a'?"),
        ((*LINEAR, "--group", "ab"), "--group takes name=value; got 'ab'"),
        ((*LINEAR, "--group", "g=a", "--group", "g=b"), "--group names 'g' twice"),
        ((*LINEAR, "--donors", "latin"), "--donors is auto, all, or one of"),
        ((*LINEAR, "--memory", "much"), "memory is a size"),
        ((*LINEAR, "--json", "--csv"), "choose one of --json and --csv"),
        ((*LINEAR, "--by", "lable"), "no column 'lable'"),
        (("", "t.csv", "--target", "y"), "the name of the model is empty"),
        (("linear.skops", "", "--target", "y"), "the name of the table is empty"),
        (("linear.skops", "pipe", "--target", "y"), "pipe is a pipe or a device, not a table: write its content"),
        (("t.csv", "linear.skops", "--target", "y"), "t.csv is a table, not a model: the model comes first"),
        (("leaving:model", "t.csv", "--target", "y"), "leaving:model: importing leaving failed: SystemExit: 3"),
        (
            ("linear.skops", "gaps.csv", "--target", "y"),
            "the model failed on these data: ValueError: Input X contains NaN.",
        ),
        ((*LINEAR, "--features", ""), "--features names no column; leave it out for all columns"),
        ((*LINEAR, "--jobs", 0), "--jobs is "),
        ((*LINEAR, "--memory", 0), "--memory must be above zero"),
        ((*LINEAR, "--weight", "label"), "--weight must hold finite numbers"),
        ((*LINEAR, "--save", ""), "path must be the name of a file"),
        (
            (*LINEAR, "--sep", ";"),
            "no target 'y'; there is a,b,size,y,label,id,weight; if commas separate the columns, say so",
        ),
        ((*LINEAR, "--save", "no/where.losslens"), "could not write no/where.losslens: there is no folder no"),
        ((*LINEAR, "--save", "."), "it is a folder"),
        ((*LINEAR, "--save", "pipe"), "could not write pipe: it is not a regular file"),
    ],
)
def test_one_sentence_says_what_is_wrong(arguments, message):
    result = ask("importance", *arguments, code=2)
    assert message in result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_debug_shows_where_an_error_came_from():
    told = ask("importance", *LINEAR, "--features", "A", "--debug", code=2).stderr
    assert "Traceback" in told
    assert "features.py" in told
    assert told.splitlines()[-1].startswith("error: unknown feature")


def test_an_error_that_nobody_foresaw_has_its_own_code(monkeypatch):
    def fail(*_, **__):
        return {}["missing"]

    monkeypatch.setattr("losslens.feature_importance", fail)
    told = ask("importance", *LINEAR, "-q", code=1).stderr
    assert told == "error: unexpected KeyError: missing; --debug shows where it came from\n"


def test_wrong_usage_and_version():
    assert "No such option" in ask("importance", *LINEAR, "--colour", code=2).stderr
    assert "Missing argument" in ask("importance", code=2).stderr
    assert ask("--version").stdout == f"losslens {ll.__version__}\n"


# -- as a process ---------------------------------------------------------------------------------------------------


def test_the_module_is_the_program():
    done = subprocess.run([sys.executable, "-m", "losslens", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"losslens {ll.__version__}\n"


def test_help_is_light():
    code = (
        "import sys\nfrom losslens.cli import main\nsys.argv = ['losslens', 'importance', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--trust-type" in done.stdout
    assert not {"matplotlib", "sklearn", "numba", "pandas", "bokeh"} & set(done.stderr.split())


def test_stdout_is_the_result_and_nothing_else():
    out, err = run("importance", "mine:slope", "t.csv", "--target", "y", "--loss", "mine:error", "--features", "a,b",
                   "--drop", "size,label,id", "--rows", "20", "--json")  # fmt: skip
    assert json.loads(out)["result"][0]["feature"] == "a"
    assert "a model may print" in err


def test_a_pipe_that_closes_and_a_full_one(folder):
    read, write = os.pipe()
    os.close(read)
    err = run("importance", *LIGHT, "-q", stdout=write, code=1)[1]
    os.close(write)
    assert "Traceback" not in err
    with open("/dev/full", "w") as full:  # noqa: PTH123
        err = run("importance", *LIGHT, "-q", stdout=full, code=2)[1]
    assert err == "error: could not write to the standard output: No space left on device\n"


def test_output_that_the_caller_closed_is_not_missed(folder):
    """`>&-`: there is no standard output; the file is written all the same, and doesn't take its place."""
    program = f"{sys.executable} -c 'from losslens.cli import main; main()'"
    command = f"{program} importance {' '.join(LIGHT)} --save closed >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0
    assert "a" in ll.load(folder / "closed")


@pytest.fixture
def mounted(tmp_path):
    """A function that mounts a small file system, where that is allowed."""
    places = []

    def mount(options):
        place = tmp_path / f"mounted{len(places)}"
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False)
        if done.returncode:
            return None
        places.append(place)
        return place

    yield mount if os.getuid() == 0 else lambda options: None
    for place in places:
        subprocess.run(["umount", place], check=True)


def test_a_read_only_folder_is_told_before_the_run(mounted, tmp_path):
    place, reason = mounted("ro"), "Read-only file system"
    if place is None:
        if os.getuid() == 0:
            pytest.skip("root may write everywhere, and not mount")
        place, reason = tmp_path / "closed", "Permission denied"
        place.mkdir(mode=0o555)
    for path, command in ((place / "r.losslens", ("importance", "--save")), (place / "r.html", ("report", "-o"))):
        arguments = ("mine:slow", "t.csv", "--target", "y", "--loss", "squared_error", command[1], path)
        err = ask(command[0], *arguments, code=2).stderr
        assert err == f"error: could not write {path}: {reason}\n"  # and the model was never asked


@pytest.mark.parametrize("command", ["importance", "report"])
def test_a_full_disk_leaves_nothing_behind(mounted, tmp_path, command):
    place, reason = mounted("size=16k"), "No space left on device"
    limited = place is None
    if limited:
        place, reason = tmp_path / "small", "File too large"
        place.mkdir()
    path = place / "result"
    path.write_text("an older one")
    arguments = (command, *LIGHT, "-q", "--save" if command == "importance" else "-o", path)
    if limited:  # a limit would be that of all tests
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))  # noqa: E731
        out, err = run(*arguments, code=2, preexec_fn=limit)
    else:
        result = ask(*arguments, code=2)
        out, err = result.stdout, result.stderr
    assert err == f"error: could not write {path}: {reason}\n"
    assert out.startswith("Importance" if command == "importance" else "")  # what was found is shown all the same
    assert [entry.name for entry in place.iterdir()] == ["result"]
    assert path.read_text() == "an older one"


@pytest.mark.parametrize(
    "command", [("importance", "--save"), ("shapley", "--method", "walk", "--save"), ("report", "--output")]
)
def test_ctrl_c_stops_without_a_trace(folder, command):
    arguments = (*command, "never.losslens", "mine:slow", "t.csv", "--target", "y", "--loss", "squared_error")
    with start(*arguments, "--drop", "size,label,id") as process:
        for line in process.stderr:
            if line == "asked\n":
                break
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert [line for line in err.splitlines() if line != "asked"] == ["stopped"]
    assert not [path for path in folder.iterdir() if "losslens" in path.name and path.name.startswith((".", "never"))]


def test_ctrl_c_counts_where_a_verb_took_it_for_enough():
    reached = []

    def body():
        with stopping_on_interrupt():
            with stopping_on_interrupt(), suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            reached.append("the file would be written")

    def failing():
        with stopping_on_interrupt():
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            raise AttributeError("of a module whose import was interrupted")

    usual = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        failing()
    with pytest.raises(KeyboardInterrupt):
        body()
    assert reached == []
    assert signal.getsignal(signal.SIGINT) is usual
