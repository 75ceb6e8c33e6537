"""A bar where somebody is looking, silence elsewhere, and nothing left behind."""

import io
import sys
import time
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


class Notebook:
    """A kernel, and what its cells show: one content for each display, which updates replace."""

    def __init__(self):
        self.execution_count, self.cells, self.updates = 1, [], 0

    def display(self, content, *, raw, display_id):
        assert raw
        assert display_id
        self.cells.append((self.execution_count, content))
        place = len(self.cells) - 1
        return SimpleNamespace(update=lambda content, raw: self.update(place, content))

    def update(self, place, content):
        self.updates += 1
        self.cells[place] = (self.cells[place][0], content)


@contextmanager
def notebook():
    kernel = type("ZMQInteractiveShell", (Notebook,), {})()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
        patch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=kernel.display))
        yield kernel


EMPTY = {"text/html": "", "text/plain": ""}


def test_a_notebook_sees_one_line_that_goes_away(capsys):
    with notebook() as kernel, bar(100, "explaining <f>", None) as tick:
        tick(40)
        tick.note("± 3%")
        tick(60)
        ((_, content),) = kernel.cells
        assert content["text/plain"] == "explaining <f>: 100 of 100 predictions, ± 3%"
        assert "explaining &lt;f&gt;" in content["text/html"]
        assert '<progress value="100" max="100"' in content["text/html"]
    assert kernel.cells == [(1, EMPTY)]
    assert capsys.readouterr() == ("", "")


def test_every_bar_of_a_cell_is_empty_in_the_end():
    with notebook() as kernel:
        run(None)
        with progress.waiting("preparing", None):
            time.sleep(0.1)
        assert kernel.cells == [(1, EMPTY), (1, EMPTY)]
        kernel.execution_count = 2
        run(None)
        assert kernel.cells == [(1, EMPTY), (1, EMPTY), (2, EMPTY)]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_notebook_keeps_nothing_after_an_error(error, capsys):
    def stopped():
        with bar(100, "explaining", None) as tick:
            tick(10)
            raise error

    with notebook() as kernel:
        with pytest.raises(error):
            stopped()
        assert kernel.cells == [(1, EMPTY)]
        assert not progress._watched
    assert capsys.readouterr() == ("", "")


def test_a_notebook_without_progress_or_with_a_short_run_shows_nothing(monkeypatch):
    with notebook() as kernel:
        run(False)
        monkeypatch.setattr(progress, "DELAY", 1e9)
        run(None)
        assert kernel.cells == []


def test_a_bar_in_a_notebook_is_not_redrawn_with_every_tick(monkeypatch):
    times = iter(np.arange(10_000) * 0.001)
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(times)))
    monkeypatch.setattr(progress, "DELAY", 0.5)
    with notebook() as kernel, bar(5000, "explaining", None) as tick:
        for _ in range(5000):
            tick(1)
        assert kernel.updates == pytest.approx((5 - 0.5) / progress.REFRESH, abs=2)


def test_a_wait_is_told_in_a_notebook_and_goes_away():
    with notebook() as kernel:
        with progress.waiting("preparing", None):
            deadline = time.monotonic() + 10
            while not kernel.cells and time.monotonic() < deadline:
                time.sleep(0.01)
            assert kernel.cells[0][1]["text/plain"] == "preparing"
        assert kernel.cells == [(1, EMPTY)]


@pytest.mark.parametrize(("shell", "notebook"), [("ZMQInteractiveShell", True), ("TerminalInteractiveShell", False)])
def test_a_notebook_is_known_by_its_kernel(shell, notebook, monkeypatch):
    for kind in (type(shell, (), {}), type("Shell", (type(shell, (), {}),), {})):  # Colab extends it
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=kind))
        assert progress._in_notebook() is notebook


def test_ipython_without_a_kernel_is_no_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not progress._in_notebook()
