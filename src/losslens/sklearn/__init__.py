"""What scikit-learn's users expect in its shape: `permutation_importance`, displays, a selector of features.

`losslens` itself needs no scikit-learn; this room does, and nothing imports it.
"""

from losslens.sklearn.displays import PartialImportanceDisplay, PermutationImportanceDisplay
from losslens.sklearn.permutation import permutation_importance
from losslens.sklearn.selector import ImportanceSelector

__all__ = ["ImportanceSelector", "PartialImportanceDisplay", "PermutationImportanceDisplay", "permutation_importance"]
