"""Pictures of results: each takes a finished result and nothing else, and returns the Axes that it drew on.

`losslens` doesn't import this package until a picture is asked for, so that it works without loading matplotlib.
"""

from losslens.plots.feature import plot_effect, plot_importance
from losslens.plots.ranking import plot_ranking
from losslens.plots.shapley import plot_interactions, plot_shapley, plot_shapley_curve
from losslens.plots.shapley_effect import plot_shapley_effect

__all__ = [
    "plot_effect",
    "plot_importance",
    "plot_interactions",
    "plot_ranking",
    "plot_shapley",
    "plot_shapley_curve",
    "plot_shapley_effect",
]
