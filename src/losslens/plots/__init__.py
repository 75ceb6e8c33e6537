"""Plots of results: each takes a finished result and returns the Axes that it drew on.

`losslens` imports this package when a plot is requested, and thus works without matplotlib until then.
"""

from losslens.plots.bars import plot_extrapolation, plot_gap, plot_ranking, plot_segments
from losslens.plots.by_group import plot_by_group
from losslens.plots.cells import plot_cells, plot_local
from losslens.plots.comparison import plot_comparison, plot_moved
from losslens.plots.feature import plot_effect, plot_importance
from losslens.plots.interactions import plot_interaction_ranking, plot_interactions
from losslens.plots.outputs import plot_output_lines, plot_outputs
from losslens.plots.over_time import plot_over_time
from losslens.plots.refits import plot_impact, plot_permuted_target, plot_refit_curve, plot_refits
from losslens.plots.rows import plot_clusters, plot_observations, plot_row_influence
from losslens.plots.shapley import plot_shapley, plot_shapley_curve
from losslens.plots.shapley_effect import plot_shapley_effect
from losslens.plots.shares import plot_shares, plot_waterfall
from losslens.plots.subgroups import plot_groups

__all__ = [
    "plot_by_group",
    "plot_cells",
    "plot_clusters",
    "plot_comparison",
    "plot_effect",
    "plot_extrapolation",
    "plot_gap",
    "plot_groups",
    "plot_impact",
    "plot_importance",
    "plot_interaction_ranking",
    "plot_interactions",
    "plot_local",
    "plot_moved",
    "plot_observations",
    "plot_output_lines",
    "plot_outputs",
    "plot_over_time",
    "plot_permuted_target",
    "plot_ranking",
    "plot_refit_curve",
    "plot_refits",
    "plot_row_influence",
    "plot_segments",
    "plot_shapley",
    "plot_shapley_curve",
    "plot_shapley_effect",
    "plot_shares",
    "plot_waterfall",
]
