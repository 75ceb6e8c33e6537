"""A model that answers the same rows differently is noticed on the rows that are predicted anyway, and no other is."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor, IsolationForest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.metrics import get_scorer
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor

import losslens as ll
from losslens.engines.blackbox import Repeats, differ

N = 90
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * RNG.normal(size=N)
LABEL = np.where(Y > 0, "yes", "no")
WORDS = "the model answers the same rows differently when it is asked again"


class Noisy:
    """Adds noise of its own to every prediction."""

    def __init__(self, scale=0.1):
        self.rng, self.scale, self.rows = np.random.default_rng(1), scale, 0

    def __call__(self, table):
        table = np.asarray(table, float)
        self.rows += len(table)
        return 2 * table[:, 0] + self.scale * self.rng.normal(size=len(table))


def looks_around(table):
    """Subtracts from each row what the row before it has."""
    table = np.asarray(table, float)
    return table[:, 0] - 0.1 * np.roll(table[:, 0], 1)


def random_labels(rng):
    return lambda table: np.where(rng.random(len(table)) < 0.5 + 0.4 * np.sign(np.asarray(table)[:, 0]), "yes", "no")


CALLS = {
    "importance": lambda model: ll.feature_importance(model, X, Y, loss="squared_error"),
    "effect": lambda model: ll.feature_effect(model, X),
    "score": lambda model: ll.feature_importance(as_regressor(model), X, Y, loss=get_scorer("r2")),
    "shares": lambda model: ll.shapley_importance(model, X, Y, loss="squared_error", random_state=0),
}


def as_regressor(model):
    class Regressor(RegressorMixin, BaseEstimator):
        fitted_ = True

        def predict(self, table):
            return model(table)

    return Regressor()


def reasons(result):
    return set(result.declined.values()) if isinstance(result.declined, dict) else {result.declined}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("make", [Noisy, lambda: Noisy(0.01), lambda: looks_around], ids=["noise", "little", "batch"])
def test_noise_and_a_look_at_the_batch_are_noticed(make, call):
    with pytest.warns(UserWarning, match=WORDS):
        result = call(make())
    assert not result.exact
    assert all(reason.startswith(WORDS) for reason in reasons(result))


def test_it_takes_no_further_predictions():
    for call in (CALLS["importance"], CALLS["shares"]):
        noisy, clean = Noisy(), Noisy(0)
        with pytest.warns(UserWarning, match=WORDS):
            result = call(noisy)
        assert noisy.rows == result.n_predictions == call(clean).n_predictions == clean.rows


def test_random_labels_are_noticed():
    with pytest.warns(UserWarning, match=WORDS):
        result = ll.feature_importance(random_labels(np.random.default_rng(0)), X, LABEL, loss="zero_one")
    assert not result.exact


def test_a_sample_is_compared_with_the_next_round_or_feature():
    rows, noisy = np.random.default_rng(2).normal(size=(1_200, 2)), Noisy()
    with pytest.warns(UserWarning, match=WORDS):
        result = ll.feature_importance(
            lambda table: noisy(table) * table[:, 1], rows, rows[:, 0] * 9, loss="squared_error"
        )
    assert result["x0"].n_predictions < result["x1"].n_predictions  # which had a second round
    assert all(reason.startswith(WORDS) for reason in reasons(result))
    with pytest.warns(UserWarning, match=WORDS):
        drawn = ll.feature_importance(Noisy(), X, Y, loss="squared_error", donors=ll.Within(m=2), random_state=0)
    assert any(reason.startswith(WORDS) for reason in reasons(drawn))


def test_shapley_effects_are_not_exact_either():
    with pytest.warns(UserWarning, match=WORDS):
        found = ll.shapley_effect(Noisy(), X[:20], [0, 1], random_state=0)
    assert not found.exact


def test_files_are_read_with_the_same_care(tmp_path):
    rows = np.random.default_rng(1).integers(0, N, 12_000)
    pd.DataFrame(X[rows], columns=list("abc")).assign(y=Y[rows]).to_parquet(tmp_path / "0.parquet")
    with pytest.warns(UserWarning, match=WORDS):
        result = ll.feature_importance(Noisy(), tmp_path, "y", loss="squared_error", memory="300 KB")
    assert "of 12,000 rows in files" in repr(result)
    assert all(reason.startswith(WORDS) for reason in reasons(result))


def test_dropout_that_stays_on_is_noticed():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))

    def predict(table):
        with torch.no_grad():
            return net(torch.tensor(np.asarray(table), dtype=torch.float32))[:, 0].numpy()

    with pytest.warns(UserWarning, match=WORDS):
        assert not ll.feature_importance(predict, X, Y, loss="squared_error").exact
    net.eval()
    assert ll.feature_importance(predict, X, Y, loss="squared_error").exact
    assert ll.feature_importance(net.train(), X, Y, loss="squared_error").exact  # asked in evaluation mode


def test_a_plan_asks_another_model_and_says_nothing():
    ll.plan(ll.feature_importance, Noisy(), X, Y, loss="squared_error")
    ll.plan(ll.shapley_importance, Noisy(), X, Y, loss="squared_error")


# No false alarms: warnings are errors in these tests.

PREDICT = {
    "network": MLPRegressor(hidden_layer_sizes=(20,), max_iter=50, random_state=0),
    "neighbours": KNeighborsRegressor(),
    "process": GaussianProcessRegressor(alpha=0.1),
    "trees": ExtraTreesRegressor(5, random_state=0),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("single", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("learner", PREDICT.values(), ids=PREDICT)
def test_estimators_answer_alike(learner, single):
    predict = learner.fit(X.astype(np.float32), Y.astype(np.float32)).predict
    result = ll.feature_importance(lambda table: predict(table.astype(np.float32)).astype(single), X, Y, loss="huber")
    assert result.exact
    shares = ll.shapley_importance(
        lambda table: predict(table.astype(np.float32)).astype(single), X, Y, loss="huber", random_state=0
    )
    assert not any(reason.startswith(WORDS) for reason in reasons(shares))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["log_loss", "zero_one"])
def test_classifiers_answer_alike(loss):
    for learner in (MLPClassifier(hidden_layer_sizes=(20,), max_iter=30, random_state=0), KNeighborsClassifier(4)):
        assert ll.feature_importance(learner.fit(X, LABEL), X, LABEL, loss=loss).exact
    isolated = IsolationForest(n_estimators=5, random_state=0).fit(X)
    assert ll.feature_effect(isolated.score_samples, X).exact


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e12])
def test_rounding_that_depends_on_the_batch_is_no_noise(offset):
    """A matrix product in single precision, of few or many rows, far from 0 or at 0 for all rows."""
    weights = np.random.default_rng(0).normal(size=(3, 200)).astype(np.float32)

    def predict(table):
        hidden = np.asarray(table, np.float32) @ weights
        return (hidden @ weights.T @ np.ones(3, np.float32)).astype(float) + offset

    assert ll.feature_importance(predict, X, Y + offset, loss="squared_error").exact
    assert ll.feature_importance(lambda table: np.full(len(table), offset), X, Y, loss="squared_error").exact
    assert ll.feature_importance(
        lambda table: np.asarray(table) @ np.ones(3) - np.asarray(table).sum(axis=1), X, Y, loss="squared_error"
    ).n_predictions


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_boosters_answer_alike(name):
    library = pytest.importorskip(name)
    kind = {"xgboost": "XGBRegressor", "lightgbm": "LGBMRegressor", "catboost": "CatBoostRegressor"}[name]
    quiet = {"verbose": 0} if name == "catboost" else {"verbosity": -1} if name == "lightgbm" else {}
    model = getattr(library, kind)(n_estimators=10, **quiet).fit(X, Y)
    assert ll.feature_importance(lambda table: model.predict(np.asarray(table)), X, Y, loss="squared_error").exact


# The comparison itself.


def test_what_counts_as_different():
    y = np.random.default_rng(0).normal(size=1_000)
    noise = np.random.default_rng(1).normal(size=1_000)
    assert differ(y, y + 0.002 * noise, y)
    assert not differ(y, y + 0.0001 * noise, y)
    single, again = y.astype(np.float32), (y + 0.002 * noise).astype(np.float32)
    assert not differ(single, again, single)  # what bfloat16 would show
    assert differ(single, (y + 0.05 * noise).astype(np.float32), single)
    label = (y > 0).astype(np.intp)
    changed = label.copy()
    changed[0] = 1 - changed[0]
    assert not differ(label, changed, label)  # one in a thousand may be a tie
    assert differ(label, 1 - label, label)
    both = np.column_stack([y, np.zeros(1_000)])
    assert differ(both, both + 0.01 * np.array([0, 1]) * noise[:, None], both)
    assert not differ(np.full(5, 3.0), np.full(5, 3.0) + 1e-9, np.full(5, 3.0))


def test_rows_of_an_earlier_pass_are_remembered():
    y, rows = np.arange(5.0), np.arange(5)
    repeats = Repeats()
    repeats.compare_unchanged(rows, y, lambda: y)
    repeats.compare_unchanged(rows + 1, y + 1, lambda: y)  # other rows
    assert repeats.declined == ""
    with pytest.warns(UserWarning, match=WORDS):
        repeats.compare_unchanged(rows, y + 1, lambda: y)
    assert repeats.declined.startswith(WORDS)
