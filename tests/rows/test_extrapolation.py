import numpy as np
import pandas as pd
import pytest

import losslens as ll


class Memory:
    """A classifier that is told what to answer: whether the two columns are far from each other."""

    def fit(self, table, answer):
        assert isinstance(table, pd.DataFrame)
        assert set(answer) == {0, 1}
        assert (np.abs(table["a"] - table["b"])[answer == 0] < 1e-9).all()  # real rows come first, unchanged
        self.fitted = True
        return self

    def predict_proba(self, table):
        chance = np.where(np.abs(table["a"] - table["b"]) < 1e-9, 0.01, 0.99)
        return np.column_stack([1 - chance, chance])


def test_a_classifier_of_the_users_own_sees_tables_like_theirs():
    a = np.random.default_rng(0).normal(size=100)
    X = pd.DataFrame({"a": a, "b": a})
    imp = ll.feature_importance(lambda X: X["a"].to_numpy(), X, a, loss="squared_error")
    own = Memory()
    found = ll.extrapolation(imp, X, classifier=own, random_state=0)
    assert found["a"].auc == 1
    assert found["a"].share == 1
    assert not hasattr(own, "fitted")  # a copy was
    with pytest.raises(TypeError, match="fit and predict_proba"):
        ll.extrapolation(imp, X, classifier=object())
