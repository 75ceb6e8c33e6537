"""Explainable boosting machines: tables of scores are read as the machine itself looks them up.

`explainable_boosting.json` holds machines of interpret 0.7.8 and what they said of every pair of rows; with interpret
installed, machines are fitted here, too.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import brute
import losslens as ll
from losslens.engines.base import Declined, Site
from losslens.engines.readers import explainable_boosting
from losslens.engines.readers.pipelines import UnwrappedModel
from losslens.tables.frames import as_table

STORED = json.loads((Path(__file__).parent / "explainable_boosting.json").read_text())
ROWS = pd.DataFrame(
    {name: values if name == "w" else np.array(values, float) for name, values in STORED["rows"].items()}
)
KINDS = {"single columns": "additive", "two classes": "link"}  # others are trees


def machine(name):
    """A stored machine as the reader sees it."""
    stored = STORED["machines"][name]
    arrays = {"term_scores_": [np.array(scores) for scores in stored["term_scores_"]]}
    arrays["bins_"] = [
        [one if isinstance(one, dict) else np.array(one) for one in levels] for levels in stored["bins_"]
    ]
    return SimpleNamespace(**stored | arrays)


@pytest.mark.parametrize("name", STORED["machines"])
def test_every_pair_of_rows(name):
    """An unseen category, a value that is missing, one that is infinite: each has its bin."""
    stored = machine(name)
    table = as_table(ROWS[list(stored.said)])
    form = explainable_boosting._read(stored, stored.response)
    assert form.kind == KINDS.get(name, "trees")
    site = Site(table, table.column, frozenset(range(len(table.names))), 1 << 26, None, None)
    engine = form.engine(UnwrappedModel(stored, np.arange(len(table.names)), None), site)
    i, k = np.divmod(np.arange(len(ROWS) ** 2), len(ROWS))
    for j, said in enumerate(stored.said.values()):
        source = np.repeat(i[:, None], len(table.names), axis=1)
        source[:, j] = k
        np.testing.assert_allclose(engine.predict(source), said, rtol=1e-12, atol=1e-14)


def test_what_is_declined():
    stored = machine("three classes")
    with pytest.raises(Declined, match="ties"):
        explainable_boosting._read(stored, "labels")
    with pytest.raises(Declined, match="link 'vlogit'"):
        explainable_boosting._read(SimpleNamespace(**vars(stored) | {"link_": "vlogit"}), "probabilities")
    with pytest.raises(Declined, match="no terms"):
        explainable_boosting._read(
            SimpleNamespace(**vars(stored) | {"term_features_": [], "term_scores_": []}), "scores"
        )
    axes = explainable_boosting._Axes(stored.bins_, stored.feature_types_in_)
    for value, why in ((" u", "blank"), ("", "empty"), (b"u", "a category is a bytes")):
        with pytest.raises(Declined, match=why):
            axes.encode(3, np.array([value], object))
    with pytest.raises(Declined, match="float32"):
        axes.encode(3, np.ones(2, np.float32))
    with pytest.raises(Declined, match="dates"):
        axes.encode(0, np.array(["2020-01-01"], "M8[D]"))


# With interpret.


def pairs(table, name):
    i, k = np.divmod(np.arange(len(table) ** 2), len(table))
    return table.iloc[i].reset_index(drop=True).assign(**{name: table[name].iloc[k].array})


FITTED = {
    "squared_error": ("Regressor", "predict"),
    "absolute_error": ("Regressor", "predict"),
    "log_loss": ("Classifier", "predict_proba"),
    "zero_one": ("Classifier", "predict"),
    "hinge": ("Classifier", "decision_function"),
}


@pytest.mark.filterwarnings("ignore")  # of interpret
@pytest.mark.parametrize("interactions", [0, 2])
@pytest.mark.parametrize("loss", FITTED)
def test_what_a_machine_says_of_all_pairs(loss, interactions):
    glassbox = pytest.importorskip("interpret.glassbox")
    rng, n = np.random.default_rng(0), 40
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 2, n), "c": rng.choice([1.5, np.nan, 2.0], n)})
    X["w"] = pd.Categorical(rng.choice(["u", "v"], n))
    y = X.a.to_numpy() * X.b.to_numpy() + rng.normal(size=n) / 3
    kind, ask = FITTED[loss]
    target = y if kind == "Regressor" else (y > 0) * 1
    options = {"interactions": interactions, "outer_bags": 1, "max_rounds": 10, "n_jobs": 1}
    model = getattr(glassbox, f"ExplainableBoosting{kind}")(**options).fit(X, target)
    found = ll.feature_importance(model, X, target, loss=loss)
    base = brute.LOSSES[loss](target, getattr(model, ask)(X))
    for name, one in found.items():
        losses = brute.LOSSES[loss](np.repeat(target, n), getattr(model, ask)(pairs(X, name)))
        assert (one.engine, one.exact) == ("trees", True)
        atol = 1e-9 * (base.mean() + losses.mean())
        np.testing.assert_allclose(one.local, losses.reshape(n, n).mean(axis=1) - base, rtol=1e-12, atol=atol)
