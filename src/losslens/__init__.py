"""Which features a fitted model's performance rests on: how much, where in their range, and for whom."""

from typing import Any

from losslens import losses
from losslens.attributing import shapley_effect
from losslens.breiman import breiman_importance
from losslens.breiman_results import BreimanImportance
from losslens.cluster_results import Clusters
from losslens.clustering import clusters
from losslens.comparing import compare
from losslens.comparisons import Comparison
from losslens.curves import Effects, FeatureEffect
from losslens.donors import All, Derangements, Grid, Latin, Permutations, Systematic
from losslens.explain import feature_effect, feature_importance
from losslens.extrapolating import extrapolation  # it hides the module of the same name, which is loaded already
from losslens.extrapolation import Extrapolation, Extrapolations
from losslens.impact import conditional_predictive_impact
from losslens.impact_results import ConditionalImpact
from losslens.importance import FeatureImportance
from losslens.importances import Importances
from losslens.interactions import Interactions
from losslens.leaving_out import leave_one_covariate_out
from losslens.leaving_out_results import LeftOut
from losslens.null_results import PermutedTarget
from losslens.nulls import permuted_target_test
from losslens.observation_results import Observations
from losslens.observing import observations
from losslens.pairing import pair_interactions
from losslens.planning import Plan, plan
from losslens.refit_results import Refits
from losslens.refits import feature_importance_cv, shapley_importance_cv
from losslens.region_results import Region, Regions
from losslens.regions import regions
from losslens.report import Report
from losslens.reporting import report  # after the package of the same name, which it hides
from losslens.row_influence import RowInfluence
from losslens.samplers import Residual, Within
from losslens.shapley_curves import ShapleyCurve
from losslens.shapley_effects import ShapleyEffect
from losslens.shapley_results import ShapleyImportance
from losslens.sharing import shapley_importance
from losslens.stopping import Absolute
from losslens.storage import load

__all__ = [
    "Absolute",
    "All",
    "BreimanImportance",
    "Clusters",
    "Comparison",
    "ConditionalImpact",
    "Derangements",
    "Effects",
    "Extrapolation",
    "Extrapolations",
    "FeatureEffect",
    "FeatureImportance",
    "Grid",
    "Importances",
    "Interactions",
    "Latin",
    "LeftOut",
    "Observations",
    "Permutations",
    "PermutedTarget",
    "Plan",
    "Refits",
    "Region",
    "Regions",
    "Report",
    "Residual",
    "RowInfluence",
    "ShapleyCurve",
    "ShapleyEffect",
    "ShapleyImportance",
    "Systematic",
    "Within",
    "breiman_importance",
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
]


def __getattr__(name: str) -> Any:
    if name == "__version__":  # looked up when asked for: importlib.metadata would be a fifth of the import
        from importlib.metadata import version

        return version("losslens")
    raise AttributeError(f"module 'losslens' has no attribute {name!r}")
