"""What is deprecated fails a test where this tree uses it, and not where a dependency does."""

import importlib
import sys
import warnings

import pytest

import deprecations

AGED = """
import warnings

def old(level, category=DeprecationWarning):
    warnings.warn("old", category, stacklevel=level)
"""
USER = """
import aged

def work(level):
    aged.old(level)

def call(function):
    return function()
"""


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Two packages, installed as far as can be told: one uses what the other deprecates."""
    for name, source in (("aged", AGED), ("user", USER)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(deprecations, "INSTALLED", {*deprecations.INSTALLED, tmp_path.resolve()})
    deprecations.home.cache_clear()
    for name in ("aged", "user"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("aged"), importlib.import_module("user")
    deprecations.home.cache_clear()


@pytest.mark.parametrize("category", deprecations.DEPRECATIONS)
@pytest.mark.parametrize("level", [1, 2])
def test_our_own_use_is_an_error_whatever_line_the_warning_names(packages, level, category):
    aged, user = packages
    with pytest.raises(category, match="old"):
        aged.old(level, category)
    with pytest.raises(category, match="old"):
        user.call(lambda: aged.old(level, category))  # a function of ours that somebody calls


@pytest.mark.parametrize("level", [1, 2])
def test_the_use_by_a_dependency_is_not_ours_though_we_call_it(packages, level):
    with warnings.catch_warnings(record=True) as shown, deprecations.deprecated_uses_of_ours_raise():
        packages[1].work(level)
    assert [str(one.message) for one in shown] == ["old"]
