"""Which features a fitted model's performance rests on: how much, where in their range, and for whom."""

from typing import Any

from losslens import losses
from losslens.breiman import breiman_importance
from losslens.breiman_results import BreimanImportance
from losslens.curves import Effects, FeatureEffect
from losslens.donors import All, Derangements, Grid, Latin, Permutations, Systematic
from losslens.explain import feature_effect, feature_importance
from losslens.importances import FeatureImportance, Importances
from losslens.planning import Plan, plan
from losslens.storage import load

__all__ = [
    "All",
    "BreimanImportance",
    "Derangements",
    "Effects",
    "FeatureEffect",
    "FeatureImportance",
    "Grid",
    "Importances",
    "Latin",
    "Permutations",
    "Plan",
    "Systematic",
    "breiman_importance",
    "feature_effect",
    "feature_importance",
    "load",
    "losses",
    "plan",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":  # looked up when asked for: importlib.metadata would be a fifth of the import
        from importlib.metadata import version

        return version("losslens")
    raise AttributeError(f"module 'losslens' has no attribute {name!r}")
