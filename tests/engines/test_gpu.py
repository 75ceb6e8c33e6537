"""Engines of a torch device, on the CPU's: the same code, the same numbers as the other engines and as brute force."""

import doctest
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression

import losslens as ll
import tree_cases as cases
from losslens import losses
from losslens.engines.trees.coalitions import CoalitionErrors
from losslens.models import TorchModule
from losslens.passes import auto, dense
from losslens.shapley import control_variates
from losslens.shapley.by_engine import PairsOnDevice, TreePairs
from losslens.tables import sample
from tree_cases import FRAME, FRAME_TARGET, FRAME_TRAIN, FRAME_Y, KINDS, SUBSETS, TARGET, TRAIN, WEIGHTS, X, Y

torch = pytest.importorskip("torch")


from losslens.engines.gpu import boxes as device_boxes  # noqa: E402
from losslens.engines.gpu import memory, modules, pairs  # noqa: E402
from losslens.engines.gpu.losses import device_loss  # noqa: E402
from losslens.engines.gpu.memory import BatchSizes  # noqa: E402
from losslens.engines.gpu.pairs import DevicePairs  # noqa: E402
from losslens.engines.gpu.totals import DeviceErrors  # noqa: E402
from losslens.engines.trees.boxes import boxes  # noqa: E402

N = len(Y)
SOME = [[0], [1, 3], [0, 1, 2]]
CLASSES = cases.CLASSES


@pytest.mark.parametrize("module", [device_boxes, memory])
def test_examples(module):
    assert doctest.testmod(module).attempted > 0
    assert doctest.testmod(module).failed == 0


# Totals of coalitions.


def both(model, table, y, weight, response="values"):
    """The CPU's errors and the device's."""
    bound, rows = cases.bound_of(model, table, response), np.flatnonzero(weight > 0)
    y = np.asarray(y, float)
    return CoalitionErrors(bound, y, weight), DeviceErrors(boxes(bound, rows), y[rows], weight[rows], "cpu")


def same_errors(here, there, subsets=SUBSETS):
    for kept in subsets:
        np.testing.assert_allclose(there.errors(kept), here.errors(kept), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("kind", cases.REGRESSORS)
def test_totals_are_those_of_the_cpu(kind, weight):
    train, target, table, y = (TRAIN, TARGET, X, Y)
    if kind == "categories":  # and missing values
        train, target, table, y = (FRAME_TRAIN, FRAME_TARGET, FRAME, FRAME_Y)
    model = cases.REGRESSORS[kind].fit(train, target)
    same_errors(*both(model, table, y, WEIGHTS[weight]))


def one_hot(kinds):
    return (kinds[:, None] == np.arange(3)).astype(float)


@pytest.mark.parametrize("response", ["probabilities", "scores"])
def test_totals_of_several_outputs(response):
    make = RandomForestClassifier(5, max_leaf_nodes=10, random_state=0)
    if response == "scores":  # each tree adds to one output
        make = GradientBoostingClassifier(n_estimators=5, random_state=0)
    model = make.fit(TRAIN, CLASSES)
    for weight in WEIGHTS.values():
        same_errors(*both(model, X, one_hot(KINDS), weight, response))


def test_totals_by_brute_force_far_from_zero():
    model = GradientBoostingRegressor(n_estimators=10, random_state=0).fit(TRAIN, TARGET + 1e6)
    _, there = both(model, X, Y + 1e6, cases.EQUAL)
    for kept in SOME:
        wanted = cases.squared(cases.answers(model.predict, X, kept), Y + 1e6, cases.EQUAL)
        assert there.error(kept) == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("weight", ["equal", "unequal"])
def test_totals_in_small_tiles_and_chunks(weight, monkeypatch):
    from losslens.engines.gpu import totals

    monkeypatch.setattr(totals, "CHUNK_WORDS", 1)  # 64 rows
    here, there = both(cases.REGRESSORS["boosting"].fit(TRAIN, TARGET), X, Y, WEIGHTS[weight])
    there.tile.size = 64
    same_errors(here, there)


def test_totals_go_on_with_half_of_the_leaves(monkeypatch):
    here, there = both(cases.REGRESSORS["boosting"].fit(TRAIN, TARGET), X, Y, cases.EQUAL)
    plain = there._compare

    def small(met, a, b, sums):
        if a.stop - a.start > 64:
            raise torch.cuda.OutOfMemoryError("too much")
        return plain(met, a, b, sums)

    monkeypatch.setattr(there, "_compare", small)
    same_errors(here, there, SOME)
    assert there.tile.size == 64


# Losses of pairs.

VALUES = [losses.squared_error, losses.absolute_error, losses.huber(0.5), losses.pinball(0.8)]
POSITIVE = [losses.poisson_deviance, losses.gamma_deviance, losses.squared_error]
CHANCES = [losses.log_loss, losses.brier]


def pair_case(name):
    """A fitted model, its method, the rows, their y, the response and the losses."""
    many = [model.fit(TRAIN, CLASSES) for model in (RandomForestClassifier(6, max_leaf_nodes=9, random_state=0),)]
    found = {
        "forest": (RandomForestRegressor(7, max_leaf_nodes=12, random_state=0), TARGET, Y, "values", VALUES),
        "boosting": (GradientBoostingRegressor(n_estimators=20, random_state=0), TARGET, Y, "values", VALUES),
        "exponential": (
            HistGradientBoostingRegressor(loss="poisson", max_iter=10), np.abs(TARGET), np.abs(Y), "values", POSITIVE,
        ),
        "chances": (many[0], CLASSES > 0, KINDS > 0, "probabilities", CHANCES),
        "chances of three": (RandomForestClassifier(6, random_state=0), CLASSES, KINDS, "probabilities", CHANCES),
        "logistic": (GradientBoostingClassifier(n_estimators=5), CLASSES > 0, KINDS > 0, "probabilities", CHANCES),
        "softmax": (GradientBoostingClassifier(n_estimators=5), CLASSES, KINDS, "probabilities", CHANCES),
        "scores": (GradientBoostingClassifier(n_estimators=5), CLASSES > 0, KINDS > 0, "scores", [losses.hinge]),
    }  # fmt: skip
    model, target, y, response, judged_by = found[name]
    model.fit(TRAIN, target)
    methods = {"values": "predict", "probabilities": "predict_proba", "scores": "decision_function"}
    return model, getattr(model, methods[response]), y if response == "values" else y.astype(int), response, judged_by


@pytest.mark.parametrize(
    "name",
    ["forest", "boosting", "exponential", "chances", "chances of three", "logistic", "softmax", "scores"],
)
@pytest.mark.parametrize("weight", ["equal", "unequal"])
def test_rows_and_donors_by_brute_force(name, weight, monkeypatch):
    monkeypatch.setattr(pairs, "PAIRS", 1)
    monkeypatch.setattr(pairs, "DONOR_WORDS", 1)  # 64 at a time, and then the rest
    model, predict, y, response, judged_by = pair_case(name)
    bound, weight = cases.bound_of(model, X, response), WEIGHTS[weight] / WEIGHTS[weight].sum()
    for loss in judged_by:
        on_device = device_loss(bound.ensemble.link, bound.ensemble.outputs, loss)
        device = DevicePairs(boxes(bound, np.arange(N)), y, weight, on_device, "cpu")
        for kept in SOME:
            lost = loss(np.repeat(y, N), predict(cases.pairs(X, kept))).reshape(N, N)
            by_row, by_donor = device.means(np.isin(np.arange(4), kept))
            scale = max(1.0, lost.max())
            np.testing.assert_allclose(by_row, lost @ weight, rtol=0, atol=1e-8 * scale)
            np.testing.assert_allclose(by_donor, weight @ lost, rtol=0, atol=1e-8 * scale)


def test_certain_and_wrong_is_clipped_as_on_the_cpu():
    """A forest of pure leaves says 0 of the true class for some pairs: a log loss of -log(eps)."""
    model = RandomForestClassifier(3, random_state=0).fit(TRAIN, CLASSES > 0)
    y, bound = (KINDS > 0).astype(int), cases.bound_of(model, X, "probabilities")
    on_device = device_loss(bound.ensemble.link, 1, losses.log_loss)
    by_row, _ = DevicePairs(boxes(bound, np.arange(N)), y, np.ones(N), on_device, "cpu").means(np.arange(4) == 0)
    lost = losses.log_loss(np.repeat(y, N), model.predict_proba(cases.pairs(X, [0]))).reshape(N, N)
    assert (lost > 36).any()
    np.testing.assert_allclose(by_row, lost.mean(axis=1), rtol=1e-7)


def test_what_a_device_does_not_judge():
    same = cases.bound_of(cases.REGRESSORS["forest"].fit(TRAIN, TARGET), X).ensemble.link
    own = losses.pointwise(lambda y, f: np.abs(y - f), reads="values")
    assert device_loss(same, 1, own) is None
    assert device_loss(same, 1, losses.tweedie_deviance(1.5)) is None
    assert device_loss(lambda raw: raw[:, 0] ** 3, 1, losses.squared_error) is None
    assert device_loss(lambda raw: (raw[:, 0] > 0).astype(int), 1, losses.zero_one) is None


def test_digits_hold_the_numbers():
    whole = np.random.default_rng(0).integers(-(2**32), 2**32, (3, 50)).astype(float)
    digits = pairs._digits(whole, 3)
    np.testing.assert_array_equal((digits[0] * pairs.BASE + digits[1]) * pairs.BASE + digits[2], whole)
    assert np.abs(digits).max() <= pairs.BASE  # half precision holds every one
    np.testing.assert_array_equal(digits.astype(np.float16), digits)


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton, to run its code without a GPU")
def test_the_compiled_pass_is_the_plain_one():
    code = """
import torch
from losslens.engines.gpu import fused
torch.manual_seed(0)
double = {"dtype": torch.float64}
sums = torch.randint(-1000, 1000, (3, 70, 320)).float()[:, :66, :301]
shift, scale = torch.randn(66, **double), 1e-9 * torch.rand(66, **double)
mine, lent, clip = torch.rand(66, **double), torch.rand(301, **double), torch.tensor([0.3, 1.5], **double)
seen = ((sums[0].double() * 2048 + sums[1]) * 2048 + sums[2]) * scale[:, None] + shift[:, None]
logs = torch.nn.functional.softplus(seen, threshold=40).clamp(*clip.tolist())
for kind, lost in ((fused.SQUARED, seen**2), (fused.ABSOLUTE, seen.abs()), (fused.LOGISTIC, logs)):
    by_row, by_donor = fused.means(sums, 2048, (shift, scale), (mine, lent), kind, clip)
    torch.testing.assert_close(by_row, lost @ lent)
    torch.testing.assert_close(by_donor, mine @ lost)
"""
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# The verbs.


@pytest.fixture(scope="module")
def boosting():
    return GradientBoostingRegressor(n_estimators=15, random_state=0).fit(TRAIN, TARGET)


def shares(model, device=None, **options):
    return ll.shapley_importance(
        model, X, options.pop("y", Y), device=device, random_state=0, progress=False, **options
    )


def test_shapley_importance_of_pairs_on_a_device(boosting):
    here, there = shares(boosting), shares(boosting, "cpu")
    assert (here.engine, there.engine, there.exact) == ("trees", "trees on cpu", True)
    for name in ("sfimp", "local", "std_error", "observations"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), atol=1e-8)
    assert there.sfimp.sum() == pytest.approx(there.error_none - there.error_all, abs=1e-12)
    curves = [found.curve("x0", by="donor").importance for found in (here, there)]
    np.testing.assert_allclose(*curves, atol=1e-8)


OPTIONS = [
    {"sample_weight": cases.UNEQUAL},
    {"donors": ll.Derangements()},
    {"features": ["x0", "x2"]},
    {"features": {"both": ["x0", "x1"], "x2": ["x2"], "x3": ["x3"]}},
]
# Totals of coalitions are computed where a column belongs to no player: otherwise they are covariances.
WITHOUT_A_COLUMN = [{}, {"sample_weight": cases.UNEQUAL}, {"donors": ll.Derangements()}]
BY = [("totals", {"features": ["x0", "x2"]} | options) for options in WITHOUT_A_COLUMN]
BY += [("totals", {"features": {"both": ["x0", "x1"], "x3": ["x3"]}})]
BY += [("pairs", options) for options in [*OPTIONS, {"loss": "absolute_error"}]]


@pytest.mark.parametrize(("by", "options"), BY)
def test_shapley_importance_with_options(boosting, options, by, monkeypatch):
    here = shares(boosting, **options)
    if by == "totals":
        monkeypatch.setattr(PairsOnDevice, "limit", 0)
        monkeypatch.setattr(TreePairs, "limit", 0)
    there = shares(boosting, "cpu", **options)
    assert there.engine == "trees on cpu"
    np.testing.assert_allclose(there.sfimp, here.sfimp, atol=1e-8 if by == "pairs" else 1e-12)


def test_who_is_not_asked_earns_nothing(monkeypatch):
    flat = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(TRAIN * [1, 1, 1, 0], TARGET)
    monkeypatch.setattr(TreePairs, "limit", 0)
    for most in (PairsOnDevice.limit, 0):  # pairs, then totals
        monkeypatch.setattr(PairsOnDevice, "limit", most)
        found = shares(flat, "cpu", features=["x0", "x2", "x3"])
        assert found.engine == "trees on cpu"
        assert found.sfimp[2] == 0


def test_log_loss_of_a_classifier():
    model = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(TRAIN, CLASSES)
    here, there = (shares(model, device, y=KINDS, loss="log_loss") for device in (None, "cpu"))
    assert there.engine == "trees on cpu"
    np.testing.assert_allclose(there.local, here.local, atol=1e-8)


def test_a_device_that_is_not_used_is_said(boosting):
    found = shares(LinearRegression().fit(TRAIN, TARGET), "cpu")
    assert any("device='cpu' was not used" in remark for remark in found.remarks)
    assert not any("device" in remark for remark in shares(boosting, "cpu").remarks)


def test_plan_on_a_device(boosting):
    planned = ll.plan(ll.shapley_importance, boosting, X, Y, device="cpu")
    assert "on the device" in planned.way
    assert planned.engine == "trees on cpu"


def test_bad_devices(boosting):
    with pytest.raises(ValueError, match="name of a torch device"):
        shares(boosting, "the large one")
    with pytest.raises(ValueError, match="must be 'cuda'"):
        shares(boosting, "meta")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="finds no CUDA device"):
            shares(boosting, "cuda")


# Torch modules.


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
    monkeypatch.setattr(dense, "CELLS_AVERAGED", options.pop("at once", 1 << 24))
    monkeypatch.setattr(sample, "CHUNK", 64)
    plain_averaged = modules.Modules.averaged
    monkeypatch.setattr(modules.Modules, "averaged", lambda *a, **k: asked.append(1) or plain_averaged(*a, **k))
    monkeypatch.setattr(auto, "EXACT_PREDICTIONS", 100)
    found, wanted = (
        ll.feature_importance(one, table, y, **options) for one in (network(**model), plain(network(**model)))
    )
    assert asked  # not by the black box
    assert found.n_predictions == wanted.n_predictions
    for name, one in wanted.items():
        other = found[name]
        assert other.n_predictions == one.n_predictions
        for field in ("local", "mass", "pi", "weights", "pd", "caused", "lent", "square", "clipped"):
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
    np.testing.assert_array_equal(found.shares.meeting.donors, wanted.shares.meeting.donors)


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
