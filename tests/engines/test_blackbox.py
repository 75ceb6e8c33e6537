"""The black box asks for what is needed, once, in batches of one size, and gets the same answer however it is asked."""

import _thread
import threading
from collections import Counter
from itertools import islice

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

import losslens as ll
from losslens.donors.questions import Subjects, pose
from losslens.engines import blackbox, choice
from losslens.engines.batches import first_with_value
from losslens.engines.blackbox import BlackBox
from losslens.models import as_model
from losslens.tables.features import resolve
from losslens.tables.frames import as_table
from losslens.workers import Threads

RNG = np.random.default_rng(0)
N = 12
# A column that tells the rows apart, one without ties, two with; the first is never replaced.
X = np.column_stack([np.arange(N), RNG.normal(size=N), RNG.integers(0, 4, N), RNG.integers(0, 2, N)])
Y = RNG.normal(size=N)
DESIGNS = [
    ll.All(),
    ll.Grid(4),
    ll.Grid(4, at="quantiles"),
    ll.Permutations(15),
    ll.Latin(5),
    ll.Systematic(5),
    ll.Derangements(5),
    ll.Derangements(),
]


def smooth(X):
    """A function whose every bit is its own: no library that could sum in another order."""
    return np.sin(X[:, 0]) + X[:, 1] * np.cos(X[:, 2]) + X[:, 3] * X[:, 1]


class Recording:
    """A model that keeps what it was asked."""

    def __init__(self, function=smooth):
        self.function, self.tables = function, []

    def __call__(self, X):
        self.tables.append(np.array(X))
        return self.function(X)

    @property
    def sizes(self):
        return [len(table) for table in self.tables]

    @property
    def rows(self):
        return Counter(map(tuple, np.concatenate(self.tables)))


def ask(model, design, features=("x1", "x2", "x3"), *, table=X, batch_rows=10_000, n_jobs=None, rows=None):
    """What the engine answers, and the questions it was asked."""
    table = as_table(table)
    subjects = Subjects(table)
    named = resolve(list(features) if isinstance(features, tuple) else features, table.labels, by_position=True)
    questions = [pose(subjects.subject(feature), design, table.n, 0) for feature in named]
    engine = BlackBox(table, as_model(model).responder("values"), batch_rows, n_jobs)
    rows = np.arange(table.n) if rows is None else rows
    return engine.fill(rows, [question.ask for question in questions], lambda rows: None), questions


def replaced(question, rows=range(N)):
    """Every row with every value it meets, (rows, cells, columns), by hand."""
    told = question.ask
    cells = np.repeat(X[list(rows), None], told.width, axis=1)
    for column, source, index in zip(told.columns, told.sources, told.index, strict=True):
        met = np.tile(np.arange(told.size), (N, 1)) if told.donor_values is None else told.donor_values
        cells[:, :, column] = source.array[index[met[list(rows)]]]
    return cells


# What it asks.


@pytest.mark.parametrize("batch_rows", [5, 17, 10_000])
@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_each_distinct_row_and_value_is_asked_once_and_the_own_value_never(design, batch_rows):
    model = Recording()
    _, questions = ask(model, design, batch_rows=batch_rows)
    needed = set(map(tuple, X))
    for question in questions:
        needed |= set(map(tuple, replaced(question).reshape(-1, 4)))
    assert model.rows == Counter(needed)


@pytest.mark.parametrize("features", [{"g": ["x2", "x3"]}, ("x2", "x3")], ids=["group", "pair"])
def test_columns_that_move_together_are_asked_once_a_combination(features):
    model = Recording()
    _, (question,) = ask(model, ll.All(), [features] if isinstance(features, tuple) else features)
    needed = set(map(tuple, X)) | set(map(tuple, replaced(question).reshape(-1, 4)))
    assert model.rows == Counter(needed)


def test_own_values_are_asked_where_a_row_does_not_hold_them():
    model = Recording()
    ask(model, ll.Grid(values=[0, 1, 9]), ("x2",))
    assert sum(model.sizes) == N + 3 * N - int(np.isin(X[:, 2], [0, 1]).sum())


@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_no_feature_takes_more_rows_than_n_times_its_distinct_values(design):
    answer, questions = ask(Recording(), design)
    for asked, question in zip(answer.n_predictions, questions, strict=True):
        assert asked <= N * len(question.subject.distinct)
    assert answer.n_predictions[2] <= N  # two values, one of them known


def test_all_pairs_of_binary_and_integer_columns_cost_their_distinct_values():
    answer, _ = ask(Recording(), ll.All())
    assert answer.n_predictions == [N * (N - 1), N * 3, N]


@pytest.mark.parametrize("batch_rows", [N, 2 * N, 5 * N + 1, 10_000])
@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_batches_are_of_one_size_but_for_the_last(design, batch_rows):
    model = Recording()
    ask(model, design, batch_rows=batch_rows)
    *full, last = model.sizes
    assert len(set(full)) <= 1
    assert last <= max(full, default=last)
    assert max(model.sizes) <= batch_rows


@given(st.integers(1, 40), st.integers(1, 12))
@settings(max_examples=30)
def test_no_batch_is_larger_than_allowed_and_none_is_empty(batch_rows, m):
    model = Recording()
    ask(model, ll.Latin(m), batch_rows=batch_rows)
    assert min(model.sizes) > 0
    assert max(model.sizes) <= batch_rows


def test_unchanged_rows_come_first_in_a_batch_like_the_others():
    model = Recording()
    ask(model, ll.All(), batch_rows=4 * N)
    np.testing.assert_array_equal(model.tables[0][:N], X)
    assert model.sizes[0] == model.sizes[1] > N


# What it answers.


@pytest.mark.parametrize("batch_rows", [5, 17, 10_000])
@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_every_cell_holds_what_the_model_says(design, batch_rows):
    answer, questions = ask(smooth, design, batch_rows=batch_rows)
    np.testing.assert_array_equal(answer.base, smooth(X))
    for cells, question in zip(answer.cells, questions, strict=True):
        expected = smooth(replaced(question).reshape(-1, 4)).reshape(N, -1)
        np.testing.assert_array_equal(cells, expected)


@pytest.mark.parametrize("design", [ll.All(), ll.Latin(5), ll.Grid(4)], ids=repr)
def test_some_rows_can_be_asked_alone(design):
    rows = np.array([7, 2, 9])
    answer, (question,) = ask(smooth, design, ("x2",), rows=rows, batch_rows=7)
    np.testing.assert_array_equal(answer.base, smooth(X[rows]))
    np.testing.assert_array_equal(answer.cells[0], smooth(replaced(question, rows).reshape(-1, 4)).reshape(3, -1))


@given(st.lists(st.lists(st.integers(-1, 3), min_size=4, max_size=4), min_size=1, max_size=5))
def test_a_value_met_again_follows_the_first(met):
    leader = first_with_value(np.array(met, np.int32))
    assert leader.tolist() == [[row.index(value) for value in row] for row in met]


def test_one_column_under_two_names_has_two_answers():
    """Each of the two has values of its own behind its column."""
    frame = pd.DataFrame(X, columns=list("abcd"))
    effects = ll.feature_effect(
        lambda X: X["b"].to_numpy(), frame, features={"p": ["b"], "q": ["b"]}, donors=ll.Grid(values=[1.0, 2.0])
    )
    np.testing.assert_array_equal(effects["p"].ice, np.tile([1.0, 2.0], (N, 1)))
    np.testing.assert_array_equal(effects["q"].ice, effects["p"].ice)


# Who asks: threads and processes.


@pytest.fixture
def small_batches(monkeypatch):
    """Many batches, so that workers have something to share."""
    monkeypatch.setattr(choice, "BATCH", N)
    monkeypatch.setattr(choice, "LARGE_BATCHES", {})


MODELS = {
    "function": smooth,
    "network": MLPRegressor(hidden_layer_sizes=(20, 20), solver="lbfgs", max_iter=50, tol=1, random_state=0).fit(X, Y),
    "forest": RandomForestRegressor(5, random_state=0).fit(X, Y),
}


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("design", [ll.All(), ll.Permutations(15), ll.Systematic(5)], ids=repr)
@pytest.mark.parametrize("model", MODELS)
def test_any_number_of_threads_gives_the_same_bits(model, design):
    found = [
        ll.feature_importance(
            MODELS[model], X, Y, loss="squared_error", donors=design, random_state=0, n_jobs=n_jobs, progress=False
        )
        for n_jobs in (1, 2, 4)
    ]
    for name in found[0]:
        for other in found[1:]:
            np.testing.assert_array_equal(other[name].cells.predictions, found[0][name].cells.predictions)
            np.testing.assert_array_equal(other[name].local, found[0][name].local)
            assert other[name].pfi == found[0][name].pfi
        assert len({each.n_predictions for each in found}) == 1


@pytest.mark.usefixtures("small_batches")
def test_threads_ask_nothing_twice():
    lock, model = threading.Lock(), Recording()

    def locked(X):
        with lock:
            return model(X)

    answer, _ = ask(locked, ll.All(), batch_rows=N, n_jobs=4)
    assert sum(model.rows.values()) == len(model.rows) == N + sum(answer.n_predictions)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("kind", [np.asarray, lambda X: pd.DataFrame(X, columns=list("abcd"))], ids=["array", "frame"])
def test_processes_give_the_same_bits(kind):
    table = kind(X)
    model = DecisionTreeRegressor(random_state=0).fit(table, Y)
    alone = ll.feature_importance(model, table, Y)
    with joblib.parallel_config("loky", n_jobs=2):
        together = ll.feature_importance(model, table, Y)
    for name in alone:
        np.testing.assert_array_equal(together[name].ici, alone[name].ici)
    assert together.n_predictions == alone.n_predictions


@pytest.mark.usefixtures("small_batches")
def test_processes_are_really_asked(tmp_path):
    import os

    def where(X):
        (tmp_path / str(os.getpid())).touch()
        return X[:, 1].copy()

    with joblib.parallel_config("loky"):
        ll.feature_effect(where, X, n_jobs=2)
    asked = {int(path.name) for path in tmp_path.iterdir()}
    assert asked
    assert os.getpid() not in asked


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_models_own_error_reaches_the_user(n_jobs):
    def failing(X):
        raise ZeroDivisionError("of the model's own")

    with pytest.raises(ZeroDivisionError, match="of the model's own"):
        ll.feature_effect(failing, X, n_jobs=n_jobs)


def test_no_workers_at_all_are_refused():
    with pytest.raises(ValueError, match="n_jobs"):
        ll.feature_effect(smooth, X, n_jobs=0)


# Ctrl-C.


class Interrupting:
    """Ctrl-C in one call; those after it take their time, so that nobody can be fast enough to slip through."""

    def __init__(self, interrupt, at=5):
        self.interrupt, self.at, self.calls = interrupt, at, 0
        self.lock, self.over = threading.Lock(), threading.Event()

    def __call__(self, X):
        with self.lock:
            self.calls += 1
            call = self.calls
        if call == self.at:
            self.interrupt()
        if call >= self.at:
            self.over.wait(0.2)
        return X[:, 1].copy()


def raising():
    raise KeyboardInterrupt


@pytest.mark.parametrize("interrupt", [raising, _thread.interrupt_main], ids=["in the model", "from the keyboard"])
def test_ctrl_c_stops_at_once(interrupt):
    model = Interrupting(interrupt)
    with pytest.raises(KeyboardInterrupt):
        ask(model, ll.All(), batch_rows=N)
    assert model.calls == 5


@pytest.mark.parametrize("n_jobs", [2, 4])
@pytest.mark.parametrize("interrupt", [raising, _thread.interrupt_main], ids=["in the model", "from the keyboard"])
def test_ctrl_c_leaves_the_threads_only_what_they_were_about_to_ask(interrupt, n_jobs):
    model = Interrupting(interrupt)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        ask(model, ll.All(), ("x0", "x1", "x2", "x3"), batch_rows=N, n_jobs=n_jobs)
    for thread in set(threading.enumerate()) - before:
        thread.join(3)
    assert model.calls <= 5 + 2 * n_jobs  # in flight, or laid out already


def test_ctrl_c_while_batches_are_laid_out_stops_the_threads_too(monkeypatch):
    asked = threading.Event()
    pack, model = blackbox.pack, Interrupting(asked.set, at=1)

    def interrupted(pieces, size):
        yield from islice(pack(pieces, size), 2 * Threads.grain)
        asked.wait(5)
        raise KeyboardInterrupt

    monkeypatch.setattr(blackbox, "pack", interrupted)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        ask(model, ll.All(), ("x0", "x1", "x2", "x3"), batch_rows=N, n_jobs=2)
    for thread in set(threading.enumerate()) - before:
        thread.join(3)
    assert model.calls <= 4


# A model whose bits hang on the batch.


def test_the_unused_feature_of_a_network_is_nothing_to_rounding():
    """BLAS sums in another order for another number of rows or another place in the batch: unchanged rows come
    from a batch like the others, so that what is left is rounding at most.
    """
    network = MLPRegressor(hidden_layer_sizes=(50,), solver="lbfgs", max_iter=50, tol=1, random_state=0).fit(X, Y)
    network.coefs_[0][1] = 0
    for design in DESIGNS:
        unused = ll.feature_importance(network, X, Y, donors=design, features="x1", random_state=0)["x1"]
        assert np.nanmax(np.abs(unused.ici)) <= 1e-13 * np.square(Y).max()


@pytest.mark.parametrize("design", DESIGNS, ids=repr)
@pytest.mark.parametrize("batch_rows", [5, 3 * N, 10_000])
def test_an_unused_feature_is_exactly_nothing(design, batch_rows, monkeypatch):
    monkeypatch.setattr(choice, "BATCH", batch_rows)
    found = ll.feature_importance(
        lambda X: np.exp(X[:, 0] / 7) * X[:, 2], X, Y, loss="squared_error", donors=design, random_state=0
    )
    for name in ("x1", "x3"):
        assert found[name].pfi == 0
        assert not np.any(np.nan_to_num(found[name].ici))
    assert found["x2"].pfi != 0


def test_every_cell_of_a_full_batch_is_judged_against_a_full_batch(monkeypatch):
    """A model that adds the number of rows it was asked together: alike for all batches but the last."""
    monkeypatch.setattr(choice, "BATCH", 4 * N)
    sizes = []

    def model(X):
        sizes.append(len(X))
        return X[:, 0] + 100.0 * len(X)

    unused = ll.feature_effect(model, X, features="x1")["x1"]
    changed = unused.ice != (X[:, 0] + 100.0 * sizes[0])[:, None]
    assert changed.sum() == (sizes[-1] if sizes[-1] != sizes[0] else 0)


# Models that behave badly.

CALLS = {
    "zeroes": lambda X: X.fill(0),
    "sorted rows": lambda X: X.sort(axis=0),
    "sorted columns": lambda X: X.sort(axis=1),
    "shuffled": lambda X: np.random.default_rng(0).shuffle(X),
    "another shape": lambda X: setattr(X, "shape", (X.shape[1], X.shape[0])) if X.base is None else X.fill(1),
}


def assign(X):
    X["b"] = 0.0
    X["more"] = 1
    del X["c"]


def write(X):
    X.iloc[0, 0] = -1.0
    X.iloc[:, 1] = 0.0
    X.loc[:, "c"] = 5.0


def rename(X):
    X.columns = list("wxyz")
    X.index = X.index + 1


def replace_columns(X):
    X.replace_column(1, pl.Series("b", np.zeros(len(X))))
    X[0, "c"] = 7.0
    X.columns = list("wxyz")


def columns(X):
    """The four columns of any table as arrays of their own."""
    if isinstance(X, np.ndarray):
        return X.T.copy()
    return np.array([np.asarray(X[name]) for name in "abcd"])


FRAME = dict(zip("abcd", X.T, strict=True))
BAD = [
    *((X, harm, name) for name, harm in CALLS.items()),
    *((np.asfortranarray(X), harm, f"{name} of columns") for name, harm in CALLS.items()),
    (pd.DataFrame(FRAME), assign, "pandas assigned"),
    (pd.DataFrame(FRAME), write, "pandas written"),
    (pd.DataFrame(FRAME), rename, "pandas renamed"),
    (pl.DataFrame(FRAME), replace_columns, "polars replaced"),
]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("table", "harm", "name"), BAD, ids=[name for *_, name in BAD])
def test_a_model_that_changes_its_input_is_answered_rightly(table, harm, name, n_jobs, monkeypatch):
    monkeypatch.setattr(choice, "BATCH", 2 * N)
    before = columns(table)

    def careful(X):
        return smooth(columns(X).T)

    def careless(X):
        answer = careful(X)
        harm(X)
        return answer

    for design in (ll.All(), ll.Latin(5)):
        right = ll.feature_importance(careful, table, Y, loss="squared_error", donors=design, random_state=0)
        found = ll.feature_importance(
            careless, table, Y, loss="squared_error", donors=design, random_state=0, n_jobs=n_jobs
        )
        np.testing.assert_array_equal(found.local, right.local)
        assert found.error == right.error
    np.testing.assert_array_equal(columns(table), before)


VIEWS = {
    "array": (X, lambda X: X[:, 1]),
    "array by columns": (np.asfortranarray(X), lambda X: X[:, 1]),
    "column": (X, lambda X: X[:, 1:2]),
    "pandas series": (pd.DataFrame(FRAME), lambda X: X["b"]),
    "pandas values": (pd.DataFrame(FRAME), lambda X: X["b"].to_numpy()),
    "polars series": (pl.DataFrame(FRAME), lambda X: X["b"]),
    "pyarrow column": (pa.table(FRAME), lambda X: X["b"]),
}


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("kind", VIEWS)
def test_a_model_may_return_a_view_of_its_input(kind, n_jobs, monkeypatch):
    monkeypatch.setattr(choice, "BATCH", 2 * N)
    table, model = VIEWS[kind]
    effects = ll.feature_effect(model, table, n_jobs=n_jobs)
    names = list(effects)
    np.testing.assert_array_equal(effects[names[1]].ice, np.tile(np.sort(X[:, 1]), (N, 1)))
    np.testing.assert_array_equal(effects[names[2]].ice, np.tile(X[:, [1]], (1, 4)))


def test_a_model_may_use_one_array_for_all_its_answers(monkeypatch):
    monkeypatch.setattr(choice, "BATCH", 2 * N)
    room = np.empty(2 * N)

    def model(X):
        room[: len(X)] = X[:, 1]
        return room[: len(X)]

    effects = ll.feature_effect(model, X)
    np.testing.assert_array_equal(effects["x1"].ice, np.tile(np.sort(X[:, 1]), (N, 1)))
    np.testing.assert_array_equal(effects["x0"].ice, np.tile(X[:, [1]], (1, N)))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_model_whose_answers_change_shape_is_refused(n_jobs, monkeypatch):
    monkeypatch.setattr(choice, "BATCH", 2 * N)
    lock, calls = threading.Lock(), []

    def model(X):
        with lock:
            calls.append(len(X))
            wide = 2 + (len(calls) > 2)
        return np.full((len(X), wide), 1 / wide)

    with pytest.raises(ValueError, match="must not change shape between calls"):
        ll.feature_importance(model, X, np.arange(N) % 2, loss="log_loss", n_jobs=n_jobs)


def test_a_model_that_returns_too_few_rows_later_is_refused(monkeypatch):
    monkeypatch.setattr(choice, "BATCH", 2 * N)
    model = Recording(lambda X: X[: N if len(model.tables) > 2 else None, 1])
    with pytest.raises(ValueError, match=f"{N} predictions for {2 * N} rows"):
        ll.feature_effect(model, X)


# How large a batch is.


def test_forests_take_larger_batches():
    table = as_table(X)
    assert choice.batch_rows(smooth, table, 2**30) == choice.BATCH
    assert choice.batch_rows(MODELS["forest"], table, 2**30) == choice.LARGE_BATCHES["Forest"]
    assert choice.batch_rows(make_pipeline(MODELS["forest"]), table, 2**30) == choice.LARGE_BATCHES["Forest"]


def test_a_batch_shrinks_with_the_memory_until_it_is_refused():
    table = as_table(X)
    assert 64 <= choice.batch_rows(smooth, table, 2**20) < choice.BATCH
    with pytest.raises(
        ValueError, match=r"memory=1024 bytes is too small for batches of 12 rows .* at least \d+ bytes"
    ):
        choice.batch_rows(smooth, table, 1024)
