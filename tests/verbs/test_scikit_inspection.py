"""scikit-learn's own tests of permutation importance and partial dependence, from its wheel, run on losslens.

Every test of the two modules is run, new ones too, unless it is listed here with the reason why it doesn't apply.
"""

import functools
import sys
import warnings
from unittest import mock

import pytest
import sklearn
from sklearn.inspection.tests import test_partial_dependence as of_dependence
from sklearn.inspection.tests import test_permutation_importance as of_importance

import scikit_inspection as adapter
from losslens.sklearn import permutation_importance

if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9):
    pytest.skip("the lists below are of scikit-learn 1.9's tests or later ones", allow_module_level=True)

ITS_WORDS = "the test is about the words of scikit-learn's own error"
ITS_GRID = "the grid is scikit-learn's; losslens takes observed values, quantiles of them, or given ones"
RECURSION = "recursion weights the branches of a tree by its training rows, which is no mean over rows of X"
INTEGERS = "losslens keeps the type of integer columns, where scikit-learn raises an error"
NOT_APPLICABLE = {
    of_importance: {
        "test_permutation_importance_sample_weight": "weights weigh the donors, too: on its rows 1.975, not 2 +- 1%",
    },
    of_dependence: {
        "test_grid_from_X": ITS_GRID,
        "test_grid_from_X_with_categorical": ITS_GRID,
        "test_grid_from_X_heterogeneous_type": ITS_GRID,
        "test_grid_from_X_error": ITS_GRID,
        "test_recursion_decision_tree_vs_forest_and_gbdt": RECURSION,
        "test_recursion_decision_function": RECURSION,
        "test_warning_recursion_non_constant_init": RECURSION,
        "test_partial_dependence_sample_weight_with_recursion": RECURSION,
        "test_partial_dependence_sample_weight_of_fitted_estimator": RECURSION,
        "test_hist_gbdt_sw_not_supported": "losslens supports histogram boosting that was fitted with weights",
        "test_multiclass_multioutput": ITS_WORDS,
        "test_partial_dependence_error": ITS_WORDS,
        "test_partial_dependence_unknown_feature_indices": ITS_WORDS,
        "test_partial_dependence_unknown_feature_string": ITS_WORDS,
        "test_partial_dependence_unfitted": "losslens raises ValueError where a model is not fitted",
        "test_partial_dependence_sample_weight_size_error": ITS_WORDS,
        "test_mixed_type_categorical": "losslens orders values of mixed types, where scikit-learn raises an error",
        "test_reject_array_with_integer_dtype": INTEGERS,
        "test_reject_pandas_with_integer_dtype": INTEGERS,
        "test_partial_dependence_empty_categorical_features": ITS_WORDS,
    },
}
STANDS_FOR = {
    of_importance: {"permutation_importance": permutation_importance},
    of_dependence: {
        "partial_dependence": adapter.partial_dependence,
        "_partial_dependence_brute": adapter.partial_dependence_brute,
        "_partial_dependence_recursion": lambda *_: pytest.skip(RECURSION),
    },
}


def collected(module):
    return {name: test for name, test in vars(module).items() if name.startswith("test_") and callable(test)}


def through_losslens(module, test):
    """The test, with losslens in place of scikit-learn's functions."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        with mock.patch.multiple(module, **STANDS_FOR[module]), warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning, module="sklearn")  # scikit-learn's, of itself
            test(*args, **kwargs)

    return run


for _module, _listed in NOT_APPLICABLE.items():
    for _name, _test in collected(_module).items():
        if _name not in _listed:
            setattr(sys.modules[__name__], _name, through_losslens(_module, _test))


@pytest.mark.parametrize("module", NOT_APPLICABLE, ids=["importance", "dependence"])
def test_every_listed_test_exists(module):
    """One that scikit-learn removed or renamed leaves the list."""
    assert NOT_APPLICABLE[module].keys() <= collected(module).keys()
