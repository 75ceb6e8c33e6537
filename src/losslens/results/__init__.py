"""The results of verbs (frozen dataclasses of arrays, one module a kind of result), and their file format.

Imports uncertainty, cells and the rooms below; plots and rows only inside methods. Results hold no model and no table.
"""

from losslens.results.afforded import Afforded
from losslens.results.by_group import ByGroup
from losslens.results.clusters import Clusters
from losslens.results.comparison import Comparison
from losslens.results.effects import Effects, FeatureEffect
from losslens.results.extrapolation import Extrapolation, Extrapolations
from losslens.results.gap import Gap
from losslens.results.good_models import GoodModels, ImportanceRange
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.interactions import Interactions
from losslens.results.observations import Observations
from losslens.results.outputs import Outputs
from losslens.results.over_time import OverTime
from losslens.results.permuted_target import PermutedTarget
from losslens.results.plan import Plan
from losslens.results.refits import RefitCurve, Refits
from losslens.results.regions import Region, Regions
from losslens.results.row_changes import ConditionalImpact, LeftOut
from losslens.results.row_influence import RowInfluence
from losslens.results.scores import FeatureScore, Scores
from losslens.results.segments import Segment, WeakSegments
from losslens.results.shapley import ShapleyImportance
from losslens.results.shapley_curve import ShapleyCurve
from losslens.results.shapley_effect import ShapleyEffect
from losslens.results.sufficient import Sufficient
from losslens.results.time_blocks import TimeBlocks
from losslens.results.together import Block, Together

__all__ = [
    "Afforded",
    "Block",
    "ByGroup",
    "Clusters",
    "Comparison",
    "ConditionalImpact",
    "Effects",
    "Extrapolation",
    "Extrapolations",
    "FeatureEffect",
    "FeatureImportance",
    "FeatureScore",
    "Gap",
    "GoodModels",
    "ImportanceRange",
    "Importances",
    "Interactions",
    "LeftOut",
    "Observations",
    "Outputs",
    "OverTime",
    "PermutedTarget",
    "Plan",
    "RefitCurve",
    "Refits",
    "Region",
    "Regions",
    "RowInfluence",
    "Scores",
    "Segment",
    "ShapleyCurve",
    "ShapleyEffect",
    "ShapleyImportance",
    "Sufficient",
    "TimeBlocks",
    "Together",
    "WeakSegments",
]
