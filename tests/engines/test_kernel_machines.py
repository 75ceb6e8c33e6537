"""Sums of products: what matrix products say is what the model itself says, pair by pair, and never more than that."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.svm import SVC, SVR, LinearSVR, NuSVC, NuSVR

import losslens as ll
from brute import predictions
from losslens.donors.questions import Subjects, pose
from losslens.engines import kernel_machines
from losslens.engines.base import Declined
from losslens.engines.kernel_machines import GaussianSum, Products, cost, node_count
from losslens.engines.readers.kernel_machines import read_product
from losslens.tables.features import resolve
from losslens.tables.frames import as_table

RNG = np.random.default_rng(0)
N, TRAINED = 100, 90
# Two columns without ties, two with.
X = np.column_stack([RNG.normal(size=(N, 2)), RNG.integers(0, 5, N), RNG.integers(0, 2, N)])
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] / 3 + X[:, 3] + 0.1 * RNG.normal(size=N)
TRAIN, TARGET = X[:TRAINED] + 0.1 * RNG.normal(size=(TRAINED, 4)), Y[:TRAINED]
HIGH = np.where(np.median(TARGET) < TARGET, "yes", "no")
NOISY = WhiteKernel(0.1, "fixed")


def process(kernel, **options):
    return GaussianProcessRegressor(kernel, optimizer=None, alpha=options.pop("alpha", 1e-2), **options)


REGRESSORS = {
    "svr": SVR(C=10),
    "svr auto": SVR(gamma="auto"),
    "svr narrow": SVR(gamma=20.0),
    "svr flat": SVR(gamma=0.0),
    "svr without vectors": SVR(epsilon=100),
    "nu svr": NuSVR(gamma=0.3),
    "ridge": KernelRidge(kernel="rbf"),
    "ridge gamma": KernelRidge(kernel="rbf", gamma=0.7, alpha=0.1),
    "process": process(None),
    "process rbf": process(RBF(1.5)),
    "process of each column": process(RBF([0.5, 1.0, 2.0, 3.0])),
    "process scaled": process(ConstantKernel(3.0) * RBF(2.0), normalize_y=True),
    "process with noise": process(RBF([0.5, 1.0, 2.0, 3.0]) * 2.0 + NOISY, normalize_y=True),
    "process with noise first": process(NOISY + RBF(1.0) * RBF(3.0)),
    "process of a constant": process(ConstantKernel(2.0) + NOISY),
    "process of a sum": process(2.0 * RBF([0.5, 1.0, 2.0, 3.0]) + RBF(4.0) + NOISY, normalize_y=True),
    "process of a product of sums": process((RBF(0.8) + 0.5) * (2.0 + NOISY + RBF([3.0, 2.0, 1.0, 0.5]))),
    "process of a power": process(3.0 + (0.5 * RBF(1.0)) ** 2 + RBF(2.0)),
    "process fitted": GaussianProcessRegressor(ConstantKernel() * RBF(np.ones(4)) + WhiteKernel(), random_state=0),
}
CLASSIFIERS = {"svc": SVC(C=3), "svc weights": SVC(gamma=0.4, class_weight="balanced"), "nu svc": NuSVC(nu=0.3)}


def fitted(name):
    """A model, the response that is read from it, and the function that gives it."""
    if name in CLASSIFIERS:
        model = CLASSIFIERS[name].fit(TRAIN, HIGH)
        return model, "scores", model.decision_function
    model = REGRESSORS[name].fit(TRAIN, TARGET)
    return model, "values", model.predict


@pytest.fixture(scope="module", params=[*REGRESSORS, *CLASSIFIERS])
def known(request):
    """The form of a model and the function that it stands for."""
    model, response, predict = fitted(request.param)
    return read_product(model, response, getattr(model, "classes_", None)), predict


@pytest.fixture(scope="module")
def machine():
    return read_product(SVR(C=10).fit(TRAIN, TARGET), "values", None)


def images(ask):
    """Every column of the table is the estimator's."""
    held = [source.array[index] for source, index in zip(ask.sources, ask.index, strict=True)]
    return ask.columns, np.column_stack(held).astype(float)


def questions(design=None, features=None, table=X):
    table = as_table(table)
    subjects = Subjects(table)
    named = resolve(features, table.labels, by_position=True)
    return [pose(subjects.subject(feature), design or ll.All(), table.n, 0).ask for feature in named]


def fill(form, asks, rows=None, table=X, block_bytes=1 << 26, n_jobs=None, tick=lambda rows: None):
    engine = Products(form, np.asarray(table, float), images, block_bytes, n_jobs)
    return engine.fill(np.arange(len(table)) if rows is None else rows, asks, tick)


def asked(predict, ask, rows=None, table=X):
    """Cells by the model's own predictions."""
    rows = np.arange(len(table)) if rows is None else rows
    met = np.tile(np.arange(ask.size), (len(rows), 1)) if ask.donor_values is None else ask.donor_values[rows]
    columns, values = images(ask)
    replaced = np.repeat(np.asarray(table, float)[rows, None], met.shape[1], axis=1)
    replaced[:, :, list(columns)] = values[met]
    return predict(replaced.reshape(-1, replaced.shape[2])).reshape(met.shape)


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * max(1, np.abs(expected).max()))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(kernel_machines, "MIN_BLOCK_ROWS", 7)
    monkeypatch.setattr(kernel_machines, "BLOCK_TERMS", 1)


@pytest.fixture(params=["nodes", "terms"])
def route(request, monkeypatch):
    """Cells by interpolation wherever there is one column, or never."""
    if request.param == "terms":
        monkeypatch.setattr(GaussianSum, "rank", lambda form, image: None)
    return request.param


# What it answers.


def test_the_form_of_a_model_predicts_as_the_model_does(known):
    form, predict = known
    assert_close(form.predict(X), predict(X))
    assert_close(form.predict(TRAIN), predict(TRAIN))  # noise of a process is nothing, even there


@pytest.mark.usefixtures("small_blocks", "route")
def test_all_cells_are_what_the_model_says(known):
    form, predict = known
    asks = questions()
    answer = fill(form, asks)
    assert_close(answer.base, predict(X))
    assert answer.n_predictions == [0] * 4
    for ask, cells in zip(asks, answer.cells, strict=True):
        assert_close(cells[:, ask.own], predictions(predict, X, list(ask.columns)))


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize(
    "design",
    [ll.Grid(4), ll.Grid(values=[0.5, 1.0]), ll.Permutations(15), ll.Latin(3), ll.Systematic(5), ll.Derangements()],
    ids=repr,
)
def test_every_design_gets_its_cells(machine, design):
    model = SVR(C=10).fit(TRAIN, TARGET)
    asks = questions(design, None if design != ll.Grid(values=[0.5, 1.0]) else ["x0", "x1"])
    answer = fill(machine, asks)
    for ask, cells in zip(asks, answer.cells, strict=True):
        assert_close(cells, asked(model.predict, ask))


@pytest.mark.parametrize(
    "features",
    [{"g": ["x0", "x2"], "h": ["x1", "x2", "x3"], "all": ["x0", "x1", "x2", "x3"]}, [("x2", "x3"), ("x0", "x3"), "x1"]],
    ids=["groups", "pairs"],
)
def test_columns_that_move_together(known, features):
    form, predict = known
    asks = questions(features=features, table=X[:30])
    answer = fill(form, asks, table=X[:30])
    for ask, cells in zip(asks, answer.cells, strict=True):
        assert_close(cells, asked(predict, ask, table=X[:30]))


@pytest.mark.usefixtures("route")
def test_some_rows_alone_and_the_same_ask_again(machine):
    model, rows = SVR(C=10).fit(TRAIN, TARGET), np.array([7, 2, 90])
    asks = [*questions(), *questions(ll.Latin(3))]
    engine, shown = Products(machine, X, images, 1 << 26), []
    counting = Products(machine, X, lambda ask: (shown.append(ask), images(ask))[1], 1 << 26)
    for some in (rows, np.arange(N), rows):
        for each in (engine, counting):
            for ask, cells in zip(asks, each.fill(some, asks, lambda rows: None).cells, strict=True):
                assert_close(cells, asked(model.predict, ask, some))
    assert len(shown) == len(asks)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_any_form_at_any_place_and_width(seed):
    rng = np.random.default_rng(seed)
    middle, width = 10.0 ** rng.uniform(-3, 3, 3), 10.0 ** rng.uniform(-3, 3, 3)
    matrix, centres = (middle + width * rng.standard_t(2, (n, 3)) for n in (40, 60))
    gamma = 10.0 ** rng.uniform(-4, 3, 3 if seed % 2 else (60, 3)) / width**2  # the same for all terms, or not
    form = GaussianSum(rng.normal(size=60), rng.normal(), centres, gamma)
    for ask, cells in zip(asks := questions(table=matrix), fill(form, asks, table=matrix).cells, strict=True):
        np.testing.assert_allclose(
            cells, asked(lambda X: slow(form, X), ask, table=matrix), atol=1e-14 * np.abs(form.coef).sum()
        )


def slow(form, X):
    """Every exponent in extended precision."""
    long = [np.asarray(part, np.longdouble) for part in (X, form.centres, form.gamma, form.coef)]
    distance = np.sum((long[0][:, None] - long[1]) ** 2 * long[2], axis=2)
    return (form.intercept + np.exp(-distance) @ long[3]).astype(float)


@pytest.mark.usefixtures("route")
def test_rows_far_away_from_all_centres(machine):
    """Their products underflow, and can't be divided back."""
    model = SVR(C=10).fit(TRAIN, TARGET)
    table = X[:40].copy()
    table[:3, 0] = [1e3, -1e8, 60]
    table[4] = 1e3
    asks = questions(table=table, features={"a": ["x0"], "b": ["x1"], "c": ["x0", "x1"], "d": ["x1", "x2", "x3"]})
    with np.errstate(all="raise"):
        answer = fill(machine, asks, table=table)
    assert_close(answer.base, model.predict(table))
    for ask, cells in zip(asks, answer.cells, strict=True):
        assert_close(cells, asked(model.predict, ask, table=table))


def test_more_columns_than_are_held(machine, monkeypatch):
    asks = questions()
    held = fill(machine, asks)
    monkeypatch.setattr(kernel_machines, "MAX_CACHED", 2)
    for one, other in zip(held.cells, fill(machine, asks).cells, strict=True):
        np.testing.assert_array_equal(one, other)


# To the last bit.


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("design", [ll.All(), ll.Grid(4), ll.Permutations(15), ll.Systematic(5)], ids=repr)
def test_a_row_at_its_own_value_is_the_row_itself(machine, design):
    asks = questions(design)
    answer = fill(machine, asks)
    for ask, cells in zip(asks, answer.cells, strict=True):
        met = np.tile(np.arange(ask.size), (N, 1)) if ask.donor_values is None else ask.donor_values[np.arange(N)]
        i, k = np.nonzero(met == ask.own[:, None])
        assert len(i) or design == ll.Systematic(5)
        np.testing.assert_array_equal(cells[i, k], answer.base[i])


@pytest.mark.usefixtures("small_blocks", "route")
@pytest.mark.parametrize("design", [ll.All(), ll.Latin(5)], ids=repr)
def test_a_column_that_moves_nothing_changes_nothing(machine, design):
    gamma = machine.gamma.copy()
    gamma[[0, 2]] = 0
    form = replace(machine, gamma=gamma)
    asks = questions(design, {"a": ["x0"], "b": ["x2"], "c": ["x0", "x2"], "d": ["x0", "x1"], "e": ["x1"]})
    answer = fill(form, asks)
    for cells in answer.cells[:3]:
        np.testing.assert_array_equal(cells, np.repeat(answer.base[:, None], cells.shape[1], axis=1))
    assert not np.allclose(answer.cells[3], answer.base[:, None])


def test_a_column_that_the_estimator_never_gets_changes_nothing(machine):
    engine = Products(machine, X, lambda ask: ((), np.empty((ask.size, 0))), 1 << 26)
    answer = engine.fill(np.arange(N), questions(), lambda rows: None)
    for cells in answer.cells:
        np.testing.assert_array_equal(cells, np.repeat(answer.base[:, None], cells.shape[1], axis=1))


@pytest.mark.usefixtures("small_blocks", "route")
@pytest.mark.parametrize("design", [ll.All(), ll.Latin(3)], ids=repr)
def test_any_number_of_threads_gives_the_same_bits(machine, design):
    asks = questions(design, {"a": ["x0"], "b": ["x1"], "c": ["x2", "x3"]})
    first, *others = (fill(machine, asks, n_jobs=n_jobs) for n_jobs in (None, 1, 2, 4))
    for other in others:
        np.testing.assert_array_equal(other.base, first.base)
        for one, another in zip(first.cells, other.cells, strict=True):
            np.testing.assert_array_equal(one, another)


# Memory, progress, cost.


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("block_bytes", [1, 10_000, 200_000])
def test_little_memory_gives_small_blocks_and_the_same_answer(machine, block_bytes):
    asks = questions(features={"a": ["x0"], "g": ["x1", "x2"]}, table=X[:30])
    large, small = (fill(machine, asks, table=X[:30], block_bytes=size) for size in (1 << 26, block_bytes))
    for one, other in zip(large.cells, small.cells, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)


def test_single_columns_have_nodes_and_groups_have_terms(machine):
    asks = questions(features={"one": ["x0"], "two": ["x0", "x1"]})
    single, group = (kernel_machines._donor_terms(machine, images(ask), 1 << 20) for ask in asks)
    assert single.weights.shape[1] == single.basis.shape[1] < 40
    assert group.weights is None
    assert group.basis.shape == (N, len(machine.coef))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_the_bar_is_full_at_the_end(machine, n_jobs):
    ticks, lock, asks = [], threading.Lock(), [*questions(), *questions(ll.Latin(3))]

    def tick(rows):
        with lock:
            ticks.append(rows)

    fill(machine, asks, n_jobs=n_jobs, tick=tick)
    assert len(ticks) == -(-N // 7)
    assert sum(ticks) == N + sum(ask.most(N) for ask in asks)


def test_the_cost_is_that_of_one_product_or_of_the_nodes(machine):
    L = len(machine.coef)
    assert cost(machine, 10, 20) == 200 * L
    values = np.linspace(0, 1, 1000)[:, None]
    nodes = node_count(machine.gamma[0] / 4)
    assert cost(machine, 10, 1000, ([0], values)) == 10 * nodes * (L + 1000)
    assert cost(machine, 10, 1000, ([0, 1], np.tile(values, 2))) == 10_000 * L
    assert cost(machine, 10, 2, ([0], values[:2])) == 20 * L
    assert cost(machine, 10, 2, ([0], np.array([[-1e300], [1e300]]))) == 20 * L


@pytest.mark.parametrize("stretch", [0.0, 1e-9, 1e-3, 0.1, 1.0, 30.0, 1e3, 1e5])
def test_nodes_interpolate_to_rounding(stretch):
    """The bound holds for every centre: a few within the values, and those beyond them."""
    rng = np.random.default_rng(1)
    centres, values = rng.uniform(-3, 3, (200, 1)), rng.uniform(-1, 1, 500)
    values[:3] = -1, 1, 0
    form = GaussianSum(np.ones(200), 0.0, centres, np.array([stretch]))
    weights, shares = form.spanned(([0], values[:, None]), node_count(stretch))
    exact = np.exp(-np.longdouble(stretch) * (values[:, None] - centres[:, 0].astype(np.longdouble)) ** 2)
    assert np.abs(shares @ weights.T - exact).max() < 1e-15 + kernel_machines.EPS * np.sqrt(stretch)


# What it declines.


DECLINED = {
    "kernel 'poly'|'poly', not": SVR(kernel="poly"),
    "linear|'linear', not": KernelRidge(),
    "function|not 'rbf'": SVR(kernel=lambda a, b: a @ b.T),
    "Matern|Matern is not made of": process(Matern()),
    "sum|DotProduct is not made of": process(RBF(1.0) + DotProduct()),
    "power|Exponentiation is not made of": process((RBF(1.0) + 1.0) ** 2),
}


@pytest.mark.parametrize("case", DECLINED, ids=[case.partition("|")[0] for case in DECLINED])
def test_other_kernels_are_declined(case):
    with pytest.raises(Declined, match=case.partition("|")[2]):
        read_product(DECLINED[case].fit(TRAIN, TARGET), "values", None)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_coefficients_that_cancel_are_declined_in_any_unit(unit):
    model = process(RBF(30.0), alpha=1e-13).fit(TRAIN, unit * TARGET)
    assert "rounding error" in ll.feature_importance(model, X, unit * Y)["x0"].declined


@pytest.mark.parametrize("model", [KernelRidge(kernel="rbf"), process(RBF(), normalize_y=True)], ids=["ridge", "gp"])
def test_several_outputs_are_declined_and_one_column_is_one_output(model):
    with pytest.raises(Declined, match="several outputs"):
        read_product(model.fit(TRAIN, np.column_stack([TARGET, -TARGET])), "values", None)
    form = read_product(model.fit(TRAIN, TARGET[:, None]), "values", None)
    assert_close(form.predict(X), model.predict(X).ravel())


def test_more_than_two_classes_labels_and_probabilities_are_declined():
    three = SVC().fit(TRAIN, np.arange(TRAINED) % 3)
    with pytest.raises(Declined, match="more than two classes"):
        read_product(three, "scores", three.classes_)
    with pytest.raises(Declined, match="several outputs"):
        read_product(three, "scores", None)
    two = SVC().fit(TRAIN, HIGH)
    with pytest.raises(Declined, match="its scores are a sum of products, its labels are not"):
        read_product(two, "labels", two.classes_)


@pytest.mark.parametrize("kind", [sparse.csr_array, np.float32])
def test_sparse_and_single_tables_are_declined(kind):
    model = KernelRidge(kernel="rbf").fit(kind(TRAIN), TARGET)
    with pytest.raises(Declined, match="sparse or single-precision table"):
        read_product(model, "values", None)


def test_missing_values_are_declined_and_a_grid_that_holds_one_is_refused(machine):
    hole = X.copy()
    hole[3, 1] = np.nan
    with pytest.raises(Declined, match="missing or infinite"):
        Products(machine, hole, images, 1 << 26)
    engine = Products(machine, X, lambda ask: ([0], np.full((ask.size, 1), np.nan)), 1 << 26)
    with pytest.raises(ValueError, match="missing or infinite"):
        engine.fill(np.arange(N), questions(), lambda rows: None)


class Doubled(SVR):
    """One that predicts otherwise."""

    def predict(self, X):
        return 2 * super().predict(X)


@pytest.mark.parametrize("model", [LinearRegression(), LinearSVR()], ids=repr)
def test_other_models_are_none(model):
    assert read_product(model.fit(TRAIN, TARGET), "values", None) is None


def test_a_machine_that_predicts_otherwise_is_declined():
    with pytest.raises(Declined, match="Doubled"):
        read_product(Doubled().fit(TRAIN, TARGET), "values", None)


@pytest.mark.parametrize("model", [SVR(), KernelRidge(kernel="rbf"), process(RBF())], ids=["svr", "ridge", "process"])
def test_models_that_are_not_fitted_are_none(model):
    assert read_product(clone(model), "values", None) is None


def test_a_sparse_machine_is_declined():
    with pytest.raises(Declined, match="sparse"):
        read_product(SVR().fit(sparse.csr_array(TRAIN), TARGET), "values", None)


@pytest.mark.parametrize("kind", ["U", "S", "text among objects"])
def test_numbers_written_as_text_are_left_to_the_model(kind):
    """scikit-learn reads text as numbers where it can; the engine does not guess where, and leaves it to the model."""
    text = X[:40].round(2).astype("S" if kind == "S" else "U")
    text = text.astype(object) if kind == "text among objects" else text
    fitted = SVR().fit(text, Y[:40])
    found = ll.feature_importance(fitted, text, Y[:40], features="x0")["x0"]
    same = ll.feature_importance(fitted, text.astype(float), Y[:40], features="x0")["x0"]
    assert found.engine == "blackbox"
    assert "text" in found.declined
    np.testing.assert_allclose(found.local, same.local, rtol=1e-9, atol=1e-12)


def test_values_whose_squares_overflow_have_a_factor_of_0():
    """exp(-inf) = 0, as the model says; without NumPy's warning of the overflow."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = X.sum(axis=1)
    model = SVR().fit(X, y)
    X[3, 0] = 1e300
    found = ll.feature_importance(model, X, y, donors="all")["x0"]
    expected = (y[:, None] - predictions(model.predict, X, [0])) ** 2 - ((y - model.predict(X)) ** 2)[:, None]
    assert found.pfi == pytest.approx(expected.mean(), rel=1e-9)
