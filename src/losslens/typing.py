"""Names of array types, declared once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]  # numbers
Indices = NDArray[np.intp]  # positions of rows, donors, columns or values
Mask = NDArray[np.bool_]  # which of them
