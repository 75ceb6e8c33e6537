"""Names of array types, and of what plots draw on and take as options, declared once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any  # results are imported without matplotlib

__all__ = ["Axes", "AxisScale", "Colors", "FeatureLabels", "Floats", "Indices", "Limits", "Mask", "Sort"]

Floats = NDArray[np.float64]  # numbers
Indices = NDArray[np.intp]  # positions of rows, donors, columns or values
Mask = NDArray[np.bool_]  # which of them

# Options of plots; `plots/options.py` checks them.
Sort = Literal["importance", "name", "given"]
AxisScale = Literal["linear", "log", "symlog"]
Limits = Literal["pi", "all"]
# For a feature: the name to show, or the name and the unit of its values.
FeatureLabels = Mapping[str, str | tuple[str, str]]
Colors = str | Sequence[Any] | Mapping[Any, Any] | NDArray[Any]  # one colour for all, or one for each
