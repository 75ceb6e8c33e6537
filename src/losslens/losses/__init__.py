"""What is lost: losses of single rows, of one prediction or several, and scorers, one number for all rows.

A loss never takes a mean. Uses `tables.arrays`, nothing above it.
"""

from losslens.losses import quantiles  # noqa: F401 - files know them
from losslens.losses.names import from_metadata, names_of, outputs, pointwise, resolve
from losslens.losses.rows import (
    LARGEST,
    POSITIVE,
    SMALLEST,
    TOO_LARGE,
    TOO_SMALL,
    Loss,
    Response,
    absolute_error,
    brier,
    call_read_only,
    gamma_deviance,
    hinge,
    huber,
    log_loss,
    pinball,
    poisson_deviance,
    squared_error,
    tweedie_deviance,
    zero_one,
)
from losslens.losses.scorers import FunctionScorer, as_scorer, is_scorer, scorer, title_of
from losslens.losses.survival import SurvivalLoss, brier_survival
from losslens.losses.vectors import OutputLoss, OutputsLoss, for_outputs, outputs_of, same_outputs

__all__ = [
    "LARGEST",
    "POSITIVE",
    "SMALLEST",
    "TOO_LARGE",
    "TOO_SMALL",
    "FunctionScorer",
    "Loss",
    "OutputLoss",
    "OutputsLoss",
    "Response",
    "SurvivalLoss",
    "absolute_error",
    "as_scorer",
    "brier",
    "brier_survival",
    "call_read_only",
    "for_outputs",
    "from_metadata",
    "gamma_deviance",
    "hinge",
    "huber",
    "is_scorer",
    "log_loss",
    "names_of",
    "outputs",
    "outputs_of",
    "pinball",
    "pointwise",
    "poisson_deviance",
    "resolve",
    "same_outputs",
    "scorer",
    "squared_error",
    "title_of",
    "tweedie_deviance",
    "zero_one",
]
