"""Work in order, errors that name a part."""

from dataclasses import dataclass

import pytest

from losslens import workers
from losslens.workers import Serial, Threads


@dataclass(frozen=True)
class Part:
    k: int

    @property
    def name(self):
        return f"part {self.k}"


def double(shared, part):
    if part.k == shared.get("bad"):
        raise shared["error"]
    return shared["times"] * part.k


@pytest.mark.parametrize("who", [Serial(), Threads(2)])
def test_results_come_in_the_order_of_the_parts(who):
    assert list(who.map(double, {"times": 2}, map(Part, range(7)))) == [0, 2, 4, 6, 8, 10, 12]


@pytest.mark.parametrize("who", [Serial(), Threads(2)])
@pytest.mark.parametrize(
    ("error", "kind"), [(ValueError("too much"), ValueError), (KeyError("too much"), RuntimeError)]
)
def test_an_error_names_its_part(who, error, kind):
    with pytest.raises(kind, match=r"part 3: .*too much"):
        list(who.map(double, {"times": 2, "bad": 3, "error": error}, map(Part, range(7))))


def test_a_missing_file_stays_what_it_is():
    with pytest.raises(FileNotFoundError, match=r"^gone$"):
        list(Serial().map(double, {"bad": 0, "error": FileNotFoundError("gone")}, [Part(0)]))


def test_parts_are_asked_for_as_they_are_needed():
    asked = []
    found = Serial().map(double, {"times": 1}, (asked.append(k) or Part(k) for k in range(5)))
    assert (next(found), next(found), asked) == (0, 1, [0, 1])


def test_workers_of_a_call():
    assert workers.active() is None
    assert workers.chosen(None) == Serial()
    assert workers.chosen(3) == Threads(3)


def test_only_a_client_is_an_executor():
    assert workers.as_cluster(None) is None
    with pytest.raises(TypeError, match=r"executor is a dask\.distributed Client.*got int"):
        workers.as_cluster(4)
