import pickle
import weakref
from dataclasses import dataclass, replace
from functools import partial

import pytest

from losslens.tables.frozen import Deferred, deferred, lazy


@dataclass(frozen=True, eq=False)
class Result:
    name: str
    curve: list = lazy()
    note: str | None = lazy(None)


def test_a_late_field_is_worked_out_once_and_when_it_is_asked_for():
    calls = []
    result = Result("a", deferred(lambda: calls.append(1) or [1, 2]))
    assert calls == []
    assert result.curve == [1, 2]
    assert result.curve is result.curve
    assert calls == [1]


def test_a_late_field_may_be_given_at_once():
    assert Result("a", [3]).curve == [3]


def test_a_late_field_without_default_must_be_given():
    with pytest.raises(TypeError, match="curve"):
        Result("a")
    assert Result("a", []).note is None


def test_two_that_hold_the_same_later_work_it_out_once():
    calls = []
    shared = Deferred(lambda: calls.append(1) or 5)
    first, second = Result("a", deferred(lambda: shared.now)), Result("b", deferred(lambda: shared.now))
    assert first.curve == second.curve == 5
    assert calls == [1]


def test_an_error_comes_when_the_field_is_asked_for():
    def refuse():
        raise ValueError("too large")

    result = Result("a", deferred(refuse))
    for _ in range(2):
        with pytest.raises(ValueError, match="too large"):
            _ = result.curve


def test_a_copy_with_another_field_keeps_the_value():
    assert replace(Result("a", deferred(lambda: [1])), name="b").curve == [1]


def test_a_pickle_holds_the_value():
    assert pickle.loads(pickle.dumps(Result("a", deferred(lambda: [1])))).curve == [1]


def test_what_a_value_was_made_of_is_let_go():
    class Table:
        pass

    table = Table()
    kept = weakref.ref(table)
    result = Result("a", deferred(partial(id, table)))
    assert result.curve == id(table)
    del table
    assert kept() is None
