"""Results of statsmodels: linear, generalised linear and discrete models fitted to a matrix, by no formula."""

from __future__ import annotations

from typing import Any

import numpy as np

from losslens.engines.base import Declined
from losslens.engines.linked_sums import LinkedLinear
from losslens.engines.readers.linear import Linear
from losslens.engines.readers.pipelines import is_single
from losslens.engines.readers.recognition import kind_of
from losslens.engines.sum_losses import Link
from losslens.losses import Response

_RESULTS = frozenset(
    f"statsmodels.{name}Wrapper" for name in ("GLMResults", "BinaryResults", "PoissonResults", "RegressionResults")
)
_LINKS: dict[str, Link] = {
    "statsmodels.Identity": "identity",
    "statsmodels.Log": "log",
    "statsmodels.Logit": "logistic",
}


def read_statsmodels(results: Any, response: Response) -> LinkedLinear | None:
    """Coefficients and link; None if these are no such results. The caller compares predictions."""
    if kind_of(results) not in _RESULTS or response not in ("values", "probabilities"):
        return None
    model, inner = results.model, results._results
    if "predict" in vars(inner):
        raise Declined("predict of its results was replaced in the object, and may do anything")
    if getattr(model, "formula", None) is not None:
        raise Declined("it was fitted by a formula: what it makes of the columns is not read; fit it to a matrix")
    link = _link(model)
    coef, single = np.array(inner.params, float)[None], is_single(inner.params)
    if link == "identity" and response == "values":
        return Linear(coef, np.zeros(1), single=single)
    if response == "probabilities" and link != "logistic":
        return None
    return LinkedLinear(coef, np.zeros(1), link, response, single=single)


def _link(model: Any) -> Link:
    if kind_of(model) in ("statsmodels.OLS", "statsmodels.WLS", "statsmodels.GLS"):
        return "identity"
    link = model.family.link if hasattr(model, "family") else getattr(model, "link", None)
    name = None if link is None else kind_of(link)
    if name not in _LINKS:
        raise Declined(f"the link of its {type(model).__name__} is none that is read: identity, log, logit")
    return _LINKS[name]
