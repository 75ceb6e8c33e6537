"""Which features a fitted model's performance depends on: how much, where in their range, and for which rows."""

from typing import Any

from losslens import losses
from losslens.donors.designs import All, Derangements, Grid, Latin, Permutations, Systematic
from losslens.donors.samplers import Residual, Within
from losslens.page.report import Report
from losslens.results.by_group import ByGroup
from losslens.results.clusters import Clusters
from losslens.results.comparison import Comparison
from losslens.results.effects import Effects, FeatureEffect
from losslens.results.extrapolation import Extrapolation, Extrapolations
from losslens.results.gap import Gap
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.interactions import Interactions
from losslens.results.observations import Observations
from losslens.results.over_time import OverTime
from losslens.results.permuted_target import PermutedTarget
from losslens.results.plan import Plan
from losslens.results.refits import Refits
from losslens.results.regions import Region, Regions
from losslens.results.row_changes import ConditionalImpact, LeftOut
from losslens.results.row_influence import RowInfluence
from losslens.results.segments import Segment, WeakSegments
from losslens.results.shapley import ShapleyImportance
from losslens.results.shapley_curve import ShapleyCurve
from losslens.results.shapley_effect import ShapleyEffect
from losslens.results.storage import load
from losslens.results.time_blocks import TimeBlocks
from losslens.shapley.stopping import Absolute, Paper
from losslens.verbs.compare import compare
from losslens.verbs.conditional import conditional_predictive_impact
from losslens.verbs.features import feature_effect, feature_importance
from losslens.verbs.interactions import pair_interactions
from losslens.verbs.plan import plan
from losslens.verbs.refits import (
    feature_importance_cv,
    leave_one_covariate_out,
    permuted_target_test,
    shapley_importance_cv,
)
from losslens.verbs.report import report
from losslens.verbs.rows import clusters, extrapolation, observations, regions
from losslens.verbs.segments import weak_segments
from losslens.verbs.shapley import shapley_effect, shapley_importance
from losslens.verbs.time_blocks import time_blocks

__all__ = [
    "Absolute",
    "All",
    "ByGroup",
    "Clusters",
    "Comparison",
    "ConditionalImpact",
    "Derangements",
    "Effects",
    "Extrapolation",
    "Extrapolations",
    "FeatureEffect",
    "FeatureImportance",
    "Gap",
    "Grid",
    "Importances",
    "Interactions",
    "Latin",
    "LeftOut",
    "Observations",
    "OverTime",
    "Paper",
    "Permutations",
    "PermutedTarget",
    "Plan",
    "Refits",
    "Region",
    "Regions",
    "Report",
    "Residual",
    "RowInfluence",
    "Segment",
    "ShapleyCurve",
    "ShapleyEffect",
    "ShapleyImportance",
    "Systematic",
    "TimeBlocks",
    "WeakSegments",
    "Within",
    "clusters",
    "compare",
    "conditional_predictive_impact",
    "extrapolation",
    "feature_effect",
    "feature_importance",
    "feature_importance_cv",
    "leave_one_covariate_out",
    "load",
    "losses",
    "observations",
    "pair_interactions",
    "permuted_target_test",
    "plan",
    "regions",
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
