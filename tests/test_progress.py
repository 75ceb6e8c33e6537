"""A bar where somebody is looking, silence elsewhere, and nothing left behind."""

import io
import sys
from contextlib import contextmanager, redirect_stderr
from types import SimpleNamespace

import numpy as np
import pytest

import losslens as ll
from losslens import progress
from losslens.progress import bar

X = np.random.default_rng(0).normal(size=(20, 2))
SHOWN, HIDDEN = "\x1b[?25h", "\x1b[?25l"  # the cursor


class Screen(io.StringIO):
    def isatty(self):
        return True


@contextmanager
def terminal():
    """In the test itself, not as a fixture: pytest puts its own stderr back in between."""
    with redirect_stderr(Screen()) as screen, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "120")
        yield screen


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """A bar appears at once."""
    monkeypatch.setattr(progress, "DELAY", -1.0)


def run(progress):
    with bar(100, "explaining", progress) as tick:
        tick(40)
        tick(60)


def explain(progress=None, **options):
    return ll.feature_effect(lambda X: X[:, 0], X, progress=progress, **options)


def test_a_pipe_stays_silent(capsys):
    run(None)
    explain()
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_a_bar():
    with terminal() as screen:
        run(None)
    assert "explaining" in screen.getvalue()
    assert "100 of 100 predictions" in screen.getvalue()


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_verb_counts_its_predictions_to_the_end(n_jobs):
    with terminal() as screen:
        predictions = explain(n_jobs=n_jobs).n_predictions
    assert f"{predictions:,} of {predictions:,} predictions" in screen.getvalue()


def test_false_silences_the_bar_on_a_terminal():
    with terminal() as screen:
        run(False)
        explain(False)
    assert screen.getvalue() == ""


def test_true_tells_a_pipe_too(capsys):
    run(True)
    output, errors = capsys.readouterr()
    assert output == ""
    assert "100 of 100 predictions" in errors


def test_a_short_run_does_not_flicker(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 1e9)
    with terminal() as screen:
        run(None)
    assert screen.getvalue() == ""


def test_the_bar_goes_away_and_the_cursor_comes_back_after_an_error():
    def interrupted():
        with bar(100, "explaining", None) as tick:
            tick(10)
            raise KeyboardInterrupt

    with terminal() as screen, pytest.raises(KeyboardInterrupt):
        interrupted()
    assert screen.getvalue().rindex(SHOWN) > screen.getvalue().rindex(HIDDEN)


@pytest.mark.parametrize(("shell", "notebook"), [("ZMQInteractiveShell", True), ("TerminalInteractiveShell", False)])
def test_a_notebook_is_known_by_its_kernel(shell, notebook, monkeypatch):
    kernel = type(shell, (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    assert progress._in_notebook() is notebook


def test_ipython_without_a_kernel_is_no_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not progress._in_notebook()
