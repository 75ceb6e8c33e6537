"""`losslens.sklearn`: scikit-learn's own tests of it are in verbs/test_scikit_inspection.py; what is more is here."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from losslens.sklearn import permutation_importance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=120) > 0).astype(int)
FOREST = RandomForestClassifier(8, random_state=0).fit(X, Y)


def test_the_bunch_has_standard_errors_and_the_result():
    found = permutation_importance(FOREST, X, Y, scoring="roc_auc", n_repeats=4, random_state=0)
    assert found.importances.shape == (3, 4)
    np.testing.assert_allclose(found.importances_mean, found.importances.mean(axis=1))
    pooled = [one.pfi for one in found.result.values()]  # of all repeats together: the same but for 1/n
    np.testing.assert_allclose(found.importances_mean, pooled, atol=1 / len(X))
    np.testing.assert_array_equal(found.std_error, [one.std_error for one in found.result.values()])
    assert found.low[0] > 0 > found.low[1]
    assert (found.result.engine, found.result["x0"].n_predictions) == ("trees", 0)


def test_several_scores_are_a_dict_and_bad_arguments_are_named():
    found = permutation_importance(FOREST, X, Y, scoring=["accuracy", "neg_log_loss"], max_samples=60, random_state=0)
    assert list(found) == ["accuracy", "neg_log_loss"]
    with pytest.raises(ValueError, match="n_repeats is a whole number from 1 on; got 0"):
        permutation_importance(FOREST, X, Y, n_repeats=0)
    with pytest.raises(ValueError, match=r"max_samples must be <= n_samples: .* got 1\.5"):
        permutation_importance(FOREST, X, Y, max_samples=1.5)
