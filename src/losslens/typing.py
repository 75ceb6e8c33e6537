"""Names of array types, and of what plots draw on, declared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any  # results are imported without matplotlib

__all__ = ["Axes", "Floats", "Indices", "Mask"]

Floats = NDArray[np.float64]  # numbers
Indices = NDArray[np.intp]  # positions of rows, donors, columns or values
Mask = NDArray[np.bool_]  # which of them
