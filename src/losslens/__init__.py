"""Which features a fitted model's performance depends on: how much, where in their range, and for which rows."""

from typing import Any

from losslens import datasets, losses
from losslens.donors.designs import All, Derangements, Grid, Latin, Permutations, Systematic
from losslens.donors.samplers import Residual, Within
from losslens.results.storage import load
from losslens.shapley.stopping import Absolute, Paper, Sage
from losslens.verbs.blocks import feature_groups
from losslens.verbs.compare import compare
from losslens.verbs.conditional import conditional_predictive_impact
from losslens.verbs.features import feature_effect, feature_importance
from losslens.verbs.good_models import good_models
from losslens.verbs.interactions import pair_interactions
from losslens.verbs.plan import plan
from losslens.verbs.refits import (
    feature_importance_cv,
    leave_one_covariate_out,
    permuted_target_test,
    shapley_importance_cv,
)
from losslens.verbs.report import report
from losslens.verbs.segments import weak_segments
from losslens.verbs.shapley import shapley_effect, shapley_importance
from losslens.verbs.time_blocks import time_blocks

__all__ = [
    "Absolute",
    "All",
    "Derangements",
    "Grid",
    "Latin",
    "Paper",
    "Permutations",
    "Residual",
    "Sage",
    "Systematic",
    "Within",
    "compare",
    "conditional_predictive_impact",
    "datasets",
    "feature_effect",
    "feature_groups",
    "feature_importance",
    "feature_importance_cv",
    "good_models",
    "leave_one_covariate_out",
    "load",
    "losses",
    "pair_interactions",
    "permuted_target_test",
    "plan",
    "report",
    "shapley_effect",
    "shapley_importance",
    "shapley_importance_cv",
    "time_blocks",
    "weak_segments",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":  # on access: importlib.metadata would take a fifth of the import time
        from importlib.metadata import version

        return version("losslens")
    raise AttributeError(f"module 'losslens' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names only, without the imported subpackages and modules."""
    return [*__all__, "__version__", *(name for name in globals() if name.startswith("__"))]
