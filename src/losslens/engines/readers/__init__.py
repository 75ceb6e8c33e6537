"""Fitted tree models as sums of trees. A model is recognised by its class name: no estimator library is imported."""

from __future__ import annotations

from collections.abc import Callable

from losslens.engines.base import Declined
from losslens.engines.readers import boosters, catboost, scikit
from losslens.engines.readers.ensemble import Ensemble
from losslens.engines.readers.recognition import kind_of
from losslens.losses import Response
from losslens.models import Model

__all__ = ["read"]

Reader = Callable[[Model, Response], Ensemble | None]

_READERS: dict[str, Reader] = {
    **{f"sklearn.{name}": scikit.read_tree for name in scikit.TREES},
    **{f"sklearn.{name}": scikit.read_forest for name in scikit.FORESTS},
    **{f"sklearn.{name}": scikit.read_boosting for name in scikit.BOOSTING},
    **{f"sklearn.{name}": scikit.read_histogram_boosting for name in scikit.HISTOGRAM_BOOSTING},
    **{f"xgboost.{name}": boosters.read_xgboost for name in boosters.XGBOOST},
    **{f"lightgbm.{name}": boosters.read_lightgbm for name in boosters.LIGHTGBM},
    **{f"catboost.{name}": catboost.read_catboost for name in catboost.CATBOOST},
}

_OF_OUTPUTS = {f"sklearn.{name}" for name in (*scikit.TREES, *scikit.FORESTS)}


def read(model: Model, response: Response) -> Ensemble | None:
    """The model as a sum of trees that gives this response; None if it is not a tree model.

    Raises `Declined` if it is a tree model that can't be read exactly. The arrays may be views of the model's arrays.
    """
    kind = kind_of(model.native)
    reader = _READERS.get(kind)
    if reader is None or response not in model.responses:
        return None
    if model.output is not None and kind not in _OF_OUTPUTS:
        raise Declined(f"one of several outputs of {model.name} is not read")
    if response != "values" and model.classes is not None and len(model.classes) < 2:
        raise Declined("it was fitted to a single class")
    try:
        ensemble = reader(model, response)
    except (AttributeError, KeyError) as error:  # not fitted, or a version with another storage format
        library = kind.partition(".")[0]
        raise Declined(f"this version of {library} stores its trees in a format that losslens can't read") from error
    return ensemble
