"""Torch modules on their device, here the CPU: the numbers of the black box, and of the losses by NumPy."""

import doctest

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import losslens as ll
from losslens import losses
from losslens.models import TorchModule
from losslens.passes import cells, ways
from losslens.shapley import control_variates
from losslens.tables import sample
from tree_cases import KINDS, X, Y

torch = pytest.importorskip("torch")


from losslens.engines.gpu import arrays, modules  # noqa: E402
from losslens.engines.gpu.arrays import BatchSizes  # noqa: E402
from losslens.engines.gpu.losses import PredictionLoss  # noqa: E402

N = len(Y)


def test_examples():
    assert doctest.testmod(arrays).attempted > 0
    assert doctest.testmod(arrays).failed == 0


OF_VALUES = [losses.squared_error, losses.absolute_error, losses.huber(0.5), losses.pinball(0.8)]
OF_POSITIVE = [losses.poisson_deviance, losses.gamma_deviance]
OF_CLASSES = [losses.log_loss, losses.brier]
JUDGED = [(loss, "values") for loss in OF_VALUES] + [(loss, "positive") for loss in OF_POSITIVE]
JUDGED += [(loss, kind) for loss in OF_CLASSES for kind in ("two classes", "three classes")]
JUDGED += [(losses.hinge, "scores")]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("loss", "kind"), JUDGED, ids=lambda part: getattr(part, "name", part))
def test_losses_on_the_device_are_those_of_numpy(loss, kind, dtype):
    rng, donors = np.random.default_rng(0), 5
    raw = rng.normal(size=(N, donors)).astype(dtype)
    y = {"positive": np.abs(Y), "values": Y, "three classes": KINDS}.get(kind, KINDS % 2)
    if kind == "positive":
        raw = np.exp(raw)
    elif kind.endswith("classes"):  # some are certain, and wrong
        raw = rng.dirichlet([0.02] * (3 if kind == "three classes" else 2), (N, donors)).astype(dtype)
    before, predictions = raw.copy(), torch.from_numpy(raw)
    judge = PredictionLoss.of(loss, predictions[:, 0], 0 if raw.ndim == 2 else raw.shape[2])
    judged = judge(torch.from_numpy(np.asarray(y, float)), predictions).numpy()
    by_numpy = loss(np.repeat(y, donors), raw.reshape(N * donors, *raw.shape[2:])).reshape(N, donors)
    rounding = 1e-12 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(judged, by_numpy, rtol=rounding, atol=rounding)
    np.testing.assert_array_equal(raw, before)  # predictions stay as they are


def test_what_a_device_does_not_judge():
    one, several = torch.ones(3, dtype=torch.float64), torch.ones((3, 3), dtype=torch.float64)
    own = losses.pointwise(lambda y, f: np.abs(y - f), reads="values")
    assert PredictionLoss.of(own, one, 0) is None
    assert PredictionLoss.of(losses.tweedie_deviance(1.5), one, 0) is None
    assert PredictionLoss.of(losses.hinge, several, 3) is None
    assert PredictionLoss.of(losses.log_loss, several, 4) is None  # a class of y without a column


def network(outputs=1, last=None):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(8, outputs)]
    return torch.nn.Sequential(*layers, *([last] if last else [])).double()


def plain(module):
    """The same as a function of a table, for the black box."""

    def ask(table):
        module.eval()
        with torch.no_grad():
            return module(torch.tensor(np.asarray(table, float))).numpy()

    return ask


DESIGNS = ["all", ll.Latin(5), ll.Systematic(7), ll.Grid(6), ll.Permutations(3)]
FLAGS = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2].astype(int), "d": X[:, 3] > 0})


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("design", DESIGNS, ids=repr)
@pytest.mark.parametrize("table", [X, FLAGS], ids=["array", "frame"])
def test_modules_are_asked_as_the_black_box_would(design, table, remote, monkeypatch):
    monkeypatch.setattr(modules.Modules, "is_remote", remote)
    module = network()
    assert module.training
    options = {"loss": "squared_error", "donors": design, "random_state": 0, "progress": False}
    found, wanted = (ll.feature_importance(model, table, Y, **options) for model in (module, plain(network())))
    assert module.training
    assert found.n_predictions == wanted.n_predictions
    for name in wanted:
        np.testing.assert_allclose(found[name].local, wanted[name].local, atol=1e-13)
        np.testing.assert_allclose(found[name].ici, wanted[name].ici, atol=1e-13)
        np.testing.assert_allclose(found[name].effect.pd, wanted[name].effect.pd, atol=1e-13)


def off_by(y, f):
    return np.abs(y - f) ** 1.5


SUMMED = {
    "squared": {},
    "weights": {"sample_weight": np.arange(N) % 4},
    "groups": {"groups": np.arange(N) // 3},
    "leaves out own": {"donors": ll.Derangements(6)},
    "rank bins": {"donors": ll.Systematic(6), "sample_weight": 1 + np.arange(N) % 2},
    "auto": {"donors": "auto"},
    "a sampler": {"donors": ll.Residual(LinearRegression(), m=4), "features": ["x0", "x2"]},
    "a group of columns": {"features": {"both": ["x0", "x1"], "x3": ["x3"]}},
    "huber": {"loss": losses.huber(0.5)},
    "a loss of the user's own": {"loss": off_by},
    "poisson": {"loss": "poisson", "last": torch.nn.Softplus(), "y": np.abs(Y)},
    "log loss": {"loss": "log_loss", "last": torch.nn.Sigmoid(), "y": KINDS % 2},
    "brier": {"loss": "brier", "last": torch.nn.Sigmoid(), "y": KINDS % 2},
    "hinge": {"loss": "hinge", "y": KINDS % 2},
    "several classes": {"loss": "log_loss", "outputs": 3, "last": torch.nn.Softmax(dim=1), "y": KINDS},
    "brier of several": {"loss": "brier", "outputs": 3, "last": torch.nn.Softmax(dim=1), "y": KINDS},
    "hinge of several": {"loss": "hinge", "outputs": 3, "y": KINDS},
    "streamed": {"memory": 200_000, "donors": ll.Latin(60)},
    "few at a time": {"at once": 700, "donors": ll.Latin(9)},
}  # fmt: skip


@pytest.mark.parametrize("case", SUMMED)
def test_sums_on_the_device_are_those_of_the_black_box(case, monkeypatch):
    """The same donors by the same seed; cells are predicted, judged and added where the module is."""
    options = {"loss": "squared_error", "donors": ll.Latin(5), "random_state": 0, "progress": False} | SUMMED[case]
    asked, y, table = [], options.pop("y", Y), X
    model = {"outputs": options.pop("outputs", 1), "last": options.pop("last", None)}
    monkeypatch.setattr(modules.Modules, "is_remote", True)
    monkeypatch.setattr(cells, "CELLS_AVERAGED", options.pop("at once", 1 << 24))
    monkeypatch.setattr(sample, "CHUNK", 64)
    plain_averaged = modules.Modules.averaged
    monkeypatch.setattr(modules.Modules, "averaged", lambda *a, **k: asked.append(1) or plain_averaged(*a, **k))
    monkeypatch.setattr(ways, "EXACT_PREDICTIONS", 100)
    found, wanted = (
        ll.feature_importance(one, table, y, **options) for one in (network(**model), plain(network(**model)))
    )
    assert asked  # not by the black box
    assert found.n_predictions == wanted.n_predictions
    for name, one in wanted.items():
        other = found[name]
        assert other.n_predictions == one.n_predictions
        for field in ("local", "mass", "pi", "weights", "pd", "caused", "donor_weight", "square", "clipped"):
            mine, theirs = getattr(other.means, field), getattr(one.means, field)
            assert (mine is None) == (theirs is None), field
            if theirs is not None:
                np.testing.assert_allclose(mine, theirs, rtol=1e-11, atol=1e-13, err_msg=field)
        np.testing.assert_array_equal(other.cells.rows, one.cells.rows)
        np.testing.assert_allclose(other.cells.predictions, one.cells.predictions, atol=1e-13)
        np.testing.assert_allclose(other.cells.changes, one.cells.changes, atol=1e-12)
        np.testing.assert_allclose(other.sample.loss, one.sample.loss, atol=1e-13)
        if case == "streamed":
            assert len(one.cells.rows) < N


def test_effects_are_summed_on_the_device(monkeypatch):
    monkeypatch.setattr(modules.Modules, "is_remote", True)
    options = {"donors": ll.Latin(5), "random_state": 0, "progress": False}
    found, wanted = (ll.feature_effect(model, X, **options) for model in (network(), plain(network())))
    for name in wanted:
        np.testing.assert_allclose(found[name].pd, wanted[name].pd, atol=1e-13)


def test_a_column_that_a_module_ignores_changes_nothing(monkeypatch):
    monkeypatch.setattr(modules.Modules, "is_remote", True)
    module = network()
    module[0].weight.data[:, 1] = 0
    options = {"loss": "squared_error", "donors": ll.Latin(5), "progress": False}
    found = ll.feature_importance(module.float(), X, Y, **options)
    assert not found["x1"].local.any()


class Strange(torch.nn.Module):
    """Fails for rows whose first value is changed: by NaN, by infinity, by another shape."""

    def __init__(self, how):
        super().__init__()
        self.inner, self.how, self.calls = network(), how, 0

    def forward(self, rows):
        self.calls += 1
        if self.how == "shape" and self.calls > 1:
            return self.inner(rows).expand(-1, 2)
        found = self.inner(rows)[:, 0]
        return (
            found.where(torch.arange(len(found)) != len(found) - 1, float(self.how)) if self.how != "shape" else found
        )


@pytest.mark.parametrize("how", ["nan", "inf", "1e50", "shape"])
def test_what_is_strange_is_said_as_by_the_black_box(how, monkeypatch):
    monkeypatch.setattr(modules.Modules, "is_remote", True)
    words = "shape" if how == "shape" else "1e\\+50" if how == "1e50" else "NaN or infinity"
    with pytest.raises(ValueError, match=words):
        ll.feature_importance(Strange(how), X, Y, loss="squared_error", donors=ll.Latin(5), progress=False)


def test_groups_pairs_and_values_of_modules():
    options = {"loss": "squared_error", "random_state": 0, "progress": False}
    for features, donors in (({"g": [0, 2]}, "all"), ([(0, 2)], ll.Grid(4)), ([0], ll.Grid(values=[-9.0, 9.0]))):
        found, wanted = (
            ll.feature_importance(model, X, Y, features=features, donors=donors, **options)
            for model in (network(), plain(network()))
        )
        for name in wanted:
            np.testing.assert_allclose(found[name].pi, wanted[name].pi, atol=1e-13)


@pytest.mark.parametrize(("outputs", "last"), [(1, torch.nn.Sigmoid()), (3, torch.nn.Softmax(dim=1))])
def test_probabilities_of_modules(outputs, last):
    y = KINDS if outputs == 3 else KINDS % 2
    options = {"loss": "log_loss", "donors": ll.Latin(4), "random_state": 0, "progress": False}
    found, wanted = (
        ll.feature_importance(model, X, y, **options)
        for model in (network(outputs, last), plain(network(outputs, last)))
    )
    for name in wanted:
        np.testing.assert_allclose(found[name].local, wanted[name].local, atol=1e-12)


@pytest.mark.parametrize("method", ["exact", "walk"])
def test_shapley_importance_of_modules(method):
    options = {"loss": "squared_error", "method": method, "random_state": 0, "progress": False}
    found, wanted = (ll.shapley_importance(model, X, Y, **options) for model in (network(), plain(network())))
    np.testing.assert_allclose(found.sfimp, wanted.sfimp, atol=1e-13)
    np.testing.assert_allclose(found.local, wanted.local, atol=1e-13)


WALKED = {
    "squared": {},
    "weights": {"sample_weight": 1 + np.arange(N) % 4},
    "no weight": {"sample_weight": np.arange(N) % 4},
    "leaves out own": {"donors": ll.Derangements()},
    "few donors": {"donors": ll.Latin(6)},
    "few features": {"features": ["x0", "x2"]},
    "groups of columns": {"features": {"both": ["x0", "x1"], "x2": ["x2"], "x3": ["x3"]}},
    "a frame with ties": {"table": FLAGS},
    "one column that varies": {"table": X * [1, 0, 0, 0]},
    "a loss of the user's own": {"loss": off_by},
    "log loss": {"loss": "log_loss", "last": torch.nn.Sigmoid(), "y": KINDS % 2},
    "several classes": {"loss": "brier", "outputs": 3, "last": torch.nn.Softmax(dim=1), "y": KINDS},
    "a budget": {"budget": 2000},
    "poisson": {"loss": "poisson", "last": torch.nn.Softplus(), "y": np.abs(Y)},
}  # fmt: skip


@pytest.mark.parametrize("case", WALKED)
def test_walks_on_the_device_are_those_of_the_black_box(case, monkeypatch):
    """The same donors and orders by the same seed: the same shares, errors and decisions when to stop."""
    options = {"loss": "squared_error", "method": "walk", "random_state": 0, "progress": False} | WALKED[case]
    y, table, used = options.pop("y", Y), options.pop("table", X), []
    model = {"outputs": options.pop("outputs", 1), "last": options.pop("last", None)}
    monkeypatch.setattr(modules.Modules, "is_remote", True)
    gather = control_variates.gather
    monkeypatch.setattr(control_variates, "gather", lambda *a, **k: used.append(k["xp"] is np) or gather(*a, **k))
    found = ll.shapley_importance(network(**model), table, y, **options)
    assert all(used) == (case in ("a loss of the user's own", "poisson"))
    wanted = ll.shapley_importance(plain(network(**model)), table, y, **options)
    assert (found.n_predictions, found.design) == (wanted.n_predictions, wanted.design)
    for name in ("sfimp", "local", "monte_carlo_error", "std_error", "gains"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-9, atol=1e-12, err_msg=name)
    for name in ("caused", "cells"):
        mine, theirs = getattr(found.shares, name), getattr(wanted.shares, name)
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12, err_msg=name)
        assert isinstance(mine, np.ndarray)
    np.testing.assert_array_equal(found.shares.layout.donors, wanted.shares.layout.donors)


@pytest.mark.parametrize("how", ["nan", "shape"])
def test_strange_predictions_of_mixed_rows(how, monkeypatch):
    monkeypatch.setattr(modules.Modules, "is_remote", True)
    with pytest.raises(ValueError, match="shape" if how == "shape" else "NaN or infinity"):
        ll.shapley_importance(Strange(how), X, Y, loss="squared_error", method="walk", progress=False)


def test_the_table_is_sent_once(monkeypatch):
    sent = []
    monkeypatch.setattr(TorchModule, "as_rows", _noting(TorchModule.as_rows, sent))
    monkeypatch.setattr(modules, "BATCH", 64)
    ll.feature_importance(network(), X, Y, loss="squared_error", donors="all", progress=False)
    assert sorted(sent) == sorted([X.size] + [N] * 4)  # the table, and its columns as what donors lend


def _noting(send, sent):
    def noted(self, array):
        sent.append(array.size)
        return send(self, array)

    return noted


class Cramped(torch.nn.Module):
    """Has room for so many rows."""

    def __init__(self, most, error=torch.cuda.OutOfMemoryError):
        super().__init__()
        self.inner, self.most, self.error, self.asked = network(), most, error, []

    def forward(self, rows):
        self.asked.append(len(rows))
        if len(rows) > self.most:
            raise self.error("no room")
        return self.inner(rows)


@pytest.mark.parametrize("verb", [ll.feature_importance, ll.shapley_importance])
def test_out_of_memory_halves_the_batch_and_goes_on(verb):
    options = {"loss": "squared_error", "random_state": 0, "progress": False}
    cramped = Cramped(100)
    found, wanted = (verb(model, X, Y, **options) for model in (cramped, network()))
    name = "sfimp" if verb is ll.shapley_importance else "local"
    np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-13)
    assert max(cramped.asked) > 100  # it was tried
    first = next(k for k, rows in enumerate(cramped.asked) if rows > 100)
    halved = next(k for k in range(first, len(cramped.asked)) if cramped.asked[k] <= 100)
    assert max(cramped.asked[halved:]) <= 100  # and not tried again


def test_no_room_at_all_is_one_clear_error():
    with pytest.raises(MemoryError, match="too little memory for 1 rows"):
        ll.feature_importance(Cramped(0), X, Y, loss="squared_error", progress=False)


def test_other_errors_of_a_module_are_its_own():
    with pytest.raises(RuntimeError, match="no room") as caught:
        ll.feature_importance(Cramped(0, RuntimeError), X, Y, loss="squared_error", progress=False)
    assert not isinstance(caught.value, MemoryError)


def test_words_of_libraries_for_no_memory():
    steps, tried = BatchSizes(8, "rows"), []

    def work(part):
        tried.append(part.stop - part.start)
        if tried[-1] > 3:
            raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)")
        return part

    assert [part.stop for part, _ in steps.over(7, work)] == [3, 6, 7]
    assert tried == [7, 3, 3, 1]
