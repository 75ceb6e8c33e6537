"""The pinball loss of several quantiles: predictions (N, Q) of one y."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from losslens.losses.rows import pinball
from losslens.losses.vectors import FROM_METADATA, OutputLoss, OutputName, OutputsLoss


@dataclass(frozen=True)
class QuantilesLoss(OutputsLoss):
    """A loss of several quantiles of the same y."""

    noun: ClassVar[str] = "quantile"
    of_each: ClassVar[str] = "pinball loss"

    def output(self, k: int) -> OutputLoss:
        """The loss of one quantile, whose title has it."""
        return replace(super().output(k), title=self.each[k].title)

    def bound(self, names: Sequence[OutputName]) -> OutputsLoss:
        """Raise ValueError unless they are these quantiles: y has one column for all of them."""
        if tuple(names) == self.outputs:
            return self
        raise ValueError(
            f"pinball reads predictions of the quantiles {', '.join(map(str, self.outputs))} and one column of y for "
            f"all of them; got the outputs {', '.join(map(str, names))}"
        )


def pinball_of(levels: Sequence[float]) -> QuantilesLoss:
    """The mean of the pinball losses of these quantiles, which are its outputs.

    >>> pinball_of([0.1, 0.9]).by_output([0.0], [[-1.0, 1.0]])
    array([[0.1, 0.1]])
    """
    each = tuple(pinball(level) for level in np.asarray(levels, dtype=object).ravel())
    names = tuple(value for loss in each for _, value in loss.parameters)
    if not names or np.ndim(levels) != 1 or len(set(names)) < len(names):
        raise ValueError(f"pinball takes as alpha one quantile or a list of distinct ones; got {levels!r}")
    title = f"pinball loss, mean of {len(each)} quantiles"
    shares = (1 / len(each),) * len(each)
    return QuantilesLoss("pinball", "outputs", title, None, each=each, outputs=names, weights=shares)


def _from_metadata(metadata: Mapping[str, Any]) -> QuantilesLoss:
    return pinball_of(metadata["outputs"])


FROM_METADATA["pinball"] = _from_metadata
